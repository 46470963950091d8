/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vocabulary: each number has one name and one range, and the numbers in
 * files of version 1 keep their meaning.
 */
#include "traceformat/trace_event.h"

#include "tap.h"

static const struct {
    unsigned number;
    const char *text;
} calls[] =
    {
#define X(name, number, text) {MTF_CALL_##name, text},
        MTF_CALLS(X)
#undef X
},
  accounts[] =
      {
#define X(name, number, text) {MTF_ACCOUNT_##name, text},
          MTF_ACCOUNTS(X)
#undef X
},
  extensions[] = {
#define X(name, number, text) {MTF_EXTENSION_##name, text},
      MTF_EXTENSIONS(X)
#undef X
};

static void test_calls(void) {
    bool named = true, apart = true, one_range = true;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(calls); i++) {
        unsigned c = calls[i].number;
        named &= strcmp(mtf_call_name(c), calls[i].text) == 0 &&
                 c != MTF_CALL_NONE && c < MTF_CALL_LIMIT;
        one_range &= mtf_call_is_plain_alloc(c) + mtf_call_is_realloc(c) +
                         mtf_call_is_aligned_alloc(c) + mtf_call_is_free(c) ==
                     1;
        for (size_t k = 0; k < i; k++)
            apart &= calls[k].number != c &&
                     strcmp(calls[k].text, calls[i].text) != 0;
    }
    tap_ok(named, "every call has its name");
    tap_ok(apart, "no number and no name is used twice");
    tap_ok(one_range, "each is in one range");
    unsigned names = 0;
    bool in_range = true;
    for (unsigned c = 0; c < 300; c++) {
        bool known = strcmp(mtf_call_name(c), "?") != 0;
        names += known;
        /* An unused number may be in a range, to be used there later. */
        in_range &= !known || c < MTF_CALL_LIMIT;
        in_range &= c < MTF_CALL_LIMIT ||
                    !(mtf_call_is_plain_alloc(c) || mtf_call_is_realloc(c) ||
                      mtf_call_is_aligned_alloc(c) || mtf_call_is_free(c));
    }
    tap_is_u64(names, TCM_ARRAY_SIZE(calls), "other numbers have none");
    tap_ok(in_range, "no range goes beyond the limit");
    tap_ok(mtf_call_name(UINT32_MAX)[0] == '?' &&
               !mtf_call_is_free(UINT32_MAX) && !mtf_call_is_free(0) &&
               !mtf_call_is_plain_alloc(0),
           "neither do absurd numbers, nor none");
}

static void test_ranges(void) {
    tap_ok(mtf_call_is_plain_alloc(MTF_CALL_MALLOC) &&
               mtf_call_is_plain_alloc(MTF_CALL_CALLOC) &&
               mtf_call_is_plain_alloc(MTF_CALL_NEW_ARRAY_NOTHROW) &&
               mtf_call_is_realloc(MTF_CALL_REALLOC) &&
               mtf_call_is_realloc(MTF_CALL_REALLOCARRAY) &&
               mtf_call_is_aligned_alloc(MTF_CALL_MEMALIGN) &&
               mtf_call_is_aligned_alloc(MTF_CALL_VALLOC) &&
               mtf_call_is_aligned_alloc(MTF_CALL_NEW_ARRAY_ALIGNED_NOTHROW) &&
               mtf_call_is_free(MTF_CALL_FREE) &&
               mtf_call_is_free(MTF_CALL_DELETE_SIZED_ALIGNED) &&
               mtf_call_is_free(MTF_CALL_FREE_ALIGNED_SIZED),
           "calls are in the range of their kind");
}

/* Numbers that are in files. */
static void test_numbers(void) {
    tap_ok(MTF_CALL_MALLOC == 1 && MTF_CALL_CALLOC == 2 &&
               MTF_CALL_REALLOC == 3 && MTF_CALL_REALLOCARRAY == 4 &&
               MTF_CALL_NEW == 5 && MTF_CALL_MEMALIGN == 16 &&
               MTF_CALL_POSIX_MEMALIGN == 18 && MTF_CALL_FREE == 32 &&
               MTF_CALL_DELETE == 34 && MTF_CALL_FREE_ALIGNED_SIZED == 47 &&
               MTF_CALL_LIMIT == 64,
           "calls");
    tap_ok(MTF_RAW_EXTENDED == 0 && MTF_RAW_ALLOC == 1 && MTF_RAW_FREE == 2 &&
               MTF_RAW_REALLOC == 3 && MTF_RAW_BUFFER == 16 &&
               MTF_RAW_ALIGNED == 19 && MTF_RAW_MARK == 24 && MTF_RAW_GAP == 26,
           "events");
    tap_ok(MTF_PROC_ALIGNED == 16 && MTF_PROC_THREAD_END == 22 &&
               MTF_PROC_MARK == 23 && MTF_PROC_NOTE == 31 &&
               MTF_PROC_PRESENT == MTF_NOTE(1),
           "records");
    tap_ok(MTF_ACCOUNT_RSS_ANON_BYTES == 16 && MTF_ACCOUNT_EVENTS == 32 &&
               MTF_ACCOUNT_DROPPED_EVENTS == 39 &&
               MTF_ACCOUNT_END_REASON == 50 && MTF_END_EXIT == 1 &&
               MTF_END_FORCED == 4,
           "accounts");
}

