/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unpacks gzip members, zstd frames, bzip2 streams and zip files of one file,
 * with zlib, libzstd and libbz2 if configure found them.
 *
 * Of a zip file with several files the first is given, and the rest is reported
 * as damage. Folders are skipped.
 *
 * Invariants: memory is that of the library, at most 128 MiB for zstd's window.
 * A call does work in proportion to the bytes that it takes and gives.
 * Threads: one user at a time.
 */
#ifndef TOOL_COMMON_UNPACK_H
#define TOOL_COMMON_UNPACK_H

#include "base/compiler.h"
#include "traceformat/trace_io.h"

enum tool_packing {
    TOOL_PACKING_NONE,
    TOOL_PACKING_GZIP,
    TOOL_PACKING_ZSTD,
    TOOL_PACKING_BZIP2,
    TOOL_PACKING_ZIP
};

/* Bytes at the start of a file that show what it is packed in. */
#define TOOL_PACKING_BYTES 16u

/* By the N first bytes. */
enum tool_packing tool_packing_of(const uint8_t *p, size_t n);
/* "gzip member", "zstd frame", "bzip2 stream", "zip file". */
const char *tool_packing_name(enum tool_packing packing);

struct tool_unpack;

/* Begins; *MADE is NULL unless MTF_OK is returned. MTF_NO_ZLIB, MTF_NO_ZSTD,
   MTF_NO_BZ2: the library is not built in; MTF_NO_MEMORY. */
enum mtf_status tool_unpack_new(struct tool_unpack **made,
                                enum tool_packing packing);
void tool_unpack_free(struct tool_unpack *u);

/*
 * Takes up to *TAKEN bytes from FROM and gives up to *GOT bytes to TO; both
 * become what was done, which may be 0 of each when more input is needed.
 * AT_END: none comes after these. MTF_OK; MTF_CUT or MTF_DAMAGED: nothing comes
 * any more; MTF_NO_MEMORY.
 */
enum mtf_status tool_unpack_some(struct tool_unpack *u, const uint8_t *from,
                                 size_t *taken, bool at_end, void *to,
                                 size_t *got);
/* All that was taken is out, and whole. */
bool tool_unpack_is_done(const struct tool_unpack *u);

#endif
