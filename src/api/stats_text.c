/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/stats_text.h"
#include "api/export.h"
#include "api/library.h"
#include "base/check.h"
#include "base/fmt.h"
#include "base/raw_io.h"
#include "core/heap_census.h"

#include <errno.h>
#include <malloc.h>

static unsigned digits_of(uint64_t n) {
    unsigned digits = 1;
    for (; n >= 10; n /= 10)
        digits++;
    return digits;
}

/* N at the right end of WIDTH characters. */
static void put_number(struct tcm_fmt *f, uint64_t n, unsigned width) {
    for (unsigned used = digits_of(n); used < width; used++)
        tcm_fmt_char(f, ' ');
    tcm_fmt_u64(f, n);
}

/* BYTES in MiB, with one digit of the fraction, in WIDTH characters. */
static void put_mib(struct tcm_fmt *f, uint64_t bytes, unsigned width) {
    uint64_t tenths = bytes / 1024 * 10 / 1024;
    TCM_ASSERT(width > 2);
    put_number(f, tenths / 10, width - 2);
    tcm_fmt_char(f, '.');
    tcm_fmt_u64(f, tenths % 10);
    tcm_fmt_str(f, " MiB");
}

static void bytes_line(struct tcm_fmt *f, const char *sign, uint64_t bytes,
                       const char *what) {
    tcm_fmt_str(f, "MALLOC: ");
    tcm_fmt_str(f, sign);
    tcm_fmt_char(f, ' ');
    put_number(f, bytes, 12);
    tcm_fmt_str(f, " (");
    put_mib(f, bytes, 7);
    tcm_fmt_str(f, ") ");
    tcm_fmt_str(f, what);
    tcm_fmt_char(f, '\n');
}

static void count_line(struct tcm_fmt *f, uint64_t n, const char *what) {
    tcm_fmt_str(f, "MALLOC:   ");
    put_number(f, n, 12);
    tcm_fmt_str(f, "              ");
    tcm_fmt_str(f, what);
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

void tcm_stats_text(char *buf, size_t cap) {
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
    if (ready && cap >= TCM_STATS_TEXT_LONG)
        put_classes(&f, &h);
}

TCM_PUBLIC void TCM_EXPORT(malloc_stats)(void) {
    char text[TCM_STATS_TEXT_SHORT];
    int saved = errno;
    tcm_stats_text(text, sizeof(text));
    (void)tcm_io_write_all(2, text, __builtin_strlen(text));
    errno = saved;
}

TCM_ALIAS(tc_malloc_stats, malloc_stats);
