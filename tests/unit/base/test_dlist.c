/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/dlist.h"

#include "prng.h"
#include "tap.h"

struct item {
    int value;
    struct tcm_dlist link;
};

static int values(const struct tcm_dlist *head, int *out) {
    int n = 0;
    for (const struct tcm_dlist *d = head->next; d != head; d = d->next) {
        if (d->next->prev != d || d->prev->next != d)
            return -1;
        out[n++] = TCM_CONTAINER_OF(d, const struct item, link)->value;
    }
    return n;
}

static void test_small(void) {
    struct tcm_dlist head;
    struct item a = {.value = 1}, b = {.value = 2}, c = {.value = 3};
    int v[4];
    tcm_dlist_init(&head);
    tap_ok(tcm_dlist_empty(&head), "empty at first");
    tcm_dlist_push_back(&head, &b.link);
    tap_ok(!tcm_dlist_empty(&head), "not any more");
    tcm_dlist_push_front(&head, &a.link);
    tcm_dlist_push_back(&head, &c.link);
    tap_ok(values(&head, v) == 3 && v[0] == 1 && v[1] == 2 && v[2] == 3,
           "front and back");
    tcm_dlist_remove(&b.link);
    tap_ok(values(&head, v) == 2 && v[0] == 1 && v[1] == 3, "the middle goes");
    tap_ok(tcm_dlist_empty(&b.link), "what is removed is alone");
    tcm_dlist_remove(&b.link);
    tap_ok(values(&head, v) == 2, "removing it again harms nothing");
    tcm_dlist_insert_after(&a.link, &b.link);
    tap_ok(values(&head, v) == 3 && v[1] == 2, "after a node");
    tcm_dlist_remove(&a.link);
    tcm_dlist_remove(&c.link);
    tcm_dlist_remove(&b.link);
    tap_ok(tcm_dlist_empty(&head), "empty again");
}

/* Random operations, compared with an array as model. */
static void test_model(void) {
    enum { ITEMS = 20 };
    struct tcm_dlist head;
    struct item items[ITEMS];
    int model[ITEMS], v[ITEMS + 1], used = 0;
    bool in[ITEMS] = {false};
    struct prng p;
    unsigned wrong = 0;
    prng_seed(&p, 3);
    tcm_dlist_init(&head);
    for (int i = 0; i < ITEMS; i++)
        items[i].value = i;
    for (unsigned step = 0; step < 5000; step++) {
        int i = (int)prng_below(&p, ITEMS);
        if (in[i]) {
            int at = 0;
            while (model[at] != i)
                at++;
            used--;
            memmove(model + at, model + at + 1,
                    (size_t)(used - at) * sizeof(*model));
            tcm_dlist_remove(&items[i].link);
        } else if (prng_below(&p, 2) != 0) {
            model[used++] = i;
            tcm_dlist_push_back(&head, &items[i].link);
        } else {
            memmove(model + 1, model, (size_t)used * sizeof(*model));
            used++;
            model[0] = i;
            tcm_dlist_push_front(&head, &items[i].link);
        }
        in[i] = !in[i];
        wrong += values(&head, v) != used ||
                 memcmp(v, model, (size_t)used * sizeof(*v)) != 0;
    }
    tap_is_u64(wrong, 0, "5000 random steps against a model");
}

int main(void) {
    test_small();
    test_model();
    return tap_done();
}
