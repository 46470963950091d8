/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intrusive doubly linked list with a head node. A node that is in no list
 * links to itself, or has never been linked. The caller locks.
 */
#ifndef TCM_BASE_DLIST_H
#define TCM_BASE_DLIST_H

#include "base/check.h"
#include "base/compiler.h"

struct tcm_dlist {
    struct tcm_dlist *next;
    struct tcm_dlist *prev;
};

static inline void tcm_dlist_init(struct tcm_dlist *head) {
    head->next = head;
    head->prev = head;
}

static inline bool tcm_dlist_empty(const struct tcm_dlist *head) {
    return head->next == head;
}

static inline void tcm_dlist_insert_after(struct tcm_dlist *at,
                                          struct tcm_dlist *node) {
    TCM_ASSERT(at->next->prev == at && at->prev->next == at && node != at);
    node->prev = at;
    node->next = at->next;
    at->next->prev = node;
    at->next = node;
}

static inline void tcm_dlist_push_front(struct tcm_dlist *head,
                                        struct tcm_dlist *node) {
    tcm_dlist_insert_after(head, node);
}

static inline void tcm_dlist_push_back(struct tcm_dlist *head,
                                       struct tcm_dlist *node) {
    tcm_dlist_insert_after(head->prev, node);
}

static inline void tcm_dlist_remove(struct tcm_dlist *node) {
    TCM_ASSERT(node->next->prev == node && node->prev->next == node);
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node;
    node->prev = node;
}

#endif
