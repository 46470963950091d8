/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/replay_options.h"

#include "cmd/replay/repeat.h"
#include "cmd/replay/replay_report.h"
#include "cmd/replay/run/clock_probe.h"
#include "cmd/replay/run/recorded_clock.h"
#include "cmd/replay/watch/observer.h"
#include "common/allocators.h"
#include "common/files.h"
#include "common/main.h"
#include "common/opts.h"
#include "open/recordings.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- Values --------------------------------------------------------------- */

static bool parse_skew(void *ctx, const char *text) {
    uint32_t *windows = ctx;
    uint64_t ns;
    *windows = REPLAY_SKEW_NONE;
    if (strcmp(text, "inf") == 0)
        return true;
    if (!tool_parse_time(text, &ns) || ns < REPLAY_WINDOW_NS ||
        ns / REPLAY_WINDOW_NS >= INT32_MAX)
        return false;
    *windows = (uint32_t)(ns / REPLAY_WINDOW_NS);
    return true;
}

static bool parse_speed(void *ctx, const char *text) {
    double *speed = ctx;
    char *end;
    *speed = 0;
    if (strcmp(text, "max") == 0)
        return true;
    *speed = strtod(text, &end);
    return end != text && *end == '\0' && *speed >= 1e-6 && *speed <= 1e6;
}

/* Takes the name of an allocator, or its library. */
static bool parse_allocator(void *ctx, const char *text) {
    static char path[PATH_MAX], names[400];
    struct replay_options *o = ctx;
    enum tool_allocator_found found = tool_allocator_find(text, path);
    o->library = path;
    if (found == TOOL_ALLOCATOR_FOUND || (found == TOOL_ALLOCATOR_UNKNOWN &&
                                          tool_allocator_find_file(text, path)))
        return true;
    (void)tool_usage_error("-a: \"%s\" is not an allocator that is installed "
                           "(%s) or the library of one",
                           text, tool_allocators_installed(names));
    return false;
}

/* Takes a number of operations, or a time with its unit. */
static bool parse_step(void *ctx, const char *text) {
    struct replay_options *o = ctx;
    o->timeline_is_time = !tool_parse_u64(text, UINT64_MAX, &o->timeline_step);
    return (!o->timeline_is_time || tool_parse_time(text, &o->timeline_step)) &&
           o->timeline_step != 0;
}

/* Takes "1/N": one call of N words is timed. */
static bool parse_latency(void *ctx, const char *text) {
    uint64_t *stride = ctx;
    *stride = REPLAY_LATENCY_STRIDE;
    if (text == NULL)
        return true;
    if (strncmp(text, "1/", 2) != 0 ||
        !tool_parse_u64(text + 2, UINT32_MAX, stride) || *stride == 0)
        return false;
    *stride -= 1;
    return true;
}

/* Most moments of --memory-at. */
#define STOPS_MOST 256u

/* Takes ascending numbers of operations, perhaps behind "short:". */
static bool parse_moments(void *ctx, const char *text) {
    static uint64_t stop[STOPS_MOST];
    struct replay_options *o = ctx;
    size_t n = 0;
    o->memory_in_short = strncmp(text, "short:", 6) == 0;
    for (const char *at = text + (o->memory_in_short ? 6 : 0);; n++) {
        char number[24];
        size_t length = strcspn(at, ",");
        if (n == STOPS_MOST || length >= sizeof(number))
            return false;
        memcpy(number, at, length);
        number[length] = '\0';
        if (!tool_parse_u64(number, UINT64_MAX, &stop[n]) ||
            stop[n] <= (n == 0 ? 0 : stop[n - 1]))
            return false;
        if (at[length] == '\0') {
            n++;
            break;
        }
        at += length + 1;
    }
    o->order.stop = stop;
    o->order.stops = n;
    return true;
}

/* Takes a time; with a minus: until a signal. */
static bool parse_sleep(void *ctx, const char *text) {
    uint64_t *ns = ctx;
    bool endless = text[0] == '-';
    if (!tool_parse_time(text + (endless ? 1 : 0), ns))
        return false;
    if (endless)
        *ns = UINT64_MAX;
    return true;
}

/* Sets the options that a summary of trace_run implies: its averages are over
   all calls, and its threads are real ones. The decoding process needs these,
   too. */
static void apply_summary(struct replay_options *o) {
    if (!o->trace_run)
        return;
    o->latency = true;
    o->latency_stride = 0;
    if (o->threads == REPLAY_THREADS_DEFAULT && o->log == NULL)
        o->threads = REPLAY_THREADS_REAL;
}

