/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unpacks gzip members, zstd frames, bzip2 streams and zip files that hold one
 * file, with zlib, libzstd and libbz2 if configure found them. A zip file with
 * several files gives the first one, and the rest is reported as damage;
 * folders in it are skipped.
 *
 * Invariants: memory is what the library takes, at most 128 MiB for zstd's
 * window. A call's work is proportional to the bytes that it takes and gives.
 * Threads: one user at a time.
 */
#ifndef TOOL_COMMON_UNPACK_H
#define TOOL_COMMON_UNPACK_H

#include "base/compiler.h"
#include "traceformat/trace_io.h"

/* Libraries of this build; configure defines those that it found as 1. */
#ifndef TCM_HAVE_ZLIB
#define TCM_HAVE_ZLIB 0
#endif
#ifndef TCM_HAVE_ZSTD
#define TCM_HAVE_ZSTD 0
#endif
#ifndef TCM_HAVE_BZ2
#define TCM_HAVE_BZ2 0
#endif

enum tool_packing {
    TOOL_PACKING_NONE,
    TOOL_PACKING_GZIP,
    TOOL_PACKING_ZSTD,
    TOOL_PACKING_BZIP2,
    TOOL_PACKING_ZIP
};

/* Length of the start of a file that shows its packing. */
#define TOOL_PACKING_BYTES 16u

/* Tells the packing of a file from its first N bytes. */
enum tool_packing tool_packing_of(const uint8_t *p, size_t n);
/* "gzip member", "zstd frame", "bzip2 stream", "zip file". */
const char *tool_packing_name(enum tool_packing packing);

struct tool_unpack;

/* Makes a decoder. Returns MTF_OK; or, with *MADE NULL, MTF_NO_MEMORY, or
   MTF_NO_ZLIB, MTF_NO_ZSTD or MTF_NO_BZ2 if this build lacks the library. */
enum mtf_status tool_unpack_new(struct tool_unpack **made,
                                enum tool_packing packing);
void tool_unpack_free(struct tool_unpack *u);

/*
 * Takes up to *TAKEN bytes from FROM and gives up to *GOT bytes to TO; updates
 * both, to 0 and 0 where it needs more input. AT_END: these are the last bytes.
 * Returns MTF_OK; or MTF_CUT, MTF_DAMAGED or MTF_NO_MEMORY, which end the
 * stream.
 */
enum mtf_status tool_unpack_some(struct tool_unpack *u, const uint8_t *from,
                                 size_t *taken, bool at_end, void *to,
                                 size_t *got);
/* Tells whether the bytes taken so far end with a whole member or frame. */
bool tool_unpack_is_done(const struct tool_unpack *u);

#endif
