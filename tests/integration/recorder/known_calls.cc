/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls every member of the malloc family with sizes and alignments that
 * matter, and writes what a recording of it must hold, one line a call, in the
 * form of `rawdump.py --marked`.
 *
 * known_calls EXPECTED_FILE SOUP_CALLS SEED
 *
 * Invariants: between the marks of a thread nothing else calls malloc (except
 * for thread z, which throws); the expectations are kept in mappings and
 * written by write(2) at the end.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <new>

#include "../../lib/prng.h"

typedef void (*free_sized_fn)(void *, size_t);
typedef void (*free_aligned_sized_fn)(void *, size_t, size_t);

static free_sized_fn call_free_sized;
static free_aligned_sized_fn call_free_aligned_sized;
static void (*call_cfree)(void *);

struct block {
    char *p;
    size_t size;
    size_t align;
    char label;
    bool resized; /* its size class need not be the one of its size */
    unsigned number;
};

struct thread {
    char label;
    unsigned count;
    char *text;
    size_t used, room;
    struct prng random;
    struct block slot[64];
};

static const size_t TEXT_ROOM = 32u << 20;
static volatile void *sink;

__attribute__((format(printf, 2, 3))) static void say(struct thread *t,
                                                      const char *f, ...) {
    va_list ap;
    va_start(ap, f);
    t->used += (size_t)snprintf(t->text + t->used, t->room - t->used,
                                "%c: ", t->label);
    t->used += (size_t)vsnprintf(t->text + t->used, t->room - t->used, f, ap);
    va_end(ap);
    if (t->used + 200 > t->room)
        abort();
}

