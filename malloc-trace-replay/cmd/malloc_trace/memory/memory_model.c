/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/memory/memory_model.h"

#include "base/bits.h"
#include "base/check.h"
#include "cmd/malloc_trace/compare/compare_run.h"
#include "cmd/malloc_trace/report/report_export.h"
#include "cmd/malloc_trace/report/report_stacks.h"
#include "common/collections.h"
#include "common/main.h"
#include "common/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const memory_by_name[MEMORY_BYS + 1] = {
    [MEMORY_BY_SITE] = "site",
    [MEMORY_BY_SIZE] = "size",
    [MEMORY_BY_AGE] = "age",
    [MEMORY_BY_THREAD] = "thread",
};

/* Rows by site that get a stack. */
#define STACK_ROWS    200u
#define STACK_COLUMNS 400u

/* --- The document --------------------------------------------------------- */

static bool has_failed(struct memory_run *r, const char *fmt, ...)
    TCM_PRINTF(2, 3);
static bool has_failed(struct memory_run *r, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->problem, sizeof(r->problem), fmt, ap);
    va_end(ap);
    r->failure = r->problem;
    return false;
}

/* Reads a document of replay --memory. NULL: PROBLEM says why. */
static const struct tool_json_value *
read_document(const char *text, size_t n,
              char problem[TOOL_JSON_READ_PROBLEM]) {
    const struct tool_json_value *root = tool_json_read(text, n, problem);
    if (root != NULL &&
        strcmp(compare_json_text(root, "format"), "replay-memory") != 0) {
        snprintf(problem, TOOL_JSON_READ_PROBLEM, "it is of another format");
        tool_json_read_free(root);
        root = NULL;
    }
    return root;
}

static uint64_t whole(const struct tool_json_value *v) {
    double d = tool_json_number(v);
    return d >= 0 && d < 1.8e19 ? (uint64_t)d : 0;
}

/* Reads up to N numbers of the array V; the others are 0. */
static void read_numbers(const struct tool_json_value *v, uint64_t *out,
                         size_t n) {
    const struct tool_json_value *at = tool_json_first(v);
    for (size_t i = 0; i < n; i++) {
        out[i] = at == NULL ? 0 : whole(at);
        at = at == NULL ? NULL : tool_json_next(at);
    }
}

/* --- Moments to ask for --------------------------------------------------- */

static void add_stop(struct memory_stops *s, uint64_t operation, unsigned role,
                     const char *label) {
    size_t i = s->count;
    if (operation == 0)
        return;
    for (size_t k = 0; k < s->count; k++)
        if (s->operation[k] == operation) {
            s->roles[k] |= role;
            s->label[k] = label != NULL ? label : s->label[k];
            return;
        }
    for (; i > 0 && s->operation[i - 1] > operation; i--) {
        s->operation[i] = s->operation[i - 1];
        s->roles[i] = s->roles[i - 1];
        s->label[i] = s->label[i - 1];
    }
    s->operation[i] = operation;
    s->roles[i] = role;
    s->label[i] = label;
    s->count++;
}

bool memory_model_stops(const struct memory_trace *t, const char *text,
                        size_t n, struct memory_stops *stops) {
    char problem[TOOL_JSON_READ_PROBLEM];
    const struct tool_json_value *root = read_document(text, n, problem);
    if (root == NULL)
        return false;
    memset(stops, 0, sizeof(*stops));
    add_stop(stops,
             compare_json_whole(tool_json_member(root, "peak"), "operation"),
             MEMORY_PEAK, NULL);
    add_stop(stops,
             compare_json_whole(tool_json_member(root, "waste"), "operation"),
             MEMORY_WASTE, NULL);
    for (size_t i = 0; i < t->wishes; i++)
        add_stop(stops, t->wish[i].operation,
                 t->wish[i].is_mark ? MEMORY_MARK : MEMORY_ASKED,
                 t->wish[i].label);
    tool_json_read_free(root);
    return true;
}

/* --- Joint rows ----------------------------------------------------------- */

