/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/ahead.h"

#include "base/check.h"
#include "common/queue.h"
#include "common/stop.h"

#include <stdlib.h>
#include <string.h>

/* A buffer holds what one read gave: more would let slow input wait. */
#define BUFFERS      16u
#define BUFFER_BYTES ((size_t)64 << 10)
/* A stop that is asked for just before the reader sleeps waits that long. */
#define STOP_NS 100000000u

/* Result of a read, besides the bytes. */
struct told {
    enum mtf_source_result result;
    struct mtf_source source;
    uint64_t bytes, stored;
};

struct tool_ahead {
    struct mtf_source source;
    struct tool_input *in;
    struct tool_queue queue;
    pthread_t thread;
    struct told told[BUFFERS];
    uint64_t bytes, stored; /* of what was given */
    const uint8_t *rest;    /* of the buffer in hand; NULL: none */
    size_t rest_length;
    enum mtf_source_result last; /* END or ERROR, once it came */
};

static void *read_ahead(void *argument) {
    struct tool_ahead *a = argument;
    enum mtf_source_result r;
    do {
        int before;
        size_t got;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
        uint8_t *buffer = tool_queue_free(&a->queue);
        if (buffer == NULL)
            return NULL;
        /* the one place where it may wait for something that never comes */
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
        r = tool_input_read(a->in, buffer, BUFFER_BYTES, &got);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
        a->told[tool_queue_index(&a->queue, buffer)] =
            (struct told){.result = r,
                          .source = *tool_input_source(a->in),
                          .bytes = tool_input_bytes(a->in),
                          .stored = tool_input_stored_bytes(a->in)};
        tool_queue_give(&a->queue, r == MTF_SOURCE_DATA ? got : 0);
    } while (r == MTF_SOURCE_DATA || r == MTF_SOURCE_BREAK);
    return NULL;
}

/* The next buffer in hand; other results than DATA have none. */
static enum mtf_source_result next_buffer(struct tool_ahead *a) {
    const uint8_t *buffer;
    size_t length;
    if (a->last != MTF_SOURCE_DATA)
        return a->last;
    while ((buffer = tool_queue_full(&a->queue, &length, STOP_NS)) == NULL)
        if (tool_stop_requested())
            return MTF_SOURCE_END;
    const struct told *t = &a->told[tool_queue_index(&a->queue, buffer)];
    struct mtf_source source = t->source;
    enum mtf_source_result r = t->result;
    source.read = a->source.read;
    a->source = source;
    a->bytes = t->bytes;
    a->stored = t->stored;
    a->rest = buffer;
    a->rest_length = length;
    if (r == MTF_SOURCE_DATA)
        return r;
    if (r != MTF_SOURCE_BREAK)
        a->last = r;
    a->rest = NULL;
    tool_queue_done(&a->queue);
    return r;
}

static enum mtf_source_result source_read(struct mtf_source *s, void *buf,
                                          size_t n, size_t *got) {
    struct tool_ahead *a = TCM_CONTAINER_OF(s, struct tool_ahead, source);
    *got = 0;
    if (a->rest == NULL) {
        enum mtf_source_result r = next_buffer(a);
        if (r != MTF_SOURCE_DATA)
            return r;
    }
    TCM_ASSERT(a->rest_length != 0 && a->rest_length <= BUFFER_BYTES);
    *got = n < a->rest_length ? n : a->rest_length;
    memcpy(buf, a->rest, *got);
    a->rest += *got;
    a->rest_length -= *got;
    if (a->rest_length == 0) {
        a->rest = NULL;
        tool_queue_done(&a->queue);
    }
    return MTF_SOURCE_DATA;
}

struct tool_ahead *tool_ahead_start(struct tool_input *in) {
    uint8_t first[8];
    (void)tool_input_peek(in, first); /* finds out what it is */
    bool is_file = tool_input_file_size(in) != 0;
    if (is_file && !(tool_input_is_compressed(in) && tool_thread_helps()))
        return NULL;
    struct tool_ahead *a = calloc(1, sizeof(*a));
    if (a == NULL)
        return NULL;
    a->in = in;
    a->source = *tool_input_source(in);
    a->source.read = source_read;
    a->last = MTF_SOURCE_DATA;
    if (!tool_queue_init(&a->queue, BUFFERS, BUFFER_BYTES) ||
        !tool_thread_start(&a->thread, read_ahead, a)) {
        tool_queue_fini(&a->queue);
        free(a);
        return NULL;
    }
    return a;
}

void tool_ahead_stop(struct tool_ahead *a) {
    if (a == NULL)
        return;
    tool_queue_close(&a->queue);
    pthread_cancel(a->thread);
    pthread_join(a->thread, NULL);
    tool_queue_fini(&a->queue);
    free(a);
}

struct mtf_source *tool_ahead_source(struct tool_ahead *a) {
    return &a->source;
}

uint64_t tool_ahead_bytes(const struct tool_ahead *a) {
    return a->bytes - a->rest_length;
}

uint64_t tool_ahead_stored_bytes(const struct tool_ahead *a) {
    return a->stored;
}
