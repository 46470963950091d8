/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace dump of processed traces. If the file has an index and can be
 * sought in, --from begins to read at the block of its offset.
 */
#include "cmd/malloc_trace/dump/dump_lines.h"

#include "base/check.h"
#include "common/main.h"
#include "trace/ops.h"
#include "trace/trace_check.h"
#include "traceformat/proc_reader.h"
#include "traceformat/raw_reader.h"
#include "traceformat/trace_event.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct proc_dump {
    struct dump *d;
    struct tool_input *in;
    struct tool_ops ops;
};

/* --- Operations ----------------------------------------------------------- */

/* An operation on a slot. */
static void put_operation(struct dump_lines *l, const struct mtf_op *op) {
    if (mtf_op_makes(op->kind))
        dump_result(l, "slot ", op->slot);
    dump_str(l, mtf_call_name(op->call));
    dump_str(l, "(");
    switch (op->kind) {
    case MTF_OP_ALLOC:
    case MTF_OP_ALIGNED:
        dump_request(l, op->size, op->align_log2);
        break;
    case MTF_OP_REALLOC_NEW:
        dump_str(l, (op->flags & MTF_PROC_FLAG_OLD_UNKNOWN) != 0 ? "unknown, "
                                                                 : "NULL, ");
        dump_u64(l, op->size);
        break;
    default:
        dump_id(l, "slot ", op->slot);
        if (op->kind == MTF_OP_REALLOC || op->kind == MTF_OP_FREE_SIZE)
            dump_id(l, ", ", op->size);
        else if (op->kind == MTF_OP_REALLOC_END)
            dump_str(l, ", 0");
    }
    dump_str(l, ")");
    if (op->kind == MTF_OP_REALLOC && (op->flags & MTF_PROC_FLAG_MOVED) != 0)
        dump_str(l, " moved");
    else if (op->kind == MTF_OP_REALLOC_END)
        dump_str(l, " freed it");
}

static void put_failed(struct dump_lines *l, const struct mtf_op *op) {
    dump_str(l, mtf_call_name(op->call));
    dump_str(l, "(");
    if (mtf_call_is_realloc(op->call))
        dump_str(l, (op->flags & MTF_PROC_FLAG_HAD_OLD) != 0 ? "known, "
                                                             : "NULL, ");
    dump_request(l, op->size, op->align_log2);
    dump_str(l, ") failed");
}

/* A record with bytes. */
static void put_record(struct dump_lines *l, const struct mtf_proc_block *b,
                       const struct mtf_op *op) {
    size_t n;
    const uint8_t *p = mtf_proc_bytes(b, op, &n);
    switch (op->kind) {
    case MTF_OP_THREAD_END:
        dump_str(l, "thread ends, name ");
        dump_quoted(l, p, n);
        break;
    case MTF_OP_SAMPLE:
        dump_str(l, "sample");
        dump_accounts(l, p + 8, n - 8, mtf_account_name);
        break;
    case MTF_OP_LOSS:
        dump_gap(l, mtf_load_le64(p), mtf_load_le64(p + 8),
                 mtf_load_le64(p + 16));
        break;
    case MTF_OP_SITE_DEF:
        dump_site_def(l, p, n);
        break;
    default:
        dump_id(l, "record of kind ", op->slot);
        dump_id(l, ", ", n);
        dump_str(l, " bytes");
    }
}

/* A record of a plain kind, a text or a pair of numbers, or another record. */
static void put_plain(struct dump_lines *l, const struct mtf_proc_block *b,
                      const struct mtf_op *op) {
    const struct mtf_kind *k = mtf_plain_of_op(op->kind);
    size_t n;
    if (k == NULL) {
        put_record(l, b, op);
    } else if (k->form == MTF_FORM_TEXT) {
        const uint8_t *text = mtf_proc_bytes(b, op, &n);
        dump_text(l, k->name, text, n);
    } else {
        dump_pair(l, k->name, op->slot, op->size);
    }
}

