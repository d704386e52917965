/* Records of lines that were passed: written when the next event of their
 * function tells that they ran, just before the record of that. */
#include "flow.h"

#include <opcode_ids.h>

enum { NEAR = 32 };

/* Count a line, and entries of loop bodies that begin on it; return how often it has run. */
uint64_t late_count(Recorder *r, const Facts *facts, uint32_t counter, int unit) {
    if (counter & PROBED) {
        for (int i = 0; i < facts->probes; i++) {
            if (facts->probe[i].unit == unit && !facts->probe[i].arrival) {
                count_up(r, facts->probe[i].counter);
            }
        }
    }
    return count_up(r, counter & ~PROBED);
}

/* Return what has run since the last record of a function, NULL when that is not known. An
 * exception may have led there out of the midst of something. */
const Node *late_after(const Activation *activation) {
    const Flow *flow = activation->facts->flow;
    const Node *node = flow != NULL && activation->node >= 0 ? &flow->nodes[activation->node] : NULL;
    return node != NULL && !node->silent ? node : NULL;
}

/* Record a line that was passed; rest is what has been stored since. */
static void tell_line(Recorder *r, Thread *thread, Activation *activation, int number, const uint64_t *rest) {
    Facts *facts = activation->facts;
    const Node *node = &facts->flow->nodes[number];
    late_count(r, facts, facts->counters[node->line - facts->low_line], node->unit);
    activation->line = node->line;
    Event event = {
        .kind = LINE, .thread = thread, .activation = activation, .after = late_after(activation), .rest = rest, .late = true,
    };
    events_add(r, &event);
    activation->node = number;
}

/* Record a line that was passed and at which nothing changed; false when that takes more. */
static bool tell_bare(Recorder *r, Thread *thread, Activation *activation, int number) {
    PassedLine line = ways_line(activation->facts, number);
    if (!events_add_bare(r, thread, activation, &line, 1)) {
        return false;
    }
    activation->node = number;
    return true;
}

/* Record the lines of a way, and the one that it leads to if that has begun, while values are recorded. */
static __attribute__((noinline)) void tell_all(Recorder *r, Thread *thread, Activation *activation, const Path *way, int last) {
    const Facts *facts = activation->facts;
    const Flow *flow = facts->flow;
    int count = way->count + (last >= 0);
    uint64_t rest[2] = {0, 0};
    for (int i = 0; i < count; i++) {
        const Node *node = &flow->nodes[i < way->count ? way->node[i] : last];
        rest[0] |= node->stores[0];
        rest[1] |= node->stores[1];
    }
    for (int i = 0; i < count; i++) {
        int number = i < way->count ? way->node[i] : last;
        const Node *node = &flow->nodes[number], *before = &flow->nodes[activation->node];
        bool changed = before->silent || !before->calm || before->stores[0] != 0 || before->stores[1] != 0;
        if (node->silent) {
            activation->node = number;
        } else if (changed || !tell_bare(r, thread, activation, number)) {
            tell_line(r, thread, activation, number, rest);
        }
        rest[0] &= ~node->stores[0]; /* no variable is stored to twice on a way */
        rest[1] &= ~node->stores[1];
    }
}

/* Count and record lines that were passed while no values are recorded: one after another where there is more to do than to
 * write it down, and as many at once as that is all to be done for. */
static __attribute__((noinline)) void tell_in_parts(Recorder *r, Thread *thread, Activation *activation, const PassedLine *lines, int count) {
    for (int i = 0; i < count;) {
        int part = r->recording ? count - i : (int)Py_MIN((uint32_t)(count - i), r->ring.plain);
        if (part > 0 && events_add_bare(r, thread, activation, lines + i, part)) {
            i += part;
            continue;
        }
        count_up(r, lines[i].counter);
        if (lines[i].entry != 0) {
            count_up(r, lines[i].entry);
        }
        activation->line = lines[i].line;
        events_add(r, &(Event){.kind = LINE, .thread = thread, .activation = activation, .late = true});
        i++;
    }
}

/* Record the lines of a way, and the one that it leads to if that has begun. */
static void tell(Recorder *r, Thread *thread, Activation *activation, const Path *way, int last) {
    if (r->with_values && r->recording) {
        tell_all(r, thread, activation, way, last);
        return;
    }
    int count = last >= 0 ? way->told : way->line_count;
    if (count > 0 && !events_add_bare(r, thread, activation, way->lines, count)) {
        tell_in_parts(r, thread, activation, way->lines, count);
    }
    activation->node = last >= 0 ? last : way->count > 0 ? way->node[way->count - 1] : activation->node;
}

