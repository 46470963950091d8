/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/run/calls.h"

#include "base/bits.h"
#include "common/shared_library.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char replay_nothrow = 0;

/* --- What stands in for a call that the allocator lacks ------------------- */

static struct replay_calls found; /* for the functions below */

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

/* The function NAME as a program's call would find it; NULL if it is not in
   malloc's library. */
static void *find(const char *name) {
    return tool_symbol_of(found.library, name);
}

/* POSIX lets object pointers be function pointers, but the compiler warns of a
   cast; so the pointer is copied. */
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
    /* If malloc's library has none of these it is a wrapper around the C
       library, which a program would get, too. */
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
    void *p = dlsym(RTLD_DEFAULT, "malloc");
    found.library = tool_symbol_library(p);
    find_c_family();
    find_operators();
    FIND(release_cache, "release_malloc_thread_cache");
    FIND(set_cache, "set_malloc_thread_cache");
    if (!found.release_cache || !found.set_cache) {
        found.release_cache = NULL;
        found.set_cache = NULL;
    }
    FIND(trim, "malloc_trim");
    FIND(usable_size, "malloc_usable_size");
    FIND(property, "MallocExtension_GetNumericProperty");
    *c = found;
}

/* --- Name ----------------------------------------------------------------- */

static void version_of(char *text, size_t size) {
    const char *(*tc_version)(int *, int *, const char **);
    int (*mi_version)(void);
    int (*mallctl)(const char *, void *, size_t *, void *, size_t);
    void *p;

    text[0] = '\0';
    p = find("tc_version");
    if (p) {
        int major = 0, minor = 0;
        const char *patch = "";
        memcpy(&tc_version, &p, sizeof(p));
        const char *v = tc_version(&major, &minor, &patch);
        snprintf(text, size, "%s", v ? v : "");
        return;
    }
    p = find("mallctl");
    if (p) {
        const char *v = NULL;
        size_t length = sizeof(v);
        memcpy(&mallctl, &p, sizeof(p));
        if (mallctl("version", (void *)&v, &length, NULL, 0) == 0 && v)
            /* without the commit that follows the number */
            snprintf(text, size, "jemalloc %.*s", (int)strcspn(v, "-"), v);
        return;
    }
    p = find("mi_version");
    if (p) {
        memcpy(&mi_version, &p, sizeof(p));
        int v = mi_version();
        snprintf(text, size, "mimalloc %d.%d.%d", v / 100, v / 10 % 10, v % 10);
        return;
    }
    if (find("gnu_get_libc_version"))
        snprintf(text, size, "glibc %s", gnu_get_libc_version());
}

void replay_calls_name(struct replay_calls *c) {
    char version[128];
    Dl_info info;
    void *p = dlsym(RTLD_DEFAULT, "malloc");
    const char *file = "unknown";
    if (p && dladdr(p, &info) != 0 && info.dli_fname)
        file = info.dli_fname;
    const char *slash = strrchr(file, '/');
    if (slash && slash[1])
        file = slash + 1;
    version_of(version, sizeof(version));
    snprintf(c->name, sizeof(c->name), version[0] ? "%.120s (%s)" : "%.120s",
             file, version);
}
