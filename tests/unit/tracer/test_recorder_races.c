/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Interleavings forced at the recorder's test points: a program thread stands
 * still after a side effect while the saver makes whole rounds, and the saver
 * stands still while threads go on.
 */
#include "unit/tracer/recorder_test.h"

#include "base/clock.h"
#include "base/check.h"
#include "tracer/recorder.h"
#include "tracer/session.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static const char *point;      /* test point to stop at */
static uint32_t passes;        /* times it was reached */
static uint32_t over;          /* nothing is held any more */
static TCM_TLS bool is_writer; /* a thread of the test */

/* A thread of the program waits here for two rounds of the saver, now and
   then. */
static void hold_writer(const char *label) {
    if (!is_writer || tcm_load_relaxed(&over) || strcmp(label, point) != 0)
        return;
    if (tcm_add_relaxed(&passes, 1u) % 5 == 0) {
        mtr_saver_round(mtr_recorder);
        mtr_saver_round(mtr_recorder);
    }
}

/* The saver waits here until the writers have gone on a good way. */
static void hold_saver(const char *label) {
    if (is_writer || tcm_load_relaxed(&over) || strcmp(label, point) != 0)
        return;
    tcm_add_relaxed(&passes, 1u);
    uint32_t before = tcm_load_relaxed(&shared->thread[0].count);
    for (int i = 0; i < 40; i++) {
        if (tcm_load_relaxed(&shared->thread[0].count) - before > 3000)
            break;
        usleep(100);
    }
}

static void *write_all(void *arg) {
    struct writer w;
    is_writer = true;
    writer_init(&w, (unsigned)(uintptr_t)arg);
    for (int i = 0; i < 30000; i++) {
        writer_call(&w);
        /* Long enough for a round that finds nothing. */
        if (i % 10000 == 9999)
            usleep(30000);
    }
    writer_end(&w);
    return NULL;
}

static void record(void) {
    pthread_t id[3];
    mtr_init(&test_host, false);
    for (uintptr_t i = 0; i < 3; i++)
        pthread_create(&id[i], NULL, write_all, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_join(id[i], NULL);
    shared->step = tcm_load_relaxed(&passes);
    tcm_store_relaxed(&over, 1u);
    mtr_exit();
}

static void record_held_writers(void) {
    tcm_testpoint_hook = hold_writer;
    record();
}

static void record_held_saver(void) {
    tcm_testpoint_hook = hold_saver;
    record();
}

static void race(const char *label, void (*child)(void)) {
    struct found f;
    point = label;
    test_begin();
    int status = test_run(test_path("t"), child);
    test_read("t", 0, true, &f);
    tap_ok(status == 0 && f.problem == NULL && f.complete && f.clean_end,
           "held at %s: every call, in its place", label);
    tap_ok(shared->step != 0, "held at %s: %u times", label, shared->step);
    tap_is_u64(f.footer_events, f.events, "held at %s: counted", label);
    test_end();
}

/* The promise of a barrier: events that were published before its time stand
   before it in the file. A thread writes its own clock as sizes; no event
   behind a barrier may be older than the barrier's time. */
static void *write_clock(void *arg) {
    struct mtr_thread *slot = &mtr_no_thread;
    (void)arg;
    for (int i = 0; i < 100000; i++) {
        struct mtr_thread *t = mtr_enter(&slot);
        mtr_put_failed(t, MTF_CALL_MALLOC, 0, 0, 0);
        tcm_fence_seq_cst();
        mtr_put_time(t, tcm_clock_ns());
        if (i % 2000 == 0)
            usleep(1000);
    }
    mtr_thread_end(&slot);
    return NULL;
}

static void record_clock(void) {
    pthread_t id[4];
    mtr_init(&test_host, false);
    for (int i = 0; i < 4; i++)
        pthread_create(&id[i], NULL, write_clock, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(id[i], NULL);
    mtr_exit();
}

static void barriers(void) {
    struct event_walk w;
    struct mtf_event e;
    uint64_t early = 0, events = 0;
    bool pending = false;
    test_begin();
    test_run(test_path("t"), record_clock);
    test_walk_begin(&w, "t", false);
    while (test_walk_next(&w, &e)) {
        pending &= !w.first;
        if (e.kind == MTF_EVENT_FAILED) {
            pending = true;
            events++;
        } else if (e.kind == MTF_EVENT_TIME) {
            /* An event that ended before a barrier in front of it. */
            early += pending && e.time_ns <= w.barrier_ns;
            pending = false;
        }
    }
    (void)test_walk_end(&w);
    tap_is_u64(events, 400000, "barriers: all events");
    tap_ok(w.barriers > 3, "barriers: %llu", (unsigned long long)w.barriers);
    tap_is_u64(early, 0, "barriers: none stands behind one it precedes");
    test_end();
}

int main(void) {
    static const char *const writer_points[] = {
        "pool_exchanged", "buffer_has_head", "thread_registered",
        "pool_handed_over"};
    static const char *const saver_points[] = {
        "round_began", "round_ended", "limits_are_null", "pool_head_gone"};
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(writer_points); i++)
        race(writer_points[i], record_held_writers);
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(saver_points); i++)
        race(saver_points[i], record_held_saver);
    barriers();
    return tap_done();
}
