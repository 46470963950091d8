/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XXH64, the 64-bit checksum of Yann Collet's xxHash specification. Own code,
 * tested with the specification's vectors, because both trace formats need it
 * in builds without any library, and the preloaded recorder must not load one.
 */
#ifndef TCM_BASE_CHECKSUM_H
#define TCM_BASE_CHECKSUM_H

#include "base/compiler.h"

struct tcm_checksum {
    uint64_t lane[4];
    uint64_t seed;
    uint64_t total;
    uint8_t tail[32];
    uint32_t tail_length;
};

/* A checksum in pieces: begin, add any number of pieces, end. tcm_checksum_end
   does not change C, so more pieces may follow. */
void tcm_checksum_begin(struct tcm_checksum *c, uint64_t seed);
void tcm_checksum_add(struct tcm_checksum *c, const void *data, size_t length);
uint64_t tcm_checksum_end(const struct tcm_checksum *c);

/* Checksum of LENGTH bytes in one call. */
uint64_t tcm_checksum_of(const void *data, size_t length, uint64_t seed);

#endif
