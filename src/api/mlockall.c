/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel compares RLIMIT_MEMLOCK with all mapped addresses when a process
 * locks its memory, and gives each of them memory. The heap's maps of pages
 * take 16 MiB of addresses at least, and few pages of memory. A process that
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

/* Cuts the mapping CTX down to what lies below START, or behind its BYTES
   bytes. */
static void leave_out(void *ctx, uintptr_t start, size_t bytes) {
    struct tcm_os_mapping *m = ctx;
    if (m->start - start < bytes)
        m->start = tcm_min_u64(start + bytes, m->end);
    else if (m->end - start < bytes)
        m->end = start;
}

/* Locks the process's memory with the FLAGS of mlock2; LOCK false: only counts
   it. Returns its bytes; UINT64_MAX: they are not known. A mapping that another
   thread unmaps meanwhile needs no lock. */
static uint64_t lock_mappings(bool lock, int flags) {
    struct tcm_os_maps maps;
    struct tcm_os_mapping m;
    uint64_t bytes = 0;
    if (!tcm_os_maps_open(&maps))
        return UINT64_MAX;
    while (tcm_os_maps_next(&maps, &m)) {
        if (!m.is_readable)
            continue;
        tcm_page_map_each(leave_out, &m);
        bytes += m.end - m.start;
        if (lock && m.start != m.end)
            (void)tcm_syscall(SYS_mlock2, m.start, m.end - m.start, flags);
    }
    tcm_os_maps_close(&maps);
    return bytes;
}

/* Does for memory what mlockall(FLAGS) does for addresses. Memory that the heap
   takes later is not locked. */
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
