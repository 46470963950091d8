/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/options.h"

#include "cmd/replay/hold.h"
#include "cmd/replay/latency.h"
#include "cmd/replay/repeat.h"
#include "cmd/replay/report.h"
#include "common/files.h"
#include "common/main.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help_text[] =
    "Usage: replay [OPTION]... [FILE]...\n"
    "Runs the requests of processed traces (of stdin without FILE; plain or\n"
    "compressed, also of the formats that malloc-trace convert reads) against "
    "the\n"
    "malloc of this process, which LD_PRELOAD chooses, and reports what that\n"
    "took.\n"
    "\n"
    "      --json FILE     write the results as JSON to FILE; with - to "
    "stdout,\n"
    "                      and the text to stderr\n"
    "      --threads=MODE  switch: each recorded thread with a thread cache "
    "of\n"
    "                      its own; none: all on one thread and its cache;\n"
    "                      real: each on a thread of its own. Default: switch\n"
    "                      if the allocator can and NO_THREAD_CACHE_SWITCH is\n"
    "                      not set, else none\n"
    "      --skew=TIME     with real: how far in recorded time threads may "
    "run\n"
    "                      apart, from 1ms; inf: only blocks that pass from "
    "one\n"
    "                      to another order them. Default: 1ms\n"
    "      --max-threads=N with real: at most N threads, which take turns\n"
    "      --speed=X       X times as fast as recorded, or max. Default: max\n"
    "      --max-idle=TIME with --speed: no longer pause than TIME as "
    "recorded\n"
    "      --think=WHAT    with real: recorded, to spread operations over the\n"
    "                      time that they took; none. Default: none\n"
    "      --touch=WHAT    what is written to a block: auto (the first 8 "
    "bytes\n"
    "                      below 4 KiB, of larger ones all, or what the "
    "trace\n"
    "                      says was present), none, first (8 bytes), page (a\n"
    "                      byte a page), all; use: as auto, and blocks are\n"
    "                      read when they are freed. Default: auto\n"
    "      --check         verify all that the allocator does; not for times\n"
    "      --timeline FILE write memory in the course of time to FILE: JSON if "
    "its\n"
    "                      name ends in .json, else CSV\n"
    "      --timeline-step=N  a moment every N operations, or N ms (as 5ms)\n"
    "      --log FILE      write the calls to FILE, with the addresses that "
    "came\n"
    "                      back; not with real\n"
    "      --latency[=1/N] the time of single calls, of one in N (2048)\n"
    "      --allocator-stats[=FILE]\n"
    "                      what the allocator says of itself at the end, on\n"
    "                      stderr or in FILE\n"
    "      --summary=trace_run  the lines that dj/malloc's trace_run prints\n"
    "      --repeat=N      N runs, each a new process; least, median and most\n"
    "                      of their figures\n"
    "  -s, --sleep=TIME    sleep so long after the report; with -TIME until "
    "a\n"
    "                      signal comes\n"
    "  -q, --quiet         no report and no progress, but what is wrong\n"
    "  -h, --help          this text\n"
    "  -V, --version       version and what is built in\n"
    "\n"
    "Exit status: 0 success; 1 system error, or no processed trace; 2 usage;\n"
    "3 something of the trace is missing, or SIGINT or SIGTERM came; the rest\n"
    "was replayed; 5 --check found the allocator at fault.\n";

/* --- Options -------------------------------------------------------------- */

enum {
    OPTION_JSON = 1,
    OPTION_THREADS,
    OPTION_TOUCH,
    OPTION_SKEW,
    OPTION_MAX_THREADS,
    OPTION_SPEED,
    OPTION_MAX_IDLE,
    OPTION_THINK,
    OPTION_CHECK,
    OPTION_LATENCY,
    OPTION_TIMELINE,
    OPTION_TIMELINE_STEP,
    OPTION_LOG,
    OPTION_SUMMARY,
    OPTION_SLEEP,
    OPTION_REPEAT,
    OPTION_RUN,
    OPTION_DECODE,
    OPTION_STATISTICS
};

static bool parse_threads(const char *text, enum replay_threads_mode *mode) {
    if (strcmp(text, "switch") == 0)
        *mode = THREADS_SWITCH;
    else if (strcmp(text, "none") == 0)
        *mode = THREADS_NONE;
    else if (strcmp(text, "real") == 0)
        *mode = THREADS_REAL;
    else
        return false;
    return true;
}

static bool parse_touch(const char *text, enum replay_touch *touch) {
    for (int i = REPLAY_TOUCH_AUTO; i <= REPLAY_TOUCH_USE; i++)
        if (strcmp(text, replay_touch_name((enum replay_touch)i)) == 0) {
            *touch = (enum replay_touch)i;
            return true;
        }
    return false;
}

