/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lives of processes that a recording has to survive, one a MODE. Blocks that
 * the test looks for have sizes that nothing else asks for:
 *
 * 70001 in main, 70002 in a child, 70003 in threads, 70004 in destructors of
 * thread storage, 70005 in exit handlers, 70006 after an exec.
 *
 * process_target MODE [N]
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;

static void some(size_t size, int n) {
    for (int i = 0; i < n; i++) {
        char *p = take(size);
        if (!p)
            _exit(90);
        p[0] = 1;
        give(p);
    }
}

static int wait_child(pid_t pid) {
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 91;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 92;
}

static void at_exit(void) {
    some(70005, 20);
}

static pthread_key_t key;

static void storage_destructor(void *arg) {
    some(70004, 2);
    uintptr_t left = (uintptr_t)arg;
    if (left > 1)
        pthread_setspecific(key, (void *)(left - 1));
}

static void *thread(void *arg) {
    pthread_setspecific(key, (void *)3);
    some(70003, 10);
    return arg;
}

static void *idle_thread(void *arg) {
    for (;;) {
        some(70003, 1);
        usleep(200);
    }
    return arg;
}

static void run_threads(int n) {
    enum { AT_ONCE = 8 };
    pthread_t id[AT_ONCE];
    pthread_key_create(&key, storage_destructor);
    for (int i = 0; i < n; i += AT_ONCE) {
        int some_more = n - i < AT_ONCE ? n - i : AT_ONCE;
        for (int k = 0; k < some_more; k++)
            if (pthread_create(&id[k], NULL, thread, NULL))
                _exit(93);
        for (int k = 0; k < some_more; k++)
            pthread_join(id[k], NULL);
    }
}

static void close_all(void) {
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
#ifdef SYS_close_range
    syscall(SYS_close_range, 3u, ~0u, 0u);
#endif
    /* Something else takes the numbers. */
    for (int i = 0; i < 20; i++)
        if (open("/dev/null", O_RDWR) < 0)
            _exit(94);
}

static int to_int(const char *text) {
    return text ? atoi(text) : 100;
}

static int run(const char *mode, const char *argument, char **argv) {
    int n = to_int(argument);
    if (!strcmp(mode, "plain"))
        return 0;
    if (!strcmp(mode, "status"))
        return n;
    if (!strcmp(mode, "fork") || !strcmp(mode, "raw")) {
        for (int i = 0; i < 3; i++) {
            pid_t pid = *mode == 'f'
                            ? fork()
                            : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
            if (pid == 0) {
                some(70002, n);
                if (*mode == 'f')
                    exit(4);
                _exit(4);
            }
            some(70001, n);
            if (wait_child(pid) != 4)
                return 95;
        }
        return 0;
    }
    if (!strcmp(mode, "vfork")) {
        pid_t pid = vfork();
        if (pid == 0) {
            execl("/proc/self/exe", "process_target", "after_exec",
                  (char *)NULL);
            _exit(96);
        }
        return wait_child(pid);
    }
    if (!strcmp(mode, "after_exec")) {
        some(70006, 50);
        return 0;
    }
    if (!strcmp(mode, "exec")) {
        if (n == 0) {
            some(70006, 50);
            return 0;
        }
        char text[16];
        snprintf(text, sizeof text, "%d", n - 1);
        execl("/proc/self/exe", argv[0], "exec", text, (char *)NULL);
        return 97;
    }
    if (!strcmp(mode, "_exit"))
        _exit(n);
    if (!strcmp(mode, "abort"))
        abort();
    if (!strcmp(mode, "segv")) {
        volatile uintptr_t nowhere = 16;
        *(volatile int *)nowhere = 1;
    }
    if (!strcmp(mode, "threads")) {
        run_threads(n);
        return 0;
    }
    if (!strcmp(mode, "exit_with_threads") || !strcmp(mode, "thread_exits")) {
        pthread_t id;
        for (int i = 0; i < 4; i++)
            pthread_create(&id, NULL, idle_thread, NULL);
        usleep(20000);
        if (*mode == 't') {
            pthread_create(&id, NULL, thread, NULL);
            pthread_exit(NULL); /* of the main thread; the others go on */
        }
        return 0;
    }
    if (!strcmp(mode, "close_all")) {
        close_all();
        some(70001, 100000);
        return 0;
    }
    if (!strcmp(mode, "daemon")) {
        if (daemon(0, 0))
            return 98;
        some(70002, n);
        usleep(50000);
        some(70002, n);
        return 0;
    }
    if (!strcmp(mode, "child_waits")) {
        char c;
        pid_t pid = fork();
        if (pid == 0) {
            some(70002, n);
            if (read(0, &c, 1) != 0)
                return 88;
            some(70002, n);
            return 0;
        }
        printf("%ld\n", (long)pid);
        fflush(stdout);
        return wait_child(pid);
    }
    if (!strcmp(mode, "sleep")) {
        usleep((useconds_t)n * 1000);
        return 0;
    }
    if (!strcmp(mode, "chdir")) {
        if (chdir("/") || mkdir("/nonexistent/x", 0777) == 0)
            return 99;
        some(70001, 200000);
        return 0;
    }
    if (!strcmp(mode, "setuid")) {
        if (setgid(65534) || setuid(65534))
            return 89;
        some(70001, 200000);
        return 0;
    }
    fprintf(stderr, "process_target: no mode %s\n", mode);
    return 2;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    atexit(at_exit);
    some(70001, 100);
    int status = run(argv[1], argv[2], argv);
    return status;
}
