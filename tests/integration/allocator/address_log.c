/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded before an allocator: writes the address of every block that the
 * program gets to a file, as distances from the first one, in order. Only for
 * programs with one thread.
 *
 * ADDRESS_LOG names the file, which the first process of that environment
 * makes. Allocates nothing itself but what dlsym does, which is the same in
 * every run.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { BATCH = 4096 };

static intptr_t seen[BATCH];
static unsigned count;
static uintptr_t first;
static int fd = -1;

static void write_out(void) {
    size_t bytes = count * sizeof *seen;
    if (fd >= 0 && write(fd, seen, bytes) != (ssize_t)bytes)
        abort();
    count = 0;
}

static void note(void *block) {
    int saved = errno;
    if (fd < 0)
        return;
    if (first == 0)
        first = (uintptr_t)block;
    seen[count++] = (intptr_t)((uintptr_t)block - first);
    if (count == BATCH)
        write_out();
    errno = saved;
}

/* After the allocator's own, which may make a thread, and the C library then
   asks for memory through us. */
__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("ADDRESS_LOG");
    fd = name == NULL ? -1 : open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
    /* Where no program looks. */
    if (fd >= 0 && dup2(fd, 200) == 200) {
        close(fd);
        fd = 200;
    }
}

__attribute__((destructor)) static void end(void) {
    write_out();
    fd = -1;
}

void *malloc(size_t size) {
    static void *(*next)(size_t);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "malloc");
    void *p = next(size);
    note(p);
    return p;
}

void *calloc(size_t n, size_t size) {
    static void *(*next)(size_t, size_t);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "calloc");
    void *p = next(n, size);
    note(p);
    return p;
}

void *realloc(void *old, size_t size) {
    static void *(*next)(void *, size_t);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "realloc");
    void *p = next(old, size);
    note(p);
    return p;
}
