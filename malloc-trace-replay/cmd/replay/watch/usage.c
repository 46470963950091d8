/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observer of processor and system: processor time, faults, switches and
 * hardware counters from mark to mark, with all threads of the process; and the
 * part of the machine that other programs took.
 *
 * Threads: one.
 */
#include "base/clock.h"
#include "base/linux/os_perf.h"
#include "cmd/replay/watch/observer.h"
#include "common/text.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Processor time of the machine. */
struct usage_machine {
    uint64_t at_ns;
    uint64_t busy_ns; /* of all processors and programs; 0: unknown */
    uint64_t own_ns;  /* part of the replayer's two processes */
};

static struct usage {
    struct usage_machine from, to;
    struct rusage first, last;
    int fd[TCM_OS_PERF_EVENTS]; /* -1: no counter */
    uint64_t count[TCM_OS_PERF_EVENTS];
    bool counted[TCM_OS_PERF_EVENTS];
    int error; /* errno of the first counter that could not be opened */
} usage_state;

/* --- Measuring ------------------------------------------------------------ */

/* Counters include the threads that are made later. */
static bool usage_begin(struct replay_watch *w, void **state) {
    struct usage *u = &usage_state;
    (void)w;
    *state = u;
    for (unsigned i = 0; i < TCM_OS_PERF_EVENTS; i++) {
        u->fd[i] = tcm_os_perf_open((enum tcm_os_perf)i);
        if (u->fd[i] < 0 && u->error == 0)
            u->error = errno;
    }
    return true;
}

/* Reads the times; DECODER_NS is that of the decoding process so far. */
static void machine_read(struct usage_machine *m, uint64_t decoder_ns) {
    struct tcm_processor_time all;
    (void)tcm_os_processor_time(&all);
    m->at_ns = tcm_clock_ns();
    m->busy_ns = all.busy_ns;
    m->own_ns = tcm_clock_process_cpu_ns() + decoder_ns;
}

static void usage_start(struct replay_watch *w, void *state) {
    struct usage *u = state;
    machine_read(&u->from, w->result->cpu_ns);
    (void)getrusage(RUSAGE_SELF, &u->first);
    for (unsigned i = 0; i < TCM_OS_PERF_EVENTS; i++)
        if (u->fd[i] >= 0)
            tcm_os_perf_start(u->fd[i]);
}

static void usage_end(struct replay_watch *w, void *state) {
    struct usage *u = state;
    for (unsigned i = 0; i < TCM_OS_PERF_EVENTS; i++) {
        if (u->fd[i] < 0)
            continue;
        tcm_os_perf_stop(u->fd[i]);
        u->counted[i] = tcm_os_perf_read(u->fd[i], &u->count[i]);
        close(u->fd[i]);
        u->fd[i] = -1;
    }
    (void)getrusage(RUSAGE_SELF, &u->last);
    machine_read(&u->to, w->result->cpu_ns);
}

/* Least duration for a figure: ticks are 10 ms. */
#define MACHINE_NS 200000000u

/* Part of the processors' time that other programs took, in per cent; -1:
   unknown. */
static double others_percent(const struct usage *u) {
    uint64_t ns = u->to.at_ns - u->from.at_ns;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (u->from.busy_ns == 0 || u->to.busy_ns == 0 || ns < MACHINE_NS ||
        processors <= 0)
        return -1;
    uint64_t all = u->to.busy_ns - u->from.busy_ns;
    uint64_t own = u->to.own_ns - u->from.own_ns;
    double percent = own >= all ? 0
                                : (double)(all - own) * 100 /
                                      ((double)ns * (double)processors);
    return percent > 100 ? 100 : percent;
}

/* --- Telling -------------------------------------------------------------- */

static uint64_t ns_between(struct timeval first, struct timeval last) {
    return (uint64_t)((int64_t)(last.tv_sec - first.tv_sec) * 1000000000 +
                      (int64_t)(last.tv_usec - first.tv_usec) * 1000);
}

static uint64_t user_ns(const struct usage *u) {
    return ns_between(u->first.ru_utime, u->last.ru_utime);
}

