/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rules of size classes, which the lists in size_class.c must follow.
 * --rows prints the lists that follow from the rules.
 */
#include "core/size_class.h"
#include "tap.h"

#include <string.h>

/* Size of the class after the class of SIZE. */
static size_t next_size(size_t size) {
    size_t doubling = 128;
    if (size < 128)
        return size < 16 ? 16 : size + 16;
    while (2 * doubling <= size)
        doubling *= 2;
    return size + doubling / 8;
}

static size_t pages_of(size_t size) {
    for (size_t pages = 1;; pages++) {
        size_t bytes = pages * TCM_PAGE_SIZE, objects = bytes / size;
        if (objects != 0 && (objects >= 16 || bytes >= 32 << 10) &&
            bytes - objects * size <= bytes / 32)
            return pages;
    }
}

/* Prints the rows of one list, formatted as by clang-format. */
static void print_rows(const char *name, unsigned *number, size_t *before,
                       size_t last) {
    char line[128];
    size_t length = (size_t)snprintf(line, sizeof(line), "#define %s(X)", name);
    while (*before < last) {
        char row[64];
        size_t size = *before == 0 ? 8 : next_size(*before);
        size_t n = (size_t)snprintf(row, sizeof(row), "X(%u, %zu, %zu, %zu)",
                                    *number, *before, size, pages_of(size));
        if (*number == 1 || line[0] == '#' || length + 1 + n > 78) {
            printf("%-79s\\\n", line);
            length = (size_t)snprintf(line, sizeof(line), "    %s", row);
        } else {
            length += (size_t)snprintf(line + length, sizeof(line) - length,
                                       " %s", row);
        }
        *before = size;
        ++*number;
    }
    puts(line);
}

static void test_rules(void) {
    bool sizes = true, pages = true;
    unsigned c = 1;
    for (size_t size = 8; size <= TCM_MAX_SMALL; size = next_size(size)) {
        sizes &= c < tcm_class_count && tcm_class[c].size == size;
        pages &= tcm_class[c].pages == pages_of(size);
        c++;
    }
    tap_ok(sizes, "sizes follow the rule");
    tap_ok(pages, "spans are the shortest that waste little");
    tap_is_u64(tcm_class_count, c, "there are no more classes");
}

static void test_every_size(void) {
    bool fits = true, smallest = true, waste = true, aligned = true;
    for (size_t size = 0; size <= TCM_MAX_SMALL; size++) {
        unsigned size_class = tcm_size_class(size);
        size_t got = tcm_class[size_class].size;
        fits &= size_class != 0 && size_class < tcm_class_count && got >= size;
        smallest &= size_class == 1 || tcm_class[size_class - 1].size < size;
        waste &= size <= 128 || got - size <= size / 8;
        aligned &= size <= 8 || got % 16 == 0;
    }
    tap_ok(fits, "every size has a class that holds it");
    tap_ok(smallest, "it is the smallest that does");
    tap_ok(waste, "above 128 bytes at most an eighth is lost");
    tap_ok(aligned, "above 8 bytes objects are aligned to 16");
    tap_is_u64(tcm_size_class(TCM_MAX_SMALL + 1), 0, "larger is no class");
    tap_is_u64(tcm_size_class(SIZE_MAX), 0, "SIZE_MAX is no class");
}

static void test_spans(void) {
    bool sorted = true, full = true, waste = true, batch = true;
    bool shortest = true;
    for (unsigned c = 1; c < tcm_class_count; c++) {
        const struct tcm_class_info *i = &tcm_class[c];
        size_t bytes = i->pages << TCM_PAGE_SHIFT;
        sorted &= i->size > tcm_class[c - 1].size && i->size % 8 == 0;
        full &= i->objects == bytes / i->size && i->objects >= 1 &&
                i->objects <= TCM_MAX_OBJECTS &&
                (i->objects >= 16 || bytes >= 32 << 10);
        waste &= bytes - i->objects * (size_t)i->size <= bytes / 32;
        shortest &=
            i->objects <= 1024 && (bytes <= 128 << 10 || i->objects == 1);
        batch &= i->batch >= 1 && i->batch <= TCM_MAX_BATCH &&
                 i->max_cached >= i->batch;
    }
    tap_ok(sorted, "classes rise in size");
    tap_ok(full, "spans hold many objects, 1,024 at most");
    tap_ok(waste, "at most a thirty-second part of a span is unused");
    tap_ok(shortest, "and none is longer than 128 KiB but for one object");
    tap_ok(batch, "batches fit the bins");
}

static void test_division(void) {
    bool in_page = true, in_span = true, quarters = true;
    for (unsigned c = 1; c < tcm_class_count; c++) {
        const struct tcm_class_info *i = &tcm_class[c];
        for (uint64_t n = 0; n < TCM_PAGE_SIZE; n++)
            in_page &= n * tcm_class_reciprocal[c] >> 32 == n / i->size;
        uint64_t bytes = (uint64_t)i->pages << TCM_PAGE_SHIFT;
        for (uint64_t n = 0; n < bytes; n++)
            in_span &= tcm_class_slot(i, n) == n / i->size;
        for (uint64_t n = 0; n < i->objects; n++)
            quarters &= (n * i->bucket_scale) >> 32 == n * 4 / i->objects;
    }
    tap_ok(in_page, "reciprocal divides every offset in a page");
    tap_ok(in_span, "slot divides every offset in a span");
    tap_ok(quarters, "the scale finds the quarter of every count of objects");
}

static void test_aligned(void) {
    bool good = true;
    for (size_t align = 8; align <= 2 * TCM_PAGE_SIZE; align *= 2) {
        for (size_t size = 1; size <= TCM_MAX_SMALL; size += 61) {
            unsigned want = 0;
            for (unsigned c = 1; c < tcm_class_count && want == 0; c++) {
                if (tcm_class[c].size >= size &&
                    tcm_class[c].size % align == 0 && align <= TCM_PAGE_SIZE)
                    want = c;
            }
            good &= tcm_size_class_aligned(size, align) == want;
        }
    }
    tap_ok(good, "aligned class is the smallest whose size is a multiple");
    tap_is_u64(tcm_size_class_aligned(TCM_MAX_SMALL + 1, 16), 0,
               "too large for an aligned class");
    tap_is_u64(tcm_size_class_aligned(SIZE_MAX, 4096), 0, "SIZE_MAX too");
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--rows") == 0) {
        unsigned number = 1;
        size_t before = 0;
        print_rows("CLASSES_SMALL", &number, &before, TCM_TABLE_SMALL);
        print_rows("CLASSES_MEDIUM", &number, &before, TCM_MAX_SMALL);
        printf("/* tcm_class_count = %u */\n", number);
        return 0;
    }
    test_rules();
    test_every_size();
    test_spans();
    test_division();
    test_aligned();
    return tap_done();
}
