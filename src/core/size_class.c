/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lists of classes. Sizes are 8, then multiples of 16 up to 128, then eight
 * classes per doubling. A span is the shortest that leaves at most 1/32 of it
 * unused and has 16 objects or 32 KiB: when nine of ten objects die at random,
 * a span of 16 objects becomes empty one time in five, one of 64 one time in a
 * thousand.
 *
 * tests/unit/core/test_size_class.c has the rules as code: it compares the
 * lists with them, and prints the lists with --rows. The tables are constant so
 * that a process starts without computing them.
 */
#include "core/size_class.h"
#include "base/bits.h"
#include "base/check.h"

#define BATCH_BYTES  32768
#define BATCH_MIN    2
#define CACHED_BYTES 524288
#define CACHED_MIN   4
#define CACHED_MAX   1023 /* with the guard entry a power of two */

/* X(number, size of the class before, size, pages of a span): the classes up to
   TCM_TABLE_SMALL, and those above. */
/* clang-format off */
#define CLASSES_SMALL(X)                                                       \
    X(1, 0, 8, 1) X(2, 8, 16, 1) X(3, 16, 32, 1) X(4, 32, 48, 1)               \
    X(5, 48, 64, 1) X(6, 64, 80, 1) X(7, 80, 96, 1) X(8, 96, 112, 1)           \
    X(9, 112, 128, 1) X(10, 128, 144, 1) X(11, 144, 160, 1) X(12, 160, 176, 1) \
    X(13, 176, 192, 1) X(14, 192, 208, 1) X(15, 208, 224, 1)                   \
    X(16, 224, 240, 1) X(17, 240, 256, 1) X(18, 256, 288, 1)                   \
    X(19, 288, 320, 1) X(20, 320, 352, 1) X(21, 352, 384, 1)                   \
    X(22, 384, 416, 2) X(23, 416, 448, 1) X(24, 448, 480, 1)                   \
    X(25, 480, 512, 1) X(26, 512, 576, 2) X(27, 576, 640, 2)                   \
    X(28, 640, 704, 2) X(29, 704, 768, 2) X(30, 768, 832, 3)                   \
    X(31, 832, 896, 2) X(32, 896, 960, 2) X(33, 960, 1024, 2)
#define CLASSES_MEDIUM(X)                                                      \
    X(34, 1024, 1152, 3) X(35, 1152, 1280, 3) X(36, 1280, 1408, 3)             \
    X(37, 1408, 1536, 3) X(38, 1536, 1664, 5) X(39, 1664, 1792, 4)             \
    X(40, 1792, 1920, 4) X(41, 1920, 2048, 4) X(42, 2048, 2304, 4)             \
    X(43, 2304, 2560, 5) X(44, 2560, 2816, 6) X(45, 2816, 3072, 5)             \
    X(46, 3072, 3328, 5) X(47, 3328, 3584, 4) X(48, 3584, 3840, 8)             \
    X(49, 3840, 4096, 4) X(50, 4096, 4608, 4) X(51, 4608, 5120, 5)             \
    X(52, 5120, 5632, 7) X(53, 5632, 6144, 6) X(54, 6144, 6656, 5)             \
    X(55, 6656, 7168, 7) X(56, 7168, 7680, 15) X(57, 7680, 8192, 4)            \
    X(58, 8192, 9216, 8) X(59, 9216, 10240, 5) X(60, 10240, 11264, 7)          \
    X(61, 11264, 12288, 6) X(62, 12288, 13312, 5) X(63, 13312, 14336, 7)       \
    X(64, 14336, 15360, 15) X(65, 15360, 16384, 4) X(66, 16384, 18432, 9)      \
    X(67, 18432, 20480, 5) X(68, 20480, 22528, 11) X(69, 22528, 24576, 6)      \
    X(70, 24576, 26624, 10) X(71, 26624, 28672, 7) X(72, 28672, 30720, 15)     \
    X(73, 30720, 32768, 4) X(74, 32768, 36864, 9) X(75, 36864, 40960, 5)       \
    X(76, 40960, 45056, 11) X(77, 45056, 49152, 6) X(78, 49152, 53248, 13)     \
    X(79, 53248, 57344, 7) X(80, 57344, 61440, 15) X(81, 61440, 65536, 8)      \
    X(82, 65536, 73728, 9) X(83, 73728, 81920, 10) X(84, 81920, 90112, 11)     \
    X(85, 90112, 98304, 12) X(86, 98304, 106496, 13) X(87, 106496, 114688, 14) \
    X(88, 114688, 122880, 15) X(89, 122880, 131072, 16)                        \
    X(90, 131072, 147456, 18) X(91, 147456, 163840, 20)                        \
    X(92, 163840, 180224, 22) X(93, 180224, 196608, 24)                        \
    X(94, 196608, 212992, 26) X(95, 212992, 229376, 28)                        \
    X(96, 229376, 245760, 30) X(97, 245760, 262144, 32)
