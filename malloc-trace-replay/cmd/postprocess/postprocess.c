/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * postprocess: sorts the per-thread event streams of a raw trace into one
 * stream of operations on numbered slots, which replay runs. Sorting is
 * sort/sorter.h, cutting a part of the trace is window/filter.h; options,
 * output and the summary are here.
 */
#include "base/check.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/input.h"
#include "common/json.h"
#include "common/main.h"
#include "common/opts.h"
#include "common/output.h"
#include "common/stop.h"
#include "common/text.h"
#include "sort/sorter.h"
#include "traceformat/compress.h"
#include "traceformat/proc_writer.h"
#include "window/filter.h"
#include "window/filter_options.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Time between two reads of a trace that is followed. */
#define FOLLOW_MS 100

struct work {
    const char *raw_name, *out_name, *json_name;
    bool quiet, compress, follow;
    struct sorter *sorter;
    struct tool_output *out;
    struct filter_options options;
    struct filter *filter;          /* NULL: the whole trace is written */
    struct mtf_proc_writer *writer; /* of the filter's output */
    bool begun;                     /* the output is open */
    struct tool_progress progress;
};

/* --- The account of a window ---------------------------------------------- */

/* Replaces the counts of the whole trace in A by those of the part that F has
   written. */
static void account_filter(struct sort_account *a, const struct filter *f) {
    struct tool_ops_counts all = a->counts;
    const struct filter_options *o = f->options;
    a->is_part = o->window || o->only.given || o->at_end == FILTER_FREE_AT_END;
    a->counts = f->counts;
    a->counts.unmatched_frees = all.unmatched_frees;
    a->counts.unmatched_reallocs = all.unmatched_reallocs;
    const struct tool_ops_counts *c = &a->counts;
    a->events = c->mallocs + c->memaligns + c->reallocs + c->frees + c->failed;
    a->peak_live_bytes = f->peak_live_bytes;
    a->live_at_end = f->live_objects;
    a->prologue_ops = f->prologue_ops;
    a->epilogue_ops = f->epilogue_ops;
    a->left_out_events = f->left_out;
    TCM_ASSERT(a->prologue_ops + a->epilogue_ops <= a->events - c->failed);
    if (f->start_ns > a->start_ns)
        a->start_ns = f->start_ns;
    if (f->phase == FILTER_AFTER)
        a->end_ns = f->end_ns;
}

/* --- Summary and JSON ----------------------------------------------------- */

