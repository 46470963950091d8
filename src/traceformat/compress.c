/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames are written here, around blocks that liblz4's functions for blocks
 * compress, because their state can lie in memory of the caller in every
 * version of liblz4; the state of its functions for frames cannot before 1.9.4.
 *
 * The memory: struct mtf_compress, the window, the state of liblz4.
 *
 *     window   | earlier blocks of the frame | current block | free |
 *              0                           start            end
 */
#include "traceformat/compress.h"

#include "base/bits.h"
#include "base/check.h"

#include <string.h>

#if TCM_HAVE_LZ4

#include <lz4.h>
#include <lz4hc.h>

#define BLOCK_MAX MTF_COMPRESS_PIECE
/* Bytes before a block that it may refer to. */
#define HISTORY ((size_t)64 << 10)
/* Room for another block beside history and block: the history is moved to the
   front after every 64 KiB, not after every block. */
#define WINDOW (HISTORY + 2 * BLOCK_MAX)

/* Magic; version 1, linked blocks, no checksums; blocks of at most 64 KiB; the
   second byte of XXH32 of the two bytes before. */
static const uint8_t frame_head[7] = {0x04, 0x22, 0x4D, 0x18, 0x40, 0x40, 0xC0};
/* Before a block stands its length, with this bit if it is not compressed;
   length 0 ends the frame. */
#define BLOCK_HEAD  ((size_t)4)
#define BLOCK_PLAIN 0x80000000u

TCM_STATIC_ASSERT(2 * BLOCK_HEAD + LZ4_COMPRESSBOUND(BLOCK_MAX) <=
                      MTF_COMPRESS_ROOM,
                  "the end of a frame may write a block");

/* A frame of at least DENSE_BYTES that shrank by less than a 64th is dense: the
   next frame is searched with steps of WIDE_STEPS. A stream of random sizes has
   nothing to find, and a program makes such streams for longer than a frame.
   Wide steps still notice a frame that does compress. */
#define DENSE_BYTES ((uint64_t)256 << 10)
#define WIDE_STEPS  65

/* Level of small frames, which searches many places for what repeats. A frame
   of DENSE_BYTES that did not shrink to a half shows content for which that
   costs more than it saves. */
#define SMALL_LEVEL 6
#define SMALL_RATIO 2

struct mtf_compress {
    size_t size; /* of the memory */
    uint8_t *window;
    size_t start, end; /* of the current block in the window */
    union {
        LZ4_stream_t *fast;
        LZ4_streamHC_t *small;
    } state;
    uint64_t frame_in, frame_out; /* bytes of the frame so far */
    int steps;
    bool in_frame;
    bool is_small;    /* frames may be small */
    bool frame_small; /* the current one is */
};

#define STATE_OFFSET (sizeof(struct mtf_compress) + WINDOW)

TCM_STATIC_ASSERT(STATE_OFFSET + sizeof(LZ4_stream_t) <= MTF_COMPRESS_MEMORY,
                  "the usual state has room");
TCM_STATIC_ASSERT(STATE_OFFSET + sizeof(LZ4_streamHC_t) <=
                      MTF_COMPRESS_SMALL_MEMORY,
                  "the state for small frames has room");
TCM_STATIC_ASSERT(STATE_OFFSET % _Alignof(LZ4_stream_t) == 0 &&
                      STATE_OFFSET % _Alignof(LZ4_streamHC_t) == 0,
                  "both are aligned");

bool mtf_compress_available(void) {
    return true;
}

struct mtf_compress *mtf_compress_init(void *memory, size_t size) {
    if (size < MTF_COMPRESS_MEMORY)
        return NULL;
    struct mtf_compress *c = memory;
    memset(c, 0, sizeof(*c));
    c->size = size;
    c->window = (uint8_t *)memory + sizeof(*c);
    c->state.fast = (void *)((uint8_t *)memory + STATE_OFFSET);
    return c;
}

void mtf_compress_make_small(struct mtf_compress *c) {
    TCM_ASSERT(c->size >= MTF_COMPRESS_SMALL_MEMORY);
    c->is_small = true;
}

/* Compresses the N bytes of the current block to OUT. Returns their length
   there; 0: not less than N. OUT has room for what cannot be compressed all the
   same: liblz4 before 1.9.2 may write beyond the limit that it is given. */
static size_t compress_block(struct mtf_compress *c, char *out, int n) {
    const char *from = (const char *)c->window + c->start;
    int length =
        c->frame_small
            ? LZ4_compress_HC_continue(c->state.small, from, out, n, n - 1)
            : LZ4_compress_fast_continue(c->state.fast, from, out, n, n - 1,
                                         c->steps);
    TCM_ASSERT(length >= 0 && length <= LZ4_COMPRESSBOUND(n));
    return length < n ? (size_t)length : 0;
}

