/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/saver/saver.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_syscall.h"
#include "traceformat/raw_codec.h"
#include "sites/unwind/stack.h"
#include "tracer/saver/saver_parts.h"
#include "tracer/stream/thread_looks.h"
#include "tracer/trace_clock.h"
#include "tracer/trace_process.h"

#include <string.h>
#include <sys/resource.h>

struct accounts {
    struct mtf_account_value value[MTF_ACCOUNTS_MAX];
    unsigned count;
};

/* Static, because only one thread saves, and the stack may be that of a thread
   of the program. */
static struct accounts *begin_accounts(void) {
    static struct accounts accounts;
    accounts.count = 0;
    return &accounts;
}

static void put(struct accounts *a, enum mtf_account field, uint64_t value) {
    TCM_ASSERT(a->count < MTF_ACCOUNTS_MAX);
    if (a->count < MTF_ACCOUNTS_MAX)
        a->value[a->count++] =
            (struct mtf_account_value){(uint16_t)field, value};
}

/* An end that waits for the heap's locks for longer than this does without what
   they guard. */
#define STUCK_NS ((uint64_t)100 * 1000 * 1000)

static void put_host(struct accounts *a) {
    if (mtr_config.host->is_stuck(STUCK_NS))
        return;
    unsigned room = MTF_ACCOUNTS_MAX - a->count;
    a->count += mtr_config.host->sample(a->value + a->count, room);
    TCM_ASSERT(a->count <= MTF_ACCOUNTS_MAX);
}

/* Anonymous resident bytes: resident less shared (files and shared memory). */
static void put_memory(struct accounts *a, struct tcm_statm *statm) {
    uint64_t field[3];
    if (tcm_statm_read(statm, field))
        put(a, MTF_ACCOUNT_RSS_ANON_BYTES,
            (field[1] - tcm_min_u64(field[2], field[1])) * tcm_os_page_size());
}

static void put_faults(struct accounts *a) {
    struct rusage usage;
    if (tcm_call(getrusage, RUSAGE_SELF, &usage) != 0)
        return;
    put(a, MTF_ACCOUNT_MINOR_FAULTS, (uint64_t)usage.ru_minflt);
    put(a, MTF_ACCOUNT_MAJOR_FAULTS, (uint64_t)usage.ru_majflt);
}

bool mtr_saver_write_sample(struct mtr_saver *s, uint64_t now) {
    struct accounts *a = begin_accounts();
    put_host(a);
    put_memory(a, &s->statm);
    put_faults(a);
    s->last_sample = now;
    mtr_looks_pass(&s->rec->looks);
    if (mtr_output_is_lost(&s->output))
        return false;
    return mtf_raw_write_sample(&s->writer, now, a->value, a->count);
}

uint64_t mtr_saver_cpu_ns(const struct mtr_saver *s) {
    return tcm_clock_thread_cpu_ns() - s->cpu_from;
}

/* Processor time of the program's threads since the recording began, without
   the looks at blocks. */
static void put_program_cpu(struct accounts *a, const struct mtr_saver *s) {
    uint64_t all = tcm_clock_process_cpu_ns();
    uint64_t other = s->rec->start_cpu_ns + mtr_saver_cpu_ns(s) +
                     tcm_load_relaxed(&s->rec->looks.ns);
    if (all > other)
        put(a, MTF_ACCOUNT_PROGRAM_CPU_NS, all - other);
}

/* Counts the event at P, before END; returns where the next one begins. */
static TCM_ALWAYS_INLINE const uint8_t *
count_event(struct mtr_event_counts *c, const uint8_t *p, const uint8_t *end) {
    uint64_t v;
    size_t n = mtf_raw_event_length(p, end, &v);
    if (TCM_UNLIKELY(n == 0)) /* not an event: nothing follows */
        return end;
    switch (v & 3) {
    case MTF_RAW_ALLOC:
        c->mallocs++;
        return p + n;
    case MTF_RAW_FREE:
        c->frees++;
        return p + n;
    case MTF_RAW_REALLOC:
        c->reallocs++;
        return p + n;
    default:
        break;
    }
    switch (mtf_raw_kind_of(v)) {
    case MTF_RAW_ALIGNED:
        c->memaligns++;
        break;
    case MTF_RAW_REALLOC_NEW:
    case MTF_RAW_REALLOC_END:
        c->reallocs++;
        break;
    case MTF_RAW_FREE_SIZE:
        c->frees++;
        break;
    case MTF_RAW_FAILED:
        c->failed++;
        break;
    default:
        break;
    }
    return p + n;
}

