/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints what a program can see of itself, or does what programs do to
 * themselves, with many calls of malloc before and after. Its output does not
 * depend on who serves malloc.
 *
 * undisturbed_target MODE [ARGUMENT]
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;
static char **arguments;

static void work(void) {
    static void *slot[1000];
    for (unsigned i = 0; i < 300000; i++) {
        unsigned k = i * 2654435761u % 1000;
        give(slot[k]);
        slot[k] = take(k);
    }
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* --- What it sees -------------------------------------------------------- */

static void show_file(const char *path, const char *const *fields) {
    char line[512];
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        for (int i = 0; fields[i] != NULL; i++)
            if (!strncmp(line, fields[i], strlen(fields[i])))
                fputs(line, stdout);
    if (f != NULL)
        fclose(f);
}

static void show_descriptors(void) {
    for (int fd = 0; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            printf("descriptor %d flags %d\n", fd, fcntl(fd, F_GETFD));
}

static void show_environment(void) {
    extern char **environ;
    char *names[1000];
    size_t n = 0;
    for (; environ[n] != NULL && n < 1000; n++)
        names[n] = environ[n];
    qsort(names, n, sizeof(*names), by_text);
    for (size_t i = 0; i < n; i++)
        if (strncmp(names[i], "TCMALLOC_", 9) && strncmp(names[i], "LD_", 3))
            puts(names[i]);
}

static void *named(void *arg) {
    pthread_barrier_t *both = arg;
    pthread_setname_np(pthread_self(), "of-the-program");
    pthread_barrier_wait(both);
    pthread_barrier_wait(both);
    return NULL;
}

/* The recorder's own threads are documented; no other may have their name. */
static void show_threads(void) {
    char *names[64], line[64], path[320];
    size_t n = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL && n < 64;) {
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
        FILE *f = fopen(path, "r");
        if (f == NULL || fgets(line, sizeof(line), f) == NULL ||
            !strcmp(line, "malloc-trace\n"))
            line[0] = '\0';
        if (f != NULL)
            fclose(f);
        if (line[0] != '\0' && e->d_name[0] != '.')
            names[n++] = strdup(line);
    }
    if (d != NULL)
        closedir(d);
    qsort(names, n, sizeof(*names), by_text);
    for (size_t i = 0; i < n; i++)
        printf("thread %s", names[i]);
}

static int see(void) {
    static const char *const fields[] = {
        "Name:",       "Umask:",   "Uid:",          "Gid:",    "SigPnd:",
        "ShdPnd:",     "SigBlk:",  "SigIgn:",       "SigCgt:", "CapEff:",
        "NoNewPrivs:", "Seccomp:", "Cpus_allowed:", NULL};
    static const char *const limits[] = {"Max", NULL};
    pthread_barrier_t both;
    pthread_t id;
    char folder[4096];
    work();
    errno = 0;
    work();
    printf("errno %d\n", errno);
    pthread_barrier_init(&both, NULL, 2);
    if (pthread_create(&id, NULL, named, &both))
        return 1;
    pthread_barrier_wait(&both);
    show_threads();
    pthread_barrier_wait(&both);
    pthread_join(id, NULL);
    show_descriptors();
    show_environment();
    show_file("/proc/self/status", fields);
    show_file("/proc/self/limits", limits);
    printf("folder %s\n", getcwd(folder, sizeof(folder)));
    printf("priority %d policy %d\n", getpriority(PRIO_PROCESS, 0),
           sched_getscheduler(0));
    int fd = open("/dev/null", O_RDONLY);
    printf("next descriptor %d\n", fd);
    return 41;
}

/* --- What it does to itself ---------------------------------------------- */

static volatile sig_atomic_t caught;
static pthread_t first_thread;
static volatile sig_atomic_t elsewhere;

static void handler(int number) {
    (void)number;
    caught++;
    if (!pthread_equal(pthread_self(), first_thread))
        elsewhere++;
}

/* All that can be caught, sent to the process while it works: none is lost, and
   all are taken by a thread of the program. */
static int all_signals(void) {
    struct sigaction action = {.sa_handler = handler};
    int sent = 0;
    first_thread = pthread_self();
    for (int n = 1; n < NSIG; n++)
        sigaction(n, &action, NULL);
    for (int n = 1; n < NSIG; n++) {
        if (n == SIGKILL || n == SIGSTOP || n == SIGSEGV || n == SIGBUS ||
            n == 32 || n == 33)
            continue;
        sent += kill(getpid(), n) == 0;
        give(take((size_t)n));
    }
    work();
    printf("sent %d caught %d elsewhere %d\n", sent, (int)caught,
           (int)elsewhere);
    return 42;
}

/* Nobody else takes what all threads of the program block. */
static int blocked_signals(void) {
    sigset_t all, pending;
    int n = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGUSR1);
    work();
    sigpending(&pending);
    for (int i = 1; i < NSIG; i++)
        n += sigismember(&pending, i) == 1;
    printf("pending %d\n", n);
    return 43;
}

