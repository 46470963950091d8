/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dealer never waits for room: it deals all that the ring has and sleeps
 * until that is done.
 *
 * Which thread writes what, and which one sees it:
 *   lane.chain        chain.h
 *   host.lanes        linked by the dealer at the front (release); its host
 *                     unlinks those that ended, but not the first one
 *   host.ended        pushed by the host, taken as a whole by the dealer
 *   finished, leave, stop   flags; a thread that sleeps looks at them on waking
 */
#include "cmd/replay/real.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/os_mem.h"
#include "base/os_thread.h"
#include "cmd/replay/around.h"
#include "cmd/replay/cell.h"
#include "cmd/replay/chain.h"
#include "cmd/replay/own.h"
#include "cmd/replay/processors.h"
#include "cmd/replay/progress.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

/* A waiting thread looks so often, then lets others run, then sleeps so
   long. */
#define WAIT_LOOKS    60u
#define WAIT_YIELD_NS 100000u
#define WAIT_SLEEP_NS 50000u
/* Number of the recorded program's main thread, in nearly all traces. */
#define MAIN_THREAD 1u

#define IDLE_SLEEP_NS 50000000u
/* Time between two looks at the memory while threads run. */
#define MEMORY_NS 2000000u

enum why { RUNS = 0, NEEDS_DATA, NEEDS_SKEW, NEEDS_WORK, HAS_ENDED };

struct host;

struct lane {
    struct replay_exec exec;
    struct lane *next; /* of the host */
    struct host *host;
    uint32_t number, thread;
    struct replay_waits waits;
    enum why why;
    bool begun;         /* the current segment has begun */
    const uint64_t *at; /* next operation in it */
    uint64_t begun_ns;
    struct replay_chain_ends chain;
};

struct host {
    pthread_t thread;
    bool is_main;
    void *stack;
    struct lane *lanes, *ended;
    struct host *next; /* all hosts that were made and not joined */
    uint32_t count;    /* lanes that have not ended; the dealer's */
    uint64_t wait_cpu_ns;
    struct replay_place place;
    uint32_t left TCM_ALIGNED(64);  /* 1: the thread function is at its end */
    uint32_t event TCM_ALIGNED(64); /* changes when there is something new */
    uint32_t sleeps;
};

/* There is one of everything; the threads' functions find it here. */
static struct {
    struct replay_real *r;
    pthread_t dealer;
    const struct replay_batch *first;
    uint64_t start_ns;

    /* the dealer's */
    struct lane **lane; /* by index */
    size_t lanes;
    struct host *hosts;
    uint32_t host_count;
    struct host main_host;
    struct replay_own own;
    struct replay_own_list free_lanes, free_hosts;
    uint64_t dealer_cpu_ns;
    uint64_t apart_cpu_ns, apart_since_ns, apart_since_cpu_ns;
    uint32_t alive;
    const struct replay_batch *moment; /* to be looked at when it is done */
    struct replay_batch moment_batch;  /* its head */
    bool apart;                        /* now a prologue or epilogue is dealt */
    struct replay_exec exec;           /* what a lane begins with */

    uint32_t go TCM_ALIGNED(64); /* the dealer may begin */
    uint32_t finished TCM_ALIGNED(64);
    uint32_t leave, stop;
    uint64_t gone_wait_cpu_ns; /* of hosts that were joined */

    struct replay_processors processors;
    struct replay_progress progress;
    struct replay_chain chain;
} the;

/* --- Small things --------------------------------------------------------- */

static void event_wake(struct host *h) {
    tcm_add_acq_rel(&h->event, 1u);
    tcm_fence_seq_cst();
    if (tcm_load_relaxed(&h->sleeps) != 0)
        tcm_futex_wake(&h->event, 1);
}

static bool is_flag(const uint32_t *flag) {
    return tcm_load_acquire(flag) != 0;
}

/* --- Lanes ---------------------------------------------------------------- */