/* Counts ALLOC and FREE events from P on; returns where something else is, or
   where less than 16 bytes are left. Nothing branches on which of the two an
   event is, because programs mix them unpredictably. */
static const uint8_t *count_hot(struct mtr_event_counts *c, const uint8_t *p,
                                const uint8_t *end) {
    uint64_t mallocs = 0, frees = 0;
    while (end - p >= 16) {
        uint64_t w = mtf_load_le64(p);
        unsigned n = (unsigned)__builtin_ctzll(w | 1u << 8) + 1;
        unsigned type = (unsigned)(w >> n) & 3;
        if (TCM_UNLIKELY(n > MTF_VARINT_MAX_BYTES ||
                         (type != MTF_RAW_ALLOC && type != MTF_RAW_FREE)))
            break;
        mallocs += type == MTF_RAW_ALLOC;
        frees += type == MTF_RAW_FREE;
        p += n;
    }
    c->mallocs += mallocs;
    c->frees += frees;
    return p;
}

void mtr_count_events(struct mtr_event_counts *counts, const uint8_t *p,
                      size_t n) {
    const uint8_t *end = p + n;
    uint8_t last[32] = {0};
    /* The bytes behind END may be written to at this moment, and decoding an
       event may load 16 bytes: the last events are decoded in a copy. */
    while (end - p >= 16) {
        p = count_hot(counts, p, end);
        if (end - p >= 16)
            p = count_event(counts, p, end);
    }
    n = (size_t)(end - p);
    memcpy(last, p, n);
    TCM_ASSERT(p <= end && n < sizeof(last));
    for (p = last; p < last + n;)
        p = count_event(counts, p, last + n);
}

static uint64_t event_sum(const struct mtr_event_counts *c) {
    return c->mallocs + c->memaligns + c->reallocs + c->frees + c->failed;
}

/* Most live blocks at the end whose present bytes are written, and how many are
   expected. */
#define LOOKED_MAX ((size_t)1 << 20)
#define LOOKED_MIN ((size_t)256)

/* The present bytes of one segment. */
struct present_list {
    struct mtf_present block[MTF_PRESENT_MAX];
    unsigned count;
};

static bool flush_present(struct mtr_saver *s, struct present_list *list) {
    unsigned count = list->count;
    list->count = 0;
    return count == 0 || mtf_raw_write_present(&s->writer, mtr_clock_ns(),
                                               list->block, count);
}

static bool write_present(struct mtr_saver *s, const struct mtr_looked_block *b,
                          size_t count) {
    static struct present_list list;
    list.count = 0;
    for (; count != 0; b++, count--) {
        size_t present;
        if (b->token < s->rec->first_token ||
            !mtr_look_ends((const void *)b->start, b->bytes, &present))
            continue;
        list.block[list.count++] =
            (struct mtf_present){mtr_token_name(b->token), present};
        if (list.count == MTF_PRESENT_MAX && !flush_present(s, &list))
            return false;
    }
    return flush_present(s, &list);
}

bool mtr_saver_write_present(struct mtr_saver *s) {
    const struct mtr_host *h = mtr_config.host;
    bool ok = true;
    if (!mtr_config.present || h->is_stuck(STUCK_NS))
        return true;
    /* Most programs have few. If the list is too short, it is made again. */
    for (size_t cap = LOOKED_MIN;; cap = LOOKED_MAX) {
        size_t bytes = tcm_align_up(cap * sizeof(struct mtr_looked_block),
                                    tcm_os_page_size());
        struct mtr_looked_block *list = tcm_os_map(bytes);
        if (list == NULL)
            return true;
        size_t count = h->looked_blocks(list, cap);
        bool all = count < cap || cap == LOOKED_MAX;
        if (all)
            ok = write_present(s, list, count);
        tcm_os_unmap(list, bytes);
        if (all)
            return ok;
    }
}

