/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guarantees of C, POSIX and glibc for the malloc family, checked for the
 * malloc of this process. Uses only the public interface, so that the C
 * library's own malloc passes as well (skipping functions that it lacks).
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prng.h"
#include "tap.h"

/* Hidden from the compiler, so that no call is folded away. */
static void *(*volatile do_malloc)(size_t) = malloc;
static void *(*volatile do_calloc)(size_t, size_t) = calloc;
static void *(*volatile do_realloc)(void *, size_t) = realloc;
static void *(*volatile do_reallocarray)(void *, size_t, size_t) = reallocarray;
static void (*volatile do_free)(void *) = free;
static void *(*volatile do_memalign)(size_t, size_t) = memalign;
static void *(*volatile do_aligned_alloc)(size_t, size_t) = aligned_alloc;
static int (*volatile do_posix_memalign)(void **, size_t,
                                         size_t) = posix_memalign;

static bool aligned(const void *p, size_t to) {
    return (uintptr_t)p % to == 0;
}

static bool all_bytes(const void *p, size_t n, unsigned char c) {
    const unsigned char *b = p;
    for (size_t i = 0; i < n; i++)
        if (b[i] != c)
            return false;
    return true;
}

static void test_sizes(void) {
    bool good_align = true, usable = true, writable = true, errno_kept = true;
    for (size_t size = 0; size < 300000; size += size / 40 + 1) {
        errno = 77;
        unsigned char *p = do_malloc(size);
        size_t room = malloc_usable_size(p);
        size_t want = size >= 16 ? 16 : size >= 8 ? 8 : 1;
        good_align &= p && aligned(p, want);
        usable &= room >= size;
        memset(p, 0x5a, room);
        writable &= all_bytes(p, room, 0x5a);
        do_free(p);
        errno_kept &= errno == 77;
    }
    tap_ok(good_align, "malloc aligns to 16, or to the size below that");
    tap_ok(usable, "malloc_usable_size is at least the size");
    tap_ok(writable, "every usable byte can be written");
    tap_ok(errno_kept, "success leaves errno alone");
    tap_ok(malloc_usable_size(NULL) == 0, "malloc_usable_size(NULL) is 0");
}

static void test_zero(void) {
    void *p[64];
    bool distinct = true;
    for (int i = 0; i < 64; i++) {
        p[i] = i % 2 ? do_malloc(0) : do_calloc(i % 4, 0);
        for (int j = 0; j < i; j++)
            distinct &= p[i] && p[i] != p[j];
    }
    for (int i = 0; i < 64; i++)
        do_free(p[i]);
    tap_ok(distinct, "blocks of no bytes are not NULL and distinct");
    do_free(NULL);
    tap_ok(true, "free(NULL) does nothing");
}

static void test_too_large(void) {
    static const size_t sizes[] = {SIZE_MAX,        SIZE_MAX - 1,
                                   SIZE_MAX - 4095, (size_t)PTRDIFF_MAX + 1,
                                   PTRDIFF_MAX,     (size_t)1 << 60};
    bool good = true;
    char *keep = do_malloc(100);
    strcpy(keep, "kept");
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *q = &good;
        errno = 0;
        good &= !do_malloc(sizes[i]) && errno == ENOMEM;
        errno = 0;
        good &= !do_calloc(1, sizes[i]) && errno == ENOMEM;
        errno = 0;
        good &= !do_realloc(keep, sizes[i]) && errno == ENOMEM;
        errno = 0;
        good &= !do_realloc(NULL, sizes[i]) && errno == ENOMEM;
        errno = 0;
        good &= !do_memalign(64, sizes[i]) && errno == ENOMEM;
        errno = 0;
        good &= !do_aligned_alloc(4096, sizes[i]) && errno == ENOMEM;
        errno = 0;
        good &= !valloc(sizes[i]) && errno == ENOMEM;
        errno = 0;
        good &= !pvalloc(sizes[i]) && errno == ENOMEM;
        errno = 0;
        good &= do_posix_memalign(&q, 64, sizes[i]) == ENOMEM && q == &good &&
                errno == ENOMEM;
        if (!good)
            tap_diag("size %zx", sizes[i]);
    }
    tap_ok(good, "sizes that cannot be had: NULL and ENOMEM");
    tap_ok(!strcmp(keep, "kept"), "a failed realloc leaves the block");
    do_free(keep);
}

