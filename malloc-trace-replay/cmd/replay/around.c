/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/around.h"

#include "base/check.h"
#include "base/clock.h"
#include "cmd/replay/latency.h"
#include "cmd/replay/verify.h"
#include "traceformat/trace_event.h"

/* The process's, and the call that this thread is at. */
static struct replay_around around;
static __thread struct replay_around_call current;

/* The processor's counter, read when all before is done and before anything
   after begins. */
TCM_ALWAYS_INLINE static uint64_t ticks_now(void) {
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ __volatile__("lfence\n\trdtsc\n\tlfence"
                         : "=a"(low), "=d"(high)
                         :
                         : "memory");
    return (uint64_t)high << 32 | low;
#else
    return tcm_clock_ns();
#endif
}

uint64_t replay_around_ticks(void) {
    return ticks_now();
}

/* --- The calls ------------------------------------------------------------ */

static uint64_t enter(void *old) {
    if (around.verify != NULL && old != NULL)
        replay_verify_before(around.verify, &current, old);
    return ticks_now();
}

static void leave(uint64_t ticks) {
    if (around.latency != NULL)
        replay_latency_note(around.latency, &current, ticks);
}

/* P is new, of SIZE bytes, at a multiple of ALIGN. */
static void made(void *p, size_t size, size_t align, bool is_zero) {
    if (around.verify != NULL && p != NULL)
        replay_verify_made(around.verify, &current, p, size, align, is_zero);
}

/* A function that returns the result of CALL, a block. */
#define AROUND_ALLOC(name, params, call, size, align, is_zero)                 \
    static void *around_##name params {                                        \
        uint64_t start_ = enter(NULL);                                         \
        void *p_ = around.calls->call;                                         \
        leave(ticks_now() - start_);                                           \
        made(p_, size, align, is_zero);                                        \
        return p_;                                                             \
    }
#define AROUND_FREE(name, params, call)                                        \
    static void around_##name params {                                         \
        uint64_t start_ = enter(p);                                            \
        around.calls->call;                                                    \
        leave(ticks_now() - start_);                                           \
    }
#define PAGE ((size_t)4096)

AROUND_ALLOC(malloc, (size_t size), malloc(size), size, 0, false)
AROUND_ALLOC(calloc, (size_t n, size_t size), calloc(n, size), n *size, 0, true)
AROUND_ALLOC(memalign, (size_t align, size_t size), memalign(align, size), size,
             align, false)
AROUND_ALLOC(aligned_alloc, (size_t align, size_t size),
             aligned_alloc(align, size), size, align, false)
AROUND_ALLOC(valloc, (size_t size), valloc(size), size, PAGE, false)
AROUND_ALLOC(pvalloc, (size_t size), pvalloc(size), size, PAGE, false)
AROUND_ALLOC(new_one, (size_t size, const void *nothrow),
             new_one(size, nothrow), size, 0, false)
AROUND_ALLOC(new_array, (size_t size, const void *nothrow),
             new_array(size, nothrow), size, 0, false)
AROUND_ALLOC(new_aligned, (size_t size, size_t align, const void *nothrow),
             new_aligned(size, align, nothrow), size, align, false)
AROUND_ALLOC(new_array_aligned,
             (size_t size, size_t align, const void *nothrow),
             new_array_aligned(size, align, nothrow), size, align, false)
AROUND_FREE(free, (void *p), free(p))
AROUND_FREE(free_sized, (void *p, size_t size), free_sized(p, size))
AROUND_FREE(free_aligned_sized, (void *p, size_t align, size_t size),
            free_aligned_sized(p, align, size))
AROUND_FREE(delete_one, (void *p), delete_one(p))
AROUND_FREE(delete_array, (void *p), delete_array(p))
AROUND_FREE(delete_sized, (void *p, size_t size), delete_sized(p, size))
AROUND_FREE(delete_array_sized, (void *p, size_t size),
            delete_array_sized(p, size))
AROUND_FREE(delete_aligned, (void *p, size_t align), delete_aligned(p, align))
AROUND_FREE(delete_array_aligned, (void *p, size_t align),
            delete_array_aligned(p, align))
AROUND_FREE(delete_sized_aligned, (void *p, size_t size, size_t align),
            delete_sized_aligned(p, size, align))
AROUND_FREE(delete_array_sized_aligned, (void *p, size_t size, size_t align),
            delete_array_sized_aligned(p, size, align))

static int around_posix_memalign(void **p, size_t align, size_t size) {
    uint64_t start = enter(NULL);
    int error = around.calls->posix_memalign(p, align, size);
    leave(ticks_now() - start);
    if (error == 0)
        made(*p, size, align, false);
    return error;
}

static void *resized(void *old, void *p, size_t size) {
    if (around.verify != NULL)
        replay_verify_resized(around.verify, &current, old, p, size);
    return p;
}
static void *around_realloc(void *old, size_t size) {
    uint64_t start = enter(old);
    void *p = around.calls->realloc(old, size);
    leave(ticks_now() - start);
    return resized(old, p, size);
}
static void *around_reallocarray(void *old, size_t n, size_t size) {
    uint64_t start = enter(old);
    void *p = around.calls->reallocarray(old, n, size);
    leave(ticks_now() - start);
    return resized(old, p, n * size);
}

