/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From what runs in a thread to its site. The list of modules is the loader's,
 * read once at set-up; later nothing here asks the loader.
 */
#include "tracer/lang.h"

#include "base/fmt.h"
#include "tracer/elf_symbols.h"
#include "tracer/lang_reader.h"
#include "tracer/recorder.h"
#include "tracer/site_texts.h"
#include "tracer/sites.h"
#include "tracer/stack_rows.h"

static const struct mtr_lang_reader *const all[] = {
    &mtr_lang_python, &mtr_lang_perl, &mtr_lang_ruby};
static const struct mtr_lang_reader *known[TCM_ARRAY_SIZE(all)];
static uint32_t known_count, lines_max;
static char notice[160];

/* --- Set-up -------------------------------------------------------------- */

static void find_in(const struct mtr_elf_symbols *s, uintptr_t tls,
                    struct mtr_lang_symbol *wanted) {
    for (; wanted->name != NULL; wanted++) {
        const ElfW(Sym) *symbol =
            wanted->place != 0 ? NULL : mtr_elf_find(s, wanted->name);
        if (symbol == NULL ||
            (ELF64_ST_TYPE(symbol->st_info) == STT_TLS) != wanted->is_tls)
            continue;
        wanted->bytes = symbol->st_size;
        if (!wanted->is_tls)
            wanted->place = (intptr_t)(s->bias + symbol->st_value);
        else if (tls != 0)
            wanted->place = (intptr_t)(tls + symbol->st_value -
                                       (uintptr_t)__builtin_thread_pointer());
    }
}

static int look_at_module(struct dl_phdr_info *info, size_t size, void *ctx) {
    struct mtr_elf_symbols s;
    (void)ctx;
    uintptr_t tls = size >= offsetof(struct dl_phdr_info, dlpi_tls_data) +
                                sizeof(info->dlpi_tls_data)
                        ? (uintptr_t)info->dlpi_tls_data
                        : 0;
    if (mtr_elf_symbols(&s, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum))
        for (size_t i = 0; i < TCM_ARRAY_SIZE(all); i++)
            find_in(&s, tls, all[i]->symbols);
    return 0;
}

static enum mtr_lang_state state_of(const struct mtr_lang_reader *r) {
    for (const struct mtr_lang_symbol *s = r->symbols; s->name != NULL; s++)
        if (s->needed && s->place == 0)
            return s == r->symbols ? MTR_LANG_ABSENT : MTR_LANG_UNKNOWN;
    return r->is_known() ? MTR_LANG_KNOWN : MTR_LANG_UNKNOWN;
}

/* Stacks are of no use outside of what runs the line that is said. */
static void end_stacks_of(const struct mtr_lang_reader *r) {
    for (const struct mtr_lang_symbol *s = r->symbols; s->name != NULL; s++)
        if (s->is_loop && s->place != 0)
            mtr_rows_end_in((uintptr_t)s->place, s->bytes);
}

void mtr_lang_find(uint32_t depth) {
    struct tcm_fmt f;
    lines_max = depth;
    dl_iterate_phdr(look_at_module, NULL);
    tcm_fmt_init(&f, notice, sizeof(notice));
    for (size_t i = 0; i < TCM_ARRAY_SIZE(all); i++) {
        enum mtr_lang_state state = state_of(all[i]);
        if (state == MTR_LANG_KNOWN) {
            known[known_count++] = all[i];
            end_stacks_of(all[i]);
        }
        if (state != MTR_LANG_UNKNOWN)
            continue;
        tcm_fmt_str(&f, f.len == 0 ? "the sites have no lines of this " : ", ");
        tcm_fmt_str(&f, all[i]->name);
    }
    if (f.len != 0)
        tcm_fmt_str(&f, ", whose version is not known");
}

const char *mtr_lang_notice(void) {
    return notice[0] != '\0' ? notice : NULL;
}

/* --- Walk ---------------------------------------------------------------- */

uint64_t mtr_lang_walk(struct mtr_lang_walk *w, uintptr_t caller) {
    if (w->is_walking)
        return caller;
    w->is_walking = true;
    tcm_fence_signal();
    w->key = 0;
    w->count = 0;
    w->cut = false;
    w->outer = 0;
    for (uint8_t i = 0; i < known_count && w->count == 0; i++) {
        w->reader = i;
        known[i]->walk(w, lines_max);
    }
    if (w->count != 0)
        return mtr_lang_mix(w->key, w->cut) | (uint64_t)1 << 63;
    w->is_walking = false;
    return caller;
}

uint32_t mtr_lang_site(struct mtr_lang_walk *w) {
    const struct mtr_lang_reader *r = known[w->reader];
    uint32_t site = MTF_SITE_NONE;
    if (w->cut) {
        site = mtr_site_intern(MTF_SITE_CUT, site);
        if (site == MTF_SITE_NONE)
            return site;
    }
    for (uint32_t i = w->count; i-- > 0;) {
        const struct mtr_lang_frame *frame = &w->frame[i];
        struct mtr_line line = {.language = r->language,
                                .line = r->line(frame)};
        line.file = mtr_text_intern(w->text, r->file(frame, w->text));
        line.function = mtr_text_intern(w->text, r->function(frame, w->text));
        site = mtr_site_intern_line(&line, site);
        if (site == MTF_SITE_NONE)
            return site;
    }
    return site;
}
