/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recorded threads on threads of their own: random histories of threads that
 * allocate, resize, hand over, free and end come out as they went in, in
 * any number of threads, with any skew, however they are cut into batches; and
 * no thread begins before those are gone that ended before its birth. An
 * allocator that keeps books stands in for the real one: an allocation's size
 * is its number, and so is its address.
 */
#include "base/atomic.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_thread.h"
#include "cmd/replay/feed/deal.h"
#include "cmd/replay/run/real.h"
#include "prng.h"
#include "tap.h"
#include "traceformat/trace_event.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define OPS   400u
#define SLOTS 24u
#define LIVES 12u /* threads alive at once, at most */
#define ROUND 16u /* address of block n is n * ROUND */

/* --- Histories ------------------------------------------------------------ */

enum what { MAKES, FREES, RESIZES, ENDS, NEXT_WINDOW };

struct op {
    enum what what;
    uint32_t life;  /* the thread, used once */
    uint32_t index; /* what it is known by while it lives */
    uint32_t slot;
    uint32_t block; /* that comes into being, or is freed */
    uint32_t old;   /* that a resize ends */
    uint32_t window;
};

static struct {
    struct op op[OPS];
    uint32_t ops, blocks, lives, windows;
    uint32_t in_window[OPS + 1]; /* operations */
    bool skew_is_bounded;
    uint32_t held; /* batches that are held before they are dealt */
    uint32_t skew;
    uint32_t batch; /* words that are dealt at once */
    struct replay_ring *ring;
} history;

static void history_make(struct prng *p) {
    uint32_t alive[LIVES], index[LIVES], slot[SLOTS] = {0};
    uint32_t count = 0, most = 1 + (uint32_t)prng_below(p, LIVES);
    bool taken[LIVES + 1] = {false};
    memset(&history.op, 0, sizeof(history.op));
    memset(history.in_window, 0, sizeof(history.in_window));
    history.blocks = history.lives = history.windows = 0;
    history.ops = 1 + (uint32_t)prng_below(p, OPS);
    uint32_t births = 2 + (uint32_t)prng_below(p, 20);
    uint32_t cuts = 2 + (uint32_t)prng_below(p, 40);
    for (uint32_t i = 0; i < history.ops; i++) {
        struct op *op = &history.op[i];
        op->window = history.windows;
        if (count == 0 || (count < most && prng_below(p, births) == 0)) {
            uint32_t free_index = 1;
            while (taken[free_index])
                free_index++;
            taken[free_index] = true;
            index[count] = free_index;
            alive[count++] = history.lives++;
        }
        uint32_t who = (uint32_t)prng_below(p, count);
        op->life = alive[who];
        op->index = index[who];
        op->slot = (uint32_t)prng_below(p, SLOTS);
        if (prng_below(p, cuts) == 0) {
            op->what = NEXT_WINDOW;
            history.windows++;
            continue;
        }
        if (prng_below(p, 60) == 0) {
            op->what = ENDS;
            taken[index[who]] = false;
            alive[who] = alive[--count];
            index[who] = index[count];
        } else if (slot[op->slot] == 0) {
            op->what = MAKES;
            op->block = slot[op->slot] = ++history.blocks;
        } else if (prng_below(p, 3) == 0) {
            op->what = RESIZES;
            op->old = slot[op->slot];
            op->block = slot[op->slot] = ++history.blocks;
        } else {
            op->what = FREES;
            op->block = slot[op->slot];
            slot[op->slot] = 0;
        }
        if (op->what != ENDS)
            history.in_window[op->window]++;
    }
}

/* --- The decoding side ---------------------------------------------------- */

static void stage(struct replay_batch *b, uint64_t w) {
    b->word[b->words++] = w;
}

static bool deal_some(struct replay_deal *d, struct replay_batch *b,
                      bool last) {
    b->last = last;
    bool good = replay_deal_batch(d);
    b->words = 0;
    return good;
}

