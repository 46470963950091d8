/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/linux/os_thread.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "tap.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

static uint32_t word;
static uint32_t woken;
static uint32_t tid_of_thread;

static void *sleeper(void *arg) {
    (void)arg;
    tcm_store_release(&tid_of_thread, tcm_os_tid());
    while (tcm_load_acquire(&word) == 0)
        tcm_futex_wait(&word, 0, UINT64_MAX);
    tcm_add_relaxed(&woken, 1u);
    return NULL;
}

int main(void) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, sleeper, NULL);
    while (tcm_load_acquire(&tid_of_thread) == 0)
        sched_yield();
    tcm_store_release(&word, 1u);
    tcm_futex_wake(&word, 3);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    tap_is_u64(woken, 3, "all sleepers wake");

    errno = 77;
    tcm_futex_wait(&word, 0, UINT64_MAX);
    tap_ok(true, "another value returns at once");
    tcm_futex_wait(&word, 1, 2000000);
    tap_ok(true, "a wait with a limit ends");
    tcm_futex_wake(&word, 1);
    tap_is_i64(errno, 77, "errno is untouched");

    tap_is_u64(tcm_os_pid(), (uint64_t)getpid(), "process id");
    tap_is_u64(tcm_os_tid(), (uint64_t)getpid(), "thread id of the first");
    tap_ok(tid_of_thread != tcm_os_tid(), "other threads have other ids");

    cpu_set_t one, all;
    CPU_ZERO(&one);
    sched_getaffinity(0, sizeof(all), &all);
    unsigned cpu = 0;
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) == 0)
        tap_is_u64(tcm_os_cpu(), cpu, "cpu number");
    else
        tap_skip("no affinity here");

    uint64_t last = tcm_clock_ns();
    unsigned back = 0;
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t now = tcm_clock_ns();
        back += now < last;
        last = now;
    }
    tap_is_u64(back, 0, "the clock never goes back");
    tap_ok(tcm_clock_thread_cpu_ns() <= tcm_clock_process_cpu_ns(),
           "a thread's processor time is part of the process's");
    tap_ok(tcm_clock_wall_ns() > 1600000000u * (uint64_t)1000000000u,
           "the wall clock counts from 1970");
    return tap_done();
}
