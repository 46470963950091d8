/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/json.h"

#include "common/json.h"
#include "tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char problem[TOOL_JSON_READ_PROBLEM];

static const struct tool_json_value *read_text(const char *text) {
    snprintf(problem, sizeof(problem), "none");
    return tool_json_read(text, strlen(text), problem);
}

static void test_values(void) {
    const struct tool_json_value *root = read_text(
        " {\"a\": -12.5e1, \"t\\u00e9x\\ud83d\\ude00t\": \"\\\"\\\\\\/\\b\\f\\n"
        "\\r\\t\",\n\"list\": [true , false, null, [], {}],\"\":0}\r\n\t");
    tap_ok(root != NULL, "a document: %s", problem);
    tap_is_u64(tool_json_count(root), 4, "its members");
    tap_ok(tool_json_number(tool_json_member(root, "a")) == -125, "a number");
    tap_is_str(tool_json_text(tool_json_member(root, "téx😀t")),
               "\"\\/\b\f\n\r\t", "a string with escapes");
    tap_ok(tool_json_number(tool_json_member(root, "")) == 0,
           "a member without a name");
    const struct tool_json_value *v =
        tool_json_first(tool_json_member(root, "list"));
    tap_ok(tool_json_is_true(v) && !tool_json_is_false(v), "true");
    v = tool_json_next(v);
    tap_ok(tool_json_is_false(v) && !tool_json_is_true(v), "false");
    v = tool_json_next(v);
    tap_ok(v != NULL && !tool_json_is_true(v) && !tool_json_is_false(v) &&
               isnan(tool_json_number(v)) && tool_json_text(v) == NULL,
           "null");
    v = tool_json_next(v);
    tap_ok(v != NULL && tool_json_first(v) == NULL && !tool_json_is_object(v),
           "an empty array");
    v = tool_json_next(v);
    tap_ok(tool_json_is_object(v) && tool_json_first(v) == NULL,
           "an empty object");
    tap_ok(tool_json_next(v) == NULL, "the end");
    v = tool_json_member(tool_json_member(root, "none"), "a");
    tap_ok(v == NULL && isnan(tool_json_number(v)) &&
               tool_json_text(v) == NULL && tool_json_first(v) == NULL &&
               tool_json_next(v) == NULL && tool_json_count(v) == 0,
           "a member that is missing");
    tool_json_read_free(root);
    tool_json_read_free(NULL);
}

static void test_accepted(void) {
    static const char *const text[] = {
        "0",      "-0",       "1e5",
        "1E+5",   "1.25e-7",  "18446744073709551615",
        "null",   "true",     "\"\"",
        "[]",     "{}",       " [ 1 , 2 ] ",
        "1e-999", "\"\x7f\"", "\"\xf4\x8f\xbf\xbf\"",
    };
    for (size_t i = 0; i < TCM_ARRAY_SIZE(text); i++) {
        const struct tool_json_value *root = read_text(text[i]);
        tap_ok(root != NULL, "%s is read: %s", text[i], problem);
        tool_json_read_free(root);
    }
}