static uint64_t shown_thread(uint32_t id) {
    return id == 0 ? DUMP_NONE : id;
}

static void put_phase(struct dump_lines *l, uint32_t phase) {
    if (phase == MTF_PROC_PHASE_RECORDED)
        dump_str(l, "recorded operations follow");
    else if (phase == MTF_PROC_PHASE_PROLOGUE)
        dump_str(l, "prologue: makes what is alive here");
    else if (phase == MTF_PROC_PHASE_EPILOGUE)
        dump_str(l, "epilogue: frees what is alive at the end");
    else
        dump_id(l, "phase ", phase);
}

/* The record of OP began at OFFSET. */
static void print_op(struct proc_dump *w, const struct mtf_proc_block *b,
                     const struct mtf_op *op, uint64_t offset) {
    struct dump_lines *l = &w->d->lines;
    uint64_t thread = shown_thread(w->ops.decoder.thread);
    uint64_t time = w->ops.decoder.time_ns;
    size_t n;
    switch (op->kind) {
    case MTF_OP_SWITCH:
    case MTF_OP_TIME:
        return; /* shown in the columns of the lines that follow */
    case MTF_OP_THREAD_START:
    case MTF_OP_THREAD_END:
    case MTF_OP_LOSS:
        thread = op->slot;
        break;
    case MTF_OP_SAMPLE:
        thread = DUMP_NONE;
        time = mtf_load_le64(mtf_proc_bytes(b, op, &n));
        break;
    default:
        break;
    }
    dump_begin_at(l, offset, thread, time);
    if (op->kind <= MTF_OP_LAST_OPERATION)
        put_operation(l, op);
    else if (op->kind == MTF_OP_FAILED)
        put_failed(l, op);
    else if (op->kind == MTF_OP_EXTENSION)
        dump_extension(l, op->slot, op->size);
    else if (op->kind == MTF_OP_PHASE)
        put_phase(l, op->slot);
    else if (op->kind == MTF_OP_THREAD_START)
        dump_id(l, "thread starts, kernel id ", op->size);
    else if (op->kind == MTF_OP_SITE)
        dump_id(l, "site ", op->slot);
    else if (op->kind == MTF_OP_PRESENT)
        dump_id(l, "present bytes ", op->size);
    else
        put_plain(l, b, op);
    dump_end(l);
}

/* --- Blocks --------------------------------------------------------------- */

static void print_block(struct proc_dump *w, const struct mtf_proc_block *b) {
    struct dump_lines *l = &w->d->lines;
    dump_begin_at(l, b->offset, DUMP_NONE, b->head.time_ns);
    dump_id(l, "block, ", b->head.records);
    dump_id(l, " records, ", b->head.ops);
    dump_id(l, " operations after ", b->head.first_op);
    dump_end(l);
}

static void print_block_end(struct proc_dump *w,
                            const struct tool_ops_item *item) {
    if (item->problem == NULL)
        return;
    dump_damage(w->d, item->offset, DUMP_NONE);
    dump_str(&w->d->lines, item->problem);
    dump_str(&w->d->lines, ", the rest of the block is lost");
    dump_end(&w->d->lines);
}

static void print_closing(struct proc_dump *w, const struct mtf_proc_block *b) {
    struct dump_lines *l = &w->d->lines;
    dump_begin_at(l, b->offset, DUMP_NONE, b->head.time_ns);
    dump_str(l, "end");
    dump_accounts(l, b->payload, b->head.length, mtf_proc_account_name);
    dump_end(l);
    const char *lacks = tool_check_lacks(b);
    if (lacks != NULL)
        dump_incomplete(w->d, lacks);
}

static void print_header(struct proc_dump *w,
                         const struct mtf_proc_item *item) {
    static struct mtf_raw_info info;
    struct dump_lines *l = &w->d->lines;
    bool known = mtf_raw_parse_header(item->raw_header, item->header.raw_length,
                                      &info) == MTF_OK;
    l->start_ns = known ? info.fixed.start_ns : 0;
    dump_begin_at(l, item->file_offset, DUMP_NONE, DUMP_NONE);
    dump_id(l, "header, version ", item->header.version);
    if (known)
        dump_origin(l, &info);
    dump_end(l);
}