/* Checks the options of order and time. False: they contradict each other. */
static bool check_order(struct replay_options *o) {
    struct replay_order *order = &o->order;
    bool real = o->threads == REPLAY_THREADS_REAL;
    if (!o->has_skew)
        order->skew = real ? 1 : 0;
    if (!real && (o->has_skew || o->most_hosts != 0 || o->has_think)) {
        (void)tool_usage_error("--%s is for --threads=real",
                               o->has_skew          ? "skew"
                               : o->most_hosts != 0 ? "max-threads"
                                                    : "think");
        return false;
    }
    if (o->has_max_idle && order->speed == 0 && !order->spread &&
        !order->clock) {
        (void)tool_usage_error(
            "--max-idle is for --speed, --clock=recorded or --think=recorded");
        return false;
    }
    if (order->clock && !replay_clock_is_supported()) {
        (void)tool_usage_error("--clock=recorded: not in this build, which has "
                               "sanitizers or is for another processor");
        return false;
    }
    if (order->clock && (order->speed > 0 || order->spread)) {
        (void)tool_usage_error("--clock=recorded runs at full speed: it is not "
                               "for --%s",
                               order->speed > 0 ? "speed" : "think=recorded");
        return false;
    }
    return true;
}

/* Makes this process a run of several, with output files of its own. */
static bool become_run(struct replay_options *o) {
    static char timeline[4096], statistics[4096], log[4096];
    uint64_t number;
    bool good = replay_repeat_parse(o->is_run, &o->json, &number);
    o->repeat = o->hold_ns = 0;
    if (good && o->timeline != NULL) {
        good =
            replay_repeat_name(timeline, sizeof(timeline), o->timeline, number);
        o->timeline = timeline;
    }
    if (good && o->statistics_file != NULL) {
        good = replay_repeat_name(statistics, sizeof(statistics),
                                  o->statistics_file, number);
        o->statistics_file = statistics;
    }
    if (good && o->log != NULL) {
        good = replay_repeat_name(log, sizeof(log), o->log, number);
        o->log = log;
    }
    if (!good)
        (void)tool_usage_error("a file name is too long for --repeat");
    return good;
}

