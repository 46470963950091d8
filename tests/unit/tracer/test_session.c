/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Start and stop by call while threads record: a thread stands still inside the
 * recorder while the recording ends and the next one begins, and then goes on.
 * Every trace must be whole, without a free of a block that it does not have,
 * and no memory of an old recording may stay mapped.
 */
#include "unit/tracer/recorder_test.h"

#include "base/check.h"
#include "tracer/recorder.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SWITCHES 12
#define WRITERS  3

/* --- In the child -------------------------------------------------------- */

static const char *point;
static uint32_t asked, answered, over;
static uint32_t recorded; /* calls, of all recordings */
static TCM_TLS bool is_writer;

static void hold(const char *label) {
    if (!is_writer || tcm_load_relaxed(&over) || strcmp(label, point) != 0)
        return;
    uint32_t expected = tcm_load_relaxed(&answered);
    if (expected >= SWITCHES ||
        !tcm_cas_acq_rel(&asked, &expected, expected + 1))
        return;
    while (tcm_load_acquire(&answered) == expected)
        usleep(50);
}

static void *write_until_over(void *arg) {
    struct writer w;
    unsigned index = (unsigned)(uintptr_t)arg;
    is_writer = true;
    writer_init(&w, index);
    while (!tcm_load_relaxed(&over)) {
        w.log->count = 0;
        if (writer_call(&w))
            (void)tcm_add_relaxed(&recorded, 1u);
        else
            usleep(20);
        /* Threads end in the middle of it, too. */
        if (index == 0 && prng_below(&w.prng, 5000) == 0)
            mtr_thread_end(&w.slot);
    }
    writer_end(&w);
    return NULL;
}

static unsigned spool_mappings(void) {
    char line[512];
    unsigned n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        n += strstr(line, ".spool") != NULL;
    if (f != NULL)
        fclose(f);
    return n;
}

/* Each trace gets some events, however slow the machine is. */
static void await_events(void) {
    uint32_t before = tcm_load_relaxed(&recorded);
    for (int ms = 0; ms < 5000 && tcm_load_relaxed(&recorded) - before < 100;
         ms++)
        usleep(1000);
}

static void switch_all(void) {
    pthread_t id[WRITERS];
    tcm_testpoint_hook = hold;
    mtr_init(&test_host, false);
    for (uintptr_t i = 0; i < WRITERS; i++)
        pthread_create(&id[i], NULL, write_until_over, (void *)i);
    await_events();
    for (uint32_t i = 0; i < SWITCHES; i++) {
        char name[16];
        for (int ms = 0; ms < 2000 && tcm_load_acquire(&asked) == i; ms++)
            usleep(1000);
        shared->step += tcm_load_acquire(&asked) == i + 1;
        snprintf(name, sizeof(name), "s%u", i);
        if (!mtr_stop() || mtr_is_on() || mtr_stop() ||
            !mtr_start(test_path(name), NULL) || !mtr_is_on() ||
            mtr_start(NULL, NULL))
            abort();
        tcm_store_relaxed(&asked, i + 1);
        tcm_store_release(&answered, i + 1);
        await_events();
        if (!mtr_flush())
            abort();
    }
    tcm_store_relaxed(&over, 1u);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(id[i], NULL);
    if (!mtr_stop() || mtr_flush())
        abort();
    shared->mark = spool_mappings();
    mtr_exit();
    if (mtr_start(test_path("after"), NULL))
        abort();
}

/* --- In the parent ------------------------------------------------------- */

