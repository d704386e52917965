/* Code objects: which are the program's, their numbers, their counters.
 *
 * User code is decided by path, never by module name: files of the job below
 * the included paths, and what user code itself runs with exec or eval. The
 * table goes by address; a watcher takes code objects out when they die. */
#include "recorder.h"

typedef struct Edge {
    Facts *caller, *callee;
    uint32_t counter;
} Edge;

typedef struct FileName {
    struct FileName *next;
    uint64_t name;
    uint32_t number;
} FileName;

enum { FIRST_ROOM = 256, MAX_EDGES = 1 << 16, MAX_LINE_RANGE = 1 << 20 };

static uint32_t place_of(const void *address, uint32_t mask) {
    return (uint32_t)(((uintptr_t)address >> 4) * 0x9E3779B1u >> 4) & mask;
}

bool codes_open(Recorder *r) {
    Codes *codes = &r->codes;
    codes->table = PyMem_RawCalloc(FIRST_ROOM, sizeof(CodeEntry));
    codes->edges = PyMem_RawCalloc(FIRST_ROOM, sizeof(Edge));
    codes->mask = codes->edge_mask = FIRST_ROOM - 1;
    return codes->table != NULL && codes->edges != NULL;
}

static void facts_free(Facts *facts) {
    PyMem_RawFree(facts->lines);
    PyMem_RawFree(facts->operations);
    PyMem_RawFree(facts->counters);
    PyMem_RawFree(facts->probe);
    PyMem_RawFree(facts);
}

void codes_close(Recorder *r) {
    Codes *codes = &r->codes;
    for (size_t i = 0; i < sizeof codes->buckets / sizeof *codes->buckets; i++) {
        while (codes->buckets[i] != NULL) {
            Facts *facts = codes->buckets[i];
            codes->buckets[i] = facts->next;
            facts_free(facts);
        }
    }
    while (codes->files != NULL) {
        FileName *file = codes->files;
        codes->files = file->next;
        PyMem_RawFree(file);
    }
    PyMem_RawFree(codes->table);
    PyMem_RawFree(codes->edges);
    codes->table = NULL;
    codes->edges = NULL;
}

/* Return the entry of a code object, or the free one where it belongs. */
static CodeEntry *entry_of(const Codes *codes, PyCodeObject *code) {
    uint32_t at = place_of(code, codes->mask);
    while (codes->table[at].code != NULL && codes->table[at].code != code) {
        at = (at + 1) & codes->mask;
    }
    return &codes->table[at];
}

/* Take a code object into the table. */
static CodeEntry *entry_add(Codes *codes, PyCodeObject *code) {
    if (codes->used * 2 > codes->mask) {
        Codes larger = {.mask = codes->mask * 2 + 1};
        larger.table = PyMem_RawCalloc((size_t)larger.mask + 1, sizeof(CodeEntry));
        if (larger.table == NULL) {
            return NULL;
        }
        for (uint32_t i = 0; i <= codes->mask; i++) {
            if (codes->table[i].code != NULL) {
                *entry_of(&larger, codes->table[i].code) = codes->table[i];
            }
        }
        PyMem_RawFree(codes->table);
        codes->table = larger.table;
        codes->mask = larger.mask;
    }
    CodeEntry *entry = entry_of(codes, code);
    if (entry->code == NULL) {
        *entry = (CodeEntry){code, NULL};
        codes->used++;
    }
    return entry;
}

/* A code object dies: its address may be another's soon. Entries that follow
 * move up, so that each can be found from where it belongs. */
