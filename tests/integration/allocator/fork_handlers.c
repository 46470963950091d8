/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork in programs that do something around it.
 *
 * fork_handlers stdio FILE   threads that read lines, that flush all streams,
 *                            and that fork
 * fork_handlers signal       a signal handler that forks in the middle of
 *                            allocations and of forks
 * fork_handlers thread       children that make threads before they allocate
 * fork_handlers thread-Fork  the same by _Fork, which calls no handler
 * fork_handlers first-Fork   children that are the first to allocate anything
 * fork_handlers first-clone  the same by the raw call
 * fork_handlers vfork        children in their parent's memory that allocate
 *                            for long
 * fork_handlers late FILE    makes FILE when it has forked while a thread whose
 *                            destructors run waits for a reader of the trace
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* Not in every C library. A look-up that fails would allocate. */
pid_t _Fork(void) __attribute__((weak));

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;
static volatile sig_atomic_t over;

static void use_heap(unsigned n) {
    void *p[64];
    memset(p, 0, sizeof(p));
    for (unsigned i = 0; i < n; i++) {
        give(p[i % 64]);
        p[i % 64] = take(i * 37 % 5000 + 1);
    }
    for (unsigned i = 0; i < 64; i++)
        give(p[i]);
}

static int child_fails;

static void await(pid_t pid) {
    int status = -1;
    if (pid < 0) {
        child_fails++;
        return;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    child_fails += status != 0;
}

/* --- Streams ------------------------------------------------------------- */

static const char *path;

static void *reads_lines(void *unused) {
    while (!over) {
        FILE *f = fopen(path, "r");
        if (f == NULL)
            abort();
        for (;;) {
            char *line = NULL;
            size_t room = 0;
            ssize_t got = getline(&line, &room, f);
            free(line);
            if (got < 0)
                break;
        }
        fclose(f);
    }
    return unused;
}

static void *flushes_all(void *unused) {
    while (!over)
        fflush(NULL);
    return unused;
}

static void streams(void) {
    pthread_t id[2];
    FILE *f = fopen(path, "w");
    if (f == NULL)
        abort();
    for (int i = 0; i < 2000; i++)
        fprintf(f, "%0*d\n", i, i);
    fclose(f);
    pthread_create(&id[0], NULL, reads_lines, NULL);
    pthread_create(&id[1], NULL, flushes_all, NULL);
    for (int i = 0; i < 300; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            FILE *own = fopen("/dev/null", "w");
            fprintf(own, "%d", i);
            fclose(own);
            fflush(NULL);
            _exit(0);
        }
        await(pid);
    }
    over = 1;
    pthread_join(id[0], NULL);
    pthread_join(id[1], NULL);
}

/* --- Signals ------------------------------------------------------------- */

static volatile sig_atomic_t forks;

/* Once, and again by the handler: a timer that goes on by itself leaves the
   program no time where a fork takes longer than its interval. */
static void set_alarm(void) {
    struct itimerval once = {{0, 0}, {0, 300}};
    setitimer(ITIMER_REAL, &once, NULL);
}

static void forks_now(int unused) {
    int saved = errno;
    (void)unused;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    await(pid);
    forks++;
    set_alarm();
    errno = saved;
}

static void signals(void) {
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = forks_now;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    set_alarm();
    while (forks < 150) {
        /* Sizes that the caches do not keep. */
        void *p = take(300000);
        void *q = take(20000);
        use_heap(50);
        give(p);
        give(q);
    }
    signal(SIGALRM, SIG_IGN);
}

/* --- Threads ------------------------------------------------------------- */

static void *lives(void *unused) {
    use_heap(20000);
    return unused;
}

/* Its main thread and the new one both write for long. */
static void thread_first(int n, long (*make_child)(void)) {
    use_heap(1000);
    for (int i = 0; i < n; i++) {
        long pid = make_child();
        if (pid == 0) {
            pthread_t id[2];
            for (int k = 0; k < 2; k++)
                if (pthread_create(&id[k], NULL, lives, NULL) != 0)
                    _exit(1);
            use_heap(20000);
            pthread_join(id[0], NULL);
            pthread_join(id[1], NULL);
            exit(0);
        }
        await((pid_t)pid);
    }
}

static long by_fork(void) {
    return fork();
}

static long by_Fork(void) {
    return _Fork == NULL ? fork() : _Fork();
}

static long by_clone(void) {
#if defined(__x86_64__) || defined(__aarch64__)
    return syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
#else
    return fork();
#endif
}

static void first_in_child(int n, long (*make_child)(void)) {
    for (int i = 0; i < n; i++) {
        long pid = make_child();
        if (pid == 0) {
            give(take(100));
            exit(0);
        }
        await((pid_t)pid);
    }
}

static pid_t allocate_in_vfork(void) {
    pid_t pid = vfork();
    if (pid == 0) {
        use_heap(100000);
        _exit(0);
    }
    return pid;
}

/* --- A thread past its end ----------------------------------------------- */

static pthread_key_t rounds;
static unsigned calls;

static void late_calls(void *left) {
    if ((size_t)left > 1) {
        pthread_setspecific(rounds, (char *)left - 1);
        return;
    }
    for (unsigned i = 0; i < 3000000; i++) {
        give(take(100 + i % 1000));
        __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    }
}

static void *ends_late(void *unused) {
    give(take(100));
    pthread_setspecific(rounds, (void *)4);
    return unused;
}

static void fork_beside_late(void) {
    pthread_t id;
    unsigned before, now = 0;
    pthread_key_create(&rounds, late_calls);
    pthread_create(&id, NULL, ends_late, NULL);
    /* Until it waits. */
    do {
        before = now;
        usleep(300000);
        now = __atomic_load_n(&calls, __ATOMIC_RELAXED);
    } while (now == 0 || now != before);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    await(pid);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    pthread_join(id, NULL);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    path = argc > 2 ? argv[2] : NULL;
    if (strcmp(what, "stdio") == 0 && path != NULL) {
        streams();
    } else if (strcmp(what, "signal") == 0) {
        signals();
    } else if (strcmp(what, "thread") == 0) {
        thread_first(8, by_fork);
    } else if (strcmp(what, "thread-Fork") == 0) {
        thread_first(8, by_Fork);
    } else if (strcmp(what, "vfork") == 0) {
        for (int i = 0; i < 4; i++)
            await(allocate_in_vfork());
    } else if (strcmp(what, "late") == 0 && path != NULL) {
        fork_beside_late();
    } else if (strcmp(what, "first-Fork") == 0) {
        first_in_child(8, by_Fork);
        return child_fails != 0;
    } else if (strcmp(what, "first-clone") == 0) {
        first_in_child(8, by_clone);
        return child_fails != 0;
    } else {
        return 2;
    }
    printf("%d children failed\n", child_fails);
    return child_fails != 0;
}
