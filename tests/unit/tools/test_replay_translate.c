/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output of the decoding process for any trace, valid or not: random operations
 * go in, the words that come out run on a model of the slots, which must never
 * see an impossible one, and the account must equal that of a second, simple
 * bookkeeping.
 */
#include "cmd/replay/feed/translate.h"
#include "prng.h"
#include "tap.h"

#include <unistd.h>

#define SLOTS   600u
#define THREADS 20u

/* --- The taker: runs words on a model ------------------------------------- */

struct taken {
    struct replay_ring *ring;
    bool full[4 * SLOTS];
    uint64_t size[4 * SLOTS];
    uint64_t live, bytes, words, impossible, switches, ends, sized_wrong;
    uint64_t same_index, trims, pads;
    uint64_t noted;              /* the REPLAY_PRESENT of the next word */
    uint64_t written[4 * SLOTS]; /* in whole pages, cut to the block */
    bool sized_by_site; /* an allocation has 8 bytes and one for each number */
    uint32_t site;
    uint64_t other_site;  /* allocations of another site than the words say */
    const uint64_t *stop; /* numbers of operations; NULL: none */
    size_t stops, stops_seen;
    uint32_t index;
    bool begun; /* the cache of an index that ended must not be ended again */
};

/* SIZE bytes are in SLOT from now on. */
static void taken_write(struct taken *t, uint32_t slot, uint64_t size) {
    t->written[slot] = size;
    if (t->noted != 0)
        t->written[slot] =
            tcm_min_u64(size, replay_word_slot(t->noted) * REPLAY_PRESENT_PAGE);
    t->noted = 0;
}

static void taken_alloc(struct taken *t, uint32_t slot, uint64_t size) {
    t->impossible += t->full[slot];
    t->impossible += t->noted != 0 && replay_word_size(t->noted) != 0;
    taken_write(t, slot, size);
    t->other_site += t->sized_by_site && size != 8 + t->site;
    t->full[slot] = true;
    t->size[slot] = size;
    t->live++;
    t->bytes += size;
}

static void taken_free(struct taken *t, uint32_t slot) {
    t->impossible += !t->full[slot];
    t->full[slot] = false;
    t->live--;
    t->bytes -= t->size[slot];
}

static void taken_long(struct taken *t, const uint64_t *w) {
    unsigned call = (unsigned)replay_word_size(w[0]);
    uint32_t slot = replay_word_slot(w[0]);
    if (mtf_call_is_realloc(call) && !replay_long_is_new(w[2])) {
        t->impossible += !t->full[slot];
        t->sized_wrong += replay_long_old(w[2]) != t->size[slot];
        t->impossible += t->noted == 0 && t->written[slot] != t->size[slot];
        t->impossible +=
            replay_word_size(t->noted) * REPLAY_PRESENT_PAGE > t->written[slot];
        taken_write(t, slot, w[1]);
        t->bytes += w[1] - t->size[slot];
        t->size[slot] = w[1];
    } else if (mtf_call_is_free(call)) {
        t->sized_wrong += w[1] != t->size[slot];
        taken_free(t, slot);
    } else {
        taken_alloc(t, slot, w[1]);
    }
}

/* Segments begin without a site. */
static void taken_segment(struct taken *t, const struct replay_batch *b,
                          uint32_t word) {
    for (uint32_t i = 0; i < b->segments; i++)
        if (b->segment[i].first == word)
            t->site = 0;
}

static void taken_stop(struct taken *t, const struct replay_batch *b) {
    while (t->stops_seen < t->stops && b->is_state &&
           b->account.ops == t->stop[t->stops_seen])
        t->stops_seen++;
}

