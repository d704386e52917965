/* Loops in the bytecode, and where to count how often a body is entered.
 *
 * Facts about CPython 3.13 that this rests on: every `for` is a FOR_ITER that
 * falls through into the body and to which JUMP_BACKWARD returns; a `while`
 * tests at its top, runs its body, tests again at the bottom and jumps back to
 * the body, while `continue` jumps to the top test; an inlined comprehension
 * builds its list, set or dict just before its FOR_ITER; the first instruction
 * of a line that differs from the one before it has a LINE event each time. */
#include "recorder.h"

#include <opcode_ids.h>

/* An instruction. It starts, for jumps and for LINE events, at the first
 * EXTENDED_ARG before it. */
typedef struct Instruction {
    int unit, start, line;
    uint32_t argument;
    int last_jump; /* index of the last backward jump that arrives here, -1 for none */
    int loop;      /* of a `while` with its body here: its place in Listing.loops, -1 for none */
    uint8_t operation;
} Instruction;

/* A loop: the line of its header, and the first instruction of its body. With
 * body_line 0 the body is on the header's line: jumps that arrive at the unit
 * are counted, or, when at_top is set, its LINE events and jumps from its own line, which bring none. */
typedef struct Loop {
    int line, body_line, unit;
    bool at_top;
    int body; /* index of the body's first instruction, of a `while` with a test at its bottom */
} Loop;

typedef struct Jump {
    int from, target;
} Jump;

typedef struct Listing {
    Instruction *list;
    Jump *jumps;
    Loop *loops;
    int count, jump_count, loop_count;
} Listing;

static bool is_store(int op) {
    return op == STORE_ATTR || op == STORE_DEREF || op == STORE_FAST || op == STORE_FAST_LOAD_FAST ||
           op == STORE_FAST_STORE_FAST || op == STORE_GLOBAL || op == STORE_NAME || op == STORE_SLICE || op == STORE_SUBSCR;
}

static bool is_test(int op) {
    return op == POP_JUMP_IF_FALSE || op == POP_JUMP_IF_TRUE || op == POP_JUMP_IF_NONE || op == POP_JUMP_IF_NOT_NONE;
}

/* Return the index of the instruction that starts at a unit, -1 when there is none. */
static int listing_at(const Listing *listing, int64_t unit) {
    int low = 0, high = listing->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (listing->list[middle].start < unit) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < listing->count && listing->list[low].start == unit ? low : -1;
}

static void listing_free(Listing *listing) {
    PyMem_RawFree(listing->list);
    PyMem_RawFree(listing->jumps);
    PyMem_RawFree(listing->loops);
}

/* List the instructions, extended arguments joined and caches left out, and the backward jumps. */
static bool listing_make(Listing *listing, const Facts *facts, const uint8_t *code) {
    listing->list = PyMem_RawCalloc((size_t)facts->units + 1, sizeof(Instruction));
    if (listing->list == NULL) {
        return false;
    }
    uint32_t extended = 0;
    int start = -1, jumps = 0;
    for (int unit = 0; unit < facts->units; unit++) {
        uint8_t op = code[2 * unit];
        if (op == CACHE) {
            continue;
        }
        start = start < 0 ? unit : start;
        uint32_t argument = code[2 * unit + 1] | extended << 8;
        extended = op == EXTENDED_ARG ? argument : 0;
        if (op != EXTENDED_ARG) {
            listing->list[listing->count++] = (Instruction){unit, start, facts->lines[unit], argument, -1, -1, op};
            jumps += op == JUMP_BACKWARD;
            start = -1;
        }
    }
    listing->jumps = PyMem_RawCalloc((size_t)jumps + 1, sizeof(Jump));
    listing->loops = PyMem_RawCalloc((size_t)jumps + 1, sizeof(Loop));
    if (listing->jumps == NULL || listing->loops == NULL) {
        return false;
    }
    for (int index = 0; index < listing->count; index++) {
        const Instruction *at = &listing->list[index];
        int target = at->operation == JUMP_BACKWARD ? listing_at(listing, (int64_t)at->unit + 2 - at->argument) : -1;
        if (target >= 0) {
            listing->jumps[listing->jump_count++] = (Jump){index, target};
            listing->list[target].last_jump = index;
        }
    }
    return true;
}

/* Whether the FOR_ITER or GET_ANEXT at an index is the first one of an inlined comprehension. */
static bool is_comprehension(const Listing *listing, int index) {
    const Instruction *list = listing->list;
    if (index < 1) {
        return false;
    }
    int before = index - 1 - (list[index - 1].operation == GET_ITER);
    return before > 0 && list[before].operation == SWAP &&
           (list[before - 1].operation == BUILD_LIST || list[before - 1].operation == BUILD_SET ||
            list[before - 1].operation == BUILD_MAP);
}

/* Whether a backward jump is the one with which a `while` goes from its last
 * line to its body: it has the header's line. On the line of a body of one line,
 * only the jump after a test is one. */
