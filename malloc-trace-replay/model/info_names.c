/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of what info counts, in texts and as keys.
 */
#include "model/info.h"

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