static int limited(int which, rlim_t n) {
    struct rlimit limit = {n, n};
    if (setrlimit(which, &limit) != 0)
        return 1;
    work();
    puts("limited");
    return 44;
}

/* Address space: 96 MiB more than there is. */
static int limited_space(void) {
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%ld", &pages) != 1)
        return 1;
    fclose(f);
    return limited(RLIMIT_AS, (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) +
                                  ((rlim_t)96 << 20));
}

static int changed_root(const char *folder) {
    work();
    if (chroot(folder) != 0 || chdir("/") != 0)
        return 1;
    work();
    puts("inside");
    return 45;
}

static int another_user(void) {
    work();
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 1;
    work();
    printf("user %u\n", (unsigned)getuid());
    return 46;
}

static int wait_for(pid_t pid) {
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int clone_body(void *arg) {
    (void)arg;
    work();
    return 5;
}

static int children(void) {
    extern char **environ;
    char *argv[] = {arguments[0], (char *)"leave", NULL};
    pid_t pid;
    work();
    if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) != 0)
        return 1;
    printf("spawned %d\n", wait_for(pid));
    pid = vfork();
    if (pid == 0) {
        execv(argv[0], argv);
        _exit(99);
    }
    printf("vfork %d\n", wait_for(pid));
    pid = fork();
    if (pid == 0) {
        work();
        _exit(3);
    }
    printf("fork %d\n", wait_for(pid));
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        work();
        _exit(4);
    }
    printf("raw clone %d\n", wait_for(pid));
    char *stack = take(1 << 18);
    pid = clone(clone_body, stack + (1 << 18), SIGCHLD, NULL);
    printf("clone %d\n", wait_for(pid));
    give(stack);
    work();
    return 47;
}

static void *exec_body(void *arg) {
    char *argv[] = {arguments[0], (char *)"leave", NULL};
    work();
    execv(argv[0], argv);
    return arg;
}

static void *exit_body(void *arg) {
    work();
    _exit(48);
    return arg;
}

static int from_thread(void *(*body)(void *)) {
    pthread_t id;
    work();
    if (pthread_create(&id, NULL, body, NULL))
        return 1;
    for (;;)
        give(take(100));
}

int main(int argc, char **argv) {
    const char *mode = argc < 2 ? "" : argv[1];
    arguments = argv;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(mode, "see"))
        return see();
    if (!strcmp(mode, "signals"))
        return all_signals();
    if (!strcmp(mode, "blocked"))
        return blocked_signals();
    if (!strcmp(mode, "nofile"))
        return limited(RLIMIT_NOFILE, 3);
    if (!strcmp(mode, "nproc"))
        return limited(RLIMIT_NPROC, 1);
    if (!strcmp(mode, "fsize"))
        return limited(RLIMIT_FSIZE, 8192);
    if (!strcmp(mode, "space"))
        return limited_space();
    if (!strcmp(mode, "chroot") && argc == 3)
        return changed_root(argv[2]);
    if (!strcmp(mode, "user"))
        return another_user();
    if (!strcmp(mode, "children"))
        return children();
    if (!strcmp(mode, "exec"))
        return from_thread(exec_body);
    if (!strcmp(mode, "exit"))
        return from_thread(exit_body);
    if (!strcmp(mode, "leave")) {
        work();
        puts("left");
        return 49;
    }
    return 2;
}
