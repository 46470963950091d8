/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dealer: deals segments to lanes, gives each new lane a host, and joins
 * threads that ended. It never waits for room: it deals all batches of the
 * ring, gives lanes their hosts in the order of births, and sleeps until all
 * segments are done.
 *
 * Why births do not deadlock: a birth waits only for windows and ends that
 * precede it in the trace. All operations before it were dealt to lanes with a
 * host, and need nothing that follows. So the earliest open operation can run.
 */
#include "cmd/replay/run/real.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_thread.h"
#include "cmd/replay/run/hosts.h"
#include "cmd/replay/run/own_memory.h"
#include "cmd/replay/run/recorded_clock.h"
#include "common/stop.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

/* Number of the recorded program's main thread, in nearly all traces. */
#define MAIN_THREAD 1u
/* Batches of which the state is kept. */
#define STATES (2 * REPLAY_BATCHES_MOST)
/* Time from one measurement of memory to the next while threads run. */
#define MEMORY_NS 2000000u

/* A process has one dealer, which runs at most once. */
static struct {
    struct replay_real *real;
    struct replay_crew crew;
    pthread_t thread;
    void *stack; /* of that thread */
    const struct replay_batch *first;

    /* Used by the dealer's thread only. */
    struct replay_lane **lane; /* by index */
    size_t lanes;
    struct replay_host *hosts;
    uint32_t host_count;
    /* Lanes that were dealt segments and are not born, in the order of births;
       lanes whose end was dealt and that no birth has waited for, in the order
       of ends. */
    struct replay_lane *unborn, *last_unborn, *ending, *last_ending;
    struct replay_host main_host;
    struct replay_arena arena;
    struct replay_arena_list free_lanes, free_hosts;
    uint64_t dealer_cpu_ns;
    struct replay_cpu dealer_cpu;
    uint64_t retired; /* lanes whose waits and counts are in the sums */
    struct replay_delay delay;
    uint64_t clock_ns; /* recorded time up to which deadlines were served */
    struct replay_batch clock_head; /* head of the last batch dealt */
    uint64_t run_since_ns; /* begin of a run that wall_ns does not count yet;
                              0: all threads wait for the decoding process */
    uint64_t apart_cpu_ns, apart_since_ns, apart_since_cpu_ns;
    struct replay_cpu apart_cpu, apart_since_cpu;
    const struct replay_batch *moment; /* batch after which observers look;
                                          NULL: none */
    struct replay_batch moment_batch;  /* its head */
    uint64_t moment_ops;               /* operations at the last moment */
    bool apart;                        /* a prologue or epilogue is being dealt
                                          */
    struct replay_exec exec;           /* state that a lane begins with */
    /* By batch: state of the trace behind it, if known. Room for all batches
       that are dealt and as many that were done before them. */
    struct {
        bool is_state;
        struct replay_account account;
    } batch_state[STATES];

    uint32_t go TCM_ALIGNED(64); /* the dealer may begin */
    uint64_t gone_wait_cpu_ns;   /* waits of joined hosts */
    struct replay_cpu gone_wait_cpu;
} dealer;

/* Recorded time from one point where all threads come to rest to the next. */
#define CLOCK_PART_NS 10000000u

/* --- Waiting -------------------------------------------------------------- */

/* True if all is to stop. Sets the flag when a signal asks for that. */
static bool dealer_is_stopped(void) {
    if (!replay_flag_is_set(&dealer.crew.stop) && tool_stop_is_due()) {
        dealer.real->interrupted = true;
        tcm_store_release(&dealer.crew.stop, 1u);
    }
    return replay_flag_is_set(&dealer.crew.stop);
}

/* Measures memory for the average while threads run. */
static void memory_sample(void) {
    if (dealer.apart)
        replay_rss_from(dealer.real->watch->rss);
    else
        replay_rss_to(dealer.real->watch->rss);
}

/* --- The dealer: threads -------------------------------------------------- */

