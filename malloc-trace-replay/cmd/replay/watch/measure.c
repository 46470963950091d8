/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/watch/measure.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_file.h"
#include "base/linux/os_thread.h"
#include "cmd/replay/feed/memory_room.h"
#include "cmd/replay/run/exec.h"
#include "cmd/replay/run/recorded_clock.h"
#include "cmd/replay/watch/observer.h"
#include "common/stop.h"
#include "common/text.h"

#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* --- Resident memory ------------------------------------------------------ */

/* Reads the kilobytes in line NAME of a file of /proc, in bytes; 0: none. */
static uint64_t proc_bytes(const char *path, const char *name) {
    char text[8192];
    uint64_t kib;
    return tcm_io_read_file(path, text, sizeof(text)) >= 0 &&
                   replay_number_in(text, name, &kib)
               ? kib * 1024
               : 0;
}

/* Resident bytes. smaps_rollup walks the page tables and is exact; the counters
   behind status may be off by some pages for each processor. */
static uint64_t rss_now(void) {
    uint64_t bytes = proc_bytes("/proc/self/smaps_rollup", "Rss:");
    return bytes != 0 ? bytes : proc_bytes("/proc/self/status", "VmRSS:");
}

/* Peak of resident bytes since the last reset. */
static uint64_t rss_peak(void) {
    return proc_bytes("/proc/self/status", "VmHWM:");
}

static bool rss_reset_peak(void) {
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = write(fd, "5", 1) == 1;
    close(fd);
    return ok;
}

uint64_t replay_pages_present(int pagemap, uintptr_t first, uintptr_t end) {
    uint64_t entry[1024], present = 0;
    size_t page = tcm_os_page_size();
    while (first < end) {
        size_t n = tcm_min_u64((end - first) / page, TCM_ARRAY_SIZE(entry));
        ssize_t got = pread(pagemap, entry, n * sizeof(*entry),
                            (off_t)(first / page * sizeof(*entry)));
        if (got < (ssize_t)sizeof(*entry))
            break;
        n = (size_t)got / sizeof(*entry);
        for (size_t i = 0; i < n; i++)
            present += entry[i] >> 63;
        first += n * page;
    }
    return present;
}

/* Reads a byte of each page. The address sanitizer takes some for gaps between
   objects. */
__attribute__((no_sanitize("address"))) static void pages_read(uintptr_t first,
                                                               uintptr_t end) {
    for (uintptr_t at = first; at < end; at += tcm_os_page_size())
        (void)*(const volatile char *)at;
}

/* Callback of dl_iterate_phdr, which names the program first. */
static int program_pages(struct dl_phdr_info *info, size_t size, void *bytes) {
    size_t page = tcm_os_page_size();
    uint64_t present = 0;
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    (void)size;
    for (unsigned i = 0; pagemap >= 0 && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type != PT_LOAD)
            continue;
        uintptr_t first =
            tcm_align_down((uintptr_t)(info->dlpi_addr + h->p_vaddr), page);
        uintptr_t in_file =
            (uintptr_t)(info->dlpi_addr + h->p_vaddr + h->p_filesz);
        uintptr_t end = tcm_align_up(
            (uintptr_t)(info->dlpi_addr + h->p_vaddr + h->p_memsz), page);
        pages_read(first, in_file);
        present += replay_pages_present(pagemap, first, end);
    }
    if (pagemap >= 0)
        close(pagemap);
    memcpy(bytes, &(uint64_t){present * page}, sizeof(uint64_t));
    return 1;
}

/* Resident bytes of this program's own code and data. Makes all of its file
   resident first: pages that are first needed during the measurement would
   count as the allocator's. */
static uint64_t program_bytes(void) {
    uint64_t bytes = 0;
    (void)dl_iterate_phdr(program_pages, &bytes);
    return bytes;
}

uint64_t replay_rss_own(const struct replay_rss *m) {
    return m->own_bytes + m->observer_bytes + m->program_bytes;
}

static uint64_t without_own(const struct replay_rss *m, uint64_t bytes) {
    uint64_t own = replay_rss_own(m);
    return bytes > own ? bytes - own : 0;
}

/* Notes that BYTES were resident, without the replayer's. */
static void note_peak(struct replay_rss *m, uint64_t bytes) {
    m->peak_bytes = tcm_max_u64(m->peak_bytes, bytes);
}

