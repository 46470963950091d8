/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loaded modules (the program, its libraries) by their addresses: without a
 * lock, an allocation, or a function that another library can interpose.
 *
 * Where the C library has _dl_find_object, its table is asked. Elsewhere the
 * kernel's list of mappings is read, and what it says is remembered.
 *
 * Threads: any, also in a signal handler. errno stays.
 */
#ifndef TCM_BASE_LINUX_ELF_MODULES_H
#define TCM_BASE_LINUX_ELF_MODULES_H

#include "base/atomic.h"
#include "base/compiler.h"

#include <link.h>

struct tcm_elf_module {
    const char *name; /* of the file; "": the program */
    uintptr_t start, end, bias;
    const ElfW(Dyn) * dynamic; /* NULL: none */
    const void *eh_frame;      /* .eh_frame_hdr, or NULL */
};

/* Finds the module that ADDRESS lies in. A thread runs code of that module, so
   that it stays loaded. false: no module; or, without _dl_find_object, there is
   no /proc, or too many modules have been seen. */
bool tcm_elf_module_at(uintptr_t address, struct tcm_elf_module *m);
/* Finds the loader. false: there is none, as in a static program, or the C
   library is its own loader. */
bool tcm_elf_loader(struct tcm_elf_module *m);
/* The loader's list: the program, then libraries in the order in which it
   searches them for symbols. It is stable while the process starts. NULL: the
   program is static, or the C library has no list that others can read. */
const struct link_map *tcm_elf_loaded(void);

/* Mappings that were read at an older generation are not used. */
extern uint32_t tcm_elf_generation TCM_LOCAL;

/* Notes that the loader is at work: modules may go, and others may come to
   their addresses. */
static inline void tcm_elf_modules_change(void) {
    tcm_add_relaxed(&tcm_elf_generation, 1u);
}

#endif
