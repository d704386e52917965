/* How many warnings there were.
 *
 * No event tells of a warning. So the C functions behind warnings.warn and
 * warnings.warn_explicit are entered by way of one that counts: in the table from which
 * the interpreter calls them, so that the program finds the same function
 * objects, no frame more and the same behaviour. Warnings of the interpreter itself come
 * to Python only when they are shown, as a call of warnings._showwarnmsg. */
#include "notes.h"

typedef PyObject *(*Function)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

/* The functions have no place for a context; a process has one recorder. */
static Recorder *counting;
static const PyThreadState *inside; /* the thread that is in one of the functions; compared only */
static Function warn_before, explicit_before;
static PyMethodDef *warn_entry, *explicit_entry;

static PyObject *enter(Function function, PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    const PyThreadState *before = inside, *state = PyThreadState_GetUnchecked();
    if (counting != NULL && counting->attached && state->interp == counting->interpreter) {
        notes_count(counting, COUNT_WARNINGS);
        inside = state;
    }
    PyObject *result = function(self, arguments, count, names);
    inside = before;
    return result;
}

static PyObject *warn(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    return enter(warn_before, self, arguments, count, names);
}

static PyObject *warn_explicit(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names) {
    return enter(explicit_before, self, arguments, count, names);
}

/* Return the table's entry of a function of a module in C; NULL when it is not called as expected. */
static PyMethodDef *entry_of(PyObject *module, const char *name) {
    PyObject *function = PyObject_GetAttrString(module, name);
    if (function == NULL) {
        PyErr_Clear();
        return NULL;
    }
    PyMethodDef *entry = PyCFunction_CheckExact(function) ? ((PyCFunctionObject *)function)->m_ml : NULL;
    Py_DECREF(function);
    return entry != NULL && entry->ml_flags == (METH_FASTCALL | METH_KEYWORDS) ? entry : NULL;
}

/* Put a function into a table's entry; return what was there. */
static Function exchange(PyMethodDef *entry, Function function) {
    Function before = (Function)(void (*)(void))entry->ml_meth;
    entry->ml_meth = (PyCFunction)(void (*)(void))function;
    return before;
}

/* Count from now on. Called before the program starts, so the functions are the interpreter's own. */
void warnings_open(Recorder *r) {
    PyObject *module = PyImport_ImportModule("_warnings");
    if (module == NULL) {
        PyErr_Clear();
        return;
    }
    warn_entry = entry_of(module, "warn");
    explicit_entry = entry_of(module, "warn_explicit");
    Py_DECREF(module);
    if (warn_entry == NULL || explicit_entry == NULL) {
        return;
    }
    counting = r;
    warn_before = exchange(warn_entry, warn);
    explicit_before = exchange(explicit_entry, warn_explicit);
}

/* Put the functions back. */
void warnings_close(Recorder *r) {
    if (counting == r) {
        exchange(warn_entry, warn_before);
        exchange(explicit_entry, explicit_before);
        counting = NULL;
    }
}

/* A function of the library starts: whether it is the one that shows a warning,
 * which then counts unless warn or warn_explicit did. */
bool warnings_shown(Recorder *r, const PyThreadState *state, const PyCodeObject *code) {
    if (!PyUnicode_EqualToUTF8(code->co_name, "_showwarnmsg") || !notes_is_library(code, "warnings.py")) {
        return false;
    }
    if (inside != state) {
        notes_count(r, COUNT_WARNINGS);
    }
    return true;
}
