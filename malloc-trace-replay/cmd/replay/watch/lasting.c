/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/watch/lasting.h"

#include "base/check.h"

TCM_STATIC_ASSERT(LASTING_SLICES + 2 < LASTING_VALUES, "merging makes room");

static void merge(struct lasting *l) {
    uint64_t from = l->value[0].at;
    uint64_t slice = (l->value[l->count - 1].at - from) / LASTING_SLICES + 1;
    unsigned kept = 0;
    for (unsigned i = 1; i < l->count; i++) {
        struct lasting_value *to = &l->value[kept];
        const struct lasting_value *v = &l->value[i];
        if ((v->at - from) / slice != (to->at - from) / slice) {
            l->value[++kept] = *v;
        } else if (v->value < to->value) {
            to->value = v->value;
            to->tag = v->tag;
        }
    }
    l->count = kept + 1;
}

void lasting_add(struct lasting *l, uint64_t at, int64_t value, uint64_t tag) {
    TCM_ASSERT(l->count == 0 || at >= l->value[l->count - 1].at);
    if (l->count == LASTING_VALUES)
        merge(l);
    TCM_ASSERT(l->count < LASTING_VALUES);
    if (l->count != 0) {
        struct lasting_value *last = &l->value[l->count - 1];
        bool is_one = tag == last->tag;
        if (value < last->value) {
            last->value = value;
            last->tag = tag;
        }
        if (is_one)
            return;
    }
    l->value[l->count++] = (struct lasting_value){at, value, tag};
}

static const struct lasting_value *greatest(const struct lasting *l) {
    const struct lasting_value *best = l->count == 0 ? NULL : l->value;
    for (unsigned i = 1; i < l->count; i++)
        if (l->value[i].value > best->value)
            best = &l->value[i];
    return best;
}

const struct lasting_value *lasting_most(const struct lasting *l,
                                         uint64_t length, uint64_t end) {
    const struct lasting_value *best = NULL;
    const struct lasting_value *behind = l->value + l->count;
    /* The best stretch begins with a value: if the curve is not lower just
       before it, it can begin earlier. */
    for (const struct lasting_value *v = l->value;
         v < behind && end >= length && v->at <= end - length; v++) {
        const struct lasting_value *least = v;
        for (const struct lasting_value *w = v + 1;
             w < behind && w->at - v->at < length; w++)
            if (w->value < least->value)
                least = w;
        if (best == NULL || least->value > best->value)
            best = least;
    }
    return best != NULL ? best : greatest(l);
}

const struct lasting_value *lasting_longest(const struct lasting *l,
                                            int64_t least, uint64_t length,
                                            uint64_t end) {
    const struct lasting_value *best = NULL;
    for (unsigned i = 0; i < l->count; i++) {
        const struct lasting_value *v = &l->value[i];
        uint64_t until = i + 1 < l->count ? v[1].at : end;
        if (v->value < least || until - v->at < length)
            continue;
        best = v;
        length = until - v->at + 1;
    }
    return best;
}
