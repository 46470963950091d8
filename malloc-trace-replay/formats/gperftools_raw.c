/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The raw trace of gperftools' tracing branch: buffers of single threads, with
 * times now and then and barriers between them. doc/formats.md has the bytes.
 *
 * Order: a barrier ends a window. In a window the thread with the least known
 * time goes on up to its next time. A thread whose next event frees a token
 * that is not born yet waits. When none can go on, the event that waits longest
 * is let go, if it is older than three barriers: its token is missing. Events
 * whose token is made by one that waits itself come last.
 *
 * Invariants: memory is bounded by live tokens, and by the events of four
 * windows.
 */
#include "base/bits.h"
#include "base/check.h"
#include "common/collections.h"
#include "formats/format_reader.h"
#include "traceformat/varint.h"

#include <stdlib.h>
#include <string.h>

static const uint8_t magic[4] = {0xe4, 0x63, 0xbd, 0x6c};

/* Types of events. */
#define RAW_MALLOC     0x00u
#define RAW_FREE       0x01u
#define RAW_TOKENS     0x02u
#define RAW_BUFFER     0x03u
#define RAW_FREE_SIZED 0x04u
#define RAW_DEATH      0x07u
#define RAW_END        0x0fu
#define RAW_REALLOC    0x17u
#define RAW_MEMALIGN   0x1fu
#define RAW_BARRIER    0x27u
#define RAW_MISC       0x2fu

/* The recorder's buffers have 4 KiB; larger ones are taken, too. */
#define BUFFER_MAX    ((size_t)64 << 10)
#define PATIENCE      3u /* barriers */
#define TIME_OF(word) ((word) & ~(uint64_t)1023)

/* States of a token: the event that makes it was read; that event was passed
   on, and none yet that frees it. */
enum { TOKEN_READ = 1, TOKEN_BORN };

struct event {
    uint8_t type, align_log2; /* RAW_...; RAW_TOKENS: `size` is a time */
    uint32_t window;          /* the barriers before it */
    uint64_t token, old, size;
};

struct thread {
    uint32_t id;
    uint64_t prev_size, prev_token, next_token; /* of the decoder */
    uint64_t ts;                                /* of the next event */
    struct event *event;
    size_t at, count, room;
    uint32_t window; /* of what is read now */
};

struct state {
    bool begun, ended, cut;
    struct tool_ids ids;
    struct thread *thread;
    struct tool_map tokens; /* plus 1, to TOKEN_READ or TOKEN_BORN */
    struct thread *current;
    uint32_t barriers;
    const char *why; /* the next thing to tell, NULL: nothing */
};

/* --- Decoding ------------------------------------------------------------- */

/* Takes a varint at *P. False: it does not end before END. */
static bool take(const uint8_t **p, const uint8_t *end, uint64_t *v) {
    size_t n;
    if (*p == end)
        return false;
    n = **p == 0 ? 9 : (size_t)__builtin_ctz(**p) + 1;
    if ((size_t)(end - *p) < n)
        return false;
    uint64_t w = 0;
    if (n == 9) {
        w = mtf_load_le64(*p + 1);
    } else {
        memcpy(&w, *p, n);
        w >>= n;
    }
    *p += n;
    *v = w;
    return true;
}

/* The type of the event word W, and its payload. */
static unsigned type_of(uint64_t w, uint64_t *payload) {
    if ((w & 7) != 7) {
        *payload = w >> 3;
        return (unsigned)(w & 7);
    }
    *payload = w >> 8;
    /* the writer mixes bits of the thread's number into this type */
    if ((w & 0x2f) == RAW_MISC && (w & 0xff) != RAW_END &&
        (w & 0xff) != RAW_BARRIER)
        return RAW_MISC;
    return (unsigned)(w & 0xff);
}

static struct event *new_event(struct thread *t) {
    if (!tool_array_reserve(&t->event, &t->room, t->count + 1,
                            sizeof(*t->event)))
        return NULL;
    struct event *e = &t->event[t->count++];
    memset(e, 0, sizeof(*e));
    e->window = t->window;
    return e;
}

/* Sizes are in units of 8 bytes, as differences. */
static uint64_t next_size(struct thread *t, uint64_t payload) {
    t->prev_size += (uint64_t)mtf_unzigzag(payload);
    return t->prev_size * 8;
}

static uint64_t next_token(struct thread *t, uint64_t payload) {
    t->prev_token += (uint64_t)mtf_unzigzag(payload);
    return t->prev_token;
}