static void test_accounts(void) {
    bool named = true, apart = true;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(accounts); i++) {
        unsigned f = accounts[i].number;
        const char *name = mtf_account_name(f);
        named &= name != NULL && strcmp(name, accounts[i].text) == 0 &&
                 f != 0 && f < MTF_ACCOUNT_LIMIT;
        for (size_t k = 0; k < i; k++)
            apart &= accounts[k].number != f &&
                     strcmp(accounts[k].text, accounts[i].text) != 0;
    }
    unsigned names = 0;
    for (unsigned f = 0; f < 0x10000; f++)
        names += mtf_account_name(f) != NULL;
    tap_ok(named, "every account has its name");
    tap_ok(apart, "no number and no name is used twice");
    tap_is_u64(names, TCM_ARRAY_SIZE(accounts), "other numbers have none");
}

/* Numbers that are one byte in both formats. */
static void test_extensions(void) {
    bool good = true;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(extensions); i++) {
        good &= extensions[i].number != 0 && extensions[i].number < 256 &&
                extensions[i].text[0] != '\0';
        for (size_t k = 0; k < i; k++)
            good &= extensions[k].number != extensions[i].number &&
                    strcmp(extensions[k].text, extensions[i].text) != 0;
    }
    tap_ok(good, "extensions have numbers and names of their own");
}

/* A record has at most one row of MTF_EVENTS, and a kind of both formats has
   the same row for both of its numbers. */
static void test_kinds(void) {
    bool apart = true, in_range = true, named = true, found = true;
    const struct mtf_kind *a, *b;
    for (size_t i = 0; (a = mtf_kind_at(i)) != NULL; i++) {
        bool plain = a->form != MTF_FORM_OWN;
        in_range &= a->raw < 32 && (a->raw != 0 || a->proc != 0);
        in_range &=
            a->proc < 32 || (a->proc > MTF_NOTE(0) && a->proc <= MTF_NOTE(255));
        /* plain ones have bytes */
        in_range &= !plain || ((a->raw == 0 || a->raw >= MTF_RAW_BUFFER) &&
                               (a->proc == 0 || a->proc >= 16));
        named &=
            (a->raw == 0) == (a->event == 0) && (a->proc == 0) == (a->op == 0);
        named &= a->event == 0 || mtf_event_name(a->event) == a->name ||
                 strcmp(mtf_event_name(a->event), a->name) == 0;
        named &= a->op == 0 || strcmp(mtf_op_name(a->op), a->name) == 0;
        found &= mtf_plain_of_raw(a->raw) == (plain && a->raw ? a : NULL);
        found &= mtf_plain_of_event(a->event) == (plain && a->event ? a : NULL);
        found &= mtf_plain_of_proc(a->proc) == (plain && a->proc ? a : NULL);
        found &= mtf_plain_of_op(a->op) == (plain && a->op ? a : NULL);
        found &=
            a->op == 0 || mtf_op_is_text(a->op) == (a->form == MTF_FORM_TEXT);
        for (size_t k = 0; k < i; k++) {
            b = mtf_kind_at(k);
            apart &= a->raw == 0 || a->raw != b->raw;
            apart &= a->proc == 0 || a->proc != b->proc;
            apart &= strcmp(a->name, b->name) != 0;
        }
#define X(name, number) apart &= a->raw != (number);
        MTF_RAW_CODING(X)
#undef X
#define X(name, number) apart &= a->proc != (number);
        MTF_PROC_CODING(X)
#undef X
    }
    tap_ok(apart, "kinds of events: no number and no name is used twice");
    tap_ok(in_range, "all numbers are of their ranges");
    tap_ok(named, "each kind has its name in both of its forms");
    tap_ok(found, "plain kinds, and no others, are found by each number");
    for (unsigned k = 1; k <= MTF_EVENT_UNKNOWN; k++)
        named &= mtf_event_name(k) != NULL;
    for (unsigned k = 1; k <= MTF_OP_OTHER; k++)
        named &= mtf_op_name(k) != NULL;
    tap_ok(named && mtf_event_name(0) == NULL && mtf_op_name(0) == NULL &&
               mtf_event_name(MTF_EVENT_UNKNOWN + 1) == NULL &&
               mtf_op_name(MTF_OP_OTHER + 1) == NULL,
           "every decoded kind has a name, other numbers have none");
    tap_ok(!mtf_op_is_text(0) && !mtf_op_is_text(MTF_OP_OTHER) &&
               !mtf_op_is_text(UINT32_MAX) && mtf_plain_of_raw(1000) == NULL,
           "what is no kind is no plain one");
    tap_ok(MTF_OP_LAST_OPERATION == 7 && MTF_OP_FAILED == 8 &&
               MTF_EVENT_FAILED == 8 && MTF_EVENT_UNKNOWN < 31,
           "calls come first, and all kinds fit the sorter's five bits");
}

int main(void) {
    test_kinds();
    test_calls();
    test_ranges();
    test_numbers();
    test_accounts();
    test_extensions();
    return tap_done();
}
