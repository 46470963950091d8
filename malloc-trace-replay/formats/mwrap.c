/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mwrap: traces of mwrap-perl, records of 64-bit little-endian words. The first
 * word is a pointer, and has the type in its low three bits:
 *
 *     0 free      pointer
 *     1 memalign  result, alignment, size
 *     2 malloc    result, size
 *     3 realloc   result, old pointer, size
 *     4 calloc    result, size of all elements
 *
 * Threads write their records in pieces of up to 64 KiB. The file does not tell
 * which thread wrote a piece.
 */
#include "formats/format_reader.h"
#include "traceformat/varint.h"

enum { MWRAP_FREE, MWRAP_MEMALIGN, MWRAP_MALLOC, MWRAP_REALLOC, MWRAP_CALLOC };

#define WORD      ((size_t)8)
#define WORDS_MAX 3u

/* Words of a record of TYPE. */
static size_t words_of(unsigned type) {
    return type == MWRAP_FREE                                ? 1
           : type == MWRAP_MEMALIGN || type == MWRAP_REALLOC ? 3
                                                             : 2;
}

static void fill_event(unsigned type, const uint64_t v[WORDS_MAX],
                       struct format_event *e) {
    e->kind = FORMAT_ALLOC;
    e->id = v[0];
    e->size = v[1];
    switch (type) {
    case MWRAP_FREE:
        e->kind = FORMAT_FREE;
        e->call = MTF_CALL_FREE;
        e->old = v[0];
        e->id = e->size = 0;
        return;
    case MWRAP_MEMALIGN:
        e->call = MTF_CALL_MEMALIGN;
        e->align_log2 = format_align_log2(v[1]);
        e->size = v[2];
        return;
    case MWRAP_REALLOC:
        e->kind = FORMAT_REALLOC;
        e->call = MTF_CALL_REALLOC;
        e->old = v[1];
        e->size = v[2];
        return;
    default:
        e->call = type == MWRAP_MALLOC ? MTF_CALL_MALLOC : MTF_CALL_CALLOC;
        return;
    }
}

static enum format_result next_event(void *state, struct format_reader *r,
                                     struct format_event *e, const char **why) {
    uint64_t v[WORDS_MAX] = {0};
    size_t have;
    const uint8_t *p = format_reader_peek(r, WORDS_MAX * WORD, &have);
    (void)state;
    if (have == 0)
        return FORMAT_END;
    *why = "ends inside a record";
    if (have < WORD)
        return FORMAT_CUT;
    unsigned type = p[0] & 7;
    *why = "unknown type of record";
    if (type > MWRAP_CALLOC) {
        format_reader_take(r, WORD);
        return FORMAT_BAD;
    }
    size_t words = words_of(type);
    *why = "ends inside a record";
    if (have < words * WORD)
        return FORMAT_CUT;
    for (size_t i = 0; i < words; i++)
        v[i] = mtf_load_le64(p + i * WORD);
    v[0] -= type;
    format_reader_take(r, words * WORD);
    fill_event(type, v, e);
    return FORMAT_EVENT;
}

static size_t next_batch(void *state, const uint8_t *p, size_t n,
                         struct format_batch *b) {
    const uint8_t *from = p, *end = p + n;
    (void)state;
    while (end - p >= (ptrdiff_t)(WORDS_MAX * WORD) &&
           b->count < FORMAT_BATCH) {
        unsigned type = p[0] & 7;
        uint64_t id = mtf_load_le64(p) - type;
        if (type > MWRAP_CALLOC || type == MWRAP_MEMALIGN || id == 0)
            break;
        struct format_call *c = &b->call[b->count++];
        *c = (struct format_call){.id = id, .at = (uint32_t)(p - from)};
        if (type == MWRAP_FREE) {
            c->kind = FORMAT_FREE;
            c->call = MTF_CALL_FREE;
        } else if (type == MWRAP_REALLOC) {
            c->kind = FORMAT_REALLOC;
            c->call = MTF_CALL_REALLOC;
            c->old = mtf_load_le64(p + WORD);
            c->size = mtf_load_le64(p + 2 * WORD);
        } else {
            c->kind = FORMAT_ALLOC;
            c->call = type == MWRAP_MALLOC ? MTF_CALL_MALLOC : MTF_CALL_CALLOC;
            c->size = mtf_load_le64(p + WORD);
        }
        p += words_of(type) * WORD;
    }
    return (size_t)(p - from);
}

/* mwrap has no magic: pointers and sizes have to be plausible, and for each
   record of unknown type there have to be four allocations. */
static bool is_mwrap(const uint8_t *p, size_t n, bool whole) {
    size_t made = 0, bad = 0;
    (void)whole;
    while (n >= WORD) {
        unsigned type = p[0] & 7;
        uint64_t pointer = mtf_load_le64(p) - type;
        size_t words = type > MWRAP_CALLOC ? 1 : words_of(type);
        if (n < words * WORD)
            break;
        uint64_t size = mtf_load_le64(p + (words - 1) * WORD);
        if (pointer < 4096 || pointer >> 47 != 0 ||
            (words != 1 && size >> 40 != 0) ||
            (words == 3 && mtf_load_le64(p + WORD) >> 47 != 0))
            return false;
        made += words != 1;
        bad += type > MWRAP_CALLOC;
        p += words * WORD;
        n -= words * WORD;
    }
    return made != 0 && 4 * bad <= made;
}

const struct format_type format_mwrap = {
    .name = "mwrap",
    .title = "mwrap-perl trace",
    .matches = is_mwrap,
    .next = next_event,
    .batch = next_batch,
};
