/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole recordings by threads that write known events.
 */
#include "unit/tracer/recorder_test.h"

#include "tracer/recorder.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void set_up(void) {
    mtr_init(&test_host, false);
}

static void one_thread(void) {
    struct writer w;
    set_up();
    writer_init(&w, 0);
    for (int i = 0; i < 5000; i++)
        writer_call(&w);
    mtr_exit();
}

static void *thread_main(void *arg) {
    struct writer w;
    writer_init(&w, (unsigned)(uintptr_t)arg);
    for (int i = 0; i < 60000; i++)
        writer_call(&w);
    writer_end(&w);
    return NULL;
}

static void many_threads(void) {
    pthread_t id[6];
    set_up();
    for (uintptr_t i = 0; i < 6; i++)
        pthread_create(&id[i], NULL, thread_main, (void *)i);
    for (int i = 0; i < 6; i++)
        pthread_join(id[i], NULL);
    mtr_exit();
}

static void basic(const char *name, void (*child)(void)) {
    struct found f;
    test_begin();
    tap_is_i64(test_run(test_path("t"), child), 0, "%s: the child ends", name);
    test_read("t", 0, true, &f);
    tap_ok(f.problem == NULL && f.opened, "%s: every call, none else", name);
    tap_ok(f.complete && f.clean_end, "%s: complete, clean end", name);
    tap_is_u64(f.footer_events, f.events, "%s: the footer counts them", name);
    tap_ok(f.barriers != 0 && f.samples != 0, "%s: barriers, samples", name);
    tap_is_u64(f.end_reason, MTF_END_EXIT, "%s: ended by its exit", name);
    uint64_t untraced = 0;
    for (unsigned i = 0; i < LOG_THREADS; i++)
        untraced += shared->thread[i].untraced;
    tap_is_u64(f.untraced, untraced, "%s: untraced frees", name);
    tap_ok(!test_exists("t.spool") && test_hidden() == 0,
           "%s: no spool and no temporary file is left", name);
    tap_is_str(test_stderr(), "", "%s: nothing is said", name);
    test_end();
}

/* --- Before set-up ------------------------------------------------------- */

static struct writer early_writer;

static void before_set_up(void) {
    writer_init(&early_writer, 0);
    for (int i = 0; i < 200; i++)
        writer_call(&early_writer);
    set_up();
    for (int i = 0; i < 300; i++)
        writer_call(&early_writer);
    mtr_exit();
}

static void overfull_before_set_up(void) {
    writer_init(&early_writer, 0);
    int before = 0;
    while (before < 20000 && writer_call(&early_writer))
        before++;
    shared->step = before == 20000;
    set_up();
    for (int i = 0; i < 300; i++)
        writer_call(&early_writer);
    mtr_exit();
}

static void not_recorded(void) {
    writer_init(&early_writer, 0);
    bool early = writer_call(&early_writer);
    set_up();
    shared->step = early && mtr_enter(&early_writer.slot) == NULL &&
                   early_writer.slot == &mtr_no_thread && !mtr_is_recording();
    mtr_exit();
}

static void early_events(void) {
    struct found f;
    test_begin();
    test_run(test_path("t"), before_set_up);
    test_read("t", 0, true, &f);
    tap_ok(f.problem == NULL && f.complete, "early: all are in the trace");
    tap_is_u64(shared->thread[0].id, 1, "early: of the first thread");
    tap_is_u64(f.first_token, 1, "early: with their tokens");
    tap_is_u64(f.thread_starts, 1, "early: one thread started");
    test_end();
    test_begin();
    test_run(test_path("t"), overfull_before_set_up);
    test_read("t", 0, true, &f);
    tap_ok(f.problem == NULL && f.complete && shared->step == 0,
           "early: what does not fit is not recorded, the rest is");
    test_end();
    test_begin();
    test_run(NULL, not_recorded);
    tap_is_u64(shared->step, 1, "early: gone when nothing is recorded");
    test_end();
}

/* --- Threads ------------------------------------------------------------- */

static void *short_thread(void *arg) {
    struct mtr_thread *slot = &mtr_no_thread;
    struct mtr_thread *t = mtr_enter(&slot);
    mtr_put_aligned(t, MTF_CALL_MEMALIGN, 64, 6);
    mtr_thread_end(&slot);
    return arg;
}