/* Makes room for another block behind the blocks that it may refer to. */
static void move_history(struct mtf_compress *c) {
    char *to = (char *)c->window;
    int kept = c->frame_small ? LZ4_saveDictHC(c->state.small, to, (int)HISTORY)
                              : LZ4_saveDict(c->state.fast, to, (int)HISTORY);
    TCM_ASSERT(kept >= 0 && (size_t)kept <= HISTORY);
    c->start = c->end = (size_t)kept;
}

size_t mtf_compress_flush(struct mtf_compress *c, void *out, size_t room) {
    TCM_ASSERT(c->in_frame && c->end - c->start <= BLOCK_MAX);
    size_t n = c->end - c->start;
    if (n == 0)
        return 0;
    if (room < MTF_COMPRESS_ROOM)
        return MTF_COMPRESS_ERROR;
    uint8_t *p = (uint8_t *)out + BLOCK_HEAD;
    size_t length = compress_block(c, (char *)p, (int)n);
    uint32_t head = (uint32_t)length;
    if (length == 0) {
        memcpy(p, c->window + c->start, n);
        length = n;
        head = (uint32_t)n | BLOCK_PLAIN;
    }
    memcpy(out, &head, sizeof(head));
    c->start = c->end;
    if (c->start + BLOCK_MAX > WINDOW)
        move_history(c);
    c->frame_out += BLOCK_HEAD + length;
    return BLOCK_HEAD + length;
}

size_t mtf_compress_begin(struct mtf_compress *c, void *out, size_t room) {
    bool long_enough = c->frame_in >= DENSE_BYTES;
    bool dense = long_enough && c->frame_out + c->frame_in / 64 > c->frame_in;
    bool shrank = !long_enough || c->frame_out <= c->frame_in / SMALL_RATIO;
    if (room < MTF_COMPRESS_ROOM)
        return MTF_COMPRESS_ERROR;
    c->steps = dense ? WIDE_STEPS : 1;
    c->frame_small = c->is_small && shrank;
    c->start = c->end = 0;
    if (c->frame_small)
        LZ4_resetStreamHC(c->state.small, SMALL_LEVEL);
    else
        LZ4_resetStream(c->state.fast);
    c->in_frame = true;
    c->frame_in = 0;
    c->frame_out = sizeof(frame_head);
    memcpy(out, frame_head, sizeof(frame_head));
    return sizeof(frame_head);
}

size_t mtf_compress_add(struct mtf_compress *c, const void *data, size_t n,
                        void *out, size_t room) {
    TCM_ASSERT(c->in_frame);
    if (n > MTF_COMPRESS_PIECE)
        return MTF_COMPRESS_ERROR;
    size_t now = tcm_min_u64(n, BLOCK_MAX - (c->end - c->start));
    size_t written = 0;
    memcpy(c->window + c->end, data, now);
    c->end += now;
    c->frame_in += n;
    if (c->end - c->start == BLOCK_MAX)
        written = mtf_compress_flush(c, out, room);
    if (written == MTF_COMPRESS_ERROR)
        return written;
    memcpy(c->window + c->end, (const uint8_t *)data + now, n - now);
    c->end += n - now;
    TCM_ASSERT(c->end - c->start < BLOCK_MAX && c->end <= WINDOW);
    return written;
}

size_t mtf_compress_end(struct mtf_compress *c, void *out, size_t room) {
    size_t n = mtf_compress_flush(c, out, room);
    c->in_frame = false;
    if (n == MTF_COMPRESS_ERROR || room < MTF_COMPRESS_ROOM)
        return MTF_COMPRESS_ERROR;
    memset((uint8_t *)out + n, 0, BLOCK_HEAD);
    c->frame_out += BLOCK_HEAD;
    return n + BLOCK_HEAD;
}

#else

struct mtf_compress {
    size_t size;
};

bool mtf_compress_available(void) {
    return false;
}

struct mtf_compress *mtf_compress_init(void *memory, size_t size) {
    if (size < MTF_COMPRESS_MEMORY)
        return NULL;
    struct mtf_compress *c = memory;
    c->size = size;
    return c;
}

void mtf_compress_make_small(struct mtf_compress *c) {
    (void)c;
}

size_t mtf_compress_begin(struct mtf_compress *c, void *out, size_t room) {
    (void)c;
    (void)out;
    (void)room;
    return 0;
}

size_t mtf_compress_add(struct mtf_compress *c, const void *data, size_t n,
                        void *out, size_t room) {
    (void)c;
    if (n > MTF_COMPRESS_PIECE || n > room)
        return MTF_COMPRESS_ERROR;
    memcpy(out, data, n);
    return n;
}

size_t mtf_compress_flush(struct mtf_compress *c, void *out, size_t room) {
    return mtf_compress_begin(c, out, room);
}

size_t mtf_compress_end(struct mtf_compress *c, void *out, size_t room) {
    return mtf_compress_begin(c, out, room);
}

#endif