/* Prints the summary on stderr. */
static void account_print(const struct sort_account *a) {
    const struct tool_ops_counts *c = &a->counts;
    struct tool_text t[4];
    uint64_t time = a->end_ns > a->start_ns ? a->end_ns - a->start_ns : 0;
    fprintf(stderr, "%s event%s of %s thread%s in %s\n",
            tool_text_count(&t[0], a->events), a->events == 1 ? "" : "s",
            tool_text_count(&t[1], c->threads), c->threads == 1 ? "" : "s",
            tool_text_ns(&t[2], time));
    tool_text_print_row("mallocs", c->mallocs);
    tool_text_print_row("memaligns", c->memaligns);
    tool_text_print_row("reallocs", c->reallocs);
    tool_text_print_row("frees", c->frees);
    tool_text_print_row("failed", c->failed);
    tool_text_print_row("unmatched frees", c->unmatched_frees);
    tool_text_print_row("unmatched reallocs", c->unmatched_reallocs);
    tool_text_print_row("untraced frees", a->untraced_frees);
    tool_text_print_row("wrong frees", a->wrong_frees);
    tool_text_print_row("dropped events", a->dropped_events);
    tool_text_print_row("in prologue", a->prologue_ops);
    tool_text_print_row("in epilogue", a->epilogue_ops);
    tool_text_print_row("left out events", a->left_out_events);
    tool_text_print_row("order conflicts", a->order_conflicts);
    fprintf(stderr, "  %-18s %s requested, at most %s live\n", "bytes",
            tool_text_bytes(&t[0], c->requested_bytes),
            tool_text_bytes(&t[1], a->peak_live_bytes));
    fprintf(stderr, "  %-18s %s block%s\n", "live at the end",
            tool_text_count(&t[0], a->live_at_end),
            a->live_at_end == 1 ? "" : "s");
    fprintf(stderr,
            "  %-18s %s\n  %-18s of an event: median %s us, 90 %% %s us, "
            "widest %s us\n",
            "thread switches", tool_text_count(&t[0], a->switches), "interval",
            tool_text_count(&t[1], a->median_ns / 1000),
            tool_text_count(&t[2], a->p90_ns / 1000),
            tool_text_count(&t[3], a->widest_ns / 1000));
    if (a->most_late_ns != 0)
        fprintf(stderr,
                "  %-18s of an event: median %s us, 90 %% %s us, most %s us\n",
                "out of order by",
                tool_text_count(&t[0], a->median_late_ns / 1000),
                tool_text_count(&t[1], a->p90_late_ns / 1000),
                tool_text_count(&t[2], a->most_late_ns / 1000));
    if (a->waited != 0)
        fprintf(stderr, "  %-18s %s events waited for an allocation\n",
                "hand-over", tool_text_count(&t[0], a->waited));
    fprintf(stderr, "  %-18s %s stored, %s raw, %s out\n", "size",
            tool_text_bytes(&t[0], a->file_bytes),
            tool_text_bytes(&t[1], a->raw_bytes),
            tool_text_bytes(&t[2], a->out_bytes));
    if (a->begins_late)
        fprintf(stderr, "  the beginning of the recording was not kept\n");
    if (!a->clean_end && a->complete)
        fprintf(stderr,
                "  the recording did not end cleanly; nothing is missing, "
                "because the spool has the rest\n");
}

static void account_json(const struct sort_account *a, struct tool_json *j) {
    const struct tool_ops_counts *c = &a->counts;
    tool_json_begin_object(j, NULL);
    tool_json_bool(j, "complete", a->complete);
    tool_json_bool(j, "clean_end", a->clean_end);
    tool_json_bool(j, "still_being_recorded", a->growing);
    tool_json_bool(j, "begins_late", a->begins_late);
    tool_json_bool(j, "interrupted", a->interrupted);
    tool_json_u64(j, "events", a->events);
    tool_json_u64(j, "mallocs", c->mallocs);
    tool_json_u64(j, "memaligns", c->memaligns);
    tool_json_u64(j, "reallocs", c->reallocs);
    tool_json_u64(j, "requested_bytes", c->requested_bytes);
    tool_json_u64(j, "peak_live_bytes", a->peak_live_bytes);
    tool_json_u64(j, "frees", c->frees);
    tool_json_u64(j, "failed_allocations", c->failed);
    tool_json_u64(j, "unmatched_frees", c->unmatched_frees);
    tool_json_u64(j, "unmatched_reallocs", c->unmatched_reallocs);
    tool_json_u64(j, "untraced_frees", a->untraced_frees);
    tool_json_u64(j, "wrong_frees", a->wrong_frees);
    tool_json_u64(j, "dropped_events", a->dropped_events);
    tool_json_u64(j, "threads", c->threads);
    tool_json_u64(j, "live_at_end", a->live_at_end);
    tool_json_u64(j, "order_conflicts", a->order_conflicts);
    tool_json_u64(j, "ops", a->ops);
    tool_json_u64(j, "prologue_ops", a->prologue_ops);
    tool_json_u64(j, "epilogue_ops", a->epilogue_ops);
    tool_json_u64(j, "left_out_events", a->left_out_events);
    tool_json_u64(j, "raw_bytes", a->raw_bytes);
    tool_json_u64(j, "file_bytes", a->file_bytes);
    tool_json_u64(j, "out_bytes", a->out_bytes);
    tool_json_u64(j, "thread_switches", a->switches);
    tool_json_u64(j, "present_blocks", a->present_blocks);
    tool_json_u64(j, "widest_interval_ns", a->widest_ns);
    tool_json_u64(j, "median_interval_ns", a->median_ns);
    tool_json_u64(j, "p90_interval_ns", a->p90_ns);
    tool_json_u64(j, "most_out_of_order_ns", a->most_late_ns);
    tool_json_u64(j, "median_out_of_order_ns", a->median_late_ns);
    tool_json_u64(j, "p90_out_of_order_ns", a->p90_late_ns);
    tool_json_u64(j, "waited_for_allocation", a->waited);
    tool_json_u64(j, "recorded_ns",
                  a->end_ns > a->start_ns ? a->end_ns - a->start_ns : 0);
    tool_json_u64(j, "damaged_places", a->damaged_places + a->bad_places);
    tool_json_u64(j, "lost_stream_bytes", a->lost_bytes);
    tool_json_end_object(j);
}

