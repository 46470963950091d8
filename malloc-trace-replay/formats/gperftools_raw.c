/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gperftools-raw: raw trace of gperftools' tracing branch. Buffers of single
 * threads have events and few times; barriers stand between them. The format is
 * described in doc/formats.md.
 *
 * Order: the events between two barriers are a window. The thread with the
 * least known time goes on up to its next time. A thread whose next event frees
 * a token that no event has made yet waits. If all threads wait, the event that
 * has waited longest goes on, if it is more than PATIENCE barriers old: its
 * token is missing. An event whose token is made by an event read already, of
 * another waiting thread, goes on after those.
 *
 * Invariants: memory is bounded by live tokens, and by the events of PATIENCE +
 * 1 windows.
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

/* Bytes of the largest buffer that is read. The recorder's have 4 KiB. */
#define BUFFER_MAX    ((size_t)64 << 10)
#define PATIENCE      3u /* barriers */
#define TIME_OF(word) ((word) & ~(uint64_t)1023)

/* States of a token: the event that makes it was read; that event was emitted,
   and none that frees it. */
enum { TOKEN_READ = 1, TOKEN_BORN };
#define TOKEN_BITS     2u
#define TOKEN_MASK     UINT64_C(3)
#define TOKENS_AT_ONCE 32u

struct event {
    uint8_t type, align_log2; /* RAW_...; RAW_TOKENS: `size` is a time */
    uint32_t window;          /* number of barriers before the event */
    uint64_t token, old, size;
};

struct thread {
    uint32_t id;
    uint64_t prev_size, prev_token, next_token; /* state of the decoder */
    uint64_t ts;                                /* least time of event[at] */
    struct event *event;
    size_t at, count, room; /* events [at, count) are not emitted yet */
    uint32_t window;        /* of the last event read */
};

struct state {
    bool begun, ended, cut;
    struct tool_ids ids;
    struct thread *thread;
    /* TOKEN_... of TOKENS_AT_ONCE tokens each, by the number of those before
       them plus 1. Numbers of live tokens are near each other. */
    struct tool_map tokens;
    size_t noted; /* place of the entry that was changed last */
    struct thread *current;
    uint32_t barriers;
    const char *why; /* next fault to return, or NULL */
};

/* --- Decoding ------------------------------------------------------------- */

