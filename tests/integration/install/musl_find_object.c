/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * _dl_find_object, a function of glibc that the unwinder of Debian's gcc calls,
 * for programs that musl-gcc links with that unwinder. A compiler that is made
 * for musl needs none.
 */
#include <link.h>
#include <string.h>

/* glibc's struct dl_find_object. */
struct found {
    unsigned long long flags;
    void *start, *end, *map, *eh_frame;
    unsigned long long reserved[7];
};
struct search {
    uintptr_t at;
    struct found *found;
};
int _dl_find_object(void *address, struct found *found);
static int look(struct dl_phdr_info *info, size_t size, void *ctx) {
    struct search *s = ctx;
    struct found f = {0};
    int inside = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && s->at >= from &&
            s->at < from + p->p_memsz) {
            inside = 1;
            f.start = (void *)from;
            f.end = (void *)(from + p->p_memsz);
        } else if (p->p_type == PT_GNU_EH_FRAME) {
            f.eh_frame = (void *)from;
        }
    }
    if (inside && f.eh_frame != NULL)
        memcpy(s->found, &f, sizeof(f));
    return inside ? 1 + (f.eh_frame != NULL) : 0;
}
int _dl_find_object(void *address, struct found *found) {
    struct search s = {(uintptr_t)address, found};
    return dl_iterate_phdr(look, &s) == 2 ? 0 : -1;
}
