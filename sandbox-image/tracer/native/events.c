/* The events: the first ones in full in the head area, where each says what is different, the last ones in the ring. */
#include "records.h"

#include "flow.h"

#include <sys/mman.h>

enum { LOOK_AT_TIME = 8 }; /* the clock is read with one line event in so many */

/* Take no more events into the head, and free what was kept for comparing. */
static void events_close(Recorder *r, int cause) {
    r->recording = false;
    r->room = 0;
    r->counters[C_STOPPED] = (uint64_t)cause;
    threads_drop_said(r);
    ring_open(r);
}

/* Prepare for a budget of events. */
void events_open(Recorder *r, uint64_t budget) {
    Area *area = &r->area[AREA_EVENTS];
    clock_open(r);
    r->until_time = 1;
    r->room = budget;
    r->wants_events = budget > 0;
    r->recording = true;
    r->event_at = area->base;
    r->event_end = area->base + area->capacity;
    if (area->capacity > 0) {
        *r->event_at++ = FORMAT;
        __atomic_store_n(area->committed, 1, __ATOMIC_RELEASE);
    }
    if (budget == 0) {
        events_close(r, BY_EVENTS);
    }
}

/* Have the pages of the next part of the area at once: one by one, at the first
 * write to each, they would take several times as long. Asking for them to be
 * read maps those that are there many at a time, and they can be written to as well.
 * The first part is small: most programs do not fill it, and would wait for the pages of a large one. */
static void populate(Recorder *r) {
    enum { FIRST = 16 << 10, PART = 256 << 10, PAGE = 4096 };
    uintptr_t from = (uintptr_t)r->event_at & ~(uintptr_t)(PAGE - 1);
    size_t part = r->populated == NULL ? FIRST : PART;
    size_t size = Py_MIN(part, (size_t)(r->event_end - r->event_at));
    r->populated = r->event_at + size;
    if (r->room > 0 && size >= PAGE) {
        (void)madvise((void *)from, size & ~(size_t)(PAGE - 1), MADV_POPULATE_READ); /* only saves time */
    }
}

/* Return the time of an event. For lines the processor's counter, which takes
 * as long as all else, is read every eighth time and when the system's coarse
 * clock has moved on: so a line's time may be behind by one beat of that. */
static uint64_t time_now(Recorder *r, enum Kind kind) {
    if (kind == LINE && --r->until_time > 0) {
        uint64_t coarse = (uint64_t)nanoseconds(CLOCK_MONOTONIC_COARSE);
        if (coarse == r->coarse) {
            return r->time;
        }
        r->coarse = coarse;
    }
    r->until_time = LOOK_AT_TIME;
    r->time = ticks(r);
    return r->time;
}

/* Whether the objects that a line aimed at are such that storing to one changes no other. */
static bool aim_holds(const Node *node, const _PyInterpreterFrame *frame) {
    for (int i = 0; i < 2; i++) {
        for (uint64_t left = node->items[i] | node->attributes[i]; left != 0; left &= left - 1) {
            int slot = i * 64 + __builtin_ctzll(left);
            PyObject *value = frame->localsplus[slot];
            PyTypeObject *type = value != NULL ? Py_TYPE(value) : NULL;
            bool item = node->items[i] >> (slot & 63) & 1;
            if (item ? type != &PyList_Type || node->attributes[i] >> (slot & 63) & 1 : type == NULL || !objects_is_apart(value, type)) {
                return false;
            }
        }
    }
    return true;
}

/* What can have changed since the record before: with that of the same frame, what ran meanwhile tells. */
static void look_at(const Recorder *r, const Event *event, Look *look) {
    const Activation *activation = event->activation;
    const _PyInterpreterFrame *frame = activation->frame;
    const Node *after = event->after;
    look->except = event->rest;
    if (r->last.frame != activation->number || r->last.thread != event->thread->number) {
        return;
    }
    if (after == NULL) {
        look->quiet = r->quiet_line > 0 && event->rest == NULL && quiet_is(activation->facts, frame, r->quiet_line);
        return;
    }
    PyObject *stored = after->condition >= 0 ? frame->localsplus[after->condition] : NULL;
    look->quiet = after->calm && (stored == NULL || !value_is_object(stored));
    if (look->quiet || frame->frame_obj == NULL) { /* with a frame object, variables can be changed from elsewhere */
        for (int i = 0; i < 2; i++) {
            look->only[i] = after->stores[i] | (look->quiet ? 0 : activation->facts->cells[i]);
        }
        look->some = true;
        look->aimed = after->aims && aim_holds(after, frame);
        look->at[0] = after->items[0] | after->attributes[0];
        look->at[1] = after->items[1] | after->attributes[1];
    }
}

