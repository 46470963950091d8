/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/run/hosts.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_thread.h"
#include "base/linux/os_file.h"
#include "cmd/replay/run/around.h"
#include "cmd/replay/run/recorded_clock.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* --- Processors ----------------------------------------------------------- */

/* A thread that waited for its processor for more than this part of its demand
   shares the processor with other work: the part is a half beside a busy thread
   of another program, and an eighth beside this replay's decoding process and
   dealer. */
#define DELAY_PART 4u
/* Wanted time that is judged at once: some slices of the scheduler, so that one
   slice of the decoding process does not decide. */
#define DELAY_WANTED_NS 10000000u
/* Time without binding after other work was seen. */
#define DELAY_UNBOUND_NS 300000000u

/* Reads the times that the calling thread ran, and waited to run. False: the
   kernel does not count them, or there is no /proc. */
static bool read_delay(uint64_t *ran_ns, uint64_t *delayed_ns) {
    char text[128], *second;
    if (tcm_io_read_file("/proc/thread-self/schedstat", text, sizeof(text)) <=
        0)
        return false;
    *ran_ns = strtoull(text, &second, 10);
    *delayed_ns = strtoull(second, NULL, 10);
    return true;
}

void replay_delay_begin(struct replay_delay *d) {
    d->known = read_delay(&d->ran_ns, &d->delayed_ns);
}

bool replay_is_delayed(struct replay_delay *d) {
    uint64_t ran = 0, delayed = 0;
    if (!d->known || !read_delay(&ran, &delayed))
        return false;
    uint64_t more = delayed - d->delayed_ns, wanted = ran - d->ran_ns + more;
    if (wanted < DELAY_WANTED_NS)
        return false;
    d->ran_ns = ran;
    d->delayed_ns = delayed;
    return more > wanted / DELAY_PART;
}

void replay_processors_begin(struct replay_processors *p) {
    memset(p, 0, sizeof(*p));
    if (sched_getaffinity(0, sizeof(p->all), &p->all) != 0)
        CPU_ZERO(&p->all);
}

void replay_processors_turn(struct replay_processors *p) {
    tcm_store_relaxed(&p->turn, p->turn + 1);
}

static void place_bind(struct replay_place *place, unsigned cpu) {
    cpu_set_t one;
    if (place->bound == cpu + 1)
        return;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    bool was_bound = place->bound != 0;
    if (sched_setaffinity(0, sizeof(one), &one) != 0)
        return;
    place->bound = cpu + 1;
    /* Waits of an unbound thread tell nothing of other work: threads of the
       replay may have shared the processor. */
    if (!was_bound)
        replay_delay_begin(&place->delay);
}

void replay_processors_leave(const struct replay_processors *p,
                             struct replay_place *place) {
    if (place->bound != 0)
        sched_setaffinity(0, sizeof(p->all), &p->all);
    place->bound = 0;
}

static bool processor_take(struct replay_processors *p, unsigned cpu,
                           uint32_t turn) {
    uint32_t before = tcm_load_relaxed(&p->taken[cpu]);
    return CPU_ISSET(cpu, &p->all) && before != turn &&
           tcm_cas_acq_rel(&p->taken[cpu], &before, turn);
}

/* Takes the current processor, or else the next free one. False: none is
   free. */
static bool processor_take_any(struct replay_processors *p,
                               struct replay_place *place) {
    int now = sched_getcpu();
    unsigned first = now < 0 ? 0 : (unsigned)now;
    for (unsigned i = 0; i < CPU_SETSIZE; i++) {
        unsigned cpu = (first + i) % CPU_SETSIZE;
        if (processor_take(p, cpu, place->turn)) {
            place_bind(place, cpu);
            return true;
        }
    }
    return false;
}

static bool processors_are_shared(const struct replay_processors *p) {
    return tcm_clock_ns() < tcm_load_relaxed(&p->shared_until_ns);
}

