/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/linux/elf_modules.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_maps.h"
#include "base/linux/os_mem.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <string.h>

uint32_t tcm_elf_generation = 1;

/* --- By the C library ----------------------------------------------------- */

#if TCM_HAVE__DL_FIND_OBJECT
/* Weak: the library may run with an older C library than it was built with. */
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

static bool library_can_tell(void) {
    return _dl_find_object != NULL;
}

static bool find_by_library(uintptr_t address, struct tcm_elf_module *m) {
    struct dl_find_object object;
    if (_dl_find_object((void *)address, &object) != 0 ||
        object.dlfo_link_map == NULL)
        return false;
    const struct link_map *map = object.dlfo_link_map;
    *m = (struct tcm_elf_module){.name = map->l_name == NULL ? "" : map->l_name,
                                 .start = (uintptr_t)object.dlfo_map_start,
                                 .end = (uintptr_t)object.dlfo_map_end,
                                 .bias = map->l_addr,
                                 .dynamic = map->l_ld,
                                 .eh_frame = object.dlfo_eh_frame};
    return true;
}
#else
static bool library_can_tell(void) {
    return false;
}

static bool find_by_library(uintptr_t address, struct tcm_elf_module *m) {
    (void)address, (void)m;
    return false;
}
#endif

/* --- By the kernel -------------------------------------------------------- */

/*
 * A place of executable code: a file with its segments, or memory of no file.
 * Places only join the list; GENERATION says when one was last seen.
 *
 * A thread that joins one takes an index, fills the place in, and publishes it
 * by END (release, which pairs with the acquire loads in find_place). Two
 * threads may both join the same place.
 */
struct place {
    uintptr_t start, end;
    uint32_t generation;
    bool is_module;
    char *name;
};

#define PLACES_MAX 4096u
#define NAME_BYTES ((size_t)16 << 10)

static struct place places[PLACES_MAX];
static uint32_t place_count;

/* Memory of names: a piece whose first word counts its used bytes. */
static size_t *names;

static char *keep_name(const char *name) {
    size_t bytes = tcm_align_up(strlen(name) + 1, sizeof(size_t));
    for (;;) {
        size_t *piece = tcm_load_acquire(&names);
        size_t at = piece == NULL ? NAME_BYTES : tcm_add_relaxed(piece, bytes);
        if (at + bytes <= NAME_BYTES) {
            char *copy = (char *)piece + at;
            memcpy(copy, name, strlen(name) + 1);
            return copy;
        }
        size_t *fresh = tcm_os_map(NAME_BYTES);
        if (fresh == NULL)
            return NULL;
        *fresh = sizeof(size_t);
        /* Publishes the count; pairs with the load above. */
        if (!tcm_cas_acq_rel(&names, &piece, fresh))
            tcm_os_unmap(fresh, NAME_BYTES);
    }
}

static uint32_t places_end(void) {
    uint32_t n = tcm_load_acquire(&place_count);
    return n < PLACES_MAX ? n : PLACES_MAX;
}

/* True if a place that was last seen at SEEN was there at GENERATION. Another
   thread may have seen it later: code that runs there stays loaded. */
static bool is_recent(uint32_t seen, uint32_t generation) {
    return (int32_t)(seen - generation) >= 0;
}

/* The newest place that ADDRESS lies in and that was seen at GENERATION, or
   since. */
static struct place *find_place(uintptr_t address, uint32_t generation) {
    for (uint32_t i = places_end(); i-- > 0;) {
        struct place *p = &places[i];
        if (address < tcm_load_acquire(&p->end) && address >= p->start &&
            is_recent(tcm_load_relaxed(&p->generation), generation))
            return p;
    }
    return NULL;
}

static bool is_same(const struct place *p, const struct tcm_os_mapping *m,
                    bool is_module) {
    return tcm_load_acquire(&p->end) == m->end && p->start == m->start &&
           p->is_module == is_module &&
           (!is_module || strcmp(p->name, m->path) == 0);
}

/* Notes the place [M.start, M.end) with the name M.path as seen at
   GENERATION. */
static void see_place(const struct tcm_os_mapping *m, bool is_module,
                      uint32_t generation) {
    for (uint32_t i = places_end(); i-- > 0;)
        if (is_same(&places[i], m, is_module)) {
            uint32_t *at = &places[i].generation, seen = tcm_load_relaxed(at);
            while (!is_recent(seen, generation) &&
                   !tcm_cas_acq_rel(at, &seen, generation))
                ;
            return;
        }
    char *name = is_module ? keep_name(m->path) : NULL;
    if (is_module && name == NULL)
        return;
    uint32_t i = tcm_load_relaxed(&place_count);
    do
        if (i >= PLACES_MAX)
            return;
    while (!tcm_cas_acq_rel(&place_count, &i, i + 1));
    struct place *p = &places[i];
    p->start = m->start;
    p->generation = generation;
    p->is_module = is_module;
    p->name = name;
    /* Publishes the place; pairs with the loads of END. */
    tcm_store_release(&p->end, m->end);
}

