/* The objects that the trace has numbered, and what it last said of each.
 *
 * Numbers go by address and type, so an object at the address of a dead one of
 * the same type takes over its number; no object is kept alive. */
#include "values.h"

#include <internal/pycore_dict.h>
#include <internal/pycore_object.h>

enum { FIRST_ROOM = 1024, MAX_ROOM = 1 << 17 };

/* Return the key of an object: its fingerprint as a reference. */
static inline uint64_t key_of(PyObject *value) {
    return (uintptr_t)value ^ (uintptr_t)Py_TYPE(value) << 20;
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

static ALWAYS_INLINE Object *object_at(const Objects *objects, uint64_t key) {
    uint32_t at = (uint32_t)(key * 0x9E3779B97F4A7C15u >> 40) & objects->mask;
    while (objects->table[at].key != 0 && objects->table[at].key != key) {
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
        if (objects->table[i].key != 0) {
            *object_at(&larger, objects->table[i].key) = objects->table[i];
        }
    }
    PyMem_RawFree(objects->table);
    *objects = larger;
}

/* Take an object into the table. */
static Object *object_add(Objects *objects, PyObject *value) {
    if (objects->used * 2 > objects->mask) {
        make_room(objects);
    }
    objects->used++;
    Object *object = object_at(objects, key_of(value));
    PyTypeObject *type = Py_TYPE(value);
    *object = (Object){
        .key = key_of(value), .number = ++objects->last,
        .plain = type->tp_flags & Py_TPFLAGS_INLINE_VALUES && type_is_plain(type),
    };
    return object;
}

/* Return the entry of an object, giving it a number at first sight. */
static ALWAYS_INLINE Object *object_of(Objects *objects, PyObject *value) {
    Object *object = object_at(objects, key_of(value));
    return object->key != 0 ? object : object_add(objects, value);
}

/* Whether an instance keeps its attributes for itself: no dictionary of it can be had at another place. */
bool objects_is_apart(PyObject *value, PyTypeObject *type) {
    if (type->tp_setattro != PyObject_GenericSetAttr || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        return false;
    }
    if (type->tp_flags & Py_TPFLAGS_INLINE_VALUES) {
        return _PyObject_GetManagedDict(value) == NULL && _PyObject_InlineValues(value)->valid;
    }
    return !(type->tp_flags & Py_TPFLAGS_MANAGED_DICT) && type->tp_dictoffset == 0;
}

uint32_t objects_number(Objects *objects, PyObject *value) {
    return object_of(objects, value)->number;
}

/* The type as which an entry's value is shown. */
static PyTypeObject *type_shown(const Shape *shape, int i) {
    return i == 0 && shape->first_type != NULL ? shape->first_type : Py_TYPE(shape->values[i]);
}

/* Whether an entry has a key. */
static bool has_key(const Shape *shape, int i) {
    return i < shape->items ? shape->items_tag == TAG_DICT : shape->has_keys;
}

/* Fingerprint what a shape shows, and find the objects in it. */
static uint64_t shape_print(const Shape *shape, Found *found) {
    uint64_t print = mix((uint64_t)shape->tag << 8 | (uint64_t)shape->count, (uint64_t)shape->left_out);
    bool is_object;
    if (shape->type != NULL) {
        const char *plain = NULL;
        PyObject *name = type_text(shape->type, &plain);
        print = mix(print, name != NULL ? (uintptr_t)name : (uintptr_t)plain);
    }
    if (shape->items_tag != 0) {
        print = mix(mix(print, (uint64_t)shape->items), (uint64_t)shape->items_left_out);
    }
    for (int i = 0; i < shape->count; i++) {
        PyObject *key = has_key(shape, i) ? shape->keys[i] : NULL;
        if (key != NULL) {
            print = mix(print, value_print(key, Py_TYPE(key), &is_object));
            if (is_object && found != NULL) {
                find(found, key);
            }
        } else if (has_key(shape, i)) {
            print = mix(print, (uintptr_t)shape->names[i]);
        }
        print = mix(print, value_print(shape->values[i], type_shown(shape, i), &is_object));
        if (is_object && found != NULL) {
            find(found, shape->values[i]);
        }
    }
    for (size_t at = 0; at < shape->raw_size; at += 8) {
        uint64_t word = 0;
        memcpy(&word, shape->raw + at, Py_MIN(shape->raw_size - at, 8));
        print = mix(print, word);
    }
    return print;
}

/* The same for a list or tuple, without a shape: most objects are looked at many times before they change. */
static uint64_t array_print(PyObject *const *items, Py_ssize_t size, Found *found) {
    uint64_t print = spread((uint64_t)size, 99);
    int shown = (int)Py_MIN(size, MAX_ITEMS);
    for (int i = 0; i < shown; i++) {
        bool is_object;
        if (items[i] == NULL) {
            continue; /* a tuple that is being made */
        }
        print += spread(value_print(items[i], Py_TYPE(items[i]), &is_object), (unsigned)i);
        if (is_object && found != NULL) {
            find(found, items[i]);
        }
    }
    return print;
}

/* The same for an instance of a plain class whose attributes are in place. */
static uint64_t inline_print(PyTypeObject *type, PyDictValues *values, Found *found) {
    uint64_t print = spread((uintptr_t)((PyHeapTypeObject *)type)->ht_name ^ values->size, 98);
    const uint8_t *order = get_insertion_order_array(values);
    int shown = Py_MIN(values->size, MAX_ITEMS);
    for (int i = 0; i < shown; i++) {
        bool is_object;
        PyObject *attribute = values->values[order[i]];
        if (attribute == NULL) {
            shown = Py_MIN(values->size, shown + 1);
            continue;
        }
        print += spread(value_print(attribute, Py_TYPE(attribute), &is_object), (unsigned)i << 8 | order[i]);
        if (is_object && found != NULL) {
            find(found, attribute);
        }
    }
    return print;
}

/* Fingerprint what an object shows, and find the objects in it. The shape is
 * made when there is no shorter way; false then says that it is there. */
static ALWAYS_INLINE bool print_shortly(const Object *object, PyObject *value, Found *found, uint64_t *print) {
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyList_Type) {
        *print = array_print(((PyListObject *)value)->ob_item, Py_SIZE(value), found);
        return true;
    }
    if (type == &PyTuple_Type) {
        *print = array_print(((PyTupleObject *)value)->ob_item, Py_SIZE(value), found);
        return true;
    }
    if (object->plain && _PyObject_GetManagedDict(value) == NULL) {
        PyDictValues *values = _PyObject_InlineValues(value);
        if (values->valid) {
            *print = inline_print(type, values, found);
            return true;
        }
    }
    return false;
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

/* Write some of a shape's entries: their count, each, and how many are left out. */
static void entries_write(Recorder *r, Out *out, const Shape *shape, int from, int to, Py_ssize_t left_out) {
    byte_write(out, (unsigned)(to - from));
    for (int i = from; i < to; i++) {
        if (has_key(shape, i) && shape->keys[i] != NULL) {
            value_write(r, out, shape->keys[i], Py_TYPE(shape->keys[i]), NULL);
        } else if (has_key(shape, i)) {
            byte_write(out, TAG_STR);
            latin_write(out, shape->names[i]);
        }
        value_write(r, out, shape->values[i], type_shown(shape, i), NULL);
    }
    number_write(out, (uint64_t)left_out);
    r->counters[C_SHORTENED] += left_out > 0;
}

/* Write what a shape shows. */
static void shape_write(Recorder *r, Out *out, const Shape *shape) {
    byte_write(out, (unsigned)shape->tag);
    if (shape->type != NULL) {
        type_name_write(out, shape->type);
    }
    if (shape->tag == TAG_RAW) {
        byte_write(out, (unsigned)shape->raw_kind);
        bytes_write(out, shape->raw, shape->raw_size);
        return;
    }
    if (shape->tag == TAG_CLASS) {
        bases_write(out, shape->type);
    } else if (shape->tag == TAG_INSTANCE) {
        byte_write(out, (unsigned)shape->items_tag);
        if (shape->items_tag != 0) {
            entries_write(r, out, shape, 0, shape->items, shape->items_left_out);
        }
    }
    entries_write(r, out, shape, shape->items, shape->count, shape->left_out);
}

/* Look at one object and write it when it differs from what was last said, or
 * when all is wanted. Objects in it are added to inner, unless that is NULL. */
static bool object_write(Recorder *r, Out *out, Object *object, PyObject *value, Found *inner, bool all) {
    uint64_t version = shape_version(value);
    if (version != 0 && version == object->version && !all && (inner == NULL || object->leaf)) {
        return false;
    }
    Shape shape;
    uint64_t print;
    int before = inner != NULL ? inner->count : 0;
    bool shaped = !print_shortly(object, value, inner, &print);
    if (shaped) {
        shape_of(value, &shape);
        print = shape_print(&shape, inner);
    }
    object->version = version;
    object->leaf = inner != NULL && inner->count == before;
    if (!all && object->said == print) {
        return false;
    }
    object->said = print;
    if (!shaped) {
        shape_of(value, &shape);
    }
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
    uint32_t look = ++r->objects.look & 0x3FFFFFFF;
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
