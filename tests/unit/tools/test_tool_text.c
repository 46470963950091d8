/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/text.h"

#include "tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void count(uint64_t n, const char *want) {
    struct tool_text t;
    tap_is_str(tool_text_count(&t, n), want, "count %llu",
               (unsigned long long)n);
}

static void bytes(uint64_t n, const char *want) {
    struct tool_text t;
    tap_is_str(tool_text_bytes(&t, n), want, "bytes %llu",
               (unsigned long long)n);
}

static void ns(uint64_t n, const char *want) {
    struct tool_text t;
    tap_is_str(tool_text_ns(&t, n), want, "ns %llu", (unsigned long long)n);
}

static void percent(uint64_t part, uint64_t whole, const char *want) {
    struct tool_text t;
    tap_is_str(tool_text_percent(&t, part, whole), want, "percent %llu of %llu",
               (unsigned long long)part, (unsigned long long)whole);
}

static void shown(const char *text, const char *want) {
    tap_is_str(tool_text_shown(text), want, "shown as %s", want);
    tap_ok(tool_text_is_plain(text) == (tool_text_shown(text) == text),
           "and only what is not plain is copied");
    tap_ok(tool_text_is_plain(want), "what is shown is plain");
}

static void others(void) {
    static char longer[20000];
    shown("", "");
    shown("a b'\"\\$`<&", "a b'\"\\$`<&");
    shown("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80 \xc2\xa0",
          "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80 \xc2\xa0");
    shown("a\nb\tc\rd", "a\\nb\\x09c\\x0dd");
    shown("\033[31mred\x7f\a", "\\x1b[31mred\\x7f\\x07");
    shown("\xc2\x9b"
          "31m\xc2\x80\xc2\x9f",
          "\\xc2\\x9b31m\\xc2\\x80\\xc2\\x9f");
    shown("\xe2\x80\xaegpj", "\\xe2\\x80\\xaegpj");
    shown("\xe2\x81\xa6\xe2\x80\x8e\xd8\x9c",
          "\\xe2\\x81\\xa6\\xe2\\x80\\x8e\\xd8\\x9c");
    shown("\x9b"
          "31m \xff \xc3",
          "\\x9b31m \\xff \\xc3");
    shown("\xed\xa0\x80\xc0\x9b", "\\xed\\xa0\\x80\\xc0\\x9b");
    memset(longer, 'x', sizeof(longer) - 1);
    tap_ok(tool_text_shown(longer) == longer, "long text stays");
    longer[0] = '\033';
    const char *cut = tool_text_shown(longer);
    tap_ok(strlen(cut) < 4096 && strcmp(cut + strlen(cut) - 3, "...") == 0,
           "a copy of it is cut");
    const char *first = tool_text_shown("\001");
    for (int i = 2; i < 9; i++)
        (void)tool_text_shown("\002");
    tap_is_str(first, "\\x01", "a copy stays for seven more");
}

static void whole(double v, uint64_t want) {
    tap_ok(tool_text_whole(v) == want, "%g is %llu", v,
           (unsigned long long)want);
}

static void middle(const char *text, size_t columns, const char *want) {
    struct tool_text_line room;
    const char *got = tool_text_middle(&room, text, columns);
    tap_is_str(got, want, "%s in %zu columns", text, columns);
}

static void middle_before(const char *text, size_t columns, size_t end,
                          const char *want) {
    struct tool_text_line room;
    tap_is_str(tool_text_middle_before(&room, text, columns, end), want,
               "%s in %zu columns with the last %zu", text, columns, end);
}

/* Compares what tool_text_put_chain prints behind USED columns. */
static void chain(const char *text, size_t used, const char *want) {
    char *got = NULL;
    size_t size;
    FILE *f = open_memstream(&got, &size);
    if (f == NULL)
        abort();
    tool_text_put_chain(f, text, used, 4, 20);
    fclose(f);
    tap_is_str(got, want, "\"%s\" behind %zu columns", text, used);
    free(got);
}