const struct replay_calls *replay_around_calls(const struct replay_around *a) {
    static struct replay_calls calls;
    around = *a;
    calls = *a->calls;
#define AROUND(name) calls.name = around_##name
    AROUND(malloc);
    AROUND(free);
    AROUND(calloc);
    AROUND(realloc);
    AROUND(reallocarray);
    AROUND(memalign);
    AROUND(aligned_alloc);
    AROUND(posix_memalign);
    AROUND(valloc);
    AROUND(pvalloc);
    AROUND(free_sized);
    AROUND(free_aligned_sized);
    AROUND(new_one);
    AROUND(new_array);
    AROUND(new_aligned);
    AROUND(new_array_aligned);
    AROUND(delete_one);
    AROUND(delete_array);
    AROUND(delete_sized);
    AROUND(delete_array_sized);
    AROUND(delete_aligned);
    AROUND(delete_array_aligned);
    AROUND(delete_sized_aligned);
    AROUND(delete_array_sized_aligned);
#undef AROUND
    return &calls;
}

/* --- Which call it is ----------------------------------------------------- */

static enum replay_kind kind_of_call(unsigned call) {
    if (mtf_call_is_realloc(call))
        return REPLAY_KIND_REALLOC;
    if (mtf_call_is_aligned_alloc(call))
        return REPLAY_KIND_ALIGNED;
    if (mtf_call_is_free(call))
        return call == MTF_CALL_FREE || call == MTF_CALL_CFREE ||
                       call >= MTF_CALL_FREE_SIZED
                   ? REPLAY_KIND_FREE
                   : REPLAY_KIND_DELETE;
    if (call == MTF_CALL_CALLOC)
        return REPLAY_KIND_CALLOC;
    return call == MTF_CALL_MALLOC ? REPLAY_KIND_MALLOC : REPLAY_KIND_NEW;
}

/* The operation at W, behind words that belong to it. False: it is none. */
static bool call_at(const uint64_t *w, struct replay_around_call *c) {
    static const uint8_t kind[] = {
        [REPLAY_MALLOC] = REPLAY_KIND_MALLOC,
        [REPLAY_FREE] = REPLAY_KIND_FREE,
        [REPLAY_CALLOC] = REPLAY_KIND_CALLOC,
        [REPLAY_NEW] = REPLAY_KIND_NEW,
        [REPLAY_NEW_ARRAY] = REPLAY_KIND_NEW,
        [REPLAY_DELETE] = REPLAY_KIND_DELETE,
        [REPLAY_DELETE_ARRAY] = REPLAY_KIND_DELETE,
        [REPLAY_DELETE_SIZED] = REPLAY_KIND_DELETE,
        [REPLAY_DELETE_ARRAY_SIZED] = REPLAY_KIND_DELETE,
        [REPLAY_FREE_SIZED] = REPLAY_KIND_FREE,
    };
    unsigned code = replay_word_code(*w);
    while (code == REPLAY_AWAIT || code == REPLAY_INTO ||
           code == REPLAY_PRESENT)
        code = replay_word_code(*++w);
    c->slot = replay_word_slot(*w);
    if (code == REPLAY_LONG) {
        c->kind = kind_of_call((unsigned)replay_word_size(w[0]));
        c->size = w[1];
        return true;
    }
    if (code == 0 || code >= sizeof(kind))
        return false;
    c->kind = (enum replay_kind)kind[code];
    c->size = replay_word_size(*w);
    return true;
}

/* Batches without segments are run by one thread, from their first word to
   their last; so what was counted up to the last place that was asked for need
   not be counted again. */
uint64_t replay_around_place(const struct replay_around_call *c, bool *about) {
    static struct {
        uint64_t first_op, place;
        const uint64_t *at;
    } last;
    struct replay_around_call other;
    *about = c->batch->segments != 0;
    if (*about)
        return c->batch->first_op + 1;
    if (last.at == NULL || last.first_op != c->batch->first_op ||
        last.at < c->batch->word || last.at > c->at) {
        last.first_op = c->batch->first_op;
        last.place = c->batch->first_op + 1;
        last.at = c->batch->word;
    }
    for (; last.at < c->at; last.at += replay_exec_length(last.at))
        last.place += call_at(last.at, &other);
    return last.place;
}

/* --- The loop ------------------------------------------------------------- */

/* Runs the operation at AT with its calls looked at. */
static const uint64_t *one(struct replay_exec *x, const struct replay_batch *b,
                           uint32_t thread, const uint64_t *at) {
    const uint64_t *next = at + replay_exec_length(at);
    if (!call_at(at, &current))
        return replay_exec_words(x, at, next);
    current.thread = thread;
    current.batch = b;
    current.at = at;
    replay_verify_at = &current;
    x->via = x->around_calls;
    const uint64_t *got = replay_exec_words(x, at, next);
    x->via = x->around->calls;
    return got;
}

const uint64_t *replay_around_words(struct replay_exec *x,
                                    const struct replay_batch *b,
                                    uint32_t thread, const uint64_t *at,
                                    const uint64_t *end) {
    bool all = x->around->verify != NULL;
    while (at < end) {
        const uint64_t *next = at;
        if (all || x->until == 0) {
            next = at + replay_exec_length(at);
            const uint64_t *got = one(x, b, thread, at);
            if (got != next)
                return got;
            x->until = all ? 0 : x->around->stride;
        } else {
            size_t left = (size_t)(end - at);
            size_t n = x->until < left ? x->until : left;
            const uint64_t *got = replay_exec_words(x, at, at + n);
            /* A long operation may end behind the N words. */
            if (got < at + n)
                return got;
            x->until -= n;
            next = got;
        }
        at = next;
    }
    return at;
}
