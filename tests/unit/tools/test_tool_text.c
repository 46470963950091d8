/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/text.h"

#include "tap.h"

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

int main(void) {
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
    return tap_done();
}
