/* The events: the first ones in full, the last ones in a ring.
 *
 * A record is a head of fixed size and what changed. In the head area every
 * event says what is different; after it, every event goes to the ring, and now
 * and then one with all that its frame shows. How often is decided by the clock:
 * such snapshots may take a sixty-fourth part of the time; but one event in 200 is
 * one, so that the last events never come without any. */
#include "values.h"

#include "flow.h"

#include <sys/mman.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

/* The heads of records, as the reader knows them; docs/trace-format.md. A short
 * one is of an event in the frame, thread and depth of the record before it. */
typedef struct __attribute__((packed, may_alias)) Head {
    uint8_t kind, has;
    uint16_t thread;
    uint32_t function, frame, line, depth, time;
} Head;
typedef struct __attribute__((packed, may_alias)) ShortHead {
    uint8_t kind, has;
    uint16_t passed; /* microseconds since the record before it */
    uint32_t line;
} ShortHead;
enum { HAS_VARIABLES = 1, HAS_VALUE = 2, HAS_OBJECTS = 4, HAS_ERROR = 8, HAS_OUTPUT = 16, HAS_LOOKED = 32, SHORT = 8 };
enum { FORMAT = 2, SEGMENTS = 8, SEGMENT_HEAD = 16, RING_HEAD = 16, LOOK_AT_CLOCK = 64, SHARE = 64, LOOK_AT_TIME = 8, MOST_WITHOUT = 200, LAST_EVENTS = 512 };

static int64_t nanoseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t processor_ns(void) {
    return nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
}

static uint64_t count_ticks(bool steady) {
#if defined(__x86_64__)
    if (steady) {
        return __rdtsc();
    }
#endif
    (void)steady;
    return (uint64_t)nanoseconds(CLOCK_MONOTONIC);
}

/* Return the time in ticks: the processor's counter where it is steady, as it
 * takes a third of a system clock's time, else nanoseconds. */
uint64_t ticks(const Recorder *r) {
    return count_ticks(r->has_ticks);
}

/* What a tick is. It does not change once it is measured, before there is a job that would wait for it. */
static struct {
    uint64_t per_second, scale; /* as in Recorder */
    uint64_t first;             /* ticks and nanoseconds when the library was loaded */
    int64_t start;
    bool steady;
} tick;

__attribute__((constructor)) static void note_ticks(void) {
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    tick.steady = __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1 << 8;
#endif
    tick.start = nanoseconds(CLOCK_MONOTONIC);
    tick.first = count_ticks(tick.steady);
}

/* Find out how long a tick takes, by what has passed since the library was loaded: half a millisecond at the least,
 * which suffices for a microsecond in some ten. As a rule other things have taken as long. */
void events_measure(void) {
    int64_t now, passed_ns;
    do {
        now = nanoseconds(CLOCK_MONOTONIC);
        passed_ns = now - tick.start;
    } while (passed_ns < 500000);
    uint64_t passed = count_ticks(tick.steady) - tick.first;
    tick.per_second = (uint64_t)((double)passed * 1e9 / (double)passed_ns);
    tick.scale = (uint64_t)((double)passed_ns / 1000.0 / (double)(passed > 0 ? passed : 1) * 4294967296.0);
}

/* Start a segment of the ring, with the number of its first event. */
static void segment_start(Recorder *r, uint32_t segment, uint64_t first) {
    Ring *ring = &r->ring;
    uint8_t *base = ring->base + RING_HEAD + (size_t)segment * ring->segment_bytes;
    ring->current = segment;
    ring->used = (uint64_t *)(base + 8);
    *ring->used = 0;
    memcpy(base, &first, 8);
    ring->at = base + SEGMENT_HEAD;
    ring->end = base + ring->segment_bytes;
    r->last.frame = 0; /* the first record of a segment is a whole one */
}

