/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fork takes every lock of api and core in the one order of base/lock.h, so
 * that the child finds consistent structures. Handlers of other libraries
 * allocate, join threads, or wait for locks whose holders allocate: none of
 * them may run while the locks are held. The C library runs prepare handlers in
 * reverse order of registration and the others in order, so ours must be
 * registered first (tcm_fork_handlers).
 *
 * The C library's own locks: those of its streams are taken by fork after the
 * handlers, and are held by threads that allocate (getline) or wait for one
 * that does (fflush of all streams). So the list of streams is locked here
 * already, ahead of our locks.
 *
 * Signals are blocked while the locks are held: a signal handler that forks
 * would wait for its own thread. A signal handler that forks in the middle of
 * an allocation finds locks held by its own thread; it forks without taking
 * any, which is safe only if no other thread holds one at that moment.
 */
#include "api/export.h"
#include "api/library.h"
#include "api/thread_record.h"
#include "api/thread_state.h"
#include "api/trace_hooks.h"
#include "base/atomic.h"
#include "base/check.h"
#include "base/lock.h"
#include "base/linux/os_thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

/* Functions of glibc's libio: exported, but declared in no current header. The
   lock is recursive. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));
extern void _IO_list_resetlock(void) __attribute__((weak));

/* State of the fork that this thread is in. */
static TCM_TLS uint64_t mask_before;
static TCM_TLS bool has_locks;

static void prepare(void) {
    mask_before = tcm_block_signals();
    has_locks = tcm_locks_held == 0;
    if (!has_locks)
        return;
    if (_IO_list_lock != NULL)
        _IO_list_lock();
    tcm_record_fork_prepare();
    tcm_heap_fork_prepare();
}

static void parent(void) {
    TCM_ASSERT(tcm_locks_held != 0);
    if (has_locks) {
        tcm_heap_fork_parent();
        tcm_record_fork_parent();
        if (_IO_list_unlock != NULL)
            _IO_list_unlock();
        TCM_ASSERT(tcm_locks_held == 0);
    }
    tcm_restore_signals(mask_before);
}

static void child(void) {
    struct tcm_thread_state *self = &tcm_self;
    TCM_ASSERT(tcm_locks_held != 0);
    if (has_locks) {
        tcm_heap_fork_child(self->own);
        tcm_record_fork_child(self->record);
        TCM_ASSERT(tcm_locks_held == 0 && tcm_thread_is_valid(self));
        /* The C library may have reset it already. */
        if (_IO_list_resetlock != NULL)
            _IO_list_resetlock();
    }
    tcm_trace_fork_child(self);
    tcm_restore_signals(mask_before);
}

/* --- Registration -------------------------------------------------------- */

#if defined(__GLIBC__)
typedef int register_function(void (*)(void), void (*)(void), void (*)(void),
                              void *);

static register_function register_after_ours;

/*
 * pthread_atfork, which is linked into each object, calls this function. When
 * this library is preloaded, the program's libraries may register handlers
 * before our constructor runs and without having allocated; then ours are
 * registered first, from here. Weak, since a static program has the C library's
 * own.
 */
TCM_PUBLIC register_function TCM_EXPORT(__register_atfork)
    __attribute__((weak, alias("register_after_ours")));

/* The C library's, that of a library behind this one which passes on, or NULL.
   It is looked for behind this code: the name may be that of a library in
   front, which passes on to this one. A static program has nothing behind it,
   and the name is that of its C library. */
static register_function *next_register(void) {
    static register_function *next;
    register_function *f = tcm_load_relaxed(&next);
    if (f == NULL) {
        f = (register_function *)dlsym(RTLD_NEXT, "__register_atfork");
        if (f == NULL && TCM_EXPORT(__register_atfork) != register_after_ours)
            f = TCM_EXPORT(__register_atfork);
        tcm_store_relaxed(&next, f);
    }
    return f;
}

static int register_after_ours(void (*before)(void), void (*in_parent)(void),
                               void (*in_child)(void), void *object) {
    tcm_fork_handlers();
    register_function *f = next_register();
    return f != NULL ? f(before, in_parent, in_child, object) : ENOSYS;
}

/* Registered for no object, so that they outlive the library's destructor. */
static void register_ours(void) {
    register_function *f = next_register();
    if (f != NULL)
        f(prepare, parent, child, NULL);
}
#else
static void register_ours(void) {
    pthread_atfork(prepare, parent, child);
}
#endif

void tcm_fork_handlers(void) {
    static uint32_t registered;
    uint32_t no = 0;
    if (tcm_load_relaxed(&registered) == 0 &&
        tcm_cas_acquire(&registered, &no, 1u))
        register_ours();
}
