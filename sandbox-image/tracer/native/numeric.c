/* Types with a text of their own: the bytes that the reader makes the text from. */
#include "values.h"

#define _PY_DATETIME_IMPL /* the layouts only */
#include <datetime.h>

static void raw_add(Shape *shape, const void *data, size_t size) {
    size = Py_MIN(size, sizeof shape->raw - shape->raw_size);
    memcpy(shape->raw + shape->raw_size, data, size);
    shape->raw_size += size;
}

static void raw_number(Shape *shape, int64_t number) {
    raw_add(shape, &number, sizeof number);
}

/* As Modules/_decimal lays out a Decimal, with libmpdec's mpd_t in it: the
 * coefficient in words of 19 decimal digits, lowest first. */
typedef struct Decimal {
    PyObject_HEAD
    Py_hash_t hash;
    uint8_t flags;
    Py_ssize_t exponent, digits, words, room;
    uint64_t *data;
} Decimal;
enum { DECIMAL_WORDS = 6 };

/* Add a Decimal: flags, exponent, digits, then the leading words, highest first. */
static void add_decimal(Shape *shape, PyObject *value) {
    const Decimal *decimal = (const Decimal *)value;
    raw_number(shape, decimal->flags & 15);
    raw_number(shape, decimal->exponent);
    raw_number(shape, decimal->digits);
    for (Py_ssize_t i = decimal->words - 1; i >= 0 && i >= decimal->words - DECIMAL_WORDS; i--) {
        raw_add(shape, &decimal->data[i], 8);
    }
}

/* Add the fields of a date and time, as far as the type has them. */
static int add_moment(Shape *shape, PyObject *value, const char *name) {
    if (strcmp(name, "datetime.datetime") == 0) {
        raw_number(shape, PyDateTime_GET_YEAR(value));
        raw_number(shape, PyDateTime_GET_MONTH(value));
        raw_number(shape, PyDateTime_GET_DAY(value));
        raw_number(shape, PyDateTime_DATE_GET_HOUR(value));
        raw_number(shape, PyDateTime_DATE_GET_MINUTE(value));
        raw_number(shape, PyDateTime_DATE_GET_SECOND(value));
        raw_number(shape, PyDateTime_DATE_GET_MICROSECOND(value));
        return RAW_DATETIME;
    }
    if (strcmp(name, "datetime.date") == 0) {
        raw_number(shape, PyDateTime_GET_YEAR(value));
        raw_number(shape, PyDateTime_GET_MONTH(value));
        raw_number(shape, PyDateTime_GET_DAY(value));
        return RAW_DATE;
    }
    if (strcmp(name, "datetime.time") == 0) {
        raw_number(shape, PyDateTime_TIME_GET_HOUR(value));
        raw_number(shape, PyDateTime_TIME_GET_MINUTE(value));
        raw_number(shape, PyDateTime_TIME_GET_SECOND(value));
        raw_number(shape, PyDateTime_TIME_GET_MICROSECOND(value));
        return RAW_TIME;
    }
    if (strcmp(name, "datetime.timedelta") == 0) {
        raw_number(shape, PyDateTime_DELTA_GET_DAYS(value));
        raw_number(shape, PyDateTime_DELTA_GET_SECONDS(value));
        raw_number(shape, PyDateTime_DELTA_GET_MICROSECONDS(value));
        return RAW_TIMEDELTA;
    }
    return 0;
}

/* Add the items of an array by their strides, first dimension slowest. */
static void add_elements(Shape *shape, const Py_buffer *view) {
    Py_ssize_t index[32] = {0};
    Py_ssize_t count = view->itemsize > 0 && view->ndim <= 32 ? Py_MIN(view->len / view->itemsize, MAX_ITEMS) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *at = view->buf;
        for (int d = 0; d < view->ndim; d++) {
            at += index[d] * view->strides[d];
        }
        raw_add(shape, at, (size_t)view->itemsize);
        for (int d = view->ndim - 1; d >= 0 && ++index[d] == view->shape[d]; d--) {
            index[d] = 0;
        }
    }
}

/* Whether items of a format are shown: numbers, and texts, whose length comes first. */
static bool shows_items(const char *format) {
    format += *format == '>';
    size_t digits = strspn(format, "0123456789");
    const char *kind = format + digits;
    if (strlen(kind) == 1) {
        return strchr(digits > 0 ? "ws" : "?bBhHiIlLqQefd", kind[0]) != NULL;
    }
    return digits == 0 && (strcmp(kind, "Zf") == 0 || strcmp(kind, "Zd") == 0);
}

/* Add an array or scalar of numpy through the buffer protocol, which for its own
 * types is C: format, dimensions, and the first items when they are numbers or text. */
static int add_numpy(Shape *shape, PyObject *value, bool array) {
    Py_buffer view;
    if (PyObject_GetBuffer(value, &view, PyBUF_FULL_RO) < 0) {
        PyErr_Clear();
        return 0;
    }
    char format[8] = {0};
    strncpy(format, view.format != NULL ? view.format : "B", sizeof format - 1);
    bool simple = shows_items(format) && (array || view.ndim == 0); /* a date is bytes */
    raw_add(shape, format, sizeof format);
    raw_number(shape, view.itemsize);
    raw_number(shape, array ? view.ndim : 0);
    for (int d = 0; array && d < Py_MIN(view.ndim, 8); d++) {
        raw_number(shape, view.shape[d]);
    }
    if (simple && array && view.suboffsets == NULL && view.strides != NULL && view.ndim > 0) {
        add_elements(shape, &view);
    } else if (simple && view.ndim == 0) {
        raw_add(shape, view.buf, (size_t)view.itemsize);
    }
    PyBuffer_Release(&view);
    shape->raw_size = array || simple ? shape->raw_size : 0;
    return array ? RAW_ARRAY : simple ? RAW_SCALAR : 0;
}

/* Describe a value of a type in C that has a text of its own; false for others. */
bool numeric_shape(PyObject *value, PyTypeObject *base, Shape *shape) {
    int kind = 0;
    if (base == &PyComplex_Type) {
        Py_complex number = ((PyComplexObject *)value)->cval;
        raw_add(shape, &number.real, 8);
        raw_add(shape, &number.imag, 8);
        kind = RAW_COMPLEX;
    } else if (base == &PyByteArray_Type) {
        raw_number(shape, PyByteArray_GET_SIZE(value));
        raw_add(shape, PyByteArray_AS_STRING(value), (size_t)Py_MIN(PyByteArray_GET_SIZE(value), MAX_BYTES));
        kind = RAW_BYTEARRAY;
    } else if (strcmp(base->tp_name, "decimal.Decimal") == 0 && base->tp_basicsize >= (Py_ssize_t)sizeof(Decimal)) {
        add_decimal(shape, value);
        kind = RAW_DECIMAL;
    } else if (strncmp(base->tp_name, "datetime.", 9) == 0) {
        kind = add_moment(shape, value, base->tp_name);
    } else if (Py_TYPE(value) == base && strcmp(base->tp_name, "numpy.ndarray") == 0) {
        kind = add_numpy(shape, value, true);
    } else if (Py_TYPE(value) == base && strncmp(base->tp_name, "numpy.", 6) == 0 &&
               base->tp_as_buffer != NULL && base->tp_as_buffer->bf_getbuffer != NULL) {
        kind = add_numpy(shape, value, false);
    }
    if (kind == 0) {
        return false;
    }
    shape->tag = TAG_RAW;
    shape->raw_kind = kind;
    return true;
}
