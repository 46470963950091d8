/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/watch/memory_pages.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "cmd/replay/run/own_memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

const char *const memory_residency_name[MEMORY_NOT_KNOWN + 2] = {
    [MEMORY_PAGEMAP_SCAN] = "pagemap_scan",
    [MEMORY_PAGEMAP] = "pagemap",
    [MEMORY_MINCORE] = "mincore",
    [MEMORY_NOT_KNOWN] = "none",
};

/* --- The kernel ----------------------------------------------------------- */

/* From linux/fs.h of Linux 6.7, which older systems lack. */
struct scan_region {
    uint64_t start, end, categories;
};
struct scan_request {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN_PAGEMAP _IOWR('f', 16, struct scan_request)
#define SCAN_PRESENT ((uint64_t)1 << 3)
#define SCAN_ZERO    ((uint64_t)1 << 5) /* the page of zeros, which all share */
#define SCAN_HUGE    ((uint64_t)1 << 6)

/* Runs of resident pages from START up to END go to RUN, in order. False: the
   kernel does not tell. */
typedef void run_taker(void *ctx, uint64_t start, uint64_t end, bool is_huge);

/* Goes on behind the last run, not at walk_end alone: where Linux fills its
   buffer of 512 runs and then comes to the end, walk_end stays at the place
   where the buffer was full. */
static bool walk_scan(int pagemap, uint64_t start, uint64_t end, run_taker *run,
                      void *ctx) {
    static struct scan_region region[1024];
    while (start < end) {
        struct scan_request r = {.size = sizeof(r),
                                 .start = start,
                                 .end = end,
                                 .vec = (uintptr_t)region,
                                 .vec_len = TCM_ARRAY_SIZE(region),
                                 .category_inverted = SCAN_ZERO,
                                 .category_mask = SCAN_PRESENT | SCAN_ZERO,
                                 .return_mask = SCAN_HUGE};
        int n = ioctl(pagemap, SCAN_PAGEMAP, &r);
        if (n < 0 || r.walk_end <= start)
            return false;
        for (int i = 0; i < n; i++)
            run(ctx, region[i].start, region[i].end,
                (region[i].categories & SCAN_HUGE) != 0);
        start = r.walk_end;
        if (n > 0)
            start = tcm_max_u64(start, region[n - 1].end);
    }
    return true;
}

#define ENTRY_PRESENT ((uint64_t)1 << 63)

static bool walk_pagemap(int pagemap, uint64_t start, uint64_t end,
                         run_taker *run, void *ctx) {
    static uint64_t entry[4096];
    uint64_t page = tcm_os_page_size(), from = 0, to = 0;
    while (start < end) {
        size_t n =
            (size_t)tcm_min_u64((end - start) / page, TCM_ARRAY_SIZE(entry));
        ssize_t got = pread(pagemap, entry, n * sizeof(*entry),
                            (off_t)(start / page * sizeof(*entry)));
        if (got < (ssize_t)sizeof(*entry))
            return false;
        n = (size_t)got / sizeof(*entry);
        for (size_t i = 0; i < n; i++, start += page) {
            if ((entry[i] & ENTRY_PRESENT) == 0)
                continue;
            if (to != start && to != 0)
                run(ctx, from, to, false);
            from = to != start ? start : from;
            to = start + page;
        }
    }
    if (to != 0)
        run(ctx, from, to, false);
    return true;
}

/* Halves the range until each part is all resident or not at all. */
static bool walk_mincore(uint64_t start, uint64_t end, run_taker *run,
                         void *ctx) {
    uint64_t page = tcm_os_page_size(), length = end - start;
    size_t bytes;
    if (length > TCM_RESIDENT_EXACT * page)
        bytes = (size_t)length / 2;
    else if (!tcm_os_resident((const void *)(uintptr_t)start, (size_t)length,
                              &bytes))
        return false;
    if (bytes == 0)
        return true;
    if (bytes >= length) {
        run(ctx, start, end, false);
        return true;
    }
    uint64_t middle = start + tcm_align_up(length / 2, page);
    return walk_mincore(start, middle, run, ctx) &&
           walk_mincore(middle, end, run, ctx);
}

static bool walk_range(const struct memory_pages *p, uint64_t start,
                       uint64_t end, run_taker *run, void *ctx) {
    switch (p->how) {
    case MEMORY_PAGEMAP_SCAN:
        return walk_scan(p->pagemap, start, end, run, ctx);
    case MEMORY_PAGEMAP:
        return walk_pagemap(p->pagemap, start, end, run, ctx);
    case MEMORY_MINCORE:
        return walk_mincore(start, end, run, ctx);
    default:
        return false;
    }
}

/* --- Mappings ------------------------------------------------------------- */

/* A line of /proc/self/maps. */
struct mapping {
    uint64_t start, end;
    bool is_measured;
};

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* Files of these names are memory that is shared. */
static bool is_memory(const char *path) {
    static const char *const names[] = {
        "[heap]",    "[anon", "/memfd:",    "/dev/zero",
        "/dev/shm/", "/SYSV", "anon_inode:"};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(names); i++)
        if (begins(path, names[i]))
            return true;
    return path[0] == '\0';
}

/* "START-END PERMISSIONS OFFSET DEVICE INODE   PATH" */
static bool parse_mapping(char *line, struct mapping *m) {
    char *at, *path = line;
    m->start = strtoull(line, &at, 16);
    if (*at != '-')
        return false;
    m->end = strtoull(at + 1, &path, 16);
    for (unsigned field = 0; field < 4; field++) {
        path += strspn(path, " ");
        path += strcspn(path, " ");
    }
    path += strspn(path, " ");
    m->is_measured = is_memory(path);
    return m->end > m->start;
}

