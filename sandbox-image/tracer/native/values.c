/* Values: their fingerprints, and their bytes in a record.
 *
 * A value is either plain, and then shown in place, or an object, and then shown
 * as a reference to what the heap says of it. A fingerprint covers all that is
 * shown. That of an object is its address and type: they decide its number. */
#include "values.h"

/* Whether a value is shown as a reference. */
bool value_is_object(PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    return !(type == &PyLong_Type || type == &PyUnicode_Type || type == &PyFloat_Type || value == Py_None ||
             type == &PyBool_Type || type == &PyBytes_Type || type == &PyFunction_Type || type == &PyCFunction_Type ||
             type == &PyModule_Type || type == &PyMethod_Type);
}

/* Whether a name is of those that the interpreter keeps for itself, such as __class__. */
bool name_is_special(PyObject *name) {
    Py_ssize_t size = PyUnicode_GET_LENGTH(name);
    return size >= 2 && PyUnicode_READ_CHAR(name, 0) == '_' && PyUnicode_READ_CHAR(name, 1) == '_' &&
           PyUnicode_READ_CHAR(name, size - 1) == '_' && PyUnicode_READ_CHAR(name, size - 2) == '_';
}

/* Fold bytes into a fingerprint, eight at a time. */
static uint64_t bytes_print(uint64_t print, const uint8_t *data, size_t size) {
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        print = mix(print, word);
    }
    uint64_t word = 0;
    for (size_t i = 0; i < size; i++) {
        word |= (uint64_t)data[i] << 8 * i;
    }
    return mix(print, word);
}

/* Fingerprint the shown part of a string and its length. A string that is shown
 * whole has its hash for that, which it keeps: the hash of str, whatever the
 * type says, as that of a subclass may be the program's. */
uint64_t text_print(PyObject *text) {
    Py_ssize_t size = PyUnicode_GET_LENGTH(text);
    if (size <= MAX_TEXT) {
        Py_hash_t hash = ((PyASCIIObject *)text)->hash;
        return (uint64_t)(hash != -1 ? hash : PyUnicode_Type.tp_hash(text)) ^ 0x5354u;
    }
    uint64_t print = mix(0x5355u + (uint64_t)PyUnicode_KIND(text), (uint64_t)size);
    return bytes_print(print, PyUnicode_DATA(text), (size_t)PyUnicode_KIND(text) * MAX_TEXT);
}

/* Fingerprint a longer integer: all of it when it is written out, else its size in bits and sign. */
static uint64_t integer_print(PyObject *value) {
    const PyLongObject *number = (const PyLongObject *)value;
    uintptr_t tag = number->long_value.lv_tag;
    Py_ssize_t digits = (Py_ssize_t)(tag >> 3);
    uint64_t print = mix(0x494eu, tag);
    if (digits <= MAX_BITS / PyLong_SHIFT + 1) {
        for (Py_ssize_t i = 0; i < Py_MAX(digits, 1); i++) {
            print = mix(print, number->long_value.ob_digit[i]);
        }
        return print;
    }
    return mix(print, (uint64_t)(32 - __builtin_clz(number->long_value.ob_digit[digits - 1] | 1u)));
}

/* Return the name of a bound method's function, NULL when that is no plain function. */
static PyObject *method_name(PyObject *method) {
    PyObject *function = PyMethod_GET_FUNCTION(method);
    return PyFunction_Check(function) ? ((PyFunctionObject *)function)->func_qualname : NULL;
}

/* Return the fingerprint of a value of one of the rarer types. */
uint64_t value_print_slowly(PyObject *value, PyTypeObject *type) {
    if (type == &PyLong_Type) {
        return integer_print(value);
    }
    if (type == &PyBytes_Type) {
        Py_ssize_t size = PyBytes_GET_SIZE(value);
        uint64_t print = mix(0x4259u, (uint64_t)size);
        return bytes_print(print, (const uint8_t *)PyBytes_AS_STRING(value), (size_t)Py_MIN(size, MAX_BYTES));
    }
    if (type == &PyFunction_Type) {
        return mix(0x4655u, text_print(((PyFunctionObject *)value)->func_qualname));
    }
    if (type == &PyMethod_Type) {
        PyObject *name = method_name(value);
        return mix(0x4d45u, name != NULL ? text_print(name) : 0);
    }
    /* A function in C is its definition, the rest its address. */
    uintptr_t what = type == &PyCFunction_Type ? (uintptr_t)((PyCFunctionObject *)value)->m_ml : (uintptr_t)value;
    return mix(what, (uintptr_t)type);
}

