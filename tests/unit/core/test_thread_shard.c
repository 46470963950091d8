/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shards of threads: who moves where, which classes are parted, and where the
 * objects of parted classes go. A thread meets others by telling so, as locks
 * that are found taken do.
 */
#include "core/thread_shard.h"
#include "core/central_list.h"
#include "core/page_heap.h"
#include "core/transfer_cache.h"
#include "core_test.h"

#include <pthread.h>
#include <sched.h>

#define WAITS   8 /* after which a thread looks for another shard */
#define OBJECTS 600

static unsigned class_small, class_other;
static struct tcm_thread_cache *caches[3]; /* no more shards than caches */

static uint32_t wait_often(void) {
    for (unsigned i = 1; i < WAITS; i++)
        (void)tcm_thread_shard_waits();
    return tcm_thread_shard_waits();
}

/* Runs STEP(ARGUMENT) in a thread of its own. */
static void in_thread(void *(*step)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, step, argument) != 0)
        tap_bail("no thread");
    pthread_join(thread, NULL);
}

static uint64_t objects_in(uint32_t shard, unsigned size_class) {
    return tcm_central[shard][size_class].free_objects;
}

static uint64_t spans_in(uint32_t shard, unsigned size_class) {
    return tcm_central[shard][size_class].span_count;
}

/* ------------------------------------------------------------------------ */
/* Shards                                                                   */

static void test_alone(void) {
    bool stays = true;
    for (unsigned i = 0; i < 10; i++)
        stays &= wait_often() == 0;
    tap_ok(stays && tcm_page_shards == 1,
           "a thread that is alone in its shard stays there");
}

static void *move_twice(void *unused) {
    (void)unused;
    tap_is_u64(tcm_thread_shard(), 0, "a thread begins in the first shard");
    for (unsigned i = 0; i < 200; i++) {
        (void)tcm_thread_shard_waits();
        for (unsigned k = 0; k < 300; k++)
            tcm_thread_shard_passes();
    }
    tap_is_u64(tcm_thread_shard(), 0, "few waits among many passes: it stays");
    tap_is_u64(wait_often(), 1, "many waits: it opens a second shard");
    tap_is_u64(wait_often(), 1, "where it is alone");
    tcm_thread_shard_end();
    return NULL;
}

static void *be_new(void *unused) {
    (void)unused;
    tap_is_u64(tcm_thread_shard(), 1, "a new thread takes the place");
    pid_t pid = fork();
    if (pid == 0)
        _exit(wait_often() == 1 ? 0 : 1);
    int status = -1;
    tap_ok(waitpid(pid, &status, 0) == pid && status == 0,
           "the only thread of a child has no other to leave");
    tcm_thread_shards_restrict(true);
    tap_is_u64(tcm_thread_shard(), 0, "restricted threads use the first");
    tap_is_u64(wait_often(), 0, "and stay there");
    tcm_thread_shards_restrict(false);
    tap_is_u64(tcm_thread_shard(), 1, "until they no longer are");
    tcm_thread_shard_end();
    tap_is_u64(wait_often(), 1, "a thread that has ended goes nowhere");
    return NULL;
}

static void *leave_note(void *note) {
    (void)tcm_thread_shard();
    tcm_thread_shard_note(note);
    return NULL;
}

/* A thread that goes without its end counts on, so the second one has the other
   shard. */
static void test_dead(void) {
    uint8_t first = 0, second = 0, third = 0, live = 0;
    in_thread(leave_note, &first);
    in_thread(leave_note, &second);
    tap_ok(first + second == 3, "notes tell the shards");
    tcm_thread_shard_end_dead(first);
    tcm_thread_shard_end_dead(0);
    in_thread(leave_note, &third);
    tap_is_u64(third, first, "the place of a dead thread is free again");
    tcm_thread_shard_end_dead(second);
    tcm_thread_shard_end_dead(third);
    tcm_thread_shard_note(&live);
    tap_is_u64(live, tcm_thread_shard() + 1, "a note tells it at once");
}

static void test_parted(void) {
    uint32_t heat = 0;
    for (unsigned i = 0; i < 100; i++) {
        tcm_class_waits(class_small, &heat);
        while (heat != 0)
            tcm_heat_cool(&heat);
    }
    tap_ok(!tcm_class_is_parted(class_small), "few waits do not part a class");
    for (unsigned i = 0; i < WAITS; i++)
        tcm_class_waits(class_small, &heat);
    tap_ok(tcm_class_is_parted(class_small) &&
               tcm_class_parts(class_small) == 2 &&
               tcm_class_shard(class_small) == 0 &&
               !tcm_class_is_parted(class_other),
           "many waits do, and no other class");
}

