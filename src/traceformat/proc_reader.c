/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds blocks in the bytes; proc_decode.c decodes them.
 *
 * After damage the reader searches the next sync word that begins a block with
 * a right checksum. The head has a checksum of its own, so that the search
 * computes no checksum of a payload that does not exist, except in forged
 * input: there the cost is bounded by one payload for each forged head.
 */
#include "traceformat/proc_reader.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/checksum.h"
#include "traceformat/raw_codec.h"
#include "traceformat/trace_event.h"
#include "traceformat/trace_io.h"

#include <string.h>

/* Bytes behind the input that decoding may load. */
#define PADDING   16u
#define CAPACITY  (MTF_PROC_READER_BYTES - PADDING)
#define HEAD_SIZE sizeof(struct mtf_proc_block_head)

/* --- Window on the source ------------------------------------------------- */

void mtf_proc_reader_init(struct mtf_proc_reader *r, struct mtf_source *source,
                          void *memory) {
    memset(r, 0, sizeof(*r));
    r->source = source;
    r->memory = memory;
    memset(r->memory + CAPACITY, 0, PADDING);
}

void mtf_proc_reader_init_at(struct mtf_proc_reader *r,
                             struct mtf_source *source, void *memory,
                             const struct mtf_proc_index_entry *entry) {
    mtf_proc_reader_init(r, source, memory);
    r->have_header = true;
    r->offset = entry->offset;
    r->ops = entry->first_op;
}

void mtf_proc_reader_lost_header(struct mtf_proc_reader *r) {
    r->have_header = true;
    r->in_damage = true;
    r->damage_start = r->offset;
}

static void fill_item(struct mtf_proc_item *item, enum mtf_proc_item_kind kind,
                      enum mtf_status status, const char *problem,
                      uint64_t file_offset) {
    item->kind = kind;
    item->status = status;
    item->problem = problem;
    item->file_offset = file_offset;
}

static void give_break(struct mtf_proc_reader *r, struct mtf_proc_item *item) {
    const struct mtf_source *s = r->source;
    fill_item(item, MTF_PROC_ITEM_DAMAGE, s->status, mtf_status_text(s->status),
              s->break_offset);
    item->skipped = s->break_skipped;
    item->offset_is_stored = true;
    if (!r->have_header && r->offset + (r->end - r->begin) < 8)
        mtf_proc_reader_lost_header(r);
}

/* Reads more bytes behind the ones in memory. false: ITEM is filled. */
static bool fill_memory(struct mtf_proc_reader *r, struct mtf_proc_item *item) {
    size_t got = 0;
    /* A block fits into half of the memory, so bytes move rarely. */
    if (r->begin != 0 && CAPACITY - r->end < CAPACITY / 2) {
        memmove(r->memory, r->memory + r->begin, r->end - r->begin);
        r->end -= r->begin;
        r->begin = 0;
    }
    TCM_ASSERT(r->begin <= r->end && r->end < CAPACITY);
    switch (r->source->read(r->source, r->memory + r->end, CAPACITY - r->end,
                            &got)) {
    case MTF_SOURCE_DATA:
        TCM_ASSERT(got != 0 && got <= CAPACITY - r->end);
        r->end += got;
        return true;
    case MTF_SOURCE_END:
        r->at_end = true;
        return true;
    case MTF_SOURCE_BREAK:
        give_break(r, item);
        return false;
    default:
        fill_item(item, MTF_PROC_ITEM_FAILED, r->source->status,
                  mtf_status_text(r->source->status), r->offset);
        item->error = r->source->error;
        item->offset_is_stored = true;
        return false;
    }
}

static void consume_bytes(struct mtf_proc_reader *r, size_t n) {
    TCM_ASSERT(n <= r->end - r->begin);
    r->begin += n;
    r->offset += n;
}

/* --- Header --------------------------------------------------------------- */

/* Words for N bytes at P that are no processed trace. */
static const char *foreign_text(const uint8_t *p, size_t n) {
    const char *text = mtf_foreign_text(p, n);
    return text != NULL ? text : "is no processed trace";
}

static bool fail_item(struct mtf_proc_reader *r, struct mtf_proc_item *item,
                      enum mtf_status status, const char *problem) {
    fill_item(item, MTF_PROC_ITEM_FAILED, status, problem, r->offset);
    return true;
}

