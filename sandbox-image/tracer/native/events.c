/* The events: the first ones in full, the last ones in a ring.
 *
 * A record is a head of fixed size and what changed. In the head area every
 * event says what is different; after it, every event goes to the ring, and now
 * and then one with all that its frame shows. How often is decided by the clock:
 * such snapshots may take a sixteenth of the time. */
#include "recorder.h"

#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

/* As the reader knows it; docs/trace-format.md. */
typedef struct Head {
    uint32_t size; /* of what follows this field */
    uint8_t kind, has;
    uint16_t thread;
    uint32_t function, frame, line, depth, time;
} Head;
enum { HAS_VARIABLES = 1, HAS_VALUE = 2, HAS_OBJECTS = 4, HAS_ERROR = 8, HAS_OUTPUT = 16, HAS_TIME = 32 };
enum { FORMAT = 2, SEGMENTS = 8, SEGMENT_HEAD = 16, RING_HEAD = 16, LOOK_AT_CLOCK = 32, SHARE = 16 };

static int64_t nanoseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t processor_ns(void) {
    return nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
}

/* Return the time in ticks: the processor's counter where it is steady, as it
 * takes a third of a system clock's time, else nanoseconds. */
uint64_t ticks(const Recorder *r) {
#if defined(__x86_64__)
    if (r->has_ticks) {
        return __rdtsc();
    }
#endif
    (void)r;
    return (uint64_t)nanoseconds(CLOCK_MONOTONIC);
}

/* Find out how long a tick takes: half a millisecond suffices for a microsecond in some ten. */
static void measure_ticks(Recorder *r) {
    r->has_ticks = false;
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    r->has_ticks = __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1 << 8;
#endif
    int64_t start = nanoseconds(CLOCK_MONOTONIC), now;
    uint64_t first = ticks(r);
    do {
        now = nanoseconds(CLOCK_MONOTONIC);
    } while (now - start < 500000);
    uint64_t passed = ticks(r) - first;
    r->ticks_per_second = (uint64_t)((double)passed * 1e9 / (double)(now - start));
    r->tick_scale = (uint64_t)((double)(now - start) / 1000.0 / (double)(passed > 0 ? passed : 1) * 4294967296.0);
}

/* Start a segment of the ring: no bytes yet. */
static void segment_start(Recorder *r, uint32_t segment) {
    Ring *ring = &r->ring;
    uint8_t *base = ring->base + RING_HEAD + (size_t)segment * ring->segment_bytes;
    uint64_t none = 0;
    ring->current = segment;
    memcpy(base + 8, &none, 8);
    ring->at = base + SEGMENT_HEAD;
    ring->end = base + ring->segment_bytes;
}

/* Turn from the head to the ring. */
static void ring_open(Recorder *r) {
    Area *area = &r->area[AREA_RING];
    Ring *ring = &r->ring;
    *ring = (Ring){.until_check = 1, .checked = ticks(r), .credit = (int64_t)(r->ticks_per_second / 500)};
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
    segment_start(r, 0);
    __atomic_store_n(area->committed, RING_HEAD + (uint64_t)SEGMENTS * bytes, __ATOMIC_RELEASE);
}

/* Prepare for a budget of events. */
void events_open(Recorder *r, uint64_t budget) {
    Area *area = &r->area[AREA_EVENTS];
    measure_ticks(r);
    r->room = budget;
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
    ring_open(r);
}

/* Write a head; its size is filled in when the record is complete. */
static Head *head_write(Recorder *r, Out *out, const Event *event) {
    if ((size_t)(out->end - out->at) < sizeof(Head)) {
        out->full = true;
        return NULL;
    }
    const Activation *activation = event->activation;
    Head *head = (Head *)out->at;
    Head fresh = {
        .kind = (uint8_t)event->kind, .thread = (uint16_t)Py_MIN(event->thread->number, 65535u),
        .function = activation->facts->number, .frame = activation->number, .line = (uint32_t)activation->line,
        .depth = (uint32_t)event->thread->depth,
    };
    (void)r;
    memcpy(head, &fresh, sizeof fresh);
    out->at += sizeof fresh;
    return head;
}

