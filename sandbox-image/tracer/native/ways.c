/* The ways between nodes through those that are passed, and what is told of each: found once, then kept
 * until what is passed is decided anew. */
#include "flow.h"

/* A dispatch over many branches has as many ways as they have pairs. The list that they are looked up in must not get long. */
enum { MOST_SEARCHED = 1024 };

/* Forget the ways that were found. */
void ways_forget(Flow *flow) {
    flow->searched = 0;
    for (int i = 0; i < flow->count; i++) {
        flow->nodes[i].way = NULL;
        while (flow->nodes[i].paths != NULL) {
            Path *path = flow->nodes[i].paths;
            flow->nodes[i].paths = path->next;
            PyMem_RawFree(path);
        }
    }
    for (int i = 0; flow->direct != NULL && i < flow->edge_count; i++) {
        PyMem_RawFree(flow->direct[i]);
        flow->direct[i] = NULL;
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

/* Return what is counted when a node has run. */
PassedLine ways_line(const Facts *facts, int number) {
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

/* Whether a node has a line that is counted. */
static bool has_line(const Facts *facts, const Node *node) {
    return !node->silent && node->line >= facts->low_line && node->line <= facts->high_line && facts->counters[node->line - facts->low_line] != 0;
}

/* Return the edge from one node to another, -1 for none. */
static int edge_between(const Flow *flow, int from, int to) {
    const Node *start = &flow->nodes[from];
    for (int i = start->first; i < start->first + start->count; i++) {
        if (flow->edges[i] == to) {
            return i;
        }
    }
    return -1;
}

/* Search the way between two nodes, of which the second does not follow the first at once. Return how many are in between,
 * -1 when there is no way; the node before each goes into back, which has room for two of every node. */
static int search_back(const Flow *flow, int from, int to, int32_t *back) {
    int32_t *stack = back + flow->count;
    /* A thread can be on a way that was taken back meanwhile. */
    if (!search(flow, from, to, false, back, stack) && !search(flow, from, to, true, back, stack)) {
        return -1;
    }
    int count = 0;
    for (int at = back[to]; at != from; at = back[at]) {
        count++;
    }
    return count;
}

/* Make the way between two nodes, given what a search has returned and left; NULL when there is no memory. */
static Path *way_make(const Facts *facts, int from, int to, int count, const int32_t *back) {
    const Flow *flow = facts->flow;
    const Node *end = &flow->nodes[to];
    size_t room = (size_t)Py_MAX(count, 0);
    Path *path = PyMem_RawMalloc(sizeof(Path) + (room + 1) * sizeof(PassedLine) + room * sizeof(int32_t));
    if (path == NULL) {
        return NULL;
    }
    *path = (Path){.from = from, .count = count, .node = (int32_t *)(path->lines + room + 1)};
    for (int at = to, i = count; i > 0;) {
        at = back[at];
        path->node[--i] = at;
    }
    for (int i = 0; i < count; i++) {
        if (!flow->nodes[path->node[i]].silent) {
            path->lines[path->line_count++] = ways_line(facts, path->node[i]);
        }
    }
    path->told = path->line_count;
    if (has_line(facts, end)) {
        path->lines[path->told++] = ways_line(facts, to);
    }
    path->plain = count >= 0 && path->told > path->line_count && !end->passed && !end->starts && passing_entries(facts, end->unit) <= 1;
    return path;
}

/* Return the way that is an edge; NULL when there is no memory. A search would take time for each node of the code: a literal of
 * 16,000 lines has as many such ways. */
static const Path *way_along(const Facts *facts, int edge, int from, int to) {
    Flow *flow = facts->flow;
    if (flow->direct == NULL) {
        flow->direct = PyMem_RawCalloc((size_t)flow->edge_count, sizeof(Path *));
    }
    if (flow->direct != NULL && flow->direct[edge] == NULL) {
        flow->direct[edge] = way_make(facts, from, to, 0, NULL);
    }
    return flow->direct != NULL ? flow->direct[edge] : NULL;
}

/* Return the way from one node to another, which is searched when it is asked for the first time; NULL when there is no memory. */
const Path *ways_search(const Facts *facts, int from, int to) {
    Flow *flow = facts->flow;
    int edge = edge_between(flow, from, to);
    if (edge >= 0) {
        return way_along(facts, edge, from, to);
    }
    for (const Path *path = flow->nodes[to].paths; path != NULL; path = path->next) {
        if (path->from == from) {
            return path;
        }
    }
    int32_t *back = PyMem_RawMalloc((size_t)flow->count * 2 * sizeof(int32_t));
    Path *path = back != NULL ? way_make(facts, from, to, search_back(flow, from, to, back), back) : NULL;
    PyMem_RawFree(back);
    if (path != NULL) {
        path->next = flow->nodes[to].paths;
        flow->nodes[to].paths = path;
        if (++flow->searched > MOST_SEARCHED && !flow->crowded) {
            flow->crowded = flow->stale = true; /* all its lines are loud from now on */
        }
    }
    return path;
}
