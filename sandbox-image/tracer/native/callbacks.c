/* The callbacks of sys.monitoring: one function for each event.
 *
 * They are vectorcall functions, so that an event costs no more than a call. The
 * program can get hold of them and call them as it likes: arguments are checked,
 * and a call that is not about the frame that runs does nothing. They never
 * raise. What they return switches a place off (DISABLE) or nothing (None). */
#include "notes.h"

#include "flow.h"

#include <internal/pycore_interp.h>

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

/* Say whether a place is still counted after so many hits. */
static PyObject *judge(Recorder *r, uint64_t hits) {
    if (hits < SATURATED) {
        Py_RETURN_NONE;
    }
    r->counters[C_FLAGS] |= FLAG_INEXACT;
    return Py_NewRef(r->disable);
}

/* The line of the instruction that a frame is at; that of its last event where there is none. */
static void set_line(Activation *activation) {
    int line = line_of(activation->facts, _PyInterpreterFrame_LASTI(activation->frame));
    if (line > 0) {
        activation->line = line;
    }
}

/* Add an event of the running function. */
static void add(Recorder *r, Thread *thread, Activation *activation, enum Kind kind, PyObject *value, PyObject *error) {
    bool looks = r->recording && r->with_values && kind != CALL && kind != RESUME && kind != THROW;
    const Node *after = looks ? late_after(activation) : NULL;
    Event event = {.kind = kind, .thread = thread, .activation = activation, .value = value, .error = error, .after = after};
    events_add(r, &event);
}

/* Whether no Python function called a frame. */
static bool is_outermost(const _PyInterpreterFrame *frame) {
    for (frame = frame->previous; frame != NULL; frame = frame->previous) {
        if (frame->owner != FRAME_OWNED_BY_CSTACK) {
            return false;
        }
    }
    return true;
}

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
long callbacks_events(const Recorder *r, const Facts *facts) {
    long events = 1 << ON_RETURN | 1 << ON_YIELD | 1 << ON_RESUME | (r->with_lines ? 1 << ON_LINE : 0);
    return events | (facts->has_arrivals ? 1 << ON_JUMP | 1 << ON_BRANCH : 0);
}

void callbacks_set_local(Recorder *r, PyCodeObject *code, long events) {
    call_builtin(r, r->set_local, (PyObject *)code, events);
}

/* Have the events of a function that is met for the first time. */
static Facts *meet(Place *place) {
    Recorder *r = place->recorder;
    Facts *facts = codes_meet(r, place->code, place->frame);
    if (facts == NULL) {
        return NULL;
    }
    if (r->main_code == NULL && is_outermost(place->frame) && PyUnicode_EqualToUTF8(place->code->co_name, "<module>")) {
        r->main_code = place->code;
    }
    callbacks_set_local(r, place->code, callbacks_events(r, facts));
    return facts;
}

/* A function of any code begins: count it, or switch the event off when it is not user code. */
static PyObject *on_start(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names) {
    (void)names;
    Place place;
    if (!arrive(self, arguments, flags, 2, &place)) {
        Py_RETURN_NONE;
    }
    Recorder *r = place.recorder;
    Facts *facts = codes_get(r, place.code);
    if (facts == NULL && (facts = meet(&place)) == NULL) {
        return Py_NewRef(warnings_shown(r, place.state, place.code) ? Py_None : r->disable);
    }
    uint64_t hits = count_up(r, facts->calls);
    Thread *thread = threads_current(r, place.state);
    if (thread == NULL) {
        Py_RETURN_NONE;
    }
    if (r->saturating) {
        threads_walk(r, thread, place.frame->previous);
    } else if (r->passing) {
        if (!r->prying && place.frame->previous != NULL && place.frame->previous->owner == FRAME_OWNED_BY_CSTACK) {
            prying_meet(r, place.frame);
        }
        late_parent(r, thread, place.frame->previous);
    }
    Facts *caller = thread->depth > 0 ? thread->stack[thread->depth - 1].facts : NULL;
    Activation *activation = threads_push(r, thread, place.frame, facts);
    if (caller != NULL) {
        count_up(r, facts->caller == caller ? facts->caller_counter : edges_count(r, caller, facts));
    }
    if (activation != NULL) {
        activation->node = 0;
        if (facts->iterated != 0 && r->passing) {
            late_arguments(r, facts, place.frame);
        }
        add(r, thread, activation, CALL, NULL, NULL);
        late_settle(r, facts);
    }
    if (r->saturating) {
        return judge(r, hits);
    }
    Py_RETURN_NONE;
}

