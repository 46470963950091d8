/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_gate.h"

#include "base/check.h"
#include "cmd/malloc_trace/compare/compare_run.h"
#include "cmd/malloc_trace/compare/compare_verdict.h"
#include "common/collections.h"
#include "common/input.h"
#include "common/json.h"
#include "common/main.h"
#include "common/stop.h"
#include "common/text.h"
#include "model/info.h"
#include "open/trace_open.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define GATE_FORMAT "malloc-trace counts 1"

struct count {
    char name[96];
    double now, before;
    bool has_now, has_before;
};

struct counts {
    struct count *list;
    size_t count, room;
    double traces, saved_traces; /* that were counted; saved, 0: unknown */
    const char *prefix;          /* of names, for the trace that is counted */
};

static struct count *find_count(struct counts *all, const char *name) {
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->list[i].name, name) == 0)
            return &all->list[i];
    if (!tool_array_reserve(&all->list, &all->room, all->count + 1,
                            sizeof(*all->list))) {
        tool_error("out of memory");
        return NULL;
    }
    struct count *c = &all->list[all->count++];
    memset(c, 0, sizeof(*c));
    snprintf(c->name, sizeof(c->name), "%s", name);
    return c;
}

static bool add_count(struct counts *all, double value, const char *fmt, ...)
    TCM_PRINTF(3, 4);
static bool add_count(struct counts *all, double value, const char *fmt, ...) {
    char name[96];
    va_list ap;
    int n = snprintf(name, sizeof(name), "%.30s", all->prefix);
    va_start(ap, fmt);
    vsnprintf(name + n, sizeof(name) - (size_t)n, fmt, ap);
    va_end(ap);
    struct count *c = find_count(all, name);
    if (c == NULL)
        return false;
    c->now += value;
    c->has_now = true;
    return true;
}

/* --- Numbers -------------------------------------------------------------- */

static bool
for_each_number(const char *where, const struct tool_json_value *object,
                bool (*call)(void *ctx, const char *name, double value),
                void *ctx) {
    for (const struct tool_json_value *v = tool_json_first(object); v != NULL;
         v = tool_json_next(v)) {
        double n = tool_json_number(v);
        if (isnan(n))
            continue;
        if (!(n >= 0 && n <= COMPARE_MOST_FIGURE)) {
            tool_error("%s: %s is %g, not a count from 0 to 1e18", where,
                       tool_json_key(v), n);
            return false;
        }
        if (!call(ctx, tool_json_key(v), n))
            return false;
    }
    return true;
}

static bool
read_file_numbers(const char *path, const char *format, const char *key,
                  bool (*call)(void *ctx, const char *name, double value),
                  void *ctx) {
    const struct tool_json_value *root = compare_json_file(path, format);
    if (root == NULL)
        return false;
    bool good = for_each_number(
        path, key == NULL ? root : tool_json_member(root, key), call, ctx);
    tool_json_read_free(root);
    return good;
}

static bool read_run_numbers(const char *text, size_t n, const char *key,
                             bool (*call)(void *ctx, const char *name,
                                          double value),
                             void *ctx) {
    char problem[200];
    const struct tool_json_value *root = tool_json_read(text, n, problem);
    if (root == NULL)
        return false;
    bool good = tool_json_is_true(tool_json_member(root, "ok"));
    if (!good)
        tool_error("the replay gave no counts: %s",
                   compare_json_text(root, "why"));
    good = good && for_each_number(
                       "the replay",
                       tool_json_member(tool_json_member(root, "replay"), key),
                       call, ctx);
    tool_json_read_free(root);
    return good;
}

/* --- Of the trace --------------------------------------------------------- */

/* Reads the trace T of C into F. false: a message was printed. */
static bool read_trace(struct comparison *c, const struct compare_trace *t,
                       struct info_file *f) {
    struct trace in;
    memset(f, 0, sizeof(*f));
    if (!trace_open(&in, t->path, NULL)) {
        tool_error("%s: %s", t->path, strerror(errno));
        return false;
    }
    f->name = t->name;
    f->want_live = true;
    bool is_raw = in.sorting != NULL;
    info_read_processed(f, in.in);
    in.in = NULL; /* it was closed */
    const char *problem = is_raw                  ? trace_problem(&in)
                          : f->problem_count != 0 ? f->problems[0]
                                                  : NULL;
    bool good = f->status != TOOL_FAILED && problem == NULL;
    if (!is_raw && f->status == TOOL_DAMAGED) {
        tool_warn("%s", problem == NULL ? t->name : problem);
        good = true;
        c->lacks = true;
    }
    if (!good)
        tool_error("%s", problem == NULL ? t->name : problem);
    /* losses of a raw trace are told of here */
    if (trace_close(&in, !good) != TOOL_OK)
        c->lacks = true;
    if (good && info_event_count(f) == 0) {
        tool_error("%s: the trace has no operations", t->name);
        good = false;
    }
    return good;
}

