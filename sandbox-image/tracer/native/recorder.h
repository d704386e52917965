/* The recorder in C: what its files share.
 *
 * The recorder follows the program with callbacks on sys.monitoring and writes
 * what it sees into the trace memory. It reads objects and frames in place and
 * never runs code of the program: no attribute look-up, no comparison, no hash,
 * no repr, and no reference is kept when a callback returns.
 *
 *   module.c      the Python type Recorder: options, start, stop
 *   callbacks.c   one function for each monitoring event
 *   threads.c     the stack of running functions of each thread
 *   codes.c       code objects: which are the program's, their definitions
 *   loops.c       loops in the bytecode
 *   lines.c       lines of a code object's instructions
 *   memory.c      areas, records, counters
 *   events.c      the events: head, then ring
 *   variables.c   what changed in a frame
 *   values.c      values to bytes and to fingerprints
 *   shapes.c      what an object shows of itself
 *   objects.c     numbers of objects and what was last said of them
 *   numeric.c     Decimal, datetime, numpy and other types with a text of their own
 *   failures.c    what exceptions say, limits they tell of
 *   json.c        strings for definitions
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

#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>

/* For what runs for every value of every event. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

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
enum { AREA_EVENTS, AREA_DEFS, AREA_COUNTERS, AREA_END, AREA_RING, AREAS };
enum {
    C_VERSION, C_FLAGS, C_MAX_DEPTH, C_RAISED, C_OTHER, C_STDOUT, C_STDERR, C_STOPPED,
    C_SHORTENED, C_LOST, C_UNKNOWN, C_THREADS, C_NOWHERE, C_FIRST_FREE = 16,
};
enum {
    FLAG_INEXACT = 1, FLAG_DETACHED = 2, FLAG_FORKED = 4, FLAG_INPUT_ENDED = 8, FLAG_HIT_FILES = 16,
    FLAG_HIT_DISK = 32, FLAG_HIT_INODES = 64, FLAG_HIT_FILE_SIZE = 128,
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
    int probes;               /* places where entries of loop bodies are counted */
    struct Probe *probe;
    bool has_arrivals;
    bool hidden[MAX_VARIABLES]; /* variables, by place, that the interpreter keeps for itself */
    struct Facts *caller;     /* the caller of before, and its counter */
    uint32_t caller_counter;
} Facts;

/* A counter at a unit: of LINE events there, or of jumps that arrive there. */
typedef struct Probe {
    int unit;
    uint32_t counter;
    bool arrival;
} Probe;
#define PROBED 0x80000000u /* mark of a line with probes, in Facts.counters */

typedef struct Variable {
    Py_hash_t name; /* of a namespace's variable; unused in a function */
    uint64_t said;  /* fingerprint of what was last said, 0 for nothing */
    char *text;     /* the name, NULL in a function */
} Variable;

/* What was last said of a frame's variables. */
typedef struct Said {
    int count, room;
    uint64_t version; /* of the namespace when it was last read through */
    Variable *variables;
} Said;

/* A running or suspended function. */
typedef struct Activation {
    _PyInterpreterFrame *frame;
    Facts *facts;
    uint32_t number;
    int line;
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
    PyObject *address;
    PyTypeObject *type;
    uint64_t said;    /* fingerprint of what was last said of its content */
    uint64_t version; /* of its dictionary when that was said, 0 for none */
    uint32_t number;
    uint32_t look : 31, leaf : 1; /* leaf: no objects in it */
} Object;

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
    bool on;
    uint64_t checked;  /* tick of the last look at the clock */
    int64_t credit;    /* ticks that snapshots may take */
    int64_t reserve;   /* of these, what is kept for exceptions */
    uint32_t until_check;
} Ring;

typedef struct Recorder {
    PyObject_HEAD
    Py_buffer memory;
    Area area[AREAS];
    uint64_t *counters;
    uint32_t counter_count, next_counter;

    bool with_lines, with_values, wants_events, attached, recording, saturating, ignoring_raising;
    PyObject *include;        /* tuple of path prefixes */
    PyObject *fail, *message; /* what Python does: report of the last exception, rare wordings */
    PyObject *disable;        /* sys.monitoring.DISABLE */
    PyObject *set_local, *set_events; /* of sys.monitoring */
    uint32_t mask;            /* events that are set for all code */
    int64_t exact_ns;         /* processor time up to which every hit is counted */
    int64_t exact_until;

    uint64_t room;            /* events that still fit the head */
    uint64_t event_count;     /* all events so far */
    uint8_t *event_at, *event_end;
    uint8_t *populated;       /* up to here the event area has its pages */
    uint64_t origin, next_look;
    uint64_t tick_scale;      /* microseconds per tick, 32 bits of fraction */
    uint64_t ticks_per_second;
    bool has_ticks;
    uint64_t out[2];

    uint32_t last_frame;
    struct {
        uint32_t frame, thread, depth, time;
    } last; /* of the record before */
    PyCodeObject *main_code;  /* of the program's first function; compared only */
    Thread *threads, *thread;
    Suspended suspended;
    Objects objects;
    Codes codes;
    PyCodeObject *last_code;
    Facts *last_facts;
    Ring ring;
} Recorder;

