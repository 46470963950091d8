/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/config.h"
#include "tracer/stream/thread_buf.h"

struct mtr_config mtr_config = {.token_end = MTR_TOKEN_LIVE | 1};
