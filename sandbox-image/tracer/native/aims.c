/* Lines that change one list or instance, held by a variable: `v[0] -= x`, `self.x = y`.
 *
 * After one only that object need be looked at. What such a line stores to is
 * found by following the places of its values on the stack. */
#include "flow.h"

#include <opcode.h>

enum { MOST_STACK = 32, UNKNOWN = -1 };

typedef struct Stack {
    int16_t slot[MOST_STACK]; /* of the variable that a value was loaded from, or UNKNOWN */
    int depth;
    bool failed;
} Stack;

static void push(Stack *stack, int slot) {
    if (stack->depth == MOST_STACK) {
        stack->failed = true;
        return;
    }
    stack->slot[stack->depth++] = (int16_t)slot;
}

static int pop(Stack *stack) {
    if (stack->depth == 0) {
        stack->failed = true;
        return UNKNOWN;
    }
    return stack->slot[--stack->depth];
}

static void replace(Stack *stack, int taken, int made) {
    for (int i = 0; i < taken; i++) {
        pop(stack);
    }
    for (int i = 0; i < made; i++) {
        push(stack, UNKNOWN);
    }
}

/* A variable gets another value: what was loaded from it before is no longer its. */
static void store(Stack *stack, int slot) {
    pop(stack);
    for (int i = 0; i < stack->depth; i++) {
        if (stack->slot[i] == slot) {
            stack->slot[i] = UNKNOWN;
        }
    }
}

static void copy(Stack *stack, int place) {
    stack->failed |= place > stack->depth;
    push(stack, stack->failed ? UNKNOWN : stack->slot[stack->depth - place]);
}

static void swap(Stack *stack, int place) {
    stack->failed |= place > stack->depth;
    if (!stack->failed) {
        int16_t top = stack->slot[stack->depth - 1];
        stack->slot[stack->depth - 1] = stack->slot[stack->depth - place];
        stack->slot[stack->depth - place] = top;
    }
}

/* Whether an operator that works in place has been working on numbers or strings. */
static bool is_arithmetic(int now) {
    return now == BINARY_OP_ADD_FLOAT || now == BINARY_OP_ADD_INT || now == BINARY_OP_ADD_UNICODE || now == BINARY_OP_MULTIPLY_FLOAT ||
           now == BINARY_OP_MULTIPLY_INT || now == BINARY_OP_SUBTRACT_FLOAT || now == BINARY_OP_SUBTRACT_INT;
}

/* Follow an instruction that loads or stores a variable; false when it is another. */
static bool follow_variable(Stack *stack, int operation, int argument) {
    switch (operation) {
        case LOAD_FAST: case LOAD_FAST_CHECK: push(stack, argument); return true;
        case LOAD_FAST_LOAD_FAST: push(stack, argument >> 4); push(stack, argument & 15); return true;
        case STORE_FAST: store(stack, argument); return true;
        case STORE_FAST_STORE_FAST: store(stack, argument >> 4); store(stack, argument & 15); return true;
        case STORE_FAST_LOAD_FAST: store(stack, argument >> 4); push(stack, argument & 15); return true;
        case COPY: copy(stack, argument); return true;
        case SWAP: swap(stack, argument); return true;
        default: return false;
    }
}

/* Follow an instruction that changes nothing, or stores to an item or attribute. */
static void follow_other(Stack *stack, Node *node, int operation, int argument, int now) {
    switch (operation) {
        case EXTENDED_ARG: case NOP: break;
        case LOAD_CONST: case PUSH_NULL: case LOAD_DEREF: replace(stack, 0, 1); break;
        case LOAD_GLOBAL: replace(stack, 0, 1 + (argument & 1)); break;
        case POP_TOP: replace(stack, 1, 0); break;
        case UNARY_NOT: case UNARY_NEGATIVE: case UNARY_INVERT: case TO_BOOL: case FORMAT_SIMPLE: replace(stack, 1, 1); break;
        case BINARY_OP: stack->failed |= argument >= NB_INPLACE_ADD && !is_arithmetic(now); replace(stack, 2, 1); break;
        case COMPARE_OP: case CONTAINS_OP: case IS_OP: case BINARY_SUBSCR: replace(stack, 2, 1); break;
        case LOAD_ATTR: replace(stack, 1, 1 + (argument & 1)); break;
        case BUILD_TUPLE: case BUILD_LIST: case BUILD_STRING: case BUILD_SLICE: replace(stack, argument, 1); break;
        case STORE_ATTR: stores_add(node->attributes, pop(stack)); pop(stack); break;
        case STORE_SUBSCR: pop(stack); stores_add(node->items, pop(stack)); pop(stack); break;
        default: stack->failed = true; break;
    }
}

/* Find out what a line changes that is not calm, if it goes straight on to its last instruction. */
static bool find_aims(const Facts *facts, Node *node, int number, PyCodeObject *code) {
    const Flow *flow = facts->flow;
    Stack stack = {.depth = 0};
    int argument = 0;
    for (int unit = node->unit; unit < facts->units && flow->owner[unit][0] == number && flow->owner[unit][1] < 0 && !stack.failed; unit++) {
        int operation = facts->operations[unit], now = _PyCode_CODE(code)[unit].op.code;
        if (operation == CACHE) {
            continue;
        }
        argument = argument << 8 | _PyCode_CODE(code)[unit].op.arg;
        if (operation == JUMP_BACKWARD || operation == JUMP_FORWARD || operation == RETURN_VALUE || operation == RETURN_CONST) {
            return true;
        }
        bool stores = operation == STORE_ATTR || operation == STORE_SUBSCR;
        if (!stores && operation != BINARY_OP && !judging_is_calm(operation, now)) {
            return false;
        }
        bool unknown = (operation == STORE_ATTR && stack.depth > 0 && stack.slot[stack.depth - 1] == UNKNOWN) ||
                       (operation == STORE_SUBSCR && stack.depth > 1 && stack.slot[stack.depth - 2] == UNKNOWN);
        if (unknown) {
            return false;
        }
        if (!follow_variable(&stack, operation, argument)) {
            follow_other(&stack, node, operation, argument, now);
        }
        argument = operation == EXTENDED_ARG ? argument : 0;
    }
    return !stack.failed;
}

/* Find the lines of a function that change what variables hold and no more. */
void aims_find(Facts *facts, PyCodeObject *code) {
    Flow *flow = facts->flow;
    for (int i = 1; i < flow->count; i++) {
        Node *node = &flow->nodes[i];
        node->aims = !node->calm && node->safe && find_aims(facts, node, i, code);
    }
}
