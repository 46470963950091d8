/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/own_thread.h"

#include "base/check.h"
#include "base/linux/os_libc.h"
#include "base/linux/os_process.h"
#include "base/linux/os_syscall.h"
#include "base/linux/os_thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1u << 1)
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define STACK_BYTES ((size_t)256 << 10)

void mtr_own_init(void) {
    if (tcm_libc_find())
        return;
    mtr_config.host->enter_private();
    tcm_libc_find_by_loader();
    mtr_config.host->leave_private();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* The sanitizer's calloc may be called anywhere. */
bool mtr_own_calls_program(void) {
    return false;
}
#else
/* True if A and B are in one file. */
static bool are_neighbours(void *a, void *b) {
    Dl_info of_a, of_b;
    return dladdr(a, &of_a) != 0 && dladdr(b, &of_b) != 0 &&
           of_a.dli_fbase == of_b.dli_fbase;
}

bool mtr_own_calls_program(void) {
    mtr_config.host->enter_private();
    void *found = dlsym(RTLD_DEFAULT, "calloc");
    void *libc = dlsym(RTLD_DEFAULT, "abort");
    mtr_config.host->leave_private();
    return found != NULL && libc != NULL &&
           !are_neighbours(found, &mtr_config) && !are_neighbours(found, libc);
}
#endif

bool mtr_own_create(pthread_t *thread, void *(*body)(void *), void *arg,
                    int *error) {
    pthread_attr_t attr;
    uint64_t mask = tcm_block_signals();
    tcm_libc.attr_init(&attr);
    tcm_libc.attr_setstacksize(&attr, STACK_BYTES);
    int rc = tcm_libc.create(thread, &attr, body, arg);
    if (rc == EINVAL) {
        /* The program's thread-local storage is larger than our stack. */
        tcm_libc.attr_setstacksize(&attr, 32 * STACK_BYTES);
        rc = tcm_libc.create(thread, &attr, body, arg);
    }
    if (rc != 0)
        *thread = 0;
    tcm_libc.attr_destroy(&attr);
    tcm_restore_signals(mask);
    *error = rc;
    return rc == 0;
}

void mtr_own_begin(struct mtr_recorder *rec, const char *name) {
    mtr_config.host->enter_private();
    tcm_add_acq_rel(&rec->own_threads, 1u);
    if (tcm_libc.thread_count != NULL)
        tcm_sub_acq_rel(tcm_libc.thread_count, 1u);
    tcm_syscall(SYS_prctl, PR_SET_NAME, name, 0, 0, 0);
    /* A folder of its own, which keeps no file system of the program mounted.
       Names of outputs are absolute. */
    if (tcm_syscall(SYS_unshare, CLONE_FS) == 0)
        tcm_syscall(SYS_chdir, "/");
}

void mtr_own_end(struct mtr_recorder *rec, bool alone) {
    TCM_ASSERT(tcm_load_relaxed(&rec->own_threads) != 0);
    int code = alone ? tcm_os_first_exit_code() : 0;
    /* A first thread with a status has made the system call itself: the C
       library still counts it, and would not call exit. */
    if (alone && (tcm_libc.thread_count != NULL || code != 0)) {
        tcm_sub_acq_rel(&rec->own_threads, 1u);
        tcm_syscall(SYS_exit, code);
    }
    if (tcm_libc.thread_count != NULL)
        tcm_add_acq_rel(tcm_libc.thread_count, 1u);
    tcm_sub_acq_rel(&rec->own_threads, 1u);
}

void mtr_own_join(pthread_t *thread) {
    pthread_t ended = tcm_swap_acq_rel(thread, (pthread_t)0);
    int state;
    if (ended == 0)
        return;
    mtr_config.host->enter_private();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    tcm_libc.join(ended, NULL);
    pthread_setcancelstate(state, &state);
    mtr_config.host->leave_private();
}

/* --- Descriptors --------------------------------------------------------- */

static bool close_all_but(int keep) {
    unsigned k = (unsigned)keep;
    if (keep < 0)
        return tcm_syscall(SYS_close_range, 0u, ~0u, CLOSE_RANGE_UNSHARE) == 0;
    if (tcm_syscall(SYS_close_range, k + 1, ~0u, CLOSE_RANGE_UNSHARE) != 0)
        return false;
    if (k != 0)
        tcm_syscall(SYS_close_range, 0u, k - 1, 0u);
    return true;
}

/* Occupies 0 to 2: a last message of any code on this thread must not go into
   the trace. */
bool mtr_unshare_table(int keep) {
    if (!close_all_but(keep))
        return false;
    for (;;) {
        long fd = tcm_syscall(SYS_openat, AT_FDCWD, "/", O_PATH | O_CLOEXEC, 0);
        if (fd > 2)
            tcm_syscall(SYS_close, fd);
        if (fd < 0 || fd > 2)
            return true;
    }
}

/* --- The end of the program ---------------------------------------------- */

bool mtr_own_are_last(struct mtr_recorder *rec, struct tcm_statm *m) {
    uint64_t field[3];
    uint32_t ours = tcm_load_acquire(&rec->own_threads);
    if (!m->first_is_gone)
        (void)tcm_statm_read(m, field);
    return m->first_is_gone && tcm_os_thread_count() == 1 + (uint64_t)ours &&
           tcm_load_acquire(&rec->own_threads) == ours;
}
