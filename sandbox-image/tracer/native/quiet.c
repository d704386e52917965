/* Lines that cannot change an object.
 *
 * After a line that only computes with local variables, what objects show is as
 * it was, and need not be compared. Code that such a line may run after all, an
 * operator of a class of the program, has events of its own. What an operator
 * that works in place may have changed is the variable that it is stored to. */
#include "values.h"

#include <opcode.h>

/* Whether an instruction, as compiled, changes nothing but variables of its frame. */
static bool is_harmless(int operation) {
    switch (operation) {
        case CACHE: case EXTENDED_ARG: case NOP: case RESUME: case PUSH_NULL: case SWAP: case COPY: case POP_TOP: case END_FOR:
        case LOAD_FAST: case LOAD_FAST_CHECK: case LOAD_FAST_LOAD_FAST: case LOAD_CONST: case LOAD_DEREF: case LOAD_GLOBAL:
        case STORE_FAST: case STORE_FAST_STORE_FAST: case STORE_FAST_LOAD_FAST: case STORE_DEREF:
        case BINARY_OP: case COMPARE_OP: case IS_OP: case UNARY_NOT: case UNARY_NEGATIVE: case UNARY_INVERT: case TO_BOOL:
        case POP_JUMP_IF_FALSE: case POP_JUMP_IF_TRUE: case POP_JUMP_IF_NONE: case POP_JUMP_IF_NOT_NONE: case JUMP_FORWARD:
        case JUMP_BACKWARD: case BUILD_TUPLE: case BUILD_LIST: case BUILD_SLICE: case BUILD_STRING: case FORMAT_SIMPLE:
        case RETURN_VALUE: case RETURN_CONST:
            return true;
        default:
            return false;
    }
}

/* Whether a line with this instruction is quiet only under a condition, which
 * quiet_is looks at: it is a FOR_ITER, or it works in place and a STORE_FAST follows. */
static bool is_conditional(PyCodeObject *code, const Facts *facts, int unit) {
    enum { AFTER = 2 }; /* units of a BINARY_OP with its cache */
    int operation = facts->operations[unit];
    if (operation == FOR_ITER) {
        return true;
    }
    return operation == BINARY_OP && _PyCode_CODE(code)[unit].op.arg >= NB_INPLACE_ADD && unit + AFTER < facts->units &&
           facts->operations[unit + AFTER] == STORE_FAST;
}

/* Whether an instruction leaves objects alone under any condition. */
static bool is_harmless_at(PyCodeObject *code, const Facts *facts, int unit) {
    int operation = facts->operations[unit];
    return is_harmless(operation) && !(operation == BINARY_OP && _PyCode_CODE(code)[unit].op.arg >= NB_INPLACE_ADD);
}

/* Find a function's quiet lines; of a line that is quiet under one condition the
 * unit of that is kept. */
void quiet_find(Facts *facts, PyCodeObject *code) {
    if (facts->counters == NULL) {
        return;
    }
    size_t lines = (size_t)(facts->high_line - facts->low_line) + 1;
    facts->quiet = PyMem_RawMalloc(lines * sizeof(int32_t));
    if (facts->quiet == NULL) {
        return;
    }
    for (size_t i = 0; i < lines; i++) {
        facts->quiet[i] = QUIET;
    }
    for (int unit = 0; unit < facts->units; unit++) {
        int line = facts->lines[unit];
        if (line > 0 && !is_harmless_at(code, facts, unit)) {
            int32_t *quiet = &facts->quiet[line - facts->low_line];
            *quiet = *quiet == QUIET && is_conditional(code, facts, unit) ? unit : LOUD;
        }
    }
}

/* Whether objects are, when the line of a frame has run, as they were before. */
bool quiet_is(const Facts *facts, const _PyInterpreterFrame *frame, int line) {
    if (facts->quiet == NULL || facts->unseen || line < facts->low_line || line > facts->high_line) {
        return false;
    }
    int32_t quiet = facts->quiet[line - facts->low_line];
    if (quiet < 0) {
        return quiet == QUIET;
    }
    const _Py_CODEUNIT *unit = _PyCode_CODE((PyCodeObject *)frame->f_executable) + quiet;
    if (facts->operations[quiet] == FOR_ITER) {
        int operation = unit->op.code;
        return operation == FOR_ITER_RANGE || operation == FOR_ITER_LIST || operation == FOR_ITER_TUPLE;
    }
    const PyObject *stored = frame->localsplus[unit[2].op.arg];
    return stored != NULL && !value_is_object((PyObject *)stored);
}
