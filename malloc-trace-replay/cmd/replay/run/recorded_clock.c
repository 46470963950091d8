/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/run/recorded_clock.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_process.h"
#include "base/linux/os_syscall.h"
#include "base/linux/os_thread.h"
#include "base/lock.h"
#include "base/linux/os_file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__thread bool replay_makes_thread;

/* Longest slice of a wait. */
#define SLICE_MOST_NS 100000000u
/* Real time from one check of a woken thread to the next. */
#define LOOK_NS 200000u
/* Largest part of the time from one check to the next that counts. If it took
   longer, the process was stopped, or had no processor, and so was or had the
   woken thread. */
#define LOOK_MOST_NS 2000000u
/* Multiple of REPLAY_CLOCK_PATIENCE_NS where calls are counted. */
#define COUNTING_SLOWER 20u
/* Step of the clock before it is led, longer than an allocator takes to begin;
   and the time at which it is led, or a multiple of that. */
#define STEP_NS 200000000u
#define LEAD_NS (5 * (uint64_t)STEP_NS)
/* Clock numbers up to the last clock that is a line of time. */
#define CLOCKS 12
/* Threads that are waited for after they were woken. */
#define THREADS 256
/* Readings of a standing clock by one thread after which the clock goes on, 16
   for each operation between two places where it is set; and the time by which
   each further one moves it, about as long as a reading and a yield take. */
#define READS_AT_REST 4096u
#define READ_NS       1000u
/* Time by which a thread of the allocator moves the clock before it is no
   longer waited for: it polls, and does not wait for a time. */
#define POLL_NS 100000000u
/* Deadlines within a step of the clock that are served one by one, and number
   of steps in which the rest of it is: a thread that polls has too many of them
   in a pause of years. */
#define SERVES_MOST 128u

/* A thread that the allocator made, or that waited for a time. */
struct replay_clock_thread {
    bool is_used;
    uint32_t tid;     /* 0: not begun */
    bool is_awake;    /* woken or made, and not seen to wait since */
    bool was_asleep;  /* blocked at the last check */
    bool is_due;      /* its wait is over, but it has not left the wait yet */
    bool is_given_up; /* runs on and on: not waited for until it sleeps */
    uint64_t
        polled_ns; /* time by which it moved the clock since it was woken */
    void *(*main)(void *);
    void *arg;
};

static struct {
    uint32_t is_led;
    uint32_t is_held;  /* led for a measurement only */
    uint32_t is_free;  /* the clock does not go in steps */
    uint64_t first_ns; /* first time that was read; 0: none */
    uint64_t line_ns;  /* time, while the clock is led */
    uint64_t start_ns; /* time of the line where the clock began to be led */
    int64_t shift_ns;  /* added to the real time while the clock is free */
    uint64_t soonest;
    struct tcm_lock lock;
    struct tcm_dlist waits;
    uint32_t rests; /* changes when a woken thread waits again */
    struct replay_clock_thread thread[THREADS];
    uint32_t threads;     /* records in use */
    struct tcm_dlist own; /* threads of the replay, less the first */
    uint32_t owns;
    uint32_t has_woken;   /* a thread may have been given work */
    uint32_t is_counting; /* threads are stopped in the calls that they make for
                             memory */
    struct replay_clock_account account;
} line = {.soonest = UINT64_MAX,
          .waits = {&line.waits, &line.waits},
          .own = {&line.own, &line.own}};

static __thread uint64_t own_ns; /* time of the line; 0: the common one */
static __thread struct replay_clock_thread *own_thread;
static __thread bool leads; /* the calling thread sets the clock */
/* Last time that the calling thread read, and how often in a row. */
static __thread struct {
    uint64_t ns;
    uint32_t count;
} reading;

/* --- The line ------------------------------------------------------------- */

static bool is_led(void) {
    return tcm_load_acquire(&line.is_led) != 0;
}

bool replay_clock_is_supported(void) {
    return TCM_SYSCALL_RAW;
}

uint64_t replay_clock_real_ns(clockid_t id) {
    struct timespec ts = {0, 0};
    tcm_clock_read(id, &ts);
    return (uint64_t)ts.tv_sec * REPLAY_SECOND_NS + (uint64_t)ts.tv_nsec;
}