static bool count_trace(struct counts *all, struct comparison *c,
                        const struct compare_trace *t) {
    static struct info_file f;
    bool good =
        read_trace(c, t, &f) &&
        add_count(all, (double)info_event_count(&f), "calls") &&
        add_count(all, (double)f.requested_bytes, "requested_bytes") &&
        add_count(all, (double)f.live.peak_bytes, "peak_live_bytes") &&
        add_count(all, (double)f.live.peak_blocks, "peak_live_blocks") &&
        add_count(all, (double)f.live.bytes, "end_live_bytes");
    for (unsigned k = MTF_OP_ALLOC; good && k <= MTF_OP_LAST_OPERATION; k++)
        if (f.ops[k] != 0)
            good = add_count(all, (double)f.ops[k], "calls.%s", mtf_op_name(k));
    uint64_t sized = 0;
    for (unsigned b = 0; good && b < INFO_SIZES; b++) {
        sized += f.live.sizes[b];
        if (f.live.sizes[b] != 0)
            good =
                add_count(all, (double)f.live.sizes[b], "calls_of_size_to.%llu",
                          (unsigned long long)info_size_to(b));
    }
    TCM_ASSERT(!good || sized <= info_event_count(&f));
    TCM_ASSERT(!good || f.live.bytes <= f.live.peak_bytes);
    info_free(&f);
    return good;
}

/* --- Of the allocator ----------------------------------------------------- */

static bool take_counter(void *ctx, const char *name, double value) {
    struct counts *all = ctx;
    /* the amount of memory given back depends on elapsed time */
    if (strstr(name, "returned") != NULL || strstr(name, "released") != NULL)
        return true;
    return add_count(all, value, "allocator.%.60s", name);
}

#define INSTRUCTIONS "replay.instructions"

static bool take_hardware(void *ctx, const char *name, double value) {
    return strcmp(name, "instructions") != 0 ||
           add_count(ctx, value, INSTRUCTIONS);
}

/* Replays the trace under this project's library on one thread, which keeps the
   order of the calls. */
static bool count_replay(struct counts *all, struct comparison *c,
                         size_t trace) {
    size_t n;
    c->trace[trace].mode = "none";
    char *text = compare_run_make(c, 1, trace, 0, &n);
    if (text == NULL)
        return false;
    bool good =
        read_run_numbers(text, n, "allocator_counters", take_counter, all);
    good = good && read_run_numbers(text, n, "counters", take_hardware, all);
    free(text);
    return good;
}

/* --- The file ------------------------------------------------------------- */

static bool take_saved_count(void *ctx, const char *name, double value) {
    struct count *c = find_count(ctx, name);
    if (c == NULL)
        return false;
    c->before = value;
    c->has_before = true;
    return true;
}

static bool take_saved_traces(void *ctx, const char *name, double value) {
    struct counts *all = ctx;
    if (strcmp(name, "traces") == 0)
        all->saved_traces = value;
    return true;
}

static bool read_saved(struct counts *all, const char *path) {
    return read_file_numbers(path, GATE_FORMAT, NULL, take_saved_traces, all) &&
           read_file_numbers(path, GATE_FORMAT, "counts", take_saved_count,
                             all);
}

static bool save_counts(const struct comparison *c, const struct counts *all,
                        const char *path) {
    static struct tool_json j;
    if (!tool_json_open(&j, path))
        return false;
    tool_json_begin_object(&j, NULL);
    tool_json_string(&j, "format", GATE_FORMAT);
    tool_json_string(&j, "command", c->command == NULL ? "" : c->command);
    tool_json_u64(&j, "traces", c->traces);
    tool_json_begin_object(&j, "counts");
    for (size_t i = 0; i < all->count; i++)
        tool_json_double(&j, all->list[i].name, all->list[i].now);
    tool_json_end_object(&j);
    tool_json_end_object(&j);
    return tool_json_close(&j);
}

/* --- The judgement -------------------------------------------------------- */

/* Tells whether a count needs a counter of the processor. */
static bool is_of_hardware(const struct count *c) {
    size_t n = strlen(c->name), end = strlen(INSTRUCTIONS);
    return n >= end && strcmp(c->name + n - end, INSTRUCTIONS) == 0;
}

/* Tells whether counts can be compared at all; OUT gets the reason if not. */
static bool are_comparable(const struct counts *all, FILE *out) {
    size_t saved = 0;
    for (size_t i = 0; i < all->count; i++)
        saved += all->list[i].has_before;
    if (saved == 0) {
        fputs("not judged: the file has no counts\n", out);
        return false;
    }
    if (all->saved_traces != 0 && all->saved_traces != all->traces) {
        fprintf(out,
                "not judged: the file has counts of %.0f traces, and there "
                "are %.0f\n",
                all->saved_traces, all->traces);
        return false;
    }
    return true;
}

