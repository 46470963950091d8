/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public calls beyond the malloc family. The contracts are in the headers:
 * gperftools/malloc_extension_c.h, gperftools/nallocx.h,
 * gperftools/thread_cache_switch.h and gperftools/malloc_trace.h.
 *
 * Calls that change what the allocator holds are recorded, before they take
 * effect.
 */
#include "gperftools/malloc_extension_c.h"
#include "api/export.h"
#include "api/library.h"
#include "api/trace_hooks.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/fmt.h"
#include "base/linux/os_file.h"
#include "core/cache_registry.h"
#include "core/heap.h"
#include "core/heap_census.h"
#include "core/heap_memory.h"
#include "gperftools/malloc_trace.h"
#include "gperftools/nallocx.h"
#include "gperftools/tcmalloc.h"
#include "gperftools/thread_cache_switch.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <string.h>

#define N(name) TCM_EXPORT(MallocExtension_##name)

int N(VerifyAllMemory)(void);
int N(VerifyNewMemory)(const void *p);
int N(VerifyArrayNewMemory)(const void *p);
int N(VerifyMallocMemory)(const void *p);
int N(MallocMemoryStats)(int *blocks, size_t *total,
                         int histogram[kMallocExtensionHistogramSize]);
void N(GetStats)(char *buffer, int buffer_length);
int N(GetMemoryTable)(char *buffer, int buffer_length);
void N(MarkThreadIdle)(void);
void N(MarkThreadBusy)(void);
void N(MarkThreadTemporarilyIdle)(void);
void N(ReleaseToSystem)(size_t num_bytes);
void N(ReleaseFreeMemory)(void);
size_t N(GetAllocatedSize)(const void *p);
size_t N(GetThreadCacheSize)(void);
MallocExtension_Ownership N(GetOwnership)(const void *p);
const char *TCM_EXPORT(tc_version)(int *major, int *minor, const char **patch);

/* ------------------------------------------------------------------------ */
/* Checks and sizes of blocks                                               */

TCM_PUBLIC int N(VerifyAllMemory)(void) {
    if (tcm_api_init())
        tcm_heap_verify_running(tcm_self.own);
    return 1;
}

TCM_PUBLIC int N(VerifyMallocMemory)(const void *p) {
    return p == NULL || tcm_census_is_block(p);
}

TCM_ALIAS(MallocExtension_VerifyNewMemory, MallocExtension_VerifyMallocMemory);
TCM_ALIAS(MallocExtension_VerifyArrayNewMemory,
          MallocExtension_VerifyMallocMemory);

static int int_of(uint64_t n) {
    return n > INT_MAX ? INT_MAX : (int)n;
}

TCM_PUBLIC int
N(MallocMemoryStats)(int *blocks, size_t *total,
                     int histogram[kMallocExtensionHistogramSize]) {
    struct tcm_census census = {0};
    TCM_STATIC_ASSERT(TCM_ARRAY_SIZE(census.histogram) ==
                          kMallocExtensionHistogramSize,
                      "the caller's array is as long");
    if (tcm_api_init())
        tcm_census_blocks(&census);
    *blocks = int_of(census.blocks);
    *total = census.bytes;
    for (unsigned i = 0; i < kMallocExtensionHistogramSize; i++)
        histogram[i] = int_of(census.histogram[i]);
    return 1;
}

TCM_PUBLIC size_t N(GetAllocatedSize)(const void *p) {
    return TCM_EXPORT(malloc_usable_size)((void *)p);
}

TCM_PUBLIC size_t N(GetThreadCacheSize)(void) {
    struct tcm_thread_cache *cache = tcm_self.own;
    return cache == TCM_NO_CACHE ? 0 : tcm_census_cache_bytes(cache);
}

TCM_PUBLIC MallocExtension_Ownership N(GetOwnership)(const void *p) {
    return tcm_block_info(p).kind == TCM_BLOCK_FOREIGN
               ? MallocExtension_kNotOwned
               : MallocExtension_kOwned;
}

