/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vocabulary of recorder, sorter and replayer: the calls of the malloc family,
 * the kinds of events, samples and accounts.
 *
 * Numbers are part of both formats and never change their meaning; new ones are
 * added at the end of their range.
 */
#ifndef TCM_TRACEFORMAT_TRACE_EVENT_H
#define TCM_TRACEFORMAT_TRACE_EVENT_H

#include "base/compiler.h"

#include <string.h>

/* X(NAME, number, "text") */
#define MTF_CALLS(X)                                                           \
    X(MALLOC, 1, "malloc")                                                     \
    X(CALLOC, 2, "calloc")                                                     \
    X(REALLOC, 3, "realloc")                                                   \
    X(REALLOCARRAY, 4, "reallocarray")                                         \
    X(NEW, 5, "new")                                                           \
    X(NEW_ARRAY, 6, "new[]")                                                   \
    X(NEW_NOTHROW, 7, "new(nothrow)")                                          \
    X(NEW_ARRAY_NOTHROW, 8, "new[](nothrow)")                                  \
    X(MEMALIGN, 16, "memalign")                                                \
    X(ALIGNED_ALLOC, 17, "aligned_alloc")                                      \
    X(POSIX_MEMALIGN, 18, "posix_memalign")                                    \
    X(VALLOC, 19, "valloc")                                                    \
    X(PVALLOC, 20, "pvalloc")                                                  \
    X(NEW_ALIGNED, 21, "new(align)")                                           \
    X(NEW_ARRAY_ALIGNED, 22, "new[](align)")                                   \
    X(NEW_ALIGNED_NOTHROW, 23, "new(align,nothrow)")                           \
    X(NEW_ARRAY_ALIGNED_NOTHROW, 24, "new[](align,nothrow)")                   \
    X(FREE, 32, "free")                                                        \
    X(CFREE, 33, "cfree")                                                      \
    X(DELETE, 34, "delete")                                                    \
    X(DELETE_ARRAY, 35, "delete[]")                                            \
    X(DELETE_SIZED, 36, "delete(size)")                                        \
    X(DELETE_ARRAY_SIZED, 37, "delete[](size)")                                \
    X(DELETE_NOTHROW, 38, "delete(nothrow)")                                   \
    X(DELETE_ARRAY_NOTHROW, 39, "delete[](nothrow)")                           \
    X(DELETE_ALIGNED, 40, "delete(align)")                                     \
    X(DELETE_ARRAY_ALIGNED, 41, "delete[](align)")                             \
    X(DELETE_SIZED_ALIGNED, 42, "delete(size,align)")                          \
    X(DELETE_ARRAY_SIZED_ALIGNED, 43, "delete[](size,align)")                  \
    X(DELETE_ALIGNED_NOTHROW, 44, "delete(align,nothrow)")                     \
    X(DELETE_ARRAY_ALIGNED_NOTHROW, 45, "delete[](align,nothrow)")             \
    X(FREE_SIZED, 46, "free_sized")                                            \
    X(FREE_ALIGNED_SIZED, 47, "free_aligned_sized")

enum mtf_call {
    MTF_CALL_NONE = 0,
#define X(name, number, text) MTF_CALL_##name = number,
    MTF_CALLS(X)
#undef X
        MTF_CALL_LIMIT = 64
};

/* Ranges of enum mtf_call. */
static inline bool mtf_call_is_plain_alloc(unsigned c) {
    return c == MTF_CALL_MALLOC || c == MTF_CALL_CALLOC ||
           (c >= MTF_CALL_NEW && c <= MTF_CALL_NEW_ARRAY_NOTHROW);
}
static inline bool mtf_call_is_realloc(unsigned c) {
    return c == MTF_CALL_REALLOC || c == MTF_CALL_REALLOCARRAY;
}
static inline bool mtf_call_is_aligned_alloc(unsigned c) {
    return c >= MTF_CALL_MEMALIGN && c <= MTF_CALL_NEW_ARRAY_ALIGNED_NOTHROW;
}
static inline bool mtf_call_is_free(unsigned c) {
    return c >= MTF_CALL_FREE && c <= MTF_CALL_FREE_ALIGNED_SIZED;
}