static bool is_bottom(const Listing *listing, Jump jump) {
    int line = listing->list[jump.from].line, body = listing->list[jump.target].line;
    if (line == body) {
        return jump.from > 0 && is_test(listing->list[jump.from - 1].operation);
    }
    return 0 < line && line < body;
}

/* Describe the `for` or `async for` whose FOR_ITER or GET_ANEXT is at an index. */
static Loop for_loop(const Listing *listing, int index) {
    const Instruction *list = listing->list;
    int after = index + 1;
    if (after >= listing->count) {
        return (Loop){0};
    }
    int one = list[index].line, other = list[after].line;
    int line = one == 0 ? other : other == 0 ? one : Py_MIN(one, other);
    bool asynchronous = list[index].operation == GET_ANEXT;
    int end = list[index].last_jump >= 0 ? list[index].last_jump : listing->count - 1;
    for (int body = after; body <= end; body++) {
        bool stored = is_store(list[body - 1].operation);
        if (list[body].line == one || list[body].line == other || (asynchronous && !stored)) {
            continue;
        }
        /* A body that starts with a `while` is also come to by the `continue` of that. */
        if (stored && list[body].last_jump < 0) {
            return (Loop){line, list[body].line, list[body].start, false, body};
        }
        break;
    }
    /* An `async for` reaches its body by no jump; its passes are seen as they come back. */
    return (Loop){line, 0, list[asynchronous ? index : after].start, false, after};
}

/* Describe the `while` whose bottom test jumps to its body: the lines before the body's are the test's. */
static Loop while_loop(const Listing *listing, Jump jump) {
    int body_line = listing->list[jump.target].line, line = body_line;
    for (int index = jump.target; index <= jump.from; index++) {
        int here = listing->list[index].line;
        line = here > 0 ? Py_MIN(line, here) : line;
    }
    return (Loop){line, line == body_line ? 0 : body_line, listing->list[jump.target].start, false, jump.target};
}

/* Of a test that leads out of a loop, past its last jump back or back to a loop around it, return
 * the index of the instruction with which the loop goes on; -1 of any other instruction. */
static int goes_on_at(const Listing *listing, int index, int top, int end) {
    const Instruction *list = listing->list, *next = &list[index + 1];
    if (!is_test(list[index].operation)) {
        return -1;
    }
    int64_t target = (int64_t)list[index].unit + 2 + list[index].argument;
    if (target > list[end].unit) {
        return index + 1;
    }
    bool back = next->operation == JUMP_BACKWARD && (int64_t)next->unit + 2 - next->argument < list[top].start;
    return back ? listing_at(listing, target) : -1;
}

/* Whether an instruction ends a statement; a store after a copy is of a `:=` in the midst of one. */
static bool ends_statement(const Listing *listing, int index) {
    const Instruction *at = &listing->list[index];
    switch (at->operation) {
        case POP_TOP: case JUMP_FORWARD: case JUMP_BACKWARD: case RETURN_VALUE: case RETURN_CONST: case RAISE_VARARGS:
        case DELETE_FAST: case DELETE_NAME: case DELETE_GLOBAL: case DELETE_ATTR: case DELETE_SUBSCR: case DELETE_DEREF:
            return true;
        default:
            return is_store(at->operation) && !(index > 0 && at[-1].operation == COPY);
    }
}

/* Find the last test of a `while` whose test is at its top, and the body after it; false when it has none. */
static bool find_body(const Listing *listing, int top, int end, int *test, int *body) {
    *test = -1;
    for (int index = top; index <= end && !ends_statement(listing, index);) {
        int on = goes_on_at(listing, index, top, end);
        if (on > index) {
            *test = index;
            *body = on;
        }
        index = on > index ? on : index + 1;
    }
    return *test >= 0;
}

/* Describe a `while` of which only the top is jumped to: every way through its
 * body ends in `continue`, `break` or `return`, and the top is its test, or the
 * body of a `while True`. */
static Loop while_without_bottom(const Listing *listing, int top) {
    const Instruction *list = listing->list;
    int line = list[top].line, previous = top - 1, end = list[top].last_jump;
    if (previous >= 0 && list[previous].operation == NOP && list[previous].line != line) {
        return (Loop){list[previous].line, line, list[top].start, false, top};
    }
    if (list[top].operation == NOP && top < end && list[top + 1].line != line) {
        return (Loop){line, list[top + 1].line, list[top + 1].start, false, top + 1};
    }
    int test, body;
    if (!find_body(listing, top, end, &test, &body)) {
        return (Loop){line, 0, list[top].start, true, top};
    }
    for (int index = top; index <= test; index++) {
        line = list[index].line > 0 ? Py_MIN(line, list[index].line) : line;
    }
    bool apart = list[body].line > 0 && list[body].line != list[test].line;
    return (Loop){line, apart ? list[body].line : 0, list[body].start, false, body};
}

/* Keep a `while`; one per body. */
static void keep_loop(Listing *listing, int target, Loop loop) {
    Instruction *at = &listing->list[target];
    if (at->loop < 0) {
        at->loop = listing->loop_count++;
    }
    listing->loops[at->loop] = loop;
}

