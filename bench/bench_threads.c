/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workloads of several threads: memory that passes between them, threads that
 * come and go, blocks that must not share cache lines, more threads than
 * processors.
 */
#include "bench.h"

/* --- Each for itself -------------------------------------------------------
 */

struct mixed_thread {
    uint64_t steps, seed;
    char pad[112];
};
static void *mixed_thread(void *arg) {
    struct mixed_thread *a = arg;
    bench_mixed(a->steps, a->seed);
    return NULL;
}
static uint64_t run_mixed_threads(double scale) {
    struct mixed_thread a[2] = {{bench_count(scale, 12e6), 9, {0}},
                                {bench_count(scale, 12e6), 10, {0}}};
    bench_threads(2, mixed_thread, a, sizeof *a);
    return 4 * a[0].steps;
}

/* Eight threads, however many processors there are. */
static uint64_t run_mixed_8(double scale) {
    struct mixed_thread a[8];
    for (unsigned i = 0; i < 8; i++) {
        a[i].steps = bench_count(scale, 3e6);
        a[i].seed = 61 + i;
    }
    bench_threads(8, mixed_thread, a, sizeof *a);
    return 16 * a[0].steps;
}

/* --- A third of the frees by the other thread ------------------------------
 */

/* Blocks that wait for the thread that frees them are linked through their
   first word. */
struct trader {
    struct trader *other;
    void *mail; /* pushed by the other thread, taken whole by this one */
    uint64_t steps, seed;
    pthread_barrier_t *meet;
    char pad[88];
};