static int by_token(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

struct tokens {
    uint64_t *token;
    size_t count;
};

static void put(struct tokens *t, uint64_t token) {
    if ((t->count & (t->count - 1)) == 0)
        t->token = realloc(t->token, (2 * t->count + 1) * sizeof(uint64_t));
    t->token[t->count++] = token;
}

/* Reads all events; returns frees without an allocation in the same trace.
   Frees of tokens of older recordings are not counted: the host would not have
   recorded them. */
static size_t unmatched(const char *name, size_t *events) {
    struct tokens birth = {NULL, 0}, death = {NULL, 0};
    struct event_walk w;
    struct mtf_event e;
    test_walk_begin(&w, name, false);
    while (test_walk_next(&w, &e)) {
        if (e.kind > MTF_EVENT_FAILED)
            continue;
        (*events)++;
        if (e.token != 0)
            put(&birth, e.token);
        if (e.old_token >= w.first_token && e.old_token != 0)
            put(&death, e.old_token);
    }
    size_t bad = w.bad + !test_walk_end(&w);
    if (birth.count != 0)
        qsort(birth.token, birth.count, sizeof(uint64_t), by_token);
    for (size_t i = 0; i < death.count; i++)
        bad += birth.count == 0 ||
               bsearch(&death.token[i], birth.token, birth.count,
                       sizeof(uint64_t), by_token) == NULL;
    free(birth.token);
    free(death.token);
    return bad;
}

static void race(const char *label) {
    size_t events = 0, bad = 0, small = 0;
    point = label;
    test_begin();
    int status = test_run(test_path("t"), switch_all);
    if (status != 0)
        tap_diag("%s", test_stderr());
    tap_is_u64((uint64_t)status, 0, "held at %s: runs", label);
    tap_ok(shared->step >= SWITCHES / 2, "held at %s: %u times", label,
           shared->step);
    for (int i = -1; i < SWITCHES; i++) {
        char name[16] = "t";
        size_t here = 0;
        if (i >= 0)
            snprintf(name, sizeof(name), "s%d", i);
        size_t faults = unmatched(name, &here);
        if (faults != 0)
            tap_diag("%s: %zu faults in %zu events", name, faults, here);
        bad += faults;
        events += here;
        small += here < 10;
    }
    tap_is_u64(bad, 0, "held at %s: %zu events, each where it belongs", label,
               events);
    tap_is_u64(small, 0, "held at %s: in every trace", label);
    tap_is_u64(shared->mark, 0, "held at %s: nothing stays mapped", label);
    tap_ok(!test_exists("after") && test_hidden() == 0,
           "held at %s: nothing else is left", label);
    test_end();
}

/* --- Flight recording ---------------------------------------------------- */

static uint32_t parts;

/* A thread that has checked whether it should take a new buffer stands still
   while parts begin, and then writes to its old one. */
static void hold_over_parts(const char *label) {
    if (strcmp(label, "part_begun") == 0)
        tcm_add_relaxed(&parts, 1u);
    if (!is_writer || strcmp(label, "limit_set") != 0 ||
        tcm_add_relaxed(&asked, 1u) % 40 != 7)
        return;
    uint32_t before = tcm_load_relaxed(&parts);
    for (int i = 0; i < 100 && tcm_load_relaxed(&parts) - before < 10; i++)
        usleep(200);
}

/* A thread that is early waits before its last calls, so that these are in the
   last parts. */
static pthread_barrier_t nearly_done;
#define LAST_CALLS 2000u

static void *write_many(void *arg) {
    struct writer w;
    is_writer = true;
    writer_init(&w, (unsigned)(uintptr_t)arg);
    for (unsigned i = 0; i < LOG_CALLS; i++) {
        if (i == LOG_CALLS - LAST_CALLS)
            pthread_barrier_wait(&nearly_done);
        writer_call(&w);
    }
    writer_end(&w);
    return NULL;
}

static void record_flight(void) {
    pthread_t id[WRITERS];
    setenv("TCMALLOC_TRACE_KEEP_MB", "1", 1);
    tcm_testpoint_hook = hold_over_parts;
    pthread_barrier_init(&nearly_done, NULL, WRITERS);
    mtr_init(&test_host, false);
    for (uintptr_t i = 0; i < WRITERS; i++)
        pthread_create(&id[i], NULL, write_many, (void *)i);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(id[i], NULL);
    shared->step = tcm_load_relaxed(&parts);
    mtr_exit();
}

/* The kept rest of each stream can be decoded from its first byte to its last,
   and ends where the thread did. */
static void flight(void) {
    struct event_walk w;
    struct mtf_event e;
    uint64_t last[WRITERS + 1] = {0}, events = 0;
    test_begin();
    int status = test_run(test_path("t"), record_flight);
    test_walk_begin(&w, "t", true);
    while (test_walk_next(&w, &e)) {
        events++;
        if (w.item.thread <= WRITERS && e.kind <= MTF_EVENT_FAILED &&
            e.token != 0)
            last[w.item.thread] = e.token;
    }
    bool begins_late = tool_raw_begins_late(w.trace);
    tap_ok(test_walk_end(&w) && status == 0, "flight: whole");
    tap_ok(begins_late && shared->step > 3, "flight: %u parts", shared->step);
    tap_is_u64(w.bad, 0, "flight: %llu events", (unsigned long long)events);
    tap_ok(w.doubled != 0, "flight: %llu bytes of buffers over two parts",
           (unsigned long long)w.doubled);
    for (unsigned i = 0; i < WRITERS; i++) {
        const struct log_thread *log = &shared->thread[i];
        uint32_t k = log->count;
        while (k > 0 && log->calls[k - 1].token == 0)
            k--;
        tap_is_u64(last[log->id], k == 0 ? 0 : log->calls[k - 1].token,
                   "flight: thread %u to its end", i);
    }
    test_end();
}

/* --- Marks --------------------------------------------------------------- */

static void mark_much(void) {
    struct mtr_thread *slot = &mtr_no_thread;
    char text[301];
    mtr_init(&test_host, false);
    for (int i = 0; i < 300; i++) {
        memset(text, 'a' + i % 26, sizeof(text));
        /* Two-byte characters from an odd place on: 127 falls between. */
        if (i % 3 == 0)
            for (int k = 10; k < 300; k += 2)
                memcpy(text + k, "\xC3\xA9", 2);
        struct mtr_thread *t = mtr_enter(&slot);
        mtr_put_mark(t, text, (size_t)(i % 301));
        mtr_leave();
    }
    mtr_thread_end(&slot);
    mtr_exit();
}

static void marks(void) {
    struct event_walk w;
    struct mtf_event e;
    size_t count = 0, wrong = 0, untimed = 0;
    bool timed = false;
    test_begin();
    test_run(test_path("t"), mark_much);
    test_walk_begin(&w, "t", false);
    while (test_walk_next(&w, &e)) {
        if (e.kind == MTF_EVENT_MARK) {
            size_t want = count % 301;
            if (want > 127)
                want = count % 3 == 0 ? 126 : 127;
            wrong += e.text_length != want;
            untimed += !timed;
            count++;
        }
        timed = e.kind == MTF_EVENT_TIME;
    }
    (void)test_walk_end(&w);
    tap_is_u64(count, 300, "marks: all");
    tap_is_u64(wrong, 0, "marks: cut to fit, between characters");
    tap_is_u64(untimed, 0, "marks: each behind its time");
    test_end();
}

/* --- A thread that ends in the next recording ---------------------------- */

/* Its calls were in the first recording; at its end the second is on, in which
   it has made no call. */
static void *end_late(void *arg) {
    struct writer w;
    (void)arg;
    writer_init(&w, 0);
    for (int i = 0; i < 1000; i++)
        writer_call(&w);
    tcm_store_release(&asked, 1u);
    while (tcm_load_acquire(&answered) == 0)
        usleep(100);
    writer_end(&w);
    return NULL;
}

static void end_in_the_next(void) {
    pthread_t id;
    mtr_init(&test_host, false);
    pthread_create(&id, NULL, end_late, NULL);
    while (tcm_load_acquire(&asked) == 0)
        usleep(100);
    if (!mtr_stop() || !mtr_start(test_path("next"), NULL))
        abort();
    tcm_store_release(&answered, 1u);
    pthread_join(id, NULL);
    if (!mtr_stop())
        abort();
    mtr_exit();
}

static void late_end(void) {
    struct found f;
    test_begin();
    int status = test_run(test_path("t"), end_in_the_next);
    tap_is_u64((uint64_t)status, 0, "an end in the next recording: runs");
    test_read("t", 0, true, &f);
    tap_ok(f.problem == NULL && f.complete && f.clean_end &&
               f.events == shared->thread[0].count,
           "an end in the next recording: the first is whole");
    test_read("next", 0, false, &f);
    tap_ok(f.complete && f.clean_end && f.events == 0,
           "an end in the next recording: that has none of its calls");
    test_end();
}

int main(void) {
    static const char *const points[] = {"limit_set", "pool_exchanged",
                                         "buffer_has_head", "thread_registered",
                                         "pool_handed_over"};
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(points); i++)
        race(points[i]);
    flight();
    marks();
    late_end();
    return tap_done();
}