static void *verify(void *unused) {
    (void)unused;
    tcm_heap_verify_running(TCM_NO_CACHE);
    tap_is_u64((uint64_t)tcm_locks_held, 0, "the verifier holds no lock then");
    return NULL;
}

static void *part_first(void *unused) {
    uint32_t heat = 0;
    (void)unused;
    for (unsigned i = 0; i < WAITS; i++)
        tcm_class_waits(1, &heat);
    return NULL;
}

/* The verifier has the lists of the first class and waits for one of another,
   while a thread parts the first class. */
static void test_parted_while_locked(void) {
    struct tcm_lock *late = &tcm_central[0][class_small].lock;
    struct tcm_lock *first = &tcm_central[0][1].lock;
    pthread_t verifier, parter;
    tcm_lock(late);
    if (pthread_create(&verifier, NULL, verify, NULL) != 0)
        tap_bail("no thread");
    while (tcm_load_relaxed(&late->state) != 2 ||
           tcm_load_relaxed(&first->state) == 0)
        sched_yield();
    if (pthread_create(&parter, NULL, part_first, NULL) != 0)
        tap_bail("no thread");
    for (unsigned i = 0; i < 1000 && !tcm_class_is_parted(1); i++)
        sched_yield();
    tcm_unlock(late);
    pthread_join(verifier, NULL);
    pthread_join(parter, NULL);
    tap_ok(tcm_class_is_parted(1), "a class is parted after it");
}

/* ------------------------------------------------------------------------ */
/* Objects                                                                  */

static void *old[OBJECTS], *new[OBJECTS]; /* before the parting, and after */

static void *make_new(void *unused) {
    (void)unused;
    tap_is_u64(tcm_central_fetch(class_small, new, OBJECTS), OBJECTS,
               "a thread of the second shard gets objects");
    tap_ok(spans_in(1, class_small) != 0 &&
               tcm_object_home(class_small, new[0]) == 1,
           "of spans at home there");
    tcm_thread_shard_end();
    return NULL;
}

/* Returns old and new objects in turn. */
static void return_mixed(void) {
    void *mixed[2 * OBJECTS];
    for (unsigned i = 0; i < OBJECTS; i++) {
        mixed[2 * i] = old[i];
        mixed[2 * i + 1] = new[i];
    }
    tcm_central_return(class_small, mixed, 2 * OBJECTS);
}

static void test_homes(void) {
    tap_is_u64(tcm_object_home(class_small, old[0]), 0,
               "spans from before the parting stay at home");
    in_thread(make_new, NULL);
    void *held[2] = {old[OBJECTS - 1], new[OBJECTS - 1]};
    uint64_t returns = tcm_central[1][class_small].returns;
    old[OBJECTS - 1] = old[0];
    new[OBJECTS - 1] = new[0];
    /* Two of the objects remain in use, each in a span of its home. */
    old[0] = held[0];
    new[0] = held[1];
    tcm_central_return(class_small, old + 1, OBJECTS - 1);
    tcm_central_return(class_small, new + 1, OBJECTS - 1);
    tap_ok(spans_in(0, class_small) == 1 && spans_in(1, class_small) == 1,
           "objects go home whoever frees them");
    tap_is_u64(tcm_central[1][class_small].returns - returns,
               (OBJECTS - 1 + 255) / 256, "at once, if they have one home");
    tcm_heap_verify();
    tcm_central_return(class_small, old, 1);
    tcm_central_return(class_small, new, 1);
    tap_ok(spans_in(0, class_small) == 0 && spans_in(1, class_small) == 0,
           "and all spans go back");
}

static void *fetch_new(void *unused) {
    (void)unused;
    if (tcm_central_fetch(class_small, new, OBJECTS) != OBJECTS)
        tap_bail("no objects");
    tcm_thread_shard_end();
    return NULL;
}

static void test_mixed(void) {
    if (tcm_central_fetch(class_small, old, OBJECTS) != OBJECTS)
        tap_bail("no objects");
    in_thread(fetch_new, NULL);
    uint64_t returns = tcm_central[1][class_small].returns;
    return_mixed();
    tap_ok(spans_in(0, class_small) == 0 && spans_in(1, class_small) == 0,
           "objects of two homes in turn go to both");
    tap_is_u64(tcm_central[1][class_small].returns - returns,
               (2 * OBJECTS + 255) / 256, "in one visit for each 256");
    tcm_heap_verify();
}

/* Every second object of a list in the second shard is free. The first thread
   has no idle pages. */
