/* SPDX-License-Identifier: BSD-3-Clause */
#include "traceformat/trace_event.h"

const char *mtf_call_name(unsigned call) {
    switch (call) {
#define X(name, number, text)                                                  \
    case number:                                                               \
        return text;
        MTF_CALLS(X)
#undef X
    default:
        return "?";
    }
}

const char *mtf_account_name(unsigned field) {
    switch (field) {
#define X(name, number, text)                                                  \
    case number:                                                               \
        return text;
        MTF_ACCOUNTS(X)
#undef X
    default:
        return NULL;
    }
}

const char *mtf_wrong_name(unsigned wrong) {
    switch (wrong) {
#define X(name, number, text)                                                  \
    case number:                                                               \
        return text;
        MTF_WRONGS(X)
#undef X
    default:
        return "?";
    }
}