void codes_forget(Recorder *r, PyCodeObject *code) {
    Codes *codes = &r->codes;
    if (codes->table == NULL) {
        return;
    }
    if (r->last_code == code) {
        r->last_code = NULL;
    }
    CodeEntry *entry = entry_of(codes, code);
    if (entry->code == NULL) {
        return;
    }
    codes->used--;
    uint32_t hole = (uint32_t)(entry - codes->table), at = hole;
    for (;;) {
        codes->table[hole].code = NULL;
        uint32_t home;
        do {
            at = (at + 1) & codes->mask;
            if (codes->table[at].code == NULL) {
                return;
            }
            home = place_of(codes->table[at].code, codes->mask);
        } while (((at - home) & codes->mask) < ((at - hole) & codes->mask));
        codes->table[hole] = codes->table[at];
        hole = at;
    }
}

/* Return the facts of user code that is defined, else NULL. */
Facts *codes_find(Recorder *r, PyCodeObject *code) {
    CodeEntry *entry = entry_of(&r->codes, code);
    return entry->code == NULL ? NULL : entry->facts;
}

/* Whether the text starts with a prefix, as ASCII. */
static bool starts_with(PyObject *text, PyObject *prefix) {
    return PyUnicode_Tailmatch(text, prefix, 0, PY_SSIZE_T_MAX, -1) == 1;
}

/* Whether a file counts as user code by its path. The paths are absolute; a
 * relative name is one below the job's folder, and no prefix but /job fits it. */
static bool is_included(Recorder *r, PyObject *name) {
    if (!PyUnicode_CheckExact(name) || PyUnicode_GET_LENGTH(name) == 0) {
        return false;
    }
    Py_UCS4 first = PyUnicode_READ_CHAR(name, 0);
    if (first == '<') {
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(r->include); i++) {
        PyObject *pair = PyTuple_GET_ITEM(r->include, i);
        PyObject *prefix = PyTuple_GET_ITEM(pair, first == '/' ? 0 : 1);
        Py_ssize_t size = PyUnicode_GET_LENGTH(prefix);
        if (size == 0 || (starts_with(name, prefix) &&
                          (PyUnicode_READ_CHAR(prefix, size - 1) == '/' || PyUnicode_GET_LENGTH(name) == size ||
                           PyUnicode_READ_CHAR(name, size) == '/'))) {
            return true;
        }
    }
    return false;
}

bool codes_is_user(Recorder *r, PyCodeObject *code) {
    return entry_of(&r->codes, code)->code != NULL || is_included(r, code->co_filename);
}

/* Take code that user code compiled, and the functions in it, as user code. */
static void adopt(Recorder *r, PyCodeObject *code, int depth) {
    if (depth > 50 || entry_add(&r->codes, code) == NULL) {
        return;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); i++) {
        PyObject *constant = PyTuple_GET_ITEM(code->co_consts, i);
        if (PyCode_Check(constant) && entry_of(&r->codes, (PyCodeObject *)constant)->code == NULL) {
            adopt(r, (PyCodeObject *)constant, depth + 1);
        }
    }
}

/* Return the code of the function that called a frame, as Python sees it. */
static PyCodeObject *caller_of(_PyInterpreterFrame *frame) {
    for (frame = frame->previous; frame != NULL; frame = frame->previous) {
        if (frame->owner != FRAME_OWNED_BY_CSTACK && PyCode_Check(frame->f_executable) &&
            !_PyFrame_IsIncomplete(frame)) {
            return _PyFrame_GetCode(frame);
        }
    }
    return NULL;
}

/* Fingerprint what a definition says, so that the same text compiled again is the same function. */
static uint64_t content_of(PyCodeObject *code, const char *bytes, Py_ssize_t size) {
    uint64_t print = mix((uint64_t)code->co_firstlineno + 1, (uint64_t)code->co_flags);
    const PyObject *parts[] = {code->co_linetable, code->co_localspluskinds};
    for (Py_ssize_t i = 0; i < size; i++) {
        print = mix(print, (uint8_t)bytes[i]);
    }
    for (int part = 0; part < 2; part++) {
        const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(parts[part]);
        for (Py_ssize_t i = 0; i < PyBytes_GET_SIZE(parts[part]); i++) {
            print = mix(print, data[i]);
        }
    }
    for (int i = 0; i < code->co_nlocalsplus; i++) {
        print = mix(print, text_print(PyTuple_GET_ITEM(code->co_localsplusnames, i)));
    }
    print = mix(print, text_print(code->co_filename));
    return mix(print, text_print(code->co_qualname));
}

