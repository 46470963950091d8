/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C library's functions that tell time or wait for it, with the recorded
 * clock. The loader finds a program's functions before those of libraries, so
 * the allocator under test calls these:
 *
 * clock_gettime, gettimeofday, time, timespec_get; nanosleep, clock_nanosleep,
 * usleep, sleep; pthread_cond_timedwait and _clockwait, pthread_mutex_timedlock
 * and _clocklock, sem_timedwait and _clockwait; poll, ppoll, select, pselect,
 * epoll_wait and _pwait with a timeout; syscall() with the numbers of these and
 * of futex. pthread_create, pthread_cond_signal and _broadcast and sem_post
 * note that a thread has work, and call the C library. Clocks of processor time
 * stay real. This program itself reads the real clock (base/clock.h).
 *
 * Not covered: alarms and timers of the kernel, waits of C11 threads, rwlocks
 * and message queues.
 *
 * Invariants: no function here allocates.
 * Threads: any.
 */
#include "base/atomic.h"
#include "base/linux/os_thread.h"
#include "base/linux/os_syscall.h"
#include "cmd/replay/run/recorded_clock.h"
#include "common/shared_library.h"

#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>

#if TCM_SYSCALL_RAW

/* Size of a set of signals in the kernel. */
#define MASK_BYTES ((size_t)8)

/* --- Functions that tell time --------------------------------------------- */

int clock_gettime(clockid_t id, struct timespec *ts) {
    return replay_clock_tell_time(id, ts);
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
    struct timespec ts;
    if (replay_clock_tell_time(CLOCK_REALTIME, &ts) == 0) {
        tv->tv_sec = ts.tv_sec;
        tv->tv_usec = ts.tv_nsec / 1000;
    }
    if (zone != NULL)
        memset(zone, 0, sizeof(struct timezone));
    return 0;
}

time_t time(time_t *out) {
    struct timespec ts = {0, 0};
    replay_clock_tell_time(CLOCK_REALTIME, &ts);
    if (out != NULL)
        *out = ts.tv_sec;
    return ts.tv_sec;
}

int timespec_get(struct timespec *ts, int base) {
    return base == TIME_UTC && replay_clock_tell_time(CLOCK_REALTIME, ts) == 0
               ? base
               : 0;
}

/* --- Sleeping ------------------------------------------------------------- */

/* Sleeps for SPAN. The rest of an interrupted sleep goes to REST. Returns 0 or
   an error number. */
static int sleep_for(const struct timespec *span, struct timespec *rest) {
    if (!replay_timespec_is_valid(span) || span->tv_sec < 0)
        return EINVAL;
    uint64_t deadline = replay_clock_deadline_in(replay_timespec_ns(span));
    int error = replay_clock_sleep_until(deadline);
    if (error == EINTR && rest != NULL) {
        uint64_t now = replay_clock_now();
        *rest = replay_timespec_of(deadline > now ? deadline - now : 0);
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
    if (!replay_clock_covers(id)) {
        int before = errno;
        int failed =
            (int)tcm_syscall(SYS_clock_nanosleep, id, flags, ts, rest) != 0;
        int error = failed ? errno : 0;
        errno = before;
        return error;
    }
    if ((flags & TIMER_ABSTIME) == 0)
        return sleep_for(ts, rest);
    if (!replay_timespec_is_valid(ts))
        return EINVAL;
    return replay_clock_sleep_until(replay_clock_deadline_at(id, ts));
}

int usleep(useconds_t us) {
    struct timespec ts = replay_timespec_of((uint64_t)us * 1000);
    return with_errno(sleep_for(&ts, NULL));
}

unsigned sleep(unsigned seconds) {
    struct timespec ts = {(time_t)seconds, 0}, rest = {0, 0};
    if (sleep_for(&ts, &rest) == 0)
        return 0;
    return (unsigned)rest.tv_sec +
           (rest.tv_nsec >= (long)(REPLAY_SECOND_NS / 2));
}

/* --- Objects of the C library --------------------------------------------- */

/* glibc has these since 2.30. */
int pthread_cond_clockwait(pthread_cond_t *restrict cond,
                           pthread_mutex_t *restrict mutex, clockid_t id,
                           const struct timespec *restrict at);
int pthread_mutex_clocklock(pthread_mutex_t *restrict mutex, clockid_t id,
                            const struct timespec *restrict at);
int sem_clockwait(sem_t *restrict sem, clockid_t id,
                  const struct timespec *restrict at);

/* Functions of the C library that the ones below replace; those with a clock
   are NULL if it has none. */
static struct {
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                  void *);
    int (*cond_signal)(pthread_cond_t *);
    int (*cond_broadcast)(pthread_cond_t *);
    int (*sem_post)(sem_t *);
    int (*cond_timed)(pthread_cond_t *, pthread_mutex_t *,
                      const struct timespec *);
    int (*cond_clock)(pthread_cond_t *, pthread_mutex_t *, clockid_t,
                      const struct timespec *);
    int (*mutex_timed)(pthread_mutex_t *, const struct timespec *);
    int (*mutex_clock)(pthread_mutex_t *, clockid_t, const struct timespec *);
    int (*sem_timed)(sem_t *, const struct timespec *);
    int (*sem_clock)(sem_t *, clockid_t, const struct timespec *);
    long (*call)(long, ...);
} libc;

