/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_gate.h"

#include "base/check.h"
#include "cmd/malloc_trace/compare/compare_print.h"
#include "cmd/malloc_trace/compare/compare_run.h"
#include "cmd/malloc_trace/compare/compare_traces.h"
#include "cmd/malloc_trace/compare/compare_verdict.h"
#include "common/child.h"
#include "common/collections.h"
#include "common/files.h"
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define GATE_FORMAT "malloc-trace counts 1"

struct count {
    char name[128];
    double now, before;
    bool has_now, has_before;
};

/* A figure of several replays: the least and the most of them. */
struct spread {
    char name[128];
    double least, most, least_before, most_before;
    bool has_now, has_before;
};

struct counts {
    struct count *list;
    size_t count, room;
    struct spread *spread;
    size_t spreads, spread_room;
    double traces, saved_traces; /* that were counted; saved, 0: unknown */
    const char *prefix;          /* of names, for the trace that is counted */
    bool has_clock;              /* replay has a recorded clock */
    bool has_sites;              /* the last trace has call sites */
    bool has_threads;            /* and calls of several threads */
    /* the trace that was saved: "" if it is not known or has no sites */
    char saved_trace[PATH_MAX];
    double saved_bytes; /* its size */
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
    char name[128];
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

static struct spread *find_spread(struct counts *all, const char *name) {
    for (size_t i = 0; i < all->spreads; i++)
        if (strcmp(all->spread[i].name, name) == 0)
            return &all->spread[i];
    if (!tool_array_reserve(&all->spread, &all->spread_room, all->spreads + 1,
                            sizeof(*all->spread))) {
        tool_error("out of memory");
        return NULL;
    }
    struct spread *s = &all->spread[all->spreads++];
    memset(s, 0, sizeof(*s));
    snprintf(s->name, sizeof(s->name), "%s", name);
    return s;
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
    if (good && info_event_count(f) == 0)
        good = compare_traces_unseen(c, t->name);
    return good;
}

static bool count_trace(struct counts *all, struct comparison *c,
                        struct compare_trace *t) {
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
    t->has_times = info_has_times(&f);
    all->has_threads = raw_threads_with_events(&f.threads) > 1;
    all->has_sites =
        f.have_header && (f.header.fixed.settings & MTF_SETTING_SITES) != 0;
    info_free(&f);
    return good;
}

/* --- Of the allocator ----------------------------------------------------- */

static bool take_counter(void *ctx, const char *name, double value) {
    struct counts *all = ctx;
    /* the order of calls of several threads differs from run to run; the amount
       of memory given back depends on elapsed time */
    if (all->has_threads || strstr(name, "returned") != NULL ||
        strstr(name, "released") != NULL)
        return true;
    return add_count(all, value, "allocator.%.60s", name);
}

#define INSTRUCTIONS "replay.instructions"

static bool take_hardware(void *ctx, const char *name, double value) {
    return strcmp(name, "instructions") != 0 ||
           add_count(ctx, value, INSTRUCTIONS);
}

/* Replays the trace under this project's library, contestant OWN, on one
   thread, which keeps the order of the calls. */
static bool count_replay(struct counts *all, struct comparison *c, size_t trace,
                         size_t own) {
    size_t n;
    c->trace[trace].mode = "none";
    c->trace[trace].clock = c->counts_returns = false;
    char *text = compare_run_make(c, 1, trace, own, &n);
    if (text == NULL)
        return false;
    bool good =
        read_run_numbers(text, n, "allocator_counters", take_counter, all);
    good = good && read_run_numbers(text, n, "counters", take_hardware, all);
    free(text);
    return good;
}

/* --- Of memory over time -------------------------------------------------- */

/* Replays for one spread: chance alone lets all of five be larger than all of
   five others in one of 252 cases. */
enum { SPREAD_RUNS = 5 };

/* Figures of a replay that are gated: its keys. A replay lacks calls where it
   cannot count them, as in a container that forbids filters. */
static const char *const memory_key[] = {
    "madvise_calls", "madvise_bytes", "munmap_calls",   "munmap_bytes",
    "mmap_calls",    "mmap_bytes",    "peak_rss_bytes", "avg_rss_bytes"};

/* Takes one figure of one replay under contestant NAME; NAN: it has none. */
static bool add_to_spread(struct counts *all, const char *name, const char *key,
                          double value) {
    char full[128];
    if (isnan(value))
        return true;
    if (!(value >= 0 && value <= COMPARE_MOST_FIGURE)) {
        tool_error("the replay: %s is %g, not a count from 0 to 1e18", key,
                   value);
        return false;
    }
    snprintf(full, sizeof(full), "%.30s%.60s.%s", all->prefix, name, key);
    struct spread *s = find_spread(all, full);
    if (s == NULL)
        return false;
    s->least = s->has_now ? fmin(s->least, value) : value;
    s->most = s->has_now ? fmax(s->most, value) : value;
    s->has_now = true;
    return true;
}

/* Takes the figures of REPLAY. Mean memory is one over recorded time, if the
   trace has times. */
static bool add_memory(struct counts *all, struct compare_trace *t,
                       const char *name, const struct tool_json_value *replay) {
    compare_run_take_untouched(t, replay);
    for (size_t k = 0; k < TCM_ARRAY_SIZE(memory_key); k++) {
        const char *key = memory_key[k];
        double value = compare_json_number(replay, key);
        bool is_peak = strcmp(key, "peak_rss_bytes") == 0;
        if ((strcmp(key, "avg_rss_bytes") == 0 && !t->has_times) ||
            (is_peak &&
             tool_json_is_false(tool_json_member(replay, "peak_rss_known"))))
            continue;
        if (!add_to_spread(all, name, key, value))
            return false;
    }
    return true;
}

/* Replays the trace once with the recorded clock. *GOES_ON: further replays
   have figures, too. false: a message was printed, or a stop was requested. */
static bool count_memory_once(struct counts *all, struct comparison *c,
                              size_t trace, size_t contestant, bool *goes_on) {
    char problem[200], own_clock[128];
    const char *name = c->contestants.list[contestant].name;
    size_t n;
    char *text = compare_run_make(c, 1, trace, contestant, &n);
    const struct tool_json_value *root =
        text == NULL ? NULL : tool_json_read(text, n, problem);
    const struct tool_json_value *replay = tool_json_member(root, "replay");
    bool good = root != NULL;
    if (good && !tool_json_is_true(tool_json_member(root, "ok"))) {
        tool_error("the replay under %s gave no counts: %s", name,
                   compare_json_text(root, "why"));
        good = false;
    } else if (good && compare_run_own_clock(replay, own_clock)) {
        tool_warn("%s: %s, so its memory over time is not counted", name,
                  own_clock);
        *goes_on = false;
    } else if (good) {
        good = add_memory(all, &c->trace[trace], name, replay);
    }
    tool_json_read_free(root);
    free(text);
    return good;
}

/* Counts the memory that every contestant takes and gives back as recorded time
   passes; in a trace without times it stands still. The real time of a replay
   would make all of that chance. */
static bool count_memory(struct counts *all, struct comparison *c,
                         size_t trace) {
    if (!all->has_clock || c->speed != NULL)
        return true;
    c->trace[trace].clock = c->counts_returns = true;
    for (size_t i = 0; i < c->contestants.count; i++) {
        bool goes_on = true;
        for (int k = 0; k < SPREAD_RUNS && goes_on; k++)
            if (tool_stop_requested() ||
                !count_memory_once(all, c, trace, i, &goes_on))
                return false;
    }
    return true;
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

/* Reads which trace was counted, if it has call sites. */
static void read_saved_trace(struct counts *all,
                             const struct tool_json_value *root) {
    all->saved_bytes = compare_json_number(root, "trace_bytes");
    if (tool_json_is_true(tool_json_member(root, "sites")))
        snprintf(all->saved_trace, sizeof(all->saved_trace), "%s",
                 compare_json_text(root, "trace"));
}

/* Reads the trace and "spreads", which files of older versions lack. */
static bool read_saved_spreads(struct counts *all, const char *path) {
    const struct tool_json_value *root = compare_json_file(path, GATE_FORMAT);
    bool good = root != NULL;
    if (good)
        read_saved_trace(all, root);
    const struct tool_json_value *v =
        tool_json_first(tool_json_member(root, "spreads"));
    for (; good && v != NULL; v = tool_json_next(v)) {
        double least = compare_json_number(v, "least");
        double most = compare_json_number(v, "most");
        if (!(least >= 0 && least <= most && most <= COMPARE_MOST_FIGURE)) {
            tool_error("%s: %s is not a spread of counts from 0 to 1e18", path,
                       tool_json_key(v));
            good = false;
            continue;
        }
        struct spread *s = find_spread(all, tool_json_key(v));
        good = s != NULL;
        if (!good)
            continue;
        s->least_before = least;
        s->most_before = most;
        s->has_before = true;
    }
    tool_json_read_free(root);
    return good;
}

static bool read_saved(struct counts *all, const char *path) {
    return read_file_numbers(path, GATE_FORMAT, NULL, take_saved_traces, all) &&
           read_file_numbers(path, GATE_FORMAT, "counts", take_saved_count,
                             all) &&
           read_saved_spreads(all, path);
}

/* Tells whether a file of the name PATH can be written. false: errno tells why
   not. */
static bool can_write(const char *path) {
    char folder[PATH_MAX];
    if (tool_file_is_stdout(path) || access(path, F_OK) == 0)
        return tool_file_is_stdout(path) || access(path, W_OK) == 0;
    size_t n = (size_t)(tool_file_base(path) - path);
    snprintf(folder, sizeof(folder), "%.*s", (int)n, n == 0 ? "." : path);
    return access(n == 0 ? "." : folder, W_OK | X_OK) == 0;
}

bool compare_gate_check(const struct compare_gate *g) {
    struct counts saved = {.traces = 0};
    bool good = g->against == NULL || read_saved(&saved, g->against);
    free(saved.list);
    free(saved.spread);
    if (good && g->save != NULL && !can_write(g->save)) {
        tool_error("--save-baseline: cannot write %s: %s", g->save,
                   strerror(errno));
        return false;
    }
    return good;
}

/* Puts the trace into the file, for a later comparison of its functions. */
static void put_trace(const struct counts *all, const char *trace,
                      struct tool_json *j) {
    char path[PATH_MAX];
    struct stat st;
    if (trace == NULL || stat(trace, &st) != 0 || !S_ISREG(st.st_mode) ||
        realpath(trace, path) == NULL)
        return;
    tool_json_string(j, "trace", path);
    tool_json_u64(j, "trace_bytes", (uint64_t)st.st_size);
    tool_json_bool(j, "sites", all->has_sites);
}

static bool save_counts(const struct comparison *c, const struct counts *all,
                        const struct compare_gate *g) {
    static struct tool_json j;
    if (!tool_json_open(&j, g->save))
        return false;
    tool_json_begin_object(&j, NULL);
    tool_json_string(&j, "format", GATE_FORMAT);
    tool_json_string(&j, "command", c->command == NULL ? "" : c->command);
    tool_json_u64(&j, "traces", c->traces);
    put_trace(all, g->trace, &j);
    tool_json_begin_object(&j, "counts");
    for (size_t i = 0; i < all->count; i++)
        tool_json_double(&j, all->list[i].name, all->list[i].now);
    tool_json_end_object(&j);
    tool_json_begin_object(&j, "spreads");
    for (size_t i = 0; i < all->spreads; i++) {
        const struct spread *s = &all->spread[i];
        tool_json_begin_object(&j, s->name);
        tool_json_double(&j, "least", s->least);
        tool_json_double(&j, "most", s->most);
        tool_json_end_object(&j);
    }
    tool_json_end_object(&j);
    tool_json_end_object(&j);
    return tool_json_close(&j);
}

/* Says what was saved. */
static void tell_saved(const struct comparison *c, const struct counts *all,
                       const char *path, FILE *out) {
    struct tool_text t;
    if (tool_is_quiet() || tool_file_is_stdout(path))
        return;
    fprintf(out, "%s: %zu counts of ", tool_text_shown(path), all->count);
    if (c->traces == 1)
        fprintf(out, "%s", tool_text_shown(c->trace[0].name));
    else
        fprintf(out, "%zu traces", c->traces);
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->list[i].name, "calls") == 0)
            fprintf(out, " (%s calls)",
                    tool_text_count(&t, tool_text_whole(all->list[i].now)));
    if (all->spreads != 0) {
        fprintf(out,
                ", and of memory over time %zu figures of %d replays "
                "each, under ",
                all->spreads, (int)SPREAD_RUNS);
        for (size_t i = 0; i < c->contestants.count; i++)
            fprintf(out, "%s%s", i == 0 ? "" : ", ",
                    compare_contestant_shown(&c->contestants.list[i]));
    }
    fputc('\n', out);
}

