/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What stands in a module's headers is read while its code runs. Those of the
 * program are where the kernel says, those of others on their first page; a
 * module without ELF header there has no build id.
 */
#include "sites/site_modules.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/linux/elf_symbols.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_process.h"
#include "base/linux/os_syscall.h"
#include "sites/site_memory.h"

#include <elf.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

static struct mts_module *modules[MTS_MODULES_MAX]; /* in order, then NULL */
struct mts_code mts_loader;

/* --- Build id ------------------------------------------------------------ */

/* The notes in SIZE bytes at P, of which *ID gets the build id. */
static unsigned find_build_id(const uint8_t *p, size_t size, uint8_t *id) {
    ElfW(Nhdr) note;
    while (size >= sizeof(note)) {
        memcpy(&note, p, sizeof(note));
        size_t name = tcm_align_up(note.n_namesz, 4);
        size_t data = tcm_align_up(note.n_descsz, 4);
        size_t left = size - sizeof(note);
        if (name > left || data > left - name)
            break;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            note.n_descsz <= MTF_BUILD_ID_MAX &&
            memcmp(p + sizeof(note), "GNU", 4) == 0) {
            memcpy(id, p + sizeof(note) + name, note.n_descsz);
            return note.n_descsz;
        }
        p += sizeof(note) + name + data;
        size = left - name - data;
    }
    return 0;
}

/* The program headers of a module. */
struct headers {
    uintptr_t at;
    size_t count;
};

static ElfW(Phdr) header(const struct headers *h, size_t i) {
    ElfW(Phdr) ph;
    memcpy(&ph, (const void *)(h->at + i * sizeof(ph)), sizeof(ph));
    return ph;
}

static bool is_program(const struct tcm_elf_module *f) {
    return f->map->l_name == NULL || f->map->l_name[0] == '\0';
}

/* Those of the program are told; its segments may have gaps between them, and F
   be one of them. */
static struct headers find_headers(const struct tcm_elf_module *f) {
    ElfW(Ehdr) head;
    struct headers none = {0, 0};
    if (is_program(f))
        return (struct headers){getauxval(AT_PHDR), getauxval(AT_PHNUM)};
    if (f->end - f->start < sizeof(head))
        return none;
    memcpy(&head, (const void *)(uintptr_t)f->start, sizeof(head));
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_phentsize != sizeof(ElfW(Phdr)))
        return none;
    size_t page = tcm_os_page_size();
    size_t room = head.e_phoff > page ? 0 : page - head.e_phoff;
    return (struct headers){
        f->start + head.e_phoff,
        tcm_min_u64(head.e_phnum, room / sizeof(ElfW(Phdr)))};
}

static bool is_loaded(const struct headers *h, const ElfW(Phdr) * note) {
    for (size_t i = 0; i < h->count; i++) {
        ElfW(Phdr) ph = header(h, i);
        if (ph.p_type == PT_LOAD && note->p_vaddr >= ph.p_vaddr &&
            note->p_vaddr - ph.p_vaddr <= ph.p_filesz &&
            note->p_memsz <= ph.p_filesz - (note->p_vaddr - ph.p_vaddr))
            return true;
    }
    return false;
}

static unsigned build_id(const struct tcm_elf_module *f, uint8_t *id) {
    struct headers h = find_headers(f);
    for (size_t i = 0; i < h.count; i++) {
        ElfW(Phdr) ph = header(&h, i);
        if (ph.p_type != PT_NOTE || !is_loaded(&h, &ph))
            continue;
        const void *start = (const void *)(f->map->l_addr + ph.p_vaddr);
        unsigned n = find_build_id(start, ph.p_memsz, id);
        if (n != 0)
            return n;
    }
    return 0;
}

/* --- The list ------------------------------------------------------------ */

/* All but the path, which is not part of what a module is known by. */
static void describe(const struct tcm_elf_module *f, struct mts_module *m) {
    memset(m, 0, sizeof(*m));
    m->start = f->start;
    m->end = f->end;
    m->bias = f->map->l_addr;
    m->dynamic = (uintptr_t)f->map->l_ld;
    m->build_id_length = (uint8_t)build_id(f, m->build_id);
}