static void stage_op(struct replay_batch *b, const struct op *op) {
    switch (op->what) {
    case MAKES:
        stage(b, replay_word(REPLAY_MALLOC, op->slot, op->block));
        break;
    case FREES:
        stage(b, replay_word(REPLAY_FREE, op->slot, 0));
        break;
    case RESIZES:
        stage(b, replay_word(REPLAY_LONG, op->slot, MTF_CALL_REALLOC));
        stage(b, op->block);
        stage(b, replay_long_word(op->old, 0, false));
        break;
    case ENDS:
        stage(b, replay_word(REPLAY_THREAD_END, op->index, 0));
        break;
    case NEXT_WINDOW:
        stage(b, replay_word(REPLAY_WINDOW, 0, 1));
        break;
    }
}

static void *filler(void *arg) {
    struct replay_deal *d = replay_deal_new(
        history.ring,
        history.skew_is_bounded ? history.skew : REPLAY_SKEW_NONE);
    uint32_t last_life = UINT32_MAX;
    (void)arg;
    if (d == NULL)
        abort();
    struct replay_batch *b = replay_deal_staging(d);
    b->words = 0;
    uint32_t held = history.held;
    if (held != 0)
        replay_deal_hold(d);
    for (uint32_t i = 0; i < history.ops; i++) {
        const struct op *op = &history.op[i];
        if (op->life != last_life && op->what <= RESIZES) {
            stage(b, replay_word(REPLAY_SWITCH, op->index, op->life));
            last_life = op->life;
        }
        stage_op(b, op);
        if (b->words < history.batch)
            continue;
        if (!deal_some(d, b, false))
            abort();
        if (held != 0 && --held == 0 && !replay_deal_release(d))
            abort();
        b->words = 0;
    }
    if (!deal_some(d, b, true) || (held != 0 && !replay_deal_release(d)))
        abort();
    replay_deal_free(d);
    return NULL;
}

/* --- The allocator -------------------------------------------------------- */

enum state { UNBORN, LIVES_NOW, GONE };

static struct {
    uint32_t state[OPS + 1];
    /* thread of the system that made it, that ended it; and how many operations
       it had made by then */
    uint32_t maker[OPS + 1], ender[OPS + 1];
    uint32_t made_at[OPS + 1], ended_at[OPS + 1];
    /* by block: the life that makes it, that ends it; by life: its place among
       the ops where it begins and ends (0: never), and whether its thread has
       left, or its last operation is made where threads are pooled */
    uint32_t life_of_make[OPS + 1], life_of_end[OPS + 1];
    uint32_t begin[OPS + 1], end[OPS + 1], ops_left[OPS + 1], gone[OPS + 1];
    bool begun[OPS + 1];
    uint32_t unburied;      /* births before an end that came earlier */
    uint32_t done[OPS + 1]; /* operations by window */
    uint32_t window_of_make[OPS + 1], window_of_end[OPS + 1];
    uint32_t faults, early;
    uint32_t threads;
} books;

static bool is_pooled;
static pthread_key_t leaving;
static __thread uint32_t my_number, my_ops;
/* Numbers of threads begin anew with each history. */
static __thread uint32_t my_history;
static uint32_t history_number;

static uint32_t who(void) {
    if (my_history != history_number) {
        my_history = history_number;
        my_number = tcm_add_relaxed(&books.threads, 1u) + 1;
        my_ops = 0;
    }
    my_ops++;
    return my_number;
}

/* An operation of WINDOW is made now. */
static void in_window(uint32_t window) {
    if (history.skew_is_bounded && window >= history.skew) {
        uint32_t before = window - history.skew;
        for (uint32_t w = before < 4 ? 0 : before - 4; w <= before; w++)
            if (tcm_load_seq_cst(&books.done[w]) != history.in_window[w])
                tcm_add_relaxed(&books.early, 1u);
    }
    tcm_add_acq_rel(&books.done[window], 1u);
}

/* A pthread key's destructor: the thread that ran LIFE, a number from 1, has
   left. */
static void left(void *life) {
    tcm_store_seq_cst(&books.gone[(uintptr_t)life - 1], 1u);
}