/* Tells whether TOKEN has STATE. */
static bool is_token(const struct state *s, uint64_t token, uint64_t state) {
    const struct tool_map_entry *e =
        token == UINT64_MAX ? NULL : tool_map_find(&s->tokens, token + 1);
    return e != NULL && e->value == state;
}

/* TOKEN is freed. False: no block with it is alive. */
static bool end_token(struct state *s, uint64_t token) {
    struct tool_map_entry *e =
        token == UINT64_MAX ? NULL : tool_map_find(&s->tokens, token + 1);
    if (e == NULL || e->value != TOKEN_BORN)
        return false;
    tool_map_remove(&s->tokens, e);
    return true;
}

/* False: out of memory, or a token of impossible number. */
static bool note_token(struct state *s, uint64_t token, uint64_t state) {
    struct tool_map_entry *e =
        token == UINT64_MAX ? NULL : tool_map_get(&s->tokens, token + 1);
    if (e != NULL)
        e->value = state;
    return e != NULL;
}

/* Decodes the inner events of T in [P, END). NULL, or what is wrong. */
static const char *decode(struct state *s, struct thread *t, const uint8_t *p,
                          const uint8_t *end) {
    while (p < end) {
        uint64_t word, payload, second = 0;
        if (!take(&p, end, &word))
            return "an event is cut";
        unsigned type = type_of(word, &payload);
        bool has_second =
            type == RAW_TOKENS || type == RAW_REALLOC || type == RAW_MEMALIGN;
        if (has_second && !take(&p, end, &second))
            return "an event is cut";
        struct event *e = new_event(t);
        if (e == NULL)
            return "out of memory";
        e->type = (uint8_t)type;
        switch (type) {
        case RAW_TOKENS:
            t->next_token = payload;
            e->size = TIME_OF(second);
            break;
        case RAW_FREE:
        case RAW_FREE_SIZED:
            e->old = next_token(t, payload);
            break;
        case RAW_REALLOC:
            e->old = next_token(t, second);
            e->size = next_size(t, payload);
            e->token = t->next_token++;
            break;
        case RAW_MEMALIGN:
            e->align_log2 = format_align_log2(second);
            e->size = next_size(t, payload);
            e->token = t->next_token++;
            break;
        case RAW_MALLOC:
            e->size = next_size(t, payload);
            e->token = t->next_token++;
            break;
        default:
            t->count--;
            return "an event of no known type";
        }
        /* One that cannot be noted is told when it is given. */
        if (e->type == RAW_MALLOC || e->type == RAW_MEMALIGN ||
            e->type == RAW_REALLOC)
            (void)note_token(s, e->token, TOKEN_READ);
    }
    return NULL;
}

/* --- Reading a window ----------------------------------------------------- */

static struct thread *thread_of(struct state *s, uint64_t id) {
    struct thread *t = NULL;
    size_t at = s->current == NULL ? 0 : (size_t)(s->current - s->thread);
    if (id <= UINT32_MAX)
        t = tool_ids_get(&s->ids, &s->thread, sizeof(*s->thread), (uint32_t)id);
    if (s->current != NULL)
        s->current = &s->thread[at]; /* a new thread may have moved the array */
    if (t != NULL) {
        t->id = (uint32_t)id;
        t->window = s->barriers;
    }
    return t;
}

/* Reads the buffer of LENGTH bytes that follows. */
static bool read_buffer(struct state *s, struct format_reader *r, uint64_t id,
                        uint64_t ts, uint64_t length) {
    size_t have;
    s->why = "buffer of impossible length";
    if (length > BUFFER_MAX)
        return false;
    const uint8_t *p = format_reader_see(r, (size_t)length, &have);
    s->why = "ends inside a buffer";
    s->cut = true;
    if (have < length)
        return false; /* all of it is dropped */
    s->cut = false;
    struct thread *t = thread_of(s, id);
    s->why = "thread of impossible number";
    if (t == NULL)
        return false;
    s->why = decode(s, t, p, p + length);
    format_reader_take(r, (size_t)length);
    struct event *e = new_event(t);
    if (e != NULL) { /* when it was written: events that follow are later */
        e->type = RAW_TOKENS;
        e->size = TIME_OF(ts);
    }
    return e != NULL;
}