/* Blocks of one site, size, age and thread. */
struct joint {
    uint64_t site, size, age_ns, thread, blocks, requested_bytes, usable_bytes,
        held_bytes, held_huge_bytes, pinning_blocks;
};
#define JOINT_FIGURES (sizeof(struct joint) / sizeof(uint64_t))

struct joints {
    struct joint *at;
    size_t count;
};

static bool read_joints(const struct tool_json_value *moment,
                        struct joints *j) {
    const struct tool_json_value *rows = tool_json_member(moment, "rows");
    const struct tool_json_value *v = tool_json_first(rows);
    j->count = 0;
    j->at = calloc(tool_json_count(rows) + 1, sizeof(*j->at));
    for (; v != NULL && j->at != NULL; v = tool_json_next(v)) {
        uint64_t figure[JOINT_FIGURES];
        read_numbers(v, figure, JOINT_FIGURES);
        memcpy(&j->at[j->count++], figure, sizeof(figure));
    }
    return j->at != NULL;
}

static uint64_t key_of(const struct joint *j, enum memory_by by) {
    return by == MEMORY_BY_SITE   ? j->site
           : by == MEMORY_BY_SIZE ? j->size
           : by == MEMORY_BY_AGE  ? j->age_ns
                                  : j->thread;
}

static void add_joint(struct memory_row *row, const struct joint *j) {
    row->blocks += j->blocks;
    row->requested_bytes += j->requested_bytes;
    row->usable_bytes += j->usable_bytes;
    row->held_bytes += (double)j->held_bytes;
    row->held_huge_bytes += (double)j->held_huge_bytes;
    row->pinning_blocks += j->pinning_blocks;
}

/* --- Labels --------------------------------------------------------------- */

/* A bound of ages in its largest unit: "10 ms", "100 s". */
static const char *age_text(char text[32], uint64_t ns) {
    if (ns >= 1000000000)
        snprintf(text, 32, "%" PRIu64 " s", ns / 1000000000);
    else
        snprintf(text, 32, "%" PRIu64 " ms", ns / 1000000);
    return text;
}

static char *label_of(const struct memory_names *n, enum memory_by by,
                      uint64_t key) {
    char text[160], least[32], most[32];
    struct tool_text t;
    if (key == MEMORY_KEY_MIXED)
        snprintf(text, sizeof(text), "(several)");
    else if (by == MEMORY_BY_SIZE && key < 16384)
        snprintf(text, sizeof(text), "%" PRIu64 " B", key);
    else if (by == MEMORY_BY_SIZE)
        snprintf(text, sizeof(text), "%s%s", key > 65536 ? "up to " : "",
                 tool_text_bytes(&t, key));
    else if (by == MEMORY_BY_AGE && key == 0)
        snprintf(text, sizeof(text), "below 1 ms");
    else if (by == MEMORY_BY_AGE)
        snprintf(text, sizeof(text), "%s to %s", age_text(least, key),
                 age_text(most, key * 10));
    else {
        const char *name = memory_trace_thread(n->trace, (uint32_t)key);
        snprintf(text, sizeof(text), "%" PRIu64 "%s%s", key,
                 name[0] != '\0' ? " " : "", name);
    }
    return strdup(text);
}

static int compare_rows(const void *a, const void *b) {
    const struct memory_row *x = a, *y = b;
    if (x->held_bytes != y->held_bytes)
        return x->held_bytes < y->held_bytes ? 1 : -1;
    if (x->requested_bytes != y->requested_bytes)
        return x->requested_bytes < y->requested_bytes ? 1 : -1;
    return (x->key > y->key) - (x->key < y->key);
}

/* Groups J by size, age or thread; KEEP, by site, leaves out sites whose value
   is 0; NULL: none. False: out of memory. */
