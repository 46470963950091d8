/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/record/record_timer.h"

#include "base/clock.h"
#include "common/control_client.h"
#include "common/main.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000u
/* How long a program may take to its constructors, or from one exec to the
   next, before it is taken for one without the library. */
#define PATIENCE_NS ((uint64_t)5 * SECOND)
#define LOOK_NS     20000000u

static void sleep_ns(uint64_t ns) {
    struct timespec left = {.tv_sec = (time_t)(ns / SECOND),
                            .tv_nsec = (long)(ns % SECOND)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

/* Gives COMMAND, which has to have a socket by now or soon. false: a message is
   out, or the process is gone. */
static bool order(pid_t pid, enum mtf_control_command command) {
    static struct mtf_control_reply reply;
    char problem[CTL_PROBLEM_MAX];
    uint64_t give_up = tcm_clock_ns() + PATIENCE_NS;
    while (!ctl_is_there(pid) && kill(pid, 0) == 0 && tcm_clock_ns() < give_up)
        sleep_ns(LOOK_NS);
    if (ctl_order(pid, command, "", &reply, problem))
        return true;
    /* Its end is no news. */
    siginfo_t info = {0};
    if (kill(pid, 0) == 0 &&
        (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid == 0))
        tool_warn("cannot %s recording: %s",
                  command == MTF_CONTROL_START ? "start" : "stop", problem);
    return false;
}

struct work {
    const struct record_times *times;
    pid_t command;
};

/* In the helper. */
static int work(void *ctx) {
    const struct work *w = ctx;
    if (w->times->delayed) {
        sleep_ns(w->times->delay_ns);
        if (!order(w->command, MTF_CONTROL_START))
            return TOOL_OK;
    }
    if (w->times->ends) {
        sleep_ns(w->times->duration_ns);
        order(w->command, MTF_CONTROL_STOP);
    }
    return TOOL_OK;
}

void record_timer_begin(struct tool_child *helper, const struct record_times *t,
                        pid_t command) {
    struct work w = {.times = t, .command = command};
    struct tool_child_spec what = {
        .body = work, .ctx = &w, .dies_with_parent = true};
    helper->pid = 0;
    if (!t->delayed && !t->ends)
        return;
    int error = tool_child_start(helper, &what);
    if (error != 0)
        tool_warn("cannot fork, nothing is started or stopped: %s",
                  strerror(error));
}

void record_timer_end(struct tool_child *helper) {
    tool_child_kill(helper);
    tool_child_wait(helper, 0, NULL);
}