bool mtr_saver_write_footer(struct mtr_saver *s, enum mtf_end_reason reason) {
    struct mtr_recorder *rec = s->rec;
    const struct mtr_event_counts *c = &s->counts;
    struct mtr_totals t;
    uint32_t threads;
    mtr_registry_totals(rec, &t, &threads);
    struct accounts *a = begin_accounts();
    if (reason != MTF_END_FORCED && mtr_output_is_lost(&s->output))
        return false;
    put_host(a);
    put(a, MTF_ACCOUNT_EVENTS, event_sum(c));
    put(a, MTF_ACCOUNT_MALLOCS, c->mallocs);
    put(a, MTF_ACCOUNT_MEMALIGNS, c->memaligns);
    put(a, MTF_ACCOUNT_REALLOCS, c->reallocs);
    put(a, MTF_ACCOUNT_FREES, c->frees);
    put(a, MTF_ACCOUNT_FAILED_ALLOCATIONS, c->failed);
    put(a, MTF_ACCOUNT_UNTRACED_FREES, t.untraced);
    put(a, MTF_ACCOUNT_DROPPED_EVENTS, t.dropped);
    put(a, MTF_ACCOUNT_WAITS, t.waits);
    put(a, MTF_ACCOUNT_WAIT_NS, t.wait_ns);
    put(a, MTF_ACCOUNT_THREADS, threads);
    put(a, MTF_ACCOUNT_BUFFERS, tcm_load_relaxed(&rec->pool.buffers));
    put(a, MTF_ACCOUNT_SEGMENTS, s->writer.segments);
    put(a, MTF_ACCOUNT_RAW_BYTES, s->writer.raw_bytes);
    put(a, MTF_ACCOUNT_STORED_BYTES, s->writer.stored_bytes);
    put(a, MTF_ACCOUNT_SLOW_TIMES, t.slow_times);
    put(a, MTF_ACCOUNT_SAVER_CPU_NS, mtr_saver_cpu_ns(s));
    put(a, MTF_ACCOUNT_ROUNDS, s->rounds);
    put(a, MTF_ACCOUNT_END_REASON, reason);
    put_program_cpu(a, s);
    uint64_t checked, different;
    if (mts_stack_checks(&checked, &different)) {
        put(a, MTF_ACCOUNT_STACKS_CHECKED, checked);
        put(a, MTF_ACCOUNT_STACKS_DIFFERENT, different);
    }
    bool ok =
        mtf_raw_write_footer(&s->writer, mtr_clock_ns(), a->value, a->count);
    mtr_saver_publish(s);
    return ok;
}

void mtr_saver_publish(struct mtr_saver *s) {
    struct mtr_live *live = &s->rec->live;
    const struct mtr_event_counts *c = &s->counts;
    tcm_store_relaxed(&live->events, event_sum(c));
    tcm_store_relaxed(&live->mallocs, c->mallocs);
    tcm_store_relaxed(&live->memaligns, c->memaligns);
    tcm_store_relaxed(&live->reallocs, c->reallocs);
    tcm_store_relaxed(&live->frees, c->frees);
    tcm_store_relaxed(&live->failed, c->failed);
    tcm_store_relaxed(&live->segments, s->writer.segments);
    tcm_store_relaxed(&live->raw_bytes, s->writer.raw_bytes);
    tcm_store_relaxed(&live->stored_bytes, s->writer.stored_bytes);
    tcm_store_relaxed(&live->rounds, s->rounds);
}