static int judge_counts(const struct counts *all, double tolerance, FILE *out) {
    struct tool_text a, b;
    size_t more = 0, less = 0, same = 0, skipped = 0, lost = 0;
    if (!are_comparable(all, out))
        return TOOL_DAMAGED;
    for (size_t i = 0; i < all->count; i++) {
        const struct count *c = &all->list[i];
        double was = c->has_before ? c->before : 0;
        double is = c->has_now ? c->now : 0;
        if (is_of_hardware(c) && c->has_before != c->has_now) {
            fprintf(out, "%s: %s\n", tool_text_shown(c->name),
                    c->has_now
                        ? "not judged, the file has no such count"
                        : "not judged, this machine does not count them");
            skipped++;
            lost += !c->has_now;
            continue;
        }
        /* start-up code may vary by a few calls */
        if (fabs(is - was) <= fmax(tolerance * was, 2)) {
            same++;
            continue;
        }
        fprintf(out, "%-40s %16s, was %16s  %+.2f %%%s\n",
                tool_text_shown(c->name),
                tool_text_count(&a, tool_text_whole(is)),
                tool_text_count(&b, tool_text_whole(was)),
                was == 0 ? 100.0 : 100 * (is - was) / was,
                is > was ? "  MORE" : "");
        *(is > was ? &more : &less) += 1;
    }
    TCM_ASSERT(more + less + same + skipped == all->count);
    fprintf(out,
            "%zu counts: %zu more than before, %zu less (tolerance %g %%)\n",
            all->count - skipped, more, less, 100 * tolerance);
    return more != 0 ? TOOL_BUDGET : lost != 0 ? TOOL_DAMAGED : TOOL_OK;
}

int compare_gate(struct comparison *c, const char *save, const char *against,
                 double tolerance, FILE *out) {
    struct counts all = {.traces = (double)c->traces};
    char prefix[32];
    int status = TOOL_OK;
    bool good = compare_contestants_add(&c->contestants, TCM_ALLOCATOR_NAME) &&
                comparison_make_room(c, 1);
    if (good && c->contestants.list[0].why != NULL) {
        tool_error("this project's library: %s", c->contestants.list[0].why);
        good = false;
    }
    for (size_t t = 0; good && t < c->traces; t++) {
        snprintf(prefix, sizeof(prefix), "%zu.", t);
        all.prefix = c->traces == 1 ? "" : prefix;
        good = !tool_stop_requested() && count_trace(&all, c, &c->trace[t]) &&
               count_replay(&all, c, t);
    }
    if (good && c->lacks && save != NULL)
        tool_error("%s is not written: counts of an incomplete trace are no "
                   "baseline",
                   save);
    else if (good && save != NULL)
        good = save_counts(c, &all, save);
    if (good && against != NULL) {
        good = read_saved(&all, against);
        if (good)
            status = judge_counts(&all, tolerance, out);
    }
    free(all.list);
    if (tool_stop_requested()) {
        tool_error("interrupted: nothing was judged");
        return TOOL_DAMAGED;
    }
    if (!good)
        return TOOL_FAILED;
    return status == TOOL_OK && c->lacks ? TOOL_DAMAGED : status;
}

/* --- Budget --------------------------------------------------------------- */

bool compare_budget_parse(struct compare_budget *b, const char *text) {
    for (;;) {
        size_t n = strcspn(text, "<,");
        enum compare_metric m = compare_metric_find(text, n);
        char *end = NULL;
        double limit = 0;
        if (strncmp(text + n, "<=", 2) == 0)
            limit = strtod(text + n + 2, &end);
        if (m == METRICS || end == NULL || end == text + n + 2 ||
            (*end != ',' && *end != '\0') || !(limit > 0) || limit > 1e6)
            return false;
        b->limit[m] = limit;
        if (*end == '\0')
            return true;
        text = end + 1;
    }
}

int compare_budget_judge(const struct compare_budget *b,
                         const struct comparison *c, bool strict, FILE *out) {
    bool missed = false, lacks = false;
    for (size_t i = 0; i < c->contestants.count; i++)
        for (int m = 0; m < METRICS; m++) {
            struct compare_verdict v;
            const char *name = compare_metric[m].name;
            if (b->limit[m] == 0 || i == c->baseline)
                continue;
            if (!compare_verdict_of(c, i, (enum compare_metric)m, &v))
                return TOOL_FAILED;
            if (!v.measured || !v.has_interval) {
                fprintf(out, "budget %s<=%g: %s has no figure to judge\n", name,
                        b->limit[m],
                        compare_contestant_shown(&c->contestants.list[i]));
                lacks = true;
                continue;
            }
            bool good = v.high <= b->limit[m], bad = v.low > b->limit[m];
            fprintf(out, "budget %s<=%g: %s by %s, %.3f (%.3f to %.3f)\n", name,
                    b->limit[m],
                    good  ? "kept"
                    : bad ? "missed"
                          : "not decided",
                    compare_contestant_shown(&c->contestants.list[i]), v.ratio,
                    v.low, v.high);
            missed = missed || bad || (strict && !good);
        }
    return missed ? TOOL_BUDGET : lacks ? TOOL_DAMAGED : TOOL_OK;
}
