/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/report_print.h"

#include "base/bits.h"
#include "base/check.h"
#include "cmd/malloc_trace/report/report_frames.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/main.h"
#include "common/text.h"
#include "symbols/symbol_modules.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most threads below a row of the text. */
#define SHARES_SHOWN 4u
/* Columns of figures: bytes, and a percentage of blocks. */
#define BYTES_COLUMNS 8
#define SHARE_COLUMNS 5
/* Columns before the share of a stack or a thread, and before its text. */
#define SHARE_INDENT 6
#define STACK_INDENT (SHARE_INDENT + 8)
/* Columns of a stack beyond which library frames are left out. */
#define CALLERS_COLUMNS 100
/* Fewest columns of a frame in the tree. */
#define FRAME_COLUMNS 24u

static size_t shown(const struct report_rows *r,
                    const struct report_print_options *o) {
    return r->count < o->top ? r->count : o->top;
}

static double mean_bytes(const struct report_tally *t) {
    return t->ended == 0 ? 0 : t->life_bytes / (double)t->ended;
}

/* --- Layout of the text --------------------------------------------------- */

/* Columns of the figures of a table. */
struct layout {
    int bytes, calls, blocks, life;
    int lead;       /* blanks in front of them */
    size_t figures; /* all of that */
    size_t columns; /* of a line */
    bool apart;     /* labels stand above the figures, on lines of their own */
    bool functions; /* labels are names of functions */
};

static int larger(int a, size_t b) {
    return a > (int)b ? a : (int)b;
}

/* Columns of a count of at most MOST, with SIGNS in front of it, under HEAD. */
static int count_columns(const char *head, uint64_t most, int signs) {
    struct tool_text t;
    return larger((int)strlen(head),
                  strlen(tool_text_count(&t, most)) + (size_t)signs);
}

/* Layout for counts of at most CALLS and BLOCKS; DIFF: they have signs. */
static struct layout layout_of(uint64_t calls, uint64_t blocks, bool diff,
                               size_t columns) {
    struct layout l = {.bytes = BYTES_COLUMNS + diff, .columns = columns};
    l.calls = count_columns("calls", calls, diff);
    l.blocks = count_columns("blocks", blocks, diff);
    l.life = (int)strlen("mean life");
    return l;
}

static struct layout make_layout(const struct report_rows *r,
                                 const struct report_print_options *o) {
    struct tool_text t;
    size_t label = strlen(o->by);
    struct layout l = layout_of(tcm_max_u64(r->total.calls, r->old_total.calls),
                                tcm_max_u64(r->total.live, r->old_total.live),
                                o->diff, o->columns);
    for (size_t i = 0; i < shown(r, o); i++) {
        const struct report_row *row = &r->row[i];
        size_t width = tool_text_width(row->location);
        label = width > label ? width : label;
        l.life = larger(
            l.life, strlen(tool_text_ns(&t, report_tally_mean_ns(&row->sum))));
    }
    l.functions = strcmp(o->by, "function") == 0;
    l.figures = (size_t)(3 * l.bytes + l.calls + l.blocks + 4);
    if (!o->diff)
        l.figures += (size_t)(l.life + SHARE_COLUMNS + 2);
    l.apart = l.figures + 2 + label > l.columns;
    l.lead = l.apart ? 2 : 0;
    return l;
}

/* --- Text ----------------------------------------------------------------- */

/* LABEL, maybe in ROOM, for a line of its own. One that is too long loses the
   type of a C++ function's result, as its middle is cut out, where the name
   would be. The name of a function alone is shortened as such. */
static const char *fitting_label(const struct layout *l,
                                 struct tool_text_line *room,
                                 const char *label) {
    if (l->functions)
        return report_stacks_fitting(room, label, l->columns - 2);
    const char *name = report_frame_qualified(label);
    bool is_name =
        strchr("([", *name) == NULL || strncmp(name, "(anonymous", 10) == 0;
    return is_name && tool_text_width(label) + 2 > l->columns &&
                   strstr(label, " < ") == NULL
               ? name
               : label;
}

/* Puts LABEL above the figures, or ends their line with it. ABOVE: the figures
   are not printed yet. */