#define FIND(member, name)                                                     \
    tcm_store_relaxed(&libc.member,                                            \
                      (__typeof__(libc.member))tool_symbol_next(name))

/* Finds these functions. Each thread that does stores equal addresses. */
static void find_functions(void) {
    static uint32_t is_done;
    if (tcm_load_acquire(&is_done))
        return;
    FIND(create, "pthread_create");
    FIND(cond_signal, "pthread_cond_signal");
    FIND(cond_broadcast, "pthread_cond_broadcast");
    FIND(sem_post, "sem_post");
    FIND(cond_timed, "pthread_cond_timedwait");
    FIND(cond_clock, "pthread_cond_clockwait");
    FIND(mutex_timed, "pthread_mutex_timedlock");
    FIND(mutex_clock, "pthread_mutex_clocklock");
    FIND(sem_timed, "sem_timedwait");
    FIND(sem_clock, "sem_clockwait");
    FIND(call, "syscall");
    tcm_store_release(&is_done, 1u);
}

/* Threads that the allocator makes are known from their birth on: a pause must
   not pass before they wait. */
int pthread_create(pthread_t *restrict thread,
                   const pthread_attr_t *restrict attr, void *(*run)(void *),
                   void *restrict arg) {
    find_functions();
    if (replay_makes_thread)
        return libc.create(thread, attr, run, arg);
    struct replay_clock_thread *t = replay_clock_thread_new(run, arg);
    if (t == NULL)
        return libc.create(thread, attr, run, arg);
    int error = libc.create(thread, attr, replay_clock_thread_main, t);
    if (error != 0)
        replay_clock_thread_drop(t);
    replay_clock_note_wake();
    return error;
}

int pthread_cond_signal(pthread_cond_t *cond) {
    find_functions();
    replay_clock_note_wake();
    return libc.cond_signal(cond);
}

int pthread_cond_broadcast(pthread_cond_t *cond) {
    find_functions();
    replay_clock_note_wake();
    return libc.cond_broadcast(cond);
}

int sem_post(sem_t *sem) {
    find_functions();
    replay_clock_note_wake();
    return libc.sem_post(sem);
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
        return libc.cond_clock == NULL
                   ? EINVAL
                   : libc.cond_clock(o->object, o->mutex, o->id, at);
    case MUTEX:
        return libc.mutex_timed(o->object, at);
    case MUTEX_CLOCK:
        return libc.mutex_clock == NULL
                   ? EINVAL
                   : libc.mutex_clock(o->object, o->id, at);
    case SEM:
        return libc.sem_timed(o->object, at) == 0 ? 0 : errno;
    default:
        if (libc.sem_clock == NULL)
            return EINVAL;
        return libc.sem_clock(o->object, o->id, at) == 0 ? 0 : errno;
    }
}

static void wake_cond(void *cond) {
    libc.cond_broadcast(cond);
}

