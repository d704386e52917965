/* What an object shows of itself: items, pairs, attributes, or a few raw bytes.
 *
 * Everything is read in place, and through the layouts of types written in C
 * only. References are borrowed: a shape is valid until the program runs. */
#include "values.h"

#include <internal/pycore_dict.h>
#include <internal/pycore_object.h>
#include <internal/pycore_setobject.h>

/* Whether a type is written in C, so that its layout and name are not the program's. */
bool is_in_c(PyTypeObject *type) {
    return (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) != 0;
}

/* Whether instances of a class of the program show nothing but their attributes:
 * it inherits from object only, has no slots, and is no enum. */
bool type_is_plain(PyTypeObject *type) {
    if (Py_TYPE(type) != &PyType_Type) {
        return false;
    }
    while (type->tp_flags & Py_TPFLAGS_HEAPTYPE && Py_SIZE(type) == 0 && type->tp_base != NULL) {
        type = type->tp_base;
    }
    return type == &PyBaseObject_Type;
}

/* Return the name of a type made by the program, or NULL and the name of one in C. */
PyObject *type_text(PyTypeObject *type, const char **plain) {
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        return ((PyHeapTypeObject *)type)->ht_name;
    }
    const char *dot = strrchr(type->tp_name, '.');
    *plain = dot != NULL ? dot + 1 : type->tp_name;
    return NULL;
}

void type_name_write(Out *out, PyTypeObject *type) {
    const char *plain = NULL;
    PyObject *name = type_text(type, &plain);
    if (name == NULL) {
        latin_write(out, plain);
    } else if (PyUnicode_CheckExact(name)) {
        text_write(out, name, MAX_TEXT);
    } else {
        latin_write(out, "?");
    }
}

/* Add an entry; what is over the bound is only counted. */
void shape_add(Shape *shape, PyObject *key, const char *name, PyObject *value) {
    if (shape->count - shape->items == MAX_ITEMS) {
        shape->left_out++;
        return;
    }
    shape->keys[shape->count] = key;
    shape->names[shape->count] = name;
    shape->values[shape->count++] = value;
}

static void add_array(Shape *shape, PyObject *const *items, Py_ssize_t size) {
    Py_ssize_t shown = Py_MIN(size, MAX_ITEMS);
    for (Py_ssize_t i = 0; i < shown; i++) {
        if (items[i] != NULL) {
            shape_add(shape, NULL, NULL, items[i]);
        }
    }
    shape->left_out += size - shown;
}

/* Add the first entries of a dictionary. It is walked in place: PyDict_Next
 * would search without end through the gaps of one that lost its first entries. */
static void add_dict(Shape *shape, PyObject *dict) {
    PyDictObject *object = (PyDictObject *)dict;
    PyDictKeysObject *keys = object->ma_keys;
    Py_ssize_t before = shape->count;
    if (object->ma_values != NULL) {
        Py_ssize_t at = 0;
        PyObject *key, *value;
        while (shape->count - shape->items < MAX_ITEMS && PyDict_Next(dict, &at, &key, &value)) {
            shape_add(shape, key, NULL, value);
        }
    } else {
        Py_ssize_t steps = Py_MIN(keys->dk_nentries, MAX_STEPS);
        for (Py_ssize_t i = 0; i < steps && shape->count - shape->items < MAX_ITEMS; i++) {
            PyObject *key, *value;
            if (DK_IS_UNICODE(keys)) {
                key = DK_UNICODE_ENTRIES(keys)[i].me_key;
                value = DK_UNICODE_ENTRIES(keys)[i].me_value;
            } else {
                key = DK_ENTRIES(keys)[i].me_key;
                value = DK_ENTRIES(keys)[i].me_value;
            }
            if (value != NULL) {
                shape_add(shape, key, NULL, value);
            }
        }
    }
    shape->left_out += object->ma_used - (shape->count - before);
}

static void add_set(Shape *shape, PyObject *set) {
    const PySetObject *object = (const PySetObject *)set;
    Py_ssize_t steps = Py_MIN(object->mask + 1, MAX_STEPS);
    Py_ssize_t before = shape->count;
    for (Py_ssize_t i = 0; i < steps && shape->count < MAX_ITEMS && shape->count - before < object->used; i++) {
        PyObject *key = object->table[i].key;
        if (key != NULL && key != _PySet_Dummy) {
            shape_add(shape, NULL, NULL, key);
        }
    }
    shape->left_out += object->used - (shape->count - before);
}

