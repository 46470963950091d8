/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread of one recording while the next one is being set up: it stands still
 * inside the recorder until the start by call has reached a given place, and
 * goes on while that start stands there. Neither may get anything of the other
 * before the recording is on.
 */
#include "unit/tracer/recorder_test.h"

#include "base/check.h"
#include "tracer/recorder.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long the start waits for the thread, which may itself have to wait for
   the start. */
#define PASS_MS 300

static const struct meeting {
    const char *output;
    const char *thread; /* stands still here */
    const char *start;  /* goes on when the start is here */
    /* If the thread reaches this (NULL: never), it waits for the end of the
       start. */
    const char *again;
} meetings[] = {
    /* The pool is low, and there is no saver. */
    {"t.%p", "buffers_are_low", "session_begun", NULL},
    /* The thread has no record yet. */
    {"t", "recording_is_on", "session_counted", "thread_registered"},
    {"t", "recording_is_on", "session_begun", NULL},
    {"t", "recording_is_on", "start_is_ready", NULL},
};

static const struct meeting *meeting;
static TCM_TLS bool is_writer;
static uint32_t held, released, passed, started, wrote_early, saver_is_there;

static void wait_for(uint32_t *word) {
    while (tcm_load_acquire(word) == 0)
        usleep(100);
}

static void meet(const char *label) {
    uint32_t no = 0;
    if (is_writer) {
        if (strcmp(label, meeting->thread) == 0 &&
            tcm_cas_acq_rel(&held, &no, 1u))
            wait_for(&released);
        else if (meeting->again != NULL && tcm_load_acquire(&released) != 0 &&
                 strcmp(label, meeting->again) == 0)
            wait_for(&started);
    } else if (tcm_load_acquire(&held) != 0 &&
               tcm_load_acquire(&released) == 0 &&
               strcmp(label, meeting->start) == 0) {
        tcm_store_release(&released, 1u);
        for (int ms = 0; ms < PASS_MS && tcm_load_acquire(&passed) == 0; ms++)
            usleep(1000);
        tcm_store_release(&saver_is_there,
                          tcm_load_acquire(&mtr_recorder->link.save_owner));
    }
}

/* Calls until it was held; the held call is in neither recording, unless the
   next one was on when it was made. */
static void *write_two(void *arg) {
    struct writer w;
    (void)arg;
    is_writer = true;
    writer_init(&w, 0);
    bool ok = true;
    while (tcm_load_acquire(&held) == 0) {
        w.log->count = 0;
        ok = writer_call(&w);
    }
    tcm_store_release(&wrote_early, ok && !mtr_is_on());
    tcm_store_release(&passed, 1u);
    wait_for(&started);
    if (!ok)
        w.log->count = 0;
    for (int i = 0; i < 1000; i++)
        writer_call(&w);
    shared->mark = w.slot->first_token != mtr_recorder->first_token;
    writer_end(&w);
    return NULL;
}

/* Makes the next recording's first token differ. */
static void take_tokens(void) {
    struct writer w;
    writer_init(&w, 1);
    writer_alloc(&w, MTF_CALL_MALLOC, 1);
    writer_end(&w);
    w.log->count = 0;
}

static void restart(void) {
    pthread_t id;
    tcm_testpoint_hook = meet;
    mtr_init(&test_host, false);
    take_tokens();
    pthread_create(&id, NULL, write_two, NULL);
    wait_for(&held);
    if (!mtr_stop() || !mtr_start(test_path("next"), NULL))
        abort();
    tcm_store_release(&started, 1u);
    pthread_join(id, NULL);
    if (!mtr_stop())
        abort();
    mtr_exit();
    shared->step = tcm_load_acquire(&released) |
                   tcm_load_acquire(&wrote_early) << 1 |
                   tcm_load_acquire(&saver_is_there) << 2;
}

static void check(const struct meeting *m) {
    struct found f;
    bool is_set_up = strcmp(m->start, "start_is_ready") == 0;
    meeting = m;
    test_begin();
    int status = test_run(test_path(m->output), restart);
    if (status != 0)
        tap_diag("%s", test_stderr());
    tap_is_u64((uint64_t)status, 0, "%s, %s: runs", m->thread, m->start);
    tap_is_u64(shared->step & 1, 1, "%s, %s: met", m->thread, m->start);
    tap_is_u64(shared->step >> 1 & 1, 0, "%s, %s: nothing before the flag",
               m->thread, m->start);
    tap_is_u64(shared->step >> 2, is_set_up ? 2 : 0,
               "%s, %s: the start makes the saver", m->thread, m->start);
    tap_is_u64(shared->mark, 0, "%s, %s: the first token is the recording's",
               m->thread, m->start);
    test_read("next", 0, true, &f);
    tap_ok(f.problem == NULL && f.complete && f.clean_end &&
               f.events == shared->thread[0].count,
           "%s, %s: the next one is whole", m->thread, m->start);
    tap_is_u64(test_hidden(), 0, "%s, %s: nothing else is left", m->thread,
               m->start);
    test_end();
}

int main(void) {
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(meetings); i++)
        check(&meetings[i]);
    return tap_done();
}