/* Parses the options. False: exit with the status in O. */
static bool parse_table(struct replay_options *out, struct tool_opts *o,
                        int argc, char **argv) {
    /* In the order of the enumerations, without the default. */
    static const char *const threads[] = {"switch", "none", "real", NULL};
    static const char *const clocks[] = {"real", "recorded", NULL};
    static const char *const thinks[] = {"none", "recorded", NULL};
    static const char *const summaries[] = {"trace_run", NULL};
    const char *touches[REPLAY_TOUCHES + 1];
    unsigned mode = 0, touch = REPLAY_TOUCH_AUTO, think = 0;
    unsigned clock = 0;
    bool has_mode = false, has_moments = false;
    for (int i = 0; i < REPLAY_TOUCHES; i++)
        touches[i] = replay_touch_name((enum replay_touch)i);
    touches[REPLAY_TOUCHES] = NULL;
    const struct tool_opt opts[] = {
        {.letter = 'a',
         .value = "NAME",
         .help = "the allocator: " TOOL_ALLOCATOR_C_LIBRARY
                 ", " TCM_ALLOCATOR_NAME ", jemalloc, "
                 "mimalloc, gperftools or another that is installed, or the "
                 "path of a library; takes the place of LD_PRELOAD",
         .take = parse_allocator,
         .ctx = out},
        {.name = "json",
         .value = "FILE",
         .help = "write the results as JSON to FILE; with - to stdout, and the "
                 "text to stderr",
         .text = &out->json},
        {.name = "threads",
         .value = "MODE",
         .help = "switch: each recorded thread with a thread cache of its own; "
                 "none: all on one thread and its cache; real: each on a "
                 "thread of its own. Default: switch if the allocator can and "
                 "NO_THREAD_CACHE_SWITCH is not set; else real if the trace "
                 "has several threads, or none",
         .word = &mode,
         .words = threads,
         .given = &has_mode},
        {.name = "skew",
         .rare = true,
         .value = "TIME",
         .help = "with real: how far in recorded time threads may run apart, "
                 "from 1ms; inf: only hand-overs of blocks order them. "
                 "Default: 1ms",
         .take = parse_skew,
         .ctx = &out->order.skew,
         .expects = "a time from 1ms on, the length of a window, or inf",
         .given = &out->has_skew},
        {.name = "max-threads",
         .rare = true,
         .value = "N",
         .help = "with real: at most N threads, which take turns",
         .count = &out->most_hosts,
         .least = 1,
         .most = INT32_MAX},
        {.name = "speed",
         .value = "X",
         .help = "X times as fast as recorded, or max. Default: max",
         .take = parse_speed,
         .ctx = &out->order.speed,
         .expects = "a number from 1e-6 to 1e6, or max"},
        {.name = "clock",
         .value = "WHICH",
         .help = "recorded: the allocator is given the time of the trace, so "
                 "that an hour passes for it in the seconds of the replay; "
                 "real. Default: real",
         .word = &clock,
         .words = clocks},
        {.name = "max-idle",
         .rare = true,
         .value = "TIME",
         .help = "with --speed or --clock=recorded: no longer pause than TIME "
                 "as recorded",
         .ns = &out->order.max_idle_ns,
         .least = 1,
         .given = &out->has_max_idle},
        {.name = "think",
         .rare = true,
         .value = "WHAT",
         .help =
             "with real: recorded, to spread operations over their recorded "
             "time; none. Default: none",
         .word = &think,
         .words = thinks,
         .given = &out->has_think},
        {.name = "touch",
         .value = "WHAT",
         .help =
             "bytes written to a block: auto (the first 8 bytes of blocks "
             "below 4 KiB, all or the present bytes of larger ones), none, "
             "first (8 bytes), page (a byte a page), all; use: as auto, and "
             "blocks are read when they are freed. Default: auto",
         .word = &touch,
         .words = touches},
        {.name = "check",
         .help = "verify every call of the allocator; times mean nothing then",
         .flag = &out->check},
        {.name = "timeline",
         .value = "FILE",
         .help = "write memory in the course of time to FILE: JSON if its name "
                 "ends in .json, else CSV",
         .text = &out->timeline},
        {.name = "timeline-step",
         .rare = true,
         .value = "N",
         .help = "a row every N operations, or every N of recorded time (5ms)",
         .take = parse_step,
         .ctx = out,
         .expects = "a number of operations, or a time such as 5ms, from 1 on"},
        {.name = "memory",
         .value = "FILE",
         .help = "write as JSON to FILE what lies on the resident pages, in "
                 "the course of time and at the end: malloc-trace memory makes "
                 "tables of it",
         .text = &out->memory},
        {.name = "memory-at",
         .rare = true,
         .value = "LIST",
         .help = "with --memory: also in full behind the operations of these "
                 "numbers; short:LIST: only when most memory was resident, "
                 "also there, and when most of it was not live",
         .take = parse_moments,
         .ctx = out,
         .expects = "up to 256 numbers of operations, ascending and separated "
                    "by commas, perhaps after short:",
         .given = &has_moments},
        {.name = "memory-by",
         .value = "WAY",
         .word = &out->residency,
         .words = memory_residency_name},
        {.name = "log",
         .rare = true,
         .value = "FILE",
         .help = "write the calls to FILE, with the addresses that they "
                 "returned; not with real",
         .text = &out->log},
        {.name = "latency",
         .value = "1/N",
         .value_optional = true,
         .help = "time single calls, one in N (default: 2048)",
         .take = parse_latency,
         .ctx = &out->latency_stride,
         .expects = "1/N with N from 1 on",
         .given = &out->latency},
        {.name = "count-returns",
         .rare = true,
         .help = "count the calls that give memory back to the system and take "
                 "it; each of them takes some microseconds longer then",
         .flag = &out->count_returns},
        {.name = "allocator-stats",
         .rare = true,
         .value = "FILE",
         .value_optional = true,
         .help =
             "write the allocator's own statistics at the end, to stderr or "
             "FILE",
         .text = &out->statistics_file,
         .given = &out->statistics},
        {.name = "summary",
         .rare = true,
         .value = "FORM",
         .help = "trace_run: print the lines of dj/malloc's trace_run",
         .words = summaries,
         .given = &out->trace_run},
        {.name = "repeat",
         .value = "N",
         .help = "make N runs, each a new process; least, median and most of "
                 "their figures",
         .count = &out->repeat,
         .least = 1,
         .most = 1000000},
        {.letter = 's',
         .name = "sleep",
         .rare = true,
         .value = "TIME",
         .help = "sleep for TIME after the report; with -TIME until a signal "
                 "comes",
         .take = parse_sleep,
         .ctx = &out->hold_ns,
         .expects = "a time such as 2.5, 1500ms or 1m30s, or - with a time"},
        /* Between processes of replay. */
        {.name = REPLAY_UNDER, .value = "LIBRARY", .text = &out->under},
        {.name = REPLAY_CLOCK_PROBE,
         .value = "FD",
         .count = &out->probe_fd,
         .most = INT_MAX,
         .given = &out->probes},
        {.name = REPLAY_REPEAT_RUN, .value = "RUN", .text = &out->is_run},
        {.name = REPLAY_DECODE,
         .value = "FD",
         .count = &out->ring_fd,
         .most = INT_MAX,
         .given = &out->decodes},
        {0}};
    const struct tool_command command = {
        .usage = "replay [OPTION]... [FILE]...",
        .about = "Runs the requests of traces (of stdin without FILE; "
                 "processed or raw, plain or compressed, also of the formats "
                 "that malloc-trace convert reads) against the malloc of this "
                 "process, which -a or LD_PRELOAD chooses, and reports time "
                 "and memory.",
        .opts = opts,
        .quiet = "no report and no progress, only errors",
        .notes = "Exit status: 0 success; 1 system error, or no trace; 2 "
                 "usage; 3 a part of the trace is missing, or SIGINT or "
                 "SIGTERM came, and the rest was replayed; 5 --check found the "
                 "allocator at fault."};
    out->order.max_idle_ns = UINT64_MAX;
    bool good = tool_opts_parse(o, &command, argc, argv);
    if (has_mode)
        out->threads = (enum replay_threads_mode)(REPLAY_THREADS_SWITCH + mode);
    out->touch = (enum replay_touch)touch;
    out->order.spread = think != 0;
    out->order.clock = clock != 0;
    out->order.sites = out->memory != NULL;
    if (good && has_moments && out->memory == NULL) {
        o->status = tool_usage_error("--memory-at is for --memory");
        return false;
    }
    return good;
}

