/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_gate.h"

#include "base/check.h"
#include "cmd/malloc_trace/compare/compare_print.h"
#include "cmd/malloc_trace/compare/compare_program.h"
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
#include "common/temp_folder.h"
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

#define GATE_FORMAT "malloc-trace counts 2"

/* A figure: the least and the most of it in several recordings, and in their
   replays. */
struct figure {
    char name[128];
    double least, most, least_before, most_before;
    bool has_now, has_before;
    size_t seen; /* recordings that have it */
    size_t last; /* one of these, the latest, from 1 */
};

struct counts {
    struct figure *list;
    size_t count, room;
    double traces, saved_traces; /* that were counted; saved */
    size_t made;                 /* recordings, with the current one */
    double saved_recordings;
    const char *prefix; /* of names, for the trace that is counted */
    int replays;        /* of each trace, for memory over time */
    bool has_clock;     /* replay has a recorded clock */
    bool has_sites;     /* the last trace has call sites */
    bool has_threads;   /* and calls of several threads */
    bool any_threads;   /* a recording had, now or when it was saved */
    /* Calls of the current recording, of the first, and of the later ones. */
    double calls, calls_first, calls_least, calls_most;
    /* the trace that was saved: "" if it is not known or has no sites */
    char saved_trace[PATH_MAX];
    double saved_bytes; /* its size */
};

static struct figure *find_figure(struct counts *all, const char *name) {
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->list[i].name, name) == 0)
            return &all->list[i];
    if (!tool_array_reserve(&all->list, &all->room, all->count + 1,
                            sizeof(*all->list))) {
        tool_out_of_memory();
        return NULL;
    }
    struct figure *f = &all->list[all->count++];
    memset(f, 0, sizeof(*f));
    snprintf(f->name, sizeof(f->name), "%s", name);
    return f;
}

static bool add_figure(struct counts *all, double value, const char *fmt, ...)
    TCM_PRINTF(3, 4);
static bool add_figure(struct counts *all, double value, const char *fmt, ...) {
    char name[128];
    va_list ap;
    int n = snprintf(name, sizeof(name), "%.30s", all->prefix);
    va_start(ap, fmt);
    vsnprintf(name + n, sizeof(name) - (size_t)n, fmt, ap);
    va_end(ap);
    struct figure *f = find_figure(all, name);
    if (f == NULL)
        return false;
    f->least = f->has_now ? fmin(f->least, value) : value;
    f->most = f->has_now ? fmax(f->most, value) : value;
    f->has_now = true;
    f->seen += f->last != all->made;
    f->last = all->made;
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
            tool_error("%s: %s is %g, not a count from 0 to 2e19", where,
                       tool_json_key(v), n);
            return false;
        }
        if (!call(ctx, tool_json_key(v), n))
            return false;
    }
    return true;
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
    return good &&
           compare_traces_seen(c, t->name, info_event_count(f),
                               f->have_header ? f->header.allocator : "");
}

static bool count_trace(struct counts *all, struct comparison *c,
                        struct compare_trace *t) {
    static struct info_file f;
    bool good =
        read_trace(c, t, &f) &&
        add_figure(all, (double)info_event_count(&f), "calls") &&
        add_figure(all, (double)f.requested_bytes, "requested_bytes") &&
        add_figure(all, (double)f.live.peak_bytes, "peak_live_bytes") &&
        add_figure(all, (double)f.live.peak_blocks, "peak_live_blocks") &&
        add_figure(all, (double)f.live.bytes, "end_live_bytes");
    for (unsigned k = MTF_OP_ALLOC; good && k <= MTF_OP_LAST_OPERATION; k++)
        if (f.ops[k] != 0)
            good =
                add_figure(all, (double)f.ops[k], "calls.%s", mtf_op_name(k));
    uint64_t sized = 0;
    for (unsigned b = 0; good && b < INFO_SIZES; b++) {
        sized += f.live.sizes[b];
        if (f.live.sizes[b] != 0)
            good = add_figure(all, (double)f.live.sizes[b],
                              "calls_of_size_to.%llu",
                              (unsigned long long)info_size_to(b));
    }
    TCM_ASSERT(!good || sized <= info_event_count(&f));
    TCM_ASSERT(!good || f.live.bytes <= f.live.peak_bytes);
    t->has_times = info_has_times(&f);
    all->calls += (double)info_event_count(&f);
    all->has_threads = raw_threads_with_events(&f.threads) > 1;
    all->any_threads |= all->has_threads;
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
    return add_figure(all, value, "allocator.%.60s", name);
}

