/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel compares RLIMIT_MEMLOCK with all mapped addresses when a process
 * locks its memory, and gives each of them memory. The heap's maps of pages
 * take 12 MiB of addresses at least, and few pages of memory. A process that
 * the kernel refuses for these has the memory locked that it would have without
 * them.
 */
#include "api/export.h"
#include "base/bits.h"
#include "base/linux/os_maps.h"
#include "base/linux/os_syscall.h"
#include "core/page_map.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

int TCM_EXPORT(mlockall)(int flags);

/* The heap's maps of pages, in the order of their addresses. */
#define MOST_TABLES 128u
struct tables {
    size_t count;
    struct {
        uintptr_t start, end;
    } at[MOST_TABLES];
};

static void note_table(void *ctx, uintptr_t start, size_t bytes) {
    struct tables *tables = ctx;
    if (tables->count == MOST_TABLES)
        return;
    size_t i = tables->count++;
    for (; i > 0 && tables->at[i - 1].start > start; i--)
        tables->at[i] = tables->at[i - 1];
    tables->at[i].start = start;
    tables->at[i].end = start + bytes;
}

/* Locks [START, END), if LOCK, with the FLAGS of mlock2. Returns its bytes. */
static uint64_t lock_piece(bool lock, int flags, uintptr_t start,
                           uintptr_t end) {
    if (start >= end)
        return 0;
    if (lock)
        (void)tcm_syscall(SYS_mlock2, start, end - start, flags);
    return end - start;
}

/* Locks what TABLES leave of the mapping M. The kernel may have merged one with
   its neighbours. */
static uint64_t lock_mapping(bool lock, int flags,
                             const struct tcm_os_mapping *m,
                             const struct tables *tables) {
    uintptr_t at = m->start;
    uint64_t bytes = 0;
    for (size_t i = 0; i < tables->count && tables->at[i].start < m->end; i++) {
        if (tables->at[i].end <= at)
            continue;
        bytes += lock_piece(lock, flags, at, tables->at[i].start);
        at = tables->at[i].end;
    }
    return bytes + lock_piece(lock, flags, at, m->end);
}

/* Locks the process's memory with the FLAGS of mlock2; LOCK false: only counts
   it. Returns its bytes; UINT64_MAX: they are not known. A mapping that another
   thread unmaps meanwhile needs no lock. */
static uint64_t lock_mappings(bool lock, int flags) {
    struct tables tables = {.count = 0};
    struct tcm_os_maps maps;
    struct tcm_os_mapping m;
    uint64_t bytes = 0;
    tcm_page_map_each(note_table, &tables);
    if (!tcm_os_maps_open(&maps))
        return UINT64_MAX;
    while (tcm_os_maps_next(&maps, &m))
        if (m.is_readable)
            bytes += lock_mapping(lock, flags, &m, &tables);
    tcm_os_maps_close(&maps);
    return bytes;
}

/* Does for memory what mlockall(FLAGS) does for addresses. */
static bool lock_memory(int flags) {
    struct rlimit limit;
    if (tcm_getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
        lock_mappings(false, 0) > limit.rlim_cur)
        return false;
    bool on_fault = (flags & MCL_ONFAULT) != 0;
    (void)lock_mappings(true, on_fault ? MLOCK_ONFAULT : 0);
    return (flags & MCL_FUTURE) == 0 ||
           tcm_syscall(SYS_mlockall, flags & ~MCL_CURRENT) == 0;
}

/* Weak: a static program that has the C library's own does without ours. */
TCM_PUBLIC __attribute__((weak)) int TCM_EXPORT(mlockall)(int flags) {
    int saved = errno;
    if (tcm_syscall(SYS_mlockall, flags) == 0)
        return 0;
    if (errno != ENOMEM || (flags & MCL_CURRENT) == 0)
        return -1;
    if (!lock_memory(flags)) {
        errno = ENOMEM;
        return -1;
    }
    errno = saved;
    return 0;
}
