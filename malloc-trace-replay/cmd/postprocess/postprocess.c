/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * postprocess: orders the per-thread streams of a raw trace into one stream of
 * operations on numbered slots, which replay runs.
 */
#include "cmd/postprocess/account.h"
#include "cmd/postprocess/sort/demux.h"
#include "cmd/postprocess/sort/emit.h"
#include "cmd/postprocess/sort/order.h"
#include "cmd/postprocess/window/options.h"
#include "common/array.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/output.h"
#include "common/progress.h"
#include "common/stop.h"
#include "trace/raw.h"
#include "traceformat/compress.h"
#include "traceformat/proc_writer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help_text[] =
    "Usage: postprocess [OPTION]... RAW [OUT]\n"
    "Order the per-thread streams of the raw trace RAW (a file, a spool, a\n"
    "pipe, or - for standard input; plain, LZ4, gzip, zstd) into one stream\n"
    "of operations for replay, and write it to OUT (standard output by "
    "default).\n"
    "\n"
    "  -z, --compress       write LZ4 frames\n"
    "  --follow             go on while RAW is being recorded, or is a pipe:\n"
    "                       what is in order is put out at once\n"
    "  --json FILE          write what was found as JSON to FILE (- for "
    "standard\n"
    "                       output, when OUT is a file)\n"
    "  -q, --quiet          no summary and no progress\n"
    "  -h, --help           this text\n"
    "  -V, --version        version and optional libraries\n"
    "\n"
    "What to write; blocks alive where a window begins are made first:\n"
    "  --from TIME          begin there: seconds from the start of the\n"
    "                       recording, or with h, m, s, ms, us or ns (1m30s)\n"
    "  --to TIME            end there\n"
    "  --from-mark TEXT     begin at the first mark with this text\n"
    "  --to-mark TEXT       end at the first such mark after the beginning\n"
    "  --only-threads LIST  blocks made by these threads (ids or names, "
    "commas\n"
    "                       between them), whoever frees them\n"
    "  --live-at-end=keep   leave blocks alive at the end (the default),\n"
    "  --live-at-end=free   or free them\n"
    "  --strip              no marks, names, process ids, call sites: fit for\n"
    "                       publishing\n"
    "  --drop-sites         no call sites\n"
    "\n"
    "Exit status: 0 success; 1 system error, or RAW is no raw trace; 2 usage;\n"
    "3 RAW is cut, damaged, still being recorded or known to lack events, or\n"
    "SIGINT or SIGTERM came: what could be recovered or was read until then "
    "is\n"
    "written.\n";

enum { OPTION_JSON = 1, OPTION_COMPRESS, OPTION_FOLLOW };

static const struct tool_option option_table[] = {
    {"compress", 'z', false, OPTION_COMPRESS},
    {"follow", 0, false, OPTION_FOLLOW},
    {"json", 0, true, OPTION_JSON},
    {"from", 0, true, FILTER_OPTION_FROM},
    {"to", 0, true, FILTER_OPTION_TO},
    {"from-mark", 0, true, FILTER_OPTION_FROM_MARK},
    {"to-mark", 0, true, FILTER_OPTION_TO_MARK},
    {"only-threads", 0, true, FILTER_OPTION_ONLY_THREADS},
    {"strip", 0, false, FILTER_OPTION_STRIP},
    {"drop-sites", 0, false, FILTER_OPTION_DROP_SITES},
    {"live-at-end", 0, true, FILTER_OPTION_LIVE_AT_END},
    {NULL, 0, false, 0},
};

/* How often a trace that is followed is looked at. */
#define FOLLOW_MS 100

struct work {
    const char *raw_name, *out_name, *json_name;
    bool quiet, compress, follow;
    bool fresh; /* something was read since the last wait */
    struct tool_raw *raw;
    struct tool_output *out;
    struct mtf_proc_writer *writer;  /* of the output */
    struct mtf_proc_writer *ordered; /* what emit writes; WRITER if no filter */
    struct filter_options options;
    struct filter *filter; /* NULL: none */
    struct demux demux;
    struct emit emit;
    struct order order;
    struct account account;
    bool have_header;
    struct mtf_raw_header header; /* of the raw trace */
    struct tool_progress progress;
    bool begun; /* the header is written */
};

/* --- Callbacks of the writers --------------------------------------------- */

