/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/page_map.h"
#include "core/span.h"
#include "tap.h"

static struct tcm_span one, two;

int main(void) {
    uintptr_t border = (uintptr_t)7 << TCM_ROOT_SHIFT;
    uintptr_t below = border - TCM_PAGE_SIZE;
    tap_ok(tcm_page_span((void *)border) == NULL, "no span without a leaf");
    tap_is_u64(tcm_page_entry((void *)border), 0, "no entry without a leaf");
    tap_ok(tcm_page_map_cover((void *)below, 2 * TCM_PAGE_SIZE),
           "covers two leaves");
    struct tcm_page_leaf *leaf = tcm_page_root[7];
    tap_ok(leaf != NULL && tcm_page_root[6] != NULL &&
               tcm_page_root[5] == NULL && tcm_page_root[8] == NULL,
           "exactly those that are needed");
    tap_ok(tcm_page_map_cover((void *)border, 1) && tcm_page_root[7] == leaf,
           "a leaf stays");
    tap_ok(tcm_page_span((void *)border) == NULL, "a new leaf is empty");

    tcm_page_map_set_span(below, &one);
    tcm_page_map_set_span(border, &two);
    tcm_page_map_set_entry(border, (uint64_t)5 << TCM_ENTRY_SHIFT | 64);
    tap_ok(tcm_page_span((void *)(border - 1)) == &one, "last byte below");
    tap_ok(tcm_page_span((void *)border) == &two, "first byte above");
    tap_ok(tcm_page_span((void *)(border + TCM_PAGE_SIZE)) == NULL,
           "next page is empty");
    tap_is_u64(tcm_page_entry((void *)(border + TCM_PAGE_SIZE - 1)),
               (uint64_t)5 << TCM_ENTRY_SHIFT | 64, "entry of the last byte");
    tap_is_u64(tcm_page_entry((void *)below), 0, "entry is that page's alone");

    tap_ok(tcm_page_span((void *)UINTPTR_MAX) == NULL &&
               tcm_page_entry((void *)UINTPTR_MAX) == 0,
           "the last address is foreign");
    tap_ok(tcm_page_span((void *)((uintptr_t)1 << TCM_ADDRESS_BITS)) == NULL,
           "so is the first beyond the map");
    tap_ok(tcm_page_span(NULL) == NULL && tcm_page_entry(NULL) == 0,
           "and NULL");
    tap_ok(!tcm_page_map_cover((void *)((uintptr_t)1 << TCM_ADDRESS_BITS), 1),
           "what is beyond cannot be covered");
    return tap_done();
}
