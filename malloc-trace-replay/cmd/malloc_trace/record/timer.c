/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/record/timer.h"

#include "base/clock.h"
#include "common/control_client.h"
#include "common/main.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000u
/* How long a program may take to its constructors, or from one exec to the
   next, before it is taken for one without the library. */
#define PATIENCE_NS ((uint64_t)5 * SECOND)
#define LOOK_NS     20000000u

bool record_parse_seconds(const char *text, uint64_t *ns) {
    return text[strspn(text, "0123456789.")] == '\0' &&
           tool_parse_time(text, ns) && *ns <= (uint64_t)SECOND * SECOND;
}

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

static TCM_NORETURN void work(const struct record_times *t, pid_t command) {
    sigset_t none;
    sigemptyset(&none);
    for (int sig = 1; sig < 32; sig++)
        if (sig != SIGINT && sig != SIGQUIT)
            signal(sig, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (t->delayed) {
        sleep_ns(t->delay_ns);
        if (!order(command, MTF_CONTROL_START))
            _exit(0);
    }
    if (t->ends) {
        sleep_ns(t->duration_ns);
        order(command, MTF_CONTROL_STOP);
    }
    _exit(0);
}

pid_t record_timer_begin(const struct record_times *t, pid_t command) {
    if (!t->delayed && !t->ends)
        return 0;
    pid_t parent = getpid();
    pid_t helper = fork();
    if (helper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(0);
        work(t, command);
    }
    if (helper < 0)
        tool_warn("cannot fork, nothing is started or stopped: %s",
                  strerror(errno));
    return helper < 0 ? 0 : helper;
}

void record_timer_end(pid_t helper) {
    if (helper == 0)
        return;
    kill(helper, SIGKILL);
    while (waitpid(helper, NULL, 0) < 0 && errno == EINTR)
        continue;
}