/* --- The judgement -------------------------------------------------------- */

/* Tells whether a count needs a counter of the processor. */
static bool is_of_hardware(const struct count *c) {
    size_t n = strlen(c->name), end = strlen(INSTRUCTIONS);
    return n >= end && strcmp(c->name + n - end, INSTRUCTIONS) == 0;
}

/* Tells whether counts can be compared at all; OUT gets the reason if not.
   LACKS: a trace is incomplete. Blocks whose frees it lacks would be more than
   before. */
static bool are_comparable(const struct counts *all, bool lacks, FILE *out) {
    size_t saved = 0;
    if (lacks) {
        fputs("not judged: counts of an incomplete trace are no evidence\n",
              out);
        return false;
    }
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

struct judgement {
    size_t more, less, same;
    size_t skipped; /* a figure is missing */
    size_t lost;    /* skipped, and the file has the figure */
};

/* Least tolerance of a mean over recorded time. How long the program was in a
   state depends on what else the machine did, in each recording anew. */
#define MEAN_TOLERANCE 0.1

static bool is_mean(const struct spread *s) {
    const char *key = strrchr(s->name, '.');
    return key != NULL && strcmp(key, ".avg_rss_bytes") == 0;
}

/* Judges a spread: it differs if no value of one is within the tolerance of a
   value of the other. */
static void judge_spread(const struct spread *s, double tolerance,
                         struct judgement *j, FILE *out) {
    struct tool_text a, b, d, e;
    if (s->has_now != s->has_before) {
        if (!s->has_now) /* else the file is of an older version */
            fprintf(out, "%s: not judged, no replay has this figure here\n",
                    tool_text_shown(s->name));
        j->skipped++;
        j->lost += !s->has_now;
        return;
    }
    if (is_mean(s))
        tolerance = fmax(tolerance, MEAN_TOLERANCE);
    bool is_bytes = strstr(s->name, "_bytes") != NULL;
    /* the kernel counts resident pages in batches of 32 */
    double slack = is_bytes ? 32 * 4096 : 2;
    bool more =
        s->least > s->most_before + fmax(tolerance * s->most_before, slack);
    bool less =
        s->most < s->least_before - fmax(tolerance * s->least_before, slack);
    j->more += more;
    j->less += less;
    j->same += !more && !less;
    if (more || less)
        fprintf(out, "%-40s %16s to %s, was %s to %s%s\n",
                tool_text_shown(s->name),
                tool_text_count(&a, tool_text_whole(s->least)),
                tool_text_count(&b, tool_text_whole(s->most)),
                tool_text_count(&d, tool_text_whole(s->least_before)),
                tool_text_count(&e, tool_text_whole(s->most_before)),
                more ? "  MORE" : "");
}

static int judge_counts(const struct counts *all, bool lacks, double tolerance,
                        FILE *out) {
    struct tool_text a, b;
    struct judgement j = {.more = 0};
    if (!are_comparable(all, lacks, out))
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
            j.skipped++;
            j.lost += !c->has_now;
            continue;
        }
        /* start-up code may vary by a few calls */
        if (fabs(is - was) <= fmax(tolerance * was, 2)) {
            j.same++;
            continue;
        }
        fprintf(out, "%-40s %16s, was %16s  %+.2f %%%s\n",
                tool_text_shown(c->name),
                tool_text_count(&a, tool_text_whole(is)),
                tool_text_count(&b, tool_text_whole(was)),
                was == 0 ? 100.0 : 100 * (is - was) / was,
                is > was ? "  MORE" : "");
        *(is > was ? &j.more : &j.less) += 1;
    }
    for (size_t i = 0; i < all->spreads; i++)
        judge_spread(&all->spread[i], tolerance, &j, out);
    size_t judged = j.more + j.less + j.same;
    TCM_ASSERT(judged + j.skipped == all->count + all->spreads);
    fprintf(out,
            "%zu counts: %zu more than before, %zu less (tolerance %g %%)\n",
            judged, j.more, j.less, 100 * tolerance);
    return j.more != 0 ? TOOL_BUDGET : j.lost != 0 ? TOOL_DAMAGED : TOOL_OK;
}

