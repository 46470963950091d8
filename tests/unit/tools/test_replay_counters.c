/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is read out of malloc_info: this project's elements and nothing else,
 * whatever else the text holds.
 */
#include "cmd/replay/replay_counters.h"
#include "tap.h"
#include "traceformat/trace_event.h"

#define BIT(name) (1u << MTF_ACCOUNT_##name)

static void whole(void) {
    struct replay_counters c;
    replay_counters_parse(
        "<malloc version=\"1\">\n<heap nr=\"0\">\n"
        "<total type=\"fast\" size=\"99\"/>\n</heap>\n"
        "<library name=\"libtcmalloc_minimal\" version=\"1.2.3\"/>\n"
        "<counter name=\"tcmalloc.thread_cache_misses\" value=\"123\"/>\n"
        "<counter name=\"tcmalloc.system_bytes_taken\" "
        "value=\"18446744073709551615\"/>\n"
        "<counter value=\"7\" name=\"tcmalloc.spans_made\"/>\n</malloc>\n",
        &c);
    tap_ok(strcmp(c.version, "1.2.3") == 0, "the library's version: %s",
           c.version);
    tap_is_u64(c.value[MTF_ACCOUNT_THREAD_CACHE_MISSES], 123, "a counter");
    tap_is_u64(c.value[MTF_ACCOUNT_SYSTEM_BYTES_TAKEN], UINT64_MAX,
               "the largest");
    tap_is_u64(c.value[MTF_ACCOUNT_SPANS_MADE], 7, "attributes in any order");
    tap_is_u64(c.known,
               BIT(THREAD_CACHE_MISSES) | BIT(SYSTEM_BYTES_TAKEN) |
                   BIT(SPANS_MADE),
               "and no others");
}

static void broken(void) {
    static const char *const text[] = {
        "",
        "<",
        "<counter ",
        "<counter name=\"",
        "<counter name=\"tcmalloc.spans_made",
        "<counter name=\"tcmalloc.spans_made\" value=\"",
        "<counter name=\"tcmalloc.spans_made\" value=\"\"/>",
        "<counter name=\"tcmalloc.spans_made\" value=\"-1\"/>",
        "<counter name=\"tcmalloc.spans_made\" value=\"1x\"/>",
        "<counter name=\"tcmalloc.spans_made\"/> value=\"1\"/>",
        "<counter name=\"tcmalloc.spans\" value=\"1\"/>",
        "<counter name=\"tcmalloc.spans_made2\" value=\"1\"/>",
        "<counters name=\"tcmalloc.spans_made\" value=\"1\"/>",
        "<library name=\"x\"/><malloc version=\"1\">",
        "<library version=\"a version of more characters than it has\"/>",
    };
    for (size_t i = 0; i < TCM_ARRAY_SIZE(text); i++) {
        struct replay_counters c;
        replay_counters_parse(text[i], &c);
        tap_ok(c.known == 0 && c.version[0] == '\0', "nothing in %s", text[i]);
    }
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
    whole();
    broken();
    since();
    return tap_done();
}