/* Say what sort of function a code object is, in the words of execution-trace/1. */
static const char *kind_of(PyCodeObject *code) {
    if (PyUnicode_EqualToUTF8(code->co_name, "<lambda>")) {
        return "lambda";
    }
    if (PyUnicode_EqualToUTF8(code->co_name, "<genexpr>")) {
        return "genexpr";
    }
    if (code->co_flags & CO_ASYNC_GENERATOR) {
        return "async_generator";
    }
    if (code->co_flags & CO_COROUTINE) {
        return "coroutine";
    }
    if (code->co_flags & CO_GENERATOR) {
        return "generator";
    }
    if (code->co_flags & CO_OPTIMIZED) {
        return "function";
    }
    return PyUnicode_EqualToUTF8(code->co_name, "<module>") ? "module" : "class";
}

/* Return the number of a source file, defining it at first sight; 0 when there is no room. */
static uint32_t file_of(Recorder *r, PyObject *name) {
    uint64_t print = text_print(name);
    for (FileName *file = r->codes.files; file != NULL; file = file->next) {
        if (file->name == print) {
            return file->number;
        }
    }
    FileName *file = PyMem_RawCalloc(1, sizeof *file);
    if (file == NULL) {
        return 0;
    }
    PyObject *path = NULL;
    if (PyUnicode_CheckExact(name) && PyUnicode_GET_LENGTH(name) > 5 && PyUnicode_READ_CHAR(name, 0) == '/') {
        PyObject *root = PyUnicode_FromString("/job/");
        if (root != NULL && starts_with(name, root)) {
            path = PyUnicode_Substring(name, 5, PyUnicode_GET_LENGTH(name));
        }
        Py_XDECREF(root);
        PyErr_Clear();
    }
    Text text = {0};
    text_add(&text, "[\"file\",%u,", r->codes.last_file + 1);
    text_quote(&text, path != NULL ? path : name, 2 * MAX_NAME);
    text_add(&text, "]");
    Py_XDECREF(path);
    if (text.failed || !memory_define(r, text.data, text.size)) {
        text_free(&text);
        PyMem_RawFree(file);
        return 0;
    }
    text_free(&text);
    *file = (FileName){r->codes.files, print, ++r->codes.last_file};
    r->codes.files = file;
    return file->number;
}

/* Give counters to the function's starts and to its lines, and append the runs
 * of lines that have one. False when there is no room. */
static bool count_lines(Recorder *r, Facts *facts, Text *runs) {
    int low = INT32_MAX, high = 0;
    for (int unit = 0; r->with_lines && unit < facts->units; unit++) {
        int line = facts->lines[unit];
        if (line > 0) {
            low = Py_MIN(low, line);
            high = Py_MAX(high, line);
        }
    }
    uint32_t count = 0;
    if (high > 0 && high - low < MAX_LINE_RANGE) {
        facts->counters = PyMem_RawCalloc((size_t)(high - low) + 1, sizeof(uint32_t));
        if (facts->counters == NULL) {
            return false;
        }
        facts->low_line = low;
        facts->high_line = high;
        for (int unit = 0; unit < facts->units; unit++) {
            int line = facts->lines[unit];
            if (line > 0 && facts->counters[line - low] == 0) {
                facts->counters[line - low] = 1;
                count++;
            }
        }
    }
    facts->calls = memory_counters(r, count + 1);
    if (facts->calls == 0) {
        return false;
    }
    uint32_t next = facts->calls;
    for (int line = low; count > 0 && line <= high; line++) {
        if (facts->counters[line - low] == 0) {
            continue;
        }
        facts->counters[line - low] = ++next;
        int first = line;
        while (line < high && facts->counters[line + 1 - low] != 0) {
            line++;
            facts->counters[line - low] = ++next;
        }
        text_add(runs, "%s%d,%d", runs->size > 0 ? "," : "", first, line);
    }
    return true;
}

