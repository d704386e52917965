/* Which lines are passed: their LINE events need not come, since the next event
 * of the function tells that they ran.
 *
 * From every line whose event comes there must be one way only to each place
 * where the next event can be. While values are recorded, what each line of the
 * way changed must show at the end of it too: its lines only change variables,
 * and no variable twice. Lines that can wait or end the program are never passed. */
#include "flow.h"

#include <opcode.h>

enum { MOST_WORK = 4 << 20 };

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
bool passing_is_calm(int operation, int now) {
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
static void note_stores(Node *node, int operation, int argument) {
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

/* Whether an instruction starts to iterate over what a variable holds. */
bool passing_iterates(const Facts *facts, PyCodeObject *code, int unit, int slot) {
    return unit > 0 && facts->operations[unit] == GET_ITER && facts->operations[unit - 1] == LOAD_FAST &&
           _PyCode_CODE(code)[unit - 1].op.arg == slot && !(unit > 1 && facts->operations[unit - 2] == EXTENDED_ARG);
}

/* Return the arguments that a function iterates over and never changes. */
uint64_t passing_iterated(const Facts *facts, PyCodeObject *code) {
    Node all = {.unit = 0};
    uint64_t iterated = 0;
    int arguments = Py_MIN(code->co_argcount + code->co_kwonlyargcount, 64);
    for (int unit = 0; unit < facts->units; unit++) {
        bool extended = unit > 0 && facts->operations[unit - 1] == EXTENDED_ARG; /* then it is not about one of the first */
        if (!extended) {
            note_stores(&all, facts->operations[unit], _PyCode_CODE(code)[unit].op.arg);
        }
        for (int slot = 0; facts->operations[unit] == GET_ITER && slot < arguments; slot++) {
            iterated |= (uint64_t)passing_iterates(facts, code, unit, slot) << slot;
        }
    }
    return iterated & ~all.stores[0] & ~facts->cells[0];
}

/* Whether an instruction starts to iterate over what may wait for each item, as a file does. The event of its line comes, so that
 * all before it is recorded. */
static bool may_start_to_wait(const Facts *facts, PyCodeObject *code, int unit) {
    if (facts->operations[unit] != GET_ITER || unit == 0) {
        return false;
    }
    int before = facts->operations[unit - 1];
    for (uint64_t left = facts->iterated; left != 0; left &= left - 1) {
        if (passing_iterates(facts, code, unit, __builtin_ctzll(left))) {
            return false;
        }
    }
    return before != LOAD_CONST && before != BUILD_LIST && before != BUILD_TUPLE && before != BUILD_SET && before != BUILD_MAP;
}

/* Take an instruction of a node into account. */
void passing_judge(const Facts *facts, Node *node, PyCodeObject *code, int unit, int argument) {
    int operation = facts->operations[unit];
    int now = _PyCode_CODE(code)[unit].op.code;
    bool calm = passing_is_calm(operation, now);
    node->calm &= calm;
    bool calls = operation == CALL || operation == CALL_KW;
    node->safe &= calm || is_safe(operation) || (calls && (is_safe_call(facts, unit, now) || is_raised(facts, unit)));
    node->starts |= may_start_to_wait(facts, code, unit);
    node->safe &= !node->starts;
    node->fetches |= operation == FOR_ITER || operation == UNPACK_SEQUENCE || operation == BINARY_SUBSCR || operation == CONTAINS_OP;
    note_stores(node, operation, argument);
    if (operation == BINARY_OP && argument >= NB_INPLACE_ADD) {
        judge_in_place(facts, node, code, unit);
    }
}

/* What checking a choice needs: for each node, how it was last come to. */
typedef struct Check {
    const Facts *facts;
    Flow *flow;
    bool prying;
    int32_t *come, *inside; /* from which loud node, plus one */
    int32_t *stack;
    uint64_t (*stores)[2];  /* on the way to it, its own included */
    bool *heavy;            /* whether something on that way was not calm */
    int32_t (*pairs)[2];    /* nodes that share instructions */
    int pair_count;
    int64_t work;
} Check;

/* Whether what a node stores would hide what the way to it changed. */
static bool hides(const Check *k, int before, const Node *node) {
    for (int i = 0; i < 2; i++) {
        uint64_t others = k->prying ? ~(uint64_t)0 : k->facts->objects[i];
        if (node->stores[i] & (k->stores[before][i] | (k->heavy[before] ? others : 0))) {
            return true;
        }
    }
    return false;
}

/* Note what the way to a node, its own part included, changes. */
static void carry(Check *k, int before, int at) {
    const Node *node = &k->flow->nodes[at];
    for (int i = 0; i < 2; i++) {
        k->stores[at][i] = node->stores[i] | (before >= 0 ? k->stores[before][i] : 0);
    }
    k->heavy[at] = !node->calm || node->noisy || (before >= 0 && k->heavy[before]);
}

/* Whether from a node whose event comes there is one way only to each next event. */
static bool is_clear(Check *k, int from) {
    Flow *flow = k->flow;
    int depth = 0, size = 1;
    carry(k, -1, from);
    k->inside[from] = from + 1;
    k->stack[depth++] = from;
    while (depth > 0) {
        int at = k->stack[--depth];
        const Node *node = &flow->nodes[at];
        for (int i = 0; i < node->count; i++) {
            int next = flow->edges[node->first + i];
            k->work++;
            if (k->come[next] == from + 1) {
                return false;
            }
            k->come[next] = from + 1;
            if (!flow->nodes[next].passed) {
                continue;
            }
            if (next == from || (flow->strict && hides(k, at, &flow->nodes[next]))) {
                return false;
            }
            carry(k, at, next);
            k->inside[next] = from + 1;
            k->stack[depth++] = next;
            size++;
        }
    }
    for (int i = 0; size > 1 && i < k->pair_count; i++) {
        k->work++;
        if (k->inside[k->pairs[i][0]] == from + 1 && k->inside[k->pairs[i][1]] == from + 1) {
            return false;
        }
    }
    return true;
}

static bool all_clear(Check *k) {
    Flow *flow = k->flow;
    memset(k->come, 0, (size_t)flow->count * sizeof *k->come);
    memset(k->inside, 0, (size_t)flow->count * sizeof *k->inside);
    for (int node = 0; node < flow->count; node++) {
        if ((!flow->nodes[node].passed || flow->nodes[node].silent) && !is_clear(k, node)) {
            return false;
        }
    }
    return true;
}

/* List the pairs of nodes that share instructions. */
static void list_pairs(Check *k) {
    const Flow *flow = k->flow;
    for (int unit = 0; k->pairs != NULL && unit < k->facts->units; unit++) {
        const int32_t *owner = flow->owner[unit];
        if (owner[0] >= 0 && owner[1] >= 0) {
            const int32_t *last = k->pair_count > 0 ? k->pairs[k->pair_count - 1] : NULL;
            if (last == NULL || last[0] != owner[0] || last[1] != owner[1]) {
                memcpy(k->pairs[k->pair_count++], owner, sizeof *k->pairs);
            }
        }
    }
}

/* Take what came up at a node's instructions into account, and that a variable that an operator works on has held an object. */
static void take_marks(const Facts *facts, Flow *flow) {
    for (int i = 0; i < flow->count; i++) {
        int slot = flow->nodes[i].condition;
        bool fetching = facts->unseen || (facts->odd && flow->nodes[i].fetches);
        flow->nodes[i].calm &= !fetching;
        flow->nodes[i].aims &= !fetching;
        flow->nodes[i].calm &= slot < 0 || (slot < 128 && !stores_have(facts->objects, slot));
    }
    for (int unit = 0; facts->marks != NULL && unit < facts->units; unit++) {
        for (int i = 0; facts->marks[unit] != 0 && i < 2; i++) {
            Node *node = flow->owner[unit][i] >= 0 ? &flow->nodes[flow->owner[unit][i]] : NULL;
            if (node != NULL) {
                node->noisy |= (facts->marks[unit] & MARK_NOISY) != 0;
                node->safe &= (facts->marks[unit] & MARK_UNSAFE) == 0;
                node->calm &= (facts->marks[unit] & MARK_UNSAFE) == 0;
                node->starts |= (facts->marks[unit] & MARK_WAITS) != 0;
                node->safe &= !node->starts;
            }
        }
    }
}

/* What passing a node saves: as many events as its line has hits. An instruction that has an event does without the
 * interpreter's fast ways, which for the head of a loop saves a quarter of an event more. */
static uint64_t worth_of(const Recorder *r, const Facts *facts, const Node *node) {
    if (node->line < facts->low_line || node->line > facts->high_line) {
        return 0;
    }
    uint64_t hits = r->counters[facts->counters[node->line - facts->low_line] & ~PROBED];
    return 4 * hits + (facts->operations[node->unit] == FOR_ITER ? hits + 1 : 0);
}

typedef struct Candidate {
    uint64_t worth;
    int node;
} Candidate;

static int by_worth(const void *a, const void *b) {
    const Candidate *one = a, *other = b;
    return one->worth != other->worth ? (one->worth < other->worth ? 1 : -1) : one->node - other->node;
}

/* How many loop bodies begin at a unit. */
static int entries_at(const Facts *facts, int unit) {
    int entries = 0;
    for (int i = 0; i < facts->probes; i++) {
        entries += facts->probe[i].unit == unit && !facts->probe[i].arrival;
    }
    return entries;
}

/* Choose, the ones that are worth most first. */
static void choose(Recorder *r, Check *k, Candidate *candidates) {
    Flow *flow = k->flow;
    int count = 0;
    for (int i = 1; i < flow->count; i++) {
        Node *node = &flow->nodes[i];
        if (!node->loud && !node->passed && entries_at(k->facts, node->unit) <= 1 && node->safe && (node->calm || !flow->strict)) {
            candidates[count++] = (Candidate){worth_of(r, k->facts, node), i};
        }
    }
    qsort(candidates, (size_t)count, sizeof *candidates, by_worth);
    for (int i = 0; i < count && k->work < MOST_WORK; i++) {
        Node *node = &flow->nodes[candidates[i].node];
        k->work += flow->count;
        node->passed = true;
        node->passed = all_clear(k);
        node->ever |= node->passed;
    }
}

/* Decide which lines of a function are passed. Those that are stay so, unless
 * something came up: then all is decided anew. */
void passing_decide(Recorder *r, Facts *facts) {
    Flow *flow = facts->flow;
    for (int i = 0; i < flow->count && (flow->stale || flow->broken); i++) {
        flow->nodes[i].passed = flow->nodes[i].silent;
    }
    flow->strict = r->with_values && r->recording; /* later no more: what was chosen holds then too */
    flow->stale = false;
    passing_forget(flow);
    if (flow->broken) {
        return;
    }
    take_marks(facts, flow);
    size_t count = (size_t)flow->count;
    Candidate *candidates = PyMem_RawMalloc(count * sizeof *candidates);
    Check k = {
        .facts = facts, .flow = flow, .prying = r->prying, .come = PyMem_RawMalloc(count * sizeof(int32_t)),
        .inside = PyMem_RawMalloc(count * sizeof(int32_t)), .stack = PyMem_RawMalloc((count + 1) * sizeof(int32_t)),
        .stores = PyMem_RawMalloc(count * sizeof *k.stores), .heavy = PyMem_RawMalloc(count * sizeof(bool)),
        .pairs = PyMem_RawMalloc(((size_t)flow->shared + 1) * sizeof *k.pairs),
    };
    if (candidates != NULL && k.come != NULL && k.inside != NULL && k.stack != NULL && k.stores != NULL && k.heavy != NULL && k.pairs != NULL) {
        list_pairs(&k);
        choose(r, &k, candidates);
    }
    void *scratch[] = {candidates, k.come, k.inside, k.stack, k.stores, k.heavy, k.pairs};
    for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++) {
        PyMem_RawFree(scratch[i]);
    }
}

/* Forget the ways that were found. */
void passing_forget(Flow *flow) {
    for (int i = 0; i < flow->count; i++) {
        flow->nodes[i].way = NULL;
        while (flow->nodes[i].paths != NULL) {
            Path *path = flow->nodes[i].paths;
            flow->nodes[i].paths = path->next;
            PyMem_RawFree(path->lines);
            PyMem_RawFree(path);
        }
    }
}

/* Search the way from one node to another through passed ones; the nodes before each go into back. */
static bool search(const Flow *flow, int from, int to, bool ever, int32_t *back, int32_t *stack) {
    int depth = 0;
    for (int i = 0; i < flow->count; i++) {
        back[i] = -1;
    }
    stack[depth++] = from;
    while (depth > 0) {
        int at = stack[--depth];
        const Node *node = &flow->nodes[at];
        for (int i = 0; i < node->count; i++) {
            int next = flow->edges[node->first + i];
            if (back[next] >= 0) {
                continue;
            }
            back[next] = at;
            if (next == to) {
                return true;
            }
            if (ever ? flow->nodes[next].ever : flow->nodes[next].passed) {
                stack[depth++] = next;
            }
        }
    }
    return false;
}

/* Return what is counted when a node is passed. */
PassedLine passing_line(const Facts *facts, int number) {
    const Node *node = &facts->flow->nodes[number];
    uint32_t counter = facts->counters[node->line - facts->low_line];
    PassedLine line = {node->line, counter & ~PROBED, 0};
    for (int i = 0; counter & PROBED && i < facts->probes; i++) {
        if (facts->probe[i].unit == node->unit && !facts->probe[i].arrival) {
            line.entry = facts->probe[i].counter;
        }
    }
    return line;
}

/* Find the way from one node to another; NULL when there is no memory. */
static const Path *find_way(const Facts *facts, int from, int to) {
    static const Path direct = {.count = 0};
    Flow *flow = facts->flow;
    const Node *start = &flow->nodes[from];
    for (int i = start->first; i < start->first + start->count; i++) {
        if (flow->edges[i] == to) {
            return &direct;
        }
    }
    for (const Path *path = flow->nodes[to].paths; path != NULL; path = path->next) {
        if (path->from == from) {
            return path;
        }
    }
    int32_t *back = PyMem_RawMalloc((size_t)flow->count * 2 * sizeof(int32_t));
    if (back == NULL) {
        return NULL;
    }
    /* A thread can be on a way that was taken back meanwhile. */
    bool found = search(flow, from, to, false, back, back + flow->count) || search(flow, from, to, true, back, back + flow->count);
    int count = found ? 0 : -1;
    for (int at = to; found && (at = back[at]) != from;) {
        count++;
    }
    size_t room = (size_t)Py_MAX(count, 0);
    Path *path = PyMem_RawMalloc(sizeof(Path) + room * sizeof(int32_t));
    PassedLine *lines = PyMem_RawMalloc((room + 1) * sizeof(PassedLine));
    if (path == NULL || lines == NULL) {
        PyMem_RawFree(path);
        PyMem_RawFree(lines);
        path = NULL;
    } else {
        *path = (Path){.next = flow->nodes[to].paths, .from = from, .count = count, .lines = lines};
        for (int at = to, i = count; i > 0;) {
            at = back[at];
            path->node[--i] = at;
        }
        for (int i = 0; i < count; i++) {
            if (!flow->nodes[path->node[i]].silent) {
                lines[path->line_count++] = passing_line(facts, path->node[i]);
            }
        }
        flow->nodes[to].paths = path;
    }
    PyMem_RawFree(back);
    return path;
}

/* Return the way from one node to another; NULL when there is no memory. */
const Path *passing_way(const Facts *facts, int from, int to) {
    Node *node = &facts->flow->nodes[to];
    if (node->way == NULL || node->way_from != from) {
        node->way = find_way(facts, from, to);
        node->way_from = from;
    }
    return node->way;
}
