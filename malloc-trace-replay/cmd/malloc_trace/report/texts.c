/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/texts.h"

#include "common/collections.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(struct texts *t, const char *text) {
    if (t->seed == 0)
        t->seed = tool_hash_seed() | 1;
    uint64_t h = t->seed;
    for (; *text != '\0'; text++)
        h = tool_hash(h ^ (uint8_t)*text, t->seed);
    return h | 1;
}

uint32_t texts_number(struct texts *t, const char *text) {
    for (uint64_t hash = hash_of(t, text);; hash += 2) {
        struct tool_map_entry *e = tool_map_get(&t->place, hash);
        if (e == NULL)
            return TEXTS_NONE;
        if (e->value != 0 && strcmp(t->text[e->value - 1], text) == 0)
            return (uint32_t)e->value - 1;
        if (e->value != 0)
            continue;
        if (t->count == TEXTS_NONE - 1 ||
            !tool_array_reserve(&t->text, &t->room, t->count + 1,
                                sizeof(*t->text)) ||
            (t->text[t->count] = strdup(text)) == NULL)
            return TEXTS_NONE;
        e->value = ++t->count;
        return (uint32_t)t->count - 1;
    }
}

void texts_fini(struct texts *t) {
    for (size_t i = 0; i < t->count; i++)
        free(t->text[i]);
    free(t->text);
    tool_map_fini(&t->place);
    *t = (struct texts){0};
}
