/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/run/hosts.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_thread.h"
#include "cmd/replay/run/around.h"
#include "cmd/replay/feed/cell.h"

#include <sched.h>

/* A waiting thread looks this often, then lets others run for a while, then
   sleeps. */
#define WAIT_LOOKS    60u
#define WAIT_YIELD_NS 100000u
#define WAIT_SLEEP_NS 50000u

/*
 * Giving the processor to another thread of the replay takes microseconds;
 * giving it to other work costs that work's whole slice, some milliseconds.
 * When a thread has lost so much by a yield, all of them sleep at once in their
 * waits for a while: the kernel lets a thread that slept run before one that
 * computes.
 */
#define YIELD_LOST_NS   500000u
#define YIELD_BARRED_NS 1000000000u

/* --- Lanes ---------------------------------------------------------------- */

/* The current segment; NULL: there is none. */
static const struct replay_segment *lane_segment(struct replay_lane *l) {
    uint32_t node = replay_chain_get(&l->chain);
    return node == 0 ? NULL : replay_chain_segment(&l->host->crew->chain, node);
}

static const struct replay_batch *lane_batch(struct replay_lane *l) {
    return replay_chain_batch(&l->host->crew->chain,
                              replay_chain_get(&l->chain));
}

static bool crew_is_stopped(const void *crew) {
    const struct replay_crew *c = crew;
    return replay_is_flag(&c->stop);
}

/* Runs words of batch B; returns as replay_exec_words, also before END, when
   all is to stop. */
static const uint64_t *lane_words(struct replay_lane *l,
                                  const struct replay_batch *b,
                                  const uint64_t *at, const uint64_t *end) {
    return replay_words_until(&l->exec, b, l->thread, at, end, crew_is_stopped,
                              l->host->crew);
}

/* Spreads the operations evenly over the time that they took in the recorded
   run. Returns as replay_exec_words. */
static const uint64_t *lane_spread(struct replay_lane *l,
                                   const struct replay_batch *b,
                                   const struct replay_segment *s,
                                   const uint64_t *at, const uint64_t *end) {
    const uint64_t *first = b->word + s->first;
    while (at < end) {
        uint64_t due =
            l->begun_ns + (uint64_t)((double)b->span_ns * (double)(at - first) /
                                     (double)s->words);
        while (tcm_clock_ns() < due && !replay_is_flag(&l->host->crew->stop))
            tcm_cpu_relax();
        const uint64_t *next = at + replay_exec_length(at);
        const uint64_t *got = lane_words(l, b, at, next);
        if (got != next)
            return got;
        at = next;
    }
    return at;
}

/* True if what the lane waited for is there. */
static bool lane_is_ready(struct replay_lane *l) {
    switch (l->why) {
    case NEEDS_DATA:
        return replay_cell_has(&l->exec.cell[replay_word_slot(*l->at)],
                               replay_word_size(*l->at));
    case NEEDS_SKEW:
        return replay_progress_allows(&l->host->crew->progress,
                                      lane_segment(l));
    case NEEDS_WORK:
        return replay_chain_get(&l->chain) != 0;
    case HAS_ENDED:
        return false;
    case RUNS:
        break;
    }
    return true;
}

/* The current segment is done. */
static void lane_step(struct replay_crew *c, struct replay_lane *l) {
    uint32_t node = replay_chain_get(&l->chain);
    l->begun = false;
    replay_chain_next(&c->chain, &l->chain);
    replay_progress_done(&c->progress, replay_chain_segment(&c->chain, node),
                         replay_chain_number(node));
}

/* The last operation of L is done: wakes the dealer if a birth waits for it. */
static void lane_over(struct replay_crew *c, struct replay_lane *l) {
    l->why = HAS_ENDED;
    tcm_store_release(&l->over, 1u);
    tcm_add_acq_rel(&c->ends, 1u);
    tcm_fence_seq_cst();
    if (tcm_load_relaxed(&c->ends_awaited) != 0)
        tcm_futex_wake(&c->ends, 1);
}