static void put_label(const struct layout *l, bool above, const char *label) {
    struct tool_text_line room;
    if (above && l->apart)
        tool_text_put_chain(stdout, fitting_label(l, &room, label), 0, 2,
                            l->columns);
    if (!above && l->apart)
        putchar('\n');
    else if (!above)
        printf("  %s\n", label);
}

static void put_heads(const struct layout *l,
                      const struct report_print_options *o) {
    put_label(l, true, o->by);
    printf("%*s%*s %*s %*s %*s %*s", l->lead, "", l->bytes, "bytes", l->calls,
           "calls", l->bytes, "live", l->blocks, "blocks", l->bytes, "at peak");
    if (!o->diff)
        printf(" %*s %*s", l->life, "mean life", SHARE_COLUMNS, "temp.");
    put_label(l, false, o->by);
}

static void put_line(const struct layout *l, const struct report_tally *t,
                     const char *label) {
    struct tool_text a, b, c, d, e, f, g;
    put_label(l, true, label);
    printf("%*s%*s %*s %*s %*s %*s %*s %*s", l->lead, "", l->bytes,
           tool_text_bytes(&a, t->bytes), l->calls,
           tool_text_count(&b, t->calls), l->bytes,
           tool_text_bytes(&c, t->live_bytes), l->blocks,
           tool_text_count(&d, t->live), l->bytes,
           tool_text_bytes(&e, t->at_peak_bytes), l->life,
           t->ended == 0 ? "-" : tool_text_ns(&f, report_tally_mean_ns(t)),
           SHARE_COLUMNS,
           t->calls == 0 ? "-" : tool_text_percent(&g, t->temporary, t->calls));
    put_label(l, false, label);
}

static const char *change_text(char text[40], double now, double before,
                               bool bytes) {
    struct tool_text t;
    uint64_t size = (uint64_t)fabs(now - before);
    snprintf(text, 40, "%s%s",
             now < before   ? "-"
             : now > before ? "+"
                            : "",
             bytes ? tool_text_bytes(&t, size) : tool_text_count(&t, size));
    return text;
}

static void put_difference(const struct layout *l,
                           const struct report_tally *now,
                           const struct report_tally *before,
                           const char *label) {
    char text[40];
    put_label(l, true, label);
    printf("%*s%*s", l->lead, "", l->bytes,
           change_text(text, (double)now->bytes, (double)before->bytes, true));
    printf(" %*s", l->calls,
           change_text(text, (double)now->calls, (double)before->calls, false));
    printf(" %*s", l->bytes,
           change_text(text, (double)now->live_bytes,
                       (double)before->live_bytes, true));
    printf(" %*s", l->blocks,
           change_text(text, (double)now->live, (double)before->live, false));
    printf(" %*s", l->bytes,
           change_text(text, (double)now->at_peak_bytes,
                       (double)before->at_peak_bytes, true));
    put_label(l, false, label);
}

/* Prints the sums in one line. */
static void put_summary(const struct report_tallies *t,
                        const struct report_tally *all,
                        const struct report_print_options *o) {
    struct tool_text text[5];
    struct tool_text_line room;
    char several[40], part[60] = "", sums[200];
    snprintf(several, sizeof(several), "%u traces", t->traces);
    if (o->filtered)
        snprintf(part, sizeof(part), "%s at the ",
                 tool_text_bytes(&text[4], all->at_peak_bytes));
    snprintf(sums, sizeof(sums), ": %s in %s call%s; %speak%s %s%s; %s live %s",
             tool_text_bytes(&text[0], all->bytes),
             tool_text_count(&text[1], all->calls), all->calls == 1 ? "" : "s",
             part, t->traces > 1 ? "s" : "", o->filtered ? "of " : "",
             tool_text_bytes(&text[2], t->peak_bytes),
             tool_text_bytes(&text[3], all->live_bytes), o->when);
    size_t used = tool_text_width(sums), least = 16;
    printf("%s%s\n",
           tool_text_middle(
               &room, t->traces > 1 ? several : tool_text_shown(o->name),
               used + least < o->columns ? o->columns - used : least),
           sums);
}

