/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counters: every part is summed into its own counter, they have the names
 * that samples of a trace use, and they grow with the events that they count.
 */
#include "core/core_stats.h"
#include "core/central_list.h"
#include "core/run_set.h"
#include "core/transfer_cache.h"
#include "core_test.h"
#include "traceformat/trace_event.h"

static const char *const names[] = {
#define X(name) #name,
    TCM_STATS(X)
#undef X
};

#define FIELDS (sizeof(struct tcm_stats) / sizeof(uint64_t))

static void read_fields(uint64_t *out) {
    struct tcm_stats s;
    tcm_stats_read(&s);
    memcpy(out, &s, sizeof(s));
}

static unsigned index_of(const char *name) {
    for (unsigned i = 0; i < FIELDS; i++) {
        if (strcmp(names[i], name) == 0)
            return i;
    }
    tap_bail("no counter %s", name);
}

/* Adds N to the part of a counter; NAME alone must show it. */
static void one_part(const char *name, uint64_t *where, uint64_t n) {
    uint64_t before[FIELDS], after[FIELDS];
    unsigned which = index_of(name);
    bool good = true;
    read_fields(before);
    *where += n;
    read_fields(after);
    for (unsigned i = 0; i < FIELDS; i++)
        good &= after[i] - before[i] == (i == which ? n : 0);
    *where -= n;
    tap_ok(good, "%s shows what is counted for it, no other does", name);
}

static void test_parts(void) {
    unsigned last = tcm_class_count - 1;
    struct tcm_thread_cache *c = tcm_cache_new();
    one_part("thread_cache_misses", &c->misses, 3);
    one_part("thread_cache_overflows", &c->overflows, 5);
    tcm_cache_destroy(c);
    one_part("central_fetches", &tcm_central[0][1].fetches, 7);
    one_part("central_fetches", &tcm_central[0][last].fetches, 11);
    one_part("central_returns", &tcm_central[0][1].returns, 13);
    one_part("central_returns", &tcm_central[0][last].returns, 17);
    one_part("transfer_cache_hits", &tcm_transfer[0][1].hits, 19);
    one_part("transfer_cache_hits", &tcm_transfer[0][last].hits, 23);
    one_part("spans_made", &tcm_page_heap.spans_made, 29);
    one_part("spans_freed", &tcm_page_heap.spans_freed, 31);
    one_part("system_bytes_taken", &tcm_page_heap.taken_bytes, 37);
    one_part("system_bytes_returned", &tcm_stats.system_bytes_returned, 41);
}

static void test_names(void) {
    bool good = true;
    for (unsigned i = 0; i < FIELDS; i++) {
        char want[64];
        snprintf(want, sizeof(want), "tcmalloc.%s", names[i]);
        const char *name = mtf_account_name(i + 1);
        if (name == NULL || strcmp(name, want) != 0) {
            tap_diag("%s: samples call it %s", want, name ? name : "nothing");
            good = false;
        }
    }
    tap_is_u64(TCM_ARRAY_SIZE(names), FIELDS, "counters");
    tap_ok(good, "samples of a trace have the same ones in the same order");
}

static void test_growth(void) {
    enum { BLOCKS = 3000 };
    static void *block[BLOCKS];
    uint64_t last[FIELDS], now[FIELDS], start[FIELDS];
    bool monotone = true;
    struct tcm_thread_cache *c = tcm_cache_new();
    read_fields(start);
    memcpy(last, start, sizeof(last));
    for (unsigned i = 0; i < 2 * BLOCKS; i++) {
        if (i < BLOCKS)
            block[i] = test_alloc(c, i % 7 == 0 ? 300000 : 400);
        else
            test_free(c, block[i - BLOCKS]);
        if (i % 50 != 0)
            continue;
        read_fields(now);
        for (unsigned k = 0; k < FIELDS; k++)
            monotone &= now[k] >= last[k];
        memcpy(last, now, sizeof(last));
    }
    tcm_cache_destroy(c);
    tcm_heap_release(SIZE_MAX);
    read_fields(now);
    tap_ok(monotone, "counters never go back");
    tap_ok(now[index_of("spans_made")] - start[index_of("spans_made")] >=
               BLOCKS / 7,
           "a span was made for every large block");
    tap_is_u64(now[index_of("spans_freed")], now[index_of("spans_made")],
               "an empty heap has freed all spans");
    tap_is_u64(now[index_of("system_bytes_returned")],
               now[index_of("system_bytes_taken")],
               "and returned what it took");
}

int main(void) {
    if (!tcm_heap_init())
        tap_bail("no heap");
    test_names();
    test_parts();
    test_growth();
    return tap_done();
}
