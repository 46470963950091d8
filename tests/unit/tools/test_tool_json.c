/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/json.h"

#include "common/main.h"
#include "tap.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char name[] = "/tmp/tcmtest.XXXXXX";
static char text[1 << 20];
static struct tool_json j;

static void begin(void) {
    if (!tool_json_open(&j, name))
        tap_bail("cannot open %s", name);
}

static const char *end(void) {
    if (!tool_json_close(&j))
        tap_bail("cannot write %s", name);
    int fd = open(name, O_RDONLY);
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n < 0 ? 0 : n] = '\0';
    return text;
}

static void test_structure(void) {
    begin();
    tool_json_begin_object(&j, NULL);
    tool_json_u64(&j, "a", UINT64_MAX);
    tool_json_u64(&j, "b", 0);
    tool_json_bool(&j, "c", true);
    tool_json_begin_array(&j, "d");
    tool_json_bool(&j, NULL, false);
    tool_json_null(&j, NULL);
    tool_json_begin_object(&j, NULL);
    tool_json_end_object(&j);
    tool_json_begin_array(&j, NULL);
    tool_json_end_array(&j);
    tool_json_end_array(&j);
    tool_json_string(&j, "e", "x");
    tool_json_end_object(&j);
    tap_is_str(end(),
               "{\n  \"a\": 18446744073709551615,\n"
               "  \"b\": 0,\n  \"c\": true,\n"
               "  \"d\": [\n    false,\n    null,\n    {},\n    []\n  ],\n"
               "  \"e\": \"x\"\n}\n",
               "a document");
    begin();
    tool_json_begin_object(&j, NULL);
    tool_json_end_object(&j);
    tap_is_str(end(), "{}\n", "an empty one replaces it");
}

static void test_drop(void) {
    struct stat st;
    char link_name[sizeof(name) + 8];
    snprintf(link_name, sizeof(link_name), "%s.l", name);
    begin();
    tool_json_drop(&j);
    tap_ok(stat(name, &st) != 0, "a document that is not made leaves no file");
    if (symlink(name, link_name) != 0 || !tool_json_open(&j, link_name))
        tap_bail("cannot open %s", link_name);
    tool_json_drop(&j);
    tap_ok(lstat(link_name, &st) == 0 && stat(name, &st) == 0 &&
               st.st_size == 0,
           "behind a link an empty one");
    unlink(link_name);
    if (!tool_json_open(&j, "/dev/null"))
        tap_bail("cannot open /dev/null");
    tool_json_drop(&j);
    tap_ok(stat("/dev/null", &st) == 0, "and devices stay");
}

static const char *quoted(const void *bytes, size_t n) {
    begin();
    tool_json_bytes(&j, NULL, bytes, n);
    return end();
}

#define QUOTED(literal) quoted(literal, sizeof(literal) - 1)

static void test_text(void) {
    tap_is_str(QUOTED("a\"b\\c/\n\t\0\x1f\x7f"),
               "\"a\\\"b\\\\c/\\u000a\\u0009\\u0000\\u001f\\u007f\"\n",
               "ASCII");
    tap_is_str(QUOTED("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
               "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"\n",
               "characters of 2, 3 and 4 bytes stay");
    tap_is_str(QUOTED("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"),
               "\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"\n",
               "those at the borders too");
    tap_is_str(QUOTED("\xff"), "\"\\ufffd\"\n", "a byte that is none");
    tap_is_str(QUOTED("\xc3"), "\"\\ufffd\"\n", "a cut one");
    tap_is_str(QUOTED("\xe2\x82"), "\"\\ufffd\\ufffd\"\n", "two bytes of it");
    tap_is_str(QUOTED("\xc0\x80"), "\"\\ufffd\\ufffd\"\n", "an overlong one");
    tap_is_str(QUOTED("\xe0\x9f\xbf"), "\"\\ufffd\\ufffd\\ufffd\"\n",
               "an overlong one of 3 bytes");
    tap_is_str(QUOTED("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"\n",
               "half a pair");
    tap_is_str(QUOTED("\xf4\x90\x80\x80"), "\"\\ufffd\\ufffd\\ufffd\\ufffd\"\n",
               "beyond the last");
    tap_is_str(QUOTED("\xc3"
                      "a"),
               "\"\\ufffda\"\n", "what follows is kept");
}

static const char *number(double v) {
    begin();
    tool_json_double(&j, NULL, v);
    return end();
}

static void test_doubles(void) {
    tap_is_str(number(0.1), "0.1\n", "no more digits than needed");
    tap_is_str(number(0), "0\n", "zero");
    tap_is_str(number(-2.5), "-2.5\n", "negative");
    tap_is_str(number(1e300), "1e+300\n", "large");
    tap_ok(strtod(number(1.0 / 3), NULL) == 1.0 / 3, "reads back exactly");
    tap_is_str(number(NAN), "null\n", "not a number");
    tap_is_str(number(-INFINITY), "null\n", "infinite");
}

/* Document longer than the buffer, which is written in pieces. */
static void test_large(void) {
    static char big[50000];
    memset(big, 'q', sizeof(big));
    const char *got = quoted(big, sizeof(big));
    tap_ok(strlen(got) == sizeof(big) + 3 && got[0] == '"' &&
               memcmp(got + 1, big, sizeof(big)) == 0,
           "a large text");
}

/* Sends messages to a file. */
static int quiet_begin(void) {
    int saved = dup(2);
    int fd = open(name, O_WRONLY | O_TRUNC);
    dup2(fd, 2);
    close(fd);
    return saved;
}

static const char *quiet_end(int saved) {
    dup2(saved, 2);
    close(saved);
    int fd = open(name, O_RDONLY);
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n < 0 ? 0 : n] = '\0';
    return text;
}

static void test_errors(void) {
    int saved = quiet_begin();
    bool opened = tool_json_open(&j, "/nonexistent/x");
    tap_is_str(quiet_end(saved),
               "prog: cannot write /nonexistent/x: No such file or directory\n",
               "a path that cannot be opened is told");
    tap_ok(!opened, "and refused");

    static char big[50000];
    memset(big, 'q', sizeof(big));
    saved = quiet_begin();
    opened = tool_json_open(&j, "/dev/full");
    tool_json_begin_array(&j, NULL);
    for (int i = 0; i < 3; i++)
        tool_json_bytes(&j, NULL, big, sizeof(big));
    tool_json_end_array(&j);
    bool closed = tool_json_close(&j);
    tap_is_str(quiet_end(saved),
               "prog: cannot write /dev/full: No space left on device\n",
               "a full disk is told once");
    tap_ok(opened && !closed, "by close");
}

static void test_stdout(void) {
    fflush(stdout);
    int saved = dup(1);
    int fd = open(name, O_WRONLY | O_TRUNC);
    dup2(fd, 1);
    close(fd);
    printf("before ");
    bool good = tool_json_open(&j, "-");
    tool_json_u64(&j, NULL, 1);
    good = good && tool_json_close(&j);
    printf("after");
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    saved = dup(2);
    tap_is_str(quiet_end(saved), "before 1\nafter",
               "stdout, between what others print");
    tap_ok(good, "without error");
}

int main(void) {
    tool_begin("prog");
    int fd = mkstemp(name);
    if (fd < 0)
        tap_bail("no temporary file");
    close(fd);
    test_structure();
    test_drop();
    test_text();
    test_doubles();
    test_large();
    test_errors();
    test_stdout();
    unlink(name);
    return tap_done();
}