/* Gives up a header that has the magic but is not valid: blocks can still be
   read. */
static bool give_up_header(struct mtf_proc_reader *r) {
    mtf_proc_reader_lost_header(r);
    consume_bytes(r, 8);
    return false;
}

/* Reads the fields of the header H at P, whose checksum is right. */
static void parse_fields(const uint8_t *p, const struct mtf_proc_header *h,
                         struct mtf_proc_item *item) {
    const uint8_t *end = p + h->length - 8;
    p += tcm_align_up(sizeof(*h) + h->raw_length, 8);
    item->converter_length = 0;
    while (end - p >= 4) {
        uint16_t tag, n;
        memcpy(&tag, p, 2);
        memcpy(&n, p + 2, 2);
        p += 4;
        if (tag == MTF_PROC_TAG_END || n > end - p)
            return;
        if (tag == MTF_PROC_TAG_CONVERTER) {
            item->converter = (const char *)p;
            item->converter_length = n;
        }
        p += n;
    }
}

/* Reads the header. true: ITEM is filled. false: bytes are missing, or the
   header is lost. */
static bool next_header(struct mtf_proc_reader *r, struct mtf_proc_item *item) {
    const uint8_t *p = r->memory + r->begin;
    size_t n = r->end - r->begin;
    struct mtf_proc_header *h = &item->header;
    if (n < 8 && memcmp(p, MTF_PROC_MAGIC, n) == 0 && !r->at_end)
        return false;
    if (memcmp(p, MTF_PROC_MAGIC, n < 8 ? n : 8) != 0) {
        if (n >= 8 && memcmp(p, MTF_RAW_MAGIC, 8) == 0)
            return fail_item(r, item, MTF_IS_RAW, mtf_status_text(MTF_IS_RAW));
        if (n >= 8 && memcmp(p, MTF_SPOOL_MAGIC, 8) == 0)
            return fail_item(r, item, MTF_IS_SPOOL,
                             "is a spool, not a processed trace");
        if (n < MTF_FOREIGN_BYTES && !r->at_end)
            return false;
        return fail_item(r, item, MTF_NO_TRACE, foreign_text(p, n));
    }
    if (n == 0)
        return fail_item(r, item, MTF_EMPTY, MTF_EMPTY_TEXT);
    if (n < 8)
        return fail_item(r, item, MTF_NO_TRACE, foreign_text(p, n));
    if (n < sizeof(*h))
        return r->at_end ? give_up_header(r) : false;
    memcpy(h, p, sizeof(*h));
    if (h->length < sizeof(*h) + 8 || h->length > MTF_PROC_HEADER_MAX ||
        h->length % 8 != 0 || h->raw_length > h->length - sizeof(*h) - 8)
        return give_up_header(r);
    if (n < h->length)
        return r->at_end ? give_up_header(r) : false;
    if (tcm_checksum_of(p, h->length - 8, 0) !=
        mtf_load_le64(p + h->length - 8))
        return give_up_header(r);
    if (h->version > MTF_PROC_VERSION || h->must_understand != 0)
        return fail_item(r, item, MTF_TOO_NEW,
                         mtf_too_new_text(r->text, h->version, MTF_PROC_VERSION,
                                          h->must_understand));
    fill_item(item, MTF_PROC_ITEM_HEADER, MTF_OK, NULL, r->offset);
    item->raw_header = p + sizeof(*h);
    memset(&item->raw, 0, sizeof(item->raw));
    memcpy(&item->raw, item->raw_header,
           h->raw_length < sizeof(item->raw) ? h->raw_length
                                             : sizeof(item->raw));
    parse_fields(p, h, item);
    r->have_header = true;
    consume_bytes(r, h->length);
    return true;
}

/* --- Blocks --------------------------------------------------------------- */

/* Result of a check for a block. */
enum block_check { BLOCK_VALID, BLOCK_NONE, BLOCK_CUT };

