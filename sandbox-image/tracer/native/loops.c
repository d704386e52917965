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

typedef struct Instruction {
    int unit, line;
    uint32_t argument;
    uint8_t operation;
    bool target; /* a JUMP_BACKWARD arrives here */
} Instruction;

typedef struct Listing {
    Instruction *list;
    int count;
} Listing;

/* A loop: the line of its header, and the first instruction of its body. With
 * body_line 0 the body is on the header's line: jumps that arrive at the unit
 * are counted, and LINE events of the header too when by_line is set. */
typedef struct Loop {
    int line, body_line, unit;
    bool by_line;
} Loop;

static bool is_store(int op) {
    return op == STORE_ATTR || op == STORE_DEREF || op == STORE_FAST || op == STORE_FAST_LOAD_FAST ||
           op == STORE_FAST_STORE_FAST || op == STORE_GLOBAL || op == STORE_NAME || op == STORE_SLICE || op == STORE_SUBSCR;
}

static bool is_test(int op) {
    return op == POP_JUMP_IF_FALSE || op == POP_JUMP_IF_TRUE || op == POP_JUMP_IF_NONE || op == POP_JUMP_IF_NOT_NONE;
}

/* Whether an instruction ends a statement, so that it is no part of a test. */
static bool is_end(int op) {
    return is_store(op) || op == POP_TOP || op == RESUME || op == END_FOR || op == JUMP_FORWARD || op == NOP ||
           op == JUMP_BACKWARD;
}

/* List the instructions: extended arguments joined, caches left out. */
static bool listing_make(Listing *listing, Facts *facts, const uint8_t *code) {
    listing->list = PyMem_RawCalloc((size_t)facts->units + 1, sizeof(Instruction));
    listing->count = 0;
    if (listing->list == NULL) {
        return false;
    }
    uint32_t extended = 0;
    for (int unit = 0; unit < facts->units; unit++) {
        uint8_t op = code[2 * unit];
        if (op == CACHE) {
            continue;
        }
        uint32_t argument = code[2 * unit + 1] | extended << 8;
        extended = op == EXTENDED_ARG ? argument : 0;
        if (op != EXTENDED_ARG) {
            listing->list[listing->count++] = (Instruction){unit, facts->lines[unit], argument, op, false};
        }
    }
    return true;
}

/* Return the index of the instruction at a unit, -1 when none starts there. */
static int listing_at(const Listing *listing, int64_t unit) {
    int low = 0, high = listing->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (listing->list[middle].unit < unit) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < listing->count && listing->list[low].unit == unit ? low : -1;
}

/* Whether the FOR_ITER at an index is the first one of an inlined comprehension. */
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
    for (int body = after; body < listing->count; body++) {
        bool stored = is_store(list[body - 1].operation);
        if (list[body].line == one || list[body].line == other || (asynchronous && !stored)) {
            continue;
        }
        if (stored) {
            return (Loop){line, list[body].line, list[body].unit, false};
        }
        break;
    }
    return (Loop){line, 0, list[after].unit, false};
}

/* Describe a `while` of which only the top is jumped to: a one-line `while
 * True`, or one whose body never comes to its end; then the top is its test. */
static Loop while_without_bottom(const Listing *listing, int top) {
    const Instruction *list = listing->list;
    int line = list[top].line;
    for (int index = top + 1; index < listing->count; index++) {
        if (list[index].line == line) {
            continue;
        }
        if (is_test(list[index - 1].operation)) {
            return (Loop){line, list[index].line, list[index].unit, false};
        }
        break;
    }
    return (Loop){line, 0, list[top].unit, true};
}

/* Describe the `while` with the backward jump to an index. The test at its top
 * is no loop of its own. */
static Loop while_loop(Listing *listing, int body) {
    Instruction *list = listing->list;
    int previous = body - 1;
    if (previous < 0) {
        return while_without_bottom(listing, body);
    }
    if (list[previous].operation == NOP && list[previous].line != list[body].line) {
        return (Loop){list[previous].line, list[body].line, list[body].unit, false};
    }
    if (!is_test(list[previous].operation)) {
        return while_without_bottom(listing, body);
    }
    int line = list[previous].line, test = previous;
    while (test > 0 && !is_end(list[test - 1].operation)) {
        test--;
        line = list[test].line != 0 ? Py_MIN(line, list[test].line) : line;
    }
    for (int index = test; index < body; index++) {
        list[index].target = false;
    }
    int body_line = list[body].line == list[previous].line ? 0 : list[body].line;
    return (Loop){line, body_line, list[body].unit, false};
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

/* Add a counter at a unit; 0 when there is no room. */
static uint32_t probe_add(Recorder *r, Facts *facts, int unit, bool arrival) {
    Probe *more = PyMem_RawRealloc(facts->probe, ((size_t)facts->probes + 1) * sizeof(Probe));
    if (more == NULL) {
        return 0;
    }
    facts->probe = more;
    uint32_t counter = memory_counters(r, 1);
    if (counter != 0) {
        facts->probe[facts->probes++] = (Probe){unit, counter, arrival};
        facts->has_arrivals |= arrival;
    }
    return counter;
}

/* Decide how the entries of a loop's body are counted, and write that down. */
static bool loop_define(Recorder *r, Facts *facts, Loop loop) {
    if (loop.line <= 0) {
        return true;
    }
    Text text = {0};
    text_add(&text, "[\"loop\",%u,%d,[", facts->number, loop.line);
    uint32_t body = line_counter(facts, loop.body_line), header = line_counter(facts, loop.line);
    bool room = true;
    if (loop.body_line != 0 && body != 0 && is_one_run(facts, loop.body_line)) {
        text_add(&text, "%u]]", body);
    } else {
        uint32_t counter = probe_add(r, facts, loop.unit, loop.body_line == 0);
        room = counter != 0;
        text_add(&text, "%u", counter);
        if (loop.body_line != 0 && body != 0) {
            facts->counters[loop.body_line - facts->low_line] |= PROBED;
        } else if (loop.by_line && header != 0) {
            text_add(&text, ",%u", header);
        }
        text_add(&text, "]]");
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

/* Mark where backward jumps arrive and define the `for` loops. */
static bool loops_first(Recorder *r, Facts *facts, Listing *listing) {
    int inside = 0; /* end of the comprehension that we are in */
    for (int index = 0; index < listing->count; index++) {
        const Instruction *at = &listing->list[index];
        if (at->operation == FOR_ITER && at->unit >= inside) {
            if (is_comprehension(listing, index)) {
                inside = at->unit + 2 + (int)Py_MIN(at->argument, (uint32_t)facts->units);
            } else if (!loop_define(r, facts, for_loop(listing, index))) {
                return false;
            }
        } else if (at->operation == JUMP_BACKWARD) {
            int target = listing_at(listing, (int64_t)at->unit + 2 - at->argument);
            if (target >= 0) {
                listing->list[target].target = true;
            }
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
    if (bytes == NULL || !listing_make(&listing, facts, (const uint8_t *)PyBytes_AS_STRING(bytes))) {
        PyErr_Clear();
        Py_XDECREF(bytes);
        return;
    }
    Py_DECREF(bytes);
    bool room = loops_first(r, facts, &listing);
    for (int index = listing.count - 1; room && index >= 0; index--) {
        const Instruction *at = &listing.list[index];
        if (!at->target || at->operation == FOR_ITER) {
            continue;
        }
        room = loop_define(r, facts, at->operation == GET_ANEXT ? for_loop(&listing, index) : while_loop(&listing, index));
    }
    PyMem_RawFree(listing.list);
}