/* --- Reading -------------------------------------------------------------- */

/* Prints one item. False: it was the last. */
static bool print_item(struct proc_dump *w, const struct tool_ops_item *item) {
    switch (item->kind) {
    case TOOL_OPS_HEADER:
        print_header(w, item->from);
        return true;
    case TOOL_OPS_BLOCK:
        print_block(w, item->block);
        return true;
    case TOOL_OPS_SOME:
        TCM_ASSERT(item->count == 1);
        print_op(w, item->block, item->op, item->offset);
        return true;
    case TOOL_OPS_BLOCK_END:
        print_block_end(w, item);
        return true;
    case TOOL_OPS_CLOSING:
        print_closing(w, item->block);
        return true;
    case TOOL_OPS_DAMAGE:
        dump_lost(w->d, item->from->file_offset,
                  item->from->offset_is_stored ? tool_input_frame_name(w->in)
                                               : NULL,
                  item->from->problem, item->from->skipped, false);
        return true;
    case TOOL_OPS_FAILED:
        tool_error("%s: byte %llu: %s", w->d->name,
                   (unsigned long long)item->offset, item->problem);
        w->d->status = TOOL_FAILED;
        return false;
    default:
        if (item->problem != NULL && w->d->damages == 0) {
            dump_damage(w->d, item->offset, DUMP_NONE);
            dump_str(&w->d->lines, item->problem);
            dump_end(&w->d->lines);
        }
        return false;
    }
}

/* --- Starting at an offset ------------------------------------------------ */

static size_t read_file_at(void *ctx, uint64_t offset, void *data, size_t n) {
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(*(int *)ctx, (uint8_t *)data + done, n - done,
                            (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done;
}

/* Opens NAME again at the block of --from, if it is a file with an index and
   the block is not its first. NULL: read on from the beginning. */
static struct tool_input *open_at_block(struct proc_dump *w, const char *name) {
    static uint8_t memory[MTF_PROC_INDEX_MEMORY];
    struct mtf_proc_index_entry e;
    struct tool_input *in = NULL;
    struct stat st;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        mtf_proc_index_find(read_file_at, &fd, (uint64_t)st.st_size, memory,
                            w->d->lines.from, &e) &&
        e.first_op != 0 && lseek(fd, (off_t)e.offset, SEEK_SET) >= 0)
        in = tool_input_from_fd(fd, name);
    if (in == NULL) {
        close(fd);
        return NULL;
    }
    tool_ops_jump(&w->ops, in, &e);
    return in;
}

/* Replaces the input by one that begins at the block of --from, if possible.
   Called after the header. */
static void seek_to_block(struct proc_dump *w, const char *name) {
    if (w->d->lines.from == 0 || name == NULL ||
        tool_input_is_compressed(w->in))
        return;
    struct tool_input *in = open_at_block(w, name);
    if (in == NULL)
        return;
    tool_input_close(w->in);
    w->in = in;
}

void dump_processed(struct dump *d, struct tool_input *in, const char *name) {
    struct tool_ops_item item;
    struct proc_dump *w = malloc(sizeof(*w));
    if (w == NULL) {
        tool_out_of_memory();
        d->status = TOOL_FAILED;
        tool_input_close(in);
        return;
    }
    w->d = d;
    w->in = in;
    tool_ops_init(&w->ops, in, NULL, NULL);
    w->ops.at_once = 1; /* each operation has its offset */
    while (!d->lines.over) {
        tool_ops_next(&w->ops, &item);
        if (!print_item(w, &item))
            break;
        if (item.kind == TOOL_OPS_HEADER)
            seek_to_block(w, name);
    }
    tool_ops_fini(&w->ops);
    tool_input_close(w->in);
    free(w);
}