/* Adds this project's library to the contestants, unless it is one, and checks
   all. *OWN: its index. false: a message was printed, or a stop was
   requested. */
static bool choose_counted(struct comparison *c, size_t *own) {
    static const char name[] = TCM_ALLOCATOR_NAME;
    if (compare_contestants_find(&c->contestants, name) == SIZE_MAX &&
        !compare_contestants_add(&c->contestants, name))
        return false;
    *own = compare_contestants_find(&c->contestants, name);
    if (!compare_run_check_contestants(c))
        return false;
    for (size_t i = 0; i < c->contestants.count; i++)
        if (c->contestants.list[i].why != NULL) {
            tool_error("%s cannot be counted: %s", c->contestants.list[i].name,
                       c->contestants.list[i].why);
            return false;
        }
    return true;
}

/* --- Which functions ------------------------------------------------------ */

/* Tells whether the trace that was saved is still there, is not TRACE, and both
   have call sites. */
static bool can_compare_traces(const struct counts *all, const char *trace) {
    struct stat now, before;
    return all->has_sites && trace != NULL && all->saved_trace[0] != '\0' &&
           stat(trace, &now) == 0 && stat(all->saved_trace, &before) == 0 &&
           (double)before.st_size == all->saved_bytes &&
           (now.st_dev != before.st_dev || now.st_ino != before.st_ino);
}

