/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/progress.h"

#include "base/clock.h"
#include "common/main.h"
#include "common/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void tool_progress_init(struct tool_progress *p) {
    memset(p, 0, sizeof(*p));
    p->shown = !tool_is_quiet() && isatty(STDERR_FILENO) == 1;
    p->start_ns = tcm_clock_ns();
}

void tool_progress_show(struct tool_progress *p, uint64_t count,
                        const char *what, uint64_t done, uint64_t total) {
    uint64_t now = tcm_clock_ns();
    if (p->last_ns != 0 && now - p->last_ns < 200000000)
        return;
    p->last_ns = now;
    double seconds = (double)(now - p->start_ns) / 1e9;
    struct tool_text t[2];
    char line[120];
    int n = snprintf(line, sizeof(line), "%s %s, %.1f M/s",
                     tool_text_count(&t[0], count), what,
                     (double)count / seconds / 1e6);
    if (total > done && done != 0 && n > 0 && n < (int)sizeof(line)) {
        double left = seconds * (double)(total - done) / (double)done;
        n += snprintf(line + n, sizeof(line) - (size_t)n, ", %u %%, %s left",
                      (unsigned)(done * 100 / total),
                      tool_text_ns(&t[1], (uint64_t)(left * 1e9)));
    }
    fprintf(stderr, "\r%-*s", p->length, line);
    p->length = n;
}

void tool_progress_clear(struct tool_progress *p) {
    if (p->length != 0)
        fprintf(stderr, "\r%*s\r", p->length, "");
    p->length = 0;
}