/* Find out where a frame is, when that is not known: in the line of its instruction. */
void late_place(Activation *activation) {
    const Flow *flow = activation->facts->flow;
    int unit = _PyInterpreterFrame_LASTI(activation->frame);
    if (flow != NULL && activation->node < 0 && unit >= 0 && unit < activation->facts->units && flow->owner[unit][1] == -1) {
        activation->node = flow->owner[unit][0];
    }
}

/* Find out where a thread is in a function whose flow is new: in the line of the
 * instruction that each of its frames is at. Only frames that are there are looked at. */
static void place_thread(const Thread *thread, const Facts *facts, _PyInterpreterFrame *frame) {
    int at = thread->depth - 1;
    for (; at >= 0 && frame != NULL; frame = frame->previous) {
        Activation *activation = &thread->stack[at];
        if (activation->frame != frame) {
            continue;
        }
        if (activation->facts == facts && PyCode_Check(frame->f_executable) && Py_SIZE(frame->f_executable) == facts->units) {
            late_place(activation);
        }
        at--;
    }
}

static void place_all(Recorder *r, const Facts *facts) {
    PyThreadState *state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; state != NULL; state = PyThreadState_Next(state)) {
        const Thread *thread = threads_known(r, state);
        if (thread != NULL) {
            place_thread(thread, facts, state->current_frame);
        }
    }
}

/* Have the flow of a function whose lines run often enough, and what is passed as it should now be. */
static Flow *flow_of(Recorder *r, Facts *facts, PyCodeObject *code, uint64_t hits) {
    if (facts->flow == NULL) {
        if (hits <= r->pass_after || facts->flow_failed) {
            return NULL;
        }
        facts->iterated = iterating_arguments(facts, code);
        facts->flow = flow_make(facts, code);
        facts->flow_failed = facts->flow == NULL;
        if (facts->flow != NULL) {
            aims_find(facts, code);
            passing_decide(r, facts);
            place_all(r, facts);
        }
    } else if (facts->flow->strict && !(r->with_values && r->recording)) {
        facts->flow->stale = true; /* more lines can be passed when no values are recorded */
    }
    return facts->flow;
}

/* A LINE event has come, while no values are recorded, the way that it came the time before: record it, and what was passed
 * before it. False when there may be more to do. */
bool late_again(Recorder *r, const PyThreadState *state, _PyInterpreterFrame *frame, const Facts *facts) {
    const Flow *flow = facts->flow;
    const Thread *thread = r->thread;
    if (flow == NULL || flow->strict || flow->stale || thread == NULL || thread->state != state || thread->id != state->id || thread->depth == 0) {
        return false;
    }
    Activation *top = &thread->stack[thread->depth - 1];
    int unit = _PyInterpreterFrame_LASTI(frame);
    if (top->frame != frame || top->facts != facts || (!top->looked && facts->fors > 0) || unit < 0 || unit >= facts->units) {
        return false;
    }
    int number = flow->node_at[unit];
    const Node *node = number >= 0 ? &flow->nodes[number] : NULL;
    if (node == NULL || node->way == NULL || node->way_from != top->node || !node->way->plain ||
        !events_add_way(r, thread, top, node->way->lines, node->way->told)) {
        return false;
    }
    top->node = number;
    top->looked = true;
    return true;
}

/* A LINE event has come: record what was passed before it, and return its node, -1 for none. */
int late_line(Recorder *r, Thread *thread, Activation *activation, PyCodeObject *code, uint64_t hits) {
    Facts *facts = activation->facts;
    _PyInterpreterFrame *frame = activation->frame;
    int unit = _PyInterpreterFrame_LASTI(frame);
    if (unit < 0 || unit >= facts->units) {
        return -1;
    }
    if (!activation->looked && facts->fors > 0) {
        iterating_look(r, facts, frame, code, unit);
    }
    int from = activation->node;
    bool is_new = facts->flow == NULL;
    Flow *flow = flow_of(r, facts, code, hits);
    activation->node = from; /* it is not in this line yet */
    if (is_new && flow != NULL) {
        iterating_meet(r, facts, frame);
    }
    if (flow == NULL || flow->broken) {
        return -1;
    }
    int node = flow->node_at[unit];
    activation->looked = node >= 0 && !flow->nodes[node].starts;
    const Path *way = node >= 0 && from >= 0 ? ways_find(facts, from, node) : NULL;
    if (node < 0 || (way != NULL && way->count < 0 && !flow->nodes[from].raises)) {
        revising_break_off(r, facts);
        return -1;
    }
    if (way != NULL && way->count > 0) {
        tell(r, thread, activation, way, -1);
    }
    return node;
}

