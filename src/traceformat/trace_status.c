/* SPDX-License-Identifier: BSD-3-Clause */
#include "traceformat/trace_status.h"

#include "base/fmt.h"

const char *mtf_status_text(enum mtf_status status) {
    switch (status) {
    case MTF_OK:
        return "ok";
    case MTF_SYSTEM:
        return "system error";
    case MTF_EMPTY:
        return "is empty";
    case MTF_NO_TRACE:
        return "is no trace";
    case MTF_IS_RAW:
        return "is a raw trace, not a processed one";
    case MTF_IS_SPOOL:
        return "is the spool of a raw trace, not a processed trace";
    case MTF_IS_PROCESSED:
        return "is a processed trace, not a raw one";
    case MTF_TOO_NEW:
        return "needs a later version of this program";
    case MTF_NO_LZ4:
        return "is compressed with LZ4, which this program was built without";
    case MTF_NO_MEMORY:
        return "out of memory";
    case MTF_CUT:
        return "ends in the middle";
    case MTF_DAMAGED:
        return "damaged";
    case MTF_GROWING:
        return "still being recorded";
    }
    return "unknown status";
}

const char *mtf_too_new_text(char text[MTF_TOO_NEW_TEXT], unsigned version,
                             unsigned known, unsigned bits) {
    struct tcm_fmt f;
    tcm_fmt_init(&f, text, MTF_TOO_NEW_TEXT);
    tcm_fmt_str(&f, "is of version ");
    tcm_fmt_u64(&f, version);
    if (bits != 0) {
        tcm_fmt_str(&f, " with must-understand bits 0x");
        tcm_fmt_hex(&f, bits);
    }
    tcm_fmt_str(&f, ", this program knows version ");
    tcm_fmt_u64(&f, known);
    return text;
}
