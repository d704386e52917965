/* The lines of a function and what follows what; lines that are passed. */
#ifndef TRACEFLEET_FLOW_H
#define TRACEFLEET_FLOW_H

#include "recorder.h"

/* The way from one node to another through nodes that are passed. */
typedef struct Path {
    struct Path *next;
    int from;
    int count; /* of nodes in between; -1: there is no way */
    int line_count;
    PassedLine *lines;
    int32_t node[];
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
    Path *paths;        /* the ways to it, by where they start */
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
} Flow;

/* What came up at a unit, in Facts.marks. */
enum { MARK_NOISY = 1, MARK_UNSAFE = 2, MARK_CALLS = 4, MARK_WAITS = 8 };

/* flow.c */
Flow *flow_make(Facts *facts, PyCodeObject *code);
void flow_free(Flow *flow);

/* passing.c */
void passing_judge(const Facts *facts, Node *node, PyCodeObject *code, int unit, int argument);
uint64_t passing_iterated(const Facts *facts, PyCodeObject *code);
bool passing_iterates(const Facts *facts, PyCodeObject *code, int unit, int slot);
void passing_decide(Recorder *r, Facts *facts);
const Path *passing_way(const Facts *facts, int from, int to);
void passing_forget(Flow *flow);

bool passing_is_calm(int operation, int now);

/* aims.c */
void aims_find(Facts *facts, PyCodeObject *code);

/* late.c */
int late_line(Recorder *r, Thread *thread, Activation *activation, PyCodeObject *code, uint64_t hits);
void late_arguments(Recorder *r, Facts *facts, const _PyInterpreterFrame *frame);
void late_reach(Recorder *r, Thread *thread, Activation *activation);
const Node *late_after(const Activation *activation);
Activation *late_catch(Recorder *r, Thread *thread, const _PyInterpreterFrame *frame);
void late_catch_all(Recorder *r);
void late_parent(Recorder *r, Thread *thread, const _PyInterpreterFrame *frame);
PassedLine passing_line(const Facts *facts, int number);
uint64_t late_count(Recorder *r, const Facts *facts, uint32_t counter, int unit);
void late_settle(Recorder *r, Facts *facts);
void late_place(Activation *activation);
void late_stop(Recorder *r);
void late_land(Activation *activation, int unit, PyObject *error);
void late_leave(Recorder *r, Thread *thread, Activation *activation);

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