static bool write_out(void *ctx, const void *data, size_t n) {
    struct work *w = ctx;
    return tool_output_write(w->out, data, n);
}

static bool filter_out(void *ctx, const void *data, size_t n) {
    struct work *w = ctx;
    return filter_take(w->filter, data, n);
}

static bool grow_stack(void *ctx, uint32_t **stack, size_t *capacity) {
    (void)ctx;
    return tool_array_reserve(stack, capacity, *capacity + 1, sizeof(**stack));
}

/* --- Reading -------------------------------------------------------------- */

static bool out_of_memory(void) {
    tool_error("out of memory");
    return false;
}

/* Whether what went wrong so far, if anything, allows to go on; else a message
   is out. */
static bool good_so_far(struct work *w) {
    if (w->demux.failed || w->emit.slots.failed || w->order.failed)
        return out_of_memory();
    if (!w->writer->failed && !w->ordered->failed)
        return true;
    int error = tool_output_error(w->out);
    if (error == 0)
        return out_of_memory();
    tool_error("%s: %s", tool_output_name(w->out), tool_file_error_text(error));
    return false;
}

/* What is written is for no terminal. /dev/stdout is taken at its word. */
static bool is_terminal(const char *name) {
    return (name == NULL || strcmp(name, "-") == 0) &&
           isatty(STDOUT_FILENO) == 1;
}

/* Opens the output and writes the header, which carries that of the raw trace,
   LENGTH bytes at HEADER. */
static bool begin_output(struct work *w, const void *header, uint32_t length) {
    w->out = tool_output_open(w->out_name, w->compress ? TOOL_OUTPUT_LZ4
                                                       : TOOL_OUTPUT_PLAIN);
    if (w->out == NULL) {
        tool_error("%s: %s", w->out_name == NULL ? "stdout" : w->out_name,
                   tool_file_error_text(errno));
        return false;
    }
    w->begun = true;
    if (w->filter == NULL) {
        mtf_proc_writer_begin(w->writer, write_out, grow_stack, w, header,
                              length);
        return good_so_far(w);
    }
    uint8_t own[MTF_RAW_HEADER_MAX];
    uint32_t own_length = 0;
    if (length != 0)
        own_length = (uint32_t)filter_header(w->filter, header, length, own);
    mtf_proc_writer_begin(w->writer, write_out, grow_stack, w, own, own_length);
    mtf_proc_writer_begin(w->ordered, filter_out, grow_stack, w, header,
                          length);
    return good_so_far(w);
}

static bool take_item(struct work *w, const struct mtf_item *item) {
    struct demux_thread *t;
    if (item->kind == MTF_ITEM_FAILED) {
        tool_error("%s", tool_raw_item_text(w->raw, item));
        return false;
    }
    if (!w->begun &&
        !begin_output(w, item->kind == MTF_ITEM_HEADER ? item->data : NULL,
                      item->kind == MTF_ITEM_HEADER ? item->length : 0))
        return false;
    switch (item->kind) {
    case MTF_ITEM_HEADER:
        w->have_header = true;
        w->header = item->info->fixed;
        w->emit.present.random = w->header.random;
        w->emit.free_sites = (w->header.settings & MTF_SETTING_FREE_SITES) != 0;
        break;
    case MTF_ITEM_DATA:
        t = demux_add(&w->demux, item);
        if (t != NULL)
            order_add(&w->order, t);
        break;
    case MTF_ITEM_BARRIER:
        order_barrier(&w->order, item->time_lo);
        break;
    case MTF_ITEM_SAMPLE:
        order_sample(&w->order, item->time_lo, item->data, item->length);
        break;
    case MTF_ITEM_PRESENT:
        w->demux.present_events += item->length / sizeof(struct mtf_present);
        break;
    case MTF_ITEM_SITES: {
        struct mtf_event e;
        uint32_t at = 0;
        while (mtf_item_site_def(item, &at, &e))
            demux_site_def(&w->demux, &e);
        break;
    }
    case MTF_ITEM_NOTICE:
        account_notice(&w->account, item, w->quiet);
        break;
    case MTF_ITEM_DAMAGE:
        w->account.damaged_places++;
        tool_warn("%s", tool_raw_item_text(w->raw, item));
        break;
    default:
        break;
    }
    return good_so_far(w);
}

