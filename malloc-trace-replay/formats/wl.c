/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wl: workloads (.wl) of glibc's dj/malloc branch, which trace_run runs. They
 * are byte codes with numbers: a main block tells where the code of each thread
 * begins; the code follows. A number is groups of 7 bits, the most significant
 * first, with bit 7 set in all but the last. Blocks are in slots of an array;
 * slot 0 is NULL.
 *
 * Only syncs order threads: the reader runs a thread until it waits for a sync
 * that is not set, then the next thread. So the whole file is in memory while
 * it is read, and while it is written.
 */
#include "common/collections.h"
#include "formats/format_export.h"
#include "formats/format_reader.h"

#include <stdlib.h>
#include <string.h>

enum {
    WL_NOP,
    WL_DONE,
    WL_MALLOC,
    WL_CALLOC,
    WL_REALLOC,
    WL_FREE,
    WL_SYNC_W,
    WL_SYNC_R,
    WL_ALLOC_PTRS,
    WL_ALLOC_SYNCS,
    WL_NTHREADS,
    WL_START_THREAD,
    WL_MEMALIGN,
    WL_VALLOC,
    WL_PVALLOC,
    WL_LIMIT
};

/* Number of the last thread that is written: hostile traces may have any. */
#define WL_THREADS_MAX 1000000u
/* Bytes of the largest file that is read. */
#define WL_MAX ((size_t)2 << 30)

static const uint8_t operands[WL_LIMIT] = {
    [WL_MALLOC] = 2,       [WL_CALLOC] = 2,   [WL_REALLOC] = 3,
    [WL_FREE] = 1,         [WL_SYNC_W] = 1,   [WL_SYNC_R] = 1,
    [WL_ALLOC_PTRS] = 1,   [WL_NTHREADS] = 1, [WL_ALLOC_SYNCS] = 1,
    [WL_MEMALIGN] = 3,     [WL_VALLOC] = 2,   [WL_PVALLOC] = 2,
    [WL_START_THREAD] = 1,
};

struct op {
    unsigned code;
    uint64_t v[3];
};

/* Reads the operation at P. Returns its length; 0: it is cut or invalid. */
static size_t read_op(const uint8_t *p, const uint8_t *end, struct op *op) {
    const uint8_t *from = p;
    if (p == end || *p >= WL_LIMIT)
        return 0;
    op->code = *p++;
    for (unsigned i = 0; i < operands[op->code]; i++) {
        uint64_t v = 0;
        do {
            if (p == end || v >> 57 != 0)
                return 0;
            v = v << 7 | (*p & 0x7f);
        } while ((*p++ & 0x80) != 0);
        op->v[i] = v;
    }
    return (size_t)(p - from);
}

/* --- Reading -------------------------------------------------------------- */

struct wl_thread {
    size_t at; /* next operation */
    bool done;
};

struct state {
    uint8_t *bytes;
    size_t length, room;
    bool loaded;
    struct wl_thread *thread;
    size_t threads, thread_room;
    size_t current;
    uint64_t ptrs, syncs;
    uint8_t *live, *set; /* by slot, by sync */
    const char *problem; /* last reason why a thread ended early, or NULL */
    size_t problem_at;
};

static bool load_all(struct state *s, struct format_reader *r) {
    size_t have;
    for (;;) {
        const uint8_t *p = format_reader_peek(r, FORMAT_WINDOW, &have);
        if (have == 0)
            return true;
        if (s->length + have > WL_MAX ||
            !tool_array_reserve(&s->bytes, &s->room, s->length + have, 1))
            return false;
        memcpy(s->bytes + s->length, p, have);
        s->length += have;
        format_reader_take(r, have);
    }
}

