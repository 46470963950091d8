/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/run/around.h"

#include "base/check.h"
#include "base/linux/os_file.h"
#include "cmd/replay/watch/observer.h"
#include "common/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* `around` is the one of the process, `observed` the observed call of this
   thread. */
static struct replay_around around;
static __thread struct replay_one_call observed;

/* --- The calls ------------------------------------------------------------ */

static uint64_t observe_begin(void *old) {
    if (around.verify != NULL && old != NULL)
        replay_verify_before(around.verify, &observed, old);
    return replay_ticks();
}

static void observe_end(uint64_t ticks) {
    if (around.latency != NULL)
        replay_latency_note(around.latency, &observed, ticks);
}

/* Checks P, a new block of SIZE bytes at a multiple of ALIGN. */
static void observe_made(void *p, size_t size, size_t align, bool is_zero) {
    if (around.verify != NULL && p != NULL)
        replay_verify_made(around.verify, &observed, p, size, align, is_zero);
}

/* Defines a function that returns the result of CALL, a block. */
#define AROUND_ALLOC(name, params, call, size, align, is_zero)                 \
    static void *around_##name params {                                        \
        uint64_t start_ = observe_begin(NULL);                                 \
        void *p_ = around.calls->call;                                         \
        observe_end(replay_ticks() - start_);                                  \
        observe_made(p_, size, align, is_zero);                                \
        return p_;                                                             \
    }
#define AROUND_FREE(name, params, call)                                        \
    static void around_##name params {                                         \
        uint64_t start_ = observe_begin(p);                                    \
        around.calls->call;                                                    \
        observe_end(replay_ticks() - start_);                                  \
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
    uint64_t start = observe_begin(NULL);
    int error = around.calls->posix_memalign(p, align, size);
    observe_end(replay_ticks() - start);
    if (error == 0)
        observe_made(*p, size, align, false);
    return error;
}

