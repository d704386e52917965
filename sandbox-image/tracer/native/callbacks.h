/* What the callbacks for lines and functions and those for exceptions share. */
#ifndef TRACEFLEET_CALLBACKS_H
#define TRACEFLEET_CALLBACKS_H

#include "flow.h"
#include "records.h"

/* So many hits of a place are still counted when exact counting is over. */
enum { SATURATED = 1000 };

/* What an event is about. */
typedef struct Place {
    Recorder *recorder;
    PyThreadState *state;
    PyCodeObject *code;
    _PyInterpreterFrame *frame;
} Place;

/* Read the arguments of an event; false when it is not one of the frame that runs. */
static inline bool arrive(PyObject *self, PyObject *const *arguments, size_t flags, size_t count, Place *place) {
    Recorder *r = ((Callback *)self)->recorder;
    if ((size_t)PyVectorcall_NARGS(flags) != count || !r->attached || !PyCode_Check(arguments[0])) {
        return false;
    }
    place->recorder = r;
    place->state = PyThreadState_GetUnchecked();
    place->code = (PyCodeObject *)arguments[0];
    place->frame = place->state->current_frame;
    return place->frame != NULL && place->frame->f_executable == arguments[0];
}

/* Return what the thread knows of the function that runs, NULL for nothing. While not every event comes it may have missed some. */
static ALWAYS_INLINE Activation *running(const Place *place, Thread *thread, Facts *facts) {
    Recorder *r = place->recorder;
    if (thread == NULL) {
        return NULL;
    }
    if (r->saturating) {
        threads_walk(r, thread, place->frame);
    }
    return threads_top(r, thread, place->frame, facts);
}

/* The line of the instruction that a frame is at; that of its last event where there is none. */
static inline void set_line(Activation *activation) {
    int line = line_of(activation->facts, _PyInterpreterFrame_LASTI(activation->frame));
    if (line > 0) {
        activation->line = line;
    }
}

/* Add an event of the running function. */
static inline void add_event(Recorder *r, Thread *thread, Activation *activation, enum Kind kind, PyObject *value, PyObject *error) {
    if (!r->recording && ring_add_plain(r, thread, activation, kind)) {
        return;
    }
    bool looks = r->recording && r->with_values && kind != CALL && kind != RESUME && kind != THROW;
    const Node *after = looks ? late_after(activation) : NULL;
    Event event = {.kind = kind, .thread = thread, .activation = activation, .value = value, .error = error, .after = after};
    events_add(r, &event);
}

/* Whether no Python function called a frame. */
static inline bool is_outermost(const _PyInterpreterFrame *frame) {
    for (frame = frame->previous; frame != NULL; frame = frame->previous) {
        if (frame->owner != FRAME_OWNED_BY_CSTACK) {
            return false;
        }
    }
    return true;
}

/* raising.c */
PyObject *on_raise(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names);
PyObject *on_throw(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names);
PyObject *on_unwind(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names);

#endif
