/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * glibc's calls that ask about the heap or tune it: malloc_usable_size,
 * mallinfo, mallinfo2, mallopt, malloc_trim, malloc_info; malloc_stats is in
 * malloc_extension.c.
 */
#include "api/export.h"
#include "api/library.h"
#include "api/trace_hooks.h"
#include "base/check.h"
#include "base/fmt.h"
#include "core/heap_census.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>

TCM_PUBLIC size_t TCM_EXPORT(malloc_usable_size)(void *ptr) {
    if (ptr == NULL)
        return 0;
    struct tcm_block_info info = tcm_block_info(ptr);
    if (info.kind == TCM_BLOCK_FOREIGN)
        tcm_die_pointer("attempt to get the size of invalid pointer", ptr);
    if (info.kind == TCM_BLOCK_INTERIOR)
        tcm_die_pointer("attempt to get the size of a pointer inside a block",
                        ptr);
    return info.size;
}

/* Free objects by the place they are in. */
struct free_objects {
    uint64_t cached; /* in thread caches */
    uint64_t shared; /* in transfer caches and central lists */
};

static struct free_objects count_free(void) {
    struct free_objects n = {0, 0};
    uint64_t cached[TCM_MAX_CLASSES];
    tcm_census_cached(cached);
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++) {
        struct tcm_class_figures c;
        tcm_census_class(size_class, cached[size_class], &c);
        n.cached += c.cached;
        n.shared += c.central + c.transfer;
    }
    return n;
}

static uint64_t difference_or_0(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

#if !TCM_HAVE_MALLINFO
struct mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd;
    int usmblks, fsmblks, uordblks, fordblks, keepcost;
};
#endif
#if !TCM_HAVE_MALLINFO2
struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd;
    size_t usmblks, fsmblks, uordblks, fordblks, keepcost;
};
#endif

/* arena = uordblks + fordblks. Large blocks are not in it: they count as
   mapped. Thread caches count as glibc's fast bins. */
TCM_PUBLIC struct mallinfo2 TCM_EXPORT(mallinfo2)(void) {
    struct tcm_heap_figures f = {0};
    struct free_objects n = {0, 0};
    if (tcm_api_init()) {
        tcm_heap_figures(&f);
        n = count_free();
    }
    uint64_t free = f.free_pages_bytes + f.central_bytes + f.transfer_bytes +
                    f.cached_bytes;
    uint64_t arena = difference_or_0(f.heap_bytes, f.large_bytes);
    struct mallinfo2 info = {
        .arena = arena,
        .ordblks = n.shared,
        .smblks = n.cached,
        .hblks = f.large_blocks,
        .hblkhd = f.large_bytes,
        .fsmblks = f.cached_bytes,
        .uordblks = difference_or_0(arena, free),
        .fordblks = free,
        .keepcost = f.free_pages_bytes,
    };
    return info;
}

/* The older form has ints, which wrap as glibc documents. */
static struct mallinfo narrow(struct mallinfo2 m) {
    struct mallinfo info = {
        .arena = (int)m.arena,
        .ordblks = (int)m.ordblks,
        .smblks = (int)m.smblks,
        .hblks = (int)m.hblks,
        .hblkhd = (int)m.hblkhd,
        .fsmblks = (int)m.fsmblks,
        .uordblks = (int)m.uordblks,
        .fordblks = (int)m.fordblks,
        .keepcost = (int)m.keepcost,
    };
    return info;
}

TCM_PUBLIC struct mallinfo TCM_EXPORT(mallinfo)(void) {
    return narrow(TCM_EXPORT(mallinfo2)());
}

struct mallinfo TCM_EXPORT(tc_mallinfo)(void);

/* Not an alias: the C library's headers call mallinfo deprecated. */
TCM_PUBLIC struct mallinfo TCM_EXPORT(tc_mallinfo)(void) {
    return narrow(TCM_EXPORT(mallinfo2)());
}

/* Parameters of glibc: programs that were built elsewhere may use them. */
#ifndef M_MXFAST
#define M_MXFAST 1
#endif
#ifndef M_TRIM_THRESHOLD
#define M_TRIM_THRESHOLD (-1)
#define M_TOP_PAD        (-2)
#define M_MMAP_THRESHOLD (-3)
#define M_MMAP_MAX       (-4)
#endif
#ifndef M_ARENA_TEST
#define M_ARENA_TEST (-7)
#define M_ARENA_MAX  (-8)
#endif