/* Write an unsigned number, seven bits a byte, lowest first. */
void number_write(Out *out, uint64_t number) {
    while (number >= 128) {
        byte_write(out, (unsigned)(number & 127) | 128);
        number >>= 7;
    }
    byte_write(out, (unsigned)number);
}

/* Copy text: most of it is short, and what the compiler makes of a copy whose size it does not know takes a while to begin. */
static ALWAYS_INLINE void text_copy(uint8_t *to, const uint8_t *from, size_t size) {
    if (size < 8) {
        for (size_t i = 0; i < size; i++) {
            to[i] = from[i];
        }
        return;
    }
    for (size_t i = 0; i < size - 8; i += 8) {
        memcpy(to + i, from + i, 8);
    }
    memcpy(to + size - 8, from + size - 8, 8);
}

/* Write a length and so many bytes. */
void bytes_write(Out *out, const void *data, size_t size) {
    number_write(out, size);
    if ((size_t)(out->end - out->at) < size) {
        out->full = true;
        return;
    }
    text_copy(out->at, data, size);
    out->at += size;
}

/* Write ASCII text, as far as a name is shown. */
void latin_write(Out *out, const char *text) {
    bytes_write(out, text, strnlen(text, MAX_TEXT));
}

/* Write a character in UTF-8. A surrogate, which UTF-8 cannot hold, becomes U+FFFD. */
void character_write(Out *out, Py_UCS4 character) {
    if (character < 0x80) {
        byte_write(out, character);
        return;
    }
    if (character < 0x800) {
        byte_write(out, 0xC0 | character >> 6);
        byte_write(out, 0x80 | (character & 63));
        return;
    }
    if (character >= 0xD800 && character < 0xE000) {
        character = 0xFFFD;
    }
    if (character < 0x10000) {
        byte_write(out, 0xE0 | character >> 12);
    } else {
        byte_write(out, 0xF0 | character >> 18);
        byte_write(out, 0x80 | (character >> 12 & 63));
    }
    byte_write(out, 0x80 | (character >> 6 & 63));
    byte_write(out, 0x80 | (character & 63));
}

static size_t character_size(Py_UCS4 character) {
    return character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
}

/* Write the first characters of a string as UTF-8, after their size in bytes. */
void text_write(Out *out, PyObject *text, Py_ssize_t limit) {
    Py_ssize_t shown = Py_MIN(PyUnicode_GET_LENGTH(text), limit);
    const void *data = PyUnicode_DATA(text);
    if (PyUnicode_IS_ASCII(text)) {
        bytes_write(out, data, (size_t)shown);
        return;
    }
    int kind = PyUnicode_KIND(text);
    size_t size = 0;
    for (Py_ssize_t i = 0; i < shown; i++) {
        size += character_size(PyUnicode_READ(kind, data, i));
    }
    number_write(out, size);
    for (Py_ssize_t i = 0; i < shown; i++) {
        character_write(out, PyUnicode_READ(kind, data, i));
    }
}

/* Write an integer: small ones as they are, longer ones as their bytes, huge
 * ones as how many bits they have. */
