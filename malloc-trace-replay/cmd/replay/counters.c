/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/counters.h"

#include "traceformat/trace_event.h"

#include <string.h>

void replay_counters_read(const struct replay_calls *calls,
                          struct replay_counters *out) {
    memset(out, 0, sizeof(*out));
    if (calls->property == NULL)
        return;
    for (unsigned i = 0; i < REPLAY_COUNTERS; i++) {
        const char *name = mtf_account_name(i);
        size_t v;
        if (name != NULL && calls->property(name, &v)) {
            out->value[i] = v;
            out->known |= 1u << i;
        }
    }
}

void replay_counters_since(const struct replay_counters *before,
                           struct replay_counters *after) {
    after->known &= before->known;
    for (unsigned i = 0; i < REPLAY_COUNTERS; i++)
        after->value[i] -= before->value[i];
}
