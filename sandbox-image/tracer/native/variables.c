/* What changed in a frame: its variables against what was last said of them. */
#include "values.h"

enum { BY_NAME = 255 };

/* Return what is kept of a frame, with room for so many variables; NULL when there is no memory. */
static Said *said_room(Activation *activation, int count) {
    Said *said = activation->said;
    if (said == NULL) {
        said = PyMem_RawCalloc(1, sizeof *said);
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

/* Return the value of a function's variable, looking into its cell; NULL when it has none. */
static PyObject *local_of(const _PyInterpreterFrame *frame, const uint8_t *kinds, int slot) {
    PyObject *value = frame->localsplus[slot];
    if (value != NULL && kinds[slot] & (CO_FAST_CELL | CO_FAST_FREE) && PyCell_Check(value)) {
        value = PyCell_GET(value);
    }
    return value;
}

/* Write the changed variables that are kept in the frame itself; return how many,
 * and whether there is an object among them. */
static unsigned locals_write(Recorder *r, Out *out, Activation *activation, Found *found, bool all, bool *objects) {
    const PyCodeObject *code = _PyFrame_GetCode(activation->frame);
    const uint8_t *kinds = (const uint8_t *)PyBytes_AS_STRING(code->co_localspluskinds);
    int count = Py_MIN(code->co_nlocalsplus, MAX_VARIABLES);
    Said *said = all ? NULL : said_room(activation, count);
    unsigned written = 0;
    if (code->co_nlocalsplus > MAX_VARIABLES) {
        count_up(r, C_SHORTENED);
    }
    for (int slot = 0; slot < count; slot++) {
        if (activation->facts->hidden[slot]) {
            continue;
        }
        PyObject *value = local_of(activation->frame, kinds, slot);
        bool is_object = false;
        uint64_t print = value == NULL ? 0 : value_print(value, Py_TYPE(value), &is_object) + 1;
        if (is_object) {
            find(found, value);
        }
        if (said == NULL ? value == NULL : said->variables[slot].said == print) {
            continue;
        }
        if (said != NULL) {
            said->variables[slot].said = print;
        }
        *objects |= is_object;
        byte_write(out, (unsigned)slot);
        if (value == NULL) {
            byte_write(out, TAG_DEL);
        } else {
            value_write(r, out, value, Py_TYPE(value), NULL);
        }
        written++;
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
static Variable *variable_add(Activation *activation, PyObject *name, Py_hash_t hash) {
    Said *said = said_room(activation, activation->said->count + 1);
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

/* Write the changed variables of a module or class; return how many. */
static unsigned names_write(Recorder *r, Out *out, Activation *activation, Found *found, bool all) {
    PyObject *names = activation->frame->f_locals;
    if (names == NULL || !PyDict_CheckExact(names)) {
        return 0; /* a mapping of the program's own */
    }
    Said *said = all ? NULL : said_room(activation, 8);
    uint64_t version = ((PyDictObject *)names)->ma_version_tag;
    bool same = said != NULL && said->version == version;
    bool present[4 * MAX_VARIABLES + 1] = {false};
    unsigned written = 0;
    Py_ssize_t at = 0;
    PyObject *name, *value;
    int current = 0, seen = 0;
    for (; seen < MAX_VARIABLES && PyDict_Next(names, &at, &name, &value); seen++) {
        if (!PyUnicode_CheckExact(name) || name_is_special(name)) {
            continue;
        }
        bool is_object;
        uint64_t print = value_print(value, Py_TYPE(value), &is_object) + 1;
        if (is_object) {
            find(found, value);
        }
        if (same) {
            continue;
        }
        if (said != NULL) {
            Py_hash_t hash = ((PyASCIIObject *)name)->hash;
            Variable *variable = variable_of(said, hash, current++);
            if (variable == NULL) {
                variable = variable_add(activation, name, hash);
            }
            if (variable != NULL) {
                present[variable - said->variables] = true;
                if (variable->said == print) {
                    continue;
                }
                variable->said = print;
            }
        }
        byte_write(out, BY_NAME);
        text_write(out, name, MAX_NAME);
        value_write(r, out, value, Py_TYPE(value), NULL);
        written++;
    }
    if (seen == MAX_VARIABLES && PyDict_GET_SIZE(names) > MAX_VARIABLES) {
        count_up(r, C_SHORTENED);
    }
    if (said != NULL && !same) {
        written += deleted_write(out, said, present);
        said->version = version;
    }
    return written;
}

/* Write the variables of a frame that changed, or all: their count, then name
 * and value of each. Objects among the variables are added to those found. Say
 * whether one that is written is an object, or may be. */
bool variables_write(Recorder *r, Out *out, Activation *activation, Found *found, bool all) {
    uint8_t *count_at = out->at;
    byte_write(out, 0);
    unsigned written;
    bool objects = false;
    if (_PyFrame_GetCode(activation->frame)->co_flags & CO_OPTIMIZED) {
        written = locals_write(r, out, activation, found, all, &objects);
    } else {
        written = names_write(r, out, activation, found, all);
        objects = true;
    }
    if (!out->full) {
        *count_at = (uint8_t)written;
    }
    return objects;
}
