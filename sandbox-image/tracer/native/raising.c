/* The callbacks of sys.monitoring for exceptions: they are raised, thrown into a generator, and end a function. */
#include "callbacks.h"
#include "notes.h"

/* Put an exception on the list. */
static void note(const Place *place, Thread *thread, Facts *facts, PyObject *error) {
    if (thread != NULL) {
        notes_exception(place->recorder, thread, facts, line_of(facts, _PyInterpreterFrame_LASTI(place->frame)), error);
    }
}

/* An exception is thrown into a suspended generator or coroutine of any code. */
PyObject *on_throw(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names) {
    (void)names;
    Place place;
    if (!arrive(self, arguments, flags, 3, &place) || !PyExceptionInstance_Check(arguments[2])) {
        Py_RETURN_NONE;
    }
    Recorder *r = place.recorder;
    Facts *facts = codes_get(r, place.code);
    if (facts == NULL || r->saturating) {
        Py_RETURN_NONE;
    }
    count_up(r, C_OTHER);
    Thread *thread = threads_current(r, place.state);
    if (thread == NULL) {
        Py_RETURN_NONE;
    }
    _PyInterpreterFrame *lenders[MOST_LENDERS], *below;
    int count = threads_lenders(thread, place.frame, lenders, &below);
    if (r->passing) {
        late_parent(r, thread, below);
    }
    threads_lend(r, thread, lenders, count);
    Activation *activation = threads_resume(r, thread, place.frame, facts);
    if (activation != NULL) {
        set_line(activation);
        add_event(r, thread, activation, THROW, NULL, arguments[2]);
        activation->node = -1; /* what follows is that it is raised here */
        revising_settle(r, facts);
    }
    Py_RETURN_NONE;
}

/* An exception is raised in, or passes into, a frame of any code. */
PyObject *on_raise(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names) {
    (void)names;
    Place place;
    if (!arrive(self, arguments, flags, 3, &place) || !PyExceptionInstance_Check(arguments[2])) {
        Py_RETURN_NONE;
    }
    Recorder *r = place.recorder;
    PyObject *error = arguments[2];
    Facts *facts = codes_get(r, place.code);
    if (r->notes.pendings > 0) {
        notes_outcome(r, place.state, place.frame, error);
    }
    if (facts == NULL) {
        failure_note_limit(r, error);
        Py_RETURN_NONE;
    }
    count_up(r, C_OTHER);
    if (r->saturating && !r->ignoring_raising && r->counters[C_RAISED] > SATURATED) {
        monitoring_ignore_raising(r);
    }
    Thread *thread = threads_current(r, place.state);
    Activation *activation = running(&place, thread, facts);
    if (activation != NULL && r->passing) {
        late_reach(r, thread, activation);
    }
    bool ends = failure_ends_iteration(error);
    if (failure_is_new(r, error)) {
        failure_note_limit(r, error);
        r->counters[C_RAISED] += !ends;
        if (!ends) {
            note(&place, thread, facts, error);
        }
    }
    if (activation == NULL) {
        Py_RETURN_NONE;
    }
    if (!ends || !failure_is_internal(facts, _PyInterpreterFrame_LASTI(place.frame))) {
        set_line(activation);
        add_event(r, thread, activation, EXCEPTION, NULL, error);
        revising_settle(r, facts);
    }
    late_land(activation, small_number(arguments[1]) / (int)sizeof(_Py_CODEUNIT), error);
    Py_RETURN_NONE;
}

/* An exception ends the program. It is put on the list now when nobody saw it being raised. */
COLD static void ends_program(const Place *place, Facts *facts, PyObject *error) {
    if (!notes_fate(place->recorder, error, FATE_PROGRAM)) {
        note(place, threads_current(place->recorder, place->state), facts, error);
        notes_fate(place->recorder, error, FATE_PROGRAM);
    }
}

/* A frame of any code ends by an exception. */
PyObject *on_unwind(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names) {
    (void)names;
    Place place;
    if (!arrive(self, arguments, flags, 3, &place) || !PyExceptionInstance_Check(arguments[2])) {
        Py_RETURN_NONE;
    }
    Recorder *r = place.recorder;
    Facts *facts = codes_get(r, place.code);
    if (place.state != r->main_state) {
        notes_unwind(r, place.state, place.frame, arguments[2]);
    }
    if (facts == NULL) {
        Py_RETURN_NONE;
    }
    if (place.code == r->main_code && is_outermost(place.frame)) {
        Py_XDECREF(call_python(r->fail, arguments[2]));
        ends_program(&place, facts, arguments[2]);
    }
    count_up(r, C_OTHER);
    Thread *thread = r->ignoring_raising ? NULL : threads_current(r, place.state);
    Activation *activation = running(&place, thread, facts);
    if (activation != NULL) {
        if (r->passing) {
            late_leave(r, thread, activation);
        }
        set_line(activation);
        add_event(r, thread, activation, UNWIND, NULL, arguments[2]);
        revising_settle(r, facts);
        threads_pop(r, thread, place.frame);
    }
    Py_RETURN_NONE;
}
