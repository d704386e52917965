/* The recorder in C: what its files share.
 *
 * The recorder follows the program with callbacks on sys.monitoring and writes
 * what it sees into the trace memory. It reads objects and frames in place and
 * never runs code of the program: no attribute look-up, no comparison, no hash,
 * no repr, and no reference is kept when a callback returns.
 *
 *   module.c        the Python type Recorder: options, start, stop
 *   monitoring.c    which events are set
 *   callbacks.c     what is done at events of lines and functions
 *   raising.c       what is done at events of exceptions
 *   threads.c       the stack of running functions of each thread
 *   codes.c         code objects: which are the program's
 *   definitions.c   what is known of a function, its definition in the memory
 *   edges.c         calls from one function to another
 *   loops.c         loops in the bytecode
 *   lines.c         lines of a code object's instructions
 *   instructions.c  where instructions begin and where they lead to
 *   flow.c          which line can follow which
 *   judging.c       what the instructions of a line can do
 *   iterating.c     what loops take items from
 *   aims.c          lines that change one object
 *   passing.c       lines whose events need not come
 *   revising.c      what comes up and changes which those are
 *   ways.c          from one line to another through those that are passed
 *   late.c          records of lines that were passed
 *   prying.c        programs that reach for frames
 *   bursts.c        places that were switched off, on again for a moment
 *   memory.c        areas, records, counters
 *   clock.c         the time, and how much of it exact counting has
 *   events.c        the events: the first ones in full, then the ring
 *   ring.c          the last events
 *   records.c       what a record shows besides its head
 *   variables.c     what changed in a frame
 *   quiet.c         lines that cannot change an object
 *   unseen.c        objects whose operators can change others
 *   values.c        values to bytes and to fingerprints
 *   shapes.c        what an object shows of itself
 *   ordered.c       the entries of an OrderedDict
 *   objects.c       numbers of objects and what was last said of them
 *   numeric.c       Decimal, datetime, numpy and other types with a text of their own
 *   failures.c      what exceptions say, limits they tell of
 *   notes.c         exceptions, deaths of threads, effects: a list of each
 *   signals.c     handlers of signals, not called in the tracer's own code
 *   audit.c         what the program reaches for, by the interpreter's own audit events
 *   auditing.c      sys.audit where the program has no hook
 *   warnings.c      how many warnings there were
 *   json.c          strings for definitions
 *
 * Py_BUILD_CORE is set because the values of a running frame's variables, the
 * attributes that an instance keeps without a dictionary and the instruction a
 * frame is at have no public way in that allocates nothing. These layouts hold
 * for one build of CPython, so importing the module fails in any other.
 */
#ifndef TRACEFLEET_RECORDER_H
#define TRACEFLEET_RECORDER_H

#ifndef Py_BUILD_CORE_MODULE
#define Py_BUILD_CORE_MODULE 1
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>

/* For what runs for every value of every event. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* For what runs seldom: it is not to be in the way of what runs often. */
#define COLD __attribute__((cold, noinline))

/* Bounds of what is shown; docs/trace-format.md tells them. */
enum {
    MAX_ITEMS = 8,        /* items of a container, attributes of an instance */
    MAX_TEXT = 80,        /* characters of a string */
    MAX_BYTES = 40,       /* bytes of a bytes object */
    MAX_BITS = 256,       /* of an integer that is written out */
    MAX_VARIABLES = 100,  /* variables of a frame */
    MAX_OBJECTS = 48,     /* objects that one event looks at */
    MAX_NAME = 200,       /* characters of a name */
    MAX_ARGUMENTS = 30,   /* arguments in a function's definition */
    MAX_MESSAGE = 200,    /* characters of an exception's message on an event */
};