static bool group_by_key(const struct joints *j, enum memory_by by,
                         const struct tool_map *keep,
                         const struct memory_names *n, struct memory_rows *to) {
    struct tool_map place = {0};
    size_t room = 0;
    bool good = true;
    for (size_t i = 0; i < j->count && good; i++) {
        const struct joint *one = &j->at[i];
        if (keep != NULL && tool_map_find(keep, one->site + 1) == NULL)
            continue;
        uint64_t key = key_of(one, by);
        struct tool_map_entry *e = tool_map_get(&place, key + 1);
        good = e != NULL && tool_array_reserve(&to->row, &room, to->count + 1,
                                               sizeof(*to->row));
        if (!good)
            break;
        if (e->value == 0) {
            to->row[to->count++] =
                (struct memory_row){.key = key, .label = label_of(n, by, key)};
            e->value = to->count;
        }
        add_joint(&to->row[e->value - 1], one);
    }
    tool_map_fini(&place);
    if (good && to->count != 0)
        qsort(to->row, to->count, sizeof(*to->row), compare_rows);
    return good;
}

/* --- Sites ---------------------------------------------------------------- */

/* Figures by site as tallies of a report, which names and adds up their sites.
   `live_bytes` are the bytes held, by which it sorts. */
static bool tally_sites(const struct joints *j, const struct memory_names *n,
                        struct report_tallies *t) {
    struct tool_map place = {0};
    bool good = true;
    t->sites = n->trace->sites;
    t->traces = 1;
    for (size_t i = 0; i < j->count && good; i++) {
        const struct joint *one = &j->at[i];
        struct tool_map_entry *e = tool_map_get(&place, one->site + 1);
        good = e != NULL && tool_array_reserve(&t->tally, &t->room,
                                               t->count + 1, sizeof(*t->tally));
        if (!good)
            break;
        if (e->value == 0) {
            t->tally[t->count++] = (struct report_tally){.key = one->site};
            e->value = t->count;
        }
        struct report_tally *a = &t->tally[e->value - 1];
        a->live_bytes += one->held_bytes;
        a->live += one->pinning_blocks;
        a->calls += one->blocks;
        a->bytes += one->requested_bytes;
        a->at_peak_bytes += one->usable_bytes;
        a->ended += one->held_huge_bytes;
    }
    tool_map_fini(&place);
    return good;
}

static bool rows_of_report(const struct report_rows *rows,
                           const struct report_callers *callers,
                           struct memory_rows *to) {
    to->row = calloc(rows->count + 1, sizeof(*to->row));
    if (to->row == NULL)
        return false;
    for (size_t i = 0; i < rows->count; i++) {
        const struct report_tally *a = &rows->row[i].sum;
        to->row[to->count++] = (struct memory_row){
            .label = strdup(rows->row[i].location),
            .stack = i < STACK_ROWS
                         ? report_callers_text(callers, i, 0, 0, STACK_COLUMNS)
                         : NULL,
            .key = i,
            .blocks = a->calls,
            .requested_bytes = a->bytes,
            .usable_bytes = a->at_peak_bytes,
            .held_bytes = (double)a->live_bytes,
            .held_huge_bytes = (double)a->ended,
            .pinning_blocks = a->live};
    }
    return true;
}

/* Puts the sites whose row has TEXT in its label into KEEP, each plus 1. */
static bool keep_sites(const struct report_rows *rows,
                       const struct report_tallies *t, const char *text,
                       struct tool_map *keep) {
    for (size_t i = 0; i < t->count; i++) {
        if (rows->of_tally[i] == 0 ||
            strstr(rows->texts.text[rows->of_tally[i] - 1], text) == NULL)
            continue;
        if (tool_map_get(keep, t->tally[i].key + 1) == NULL)
            return false;
    }
    return true;
}

static bool group_held_by(const struct joints *j, const struct memory_names *n,
                          const struct tool_map *keep,
                          struct memory_moment *m) {
    for (enum memory_by by = MEMORY_BY_SIZE; by < MEMORY_BYS; by++)
        if (!group_by_key(j, by, keep, n, &m->held_by[by]))
            return false;
    const struct memory_rows *all = &m->by[MEMORY_BY_SITE];
    struct memory_rows *to = &m->held_by[MEMORY_BY_SITE];
    to->row = calloc(all->count + 1, sizeof(*to->row));
    for (size_t i = 0; i < all->count && to->row != NULL; i++)
        if (strstr(all->row[i].label, n->held_by) != NULL) {
            struct memory_row *row = &to->row[to->count++];
            *row = all->row[i];
            row->label = strdup(row->label);
            row->stack = row->stack == NULL ? NULL : strdup(row->stack);
        }
    return to->row != NULL;
}

