/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/run/call_log.h"

#include "base/check.h"
#include "base/raw_io.h"
#include "cmd/replay/run/around.h"
#include "common/files.h"
#include "traceformat/trace_event.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define BYTES          ((size_t)64 << 10)
#define LINE_MAX_BYTES ((size_t)128)

static char buffer[BYTES];

/* --- Lines ---------------------------------------------------------------- */

static void flush(struct replay_call_log *log) {
    if (log->error == 0 && !tcm_io_write_all(log->fd, log->bytes, log->used))
        log->error = errno;
    log->used = 0;
}

static void put_text(struct replay_call_log *log, const char *text) {
    size_t n = strlen(text);
    memcpy(log->bytes + log->used, text, n);
    log->used += n;
}

static void put_number(struct replay_call_log *log, uint64_t v, unsigned base) {
    char digits[20];
    size_t n = 0;
    do {
        digits[n++] = "0123456789abcdef"[v % base];
        v /= base;
    } while (v != 0);
    while (n != 0)
        log->bytes[log->used++] = digits[--n];
}

static void put_block(struct replay_call_log *log, const void *p,
                      uint64_t tag) {
    put_number(log, (uint64_t)(uintptr_t)p, 16);
    put_text(log, "<");
    put_number(log, tag, 10);
    put_text(log, ">");
}

/* OLD and MADE: blocks, or NULL. */
static void put_line(struct replay_call_log *log, uint32_t slot,
                     const void *old, const void *made, uint64_t size) {
    uint64_t *tag = (uint64_t *)log->tags.memory + slot;
    if (log->used + LINE_MAX_BYTES > BYTES)
        flush(log);
    if (old == NULL && made == NULL)
        return;
    put_text(log, old == NULL    ? "malloc("
                  : made == NULL ? "free("
                                 : "realloc(");
    if (old != NULL)
        put_block(log, old, *tag);
    if (made != NULL) {
        if (old != NULL)
            put_text(log, ", ");
        put_number(log, size, 10);
        put_text(log, ") = ");
        *tag = ++log->last_tag;
        put_block(log, made, *tag);
        put_text(log, "\n");
    } else {
        put_text(log, ")\n");
    }
}

/* --- Operations ----------------------------------------------------------- */

struct call {
    uint32_t slot;
    uint64_t size;
    bool has_old, makes;
};

/* The call at W, if it is one. */
static bool call_at(const uint64_t *w, struct call *c) {
    while (replay_word_code(*w) == REPLAY_PRESENT)
        w++;
    unsigned code = replay_word_code(*w);
    c->slot = replay_word_slot(*w);
    c->size = replay_word_size(*w);
    c->makes = c->has_old = false;
    switch (code) {
    case REPLAY_MALLOC:
    case REPLAY_CALLOC:
    case REPLAY_NEW:
    case REPLAY_NEW_ARRAY:
        c->makes = true;
        return true;
    case REPLAY_FREE:
    case REPLAY_DELETE:
    case REPLAY_DELETE_ARRAY:
    case REPLAY_DELETE_SIZED:
    case REPLAY_DELETE_ARRAY_SIZED:
    case REPLAY_FREE_SIZED:
        c->has_old = true;
        return true;
    case REPLAY_LONG:
        c->makes = !mtf_call_is_free((unsigned)c->size);
        c->has_old = !c->makes || (mtf_call_is_realloc((unsigned)c->size) &&
                                   !replay_long_is_new(w[2]));
        c->size = w[1];
        return true;
    default:
        return false;
    }
}

static void run(struct replay_exec *x, const struct replay_batch *b,
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
        struct call c;
        next = at + replay_exec_length(at);
        bool is_call = call_at(at, &c);
        const void *old = is_call && c.has_old ? x->slot[c.slot] : NULL;
        run(x, b, at, next, time);
        if (is_call && (old != NULL || !c.has_old))
            put_line(log, c.slot, old, c.makes ? x->slot[c.slot] : NULL,
                     c.size);
    }
}

/* --- Begin and end -------------------------------------------------------- */

bool replay_call_log_open(struct replay_call_log *log, const char *name) {
    log->fd = -1;
    if (name == NULL)
        return true;
    log->bytes = buffer;
    memset(buffer, 1, sizeof(buffer)); /* so that its pages are resident */
    log->fd = tool_file_is_stdout(name)
                  ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                  : tool_file_open_output(name);
    return log->fd >= 0;
}

size_t replay_call_log_bytes(const struct replay_call_log *log) {
    return log->fd < 0 ? 0 : BYTES + log->tags.bytes;
}

bool replay_call_log_fits(struct replay_call_log *log,
                          const struct replay_batch *b) {
    return log->fd < 0 || replay_table_fits(&log->tags, b->slots) ||
           replay_table_grow(&log->tags, b->slots);
}

int replay_call_log_close(struct replay_call_log *log) {
    if (log->fd < 0)
        return 0;
    flush(log);
    if (close(log->fd) != 0 && log->error == 0)
        log->error = errno;
    log->fd = -1;
    return log->error;
}
