/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/run/around.h"

#include "cmd/replay/watch/latency.h"
#include "cmd/replay/run/one_call.h"
#include "cmd/replay/watch/verify.h"

/* `around` is the process's; `current` is the call that this thread makes. */
static struct replay_around around;
static __thread struct replay_one_call current;

/* --- The calls ------------------------------------------------------------ */

static uint64_t enter(void *old) {
    if (around.verify != NULL && old != NULL)
        replay_verify_before(around.verify, &current, old);
    return replay_ticks();
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
        leave(replay_ticks() - start_);                                        \
        made(p_, size, align, is_zero);                                        \
        return p_;                                                             \
    }
#define AROUND_FREE(name, params, call)                                        \
    static void around_##name params {                                         \
        uint64_t start_ = enter(p);                                            \
        around.calls->call;                                                    \
        leave(replay_ticks() - start_);                                        \
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
    leave(replay_ticks() - start);
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
    leave(replay_ticks() - start);
    return resized(old, p, size);
}
static void *around_reallocarray(void *old, size_t n, size_t size) {
    uint64_t start = enter(old);
    void *p = around.calls->reallocarray(old, n, size);
    leave(replay_ticks() - start);
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

/* --- The loop ------------------------------------------------------------- */

/* Runs the operation at AT and looks at its calls. */
static const uint64_t *one(struct replay_exec *x, const struct replay_batch *b,
                           uint32_t thread, const uint64_t *at) {
    const uint64_t *next = at + replay_exec_length(at);
    if (!replay_one_call_at(at, &current))
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