void replay_processors_claim(struct replay_processors *p,
                             struct replay_place *place) {
    uint32_t turn = tcm_load_relaxed(&p->turn);
    if (place->turn != turn) {
        place->turn = turn;
        if (place->bound != 0 && replay_is_delayed(&place->delay))
            tcm_store_relaxed(&p->shared_until_ns,
                              tcm_clock_ns() + DELAY_UNBOUND_NS);
        if (tcm_load_relaxed(&p->crowded) != turn &&
            !processors_are_shared(p) && !processor_take_any(p, place))
            tcm_store_relaxed(&p->crowded, turn);
    }
    if (tcm_load_relaxed(&p->crowded) == turn || processors_are_shared(p))
        replay_processors_leave(p, place);
}

/* --- Waiting -------------------------------------------------------------- */

/* A waiting thread polls this often, then yields for a while, then sleeps. */
#define WAIT_POLLS    60u
#define WAIT_YIELD_NS 100000u
#define WAIT_SLEEP_NS 50000u

/* A yield to a thread of the replay takes microseconds; one to other work takes
   the time slice of that work, milliseconds. After such a loss, all threads
   sleep instead of yielding for a while: the kernel prefers a thread that slept
   to one that computes. */
#define YIELD_LOST_NS   500000u
#define YIELD_BARRED_NS 1000000000u

/* --- Lanes ---------------------------------------------------------------- */

/* Returns the current segment; NULL: there is none. */
static const struct replay_segment *lane_segment(struct replay_lane *l) {
    uint32_t node = replay_chain_get(&l->chain);
    return node == 0 ? NULL : replay_chain_segment(&l->host->crew->chain, node);
}

static const struct replay_batch *lane_batch(struct replay_lane *l) {
    return replay_chain_batch(&l->host->crew->chain,
                              replay_chain_get(&l->chain));
}

/* Called before each part of a lane's words: moves the lane's clock on. */
static bool lane_is_stopped(void *lane) {
    struct replay_lane *l = lane;
    if (l->host->crew->options->clock) {
        replay_clock_advance_thread(l->clock_ns);
        l->clock_ns += l->clock_step_ns;
    }
    return replay_flag_is_set(&l->host->crew->stop);
}

/* Like replay_exec_words for batch B, but also returns before END at a stop. */
static const uint64_t *lane_words(struct replay_lane *l,
                                  const struct replay_batch *b,
                                  const uint64_t *at, const uint64_t *end) {
    if (l->host->crew->options->clock) {
        const struct replay_segment *s = lane_segment(l);
        l->clock_ns = replay_clock_place(b, (size_t)(at - (b->word + s->first)),
                                         s->words, &l->clock_step_ns);
    }
    return replay_words_until(&l->exec, b, l->thread, at, end, lane_is_stopped,
                              l);
}

/* Like lane_words, with the operations spread evenly over the time that they
   took in the recorded run. */
static const uint64_t *lane_spread(struct replay_lane *l,
                                   const struct replay_batch *b,
                                   const struct replay_segment *s,
                                   const uint64_t *at, const uint64_t *end) {
    const uint64_t *first = b->word + s->first;
    while (at < end) {
        uint64_t due =
            l->begun_ns + (uint64_t)((double)b->span_ns * (double)(at - first) /
                                     (double)s->words);
        while (tcm_clock_ns() < due &&
               !replay_flag_is_set(&l->host->crew->stop))
            tcm_cpu_relax();
        const uint64_t *next = at + replay_exec_length(at);
        const uint64_t *got = lane_words(l, b, at, next);
        if (got != next)
            return got;
        at = next;
    }
    return at;
}

/* True if lane L need not wait any longer. */
static bool lane_is_ready(struct replay_lane *l) {
    switch (l->state) {
    case REPLAY_LANE_NEEDS_DATA:
        return replay_cell_has(&l->exec.cell[replay_word_slot(*l->at)],
                               replay_word_size(*l->at));
    case REPLAY_LANE_NEEDS_SKEW:
        return replay_progress_allows(&l->host->crew->progress,
                                      lane_segment(l));
    case REPLAY_LANE_NEEDS_WORK:
        return replay_chain_get(&l->chain) != 0;
    case REPLAY_LANE_HAS_ENDED:
        return false;
    case REPLAY_LANE_RUNS:
        break;
    }
    return true;
}

