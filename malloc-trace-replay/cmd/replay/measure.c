/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/measure.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/os_mem.h"
#include "base/raw_io.h"
#include "cmd/replay/memory.h"
#include "cmd/replay/ring.h"
#include "common/stop.h"

#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* --- Tables --------------------------------------------------------------- */

#define TABLE_FIRST ((size_t)64 << 10)
/* Tables of this size and more ask for huge pages, so that looking up a slot
   rarely misses the TLB as well. */
#define TABLE_HUGE ((size_t)2 << 20)

/* Maps LENGTH bytes at a multiple of ALIGN, all present and zero. */
static void *table_map(size_t length, size_t align) {
    void *p = tcm_os_reserve(length, align, NULL);
    if (p == NULL)
        return NULL;
    if (!tcm_os_commit(p, length)) {
        tcm_os_unmap(p, length);
        return NULL;
    }
    if (length >= TABLE_HUGE)
        tcm_os_huge_pages(p, length);
    memset(p, 0, length);
    return p;
}

bool replay_table_reserve(struct replay_table *t, uint64_t entries) {
    size_t length = tcm_align_up((size_t)entries * 8, TABLE_HUGE);
    while (length >= TABLE_HUGE) {
        t->memory = tcm_os_reserve(length, TABLE_HUGE, NULL);
        t->bytes = 0;
        t->reserved = length;
        if (t->memory != NULL)
            return true;
        length = tcm_align_down(length / 2, TABLE_HUGE);
    }
    return false;
}

/* Extends T to LENGTH bytes without moving it. */
static bool table_extend(struct replay_table *t, size_t length) {
    char *end = (char *)t->memory + t->bytes;
    length = (size_t)tcm_min_u64(length, t->reserved);
    if (!tcm_os_commit(end, length - t->bytes))
        return false;
    memset(end, 0, length - t->bytes);
    t->bytes = length;
    return true;
}

bool replay_table_grow(struct replay_table *t, uint64_t entries) {
    if (entries > SIZE_MAX / 32)
        return false;
    size_t length = t->bytes == 0 ? TABLE_FIRST : t->bytes * 2;
    if (length < entries * 8)
        length = entries * 8;
    size_t unit = length >= TABLE_HUGE ? TABLE_HUGE : TABLE_FIRST;
    length = tcm_align_up(length, unit);
    if (t->reserved != 0)
        return entries * 8 <= t->reserved && table_extend(t, length);
    void *p = table_map(length, unit);
    if (p == NULL)
        return false;
    if (t->memory != NULL) {
        memcpy(p, t->memory, t->bytes);
        tcm_os_unmap(t->memory, t->bytes);
    }
    TCM_ASSERT(length >= t->bytes && length >= entries * 8);
    t->memory = p;
    t->bytes = length;
    return true;
}

/* --- Resident memory ------------------------------------------------------ */

/* The kilobytes in line NAME of a file of /proc, as bytes; 0: none. */
static uint64_t proc_bytes(const char *path, const char *name) {
    char text[8192];
    uint64_t kib;
    return tcm_io_read_file(path, text, sizeof(text)) >= 0 &&
                   replay_number_in(text, name, &kib)
               ? kib * 1024
               : 0;
}

/* smaps_rollup walks the page tables and is exact; the counters behind status
   may be off by some pages for each processor. */
static uint64_t rss_now(void) {
    uint64_t bytes = proc_bytes("/proc/self/smaps_rollup", "Rss:");
    return bytes != 0 ? bytes : proc_bytes("/proc/self/status", "VmRSS:");
}

/* The peak since the last reset. */
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

/* How many of the pages from FIRST on, up to END, are resident. */
static uint64_t pages_present(int pagemap, uintptr_t first, uintptr_t end) {
    uint64_t entry[64], present = 0;
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

/* Reads a byte of each page; to the sanitizer some lie between objects. */
__attribute__((no_sanitize("address"))) static void pages_read(uintptr_t first,
                                                               uintptr_t end) {
    for (uintptr_t at = first; at < end; at += tcm_os_page_size())
        (void)*(const volatile char *)at;
}

/* For dl_iterate_phdr, which names the program first. */
static int see_program(struct dl_phdr_info *info, size_t size, void *bytes) {
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
        present += pages_present(pagemap, first, end);
    }
    if (pagemap >= 0)
        close(pagemap);
    memcpy(bytes, &(uint64_t){present * page}, sizeof(uint64_t));
    return 1;
}

/* What is resident of this program's own code and data, all of its file being
   made so: else pages that are needed first while it measures would count as
   the allocator's. */
static uint64_t program_bytes(void) {
    uint64_t bytes = 0;
    (void)dl_iterate_phdr(see_program, &bytes);
    return bytes;
}

static uint64_t without_own(const struct replay_rss *m, uint64_t bytes) {
    uint64_t own = m->own_bytes + m->program_bytes;
    return bytes > own ? bytes - own : 0;
}

static void note_peak(struct replay_rss *m, uint64_t bytes) {
    bytes = without_own(m, bytes);
    if (bytes > m->peak_bytes)
        m->peak_bytes = bytes;
}

/* Least time between two looks for the average; a look takes about a thousandth
   of it. */
#define LOOK_NS 1000000u

