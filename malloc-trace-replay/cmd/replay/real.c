/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dealer: deals segments to lanes, makes a thread for each lane when it is
 * born, and joins threads that ended. It never waits for room: it deals all
 * that the ring has, gives lanes their threads in the order of births, and
 * sleeps until all is done.
 *
 * Why a birth cannot wait for ever: it waits for windows and ends that come
 * before it in the trace. All operations before it were dealt, to lanes that
 * are born, and none of them needs one behind it. So the earliest that is not
 * done can always run.
 */
#include "cmd/replay/real.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/os_mem.h"
#include "base/os_thread.h"
#include "cmd/replay/hosts.h"
#include "cmd/replay/own.h"
#include "common/stop.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

/* Number of the recorded program's main thread, in nearly all traces. */
#define MAIN_THREAD 1u
/* Time between two looks at the memory while threads run. */
#define MEMORY_NS 2000000u

/* There is one of everything; the dealer's function finds it here. */
static struct {
    struct replay_real *r;
    struct replay_crew crew;
    pthread_t dealer;
    const struct replay_batch *first;
    uint64_t start_ns;

    /* the dealer's */
    struct replay_lane **lane; /* by index */
    size_t lanes;
    struct replay_host *hosts;
    uint32_t host_count;
    /* Lanes that were dealt segments and are not born, in the order of births;
       lanes whose end was dealt and that no birth waited for, in that of
       ends. */
    struct replay_lane *unborn, *last_unborn, *ending, *last_ending;
    struct replay_host main_host;
    struct replay_own own;
    struct replay_own_list free_lanes, free_hosts;
    uint64_t dealer_cpu_ns;
    struct replay_delay delay;
    uint64_t apart_cpu_ns, apart_since_ns, apart_since_cpu_ns;
    const struct replay_batch *moment; /* to be looked at when it is done */
    struct replay_batch moment_batch;  /* its head */
    bool apart;                        /* now a prologue or epilogue is dealt */
    struct replay_exec exec;           /* what a lane begins with */
    /* By batch, the last ones: where they leave the trace, if they say so. */
    struct {
        bool is_state;
        struct replay_account account;
    } left[REPLAY_BATCHES_MOST];

    uint32_t go TCM_ALIGNED(64); /* the dealer may begin */
    uint64_t gone_wait_cpu_ns;   /* of hosts that were joined */
} the;

/* --- Waiting -------------------------------------------------------------- */

/* True if nothing more is to be done; a signal may ask for that. */
static bool is_stopped(void) {
    if (!replay_is_flag(&the.crew.stop) && tool_stop_is_due()) {
        the.r->interrupted = true;
        tcm_store_release(&the.crew.stop, 1u);
    }
    return replay_is_flag(&the.crew.stop);
}