/* Least time from one measurement for the average to the next. A measurement
   takes about a thousandth of it. */
#define LOOK_NS 1000000u
/* Likewise, of recorded time. */
#define PASSED_NS 10000000u

void replay_rss_start(struct replay_rss *m, uint64_t own_bytes) {
    m->started = true;
    m->own_bytes = own_bytes;
    m->program_bytes = program_bytes();
    m->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    m->look_ns = 0;
    m->peak_known = rss_reset_peak();
    m->start_bytes = without_own(m, rss_now());
    m->peak_bytes = m->start_bytes;
}

void replay_rss_before_own(struct replay_rss *m) {
    m->own_since_ns = tcm_clock_ns();
    if (m->is_paced)
        replay_clock_hold();
    if (m->peak_known)
        note_peak(m, without_own(m, rss_peak()));
}

void replay_rss_after_own(struct replay_rss *m, uint64_t own_bytes) {
    m->own_bytes = own_bytes;
    if (m->peak_known)
        rss_reset_peak();
    if (m->is_paced)
        replay_clock_resume();
    m->look_ns += tcm_clock_ns() - m->own_since_ns;
}

void replay_rss_after_observer(struct replay_rss *m, uint64_t bytes) {
    m->observer_bytes += bytes;
    replay_rss_after_own(m, m->own_bytes);
}

void replay_rss_read(const struct replay_rss *m, uint64_t *bytes,
                     uint64_t *huge_bytes) {
    char text[8192];
    uint64_t rss = 0, huge = 0;
    if (m->is_paced)
        replay_clock_hold();
    /* Each read makes the kernel walk all pages. */
    if (tcm_io_read_file("/proc/self/smaps_rollup", text, sizeof(text)) >= 0 &&
        replay_number_in(text, "Rss:", &rss))
        (void)replay_number_in(text, "AnonHugePages:", &huge);
    *bytes = without_own(m, rss != 0 ? rss * 1024 : rss_now());
    huge *= 1024;
    *huge_bytes = huge > m->own_huge_bytes ? huge - m->own_huge_bytes : 0;
    if (m->is_paced)
        replay_clock_resume();
}

uint64_t replay_rss_huge_before(void) {
    return proc_bytes("/proc/self/smaps_rollup", "AnonHugePages:");
}

void replay_rss_huge_after(struct replay_rss *m, uint64_t before) {
    m->own_huge_bytes += replay_rss_huge_before() - before;
}