static void *observe_resized(void *old, void *p, size_t size) {
    if (around.verify != NULL)
        replay_verify_resized(around.verify, &observed, old, p, size);
    return p;
}
static void *around_realloc(void *old, size_t size) {
    uint64_t start = observe_begin(old);
    void *p = around.calls->realloc(old, size);
    observe_end(replay_ticks() - start);
    return observe_resized(old, p, size);
}
static void *around_reallocarray(void *old, size_t n, size_t size) {
    uint64_t start = observe_begin(old);
    void *p = around.calls->reallocarray(old, n, size);
    observe_end(replay_ticks() - start);
    return observe_resized(old, p, n * size);
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

/* Runs the operation at AT and observes its calls. */
static const uint64_t *around_one(struct replay_exec *x,
                                  const struct replay_batch *b, uint32_t thread,
                                  const uint64_t *at) {
    const uint64_t *next = at + replay_exec_length(at);
    if (!replay_one_call_at(at, &observed))
        return replay_exec_words(x, at, next);
    observed.thread = thread;
    observed.batch = b;
    observed.at = at;
    replay_verify_at = &observed;
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
            const uint64_t *got = around_one(x, b, thread, at);
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

/* --- The call log --------------------------------------------------------- */

#define LOG_BYTES      ((size_t)64 << 10)
#define LOG_LINE_BYTES ((size_t)128)

static char log_buffer[LOG_BYTES];

static void log_flush(struct replay_call_log *log) {
    if (log->error == 0 && !tcm_io_write_all(log->fd, log->bytes, log->used))
        log->error = errno;
    log->used = 0;
}

static void log_text(struct replay_call_log *log, const char *text) {
    size_t n = strlen(text);
    memcpy(log->bytes + log->used, text, n);
    log->used += n;
}

static void log_number(struct replay_call_log *log, uint64_t v, unsigned base) {
    char digits[20];
    size_t n = 0;
    do {
        digits[n++] = "0123456789abcdef"[v % base];
        v /= base;
    } while (v != 0);
    while (n != 0)
        log->bytes[log->used++] = digits[--n];
}

static void log_block(struct replay_call_log *log, const void *p,
                      uint64_t tag) {
    log_number(log, (uint64_t)(uintptr_t)p, 16);
    log_text(log, "<");
    log_number(log, tag, 10);
    log_text(log, ">");
}

/* Writes the line of a call in SLOT. OLD and MADE: blocks, or NULL. */
static void log_line(struct replay_call_log *log, uint32_t slot,
                     const void *old, const void *made, uint64_t size) {
    uint64_t *tag = (uint64_t *)log->tags.memory + slot;
    if (log->used + LOG_LINE_BYTES > LOG_BYTES)
        log_flush(log);
    size_t begin = log->used;
    if (old == NULL && made == NULL)
        return;
    log_text(log, old == NULL    ? "malloc("
                  : made == NULL ? "free("
                                 : "realloc(");
    if (old != NULL)
        log_block(log, old, *tag);
    if (made != NULL) {
        if (old != NULL)
            log_text(log, ", ");
        log_number(log, size, 10);
        log_text(log, ") = ");
        *tag = ++log->last_tag;
        log_block(log, made, *tag);
        log_text(log, "\n");
    } else {
        log_text(log, ")\n");
    }
    TCM_ASSERT(log->used - begin <= LOG_LINE_BYTES);
}

/* --- Operations ----------------------------------------------------------- */

/* True if the operation at W, a realloc, has a block to resize. */
static bool realloc_has_block(const uint64_t *w) {
    while (replay_word_code(*w) != REPLAY_LONG)
        w++;
    return !replay_long_is_new(w[2]);
}

static void log_run(struct replay_exec *x, const struct replay_batch *b,
                    const uint64_t *at, const uint64_t *next,
                    struct replay_time *time) {
    replay_time_batch_begin(time);
    if (x->around != NULL)
        (void)replay_around_words(x, b, 0, at, next);
    else
        (void)replay_exec_words(x, at, next);
    replay_time_batch_end(time, b->apart != 0);
}

void replay_call_log_batch(struct replay_call_log *log, struct replay_exec *x,
                           const struct replay_batch *b,
                           struct replay_time *time) {
    const uint64_t *at = b->word, *end = at + b->words, *next;
    TCM_ASSERT(x->cell == NULL);
    for (; at < end; at = next) {
        struct replay_one_call c;
        next = at + replay_exec_length(at);
        bool is_call = replay_one_call_at(at, &c);
        bool makes = is_call && c.kind != REPLAY_KIND_FREE &&
                     c.kind != REPLAY_KIND_DELETE;
        bool has_old = is_call && (!makes || (c.kind == REPLAY_KIND_REALLOC &&
                                              realloc_has_block(at)));
        const void *old = has_old ? x->slot[c.slot] : NULL;
        log_run(x, b, at, next, time);
        if (is_call && (old != NULL || !has_old))
            log_line(log, c.slot, old, makes ? x->slot[c.slot] : NULL, c.size);
    }
}

/* --- Begin and end -------------------------------------------------------- */

bool replay_call_log_open(struct replay_call_log *log, const char *name) {
    log->fd = -1;
    if (name == NULL)
        return true;
    log->bytes = log_buffer;
    memset(log_buffer, 1, sizeof(log_buffer)); /* makes its pages resident */
    log->fd = tool_file_is_stdout(name)
                  ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                  : tool_file_open_output(name);
    return log->fd >= 0;
}

size_t replay_call_log_bytes(const struct replay_call_log *log) {
    return log->fd < 0 ? 0 : LOG_BYTES + log->tags.bytes;
}

bool replay_call_log_fits(struct replay_call_log *log,
                          const struct replay_batch *b) {
    return log->fd < 0 || replay_table_fits(&log->tags, b->slots) ||
           replay_table_grow(&log->tags, b->slots);
}

int replay_call_log_close(struct replay_call_log *log) {
    if (log->fd < 0)
        return 0;
    log_flush(log);
    if (close(log->fd) != 0 && log->error == 0)
        log->error = errno;
    log->fd = -1;
    return log->error;
}