/* As Modules/_collectionsmodule.c lays out a deque and its blocks. */
typedef struct DequeBlock {
    struct DequeBlock *left;
    PyObject *items[64];
    struct DequeBlock *right;
} DequeBlock;

typedef struct Deque {
    PyObject_VAR_HEAD
    DequeBlock *left, *right;
    Py_ssize_t left_index, right_index;
} Deque;

static void add_deque(Shape *shape, PyObject *value) {
    const Deque *deque = (const Deque *)value;
    const DequeBlock *block = deque->left;
    Py_ssize_t index = deque->left_index, size = Py_SIZE(value);
    Py_ssize_t shown = Py_MIN(size, MAX_ITEMS);
    for (Py_ssize_t i = 0; i < shown && block != NULL; i++) {
        shape_add(shape, NULL, NULL, block->items[index]);
        if (++index == 64) {
            block = block->right;
            index = 0;
        }
    }
    shape->left_out += size - shown;
}

/* Add the attributes that an instance keeps in place of a dictionary, in the order of their making. */
static void add_inline(Shape *shape, PyObject *value, PyTypeObject *type) {
    PyDictValues *values = _PyObject_InlineValues(value);
    PyDictKeysObject *keys = ((PyHeapTypeObject *)type)->ht_cached_keys;
    if (!values->valid || keys == NULL) {
        return;
    }
    const uint8_t *order = get_insertion_order_array(values);
    for (int i = 0; i < values->size; i++) {
        PyObject *attribute = values->values[order[i]];
        if (attribute != NULL) {
            shape_add(shape, DK_UNICODE_ENTRIES(keys)[order[i]].me_key, NULL, attribute);
        }
    }
}

/* Return the dictionary of an instance, if it has one, past any __dict__ of its class. */
static PyObject *dict_of(PyObject *value, PyTypeObject *type) {
    PyObject *dict = NULL;
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
        dict = (PyObject *)_PyObject_GetManagedDict(value);
    } else if (type->tp_dictoffset != 0) {
        PyObject **at = _PyObject_GetDictPtr(value);
        dict = at != NULL ? *at : NULL;
    }
    return dict != NULL && PyDict_CheckExact(dict) ? dict : NULL;
}

/* Add the filled slots (__slots__) of an instance, class by class. */
static void add_slots(Shape *shape, PyObject *value, PyTypeObject *type) {
    for (; type != NULL && type->tp_flags & Py_TPFLAGS_HEAPTYPE && !is_in_c(type); type = type->tp_base) {
        const PyMemberDef *members = Py_SIZE(type) > 0 ? PyObject_GetItemData((PyObject *)type) : NULL;
        if (members == NULL) {
            PyErr_Clear();
            continue;
        }
        for (Py_ssize_t i = 0; i < Py_SIZE(type); i++) {
            PyObject *held = members[i].type == Py_T_OBJECT_EX ? *(PyObject **)((char *)value + members[i].offset) : NULL;
            if (held != NULL) {
                shape_add(shape, NULL, members[i].name, held);
            }
        }
    }
}

/* Show a member of an enum, whose attributes were added, by its name and value only. */
static void show_member(Shape *shape, PyTypeObject *type) {
    if (Py_TYPE(type) == &PyType_Type) {
        return;
    }
    PyObject *name = NULL, *value = NULL;
    for (int i = shape->items; i < shape->count; i++) {
        PyObject *key = shape->keys[i];
        if (key != NULL && PyUnicode_CheckExact(key) && PyUnicode_EqualToUTF8(key, "_name_")) {
            name = shape->values[i];
        } else if (key != NULL && PyUnicode_CheckExact(key) && PyUnicode_EqualToUTF8(key, "_value_")) {
            value = shape->values[i];
        }
    }
    if (name == NULL || value == NULL) {
        return;
    }
    shape->count = shape->items = shape->items_tag = 0;
    shape->left_out = shape->items_left_out = 0;
    shape->first_type = NULL;
    shape_add(shape, NULL, "name", name);
    shape_add(shape, NULL, "value", value);
}