/* --- Where the process recorded on ---------------------------------------- */

/* Reads up to N first bytes of NAME, decompressed. Returns their number. */
static size_t read_first(const char *name, uint8_t *out, size_t n) {
    struct tool_input *in = tool_input_open(name);
    size_t length = 0, got = 0;
    if (in == NULL)
        return 0;
    while (length < n && tool_input_read(in, out + length, n - length, &got) ==
                             MTF_SOURCE_DATA)
        length += got;
    tool_input_close(in);
    return length;
}

/* Tells whether NAME, a file or a spool alone, is a later recording of the
   process with the trace header OWN. */
static bool is_later(const char *name, const struct mtf_raw_header *own) {
    static uint8_t page[MTF_SPOOL_UNIT];
    char spool[PATH_MAX + 8];
    struct mtf_raw_info info;
    size_t n = read_first(name, page, MTF_RAW_HEADER_MAX);
    enum mtf_status status = mtf_raw_parse_header(page, n, &info);
    if (n == 0) {
        (void)snprintf(spool, sizeof(spool), "%s.spool", name);
        n = read_first(spool, page, sizeof(page));
        status = mtf_spool_parse_head(page, n, &info);
    }
    return status == MTF_OK && info.fixed.pid == own->pid &&
           info.fixed.process_start == own->process_start &&
           info.fixed.random != own->random &&
           info.fixed.start_ns >= own->start_ns;
}

/* Counts the traces BASE.FROM, BASE.FROM+1 and so on. LENGTH: of BASE. */
static uint64_t later_traces(const char *base, int length, uint64_t from,
                             const struct mtf_raw_header *own) {
    char name[PATH_MAX];
    uint64_t n = 0;
    while (snprintf(name, sizeof(name), "%.*s.%" PRIu64, length, base,
                    from + n) < (int)sizeof(name) &&
           is_later(name, own))
        n++;
    return n;
}

/* Reports on stderr the later traces of the process whose trace NAME has the
   header OWN: after an exec, or when a recording was started again, a process
   writes to OUTPUT.1, OUTPUT.2 and so on. */
static void account_tell_later(const char *name,
                               const struct mtf_raw_header *own) {
    const char *dot = strrchr(name, '.');
    int length = (int)strlen(name);
    uint64_t from = 1, number;
    if (own->pid == 0) /* not recorded from a process, or stripped */
        return;
    uint64_t n = later_traces(name, length, from, own);
    /* A trace that has a number is followed by the next one. */
    if (n == 0 && dot != NULL && dot != name &&
        tool_parse_u64(dot + 1, 999999999, &number)) {
        length = (int)(dot - name);
        from = number + 1;
        n = later_traces(name, length, from, own);
    }
    if (n == 0)
        return;
    char base[PATH_MAX];
    snprintf(base, sizeof(base), "%.*s", length, name);
    fprintf(stderr, "  the process went on recording to %s.%" PRIu64,
            tool_text_shown(base), from);
    if (n > 1)
        fprintf(stderr, " to %s.%" PRIu64, tool_text_shown(base), from + n - 1);
    fputs(", after an exec or a new start\n", stderr);
}

/* --- Output --------------------------------------------------------------- */

static bool write_out(void *ctx, const void *data, size_t n) {
    struct work *w = ctx;
    return tool_output_write(w->out, data, n);
}

