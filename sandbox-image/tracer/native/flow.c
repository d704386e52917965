/* The flow between the lines of a function: where LINE events come from, and
 * which can follow which.
 *
 * A node is a place that has LINE events, or the function's start. The
 * instructions that run after its event and before the next are its own. What
 * they lead to is found as CPython 3.13 does: the first instruction of a line,
 * the target of a jump and that of a handler have an event when the instruction
 * before them, as it ran, has another line.
 *
 * An exception leads to a handler. Most handlers begin with instructions of no
 * line: they are a node without an event, and another is the function's end by
 * an exception. */
#include "flow.h"

#include <opcode.h>

enum { NO_NODE = -1, MANY = -2, MOST_SHARED = 32 };

typedef struct Code {
    PyCodeObject *code;
    const Facts *facts;
    Flow *flow;
    Instructions list;
    uint32_t *seen; /* by the search of this number */
    int32_t *stack;
    int room;       /* of nodes */
    int edge_room;
    int64_t work;
    bool failed;
} Code;

/* An entry of the table of exceptions: which instructions a handler is for. */
typedef struct Guarded {
    int first, size, handler;
} Guarded;

/* Read a number of the table of exceptions, six bits a byte, highest first. */
static int read_number(const uint8_t **at, const uint8_t *end) {
    int number = 0;
    unsigned byte = 64;
    for (int bytes = 0; byte & 64 && *at < end && bytes < 4; bytes++) {
        byte = *(*at)++;
        number = number << 6 | (int)(byte & 63);
    }
    return number;
}

static Guarded read_entry(const uint8_t **at, const uint8_t *end) {
    Guarded entry;
    entry.first = read_number(at, end);
    entry.size = read_number(at, end);
    entry.handler = read_number(at, end);
    read_number(at, end); /* how deep the stack is */
    return entry;
}

/* Make a node. */
static int node_add(Code *c, Node node) {
    Flow *flow = c->flow;
    if (flow->count == c->room) {
        int room = c->room * 2;
        Node *more = PyMem_RawRealloc(flow->nodes, (size_t)room * sizeof(Node));
        if (more == NULL) {
            c->failed = true;
            return 0;
        }
        flow->nodes = more;
        c->room = room;
    }
    node.safe = node.calm = true;
    node.condition = -1;
    flow->nodes[flow->count] = node;
    return flow->count++;
}

/* Return the node at a unit, making it when there is none. */
static int node_at(Code *c, int unit) {
    if (c->flow->node_at[unit] < 0) {
        int line = c->facts->lines[unit];
        bool silent = line == 0 && unit > c->list.first;
        c->flow->node_at[unit] = node_add(c, (Node){.unit = unit, .line = line, .silent = silent, .passed = silent, .ever = silent});
    }
    return c->flow->node_at[unit];
}

/* Add an edge from the last node that has some, once. */
static void edge_add(Code *c, int from, int to) {
    Flow *flow = c->flow;
    for (int i = flow->nodes[from].first; i < flow->edge_count; i++) {
        if (flow->edges[i] == to) {
            return;
        }
    }
    if (flow->edge_count == c->edge_room) {
        int room = c->edge_room * 2;
        int32_t *more = PyMem_RawRealloc(flow->edges, (size_t)room * sizeof(int32_t));
        if (more == NULL) {
            c->failed = true;
            return;
        }
        flow->edges = more;
        c->edge_room = room;
    }
    flow->edges[flow->edge_count++] = to;
}

/* A unit is a node's own, or two nodes' own. A node that shares one with more is loud. */
static void own(Flow *flow, int unit, int node) {
    int32_t *owner = flow->owner[unit];
    if (owner[0] == NO_NODE) {
        owner[0] = node;
    } else if (owner[1] == NO_NODE) {
        owner[1] = node;
    } else {
        for (int k = 0; k < 2; k++) {
            if (owner[k] >= 0) {
                flow->nodes[owner[k]].loud = true;
            }
            owner[k] = MANY;
        }
        if (node >= 0) {
            flow->nodes[node].loud = true;
        }
    }
}