void report_print_head(const struct report_rows *r,
                       const struct report_tallies *t,
                       const struct report_print_options *o) {
    struct tool_text text[2];
    put_summary(t, t->sampled ? &t->exact : &r->total, o);
    if (t->running)
        printf("still being recorded: what follows is up to now\n");
    if (t->sampled)
        printf("what follows is estimated from %s samples, one in about %s\n",
               tool_text_count(&text[0], r->total.samples),
               tool_text_bytes(&text[1], t->mean));
}

void report_print_bare(FILE *f, const struct report_rows *r) {
    if (r->bare_bytes > r->total.bytes / 100)
        fprintf(f, "no debug information of %s: %s\n",
                tool_text_shown(tool_file_base(r->bare_module)),
                tool_text_shown(r->bare_remedy));
    if (r->lacks != NULL)
        fprintf(f, "names stay mangled: this build lacks %s\n", r->lacks);
}

void report_print_wrong_frees(FILE *f, const struct report_tallies *t) {
    struct tool_text text;
    if (t->wrong_frees != 0)
        fprintf(f,
                "%s wrong free%s, as of blocks freed before: "
                "malloc-trace report --errors shows %s\n",
                tool_text_count(&text, t->wrong_frees),
                t->wrong_frees == 1 ? "" : "s",
                t->wrong_frees == 1 ? "it" : "them");
}

void report_print_notes(const struct report_rows *r,
                        const struct report_tallies *t) {
    struct tool_text text;
    if (t->sites.mode.mode == MTF_SITE_MODE_CALLER &&
        r->library_bytes > r->total.bytes / 100)
        printf("%s are named by library functions: record with --sites=stack "
               "for callers\n",
               tool_text_bytes(&text, r->library_bytes));
    report_print_wrong_frees(stdout, t);
    report_print_bare(stdout, r);
}

/* Prints the largest stacks of the row at index ROW, with their shares of
   ALL. */
static void put_callers(size_t row, const char *location, double all,
                        const struct report_print_options *o) {
    const struct report_callers_top *top;
    for (size_t i = 0; o->callers != NULL && all > 0 &&
                       (top = report_callers_of(o->callers, row, i)) != NULL;
         i++) {
        /* A row that names the innermost function has it already. */
        const char *first = report_stacks_text(&o->callers->stacks, top->node);
        bool named = strncmp(location, first, strlen(first)) == 0;
        char *text = report_callers_text(o->callers, row, i, named ? 1 : 0,
                                         CALLERS_COLUMNS);
        if (text != NULL) {
            printf("%*s%5.1f %% ", SHARE_INDENT, "", 100 * top->value / all);
            tool_text_put_chain(stdout, text, STACK_INDENT, STACK_INDENT,
                                o->columns);
        }
        free(text);
    }
}

/* Prints the largest shares of threads of ROW. */
static void put_shares(const struct report_rows *r,
                       const struct report_row *row,
                       const struct report_print_options *o) {
    size_t count;
    const struct report_share **share =
        report_rows_shares(r, row, o->sort, &count);
    double all = report_rows_value(&row->sum, o->sort);
    for (size_t i = 0; i < count && i < SHARES_SHOWN && all > 0; i++)
        printf("%*s%5.1f %% by thread %s\n", SHARE_INDENT, "",
               100 * report_rows_value(&share[i]->sum, o->sort) / all,
               r->texts.text[share[i]->thread]);
    if (count > SHARES_SHOWN)
        printf("%*sand %zu more threads\n", STACK_INDENT, "",
               count - SHARES_SHOWN);
    free(share);
}

/* True if no figure of the text differs. */
static bool is_unchanged(const struct report_row *row) {
    const struct report_tally *now = &row->sum, *before = &row->old;
    return now->bytes == before->bytes && now->calls == before->calls &&
           now->live_bytes == before->live_bytes && now->live == before->live &&
           now->at_peak_bytes == before->at_peak_bytes;
}

/* Prints the row at index I. */
static void put_row(const struct layout *l, const struct report_rows *r,
                    size_t i, const struct report_print_options *o) {
    const struct report_row *row = &r->row[i];
    if (o->diff) {
        put_difference(l, &row->sum, &row->old, row->location);
        return;
    }
    put_line(l, &row->sum, row->location);
    put_callers(i, row->location, report_rows_value(&row->sum, o->sort), o);
    put_shares(r, row, o);
}