static bool parse_skew(const char *text, uint32_t *windows) {
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

static bool parse_speed(const char *text, double *speed) {
    char *end;
    *speed = 0;
    if (strcmp(text, "max") == 0)
        return true;
    *speed = strtod(text, &end);
    return end != text && *end == '\0' && *speed >= 1e-6 && *speed <= 1e6;
}

/* Parses a number of operations, or a time with its unit. */
static bool parse_step(const char *text, struct replay_options *o) {
    o->timeline_is_time = !tool_parse_u64(text, UINT64_MAX, &o->timeline_step);
    return (!o->timeline_is_time || tool_parse_time(text, &o->timeline_step)) &&
           o->timeline_step != 0;
}

/* "1/N": one call of N words is timed. */
static bool parse_latency(const char *text, uint64_t *stride) {
    *stride = REPLAY_LATENCY_STRIDE;
    if (text == NULL)
        return true;
    if (strncmp(text, "1/", 2) != 0 ||
        !tool_parse_u64(text + 2, UINT32_MAX, stride) || *stride == 0)
        return false;
    *stride -= 1;
    return true;
}

static bool parse_think(const char *text, bool *spread) {
    *spread = strcmp(text, "recorded") == 0;
    return *spread || strcmp(text, "none") == 0;
}

/* Looks at the options of order and time. False: they contradict each other. */
static bool parse_order(struct replay_options *o) {
    uint64_t n = 0;
    struct replay_order *order = &o->order;
    bool real = o->threads == THREADS_REAL;
    const char *name = NULL, *value = NULL;
    order->skew = real ? 1 : 0;
    order->max_idle_ns = UINT64_MAX;
    if (o->skew != NULL && !parse_skew(o->skew, &order->skew)) {
        (void)tool_usage_error("--skew=%s: a time from %u ms on is needed, "
                               "the length of a window, or inf",
                               o->skew, REPLAY_WINDOW_NS / 1000000u);
        return false;
    }
    if (o->most_threads != NULL &&
        (!tool_parse_u64(o->most_threads, INT32_MAX, &n) || n == 0)) {
        name = "max-threads";
        value = o->most_threads;
    } else if (o->speed != NULL && !parse_speed(o->speed, &order->speed)) {
        name = "speed";
        value = o->speed;
    } else if (o->max_idle != NULL &&
               (!tool_parse_time(o->max_idle, &order->max_idle_ns) ||
                order->max_idle_ns == 0)) {
        name = "max-idle";
        value = o->max_idle;
    } else if (o->think != NULL && !parse_think(o->think, &order->spread)) {
        name = "think";
        value = o->think;
    }
    if (name != NULL) {
        (void)tool_usage_error("--%s=%s makes no sense", name, value);
        return false;
    }
    o->most_hosts = (uint32_t)n;
    if (!real &&
        (o->skew != NULL || o->most_threads != NULL || o->think != NULL)) {
        (void)tool_usage_error("--%s is for --threads=real",
                               o->skew != NULL           ? "skew"
                               : o->most_threads != NULL ? "max-threads"
                                                         : "think");
        return false;
    }
    if (o->max_idle != NULL && order->speed == 0 && !order->spread) {
        (void)tool_usage_error("--max-idle is for --speed or --think=recorded");
        return false;
    }
    return true;
}

/* Makes this a run of several, with output files of its own. */
static bool be_run(struct replay_options *o) {
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
        (void)tool_usage_error("a name is too long");
    return good;
}

bool replay_options_parse(int argc, char **argv, struct replay_options *out,
                          int *status) {
    static const struct tool_option table[] = {
        {"json", 0, true, OPTION_JSON},
        {"threads", 0, true, OPTION_THREADS},
        {"touch", 0, true, OPTION_TOUCH},
        {"skew", 0, true, OPTION_SKEW},
        {"max-threads", 0, true, OPTION_MAX_THREADS},
        {"speed", 0, true, OPTION_SPEED},
        {"max-idle", 0, true, OPTION_MAX_IDLE},
        {"think", 0, true, OPTION_THINK},
        {"check", 0, false, OPTION_CHECK},
        {"latency", 0, TOOL_OPTIONAL, OPTION_LATENCY},
        {"timeline", 0, true, OPTION_TIMELINE},
        {"timeline-step", 0, true, OPTION_TIMELINE_STEP},
        {"log", 0, true, OPTION_LOG},
        {"summary", 0, true, OPTION_SUMMARY},
        {"sleep", 's', true, OPTION_SLEEP},
        {"repeat", 0, true, OPTION_REPEAT},
        {REPLAY_REPEAT_RUN, 0, true, OPTION_RUN},
        {REPLAY_DECODE, 0, true, OPTION_DECODE},
        {"allocator-stats", 0, TOOL_OPTIONAL, OPTION_STATISTICS},
        {NULL, 0, false, 0}};
    struct tool_options o;
    int id;
    tool_options_init(&o, argc, argv, table, help_text);
    while ((id = tool_option_next(&o)) > 0) {
        bool good = true;
        switch (id) {
        case OPTION_JSON:
            out->json = o.value;
            break;
        case OPTION_THREADS:
            good = parse_threads(o.value, &out->threads);
            break;
        case OPTION_TOUCH:
            good = parse_touch(o.value, &out->touch);
            break;
        case OPTION_SKEW:
            out->skew = o.value;
            break;
        case OPTION_MAX_THREADS:
            out->most_threads = o.value;
            break;
        case OPTION_SPEED:
            out->speed = o.value;
            break;
        case OPTION_MAX_IDLE:
            out->max_idle = o.value;
            break;
        case OPTION_THINK:
            out->think = o.value;
            break;
        case OPTION_CHECK:
            out->check = true;
            break;
        case OPTION_TIMELINE:
            out->timeline = o.value;
            break;
        case OPTION_LOG:
            out->log = o.value;
            break;
        case OPTION_SUMMARY:
            good = strcmp(o.value, "trace_run") == 0;
            out->trace_run = true;
            break;
        case OPTION_TIMELINE_STEP:
            good = parse_step(o.value, out);
            break;
        case OPTION_LATENCY:
            out->latency = true;
            good = parse_latency(o.value, &out->latency_stride);
            break;
        case OPTION_SLEEP:
            good = replay_hold_parse(o.value, &out->hold_ns);
            break;
        case OPTION_REPEAT:
            good = tool_parse_u64(o.value, 1000000, &out->repeat) &&
                   out->repeat != 0;
            break;
        case OPTION_STATISTICS:
            out->statistics = true;
            out->statistics_file = o.value;
            break;
        case OPTION_RUN:
            out->is_run = o.value;
            break;
        case OPTION_DECODE:
            out->decodes = true;
            good = tool_parse_u64(o.value, INT_MAX, &out->ring_fd);
            break;
        }
        if (!good) {
            *status = tool_usage_error("unknown --%s=%s", table[id - 1].name,
                                       o.value);
            return false;
        }
    }
    if (id < 0) {
        *status = o.status;
        return false;
    }
    if (!parse_order(out)) {
        *status = TOOL_USAGE;
        return false;
    }
    if (o.operand_count == 0 && isatty(STDIN_FILENO) == 1) {
        *status =
            tool_usage_error("no FILE given, and standard input is a terminal");
        return false;
    }
    out->file = o.operand;
    out->files = o.operand_count;
    /* The rest was looked at by the process that made this one. */
    if (out->decodes)
        return true;
    static const char *const standard[] = {"-"};
    const char *const *in =
        out->files == 0 ? standard : (const char *const *)o.operand;
    *status = TOOL_USAGE;
    if (out->is_run != NULL)
        return be_run(out);
    if (out->repeat != 0 && !replay_repeat_can(out->file, out->files))
        return false;
    int ins = out->files == 0 ? 1 : out->files;
    if (out->timeline != NULL && tool_file_is_stdout(out->timeline)) {
        (void)tool_usage_error("--timeline needs a file");
        return false;
    }
    if (out->log != NULL && out->repeat != 0 && tool_file_is_stdout(out->log)) {
        (void)tool_usage_error("--log with --repeat needs a file");
        return false;
    }
    if (out->trace_run && out->repeat != 0) {
        (void)tool_usage_error("--summary is not for --repeat");
        return false;
    }
    if (out->trace_run) { /* its averages are of all calls */
        out->latency = true;
        out->latency_stride = 0;
        if (out->threads == THREADS_DEFAULT && out->log == NULL)
            out->threads = THREADS_REAL;
    }
    if (out->log != NULL && out->threads == THREADS_REAL) {
        (void)tool_usage_error("--log is not for --threads=real");
        return false;
    }
    const char *outs[4];
    int n = 0;
    if (out->timeline != NULL)
        outs[n++] = out->timeline;
    if (out->log != NULL)
        outs[n++] = out->log;
    if (out->statistics_file != NULL)
        outs[n++] = out->statistics_file;
    if (n != 0 && out->json != NULL)
        outs[n++] = out->json;
    if (n != 0 && tool_files_collide(outs, n, in, ins))
        return false;
    if (out->timeline_step != 0 && out->timeline == NULL) {
        (void)tool_usage_error("--timeline-step is for --timeline");
        return false;
    }
    return !tool_files_collide_text(out->json, in, ins);
}