/* Return the field names of a namedtuple of so many items, which its class may inherit, or NULL. */
static PyObject *fields_of(PyTypeObject *type, Py_ssize_t size) {
    PyObject *classes = type->tp_mro;
    for (Py_ssize_t i = 0; classes != NULL && i < PyTuple_GET_SIZE(classes); i++) {
        PyObject *dict = ((PyTypeObject *)PyTuple_GET_ITEM(classes, i))->tp_dict, *key, *fields;
        Py_ssize_t at = 0;
        while (at < 256 && dict != NULL && PyDict_Next(dict, &at, &key, &fields)) {
            if (PyUnicode_CheckExact(key) && PyUnicode_EqualToUTF8(key, "_fields")) {
                return PyTuple_CheckExact(fields) && PyTuple_GET_SIZE(fields) == size ? fields : NULL;
            }
        }
    }
    return NULL;
}

/* Make what was added so far the items of an inherited container. */
static void close_items(Shape *shape, int tag) {
    shape->items_tag = tag;
    shape->items = shape->count;
    shape->items_left_out = shape->left_out;
    shape->left_out = 0;
}

/* Add the items of a tuple's subclass: by field when it is a named one. */
static void add_tuple(Shape *shape, PyObject *value, PyTypeObject *type) {
    PyObject *fields = fields_of(type, Py_SIZE(value));
    add_array(shape, ((PyTupleObject *)value)->ob_item, Py_SIZE(value));
    if (fields == NULL) {
        close_items(shape, TAG_TUPLE);
        return;
    }
    for (int i = 0; i < shape->count; i++) {
        shape->keys[i] = PyTuple_GET_ITEM(fields, i);
    }
}

/* Add what the builtin type shows that a class inherits from: items or the plain value. */
static void add_inherited(Shape *shape, PyObject *value, PyTypeObject *type, PyTypeObject *base) {
    if (base == &PyODict_Type) {
        ordered_add(shape, value);
        close_items(shape, TAG_DICT);
    } else if (base == &PyDict_Type || PyType_FastSubclass(base, Py_TPFLAGS_DICT_SUBCLASS)) {
        add_dict(shape, value);
        close_items(shape, TAG_DICT);
    } else if (base == &PyList_Type) {
        add_array(shape, ((PyListObject *)value)->ob_item, Py_SIZE(value));
        close_items(shape, TAG_LIST);
    } else if (base == &PyTuple_Type) {
        add_tuple(shape, value, type);
    } else if (base == &PySet_Type || base == &PyFrozenSet_Type) {
        add_set(shape, value);
        close_items(shape, TAG_SET);
    } else if (base == &PyLong_Type || base == &PyFloat_Type || base == &PyUnicode_Type || base == &PyBytes_Type) {
        shape->first_type = base;
        shape_add(shape, NULL, "value", value);
    } else if (strcmp(base->tp_name, "collections.deque") == 0) {
        add_deque(shape, value);
        close_items(shape, TAG_LIST);
    } else if (PyType_FastSubclass(base, Py_TPFLAGS_BASE_EXC_SUBCLASS)) {
        PyObject *arguments = ((PyBaseExceptionObject *)value)->args;
        if (arguments != NULL) {
            shape_add(shape, NULL, "args", arguments);
        }
    }
}

/* Describe an instance of any other type. */
static void instance_shape(PyObject *value, PyTypeObject *type, Shape *shape) {
    shape->tag = TAG_INSTANCE;
    shape->type = type;
    shape->has_keys = true;
    PyTypeObject *base = type;
    while (base != NULL && !is_in_c(base)) {
        base = base->tp_base;
    }
    if (base != NULL && base != &PyBaseObject_Type) {
        if (numeric_shape(value, base, shape)) {
            return;
        }
        add_inherited(shape, value, type, base);
    }
    PyObject *dict = dict_of(value, type);
    if (dict != NULL) {
        add_dict(shape, dict);
    } else if (type->tp_flags & Py_TPFLAGS_INLINE_VALUES) {
        add_inline(shape, value, type);
    }
    add_slots(shape, value, type);
    show_member(shape, type);
}