/* Hints about glibc's internals are accepted and ignored; parameters with an
   effect that a program can see are refused, and so are unknown ones. */
TCM_PUBLIC int TCM_EXPORT(mallopt)(int parameter, int value) {
    (void)value;
    switch (parameter) {
    case M_MXFAST:
    case M_TRIM_THRESHOLD:
    case M_TOP_PAD:
    case M_MMAP_THRESHOLD:
    case M_MMAP_MAX:
    case M_ARENA_TEST:
    case M_ARENA_MAX:
        return 1;
    default:
        return 0;
    }
}

/* Keeps PAD bytes of free pages. */
TCM_PUBLIC int TCM_EXPORT(malloc_trim)(size_t pad) {
    if (!tcm_api_init_recorded())
        return 0;
    tcm_trace_extension(MTF_EXTENSION_TRIM, pad);
    size_t bytes = SIZE_MAX;
    if (pad != 0) {
        struct tcm_heap_figures f;
        tcm_heap_figures(&f);
        bytes = difference_or_0(f.free_pages_bytes, pad);
    }
    return tcm_heap_release(bytes) != 0;
}

static void xml_element(struct tcm_fmt *f, const char *head, uint64_t value,
                        const char *tail) {
    tcm_fmt_str(f, head);
    tcm_fmt_u64(f, value);
    tcm_fmt_str(f, tail);
}

int TCM_EXPORT(malloc_info)(int options, FILE *stream);

static void xml_counters(struct tcm_fmt *f) {
    struct tcm_stats stats;
    tcm_stats_read(&stats);
#define X(name)                                                                \
    xml_element(f, "<counter name=\"tcmalloc." #name "\" value=\"",            \
                stats.name, "\"/>\n");
    TCM_STATS(X)
#undef X
}

static void xml_total(struct tcm_fmt *f, const char *type, uint64_t count,
                      uint64_t size) {
    tcm_fmt_str(f, "<total type=\"");
    tcm_fmt_str(f, type);
    xml_element(f, "\" count=\"", count, "\"");
    xml_element(f, " size=\"", size, "\"/>\n");
}

/* Elements of glibc, then two of ours: the library with its version, and the
   allocator's counters. */
TCM_PUBLIC int TCM_EXPORT(malloc_info)(int options, FILE *stream) {
    char text[4096];
    struct tcm_fmt f;
    struct tcm_heap_figures h = {0};
    struct free_objects n = {0, 0};
    if (options != 0)
        return EINVAL;
    if (tcm_api_init()) {
        tcm_heap_figures(&h);
        n = count_free();
    }
    uint64_t shared = h.free_pages_bytes + h.central_bytes + h.transfer_bytes;
    uint64_t arena = difference_or_0(h.heap_bytes, h.large_bytes);
    tcm_fmt_init(&f, text, sizeof(text));
    tcm_fmt_str(&f, "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n"
                    "</sizes>\n");
    xml_total(&f, "fast", n.cached, h.cached_bytes);
    xml_total(&f, "rest", n.shared, shared);
    xml_element(&f, "<system type=\"current\" size=\"", arena, "\"/>\n");
    xml_element(&f, "<aspace type=\"total\" size=\"", arena + h.released_bytes,
                "\"/>\n");
    tcm_fmt_str(&f, "</heap>\n");
    xml_total(&f, "fast", n.cached, h.cached_bytes);
    xml_total(&f, "rest", n.shared, shared);
    xml_total(&f, "mmap", h.large_blocks, h.large_bytes);
    xml_element(&f, "<system type=\"current\" size=\"", arena, "\"/>\n");
    xml_element(&f, "<aspace type=\"total\" size=\"",
                h.heap_bytes + h.released_bytes, "\"/>\n");
    tcm_fmt_str(&f,
                "<library name=\"libtcmalloc_minimal\" version=\"" TCM_VERSION
                "\"/>\n");
    xml_counters(&f);
    tcm_fmt_str(&f, "</malloc>\n");
    return f.cut || fputs(f.buf, stream) == EOF ? -1 : 0;
}

TCM_ALIAS(tc_malloc_size, malloc_usable_size);
TCM_ALIAS(malloc_size, malloc_usable_size);
TCM_ALIAS(tc_mallopt, mallopt);
TCM_ALIAS(__libc_mallopt, mallopt);
TCM_ALIAS(__libc_mallinfo, tc_mallinfo);
