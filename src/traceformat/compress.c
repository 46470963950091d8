/* SPDX-License-Identifier: BSD-3-Clause */
#include "traceformat/compress.h"

#include "base/bits.h"
#include "base/check.h"

#include <string.h>

#if TCM_HAVE_LZ4

#define LZ4F_STATIC_LINKING_ONLY
#include <lz4frame.h>

/* liblz4 allocates three blocks: its context, the tables, and the buffer of a
   frame, which it frees after each frame and allocates again. */
#define ARENA_BLOCKS 6u
/* Blocks below this size are zeroed if liblz4 asks for that: the context
   depends on it. Some versions ask for the buffer of a frame in the same way,
   which is written before it is read; clearing that would touch 192 KiB for
   each frame. */
#define ZEROED_MAX ((size_t)64 << 10)

/* A frame of at least DENSE_BYTES that shrank by less than a 64th is dense: the
   next frame is searched with steps of WIDE_STEPS. A stream of random sizes has
   nothing to find, and a program makes such streams for longer than a frame.
   Wide steps still notice a frame that does compress. */
#define DENSE_BYTES ((uint64_t)256 << 10)
#define WIDE_STEPS  64

/* Level of small frames, which searches many places for what repeats. A frame
   of DENSE_BYTES that did not shrink to a half shows content for which that
   costs more than it saves. */
#define SMALL_LEVEL 6
#define SMALL_RATIO 2

struct arena_block {
    size_t offset, size;
    bool used;
};

struct mtf_compress {
    uint8_t *memory;
    size_t size;
    size_t top;
    unsigned count;
    struct arena_block blocks[ARENA_BLOCKS];
    LZ4F_cctx *context;
    LZ4F_preferences_t preferences;
    uint64_t frame_in, frame_out; /* bytes of the frame so far */
    bool in_frame;
    bool is_small;
};

static void *arena_alloc(void *opaque, size_t n) {
    struct mtf_compress *c = opaque;
    size_t need = tcm_align_up(n, 64);
    if (need < n)
        return NULL;
    for (unsigned i = 0; i < c->count; i++) {
        struct arena_block *b = &c->blocks[i];
        if (!b->used && b->size >= need) {
            b->used = true;
            return c->memory + b->offset;
        }
    }
    if (c->count == ARENA_BLOCKS || need > c->size - c->top)
        return NULL;
    c->blocks[c->count++] = (struct arena_block){c->top, need, true};
    c->top += need;
    TCM_ASSERT(c->top <= c->size);
    return c->memory + c->top - need;
}

static void *arena_calloc(void *opaque, size_t n) {
    void *p = arena_alloc(opaque, n);
    if (p != NULL && n < ZEROED_MAX)
        memset(p, 0, n);
    return p;
}

static void arena_free(void *opaque, void *p) {
    struct mtf_compress *c = opaque;
    for (unsigned i = 0; i < c->count; i++)
        if (c->memory + c->blocks[i].offset == (uint8_t *)p) {
            TCM_ASSERT(c->blocks[i].used);
            c->blocks[i].used = false;
        }
}

bool mtf_compress_available(void) {
    return true;
}

struct mtf_compress *mtf_compress_init(void *memory, size_t size) {
    if (size < MTF_COMPRESS_MEMORY)
        return NULL;
    struct mtf_compress *c = memory;
    memset(c, 0, sizeof(*c));
    c->memory = memory;
    c->size = size;
    c->top = tcm_align_up(sizeof(*c), 64);
    c->preferences.frameInfo.blockSizeID = LZ4F_max64KB;
    c->preferences.frameInfo.blockMode = LZ4F_blockLinked;
    /* Every segment in the frame has a checksum. */
    c->preferences.frameInfo.contentChecksumFlag = LZ4F_noContentChecksum;
    if (LZ4F_compressBound(MTF_COMPRESS_PIECE, &c->preferences) >
        MTF_COMPRESS_ROOM)
        return NULL;
    LZ4F_CustomMem arena = {arena_alloc, arena_calloc, arena_free, c};
    c->context = LZ4F_createCompressionContext_advanced(arena, LZ4F_VERSION);
    return c->context == NULL ? NULL : c;
}

void mtf_compress_with_checksum(struct mtf_compress *c) {
    c->preferences.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
}

void mtf_compress_make_small(struct mtf_compress *c) {
    TCM_ASSERT(c->size >= MTF_COMPRESS_SMALL_MEMORY);
    c->is_small = true;
}

static size_t count_output(struct mtf_compress *c, size_t n) {
    if (LZ4F_isError(n))
        return MTF_COMPRESS_ERROR;
    c->frame_out += n;
    return n;
}

static bool was_dense(const struct mtf_compress *c) {
    return c->frame_in >= DENSE_BYTES &&
           c->frame_out + c->frame_in / 64 > c->frame_in;
}

size_t mtf_compress_begin(struct mtf_compress *c, void *out, size_t room) {
    bool shrank =
        c->frame_in < DENSE_BYTES || c->frame_out <= c->frame_in / SMALL_RATIO;
    c->preferences.compressionLevel = was_dense(c)            ? -WIDE_STEPS
                                      : c->is_small && shrank ? SMALL_LEVEL
                                                              : 0;
    c->frame_in = c->frame_out = 0;
    c->in_frame = true;
    return count_output(
        c, LZ4F_compressBegin(c->context, out, room, &c->preferences));
}

size_t mtf_compress_add(struct mtf_compress *c, const void *data, size_t n,
                        void *out, size_t room) {
    TCM_ASSERT(c->in_frame);
    if (n > MTF_COMPRESS_PIECE)
        return MTF_COMPRESS_ERROR;
    c->frame_in += n;
    return count_output(
        c, LZ4F_compressUpdate(c->context, out, room, data, n, NULL));
}

size_t mtf_compress_flush(struct mtf_compress *c, void *out, size_t room) {
    TCM_ASSERT(c->in_frame);
    return count_output(c, LZ4F_flush(c->context, out, room, NULL));
}

size_t mtf_compress_end(struct mtf_compress *c, void *out, size_t room) {
    TCM_ASSERT(c->in_frame);
    c->in_frame = false;
    return count_output(c, LZ4F_compressEnd(c->context, out, room, NULL));
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

void mtf_compress_with_checksum(struct mtf_compress *c) {
    (void)c;
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
