/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An ordered set of free runs: by number of pages, then by range, then by
 * address. A treap whose priorities are a hash of the position, so that its
 * shape is a function of the set alone.
 *
 * Threads: the page heap lock is held.
 */
#ifndef TCM_CORE_RUN_TREE_H
#define TCM_CORE_RUN_TREE_H

#include "core/span.h"

struct tcm_run_tree {
    struct tcm_span *root;
};

/* RUN begins PAGE pages into its range. */
void tcm_run_tree_insert(struct tcm_run_tree *tree, struct tcm_span *run,
                         size_t page);
void tcm_run_tree_remove(struct tcm_run_tree *tree, struct tcm_span *run);
/* The shortest run of at least PAGES, of several the lowest. NULL: none. */
struct tcm_span *tcm_run_tree_fit(const struct tcm_run_tree *tree,
                                  size_t pages);
/* The last run that is before BOUND in the order; the last of all if BOUND is
   NULL. */
struct tcm_span *tcm_run_tree_before(const struct tcm_run_tree *tree,
                                     const struct tcm_span *bound);
/* The first run that is after BOUND, which need not be in the tree. */
struct tcm_span *tcm_run_tree_after(const struct tcm_run_tree *tree,
                                    const struct tcm_span *bound);
bool tcm_run_tree_holds(const struct tcm_run_tree *tree,
                        const struct tcm_span *run);

/* Tells whether the whole tree is in order. */
bool tcm_run_tree_is_valid(const struct tcm_run_tree *tree);

/* True if A comes before B. */
bool tcm_run_before(const struct tcm_span *a, const struct tcm_span *b);

#endif