/* memory.c */
bool memory_open(Recorder *r, const uint64_t *offsets, const uint64_t *capacities, int count);
bool memory_define(Recorder *r, const char *text, size_t size);
uint32_t memory_counters(Recorder *r, uint32_t count);

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

/* codes.c */
bool codes_open(Recorder *r);
void codes_close(Recorder *r);
Facts *codes_find(Recorder *r, PyCodeObject *code);
Facts *codes_meet(Recorder *r, PyCodeObject *code, _PyInterpreterFrame *frame);
bool codes_is_user(Recorder *r, PyCodeObject *code);
void codes_forget(Recorder *r, PyCodeObject *code);
uint32_t codes_edge(Recorder *r, Facts *caller, Facts *callee);

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
Thread *threads_current(Recorder *r, PyThreadState *state);
Activation *threads_push(Recorder *r, Thread *thread, _PyInterpreterFrame *frame, Facts *facts);
Activation *threads_resume(Recorder *r, Thread *thread, _PyInterpreterFrame *frame, Facts *facts);
Activation *threads_find(Recorder *r, Thread *thread, _PyInterpreterFrame *frame, Facts *facts);
void threads_pop(Recorder *r, Thread *thread, _PyInterpreterFrame *frame);
void threads_suspend(Recorder *r, Thread *thread, _PyInterpreterFrame *frame);
void threads_walk(Recorder *r, Thread *thread, _PyInterpreterFrame *frame);
void threads_drop_said(Recorder *r);
void threads_close(Recorder *r);
void said_free(Said *said);

/* events.c */
typedef struct Event {
    enum Kind kind;
    Thread *thread;
    Activation *activation;
    PyObject *value, *error;
} Event;
void events_open(Recorder *r, uint64_t budget);
void events_add(Recorder *r, const Event *event);
void events_close(Recorder *r, int cause);
uint64_t ticks(const Recorder *r);
int64_t processor_ns(void);

/* values.c: how values look is in docs/trace-format.md. */
typedef struct Found {
    int count;
    PyObject *items[MAX_VARIABLES + 1 + MAX_OBJECTS * 2 * (MAX_ITEMS + 2)];
} Found;
void value_write(Recorder *r, Out *out, PyObject *value, PyTypeObject *type, Found *found);
void text_write(Out *out, PyObject *text, Py_ssize_t limit);
void bytes_write(Out *out, const void *data, size_t size);
void number_write(Out *out, uint64_t number);
void latin_write(Out *out, const char *text);
bool value_is_object(PyObject *value);
bool name_is_special(PyObject *name);
uint64_t text_print(PyObject *text);
void integer_write(Recorder *r, Out *out, PyObject *value);

static inline void byte_write(Out *out, unsigned byte) {
    if (out->at < out->end) {
        *out->at++ = (uint8_t)byte;
    } else {
        out->full = true;
    }
}

static inline uint64_t mix(uint64_t print, uint64_t word) {
    print = (print ^ word) * 0x9E3779B97F4A7C15u;
    return print ^ (print >> 32);
}

/* variables.c */
void variables_write(Recorder *r, Out *out, Activation *activation, Found *found, bool all);

/* Fingerprints of values are told apart by type, then spread over all bits. */
#define PRINT_FLOAT 0xA0761D6478BD642Fu
#define PRINT_INT 0xE7037ED1A0B428DBu
uint64_t value_print_slowly(PyObject *value, PyTypeObject *type);