unsigned mtr_live_accounts(struct mtr_recorder *rec,
                           struct mtf_account_value *out, unsigned cap) {
    struct mtr_live *live = &rec->live;
    struct mtr_totals t = {0};
    uint32_t threads = 0;
    if (tcm_load_acquire(&rec->session) != 0)
        mtr_registry_totals(rec, &t, &threads);
    const struct mtf_account_value all[] = {
        {MTF_ACCOUNT_EVENTS, tcm_load_relaxed(&live->events)},
        {MTF_ACCOUNT_MALLOCS, tcm_load_relaxed(&live->mallocs)},
        {MTF_ACCOUNT_MEMALIGNS, tcm_load_relaxed(&live->memaligns)},
        {MTF_ACCOUNT_REALLOCS, tcm_load_relaxed(&live->reallocs)},
        {MTF_ACCOUNT_FREES, tcm_load_relaxed(&live->frees)},
        {MTF_ACCOUNT_FAILED_ALLOCATIONS, tcm_load_relaxed(&live->failed)},
        {MTF_ACCOUNT_UNTRACED_FREES, t.untraced},
        {MTF_ACCOUNT_DROPPED_EVENTS, t.dropped},
        {MTF_ACCOUNT_WAITS, t.waits},
        {MTF_ACCOUNT_WAIT_NS, t.wait_ns},
        {MTF_ACCOUNT_THREADS, threads},
        {MTF_ACCOUNT_SEGMENTS, tcm_load_relaxed(&live->segments)},
        {MTF_ACCOUNT_RAW_BYTES, tcm_load_relaxed(&live->raw_bytes)},
        {MTF_ACCOUNT_STORED_BYTES, tcm_load_relaxed(&live->stored_bytes)},
        {MTF_ACCOUNT_ROUNDS, tcm_load_relaxed(&live->rounds)},
    };
    unsigned n = 0;
    for (; n < TCM_ARRAY_SIZE(all) && n < cap; n++)
        out[n] = all[n];
    return n;
}

#define NEXT_LINE "\ntcmalloc:   "

static void put_number(struct tcm_fmt *f, uint64_t n, const char *unit) {
    tcm_fmt_u64(f, n);
    tcm_fmt_str(f, unit);
}

void mtr_saver_summarise(struct mtr_saver *s, enum mtf_end_reason reason) {
    struct mtr_totals t;
    uint32_t threads;
    struct tcm_fmt f;
    mtr_registry_totals(s->rec, &t, &threads);
    tcm_fmt_init(&f, s->texts.summary, sizeof(s->texts.summary));
    tcm_fmt_str(&f, "tcmalloc: recorded ");
    put_number(&f, event_sum(&s->counts), " events of ");
    put_number(&f, threads, threads == 1 ? " thread" : " threads");
    tcm_fmt_str(&f, reason == MTF_END_FORCED  ? ", stopped by a failure"
                    : reason == MTF_END_STOP  ? ", stopped by call"
                    : reason == MTF_END_LIMIT ? ", stopped at its size"
                                              : "");
    tcm_fmt_str(&f, NEXT_LINE);
    put_number(&f, s->counts.mallocs, " mallocs, ");
    put_number(&f, s->counts.memaligns, " memaligns, ");
    put_number(&f, s->counts.reallocs, " reallocs, ");
    put_number(&f, s->counts.frees, " frees, ");
    put_number(&f, s->counts.failed, " failed; ");
    put_number(&f, t.untraced, " untraced frees, ");
    put_number(&f, t.dropped, " dropped" NEXT_LINE);
    put_number(&f, s->writer.raw_bytes, " bytes in ");
    put_number(&f, s->writer.segments, " segments, stored ");
    put_number(&f, s->writer.stored_bytes, NEXT_LINE "waited ");
    put_number(&f, t.waits, " times, ");
    put_number(&f, t.wait_ns / 1000, " us; ");
    put_number(&f, t.slow_times, " times on slow paths; saver ");
    put_number(&f, mtr_saver_cpu_ns(s) / 1000, " us\n");
    TCM_ASSERT(f.len < MTR_SUMMARY_MAX && s->texts.summary[f.len - 1] == '\n');
    s->summary_length = f.len;
    tcm_store_release(&s->rec->summary_due, 1u);
}