/* The current segment; NULL: there is none. */
static const struct replay_segment *lane_segment(struct lane *l) {
    uint32_t node = replay_chain_get(&l->chain);
    return node == 0 ? NULL : replay_chain_segment(&the.chain, node);
}

static const struct replay_batch *lane_batch(struct lane *l) {
    return replay_chain_batch(&the.chain, replay_chain_get(&l->chain));
}

static const uint64_t *lane_words(struct lane *l, const uint64_t *at,
                                  const uint64_t *end) {
    if (l->exec.around == NULL)
        return replay_exec_words(&l->exec, at, end);
    return replay_around_words(&l->exec, lane_batch(l), lane_segment(l)->thread,
                               at, end);
}

/* Spreads the operations evenly over the time that they took in the recorded
   run. Returns as replay_exec_words. */
static const uint64_t *spread(struct lane *l, const struct replay_segment *s,
                              const uint64_t *at, const uint64_t *end) {
    const struct replay_batch *b = lane_batch(l);
    const uint64_t *first = b->word + s->first;
    while (at < end) {
        uint64_t due =
            l->begun_ns + (uint64_t)((double)b->span_ns * (double)(at - first) /
                                     (double)s->words);
        while (tcm_clock_ns() < due)
            tcm_cpu_relax();
        const uint64_t *next = at + replay_exec_length(at);
        const uint64_t *got = lane_words(l, at, next);
        if (got != next)
            return got;
        at = next;
    }
    return at;
}