/* Write an event into the head area. */
static void head_add(Recorder *r, const Event *event) {
    uint64_t now = event->late && r->origin != 0 ? r->time : time_now(r, event->kind);
    if (r->origin == 0) {
        r->origin = r->next_look = now;
    }
    if (r->event_at >= r->populated) {
        populate(r);
    }
    Out out = {r->event_at, r->event_end, false};
    const Activation *activation = event->activation;
    Look look = {0};
    bool plain = !r->with_values && event->error == NULL && r->counters[C_STDOUT] == r->out[0] && r->counters[C_STDERR] == r->out[1];
    if (r->with_values) {
        look_at(r, event, &look);
    }
    uint8_t *has = head_write(r, &out, event, time_of(r, now));
    if (has != NULL) {
        *has = (uint8_t)((plain ? 0 : body_write(r, &out, event, &look)) | HAS_LOOKED);
    }
    if (out.full) {
        events_close(r, BY_BYTES);
        return;
    }
    r->quiet_line = event->kind == LINE && r->with_values ? activation->line : 0;
    r->event_at = out.at;
    __atomic_store_n(r->area[AREA_EVENTS].committed, (uint64_t)(out.at - r->area[AREA_EVENTS].base), __ATOMIC_RELEASE);
    if (--r->room == 0) {
        events_close(r, BY_EVENTS);
    } else if (now >= r->next_look && clock_is_up(r, now)) {
        events_close(r, BY_TIME);
    }
}

/* Whether so many short heads that say nothing but a line can be written now: where, NULL for not. */
static ALWAYS_INLINE uint8_t *bare_room(const Recorder *r, const Thread *thread, const Activation *activation, uint32_t count) {
    const Ring *ring = &r->ring;
    bool room = r->recording ? r->room > count && r->event_at < r->populated && r->counters[C_STDOUT] == r->out[0] && r->counters[C_STDERR] == r->out[1]
                             : ring->plain >= count;
    uint8_t *at = r->recording ? r->event_at : ring->at;
    const uint8_t *end = r->recording ? r->event_end : ring->end;
    return room && is_of_last(r, thread, activation) && (size_t)(end - at) >= count * sizeof(ShortHead) ? at : NULL;
}

/* Commit short heads. */
static ALWAYS_INLINE void bare_commit(Recorder *r, uint8_t *at, uint32_t count) {
    r->event_count += count;
    if (r->recording) {
        r->room -= count;
        r->quiet_line = 0;
        r->event_at = at;
        __atomic_store_n(r->area[AREA_EVENTS].committed, (uint64_t)(at - r->area[AREA_EVENTS].base), __ATOMIC_RELEASE);
    } else {
        r->ring.plain -= count;
        ring_commit(&r->ring, at);
    }
}

/* Count lines that have run and at which nothing changed, and add their events, in the
 * shortest way; false when they must be added as others are. */
bool events_add_bare(Recorder *r, const Thread *thread, Activation *activation, const PassedLine *lines, int count) {
    uint8_t *at = bare_room(r, thread, activation, (uint32_t)count);
    if (at == NULL) {
        return false;
    }
    uint64_t *counters = r->counters;
    unsigned has = r->recording ? HAS_LOOKED : 0;
    for (int i = 0; i < count; i++) {
        counters[lines[i].counter]++;
        if (lines[i].entry != 0) {
            counters[lines[i].entry]++;
        }
        at = short_write(at, LINE, has, lines[i].line);
    }
    activation->line = lines[count - 1].line;
    bare_commit(r, at, (uint32_t)count);
    return true;
}

/* Whether a look at the time is due with the next line, while events go into the head. */
static inline bool is_time_due(const Recorder *r) {
    return r->recording && (r->until_time <= 1 || (uint64_t)nanoseconds(CLOCK_MONOTONIC_COARSE) != r->coarse);
}

/* The same for the lines of a way and the one that has its event now, while no values are recorded. */
bool events_add_way(Recorder *r, const Thread *thread, Activation *activation, const PassedLine *lines, int count) {
    if (is_time_due(r) || !events_add_bare(r, thread, activation, lines, count)) {
        return false;
    }
    r->until_time -= r->recording;
    return true;
}

/* Add a LINE event in the shortest way, while no values are recorded; false when it must be added as others are. */
bool events_add_line(Recorder *r, const Thread *thread, Activation *activation, int line) {
    bool values = r->recording && r->with_values;
    uint8_t *at = values ? NULL : bare_room(r, thread, activation, 1);
    if (at == NULL || is_time_due(r)) {
        return false;
    }
    r->until_time -= r->recording;
    bare_commit(r, short_write(at, LINE, r->recording ? HAS_LOOKED : 0, line), 1);
    return true;
}

/* Add an event where events go now. */
void events_add(Recorder *r, const Event *event) {
    if (r->recording) {
        head_add(r, event);
    } else {
        ring_add(r, event);
    }
    r->event_count++;
}