/* Checks options that exclude or need others. False: after a message. */
static bool check_together(struct replay_options *o) {
    if (o->timeline != NULL && tool_file_is_stdout(o->timeline)) {
        (void)tool_usage_error("--timeline needs a file");
        return false;
    }
    if (o->memory != NULL && tool_file_is_stdout(o->memory)) {
        (void)tool_usage_error("--memory needs a file");
        return false;
    }
    if (o->memory != NULL && (o->check || o->log != NULL || o->repeat != 0)) {
        (void)tool_usage_error("--memory is not for --%s", o->check ? "check"
                                                           : o->log != NULL
                                                               ? "log"
                                                               : "repeat");
        return false;
    }
    if (o->log != NULL && o->repeat != 0 && tool_file_is_stdout(o->log)) {
        (void)tool_usage_error("--log with --repeat needs a file");
        return false;
    }
    if (o->trace_run && o->repeat != 0) {
        (void)tool_usage_error("--summary is not for --repeat");
        return false;
    }
    if (o->log != NULL && o->threads == REPLAY_THREADS_REAL) {
        (void)tool_usage_error("--log is not for --threads=real");
        return false;
    }
    if (o->timeline_step != 0 && o->timeline == NULL) {
        (void)tool_usage_error("--timeline-step is for --timeline");
        return false;
    }
    return true;
}

/* Checks that no output is an input, or written twice. False: after a
   message. */
static bool check_outputs(const struct replay_options *o) {
    static const char *const standard[] = {"-"};
    const char *const *in =
        o->files == 0 ? standard : (const char *const *)o->file;
    int ins = o->files == 0 ? 1 : o->files;
    const char *outs[5];
    int n = 0;
    if (o->memory != NULL)
        outs[n++] = o->memory;
    if (o->timeline != NULL)
        outs[n++] = o->timeline;
    if (o->log != NULL)
        outs[n++] = o->log;
    if (o->statistics_file != NULL)
        outs[n++] = o->statistics_file;
    if (n != 0 && o->json != NULL)
        outs[n++] = o->json;
    if (n != 0 && tool_files_collide(outs, n, in, ins))
        return false;
    return !tool_files_collide_text(o->json, in, ins);
}

bool replay_options_parse(int argc, char **argv, struct replay_options *out,
                          int *status) {
    struct tool_opts o;
    if (!parse_table(out, &o, argc, argv)) {
        *status = o.status;
        return false;
    }
    if (out->probes)
        return true;
    *status = TOOL_USAGE;
    apply_summary(out);
    if (!check_order(out))
        return false;
    if (o.operand_count == 0 && isatty(STDIN_FILENO) == 1) {
        (void)tool_usage_error(
            "no FILE given, and standard input is a terminal");
        return false;
    }
    out->file = o.operand;
    out->files = open_recordings_join_spools(o.operand, o.operand_count);
    /* The process that made this one checked the rest. */
    if (out->decodes)
        return true;
    if (out->is_run != NULL)
        return become_run(out);
    if (out->repeat != 0 && !replay_repeat_can(out->file, out->files))
        return false;
    return check_together(out) && check_outputs(out);
}
