/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/run/recorded_clock.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_syscall.h"
#include "base/linux/os_thread.h"
#include "base/lock.h"
#include "base/linux/os_file.h"

#include <dlfcn.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>

__thread bool replay_makes_thread;

#if TCM_SYSCALL_RAW

#define SECOND 1000000000u
/* Waits on objects of the C library are cut into slices of real time: a wake
   that comes between the registration of a wait and its sleep is lost, and the
   clock may begin or end to be led. The first slice is the shortest. */
#define SLICE_NS      1000000u
#define SLICE_MOST_NS 100000000u
/* Real time from one check of a woken thread to the next. */
#define LOOK_NS 200000u
/* Clock numbers up to the last clock that is a line of time. */
#define CLOCKS 12
/* Threads that are waited for after they were woken. */
#define THREADS 256
/* Size of a set of signals in the kernel. */
#define MASK_BYTES ((size_t)8)

enum wait_kind {
    WAIT_WORD,  /* on `due` of the wait */
    WAIT_COND,  /* on a condition variable */
    WAIT_FUTEX, /* on a word of the caller */
    WAIT_SLICED /* on an object that cannot be woken from here */
};

/* A thread that the allocator made, or that waited for a time. */
struct clock_thread {
    bool is_used;
    uint32_t tid;    /* 0: not begun */
    bool is_awake;   /* woken or made, and not seen to wait since */
    bool was_asleep; /* blocked at the last check */
    bool is_due;     /* its wait is over, but it has not left the wait yet */
    void *(*main)(void *);
    void *arg;
};

struct clock_wait {
    struct clock_wait *next, *before;
    uint64_t deadline_ns; /* time of the line */
    uint32_t due;
    enum wait_kind kind;
    void *object;
    struct clock_thread *thread;
};

static struct {
    uint32_t is_led;
    uint64_t line_ns;  /* time, while the clock is led */
    uint64_t start_ns; /* time of the line where the clock began to be led */
    int64_t shift_ns;  /* added to the real time while the clock is free */
    uint64_t soonest;
    struct tcm_lock lock;
    struct clock_wait *waits;
    uint32_t rests; /* changes when a woken thread waits again */
    struct clock_thread thread[THREADS];
    struct replay_clock_account account;
} line = {.soonest = UINT64_MAX};

static __thread uint64_t own_ns; /* time of the line; 0: the common one */
static __thread struct clock_thread *own_thread;

/* --- The line ------------------------------------------------------------- */

static bool is_led(void) {
    return tcm_load_acquire(&line.is_led) != 0;
}

static uint64_t real_ns(clockid_t id) {
    struct timespec ts = {0, 0};
    tcm_clock_read(id, &ts);
    return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

/* Time of CLOCK_MONOTONIC as the allocator sees it. */
static uint64_t line_now(void) {
    if (!is_led())
        return real_ns(CLOCK_MONOTONIC) +
               (uint64_t)tcm_load_relaxed(&line.shift_ns);
    return own_ns != 0 ? own_ns : tcm_load_acquire(&line.line_ns);
}

/* True if clock ID is a constant away from CLOCK_MONOTONIC. */
static bool is_on_line(clockid_t id) {
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
        d = real_ns(id) - real_ns(CLOCK_MONOTONIC);
        tcm_store_relaxed(&delta[id], d);
    }
    return d;
}

static struct timespec timespec_of(uint64_t ns) {
    return (struct timespec){(time_t)(ns / SECOND), (long)(ns % SECOND)};
}

static bool is_valid(const struct timespec *ts) {
    return ts->tv_nsec >= 0 && ts->tv_nsec < (long)SECOND;
}

/* Relative time in ns, cut to some 200 years; 0 if negative. */
static uint64_t span_ns(const struct timespec *ts) {
    if (ts->tv_sec < 0)
        return 0;
    return tcm_min_u64((uint64_t)ts->tv_sec, UINT64_MAX / SECOND / 4) * SECOND +
           (uint64_t)ts->tv_nsec;
}

/* Time of the line when clock ID reaches AT. */
static uint64_t deadline_at(clockid_t id, const struct timespec *at) {
    uint64_t ns = span_ns(at), delta = delta_ns(id);
    /* CLOCK_MONOTONIC_RAW and _COARSE may be behind CLOCK_MONOTONIC. */
    return (int64_t)delta < 0 || ns > delta ? ns - delta : 0;
}