/* Reads the main block. Returns NULL, or why it is invalid. */
static const char *read_main(struct state *s) {
    size_t at = 0, n;
    struct op op = {0};
    do {
        n = read_op(s->bytes + at, s->bytes + s->length, &op);
        if (n == 0)
            return "the main block is cut";
        at += n;
        if (op.code == WL_ALLOC_PTRS)
            s->ptrs = op.v[0];
        if (op.code == WL_ALLOC_SYNCS)
            s->syncs = op.v[0];
        if (op.code != WL_START_THREAD)
            continue;
        if (!tool_array_reserve(&s->thread, &s->thread_room, s->threads + 1,
                                sizeof(*s->thread)))
            return "out of memory";
        s->thread[s->threads++] = (struct wl_thread){op.v[0], false};
    } while (op.code != WL_DONE);
    /* the code of each slot and sync takes a byte or more */
    if (s->ptrs > s->length + 16 || s->syncs > s->length)
        return "more slots or syncs than the file can name";
    s->live = calloc(1, s->ptrs + 1);
    s->set = calloc(1, s->syncs + 1);
    return s->live == NULL || s->set == NULL ? "out of memory" : NULL;
}

/* Ends thread T. PROBLEM: why it ends early, or NULL. */
static enum format_result end_thread(struct state *s, size_t t,
                                     struct format_event *e,
                                     const char *problem) {
    s->thread[t].done = true;
    if (problem != NULL) {
        s->problem = problem;
        s->problem_at = s->thread[t].at;
    }
    e->kind = FORMAT_THREAD_END;
    e->thread = t + 1;
    return FORMAT_EVENT;
}

static void fill_event(const struct op *op, struct format_event *e) {
    e->kind = FORMAT_ALLOC;
    e->id = op->v[0];
    e->size = op->v[1];
    switch (op->code) {
    case WL_CALLOC:
        e->call = MTF_CALL_CALLOC;
        break;
    case WL_MEMALIGN:
        e->call = MTF_CALL_MEMALIGN;
        e->align_log2 = format_align_log2(op->v[1]);
        e->size = op->v[2];
        break;
    case WL_VALLOC:
    case WL_PVALLOC:
        e->call = op->code == WL_VALLOC ? MTF_CALL_VALLOC : MTF_CALL_PVALLOC;
        e->align_log2 = 12;
        break;
    case WL_REALLOC:
        e->kind = FORMAT_REALLOC;
        e->call = MTF_CALL_REALLOC;
        e->flags |= FORMAT_STAYED;
        e->old = op->v[1];
        e->size = op->v[2];
        break;
    case WL_FREE:
        e->kind = FORMAT_FREE;
        e->call = MTF_CALL_FREE;
        e->old = op->v[0];
        e->id = e->size = 0;
        break;
    default:
        e->call = MTF_CALL_MALLOC;
    }
}

/* Runs OP, a call of LENGTH bytes. */
static enum format_result run_call(struct state *s, struct wl_thread *t,
                                   const struct op *op, size_t length,
                                   struct format_event *e) {
    fill_event(op, e);
    e->thread = (uint64_t)(t - s->thread) + 1;
    e->flags |= FORMAT_THREADED;
    if (e->id > s->ptrs || e->old > s->ptrs) {
        t->at += length;
        return FORMAT_BAD;
    }
    if (e->id == 0 && e->kind == FORMAT_ALLOC) {
        t->at += length;
        return FORMAT_NOTHING; /* the workload does not name the block */
    }
    if (e->id != 0 && e->id != e->old && s->live[e->id] != 0) {
        /* trace_run frees the block in a slot before it fills the slot: emit
           that free, and run OP again */
        uint64_t id = e->id;
        s->live[id] = 0;
        e->kind = FORMAT_FREE;
        e->call = MTF_CALL_FREE;
        e->flags = FORMAT_THREADED;
        e->old = id;
        e->id = e->size = 0;
        return FORMAT_EVENT;
    }
    t->at += length;
    s->live[e->old] = 0;
    if (e->id != 0)
        s->live[e->id] = 1;
    else if (e->kind == FORMAT_REALLOC)
        e->size = 0; /* it freed the block */
    return FORMAT_EVENT;
}

