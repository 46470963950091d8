/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the lines that a thread runs to their site. The loader's list of modules
 * is read once, at set-up. Later the loader is asked only for the place of a
 * variable of threads.
 */
#include "sites/lang/lang.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/fmt.h"
#include "base/linux/os_mem.h"
#include "base/linux/elf_symbols.h"
#include "sites/lang/lang_reader.h"
#include "sites/site_settings.h"
#include "sites/site_table.h"
#include "sites/unwind/stack_rows.h"

static const struct mts_lang_reader *const readers[] = {
    &mts_lang_python, &mts_lang_perl, &mts_lang_ruby};
static const struct mts_lang_reader *active[TCM_ARRAY_SIZE(readers)];
static uint32_t active_count, lines_max;
/* The program was loaded with an interpreter of it; the message about an
   unknown version was printed. */
static bool is_first[TCM_ARRAY_SIZE(readers)],
    unknown_warned[TCM_ARRAY_SIZE(readers)];
static void *(*tls_get_addr)(void *);
static char notice[160];
#define NO_LINES  MTS_LANG_NO_LINES
#define NOT_KNOWN ", whose version is not known"
TCM_STATIC_ASSERT(offsetof(struct mts_lang_interpreter, loops) == 0,
                  "an interpreter begins with its loops");

/* --- Set-up -------------------------------------------------------------- */

static void find_symbols(const struct tcm_elf_symbols *s,
                         struct mts_lang_interpreter *it, uintptr_t start,
                         size_t bytes, uintptr_t tls_block) {
    const struct mts_lang_symbol *wanted = it->reader->symbols;
    for (struct mts_lang_place *p = it->place; wanted->name != NULL;
         wanted++, p++) {
        const ElfW(Sym) *symbol =
            p->at != 0 ? NULL : tcm_elf_find(s, wanted->name);
        if (symbol == NULL ||
            (ELF64_ST_TYPE(symbol->st_info) == STT_TLS) != wanted->is_tls)
            continue;
        p->bytes = symbol->st_size;
        if (wanted == it->reader->symbols) {
            it->start = start;
            it->bytes = bytes;
        }
        if (!wanted->is_tls)
            p->at = (intptr_t)(s->bias + symbol->st_value);
        else if (tls_block != 0)
            p->at =
                (intptr_t)(tls_block + symbol->st_value - tcm_thread_pointer());
        else if (it != it->reader->first && tls_get_addr != NULL)
            p->at = (intptr_t)tcm_elf_tls_index(s, symbol);
    }
}

static int scan_loaded_module(struct dl_phdr_info *info, size_t size,
                              void *ctx) {
    struct tcm_elf_symbols s;
    (void)ctx;
    uintptr_t block = size >= offsetof(struct dl_phdr_info, dlpi_tls_data) +
                                  sizeof(info->dlpi_tls_data)
                          ? (uintptr_t)info->dlpi_tls_data
                          : 0;
    if (!tcm_elf_symbols(&s, info->dlpi_addr, info->dlpi_phdr,
                         info->dlpi_phnum))
        return 0;
    uintptr_t start = UINTPTR_MAX, end = 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD)
            continue;
        start = tcm_min_u64(start, info->dlpi_addr + p->p_vaddr);
        end = tcm_max_u64(end, info->dlpi_addr + p->p_vaddr + p->p_memsz);
    }
    for (size_t i = 0; i < TCM_ARRAY_SIZE(readers); i++)
        find_symbols(&s, readers[i]->first, start, end - start, block);
    const ElfW(Sym) *get = tcm_elf_find(&s, "__tls_get_addr");
    if (get != NULL && tls_get_addr == NULL)
        tls_get_addr = (void *(*)(void *))(s.bias + get->st_value);
    return 0;
}

static const void *layout_of(const struct mts_lang_reader *r,
                             uint32_t version) {
    const uint8_t *layout = r->layouts;
    for (size_t i = 0; i < r->layout_count; i++, layout += r->layout_bytes) {
        const struct mts_lang_versions *of = (const void *)layout;
        if (version >= of->first && version <= of->last)
            return layout;
    }
    return NULL;
}

