/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/info.h"

#include "common/main.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* --- Problems ----------------------------------------------------------- */

void info_problem(struct info_file *f, int status, const char *fmt, ...) {
    va_list ap;
    char *text = NULL;
    /* Failure is worse than damage, which is worse than success. */
    if (status == TOOL_FAILED || f->status == TOOL_OK)
        f->status = status;
    if (f->problem_count++ >= INFO_TEXTS)
        return;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        text = NULL;
    va_end(ap);
    f->problems[f->problem_count - 1] = text;
}

void info_free(struct info_file *f) {
    for (unsigned i = 0; i < INFO_TEXTS; i++) {
        free(f->problems[i]);
        free(f->notices[i]);
    }
    raw_threads_free(&f->threads);
    info_live_free(&f->live);
}

/* --- Sums --------------------------------------------------------------- */

uint64_t info_event_count(const struct info_file *f) {
    uint64_t n = 0;
    if (f->kind == INFO_PROCESSED) {
        for (unsigned k = 0; k <= MTF_OP_LAST_OPERATION; k++)
            n += f->ops[k];
        return n + f->ops[MTF_OP_FAILED];
    }
    for (unsigned k = MTF_EVENT_ALLOC; k <= MTF_EVENT_FAILED; k++)
        n += f->events[k];
    return n;
}

uint64_t info_at_most(const struct info_file *f) {
    const struct raw_threads *r = &f->threads;
    bool late = false;
    for (size_t i = 0; i < r->ids.count; i++)
        late = late || r->thread[i].id == MTF_THREAD_LATE;
    /* a single thread's events stand in order, so the peak seen is the true one
       */
    return late || raw_threads_with_events(r) > 1 ? info_live_at_most(&f->live)
                                                  : f->live.peak_bytes;
}

/* --- Names, in texts and as keys ---------------------------------------- */

const char *info_segment_name(unsigned kind) {
    switch (kind) {
    case MTF_SEGMENT_DATA:
        return "data";
    case MTF_SEGMENT_BARRIER:
        return "barrier";
    case MTF_SEGMENT_SAMPLE:
        return "sample";
    case MTF_SEGMENT_NOTICE:
        return "notice";
    case MTF_SEGMENT_FOOTER:
        return "footer";
    case MTF_SEGMENT_PRESENT:
        return "present";
    case MTF_SEGMENT_SITES:
        return "sites";
    default:
        return NULL;
    }
}

const char *info_end_reason(uint64_t reason) {
    switch (reason) {
    case MTF_END_EXIT:
        return "the program ended";
    case MTF_END_STOP:
        return "stopped by call";
    case MTF_END_LIMIT:
        return "the output reached its limit";
    case MTF_END_FORCED:
        return "forced: the output failed";
    default:
        return "unknown";
    }
}
