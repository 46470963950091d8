/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The footer's counts of calls are those of the encoded events.
 */
#include "lib/prng.h"
#include "lib/tap.h"
#include "traceformat/raw_codec.h"
#include "sites/site_settings.h"
#include "tracer/recorder.h"
#include "tracer/saver/saver_parts.h"

static uint8_t bytes[(128 << 10) + 64];

/* How rare and how long the events are. */
struct mix {
    const char *name;
    unsigned rare_of_1000;
    unsigned size_bits;
    unsigned sites_of_1000;
};

/* Sizes and tokens are arbitrary, including bytes that look like long
   varints. */
static size_t rare_event(struct prng *p, uint64_t v, uint8_t *at,
                         struct mtr_event_counts *c) {
    static uint8_t text[MTF_EXTENDED_MAX];
    uint64_t size = v & (MTF_SIZE_MAX - 1), token = prng_next(p);
    switch (prng_below(p, 8)) {
    case 0:
        c->memaligns++;
        return mtf_raw_put_aligned(at, MTF_CALL_MEMALIGN,
                                   (unsigned)prng_below(p, 48), size);
    case 1:
        c->reallocs++;
        return mtf_raw_put_realloc(at, 0, 0, MTF_CALL_REALLOC, v, size,
                                   token & 1);
    case 2:
        c->reallocs++;
        return mtf_raw_put_realloc_new(at, MTF_CALL_REALLOC, token & 1, size);
    case 3:
        c->reallocs++;
        return mtf_raw_put_realloc_end(at, MTF_CALL_REALLOC, token);
    case 4:
        c->frees++;
        return mtf_raw_put_free_size(at, MTF_CALL_FREE_SIZED, token, v);
    case 5:
        c->failed++;
        return mtf_raw_put_failed(at, MTF_CALL_MEMALIGN,
                                  (unsigned)prng_below(p, 64), token, v);
    case 6: {
        unsigned n = 1 + (unsigned)prng_below(p, sizeof(text));
        for (unsigned i = 0; i < n; i++)
            text[i] = prng_below(p, 4) == 0 ? 0 : (uint8_t)prng_next(p);
        return mtf_raw_put_bytes(at, MTF_RAW_MARK, text, n);
    }
    default:
        return mtf_varint_put(
            at, mtf_inline_payload(MTF_RAW_TIME, v & MTF_ARGUMENT_MAX));
    }
}

static size_t one_event(struct prng *p, const struct mix *mix, uint8_t *at,
                        struct mtr_event_counts *c) {
    uint64_t v = prng_next(p) >> (64 - mix->size_bits);
    if (prng_below(p, 1000) < mix->rare_of_1000)
        return rare_event(p, v, at, c);
    if (prng_below(p, 1000) < mix->sites_of_1000)
        return mtf_varint_put(
            at, mtf_inline_payload(MTF_RAW_SITE,
                                   prng_below(p, 8) == 0 ? v & 0xFFFF : 0));
    if (prng_below(p, 2) != 0) {
        c->frees++;
        return mtf_varint_put(at, mtf_free_payload(v));
    }
    c->mallocs++;
    return mtf_varint_put(at, mtf_alloc_payload(v & (MTF_SIZE_MAX - 1), 0));
}

static bool same(const struct mtr_event_counts *a,
                 const struct mtr_event_counts *b) {
    return memcmp(a, b, sizeof(*a)) == 0;
}

int main(void) {
    mts_settings.mode = MTS_CALLER;
    static const struct mix mixes[] = {
        {"one byte", 0, 4, 0},       {"short", 2, 5, 0},
        {"mixed", 20, 13, 0},        {"long", 20, 40, 0},
        {"mostly rare", 900, 20, 0}, {"all rare", 1000, 50, 0},
        {"sites", 2, 4, 300},        {"all sites", 0, 4, 1000},
    };
    struct prng p;
    prng_seed(&p, 7);
    for (unsigned m = 0; m < TCM_ARRAY_SIZE(mixes); m++) {
        unsigned wrong = 0;
        for (unsigned round = 0; round < 300; round++) {
            struct mtr_event_counts want = {0}, got = {0};
            size_t limit = prng_below(&p, round % 10 == 0 ? 128 << 10 : 9000);
            size_t n = 0;
            memset(bytes, 0, sizeof(bytes));
            while (n < limit && n + 200 < sizeof(bytes))
                n += one_event(&p, &mixes[m], bytes + n, &want);
            /* Bytes behind the events must not count. */
            memset(bytes + n, 0xff, 8);
            mtr_count_events(&got, bytes, n);
            wrong += !same(&got, &want);
        }
        tap_is_u64(wrong, 0, "%s events are counted", mixes[m].name);
    }
    /* Bytes that are not events: any counts, but the loop ends, and nothing far
       behind is read. */
    for (unsigned round = 0; round < 200; round++) {
        struct mtr_event_counts got = {0};
        for (size_t i = 0; i < 9000; i++)
            bytes[i] = (uint8_t)prng_next(&p);
        mtr_count_events(&got, bytes, prng_below(&p, 9000));
    }
    tap_ok(true, "any bytes come to an end");
    return tap_done();
}