static uint64_t deadline_in(uint64_t ns) {
    uint64_t now = line_now();
    return ns < UINT64_MAX / 2 ? now + ns : UINT64_MAX;
}

/* Clock that a condition variable compares AT with. A process cannot query it,
   but the two possible clocks lie decades apart. */
static clockid_t clock_of(const struct timespec *at) {
    uint64_t ns = span_ns(at);
    uint64_t real = line_now() + delta_ns(CLOCK_REALTIME);
    return ns > real / 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
}

/* --- Waits ---------------------------------------------------------------- */

static void find_soonest_locked(void) {
    uint64_t least = UINT64_MAX;
    for (struct clock_wait *w = line.waits; w != NULL; w = w->next)
        if (!w->due)
            least = tcm_min_u64(least, w->deadline_ns);
    tcm_store_relaxed(&line.soonest, least);
}

/* Returns a record that no living thread has; NULL: all are in use. */
static struct clock_thread *thread_new_locked(void) {
    for (size_t i = 0; i < THREADS; i++) {
        struct clock_thread *t = &line.thread[i];
        if (t->is_used)
            continue;
        *t = (struct clock_thread){.is_used = true};
        return t;
    }
    return NULL;
}

/* Returns the record of the calling thread; NULL: there are too many
   threads. */
static struct clock_thread *thread_locked(void) {
    if (own_thread == NULL)
        own_thread = thread_new_locked();
    if (own_thread != NULL)
        own_thread->tid = tcm_os_tid();
    return own_thread;
}

/* Notes that the woken thread T waits again, or is no longer waited for. */
static void thread_rests_locked(struct clock_thread *t) {
    t->is_awake = false;
    tcm_store_release(&line.rests, line.rests + 1);
    tcm_futex_wake(&line.rests, 1);
}

static void wait_begin(struct clock_wait *w, uint64_t deadline_ns,
                       enum wait_kind kind, void *object) {
    *w = (struct clock_wait){
        .deadline_ns = deadline_ns, .kind = kind, .object = object};
    tcm_lock(&line.lock);
    w->thread = thread_locked();
    w->next = line.waits;
    if (w->next != NULL)
        w->next->before = w;
    line.waits = w;
    if (deadline_ns < line.soonest)
        tcm_store_relaxed(&line.soonest, deadline_ns);
    if (is_led()) {
        line.account.waits++;
        if (w->thread != NULL && w->thread->is_awake)
            thread_rests_locked(w->thread);
    }
    tcm_unlock(&line.lock);
}

static void wait_end(void *wait) {
    struct clock_wait *w = wait;
    tcm_lock(&line.lock);
    if (w->before != NULL)
        w->before->next = w->next;
    else
        line.waits = w->next;
    if (w->next != NULL)
        w->next->before = w->before;
    if (w->deadline_ns <= line.soonest)
        find_soonest_locked();
    if (w->thread != NULL)
        w->thread->is_due = false;
    tcm_unlock(&line.lock);
}

/* True if the deadline of W is over. */
static bool wait_is_over(struct clock_wait *w) {
    return tcm_load_acquire(&w->due) != 0 || line_now() >= w->deadline_ns;
}

/* Real time that W may sleep at once; *SLICE is that of the next call. */
static uint64_t wait_slice_ns(const struct clock_wait *w, uint64_t *slice) {
    uint64_t ns = *slice;
    *slice = tcm_min_u64(ns * 2, SLICE_MOST_NS);
    if (!is_led()) {
        uint64_t now = line_now();
        ns = w->deadline_ns > now ? tcm_min_u64(ns, w->deadline_ns - now) : 0;
    }
    return ns;
}

static void wake_locked(struct clock_wait *w) {
    line.account.served++;
    if (w->thread != NULL) {
        w->thread->is_awake = w->thread->is_due = true;
        w->thread->was_asleep = false;
    }
    tcm_store_release(&w->due, 1u);
    switch (w->kind) {
    case WAIT_WORD:
        tcm_futex_wake(&w->due, INT_MAX);
        break;
    case WAIT_COND:
        pthread_cond_broadcast(w->object);
        break;
    case WAIT_FUTEX:
        tcm_futex_wake_shared(w->object, INT_MAX);
        break;
    case WAIT_SLICED:
        break;
    }
}

