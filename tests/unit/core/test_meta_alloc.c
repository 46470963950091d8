/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/meta_alloc.h"
#include "base/check.h"
#include "prng.h"
#include "tap.h"

#define COUNT 4000

static unsigned char *block[COUNT];
static size_t length[COUNT];

static bool is_zero(const unsigned char *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (p[i] != 0)
            return false;
    }
    return true;
}

static void test_blocks(void) {
    struct prng random;
    prng_seed(&random, 1);
    bool zero = true, aligned = true, kept = true;
    for (unsigned i = 0; i < COUNT; i++) {
        length[i] = 1 + prng_below(&random, i % 50 == 0 ? TCM_META_MOST : 900);
        block[i] = tcm_meta_alloc(length[i]);
        if (block[i] == NULL)
            tap_bail("no memory");
        aligned &= (uintptr_t)block[i] % TCM_META_ALIGN == 0;
        zero &= is_zero(block[i], length[i]);
        memset(block[i], (int)(i & 255), length[i]);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < length[i]; j++)
            kept &= block[i][j] == (i & 255);
    }
    tap_ok(zero, "memory is zeroed");
    tap_ok(aligned, "and aligned");
    tap_ok(kept, "and no two blocks overlap");
    uint64_t used = 0;
    for (unsigned i = 0; i < COUNT; i++)
        used += length[i];
    tap_ok(tcm_meta_mapped_bytes() >= used, "what is used is mapped");
    tap_ok(tcm_meta_alloc(SIZE_MAX) == NULL, "SIZE_MAX is refused");
    tap_ok(tcm_meta_alloc(TCM_META_MOST + 1) == NULL, "a byte too many, too");
    tap_ok(tcm_meta_alloc(64) != NULL, "and small blocks go on");
}

/* A chunk is mapped ahead only when little is left, and then used. */
static void test_stock(void) {
    bool ahead = true, idle = true;
    unsigned times = 0;
    for (unsigned i = 0; i < 40000; i++) {
        bool low = tcm_meta_low;
        uint64_t mapped = tcm_meta_mapped_bytes();
        tcm_meta_stock();
        times += low;
        idle &= low || tcm_meta_mapped_bytes() == mapped;
        mapped = tcm_meta_mapped_bytes();
        unsigned char *p = tcm_meta_alloc(64 + i % 128);
        ahead &= tcm_meta_mapped_bytes() == mapped && is_zero(p, 64);
        memset(p, 1, 64);
    }
    tap_ok(idle && times != 0, "memory is mapped ahead when there is little");
    tap_ok(ahead, "then never in a hurry");
}

static void test_pool(void) {
    struct tcm_pool pool = TCM_POOL_INIT(128);
    void *a = tcm_pool_get(&pool);
    tap_ok(a != NULL && is_zero(a, 128), "a pool's first record is zeroed");
    void *b = tcm_pool_get(&pool);
    tap_ok(b != NULL && b != a, "the second is another");
    tcm_pool_put(&pool, a);
    tcm_pool_put(&pool, b);
    tap_ok(tcm_pool_get(&pool) == b, "last in, first out");
    tap_ok(tcm_pool_get(&pool) == a, "then the other");
    void *c = tcm_pool_get(&pool);
    tap_ok(c != NULL && c != a && c != b, "then a new one");
}

static bool refuse(const char *call) {
    (void)call;
    return true;
}

/* Number of records that POOL gives when the system has no memory. */
static unsigned when_refused(struct tcm_pool *pool) {
    unsigned got = 0;
    tcm_testpoint_refuse = refuse;
    while (tcm_meta_alloc(128) != NULL)
        continue;
    for (unsigned char *p; (p = tcm_pool_get(pool)) != NULL; got++) {
        if (!is_zero(p, 128))
            tap_bail("a record of the reserve is not zeroed");
        memset(p, 1, 128);
    }
    tcm_testpoint_refuse = NULL;
    return got;
}

static void test_reserve(void) {
    struct tcm_pool pool = TCM_POOL_INIT(128);
    struct tcm_pool urgent = TCM_POOL_INIT_URGENT(128);
    tap_ok(tcm_meta_keep_reserve((uint64_t)1 << 20), "a small heap");
    tap_is_u64(when_refused(&urgent), 0, "has no reserve");
    tap_ok(tcm_meta_keep_reserve((uint64_t)64 << 20), "one of 64 MiB");
    tap_is_u64(when_refused(&pool), 0, "which other pools do not get");
    tap_is_u64(when_refused(&urgent), 8192, "has 1 MiB for urgent ones");
    tcm_testpoint_refuse = refuse;
    tap_ok(!tcm_meta_keep_reserve((uint64_t)128 << 20),
           "a heap must not grow without");
    tcm_testpoint_refuse = NULL;
    tap_ok(tcm_meta_keep_reserve((uint64_t)128 << 20),
           "it grows with the heap");
    tap_is_u64(when_refused(&urgent), 8192, "by as much again");
    uint64_t heap = (uint64_t)128 << 20, mapped = tcm_meta_mapped_bytes();
    for (; heap < (uint64_t)8 << 30; heap += (uint64_t)2 << 20)
        if (!tcm_meta_keep_reserve(heap))
            tap_bail("no memory");
    mapped = tcm_meta_mapped_bytes() - mapped;
    tap_ok(
        mapped >= ((uint64_t)126 << 20) && mapped <= ((uint64_t)160 << 20),
        "of a heap that grows slowly it exceeds a 64th by a quarter at most");
    tap_is_u64(when_refused(&urgent), mapped / 128, "all of it is of use");
}

int main(void) {
    test_blocks();
    test_stock();
    test_pool();
    test_reserve();
    return tap_done();
}
