/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/print.h"

#include "common/files.h"
#include "common/main.h"
#include "common/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Threads of a row that the text has. */
#define SHARES_SHOWN 4u
/* Columns of the text before the rows' names, and of a line of callers. */
#define TEXT_COLUMNS    82
#define CALLERS_COLUMNS 100

static size_t shown(const struct rows *r, const struct print_options *o) {
    return r->count < o->top ? r->count : o->top;
}

static uint64_t mean_ns(const struct tally *t) {
    return t->ended == 0 ? 0 : t->life_ns / t->ended;
}

static double mean_bytes(const struct tally *t) {
    return t->ended == 0 ? 0 : t->life_bytes / (double)t->ended;
}

/* --- Text ----------------------------------------------------------------- */

static void put_line(const struct tally *t, const char *location) {
    struct tool_text a, b, c, d, e, f, g;
    printf("%10s %13s %10s %13s %10s %10s %6s  %s\n",
           tool_text_bytes(&a, t->bytes), tool_text_count(&b, t->calls),
           tool_text_bytes(&c, t->live_bytes), tool_text_count(&d, t->live),
           tool_text_bytes(&e, t->at_peak_bytes),
           t->ended == 0 ? "-" : tool_text_ns(&f, mean_ns(t)),
           t->calls == 0 ? "-" : tool_text_percent(&g, t->temporary, t->calls),
           location);
}

static void put_change(double now, double before, bool bytes) {
    struct tool_text t;
    double change = now - before;
    uint64_t size = (uint64_t)(change < 0 ? -change : change);
    char text[40];
    snprintf(text, sizeof(text), "%s%s",
             change < 0   ? "-"
             : change > 0 ? "+"
                          : "",
             bytes ? tool_text_bytes(&t, size) : tool_text_count(&t, size));
    printf("%*s ", bytes ? 11 : 14, text);
}

static void put_difference(const struct tally *now, const struct tally *before,
                           const char *location) {
    put_change((double)now->bytes, (double)before->bytes, true);
    put_change((double)now->calls, (double)before->calls, false);
    put_change((double)now->live_bytes, (double)before->live_bytes, true);
    put_change((double)now->live, (double)before->live, false);
    put_change((double)now->at_peak_bytes, (double)before->at_peak_bytes, true);
    printf(" %s\n", location);
}

static void print_differences(const struct rows *r,
                              const struct print_options *o) {
    printf("%11s %14s %11s %14s %11s  %s\n", "bytes", "calls", "live", "blocks",
           "at peak", o->by);
    put_difference(&r->total, &r->old_total, "all");
    for (size_t i = 0; i < shown(r, o); i++)
        put_difference(&r->row[i].sum, &r->row[i].old, r->row[i].location);
}

static void put_summary(const struct tally *all, const struct print_options *o,
                        const char *name) {
    struct tool_text text[4];
    printf("%s: %s asked for in %s calls; %s alive in %s blocks %s\n",
           tool_text_shown(name), tool_text_bytes(&text[0], all->bytes),
           tool_text_count(&text[1], all->calls),
           tool_text_bytes(&text[2], all->live_bytes),
           tool_text_count(&text[3], all->live), o->when);
}

void print_head(const struct rows *r, const struct tallies *t,
                const struct print_options *o) {
    struct tool_text text[2];
    char several[40];
    snprintf(several, sizeof(several), "%u traces", t->traces);
    put_summary(t->sampled ? &t->exact : &r->total, o,
                t->traces > 1 ? several : o->name);
    if (t->running)
        printf("still being recorded: what follows is up to now\n");
    if (t->traces > 1)
        printf("peaks: %s, the sum of each one's\n",
               tool_text_bytes(&text[0], t->peak_bytes));
    else
        printf("peak: %s after %s\n", tool_text_bytes(&text[0], t->peak_bytes),
               tool_text_ns(&text[1], t->peak_ns > t->start_ns
                                          ? t->peak_ns - t->start_ns
                                          : 0));
    if (t->sampled)
        printf("what follows is estimated from %s samples, one in about %s\n",
               tool_text_count(&text[0], r->total.samples),
               tool_text_bytes(&text[1], t->mean));
}