/* The areas of the trace memory, and counters with a fixed meaning. */
enum { AREA_EVENTS, AREA_DEFS, AREA_COUNTERS, AREA_END, AREA_RING, AREA_NOTES, AREAS };
enum {
    C_VERSION, C_FLAGS, C_MAX_DEPTH, C_RAISED, C_OTHER, C_STDOUT, C_STDERR, C_STOPPED,
    C_SHORTENED, C_LOST, C_UNKNOWN, C_THREADS, C_NOWHERE, C_FIRST_FREE = 16,
};
enum {
    FLAG_INEXACT = 1, FLAG_DETACHED = 2, FLAG_FORKED = 4, FLAG_INPUT_ENDED = 8, FLAG_HIT_FILES = 16,
    FLAG_HIT_DISK = 32, FLAG_HIT_INODES = 64, FLAG_HIT_FILE_SIZE = 128, FLAG_INTERPRETERS = 256,
};
enum { BY_EVENTS = 1, BY_BYTES, BY_TIME };

enum Kind { CALL, LINE, RETURN, YIELD, RESUME, THROW, EXCEPTION, UNWIND };

/* Bytes of the definitions' area that stay free for the exception report. */
#define DEFS_RESERVE (384u << 10)

typedef struct Area {
    uint8_t *base;
    uint64_t capacity;
    uint64_t *committed; /* in the header page; the program may have changed it */
} Area;

/* Where bytes go. After an overflow nothing more is written and full is set. */
typedef struct Out {
    uint8_t *at, *end;
    bool full;
} Out;

/* What the callbacks need to know of one function of the program. Functions
 * that are compiled again from the same text share their facts. */
typedef struct Facts {
    struct Facts *next;       /* of the same bucket in the table by content */
    uint64_t content;         /* fingerprint of code, names and lines */
    uint32_t number;
    int first_line;
    uint32_t calls;           /* counter of its starts */
    int units;                /* instructions with their caches */
    int32_t *lines;           /* line of each unit, 0 for none */
    uint8_t *operations;      /* opcode of each unit, as compiled */
    int low_line, high_line;  /* range of counted lines */
    uint32_t *counters;       /* counter of a line, from low_line on; 0 for none */
    int32_t *quiet;           /* of a line, from low_line on: QUIET, LOUD, or the unit of its FOR_ITER */
    uint8_t *marks;           /* what came up at each unit */
    int fors;                 /* loops whose iterators have been safe so far */
    uint64_t iterated;        /* arguments, by place, that loops go over, and that have been safe so far */
    struct Flow *flow;        /* of a function whose lines run often */
    bool flow_failed;
    uint64_t objects[2];      /* variables, by place, that have held objects */
    bool unseen;              /* a variable has held an object whose operators can change others without an event */
    bool odd;                 /* a variable has held what changes, or changes others, by being read */
    uint64_t cells[2];        /* variables, by place, that other functions can change */
    int probes;               /* places where entries of loop bodies are counted */
    struct Probe *probe;
    bool has_arrivals;
    uint32_t handed;          /* how often it has handed something over, or gone on, since exact counting was over */
    bool hidden[MAX_VARIABLES]; /* variables, by place, that the interpreter keeps for itself */
    struct Facts *caller;     /* the caller of before, and its counter */
    uint32_t caller_counter;
} Facts;

/* A counter at a unit: of LINE events there, or of jumps that arrive there. */
typedef struct Probe {
    int unit;
    uint32_t counter;
    bool arrival;
    int line; /* from which jumps are counted, 0 for any */
} Probe;
#define PROBED 0x80000000u /* mark of a line with probes, in Facts.counters */

typedef struct Variable {
    Py_hash_t name; /* of a namespace's variable; unused in a function */
    uint64_t said;  /* fingerprint of what was last said, 0 for nothing */
    char *text;     /* the name, NULL in a function */
} Variable;

/* What was last said of a frame's variables. */
typedef struct Said {
    struct Said *next; /* of those that are kept for frames to come */
    int count, room;
    uint64_t version, print; /* of the namespace when it was last read through */
    uint64_t objects[2]; /* variables, by place, that hold objects */
    Variable *variables;
} Said;

/* A running or suspended function. */
enum { MOST_LENDERS = 64 };