/* --- Leading the clock ---------------------------------------------------- */

/* Reads the file NAME of thread TID in /proc. False: the thread has ended. */
static bool thread_file(uint32_t tid, const char *name, char *text,
                        size_t size) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%u/%s", tid, name);
    return tcm_io_read_file(path, text, size) > 0;
}

/* State letter of thread TID; 0: it has ended. */
static char thread_state(uint32_t tid) {
    char text[256];
    if (!thread_file(tid, "stat", text, sizeof(text)))
        return 0;
    const char *end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' ? end[2] : 0;
}

/* Counts a thread that is no longer waited for. */
static void straggler_locked(struct clock_thread *t) {
    char *name = line.account.straggler;
    if (line.account.stragglers++ == 0 &&
        thread_file(t->tid, "comm", name, sizeof(line.account.straggler)))
        name[strcspn(name, "\n")] = '\0';
    t->is_awake = false;
}

/* Checks the threads that are awake: a thread that has ended, or is blocked
   twice in a row, is no longer waited for. Returns how many run. */
static size_t look_at_awake(bool is_late) {
    size_t running = 0;
    tcm_lock(&line.lock);
    for (size_t i = 0; i < THREADS; i++) {
        struct clock_thread *t = &line.thread[i];
        if (!t->is_awake)
            continue;
        char state = t->tid == 0 ? 'R' : thread_state(t->tid);
        bool asleep = state == 'S' && !t->is_due;
        if (state == 0)
            t->is_used = t->is_awake = false;
        else if (asleep && t->was_asleep)
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
    for (size_t i = 0; i < THREADS; i++)
        n += line.thread[i].is_awake;
    tcm_unlock(&line.lock);
    return n;
}

/* Waits until the threads that are awake have come to rest. */
static void await_rest(void) {
    uint64_t began = tcm_clock_ns();
    for (;;) {
        uint32_t rests = tcm_load_acquire(&line.rests);
        if (count_awake() == 0)
            return;
        uint64_t looked = tcm_clock_ns();
        tcm_futex_wait(&line.rests, rests, LOOK_NS);
        if (tcm_load_acquire(&line.rests) == rests &&
            tcm_clock_ns() - looked >= LOOK_NS &&
            look_at_awake(tcm_clock_ns() - began > REPLAY_CLOCK_PATIENCE_NS) ==
                0)
            return;
    }
}

void replay_clock_settle(void) {
    tcm_lock(&line.lock);
    for (size_t i = 0; i < THREADS; i++) {
        struct clock_thread *t = &line.thread[i];
        if (!t->is_used || t->is_awake || t->tid == 0 || t == own_thread)
            continue;
        char state = thread_state(t->tid);
        t->is_used = state != 0;
        t->is_awake = t->is_used && state != 'S';
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
    if (at > line.line_ns)
        tcm_store_release(&line.line_ns, at);
    for (struct clock_wait *w = line.waits; w != NULL; w = w->next)
        if (!w->due && w->deadline_ns <= line.line_ns)
            wake_locked(w);
    find_soonest_locked();
    tcm_unlock(&line.lock);
    await_rest();
    return true;
}

void replay_clock_lead(void) {
    uint64_t now = line_now();
    /* Read together, so that the offsets of all clocks belong to one moment. */
    for (clockid_t id = 0; id < CLOCKS; id++)
        if (is_on_line(id))
            (void)delta_ns(id);
    line.start_ns = now;
    tcm_store_relaxed(&line.line_ns, now);
    tcm_store_release(&line.is_led, 1u);
}

void replay_clock_advance(uint64_t ns) {
    uint64_t to = line.start_ns + ns;
    TCM_ASSERT(is_led());
    own_ns = 0;
    while (tcm_load_relaxed(&line.soonest) <= to && serve_next(to))
        ;
    if (to > tcm_load_relaxed(&line.line_ns))
        tcm_store_release(&line.line_ns, to);
}

void replay_clock_advance_thread(uint64_t ns) {
    uint64_t to = line.start_ns + ns;
    uint64_t latest = tcm_load_relaxed(&line.line_ns);
    own_ns = tcm_max_u64(own_ns, to);
    while (to > latest && !tcm_cas_acq_rel(&line.line_ns, &latest, to))
        ;
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
                      (int64_t)(now - real_ns(CLOCK_MONOTONIC)));
    tcm_store_release(&line.is_led, 0u);
}

void replay_clock_tell(struct replay_clock_account *account) {
    tcm_lock(&line.lock);
    *account = line.account;
    tcm_unlock(&line.lock);
}

/* --- Functions that tell time --------------------------------------------- */

static int tell_time(clockid_t id, struct timespec *ts) {
    if (!is_on_line(id) || (!is_led() && tcm_load_relaxed(&line.shift_ns) == 0))
        return tcm_clock_read(id, ts);
    *ts = timespec_of(line_now() + delta_ns(id));
    return 0;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
    return tell_time(id, ts);
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
    struct timespec ts;
    if (tell_time(CLOCK_REALTIME, &ts) == 0) {
        tv->tv_sec = ts.tv_sec;
        tv->tv_usec = ts.tv_nsec / 1000;
    }
    if (zone != NULL)
        memset(zone, 0, sizeof(struct timezone));
    return 0;
}

time_t time(time_t *out) {
    struct timespec ts = {0, 0};
    tell_time(CLOCK_REALTIME, &ts);
    if (out != NULL)
        *out = ts.tv_sec;
    return ts.tv_sec;
}

int timespec_get(struct timespec *ts, int base) {
    return base == TIME_UTC && tell_time(CLOCK_REALTIME, ts) == 0 ? base : 0;
}

/* --- Sleeping ------------------------------------------------------------- */

/* Sleeps until DEADLINE_NS of the line. Returns 0, or EINTR; errno stays. */
static int sleep_until(uint64_t deadline_ns) {
    struct clock_wait w;
    int before = errno;
    uint64_t slice = SLICE_MOST_NS;
    int error = 0;
    wait_begin(&w, deadline_ns, WAIT_WORD, NULL);
    while (error == 0 && !wait_is_over(&w)) {
        struct timespec ts = timespec_of(wait_slice_ns(&w, &slice));
        /* A system call of its own, so that the caller gets EINTR for a
           signal. */
        if (tcm_syscall(SYS_futex, &w.due, FUTEX_WAIT_PRIVATE, 0, &ts, NULL,
                        0) != 0 &&
            errno == EINTR)
            error = EINTR;
    }
    wait_end(&w);
    errno = before;
    pthread_testcancel();
    return error;
}

/* Sleeps for SPAN. The rest of an interrupted sleep goes to REST. Returns 0 or
   an error number. */
static int sleep_for(const struct timespec *span, struct timespec *rest) {
    if (!is_valid(span) || span->tv_sec < 0)
        return EINVAL;
    uint64_t deadline = deadline_in(span_ns(span));
    int error = sleep_until(deadline);
    if (error == EINTR && rest != NULL) {
        uint64_t now = line_now();
        *rest = timespec_of(deadline > now ? deadline - now : 0);
    }
    return error;
}

static int with_errno(int error) {
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

int nanosleep(const struct timespec *span, struct timespec *rest) {
    return with_errno(sleep_for(span, rest));
}

int clock_nanosleep(clockid_t id, int flags, const struct timespec *ts,
                    struct timespec *rest) {
    if (!is_on_line(id)) {
        int before = errno;
        int failed =
            (int)tcm_syscall(SYS_clock_nanosleep, id, flags, ts, rest) != 0;
        int error = failed ? errno : 0;
        errno = before;
        return error;
    }
    if ((flags & TIMER_ABSTIME) == 0)
        return sleep_for(ts, rest);
    if (!is_valid(ts))
        return EINVAL;
    return sleep_until(deadline_at(id, ts));
}

int usleep(useconds_t us) {
    struct timespec ts = timespec_of((uint64_t)us * 1000);
    return with_errno(sleep_for(&ts, NULL));
}

unsigned sleep(unsigned seconds) {
    struct timespec ts = {(time_t)seconds, 0}, rest = {0, 0};
    if (sleep_for(&ts, &rest) == 0)
        return 0;
    return (unsigned)rest.tv_sec + (rest.tv_nsec >= (long)(SECOND / 2));
}

/* --- Objects of the C library --------------------------------------------- */

/* Functions of the C library that the ones below replace. */
static struct {
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                  void *);
    int (*cond_timed)(pthread_cond_t *, pthread_mutex_t *,
                      const struct timespec *);
    int (*cond_clock)(pthread_cond_t *, pthread_mutex_t *, clockid_t,
                      const struct timespec *);
    int (*mutex_timed)(pthread_mutex_t *, const struct timespec *);
    int (*mutex_clock)(pthread_mutex_t *, clockid_t, const struct timespec *);
    int (*sem_timed)(sem_t *, const struct timespec *);
    int (*sem_clock)(sem_t *, clockid_t, const struct timespec *);
} libc;

/* The wait for a condition variable exists twice, and dlsym may find the
   function of the time before 2003. All other names exist once. A version that
   a name does not have must not be asked for: the message of dlvsym is memory
   of the allocator under test. */
static void *find_cond_timedwait(void) {
#if defined(__GLIBC__) && defined(__x86_64__)
    return dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
#else
    return dlsym(RTLD_NEXT, "pthread_cond_timedwait");
#endif
}

#define FIND(member, name)                                                     \
    tcm_store_relaxed(&libc.member,                                            \
                      (__typeof__(libc.member))dlsym(RTLD_NEXT, name))

/* Finds these functions. Each thread that does stores equal addresses. */
static void find_functions(void) {
    static uint32_t is_done;
    if (tcm_load_acquire(&is_done))
        return;
    FIND(create, "pthread_create");
    tcm_store_relaxed(&libc.cond_timed,
                      (__typeof__(libc.cond_timed))find_cond_timedwait());
    FIND(cond_clock, "pthread_cond_clockwait");
    FIND(mutex_timed, "pthread_mutex_timedlock");
    FIND(mutex_clock, "pthread_mutex_clocklock");
    FIND(sem_timed, "sem_timedwait");
    FIND(sem_clock, "sem_clockwait");
    tcm_store_release(&is_done, 1u);
}

static void *thread_main(void *record) {
    struct clock_thread *t = record;
    tcm_lock(&line.lock);
    own_thread = t;
    t->tid = tcm_os_tid();
    void *(*run)(void *) = t->main;
    void *arg = t->arg;
    tcm_unlock(&line.lock);
    return run(arg);
}

/* Threads that the allocator makes are known from their birth on: a pause must
   not pass before they wait. */
int pthread_create(pthread_t *restrict thread,
                   const pthread_attr_t *restrict attr, void *(*run)(void *),
                   void *restrict arg) {
    struct clock_thread *t = NULL;
    find_functions();
    if (replay_makes_thread)
        return libc.create(thread, attr, run, arg);
    tcm_lock(&line.lock);
    t = thread_new_locked();
    if (t != NULL) {
        t->main = run;
        t->arg = arg;
        t->is_awake = true;
    }
    tcm_unlock(&line.lock);
    if (t == NULL)
        return libc.create(thread, attr, run, arg);
    int error = libc.create(thread, attr, thread_main, t);
    if (error != 0) {
        tcm_lock(&line.lock);
        *t = (struct clock_thread){0};
        tcm_unlock(&line.lock);
    }
    return error;
}

enum object_kind { COND, COND_CLOCK, MUTEX, MUTEX_CLOCK, SEM, SEM_CLOCK };

struct object_wait {
    enum object_kind kind;
    void *object;
    pthread_mutex_t *mutex; /* of a condition variable */
    clockid_t id;
};

/* Waits until AT of the real clock, by the C library. Returns 0 or an error
   number. */
static int object_wait_real(const struct object_wait *o,
                            const struct timespec *at) {
    find_functions();
    switch (o->kind) {
    case COND:
        return libc.cond_timed(o->object, o->mutex, at);
    case COND_CLOCK:
        return libc.cond_clock(o->object, o->mutex, o->id, at);
    case MUTEX:
        return libc.mutex_timed(o->object, at);
    case MUTEX_CLOCK:
        return libc.mutex_clock(o->object, o->id, at);
    case SEM:
        return libc.sem_timed(o->object, at) == 0 ? 0 : errno;
    default:
        return libc.sem_clock(o->object, o->id, at) == 0 ? 0 : errno;
    }
}

/* Waits until AT of clock O->id. Returns 0 or an error number. */
static int object_wait(const struct object_wait *o, const struct timespec *at) {
    struct clock_wait w;
    uint64_t slice = SLICE_NS;
    bool is_cond = o->kind == COND || o->kind == COND_CLOCK;
    int error;
    if (!is_on_line(o->id) || !is_valid(at))
        return object_wait_real(o, at); /* returns the error */
    wait_begin(&w, deadline_at(o->id, at), is_cond ? WAIT_COND : WAIT_SLICED,
               o->object);
    pthread_cleanup_push(wait_end, &w);
    do {
        /* A free lock is taken even when the time is over. */
        uint64_t ns = wait_is_over(&w) ? 0 : wait_slice_ns(&w, &slice);
        bool is_last = wait_is_over(&w);
        if (!is_cond)
            slice = SLICE_NS;
        struct timespec ts = timespec_of(is_last ? 0 : real_ns(o->id) + ns);
        error = is_last && is_cond ? ETIMEDOUT : object_wait_real(o, &ts);
        if (is_last)
            break;
    } while (error == ETIMEDOUT);
    /* A wake by the clock looks like a wake by another thread. */
    if (error == 0 && is_cond && tcm_load_acquire(&w.due) != 0)
        error = ETIMEDOUT;
    pthread_cleanup_pop(1);
    return error;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond,
                           pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict at) {
    const struct object_wait o = {COND, cond, mutex, clock_of(at)};
    return object_wait(&o, at);
}

int pthread_cond_clockwait(pthread_cond_t *restrict cond,
                           pthread_mutex_t *restrict mutex, clockid_t id,
                           const struct timespec *restrict at) {
    const struct object_wait o = {COND_CLOCK, cond, mutex, id};
    return object_wait(&o, at);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex,
                            const struct timespec *restrict at) {
    const struct object_wait o = {MUTEX, mutex, NULL, CLOCK_REALTIME};
    return object_wait(&o, at);
}

int pthread_mutex_clocklock(pthread_mutex_t *restrict mutex, clockid_t id,
                            const struct timespec *restrict at) {
    const struct object_wait o = {MUTEX_CLOCK, mutex, NULL, id};
    return object_wait(&o, at);
}

int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict at) {
    const struct object_wait o = {SEM, sem, NULL, CLOCK_REALTIME};
    return with_errno(object_wait(&o, at));
}

