/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A library that stands before functions of the C library, as torsocks,
 * uid_wrapper and libfaketime do. The program under test calls none of them, so
 * whoever does is the recorder, inside malloc or on a thread of its own.
 * ROUGH: the call ends the process. Otherwise it does what such libraries do:
 * takes a lock, asks for memory, counts on its own set-up, passes the call on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *state;

__attribute__((constructor)) static void set_up(void) {
    state = malloc(100);
    strcpy(state, "set up");
}

__attribute__((destructor)) static void tear_down(void) {
    free(state);
    state = NULL;
}

static long stand_before(const char *name, long a, long b, long c, long d,
                         long e, long f, long g) {
#ifdef ROUGH
    (void)name, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g;
    abort();
#else
    pthread_mutex_lock(&lock);
    long (*next)(long, long, long, long, long, long, long) =
        (long (*)(long, long, long, long, long, long, long))dlsym(RTLD_NEXT,
                                                                  name);
    char *copy = malloc(strlen(state) + 1);
    strcpy(copy, state);
    long result = next(a, b, c, d, e, f, g);
    free(copy);
    pthread_mutex_unlock(&lock);
    return result;
#endif
}

/* By the linker's name: the headers declare some of them in another way. */
#define BEFORE(name)                                                           \
    long before_##name(long, long, long, long, long, long,                     \
                       long) __asm__(#name);                                   \
    long before_##name(long a, long b, long c, long d, long e, long f,         \
                       long g) {                                               \
        return stand_before(#name, a, b, c, d, e, f, g);                       \
    }
BEFORE(syscall)
BEFORE(clock_gettime)
BEFORE(fstat)
BEFORE(fstat64)
BEFORE(stat)
BEFORE(stat64)
BEFORE(fstatat)
BEFORE(fstatat64)
BEFORE(statx)
BEFORE(open)
BEFORE(openat)
BEFORE(close)
BEFORE(read)
BEFORE(pread)
BEFORE(pread64)
BEFORE(write)
BEFORE(pwrite)
BEFORE(pwrite64)
BEFORE(writev)
BEFORE(lseek)
BEFORE(lseek64)
BEFORE(ftruncate)
BEFORE(ftruncate64)
BEFORE(fallocate)
BEFORE(fcntl)
BEFORE(fcntl64)
BEFORE(ioctl)
BEFORE(readlink)
BEFORE(unlink)
BEFORE(rename)
BEFORE(renameat)
BEFORE(mmap)
BEFORE(mmap64)
BEFORE(munmap)
BEFORE(mremap)
BEFORE(mprotect)
BEFORE(madvise)
BEFORE(mincore)
BEFORE(personality)
BEFORE(getrlimit)
BEFORE(getrlimit64)
BEFORE(getrusage)
BEFORE(poll)
BEFORE(ppoll)
BEFORE(nanosleep)
BEFORE(getpid)
BEFORE(gettid)
BEFORE(getppid)
BEFORE(geteuid)
BEFORE(socket)
BEFORE(bind)
BEFORE(listen)
BEFORE(accept4)
BEFORE(recv)
BEFORE(send)
BEFORE(getsockopt)
BEFORE(sched_yield)

/* Threads that it sees are the program's. */
static int threads;

int threads_seen(void);
int threads_seen(void) {
    return threads;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                   void *(*body)(void *), void *arg) {
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                 void *))dlsym(RTLD_NEXT, "pthread_create");
    free(malloc(50));
    __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
    return next(thread, attr, body, arg);
}
