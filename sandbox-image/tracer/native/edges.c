/* Calls from one function to another, counted by pair. */
#include "recorder.h"

typedef struct Edge {
    Facts *caller, *callee;
    uint32_t counter;
} Edge;

enum { FIRST_ROOM = 256, MAX_EDGES = 1 << 16 };

bool edges_open(Codes *codes) {
    codes->edges = PyMem_RawCalloc(FIRST_ROOM, sizeof(Edge));
    codes->edge_mask = FIRST_ROOM - 1;
    return codes->edges != NULL;
}

static Edge *edge_at(Edge *edges, uint32_t mask, const Facts *caller, const Facts *callee) {
    uint32_t at = (caller->number * 0x9E3779B1u ^ callee->number * 0x85EBCA6Bu) >> 7 & mask;
    while (edges[at].caller != NULL && (edges[at].caller != caller || edges[at].callee != callee)) {
        at = (at + 1) & mask;
    }
    return &edges[at];
}

/* Make the table of edges twice as large. */
static void edges_grow(Codes *codes) {
    uint32_t mask = codes->edge_mask * 2 + 1;
    Edge *larger = PyMem_RawCalloc((size_t)mask + 1, sizeof(Edge));
    if (larger == NULL) {
        return;
    }
    for (uint32_t i = 0; i <= codes->edge_mask; i++) {
        if (codes->edges[i].caller != NULL) {
            *edge_at(larger, mask, codes->edges[i].caller, codes->edges[i].callee) = codes->edges[i];
        }
    }
    PyMem_RawFree(codes->edges);
    codes->edges = larger;
    codes->edge_mask = mask;
}

/* Return the counter of calls from one function to another; C_NOWHERE when there is none left. */
uint32_t edges_count(Recorder *r, Facts *caller, Facts *callee) {
    Codes *codes = &r->codes;
    Edge *edge = edge_at(codes->edges, codes->edge_mask, caller, callee);
    if (edge->caller == NULL) {
        if (codes->edge_count >= MAX_EDGES || codes->edge_count * 2 > codes->edge_mask) {
            edges_grow(codes);
            edge = edge_at(codes->edges, codes->edge_mask, caller, callee);
        }
        if (codes->edge_count >= MAX_EDGES || codes->edge_count * 4 > codes->edge_mask * 3) {
            count_up(r, C_UNKNOWN);
            return C_NOWHERE;
        }
        uint32_t counter = memory_counters(r, 1);
        Text text = {0};
        text_add(&text, "[\"edge\",%u,%u,%u]", caller->number, callee->number, counter);
        if (counter == 0 || text.failed || !memory_define(r, text.data, text.size)) {
            count_up(r, C_UNKNOWN);
            counter = C_NOWHERE;
        }
        text_free(&text);
        *edge = (Edge){caller, callee, counter};
        codes->edge_count++;
    }
    callee->caller = caller;
    callee->caller_counter = edge->counter;
    return edge->counter;
}