static void test_calloc(void) {
    static const size_t half = (size_t)1 << 32;
    errno = 0;
    tap_ok(!do_calloc(half, half) && errno == ENOMEM, "calloc sees 2^64");
    errno = 0;
    tap_ok(!do_calloc(SIZE_MAX / 2, 3) && errno == ENOMEM,
           "calloc sees an overflow");
    errno = 0;
    tap_ok(!do_reallocarray(NULL, half, half) && errno == ENOMEM,
           "reallocarray sees an overflow");
    bool zero = true;
    for (size_t size = 1; size < 5000000; size = size * 5 / 3 + 1)
        for (int i = 0; i < 4; i++) {
            unsigned char *p = do_malloc(size);
            memset(p, 0xff, size);
            do_free(p);
            p = do_calloc(size, 1);
            zero &= p && all_bytes(p, size, 0);
            memset(p, 0xee, size);
            do_free(p);
        }
    tap_ok(zero, "calloc zeroes memory that was used before");
}

static void test_alignment(void) {
    bool good = true;
    for (size_t a = 1; a <= (size_t)1 << 24; a *= 2)
        for (size_t size = 0; size < 70000; size = size * 7 + 1) {
            void *p = NULL, *q = do_memalign(a, size);
            void *r = do_aligned_alloc(a, size);
            good &= q && aligned(q, a) && malloc_usable_size(q) >= size;
            good &= r && aligned(r, a) && malloc_usable_size(r) >= size;
            if (a >= sizeof(void *)) {
                good &= !do_posix_memalign(&p, a, size) && aligned(p, a) &&
                        malloc_usable_size(p) >= size;
                memset(p, 1, size);
            }
            memset(q, 2, size);
            memset(r, 3, size);
            do_free(q);
            do_free(p);
            do_free(r);
        }
    tap_ok(good, "memalign, aligned_alloc, posix_memalign align to 2^0..2^24");

    void *p = &good;
    static const size_t bad[] = {0, 1, 2, 4, 12, 24, 40, 4097, SIZE_MAX};
    bool refused = true;
    errno = 5;
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        refused &= do_posix_memalign(&p, bad[i], 100) == EINVAL;
    tap_ok(refused, "posix_memalign refuses alignments that are none");
    tap_ok(p == &good && errno == 5, "and changes neither pointer nor errno");

    size_t half = SIZE_MAX / 2 + 1;
    bool limit = true;
    for (size_t a = half / 4 + 1; a <= half && a > half / 4; a *= 2) {
        errno = 0;
        limit &= !do_memalign(a, 100) && errno == ENOMEM;
        errno = 0;
        limit &= !do_aligned_alloc(a - 1, 0) && errno == ENOMEM;
    }
    tap_ok(limit, "up to half of all addresses alignments are out of memory");
    errno = 0;
    limit = !do_memalign(half + 1, 1) && errno == EINVAL;
    errno = 0;
    limit &= !do_aligned_alloc(SIZE_MAX, 1) && errno == EINVAL;
    tap_ok(limit, "larger ones are wrong");

    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *v = valloc(1), *w = pvalloc(page + 1), *z = pvalloc(0);
    tap_ok(aligned(v, page) && aligned(w, page) && z && aligned(z, page),
           "valloc and pvalloc give whole pages");
    tap_ok(malloc_usable_size(w) >= 2 * page, "pvalloc rounds up to pages");
    do_free(v);
    do_free(w);
    do_free(z);
}

static void test_realloc(void) {
    struct prng r;
    prng_seed(&r, 7);
    bool kept = true;
    size_t size = 1;
    unsigned char *p = do_realloc(NULL, size);
    memset(p, 0xa5, size);
    for (int i = 0; i < 20000; i++) {
        size_t next = prng_below(&r, 4) ? 1 + prng_below(&r, 3000)
                                        : 1 + prng_below(&r, 200000);
        unsigned char *q = do_realloc(p, next);
        size_t common = next < size ? next : size;
        kept &= q && all_bytes(q, common < 600 ? common : 600, 0xa5) &&
                q[common - 1] == 0xa5;
        memset(q, 0xa5, next);
        p = q;
        size = next;
    }
    tap_ok(kept, "realloc keeps the bytes that both sizes have");
    do_free(p);
    p = do_malloc(10);
    p = do_realloc(p, 0);
    tap_ok(true, "realloc to 0 %s", p ? "gave a block" : "freed the block");
    do_free(p);
    p = do_memalign(4096, 100);
    memset(p, 9, 100);
    p = do_realloc(p, 100000);
    tap_ok(p && all_bytes(p, 100, 9), "realloc of an aligned block");
    do_free(p);
    p = do_reallocarray(NULL, 7, 11);
    tap_ok(p && malloc_usable_size(p) >= 77, "reallocarray multiplies");
    do_free(p);
}

