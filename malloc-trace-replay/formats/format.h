/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces of other programs: the description of a format, and one event of any
 * of them.
 *
 * Each format is a `struct format_type` in a file of this folder. Its reader
 * gives one event at a time and knows nothing of processed traces; the importer
 * (format_import.h) makes these of the events of any format. doc/formats.md
 * describes all formats for users.
 *
 * Terms: an *id* names a block while it lives. It is an address, a tag or a
 * number, but never 0, which stands for NULL; sources whose numbers begin with
 * 0 add 1.
 */
#ifndef TOOL_FORMATS_FORMAT_H
#define TOOL_FORMATS_FORMAT_H

#include "base/compiler.h"
#include "traceformat/trace_event.h"

/* Bytes of a file by which its format is found. */
#define FORMAT_LOOK ((size_t)16 << 10)

struct format_reader;
struct format_out;
struct format_put;

enum format_kind {
    FORMAT_ALLOC = 1,    /* id = call(size, align); id 0: it failed */
    FORMAT_FREE,         /* call(old) */
    FORMAT_REALLOC,      /* id = call(old, size); id 0 and size 0: freed */
    FORMAT_SWITCH,       /* thread of the events that follow */
    FORMAT_THREAD_START, /* thread, number: the kernel's id */
    FORMAT_THREAD_END,   /* thread, text: its name */
    FORMAT_TIME,         /* time_ns, kept as it is */
    FORMAT_PLAIN,        /* op: which kind; text, or number and size */
    FORMAT_SAMPLE,       /* time_ns, text: the fields' bytes */
    FORMAT_LOSS,         /* thread; size: events; from id to old, ns */
    FORMAT_PHASE,        /* number */
    FORMAT_PRESENT,      /* size: bytes of the block made next */
    FORMAT_LIVE          /* written only: old is alive at the end */
};

/* Flags of an event. */
enum {
    FORMAT_TIMED = 1,    /* time_ns is known */
    FORMAT_THREADED = 2, /* thread is known; else that of the last event */
    FORMAT_MOVED = 4,    /* realloc: moved, also if the id is the same */
    FORMAT_STAYED = 8,   /* realloc: did not move, though the id may say so */
    FORMAT_FAILED = 16,  /* returned NULL */
    FORMAT_OLD_UNKNOWN = 32, /* realloc of a block that was not recorded */
    FORMAT_SIZED = 64,       /* free: with another size than the block's */
    /* A free or realloc of an id that names no block: does nothing, or is one
       of NULL. */
    FORMAT_EMPTY_IS_NOTHING = 128,
    FORMAT_EMPTY_IS_NULL = 256,
    FORMAT_NUMBERED = 512 /* its ids are numbers, whatever the format says */
};

/* The least power of two that is not below ALIGN, as its logarithm. */
static inline uint8_t format_align_log2(uint64_t align) {
    uint8_t log2 = 0;
    while (log2 < 63 && (uint64_t)1 << log2 < align)
        log2++;
    return log2;
}

struct format_event {
    uint8_t kind, call, align_log2;
    uint8_t op; /* of a plain kind: enum mtf_op_kind */
    uint32_t flags;
    uint64_t id, old, size;
    uint64_t thread; /* as the format names it, below 2^64 - 1 */
    uint64_t time_ns;
    uint64_t number;
    const void *text;
    size_t length;
};

/* Ids of a format with `has_processes`: the bits above these say whose. */
#define FORMAT_ID_BITS 48u
static inline uint64_t format_id_in_process(uint64_t id) {
    return id & (((uint64_t)1 << FORMAT_ID_BITS) - 1);
}

/* Notation of an id in a file of the format. */
enum format_ids {
    FORMAT_IDS_HEX,
    FORMAT_IDS_NUMBERS,
    FORMAT_IDS_FROM_0 /* a number that is 1 less */
};

enum format_result {
    FORMAT_EVENT,   /* the event is filled */
    FORMAT_NOTHING, /* a line or record that is no event, as a comment */
    FORMAT_BAD,     /* it cannot be read; go on behind it */
    FORMAT_END,
    FORMAT_CUT,    /* the input ends inside a record, or too early */
    FORMAT_GIVE_UP /* the rest cannot be read */
};

/*
 * Many calls, one after the other, of one thread and time. Most calls of a
 * trace are of these kinds, and taking them one by one is what a fast import
 * cannot afford.
 */
