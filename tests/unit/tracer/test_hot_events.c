/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hot events as a thread writes them. An allocation has the bytes that the
 * format's encoder gives for its size, near the size before or far from it. A
 * free reads back as the same token whatever length was chosen, and a length
 * above the necessary one is chosen only where nearly all frees need it.
 */
#include "lib/prng.h"
#include "lib/tap.h"
#include "tracer/recorder.h"

static uint8_t bytes[1 << 16];
static struct mtr_thread_record record;
static struct mtr_thread *t = &record.hot;

static void begin(void) {
    memset(&record, 0, sizeof(record));
    memset(bytes, 0, sizeof(bytes));
    t->cold = &record.cold;
    t->pos = bytes;
    t->limit = bytes + sizeof(bytes) - MTR_BUFFER_SLACK;
    t->next_token = t->last_freed = 1 << 20;
    t->free_shift = 0;
    t->free_max = (uint32_t)mtf_free_reach(0);
}

/* Bytes that the free of TOKEN takes; it must read back as TOKEN. */
static unsigned put_free(uint64_t token, bool *good) {
    uint8_t *pos = t->pos;
    uint64_t last = t->last_freed, v = 0;
    mtr_put_free(t, token);
    unsigned n = mtf_varint_get_unchecked(pos, &v);
    *good &= n == (size_t)(t->pos - pos) && (v & 3) == MTF_RAW_FREE &&
             last + (uint64_t)mtf_unzigzag(v >> 2) == token && t->pos[0] == 0;
    return n;
}

/* True if an allocation of SIZE after one of LAST has the right bytes. */
static bool is_right(uint64_t last, uint64_t size) {
    uint8_t expected[8];
    begin();
    mtr_put_alloc(t, last);
    uint8_t *pos = t->pos;
    uint64_t token = mtr_put_alloc(t, size);
    unsigned n = mtf_varint_put(expected, mtf_alloc_payload(size, last >> 3));
    return token == (1 << 20) + 1 && (size_t)(t->pos - pos) == n &&
           memcmp(pos, expected, sizeof(expected)) == 0;
}

static void test_allocations(void) {
    bool good = true;
    for (uint64_t last = 4090; last <= 4110; last += 7)
        for (uint64_t size = 0; size <= 9000; size++)
            good &= is_right(last, size);
    tap_ok(good, "allocations of sizes near and far");
    for (unsigned i = 0; i < 48; i++)
        good &= is_right(3, (uint64_t)1 << i) && is_right((uint64_t)1 << i, 3);
    tap_ok(good, "allocations of all magnitudes");
}

int main(void) {
    struct prng random;
    bool good = true;
    test_allocations();
    prng_seed(&random, 1);

    /* Random lives: a far token for every allocation. */
    begin();
    unsigned spare = 0, total = 0;
    for (unsigned i = 0; i < 2000; i++) {
        mtr_put_alloc(t, 16 + prng_below(&random, 1000));
        uint64_t token = t->next_token - 1 - prng_below(&random, 40000);
        uint64_t payload =
            mtf_free_payload(mtf_free_distance(token, t->last_freed));
        unsigned n = put_free(token, &good);
        spare += n - mtf_varint_length(payload);
        total += n;
    }
    tap_ok(good, "far frees read back");
    tap_ok(t->free_shift == 2 && spare > 0 && spare < total / 10,
           "three bytes become usual: %u of %u bytes are to spare", spare,
           total);
    uint64_t far = t->last_freed + (1 << 24);
    tap_ok(put_free(far, &good) == 4 && t->free_shift == 2 && good,
           "one that is farther is written in full, and changes nothing");
    tap_ok(put_free(far + 1, &good) == 3 && good, "a near one in three bytes");

    /* Stacks: a far token, then many near ones. */
    begin();
    for (unsigned i = 0; i < 200; i++) {
        for (unsigned k = 0; k < 48; k++)
            mtr_put_alloc(t, 64);
        for (unsigned k = 1; k <= 48; k++)
            put_free(t->next_token - k, &good);
    }
    tap_ok(good && t->free_shift == 0, "batches freed in reverse stay short");

    /* Pairs of blocks: far, near, far, near, without allocations. */
    begin();
    for (unsigned i = 0; i < 4000; i++) {
        uint64_t token = 1000 + 2 * prng_below(&random, 100000);
        put_free(token, &good);
        put_free(token + 1, &good);
    }
    tap_ok(good && t->free_shift == 0, "far and near ones in turn stay short");

    /* Tokens as far apart as they can be. */
    begin();
    for (unsigned i = 0; i < 1000; i++)
        put_free(i % 2 == 0 ? 1 : (uint64_t)1 << 47, &good);
    tap_ok(good && t->free_shift == 0, "the farthest are never usual");
    return tap_done();
}
