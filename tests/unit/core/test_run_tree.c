/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The treap against a plain array, and the promise that its shape depends on
 * the set alone.
 */
#include "core/run_set.h"
#include "prng.h"
#include "tap.h"

#define RUNS  400
#define STEPS 20000

static struct tcm_span run[RUNS];
static bool in_tree[RUNS];

static void set_up(struct prng *random) {
    for (unsigned i = 0; i < RUNS; i++) {
        run[i].pages = 1 + prng_below(random, 60);
        run[i].range = i % 3;
        run[i].start = ((uintptr_t)i * 1000 + 1) << TCM_PAGE_SHIFT;
    }
}

static void insert(struct tcm_run_tree *tree, struct tcm_span *node) {
    tcm_run_tree_insert(tree, node, node->start >> TCM_PAGE_SHIFT);
}

static struct tcm_span *model_fit(size_t pages) {
    struct tcm_span *best = NULL;
    for (unsigned i = 0; i < RUNS; i++) {
        if (in_tree[i] && run[i].pages >= pages &&
            (best == NULL || tcm_run_before(&run[i], best)))
            best = &run[i];
    }
    return best;
}

static struct tcm_span *model_before(const struct tcm_span *bound) {
    struct tcm_span *best = NULL;
    for (unsigned i = 0; i < RUNS; i++) {
        if (in_tree[i] && (bound == NULL || tcm_run_before(&run[i], bound)) &&
            (best == NULL || tcm_run_before(best, &run[i])))
            best = &run[i];
    }
    return best;
}

static struct tcm_span *model_after(const struct tcm_span *bound) {
    struct tcm_span *best = NULL;
    for (unsigned i = 0; i < RUNS; i++) {
        if (in_tree[i] && tcm_run_before(bound, &run[i]) &&
            (best == NULL || tcm_run_before(&run[i], best)))
            best = &run[i];
    }
    return best;
}

static bool same_shape(const struct tcm_span *a, const struct tcm_span *b,
                       const struct tcm_span *copy) {
    if (a == NULL || b == NULL)
        return a == b;
    return a - run == b - copy && same_shape(a->left, b->left, copy) &&
           same_shape(a->right, b->right, copy);
}

static unsigned depth(const struct tcm_span *node) {
    if (node == NULL)
        return 0;
    unsigned left = depth(node->left);
    unsigned right = depth(node->right);
    return 1 + (left > right ? left : right);
}

static void test_model(struct prng *random) {
    struct tcm_run_tree tree = {NULL};
    bool fit = true, before = true, after = true, holds = true;
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)prng_below(random, RUNS);
        if (in_tree[i])
            tcm_run_tree_remove(&tree, &run[i]);
        else
            insert(&tree, &run[i]);
        in_tree[i] = !in_tree[i];
        holds &= tcm_run_tree_holds(&tree, &run[i]) == in_tree[i];
        size_t pages = prng_below(random, 64);
        fit &= tcm_run_tree_fit(&tree, pages) == model_fit(pages);
        const struct tcm_span *bound = &run[prng_below(random, RUNS)];
        before &= tcm_run_tree_before(&tree, bound) == model_before(bound);
        before &= tcm_run_tree_before(&tree, NULL) == model_before(NULL);
        after &= tcm_run_tree_after(&tree, bound) == model_after(bound);
    }
    tap_ok(fit, "best fit, lowest position, as the model");
    tap_ok(before, "largest before a bound, as the model");
    tap_ok(after, "smallest after a bound, as the model");
    tap_ok(holds, "membership, as the model");
}

static void test_shape(void) {
    static struct tcm_span copy[RUNS];
    struct tcm_run_tree up = {NULL};
    struct tcm_run_tree down = {NULL};
    memcpy(copy, run, sizeof(copy));
    for (unsigned i = 0; i < RUNS; i++)
        insert(&up, &run[i]);
    for (unsigned i = RUNS; i-- != 0;)
        insert(&down, &copy[i]);
    for (unsigned i = 0; i < RUNS; i += 3) {
        tcm_run_tree_remove(&down, &copy[i]);
        insert(&down, &copy[i]);
    }
    tap_ok(same_shape(up.root, down.root, copy),
           "the shape does not depend on history");
    tap_ok(depth(up.root) <= 40, "and is balanced: depth %u of %d nodes",
           depth(up.root), RUNS);
    for (unsigned i = 0; i < RUNS; i++)
        tcm_run_tree_remove(&up, &run[i]);
    tap_ok(up.root == NULL, "empty again");
}

int main(void) {
    struct prng random;
    prng_seed(&random, 2);
    set_up(&random);
    test_model(&random);
    test_shape();
    return tap_done();
}
