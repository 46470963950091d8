/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a thread: the reader pulls bytes, and the sorter pushes all events that a
 * barrier permits. In one thread, the output between two barriers would have to
 * be kept in memory, and a reader of a trace that is followed could wait for
 * nothing else. Two threads also use two processors.
 */
#include "open/trace_open.h"

#include "base/check.h"
#include "common/main.h"
#include "common/queue.h"
#include "common/text.h"
#include "formats/format_import.h"
#include "sort/sorter.h"
#include "trace/ops.h"
#include "traceformat/trace_io.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUFFERS      16u
#define BUFFER_BYTES ((size_t)64 << 10)
/* Longest sleep of the reader before it checks again whether the thread has
   ended. */
#define SLEEP_NS 100000000u
/* Time between two reads of a trace that is followed. */
#define FOLLOW_MS 100
/* Time for the thread to end after the trace is closed early. A thread that
   waits for input which may never come is detached. */
#define END_S 1

struct trace_sorting {
    struct mtf_source source;
    struct sorter *sorter; /* the thread's until it has ended */
    struct tool_queue queue;
    pthread_t thread;
    bool started;
    bool over; /* the thread has ended, and `end` is known */
    enum sorter_step end;

    /* the thread's */
    uint8_t *buffer; /* being filled; NULL: none */
    size_t filled;
    uint64_t stored[BUFFERS]; /* by buffer: stored bytes read up to its end */

    /* the reader's */
    const uint8_t *rest; /* unread bytes of its buffer; NULL: none */
    size_t rest_length;
    uint64_t stored_bytes;
};

/* --- The sorting thread --------------------------------------------------- */

static void give_buffer(struct trace_sorting *s) {
    if (s->buffer == NULL)
        return;
    s->stored[tool_queue_index(&s->queue, s->buffer)] =
        sorter_stored_bytes(s->sorter);
    tool_queue_give(&s->queue, s->filled);
    s->buffer = NULL;
}

static bool take_bytes(void *ctx, const void *data, size_t n) {
    struct trace_sorting *s = ctx;
    const uint8_t *p = data;
    while (n != 0) {
        if (s->buffer == NULL) {
            s->buffer = tool_queue_free(&s->queue);
            s->filled = 0;
            if (s->buffer == NULL)
                return false;
        }
        TCM_ASSERT(s->filled < BUFFER_BYTES);
        size_t piece = BUFFER_BYTES - s->filled;
        if (piece > n)
            piece = n;
        memcpy(s->buffer + s->filled, p, piece);
        s->filled += piece;
        p += piece;
        n -= piece;
        if (s->filled == BUFFER_BYTES)
            give_buffer(s);
    }
    return true;
}

static bool wait_for_input(void *ctx, bool fresh) {
    struct trace_sorting *s = ctx;
    if (fresh)
        give_buffer(s);
    (void)poll(NULL, 0, FOLLOW_MS);
    return !tool_queue_is_closed(&s->queue);
}

static void *sort_all(void *argument) {
    struct trace_sorting *s = argument;
    enum sorter_step step;
    while ((step = sorter_step(s->sorter)) == SORTER_MORE)
        continue;
    if (step == SORTER_END && !sorter_end(s->sorter))
        step = SORTER_FAILED;
    s->end = step;
    give_buffer(s);
    tool_queue_close(&s->queue);
    return NULL;
}

/* --- The reader ----------------------------------------------------------- */

/* Gets the next full buffer. Starts the thread at the first call, so that a
   trace that is only opened costs little. False: the thread has ended, or
   cannot start. */
static bool next_buffer(struct trace_sorting *s) {
    if (!s->started && !s->over) {
        s->end = SORTER_FAILED; /* the thread's from here on */
        s->started = tool_thread_start(&s->thread, sort_all, s);
        s->over = !s->started;
    }
    for (;;) {
        if (s->over)
            return false;
        bool closed = tool_queue_is_closed(&s->queue);
        s->rest = tool_queue_full(&s->queue, &s->rest_length, SLEEP_NS);
        if (s->rest != NULL) {
            s->stored_bytes = s->stored[tool_queue_index(&s->queue, s->rest)];
            TCM_ASSERT(s->rest_length != 0 && s->rest_length <= BUFFER_BYTES);
            return true;
        }
        if (closed) {
            (void)pthread_join(s->thread, NULL);
            s->over = true;
            return false;
        }
    }
}