/* An event of another kind has come: record what was passed before it. */
void late_reach(Recorder *r, Thread *thread, Activation *activation) {
    Facts *facts = activation->facts;
    Flow *flow = facts->flow;
    int unit = _PyInterpreterFrame_LASTI(activation->frame), from = activation->node;
    if (flow == NULL || from < 0 || flow->broken || unit < 0 || unit >= facts->units) {
        return;
    }
    const int32_t *owner = flow->owner[unit];
    if (owner[0] == from || owner[1] == from) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        const Path *way = owner[i] >= 0 && flow->nodes[owner[i]].ever ? ways_find(facts, from, owner[i]) : NULL;
        if (way != NULL && way->count >= 0) {
            tell(r, thread, activation, way, owner[i]);
            return;
        }
    }
}

/* Record what the function that runs in a thread has passed, and return it. Its
 * frame is looked at only when it is the given one or waits for that. */
Activation *late_catch(Recorder *r, Thread *thread, const _PyInterpreterFrame *frame) {
    Activation *top = thread->depth > 0 ? &thread->stack[thread->depth - 1] : NULL;
    int steps = 0;
    while (top != NULL && frame != NULL && frame != top->frame && steps++ < NEAR) {
        frame = frame->previous;
    }
    if (top == NULL || frame != top->frame || !PyCode_Check(frame->f_executable) || Py_SIZE(frame->f_executable) != top->facts->units) {
        return NULL;
    }
    late_reach(r, thread, top);
    return top;
}

/* Record what every thread has passed. */
void late_catch_all(Recorder *r) {
    PyThreadState *state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; state != NULL; state = PyThreadState_Next(state)) {
        Thread *thread = threads_known(r, state);
        if (thread != NULL) {
            late_catch(r, thread, state->current_frame);
        }
    }
}

/* An exception has been raised at a unit: the function goes on in a handler, or not at all. That
 * an iteration is over, a loop or an `await` only takes notice of. */
void late_land(Activation *activation, int unit, PyObject *error) {
    const Facts *facts = activation->facts;
    bool known = facts->flow != NULL && unit >= 0 && unit < facts->units;
    bool loops = known && (facts->operations[unit] == FOR_ITER || facts->operations[unit] == SEND);
    if (!loops || !PyType_IsSubtype(Py_TYPE(error), (PyTypeObject *)PyExc_StopIteration)) {
        activation->node = known ? facts->flow->landing[unit] : -1;
    }
}

/* A function ends by an exception: record what was passed since it was raised. */
void late_leave(Recorder *r, Thread *thread, Activation *activation) {
    const Flow *flow = activation->facts->flow;
    if (flow == NULL || flow->broken || activation->node < 0 || activation->node == flow->exit) {
        return;
    }
    const Path *way = ways_find(activation->facts, activation->node, flow->exit);
    if (way != NULL && way->count > 0) {
        tell(r, thread, activation, way, -1);
    }
}

/* Whether a function has been called by an instruction of a frame, given the frame that waits for it: that
 * one, or between them the one with which the interpreter makes an instance. */
static bool is_call_of(const _PyInterpreterFrame *caller, const _PyInterpreterFrame *frame) {
    if (frame != caller && frame->previous == caller && PyCode_Check(frame->f_executable)) {
        return _PyCode_CODE((PyCodeObject *)frame->f_executable)[0].op.code == EXIT_INIT_CHECK;
    }
    return frame == caller;
}

/* A function starts or goes on: record what the one that runs it has passed, and
 * that other code has run in that one's line. */
void late_parent(Recorder *r, Thread *thread, const _PyInterpreterFrame *frame) {
    Activation *top = late_catch(r, thread, frame);
    int unit = top != NULL ? _PyInterpreterFrame_LASTI(top->frame) : -1;
    if (top != NULL && unit >= 0 && unit < top->facts->units) {
        revising_note(top->facts, unit, MARK_NOISY | (is_call_of(top->frame, frame) ? MARK_CALLS : 0));
        revising_settle(r, top->facts);
    }
}
