/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorded clock with many threads: each wait ends at its deadline, as
 * often as recorded time says, and no thread sees the clock go back. Builds
 * with the thread sanitizer run it, too.
 */
#include "cmd/replay/run/recorded_clock.h"

#include "base/atomic.h"
#include "tap.h"

#include <pthread.h>
#include <string.h>

#define MS       1000000u
#define SLEEPERS 6
#define READERS  2
#define LONG_MS  5000u
/* Time that threads lead. */
#define LED_NS (100 * MS)

/* Periods in ms, some with common deadlines. */
static const unsigned period_ms[SLEEPERS] = {10, 20, 25, 70, 500, 1300};

static uint32_t stop, go;
static struct sleeper {
    pthread_t thread;
    uint64_t period_ns, first_ns;
    uint64_t wakes, late;
    bool by_cond;
} sleeper[SLEEPERS];

static void wake_cond(void *cond) {
    pthread_cond_broadcast(cond);
}

/* Waits for DEADLINE_NS as a condition variable does. */
static void wait_cond(uint64_t deadline_ns) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    struct replay_wait w;
    uint64_t slice = REPLAY_SLICE_NS;
    replay_wait_begin(&w, deadline_ns, wake_cond, &cond);
    pthread_mutex_lock(&mutex);
    while (!replay_wait_is_over(&w)) {
        struct timespec at =
            replay_timespec_of(replay_clock_real_ns(CLOCK_REALTIME) +
                               replay_wait_slice_ns(&w, &slice));
        pthread_cond_timedwait(&cond, &mutex, &at);
    }
    pthread_mutex_unlock(&mutex);
    replay_wait_end(&w);
}

static void *sleeper_main(void *arg) {
    struct sleeper *s = arg;
    s->first_ns = replay_clock_now();
    for (uint64_t at = s->first_ns + s->period_ns;; at += s->period_ns) {
        if (s->by_cond)
            wait_cond(at);
        else
            replay_clock_sleep_until(at);
        if (tcm_load_acquire(&stop))
            return NULL;
        s->wakes++;
        s->late += replay_clock_now() != at;
    }
}

static struct reader {
    pthread_t thread;
    uint64_t reads, back;
    bool leads; /* it has a time of its own */
} reader[READERS * 2];

static void *reader_main(void *arg) {
    struct reader *r = arg;
    uint64_t before = 0;
    while (!tcm_load_acquire(&go))
        ;
    /* A thread that gets a processor late reads the clock once at least. */
    for (uint64_t at = 0;
         at == 0 || (r->leads ? at <= LED_NS : !tcm_load_acquire(&stop));
         at += 1000) {
        if (r->leads)
            replay_clock_advance_thread(at);
        uint64_t now = replay_clock_now();
        r->back += now < before;
        r->reads++;
        before = now;
    }
    return NULL;
}

/* Makes a thread as one of the allocator. */
static void make(pthread_t *thread, void *(*run)(void *), void *arg) {
    struct replay_clock_thread *t = replay_clock_thread_new(run, arg);
    if (t == NULL ||
        pthread_create(thread, NULL, replay_clock_thread_main, t) != 0)
        tap_bail("no thread");
}

static void stop_all(pthread_t *thread, size_t stride, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        pthread_join(*(pthread_t *)((char *)thread + i * stride), NULL);
}

/* Recorded time passes in uneven steps. */
static void test_sleepers(void) {
    struct replay_clock_account account;
    uint64_t at = 0, wakes = 0, late = 0, expected = 0;
    replay_clock_lead();
    for (unsigned i = 0; i < SLEEPERS; i++) {
        sleeper[i].period_ns = (uint64_t)period_ms[i] * MS;
        sleeper[i].by_cond = i % 2 != 0;
        make(&sleeper[i].thread, sleeper_main, &sleeper[i]);
    }
    replay_clock_settle();
    for (uint64_t step = 1; at < (uint64_t)LONG_MS * MS; step = step * 3 % 97) {
        at = tcm_min_u64(at + step * MS, (uint64_t)LONG_MS * MS);
        replay_clock_settle();
        replay_clock_advance(at);
    }
    replay_clock_tell(&account);
    tcm_store_release(&stop, 1u);
    for (unsigned i = 0; i < SLEEPERS; i++)
        expected += LONG_MS / period_ms[i];
    replay_clock_advance(at + 2000 * MS);
    stop_all(&sleeper[0].thread, sizeof(sleeper[0]), SLEEPERS);
    for (unsigned i = 0; i < SLEEPERS; i++) {
        wakes += sleeper[i].wakes;
        late += sleeper[i].late;
    }
    tap_is_u64(wakes, expected, "each wait ends once in its period");
    tap_is_u64(late, 0, "the clock stands at its deadline meanwhile");
    tap_is_u64(account.served, expected, "they are counted");
    tap_is_u64(account.stragglers, 0, "nobody was given up");
    tcm_store_release(&stop, 0u);
    uint64_t before = replay_clock_now();
    replay_clock_release();
    tap_ok(replay_clock_now() >= before, "released, it goes on from there");
}

/* Threads with a time of their own raise the clock of all others. */
static void test_readers(void) {
    uint64_t reads = 0, back = 0;
    replay_clock_lead();
    for (unsigned i = 0; i < READERS * 2; i++) {
        reader[i].leads = i < READERS;
        if (pthread_create(&reader[i].thread, NULL, reader_main, &reader[i]))
            tap_bail("no thread");
    }
    tcm_store_release(&go, 1u);
    stop_all(&reader[0].thread, sizeof(reader[0]), READERS);
    for (uint64_t at = LED_NS; at < 3 * LED_NS; at += 1000)
        replay_clock_advance(at);
    tcm_store_release(&stop, 1u);
    stop_all(&reader[READERS].thread, sizeof(reader[0]), READERS);
    for (unsigned i = 0; i < READERS * 2; i++) {
        reads += reader[i].reads != 0;
        back += reader[i].back;
    }
    tap_is_u64(reads, READERS * 2, "each thread has read the clock");
    tap_is_u64(back, 0, "it never went back for any");
    replay_clock_release();
}

static void *at_once(void *unused) {
    return unused;
}

/* Records that are given back hold nothing up. */
static void test_records(void) {
    struct replay_clock_account account;
    pthread_t thread;
    replay_clock_lead();
    for (unsigned i = 0; i < 1000; i++) {
        struct replay_clock_thread *t = replay_clock_thread_new(at_once, NULL);
        if (t == NULL)
            tap_bail("no record");
        replay_clock_thread_drop(t);
    }
    for (unsigned i = 0; i < 300; i++) {
        make(&thread, at_once, NULL);
        pthread_join(thread, NULL);
        replay_clock_settle();
    }
    replay_clock_advance(MS);
    replay_clock_tell(&account);
    tap_is_u64(account.stragglers, 0,
               "threads that ended or could not be made are not waited for");
    replay_clock_release();
}

int main(void) {
    test_sleepers();
    test_readers();
    test_records();
    return tap_done();
}
