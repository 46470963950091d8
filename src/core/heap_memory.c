/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table is made in three steps. First the free objects that lie in thread
 * caches and transfer caches are marked, in a map with a bit for each 8 bytes
 * of heap: their spans do not know that they are free. Then a walk over the
 * spans, in the order of addresses, passes each run of bytes of one kind to
 * put, which adds it to the page that it lies in and judges each page that is
 * complete. Last, the allocator's own records are counted.
 *
 * The walk holds the lock of a shard for a few hundred spans and goes on from
 * the address where it stopped. Spans may have been split and merged since:
 * that address may be inside one, where the page map has nothing. The walk then
 * searches the end of the span, which the page map has. Bits of a SMALL span
 * are copied under the lock of its class, if it still is the span that was
 * found: records of spans are never unmapped.
 *
 * Working memory is mapped, and not inherited by a child that is forked
 * meanwhile, in which no thread would unmap it.
 */
#include "core/heap_memory.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "core/arena.h"
#include "core/cache_registry.h"
#include "core/central_list.h"
#include "core/core_stats.h"
#include "core/meta_alloc.h"
#include "core/page_heap.h"
#include "core/page_map.h"
#include "core/transfer_cache.h"

/* Spans that are found, and pages without a span that are passed, while the
   lock of a shard is held. */
#define STEP_SPANS 256u
#define STEP_PAGES ((size_t)32 << 10)
/* Pages whose state is asked for at once. */
#define WINDOW_PAGES ((size_t)2048)
#define BIT_WORDS    (TCM_MAX_OBJECTS / 64)

/* Kinds of bytes. */
enum kind {
    BLOCK,    /* in use */
    OBJECT,   /* free, in a span of small objects, or its end */
    RUN,      /* free pages that have or may have memory */
    RELEASED, /* free pages without memory */
    KINDS
};

/* A range of the heap, and its marks. */
struct part {
    uintptr_t start;
    size_t bytes; /* committed when the walk began */
    struct tcm_page_heap *heap;
    uint64_t *mark; /* a bit for each 8 bytes */
};

/* A span as the walk found it. */
struct found {
    const struct tcm_span *span;
    uintptr_t start;
    uintptr_t end;
    unsigned state;
    unsigned size_class;
};

struct walk {
    struct tcm_memory out; /* first: the caller knows only this */
    int pagemap;
    bool failed; /* the system did not tell the state of a page */
    uint32_t parts;
    struct part part[TCM_MAX_RANGES];
    /* The page that the next byte lies in. */
    uintptr_t at;
    uint64_t sum[KINDS];
    /* Pages whose state is known. */
    uintptr_t window;
    size_t window_pages;
    uint8_t state[WINDOW_PAGES];
    struct found found[STEP_SPANS];
    void *object[TCM_TRANSFER_MOST];
    struct tcm_thread_cache **cache;
    size_t caches, most_caches;
};

/* --- Memory of the walk --------------------------------------------------- */

static size_t whole_pages(size_t bytes) {
    return tcm_align_up(bytes, tcm_os_page_size());
}

static void *map(size_t bytes) {
    void *p = tcm_os_map(whole_pages(bytes));
    if (p != NULL) {
        (void)tcm_os_dont_fork(p, whole_pages(bytes));
        (void)tcm_os_no_huge_pages(p, whole_pages(bytes));
    }
    return p;
}

static void unmap(void *p, size_t bytes) {
    if (p != NULL)
        tcm_os_unmap(p, whole_pages(bytes));
}

static size_t mark_bytes(const struct part *part) {
    return part->bytes / 64;
}

/* Frees all but the table. */
static void free_parts(struct walk *w) {
    for (uint32_t i = 0; i < w->parts; i++)
        unmap(w->part[i].mark, mark_bytes(&w->part[i]));
    unmap(w->cache, w->most_caches * sizeof(w->cache[0]));
    tcm_os_pagemap_close(w->pagemap);
}

static void note_parts(struct walk *w) {
    tcm_lock(&tcm_growth.lock);
    for (uint32_t i = 0; i < tcm_ranges.count; i++) {
        const struct tcm_range *range = &tcm_ranges.range[i];
        w->out.reserved_bytes += range->length - range->committed;
        if (range->committed == 0)
            continue;
        w->part[w->parts++] =
            (struct part){.start = range->start,
                          .bytes = range->committed,
                          .heap = tcm_page_shard[range->shard]};
    }
    tcm_unlock(&tcm_growth.lock);
}