TCM_PUBLIC const char *TCM_EXPORT(tc_version)(int *major, int *minor,
                                              const char **patch) {
    if (major != NULL)
        *major = TC_VERSION_MAJOR;
    if (minor != NULL)
        *minor = TC_VERSION_MINOR;
    if (patch != NULL)
        *patch = TC_VERSION_PATCH;
    return TCM_ALLOCATOR_NAME " " TCM_VERSION;
}

/* ------------------------------------------------------------------------ */
/* Figures as text for people, in the layout that programs which read        */
/* gperftools' text expect                                                   */

/* Buffers of this length or more get the size classes too. */
#define STATS_TEXT_LONG 10000u
/* Enough for the text without size classes. */
#define STATS_TEXT_SHORT 4096u

static unsigned digits_of(uint64_t n) {
    unsigned digits = 1;
    for (; n >= 10; n /= 10)
        digits++;
    return digits;
}

/* Writes N at the right end of WIDTH characters. */
static void put_number(struct tcm_fmt *f, uint64_t n, unsigned width) {
    for (unsigned used = digits_of(n); used < width; used++)
        tcm_fmt_char(f, ' ');
    tcm_fmt_u64(f, n);
}

/* Writes BYTES in MiB, with one digit of the fraction, in WIDTH characters. */
static void put_mib(struct tcm_fmt *f, uint64_t bytes, unsigned width) {
    uint64_t tenths = bytes / 1024 * 10 / 1024;
    TCM_ASSERT(width > 2);
    put_number(f, tenths / 10, width - 2);
    tcm_fmt_char(f, '.');
    tcm_fmt_u64(f, tenths % 10);
    tcm_fmt_str(f, " MiB");
}

static void bytes_line(struct tcm_fmt *f, const char *sign, uint64_t bytes,
                       const char *label) {
    tcm_fmt_str(f, "MALLOC: ");
    tcm_fmt_str(f, sign);
    tcm_fmt_char(f, ' ');
    put_number(f, bytes, 12);
    tcm_fmt_str(f, " (");
    put_mib(f, bytes, 7);
    tcm_fmt_str(f, ") ");
    tcm_fmt_str(f, label);
    tcm_fmt_char(f, '\n');
}

static void count_line(struct tcm_fmt *f, uint64_t n, const char *label) {
    tcm_fmt_str(f, "MALLOC:   ");
    put_number(f, n, 12);
    tcm_fmt_str(f, "              ");
    tcm_fmt_str(f, label);
    tcm_fmt_char(f, '\n');
}

static const char rule[] = "------------------------------------------------\n";
static const char sum[] = "MALLOC:   ------------\n";

static void put_figures(struct tcm_fmt *f, const struct tcm_heap_figures *h,
                        const struct tcm_stats *stats) {
    uint64_t used = h->heap_bytes + h->metadata_bytes;
    tcm_fmt_str(f, rule);
    bytes_line(f, " ", h->in_use_bytes, "Bytes in use by application");
    bytes_line(f, "+", h->free_pages_bytes, "Bytes in page heap freelist");
    bytes_line(f, "+", h->central_bytes, "Bytes in central cache freelist");
    bytes_line(f, "+", h->transfer_bytes, "Bytes in transfer cache freelist");
    bytes_line(f, "+", h->cached_bytes, "Bytes in thread cache freelists");
    bytes_line(f, "+", h->slack_bytes, "Bytes at the ends of spans");
    bytes_line(f, "+", h->metadata_bytes, "Bytes in malloc metadata");
    tcm_fmt_str(f, sum);
    bytes_line(f, "=", used, "Actual memory used (physical + swap)");
    bytes_line(f, "+", h->released_bytes,
               "Bytes released to OS (aka unmapped)");
    tcm_fmt_str(f, sum);
    bytes_line(f, "=", used + h->released_bytes, "Virtual address space used");
    tcm_fmt_str(f, "MALLOC:\n");
    count_line(f, stats->spans_made - stats->spans_freed, "Spans in use");
    count_line(f, h->caches, "Thread heaps in use");
    count_line(f, TCM_PAGE_SIZE, "Tcmalloc page size");
    tcm_fmt_str(f, "MALLOC:\n");
#define X(name) count_line(f, stats->name, "tcmalloc." #name);
    TCM_STATS(X)
#undef X
    tcm_fmt_str(f, rule);
}