/* Ends the current segment. */
static void lane_step(struct replay_crew *c, struct replay_lane *l) {
    uint32_t node = replay_chain_get(&l->chain);
    l->begun = false;
    replay_chain_next(&c->chain, &l->chain);
    replay_progress_done(&c->progress, replay_chain_segment(&c->chain, node),
                         replay_chain_number(node));
}

/* Ends lane L after its last operation: wakes the dealer if a birth waits for
   that. */
static void lane_over(struct replay_crew *c, struct replay_lane *l) {
    l->state = REPLAY_LANE_HAS_ENDED;
    tcm_store_release(&l->over, 1u);
    tcm_add_acq_rel(&c->ends, 1u);
    tcm_fence_seq_cst();
    if (tcm_load_relaxed(&c->ends_awaited) != 0)
        tcm_futex_wake(&c->ends, 1);
}

bool replay_lane_await_over(struct replay_crew *c, struct replay_lane *l,
                            uint64_t most_ns) {
    for (unsigned i = 0; i < WAIT_POLLS; i++) {
        if (replay_flag_is_set(&l->over))
            return true;
        tcm_cpu_relax();
    }
    uint32_t ends = tcm_load_acquire(&c->ends);
    tcm_store_relaxed(&c->ends_awaited, 1u);
    tcm_fence_seq_cst();
    if (!replay_flag_is_set(&l->over) && !replay_flag_is_set(&c->stop))
        tcm_futex_wait(&c->ends, ends, most_ns);
    tcm_store_relaxed(&c->ends_awaited, 0u);
    return replay_flag_is_set(&l->over);
}

/* Runs operations as far as possible, and sets `state` to the reason of the
   wait that follows. True: some were run. */