static void integer_write(Recorder *r, Out *out, PyObject *value) {
    const PyLongObject *number = (const PyLongObject *)value;
    Py_ssize_t digits = (Py_ssize_t)(number->long_value.lv_tag >> 3);
    bool negative = (number->long_value.lv_tag & 3) == 2;
    const digit *digit_at = number->long_value.ob_digit;
    if (digits <= 2) {
        uint64_t amount = digits == 0 ? 0 : digit_at[0];
        amount |= digits == 2 ? (uint64_t)digit_at[1] << PyLong_SHIFT : 0;
        if (amount <= (uint64_t)1 << 53) {
            byte_write(out, TAG_INT);
            number_write(out, amount << 1 | negative);
            return;
        }
    }
    uint64_t bits = (uint64_t)(digits - 1) * PyLong_SHIFT + (uint64_t)(32 - __builtin_clz(digit_at[digits - 1] | 1u));
    if (bits > MAX_BITS) {
        byte_write(out, TAG_HUGE);
        number_write(out, bits << 1 | negative);
        count_up(r, C_SHORTENED);
        return;
    }
    uint8_t bytes[MAX_BITS / 8 + 8] = {0};
    for (uint64_t bit = 0; bit < bits; bit++) {
        unsigned set = digit_at[bit / PyLong_SHIFT] >> bit % PyLong_SHIFT & 1;
        bytes[bit / 8] |= (uint8_t)(set << bit % 8);
    }
    byte_write(out, TAG_BIG);
    byte_write(out, negative);
    bytes_write(out, bytes, (size_t)(bits + 7) / 8);
}

/* Write the name of a function or module. */
static void name_write(Out *out, int tag, PyObject *name) {
    byte_write(out, (unsigned)tag);
    if (name != NULL && PyUnicode_CheckExact(name)) {
        text_write(out, name, MAX_TEXT);
    } else {
        latin_write(out, "?");
    }
}

/* Return what a module calls itself, NULL for none. */
static PyObject *module_name(PyObject *module) {
    PyObject *names = PyModule_GetDict(module);
    Py_ssize_t at = 0;
    PyObject *key, *value;
    /* Not looked up by hash: a key of the program's could answer. The name is among the first. */
    for (int i = 0; names != NULL && i < 16 && PyDict_Next(names, &at, &key, &value); i++) {
        if (PyUnicode_CheckExact(key) && PyUnicode_EqualToUTF8(key, "__name__")) {
            return value;
        }
    }
    return NULL;
}

/* Write a reference, and add the object to those found. */
static void reference_write(Recorder *r, Out *out, PyObject *value, Found *found) {
    byte_write(out, TAG_REF);
    number_write(out, objects_number(&r->objects, value));
    if (found != NULL) {
        find(found, value);
    }
}

/* Write a value, shown as one of a type that it is or inherits from. */
void value_write(Recorder *r, Out *out, PyObject *value, PyTypeObject *type, Found *found) {
    if (type == &PyLong_Type) {
        integer_write(r, out, value);
    } else if (type == &PyUnicode_Type) {
        bool cut = PyUnicode_GET_LENGTH(value) > MAX_TEXT;
        byte_write(out, cut ? TAG_CUT_STR : TAG_STR);
        text_write(out, value, MAX_TEXT);
        if (cut) {
            number_write(out, (uint64_t)PyUnicode_GET_LENGTH(value));
            count_up(r, C_SHORTENED);
        }
    } else if (type == &PyFloat_Type) {
        if (out->end - out->at < 9) {
            out->full = true;
            return;
        }
        *out->at = TAG_FLOAT;
        memcpy(out->at + 1, &((PyFloatObject *)value)->ob_fval, 8);
        out->at += 9;
    } else if (value == Py_None) {
        byte_write(out, TAG_NULL);
    } else if (type == &PyBool_Type) {
        byte_write(out, value == Py_True ? TAG_TRUE : TAG_FALSE);
    } else if (type == &PyBytes_Type) {
        Py_ssize_t size = PyBytes_GET_SIZE(value);
        byte_write(out, TAG_BYTES);
        bytes_write(out, PyBytes_AS_STRING(value), (size_t)Py_MIN(size, MAX_BYTES));
        number_write(out, (uint64_t)size);
        r->counters[C_SHORTENED] += size > MAX_BYTES;
    } else if (type == &PyFunction_Type) {
        name_write(out, TAG_FUNCTION, ((PyFunctionObject *)value)->func_qualname);
    } else if (type == &PyMethod_Type) {
        name_write(out, TAG_FUNCTION, method_name(value));
    } else if (type == &PyCFunction_Type) {
        byte_write(out, TAG_FUNCTION);
        latin_write(out, ((PyCFunctionObject *)value)->m_ml->ml_name);
    } else if (type == &PyModule_Type) {
        name_write(out, TAG_MODULE, module_name(value));
    } else {
        reference_write(r, out, value, found);
    }
}