int sem_clockwait(sem_t *restrict sem, clockid_t id,
                  const struct timespec *restrict at) {
    const struct object_wait o = {SEM_CLOCK, sem, NULL, id};
    return with_errno(object_wait(&o, at));
}

/* --- Descriptors ---------------------------------------------------------- */

/* Waits for descriptors, at most for SPAN_NS of real time; returns the result
   of the call. */
typedef long descriptor_wait(void *ctx, const struct timespec *span);

/* Waits for at most SPAN_NS of the line, in slices. */
static long wait_for_descriptors(uint64_t span, descriptor_wait *call,
                                 void *ctx) {
    struct clock_wait w;
    long result;
    wait_begin(&w, deadline_in(span), WAIT_SLICED, NULL);
    pthread_cleanup_push(wait_end, &w);
    bool is_last;
    do {
        uint64_t slice = SLICE_NS;
        is_last = wait_is_over(&w);
        struct timespec ts =
            timespec_of(is_last ? 0 : wait_slice_ns(&w, &slice));
        result = call(ctx, &ts);
    } while (result == 0 && !is_last);
    pthread_cleanup_pop(1);
    pthread_testcancel();
    return result;
}

struct poll_call {
    struct pollfd *fds;
    nfds_t count;
    const sigset_t *mask;
};

