/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/array.h"

#include "base/check.h"
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 16u

bool tool_array_reserve(void *array, size_t *room, size_t need, size_t size) {
    TCM_ASSERT(size != 0);
    if (need <= *room)
        return true;
    size_t more = *room == 0 ? ROOM_FIRST : 2 * *room;
    if (more < need)
        more = need;
    /* The pointer's type is not known here. */
    void *p;
    memcpy(&p, array, sizeof(p));
    TCM_ASSERT((p != NULL) == (*room != 0));
    p = reallocarray(p, more, size);
    if (p == NULL)
        return false;
    memcpy(array, &p, sizeof(p));
    *room = more;
    return true;
}