uint64_t replay_usage_user_ns(const struct replay_watch *w) {
    const struct usage *u = w->state[REPLAY_OBSERVER_usage];
    return u == NULL ? 0 : user_ns(u);
}

static uint64_t system_ns(const struct usage *u) {
    return ns_between(u->first.ru_stime, u->last.ru_stime);
}

static uint64_t between(long first, long last) {
    return (uint64_t)(last - first);
}

static bool counted_any(const struct usage *u) {
    bool any = false;
    for (unsigned i = 0; i < TCM_OS_PERF_EVENTS; i++)
        any |= u->counted[i];
    return any;
}

static const char *usage_reason(const struct usage *u) {
    switch (u->error) {
    case 0:
        return "the processor's counters are in use";
    case EACCES:
    case EPERM:
        return "not permitted (/proc/sys/kernel/perf_event_paranoid)";
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
        return "the processor offers none here";
    case ENOSYS:
        return "the kernel has none";
    default:
        return strerror(u->error);
    }
}

static void print_counters(const struct usage *u, FILE *out) {
    static const char *const name[TCM_OS_PERF_EVENTS] = {
        "instructions", "cycles", "cache misses", "dTLB misses"};
    struct tool_text a;
    const char *before = "counted          ";
    for (unsigned i = 0; i < TCM_OS_PERF_EVENTS; i++) {
        if (!u->counted[i])
            continue;
        fprintf(out, "%s %s %s", before, tool_text_count(&a, u->count[i]),
                name[i]);
        before = ",";
    }
    fputc('\n', out);
}

/* Per cent from which the report names it. Any system takes some. */
#define OTHERS_TOLD 10

static void usage_print(const struct replay_watch *w, const void *state,
                        FILE *out) {
    const struct usage *u = state;
    struct tool_text a, b, c, d;
    (void)w;
    fprintf(out,
            "system use        user %s, system %s, %s faults, %s switches\n",
            tool_text_ns(&a, user_ns(u)), tool_text_ns(&b, system_ns(u)),
            tool_text_count(&c, between(u->first.ru_minflt, u->last.ru_minflt)),
            tool_text_count(
                &d, between(u->first.ru_nvcsw, u->last.ru_nvcsw) +
                        between(u->first.ru_nivcsw, u->last.ru_nivcsw)));
    if (counted_any(u))
        print_counters(u, out);
    double others = others_percent(u);
    if (others >= OTHERS_TOLD)
        fprintf(out,
                "other programs    took %.0f %% of the processors' time: on an "
                "idle machine\n                  times are shorter\n",
                others);
}

static void usage_json(const struct replay_watch *w, const void *state,
                       struct tool_json *j) {
    const struct usage *u = state;
    static const char *const key[TCM_OS_PERF_EVENTS] = {
        "instructions", "cycles", "cache_misses", "dtlb_misses"};
    (void)w;
    tool_json_u64(j, "process_user_ns", user_ns(u));
    tool_json_u64(j, "process_system_ns", system_ns(u));
    tool_json_u64(j, "minor_faults",
                  between(u->first.ru_minflt, u->last.ru_minflt));
    tool_json_u64(j, "major_faults",
                  between(u->first.ru_majflt, u->last.ru_majflt));
    tool_json_u64(j, "voluntary_switches",
                  between(u->first.ru_nvcsw, u->last.ru_nvcsw));
    tool_json_u64(j, "involuntary_switches",
                  between(u->first.ru_nivcsw, u->last.ru_nivcsw));
    if (others_percent(u) >= 0)
        tool_json_double(j, "other_programs_percent", others_percent(u));
    if (!counted_any(u)) {
        tool_json_string(j, "counters_unavailable", usage_reason(u));
        return;
    }
    tool_json_begin_object(j, "counters");
    for (unsigned i = 0; i < TCM_OS_PERF_EVENTS; i++)
        if (u->counted[i])
            tool_json_u64(j, key[i], u->count[i]);
    tool_json_end_object(j);
}

const struct replay_observer replay_usage_observer = {
    .begin = usage_begin,
    .start = usage_start,
    .end = usage_end,
    .print = usage_print,
    .json = usage_json,
};