static bool is_at(const struct mts_module *m, const struct tcm_elf_module *f) {
    return f->start == m->start && f->end == m->end &&
           f->map->l_addr == m->bias && (uintptr_t)f->map->l_ld == m->dynamic;
}

static bool has_same_build(const struct mts_module *a,
                           const struct mts_module *b) {
    return a->build_id_length == b->build_id_length &&
           memcmp(a->build_id, b->build_id, a->build_id_length) == 0;
}

static size_t *records; /* memory of modules */

/* The current folder and a slash, before a NAME that dlopen was given relative
   to it; else nothing. Returns the length. */
static size_t folder_of(const char *name, char *folder, size_t room) {
    if (name[0] == '/' || strchr(name, '/') == NULL)
        return 0;
    long n = tcm_syscall(SYS_getcwd, folder, room);
    if (n <= 1 || folder[0] != '/')
        return 0;
    if (folder[n - 2] == '/')
        return (size_t)n - 1;
    folder[n - 1] = '/';
    return (size_t)n;
}

static struct mts_module *make(const struct tcm_elf_module *f,
                               const struct mts_module *what) {
    char path[512];
    const char *name = is_program(f) ? path : f->map->l_name;
    size_t n = is_program(f) ? tcm_os_program_path(path, sizeof(path))
                             : strnlen(name, PATH_MAX);
    size_t before = is_program(f) ? 0 : folder_of(name, path, sizeof(path));
    if (before + n > PATH_MAX)
        before = 0;
    if (before != 0 && strncmp(name, "./", 2) == 0) {
        name += 2;
        n -= 2;
    }
    struct mts_module *m =
        mts_take(&records, tcm_align_up(sizeof(*m) + before + n, 16));
    if (m == NULL)
        return NULL;
    *m = *what;
    m->path_length = (uint32_t)(before + n);
    memcpy(m->path, path, before);
    memcpy(m->path + before, name, n);
    return m;
}

/* The module in F that was described since the loader was at work; 0: none. */
static uint32_t find_described(const struct tcm_elf_module *f, uint32_t stamp) {
    const struct mts_module *m;
    for (uint32_t i = 1; (m = mts_module(i)) != NULL; i++)
        if (is_at(m, f) && tcm_load_relaxed(&m->stamp) == stamp)
            return i;
    return 0;
}

uint32_t mts_module_at(uintptr_t address, uint32_t stamp) {
    struct tcm_elf_module f;
    struct mts_module what;
    struct mts_module *fresh = NULL;
    if (!tcm_elf_module_at(address, &f))
        return 0;
    uint32_t known = find_described(&f, stamp);
    if (known != 0)
        return known;
    describe(&f, &what);
    what.stamp = stamp;
    for (uint32_t i = 0; i < MTS_MODULES_MAX; i++) {
        struct mts_module *m = tcm_load_acquire(&modules[i]);
        if (m == NULL) {
            if (fresh == NULL && (fresh = make(&f, &what)) == NULL)
                return 0;
            /* Publishes the module; pairs with the loads of this list. */
            if (tcm_cas_acq_rel(&modules[i], &m, fresh))
                return i + 1;
        }
        if (is_at(m, &f) && has_same_build(m, &what)) {
            tcm_store_relaxed(&m->stamp, stamp);
            return i + 1;
        }
    }
    return 0;
}

/* A static program may have the loader's variable itself, and is none. */
void mts_loader_find(void) {
    struct tcm_elf_module f;
    if (tcm_elf_loader(&f) && !is_program(&f))
        mts_loader = (struct mts_code){f.start, f.end - f.start};
}

bool mts_module_is_at(uint32_t number, uintptr_t address) {
    const struct mts_module *m = mts_module(number);
    struct tcm_elf_module f;
    return m != NULL && tcm_elf_module_at(address, &f) && is_at(m, &f);
}

struct mts_module *mts_module(uint32_t number) {
    if (number == 0 || number > MTS_MODULES_MAX)
        return NULL;
    return tcm_load_acquire(&modules[number - 1]);
}