static void thread_init(struct thread *t, char label, uint64_t seed) {
    memset(t, 0, sizeof *t);
    t->label = label;
    t->room = TEXT_ROOM;
    t->text = (char *)mmap(nullptr, t->room, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (t->text == MAP_FAILED)
        abort();
    prng_seed(&t->random, seed);
}

/* Where a listing begins and ends: sizes that nothing else asks for. */
static void thread_begin(struct thread *t) {
    sink = malloc(5130000 + (size_t)t->label);
    free((void *)sink);
}
static void thread_end(struct thread *t) {
    sink = malloc(5140000 + (size_t)t->label);
    free((void *)sink);
}

/* The kinds of allocation, numbered for the random part. */
enum {
    A_MALLOC,
    A_CALLOC,
    A_NEW,
    A_NEW_ARRAY,
    A_NEW_NT,
    A_NEW_ARRAY_NT,
    A_REALLOC_NULL,
    A_REALLOCARRAY_NULL,
    A_MEMALIGN,
    A_ALIGNED_ALLOC,
    A_POSIX_MEMALIGN,
    A_VALLOC,
    A_PVALLOC,
    A_NEW_ALIGN,
    A_NEW_ARRAY_ALIGN,
    A_NEW_ALIGN_NT,
    A_NEW_ARRAY_ALIGN_NT,
    A_COUNT
};
static const char *const a_name[A_COUNT] = {"malloc",
                                            "calloc",
                                            "new",
                                            "new[]",
                                            "new(nothrow)",
                                            "new[](nothrow)",
                                            "realloc null",
                                            "reallocarray null",
                                            "memalign",
                                            "aligned_alloc",
                                            "posix_memalign",
                                            "valloc",
                                            "pvalloc",
                                            "new(align)",
                                            "new[](align)",
                                            "new(align,nothrow)",
                                            "new[](align,nothrow)"};

static char *raw_allocate(int kind, size_t size, size_t align) {
    std::align_val_t a = (std::align_val_t)align;
    void *p = nullptr;
    switch (kind) {
    case A_MALLOC:
        return (char *)malloc(size);
    case A_CALLOC:
        return (char *)calloc(1, size);
    case A_NEW:
        return (char *)::operator new(size);
    case A_NEW_ARRAY:
        return (char *)::operator new[](size);
    case A_NEW_NT:
        return (char *)::operator new(size, std::nothrow);
    case A_NEW_ARRAY_NT:
        return (char *)::operator new[](size, std::nothrow);
    case A_REALLOC_NULL:
        return (char *)realloc(nullptr, size);
    case A_REALLOCARRAY_NULL:
        return (char *)reallocarray(nullptr, 1, size);
    case A_MEMALIGN:
        return (char *)memalign(align, size);
    case A_ALIGNED_ALLOC:
        return (char *)aligned_alloc(align, size);
    case A_POSIX_MEMALIGN:
        return posix_memalign(&p, align, size) ? nullptr : (char *)p;
    case A_VALLOC:
        return (char *)valloc(size);
    case A_PVALLOC:
        return (char *)pvalloc(size);
    case A_NEW_ALIGN:
        return (char *)::operator new(size, a);
    case A_NEW_ARRAY_ALIGN:
        return (char *)::operator new[](size, a);
    case A_NEW_ALIGN_NT:
        return (char *)::operator new(size, a, std::nothrow);
    default:
        return (char *)::operator new[](size, a, std::nothrow);
    }
}

static bool kind_aligned(int kind) {
    return kind >= A_MEMALIGN;
}

static void say_block(struct thread *t, const char *name, size_t size,
                      size_t align, struct block *b, char *p) {
    b->p = p;
    b->size = size;
    b->align = align;
    b->label = t->label;
    b->resized = false;
    b->number = ++t->count;
    if (align)
        say(t, "%s %zu align %zu -> %c.%u\n", name, size, align, b->label,
            b->number);
    else
        say(t, "%s %zu -> %c.%u\n", name, size, b->label, b->number);
}

static void allocate(struct thread *t, struct block *b, int kind, size_t size,
                     size_t align) {
    char *p = raw_allocate(kind, size, align);
    sink = p;
    if (kind == A_VALLOC || kind == A_PVALLOC)
        align = (size_t)sysconf(_SC_PAGESIZE);
    if (!kind_aligned(kind))
        align = 0;
    if (!p)
        abort();
    if (align && (uintptr_t)p % align)
        abort();
    say_block(t, a_name[kind], size, align, b, p);
    b->resized = kind == A_PVALLOC;
}

/* Calls that must fail. */
static void refuse(struct thread *t, int kind, size_t size, size_t align) {
    char *p = nullptr;
    try {
        p = raw_allocate(kind, size, align);
    } catch (const std::bad_alloc &) {
    }
    sink = p;
    if (p)
        abort();
    if (kind == A_VALLOC || kind == A_PVALLOC)
        align = (size_t)sysconf(_SC_PAGESIZE);
    char name[32];
    snprintf(name, sizeof name, "%s", a_name[kind]);
    if (kind == A_REALLOC_NULL || kind == A_REALLOCARRAY_NULL)
        *strchr(name, ' ') = 0;
    if (!kind_aligned(kind))
        say(t, "failed %s %zu\n", name, size);
    else if (align & (align - 1))
        say(t, "failed %s %zu align bad\n", name, size);
    else
        say(t, "failed %s %zu align %zu\n", name, size, align);
}

enum {
    F_FREE,
    F_CFREE,
    F_DELETE,
    F_DELETE_ARRAY,
    F_DELETE_SIZED,
    F_DELETE_ARRAY_SIZED,
    F_DELETE_NT,
    F_DELETE_ARRAY_NT,
    F_DELETE_ALIGN,
    F_DELETE_ARRAY_ALIGN,
    F_DELETE_SIZED_ALIGN,
    F_DELETE_ARRAY_SIZED_ALIGN,
    F_DELETE_ALIGN_NT,
    F_DELETE_ARRAY_ALIGN_NT,
    F_FREE_SIZED,
    F_FREE_ALIGNED_SIZED,
    F_COUNT
};
static const char *const f_name[F_COUNT] = {"free",
                                            "cfree",
                                            "delete",
                                            "delete[]",
                                            "delete(size)",
                                            "delete[](size)",
                                            "delete(nothrow)",
                                            "delete[](nothrow)",
                                            "delete(align)",
                                            "delete[](align)",
                                            "delete(size,align)",
                                            "delete[](size,align)",
                                            "delete(align,nothrow)",
                                            "delete[](align,nothrow)",
                                            "free_sized",
                                            "free_aligned_sized"};

static void raw_free(int kind, void *p, size_t size, size_t align) {
    std::align_val_t a = (std::align_val_t)(align ? align : 16);
    switch (kind) {
    case F_FREE:
        free(p);
        break;
    case F_CFREE:
        call_cfree(p);
        break;
    case F_DELETE:
        ::operator delete(p);
        break;
    case F_DELETE_ARRAY:
        ::operator delete[](p);
        break;
    case F_DELETE_SIZED:
        ::operator delete(p, size);
        break;
    case F_DELETE_ARRAY_SIZED:
        ::operator delete[](p, size);
        break;
    case F_DELETE_NT:
        ::operator delete(p, std::nothrow);
        break;
    case F_DELETE_ARRAY_NT:
        ::operator delete[](p, std::nothrow);
        break;
    case F_DELETE_ALIGN:
        ::operator delete(p, a);
        break;
    case F_DELETE_ARRAY_ALIGN:
        ::operator delete[](p, a);
        break;
    case F_DELETE_SIZED_ALIGN:
        ::operator delete(p, size, a);
        break;
    case F_DELETE_ARRAY_SIZED_ALIGN:
        ::operator delete[](p, size, a);
        break;
    case F_DELETE_ALIGN_NT:
        ::operator delete(p, a, std::nothrow);
        break;
    case F_DELETE_ARRAY_ALIGN_NT:
        ::operator delete[](p, a, std::nothrow);
        break;
    case F_FREE_SIZED:
        call_free_sized(p, size);
        break;
    default:
        call_free_aligned_sized(p, align ? align : 16, size);
        break;
    }
}

/* C23's calls and cfree are not in every malloc. */
static bool free_is_there(int kind) {
    return kind == F_CFREE                ? call_cfree != nullptr
           : kind == F_FREE_SIZED         ? call_free_sized != nullptr
           : kind == F_FREE_ALIGNED_SIZED ? call_free_aligned_sized != nullptr
                                          : true;
}

static bool free_takes_size(int kind) {
    return kind == F_DELETE_SIZED || kind == F_DELETE_ARRAY_SIZED ||
           kind == F_DELETE_SIZED_ALIGN || kind == F_DELETE_ARRAY_SIZED_ALIGN ||
           kind >= F_FREE_SIZED;
}
static bool free_takes_align(int kind) {
    return (kind >= F_DELETE_ALIGN && kind <= F_DELETE_ARRAY_ALIGN_NT) ||
           kind == F_FREE_ALIGNED_SIZED;
}

static void release(struct thread *t, struct block *b, int kind) {
    raw_free(kind, b->p, b->size, b->align);
    say(t, "%s %c.%u\n", f_name[kind], b->label, b->number);
    b->p = nullptr;
}

static void release_wrong_size(struct thread *t, struct block *b, int kind,
                               size_t given) {
    raw_free(kind, b->p, given, b->align);
    say(t, "%s %c.%u given %zu\n", f_name[kind], b->label, b->number, given);
    b->p = nullptr;
}

static void resize(struct thread *t, struct block *b, size_t size, bool array) {
    uintptr_t old = (uintptr_t)b->p;
    const char *name = array ? "reallocarray" : "realloc";
    char *p =
        (char *)(array ? reallocarray(b->p, 1, size) : realloc(b->p, size));
    sink = p;
    if (!p && size == 0) {
        say(t, "%s %c.%u ended\n", name, b->label, b->number);
        b->p = nullptr;
        return;
    }
    if (!p)
        abort();
    t->count++;
    say(t, "%s %c.%u %zu%s -> %c.%u\n", name, b->label, b->number, size,
        (uintptr_t)p != old ? " moved" : "", t->label, t->count);
    b->p = p;
    b->size = size;
    b->align = 0;
    b->label = t->label;
    b->resized = true;
    b->number = t->count;
}

static void resize_fails(struct thread *t, struct block *b, size_t size) {
    sink = realloc(b->p, size);
    if (sink)
        abort();
    say(t, "failed realloc %zu old %c.%u\n", size, b->label, b->number);
}

/* A free that fits the block as C and C++ ask for. */
static int pick_free(struct prng *r, const struct block *b) {
    for (;;) {
        int kind = (int)prng_below(r, F_COUNT);
        if (!free_is_there(kind))
            continue;
        if (free_takes_align(kind) != (b->align != 0))
            if (kind != F_FREE && kind != F_CFREE)
                continue;
        if (free_takes_size(kind) &&
            (b->resized || (kind == F_FREE_SIZED && b->align)))
            continue;
        return kind;
    }
}

static void every_kind(struct thread *t) {
    static const size_t sizes[] = {0,      1,      7,        8,
                                   9,      16,     100,      1023,
                                   1024,   4095,   4096,     4097,
                                   8192,   9999,   32768,    65536,
                                   262144, 262145, 1u << 20, (1u << 22) + 3};
    struct block b;
    for (int kind = 0; kind < A_COUNT; kind++)
        for (size_t size : sizes) {
            allocate(t, &b, kind, size, 64);
            release(t, &b, kind % 2 ? F_FREE : F_DELETE);
        }
    for (int kind = 0; kind < F_COUNT; kind++) {
        if (!free_is_there(kind))
            continue;
        for (size_t size : sizes) {
            bool aligned = free_takes_align(kind);
            allocate(t, &b, aligned ? A_NEW_ALIGN : A_NEW, size, 64);
            release(t, &b, kind);
        }
    }
    allocate(t, &b, A_MALLOC, (size_t)1 << 31, 0);
    release(t, &b, F_FREE);
    allocate(t, &b, A_MALLOC, ((size_t)1 << 31) + 12345, 0);
    release(t, &b, F_DELETE_SIZED);
    /* calloc's size is the product. */
    b.p = (char *)calloc(13, 77);
    for (int i = 0; i < 13 * 77; i++)
        if (b.p[i])
            abort();
    say_block(t, "calloc", 13 * 77, 0, &b, b.p);
    release(t, &b, F_FREE);
    b.p = (char *)reallocarray(nullptr, 13, 77);
    say_block(t, "reallocarray null", 13 * 77, 0, &b, b.p);
    release(t, &b, F_FREE);
    free(nullptr);
    ::operator delete(nullptr);
    ::operator delete[](nullptr, 8);
}

static void every_alignment(struct thread *t) {
    static const int kinds[] = {A_MEMALIGN, A_ALIGNED_ALLOC, A_POSIX_MEMALIGN,
                                A_NEW_ALIGN, A_NEW_ARRAY_ALIGN_NT};
    struct block b;
    for (int kind : kinds)
        for (size_t align = sizeof(void *); align <= 1u << 22; align *= 2) {
            allocate(t, &b, kind, 1, align);
            release(t, &b, F_FREE);
            allocate(t, &b, kind, align, align);
            release(t, &b, F_DELETE_ALIGN);
            allocate(t, &b, kind, align * 3, align);
            release(t, &b,
                    call_free_aligned_sized ? F_FREE_ALIGNED_SIZED
                                            : F_DELETE_SIZED_ALIGN);
        }
}

static const size_t too_large[] = {SIZE_MAX, SIZE_MAX - 4096,
                                   (size_t)PTRDIFF_MAX + 1, (size_t)PTRDIFF_MAX,
                                   (size_t)1 << 62};

static bool kind_throws(int kind) {
    return kind == A_NEW || kind == A_NEW_ARRAY || kind == A_NEW_ALIGN ||
           kind == A_NEW_ARRAY_ALIGN;
}

/* An exception is memory from malloc too: only the failures are compared. */
static void every_throw(struct thread *t) {
    for (int kind = 0; kind < A_COUNT; kind++)
        if (kind_throws(kind))
            for (size_t size : too_large)
                refuse(t, kind, size, 64);
}

static void every_failure(struct thread *t) {
    for (int kind = 0; kind < A_COUNT; kind++)
        if (!kind_throws(kind))
            for (size_t size : too_large)
                refuse(t, kind, size, 64);
    refuse(t, A_POSIX_MEMALIGN, 10, 24);
    volatile size_t half = (size_t)1 << 33;
    sink = calloc(half, half);
    say(t, "failed calloc %zu\n", SIZE_MAX);
    struct block b;
    allocate(t, &b, A_MALLOC, 50, 0);
    for (size_t size : too_large)
        resize_fails(t, &b, size);
    sink = reallocarray(b.p, half, half);
    say(t, "failed reallocarray %zu old %c.%u\n", SIZE_MAX, b.label, b.number);
    release(t, &b, F_FREE);
}

static void resizing(struct thread *t) {
    struct block b, c;
    for (int array = 0; array < 2; array++) {
        allocate(t, &b, A_MALLOC, 100, 0);
        resize(t, &b, 101, array);
        resize(t, &b, 5000, array);
        resize(t, &b, 300000, array);
        resize(t, &b, 3000000, array);
        resize(t, &b, 2999999, array);
        resize(t, &b, 5000, array);
        resize(t, &b, 10, array);
        resize(t, &b, 1, array);
        resize(t, &b, 0, array);
        if (b.p)
            release(t, &b, F_FREE);
        allocate(t, &b, A_MEMALIGN, 100, 256);
        allocate(t, &c, A_CALLOC, 8, 0);
        resize(t, &c, 2000, array);
        resize(t, &b, 4000, array);
        release(t, &b, F_FREE);
        release(t, &c, F_FREE);
    }
    for (size_t size = 1; size < 1u << 23; size = size * 3 / 2 + 1) {
        if (size == 2)
            allocate(t, &b, A_REALLOC_NULL, size, 0);
        else if (size > 2)
            resize(t, &b, size, false);
    }
    release(t, &b, F_FREE);
}

/* Sizes given to sized frees that no size class of the block can hold. */
static void contradicting(struct thread *t) {
    struct block b;
    static const int kinds[] = {F_DELETE_SIZED, F_DELETE_ARRAY_SIZED,
                                F_FREE_SIZED};
    for (int kind : kinds) {
        if (!free_is_there(kind) || getenv("SIZES_ARE_CHECKED"))
            continue;
        allocate(t, &b, A_NEW, 10, 0);
        release_wrong_size(t, &b, kind, 1000);
        allocate(t, &b, A_NEW, 1000, 0);
        release_wrong_size(t, &b, kind, 10);
        allocate(t, &b, A_NEW, 100, 0);
        release_wrong_size(t, &b, kind, 10000000);
        allocate(t, &b, A_NEW, 10000000, 0);
        release_wrong_size(t, &b, kind, 100);
        allocate(t, &b, A_NEW, 48, 0);
        release(t, &b, kind);
    }
}

static size_t pick_size(struct prng *r) {
    switch (prng_below(r, 8)) {
    case 0:
        return prng_below(r, 4);
    case 1:
        return prng_below(r, 20) * 8;
    case 2:
        return prng_below(r, 20000);
    case 3:
        return prng_below(r, 400) ? prng_below(r, 300) : prng_below(r, 3000000);
    default:
        return prng_below(r, 600);
    }
}

static void soup(struct thread *t, long calls) {
    struct prng *r = &t->random;
    for (long i = 0; i < calls; i++) {
        struct block *b = &t->slot[prng_below(r, 64)];
        if (!b->p) {
            int kind =
                prng_below(r, 3) ? A_MALLOC : (int)prng_below(r, A_COUNT);
            allocate(t, b, kind, pick_size(r), (size_t)8 << prng_below(r, 8));
        } else if (prng_below(r, 5) == 0)
            resize(t, b, pick_size(r), prng_below(r, 2));
        else
            release(t, b, prng_below(r, 3) ? F_FREE : pick_free(r, b));
    }
    for (struct block &b : t->slot)
        if (b.p)
            release(t, &b, F_FREE);
}

/* Threads: each allocates, hands its blocks to the next, frees what it got. */
enum { THREADS = 4, HANDED = 500 };
static struct thread threads[THREADS];
static struct block handed[THREADS][HANDED];
static pthread_barrier_t barrier;
static long soup_calls;

static void *run_thread(void *arg) {
    struct thread *t = (struct thread *)arg;
    int me = (int)(t - threads);
    thread_begin(t);
    for (int round = 0; round < 3; round++) {
        for (struct block &b : handed[me])
            allocate(t, &b, (int)prng_below(&t->random, A_COUNT),
                     pick_size(&t->random), 128);
        pthread_barrier_wait(&barrier);
        for (struct block &b : handed[(me + 1) % THREADS]) {
            if (b.number % 7 == 0)
                resize(t, &b, b.size + 100, false);
            release(t, &b, b.number % 2 ? F_FREE : F_DELETE);
        }
        pthread_barrier_wait(&barrier);
    }
    soup(t, soup_calls / 4);
    thread_end(t);
    return nullptr;
}

template <class F> static void find(F &f, const char *name) {
    f = (F)dlsym(RTLD_DEFAULT, name);
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    soup_calls = atol(argv[2]);
    uint64_t seed = strtoull(argv[3], nullptr, 10);
    find(call_free_sized, "free_sized");
    find(call_free_aligned_sized, "free_aligned_sized");
    find(call_cfree, "cfree");
    struct thread a;
    thread_init(&a, 'a', seed);
    thread_begin(&a);
    every_kind(&a);
    every_alignment(&a);
    every_failure(&a);
    resizing(&a);
    contradicting(&a);
    soup(&a, soup_calls);
    thread_end(&a);
    struct thread z;
    thread_init(&z, 'z', 0);
    thread_begin(&z);
    every_throw(&z);
    thread_end(&z);

    pthread_t id[THREADS];
    pthread_barrier_init(&barrier, nullptr, THREADS);
    for (int i = 0; i < THREADS; i++)
        thread_init(&threads[i], (char)('b' + i), seed + 1 + (uint64_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&id[i], nullptr, run_thread, &threads[i]);
    for (pthread_t i : id)
        pthread_join(i, nullptr);

    int fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, a.text, a.used) != (ssize_t)a.used ||
        write(fd, z.text, z.used) != (ssize_t)z.used)
        return 1;
    for (struct thread &t : threads)
        if (write(fd, t.text, t.used) != (ssize_t)t.used)
            return 1;
    return close(fd);
}
