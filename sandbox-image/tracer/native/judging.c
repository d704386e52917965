/* What instructions do: which lines change nothing but variables, which cannot wait nor end the program,
 * and what variables they store to. All in the sense of one function's own code: what other code of
 * the program does meanwhile has events. */
#include "flow.h"

#include <opcode.h>

/* Whether an attribute, an item or a sequence is what the interpreter found there so often that it has an
 * instruction for it, which runs no other code. An item of a dict is left out: a defaultdict that comes later grows by being read. */
static bool is_plain(int now) {
    switch (now) {
        case LOAD_ATTR_INSTANCE_VALUE: case LOAD_ATTR_SLOT: case LOAD_ATTR_WITH_HINT: case LOAD_ATTR_CLASS: case LOAD_ATTR_MODULE:
        case LOAD_ATTR_METHOD_LAZY_DICT: case LOAD_ATTR_METHOD_NO_DICT: case LOAD_ATTR_METHOD_WITH_VALUES:
        case LOAD_ATTR_NONDESCRIPTOR_NO_DICT: case LOAD_ATTR_NONDESCRIPTOR_WITH_VALUES:
        case BINARY_SUBSCR_LIST_INT: case BINARY_SUBSCR_STR_INT: case BINARY_SUBSCR_TUPLE_INT:
        case UNPACK_SEQUENCE_LIST: case UNPACK_SEQUENCE_TUPLE: case UNPACK_SEQUENCE_TWO_TUPLE:
            return true;
        default:
            return false;
    }
}

/* Whether an instruction changes nothing but variables of its function. */
bool judging_is_calm(int operation, int now) {
    switch (operation) {
        case EXTENDED_ARG: case NOP: case RESUME: case PUSH_NULL: case SWAP: case COPY: case POP_TOP: case END_FOR:
        case LOAD_FAST: case LOAD_FAST_CHECK: case LOAD_FAST_LOAD_FAST: case LOAD_FAST_AND_CLEAR: case LOAD_CONST: case LOAD_DEREF:
        case LOAD_GLOBAL: case LOAD_NAME: case STORE_FAST: case STORE_FAST_STORE_FAST: case STORE_FAST_LOAD_FAST: case DELETE_FAST:
        case BINARY_OP: case COMPARE_OP: case CONTAINS_OP: case IS_OP: case UNARY_NOT: case UNARY_NEGATIVE: case UNARY_INVERT: case TO_BOOL:
        case POP_JUMP_IF_FALSE: case POP_JUMP_IF_TRUE: case POP_JUMP_IF_NONE: case POP_JUMP_IF_NOT_NONE: case JUMP_FORWARD:
        case JUMP_BACKWARD: case JUMP_BACKWARD_NO_INTERRUPT: case BUILD_TUPLE: case BUILD_LIST: case BUILD_SLICE: case BUILD_STRING:
        case BUILD_MAP: case BUILD_SET: case BUILD_CONST_KEY_MAP: case FORMAT_SIMPLE: case FORMAT_WITH_SPEC: case GET_ITER: case GET_LEN:
        case FOR_ITER: case LIST_APPEND: case SET_ADD: case MAP_ADD: case MAKE_FUNCTION: case SET_FUNCTION_ATTRIBUTE: case YIELD_VALUE:
        case RETURN_VALUE: case RETURN_CONST: case PUSH_EXC_INFO: case CHECK_EXC_MATCH: case POP_EXCEPT: case RERAISE:
            return true;
        case LOAD_ATTR: case BINARY_SUBSCR: case UNPACK_SEQUENCE:
            return is_plain(now);
        default:
            return false;
    }
}

/* Whether an instruction that is not calm cannot wait for something or end the program, but by code that has events. */
static bool is_safe(int operation) {
    switch (operation) {
        case LOAD_ATTR: case BINARY_SUBSCR: case UNPACK_SEQUENCE: case UNPACK_EX: case BINARY_SLICE: case STORE_ATTR: case STORE_SUBSCR:
        case STORE_SLICE: case STORE_NAME: case STORE_GLOBAL: case STORE_DEREF: case LOAD_LOCALS: case LOAD_SUPER_ATTR:
        case LOAD_FROM_DICT_OR_DEREF: case LOAD_FROM_DICT_OR_GLOBALS: case CONVERT_VALUE: case MATCH_MAPPING: case MATCH_SEQUENCE:
        case MATCH_KEYS: case MATCH_CLASS: case CHECK_EG_MATCH: case RAISE_VARARGS:
            return true;
        default:
            return false;
    }
}