#define INSTRUCTIONS "replay.instructions"

static bool take_hardware(void *ctx, const char *name, double value) {
    return strcmp(name, "instructions") != 0 ||
           add_figure(ctx, value, INSTRUCTIONS);
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

/* Recordings of a command for a baseline, and replays of a trace that is the
   only one: chance alone lets all of five be larger than all of five others in
   one of 252 cases. */
enum { SPREAD_RUNS = 5 };

/* Figures of a replay that are gated: its keys. A replay lacks calls where it
   cannot count them, as in a container that forbids filters. */
static const char *const memory_key[] = {
    "madvise_calls", "madvise_bytes", "munmap_calls",   "munmap_bytes",
    "mmap_calls",    "mmap_bytes",    "peak_rss_bytes", "avg_rss_bytes"};

/* Returns the figure of memory over time that F is; NULL: it is a count. */
static const char *memory_key_of(const struct figure *f) {
    const char *dot = strrchr(f->name, '.');
    for (size_t k = 0; dot != NULL && k < TCM_ARRAY_SIZE(memory_key); k++)
        if (strcmp(dot + 1, memory_key[k]) == 0)
            return memory_key[k];
    return NULL;
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
        if (isnan(value))
            continue;
        if (!(value >= 0 && value <= COMPARE_MOST_FIGURE)) {
            tool_error("the replay: %s is %g, not a count from 0 to 2e19", key,
                       value);
            return false;
        }
        if (!add_figure(all, value, "%.60s.%s", name, key))
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
        for (int k = 0; k < all->replays && goes_on; k++)
            if (tool_stop_requested() ||
                !count_memory_once(all, c, trace, i, &goes_on))
                return false;
    }
    return true;
}

/* Tells whether a count needs a counter of the processor. */
static bool is_of_hardware(const struct figure *f) {
    size_t n = strlen(f->name), end = strlen(INSTRUCTIONS);
    return n >= end && strcmp(f->name + n - end, INSTRUCTIONS) == 0;
}

/* Least value of F: a recording that lacks a count has none of these calls. */
static double least_now(const struct counts *all, const struct figure *f) {
    bool is_count = memory_key_of(f) == NULL && !is_of_hardware(f);
    return is_count && f->seen < all->made ? 0 : f->least;
}

/* --- The file ------------------------------------------------------------- */

/* Reads which trace was counted, if it has call sites. */
static void read_saved_trace(struct counts *all,
                             const struct tool_json_value *root) {
    all->saved_bytes = compare_json_number(root, "trace_bytes");
    if (tool_json_is_true(tool_json_member(root, "sites")))
        snprintf(all->saved_trace, sizeof(all->saved_trace), "%s",
                 compare_json_text(root, "trace"));
}

