/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/feed/translate.h"

#include "traceformat/trace_event.h"

#include <string.h>

void replay_recorded_sample(struct replay_recorded *c,
                            const struct mtf_proc_block *b,
                            const struct mtf_op *op) {
    size_t length;
    const uint8_t *p = mtf_proc_bytes(b, op, &length);
    for (size_t i = sizeof(uint64_t); i + 10 <= length; i += 10) {
        uint16_t field;
        uint64_t value;
        memcpy(&field, p + i, sizeof(field));
        memcpy(&value, p + i + sizeof(field), sizeof(value));
        if (field == MTF_ACCOUNT_RSS_ANON_BYTES)
            c->rss_bytes = value;
        if (field >= REPLAY_COUNTERS)
            continue;
        c->value[field] = value;
        c->known |= 1u << field;
    }
}

uint64_t replay_recorded_heap(const struct replay_recorded *c) {
    uint64_t taken = c->value[MTF_ACCOUNT_SYSTEM_BYTES_TAKEN];
    uint64_t returned = c->value[MTF_ACCOUNT_SYSTEM_BYTES_RETURNED];
    return taken > returned ? taken - returned : 0;
}

/* Events of a forked child's trace that its recorder did not count: a prologue,
   and the frees of blocks that it made. */
static uint64_t added_events(const struct mtf_proc_block *b) {
    uint64_t prologue = 0, untraced = 0, left = 0;
    if (!mtf_proc_account(b, MTF_PROC_ACCOUNT_PROLOGUE_OPS, &prologue) ||
        !mtf_proc_account(b, MTF_PROC_ACCOUNT_UNTRACED_FREES, &left) ||
        !mtf_proc_account(
            b, MTF_PROC_ACCOUNT_RECORDER + MTF_ACCOUNT_UNTRACED_FREES,
            &untraced))
        return prologue;
    return prologue + untraced - left;
}

void replay_recorded_closing(struct replay_recorded *c,
                             const struct mtf_proc_block *b) {
    uint64_t first, last;
    c->seen = true;
    /* These are times of events; the times so far are those of records. */
    if (mtf_proc_account(b, MTF_PROC_ACCOUNT_START_NS, &first) &&
        mtf_proc_account(b, MTF_PROC_ACCOUNT_END_NS, &last)) {
        c->first_ns = first;
        c->last_ns = last;
    }
    uint64_t v;
    if (mtf_proc_account(b, MTF_PROC_ACCOUNT_PROLOGUE_OPS, &v) ||
        (mtf_proc_account(b, MTF_PROC_ACCOUNT_BEGINS_LATE, &v) && v != 0))
        c->is_part = true;
    uint64_t cpu, here, all;
    /* The time of the whole recording does not fit a part of it. A child's
       recording is whole beside a prologue of what the child inherited. */
    if (mtf_proc_account(
            b, MTF_PROC_ACCOUNT_RECORDER + MTF_ACCOUNT_PROGRAM_CPU_NS, &cpu) &&
        mtf_proc_account(b, MTF_PROC_ACCOUNT_RECORDER + MTF_ACCOUNT_EVENTS,
                         &all) &&
        mtf_proc_account(b, MTF_PROC_ACCOUNT_EVENTS, &here) &&
        here == all + added_events(b))
        c->cpu_ns = cpu;
    if (mtf_proc_account(b, MTF_PROC_ACCOUNT_RECORDER + MTF_ACCOUNT_EVENTS,
                         &all) &&
        mtf_proc_account(
            b, MTF_PROC_ACCOUNT_RECORDER + MTF_ACCOUNT_FAILED_ALLOCATIONS, &v))
        c->ops = all - v;
    if (mtf_proc_account(b, MTF_PROC_ACCOUNT_UNTRACED_FREES, &v))
        c->untraced_frees = v;
    if (mtf_proc_account(b, MTF_PROC_ACCOUNT_PEAK_LIVE_BYTES, &v))
        c->peak_bytes = v;
    /* The counters of the footer are newer than the last sample. */
    for (unsigned i = 0; i < REPLAY_COUNTERS; i++)
        if (mtf_proc_account(b, MTF_PROC_ACCOUNT_RECORDER + i, &c->value[i]))
            c->known |= 1u << i;
}

void replay_recorded_end(struct replay_recorded *c,
                         struct replay_result *result) {
    if (c->last_ns > c->first_ns)
        result->recorded_ns += c->last_ns - c->first_ns;
    /* Counters that cover more than the trace cannot be compared. */
    result->is_part |= c->is_part;
    if (c->is_part)
        c->known = 0;
    if (c->seen) {
        result->recorded_ops += c->ops;
        /* Several traces have no common peak. */
        result->recorded_peak_bytes = result->traces++ == 0 ? c->peak_bytes : 0;
    }
    result->untraced_frees += c->untraced_frees;
    result->recorded_cpu_ns += c->cpu_ns;
    result->without_cpu += c->seen && c->cpu_ns == 0;
    for (unsigned i = 0; i < REPLAY_COUNTERS; i++)
        if (c->known >> i & 1)
            result->recorded[i] += c->value[i];
    result->recorded_known |= c->known;
    memset(c, 0, sizeof(*c));
}