static void put_class(struct tcm_fmt *f, unsigned size_class,
                      const struct tcm_class_figures *c, uint64_t *cumulated) {
    uint64_t free = c->central + c->transfer;
    *cumulated += free * c->size;
    tcm_fmt_str(f, "class ");
    put_number(f, size_class, 3);
    tcm_fmt_str(f, " [ ");
    put_number(f, c->size, 8);
    tcm_fmt_str(f, " bytes ] : ");
    put_number(f, free, 8);
    tcm_fmt_str(f, " objs; ");
    put_mib(f, free * c->size, 5);
    tcm_fmt_str(f, "; ");
    put_mib(f, *cumulated, 5);
    tcm_fmt_str(f, " cum; ");
    put_number(f, c->cached, 8);
    tcm_fmt_str(f, " cached; ");
    put_number(f, c->in_use, 8);
    tcm_fmt_str(f, " in use; ");
    put_number(f, c->spans, 6);
    tcm_fmt_str(f, " spans\n");
}

static void put_runs(struct tcm_fmt *f, const char *kind,
                     const struct tcm_run_figures *runs, uint64_t bytes) {
    tcm_fmt_str(f, "PageHeap: ");
    put_number(f, runs->runs, 6);
    tcm_fmt_str(f, " runs ~ ");
    put_mib(f, bytes, 6);
    tcm_fmt_char(f, ' ');
    tcm_fmt_str(f, kind);
    tcm_fmt_str(f, "; longest ");
    put_mib(f, runs->longest_pages << TCM_PAGE_SHIFT, 6);
    tcm_fmt_char(f, '\n');
}

static void put_classes(struct tcm_fmt *f, const struct tcm_heap_figures *h) {
    uint64_t cached[TCM_MAX_CLASSES], cumulated = 0;
    struct tcm_run_figures free, released;
    tcm_census_cached(cached);
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++) {
        struct tcm_class_figures c;
        tcm_census_class(size_class, cached[size_class], &c);
        if (c.slots != 0)
            put_class(f, size_class, &c, &cumulated);
    }
    tcm_fmt_str(f, rule);
    tcm_census_runs(&free, &released);
    put_runs(f, "free", &free, h->free_pages_bytes);
    put_runs(f, "unmapped", &released, h->released_bytes);
    tcm_fmt_str(f, rule);
}

/* Writes the text into BUF of CAP bytes, at least 1; terminated, cut where it
   does not fit. */
static void stats_text(char *buf, size_t cap) {
    struct tcm_fmt f;
    struct tcm_heap_figures h = {0};
    struct tcm_stats stats = {0};
    bool ready = tcm_api_init();
    TCM_ASSERT(cap != 0);
    if (ready) {
        tcm_heap_figures(&h);
        tcm_stats_read(&stats);
    }
    tcm_fmt_init(&f, buf, cap);
    put_figures(&f, &h, &stats);
    if (ready && cap >= STATS_TEXT_LONG)
        put_classes(&f, &h);
}

TCM_PUBLIC void N(GetStats)(char *buffer, int buffer_length) {
    if (buffer_length > 0)
        stats_text(buffer, (size_t)buffer_length);
}

TCM_PUBLIC void TCM_EXPORT(malloc_stats)(void) {
    char text[STATS_TEXT_SHORT];
    int saved = errno;
    stats_text(text, sizeof(text));
    (void)tcm_io_write_all(2, text, __builtin_strlen(text));
    errno = saved;
}

TCM_ALIAS(tc_malloc_stats, malloc_stats);

