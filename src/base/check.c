/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file calls no other source file of the library: an assertion that failed
 * there would call this file again.
 */
#include "base/check.h"
#include "base/linux/os_syscall.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

void (*tcm_testpoint_hook)(const char *label);
bool (*tcm_testpoint_refuse)(const char *call);

static struct iovec piece(const char *text) {
    return (struct iovec){(void *)(uintptr_t)text, strlen(text)};
}

/* One system call, so that the lines of two threads do not mix. */
static TCM_NORETURN void print_and_abort(const char *message,
                                         const char *detail) {
    struct iovec line[] = {piece("tcmalloc: "), piece(message), piece(detail),
                           piece("\n")};
    struct pollfd wait = {.fd = 2, .events = POLLOUT};
    while (tcm_syscall(SYS_writev, 2, line, TCM_ARRAY_SIZE(line)) < 0 &&
           (errno == EINTR || errno == EAGAIN))
        tcm_syscall(SYS_ppoll, &wait, 1, NULL, NULL, 0);
    abort();
}

void tcm_die(const char *message) {
    print_and_abort(message, "");
}

void tcm_die_pointer(const char *message, const void *pointer) {
    char text[sizeof(" 0x") + 2 * sizeof(pointer)];
    char *p = text + sizeof(text);
    uintptr_t rest = (uintptr_t)pointer;
    *--p = '\0';
    do {
        *--p = "0123456789abcdef"[rest % 16];
        rest /= 16;
    } while (rest != 0);
    *--p = 'x';
    *--p = '0';
    *--p = ' ';
    print_and_abort(message, p);
}

void tcm_check_failed(const char *condition_and_place) {
    print_and_abort("check failed: ", condition_and_place);
}
