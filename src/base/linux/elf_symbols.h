/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exported symbols of a loaded module, read from its dynamic section without
 * the loader.
 *
 * Threads: any, while the module is loaded.
 */
#ifndef TCM_BASE_LINUX_ELF_SYMBOLS_H
#define TCM_BASE_LINUX_ELF_SYMBOLS_H

#include "base/compiler.h"

#include <link.h>

struct tcm_elf_symbols {
    uintptr_t bias;
    const ElfW(Sym) * symbols;
    const ElfW(Half) * versions; /* of each symbol, or NULL */
    const char *names;
    const uint32_t *hash;     /* DT_GNU_HASH, or NULL */
    const uint32_t *old_hash; /* DT_HASH, or NULL */
    const ElfW(Rela) * relocations;
    size_t relocations_bytes;
};

/* Symbols of the module with PHDRS, loaded at BIAS. false: it has no table. */
bool tcm_elf_symbols(struct tcm_elf_symbols *s, uintptr_t bias,
                     const ElfW(Phdr) * phdrs, size_t count);
/* Symbols of the module at BIAS whose dynamic section is at D. */
bool tcm_elf_symbols_at(struct tcm_elf_symbols *s, uintptr_t bias,
                        const ElfW(Dyn) * d);
/* Definition of NAME in its default version; NULL: there is none. */
const ElfW(Sym) *
    tcm_elf_find(const struct tcm_elf_symbols *s, const char *name);
/* Argument that the module passes to __tls_get_addr for SYMBOL; 0: none. */
uintptr_t tcm_elf_tls_index(const struct tcm_elf_symbols *s,
                            const ElfW(Sym) * symbol);

#endif
