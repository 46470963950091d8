/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process's mappings, as the kernel lists them in /proc/self/maps, in the
 * order of their addresses. Other threads may change them meanwhile.
 *
 * Threads: any, each with its own struct tcm_os_maps. No memory is allocated;
 * errno may change.
 */
#ifndef TCM_BASE_LINUX_OS_MAPS_H
#define TCM_BASE_LINUX_OS_MAPS_H

#include "base/compiler.h"

struct tcm_os_maps {
    long fd;
    size_t next, count;
    char bytes[512];
};

struct tcm_os_mapping {
    uintptr_t start, end;
    uint64_t offset, device, inode; /* of the file */
    bool is_readable, is_executable;
    size_t length;  /* of PATH; 0: no file */
    char path[512]; /* perhaps cut */
};

/* false: there is no /proc, or it may not be read. */
bool tcm_os_maps_open(struct tcm_os_maps *r);
void tcm_os_maps_close(struct tcm_os_maps *r);
/* false: there are no more mappings. */
bool tcm_os_maps_next(struct tcm_os_maps *r, struct tcm_os_mapping *m);

#endif
