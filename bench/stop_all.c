/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rewrites a processed trace so that `replay --threads=real` stops all threads
 * before each free, as other replayers do: a time a window later stands before
 * it, so that a thread frees when all that was before is done. For fidelity.py;
 * of what a trace can have only operations and threads are kept.
 *
 *     stop_all IN OUT
 */
#include "common/input.h"
#include "trace/ops.h"
#include "traceformat/proc_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Windows of replay are of 1 ms. */
#define WINDOW_NS 1000000u

static struct mtf_proc_writer writer;
static struct tool_ops ops;
static struct mtf_proc_object *object; /* by slot */
static size_t objects;
static uint64_t now_ns = WINDOW_NS;

static void die(const char *what) {
    fprintf(stderr, "stop_all: %s\n", what);
    exit(1);
}

static bool sink(void *ctx, const void *data, size_t length) {
    return fwrite(data, 1, length, ctx) == length;
}

static bool grow(void *ctx, uint32_t **stack, size_t *capacity) {
    (void)ctx;
    size_t n = *capacity * 2 + 1024;
    uint32_t *p = realloc(*stack, n * sizeof(*p));
    if (p == NULL)
        return false;
    *stack = p;
    *capacity = n;
    return true;
}

static struct mtf_proc_object *of_slot(uint64_t slot) {
    if (slot >= objects) {
        size_t n = (size_t)slot * 2 + 1024;
        object = realloc(object, n * sizeof(*object));
        if (object == NULL)
            die("out of memory");
        memset(object + objects, 0, (n - objects) * sizeof(*object));
        objects = n;
    }
    return &object[slot];
}

static void copy(const struct mtf_op *op) {
    switch (op->kind) {
    case MTF_OP_SWITCH:
        mtf_proc_put_switch(&writer, op->slot);
        break;
    case MTF_OP_THREAD_START:
        mtf_proc_put_thread_start(&writer, op->slot, 0);
        break;
    case MTF_OP_THREAD_END:
        mtf_proc_put_thread_end(&writer, op->slot, NULL, 0);
        break;
    case MTF_OP_ALLOC:
        mtf_proc_put_alloc(&writer, op->call, op->size, of_slot(op->slot));
        break;
    case MTF_OP_ALIGNED:
        mtf_proc_put_aligned(&writer, op->call, op->align_log2, op->size,
                             of_slot(op->slot));
        break;
    case MTF_OP_REALLOC_NEW:
        mtf_proc_put_realloc_new(&writer, op->call, op->flags, op->size,
                                 of_slot(op->slot));
        break;
    case MTF_OP_REALLOC:
        mtf_proc_put_realloc(&writer, op->call, true, op->size,
                             of_slot(op->slot));
        break;
    case MTF_OP_FREE:
    case MTF_OP_FREE_SIZE:
    case MTF_OP_REALLOC_END:
        mtf_proc_put_time(&writer, now_ns += WINDOW_NS);
        mtf_proc_put_free(&writer, MTF_CALL_FREE, of_slot(op->slot));
        break;
    default:
        break;
    }
}

int main(int argc, char **argv) {
    struct tool_ops_item item;
    if (argc != 3)
        die("usage: stop_all IN OUT");
    struct tool_input *in = tool_input_open(argv[1]);
    FILE *out = fopen(argv[2], "wb");
    if (in == NULL || out == NULL)
        die("cannot open the files");
    if (!mtf_proc_writer_begin_converted(&writer, sink, grow, out, "stop_all"))
        die("cannot write");
    mtf_proc_put_time(&writer, now_ns);
    tool_ops_init(&ops, in, NULL, NULL);
    do {
        tool_ops_next(&ops, &item);
        for (size_t i = 0; item.kind == TOOL_OPS_SOME && i < item.count; i++)
            copy(&item.op[i]);
        if (item.kind == TOOL_OPS_FAILED || item.kind == TOOL_OPS_DAMAGE)
            die(item.problem);
    } while (item.kind != TOOL_OPS_END);
    const struct mtf_account_value complete[] = {
        {MTF_PROC_ACCOUNT_COMPLETE, 1}};
    if (!mtf_proc_writer_end(&writer, complete, 1) || fclose(out) != 0)
        die("cannot write");
    return 0;
}