static void test_taken_elsewhere(void) {
    void *got[OBJECTS];
    in_thread(fetch_new, NULL);
    for (unsigned i = 0; i < OBJECTS; i += 2)
        tcm_central_return(class_small, new + i, 1);
    uint64_t there = objects_in(1, class_small);
    tcm_page_heap_release(SIZE_MAX);
    unsigned n = tcm_central_fetch(class_small, got, 32);
    tap_ok(n == 32 && objects_in(1, class_small) == there - 32 &&
               spans_in(0, class_small) == 0,
           "before a thread gets pages it takes objects of other shards");
    tcm_central_return(class_small, got, n);
    for (unsigned i = 1; i < OBJECTS - 8; i += 2)
        tcm_central_return(class_small, new + i, 1);
    tcm_page_heap_release(SIZE_MAX);
    there = objects_in(1, class_small);
    for (n = 0; n < 3; n++)
        if (tcm_central_fetch(class_small, got + n, 1) != 1)
            tap_bail("no object");
    tap_ok(objects_in(1, class_small) == there && spans_in(0, class_small) == 1,
           "unless these have few");
    tcm_central_return(class_small, got, 3);
    /* A limit restricts threads to the first shard, too. */
    tcm_heap_set(TCM_SET_LIMIT, TCM_PAGE_SIZE);
    tcm_page_heap_release(SIZE_MAX);
    tap_is_u64(tcm_central_fetch(class_small, got, (unsigned)there), there,
               "the last ones are had when there is no memory");
    tap_is_u64(tcm_central_fetch(class_small, got + there, 1), 0,
               "and then none");
    tcm_heap_set(TCM_SET_LIMIT, 0);
    tcm_central_return(class_small, got, (unsigned)there);
    for (unsigned i = OBJECTS - 7; i < OBJECTS; i += 2)
        tcm_central_return(class_small, new + i, 1);
    tap_is_u64(spans_in(1, class_small), 0, "all spans go back");
    tcm_heap_verify();
}

static void test_transfer(void) {
    unsigned batch = tcm_class[class_small].batch;
    void *got[TCM_MAX_BATCH];
    in_thread(fetch_new, NULL);
    tcm_transfer_insert(class_small, new, batch);
    tap_is_u64(tcm_transfer[1][class_small].count, batch,
               "a batch is parked in the shard where it was made");
    tap_is_u64(tcm_transfer_objects(class_small), batch, "and counted there");
    unsigned n = tcm_transfer_remove(class_small, got, batch);
    tap_ok(n == batch && tcm_transfer[1][class_small].count == batch,
           "for threads of that shard alone");
    tcm_transfer_insert(class_small, got, n);
    tap_is_u64(tcm_transfer[0][class_small].count, n, "as in the first");
    for (unsigned i = 0; i < 8; i++)
        tcm_transfer_trim(class_small);
    tap_is_u64(tcm_transfer_objects(class_small), 0,
               "idle ones of all shards go back");
    tcm_transfer_insert(class_small, new + batch, batch);
    tcm_transfer_flush();
    tap_is_u64(tcm_transfer_objects(class_small), 0, "all do on request");
    tcm_central_return(class_small, new + 2 * batch, OBJECTS - 2 * batch);
    tcm_heap_verify();
}

static void test_fork(void) {
    in_thread(fetch_new, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        tcm_heap_fork_prepare();
        tcm_heap_fork_child(NULL);
        tcm_central_return(class_small, new, OBJECTS);
        void *got[32];
        bool good = tcm_central_fetch(class_small, got, 32) == 32;
        tcm_heap_verify();
        _exit(good ? 0 : 1);
    }
    int status = -1;
    tap_ok(waitpid(pid, &status, 0) == pid && status == 0,
           "a child has the lists of all shards");
    tcm_central_return(class_small, new, OBJECTS);
}

static void free_foreign(void *unused) {
    (void)unused;
    tcm_central_return(class_other, new, 1);
}

int main(void) {
    tcm_heap_init();
    if (tcm_class_map_base == TCM_NO_BASE)
        tap_bail("no address space");
    class_small = tcm_size_class(512);
    class_other = tcm_size_class(48);
    for (unsigned i = 0; i < 3; i++)
        caches[i] = tcm_cache_new();
    if (tcm_central_fetch(class_small, old, OBJECTS) != OBJECTS)
        tap_bail("no objects");
    test_alone();
    in_thread(move_twice, NULL);
    in_thread(be_new, NULL);
    test_dead();
    test_parted();
    test_parted_while_locked();
    test_homes();
    test_mixed();
    test_taken_elsewhere();
    test_transfer();
    test_fork();
    in_thread(fetch_new, NULL);
    tap_ok(test_dies_with(free_foreign, NULL, "invalid pointer"),
           "an object of another class is found out");
    tcm_central_return(class_small, new, OBJECTS);
    for (unsigned i = 0; i < 3; i++)
        tcm_cache_destroy(caches[i]);
    tcm_heap_verify();
    return tap_done();
}
