/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/hash.h"

#include <sys/random.h>

uint64_t tool_hash_seed(void) {
    uint64_t seed;
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed = (uintptr_t)&seed; /* at least not always the same */
    return seed;
}
