/* Records of events: a head, and what the event shows besides; docs/trace-format.md. */
#ifndef TRACEFLEET_RECORDS_H
#define TRACEFLEET_RECORDS_H

#include "values.h"

/* The heads of records, as the reader knows them. A short one is of an event in the
 * frame, thread and depth of the record before it. */
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

/* Of the head area and of the ring. */
enum { FORMAT = 2 };

/* Turn ticks into microseconds since the first event. */
static inline uint32_t time_of(const Recorder *r, uint64_t now) {
    return (uint32_t)(((unsigned __int128)(now - r->origin) * r->tick_scale) >> 32);
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

/* records.c */
unsigned body_write(Recorder *r, Out *out, const Event *event, const Look *look);

/* ring.c */
void ring_open(Recorder *r);
void ring_add(Recorder *r, const Event *event);
void ring_settle(Ring *ring);

/* Commit a record of the ring: the segment's size covers it from now on. */
static inline void ring_commit(Ring *ring, uint8_t *at) {
    ring->at = at;
    __atomic_store_n(ring->used, (uint64_t)(at - (uint8_t *)ring->used - 8), __ATOMIC_RELEASE);
}

/* Whether the record before is of the same frame, thread and depth. */
static ALWAYS_INLINE bool is_of_last(const Recorder *r, const Thread *thread, const Activation *activation) {
    return r->last.frame == activation->number && r->last.depth == (uint32_t)thread->depth && r->last.thread == thread->number;
}

static ALWAYS_INLINE uint8_t *word_write(uint8_t *at, uint64_t word) {
    memcpy(at, &word, sizeof word);
    return at + sizeof word;
}

/* Write a short head in one go. */
static ALWAYS_INLINE uint8_t *short_write(uint8_t *at, unsigned kind, unsigned has, int line) {
    return word_write(at, (kind | SHORT) | has << 8 | (uint64_t)(uint32_t)line << 32);
}
_Static_assert(sizeof(ShortHead) == sizeof(uint64_t) && sizeof(Head) == 3 * sizeof(uint64_t), "heads are whole words");

/* Write an event of which there is nothing but its head into the ring, when there is nothing else to do there; false when there is. */
static ALWAYS_INLINE bool ring_add_plain(Recorder *r, const Thread *thread, const Activation *activation, enum Kind kind) {
    Ring *ring = &r->ring;
    uint8_t *at = ring->at;
    if (ring->plain == 0 || (kind >= THROW && ring->credit > 0) || (size_t)(ring->end - at) < sizeof(Head)) {
        return false;
    }
    ring->plain--;
    r->event_count++;
    if (is_of_last(r, thread, activation)) {
        ring_commit(ring, short_write(at, kind, 0, activation->line));
        return true;
    }
    uint32_t number = activation->number, depth = (uint32_t)thread->depth;
    at = word_write(at, (uint64_t)kind | (uint64_t)Py_MIN(thread->number, 65535u) << 16 | (uint64_t)activation->facts->number << 32);
    at = word_write(at, number | (uint64_t)(uint32_t)activation->line << 32);
    at = word_write(at, depth | (uint64_t)r->last.time << 32);
    r->last.frame = number;
    r->last.depth = depth;
    r->last.thread = thread->number;
    ring_commit(ring, at);
    return true;
}

#endif