typedef struct Activation {
    _PyInterpreterFrame *frame;
    Facts *facts;
    uint32_t number;
    int line;
    int node; /* of its last event, in Facts.flow; -1 when unknown */
    bool looked; /* at the iterators of the loops that it is in */
    bool lent;   /* suspended, but below one that an exception was thrown into by way of it */
    Said *said;
} Activation;

typedef struct Thread {
    struct Thread *next;
    PyThreadState *state;
    uint64_t id;
    uint32_t number;
    int depth, room;
    Activation *stack;
} Thread;

/* An object that the trace has numbered. */
typedef struct Object {
    uint64_t key;     /* of its address and type, 0 for a free entry */
    uint64_t said;    /* fingerprint of what was last said of its content */
    uint64_t version; /* of its dictionary when that was said, 0 for none */
    uint32_t number;
    uint32_t look : 30;
    uint32_t leaf : 1;  /* no objects in it */
    uint32_t plain : 1; /* an instance that shows its attributes only */
} Object; /* half a line of the processor's cache */

typedef struct Objects {
    Object *table;
    uint32_t mask, used, last, look;
} Objects;

typedef struct Suspended {
    Activation *table;
    uint32_t mask, used;
} Suspended;

typedef struct CodeEntry {
    PyCodeObject *code;
    Facts *facts; /* NULL: adopted, not defined yet */
} CodeEntry;

typedef struct Codes {
    CodeEntry *table;
    uint32_t mask, used;
    Facts *buckets[1024];
    uint32_t last, last_file;
    struct Edge *edges;
    uint32_t edge_mask, edge_count;
    struct FileName *files;
} Codes;

typedef struct Ring {
    uint8_t *base;
    uint32_t segments, segment_bytes, current;
    uint8_t *at, *end;
    uint64_t *used;    /* bytes of the segment's records, in its head */
    bool on;
    uint64_t checked;  /* tick of the last look at the clock */
    int64_t credit;    /* ticks that snapshots may take */
    int64_t reserve;   /* of these, what is kept for exceptions */
    uint32_t until_check;
    uint32_t since;    /* events since the last snapshot */
    uint32_t plain, granted; /* so many more events are heads only and need no look at the clock; of so many */
    int64_t allowance; /* bytes that snapshots of a burst may take */
} Ring;

/* The lists of notes, and what is known of exceptions and effects that are listed. */
enum NoteKind { NOTE_EXCEPTION = 1, NOTE_THREAD, NOTE_FILE, NOTE_SOCKET, NOTE_PROCESS };
enum {
    FIRST_EXCEPTIONS = 50, LAST_EXCEPTIONS = 50, MAX_DEATHS = 20, MAX_EFFECTS = 50, EFFECT_KINDS = 3,
    MAX_NOTES = FIRST_EXCEPTIONS + LAST_EXCEPTIONS + MAX_DEATHS + EFFECT_KINDS * MAX_EFFECTS, PENDING = 16,
};
typedef struct Pending {
    const PyThreadState *state; /* this and what follows is compared only */
    const void *frame, *code, *at;
    uint32_t note;
} Pending;
typedef struct Notes {
    uint64_t *counts;      /* in the head of the area; NULL when there is none */
    uint32_t room, used;
    uint64_t last;         /* number of the last note */
    uint64_t exceptions;
    uint64_t asked;        /* tick at which Python last worded one sparingly */
    uint32_t deaths, effects[EFFECT_KINDS];
    uint32_t size[MAX_NOTES]; /* of an effect's text */
    struct {
        const void *error, *type; /* compared only */
        int index;
    } raised[FIRST_EXCEPTIONS + LAST_EXCEPTIONS];
    Pending pending[PENDING];
    Pending shown;         /* where an exception that nobody can catch was shown last */
    uint32_t pendings, next_pending;
} Notes;

/* The name of a type as it was last written. */
typedef struct TypeName {
    const PyTypeObject *type; /* compared only, as its name */
    const PyObject *words;
    uint64_t version; /* of the type's dictionary */
    uint32_t size;
    uint8_t text[124];
} TypeName;