static long poll_once(void *ctx, const struct timespec *span) {
    struct poll_call *c = ctx;
    struct timespec ts = *span; /* the kernel writes to it */
    return tcm_syscall(SYS_ppoll, c->fds, c->count, &ts, c->mask, MASK_BYTES);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *span,
          const sigset_t *mask) {
    struct poll_call c = {fds, count, mask};
    if (span == NULL || !is_valid(span) || span->tv_sec < 0 ||
        span_ns(span) == 0) {
        struct timespec ts = span == NULL ? (struct timespec){0, 0} : *span;
        pthread_testcancel();
        return (int)tcm_syscall(SYS_ppoll, fds, count,
                                span == NULL ? NULL : &ts, mask, MASK_BYTES);
    }
    return (int)wait_for_descriptors(span_ns(span), poll_once, &c);
}

int poll(struct pollfd *fds, nfds_t count, int ms) {
    struct timespec ts = timespec_of(ms < 0 ? 0 : (uint64_t)ms * 1000000u);
    return ppoll(fds, count, ms < 0 ? NULL : &ts, NULL);
}

struct select_call {
    int count;
    fd_set *asked[3], set[3];
    const sigset_t *mask;
};

/* The kernel overwrites the sets with its answer, so each call gets a copy. */
static long select_once(void *ctx, const struct timespec *span) {
    struct select_call *c = ctx;
    struct timespec ts = *span;
    struct {
        const sigset_t *mask;
        size_t bytes;
    } mask = {c->mask, MASK_BYTES};
    fd_set set[3];
    memcpy(set, c->set, sizeof(set));
    long result = tcm_syscall(SYS_pselect6, c->count,
                              c->asked[0] == NULL ? NULL : &set[0],
                              c->asked[1] == NULL ? NULL : &set[1],
                              c->asked[2] == NULL ? NULL : &set[2], &ts, &mask);
    for (int i = 0; i < 3 && result >= 0; i++)
        if (c->asked[i] != NULL)
            memcpy(c->asked[i], &set[i], sizeof(set[i]));
    return result;
}

