/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fork takes every lock of api and core in the order of base/lock.h, so that
 * the child finds consistent structures. Fork handlers of other libraries must
 * not run meanwhile: they allocate, join threads, or wait for locks whose
 * holders allocate. The C library runs prepare handlers in reverse order of
 * registration and the others in order, so ours must be registered first
 * (tcm_fork_handlers).
 *
 * After the handlers, fork takes the locks of the C library's streams. Their
 * holders may allocate (getline), or wait for a thread that does (fflush of all
 * streams). So the list of streams is locked here, before our locks. musl's
 * list cannot be locked from outside, and its lock is not recursive: fflush of
 * all streams and exit, which wait for streams while they have it, take a mutex
 * of ours before it (STREAMS).
 *
 * Signals are blocked while the locks are held: a handler that forks would wait
 * for its own thread. A signal handler that forks in the middle of an
 * allocation may find a lock held by its own thread. It then takes none, which
 * is safe only if no other thread holds one at that moment.
 */
#include "api/export.h"
#include "api/library.h"
#include "api/thread_record.h"
#include "api/thread_state.h"
#include "api/trace_hooks.h"
#include "base/atomic.h"
#include "base/check.h"
#include "base/lock.h"
#include "base/linux/os_libc.h"
#include "base/linux/os_thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

/* --- The list of streams -------------------------------------------------- */

#if defined(__GLIBC__)
/* Functions of glibc's libio: exported, but declared in no current header. The
   lock is recursive. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));
extern void _IO_list_resetlock(void) __attribute__((weak));

static void lock_streams(void) {
    if (_IO_list_lock != NULL)
        _IO_list_lock();
}

static void unlock_streams(void) {
    if (_IO_list_unlock != NULL)
        _IO_list_unlock();
}

/* In a child. The C library may have done it already. */
static void reset_streams(bool were_locked) {
    if (were_locked && _IO_list_resetlock != NULL)
        _IO_list_resetlock();
}

void tcm_fork_exit(void) {
}
#else
static pthread_mutex_t streams = PTHREAD_MUTEX_INITIALIZER;
/* This thread has STREAMS, or is about to take it, outside of a fork: a fork
   that a signal handler or a stream's own write function makes meanwhile must
   not wait for it. */
static TCM_TLS bool has_streams;

static void lock_streams(void) {
    if (!has_streams)
        pthread_mutex_lock(&streams);
}

static void unlock_streams(void) {
    if (!has_streams)
        pthread_mutex_unlock(&streams);
}

/* In a child. Its parent may have forked without the lock (has_locks), while
   another thread had it. */
static void reset_streams(bool were_locked) {
    static const pthread_mutex_t free_mutex = PTHREAD_MUTEX_INITIALIZER;
    (void)were_locked;
    if (!has_streams)
        streams = free_mutex;
}

/* musl's other name of fflush. */
int fflush_unlocked(void *stream);
int TCM_EXPORT(fflush)(void *stream);

/* Weak: a static program that has the C library's own does without ours. */
TCM_PUBLIC __attribute__((weak)) int TCM_EXPORT(fflush)(void *stream) {
    if (stream != NULL || has_streams)
        return fflush_unlocked(stream);
    has_streams = true;
    tcm_fence_signal();
    pthread_mutex_lock(&streams);
    int result = fflush_unlocked(NULL);
    pthread_mutex_unlock(&streams);
    tcm_fence_signal();
    has_streams = false;
    return result;
}

void tcm_fork_exit(void) {
    if (has_streams)
        return;
    has_streams = true;
    tcm_fence_signal();
    pthread_mutex_lock(&streams);
}
#endif

/* --- Handlers ------------------------------------------------------------ */

/* State of a fork by this thread. */
static TCM_TLS uint64_t mask_before;
static TCM_TLS bool has_locks;

static void before_fork(void) {
    mask_before = tcm_block_signals();
    has_locks = tcm_locks_held == 0;
    if (!has_locks)
        return;
    uint64_t number = tcm_trace_forks(); /* may wait for the saver */
    lock_streams();
    tcm_record_fork_prepare();
    tcm_heap_fork_prepare();
    tcm_trace_fork_note(number);
}

static void after_fork_in_parent(void) {
    TCM_ASSERT(tcm_locks_held != 0);
    if (has_locks) {
        tcm_trace_fork_note(0);
        tcm_heap_fork_parent();
        tcm_record_fork_parent();
        unlock_streams();
        TCM_ASSERT(tcm_locks_held == 0);
    }
    tcm_restore_signals(mask_before);
}

static void after_fork_in_child(void) {
    struct tcm_thread_state *self = &tcm_self;
    TCM_ASSERT(tcm_locks_held != 0);
    if (has_locks) {
        tcm_heap_fork_child(self->own);
        tcm_record_fork_child(self->record);
        TCM_ASSERT(tcm_locks_held == 0 && tcm_thread_is_valid(self));
    }
    reset_streams(has_locks);
    tcm_trace_fork_child(self);
    tcm_restore_signals(mask_before);
}

/* --- Registration -------------------------------------------------------- */

#if defined(__GLIBC__)
typedef int register_function(void (*)(void), void (*)(void), void (*)(void),
                              void *);

static register_function register_behind_ours;

/*
 * pthread_atfork, which is linked into each object, calls this function. The
 * libraries of a program may register handlers before our constructor and their
 * first allocation; then ours are registered here, first. Weak, because a
 * static program has the C library's own.
 */
TCM_PUBLIC register_function TCM_EXPORT(__register_atfork)
    __attribute__((weak, alias("register_behind_ours")));

/* The next __register_atfork: the C library's, or that of a library between,
   which passes calls on. The search begins behind this library, because one in
   front passes calls on to this one. In a static program it is the C library's.
   NULL: there is none. */
static register_function *next_register(void) {
    static register_function *next;
    register_function *f = tcm_load_relaxed(&next);
    if (f == NULL) {
#if !TCM_QUIET_DLSYM
        /* dlsym would allocate, and by the program's calloc if it has one; and
           both libraries give the program the same addresses. */
        f = (register_function *)tcm_libc_function("__register_atfork");
        if (f == NULL)
#endif
            f = (register_function *)dlsym(RTLD_NEXT, "__register_atfork");
        if (f == NULL && TCM_EXPORT(__register_atfork) != register_behind_ours)
            f = TCM_EXPORT(__register_atfork);
        tcm_store_relaxed(&next, f);
    }
    return f;
}

static int register_behind_ours(void (*prepare)(void), void (*parent)(void),
                                void (*child)(void), void *object) {
    tcm_fork_handlers();
    register_function *f = next_register();
    return f != NULL ? f(prepare, parent, child, object) : ENOSYS;
}

/* Registered for no object, so that they outlive the library's destructor. In
   a program of musl, which has no __register_atfork, by its pthread_atfork. */
static void register_ours(void) {
    register_function *f = next_register();
    if (f != NULL) {
        f(before_fork, after_fork_in_parent, after_fork_in_child, NULL);
        return;
    }
    int (*atfork)(void (*)(void), void (*)(void), void (*)(void));
    *(void **)&atfork = dlsym(RTLD_NEXT, "pthread_atfork");
    if (atfork != NULL)
        (void)atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
#else
static void register_ours(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
#endif

void tcm_fork_handlers(void) {
    static uint32_t registered;
    uint32_t no = 0;
    if (tcm_load_relaxed(&registered) == 0 &&
        tcm_cas_acquire(&registered, &no, 1u))
        register_ours();
}
