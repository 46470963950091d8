/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds blocks in the bytes, and decodes a block into ready operations.
 *
 * After damage the reader looks for the next sync word that begins a block with
 * a right checksum. The head has a checksum of its own, so that looking costs
 * no checksum of a payload that is not there, except in forged input: there it
 * is bounded by one payload for each forged head.
 */
#include "traceformat/proc_reader.h"

#include "base/bits.h"
#include "base/checksum.h"
#include "traceformat/raw_codec.h"
#include "traceformat/trace_event.h"
#include "traceformat/trace_status.h"

#include <string.h>

/* Bytes after those given that decoding may load. */
#define PADDING   16u
#define HEAD_SIZE sizeof(struct mtf_proc_block_head)

/* --- Bytes ---------------------------------------------------------------- */

void mtf_proc_reader_init(struct mtf_proc_reader *r, void *memory,
                          size_t size) {
    memset(r, 0, sizeof(*r));
    r->memory = memory;
    r->capacity = size - PADDING;
    memset(r->memory + r->capacity, 0, PADDING);
}

uint8_t *mtf_proc_reader_room(struct mtf_proc_reader *r, size_t *room) {
    /* a block fits into half of the memory, so bytes move rarely */
    if (r->begin != 0 && r->capacity - r->end < r->capacity / 2) {
        memmove(r->memory, r->memory + r->begin, r->end - r->begin);
        r->end -= r->begin;
        r->begin = 0;
    }
    *room = r->capacity - r->end;
    return r->memory + r->end;
}

void mtf_proc_reader_filled(struct mtf_proc_reader *r, size_t n) {
    r->end += n;
}

void mtf_proc_reader_eof(struct mtf_proc_reader *r) {
    r->eof = true;
}

void mtf_proc_reader_lost_header(struct mtf_proc_reader *r) {
    r->have_header = true;
    r->in_damage = true;
    r->damage_start = r->offset;
}

static void consume(struct mtf_proc_reader *r, size_t n) {
    r->begin += n;
    r->offset += n;
}

/* --- Header --------------------------------------------------------------- */

/* The N bytes at P are no processed trace. */
static const char *foreign_text(const uint8_t *p, size_t n) {
    const char *text = mtf_foreign_text(p, n);
    return text != NULL ? text : "is no processed trace";
}

static enum mtf_proc_next foreign(struct mtf_proc_reader *r,
                                  struct mtf_proc_part *part,
                                  const char *problem) {
    part->offset = r->offset;
    part->problem = problem;
    return MTF_PROC_FOREIGN;
}

/* The magic is there and the rest is not good: blocks can still be read. */
static enum mtf_proc_next header_lost(struct mtf_proc_reader *r) {
    mtf_proc_reader_lost_header(r);
    consume(r, 8);
    return MTF_PROC_MORE;
}

/* P is the header H, whose checksum is right. */
static void parse_fields(const uint8_t *p, const struct mtf_proc_header *h,
                         struct mtf_proc_part *part) {
    const uint8_t *end = p + h->length - 8;
    p += tcm_align_up(sizeof(*h) + h->raw_length, 8);
    part->converter_length = 0;
    while (end - p >= 4) {
        uint16_t tag, n;
        memcpy(&tag, p, 2);
        memcpy(&n, p + 2, 2);
        p += 4;
        if (tag == MTF_PROC_TAG_END || n > end - p)
            return;
        if (tag == MTF_PROC_TAG_CONVERTER) {
            part->converter = (const char *)p;
            part->converter_length = n;
        }
        p += n;
    }
}