/* LIFE makes an operation now. */
static void in_life(uint32_t life) {
    /* Number 1 is the main thread, which stays. */
    bool stays = is_pooled || life == 1;
    if (!books.begun[life]) {
        books.begun[life] = true;
        if (!stays)
            pthread_setspecific(leaving, (void *)(uintptr_t)(life + 1));
        for (uint32_t l = 0; l < history.lives; l++)
            if (books.end[l] != 0 && books.end[l] < books.begin[life] &&
                tcm_load_seq_cst(&books.gone[l]) == 0)
                tcm_add_relaxed(&books.unburied, 1u);
    }
    if (--books.ops_left[life] == 0 && stays)
        tcm_store_seq_cst(&books.gone[life], 1u);
}

static void become(size_t block, uint32_t from, uint32_t to) {
    uint32_t expected = from;
    if (block > history.blocks || block == 0 ||
        !tcm_cas_acq_rel(&books.state[block], &expected, to))
        tcm_add_relaxed(&books.faults, 1u);
}

static void *books_make(size_t size) {
    become(size, UNBORN, LIVES_NOW);
    books.maker[size] = who();
    books.made_at[size] = my_ops;
    in_window(books.window_of_make[size]);
    in_life(books.life_of_make[size]);
    return (void *)(uintptr_t)(size * ROUND);
}
static void books_free(void *p) {
    size_t block = (uintptr_t)p / ROUND;
    become(block, LIVES_NOW, GONE);
    books.ender[block] = who();
    books.ended_at[block] = my_ops;
    in_window(books.window_of_end[block]);
    in_life(books.life_of_end[block]);
}
static void *books_resize(void *p, size_t size) {
    size_t block = (uintptr_t)p / ROUND;
    become(block, LIVES_NOW, GONE);
    become(size, UNBORN, LIVES_NOW);
    books.ender[block] = books.maker[size] = who();
    books.ended_at[block] = books.made_at[size] = my_ops;
    in_window(books.window_of_make[size]);
    in_life(books.life_of_make[size]);
    return (void *)(uintptr_t)(size * ROUND);
}

/* --- One history ---------------------------------------------------------- */

struct verdict {
    bool good;
    const char *why;
};

static void books_begin(void) {
    memset(&books, 0, sizeof(books));
    history_number++;
    for (uint32_t i = 0; i < history.ops; i++) {
        const struct op *op = &history.op[i];
        if (op->what == MAKES || op->what == RESIZES)
            books.window_of_make[op->block] = op->window;
        if (op->what == FREES)
            books.window_of_end[op->block] = op->window;
        if (op->what == FREES)
            books.life_of_end[op->block] = op->life;
        else if (op->what <= RESIZES)
            books.life_of_make[op->block] = op->life;
        if (op->what <= RESIZES && books.ops_left[op->life]++ == 0)
            books.begin[op->life] = i + 1;
        /* One without operations has no thread. */
        if (op->what == ENDS && books.ops_left[op->life] != 0)
            books.end[op->life] = i + 1;
    }
}

/* Each recorded thread's operations were made by one thread, in their order;
   with a thread each, by one that made no other's. */
static const char *books_check(bool pooled) {
    static uint32_t system_of[OPS + 1], last_of[OPS + 1], life_of[OPS + 1];
    static uint32_t want[OPS + 1];
    memset(system_of, 0, sizeof(system_of));
    memset(last_of, 0, sizeof(last_of));
    memset(life_of, 0, sizeof(life_of));
    memset(want, 0, sizeof(want));
    if (books.faults != 0)
        return "a block was used that was not there";
    if (books.early != 0)
        return "a window was entered too early";
    if (books.unburied != 0)
        return "a thread began before one was gone that had ended";
    for (uint32_t i = 0; i < history.ops; i++) {
        const struct op *op = &history.op[i];
        if (op->what > RESIZES)
            continue;
        uint32_t b = op->block;
        bool is_end = op->what == FREES;
        uint32_t system = is_end ? books.ender[b] : books.maker[b];
        uint32_t at = is_end ? books.ended_at[b] : books.made_at[b];
        if (system == 0)
            return "an operation was not made";
        if (system_of[op->life] == 0)
            system_of[op->life] = system;
        if (system_of[op->life] != system)
            return "a thread's operations were made by two";
        if (at <= last_of[op->life])
            return "a thread's operations changed places";
        last_of[op->life] = at;
        if (!pooled && life_of[system] != 0 && life_of[system] != op->life + 1)
            return "two threads' operations were made by one";
        life_of[system] = op->life + 1;
        if (op->what == RESIZES &&
            (books.ender[op->old] != system || books.ended_at[op->old] != at))
            return "a resize had another's block";
        want[b] = is_end ? GONE : LIVES_NOW;
        if (op->what == RESIZES)
            want[op->old] = GONE;
    }
    for (uint32_t b = 1; b <= history.blocks; b++)
        if (books.state[b] != want[b])
            return "a block has not the end it should have";
    return NULL;
}