/* Lines of a file, one at a time, through a buffer that no allocator gave. */
struct lines {
    int fd;
    size_t at, used;
    char text[16 << 10];
};

/* Returns the next line without its end; NULL: there is none. What does not fit
   into the buffer is cut. */
static char *next_line(struct lines *l) {
    for (;;) {
        char *line = l->text + l->at;
        char *end = memchr(line, '\n', l->used - l->at);
        if (end != NULL) {
            *end = '\0';
            l->at = (size_t)(end - l->text) + 1;
            return line;
        }
        memmove(l->text, line, l->used - l->at);
        l->used -= l->at;
        l->at = 0;
        if (l->used == sizeof(l->text))
            l->used = 0;
        ssize_t n = read(l->fd, l->text + l->used, sizeof(l->text) - l->used);
        if (n <= 0)
            return NULL;
        l->used += (size_t)n;
    }
}

/* --- The walk ------------------------------------------------------------- */

static void count_other(void *ctx, uint64_t start, uint64_t end, bool is_huge) {
    struct memory_pages *p = ctx;
    (void)is_huge;
    p->other_bytes += end - start;
}

static void count_own(void *ctx, uint64_t start, uint64_t end, bool is_huge) {
    struct memory_pages *p = ctx;
    (void)is_huge;
    p->own_bytes += end - start;
}

static void pass_on(void *ctx, uint64_t start, uint64_t end, bool is_huge) {
    struct memory_pages *p = ctx;
    p->run(p->ctx, start, end, is_huge);
}

static bool walk_part(struct memory_pages *p, bool is_measured, uint64_t start,
                      uint64_t end) {
    /* mincore counts pages of files that other processes have read. */
    if (start >= end || (!is_measured && p->how == MEMORY_MINCORE))
        return true;
    return walk_range(p, start, end, is_measured ? pass_on : count_other, p);
}

/* Tables are reserved for far more than they have, which only this way passes
   over at once. */
static bool walk_own(struct memory_pages *p, uint64_t start, uint64_t end) {
    return start >= end || p->how != MEMORY_PAGEMAP_SCAN ||
           walk_range(p, start, end, count_own, p);
}

/* Walks mapping M; what is the replayer's own is counted only. */
static bool walk_mapping(struct memory_pages *p, const struct mapping *m,
                         const struct replay_own_range *own, size_t n,
                         size_t *at) {
    uint64_t start = m->start;
    while (*at < n && own[*at].end <= start)
        ++*at;
    for (size_t i = *at; i < n && own[i].start < m->end; i++) {
        if (!walk_part(p, m->is_measured, start, own[i].start) ||
            !walk_own(p, tcm_max_u64(start, own[i].start),
                      tcm_min_u64(own[i].end, m->end)))
            return false;
        start = tcm_max_u64(start, own[i].end);
    }
    return walk_part(p, m->is_measured, start, m->end);
}

bool memory_pages_walk(struct memory_pages *p) {
    static struct lines l;
    const struct replay_own_range *own;
    size_t n = replay_own_ranges(&own), at = 0;
    bool good = true;
    char *line;
    p->other_bytes = p->own_bytes = 0;
    l.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    l.at = l.used = 0;
    if (l.fd < 0)
        return false;
    while (good && (line = next_line(&l)) != NULL) {
        struct mapping m;
        /* The kernel's page of system calls is not in the process. */
        if (parse_mapping(line, &m) && m.end >> 63 == 0)
            good = walk_mapping(p, &m, own, n, &at);
    }
    close(l.fd);
    return good;
}

static void ignore_run(void *ctx, uint64_t start, uint64_t end, bool is_huge) {
    (void)ctx;
    (void)start;
    (void)end;
    (void)is_huge;
}

void memory_pages_open(struct memory_pages *p, enum memory_residency best) {
    static const char probe;
    uint64_t page = tcm_os_page_size();
    uint64_t start = tcm_align_down((uintptr_t)&probe, page);
    p->pagemap = best <= MEMORY_PAGEMAP
                     ? open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)
                     : -1;
    p->how = best;
    if (p->pagemap < 0)
        p->how = best > MEMORY_MINCORE ? best : MEMORY_MINCORE;
    while (p->how < MEMORY_NOT_KNOWN &&
           !walk_range(p, start, start + page, ignore_run, NULL))
        p->how++;
    if (access("/proc/self/maps", R_OK) != 0)
        p->how = MEMORY_NOT_KNOWN;
}

const char *memory_pages_missing(const struct memory_pages *p) {
    switch (p->how) {
    case MEMORY_PAGEMAP_SCAN:
        return NULL;
    case MEMORY_PAGEMAP:
        return "the kernel has no PAGEMAP_SCAN: pages that were read and never "
               "written count as resident, and which ones are huge is unknown";
    case MEMORY_MINCORE:
        return "/proc/self/pagemap cannot be read: by mincore, pages that were "
               "read and never written, and pages of shared memory that other "
               "processes use, count as resident; which ones are huge is "
               "unknown, and how much of binaries' files is resident";
    default:
        return "/proc/self/maps cannot be read, or the kernel does not tell "
               "which pages are resident: nothing is known of pages";
    }
}

void memory_pages_close(struct memory_pages *p) {
    if (p->pagemap >= 0)
        close(p->pagemap);
    p->pagemap = -1;
}
