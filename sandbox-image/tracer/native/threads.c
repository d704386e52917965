/* The functions that run in each thread, and generators that wait.
 *
 * The stack follows the events. Should some be missing, because the program
 * detached the recorder for a while or another tool was at work, the next event
 * finds its frame further down, or not at all, and the stack is put right. */
#include "recorder.h"

enum { FIRST_STACK = 32, FIRST_SUSPENDED = 64, MAX_SUSPENDED = 1 << 15, LOOK_BACK = 16, MAX_WALK = 2000, MAX_SPARES = 64, MAX_SPARE_ROOM = 32 };

/* Give back what was kept of a frame: most frames are small and soon followed by another. */
static void said_free(Recorder *r, Said *said) {
    if (said == NULL) {
        return;
    }
    for (int i = 0; i < said->count; i++) {
        PyMem_RawFree(said->variables[i].text);
    }
    if (said->room <= MAX_SPARE_ROOM && r->spares < MAX_SPARES) {
        said->next = r->spare;
        r->spare = said;
        r->spares++;
        return;
    }
    PyMem_RawFree(said->variables);
    PyMem_RawFree(said);
}

/* Return room for what is said of a frame, empty; NULL when there is no memory. */
Said *said_new(Recorder *r) {
    Said *said = r->spare;
    if (said == NULL) {
        return PyMem_RawCalloc(1, sizeof *said);
    }
    r->spare = said->next;
    r->spares--;
    Variable *variables = said->variables;
    int room = said->room;
    memset(variables, 0, (size_t)room * sizeof *variables);
    *said = (Said){.room = room, .variables = variables};
    return said;
}

/* Return the state of a thread in which user code has run, NULL for any other. */
Thread *threads_known(const Recorder *r, const PyThreadState *state) {
    Thread *thread = r->threads;
    while (thread != NULL && (thread->state != state || thread->id != state->id)) {
        thread = thread->next;
    }
    return thread;
}

/* Return the state of a thread, making it when user code runs in it for the
 * first time; NULL when there is no memory. */
Thread *threads_meet(Recorder *r, PyThreadState *state) {
    Thread *thread = r->threads;
    while (thread != NULL && thread->state != state) {
        thread = thread->next;
    }
    if (thread == NULL) {
        thread = PyMem_RawCalloc(1, sizeof *thread);
        if (thread == NULL) {
            return NULL;
        }
        thread->next = r->threads;
        thread->state = state;
        r->threads = thread;
    }
    if (thread->id != state->id) {
        /* New, or at the place of one that has ended. */
        while (thread->depth > 0) {
            said_free(r, thread->stack[--thread->depth].said);
        }
        thread->id = state->id;
        thread->number = (uint32_t)count_up(r, C_THREADS);
    }
    r->thread = thread;
    if (r->saturating) {
        bursts_follow(r);
    }
    return thread;
}

/* Note how deep the program has been. */
static void note_depth(Recorder *r, const Thread *thread) {
    if ((uint64_t)thread->depth > r->counters[C_MAX_DEPTH]) {
        r->counters[C_MAX_DEPTH] = (uint64_t)thread->depth;
    }
}

/* Put an activation on the stack; NULL when there is no memory. */
static Activation *stack_add(Recorder *r, Thread *thread, Activation activation) {
    if (thread->depth == thread->room) {
        int room = thread->room == 0 ? FIRST_STACK : thread->room * 2;
        Activation *stack = PyMem_RawRealloc(thread->stack, (size_t)room * sizeof(Activation));
        if (stack == NULL) {
            said_free(r, activation.said);
            return NULL;
        }
        thread->stack = stack;
        thread->room = room;
    }
    thread->stack[thread->depth++] = activation;
    note_depth(r, thread);
    return &thread->stack[thread->depth - 1];
}

/* A function starts in a frame. */
Activation *threads_push(Recorder *r, Thread *thread, _PyInterpreterFrame *frame, Facts *facts) {
    /* An activation of the same frame is of a call that we did not see the end of. */
    while (thread->depth > 0 && thread->stack[thread->depth - 1].frame == frame) {
        said_free(r, thread->stack[--thread->depth].said);
    }
    if (thread->depth == thread->room) {
        return stack_add(r, thread, (Activation){.frame = frame, .facts = facts, .number = ++r->last_frame, .line = facts->first_line, .node = -1});
    }
    Activation *top = &thread->stack[thread->depth++]; /* written in place: this is the way of every call */
    top->frame = frame;
    top->facts = facts;
    top->number = ++r->last_frame;
    top->line = facts->first_line;
    top->node = -1;
    top->looked = top->lent = false;
    top->said = NULL;
    note_depth(r, thread);
    return top;
}