static void show_progress(struct work *w) {
    const struct emit_counts *c = &w->emit.counts;
    tool_progress_show(
        &w->progress, c->mallocs + c->frees + c->reallocs + c->memaligns,
        "events", tool_raw_stored_bytes(w->raw), tool_raw_total_bytes(w->raw));
}

/* Reads and orders everything, up to a stop; false: a message is out. */
static bool order_all(struct work *w) {
    for (;;) {
        struct mtf_item item;
        tool_raw_next(w->raw, &item);
        w->fresh = true;
        if (tool_stop_requested()) {
            w->account.interrupted = true;
            return w->begun || begin_output(w, NULL, 0);
        }
        if (!take_item(w, &item))
            return false;
        if (item.kind == MTF_ITEM_END)
            break;
        if (w->progress.shown)
            show_progress(w);
    }
    /* What was published behind the last barrier has no place yet. */
    if (!tool_raw_is_growing(w->raw))
        order_finish(&w->order);
    emit_site_defs(&w->emit);
    return good_so_far(w);
}

/* There is nothing to read; false: nobody wants more. */
static bool wait_for_input(void *ctx) {
    struct work *w = ctx;
    if (tool_stop_requested())
        return false;
    if (!w->begun) {
        (void)poll(NULL, 0, FOLLOW_MS);
        return true;
    }
    if (w->fresh) {
        emit_site_defs(&w->emit);
        if (w->filter != NULL)
            mtf_proc_flush(w->ordered);
        mtf_proc_pause(w->writer);
    }
    w->fresh = false;
    if (!w->writer->failed && !tool_output_wait(w->out, FOLLOW_MS))
        w->writer->failed = true;
    return !w->writer->failed && !w->ordered->failed;
}

/* A thread that was asked for by number and is not there is a mistake, as a
   name is that no thread has. False: a message is out. */
static bool threads_found(struct work *w) {
    const struct filter_list *l = &w->options.only;
    for (size_t i = 0; i < l->ids; i++)
        if (demux_find(&w->demux, l->id[i]) == NULL) {
            tool_error("%s: no thread %u", w->raw_name, l->id[i]);
            return false;
        }
    return true;
}

/* False: a message is out. */
static bool end_filter(struct work *w) {
    if (w->filter == NULL)
        return true;
    mtf_proc_flush(w->ordered);
    if (w->filter->failed || !filter_end(w->filter))
        w->ordered->failed = true;
    return good_so_far(w) &&
           (w->account.interrupted ||
            (threads_found(w) && filter_found(w->filter, w->raw_name)));
}

/* Reads and writes everything; false: a message is out. */
static bool work_through(struct work *w) {
    if (!order_all(w) || !end_filter(w))
        return false;
    account_finish(&w->account, w->raw, &w->order);
    if (w->filter != NULL)
        account_filter(&w->account, w->filter);
    struct mtf_account_value values[ACCOUNT_VALUES_MAX];
    size_t n = account_values(&w->account, values);
    mtf_proc_writer_end(w->writer, values, n);
    if (!good_so_far(w))
        return false;
    w->account.ops = w->writer->total_ops;
    w->account.switches = w->writer->switches;
    w->account.present_blocks = w->writer->present_blocks;
    w->account.out_bytes = w->writer->bytes;
    struct tool_output *out = w->out;
    w->out = NULL;
    char name[256];
    snprintf(name, sizeof(name), "%s", tool_output_name(out));
    if (!tool_output_close(out)) {
        tool_error("%s: %s", name, tool_file_error_text(errno));
        return false;
    }
    return true;
}

/* --- Main ----------------------------------------------------------------- */

static bool make_writers(struct work *w) {
    w->writer = w->ordered = malloc(sizeof(*w->writer));
    if (w->writer == NULL)
        return false;
    w->writer->failed = false;
    if (!w->options.active)
        return true;
    w->ordered = malloc(sizeof(*w->ordered));
    w->filter = filter_new(&w->options, w->writer);
    if (w->ordered == NULL || w->filter == NULL)
        return false;
    w->ordered->failed = false;
    return true;
}

