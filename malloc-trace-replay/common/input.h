/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes of a trace from a file, a pipe or stdin, decompressed. LZ4 frames are
 * recognized by their magic; a broken frame costs the rest of that frame and is
 * reported as a break between the bytes before and after it. gzip, zstd, bzip2
 * and zip (of one file) are recognized too; in these, damage costs all that
 * follows.
 *
 * Invariants: memory is a fixed window (4 MiB and 64 KiB, the largest LZ4 block
 * with its header) and that of the decoder (unpack.h); time is linear in the
 * stored and decompressed bytes, also for hostile input.
 * Threads: one user at a time.
 */
#ifndef TOOL_COMMON_INPUT_H
#define TOOL_COMMON_INPUT_H

#include "base/compiler.h"
#include "traceformat/raw_reader.h"

struct tool_input;

/* Opens NAME; NULL or "-": stdin. NULL: errno tells why. */
struct tool_input *tool_input_open(const char *name);
/* Opens the descriptor FD, which belongs to the input from now on. */
struct tool_input *tool_input_from_fd(int fd, const char *name);
/*
 * Opens bytes that FROM produces from FILE_BYTES stored ones (0: unknown);
 * STORED tells how many of these it has used. tool_input_close calls END to
 * free FROM. NULL: out of memory.
 */
struct tool_input *
tool_input_of_source(struct mtf_source *from, const char *name,
                     uint64_t file_bytes,
                     uint64_t (*stored)(struct mtf_source *from),
                     void (*end)(struct mtf_source *from));
void tool_input_close(struct tool_input *in);

/* Returns the name for messages: the file's, or "standard input". */
const char *tool_input_name(const struct tool_input *in);

/* Shows up to 8 first bytes (decompressed) without taking them; only before the
   first tool_input_read. Returns their number: less than 8 if the input is
   shorter or broken. */
size_t tool_input_peek(struct tool_input *in, uint8_t first[8]);

/* Works like tool_input_peek, for up to N bytes, at most TOOL_INPUT_PEEK_MAX.
   *P is valid until the next read. */
#define TOOL_INPUT_PEEK_MAX ((size_t)16 << 10)
size_t tool_input_peek_bytes(struct tool_input *in, size_t n,
                             const uint8_t **p);

/* Tells whether the input begins like a raw trace; only before the first
   read. */
bool tool_input_is_raw(struct tool_input *in);

/* Returns mtf_foreign_text of the first bytes; only before the first read. */
const char *tool_input_foreign_text(struct tool_input *in);

/* Reads up to N bytes, like read(2). After MTF_SOURCE_BREAK and
   MTF_SOURCE_ERROR, tool_input_source() has the details; reading may go on
   after a break. */
enum mtf_source_result tool_input_read(struct tool_input *in, void *buf,
                                       size_t n, size_t *got);
/* Returns the input as a source for mtf_raw_reader and others. */
struct mtf_source *tool_input_source(struct tool_input *in);

/* Takes only the first LIMIT stored bytes, as if the file ended there. */
void tool_input_limit(struct tool_input *in, uint64_t limit);

/* Follows a trace that is being written: at the end of a file, or while a pipe
   is empty, calls WAIT until there are more bytes, or until WAIT returns false,
   which ends the input. Only before the first read; peeking is allowed. */
void tool_input_follow(struct tool_input *in, bool (*wait)(void *ctx),
                       void *ctx);

/* Tells whether the input is compressed; known after the first peek or read. */
bool tool_input_is_compressed(const struct tool_input *in);
/* Returns the compressed unit for messages: "LZ4 frame", or a
   tool_packing_name. */
const char *tool_input_frame_name(const struct tool_input *in);
/* MTF_OK, or MTF_NO_LZ4, MTF_SYSTEM, MTF_NO_MEMORY after MTF_SOURCE_ERROR. */
enum mtf_status tool_input_status(const struct tool_input *in);
/* Bytes taken so far: as stored, and decompressed. */
uint64_t tool_input_stored_bytes(const struct tool_input *in);
uint64_t tool_input_bytes(const struct tool_input *in);
/* Tells whether the input is a regular file. */
bool tool_input_is_file(const struct tool_input *in);
/* Stored size of a regular file or of a source that knows it; else 0. */
uint64_t tool_input_file_size(const struct tool_input *in);

/* --- Reading ahead -------------------------------------------------------- */

/*
 * Thread that reads and decompresses an input ahead, so that the thread that
 * uses the bytes has a processor to itself.
 *
 * Invariants: bytes, breaks and errors are those of the input, in the same
 * order. At most 1 MiB is read ahead. A reader that sleeps for input wakes when
 * a stop is requested (common/stop.h), and finds the end of the input.
 * Threads: one user at a time; meanwhile the input belongs to the thread.
 */
struct tool_ahead;

/* Starts the thread where it helps: for LZ4 frames with a second processor, and
   for pipes and devices always. Only before the first read of IN. NULL: it does
   not help or could not start, and the caller reads IN itself. */
struct tool_ahead *tool_ahead_start(struct tool_input *in);
/* Ends the thread; the caller may close IN then. A may be NULL. */
void tool_ahead_stop(struct tool_ahead *a);

struct mtf_source *tool_ahead_source(struct tool_ahead *a);
/* Bytes that the source gave: decompressed, and as stored. */
uint64_t tool_ahead_bytes(const struct tool_ahead *a);
uint64_t tool_ahead_stored_bytes(const struct tool_ahead *a);

#endif