static void test_overlap(void) {
    enum { SLOTS = 2000 };
    static struct {
        unsigned char *p;
        size_t size;
        unsigned char fill;
    } s[SLOTS];
    struct prng r;
    prng_seed(&r, 11);
    bool good = true;
    for (int i = 0; i < 200000; i++) {
        unsigned k = (unsigned)prng_below(&r, SLOTS);
        if (s[k].p) {
            good &= all_bytes(s[k].p, s[k].size, s[k].fill);
            do_free(s[k].p);
        }
        s[k].size =
            prng_below(&r, 50) ? prng_below(&r, 400) : prng_below(&r, 20000);
        s[k].fill = (unsigned char)prng_next(&r);
        s[k].p = i % 3 ? do_malloc(s[k].size)
                 : i % 2
                     ? do_memalign((size_t)1 << prng_below(&r, 10), s[k].size)
                     : do_calloc(1, s[k].size);
        if (!s[k].p)
            good = false;
        else
            memset(s[k].p, s[k].fill, s[k].size);
    }
    for (int i = 0; i < SLOTS; i++)
        do_free(s[i].p);
    tap_ok(good, "live blocks never overlap");
}

static void *thread_overlap(void *arg) {
    struct prng r;
    prng_seed(&r, (uint64_t)(uintptr_t)arg);
    unsigned char *p[64] = {0};
    size_t size[64] = {0};
    unsigned char fill = (unsigned char)(uintptr_t)arg;
    for (int i = 0; i < 100000; i++) {
        unsigned k = (unsigned)prng_below(&r, 64);
        if (p[k] && !all_bytes(p[k], size[k], fill))
            return arg;
        do_free(p[k]);
        size[k] = prng_below(&r, 1000);
        p[k] = do_malloc(size[k]);
        memset(p[k], fill, size[k]);
    }
    for (int k = 0; k < 64; k++)
        do_free(p[k]);
    return NULL;
}

static void test_threads(void) {
    pthread_t id[4];
    void *bad = NULL;
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&id[i], NULL, thread_overlap, (void *)(i + 1));
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(id[i], &result);
        bad = bad ? bad : result;
    }
    tap_ok(!bad, "nor do those of four threads");
}

static void test_statistics(void) {
#if TCM_HAVE_MALLINFO2
    void *(*volatile take)(size_t) = malloc;
    struct mallinfo2 before = mallinfo2();
    void *p = take((size_t)64 << 20);
    struct mallinfo2 after = mallinfo2();
    size_t had = before.uordblks + before.hblkhd;
    size_t has = after.uordblks + after.hblkhd;
    tap_ok(has >= had + ((size_t)64 << 20) - (1u << 20) &&
               has <= had + ((size_t)72 << 20),
           "mallinfo2 sees a block of 64 MiB (%zu, %zu)", had, has);
    do_free(p);
    struct mallinfo2 end = mallinfo2();
    tap_ok(end.uordblks + end.hblkhd < has - ((size_t)32 << 20),
           "and that it is gone");
#endif
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    int result = malloc_info(0, f);
    fclose(f);
    tap_ok(result == 0 && text && !strncmp(text, "<malloc", 7) &&
               strstr(text, "</malloc>"),
           "malloc_info writes XML");
    free(text);
    errno = 0;
    tap_ok(malloc_info(1, stderr) != 0, "malloc_info refuses options");
    tap_ok(mallopt(M_MMAP_THRESHOLD, 1 << 20) >= 0, "mallopt answers");
    int trimmed = malloc_trim(0);
    tap_ok(trimmed == 0 || trimmed == 1, "malloc_trim answers");
}

typedef void (*sized_fn)(void *, size_t);
typedef void (*aligned_sized_fn)(void *, size_t, size_t);

static void test_c23(void) {
    sized_fn sized = NULL;
    aligned_sized_fn aligned_sized = NULL;
    *(void **)&sized = dlsym(RTLD_DEFAULT, "free_sized");
    *(void **)&aligned_sized = dlsym(RTLD_DEFAULT, "free_aligned_sized");
    if (!sized || !aligned_sized) {
        tap_ok(true, "free_sized # SKIP not in this malloc");
        return;
    }
    for (size_t size = 0; size < 400000; size = size * 3 / 2 + 1) {
        sized(do_malloc(size), size);
        aligned_sized(do_aligned_alloc(256, size), 256, size);
    }
    sized(NULL, 5);
    aligned_sized(NULL, 16, 5);
    tap_ok(true, "free_sized, free_aligned_sized");
}

int main(void) {
    test_sizes();
    test_zero();
    test_too_large();
    test_calloc();
    test_alignment();
    test_realloc();
    test_overlap();
    test_threads();
    test_statistics();
    test_c23();
    return tap_done();
}