/* Return the entry of a frame, or the free one where it belongs. */
static Activation *suspended_at(const Suspended *suspended, const _PyInterpreterFrame *frame) {
    uint32_t at = place_of(frame, suspended->mask);
    while (suspended->table[at].frame != NULL && suspended->table[at].frame != frame) {
        at = (at + 1) & suspended->mask;
    }
    return &suspended->table[at];
}

/* Forget all that wait. */
static void suspended_clear(Recorder *r, Suspended *suspended) {
    for (uint32_t i = 0; suspended->table != NULL && i <= suspended->mask; i++) {
        said_free(r, suspended->table[i].said);
        suspended->table[i] = (Activation){0};
    }
    suspended->used = 0;
}

/* Have room for one more; the oldest knowledge goes when there is too much. */
static bool suspended_room(Recorder *r, Suspended *suspended) {
    if (suspended->table != NULL && suspended->used * 2 <= suspended->mask) {
        return true;
    }
    if (suspended->used >= MAX_SUSPENDED) {
        suspended_clear(r, suspended);
        return true;
    }
    Suspended larger = {.mask = suspended->table == NULL ? FIRST_SUSPENDED - 1 : suspended->mask * 2 + 1};
    larger.table = PyMem_RawCalloc((size_t)larger.mask + 1, sizeof(Activation));
    if (larger.table == NULL) {
        return false;
    }
    for (uint32_t i = 0; suspended->table != NULL && i <= suspended->mask; i++) {
        if (suspended->table[i].frame != NULL) {
            *suspended_at(&larger, suspended->table[i].frame) = suspended->table[i];
            larger.used++;
        }
    }
    PyMem_RawFree(suspended->table);
    *suspended = larger;
    return true;
}

/* Take an entry out. Those that follow move up to where they can be found. */
static void suspended_remove(Suspended *suspended, Activation *entry) {
    suspended->used--;
    uint32_t hole = (uint32_t)(entry - suspended->table), at = hole;
    for (;;) {
        suspended->table[hole] = (Activation){0};
        uint32_t home;
        do {
            at = (at + 1) & suspended->mask;
            if (suspended->table[at].frame == NULL) {
                return;
            }
            home = place_of(suspended->table[at].frame, suspended->mask);
        } while (((at - home) & suspended->mask) < ((at - hole) & suspended->mask));
        suspended->table[hole] = suspended->table[at];
        hole = at;
    }
}

/* Take the top of the stack to where suspended ones are kept. */
static void suspend_top(Recorder *r, Thread *thread) {
    int at = --thread->depth;
    _PyInterpreterFrame *frame = thread->stack[at].frame;
    thread->stack[at].lent = false;
    if (!suspended_room(r, &r->suspended)) {
        said_free(r, thread->stack[at].said);
        return;
    }
    Activation *entry = suspended_at(&r->suspended, frame);
    if (entry->frame == NULL) {
        r->suspended.used++;
    } else {
        said_free(r, entry->said);
    }
    *entry = thread->stack[at];
}

/* A generator or coroutine hands over a value and waits. */
void threads_suspend(Recorder *r, Thread *thread, _PyInterpreterFrame *frame) {
    if (thread->depth == 0 || thread->stack[thread->depth - 1].frame != frame) {
        return;
    }
    suspend_top(r, thread);
    /* The value goes to whoever threw the exception: those that lent their frames have not run. */
    while (thread->depth > 0 && thread->stack[thread->depth - 1].lent) {
        suspend_top(r, thread);
    }
}

/* A generator or coroutine goes on. */
Activation *threads_resume(Recorder *r, Thread *thread, _PyInterpreterFrame *frame, Facts *facts) {
    Activation *top = thread->depth > 0 ? &thread->stack[thread->depth - 1] : NULL;
    if (top != NULL && top->lent && top->frame == frame && top->facts == facts) {
        top->lent = false;
        return top;
    }
    if (r->suspended.table != NULL) {
        Activation *entry = suspended_at(&r->suspended, frame);
        if (entry->frame == frame) {
            Activation kept = *entry;
            suspended_remove(&r->suspended, entry);
            if (kept.facts == facts) {
                return stack_add(r, thread, kept);
            }
            said_free(r, kept.said);
        }
    }
    return threads_push(r, thread, frame, facts);
}

/* An exception that is thrown into a generator which delegates goes to the innermost one at once, without an event of those
 * in between; the interpreter puts their frames below that one's as if they ran. List those, the innermost first,
 * and what is below them. Of very many only the inner ones are found. */