/* Time since the first reading, in whole steps, behind the first reading. */
static uint64_t stepped_ns(uint64_t real) {
    uint64_t first = 0;
    if (tcm_cas_acq_rel(&line.first_ns, &first, real))
        first = real;
    uint64_t past = real > first ? real - first : 0;
    return first + past / STEP_NS * STEP_NS;
}

uint64_t replay_clock_now(void) {
    if (!is_led()) {
        uint64_t real = replay_clock_real_ns(CLOCK_MONOTONIC);
        if (tcm_load_relaxed(&line.is_free) == 0)
            return stepped_ns(real);
        return real + (uint64_t)tcm_load_relaxed(&line.shift_ns);
    }
    return own_ns != 0 ? own_ns : tcm_load_acquire(&line.line_ns);
}

/* Raises the time of the line to TO. Returns by how much. */
static uint64_t line_raise(uint64_t to) {
    uint64_t latest = tcm_load_relaxed(&line.line_ns);
    while (to > latest)
        if (tcm_cas_acq_rel(&line.line_ns, &latest, to))
            return to - latest;
    return 0;
}

/* Lets time pass up to TO within a call of the allocator. */
static void pass_in_call(uint64_t to) {
    if (own_ns != 0)
        own_ns = tcm_max_u64(own_ns, to);
    tcm_add_relaxed(&line.account.call_ns, line_raise(to));
}

/* True if the calling thread runs operations of the trace, or sets the clock:
   while it is in a call, nothing else moves the clock. */
static bool is_in_call(void) {
    return own_ns != 0 || leads;
}

bool replay_clock_covers(clockid_t id) {
    switch (id) {
    case CLOCK_REALTIME:
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
    case CLOCK_TAI:
        return true;
    default:
        return false;
    }
}

/* Real time of clock ID less that of CLOCK_MONOTONIC, when first read. So a
   clock that is set later goes on as if it were not. */
static uint64_t delta_ns(clockid_t id) {
    static uint64_t delta[CLOCKS];
    TCM_ASSERT(id >= 0 && id < CLOCKS);
    if (id == CLOCK_MONOTONIC)
        return 0;
    uint64_t d = tcm_load_relaxed(&delta[id]);
    if (d == 0) {
        d = replay_clock_real_ns(id) - replay_clock_real_ns(CLOCK_MONOTONIC);
        tcm_store_relaxed(&delta[id], d);
    }
    return d;
}

uint64_t replay_clock_deadline_at(clockid_t id, const struct timespec *at) {
    uint64_t ns = replay_timespec_ns(at), delta = delta_ns(id);
    /* CLOCK_MONOTONIC_RAW and _COARSE may be behind CLOCK_MONOTONIC. */
    return (int64_t)delta < 0 || ns > delta ? ns - delta : 0;
}

uint64_t replay_clock_deadline_in(uint64_t ns) {
    uint64_t now = replay_clock_now();
    return ns < UINT64_MAX / 2 ? now + ns : UINT64_MAX;
}

/* A process cannot query the clock of a condition variable, but the two clocks
   that it may have lie decades apart. */
clockid_t replay_clock_of(const struct timespec *at) {
    uint64_t ns = replay_timespec_ns(at);
    uint64_t real = replay_clock_now() + delta_ns(CLOCK_REALTIME);
    return ns > real / 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
}

/* --- Threads -------------------------------------------------------------- */

/* Returns a record that no living thread has; NULL: all are in use. */
static struct replay_clock_thread *thread_new_locked(void) {
    for (size_t i = 0; i < THREADS; i++) {
        struct replay_clock_thread *t = &line.thread[i];
        if (t->is_used)
            continue;
        *t = (struct replay_clock_thread){.is_used = true};
        line.threads++;
        return t;
    }
    TCM_ASSERT(line.threads == THREADS);
    return NULL;
}

static void thread_gone_locked(struct replay_clock_thread *t) {
    TCM_ASSERT(t->is_used && line.threads != 0);
    *t = (struct replay_clock_thread){0};
    line.threads--;
}