/* Return a small number, -1 for anything else. */
static int small_number(PyObject *number) {
    if (!PyLong_CheckExact(number) || !PyUnstable_Long_IsCompact((PyLongObject *)number)) {
        return -1;
    }
    Py_ssize_t value = PyUnstable_Long_CompactValue((PyLongObject *)number);
    return value >= 0 && value <= INT32_MAX ? (int)value : -1;
}

/* A line of user code is about to run. */
static PyObject *on_line(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names) {
    (void)names;
    Place place;
    if (!arrive(self, arguments, flags, 2, &place)) {
        Py_RETURN_NONE;
    }
    Recorder *r = place.recorder;
    Facts *facts = codes_get(r, place.code);
    int line = small_number(arguments[1]);
    if (facts == NULL || line < facts->low_line || line > facts->high_line || facts->counters == NULL) {
        return Py_NewRef(r->disable);
    }
    uint32_t counter = facts->counters[line - facts->low_line];
    if (counter == 0) {
        return Py_NewRef(r->disable); /* line 0: what the compiler added */
    }
    if (r->saturating && r->passing) {
        late_stop(r);
    }
    uint64_t hits = late_count(r, facts, counter, _PyInterpreterFrame_LASTI(place.frame));
    Thread *thread = threads_current(r, place.state);
    if (thread != NULL && r->saturating) {
        threads_walk(r, thread, place.frame);
    }
    Activation *activation = thread != NULL ? threads_top(r, thread, place.frame, facts) : NULL;
    bool passed = false;
    if (activation != NULL) {
        int node = r->passing ? late_line(r, thread, activation, place.code, hits) : -1;
        activation->line = line;
        if (!events_add_line(r, thread, activation, line)) {
            add(r, thread, activation, LINE, NULL, NULL);
        }
        activation->node = node;
        late_settle(r, facts);
        passed = node >= 0 && hits > r->pass_after && facts->flow->nodes[node].passed;
    }
    if (r->saturating) {
        return judge(r, hits);
    }
    return Py_NewRef(passed ? r->disable : Py_None);
}

/* A jump or branch of code with a one-line loop: count it when it enters the body. */
static PyObject *on_arrival(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names) {
    (void)names;
    Place place;
    if (!arrive(self, arguments, flags, 3, &place)) {
        Py_RETURN_NONE;
    }
    Recorder *r = place.recorder;
    Facts *facts = codes_get(r, place.code);
    int unit = small_number(arguments[2]) / 2, from = small_number(arguments[1]) / 2;
    for (int i = 0; facts != NULL && i < facts->probes; i++) {
        const Probe *probe = &facts->probe[i];
        if (probe->unit == unit && probe->arrival && (probe->line == 0 || probe->line == line_of(facts, from))) {
            uint64_t hits = count_up(r, probe->counter);
            if (r->saturating) {
                return judge(r, hits);
            }
        }
    }
    Py_RETURN_NONE;
}

/* As Objects/genobject.c lays out what an asynchronous generator yields. */
typedef struct Wrapped {
    PyObject_HEAD
    PyObject *value;
} Wrapped;

/* Return the value that a function hands over, out of an asynchronous generator's wrapper. */
static PyObject *unwrapped(PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    if (is_in_c(type) && strcmp(type->tp_name, "async_generator_wrapped_value") == 0) {
        return ((Wrapped *)value)->value;
    }
    return value;
}

/* A function of user code returns, or a generator hands over a value. */
static PyObject *leave(PyObject *self, PyObject *const *arguments, size_t flags, enum Kind kind) {
    Place place;
    if (!arrive(self, arguments, flags, 3, &place)) {
        Py_RETURN_NONE;
    }
    Recorder *r = place.recorder;
    Facts *facts = codes_get(r, place.code);
    if (facts == NULL) {
        return Py_NewRef(r->disable);
    }
    count_up(r, C_OTHER);
    Thread *thread = threads_current(r, place.state);
    if (thread != NULL && r->saturating) {
        threads_walk(r, thread, place.frame);
    }
    Activation *activation = thread != NULL ? threads_top(r, thread, place.frame, facts) : NULL;
    if (activation != NULL) {
        if (r->passing) {
            late_reach(r, thread, activation);
        }
        set_line(activation);
        add(r, thread, activation, kind, unwrapped(arguments[2]), NULL);
        late_settle(r, facts);
        if (kind == YIELD) {
            threads_suspend(r, thread, place.frame);
        } else {
            threads_pop(r, thread, place.frame);
        }
    }
    if (r->saturating) {
        return judge(r, ++facts->handed);
    }
    Py_RETURN_NONE;
}

