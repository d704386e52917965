/* What changed in a frame: its variables against what was last said of them. */
#include "values.h"

#include "flow.h"

enum { BY_NAME = 255 };

/* Return what is kept of a frame, with room for so many variables; NULL when there is no memory. */
static Said *said_room(Recorder *r, Activation *activation, int count) {
    Said *said = activation->said;
    if (said == NULL) {
        said = said_new(r);
        if (said == NULL) {
            return NULL;
        }
        activation->said = said;
    }
    if (said->room < count) {
        int room = Py_MAX(count, said->room * 2);
        Variable *variables = PyMem_RawRealloc(said->variables, (size_t)room * sizeof(Variable));
        if (variables == NULL) {
            return NULL;
        }
        memset(variables + said->room, 0, (size_t)(room - said->room) * sizeof(Variable));
        said->variables = variables;
        said->room = room;
    }
    return said;
}

/* Whether a value, or what it leads to, can change by being read without code that has events: an iterator, or a
 * dict of another class such as defaultdict. */
static bool is_odd(PyObject *value) {
    const PyTypeObject *type = Py_TYPE(value);
    return (type->tp_iternext != NULL && type != &PyGen_Type) || (PyDict_Check(value) && !PyDict_CheckExact(value));
}

/* Note that a function has to do with odd values, or such as change others unseen. */
static inline void note_odd(Recorder *r, Facts *facts, PyObject *value) {
    bool odd = !facts->odd && is_odd(value), unseen = !facts->unseen && unseen_is(r, value);
    facts->odd |= odd;
    facts->unseen |= unseen;
    if ((odd || unseen) && facts->flow != NULL) {
        facts->flow->stale = true;
    }
}

/* Note whether a variable holds an object. That one can which a passed line stores to changes what may be passed. */
static inline void note_object(Facts *facts, Said *said, int slot, bool is_object) {
    uint64_t bit = (uint64_t)1 << (slot & 63);
    int i = slot >> 6;
    said->objects[i] = is_object ? said->objects[i] | bit : said->objects[i] & ~bit;
    if (is_object && !(facts->objects[i] & bit)) {
        facts->objects[i] |= bit;
        if (facts->flow != NULL) {
            facts->flow->stale = true;
        }
    }
}

/* Return the value of a function's variable, looking into its cell; NULL when it has none. */
static PyObject *local_of(const _PyInterpreterFrame *frame, const uint8_t *kinds, int slot) {
    PyObject *value = frame->localsplus[slot];
    if (value != NULL && kinds[slot] & (CO_FAST_CELL | CO_FAST_FREE) && PyCell_Check(value)) {
        value = PyCell_GET(value);
    }
    return value;
}

/* Write a frame's variable if it changed, and find it if it is an object; say whether it was written. */
static ALWAYS_INLINE bool local_write(Recorder *r, Out *out, Activation *activation, Found *found, Said *said, const uint8_t *kinds, int slot, bool *objects) {
    PyObject *value = local_of(activation->frame, kinds, slot);
    bool is_object = false;
    uint64_t print = value == NULL ? 0 : value_print(value, Py_TYPE(value), &is_object) + 1;
    if (is_object) {
        find(found, value);
    }
    if (said == NULL ? value == NULL : said->variables[slot].said == print) {
        return false;
    }
    if (said != NULL) {
        said->variables[slot].said = print;
        note_object(activation->facts, said, slot, is_object);
        if (is_object) {
            note_odd(r, activation->facts, value);
        }
    }
    *objects |= is_object;
    byte_write(out, (unsigned)slot);
    if (value == NULL) {
        byte_write(out, TAG_DEL);
    } else {
        value_write(r, out, value, Py_TYPE(value), NULL);
    }
    return true;
}

/* Write the changed ones of the variables that can have changed, and find the objects in the others unless none can have changed. */
static unsigned some_write(Recorder *r, Out *out, Activation *activation, Found *found, const Look *look, const uint8_t *kinds, int count, bool *objects) {
    Said *said = activation->said;
    unsigned written = 0;
    for (int i = 0; i < 2; i++) {
        uint64_t others = look->quiet ? 0 : look->aimed ? look->at[i] : said->objects[i];
        uint64_t left = look->only[i] | others;
        left &= look->except != NULL ? ~look->except[i] : ~(uint64_t)0;
        for (; left != 0; left &= left - 1) {
            int slot = i * 64 + __builtin_ctzll(left);
            if (slot >= count || activation->facts->hidden[slot]) {
                continue;
            }
            if (look->only[i] >> (slot & 63) & 1) { /* finds it too */
                written += local_write(r, out, activation, found, said, kinds, slot, objects);
            } else if (activation->frame->localsplus[slot] != NULL && value_is_object(activation->frame->localsplus[slot])) {
                find(found, activation->frame->localsplus[slot]);
            }
        }
    }
    return written;
}