#define FORMAT_BATCH 128u

struct format_call {
    uint64_t id;    /* of the block that is made or freed; not 0 */
    uint64_t old;   /* realloc: of the block that was */
    uint64_t size;  /* 0 for a free */
    uint32_t at;    /* offset of its record from `from` */
    uint8_t kind;   /* FORMAT_ALLOC, FORMAT_FREE or FORMAT_REALLOC */
    uint8_t call;   /* without an alignment */
    uint16_t flags; /* beside those of the batch */
};

/* E, a call with its block's id and without an alignment, as one of a batch. */
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

struct format_batch {
    uint32_t flags;           /* FORMAT_TIMED and FORMAT_THREADED, of all */
    uint64_t thread, time_ns; /* as in an event */
    uint64_t from;            /* offset in the input */
    size_t count;
    struct format_call call[FORMAT_BATCH];
};

struct format_type {
    const char *name;  /* on the command line */
    const char *title; /* "Android malloc_debug text" */
    /* Tells whether the first N bytes of a file are of this format; WHOLE: they
       are the whole file. NULL if only the lines of a text tell. */
    bool (*is)(const uint8_t *p, size_t n, bool whole);
    /* One of these two. A text format is given line after line, without the
       line's end, never empty. For BAD, CUT and GIVE_UP *WHY is set. */
    enum format_result (*line)(void *state, const char *p, const char *end,
                               struct format_event *e, const char **why);
    /* Any other format reads by itself. */
    enum format_result (*next)(void *state, struct format_reader *r,
                               struct format_event *e, const char **why);
    /* Takes calls at the start of the N bytes at P, up to the first record that
       is another one, cannot be read, or is not whole: `next` reads that.
       Returns the bytes that it took, whose records may give no call. Before,
       B->count and ->flags are 0, ->from is the offset of P. May be NULL. */
    size_t (*many)(void *state, const uint8_t *p, size_t n,
                   struct format_batch *b);
    /* Called at the end of a text: NULL, or why it is cut. May be NULL. */
    const char *(*ends_early)(void *state);
    /* Frees what the state holds. May be NULL. */
    void (*fini)(void *state);
    size_t state_bytes; /* all 0 at first */
    /* Thread numbers and times are those of a processed trace. */
    bool is_ours;
    bool has_addresses;  /* ids are the addresses that the program got */
    bool has_kernel_ids; /* threads are named by the kernel's ids */
    bool has_processes;  /* see FORMAT_ID_BITS; threads' may be so, too */
    bool has_comments;   /* what follows # in a line is no part of it */
    enum format_ids ids;

    /* Writes one event; what has no place in the format is counted in the
       output's `left_out`. NULL: this format is only read. */
    void (*put)(void *state, struct format_out *out,
                const struct format_put *event);
    /* Before the first event, and after the last. Either may be NULL. */
    void (*put_begin)(void *state, struct format_out *out);
    void (*put_end)(void *state, struct format_out *out);
    void (*put_fini)(void *state);
    size_t put_state_bytes;
};

/*
 * All formats, those with the surest signs first: X(name of the description).
 * Each is in the file of its name, or of the family that it belongs to.
 */
#define FORMAT_LIST(X)                                                         \
    X(text)                                                                    \
    X(gperftools_raw)                                                          \
    X(gperftools)                                                              \
    X(dj)                                                                      \
    X(wl)                                                                      \
    X(dj_text)                                                                 \
    X(malloc_bench)                                                            \
    X(android)                                                                 \
    X(logalloc)                                                                \
    X(dtrace)                                                                  \
    X(kdump)                                                                   \
    X(rep)                                                                     \
    X(wee_alloc)                                                               \
    X(cmt_text)                                                                \
    X(mwrap)                                                                   \
    X(webkit_ops)                                                              \
    X(cmt)                                                                     \
    X(csv)                                                                     \
    X(minimalloc)

#define X(name) extern const struct format_type format_##name;
FORMAT_LIST(X)
#undef X

/* NULL: there is none of that name. */
const struct format_type *format_by_name(const char *name);
/* The format of a file by its first N bytes; NULL: not known. */
const struct format_type *format_by_content(const uint8_t *p, size_t n,
                                            bool whole);
/* The I-th format, or NULL. */
const struct format_type *format_at(size_t i);

#endif
