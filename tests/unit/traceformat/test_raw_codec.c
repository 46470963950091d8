/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events: both decoders read the encoder's output; cut or impossible events are
 * refused without a change of state and without a read past the padding.
 */
#include "traceformat/raw_codec.h"

#include "prng.h"
#include "raw_build.h"
#include "tap.h"

/* Decodes the next event and moves P. */
static bool next(struct mtf_raw_state *s, const uint8_t **p, const uint8_t *end,
                 struct mtf_event *e) {
    memset(e, 0, sizeof(*e));
    int n = mtf_raw_decode(s, *p, end, e);
    if (n <= 0)
        return false;
    *p += n;
    return true;
}

#define NEXT(want)                                                             \
    tap_ok(next(&s, &p, end, &e) && e.kind == (want), "%s", #want)

static void test_every_kind(void) {
    struct encoder enc = {.next_token = 10, .tokens_left = 2};
    put_every_kind(&enc, 1000, 100);
    struct mtf_raw_state s = {0};
    struct mtf_event e;
    const uint8_t *p = enc.out.data, *end = p + enc.out.length;
    NEXT(MTF_EVENT_BUFFER);
    tap_ok(e.time_ns == 1000 && s.next_token == 10 && s.tokens_left == 2 &&
               s.cpu == 3 && s.last_freed == 10,
           "its state");
    NEXT(MTF_EVENT_THREAD_START);
    tap_is_u64(e.value, 77, "kernel thread id");
    NEXT(MTF_EVENT_STATE);
    tap_ok(s.next_token == 100 && s.tokens_left == 64, "token block");
    NEXT(MTF_EVENT_TIME);
    tap_ok(e.time_ns == 1010 && s.time_ns == 1010, "absolute time");
    NEXT(MTF_EVENT_ALLOC);
    tap_ok(e.call == MTF_CALL_MALLOC && e.size == 24 && e.token == 100,
           "malloc(24)");
    NEXT(MTF_EVENT_ALLOC);
    tap_ok(e.size == 4097 && e.token == 101, "malloc(4097)");
    NEXT(MTF_EVENT_STATE);
    NEXT(MTF_EVENT_ALLOC);
    tap_ok(e.call == MTF_CALL_NEW && e.size == 0 && e.token == 102, "new(0)");
    NEXT(MTF_EVENT_FREE);
    tap_ok(e.call == MTF_CALL_FREE && e.old_token == 100, "free");
    NEXT(MTF_EVENT_STATE);
    NEXT(MTF_EVENT_FREE);
    tap_ok(e.call == MTF_CALL_DELETE && e.old_token == 102, "delete");
    NEXT(MTF_EVENT_REALLOC);
    tap_ok(e.call == MTF_CALL_REALLOC && e.size == 1 << 20 &&
               e.old_token == 101 && e.token == 103 &&
               e.flags == MTF_EVENT_MOVED,
           "realloc that moved");
    NEXT(MTF_EVENT_REALLOC);
    tap_ok(e.call == MTF_CALL_REALLOCARRAY && e.size == 100 &&
               e.old_token == 103 && e.token == 104 && e.flags == 0,
           "reallocarray that stayed");
    NEXT(MTF_EVENT_ALIGNED);
    tap_ok(e.call == MTF_CALL_POSIX_MEMALIGN && e.align_log2 == 12 &&
               e.size == 70000 && e.token == 105,
           "posix_memalign(4096, 70000)");
    NEXT(MTF_EVENT_REALLOC_NEW);
    tap_ok(e.call == MTF_CALL_REALLOC && e.size == 0 && e.token == 106 &&
               e.flags == MTF_EVENT_OLD_UNKNOWN,
           "realloc of a block made while not recording");
    NEXT(MTF_EVENT_FAILED);
    tap_ok(e.call == MTF_CALL_CALLOC && e.size == UINT64_MAX &&
               e.old_token == 0,
           "calloc that overflowed");
    NEXT(MTF_EVENT_PRESENT);
    tap_ok(e.value == 4096 && !mtf_event_ends_block(e.kind), "present bytes");
    NEXT(MTF_EVENT_FREE_SIZE);
    tap_ok(mtf_event_ends_block(e.kind), "of the block that this ends");
    tap_ok(e.call == MTF_CALL_DELETE_SIZED && e.size == 99 &&
               e.old_token == 104,
           "delete with a wrong size");
    NEXT(MTF_EVENT_ALLOC);
    tap_ok(e.size == 32 && e.token == 107, "new(32)");
    NEXT(MTF_EVENT_REALLOC_END);
    tap_ok(e.old_token == 107 && s.last_freed == 107, "realloc to 0");
    NEXT(MTF_EVENT_UNTRACED);
    tap_ok(e.value == 3 && s.untraced_frees == 3, "untraced frees");
    NEXT(MTF_EVENT_MARK);
    tap_ok(e.text_length == 6 && memcmp(e.text, "a mark", 6) == 0, "its text");
    NEXT(MTF_EVENT_EXTENSION);
    tap_ok(e.call == 2 && e.value == 9, "which, and its argument");
    NEXT(MTF_EVENT_GAP);
    tap_ok(e.value == 0 && e.time_ns == 1020 && e.time_hi == 1030, "interval");
    NEXT(MTF_EVENT_WRONG);
    tap_ok(e.call == MTF_CALL_FREE && e.flags == MTF_WRONG_FREED &&
               e.old_token == 101 && e.value == 0,
           "a block that was freed");
    NEXT(MTF_EVENT_UNKNOWN);
    tap_ok(e.value == 30 && e.text_length == 5, "a later kind is passed over");
    NEXT(MTF_EVENT_THREAD_END);
    tap_ok(e.text_length == 6 && memcmp(e.text, "worker", 6) == 0, "name");
    tap_ok(p == end, "nothing is left");
    bytes_free(&enc.out);
}

/* Kinds of the forms TEXT and PAIR need no code of their own. */
static void test_plain(void) {
    struct encoder enc = {.next_token = 10, .tokens_left = 2};
    struct mtf_raw_state s = {0};
    struct mtf_event e;
    const struct mtf_kind *k;
    for (size_t i = 0; (k = mtf_kind_at(i)) != NULL; i++) {
        enum mtf_raw_kind kind = (enum mtf_raw_kind)k->raw;
        if (mtf_plain_of_raw(k->raw) == NULL)
            continue;
        if (k->form == MTF_FORM_TEXT)
            PUT(&enc, mtf_raw_put_bytes, kind, "a text", 6);
        else
            PUT(&enc, mtf_raw_put_pair, kind, 255, UINT64_MAX - i);
    }
    const uint8_t *p = enc.out.data, *end = p + enc.out.length;
    for (size_t i = 0; (k = mtf_kind_at(i)) != NULL; i++) {
        if (mtf_plain_of_raw(k->raw) == NULL)
            continue;
        bool good = next(&s, &p, end, &e) && e.kind == k->event;
        if (k->form == MTF_FORM_TEXT)
            good = good && e.text_length == 6 && !memcmp(e.text, "a text", 6);
        else
            good = good && e.call == 255 && e.value == UINT64_MAX - i;
        tap_ok(good, "plain event: %s", k->name);
    }
    tap_ok(p == end, "nothing is left");
    bytes_free(&enc.out);
}

/* Random ALLOC, FREE and REALLOC events: the hot and the slow decoder both
   yield the input. */
static void test_hot(void) {
    enum { COUNT = 50000 };
    struct encoder enc = {.next_token = 1};
    static uint64_t sizes[COUNT], olds[COUNT];
    static uint8_t kinds[COUNT];
    struct prng r;
    prng_seed(&r, 3);
    put_buffer(&enc, 5, 0, 0);
    put_tokens(&enc, 1, 31);
    for (int i = 0; i < COUNT; i++) {
        kinds[i] = (uint8_t)(MTF_EVENT_ALLOC + prng_below(&r, 3));
        sizes[i] = prng_next(&r) >> (16 + prng_below(&r, 48));
        olds[i] = 1 + prng_below(&r, enc.next_token + 5);
        if (kinds[i] == MTF_EVENT_ALLOC)
            put_alloc(&enc, sizes[i]);
        else if (kinds[i] == MTF_EVENT_FREE)
            put_free(&enc, olds[i]);
        else
            put_realloc(&enc, sizes[i], olds[i], i % 2 == 0, i % 3 == 0);
    }
    struct mtf_raw_state hot = {0}, slow = {0};
    struct mtf_event a = {0}, b = {0};
    const uint8_t *p = enc.out.data, *end = p + enc.out.length;
    int n = mtf_raw_decode_slow(&hot, p, end, &a);
    n += mtf_raw_decode_slow(&hot, p + n, end, &a);
    slow = hot;
    p += n;
    bool good = true;
    uint64_t token = 1;
    for (int i = 0; i < COUNT && good; i++) {
        n = mtf_raw_decode(&hot, p, end, &a);
        good = n > 0 && mtf_raw_decode_slow(&slow, p, end, &b) == n &&
               memcmp(&hot, &slow, sizeof(hot)) == 0 && a.kind == kinds[i] &&
               b.kind == kinds[i] && a.call == b.call;
        if (kinds[i] != MTF_EVENT_FREE)
            good = good && a.size == sizes[i] && b.size == sizes[i] &&
                   a.token == token++;
        if (kinds[i] != MTF_EVENT_ALLOC)
            good = good && a.old_token == olds[i] && b.old_token == olds[i];
        p += n;
    }
    tap_ok(good && p == end, "hot and slow way agree with what was encoded");
    bytes_free(&enc.out);
}

/* Sets the end anywhere. Bytes after the padding are out of bounds (the copies
   let a sanitizer see a read of them). */
static void test_cut(void) {
    struct encoder enc = {.next_token = 1};
    put_every_kind(&enc, 1000, 1);
    bool good = true;
    for (size_t cut = 0; cut <= enc.out.length; cut++) {
        uint8_t *copy = malloc(cut + 8);
        memcpy(copy, enc.out.data, cut);
        memset(copy + cut, 0xFF, 8);
        struct mtf_raw_state s = {0};
        struct mtf_event e;
        const uint8_t *p = copy, *end = copy + cut;
        while (p < end) {
            struct mtf_raw_state before = s;
            int n = mtf_raw_decode(&s, p, end, &e);
            if (n <= 0) {
                good = good && n == MTF_DECODE_BAD &&
                       memcmp(&before, &s, sizeof(s)) == 0;
                break;
            }
            p += n;
        }
        bool ended;
        size_t whole = mtf_raw_events_length(copy, end, &ended);
        good = good && whole == (size_t)(p - copy) && ended == (p == end);
        free(copy);
    }
    tap_ok(good, "events cut at every byte are refused, state unchanged");
    /* In a spool zeros follow instead. */
    good = true;
    size_t last = 0;
    for (size_t cut = 0; cut <= enc.out.length; cut++) {
        uint8_t *copy = calloc(1, enc.out.length + 16);
        memcpy(copy, enc.out.data, cut);
        bool ended;
        size_t n =
            mtf_raw_events_length(copy, copy + enc.out.length + 8, &ended);
        good = good && n >= last;
        last = n;
        free(copy);
    }
    tap_ok(good && last == enc.out.length, "zeros end the events");
    bytes_free(&enc.out);
}

static void test_refused(void) {
    static const struct {
        const char *what;
        uint8_t kind, length, bytes[16];
    } bad[] = {
        {"ALIGNED without size", MTF_RAW_ALIGNED, 2, {16, 4}},
        {"ALIGNED by malloc", MTF_RAW_ALIGNED, 3, {1, 4, 8}},
        {"alignment of 2^60", MTF_RAW_ALIGNED, 3, {16, 60, 8}},
        {"size of 9 bytes", MTF_RAW_ALIGNED, 11, {16, 4}},
        {"size above 2^48", MTF_RAW_ALIGNED, 9, {16, 4, 0, 0, 0, 0, 0, 0, 2}},
        {"FAILED cut short", MTF_RAW_FAILED, 10, {1, 0}},
        {"FAILED free", MTF_RAW_FAILED, 11, {32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
        {"FREE_SIZE by malloc", MTF_RAW_FREE_SIZE, 10, {1}},
        {"REALLOC_NEW by malloc", MTF_RAW_REALLOC_NEW, 3, {1, 0, 8}},
        {"REALLOC_END cut short", MTF_RAW_REALLOC_END, 8, {3}},
        {"EXTENSION cut short", MTF_RAW_EXTENSION, 8, {1}},
        {"WRONG cut short", MTF_RAW_WRONG, 17, {MTF_CALL_FREE}},
        {"WRONG of no free", MTF_RAW_WRONG, 18, {MTF_CALL_MALLOC}},
        {"GAP cut short", MTF_RAW_GAP, 16, {1}},
        {"THREAD_START cut short", MTF_RAW_THREAD_START, 3, {1}},
        {"BUFFER cut short", MTF_RAW_BUFFER, 16, {1}},
        {"call without bytes", MTF_RAW_FREE_SIZE, 0, {0}},
    };
    struct mtf_raw_state fresh = {.next_token = 1, .tokens_left = 1};
    struct mtf_event e;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(bad); i++) {
        struct encoder enc = {0};
        struct mtf_raw_state s = fresh;
        PUT(&enc, mtf_raw_put_bytes, bad[i].kind, bad[i].bytes, bad[i].length);
        int n =
            mtf_raw_decode(&s, enc.out.data, enc.out.data + enc.out.length, &e);
        tap_ok(n == MTF_DECODE_BAD && memcmp(&s, &fresh, sizeof(s)) == 0, "%s",
               bad[i].what);
        bytes_free(&enc.out);
    }
    static const struct {
        const char *what;
        uint64_t payload;
    } inline_bad[] = {
        {"sticky allocation call free", 32u << 7 | MTF_RAW_ALLOC_CALL << 2},
        {"sticky allocation call memalign", 16u << 7 | MTF_RAW_ALLOC_CALL << 2},
        {"sticky call 64", 64u << 7 | MTF_RAW_FREE_CALL << 2},
        {"sticky free call malloc", 1u << 7 | MTF_RAW_FREE_CALL << 2},
        {"events of thread 0", MTF_RAW_AS_THREAD << 2},
        {"events of the late thread",
         (uint64_t)MTF_THREAD_LATE << 7 | MTF_RAW_AS_THREAD << 2},
        {"size above 2^48", ((uint64_t)1 << 50) << 2 | MTF_RAW_ALLOC},
    };
    for (size_t i = 0; i < TCM_ARRAY_SIZE(inline_bad); i++) {
        struct encoder enc = {0};
        struct mtf_raw_state s = fresh;
        put_payload(&enc, inline_bad[i].payload);
        int n =
            mtf_raw_decode(&s, enc.out.data, enc.out.data + enc.out.length, &e);
        tap_ok(n == MTF_DECODE_BAD && memcmp(&s, &fresh, sizeof(s)) == 0, "%s",
               inline_bad[i].what);
        bytes_free(&enc.out);
    }
    struct encoder enc = {0};
    struct mtf_raw_state s = {.next_token = 1};
    put_alloc(&enc, 8);
    tap_is_i64(
        mtf_raw_decode(&s, enc.out.data, enc.out.data + enc.out.length, &e),
        MTF_DECODE_BAD, "allocation without a token");
    bytes_free(&enc.out);
}

/* Random bytes: no read out of bounds, progress, valid results. */
static void test_any_bytes(void) {
    struct prng r;
    bool good = true;
    prng_seed(&r, 4);
    for (int round = 0; round < 20000; round++) {
        size_t n = 1 + prng_below(&r, 80);
        uint8_t *bytes = malloc(n + 8);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)prng_next(&r);
        memset(bytes + n, 0, 8);
        struct mtf_raw_state s = {.next_token = 1, .tokens_left = 1000};
        struct mtf_event e;
        const uint8_t *p = bytes, *end = bytes + n;
        while (p < end) {
            int taken = mtf_raw_decode(&s, p, end, &e);
            if (taken <= 0)
                break;
            good = good && taken <= end - p && e.kind <= MTF_EVENT_UNKNOWN &&
                   e.kind != 0;
            p += taken;
        }
        free(bytes);
    }
    tap_ok(good, "random bytes");
}

int main(void) {
    test_every_kind();
    test_plain();
    test_hot();
    test_cut();
    test_refused();
    test_any_bytes();
    return tap_done();
}
