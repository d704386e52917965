/* Values and objects: fingerprints, bytes, and what an object shows. */
#ifndef TRACEFLEET_VALUES_H
#define TRACEFLEET_VALUES_H

#include "recorder.h"

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
void character_write(Out *out, Py_UCS4 character);
bool value_is_object(PyObject *value);
bool name_is_special(PyObject *name);
uint64_t text_print(PyObject *text);

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
typedef struct Look {
    bool all;               /* say all, changed or not */
    bool quiet;             /* no object can have changed */
    bool some;              /* variables can have changed only by the places in: */
    uint64_t only[2];
    bool aimed;             /* objects only by the variables in: */
    uint64_t at[2];
    const uint64_t *except; /* variables that are not looked at, unless NULL */
} Look;
bool variables_write(Recorder *r, Out *out, Activation *activation, Found *found, const Look *look);

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

enum { MAX_STEPS = 4096 }; /* entries that are looked at for those that are shown: a program can make most of them empty */

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

/* ordered.c */
void ordered_add(Shape *shape, PyObject *value);

/* numeric.c */
enum { RAW_COMPLEX = 1, RAW_BYTEARRAY, RAW_DECIMAL, RAW_DATETIME, RAW_DATE, RAW_TIME, RAW_TIMEDELTA, RAW_ARRAY, RAW_SCALAR };
bool numeric_shape(PyObject *value, PyTypeObject *base, Shape *shape);

/* objects.c */
bool objects_open(Objects *objects);
void objects_close(Objects *objects);
bool objects_is_apart(PyObject *value, PyTypeObject *type);
uint32_t objects_number(Objects *objects, PyObject *value);
void objects_write(Recorder *r, Out *out, Found *found, bool all);

#endif
