/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes raw traces of any length to stdout, faster than postprocess reads
 * them: buffers of events are encoded once, and each copy gets a new start.
 *
 *   order_stream short EVENTS           blocks that die young, one in each
 *                                       buffer that lives
 *   order_stream live OBJECTS           all are alive together, then freed
 *   order_stream idle THREADS ACTIVE ROUNDS
 *                                       ACTIVE threads take turns; the others
 *                                       had a few events each at the start
 *
 * Threads: none.
 */
#include "tests/unit/traceformat/raw_build.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define PAIRS      5000u /* of an allocation and a free in a buffer */
#define SHIFT      200u  /* how far the frees are behind */
#define ROUND_NS   2000000u
#define LIVE_BATCH 4000u

static bool write_all(void *ctx, const void *data, size_t n) {
    (void)ctx;
    for (const char *p = data; n != 0;) {
        ssize_t done = write(STDOUT_FILENO, p, n);
        if (done < 0 && errno != EINTR)
            exit(1);
        if (done > 0) {
            p += done;
            n -= (size_t)done;
        }
    }
    return true;
}

/* --- The trace ------------------------------------------------------------ */

struct output {
    struct mtf_raw_writer writer;
    uint64_t now;
    uint64_t token;    /* the next free token */
    uint64_t *offsets; /* of streams, by thread */
};

static void begin(struct output *o, unsigned threads) {
    struct mtf_raw_header h = example_header();
    uint8_t header[MTF_RAW_HEADER_MAX];
    size_t n = mtf_raw_build_header(header, &h, "program", "recorder 1");
    memset(o, 0, sizeof(*o));
    o->now = h.start_ns;
    o->token = 1;
    o->offsets = calloc(threads + 1, sizeof(*o->offsets));
    if (o->offsets == NULL ||
        !mtf_raw_writer_init(&o->writer, write_all, NULL, NULL, 0) ||
        !mtf_raw_write_header(&o->writer, header, n))
        exit(1);
}

static void barrier(struct output *o) {
    if (!mtf_raw_write_barrier(&o->writer, o->now))
        exit(1);
}

static void end(struct output *o) {
    static const struct mtf_account_value reason = {MTF_ACCOUNT_END_REASON,
                                                    MTF_END_EXIT};
    barrier(o);
    if (!mtf_raw_write_footer(&o->writer, o->now, &reason, 1))
        exit(1);
    free(o->offsets);
}

/* The N events of E, which is a buffer that takes TOKENS tokens, as the next of
   THREAD, published within WIDTH ns. */
static void put(struct output *o, struct encoder *e, uint32_t thread,
                uint32_t tokens, uint64_t width) {
    struct mtf_raw_buffer_state s = {.time_ns = o->now,
                                     .next_token = o->token,
                                     .tokens_left = tokens,
                                     .alloc_call = MTF_CALL_MALLOC,
                                     .free_call = MTF_CALL_FREE};
    struct mtf_raw_place place = {.thread = thread,
                                  .offset = o->offsets[thread],
                                  .buffer_start = o->offsets[thread],
                                  .time_lo = o->now,
                                  .time_hi = o->now + width};
    mtf_raw_put_buffer(e->out.data, &s);
    if (!mtf_raw_write_data(&o->writer, &place, e->out.data, e->out.length))
        exit(1);
    o->token += tokens;
    o->offsets[thread] += e->out.length;
}

/* --- Kinds ---------------------------------------------------------------- */

/* A buffer whose first token is 1; its events name tokens as distances. */
static void begin_template(struct encoder *e, uint32_t tokens) {
    memset(e, 0, sizeof(*e));
    e->next_token = 1;
    e->tokens_left = tokens;
    put_buffer(e, 0, 0, 0);
}

/* PAIRS blocks, of which all but KEPT are freed SHIFT later. */
static void make_pairs(struct encoder *e, uint32_t pairs, uint32_t kept) {
    begin_template(e, pairs);
    for (uint64_t i = 1; i <= pairs; i++) {
        put_alloc(e, 16 + i % 40 * 8);
        if (i > SHIFT && i - SHIFT > kept)
            put_free(e, i - SHIFT);
    }
    for (uint64_t i = pairs - SHIFT + 1; i <= pairs; i++)
        put_free(e, i);
}

static void make_short(struct output *o, uint64_t events) {
    struct encoder e;
    make_pairs(&e, PAIRS, 1);
    begin(o, 1);
    for (uint64_t done = 0, k = 0; done < events; done += 2 * PAIRS - 1) {
        put(o, &e, 1, PAIRS, 100000);
        o->now += 100000;
        if (++k % 20 == 0)
            barrier(o);
    }
    bytes_free(&e.out);
}

static void make_live(struct output *o, uint64_t objects) {
    struct encoder allocs, frees;
    begin_template(&allocs, LIVE_BATCH);
    for (unsigned i = 0; i < LIVE_BATCH; i++)
        put_alloc(&allocs, 64);
    begin(o, 1);
    for (uint64_t done = 0; done < objects; done += LIVE_BATCH) {
        put(o, &allocs, 1, LIVE_BATCH, 100000);
        o->now += 100000;
        barrier(o);
    }
    /* the first free names the distance to its buffer's next token */
    for (uint64_t first = 1; first < o->token; first += LIVE_BATCH) {
        begin_template(&frees, 0);
        frees.last_freed = o->token;
        for (uint64_t i = 0; i < LIVE_BATCH; i++)
            put_free(&frees, first + i);
        put(o, &frees, 1, 0, 100000);
        o->now += 100000;
        barrier(o);
        bytes_free(&frees.out);
    }
    bytes_free(&allocs.out);
}

static void make_idle(struct output *o, unsigned threads, unsigned active,
                      unsigned rounds) {
    struct encoder few, many;
    begin_template(&few, 2);
    put_free(&few, put_alloc(&few, 24));
    put_alloc(&few, 40);
    make_pairs(&many, 1000, 0);
    begin(o, threads);
    for (unsigned t = 1; t <= threads; t++)
        put(o, &few, t, 2, 1000);
    o->now += 1000;
    barrier(o);
    for (unsigned r = 0; r < rounds; r++) {
        for (unsigned t = 0; t < active; t++)
            put(o, &many, 1 + t * (threads / active), 1000, ROUND_NS);
        o->now += ROUND_NS;
        barrier(o);
    }
    bytes_free(&few.out);
    bytes_free(&many.out);
}

static unsigned long number(const char *s) {
    return s == NULL ? 0 : strtoul(s, NULL, 10);
}

int main(int argc, char **argv) {
    static struct output o;
    if (argc == 3 && strcmp(argv[1], "short") == 0) {
        make_short(&o, number(argv[2]));
    } else if (argc == 3 && strcmp(argv[1], "live") == 0) {
        make_live(&o, number(argv[2]));
    } else if (argc == 5 && strcmp(argv[1], "idle") == 0) {
        make_idle(&o, (unsigned)number(argv[2]), (unsigned)number(argv[3]),
                  (unsigned)number(argv[4]));
    } else {
        fputs("usage: order_stream short EVENTS | live OBJECTS | idle THREADS "
              "ACTIVE ROUNDS\n",
              stderr);
        return 2;
    }
    end(&o);
    return 0;
}