static enum mtf_source_result read_sorted(struct mtf_source *source, void *buf,
                                          size_t n, size_t *got) {
    struct trace_sorting *s =
        TCM_CONTAINER_OF(source, struct trace_sorting, source);
    *got = 0;
    if (s->rest == NULL && !next_buffer(s)) {
        if (s->end == SORTER_END)
            return MTF_SOURCE_END;
        source->status = MTF_DAMAGED;
        return MTF_SOURCE_ERROR;
    }
    *got = n < s->rest_length ? n : s->rest_length;
    memcpy(buf, s->rest, *got);
    s->rest += *got;
    s->rest_length -= *got;
    if (s->rest_length == 0) {
        s->rest = NULL;
        tool_queue_done(&s->queue);
    }
    return MTF_SOURCE_DATA;
}

static uint64_t stored_bytes(struct mtf_source *source) {
    return TCM_CONTAINER_OF(source, struct trace_sorting, source)->stored_bytes;
}

/* Ends the thread before it has sorted all. False: it waits for input, and
   still uses S. */
static bool end_thread(struct trace_sorting *s) {
    struct timespec until;
    tool_queue_close(&s->queue);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += END_S;
    s->over = pthread_timedjoin_np(s->thread, NULL, &until) == 0;
    if (!s->over)
        (void)pthread_detach(s->thread);
    return s->over;
}

static void keep(struct mtf_source *source) {
    (void)source; /* trace_close frees it */
}

static void free_sorting(struct trace_sorting *s) {
    tool_queue_fini(&s->queue);
    sorter_free(s->sorter);
    free(s);
}

/* --- Opening -------------------------------------------------------------- */

/* Opens the raw trace NAME. IN: its input, which then belongs to T, or NULL.
   False: no memory. */
static bool open_raw(struct trace *t, struct tool_input *in, const char *name,
                     bool follow) {
    struct trace_sorting *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        tool_input_close(in);
        return false;
    }
    const char *shown =
        name == NULL || strcmp(name, "-") == 0 ? "standard input" : name;
    s->source.read = read_sorted;
    s->sorter = sorter_new(
        &(struct sorter_options){.name = name,
                                 .in = in,
                                 .quiet = true,
                                 .write = take_bytes,
                                 .wait = follow ? wait_for_input : NULL,
                                 .ctx = s});
    if (s->sorter == NULL ||
        !tool_queue_init(&s->queue, BUFFERS, BUFFER_BYTES) ||
        (t->in = tool_input_of_source(&s->source, shown,
                                      sorter_total_bytes(s->sorter),
                                      stored_bytes, keep)) == NULL) {
        free_sorting(s);
        return false;
    }
    t->sorting = s;
    return true;
}

/* Tells whether there is a spool NAME.spool of a raw trace, or parts of a
   flight recording, NAME.k0 and so on. */
static bool has_raw_beside(const char *name) {
    char path[PATH_MAX];
    if (name == NULL || strcmp(name, "-") == 0)
        return false;
    for (unsigned part = 0; part <= MTF_PARTS; part++) {
        int n = part == MTF_PARTS
                    ? snprintf(path, sizeof(path), "%s.spool", name)
                    : snprintf(path, sizeof(path), "%s.k%u", name, part);
        if (n > 0 && n < (int)sizeof(path) && access(path, F_OK) == 0)
            return true;
    }
    return false;
}

/* Tells whether IN, the input of NAME, is a raw trace. */
static bool is_raw(struct tool_input *in, const char *name) {
    struct mtf_raw_info info;
    uint8_t first[8];
    size_t n = tool_input_peek(in, first);
    if (n == sizeof(first))
        return memcmp(first, MTF_RAW_MAGIC, n) == 0 ||
               memcmp(first, MTF_SPOOL_MAGIC, n) == 0;
    if (!tool_input_is_file(in) || tool_ops_is_processed(in, name))
        return false;
    return (tool_input_is_compressed(in) || has_raw_beside(name)) &&
           tool_raw_read_header(name, &info);
}

