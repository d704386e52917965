/* Exceptions: what they say, whether they are new, which limits they tell of. */
#include "values.h"

#include <internal/pycore_ceval.h>

#include <errno.h>
#include <sys/statvfs.h>

#include <opcode_ids.h>

enum { MAX_TRACEBACK = 2000, PYTHON_ROOM = 100 };

/* The tracer's own Python code has failed: forget it, unless it is what another thread of the program has thrown into this
 * one, for that the program is to have when it goes on. Such comes without arguments, or is of a class of the program. */
COLD static void give_back(PyThreadState *state) {
    PyObject *error = PyErr_GetRaisedException();
    const PyObject *arguments = ((PyBaseExceptionObject *)error)->args;
    bool bare = arguments != NULL && PyTuple_GET_SIZE(arguments) == 0 && Py_TYPE(error) != (PyTypeObject *)PyExc_MemoryError;
    if ((bare || Py_TYPE(error)->tp_flags & Py_TPFLAGS_HEAPTYPE) && _Py_atomic_load_ptr(&state->async_exc) == NULL) {
        _Py_atomic_store_ptr(&state->async_exc, Py_NewRef(Py_TYPE(error)));
        _Py_set_eval_breaker_bit(state, _PY_ASYNC_EXCEPTION_BIT);
    }
    Py_DECREF(error);
}

/* Call a function of the tracer's own in Python. It gets room on the stack of
 * its own, so that it works where the program has come to its recursion limit,
 * and what it allocates brings no collection about before its time. NULL when it
 * raised; nothing is left raised. */
PyObject *call_python(PyObject *callable, PyObject *argument) {
    PyThreadState *state = PyThreadState_GetUnchecked();
    int collects = PyGC_Disable();
    PyObject *hooks = audit_hush(state);
    state->py_recursion_remaining += PYTHON_ROOM;
    state->c_recursion_remaining += PYTHON_ROOM;
    bursts_hold();
    unsigned long held = signals_hold();
    PyObject *result = PyObject_CallOneArg(callable, argument);
    signals_release(held);
    bursts_release();
    state->py_recursion_remaining -= PYTHON_ROOM;
    state->c_recursion_remaining -= PYTHON_ROOM;
    audit_unhush(state, hooks);
    if (collects) {
        PyGC_Enable();
    }
    if (result == NULL) {
        give_back(state);
    }
    return result;
}

/* Write the name of an exception's type as tracebacks print it. */
static void type_name_make(Out *out, PyTypeObject *type) {
    uint8_t bytes[2 * (MAX_NAME * 4 + 8)];
    Out name = {bytes, bytes + sizeof bytes, false};
    PyObject *module = NULL, *key, *item;
    Py_ssize_t at = 0;
    for (int i = 0; i < 64 && module == NULL && type->tp_dict != NULL && PyDict_Next(type->tp_dict, &at, &key, &item); i++) {
        if (PyUnicode_CheckExact(key) && PyUnicode_EqualToUTF8(key, "__module__")) {
            module = PyUnicode_CheckExact(item) ? item : NULL;
            break;
        }
    }
    PyObject *parts[] = {module, ((PyHeapTypeObject *)type)->ht_qualname};
    bool silent = module != NULL && (PyUnicode_EqualToUTF8(module, "builtins") || PyUnicode_EqualToUTF8(module, "__main__"));
    for (int i = silent; i < 2; i++) {
        uint8_t part_bytes[MAX_NAME * 4 + 8];
        Out part = {part_bytes, part_bytes + sizeof part_bytes, false};
        uint64_t size = 1;
        uint8_t *text = part_bytes;
        if (parts[i] != NULL && PyUnicode_CheckExact(parts[i])) {
            text_write(&part, parts[i], MAX_NAME);
            while (*text++ & 128) {
            }
            size = (uint64_t)(part.at - text);
        } else {
            *text = '?';
        }
        for (uint64_t byte = 0; byte < size; byte++) {
            byte_write(&name, text[byte]);
        }
        if (i == 0) {
            byte_write(&name, '.');
        }
    }
    bytes_write(out, bytes, (size_t)(name.at - bytes));
}