static void put_memory(struct tcm_fmt *f, const struct tcm_memory *m) {
    tcm_fmt_str(f, rule);
    bytes_line(f, " ", m->live_pages * m->page_bytes,
               "Live pages: wholly in blocks");
    bytes_line(f, "+", m->partly_pages * m->page_bytes - m->free_bytes,
               "Partly live pages: in blocks");
    bytes_line(f, "+", m->free_bytes, "Partly live pages: free");
    bytes_line(f, "+", m->empty_bytes, "Empty pages");
    bytes_line(f, "+", m->reserve_bytes, "Never used pages: reserve");
    bytes_line(f, "+", m->never_bytes - m->reserve_bytes,
               "Never used pages: metadata");
    tcm_fmt_str(f, sum);
    bytes_line(f, "=", m->resident_bytes, "Resident memory of the allocator");
    tcm_fmt_str(f, "MALLOC:\n");
    bytes_line(f, " ", m->absent_bytes, "Not resident: of blocks");
    bytes_line(f, " ", m->absent_free_bytes, "Not resident: free");
    bytes_line(f, " ", m->returned_bytes,
               "Not resident: given back, or not used yet");
    if (m->huge_known)
        bytes_line(f, " ", m->huge_bytes, "Resident in huge pages");
    tcm_fmt_str(f, rule);
}

static void put_memory_class(struct tcm_fmt *f,
                             const struct tcm_memory_class *c) {
    tcm_fmt_str(f, c->size == 0 ? "large    " : "class of ");
    put_number(f, c->size, 8);
    tcm_fmt_str(f, " bytes: ");
    put_mib(f, c->usable_bytes, 8);
    tcm_fmt_str(f, " in blocks; ");
    put_mib(f, c->free_bytes, 8);
    tcm_fmt_str(f, " free; ");
    put_number(f, c->blocks, 10);
    tcm_fmt_str(f, " blocks; ");
    put_number(f, c->thread_cache, 8);
    tcm_fmt_str(f, " in thread caches; ");
    put_number(f, c->transfer_cache + c->central_list, 8);
    tcm_fmt_str(f, " in central caches; ");
    put_number(f, c->spans, 8);
    tcm_fmt_str(f, " spans\n");
}

TCM_PUBLIC int N(GetMemoryTable)(char *buffer, int buffer_length) {
    struct tcm_fmt f;
    if (buffer_length <= 0)
        return 0;
    tcm_fmt_init(&f, buffer, (size_t)buffer_length);
    struct tcm_memory *m = tcm_api_init() ? tcm_memory_new() : NULL;
    if (m == NULL)
        return 0;
    put_memory(&f, m);
    for (unsigned size_class = 0; size_class < tcm_class_count; size_class++)
        if (m->by_class[size_class].spans != 0)
            put_memory_class(&f, &m->by_class[size_class]);
    tcm_memory_delete(m);
    return 1;
}

/* ------------------------------------------------------------------------ */
/* Numeric properties by name; doc/extension.md says what they mean and how  */
/* they add up                                                               */

#define MIB_SHIFT 20

int TCM_EXPORT(MallocExtension_GetNumericProperty)(const char *property,
                                                   size_t *value);
int TCM_EXPORT(MallocExtension_SetNumericProperty)(const char *property,
                                                   size_t value);

/* Source of a property's value; only that source is read. */
enum source { FIGURES, COUNTERS, PAGES, SETTINGS, CONSTANT };

union reading {
    struct tcm_heap_figures f;
    struct tcm_stats c;
    struct tcm_heap_settings s;
};

static uint64_t page_count(const uint64_t *counter) {
    return tcm_load_relaxed(counter);
}