static enum mtf_proc_next next_header(struct mtf_proc_reader *r,
                                      struct mtf_proc_part *part) {
    const uint8_t *p = r->memory + r->begin;
    size_t n = r->end - r->begin;
    struct mtf_proc_header *h = &part->header;
    size_t magic = n < 8 ? n : 8;
    if (memcmp(p, MTF_PROC_MAGIC, magic) != 0) {
        if (n < 8 && !r->eof)
            return MTF_PROC_MORE;
        if (n >= 8 && memcmp(p, MTF_RAW_MAGIC, 8) == 0)
            return foreign(r, part, "is a raw trace, not a processed one");
        if (n >= 8 && memcmp(p, MTF_SPOOL_MAGIC, 8) == 0)
            return foreign(r, part, "is a spool, not a processed trace");
        return foreign(r, part, foreign_text(p, n));
    }
    if (n == 0)
        return r->eof ? foreign(r, part, "is empty") : MTF_PROC_MORE;
    if (n < 8)
        return r->eof ? foreign(r, part, foreign_text(p, n)) : MTF_PROC_MORE;
    if (n < sizeof(*h))
        return r->eof ? header_lost(r) : MTF_PROC_MORE;
    memcpy(h, p, sizeof(*h));
    if (h->length < sizeof(*h) + 8 || h->length > MTF_PROC_HEADER_MAX ||
        h->length % 8 != 0 || h->raw_length > h->length - sizeof(*h) - 8)
        return header_lost(r);
    if (n < h->length)
        return r->eof ? header_lost(r) : MTF_PROC_MORE;
    if (tcm_checksum_of(p, h->length - 8, 0) !=
        mtf_load_le64(p + h->length - 8))
        return header_lost(r);
    if (h->version > MTF_PROC_VERSION || h->must_understand != 0)
        return foreign(r, part,
                       mtf_too_new_text(r->text, h->version, MTF_PROC_VERSION,
                                        h->must_understand));
    part->offset = r->offset;
    part->raw_header = p + sizeof(*h);
    memset(&part->raw, 0, sizeof(part->raw));
    memcpy(&part->raw, part->raw_header,
           h->raw_length < sizeof(part->raw) ? h->raw_length
                                             : sizeof(part->raw));
    parse_fields(p, h, part);
    r->have_header = true;
    consume(r, h->length);
    return MTF_PROC_HEADER;
}

/* --- Blocks --------------------------------------------------------------- */

enum look { LOOK_BLOCK, LOOK_NONE, LOOK_MORE };

/* Whether a good block begins at P, of which N bytes are there. */
static enum look look_at(const uint8_t *p, size_t n,
                         struct mtf_proc_block_head *h) {
    if (n < HEAD_SIZE)
        return LOOK_MORE;
    memcpy(h, p, HEAD_SIZE);
    if (h->sync != MTF_PROC_SYNC || h->length > MTF_PROC_PAYLOAD_MAX ||
        h->records > MTF_PROC_BLOCK_RECORDS)
        return LOOK_NONE;
    if ((uint32_t)tcm_checksum_of(
            p, offsetof(struct mtf_proc_block_head, head_check), 0) !=
        h->head_check)
        return LOOK_NONE;
    if (n < HEAD_SIZE + h->length)
        return LOOK_MORE;
    size_t covered = offsetof(struct mtf_proc_block_head, checksum);
    struct tcm_checksum c;
    tcm_checksum_begin(&c, 0);
    tcm_checksum_add(&c, p, covered);
    tcm_checksum_add(&c, p + HEAD_SIZE, h->length);
    return tcm_checksum_end(&c) == h->checksum ? LOOK_BLOCK : LOOK_NONE;
}

/* Passes over bytes up to the next sync word; at least one. */
static void skip_to_sync(struct mtf_proc_reader *r) {
    const uint8_t *p = r->memory + r->begin + 1, *end = r->memory + r->end;
    while (p < end) {
        p = memchr(p, (int)(MTF_PROC_SYNC & 0xff), (size_t)(end - p));
        if (p == NULL) {
            p = end;
            break;
        }
        uint32_t word;
        if (end - p < 4)
            break;
        memcpy(&word, p, 4);
        if (word == MTF_PROC_SYNC)
            break;
        p++;
    }
    consume(r, (size_t)(p - r->memory) - r->begin);
}

static enum mtf_proc_next damage(struct mtf_proc_reader *r,
                                 struct mtf_proc_part *part) {
    part->offset = r->damage_start;
    part->skipped = r->offset - r->damage_start;
    part->problem = r->eof && r->begin == r->end && !r->closed
                        ? "cut in the middle of a block"
                        : "damaged";
    r->in_damage = false;
    r->damaged_places++;
    return MTF_PROC_DAMAGE;
}

