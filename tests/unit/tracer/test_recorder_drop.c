/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCMALLOC_TRACE_OVERFLOW=drop: the saver stands still while threads fill all
 * buffers that may wait, and go on. Every dropped call is in a gap; everything
 * recorded before, between and after gaps is whole. Where threads block
 * instead, a kill while all of them wait for such a saver loses nothing.
 *
 * Recorded, dropped and untraced calls together are the calls of the threads,
 * to the last one: with marks in gaps, which are no calls; where gaps are open
 * at the end, or in a kill; and for a thread that was born in a gap.
 */
#include "unit/tracer/recorder_test.h"

#include "base/check.h"
#include "tracer/recorder.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WRITERS    3
#define GAPS       4u
#define GAP_DROPS  5000u
#define CALLS_LEFT 1000
#define BORN       4

static uint32_t held; /* 1: the saver stands in a round, 2: it may go on */
static uint32_t gaps; /* times that it was released */

/* The saver, in every round. */
static void hold_saver(const char *label) {
    if (strcmp(label, "round_began") != 0 || tcm_load_relaxed(&gaps) == GAPS)
        return;
    tcm_store_release(&held, 1u);
    while (tcm_load_acquire(&held) == 1)
        usleep(100);
}

static uint32_t dropped(void) {
    uint32_t sum = 0;
    for (unsigned i = 0; i < LOG_THREADS; i++)
        sum += tcm_load_relaxed(&shared->thread[i].dropped);
    return sum;
}

static uint32_t untraced(void) {
    uint32_t sum = 0;
    for (unsigned i = 0; i < LOG_THREADS; i++)
        sum += tcm_load_relaxed(&shared->thread[i].untraced);
    return sum;
}

static void put_mark(struct writer *w) {
    struct mtr_thread *t = mtr_enter(&w->slot);
    if (t != NULL) {
        mtr_put_mark(t, "mark", 4);
        mtr_put_extension(t, MTF_EXTENSION_TRIM, 0);
        mtr_leave();
    }
}

/* At a pace that leaves room in the log. */
static void write_some(struct writer *w, int n) {
    for (int i = 0; i < n && w->log->count < LOG_CALLS - 1; i++)
        writer_call(w);
    put_mark(w);
    usleep(50);
}

/* Threads end in any state: in a gap or not. */
static void *write_all(void *arg) {
    struct writer w;
    writer_init(&w, (unsigned)(uintptr_t)arg);
    while (tcm_load_relaxed(&gaps) != GAPS)
        write_some(&w, 100);
    write_some(&w, CALLS_LEFT);
    writer_end(&w);
    return NULL;
}

/* Lets the saver go on each time GAP_DROPS more calls were dropped. */
static void watch(void) {
    for (uint32_t seen = 0; tcm_load_relaxed(&gaps) != GAPS;) {
        usleep(200);
        if (tcm_load_acquire(&held) != 1 || dropped() - seen < GAP_DROPS)
            continue;
        seen = dropped();
        tcm_store_relaxed(&gaps, tcm_load_relaxed(&gaps) + 1);
        tcm_store_release(&held, 2u);
    }
}

static uint32_t parked;

static void park(void) {
    tcm_add_acq_rel(&parked, 1u);
    for (;;)
        pause();
}

/* In a gap at the end. */
static void *write_and_park(void *arg) {
    struct writer w;
    writer_init(&w, (unsigned)(uintptr_t)arg);
    do {
        write_some(&w, 100);
    } while (tcm_load_relaxed(&w.log->dropped) < GAP_DROPS / WRITERS);
    park();
    return NULL;
}

/* Born in a gap; every second one ends in it. */
static void *write_few(void *arg) {
    struct writer w;
    unsigned index = (unsigned)(uintptr_t)arg;
    writer_init(&w, index);
    write_some(&w, 1000);
    if (index % 2 == 0)
        writer_end(&w);
    park();
    return NULL;
}

static void begin(pthread_t *id, void *(*write)(void *), const char *overflow) {
    setenv("TCMALLOC_TRACE_OVERFLOW", overflow, 1);
    setenv("TCMALLOC_TRACE_BUFFER_MB", "1", 1);
    tcm_testpoint_hook = hold_saver;
    mtr_init(&test_host, false);
    /* Few enough calls for the log. */
    tcm_lock(&mtr_recorder->pool.lock);
    mtr_recorder->pool.bound = 2 * MTR_LARGE_BYTES;
    tcm_unlock(&mtr_recorder->pool.lock);
    for (uintptr_t i = 0; i < WRITERS; i++)
        pthread_create(&id[i], NULL, write, (void *)i);
}

static void record(void) {
    pthread_t id[WRITERS];
    begin(id, write_all, "drop");
    watch();
    for (int i = 0; i < WRITERS; i++)
        pthread_join(id[i], NULL);
    mtr_exit();
}