static void *taker(void *arg) {
    struct taken *t = arg;
    for (;;) {
        pid_t nobody = 1; /* never found ended: it is no child */
        int status;
        const struct replay_batch *b =
            replay_ring_take(t->ring, &nobody, &status);
        for (uint32_t i = 0; i < b->words; i++) {
            uint64_t w = b->word[i];
            uint32_t slot = replay_word_slot(w);
            unsigned code = replay_word_code(w);
            t->words++;
            if (t->sized_by_site)
                taken_segment(t, b, i);
            if (code == REPLAY_SITE) {
                t->site = slot;
                continue;
            }
            if (code == REPLAY_SWITCH) {
                t->impossible += slot == 0 || slot >= b->caches;
                t->same_index += slot == t->index;
                t->index = slot;
                t->switches++;
                continue;
            }
            if (code == REPLAY_TRIM) {
                t->trims++;
                t->pads += b->word[++i];
                continue;
            }
            if (code == REPLAY_PRESENT) {
                t->impossible +=
                    replay_word_code(b->word[i + 1]) != REPLAY_LONG;
                t->noted = w;
                continue;
            }
            if (code == REPLAY_THREAD_END) {
                t->impossible += slot == 0 || slot >= b->caches;
                t->ends++;
                continue;
            }
            if (slot >= b->slots || slot >= 4 * SLOTS) {
                t->impossible++;
                continue;
            }
            switch (code) {
            case REPLAY_MALLOC:
            case REPLAY_CALLOC:
            case REPLAY_NEW:
            case REPLAY_NEW_ARRAY:
                taken_alloc(t, slot, replay_word_size(w));
                break;
            case REPLAY_DELETE_SIZED:
            case REPLAY_DELETE_ARRAY_SIZED:
            case REPLAY_FREE_SIZED:
                t->sized_wrong += replay_word_size(w) != t->size[slot];
                taken_free(t, slot);
                break;
            case REPLAY_FREE:
            case REPLAY_DELETE:
            case REPLAY_DELETE_ARRAY:
                taken_free(t, slot);
                break;
            case REPLAY_LONG:
                taken_long(t, &b->word[i]);
                i += REPLAY_LONG_WORDS - 1;
                break;
            default:
                t->impossible++;
            }
        }
        taken_stop(t, b);
        if (b->last)
            return NULL;
        replay_ring_taken(t->ring);
    }
}

/* --- The second bookkeeping ----------------------------------------------- */

struct books {
    bool full[SLOTS];
    uint64_t size[SLOTS];
    uint64_t live, bytes, peak, ops, unknown, lost, requested, failed;
    uint64_t trims, pads;
    bool noted;
    uint64_t present, unwritten, written[SLOTS];
};

static void books_gone(struct books *k, uint32_t slot) {
    k->full[slot] = false;
    k->live--;
    k->bytes -= k->size[slot];
    k->unwritten -= k->size[slot] - k->written[slot];
}

static void books_add(struct books *k, uint32_t slot, uint64_t size) {
    if (k->full[slot]) {
        k->lost++;
        books_gone(k, slot);
    }
    k->full[slot] = true;
    k->written[slot] = k->noted ? tcm_min_u64(k->present, size) : size;
    k->unwritten += size - k->written[slot];
    k->size[slot] = size;
    k->live++;
    k->requested += size;
    k->bytes += size;
    if (k->bytes > k->peak)
        k->peak = k->bytes;
}

static void books_take_one(struct books *k, const struct mtf_op *op) {
    if (op->kind > MTF_OP_LAST_OPERATION) {
        bool trim =
            op->kind == MTF_OP_EXTENSION && op->slot == MTF_EXTENSION_TRIM;
        k->failed += op->kind == MTF_OP_FAILED;
        k->trims += trim;
        k->pads += trim ? op->size : 0;
        return;
    }
    k->ops++;
    switch (op->kind) {
    case MTF_OP_ALLOC:
    case MTF_OP_ALIGNED:
    case MTF_OP_REALLOC_NEW:
        books_add(k, op->slot, op->size);
        return;
    case MTF_OP_REALLOC:
        if (!k->full[op->slot])
            break;
        books_gone(k, op->slot);
        books_add(k, op->slot, op->size);
        return;
    default:
        if (!k->full[op->slot])
            break;
        books_gone(k, op->slot);
        return;
    }
    k->unknown++;
}

