/* Which lines are passed: their LINE events need not come, since the next event
 * of the function tells that they ran.
 *
 * From every line whose event comes there must be one way only to each place
 * where the next event can be. While values are recorded, what each line of the
 * way changed must show at the end of it too: its lines only change variables,
 * and no variable twice. Lines that can wait or end the program are never passed. */
#include "flow.h"

#include <opcode_ids.h>

enum { MOST_WORK = 4 << 20 };

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
int passing_entries(const Facts *facts, int unit) {
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
        if (!node->loud && !node->passed && passing_entries(k->facts, node->unit) <= 1 && node->safe && (node->calm || !flow->strict)) {
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
    ways_forget(flow);
    if (flow->broken || flow->crowded) {
        return;
    }
    revising_take(facts, flow);
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
