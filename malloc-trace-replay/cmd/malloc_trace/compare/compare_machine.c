/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_machine.h"

#include "base/clock.h"
#include "base/linux/os_perf.h"
#include "common/shared_library.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

/* --- Files of the kernel -------------------------------------------------- */

/* Puts what follows KEY in the first line of the file NAME that begins with KEY
   into VALUE. */
static bool read_line_of(const char *name, const char *key, char *value,
                         size_t size) {
    char line[1024];
    bool found = false;
    FILE *f = fopen(name, "re");
    if (f == NULL)
        return false;
    while (!found && fgets(line, sizeof(line), f) != NULL) {
        size_t n = strlen(key);
        if (strncmp(line, key, n) != 0)
            continue;
        char *at = line + n + strspn(line + n, " \t:");
        at[strcspn(at, "\n")] = '\0';
        snprintf(value, size, "%s", at);
        found = true;
    }
    fclose(f);
    return found;
}

static uint64_t read_number_of(const char *name, const char *key) {
    char value[256];
    return read_line_of(name, key, value, sizeof(value))
               ? strtoull(value, NULL, 10)
               : 0;
}

void compare_machine_read(struct compare_machine *m) {
    struct utsname u;
    char modes[128];
    memset(m, 0, sizeof(*m));
    if (uname(&u) == 0) {
        snprintf(m->host, sizeof(m->host), "%.64s", u.nodename);
        snprintf(m->kernel, sizeof(m->kernel), "%.40s %.50s", u.sysname,
                 u.release);
    }
    if (!read_line_of("/proc/cpuinfo", "model name", m->processor,
                      sizeof(m->processor)))
        snprintf(m->processor, sizeof(m->processor), "%.60s", u.machine);
    tool_c_library(m->c_library, sizeof(m->c_library));
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    m->cpus = cpus > 0 ? (uint64_t)cpus : 1;
    m->memory_bytes = read_number_of("/proc/meminfo", "MemTotal") << 10;
    if (read_line_of("/sys/kernel/mm/transparent_hugepage/enabled", "", modes,
                     sizeof(modes))) {
        const char *at = strchr(modes, '[');
        if (at != NULL)
            snprintf(m->huge_pages, sizeof(m->huge_pages), "%.*s",
                     (int)strcspn(at + 1, "]"), at + 1);
    }
    (void)read_line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                       "", m->governor, sizeof(m->governor));
}

void compare_machine_json(const struct compare_machine *m, const char *key,
                          struct tool_json *j) {
    tool_json_begin_object(j, key);
    tool_json_string(j, "host", m->host);
    tool_json_string(j, "processor", m->processor);
    tool_json_u64(j, "cpus", m->cpus);
    tool_json_u64(j, "memory_bytes", m->memory_bytes);
    tool_json_string(j, "kernel", m->kernel);
    tool_json_string(j, "c_library", m->c_library);
    tool_json_string(j, "huge_pages", m->huge_pages);
    tool_json_string(j, "governor", m->governor);
    tool_json_end_object(j);
}

bool compare_machine_is_like(const struct compare_machine *a,
                             const struct compare_machine *b) {
    return strcmp(a->processor, b->processor) == 0 && a->cpus == b->cpus &&
           strcmp(a->kernel, b->kernel) == 0 &&
           strcmp(a->c_library, b->c_library) == 0 &&
           strcmp(a->huge_pages, b->huge_pages) == 0;
}

/* --- Load ----------------------------------------------------------------- */

static double processor_seconds(int target) {
    struct rusage u;
    if (getrusage(target, &u) != 0)
        return 0;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

void compare_machine_load(struct compare_machine_load *l) {
    struct tcm_processor_time all;
    memset(l, 0, sizeof(*l));
    if (tcm_os_processor_time(&all)) {
        l->busy_s = (double)all.busy_ns / 1e9;
        l->steal_s = (double)all.stolen_ns / 1e9;
    }
    l->own_s =
        processor_seconds(RUSAGE_SELF) + processor_seconds(RUSAGE_CHILDREN);
    l->throttled = read_number_of("/sys/fs/cgroup/cpu.stat", "nr_throttled");
    l->swapped_pages = read_number_of("/proc/vmstat", "pswpin") +
                       read_number_of("/proc/vmstat", "pswpout");
    l->at_ns = tcm_clock_ns();
}

static void add_note(struct compare_machine_notes *n, const char *fmt, ...)
    TCM_PRINTF(2, 3);
static void add_note(struct compare_machine_notes *n, const char *fmt, ...) {
    va_list ap;
    if (n->count == COMPARE_MACHINE_NOTES)
        return;
    va_start(ap, fmt);
    vsnprintf(n->text[n->count++], sizeof(n->text[0]), fmt, ap);
    va_end(ap);
}

void compare_machine_before(const struct compare_machine *m,
                            struct compare_machine_notes *n) {
    double load = 0;
    char text[64];
    if (read_line_of("/proc/loadavg", "", text, sizeof(text)))
        load = strtod(text, NULL);
    if (load > 0.5 + 0.1 * (double)m->cpus)
        add_note(n, "before the first run the system's load was %.1f", load);
    if (m->governor[0] != '\0' && strcmp(m->governor, "performance") != 0)
        add_note(n,
                 "the processor's frequency changes: its governor is '%s', not "
                 "'performance'",
                 m->governor);
    if (m->cpus == 1)
        add_note(n,
                 "there is one processor: threads never run at the same time");
}

void compare_machine_during(const struct compare_machine *m,
                            const struct compare_machine_load *from,
                            const struct compare_machine_load *to,
                            struct compare_machine_notes *n) {
    double all = (double)(to->at_ns - from->at_ns) / 1e9 * (double)m->cpus;
    double others = to->busy_s - from->busy_s - (to->own_s - from->own_s);
    double steal = to->steal_s - from->steal_s;
    if (all <= 0)
        return;
    if (steal > 0.01 * all)
        add_note(n, "the host took %.1f %% of the processors' time (steal)",
                 100 * steal / all);
    if (others > 0.05 * all)
        add_note(n, "other programs took %.0f %% of the processors' time",
                 100 * others / all);
    if (to->throttled > from->throttled)
        add_note(n, "the control group's limit stopped processes %llu times",
                 (unsigned long long)(to->throttled - from->throttled));
    if (to->swapped_pages > from->swapped_pages)
        add_note(n, "%llu pages were swapped",
                 (unsigned long long)(to->swapped_pages - from->swapped_pages));
}
