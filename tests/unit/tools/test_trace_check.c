/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checks of processed traces (trace/trace_check.h) find nothing wrong in
 * what the writer makes, also in long traces, whose index has only some of
 * their blocks.
 */
#include "malloc-trace-replay/trace/ops.h"
#include "tap.h"
#include "tests/lib/memory_sink.h"
#include "tests/lib/memory_source.h"
#include "traceformat/proc_writer.h"

/* A trace of BLOCKS blocks, of one allocation each. */
static void make(struct memory_sink *t, size_t blocks) {
    static struct mtf_proc_writer w;
    struct mtf_proc_object o;
    memset(t, 0, sizeof(*t));
    mtf_proc_writer_begin(&w, memory_sink_take, memory_sink_grow, t, NULL, 0);
    for (size_t i = 0; i < blocks; i++) {
        mtf_proc_put_switch(&w, 1);
        mtf_proc_put_alloc(&w, MTF_CALL_MALLOC, i, &o);
        mtf_proc_put_time(&w, 10 * (i + 1));
        mtf_proc_flush(&w);
    }
    if (!mtf_proc_writer_end(&w, NULL, 0))
        tap_bail("the writer failed");
    free(w.stack);
}

static uint64_t stored_bytes(struct mtf_source *source) {
    (void)source;
    return 0;
}

static void keep(struct mtf_source *source) {
    (void)source;
}

static void count(void *ctx, uint64_t offset, const char *text) {
    uint64_t *told = ctx;
    if (++*told == 1)
        tap_diag("byte %llu: %s", (unsigned long long)offset, text);
}

/* Counts the contradictions that are found in T, which has BLOCKS blocks. */
static uint64_t contradictions(const struct memory_sink *t, size_t blocks) {
    static struct tool_ops o;
    struct memory_source m;
    struct tool_ops_item item;
    uint64_t told = 0;
    size_t found = 0;
    memory_source_init(&m, t->data, t->length, 0);
    struct tool_input *in =
        tool_input_of_source(&m.source, "trace", t->length, stored_bytes, keep);
    if (in == NULL)
        tap_bail("out of memory");
    tool_ops_init(&o, in, count, &told);
    do {
        tool_ops_next(&o, &item);
        found += item.kind == TOOL_OPS_BLOCK;
        if (item.kind == TOOL_OPS_CLOSING) {
            struct tool_check_sums sums = {0};
            tool_check_sum(&sums, MTF_PROC_ACCOUNT_OPS, blocks);
            tool_check_closing(&o.check, item.block, &sums);
        }
    } while (item.kind != TOOL_OPS_END && item.kind != TOOL_OPS_FAILED);
    if (found != blocks)
        tap_bail("%zu blocks, of %zu", found, blocks);
    tool_ops_fini(&o);
    tool_input_close(in);
    return told;
}

int main(void) {
    static const size_t blocks[] = {
        1, MTF_PROC_INDEX_MAX, MTF_PROC_INDEX_MAX + 1, 5 * MTF_PROC_INDEX_MAX,
        9 * MTF_PROC_INDEX_MAX + 1};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(blocks); i++) {
        struct memory_sink t;
        make(&t, blocks[i]);
        tap_is_u64(contradictions(&t, blocks[i]), 0,
                   "%zu blocks: no contradiction", blocks[i]);
        free(t.data);
    }
    return tap_done();
}