/* Resident bytes by the kernel's counter, without a walk. 0: unknown. */
static uint64_t rss_counted(const struct replay_rss *m) {
    char text[128];
    ssize_t n = m->statm < 0 ? -1 : pread(m->statm, text, sizeof(text) - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    const char *second = strchr(text, ' ');
    return second == NULL
               ? 0
               : strtoull(second, NULL, 10) * (uint64_t)tcm_os_page_size();
}

uint64_t replay_rss_glance(const struct replay_rss *m) {
    uint64_t bytes = rss_counted(m);
    return bytes == 0 ? 0 : without_own(m, bytes);
}

void replay_rss_from(struct replay_rss *m) {
    m->from_ns = tcm_clock_ns();
}

static void average_add(struct replay_rss *m) {
    uint64_t bytes = m->unseen_ns == 0 ? 0 : rss_counted(m);
    if (bytes == 0)
        return;
    bytes = without_own(m, bytes);
    note_peak(m, bytes);
    m->seen_byte_ns += (double)bytes * (double)m->unseen_ns;
    m->seen_ns += m->unseen_ns;
    m->after_byte_ns += (double)bytes * (double)m->unseen_ns;
    m->after_ns += m->unseen_ns;
    m->unseen_ns = 0;
}

void replay_rss_passed(struct replay_rss *m, uint64_t ns) {
    TCM_ASSERT(m->is_recorded);
    m->unseen_ns += ns;
    if (m->unseen_ns >= PASSED_NS)
        average_add(m);
}

void replay_rss_to(struct replay_rss *m) {
    if (m->is_recorded)
        return;
    uint64_t now = tcm_clock_ns();
    m->unseen_ns += now - m->from_ns;
    m->from_ns = now;
    if (m->unseen_ns < LOOK_NS)
        return;
    average_add(m);
    m->from_ns = tcm_clock_ns();
}

bool replay_rss_wants(const struct replay_rss *m, uint64_t live_bytes) {
    return live_bytes > replay_live_mark(m->live_bytes);
}

void replay_rss_live(struct replay_rss *m, uint64_t live_bytes) {
    uint64_t since_ns = tcm_clock_ns();
    average_add(m);
    m->after_ns = 0;
    m->after_byte_ns = 0;
    m->live_bytes = live_bytes;
    replay_rss_read(m, &m->at_live_bytes, &m->at_live_huge_bytes);
    m->look_ns += tcm_clock_ns() - since_ns;
    /* This is exact, unlike the kernel's own peak. */
    note_peak(m, m->at_live_bytes);
}

uint64_t replay_rss_average(const struct replay_rss *m) {
    return m->seen_ns == 0 ? 0
                           : (uint64_t)(m->seen_byte_ns / (double)m->seen_ns);
}

/* Average after most bytes were live; at the end, if no time passed since; 0:
   unknown. */
static uint64_t rss_after(const struct replay_rss *m) {
    return m->after_ns == 0
               ? m->end_bytes
               : (uint64_t)(m->after_byte_ns / (double)m->after_ns);
}

void replay_rss_end(struct replay_rss *m) {
    uint64_t peak = rss_peak();
    replay_rss_read(m, &m->end_bytes, &m->end_huge_bytes);
    average_add(m);
    note_peak(m, without_own(m, peak));
    note_peak(m, m->end_bytes);
    if (m->statm >= 0)
        close(m->statm);
    m->statm = -1;
}

/* --- The observer --------------------------------------------------------- */

static bool resident_begin(struct replay_watch *w, void **state) {
    *state = w->rss;
    return true;
}

static void resident_start(struct replay_watch *w, void *state) {
    replay_rss_start(state, w->own_bytes);
}

static bool resident_wants(const struct replay_watch *w, const void *state,
                           const struct replay_batch *b) {
    (void)w;
    return replay_rss_wants(state, b->account.live_bytes);
}

static void resident_moment(struct replay_watch *w, void *state,
                            const struct replay_batch *b) {
    (void)w;
    replay_rss_live(state, b->account.live_bytes);
}

static void resident_end(struct replay_watch *w, void *state) {
    (void)w;
    replay_rss_end(state);
}

/* Blocks alive at the end. A slot whose allocation was refused is empty until
   its recorded free. */
static uint64_t end_blocks(const struct replay_watch *w) {
    uint64_t empty = w->exec->refused - w->exec->skipped_frees;
    uint64_t live = w->result->done.live_blocks;
    TCM_ASSERT(w->exec->refused >= w->exec->skipped_frees);
    return live - tcm_min_u64(empty, live);
}

/* Gigabytes times hours of recorded time. */
static double gb_hours(const struct replay_rss *m) {
    return m->seen_byte_ns / 1e9 / 3600e9;
}

/* Resident by live bytes, when most were live; 0: hardly any were. */
static double rss_over_live(const struct replay_rss *m) {
    return m->live_bytes == 0
               ? 0
               : (double)m->at_live_bytes / (double)m->live_bytes;
}

static void print_resident(const struct replay_rss *m, FILE *out) {
    struct tool_text a, b, c, d;
    if (!m->started)
        fprintf(out, "resident memory   not known: nothing was replayed\n");
    else if (m->peak_bytes == 0)
        fprintf(out, "resident memory   not known: there is no /proc/self\n");
    else
        fprintf(out, "resident memory   start %s, peak %s%s, mean %s, end %s\n",
                tool_text_bytes(&a, m->start_bytes),
                tool_text_bytes(&b, m->peak_bytes),
                m->peak_known ? "" : " (since the process began)",
                tool_text_bytes(&c, replay_rss_average(m)),
                tool_text_bytes(&d, m->end_bytes));
    if (m->is_recorded && m->seen_ns != 0)
        fprintf(out, "in recorded time  mean %s for %s, %.3g GB hours\n",
                tool_text_bytes(&a, replay_rss_average(m)),
                tool_text_ns(&b, m->seen_ns), gb_hours(m));
    if (rss_over_live(m) > 0)
        fprintf(out,
                "at peak of live   %s, %.3g by live bytes; %s in huge pages\n",
                tool_text_bytes(&a, m->at_live_bytes), rss_over_live(m),
                tool_text_bytes(&b, m->at_live_huge_bytes));
}

static void resident_print(const struct replay_watch *w, const void *state,
                           FILE *out) {
    struct tool_text a, b, c;
    const struct replay_result *f = w->result;
    uint64_t blocks = end_blocks(w);
    fprintf(out, "\nlive blocks       peak %s, at the end %s in %s block%s\n",
            tool_text_bytes(&a, f->done.peak_live_bytes),
            tool_text_bytes(&b, f->done.live_bytes),
            tool_text_count(&c, blocks), blocks == 1 ? "" : "s");
    if (w->runs_apart) {
        fprintf(out, "peak as run       %s",
                tool_text_bytes(&a, w->run_peak_bytes));
        if (f->most_peak_bytes != 0)
            fprintf(out, "; the skew allows %s to %s",
                    tool_text_bytes(&b, f->least_peak_bytes),
                    tool_text_bytes(&c, f->most_peak_bytes));
        fputc('\n', out);
    }
    print_resident(state, out);
    char text[UNTOUCHED_TEXT];
    if (untouched_text(&f->untouched, UNTOUCHED_REPLAYED, text) != NULL)
        fprintf(out, "%s\n", text);
    if (untouched_inherited(f->untraced_frees, text) != NULL)
        fprintf(out, "%s\n", text);
}

static void resident_json(const struct replay_watch *w, const void *state,
                          struct tool_json *j) {
    const struct replay_rss *m = state;
    const struct replay_result *f = w->result;
    tool_json_u64(j, "peak_live_bytes", f->done.peak_live_bytes);
    tool_json_u64(j, "end_live_bytes", f->done.live_bytes);
    tool_json_u64(j, "end_live_objects", end_blocks(w));
    if (w->runs_apart) {
        tool_json_u64(j, "run_peak_live_bytes", w->run_peak_bytes);
        if (f->most_peak_bytes != 0) {
            tool_json_u64(j, "least_peak_live_bytes", f->least_peak_bytes);
            tool_json_u64(j, "most_peak_live_bytes", f->most_peak_bytes);
        }
    }
    tool_json_bool(j, "peak_rss_known", m->peak_known);
    tool_json_u64(j, "start_rss_bytes", m->start_bytes);
    tool_json_u64(j, "peak_rss_bytes", m->peak_bytes);
    tool_json_u64(j, "end_rss_bytes", m->end_bytes);
    if (replay_rss_average(m) != 0)
        tool_json_u64(j, "avg_rss_bytes", replay_rss_average(m));
    if (m->is_recorded && m->seen_ns != 0) {
        tool_json_u64(j, "mean_rss_bytes", replay_rss_average(m));
        tool_json_double(j, "gb_hours", gb_hours(m));
    }
    if (rss_over_live(m) > 0) {
        tool_json_u64(j, "rss_at_peak_live_bytes", m->at_live_bytes);
        tool_json_u64(j, "peak_waste_bytes",
                      m->at_live_bytes -
                          tcm_min_u64(m->live_bytes, m->at_live_bytes));
        tool_json_double(j, "rss_over_live", rss_over_live(m));
    }
    tool_json_u64(j, "after_peak_rss_bytes", rss_after(m));
    tool_json_u64(j, "huge_bytes", m->at_live_huge_bytes);
    tool_json_u64(j, "end_huge_bytes", m->end_huge_bytes);
    tool_json_u64(j, "replayer_rss_bytes", w->own_bytes + m->observer_bytes);
    char text[UNTOUCHED_TEXT];
    if (untouched_text(&f->untouched, UNTOUCHED_REPLAYED, text) != NULL)
        tool_json_string(j, "untouched", text);
    tool_json_u64(j, "untraced_frees", f->untraced_frees);
}

const struct replay_observer replay_resident_observer = {
    .begin = resident_begin,
    .start = resident_start,
    .wants = resident_wants,
    .moment = resident_moment,
    .end = resident_end,
    .print = resident_print,
    .json = resident_json,
};

/* --- Time ----------------------------------------------------------------- */

static struct replay_cpu cpu_of(int who) {
    struct rusage use;
    if (getrusage(who, &use) != 0)
        return (struct replay_cpu){0, 0};
    return (struct replay_cpu){(uint64_t)use.ru_utime.tv_sec * 1000000000u +
                                   (uint64_t)use.ru_utime.tv_usec * 1000u,
                               (uint64_t)use.ru_stime.tv_sec * 1000000000u +
                                   (uint64_t)use.ru_stime.tv_usec * 1000u};
}

struct replay_cpu replay_cpu_thread(void) {
    return cpu_of(RUSAGE_THREAD);
}

struct replay_cpu replay_cpu_process(void) {
    return cpu_of(RUSAGE_SELF);
}

uint64_t replay_cpu_system_ns(uint64_t cpu_ns, struct replay_cpu parts) {
    double all = (double)parts.user_ns + (double)parts.system_ns;
    return all == 0
               ? 0
               : (uint64_t)((double)cpu_ns * (double)parts.system_ns / all);
}

/* Empty batches that are timed for the processor time of the readings. */
#define EMPTY_BATCHES 32

void replay_time_start(struct replay_time *t) {
    uint64_t least = UINT64_MAX;
    memset(t, 0, sizeof(*t));
    for (int i = 0; i < EMPTY_BATCHES; i++) {
        t->thread_ns = 0;
        replay_time_batch_begin(t);
        replay_time_batch_end(t, false);
        least = tcm_min_u64(least, t->thread_ns);
    }
    memset(t, 0, sizeof(*t));
    t->empty_ns = least;
    t->first_process = replay_cpu_process();
    t->first_thread = replay_cpu_thread();
    t->first_process_ns = tcm_clock_process_cpu_ns();
    t->first_thread_ns = tcm_clock_thread_cpu_ns();
    t->first_wall_ns = tcm_clock_ns();
}

void replay_time_batch_begin(struct replay_time *t) {
    TCM_ASSERT(!t->in_batch);
    t->in_batch = true;
    t->batch_thread = replay_cpu_thread();
    t->batch_thread_ns = tcm_clock_thread_cpu_ns();
    t->batch_wall_ns = tcm_clock_ns();
}

void replay_time_batch_end(struct replay_time *t, bool apart) {
    uint64_t wall_ns = tcm_clock_ns() - t->batch_wall_ns;
    uint64_t thread_ns = tcm_clock_thread_cpu_ns() - t->batch_thread_ns;
    struct replay_cpu thread =
        replay_cpu_less(replay_cpu_thread(), t->batch_thread);
    TCM_ASSERT(t->in_batch);
    t->in_batch = false;
    if (apart) {
        t->apart_ns += wall_ns;
        return;
    }
    t->wall_ns += wall_ns;
    t->thread_ns += thread_ns - tcm_min_u64(t->empty_ns, thread_ns);
    t->thread = replay_cpu_add(t->thread, thread);
}

void replay_sleep_until(uint64_t ns, struct replay_rss *m) {
    /* A different thread may get the signal. */
    for (uint64_t now = tcm_clock_ns(); now < ns && !tool_stop_requested();
         now = tcm_clock_ns()) {
        /* The C library's functions go by the allocator's clock. */
        static uint32_t never;
        tcm_futex_wait(&never, 0, tcm_min_u64(ns - now, 10000000));
        replay_rss_to(m);
    }
}

uint64_t replay_await_due(const struct replay_batch *b, uint64_t start_ns,
                          struct replay_rss *m) {
    if (b->due_ns == 0)
        return 0;
    uint64_t now = tcm_clock_ns();
    uint64_t due = start_ns + m->look_ns + b->due_ns;
    if (now >= due)
        return now - due;
    replay_sleep_until(due, m);
    return 0;
}

void replay_time_end(struct replay_time *t) {
    TCM_ASSERT(!t->in_batch);
    t->elapsed_ns = tcm_clock_ns() - t->first_wall_ns;
    uint64_t thread = tcm_clock_thread_cpu_ns() - t->first_thread_ns;
    uint64_t process = tcm_clock_process_cpu_ns() - t->first_process_ns;
    t->others_ns = process > thread ? process - thread : 0;
    t->cpu_ns = t->thread_ns + t->others_ns;
    struct replay_cpu others =
        replay_cpu_less(replay_cpu_less(replay_cpu_process(), t->first_process),
                        replay_cpu_less(replay_cpu_thread(), t->first_thread));
    t->system_ns =
        replay_cpu_system_ns(t->cpu_ns, replay_cpu_add(t->thread, others));
}
