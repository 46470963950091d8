/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fuzz/cost_script.h"

#include "base/bits.h"

#define RANDOM    0x0123456789ABCDEFu
#define THREADS   4096u
#define BYTES_MAX ((size_t)2 << 20)

struct stream {
    uint32_t id; /* 0: a free place */
    struct encoder e;
    uint64_t start; /* of the buffer, in the stream */
    size_t saved;   /* of the buffer */
};

struct run {
    unsigned flags, scale, i;
    uint64_t clock;
    size_t made;
    struct mtf_raw_writer w;
    struct bytes *out;
    struct stream streams[2 * THREADS];
    unsigned count;
};

/* --- Names and times ------------------------------------------------------ */

static uint32_t thread_of(const struct run *r, uint8_t who) {
    uint32_t bank = (who & 63u) * 100000u, i = r->i;
    if (who == COST_LATE)
        return MTF_THREAD_LATE;
    switch (who & 0xC0) {
    case COST_FIXED:
        return 1 + (who & 63u);
    case COST_NEXT:
        return 100 + bank + i;
    case COST_SPARSE:
        return (i + 1) << 18 | (who & 63u);
    default:
        return 100 + bank + r->scale - 1 - i;
    }
}

static uint64_t token_of(const struct run *r, uint8_t which) {
    uint64_t bank = (uint64_t)(1 + (which & 63u)) << 24, i = r->i;
    switch (which & 0xC0) {
    case COST_FIXED:
        return 1000 + which;
    case COST_NEXT:
        return bank + i;
    case COST_SPARSE:
        return bank + i * 4096;
    default:
        return bank + (i + 1) % r->scale;
    }
}

/* From the clock: up to 2^31 ns later, or also later, or earlier, each time. */
static uint64_t time_of(const struct run *r, uint8_t time) {
    uint64_t later = (time & 31) == 0 ? 0 : (uint64_t)1 << (time & 31);
    switch (time >> 5) {
    case 1:
        return r->clock + later + 1000 * (uint64_t)r->i;
    case 2:
        return r->clock + later + 1000 * (uint64_t)(r->scale - r->i);
    case 3:
        return r->clock - tcm_min_u64(later, r->clock);
    default:
        return r->clock + later;
    }
}

/* --- Streams -------------------------------------------------------------- */

static struct stream *stream_of(struct run *r, uint32_t id) {
    size_t i = (id * (uint64_t)0x9E3779B97F4A7C15u >> 40) % (2 * THREADS);
    while (r->streams[i].id != 0 && r->streams[i].id != id)
        i = (i + 1) % (2 * THREADS);
    struct stream *s = &r->streams[i];
    if (s->id == 0 && r->count == THREADS)
        return NULL;
    r->count += s->id == 0;
    s->id = id;
    return s;
}

static void save(struct run *r, struct stream *s, uint64_t lo, uint64_t hi) {
    size_t n = s->e.out.length - s->saved;
    if (n == 0)
        return;
    r->made += n + sizeof(struct mtf_segment);
    if ((r->flags & COST_SPOOL) == 0) {
        struct mtf_raw_place place = {s->id, s->start + s->saved, s->start, lo,
                                      hi};
        if (!mtf_raw_write_data(&r->w, &place, s->e.out.data + s->saved, n))
            abort();
        s->saved = s->e.out.length;
        return;
    }
    struct mtf_spool_buffer head;
    size_t size = tcm_align_up(sizeof(head) + n, MTF_SPOOL_UNIT);
    mtf_spool_put_buffer(&head, RANDOM, (uint32_t)size, s->id, s->start, lo);
    uint8_t *p = bytes_room(r->out, size);
    memcpy(p, &head, sizeof(head));
    memcpy(p + sizeof(head), s->e.out.data, n);
    r->out->length += size;
    r->made += size;
    s->start += n;
    s->e.out.length = 0;
}

static void new_buffer(struct stream *s, uint64_t time) {
    s->start += s->e.out.length;
    s->e.out.length = s->saved = 0;
    put_buffer(&s->e, time, 0, 0);
}

/* The next token is TOKEN. */
static void want_token(struct run *r, struct stream *s, uint64_t token) {
    struct encoder *e = &s->e;
    if (e->tokens_left != 0 && e->next_token == token)
        return;
    if (token >= e->next_token + e->tokens_left) {
        put_tokens(e, token, 6);
        return;
    }
    e->next_token = token;
    e->tokens_left = 64;
    put_buffer(e, r->clock, 0, 0);
}

static void put_text(struct encoder *e, enum mtf_raw_kind kind, unsigned n) {
    static const char letters[128] = "abcdefghijklmnopqrstuvwxyz";
    PUT(e, mtf_raw_put_bytes, kind, letters, n % 100);
}

/* --- Records -------------------------------------------------------------- */

static void put_other(struct run *r, struct stream *s, const uint8_t *q) {
    switch (q[5] % 4) {
    case 0:
        PUT(&s->e, mtf_raw_put_failed, MTF_CALL_MALLOC, 0, 0, q[3]);
        break;
    case 1:
        put_payload(&s->e, mtf_inline_payload(MTF_RAW_UNTRACED, q[3]));
        break;
    case 2:
        put_free_size(&s->e, MTF_CALL_DELETE_SIZED, token_of(r, q[2]), q[3]);
        break;
    default:
        want_token(r, s, token_of(r, q[2]));
        put_aligned(&s->e, MTF_CALL_MEMALIGN, 6, q[3]);
    }
}

