/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/linux/os_thread.h"
#include "base/check.h"
#include "base/linux/os_syscall.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static void futex_wait(uint32_t *word, int operation, uint32_t expected,
                       uint64_t timeout_ns) {
    TCM_ASSERT((uintptr_t)word % sizeof(*word) == 0);
    int saved = errno;
    struct timespec ts;
    struct timespec *timeout = NULL;
    if (timeout_ns != UINT64_MAX) {
        ts.tv_sec = (time_t)(timeout_ns / 1000000000u);
        ts.tv_nsec = (long)(timeout_ns % 1000000000u);
        timeout = &ts;
    }
    tcm_syscall(SYS_futex, word, operation, expected, timeout, NULL, 0);
    errno = saved;
}

static void futex_wake(uint32_t *word, int operation, int count) {
    TCM_ASSERT((uintptr_t)word % sizeof(*word) == 0 && count > 0);
    int saved = errno;
    tcm_syscall(SYS_futex, word, operation, count, NULL, NULL, 0);
    errno = saved;
}

void tcm_futex_wait(uint32_t *word, uint32_t expected, uint64_t timeout_ns) {
    futex_wait(word, FUTEX_WAIT_PRIVATE, expected, timeout_ns);
}

void tcm_futex_wake(uint32_t *word, int count) {
    futex_wake(word, FUTEX_WAKE_PRIVATE, count);
}

void tcm_futex_wait_shared(uint32_t *word, uint32_t expected,
                           uint64_t timeout_ns) {
    futex_wait(word, FUTEX_WAIT, expected, timeout_ns);
}

void tcm_futex_wake_shared(uint32_t *word, int count) {
    futex_wake(word, FUTEX_WAKE, count);
}

/* The kernel's struct sched_attr, which not every C library declares. */
struct sched_attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

void tcm_os_short_slice(void) {
    struct sched_attributes s = {.size = sizeof(s)};
    if (tcm_syscall(SYS_sched_getattr, 0, &s, sizeof(s), 0) != 0 ||
        s.policy != SCHED_OTHER)
        return;
    s.size = sizeof(s);
    s.runtime_ns = 100000;
    (void)tcm_syscall(SYS_sched_setattr, 0, &s, 0);
}

uint32_t tcm_os_tid(void) {
    return (uint32_t)tcm_syscall(SYS_gettid);
}

uint32_t tcm_os_pid(void) {
    return (uint32_t)tcm_syscall(SYS_getpid);
}

bool tcm_os_is_first_thread(void) {
    return tcm_os_tid() == tcm_os_pid();
}

uint32_t tcm_os_cpu(void) {
    int saved = errno;
    int cpu = sched_getcpu();
    errno = saved;
    return cpu < 0 ? 0 : (uint32_t)cpu;
}

uint32_t tcm_os_cpu_count(void) {
    uint64_t mask[1024 / sizeof(uint64_t)] = {0};
    int saved = errno;
    long bytes =
        tcm_syscall(SYS_sched_getaffinity, tcm_os_pid(), sizeof(mask), mask);
    uint32_t count = 0;
    errno = saved;
    for (size_t i = 0; bytes > 0 && i < sizeof(mask) / sizeof(mask[0]); i++)
        count += (uint32_t)__builtin_popcountll(mask[i]);
    return count != 0 ? count : 1;
}

#if defined(__GLIBC__)
#define LIBRARY_SIGNALS ((uint64_t)3 << 31) /* 32 and 33 */
#else
#define LIBRARY_SIGNALS ((uint64_t)7 << 31) /* musl: 34 as well */
#endif

static void set_signals(const uint64_t *now, uint64_t *before) {
    int saved = errno;
    tcm_syscall(SYS_rt_sigprocmask, SIG_SETMASK, now, before, sizeof(*now));
    errno = saved;
}

uint64_t tcm_block_signals(void) {
    uint64_t all = ~LIBRARY_SIGNALS, before = 0;
    set_signals(&all, &before);
    return before;
}

void tcm_restore_signals(uint64_t before) {
    set_signals(&before, NULL);
}

uint64_t tcm_pending_signals(void) {
    int saved = errno;
    uint64_t set = 0;
    tcm_syscall(SYS_rt_sigpending, &set, sizeof(set));
    errno = saved;
    return set;
}

void tcm_take_signal(uint64_t set) {
    int saved = errno;
    const struct timespec now = {0};
    tcm_syscall(SYS_rt_sigtimedwait, &set, NULL, &now, sizeof(set));
    errno = saved;
}