/* Turn from the head to the ring. */
static void ring_open(Recorder *r) {
    Area *area = &r->area[AREA_RING];
    Ring *ring = &r->ring;
    if (area->capacity < RING_HEAD + SEGMENTS * 1024) {
        return;
    }
    uint32_t bytes = (uint32_t)Py_MIN((area->capacity - RING_HEAD) / SEGMENTS & ~(uint64_t)15, 1u << 20);
    ring->base = area->base;
    ring->segments = SEGMENTS;
    ring->segment_bytes = bytes;
    ring->on = true;
    uint32_t head[4] = {FORMAT, SEGMENTS, bytes, 0};
    memcpy(ring->base, head, sizeof head);
    segment_start(r, 0, r->event_count + 2); /* after the event that is being added */
    __atomic_store_n(area->committed, RING_HEAD + (uint64_t)SEGMENTS * bytes, __ATOMIC_RELEASE);
}

/* Prepare for a budget of events. */
void events_open(Recorder *r, uint64_t budget) {
    Area *area = &r->area[AREA_EVENTS];
    r->has_ticks = tick.steady;
    r->ticks_per_second = tick.per_second;
    r->tick_scale = tick.scale;
    r->until_time = 1;
    r->room = budget;
    r->wants_events = budget > 0;
    r->recording = true;
    r->exact_until = processor_ns() + r->exact_ns;
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

/* Take no more events into the head, and free what was kept for comparing. */
void events_close(Recorder *r, int cause) {
    r->recording = false;
    r->room = 0;
    r->counters[C_STOPPED] = (uint64_t)cause;
    threads_drop_said(r);
    r->ring = (Ring){.until_check = 1, .checked = ticks(r), .credit = (int64_t)(r->ticks_per_second / 500), .reserve = (int64_t)(r->ticks_per_second / 1000)};
    if (r->wants_events) {
        ring_open(r);
    }
}

/* Write the head of a record; its field for what it has stays open. It is
 * written field by field: a copy of a whole one would wait for its parts. */
static inline uint8_t *head_write(Recorder *r, Out *out, const Event *event, uint32_t time) {
    const Activation *activation = event->activation;
    uint8_t *at = out->at;
    if ((size_t)(out->end - at) < sizeof(Head)) {
        out->full = true;
        return NULL;
    }
    uint32_t thread = event->thread->number, depth = (uint32_t)event->thread->depth, passed = time - r->last.time;
    if (r->last.frame == activation->number && r->last.depth == depth && r->last.thread == thread && passed < 65536) {
        ShortHead *head = (ShortHead *)at;
        head->kind = (uint8_t)event->kind | SHORT;
        head->has = 0;
        head->passed = (uint16_t)passed;
        head->line = (uint32_t)activation->line;
        out->at += sizeof(ShortHead);
    } else {
        Head *head = (Head *)at;
        head->kind = (uint8_t)event->kind;
        head->has = 0;
        head->thread = (uint16_t)Py_MIN(thread, 65535u);
        head->function = activation->facts->number;
        head->frame = activation->number;
        head->line = (uint32_t)activation->line;
        head->depth = depth;
        head->time = time;
        out->at += sizeof(Head);
        r->last.frame = activation->number;
        r->last.depth = depth;
        r->last.thread = thread;
    }
    r->last.time = time;
    return at + 1;
}

/* Write what an event shows besides its head; say what there is. */
static unsigned body_write(Recorder *r, Out *out, const Event *event, const Look *look) {
    unsigned has = 0;
    if (r->with_values) {
        Found found;
        found.count = 0;
        bool quiet = look->quiet;
        uint8_t *at = out->at;
        quiet &= !variables_write(r, out, event->activation, &found, look);
        if (!out->full && *at != 0) {
            has |= HAS_VARIABLES;
        } else if (!out->full) {
            out->at = at;
        }
        if (event->value != NULL) {
            has |= HAS_VALUE;
            value_write(r, out, event->value, Py_TYPE(event->value), &found);
            quiet &= !value_is_object(event->value);
        }
        if (found.count > 0 && !quiet) {
            at = out->at;
            objects_write(r, out, &found, look->all);
            if (!out->full && *at != 0) {
                has |= HAS_OBJECTS;
            } else if (!out->full) {
                out->at = at;
            }
        }
    }
    if (event->error != NULL && event->kind != UNWIND) {
        has |= HAS_ERROR;
        failure_write(r, out, event->error);
    }
    uint64_t standard = r->counters[C_STDOUT], errors = r->counters[C_STDERR];
    if (standard != r->out[0] || errors != r->out[1]) {
        has |= HAS_OUTPUT;
        r->out[0] = standard;
        r->out[1] = errors;
        number_write(out, standard);
        number_write(out, errors);
    }
    return has;
}

/* Turn ticks into microseconds since the first event. */
static inline uint32_t time_of(const Recorder *r, uint64_t now) {
    return (uint32_t)(((unsigned __int128)(now - r->origin) * r->tick_scale) >> 32);
}

/* Whether the processor time for exact counting is used up. The processor's
 * clock is dear: the next look is due when half of what is left has passed. */
static bool time_is_up(Recorder *r, uint64_t now) {
    int64_t left = r->exact_until - processor_ns();
    if (left > 0) {
        r->next_look = now + (uint64_t)(left / 2 + 1000000) * (r->ticks_per_second / 1000000) / 1000;
    }
    return left <= 0;
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
    } else if (now >= r->next_look && time_is_up(r, now)) {
        events_close(r, BY_TIME);
    }
}

