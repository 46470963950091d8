/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/env.h"
#include "base/check.h"

#include <string.h>
#include <sys/auxv.h>

extern char **environ;

const char *tcm_env_get(const char *name) {
    if (environ == NULL || getauxval(AT_SECURE) != 0)
        return NULL;
    size_t length = strlen(name);
    TCM_ASSERT(length != 0 && strchr(name, '=') == NULL);
    for (char **e = environ; *e != NULL; e++) {
        if (strncmp(*e, name, length) == 0 && (*e)[length] == '=')
            return *e + length + 1;
    }
    return NULL;
}

bool tcm_env_bool(const char *name) {
    const char *v = tcm_env_get(name);
    return v != NULL && *v != '\0' && strcmp(v, "0") != 0 &&
           strcmp(v, "no") != 0 && strcmp(v, "false") != 0 &&
           strcmp(v, "off") != 0;
}

uint64_t tcm_env_u64(const char *name, uint64_t fallback, uint64_t low,
                     uint64_t high) {
    TCM_ASSERT(low <= high);
    const char *v = tcm_env_get(name);
    if (v == NULL || *v == '\0')
        return fallback;
    uint64_t n = 0;
    for (; *v != '\0'; v++) {
        if (*v < '0' || *v > '9')
            return fallback;
        if (n > UINT64_MAX / 10 ||
            __builtin_add_overflow(n * 10, (uint64_t)(*v - '0'), &n))
            n = UINT64_MAX; /* stays so if more digits follow */
    }
    return n < low ? low : n > high ? high : n;
}