/* Checks for a valid block at P, of which N bytes are in memory. */
static enum block_check check_block(const uint8_t *p, size_t n,
                                    struct mtf_proc_block_head *h) {
    if (n < HEAD_SIZE)
        return BLOCK_CUT;
    memcpy(h, p, HEAD_SIZE);
    if (h->sync != MTF_PROC_SYNC || h->length > MTF_PROC_PAYLOAD_MAX ||
        h->records > MTF_PROC_BLOCK_RECORDS)
        return BLOCK_NONE;
    if ((uint32_t)tcm_checksum_of(
            p, offsetof(struct mtf_proc_block_head, head_check), 0) !=
        h->head_check)
        return BLOCK_NONE;
    if (n < HEAD_SIZE + h->length)
        return BLOCK_CUT;
    size_t covered = offsetof(struct mtf_proc_block_head, checksum);
    struct tcm_checksum c;
    tcm_checksum_begin(&c, 0);
    tcm_checksum_add(&c, p, covered);
    tcm_checksum_add(&c, p + HEAD_SIZE, h->length);
    return tcm_checksum_end(&c) == h->checksum ? BLOCK_VALID : BLOCK_NONE;
}

/* Skips bytes up to the next sync word; at least one. */
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
    consume_bytes(r, (size_t)(p - r->memory) - r->begin);
}

static void give_damage(struct mtf_proc_reader *r, struct mtf_proc_item *item) {
    bool cut = r->at_end && r->begin == r->end && !r->closed;
    fill_item(item, MTF_PROC_ITEM_DAMAGE, cut ? MTF_CUT : MTF_DAMAGED,
              cut ? "cut in the middle of a block" : "damaged",
              r->damage_start);
    item->skipped = r->offset - r->damage_start;
    r->in_damage = false;
    r->damaged_places++;
}

static void give_block(struct mtf_proc_reader *r, struct mtf_proc_item *item) {
    struct mtf_proc_block *b = &item->block;
    if (b->head.first_op > r->ops) { /* whole blocks are missing */
        fill_item(item, MTF_PROC_ITEM_DAMAGE, MTF_DAMAGED, "blocks are missing",
                  r->offset);
        r->ops = b->head.first_op;
        r->damaged_places++;
        return;
    }
    fill_item(item, MTF_PROC_ITEM_OPS, MTF_OK, NULL, r->offset);
    b->offset = r->offset;
    b->payload = r->memory + r->begin + HEAD_SIZE;
    consume_bytes(r, HEAD_SIZE + b->head.length);
    if (b->head.kind == MTF_PROC_BLOCK_INDEX) {
        item->kind = MTF_PROC_ITEM_INDEX;
    } else if (b->head.kind == MTF_PROC_BLOCK_CLOSING) {
        item->kind = MTF_PROC_ITEM_CLOSING;
        r->closed = true;
    } else {
        r->ops = b->head.first_op + b->head.ops;
    }
}

static void give_end(struct mtf_proc_reader *r, struct mtf_proc_item *item) {
    if (!r->closed)
        fill_item(item, MTF_PROC_ITEM_END, MTF_CUT,
                  "cut: the closing block is missing", r->offset);
    else if (r->damaged_places != 0)
        fill_item(item, MTF_PROC_ITEM_END, MTF_DAMAGED, "damaged", r->offset);
    else
        fill_item(item, MTF_PROC_ITEM_END, MTF_OK, NULL, r->offset);
}

static bool is_wanted(const struct mtf_proc_reader *r, unsigned kind) {
    return kind == MTF_PROC_BLOCK_OPS || kind == MTF_PROC_BLOCK_CLOSING ||
           (kind == MTF_PROC_BLOCK_INDEX && r->index_too);
}

/* Reads the next block. true: ITEM is filled. false: more bytes are needed. */
static bool next_block(struct mtf_proc_reader *r, struct mtf_proc_item *item) {
    for (;;) {
        const struct mtf_proc_block_head *head = &item->block.head;
        size_t n = r->end - r->begin;
        enum block_check check = BLOCK_CUT;
        if (n != 0)
            check = check_block(r->memory + r->begin, n, &item->block.head);
        if (check == BLOCK_VALID && !r->closed) {
            if (r->in_damage) {
                give_damage(r, item);
                return true;
            }
            if (head->flags != 0)
                return fail_item(r, item, MTF_TOO_NEW, "needs a newer reader");
            if (!is_wanted(r, head->kind)) {
                consume_bytes(r, HEAD_SIZE + head->length);
                continue;
            }
            /* A block that came before (first_op too small) is skipped. */
            if (head->first_op >= r->ops) {
                give_block(r, item);
                return true;
            }
        }
        if (check == BLOCK_CUT && !r->at_end)
            return false;
        if (n == 0) {
            if (r->in_damage)
                give_damage(r, item);
            else
                give_end(r, item);
            return true;
        }
        if (!r->in_damage) {
            r->in_damage = true;
            r->damage_start = r->offset;
        }
        skip_to_sync(r);
    }
}

