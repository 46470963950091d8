/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that ask about the heap or tune it: malloc_usable_size, mallinfo,
 * mallinfo2, mallopt, malloc_trim, malloc_stats, malloc_info.
 */
#include "api/malloc_path.h"
#include "base/check.h"
#include "base/fmt.h"
#include "base/raw_io.h"

#include <errno.h>
#include <limits.h>
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

TCM_PUBLIC struct mallinfo2 TCM_EXPORT(mallinfo2)(void) {
    struct tcm_heap_figures f = {0};
    if (tcm_api_init())
        tcm_heap_figures(&f);
    uint64_t cached = f.central_bytes + f.transfer_bytes + f.cached_bytes;
    struct mallinfo2 info = {
        .arena = f.heap_bytes - f.large_bytes,
        .ordblks = 1,
        .smblks = 0,
        .hblks = f.large_blocks,
        .hblkhd = f.large_bytes,
        .fsmblks = cached,
        .uordblks = f.in_use_bytes - f.large_bytes,
        .fordblks = f.free_pages_bytes + cached,
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

/* No alias: the C library's headers call the other one deprecated. */
TCM_PUBLIC struct mallinfo TCM_EXPORT(tc_mallinfo)(void) {
    return narrow(TCM_EXPORT(mallinfo2)());
}

/* glibc's parameters have no counterpart here; 1 is "done", which programs that
   check the result expect. */
TCM_PUBLIC int TCM_EXPORT(mallopt)(int parameter, int value) {
    (void)parameter, (void)value;
    return 1;
}

TCM_PUBLIC int TCM_EXPORT(malloc_trim)(size_t pad) {
    if (!tcm_api_init())
        return 0;
    tcm_trace_extension(MTF_EXTENSION_TRIM, pad);
    return tcm_heap_release(SIZE_MAX) != 0;
}

static void stats_line(struct tcm_fmt *f, const char *name, uint64_t value) {
    tcm_fmt_str(f, name);
    tcm_fmt_str(f, " = ");
    tcm_fmt_u64(f, value);
    tcm_fmt_str(f, "\n");
}

TCM_PUBLIC void TCM_EXPORT(malloc_stats)(void) {
    char text[1024];
    struct tcm_fmt f;
    struct tcm_heap_figures h = {0};
    if (tcm_api_init())
        tcm_heap_figures(&h);
    tcm_fmt_init(&f, text, sizeof(text));
    stats_line(&f, "heap bytes", h.heap_bytes);
    stats_line(&f, "in use bytes", h.in_use_bytes);
    stats_line(&f, "free page bytes", h.free_pages_bytes);
    stats_line(&f, "released bytes", h.released_bytes);
    stats_line(&f, "central list bytes", h.central_bytes);
    stats_line(&f, "transfer cache bytes", h.transfer_bytes);
    stats_line(&f, "thread cache bytes", h.cached_bytes);
    stats_line(&f, "metadata bytes", h.metadata_bytes);
    stats_line(&f, "thread caches", h.caches);
    tcm_io_write_all(2, f.buf, f.len);
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

/* glibc's elements, then two of our own: the library with its version, and the
   allocator's counters. */
TCM_PUBLIC int TCM_EXPORT(malloc_info)(int options, FILE *stream) {
    char text[2048];
    struct tcm_fmt f;
    struct tcm_heap_figures h = {0};
    if (options != 0)
        return EINVAL;
    if (tcm_api_init())
        tcm_heap_figures(&h);
    tcm_fmt_init(&f, text, sizeof(text));
    tcm_fmt_str(&f, "<malloc version=\"1\">\n<heap nr=\"0\">\n");
    xml_element(&f, "<total type=\"fast\" size=\"", h.cached_bytes, "\"/>\n");
    xml_element(&f, "<total type=\"rest\" size=\"",
                h.free_pages_bytes + h.central_bytes + h.transfer_bytes,
                "\"/>\n");
    xml_element(&f, "<system type=\"current\" size=\"", h.heap_bytes, "\"/>\n");
    tcm_fmt_str(&f, "</heap>\n");
    xml_element(&f, "<total type=\"mmap\" count=\"", h.large_blocks, "\"");
    xml_element(&f, " size=\"", h.large_bytes, "\"/>\n");
    xml_element(&f, "<system type=\"current\" size=\"", h.heap_bytes, "\"/>\n");
    xml_element(&f, "<aspace type=\"total\" size=\"",
                h.heap_bytes + h.released_bytes, "\"/>\n");
    tcm_fmt_str(&f,
                "<library name=\"libtcmalloc_minimal\" version=\"" TCM_VERSION
                "\"/>\n");
    xml_counters(&f);
    tcm_fmt_str(&f, "</malloc>\n");
    return fputs(f.buf, stream) == EOF ? -1 : 0;
}

TCM_ALIAS(tc_malloc_size, malloc_usable_size);
TCM_ALIAS(tc_mallopt, mallopt);
TCM_ALIAS(tc_malloc_stats, malloc_stats);