void report_print_rows(const struct report_rows *r,
                       const struct report_print_options *o) {
    struct tool_text text;
    struct layout l = make_layout(r, o);
    size_t changed = 0, unchanged = 0;
    if (r->count == 0 && o->filtered)
        printf("no rows are left\n");
    put_heads(&l, o);
    for (size_t i = 0; i < r->count; i++) {
        if (o->diff && is_unchanged(&r->row[i]))
            unchanged++;
        else if (changed++ < o->top)
            put_row(&l, r, i, o);
    }
    if (o->diff)
        put_difference(&l, &r->total, &r->old_total, "all");
    else
        put_line(&l, &r->total, "all");
    if (changed > o->top)
        printf("%s more row%s; --top=%zu shows all\n",
               tool_text_count(&text, changed - o->top),
               changed - o->top == 1 ? "" : "s", changed);
    if (unchanged != 0)
        printf("%s row%s without a difference\n",
               tool_text_count(&text, unchanged), unchanged == 1 ? "" : "s");
    if (!o->diff && r->total.temporary != 0)
        printf("temp.: blocks that their thread freed or resized in its very "
               "next call\n");
}

void report_print_columns(const struct report_rows *r,
                          const struct report_print_options *o) {
    /* Differences may be negative; without another trace the old sums are 0. */
    for (size_t i = 0; i < shown(r, o); i++) {
        const struct report_row *row = &r->row[i];
        printf("%16" PRId64 " %12" PRId64 " %s\n",
               (int64_t)(row->sum.bytes - row->old.bytes),
               (int64_t)(row->sum.calls - row->old.calls), row->location);
    }
}

/* --- CSV ------------------------------------------------------------------ */

void report_print_csv_text(FILE *f, const char *text) {
    if (strpbrk(text, "\",\n\r") == NULL) {
        fputs(text, f);
        return;
    }
    tool_csv_put_quoted(f, text);
}

static void put_csv(FILE *f, const struct report_tally *t, bool sampled) {
    fprintf(f,
            ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
            ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
            ",%" PRIu64 ",%.0f,%" PRIu64 ",%" PRIu64 ",%" PRIu64,
            t->bytes, t->calls, t->live_bytes, t->live, t->at_peak_bytes,
            t->at_peak, t->ended, t->temporary, t->foreign,
            report_tally_mean_ns(t), t->life_ns_max, mean_bytes(t),
            t->life_bytes_max, t->largest, t->failed);
    if (sampled)
        fprintf(f, ",%" PRIu64, t->samples);
}

/* Writes a line for each thread of ROW. */
static void put_csv_shares(FILE *f, const struct report_rows *r,
                           const struct report_row *row,
                           const struct report_tallies *t,
                           const struct report_print_options *o) {
    size_t count;
    const struct report_share **share =
        report_rows_shares(r, row, o->sort, &count);
    for (size_t i = 0; i < count; i++) {
        report_print_csv_text(f, row->location);
        put_csv(f, &share[i]->sum, t->sampled);
        fputc(',', f);
        report_print_csv_text(f, r->texts.text[share[i]->thread]);
        fputc('\n', f);
    }
    free(share);
}

bool report_print_csv(const struct report_rows *r,
                      const struct report_tallies *t,
                      const struct report_print_options *o, const char *file) {
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
        report_print_csv_text(f, r->row[i].location);
        put_csv(f, &r->row[i].sum, t->sampled);
        if (o->diff)
            fprintf(f, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, r->row[i].old.bytes,
                    r->row[i].old.calls, r->row[i].old.live_bytes);
        fputc('\n', f);
    }
    return tool_file_stream_end(f, file);
}

/* --- JSON ----------------------------------------------------------------- */