/* Events. */
static void put_events(struct run *r, struct stream *s, const uint8_t *q) {
    struct encoder *e = &s->e;
    uint64_t token = token_of(r, q[2]), time = time_of(r, q[4]);
    for (unsigned k = 0; k <= (q[3] & 15u); k++) {
        switch (q[0] & 15) {
        case COST_ALLOC:
            want_token(r, s, token + k);
            (void)put_alloc(e, q[5]);
            break;
        case COST_FREE:
            put_free(e, token + k);
            break;
        case COST_AS:
            put_payload(
                e, mtf_inline_payload(MTF_RAW_AS_THREAD, thread_of(r, q[2])));
            break;
        default:
            break;
        }
    }
    switch (q[0] & 15) {
    case COST_REALLOC:
        want_token(r, s, token_of(r, q[3]));
        (void)put_realloc(e, q[5], token, true, false);
        break;
    case COST_TIME:
        if (time > e->time_ns)
            put_time(e, time);
        break;
    case COST_THREAD:
        if (q[5] & 1)
            put_text(e, MTF_RAW_THREAD_END, q[3]);
        else
            PUT(e, mtf_raw_put_thread_start, 77);
        break;
    case COST_MARK:
        put_text(e, MTF_RAW_MARK, q[3]);
        break;
    case COST_GAP:
        PUT(e, mtf_raw_put_gap, q[3], time, time + q[5]);
        break;
    case COST_OTHER:
        put_other(r, s, q);
        break;
    case COST_BYTE:
        bytes_add(&e->out, &q[2], 1);
        break;
    default:
        break;
    }
}

static void run_stream(struct run *r, const uint8_t *q) {
    struct stream *s = stream_of(r, thread_of(r, q[1]));
    uint64_t lo = time_of(r, q[4]);
    unsigned what = q[0] & 15;
    if (s == NULL)
        return;
    if (what == COST_SEGMENT || what == COST_BUFFER)
        save(r, s, lo,
             q[5] == COST_UNKNOWN ? UINT64_MAX
                                  : lo + ((uint64_t)1 << (q[5] & 31)));
    if (what == COST_BUFFER || (what != COST_SEGMENT && s->e.out.length == 0))
        new_buffer(s, what == COST_BUFFER ? lo : r->clock);
    if (what != COST_SEGMENT && what != COST_BUFFER)
        put_events(r, s, q);
}

static void run_record(struct run *r, const uint8_t *q) {
    bool spool = (r->flags & COST_SPOOL) != 0;
    uint64_t time = time_of(r, q[4]);
    r->made += 8;
    switch (q[0] & 15) {
    case COST_BARRIER:
        if (!spool && !mtf_raw_write_barrier(&r->w, time))
            abort();
        r->made += spool ? 0 : 64;
        break;
    case COST_SAMPLE: {
        struct mtf_account_value a = {MTF_ACCOUNT_RSS_ANON_BYTES, q[3]};
        if (!spool && !mtf_raw_write_sample(&r->w, time, &a, 1))
            abort();
        break;
    }
    case COST_CLOCK:
        r->clock += (uint64_t)1 << (q[4] & 31);
        break;
    default:
        run_stream(r, q);
    }
}

static void begin_spool(struct bytes *out) {
    struct mtf_raw_header h = example_header();
    uint8_t header[MTF_RAW_HEADER_MAX];
    size_t n = mtf_raw_build_header(header, &h, "program", "recorder 1");
    mtf_spool_put_head(bytes_room(out, MTF_SPOOL_UNIT), header, n, 0);
    out->length += MTF_SPOOL_UNIT;
}

void cost_script_run(const uint8_t *script, size_t length, unsigned scale,
                     struct bytes *out) {
    static struct run r;
    memset(&r, 0, sizeof(r));
    r.out = out;
    r.flags = length == 0 ? 0 : script[0];
    r.clock = 1000000000;
    void *memory = NULL;
    if (r.flags & COST_SPOOL)
        begin_spool(out);
    else
        memory = begin_trace(&r.w, out, (r.flags & COST_COMPRESSED) != 0);
    const uint8_t *end = script + length, *p = script + 1;
    r.scale = scale;
    while (length != 0 && end - p >= COST_RECORD) {
        const uint8_t *loop = p;
        for (r.i = 0; r.i < scale && r.made < BYTES_MAX; r.i++)
            for (p = loop; end - p >= COST_RECORD && (*p & 15) != COST_LOOP;
                 p += COST_RECORD)
                run_record(&r, p);
        while (end - p >= COST_RECORD && (*p & 15) != COST_LOOP)
            p += COST_RECORD;
        if (end - p >= COST_RECORD)
            p += COST_RECORD;
    }
    if (!(r.flags & COST_SPOOL) && (r.flags & COST_FOOTER))
        mtf_raw_write_footer(&r.w, r.clock, NULL, 0);
    for (unsigned i = 0; i < 2 * THREADS; i++)
        bytes_free(&r.streams[i].e.out);
    free(memory);
}
