/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes are gathered in buffers of a fixed size. The writing thread puts out
 * full buffers; without that thread, each is put out at once. Frames consist of
 * whole buffers, so that they end at the same bytes in both cases; a buffer
 * that is not full is the last of its frame.
 */
#include "common/output.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_file.h"
#include "common/files.h"
#include "common/queue.h"
#include "traceformat/compress.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFERS       4u
#define BUFFER_BYTES  ((size_t)256 << 10)
#define FRAME_BUFFERS (TOOL_OUTPUT_FRAME / BUFFER_BYTES)

TCM_STATIC_ASSERT(TOOL_OUTPUT_FRAME % BUFFER_BYTES == 0 &&
                      BUFFER_BYTES % MTF_COMPRESS_PIECE == 0,
                  "frames are whole buffers");

struct tool_output {
    int fd;
    struct tool_file_new file;
    uint32_t error; /* errno of the first failure; see tool_output_error */
    char *name;
    uint8_t *buffer; /* being filled; NULL: writing failed */
    size_t used;
    struct tool_queue queue;
    bool threaded;
    pthread_t thread;
    /* LZ4; used by the thread that puts out */
    struct mtf_compress *compress; /* NULL: plain */
    void *memory;
    uint8_t *room;
    unsigned frame_buffers; /* in the current frame; 0: no frame is begun */
};

/* --- Putting out ---------------------------------------------------------- */

static void put(struct tool_output *out, const void *data, size_t n) {
    if (tool_output_error(out) == 0 && n != 0 &&
        !tcm_io_write_all(out->fd, data, n))
        tcm_store_release(&out->error, (uint32_t)errno);
}

/* Puts out the N bytes that a function of mtf_compress left in OUT->room. */
static void put_compressed(struct tool_output *out, size_t n) {
    if (n == MTF_COMPRESS_ERROR)
        tcm_store_release(&out->error, (uint32_t)EIO);
    else
        put(out, out->room, n);
}

static void end_frame(struct tool_output *out) {
    if (out->frame_buffers != 0)
        put_compressed(
            out, mtf_compress_end(out->compress, out->room, MTF_COMPRESS_ROOM));
    out->frame_buffers = 0;
}

static void put_buffer(struct tool_output *out, const uint8_t *data, size_t n) {
    if (out->compress == NULL) {
        put(out, data, n);
        return;
    }
    TCM_ASSERT(n <= BUFFER_BYTES && out->frame_buffers < FRAME_BUFFERS);
    if (out->frame_buffers == 0)
        put_compressed(out, mtf_compress_begin(out->compress, out->room,
                                               MTF_COMPRESS_ROOM));
    bool last = n < BUFFER_BYTES;
    while (n != 0) {
        size_t piece = n < MTF_COMPRESS_PIECE ? n : MTF_COMPRESS_PIECE;
        put_compressed(out, mtf_compress_add(out->compress, data, piece,
                                             out->room, MTF_COMPRESS_ROOM));
        data += piece;
        n -= piece;
    }
    if (++out->frame_buffers == FRAME_BUFFERS || last)
        end_frame(out);
}

static void *put_all(void *argument) {
    struct tool_output *out = argument;
    for (;;) {
        size_t n;
        /* Loaded before the buffer: buffers are given before the close, so a
           queue that was closed here and then has no buffer is at its end. */
        bool closed = tool_queue_is_closed(&out->queue);
        const uint8_t *data = tool_queue_full(&out->queue, &n, UINT64_MAX);
        if (data != NULL) {
            put_buffer(out, data, n);
            tool_queue_done(&out->queue);
        } else if (closed) {
            return NULL;
        }
    }
}

/* --- Opening and closing -------------------------------------------------- */

static void release(struct tool_output *out) {
    tool_queue_fini(&out->queue);
    free(out->name);
    free(out->memory);
    free(out->room);
    free(out);
}