/* Go from one instruction to another: to a node's event, or on within the node. */
static void go(Code *c, int node, int from, int to, int *depth) {
    const Facts *facts = c->facts;
    if (!instructions_at(&c->list, to)) {
        return;
    }
    if (c->list.marked[to] && (facts->lines[to] != facts->lines[from] || facts->operations[from] == RESUME)) {
        int other = node_at(c, to);
        if (node >= 0) {
            edge_add(c, node, other);
        } else {
            c->flow->nodes[other].loud = true; /* after an exception */
        }
    } else if (c->seen[to] != (uint32_t)node + 2) {
        c->seen[to] = (uint32_t)node + 2;
        c->stack[(*depth)++] = to;
    }
}

/* Whether an instruction can raise again what a handler was called for: that has no event of its own. */
static bool can_raise_again(const Code *c, int unit) {
    int operation = c->facts->operations[unit];
    return operation == RERAISE || operation == END_ASYNC_FOR || operation == CLEANUP_THROW ||
           (operation == RAISE_VARARGS && c->list.argument[unit] == 0);
}

/* Go on where an exception leads to that is raised again. */
static void raise_again(Code *c, int node, int unit, int *depth) {
    Flow *flow = c->flow;
    int landing = flow->landing[unit];
    if (node >= 0 && landing >= 0) {
        edge_add(c, node, landing);
    } else if (node >= 0) {
        flow->nodes[node].raises = true;
    } else if (landing >= 0 && landing != flow->exit && c->seen[flow->nodes[landing].unit] != 1) {
        c->seen[flow->nodes[landing].unit] = 1;
        c->stack[(*depth)++] = flow->nodes[landing].unit;
    }
}

/* Follow what runs after a node's event; with NO_NODE what runs in handlers without one. */
static void follow(Code *c, int node, int depth) {
    const Facts *facts = c->facts;
    while (depth > 0 && !c->failed) {
        int unit = c->stack[--depth], target, operation = facts->operations[unit];
        c->failed |= ++c->work > (int64_t)facts->units * MOST_SHARED;
        for (int i = unit; i < c->list.next[unit]; i++) {
            own(c->flow, i, node >= 0 ? node : MANY);
        }
        if (node >= 0) {
            judging_add(facts, &c->flow->nodes[node], c->code, unit, c->list.argument[unit]);
        }
        if (instructions_jump(&c->list, unit, &target)) {
            go(c, node, unit, target, &depth);
            if (operation == FOR_ITER) {
                go(c, node, unit, target + 2, &depth); /* past END_FOR and what takes the iterator off the stack */
            } else if (operation == SEND) {
                go(c, node, unit, target + 1, &depth);
            }
        }
        if (can_raise_again(c, unit)) {
            raise_again(c, node, unit, &depth);
        }
        if (!instructions_never_go_on(operation)) {
            go(c, node, unit, c->list.next[unit], &depth);
        }
    }
}

/* Find out where exceptions lead to. Handlers with a line of their own have an event or
 * none, as the line before them was: what runs before their first certain one is nobody's. */
static void find_landings(Code *c) {
    const Facts *facts = c->facts;
    Flow *flow = c->flow;
    const uint8_t *at = (const uint8_t *)PyBytes_AS_STRING(c->code->co_exceptiontable);
    const uint8_t *end = at + PyBytes_GET_SIZE(c->code->co_exceptiontable);
    flow->exit = node_add(c, (Node){.unit = -1, .silent = true, .passed = true, .ever = true});
    for (int unit = 0; unit < facts->units; unit++) {
        flow->landing[unit] = flow->exit;
    }
    while (at < end && !c->failed) {
        Guarded entry = read_entry(&at, end);
        int landing = NO_NODE;
        if (instructions_at(&c->list, entry.handler) && facts->operations[entry.handler] != END_ASYNC_FOR) {
            int node = node_at(c, entry.handler);
            bool silent = flow->nodes[node].silent;
            c->list.marked[entry.handler] |= !silent;
            flow->nodes[node].loud |= !silent;
            landing = silent ? node : NO_NODE;
        }
        for (int unit = entry.first; unit < facts->units && unit - entry.first < entry.size; unit++) {
            flow->landing[unit] = landing;
        }
    }
}

/* Follow the handlers that have a line, once all are known. */
static void follow_handlers(Code *c) {
    const uint8_t *at = (const uint8_t *)PyBytes_AS_STRING(c->code->co_exceptiontable);
    const uint8_t *end = at + PyBytes_GET_SIZE(c->code->co_exceptiontable);
    while (at < end && !c->failed) {
        int handler = read_entry(&at, end).handler;
        bool known = instructions_at(&c->list, handler) && c->flow->node_at[handler] >= 0 && c->flow->nodes[c->flow->node_at[handler]].silent;
        if (instructions_at(&c->list, handler) && !known && c->seen[handler] != 1) {
            c->seen[handler] = 1;
            c->stack[0] = handler;
            follow(c, NO_NODE, 1);
        }
    }
}