bool replay_lane_await_over(struct replay_crew *c, struct replay_lane *l,
                            uint64_t most_ns) {
    for (unsigned i = 0; i < WAIT_LOOKS; i++) {
        if (replay_is_flag(&l->over))
            return true;
        tcm_cpu_relax();
    }
    uint32_t ends = tcm_load_acquire(&c->ends);
    tcm_store_relaxed(&c->ends_awaited, 1u);
    tcm_fence_seq_cst();
    if (!replay_is_flag(&l->over) && !replay_is_flag(&c->stop))
        tcm_futex_wait(&c->ends, ends, most_ns);
    tcm_store_relaxed(&c->ends_awaited, 0u);
    return replay_is_flag(&l->over);
}

/* Runs what can be run, and says in `why` what it waits for then. True: it ran
   something. */
static bool lane_run(struct replay_lane *l) {
    struct replay_crew *c = l->host->crew;
    bool ran = false;
    const struct replay_segment *s;
    while ((s = lane_segment(l)) != NULL) {
        const struct replay_batch *b = lane_batch(l);
        const uint64_t *first = b->word + s->first;
        if (!l->begun) {
            if (!replay_progress_allows(&c->progress, s)) {
                l->why = NEEDS_SKEW;
                return ran;
            }
            l->begun = true;
            l->at = first;
            if (c->options->spread)
                l->begun_ns = tcm_clock_ns();
        }
        const uint64_t *end = first + s->words;
        const uint64_t *at = c->options->spread
                                 ? lane_spread(l, b, s, l->at, end)
                                 : lane_words(l, b, l->at, end);
        ran |= at != l->at;
        l->at = at;
        if (at != end) {
            l->why = NEEDS_DATA;
            return ran;
        }
        bool ends = s->ends != 0;
        lane_step(c, l);
        ran = true;
        if (ends) {
            lane_over(c, l);
            return true;
        }
        if (replay_is_flag(&c->stop))
            break;
    }
    l->why = NEEDS_WORK;
    return ran;
}

/* --- Hosts ---------------------------------------------------------------- */

void replay_host_wake(struct replay_host *h) {
    tcm_add_acq_rel(&h->event, 1u);
    tcm_fence_seq_cst();
    if (tcm_load_relaxed(&h->sleeps) != 0)
        tcm_futex_wake(&h->event, 1);
}

static bool host_is_ready(struct replay_host *h) {
    for (struct replay_lane *l = tcm_load_acquire(&h->lanes); l != NULL;
         l = l->next)
        if (lane_is_ready(l))
            return true;
    return false;
}

/* Reason why H waits: data if any lane does for that, else skew, else work. */
static enum replay_why host_why(const struct replay_host *h) {
    enum replay_why why = HAS_ENDED;
    for (struct replay_lane *l = tcm_load_acquire(&h->lanes); l != NULL;
         l = l->next)
        if (l->why < why)
            why = l->why;
    return why;
}

/* True if H has one lane and, unless the system refuses threads, gets no other:
   one that came would not wake it where it waits for windows. */
static bool host_is_alone(const struct replay_host *h) {
    const struct replay_lane *l = tcm_load_acquire(&h->lanes);
    return h->crew->options->most_hosts == 0 && (l == NULL || l->next == NULL);
}

static bool host_is_up(void *host) {
    struct replay_host *h = host;
    return host_is_ready(h) || replay_is_flag(&h->crew->stop) ||
           replay_is_flag(&h->crew->finished);
}

static void host_sleep(struct replay_host *h, enum replay_why why) {
    uint32_t event = tcm_load_acquire(&h->event);
    if (why == NEEDS_SKEW && host_is_alone(h)) {
        struct replay_lane *l = tcm_load_acquire(&h->lanes);
        replay_progress_sleep(&h->crew->progress,
                              replay_progress_wanted(lane_segment(l)),
                              host_is_up, h, REPLAY_IDLE_NS);
        return;
    }
    tcm_store_relaxed(&h->sleeps, 1u);
    tcm_fence_seq_cst();
    if (!host_is_up(h))
        tcm_futex_wait(&h->event, event,
                       why >= NEEDS_WORK ? REPLAY_IDLE_NS : WAIT_SLEEP_NS);
    tcm_store_relaxed(&h->sleeps, 0u);
}