static bool group_by_site(const struct joints *j, const struct memory_names *n,
                          struct memory_moment *m) {
    struct report_tallies t = {0};
    struct report_rows rows = {0};
    struct report_callers callers = {0};
    struct tool_map keep = {0};
    const struct report_filter filter = {.skip = n->skip};
    bool good =
        tally_sites(j, n, &t) &&
        report_rows_add(&rows, &t, n->names, REPORT_BY_SITE, &filter, false);
    if (good && n->held_by != NULL)
        good = keep_sites(&rows, &t, n->held_by, &keep);
    if (good) {
        size_t top = tcm_min_u64(rows.count, STACK_ROWS);
        report_rows_sort(&rows, REPORT_SORT_LIVE);
        good = report_callers_make(&callers, &rows, &t, n->names, n->skip,
                                   REPORT_SORT_LIVE, top, 1) &&
               rows_of_report(&rows, &callers, &m->by[MEMORY_BY_SITE]);
    }
    good = good && (n->held_by == NULL || group_held_by(j, n, &keep, m));
    report_callers_fini(&callers);
    report_rows_fini(&rows);
    tool_map_fini(&keep);
    free(t.tally);
    return good;
}

/* --- Moments -------------------------------------------------------------- */

#define FIGURE(name)                                                           \
    { #name, offsetof(struct memory_moment, name) }
const struct memory_figure memory_moment_figure[] = {
    FIGURE(operation),
    FIGURE(recorded_ns),
    FIGURE(rss_bytes),
    FIGURE(resident_bytes),
    FIGURE(other_bytes),
    FIGURE(requested_bytes),
    FIGURE(rounding_bytes),
    FIGURE(free_bytes),
    FIGURE(empty_bytes),
    FIGURE(never_bytes),
    FIGURE(absent_bytes),
    FIGURE(live_pages),
    FIGURE(partly_pages),
    FIGURE(empty_pages),
    FIGURE(never_pages),
    FIGURE(live_blocks),
    FIGURE(live_bytes),
    FIGURE(pinning_blocks),
    FIGURE(huge_bytes),
    FIGURE(huge_requested_bytes),
    {NULL, 0}};
#undef FIGURE

static bool read_cells(const struct tool_json_value *v,
                       struct memory_moment *m) {
    const struct tool_json_value *map = tool_json_member(v, "map");
    const struct tool_json_value *at = tool_json_first(map);
    m->cell = calloc(tool_json_count(map) + 1, sizeof(*m->cell));
    for (; at != NULL && m->cell != NULL; at = tool_json_next(at)) {
        const struct tool_json_value *last = tool_json_first(at), *next;
        uint64_t f[7];
        read_numbers(at, f, TCM_ARRAY_SIZE(f));
        while (last != NULL && (next = tool_json_next(last)) != NULL)
            last = next;
        const char *pages = tool_json_text(last);
        m->cell[m->cells++] =
            (struct memory_cell){.cell = f[0],
                                 .is_huge = f[1] != 0,
                                 .live = (uint32_t)f[2],
                                 .partly = (uint32_t)f[3],
                                 .empty = (uint32_t)f[4],
                                 .never = (uint32_t)f[5],
                                 .free_bytes = f[6],
                                 .pages = pages == NULL ? "" : pages};
    }
    return m->cell != NULL;
}

static void read_figures(const struct tool_json_value *v,
                         struct memory_moment *m) {
    for (const struct memory_figure *f = memory_moment_figure; f->key != NULL;
         f++) {
        uint64_t figure = compare_json_whole(v, f->key);
        memcpy((char *)m + f->at, &figure, sizeof(figure));
    }
    m->unexplained_bytes = compare_json_number(v, "unexplained_bytes");
    m->is_known = tool_json_is_true(tool_json_member(v, "is_known"));
    m->huge_known = tool_json_is_true(tool_json_member(v, "huge_known"));
    const struct tool_json_value *at =
        tool_json_first(tool_json_member(v, "empty_for"));
    for (; at != NULL && m->empty_fors < MEMORY_AGE_CLASSES;
         at = tool_json_next(at)) {
        uint64_t f[2];
        read_numbers(at, f, 2);
        m->empty_for[m->empty_fors].lower_ns = f[0];
        m->empty_for[m->empty_fors++].bytes = f[1];
    }
}

/* Names moment M, which is behind the operations that *STOP and those after it
   wish for. LAST: the end. */
static bool name_moment(const struct memory_stops *s, size_t *stop, bool last,
                        struct memory_moment *m) {
    static const struct {
        unsigned role;
        const char *name, *label;
    } role[] = {{MEMORY_PEAK, "peak", "peak"},
                {MEMORY_WASTE, "waste", "most waste"},
                {MEMORY_ASKED, "at", NULL},
                {MEMORY_MARK, "mark", NULL},
                {MEMORY_END, "end", "end"}};
    const char *asked = NULL;
    char text[300];
    size_t n = 0;
    for (; *stop < s->count && s->operation[*stop] <= m->operation; ++*stop) {
        m->roles |= s->roles[*stop];
        asked = s->label[*stop] != NULL ? s->label[*stop] : asked;
    }
    if (last)
        m->roles |= MEMORY_END;
    m->name = "end";
    for (size_t i = TCM_ARRAY_SIZE(role); i-- != 0;)
        if ((m->roles & role[i].role) != 0)
            m->name = role[i].name;
    text[0] = '\0';
    for (size_t i = 0; i < TCM_ARRAY_SIZE(role); i++) {
        const char *label = role[i].label;
        if ((m->roles & role[i].role) == 0)
            continue;
        if (label == NULL) {
            label = asked;
            asked = NULL;
        }
        if (label != NULL && n < sizeof(text))
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s",
                                  n == 0 ? "" : ", ", label);
    }
    m->label = strdup(text);
    return m->label != NULL;
}

