/* SPDX-License-Identifier: BSD-3-Clause */
#include "traceformat/trace_event.h"

static const struct mtf_kind kinds[] = {
#define BOTH(name, text, raw, proc, form)                                      \
    {text, raw, proc, MTF_EVENT_##name, MTF_OP_##name, MTF_FORM_##form},
#define RAW(name, text, raw, form)                                             \
    {text, raw, 0, MTF_EVENT_##name, 0, MTF_FORM_##form},
#define PROC(name, text, proc, form)                                           \
    {text, 0, proc, 0, MTF_OP_##name, MTF_FORM_##form},
    MTF_EVENTS(BOTH, RAW, PROC)
#undef BOTH
#undef RAW
#undef PROC
};

const struct mtf_kind *mtf_kind_at(size_t i) {
    return i < TCM_ARRAY_SIZE(kinds) ? &kinds[i] : NULL;
}

/* Plain events are rare: a linear search suffices. */
#define PLAIN_OF(field)                                                        \
    const struct mtf_kind *mtf_plain_of_##field(unsigned field) {              \
        for (size_t i = 0; field != 0 && i < TCM_ARRAY_SIZE(kinds); i++)       \
            if (kinds[i].field == field)                                       \
                return kinds[i].form == MTF_FORM_OWN ? NULL : &kinds[i];       \
        return NULL;                                                           \
    }
PLAIN_OF(raw)
PLAIN_OF(proc)
PLAIN_OF(event)
PLAIN_OF(op)

#define NAME(name, text, ...) [NAMED(name)] = (text),
#define NONE(...)

const char *mtf_event_name(unsigned event) {
    static const char *const names[MTF_EVENT_UNKNOWN + 1] = {
        [MTF_EVENT_ALLOC] = "alloc",     [MTF_EVENT_FREE] = "free",
        [MTF_EVENT_REALLOC] = "realloc", [MTF_EVENT_STATE] = "state",
        [MTF_EVENT_UNKNOWN] = "unknown",
#define NAMED(name) MTF_EVENT_##name
        MTF_EVENTS(NAME, NAME, NONE)
#undef NAMED
    };
    return event < TCM_ARRAY_SIZE(names) ? names[event] : NULL;
}

const char *mtf_op_name(unsigned op) {
    static const char *const names[MTF_OP_OTHER + 1] = {
        [MTF_OP_ALLOC] = "alloc",
        [MTF_OP_FREE] = "free",
        [MTF_OP_REALLOC] = "realloc",
        [MTF_OP_OTHER] = "other",
#define NAMED(name) MTF_OP_##name
        MTF_EVENTS(NAME, NONE, NAME)
#undef NAMED
    };
    return op < TCM_ARRAY_SIZE(names) ? names[op] : NULL;
}

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
