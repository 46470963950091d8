/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring between the decoding and the measuring process: all batches arrive,
 * in order and whole, at any speed of either; a dead filler is noticed.
 */
#include "cmd/replay/feed/ring.h"
#include "prng.h"
#include "tap.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 500u

static void pause_a_little(struct prng *p) {
    if (prng_below(p, 8) == 0)
        usleep((useconds_t)prng_below(p, 300));
}

static void fill(struct replay_ring *r, uint32_t count, bool last,
                 uint64_t seed) {
    struct prng p;
    prng_seed(&p, seed);
    for (uint32_t i = 0; i < count; i++) {
        struct replay_batch *b = replay_ring_fill(r);
        b->words = 1 + i * 37 % REPLAY_BATCH_WORDS;
        for (uint32_t j = 0; j < b->words; j++)
            b->word[j] = (uint64_t)i << 32 | j;
        b->last = last && i == count - 1;
        r->result.done.ops = i;
        replay_ring_filled(r);
        if (seed != 0)
            pause_a_little(&p);
    }
}

/* Number of batches that came whole and in order. */
static uint32_t take(struct replay_ring *r, pid_t *child, int *status,
                     uint64_t seed) {
    struct prng p;
    prng_seed(&p, seed);
    for (uint32_t i = 0;; i++) {
        const struct replay_batch *b = replay_ring_take(r, child, status);
        if (b == NULL)
            return i;
        bool good = b->words == 1 + i * 37 % REPLAY_BATCH_WORDS;
        for (uint32_t j = 0; good && j < b->words; j++)
            good = b->word[j] == ((uint64_t)i << 32 | j);
        if (!good)
            return i;
        if (b->last)
            return i + 1;
        replay_ring_taken(r);
        if (seed != 0)
            pause_a_little(&p);
    }
}

static void speeds(const char *what, uint64_t fill_seed, uint64_t take_seed) {
    struct replay_ring *r =
        replay_ring_new(REPLAY_BATCHES, REPLAY_BATCHES / 2, NULL);
    int status = 0;
    if (r == NULL)
        tap_bail("no shared memory");
    pid_t child = fork();
    if (child == 0) {
        fill(r, COUNT, true, fill_seed);
        _exit(0);
    }
    tap_is_u64(take(r, &child, &status, take_seed), COUNT, "%s", what);
    if (child > 0)
        waitpid(child, NULL, 0);
}

/* A ring that is filled and emptied in turns. The taker awaits it full at any
   time, also when it has taken some of what is coming; a turn that it has not
   seen the end of would be awaited for ever. */
static void turns(uint64_t seed) {
    struct replay_ring *r = replay_ring_new(4, 0, NULL);
    int status = 0;
    uint32_t taken = 0, fulls = 0;
    struct prng p;
    if (r == NULL)
        tap_bail("no shared memory");
    pid_t child = fork();
    if (child == 0) {
        fill(r, COUNT, true, 0);
        _exit(0);
    }
    prng_seed(&p, seed);
    alarm(60);
    for (bool last = false; !last; taken++) {
        const struct replay_batch *b = replay_ring_take(r, &child, &status);
        if (b == NULL)
            break;
        last = b->last;
        if (prng_below(&p, 3) == 0) {
            replay_ring_await_full(r, &child, &status);
            fulls += r->filled % 4 == 0 || r->filled == COUNT;
        } else {
            fulls++;
        }
        replay_ring_taken(r);
    }
    alarm(0);
    tap_is_u64(taken, COUNT, "in turns, some awaited");
    tap_is_u64(fulls, COUNT, "the filler has stopped then");
    if (child > 0)
        waitpid(child, NULL, 0);
}

static void dead_filler(bool killed) {
    struct replay_ring *r =
        replay_ring_new(REPLAY_BATCHES, REPLAY_BATCHES / 2, NULL);
    int status = 0;
    if (r == NULL)
        tap_bail("no shared memory");
    pid_t child = fork();
    if (child == 0) {
        fill(r, 40, false, 0);
        if (killed)
            raise(SIGKILL);
        _exit(7);
    }
    tap_is_u64(take(r, &child, &status, 0), 40,
               "what a filler gave before it ended is taken");
    tap_ok(child == -1, "its end is noticed");
    if (killed)
        tap_ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
               "that it was killed is told");
    else
        tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 7,
               "its status is told");
}

int main(void) {
    speeds("both at full speed", 0, 0);
    speeds("a slow filler", 1, 0);
    speeds("a slow taker", 0, 2);
    speeds("both stop now and then", 3, 4);
    for (uint64_t seed = 1; seed < 5; seed++)
        turns(seed);
    dead_filler(true);
    dead_filler(false);
    return tap_done();
}
