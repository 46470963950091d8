/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vocabulary that recorder, sorter and replayer share: the calls of the
 * malloc family, the kinds of events, samples and accounts.
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
 * Types of an event: the low two bits of the payload of its first varint.
 * Those of extended events (type 0) have a kind in the next five bits: below 16
 * the rest of the payload is the argument, from 16 on it is the number of bytes
 * that follow, so that a reader skips kinds it does not know.
 */
enum mtf_raw_type {
    MTF_RAW_EXTENDED = 0,
    MTF_RAW_ALLOC = 1,
    MTF_RAW_FREE = 2,
    MTF_RAW_REALLOC = 3
};

/* Present bytes are recorded of larger blocks only. */
#define MTF_PRESENT_ABOVE ((uint64_t)256 << 10)

enum mtf_raw_kind {
    MTF_RAW_ALLOC_CALL = 1, /* sticky enum mtf_call of later MTF_RAW_ALLOC */
    MTF_RAW_FREE_CALL = 2,  /* the same for MTF_RAW_FREE */
    MTF_RAW_TIME = 3,       /* ns since the last time of the stream */
    MTF_RAW_TOKENS = 4,     /* log2 of the count | distance << 5 */
    MTF_RAW_AS_THREAD = 5,  /* late stream: thread of the following events */
    MTF_RAW_UNTRACED = 6,   /* n frees of blocks made while not recording */
    MTF_RAW_PRESENT = 7,    /* bytes with memory of the next block to end */
    MTF_RAW_SITE = 8,       /* site of later events; site_codec.h */
    /* from here on: length, then bytes */
    MTF_RAW_BUFFER = 16,       /* struct mtf_raw_buffer_state */
    MTF_RAW_THREAD_START = 17, /* u32 kernel thread id */
    MTF_RAW_THREAD_END = 18,   /* text: the thread's name */
    MTF_RAW_ALIGNED = 19,      /* u8 call, u8 log2 of alignment, size */
    MTF_RAW_FAILED = 20,       /* u8 call, u8 log2, u64 old token, size */
    MTF_RAW_FREE_SIZE = 21,    /* u8 call, u64 token, size */
    MTF_RAW_REALLOC_NEW = 22, /* u8 call, u8 flags (bit 0: old unknown), size */
    MTF_RAW_REALLOC_END = 23, /* u8 call, u64 old token */
    MTF_RAW_MARK = 24,        /* text */
    MTF_RAW_EXTENSION = 25,   /* u8 which, u64 argument */
    MTF_RAW_GAP = 26,         /* u64 events, u64 from ns, u64 to ns */
    MTF_RAW_SITE_DEF = 27,    /* u8 enum mtf_site_def, bytes; site_codec.h */
    MTF_RAW_WRONG = 28        /* u8 call, u8 enum mtf_wrong, u64 token, u64 */
};

/* Why the block of a free or realloc is none: X(NAME, number, "text"). */
#define MTF_WRONGS(X)                                                          \
    X(FREED, 1, "freed already")                                               \
    X(INSIDE, 2, "inside a block")                                             \
    X(FOREIGN, 3, "no block")

enum mtf_wrong {
#define X(name, number, text) MTF_WRONG_##name = number,
    MTF_WRONGS(X)
#undef X
};

/* What an EXTENSION event stands for: X(NAME, number, "text"). The argument is
   malloc_trim's pad, the bytes to release, or 0. */
#define MTF_EXTENSIONS(X)                                                      \
    X(TRIM, 1, "malloc_trim")                                                  \
    X(RELEASE_FREE_MEMORY, 2, "release_free_memory")                           \
    X(RELEASE_TO_SYSTEM, 3, "release_to_system")                               \
    X(MARK_IDLE, 4, "mark_thread_idle")                                        \
    X(MARK_TEMPORARILY_IDLE, 5, "mark_thread_temporarily_idle")                \
    X(MARK_BUSY, 6, "mark_thread_busy")

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

/* In both formats: u16 field, u64 value. */
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

/* Why a recording ended (MTF_ACCOUNT_END_REASON). */
enum mtf_end_reason {
    MTF_END_EXIT = 1,  /* the program ended */
    MTF_END_STOP = 2,  /* stopped by call */
    MTF_END_LIMIT = 3, /* the output reached its size */
    MTF_END_FORCED = 4 /* the output failed; the trace lacks what came after */
};

/* Text of a call, or "?"; of an account field, or NULL. */
const char *mtf_call_name(unsigned call);
const char *mtf_account_name(unsigned field);
/* Text of an enum mtf_wrong, or "?". */
const char *mtf_wrong_name(unsigned wrong);

#endif
