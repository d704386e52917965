/* The lines of a function and what follows what; lines that are passed. */
#ifndef TRACEFLEET_FLOW_H
#define TRACEFLEET_FLOW_H

#include "recorder.h"

/* The way from one node to another through nodes that are passed. */
typedef struct Path {
    struct Path *next;
    int from;
    int count; /* of nodes in between; -1: there is no way */
    int line_count, told; /* of their lines; with that of the node that it leads to */
    bool plain;           /* it leads to an event that comes each time and does no more than tell what has run */
    int32_t *node;
    PassedLine lines[]; /* the nodes follow: what is told of a way often lies together */
} Path;

/* A place that has LINE events, the function's start, which is node 0, or one that is silent. */
typedef struct Node {
    int unit, line;
    int first, count;   /* the nodes that can be next, in Flow.edges */
    uint64_t stores[2]; /* variables that it may change, by place */
    int condition;      /* slot of the variable that decides whether it is calm, -1 for none */
    uint64_t items[2], attributes[2]; /* variables whose lists, or instances, are all that it changes besides; see aims */
    bool aims;
    bool loud;          /* its event must come */
    bool safe;          /* cannot wait, nor end the program */
    bool calm;          /* changes nothing but the variables above */
    bool fetches;       /* takes items out of something */
    bool starts;        /* a loop, over what may wait for each item */
    bool silent;        /* has no event: where an exception leads to, until the next LINE event or out of the function */
    bool raises;        /* can go on at an unknown place without an event */
    bool noisy;         /* other code of the program has run in it */
    bool passed;        /* its event need not come */
    bool ever;          /* has been passed once */
    Path *paths;        /* the ways to it through passed ones, by where they start */
    int way_from;       /* where the way that was asked for last starts, and that way */
    const Path *way;
} Node;

typedef struct Flow {
    int count, edge_count, shared;
    Node *nodes;
    int32_t *node_at;    /* of a unit: the node whose event is there, -1 for none */
    int32_t (*owner)[2]; /* of a unit: the nodes that it belongs to, negative for none */
    int32_t *edges;
    int32_t *landing; /* of a unit: the silent node that an exception raised there leads to, -1 when that is not known */
    int exit;         /* the node of the end by an exception */
    bool strict; /* what is passed leaves values exact */
    bool stale;  /* something came up that may make a passed line loud */
    bool broken; /* the program does not go as it says */
    bool crowded; /* there are too many ways through passed lines to keep */
    struct Path **direct; /* of an edge: the way that it is; NULL as long as none was asked for */
    int searched;         /* ways that are kept besides */
} Flow;

/* What came up at a unit, in Facts.marks. */
enum { MARK_NOISY = 1, MARK_UNSAFE = 2, MARK_CALLS = 4, MARK_WAITS = 8 };

/* instructions.c */
typedef struct Instructions {
    const Facts *facts;
    int first;         /* the unit at which a function starts */
    int32_t *next;     /* of an instruction: the unit of the one after it; 0 inside of one */
    int32_t *argument;
    bool *marked;      /* whether a LINE event may be here */
} Instructions;
bool instructions_read(Instructions *list, const Facts *facts, PyCodeObject *code);
void instructions_free(Instructions *list);
bool instructions_at(const Instructions *list, int unit);
bool instructions_never_go_on(int operation);
bool instructions_jump(const Instructions *list, int unit, int *target);

/* flow.c */
Flow *flow_make(const Facts *facts, PyCodeObject *code);
void flow_free(Flow *flow);

/* judging.c */
void judging_add(const Facts *facts, Node *node, PyCodeObject *code, int unit, int argument);
void judging_stores(Node *node, int operation, int argument);
bool judging_is_calm(int operation, int now);

/* iterating.c */
bool iterating_may_wait(const Facts *facts, PyCodeObject *code, int unit);
uint64_t iterating_arguments(const Facts *facts, PyCodeObject *code);
void iterating_meet(Recorder *r, Facts *facts, const _PyInterpreterFrame *frame);
void iterating_look(Recorder *r, Facts *facts, const _PyInterpreterFrame *frame, PyCodeObject *code, int unit);

/* aims.c */
void aims_find(Facts *facts, PyCodeObject *code);

/* passing.c */
void passing_decide(Recorder *r, Facts *facts);
int passing_entries(const Facts *facts, int unit);

/* revising.c */
void revising_take(const Facts *facts, Flow *flow);
void revising_note(Facts *facts, int unit, int what);
void revising_settle(Recorder *r, Facts *facts);
void revising_break_off(Recorder *r, Facts *facts);
void revising_stop(Recorder *r);

/* ways.c */
const Path *ways_search(const Facts *facts, int from, int to);
PassedLine ways_line(const Facts *facts, int number);
void ways_forget(Flow *flow);

/* Return the way from one node to another, mostly the one that was asked for last; NULL when there is no memory. */
static inline const Path *ways_find(const Facts *facts, int from, int to) {
    Node *node = &facts->flow->nodes[to];
    if (node->way == NULL || node->way_from != from) {
        node->way = ways_search(facts, from, to);
        node->way_from = from;
    }
    return node->way;
}

/* late.c */
bool late_again(Recorder *r, const PyThreadState *state, _PyInterpreterFrame *frame, const Facts *facts);
int late_line(Recorder *r, Thread *thread, Activation *activation, PyCodeObject *code, uint64_t hits);
void late_reach(Recorder *r, Thread *thread, Activation *activation);
void late_parent(Recorder *r, Thread *thread, const _PyInterpreterFrame *frame);
void late_land(Activation *activation, int unit, PyObject *error);
void late_leave(Recorder *r, Thread *thread, Activation *activation);
Activation *late_catch(Recorder *r, Thread *thread, const _PyInterpreterFrame *frame);
void late_catch_all(Recorder *r);
void late_place(Activation *activation);
const Node *late_after(const Activation *activation);
uint64_t late_count(Recorder *r, const Facts *facts, uint32_t counter, int unit);

/* prying.c */
void prying_meet(Recorder *r, const _PyInterpreterFrame *frame);
void prying_hear(Recorder *r, const char *event, PyObject *arguments);

static inline bool stores_have(const uint64_t *stores, int slot) {
    return slot < 128 && stores[slot >> 6] >> (slot & 63) & 1;
}

static inline void stores_add(uint64_t *stores, int slot) {
    if (slot >= 0 && slot < 128) { /* of the others nothing is shown */
        stores[slot >> 6] |= (uint64_t)1 << (slot & 63);
    }
}

#endif
