/* Definitions of functions: their numbers, names, lines and counters. */
#include "values.h"

#include "flow.h"

#include <opcode.h>

typedef struct FileName {
    struct FileName *next;
    uint64_t name;
    uint32_t number;
} FileName;

enum { MAX_LINE_RANGE = 1 << 20 };

static void facts_free(Facts *facts) {
    PyMem_RawFree(facts->lines);
    PyMem_RawFree(facts->operations);
    PyMem_RawFree(facts->counters);
    PyMem_RawFree(facts->quiet);
    PyMem_RawFree(facts->marks);
    flow_free(facts->flow);
    PyMem_RawFree(facts->probe);
    PyMem_RawFree(facts);
}

/* Free all definitions. */
void definitions_close(Codes *codes) {
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
        if (root != NULL && codes_starts_with(name, root)) {
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
            facts->fors += bytes[2 * unit] == FOR_ITER;
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
        facts->marks = PyMem_RawCalloc((size_t)facts->units + 1, 1);
    }
    const uint8_t *kinds = (const uint8_t *)PyBytes_AS_STRING(code->co_localspluskinds);
    for (int slot = 0; slot < code->co_nlocalsplus; slot++) {
        if (kinds[slot] & (CO_FAST_CELL | CO_FAST_FREE)) {
            stores_add(facts->cells, slot);
        }
    }
    if (r->with_values) {
        quiet_find(facts, code);
    }
    return facts;
}

/* Return the facts of a code object that is not in the table, making them at
 * first sight of its text. */
Facts *definitions_of(Recorder *r, PyCodeObject *code) {
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
