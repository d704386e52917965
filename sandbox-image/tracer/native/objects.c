/* The objects that the trace has numbered, and what it last said of each.
 *
 * Numbers go by address and type, so an object at the address of a dead one of
 * the same type takes over its number; no object is kept alive. */
#include "recorder.h"

enum { FIRST_ROOM = 1024, MAX_ROOM = 1 << 17 };

static uint32_t place_of(const PyObject *address, uint32_t mask) {
    return (uint32_t)(((uintptr_t)address >> 4) * 0x9E3779B97F4A7C15u >> 40) & mask;
}

bool objects_open(Objects *objects) {
    *objects = (Objects){.mask = FIRST_ROOM - 1};
    objects->table = PyMem_RawCalloc(FIRST_ROOM, sizeof(Object));
    return objects->table != NULL;
}

void objects_close(Objects *objects) {
    PyMem_RawFree(objects->table);
    objects->table = NULL;
}

static Object *object_at(const Objects *objects, PyObject *address) {
    uint32_t at = place_of(address, objects->mask);
    while (objects->table[at].address != NULL && objects->table[at].address != address) {
        at = (at + 1) & objects->mask;
    }
    return &objects->table[at];
}

/* Make room for another object. When there are too many, all are forgotten:
 * they get new numbers, and are said again. */
static void make_room(Objects *objects) {
    uint32_t size = objects->mask + 1;
    Objects larger = *objects;
    larger.mask = size * 2 - 1;
    larger.table = size < MAX_ROOM ? PyMem_RawCalloc((size_t)size * 2, sizeof(Object)) : NULL;
    if (larger.table == NULL) {
        memset(objects->table, 0, (size_t)size * sizeof(Object));
        objects->used = 0;
        return;
    }
    for (uint32_t i = 0; i < size; i++) {
        if (objects->table[i].address != NULL) {
            *object_at(&larger, objects->table[i].address) = objects->table[i];
        }
    }
    PyMem_RawFree(objects->table);
    *objects = larger;
}

/* Return the entry of an object, giving it a number at first sight. */
static Object *object_of(Objects *objects, PyObject *value) {
    Object *object = object_at(objects, value);
    if (object->address == NULL) {
        if (objects->used * 2 > objects->mask) {
            make_room(objects);
            object = object_at(objects, value);
        }
        objects->used++;
        *object = (Object){.address = value, .type = Py_TYPE(value), .number = ++objects->last};
    } else if (object->type != Py_TYPE(value)) {
        *object = (Object){.address = value, .type = Py_TYPE(value), .number = ++objects->last};
    }
    return object;
}

uint32_t objects_number(Objects *objects, PyObject *value) {
    return object_of(objects, value)->number;
}

/* The type as which an entry's value is shown. */
static PyTypeObject *type_shown(const Shape *shape, int i) {
    return i == 0 && shape->first_type != NULL ? shape->first_type : Py_TYPE(shape->values[i]);
}

/* Fingerprint what a shape shows. */
static uint64_t shape_print(const Shape *shape) {
    uint64_t print = mix((uint64_t)shape->tag << 8 | (uint64_t)shape->count, (uint64_t)shape->left_out);
    if (shape->type != NULL) {
        const char *plain = NULL;
        PyObject *name = type_text(shape->type, &plain);
        print = mix(print, name != NULL ? text_print(name) : (uintptr_t)plain);
    }
    for (int i = 0; i < shape->count; i++) {
        if (shape->has_keys) {
            print = shape->keys[i] != NULL ? mix(print, value_print(shape->keys[i], Py_TYPE(shape->keys[i]))) : mix(print, (uintptr_t)shape->names[i]);
        }
        print = mix(print, value_print(shape->values[i], type_shown(shape, i)));
    }
    for (size_t at = 0; at < shape->raw_size; at += 8) {
        uint64_t word = 0;
        memcpy(&word, shape->raw + at, Py_MIN(shape->raw_size - at, 8));
        print = mix(print, word);
    }
    return print != 0 ? print : 1;
}

