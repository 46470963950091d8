/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/budget.h"

#include "cmd/malloc_trace/compare/verdict.h"
#include "common/main.h"
#include "common/text.h"

#include <stdlib.h>
#include <string.h>

bool budget_parse(struct budget *b, const char *text) {
    for (;;) {
        size_t n = strcspn(text, "<,");
        enum compare_metric m = compare_metric_find(text, n);
        char *end = NULL;
        double limit = 0;
        if (strncmp(text + n, "<=", 2) == 0)
            limit = strtod(text + n + 2, &end);
        if (m == METRICS || end == NULL || end == text + n + 2 ||
            (*end != ',' && *end != '\0') || !(limit > 0) || limit > 1e6) {
            (void)tool_usage_error(
                "--budget '%s': METRIC<=RATIO,... with time, "
                "wall, p999, peak_rss, avg_rss, frag, "
                "faults or huge",
                text);
            return false;
        }
        b->limit[m] = limit;
        if (*end == '\0')
            return true;
        text = end + 1;
    }
}

int budget_judge(const struct budget *b, const struct comparison *c,
                 bool strict, FILE *out) {
    bool missed = false, lacks = false;
    for (size_t i = 0; i < c->who.count; i++)
        for (int m = 0; m < METRICS; m++) {
            struct verdict v;
            const char *name = compare_metric[m].name;
            if (b->limit[m] == 0 || i == c->baseline)
                continue;
            if (!verdict_of(c, i, (enum compare_metric)m, &v))
                return TOOL_FAILED;
            if (!v.measured || !v.has_interval) {
                fprintf(out, "budget %s<=%g: %s has no figure to judge\n", name,
                        b->limit[m], contestant_shown(&c->who.list[i]));
                lacks = true;
                continue;
            }
            bool good = v.high <= b->limit[m], bad = v.low > b->limit[m];
            fprintf(out, "budget %s<=%g: %s by %s, %.3f (%.3f to %.3f)\n", name,
                    b->limit[m],
                    good  ? "kept"
                    : bad ? "missed"
                          : "not decided",
                    contestant_shown(&c->who.list[i]), v.ratio, v.low, v.high);
            missed = missed || bad || (strict && !good);
        }
    return missed ? TOOL_BUDGET : lacks ? TOOL_DAMAGED : TOOL_OK;
}