/* The stacks that have most of a row. */
static void put_callers(size_t row, const char *location, double all,
                        const struct print_options *o) {
    const struct callers_top *top;
    for (size_t i = 0; o->callers != NULL && all > 0 &&
                       (top = callers_of(o->callers, row, i)) != NULL;
         i++) {
        /* The row may name the innermost function. */
        const char *first = stacks_text(&o->callers->stacks, top->node);
        bool named = strncmp(location, first, strlen(first)) == 0;
        char *text =
            callers_text(o->callers, row, i, named ? 1 : 0, CALLERS_COLUMNS);
        if (text != NULL)
            printf("%*s%5.1f %% %s\n", TEXT_COLUMNS, "", 100 * top->value / all,
                   text);
        free(text);
    }
}

/* The threads that have most of a row. */
static void put_shares(const struct rows *r, const struct row *row,
                       const struct print_options *o) {
    size_t count;
    const struct rows_share **share = rows_shares(r, row, o->sort, &count);
    double all = rows_value(&row->sum, o->sort);
    for (size_t i = 0; i < count && i < SHARES_SHOWN && all > 0; i++)
        printf("%*s%5.1f %% by thread %s\n", TEXT_COLUMNS, "",
               100 * rows_value(&share[i]->sum, o->sort) / all,
               r->texts.text[share[i]->thread]);
    if (count > SHARES_SHOWN)
        printf("%*s        and %zu more threads\n", TEXT_COLUMNS, "",
               count - SHARES_SHOWN);
    free(share);
}

void print_rows(const struct rows *r, const struct print_options *o) {
    struct tool_text text[1];
    const struct tally *all = &r->total;
    if (o->diff) {
        print_differences(r, o);
    } else {
        printf("%10s %13s %10s %13s %10s %10s %6s  %s\n", "bytes", "calls",
               "live", "blocks", "at peak", "mean life", "temp.", o->by);
        put_line(all, "all");
        for (size_t i = 0; i < shown(r, o); i++) {
            put_line(&r->row[i].sum, r->row[i].location);
            put_callers(i, r->row[i].location,
                        rows_value(&r->row[i].sum, o->sort), o);
            put_shares(r, &r->row[i], o);
        }
    }
    if (shown(r, o) < r->count)
        printf("%s more rows; --top=%zu shows all\n",
               tool_text_count(&text[0], r->count - shown(r, o)), r->count);
}

void print_columns(const struct rows *r, const struct print_options *o) {
    /* Differences wrap, too: what was before is 0 without another trace. */
    for (size_t i = 0; i < shown(r, o); i++) {
        const struct row *row = &r->row[i];
        printf("%16" PRId64 " %12" PRId64 " %s\n",
               (int64_t)(row->sum.bytes - row->old.bytes),
               (int64_t)(row->sum.calls - row->old.calls), row->location);
    }
}

/* --- CSV ------------------------------------------------------------------ */

void print_csv_text(FILE *f, const char *text) {
    if (strpbrk(text, "\",\n\r") == NULL) {
        fputs(text, f);
        return;
    }
    fputc('"', f);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', f);
        fputc(*text, f);
    }
    fputc('"', f);
}

static void put_csv(FILE *f, const struct tally *t, bool sampled) {
    fprintf(f,
            ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
            ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
            ",%" PRIu64 ",%.0f,%" PRIu64 ",%" PRIu64 ",%" PRIu64,
            t->bytes, t->calls, t->live_bytes, t->live, t->at_peak_bytes,
            t->at_peak, t->ended, t->temporary, t->foreign, mean_ns(t),
            t->life_ns_max, mean_bytes(t), t->life_bytes_max, t->largest,
            t->failed);
    if (sampled)
        fprintf(f, ",%" PRIu64, t->samples);
}

/* A line for each thread of the row. */
static void put_csv_shares(FILE *f, const struct rows *r, const struct row *row,
                           const struct tallies *t,
                           const struct print_options *o) {
    size_t count;
    const struct rows_share **share = rows_shares(r, row, o->sort, &count);
    for (size_t i = 0; i < count; i++) {
        print_csv_text(f, row->location);
        put_csv(f, &share[i]->sum, t->sampled);
        fputc(',', f);
        print_csv_text(f, r->texts.text[share[i]->thread]);
        fputc('\n', f);
    }
    free(share);
}