/* Write the names of a class's bases. */
static void bases_write(Out *out, PyTypeObject *type) {
    PyObject *bases = type->tp_bases;
    Py_ssize_t count = bases != NULL && PyTuple_CheckExact(bases) ? Py_MIN(PyTuple_GET_SIZE(bases), MAX_ITEMS) : 0;
    number_write(out, (uint64_t)count);
    for (Py_ssize_t i = 0; i < count; i++) {
        type_name_write(out, (PyTypeObject *)PyTuple_GET_ITEM(bases, i));
    }
}

/* Write what a shape shows. */
static void shape_write(Recorder *r, Out *out, const Shape *shape) {
    byte_write(out, (unsigned)shape->tag);
    if (shape->type != NULL) {
        type_name_write(out, shape->type);
    }
    if (shape->tag == TAG_CLASS) {
        bases_write(out, shape->type);
    }
    if (shape->tag == TAG_RAW) {
        byte_write(out, (unsigned)shape->raw_kind);
        bytes_write(out, shape->raw, shape->raw_size);
        return;
    }
    byte_write(out, (unsigned)shape->count);
    for (int i = 0; i < shape->count; i++) {
        if (shape->has_keys && shape->keys[i] != NULL) {
            value_write(r, out, shape->keys[i], Py_TYPE(shape->keys[i]), NULL);
        } else if (shape->has_keys && shape->names[i] != NULL) {
            byte_write(out, TAG_STR);
            latin_write(out, shape->names[i]);
        } else if (shape->has_keys) {
            byte_write(out, TAG_INT);
            number_write(out, (uint64_t)i << 1);
        }
        value_write(r, out, shape->values[i], type_shown(shape, i), NULL);
    }
    number_write(out, (uint64_t)shape->left_out);
    r->counters[C_SHORTENED] += shape->left_out > 0;
}

/* Add the objects that a shape shows to those found. */
static void shape_find(const Shape *shape, Found *found) {
    for (int i = 0; i < shape->count; i++) {
        if (shape->has_keys && shape->keys[i] != NULL && value_is_object(shape->keys[i])) {
            found->items[found->count++] = shape->keys[i];
        }
        if (!(i == 0 && shape->first_type != NULL) && value_is_object(shape->values[i])) {
            found->items[found->count++] = shape->values[i];
        }
    }
}

/* Look at one object and write it when it differs from what was last said, or
 * when all is wanted. Objects in it are added to inner, unless that is NULL. */
static bool object_write(Recorder *r, Out *out, Object *object, PyObject *value, Found *inner, bool all) {
    uint64_t version = shape_version(value);
    if (version != 0 && version == object->version && !all && (inner == NULL || object->leaf)) {
        return false;
    }
    Shape shape;
    shape_of(value, &shape);
    uint64_t print = shape_print(&shape);
    int before = inner != NULL ? inner->count : 0;
    if (inner != NULL) {
        shape_find(&shape, inner);
    }
    object->version = version;
    object->leaf = inner != NULL && inner->count == before;
    if (!all && object->said == print) {
        return false;
    }
    object->said = print;
    number_write(out, object->number);
    shape_write(r, out, &shape);
    return true;
}

/* Write the objects found and those directly in them, as far as what was last
 * said of them differs. A count comes first. */
void objects_write(Recorder *r, Out *out, Found *found, bool all) {
    Found inner;
    inner.count = 0;
    uint8_t *count_at = out->at;
    byte_write(out, 0);
    unsigned looked = 0, written = 0;
    uint32_t look = ++r->objects.look & 0x7FFFFFFF;
    for (int level = 0; level < 2; level++) {
        Found *now = level == 0 ? found : &inner;
        for (int i = 0; i < now->count; i++) {
            Object *object = object_of(&r->objects, now->items[i]);
            if (object->look == look) {
                continue;
            }
            object->look = look;
            if (looked++ >= MAX_OBJECTS) {
                count_up(r, C_SHORTENED);
                level = 2;
                break;
            }
            written += object_write(r, out, object, now->items[i], level == 0 ? &inner : NULL, all);
        }
    }
    if (!out->full) {
        *count_at = (uint8_t)written;
    }
}
