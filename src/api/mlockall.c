/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel compares RLIMIT_MEMLOCK with all mapped addresses when a process
 * locks its memory, reserved ones included, of which the heap has 64 GiB. A
 * process that the kernel refuses for these has the memory locked that it would
 * have without them.
 */
#include "api/export.h"
#include "base/bits.h"
#include "base/linux/os_maps.h"
#include "base/linux/os_syscall.h"
#include "core/address_range.h"
#include "core/page_map.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

int TCM_EXPORT(mlockall)(int flags);

/* Cuts the mapping M down to what lies below START, or behind its BYTES bytes.
 */
static void leave_out(struct tcm_os_mapping *m, uintptr_t start, size_t bytes) {
    if (m->start - start < bytes)
        m->start = tcm_min_u64(start + bytes, m->end);
    else if (m->end - start < bytes)
        m->end = start;
}

/* Cuts M down to what is no table of the heap with a place for each of its
   reserved pages. */
static void leave_tables_out(struct tcm_os_mapping *m) {
    uintptr_t base = tcm_class_map_base;
    leave_out(m, base, TCM_CLASS_MAP_BYTES);
    leave_out(m, base + TCM_CLASS_MAP_RANGE - TCM_RANGE_RECORDS,
              TCM_RANGE_RECORDS);
    if (tcm_word_map != NULL)
        leave_out(m, (uintptr_t)tcm_word_map,
                  TCM_CLASS_MAP_PAGES * sizeof(*tcm_word_map));
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
        leave_tables_out(&m);
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