/* The loader's name of a file that was removed since. */
static void strip_removed(char *path, size_t length) {
    static const char removed[] = " (deleted)";
    size_t n = sizeof(removed) - 1;
    if (length > n && strcmp(path + length - n, removed) == 0)
        path[length - n] = '\0';
}

/* Sees all places. A module is the mapping of a file's beginning with those of
   the same file behind it. false: the mappings cannot be read. */
static bool see_places(uint32_t generation) {
    struct tcm_os_maps maps;
    struct tcm_os_mapping m, module = {.length = 0};
    if (!tcm_os_maps_open(&maps))
        return false;
    while (tcm_os_maps_next(&maps, &m)) {
        bool is_more = module.length != 0 && m.length != 0 && m.offset != 0 &&
                       m.inode == module.inode && m.device == module.device;
        if (is_more) {
            module.end = m.end;
            module.is_executable |= m.is_executable;
            continue;
        }
        if (m.length != 0 && m.offset == 0 && m.is_readable) {
            if (module.length != 0 && module.is_executable)
                see_place(&module, true, generation);
            module = m;
            strip_removed(module.path, module.length);
        } else if (m.is_executable) {
            see_place(&m, false, generation);
        }
    }
    if (module.length != 0 && module.is_executable)
        see_place(&module, true, generation);
    tcm_os_maps_close(&maps);
    return true;
}

/* Describes the module P from its headers, which are on its first page. false:
   it is no ELF file. */
static bool describe(const struct place *p, struct tcm_elf_module *m) {
    ElfW(Ehdr) head;
    ElfW(Phdr) ph;
    uintptr_t low = UINTPTR_MAX, high = 0, page = tcm_os_page_size();
    uintptr_t dynamic = 0, eh_frame = 0;
    memcpy(&head, (const void *)p->start, sizeof(head));
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_phentsize != sizeof(ph) || head.e_phoff > page ||
        head.e_phnum > (page - head.e_phoff) / sizeof(ph))
        return false;
    for (size_t i = 0; i < head.e_phnum; i++) {
        memcpy(&ph, (const void *)(p->start + head.e_phoff + i * sizeof(ph)),
               sizeof(ph));
        if (ph.p_type == PT_LOAD) {
            low = tcm_min_u64(low, ph.p_vaddr & ~(page - 1));
            high = tcm_max_u64(high, ph.p_vaddr + ph.p_memsz);
        } else if (ph.p_type == PT_DYNAMIC) {
            dynamic = ph.p_vaddr;
        } else if (ph.p_type == PT_GNU_EH_FRAME) {
            eh_frame = ph.p_vaddr;
        }
    }
    if (low >= high)
        return false;
    uintptr_t bias = p->start - low;
    *m = (struct tcm_elf_module){
        .name = p->name,
        .start = p->start,
        .end = bias + tcm_align_up(high, page),
        .bias = bias,
        .dynamic = dynamic == 0 ? NULL : (const ElfW(Dyn) *)(bias + dynamic),
        .eh_frame = eh_frame == 0 ? NULL : (const void *)(bias + eh_frame)};
    return true;
}

static bool find_by_kernel(uintptr_t address, struct tcm_elf_module *m) {
    int saved = errno;
    uint32_t generation = tcm_load_relaxed(&tcm_elf_generation);
    const struct place *p = find_place(address, generation);
    if (p == NULL && see_places(generation))
        p = find_place(address, generation);
    errno = saved;
    return p != NULL && p->is_module && describe(p, m) && address < m->end;
}

/* -------------------------------------------------------------------------- */

bool tcm_elf_module_at(uintptr_t address, struct tcm_elf_module *m) {
    return library_can_tell() ? find_by_library(address, m)
                              : find_by_kernel(address, m);
}

/* A variable of glibc's loader, also of one that was started as the program. A
   static program may have none, or one without a loader's address. */
extern struct r_debug loader_state __asm__("_r_debug") __attribute__((weak));

/* The loader is searched by its first page: the variable may lie behind what
   the kernel has mapped of the file. */
bool tcm_elf_loader(struct tcm_elf_module *m) {
    return &loader_state != NULL && loader_state.r_ldbase != 0 &&
           tcm_elf_module_at(loader_state.r_ldbase, m);
}

const struct link_map *tcm_elf_loaded(void) {
    return &loader_state != NULL ? loader_state.r_map : NULL;
}