static bool lane_run(struct replay_lane *l) {
    struct replay_crew *c = l->host->crew;
    bool ran = false;
    const struct replay_segment *s;
    while ((s = lane_segment(l)) != NULL) {
        const struct replay_batch *b = lane_batch(l);
        const uint64_t *first = b->word + s->first;
        if (!l->begun) {
            if (!replay_progress_allows(&c->progress, s)) {
                l->state = REPLAY_LANE_NEEDS_SKEW;
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
            l->state = REPLAY_LANE_NEEDS_DATA;
            return ran;
        }
        bool ends = s->ends != 0;
        lane_step(c, l);
        ran = true;
        if (ends) {
            lane_over(c, l);
            return true;
        }
        if (replay_flag_is_set(&c->stop))
            break;
    }
    l->state = REPLAY_LANE_NEEDS_WORK;
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

/* Reason why H waits: data if any lane waits for data, else skew, else work. */
static enum replay_lane_state host_state(const struct replay_host *h) {
    enum replay_lane_state state = REPLAY_LANE_HAS_ENDED;
    for (struct replay_lane *l = tcm_load_acquire(&h->lanes); l != NULL;
         l = l->next)
        if (l->state < state)
            state = l->state;
    return state;
}

/* True if H has one lane and gets no other unless the system refuses threads. A
   new lane does not wake a host that waits for windows. */
static bool host_is_alone(const struct replay_host *h) {
    const struct replay_lane *l = tcm_load_acquire(&h->lanes);
    return h->crew->options->most_hosts == 0 && (l == NULL || l->next == NULL);
}

static bool host_is_up(void *host) {
    struct replay_host *h = host;
    return host_is_ready(h) || replay_flag_is_set(&h->crew->stop) ||
           replay_flag_is_set(&h->crew->finished);
}

static void host_sleep(struct replay_host *h, enum replay_lane_state state) {
    uint32_t event = tcm_load_acquire(&h->event);
    if (state == REPLAY_LANE_NEEDS_SKEW && host_is_alone(h)) {
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
                       state >= REPLAY_LANE_NEEDS_WORK ? REPLAY_IDLE_NS
                                                       : WAIT_SLEEP_NS);
    tcm_store_relaxed(&h->sleeps, 0u);
}

static void count_wait(struct replay_host *h, uint64_t ns) {
    for (struct replay_lane *l = tcm_load_acquire(&h->lanes); l != NULL;
         l = l->next) {
        l->waits.data_ns += l->state == REPLAY_LANE_NEEDS_DATA ? ns : 0;
        l->waits.skew_ns += l->state == REPLAY_LANE_NEEDS_SKEW ? ns : 0;
        l->waits.idle_ns += l->state == REPLAY_LANE_NEEDS_WORK ? ns : 0;
    }
}

/* Yields the processor, if H began to wait shortly before, at START_NS, and has
   operations. False: it has to sleep. */
static bool host_yield(struct replay_host *h, enum replay_lane_state state,
                       uint64_t start_ns) {
    uint64_t *from_ns = &h->crew->yields_from_ns;
    uint64_t now = tcm_clock_ns();
    if (state == REPLAY_LANE_NEEDS_WORK || now - start_ns >= WAIT_YIELD_NS ||
        now < tcm_load_relaxed(from_ns))
        return false;
    sched_yield();
    uint64_t after = tcm_clock_ns();
    if (after - now > YIELD_LOST_NS)
        tcm_store_relaxed(from_ns, after + YIELD_BARRED_NS);
    return true;
}

/* Waits until a lane of H can run. */
static void host_wait(struct replay_host *h) {
    enum replay_lane_state state = host_state(h);
    uint64_t start_ns = tcm_clock_ns();
    uint64_t cpu_ns = tcm_clock_thread_cpu_ns();
    struct replay_cpu cpu = replay_cpu_thread();
    for (unsigned i = 0; !host_is_up(h); i++) {
        if (i < WAIT_POLLS)
            tcm_cpu_relax();
        else if (!host_yield(h, state, start_ns))
            host_sleep(h, state);
    }
    count_wait(h, tcm_clock_ns() - start_ns);
    cpu =
        replay_cpu_add(h->wait_cpu, replay_cpu_less(replay_cpu_thread(), cpu));
    tcm_store_relaxed(&h->wait_cpu.user_ns, cpu.user_ns);
    tcm_store_relaxed(&h->wait_cpu.system_ns, cpu.system_ns);
    cpu_ns = tcm_clock_thread_cpu_ns() - cpu_ns;
    tcm_store_relaxed(&h->wait_cpu_ns, h->wait_cpu_ns + cpu_ns);
}

/* Moves lane L, which ended, from its place behind BEFORE to the ended
   lanes. */
static void lane_unlink(struct replay_host *h, struct replay_lane *before,
                        struct replay_lane *l) {
    before->next = l->next;
    struct replay_lane *top = tcm_load_relaxed(&h->ended);
    do
        l->next = top;
    while (!tcm_cas_acq_rel(&h->ended, &top, l));
}

/* Runs the lanes of H as far as possible. True: some operations were run.
   *OVER: all lanes have ended, and none was added. */
static bool host_turn(struct replay_host *h, bool *over) {
    struct replay_lane *first = tcm_load_acquire(&h->lanes);
    struct replay_lane *before = NULL, *next;
    bool ran = false, all_ended = first != NULL;
    for (struct replay_lane *l = first; l != NULL; l = next) {
        next = l->next;
        if (l->state != REPLAY_LANE_HAS_ENDED)
            ran |= lane_run(l);
        all_ended &= l->state == REPLAY_LANE_HAS_ENDED;
        if (l->state == REPLAY_LANE_HAS_ENDED && before != NULL)
            lane_unlink(h, before, l);
        else
            before = l;
    }
    /* A lane that was added before the last end was linked before that end was
       dealt, so it is seen here. */
    *over = all_ended && tcm_load_acquire(&h->lanes) == first;
    return ran;
}

void replay_host_run(struct replay_host *h) {
    struct replay_crew *c = h->crew;
    bool over;
    for (;;) {
        bool ran = host_turn(h, &over);
        if (replay_flag_is_set(&c->finished) || replay_flag_is_set(&c->stop))
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
    struct replay_clock_own own;
    replay_thread_begin();
    replay_clock_own_begin(&own);
    replay_host_run(h);
    /* The recorded thread outlived the trace. */
    while (replay_flag_is_set(&c->finished) && h->count != 0 &&
           !replay_flag_is_set(&c->leave))
        tcm_futex_wait(&c->leave, 0, REPLAY_IDLE_NS);
    replay_clock_own_end(&own);
    tcm_store_release(&h->left, 1u);
    return NULL;
}