/* Takes the bytes that the sorter writes. */
static bool take_sorted(void *ctx, const void *data, size_t n) {
    struct work *w = ctx;
    return w->filter != NULL ? filter_take(w->filter, data, n)
                             : tool_output_write(w->out, data, n);
}

static bool grow_stack(void *ctx, uint32_t **stack, size_t *capacity) {
    (void)ctx;
    return tool_array_reserve(stack, capacity, *capacity + 1, sizeof(**stack));
}

/* Tells whether the trace would be written to a terminal, unless the user named
   /dev/stdout. */
static bool is_terminal(const char *name) {
    return (name == NULL || strcmp(name, "-") == 0) &&
           isatty(STDOUT_FILENO) == 1;
}

/* Opens the output. HEADER: of the raw trace, LENGTH bytes; a filter writes the
   header itself, made of HEADER. */
static bool begin_output(void *ctx, const void *header, uint32_t length) {
    struct work *w = ctx;
    w->out = tool_output_open(w->out_name, w->compress ? TOOL_OUTPUT_LZ4
                                                       : TOOL_OUTPUT_PLAIN);
    if (w->out == NULL) {
        tool_error("%s: %s", w->out_name == NULL ? "stdout" : w->out_name,
                   tool_file_error_text(errno));
        return false;
    }
    w->begun = true;
    if (w->filter == NULL)
        return true;
    uint8_t own[MTF_RAW_HEADER_MAX];
    uint32_t own_length = 0;
    if (length != 0)
        own_length = (uint32_t)filter_header(w->filter, header, length, own);
    mtf_proc_writer_begin(w->writer, write_out, grow_stack, w, own, own_length);
    return !w->writer->failed;
}

/* Reports why the sorter or the filter failed. Returns false. */
static bool tell_failure(const struct work *w) {
    const char *problem = sorter_problem(w->sorter);
    int error = w->out == NULL ? 0 : tool_output_error(w->out);
    if (problem != NULL)
        tool_error("%s", problem);
    else if (error != 0)
        tool_error("%s: %s", tool_output_name(w->out),
                   tool_file_error_text(error));
    else if (w->out != NULL)
        tool_out_of_memory();
    return false;
}

/* --- Reading -------------------------------------------------------------- */

static void show_progress(struct work *w) {
    tool_progress_show(&w->progress, sorter_events(w->sorter), "events",
                       sorter_stored_bytes(w->sorter),
                       sorter_total_bytes(w->sorter));
}

/* Waits for more of a trace that is followed. False: nobody reads the output
   any more. */
static bool wait_for_input(void *ctx, bool fresh) {
    struct work *w = ctx;
    if (!w->begun) {
        (void)poll(NULL, 0, FOLLOW_MS);
        return true;
    }
    if (fresh && w->filter != NULL)
        mtf_proc_pause(w->writer);
    return (w->filter == NULL || !w->writer->failed) &&
           tool_output_wait(w->out, FOLLOW_MS);
}

/* Tells whether all threads that --only-threads has by number are in the trace.
   False: a message is out; like a name that no thread has, it is an error. */
static bool threads_found(const struct work *w) {
    const struct filter_list *l = &w->options.only;
    for (size_t i = 0; i < l->ids; i++)
        if (!sorter_has_thread(w->sorter, l->id[i])) {
            tool_error("%s: no thread %u", w->raw_name, l->id[i]);
            return false;
        }
    return true;
}

/* Ends the output of a filter with its account. False: a message is out. */
static bool end_filter(struct work *w) {
    if (!sorter_end_part(w->sorter) || w->filter->failed ||
        !filter_end(w->filter))
        return tell_failure(w);
    struct sort_account *a = sorter_account(w->sorter);
    if (!a->interrupted &&
        !(threads_found(w) && filter_found(w->filter, w->raw_name)))
        return false;
    account_filter(a, w->filter);
    sort_account_end(a, w->writer);
    return !w->writer->failed || tell_failure(w);
}

