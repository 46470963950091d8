/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/stop.h"

#include "base/atomic.h"

#include <signal.h>
#include <unistd.h>

typedef void (*handler)(int);

static const int stop_signals[] = {SIGINT, SIGTERM};
static uint32_t requested;
static const char *temporary; /* in FOLDER; NULL: none */
static int folder;

static handler handler_of(int signal) {
    struct sigaction action;
    return sigaction(signal, NULL, &action) == 0 ? action.sa_handler : SIG_ERR;
}

static void set(int signal, handler h) {
    /* no SA_RESTART: a system call that sleeps has to return */
    struct sigaction action = {.sa_handler = h};
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}

/* The second signal is raised again with its default action, which it gets when
   the handler returns. */
static void caught(int signal) {
    if (tcm_load_relaxed(&requested) == 0) {
        tcm_store_relaxed(&requested, 1u);
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

bool tool_stop_requested(void) {
    return tcm_load_relaxed(&requested) != 0;
}