/*
 * Type of an event: the low two bits of the payload of its first varint. In
 * extended events (type 0) the next five bits are a kind: below 16 the bits
 * above are the argument, from 16 on they are the number of bytes that follow,
 * so that a reader skips kinds that it does not know.
 */
enum mtf_raw_type {
    MTF_RAW_EXTENDED = 0,
    MTF_RAW_ALLOC = 1,
    MTF_RAW_FREE = 2,
    MTF_RAW_REALLOC = 3
};

/*
 * Bound above which present bytes of a block are recorded, and the groups of
 * sizes above it: four for each doubling, all beyond 512 MiB in the last one.
 */
#define MTF_PRESENT_ABOVE  ((uint64_t)16 << 10)
#define MTF_PRESENT_GROUPS 64u

static inline unsigned mtf_present_group(uint64_t size) {
    unsigned log2 = 63 - (unsigned)__builtin_clzll(size - 1);
    unsigned group = (log2 - 14) * 4 + (unsigned)((size - 1) >> (log2 - 2) & 3);
    return group < MTF_PRESENT_GROUPS ? group : MTF_PRESENT_GROUPS - 1;
}

/*
 * Kinds of events. A row has the name, the number in a recording, the number in
 * a processed trace, and the form of its bytes:
 *
 *   BOTH(NAME, "name", raw, proc, FORM)   in recordings and processed traces
 *   RAW(NAME, "name", raw, FORM)          in recordings only
 *   PROC(NAME, "name", proc, FORM)        in processed traces only
 *
 * From 16 on a number announces a length and that many bytes; numbers below 16
 * have an argument instead. Processed numbers 6 to 15 are reserved (a reader
 * that meets one drops the rest of the block), and 16 to 31 are all in use: a
 * new kind takes the next MTF_NOTE(n).
 *
 *   TEXT   bytes that are a text
 *   PAIR   u8 which, u64 argument
 *   OWN    anything else; raw_codec.h and proc_decode.c have the code
 *
 * Kinds of the forms TEXT and PAIR are *plain*: codecs, sorter and tools carry
 * them from end to end by their rows alone. Bytes of all kinds are described in
 * doc/raw-trace-format.md and doc/processed-trace-format.md.
 */
#define MTF_NOTE(n) (256 + (n))

/* Calls of the malloc family that have a record of their own. */
#define MTF_CALL_EVENTS(BOTH, RAW, PROC)                                       \
    BOTH(ALIGNED, "aligned", 19, 16, OWN)                                      \
    BOTH(REALLOC_NEW, "realloc_new", 22, 17, OWN)                              \
    BOTH(REALLOC_END, "realloc_end", 23, 18, OWN)                              \
    BOTH(FREE_SIZE, "free_size", 21, 19, OWN)                                  \
    BOTH(FAILED, "failed", 20, 20, OWN)

/* All other kinds. */
#define MTF_OTHER_EVENTS(BOTH, RAW, PROC)                                      \
    PROC(SWITCH, "switch", 3, OWN)                                             \
    BOTH(TIME, "time", 3, 4, OWN)                                              \
    RAW(BUFFER, "buffer", 16, OWN)                                             \
    RAW(AS_THREAD, "as_thread", 5, OWN)                                        \
    RAW(UNTRACED, "untraced", 6, OWN)                                          \
    BOTH(THREAD_START, "thread_start", 17, 21, OWN)                            \
    BOTH(THREAD_END, "thread_end", 18, 22, OWN)                                \
    BOTH(MARK, "mark", 24, 23, TEXT)                                           \
    BOTH(EXTENSION, "extension", 25, 24, PAIR)                                 \
    PROC(SAMPLE, "sample", 25, OWN)                                            \
    RAW(GAP, "gap", 26, OWN)                                                   \
    PROC(LOSS, "loss", 26, OWN)                                                \
    PROC(PHASE, "phase", 30, OWN)                                              \
    BOTH(PRESENT, "present", 7, MTF_NOTE(1), OWN)                              \
    BOTH(SITE, "site", 8, 27, OWN)                                             \
    BOTH(SITE_DEF, "site_def", 27, 28, OWN)                                    \
    RAW(WRONG, "wrong", 28, OWN)

