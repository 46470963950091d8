/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libmalloc_trace_ctl.so: preloaded into a program that is linked with the
 * recording library, it records the program from its constructor to its
 * destructor, without any of the recorder's environment variables. The trace is
 * MTRACE_CTL_FILE, or mtrace.out.PID.RANDOM in the temporary folder: a name
 * that no other user can guess and create before.
 *
 * Threads: constructor and destructor only, which never run at once.
 */
#include "gperftools/malloc_trace.h"

#include "base/fmt.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Functions of the program's recording library; NULL in a program without
   it. */
#pragma weak malloc_trace_start
#pragma weak malloc_trace_stop

#define NAME_MAX_BYTES 4096

static pid_t recorded; /* the process that this library records, or 0 */

/* Writes the name of the output to F. Each % of the folder's name is doubled,
   because the folder is no pattern. false: the name is too long, or no random
   bytes for it are available yet. */
static bool put_name(struct tcm_fmt *f) {
    uint64_t number;
    const char *given = secure_getenv("MTRACE_CTL_FILE");
    const char *folder = secure_getenv("TMPDIR");
    if (given != NULL && *given != '\0') {
        tcm_fmt_str(f, given);
        return !f->cut;
    }
    if (folder == NULL || *folder == '\0')
        folder = "/tmp";
    for (; *folder != '\0'; folder++) {
        if (*folder == '%')
            tcm_fmt_char(f, '%');
        tcm_fmt_char(f, *folder);
    }
    tcm_fmt_str(f, "/mtrace.out.%p.");
    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) !=
        (ssize_t)sizeof(number))
        return false;
    tcm_fmt_hex(f, number);
    return !f->cut;
}

static void print_message(const char *text) {
    ssize_t n = write(2, text, strlen(text));
    (void)n;
}

__attribute__((constructor)) static void begin(void) {
    char name[NAME_MAX_BYTES];
    struct tcm_fmt f;
    if (malloc_trace_start == NULL || malloc_trace_stop == NULL) {
        print_message(
            "libmalloc_trace_ctl: the program has no library that records\n");
        return;
    }
    tcm_fmt_init(&f, name, sizeof(name));
    if (put_name(&f) && malloc_trace_start(name))
        recorded = getpid();
    else
        print_message(
            "libmalloc_trace_ctl: recording does not begin: it is on already, "
            "the library does not record, or the file cannot be made\n");
}

/* A forked child without an exec has its parent's variables, but is not
   recorded. */
__attribute__((destructor)) static void end(void) {
    if (recorded != 0 && recorded == getpid())
        malloc_trace_stop();
}