/* Chooses the order of functions: that of the figure of the trace that grew by
   the largest factor. */
static const char *order_of(const struct counts *all) {
    static const struct {
        const char *count, *option;
    } order[] = {{"requested_bytes", "--sort=bytes"},
                 {"calls", "--sort=calls"},
                 {"peak_live_bytes", "--sort=peak"}};
    const char *found = order[0].option;
    double most = 1;
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < TCM_ARRAY_SIZE(order); k++) {
            const struct count *c = &all->list[i];
            if (strcmp(c->name, order[k].count) == 0 && c->has_before &&
                c->before > 0 && c->now / c->before > most) {
                most = c->now / c->before;
                found = order[k].option;
            }
        }
    return found;
}

/* Prints the functions that changed most in the figure of ORDER, as
   `malloc-trace report` does. false: it failed. */
static bool print_functions(const char *before, const char *now,
                            const char *order, FILE *out) {
    char program[PATH_MAX];
    struct tool_child_end end;
    if (!tool_own_program("malloc-trace", program))
        return false;
    const char *argv[] = {program,   "report",     "--by=function",
                          "--top=5", "--stacks=0", order,
                          "--diff",  before,       "--",
                          now,       NULL};
    const struct tool_child_spec what = {.argv = (char *const *)(uintptr_t)argv,
                                         .in = TOOL_CHILD_NULL,
                                         .out = fileno(out),
                                         .err = STDERR_FILENO,
                                         .signals = TOOL_CHILD_STOPS};
    fprintf(out, "functions, those that changed most in %s since %s first:\n",
            strchr(order, '=') + 1, tool_text_shown(before));
    fflush(out);
    return tool_child_run(&what, 0, &end) && end.error == 0 &&
           WIFEXITED(end.status) &&
           (WEXITSTATUS(end.status) == TOOL_OK ||
            WEXITSTATUS(end.status) == TOOL_DAMAGED);
}