/* Reads one outer event. False: it was the last, or a barrier. */
static bool read_outer(struct state *s, struct format_reader *r) {
    uint64_t word, payload, ts = 0, length = 0;
    size_t have;
    const uint8_t *p = format_reader_see(r, 32, &have), *from = p;
    const uint8_t *end = p + have;
    s->ended = true;
    s->cut = true;
    s->why = "ends without an end";
    if (!take(&p, end, &word))
        return false;
    unsigned type = type_of(word, &payload);
    bool two = type == RAW_BUFFER || type == RAW_MISC || type == RAW_DEATH ||
               type == RAW_BARRIER;
    bool three = type == RAW_BUFFER || type == RAW_MISC;
    if ((two && !take(&p, end, &ts)) || (three && !take(&p, end, &length)))
        return false;
    format_reader_take(r, (size_t)(p - from));
    s->why = NULL;
    s->cut = false;
    struct thread *t;
    struct event *e;
    switch (type) {
    case RAW_BUFFER:
        s->ended = !read_buffer(s, r, payload, ts, length);
        return !s->ended;
    case RAW_DEATH:
        t = thread_of(s, payload);
        e = t == NULL ? NULL : new_event(t);
        s->ended = false;
        if (e != NULL)
            e->type = RAW_DEATH;
        return true;
    case RAW_BARRIER:
        s->ended = false;
        s->barriers++;
        return false;
    case RAW_MISC:
        (void)format_reader_see(r, length < BUFFER_MAX ? (size_t)length : 0,
                                &have);
        s->ended = have < length;
        s->why = s->ended ? "ends inside a text" : NULL;
        s->cut = s->ended;
        if (!s->ended)
            format_reader_take(r, (size_t)length);
        return !s->ended;
    case RAW_END:
        return false;
    default:
        s->why = "an outer event of no known type";
        return false;
    }
}

/* --- Order ---------------------------------------------------------------- */

static bool names_old(const struct event *e) {
    return e->type == RAW_FREE || e->type == RAW_FREE_SIZED ||
           e->type == RAW_REALLOC;
}

/* Tells whether the next event of T can go. */
static bool may_go(const struct state *s, const struct thread *t) {
    const struct event *e = &t->event[t->at];
    return !names_old(e) || e->old == UINT64_MAX ||
           is_token(s, e->old, TOKEN_BORN);
}

/* Tells whether A, whose next event waits, is to be let go before B. */
static bool goes_first(const struct state *s, const struct thread *a,
                       const struct thread *b) {
    const struct event *x = &a->event[a->at], *y = &b->event[b->at];
    bool x_comes = is_token(s, x->old, TOKEN_READ);
    bool y_comes = is_token(s, y->old, TOKEN_READ);
    if (x_comes != y_comes)
        return y_comes;
    return x->window != y->window ? x->window < y->window : a->ts < b->ts;
}

/* The thread to go on with; NULL: none can. At the end of the input what a
   thread waits for will not come. */
static struct thread *choose(const struct state *s) {
    struct thread *best = NULL, *waiting = NULL;
    for (size_t i = 0; i < s->ids.count; i++) {
        struct thread *t = &s->thread[i];
        if (t->at == t->count)
            continue;
        if (!may_go(s, t)) {
            if (waiting == NULL || goes_first(s, t, waiting))
                waiting = t;
        } else if (best == NULL || t->ts < best->ts) {
            best = t;
        }
    }
    if (best != NULL || waiting == NULL)
        return best;
    bool is_late = s->barriers - waiting->event[waiting->at].window > PATIENCE;
    return is_late || s->ended ? waiting : NULL;
}

static enum format_result give(struct state *s, struct thread *t,
                               struct format_event *e) {
    const struct event *v = &t->event[t->at++];
    if (t->at == t->count && v->type != RAW_DEATH)
        s->current = NULL;
    e->thread = t->id;
    e->time_ns = t->ts;
    e->flags = FORMAT_THREADED | FORMAT_TIMED | FORMAT_STAYED;
    e->size = v->size;
    switch (v->type) {
    case RAW_TOKENS:
        t->ts = tcm_max_u64(t->ts, v->size);
        s->current = NULL; /* it may be another thread's turn now */
        return FORMAT_NOTHING;
    case RAW_DEATH:
        s->current = NULL;
        e->kind = FORMAT_THREAD_END;
        return FORMAT_EVENT;
    case RAW_FREE:
    case RAW_FREE_SIZED:
        e->kind = FORMAT_FREE;
        e->call = MTF_CALL_FREE;
        break;
    case RAW_REALLOC:
        e->kind = FORMAT_REALLOC;
        e->call = MTF_CALL_REALLOC;
        break;
    default:
        e->kind = FORMAT_ALLOC;
        e->call = v->type == RAW_MEMALIGN ? MTF_CALL_MEMALIGN : MTF_CALL_MALLOC;
        e->align_log2 = v->align_log2;
    }
    if (names_old(v)) {
        e->old = v->old + 1;
        (void)end_token(s, v->old);
    }
    if (e->kind != FORMAT_FREE) {
        e->id = v->token + 1;
        if (!note_token(s, v->token, TOKEN_BORN))
            return FORMAT_BAD;
    }
    return FORMAT_EVENT;
}