static void books_take(struct books *k, const struct mtf_op *op) {
    books_take_one(k, op);
    k->noted = op->kind == MTF_OP_PRESENT;
    k->present = op->size;
}

/* Slots of which the taker wrote another part than the books say. */
static uint64_t books_differ(const struct books *k, const struct taken *t) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < SLOTS; i++)
        n += k->full[i] &&
             t->written[i] !=
                 tcm_min_u64(k->size[i],
                             tcm_align_up(k->written[i], REPLAY_PRESENT_PAGE));
    return n;
}

/* --- Random operations ---------------------------------------------------- */

/* SOUND: only what a whole trace can hold, judged by the books. */
static struct mtf_op random_op(struct prng *p, const struct books *k,
                               bool sound) {
    struct mtf_op op = {.slot = (uint32_t)prng_below(p, SLOTS),
                        .size = prng_below(p, 5000)};
    if (prng_below(p, 50) == 0)
        op.size = prng_next(p) >> 12;
    bool full = sound ? k->full[op.slot] : prng_below(p, 2);
    switch (prng_below(p, 30)) {
    case 0:
        op.kind = MTF_OP_SWITCH;
        op.slot = (uint32_t)prng_below(p, THREADS);
        return op;
    case 1:
        op.kind = MTF_OP_THREAD_END;
        op.slot = (uint32_t)prng_below(p, THREADS);
        return op;
    case 2:
        op.kind = MTF_OP_FAILED;
        op.call = MTF_CALL_MALLOC;
        return op;
    case 3:
        op.kind = MTF_OP_TIME;
        return op;
    case 7:
        op.kind = MTF_OP_EXTENSION;
        op.slot = (uint32_t)prng_below(p, 8);
        return op;
    case 8:
        op.kind = MTF_OP_PRESENT;
        return op;
    case 4:
        op.kind = full ? MTF_OP_REALLOC : MTF_OP_REALLOC_NEW;
        op.call = MTF_CALL_REALLOC + (uint8_t)prng_below(p, 2);
        return op;
    case 5:
        op.kind = full ? MTF_OP_REALLOC_END : MTF_OP_ALIGNED;
        op.call = full ? MTF_CALL_REALLOC
                       : MTF_CALL_MEMALIGN + (uint8_t)prng_below(p, 9);
        op.align_log2 = (uint8_t)prng_below(p, 20);
        return op;
    case 6:
        op.kind = full ? MTF_OP_FREE_SIZE : MTF_OP_ALLOC;
        op.call = full ? MTF_CALL_DELETE_SIZED : MTF_CALL_NEW;
        return op;
    default:
        op.kind = full ? MTF_OP_FREE : MTF_OP_ALLOC;
        if (full)
            op.call = MTF_CALL_FREE + (uint8_t)prng_below(p, 16);
        else if (prng_below(p, 2))
            op.call = MTF_CALL_MALLOC + (uint8_t)prng_below(p, 2);
        else
            op.call = MTF_CALL_NEW + (uint8_t)prng_below(p, 4);
        return op;
    }
}

/* ORDER NULL: that of the trace. */
static struct replay_translate *
translate_ordered(struct taken *t, pthread_t *thread,
                  const struct replay_order *order) {
    struct replay_translate *f = malloc(sizeof(*f));
    memset(t, 0, sizeof(*t));
    t->ring = replay_ring_new(REPLAY_BATCHES, REPLAY_BATCHES / 2, NULL);
    if (f == NULL || t->ring == NULL ||
        !replay_translate_init(f, t->ring, order) ||
        pthread_create(thread, NULL, taker, t) != 0)
        tap_bail("no memory or thread");
    return f;
}

static struct replay_translate *translate_new(struct taken *t,
                                              pthread_t *thread) {
    return translate_ordered(t, thread, NULL);
}