/* Whether what the lane waited for is there. */
static bool lane_is_ready(struct lane *l) {
    switch (l->why) {
    case NEEDS_DATA:
        return replay_cell_has(&l->exec.cell[replay_word_slot(*l->at)],
                               replay_word_size(*l->at));
    case NEEDS_SKEW:
        return replay_progress_allows(&the.progress, lane_segment(l));
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
static void lane_step(struct lane *l) {
    uint32_t node = replay_chain_get(&l->chain);
    l->begun = false;
    replay_chain_next(&the.chain, &l->chain);
    replay_progress_done(&the.progress, replay_chain_segment(&the.chain, node),
                         replay_chain_number(node));
}

/* Runs what can be run, and says in `why` what it waits for then. True: it ran
   something. */
static bool lane_run(struct lane *l) {
    bool ran = false;
    const struct replay_segment *s;
    while ((s = lane_segment(l)) != NULL) {
        const uint64_t *first = lane_batch(l)->word + s->first;
        if (!l->begun) {
            if (!replay_progress_allows(&the.progress, s)) {
                l->why = NEEDS_SKEW;
                return ran;
            }
            l->begun = true;
            l->at = first;
            if (the.r->options.spread)
                l->begun_ns = tcm_clock_ns();
        }
        const uint64_t *end = first + s->words;
        const uint64_t *at = the.r->options.spread ? spread(l, s, l->at, end)
                                                   : lane_words(l, l->at, end);
        ran |= at != l->at;
        l->at = at;
        if (at != end) {
            l->why = NEEDS_DATA;
            return ran;
        }
        bool ends = s->ends != 0;
        if (ends)
            l->why = HAS_ENDED;
        lane_step(l);
        ran = true;
        if (ends)
            return true;
    }
    l->why = NEEDS_WORK;
    return ran;
}

/* --- Hosts ---------------------------------------------------------------- */

static bool host_is_ready(struct host *h) {
    for (struct lane *l = tcm_load_acquire(&h->lanes); l != NULL; l = l->next)
        if (lane_is_ready(l))
            return true;
    return false;
}

/* What H waits for: data if any lane does, else skew, else work. */
static enum why host_why(const struct host *h) {
    enum why why = HAS_ENDED;
    for (struct lane *l = tcm_load_acquire(&h->lanes); l != NULL; l = l->next)
        if (l->why < why)
            why = l->why;
    return why;
}

static bool host_is_alone(const struct host *h) {
    const struct lane *l = tcm_load_acquire(&h->lanes);
    return l == NULL || l->next == NULL;
}

static bool host_is_up(void *host) {
    return host_is_ready(host) || is_flag(&the.stop) || is_flag(&the.finished);
}

static void host_sleep(struct host *h, enum why why) {
    uint32_t event = tcm_load_acquire(&h->event);
    if (why == NEEDS_SKEW && host_is_alone(h)) {
        struct lane *l = tcm_load_acquire(&h->lanes);
        replay_progress_sleep(&the.progress, lane_segment(l), host_is_up, h,
                              IDLE_SLEEP_NS);
        return;
    }
    tcm_store_relaxed(&h->sleeps, 1u);
    tcm_fence_seq_cst();
    if (!host_is_up(h))
        tcm_futex_wait(&h->event, event,
                       why >= NEEDS_WORK ? IDLE_SLEEP_NS : WAIT_SLEEP_NS);
    tcm_store_relaxed(&h->sleeps, 0u);
}

static void count_wait(struct host *h, uint64_t ns) {
    for (struct lane *l = tcm_load_acquire(&h->lanes); l != NULL; l = l->next) {
        l->waits.data_ns += l->why == NEEDS_DATA ? ns : 0;
        l->waits.skew_ns += l->why == NEEDS_SKEW ? ns : 0;
        l->waits.idle_ns += l->why == NEEDS_WORK ? ns : 0;
    }
}

/* No lane of H can run. */
static void host_wait(struct host *h) {
    enum why why = host_why(h);
    uint64_t start_ns = tcm_clock_ns();
    uint64_t cpu_ns = tcm_clock_thread_cpu_ns();
    for (unsigned i = 0;
         !host_is_ready(h) && !is_flag(&the.finished) && !is_flag(&the.stop);
         i++) {
        if (i < WAIT_LOOKS)
            tcm_cpu_relax();
        else if (tcm_clock_ns() - start_ns < WAIT_YIELD_NS)
            sched_yield();
        else
            host_sleep(h, why);
    }
    count_wait(h, tcm_clock_ns() - start_ns);
    cpu_ns = tcm_clock_thread_cpu_ns() - cpu_ns;
    tcm_store_relaxed(&h->wait_cpu_ns, h->wait_cpu_ns + cpu_ns);
}

/* Unlinks lane L, which ended, from behind BEFORE. */
static void lane_unlink(struct host *h, struct lane *before, struct lane *l) {
    before->next = l->next;
    struct lane *top = tcm_load_relaxed(&h->ended);
    do
        l->next = top;
    while (!tcm_cas_acq_rel(&h->ended, &top, l));
}

/* Runs what lanes can run. True: they ran some. *OVER: all of them have ended,
   and none came. */
static bool host_turn(struct host *h, bool *over) {
    struct lane *first = tcm_load_acquire(&h->lanes);
    struct lane *before = NULL, *next;
    bool ran = false, all_ended = first != NULL;
    for (struct lane *l = first; l != NULL; l = next) {
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

static void host_run(struct host *h) {
    bool over;
    for (;;) {
        bool ran = host_turn(h, &over);
        if (is_flag(&the.finished) || is_flag(&the.stop))
            break;
        if (over && !h->is_main && the.r->options.most_hosts == 0)
            break;
        if (!ran)
            host_wait(h);
        if (host_is_ready(h))
            replay_processors_settle(&the.processors, &h->place);
    }
    replay_processors_leave(&the.processors, &h->place);
}

static void *host_main(void *arg) {
    struct host *h = arg;
    host_run(h);
    /* The recorded thread was still there at the end. */
    while (h->count != 0 && is_flag(&the.finished) && !is_flag(&the.leave))
        tcm_futex_wait(&the.leave, 0, IDLE_SLEEP_NS);
    tcm_store_release(&h->left, 1u);
    return NULL;
}

/* --- The dealer: threads -------------------------------------------------- */

static bool lanes_extend(size_t index) {
    if (index < the.lanes)
        return true;
    size_t n = the.lanes == 0 ? 8192 : the.lanes * 2;
    while (n <= index)
        n *= 2;
    replay_own_before(&the.own);
    void *p = the.lane == NULL
                  ? tcm_os_map(n * sizeof(*the.lane))
                  : tcm_os_remap(the.lane, the.lanes * sizeof(*the.lane),
                                 n * sizeof(*the.lane));
    if (p == NULL)
        return false;
    the.lane = p;
    memset(the.lane + the.lanes, 0, (n - the.lanes) * sizeof(*the.lane));
    the.own.bytes += (n - the.lanes) * sizeof(*the.lane);
    the.lanes = n;
    replay_own_after(&the.own);
    return true;
}

static void lane_report(const struct lane *l) {
    struct replay_real *r = the.r;
    r->waits.data_ns += l->waits.data_ns;
    r->waits.skew_ns += l->waits.skew_ns;
    r->waits.idle_ns += l->waits.idle_ns;
    r->exec->refused += l->exec.refused;
    r->exec->refused_reallocs += l->exec.refused_reallocs;
    r->exec->skipped += l->exec.skipped;
    r->exec->skipped_frees += l->exec.skipped_frees;
    r->exec->trims += l->exec.trims;
    if (r->reports < REPLAY_LANE_REPORTS)
        r->report[r->reports++] =
            (struct replay_lane_report){l->thread, l->waits};
}

static void lanes_bury(struct lane *l) {
    struct lane *next;
    for (; l != NULL; l = next) {
        next = l->next;
        lane_report(l);
        replay_own_push(&the.free_lanes, l);
    }
}

/* Its thread has ended: takes back what it had. */
static void host_bury(struct host *h) {
    lanes_bury(h->ended);
    lanes_bury(h->lanes);
    h->lanes = h->ended = NULL;
    the.gone_wait_cpu_ns += h->wait_cpu_ns;
    h->wait_cpu_ns = 0;
    if (h->is_main)
        return;
    replay_own_stack_back(&the.own, h->stack);
    replay_own_push(&the.free_hosts, h);
    the.host_count--;
}

/* Joins threads that ended; ALL: waits for all. */
static void hosts_collect(bool all) {
    struct host **at = &the.hosts;
    while (*at != NULL) {
        struct host *h = *at;
        if (!all && !is_flag(&h->left)) {
            lanes_bury(tcm_swap_acq_rel(&h->ended, NULL));
            at = &h->next;
            continue;
        }
        pthread_join(h->thread, NULL);
        *at = h->next;
        host_bury(h);
    }
}

/* Stacks may take a quarter of a limited address space; the allocator needs the
   rest. */
static bool stacks_are_many(void) {
    return the.host_count >= tcm_os_address_limit() / 4 / REPLAY_STACK_BYTES;
}

/* NULL: the system has no thread, or no memory, to give. */
static struct host *host_make(struct lane *l) {
    pthread_attr_t attr;
    if (stacks_are_many())
        return NULL;
    struct host *h = replay_own_piece(&the.own, &the.free_hosts, sizeof(*h));
    if (h == NULL)
        return NULL;
    h->stack = replay_own_stack(&the.own);
    if (h->stack == NULL) {
        replay_own_push(&the.free_hosts, h);
        return NULL;
    }
    h->lanes = l;
    h->count = 1;
    l->host = h;
    pthread_attr_init(&attr);
    int error = pthread_attr_setstack(&attr, h->stack, REPLAY_STACK_BYTES);
    if (error == 0)
        error = pthread_create(&h->thread, &attr, host_main, h);
    pthread_attr_destroy(&attr);
    if (error != 0) {
        replay_own_stack_back(&the.own, h->stack);
        replay_own_push(&the.free_hosts, h);
        return NULL;
    }
    h->next = the.hosts;
    the.hosts = h;
    the.host_count++;
    the.r->hosts = tcm_max_u64(the.r->hosts, the.host_count);
    return h;
}

/* The host with the fewest lanes. One without lanes is about to end, unless it
   is the main host or the number of hosts is limited. */
static struct host *host_with_least(void) {
    struct host *least = &the.main_host;
    bool they_stay = the.r->options.most_hosts != 0;
    for (struct host *h = the.hosts; h != NULL; h = h->next)
        if (h->count < least->count && (h->count != 0 || they_stay))
            least = h;
    return least;
}

/* Gives lane L a thread. */
static void lane_place(struct lane *l) {
    uint32_t most = the.r->options.most_hosts;
    struct host *h = NULL;
    if (l->thread == MAIN_THREAD && the.main_host.lanes == NULL) {
        h = &the.main_host;
    } else if (most == 0 || the.host_count < most) {
        hosts_collect(false);
        h = host_make(l);
        if (h != NULL)
            return;
        the.r->pooled = true;
    }
    if (h == NULL)
        h = host_with_least();
    lanes_bury(tcm_swap_acq_rel(&h->ended, NULL));
    l->host = h;
    l->next = h->lanes;
    h->count++;
    tcm_store_release(&h->lanes, l);
}

/* The lane of segment S. NULL: out of memory. */
static struct lane *lane_of(const struct replay_segment *s) {
    if (!lanes_extend(s->index))
        return NULL;
    struct lane *l = the.lane[s->index];
    if (l != NULL && l->number == s->lane)
        return l;
    TCM_ASSERT(l == NULL);
    l = replay_own_piece(&the.own, &the.free_lanes, sizeof(*l));
    if (l == NULL)
        return NULL;
    l->exec = the.exec;
    l->exec.cell = the.r->cells->memory;
    l->number = s->lane;
    l->thread = s->thread;
    l->why = NEEDS_WORK;
    the.lane[s->index] = l;
    the.r->lanes++;
    the.alive++;
    the.r->most_alive = tcm_max_u64(the.r->most_alive, the.alive);
    lane_place(l);
    return l;
}

/* --- The dealer: segments ------------------------------------------------- */

/* Looks at memory for the average; threads run meanwhile. */
static void see_memory(void) {
    if (the.apart)
        replay_rss_from(the.r->rss);
    else
        replay_rss_to(the.r->rss);
}

/* Waits until all segments are done. */
static void drain(void) {
    while (!is_flag(&the.stop) &&
           !replay_progress_await_all(&the.progress, MEMORY_NS))
        see_memory();
}

/* Segment I of B, which is batch NUMBER. */
static bool segment_deal(const struct replay_batch *b, uint32_t i,
                         uint32_t number) {
    const struct replay_segment *s = &b->segment[i];
    struct lane *l = lane_of(s);
    if (l == NULL)
        return false;
    replay_progress_segment(&the.progress, s);
    struct host *h = l->host;
    if (s->ends) {
        /* Its index may be another's from here on. */
        the.lane[s->index] = NULL;
        the.alive--;
        h->count--;
    }
    /* The lane and its host may end after this, and stay what they are until
       the dealer joins the thread. */
    replay_chain_append(&the.chain, &l->chain, number, i);
    event_wake(h);
    return true;
}

/* --- The dealer: batches -------------------------------------------------- */

/* B is paced: waits for its time. */
static void await_due(const struct replay_batch *b) {
    if (b->due_ns == 0)
        return;
    uint64_t now = tcm_clock_ns(), due = the.start_ns + b->due_ns;
    if (now < due)
        replay_sleep_until(due, the.r->rss);
    else
        the.r->late_ns = tcm_max_u64(the.r->late_ns, now - due);
}

/* Keeps the times of prologues and epilogues apart; nothing else runs then. */
static void phase_change(bool apart) {
    drain();
    uint64_t now = tcm_clock_ns(), cpu = tcm_clock_process_cpu_ns();
    if (apart) {
        the.apart_since_ns = now;
        the.apart_since_cpu_ns = cpu;
    } else {
        the.r->apart_ns += now - the.apart_since_ns;
        the.apart_cpu_ns += cpu - the.apart_since_cpu_ns;
    }
}

static bool batch_deal(const struct replay_batch *b, uint32_t number) {
    struct replay_real *r = the.r;
    if (!replay_table_fits(r->cells, b->slots)) {
        replay_own_before(&the.own);
        size_t had = r->cells->bytes;
        uint64_t huge = replay_rss_huge_before();
        if (!replay_table_grow(r->cells, b->slots))
            return false;
        replay_rss_huge_after(r->rss, huge);
        the.own.bytes += r->cells->bytes - had;
        replay_own_after(&the.own);
    }
    await_due(b);
    if (b->apart == 0)
        replay_share_see(r->share, b);
    replay_progress_batch(&the.progress, number, b->segments);
    for (uint32_t i = 0; i < b->segments; i++)
        if (!segment_deal(b, i, number))
            return false;
    return true;
}

/* Deals batch NUMBER. */
static void batch_next(const struct replay_batch *b, uint32_t number) {
    if (the.apart != (b->apart != 0)) {
        phase_change(!the.apart);
        the.apart = b->apart != 0;
    }
    if (batch_deal(b, number)) {
        /* It may be gone after this. */
        replay_progress_batch_dealt(&the.progress, number);
        return;
    }
    the.r->out_of_memory = true;
    tcm_store_release(&the.stop, 1u);
}

static bool wants_look(const struct replay_batch *b) {
    return (b->is_state != 0 && replay_rss_wants(the.r->rss, b->live_bytes)) ||
           (the.r->timeline != NULL &&
            replay_timeline_wants(the.r->timeline, b));
}

/* Looks at memory: all is as batch B left it, and nothing runs. */
static void look_at(const struct replay_batch *b) {
    struct replay_real *r = the.r;
    if (replay_rss_wants(r->rss, b->live_bytes))
        replay_rss_live(r->rss, b->live_bytes);
    if (r->timeline != NULL && replay_timeline_wants(r->timeline, b))
        replay_timeline_look(r->timeline, b, &r->exec->calls, r->rss,
                             tcm_clock_ns() - the.start_ns);
    replay_fidelity_look(r->fidelity, &r->exec->calls, b);
}

/* What is said of batch B, which may go when it is dealt. */
static const struct replay_batch *moment_of(const struct replay_batch *b) {
    memcpy(&the.moment_batch, b, offsetof(struct replay_batch, segment));
    return &the.moment_batch;
}

/*
 * Unless operations have times of their own, threads run while the decoding
 * process sleeps, and sleep while it fills the ring, since it would take a
 * processor from them.
 */
static void deal_all(const struct replay_batch *b) {
    struct replay_real *r = the.r;
    bool last = false;
    for (uint32_t number = 0; !last && !is_flag(&the.stop);) {
        if (!r->options.is_paced)
            replay_ring_await_full(r->ring, &r->child, &r->child_status);
        uint64_t start_ns = tcm_clock_ns();
        replay_rss_from(r->rss);
        if (!r->options.is_paced)
            replay_processors_turn(&the.processors);
        do {
            last = b->last != 0;
            the.moment = wants_look(b) ? moment_of(b) : NULL;
            batch_next(b, number++);
            b = NULL;
            if (!last && the.moment == NULL &&
                (r->options.is_paced || replay_ring_has(r->ring)))
                b = replay_ring_take(r->ring, &r->child, &r->child_status);
        } while (b != NULL && !is_flag(&the.stop));
        drain();
        r->wall_ns += tcm_clock_ns() - start_ns;
        if (the.moment != NULL)
            look_at(the.moment);
        if (!last && b == NULL)
            b = replay_ring_take(r->ring, &r->child, &r->child_status);
        if (!last && b == NULL) {
            r->cut_short = true;
            break;
        }
    }
    if (the.apart)
        phase_change(false);
}

static void *dealer_main(void *arg) {
    (void)arg;
    while (!is_flag(&the.go))
        tcm_futex_wait(&the.go, 0, IDLE_SLEEP_NS);
    uint64_t cpu_ns = tcm_clock_thread_cpu_ns();
    deal_all(the.first);
    the.dealer_cpu_ns = tcm_clock_thread_cpu_ns() - cpu_ns;
    tcm_store_release(&the.finished, 1u);
    event_wake(&the.main_host);
    for (struct host *h = the.hosts; h != NULL; h = h->next)
        event_wake(h);
    return NULL;
}

/* --- For the caller ------------------------------------------------------- */

uint64_t replay_real_bytes(const struct replay_real *r) {
    (void)r;
    return the.own.bytes;
}

/* As many cells as a limited address space allows. */
static uint64_t most_cells(void) {
    return tcm_min_u64(UINT32_MAX, tcm_os_address_limit() / 128);
}

static size_t report_bytes(void) {
    return tcm_align_up(REPLAY_LANE_REPORTS * sizeof(struct replay_lane_report),
                        tcm_os_page_size());
}

bool replay_real_begin(struct replay_real *r) {
    memset(&the, 0, sizeof(the));
    the.r = r;
    the.exec = *r->exec;
    replay_progress_begin(&the.progress, r->ring);
    the.own.rss = r->rss;
    the.main_host.is_main = true;
    replay_processors_begin(&the.processors);
    the.chain.ring = r->ring;
    the.host_count = 1;
    r->hosts = 1;
    size_t bytes = report_bytes();
    r->report = tcm_os_map(bytes);
    if (r->report == NULL || !replay_table_reserve(r->cells, most_cells())) {
        errno = ENOMEM;
        return false;
    }
    memset(r->report, 0, bytes);
    if (!replay_table_grow(r->cells, 1)) {
        errno = ENOMEM;
        return false;
    }
    the.own.bytes = r->own_bytes + bytes + r->cells->bytes + sizeof(the);
    errno = pthread_create(&the.dealer, NULL, dealer_main, NULL);
    return errno == 0;
}

void replay_real_run(struct replay_real *r, const struct replay_batch *b) {
    uint64_t cpu_ns = tcm_clock_process_cpu_ns();
    the.first = b;
    the.start_ns = tcm_clock_ns();
    tcm_store_release(&the.go, 1u);
    tcm_futex_wake(&the.go, 1);
    host_run(&the.main_host);
    while (!is_flag(&the.finished))
        tcm_futex_wait(&the.finished, 0, IDLE_SLEEP_NS);
    uint64_t elapsed_ns = tcm_clock_ns() - the.start_ns;
    cpu_ns = tcm_clock_process_cpu_ns() - cpu_ns;
    r->decoder_ns = elapsed_ns > r->wall_ns ? elapsed_ns - r->wall_ns : 0;
    r->wall_ns -= tcm_min_u64(r->apart_ns, r->wall_ns);
    uint64_t waits = the.gone_wait_cpu_ns + the.main_host.wait_cpu_ns;
    for (struct host *h = the.hosts; h != NULL; h = h->next)
        waits += tcm_load_relaxed(&h->wait_cpu_ns);
    uint64_t other = waits + the.dealer_cpu_ns + the.apart_cpu_ns;
    r->cpu_ns = cpu_ns > other ? cpu_ns - other : 0;
    r->peak_live_bytes = tcm_load_acquire(&the.progress.peak_bytes);
}

void replay_real_end(struct replay_real *r) {
    (void)r;
    tcm_store_release(&the.leave, 1u);
    tcm_futex_wake(&the.leave, INT32_MAX);
    pthread_join(the.dealer, NULL);
    hosts_collect(true);
    host_bury(&the.main_host);
    replay_own_end(&the.own);
    if (the.lane != NULL)
        tcm_os_unmap(the.lane, the.lanes * sizeof(*the.lane));
}

void replay_real_free(struct replay_real *r) {
    if (r->report != NULL)
        tcm_os_unmap(r->report, report_bytes());
    r->report = NULL;
}
