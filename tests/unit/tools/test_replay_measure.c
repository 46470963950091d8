/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resident memory over time, and where most bytes are live.
 */
#include "cmd/replay/watch/measure.h"

#include "base/clock.h"
#include "cmd/replay/feed/ring.h"
#include "tap.h"

#include <string.h>
#include <sys/mman.h>

#define BLOCK ((size_t)64 << 20)
#define MS    ((uint64_t)1000000)

static char *block_new(void) {
    char *p = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        tap_bail("no memory");
    memset(p, 1, BLOCK);
    return p;
}

/* Passes the time of about NS; how long it was. */
static uint64_t pass(struct replay_rss *m, uint64_t ns) {
    uint64_t start = tcm_clock_ns();
    replay_sleep_until(start + ns, m);
    return tcm_clock_ns() - start;
}

/* Tells whether A and B differ by less than 4 MiB. */
static bool is_about(uint64_t a, uint64_t b) {
    tap_diag("%llu, %llu", (unsigned long long)a, (unsigned long long)b);
    return a + (4 << 20) > b && b + (4 << 20) > a;
}

/* Passes time without and with BLOCK more memory. Returns the average that is
   expected; 0: this thread had no processor for so long that the times are not
   known well. */
static uint64_t pass_with_block(struct replay_rss *m) {
    memset(m, 0, sizeof(*m));
    replay_rss_start(m, 0);
    replay_rss_from(m);
    uint64_t few = pass(m, 60 * MS);
    char *p = block_new();
    replay_rss_from(m); /* making it does not count */
    uint64_t many = pass(m, 20 * MS);
    munmap(p, BLOCK);
    replay_rss_from(m);
    few += pass(m, 60 * MS);
    if (few > 130 * MS || many > 25 * MS)
        return 0;
    return m->start_bytes +
           (uint64_t)((double)BLOCK * (double)many / (double)(few + many));
}

static void test_average(void) {
    struct replay_rss m = {0};
    uint64_t want = 0;
    replay_rss_start(&m, 0);
    uint64_t bare = m.start_bytes;
    tap_is_u64(replay_rss_average(&m), 0, "no time, no average");
    replay_rss_from(&m);
    pass(&m, 60 * MS);
    tap_ok(is_about(replay_rss_average(&m), bare), "nothing but the start");
#if defined(__SANITIZE_THREAD__)
    (void)want, (void)pass_with_block;
    tap_skip("the sanitizer's own memory for a block stays resident");
#else
    for (int i = 0; i < 50 && want == 0; i++)
        want = pass_with_block(&m);
    tap_ok(is_about(replay_rss_average(&m), want), "weighted by time");
#endif
    replay_rss_end(&m);
    tap_ok(is_about(m.end_bytes, bare), "it is gone at the end");
}

static void test_own(void) {
    struct replay_rss m = {0};
    char *p = block_new();
    replay_rss_start(&m, BLOCK);
    uint64_t bare = m.start_bytes;
    replay_rss_from(&m);
    pass(&m, 5 * MS);
    tap_ok(is_about(replay_rss_average(&m), bare), "without the replayer's");
    replay_rss_live(&m, 1 << 20);
    tap_ok(is_about(m.at_live_bytes, bare), "here, too");
    replay_rss_end(&m);
    munmap(p, BLOCK);
}

static void test_live(void) {
    struct replay_rss m = {0};
    replay_rss_start(&m, 0);
    tap_ok(!replay_rss_wants(&m, 65536), "few bytes are not looked at");
    uint64_t live = 0, looks = 0;
    for (uint64_t n = 1; n <= 1000; n++) {
        live = n * 1000000;
        if (!replay_rss_wants(&m, live))
            continue;
        replay_rss_live(&m, live);
        looks++;
    }
    tap_ok(looks > 50 && looks < 150, "%llu looks in the growth to a GB",
           (unsigned long long)looks);
    tap_ok(m.live_bytes > live - live / 16, "the last one near the peak");
    tap_ok(!replay_rss_wants(&m, live / 2), "none where fewer are live");
    tap_is_u64(replay_live_mark(UINT64_MAX - 1), UINT64_MAX,
               "a sum that wraps around is never reached");
    replay_rss_end(&m);
}

int main(void) {
    test_average();
    test_own();
    test_live();
    return tap_done();
}