/* What was last found of a type; see unseen.c. A type is looked for in some places from its own on. */
enum { UNSEEN_TYPES = 256, UNSEEN_PLACES = 4 };
typedef struct UnseenType {
    const PyTypeObject *type; /* compared only */
    unsigned version;
    bool unseen;
} UnseenType;

typedef struct Recorder {
    PyObject_HEAD
    Py_buffer memory;
    Area area[AREAS];
    uint64_t *counters;
    uint32_t counter_count, next_counter;

    bool with_lines, with_values, wants_events, attached, recording, saturating, bursting, ignoring_raising;
    PyObject *include;        /* tuple of path prefixes */
    PyObject *fail, *message; /* what Python does: report of the last exception, rare wordings */
    PyObject *disable;        /* sys.monitoring.DISABLE */
    PyObject *set_local, *set_events, *restart; /* of sys.monitoring */
    uint32_t mask;            /* events that are set for all code */
    int64_t exact_ns;         /* processor time up to which every hit is counted */
    int64_t exact_until;
    bool passing;             /* lines may be passed, after so many hits */
    bool prying;              /* the program has reached for frames: it can write variables of any */
    uint64_t pass_after;

    uint64_t room;            /* events that still fit the head */
    uint64_t event_count;     /* all events so far */
    uint64_t burst_end;       /* of these, when a burst ends */
    uint8_t *event_at, *event_end;
    uint8_t *populated;       /* up to here the event area has its pages */
    uint64_t origin, next_look;
    uint64_t tick_scale;      /* microseconds per tick, 32 bits of fraction */
    uint64_t ticks_per_second;
    bool has_ticks;
    uint64_t out[2];
    uint64_t time;            /* of the last event, in ticks */
    uint64_t coarse;          /* the system's coarse clock at the last look at the time */
    uint32_t until_time;      /* line events until the next one */

    uint32_t last_frame;
    int quiet_line;           /* of the last event when that was a line, else 0 */
    struct {
        uint32_t frame, thread, depth, time;
    } last; /* of the record before */
    PyCodeObject *main_code;  /* of the program's first function; compared only */
    Thread *threads, *thread;
    Suspended suspended;
    Said *spare;
    uint32_t spares;
    Objects objects;
    Codes codes;
    PyCodeObject *last_code;
    Facts *last_facts;
    Ring ring;
    Notes notes;
    TypeName type_names[32];
    UnseenType unseen_types[UNSEEN_TYPES];
    unsigned unseen_next;
    const PyThreadState *main_state; /* these are compared only */
    const PyInterpreterState *interpreter;
} Recorder;

/* Return where an address belongs in a table that is looked through from there. */
static inline uint32_t place_of(const void *address, uint32_t mask) {
    return (uint32_t)(((uintptr_t)address >> 4) * 0x9E3779B1u >> 4) & mask;
}

/* Return a small number, -1 for anything else. */
static inline int small_number(PyObject *number) {
    bool small = PyLong_CheckExact(number) && PyUnstable_Long_IsCompact((PyLongObject *)number);
    Py_ssize_t value = small ? PyUnstable_Long_CompactValue((PyLongObject *)number) : -1;
    return value >= 0 ? (int)value : -1; /* a compact one has one digit */
}

/* memory.c */
bool memory_open(Recorder *r, const uint64_t *offsets, const uint64_t *capacities, int count);
bool memory_define(Recorder *r, const char *text, size_t size);
uint32_t memory_counters(Recorder *r, uint32_t count);
void memory_leave(Recorder *r, unsigned status);

/* Counters are read by another process; each is one aligned word. */
static inline uint64_t count_up(Recorder *r, uint32_t counter) {
    uint64_t hits = r->counters[counter] + 1;
    r->counters[counter] = hits;
    return hits;
}

/* lines.c */
bool lines_read(PyCodeObject *code, int32_t *lines, int units);

/* loops.c */
void loops_define(Recorder *r, Facts *facts, PyCodeObject *code);

