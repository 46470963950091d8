/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/postprocess/account.h"

#include "common/input.h"
#include "common/main.h"
#include "common/text.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- Windows -------------------------------------------------------------- */

void account_filter(struct sort_account *a, const struct filter *f) {
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
    if (f->start_ns > a->start_ns)
        a->start_ns = f->start_ns;
    if (f->phase == FILTER_AFTER)
        a->end_ns = f->end_ns;
}

/* --- Telling -------------------------------------------------------------- */

static void print_count(const char *name, uint64_t n) {
    struct tool_text t;
    if (n != 0)
        fprintf(stderr, "  %-18s %s\n", name, tool_text_count(&t, n));
}

void account_print(const struct sort_account *a) {
    const struct tool_ops_counts *c = &a->counts;
    struct tool_text t[4];
    uint64_t time = a->end_ns > a->start_ns ? a->end_ns - a->start_ns : 0;
    fprintf(stderr, "%s event%s of %s thread%s in %s\n",
            tool_text_count(&t[0], a->events), a->events == 1 ? "" : "s",
            tool_text_count(&t[1], c->threads), c->threads == 1 ? "" : "s",
            tool_text_ns(&t[2], time));
    print_count("mallocs", c->mallocs);
    print_count("memaligns", c->memaligns);
    print_count("reallocs", c->reallocs);
    print_count("frees", c->frees);
    print_count("failed", c->failed);
    print_count("unmatched frees", c->unmatched_frees);
    print_count("unmatched reallocs", c->unmatched_reallocs);
    print_count("untraced frees", a->untraced_frees);
    print_count("dropped events", a->dropped_events);
    print_count("in prologue", a->prologue_ops);
    print_count("in epilogue", a->epilogue_ops);
    print_count("left out events", a->left_out_events);
    print_count("order conflicts", a->order_conflicts);
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
                "  the recording did not end cleanly; nothing is missing, the "
                "spool had it\n");
}

void account_json(const struct sort_account *a, struct tool_json *j) {
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

/* Up to N first bytes of NAME, decompressed. */
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

/* Tells whether NAME, or its spool alone, is a later recording of OWN's
   process. */
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

/* How many traces BASE.FROM, BASE.FROM+1 and so on are there. */
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

void account_tell_later(const char *name, const struct mtf_raw_header *own) {
    const char *dot = strrchr(name, '.');
    int length = (int)strlen(name);
    uint64_t from = 1, number;
    if (own->pid == 0) /* an artificial trace */
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
    fprintf(stderr, "  the process recorded on in %s.%" PRIu64,
            tool_text_shown(base), from);
    if (n > 1)
        fprintf(stderr, " to %s.%" PRIu64, tool_text_shown(base), from + n - 1);
    fputs(", after an exec or a new start\n", stderr);
}
