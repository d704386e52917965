/* The ring of the last events: after the head area, every event goes there, and now
 * and then one with all that its frame shows. How often is decided by the clock:
 * such snapshots may take a sixty-fourth part of the time; but one event in 200 is
 * one, so that the last events never come without any. */
#include "records.h"

enum { SEGMENTS = 8, SEGMENT_HEAD = 16, RING_HEAD = 16, LOOK_AT_CLOCK = 64, SHARE = 64, MOST_WITHOUT = 200, LAST_EVENTS = 512 };

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

/* Turn from the head area to the ring; it stays off where no events are wanted, or there is no room for one. */
void ring_open(Recorder *r) {
    Area *area = &r->area[AREA_RING];
    Ring *ring = &r->ring;
    *ring = (Ring){.until_check = 1, .checked = ticks(r), .credit = (int64_t)(r->ticks_per_second / 500), .reserve = (int64_t)(r->ticks_per_second / 1000)};
    if (!r->wants_events || area->capacity < RING_HEAD + SEGMENTS * 1024) {
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
        r->saturating = clock_is_up(r, now);
        if (r->saturating) {
            bursts_await(r);
        }
    }
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

/* Take what was added plainly into account; nothing more is, until that is granted anew. */
void ring_settle(Ring *ring) {
    uint32_t added = ring->granted - ring->plain;
    ring->until_check -= added;
    ring->since += added;
    ring->granted = ring->plain = 0;
}

/* Grant as many events as can be heads only. */
static void grant(const Recorder *r, Ring *ring) {
    bool none = (r->bursting && r->with_values) || ring->credit > ring->reserve || ring->since + 1 >= MOST_WITHOUT;
    ring->granted = ring->plain = none ? 0 : Py_MIN(ring->until_check, MOST_WITHOUT - ring->since) - 1;
}

/* Write the head of an event alone. */
static void ring_head(Recorder *r, const Event *event) {
    Ring *ring = &r->ring;
    if ((size_t)(ring->end - ring->at) < sizeof(Head)) {
        segment_start(r, (ring->current + 1) % ring->segments, r->event_count + 1);
    }
    Out out = {ring->at, ring->end, false};
    head_write(r, &out, event, r->last.time);
    ring_commit(ring, out.at);
}

/* Write an event into the ring. */
void ring_add(Recorder *r, const Event *event) {
    Ring *ring = &r->ring;
    ring_settle(ring);
    if (--ring->until_check == 0) {
        ring_look(r);
    }
    if (!ring->on) {
        return;
    }
    if (is_due(r, ring, event) && !event->late && ring_snapshot(r, event)) {
        ring->since = 0;
    } else {
        ring_head(r, event);
    }
    grant(r, ring);
}