static void put_json(struct tool_json *j, const struct report_tally *t) {
    tool_json_u64(j, "bytes", t->bytes);
    tool_json_u64(j, "calls", t->calls);
    tool_json_u64(j, "live_bytes", t->live_bytes);
    tool_json_u64(j, "live_blocks", t->live);
    tool_json_u64(j, "peak_bytes", t->at_peak_bytes);
    tool_json_u64(j, "peak_blocks", t->at_peak);
    tool_json_u64(j, "ended", t->ended);
    tool_json_u64(j, "temporary", t->temporary);
    tool_json_u64(j, "freed_by_others", t->foreign);
    tool_json_u64(j, "life_ns_mean", report_tally_mean_ns(t));
    tool_json_u64(j, "life_ns_max", t->life_ns_max);
    tool_json_double(j, "life_bytes_mean", mean_bytes(t));
    tool_json_u64(j, "life_bytes_max", t->life_bytes_max);
    tool_json_u64(j, "largest", t->largest);
    tool_json_u64(j, "failed", t->failed);
}

static void put_json_old(struct tool_json *j, const struct report_tally *old) {
    tool_json_u64(j, "old_bytes", old->bytes);
    tool_json_u64(j, "old_calls", old->calls);
    tool_json_u64(j, "old_live_bytes", old->live_bytes);
}

static void put_json_shares(struct tool_json *j, const struct report_rows *r,
                            const struct report_row *row,
                            const struct report_print_options *o) {
    size_t count;
    const struct report_share **share =
        report_rows_shares(r, row, o->sort, &count);
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

void report_print_json(const struct report_rows *r,
                       const struct report_tallies *t,
                       const struct report_print_options *o,
                       struct tool_json *j) {
    tool_json_string(j, "file", o->name);
    tool_json_string(j, "by", o->by);
    tool_json_string(j, "live", o->when);
    tool_json_u64(j, "sited_calls", t->sited);
    tool_json_u64(j, "trace_peak_bytes", t->peak_bytes);
    tool_json_u64(j, "traces", t->traces);
    tool_json_bool(j, "still_being_recorded", t->running);
    tool_json_u64(j, "wrong_frees", t->wrong_frees);
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
            report_callers_json(o->callers, i, "value", j);
        if (o->diff)
            put_json_old(j, &r->row[i].old);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

/* --- The tree of calls ---------------------------------------------------- */

/* Sums of a frame and all that it called. */
struct figures {
    uint64_t bytes, calls, live_bytes, live;
    double value; /* the figure that is sorted by */
};

struct tree {
    const struct report_stacks *s;
    const struct report_print_options *o;
    struct figures *now, *old; /* by node; OLD is NULL without --diff */
    uint32_t *child, *next; /* first child and next sibling, by node; 0: none */
    double least;           /* value of a branch that is shown */
    /* frames still to show, the last one first */
    struct step {
        uint32_t node, depth, indent;
        bool folded; /* same figures as the frame that called it */
    } * step;
    size_t steps, step_room;
    uint32_t *list; /* children of a node, sorted */
    size_t list_room;
    uint64_t left_out;
};

/* --- Making --------------------------------------------------------------- */

static struct figures figures_of(const struct report_tally *t,
                                 enum report_sort sort) {
    /* Means have no sums. */
    if (sort == REPORT_SORT_AGE)
        sort = REPORT_SORT_BYTES;
    return (struct figures){t->bytes, t->calls, t->live_bytes, t->live,
                            report_rows_value(t, sort)};
}

static void add_figures(struct figures *to, const struct figures *from) {
    to->bytes += from->bytes;
    to->calls += from->calls;
    to->live_bytes += from->live_bytes;
    to->live += from->live;
    to->value += from->value;
}

static double value_of(const struct tree *t, uint32_t node) {
    return t->now[node].value - (t->old == NULL ? 0 : t->old[node].value);
}

static void fini_tree(struct tree *t) {
    free(t->now);
    free(t->old);
    free(t->child);
    free(t->next);
    free(t->step);
    free(t->list);
}

/* Sums up from the last node to the first: a node stands behind its parent. */
static void sum_up_tree(struct tree *t) {
    const struct report_stacks *s = t->s;
    for (size_t i = s->count; i-- > 0;) {
        const struct report_stacks_node *n = &s->node[i];
        if (n->sum != 0) {
            struct figures own = figures_of(&s->sum[n->sum - 1], t->o->sort);
            add_figures(&t->now[i], &own);
        }
        if (t->old != NULL && n->old != 0) {
            struct figures own = figures_of(&s->sum[n->old - 1], t->o->sort);
            add_figures(&t->old[i], &own);
        }
        if (i == 0)
            break;
        add_figures(&t->now[n->parent], &t->now[i]);
        if (t->old != NULL)
            add_figures(&t->old[n->parent], &t->old[i]);
        t->next[i] = t->child[n->parent];
        t->child[n->parent] = (uint32_t)i;
    }
}

/* True if the root has the sums of all stacks. */
static bool root_adds_up(const struct tree *t) {
    uint64_t bytes = 0, calls = 0;
    for (size_t i = 0; i < t->s->sums; i++) {
        bytes += t->s->sum[i].bytes;
        calls += t->s->sum[i].calls;
    }
    if (t->old != NULL) {
        bytes -= t->old[0].bytes;
        calls -= t->old[0].calls;
    }
    return bytes == t->now[0].bytes && calls == t->now[0].calls;
}

static bool make_tree(struct tree *t, const struct report_stacks *s,
                      const struct report_print_options *o, double share) {
    *t = (struct tree){.s = s, .o = o};
    t->now = calloc(s->count, sizeof(*t->now));
    t->old = o->diff ? calloc(s->count, sizeof(*t->old)) : NULL;
    t->child = calloc(s->count, sizeof(*t->child));
    t->next = calloc(s->count, sizeof(*t->next));
    if (t->now == NULL || (t->old == NULL && o->diff) || t->child == NULL ||
        t->next == NULL) {
        fini_tree(t);
        return false;
    }
    sum_up_tree(t);
    TCM_ASSERT(root_adds_up(t));
    t->least =
        share * fmax(t->now[0].value, t->old == NULL ? 0 : t->old[0].value);
    return true;
}

/* --- Walking -------------------------------------------------------------- */

static int compare_nodes(const void *a, const void *b, void *ctx) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    double p = fabs(value_of(ctx, x)), q = fabs(value_of(ctx, y));
    return p != q ? (p > q ? 1 : -1) : (x < y) - (x > y);
}

/* Adds the frames that FROM called to the steps, the largest one last. False:
   out of memory. */
static bool add_steps(struct tree *t, const struct step *from) {
    size_t count = 0;
    for (uint32_t i = t->child[from->node]; i != 0; i = t->next[i]) {
        if (fabs(value_of(t, i)) < t->least) {
            t->left_out++;
            continue;
        }
        if (!tool_array_reserve(&t->list, &t->list_room, count + 1,
                                sizeof(*t->list)))
            return false;
        t->list[count++] = i;
    }
    if (count != 0)
        qsort_r(t->list, count, sizeof(*t->list), compare_nodes, t);
    if (!tool_array_reserve(&t->step, &t->step_room, t->steps + count,
                            sizeof(*t->step)))
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct figures *one = &t->now[t->list[i]],
                             *all = &t->now[from->node];
        bool folded = from->node != 0 && t->old == NULL &&
                      one->bytes == all->bytes && one->calls == all->calls &&
                      one->live_bytes == all->live_bytes;
        t->step[t->steps++] = (struct step){
            t->list[i], from->depth + 1,
            from->indent + (folded || from->node == 0 ? 0 : 2), folded};
    }
    return true;
}