/* The same, out of what was written before if the type has not changed since. */
static void full_name_write(Recorder *r, Out *out, PyTypeObject *type) {
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_dict == NULL) {
        bytes_write(out, type->tp_name, strnlen(type->tp_name, MAX_MESSAGE));
        return;
    }
    const uint64_t version = ((PyDictObject *)type->tp_dict)->ma_version_tag;
    PyObject *words = ((PyHeapTypeObject *)type)->ht_qualname;
    TypeName *kept = &r->type_names[(uintptr_t)type >> 5 & (sizeof r->type_names / sizeof *r->type_names - 1)];
    if (kept->type != type || kept->version != version || kept->words != words) {
        Out text = {kept->text, kept->text + sizeof kept->text, false};
        kept->type = NULL;
        type_name_make(&text, type);
        if (text.full) {
            type_name_make(out, type);
            return;
        }
        kept->type = type;
        kept->version = version;
        kept->words = words;
        kept->size = (uint32_t)(text.at - kept->text);
    }
    if ((size_t)(out->end - out->at) < kept->size) {
        out->full = true;
        return;
    }
    memcpy(out->at, kept->text, kept->size);
    out->at += kept->size;
}

/* Return the text of a plain value as its own type in C has it; NULL for any other value. */
static PyObject *plain_text(PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    bool short_text = type == &PyUnicode_Type && PyUnicode_GET_LENGTH(value) <= MAX_MESSAGE;
    bool small = type == &PyLong_Type && ((PyLongObject *)value)->long_value.lv_tag >> 3 <= MAX_BITS / PyLong_SHIFT;
    if (!short_text && !small && type != &PyFloat_Type && type != &PyBool_Type && value != Py_None) {
        return NULL;
    }
    PyObject *text = type->tp_repr(value);
    if (text == NULL) {
        PyErr_Clear();
    }
    return text;
}

/* Return what an exception with one plain argument says, as the types word it
 * that most exceptions inherit from; NULL when there is more to it. */
static PyObject *short_message(PyObject *error, PyObject *only) {
    reprfunc words = Py_TYPE(error)->tp_str;
    if (words == ((PyTypeObject *)PyExc_KeyError)->tp_str) {
        return plain_text(only);
    }
    if (words != ((PyTypeObject *)PyExc_BaseException)->tp_str) {
        return NULL;
    }
    return PyUnicode_CheckExact(only) ? Py_NewRef(only) : plain_text(only);
}

/* Whether the interpreter itself words a part of an exception. */
static bool is_plain(PyObject *part) {
    return part == NULL || part == Py_None || PyUnicode_CheckExact(part) || PyBytes_CheckExact(part) || PyLong_CheckExact(part);
}

/* Return what the system's answer to a call says; NULL when parts of it are the program's own. */
static PyObject *system_message(PyObject *error) {
    const PyOSErrorObject *answer = (PyOSErrorObject *)error;
    if (Py_TYPE(error)->tp_str != ((PyTypeObject *)PyExc_OSError)->tp_str || !is_plain(answer->myerrno) ||
        !is_plain(answer->strerror) || !is_plain(answer->filename) || !is_plain(answer->filename2)) {
        return NULL;
    }
    PyObject *text = Py_TYPE(error)->tp_str(error);
    if (text == NULL) {
        PyErr_Clear();
    }
    return text;
}

/* Write what an exception says. What short_message and system_message do not
 * know is Python's to word, when one is sparing not every time. */