static void lines(void) {
    middle("12345678", 8, "12345678");
    middle("123456789", 8, "12...789");
    middle("0123456789abcdef", 11, "0123...cdef");
    /* characters, not bytes */
    middle("\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc\u00e4\u00f6", 8,
           "\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc\u00e4\u00f6");
    middle("\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc\u00e4\u00f6z", 8,
           "\u00e4\u00f6...\u00e4\u00f6z");
    middle_before("0123456789abcdef", 11, 6, "01...abcdef");
    middle_before("0123456789abcdef", 11, 8, "...89abcdef");
    middle_before("0123456789abcdef", 11, 9, "0123...cdef");
    middle_before("0123456789abcdef", 11, 2, "0123...cdef");
    tap_ok(tool_text_width("\u00e4x\u20ac") == 3, "width of characters");
    chain("a < b", 4, "a < b\n");
    chain("< a < b", 4, "< a < b\n");
    chain("abcdef < ghijkl < m", 4, "abcdef < ghijkl\n    < m\n");
    chain("abcdef < ghijk < mn", 3, "abcdef < ghijk\n    < mn\n");
    chain("abcdef < ghijk < mn", 0, "abcdef < ghijk < mn\n");
    chain("a < 0123456789abcdefghij < b", 4,
          "a\n    < 01234...efghij"
          "\n    < b\n");
    chain("0123456789abcdefghij", 4, "012345...defghij\n");
    chain("", 4, "\n");
    tap_ok(tool_text_columns(-1) == 80, "80 columns without a terminal");
}

int main(void) {
    lines();
    count(0, "0");
    count(999, "999");
    count(1000, "1,000");
    count(1234567, "1,234,567");
    count(UINT64_MAX, "18,446,744,073,709,551,615");
    bytes(0, "0 B");
    bytes(1023, "1023 B");
    bytes(1024, "1.00 KiB");
    bytes(1536, "1.50 KiB");
    bytes(10234, "9.99 KiB");
    bytes(10235, "10.0 KiB");
    bytes(10240, "10.0 KiB");
    bytes(102348, "99.9 KiB");
    bytes(102349, "100 KiB");
    bytes(1048063, "1023 KiB");
    bytes(1048064, "1.00 MiB");
    bytes(1048575, "1.00 MiB");
    bytes(1048576, "1.00 MiB");
    bytes((uint64_t)5 << 30, "5.00 GiB");
    bytes(((uint64_t)1 << 60) - 1, "1.00 EiB");
    bytes(UINT64_MAX, "16.0 EiB");
    ns(0, "0 ns");
    ns(999, "999 ns");
    ns(1000, "1.00 us");
    ns(9995, "10.0 us");
    ns(12345, "12.3 us");
    ns(999499, "999 us");
    ns(999500, "1.00 ms");
    ns(999999, "1.00 ms");
    ns(4567000, "4.57 ms");
    ns(999999999, "1.00 s");
    ns(7890000000u, "7.89 s");
    ns(59999999999u, "1 min 00 s");
    ns(59949999999u, "59.9 s");
    ns(185000000000u, "3 min 05 s");
    ns(185500000000u, "3 min 06 s");
    ns(3599500000000u, "1 h 00 min");
    ns(7620000000000u, "2 h 07 min");
    ns(UINT64_MAX, "5124095 h 35 min");
    percent(0, 7, "0 %");
    percent(1, 8, "13 %");
    percent(57, 200, "29 %");
    percent(UINT64_MAX, UINT64_MAX, "100 %");
    others();
    whole(-1, 0);
    whole(0.4, 0);
    whole(1.5, 2);
    whole(1e18, 1000000000000000000u);
    whole(0x1p64, UINT64_MAX);
    whole(1e308, UINT64_MAX);
    whole((double)INFINITY, UINT64_MAX);
    whole((double)NAN, 0);
    return tap_done();
}
