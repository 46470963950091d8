/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A malloc to be preloaded under replay that counts its calls and checks the
 * use of the thread cache switch. The blocks are the C library's.
 *
 * At exit it writes its account, a key=value a line, to the file named by
 * REPLAY_PROBE_OUT. A cache is a number; the rules it checks are those of
 * <gperftools/thread_cache_switch.h>: at most one is attached, what is released
 * is attached again or never, what set drains is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROBE_CACHES 4096

void *__libc_malloc(size_t size);
void __libc_free(void *p);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

struct ThreadCacheState;
bool release_malloc_thread_cache(struct ThreadCacheState **place);
bool set_malloc_thread_cache(struct ThreadCacheState *state);
int MallocExtension_GetNumericProperty(const char *name, size_t *value);
const char *tc_version(int *major, int *minor, const char **patch);
int malloc_trim(size_t pad);
/* Operators are named as the linker knows them. */
void *memalign(size_t align, size_t size);
void *_ZnwmRKSt9nothrow_t(size_t size, const void *nothrow);
void *_ZnamRKSt9nothrow_t(size_t size, const void *nothrow);
void _ZdlPv(void *p);
void _ZdaPv(void *p);
void _ZdlPvm(void *p, size_t size);

static pid_t owner;
static uint64_t mallocs, frees, callocs, reallocs, aligned, news, deletes,
    sized_deletes, wrong_sizes;
static uint64_t readings, trims, last_pad;
static uint64_t releases, sets, made, destroyed, violations;
static enum { FREE, ATTACHED, DETACHED, DESTROYED } cache[PROBE_CACHES];
static uint64_t attached; /* its number, 0 none */
static uint64_t used_caches[PROBE_CACHES];

/* A thread without a cache gets one with its next malloc. */
static void use_cache(void) {
    if (attached == 0 && made + 1 < PROBE_CACHES) {
        attached = ++made;
        cache[attached] = ATTACHED;
    }
    used_caches[attached]++;
}

void *malloc(size_t size) {
    mallocs++;
    use_cache();
    return __libc_malloc(size);
}

void free(void *p) {
    frees++;
    __libc_free(p);
}

void *calloc(size_t n, size_t size) {
    callocs++;
    use_cache();
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size) {
    reallocs++;
    use_cache();
    return __libc_realloc(p, size);
}

void *memalign(size_t align, size_t size) {
    aligned++;
    use_cache();
    return __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size) {
    return memalign(align, size);
}

int posix_memalign(void **p, size_t align, size_t size) {
    void *block = memalign(align, size);
    if (block == NULL)
        return ENOMEM;
    *p = block;
    return 0;
}

void *_ZnwmRKSt9nothrow_t(size_t size, const void *nothrow) {
    (void)nothrow;
    news++;
    use_cache();
    return __libc_malloc(size);
}

void *_ZnamRKSt9nothrow_t(size_t size, const void *nothrow) {
    return _ZnwmRKSt9nothrow_t(size, nothrow);
}

void _ZdlPv(void *p) {
    deletes++;
    __libc_free(p);
}

void _ZdaPv(void *p) {
    _ZdlPv(p);
}

size_t malloc_usable_size(void *p);

void _ZdlPvm(void *p, size_t size) {
    sized_deletes++;
    if (size > malloc_usable_size(p) || size + 64 < malloc_usable_size(p))
        wrong_sizes++;
    __libc_free(p);
}

/* --- Switching ------------------------------------------------------------ */

bool release_malloc_thread_cache(struct ThreadCacheState **place) {
    releases++;
    if (attached != 0)
        cache[attached] = DETACHED;
    *place = (struct ThreadCacheState *)(uintptr_t)attached;
    attached = 0;
    return true;
}

bool set_malloc_thread_cache(struct ThreadCacheState *state) {
    uint64_t n = (uintptr_t)state;
    sets++;
    if (attached != 0) {
        cache[attached] = DESTROYED;
        destroyed++;
    }
    attached = 0;
    if (n == 0)
        return true;
    if (n >= PROBE_CACHES || cache[n] != DETACHED) {
        violations++;
        return true;
    }
    cache[n] = ATTACHED;
    attached = n;
    return true;
}

/* One of the counters is there at the first reading only. */
int MallocExtension_GetNumericProperty(const char *name, size_t *value) {
    if (strcmp(name, "tcmalloc.central_fetches") == 0) {
        readings++;
        *value = (size_t)(1000 + mallocs);
        return 1;
    }
    *value = (size_t)mallocs;
    return strcmp(name, "tcmalloc.spans_made") == 0 ||
           (strcmp(name, "tcmalloc.spans_freed") == 0 && readings == 1);
}

const char *tc_version(int *major, int *minor, const char **patch) {
    *major = 4;
    *minor = 5;
    *patch = "";
    return "probe 4.5.6";
}

int malloc_trim(size_t pad) {
    trims++;
    last_pad = pad;
    return 1;
}

/* --- The account ---------------------------------------------------------- */

__attribute__((constructor)) static void probe_begin(void) {
    owner = getpid();
}

__attribute__((destructor)) static void probe_end(void) {
    char text[1024];
    const char *path = getenv("REPLAY_PROBE_OUT");
    uint64_t detached = 0, used = 0;
    if (path == NULL || getpid() != owner)
        return;
    for (uint64_t i = 1; i < PROBE_CACHES; i++) {
        detached += cache[i] == DETACHED;
        used += used_caches[i] != 0;
    }
    int n =
        snprintf(text, sizeof(text),
                 "mallocs=%llu\nfrees=%llu\ncallocs=%llu\nreallocs=%llu\n"
                 "aligned=%llu\nnews=%llu\ndeletes=%llu\nsized_deletes=%llu\n"
                 "wrong_sizes=%llu\nreleases=%llu\nsets=%llu\nmade=%llu\n"
                 "destroyed=%llu\ndetached=%llu\nused=%llu\nviolations=%llu\n"
                 "readings=%llu\ntrims=%llu\nlast_pad=%llu\n",
                 (unsigned long long)mallocs, (unsigned long long)frees,
                 (unsigned long long)callocs, (unsigned long long)reallocs,
                 (unsigned long long)aligned, (unsigned long long)news,
                 (unsigned long long)deletes, (unsigned long long)sized_deletes,
                 (unsigned long long)wrong_sizes, (unsigned long long)releases,
                 (unsigned long long)sets, (unsigned long long)made,
                 (unsigned long long)destroyed, (unsigned long long)detached,
                 (unsigned long long)used, (unsigned long long)violations,
                 (unsigned long long)readings, (unsigned long long)trims,
                 (unsigned long long)last_pad);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || write(fd, text, (size_t)n) != n)
        _exit(99);
    close(fd);
}