/* Write the definition of a function: its number, place, names and counters. */
static bool write_definition(Recorder *r, Facts *facts, PyCodeObject *code, const Text *runs, uint32_t file) {
    Text text = {0};
    text_add(&text, "[\"code\",%u,%u,%d,", facts->number, file, code->co_firstlineno);
    text_quote(&text, code->co_qualname, MAX_NAME);
    text_add(&text, ",\"%s\",[", kind_of(code));
    int arguments = code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
                    !!(code->co_flags & CO_VARKEYWORDS);
    arguments = Py_MIN(Py_MIN(arguments, MAX_ARGUMENTS), code->co_nlocalsplus);
    for (int i = 0; i < arguments; i++) {
        text_add(&text, "%s", i > 0 ? "," : "");
        text_quote(&text, PyTuple_GET_ITEM(code->co_localsplusnames, i), MAX_NAME);
    }
    text_add(&text, "],%u,[", facts->calls);
    for (size_t at = 0; at < runs->size; at += 200) {
        text_add(&text, "%.*s", (int)Py_MIN(runs->size - at, 200), runs->data + at);
    }
    text_add(&text, "],[");
    for (int i = 0; i < Py_MIN(code->co_nlocalsplus, MAX_VARIABLES); i++) {
        PyObject *name = PyTuple_GET_ITEM(code->co_localsplusnames, i);
        text_add(&text, "%s", i > 0 ? "," : "");
        text_quote(&text, name, MAX_NAME);
        facts->hidden[i] = !PyUnicode_CheckExact(name) || name_is_special(name);
    }
    text_add(&text, "]]");
    bool written = !text.failed && !runs->failed && memory_define(r, text.data, text.size);
    text_free(&text);
    return written;
}

/* Make the facts of a code object and define it; NULL when there is no room. */
static Facts *define(Recorder *r, PyCodeObject *code, const uint8_t *bytes, uint64_t content) {
    Facts *facts = PyMem_RawCalloc(1, sizeof *facts);
    if (facts == NULL) {
        return NULL;
    }
    facts->units = (int)Py_SIZE(code);
    facts->content = content;
    facts->first_line = Py_MAX(code->co_firstlineno, 0);
    facts->lines = PyMem_RawMalloc(((size_t)facts->units + 1) * sizeof(int32_t));
    facts->operations = PyMem_RawMalloc((size_t)facts->units + 1);
    uint32_t file = file_of(r, code->co_filename);
    Text runs = {0};
    bool good = file != 0 && facts->lines != NULL && facts->operations != NULL && lines_read(code, facts->lines, facts->units);
    if (good) {
        for (int unit = 0; unit < facts->units; unit++) {
            facts->operations[unit] = bytes[2 * unit];
        }
        facts->number = r->codes.last + 1;
        good = count_lines(r, facts, &runs) && write_definition(r, facts, code, &runs, file);
    }
    text_free(&runs);
    if (!good) {
        facts_free(facts);
        return NULL;
    }
    r->codes.last++;
    Facts **bucket = &r->codes.buckets[content % (sizeof r->codes.buckets / sizeof *r->codes.buckets)];
    facts->next = *bucket;
    *bucket = facts;
    if (facts->counters != NULL) {
        loops_define(r, facts, code);
    }
    return facts;
}

/* Return the facts of a code object that is not in the table, making them at
 * first sight of its text. */
