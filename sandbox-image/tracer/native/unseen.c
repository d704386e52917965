/* Objects whose operators can change what others show, without an event.
 *
 * A line that only computes with local variables changes no object by itself, and what a class of the
 * program does meanwhile has events. What is left are classes of the library, such as paths that keep
 * their text when it is asked for, operators that are functions in C, and weak references that call such. */
#include "recorder.h"

/* Methods that no operator calls. */
static const char *const others[] = {
    "__init__", "__new__", "__call__", "__init_subclass__", "__class_getitem__", "__subclasshook__", "__reduce__", "__reduce_ex__",
    "__getstate__", "__setstate__", "__copy__", "__deepcopy__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__await__",
    "__dir__", "__sizeof__", "__getnewargs__", "__getnewargs_ex__", "__replace__", "__fspath__", "__post_init__", "__missing__",
};

/* Files of the library whose operators only compute. */
static const char *const harmless[] = {
    "enum.py", "dataclasses.py", "reprlib.py", "functools.py", "fractions.py", "typing.py", "_collections_abc.py", "collections/__init__.py",
};

static bool is_operator(PyObject *name) {
    if (!PyUnicode_CheckExact(name) || !PyUnicode_IS_COMPACT_ASCII(name)) {
        return false;
    }
    const char *text = PyUnicode_DATA(name);
    Py_ssize_t size = PyUnicode_GET_LENGTH(name);
    if (size < 5 || memcmp(text, "__", 2) != 0 || memcmp(text + size - 2, "__", 2) != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(text, others[i]) == 0) {
            return false;
        }
    }
    return true;
}

/* Whether a function in Python has events, or changes nothing. What has no file is generated to compute, or the program's own. */
static bool is_seen(Recorder *r, PyFunctionObject *function) {
    PyCodeObject *code = (PyCodeObject *)function->func_code;
    if (codes_find(r, code) != NULL || codes_is_user(r, code)) {
        return true;
    }
    bool generated = PyUnicode_CheckExact(code->co_filename) && PyUnicode_GET_LENGTH(code->co_filename) > 0 &&
                     PyUnicode_READ_CHAR(code->co_filename, 0) == '<';
    for (size_t i = 0; !generated && i < sizeof harmless / sizeof *harmless; i++) {
        generated = notes_is_library(code, harmless[i]);
    }
    return generated;
}

/* Whether what a class has as a method is called without an event, and may do anything. */
static bool is_foreign(Recorder *r, PyObject *method) {
    const PyTypeObject *type = Py_TYPE(method);
    if (PyFunction_Check(method)) {
        return !is_seen(r, (PyFunctionObject *)method);
    }
    bool plain = type == &PyWrapperDescr_Type || type == &PyType_Type || type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type;
    return !plain && type->tp_call != NULL;
}

/* Whether a class has an operator of that kind. */
static bool look_through(Recorder *r, const PyTypeObject *type) {
    PyObject *classes = type->tp_mro;
    for (Py_ssize_t i = 0; classes != NULL && i < PyTuple_GET_SIZE(classes); i++) {
        PyTypeObject *one = (PyTypeObject *)PyTuple_GET_ITEM(classes, i);
        PyObject *name, *method;
        Py_ssize_t at = 0;
        if (one->tp_flags & Py_TPFLAGS_IMMUTABLETYPE || one->tp_dict == NULL) {
            continue;
        }
        while (PyDict_Next(one->tp_dict, &at, &name, &method)) {
            if (is_operator(name) && is_foreign(r, method)) {
                return true;
            }
        }
    }
    return false;
}

/* Return what is known of a type, looking through it when that is nothing. Types are kept in one of a few places, so that
 * two that are used in turns cannot displace one another for ever. */
static const UnseenType *known_of(Recorder *r, const PyTypeObject *type) {
    uint32_t place = place_of(type, UNSEEN_TYPES - 1);
    unsigned version = type->tp_version_tag;
    UnseenType *known = NULL;
    for (uint32_t i = 0; i < UNSEEN_PLACES && known == NULL; i++) {
        UnseenType *one = &r->unseen_types[(place + i) % UNSEEN_TYPES];
        known = one->type == type ? one : NULL;
    }
    if (known == NULL) {
        known = &r->unseen_types[(place + r->unseen_next++ % UNSEEN_PLACES) % UNSEEN_TYPES];
    }
    if (version == 0 || known->type != type || known->version != version) {
        *known = (UnseenType){type, version, look_through(r, type)};
    }
    return known;
}

/* Whether operators on a value can change what objects show without an event, or its end can. */
bool unseen_is(Recorder *r, PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    if (PyWeakref_CheckRefExact(value)) {
        PyObject *call = ((PyWeakReference *)value)->wr_callback;
        return call != NULL && !(PyFunction_Check(call) && is_seen(r, (PyFunctionObject *)call));
    }
    if (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) {
        return false;
    }
    return known_of(r, type)->unseen;
}