/* Whether a call has been found to call one of the program's functions, which has events, or one of
 * the interpreter's own that neither waits nor ends the program. */
static bool is_safe_call(const Facts *facts, int unit, int now) {
    switch (now) {
        case CALL_PY_EXACT_ARGS: case CALL_PY_GENERAL: case CALL_BOUND_METHOD_EXACT_ARGS: case CALL_BOUND_METHOD_GENERAL:
        case CALL_ALLOC_AND_ENTER_INIT:
            return facts->marks != NULL && facts->marks[unit] & MARK_CALLS;
        case CALL_LEN: case CALL_ISINSTANCE: case CALL_TYPE_1: case CALL_LIST_APPEND:
            return true;
        default:
            return false;
    }
}

/* Return the unit of the instruction after one. */
static int unit_after(const Facts *facts, int unit) {
    do {
        unit++;
    } while (unit < facts->units && facts->operations[unit] == CACHE);
    return unit;
}

/* Whether what a call returns is raised at once, if with a cause that is at hand: making an exception does not wait, and its being raised is an event. */
static bool is_raised(const Facts *facts, int unit) {
    int after = unit_after(facts, unit);
    int operation = after < facts->units ? facts->operations[after] : CACHE;
    if (operation == LOAD_FAST || operation == LOAD_CONST || operation == LOAD_NAME || operation == LOAD_GLOBAL) {
        after = unit_after(facts, after);
    }
    return after < facts->units && facts->operations[after] == RAISE_VARARGS;
}

/* Note the variables that an instruction stores to. */
void judging_stores(Node *node, int operation, int argument) {
    switch (operation) {
        case STORE_FAST: case STORE_DEREF: case DELETE_FAST: case DELETE_DEREF: case LOAD_FAST_AND_CLEAR:
            stores_add(node->stores, argument);
            break;
        case STORE_FAST_STORE_FAST:
            stores_add(node->stores, argument & 15);
            stores_add(node->stores, argument >> 4);
            break;
        case STORE_FAST_LOAD_FAST:
            stores_add(node->stores, argument >> 4);
            break;
        default:
            break;
    }
}

/* An operator that works in place leaves objects alone when its result, stored to a variable, is none. */
static void judge_in_place(const Facts *facts, Node *node, PyCodeObject *code, int unit) {
    enum { AFTER = 2 }; /* units of a BINARY_OP with its cache */
    int slot = -1;
    if (unit + AFTER < facts->units) {
        const uint8_t argument = _PyCode_CODE(code)[unit + AFTER].op.arg;
        int operation = facts->operations[unit + AFTER];
        slot = operation == STORE_FAST ? argument : operation == STORE_FAST_LOAD_FAST ? argument >> 4 : -1;
    }
    node->calm &= slot >= 0 && node->condition < 0;
    node->condition = slot;
}

/* Take an instruction of a node into account. */
void judging_add(const Facts *facts, Node *node, PyCodeObject *code, int unit, int argument) {
    int operation = facts->operations[unit];
    int now = _PyCode_CODE(code)[unit].op.code;
    bool calm = judging_is_calm(operation, now);
    node->calm &= calm;
    bool calls = operation == CALL || operation == CALL_KW;
    node->safe &= calm || is_safe(operation) || (calls && (is_safe_call(facts, unit, now) || is_raised(facts, unit)));
    node->starts |= iterating_may_wait(facts, code, unit);
    node->safe &= !node->starts;
    node->fetches |= operation == FOR_ITER || operation == UNPACK_SEQUENCE || operation == BINARY_SUBSCR || operation == CONTAINS_OP;
    judging_stores(node, operation, argument);
    if (operation == BINARY_OP && argument >= NB_INPLACE_ADD) {
        judge_in_place(facts, node, code, unit);
    }
}
