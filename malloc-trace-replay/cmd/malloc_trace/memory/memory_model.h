/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contents of the resident pages, under one or several allocators: the figures
 * of replays, grouped and named.
 *
 * Parts of resident memory add up: requested, rounding and free bytes on pages
 * with live blocks; empty pages, where a block lay once; pages that never had
 * one. A block holds an equal part of the free bytes of each of its pages.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_MEMORY_MEMORY_MODEL_H
#define TOOL_CMD_MALLOC_TRACE_MEMORY_MEMORY_MODEL_H

#include "cmd/malloc_trace/memory/memory_trace.h"
#include "cmd/malloc_trace/report/report_frames.h"
#include "common/json.h"
#include "model/memory_curve.h"
#include "symbols/symbol_names.h"

#include <string.h>

/* --- Rows ----------------------------------------------------------------- */

enum memory_by {
    MEMORY_BY_SITE,
    MEMORY_BY_SIZE,
    MEMORY_BY_AGE,
    MEMORY_BY_THREAD,
    MEMORY_BYS
};
extern const char *const memory_by_name[MEMORY_BYS + 1];

/* Blocks of a site, size, age or thread, and what they hold. */
struct memory_row {
    char *label; /* "main (a.c:12)", "32 B", "10 ms to 100 ms", "3 worker" */
    char *stack; /* of a site: "innermost < ... < outermost", or NULL */
    /* Size, least age in ns, or thread; MEMORY_KEY_MIXED: several. */
    uint64_t key;
    uint64_t blocks, requested_bytes, usable_bytes;
    double held_bytes, held_huge_bytes;
    uint64_t pinning_blocks; /* blocks that hold free bytes */
};
#define MEMORY_KEY_MIXED ((uint64_t)UINT32_MAX)

/* Those that hold most come first. */
struct memory_rows {
    struct memory_row *row;
    size_t count;
};

/* --- Moments -------------------------------------------------------------- */

/* 2 MiB of address space. */
struct memory_cell {
    uint64_t cell; /* address by 2 MiB */
    bool is_huge;
    uint32_t live, partly, empty, never; /* pages */
    uint64_t free_bytes;
    /* Runs of pages, a number (unless 1) and a code: L, E, N for live, empty,
       never; a to j for partly, by tenths that are free; a point for not
       resident. "": left out. */
    const char *pages;
};

/* Why a moment was looked at. */
enum memory_role {
    MEMORY_PEAK = 1,  /* most resident memory */
    MEMORY_WASTE = 2, /* most resident memory that is not live */
    MEMORY_ASKED = 4, /* --at */
    MEMORY_MARK = 8,  /* a mark of the trace */
    MEMORY_END = 16   /* the end of the trace */
};

enum { MEMORY_AGE_CLASSES = 10 };

struct memory_moment {
    unsigned roles;   /* of enum memory_role */
    const char *name; /* of the first role: peak, waste, at, mark, end */
    char *label;      /* of all: "peak, most waste" */
    uint64_t operation, recorded_ns, rss_bytes, resident_bytes, other_bytes;
    bool is_known; /* the kernel told of all pages */
    double unexplained_bytes;
    uint64_t requested_bytes, rounding_bytes, free_bytes, empty_bytes,
        never_bytes, absent_bytes;
    uint64_t live_pages, partly_pages, empty_pages, never_pages;
    uint64_t live_blocks, live_bytes, pinning_blocks, huge_bytes,
        huge_requested_bytes;
    bool huge_known;
    struct { /* time since the last known block; a page may be empty for less */
        uint64_t lower_ns, bytes;
    } empty_for[MEMORY_AGE_CLASSES];
    size_t empty_fors;
    struct memory_rows by[MEMORY_BYS];
    struct memory_rows held_by[MEMORY_BYS]; /* of --held-by */
    struct memory_cell *cell;
    size_t cells;
};

/* Members of struct memory_moment and struct memory_point that are whole
   numbers, by their key in JSON; the end has no key. */
struct memory_figure {
    const char *key;
    size_t at;
};
extern const struct memory_figure memory_moment_figure[], memory_point_figure[];
/* The member of the struct at P. */
static inline uint64_t memory_figure_of(const struct memory_figure *f,
                                        const void *p) {
    uint64_t v;
    memcpy(&v, (const char *)p + f->at, sizeof(v));
    return v;
}

/* --- Runs ----------------------------------------------------------------- */

/* A part of resident memory, and what makes it smaller. */
struct memory_remedy {
    uint64_t bytes;
    char text[400];
};
enum { MEMORY_REMEDIES = 4 };

/* One allocator. */
struct memory_run {
    const char *name;      /* the contestant's, as it may be shown */
    const char *failure;   /* NULL, or why there are no figures: nothing below
                              is set */
    const char *allocator; /* as replay names it */
    const char *threads, *clock, *residency;
    const char *missing[4];
    size_t missings;
    const char *untouched; /* as of the report; "": nothing */
    char *sentence;
    struct memory_remedy remedy[MEMORY_REMEDIES]; /* the largest part first */
    size_t remedies;
    bool has_sites;
    uint64_t page_bytes, scan_ns, scans, replay_ns;
    struct memory_point *point;
    size_t points;
    struct memory_moment *moment; /* in the order of time */
    size_t moments;
    const struct tool_json_value *document; /* texts lie there */
    char problem[400];                      /* text of `failure` */
};

struct memory_report {
    const char *trace; /* name for titles */
    bool has_sites, has_times;
    enum memory_by by;
    const char *held_by;  /* NULL: not asked for */
    unsigned moment_role; /* of the moment that tables explain */
    uint64_t top;         /* rows of tables */
    uint64_t duration_ns, operations;
    struct memory_run *run;
    size_t runs;
    /* how the samples of the recorded process contradict replays, or NULL */
    const char *untouched;
};

/* Sources of the names of rows. */
struct memory_names {
    const struct memory_trace *trace;
    struct symbol_names *names;
    const struct report_skip *skip;
    const char *held_by; /* part of the label of sites; NULL: not wanted */
};

/* Wishes of the second replay, by operation, ascending; ROLES of each. */
struct memory_stops {
    uint64_t operation[MEMORY_WISHES + 2];
    unsigned roles[MEMORY_WISHES + 2];
    const char *label[MEMORY_WISHES + 2]; /* NULL: that of the roles */
    size_t count;
};

/* Reads the peaks of the first replay's document, and puts them with the wishes
   of T into STOPS. false: TEXT is no such document. */
bool memory_model_stops(const struct memory_trace *t, const char *text,
                        size_t n, struct memory_stops *stops);
/* Reads the document of the second replay into R. false: R->failure says
   why. */
bool memory_model_read(struct memory_run *r, const struct memory_names *names,
                       const struct memory_stops *stops, const char *text,
                       size_t n);
/* Writes the free bytes that the stacks of sites hold at M to FILE, as folded
   stacks. false: a message was printed. */
bool memory_model_folded(const struct memory_run *r,
                         const struct memory_moment *m,
                         const struct memory_names *names, const char *file);
/* The moment of ROLE; NULL: there is none. */
const struct memory_moment *memory_run_moment(const struct memory_run *r,
                                              unsigned role);
void memory_run_free(struct memory_run *r);

#endif