/* clang-format on */
#define CLASSES(X) CLASSES_SMALL(X) CLASSES_MEDIUM(X)

#define ONE(n, before, size, pages) +1
TCM_STATIC_ASSERT(1 CLASSES(ONE) == tcm_class_count,
                  "the list has all classes");

#define CLAMP(v, low, high)  ((v) < (low) ? (low) : (v) > (high) ? (high) : (v))
#define RECIPROCAL(bits, n)  ((((uint64_t)1 << (bits)) + (n)-1) / (n))
#define OBJECTS(size, pages) ((uint16_t)((pages)*TCM_PAGE_SIZE / (size)))

#define INFO(n, before, bytes, in_span)                                        \
    [n] = {.size = (bytes),                                                    \
           .slot_reciprocal = RECIPROCAL(42, bytes),                           \
           .bucket_scale = ((uint64_t)4 << 32) / OBJECTS(bytes, in_span) + 1,  \
           .pages = (in_span),                                                 \
           .objects = OBJECTS(bytes, in_span),                                 \
           .batch = (uint16_t)CLAMP(BATCH_BYTES / (bytes), BATCH_MIN,          \
                                    TCM_MAX_BATCH),                            \
           .max_cached = (uint16_t)CLAMP(CACHED_BYTES / (bytes), CACHED_MIN,   \
                                         CACHED_MAX)},
const struct tcm_class_info tcm_class[TCM_MAX_CLASSES] = {CLASSES(INFO)};

#define PAGE_RECIPROCAL(n, before, size, pages) [n] = RECIPROCAL(32, size),
const uint32_t tcm_class_reciprocal[TCM_MAX_CLASSES] = {
    CLASSES(PAGE_RECIPROCAL)};

#define BY_8(n, before, size, pages) [(before) / 8 + 1 ...(size) / 8] = (n),
const uint8_t tcm_class_small[TCM_TABLE_SMALL / 8 + 1] = {[0] = 1,
                                                          CLASSES_SMALL(BY_8)};

#define BY_128(n, before, size, pages)                                         \
    [(before) / 128 + 1 ...(size) / 128] = (n),
const uint8_t tcm_class_medium[TCM_MAX_SMALL / 128 + 1] = {
    CLASSES_MEDIUM(BY_128)};

unsigned tcm_size_class_aligned(size_t size, size_t align) {
    TCM_ASSERT(tcm_is_pow2(align));
    if (align > TCM_PAGE_SIZE || size > TCM_MAX_SMALL)
        return 0;
    /* A class whose size is a multiple of ALIGN holds the rounded size too;
       usually the first class that is large enough is one. */
    size = size == 0 ? align : tcm_align_up(size, align);
    for (unsigned size_class = tcm_size_class(size);
         size_class != 0 && size_class < tcm_class_count; size_class++) {
        if ((tcm_class[size_class].size & (align - 1)) == 0)
            return size_class;
    }
    return 0;
}
