/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Past the checksums: a copy of the input in which those of its headers,
 * segments, buffers and blocks are put right, so that changed bytes inside
 * reach the code behind.
 */
#ifndef TESTS_FUZZ_FUZZ_REPAIR_H
#define TESTS_FUZZ_FUZZ_REPAIR_H

#include <stddef.h>
#include <stdint.h>

typedef void (*fuzz_run)(const uint8_t *data, size_t size);

/* Puts the checksums of a raw trace, spool or processed trace right, and sync
   words and lengths that would end it. Anything else stays as it is. */
void fuzz_repair(uint8_t *data, size_t size);

/* Runs the input as it is, and repaired if that makes a difference. */
void fuzz_both(const uint8_t *data, size_t size, fuzz_run run);

#endif
