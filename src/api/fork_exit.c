/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Library constructor and destructor, and fork.
 *
 * Fork takes every lock in the one order of base/lock.h (control, tracer, api,
 * core), so that the child finds consistent structures. Handlers registered by
 * the program run before ours in prepare (we register first), so they may
 * allocate.
 */
#include "api/malloc_path.h"
#include "api/settings.h"

#include <pthread.h>

static void prepare(void) {
    tcm_thread_fork_prepare();
    tcm_heap_fork_prepare();
}

static void parent(void) {
    tcm_heap_fork_parent();
    tcm_thread_fork_parent();
}

static void child(void) {
    tcm_heap_fork_child(tcm_self.own);
    tcm_thread_fork_child();
}

__attribute__((constructor)) static void library_begins(void) {
    if (tcm_api_init())
        tcm_settings_read();
    pthread_atfork(prepare, parent, child);
    tcm_trace_init();
}

__attribute__((destructor)) static void library_ends(void) {
    tcm_trace_exit();
}

void tcm_library_anchor(void) {
}