int pselect(int count, fd_set *restrict in, fd_set *restrict out,
            fd_set *restrict other, const struct timespec *restrict span,
            const sigset_t *restrict mask) {
    struct select_call c = {
        .count = count, .asked = {in, out, other}, .mask = mask};
    /* Sets larger than their type have no copy here. */
    if (span == NULL || !is_valid(span) || span->tv_sec < 0 ||
        count > FD_SETSIZE) {
        struct timespec ts = span == NULL ? (struct timespec){0, 0} : *span;
        struct {
            const sigset_t *mask;
            size_t bytes;
        } kernel_mask = {mask, MASK_BYTES};
        pthread_testcancel();
        return (int)tcm_syscall(SYS_pselect6, count, in, out, other,
                                span == NULL ? NULL : &ts, &kernel_mask);
    }
    for (int i = 0; i < 3; i++)
        if (c.asked[i] != NULL)
            c.set[i] = *c.asked[i];
    return (int)wait_for_descriptors(span_ns(span), select_once, &c);
}

int select(int count, fd_set *restrict in, fd_set *restrict out,
           fd_set *restrict other, struct timeval *restrict span) {
    if (span == NULL)
        return pselect(count, in, out, other, NULL, NULL);
    if (span->tv_sec < 0 || span->tv_usec < 0)
        return with_errno(EINVAL);
    uint64_t began = line_now();
    uint64_t ns =
        (uint64_t)span->tv_sec * SECOND + (uint64_t)span->tv_usec * 1000;
    struct timespec ts = timespec_of(ns);
    int result = pselect(count, in, out, other, &ts, NULL);
    /* Linux returns the time that was left. */
    uint64_t passed = line_now() - began;
    uint64_t rest = ns > passed ? ns - passed : 0;
    span->tv_sec = (time_t)(rest / SECOND);
    span->tv_usec = (suseconds_t)(rest % SECOND / 1000);
    return result;
}

