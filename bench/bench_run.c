/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs one command and says what it took: "WALL_NS USER_NS SYSTEM_NS
 * PEAK_RSS_KIB STATUS" on descriptor 3.
 *
 * Why: a process starts with the peak of resident memory of whoever forked it;
 * a script interpreter's would hide that of a small program. This one is
 * smaller than any.
 *
 * bench_run [VARIABLE=VALUE...] COMMAND ARGUMENT...
 */
#include <fcntl.h>
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

int main(int argc, char **argv) {
    const int first = first_word_of_command(argc, argv);
    if (first >= argc)
        return 2;
    fcntl(3, F_SETFD, FD_CLOEXEC);
    for (int i = 1; i < first; i++)
        putenv(argv[i]);
    long long start = now_ns();
    pid_t pid;
    if (posix_spawnp(&pid, argv[first], NULL, NULL, argv + first, environ))
        return 127;
    int status;
    struct rusage u;
    if (wait4(pid, &status, 0, &u) != pid)
        return 1;
    long long wall = now_ns() - start;
    char text[160];
    int n = snprintf(text, sizeof text, "%lld %lld %lld %ld %d\n", wall,
                     in_ns(u.ru_utime), in_ns(u.ru_stime), u.ru_maxrss,
                     WIFEXITED(status) ? WEXITSTATUS(status)
                                       : 128 + WTERMSIG(status));
    return write(3, text, (size_t)n) == n ? 0 : 1;
}