static enum mtf_proc_next take_block(struct mtf_proc_reader *r,
                                     struct mtf_proc_part *part) {
    struct mtf_proc_block *b = &part->block;
    if (b->head.first_op > r->ops) { /* whole blocks went */
        r->in_damage = false;
        r->ops = b->head.first_op;
        r->damaged_places++;
        part->offset = r->offset;
        part->skipped = 0;
        part->problem = "blocks are missing";
        return MTF_PROC_DAMAGE;
    }
    part->offset = r->offset;
    b->offset = r->offset;
    b->payload = r->memory + r->begin + HEAD_SIZE;
    consume(r, HEAD_SIZE + b->head.length);
    if (b->head.kind == MTF_PROC_BLOCK_INDEX)
        return MTF_PROC_INDEX;
    if (b->head.kind == MTF_PROC_BLOCK_CLOSING) {
        r->closed = true;
        return MTF_PROC_CLOSING;
    }
    r->ops = b->head.first_op + b->head.ops;
    r->slot_count = b->head.slot_count;
    r->blocks++;
    return MTF_PROC_OPS;
}

static enum mtf_proc_next at_end(struct mtf_proc_reader *r,
                                 struct mtf_proc_part *part) {
    part->offset = r->offset;
    part->problem = NULL;
    if (!r->closed)
        part->problem = "cut: the closing block is missing";
    else if (r->damaged_places != 0)
        part->problem = "damaged";
    return MTF_PROC_END;
}

enum mtf_proc_next mtf_proc_reader_next(struct mtf_proc_reader *r,
                                        struct mtf_proc_part *part) {
    if (!r->have_header) {
        enum mtf_proc_next next = next_header(r, part);
        if (next != MTF_PROC_MORE || !r->have_header)
            return next;
    }
    for (;;) {
        size_t n = r->end - r->begin;
        enum look look = LOOK_MORE;
        if (n != 0)
            look = look_at(r->memory + r->begin, n, &part->block.head);
        if (look == LOOK_BLOCK && !r->closed) {
            unsigned kind = part->block.head.kind;
            bool known = kind == MTF_PROC_BLOCK_OPS ||
                         kind == MTF_PROC_BLOCK_CLOSING ||
                         (kind == MTF_PROC_BLOCK_INDEX && r->index_too);
            if (r->in_damage)
                return damage(r, part);
            if (part->block.head.flags != 0)
                return foreign(r, part, "needs a newer reader");
            /* one that came before (first_op too small) is no part of it */
            if (known && part->block.head.first_op >= r->ops)
                return take_block(r, part);
            if (!known) {
                consume(r, HEAD_SIZE + part->block.head.length);
                continue;
            }
        }
        if (look == LOOK_MORE && !r->eof)
            return MTF_PROC_MORE;
        if (n == 0)
            return r->in_damage ? damage(r, part) : at_end(r, part);
        if (!r->in_damage) {
            r->in_damage = true;
            r->damage_start = r->offset;
        }
        skip_to_sync(r);
    }
}

bool mtf_proc_is_block(const uint8_t *p, size_t n,
                       struct mtf_proc_block_head *head) {
    return look_at(p, n, head) == LOOK_BLOCK;
}

bool mtf_proc_account(const struct mtf_proc_block *b, unsigned field,
                      uint64_t *value) {
    for (uint32_t i = 0; i + 10 <= b->head.length; i += 10) {
        uint16_t f;
        memcpy(&f, b->payload + i, sizeof(f));
        if (f == field) {
            *value = mtf_load_le64(b->payload + i + 2);
            return true;
        }
    }
    return false;
}

const char *mtf_proc_account_name(unsigned field) {
    if (field >= MTF_PROC_ACCOUNT_RECORDER)
        return mtf_account_name(field - MTF_PROC_ACCOUNT_RECORDER);
    switch (field) {
#define X(name, number, text)                                                  \
    case number:                                                               \
        return text;
        MTF_PROC_ACCOUNTS(X)
#undef X
    default:
        return NULL;
    }
}