/* Look at the clock: give snapshots their share of the time that has passed,
 * and see whether exact counting has had its share. */
static void ring_look(Recorder *r) {
    Ring *ring = &r->ring;
    uint64_t now = ticks(r);
    int64_t passed = (int64_t)(now - ring->checked);
    int64_t most = (int64_t)(r->ticks_per_second / 500);
    ring->checked = now;
    ring->credit = Py_MIN(ring->credit + passed / SHARE, most);
    ring->until_check = passed > (int64_t)(r->ticks_per_second / 100000) ? 1 : LOOK_AT_CLOCK;
    if (r->bursting) {
        if (r->event_count >= r->burst_end) {
            bursts_end(r);
        }
    } else if (now >= r->next_look && !r->saturating) {
        r->saturating = time_is_up(r, now);
        if (r->saturating) {
            bursts_await(r);
        }
    }
}

/* Commit a record of the ring: the segment's size covers it from now on. */
static inline void ring_commit(Ring *ring, uint8_t *at) {
    ring->at = at;
    __atomic_store_n(ring->used, (uint64_t)(at - (uint8_t *)ring->used - 8), __ATOMIC_RELEASE);
}

/* Write an event with all that its frame shows; false when it does not fit. */
static bool ring_snapshot(Recorder *r, const Event *event) {
    Ring *ring = &r->ring;
    uint64_t now = ticks(r);
    r->origin = r->origin == 0 ? now : r->origin;
    for (int tries = 0; tries < 2; tries++) {
        Out out = {ring->at, ring->end, false};
        uint8_t *has = head_write(r, &out, event, time_of(r, now));
        if (has != NULL) {
            *has = (uint8_t)(body_write(r, &out, event, &(Look){.all = true}) | HAS_LOOKED);
        }
        if (!out.full) {
            ring->allowance -= (int64_t)(out.at - ring->at);
            ring_commit(ring, out.at);
            /* Whatever took longer was not ours: the processor had other work. */
            ring->credit -= Py_MIN((int64_t)(ticks(r) - now), (int64_t)(r->ticks_per_second / 50000));
            return true;
        }
        segment_start(r, (ring->current + 1) % ring->segments, r->event_count + 1);
    }
    return false;
}

/* Whether an event is to have all that its frame shows. In a burst it is to as far as that leaves room for the last events. */
static inline bool is_due(const Recorder *r, Ring *ring, const Event *event) {
    if (r->bursting && r->with_values) {
        ring->allowance += ring->segments * ring->segment_bytes / LAST_EVENTS;
        return ring->allowance > 0;
    }
    return ++ring->since >= MOST_WITHOUT || ring->credit > (event->kind >= THROW ? 0 : ring->reserve);
}

