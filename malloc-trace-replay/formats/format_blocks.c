/* SPDX-License-Identifier: BSD-3-Clause */
#include "formats/format_blocks.h"

#include <stdlib.h>

#define PLACES_FIRST 64u

bool format_blocks_grow(struct format_blocks *t) {
    struct format_blocks old = *t;
    size_t places = old.place == NULL ? PLACES_FIRST : 2 * (old.mask + 1);
    t->place = calloc(places, sizeof(*t->place));
    if (t->place == NULL) {
        t->place = old.place;
        return false;
    }
    t->mask = places - 1;
    if (old.place == NULL)
        t->seed = tool_hash_seed();
    for (size_t i = 0; old.place != NULL && i <= old.mask; i++) {
        uint64_t id = old.place[i].id;
        if (id != 0)
            *format_blocks_place(t, id, format_blocks_hash(t, id)) =
                old.place[i];
    }
    free(old.place);
    return true;
}

void format_blocks_fini(struct format_blocks *t) {
    free(t->place);
    *t = (struct format_blocks){0};
}
