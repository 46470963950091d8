/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/hold.h"

#include "base/bits.h"
#include "base/clock.h"
#include "common/main.h"
#include "common/stop.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

bool replay_hold_parse(const char *text, uint64_t *ns) {
    bool endless = text[0] == '-';
    if (!tool_parse_time(text + (endless ? 1 : 0), ns))
        return false;
    if (endless)
        *ns = REPLAY_HOLD_ENDLESS;
    return true;
}

void replay_hold(uint64_t ns) {
    sigset_t stops, before;
    uint64_t begin = tcm_clock_ns();
    if (ns == 0)
        return;
    fflush(stdout);
    /* so that no signal is lost between the check and the sleep */
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    sigprocmask(SIG_BLOCK, &stops, &before);
    while (!tool_stop_requested()) {
        uint64_t past = tcm_clock_ns() - begin;
        if (past >= ns)
            break;
        uint64_t rest = tcm_min_u64(ns - past, (uint64_t)3600 * 1000000000u);
        struct timespec ts = {(time_t)(rest / 1000000000u),
                              (long)(rest % 1000000000u)};
        (void)ppoll(NULL, 0, &ts, &before);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}
