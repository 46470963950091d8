/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded behind this project's allocator: at the end of the process it
 * writes the allocator's counters to the file that BENCH_COUNTERS names, as
 * lines "NAME VALUE" or, from a library without numeric properties, as the text
 * of malloc_info.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pid_t started;

static const char *const names[] = {
    "tcmalloc.thread_cache_misses",  "tcmalloc.thread_cache_overflows",
    "tcmalloc.central_fetches",      "tcmalloc.central_returns",
    "tcmalloc.transfer_cache_hits",  "tcmalloc.spans_made",
    "tcmalloc.spans_freed",          "tcmalloc.system_bytes_taken",
    "tcmalloc.system_bytes_returned"};
enum { NAMES = sizeof names / sizeof *names };

__attribute__((constructor)) static void remember(void) {
    started = getpid();
}

/* Not in a child that a program forked, which ends earlier or later. */
__attribute__((destructor)) static void tell(void) {
    const char *path = getenv("BENCH_COUNTERS");
    if (!path || getpid() != started)
        return;
    int (*property)(const char *, size_t *);
    void *at = dlsym(RTLD_DEFAULT, "MallocExtension_GetNumericProperty");
    memcpy(&property, &at, sizeof at);
    size_t value[NAMES];
    unsigned n = 0;
    while (property && n < NAMES && property(names[n], &value[n]))
        n++;
    FILE *f = fopen(path, "w");
    if (!f)
        return;
    if (n == NAMES)
        for (unsigned i = 0; i < n; i++)
            fprintf(f, "%s %zu\n", names[i], value[i]);
    else
        malloc_info(0, f);
    fclose(f);
}