/* Makes the marks of all parts. false: out of memory. */
static bool make_marks(struct walk *w) {
    bool good = true;
    for (uint32_t i = 0; i < w->parts; i++) {
        w->part[i].mark = map(mark_bytes(&w->part[i]));
        good &= w->part[i].mark != NULL;
    }
    return good;
}

/* --- Marks of free objects ------------------------------------------------ */

static struct part *part_of(struct walk *w, uintptr_t address) {
    for (uint32_t i = 0; i < w->parts; i++)
        if (address - w->part[i].start < w->part[i].bytes)
            return &w->part[i];
    return NULL;
}

/* Marks the first COUNT addresses of w->object that are in the heap, and adds
   their number to *TOTAL. Addresses of a cache that was being changed may be
   anything. */
static void mark_objects(struct walk *w, unsigned count, uint64_t *total) {
    for (unsigned i = 0; i < count; i++) {
        uintptr_t address = (uintptr_t)w->object[i];
        const struct part *part = part_of(w, address);
        if (part == NULL)
            continue;
        size_t bit = (address - part->start) / 8;
        uint64_t mask = (uint64_t)1 << (bit % 64);
        *total += (part->mark[bit / 64] & mask) == 0;
        part->mark[bit / 64] |= mask;
    }
}

static bool is_marked(const struct part *part, uintptr_t address) {
    size_t bit = (address - part->start) / 8;
    return (part->mark[bit / 64] >> (bit % 64) & 1) != 0;
}

static void add_cache(struct tcm_thread_cache *cache, void *argument) {
    struct walk *w = argument;
    if (w->caches < w->most_caches)
        w->cache[w->caches++] = cache;
}

static void mark_cache(struct walk *w, const struct tcm_thread_cache *cache) {
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++) {
        uint64_t *total = &w->out.by_class[size_class].thread_cache;
        unsigned n, from = 0;
        do {
            n = tcm_cache_copy(cache, size_class, from, w->object,
                               TCM_TRANSFER_MOST);
            mark_objects(w, n, total);
            from += n;
        } while (n == TCM_TRANSFER_MOST);
    }
}

/* Marks what lies in caches. The registry's lock is held only for the list of
   caches; their memory is never unmapped. false: out of memory. */
static bool mark_caches(struct walk *w) {
    /* Some more, for threads that begin meanwhile. */
    w->most_caches = tcm_load_relaxed(&tcm_cache_count) + 64;
    w->cache = map(w->most_caches * sizeof(w->cache[0]));
    if (w->cache == NULL)
        return false;
    tcm_registry_each(add_cache, w);
    for (size_t i = 0; i < w->caches; i++)
        mark_cache(w, w->cache[i]);
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++)
        for (uint32_t i = 0; i < tcm_class_parts(size_class); i++)
            mark_objects(w, tcm_transfer_copy(i, size_class, w->object),
                         &w->out.by_class[size_class].transfer_cache);
    return true;
}

/* --- Pages ---------------------------------------------------------------- */

/* Asks for the states of pages from START on, up to END. */
static void move_window(struct walk *w, uintptr_t start, uintptr_t end) {
    w->window = start;
    w->window_pages =
        tcm_min_u64((end - start) / w->out.page_bytes, WINDOW_PAGES);
    if (!tcm_os_page_states(w->pagemap, start, w->window_pages, w->state)) {
        __builtin_memset(w->state, 0, sizeof(w->state));
        w->failed = true;
    }
}

/* State of the page at PAGE, in PART. */
static unsigned page_state(struct walk *w, const struct part *part,
                           uintptr_t page) {
    TCM_ASSERT(page % w->out.page_bytes == 0);
    if (page - w->window >= w->window_pages * w->out.page_bytes)
        move_window(w, page, part->start + part->bytes);
    return w->state[(page - w->window) / w->out.page_bytes];
}