void mtf_proc_reader_next(struct mtf_proc_reader *r,
                          struct mtf_proc_item *item) {
    memset(item, 0, sizeof(*item));
    for (;;) {
        if (!r->have_header && next_header(r, item))
            return;
        if (r->have_header && next_block(r, item))
            return;
        if (!fill_memory(r, item))
            return;
    }
}

bool mtf_proc_account(const struct mtf_proc_block *b, unsigned field,
                      uint64_t *value) {
    for (uint32_t i = 0; i + MTF_ACCOUNT_BYTES <= b->head.length;
         i += MTF_ACCOUNT_BYTES) {
        struct mtf_account_value a = mtf_get_account(b->payload + i);
        if (a.field == field) {
            *value = a.value;
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

/* --- Index ---------------------------------------------------------------- */

#define ENTRY_SIZE sizeof(struct mtf_proc_index_entry)

/* True if a valid block, of any kind, begins at P and ends in its N bytes;
   fills HEAD. */
static bool is_block(const uint8_t *p, size_t n,
                     struct mtf_proc_block_head *head) {
    return check_block(p, n, head) == BLOCK_VALID;
}

bool mtf_proc_find_closing(mtf_proc_read_at read_at, void *ctx, uint64_t size,
                           void *room, struct mtf_proc_block *closing) {
    uint8_t *memory = room;
    size_t n = (size_t)tcm_min_u64(size, MTF_PROC_CLOSING_TAIL);
    if (n < HEAD_SIZE || read_at(ctx, size - n, memory, n) != n)
        return false;
    for (size_t at = n - HEAD_SIZE + 1; at-- != 0;) {
        if (is_block(memory + at, n - at, &closing->head) &&
            closing->head.kind == MTF_PROC_BLOCK_CLOSING &&
            at + HEAD_SIZE + closing->head.length == n) {
            closing->payload = memory + at + HEAD_SIZE;
            closing->offset = size - n + at;
            return true;
        }
    }
    return false;
}

/* Reads the index block at OFFSET into MEMORY. Returns the number of entries
   behind its head; 0: no valid index. */
static size_t read_index(mtf_proc_read_at read_at, void *ctx, uint64_t offset,
                         uint8_t *memory) {
    struct mtf_proc_block_head h;
    if (read_at(ctx, offset, memory, HEAD_SIZE) != HEAD_SIZE)
        return 0;
    memcpy(&h, memory, sizeof(h));
    if (h.length > MTF_PROC_PAYLOAD_MAX ||
        read_at(ctx, offset + HEAD_SIZE, memory + HEAD_SIZE, h.length) !=
            h.length ||
        !is_block(memory, HEAD_SIZE + h.length, &h) ||
        h.kind != MTF_PROC_BLOCK_INDEX || h.flags != 0)
        return 0;
    return h.length / ENTRY_SIZE;
}

static struct mtf_proc_index_entry index_entry(const uint8_t *memory,
                                               size_t i) {
    struct mtf_proc_index_entry e;
    memcpy(&e, memory + HEAD_SIZE + i * ENTRY_SIZE, ENTRY_SIZE);
    return e;
}

bool mtf_proc_index_find(mtf_proc_read_at read_at, void *ctx, uint64_t size,
                         void *memory, uint64_t wanted,
                         struct mtf_proc_index_entry *found) {
    struct mtf_proc_block closing;
    uint64_t offset;
    if (!mtf_proc_find_closing(read_at, ctx, size, memory, &closing) ||
        !mtf_proc_account(&closing, MTF_PROC_ACCOUNT_INDEX_OFFSET, &offset) ||
        offset >= closing.offset)
        return false;
    size_t count = read_index(read_at, ctx, offset, memory);
    size_t low = 0, high = count; /* entries below LOW begin early enough */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index_entry(memory, middle).offset <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return false;
    *found = index_entry(memory, low - 1);
    return found->offset < offset;
}
