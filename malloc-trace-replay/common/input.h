/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes of a trace from a file, a pipe or stdin. LZ4 frames are recognized by
 * their magic and decompressed; a broken frame costs the rest of that frame and
 * is reported as a break between the bytes before and after it. gzip,
 * zstd, bzip2 and zip (of one file) are recognized and decompressed too; a
 * broken one costs all that follows.
 *
 * Invariants: memory is a fixed window (4 MiB and 64 KiB, the largest LZ4 block
 * with its head) and what the decoder has itself (unpack.h); time is linear in
 * the stored and decompressed bytes, also for hostile input.
 * Threads: one user at a time.
 */
#ifndef TOOL_COMMON_INPUT_H
#define TOOL_COMMON_INPUT_H

#include "base/compiler.h"
#include "traceformat/raw_reader.h"

struct tool_input;

/* NAME NULL or "-": stdin. NULL with errno set on failure. */
struct tool_input *tool_input_open(const char *name);
/* Opens a descriptor, which becomes the input's. */
struct tool_input *tool_input_from_fd(int fd, const char *name);
/* Bytes that FROM makes of stored ones: FILE_BYTES in all (0: unknown), of
   which STORED tells how many were used. END frees FROM when the input is
   closed. NULL: out of memory. */
struct tool_input *
tool_input_of_source(struct mtf_source *from, const char *name,
                     uint64_t file_bytes,
                     uint64_t (*stored)(struct mtf_source *from),
                     void (*end)(struct mtf_source *from));
void tool_input_close(struct tool_input *in);

/* For messages: the file's name, "standard input" for stdin. */
const char *tool_input_name(const struct tool_input *in);

/* Up to 8 first bytes (decompressed) without taking them; only before the first
   tool_input_read. Fewer than asked: the input is that short or broken. */
size_t tool_input_peek(struct tool_input *in, uint8_t first[8]);

/* The same of up to N (at most TOOL_INPUT_LOOK) bytes; P is good until
   something is read. How many they are. */
#define TOOL_INPUT_LOOK ((size_t)16 << 10)
size_t tool_input_look(struct tool_input *in, size_t n, const uint8_t **p);

/* Tells whether it begins as a raw trace does; likewise only then. */
bool tool_input_is_raw(struct tool_input *in);

/* mtf_foreign_text of it; likewise only then. */
const char *tool_input_foreign_text(struct tool_input *in);

/* Like read(2). On MTF_SOURCE_BREAK and _ERROR the fields of
   tool_input_source() tell more; reading goes on after a break. */
enum mtf_source_result tool_input_read(struct tool_input *in, void *buf,
                                       size_t n, size_t *got);
/* The same as a source for mtf_raw_reader and its like. */
struct mtf_source *tool_input_source(struct tool_input *in);

/* Takes only the first LIMIT stored bytes, as if the file ended there. */
void tool_input_limit(struct tool_input *in, uint64_t limit);

/* Follows what is being written: when there are no bytes, at the end of a file
   or for now in a pipe, WAIT is called, until there are some or it returns
   false, which ends the input. Before anything is read; peeking is fine. */
void tool_input_follow(struct tool_input *in, bool (*wait)(void *ctx),
                       void *ctx);

bool tool_input_is_compressed(const struct tool_input *in);
/* For messages: what it is compressed in, "LZ4 frame", or
   tool_packing_name. */
const char *tool_input_frame_name(const struct tool_input *in);
/* MTF_OK, or MTF_NO_LZ4, MTF_SYSTEM, MTF_NO_MEMORY after MTF_SOURCE_ERROR. */
enum mtf_status tool_input_status(const struct tool_input *in);
/* Bytes taken so far: as stored, and decompressed. */
uint64_t tool_input_stored_bytes(const struct tool_input *in);
uint64_t tool_input_bytes(const struct tool_input *in);
/* A regular file; its size, else 0. */
bool tool_input_is_file(const struct tool_input *in);
uint64_t tool_input_file_size(const struct tool_input *in);

/* --- Reading ahead -------------------------------------------------------- */

/*
 * Reads a tool_input ahead on a thread of its own, decompression included, so
 * that the thread that uses the bytes has a processor to itself.
 *
 * Invariants: the bytes, breaks and errors are those of the input, in the same
 * order. At most 1 MiB is read ahead. A reader that sleeps for input wakes when
 * a stop is asked for (common/stop.h) and finds the end.
 * Threads: one user at a time; the input belongs to the thread meanwhile.
 */
struct tool_ahead;

/* Starts if that is of use: for LZ4 frames if there is a second processor, for
   pipes and the like always. NULL: it is not, or cannot be; IN is read
   directly. Before anything is read of it. */
struct tool_ahead *tool_ahead_start(struct tool_input *in);
/* Ends the thread; IN is the caller's again, to be closed. NULL: nothing. */
void tool_ahead_stop(struct tool_ahead *a);

struct mtf_source *tool_ahead_source(struct tool_ahead *a);
/* Bytes that the source gave, as tool_input_bytes and _stored_bytes. */
uint64_t tool_ahead_bytes(const struct tool_ahead *a);
uint64_t tool_ahead_stored_bytes(const struct tool_ahead *a);

#endif