#define MTF_EVENTS(BOTH, RAW, PROC)                                            \
    MTF_CALL_EVENTS(BOTH, RAW, PROC)                                           \
    MTF_OTHER_EVENTS(BOTH, RAW, PROC)

/* Numbers of records that serve the coding and are no events: X(NAME, number)
 */
#define MTF_RAW_CODING(X)                                                      \
    X(ALLOC_CALL, 1) /* sticky enum mtf_call of later MTF_RAW_ALLOC */         \
    X(FREE_CALL, 2)  /* sticky enum mtf_call of later MTF_RAW_FREE */          \
    X(TOKENS, 4)     /* log2 of the count | distance << 5 */

#define MTF_PROC_CODING(X)                                                     \
    X(ALLOC_CALL, 1)    /* sticky enum mtf_call of later ALLOC */              \
    X(FREE_CALL, 2)     /* sticky enum mtf_call of later FREE and FREE_OLD */  \
    X(REALLOC_OLD, 5)   /* zigzag(slot - last named slot), then as REALLOC */  \
    X(REALLOC_SIZE, 29) /* a realloc to a size without size code */            \
    X(NOTE, 31)         /* u8 n, then the bytes of the kind MTF_NOTE(n) */

/* Numbers in files: `raw` of the rows, and `proc`. */
#define MTF_RAW_ROW(name, text, number, ...)      MTF_RAW_##name = (number),
#define MTF_PROC_ROW(name, text, number, ...)     MTF_PROC_##name = (number),
#define MTF_BOTH_ROW(name, text, raw, proc, form) MTF_PROC_##name = (proc),
#define MTF_NO_ROW(...)
#define X(name, number) MTF_RAW_##name = (number),
enum mtf_raw_kind {
    MTF_RAW_CODING(X)
    /* from the list */
    MTF_EVENTS(MTF_RAW_ROW, MTF_RAW_ROW, MTF_NO_ROW)
};
#undef X
#define X(name, number) MTF_PROC_##name = (number),
enum mtf_proc_kind {
    MTF_PROC_CODING(X)
    /* from the list */
    MTF_EVENTS(MTF_BOTH_ROW, MTF_NO_ROW, MTF_PROC_ROW)
};
#undef X
#undef MTF_RAW_ROW
#undef MTF_PROC_ROW
#undef MTF_BOTH_ROW

/* Kinds of decoded events: of events in a recording (struct mtf_event tells
   which fields are set), and of operations in a processed trace (struct
   mtf_op). No file has these numbers. */
#define MTF_EVENT_ROW(name, ...) MTF_EVENT_##name,
enum mtf_event_kind {
    MTF_EVENT_ALLOC = 1,
    MTF_EVENT_FREE,
    MTF_EVENT_REALLOC,
    MTF_CALL_EVENTS(MTF_EVENT_ROW, MTF_EVENT_ROW, MTF_NO_ROW)
    /* FAILED is the last call. STATE: only the coding state changed */
    MTF_EVENT_STATE,
    MTF_OTHER_EVENTS(MTF_EVENT_ROW, MTF_EVENT_ROW, MTF_NO_ROW)
    /* a kind of a later version */
    MTF_EVENT_UNKNOWN
};
#undef MTF_EVENT_ROW
#define MTF_OP_ROW(name, ...) MTF_OP_##name,
enum mtf_op_kind {
    MTF_OP_ALLOC = 1,
    MTF_OP_FREE,
    MTF_OP_REALLOC,
    MTF_EVENTS(MTF_OP_ROW, MTF_NO_ROW, MTF_OP_ROW)
    /* a kind of a later version */
    MTF_OP_OTHER,
    /* kinds up to this one are counted as `ops` */
    MTF_OP_LAST_OPERATION = MTF_OP_FREE_SIZE
};
#undef MTF_OP_ROW
#undef MTF_NO_ROW

