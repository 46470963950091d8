/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/linux/elf_symbols.h"

#include <elf.h>
#include <string.h>

/* Some loaders add the bias to the addresses of the dynamic section, others do
   not. */
static uintptr_t address(uintptr_t bias, ElfW(Addr) value) {
    return value >= bias ? value : bias + value;
}

bool tcm_elf_symbols(struct tcm_elf_symbols *s, uintptr_t bias,
                     const ElfW(Phdr) * phdrs, size_t count) {
    const ElfW(Dyn) *d = NULL;
    for (size_t i = 0; i < count; i++)
        if (phdrs[i].p_type == PT_DYNAMIC)
            d = (const ElfW(Dyn) *)(bias + phdrs[i].p_vaddr);
    return tcm_elf_symbols_at(s, bias, d);
}

bool tcm_elf_symbols_at(struct tcm_elf_symbols *s, uintptr_t bias,
                        const ElfW(Dyn) * d) {
    memset(s, 0, sizeof(*s));
    s->bias = bias;
    for (; d != NULL && d->d_tag != DT_NULL; d++) {
        uintptr_t at = address(bias, d->d_un.d_ptr);
        if (d->d_tag == DT_SYMTAB)
            s->symbols = (const ElfW(Sym) *)at;
        else if (d->d_tag == DT_VERSYM)
            s->versions = (const ElfW(Half) *)at;
        else if (d->d_tag == DT_STRTAB)
            s->names = (const char *)at;
        else if (d->d_tag == DT_GNU_HASH)
            s->hash = (const uint32_t *)at;
        else if (d->d_tag == DT_HASH)
            s->old_hash = (const uint32_t *)at;
        else if (d->d_tag == DT_RELA)
            s->relocations = (const ElfW(Rela) *)at;
        else if (d->d_tag == DT_RELASZ)
            s->relocations_bytes = d->d_un.d_val;
    }
    return s->symbols != NULL && s->names != NULL &&
           (s->hash != NULL || s->old_hash != NULL);
}

/* Bit of a version that is not the default one of its symbol. */
#define HIDDEN 0x8000

static bool is_definition(const struct tcm_elf_symbols *s,
                          const ElfW(Sym) * symbol, const char *name) {
    return symbol->st_shndx != SHN_UNDEF &&
           (s->versions == NULL ||
            (s->versions[symbol - s->symbols] & HIDDEN) == 0) &&
           strcmp(s->names + symbol->st_name, name) == 0;
}

/* A table of DT_HASH begins with the number of buckets and the number of
   symbols. */
static const ElfW(Sym) *
    find_in_all(const struct tcm_elf_symbols *s, const char *name) {
    for (uint32_t i = 0; i < s->old_hash[1]; i++)
        if (is_definition(s, &s->symbols[i], name))
            return &s->symbols[i];
    return NULL;
}

/*
 * A table of DT_GNU_HASH: count of buckets, number of the first symbol in it,
 * words of the filter, its shift; the filter, the buckets (a symbol's number,
 * or 0), and for each symbol its hash, whose lowest bit ends a bucket.
 */
const ElfW(Sym) *
    tcm_elf_find(const struct tcm_elf_symbols *s, const char *name) {
    uint32_t h = 5381;
    if (s->hash == NULL)
        return find_in_all(s, name);
    for (const char *p = name; *p != '\0'; p++)
        h = h * 33 + (uint8_t)*p;
    uint32_t buckets = s->hash[0], first = s->hash[1], words = s->hash[2];
    const ElfW(Addr) *filter = (const ElfW(Addr) *)(const void *)&s->hash[4];
    const uint32_t *bucket = (const uint32_t *)(const void *)(filter + words);
    const uint32_t *chain = bucket + buckets;
    if (buckets == 0)
        return NULL;
    for (uint32_t i = bucket[h % buckets]; i >= first && i != 0; i++) {
        uint32_t chained = chain[i - first];
        const ElfW(Sym) *symbol = &s->symbols[i];
        if ((chained | 1) == (h | 1) && is_definition(s, symbol, name))
            return symbol;
        if ((chained & 1) != 0)
            break;
    }
    return NULL;
}

uintptr_t tcm_elf_tls_index(const struct tcm_elf_symbols *s,
                            const ElfW(Sym) * symbol) {
#if defined(R_X86_64_DTPMOD64) && defined(__x86_64__)
    size_t count = s->relocations == NULL
                       ? 0
                       : s->relocations_bytes / sizeof(*s->relocations);
    for (size_t i = 0; i < count; i++) {
        const ElfW(Rela) *r = &s->relocations[i];
        if (ELF64_R_TYPE(r->r_info) == R_X86_64_DTPMOD64 &&
            &s->symbols[ELF64_R_SYM(r->r_info)] == symbol)
            return s->bias + r->r_offset;
    }
#else
    (void)s;
    (void)symbol;
#endif
    return 0;
}
