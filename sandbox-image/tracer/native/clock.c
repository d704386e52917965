/* The time: of events, and how much the program has had. */
#include "recorder.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

/* Return what one of the system's clocks says. */
int64_t nanoseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Return the processor time of the process. */
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
void clock_measure(void) {
    int64_t now, passed_ns;
    do {
        now = nanoseconds(CLOCK_MONOTONIC);
        passed_ns = now - tick.start;
    } while (passed_ns < 500000);
    uint64_t passed = count_ticks(tick.steady) - tick.first;
    tick.per_second = (uint64_t)((double)passed * 1e9 / (double)passed_ns);
    tick.scale = (uint64_t)((double)passed_ns / 1000.0 / (double)(passed > 0 ? passed : 1) * 4294967296.0);
}

/* Start the clock of a run. Exact counting lasts for exact_ns of processor time from here. */
void clock_open(Recorder *r) {
    r->has_ticks = tick.steady;
    r->ticks_per_second = tick.per_second;
    r->tick_scale = tick.scale;
    r->exact_until = processor_ns() + r->exact_ns;
}

/* Whether the processor time for exact counting is used up. The processor's
 * clock is dear: the next look is due when half of what is left has passed. */
bool clock_is_up(Recorder *r, uint64_t now) {
    int64_t left = r->exact_until - processor_ns();
    if (left > 0) {
        r->next_look = now + (uint64_t)(left / 2 + 1000000) * (r->ticks_per_second / 1000000) / 1000;
    }
    return left <= 0;
}
