/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any text as the value of an option: numbers, times and lists of threads. What
 * is taken says what it was taken for.
 */
#include "tests/fuzz/fuzz.h"

#include "window/filter_options.h"
#include "common/main.h"

#include <string.h>

const struct fuzz_target fuzz_target = {.corpus = "options"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = strndup((const char *)data, size), again[32];
    uint64_t v = 0, ns = 0;
    FUZZ_CHECK(text != NULL);
    if (tool_parse_u64(text, 1000000, &v)) {
        const char *digits = text + strspn(text, "0");
        (void)snprintf(again, sizeof(again), "%llu", (unsigned long long)v);
        FUZZ_CHECK(v <= 1000000 && strcmp(v == 0 ? "" : again, digits) == 0);
    }
    if (tool_parse_bytes(text, 1000000, &v))
        FUZZ_CHECK(v <= 1000000 &&
                   strspn(text, "0123456789.kmgtKMGTiB") == strlen(text));
    if (tool_parse_time(text, &ns))
        FUZZ_CHECK(strspn(text, "0123456789.hmnsu") == strlen(text));
    struct filter_list list = {0};
    if (filter_list_parse(&list, text)) {
        FUZZ_CHECK(list.ids + list.names != 0 &&
                   list.ids + list.names <= strlen(text));
        for (size_t i = 1; i < list.ids; i++)
            FUZZ_CHECK(list.id[i - 1] <= list.id[i]);
    }
    filter_list_free(&list);
    free(text);
    return 0;
}
