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

const char *info_event_name(unsigned kind) {
    static const char *const names[INFO_EVENT_KINDS] = {
        [MTF_EVENT_ALLOC] = "alloc",
        [MTF_EVENT_FREE] = "free",
        [MTF_EVENT_REALLOC] = "realloc",
        [MTF_EVENT_ALIGNED] = "aligned",
        [MTF_EVENT_FREE_SIZE] = "free_size",
        [MTF_EVENT_REALLOC_NEW] = "realloc_new",
        [MTF_EVENT_REALLOC_END] = "realloc_end",
        [MTF_EVENT_FAILED] = "failed",
        [MTF_EVENT_STATE] = "state",
        [MTF_EVENT_TIME] = "time",
        [MTF_EVENT_BUFFER] = "buffer",
        [MTF_EVENT_AS_THREAD] = "as_thread",
        [MTF_EVENT_UNTRACED] = "untraced",
        [MTF_EVENT_THREAD_START] = "thread_start",
        [MTF_EVENT_THREAD_END] = "thread_end",
        [MTF_EVENT_MARK] = "mark",
        [MTF_EVENT_EXTENSION] = "extension",
        [MTF_EVENT_GAP] = "gap",
        [MTF_EVENT_PRESENT] = "present",
        [MTF_EVENT_SITE] = "site",
        [MTF_EVENT_SITE_DEF] = "site_def",
        [MTF_EVENT_WRONG] = "wrong",
        [MTF_EVENT_UNKNOWN] = "unknown",
    };
    return kind < INFO_EVENT_KINDS ? names[kind] : NULL;
}

const char *info_op_name(unsigned kind) {
    static const char *const names[INFO_OP_KINDS] = {
        [MTF_OP_ALLOC] = "alloc",
        [MTF_OP_FREE] = "free",
        [MTF_OP_REALLOC] = "realloc",
        [MTF_OP_ALIGNED] = "aligned",
        [MTF_OP_REALLOC_NEW] = "realloc_new",
        [MTF_OP_REALLOC_END] = "realloc_end",
        [MTF_OP_FREE_SIZE] = "free_size",
        [MTF_OP_SWITCH] = "switch",
        [MTF_OP_THREAD_END] = "thread_end",
        [MTF_OP_TIME] = "time",
        [MTF_OP_THREAD_START] = "thread_start",
        [MTF_OP_EXTENSION] = "extension",
        [MTF_OP_FAILED] = "failed",
        [MTF_OP_MARK] = "mark",
        [MTF_OP_SAMPLE] = "sample",
        [MTF_OP_LOSS] = "loss",
        [MTF_OP_PHASE] = "phase",
        [MTF_OP_PRESENT] = "present",
        [MTF_OP_SITE] = "site",
        [MTF_OP_SITE_DEF] = "site_def",
        [MTF_OP_OTHER] = "other",
    };
    return kind < INFO_OP_KINDS ? names[kind] : NULL;
}

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