static bool read_moment(const struct memory_names *names,
                        const struct tool_json_value *v,
                        struct memory_moment *m) {
    struct joints j;
    read_figures(v, m);
    bool good =
        read_joints(v, &j) && read_cells(v, m) && group_by_site(&j, names, m);
    for (enum memory_by by = MEMORY_BY_SIZE; by < MEMORY_BYS && good; by++)
        good = group_by_key(&j, by, NULL, names, &m->by[by]);
    free(j.at);
    return good;
}

static bool read_moments(struct memory_run *r, const struct memory_names *names,
                         const struct memory_stops *stops) {
    const struct tool_json_value *all =
        tool_json_member(r->document, "moments");
    const struct tool_json_value *v = tool_json_first(all);
    size_t stop = 0;
    r->moment = calloc(tool_json_count(all) + 1, sizeof(*r->moment));
    for (; v != NULL && r->moment != NULL; v = tool_json_next(v)) {
        struct memory_moment *m = &r->moment[r->moments++];
        if (!read_moment(names, v, m) ||
            !name_moment(stops, &stop, tool_json_next(v) == NULL, m))
            return false;
    }
    return r->moment != NULL;
}

/* --- The curve ------------------------------------------------------------ */

const struct memory_figure memory_point_figure[] = {
#define X(name) {#name, offsetof(struct memory_point, name)},
    MEMORY_CURVE(X)
#undef X
        {NULL, 0}};