/* X("name", source, expression of the reading r) */
#define PROPERTIES(X)                                                          \
    X("generic.current_allocated_bytes", FIGURES, r.f.in_use_bytes)            \
    X("generic.heap_size", FIGURES, r.f.heap_bytes + r.f.released_bytes)       \
    X("generic.total_physical_bytes", FIGURES,                                 \
      r.f.heap_bytes + r.f.metadata_bytes)                                     \
    X("tcmalloc.central_cache_free_bytes", FIGURES, r.f.central_bytes)         \
    X("tcmalloc.transfer_cache_free_bytes", FIGURES, r.f.transfer_bytes)       \
    X("tcmalloc.thread_cache_free_bytes", FIGURES, r.f.cached_bytes)           \
    X("tcmalloc.current_total_thread_cache_bytes", FIGURES, r.f.cached_bytes)  \
    X("tcmalloc.span_overhead_bytes", FIGURES, r.f.slack_bytes)                \
    X("tcmalloc.metadata_bytes", FIGURES, r.f.metadata_bytes)                  \
    X("tcmalloc.large_blocks", FIGURES, r.f.large_blocks)                      \
    X("tcmalloc.large_bytes", FIGURES, r.f.large_bytes)                        \
    X("tcmalloc.slack_bytes", FIGURES,                                         \
      r.f.free_pages_bytes + r.f.released_bytes)                               \
    X("tcmalloc.pageheap_free_bytes", FIGURES, r.f.free_pages_bytes)           \
    X("tcmalloc.pageheap_unmapped_bytes", FIGURES, r.f.released_bytes)         \
    X("tcmalloc.pageheap_committed_bytes", FIGURES, r.f.heap_bytes)            \
    X("tcmalloc.pageheap_total_reserve_bytes", FIGURES,                        \
      r.f.heap_bytes + r.f.released_bytes)                                     \
    X("tcmalloc.pageheap_total_commit_bytes", COUNTERS,                        \
      r.c.system_bytes_taken)                                                  \
    X("tcmalloc.pageheap_total_decommit_bytes", COUNTERS,                      \
      r.c.system_bytes_returned)                                               \
    X("tcmalloc.pageheap_reserve_count", PAGES,                                \
      page_count(&tcm_page_stats.reserve_count))                               \
    X("tcmalloc.pageheap_commit_count", PAGES,                                 \
      page_count(&tcm_page_stats.commit_count))                                \
    X("tcmalloc.pageheap_decommit_count", PAGES,                               \
      page_count(&tcm_page_stats.decommit_count))                              \
    X("tcmalloc.pageheap_scavenge_count", PAGES,                               \
      page_count(&tcm_page_stats.scavenge_count))                              \
    X("tcmalloc.max_total_thread_cache_bytes", SETTINGS,                       \
      r.s.cache_budget_bytes)                                                  \
    X("tcmalloc.aggressive_memory_decommit", SETTINGS, r.s.release_at_once)    \
    X("tcmalloc.heap_limit_mb", SETTINGS, r.s.limit_bytes >> MIB_SHIFT)        \
    X("tcmalloc.min_per_thread_cache_size", CONSTANT, TCM_MIN_CACHE_BUDGET)    \
    X("tcmalloc.impl.thread_cache_count", FIGURES, r.f.caches)

static void read_source(enum source source, union reading *r) {
    if (source == FIGURES)
        tcm_heap_figures(&r->f);
    else if (source == COUNTERS)
        tcm_stats_read(&r->c);
    else if (source == SETTINGS)
        tcm_heap_settings(&r->s);
}

