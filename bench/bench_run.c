/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs one command and says what it took: "WALL_NS USER_NS SYSTEM_NS
 * PEAK_RSS_KIB STATUS AVERAGE_RSS_KIB" on descriptor 3.
 *
 * Why: a process starts with the peak of resident memory of whoever forked it;
 * a script interpreter's would hide that of a small program. This one is
 * smaller than any.
 *
 * The average is one over time: resident memory is read from /proc every
 * millisecond at first and every four later, which takes this process some
 * microseconds each, and the command nothing. Waiting for the end is waiting
 * for SIGCHLD, so that the end is not noticed late. Of a command that ends
 * within three looks the peak stands for the average.
 *
 * bench_run [VARIABLE=VALUE...] COMMAND ARGUMENT...
 */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

static long long in_ns(struct timeval t) {
    return (long long)t.tv_sec * 1000000000 + (long long)t.tv_usec * 1000;
}

static int first_word_of_command(int argc, char **argv) {
    int i = 1;
    while (i < argc && strchr(argv[i], '='))
        i++;
    return i;
}

static sigset_t child_ended(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    return set;
}

/* The command gets the mask as it was. */
static pid_t start(char **argv) {
    posix_spawnattr_t attr;
    sigset_t ended = child_ended(), before;
    pid_t pid;
    sigprocmask(SIG_BLOCK, &ended, &before);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &before);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    int error = posix_spawnp(&pid, argv[0], NULL, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    return error ? -1 : pid;
}

struct memory {
    int fd;
    long page_kib;
    int looks;
    long long since, at; /* when the first and the last look were */
    long long last_kib, peak_kib;
    double kib_ns;
};

/* False when there is nothing to see: the process is at its end. */
static int look(struct memory *m) {
    char text[128], *second;
    ssize_t n = pread(m->fd, text, sizeof(text) - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = 0;
    second = strchr(text, ' ');
    long long kib = second ? strtoll(second, NULL, 10) * m->page_kib : 0;
    if (kib == 0)
        return 0;
    long long now = now_ns();
    if (m->at)
        m->kib_ns += (double)(now - m->at) * (double)(kib + m->last_kib) / 2;
    else
        m->since = now;
    m->at = now;
    m->last_kib = kib;
    if (kib > m->peak_kib)
        m->peak_kib = kib;
    return 1;
}

static void watch(struct memory *m, pid_t pid) {
    char name[64];
    sigset_t ended = child_ended();
    snprintf(name, sizeof name, "/proc/%d/statm", (int)pid);
    m->page_kib = sysconf(_SC_PAGESIZE) / 1024;
    m->fd = open(name, O_RDONLY | O_CLOEXEC);
    long period_ns = 1000000;
    for (; m->fd >= 0 && look(m); m->looks++) {
        struct timespec t = {0, period_ns};
        if (sigtimedwait(&ended, NULL, &t) == SIGCHLD)
            break;
        if (m->looks >= 8)
            period_ns = 4000000;
    }
    if (m->fd >= 0)
        close(m->fd);
}

int main(int argc, char **argv) {
    const int first = first_word_of_command(argc, argv);
    if (first >= argc)
        return 2;
    fcntl(3, F_SETFD, FD_CLOEXEC);
    for (int i = 1; i < first; i++)
        putenv(argv[i]);
    long long begin = now_ns();
    pid_t pid = start(argv + first);
    if (pid < 0)
        return 127;
    struct memory m = {0};
    watch(&m, pid);
    int status;
    struct rusage u;
    if (wait4(pid, &status, 0, &u) != pid)
        return 1;
    long long end = now_ns();
    /* the last size that was seen lasted until the end */
    m.kib_ns += (double)(end - m.at) * (double)m.last_kib;
    long long peak = u.ru_maxrss > m.peak_kib ? u.ru_maxrss : m.peak_kib;
    long long average =
        m.looks >= 8 ? (long long)(m.kib_ns / (double)(end - m.since)) : peak;
    char text[192];
    int n = snprintf(text, sizeof text, "%lld %lld %lld %lld %d %lld\n",
                     end - begin, in_ns(u.ru_utime), in_ns(u.ru_stime), peak,
                     WIFEXITED(status) ? WEXITSTATUS(status)
                                       : 128 + WTERMSIG(status),
                     average);
    return write(3, text, (size_t)n) == n ? 0 : 1;
}