/* Takes a varint at *P. False: it is cut. */
static TCM_ALWAYS_INLINE bool take_varint(const uint8_t **p, const uint8_t *end,
                                          uint64_t *v) {
    size_t n;
    if (*p == end)
        return false;
    n = **p == 0 ? 9 : (size_t)__builtin_ctz(**p) + 1;
    if ((size_t)(end - *p) < n)
        return false;
    uint64_t w = 0;
    if (n == 9) {
        w = mtf_load_le64(*p + 1);
    } else if (end - *p >= 8) {
        w = mtf_load_le64(*p) << (64 - 8 * n) >> (64 - 7 * n);
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

static TCM_ALWAYS_INLINE struct event *new_event(struct thread *t) {
    if (TCM_UNLIKELY(t->count == t->room) &&
        !tool_array_reserve(&t->event, &t->room, t->count + 1,
                            sizeof(*t->event)))
        return NULL;
    struct event *e = &t->event[t->count++];
    *e = (struct event){.window = t->window};
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

/* States of TOKEN and its neighbours; NULL: none has one. */
static struct tool_map_entry *states_of(const struct state *s, uint64_t token) {
    return token == UINT64_MAX
               ? NULL
               : tool_map_find(&s->tokens, token / TOKENS_AT_ONCE + 1);
}

/* Place of the state of TOKEN among those of its neighbours. */
static unsigned shift_of(uint64_t token) {
    return (unsigned)(token % TOKENS_AT_ONCE) * TOKEN_BITS;
}

/* Tells whether TOKEN has STATE. */
static bool is_token(const struct state *s, uint64_t token, uint64_t state) {
    const struct tool_map_entry *e = states_of(s, token);
    return e != NULL && (e->value >> shift_of(token) & TOKEN_MASK) == state;
}

/* Frees TOKEN. False: it has no live block. */
static bool free_token(struct state *s, uint64_t token) {
    struct tool_map_entry *e = states_of(s, token);
    unsigned shift = shift_of(token);
    if (e == NULL || (e->value >> shift & TOKEN_MASK) != TOKEN_BORN)
        return false;
    e->value &= ~(TOKEN_MASK << shift);
    if (e->value == 0)
        tool_map_remove(&s->tokens, e);
    return true;
}

/* Sets the state of TOKEN. False: out of memory, or an impossible number. */
static TCM_ALWAYS_INLINE bool note_token(struct state *s, uint64_t token,
                                         uint64_t state) {
    struct tool_map *m = &s->tokens;
    uint64_t key = token / TOKENS_AT_ONCE + 1;
    unsigned shift = shift_of(token);
    if (token == UINT64_MAX)
        return false;
    /* Tokens are noted in the order of their numbers, mostly. */
    if (m->entry == NULL || s->noted > m->mask ||
        m->entry[s->noted].key != key) {
        struct tool_map_entry *e = tool_map_get(m, key);
        if (e == NULL)
            return false;
        s->noted = (size_t)(e - m->entry);
    }
    uint64_t *value = &m->entry[s->noted].value;
    *value = (*value & ~(TOKEN_MASK << shift)) | state << shift;
    return true;
}

/* True for a malloc or free: the calls that most events are. */
static bool is_plain(unsigned type) {
    return type <= RAW_FREE_SIZED &&
           (1u << type &
            (1u << RAW_MALLOC | 1u << RAW_FREE | 1u << RAW_FREE_SIZED)) != 0;
}

/* Fills E, the plain event of TYPE. Without branches, as nobody can predict
   whether a malloc or a free is next. */
static TCM_ALWAYS_INLINE void fill_plain(struct thread *t, struct event *e,
                                         unsigned type, uint64_t payload) {
    uint64_t made = type == RAW_MALLOC ? UINT64_MAX : 0;
    uint64_t change = (uint64_t)mtf_unzigzag(payload);
    t->prev_size += change & made;
    t->prev_token += change & ~made;
    e->size = t->prev_size * 8 & made;
    e->token = t->next_token & made;
    e->old = t->prev_token & ~made;
    t->next_token += made & 1;
}

/* Notes that the events of the tokens from FIRST up to NEXT were read. A token
   that cannot be noted is a fault when its event is emitted. */
static void note_read(struct state *s, uint64_t first, uint64_t next) {
    for (; first != next; first++)
        (void)note_token(s, first, TOKEN_READ);
}

/* Decodes the events of T in [P, END), whose tokens the caller notes from
   *FIRST on. Returns NULL, or why it stopped. */
static const char *decode_from(struct state *s, struct thread *t,
                               const uint8_t *p, const uint8_t *end,
                               uint64_t *first) {
    while (p < end) {
        uint64_t word, payload, second = 0;
        if (!take_varint(&p, end, &word))
            return "buffer ends inside an event";
        unsigned type = type_of(word, &payload);
        bool has_second =
            type == RAW_TOKENS || type == RAW_REALLOC || type == RAW_MEMALIGN;
        if (has_second && !take_varint(&p, end, &second))
            return "buffer ends inside an event";
        struct event *e = new_event(t);
        if (e == NULL)
            return "out of memory";
        e->type = (uint8_t)type;
        if (TCM_LIKELY(is_plain(type))) {
            fill_plain(t, e, type, payload);
            continue;
        }
        switch (type) {
        case RAW_TOKENS:
            note_read(s, *first, t->next_token);
            *first = t->next_token = payload;
            e->size = TIME_OF(second);
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
        default:
            t->count--;
            return "unknown type of event";
        }
    }
    return NULL;
}

/* Decodes the events of T in [P, END). Returns NULL, or why it stopped. */
static const char *decode(struct state *s, struct thread *t, const uint8_t *p,
                          const uint8_t *end) {
    uint64_t first = t->next_token;
    const char *why = decode_from(s, t, p, end, &first);
    note_read(s, first, t->next_token);
    return why;
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

/* Reads a buffer of LENGTH bytes, of thread ID, written at time TS. False: the
   trace ends here, see `why`. */
static bool read_buffer(struct state *s, struct format_reader *r, uint64_t id,
                        uint64_t ts, uint64_t length) {
    size_t have;
    s->why = "buffer of more than 64 KiB";
    if (length > BUFFER_MAX)
        return false;
    const uint8_t *p = format_reader_peek(r, (size_t)length, &have);
    s->why = "ends inside a buffer";
    s->cut = true;
    if (have < length)
        return false; /* an incomplete buffer is dropped */
    s->cut = false;
    struct thread *t = thread_of(s, id);
    s->why = "thread number of more than 32 bits";
    if (t == NULL)
        return false;
    s->why = decode(s, t, p, p + length);
    format_reader_take(r, (size_t)length);
    struct event *e = new_event(t);
    if (e != NULL) { /* events of later buffers happened after TS */
        e->type = RAW_TOKENS;
        e->size = TIME_OF(ts);
    }
    return e != NULL;
}

/* Reads one event outside of buffers. False: it was the last one, or a
   barrier. */
static bool read_outer(struct state *s, struct format_reader *r) {
    uint64_t word, payload, ts = 0, length = 0;
    size_t have;
    const uint8_t *p = format_reader_peek(r, 32, &have), *from = p;
    const uint8_t *end = p + have;
    s->ended = true;
    s->cut = true;
    s->why = "the end event is missing";
    if (!take_varint(&p, end, &word))
        return false;
    unsigned type = type_of(word, &payload);
    bool two = type == RAW_BUFFER || type == RAW_MISC || type == RAW_DEATH ||
               type == RAW_BARRIER;
    bool three = type == RAW_BUFFER || type == RAW_MISC;
    if ((two && !take_varint(&p, end, &ts)) ||
        (three && !take_varint(&p, end, &length)))
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
        (void)format_reader_peek(r, length < BUFFER_MAX ? (size_t)length : 0,
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
        s->why = "unknown type of event outside of buffers";
        return false;
    }
}

/* --- Order ---------------------------------------------------------------- */

static bool has_old(const struct event *e) {
    return e->type == RAW_FREE || e->type == RAW_FREE_SIZED ||
           e->type == RAW_REALLOC;
}

/* Tells whether the next event of T can be emitted: it frees no token, or one
   that was made. */
static bool can_go(const struct state *s, const struct thread *t) {
    const struct event *e = &t->event[t->at];
    return !has_old(e) || e->old == UINT64_MAX ||
           is_token(s, e->old, TOKEN_BORN);
}

/* Tells whether A goes on before B, if all threads wait. */
static bool goes_first(const struct state *s, const struct thread *a,
                       const struct thread *b) {
    const struct event *x = &a->event[a->at], *y = &b->event[b->at];
    bool x_comes = is_token(s, x->old, TOKEN_READ);
    bool y_comes = is_token(s, y->old, TOKEN_READ);
    if (x_comes != y_comes)
        return y_comes;
    return x->window != y->window ? x->window < y->window : a->ts < b->ts;
}

/* The thread that goes on; NULL: read another window first. At the end of the
   input no token is waited for. */
static struct thread *choose_thread(const struct state *s) {
    struct thread *best = NULL, *waiting = NULL;
    for (size_t i = 0; i < s->ids.count; i++) {
        struct thread *t = &s->thread[i];
        if (t->at == t->count)
            continue;
        if (!can_go(s, t)) {
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

static enum format_result emit_event(struct state *s, struct thread *t,
                                     struct format_event *e) {
    TCM_ASSERT(t->at < t->count && t->count <= t->room);
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
        s->current = NULL; /* another thread may have a smaller time now */
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
    if (has_old(v)) {
        e->old = v->old + 1;
        (void)free_token(s, v->old);
    }
    if (e->kind != FORMAT_FREE) {
        e->id = v->token + 1;
        if (!note_token(s, v->token, TOKEN_BORN))
            return FORMAT_BAD;
    }
    return FORMAT_EVENT;
}

/* Drops the events that were emitted. */
static void drop_emitted(struct state *s) {
    for (size_t i = 0; i < s->ids.count; i++) {
        struct thread *t = &s->thread[i];
        TCM_ASSERT(t->at <= t->count);
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
    const uint8_t *p = format_reader_peek(r, sizeof(magic), &have);
    s->begun = true;
    if (have >= sizeof(magic) && memcmp(p, magic, sizeof(magic)) == 0) {
        format_reader_take(r, sizeof(magic));
        return FORMAT_NOTHING;
    }
    *why = have < sizeof(magic) ? "ends inside the magic" : "another magic";
    return have < sizeof(magic) ? FORMAT_CUT : FORMAT_GIVE_UP;
}

/* Skips the padding behind the end. */
static void skip_padding(struct format_reader *r) {
    size_t have;
    while (format_reader_peek(r, FORMAT_WINDOW, &have), have != 0)
        format_reader_take(r, have);
}

static enum format_result next_event(void *state, struct format_reader *r,
                                     struct format_event *e, const char **why) {
    struct state *s = state;
    if (!s->begun)
        return begin(s, r, why);
    for (;;) {
        struct thread *t = s->current;
        if (t == NULL || t->at == t->count || !can_go(s, t))
            t = s->current = choose_thread(s);
        if (t != NULL) {
            *why = "token number 2^64 - 1";
            return emit_event(s, t, e);
        }
        if (s->ended)
            break;
        drop_emitted(s);
        while (read_outer(s, r))
            if (s->why != NULL) { /* the rest of a buffer is lost */
                *why = s->why;
                s->why = NULL;
                return FORMAT_BAD;
            }
    }
    if (s->why != NULL) {
        *why = s->why;
        return s->cut ? FORMAT_CUT : FORMAT_GIVE_UP;
    }
    skip_padding(r);
    return FORMAT_END;
}

/* Plain calls of the thread whose turn it is. Their bytes were taken before, so
   that none are taken here. */
static size_t next_batch(void *state, const uint8_t *p, size_t n,
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
            if (!free_token(s, v->old))
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
    .matches = is_raw,
    .next = next_event,
    .batch = next_batch,
    .fini = fini,
    .state_bytes = sizeof(struct state),
};