/* Says which functions made counts larger, or how to find that out. */
static void tell_functions(const struct counts *all,
                           const struct compare_gate *g, FILE *out) {
    if (can_compare_traces(all, g->trace) &&
        print_functions(all->saved_trace, g->trace, order_of(all), out))
        return;
    fputs("which functions grew: record both versions with malloc-trace record "
          "--sites, then malloc-trace report --by=function --diff OLD NEW\n",
          out);
}

int compare_gate(struct comparison *c, const struct compare_gate *g,
                 FILE *out) {
    static struct counts all;
    char prefix[32];
    int status = TOOL_OK;
    size_t own;
    bool wants_clock = c->clock == NULL || strcmp(c->clock, "recorded") == 0;
    all.traces = (double)c->traces;
    bool good = choose_counted(c, &own) && comparison_make_room(c, 1) &&
                (!wants_clock || compare_run_has_clock(&all.has_clock));
    for (size_t t = 0; good && t < c->traces; t++) {
        snprintf(prefix, sizeof(prefix), "%zu.", t);
        all.prefix = c->traces == 1 ? "" : prefix;
        good = !tool_stop_requested() && count_trace(&all, c, &c->trace[t]) &&
               count_replay(&all, c, t, own) && count_memory(&all, c, t);
    }
    if (good && !tool_is_quiet())
        compare_print_untouched(c, out);
    if (good && c->lacks && g->save != NULL) {
        tool_error("%s is not written: counts of an incomplete trace are no "
                   "baseline",
                   g->save);
    } else if (good && g->save != NULL) {
        good = save_counts(c, &all, g);
        if (good)
            tell_saved(c, &all, g->save, out);
    }
    if (good && g->against != NULL) {
        good = read_saved(&all, g->against);
        if (good)
            status = judge_counts(&all, c->lacks, g->tolerance, out);
        if (good && status == TOOL_BUDGET && !tool_is_quiet())
            tell_functions(&all, g, out);
    }
    free(all.list);
    free(all.spread);
    if (tool_stop_requested()) {
        tool_error("interrupted: nothing was judged");
        return TOOL_DAMAGED;
    }
    if (!good)
        return compare_traces_failed(c);
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
    if (c->baseline_failed) {
        fputs("budget: not judged, since the baseline takes no part\n", out);
        return TOOL_DAMAGED;
    }
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