static struct replay_exec exec;
static struct replay_rss rss;
/* Without observers. */
static struct replay_watch watch = {.exec = &exec, .rss = &rss};

static const char *run_history(struct prng *p) {
    struct replay_table cells = {0};
    struct replay_real real = {0};
    pthread_t thread;
    int status;
    history_make(p);
    books_begin();
    history.skew_is_bounded = prng_below(p, 4) != 0;
    history.skew = 1 + (uint32_t)prng_below(p, 4);
    history.batch = 1 + (uint32_t)prng_below(p, prng_below(p, 2) ? 4 : 200);
    history.held = prng_below(p, 4) ? 0 : 1 + (uint32_t)prng_below(p, 30);
    memset(&exec, 0, sizeof(exec));
    exec.calls.malloc = books_make;
    exec.calls.free = books_free;
    exec.calls.realloc = books_resize;
    exec.via = &exec.calls;
    exec.touch = REPLAY_TOUCH_NONE;
    real.options.most_hosts =
        prng_below(p, 2) ? 0 : 1 + (uint32_t)prng_below(p, 4);
    is_pooled = real.options.most_hosts != 0;
    real.options.is_paced = prng_below(p, 2) != 0;
    uint32_t batches = 1u << prng_below(p, 3);
    history.ring =
        replay_ring_new(batches, real.options.is_paced ? batches / 2 : 0, NULL);
    real.ring = history.ring;
    real.exec = &exec;
    real.watch = &watch;
    real.cells = &cells;
    real.child = 1; /* never found ended: it is no child */
    if (history.ring == NULL ||
        pthread_create(&thread, NULL, filler, NULL) != 0 ||
        !replay_real_begin(&real))
        return "no memory";
    const struct replay_batch *b =
        replay_ring_take(history.ring, &real.child, &status);
    replay_real_run(&real, b);
    replay_real_end(&real);
    pthread_join(thread, NULL);
    const char *why = books_check(real.options.most_hosts != 0 || real.pooled);
    const struct replay_result *f = &history.ring->result;
    if (why == NULL && f->most_peak_bytes != 0 &&
        ((uint64_t)real.peak_live_bytes < f->least_peak_bytes ||
         (uint64_t)real.peak_live_bytes > f->most_peak_bytes))
        why = "the peak of live bytes is outside of its bounds";
    if (why == NULL && real.options.most_hosts != 0 &&
        books.threads > real.options.most_hosts)
        why = "there were more threads than were allowed";
    replay_real_free(&real);
    tcm_os_unmap(cells.memory, cells.reserved);
    tcm_os_unmap(history.ring, replay_ring_bytes(history.ring));
    return why;
}

/* --- A cell that is written very often ------------------------------------ */

/*
 * Thread 1 makes a block and frees it, more often than a cell's generation has
 * values; the last one stays and thread 2, which does nothing else, frees it.
 * Without windows thread 2 looks at the cell while the first of these blocks is
 * in it. RESIZES instead: one block, resized as often.
 */
#define WRITES (((uint32_t)1 << 16) + 1)

static struct {
    bool resizes;
    uint32_t made, freed_by_other, wrong;
} often;

