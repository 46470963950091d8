/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/bits.h"

#include "tap.h"

int main(void) {
    tap_ok(!tcm_is_pow2(0), "0 is no power of two");
    unsigned wrong = 0;
    for (unsigned i = 0; i < 64; i++) {
        uint64_t x = (uint64_t)1 << i;
        wrong += !tcm_is_pow2(x);
        wrong += tcm_log2_floor(x) != i || tcm_log2_ceil(x) != i;
        if (i >= 2) {
            wrong += tcm_is_pow2(x - 1) || tcm_is_pow2(x + 1);
            wrong += tcm_log2_floor(x - 1) != i - 1;
            wrong += tcm_log2_floor(x + 1) != i;
            wrong += tcm_log2_ceil(x - 1) != i;
            wrong += tcm_log2_ceil(x + 1) != i + 1;
        }
    }
    tap_is_u64(wrong, 0, "powers of two and their neighbours");
    tap_is_u64(tcm_log2_floor(UINT64_MAX), 63, "floor of the largest");
    tap_is_u64(tcm_log2_ceil(UINT64_MAX), 64, "ceiling of the largest");

    tap_is_u64(tcm_align_up(0, 16), 0, "0 is aligned");
    tap_is_u64(tcm_align_up(1, 16), 16, "up from 1");
    tap_is_u64(tcm_align_up(16, 16), 16, "16 stays");
    tap_is_u64(tcm_align_up(17, 16), 32, "up from 17");
    tap_is_u64(tcm_align_up(5, 1), 5, "an alignment of 1");
    tap_is_u64(tcm_align_down(31, 16), 16, "down from 31");
    tap_is_u64(tcm_align_down(UINT64_MAX, 4096), UINT64_MAX - 4095,
               "down from the largest");
    wrong = 0;
    for (uint64_t x = 0; x < 5000; x++)
        wrong += tcm_align_up(x, 64) != (x + 63) / 64 * 64 ||
                 tcm_align_down(x, 64) != x / 64 * 64;
    tap_is_u64(wrong, 0, "alignment is division");

    size_t r;
    tap_ok(!tcm_mul_overflows(1u << 16, 1u << 16, &r) && r == 1ull << 32,
           "2^16 * 2^16 fits");
    tap_ok(tcm_mul_overflows((size_t)1 << 32, (size_t)1 << 32, &r),
           "2^32 * 2^32 does not");
    tap_ok(!tcm_mul_overflows(SIZE_MAX, 1, &r) && r == SIZE_MAX, "max * 1");
    tap_ok(!tcm_mul_overflows(SIZE_MAX, 0, &r) && r == 0, "max * 0");
    tap_ok(tcm_add_overflows(SIZE_MAX, 1, &r), "max + 1 does not fit");
    tap_ok(!tcm_add_overflows(SIZE_MAX - 1, 1, &r) && r == SIZE_MAX,
           "max - 1 + 1 does");
    tap_is_u64(tcm_min_u64(3, UINT64_MAX), 3, "min");
    tap_is_u64(tcm_max_u64(3, UINT64_MAX), UINT64_MAX, "max");
    return tap_done();
}