/* Write the changed variables that are kept in the frame itself; return how many,
 * and whether there is an object among them. */
static unsigned locals_write(Recorder *r, Out *out, Activation *activation, Found *found, const Look *look, bool *objects) {
    const PyCodeObject *code = _PyFrame_GetCode(activation->frame);
    const uint8_t *kinds = (const uint8_t *)PyBytes_AS_STRING(code->co_localspluskinds);
    int count = Py_MIN(code->co_nlocalsplus, MAX_VARIABLES);
    if (code->co_nlocalsplus > MAX_VARIABLES) {
        count_up(r, C_SHORTENED);
    }
    if (look->some && activation->said != NULL && activation->said->room >= count) {
        return some_write(r, out, activation, found, look, kinds, count, objects);
    }
    Said *said = look->all ? NULL : said_room(r, activation, count);
    unsigned written = 0;
    for (int slot = 0; slot < count; slot++) {
        if (!activation->facts->hidden[slot] && (look->except == NULL || !stores_have(look->except, slot))) {
            written += local_write(r, out, activation, found, said, kinds, slot, objects);
        }
    }
    return written;
}

/* Return what is kept of a namespace's variable by the hash of its name. They
 * come in the order of before, so it is mostly the one expected. */
static Variable *variable_of(Said *said, Py_hash_t name, int expected) {
    if (expected < said->count && said->variables[expected].name == name) {
        return &said->variables[expected];
    }
    for (int i = 0; i < said->count; i++) {
        if (said->variables[i].name == name) {
            return &said->variables[i];
        }
    }
    return NULL;
}

/* Keep a name for the time when its variable is gone. */
static char *name_copy(PyObject *name) {
    uint8_t bytes[MAX_NAME * 4 + 8];
    Out out = {bytes, bytes + sizeof bytes, false};
    text_write(&out, name, MAX_NAME);
    size_t size = (size_t)(out.at - bytes);
    char *copy = PyMem_RawMalloc(size + 2);
    if (copy != NULL) {
        uint16_t length = (uint16_t)size;
        memcpy(copy, &length, 2);
        memcpy(copy + 2, bytes, size);
    }
    return copy;
}

/* Take a new variable of a namespace into what is kept; NULL when there is no room. */
static Variable *variable_add(Recorder *r, Activation *activation, PyObject *name, Py_hash_t hash) {
    Said *said = said_room(r, activation, activation->said->count + 1);
    if (said == NULL || said->count >= 4 * MAX_VARIABLES) {
        return NULL;
    }
    Variable *variable = &said->variables[said->count++];
    *variable = (Variable){hash, 0, name_copy(name)};
    return variable;
}

/* Write the variables of a namespace that are gone, and forget them. */
static unsigned deleted_write(Out *out, Said *said, const bool *present) {
    unsigned written = 0;
    int kept = 0;
    for (int i = 0; i < said->count; i++) {
        Variable variable = said->variables[i];
        if (present[i]) {
            said->variables[kept++] = variable;
            continue;
        }
        if (variable.text != NULL && written < MAX_VARIABLES) {
            uint16_t size;
            memcpy(&size, variable.text, 2);
            byte_write(out, BY_NAME);
            for (int byte = 0; byte < size; byte++) {
                byte_write(out, (uint8_t)variable.text[2 + byte]);
            }
            byte_write(out, TAG_DEL);
            written++;
        }
        PyMem_RawFree(variable.text);
    }
    said->count = kept;
    return written;
}

/* The variables of a module or class, one after another: the names of its namespace, then those that the
 * interpreter keeps in the frame while a comprehension runs, which hide names of the namespace. */
typedef struct Walk {
    PyObject *names;
    const _PyInterpreterFrame *frame;
    const PyCodeObject *code;
    const uint8_t *kinds;
    Py_ssize_t at;
    int seen, slots;
    int slot; /* of the variable, -1 for a name of the namespace */
    bool hiding;
} Walk;

static PyObject *hidden_of(const Walk *walk, int slot) {
    return walk->kinds[slot] & CO_FAST_HIDDEN ? local_of(walk->frame, walk->kinds, slot) : NULL;
}

static Walk walk_open(_PyInterpreterFrame *frame) {
    enum { MOST_HIDDEN = 50 };
    const PyCodeObject *code = _PyFrame_GetCode(frame);
    const uint8_t *kinds = (const uint8_t *)PyBytes_AS_STRING(code->co_localspluskinds);
    Walk walk = {.names = frame->f_locals, .frame = frame, .code = code, .kinds = kinds, .slots = Py_MIN(code->co_nlocalsplus, MOST_HIDDEN), .slot = -1};
    for (int slot = 0; slot < walk.slots; slot++) {
        walk.hiding |= hidden_of(&walk, slot) != NULL;
    }
    return walk;
}