/* Takes the next frame to show. False: none is left, or, with T->steps
   SIZE_MAX, out of memory. */
static bool next_step(struct tree *t, struct step *step) {
    if (t->steps == 0)
        return false;
    *step = t->step[--t->steps];
    TCM_ASSERT(step->node != 0 && step->node < t->s->count);
    if (add_steps(t, step))
        return true;
    t->steps = SIZE_MAX;
    return false;
}

static bool begin_steps(struct tree *t) {
    return add_steps(t, &(struct step){0});
}

/* --- Text ----------------------------------------------------------------- */

static void put_tree_figures(const struct tree *t, const struct layout *l,
                             uint32_t node) {
    const struct figures *f = &t->now[node];
    struct tool_text text[4];
    char changed[4][40];
    if (t->old == NULL) {
        double all = t->now[0].value;
        printf("%*s %*s %*s %*s %5.1f %%  ", l->bytes,
               tool_text_bytes(&text[0], f->bytes), l->calls,
               tool_text_count(&text[1], f->calls), l->bytes,
               tool_text_bytes(&text[2], f->live_bytes), l->blocks,
               tool_text_count(&text[3], f->live),
               all > 0 ? 100 * f->value / all : 0);
        return;
    }
    const struct figures *g = &t->old[node];
    printf("%*s %*s %*s %*s  ", l->bytes,
           change_text(changed[0], (double)f->bytes, (double)g->bytes, true),
           l->calls,
           change_text(changed[1], (double)f->calls, (double)g->calls, false),
           l->bytes,
           change_text(changed[2], (double)f->live_bytes, (double)g->live_bytes,
                       true),
           l->blocks,
           change_text(changed[3], (double)f->live, (double)g->live, false));
}

