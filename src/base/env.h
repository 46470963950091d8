/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment, read early (before main, perhaps before the C library is
 * ready) and without malloc. In a setuid or setgid program every variable
 * counts as unset.
 */
#ifndef TCM_BASE_ENV_H
#define TCM_BASE_ENV_H

#include "base/compiler.h"

/* Value of NAME, or NULL. Points into the environment block. */
const char *tcm_env_get(const char *name);

/* False when NAME is unset, empty, or one of 0, no, false, off. */
bool tcm_env_bool(const char *name);

/* Decimal value of NAME, clamped to LOW and HIGH; FALLBACK when it is unset or
   not a number. */
uint64_t tcm_env_u64(const char *name, uint64_t fallback, uint64_t low,
                     uint64_t high);

#endif
