/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/usage.h"

#include "base/clock.h"
#include "base/raw_io.h"
#include "common/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- Measuring ------------------------------------------------------------ */

void replay_usage_open(struct replay_usage *u) {
    for (unsigned i = 0; i < TCM_OS_PERF_EVENTS; i++) {
        u->fd[i] = tcm_os_perf_open((enum tcm_os_perf)i);
        if (u->fd[i] < 0 && u->error == 0)
            u->error = errno;
    }
}

/* The first line of /proc/stat: user, nice, system, idle, iowait, irq,
   softirq, in ticks. */
static uint64_t machine_busy_ns(void) {
    char text[512];
    uint64_t ticks = 0;
    long rate = sysconf(_SC_CLK_TCK);
    if (tcm_io_read_file("/proc/stat", text, sizeof(text)) <= 0 ||
        strncmp(text, "cpu ", 4) != 0 || rate <= 0)
        return 0;
    char *at = text + 4;
    for (unsigned i = 0; i < 7; i++) {
        uint64_t n = strtoull(at, &at, 10);
        ticks += i == 3 || i == 4 ? 0 : n;
    }
    return ticks * (1000000000u / (uint64_t)rate);
}

static void machine_look(struct replay_machine *m, uint64_t decoder_ns) {
    m->at_ns = tcm_clock_ns();
    m->busy_ns = machine_busy_ns();
    m->own_ns = tcm_clock_process_cpu_ns() + decoder_ns;
}

void replay_usage_start(struct replay_usage *u, uint64_t decoder_ns) {
    machine_look(&u->from, decoder_ns);
    (void)getrusage(RUSAGE_SELF, &u->first);
    for (unsigned i = 0; i < TCM_OS_PERF_EVENTS; i++)
        if (u->fd[i] >= 0)
            tcm_os_perf_start(u->fd[i]);
}

void replay_usage_end(struct replay_usage *u, uint64_t decoder_ns) {
    for (unsigned i = 0; i < TCM_OS_PERF_EVENTS; i++) {
        if (u->fd[i] < 0)
            continue;
        tcm_os_perf_stop(u->fd[i]);
        u->counted[i] = tcm_os_perf_read(u->fd[i], &u->count[i]);
        close(u->fd[i]);
        u->fd[i] = -1;
    }
    (void)getrusage(RUSAGE_SELF, &u->last);
    machine_look(&u->to, decoder_ns);
}

/* Ticks are 10 ms: of a shorter run they tell little. */
#define MACHINE_NS 200000000u

/* The part of the processors' time that other programs took, in per cent; -1:
   unknown. */
static double others_percent(const struct replay_usage *u) {
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

static uint64_t user_ns(const struct replay_usage *u) {
    return ns_between(u->first.ru_utime, u->last.ru_utime);
}

static uint64_t system_ns(const struct replay_usage *u) {
    return ns_between(u->first.ru_stime, u->last.ru_stime);
}

static uint64_t between(long first, long last) {
    return (uint64_t)(last - first);
}

static bool counted_any(const struct replay_usage *u) {
    bool any = false;
    for (unsigned i = 0; i < TCM_OS_PERF_EVENTS; i++)
        any |= u->counted[i];
    return any;
}

static const char *reason(const struct replay_usage *u) {
    switch (u->error) {
    case 0:
        return "the processor's counters are taken";
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

static void print_counters(const struct replay_usage *u, FILE *out) {
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

/* Less is what any system does besides. */
#define OTHERS_TOLD 10

void replay_usage_print(const struct replay_usage *u, FILE *out) {
    struct tool_text a, b, c, d;
    fprintf(out,
            "of the system     user %s, system %s, %s faults, %s switches\n",
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

void replay_usage_json(const struct replay_usage *u, struct tool_json *j) {
    static const char *const key[TCM_OS_PERF_EVENTS] = {
        "instructions", "cycles", "cache_misses", "dtlb_misses"};
    tool_json_u64(j, "user_ns", user_ns(u));
    tool_json_u64(j, "system_ns", system_ns(u));
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
        tool_json_string(j, "counters_unavailable", reason(u));
        return;
    }
    tool_json_begin_object(j, "counters");
    for (unsigned i = 0; i < TCM_OS_PERF_EVENTS; i++)
        if (u->counted[i])
            tool_json_u64(j, key[i], u->count[i]);
    tool_json_end_object(j);
}
