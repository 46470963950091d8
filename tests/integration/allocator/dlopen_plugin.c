/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plug-in for dlopen_load: allocates in its constructor, in its life, in
 * threads, in a key's destructor and in its destructor; has thread-local data
 * in the static block.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

int plugin_use(void);

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;
static char *kept[64];
static pthread_key_t key;
static __thread char own[100] __attribute__((tls_model("initial-exec"))) = "x";
static __thread char zeroed[200];

static void key_ends(void *value) {
    give(take(strlen(value)));
    give(value);
}

__attribute__((constructor)) static void begins(void) {
    for (unsigned i = 0; i < 64; i++) {
        kept[i] = take(i * i * 10 + 1);
        kept[i][i * i * 10] = (char)i;
    }
    pthread_key_create(&key, key_ends);
}

__attribute__((destructor)) static void ends(void) {
    for (unsigned i = 0; i < 64; i++)
        give(kept[i]);
    char *value = pthread_getspecific(key);
    pthread_key_delete(key);
    give(value);
    give(take(9000));
}

int plugin_use(void) {
    char *value = pthread_getspecific(key);
    if (value == NULL) {
        value = take(300);
        strcpy(value, "value");
        pthread_setspecific(key, value);
    }
    for (unsigned i = 0; i < 64; i++)
        if (kept[i][i * i * 10] != (char)i)
            return 1;
    memset(zeroed, 3, sizeof(zeroed));
    own[99]++;
    return own[0] == 'x' && zeroed[199] == 3 ? 42 : 2;
}
