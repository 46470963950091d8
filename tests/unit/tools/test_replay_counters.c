/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of an allocator that are read by its numeric properties, and the
 * difference of two readings.
 */
#include "cmd/replay/run/calls.h"
#include "tap.h"
#include "traceformat/trace_event.h"

#define BIT(name) (1u << MTF_ACCOUNT_##name)

static unsigned asked;

static int property(const char *name, size_t *value) {
    asked++;
    if (strcmp(name, "tcmalloc.thread_cache_misses") == 0) {
        *value = 123;
        return 1;
    }
    if (strcmp(name, "tcmalloc.system_bytes_taken") == 0) {
        *value = SIZE_MAX;
        return 1;
    }
    return 0;
}

static void reading(void) {
    struct replay_calls calls = {.property = property};
    struct replay_counters c;
    replay_counters_read(&calls, &c);
    tap_is_u64(c.value[MTF_ACCOUNT_THREAD_CACHE_MISSES], 123, "a counter");
    tap_is_u64(c.value[MTF_ACCOUNT_SYSTEM_BYTES_TAKEN], SIZE_MAX,
               "the largest");
    tap_is_u64(c.known, BIT(THREAD_CACHE_MISSES) | BIT(SYSTEM_BYTES_TAKEN),
               "and no others");
    tap_is_u64(asked, 9, "all that a trace has are asked for");
    calls.property = NULL;
    replay_counters_read(&calls, &c);
    tap_is_u64(c.known, 0, "nothing of an allocator that tells nothing");
}

static void since(void) {
    struct replay_counters a = {.known = BIT(SPANS_MADE)}, b = a;
    a.value[MTF_ACCOUNT_SPANS_MADE] = 30;
    b.value[MTF_ACCOUNT_SPANS_MADE] = 100;
    b.known |= BIT(SPANS_FREED);
    replay_counters_since(&a, &b);
    tap_is_u64(b.value[MTF_ACCOUNT_SPANS_MADE], 70, "the difference");
    tap_is_u64(b.known, BIT(SPANS_MADE), "of what both have");
}

int main(void) {
    reading();
    since();
    return tap_done();
}