static void count_wait(struct replay_host *h, uint64_t ns) {
    for (struct replay_lane *l = tcm_load_acquire(&h->lanes); l != NULL;
         l = l->next) {
        l->waits.data_ns += l->why == NEEDS_DATA ? ns : 0;
        l->waits.skew_ns += l->why == NEEDS_SKEW ? ns : 0;
        l->waits.idle_ns += l->why == NEEDS_WORK ? ns : 0;
    }
}

/* Lets another thread run, if H began to wait at START_NS, not long ago, and
   has operations. False: it is to sleep. */
static bool host_yield(struct replay_host *h, enum replay_why why,
                       uint64_t start_ns) {
    uint64_t *from_ns = &h->crew->yields_from_ns;
    uint64_t now = tcm_clock_ns();
    if (why == NEEDS_WORK || now - start_ns >= WAIT_YIELD_NS ||
        now < tcm_load_relaxed(from_ns))
        return false;
    sched_yield();
    uint64_t after = tcm_clock_ns();
    if (after - now > YIELD_LOST_NS)
        tcm_store_relaxed(from_ns, after + YIELD_BARRED_NS);
    return true;
}

/* No lane of H can run. */
static void host_wait(struct replay_host *h) {
    enum replay_why why = host_why(h);
    uint64_t start_ns = tcm_clock_ns();
    uint64_t cpu_ns = tcm_clock_thread_cpu_ns();
    for (unsigned i = 0; !host_is_up(h); i++) {
        if (i < WAIT_LOOKS)
            tcm_cpu_relax();
        else if (!host_yield(h, why, start_ns))
            host_sleep(h, why);
    }
    count_wait(h, tcm_clock_ns() - start_ns);
    cpu_ns = tcm_clock_thread_cpu_ns() - cpu_ns;
    tcm_store_relaxed(&h->wait_cpu_ns, h->wait_cpu_ns + cpu_ns);
}

/* Unlinks lane L, which ended, from behind BEFORE. */
static void lane_unlink(struct replay_host *h, struct replay_lane *before,
                        struct replay_lane *l) {
    before->next = l->next;
    struct replay_lane *top = tcm_load_relaxed(&h->ended);
    do
        l->next = top;
    while (!tcm_cas_acq_rel(&h->ended, &top, l));
}

/* Runs what lanes can run. True: they ran some. *OVER: all of them have ended,
   and none came. */
static bool host_turn(struct replay_host *h, bool *over) {
    struct replay_lane *first = tcm_load_acquire(&h->lanes);
    struct replay_lane *before = NULL, *next;
    bool ran = false, all_ended = first != NULL;
    for (struct replay_lane *l = first; l != NULL; l = next) {
        next = l->next;
        if (l->why != HAS_ENDED)
            ran |= lane_run(l);
        all_ended &= l->why == HAS_ENDED;
        if (l->why == HAS_ENDED && before != NULL)
            lane_unlink(h, before, l);
        else
            before = l;
    }
    /* A lane that came before the last one's end was linked before that end
       was dealt, so it is seen here. */
    *over = all_ended && tcm_load_acquire(&h->lanes) == first;
    return ran;
}

void replay_host_run(struct replay_host *h) {
    struct replay_crew *c = h->crew;
    bool over;
    for (;;) {
        bool ran = host_turn(h, &over);
        if (replay_is_flag(&c->finished) || replay_is_flag(&c->stop))
            break;
        if (over && !h->is_main && c->options->most_hosts == 0)
            break;
        if (!ran)
            host_wait(h);
        if (host_is_ready(h))
            replay_processors_claim(&c->processors, &h->place);
    }
    replay_processors_leave(&c->processors, &h->place);
}

void *replay_host_main(void *arg) {
    struct replay_host *h = arg;
    struct replay_crew *c = h->crew;
    replay_thread_begin();
    replay_host_run(h);
    /* The recorded thread was still there at the end. */
    while (h->count != 0 && replay_is_flag(&c->finished) &&
           !replay_is_flag(&c->leave))
        tcm_futex_wait(&c->leave, 0, REPLAY_IDLE_NS);
    tcm_store_release(&h->left, 1u);
    return NULL;
}
