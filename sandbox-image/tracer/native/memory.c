/* The trace memory: areas, records of definitions, counters. */
#include "recorder.h"

#include <sys/resource.h>
#include <unistd.h>

enum { HEADER_BYTES = 4096, MAGIC_BYTES = 8, JSON_FORMAT = 1 };

/* Find the areas in the mapping. False when they do not fit: the order is the
 * supervisor's, but nothing is written where it was not checked. */
bool memory_open(Recorder *r, const uint64_t *offsets, const uint64_t *capacities, int count) {
    uint8_t *base = r->memory.buf;
    uint64_t size = (uint64_t)r->memory.len;
    if (count != AREAS || size < HEADER_BYTES) {
        return false;
    }
    for (int i = 0; i < AREAS; i++) {
        if (offsets[i] < HEADER_BYTES || offsets[i] % 8 || offsets[i] > size || capacities[i] > size - offsets[i]) {
            return false;
        }
        r->area[i] = (Area){base + offsets[i], capacities[i], (uint64_t *)(base + MAGIC_BYTES) + i};
    }
    r->counters = (uint64_t *)r->area[AREA_COUNTERS].base;
    r->counter_count = (uint32_t)Py_MIN(r->area[AREA_COUNTERS].capacity / 8, UINT32_MAX / 2);
    r->next_counter = C_FIRST_FREE;
    return r->counter_count > C_FIRST_FREE;
}

/* Append a definition, unless it would take the room of the exception report.
 * The position is read anew each time: Python code writes to this area too. */
bool memory_define(Recorder *r, const char *text, size_t size) {
    Area *area = &r->area[AREA_DEFS];
    uint64_t at = *area->committed;
    uint64_t limit = area->capacity > DEFS_RESERVE ? area->capacity - DEFS_RESERVE : 0;
    if (at >= limit || size + 5 > limit - at || size > UINT32_MAX) {
        return false;
    }
    if (at == 0) {
        area->base[at++] = JSON_FORMAT;
    }
    uint32_t length = (uint32_t)size;
    memcpy(area->base + at, &length, 4);
    memcpy(area->base + at + 4, text, size);
    __atomic_store_n(area->committed, at + 4 + size, __ATOMIC_RELEASE);
    return true;
}

/* Give out neighbouring counters; 0 when there are not so many left. */
uint32_t memory_counters(Recorder *r, uint32_t count) {
    uint32_t first = r->next_counter;
    if (count > r->counter_count - first) {
        return 0;
    }
    r->next_counter = first + count;
    __atomic_store_n(r->area[AREA_COUNTERS].committed, (uint64_t)r->next_counter * 8, __ATOMIC_RELEASE);
    return first;
}

/* Tell the supervisor that this process is about to end with this status, and how much memory it had at its
 * peak. Nothing may be written, recorded or started after this: the supervisor does not wait for the end. */
void memory_leave(Recorder *r, unsigned status) {
    uint64_t *words = (uint64_t *)((uint8_t *)r->memory.buf + MAGIC_BYTES) + AREAS;
    struct rusage own = {0}, children = {0};
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    words[1] = (uint64_t)getpid();
    words[2] = (uint64_t)Py_MAX(own.ru_maxrss, children.ru_maxrss) * 1024;
    __atomic_store_n(&words[0], 1 + (uint64_t)(status & 0xff), __ATOMIC_RELEASE);
}
