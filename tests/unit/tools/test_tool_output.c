/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The writing thread takes the last buffer, also if that is given and the queue
 * is closed between its two checks of the queue. tool_queue's sleeps may end at
 * any wake; in this test each ends at once.
 */
#include "base/atomic.h"
#include "common/queue.h"

#include "tap.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t looks;

static uint8_t *look_full(struct tool_queue *q, size_t *length,
                          uint64_t timeout_ns) {
    (void)timeout_ns;
    uint8_t *buffer = tool_queue_full(q, length, 0);
    tcm_store_seq_cst(&looks, 1u);
    return buffer;
}

/* Waits until the rest of the output was given and the queue closed. */
static bool look_closed(const struct tool_queue *q) {
    tcm_store_seq_cst(&looks, 1u);
    while (!tool_queue_is_closed(q))
        sched_yield();
    return true;
}

static bool always(void) {
    return true;
}

#define tool_queue_full      look_full
#define tool_queue_is_closed look_closed
#define tool_thread_helps    always
#include "common/output.c"
#undef tool_queue_full
#undef tool_queue_is_closed
#undef tool_thread_helps

/* Writes LENGTH bytes while the other thread is between two checks of the
   queue. */
static void test_last_buffer(size_t length) {
    char name[] = "test_tool_output.XXXXXX";
    int fd = mkstemp(name);
    uint8_t *in = malloc(length), *got = malloc(length + 1);
    for (size_t i = 0; i < length; i++)
        in[i] = (uint8_t)(i * 7 + (i >> 8));
    tcm_store_seq_cst(&looks, 0u);
    struct tool_output *out = tool_output_open(name, TOOL_OUTPUT_PLAIN);
    while (tcm_load_seq_cst(&looks) == 0)
        sched_yield();
    tap_ok(tool_output_write(out, in, length) && tool_output_close(out),
           "%zu bytes are written", length);
    /* the name belongs to the new file now */
    close(fd);
    fd = open(name, O_RDONLY);
    ssize_t n = read(fd, got, length + 1);
    tap_ok(n == (ssize_t)length && memcmp(got, in, length) == 0,
           "and are in the file (%zd)", n);
    close(fd);
    unlink(name);
    free(in);
    free(got);
}

int main(void) {
    test_last_buffer(1);
    test_last_buffer(BUFFER_BYTES);
    test_last_buffer(2 * BUFFER_BYTES + 17);
    return tap_done();
}
