/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/run/calls.h"

#include "base/bits.h"
#include "base/linux/os_file.h"
#include "common/shared_library.h"
#include "traceformat/trace_event.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char replay_nothrow = 0;

/* --- Replacements of calls that the allocator lacks ----------------------- */

static struct replay_calls found; /* functions found so far, for the functions
                                     below */

static void *reallocarray_by_realloc(void *p, size_t n, size_t size) {
    size_t product;
    if (tcm_mul_overflows(n, size, &product))
        return NULL;
    return found.realloc(p, product);
}

static void *memalign_by_posix(size_t align, size_t size) {
    void *p = NULL;
    if (align < sizeof(void *))
        align = sizeof(void *);
    return found.posix_memalign(&p, align, size) == 0 ? p : NULL;
}

static int posix_by_aligned_alloc(void **p, size_t align, size_t size) {
    *p = found.aligned_alloc(align, size);
    return *p ? 0 : 1;
}

static int posix_by_memalign(void **p, size_t align, size_t size) {
    *p = found.memalign(align, size);
    return *p ? 0 : 1;
}

static void *valloc_by_memalign(size_t size) {
    return found.memalign((size_t)sysconf(_SC_PAGESIZE), size);
}

static void *pvalloc_by_memalign(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (size > SIZE_MAX - page)
        return NULL;
    size = size == 0 ? page : tcm_align_up(size, page);
    return found.memalign(page, size);
}

static void free_sized_by_free(void *p, size_t size) {
    (void)size;
    found.free(p);
}

static void free_aligned_sized_by_free(void *p, size_t align, size_t size) {
    (void)align;
    (void)size;
    found.free(p);
}

static void *new_by_malloc(size_t size, const void *nothrow) {
    (void)nothrow;
    return found.malloc(size);
}

static void *new_aligned_by_memalign(size_t size, size_t align,
                                     const void *nothrow) {
    (void)nothrow;
    return found.memalign(align, size);
}

static void delete_sized_by_delete(void *p, size_t size) {
    (void)size;
    found.delete_one(p);
}

static void delete_array_sized_by_delete(void *p, size_t size) {
    (void)size;
    found.delete_array(p);
}

static void delete_aligned_by_delete(void *p, size_t align) {
    (void)align;
    found.delete_one(p);
}

static void delete_array_aligned_by_delete(void *p, size_t align) {
    (void)align;
    found.delete_array(p);
}

static void delete_sized_aligned_by_unsized(void *p, size_t size,
                                            size_t align) {
    (void)size;
    found.delete_aligned(p, align);
}

static void delete_array_sized_aligned_by_unsized(void *p, size_t size,
                                                  size_t align) {
    (void)size;
    found.delete_array_aligned(p, align);
}

/* --- Finding -------------------------------------------------------------- */

/* Returns the function NAME that a program's call would reach; NULL if it is
   not in malloc's library. */
static void *find(const char *name) {
    return tool_symbol_find(found.library, name);
}

/* POSIX lets object pointers be function pointers, but compilers warn of a
   cast. So the pointer is copied. */
#define FIND(member, name)                                                     \
    do {                                                                       \
        void *p_ = find(name);                                                 \
        memcpy(&found.member, &p_, sizeof(p_));                                \
    } while (0)
#define INSTEAD(member, function)                                              \
    do {                                                                       \
        if (!found.member)                                                     \
            found.member = (function);                                         \
    } while (0)

static void find_c_family(void) {
    found.malloc = malloc;
    found.free = free;
    found.calloc = calloc;
    found.realloc = realloc;
    FIND(reallocarray, "reallocarray");
    INSTEAD(reallocarray, reallocarray_by_realloc);

    FIND(posix_memalign, "posix_memalign");
    FIND(aligned_alloc, "aligned_alloc");
    FIND(memalign, "memalign");
    if (!found.posix_memalign && found.aligned_alloc)
        found.posix_memalign = posix_by_aligned_alloc;
    if (!found.posix_memalign && found.memalign)
        found.posix_memalign = posix_by_memalign;
    /* A malloc library with none of these wraps the C library, whose function a
       program would get, too. */
    INSTEAD(posix_memalign, posix_memalign);
    INSTEAD(memalign, memalign_by_posix);
    INSTEAD(aligned_alloc, memalign_by_posix);
    FIND(valloc, "valloc");
    INSTEAD(valloc, valloc_by_memalign);
    FIND(pvalloc, "pvalloc");
    INSTEAD(pvalloc, pvalloc_by_memalign);
    FIND(free_sized, "free_sized");
    INSTEAD(free_sized, free_sized_by_free);
    FIND(free_aligned_sized, "free_aligned_sized");
    INSTEAD(free_aligned_sized, free_aligned_sized_by_free);
}