/* Sorts the whole trace, up to a signal to stop. False: a message is out. */
static bool order_all(struct work *w) {
    enum sorter_step step;
    while ((step = sorter_step(w->sorter)) == SORTER_MORE)
        if (w->progress.shown)
            show_progress(w);
    if (step == SORTER_FAILED)
        return tell_failure(w);
    if (w->filter != NULL)
        return end_filter(w);
    return sorter_end(w->sorter) || tell_failure(w);
}

/* Sorts the trace and closes the output. False: a message is out. */
static bool work_through(struct work *w) {
    if (!order_all(w))
        return false;
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

static bool make_filter(struct work *w) {
    if (!w->options.active)
        return true;
    w->writer = malloc(sizeof(*w->writer));
    if (w->writer == NULL)
        return false;
    w->writer->failed = false;
    w->filter = filter_new(&w->options, w->writer);
    return w->filter != NULL;
}

static struct sorter *make_sorter(struct work *w) {
    return sorter_new(&(struct sorter_options){
        .name = w->raw_name,
        .quiet = w->quiet,
        .no_sites = w->options.strip || w->options.drop_sites,
        .is_part = w->filter != NULL,
        .fine_times = w->options.window,
        .begin = begin_output,
        .write = take_sorted,
        .wait = w->follow ? wait_for_input : NULL,
        .ctx = w});
}

static int run(struct work *w) {
    struct tool_json json;
    if (!filter_list_resolve(&w->options.only, w->raw_name))
        return TOOL_FAILED;
    if (!make_filter(w) || (w->sorter = make_sorter(w)) == NULL) {
        tool_out_of_memory();
        return TOOL_FAILED;
    }
    tool_stop_catch();
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
    const struct sort_account *account = sorter_account(w->sorter);
    const struct mtf_raw_header *header = sorter_header(w->sorter);
    if (!w->quiet)
        account_print(account);
    if (!w->quiet && header != NULL && strcmp(w->raw_name, "-") != 0)
        account_tell_later(w->raw_name, header);
    int status = sorter_tell(w->sorter);
    if (w->json_name != NULL) {
        account_json(account, &json);
        if (!tool_json_close(&json))
            return TOOL_FAILED;
    }
    return status;
}

static void clean_up(struct work *w) {
    if (w->out != NULL)
        tool_output_drop(w->out);
    sorter_free(w->sorter);
    if (w->begun && w->writer != NULL)
        free(w->writer->stack);
    free(w->writer);
    filter_free(w->filter);
    filter_options_fini(&w->options);
}

int main(int argc, char **argv) {
    static struct work w;
    struct tool_opts o;
    enum { OWN_ROWS = 3 };
    struct tool_opt opts[OWN_ROWS + FILTER_ROWS + 1] = {
        {.letter = 'z',
         .name = "compress",
         .help = "write LZ4 frames",
         .flag = &w.compress},
        {.name = "follow",
         .help = "read on while RAW is being recorded, or is a pipe; write "
                 "events as soon as their place is known",
         .flag = &w.follow},
        {.name = "json",
         .value = "FILE",
         .help = "write the summary as JSON to FILE (- for standard output, "
                 "when OUT is a file)",
         .text = &w.json_name}};
    const struct tool_command command = {
        .usage = "postprocess [OPTION]... RAW [OUT]",
        .about = "Sort the per-thread event streams of the raw trace RAW (a "
                 "file, a spool, a pipe, or - for standard input; plain, LZ4, "
                 "gzip, zstd) into one stream of operations for replay, and "
                 "write it to OUT (- or nothing: standard output), as in "
                 "'postprocess t.lz4 - | lz4 > p.lz4'.",
        .opts = opts,
        .quiet = "no summary and no progress",
        .notes = "Exit status: 0 success; 1 system error, or RAW is no raw "
                 "trace; 2 usage; 3 RAW is cut, damaged, still being recorded "
                 "or known to lack events, or SIGINT or SIGTERM came: all that "
                 "could be recovered, or was read until then, is written."};
    tool_begin("postprocess");
    filter_options_init(&w.options);
    filter_options_rows(&w.options, opts + OWN_ROWS);
    if (!tool_opts_parse(&o, &command, argc, argv))
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
