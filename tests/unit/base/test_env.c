/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/linux/os_process.h"

#include "tap.h"

#include <unistd.h>

static uint64_t number(const char *text) {
    setenv("TCMTEST_N", text, 1);
    return tcm_env_u64("TCMTEST_N", 7, 2, 100);
}

static bool truth(const char *text) {
    setenv("TCMTEST_B", text, 1);
    return tcm_env_bool("TCMTEST_B");
}

int main(void) {
    unsetenv("TCMTEST_X");
    tap_ok(tcm_env_get("TCMTEST_X") == NULL, "unset");
    setenv("TCMTEST_XY", "longer", 1);
    tap_ok(tcm_env_get("TCMTEST_X") == NULL, "a longer name is another");
    setenv("TCMTEST_X", "a=b", 1);
    tap_is_str(tcm_env_get("TCMTEST_X"), "a=b", "value with a sign in it");
    setenv("TCMTEST_X", "", 1);
    tap_is_str(tcm_env_get("TCMTEST_X"), "", "set and empty");

    tap_ok(!truth(""), "empty is false");
    tap_ok(!truth("0") && !truth("no") && !truth("false") && !truth("off"),
           "words for false");
    tap_ok(truth("1") && truth("yes") && truth("00") && truth("on"),
           "others are true");
    unsetenv("TCMTEST_B");
    tap_ok(!tcm_env_bool("TCMTEST_B"), "unset is false");

    unsetenv("TCMTEST_N");
    tap_is_u64(tcm_env_u64("TCMTEST_N", 7, 2, 100), 7, "unset: fallback");
    tap_is_u64(number(""), 7, "empty: fallback");
    tap_is_u64(number("42"), 42, "a number");
    tap_is_u64(number("1"), 2, "below the bound");
    tap_is_u64(number("101"), 100, "above the bound");
    tap_is_u64(number("99999999999999999999999"), 100, "above 64 bits");
    tap_is_u64(number("12x"), 7, "no number: fallback");
    tap_is_u64(number("-5"), 7, "a sign: fallback");
    tap_is_u64(number(" 5"), 7, "a blank: fallback");
    setenv("TCMTEST_N", "18446744073709551615", 1);
    tap_is_u64(tcm_env_u64("TCMTEST_N", 0, 0, UINT64_MAX), UINT64_MAX,
               "the largest");

    char **saved = environ;
    environ = NULL;
    tap_ok(tcm_env_get("PATH") == NULL, "no environment at all");
    environ = saved;
    return tap_done();
}
