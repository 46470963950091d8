/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Call sites: coding of the site of an allocation in a stream, and definitions
 * of sites, which both formats share.
 *
 * A site is a number that names a frame: a return address, and the site of the
 * frame that called it, its parent (0: none, or not recorded). So the chain of
 * parents is the stack, and stacks that begin alike share their definitions. A
 * frame may be a line of an interpreted program: its parent is the line that
 * called it, and the parent of the outermost line is the native frame below.
 *
 * SITE in a stream: the site of all later allocations (and frees, if the header
 * has MTF_SETTING_FREE_SITES), up to the next SITE or the end of the buffer.
 * The argument is 0 if this site followed the last one the time before, too;
 * else zigzag(site - last), which is never 0.
 *
 * Invariants: decoders accept any bytes; a site is below MTF_SITE_LIMIT.
 */
#ifndef TCM_TRACEFORMAT_SITE_CODEC_H
#define TCM_TRACEFORMAT_SITE_CODEC_H

#include "base/check.h"
#include "base/compiler.h"
#include "traceformat/varint.h"

#include <string.h>

/* Sites, modules and texts are numbered from 1. */
#define MTF_SITE_NONE   0u
#define MTF_SITE_LIMIT  ((uint32_t)1 << 24)
#define MTF_SITE_FOLLOW 256u

/* Longest SITE event of a site below the limit. */
#define MTF_SITE_BYTES 5u

/* State of a stream; all 0 at the start of a buffer. */
struct mtf_site_state {
    uint32_t last;
    uint32_t next[MTF_SITE_FOLLOW]; /* by the low bits of the site before */
};

static TCM_ALWAYS_INLINE uint64_t mtf_site_argument(struct mtf_site_state *s,
                                                    uint32_t site) {
    uint32_t *next = &s->next[s->last % MTF_SITE_FOLLOW];
    TCM_ASSERT(site != s->last && site < MTF_SITE_LIMIT);
    uint64_t argument =
        *next == site ? 0 : mtf_zigzag((int64_t)site - (int64_t)s->last);
    *next = site;
    s->last = site;
    return argument;
}

/* Decodes a site; it is in s->last, too. A site out of range becomes none. */
static inline uint32_t mtf_site_decode(struct mtf_site_state *s,
                                       uint64_t argument) {
    uint32_t *next = &s->next[s->last % MTF_SITE_FOLLOW];
    uint64_t site = argument == 0
                        ? *next
                        : (uint64_t)s->last + (uint64_t)mtf_unzigzag(argument);
    if (site >= MTF_SITE_LIMIT)
        site = MTF_SITE_NONE;
    *next = (uint32_t)site;
    s->last = (uint32_t)site;
    return s->last;
}

/* Kind of a definition: the first byte of a SITE_DEF. */
enum mtf_site_def_kind {
    MTF_SITE_DEF_FRAME = 1,  /* u32 site, u32 parent, u32 module, u64 address */
    MTF_SITE_DEF_MODULE = 2, /* u32 module, u64 start, u64 end, u64 bias, u8
                                length of the build id, build id, path */
    MTF_SITE_DEF_PATH = 3,   /* u32 module: more of its path */
    MTF_SITE_DEF_LINE = 4,   /* u32 site, u32 parent, u8 enum mtf_language, u32
                                text of the file, u32 line, u32 text of the
                                function */
    MTF_SITE_DEF_TEXT = 5,   /* u32 text, u32 offset, bytes of it from there */
    MTF_SITE_DEF_MODE = 6    /* u8 enum mtf_site_mode, u8 1: frees have sites,
                                u32 most frames, u64 mean distance of samples in
                                bytes */
};

/* Interpreter of a line. */
enum mtf_language {
    MTF_LANGUAGE_RUBY = 1,
    MTF_LANGUAGE_PERL = 2,
    MTF_LANGUAGE_PYTHON = 3
};

/* Choice of the call sites of a recording. */
enum mtf_site_mode {
    MTF_SITE_MODE_CALLER = 1,
    MTF_SITE_MODE_STACK = 2,
    MTF_SITE_MODE_SAMPLE = 3, /* allocations that are not sampled have site 0 */
    MTF_SITE_MODE_LANG = 4
};

/* Addresses of frames without module. Other addresses are of code that lies in
   no file. */
enum mtf_site_address {
    MTF_SITE_UNKNOWN = 0, /* the stack could not be walked further */
    MTF_SITE_CUT = 1      /* the stack is deeper than the recorded frames */
};

#define MTF_SITE_FRAME_BYTES 21u
#define MTF_SITE_LINE_BYTES  22u
#define MTF_SITE_MODE_BYTES  15u
/* Longest text. */
#define MTF_SITE_TEXT_MAX 4096u
#define MTF_BUILD_ID_MAX  32u

/* A decoded definition. */
struct mtf_site_def {
    uint8_t kind; /* enum mtf_site_def_kind: tells which fields are set */
    uint8_t build_id_length;
    uint32_t site, parent, module;
    uint64_t address;
    uint64_t start, end; /* of the module in memory */
    uint64_t bias;       /* the address minus this is the address in its file */
    const uint8_t *build_id;
    const uint8_t *path; /* not terminated; MODULE, PATH and TEXT */
    uint32_t path_length;
    uint8_t language;
    uint32_t file, function; /* texts; 0: not known */
    uint32_t line;
    uint32_t text, offset;
    uint8_t mode;
    bool free_sites;
    uint32_t depth;
    uint64_t mean;
};

/* Writes a definition, at most CAP bytes; returns their number. *LEFT: bytes of
   a path or text that do not fit; they go into further PATHs or TEXTs. */
unsigned mtf_site_def_put(uint8_t *p, unsigned cap,
                          const struct mtf_site_def *def, unsigned *left);
/* Reads a definition. false: no definition that this reader knows, or an
   invalid one. */
bool mtf_site_def_get(const uint8_t *p, size_t length,
                      struct mtf_site_def *def);

#endif
