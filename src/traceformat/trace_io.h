/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sources and sinks of the bytes of a trace: readers pull from a source,
 * writers push to a sink. Statuses of reading, and their texts.
 */
#ifndef TCM_TRACEFORMAT_TRACE_IO_H
#define TCM_TRACEFORMAT_TRACE_IO_H

#include "base/compiler.h"

/* --- Statuses ------------------------------------------------------------- */

enum mtf_status {
    MTF_OK = 0,
    MTF_SYSTEM,       /* a system call failed; errno tells why */
    MTF_EMPTY,        /* no byte at all */
    MTF_NO_TRACE,     /* other magic */
    MTF_IS_RAW,       /* a raw trace in place of another kind */
    MTF_IS_SPOOL,     /* a spool in place of another kind */
    MTF_IS_PROCESSED, /* a processed trace in place of another kind */
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
    MTF_PRIVATE, /* events that were not in the spool are lost */
    MTF_GROWING  /* still being recorded */
};

/* Short text for a status, without the file's name, such as "damaged". */
const char *mtf_status_text(enum mtf_status status);

/* Words for a file that begins with these N bytes and is no trace of ours, such
   as "is a gzip file, ..."; NULL if it is unknown. mtf_foreign_magic recognizes
   only magic numbers; mtf_foreign_text also recognizes text, which is UTF-8
   without control characters. At most MTF_FOREIGN_BYTES are read; a caller that
   has that many passes them all, so that all readers use one word for a file.
 */
#define MTF_FOREIGN_BYTES ((size_t)512)
const char *mtf_foreign_text(const uint8_t *p, size_t n);
const char *mtf_foreign_magic(const uint8_t *p, size_t n);

/* Tells why a processed trace is empty: most often postprocess, in a pipe, had
   the name of a file for its output. */
#define MTF_EMPTY_TEXT                                                         \
    "is empty: what writes it wrote nothing, as postprocess does in a pipe "   \
    "if its OUT is a file; write 'postprocess t.lz4 - | lz4'"

/* Writes the reason for MTF_TOO_NEW into TEXT: BITS are those of VERSION's
   must-understand bits that the program does not know, KNOWN is the newest
   version it does. Returns TEXT. */
#define MTF_TOO_NEW_TEXT 96u
const char *mtf_too_new_text(char text[MTF_TOO_NEW_TEXT], unsigned version,
                             unsigned known, unsigned bits);

/* --- Sources and sinks ---------------------------------------------------- */

/* Takes N bytes; false: failed, and the sink gets no more. */
typedef bool mtf_sink(void *ctx, const void *data, size_t n);

enum mtf_source_result {
    MTF_SOURCE_DATA,  /* *GOT bytes, at least one */
    MTF_SOURCE_BREAK, /* bytes were lost here, which break_* describe; go on */
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