/* Returns the record that thread TID has; NULL: none. */
static struct replay_clock_thread *thread_of_locked(uint32_t tid) {
    for (size_t i = 0; line.threads != 0 && i < THREADS; i++)
        if (line.thread[i].is_used && line.thread[i].tid == tid)
            return &line.thread[i];
    return NULL;
}

/* Returns the record of the calling thread; NULL: there are too many
   threads. */
static struct replay_clock_thread *thread_locked(void) {
    uint32_t tid = tcm_os_tid();
    if (own_thread == NULL)
        own_thread = thread_of_locked(tid);
    if (own_thread == NULL)
        own_thread = thread_new_locked();
    if (own_thread != NULL)
        own_thread->tid = tid;
    return own_thread;
}

/* Drops the record that find_threads made of the calling thread before the
   thread said what it is. */
static void found_drop_locked(uint32_t tid) {
    struct replay_clock_thread *t = thread_of_locked(tid);
    if (t != NULL)
        thread_gone_locked(t);
}

struct replay_clock_thread *replay_clock_thread_new(void *(*main)(void *),
                                                    void *arg) {
    tcm_lock(&line.lock);
    struct replay_clock_thread *t = thread_new_locked();
    if (t != NULL) {
        t->main = main;
        t->arg = arg;
        t->is_awake = true;
    }
    tcm_unlock(&line.lock);
    return t;
}

void *replay_clock_thread_main(void *record) {
    struct replay_clock_thread *t = record;
    tcm_lock(&line.lock);
    uint32_t tid = tcm_os_tid();
    found_drop_locked(tid);
    own_thread = t;
    t->tid = tid;
    void *(*run)(void *) = t->main;
    void *arg = t->arg;
    tcm_unlock(&line.lock);
    return run(arg);
}

void replay_clock_thread_drop(struct replay_clock_thread *t) {
    tcm_lock(&line.lock);
    thread_gone_locked(t);
    tcm_unlock(&line.lock);
}

void replay_clock_own_begin(struct replay_clock_own *own) {
    *own = (struct replay_clock_own){.tid = tcm_os_tid()};
    tcm_lock(&line.lock);
    found_drop_locked(own->tid);
    tcm_dlist_push_front(&line.own, &own->link);
    line.owns++;
    tcm_unlock(&line.lock);
}

void replay_clock_own_end(struct replay_clock_own *own) {
    tcm_lock(&line.lock);
    tcm_dlist_remove(&own->link);
    line.owns--;
    tcm_unlock(&line.lock);
}

/* Notes that the woken thread T waits again, or is no longer waited for. */
static void thread_rests_locked(struct replay_clock_thread *t) {
    t->is_awake = false;
    tcm_store_release(&line.rests, line.rests + 1);
    tcm_futex_wake(&line.rests, 1);
}

/* Notes that T was asleep, so that it is waited for when it wakes up. */
static void thread_slept_locked(struct replay_clock_thread *t) {
    t->is_given_up = false;
    t->polled_ns = 0;
}

/* Reads the file NAME of thread TID in /proc. False: the thread has ended. */
static bool thread_file(uint32_t tid, const char *name, char *text,
                        size_t size) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%u/%s", tid, name);
    return tcm_io_read_file(path, text, size) > 0;
}

/* Counts a thread that is no longer waited for. */
static void straggler_locked(struct replay_clock_thread *t) {
    char *name = line.account.straggler;
    if (line.account.stragglers++ == 0 &&
        thread_file(t->tid, "comm", name, sizeof(line.account.straggler)))
        name[strcspn(name, "\n")] = '\0';
    t->is_given_up = true;
    thread_rests_locked(t);
}

/* --- Reading -------------------------------------------------------------- */

/* True if a thread of the allocator may move the clock, which stands until the
   thread has come to rest. One that reads the clock for ever sees the time of
   the operations. A thread that slept until the lock is free would look as if
   it had come to rest. */
static bool poll_is_awaited(struct replay_clock_thread *t) {
    if (!tcm_lock_try(&line.lock))
        return false;
    bool is_awaited = t->is_awake;
    t->polled_ns += is_awaited ? READ_NS : 0;
    if (is_awaited && t->polled_ns > POLL_NS)
        straggler_locked(t);
    tcm_unlock(&line.lock);
    return is_awaited;
}

