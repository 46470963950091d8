/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How reading a trace can go wrong, and the words for it.
 */
#ifndef TCM_TRACEFORMAT_TRACE_STATUS_H
#define TCM_TRACEFORMAT_TRACE_STATUS_H

#include "base/compiler.h"

enum mtf_status {
    MTF_OK = 0,
    MTF_SYSTEM,       /* a system call failed; errno says why */
    MTF_EMPTY,        /* no byte at all */
    MTF_NO_TRACE,     /* other magic */
    MTF_IS_RAW,       /* a raw trace where another kind was asked for */
    MTF_IS_SPOOL,     /* a spool, likewise */
    MTF_IS_PROCESSED, /* a processed trace, likewise */
    MTF_TOO_NEW,      /* of a later version, or with its must-understand bits */
    MTF_NO_LZ4,       /* compressed, and this build has no LZ4 */
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

/* What begins with these N bytes and is no trace of ours, e.g. "is a gzip file,
   ..."; NULL if it is unknown. The first also recognizes text, that is UTF-8
   without control characters; the second only what has a magic number. They
   look at no more than MTF_FOREIGN_BYTES; a caller that has as many passes them
   all, so that all readers call a file the same. */
#define MTF_FOREIGN_BYTES ((size_t)512)
const char *mtf_foreign_text(const uint8_t *p, size_t n);
const char *mtf_foreign_magic(const uint8_t *p, size_t n);

/* What MTF_TOO_NEW says more exactly, into TEXT: BITS are those of VERSION's
   must-understand bits that the program does not know, KNOWN is the newest
   version it does. Returns TEXT. */
#define MTF_TOO_NEW_TEXT 96u
const char *mtf_too_new_text(char text[MTF_TOO_NEW_TEXT], unsigned version,
                             unsigned known, unsigned bits);

#endif