static Py_hash_t hash_of(PyObject *name) {
    return ((PyASCIIObject *)name)->hash;
}

/* Whether a name of the namespace is one of a comprehension that runs. */
static bool is_hidden_by(const Walk *walk, PyObject *name) {
    bool hides = false;
    for (int slot = 0; slot < walk->slots; slot++) {
        hides |= hidden_of(walk, slot) != NULL && hash_of(PyTuple_GET_ITEM(walk->code->co_localsplusnames, slot)) == hash_of(name);
    }
    return hides;
}

/* Go to the next variable; false at the end. */
static bool walk_next(Walk *walk, PyObject **name, PyObject **value) {
    while (walk->seen < MAX_VARIABLES && PyDict_Next(walk->names, &walk->at, name, value)) {
        walk->seen++;
        if (PyUnicode_CheckExact(*name) && !name_is_special(*name) && !(walk->hiding && is_hidden_by(walk, *name))) {
            return true;
        }
    }
    while (walk->hiding && ++walk->slot < walk->slots) {
        *name = PyTuple_GET_ITEM(walk->code->co_localsplusnames, walk->slot);
        *value = hidden_of(walk, walk->slot);
        if (*value != NULL) {
            return true;
        }
    }
    return false;
}

/* Fingerprint all variables of a module or class, and find the objects in them. */
static uint64_t names_print(Walk walk, Found *found) {
    uint64_t print = 1;
    PyObject *name, *value;
    while (walk_next(&walk, &name, &value)) {
        bool is_object;
        print = mix(print, value_print(value, Py_TYPE(value), &is_object));
        if (is_object) {
            find(found, value);
        }
    }
    return print;
}

/* Take note of a variable's value, and say whether it is to be written. */
static bool name_changed(Recorder *r, Activation *activation, PyObject *name, uint64_t print, bool kept, bool *present, int *expected) {
    Variable *variable = variable_of(activation->said, hash_of(name), (*expected)++);
    if (variable == NULL) {
        variable = variable_add(r, activation, name, hash_of(name));
    }
    if (variable == NULL) {
        return !kept;
    }
    present[variable - activation->said->variables] = true;
    if (kept || variable->said == print) {
        return false;
    }
    variable->said = print;
    return true;
}

/* Write the changed variables of a module or class; return how many. */
static unsigned names_write(Recorder *r, Out *out, Activation *activation, Found *found, const Look *look) {
    PyObject *names = activation->frame->f_locals;
    if (names == NULL || !PyDict_Check(names)) {
        return 0; /* a mapping of the program's own */
    }
    Said *said = look->all ? NULL : said_room(r, activation, 8);
    Walk walk = walk_open(activation->frame);
    int before = found->count;
    uint64_t version = ((PyDictObject *)names)->ma_version_tag, print = 1;
    if (said != NULL && said->version == version && said->print == names_print(walk, found)) {
        return 0;
    }
    found->count = before;
    bool present[4 * MAX_VARIABLES + 1] = {false};
    unsigned written = 0;
    PyObject *name, *value;
    for (int expected = 0; walk_next(&walk, &name, &value);) {
        bool is_object, kept = walk.slot >= 0 && look->except != NULL && stores_have(look->except, walk.slot);
        uint64_t its = value_print(value, Py_TYPE(value), &is_object);
        print = mix(print, its);
        version = kept ? 0 : version; /* which no namespace has */
        if (is_object) {
            find(found, value);
        }
        if (said != NULL ? !name_changed(r, activation, name, its + 1, kept, present, &expected) : kept) {
            continue;
        }
        byte_write(out, BY_NAME);
        text_write(out, name, MAX_NAME);
        value_write(r, out, value, Py_TYPE(value), NULL);
        written++;
    }
    if (walk.seen == MAX_VARIABLES && PyDict_GET_SIZE(names) > MAX_VARIABLES) {
        count_up(r, C_SHORTENED);
    }
    if (said != NULL) {
        written += deleted_write(out, said, present);
        said->version = version;
        said->print = print;
    }
    return written;
}

/* Write the variables of a frame that changed, or all: their count, then name
 * and value of each. Objects among the variables are added to those found. Say
 * whether one that is written is an object, or may be. */
bool variables_write(Recorder *r, Out *out, Activation *activation, Found *found, const Look *look) {
    uint8_t *count_at = out->at;
    byte_write(out, 0);
    unsigned written;
    bool objects = false;
    if (_PyFrame_GetCode(activation->frame)->co_flags & CO_OPTIMIZED) {
        written = locals_write(r, out, activation, found, look, &objects);
    } else {
        written = names_write(r, out, activation, found, look);
        objects = true;
    }
    if (!out->full) {
        *count_at = (uint8_t)written;
    }
    return objects;
}