static void random_trace(bool sound, uint64_t seed, uint64_t count) {
    static struct mtf_op ops[256 + TOOL_OPS_AHEAD];
    static struct taken t;
    static struct books k;
    struct mtf_proc_block block = {.payload = NULL};
    pthread_t thread;
    struct prng p;
    const char *what = sound ? "sound trace" : "damaged trace";
    memset(&k, 0, sizeof(k));
    prng_seed(&p, seed);
    struct replay_translate *f = translate_new(&t, &thread);
    const struct replay_result *r = &t.ring->result;
    replay_translate_trace(f);
    f->most = SLOTS;
    f->use_present = true;
    bool good = true;
    while (count > 0) {
        size_t n = 1 + prng_below(&p, 256);
        for (size_t i = 0; i < n; i++) {
            ops[i] = random_op(&p, &k, sound);
            books_take(&k, &ops[i]);
        }
        good &= replay_translate_ops(f, &block, ops, n);
        count -= n < count ? n : count;
    }
    uint64_t unwritten = f->unwritten_bytes;
    replay_translate_end(f);
    pthread_join(thread, NULL);
    tap_ok(good, "%s: all operations are taken", what);
    tap_is_u64(t.impossible, 0, "%s: no impossible word", what);
    tap_is_u64(t.sized_wrong, 0, "%s: frees carry the block's size", what);
    tap_is_u64(t.same_index, 0, "%s: no switch to the same cache", what);
    tap_ok(t.switches > 100 && t.ends > 100, "%s: threads come and go", what);
    tap_is_u64(r->done.ops, k.ops, "%s: operations", what);
    tap_is_u64(r->done.live_blocks, k.live, "%s: live blocks", what);
    tap_is_u64(r->done.live_bytes, k.bytes, "%s: live bytes", what);
    tap_is_u64(r->done.peak_live_bytes, k.peak, "%s: peak", what);
    tap_is_u64(r->done.requested_bytes, k.requested, "%s: requested bytes",
               what);
    tap_is_u64(r->unknown_blocks, k.unknown, "%s: unknown blocks", what);
    tap_is_u64(r->lost_frees, k.lost, "%s: lost frees", what);
    tap_is_u64(r->recorded_failures, k.failed, "%s: failed calls", what);
    tap_ok(k.trims > 100, "%s: has calls of malloc_trim", what);
    tap_is_u64(t.trims, k.trims, "%s: all are handed on", what);
    tap_is_u64(t.pads, k.pads, "%s: with their pads", what);
    tap_is_u64(r->recorded_trims, k.trims, "%s: and counted", what);
    tap_is_u64(t.live, k.live, "%s: the words leave the same blocks", what);
    tap_is_u64(t.bytes, k.bytes, "%s: and bytes", what);
    tap_ok(unwritten > 1000000 && unwritten == k.unwritten,
           "%s: what is not written of them", what);
    tap_is_u64(books_differ(&k, &t), 0, "%s: and where", what);
    tap_ok(sound == (k.unknown + k.lost == 0), "%s: is one", what);
    free(f);
}

/* --- Single rules --------------------------------------------------------- */

static void bounds(void) {
    static struct taken t;
    struct mtf_op ops[1 + TOOL_OPS_AHEAD] = {
        {.kind = MTF_OP_ALLOC, .call = MTF_CALL_MALLOC, .size = 8}};
    struct mtf_proc_block block = {.payload = NULL};
    pthread_t thread;
    struct replay_translate *f = translate_new(&t, &thread);
    replay_translate_trace(f);
    f->most = 100;
    ops[0].slot = 99;
    tap_ok(replay_translate_ops(f, &block, ops, 1), "the last possible slot");
    ops[0].slot = 100;
    tap_ok(!replay_translate_ops(f, &block, ops, 1),
           "a slot that no trace of this length has is refused");
    ops[0].slot = UINT32_MAX;
    f->most = UINT64_MAX;
    tap_ok(!replay_translate_ops(f, &block, ops, 1),
           "the slot beyond all is refused");
    f->most = 100;
    replay_translate_trace(f);
    f->most = 100;
    ops[0].slot = 0;
    tap_ok(replay_translate_ops(f, &block, ops, 1), "a second trace");
    replay_translate_end(f);
    pthread_join(thread, NULL);
    tap_is_u64(t.live, 2, "has slots of its own");
    tap_is_u64(t.impossible, 0, "in the tables' bounds");
    free(f);
}

