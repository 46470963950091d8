/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A library whose constructor runs before that of a preloaded one: the variable
 * DO names what it does there. COUNT blocks are freed by its destructor.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 20000

static void *block[COUNT];

static void *make(void *unused) {
    for (int i = 0; i < COUNT; i++)
        block[i] = malloc(50 + (size_t)i % 7);
    return unused;
}

static void in_thread(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, make, NULL) != 0)
        abort();
    pthread_join(thread, NULL);
}

/* The child makes 300 blocks and ends. */
static void in_child(void) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 300; i++)
            if (malloc(10) == NULL)
                abort();
        exit(3);
    }
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3)
        abort();
}

/* Its memory is the parent's. */
static void in_vfork(void) {
    int status;
    pid_t child = vfork();
    if (child == 0) {
        void *p = malloc(10);
        _exit(p == NULL);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        abort();
}

/* Both go on. */
static void in_both(void) {
    pid_t child = fork();
    if (child > 0)
        waitpid(child, NULL, 0);
}

/* The first call of malloc is that of setenv. */
static void change_environment(void) {
    if (setenv("CHANGED", "new", 1) != 0)
        abort();
}

/* Calls of one kind in a row, or in pairs. */
static void in_a_row(const char *kind) {
    enum { MANY = 2500 };
    static void *p[MANY];
    void *(*volatile resize)(void *, size_t) = realloc;
    if (strcmp(kind, "pairs") == 0) {
        for (int i = 0; i < MANY; i++)
            free(malloc(10));
    } else if (strcmp(kind, "frees") == 0) {
        for (int i = 0; i < MANY; i++)
            p[i] = malloc(10);
        for (int i = 0; i < MANY; i++)
            free(p[i]);
    } else if (strcmp(kind, "reallocs") == 0) {
        p[0] = malloc(100);
        for (int i = 0; i < MANY; i++)
            p[0] = resize(p[0], 100 - (size_t)i % 2);
        free(p[0]);
    } else if (strcmp(kind, "failures") == 0) {
        for (int i = 0; i < MANY; i++)
            if (posix_memalign(&p[0], 3, 8) == 0)
                abort();
    } else {
        free(malloc(10));
        clearenv();
    }
}

__attribute__((constructor)) static void begin(void) {
    const char *what = getenv("DO");
    if (what == NULL)
        return;
    if (strncmp(what, "row ", 4) == 0) {
        in_a_row(what + 4);
        return;
    }
    if (strcmp(what, "environment") == 0)
        change_environment();
    if (strcmp(what, "vfork first") == 0)
        in_vfork();
    if (strcmp(what, "fork both") == 0)
        in_both();
    if (strcmp(what, "fork first") == 0)
        in_child();
    if (strcmp(what, "thread") == 0)
        in_thread();
    else
        make(NULL);
    if (strcmp(what, "fork") == 0)
        in_child();
}

__attribute__((destructor)) static void end(void) {
    const char *changed = getenv("CHANGED");
    if (changed != NULL && strcmp(changed, "new") != 0)
        abort();
    for (int i = 0; i < COUNT; i++)
        free(block[i]);
}
