/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where an event begins is known only when the length of the one before is, a
 * chain of about ten cycles an event. So a piece is counted in six lanes at
 * once, five of which begin at a guess. Varints find back into step by
 * themselves: afterwards each lane goes on beyond its end until it meets a
 * position that the next one visited near its beginning, and what the next one
 * counted up to there is taken off again. Should two not meet, the piece is
 * counted again in one line.
 */
#include "tracer/event_count.h"

#include "base/bits.h"
#include "base/check.h"
#include "traceformat/raw_codec.h"
#include "traceformat/trace_event.h"
#include "traceformat/varint.h"

#include <string.h>

#define LANES 6
/* Positions of a lane at which the one before may meet it. */
#define MEETINGS 24
/* Smaller pieces are counted in one line. */
#define LANES_MIN_BYTES 2048u
/* Hot events are counted in the halves of a 32-bit word, so a piece has less
   than 2^16 of them. */
#define PIECE_MAX  ((size_t)32 << 10)
#define ONE_MALLOC 1u
#define ONE_FREE   (1u << 16)
/* One bit in each byte. */
#define ONES 0x0101010101010101u

/* What the first byte of an event tells: its length, or 0 if it is not a hot
   one of at most six bytes; and what to add. */
static struct {
    uint8_t length[256];
    uint32_t count[256];
    bool ready;
} first_byte;

struct sums {
    uint32_t hot;
    struct mtr_event_counts rare;
};

static void fill_tables(void) {
    for (unsigned b = 1; b < 256; b++) {
        unsigned n = (unsigned)__builtin_ctz(b) + 1;
        unsigned type = b >> n & 3;
        if (n > 6 || (type != MTF_RAW_ALLOC && type != MTF_RAW_FREE))
            continue;
        first_byte.length[b] = (uint8_t)n;
        first_byte.count[b] = type == MTF_RAW_ALLOC ? ONE_MALLOC : ONE_FREE;
    }
    first_byte.ready = true;
}

/* What follows an extended event's varint with payload V. A guessing lane may
   see anything, so the length is bounded. */
static size_t count_extended(struct mtr_event_counts *c, uint64_t v) {
    unsigned kind = v >> 2 & 31;
    switch (kind) {
    case MTF_RAW_ALIGNED:
        c->memaligns++;
        break;
    case MTF_RAW_REALLOC_NEW:
    case MTF_RAW_REALLOC_END:
        c->reallocs++;
        break;
    case MTF_RAW_FREE_SIZE:
        c->frees++;
        break;
    case MTF_RAW_FAILED:
        c->failed++;
        break;
    default:
        break;
    }
    return kind >= 16 ? tcm_min_u64(v >> 7, MTF_EXTENDED_MAX) : 0;
}

static unsigned varint_bytes(uint8_t first) {
    return (unsigned)__builtin_ctz(first | 0x80u) + 1;
}

/* Any event; its end. Not more than its bytes are looked at: those behind may
   be written to at this moment. The added bits bound lengths whatever the
   bytes are. */
static TCM_NOINLINE const uint8_t *count_rare(struct sums *sums,
                                              const uint8_t *p) {
    unsigned n = varint_bytes(*p);
    uint64_t w = 0;
    if (n <= 2)
        w = n == 1 ? p[0] : (uint64_t)p[1] << 8 | p[0];
    else
        memcpy(&w, p, n);
    uint64_t v = w << (64 - 8 * n) >> (64 - 7 * n);
    p += n;
    switch (v & 3) {
    case MTF_RAW_ALLOC:
        sums->hot += ONE_MALLOC;
        return p;
    case MTF_RAW_FREE:
        sums->hot += ONE_FREE;
        return p;
    case MTF_RAW_REALLOC:
        sums->rare.reallocs++;
        return p + varint_bytes(*p);
    default:
        return p + count_extended(&sums->rare, v);
    }
}

static TCM_ALWAYS_INLINE const uint8_t *step(struct sums *sums,
                                             const uint8_t *p) {
    unsigned n = first_byte.length[*p];
    sums->hot += first_byte.count[*p];
    if (TCM_UNLIKELY(n == 0))
        return count_rare(sums, p);
    return p + n;
}

static void add_sums(struct mtr_event_counts *to, const struct sums *sums) {
    to->mallocs += sums->hot & 0xffff;
    to->frees += sums->hot >> 16;
    to->memaligns += sums->rare.memaligns;
    to->reallocs += sums->rare.reallocs;
    to->frees += sums->rare.frees;
    to->failed += sums->rare.failed;
}

static void take_off(struct sums *sums, const struct sums *what) {
    sums->hot -= what->hot;
    sums->rare.memaligns -= what->rare.memaligns;
    sums->rare.reallocs -= what->rare.reallocs;
    sums->rare.frees -= what->rare.frees;
    sums->rare.failed -= what->rare.failed;
}

/* --- One line ------------------------------------------------------------ */

