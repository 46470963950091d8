/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/recording.h"

/* Before set-up: threads record to the static buffer. Never written. */
static struct mtr_control control_early = {
    .recording = 1, .early = 1, .known = 1};
struct mtr_control *mtr_control = &control_early;
