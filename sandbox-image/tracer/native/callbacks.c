/* The callbacks of sys.monitoring for lines and functions, one for each event.
 *
 * They are vectorcall functions, so that an event costs no more than a call. The
 * program can get hold of them and call them as it likes: arguments are checked,
 * and a call that is not about the frame that runs does nothing. They never
 * raise. What they return switches a place off (DISABLE) or nothing (None). */
#include "callbacks.h"
#include "values.h"

/* Say whether a place is still counted after so many hits. */
static PyObject *judge(Recorder *r, uint64_t hits) {
    if (hits < SATURATED) {
        Py_RETURN_NONE;
    }
    r->counters[C_FLAGS] |= FLAG_INEXACT;
    return Py_NewRef(r->disable);
}

/* Have the events of a function that is met for the first time. */
COLD static Facts *meet(Place *place) {
    Recorder *r = place->recorder;
    Facts *facts = codes_meet(r, place->code, place->frame);
    if (facts == NULL) {
        return NULL;
    }
    if (r->main_code == NULL && is_outermost(place->frame) && PyUnicode_EqualToUTF8(place->code->co_name, "<module>")) {
        r->main_code = place->code;
    }
    monitoring_set_local(r, place->code, monitoring_events(r, facts));
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
            iterating_meet(r, facts, place.frame);
        }
        add_event(r, thread, activation, CALL, NULL, NULL);
        revising_settle(r, facts);
    }
    if (r->saturating) {
        return judge(r, hits);
    }
    Py_RETURN_NONE;
}

/* Record a line of user code, whatever there is to do about it. */
static __attribute__((noinline)) PyObject *line_comes(const Place place, Facts *facts, int line) {
    Recorder *r = place.recorder;
    if (facts == NULL || line < facts->low_line || line > facts->high_line || facts->counters == NULL) {
        return Py_NewRef(r->disable);
    }
    uint32_t counter = facts->counters[line - facts->low_line];
    if (counter == 0) {
        return Py_NewRef(r->disable); /* line 0: what the compiler added */
    }
    if (r->saturating && r->passing) {
        revising_stop(r);
    }
    uint64_t hits = late_count(r, facts, counter, _PyInterpreterFrame_LASTI(place.frame));
    Thread *thread = threads_current(r, place.state);
    Activation *activation = running(&place, thread, facts);
    bool passed = false;
    if (activation != NULL) {
        int node = r->passing ? late_line(r, thread, activation, place.code, hits) : -1;
        activation->line = line;
        if (!events_add_line(r, thread, activation, line)) {
            add_event(r, thread, activation, LINE, NULL, NULL);
        }
        activation->node = node;
        revising_settle(r, facts);
        passed = node >= 0 && hits > r->pass_after && facts->flow->nodes[node].passed;
    }
    if (r->saturating) {
        return judge(r, hits);
    }
    return Py_NewRef(passed ? r->disable : Py_None);
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
    if (facts != NULL && r->passing && !r->saturating && late_again(r, place.state, place.frame, facts)) {
        Py_RETURN_NONE;
    }
    return line_comes(place, facts, small_number(arguments[1]));
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
    Activation *activation = running(&place, thread, facts);
    if (activation != NULL) {
        if (r->passing) {
            late_reach(r, thread, activation);
        }
        set_line(activation);
        add_event(r, thread, activation, kind, unwrapped(arguments[2]), NULL);
        revising_settle(r, facts);
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
        add_event(r, thread, activation, RESUME, NULL, NULL);
        revising_settle(r, facts);
    }
    if (r->saturating) {
        return judge(r, ++facts->handed);
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