/* Find the `while` loops. */
static void find_whiles(Listing *listing) {
    for (int i = 0; i < listing->jump_count; i++) {
        Jump jump = listing->jumps[i];
        int operation = listing->list[jump.target].operation;
        if (operation != FOR_ITER && operation != GET_ANEXT && is_bottom(listing, jump)) {
            keep_loop(listing, jump.target, while_loop(listing, jump));
        }
    }
    int with_bottom = listing->loop_count;
    for (int i = 0; i < listing->jump_count; i++) {
        int target = listing->jumps[i].target;
        const Instruction *at = &listing->list[target];
        bool is_continue = false; /* a jump to the top test, before the body */
        for (int k = 0; k < with_bottom; k++) {
            is_continue |= listing->loops[k].line == at->line && target < listing->loops[k].body;
        }
        if (at->operation != FOR_ITER && at->operation != GET_ANEXT && at->loop < 0 && !is_continue) {
            keep_loop(listing, target, while_without_bottom(listing, target));
        }
    }
}

/* Whether a line's instructions are together, so that its LINE event is its only entrance. */
static bool is_one_run(const Facts *facts, int line) {
    int runs = 0, previous = -1;
    for (int unit = 0; unit < facts->units; unit++) {
        runs += facts->lines[unit] == line && previous != line;
        previous = facts->lines[unit];
    }
    return runs == 1;
}

/* The counter of a line, without its mark; 0 when it has none. */
static uint32_t line_counter(const Facts *facts, int line) {
    if (line < facts->low_line || line > facts->high_line || facts->counters == NULL) {
        return 0;
    }
    return facts->counters[line - facts->low_line] & ~PROBED;
}

/* Add a probe; false when there is no room. */
static bool probe_add(Facts *facts, Probe probe) {
    Probe *more = PyMem_RawRealloc(facts->probe, ((size_t)facts->probes + 1) * sizeof(Probe));
    if (more == NULL || probe.counter == 0) {
        facts->probe = more != NULL ? more : facts->probe;
        return false;
    }
    facts->probe = more;
    facts->probe[facts->probes++] = probe;
    facts->has_arrivals |= probe.arrival;
    return true;
}

/* Decide how the entries of a loop's body are counted, and write that down. */
static bool loop_define(Recorder *r, Facts *facts, Loop loop) {
    if (loop.line <= 0) {
        return true;
    }
    Text text = {0};
    text_add(&text, "[\"loop\",%u,%d,[", facts->number, loop.line);
    uint32_t body = line_counter(facts, loop.body_line);
    bool room = true;
    if (loop.body_line != 0 && body != 0 && is_one_run(facts, loop.body_line)) {
        text_add(&text, "%u]]", body);
    } else {
        uint32_t counter = memory_counters(r, 1);
        int event_line = loop.at_top ? loop.line : loop.body_line;
        if (event_line == 0 || loop.at_top) {
            room = probe_add(facts, (Probe){loop.unit, counter, true, loop.at_top ? loop.line : 0});
        }
        if (event_line != 0) {
            room = room && probe_add(facts, (Probe){loop.unit, counter, false, 0});
            if (line_counter(facts, event_line) != 0) {
                facts->counters[event_line - facts->low_line] |= PROBED;
            }
        }
        text_add(&text, "%u]]", counter);
    }
    if (room && !text.failed) {
        memory_define(r, text.data, text.size);
    }
    text_free(&text);
    return room;
}

/* Whether a function is a comprehension or generator expression of its own. */
static bool is_expression(PyCodeObject *code) {
    static const char *const names[] = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (PyUnicode_EqualToUTF8(code->co_name, names[i])) {
            return true;
        }
    }
    return false;
}

/* Define the `for` loops, comprehensions left out. */
static bool define_fors(Recorder *r, Facts *facts, const Listing *listing) {
    int inside = -1; /* index of the end of the comprehension that we are in */
    for (int index = 0; index < listing->count; index++) {
        const Instruction *at = &listing->list[index];
        if (index < inside || (at->operation != FOR_ITER && (at->operation != GET_ANEXT || at->last_jump < 0))) {
            continue;
        }
        if (is_comprehension(listing, index)) {
            inside = at->last_jump >= 0 ? at->last_jump : index;
        } else if (!loop_define(r, facts, for_loop(listing, index))) {
            return false;
        }
    }
    return true;
}

/* Find and define the loops of a function whose lines are counted. */
void loops_define(Recorder *r, Facts *facts, PyCodeObject *code) {
    if (memchr(facts->operations, JUMP_BACKWARD, (size_t)facts->units) == NULL || is_expression(code)) {
        return;
    }
    PyObject *bytes = PyCode_GetCode(code);
    Listing listing = {0};
    if (bytes != NULL && listing_make(&listing, facts, (const uint8_t *)PyBytes_AS_STRING(bytes))) {
        find_whiles(&listing);
        bool room = define_fors(r, facts, &listing);
        for (int i = 0; room && i < listing.loop_count; i++) {
            room = loop_define(r, facts, listing.loops[i]);
        }
    }
    PyErr_Clear();
    Py_XDECREF(bytes);
    listing_free(&listing);
}
