/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces of other programs: the description of a format, and an event as all
 * formats give and take it.
 *
 * Each format is one `struct format_type`, in a file of this folder. Its
 * functions know nothing of processed traces: format_import.h makes a processed
 * trace of the events that a format reads, format_export.h gives the events of
 * a processed trace to a format that writes. doc/formats.md describes every
 * format.
 *
 * Terms:
 * - id: the name of a block while it lives: an address, a tag or a number. 0
 *   stands for NULL, so formats whose numbers begin with 0 add 1.
 * - native: the format that has all records of a processed trace (text).
 */
#ifndef TOOL_FORMATS_FORMAT_H
#define TOOL_FORMATS_FORMAT_H

#include "base/compiler.h"
#include "traceformat/trace_event.h"

/* Bytes at the start of a file that tell its format. */
#define FORMAT_SNIFF_BYTES ((size_t)16 << 10)

struct format_reader;
struct format_out;
struct format_put;

enum format_kind {
    FORMAT_ALLOC = 1,    /* id = call(size, align); id 0: it failed */
    FORMAT_FREE,         /* call(old) */
    FORMAT_REALLOC,      /* id = call(old, size); id 0 and size 0: freed */
    FORMAT_SWITCH,       /* the events that follow are of `thread` */
    FORMAT_THREAD_START, /* thread; number: kernel's id */
    FORMAT_THREAD_END,   /* thread; text: name */
    FORMAT_TIME,         /* time_ns, written as it is */
    FORMAT_PLAIN,        /* op; text, or number and size */
    FORMAT_SAMPLE,       /* time_ns; text: bytes of the fields */
    FORMAT_LOSS,         /* thread; size: lost events, from id to old, in ns */
    FORMAT_PHASE,        /* number */
    FORMAT_PRESENT,      /* size: present bytes of the next block made */
    FORMAT_LIVE          /* export only: block `old` is alive at the end */
};

/* Flags of an event. */
enum {
    FORMAT_TIMED = 1,        /* time_ns is set */
    FORMAT_THREADED = 2,     /* thread is set; else the last event's counts */
    FORMAT_MOVED = 4,        /* realloc: moved, even if the id is the same */
    FORMAT_STAYED = 8,       /* realloc: not moved, even if the id changed */
    FORMAT_FAILED = 16,      /* the call returned NULL */
    FORMAT_OLD_UNKNOWN = 32, /* realloc of a block that was not recorded */
    FORMAT_SIZED = 64,       /* free with a size that is not the block's */
    /* If no block has the id: the free or realloc did nothing; the realloc is
       one of NULL. */
    FORMAT_NO_BLOCK_IGNORED = 128,
    FORMAT_NO_BLOCK_IS_NULL = 256,
    FORMAT_NUMBERED = 512 /* ids are numbers, although has_addresses is set */
};

/* Logarithm of the least power of two that is not below ALIGN. */
static inline uint8_t format_align_log2(uint64_t align) {
    uint8_t log2 = 0;
    while (log2 < 63 && (uint64_t)1 << log2 < align)
        log2++;
    return log2;
}

struct format_event {
    uint8_t kind, call, align_log2;
    uint8_t op; /* FORMAT_PLAIN: enum mtf_op_kind */
    uint32_t flags;
    uint64_t id, old, size;
    uint64_t thread; /* the format's own number, below 2^64 - 1 */
    uint64_t time_ns;
    uint64_t number;
    const void *text;
    size_t length;
};

/* Bits of an address in a format with `has_processes`: the bits above them tell
   the process. */
#define FORMAT_ID_BITS 48u
static inline uint64_t format_id_in_process(uint64_t id) {
    return id & (((uint64_t)1 << FORMAT_ID_BITS) - 1);
}

/* Notation of ids in files of the format, for messages. */
enum format_ids {
    FORMAT_IDS_HEX,
    FORMAT_IDS_NUMBERS,
    FORMAT_IDS_FROM_0 /* numbers that are 1 less than the id */
};

/* Outcome of reading a line or record. */
enum format_result {
    FORMAT_EVENT,   /* the event is filled */
    FORMAT_NOTHING, /* no event, as a comment */
    FORMAT_BAD,     /* unreadable; reading goes on behind it */
    FORMAT_END,     /* nothing follows */
    FORMAT_CUT,     /* the input ends inside a record, or too early */
    FORMAT_GIVE_UP  /* nothing that follows can be read */
};

/* Calls of a batch, at most. */
#define FORMAT_BATCH 128u

/* A call of a batch. */
struct format_call {
    uint64_t id;    /* block that is made or freed; not 0 */
    uint64_t old;   /* realloc: the old block, 0 if none */
    uint64_t size;  /* 0 for a free */
    uint32_t at;    /* offset of the record from the batch's `from` */
    uint8_t kind;   /* FORMAT_ALLOC, FORMAT_FREE or FORMAT_REALLOC */
    uint8_t call;   /* enum mtf_call; none with an alignment */
    uint16_t flags; /* in addition to those of the batch */
};

