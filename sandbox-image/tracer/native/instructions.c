/* The instructions of a function: where each begins, where it can go on, and where LINE events may be. CPython
 * 3.13 has one at the first instruction of a line and at the target of a jump, unless what ran before has the same line. */
#include "flow.h"

#include <opcode.h>

/* The unit that an instruction jumps to; false when it is no jump. */
bool instructions_jump(const Instructions *list, int unit, int *target) {
    switch (list->facts->operations[unit]) {
        case POP_JUMP_IF_FALSE: case POP_JUMP_IF_TRUE: case POP_JUMP_IF_NONE: case POP_JUMP_IF_NOT_NONE: case JUMP_FORWARD:
        case FOR_ITER: case SEND:
            *target = list->next[unit] + list->argument[unit];
            break;
        case JUMP_BACKWARD: case JUMP_BACKWARD_NO_INTERRUPT:
            *target = list->next[unit] - list->argument[unit];
            break;
        default:
            return false;
    }
    return true;
}

/* Whether an instruction never goes on to the one after it. */
bool instructions_never_go_on(int operation) {
    return operation == RETURN_VALUE || operation == RETURN_CONST || operation == RAISE_VARARGS || operation == RERAISE ||
           operation == JUMP_FORWARD || operation == JUMP_BACKWARD || operation == JUMP_BACKWARD_NO_INTERRUPT ||
           operation == INTERPRETER_EXIT;
}

/* Whether an instruction has no event even where it is the first of a line. */
static bool never_starts_a_line(int operation) {
    return operation == END_ASYNC_FOR || operation == END_FOR || operation == END_SEND || operation == RESUME;
}

/* Whether an instruction begins at a unit, or an extended argument of one. */
bool instructions_at(const Instructions *list, int unit) {
    return unit >= 0 && unit < list->facts->units && list->next[unit] > 0;
}

/* List the instructions; an extended argument counts as one that does nothing. */
static void list_instructions(Instructions *list, const uint8_t *bytes) {
    const Facts *facts = list->facts;
    uint32_t extended = 0;
    for (int unit = 0; unit < facts->units;) {
        int operation = facts->operations[unit], after = unit + 1;
        uint32_t argument = bytes[2 * unit + 1] | extended << 8;
        while (after < facts->units && facts->operations[after] == CACHE) {
            after++;
        }
        extended = operation == EXTENDED_ARG ? argument : 0;
        list->argument[unit] = (int32_t)Py_MIN(argument, 1u << 28);
        list->next[unit] = after;
        unit = after;
    }
}

/* Mark where LINE events may be. */
static void mark_lines(Instructions *list) {
    const Facts *facts = list->facts;
    int line = -1, target;
    bool extended = false;
    for (int unit = list->first; unit < facts->units; unit = list->next[unit]) {
        int operation = facts->operations[unit];
        if (!extended && !never_starts_a_line(operation)) {
            list->marked[unit] = facts->lines[unit] > 0 && facts->lines[unit] != line;
            line = facts->lines[unit];
        }
        extended = operation == EXTENDED_ARG;
    }
    for (int unit = list->first; unit < facts->units; unit = list->next[unit]) {
        if (instructions_jump(list, unit, &target)) {
            int operation = facts->operations[unit];
            target += operation == FOR_ITER || operation == SEND;
            if (instructions_at(list, target) && facts->lines[target] > 0) {
                list->marked[target] = true;
            }
        }
    }
}

/* Read the instructions of a function; false when there is no memory or the code is not as compilers make it. */
bool instructions_read(Instructions *list, const Facts *facts, PyCodeObject *code) {
    size_t units = (size_t)facts->units + 1;
    PyObject *bytes = PyCode_GetCode(code);
    *list = (Instructions){
        .facts = facts, .first = code->_co_firsttraceable, .next = PyMem_RawCalloc(units, sizeof(int32_t)),
        .argument = PyMem_RawCalloc(units, sizeof(int32_t)), .marked = PyMem_RawCalloc(units, sizeof(bool)),
    };
    bool good = bytes != NULL && list->next != NULL && list->argument != NULL && list->marked != NULL &&
                list->first < facts->units && facts->operations[list->first] == RESUME;
    if (good) {
        list_instructions(list, (const uint8_t *)PyBytes_AS_STRING(bytes));
        mark_lines(list);
    }
    PyErr_Clear();
    Py_XDECREF(bytes);
    return good;
}

void instructions_free(Instructions *list) {
    PyMem_RawFree(list->next);
    PyMem_RawFree(list->argument);
    PyMem_RawFree(list->marked);
}