/* Makes room where events have been given. */
static void forget_given(struct state *s) {
    for (size_t i = 0; i < s->ids.count; i++) {
        struct thread *t = &s->thread[i];
        if (t->at == 0)
            continue;
        memmove(t->event, t->event + t->at,
                (t->count - t->at) * sizeof(*t->event));
        t->count -= t->at;
        t->at = 0;
    }
}

static enum format_result begin(struct state *s, struct format_reader *r,
                                const char **why) {
    size_t have;
    const uint8_t *p = format_reader_see(r, sizeof(magic), &have);
    s->begun = true;
    if (have >= sizeof(magic) && memcmp(p, magic, sizeof(magic)) == 0) {
        format_reader_take(r, sizeof(magic));
        return FORMAT_NOTHING;
    }
    *why = have < sizeof(magic) ? "ends inside the head" : "has another magic";
    return have < sizeof(magic) ? FORMAT_CUT : FORMAT_GIVE_UP;
}

/* Padding follows the end. */
static void pass_padding(struct format_reader *r) {
    size_t have;
    while (format_reader_see(r, FORMAT_WINDOW, &have), have != 0)
        format_reader_take(r, have);
}

static enum format_result next(void *state, struct format_reader *r,
                               struct format_event *e, const char **why) {
    struct state *s = state;
    if (!s->begun)
        return begin(s, r, why);
    for (;;) {
        struct thread *t = s->current;
        if (t == NULL || t->at == t->count || !may_go(s, t))
            t = s->current = choose(s);
        if (t != NULL) {
            *why = "token of impossible number";
            return give(s, t, e);
        }
        if (s->ended)
            break;
        forget_given(s);
        while (read_outer(s, r))
            if (s->why != NULL) { /* a part of a buffer */
                *why = s->why;
                s->why = NULL;
                return FORMAT_BAD;
            }
    }
    if (s->why != NULL) {
        *why = s->why;
        return s->cut ? FORMAT_CUT : FORMAT_GIVE_UP;
    }
    pass_padding(r);
    return FORMAT_END;
}

/* Plain calls of the thread whose turn it is. Their bytes were taken before, so
   that none are taken here. */
static size_t many(void *state, const uint8_t *p, size_t n,
                   struct format_batch *b) {
    struct state *s = state;
    struct thread *t = s->current;
    (void)p;
    (void)n;
    if (t == NULL)
        return 0;
    b->flags = FORMAT_THREADED | FORMAT_TIMED;
    b->thread = t->id;
    b->time_ns = t->ts;
    for (; t->at != t->count && b->count < FORMAT_BATCH; t->at++) {
        const struct event *v = &t->event[t->at];
        struct format_call *c = &b->call[b->count];
        if (v->type == RAW_MALLOC) {
            if (!note_token(s, v->token, TOKEN_BORN))
                break;
            *c = (struct format_call){.id = v->token + 1,
                                      .size = v->size,
                                      .kind = FORMAT_ALLOC,
                                      .call = MTF_CALL_MALLOC};
        } else if (v->type == RAW_FREE || v->type == RAW_FREE_SIZED) {
            if (!end_token(s, v->old))
                break;
            *c = (struct format_call){
                .id = v->old + 1, .kind = FORMAT_FREE, .call = MTF_CALL_FREE};
        } else {
            break;
        }
        b->count++;
    }
    if (t->at == t->count)
        s->current = NULL;
    return 0;
}

static void fini(void *state) {
    struct state *s = state;
    for (size_t i = 0; i < s->ids.count; i++)
        free(s->thread[i].event);
    free(s->thread);
    tool_ids_fini(&s->ids);
    tool_map_fini(&s->tokens);
}

static bool is_raw(const uint8_t *p, size_t n, bool whole) {
    (void)whole;
    return n >= sizeof(magic) && memcmp(p, magic, sizeof(magic)) == 0;
}

const struct format_type format_gperftools_raw = {
    .name = "gperftools-raw",
    .title = "raw trace of gperftools' tracing branch",
    .ids = FORMAT_IDS_FROM_0,
    .is = is_raw,
    .next = next,
    .many = many,
    .fini = fini,
    .state_bytes = sizeof(struct state),
};