static int run(struct work *w) {
    struct tool_json json;
    if (!filter_list_resolve(&w->options.only, w->raw_name))
        return TOOL_FAILED;
    w->raw = w->follow ? tool_raw_follow(w->raw_name, wait_for_input, w)
                       : tool_raw_open(w->raw_name);
    demux_init(&w->demux, &w->emit.slots);
    if (w->raw == NULL || !make_writers(w) ||
        !emit_init(&w->emit, &w->demux, w->ordered)) {
        out_of_memory();
        return TOOL_FAILED;
    }
    tool_raw_read_ahead(w->raw);
    tool_stop_catch();
    /* A limit is an error like a full disk. */
    (void)signal(SIGXFSZ, SIG_IGN);
    if (tool_raw_is_file(w->raw_name))
        w->emit.present.name = w->raw_name;
    w->demux.no_sites = w->options.strip || w->options.drop_sites;
    w->demux.begins_late = tool_raw_begins_late(w->raw);
    order_init(&w->order, &w->demux, &w->emit);
    if (w->options.window)
        w->order.time_step = ORDER_TIME_FINE_NS;
    tool_progress_init(&w->progress);
    if (w->json_name != NULL && !tool_json_open(&json, w->json_name))
        return TOOL_FAILED;
    bool good = work_through(w);
    tool_progress_clear(&w->progress);
    if (!good) {
        if (w->json_name != NULL)
            tool_json_drop(&json);
        return TOOL_FAILED;
    }
    if (!w->quiet)
        account_print(&w->account);
    if (!w->quiet && w->have_header && strcmp(w->raw_name, "-") != 0)
        account_tell_later(w->raw_name, &w->header);
    if (!w->quiet && w->emit.present.name == NULL &&
        w->demux.present_events != 0)
        tool_warn("%s: no file, which could be read twice: its present bytes "
                  "are left out, and replay writes all of each large block",
                  w->raw_name);
    account_tell_losses(&w->account);
    if (w->json_name != NULL) {
        account_json(&w->account, &json);
        if (!tool_json_close(&json))
            return TOOL_FAILED;
    }
    return w->account.complete ? TOOL_OK : TOOL_DAMAGED;
}

static void clean_up(struct work *w) {
    if (w->out != NULL)
        tool_output_drop(w->out);
    if (w->raw != NULL)
        tool_raw_close(w->raw);
    if (w->begun)
        free(w->writer->stack);
    if (w->ordered != w->writer) {
        if (w->begun && w->ordered != NULL)
            free(w->ordered->stack);
        free(w->ordered);
    }
    filter_free(w->filter);
    filter_options_fini(&w->options);
    order_fini(&w->order);
    demux_fini(&w->demux);
    emit_fini(&w->emit);
    free(w->writer);
}

int main(int argc, char **argv) {
    static struct work w;
    struct tool_options o;
    int id;
    /* A tool that runs this one on its own behalf gives its name. */
    bool for_other = argc > 0 && strncmp(argv[0], "malloc-trace ",
                                         strlen("malloc-trace ")) == 0;
    tool_begin(for_other ? argv[0] : "postprocess");
    filter_options_init(&w.options);
    tool_options_init(&o, argc, argv, option_table, help_text);
    while ((id = tool_option_next(&o)) > 0) {
        int status = 0;
        if (id >= FILTER_OPTION_FIRST)
            status = filter_options_take(&w.options, id, o.value);
        else if (id == OPTION_JSON)
            w.json_name = o.value;
        else if (id == OPTION_FOLLOW)
            w.follow = true;
        else
            w.compress = true;
        if (status != 0)
            return tool_end(status);
    }
    if (id < 0)
        return tool_end(o.status);
    int status = filter_options_check(&w.options);
    if (status != 0)
        return tool_end(status);
    if (o.operand_count < 1 || o.operand_count > 2)
        return tool_end(tool_usage_error(o.operand_count < 1
                                             ? "no raw trace given"
                                             : "more than two operands"));
    w.quiet = tool_is_quiet();
    w.raw_name = o.operand[0];
    w.out_name = o.operand_count == 2 ? o.operand[1] : NULL;
    if (is_terminal(w.out_name))
        return tool_end(tool_usage_error(
            "no OUT given, and standard output is a terminal"));
    const char *const outs[] = {w.out_name, w.json_name};
    if (tool_files_collide(outs, w.json_name != NULL ? 2 : 1, &w.raw_name, 1))
        return tool_end(TOOL_USAGE);
    if (w.compress && !mtf_compress_available()) {
        tool_error("-z: built without LZ4");
        return tool_end(TOOL_FAILED);
    }
    status = run(&w);
    clean_up(&w);
    return tool_end(status);
}
