/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/transfer_cache.h"
#include "core/central_list.h"
#include "core_test.h"

static void test_exchange(unsigned size_class) {
    struct tcm_transfer *transfer = &tcm_transfer[0][size_class];
    struct tcm_central *central = &tcm_central[0][size_class];
    unsigned batch = tcm_class[size_class].batch;
    void *a[TCM_MAX_BATCH], *b[TCM_MAX_BATCH];
    tap_is_u64(tcm_transfer_remove(size_class, a, batch), batch,
               "an empty one serves from the central list");
    tap_is_u64(transfer->hits, 0, "that is no hit");
    uint64_t fetches = central->fetches;
    uint64_t returns = central->returns;
    tcm_transfer_insert(size_class, a, batch);
    tap_is_u64(transfer->count, batch, "a batch is parked");
    tap_is_u64(tcm_transfer_remove(size_class, b, batch), batch,
               "and comes back");
    bool same = true;
    for (unsigned i = 0; i < batch; i++)
        same &= b[i] == a[batch - 1 - i];
    tap_ok(same, "the same objects, the one parked first on top");
    tap_ok(central->fetches == fetches && central->returns == returns,
           "without the central list");
    tap_is_u64(transfer->hits, 1, "a hit");
    tcm_transfer_insert(size_class, a, 1);
    tcm_transfer_remove(size_class, b, batch);
    tap_ok(central->fetches == fetches + 1 && transfer->count == 1,
           "one object is no answer to a request for a batch");
    tcm_central_return(size_class, b, batch);
    tcm_central_return(size_class, a + 1, batch - 1);
    tcm_transfer_flush();
    tap_ok(transfer->count == 0 && central->span_count == 0,
           "flushed, the span is empty");
}

static void test_overflow(unsigned size_class) {
    struct tcm_transfer *transfer = &tcm_transfer[0][size_class];
    unsigned batch = tcm_class[size_class].batch;
    enum { batches = 16 + 3 }; /* 16 are parked at most */
    void *all[batches][TCM_MAX_BATCH];
    for (unsigned i = 0; i < batches; i++)
        tcm_central_fetch(size_class, all[i], batch);
    uint64_t returns = tcm_central[0][size_class].returns;
    for (unsigned i = 0; i < batches; i++)
        tcm_transfer_insert(size_class, all[i], batch);
    tap_ok(transfer->count <= transfer->capacity &&
               transfer->count + batch > transfer->capacity,
           "it fills to its capacity");
    tap_is_u64(tcm_central[0][size_class].returns - returns,
               batches - transfer->capacity / batch,
               "the rest goes to the central list");
    tcm_heap_verify();
    uint32_t full = transfer->count;
    tcm_transfer_trim(size_class);
    tap_ok(transfer->count == full && transfer->low == full,
           "what was just parked stays");
    void *taken[TCM_MAX_BATCH];
    unsigned n = tcm_transfer_remove(size_class, taken, batch);
    tcm_transfer_insert(size_class, taken, n);
    tap_is_u64(transfer->low, full - n, "need is remembered");
    tcm_transfer_trim(size_class);
    tap_is_u64(transfer->count, n, "what nobody needed is trimmed");
    tcm_transfer_trim(size_class);
    tcm_transfer_trim(size_class);
    tap_is_u64(transfer->count, 0, "unneeded, it empties");
    tap_is_u64(tcm_central[0][size_class].span_count, 0, "and so do the spans");
    tcm_heap_verify();
}

int main(void) {
    tcm_heap_init();
    test_exchange(tcm_size_class(64));
    test_overflow(tcm_size_class(64));
    test_overflow(tcm_size_class(3000));
    test_overflow(tcm_size_class(TCM_MAX_SMALL));
    return tap_done();
}
