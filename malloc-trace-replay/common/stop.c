/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/stop.h"

#include "base/atomic.h"
#include "base/clock.h"

#include <errno.h>
#include <unistd.h>

typedef void (*handler)(int);

#define STOP_NS 500000000u

static const int stop_signals[] = {SIGINT, SIGTERM};
static uint32_t requested;
static pid_t passed_to; /* child that gets the request; 0: none */
static const char
    *temporary; /* file in FOLDER that a second signal removes, or NULL */
static int folder;

static handler handler_of(int signal) {
    struct sigaction action;
    return sigaction(signal, NULL, &action) == 0 ? action.sa_handler : SIG_ERR;
}

static void set(int signal, handler h) {
    /* without SA_RESTART, so that a system call that sleeps returns */
    struct sigaction action = {.sa_handler = h};
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}

static void pass_on(void) {
    int error = errno;
    pid_t child = tcm_load_relaxed(&passed_to);
    if (child > 0)
        (void)kill(child, SIGTERM);
    errno = error;
}

static void obeyed(int signal) {
    (void)signal;
    tcm_store_relaxed(&requested, 1u);
    pass_on();
}

/* Raises the second signal again with its default action, which it takes when
   the handler returns. */
static void caught(int signal) {
    if (tcm_load_relaxed(&requested) == 0) {
        tcm_store_relaxed(&requested, 1u);
        pass_on();
        return;
    }
    const char *name = tcm_load_acquire(&temporary);
    if (name != NULL)
        (void)unlinkat(folder, name, 0);
    set(signal, SIG_DFL);
    raise(signal);
}

void tool_stop_remove(int in, const char *name) {
    tcm_store_release(&temporary, (const char *)NULL);
    folder = in;
    tcm_fence_signal();
    tcm_store_release(&temporary, name);
}

void tool_stop_catch(void) {
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(stop_signals); i++)
        if (handler_of(stop_signals[i]) == SIG_DFL)
            set(stop_signals[i], caught);
}

void tool_stop_pass_to(pid_t child) {
    tcm_store_relaxed(&passed_to, child);
    tcm_fence_signal();
    if (tool_stop_requested())
        pass_on();
}

void tool_stop_add_signals(sigset_t *set) {
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(stop_signals); i++)
        sigaddset(set, stop_signals[i]);
}

void tool_stop_obey(void) {
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(stop_signals); i++)
        if (handler_of(stop_signals[i]) != SIG_IGN)
            set(stop_signals[i], obeyed);
    sigset_t all;
    sigemptyset(&all);
    tool_stop_add_signals(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
}

bool tool_stop_requested(void) {
    return tcm_load_relaxed(&requested) != 0;
}

/* Threads that see the request at the same time may each store SEEN_NS: their
   times differ by microseconds. */
bool tool_stop_is_due(void) {
    static uint64_t seen_ns;
    if (TCM_LIKELY(!tool_stop_requested()))
        return false;
    uint64_t now = tcm_clock_ns(), seen = tcm_load_relaxed(&seen_ns);
    if (seen == 0)
        tcm_store_relaxed(&seen_ns, now);
    return seen != 0 && now - seen >= STOP_NS;
}