static enum mts_lang_state state_of(struct mts_lang_interpreter *it) {
    const struct mts_lang_reader *r = it->reader;
    const struct mts_lang_symbol *s = r->symbols;
    for (size_t i = 0; s[i].name != NULL; i++)
        if (s[i].needed && it->place[i].at == 0)
            return i == 0 ? MTS_LANG_ABSENT : MTS_LANG_UNKNOWN;
    const void *layout = layout_of(r, r->version(it));
    return layout != NULL && r->begin(it, layout) ? MTS_LANG_KNOWN
                                                  : MTS_LANG_UNKNOWN;
}

/* Frames outside of the function that runs the innermost line are left out of
   stacks. */
static void end_stacks_of(const struct mts_lang_interpreter *it) {
    const struct mts_lang_symbol *s = it->reader->symbols;
    for (size_t i = 0; s[i].name != NULL; i++)
        if (s[i].is_loop && it->place[i].at != 0)
            mts_rows_add_end((uintptr_t)it->place[i].at, it->place[i].bytes);
}

void mts_lang_find(uint32_t depth) {
    struct tcm_fmt f;
    TCM_ASSERT(depth != 0 && depth <= MTS_LANG_DEPTH_MAX);
    lines_max = depth;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(readers); i++)
        readers[i]->first->reader = readers[i];
    dl_iterate_phdr(scan_loaded_module, NULL);
    tcm_fmt_init(&f, notice, sizeof(notice));
    enum mts_lang_state state[TCM_ARRAY_SIZE(readers)];
    unsigned several = 0;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(readers); i++) {
        state[i] = state_of(readers[i]->first);
        several += state[i] == MTS_LANG_KNOWN;
    }
    for (size_t i = 0; i < TCM_ARRAY_SIZE(readers); i++) {
        /* In a program with several, the stack tells which one runs, as it does
           for interpreters that are loaded later. */
        if (several > 1 && state[i] == MTS_LANG_KNOWN)
            continue;
        is_first[i] = state[i] != MTS_LANG_ABSENT;
        if (state[i] == MTS_LANG_KNOWN) {
            active[active_count++] = readers[i];
            end_stacks_of(readers[i]->first);
        }
        if (state[i] != MTS_LANG_UNKNOWN)
            continue;
        tcm_fmt_str(&f, f.len == 0 ? NO_LINES : ", ");
        tcm_fmt_str(&f, readers[i]->name);
    }
    if (f.len != 0)
        tcm_fmt_str(&f, NOT_KNOWN);
}

const char *mts_lang_notice(void) {
    return notice[0] != '\0' ? notice : NULL;
}

/* --- Interpreters that are loaded later ----------------------------------- */

static void warn_unknown(size_t i) {
    char text[sizeof(notice)];
    struct tcm_fmt f;
    bool warned = false;
    if (!tcm_cas_acq_rel(&unknown_warned[i], &warned, true))
        return;
    tcm_fmt_init(&f, text, sizeof(text));
    tcm_fmt_str(&f, NO_LINES);
    tcm_fmt_str(&f, readers[i]->name);
    tcm_fmt_str(&f, NOT_KNOWN);
    mts_settings.host.complain(text, NULL, 0);
}

/* Adds the interpreter of readers[I] in module M with symbols S. false: there
   is none, or it cannot be read. */
static bool scan_module_for(const struct mts_module *m, uint32_t module,
                            const struct tcm_elf_symbols *s, size_t i) {
    const struct mts_lang_reader *r = readers[i];
    size_t bytes = tcm_align_up(r->bytes, tcm_os_page_size()), loops = 0;
    if (tcm_elf_find(s, r->symbols[0].name) == NULL || is_first[i])
        return false;
    struct mts_lang_interpreter *it = tcm_os_map(bytes);
    if (it == NULL)
        return false;
    it->reader = r;
    it->tls = tls_get_addr;
    find_symbols(s, it, m->start, m->end - m->start, 0);
    enum mts_lang_state state = state_of(it);
    if (state == MTS_LANG_UNKNOWN)
        warn_unknown(i);
    if (state != MTS_LANG_KNOWN) {
        tcm_os_unmap(it, bytes);
        return false;
    }
    it->loops.module = module;
    it->loops.alone = r->late_in_loop;
    it->loops.start = m->start;
    it->loops.end = m->end;
    for (size_t n = 0; r->symbols[n].name != NULL; n++)
        if (r->symbols[n].is_loop && loops < MTS_LOOPS_MAX) {
            it->loops.loop[loops].start = (uintptr_t)it->place[n].at;
            it->loops.loop[loops++].bytes = it->place[n].bytes;
        }
    mts_loops_add(&it->loops);
    return true;
}

