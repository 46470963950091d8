/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/check.h"
#include "cmd/malloc_trace/compare/compare_print.h"
#include "cmd/malloc_trace/compare/compare_program.h"
#include "cmd/malloc_trace/compare/verdict.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- JSON ----------------------------------------------------------------- */

static size_t runs_of(const struct comparison *c, size_t who) {
    size_t n = 0;
    for (size_t r = 1; r <= c->rounds; r++)
        for (size_t t = 0; t < c->traces; t++)
            n += comparison_run(c, r, t, who)->good;
    return n;
}

static void put_contestants(const struct comparison *c, struct tool_json *j) {
    tool_json_begin_array(j, "contestants");
    for (size_t i = 0; i < c->who.count; i++) {
        const struct contestant *who = &c->who.list[i];
        const char *why = who->why != NULL ? who->why : who->failure;
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "name", who->name);
        tool_json_string(j, "library", who->library);
        tool_json_string(j, "version", c->version[i]);
        tool_json_begin_array(j, "environment");
        for (size_t e = 0; e < who->envs; e++)
            tool_json_string(j, NULL, who->env[e]);
        tool_json_end_array(j);
        tool_json_bool(j, "wraps_c_library", who->wraps);
        tool_json_bool(j, "ok", why == NULL);
        if (why == NULL)
            tool_json_null(j, "why");
        else
            tool_json_string(j, "why", why);
        TCM_ASSERT(runs_of(c, i) <= c->rounds * c->traces);
        tool_json_u64(j, "runs", runs_of(c, i));
        tool_json_u64(j, "failures", who->failures);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

static void put_ratio(struct tool_json *j, const char *key, bool known,
                      double v) {
    if (known)
        tool_json_double(j, key, v);
    else
        tool_json_null(j, key);
}

static bool put_verdicts(const struct comparison *c, struct tool_json *j) {
    tool_json_begin_array(j, "verdicts");
    for (size_t i = 0; i < c->who.count; i++)
        for (int m = 0; i != c->baseline && m < METRICS; m++) {
            struct verdict v;
            if (!verdict_of(c, i, (enum compare_metric)m, &v))
                return false;
            if (!v.measured)
                continue;
            TCM_ASSERT(v.samples != 0 && (!v.has_interval || v.low <= v.high));
            tool_json_begin_object(j, NULL);
            tool_json_string(j, "contestant", c->who.list[i].name);
            tool_json_string(j, "metric", compare_metric[m].key);
            tool_json_double(j, "value", v.typical);
            tool_json_double(j, "baseline_value", v.baseline);
            put_ratio(j, "ratio", !v.of_none, v.ratio);
            put_ratio(j, "lo", v.has_interval && !v.of_none, v.low);
            put_ratio(j, "hi", v.has_interval && !v.of_none, v.high);
            tool_json_string(j, "verdict",
                             verdict_text(&v, (enum compare_metric)m));
            put_ratio(j, "smallest_difference", v.has_interval, v.smallest);
            tool_json_u64(j, "samples", v.samples);
            tool_json_end_object(j);
        }
    tool_json_end_array(j);
    return true;
}

static void put_traces(const struct comparison *c, struct tool_json *j) {
    tool_json_begin_array(j, "traces");
    for (size_t t = 0; t < c->traces; t++) {
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "name", c->trace[t].name);
        tool_json_u64(j, "ops", c->trace[t].ops);
        tool_json_u64(j, "threads", c->trace[t].threads);
        tool_json_string(j, "mode", c->trace[t].mode);
        double percent = verdict_malloc_percent(c, t);
        put_ratio(j, "malloc_percent", !isnan(percent), percent);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

static void put_words(const struct comparison *c, struct tool_json *j) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        return;
    (void)compare_print_words(c, f);
    if (fclose(f) == 0)
        tool_json_string(j, "words", text);
    free(text);
}

bool compare_json_put(const struct comparison *c, const char *key,
                      struct tool_json *j) {
    tool_json_begin_object(j, key);
    tool_json_string(j, "format", "malloc-trace comparison 1");
    tool_json_string(j, "command", c->command == NULL ? "" : c->command);
    tool_json_string(j, "baseline", c->who.list[c->baseline].name);
    tool_json_u64(j, "rounds", c->made);
    tool_json_double(j, "margin", c->margin);
    tool_json_double(j, "confidence", c->confidence);
    tool_json_bool(j, "interrupted", c->interrupted);
    put_words(c, j);
    put_contestants(c, j);
    put_traces(c, j);
    bool good =
        put_verdicts(c, j) && (!c->ran_program || compare_program_json(c, j));
    compare_machine_json(&c->machine, "machine", j);
    tool_json_begin_array(j, "disturbances");
    for (unsigned i = 0; i < c->disturbances.count; i++)
        tool_json_string(j, NULL, c->disturbances.text[i]);
    tool_json_end_array(j);
    tool_json_u64(j, "runs_of_unlike_machines", c->unlike);
    tool_json_u64(j, "runs_of_other_versions", c->other_versions);
    tool_json_end_object(j);
    return good;
}

bool compare_json(const struct comparison *c, const char *path) {
    static struct tool_json j;
    if (!tool_json_open(&j, path))
        return false;
    bool good = compare_json_put(c, NULL, &j);
    return tool_json_close(&j) && good;
}

/* --- CSV ------------------------------------------------------------------ */

/* RFC 4180: quoted, quotes doubled. */
static void put_field(FILE *f, const char *text) {
    fputc('"', f);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', f);
        fputc(*text, f);
    }
    fputc('"', f);
}

static void put_run(const struct comparison *c, FILE *f, size_t r, size_t t,
                    size_t i) {
    const struct compare_run *run = comparison_run(c, r, t, i);
    put_field(f, c->who.list[i].name);
    fputc(',', f);
    put_field(f, c->trace[t].name);
    fprintf(f, ",%zu,%s", r, run->good ? "true" : "false");
    for (int m = 0; m < METRICS; m++) {
        double v = verdict_figure(c, r, t, i, (enum compare_metric)m);
        fputc(',', f);
        if (!isnan(v))
            fprintf(f, "%.17g", v);
    }
    if (run->good)
        fprintf(f, ",%.17g\n", c->trace[t].own_ns);
    else
        fputs(",\n", f);
}

bool compare_csv(const struct comparison *c, const char *path) {
    FILE *f = tool_file_stream(path);
    if (f == NULL)
        return false;
    fputs("contestant,trace,round,ok", f);
    for (int m = 0; m < METRICS; m++)
        fprintf(f, ",%s", compare_metric[m].key);
    fputs(",replayer_ns_per_op\n", f);
    for (size_t r = 1; r <= c->rounds; r++)
        for (size_t t = 0; t < c->traces; t++)
            for (size_t i = 0; i < c->who.count; i++)
                if (comparison_run(c, r, t, i)->there)
                    put_run(c, f, r, t, i);
    return tool_file_stream_end(f, path);
}
