/* The entries of an OrderedDict, in its own order: that of the dictionary in it is another once an entry was moved.
 *
 * Keys are found by their hash and identity, since to compare them could run the program's code. */
#include "values.h"

#include <internal/pycore_dict.h>

/* As Objects/odictobject.c lays out an OrderedDict and its list. */
typedef struct OrderedNode {
    PyObject *key;
    Py_hash_t hash;
    struct OrderedNode *next, *previous;
} OrderedNode;

typedef struct Ordered {
    PyDictObject dict;
    OrderedNode *first, *last;
} Ordered;

/* Return the index that a dictionary's table has at a place. */
static Py_ssize_t index_at(const PyDictKeysObject *keys, size_t at) {
    const void *indices = keys->dk_indices;
    if (DK_LOG_SIZE(keys) < 8) {
        return ((const int8_t *)indices)[at];
    }
    if (DK_LOG_SIZE(keys) < 16) {
        return ((const int16_t *)indices)[at];
    }
    return DK_LOG_SIZE(keys) < 32 ? ((const int32_t *)indices)[at] : (Py_ssize_t)((const int64_t *)indices)[at];
}

/* Return what a dictionary has for exactly this key, NULL for nothing; its table is probed as dictionaries do, for as many steps as are left. */
static PyObject *value_for(const PyDictObject *dict, const PyObject *key, Py_hash_t hash, int *steps) {
    enum { SHIFT = 5 };
    PyDictKeysObject *keys = dict->ma_keys;
    size_t mask = (size_t)DK_SIZE(keys) - 1, perturbed = (size_t)hash, at = perturbed & mask;
    for (; dict->ma_values == NULL && *steps > 0; --*steps) {
        Py_ssize_t index = index_at(keys, at);
        if (index == DKIX_EMPTY) {
            break;
        }
        bool unicode = DK_IS_UNICODE(keys);
        if (index >= 0 && (unicode ? DK_UNICODE_ENTRIES(keys)[index].me_key : DK_ENTRIES(keys)[index].me_key) == key) {
            return unicode ? DK_UNICODE_ENTRIES(keys)[index].me_value : DK_ENTRIES(keys)[index].me_value;
        }
        perturbed >>= SHIFT;
        at = (at * 5 + perturbed + 1) & mask;
    }
    return NULL;
}

/* Add the first entries of an OrderedDict. */
void ordered_add(Shape *shape, PyObject *value) {
    const Ordered *ordered = (const Ordered *)value;
    const OrderedNode *node = ordered->first;
    /* For nodes and probes together: keys whose hashes collide must not make it a square. */
    for (int steps = MAX_STEPS; steps > 0 && node != NULL && shape->count < MAX_ITEMS; steps--, node = node->next) {
        PyObject *held = value_for(&ordered->dict, node->key, node->hash, &steps);
        if (held != NULL) {
            shape_add(shape, node->key, NULL, held);
        }
    }
    shape->left_out += Py_MAX(ordered->dict.ma_used - shape->count, 0);
}
