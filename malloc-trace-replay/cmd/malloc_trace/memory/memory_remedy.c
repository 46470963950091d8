/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remedies for resident memory that is not alive: for each part the call, the
 * setting, the other allocator or the site that makes it smaller.
 */
#include "cmd/malloc_trace/memory/memory_print.h"

#include "common/text.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Least share of the resident bytes that is worth a remedy: one of so many; and
   least bytes. */
#define WORTH_PARTS 20u
#define WORTH_BYTES ((uint64_t)1 << 20)

/* Ways to give free pages back, by a word in the allocator's name. */
static const struct {
    const char *word, *call, *setting;
} release[] = {
    {"glibc", "malloc_trim(0)", NULL},
    {TCM_ALLOCATOR_NAME, "malloc_trim(0)", "TCMALLOC_RELEASE_RATE=10"},
    {"gperftools", "MallocExtension_ReleaseFreeMemory()",
     "TCMALLOC_RELEASE_RATE=10"},
    {"jemalloc", "mallctl(\"arena.4096.purge\", ...)",
     "MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0"},
    {"mimalloc", "mi_collect(true)", "MIMALLOC_PURGE_DELAY=0"}};

/* Tells whether R is under the allocator with WORD in its name. */
static bool is_under(const struct memory_run *r, const char *word) {
    return strstr(r->name, word) != NULL || strstr(r->allocator, word) != NULL;
}

/* Appends text to that of Y. */
static void add(struct memory_remedy *y, const char *fmt, ...) TCM_PRINTF(2, 3);
static void add(struct memory_remedy *y, const char *fmt, ...) {
    size_t n = strlen(y->text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(y->text + n, sizeof(y->text) - n, fmt, ap);
    va_end(ap);
}

static void say_release(const struct memory_run *r, struct memory_remedy *y) {
    for (size_t i = 0; i < TCM_ARRAY_SIZE(release); i++) {
        if (!is_under(r, release[i].word))
            continue;
        add(y, "empty pages: %s gives them back", release[i].call);
        if (release[i].setting != NULL)
            add(y, ", %s sooner than by default", release[i].setting);
        return;
    }
    add(y, "empty pages: settings by which the allocator gives them back "
           "sooner");
}

static void say_sites(const struct memory_run *r,
                      const struct memory_moment *at, struct memory_remedy *y) {
    const struct memory_rows *sites = &at->by[MEMORY_BY_SITE];
    add(y, "free, held by blocks: make ");
    if (r->has_sites && sites->count != 0)
        add(y, "those of %.160s", tool_text_shown(sites->row[0].label));
    else
        add(y, "blocks that stay");
    add(y, " apart from blocks that are freed sooner");
}

/* Names the run of M under which the member PART of the moment, which is that
   of Y under R, is smallest, if that is less than half, and no more memory is
   resident there. */
static void say_allocator(const struct memory_report *m,
                          const struct memory_run *r,
                          const struct memory_moment *at, size_t part,
                          struct memory_remedy *y) {
    struct tool_text t;
    const struct memory_figure figure = {"", part};
    const char *found = NULL;
    uint64_t least = y->bytes / 2;
    uint64_t most = at->resident_bytes + at->resident_bytes / WORTH_PARTS;
    for (size_t i = 0; i < m->runs; i++) {
        const struct memory_run *other = &m->run[i];
        if (other == r || other->failure != NULL)
            continue;
        const struct memory_moment *there = memory_print_moment(m, other);
        uint64_t bytes = memory_figure_of(&figure, there);
        if (bytes < least && there->resident_bytes <= most) {
            least = bytes;
            found = other->name;
        }
    }
    if (found != NULL)
        add(y, "; under %.60s this is %s", found, tool_text_bytes(&t, least));
}

static int by_bytes(const void *a, const void *b) {
    const struct memory_remedy *x = a, *y = b;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

static void find(const struct memory_report *m, struct memory_run *r) {
    const struct memory_moment *at = memory_print_moment(m, r);
    static const size_t part[MEMORY_REMEDIES] = {
        offsetof(struct memory_moment, empty_bytes),
        offsetof(struct memory_moment, free_bytes),
        offsetof(struct memory_moment, rounding_bytes),
        offsetof(struct memory_moment, never_bytes)};
    for (size_t i = 0; i < MEMORY_REMEDIES; i++) {
        const struct memory_figure figure = {"", part[i]};
        struct memory_remedy *y = &r->remedy[r->remedies];
        *y = (struct memory_remedy){.bytes = memory_figure_of(&figure, at)};
        if (y->bytes <= at->resident_bytes / WORTH_PARTS ||
            y->bytes < WORTH_BYTES)
            continue;
        r->remedies++;
        if (part[i] == offsetof(struct memory_moment, empty_bytes))
            say_release(r, y);
        else if (part[i] == offsetof(struct memory_moment, free_bytes))
            say_sites(r, at, y);
        else if (part[i] == offsetof(struct memory_moment, rounding_bytes))
            add(y, "rounding: other sizes of blocks, which --by=size has");
        else
            add(y, "never used: fewer arenas, or fewer threads");
        say_allocator(m, r, at, part[i], y);
    }
    qsort(r->remedy, r->remedies, sizeof(r->remedy[0]), by_bytes);
}

void memory_remedies_find(const struct memory_report *m) {
    for (size_t i = 0; i < m->runs; i++)
        if (m->run[i].failure == NULL)
            find(m, &m->run[i]);
}