bool trace_open(struct trace *t, const char *name,
                const struct trace_open_options *options) {
    static const struct trace_open_options none;
    const struct trace_open_options *o = options != NULL ? options : &none;
    struct tool_input *in = tool_input_open(name);
    bool good = true;
    *t = (struct trace){0};
    if (in == NULL && errno == ENOENT && has_raw_beside(name)) {
        good = open_raw(t, NULL, name, o->follow);
    } else if (in == NULL) {
        return false;
    } else if (o->processed) {
        t->in = in;
    } else if (o->format == NULL && is_raw(in, name)) {
        /* The sorter opens its own input of a file that grows. */
        if (o->follow && tool_input_is_file(in)) {
            tool_input_close(in);
            in = NULL;
        }
        good = open_raw(t, in, name, o->follow);
    } else {
        t->in = format_open_input(in, o->format, &t->import);
        good = t->in != NULL;
    }
    if (!good)
        errno = ENOMEM;
    TCM_ASSERT(!good || t->in != NULL);
    TCM_ASSERT(t->sorting == NULL || t->import == NULL);
    return good;
}

const char *trace_problem(const struct trace *t) {
    const struct trace_sorting *s = t->sorting;
    if (s == NULL || !s->over || s->end != SORTER_FAILED)
        return NULL;
    const char *problem = sorter_problem(s->sorter);
    if (problem != NULL)
        return problem;
    return s->started ? "out of memory" : "cannot start a thread";
}

bool trace_may_sleep(const struct trace *t) {
    const struct trace_sorting *s = t->sorting;
    return s != NULL && s->started && s->rest == NULL &&
           !tool_queue_has_full(&s->queue) && !tool_queue_is_closed(&s->queue);
}

/* Lets the thread sort the rest of the trace, whose bytes are dropped. */
static void read_rest(struct trace_sorting *s) {
    while (s->rest != NULL || next_buffer(s)) {
        s->rest = NULL;
        tool_queue_done(&s->queue);
    }
}

int trace_close(struct trace *t, bool given_up) {
    struct trace_sorting *s = t->sorting;
    int status = TOOL_OK;
    tool_input_close(t->in);
    *t = (struct trace){0};
    if (s == NULL)
        return TOOL_OK;
    if (!given_up && !s->over)
        read_rest(s);
    if (s->started && !s->over && !end_thread(s))
        return TOOL_OK; /* the thread still uses S */
    if (!given_up)
        status = s->end == SORTER_END ? sorter_tell(s->sorter) : TOOL_FAILED;
    free_sorting(s);
    return status;
}

bool trace_is_program(const char *name) {
    uint8_t magic[8] = {0};
    const char *text = NULL;
    FILE *f = access(name, X_OK) == 0 ? fopen(name, "re") : NULL;
    if (f != NULL && fread(magic, 1, 4, f) == 4 &&
        memcmp(magic,
               "\x7f"
               "ELF",
               4) == 0)
        text = mtf_foreign_magic(magic, 4);
    if (f != NULL)
        fclose(f);
    if (text != NULL)
        tool_error("%s: byte 0: %s; to run it: %s -- %s", name, text,
                   tool_name(), name);
    return text != NULL;
}

bool trace_is_one(const char *name) {
    struct trace t;
    if (!trace_open(&t, name, NULL))
        return false;
    bool is = t.sorting != NULL || t.import != NULL ||
              tool_ops_is_processed(t.in, name);
    (void)trace_close(&t, true);
    return is;
}

/* An allocator of no name that is known may pass its calls on to the next one:
   with this many of them it does. */
#define PASSED_ON 1000u

int trace_not_seen(const char *name, uint64_t calls, const char *allocator) {
    static const char in_file[] = "static ";
    const char *own = strncmp(allocator, in_file, strlen(in_file)) == 0
                          ? allocator + strlen(in_file)
                          : NULL;
    if (calls != 0 &&
        (own == NULL || (calls >= PASSED_ON && strcmp(own, "malloc") == 0)))
        return TOOL_OK;
    if (calls != 0)
        return tool_not_judged(name,
                               "the program's file has an allocator of its own "
                               "(%s), whose blocks are not recorded",
                               tool_text_shown(own));
    return tool_not_judged(name, "no call of malloc was recorded; where the "
                                 "program makes some, it is static, setuid, "
                                 "has an allocator of its own, or unset "
                                 "LD_PRELOAD");
}