/*
 * Streams of one-byte events: eight are counted at once. A byte of a one-byte
 * ALLOC is ...011, of a FREE ...101; so eight of them have bit 0 set and
 * exactly one of the bits 1 and 2 in every byte.
 */
static const uint8_t *count_short(struct sums *sums, const uint8_t *p,
                                  const uint8_t *end) {
    while (p < end) {
        uint64_t w = end - p >= 8 ? mtf_load_le64(p) : 0;
        if ((w & (w >> 1 ^ w >> 2) & ONES) == ONES) {
            unsigned alloc = (unsigned)((w >> 1 & ONES) * ONES >> 56);
            sums->hot += alloc * ONE_MALLOC + (8 - alloc) * ONE_FREE;
            p += 8;
        } else {
            p = step(sums, p);
        }
    }
    return p;
}

/* Looks at the middle of N bytes: pieces begin with the long event that says
   where a buffer stands. */
static bool is_short(const uint8_t *p, size_t n) {
    unsigned ones = 0;
    if (n < LANES_MIN_BYTES)
        return false;
    p += n / 2;
    for (unsigned i = 0; i < 256; i += 8)
        ones += (unsigned)((mtf_load_le64(p + i) & ONES) * ONES >> 56);
    return ones >= 253;
}

static const uint8_t *count_line(struct mtr_event_counts *counts,
                                 const uint8_t *p, size_t n, bool eight) {
    struct sums sums = {.hot = 0};
    const uint8_t *end = p + n;
    if (eight)
        p = count_short(&sums, p, end);
    while (p < end)
        p = step(&sums, p);
    add_sums(counts, &sums);
    return p;
}

/* --- Lanes --------------------------------------------------------------- */

struct meeting {
    const uint8_t *p;
    struct sums sums; /* of the lane before that position */
};

/* From P, in step, to where the next lane was too; takes off what that one
   counted before. NULL: they do not meet. */
static const uint8_t *meet(struct sums *sums, const uint8_t *p,
                           const struct meeting at[MEETINGS]) {
    for (unsigned i = 0; i < MEETINGS; i++) {
        while (p < at[i].p)
            p = step(sums, p);
        if (p == at[i].p) {
            take_off(sums, &at[i].sums);
            return p;
        }
    }
    return NULL;
}

/* The first positions of a lane from P to END; where it goes on, or NULL if it
   is too short for that many. */
static const uint8_t *guess(struct sums *sums, const uint8_t *p,
                            const uint8_t *end, struct meeting at[MEETINGS]) {
    struct sums own = {.hot = 0};
    for (unsigned k = 0; k < MEETINGS; k++) {
        if (p >= end)
            return NULL;
        at[k].p = p;
        at[k].sums = own;
        p = step(&own, p);
    }
    sums->hot += own.hot;
    sums->rare.memaligns += own.rare.memaligns;
    sums->rare.reallocs += own.rare.reallocs;
    sums->rare.frees += own.rare.frees;
    sums->rare.failed += own.rare.failed;
    return p;
}

/* NULL: counts are unchanged. */
static const uint8_t *count_lanes(struct mtr_event_counts *counts,
                                  const uint8_t *piece, size_t n) {
    struct meeting at[LANES][MEETINGS];
    struct sums sums = {.hot = 0};
    const uint8_t *p[LANES], *end[LANES];
    for (unsigned i = 0; i < LANES; i++) {
        p[i] = piece + i * (n / LANES);
        end[i] = i + 1 == LANES ? piece + n : p[i] + n / LANES;
        if (i != 0 && (p[i] = guess(&sums, p[i], end[i], at[i])) == NULL)
            return NULL;
    }
    const uint8_t *a = p[0], *b = p[1], *c = p[2], *d = p[3], *e = p[4],
                  *f = p[5];
    while (a < end[0] && b < end[1] && c < end[2] && d < end[3] && e < end[4] &&
           f < end[5]) {
        a = step(&sums, a);
        b = step(&sums, b);
        c = step(&sums, c);
        d = step(&sums, d);
        e = step(&sums, e);
        f = step(&sums, f);
    }
    const uint8_t *now[LANES] = {a, b, c, d, e, f};
    for (unsigned i = 0; i < LANES; i++) {
        while (now[i] < end[i])
            now[i] = step(&sums, now[i]);
    }
    for (unsigned i = 1; i < LANES; i++) {
        if (meet(&sums, now[i - 1], at[i]) == NULL)
            return NULL;
    }
    add_sums(counts, &sums);
    return now[LANES - 1];
}

void mtr_count_events(struct mtr_event_counts *counts, const uint8_t *p,
                      size_t n) {
    const uint8_t *end = p + n;
    if (!first_byte.ready)
        fill_tables();
    while (p < end) {
        size_t piece = tcm_min_u64((size_t)(end - p), PIECE_MAX);
        const uint8_t *next = NULL;
        bool eight = is_short(p, piece);
        if (piece >= LANES_MIN_BYTES && !eight)
            next = count_lanes(counts, p, piece);
        p = next != NULL ? next : count_line(counts, p, piece, eight);
    }
}
