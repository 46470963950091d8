/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the unit tests of core: blocks through a thread cache as api makes
 * them, and checks that code dies with a message.
 *
 * Threads: one.
 */
#ifndef TESTS_UNIT_CORE_CORE_TEST_H
#define TESTS_UNIT_CORE_CORE_TEST_H

#include "core/arena.h"
#include "core/cache_registry.h"
#include "core/heap.h"
#include "prng.h"
#include "tap.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Allocates a block through CACHE; NULL: out of memory. */
__attribute__((unused)) static void *test_alloc(struct tcm_thread_cache *cache,
                                                size_t size) {
    unsigned size_class = tcm_size_class(size);
    bool zeroed;
    if (size_class == 0)
        return tcm_large_alloc(size, TCM_MIN_ALIGN, &zeroed);
    if (tcm_cache_peek(cache, size_class)->ptr == NULL) {
        if (tcm_cache_upkeep_due(cache))
            tcm_cache_upkeep(cache);
        if (!tcm_cache_refill(cache, size_class))
            return NULL;
    }
    void *p = tcm_cache_peek(cache, size_class)->ptr;
    tcm_cache_drop_top(cache, size_class);
    return p;
}

__attribute__((unused)) static void test_free(struct tcm_thread_cache *cache,
                                              void *p) {
    unsigned size_class = (unsigned)(tcm_page_entry(p) >> TCM_ENTRY_SHIFT);
    if (size_class == 0) {
        tcm_large_free(tcm_page_span(p));
        return;
    }
    if (!tcm_cache_push(cache, size_class, p)) {
        if (!tcm_cache_make_room(cache, size_class)) {
            tcm_heap_free_one(size_class, p);
            return;
        }
        if (!tcm_cache_push(cache, size_class, p))
            tap_bail("no room after make_room");
    }
    if (tcm_object_words && cache->want_words)
        *tcm_bin_word(tcm_cache_peek(cache, size_class)) =
            tcm_object_word(p, true);
}

/* True if RUN(ARGUMENT), in a child, aborts after printing TEXT on stderr. */
__attribute__((unused)) static bool
test_dies_with(void (*run)(void *), void *argument, const char *text) {
    int fds[2];
    if (pipe(fds) != 0)
        tap_bail("pipe");
    pid_t pid = fork();
    if (pid < 0)
        tap_bail("fork");
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(fds[1], 2);
        close(fds[0]);
        run(argument);
        _exit(0);
    }
    close(fds[1]);
    char said[512];
    size_t length = 0;
    for (ssize_t n; length < sizeof(said) - 1; length += (size_t)n) {
        n = read(fds[0], said + length, sizeof(said) - 1 - length);
        if (n <= 0)
            break;
    }
    said[length] = '\0';
    close(fds[0]);
    int status;
    if (waitpid(pid, &status, 0) != pid)
        tap_bail("waitpid");
    bool good = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
                strstr(said, text) != NULL;
    if (!good)
        tap_diag("status %d, said \"%s\"", status, said);
    return good;
}

#endif