/* Makes a call of a batch of E, a call without alignment whose record is at
   offset AT. */
static inline struct format_call format_call_of(const struct format_event *e,
                                                size_t at) {
    return (struct format_call){
        .id = e->kind == FORMAT_FREE ? e->old : e->id,
        .old = e->kind == FORMAT_REALLOC ? e->old : 0,
        .size = e->size,
        .at = (uint32_t)at,
        .kind = e->kind,
        .call = e->call,
        .flags = (uint16_t)e->flags,
    };
}

/*
 * Successive calls of one thread and one time. Nearly all calls of a trace can
 * be taken in batches, which is faster than one by one.
 */
struct format_batch {
    uint32_t flags;           /* FORMAT_TIMED and FORMAT_THREADED only */
    uint64_t thread, time_ns; /* of all calls, as in an event */
    uint64_t from;            /* offset in the input */
    size_t count;
    struct format_call call[FORMAT_BATCH];
};

struct format_type {
    const char *name;  /* on the command line */
    const char *title; /* "Android malloc_debug text" */
    /* Tells whether a file that begins with the N bytes at P is of this format.
       WHOLE: the file has no more bytes. NULL: a text that is known by its
       lines. */
    bool (*matches)(const uint8_t *p, size_t n, bool whole);
    /* Reader of a text: gets each line, not empty and without its end. Sets
       *WHY for BAD, CUT and GIVE_UP. A format that can be read has either
       `line` or `next`. */
    enum format_result (*line)(void *state, const char *p, const char *end,
                               struct format_event *e, const char **why);
    /* Reader of any other format: takes bytes from R. */
    enum format_result (*next)(void *state, struct format_reader *r,
                               struct format_event *e, const char **why);
    /* Reads calls at the start of the N bytes at P, up to a record that is no
       such call, cannot be read, or is not complete: `next` reads that one.
       Returns the bytes of the records read. The caller sets B->count and
       B->flags to 0, B->from to the offset of P. May be NULL. */
    size_t (*batch)(void *state, const uint8_t *p, size_t n,
                    struct format_batch *b);
    /* Called at the end of a text. Returns why it is cut, or NULL. May be
       NULL. */
    const char *(*ends_early)(void *state);
    /* Frees the memory that the state points to. May be NULL. */
    void (*fini)(void *state);
    size_t state_bytes; /* of the reader's state, all 0 at first */
    bool is_native;     /* numbers of threads, and times, are written as read */
    bool has_addresses; /* ids are the addresses that the program got */
    bool has_kernel_ids; /* threads are named by the kernel's ids */
    /* Bits of ids above FORMAT_ID_BITS tell the process; those of threads may
       do so, too. */
    bool has_processes;
    bool has_comments; /* # begins a comment */
    bool wants_live;   /* PUT gets the blocks that are alive at the end */
    enum format_ids ids;

    /* Writes one event. An event that the format cannot hold is counted in
       OUT->left. NULL: this format is only read. */
    void (*put)(void *state, struct format_out *out,
                const struct format_put *event);
    /* Called before the first event, and after the last one. May be NULL. */
    void (*put_begin)(void *state, struct format_out *out);
    void (*put_end)(void *state, struct format_out *out);
    void (*put_fini)(void *state);
    size_t put_state_bytes;
};

/*
 * All formats, in the order in which `matches` is asked: a magic before
 * heuristics. X(NAME) stands for format_NAME, in the file NAME.c or in that of
 * a family.
 */
#define FORMAT_LIST(X)                                                         \
    X(text)                                                                    \
    X(gperftools_raw)                                                          \
    X(gperftools)                                                              \
    X(dj)                                                                      \
    X(wl)                                                                      \
    X(heaptrack)                                                               \
    X(dj_text)                                                                 \
    X(malloc_bench)                                                            \
    X(android)                                                                 \
    X(logalloc)                                                                \
    X(dtrace)                                                                  \
    X(kdump)                                                                   \
    X(rep)                                                                     \
    X(wee_alloc)                                                               \
    X(cmt_text)                                                                \
    X(ltrace)                                                                  \
    X(bpftrace)                                                                \
    X(valgrind)                                                                \
    X(mwrap)                                                                   \
    X(webkit_ops)                                                              \
    X(cmt)                                                                     \
    X(mtrace)                                                                  \
    X(csv)                                                                     \
    X(minimalloc)

#define X(name) extern const struct format_type format_##name;
FORMAT_LIST(X)
#undef X

/* The format NAME, or NULL. */
const struct format_type *format_by_name(const char *name);
/* The format of a file that begins with the N bytes at P, or NULL. WHOLE: the
   file has no more bytes. */
const struct format_type *format_by_content(const uint8_t *p, size_t n,
                                            bool whole);
/* Format number I, from 0, or NULL behind the last. */
const struct format_type *format_at(size_t i);

#endif