/* Write what an event shows besides its head; say what there is. */
static unsigned body_write(Recorder *r, Out *out, const Event *event, bool all) {
    unsigned has = 0;
    if (r->with_values) {
        Found found;
        found.count = 0;
        uint8_t *at = out->at;
        variables_write(r, out, event->activation, &found, all);
        if (!out->full && *at != 0) {
            has |= HAS_VARIABLES;
        } else if (!out->full) {
            out->at = at;
        }
        if (event->value != NULL) {
            has |= HAS_VALUE;
            value_write(r, out, event->value, Py_TYPE(event->value), &found);
        }
        if (found.count > 0) {
            at = out->at;
            objects_write(r, out, &found, all);
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

/* Fill in what is known at the end of a record. */
static void head_finish(Recorder *r, const Out *out, Head *head, unsigned has, uint64_t now) {
    uint64_t passed = now - r->origin;
    uint64_t time = (uint64_t)(((unsigned __int128)passed * r->tick_scale) >> 32);
    uint32_t microseconds = time > UINT32_MAX ? UINT32_MAX : (uint32_t)time;
    uint8_t flags = (uint8_t)(has | HAS_TIME);
    uint32_t size = (uint32_t)(out->at - (uint8_t *)head - 4);
    memcpy(&head->time, &microseconds, 4);
    head->has = flags;
    memcpy(&head->size, &size, 4);
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

/* Write an event into the head area. */
static void head_add(Recorder *r, const Event *event) {
    uint64_t now = ticks(r);
    if (r->origin == 0) {
        r->origin = r->next_look = now;
    }
    Out out = {r->event_at, r->event_end, false};
    Head *head = head_write(r, &out, event);
    unsigned has = head != NULL ? body_write(r, &out, event, false) : 0;
    if (out.full) {
        events_close(r, BY_BYTES);
        return;
    }
    head_finish(r, &out, head, has, now);
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
    if (now >= r->next_look && !r->saturating) {
        r->saturating = time_is_up(r, now);
    }
}

/* Commit a record of the ring: the segment's size covers it from now on. */
static void ring_commit(Recorder *r, uint8_t *at) {
    Ring *ring = &r->ring;
    uint8_t *base = ring->base + RING_HEAD + (size_t)ring->current * ring->segment_bytes;
    if (ring->at == base + SEGMENT_HEAD) {
        uint64_t first = r->event_count + 1;
        memcpy(base, &first, 8);
    }
    ring->at = at;
    __atomic_store_n((uint64_t *)(base + 8), (uint64_t)(at - base - SEGMENT_HEAD), __ATOMIC_RELEASE);
}

/* Write an event with all that its frame shows; false when it does not fit. */
static bool ring_snapshot(Recorder *r, const Event *event) {
    Ring *ring = &r->ring;
    uint64_t now = ticks(r);
    if (r->origin == 0) {
        r->origin = now;
    }
    for (int tries = 0; tries < 2; tries++) {
        Out out = {ring->at, ring->end, false};
        Head *head = head_write(r, &out, event);
        unsigned has = head != NULL ? body_write(r, &out, event, true) : 0;
        if (!out.full) {
            head_finish(r, &out, head, has, now);
            ring_commit(r, out.at);
            ring->credit -= (int64_t)(ticks(r) - now);
            return true;
        }
        segment_start(r, (ring->current + 1) % ring->segments);
    }
    return false;
}

/* Write an event into the ring. */
static void ring_add(Recorder *r, const Event *event) {
    Ring *ring = &r->ring;
    bool rare = event->kind >= THROW;
    if (ring->credit > (rare ? 0 : (int64_t)(r->ticks_per_second / 1000)) && ring_snapshot(r, event)) {
        return;
    }
    if ((size_t)(ring->end - ring->at) < sizeof(Head)) {
        segment_start(r, (ring->current + 1) % ring->segments);
    }
    Out out = {ring->at, ring->end, false};
    Head *head = head_write(r, &out, event);
    uint32_t size = sizeof(Head) - 4;
    memcpy(&head->size, &size, 4);
    ring_commit(r, out.at);
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