/* Write an event into the ring. */
static void ring_add(Recorder *r, const Event *event) {
    Ring *ring = &r->ring;
    if (is_due(r, ring, event) && !event->late && ring_snapshot(r, event)) {
        ring->since = 0;
        return;
    }
    if ((size_t)(ring->end - ring->at) < sizeof(Head)) {
        segment_start(r, (ring->current + 1) % ring->segments, r->event_count + 1);
    }
    Out out = {ring->at, ring->end, false};
    head_write(r, &out, event, r->last.time);
    ring_commit(ring, out.at);
}

/* Whether so many short heads can be written that say nothing but a line: where, NULL for not. */
static uint8_t *bare_room(const Recorder *r, const Thread *thread, const Activation *activation, uint32_t count) {
    const Ring *ring = &r->ring;
    bool room = r->recording ? r->room > count && r->event_at < r->populated : ring->on && ring->until_check > count;
    uint8_t *at = r->recording ? r->event_at : ring->at;
    const uint8_t *end = r->recording ? r->event_end : ring->end;
    bool same = r->last.frame == activation->number && r->last.depth == (uint32_t)thread->depth && r->last.thread == thread->number &&
                r->counters[C_STDOUT] == r->out[0] && r->counters[C_STDERR] == r->out[1];
    return room && same && (size_t)(end - at) >= count * sizeof(ShortHead) ? at : NULL;
}

/* Commit short heads. */
static inline void bare_commit(Recorder *r, uint8_t *at, uint32_t count) {
    r->event_count += count;
    if (r->recording) {
        r->room -= count;
        r->quiet_line = 0;
        r->event_at = at;
        __atomic_store_n(r->area[AREA_EVENTS].committed, (uint64_t)(at - r->area[AREA_EVENTS].base), __ATOMIC_RELEASE);
    } else {
        r->ring.until_check -= count;
        r->ring.since += count;
        ring_commit(&r->ring, at);
    }
}

static inline uint8_t *bare_write(uint8_t *at, uint32_t passed, unsigned has, int line) {
    ShortHead *head = (ShortHead *)at;
    head->kind = LINE | SHORT;
    head->has = (uint8_t)has;
    head->passed = (uint16_t)passed;
    head->line = (uint32_t)line;
    return at + sizeof(ShortHead);
}

/* Count lines that were passed and at which nothing changed, and add their events, in the
 * shortest way; false when they must be added as others are. */
bool events_add_bare(Recorder *r, const Thread *thread, Activation *activation, const PassedLine *lines, int count) {
    uint8_t *at = bare_room(r, thread, activation, (uint32_t)count);
    if (at == NULL) {
        return false;
    }
    unsigned has = r->recording ? HAS_LOOKED : 0;
    for (int i = 0; i < count; i++) {
        count_up(r, lines[i].counter);
        if (lines[i].entry != 0) {
            count_up(r, lines[i].entry);
        }
        at = bare_write(at, 0, has, lines[i].line);
    }
    activation->line = lines[count - 1].line;
    bare_commit(r, at, (uint32_t)count);
    return true;
}

/* Add a LINE event in the shortest way, while no values are recorded; false when it must be added as others are. */
bool events_add_line(Recorder *r, const Thread *thread, Activation *activation, int line) {
    if (r->recording ? r->with_values : r->with_values && (r->bursting || r->ring.since + 1 >= MOST_WITHOUT)) {
        return false;
    }
    uint8_t *at = r->recording || r->ring.credit <= r->ring.reserve ? bare_room(r, thread, activation, 1) : NULL;
    if (at == NULL) {
        return false;
    }
    if (r->recording) {
        if (r->until_time <= 1 || (uint64_t)nanoseconds(CLOCK_MONOTONIC_COARSE) != r->coarse) {
            return false; /* a look at the time is due */
        }
        r->until_time--;
    }
    at = bare_write(at, 0, r->recording ? HAS_LOOKED : 0, line);
    bare_commit(r, at, 1);
    return true;
}

/* Add an event where events go now. */
void events_add(Recorder *r, const Event *event) {
    if (r->recording) {
        head_add(r, event);
    } else {
        if (--r->ring.until_check == 0) {
            ring_look(r);
        }
        if (r->ring.on) {
            ring_add(r, event);
        }
    }
    r->event_count++;
}