/* Return the fingerprint of a value as one of a type, and whether it is shown as a reference. */
static ALWAYS_INLINE uint64_t value_print(PyObject *value, PyTypeObject *type, bool *is_object) {
    *is_object = false;
    if (type == &PyLong_Type) {
        const PyLongObject *number = (const PyLongObject *)value;
        if (PyUnstable_Long_IsCompact(number)) {
            return (number->long_value.ob_digit[0] | (uint64_t)number->long_value.lv_tag << 32) ^ PRINT_INT;
        }
        return value_print_slowly(value, type);
    }
    if (type == &PyFloat_Type) {
        uint64_t print;
        memcpy(&print, &((PyFloatObject *)value)->ob_fval, 8);
        return print ^ PRINT_FLOAT;
    }
    if (type == &PyUnicode_Type) {
        return text_print(value);
    }
    if (value == Py_None || type == &PyBool_Type) {
        return (uintptr_t)value;
    }
    const unsigned long objects = Py_TPFLAGS_HEAPTYPE | Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_TUPLE_SUBCLASS | Py_TPFLAGS_DICT_SUBCLASS;
    if (type->tp_flags & objects) {
        *is_object = true;
        return (uintptr_t)value ^ (uintptr_t)type << 20;
    }
    if (type == &PyBytes_Type || type == &PyFunction_Type || type == &PyCFunction_Type || type == &PyModule_Type ||
        type == &PyMethod_Type) {
        return value_print_slowly(value, type);
    }
    *is_object = true;
    return (uintptr_t)value ^ (uintptr_t)type << 20;
}

/* Spread a fingerprint at a place over all bits, so that those of several places can be added up. */
static ALWAYS_INLINE uint64_t spread(uint64_t print, unsigned place) {
    print = (print + place * 0x8EBC6AF09C88C6E3u) * 0x9E3779B97F4A7C15u;
    print ^= print >> 32;
    return print * 0xD6E8FEB86659FD93u;
}

static inline void find(Found *found, PyObject *value) {
    if (found->count < (int)(sizeof found->items / sizeof *found->items)) {
        found->items[found->count++] = value;
    }
}

/* The tags of values and of objects' contents. */
enum {
    TAG_NULL, TAG_TRUE, TAG_FALSE, TAG_INT, TAG_FLOAT, TAG_STR, TAG_CUT_STR, TAG_BYTES, TAG_BIG, TAG_HUGE,
    TAG_FUNCTION, TAG_MODULE, TAG_REF, TAG_DEL,
    TAG_LIST = 32, TAG_TUPLE, TAG_SET, TAG_DICT, TAG_INSTANCE, TAG_CLASS, TAG_RANGE, TAG_RAW,
};

/* shapes.c */
typedef struct Shape {
    int tag;
    PyTypeObject *first_type;     /* as which the first value is shown; NULL: as its own */
    PyTypeObject *type;           /* of an instance; the class itself for TAG_CLASS */
    int count;                    /* entries in values, and in keys where there are keys */
    bool has_keys;
    Py_ssize_t left_out;
    int items_tag;                /* of the container that an instance's class inherits from, 0 for none */
    int items;                    /* how many entries, the first ones, are that container's */
    Py_ssize_t items_left_out;
    PyObject *keys[2 * MAX_ITEMS];    /* NULL: see names */
    const char *names[2 * MAX_ITEMS];
    PyObject *values[2 * MAX_ITEMS];
    int raw_kind;
    size_t raw_size;
    uint8_t raw[192];
} Shape;
void shape_of(PyObject *value, Shape *shape);
void shape_add(Shape *shape, PyObject *key, const char *name, PyObject *value);
uint64_t shape_version(PyObject *value);
bool type_is_plain(PyTypeObject *type);
PyObject *type_text(PyTypeObject *type, const char **plain);
void type_name_write(Out *out, PyTypeObject *type);
bool is_in_c(PyTypeObject *type);

/* numeric.c */
enum { RAW_COMPLEX = 1, RAW_BYTEARRAY, RAW_DECIMAL, RAW_DATETIME, RAW_DATE, RAW_TIME, RAW_TIMEDELTA, RAW_ARRAY, RAW_SCALAR };
bool numeric_shape(PyObject *value, PyTypeObject *base, Shape *shape);
void raw_add(Shape *shape, const void *data, size_t size);

/* objects.c */
bool objects_open(Objects *objects);
void objects_close(Objects *objects);
uint32_t objects_number(Objects *objects, PyObject *value);
void objects_write(Recorder *r, Out *out, Found *found, bool all);

/* failures.c */
void failure_write(Recorder *r, Out *out, PyObject *error);
void failure_note_limit(Recorder *r, PyObject *error);
bool failure_is_new(Recorder *r, PyObject *error);
bool failure_ends_iteration(PyObject *error);
bool failure_is_internal(Facts *facts, int unit);
PyObject *call_python(PyObject *callable, PyObject *argument);

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
enum {
    ON_START, ON_RESUME, ON_RETURN, ON_YIELD, ON_LINE = 5, ON_JUMP = 7, ON_BRANCH, ON_RAISE = 10, ON_UNWIND = 12, ON_THROW,
    TOOL = 4, /* of sys.monitoring: one that no known tool claims */
};

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
