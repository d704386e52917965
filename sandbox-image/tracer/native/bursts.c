/* Bursts: the events of places that are switched off, once more for a moment.
 *
 * When exact counting is over, a place that runs often is switched off, and the ring would
 * hold what runs seldom only. So now and then, and for good just before a limit ends the
 * program, all places are switched on again, and their events go to the ring with what variables hold.
 *
 * A program that runs only places that are off gives the recorder no turn. A timer on the
 * process's processor clock gives it one. Its signal comes to the thread that computes, so it
 * interrupts no call that waits; it is a signal of the C library's own, which a program cannot
 * handle, block or await by way of that library; and its handler does no more than ask the interpreter
 * for a call between two instructions, which has been put on its list before.
 *
 * Linux before 6.4 and gVisor give a signal of the process to its main thread, also where that waits: signal.pause
 * would return. There the timer is on the clock of the thread that had the last event, and for that alone. */
#include "flow.h"
#include "records.h"

#include <internal/pycore_ceval.h>
#include <internal/pycore_interp.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { WAKE_SIGNAL = 32, BURST = 600, COST_SHARE = 50, LAST_SHARE = 50 };
#define MS ((int64_t)1000000)
#define NEVER INT64_MAX
#define SOONEST (2 * MS)
#define MOST_COST (10 * MS)

/* As the kernel knows it: the C library refuses its own signals. */
typedef struct Action {
    uintptr_t handler;
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
} Action;

/* The handler and the call have no place for a context; a process has one recorder. Times are in nanoseconds. */
static struct {
    Recorder *recorder;
    const PyInterpreterState *interpreter;
    Action action, before; /* ours, and what there was */
    timer_t timer;
    bool has_timer, queued, missed;
    bool of_thread;                  /* the timer is on a thread's clock */
    pid_t thread;                    /* that thread */
    int held;                        /* how many times the tracer's own Python code runs */
    volatile sig_atomic_t waiting;   /* for the next burst */
    int64_t cpu_end, wall_end, last; /* the limits, and how long before them the last burst begins */
    int64_t interval, next, began;   /* processor time between bursts, of the next one, of this one */
} wake;

/* Return how long the program has at most. */
static int64_t left_of(int64_t now) {
    return Py_MIN(wake.wall_end - nanoseconds(CLOCK_MONOTONIC), wake.cpu_end - now);
}

/* Have a signal after so much processor time, and again until the timer is set anew; 0 for none. */
static void timer_start(int64_t after) {
    struct itimerspec when = {.it_value = {after / (1000 * MS), after % (1000 * MS)}, .it_interval = {0, after > 0 ? 10 * MS : 0}};
    if (wake.has_timer) {
        timer_settime(wake.timer, 0, &when, NULL);
    }
}

/* When to look again. How much processor time the program will have had at its wall limit is unknown where
 * others use the processors too: so each look comes after a small part of the time that is left. */
static int64_t next_look(int64_t now, int64_t left) {
    return Py_MAX(Py_MIN(wake.next - now, left / 16), SOONEST);
}

/* Let a signal that the program has sent itself do what it does without us: it comes once more when the handler is left. */
static void pass_on(void) {
    if (wake.before.handler != (uintptr_t)SIG_IGN) {
        syscall(SYS_rt_sigaction, WAKE_SIGNAL, &wake.before, NULL, sizeof wake.before.mask);
        syscall(SYS_tgkill, getpid(), gettid(), WAKE_SIGNAL);
    }
}

/* The timer's signal, in whichever thread computes. Does only what is safe at any instruction. */
static void on_signal(int number, siginfo_t *information, void *context) {
    (void)number;
    (void)context;
    int error = errno;
    if (information->si_code != SI_TIMER) {
        pass_on();
    } else if (wake.waiting) {
        PyThreadState *state = PyThreadState_GetUnchecked();
        int64_t now = processor_ns(), left = left_of(now);
        bool due = left <= wake.last || now >= wake.next;
        if (due && state != NULL && state->interp == wake.interpreter) {
            _Py_set_eval_breaker_bit(state, _PY_CALLS_TO_DO_BIT);
        }
        if (!due) {
            timer_start(next_look(now, left));
        }
    }
    errno = error;
}

/* Switch everything on. */
static void begin(Recorder *r) {
    int64_t now = processor_ns();
    wake.waiting = 0;
    timer_start(0);
    wake.began = now;
    r->burst_end = left_of(now) <= wake.last ? UINT64_MAX : r->event_count + BURST;
    if (r->passing) {
        revising_stop(r);
    }
    r->saturating = false;
    r->bursting = true;
    r->ring.allowance = 0;
    ring_settle(&r->ring);
    monitoring_restart(r);
    threads_walk_all(r);
}

/* The interpreter makes the call that was asked for. It may do so at another time as well. */
static int on_call(void *nothing) {
    (void)nothing;
    Recorder *r = wake.recorder;
    wake.queued = false;
    if (r == NULL || !r->attached || !wake.waiting || PyThreadState_GetUnchecked()->interp != r->interpreter) {
        return 0;
    }
    if (wake.held > 0) {
        wake.missed = true;
    } else {
        begin(r);
    }
    return 0;
}