/* quiet.c */
enum { QUIET = -1, LOUD = -2 };
void quiet_find(Facts *facts, PyCodeObject *code);
bool quiet_is(const Facts *facts, const _PyInterpreterFrame *frame, int line);

/* unseen.c */
bool unseen_is(Recorder *r, PyObject *value);

/* codes.c */
bool codes_open(Recorder *r);
void codes_close(Recorder *r);
Facts *codes_find(Recorder *r, PyCodeObject *code);
Facts *codes_meet(Recorder *r, PyCodeObject *code, _PyInterpreterFrame *frame);
bool codes_is_user(Recorder *r, PyCodeObject *code);
void codes_forget(Recorder *r, PyCodeObject *code);
bool codes_starts_with(PyObject *text, PyObject *prefix);

/* definitions.c */
Facts *definitions_of(Recorder *r, PyCodeObject *code);
void definitions_close(Codes *codes);

/* edges.c */
bool edges_open(Codes *codes);
uint32_t edges_count(Recorder *r, Facts *caller, Facts *callee);

static inline Facts *codes_get(Recorder *r, PyCodeObject *code) {
    if (code == r->last_code) {
        return r->last_facts;
    }
    Facts *facts = codes_find(r, code);
    if (facts != NULL) {
        r->last_code = code;
        r->last_facts = facts;
    }
    return facts;
}

static inline int line_of(Facts *facts, int unit) {
    return unit >= 0 && unit < facts->units ? facts->lines[unit] : 0;
}

/* threads.c */
Thread *threads_meet(Recorder *r, PyThreadState *state);
Thread *threads_known(const Recorder *r, const PyThreadState *state);
Activation *threads_push(Recorder *r, Thread *thread, _PyInterpreterFrame *frame, Facts *facts);
Activation *threads_resume(Recorder *r, Thread *thread, _PyInterpreterFrame *frame, Facts *facts);
int threads_lenders(const Thread *thread, const _PyInterpreterFrame *frame, _PyInterpreterFrame **lenders, _PyInterpreterFrame **below);
void threads_lend(Recorder *r, Thread *thread, _PyInterpreterFrame *const *lenders, int count);
Activation *threads_find(Recorder *r, Thread *thread, _PyInterpreterFrame *frame, Facts *facts);
void threads_pop(Recorder *r, Thread *thread, _PyInterpreterFrame *frame);
void threads_suspend(Recorder *r, Thread *thread, _PyInterpreterFrame *frame);
void threads_walk(Recorder *r, Thread *thread, _PyInterpreterFrame *frame);
void threads_walk_all(Recorder *r);
void threads_drop_said(Recorder *r);
void threads_close(Recorder *r);
Said *said_new(Recorder *r);

/* Return the state of the thread that runs; NULL when there is no memory. */
static ALWAYS_INLINE Thread *threads_current(Recorder *r, PyThreadState *state) {
    Thread *thread = r->thread;
    return thread != NULL && thread->state == state && thread->id == state->id ? thread : threads_meet(r, state);
}

/* Return the activation of the frame that runs, mostly the top of the stack. */
static ALWAYS_INLINE Activation *threads_top(Recorder *r, Thread *thread, _PyInterpreterFrame *frame, Facts *facts) {
    if (thread->depth > 0) {
        Activation *top = &thread->stack[thread->depth - 1];
        if (top->frame == frame && top->facts == facts) {
            return top;
        }
    }
    return threads_find(r, thread, frame, facts);
}

/* clock.c */
void clock_measure(void);
void clock_open(Recorder *r);
bool clock_is_up(Recorder *r, uint64_t now);
uint64_t ticks(const Recorder *r);
int64_t nanoseconds(clockid_t clock);
int64_t processor_ns(void);

