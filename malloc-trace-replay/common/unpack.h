/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decompresses gzip members, zstd frames, bzip2 streams and zip files of one
 * file: by zlib, libzstd and libbz2 where they are built in, else by the
 * programs gzip (zip too), zstd and bzip2 as children.
 *
 * Of a zip file with several files the first is given, and what follows is
 * damage. Folders are passed over.
 *
 * Invariants: memory is that of the library, at most 128 MiB of zstd's window;
 * a child is waited for.
 * Threads: one user at a time.
 */
#ifndef TOOL_COMMON_UNPACK_H
#define TOOL_COMMON_UNPACK_H

#include "base/compiler.h"
#include "traceformat/trace_status.h"

enum tool_packing {
    TOOL_PACKING_NONE,
    TOOL_PACKING_GZIP,
    TOOL_PACKING_ZSTD,
    TOOL_PACKING_BZIP2,
    TOOL_PACKING_ZIP
};

/* Bytes that tell what a file is packed in. */
#define TOOL_PACKING_BYTES 16u

/* By the N first bytes. */
enum tool_packing tool_packing_of(const uint8_t *p, size_t n);
/* "gzip member", "zstd frame", "bzip2 stream", "zip file". */
const char *tool_packing_name(enum tool_packing packing);

struct tool_unpack;

/* NULL: there is neither library nor program, errno is ENOENT; or errno says
   what else. */
struct tool_unpack *tool_unpack_new(enum tool_packing packing);
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
