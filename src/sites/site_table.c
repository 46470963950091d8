/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of call sites of a process. They only grow, in memory that comes
 * from the kernel, is never given back, and stays in a child of fork: numbers
 * go on in the child, which defines them again in its own trace.
 *
 * Threads: any, without lock.
 */
#include "sites/site_table.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/linux/elf_modules.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_process.h"
#include "base/linux/os_syscall.h"

#include <elf.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

/* --- Memory -------------------------------------------------------------- */

#define PIECE_BYTES ((size_t)64 << 10)
/* The first word of a piece counts its used bytes, itself included. */
#define PIECE_HEAD ((size_t)16)

/* The zeroed memory of BYTES or more that the pointer at PLACE leads to, mapped
   if that is NULL. NULL: no memory. */
static void *map_once(void *place, size_t bytes) {
    void **p = place, *old = tcm_load_acquire(p);
    if (old != NULL)
        return old;
    bytes = tcm_align_up(bytes, tcm_os_page_size());
    void *fresh = tcm_os_map(bytes);
    if (fresh == NULL)
        return NULL;
    /* Publishes zeroed memory; pairs with the load above. */
    if (tcm_cas_acq_rel(p, &old, fresh))
        return fresh;
    tcm_os_unmap(fresh, bytes);
    return old;
}

/* BYTES of zeroed memory, cut from *CHUNK, which is NULL at first. If all
   requests from CHUNK are multiples of 16 bytes, each result is aligned to 16.
   NULL: no memory, or BYTES exceed a piece. */
static void *cut_piece(size_t **chunk, size_t bytes) {
    if (bytes > PIECE_BYTES - PIECE_HEAD)
        return NULL;
    for (;;) {
        size_t *current = tcm_load_acquire(chunk);
        size_t at =
            current == NULL ? PIECE_BYTES : tcm_add_relaxed(current, bytes);
        if (at + bytes <= PIECE_BYTES)
            return (uint8_t *)current + at;
        size_t *fresh = tcm_os_map(PIECE_BYTES);
        if (fresh == NULL)
            return NULL;
        *fresh = PIECE_HEAD;
        /* Publishes the count; pairs with the load above. */
        if (!tcm_cas_acq_rel(chunk, &current, fresh))
            tcm_os_unmap(fresh, PIECE_BYTES);
    }
}

/* --- Modules ------------------------------------------------------------- */

/*
 * Headers of a module are read while its code runs. Those of the program are
 * where the kernel says, those of other modules on their first page; a module
 * without an ELF header there has no build id.
 */
static struct mts_module *modules[MTS_MODULES_MAX]; /* from module 1 on */
struct mts_code mts_loader;

/* Copies the build id in the notes of SIZE bytes at P to ID; returns its
   length, 0: there is none. */
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
    return f->name[0] == '\0';
}

/* The program headers of the module that F lies in. The kernel passes those of
   the program, whose segments may have gaps between them, so that F is only one
   segment. */
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
        const void *start = (const void *)(f->bias + ph.p_vaddr);
        unsigned n = find_build_id(start, ph.p_memsz, id);
        if (n != 0)
            return n;
    }
    return 0;
}

/* Fills *M in, except for the path, which does not identify a module. */
static void describe(const struct tcm_elf_module *f, struct mts_module *m) {
    memset(m, 0, sizeof(*m));
    m->start = f->start;
    m->end = f->end;
    m->bias = f->bias;
    m->dynamic = (uintptr_t)f->dynamic;
    m->build_id_length = (uint8_t)build_id(f, m->build_id);
}

static bool is_at(const struct mts_module *m, const struct tcm_elf_module *f) {
    return f->start == m->start && f->end == m->end && f->bias == m->bias &&
           (uintptr_t)f->dynamic == m->dynamic;
}

static bool has_same_build(const struct mts_module *a,
                           const struct mts_module *b) {
    return a->build_id_length == b->build_id_length &&
           memcmp(a->build_id, b->build_id, a->build_id_length) == 0;
}

static size_t *records; /* memory of modules */

/* Puts the current folder and a slash into FOLDER if NAME is relative, as
   dlopen may have been given it. Returns the length, 0: NAME stands alone. */
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
                               const struct mts_module *described) {
    char path[512];
    const char *name = is_program(f) ? path : f->name;
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
        cut_piece(&records, tcm_align_up(sizeof(*m) + before + n, 16));
    if (m == NULL)
        return NULL;
    *m = *described;
    m->path_length = (uint32_t)(before + n);
    memcpy(m->path, path, before);
    memcpy(m->path + before, name, n);
    return m;
}