/* Judges the page whose bytes are w->sum. */
static void judge_page(struct walk *w, unsigned state) {
    struct tcm_memory *out = &w->out;
    uint64_t page = out->page_bytes, used = w->sum[BLOCK];
    if ((state & TCM_STATE_RESIDENT) == 0) {
        out->absent_bytes += used;
        out->absent_free_bytes += w->sum[OBJECT] + w->sum[RUN];
        out->returned_bytes += w->sum[RELEASED];
        return;
    }
    if ((state & TCM_STATE_HUGE) != 0) {
        out->huge_bytes += page;
        out->huge_usable_bytes += used;
    }
    out->usable_bytes += used;
    if (used == page) {
        out->live_pages++;
    } else if (used != 0) {
        out->partly_pages++;
        out->free_bytes += page - used;
    } else if (w->sum[RELEASED] == page) {
        out->reserve_bytes += page;
    } else {
        out->empty_pages++;
        out->empty_bytes += page;
        out->empty_run_bytes += w->sum[RUN] + w->sum[RELEASED];
    }
}

/* Adds the bytes from w->at to END, which are in PART: they are of KIND, and of
   CLASS, which is NULL for free runs. Nothing, if END is not above w->at. */
static void put(struct walk *w, const struct part *part, enum kind kind,
                struct tcm_memory_class *class, uintptr_t end) {
    uint64_t page = w->out.page_bytes;
    while (w->at < end) {
        uintptr_t first = tcm_align_down(w->at, page);
        unsigned state = page_state(w, part, first);
        uint64_t bytes = tcm_min_u64(end, first + page) - w->at;
        if (class != NULL && (state & TCM_STATE_RESIDENT) != 0)
            *(kind == BLOCK ? &class->usable_bytes : &class->free_bytes) +=
                bytes;
        w->sum[kind] += bytes;
        w->at += bytes;
        if (w->at == first + page) {
            judge_page(w, state);
            __builtin_memset(w->sum, 0, sizeof(w->sum));
        }
    }
}

/* --- Spans ---------------------------------------------------------------- */

/* Copies the bits of the SMALL span that F describes. false: it is gone. */
static bool copy_bits(const struct found *f, uint64_t bits[BIT_WORDS]) {
    const struct tcm_span *span = f->span;
    const void *start = (const void *)f->start;
    struct tcm_lock *lock = tcm_central_lock_span(span, f->size_class);
    if (lock == NULL)
        return false;
    bool same = tcm_page_span(start) == span &&
                tcm_entry_class(tcm_page_entry(start)) == f->size_class;
    if (same)
        __builtin_memcpy(bits, span->free_bits,
                         span->bit_words * sizeof(bits[0]));
    tcm_unlock(lock);
    return same;
}

static void put_small(struct walk *w, const struct part *part,
                      const struct found *f) {
    const struct tcm_class_info *info = &tcm_class[f->size_class];
    struct tcm_memory_class *class = &w->out.by_class[f->size_class];
    uint64_t bits[BIT_WORDS];
    if (f->size_class == 0 || !copy_bits(f, bits)) {
        put(w, part, RUN, NULL, f->end);
        return;
    }
    class->spans++;
    enum kind last = OBJECT;
    uintptr_t object = f->start;
    for (unsigned slot = 0; slot < info->objects; slot++) {
        bool central = (bits[slot / 64] >> (slot % 64) & 1) != 0;
        /* The part of a span behind the noted end of the range has no marks. */
        bool parked = !central && object < part->start + part->bytes &&
                      is_marked(part, object);
        enum kind kind = central || parked ? OBJECT : BLOCK;
        class->central_list += central;
        class->blocks += kind == BLOCK;
        if (kind != last)
            put(w, part, last, class, tcm_min_u64(object, f->end));
        last = kind;
        object += info->size;
    }
    put(w, part, last, class, tcm_min_u64(object, f->end));
    put(w, part, OBJECT, class, f->end);
}

static void put_span(struct walk *w, const struct part *part,
                     const struct found *f) {
    struct tcm_memory_class *large = &w->out.by_class[0];
    switch (f->state) {
    case TCM_SPAN_SMALL:
        put_small(w, part, f);
        break;
    case TCM_SPAN_LARGE:
        large->spans++;
        large->blocks++;
        put(w, part, BLOCK, large, f->end);
        break;
    case TCM_SPAN_RELEASED:
        put(w, part, RELEASED, NULL, f->end);
        break;
    default: /* FREE, BUSY, MOVING */
        put(w, part, RUN, NULL, f->end);
    }
}