static void record_parked(void) {
    pthread_t id[WRITERS];
    begin(id, write_and_park, "drop");
    while (tcm_load_acquire(&parked) != WRITERS)
        usleep(200);
    tcm_lock(&mtr_recorder->pool.lock);
    mtr_recorder->pool.bound = 0;
    tcm_unlock(&mtr_recorder->pool.lock);
    for (uintptr_t i = WRITERS; i < WRITERS + BORN; i++)
        pthread_create(&id[0], NULL, write_few, (void *)i);
    while (tcm_load_acquire(&parked) != WRITERS + BORN)
        usleep(200);
}

static void record_killed(void) {
    record_parked();
    kill(getpid(), SIGKILL);
}

static void record_open(void) {
    record_parked();
    tcm_store_relaxed(&gaps, GAPS);
    tcm_store_release(&held, 2u);
    mtr_exit();
}

static void record_starved(void) {
    pthread_t id[WRITERS];
    begin(id, write_all, "block");
    while (tcm_load_acquire(&mtr_recorder->pool.waiters) < WRITERS)
        usleep(200);
    kill(getpid(), SIGKILL);
}

static uint32_t logged(void) {
    uint32_t sum = 0;
    for (unsigned i = 0; i < LOG_THREADS; i++)
        sum += shared->thread[i].count;
    return sum;
}

static void counted(void) {
    struct found f;
    test_begin();
    int status = test_run(test_path("t"), record);
    test_read("t", 0, true, &f);
    tap_ok(status == 0 && f.problem == NULL && f.clean_end,
           "every call that was not dropped is there, in its place");
    tap_is_u64(f.events, logged(), "and no other");
    tap_ok(dropped() >= GAPS * GAP_DROPS, "calls were dropped: %u", dropped());
    tap_is_u64(f.dropped, dropped(), "all of them stand in gaps");
    tap_is_u64(f.footer_dropped, dropped(), "and in the footer");
    tap_is_u64(f.untraced_events, untraced(), "untraced frees, also in gaps");
    tap_ok(f.untraced == untraced() && f.footer_untraced == untraced(),
           "and in the sums");
    tap_ok(f.drop_gaps >= GAPS && f.backward_gaps == 0,
           "%llu gaps, none of which ends before it begins",
           (unsigned long long)f.drop_gaps);
    tap_is_u64(f.thread_ends, WRITERS, "the ends of all threads are there");
    test_end();
}

/* The trace of a kill in the middle of gaps knows that calls are missing. */
static void killed(void) {
    struct found f;
    test_begin();
    int status = test_run(test_path("t"), record_killed);
    test_read("t", 0, true, &f);
    tap_ok(WIFSIGNALED(status) && f.problem == NULL,
           "killed in a gap: every call that was not dropped");
    tap_is_u64(f.events, logged(), "killed in a gap: and no other");
    tap_ok(dropped() > GAP_DROPS && untraced() > 100,
           "killed in a gap: %u dropped, %u untraced", dropped(), untraced());
    tap_ok(f.dropped != 0 && f.dropped < dropped(),
           "killed in a gap: threads born in one have no stream");
    tap_is_u64(f.all_dropped, dropped(), "killed in a gap: all are counted");
    tap_is_u64(f.all_untraced, untraced(),
               "killed in a gap: so are untraced frees");
    tap_is_u64(f.untraced_events, f.untraced,
               "killed in a gap: each has its event");
    test_end();
}

/* The end of the program finds its threads in gaps. */
static void open_end(void) {
    struct found f;
    test_begin();
    int status = test_run(test_path("t"), record_open);
    test_read("t", 0, true, &f);
    tap_ok(status == 0 && f.problem == NULL && f.clean_end,
           "open gaps: every call that was not dropped");
    tap_is_u64(f.events, logged(), "open gaps: and no other");
    tap_is_u64(f.footer_events, logged(), "open gaps: the footer counts them");
    tap_is_u64(f.footer_dropped, dropped(), "open gaps: what was dropped");
    tap_is_u64(f.footer_untraced, untraced(), "open gaps: untraced frees");
    tap_ok(f.dropped <= dropped() && f.untraced <= untraced(),
           "open gaps: no more in the streams");
    test_end();
}

/* Nothing was saved since the saver stands still; the spool has everything. */
static void starved(void) {
    struct found f;
    test_begin();
    int status = test_run(test_path("t"), record_starved);
    test_read("t", 1, true, &f);
    tap_ok(WIFSIGNALED(status) && f.problem == NULL && f.complete,
           "killed while all wait for the saver: every call");
    tap_ok(f.events >= logged() && f.events <= logged() + WRITERS,
           "killed while all wait for the saver: no more than were made");
    tap_is_u64(f.dropped, 0, "killed while all wait for the saver: no gap");
    test_end();
}

int main(void) {
    counted();
    killed();
    open_end();
    starved();
    return tap_done();
}
