/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Formats of other programs that are JSON: speedscope's, and DHAT's.
 */
#include "cmd/malloc_trace/report/export.h"

#include "common/json.h"

#include <math.h>

/* --- speedscope ----------------------------------------------------------- */

static const struct measure {
    const char *name, *unit;
    enum rows_sort sort;
} measures[] = {
    {"allocated", "bytes", ROWS_SORT_BYTES},
    {"live", "bytes", ROWS_SORT_LIVE},
    {"at the peak", "bytes", ROWS_SORT_PEAK},
    {"temporary blocks", "none", ROWS_SORT_TEMPORARY},
    {"calls", "none", ROWS_SORT_CALLS},
};

static double weight_of(const struct stacks *s, uint32_t node,
                        const struct measure *m) {
    uint32_t sum = s->node[node].sum;
    return sum == 0 ? 0 : rows_value(&s->sum[sum - 1], m->sort);
}

static void put_profile(struct tool_json *j, const struct stacks *s,
                        const struct measure *m) {
    static uint32_t path[STACKS_DEPTH];
    double all = 0;
    tool_json_begin_object(j, NULL);
    tool_json_string(j, "type", "sampled");
    tool_json_string(j, "name", m->name);
    tool_json_string(j, "unit", m->unit);
    tool_json_begin_array(j, "samples");
    for (uint32_t i = 1; i < s->count; i++) {
        if (weight_of(s, i, m) < 1)
            continue;
        tool_json_begin_array(j, NULL);
        tool_json_dense(j, true);
        for (size_t k = stacks_path(s, i, path); k-- > 0;)
            tool_json_u64(j, NULL, path[k]);
        tool_json_end_array(j);
        tool_json_dense(j, false);
    }
    tool_json_end_array(j);
    tool_json_begin_array(j, "weights");
    tool_json_dense(j, true);
    for (uint32_t i = 1; i < s->count; i++) {
        double weight = weight_of(s, i, m);
        if (weight >= 1)
            tool_json_u64(j, NULL, (uint64_t)weight);
        all += weight;
    }
    tool_json_end_array(j);
    tool_json_dense(j, false);
    tool_json_u64(j, "startValue", 0);
    tool_json_u64(j, "endValue", (uint64_t)all);
    tool_json_end_object(j);
}

/* The profile that a reader sees first. */
static unsigned first_profile(enum rows_sort sort) {
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(measures); i++)
        if (measures[i].sort == sort)
            return i;
    return 0;
}

bool export_speedscope(const struct stacks *s, const char *name,
                       enum rows_sort sort, const char *file) {
    static struct tool_json j;
    if (!tool_json_open(&j, file))
        return false;
    tool_json_begin_object(&j, NULL);
    tool_json_string(&j, "$schema",
                     "https://www.speedscope.app/file-format-schema.json");
    tool_json_string(&j, "name", name);
    tool_json_string(&j, "exporter", "malloc-trace report");
    tool_json_u64(&j, "activeProfileIndex", first_profile(sort));
    tool_json_begin_object(&j, "shared");
    tool_json_begin_array(&j, "frames");
    for (size_t i = 0; i < s->labels.count; i++) {
        tool_json_begin_object(&j, NULL);
        tool_json_string(&j, "name", s->labels.text[i]);
        if (s->file[i] != TEXTS_NONE)
            tool_json_string(&j, "file", s->files.text[s->file[i]]);
        tool_json_end_object(&j);
    }
    tool_json_end_array(&j);
    tool_json_end_object(&j);
    tool_json_begin_array(&j, "profiles");
    for (size_t i = 0; i < TCM_ARRAY_SIZE(measures); i++)
        put_profile(&j, s, &measures[i]);
    tool_json_end_array(&j);
    tool_json_end_object(&j);
    return tool_json_close(&j);
}

/* --- DHAT ----------------------------------------------------------------- */

/* Blocks that end within this count as short-lived in dh_view: what the times
   of a trace can tell. */
#define SHORT_LIFE_US 1000u

static uint64_t us(uint64_t ns) {
    return (ns + 500) / 1000;
}

static uint64_t us_since(const struct tallies *t, uint64_t ns) {
    return ns > t->start_ns ? us(ns - t->start_ns) : 0;
}

static void put_point(struct tool_json *j, const struct stacks *s,
                      uint32_t node) {
    static uint32_t path[STACKS_DEPTH];
    const struct tally *a = &s->sum[s->node[node].sum - 1];
    size_t depth = stacks_path(s, node, path);
    tool_json_begin_object(j, NULL);
    tool_json_dense(j, true);
    tool_json_u64(j, "tb", a->bytes);
    tool_json_u64(j, "tbk", a->calls);
    tool_json_u64(j, "tl", us(a->life_ns + a->stay_ns));
    tool_json_u64(j, "mb", a->most_bytes);
    tool_json_u64(j, "mbk", a->most);
    tool_json_u64(j, "gb", a->at_peak_bytes);
    tool_json_u64(j, "gbk", a->at_peak);
    tool_json_u64(j, "eb", a->live_bytes);
    tool_json_u64(j, "ebk", a->live);
    tool_json_begin_array(j, "fs");
    for (size_t k = 0; k < depth; k++)
        tool_json_u64(j, NULL, (uint64_t)path[k] + 1);
    tool_json_end_array(j);
    tool_json_end_object(j);
    tool_json_dense(j, false);
}

bool export_dhat(const struct stacks *s, const struct tallies *t,
                 const char *name, const char *file) {
    static struct tool_json j;
    if (!tool_json_open(&j, file))
        return false;
    tool_json_begin_object(&j, NULL);
    tool_json_u64(&j, "dhatFileVersion", 2);
    tool_json_string(&j, "mode", "malloc-trace");
    tool_json_string(&j, "verb", "Allocated");
    tool_json_bool(&j, "bklt", true);
    tool_json_bool(&j, "bkacc", false);
    tool_json_string(&j, "tu", "us");
    tool_json_string(&j, "Mtu", "s");
    tool_json_u64(&j, "tuth", SHORT_LIFE_US);
    tool_json_string(&j, "cmd", t->have_header ? t->header.executable : name);
    tool_json_u64(&j, "pid", t->have_header ? t->header.fixed.pid : 0);
    tool_json_u64(&j, "te", us_since(t, t->end_ns));
    tool_json_u64(&j, "tg", us_since(t, t->peak_ns));
    tool_json_begin_array(&j, "pps");
    for (uint32_t i = 1; i < s->count; i++)
        if (s->node[i].sum != 0 && s->sum[s->node[i].sum - 1].calls != 0)
            put_point(&j, s, i);
    tool_json_end_array(&j);
    tool_json_begin_array(&j, "ftbl");
    tool_json_string(&j, NULL, "[root]");
    for (size_t i = 0; i < s->labels.count; i++)
        tool_json_string(&j, NULL, s->labels.text[i]);
    tool_json_end_array(&j);
    tool_json_end_object(&j);
    return tool_json_close(&j);
}
