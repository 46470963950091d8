/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocators by functions that no other one exports: a library may have any
 * file name, and serve malloc under none of its own.
 *
 * Threads: any; the table is constant.
 */
#ifndef TCM_BASE_LINUX_ALLOCATOR_SIGNS_H
#define TCM_BASE_LINUX_ALLOCATOR_SIGNS_H

#include "base/linux/elf_symbols.h"

/* Name of the allocator whose functions S has; NULL: none that is known. */
const char *tcm_allocator_of(const struct tcm_elf_symbols *s);

#endif
