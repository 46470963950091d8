/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/linux/os_file.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BIG = 3 << 20 };

static char out[BIG], in[BIG];

static void nothing(int sig) {
    (void)sig;
}

/* Sends bytes through a pipe whose other end reads slowly and in odd pieces. */
static void test_pipe(bool blocking) {
    int fd[2];
    if (pipe(fd) != 0)
        tap_bail("no pipe");
    pid_t child = fork();
    if (child == 0) {
        size_t at = 0;
        close(fd[1]);
        while (at < BIG) {
            size_t n = at % 7919 + 1;
            ssize_t got = read(fd[0], in + at, n < BIG - at ? n : BIG - at);
            if (got <= 0)
                break;
            at += (size_t)got;
            if (at % 64 == 0)
                kill(getppid(), SIGUSR1);
        }
        _exit(at == BIG && memcmp(in, out, BIG) == 0 ? 0 : 1);
    }
    close(fd[0]);
    if (!blocking)
        fcntl(fd[1], F_SETFL, O_NONBLOCK);
    errno = 77;
    bool good = tcm_io_write_all(fd[1], out, BIG);
    int after = errno;
    int status;
    close(fd[1]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    tap_ok(good, "all is written%s", blocking ? "" : ", not blocking");
    tap_is_i64(after, 77, "errno is untouched");
    tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "all arrives");
}

static void test_read(void) {
    int fd[2];
    size_t got;
    if (pipe(fd) != 0)
        tap_bail("no pipe");
    pid_t child = fork();
    if (child == 0) {
        for (size_t at = 0; at < 100000; at += 1000)
            if (write(fd[1], out + at, 1000) != 1000)
                _exit(1);
        _exit(0);
    }
    close(fd[1]);
    memset(in, 0, sizeof(in));
    tap_ok(tcm_io_read_full(fd[0], in, 60000, &got) && got == 60000,
           "a full read of a part");
    tap_ok(tcm_io_read_full(fd[0], in + 60000, 60000, &got) && got == 40000,
           "the rest ends the file");
    tap_ok(memcmp(in, out, 100000) == 0, "what was written");
    tap_ok(tcm_io_read_full(fd[0], in, 1, &got) && got == 0,
           "at the end there is nothing");
    waitpid(child, NULL, 0);
    close(fd[0]);
    tap_ok(!tcm_io_read_full(fd[0], in, 1, &got) && errno == EBADF,
           "a closed descriptor is an error");
}

static void test_errors(void) {
    signal(SIGPIPE, SIG_IGN);
    int fd[2];
    if (pipe(fd) != 0)
        tap_bail("no pipe");
    close(fd[0]);
    tap_ok(!tcm_io_write_all(fd[1], out, 10) && errno == EPIPE,
           "a pipe without reader");
    close(fd[1]);
    int full = open("/dev/full", O_WRONLY);
    tap_ok(!tcm_io_write_all(full, out, 10) && errno == ENOSPC, "a full disk");
    close(full);
    tap_ok(tcm_io_write_all(-1, out, 0), "nothing can be written anywhere");
}

static void test_file(void) {
    char name[] = "/tmp/tcmtest.XXXXXX";
    char buf[16];
    int fd = mkstemp(name);
    if (fd < 0 || write(fd, "0123456789", 10) != 10)
        tap_bail("no temporary file");
    close(fd);
    tap_is_i64(tcm_io_read_file(name, buf, sizeof(buf)), 10, "a small file");
    tap_is_str(buf, "0123456789", "its text");
    tap_is_i64(tcm_io_read_file(name, buf, 5), 4, "a small buffer");
    tap_is_str(buf, "0123", "cuts the text");
    unlink(name);
    errno = 77;
    tap_is_i64(tcm_io_read_file(name, buf, sizeof(buf)), -1, "no such file");
    tap_is_i64(errno, 77, "errno is untouched");
    tap_ok(tcm_io_read_file("/proc/self/stat", in, sizeof(in)) > 20,
           "a file of /proc");
}

int main(void) {
    struct sigaction sa = {.sa_handler = nothing};
    sigaction(SIGUSR1, &sa, NULL);
    for (size_t i = 0; i < BIG; i++)
        out[i] = (char)(i * 2654435761u >> 13);
    test_pipe(true);
    test_pipe(false);
    test_read();
    test_errors();
    test_file();
    return tap_done();
}