/* Runs a sync or a NOP. False: OP is another operation, or T has to wait. */
static bool run_sync(struct state *s, struct wl_thread *t, const struct op *op,
                     size_t length) {
    if (op->code == WL_SYNC_W) {
        if (op->v[0] <= s->syncs)
            s->set[op->v[0]] = 1;
    } else if (op->code == WL_SYNC_R) {
        if (op->v[0] <= s->syncs && s->set[op->v[0]] == 0)
            return false;
    } else if (op->code != WL_NOP) {
        return false;
    }
    t->at += length;
    return true;
}

/* Runs one operation of thread I. *WAITS: the thread waits for a sync. */
static enum format_result run_operation(struct state *s, size_t i,
                                        struct format_event *e, bool *waits) {
    struct wl_thread *t = &s->thread[i];
    struct op op;
    *waits = false;
    size_t n = t->at >= s->length
                   ? 0
                   : read_op(s->bytes + t->at, s->bytes + s->length, &op);
    if (n == 0)
        return end_thread(s, i, e, "the code of a thread is cut");
    if (run_sync(s, t, &op, n))
        return FORMAT_NOTHING;
    switch (op.code) {
    case WL_DONE:
        return end_thread(s, i, e, NULL);
    case WL_SYNC_R:
        *waits = true;
        return FORMAT_NOTHING;
    case WL_ALLOC_PTRS:
    case WL_ALLOC_SYNCS:
    case WL_NTHREADS:
    case WL_START_THREAD:
        t->at += n;
        return FORMAT_BAD;
    default:
        return run_call(s, t, &op, n, e);
    }
}

static enum format_result next_event(void *state, struct format_reader *r,
                                     struct format_event *e, const char **why) {
    struct state *s = state;
    size_t tried = 0;
    if (!s->loaded) {
        s->loaded = true;
        *why = "workload of more than 2 GiB, or out of memory";
        if (!load_all(s, r))
            return FORMAT_GIVE_UP;
        *why = read_main(s);
        if (*why != NULL)
            return FORMAT_GIVE_UP;
    }
    *why = "operation of the main block, or slot of impossible number";
    while (tried < s->threads) {
        bool waits = true;
        if (!s->thread[s->current].done) {
            r->from = s->thread[s->current].at;
            enum format_result result = run_operation(s, s->current, e, &waits);
            if (!waits)
                return result;
        }
        s->current = (s->current + 1) % s->threads;
        tried++;
    }
    for (size_t i = 0; i < s->threads && s->problem == NULL; i++)
        if (!s->thread[i].done) {
            s->problem = "threads wait for each other";
            s->problem_at = s->thread[i].at;
        }
    *why = s->problem;
    if (s->problem != NULL)
        r->from = s->problem_at;
    return s->problem != NULL ? FORMAT_CUT : FORMAT_END;
}

/* Reads malloc, calloc and free of the current thread from memory, where the
   input is by then: no bytes are taken. */
static size_t next_batch(void *state, const uint8_t *p, size_t n,
                         struct format_batch *b) {
    struct state *s = state;
    (void)p;
    (void)n;
    if (s->threads == 0)
        return 0;
    TCM_ASSERT(s->current < s->threads);
    struct wl_thread *t = &s->thread[s->current];
    b->flags = FORMAT_THREADED;
    b->thread = s->current + 1;
    b->from = t->at;
    while (!t->done && t->at < s->length && b->count < FORMAT_BATCH) {
        struct op op;
        size_t length = read_op(s->bytes + t->at, s->bytes + s->length, &op);
        bool frees = op.code == WL_FREE;
        if (length == 0)
            break;
        if (run_sync(s, t, &op, length))
            continue;
        if ((!frees && op.code != WL_MALLOC && op.code != WL_CALLOC) ||
            op.v[0] == 0 || op.v[0] > s->ptrs || s->live[op.v[0]] != frees)
            break;
        s->live[op.v[0]] = !frees;
        b->call[b->count++] = (struct format_call){
            .id = op.v[0],
            .size = frees ? 0 : op.v[1],
            .at = (uint32_t)(t->at - b->from),
            .kind = frees ? FORMAT_FREE : FORMAT_ALLOC,
            .call = frees                  ? MTF_CALL_FREE
                    : op.code == WL_CALLOC ? MTF_CALL_CALLOC
                                           : MTF_CALL_MALLOC,
        };
        t->at += length;
    }
    return 0;
}