enum mtf_form { MTF_FORM_OWN, MTF_FORM_TEXT, MTF_FORM_PAIR };

/* True if KIND, an enum mtf_op_kind, has the form TEXT. */
static inline bool mtf_op_is_text(unsigned kind) {
#define NONE(...)
#define BOTH(name, text, raw, proc, form)                                      \
    | (uint64_t)(MTF_FORM_##form == MTF_FORM_TEXT) << MTF_OP_##name
#define PROC(name, text, proc, form) BOTH(name, text, 0, proc, form)
    TCM_STATIC_ASSERT(MTF_OP_OTHER < 64, "a bit per kind");
    const uint64_t texts = 0 MTF_EVENTS(BOTH, NONE, PROC);
#undef NONE
#undef BOTH
#undef PROC
    return kind <= MTF_OP_OTHER && (texts >> kind & 1) != 0;
}

/* A row of MTF_EVENTS; numbers that a kind lacks are 0. */
struct mtf_kind {
    const char *name;
    uint16_t raw, proc; /* enum mtf_raw_kind, enum mtf_proc_kind */
    uint8_t event, op;  /* enum mtf_event_kind, enum mtf_op_kind */
    uint8_t form;       /* enum mtf_form */
};

/* Row of a plain kind, by its number in a file or by its decoded kind. NULL:
   there is none, or its form is OWN. */
const struct mtf_kind *mtf_plain_of_raw(unsigned raw);
const struct mtf_kind *mtf_plain_of_proc(unsigned proc);
const struct mtf_kind *mtf_plain_of_event(unsigned event);
const struct mtf_kind *mtf_plain_of_op(unsigned op);
/* Row number I of MTF_EVENTS; NULL behind the last. */
const struct mtf_kind *mtf_kind_at(size_t i);

/* Name of an enum mtf_event_kind or enum mtf_op_kind; NULL: there is none. */
const char *mtf_event_name(unsigned event);
const char *mtf_op_name(unsigned op);

/* Faults of a pointer that is freed or resized: X(NAME, number, "text"). */
#define MTF_WRONGS(X)                                                          \
    X(FREED, 1, "freed already")                                               \
    X(INSIDE, 2, "inside a block")                                             \
    X(FOREIGN, 3, "no block")

enum mtf_wrong {
#define X(name, number, text) MTF_WRONG_##name = number,
    MTF_WRONGS(X)
#undef X
};

/* Kinds of EXTENSION events: X(NAME, number, "text"). The argument is
   malloc_trim's pad, the bytes to release, a fork's number, the token of an
   inherited block, or 0. */
#define MTF_EXTENSIONS(X)                                                      \
    X(TRIM, 1, "malloc_trim")                                                  \
    X(RELEASE_FREE_MEMORY, 2, "release_free_memory")                           \
    X(RELEASE_TO_SYSTEM, 3, "release_to_system")                               \
    X(MARK_IDLE, 4, "mark_thread_idle")                                        \
    X(MARK_TEMPORARILY_IDLE, 5, "mark_thread_temporarily_idle")                \
    X(MARK_BUSY, 6, "mark_thread_busy")                                        \
    X(FORK, 7, "fork")                                                         \
    X(FREE_INHERITED, 8, "free_inherited")

enum mtf_extension {
#define X(name, number, text) MTF_EXTENSION_##name = number,
    MTF_EXTENSIONS(X)
#undef X
};

/* Fields of samples and footers: X(NAME, number, "text") */
#define MTF_ACCOUNTS(X)                                                        \
    X(THREAD_CACHE_MISSES, 1, "tcmalloc.thread_cache_misses")                  \
    X(THREAD_CACHE_OVERFLOWS, 2, "tcmalloc.thread_cache_overflows")            \
    X(CENTRAL_FETCHES, 3, "tcmalloc.central_fetches")                          \
    X(CENTRAL_RETURNS, 4, "tcmalloc.central_returns")                          \
    X(TRANSFER_CACHE_HITS, 5, "tcmalloc.transfer_cache_hits")                  \
    X(SPANS_MADE, 6, "tcmalloc.spans_made")                                    \
    X(SPANS_FREED, 7, "tcmalloc.spans_freed")                                  \
    X(SYSTEM_BYTES_TAKEN, 8, "tcmalloc.system_bytes_taken")                    \
    X(SYSTEM_BYTES_RETURNED, 9, "tcmalloc.system_bytes_returned")              \
    X(RSS_ANON_BYTES, 16, "rss_anon_bytes")                                    \
    X(MINOR_FAULTS, 17, "minor_faults")                                        \
    X(MAJOR_FAULTS, 18, "major_faults")                                        \
    X(EVENTS, 32, "events")                                                    \
    X(MALLOCS, 33, "mallocs")                                                  \
    X(MEMALIGNS, 34, "memaligns")                                              \
    X(REALLOCS, 35, "reallocs")                                                \
    X(FREES, 36, "frees")                                                      \
    X(FAILED_ALLOCATIONS, 37, "failed_allocations")                            \
    X(UNTRACED_FREES, 38, "untraced_frees")                                    \
    X(DROPPED_EVENTS, 39, "dropped_events")                                    \
    X(WAITS, 40, "waits")                                                      \
    X(WAIT_NS, 41, "wait_ns")                                                  \
    X(THREADS, 42, "threads")                                                  \
    X(BUFFERS, 43, "buffers")                                                  \
    X(SEGMENTS, 44, "segments")                                                \
    X(RAW_BYTES, 45, "raw_bytes")                                              \
    X(STORED_BYTES, 46, "stored_bytes")                                        \
    X(SLOW_TIMES, 47, "slow_path_times")                                       \
    X(SAVER_CPU_NS, 48, "saver_cpu_ns")                                        \
    X(ROUNDS, 49, "rounds")                                                    \
    X(END_REASON, 50, "end_reason")                                            \
    X(PROGRAM_CPU_NS, 51, "program_cpu_ns")                                    \
    X(STACKS_CHECKED, 52, "stacks_checked")                                    \
    X(STACKS_DIFFERENT, 53, "stacks_different")

enum mtf_account {
#define X(name, number, text) MTF_ACCOUNT_##name = number,
    MTF_ACCOUNTS(X)
#undef X
        MTF_ACCOUNT_LIMIT = 64
};

/* One field of a sample, a footer, a reply or a closing block. FIELD is an enum
   mtf_account or, in a closing block, an enum mtf_proc_account. */
struct mtf_account_value {
    uint16_t field;
    uint64_t value;
};

/* Bytes of a field in both formats: u16 field, u64 value. */
#define MTF_ACCOUNT_BYTES 10u

static inline void mtf_put_account(uint8_t *p, struct mtf_account_value a) {
    memcpy(p, &a.field, sizeof(a.field));
    memcpy(p + sizeof(a.field), &a.value, sizeof(a.value));
}

static inline struct mtf_account_value mtf_get_account(const uint8_t *p) {
    struct mtf_account_value a;
    memcpy(&a.field, p, sizeof(a.field));
    memcpy(&a.value, p + sizeof(a.field), sizeof(a.value));
    return a;
}

/* Reason for the end of a recording (MTF_ACCOUNT_END_REASON). */
enum mtf_end_reason {
    MTF_END_EXIT = 1,  /* the program ended */
    MTF_END_STOP = 2,  /* stopped by call */
    MTF_END_LIMIT = 3, /* the output reached its size */
    MTF_END_FORCED = 4 /* the output failed; later events are missing */
};

/* Text of a call, or "?"; of an account field, or NULL. */
const char *mtf_call_name(unsigned call);
const char *mtf_account_name(unsigned field);
/* Text of an enum mtf_wrong, or "?". */
const char *mtf_wrong_name(unsigned wrong);

#endif