/* Looks at memory for the average; threads run meanwhile. */
static void see_memory(void) {
    if (the.apart)
        replay_rss_from(the.r->rss);
    else
        replay_rss_to(the.r->rss);
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

static void lane_report(const struct replay_lane *l) {
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

static void lanes_bury(struct replay_lane *l) {
    struct replay_lane *next;
    for (; l != NULL; l = next) {
        next = l->next;
        lane_report(l);
        /* The list of those that end still has it. */
        l->is_buried = l->end != 0;
        if (l->end == 0)
            replay_own_push(&the.free_lanes, l);
    }
}

/* Its thread has ended: takes back what it had. */
static void host_bury(struct replay_host *h) {
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

/* H, whose thread was joined, is no more. */
static void host_joined(struct replay_host *h) {
    if (h->before != NULL)
        h->before->next = h->next;
    else
        the.hosts = h->next;
    if (h->next != NULL)
        h->next->before = h->before;
    host_bury(h);
}

/* Joins threads that ended; ALL: waits for all. */
static void hosts_collect(bool all) {
    struct replay_host *next;
    for (struct replay_host *h = the.hosts; h != NULL; h = next) {
        next = h->next;
        if (all || replay_is_flag(&h->left)) {
            pthread_join(h->thread, NULL);
            host_joined(h);
        } else {
            lanes_bury(tcm_swap_acq_rel(&h->ended, NULL));
        }
    }
}

/* Stacks may take a quarter of a limited address space; the allocator needs the
   rest. */
static bool stacks_are_many(void) {
    return the.host_count >= tcm_os_address_limit() / 4 / REPLAY_STACK_BYTES;
}

/* NULL: the system has no thread, or no memory, to give. */
static struct replay_host *host_make(struct replay_lane *l) {
    pthread_attr_t attr;
    if (stacks_are_many())
        return NULL;
    struct replay_host *h =
        replay_own_piece(&the.own, &the.free_hosts, sizeof(*h));
    if (h == NULL)
        return NULL;
    h->stack = replay_own_stack(&the.own);
    if (h->stack == NULL) {
        replay_own_push(&the.free_hosts, h);
        return NULL;
    }
    h->crew = &the.crew;
    h->lanes = l;
    h->count = l->end == 0;
    l->host = h;
    pthread_attr_init(&attr);
    int error = pthread_attr_setstack(&attr, h->stack, REPLAY_STACK_BYTES);
    if (error == 0)
        error = replay_own_thread(&h->thread, &attr, replay_host_main, h);
    pthread_attr_destroy(&attr);
    if (error != 0) {
        replay_own_stack_back(&the.own, h->stack);
        replay_own_push(&the.free_hosts, h);
        return NULL;
    }
    h->next = the.hosts;
    if (h->next != NULL)
        h->next->before = h;
    the.hosts = h;
    the.host_count++;
    the.r->hosts = tcm_max_u64(the.r->hosts, the.host_count);
    return h;
}

/* The host with the fewest lanes. One without lanes is about to end, unless it
   is the main host or the number of hosts is limited. */
static struct replay_host *host_with_least(void) {
    struct replay_host *least = &the.main_host;
    bool they_stay = the.r->options.most_hosts != 0;
    for (struct replay_host *h = the.hosts; h != NULL; h = h->next)
        if (h->count < least->count && (h->count != 0 || they_stay))
            least = h;
    return least;
}

/* Gives lane L a thread. */
static void lane_place(struct replay_lane *l) {
    uint32_t most = the.r->options.most_hosts;
    struct replay_host *h = NULL;
    if (l->thread == MAIN_THREAD && the.main_host.lanes == NULL) {
        h = &the.main_host;
    } else if (most == 0 || the.host_count < most) {
        if (the.r->pooled)
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
    h->is_shared = true;
    h->count += l->end == 0;
    tcm_store_release(&h->lanes, l);
    /* It may have segments already. */
    replay_host_wake(h);
}

/* The lane of segment S, if it was born. */
static struct replay_lane *lane_find(const struct replay_segment *s) {
    struct replay_lane *l = s->index < the.lanes ? the.lane[s->index] : NULL;
    TCM_ASSERT(l == NULL || l->number == s->lane);
    return l;
}

/* Makes the lane of segment S, its first. NULL: out of memory. */
static struct replay_lane *lane_make(const struct replay_segment *s) {
    if (!lanes_extend(s->index))
        return NULL;
    struct replay_lane *l =
        replay_own_piece(&the.own, &the.free_lanes, sizeof(*l));
    if (l == NULL)
        return NULL;
    l->exec = the.exec;
    l->exec.cell = the.r->cells->memory;
    l->number = s->lane;
    l->thread = s->thread;
    l->after = s->after;
    l->needs = s->needs;
    l->why = NEEDS_WORK;
    the.lane[s->index] = l;
    if (the.last_unborn != NULL)
        the.last_unborn->next_unborn = l;
    else
        the.unborn = l;
    the.last_unborn = l;
    return l;
}

/* --- The dealer: births and ends ------------------------------------------ */

/* Joins the thread of H, which has one lane, whose end was dealt. False:
   stopped. */
static bool host_await(struct replay_host *h) {
    struct timespec due;
    for (;;) {
        clock_gettime(CLOCK_REALTIME, &due);
        uint64_t ns = (uint64_t)due.tv_nsec + MEMORY_NS;
        due.tv_sec += (time_t)(ns / 1000000000u);
        due.tv_nsec = (long)(ns % 1000000000u);
        if (pthread_timedjoin_np(h->thread, NULL, &due) == 0)
            break;
        if (is_stopped())
            return false;
        see_memory();
    }
    host_joined(h);
    return true;
}

/* Waits until lane L, whose end was dealt, is done, and its thread gone if it
   had one of its own. False: stopped. */
static bool end_await(struct replay_lane *l) {
    struct replay_host *h = l->host;
    if (!h->is_main && !h->is_shared && the.r->options.most_hosts == 0)
        return host_await(h);
    while (!replay_lane_await_over(&the.crew, l, MEMORY_NS)) {
        if (is_stopped())
            return false;
        see_memory();
    }
    return true;
}

/* Lane L ends as number END. Ends of one batch are not dealt in their order. */
static void ending_add(struct replay_lane *l, uint32_t end) {
    struct replay_lane *before = the.last_ending;
    while (before != NULL && (int32_t)(before->end - end) > 0)
        before = before->before_ending;
    struct replay_lane *next =
        before != NULL ? before->next_ending : the.ending;
    l->end = end;
    l->before_ending = before;
    l->next_ending = next;
    *(before != NULL ? &before->next_ending : &the.ending) = l;
    *(next != NULL ? &next->before_ending : &the.last_ending) = l;
}

/* All ends up to number LAST are done; WAITS for them. False: they are not, or
   stopped. */
static bool ends_are_done(uint32_t last, bool waits) {
    struct replay_lane *l;
    while ((l = the.ending) != NULL && (int32_t)(l->end - last) <= 0) {
        if (!waits && !l->is_buried && !replay_is_flag(&l->over))
            return false;
        the.ending = l->next_ending;
        *(the.ending != NULL ? &the.ending->before_ending : &the.last_ending) =
            NULL;
        l->end = 0;
        if (l->is_buried)
            replay_own_push(&the.free_lanes, l);
        else if (!end_await(l))
            return false;
    }
    return true;
}

static bool is_stopped_now(void *unused) {
    (void)unused;
    return is_stopped();
}

/*
 * Lane L, the first that is not born, may begin: those that end before it in
 * the trace are gone, and so many windows are finished. So there are never more
 * threads than the trace has alive at one place of it, and none takes memory
 * before its time. WAITS until that is so. False: it is not, or stopped.
 */
static bool may_be_born(const struct replay_lane *l, bool waits) {
    struct replay_progress *p = &the.crew.progress;
    if (!ends_are_done(l->after, waits))
        return false;
    while (
        !replay_window_reached(tcm_load_acquire(&p->window_done), l->needs)) {
        if (!waits || is_stopped())
            return false;
        replay_progress_sleep(p, l->needs, is_stopped_now, NULL, MEMORY_NS);
        see_memory();
    }
    return !is_stopped();
}

/* Births between two looks at how long the dealer waits for its processor. */
#define LOOK_BIRTHS 64u

/*
 * Other work on the processors makes each birth wait for the rest of that
 * work's slices, some milliseconds. A thread with short slices, which those
 * that it makes inherit, runs at once when it is woken (Linux from 6.12 on).
 */
static void see_processors(void) {
    if (replay_is_delayed(&the.delay))
        tcm_os_short_slice();
}

/* Gives lanes that were dealt their threads, as soon as each may begin; WAITS
   until all have them. All operations before their births were dealt, too. */
static void births_run(bool waits) {
    struct replay_lane *l;
    while ((l = the.unborn) != NULL && may_be_born(l, waits)) {
        the.unborn = l->next_unborn;
        if (the.unborn == NULL)
            the.last_unborn = NULL;
        the.r->lanes++;
        the.r->most_alive =
            tcm_max_u64(the.r->most_alive, the.r->lanes - l->after);
        lane_place(l);
        if (the.r->lanes % LOOK_BIRTHS == 0)
            see_processors();
    }
}

/* Waits until all segments are done. */
static void drain(void) {
    births_run(true);
    while (!is_stopped() &&
           !replay_progress_await_all(&the.crew.progress, MEMORY_NS))
        see_memory();
}

/* --- The dealer: segments ------------------------------------------------- */

/* Segment I of B, which is batch NUMBER. False: out of memory. */
static bool segment_deal(const struct replay_batch *b, uint32_t i,
                         uint32_t number) {
    const struct replay_segment *s = &b->segment[i];
    struct replay_lane *l = lane_find(s);
    if (l == NULL)
        l = lane_make(s);
    if (l == NULL)
        return false;
    replay_progress_segment(&the.crew.progress, s);
    struct replay_host *h = l->host;
    if (s->ends != 0) {
        /* Its index may be another's from here on. */
        the.lane[s->index] = NULL;
        ending_add(l, s->ends);
        if (h != NULL)
            h->count--;
    }
    /* The lane and its host may end after this, and stay what they are until
       the dealer joins the thread. */
    replay_chain_append(&the.crew.chain, &l->chain, number, i);
    if (h != NULL)
        replay_host_wake(h);
    return true;
}

/* --- The dealer: batches -------------------------------------------------- */

/* B is paced: waits for its time. */
static void await_due(const struct replay_batch *b) {
    if (b->due_ns == 0)
        return;
    uint64_t now = tcm_clock_ns();
    uint64_t due = the.start_ns + the.r->rss->look_ns + b->due_ns;
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
    replay_progress_batch(&the.crew.progress, number, b->segments);
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
    the.left[number % REPLAY_BATCHES_MOST].is_state = b->is_state != 0;
    the.left[number % REPLAY_BATCHES_MOST].account = b->account;
    if (batch_deal(b, number)) {
        /* It may be gone after this. */
        replay_progress_batch_dealt(&the.crew.progress, number);
        return;
    }
    the.r->out_of_memory = !is_stopped();
    tcm_store_release(&the.crew.stop, 1u);
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
    for (uint32_t number = 0;;) {
        if (!r->options.is_paced)
            replay_ring_await_full(r->ring, &r->child, &r->child_status);
        uint64_t start_ns = tcm_clock_ns();
        replay_rss_from(r->rss);
        if (!r->options.is_paced)
            replay_processors_turn(&the.crew.processors);
        do {
            last = b->last != 0;
            the.moment = wants_look(b) ? moment_of(b) : NULL;
            batch_next(b, number++);
            births_run(r->options.is_paced);
            b = NULL;
            if (!last && the.moment == NULL &&
                (r->options.is_paced || replay_ring_has(r->ring)))
                b = replay_ring_take(r->ring, &r->child, &r->child_status);
        } while (b != NULL && !is_stopped());
        drain();
        r->wall_ns += tcm_clock_ns() - start_ns;
        if (the.moment != NULL)
            look_at(the.moment);
        if (last || is_stopped())
            break;
        if (b == NULL)
            b = replay_ring_take(r->ring, &r->child, &r->child_status);
        if (b == NULL) {
            r->cut_short = !is_stopped();
            break;
        }
    }
    if (the.apart)
        phase_change(false);
}

static void *dealer_main(void *arg) {
    (void)arg;
    replay_own_thread_begin();
    while (!replay_is_flag(&the.go))
        tcm_futex_wait(&the.go, 0, REPLAY_IDLE_NS);
    uint64_t cpu_ns = tcm_clock_thread_cpu_ns();
    deal_all(the.first);
    the.dealer_cpu_ns = tcm_clock_thread_cpu_ns() - cpu_ns;
    tcm_store_release(&the.crew.finished, 1u);
    replay_host_wake(&the.main_host);
    for (struct replay_host *h = the.hosts; h != NULL; h = h->next)
        replay_host_wake(h);
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
    replay_progress_begin(&the.crew.progress, r->ring);
    the.own.rss = r->rss;
    the.crew.options = &r->options;
    the.main_host.crew = &the.crew;
    the.main_host.is_main = true;
    replay_processors_begin(&the.crew.processors);
    the.crew.chain.ring = r->ring;
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
    the.own.bytes = r->own_bytes + bytes + r->cells->bytes;
    errno = replay_own_thread(&the.dealer, NULL, dealer_main, NULL);
    return errno == 0;
}

void replay_real_run(struct replay_real *r, const struct replay_batch *b) {
    uint64_t cpu_ns = tcm_clock_process_cpu_ns();
    the.first = b;
    the.start_ns = tcm_clock_ns();
    tcm_store_release(&the.go, 1u);
    tcm_futex_wake(&the.go, 1);
    replay_host_run(&the.main_host);
    while (!replay_is_flag(&the.crew.finished))
        tcm_futex_wait(&the.crew.finished, 0, REPLAY_IDLE_NS);
    uint64_t elapsed_ns = tcm_clock_ns() - the.start_ns;
    cpu_ns = tcm_clock_process_cpu_ns() - cpu_ns;
    r->decoder_ns = elapsed_ns > r->wall_ns ? elapsed_ns - r->wall_ns : 0;
    r->wall_ns -= tcm_min_u64(r->apart_ns, r->wall_ns);
    uint64_t waits = the.gone_wait_cpu_ns + the.main_host.wait_cpu_ns;
    for (struct replay_host *h = the.hosts; h != NULL; h = h->next)
        waits += tcm_load_relaxed(&h->wait_cpu_ns);
    uint64_t other = waits + the.dealer_cpu_ns + the.apart_cpu_ns;
    r->cpu_ns = cpu_ns > other ? cpu_ns - other : 0;
    r->peak_live_bytes = tcm_load_acquire(&the.crew.progress.peak_bytes);
}

/* The account up to a place before which all operations were done. */
static struct replay_account account_done(const struct replay_real *r) {
    uint32_t taken = tcm_load_acquire(&r->ring->taken);
    for (uint32_t i = 1; i <= REPLAY_BATCHES_MOST && i <= taken; i++)
        if (the.left[(taken - i) % REPLAY_BATCHES_MOST].is_state)
            return the.left[(taken - i) % REPLAY_BATCHES_MOST].account;
    return (struct replay_account){0};
}

void replay_real_end(struct replay_real *r) {
    tcm_store_release(&the.crew.leave, 1u);
    tcm_futex_wake(&the.crew.leave, INT32_MAX);
    pthread_join(the.dealer, NULL);
    hosts_collect(true);
    host_bury(&the.main_host);
    r->done = account_done(r);
    replay_own_end(&the.own);
    if (the.lane != NULL)
        tcm_os_unmap(the.lane, the.lanes * sizeof(*the.lane));
}

void replay_real_free(struct replay_real *r) {
    if (r->report != NULL)
        tcm_os_unmap(r->report, report_bytes());
    r->report = NULL;
}