static void fini(void *state) {
    struct state *s = state;
    free(s->bytes);
    free(s->thread);
    free(s->live);
    free(s->set);
}

/* Tells whether the main block begins as in all files. */
static bool is_wl(const uint8_t *p, size_t n, bool whole) {
    static const uint8_t head[] = {WL_ALLOC_PTRS, WL_ALLOC_SYNCS, WL_NTHREADS};
    const uint8_t *end = p + n;
    struct op op;
    (void)whole;
    for (size_t i = 0; i < sizeof(head); i++) {
        size_t length = read_op(p, end, &op);
        if (length == 0 || op.code != head[i])
            return false;
        p += length;
    }
    return p < end && (*p == WL_START_THREAD || *p == WL_DONE);
}

/* --- Writing -------------------------------------------------------------- */

struct code {
    uint8_t *bytes;
    size_t length, room;
};

struct put_state {
    struct code *code; /* by thread of the trace */
    size_t code_room;
    uint32_t *order; /* threads by first appearance */
    size_t threads, order_room;
    uint32_t *user; /* by slot: the thread that used it last, plus 1 */
    size_t user_room;
    uint64_t syncs, slots;
    uint32_t first; /* thread that appeared first; 0: none yet */
};

static void put_byte(struct code *c, struct format_out *out, uint8_t b) {
    if (tool_array_reserve(&c->bytes, &c->room, c->length + 1, 1))
        c->bytes[c->length++] = b;
    else
        out->no_memory = true;
}

static void put_number(struct code *c, struct format_out *out, uint64_t v) {
    unsigned shift = 63;
    while (shift != 0 && v >> shift == 0)
        shift -= 7;
    for (; shift != 0; shift -= 7)
        put_byte(c, out, (uint8_t)(v >> shift | 0x80));
    put_byte(c, out, (uint8_t)(v & 0x7f));
}

static void put_op(struct put_state *s, struct format_out *out, uint32_t thread,
                   unsigned op, unsigned count, const uint64_t *v) {
    struct code *c = &s->code[thread];
    put_byte(c, out, (uint8_t)op);
    for (unsigned i = 0; i < count; i++)
        put_number(c, out, v[i]);
}

/* Makes thread TO wait for all operations of FROM so far. */
static void put_sync(struct put_state *s, struct format_out *out, uint32_t from,
                     uint32_t to) {
    uint64_t id = ++s->syncs;
    put_op(s, out, from, WL_SYNC_W, 1, &id);
    put_op(s, out, to, WL_SYNC_R, 1, &id);
}

/* Makes room for THREAD and SLOT, and begins the code of a new thread. False:
   out of memory. */
static bool reserve(struct put_state *s, struct format_out *out,
                    uint32_t thread, uint32_t slot) {
    size_t codes = s->code_room, users = s->user_room;
    if (!tool_array_reserve(&s->code, &s->code_room, (size_t)thread + 1,
                            sizeof(*s->code)) ||
        !tool_array_reserve(&s->user, &s->user_room, (size_t)slot + 1,
                            sizeof(*s->user)) ||
        !tool_array_reserve(&s->order, &s->order_room, s->threads + 1,
                            sizeof(*s->order))) {
        out->no_memory = true;
        return false;
    }
    memset(s->code + codes, 0, (s->code_room - codes) * sizeof(*s->code));
    memset(s->user + users, 0, (s->user_room - users) * sizeof(*s->user));
    if (s->code[thread].length != 0)
        return true;
    s->order[s->threads++] = thread;
    if (s->first == 0)
        s->first = thread;
    put_byte(&s->code[thread], out, WL_NOP); /* marks the thread as begun */
    if (s->first != thread)
        put_sync(s, out, s->first, thread);
    return true;
}

