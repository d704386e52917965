/* Which events are set: for all code, and for the program's functions. */
#include "flow.h"

#include <internal/pycore_interp.h>

/* Call set_local_events or set_events: they run no code of the program. */
static void call_builtin(Recorder *r, PyObject *function, PyObject *code, long events) {
    PyObject *tool = PyLong_FromLong(TOOL), *mask = PyLong_FromLong(events), *done = NULL;
    if (tool != NULL && mask != NULL) {
        PyObject *arguments[] = {tool, code != NULL ? code : mask, mask};
        done = PyObject_Vectorcall(function, arguments, code != NULL ? 3 : 2, NULL);
    }
    if (done == NULL) {
        PyErr_Clear();
        count_up(r, C_LOST);
    }
    Py_XDECREF(tool);
    Py_XDECREF(mask);
    Py_XDECREF(done);
}

/* The events of a function that is the program's. */
long monitoring_events(const Recorder *r, const Facts *facts) {
    long events = 1 << ON_RETURN | 1 << ON_YIELD | 1 << ON_RESUME | (r->with_lines ? 1 << ON_LINE : 0);
    return events | (facts->has_arrivals ? 1 << ON_JUMP | 1 << ON_BRANCH : 0);
}

/* Set the events of one function. */
void monitoring_set_local(Recorder *r, PyCodeObject *code, long events) {
    call_builtin(r, r->set_local, (PyObject *)code, events);
}

/* Stop following exceptions; only how the program itself ends is still seen. */
void monitoring_ignore_raising(Recorder *r) {
    r->counters[C_FLAGS] |= FLAG_INEXACT;
    r->ignoring_raising = true;
    r->mask = 1 << ON_START | 1 << ON_UNWIND;
    call_builtin(r, r->set_events, NULL, r->mask);
}

/* Whether no other tool is at work: to switch all places on again would be for its eyes too. */
static bool is_alone(const Recorder *r) {
    for (int tool = 0; tool < PY_MONITORING_TOOL_IDS; tool++) {
        if (tool != TOOL && r->interpreter->monitoring_tool_names[tool] != NULL) {
            return false;
        }
    }
    return true;
}

/* Have the events again of all places that were switched off, and of exceptions. */
void monitoring_restart(Recorder *r) {
    if (r->ignoring_raising) {
        r->ignoring_raising = false;
        r->mask |= 1 << ON_RAISE | 1 << ON_THROW;
        call_builtin(r, r->set_events, NULL, r->mask);
    }
    if (is_alone(r)) {
        PyObject *done = PyObject_CallNoArgs(r->restart);
        PyErr_Clear();
        Py_XDECREF(done);
        return;
    }
    for (uint32_t i = 0; i <= r->codes.mask; i++) {
        const CodeEntry *entry = &r->codes.table[i];
        if (entry->code != NULL && entry->facts != NULL) {
            monitoring_set_local(r, entry->code, 0);
            monitoring_set_local(r, entry->code, monitoring_events(r, entry->facts));
        }
    }
}