/* Before the heap is set up, all figures are 0. */
TCM_PUBLIC int
TCM_EXPORT(MallocExtension_GetNumericProperty)(const char *property,
                                               size_t *value) {
    union reading r;
    if (!tcm_api_init())
        return 0;
#define X(name, source, expression)                                            \
    if (strcmp(property, name) == 0) {                                         \
        read_source(source, &r);                                               \
        *value = expression;                                                   \
        return 1;                                                              \
    }
    PROPERTIES(X)
#undef X
#define X(name)                                                                \
    if (strcmp(property, "tcmalloc." #name) == 0) {                            \
        read_source(COUNTERS, &r);                                             \
        *value = r.c.name;                                                     \
        return 1;                                                              \
    }
    TCM_STATS(X)
#undef X
    return 0;
}

TCM_PUBLIC int
TCM_EXPORT(MallocExtension_SetNumericProperty)(const char *property,
                                               size_t value) {
    if (!tcm_api_init())
        return 0;
    if (strcmp(property, "tcmalloc.max_total_thread_cache_bytes") == 0) {
        if (value < TCM_MIN_CACHE_BUDGET)
            value = TCM_MIN_CACHE_BUDGET;
        tcm_heap_set(TCM_SET_CACHE_BUDGET, value);
        return 1;
    }
    if (strcmp(property, "tcmalloc.aggressive_memory_decommit") == 0) {
        tcm_heap_set(TCM_SET_RELEASE_AT_ONCE, value);
        return 1;
    }
    if (strcmp(property, "tcmalloc.heap_limit_mb") == 0) {
        if (value > SIZE_MAX >> MIB_SHIFT)
            value = SIZE_MAX >> MIB_SHIFT;
        tcm_heap_set(TCM_SET_LIMIT, (uint64_t)value << MIB_SHIFT);
        return 1;
    }
    return 0;
}

/* ------------------------------------------------------------------------ */
/* Requests                                                                 */

TCM_PUBLIC void N(ReleaseToSystem)(size_t num_bytes) {
    if (!tcm_api_init_recorded())
        return;
    tcm_trace_extension(MTF_EXTENSION_RELEASE_TO_SYSTEM, num_bytes);
    (void)tcm_heap_release(num_bytes);
}

TCM_PUBLIC void N(ReleaseFreeMemory)(void) {
    if (!tcm_api_init_recorded())
        return;
    tcm_trace_extension(MTF_EXTENSION_RELEASE_FREE_MEMORY, 0);
    (void)tcm_heap_release(SIZE_MAX);
}

TCM_PUBLIC void N(MarkThreadIdle)(void) {
    struct tcm_thread_state *self = &tcm_self;
    if (self->life != TCM_THREAD_LIVE)
        return;
    tcm_trace_extension(MTF_EXTENSION_MARK_IDLE, 0);
    struct tcm_thread_cache *cache = self->own;
    if (cache == TCM_NO_CACHE)
        return;
    tcm_thread_drop_own(self);
    tcm_cache_destroy(cache);
}

TCM_PUBLIC void N(MarkThreadTemporarilyIdle)(void) {
    struct tcm_thread_state *self = &tcm_self;
    if (self->life != TCM_THREAD_LIVE)
        return;
    tcm_trace_extension(MTF_EXTENSION_MARK_TEMPORARILY_IDLE, 0);
    if (self->own != TCM_NO_CACHE)
        tcm_cache_flush(self->own);
}

TCM_PUBLIC void N(MarkThreadBusy)(void) {
    if (!tcm_api_init_recorded())
        return;
    tcm_trace_extension(MTF_EXTENSION_MARK_BUSY, 0);
    tcm_thread_need_cache(&tcm_self);
}

/* ------------------------------------------------------------------------ */
/* Sizes that blocks would have                                             */

/* Bytes of a block for SIZE bytes with an alignment of 1 << LG; 0 if there can
   be no such block. */
static size_t block_size(size_t size, unsigned lg) {
    if (size > TCM_MAX_REQUEST || lg >= TCM_ADDRESS_BITS || !tcm_api_init())
        return 0;
    size_t align = (size_t)1 << lg;
    unsigned size_class = tcm_size_class_request(size, align);
    TCM_ASSERT(size_class == 0 || tcm_class[size_class].size >= size);
    if (size_class != 0)
        return tcm_class[size_class].size;
    return size == 0 ? TCM_PAGE_SIZE : tcm_align_up(size, TCM_PAGE_SIZE);
}

size_t TCM_EXPORT(nallocx)(size_t size, int flags);

/* The low bits of the flags are the log2 of the alignment, as in
   MALLOCX_LG_ALIGN. */
TCM_PUBLIC size_t TCM_EXPORT(nallocx)(size_t size, int flags) {
    return block_size(size, (unsigned)flags & 63);
}

TCM_ALIAS(tc_nallocx, nallocx);

size_t TCM_EXPORT(MallocExtension_GetEstimatedAllocatedSize)(size_t size);

TCM_PUBLIC size_t
TCM_EXPORT(MallocExtension_GetEstimatedAllocatedSize)(size_t size) {
    size_t real = block_size(size, 0);
    return real != 0 ? real : size;
}

/* ------------------------------------------------------------------------ */
/* Detaching and attaching thread caches                                     */

bool TCM_EXPORT(release_malloc_thread_cache)(struct ThreadCacheState **place);
bool TCM_EXPORT(set_malloc_thread_cache)(struct ThreadCacheState *state);

TCM_PUBLIC bool
TCM_EXPORT(release_malloc_thread_cache)(struct ThreadCacheState **place) {
    struct tcm_thread_state *self = &tcm_self;
    if (TCM_UNLIKELY(self->life == TCM_THREAD_ENDED))
        return false;
    TCM_ASSERT(tcm_thread_is_valid(self));
    /* A thread that never allocated has no cache either. */
    struct tcm_thread_cache *cache = self->own;
    if (cache == TCM_NO_CACHE) {
        *place = NULL;
        return true;
    }
    tcm_trace_cache_moves(self, true);
    tcm_thread_drop_own(self);
    tcm_cache_detach(cache);
    *place = (struct ThreadCacheState *)cache;
    return true;
}

TCM_PUBLIC bool
TCM_EXPORT(set_malloc_thread_cache)(struct ThreadCacheState *state) {
    struct tcm_thread_state *self = &tcm_self;
    if (TCM_UNLIKELY(self->life != TCM_THREAD_LIVE)) {
        if (self->life == TCM_THREAD_ENDED)
            return false;
        tcm_thread_need_cache(self);
        if (self->life != TCM_THREAD_LIVE)
            return false;
    }
    struct tcm_thread_cache *cache = self->own;
    struct tcm_thread_cache *next = (struct tcm_thread_cache *)state;
    if (TCM_UNLIKELY(cache == next))
        return true;
    if (TCM_UNLIKELY(cache != TCM_NO_CACHE)) {
        tcm_trace_cache_moves(self, true);
        tcm_thread_drop_own(self);
        tcm_cache_destroy(cache);
    }
    if (next != NULL)
        tcm_cache_attach(next);
    tcm_thread_set_own(self, next != NULL ? next : TCM_NO_CACHE);
    TCM_ASSERT(tcm_thread_is_valid(self));
    if (next != NULL)
        tcm_trace_cache_moves(self, false);
    return true;
}

/* ------------------------------------------------------------------------ */
/* Control of recording                                                      */

bool TCM_EXPORT(malloc_trace_start)(const char *path);
bool TCM_EXPORT(malloc_trace_stop)(void);
bool TCM_EXPORT(malloc_trace_flush)(void);
bool TCM_EXPORT(malloc_trace_is_on)(void);
bool TCM_EXPORT(malloc_trace_file)(char *path, size_t size);
void TCM_EXPORT(malloc_trace_mark)(const char *text);

TCM_PUBLIC bool TCM_EXPORT(malloc_trace_start)(const char *path) {
    /* A constructor that runs before ours may call this. */
    if (!tcm_api_init())
        return false;
    tcm_trace_init(false);
    return tcm_trace_start(path);
}

TCM_PUBLIC bool TCM_EXPORT(malloc_trace_stop)(void) {
    return tcm_trace_stop();
}

TCM_PUBLIC bool TCM_EXPORT(malloc_trace_flush)(void) {
    return tcm_trace_flush();
}

TCM_PUBLIC bool TCM_EXPORT(malloc_trace_is_on)(void) {
    return tcm_trace_is_on();
}

TCM_PUBLIC bool TCM_EXPORT(malloc_trace_file)(char *path, size_t size) {
    return tcm_trace_file(path, size);
}

TCM_PUBLIC void TCM_EXPORT(malloc_trace_mark)(const char *text) {
    if (text != NULL && tcm_trace_is_on() && tcm_api_init_recorded())
        tcm_trace_mark(text, strlen(text));
}
