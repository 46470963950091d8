/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why `pending` is emptied at each barrier: what waits is decided by the second
 * barrier behind it, so a thread is looked at three times at most for each
 * event that waits.
 */
#include "cmd/postprocess/sort/stall.h"

#include "base/check.h"
#include "cmd/postprocess/sort/order.h"

#include <stdlib.h>

void stall_init(struct stall *s) {
    tcm_dlist_init(&s->unchecked);
    tcm_dlist_init(&s->waiting);
    s->pending = s->missing = (struct heap){.which = 0};
}

void stall_fini(struct stall *s) {
    free(s->pending.a);
    free(s->missing.a);
}

void stall_unchecked(struct stall *s, struct demux_thread *t) {
    TCM_ASSERT(!t->checked && !t->waits);
    tcm_dlist_remove(&t->look);
    tcm_dlist_push_back(&s->unchecked, &t->look);
}

void stall_waits(struct stall *s, struct demux_thread *t) {
    TCM_ASSERT(t->waits && t->in_hand);
    tcm_dlist_remove(&t->look);
    tcm_dlist_push_back(&s->waiting, &t->look);
}

void stall_goes_on(struct stall *s, struct demux_thread *t) {
    tcm_dlist_remove(&t->look);
    heap_remove(&s->pending, t);
    heap_remove(&s->missing, t);
}

void stall_barrier(struct stall *s) {
    while (s->pending.count != 0) {
        struct demux_thread *t = s->pending.a[s->pending.count - 1].thread;
        heap_remove(&s->pending, t);
        stall_waits(s, t);
    }
}

static struct demux_thread *first_of(const struct tcm_dlist *list) {
    return TCM_CONTAINER_OF(list->next, struct demux_thread, look);
}

/* Whether the barrier after the one after WINDOW is read. */
static bool is_decided(const struct order *o, uint64_t window) {
    return o->barrier_ns == UINT64_MAX || o->demux->barriers >= window + 2;
}

static bool is_in_hand(struct order *o, const struct demux_thread *t) {
    TCM_ASSERT(t->waits);
    return births_has(o->demux, t->waits_for);
}

/* Looks at those that began to wait. */
static void look_at_waiting(struct order *o) {
    struct stall *s = &o->stall;
    size_t threads = o->demux->ids.count;
    if (tcm_dlist_empty(&s->waiting))
        return;
    if (!heap_reserve(&s->pending, threads) ||
        !heap_reserve(&s->missing, threads)) {
        o->failed = true;
        return;
    }
    while (!tcm_dlist_empty(&s->waiting)) {
        struct demux_thread *t = first_of(&s->waiting);
        tcm_dlist_remove(&t->look);
        if (!is_decided(o, t->window))
            heap_put(&s->pending, t, t->lo);
        else if (!is_in_hand(o, t))
            heap_put(&s->missing, t, t->lo);
    }
}

/* Those not permitted by their times may wait, too. */
static void check_all(struct order *o) {
    struct tcm_dlist *list = &o->stall.unchecked;
    while (!tcm_dlist_empty(list) && !o->emit->slots.failed)
        order_check(o, first_of(list));
    struct demux_thread *c = o->current;
    if (c != NULL && c->in_hand && !c->waits && !c->late_wait)
        order_check(o, c);
}

/* Events that wait for an allocation which is neither written nor in hand name
   none, if their lo is not above LIMIT. */
static bool give_up_missing(struct order *o, uint64_t limit) {
    struct heap *missing = &o->stall.missing;
    bool any = false;
    look_at_waiting(o);
    while (missing->count != 0 && missing->a[0].key <= limit) {
        order_give_up(o, missing->a[0].thread);
        any = true;
    }
    return any;
}

/* Whether one that is permitted by its times waits for what may come yet:
   others may wait for what is behind it. */
static bool may_go_on(struct order *o, uint64_t horizon) {
    struct heap *pending = &o->stall.pending;
    while (pending->count != 0 && pending->a[0].key <= horizon) {
        struct demux_thread *t = pending->a[0].thread;
        if (!is_in_hand(o, t))
            return true;
        heap_remove(pending, t);
    }
    return false;
}

enum stall_end stall_resolve(struct order *o) {
    if (give_up_missing(o, order_horizon(o)))
        return STALL_OVER;
    check_all(o);
    if (give_up_missing(o, UINT64_MAX))
        return STALL_OVER;
    const struct demux_chunk *oldest = demux_oldest(o->demux);
    if (oldest == NULL || !is_decided(o, oldest->window) ||
        (o->late != NULL && !is_decided(o, o->late->window)) ||
        may_go_on(o, order_horizon(o)))
        return STALL_STAYS;
    if (o->hi.count != 0)
        return STALL_AGAINST;
    if (o->waiting.count == 0)
        return STALL_STAYS;
    order_give_up(o, o->waiting.a[0].thread);
    return STALL_OVER;
}
