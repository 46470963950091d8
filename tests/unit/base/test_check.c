/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/check.h"

#include "tap.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static char said[1024];
static int ended_by;

/* Runs DIE in a child; keeps its output and the signal that ended it. */
static void watch(void (*die)(void)) {
    int fd[2];
    int status;
    if (pipe(fd) != 0)
        tap_bail("no pipe");
    pid_t child = fork();
    if (child == 0) {
        dup2(fd[1], 2);
        die();
        _exit(0);
    }
    close(fd[1]);
    size_t used = 0;
    for (ssize_t n;
         used + 1 < sizeof(said) &&
         (n = read(fd[0], said + used, sizeof(said) - 1 - used)) > 0;)
        used += (size_t)n;
    said[used] = '\0';
    close(fd[0]);
    waitpid(child, &status, 0);
    /* An emulator adds its own lines about the abort. */
    char *line = strchr(said, '\n');
    if (tap_emulated() && line != NULL)
        line[1] = '\0';
    ended_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void die(void) {
    tcm_die("words");
}

static void die_pointer(void) {
    tcm_die_pointer("bad free", (void *)(uintptr_t)0xabc0);
}

static void die_long(void) {
    static char text[5000];
    memset(text, 'y', sizeof(text) - 1);
    tcm_die(text);
}

static int zero;

static void check(void) {
    TCM_CHECK(zero == 1);
}

static void check_passes(void) {
    TCM_CHECK(zero == 0);
    TCM_ASSERT(zero == 0);
    TCM_ASSERT_SLOW(zero == 0);
}

static void debug_assert(void) {
    TCM_ASSERT(zero == 2);
}

static unsigned points;

static void count_point(const char *label) {
    points += strcmp(label, "here") == 0;
}

int main(void) {
    watch(die);
    tap_is_str(said, "tcmalloc: words\n", "a message");
    tap_is_i64(ended_by, SIGABRT, "ends in abort");
    watch(die_pointer);
    tap_is_str(said, "tcmalloc: bad free 0xabc0\n", "a pointer is named");
    tap_is_i64(ended_by, SIGABRT, "ends in abort");
    watch(die_long);
    tap_ok(strncmp(said, "tcmalloc: yyy", 13) == 0 && strlen(said) > 300,
           "a long message is written");
    watch(check);
    tap_ok(strstr(said, "tcmalloc: check failed: zero == 1 at ") == said &&
               strstr(said, "test_check.c:") != NULL,
           "a failed check names condition and place");
    tap_is_i64(ended_by, SIGABRT, "ends in abort");
    watch(check_passes);
    tap_is_str(said, "", "checks that hold say nothing");
    tap_is_i64(ended_by, 0, "and go on");
    watch(debug_assert);
    tap_is_i64(ended_by, SIGABRT, "assertions work in this build");

    TCM_TESTPOINT("here");
    tcm_testpoint_hook = count_point;
    TCM_TESTPOINT("here");
    TCM_TESTPOINT("there");
    tcm_testpoint_hook = NULL;
    TCM_TESTPOINT("here");
    tap_is_u64(points, 1, "a test point calls its hook");
    return tap_done();
}