/* What can go on at an unknown place, if by way of silent nodes, is loud and leads to loud ones only. Where more
 * than two nodes share a place, a later event there does not tell them apart: what leads to a silent one of them is loud. */
static void settle(Code *c) {
    Flow *flow = c->flow;
    for (int unit = 0; unit < c->facts->units; unit++) {
        const int32_t *owner = flow->owner[unit];
        flow->shared += owner[0] >= 0 && owner[1] >= 0;
    }
    for (bool changed = true; changed && !c->failed;) {
        changed = false;
        c->failed |= (c->work += flow->count) > (int64_t)c->facts->units * MOST_SHARED;
        for (int i = 0; i < flow->count; i++) {
            Node *node = &flow->nodes[i];
            for (int k = node->first; k < node->first + node->count; k++) {
                Node *next = &flow->nodes[flow->edges[k]];
                bool raises = next->silent && node->raises != next->raises, loud = next->silent && next->loud && !node->loud;
                changed |= raises || loud;
                node->raises |= raises;
                next->raises |= raises;
                next->loud |= node->raises;
                node->loud |= loud;
            }
            node->loud |= node->raises;
        }
    }
}

/* Build the flow from the function's start. */
static void build(Code *c) {
    Flow *flow = c->flow;
    for (int unit = 0; unit < c->facts->units; unit++) {
        flow->node_at[unit] = flow->owner[unit][0] = flow->owner[unit][1] = NO_NODE;
    }
    flow->nodes[node_at(c, c->list.first)].loud = true;
    find_landings(c);
    follow_handlers(c);
    for (int node = 0; node < flow->count && !c->failed; node++) {
        int unit = flow->nodes[node].unit;
        flow->nodes[node].first = flow->edge_count;
        if (node != flow->exit) {
            c->seen[unit] = (uint32_t)node + 2;
            c->stack[0] = unit;
            follow(c, node, 1);
        }
        flow->nodes[node].count = flow->edge_count - flow->nodes[node].first;
    }
    settle(c);
}

void flow_free(Flow *flow) {
    if (flow == NULL) {
        return;
    }
    ways_forget(flow);
    PyMem_RawFree(flow->nodes);
    PyMem_RawFree(flow->direct);
    PyMem_RawFree(flow->edges);
    PyMem_RawFree(flow->node_at);
    PyMem_RawFree(flow->owner);
    PyMem_RawFree(flow->landing);
    PyMem_RawFree(flow);
}

/* Make the flow of a function; NULL when there is no memory or the code is not as compilers make it. */
Flow *flow_make(const Facts *facts, PyCodeObject *code) {
    enum { FIRST_ROOM = 32 };
    size_t units = (size_t)facts->units + 1;
    Flow *flow = PyMem_RawCalloc(1, sizeof *flow);
    Code c = {
        .code = code, .facts = facts, .flow = flow, .room = FIRST_ROOM, .edge_room = FIRST_ROOM,
        .seen = PyMem_RawCalloc(units, sizeof(uint32_t)), .stack = PyMem_RawCalloc(units, sizeof(int32_t)),
    };
    if (flow != NULL) {
        flow->nodes = PyMem_RawMalloc(FIRST_ROOM * sizeof(Node));
        flow->edges = PyMem_RawMalloc(FIRST_ROOM * sizeof(int32_t));
        flow->node_at = PyMem_RawMalloc(units * sizeof(int32_t));
        flow->owner = PyMem_RawMalloc(units * sizeof *flow->owner);
        flow->landing = PyMem_RawMalloc(units * sizeof(int32_t));
    }
    c.failed = !instructions_read(&c.list, facts, code) || flow == NULL || flow->nodes == NULL || flow->edges == NULL || flow->node_at == NULL ||
               flow->owner == NULL || flow->landing == NULL || c.seen == NULL || c.stack == NULL;
    if (!c.failed) {
        build(&c);
    }
    instructions_free(&c.list);
    PyMem_RawFree(c.seen);
    PyMem_RawFree(c.stack);
    if (c.failed) {
        flow_free(flow);
        return NULL;
    }
    return flow;
}