bool mts_lang_scan_module(struct mts_module *m, uint32_t module) {
    struct tcm_elf_symbols s;
    bool found = false;
    if (tcm_load_relaxed(&m->is_lang_scanned))
        return false;
    if (tcm_elf_symbols_at(&s, m->bias,
                           (const ElfW(Dyn) *)(uintptr_t)m->dynamic))
        for (size_t i = 0; i < TCM_ARRAY_SIZE(readers); i++)
            found |= scan_module_for(m, module, &s, i);
    /* Set last: the child of a fork has no other thread that would finish the
       search. If two threads search at once, both add the interpreter, and one
       of the two is used. */
    tcm_store_relaxed(&m->is_lang_scanned, true);
    return found;
}

/* --- Walk ---------------------------------------------------------------- */

/* false: a walk of the thread is in progress. */
static TCM_ALWAYS_INLINE bool begin_walk(struct mts_lang_walk *w) {
    if (w->is_walking)
        return false;
    w->is_walking = true;
    tcm_fence_signal();
    w->key = w->salt = 0;
    w->count = 0;
    w->cut = false;
    w->outer = 0;
    return true;
}

static TCM_ALWAYS_INLINE uint64_t end_walk(struct mts_lang_walk *w,
                                           uintptr_t caller) {
    TCM_ASSERT(w->count <= lines_max);
    if (w->count != 0)
        return mts_lang_mix(w->key, w->cut) | (uint64_t)1 << 63;
    w->is_walking = false;
    return caller;
}

uint64_t mts_lang_walk(struct mts_lang_walk *w, uintptr_t caller) {
    uint32_t owner = tcm_load_relaxed(&w->owner);
    if (!begin_walk(w))
        return caller;
    for (uint32_t i = 0; i < active_count && w->count == 0; i++) {
        w->of = active[i]->first;
        active[i]->walk(w, lines_max);
        if (!mts_lang_is_owner(w, owner))
            return 0;
    }
    return end_walk(w, caller);
}

uint64_t mts_lang_walk_late(struct mts_lang_walk *w,
                            const struct mts_loops *loops, uintptr_t caller) {
    const struct mts_lang_interpreter *it = (const void *)loops;
    uint32_t owner = tcm_load_relaxed(&w->owner);
    /* The stack has a frame of the module that lies there now, which keeps that
       module loaded. */
    if (!mts_module_is_at(loops->module, loops->start) || !begin_walk(w))
        return caller;
    w->of = it;
    it->reader->walk_late(it, w, lines_max);
    if (!mts_lang_is_owner(w, owner))
        return 0;
    return end_walk(w, caller);
}

/* The names of FRAME, kept in W because most walks of a thread have the same
   callers. */
static const struct mts_lang_names *names_of(struct mts_lang_walk *w,
                                             const struct mts_lang_frame *frame,
                                             uint64_t stamp) {
    const struct mts_lang_interpreter *it = w->of;
    const struct mts_lang_reader *r = it->reader;
    uint64_t key = r->mix(it, mts_lang_mix(w->salt, stamp), frame) | 1;
    struct mts_lang_names *n = &w->names[key >> (64 - MTS_LANG_NAMES_LOG2)];
    if (n->key != key) {
        n->key = key;
        n->line = r->line(it, frame);
        n->file = mts_text_intern(w->text, r->file(it, frame, w->text));
        n->function = mts_text_intern(w->text, r->function(it, frame, w->text));
    }
    return n;
}

uint32_t mts_lang_site(struct mts_lang_walk *w, uint64_t stamp) {
    const struct mts_lang_reader *r = w->of->reader;
    uint32_t site = MTF_SITE_NONE;
    if (w->cut) {
        site = mts_intern(MTF_SITE_CUT, site);
        if (site == MTF_SITE_NONE)
            return site;
    }
    for (uint32_t i = w->count; i-- > 0;) {
        const struct mts_lang_names *n = names_of(w, &w->frame[i], stamp);
        struct mts_line line = {.language = r->language,
                                .file = n->file,
                                .line = n->line,
                                .function = n->function};
        site = mts_intern_line(&line, site);
        if (site == MTF_SITE_NONE)
            return site;
    }
    return site;
}