static Facts *facts_of(Recorder *r, PyCodeObject *code) {
    PyObject *bytes = PyCode_GetCode(code);
    if (bytes == NULL) {
        PyErr_Clear();
        return NULL;
    }
    uint64_t content = content_of(code, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
    Facts *facts = r->codes.buckets[content % (sizeof r->codes.buckets / sizeof *r->codes.buckets)];
    while (facts != NULL && (facts->content != content || facts->units != (int)Py_SIZE(code))) {
        facts = facts->next;
    }
    if (facts == NULL) {
        facts = define(r, code, (const uint8_t *)PyBytes_AS_STRING(bytes), content);
    }
    Py_DECREF(bytes);
    return facts;
}

/* Return the facts of user code that begins to run in a frame, defining it at
 * first sight. NULL for other code, and when the memory has no room for
 * another definition; that is counted. */
Facts *codes_meet(Recorder *r, PyCodeObject *code, _PyInterpreterFrame *frame) {
    Facts *known = codes_find(r, code);
    if (known != NULL) {
        return known;
    }
    bool included = is_included(r, code->co_filename);
    if (!included && PyUnicode_EqualToUTF8(code->co_name, "<module>")) {
        PyCodeObject *caller = caller_of(frame);
        if (caller != NULL && codes_find(r, caller) != NULL) {
            adopt(r, code, 0);
        }
    }
    if (!included && entry_of(&r->codes, code)->code == NULL) {
        return NULL;
    }
    Facts *facts = facts_of(r, code);
    CodeEntry *entry = facts == NULL ? NULL : entry_add(&r->codes, code);
    if (entry == NULL) {
        count_up(r, C_UNKNOWN);
        return NULL;
    }
    entry->facts = facts;
    return facts;
}

static Edge *edge_at(Edge *edges, uint32_t mask, const Facts *caller, const Facts *callee) {
    uint32_t at = (caller->number * 0x9E3779B1u ^ callee->number * 0x85EBCA6Bu) >> 7 & mask;
    while (edges[at].caller != NULL && (edges[at].caller != caller || edges[at].callee != callee)) {
        at = (at + 1) & mask;
    }
    return &edges[at];
}

/* Make the table of edges twice as large. */
static void edges_grow(Codes *codes) {
    uint32_t mask = codes->edge_mask * 2 + 1;
    Edge *larger = PyMem_RawCalloc((size_t)mask + 1, sizeof(Edge));
    if (larger == NULL) {
        return;
    }
    for (uint32_t i = 0; i <= codes->edge_mask; i++) {
        if (codes->edges[i].caller != NULL) {
            *edge_at(larger, mask, codes->edges[i].caller, codes->edges[i].callee) = codes->edges[i];
        }
    }
    PyMem_RawFree(codes->edges);
    codes->edges = larger;
    codes->edge_mask = mask;
}

/* Return the counter of calls from one function to another; C_NOWHERE when there is none left. */
uint32_t codes_edge(Recorder *r, Facts *caller, Facts *callee) {
    Codes *codes = &r->codes;
    Edge *edge = edge_at(codes->edges, codes->edge_mask, caller, callee);
    if (edge->caller == NULL) {
        if (codes->edge_count >= MAX_EDGES || codes->edge_count * 2 > codes->edge_mask) {
            edges_grow(codes);
            edge = edge_at(codes->edges, codes->edge_mask, caller, callee);
        }
        if (codes->edge_count >= MAX_EDGES || codes->edge_count * 4 > codes->edge_mask * 3) {
            count_up(r, C_UNKNOWN);
            return C_NOWHERE;
        }
        uint32_t counter = memory_counters(r, 1);
        Text text = {0};
        text_add(&text, "[\"edge\",%u,%u,%u]", caller->number, callee->number, counter);
        if (counter == 0 || text.failed || !memory_define(r, text.data, text.size)) {
            count_up(r, C_UNKNOWN);
            counter = C_NOWHERE;
        }
        text_free(&text);
        *edge = (Edge){caller, callee, counter};
        codes->edge_count++;
    }
    callee->caller = caller;
    callee->caller_counter = edge->counter;
    return edge->counter;
}
