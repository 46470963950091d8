/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/run_tree.h"
#include "base/check.h"

bool tcm_run_before(const struct tcm_span *a, const struct tcm_span *b) {
    TCM_ASSERT(a->pages != 0 && b->pages != 0);
    if (a->pages != b->pages)
        return a->pages < b->pages;
    if (a->range != b->range)
        return a->range < b->range;
    return a->start < b->start;
}

/* Equal priorities are harmless: they only cost balance. */
static uint32_t priority_of(const struct tcm_span *run, size_t page) {
    uint64_t x = page + ((uint64_t)(run->range + 1) << 40);
    return (uint32_t)((x * 0x9E3779B97F4A7C15u) >> 32);
}

/* Tells whether RUN's children are on their sides of it, and not of higher
   priority. */
static bool node_is_valid(const struct tcm_span *run) {
    const struct tcm_span *left = run->left;
    const struct tcm_span *right = run->right;
    return (left == NULL ||
            (tcm_run_before(left, run) && left->priority <= run->priority)) &&
           (right == NULL ||
            (tcm_run_before(run, right) && right->priority <= run->priority));
}

void tcm_run_tree_insert(struct tcm_run_tree *tree, struct tcm_span *run,
                         size_t page) {
    TCM_ASSERT(!tcm_run_tree_holds(tree, run));
    uint32_t mine = priority_of(run, page);
    run->priority = mine;
    struct tcm_span **place = &tree->root;
    while (*place != NULL && (*place)->priority >= mine)
        place =
            tcm_run_before(run, *place) ? &(*place)->left : &(*place)->right;
    /* The subtree found here is split around the new node. */
    struct tcm_span *rest = *place;
    struct tcm_span **left = &run->left;
    struct tcm_span **right = &run->right;
    *place = run;
    while (rest != NULL) {
        if (tcm_run_before(run, rest)) {
            *right = rest;
            right = &rest->left;
            rest = rest->left;
        } else {
            *left = rest;
            left = &rest->right;
            rest = rest->right;
        }
    }
    *left = NULL;
    *right = NULL;
    TCM_ASSERT(node_is_valid(run) && tcm_run_tree_holds(tree, run));
}

void tcm_run_tree_remove(struct tcm_run_tree *tree, struct tcm_span *run) {
    struct tcm_span **place = &tree->root;
    while (*place != run) {
        TCM_CHECK(*place != NULL);
        place =
            tcm_run_before(run, *place) ? &(*place)->left : &(*place)->right;
    }
    TCM_ASSERT(node_is_valid(run));
    struct tcm_span *left = run->left;
    struct tcm_span *right = run->right;
    while (left != NULL && right != NULL) {
        if (left->priority >= right->priority) {
            *place = left;
            place = &left->right;
            left = left->right;
        } else {
            *place = right;
            place = &right->left;
            right = right->left;
        }
    }
    *place = left != NULL ? left : right;
    TCM_ASSERT(!tcm_run_tree_holds(tree, run));
}

struct tcm_span *tcm_run_tree_fit(const struct tcm_run_tree *tree,
                                  size_t pages) {
    struct tcm_span *best = NULL;
    for (struct tcm_span *run = tree->root; run != NULL;) {
        if (run->pages >= pages) {
            best = run;
            run = run->left;
        } else {
            run = run->right;
        }
    }
    TCM_ASSERT(best == NULL || best->pages >= pages);
    return best;
}

struct tcm_span *tcm_run_tree_before(const struct tcm_run_tree *tree,
                                     const struct tcm_span *bound) {
    struct tcm_span *best = NULL;
    for (struct tcm_span *run = tree->root; run != NULL;) {
        if (bound == NULL || tcm_run_before(run, bound)) {
            best = run;
            run = run->right;
        } else {
            run = run->left;
        }
    }
    return best;
}

struct tcm_span *tcm_run_tree_after(const struct tcm_run_tree *tree,
                                    const struct tcm_span *bound) {
    struct tcm_span *best = NULL;
    for (struct tcm_span *run = tree->root; run != NULL;) {
        if (tcm_run_before(bound, run)) {
            best = run;
            run = run->left;
        } else {
            run = run->right;
        }
    }
    return best;
}

bool tcm_run_tree_holds(const struct tcm_run_tree *tree,
                        const struct tcm_span *run) {
    struct tcm_span *at = tree->root;
    while (at != NULL && at != run)
        at = tcm_run_before(run, at) ? at->left : at->right;
    return at == run;
}

/* The last run of the subtree of RUN, of which all are after AFTER (NULL: of no
   run). *VALID is cleared if they are not in order. */
static const struct tcm_span *walk(const struct tcm_span *run,
                                   const struct tcm_span *after, bool *valid) {
    if (run == NULL)
        return after;
    after = walk(run->left, after, valid);
    *valid &=
        node_is_valid(run) && (after == NULL || tcm_run_before(after, run));
    return walk(run->right, run, valid);
}

bool tcm_run_tree_is_valid(const struct tcm_run_tree *tree) {
    bool valid = true;
    (void)walk(tree->root, NULL, &valid);
    return valid;
}