bool print_csv(const struct rows *r, const struct tallies *t,
               const struct print_options *o, const char *file) {
    FILE *f = tool_file_stream(file);
    if (f == NULL)
        return false;
    fprintf(f,
            "%s,bytes,calls,live_bytes,live_blocks,peak_bytes,peak_blocks,"
            "ended,temporary,freed_by_others,life_ns_mean,life_ns_max,"
            "life_bytes_mean,life_bytes_max,largest,failed%s%s%s\n",
            o->by, t->sampled ? ",samples" : "",
            o->diff ? ",old_bytes,old_calls,old_live_bytes" : "",
            t->options.threads ? ",thread" : "");
    for (size_t i = 0; i < shown(r, o); i++) {
        if (t->options.threads) {
            put_csv_shares(f, r, &r->row[i], t, o);
            continue;
        }
        print_csv_text(f, r->row[i].location);
        put_csv(f, &r->row[i].sum, t->sampled);
        if (o->diff)
            fprintf(f, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, r->row[i].old.bytes,
                    r->row[i].old.calls, r->row[i].old.live_bytes);
        fputc('\n', f);
    }
    return tool_file_stream_end(f, file);
}

/* --- JSON ----------------------------------------------------------------- */

static void put_json(struct tool_json *j, const struct tally *t) {
    tool_json_u64(j, "bytes", t->bytes);
    tool_json_u64(j, "calls", t->calls);
    tool_json_u64(j, "live_bytes", t->live_bytes);
    tool_json_u64(j, "live_blocks", t->live);
    tool_json_u64(j, "peak_bytes", t->at_peak_bytes);
    tool_json_u64(j, "peak_blocks", t->at_peak);
    tool_json_u64(j, "ended", t->ended);
    tool_json_u64(j, "temporary", t->temporary);
    tool_json_u64(j, "freed_by_others", t->foreign);
    tool_json_u64(j, "life_ns_mean", mean_ns(t));
    tool_json_u64(j, "life_ns_max", t->life_ns_max);
    tool_json_double(j, "life_bytes_mean", mean_bytes(t));
    tool_json_u64(j, "life_bytes_max", t->life_bytes_max);
    tool_json_u64(j, "largest", t->largest);
    tool_json_u64(j, "failed", t->failed);
}

static void put_json_old(struct tool_json *j, const struct tally *old) {
    tool_json_u64(j, "old_bytes", old->bytes);
    tool_json_u64(j, "old_calls", old->calls);
    tool_json_u64(j, "old_live_bytes", old->live_bytes);
}

static void put_json_shares(struct tool_json *j, const struct rows *r,
                            const struct row *row,
                            const struct print_options *o) {
    size_t count;
    const struct rows_share **share = rows_shares(r, row, o->sort, &count);
    tool_json_begin_array(j, "threads");
    for (size_t i = 0; i < count; i++) {
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "thread", r->texts.text[share[i]->thread]);
        put_json(j, &share[i]->sum);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
    free(share);
}

static void put_json_callers(struct tool_json *j, size_t row,
                             const struct print_options *o) {
    const struct stacks *s = &o->callers->stacks;
    const struct callers_top *top;
    tool_json_begin_array(j, "stacks");
    for (size_t i = 0; (top = callers_of(o->callers, row, i)) != NULL; i++) {
        tool_json_begin_object(j, NULL);
        tool_json_double(j, "value", top->value);
        tool_json_begin_array(j, "frames");
        for (uint32_t n = top->node; n != 0; n = s->node[n].parent)
            tool_json_string(j, NULL, stacks_text(s, n));
        tool_json_end_array(j);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

void print_json(const struct rows *r, const struct tallies *t,
                const struct print_options *o, struct tool_json *j) {
    tool_json_string(j, "file", o->name);
    tool_json_string(j, "by", o->by);
    tool_json_string(j, "live", o->when);
    tool_json_u64(j, "sited_calls", t->sited);
    tool_json_u64(j, "trace_peak_bytes", t->peak_bytes);
    tool_json_u64(j, "traces", t->traces);
    tool_json_bool(j, "still_being_recorded", t->running);
    tool_json_bool(j, "estimated", t->sampled);
    if (t->sampled) {
        tool_json_u64(j, "mean_bytes_between_samples", t->mean);
        tool_json_begin_object(j, "exact_total");
        put_json(j, &t->exact);
        tool_json_end_object(j);
    }
    tool_json_begin_object(j, "total");
    put_json(j, &r->total);
    if (o->diff)
        put_json_old(j, &r->old_total);
    tool_json_end_object(j);
    tool_json_begin_array(j, "rows");
    for (size_t i = 0; i < shown(r, o); i++) {
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "location", r->row[i].location);
        put_json(j, &r->row[i].sum);
        if (t->sampled)
            tool_json_u64(j, "samples", r->row[i].sum.samples);
        if (t->options.threads)
            put_json_shares(j, r, &r->row[i], o);
        if (o->callers != NULL)
            put_json_callers(j, i, o);
        if (o->diff)
            put_json_old(j, &r->row[i].old);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}