/* Notes of present memory apply to the next operation of the same block, with
   --touch=auto. */
static void present_words(void) {
    static struct taken t;
    struct mtf_op ops[3 + TOOL_OPS_AHEAD] = {
        {.kind = MTF_OP_PRESENT, .size = 5000},
        {.kind = MTF_OP_ALLOC, .call = MTF_CALL_MALLOC, .size = 1 << 20},
        {.kind = MTF_OP_ALLOC, .call = MTF_CALL_MALLOC, .size = 1 << 20}};
    struct mtf_proc_block block = {.payload = NULL}, next = {.offset = 100};
    pthread_t thread;
    struct replay_translate *f = translate_new(&t, &thread);
    replay_translate_trace(f);
    f->most = 100;
    replay_translate_ops(f, &block, ops, 1);
    replay_translate_ops(f, &block, &ops[1], 1);
    tap_is_u64(f->unwritten_bytes, 0, "present bytes are not asked for");
    f->use_present = true;
    ops[1].slot = 1;
    ops[2].slot = 2;
    replay_translate_ops(f, &block, ops, 3);
    tap_is_u64(f->unwritten_bytes, (1 << 20) - 5000,
               "they are those of one block");
    ops[1].slot = 3;
    ops[2].slot = 4;
    replay_translate_ops(f, &block, ops, 1);
    replay_translate_ops(f, &next, &ops[1], 2);
    tap_is_u64(f->unwritten_bytes, (1 << 20) - 5000,
               "not of one in another block of the trace");
    f->room_bytes = 5 << 20;
    tap_ok(replay_translate_fits(f), "all fits");
    f->room_bytes = (4 << 20) + 4999;
    tap_ok(!replay_translate_fits(f), "or not");
    f->room_bytes++;
    tap_ok(replay_translate_fits(f), "by what is written");
    replay_translate_end(f);
    pthread_join(thread, NULL);
    tap_ok(t.written[0] == 1 << 20 && t.written[1] == 8192 &&
               t.written[2] == 1 << 20 && t.written[3] == 1 << 20 &&
               t.impossible == 0,
           "whole pages are written");
    free(f);
}

/* --- The recorded run ----------------------------------------------------- */

/* Fields and values as they stand in a sample or closing block. */
static uint32_t accounts(uint8_t *p, const uint64_t (*pair)[2], size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint16_t field = (uint16_t)pair[i][0];
        memcpy(p + 10 * i, &field, sizeof(field));
        memcpy(p + 10 * i + 2, &pair[i][1], sizeof(pair[i][1]));
    }
    return (uint32_t)(10 * n);
}

static void recorded(void) {
    static const uint64_t sampled[][2] = {{MTF_ACCOUNT_CENTRAL_FETCHES, 10},
                                          {MTF_ACCOUNT_SPANS_MADE, 20},
                                          {MTF_ACCOUNT_RSS_ANON_BYTES, 5}},
                          closing[][2] = {
                              {MTF_PROC_ACCOUNT_START_NS, 1000},
                              {MTF_PROC_ACCOUNT_END_NS, 1750},
                              {0x8000 + MTF_ACCOUNT_CENTRAL_FETCHES, 12}};
    static struct replay_result r;
    struct replay_recorded c = {0};
    uint8_t bytes[64] = {0};
    struct mtf_proc_block block = {.payload = bytes};
    struct mtf_op op = {.kind = MTF_OP_SAMPLE};
    op.size = 8 + accounts(bytes + 8, sampled, TCM_ARRAY_SIZE(sampled));
    replay_recorded_time(&c, 900, true);
    replay_recorded_sample(&c, &block, &op);
    replay_recorded_time(&c, 1200, true);
    struct replay_recorded cut = c;
    replay_recorded_end(&cut, &r);
    tap_is_u64(r.recorded_ns, 300, "a cut trace: from its first to last time");
    tap_ok(r.recorded[MTF_ACCOUNT_CENTRAL_FETCHES] == 10 &&
               r.recorded[MTF_ACCOUNT_SPANS_MADE] == 20,
           "and its last sample's counters");
    tap_is_u64(r.recorded_known,
               1u << MTF_ACCOUNT_CENTRAL_FETCHES | 1u << MTF_ACCOUNT_SPANS_MADE,
               "and no others");
    block.head.length = accounts(bytes, closing, TCM_ARRAY_SIZE(closing));
    replay_recorded_closing(&c, &block);
    replay_recorded_end(&c, &r);
    tap_is_u64(r.recorded_ns, 300 + 750, "a whole one adds what it says");
    tap_is_u64(r.recorded[MTF_ACCOUNT_CENTRAL_FETCHES], 10 + 12,
               "the footer's counters before the last sample's");
    tap_is_u64(r.recorded[MTF_ACCOUNT_SPANS_MADE], 20 + 20,
               "which has what the footer has not");
    tap_ok(c.known == 0 && c.last_ns == 0, "the next trace begins anew");
}