void replay_rss_start(struct replay_rss *m, uint64_t own_bytes) {
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
    if (m->peak_known)
        note_peak(m, rss_peak());
}

void replay_rss_after_own(struct replay_rss *m, uint64_t own_bytes) {
    m->own_bytes = own_bytes;
    if (m->peak_known)
        rss_reset_peak();
    m->look_ns += tcm_clock_ns() - m->own_since_ns;
}

void replay_rss_look(const struct replay_rss *m, uint64_t *bytes,
                     uint64_t *huge_bytes) {
    char text[8192];
    uint64_t rss = 0, huge = 0;
    /* The kernel walks all pages for each read. */
    if (tcm_io_read_file("/proc/self/smaps_rollup", text, sizeof(text)) >= 0 &&
        replay_number_in(text, "Rss:", &rss))
        (void)replay_number_in(text, "AnonHugePages:", &huge);
    *bytes = without_own(m, rss != 0 ? rss * 1024 : rss_now());
    huge *= 1024;
    *huge_bytes = huge > m->own_huge_bytes ? huge - m->own_huge_bytes : 0;
}

uint64_t replay_rss_huge_before(void) {
    return proc_bytes("/proc/self/smaps_rollup", "AnonHugePages:");
}

void replay_rss_huge_after(struct replay_rss *m, uint64_t before) {
    m->own_huge_bytes += replay_rss_huge_before() - before;
}

/* The kernel's counter, without a walk. 0: unknown. */
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

void replay_rss_from(struct replay_rss *m) {
    m->from_ns = tcm_clock_ns();
}

static void see_average(struct replay_rss *m) {
    uint64_t bytes = m->unseen_ns == 0 ? 0 : rss_counted(m);
    if (bytes == 0)
        return;
    note_peak(m, bytes);
    m->seen_byte_ns += (double)without_own(m, bytes) * (double)m->unseen_ns;
    m->seen_ns += m->unseen_ns;
    m->unseen_ns = 0;
}

void replay_rss_to(struct replay_rss *m) {
    uint64_t now = tcm_clock_ns();
    m->unseen_ns += now - m->from_ns;
    m->from_ns = now;
    if (m->unseen_ns < LOOK_NS)
        return;
    see_average(m);
    m->from_ns = tcm_clock_ns();
}

bool replay_rss_wants(const struct replay_rss *m, uint64_t live_bytes) {
    return live_bytes > replay_live_mark(m->live_bytes);
}

void replay_rss_live(struct replay_rss *m, uint64_t live_bytes) {
    uint64_t since_ns = tcm_clock_ns();
    m->live_bytes = live_bytes;
    replay_rss_look(m, &m->at_live_bytes, &m->at_live_huge_bytes);
    m->look_ns += tcm_clock_ns() - since_ns;
    /* exact, unlike the kernel's own peak */
    note_peak(m, m->at_live_bytes + m->own_bytes + m->program_bytes);
}

uint64_t replay_rss_average(const struct replay_rss *m) {
    return m->seen_ns == 0 ? 0
                           : (uint64_t)(m->seen_byte_ns / (double)m->seen_ns);
}

void replay_rss_end(struct replay_rss *m) {
    uint64_t peak = rss_peak(), bytes;
    replay_rss_look(m, &m->end_bytes, &m->end_huge_bytes);
    see_average(m);
    bytes = m->end_bytes + m->own_bytes;
    note_peak(m, peak);
    note_peak(m, bytes);
    if (m->statm >= 0)
        close(m->statm);
    m->statm = -1;
}

/* --- Time ----------------------------------------------------------------- */

void replay_time_start(struct replay_time *t) {
    memset(t, 0, sizeof(*t));
    t->first_process_ns = tcm_clock_process_cpu_ns();
    t->first_thread_ns = tcm_clock_thread_cpu_ns();
    t->first_wall_ns = tcm_clock_ns();
}

void replay_time_batch_begin(struct replay_time *t) {
    t->batch_thread_ns = tcm_clock_thread_cpu_ns();
    t->batch_wall_ns = tcm_clock_ns();
}

void replay_time_batch_end(struct replay_time *t, bool apart) {
    uint64_t wall_ns = tcm_clock_ns() - t->batch_wall_ns;
    uint64_t thread_ns = tcm_clock_thread_cpu_ns() - t->batch_thread_ns;
    if (apart) {
        t->apart_ns += wall_ns;
        return;
    }
    t->wall_ns += wall_ns;
    t->thread_ns += thread_ns;
}

void replay_sleep_until(uint64_t ns, struct replay_rss *m) {
    /* another thread than this one may get the signal */
    for (uint64_t now = tcm_clock_ns(); now < ns && !tool_stop_requested();
         now = tcm_clock_ns()) {
        uint64_t until = tcm_min_u64(ns, now + 10000000);
        struct timespec ts = {(time_t)(until / 1000000000u),
                              (long)(until % 1000000000u)};
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
        replay_rss_to(m);
    }
}

void replay_time_end(struct replay_time *t) {
    t->elapsed_ns = tcm_clock_ns() - t->first_wall_ns;
    uint64_t thread = tcm_clock_thread_cpu_ns() - t->first_thread_ns;
    uint64_t process = tcm_clock_process_cpu_ns() - t->first_process_ns;
    t->cpu_ns = t->thread_ns + (process > thread ? process - thread : 0);
}