/* Whether an attribute of a class is data rather than a method or a descriptor. */
static bool is_data(PyObject *item) {
    PyTypeObject *type = Py_TYPE(item);
    return !(type == &PyFunction_Type || type == &PyStaticMethod_Type || type == &PyClassMethod_Type ||
             type == &PyProperty_Type || type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type);
}

/* Whether an attribute of a class is not shown: names like __doc__, and those like _value_ that a metaclass keeps for itself, as that of enums does. */
static bool is_hidden(PyTypeObject *type, PyObject *key) {
    Py_ssize_t size = PyUnicode_CheckExact(key) ? PyUnicode_GET_LENGTH(key) : 0;
    if (size < 2 || PyUnicode_READ_CHAR(key, 0) != '_') {
        return size == 0;
    }
    return PyUnicode_READ_CHAR(key, 1) == '_' || (!is_in_c(Py_TYPE(type)) && PyUnicode_READ_CHAR(key, size - 1) == '_');
}

/* Describe a class by its attributes that are data. */
static void class_shape(PyTypeObject *type, Shape *shape) {
    shape->tag = TAG_CLASS;
    shape->type = type;
    shape->has_keys = true;
    Py_ssize_t at = 0;
    PyObject *key, *item;
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_dict == NULL) {
        return;
    }
    for (int i = 0; i < MAX_STEPS && PyDict_Next(type->tp_dict, &at, &key, &item); i++) {
        if (!is_hidden(type, key) && is_data(item)) {
            shape_add(shape, key, NULL, item);
        }
    }
}

/* As Objects/rangeobject.c lays out a range. */
typedef struct Range {
    PyObject_HEAD
    PyObject *start, *stop, *step;
} Range;

/* Return a number that changes whenever what an object shows changes, 0 when there is none. */
uint64_t shape_version(PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyDict_Type) {
        return ((PyDictObject *)value)->ma_values == NULL ? ((PyDictObject *)value)->ma_version_tag : 0;
    }
    if (type == &PyGen_Type || type == &PyCoro_Type || type == &PyAsyncGen_Type) {
        return (uintptr_t)type; /* shows nothing but that */
    }
    if (PyType_FastSubclass(type, Py_TPFLAGS_TYPE_SUBCLASS)) {
        PyTypeObject *class = (PyTypeObject *)value;
        if (!(class->tp_flags & Py_TPFLAGS_HEAPTYPE) || class->tp_dict == NULL) {
            return (uintptr_t)class;
        }
        uint64_t version = mix((uintptr_t)((PyHeapTypeObject *)class)->ht_name, (uintptr_t)class->tp_bases);
        return mix(version, ((PyDictObject *)class->tp_dict)->ma_version_tag);
    }
    return 0;
}

/* Describe what an object shows. */
void shape_of(PyObject *value, Shape *shape) {
    PyTypeObject *type = Py_TYPE(value);
    shape->type = shape->first_type = NULL;
    shape->count = shape->items = shape->items_tag = 0;
    shape->items_left_out = 0;
    shape->has_keys = false;
    shape->left_out = 0;
    shape->raw_size = 0;
    if (type == &PyList_Type) {
        shape->tag = TAG_LIST;
        add_array(shape, ((PyListObject *)value)->ob_item, Py_SIZE(value));
    } else if (type == &PyTuple_Type) {
        shape->tag = TAG_TUPLE;
        add_array(shape, ((PyTupleObject *)value)->ob_item, Py_SIZE(value));
    } else if (type == &PyDict_Type) {
        shape->tag = TAG_DICT;
        shape->has_keys = true;
        add_dict(shape, value);
    } else if (type == &PySet_Type || type == &PyFrozenSet_Type) {
        shape->tag = TAG_SET;
        add_set(shape, value);
    } else if (type == &PyRange_Type) {
        shape->tag = TAG_RANGE;
        const Range *range = (const Range *)value;
        shape_add(shape, NULL, NULL, range->start);
        shape_add(shape, NULL, NULL, range->stop);
        shape_add(shape, NULL, NULL, range->step);
    } else if (PyType_FastSubclass(type, Py_TPFLAGS_TYPE_SUBCLASS)) {
        class_shape((PyTypeObject *)value, shape);
    } else {
        instance_shape(value, type, shape);
    }
}
