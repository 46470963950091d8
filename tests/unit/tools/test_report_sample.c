/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports of samples. The truth of the traces is known; each allocation has a
 * site with the chance that its size gives it. Sums of estimates lie as far off
 * the truth as theory says, and not to one side.
 */
#include "cmd/malloc_trace/report/report_tally.h"
#include "memory_sink.h"
#include "prng.h"
#include "tap.h"
#include "traceformat/proc_writer.h"
#include "traceformat/raw_writer.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RUNS   100
#define BLOCKS 20000
#define SITES  3
#define MEAN   4096

/* True value of a sum, and the square of its standard error. */
struct truth {
    double sum, variance;
};

struct run {
    struct mtf_proc_writer w;
    int fd;
    struct truth bytes, calls, live, live_calls;
    uint64_t asked, kept;
};

static bool sink(void *ctx, const void *data, size_t length) {
    const struct run *r = ctx;
    return write(r->fd, data, length) == (ssize_t)length;
}

/* A sample with chance P stands for X / P, and is there or not. */
static void add(struct truth *t, double x, double p) {
    t->sum += x;
    t->variance += x * x * (1 - p) / p;
}

static void define(struct run *r, const struct mtf_site_def *def) {
    uint8_t bytes[64];
    unsigned left;
    mtf_proc_put_site_def(&r->w, bytes,
                          mtf_site_def_put(bytes, sizeof(bytes), def, &left));
}

/* Small blocks, some near the mean, and few that are far above it. */
static uint64_t size_of(struct prng *p) {
    switch (prng_below(p, 10)) {
    case 0:
        return 1 + prng_below(p, 2 * MEAN);
    case 1:
        return prng_below(p, 50) == 0 ? 20 * MEAN + prng_below(p, MEAN) : 600;
    default:
        return 16 + prng_below(p, 200);
    }
}

/* The head of a trace, with SITES sites. */
static void begin(struct run *r) {
    uint8_t header[MTF_RAW_HEADER_MAX];
    const struct mtf_raw_header fixed = {
        .pid = 1, .random = 1, .page_size = 4096, .clock = 1};
    size_t n = mtf_raw_build_header(header, &fixed, "made", "by a test");
    mtf_proc_writer_begin(&r->w, sink, memory_sink_grow, r, header,
                          (uint32_t)n);
    mtf_proc_put_switch(&r->w, 1);
    define(r, &(struct mtf_site_def){.kind = MTF_SITE_DEF_MODE,
                                     .mode = MTF_SITE_MODE_SAMPLE,
                                     .depth = 32,
                                     .mean = MEAN});
    for (uint32_t site = 1; site <= SITES; site++)
        define(r, &(struct mtf_site_def){.kind = MTF_SITE_DEF_FRAME,
                                         .site = site,
                                         .address = 4096 * site});
}

static void make(struct run *r, struct prng *p) {
    begin(r);
    for (int i = 0; i < BLOCKS; i++) {
        struct mtf_proc_object block;
        uint64_t size = size_of(p);
        double chance = -expm1(-(double)size / MEAN);
        bool chosen = (double)prng_below(p, 1u << 30) < chance * (1u << 30);
        bool kept = prng_below(p, 4) == 0;
        mtf_proc_put_site(&r->w, chosen ? 1 + (uint32_t)prng_below(p, SITES)
                                        : MTF_SITE_NONE);
        mtf_proc_put_alloc(&r->w, MTF_CALL_MALLOC, size, &block);
        r->asked += size;
        add(&r->bytes, (double)size, chance);
        add(&r->calls, 1, chance);
        if (kept) {
            r->kept += size;
            add(&r->live, (double)size, chance);
            add(&r->live_calls, 1, chance);
        } else {
            mtf_proc_put_free(&r->w, MTF_CALL_FREE, &block);
        }
    }
    mtf_proc_writer_end(&r->w, NULL, 0);
    free(r->w.stack);
}

/* By how many standard errors ESTIMATE is off. */
static double off(uint64_t estimate, const struct truth *t) {
    return ((double)estimate - t->sum) / sqrt(t->variance);
}

static struct {
    unsigned far, count;
    double most, sum;
} seen;

static void note(double z) {
    seen.count++;
    seen.far += fabs(z) > 3;
    seen.most = fmax(seen.most, fabs(z));
    seen.sum += z;
}

static bool one_run(struct prng *p) {
    static struct run r;
    char name[64];
    memset(&r, 0, sizeof(r));
    r.fd = memfd_create("trace", MFD_CLOEXEC);
    make(&r, p);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", r.fd);
    struct report_tallies t = {.options = {.by = REPORT_TALLY_BY_SITE}};
    struct report_tally all = {0};
    bool good = report_tally_read(&t, name);
    for (size_t i = 0; i < t.count; i++)
        report_tally_add(&all, &t.tally[i]);
    good = good && t.sampled && t.mean == MEAN && t.count == SITES &&
           t.exact.calls == BLOCKS && t.exact.bytes == r.asked &&
           t.exact.live_bytes == r.kept && all.samples == t.sited &&
           all.live <= all.calls && all.ended == all.calls - all.live;
    note(off(all.bytes, &r.bytes));
    note(off(all.calls, &r.calls));
    note(off(all.live_bytes, &r.live));
    note(off(all.live, &r.live_calls));
    report_tally_fini(&t);
    close(r.fd);
    return good;
}

/* A site with a single sample of SIZE bytes. */
static uint64_t calls_of_one(uint64_t size) {
    static struct run r;
    char name[64];
    struct mtf_proc_object block;
    memset(&r, 0, sizeof(r));
    r.fd = memfd_create("trace", MFD_CLOEXEC);
    begin(&r);
    mtf_proc_put_site(&r.w, 1);
    mtf_proc_put_alloc(&r.w, MTF_CALL_MALLOC, size, &block);
    mtf_proc_writer_end(&r.w, NULL, 0);
    free(r.w.stack);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", r.fd);
    struct report_tallies t = {.options = {.by = REPORT_TALLY_BY_SITE}};
    uint64_t calls =
        report_tally_read(&t, name) && t.count == 1 ? t.tally[0].calls : 0;
    report_tally_fini(&t);
    close(r.fd);
    return calls;
}

int main(void) {
    struct prng p;
    bool good = true;
    /* They stand for 3.68 and for 3.26 calls. */
    tap_ok(calls_of_one(1300) == 4 && calls_of_one(1500) == 3,
           "a single sample's calls are rounded, not cut");
    prng_seed(&p, 7);
    for (int i = 0; i < RUNS; i++)
        good &= one_run(&p);
    tap_ok(good, "exact sums beside the estimates");
    tap_diag("%u of %u sums are more than 3 standard errors off, the farthest "
             "%.2f; on average %+.3f",
             seen.far, seen.count, seen.most, seen.sum / seen.count);
    tap_ok(seen.far <= 4 && seen.most < 4, "three standard errors");
    tap_ok(fabs(seen.sum / seen.count) < 3 / sqrt(RUNS), "on neither side");
    return tap_done();
}