/* events.c */
typedef struct Event {
    enum Kind kind;
    Thread *thread;
    Activation *activation;
    PyObject *value, *error;
    const struct Node *after; /* what has run since the record before, if that is of the same frame */
    const uint64_t *rest;     /* variables that were stored to later */
    bool late;                /* of a line that was passed */
} Event;
void events_open(Recorder *r, uint64_t budget);
void events_add(Recorder *r, const Event *event);
typedef struct PassedLine {
    int32_t line;
    uint32_t counter, entry; /* entry: of a loop's body that begins there, 0 for none */
} PassedLine;
bool events_add_bare(Recorder *r, const Thread *thread, Activation *activation, const PassedLine *lines, int count);
bool events_add_way(Recorder *r, const Thread *thread, Activation *activation, const PassedLine *lines, int count);
bool events_add_line(Recorder *r, const Thread *thread, Activation *activation, int line);

/* bursts.c */
void bursts_open(Recorder *r, int64_t cpu_ms, int64_t wall_end_ms, int64_t interval_ms);
COLD void bursts_await(Recorder *r);
COLD void bursts_end(Recorder *r);
COLD void bursts_follow(const Recorder *r);
void bursts_hold(void);
void bursts_release(void);
void bursts_close(const Recorder *r);

/* failures.c */
void failure_write(Recorder *r, Out *out, PyObject *error);
void failure_tell(Recorder *r, Out *out, PyObject *error, bool sparing);
void failure_note_limit(Recorder *r, PyObject *error);
bool failure_is_new(Recorder *r, PyObject *error);
bool failure_ends_iteration(PyObject *error);
bool failure_is_internal(Facts *facts, int unit);
PyObject *call_python(PyObject *callable, PyObject *argument);

/* notes.c */
void notes_open(Recorder *r);
void notes_count(Recorder *r, int count);
bool notes_may_ask(Recorder *r);
void notes_exception(Recorder *r, Thread *thread, const Facts *facts, int line, PyObject *error);
COLD bool notes_fate(Recorder *r, PyObject *error, int fate);
COLD void notes_unwind(Recorder *r, PyThreadState *state, const _PyInterpreterFrame *frame, PyObject *error);
void notes_outcome(Recorder *r, PyThreadState *state, const _PyInterpreterFrame *frame, PyObject *error);
bool notes_is_library(const PyCodeObject *code, const char *name);

/* audit.c */
bool audit_open(Recorder *r);
void audit_close(Recorder *r);
PyObject *audit_hush(PyThreadState *state);
void audit_unhush(PyThreadState *state, PyObject *hooks);

/* signals.c */
unsigned long signals_hold(void);
void signals_release(unsigned long held);

/* process.c */
COLD PyObject *process_map(PyObject *module, PyObject *arguments);
COLD PyObject *process_limit(PyObject *module, PyObject *arguments);
COLD PyObject *process_run_instead(PyObject *module, PyObject *arguments);
COLD PyObject *process_except_for(PyObject *module, PyObject *arguments);

/* auditing.c */
void auditing_open(void);

/* warnings.c */
void warnings_open(Recorder *r);
void warnings_close(Recorder *r);
COLD bool warnings_shown(Recorder *r, const PyThreadState *state, const PyCodeObject *code);

/* monitoring.c */
enum {
    ON_START, ON_RESUME, ON_RETURN, ON_YIELD, ON_LINE = 5, ON_JUMP = 7, ON_BRANCH, ON_RAISE = 10, ON_UNWIND = 12, ON_THROW,
    TOOL = 4, /* of sys.monitoring: one that no known tool claims */
};
long monitoring_events(const Recorder *r, const Facts *facts);
void monitoring_set_local(Recorder *r, PyCodeObject *code, long events);
COLD void monitoring_ignore_raising(Recorder *r);
COLD void monitoring_restart(Recorder *r);

/* callbacks.c */
typedef struct Callback {
    PyObject_HEAD
    vectorcallfunc call;
    Recorder *recorder;
    PyObject *write;  /* what a counting write stands in front of */
    uint32_t counter;
} Callback;
vectorcallfunc callback_for(int event);
PyObject *callback_write(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *names);

/* json.c */
typedef struct Text {
    char *data;
    size_t size, room;
    bool failed;
} Text;
void text_add(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_quote(Text *text, PyObject *string, Py_ssize_t limit);
void text_free(Text *text);

#endif