/* Time after the calling thread has read NOW again and again. */
static TCM_NOINLINE uint64_t now_at_rest(uint64_t now) {
    if (tcm_load_relaxed(&line.is_held) != 0 ||
        !(is_in_call() || (own_thread != NULL && poll_is_awaited(own_thread))))
        return now;
    pass_in_call(now + READ_NS);
    return replay_clock_now();
}

/* Time of the line for a caller outside of this program. It never goes back for
   a thread, also where the clock begins to be led. */
static uint64_t read_line(void) {
    uint64_t now = tcm_max_u64(replay_clock_now(), reading.ns);
    if (now != reading.ns)
        reading.count = 0;
    else if (is_led() && ++reading.count > READS_AT_REST)
        now = now_at_rest(now);
    reading.ns = now;
    return now;
}

int replay_clock_tell_time(clockid_t id, struct timespec *ts) {
    if (!replay_clock_covers(id) ||
        (!is_led() && tcm_load_relaxed(&line.is_free) != 0 &&
         tcm_load_relaxed(&line.shift_ns) == 0))
        return tcm_clock_read(id, ts);
    *ts = replay_timespec_of(read_line() + delta_ns(id));
    return 0;
}

/* --- Waits ---------------------------------------------------------------- */

static struct replay_wait *wait_of(struct tcm_dlist *link) {
    return TCM_CONTAINER_OF(link, struct replay_wait, link);
}

static void find_soonest_locked(void) {
    uint64_t least = UINT64_MAX;
    for (struct tcm_dlist *l = line.waits.next; l != &line.waits; l = l->next) {
        const struct replay_wait *w = wait_of(l);
        if (!w->due)
            least = tcm_min_u64(least, w->deadline_ns);
    }
    tcm_store_relaxed(&line.soonest, least);
}

void replay_wait_begin(struct replay_wait *w, uint64_t deadline_ns,
                       void (*wake)(void *object), void *object) {
    *w = (struct replay_wait){
        .deadline_ns = deadline_ns, .wake = wake, .object = object};
    reading.count = 0;
    if (is_led() && is_in_call()) {
        w->from_ns = replay_clock_now();
        w->real_from_ns = tcm_clock_ns();
    }
    tcm_lock(&line.lock);
    if (w->real_from_ns == 0)
        w->thread = thread_locked();
    tcm_dlist_push_front(&line.waits, &w->link);
    if (deadline_ns < line.soonest)
        tcm_store_relaxed(&line.soonest, deadline_ns);
    if (is_led()) {
        line.account.waits++;
        if (w->thread != NULL && w->thread->is_awake)
            thread_rests_locked(w->thread);
    }
    if (w->thread != NULL)
        thread_slept_locked(w->thread);
    tcm_unlock(&line.lock);
}

static void wake_locked(struct replay_wait *w) {
    line.account.served++;
    if (w->thread != NULL) {
        w->thread->is_awake = w->thread->is_due = true;
        w->thread->was_asleep = false;
        thread_slept_locked(w->thread);
    }
    tcm_store_release(&w->due, 1u);
    if (w->wake != NULL)
        w->wake(w->object);
}

/* Wakes the waits that are over. */
static void wake_due_locked(void) {
    for (struct tcm_dlist *l = line.waits.next; l != &line.waits; l = l->next) {
        struct replay_wait *w = wait_of(l);
        if (!w->due && w->deadline_ns <= line.line_ns)
            wake_locked(w);
    }
    find_soonest_locked();
}

/* Lets as much time pass as W, a wait within an operation, has really taken. */
static void pass_while_waiting(const struct replay_wait *w) {
    uint64_t to = w->from_ns + (tcm_clock_ns() - w->real_from_ns);
    pass_in_call(tcm_min_u64(to, w->deadline_ns));
    if (tcm_load_relaxed(&line.soonest) > tcm_load_relaxed(&line.line_ns))
        return;
    tcm_lock(&line.lock);
    wake_due_locked();
    tcm_unlock(&line.lock);
}