/* --- Threads -------------------------------------------------------------- */

static void thread_map(void) {
    static bool indexed[5000];
    static uint32_t index[5000];
    static bool taken_index[5001];
    struct replay_thread_map m = {0};
    struct prng p;
    uint64_t wrong = 0, most = 0, now = 0;
    prng_seed(&p, 5);
    for (int i = 0; i < 300000; i++) {
        uint32_t id = 1 + (uint32_t)prng_below(&p, 4999);
        bool many = i / 50000 % 2 == 0;
        if (prng_below(&p, 10) < (many ? 7 : 3)) {
            struct replay_thread *e = replay_threads_get(&m, id);
            wrong += e == NULL || e->id != id;
            wrong += indexed[id] && e->index != index[id];
            if (!indexed[id] && replay_threads_index(&m, e)) {
                wrong +=
                    e->index == 0 || e->index > 5000 || taken_index[e->index];
                index[id] = e->index;
                taken_index[e->index] = indexed[id] = true;
                now++;
                most = now > most ? now : most;
            }
        } else {
            uint32_t got = replay_threads_end(&m, id);
            wrong += got != (indexed[id] ? index[id] : 0);
            if (indexed[id]) {
                taken_index[index[id]] = false;
                now--;
            }
            indexed[id] = false;
        }
    }
    tap_is_u64(wrong, 0, "threads keep their index, no two have the same");
    tap_is_u64(m.indices, most + 1, "indices of ended threads are used again");
    replay_threads_fini(&m);
}

/* COUNT operations of thread 1, then one of thread 2 if LATE. Times pass, so
   there are windows. */
static void undecided_trace(const char *what, uint64_t count, bool late,
                            bool is_real, bool is_known) {
    static struct taken t;
    static struct mtf_op ops[3 + TOOL_OPS_AHEAD];
    const struct replay_order order = {
        .skew = 1, .undecided = true, .max_idle_ns = UINT64_MAX};
    struct mtf_proc_block block = {.payload = NULL};
    pthread_t thread;
    struct replay_translate *f = translate_ordered(&t, &thread, &order);
    const struct replay_result *r = &t.ring->result;
    replay_translate_trace(f);
    replay_translate_thread(f, 1);
    f->most = SLOTS;
    bool good = true;
    for (uint64_t i = 0; i < count; i++) {
        bool full = i % (2 * SLOTS) >= SLOTS;
        ops[0] = (struct mtf_op){.kind = full ? MTF_OP_FREE : MTF_OP_ALLOC,
                                 .call = full ? MTF_CALL_FREE : MTF_CALL_MALLOC,
                                 .slot = (uint32_t)(i % SLOTS),
                                 .size = 8};
        if (i % 1000 == 0)
            replay_translate_time(f, 1000000000 + i * 2000);
        good &= replay_translate_ops(f, &block, ops, 1);
    }
    if (late) {
        replay_translate_thread(f, 2);
        ops[0] = (struct mtf_op){.kind = MTF_OP_ALLOC,
                                 .call = MTF_CALL_MALLOC,
                                 .slot = SLOTS - 1,
                                 .size = 8};
        good &= replay_translate_ops(f, &block, ops, 1);
    }
    replay_translate_end(f);
    pthread_join(thread, NULL);
    tap_ok(good, "%s: all operations are taken", what);
    tap_ok(r->is_real == is_real, "%s: threads of their own", what);
    tap_ok((r->head_ops == 0) == is_known, "%s: known or not", what);
    tap_is_u64(t.impossible, 0, "%s: no impossible word", what);
    tap_is_u64(t.live, r->done.live_blocks, "%s: live blocks", what);
    tap_is_u64(r->done.ops, count + late, "%s: operations", what);
    free(f);
}