/* The module at F that was described at STAMP; 0: none. */
static uint32_t find_described(const struct tcm_elf_module *f, uint32_t stamp) {
    const struct mts_module *m;
    for (uint32_t i = 1; (m = mts_module(i)) != NULL; i++)
        if (is_at(m, f) && tcm_load_relaxed(&m->stamp) == stamp)
            return i;
    return 0;
}

/* The module that has code at ADDRESS now, added if it is new; 0: none, or no
   memory. STAMP changes whenever the loader has been at work: a module at the
   same place that was described at STAMP is the same, and its headers are not
   read again. */
static uint32_t module_at(uintptr_t address, uint32_t stamp) {
    struct tcm_elf_module f;
    struct mts_module described;
    struct mts_module *fresh = NULL;
    if (!tcm_elf_module_at(address, &f))
        return 0;
    uint32_t known = find_described(&f, stamp);
    if (known != 0)
        return known;
    describe(&f, &described);
    described.stamp = stamp;
    for (uint32_t i = 0; i < MTS_MODULES_MAX; i++) {
        struct mts_module *m = tcm_load_acquire(&modules[i]);
        if (m == NULL) {
            if (fresh == NULL && (fresh = make(&f, &described)) == NULL)
                return 0;
            /* Publishes the module; pairs with the loads of this list. */
            if (tcm_cas_acq_rel(&modules[i], &m, fresh))
                return i + 1;
        }
        if (is_at(m, &f) && has_same_build(m, &described)) {
            tcm_store_relaxed(&m->stamp, stamp);
            return i + 1;
        }
    }
    return 0;
}

