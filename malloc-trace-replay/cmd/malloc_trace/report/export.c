/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/export.h"

#include "base/bits.h"
#include "cmd/malloc_trace/report/print.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/main.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Folded stacks -------------------------------------------------------- */

static void put_folded(FILE *f, const char *text) {
    for (; *text != '\0'; text++)
        fputc(*text == ';'                            ? ':'
              : (uint8_t)*text < ' ' || *text == 0x7f ? '?'
                                                      : *text,
              f);
}

bool export_folded(const struct stacks *s, enum rows_sort sort,
                   const char *file) {
    static uint32_t path[STACKS_DEPTH];
    FILE *f = tool_file_stream(file);
    if (f == NULL)
        return false;
    for (uint32_t i = 1; i < s->count; i++) {
        double value = s->node[i].sum == 0
                           ? 0
                           : rows_value(&s->sum[s->node[i].sum - 1], sort);
        if (value < 1)
            continue;
        for (size_t depth = stacks_path(s, i, path); depth-- > 0;) {
            put_folded(f, s->labels.text[path[depth]]);
            fputc(depth == 0 ? ' ' : ';', f);
        }
        fprintf(f, "%.0f\n", value);
    }
    return tool_file_stream_end(f, file);
}

/* --- gperftools' heap profile --------------------------------------------- */

/* Where modules lie in the profile: where they were, but for those that took
   the place of a closed one, which lie behind all others. */
struct places {
    uint64_t *start; /* by place of the module */
};

static int compare_starts(const void *a, const void *b, void *ctx) {
    const struct tool_sites *sites = ctx;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    uint64_t p = sites->module[x].start, q = sites->module[y].start;
    return p != q ? (p < q ? -1 : 1) : (x < y ? -1 : x > y);
}

static uint64_t length_of(const struct tool_module *m) {
    return m->end > m->start ? m->end - m->start : 0;
}

/* False: out of memory. */
static bool place_modules(struct tool_sites *sites, struct places *p) {
    const uint64_t page = 4096;
    size_t count = sites->modules.count;
    size_t *order = calloc(count + 1, sizeof(*order));
    uint64_t taken = 0, free_from = 0;
    p->start = calloc(count + 1, sizeof(*p->start));
    if (p->start == NULL || order == NULL) {
        free(order);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = i;
        free_from = tcm_max_u64(free_from, sites->module[i].end);
    }
    qsort_r(order, count, sizeof(*order), compare_starts, sites);
    for (size_t i = 0; i < count; i++) {
        const struct tool_module *m = &sites->module[order[i]];
        uint64_t start = m->start;
        if (start < taken) {
            start = ((free_from | (page - 1)) + 1) | (m->start & (page - 1));
            free_from = start + length_of(m);
        } else {
            taken = start + length_of(m);
        }
        p->start[order[i]] = start;
    }
    free(order);
    return true;
}

/* Those that have none, as lines of interpreters and what was not followed
   further, are left out. */
static bool address_of(const struct tool_sites *sites, const struct places *p,
                       uint32_t site, uint64_t *address) {
    const struct tool_frame *f = tool_sites_frame(sites, site);
    if (f == NULL || f->language != 0 ||
        (f->module == 0 && f->address <= MTF_SITE_CUT))
        return false;
    size_t at = tool_ids_find(&sites->modules, f->module);
    *address = f->address;
    if (at != SIZE_MAX)
        *address += p->start[at] - sites->module[at].start;
    return true;
}

static void put_figures(FILE *f, const struct tally *a) {
    fprintf(f, "%6" PRIu64 ": %8" PRIu64 " [%6" PRIu64 ": %8" PRIu64 "] @",
            a->live, a->live_bytes, a->calls, a->bytes);
}

/* The innermost address lies in the call, for readers that do not take one off
   it; those that do still are in the call. */
static void put_addresses(FILE *f, const struct tool_sites *sites,
                          const struct places *p, uint32_t site) {
    static uint32_t stack[TOOL_SITE_DEPTH];
    unsigned depth = stacks_sites(sites, site, stack), put = 0;
    uint64_t address;
    for (unsigned i = 0; i < depth; i++)
        if (address_of(sites, p, stack[i], &address)) {
            fprintf(f, " 0x%08" PRIx64, address - (put == 0));
            put++;
        }
    if (put == 0)
        fprintf(f, " 0x%08x", 0);
    fputc('\n', f);
}

static void put_map(FILE *f, const struct tool_sites *sites,
                    const struct places *p) {
    fputs("\nMAPPED_LIBRARIES:\n", f);
    for (size_t i = 0; i < sites->modules.count; i++) {
        const struct tool_module *m = &sites->module[i];
        if (m->path == NULL || length_of(m) == 0)
            continue;
        fprintf(f, "%08" PRIx64 "-%08" PRIx64 " r-xp %08x 00:00 %zu ",
                p->start[i], p->start[i] + length_of(m), 0, i + 1);
        for (const char *c = m->path; *c != '\0'; c++)
            fputc((uint8_t)*c < ' ' ? '?' : *c, f);
        fputc('\n', f);
    }
}

bool export_heap_profile(struct tallies *t, const char *file) {
    FILE *f = tool_file_stream(file);
    struct places places = {0};
    struct tally all = {0};
    if (f == NULL)
        return false;
    bool good = place_modules(&t->sites, &places);
    for (size_t i = 0; i < t->count; i++)
        tally_add(&all, &t->tally[i]);
    if (good) {
        fputs("heap profile: ", f);
        put_figures(f, &all);
        fputs(" heapprofile\n", f);
        for (size_t i = 0; i < t->count; i++) {
            /* Of calls that failed there is nothing. */
            if (t->tally[i].calls == 0)
                continue;
            put_figures(f, &t->tally[i]);
            put_addresses(f, &t->sites, &places, (uint32_t)t->tally[i].key);
        }
        put_map(f, &t->sites, &places);
    } else {
        tool_error("out of memory");
    }
    free(places.start);
    return tool_file_stream_end(f, file) && good;
}