static void test_refused(void) {
    static const struct {
        const char *text, *problem;
    } bad[] = {
        {"", "line 1: a value is missing"},
        {" \n\n", "line 3: a value is missing"},
        {"\xef\xbb\xbf{}", "line 1: a value is missing"},
        {"{\"a\": 1\n", "line 2: a comma or closing bracket is missing"},
        {"[1 2]", "line 1: a comma or closing bracket is missing"},
        {"[1,]", "line 1: a value is missing"},
        {"[1}", "line 1: a comma or closing bracket is missing"},
        {"{,}", "line 1: a string is missing"},
        {"{1: 2}", "line 1: a string is missing"},
        {"{\"a\" 2}", "line 1: a colon is missing"},
        {"{} {}", "line 1: something follows the document"},
        {"1 x", "line 1: something follows the document"},
        {"01", "line 1: something follows the document"},
        {"0x1", "line 1: something follows the document"},
        {"+1", "line 1: a value is missing"},
        {".5", "line 1: a value is missing"},
        {"1.", "line 1: a value is missing"},
        {"-", "line 1: a value is missing"},
        {"1e", "line 1: a value is missing"},
        {"1e+", "line 1: a value is missing"},
        {"NaN", "line 1: a value is missing"},
        {"Infinity", "line 1: a value is missing"},
        {"nul", "line 1: a value is missing"},
        {"truely", "line 1: something follows the document"},
        {"'a'", "line 1: a value is missing"},
        {"// x\n1", "line 1: a value is missing"},
        {"[1e999]", "line 1: a number is too large"},
        {"\"a", "line 1: the text ends in a string"},
        {"\"a\\", "line 1: a string has an unknown escape"},
        {"\"\\x\"", "line 1: a string has an unknown escape"},
        {"\"\\u12\"", "line 1: a string has an escape of no character"},
        {"\"\\u12g4\"", "line 1: a string has an escape of no character"},
        {"\"\\u0000\"", "line 1: a string has an escape of no character"},
        {"\"\\ud800\"", "line 1: a string has an escape of no character"},
        {"\"\\ud800\\u0041\"",
         "line 1: a string has an escape of no character"},
        {"\"\\udc00\"", "line 1: a string has an escape of no character"},
        {"\"\n\"", "line 1: a string has a control character"},
        {"\"\x80\"", "line 1: a string is no UTF-8"},
        {"\"\xed\xa0\x80\"", "line 1: a string is no UTF-8"},
        {"\"\xc3", "line 1: a string is no UTF-8"},
        {"{\"a\": 1, \"b\": 2,\n\"a\": 3}",
         "line 2: an object has two members of one name"},
        {"{\"a\": 1, \"\\u0061\": 2}",
         "line 1: an object has two members of one name"},
    };
    for (size_t i = 0; i < TCM_ARRAY_SIZE(bad); i++) {
        const struct tool_json_value *root = read_text(bad[i].text);
        tap_ok(root == NULL, "case %zu is refused", i);
        tap_is_str(problem, bad[i].problem, "and why");
        tool_json_read_free(root);
    }
    tap_ok(tool_json_read("1\0", 2, problem) == NULL, "a NUL behind a value");
    tap_ok(tool_json_read("[\0]", 3, problem) == NULL, "a NUL for a value");
    tap_ok(tool_json_read("\"a\0\"", 4, problem) == NULL, "a NUL in a string");
    tap_is_str(problem, "line 1: a string has a control character", "and why");
    const struct tool_json_value *root =
        read_text("[{\"a\": 1}, {\"a\": 2}, {\"b\": {\"b\": 3}}]");
    tap_ok(root != NULL, "objects may have members of other objects' names");
    tool_json_read_free(root);
}

static void test_limits(void) {
    char deep[2 * TOOL_JSON_READ_DEPTH + 3];
    size_t n = TOOL_JSON_READ_DEPTH;
    memset(deep, '[', n);
    memset(deep + n, ']', n);
    const struct tool_json_value *root = tool_json_read(deep, 2 * n, problem);
    tap_ok(root != NULL, "%zu arrays inside each other", n);
    tool_json_read_free(root);
    memset(deep, '[', n + 1);
    memset(deep + n + 1, ']', n + 1);
    tap_ok(tool_json_read(deep, 2 * n + 2, problem) == NULL, "one more");
    tap_is_str(problem, "line 1: values are nested too deeply", "and why");
    char *huge = malloc(TOOL_JSON_READ_BYTES + 1);
    if (huge == NULL)
        tap_bail("out of memory");
    memset(huge, ' ', TOOL_JSON_READ_BYTES + 1);
    huge[0] = '7';
    root = tool_json_read(huge, TOOL_JSON_READ_BYTES, problem);
    tap_ok(tool_json_number(root) == 7, "the longest document");
    tool_json_read_free(root);
    tap_ok(tool_json_read(huge, TOOL_JSON_READ_BYTES + 1, problem) == NULL,
           "a longer one");
    /* takes hours if the table of members is searched linearly */
    n = (size_t)sprintf(huge, "{\"k0\": 0");
    for (unsigned i = 1; i < 300000; i++)
        n += (size_t)sprintf(huge + n, ",\"k%u\":%u", i, i);
    huge[n++] = '}';
    root = tool_json_read(huge, n, problem);
    tap_ok(tool_json_number(tool_json_member(root, "k299999")) == 299999,
           "an object of many members");
    tool_json_read_free(root);
    free(huge);
}

static void test_files(void) {
    static struct tool_json j;
    char name[] = "/tmp/tcmtest.XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0 || !tool_json_open(&j, name))
        tap_bail("cannot open %s", name);
    close(fd);
    tool_json_begin_array(&j, NULL);
    tool_json_string(&j, NULL, "a \xff b");
    tool_json_u64(&j, NULL, 1u << 30);
    tool_json_end_array(&j);
    if (!tool_json_close(&j))
        tap_bail("cannot write %s", name);
    const struct tool_json_value *root = tool_json_read_file(name);
    tap_is_str(tool_json_text(tool_json_first(root)), "a \xef\xbf\xbd b",
               "a file that the writer wrote");
    tool_json_read_free(root);
    (void)unlink(name);
    tap_ok(tool_json_read_file(name) == NULL, "a file that is gone");
    tap_ok(tool_json_read_file("/") == NULL, "a folder");
}

int main(void) {
    test_values();
    test_accepted();
    test_refused();
    test_limits();
    test_files();
    return tap_done();
}