static bool read_curve(struct memory_run *r) {
    const struct tool_json_value *curve =
        tool_json_member(r->document, "curve");
    r->points = tool_json_count(tool_json_member(curve, "operation"));
    r->point = calloc(r->points + 1, sizeof(*r->point));
    for (const struct memory_figure *f = memory_point_figure;
         f->key != NULL && r->point != NULL; f++) {
        const struct tool_json_value *v =
            tool_json_first(tool_json_member(curve, f->key));
        for (size_t k = 0; k < r->points && v != NULL;
             k++, v = tool_json_next(v)) {
            uint64_t figure = whole(v);
            memcpy((char *)&r->point[k] + f->at, &figure, sizeof(figure));
        }
    }
    return r->point != NULL;
}

/* --- A run ---------------------------------------------------------------- */

static void read_head(struct memory_run *r) {
    const struct tool_json_value *d = r->document;
    const struct tool_json_value *v =
        tool_json_first(tool_json_member(d, "missing"));
    r->allocator = compare_json_text(d, "allocator");
    r->threads = compare_json_text(d, "threads");
    r->clock = compare_json_text(d, "clock");
    r->residency = compare_json_text(d, "residency");
    r->untouched = compare_json_text(d, "untouched");
    r->has_sites = tool_json_is_true(tool_json_member(d, "has_sites"));
    r->page_bytes = compare_json_whole(d, "page_bytes");
    r->scan_ns = compare_json_whole(d, "scan_ns");
    r->scans = compare_json_whole(d, "scans");
    r->replay_ns = compare_json_whole(d, "replay_ns");
    for (; v != NULL && r->missings < TCM_ARRAY_SIZE(r->missing);
         v = tool_json_next(v))
        if (tool_json_text(v) != NULL)
            r->missing[r->missings++] = tool_json_text(v);
}

bool memory_model_read(struct memory_run *r, const struct memory_names *names,
                       const struct memory_stops *stops, const char *text,
                       size_t n) {
    char problem[TOOL_JSON_READ_PROBLEM];
    r->document = read_document(text, n, problem);
    if (r->document == NULL)
        return has_failed(r, "what replay wrote cannot be read: %s", problem);
    read_head(r);
    if (!read_curve(r) || !read_moments(r, names, stops))
        return has_failed(r, "out of memory");
    if (r->moments == 0)
        return has_failed(
            r, "%s", r->missings != 0 ? r->missing[0] : "no moment was seen");
    return true;
}

const struct memory_moment *memory_run_moment(const struct memory_run *r,
                                              unsigned role) {
    for (size_t i = 0; i < r->moments; i++)
        if ((r->moment[i].roles & role) != 0)
            return &r->moment[i];
    return NULL;
}

bool memory_model_folded(const struct memory_run *r,
                         const struct memory_moment *m,
                         const struct memory_names *names, const char *file) {
    struct report_tallies t = {0};
    struct report_stacks stacks = {0};
    struct joints j = {0};
    size_t number = (size_t)(m - r->moment);
    const struct tool_json_value *v =
        tool_json_first(tool_json_member(r->document, "moments"));
    TCM_ASSERT(number < r->moments);
    for (; number != 0; number--)
        v = tool_json_next(v);
    bool made =
        read_joints(v, &j) && tally_sites(&j, names, &t) &&
        report_stacks_make(&stacks, &t, names->names, REPORT_STACKS_FUNCTION);
    if (!made)
        tool_out_of_memory();
    bool good = made && report_export_folded(&stacks, REPORT_SORT_LIVE, file);
    report_stacks_fini(&stacks);
    free(t.tally);
    free(j.at);
    return good;
}

static void rows_free(struct memory_rows *rows) {
    for (size_t i = 0; i < rows->count; i++) {
        free(rows->row[i].label);
        free(rows->row[i].stack);
    }
    free(rows->row);
}

void memory_run_free(struct memory_run *r) {
    for (size_t i = 0; i < r->moments; i++) {
        struct memory_moment *m = &r->moment[i];
        for (unsigned by = 0; by < MEMORY_BYS; by++) {
            rows_free(&m->by[by]);
            rows_free(&m->held_by[by]);
        }
        free(m->label);
        free(m->cell);
    }
    free(r->moment);
    free(r->point);
    free(r->sentence);
    tool_json_read_free(r->document);
    memset(r, 0, sizeof(*r));
}