static void put_event(void *state, struct format_out *out,
                      const struct format_put *p) {
    struct put_state *s = state;
    const struct format_event *e = &p->e;
    if (!format_out_is_call(out, e))
        return;
    if (p->thread > WL_THREADS_MAX || !reserve(s, out, p->thread, p->slot)) {
        out->no_memory = true;
        return;
    }
    uint64_t idx = (uint64_t)p->slot + 1;
    TCM_ASSERT(p->thread < s->code_room && p->slot < s->user_room);
    uint32_t user = s->user[p->slot];
    if (user != 0 && user != p->thread + 1)
        put_sync(s, out, user - 1, p->thread);
    s->user[p->slot] = p->thread + 1;
    s->slots = idx > s->slots ? idx : s->slots;
    if (e->id == 0)
        put_op(s, out, p->thread, WL_FREE, 1, &idx);
    else if (e->kind == FORMAT_REALLOC)
        put_op(s, out, p->thread, WL_REALLOC, 3,
               (const uint64_t[]){idx, e->old != 0 ? idx : 0, e->size});
    else if (mtf_call_is_aligned_alloc(e->call))
        put_op(s, out, p->thread, WL_MEMALIGN, 3,
               (const uint64_t[]){idx, (uint64_t)1 << e->align_log2, e->size});
    else
        put_op(s, out, p->thread,
               e->call == MTF_CALL_CALLOC ? WL_CALLOC : WL_MALLOC, 2,
               (const uint64_t[]){idx, e->size});
}

/* Writes the main block into C. The threads' code begins at offset BASE. */
static void make_main(const struct put_state *s, struct format_out *out,
                      struct code *c, size_t base) {
    c->length = 0;
    put_byte(c, out, WL_ALLOC_PTRS);
    put_number(c, out, s->slots + 1);
    put_byte(c, out, WL_ALLOC_SYNCS);
    put_number(c, out, s->syncs);
    put_byte(c, out, WL_NTHREADS);
    put_number(c, out, s->threads);
    for (size_t i = 0; i < s->threads; i++) {
        put_byte(c, out, WL_START_THREAD);
        put_number(c, out, base);
        base += s->code[s->order[i]].length + 1;
    }
    put_byte(c, out, WL_DONE);
}

static void put_end(void *state, struct format_out *out) {
    struct put_state *s = state;
    struct code head = {0};
    size_t base;
    do {
        base = head.length;
        make_main(s, out, &head, base);
    } while (base != head.length && !out->no_memory);
    format_out_bytes(out, head.bytes, head.length);
    for (size_t i = 0; i < s->threads; i++) {
        const struct code *c = &s->code[s->order[i]];
        format_out_bytes(out, c->bytes, c->length);
        format_out_char(out, WL_DONE);
    }
    free(head.bytes);
}

static void put_fini(void *state) {
    struct put_state *s = state;
    for (size_t i = 0; i < s->code_room; i++)
        free(s->code[i].bytes);
    free(s->code);
    free(s->order);
    free(s->user);
}

const struct format_type format_wl = {
    .name = "wl",
    .title = "dj/malloc workload",
    .ids = FORMAT_IDS_NUMBERS,
    .matches = is_wl,
    .next = next_event,
    .batch = next_batch,
    .fini = fini,
    .state_bytes = sizeof(struct state),
    .put = put_event,
    .put_end = put_end,
    .put_fini = put_fini,
    .put_state_bytes = sizeof(struct put_state),
};
