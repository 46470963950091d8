/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Libraries that come and go and allocate when they do; and the allocator
 * itself, loaded late into a program that has another.
 *
 * dlopen_load plugin LIBRARY TIMES   loads, uses and closes a plug-in
 * dlopen_load late LIBRARY           loads the allocator, uses and closes it
 * dlopen_load deep LIBRARY           has LIBRARY load another, bound deep
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resident.h"
#include "tap.h"

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;

typedef int use_fn(void);

static void *use_in_thread(void *use) {
    use_fn *fn = NULL;
    *(void **)&fn = use;
    return fn() == 42 ? use : NULL;
}

/* True if the plug-in did what it should, here and in a thread. */
static bool load_once(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        tap_diag("%s", dlerror());
        return false;
    }
    use_fn *use = NULL;
    void *found = dlsym(library, "plugin_use");
    *(void **)&use = found;
    pthread_t id;
    void *result = NULL;
    bool good = use() == 42 &&
                pthread_create(&id, NULL, use_in_thread, found) == 0 &&
                pthread_join(id, &result) == 0 && result == found;
    return dlclose(library) == 0 && good;
}

static void test_plugin(const char *path, unsigned times) {
    unsigned good = 0;
    for (unsigned i = 0; i < 50 && good == i; i++)
        good += load_once(path);
    size_t before = resident_kib();
    for (unsigned i = 0; i < times && good == i + 50; i++)
        good += load_once(path);
    tap_is_u64(good, times + 50, "a library comes and goes %u times",
               times + 50);
    tap_ok(resident_kib() <= before + 2048,
           "memory does not grow (%zu, then %zu KiB)", before, resident_kib());
}

struct late {
    void *(*take)(size_t);
    void (*give)(void *);
};

static void *late_thread(void *argument) {
    struct late *late = argument;
    for (size_t i = 1; i < 3000; i++) {
        char *p = late->take(i);
        p[i - 1] = 1;
        late->give(p);
        give(take(i));
    }
    late->give(late->take((size_t)3 << 20));
    return argument;
}

static void test_late(const char *path) {
    pthread_t id[3];
    void *mine = take(100);
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        tap_ok(false, "loads: %s", dlerror());
        return;
    }
    struct late late;
    *(void **)&late.take = dlsym(library, "malloc");
    *(void **)&late.give = dlsym(library, "free");
    tap_ok(late.take != malloc, "its malloc is another");
    give(mine);
    void *theirs = late.take(100);
    for (unsigned i = 0; i < 2; i++)
        pthread_create(&id[i], NULL, late_thread, &late);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(id[i], NULL);
    /* One that allocated and ends after the library was closed. */
    pthread_create(&id[2], NULL, late_thread, &late);
    tap_ok(dlclose(library) == 0, "it can be closed");
    pthread_join(id[2], NULL);
    late.give(theirs);
    pid_t pid = fork();
    if (pid == 0) {
        late_thread(&late);
        _exit(0);
    }
    tap_ok(pid > 0, "and a closed one is in nobody's way");
}

static void test_deep(const char *path) {
    void *opener = dlopen(path, RTLD_NOW);
    void *(*open_deep)(int) = NULL;
    if (opener != NULL)
        *(void **)&open_deep = dlsym(opener, "deep_open");
    void *library = open_deep != NULL ? open_deep(RTLD_LAZY) : NULL;
    if (library == NULL) {
        tap_ok(false, "loads: %s", dlerror());
        return;
    }
    char *(*text)(const char *);
    *(void **)&text = dlsym(library, "deep_text");
    char *got = text("blocks of one malloc");
    tap_is_str(got, "blocks of one malloc", "it works");
    free(got);
    tap_ok(dlclose(library) == 0 && open_deep(1 << 30) == NULL &&
               dlerror() != NULL,
           "wrong flags are told");
}

int main(int argc, char **argv) {
    if (argc > 3 && strcmp(argv[1], "plugin") == 0)
        test_plugin(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
    else if (argc > 2 && strcmp(argv[1], "late") == 0)
        test_late(argv[2]);
    else if (argc > 2 && strcmp(argv[1], "deep") == 0)
        test_deep(argv[2]);
    return tap_done();
}
