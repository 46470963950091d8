/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A library whose constructors run before a preloaded one's and whose
 * destructors run after: size 71001 before main, 71002 after it, 71003 lives
 * from before to after. LATE_CALLS: how many; LATE_KILL: a kill behind them.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

int process_late_used;
static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;
static void *kept[50];

__attribute__((constructor)) static void before(void) {
    for (int i = 0; i < 100; i++)
        give(take(71001));
    for (int i = 0; i < 50; i++)
        kept[i] = take(71003);
}

__attribute__((destructor)) static void after(void) {
    const char *text = getenv("LATE_CALLS");
    int n = text ? atoi(text) : 30;
    for (int i = 0; i < n; i++)
        give(take(71002));
    for (int i = 0; i < 50; i++)
        give(kept[i]);
    if (getenv("LATE_KILL"))
        kill(getpid(), SIGKILL);
}