void mts_loader_find(void) {
    struct tcm_elf_module f;
    if (tcm_elf_loader(&f))
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

/* --- Texts --------------------------------------------------------------- */

/* A text is filled in first, then published as the head of its bucket
   (release). */
#define BUCKETS_LOG2    16u
#define TEXT_CHUNK_LOG2 10u
#define TEXT_CHUNKS     14u /* 2^24 texts */

static uint32_t *buckets; /* number of the newest text of each */
static struct mts_text *text_chunks[TEXT_CHUNKS];
static size_t *copies; /* memory of their bytes */
static uint32_t next_text = 1;

static struct mts_text *text_at(uint32_t number, bool make) {
    uint32_t n = number + (1u << TEXT_CHUNK_LOG2);
    unsigned chunk = tcm_log2_floor(n) - TEXT_CHUNK_LOG2;
    size_t count = (size_t)1 << (TEXT_CHUNK_LOG2 + chunk);
    if (chunk >= TEXT_CHUNKS)
        return NULL;
    struct mts_text *t = make
                             ? map_once(&text_chunks[chunk], count * sizeof(*t))
                             : tcm_load_acquire(&text_chunks[chunk]);
    return t == NULL ? NULL : t + (n - count);
}

uint32_t mts_texts_end(void) {
    return (uint32_t)tcm_min_u64(tcm_load_acquire(&next_text), MTF_SITE_LIMIT);
}

struct mts_text *mts_text_of(uint32_t number) {
    struct mts_text *t = number == 0 ? NULL : text_at(number, false);
    /* Pairs with the release store in mts_text_intern: the text is filled
       in. */
    return t == NULL || tcm_load_acquire(&t->bytes) == NULL ? NULL : t;
}

static uint32_t hash_of_text(const char *bytes, uint32_t length) {
    uint64_t h = length;
    for (uint32_t i = 0; i < length; i++)
        h = (h ^ (uint8_t)bytes[i]) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

/* The number of the text in the bucket whose newest text is I, or 0. */
static uint32_t find_in_bucket(uint32_t i, uint32_t hash, const char *bytes,
                               uint32_t length) {
    const struct mts_text *t;
    for (; i != 0 && (t = text_at(i, false)) != NULL; i = t->next)
        if (t->hash == hash && t->length == length &&
            memcmp(t->bytes, bytes, length) == 0)
            return i;
    return 0;
}

uint32_t mts_text_intern(const char *bytes, uint32_t length) {
    TCM_ASSERT(length <= MTF_SITE_TEXT_MAX);
    size_t table = sizeof(uint32_t) << BUCKETS_LOG2;
    if (length == 0 || map_once(&buckets, table) == NULL)
        return 0;
    uint32_t hash = hash_of_text(bytes, length);
    uint32_t *bucket = &tcm_load_acquire(&buckets)[hash >> (32 - BUCKETS_LOG2)];
    uint32_t head = tcm_load_acquire(bucket);
    uint32_t found = find_in_bucket(head, hash, bytes, length);
    if (found != 0 || tcm_load_relaxed(&next_text) >= MTF_SITE_LIMIT)
        return found;
    char *copy = cut_piece(&copies, length);
    uint32_t number =
        copy == NULL ? MTF_SITE_LIMIT : tcm_add_relaxed(&next_text, 1u);
    struct mts_text *t = number < MTF_SITE_LIMIT ? text_at(number, true) : NULL;
    if (t == NULL)
        return 0;
    memcpy(copy, bytes, length);
    t->hash = hash;
    t->length = length;
    /* Publishes all but NEXT to mts_text_of. */
    tcm_store_release(&t->bytes, copy);
    do {
        t->next = head;
        /* Publishes the text; pairs with the load of the head. If another
           thread has added the same text meanwhile, both numbers stand for
           it. */
    } while (!tcm_cas_acq_rel(bucket, &head, number));
    return number;
}

/* --- Sites --------------------------------------------------------------- */

/*
 * Sites.
 *
 *   site    what a number stands for: a node in chunks that double
 *   slot    hash << 32 | number, in open hash tables, each four times as large
 *           as the one before. A site is searched in all of them, and put into
 *           the newest when it is found in an older one
 *
 * The node of a number is filled in before its slot is published (release).
 */
#define GONE UINT32_MAX

#define SITE_CHUNK_LOG2 12u
#define SITE_CHUNKS     12u /* 2^24 numbers */
#define TABLE_LOG2      13u
#define TABLES          7u /* the last has 2^25 slots */

static struct mts_site *site_chunks[SITE_CHUNKS];
static uint64_t *tables[TABLES];
static uint32_t newest; /* table */
static uint32_t next_site = 1;
static uint32_t epoch;
uint64_t mts_stamp = 1;

static uint32_t stamp_now(void) {
    uint32_t stamp = (uint32_t)tcm_load_relaxed(&mts_stamp);
    return stamp == GONE ? 0 : stamp;
}

void mts_table_begin(void) {
    tcm_add_relaxed(&epoch, 1u);
    tcm_add_relaxed(&mts_stamp, (uint64_t)1);
}

uint32_t mts_epoch(void) {
    return tcm_load_relaxed(&epoch);
}

uint32_t mts_sites_end(void) {
    return (uint32_t)tcm_min_u64(tcm_load_relaxed(&next_site), MTF_SITE_LIMIT);
}

/* The node of SITE. NULL: no memory, or MAKE is false and its chunk is not
   mapped. */
static struct mts_site *node_at(uint32_t site, bool make) {
    uint32_t n = site + (1u << SITE_CHUNK_LOG2);
    unsigned chunk = tcm_log2_floor(n) - SITE_CHUNK_LOG2;
    TCM_ASSERT(site < MTF_SITE_LIMIT);
    if (chunk >= SITE_CHUNKS)
        return NULL;
    size_t count = (size_t)1 << (SITE_CHUNK_LOG2 + chunk);
    struct mts_site *nodes =
        make ? map_once(&site_chunks[chunk], count * sizeof(*nodes))
             : tcm_load_acquire(&site_chunks[chunk]);
    return nodes == NULL ? NULL : nodes + (n - count);
}

struct mts_site *mts_site_of(uint32_t site) {
    return node_at(site, false);
}

/* True if the code at N's address still belongs to N's module. */
static bool is_current(struct mts_site *n) {
    uint32_t stamp = stamp_now(), seen = tcm_load_relaxed(&n->stamp);
    if (TCM_LIKELY(seen == stamp))
        return true;
    if (seen == GONE)
        return false;
    if ((n->module & MTS_SITE_IS_LINE) != 0)
        return true;
    bool same = module_at((uintptr_t)n->address - 1, stamp) == n->module;
    tcm_store_relaxed(&n->stamp, same ? stamp : GONE);
    return same;
}

struct key {
    uint64_t address;
    uint32_t parent;
    uint32_t line; /* module field of a line; 0: a frame */
    uint64_t hash;
};

static uint64_t hash_of(uint64_t address, uint32_t parent, uint32_t line) {
    uint64_t h = address * 0x9E3779B97F4A7C15u +
                 ((uint64_t)line << 32 | parent) * 0xD6E8FEB86659FD93u;
    h = (h ^ h >> 32) * 0xBF58476D1CE4E5B9u;
    return h ^ h >> 29;
}

static size_t table_slots(uint32_t table) {
    return (size_t)1 << (TABLE_LOG2 + 2 * table);
}

static bool slot_matches(uint64_t slot, const struct key *k) {
    if ((slot ^ k->hash) >> 32 != 0)
        return false;
    struct mts_site *n = node_at((uint32_t)slot, false);
    return n != NULL && n->address == k->address && n->parent == k->parent &&
           (k->line == 0 || n->module == k->line) && is_current(n);
}

/* The site of K in TABLE, or 0. If SITE is not 0 and K is not in the table,
   SITE is put there. */
static uint32_t find_in_table(uint32_t table, const struct key *k,
                              uint32_t site) {
    uint64_t *slots = tcm_load_acquire(&tables[table]);
    size_t count = table_slots(table), i = k->hash & (count - 1);
    if (slots == NULL)
        return 0;
    for (size_t tries = 0; tries < count; tries++, i = (i + 1) & (count - 1)) {
        uint64_t slot = tcm_load_acquire(&slots[i]);
        if (slot == 0) {
            if (site == 0)
                return 0;
            /* Publishes the node, which is filled in; pairs with the load
               above. */
            if (tcm_cas_acq_rel(&slots[i], &slot,
                                k->hash >> 32 << 32 | (uint64_t)site))
                return site;
        }
        if (slot_matches(slot, k))
            return (uint32_t)slot;
    }
    return 0;
}

static uint32_t grow(uint32_t used) {
    uint32_t table = tcm_load_acquire(&newest);
    if (used > table_slots(table) / 2 && table + 1 < TABLES &&
        map_once(&tables[table + 1], table_slots(table + 1) * sizeof(uint64_t)))
        tcm_cas_acq_rel(&newest, &table, table + 1);
    return tcm_load_acquire(&newest);
}

static uint32_t add(const struct key *k, uint32_t module, uint32_t stamp) {
    if (tcm_load_relaxed(&next_site) >= MTF_SITE_LIMIT)
        return 0;
    uint32_t site = tcm_add_relaxed(&next_site, 1u);
    struct mts_site *n = site < MTF_SITE_LIMIT ? node_at(site, true) : NULL;
    TCM_ASSERT(k->parent < site);
    uint32_t table = grow(site);
    if (n == NULL ||
        map_once(&tables[table], table_slots(table) * sizeof(uint64_t)) == NULL)
        return 0;
    n->address = k->address;
    n->parent = k->parent;
    n->module = module;
    n->stamp = stamp;
    return find_in_table(table, k, site);
}

static uint32_t find(const struct key *k) {
    uint32_t table = tcm_load_acquire(&newest);
    uint32_t site = find_in_table(table, k, 0);
    for (uint32_t i = table; site == 0 && i-- > 0;) {
        site = find_in_table(i, k, 0);
        if (site != 0)
            find_in_table(table, k, site);
    }
    return site;
}

uint32_t mts_intern(uint64_t address, uint32_t parent) {
    TCM_ASSERT(parent < mts_sites_end());
    struct key k = {address, parent, 0, hash_of(address, parent, 0)};
    uint32_t site = find(&k);
    if (site != 0)
        return site;
    uint32_t stamp = stamp_now();
    return add(&k, module_at((uintptr_t)address - 1, stamp), stamp);
}

/* The name of a line cannot be an address of code, because no code has an
   address as large as language << 56. */
uint32_t mts_intern_line(const struct mts_line *line, uint32_t parent) {
    TCM_ASSERT(line->language != 0 && parent < mts_sites_end());
    TCM_ASSERT(line->file < MTF_SITE_LIMIT && line->function < MTF_SITE_LIMIT);
    uint64_t name = (uint64_t)line->language << 56 |
                    (uint64_t)line->file << 32 | line->line;
    uint32_t module = MTS_SITE_IS_LINE | line->function;
    struct key k = {name, parent, module, hash_of(name, parent, module)};
    uint32_t site = find(&k);
    return site != 0 ? site : add(&k, module, stamp_now());
}

bool mts_line_of(const struct mts_site *n, struct mts_line *line) {
    *line = (struct mts_line){
        .language = (enum mtf_language)(n->address >> 56),
        .file = (uint32_t)(n->address >> 32) & (MTF_SITE_LIMIT - 1),
        .line = (uint32_t)n->address,
        .function = n->module & (MTF_SITE_LIMIT - 1),
    };
    return (n->module & MTS_SITE_IS_LINE) != 0;
}

void mts_raise_epoch(uint32_t *place, uint32_t now) {
    uint32_t raised = tcm_load_relaxed(place);
    TCM_ASSERT(now <= mts_epoch());
    while (raised < now && !tcm_cas_acq_rel(place, &raised, now))
        ;
}
