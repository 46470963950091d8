/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any text as the value of a variable of the environment, and as the name of an
 * output with %p, %e and %%.
 */
#include "tests/fuzz/fuzz.h"

#include "base/linux/os_process.h"
#include "tracer/recorder.h"
#include "tracer/trace_name.h"

#include <string.h>

const struct fuzz_target fuzz_target = {.corpus = "settings"};

#define NAME "FUZZ_SETTING"

static void check_number(const char *text, uint64_t low, uint64_t high) {
    uint64_t n = tcm_env_u64(NAME, low - 1, low, high);
    bool digits = *text != '\0' && strspn(text, "0123456789") == strlen(text);
    FUZZ_CHECK(digits ? n >= low && n <= high : n == low - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct mtr_recorder rec;
    /* Neither a variable nor a name can hold a zero byte. */
    char *text = strndup((const char *)data, size);
    FUZZ_CHECK(text != NULL && setenv(NAME, text, 1) == 0);
    FUZZ_CHECK(strcmp(tcm_env_get(NAME), text) == 0);
    FUZZ_CHECK(tcm_env_get("FUZZ_SETTIN") == NULL);
    FUZZ_CHECK(!tcm_env_bool(NAME) || *text != '\0');
    check_number(text, 1, 10);
    check_number(text, 5, UINT64_MAX);
    mtr_config.self.pid = 4321;
    strcpy(mtr_config.executable, "program");
    /* Whoever sets the pattern makes it absolute. */
    int n =
        snprintf(mtr_config.pattern, sizeof(mtr_config.pattern), "/%s", text);
    if ((size_t)n < sizeof(mtr_config.pattern)) {
        if (mtr_name_expand(&rec))
            FUZZ_CHECK(strlen(rec.output) < sizeof(rec.output) &&
                       rec.output[0] == '/');
    }
    free(text);
    return 0;
}