static void churn(void) {
    set_up();
    for (int i = 0; i < 3000; i++) {
        pthread_t id[4];
        for (int k = 0; k < 4; k++)
            pthread_create(&id[k], NULL, short_thread, NULL);
        for (int k = 0; k < 4; k++)
            pthread_join(id[k], NULL);
    }
    const struct mtr_recorder *rec = mtr_recorder;
    shared->step = rec->registry.slab_used;
    shared->mark = (uint32_t)(rec->spool.used_bytes >> 10);
    mtr_exit();
}

static void threads_come_and_go(void) {
    struct found f;
    test_begin();
    test_run(test_path("t"), churn);
    test_read("t", 0, true, &f);
    tap_ok(f.problem == NULL && f.complete, "threads: the trace is whole");
    tap_is_u64(f.events, 12000, "threads: an event each");
    tap_is_u64(f.thread_ends, 12000, "threads: an end each");
    tap_is_u64(f.footer_threads, 12000, "threads: the footer counts them");
    tap_ok(shared->step <= 8, "threads: their state is used again");
    /* 12,000 buffers that are used once would be 47 MiB. The number in use at
       once depends on when the saver gets a processor. */
    tap_ok(shared->mark < 16384, "threads: and their buffers (%u KiB)",
           shared->mark);
    test_end();
}

/* --- After a thread's end ------------------------------------------------ */

static void late_events(void) {
    struct writer w;
    set_up();
    writer_init(&w, 0);
    for (int i = 0; i < 100; i++)
        writer_call(&w);
    uint32_t id = mtr_thread_end(&w.slot), other = 0;
    shared->thread[1].id = id;
    for (int i = 0; i < 4000; i++) {
        struct mtr_thread *t = mtr_late_enter(i % 3 == 0 ? &other : &id);
        mtr_put_realloc_new(t, MTF_CALL_REALLOC, (uint64_t)i, false);
        mtr_late_leave();
    }
    shared->step = other;
    mtr_exit();
}

static void late(void) {
    struct event_walk w;
    struct mtf_event e;
    uint64_t of_first = 0, of_second = 0, wrong = 0, sum = 0;
    test_begin();
    test_run(test_path("t"), late_events);
    test_walk_begin(&w, "t", false);
    while (test_walk_next(&w, &e)) {
        if (w.item.thread != MTF_THREAD_LATE || e.kind != MTF_EVENT_REALLOC_NEW)
            continue;
        uint32_t thread = w.stream->state.as_thread;
        sum += e.size;
        of_first += thread == shared->thread[1].id;
        of_second += thread == shared->step;
        wrong += (e.size % 3 == 0) != (thread == shared->step);
    }
    (void)test_walk_end(&w);
    tap_is_u64(of_first, 2666, "late: under the ended thread's id");
    tap_is_u64(of_second, 1334, "late: and that of one that never recorded");
    tap_is_u64(wrong, 0, "late: each under its own");
    tap_is_u64(sum, 4000 * 3999 / 2, "late: with their sizes");
    test_end();
}

/* --- Quiet --------------------------------------------------------------- */

static void quiet_child(void) {
    struct writer w;
    set_up();
    writer_init(&w, 0);
    for (int i = 0; i < 10; i++)
        writer_call(&w);
    usleep(300000);
    /* Its limit was cleared meanwhile. */
    bool called = tcm_load_relaxed(&w.slot->limit) == NULL;
    writer_alloc(&w, MTF_CALL_MALLOC, 77);
    tcm_store_release(&shared->step, called ? 2u : 1u);
    for (;;)
        pause();
}

static void quiet(void) {
    struct found f;
    test_begin();
    pid_t pid = test_spawn(test_path("t"), quiet_child);
    while (tcm_load_acquire(&shared->step) == 0)
        usleep(1000);
    /* The file alone: a copy has no spool. */
    uint64_t events = 0;
    for (int i = 0; i < 2000 && events < shared->thread[0].count; i++) {
        char command[700];
        usleep(5000);
        snprintf(command, sizeof(command), "cp '%s' '%s'", test_path("t"),
                 test_path("copy"));
        if (system(command) != 0)
            break;
        test_read("copy", 0, false, &f);
        events = f.events;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    tap_is_u64(shared->step, 2, "quiet: the next event calls the saver");
    tap_is_u64(events, shared->thread[0].count,
               "quiet: and so reaches the file");
    test_end();
}

int main(void) {
    setenv("TCMALLOC_TRACE_UNCOMPRESSED", "1", 1);
    basic("plain", one_thread);
    unsetenv("TCMALLOC_TRACE_UNCOMPRESSED");
    basic("framed", one_thread);
    basic("threads", many_threads);
    early_events();
    threads_come_and_go();
    late();
    quiet();
    return tap_done();
}