/* Put the call on the interpreter's list, without asking for it yet. */
static bool queue_call(Recorder *r) {
    struct _pending_calls *pending = &((PyInterpreterState *)r->interpreter)->ceval.pending;
    PyMutex_Lock(&pending->mutex);
    if (!wake.queued && pending->npending < pending->max) {
        pending->calls[pending->next] = (struct _pending_call){.func = on_call};
        pending->next = (pending->next + 1) % PENDINGCALLSARRAYSIZE;
        _Py_atomic_add_int32(&pending->npending, 1);
        wake.queued = true;
    }
    PyMutex_Unlock(&pending->mutex);
    return wake.queued;
}

/* Whether a signal of the process comes to the thread at whose work it was made. */
static bool signals_find_workers(void) {
    struct utsname system;
    int major = 0, minor = 0;
    return uname(&system) == 0 && sscanf(system.release, "%d.%d", &major, &minor) == 2 && (major > 6 || (major == 6 && minor >= 4));
}

static void timer_drop(void) {
    if (wake.has_timer) {
        wake.has_timer = false;
        timer_delete(wake.timer);
    }
}

/* Make the timer, of this thread where it is one's, and handle its signal; false when that cannot be had, or
 * another library handles the signal. That it is ignored says nothing: so it may have been when the interpreter was started. */
static bool timer_make(void) {
    Action before;
    const uintptr_t ours = (uintptr_t)on_signal;
    struct sigevent event = {.sigev_notify = wake.of_thread ? SIGEV_THREAD_ID : SIGEV_SIGNAL, .sigev_signo = WAKE_SIGNAL};
    if (wake.has_timer && (!wake.of_thread || wake.thread == gettid())) {
        return true;
    }
    timer_drop();
    if (wake.of_thread) {
        event._sigev_un._tid = wake.thread = gettid();
    }
    if (wake.action.handler == 0 || syscall(SYS_rt_sigaction, WAKE_SIGNAL, NULL, &before, sizeof before.mask) != 0 ||
        (before.handler != (uintptr_t)SIG_DFL && before.handler != (uintptr_t)SIG_IGN && before.handler != ours)) {
        return false;
    }
    if (before.handler != ours) {
        wake.before = before;
    }
    if (syscall(SYS_rt_sigaction, WAKE_SIGNAL, &wake.action, NULL, sizeof before.mask) != 0) {
        return false;
    }
    wake.has_timer = timer_create(wake.of_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID, &event, &wake.timer) == 0;
    return wake.has_timer;
}

/* Prepare: limits in milliseconds, of processor time and as a reading of the system's monotonic
 * clock, 0 for none, and the processor time between bursts. Called before the program starts. */
void bursts_open(Recorder *r, int64_t cpu_ms, int64_t wall_end_ms, int64_t interval_ms) {
    int64_t now = processor_ns();
    wake.recorder = r;
    wake.interpreter = r->interpreter;
    wake.interval = interval_ms * MS;
    wake.cpu_end = now + cpu_ms * MS;
    wake.wall_end = wall_end_ms > 0 ? wall_end_ms * MS : NEVER;
    wake.of_thread = !signals_find_workers();
    /* The threads that the program starts inherit this. */
    uint64_t signal = (uint64_t)1 << (WAKE_SIGNAL - 1);
    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &signal, NULL, sizeof signal);
    wake.last = Py_MIN(Py_MAX(left_of(now) / LAST_SHARE, 10 * MS), 50 * MS);
    /* How a handler returns is the C library's knowledge; the interpreter has set this signal by way of it. */
    if (syscall(SYS_rt_sigaction, SIGPIPE, NULL, &wake.action, sizeof wake.action.mask) != 0) {
        return;
    }
#if defined(__x86_64__)
    enum { HAS_RESTORER = 0x04000000 };
    bool returns = wake.action.flags & HAS_RESTORER;
    wake.action.flags &= HAS_RESTORER;
#else
    bool returns = true;
    wake.action.flags = 0;
#endif
    wake.action.flags |= SA_RESTART | SA_ONSTACK | SA_SIGINFO;
    wake.action.mask = 0;
    wake.action.handler = returns ? (uintptr_t)on_signal : 0;
}

/* Exact counting is over, or a burst: wait for the next. */
void bursts_await(Recorder *r) {
    if (wake.recorder != r || !r->ring.on || !timer_make() || !queue_call(r)) {
        return;
    }
    int64_t now = processor_ns(), cost = r->bursting ? Py_MIN(now - wake.began, MOST_COST) : 0;
    wake.next = now + Py_MAX(wake.interval, cost * COST_SHARE);
    wake.waiting = 1;
    timer_start(next_look(now, left_of(now)));
}

/* Another thread has an event than had the one before. */
void bursts_follow(const Recorder *r) {
    if (wake.of_thread && wake.waiting && wake.recorder == r && timer_make()) {
        int64_t now = processor_ns();
        timer_start(next_look(now, left_of(now)));
    }
}

/* A burst has had its events. */
void bursts_end(Recorder *r) {
    bursts_await(r);
    r->bursting = false;
    r->saturating = true;
}

/* The tracer's own Python code starts to run from inside of a callback: no burst begins meanwhile. */
void bursts_hold(void) {
    wake.held++;
}

/* It has run. */
void bursts_release(void) {
    Recorder *r = wake.recorder;
    if (--wake.held == 0 && wake.missed) {
        wake.missed = false;
        if (r != NULL && wake.waiting && queue_call(r)) {
            timer_start(SOONEST);
        }
    }
}

/* No more bursts. The handler stays, as a signal may be under way. */
void bursts_close(const Recorder *r) {
    if (wake.recorder != r) {
        return;
    }
    wake.waiting = 0;
    wake.recorder = NULL;
    timer_drop();
}