int threads_lenders(const Thread *thread, const _PyInterpreterFrame *frame, _PyInterpreterFrame **lenders, _PyInterpreterFrame **below) {
    const _PyInterpreterFrame *top = thread->depth > 0 ? thread->stack[thread->depth - 1].frame : NULL;
    _PyInterpreterFrame *next = frame->previous;
    int count = 0;
    while (top != frame && next != NULL && next != top && count < MOST_LENDERS && next->owner != FRAME_OWNED_BY_THREAD) {
        if (next->owner == FRAME_OWNED_BY_GENERATOR && PyCode_Check(next->f_executable)) {
            lenders[count++] = next;
        }
        next = next->previous;
    }
    *below = next;
    return count;
}

/* Put them on the stack, as ones that have not run. */
void threads_lend(Recorder *r, Thread *thread, _PyInterpreterFrame *const *lenders, int count) {
    while (--count >= 0) {
        Facts *facts = codes_find(r, _PyFrame_GetCode(lenders[count]));
        Activation *activation = facts != NULL ? threads_resume(r, thread, lenders[count], facts) : NULL;
        if (activation != NULL) {
            activation->lent = true;
        }
    }
}

/* Return the activation of the frame that runs: the top of the stack, or what
 * becomes the top because events were missed. */
Activation *threads_find(Recorder *r, Thread *thread, _PyInterpreterFrame *frame, Facts *facts) {
    int top = thread->depth - 1;
    if (top >= 0 && thread->stack[top].frame == frame && thread->stack[top].facts == facts) {
        return &thread->stack[top];
    }
    for (int at = top - 1; at >= 0 && at > top - LOOK_BACK; at--) {
        if (thread->stack[at].frame == frame && thread->stack[at].facts == facts) {
            while (thread->depth > at + 1) {
                said_free(r, thread->stack[--thread->depth].said);
            }
            return &thread->stack[at];
        }
    }
    return threads_resume(r, thread, frame, facts);
}

/* A function ends. */
void threads_pop(Recorder *r, Thread *thread, _PyInterpreterFrame *frame) {
    if (thread->depth > 0 && thread->stack[thread->depth - 1].frame == frame) {
        said_free(r, thread->stack[--thread->depth].said);
    }
}

/* Make the stack what the interpreter's frames say: starts and ends are no
 * longer seen. Of a very deep one only the inner part is put right. */
void threads_walk(Recorder *r, Thread *thread, _PyInterpreterFrame *frame) {
    Activation *real = PyMem_RawMalloc(MAX_WALK * sizeof(Activation));
    int count = 0;
    for (int steps = 0; real != NULL && frame != NULL && steps < MAX_WALK; frame = frame->previous, steps++) {
        if (frame->owner == FRAME_OWNED_BY_CSTACK || !PyCode_Check(frame->f_executable)) {
            continue;
        }
        Facts *facts = codes_find(r, _PyFrame_GetCode(frame));
        if (facts != NULL) {
            real[count++] = (Activation){.frame = frame, .facts = facts};
        }
    }
    int same = 0;
    while (same < count && same < thread->depth && thread->stack[same].frame == real[count - 1 - same].frame &&
           thread->stack[same].facts == real[count - 1 - same].facts) {
        same++;
    }
    while (thread->depth > same) {
        said_free(r, thread->stack[--thread->depth].said);
    }
    for (int at = count - 1 - same; at >= 0; at--) {
        threads_resume(r, thread, real[at].frame, real[at].facts);
    }
    PyMem_RawFree(real);
}

/* The same for every thread that is known. */
void threads_walk_all(Recorder *r) {
    PyThreadState *state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; state != NULL; state = PyThreadState_Next(state)) {
        Thread *thread = threads_known(r, state);
        if (thread != NULL) {
            threads_walk(r, thread, state->current_frame);
        }
    }
}

/* Free what was kept for comparing. */
void threads_drop_said(Recorder *r) {
    for (Thread *thread = r->threads; thread != NULL; thread = thread->next) {
        for (int i = 0; i < thread->depth; i++) {
            said_free(r, thread->stack[i].said);
            thread->stack[i].said = NULL;
        }
    }
    for (uint32_t i = 0; r->suspended.table != NULL && i <= r->suspended.mask; i++) {
        said_free(r, r->suspended.table[i].said);
        r->suspended.table[i].said = NULL;
    }
}

void threads_close(Recorder *r) {
    while (r->threads != NULL) {
        Thread *thread = r->threads;
        r->threads = thread->next;
        while (thread->depth > 0) {
            said_free(r, thread->stack[--thread->depth].said);
        }
        PyMem_RawFree(thread->stack);
        PyMem_RawFree(thread);
    }
    suspended_clear(r, &r->suspended);
    PyMem_RawFree(r->suspended.table);
    r->suspended.table = NULL;
    r->thread = NULL;
    while (r->spare != NULL) {
        Said *said = r->spare;
        r->spare = said->next;
        PyMem_RawFree(said->variables);
        PyMem_RawFree(said);
    }
}
