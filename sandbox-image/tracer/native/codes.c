/* Code objects: which are the program's, their numbers, their counters.
 *
 * User code is decided by path, never by module name: files of the job below
 * the included paths, and what user code itself runs with exec or eval. The
 * table goes by address; a watcher takes code objects out when they die. */
#include "values.h"

enum { FIRST_ROOM = 256 };

bool codes_open(Recorder *r) {
    Codes *codes = &r->codes;
    codes->table = PyMem_RawCalloc(FIRST_ROOM, sizeof(CodeEntry));
    codes->mask = FIRST_ROOM - 1;
    return codes->table != NULL && edges_open(codes);
}

void codes_close(Recorder *r) {
    Codes *codes = &r->codes;
    definitions_close(codes);
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
bool codes_starts_with(PyObject *text, PyObject *prefix) {
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
        if (size == 0 || (codes_starts_with(name, prefix) &&
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
    Facts *facts = definitions_of(r, code);
    CodeEntry *entry = facts == NULL ? NULL : entry_add(&r->codes, code);
    if (entry == NULL) {
        count_up(r, C_UNKNOWN);
        return NULL;
    }
    entry->facts = facts;
    return facts;
}