bool replay_wait_is_over(const struct replay_wait *w) {
    if (w->real_from_ns != 0)
        pass_while_waiting(w);
    return tcm_load_acquire(&w->due) != 0 ||
           replay_clock_now() >= w->deadline_ns;
}

void replay_wait_end(void *wait) {
    struct replay_wait *w = wait;
    tcm_lock(&line.lock);
    tcm_dlist_remove(&w->link);
    if (w->deadline_ns <= line.soonest)
        find_soonest_locked();
    if (w->thread != NULL)
        w->thread->is_due = false;
    tcm_unlock(&line.lock);
    /* The line may be ahead of the calling thread's own time. */
    if (w->real_from_ns != 0 && w->due)
        pass_in_call(w->deadline_ns);
}

uint64_t replay_wait_slice_ns(const struct replay_wait *w, uint64_t *slice) {
    uint64_t ns = *slice;
    *slice = tcm_min_u64(ns * 2, SLICE_MOST_NS);
    uint64_t now = replay_clock_now(), end = w->deadline_ns;
    if (w->real_from_ns != 0)
        end = tcm_min_u64(end, tcm_load_relaxed(&line.soonest));
    else if (is_led() && tcm_load_relaxed(&line.is_held) == 0)
        return ns;
    return end > now ? tcm_min_u64(ns, end - now) : 0;
}

static void wake_word(void *word) {
    tcm_futex_wake(word, INT_MAX);
}

int replay_clock_sleep_until(uint64_t deadline_ns) {
    struct replay_wait w;
    int before = errno;
    uint64_t slice = SLICE_MOST_NS;
    int error = 0;
    replay_wait_begin(&w, deadline_ns, wake_word, &w.due);
    while (error == 0 && !replay_wait_is_over(&w)) {
        struct timespec ts =
            replay_timespec_of(replay_wait_slice_ns(&w, &slice));
        /* A system call of its own, so that the caller gets EINTR for a
           signal. */
        if (tcm_syscall(SYS_futex, &w.due, FUTEX_WAIT_PRIVATE, 0, &ts, NULL,
                        0) != 0 &&
            errno == EINTR)
            error = EINTR;
    }
    replay_wait_end(&w);
    errno = before;
    pthread_testcancel();
    return error;
}

/* --- Leading the clock ---------------------------------------------------- */

/* State letter of thread TID; 0: it has ended. */
static char thread_state(uint32_t tid) {
    char text[256];
    if (!thread_file(tid, "stat", text, sizeof(text)))
        return 0;
    const char *end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' ? end[2] : 0;
}

/* True if thread TID, which slept when its state was read, is at work: the
   kernel holds its call for memory for replay_clock_count_calls, or has let it
   go on since. */
static bool is_held_or_runs(uint32_t tid) {
    static const long number[] = {SYS_madvise, SYS_munmap,   SYS_mmap,
                                  SYS_mremap,  SYS_mprotect, SYS_brk};
    static const char runs[] = "running";
    char text[256], *end;
    if (!tcm_load_relaxed(&line.is_counting) ||
        !thread_file(tid, "syscall", text, sizeof(text)))
        return false;
    if (strncmp(text, runs, sizeof(runs) - 1) == 0)
        return true;
    long of = strtol(text, &end, 10);
    for (size_t i = 0; end != text && i < TCM_ARRAY_SIZE(number); i++)
        if (of == number[i])
            return true;
    return false;
}

/* Checks the threads that are awake: a thread that has ended, or is blocked
   twice in a row, is no longer waited for. Returns how many run. */
static size_t look_at_awake(bool is_late) {
    size_t running = 0;
    tcm_lock(&line.lock);
    for (size_t i = 0; i < THREADS; i++) {
        struct replay_clock_thread *t = &line.thread[i];
        if (!t->is_awake)
            continue;
        char state = t->tid == 0 ? 'R' : thread_state(t->tid);
        bool asleep = state == 'S' && !t->is_due && !is_held_or_runs(t->tid);
        if (state == 0) {
            thread_gone_locked(t);
            continue;
        }
        if (asleep && t->was_asleep)
            t->is_awake = false;
        else if (is_late)
            straggler_locked(t);
        else
            running++;
        t->was_asleep = asleep;
    }
    tcm_unlock(&line.lock);
    return running;
}