static void find_operators(void) {
    FIND(new_one, "_ZnwmRKSt9nothrow_t");   /* new(size_t, nothrow_t) */
    FIND(new_array, "_ZnamRKSt9nothrow_t"); /* new[](size_t, nothrow_t) */
    FIND(delete_one, "_ZdlPv");             /* delete(void *) */
    FIND(delete_array, "_ZdaPv");           /* delete[](void *) */
    found.has_operators = found.new_one && found.new_array &&
                          found.delete_one && found.delete_array;
    if (!found.has_operators) {
        found.new_one = found.new_array = new_by_malloc;
        found.delete_one = found.delete_array = found.free;
    } else {
        FIND(delete_sized, "_ZdlPvm");       /* delete(void *, size_t) */
        FIND(delete_array_sized, "_ZdaPvm"); /* delete[](void *, size_t) */
        /* new(size_t, align_val_t, nothrow_t) */
        FIND(new_aligned, "_ZnwmSt11align_val_tRKSt9nothrow_t");
        FIND(new_array_aligned, "_ZnamSt11align_val_tRKSt9nothrow_t");
        /* delete(void *, align_val_t) */
        FIND(delete_aligned, "_ZdlPvSt11align_val_t");
        FIND(delete_array_aligned, "_ZdaPvSt11align_val_t");
        /* delete(void *, size_t, align_val_t) */
        FIND(delete_sized_aligned, "_ZdlPvmSt11align_val_t");
        FIND(delete_array_sized_aligned, "_ZdaPvmSt11align_val_t");
    }
    /* Aligned new goes with aligned delete, or neither is used. */
    if (!found.new_aligned || !found.new_array_aligned ||
        !found.delete_aligned || !found.delete_array_aligned) {
        found.new_aligned = found.new_array_aligned = new_aligned_by_memalign;
        found.delete_aligned = delete_aligned_by_delete;
        found.delete_array_aligned = delete_array_aligned_by_delete;
        found.delete_sized_aligned = NULL;
        found.delete_array_sized_aligned = NULL;
    }
    INSTEAD(delete_sized, delete_sized_by_delete);
    INSTEAD(delete_array_sized, delete_array_sized_by_delete);
    INSTEAD(delete_sized_aligned, delete_sized_aligned_by_unsized);
    INSTEAD(delete_array_sized_aligned, delete_array_sized_aligned_by_unsized);
}

void replay_calls_find(struct replay_calls *c) {
    memset(&found, 0, sizeof(found));
    found.library = tool_symbol_library(tool_symbol("malloc"));
    find_c_family();
    find_operators();
    FIND(release_cache, "release_malloc_thread_cache");
    FIND(set_cache, "set_malloc_thread_cache");
    if (!found.release_cache || !found.set_cache) {
        found.release_cache = NULL;
        found.set_cache = NULL;
    }
    FIND(trim, "malloc_trim");
    /* that of another library would misread the blocks */
    found.usable_size = (size_t(*)(void *))tool_symbol_find(
        found.library, "malloc_usable_size");
    FIND(property, "MallocExtension_GetNumericProperty");
    *c = found;
}

/* --- Name ----------------------------------------------------------------- */

void replay_calls_name(struct replay_calls *c) {
    char version[128];
    Dl_info info;
    void *p = tool_symbol("malloc");
    const char *file = "unknown";
    if (p && dladdr(p, &info) != 0 && info.dli_fname)
        file = info.dli_fname;
    const char *slash = strrchr(file, '/');
    if (slash && slash[1])
        file = slash + 1;
    tool_allocator_version(found.library, version, sizeof(version));
    snprintf(c->name, sizeof(c->name), version[0] ? "%.120s (%s)" : "%.120s",
             file, version);
}

/* --- Counters ------------------------------------------------------------- */