static void message_write(Recorder *r, Out *out, PyObject *error, bool sparing) {
    PyObject *arguments = ((PyBaseExceptionObject *)error)->args, *text = NULL;
    Py_ssize_t count = arguments != NULL && PyTuple_CheckExact(arguments) ? PyTuple_GET_SIZE(arguments) : -1;
    if (count == 0 && Py_TYPE(error)->tp_str == ((PyTypeObject *)PyExc_BaseException)->tp_str) {
        byte_write(out, 0);
        return;
    }
    if (count == 1) {
        text = short_message(error, PyTuple_GET_ITEM(arguments, 0));
    }
    if (text == NULL && count == 2) {
        text = system_message(error);
    }
    if (text == NULL && (!sparing || notes_may_ask(r))) {
        text = call_python(r->message, error);
    }
    if (text != NULL && PyUnicode_CheckExact(text)) {
        text_write(out, text, MAX_MESSAGE);
    } else {
        byte_write(out, 0);
    }
    Py_XDECREF(text);
}

/* Write type and message of an exception. To be sparing leaves some messages out
 * that take long. */
void failure_tell(Recorder *r, Out *out, PyObject *error, bool sparing) {
    full_name_write(r, out, Py_TYPE(error));
    message_write(r, out, error, sparing);
}

/* Write type and message of an exception. */
void failure_write(Recorder *r, Out *out, PyObject *error) {
    failure_tell(r, out, error, false);
}

/* Whether the program's folders have no room for another file. */
static bool inodes_used_up(void) {
    struct statvfs facts;
    return (statvfs("/job", &facts) == 0 && facts.f_favail == 0) || (statvfs("/tmp", &facts) == 0 && facts.f_favail == 0);
}

/* Remember that the program met a limit, or the end of its input. */
void failure_note_limit(Recorder *r, PyObject *error) {
    PyTypeObject *type = Py_TYPE(error);
    if ((PyObject *)type == PyExc_EOFError) {
        r->counters[C_FLAGS] |= FLAG_INPUT_ENDED;
        return;
    }
    if (!PyType_IsSubtype(type, (PyTypeObject *)PyExc_OSError)) {
        return;
    }
    PyObject *number = ((PyOSErrorObject *)error)->myerrno;
    if (number == NULL || !PyLong_CheckExact(number)) {
        return;
    }
    int overflow;
    long code = PyLong_AsLongAndOverflow(number, &overflow);
    if (code == EMFILE) {
        r->counters[C_FLAGS] |= FLAG_HIT_FILES;
    } else if (code == EFBIG) {
        r->counters[C_FLAGS] |= FLAG_HIT_FILE_SIZE;
    } else if (code == ENOSPC) {
        r->counters[C_FLAGS] |= inodes_used_up() ? FLAG_HIT_INODES : FLAG_HIT_DISK;
    }
}

/* Whether an exception met in a user frame has not been in a deeper user frame before. */
bool failure_is_new(Recorder *r, PyObject *error) {
    PyObject *first = ((PyBaseExceptionObject *)error)->traceback;
    if (first == NULL || !PyTraceBack_Check(first)) {
        return true;
    }
    PyTracebackObject *entry = ((PyTracebackObject *)first)->tb_next;
    for (int steps = 0; entry != NULL && steps < MAX_TRACEBACK; steps++, entry = entry->tb_next) {
        _PyInterpreterFrame *frame = entry->tb_frame->f_frame;
        if (PyCode_Check(frame->f_executable) && codes_find(r, _PyFrame_GetCode(frame)) != NULL) {
            return false;
        }
    }
    return true;
}

/* Whether an exception is one with which an iteration ends. */
bool failure_ends_iteration(PyObject *error) {
    PyObject *type = (PyObject *)Py_TYPE(error);
    return type == PyExc_StopIteration || type == PyExc_StopAsyncIteration || type == PyExc_GeneratorExit;
}

/* Whether the end of an iteration was raised by a loop or an `await` rather than by a call or `raise`. */
bool failure_is_internal(Facts *facts, int unit) {
    int operation = unit >= 0 && unit < facts->units ? facts->operations[unit] : CACHE;
    return operation != CALL && operation != RAISE_VARARGS;
}