static void send_block(struct trader *to, void *block) {
    void *head = __atomic_load_n(&to->mail, __ATOMIC_RELAXED);
    do
        *(void **)block = head;
    while (!__atomic_compare_exchange_n(&to->mail, &head, block, 1,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

static void free_mail(struct trader *t) {
    void *block = __atomic_exchange_n(&t->mail, NULL, __ATOMIC_ACQUIRE);
    while (block) {
        void *next = *(void **)block;
        free(block);
        block = next;
    }
}

static void *trade(void *arg) {
    enum { SLOTS = 5000, MEET = 10000 };
    struct trader *t = arg;
    void **slot = calloc(SLOTS, sizeof *slot);
    uint64_t s = t->seed;
    for (uint64_t i = 0; i < t->steps; i++) {
        uint64_t r = bench_random(&s);
        unsigned k = (unsigned)((r >> 40) % SLOTS);
        size_t size = bench_log_size(r, 4, 10);
        if (slot[k] && (r >> 24) % 3 == 0)
            send_block(t->other, slot[k]);
        else
            free(slot[k]);
        char *p = bench_take(size);
        p[0] = p[size - 1] = 1;
        slot[k] = p;
        if (i % 64 == 0)
            free_mail(t);
        if (i % MEET == MEET - 1) /* neither gets far ahead */
            pthread_barrier_wait(t->meet);
    }
    pthread_barrier_wait(t->meet);
    free_mail(t);
    for (unsigned k = 0; k < SLOTS; k++)
        free(slot[k]);
    free(slot);
    return NULL;
}

static uint64_t run_exchange(double scale) {
    struct trader t[2];
    pthread_barrier_t meet;
    memset(t, 0, sizeof t);
    pthread_barrier_init(&meet, NULL, 2);
    for (unsigned i = 0; i < 2; i++) {
        t[i].other = &t[1 - i];
        t[i].steps = bench_count(scale, 8e6);
        t[i].seed = 71 + i;
        t[i].meet = &meet;
    }
    bench_threads(2, trade, t, sizeof *t);
    pthread_barrier_destroy(&meet);
    return 4 * t[0].steps;
}

/* --- Producer and consumer: every block is freed by another thread ---------
 */

/* Queues of chunks of blocks. Threads sleep while they cannot go on, the one
   that found nothing until the queue is half full, the one that found no room
   until it is half empty, so that CPU time is that of the work and not of
   waking. */
enum { CHUNK = 64, CHUNKS = 32, BURST = 2000, QUEUES = 4 };
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned first, used, producers;
    struct chunk {
        unsigned n;
        void *block[CHUNK];
    } chunk[CHUNKS];
};
static struct queue queues[QUEUES];

static void queue_put(struct queue *q, const struct chunk *c) {
    pthread_mutex_lock(&q->lock);
    if (q->used == CHUNKS)
        while (q->used > CHUNKS / 2)
            pthread_cond_wait(&q->changed, &q->lock);
    q->chunk[(q->first + q->used++) % CHUNKS] = *c;
    if (q->used == CHUNKS / 2)
        pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

/* False when there is nothing more to come. */
static int queue_get(struct queue *q, struct chunk *c) {
    pthread_mutex_lock(&q->lock);
    if (!q->used)
        while (q->used < CHUNKS / 2 && q->producers)
            pthread_cond_wait(&q->changed, &q->lock);
    int got = q->used != 0;
    if (got) {
        *c = q->chunk[q->first];
        q->first = (q->first + 1) % CHUNKS;
        if (--q->used == CHUNKS / 2)
            pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return got;
}

struct maker {
    struct queue *queue; /* bursts go to each of COUNT in turn */
    unsigned count;
    uint64_t blocks, seed;
};

static void *make_blocks(void *arg) {
    struct maker *m = arg;
    uint64_t s = m->seed;
    struct chunk c = {0};
    for (uint64_t i = 0; i < m->blocks; i++) {
        char *p = bench_take(16 + bench_random(&s) % 400);
        *p = 1;
        c.block[c.n++] = p;
        if (c.n == CHUNK || i % BURST == BURST - 1 || i + 1 == m->blocks) {
            queue_put(&m->queue[i / BURST % m->count], &c);
            c.n = 0;
        }
    }
    for (unsigned k = 0; k < m->count; k++) {
        struct queue *q = &m->queue[k];
        pthread_mutex_lock(&q->lock);
        q->producers--;
        pthread_cond_broadcast(&q->changed);
        pthread_mutex_unlock(&q->lock);
    }
    return NULL;
}

static void *free_blocks(void *arg) {
    struct chunk c;
    while (queue_get(arg, &c))
        for (unsigned i = 0; i < c.n; i++)
            free(c.block[i]);
    return NULL;
}

/* MAKERS threads that share COUNT queues with one consumer each, or, with
   PAIRED, a queue for each. */
static uint64_t run_queues(unsigned makers, unsigned count, int paired,
                           uint64_t blocks) {
    struct maker m[QUEUES];
    struct bench_thread maker[QUEUES], consumer[QUEUES];
    for (unsigned k = 0; k < count; k++) {
        memset(&queues[k], 0, sizeof queues[k]);
        pthread_mutex_init(&queues[k].lock, NULL);
        pthread_cond_init(&queues[k].changed, NULL);
        queues[k].producers = paired ? 1 : makers;
        bench_start(&consumer[k], free_blocks, &queues[k]);
    }
    for (unsigned i = 0; i < makers; i++) {
        m[i] = (struct maker){&queues[paired ? i : 0], paired ? 1 : count,
                              blocks, 81 + i};
        bench_start(&maker[i], make_blocks, &m[i]);
    }
    for (unsigned i = 0; i < makers; i++)
        pthread_join(maker[i].id, NULL);
    for (unsigned k = 0; k < count; k++)
        pthread_join(consumer[k].id, NULL);
    return 2 * makers * blocks;
}

static uint64_t run_producer(double scale) {
    return run_queues(1, 1, 0, bench_count(scale, 15e6));
}
static uint64_t run_one_to_three(double scale) {
    return run_queues(1, 3, 0, bench_count(scale, 15e6));
}
static uint64_t run_three_to_one(double scale) {
    return run_queues(3, 1, 0, bench_count(scale, 5e6));
}
static uint64_t run_four_pairs(double scale) {
    return run_queues(4, 4, 1, bench_count(scale, 4e6));
}

/* --- Threads that come and go ----------------------------------------------
 */

/* A server whose worker threads end and hand their blocks to successors. */
enum { WORKERS = 2, SESSION = 1000 };
struct worker {
    void *block[SESSION];
    uint64_t seed, lives, steps;
    /* this thread and its starter, in turn: each thread joins its starter, and
       the main thread joins the last one */
    struct bench_thread thread[2];
    pthread_mutex_t lock;
    pthread_cond_t last;
    char pad[64];
};

static void *serve(void *arg) {
    struct worker *w = arg;
    unsigned mine = (unsigned)(w->lives % 2);
    for (uint64_t i = 0; i < w->steps; i++) {
        uint64_t r = bench_random(&w->seed);
        unsigned k = (unsigned)((r >> 32) % SESSION);
        free(w->block[k]);
        size_t size = 8 + (r & 0xffff) % 500;
        char *p = bench_take(size);
        p[0] = p[size - 1] = 1;
        w->block[k] = p;
    }
    if (w->thread[!mine].run)
        pthread_join(w->thread[!mine].id, NULL);
    pthread_mutex_lock(&w->lock);
    if (--w->lives == 0)
        pthread_cond_signal(&w->last);
    else
        bench_start(&w->thread[!mine], serve, w);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static uint64_t run_server(double scale) {
    static struct worker w[WORKERS];
    uint64_t lives = bench_count(scale, 400), steps = 50000;
    memset(w, 0, sizeof w);
    for (unsigned i = 0; i < WORKERS; i++) {
        w[i].seed = 31 + i;
        w[i].lives = lives;
        w[i].steps = steps;
        pthread_mutex_init(&w[i].lock, NULL);
        pthread_cond_init(&w[i].last, NULL);
        bench_start(&w[i].thread[lives % 2], serve, &w[i]);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        pthread_mutex_lock(&w[i].lock);
        while (w[i].lives)
            pthread_cond_wait(&w[i].last, &w[i].lock);
        pthread_mutex_unlock(&w[i].lock);
        pthread_join(w[i].thread[1].id, NULL); /* lives was 1 in the last */
        for (unsigned k = 0; k < SESSION; k++)
            free(w[i].block[k]);
    }
    return 2 * WORKERS * lives * steps;
}

static void *short_life(void *arg) {
    void *p[100];
    uint64_t s = (uint64_t)(uintptr_t)arg + 37;
    for (unsigned i = 0; i < 100; i++)
        p[i] = bench_take(16 + bench_random(&s) % 500);
    for (unsigned i = 0; i < 100; i++)
        free(p[i]);
    return NULL;
}

/* Leaves a quarter of its blocks behind for ever. */
static void *leaking_life(void *arg) {
    void *p[200];
    uint64_t s = (uint64_t)(uintptr_t)arg + 41;
    for (unsigned i = 0; i < 200; i++) {
        char *block = bench_take(16 + bench_random(&s) % 300);
        *block = 1;
        p[i] = block;
    }
    for (unsigned i = 0; i < 200; i++)
        if (i % 4)
            free(p[i]);
    return NULL;
}

static void two_lives(void *(*live)(void *), uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        struct bench_thread two[2];
        for (unsigned k = 0; k < 2; k++)
            bench_start(&two[k], live, (void *)(i * 2 + k));
        for (unsigned k = 0; k < 2; k++)
            pthread_join(two[k].id, NULL);
    }
}

static uint64_t run_thread_churn(double scale) {
    uint64_t n = bench_count(scale, 15e3);
    two_lives(short_life, n);
    return 400 * n;
}

static uint64_t run_leak(double scale) {
    uint64_t n = bench_count(scale, 8e3);
    two_lives(leaking_life, n);
    return 700 * n;
}

/* --- Do blocks of two threads share cache lines? ---------------------------
 */

enum { HANDED = 8 };
struct sharing {
    uint64_t rounds;
    void *handed[HANDED]; /* by the main thread; NULL: nothing */
    char pad[64];
};

static void *sharing(void *arg) {
    struct sharing *a = arg;
    for (unsigned j = 0; j < HANDED; j++)
        free(a->handed[j]);
    for (uint64_t i = 0; i < a->rounds; i++) {
        volatile char *p[HANDED];
        for (unsigned j = 0; j < HANDED; j++)
            p[j] = bench_take(8);
        for (unsigned k = 0; k < 1000; k++)
            p[k % HANDED][k / 8 % 8]++;
        for (unsigned j = 0; j < HANDED; j++)
            free((void *)p[j]);
    }
    return NULL;
}

static uint64_t run_sharing(double scale, int hand) {
    struct sharing a[2];
    memset(a, 0, sizeof a);
    a[0].rounds = a[1].rounds = bench_count(scale, 250e3);
    for (unsigned j = 0; hand && j < HANDED; j++)
        for (unsigned i = 0; i < 2; i++)
            a[i].handed[j] = bench_take(8);
    bench_threads(2, sharing, a, sizeof *a);
    return 4 * HANDED * a[0].rounds;
}
static uint64_t run_sharing_active(double scale) {
    return run_sharing(scale, 0);
}
static uint64_t run_sharing_passive(double scale) {
    return run_sharing(scale, 1);
}

static const struct workload list[] = {
    {"mixed2", "two threads of mixed", run_mixed_threads},
    {"mixed8", "eight threads of mixed", run_mixed_8},
    {"exchange", "mixed2, a third of the frees by the other thread",
     run_exchange},
    {"producer", "one thread allocates, the other frees", run_producer},
    {"one-to-three", "one thread allocates bursts, three free",
     run_one_to_three},
    {"three-to-one", "three threads allocate, one frees", run_three_to_one},
    {"four-pairs", "four producers, each with its consumer", run_four_pairs},
    {"server", "threads end and hand their blocks to successors", run_server},
    {"churn", "threads that live for 100 blocks", run_thread_churn},
    {"leak", "threads that leave 50 of 200 blocks for ever", run_leak},
    {"sharing", "blocks of 8 bytes written by the two threads that made them",
     run_sharing_active},
    {"sharing-passive", "the same after freeing blocks of the main thread",
     run_sharing_passive},
    {NULL, NULL, NULL}};

int main(int argc, char **argv) {
    return bench_main(argc, argv, list);
}
