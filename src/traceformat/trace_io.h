/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sources and sinks of the bytes of a trace: readers pull from a source,
 * writers push to a sink. How reading can go wrong, and the words for it.
 */
#ifndef TCM_TRACEFORMAT_TRACE_IO_H
#define TCM_TRACEFORMAT_TRACE_IO_H

#include "base/compiler.h"

/* --- What can go wrong ---------------------------------------------------- */

enum mtf_status {
    MTF_OK = 0,
    MTF_SYSTEM,       /* a system call failed; errno says why */
    MTF_EMPTY,        /* no byte at all */
    MTF_NO_TRACE,     /* other magic */
    MTF_IS_RAW,       /* a raw trace where another kind was asked for */
    MTF_IS_SPOOL,     /* a spool, likewise */
    MTF_IS_PROCESSED, /* a processed trace, likewise */
    MTF_TOO_NEW,      /* of a later version, or with its must-understand bits */
    MTF_NO_LZ4,       /* compressed, and this build lacks the library */
    MTF_NO_ZLIB,
    MTF_NO_ZSTD,
    MTF_NO_BZ2,
    MTF_NO_MEMORY,
    /* from here on the rest of the trace can be used */
    MTF_CUT,     /* ends in the middle */
    MTF_DAMAGED, /* wrong checksum or impossible bytes */
    MTF_NOT_ONE, /* file and spool, or parts of the spool, differ in age */
    MTF_NO_FILE, /* a spool without the file that has the rest */
    MTF_PRIVATE, /* what was not in the spool is lost */
    MTF_GROWING  /* still being recorded */
};

/* A short text without the file's name, e.g. "damaged". */
const char *mtf_status_text(enum mtf_status status);

/* Words for a file that begins with these N bytes and is no trace of ours, e.g.
   "is a gzip file, ..."; NULL if it is unknown. The first also recognizes text,
   that is UTF-8 without control characters; the second only what has a magic
   number. They look at no more than MTF_FOREIGN_BYTES; a caller that has as
   many passes them all, so that all readers call a file the same. */
#define MTF_FOREIGN_BYTES ((size_t)512)
const char *mtf_foreign_text(const uint8_t *p, size_t n);
const char *mtf_foreign_magic(const uint8_t *p, size_t n);

/* Writes the reason for MTF_TOO_NEW into TEXT: BITS are those of VERSION's
   must-understand bits that the program does not know, KNOWN is the newest
   version it does. Returns TEXT. */
#define MTF_TOO_NEW_TEXT 96u
const char *mtf_too_new_text(char text[MTF_TOO_NEW_TEXT], unsigned version,
                             unsigned known, unsigned bits);

/* --- Sources and sinks ---------------------------------------------------- */

/* Takes N bytes; false: it failed, and gets no more. */
typedef bool mtf_sink(void *ctx, const void *data, size_t n);

enum mtf_source_result {
    MTF_SOURCE_DATA,  /* *GOT bytes, at least one */
    MTF_SOURCE_BREAK, /* bytes were lost here; break_* say where; go on */
    MTF_SOURCE_END,
    MTF_SOURCE_ERROR
};

struct mtf_source {
    enum mtf_source_result (*read)(struct mtf_source *s, void *buf, size_t n,
                                   size_t *got);
    uint64_t break_offset;  /* as stored */
    uint64_t break_skipped; /* stored bytes without use */
    enum mtf_status status; /* BREAK: MTF_DAMAGED or MTF_CUT; ERROR: why */
    int error;              /* ERROR with MTF_SYSTEM: errno */
    bool framed; /* bytes come from LZ4 frames (known after the first read), so
                    that damage may have changed the magic */
};

#endif
