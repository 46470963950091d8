/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index of the processed trace: for any place, the block that it names is
 * the last one of the index that begins there or before. Long traces have a
 * part of their blocks in the index, and damage costs only the index.
 */
#include "memory_sink.h"
#include "tap.h"
#include "traceformat/proc_writer.h"
#include "traceformat/proc_reader.h"

struct trace {
    struct memory_sink to;
    uint64_t *block; /* offsets of the operation blocks */
    size_t blocks;
};

/* A trace of BLOCKS blocks, of one allocation each. */
static void make(struct trace *t, size_t blocks) {
    static struct mtf_proc_writer w;
    struct mtf_proc_object o;
    memset(t, 0, sizeof(*t));
    t->blocks = blocks;
    t->block = calloc(blocks + 1, sizeof(*t->block));
    if (t->block == NULL)
        tap_bail("out of memory");
    mtf_proc_writer_begin(&w, memory_sink_take, memory_sink_grow, &t->to, NULL,
                          0);
    for (size_t i = 0; i < blocks; i++) {
        t->block[i] = w.bytes;
        mtf_proc_put_alloc(&w, MTF_CALL_MALLOC, i, &o);
        mtf_proc_put_time(&w, 10 * (i + 1));
        mtf_proc_flush(&w);
    }
    if (!mtf_proc_writer_end(&w, NULL, 0))
        tap_bail("the writer failed");
    free(w.stack);
}

static void unmake(struct trace *t) {
    free(t->to.data);
    free(t->block);
}

static size_t read_at(void *ctx, uint64_t offset, void *data, size_t n) {
    const struct trace *t = ctx;
    if (offset >= t->to.length)
        return 0;
    n = n < t->to.length - offset ? n : t->to.length - (size_t)offset;
    memcpy(data, t->to.data + offset, n);
    return n;
}

static bool find(struct trace *t, uint64_t wanted,
                 struct mtf_proc_index_entry *e) {
    static uint8_t memory[MTF_PROC_INDEX_MEMORY];
    return mtf_proc_index_find(read_at, t, t->to.length, memory, wanted, e);
}

/* Searches every STRIDEth block and the places around it; one of STEP blocks is
   in the index. */
static bool finds_all(struct trace *t, size_t step, size_t stride) {
    for (size_t i = 0; i < t->blocks; i += stride) {
        for (int64_t by = -1; by <= 1; by++) {
            struct mtf_proc_index_entry e;
            size_t block = i;
            if (by < 0 && i == 0)
                continue;
            block -= by < 0;
            block -= block % step;
            if (!find(t, t->block[i] + (uint64_t)by, &e) ||
                e.offset != t->block[block] || e.first_op != block ||
                e.time_ns != 10 * block) {
                tap_diag("block %zu, place %d", i, (int)by);
                return false;
            }
        }
    }
    return true;
}

static void test_sizes(void) {
    static const struct {
        size_t blocks, step;
    } sizes[] = {{1, 1},
                 {2, 1},
                 {MTF_PROC_INDEX_MAX, 1},
                 {MTF_PROC_INDEX_MAX + 1, 2},
                 {2 * MTF_PROC_INDEX_MAX + 1, 4},
                 {5 * MTF_PROC_INDEX_MAX, 8}};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(sizes); i++) {
        struct trace t;
        struct mtf_proc_index_entry e;
        make(&t, sizes[i].blocks);
        tap_ok(finds_all(&t, sizes[i].step, 1 + sizes[i].blocks / 300),
               "%zu blocks, one of %zu in the index", sizes[i].blocks,
               sizes[i].step);
        tap_ok(find(&t, UINT64_MAX, &e) && !find(&t, t.block[0] - 1, &e),
               "behind the end the last, before the first block none");
        unmake(&t);
    }
}

/* Changes every byte of index and closing block, and cuts them at every place.
 */
static void test_damage(void) {
    struct trace t;
    struct mtf_proc_index_entry e;
    make(&t, 3);
    size_t from = (size_t)t.block[2] + 72;
    size_t whole = t.to.length, found = 0, unlike = 0;
    while (t.to.data[from] != 0xA5)
        from++;
    for (size_t at = from; at < whole; at++) {
        t.to.data[at] ^= 0x10;
        found += find(&t, t.block[1], &e);
        t.to.data[at] ^= 0x10;
        t.to.length = at;
        unlike += find(&t, t.block[1], &e);
        t.to.length = whole;
    }
    tap_ok(found == 0, "no index is believed with a byte changed");
    tap_ok(unlike == 0, "nor one that is cut");
    tap_ok(find(&t, t.block[1], &e), "(it was the bytes)");
    unmake(&t);
    make(&t, 0);
    tap_ok(!find(&t, UINT64_MAX, &e), "a trace without operations has none");
    unmake(&t);
}

int main(void) {
    test_sizes();
    test_damage();
    return tap_done();
}
