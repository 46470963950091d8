/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrong frees: each in a process of its own, which must say what is wrong with
 * which pointer in one line, and die of SIGABRT. While it is recorded, what is
 * known to be wrong is not done: it must live on and say nothing.
 *
 * misuse           runs all cases
 * misuse CASE      one of them
 *
 * An allocator looks at a small block when it goes to the central list. So some
 * cases free in a thread that ends, which empties its cache, and trim, which
 * empties the transfer caches.
 */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

extern char **environ;

/* Hidden from the compiler, which knows these to be wrong. */
static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;
static void *(*volatile resize)(void *, size_t) = realloc;
static size_t (*volatile size_of)(void *) = malloc_usable_size;

static char in_data[64] __attribute__((aligned(64)));
static void *volatile kept[64];

/* The pointer that the message must name. */
static void *culprit(void *p) {
    char text[32];
    int n = snprintf(text, sizeof(text), "%#lx\n", (unsigned long)p);
    if (write(1, text, (size_t)n) != n)
        _exit(9);
    return p;
}

static void *give_all(void *list) {
    kept[0] = take(8); /* a thread that only frees has no cache */
    for (void **p = list; *p != NULL; p++)
        give(*p);
    return NULL;
}

/* Frees the blocks of LIST, which ends with NULL, in a thread that ends. */
static void give_in_thread(void **list) {
    pthread_t id;
    if (pthread_create(&id, NULL, give_all, list) != 0)
        _exit(9);
    pthread_join(id, NULL);
}

static void to_central(void **list) {
    give_in_thread(list);
    malloc_trim(0);
}

/* A block of SIZE whose span stays in use, whatever becomes of it. */
static void *take_among(size_t size) {
    for (unsigned i = 0; i < 32; i++)
        kept[i] = take(size);
    void *p = take(size);
    for (unsigned i = 32; i < 64; i++)
        kept[i] = take(size);
    return p;
}

static void twice(void) {
    void *p = culprit(take(40));
    give(p);
    give(p);
}

static void twice_zero(void) {
    void *p = culprit(take(0));
    give(p);
    give(p);
}

static void a_b_a(void) {
    void *a = culprit(take_among(100));
    void *b = take(100);
    to_central((void *[]){a, b, a, NULL});
}

static void two_threads(void) {
    void *p = culprit(take_among(100));
    give_in_thread((void *[]){p, NULL});
    to_central((void *[]){p, NULL});
}

static void from_central(void) {
    void *p = culprit(take_among(5000));
    to_central((void *[]){p, NULL});
    to_central((void *[]){p, NULL});
}

static void when_aborted(int signo) {
    (void)signo;
    for (unsigned i = 0; i < 500; i++)
        kept[i % 64] = take(5000);
    for (unsigned i = 0; i < 64; i++)
        kept[i] = take(i * 100);
}

/* Programs print stacks and save logs then, and allocate for it. */
static void handler_allocates(void) {
    alarm(30);
    signal(SIGABRT, when_aborted);
    from_central();
}

/* A span of one object, so that it goes back as soon as that does. */
static void span_gone(void) {
    void *p = take(250000);
    void *span[3] = {p, NULL};
    to_central(span);
    /* The thread cache's and the transfer cache's share may be whole. */
    give(culprit(p));
}

static void large_twice(void) {
    void *p = culprit(take(3000000));
    give(p);
    give(p);
}

/* A thread's first free of a class is looked at more closely than others. */
static void inside_small(void) {
    char *p = take_among(100);
    to_central((void *[]){culprit(p + 32), NULL});
}

static void inside_small_cached(void) {
    char *p = take_among(100);
    to_central((void *[]){kept[1], kept[2], culprit(p + 32), NULL});
}

static void odd_small(void) {
    char *p = take_among(100);
    to_central((void *[]){kept[1], kept[2], culprit(p + 1), NULL});
}

