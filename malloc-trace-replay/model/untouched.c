/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/untouched.h"

#include "base/bits.h"
#include "common/text.h"
#include "traceformat/trace_event.h"
#include "traceformat/varint.h"

#include <stdio.h>

/* Least difference that is named: this many bytes, and one part in PART. */
#define LEAST_BYTES ((uint64_t)1 << 20)
#define PART        8u

static uint64_t beyond(uint64_t bytes, uint64_t resident_bytes) {
    return bytes > resident_bytes ? bytes - resident_bytes : 0;
}

static uint64_t over_of(const struct untouched_sample *s) {
    return beyond(s->bytes, s->resident_bytes);
}

void untouched_add(struct untouched *u, const struct untouched_sample *s) {
    const struct untouched_sample *before = &u->before;
    if (s->resident_bytes == 0)
        return;
    struct untouched_sample found = *s;
    found.bytes = tcm_min_u64(before->bytes, s->bytes);
    struct untouched_sample confirmed = *before;
    confirmed.resident_bytes = tcm_max_u64(
        before->resident_bytes,
        s->resident_bytes + beyond(before->heap_bytes, s->heap_bytes));
    if (before->heap_bytes != 0 && over_of(&confirmed) > over_of(&found))
        found = confirmed;
    if (over_of(&found) > over_of(&u->most))
        u->most = found;
    u->peak_bytes = tcm_max_u64(u->peak_bytes, found.bytes);
    u->peak_resident_bytes =
        tcm_max_u64(u->peak_resident_bytes,
                    tcm_max_u64(found.resident_bytes, s->resident_bytes));
    u->sum_bytes += (double)found.bytes;
    u->over_bytes += (double)over_of(&found);
    u->before = *s;
    u->samples++;
}

void untouched_record(struct untouched *u, const struct mtf_proc_block *b,
                      const struct mtf_op *op, uint64_t start_ns,
                      uint64_t bytes) {
    size_t n;
    uint64_t taken = 0, returned = 0;
    const uint8_t *p = mtf_proc_bytes(b, op, &n);
    struct untouched_sample s = {.ns = beyond(mtf_load_le64(p), start_ns),
                                 .bytes = bytes};
    for (size_t i = sizeof(uint64_t); i + MTF_ACCOUNT_BYTES <= n;
         i += MTF_ACCOUNT_BYTES) {
        struct mtf_account_value a = mtf_get_account(p + i);
        if (a.field == MTF_ACCOUNT_RSS_ANON_BYTES)
            s.resident_bytes = a.value;
        else if (a.field == MTF_ACCOUNT_SYSTEM_BYTES_TAKEN)
            taken = a.value;
        else if (a.field == MTF_ACCOUNT_SYSTEM_BYTES_RETURNED)
            returned = a.value;
    }
    s.heap_bytes = beyond(taken, returned);
    untouched_add(u, &s);
}

const char *untouched_text(const struct untouched *u,
                           enum untouched_reader reader,
                           char text[UNTOUCHED_TEXT]) {
    struct tool_text a, b, c, d;
    uint64_t over = beyond(u->peak_bytes, u->peak_resident_bytes);
    bool of_peak = over >= LEAST_BYTES && over >= u->peak_bytes / PART;
    bool of_mean = u->over_bytes >= (double)LEAST_BYTES * (double)u->samples &&
                   u->over_bytes * PART >= u->sum_bytes;
    if (u->most.bytes == 0 || (!of_peak && !of_mean))
        return NULL;
    (void)tool_text_ns(&a, u->most.ns);
    (void)tool_text_bytes(&b, u->most.bytes);
    (void)tool_text_bytes(&c, u->most.resident_bytes);
    (void)tool_text_bytes(&d, over_of(&u->most));
    if (reader == UNTOUCHED_SHOWN)
        snprintf(text, UNTOUCHED_TEXT,
                 "after %s %s were live, and the recorded process had %s "
                 "resident: it had not touched at least %s",
                 a.s, b.s, c.s, d.s);
    else
        snprintf(text, UNTOUCHED_TEXT,
                 "%s is more than the program's: after %s a replay has written "
                 "%s of live blocks, and the recorded process had %s resident; "
                 "at least %s were untouched",
                 of_peak ? "memory" : "memory over time", a.s, b.s, c.s, d.s);
    return text;
}

const char *untouched_inherited(uint64_t frees, char text[UNTOUCHED_TEXT]) {
    struct tool_text t;
    if (frees == 0)
        return NULL;
    snprintf(text, UNTOUCHED_TEXT,
             "memory lacks what was allocated before the recording, as by the "
             "parent of a forked process: %s such block%s freed",
             tool_text_count(&t, frees), frees == 1 ? " was" : "s were");
    return text;
}
