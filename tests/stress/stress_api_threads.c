/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The malloc family with all its checks on, recording: threads that allocate,
 * switch caches, end with destructors that allocate, and fork. Between phases
 * the heap is walked while all threads wait. Every rank of locks must have been
 * taken; one taken out of order stops the program.
 *
 * stress_api_threads [ROUNDS]
 */
#include "api/export.h"
#include "base/atomic.h"
#include "base/lock.h"
#include "core/heap.h"
#include "gperftools/thread_cache_switch.h"
#include "lib/prng.h"
#include "lib/rounds.h"
#include "lib/tap.h"
#include "stress/stress_record.h"

#include <limits.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

bool TCM_EXPORT(release_malloc_thread_cache)(struct ThreadCacheState **place);
bool TCM_EXPORT(set_malloc_thread_cache)(struct ThreadCacheState *state);

enum { THREADS = 6, SLOTS = 150, BOXES = 40, PHASES = 4 };

static unsigned long rounds = 20000; /* of a phase */
static void *box[BOXES];
static pthread_barrier_t phase;
static pthread_key_t key;
static uint32_t bad_children, late_blocks;

static void *make(struct prng *random) {
    size_t size = prng_below(random, (size_t)1 << prng_below(random, 14));
    if (prng_below(random, 400) == 0)
        size = prng_below(random, (size_t)1 << 20);
    switch (prng_below(random, 6)) {
    case 0:
        return TCM_EXPORT(calloc)(1, size);
    case 1:
        return TCM_EXPORT(memalign)((size_t)1 << prng_below(random, 13), size);
    case 2:
        return TCM_EXPORT(realloc)(TCM_EXPORT(malloc)(size / 2 + 1), size + 1);
    default:
        return TCM_EXPORT(malloc)(size);
    }
}

static void switch_caches(void) {
    struct ThreadCacheState *first = NULL, *second = NULL;
    if (!TCM_EXPORT(release_malloc_thread_cache)(&first))
        return;
    TCM_EXPORT(free)(TCM_EXPORT(malloc)(100));
    TCM_EXPORT(release_malloc_thread_cache)(&second);
    TCM_EXPORT(set_malloc_thread_cache)(second);
    TCM_EXPORT(set_malloc_thread_cache)(first);
}

/* Runs after the thread's cache is gone, too: its key is younger than the
   library's. */
static void thread_ends(void *left) {
    for (unsigned i = 0; i < 20; i++)
        TCM_EXPORT(free)(TCM_EXPORT(malloc)(i * 30));
    tcm_add_relaxed(&late_blocks, 1u);
    if ((uintptr_t)left > 1)
        pthread_setspecific(key, (void *)((uintptr_t)left - 1));
}

static void *short_life(void *argument) {
    pthread_setspecific(key, (void *)(uintptr_t)PTHREAD_DESTRUCTOR_ITERATIONS);
    TCM_EXPORT(free)(TCM_EXPORT(malloc)(70));
    return argument;
}

/* A child walks its heap and uses it. */
static void fork_once(struct prng *random) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        tcm_heap_verify();
        for (unsigned i = 0; i < 500; i++)
            TCM_EXPORT(free)(make(random));
        tcm_heap_verify();
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        tcm_add_relaxed(&bad_children, 1u);
}

static void rare(struct prng *random) {
    pthread_t id;
    switch (prng_below(random, 8)) {
    case 0:
        fork_once(random);
        break;
    case 1:
    case 2:
        if (pthread_create(&id, NULL, short_life, NULL) == 0)
            pthread_join(id, NULL);
        break;
    case 3:
        (void)TCM_EXPORT(malloc_trim)(0);
        break;
    default:
        switch_caches();
    }
}

static void walk(void) {
    if (pthread_barrier_wait(&phase) == PTHREAD_BARRIER_SERIAL_THREAD)
        tcm_heap_verify();
    pthread_barrier_wait(&phase);
}

static void *work(void *seed) {
    struct prng random;
    static __thread void *slot[SLOTS];
    prng_seed(&random, (uint64_t)(uintptr_t)seed);
    for (unsigned p = 0; p < PHASES; p++) {
        for (unsigned long n = 0; n < rounds; n++) {
            unsigned i = (unsigned)prng_below(&random, SLOTS);
            void *next = NULL;
            if (slot[i] == NULL)
                next = make(&random);
            else if (prng_below(&random, 4) == 0)
                next = __atomic_exchange_n(&box[prng_below(&random, BOXES)],
                                           slot[i], __ATOMIC_ACQ_REL);
            else
                TCM_EXPORT(free)(slot[i]);
            slot[i] = next;
            if (prng_below(&random, 1500) == 0)
                rare(&random);
        }
        walk();
    }
    for (unsigned i = 0; i < SLOTS; i++)
        TCM_EXPORT(free)(slot[i]);
    return NULL;
}

static void check_ranks(void) {
    /* ranks that no lock has yet */
    const uint64_t unused = (uint64_t)1 << TCM_RANK_NONE;
    unsigned missing = 0;
    for (unsigned rank = 0; rank < TCM_RANK_COUNT; rank++) {
        if ((unused >> rank & 1) == 0 && tcm_lock_uses[rank] == 0) {
            tap_diag("no lock of rank %u was taken", rank);
            missing++;
        }
    }
    tap_is_u64(missing, 0, "locks of every rank were taken, in order");
}

int main(int argc, char **argv) {
    pthread_t thread[THREADS];
    char *folder = stress_folder();
#ifdef __SANITIZE_THREAD__
    return tap_skip_all("the sanitizer ends threads before the library does");
#endif
    if (tap_emulated())
        return tap_skip_all("the kernel cannot run the test's file again");
    if (rounds_long())
        rounds *= 30;
    if (argc > 1)
        rounds = strtoul(argv[1], NULL, 10);
    if (folder == NULL && !stress_record(argv, "trace"))
        tap_bail("cannot begin again");
    pthread_key_create(&key, thread_ends);
    pthread_barrier_init(&phase, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++) {
        if (pthread_create(&thread[i], NULL, work, (void *)(i + 1)) != 0)
            tap_bail("no thread");
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < BOXES; i++)
        TCM_EXPORT(free)(box[i]);
    tcm_heap_verify();
    tap_ok(true, "the heap is whole after every phase");
    tap_is_u64(bad_children, 0, "and in children");
    tap_ok(late_blocks != 0, "threads allocated after their end");
    check_ranks();
    stress_remove(folder);
    return tap_done();
}