/* Waits until AT of clock O->id. Returns 0 or an error number. */
static int object_wait(const struct object_wait *o, const struct timespec *at) {
    struct replay_wait w;
    uint64_t slice = REPLAY_SLICE_NS;
    bool is_cond = o->kind == COND || o->kind == COND_CLOCK;
    int error;
    if (!replay_clock_covers(o->id) || !replay_timespec_is_valid(at))
        return object_wait_real(o, at); /* returns the error */
    find_functions();
    replay_wait_begin(&w, replay_clock_deadline_at(o->id, at),
                      is_cond ? wake_cond : NULL, o->object);
    pthread_cleanup_push(replay_wait_end, &w);
    do {
        /* A free lock is taken even when the time is over. */
        uint64_t ns =
            replay_wait_is_over(&w) ? 0 : replay_wait_slice_ns(&w, &slice);
        bool is_last = replay_wait_is_over(&w);
        if (!is_cond)
            slice = REPLAY_SLICE_NS;
        struct timespec ts =
            replay_timespec_of(is_last ? 0 : replay_clock_real_ns(o->id) + ns);
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
    const struct object_wait o = {COND, cond, mutex, replay_clock_of(at)};
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
    struct replay_wait w;
    long result;
    replay_wait_begin(&w, replay_clock_deadline_in(span), NULL, NULL);
    pthread_cleanup_push(replay_wait_end, &w);
    bool is_last;
    do {
        uint64_t slice = REPLAY_SLICE_NS;
        is_last = replay_wait_is_over(&w);
        struct timespec ts =
            replay_timespec_of(is_last ? 0 : replay_wait_slice_ns(&w, &slice));
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
    if (span == NULL || !replay_timespec_is_valid(span) || span->tv_sec < 0 ||
        replay_timespec_ns(span) == 0) {
        struct timespec ts = span == NULL ? (struct timespec){0, 0} : *span;
        pthread_testcancel();
        return (int)tcm_syscall(SYS_ppoll, fds, count,
                                span == NULL ? NULL : &ts, mask, MASK_BYTES);
    }
    return (int)wait_for_descriptors(replay_timespec_ns(span), poll_once, &c);
}

int poll(struct pollfd *fds, nfds_t count, int ms) {
    struct timespec ts =
        replay_timespec_of(ms < 0 ? 0 : (uint64_t)ms * 1000000u);
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
    if (span == NULL || !replay_timespec_is_valid(span) || span->tv_sec < 0 ||
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
    return (int)wait_for_descriptors(replay_timespec_ns(span), select_once, &c);
}

int select(int count, fd_set *restrict in, fd_set *restrict out,
           fd_set *restrict other, struct timeval *restrict span) {
    if (span == NULL)
        return pselect(count, in, out, other, NULL, NULL);
    if (span->tv_sec < 0 || span->tv_usec < 0)
        return with_errno(EINVAL);
    uint64_t began = replay_clock_now();
    uint64_t ns = (uint64_t)span->tv_sec * REPLAY_SECOND_NS +
                  (uint64_t)span->tv_usec * 1000;
    struct timespec ts = replay_timespec_of(ns);
    int result = pselect(count, in, out, other, &ts, NULL);
    /* Linux returns the time that was left. */
    uint64_t passed = replay_clock_now() - began;
    uint64_t rest = ns > passed ? ns - passed : 0;
    span->tv_sec = (time_t)(rest / REPLAY_SECOND_NS);
    span->tv_usec = (suseconds_t)(rest % REPLAY_SECOND_NS / 1000);
    return result;
}

struct epoll_call {
    int fd, most;
    struct epoll_event *events;
    const sigset_t *mask;
};

static long epoll_once(void *ctx, const struct timespec *span) {
    struct epoll_call *c = ctx;
    uint64_t ms = (replay_timespec_ns(span) + 999999) / 1000000;
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

/* Calls for memory that are counted come from code other than this program's:
   watch/returns.c. */
static bool is_counted(long number) {
    return replay_clock_counts_calls() &&
           (number == SYS_madvise || number == SYS_munmap ||
            number == SYS_mmap || number == SYS_mprotect ||
            number == SYS_mremap || number == SYS_brk);
}

static void wake_futex(void *word) {
    tcm_futex_wake_shared(word, INT_MAX);
}

/* A wait of FUTEX_WAIT or FUTEX_WAIT_BITSET with the timeout TS. */
static long futex_wait(uint32_t *word, int operation, uint32_t expected,
                       const struct timespec *ts, uint32_t bits) {
    struct replay_wait w;
    uint64_t slice = REPLAY_SLICE_NS;
    bool is_absolute = (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    clockid_t id = (operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME
                                                           : CLOCK_MONOTONIC;
    if (!replay_timespec_is_valid(ts) || ts->tv_sec < 0)
        return with_errno(EINVAL);
    long result;
    replay_wait_begin(&w,
                      is_absolute
                          ? replay_clock_deadline_at(id, ts)
                          : replay_clock_deadline_in(replay_timespec_ns(ts)),
                      wake_futex, word);
    do {
        bool is_last = replay_wait_is_over(&w);
        uint64_t ns = is_last ? 0 : replay_wait_slice_ns(&w, &slice);
        struct timespec at = replay_timespec_of(
            is_absolute ? replay_clock_real_ns(id) + ns : ns);
        result =
            tcm_syscall(SYS_futex, word, operation, expected, &at, NULL, bits);
        if (is_last)
            break;
    } while (result != 0 && errno == ETIMEDOUT);
    if (result == 0 && tcm_load_acquire(&w.due) != 0)
        result = with_errno(ETIMEDOUT);
    replay_wait_end(&w);
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
        if (!is_counted(number))
            break;
        find_functions();
        return libc.call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
    return tcm_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#endif
