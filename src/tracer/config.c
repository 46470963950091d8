/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/config.h"

struct mtr_config mtr_config = {.token_end = 1};