void replay_counters_read(const struct replay_calls *calls,
                          struct replay_counters *out) {
    memset(out, 0, sizeof(*out));
    if (calls->property == NULL)
        return;
    for (unsigned i = 0; i < REPLAY_COUNTERS; i++) {
        const char *name = mtf_account_name(i);
        size_t v;
        if (name != NULL && calls->property(name, &v)) {
            out->value[i] = v;
            out->known |= 1u << i;
        }
    }
}

void replay_counters_since(const struct replay_counters *before,
                           struct replay_counters *after) {
    after->known &= before->known;
    for (unsigned i = 0; i < REPLAY_COUNTERS; i++)
        after->value[i] -= before->value[i];
}

static uint64_t property(const struct replay_calls *calls, unsigned account) {
    size_t v = 0;
    return calls->property != NULL &&
                   calls->property(mtf_account_name(account), &v)
               ? v
               : 0;
}

uint64_t replay_heap_bytes(const struct replay_calls *calls) {
    uint64_t taken = property(calls, MTF_ACCOUNT_SYSTEM_BYTES_TAKEN);
    uint64_t returned = property(calls, MTF_ACCOUNT_SYSTEM_BYTES_RETURNED);
    return taken > returned ? taken - returned : 0;
}

/* --- Statistics ----------------------------------------------------------- */

/* Static, as the allocator must not be asked for memory. */
static char statistics_text[64 << 10];

static void statistics_put(int fd, const char *s) {
    (void)tcm_io_write_all(fd, s, strlen(s));
}

/* Writes a piece of text for jemalloc and, in the other order of arguments, for
   mimalloc. */
static void statistics_put_piece(void *fd, const char *s) {
    statistics_put(*(const int *)fd, s);
}
static void statistics_put_last(const char *s, void *fd) {
    statistics_put_piece(fd, s);
}

#define STATISTICS_FIND(calls, function, name)                                 \
    do {                                                                       \
        void *p_ = tool_symbol_find((calls)->library, name);                   \
        memcpy(&(function), &p_, sizeof(p_));                                  \
    } while (0)

/* Empties the thread cache first, which keeps counts of its own until then. */
static bool statistics_by_jemalloc(const struct replay_calls *calls, int fd,
                                   bool is_json) {
    int (*control)(const char *, void *, size_t *, void *, size_t);
    void (*print)(void (*)(void *, const char *), void *, const char *);
    STATISTICS_FIND(calls, print, "malloc_stats_print");
    if (print == NULL)
        return false;
    STATISTICS_FIND(calls, control, "mallctl");
    if (control != NULL)
        (void)control("thread.tcache.flush", NULL, NULL, NULL, 0);
    print(statistics_put_piece, &fd, is_json ? "J" : "");
    return true;
}

static bool statistics_by_mimalloc(const struct replay_calls *calls, int fd) {
    void (*merge)(void);
    void (*print)(void (*)(const char *, void *), void *);
    STATISTICS_FIND(calls, print, "mi_stats_print_out");
    if (print == NULL)
        return false;
    STATISTICS_FIND(calls, merge, "mi_stats_merge");
    if (merge != NULL)
        merge();
    print(statistics_put_last, &fd);
    return true;
}

static bool statistics_by_extension(const struct replay_calls *calls, int fd) {
    void (*print)(char *, int);
    STATISTICS_FIND(calls, print, "MallocExtension_GetStats");
    if (print == NULL)
        return false;
    print(statistics_text, (int)sizeof(statistics_text));
    statistics_text[sizeof(statistics_text) - 1] = '\0';
    statistics_put(fd, statistics_text);
    return true;
}

/* Writes through stderr, which needs no buffer. */
static bool statistics_by_c_library(const struct replay_calls *calls, int fd) {
    int (*print)(int, FILE *);
    STATISTICS_FIND(calls, print, "malloc_info");
    if (print == NULL)
        return false;
    int before = fd == STDERR_FILENO ? -1 : fcntl(2, F_DUPFD_CLOEXEC, 3);
    if (before >= 0)
        (void)dup2(fd, STDERR_FILENO);
    bool good = print(0, stderr) == 0;
    if (before >= 0) {
        (void)dup2(before, STDERR_FILENO);
        close(before);
    }
    return good;
}

bool replay_calls_statistics(const struct replay_calls *calls, int fd,
                             bool is_json) {
    return calls->library != NULL &&
           (statistics_by_jemalloc(calls, fd, is_json) ||
            statistics_by_mimalloc(calls, fd) ||
            statistics_by_extension(calls, fd) ||
            statistics_by_c_library(calls, fd));
}