static bool read_saved(struct counts *all, const char *path) {
    if (trace_is_one(path)) {
        tool_error("--against: %s is a trace, not counts of --save-baseline",
                   path);
        return false;
    }
    const struct tool_json_value *root = compare_json_file(path, GATE_FORMAT);
    bool good = root != NULL;
    if (!good)
        return false;
    read_saved_trace(all, root);
    all->saved_traces = compare_json_number(root, "traces");
    all->saved_recordings = compare_json_number(root, "recordings");
    all->any_threads = tool_json_is_true(tool_json_member(root, "threads"));
    const struct tool_json_value *v =
        tool_json_first(tool_json_member(root, "counts"));
    for (; good && v != NULL; v = tool_json_next(v)) {
        double least = compare_json_number(v, "least");
        double most = compare_json_number(v, "most");
        if (!(least >= 0 && least <= most && most <= COMPARE_MOST_FIGURE)) {
            tool_error("%s: %s is not a spread of counts from 0 to 2e19", path,
                       tool_json_key(v));
            good = false;
            continue;
        }
        struct figure *f = find_figure(all, tool_json_key(v));
        good = f != NULL;
        if (!good)
            continue;
        f->least_before = least;
        f->most_before = most;
        f->has_before = true;
    }
    tool_json_read_free(root);
    return good;
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

/* Reads the file to compare with, and checks the one to write. false: a message
   was printed. */
static bool read_files(struct counts *all, const struct compare_gate *g) {
    if (g->against != NULL && !read_saved(all, g->against))
        return false;
    if (g->save == NULL || can_write(g->save))
        return true;
    tool_error("--save-baseline: cannot write %s: %s", g->save,
               strerror(errno));
    return false;
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
    tool_json_u64(&j, "recordings", all->made);
    tool_json_bool(&j, "threads", all->any_threads);
    tool_json_begin_object(&j, "counts");
    for (size_t i = 0; i < all->count; i++) {
        const struct figure *f = &all->list[i];
        if (!f->has_now)
            continue;
        tool_json_begin_object(&j, f->name);
        tool_json_double(&j, "least", least_now(all, f));
        tool_json_double(&j, "most", f->most);
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
    size_t counts = 0, memory = 0, differ = 0;
    if (tool_is_quiet() || tool_file_is_stdout(path))
        return;
    for (size_t i = 0; i < all->count; i++) {
        const struct figure *f = &all->list[i];
        counts += f->has_now;
        memory += f->has_now && memory_key_of(f) != NULL;
        differ += f->has_now && least_now(all, f) != f->most;
    }
    fprintf(out, "%s: %zu counts of ", tool_text_shown(path), counts);
    if (c->traces == 1)
        fprintf(out, "%s", tool_text_shown(c->trace[0].name));
    else
        fprintf(out, "%zu traces", c->traces);
    fprintf(out, " (%s calls)",
            tool_text_count(&t, tool_text_whole(all->calls)));
    if (all->made > 1)
        fprintf(out, " in %zu recordings, of which %zu differ", all->made,
                differ);
    if (memory != 0) {
        fprintf(out, ", %zu of memory over time, under ", memory);
        for (size_t i = 0; i < c->contestants.count; i++)
            fprintf(out, "%s%s", i == 0 ? "" : ", ",
                    compare_contestant_shown(&c->contestants.list[i]));
    }
    fputc('\n', out);
}

/* --- The judgement -------------------------------------------------------- */

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
    if (all->saved_traces != all->traces) {
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
    size_t skipped;  /* a figure is missing */
    size_t lost;     /* skipped, and the file has the figure */
    size_t unjudged; /* threads decide them, and one recording tells nothing */
};

/* Least tolerance of a mean over recorded time. How long the program was in a
   state depends on what else the machine did, in each recording anew. */
#define MEAN_TOLERANCE 0.1

/* Fewest recordings whose spread shows that a figure does not vary. */
#define RECORDINGS_LEAST 3

/* Figures that vary: differences that say nothing, of calls and blocks and of
   bytes. */
#define FLOOR_CALLS 16
#define FLOOR_BYTES (128 << 10)

/* Tells whether F, of a program with threads, may vary for all that is known.
   Sums over all threads hardly do. */
static bool is_unknown(const struct counts *all, const struct figure *f) {
    const char *name = f->name + strspn(f->name, "0123456789.");
    return all->any_threads && all->saved_recordings < RECORDINGS_LEAST &&
           strcmp(name, "calls") != 0 && strncmp(name, "calls.", 6) != 0 &&
           strcmp(name, "requested_bytes") != 0;
}

/* The difference to the saved values of F that says nothing. Start-up code may
   vary by a few calls; what varied in recordings may vary by as much again on
   either side; resident memory is counted in batches of 32 pages on each
   processor. */
static double slack_of(const struct counts *all, const struct figure *f) {
    const char *key = memory_key_of(f);
    double spread = f->most_before - f->least_before;
    bool is_sum = all->any_threads && all->saved_recordings < RECORDINGS_LEAST;
    if (key == NULL && spread == 0 && !is_sum)
        return 2;
    double floor = strstr(f->name, "bytes") == NULL ? FLOOR_CALLS : FLOOR_BYTES;
    if (key != NULL && strstr(key, "rss") != NULL)
        floor *= fmax((double)sysconf(_SC_NPROCESSORS_ONLN), 1);
    return fmax(2 * spread, floor);
}

static double tolerance_of(const struct figure *f, double tolerance) {
    const char *key = memory_key_of(f);
    bool is_mean = key != NULL && strcmp(key, "avg_rss_bytes") == 0;
    return is_mean ? fmax(tolerance, MEAN_TOLERANCE) : tolerance;
}

static void print_difference(const struct counts *all, const struct figure *f,
                             const char *end, FILE *out) {
    struct tool_text a, b, d, e;
    double least = least_now(all, f), was = f->most_before;
    fprintf(out, "%-40s %16s", tool_text_shown(f->name),
            tool_text_count(&a, tool_text_whole(least)));
    if (least != f->most)
        fprintf(out, " to %s", tool_text_count(&b, tool_text_whole(f->most)));
    fprintf(out, ", was %16s",
            tool_text_count(&d, tool_text_whole(f->least_before)));
    if (f->least_before != was)
        fprintf(out, " to %s", tool_text_count(&e, tool_text_whole(was)));
    else
        fprintf(out, "  %+.2f %%",
                was == 0 ? 100.0 : 100 * (least - was) / was);
    fprintf(out, "%s\n", end);
}

/* Judges F: it differs if no value of it is within the tolerance of a saved
   one. OUT NULL: nothing is printed. */
static void judge_figure(const struct counts *all, const struct figure *f,
                         double tolerance, struct judgement *j, FILE *out) {
    bool is_count = memory_key_of(f) == NULL && !is_of_hardware(f);
    if (!is_count && f->has_before != f->has_now) {
        if (!f->has_now && out != NULL)
            fprintf(out, "%s: not judged, no replay has this figure here\n",
                    tool_text_shown(f->name));
        j->skipped++;
        j->lost += !f->has_now;
        return;
    }
    double slack = slack_of(all, f), least = least_now(all, f);
    tolerance = tolerance_of(f, tolerance);
    bool more =
        least > f->most_before + fmax(tolerance * f->most_before, slack);
    bool less =
        f->most < f->least_before - fmax(tolerance * f->least_before, slack);
    bool judged = !is_unknown(all, f);
    j->unjudged += !judged;
    j->more += judged && more;
    j->less += judged && less;
    j->same += judged && !more && !less;
    if (out != NULL && (more || less))
        print_difference(all, f,
                         !judged ? "  not judged"
                         : more  ? "  MORE"
                                 : "",
                         out);
}

static struct judgement judge_figures(const struct counts *all,
                                      double tolerance, FILE *out) {
    struct judgement j = {.more = 0};
    for (size_t i = 0; i < all->count; i++)
        judge_figure(all, &all->list[i], tolerance, &j, out);
    TCM_ASSERT(j.more + j.less + j.same + j.skipped + j.unjudged == all->count);
    return j;
}

static int judge_counts(const struct counts *all, bool lacks, double tolerance,
                        FILE *out) {
    if (!are_comparable(all, lacks, out))
        return TOOL_DAMAGED;
    struct judgement j = judge_figures(all, tolerance, out);
    if (j.unjudged != 0)
        fprintf(out,
                "%zu counts are not judged: threads decide them, and the file "
                "has one recording; save it from the command\n",
                j.unjudged);
    fprintf(out,
            "%zu counts: %zu more than before, %zu less (tolerance %g %%)\n",
            j.more + j.less + j.same, j.more, j.less, 100 * tolerance);
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
            const struct figure *f = &all->list[i];
            if (strcmp(f->name, order[k].count) == 0 && f->has_before &&
                f->most_before > 0 && f->least / f->most_before > most) {
                most = f->least / f->most_before;
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

/* --- Recordings ----------------------------------------------------------- */

/* Takes the counts of the traces of C, one recording. false: a message was
   printed, or a stop was requested. */
static bool count_recording(struct counts *all, struct comparison *c,
                            size_t own) {
    char prefix[32];
    all->made++;
    all->calls = 0;
    if (all->made > 1 && all->traces != (double)c->traces) {
        c->unseen = tool_not_judged("the recordings",
                                    "they have different numbers of processes "
                                    "(--all-processes)") != TOOL_OK;
        return false;
    }
    all->traces = (double)c->traces;
    bool good = comparison_make_room(c, 1);
    for (size_t t = 0; good && t < c->traces; t++) {
        snprintf(prefix, sizeof(prefix), "%zu.", t);
        all->prefix = c->traces == 1 ? "" : prefix;
        good = !tool_stop_requested() && count_trace(all, c, &c->trace[t]) &&
               count_replay(all, c, t, own) && count_memory(all, c, t);
    }
    if (all->made == 1) {
        all->calls_first = all->calls;
        all->calls_least = INFINITY;
    } else {
        all->calls_least = fmin(all->calls_least, all->calls);
        all->calls_most = fmax(all->calls_most, all->calls);
    }
    return good;
}

/* Warns if the first recording differs from all others, which are alike. */
static void warn_of_first(const struct counts *all) {
    struct tool_text a, b;
    double first = all->calls_first;
    double least = all->calls_least, most = all->calls_most;
    if (all->made < RECORDINGS_LEAST ||
        (first >= least - FLOOR_CALLS && first <= most + FLOOR_CALLS) ||
        fmin(fabs(first - least), fabs(first - most)) < 2 * (most - least))
        return;
    tool_warn("the first recording has %s calls, the others %s: files that a "
              "program leaves for its next run, as Python its .pyc, change its "
              "counts; run it once before",
              tool_text_count(&a, tool_text_whole(first)),
              tool_text_count(&b, tool_text_whole(most)));
}

/* Tells whether the command is to be recorded again: for a baseline until there
   are MOST recordings; else while a count is larger than before. */
static bool wants_another(const struct counts *all, const struct comparison *c,
                          const struct compare_gate *g, size_t most,
                          const struct compare_recorded *recorded) {
    if (all->made >= most || c->lacks || recorded->ended_by_user ||
        tool_stop_requested() ||
        (g->save == NULL && judge_figures(all, g->tolerance, NULL).more == 0))
        return false;
    bool first = all->made == 1;
    if (first && !compare_program_can_repeat()) {
        tool_warn("standard input cannot be read again: there is one "
                  "recording");
        return false;
    }
    if (first && !tool_is_quiet())
        fprintf(stderr, "%s: %s%s recorded %s%zu times in all (-n)\n",
                tool_name(), g->files->operand[0],
                g->save != NULL ? " is" : ": counts are larger: it is",
                g->save != NULL ? "" : "at most ", most);
    return true;
}

/* Most recordings of the command. */
static size_t recordings_of(const struct compare_gate *g) {
    return !g->files->is_command ? 1
           : g->recordings == 0  ? SPREAD_RUNS
                                 : g->recordings;
}

/* Records and counts. false: a message was printed, or a stop was requested. */
static bool count_all(struct counts *all, struct comparison *c,
                      const struct compare_gate *g) {
    struct tool_temp_folder folder = {.path = ""};
    struct compare_recorded recorded = {.status = 0};
    size_t own = 0, most = recordings_of(g);
    bool wants_clock = c->clock == NULL || strcmp(c->clock, "recorded") == 0;
    off_t input = lseek(STDIN_FILENO, 0, SEEK_CUR);
    bool good = true;
    all->replays = most > 1 && compare_program_can_repeat() ? 1 : SPREAD_RUNS;
    do {
        if (all->made != 0 && input >= 0)
            (void)lseek(STDIN_FILENO, input, SEEK_SET);
        g->files->again = all->made != 0;
        while (c->traces != 0)
            comparison_remove_trace(c);
        good =
            (!g->files->is_command || tool_temp_folder_make(&folder)) &&
            compare_traces_gather(c, g->files, folder.path, NULL, &recorded) &&
            (all->made != 0 ||
             (choose_counted(c, &own) &&
              (!wants_clock || compare_run_has_clock(&all->has_clock)))) &&
            count_recording(all, c, own);
        tool_temp_folder_remove(&folder);
    } while (good && wants_another(all, c, g, most, &recorded));
    if (good)
        warn_of_first(all);
    return good;
}

int compare_gate(struct comparison *c, const struct compare_gate *g,
                 FILE *out) {
    static struct counts all;
    int status = TOOL_OK;
    bool good = read_files(&all, g) && count_all(&all, c, g);
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
        status = judge_counts(&all, c->lacks, g->tolerance, out);
        if (status == TOOL_BUDGET && !tool_is_quiet())
            tell_functions(&all, g, out);
    }
    free(all.list);
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