static size_t count_awake(void) {
    size_t n = 0;
    tcm_lock(&line.lock);
    for (size_t i = 0; line.threads != 0 && i < THREADS; i++)
        n += line.thread[i].is_awake;
    tcm_unlock(&line.lock);
    return n;
}

/* --- Threads that came by themselves -------------------------------------- */

/* Entry of a folder, as the kernel writes it. */
struct folder_entry {
    uint64_t inode;
    int64_t offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

static bool is_own_locked(uint32_t tid) {
    for (struct tcm_dlist *l = line.own.next; l != &line.own; l = l->next)
        if (TCM_CONTAINER_OF(l, struct replay_clock_own, link)->tid == tid)
            return true;
    return tid == tcm_os_pid();
}

/* Makes a record of thread TID if it needs one. True: it was made. */
static bool find_thread_locked(uint32_t tid) {
    struct replay_clock_thread *t = NULL;
    if (thread_of_locked(tid) == NULL && !is_own_locked(tid))
        t = thread_new_locked();
    if (t == NULL)
        return false;
    t->tid = tid;
    t->is_awake = true;
    return true;
}

static bool find_in_folder_locked(int folder) {
    union {
        struct folder_entry first;
        char bytes[4096];
    } text;
    bool is_found = false;
    long bytes;
    while ((bytes = tcm_syscall(SYS_getdents64, folder, text.bytes,
                                sizeof(text))) > 0)
        for (long at = 0; at < bytes;) {
            const struct folder_entry *e =
                (const struct folder_entry *)(const void *)(text.bytes + at);
            uint32_t tid = (uint32_t)strtoul(e->name, NULL, 10);
            if (tid != 0 && find_thread_locked(tid))
                is_found = true;
            at += e->bytes;
        }
    return is_found;
}

/* Makes records of the threads of the allocator that have none: one that was
   not made by this program's pthread_create, but by the function behind it, as
   jemalloc's are, and has not waited for a time yet. True: there were some. */
static bool find_threads(void) {
    int before = errno;
    bool is_found = false;
    tcm_lock(&line.lock);
    /* The first thread has no record. */
    if (tcm_os_thread_count() != (uint64_t)line.threads + line.owns + 1) {
        int folder =
            open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        is_found = folder >= 0 && find_in_folder_locked(folder);
        if (folder >= 0)
            close(folder);
    }
    tcm_unlock(&line.lock);
    errno = before;
    return is_found;
}

static uint64_t patience_ns(void) {
    return tcm_load_relaxed(&line.is_counting)
               ? (uint64_t)REPLAY_CLOCK_PATIENCE_NS * COUNTING_SLOWER
               : REPLAY_CLOCK_PATIENCE_NS;
}

/* Waits until the threads that are awake have come to rest. */
static void await_rest(void) {
    uint64_t waited = 0;
    for (;;) {
        uint32_t rests = tcm_load_acquire(&line.rests);
        if (count_awake() == 0 && !find_threads())
            return;
        uint64_t looked = tcm_clock_ns();
        tcm_futex_wait(&line.rests, rests, LOOK_NS);
        uint64_t passed = tcm_clock_ns() - looked;
        waited += tcm_min_u64(passed, LOOK_MOST_NS);
        if (tcm_load_acquire(&line.rests) == rests && passed >= LOOK_NS &&
            look_at_awake(waited > patience_ns()) == 0 && !find_threads())
            return;
    }
}

void replay_clock_note_wake(void) {
    tcm_store_relaxed(&line.has_woken, 1u);
}

bool replay_clock_take_wake(void) {
    if (TCM_LIKELY(tcm_load_relaxed(&line.has_woken) == 0))
        return false;
    tcm_store_relaxed(&line.has_woken, 0u);
    return true;
}

void replay_clock_settle(void) {
    tcm_lock(&line.lock);
    for (size_t i = 0; line.threads != 0 && i < THREADS; i++) {
        struct replay_clock_thread *t = &line.thread[i];
        if (!t->is_used || t->is_awake || t->tid == 0 || t == own_thread)
            continue;
        char state = thread_state(t->tid);
        if (state == 0) {
            thread_gone_locked(t);
            continue;
        }
        bool runs = state != 'S' || is_held_or_runs(t->tid);
        if (!runs)
            thread_slept_locked(t);
        t->is_awake = runs && !t->is_given_up;
        t->was_asleep = false;
    }
    tcm_unlock(&line.lock);
    await_rest();
}

/* Wakes all waits with the next deadline, if that is not behind TO. False:
   there is none. */
static bool serve_next(uint64_t to) {
    tcm_lock(&line.lock);
    find_soonest_locked();
    uint64_t at = line.soonest;
    if (at > to) {
        tcm_unlock(&line.lock);
        return false;
    }
    (void)line_raise(at);
    wake_due_locked();
    tcm_unlock(&line.lock);
    await_rest();
    return true;
}

void replay_clock_run_free(void) {
    tcm_store_relaxed(&line.is_free, 1u);
}

void replay_clock_lead(void) {
    uint64_t now = replay_clock_now();
    uint64_t first = tcm_load_relaxed(&line.first_ns);
    if (tcm_load_relaxed(&line.is_free) == 0)
        now = first + ((now - first) / LEAD_NS + 1) * LEAD_NS;
    /* Read together, so that the offsets of all clocks belong to one moment. */
    for (clockid_t id = 0; id < CLOCKS; id++)
        if (replay_clock_covers(id))
            (void)delta_ns(id);
    leads = true;
    line.start_ns = now;
    tcm_store_relaxed(&line.line_ns, now);
    tcm_store_relaxed(&line.is_free, 1u);
    tcm_store_release(&line.is_led, 1u);
}

void replay_clock_advance(uint64_t ns) {
    uint64_t from = tcm_load_relaxed(&line.line_ns);
    /* A call may have moved the clock beyond the time of its operation. */
    uint64_t to = tcm_max_u64(line.start_ns + ns, from);
    TCM_ASSERT(is_led());
    leads = true;
    own_ns = 0;
    reading.count = 0;
    uint64_t step = (to - from) / SERVES_MOST;
    for (uint32_t served = 1;
         tcm_load_relaxed(&line.soonest) <= to && serve_next(to); served++)
        if (served >= SERVES_MOST)
            (void)line_raise(
                tcm_min_u64(to, tcm_load_relaxed(&line.line_ns) + step));
    (void)line_raise(to);
}

void replay_clock_advance_thread(uint64_t ns) {
    uint64_t to = line.start_ns + ns;
    /* A call may have read the common time, which was later. */
    own_ns = tcm_max_u64(tcm_max_u64(own_ns, to), reading.ns);
    reading.count = 0;
    (void)line_raise(to);
}

uint64_t replay_clock_next_deadline(void) {
    uint64_t soonest = tcm_load_relaxed(&line.soonest);
    if (soonest == UINT64_MAX)
        return UINT64_MAX;
    return soonest > line.start_ns ? soonest - line.start_ns : 0;
}

void replay_clock_release(void) {
    if (!is_led())
        return;
    uint64_t now = tcm_load_acquire(&line.line_ns);
    tcm_store_relaxed(&line.shift_ns,
                      (int64_t)(now - replay_clock_real_ns(CLOCK_MONOTONIC)));
    tcm_store_release(&line.is_led, 0u);
    tcm_store_relaxed(&line.is_held, 0u);
}

void replay_clock_hold(void) {
    if (is_led() || !replay_clock_is_supported())
        return;
    TCM_ASSERT(tcm_load_relaxed(&line.is_free) != 0);
    tcm_store_relaxed(&line.line_ns, replay_clock_now());
    tcm_store_relaxed(&line.is_held, 1u);
    tcm_store_release(&line.is_led, 1u);
}

void replay_clock_resume(void) {
    if (tcm_load_relaxed(&line.is_held) != 0)
        replay_clock_release();
}

void replay_clock_tell(struct replay_clock_account *account) {
    tcm_lock(&line.lock);
    *account = line.account;
    tcm_unlock(&line.lock);
}

void replay_clock_count_calls(void) {
    tcm_store_relaxed(&line.is_counting, 1u);
}

bool replay_clock_counts_calls(void) {
    return tcm_load_relaxed(&line.is_counting) != 0;
}