static bool lanes_extend(size_t index) {
    if (index < dealer.lanes)
        return true;
    size_t n = dealer.lanes == 0 ? 8192 : dealer.lanes * 2;
    while (n <= index)
        n *= 2;
    replay_arena_before(&dealer.arena);
    void *p =
        dealer.lane == NULL
            ? tcm_os_map(n * sizeof(*dealer.lane))
            : tcm_os_remap(dealer.lane, dealer.lanes * sizeof(*dealer.lane),
                           n * sizeof(*dealer.lane));
    if (p == NULL)
        return false;
    replay_own_forget(dealer.lane);
    replay_own_note(p, n * sizeof(*dealer.lane));
    dealer.lane = p;
    memset(dealer.lane + dealer.lanes, 0,
           (n - dealer.lanes) * sizeof(*dealer.lane));
    dealer.arena.bytes += (n - dealer.lanes) * sizeof(*dealer.lane);
    dealer.lanes = n;
    replay_arena_after(&dealer.arena);
    return true;
}

/* Adds the waits and counts of a lane that has ended to the sums. */
static void lane_report(const struct replay_lane *l) {
    struct replay_real *r = dealer.real;
    dealer.retired++;
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

static void lanes_retire(struct replay_lane *l) {
    struct replay_lane *next;
    for (; l != NULL; l = next) {
        next = l->next;
        lane_report(l);
        /* The list of ends still has the lane. */
        l->is_retired = l->end != 0;
        if (l->end == 0)
            replay_arena_push(&dealer.free_lanes, l);
    }
}

/* Takes back the lanes, stack and place of H, whose thread has ended. */
static void host_retire(struct replay_host *h) {
    lanes_retire(h->ended);
    lanes_retire(h->lanes);
    h->lanes = h->ended = NULL;
    dealer.gone_wait_cpu_ns += h->wait_cpu_ns;
    h->wait_cpu_ns = 0;
    dealer.gone_wait_cpu = replay_cpu_add(dealer.gone_wait_cpu, h->wait_cpu);
    h->wait_cpu = (struct replay_cpu){0, 0};
    if (h->is_main)
        return;
    replay_arena_stack_back(&dealer.arena, h->stack);
    replay_arena_push(&dealer.free_hosts, h);
    dealer.host_count--;
}

/* Removes H, whose thread was joined. */
static void host_joined(struct replay_host *h) {
    if (h->before != NULL)
        h->before->next = h->next;
    else
        dealer.hosts = h->next;
    if (h->next != NULL)
        h->next->before = h->before;
    host_retire(h);
}

/* Joins threads that have ended; ALL: waits for all. */
static void hosts_collect(bool all) {
    struct replay_host *next;
    for (struct replay_host *h = dealer.hosts; h != NULL; h = next) {
        next = h->next;
        if (all || replay_flag_is_set(&h->left)) {
            pthread_join(h->thread, NULL);
            host_joined(h);
        } else {
            lanes_retire(tcm_swap_acq_rel(&h->ended, NULL));
        }
    }
}

/* True if stacks take a quarter of a limited address space. The allocator needs
   the rest. */
static bool stacks_are_many(void) {
    return dealer.host_count >= tcm_os_address_limit() / 4 / REPLAY_STACK_BYTES;
}

/* Makes a host for lane L. NULL: the system refuses a thread, or memory. */
static struct replay_host *host_make(struct replay_lane *l) {
    pthread_attr_t attr;
    if (stacks_are_many())
        return NULL;
    struct replay_host *h =
        replay_arena_piece(&dealer.arena, &dealer.free_hosts, sizeof(*h));
    if (h == NULL)
        return NULL;
    h->stack = replay_arena_stack(&dealer.arena);
    if (h->stack == NULL) {
        replay_arena_push(&dealer.free_hosts, h);
        return NULL;
    }
    h->crew = &dealer.crew;
    h->lanes = l;
    h->count = l->end == 0;
    l->host = h;
    pthread_attr_init(&attr);
    int error = pthread_attr_setstack(&attr, h->stack, REPLAY_STACK_BYTES);
    if (error == 0)
        error = replay_thread_make(&h->thread, &attr, replay_host_main, h);
    pthread_attr_destroy(&attr);
    if (error != 0) {
        replay_arena_stack_back(&dealer.arena, h->stack);
        replay_arena_push(&dealer.free_hosts, h);
        return NULL;
    }
    h->next = dealer.hosts;
    if (h->next != NULL)
        h->next->before = h;
    dealer.hosts = h;
    dealer.host_count++;
    dealer.real->hosts = tcm_max_u64(dealer.real->hosts, dealer.host_count);
    return h;
}

/* Returns the host with the fewest lanes. A host without lanes is about to end,
   unless it is the main host or the number of hosts is limited. */
static struct replay_host *host_with_least(void) {
    struct replay_host *least = &dealer.main_host;
    bool they_stay = dealer.real->options.most_hosts != 0;
    for (struct replay_host *h = dealer.hosts; h != NULL; h = h->next)
        if (h->count < least->count && (h->count != 0 || they_stay))
            least = h;
    return least;
}

/* Gives lane L a host. */
static void lane_place(struct replay_lane *l) {
    uint32_t most = dealer.real->options.most_hosts;
    struct replay_host *h = NULL;
    if (l->thread == MAIN_THREAD && dealer.main_host.lanes == NULL) {
        h = &dealer.main_host;
    } else if (most == 0 || dealer.host_count < most) {
        if (dealer.real->pooled)
            hosts_collect(false);
        h = host_make(l);
        if (h != NULL)
            return;
        dealer.real->pooled = true;
    }
    if (h == NULL)
        h = host_with_least();
    lanes_retire(tcm_swap_acq_rel(&h->ended, NULL));
    l->host = h;
    l->next = h->lanes;
    h->is_shared = true;
    h->count += l->end == 0;
    tcm_store_release(&h->lanes, l);
    /* The lane may have segments already. */
    replay_host_wake(h);
}

/* Returns the lane of segment S; NULL: not made yet. */
static struct replay_lane *lane_find(const struct replay_segment *s) {
    struct replay_lane *l =
        s->index < dealer.lanes ? dealer.lane[s->index] : NULL;
    TCM_ASSERT(l == NULL || l->number == s->lane);
    return l;
}

/* Makes the lane of segment S, its first. NULL: out of memory. */
static struct replay_lane *lane_make(const struct replay_segment *s) {
    if (!lanes_extend(s->index))
        return NULL;
    struct replay_lane *l =
        replay_arena_piece(&dealer.arena, &dealer.free_lanes, sizeof(*l));
    if (l == NULL)
        return NULL;
    l->exec = dealer.exec;
    l->exec.cell = dealer.real->cells->memory;
    l->number = s->lane;
    l->thread = s->thread;
    l->after = s->after;
    l->needs = s->needs;
    l->state = REPLAY_LANE_NEEDS_WORK;
    dealer.lane[s->index] = l;
    if (dealer.last_unborn != NULL)
        dealer.last_unborn->next_unborn = l;
    else
        dealer.unborn = l;
    dealer.last_unborn = l;
    return l;
}

/* --- The dealer: births and ends ------------------------------------------ */

/* Joins the thread of H, which has one lane, whose end was dealt. False:
   stopped. */
static bool host_await(struct replay_host *h) {
    for (;;) {
        struct timespec due =
            replay_timespec_of(tcm_clock_wall_ns() + MEMORY_NS);
        if (pthread_timedjoin_np(h->thread, NULL, &due) == 0)
            break;
        if (dealer_is_stopped())
            return false;
        memory_sample();
    }
    host_joined(h);
    return true;
}

/* Waits until lane L, whose end was dealt, is done, and its thread has ended if
   that was its own. False: stopped. */
static bool end_await(struct replay_lane *l) {
    struct replay_host *h = l->host;
    if (!h->is_main && !h->is_shared && dealer.real->options.most_hosts == 0)
        return host_await(h);
    while (!replay_lane_await_over(&dealer.crew, l, MEMORY_NS)) {
        if (dealer_is_stopped())
            return false;
        memory_sample();
    }
    return true;
}

/* Notes that lane L ends as number END. Ends of one batch are not dealt in
   their order. */
static void ending_add(struct replay_lane *l, uint32_t end) {
    struct replay_lane *before = dealer.last_ending;
    while (before != NULL && (int32_t)(before->end - end) > 0)
        before = before->before_ending;
    struct replay_lane *next =
        before != NULL ? before->next_ending : dealer.ending;
    l->end = end;
    l->before_ending = before;
    l->next_ending = next;
    *(before != NULL ? &before->next_ending : &dealer.ending) = l;
    *(next != NULL ? &next->before_ending : &dealer.last_ending) = l;
}

/* True if all ends up to number LAST are done; WAITS until they are. False:
   they are not, or stopped. */
static bool ends_are_done(uint32_t last, bool waits) {
    struct replay_lane *l;
    while ((l = dealer.ending) != NULL && (int32_t)(l->end - last) <= 0) {
        if (!waits && !l->is_retired && !replay_flag_is_set(&l->over))
            return false;
        dealer.ending = l->next_ending;
        *(dealer.ending != NULL ? &dealer.ending->before_ending
                                : &dealer.last_ending) = NULL;
        l->end = 0;
        if (l->is_retired)
            replay_arena_push(&dealer.free_lanes, l);
        else if (!end_await(l))
            return false;
    }
    return true;
}

static bool stop_is_ready(void *unused) {
    (void)unused;
    return dealer_is_stopped();
}

/* True if lane L, the next to be born, may begin: all lanes that end before it
   in the trace have ended, and the windows that it needs are finished. So the
   replay never has more threads, or their memory, than the trace has at one
   place. WAITS: waits for that, or for a stop (false). */
static bool may_be_born(const struct replay_lane *l, bool waits) {
    struct replay_progress *p = &dealer.crew.progress;
    if (!ends_are_done(l->after, waits))
        return false;
    while (
        !replay_window_reached(tcm_load_acquire(&p->window_done), l->needs)) {
        if (!waits || dealer_is_stopped())
            return false;
        replay_progress_sleep(p, l->needs, stop_is_ready, NULL, MEMORY_NS);
        memory_sample();
    }
    return !dealer_is_stopped();
}

/* Births from one check of the dealer's waits for its processor to the next. */
#define CHECK_BIRTHS 64u

/* Asks for short slices if other work delays the dealer. Each birth waits for
   the rest of a slice of that work, some milliseconds; but a thread with short
   slices, and the threads that it makes, run at once when woken (Linux from
   6.12 on). */
static void processors_check(void) {
    if (replay_is_delayed(&dealer.delay))
        tcm_os_short_slice();
}

/* Gives unborn lanes their hosts, each as soon as it may begin; WAITS until all
   have one. All operations before their births were dealt. */
static void births_run(bool waits) {
    struct replay_lane *l;
    while ((l = dealer.unborn) != NULL && may_be_born(l, waits)) {
        dealer.unborn = l->next_unborn;
        if (dealer.unborn == NULL)
            dealer.last_unborn = NULL;
        dealer.real->lanes++;
        dealer.real->most_alive =
            tcm_max_u64(dealer.real->most_alive, dealer.real->lanes - l->after);
        lane_place(l);
        if (dealer.real->lanes % CHECK_BIRTHS == 0)
            processors_check();
    }
}

/* Waits until all segments are done. */
static void dealer_drain(void) {
    births_run(true);
    while (!dealer_is_stopped() &&
           !replay_progress_await_all(&dealer.crew.progress, MEMORY_NS))
        memory_sample();
}

/* --- The dealer: segments ------------------------------------------------- */

/* Deals segment I of B, which is batch NUMBER. False: out of memory. */
static bool segment_deal(const struct replay_batch *b, uint32_t i,
                         uint32_t number) {
    const struct replay_segment *s = &b->segment[i];
    struct replay_lane *l = lane_find(s);
    if (l == NULL)
        l = lane_make(s);
    if (l == NULL)
        return false;
    replay_progress_segment(&dealer.crew.progress, s);
    struct replay_host *h = l->host;
    if (s->ends != 0) {
        /* From here on the index may be another lane's. */
        dealer.lane[s->index] = NULL;
        ending_add(l, s->ends);
        if (h != NULL)
            h->count--;
    }
    /* After this the lane and its host may end. They keep their memory until
       the dealer joins the thread. */
    replay_chain_append(&dealer.crew.chain, &l->chain, number, i);
    if (h != NULL)
        replay_host_wake(h);
    return true;
}

/* --- The dealer: batches -------------------------------------------------- */

/* Processor time of waits, of all hosts. */
static uint64_t waits_cpu_ns(void) {
    uint64_t ns = dealer.gone_wait_cpu_ns +
                  tcm_load_relaxed(&dealer.main_host.wait_cpu_ns);
    for (struct replay_host *h = dealer.hosts; h != NULL; h = h->next)
        ns += tcm_load_relaxed(&h->wait_cpu_ns);
    return ns;
}

static struct replay_cpu wait_cpu_of(const struct replay_host *h) {
    return (struct replay_cpu){tcm_load_relaxed(&h->wait_cpu.user_ns),
                               tcm_load_relaxed(&h->wait_cpu.system_ns)};
}

/* Works like waits_cpu_ns, by the kernel's account. */
static struct replay_cpu waits_cpu(void) {
    struct replay_cpu sum =
        replay_cpu_add(dealer.gone_wait_cpu, wait_cpu_of(&dealer.main_host));
    for (struct replay_host *h = dealer.hosts; h != NULL; h = h->next)
        sum = replay_cpu_add(sum, wait_cpu_of(h));
    return sum;
}

/* Time of the run up to now, with that of prologues and epilogues, and without
   that in which all threads wait for the decoding process. */
static uint64_t run_ns(void) {
    uint64_t since = dealer.run_since_ns;
    return dealer.real->wall_ns + (since == 0 ? 0 : tcm_clock_ns() - since);
}

/* Begins or ends (not APART) a prologue or epilogue, with nothing else running,
   so that its time is kept apart. */
static void phase_change(bool apart) {
    dealer_drain();
    uint64_t now = run_ns(), cpu = tcm_clock_process_cpu_ns();
    uint64_t other = tcm_clock_thread_cpu_ns() + waits_cpu_ns();
    cpu = cpu > other ? cpu - other : 0;
    struct replay_cpu parts = replay_cpu_less(
        replay_cpu_process(), replay_cpu_add(replay_cpu_thread(), waits_cpu()));
    if (apart) {
        dealer.apart_since_ns = now;
        dealer.apart_since_cpu_ns = cpu;
        dealer.apart_since_cpu = parts;
    } else {
        dealer.apart_cpu = replay_cpu_add(
            dealer.apart_cpu, replay_cpu_less(parts, dealer.apart_since_cpu));
        dealer.real->apart_ns += now - dealer.apart_since_ns;
        if (cpu > dealer.apart_since_cpu_ns)
            dealer.apart_cpu_ns += cpu - dealer.apart_since_cpu_ns;
    }
}

static void moment_note(const struct replay_batch *b) {
    dealer.moment_ops = b->account.ops;
    replay_watch_moment(dealer.real->watch, b);
}

/* Makes a moment of the state at which all threads rest, unless it was one. */
static void moment_of_rest(void) {
    struct replay_batch *b = &dealer.clock_head;
    if (!b->is_state || b->account.ops == dealer.moment_ops)
        return;
    b->sampled = 0;
    moment_note(b);
}

/*
 * Leads the clock to the time of B. Threads that run operations lead it
 * themselves; for a pause, a deadline or a long step all threads stop first.
 * (A deadline that an operation in flight registers waits for the next such
 * step.)
 */
static void clock_lead(const struct replay_batch *b) {
    struct replay_watch *w = dealer.real->watch;
    uint64_t from = dealer.clock_ns;
    bool is_dealt = from / CLOCK_PART_NS == b->due_ns / CLOCK_PART_NS &&
                    replay_clock_next_deadline() > b->due_ns;
    if (b->due_ns <= from || is_dealt)
        return;
    dealer_drain();
    moment_of_rest();
    replay_watch_pass(w, dealer.clock_head.is_state ? &dealer.clock_head : NULL,
                      from, b->due_ns);
    dealer.clock_ns = b->due_ns;
}

/* Lets the rest of recorded time pass, behind the last operation. */
static void clock_pass_last(void) {
    const struct replay_batch *b = &dealer.clock_head;
    replay_watch_pass(dealer.real->watch, b->is_state ? b : NULL,
                      dealer.clock_ns, b->due_ns + b->span_ns);
}

/* Sleeps through a pause before B, where memory is measured. */
static void pause_sleep(const struct replay_batch *b) {
    struct replay_watch *w = dealer.real->watch;
    const struct replay_batch *last = &dealer.clock_head;
    if (!replay_watch_pauses(w, b->due_ns))
        return;
    dealer_drain();
    replay_watch_sleep(w, last->is_state ? last : NULL, b->due_ns);
}

/* Makes room for COUNT cells. False: out of memory. */
static bool cells_fit(uint32_t count) {
    struct replay_real *r = dealer.real;
    if (replay_table_fits(r->cells, count))
        return true;
    replay_arena_before(&dealer.arena);
    size_t had = r->cells->bytes;
    uint64_t huge = replay_rss_huge_before();
    if (!replay_table_grow(r->cells, count))
        return false;
    replay_rss_huge_after(r->watch->rss, huge);
    dealer.arena.bytes += r->cells->bytes - had;
    replay_arena_after(&dealer.arena);
    return true;
}

static bool batch_deal(const struct replay_batch *b, uint32_t number) {
    struct replay_real *r = dealer.real;
    if (!cells_fit(b->slots))
        return false;
    if (r->options.clock) {
        clock_lead(b);
    } else {
        pause_sleep(b);
        uint64_t late_ns =
            replay_await_due(b, r->watch->start_ns, r->watch->rss);
        r->late_ns = tcm_max_u64(r->late_ns, late_ns);
    }
    replay_watch_batch(r->watch, b);
    replay_progress_batch(&dealer.crew.progress, number, b->segments);
    if (r->options.clock || r->options.is_paced)
        replay_batch_copy_head(&dealer.clock_head, b);
    for (uint32_t i = 0; i < b->segments; i++)
        if (!segment_deal(b, i, number))
            return false;
    return true;
}

/* Deals batch NUMBER. */
static void batch_next(const struct replay_batch *b, uint32_t number) {
    if (dealer.apart != (b->apart != 0)) {
        phase_change(!dealer.apart);
        dealer.apart = b->apart != 0;
    }
    dealer.batch_state[number % STATES].is_state = b->is_state != 0;
    dealer.batch_state[number % STATES].account = b->account;
    if (batch_deal(b, number)) {
        /* The batch may be gone from here on. */
        replay_progress_batch_dealt(&dealer.crew.progress, number);
        return;
    }
    dealer.real->out_of_memory = !dealer_is_stopped();
    tcm_store_release(&dealer.crew.stop, 1u);
}

/* Copies the head of batch B, as its place in the ring may be filled again when
   it is dealt. */
static const struct replay_batch *moment_of(const struct replay_batch *b) {
    replay_batch_copy_head(&dealer.moment_batch, b);
    return &dealer.moment_batch;
}

/* Deals all batches from B on. Unless operations have times of their own,
   threads run while the decoding process sleeps, and sleep while it fills the
   ring, as it would take a processor from them. */
static void deal_all(const struct replay_batch *b) {
    struct replay_real *r = dealer.real;
    bool last = false;
    for (uint32_t number = 0;;) {
        if (!r->options.is_paced) {
            replay_ring_await_full(r->ring, &r->child, &r->child_status);
            /* Now, as it takes a millisecond that is not the allocator's. If
               memory is out, the batch that needs it fails. */
            (void)cells_fit(replay_ring_slots(r->ring));
        }
        dealer.run_since_ns = tcm_clock_ns();
        replay_rss_from(r->watch->rss);
        if (!r->options.is_paced)
            replay_processors_turn(&dealer.crew.processors);
        do {
            last = b->last != 0;
            dealer.moment =
                replay_watch_wants(r->watch, b) ? moment_of(b) : NULL;
            batch_next(b, number++);
            births_run(r->options.is_paced);
            b = NULL;
            if (!last && dealer.moment == NULL &&
                (r->options.is_paced || replay_ring_has(r->ring)))
                b = replay_ring_take(r->ring, &r->child, &r->child_status);
        } while (b != NULL && !dealer_is_stopped());
        dealer_drain();
        r->wall_ns = run_ns();
        dealer.run_since_ns = 0;
        if (last && r->options.clock && !dealer_is_stopped())
            clock_pass_last();
        if (dealer.moment != NULL)
            moment_note(dealer.moment);
        if (last || dealer_is_stopped())
            break;
        if (b == NULL)
            b = replay_ring_take(r->ring, &r->child, &r->child_status);
        if (b == NULL) {
            r->cut_short = !dealer_is_stopped();
            break;
        }
    }
    if (dealer.apart)
        phase_change(false);
}

static void *dealer_main(void *arg) {
    struct replay_clock_own own;
    (void)arg;
    replay_thread_begin();
    replay_clock_own_begin(&own);
    while (!replay_flag_is_set(&dealer.go))
        tcm_futex_wait(&dealer.go, 0, REPLAY_IDLE_NS);
    replay_delay_begin(&dealer.delay);
    uint64_t cpu_ns = tcm_clock_thread_cpu_ns();
    struct replay_cpu cpu = replay_cpu_thread();
    deal_all(dealer.first);
    dealer.dealer_cpu_ns = tcm_clock_thread_cpu_ns() - cpu_ns;
    dealer.dealer_cpu = replay_cpu_less(replay_cpu_thread(), cpu);
    tcm_store_release(&dealer.crew.finished, 1u);
    replay_host_wake(&dealer.main_host);
    for (struct replay_host *h = dealer.hosts; h != NULL; h = h->next)
        replay_host_wake(h);
    replay_clock_own_end(&own);
    return NULL;
}

/* --- For the caller ------------------------------------------------------- */

uint64_t replay_real_bytes(const struct replay_real *r) {
    (void)r;
    return dealer.arena.bytes;
}

/* Cells for which a limited address space has room. */
static uint64_t most_cells(void) {
    return tcm_min_u64(UINT32_MAX, tcm_os_address_limit() / 128);
}

static size_t report_bytes(void) {
    return tcm_align_up(REPLAY_LANE_REPORTS * sizeof(struct replay_lane_report),
                        tcm_os_page_size());
}

bool replay_real_begin(struct replay_real *r) {
    memset(&dealer, 0, sizeof(dealer));
    dealer.real = r;
    dealer.exec = *r->exec;
    replay_progress_begin(&dealer.crew.progress, r->ring);
    dealer.arena.rss = r->watch->rss;
    dealer.crew.options = &r->options;
    dealer.main_host.crew = &dealer.crew;
    dealer.main_host.is_main = true;
    replay_processors_begin(&dealer.crew.processors);
    dealer.crew.chain.ring = r->ring;
    dealer.host_count = 1;
    r->hosts = 1;
    size_t bytes = report_bytes();
    r->report = replay_own_map(bytes);
    if (r->report == NULL || !replay_table_reserve(r->cells, most_cells())) {
        errno = ENOMEM;
        return false;
    }
    memset(r->report, 0, bytes);
    if (!replay_table_grow(r->cells, 1)) {
        errno = ENOMEM;
        return false;
    }
    /* For observers; lanes have copies of their own. */
    r->exec->cell = r->cells->memory;
    dealer.arena.bytes = r->own_bytes + bytes + r->cells->bytes;
    dealer.stack = replay_arena_stack(&dealer.arena);
    if (dealer.stack == NULL) {
        errno = ENOMEM;
        return false;
    }
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    errno = pthread_attr_setstack(&attr, dealer.stack, REPLAY_STACK_BYTES);
    if (errno == 0)
        errno = replay_thread_make(&dealer.thread, &attr, dealer_main, NULL);
    pthread_attr_destroy(&attr);
    return errno == 0;
}

void replay_real_run(struct replay_real *r, const struct replay_batch *b) {
    uint64_t cpu_ns = tcm_clock_process_cpu_ns();
    struct replay_cpu parts = replay_cpu_process();
    dealer.first = b;
    r->watch->start_ns = tcm_clock_ns();
    tcm_store_release(&dealer.go, 1u);
    tcm_futex_wake(&dealer.go, 1);
    replay_host_run(&dealer.main_host);
    while (!replay_flag_is_set(&dealer.crew.finished))
        tcm_futex_wait(&dealer.crew.finished, 0, REPLAY_IDLE_NS);
    uint64_t elapsed_ns = tcm_clock_ns() - r->watch->start_ns;
    cpu_ns = tcm_clock_process_cpu_ns() - cpu_ns;
    r->decoder_ns = elapsed_ns > r->wall_ns ? elapsed_ns - r->wall_ns : 0;
    TCM_ASSERT(r->apart_ns <= r->wall_ns);
    r->wall_ns -= r->apart_ns;
    uint64_t other =
        waits_cpu_ns() + dealer.dealer_cpu_ns + dealer.apart_cpu_ns;
    r->cpu_ns = cpu_ns > other ? cpu_ns - other : 0;
    parts = replay_cpu_less(replay_cpu_process(), parts);
    parts = replay_cpu_less(
        parts, replay_cpu_add(waits_cpu(), replay_cpu_add(dealer.dealer_cpu,
                                                          dealer.apart_cpu)));
    r->system_ns = replay_cpu_system_ns(r->cpu_ns, parts);
    r->peak_live_bytes = tcm_load_acquire(&dealer.crew.progress.peak_bytes);
    r->end_live_bytes = tcm_load_acquire(&dealer.crew.progress.live_bytes);
}

/* Returns the account at a place before which all operations were done. */
static struct replay_account account_done(const struct replay_real *r) {
    uint32_t taken = tcm_load_acquire(&r->ring->taken);
    for (uint32_t i = 1; i <= REPLAY_BATCHES_MOST && i <= taken; i++)
        if (dealer.batch_state[(taken - i) % STATES].is_state)
            return dealer.batch_state[(taken - i) % STATES].account;
    return (struct replay_account){0};
}

void replay_real_end(struct replay_real *r) {
    tcm_store_release(&dealer.crew.leave, 1u);
    tcm_futex_wake(&dealer.crew.leave, INT32_MAX);
    pthread_join(dealer.thread, NULL);
    replay_arena_stack_back(&dealer.arena, dealer.stack);
    hosts_collect(true);
    host_retire(&dealer.main_host);
    /* The sums are over all lanes, and no thread is left. */
    TCM_ASSERT(dealer.retired == r->lanes && dealer.host_count == 1);
    TCM_ASSERT(replay_flag_is_set(&dealer.crew.stop) ||
               (dealer.unborn == NULL && dealer.crew.progress.in_flight == 0));
    r->done = account_done(r);
    replay_arena_end(&dealer.arena);
    if (dealer.lane != NULL)
        tcm_os_unmap(dealer.lane, dealer.lanes * sizeof(*dealer.lane));
}

void replay_real_free(struct replay_real *r) {
    if (r->report != NULL)
        tcm_os_unmap(r->report, report_bytes());
    r->report = NULL;
}