/* Prints the heads of the tree's columns; returns their layout. */
static struct layout put_tree_heads(const struct tree *t) {
    const struct figures *now = &t->now[0];
    const struct figures *old = t->old == NULL ? now : &t->old[0];
    struct layout l =
        layout_of(tcm_max_u64(now->calls, old->calls),
                  tcm_max_u64(now->live, old->live), t->o->diff, t->o->columns);
    l.figures = (size_t)(2 * l.bytes + l.calls + l.blocks + 5);
    printf("%*s %*s %*s %*s", l.bytes, "bytes", l.calls, "calls", l.bytes,
           "live", l.blocks, "blocks");
    if (!t->o->diff) {
        printf(" %7s", "share");
        l.figures += 8;
    }
    puts("  frames, outermost first");
    return l;
}

/* Prints the frame of STEP and its figures. */
static void put_step(const struct tree *t, const struct layout *l,
                     const struct step *step) {
    struct tool_text_line room;
    size_t used = l->figures + step->indent + (step->folded ? 2 : 0);
    size_t left =
        used + FRAME_COLUMNS < l->columns ? l->columns - used : FRAME_COLUMNS;
    if (step->folded)
        printf("%*s", (int)l->figures, "");
    else
        put_tree_figures(t, l, step->node);
    printf(
        "%*s%s%s\n", (int)step->indent, "", step->folded ? "> " : "",
        report_stacks_short(&room, report_stacks_text(t->s, step->node), left));
}

bool report_tree_print(const struct report_stacks *s,
                       const struct report_print_options *o, double share) {
    struct tree t;
    struct step step;
    struct tool_text text;
    size_t lines = 0;
    if (!make_tree(&t, s, o, share))
        return false;
    struct layout l = put_tree_heads(&t);
    put_tree_figures(&t, &l, 0);
    puts("all");
    bool good = begin_steps(&t);
    while (good && lines < o->top && next_step(&t, &step)) {
        put_step(&t, &l, &step);
        lines++;
    }
    good = good && t.steps != SIZE_MAX;
    if (good && t.steps != 0)
        printf("more frames; --top=N shows N\n");
    if (good && t.left_out != 0)
        printf("branches with less than %.3g %% are left out: %s; --share=0 "
               "shows all\n",
               100 * share, tool_text_count(&text, t.left_out));
    fini_tree(&t);
    return good;
}

/* --- JSON ----------------------------------------------------------------- */

bool report_tree_json(const struct report_stacks *s,
                      const struct report_print_options *o, double share,
                      struct tool_json *j) {
    struct tree t;
    struct step step;
    if (!make_tree(&t, s, o, share))
        return false;
    tool_json_begin_array(j, "tree");
    bool good = begin_steps(&t);
    while (good && next_step(&t, &step)) {
        const struct figures *f = &t.now[step.node];
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "frame", report_stacks_text(s, step.node));
        tool_json_u64(j, "depth", step.depth);
        tool_json_u64(j, "bytes", f->bytes);
        tool_json_u64(j, "calls", f->calls);
        tool_json_u64(j, "live_bytes", f->live_bytes);
        tool_json_u64(j, "live_blocks", f->live);
        if (t.old != NULL) {
            f = &t.old[step.node];
            tool_json_u64(j, "old_bytes", f->bytes);
            tool_json_u64(j, "old_calls", f->calls);
            tool_json_u64(j, "old_live_bytes", f->live_bytes);
        }
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
    good = good && t.steps != SIZE_MAX;
    fini_tree(&t);
    return good;
}