static void undecided(void) {
    undecided_trace("a short trace of one thread", 1200, false, false, true);
    undecided_trace("one of two threads", 1200, true, true, true);
    undecided_trace("one of more batches", 100000, true, true, true);
    undecided_trace("a long one of one thread", 4000000, false, false, false);
    undecided_trace("two threads, the second late", 4000000, true, false,
                    false);
}

/* Three threads allocate, each in slots of its own, at sites that change in
   between; batches end where they are told to. */
static void sites_and_stops(const char *what, uint32_t skew) {
    enum { COUNT = 60000 };
    static struct taken t;
    static struct mtf_op ops[2 + TOOL_OPS_AHEAD];
    static bool full[3][40];
    const uint64_t stop[] = {1, 2, 100, 5000, 5001, 40000, COUNT - 1};
    const struct replay_order order = {.skew = skew,
                                       .max_idle_ns = UINT64_MAX,
                                       .sites = true,
                                       .stop = stop,
                                       .stops = TCM_ARRAY_SIZE(stop)};
    struct mtf_proc_block block = {.payload = NULL};
    pthread_t thread;
    struct replay_translate *f = translate_ordered(&t, &thread, &order);
    uint32_t site = 0;
    bool good = true;
    memset(full, 0, sizeof(full));
    t.sized_by_site = true;
    t.stop = stop;
    t.stops = TCM_ARRAY_SIZE(stop);
    replay_translate_trace(f);
    f->most = SLOTS;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t who = i / 7 % 3, place = i / 21 * 13 % 40, n = 0;
        bool *is_full = &full[who][place];
        if (i % 5000 == 0) { /* a block begins */
            replay_translate_time(f, 1000000000 + i * 2000u);
            replay_translate_site(f, 0);
            site = 0;
        }
        replay_translate_thread(f, who + 1);
        if (!*is_full && site != i / 5 % 9) {
            site = i / 5 % 9;
            ops[n++] = (struct mtf_op){.kind = MTF_OP_SITE, .slot = site};
        }
        ops[n++] =
            (struct mtf_op){.kind = *is_full ? MTF_OP_FREE : MTF_OP_ALLOC,
                            .call = *is_full ? MTF_CALL_FREE : MTF_CALL_MALLOC,
                            .slot = 3 * place + who,
                            .size = *is_full ? 0 : 8 + site};
        *is_full = !*is_full;
        good &= replay_translate_ops(f, &block, ops, n);
    }
    replay_translate_end(f);
    pthread_join(thread, NULL);
    tap_ok(good && t.impossible == 0, "%s: no impossible word", what);
    tap_is_u64(t.other_site, 0, "%s: each allocation has its site", what);
    tap_is_u64(t.stops_seen, TCM_ARRAY_SIZE(stop),
               "%s: a batch ends behind each operation asked for", what);
    free(f);
}

int main(void) {
    sites_and_stops("in the order of the trace", 0);
    sites_and_stops("dealt to threads", 1);
    undecided();
    random_trace(true, 1, 400000);
    random_trace(false, 2, 400000);
    bounds();
    present_words();
    recorded();
    thread_map();
    return tap_done();
}
