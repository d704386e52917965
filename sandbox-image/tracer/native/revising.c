/* What came up while a function ran and changes which of its lines may be passed: it is noted at the
 * instruction, and the choice is made anew before the function goes on. */
#include "flow.h"

/* Take what came up at a node's instructions into account, and that a variable that an operator works on has held an object. */
void revising_take(const Facts *facts, Flow *flow) {
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

/* Note what came up at a unit. */
void revising_note(Facts *facts, int unit, int what) {
    if (facts->marks == NULL || (facts->marks[unit] & what) == what) {
        return;
    }
    facts->fors -= what == MARK_UNSAFE;
    facts->marks[unit] |= (uint8_t)what;
    for (int i = 0; facts->flow != NULL && i < 2; i++) {
        int owner = facts->flow->owner[unit][i];
        const Node *node = owner >= 0 ? &facts->flow->nodes[owner] : NULL;
        facts->flow->stale |= node != NULL && (what & MARK_NOISY ? facts->flow->strict && node->calm && !node->noisy : node->calm || node->safe);
    }
}

/* Have the LINE events of a function again. */
static void revive(Recorder *r, const Facts *facts) {
    const Codes *codes = &r->codes;
    long events = monitoring_events(r, facts);
    for (uint32_t i = 0; i <= codes->mask; i++) {
        if (codes->table[i].code != NULL && codes->table[i].facts == facts) {
            monitoring_set_local(r, codes->table[i].code, events & ~(1 << ON_LINE));
            monitoring_set_local(r, codes->table[i].code, events);
        }
    }
}

/* Decide anew what is passed, and have the events again of what is no longer. */
static void decide_anew(Recorder *r, Facts *facts) {
    Flow *flow = facts->flow;
    late_catch_all(r); /* what lies behind is found by what was decided before */
    bool *passed = PyMem_RawCalloc((size_t)flow->count, sizeof(bool)), lost = passed == NULL;
    for (int i = 0; passed != NULL && i < flow->count; i++) {
        passed[i] = flow->nodes[i].passed;
    }
    passing_decide(r, facts);
    for (int i = 0; passed != NULL && i < flow->count; i++) {
        lost |= passed[i] && !flow->nodes[i].passed;
    }
    PyMem_RawFree(passed);
    if (lost) {
        revive(r, facts);
    }
}

/* See to it that what came up about a function has its effect. */
void revising_settle(Recorder *r, Facts *facts) {
    if (facts->flow != NULL && facts->flow->stale && r->passing) {
        decide_anew(r, facts);
    }
}

/* A function does not go as its flow says, as a debugger that jumps can bring about: all its lines are loud from now on. */
void revising_break_off(Recorder *r, Facts *facts) {
    for (int i = 0; i < facts->flow->count; i++) {
        if (facts->flow->nodes[i].passed && !facts->flow->nodes[i].silent) {
            r->counters[C_FLAGS] |= FLAG_INEXACT;
        }
    }
    facts->flow->broken = true;
    decide_anew(r, facts);
}

/* Pass no more lines: counting ends place by place from now on. */
void revising_stop(Recorder *r) {
    r->passing = false;
    for (uint32_t i = 0; i <= r->codes.mask; i++) {
        Facts *facts = r->codes.table[i].code != NULL ? r->codes.table[i].facts : NULL;
        if (facts != NULL && facts->flow != NULL) {
            revive(r, facts);
            flow_free(facts->flow);
            facts->flow = NULL;
        }
    }
}