/* Notes up to STEP_SPANS spans of PART from *AT on, which becomes the address
   to go on from. Returns how many. */
static unsigned find_spans(struct walk *w, const struct part *part,
                           uintptr_t *at) {
    uintptr_t end = part->start + part->bytes;
    size_t passed = 0;
    unsigned n = 0;
    tcm_lock(&part->heap->lock);
    while (n < STEP_SPANS && passed < STEP_PAGES && *at < end) {
        const struct tcm_span *span = tcm_page_span((void *)*at);
        if (span == NULL) {
            /* Inside a span that has no entry but at its ends. */
            *at += TCM_PAGE_SIZE;
            passed++;
            continue;
        }
        TCM_ASSERT(*at - span->start < tcm_span_bytes(span));
        struct found *f = &w->found[n++];
        f->span = span;
        f->start = span->start;
        f->end = tcm_min_u64(tcm_span_end(span), end);
        f->state = tcm_load_relaxed(&span->state);
        f->size_class = tcm_entry_class(tcm_page_entry((void *)span->start));
        *at = tcm_span_end(span);
    }
    tcm_unlock(&part->heap->lock);
    return n;
}

static void walk_part(struct walk *w, const struct part *part) {
    uintptr_t end = part->start + part->bytes, at = part->start;
    w->at = part->start;
    w->window_pages = 0;
    while (at < end) {
        unsigned n = find_spans(w, part, &at);
        for (unsigned i = 0; i < n; i++)
            put_span(w, part, &w->found[i]);
        TCM_TESTPOINT("memory_step");
    }
    /* A span may have grown over the end of the range as it was. */
    put(w, part, RUN, NULL, end);
    TCM_ASSERT(w->at == end && w->sum[RUN] == 0);
}

/* --- Records -------------------------------------------------------------- */

struct record_count {
    struct walk *walk;
    uint64_t *bytes;
};

static void count_records(void *ctx, uintptr_t start, size_t bytes) {
    struct record_count *count = ctx;
    struct walk *w = count->walk;
    uint64_t page = w->out.page_bytes;
    for (uintptr_t at = start; at < start + bytes;
         at += w->window_pages * page) {
        move_window(w, at, start + bytes);
        for (size_t i = 0; i < w->window_pages; i++)
            if ((w->state[i] & TCM_STATE_RESIDENT) != 0)
                *count->bytes += page;
    }
}

static void put_records(struct walk *w) {
    struct record_count records = {w, &w->out.record_bytes};
    struct record_count maps = {w, &w->out.map_bytes};
    struct record_count arena = {w, &w->out.arena_bytes};
    tcm_meta_each(count_records, &records);
    tcm_page_map_each(count_records, &maps);
    tcm_arena_each(count_records, &arena);
}

/* --- The table ------------------------------------------------------------ */

struct tcm_memory *tcm_memory_new(void) {
    struct walk *w = map(sizeof(*w));
    if (w == NULL)
        return NULL;
    struct tcm_memory *out = &w->out;
    TCM_STATIC_ASSERT(offsetof(struct walk, out) == 0, "begins the walk");
    out->page_bytes = tcm_os_page_size();
    w->pagemap = tcm_os_pagemap_open();
    out->huge_known = w->pagemap >= 0;
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++)
        out->by_class[size_class].size = tcm_class[size_class].size;
    note_parts(w);
    bool good = make_marks(w) && mark_caches(w);
    for (uint32_t i = 0; good && i < w->parts; i++)
        walk_part(w, &w->part[i]);
    if (good)
        put_records(w);
    free_parts(w);
    if (!good || w->failed) {
        tcm_memory_delete(out);
        return NULL;
    }
    out->never_bytes = out->reserve_bytes + out->record_bytes + out->map_bytes +
                       out->arena_bytes;
    out->never_pages = out->never_bytes / out->page_bytes;
    out->resident_bytes = out->usable_bytes + out->free_bytes +
                          out->empty_bytes + out->never_bytes;
    TCM_ASSERT(out->usable_bytes + out->free_bytes ==
               (out->live_pages + out->partly_pages) * out->page_bytes);
    return out;
}

void tcm_memory_delete(struct tcm_memory *memory) {
    unmap(memory, sizeof(struct walk));
}
