/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/sheet.h"

#include "common/main.h"

#include <stdlib.h>

void sheet_free(struct sheet *s) {
    free(s->verdict);
    free(s->order);
}

bool sheet_make(const struct comparison *c, struct sheet *s) {
    s->verdict = calloc(c->who.count, sizeof(*s->verdict));
    s->order = calloc(c->who.count, sizeof(*s->order));
    if (s->verdict == NULL || s->order == NULL) {
        sheet_free(s);
        tool_error("out of memory");
        return false;
    }
    for (size_t i = 0; i < c->who.count; i++)
        for (int m = 0; m < METRICS; m++)
            if (!verdict_of(c, i, (enum compare_metric)m, &s->verdict[i][m])) {
                sheet_free(s);
                return false;
            }
    s->ranked = verdict_rank(c, s->order);
    return true;
}

size_t sheet_best(const struct sheet *s, enum compare_metric m) {
    size_t best = SIZE_MAX;
    for (size_t k = 0; k < s->ranked; k++) {
        const struct verdict *v = &s->verdict[s->order[k]][m];
        if (v->measured && v->kind == VERDICT_LESS &&
            (best == SIZE_MAX || v->ratio < s->verdict[best][m].ratio))
            best = s->order[k];
    }
    return best;
}