static void inside_large(void) {
    give(culprit((char *)take(3000000) + 16));
}

static void far_inside_large(void) {
    give(culprit((char *)take(3000000) + 1000001));
}

static void odd_large(void) {
    give(culprit((char *)take(3000000) + 1));
}

static void on_stack(void) {
    char here[64];
    void *volatile p = here;
    give(culprit(p));
}

static void in_program(void) {
    give(culprit(in_data));
}

static void mapped(void) {
    give(culprit(mmap(NULL, 65536, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
}

static void null_and_8(void) {
    give(culprit((void *)8));
}

static void non_canonical(void) {
    give(culprit((void *)0x8001234567890010));
}

static void top_bit(void) {
    give(culprit((void *)0x8000000000000000));
}

/* By a thread without a cache. */
static void *give_at_once(void *p) {
    give(p);
    return NULL;
}

static void top_bit_first(void) {
    pthread_t id;
    void *p = culprit((void *)0x8000000000000010);
    if (pthread_create(&id, NULL, give_at_once, p) != 0)
        _exit(9);
    pthread_join(id, NULL);
}

static void kernels(void) {
    give(culprit((void *)0xffff800000000040));
}

/* Between the heap's blocks and the end of its address range. */
static void beyond_heap(void) {
    give(culprit((char *)take(100000) + ((size_t)1 << 33)));
}

static void resize_freed(void) {
    void *p = culprit(take(40));
    give(p);
    kept[0] = resize(p, 400);
}

static void resize_foreign(void) {
    kept[0] = resize(culprit(in_data), 100);
}

static void resize_foreign_to_0(void) {
    kept[0] = resize(culprit(in_data), 0);
}

static void resize_large_freed(void) {
    void *p = culprit(take(3000000));
    give(p);
    kept[0] = resize(p, 4000000);
}

static void resize_inside_large(void) {
    kept[0] = resize(culprit((char *)take(3000000) + 64), 100);
}

static void size_foreign(void) {
    kept[0] = (void *)size_of(culprit(in_data));
}

static void size_inside(void) {
    kept[0] = (void *)size_of(culprit((char *)take_among(100) + 4));
}

static const struct wrong {
    const char *name;
    void (*run)(void);
    const char *says; /* before the pointer */
    const char *what;
} wrong[] = {
    {"twice", twice, "double free of", "a block twice in a row"},
    {"twice-0", twice_zero, "double free of", "a block of no bytes twice"},
    {"a-b-a", a_b_a, "double free of", "a, b, a"},
    {"two-threads", two_threads, "double free of", "a block in two threads"},
    {"from-central", from_central, "double free of",
     "a block that is in the central list"},
    {"handler", handler_allocates, "double free of",
     "one that a handler of SIGABRT allocates after"},
    {"span-gone", span_gone, "attempt to free invalid pointer",
     "a block whose span is gone"},
    {"large-twice", large_twice, "attempt to free invalid pointer",
     "a large block twice"},
    {"inside-small", inside_small, "attempt to free a pointer inside a block",
     "the inside of a small block, looked at"},
    {"inside-small-cached", inside_small_cached,
     "attempt to free an invalid pointer", "the inside of a small block"},
    {"odd-small", odd_small, "attempt to free an invalid pointer",
     "a small block's second byte"},
    {"inside-large", inside_large, "attempt to free a pointer inside a block",
     "the inside of a large block"},
    {"far-inside-large", far_inside_large,
     "attempt to free a pointer inside a block",
     "an inner page of a large block"},
    {"odd-large", odd_large, "attempt to free a pointer inside a block",
     "a large block's second byte"},
    {"stack", on_stack, "attempt to free invalid pointer", "the stack"},
    {"static", in_program, "attempt to free invalid pointer", "static data"},
    {"mapped", mapped, "attempt to free invalid pointer", "a mapping"},
    {"null-and-8", null_and_8, "attempt to free invalid pointer", "NULL + 8"},
    {"non-canonical", non_canonical, "attempt to free invalid pointer",
     "an address that no memory can have"},
    {"top-bit", top_bit, "attempt to free invalid pointer",
     "the topmost bit alone"},
    {"top-bit-first", top_bit_first, "attempt to free invalid pointer",
     "the like, as a thread's first call"},
    {"kernel", kernels, "attempt to free invalid pointer",
     "an address of the kernel"},
    {"beyond-heap", beyond_heap, "attempt to free invalid pointer",
     "an address the heap has not reached"},
    {"realloc-freed", resize_freed, "double free of",
     "realloc of what was just freed"},
    {"realloc-foreign", resize_foreign, "attempt to realloc invalid pointer",
     "realloc of static data"},
    {"realloc-foreign-0", resize_foreign_to_0,
     "attempt to realloc invalid pointer", "realloc of static data to 0"},
    {"realloc-large-freed", resize_large_freed,
     "attempt to realloc invalid pointer", "realloc of a freed large block"},
    {"realloc-inside-large", resize_inside_large,
     "attempt to realloc a pointer inside a block",
     "realloc of the inside of a large block"},
    {"size-foreign", size_foreign, "attempt to get the size of invalid pointer",
     "malloc_usable_size of static data"},
    {"size-inside", size_inside,
     "attempt to get the size of a pointer inside a block",
     "malloc_usable_size of the inside of a small block"},
};

/* Tells whether the recorder does not notice the fault: requested sizes, and
   pointers into small blocks up to the central list. */
static bool stops_always(const struct wrong *w) {
    return strncmp(w->name, "size-", 5) == 0 ||
           strcmp(w->name, "odd-small") == 0 ||
           strcmp(w->name, "inside-small-cached") == 0;
}

#define CASES (sizeof(wrong) / sizeof(wrong[0]))

/* All of FD, as a string. */
static void read_all(int fd, char *text, size_t room) {
    size_t length = 0;
    for (ssize_t n; length < room - 1; length += (size_t)n) {
        n = read(fd, text + length, room - 1 - length);
        if (n <= 0)
            break;
    }
    text[length] = '\0';
    close(fd);
}

static void check_case(char *program, const struct wrong *w) {
    int out[2], err[2], status;
    char pointer[64], said[512], want[256];
    char *arguments[] = {program, (char *)(uintptr_t)w->name, NULL};
    posix_spawn_file_actions_t files;
    pid_t pid;
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        tap_bail("pipe");
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, out[1], 1);
    posix_spawn_file_actions_adddup2(&files, err[1], 2);
    if (posix_spawn(&pid, "/proc/self/exe", &files, NULL, arguments, environ))
        tap_bail("posix_spawn");
    posix_spawn_file_actions_destroy(&files);
    close(out[1]);
    close(err[1]);
    read_all(out[0], pointer, sizeof(pointer));
    read_all(err[0], said, sizeof(said));
    if (waitpid(pid, &status, 0) != pid)
        tap_bail("waitpid");
    snprintf(want, sizeof(want), "tcmalloc: %s %s", w->says, pointer);
    bool good = pointer[0] != '\0';
    if (getenv("TCMALLOC_TRACE_OUTPUT") != NULL && !stops_always(w))
        good = good && status == 0 && said[0] == '\0';
    else
        good = good && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
               strcmp(said, want) == 0;
    if (!good)
        tap_diag("status %#x, said \"%s\", want \"%s\"", status, said, want);
    tap_ok(good, "%s", w->what);
}

int main(int argc, char **argv) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    for (unsigned i = 0; i < CASES && argc > 1; i++) {
        if (strcmp(argv[1], wrong[i].name) == 0) {
            wrong[i].run();
            return 0;
        }
    }
    for (unsigned i = 0; i < CASES; i++)
        check_case(argv[0], &wrong[i]);
    return tap_done();
}
