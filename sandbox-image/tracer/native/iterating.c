/* What loops take items from. Most iterators compute their next item at once; a file's waits for it,
 * and a line that does is never passed. */
#include "flow.h"

#include <opcode.h>

/* As Objects/enumobject.c and Python/bltinmodule.c lay these iterators out. */
typedef struct Enumerated {
    PyObject_HEAD
    Py_ssize_t index;
    PyObject *inner;
} Enumerated;
typedef struct Zipped {
    PyObject_HEAD
    Py_ssize_t size;
    PyObject *inner;
} Zipped;

/* Whether taking an item from an iterator neither waits nor changes what other objects show. */
static bool is_safe_iterator(Recorder *r, PyObject *iterator, int depth) {
    if (iterator == NULL) {
        return false;
    }
    PyTypeObject *type = Py_TYPE(iterator);
    if (type == &PyRangeIter_Type || type == &PyListIter_Type || type == &PyTupleIter_Type || type == &PyDictIterKey_Type ||
        type == &PyDictIterItem_Type || type == &PyDictIterValue_Type || type == &PySetIter_Type || type == &PyUnicodeIter_Type ||
        type == &PyLongRangeIter_Type || type == &PyListRevIter_Type || type == &PyBytesIter_Type) {
        return true;
    }
    if (type == &PyGen_Type) { /* when it is the program's it has events of its own */
        PyObject *code = ((_PyInterpreterFrame *)((PyGenObject *)iterator)->gi_iframe)->f_executable;
        return code != NULL && PyCode_Check(code) && (codes_find(r, (PyCodeObject *)code) != NULL || codes_is_user(r, (PyCodeObject *)code));
    }
    if (type == &PyEnum_Type && depth < 3) {
        return is_safe_iterator(r, ((Enumerated *)iterator)->inner, depth + 1);
    }
    if (type == &PyZip_Type && depth < 3) {
        PyObject *inner = ((Zipped *)iterator)->inner;
        bool safe = PyTuple_CheckExact(inner);
        for (Py_ssize_t i = 0; safe && i < PyTuple_GET_SIZE(inner); i++) {
            safe = is_safe_iterator(r, PyTuple_GET_ITEM(inner, i), depth + 1);
        }
        return safe;
    }
    return strcmp(type->tp_name, "str_ascii_iterator") == 0 && type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE;
}

/* Whether iterating over a value is as safe. */
static bool is_safe_iterable(Recorder *r, PyObject *value) {
    const PyTypeObject *type = Py_TYPE(value);
    return type == &PyList_Type || type == &PyTuple_Type || type == &PyDict_Type || type == &PySet_Type || type == &PyUnicode_Type ||
           type == &PyRange_Type || type == &PyBytes_Type || type == &PyFrozenSet_Type || is_safe_iterator(r, value, 0);
}

/* Whether an instruction starts to iterate over what a variable holds. */
static bool iterates_over(const Facts *facts, PyCodeObject *code, int unit, int slot) {
    return unit > 0 && facts->operations[unit] == GET_ITER && facts->operations[unit - 1] == LOAD_FAST &&
           _PyCode_CODE(code)[unit - 1].op.arg == slot && !(unit > 1 && facts->operations[unit - 2] == EXTENDED_ARG);
}

/* Return the arguments that a function iterates over and never changes. */
uint64_t iterating_arguments(const Facts *facts, PyCodeObject *code) {
    Node all = {.unit = 0};
    uint64_t iterated = 0;
    int arguments = Py_MIN(code->co_argcount + code->co_kwonlyargcount, 64);
    for (int unit = 0; unit < facts->units; unit++) {
        bool extended = unit > 0 && facts->operations[unit - 1] == EXTENDED_ARG; /* then it is not about one of the first */
        if (!extended) {
            judging_stores(&all, facts->operations[unit], _PyCode_CODE(code)[unit].op.arg);
        }
        for (int slot = 0; facts->operations[unit] == GET_ITER && slot < arguments; slot++) {
            iterated |= (uint64_t)iterates_over(facts, code, unit, slot) << slot;
        }
    }
    return iterated & ~all.stores[0] & ~facts->cells[0];
}

/* Whether an instruction starts to iterate over what may wait for each item, as a file does. The event of its line comes, so that
 * all before it is recorded. */
bool iterating_may_wait(const Facts *facts, PyCodeObject *code, int unit) {
    if (facts->operations[unit] != GET_ITER || unit == 0) {
        return false;
    }
    int before = facts->operations[unit - 1];
    for (uint64_t left = facts->iterated; left != 0; left &= left - 1) {
        if (iterates_over(facts, code, unit, __builtin_ctzll(left))) {
            return false;
        }
    }
    return before != LOAD_CONST && before != BUILD_LIST && before != BUILD_TUPLE && before != BUILD_SET && before != BUILD_MAP;
}

/* A function starts: see whether loops go over arguments that may wait. */
void iterating_meet(Recorder *r, Facts *facts, const _PyInterpreterFrame *frame) {
    PyCodeObject *code = (PyCodeObject *)frame->f_executable;
    for (uint64_t left = facts->iterated; left != 0; left &= left - 1) {
        int slot = __builtin_ctzll(left);
        PyObject *value = frame->localsplus[slot];
        if (value != NULL && is_safe_iterable(r, value)) {
            continue;
        }
        facts->iterated &= ~((uint64_t)1 << slot);
        for (int unit = 0; unit < facts->units; unit++) {
            if (iterates_over(facts, code, unit, slot)) {
                revising_note(facts, unit, MARK_WAITS);
            }
        }
    }
}

/* Note which FOR_ITER takes items from an iterator that may wait: the one of the loop that is so far from the outermost. */
COLD static void mark_loop(Facts *facts, PyCodeObject *code, int unit, int depth) {
    for (int at = 0; at < unit; at++) {
        if (facts->operations[at] != FOR_ITER) {
            continue;
        }
        int argument = 0, first = at;
        while (first > 0 && facts->operations[first - 1] == EXTENDED_ARG) {
            first--;
        }
        for (int i = first; i <= at; i++) {
            argument = argument << 8 | _PyCode_CODE(code)[i].op.arg;
        }
        if (at + 2 + argument > unit && depth-- == 0) { /* past its cache */
            revising_note(facts, at, MARK_UNSAFE);
        }
    }
}

/* Look at the iterators of the loops that a frame is in: they wait on the stack, the outermost first. */
void iterating_look(Recorder *r, Facts *facts, const _PyInterpreterFrame *frame, PyCodeObject *code, int unit) {
    bool at_one = facts->operations[unit] == FOR_ITER;
    for (int slot = code->co_nlocalsplus, depth = 0; slot < frame->stacktop; slot++) {
        PyObject *value = frame->localsplus[slot];
        bool last = at_one && slot == frame->stacktop - 1;
        if (value == NULL || (Py_TYPE(value)->tp_iternext == NULL && !last)) {
            continue;
        }
        if (is_safe_iterator(r, value, 0)) {
            depth++;
        } else if (last) {
            revising_note(facts, unit, MARK_UNSAFE);
        } else {
            mark_loop(facts, code, unit, depth++);
        }
    }
}