struct epoll_call {
    int fd, most;
    struct epoll_event *events;
    const sigset_t *mask;
};

static long epoll_once(void *ctx, const struct timespec *span) {
    struct epoll_call *c = ctx;
    uint64_t ms = (span_ns(span) + 999999) / 1000000;
    return tcm_syscall(SYS_epoll_pwait, c->fd, c->events, c->most, ms, c->mask,
                       MASK_BYTES);
}

int epoll_pwait(int fd, struct epoll_event *events, int most, int ms,
                const sigset_t *mask) {
    struct epoll_call c = {fd, most, events, mask};
    if (ms <= 0) {
        pthread_testcancel();
        return (int)tcm_syscall(SYS_epoll_pwait, fd, events, most, ms, mask,
                                MASK_BYTES);
    }
    return (int)wait_for_descriptors((uint64_t)ms * 1000000u, epoll_once, &c);
}

int epoll_wait(int fd, struct epoll_event *events, int most, int ms) {
    return epoll_pwait(fd, events, most, ms, NULL);
}

/* --- syscall() ------------------------------------------------------------ */

/* A wait of FUTEX_WAIT or FUTEX_WAIT_BITSET with the timeout TS. */
static long futex_wait(uint32_t *word, int operation, uint32_t expected,
                       const struct timespec *ts, uint32_t bits) {
    struct clock_wait w;
    uint64_t slice = SLICE_NS;
    bool is_absolute = (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    clockid_t id = (operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME
                                                           : CLOCK_MONOTONIC;
    if (!is_valid(ts) || ts->tv_sec < 0)
        return with_errno(EINVAL);
    long result;
    wait_begin(&w, is_absolute ? deadline_at(id, ts) : deadline_in(span_ns(ts)),
               WAIT_FUTEX, word);
    do {
        bool is_last = wait_is_over(&w);
        uint64_t ns = is_last ? 0 : wait_slice_ns(&w, &slice);
        struct timespec at = timespec_of(is_absolute ? real_ns(id) + ns : ns);
        result =
            tcm_syscall(SYS_futex, word, operation, expected, &at, NULL, bits);
        if (is_last)
            break;
    } while (result != 0 && errno == ETIMEDOUT);
    if (result == 0 && tcm_load_acquire(&w.due) != 0)
        result = with_errno(ETIMEDOUT);
    wait_end(&w);
    return result;
}

/* System calls by number. Calls that return on another stack (clone, vfork)
   cannot go through a function in C; no allocator makes them so. */
long syscall(long number, ...) {
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    int command = (int)a[1] & FUTEX_CMD_MASK;
    switch (number) {
    case SYS_clock_gettime:
        return clock_gettime((clockid_t)a[0], (struct timespec *)a[1]);
    case SYS_gettimeofday:
        return gettimeofday((struct timeval *)a[0], (void *)a[1]);
    case SYS_nanosleep:
        return nanosleep((const struct timespec *)a[0],
                         (struct timespec *)a[1]);
    case SYS_clock_nanosleep:
        return with_errno(clock_nanosleep((clockid_t)a[0], (int)a[1],
                                          (const struct timespec *)a[2],
                                          (struct timespec *)a[3]));
    case SYS_futex:
        if (a[3] == 0 ||
            (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET))
            break;
        return futex_wait((uint32_t *)a[0], (int)a[1], (uint32_t)a[2],
                          (const struct timespec *)a[3], (uint32_t)a[5]);
    case SYS_ppoll:
        return ppoll((struct pollfd *)a[0], (nfds_t)a[1],
                     (const struct timespec *)a[2], (const sigset_t *)a[3]);
    case SYS_epoll_pwait:
        return epoll_pwait((int)a[0], (struct epoll_event *)a[1], (int)a[2],
                           (int)a[3], (const sigset_t *)a[4]);
#if defined(SYS_poll)
    case SYS_time:
        return time((time_t *)a[0]);
    case SYS_poll:
        return poll((struct pollfd *)a[0], (nfds_t)a[1], (int)a[2]);
    case SYS_select:
        return select((int)a[0], (fd_set *)a[1], (fd_set *)a[2], (fd_set *)a[3],
                      (struct timeval *)a[4]);
    case SYS_epoll_wait:
        return epoll_wait((int)a[0], (struct epoll_event *)a[1], (int)a[2],
                          (int)a[3]);
#endif
    default:
        break;
    }
    return tcm_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

bool replay_clock_is_supported(void) {
    return true;
}

#else

/* Sanitizers stand before the same functions, and the real clock is one of
   them: such a build has no recorded clock. */

bool replay_clock_is_supported(void) {
    return false;
}

void replay_clock_lead(void) {
}

void replay_clock_settle(void) {
}

void replay_clock_advance(uint64_t ns) {
    (void)ns;
}

void replay_clock_advance_thread(uint64_t ns) {
    (void)ns;
}

uint64_t replay_clock_next_deadline(void) {
    return UINT64_MAX;
}

void replay_clock_release(void) {
}

void replay_clock_tell(struct replay_clock_account *account) {
    memset(account, 0, sizeof(*account));
}

#endif
