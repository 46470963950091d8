/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A library in front of the C library that is not ready before its constructor
 * is through, which allocates first: calls that the recorder's set-up might
 * make crash until then.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#define REAL(name) static __typeof__(name) *real_##name
REAL(dl_iterate_phdr);
REAL(pthread_sigmask);
REAL(pthread_create);
REAL(pthread_join);
REAL(pthread_attr_init);
REAL(pthread_attr_setstacksize);
REAL(pthread_attr_destroy);

int dl_iterate_phdr(int (*f)(struct dl_phdr_info *, size_t, void *),
                    void *arg) {
    return real_dl_iterate_phdr(f, arg);
}
int pthread_sigmask(int how, const sigset_t *now, sigset_t *before) {
    return real_pthread_sigmask(how, now, before);
}
int pthread_create(pthread_t *t, const pthread_attr_t *attr,
                   void *(*body)(void *), void *arg) {
    return real_pthread_create(t, attr, body, arg);
}
int pthread_join(pthread_t t, void **result) {
    return real_pthread_join(t, result);
}
int pthread_attr_init(pthread_attr_t *attr) {
    return real_pthread_attr_init(attr);
}
int pthread_attr_setstacksize(pthread_attr_t *attr, size_t bytes) {
    return real_pthread_attr_setstacksize(attr, bytes);
}
int pthread_attr_destroy(pthread_attr_t *attr) {
    return real_pthread_attr_destroy(attr);
}

static void *block[20000];

__attribute__((constructor)) static void begin(void) {
    for (int i = 0; i < 20000; i++)
        block[i] = malloc(40);
#define FIND(name) *(void **)&real_##name = dlsym(RTLD_NEXT, #name)
    FIND(dl_iterate_phdr);
    FIND(pthread_sigmask);
    FIND(pthread_create);
    FIND(pthread_join);
    FIND(pthread_attr_init);
    FIND(pthread_attr_setstacksize);
    FIND(pthread_attr_destroy);
    for (int i = 0; i < 20000; i++)
        free(block[i]);
}