static PyObject *on_return(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names) {
    (void)names;
    return leave(self, arguments, flags, RETURN);
}

static PyObject *on_yield(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names) {
    (void)names;
    return leave(self, arguments, flags, YIELD);
}

/* A suspended generator or coroutine of user code goes on. */
static PyObject *on_resume(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names) {
    (void)names;
    Place place;
    if (!arrive(self, arguments, flags, 2, &place)) {
        Py_RETURN_NONE;
    }
    Recorder *r = place.recorder;
    Facts *facts = codes_get(r, place.code);
    if (facts == NULL) {
        return Py_NewRef(r->disable);
    }
    count_up(r, C_OTHER);
    Thread *thread = threads_current(r, place.state);
    if (thread != NULL && r->saturating) {
        threads_walk(r, thread, place.frame->previous);
    } else if (thread != NULL && r->passing) {
        late_parent(r, thread, place.frame->previous);
    }
    Activation *activation = thread != NULL ? threads_resume(r, thread, place.frame, facts) : NULL;
    if (activation != NULL) {
        late_place(activation);
        set_line(activation);
        add(r, thread, activation, RESUME, NULL, NULL);
        late_settle(r, facts);
    }
    if (r->saturating) {
        return judge(r, ++facts->handed);
    }
    Py_RETURN_NONE;
}

/* An exception is thrown into a suspended generator or coroutine of any code. */
static PyObject *on_throw(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names) {
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
    if (thread != NULL && r->passing) {
        late_parent(r, thread, place.frame->previous);
    }
    Activation *activation = thread != NULL ? threads_resume(r, thread, place.frame, facts) : NULL;
    if (activation != NULL) {
        set_line(activation);
        add(r, thread, activation, THROW, NULL, arguments[2]);
        activation->node = -1; /* what follows is that it is raised here */
        late_settle(r, facts);
    }
    Py_RETURN_NONE;
}

/* Put an exception on the list. */
static void note(const Place *place, Thread *thread, Facts *facts, PyObject *error) {
    if (thread != NULL) {
        notes_exception(place->recorder, thread, facts, line_of(facts, _PyInterpreterFrame_LASTI(place->frame)), error);
    }
}

/* Stop following exceptions; only how the program itself ends is still seen. */
static void ignore_raising(Recorder *r) {
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
void callbacks_restart(Recorder *r) {
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
            callbacks_set_local(r, entry->code, 0);
            callbacks_set_local(r, entry->code, callbacks_events(r, entry->facts));
        }
    }
}

/* An exception is raised in, or passes into, a frame of any code. */
static PyObject *on_raise(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names) {
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
        ignore_raising(r);
    }
    Thread *thread = threads_current(r, place.state);
    if (thread != NULL && r->saturating) {
        threads_walk(r, thread, place.frame);
    }
    Activation *activation = thread != NULL ? threads_top(r, thread, place.frame, facts) : NULL;
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
        add(r, thread, activation, EXCEPTION, NULL, error);
        late_settle(r, facts);
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
static PyObject *on_unwind(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names) {
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
    if (thread != NULL && r->saturating) {
        threads_walk(r, thread, place.frame);
    }
    Activation *activation = thread != NULL ? threads_top(r, thread, place.frame, facts) : NULL;
    if (activation != NULL) {
        if (r->passing) {
            late_leave(r, thread, activation);
        }
        set_line(activation);
        add(r, thread, activation, UNWIND, NULL, arguments[2]);
        late_settle(r, facts);
        threads_pop(r, thread, place.frame);
    }
    Py_RETURN_NONE;
}

/* Stand in front of the write of a stream's file: count the bytes that it says it wrote. */
PyObject *callback_write(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names) {
    Callback *callback = (Callback *)self;
    PyObject *written = PyObject_Vectorcall(callback->write, arguments, flags, names);
    if (written != NULL && callback->recorder->attached) {
        int size = small_number(written);
        callback->recorder->counters[callback->counter] += size > 0 ? (uint64_t)size : 0;
    }
    return written;
}

/* Return the function for an event, by its number in sys.monitoring; NULL for an event that is not followed. */
vectorcallfunc callback_for(int event) {
    switch (event) {
        case ON_START: return on_start;
        case ON_RESUME: return on_resume;
        case ON_RETURN: return on_return;
        case ON_YIELD: return on_yield;
        case ON_LINE: return on_line;
        case ON_JUMP: return on_arrival;
        case ON_BRANCH: return on_arrival;
        case ON_RAISE: return on_raise;
        case ON_UNWIND: return on_unwind;
        case ON_THROW: return on_throw;
        default: return NULL;
    }
}