static void *often_filler(void *arg) {
    struct replay_deal *d = replay_deal_new(history.ring, REPLAY_SKEW_NONE);
    (void)arg;
    if (d == NULL)
        abort();
    struct replay_batch *b = replay_deal_staging(d);
    b->words = 0;
    stage(b, replay_word(REPLAY_SWITCH, 1, 1));
    for (uint32_t i = 1; i <= WRITES; i++) {
        if (i == 1 || !often.resizes) {
            stage(b, replay_word(REPLAY_MALLOC, 0, i));
        } else {
            stage(b, replay_word(REPLAY_LONG, 0, MTF_CALL_REALLOC));
            stage(b, i);
            stage(b, replay_long_word(i - 1, 0, false));
        }
        if (i < WRITES && !often.resizes)
            stage(b, replay_word(REPLAY_FREE, 0, 0));
        if (b->words >= REPLAY_BATCH_WORDS / 2 && !deal_some(d, b, false))
            abort();
    }
    stage(b, replay_word(REPLAY_SWITCH, 2, 2));
    stage(b, replay_word(REPLAY_FREE, 0, 0));
    if (!deal_some(d, b, true))
        abort();
    replay_deal_free(d);
    return NULL;
}

static __thread bool is_maker;

static void *often_make(size_t size) {
    is_maker = true;
    tcm_store_seq_cst(&often.made, (uint32_t)size);
    return (void *)(uintptr_t)(size * ROUND);
}
static void often_free(void *p) {
    uint32_t block = (uint32_t)((uintptr_t)p / ROUND);
    if (block == 1 && is_maker) /* thread 2 has time to take it for its own */
        for (int i = 0; i < 100 && often.wrong == 0; i++)
            tcm_futex_wait(&often.wrong, 0, 1000000);
    if (is_maker)
        return;
    tcm_add_relaxed(&often.freed_by_other, 1u);
    if (block != WRITES)
        tcm_add_relaxed(&often.wrong, 1u);
}
static void *often_resize(void *p, size_t size) {
    if (size == 2)
        often_free(p);
    return often_make(size);
}

static void test_often(bool resizes) {
    struct replay_table cells = {0};
    struct replay_real real = {0};
    pthread_t thread;
    int status;
    memset(&often, 0, sizeof(often));
    memset(&exec, 0, sizeof(exec));
    often.resizes = resizes;
    exec.calls.malloc = often_make;
    exec.calls.free = often_free;
    exec.calls.realloc = often_resize;
    exec.via = &exec.calls;
    exec.touch = REPLAY_TOUCH_NONE;
    /* All of it has a place in the ring. */
    history.ring = replay_ring_new(32, 0, NULL);
    real.ring = history.ring;
    real.exec = &exec;
    real.watch = &watch;
    real.cells = &cells;
    real.child = 1;
    if (history.ring == NULL ||
        pthread_create(&thread, NULL, often_filler, NULL) != 0 ||
        !replay_real_begin(&real))
        tap_bail("no memory");
    replay_real_run(&real,
                    replay_ring_take(history.ring, &real.child, &status));
    replay_real_end(&real);
    pthread_join(thread, NULL);
    tap_ok(often.wrong == 0 && often.freed_by_other == 1,
           "a cell that is %s %u times: another thread gets its last block",
           resizes ? "resized" : "written", WRITES);
    replay_real_free(&real);
    tcm_os_unmap(cells.memory, cells.reserved);
    tcm_os_unmap(history.ring, replay_ring_bytes(history.ring));
}

int main(void) {
    const char *seed = getenv("TCM_TEST_SEED"), *is_long = getenv("LONG");
    uint64_t first = 1;
    uint64_t last = is_long != NULL && strcmp(is_long, "1") == 0 ? 4000 : 1000;
    /* Sanitizers make threads slow. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    last /= 4;
#endif
    if (seed != NULL)
        first = last = strtoull(seed, NULL, 0);
    if (tap_emulated())
        return tap_skip_all("the emulator takes 20 GiB for all its threads");
    tap_plan(3);
    if (pthread_key_create(&leaving, left) != 0)
        tap_bail("pthread_key_create");
    uint64_t bad = 0;
    for (uint64_t i = first; i <= last; i++) {
        struct prng p;
        prng_seed(&p, i);
        const char *why = run_history(&p);
        if (why != NULL && bad++ < 10)
            tap_diag("history %llu: %s", (unsigned long long)i, why);
    }
    tap_is_u64(bad, 0, "all histories come out as they went in");
    test_often(false);
    test_often(true);
    return tap_done();
}
