/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/fmt.h"

#include "tap.h"

int main(void) {
    char buf[64];
    char tiny[8];
    struct tcm_fmt f;

    tcm_fmt_init(&f, buf, sizeof(buf));
    tap_is_str(buf, "", "empty at first");
    tcm_fmt_str(&f, "a");
    tcm_fmt_char(&f, '-');
    tcm_fmt_mem(&f, "bcd", 2);
    tcm_fmt_u64(&f, 0);
    tcm_fmt_char(&f, ' ');
    tcm_fmt_u64(&f, UINT64_MAX);
    tcm_fmt_char(&f, ' ');
    tcm_fmt_hex(&f, 0xdeadbeef01u);
    tap_is_str(buf, "a-bc0 18446744073709551615 deadbeef01", "all kinds");
    tap_is_u64(f.len, strlen(buf), "length");
    tap_ok(!f.cut, "nothing cut");

    memset(tiny, 'x', sizeof(tiny));
    tcm_fmt_init(&f, tiny, 6);
    tcm_fmt_str(&f, "12345");
    tap_ok(!f.cut, "a text that just fits is not cut");
    tap_is_str(tiny, "12345", "and whole");
    tcm_fmt_char(&f, '6');
    tap_ok(f.cut, "one more is");
    tcm_fmt_str(&f, "789");
    tap_is_str(tiny, "12345", "what does not fit is left out");
    tap_ok(tiny[6] == 'x' && tiny[7] == 'x', "nothing behind is touched");

    tcm_fmt_init(&f, tiny, 4);
    tcm_fmt_u64(&f, 123456);
    tap_is_str(tiny, "123", "a number is cut at its end");
    tap_ok(f.cut, "and that is told");

    tcm_fmt_init(&f, tiny, 1);
    tcm_fmt_str(&f, "a");
    tap_is_str(tiny, "", "room for the terminator alone");
    tap_ok(f.cut, "is told too");
    return tap_done();
}
