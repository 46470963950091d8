/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocators to preload that do what no allocator should, but serve their
 * program. ODD names which: "slow" wastes time in each call, "fat" takes three
 * times the memory and writes all of it, "hangs" waits for ever in its 3,000th
 * call, "hangs_early" in its tenth, "refuses" says no from its 3,000th call on,
 * "refuses_all" at once, "dies" ends the process in its 3,000th call as if all
 * were well, "killed" has it killed there, "leaks" never frees. Without a name
 * it is right.
 *
 * Built with ODD_FORWARDS it hands all on to the C library's malloc, does not
 * clear what calloc gives if it is "dirty", and writes to the file in COUNT how
 * often it was asked for a block. With ODD_ONLY_MALLOC it has malloc alone,
 * with ODD_NO_FREE all but free.
 */
#define _GNU_SOURCE
#include "../../lib/small_allocator.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#ifdef ODD_FORWARDS
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void __libc_free(void *p);

static unsigned long count;

static void *counted(void *p) {
    __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    return p;
}
void *malloc(size_t size) {
    return counted(__libc_malloc(size));
}
void *calloc(size_t n, size_t size) {
    void *p = counted(__libc_calloc(n, size));
    if (p != NULL && strcmp(small_setting("ODD"), "dirty") == 0)
        memset(p, 0xaa, n * size);
    return p;
}
void *realloc(void *p, size_t size) {
    return counted(__libc_realloc(p, size));
}
void free(void *p) {
    __libc_free(p);
}

__attribute__((destructor)) static void tell_count(void) {
    const char *name = small_setting("COUNT");
    char text[32];
    int fd =
        *name == '\0' ? -1 : open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0)
        return;
    int n = snprintf(text, sizeof(text), "%lu\n", count);
    if (write(fd, text, (size_t)n) != n)
        _exit(99);
    close(fd);
}

#else

static unsigned long calls;
static const char *odd;

static int is(const char *name) {
    if (odd == NULL)
        odd = small_setting("ODD");
    return strcmp(odd, name) == 0;
}

static void waste(void) {
    for (volatile int i = 0; i < 200; i++)
        ;
}

/* Takes the lock. Whether the call is refused. */
static int enter(void) {
    small_lock();
    calls++;
    if ((is("hangs") && calls == 3000) || (is("hangs_early") && calls == 10))
        for (;;)
            pause();
    if (is("dies") && calls == 3000)
        _exit(0);
    if (is("killed") && calls == 3000)
        raise(SIGKILL);
    if (is("slow"))
        waste();
    return (is("refuses") && calls >= 3000) || is("refuses_all");
}

/* Three times the memory, written. */
static void *take_fat(size_t size) {
    if (size >= (size_t)1 << 40)
        return NULL;
    int power = small_power(size);
    char *p = small_again(power);
    if (p == NULL) {
        p = small_new((size_t)3 << power);
        if (p != NULL)
            memset(p, 1, (size_t)3 << power);
    }
    return small_block(p, size);
}

void *malloc(size_t size) {
    void *p = NULL;
    if (!enter())
        p = is("fat") ? take_fat(size) : small_take(size);
    small_unlock();
    return small_result(p);
}

#ifndef ODD_ONLY_MALLOC
#ifndef ODD_NO_FREE
void free(void *p) {
    if (p == NULL)
        return;
    (void)enter();
    if (!is("leaks"))
        small_give(p);
    small_unlock();
}
#else
#define free(p) (void)(p)
#endif

SMALL_DEFINE_OTHERS
#endif
#endif