static bool prepare(struct tool_output *out, const char *name,
                    enum tool_output_form form) {
    out->name = strdup(tool_file_is_stdout(name) ? "standard output" : name);
    if (out->name == NULL ||
        !tool_queue_init(&out->queue, BUFFERS, BUFFER_BYTES))
        return false;
    if (form == TOOL_OUTPUT_PLAIN)
        return true;
    out->memory = aligned_alloc(64, MTF_COMPRESS_SMALL_MEMORY);
    out->room = malloc(MTF_COMPRESS_ROOM);
    if (out->memory == NULL || out->room == NULL)
        return false;
    out->compress = mtf_compress_init(out->memory, MTF_COMPRESS_SMALL_MEMORY);
    if (out->compress == NULL)
        return false;
    mtf_compress_make_small(out->compress);
    return true;
}

struct tool_output *tool_output_open(const char *name,
                                     enum tool_output_form form) {
    struct tool_output *out = calloc(1, sizeof(*out));
    if (out == NULL)
        return NULL;
    errno = ENOMEM;
    if (!prepare(out, name, form))
        goto failed;
    out->fd = STDOUT_FILENO;
    out->file.folder = -1;
    if (!tool_file_is_stdout(name))
        out->fd = tool_file_open_new(&out->file, name);
    if (out->fd < 0)
        goto failed;
    out->buffer = tool_queue_free(&out->queue);
    out->threaded =
        tool_thread_helps() && tool_thread_start(&out->thread, put_all, out);
    return out;
failed:;
    int error = errno;
    release(out);
    errno = error;
    return NULL;
}

/* Gives the current buffer, full or the last one, and gets a free one. */
static void next_buffer(struct tool_output *out) {
    size_t n = out->used;
    TCM_ASSERT(n != 0 && n <= BUFFER_BYTES);
    out->used = 0;
    tool_queue_give(&out->queue, n);
    if (!out->threaded) {
        const uint8_t *data = tool_queue_full(&out->queue, &n, 0);
        put_buffer(out, data, n);
        tool_queue_done(&out->queue);
    }
    out->buffer = tool_queue_free(&out->queue);
}

bool tool_output_write(struct tool_output *out, const void *data, size_t n) {
    const uint8_t *p = data;
    while (n != 0 && tool_output_error(out) == 0) {
        TCM_ASSERT(out->used < BUFFER_BYTES && out->buffer != NULL);
        size_t piece = tcm_min_u64(n, BUFFER_BYTES - out->used);
        memcpy(out->buffer + out->used, p, piece);
        out->used += piece;
        p += piece;
        n -= piece;
        if (out->used == BUFFER_BYTES)
            next_buffer(out);
    }
    errno = tool_output_error(out);
    return errno == 0;
}

bool tool_output_wait(struct tool_output *out, int ms) {
    struct pollfd p = {.fd = out->fd};
    if (out->used != 0)
        next_buffer(out);
    if (poll(&p, 1, ms) == 1 && tool_output_error(out) == 0)
        tcm_store_release(&out->error, (uint32_t)EPIPE);
    errno = tool_output_error(out);
    return errno == 0;
}

static void finish(struct tool_output *out) {
    if (out->used != 0)
        next_buffer(out);
    if (out->threaded) {
        tool_queue_close(&out->queue);
        pthread_join(out->thread, NULL);
    }
    end_frame(out);
    TCM_ASSERT(out->frame_buffers == 0 && out->used == 0);
    /* Some file systems report a full disk only here. */
    if (close(out->fd) != 0 && out->error == 0)
        out->error = (uint32_t)errno;
}

bool tool_output_close(struct tool_output *out) {
    finish(out);
    if (out->error == 0 && !tool_file_keep(&out->file))
        out->error = (uint32_t)errno;
    tool_file_drop(&out->file);
    int error = (int)out->error;
    release(out);
    errno = error;
    return error == 0;
}

void tool_output_drop(struct tool_output *out) {
    finish(out);
    tool_file_drop(&out->file);
    release(out);
}

const char *tool_output_name(const struct tool_output *out) {
    return out->name;
}

int tool_output_error(const struct tool_output *out) {
    return (int)tcm_load_acquire(&out->error);
}
