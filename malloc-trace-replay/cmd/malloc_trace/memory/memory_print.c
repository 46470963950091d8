/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/memory/memory_print.h"

#include "base/bits.h"
#include "base/check.h"
#include "common/files.h"
#include "common/main.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const struct memory_moment *memory_print_moment(const struct memory_report *m,
                                                const struct memory_run *r) {
    const struct memory_moment *found = memory_run_moment(r, m->moment_role);
    TCM_ASSERT(r->moments != 0);
    return found != NULL ? found : &r->moment[r->moments - 1];
}

/* --- The sentence --------------------------------------------------------- */

/* Part of the free bytes for which the sentence names the blocks. */
#define NAMED_SHARE 0.9

/* Bytes that the first rows of ROWS hold: the fewest that hold NAMED_SHARE of
   all. */
struct holders {
    double held_bytes;
    uint64_t blocks;
    size_t rows;
};

static struct holders find_holders(const struct memory_rows *rows) {
    struct holders h = {0};
    double all = 0;
    for (size_t i = 0; i < rows->count; i++)
        all += rows->row[i].held_bytes;
    for (; h.rows < rows->count && h.held_bytes < NAMED_SHARE * all; h.rows++) {
        h.held_bytes += rows->row[h.rows].held_bytes;
        h.blocks += rows->row[h.rows].pinning_blocks;
    }
    return h;
}

static uint64_t waste_of(const struct memory_moment *m) {
    return m->resident_bytes -
           tcm_min_u64(m->requested_bytes, m->resident_bytes);
}

/* Part of the resident bytes by which waste of another moment is more. */
#define MORE_PARTS 100u

/* Writes into TEXT which moment of R has more waste than M, that of most: this
   lasts, and the other need not. */
static void put_more_waste(const struct memory_run *r,
                           const struct memory_moment *m, char text[100]) {
    struct tool_text t;
    const struct memory_moment *most = m;
    text[0] = '\0';
    if ((m->roles & MEMORY_WASTE) == 0)
        return;
    for (size_t i = 0; i < r->moments; i++)
        if (waste_of(&r->moment[i]) > waste_of(most))
            most = &r->moment[i];
    if (waste_of(most) - waste_of(m) <= m->resident_bytes / MORE_PARTS)
        return;
    snprintf(text, 100, "; more waste did not last as long: %s at %s",
             tool_text_bytes(&t, waste_of(most)),
             (most->roles & MEMORY_PEAK) != 0  ? "the peak"
             : (most->roles & MEMORY_END) != 0 ? "the end"
                                               : "another moment");
}

bool memory_print_sentence(struct memory_run *r,
                           const struct memory_moment *m) {
    struct tool_text t[5];
    char held[160] = "", empty[80] = "", more[100];
    struct holders h = find_holders(&m->by[MEMORY_BY_SITE]);
    if (h.blocks != 0 && r->has_sites)
        snprintf(held, sizeof(held),
                 "; %s lie free on pages that %s block%s of %zu site%s hold%s",
                 tool_text_bytes(&t[0], tool_text_whole(h.held_bytes)),
                 tool_text_count(&t[1], h.blocks), h.blocks == 1 ? "" : "s",
                 h.rows, h.rows == 1 ? "" : "s", h.blocks == 1 ? "s" : "");
    else if (h.blocks != 0)
        snprintf(held, sizeof(held),
                 "; %s lie free on pages that %s block%s hold%s",
                 tool_text_bytes(&t[0], m->free_bytes),
                 tool_text_count(&t[1], m->pinning_blocks),
                 m->pinning_blocks == 1 ? "" : "s",
                 m->pinning_blocks == 1 ? "s" : "");
    if (m->empty_bytes != 0)
        snprintf(empty, sizeof(empty), "; %s are pages without a block",
                 tool_text_bytes(&t[2], m->empty_bytes));
    put_more_waste(r, m, more);
    int n =
        asprintf(&r->sentence, "of %s resident %s are alive%s%s%s",
                 tool_text_bytes(&t[3], m->resident_bytes),
                 tool_text_bytes(&t[4], m->requested_bytes), held, empty, more);
    if (n < 0)
        r->sentence = NULL;
    return n >= 0;
}

/* --- Tables --------------------------------------------------------------- */

/* Moments that a table has columns for, and their width. */
enum { COLUMNS = 5, WIDTH = 16 };

struct table {
    const struct memory_moment *at[COLUMNS];
    size_t count;
};

/* Place of M in the choice of columns: those in all tables, the one that is
   explained, those asked for, marks. */
static unsigned rank_of(const struct memory_moment *m,
                        const struct memory_moment *explained) {
    if ((m->roles & (MEMORY_PEAK | MEMORY_WASTE | MEMORY_END)) != 0)
        return 0;
    return m == explained ? 1 : (m->roles & MEMORY_ASKED) != 0 ? 2 : 3;
}

/* Chooses columns while there is room, in the order of the moments. */
static void choose_columns(const struct memory_report *m,
                           const struct memory_run *r, struct table *t) {
    const struct memory_moment *explained = memory_print_moment(m, r);
    unsigned last = 0; /* rank that is taken while there is room */
    size_t room = COLUMNS;
    t->count = 0;
    for (; last <= 3; last++) {
        size_t count = 0;
        for (size_t i = 0; i < r->moments; i++)
            count += rank_of(&r->moment[i], explained) == last;
        if (count > room)
            break;
        room -= count;
    }
    for (size_t i = 0; i < r->moments; i++) {
        unsigned rank = rank_of(&r->moment[i], explained);
        if (rank > last || (rank == last && room == 0))
            continue;
        room -= rank == last;
        t->at[t->count++] = &r->moment[i];
    }
    TCM_ASSERT(t->count <= COLUMNS);
}

/* Prints the member AT of each moment, with its share of the member OF; 0: of
   none. */
static void print_part(const struct table *t, const char *name, size_t at,
                       size_t of, FILE *out) {
    struct tool_text a, b;
    fprintf(out, "  %-22s", name);
    for (size_t i = 0; i < t->count; i++) {
        struct memory_figure part = {name, at}, whole = {name, of};
        uint64_t v = memory_figure_of(&part, t->at[i]);
        uint64_t all = of == 0 ? 0 : memory_figure_of(&whole, t->at[i]);
        if (all != 0)
            fprintf(out, "  %*s %5s", WIDTH - 6, tool_text_bytes(&a, v),
                    tool_text_percent(&b, v, all));
        else
            fprintf(out, "  %*s      ", WIDTH - 6, tool_text_bytes(&a, v));
    }
    fputc('\n', out);
}

#define PART(name) offsetof(struct memory_moment, name)

static void print_parts(const struct memory_report *m,
                        const struct memory_run *r, FILE *out) {
    struct table t;
    struct tool_text a;
    bool knows_huge = true, any_huge = false;
    choose_columns(m, r, &t);
    fprintf(out, "  %-22s", "");
    for (size_t i = 0; i < t.count; i++)
        fprintf(out, "  %*.*s", WIDTH, WIDTH, t.at[i]->label);
    fputc('\n', out);
    if (m->has_times) {
        fprintf(out, "  %-22s", "recorded time");
        for (size_t i = 0; i < t.count; i++)
            fprintf(out, "  %*s      ", WIDTH - 6,
                    tool_text_ns(&a, t.at[i]->recorded_ns));
        fputc('\n', out);
    }
    print_part(&t, "resident", PART(resident_bytes), 0, out);
    print_part(&t, "alive", PART(requested_bytes), PART(resident_bytes), out);
    print_part(&t, "rounding", PART(rounding_bytes), PART(resident_bytes), out);
    print_part(&t, "free, held by blocks", PART(free_bytes),
               PART(resident_bytes), out);
    print_part(&t, "empty pages", PART(empty_bytes), PART(resident_bytes), out);
    print_part(&t, "never used", PART(never_bytes), PART(resident_bytes), out);
    for (size_t i = 0; i < t.count; i++) {
        knows_huge &= t.at[i]->huge_known;
        any_huge |= t.at[i]->huge_bytes != 0;
    }
    if (knows_huge)
        print_part(&t, "in huge pages", PART(huge_bytes), PART(resident_bytes),
                   out);
    if (knows_huge && any_huge)
        print_part(&t, "alive on huge pages", PART(huge_requested_bytes),
                   PART(requested_bytes), out);
    fprintf(out, "  %-22s", "live blocks");
    for (size_t i = 0; i < t.count; i++)
        fprintf(out, "  %*s      ", WIDTH - 6,
                tool_text_count(&a, t.at[i]->live_blocks));
    fputc('\n', out);
    if (r->moments > t.count)
        fprintf(out, "  %zu more moments: --to=csv and --json have all\n",
                r->moments - t.count);
}

static void print_rows(const struct memory_rows *rows, const char *name,
                       uint64_t top, FILE *out) {
    struct tool_text t[3];
    fprintf(out, "  %10s  %12s  %10s  %s\n", "hold", "blocks", "alive", name);
    for (size_t i = 0; i < rows->count && i < top; i++) {
        const struct memory_row *row = &rows->row[i];
        fprintf(out, "  %10s  %12s  %10s  %s\n",
                tool_text_bytes(&t[0], tool_text_whole(row->held_bytes)),
                tool_text_count(&t[1], row->blocks),
                tool_text_bytes(&t[2], row->requested_bytes),
                tool_text_shown(row->label));
    }
    if (rows->count > top)
        fprintf(out, "  %s more; --top=%zu shows all\n",
                tool_text_count(&t[0], rows->count - top), rows->count);
}

/* Pages without blocks, by the time at which one was last known: it was made
   then, or a look found it. */
static void print_empty(const struct memory_moment *m, FILE *out) {
    struct tool_text a, b;
    const char *between = "  empty pages, by their last known block:";
    for (size_t i = m->empty_fors; i-- != 0;) {
        uint64_t least = m->empty_for[i].lower_ns;
        if (least == 0)
            fprintf(out, "%s %s less than 1 ms ago", between,
                    tool_text_bytes(&a, m->empty_for[i].bytes));
        else
            fprintf(out, "%s %s %s ago and more", between,
                    tool_text_bytes(&a, m->empty_for[i].bytes),
                    tool_text_ns(&b, least));
        between = ",";
    }
    if (m->empty_fors != 0)
        fputc('\n', out);
}

/* Pages that came and went from one look to the next. */
static void print_turns(const struct memory_run *r, FILE *out) {
    struct tool_text a, b;
    uint64_t back = 0, again = 0;
    for (size_t i = 0; i < r->points; i++) {
        back += r->point[i].given_back_bytes;
        again += r->point[i].came_again_bytes;
    }
    if (back != 0)
        fprintf(out,
                "  from look to look %s were given back, and %s of it came "
                "again\n",
                tool_text_bytes(&a, back), tool_text_bytes(&b, again));
}

static void print_held_by(const struct memory_report *m,
                          const struct memory_moment *at, FILE *out) {
    const struct memory_rows *sites = &at->held_by[MEMORY_BY_SITE];
    fprintf(out, "\n  blocks of sites with \"%s\"\n",
            tool_text_shown(m->held_by));
    if (sites->count == 0) {
        fputs("  none is alive then\n", out);
        return;
    }
    for (unsigned by = 0; by < MEMORY_BYS; by++)
        print_rows(&at->held_by[by], memory_by_name[by], m->top, out);
    for (size_t i = 0; i < sites->count && i < m->top; i++)
        if (sites->row[i].stack != NULL)
            fprintf(out, "  %s\n", tool_text_shown(sites->row[i].stack));
}

static void print_remedies(const struct memory_report *m,
                           const struct memory_run *r, FILE *out) {
    struct tool_text t;
    const struct memory_moment *at = memory_print_moment(m, r);
    fprintf(out, "\n  what to do%s\n",
            r->remedies != 0          ? ""
            : at->resident_bytes == 0 ? ": nothing is resident"
                                      : ": nothing, little is not alive");
    for (size_t i = 0; i < r->remedies; i++)
        fprintf(out, "  %10s  %s\n", tool_text_bytes(&t, r->remedy[i].bytes),
                r->remedy[i].text);
}

static void print_run(const struct memory_report *m, const struct memory_run *r,
                      FILE *out) {
    struct tool_text a, b;
    if (r->failure != NULL) {
        fprintf(out, "%s: no figures: %s\n", r->name,
                tool_text_shown(r->failure));
        return;
    }
    const struct memory_moment *at = memory_print_moment(m, r);
    fprintf(out, "%s, %s: %s\n", r->name, tool_text_shown(at->label),
            r->sentence);
    if (memory_run_moment(r, m->moment_role) == NULL)
        fprintf(out, "  the trace has no such moment as --moment asks for\n");
    print_parts(m, r, out);
    if (m->has_times)
        print_empty(at, out);
    print_turns(r, out);
    if (m->by != MEMORY_BY_SITE || m->has_sites) {
        fprintf(out, "\n  %s: free bytes, and the blocks that hold them\n",
                tool_text_shown(at->label));
        print_rows(&at->by[m->by], memory_by_name[m->by], m->top, out);
    }
    if (m->held_by != NULL)
        print_held_by(m, at, out);
    for (size_t i = 0; i < r->missings; i++)
        fprintf(out, "  %s\n", tool_text_shown(r->missing[i]));
    fprintf(out, "  %s looks took %s beside a replay of %s\n",
            tool_text_count(&a, r->scans), tool_text_ns(&b, r->scan_ns),
            tool_text_ns(&(struct tool_text){""}, r->replay_ns));
    print_remedies(m, r, out);
}

void memory_print(const struct memory_report *m, FILE *out) {
    for (size_t i = 0; i < m->runs; i++) {
        if (i != 0)
            fputc('\n', out);
        print_run(m, &m->run[i], out);
    }
    if (m->untouched != NULL)
        fprintf(out, "\n%s: %s\n", tool_text_shown(m->trace),
                tool_text_shown(m->untouched));
    if (!m->has_sites)
        fprintf(out,
                "\n%s has no call sites: record it with --sites=stack to "
                "see whose blocks hold the pages\n",
                tool_text_shown(m->trace));
}

/* --- JSON ----------------------------------------------------------------- */

static void json_rows(struct tool_json *j, enum memory_by by,
                      const struct memory_rows *rows) {
    static const char *const key[MEMORY_BYS] = {NULL, "size", "age_ns",
                                                "thread"};
    tool_json_begin_array(j, memory_by_name[by]);
    for (size_t i = 0; i < rows->count; i++) {
        const struct memory_row *r = &rows->row[i];
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "label", r->label);
        if (r->stack != NULL)
            tool_json_string(j, "stack", r->stack);
        if (key[by] != NULL && r->key != MEMORY_KEY_MIXED)
            tool_json_u64(j, key[by], r->key);
        tool_json_u64(j, "blocks", r->blocks);
        tool_json_u64(j, "requested_bytes", r->requested_bytes);
        tool_json_u64(j, "usable_bytes", r->usable_bytes);
        tool_json_double(j, "held_bytes", r->held_bytes);
        tool_json_double(j, "held_huge_bytes", r->held_huge_bytes);
        tool_json_u64(j, "pinning_blocks", r->pinning_blocks);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

static void json_groups(struct tool_json *j, const char *key,
                        const struct memory_rows by[MEMORY_BYS]) {
    tool_json_begin_object(j, key);
    for (unsigned i = 0; i < MEMORY_BYS; i++)
        json_rows(j, (enum memory_by)i, &by[i]);
    tool_json_end_object(j);
}

static void json_map(struct tool_json *j, const struct memory_moment *m) {
    tool_json_begin_array(j, "map");
    tool_json_dense(j, true);
    for (size_t i = 0; i < m->cells; i++) {
        const struct memory_cell *c = &m->cell[i];
        const uint64_t figure[] = {c->cell,      c->is_huge, c->live,
                                   c->partly,    c->empty,   c->never,
                                   c->free_bytes};
        tool_json_begin_array(j, NULL);
        for (size_t k = 0; k < TCM_ARRAY_SIZE(figure); k++)
            tool_json_u64(j, NULL, figure[k]);
        tool_json_string(j, NULL, c->pages);
        tool_json_end_array(j);
    }
    tool_json_dense(j, false);
    tool_json_end_array(j);
}

static void json_roles(struct tool_json *j, unsigned roles) {
    static const char *const name[] = {"peak", "waste", "at", "mark", "end"};
    tool_json_begin_array(j, "roles");
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(name); i++)
        if ((roles >> i & 1) != 0)
            tool_json_string(j, NULL, name[i]);
    tool_json_end_array(j);
}

static void json_empty(struct tool_json *j, const struct memory_moment *m) {
    tool_json_begin_array(j, "empty_for");
    for (size_t i = 0; i < m->empty_fors; i++) {
        tool_json_begin_object(j, NULL);
        tool_json_u64(j, "least_ns", m->empty_for[i].lower_ns);
        tool_json_u64(j, "bytes", m->empty_for[i].bytes);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

static void json_moment(struct tool_json *j, const struct memory_report *m,
                        const struct memory_moment *at) {
    tool_json_begin_object(j, NULL);
    tool_json_string(j, "name", at->name);
    json_roles(j, at->roles);
    tool_json_string(j, "label", at->label);
    for (const struct memory_figure *f = memory_moment_figure; f->key != NULL;
         f++)
        tool_json_u64(j, f->key, memory_figure_of(f, at));
    tool_json_double(j, "unexplained_bytes", at->unexplained_bytes);
    tool_json_bool(j, "is_known", at->is_known);
    tool_json_bool(j, "huge_known", at->huge_known);
    json_empty(j, at);
    json_groups(j, "pinners", at->by);
    if (m->held_by != NULL)
        json_groups(j, "held_by", at->held_by);
    json_map(j, at);
    tool_json_end_object(j);
}

static void json_curve(struct tool_json *j, const struct memory_run *r) {
    tool_json_begin_object(j, "curve");
    for (const struct memory_figure *f = memory_point_figure; f->key != NULL;
         f++) {
        tool_json_begin_array(j, f->key);
        tool_json_dense(j, true);
        for (size_t k = 0; k < r->points; k++)
            tool_json_u64(j, NULL, memory_figure_of(f, &r->point[k]));
        tool_json_dense(j, false);
        tool_json_end_array(j);
    }
    tool_json_end_object(j);
}

static void json_run(struct tool_json *j, const struct memory_report *m,
                     const struct memory_run *r) {
    tool_json_begin_object(j, NULL);
    tool_json_string(j, "name", r->name);
    if (r->failure != NULL) {
        tool_json_string(j, "failure", r->failure);
        tool_json_end_object(j);
        return;
    }
    tool_json_string(j, "allocator", r->allocator);
    tool_json_string(j, "threads", r->threads);
    tool_json_string(j, "clock", r->clock);
    tool_json_u64(j, "page_bytes", r->page_bytes);
    tool_json_string(j, "residency", r->residency);
    tool_json_begin_array(j, "missing");
    for (size_t i = 0; i < r->missings; i++)
        tool_json_string(j, NULL, r->missing[i]);
    tool_json_end_array(j);
    tool_json_string(j, "sentence", r->sentence);
    tool_json_begin_array(j, "remedies");
    for (size_t i = 0; i < r->remedies; i++) {
        tool_json_begin_object(j, NULL);
        tool_json_u64(j, "bytes", r->remedy[i].bytes);
        tool_json_string(j, "text", r->remedy[i].text);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
    tool_json_u64(j, "scans", r->scans);
    tool_json_u64(j, "scan_ns", r->scan_ns);
    tool_json_u64(j, "replay_ns", r->replay_ns);
    json_curve(j, r);
    tool_json_begin_array(j, "moments");
    for (size_t i = 0; i < r->moments; i++)
        json_moment(j, m, &r->moment[i]);
    tool_json_end_array(j);
    tool_json_end_object(j);
}

bool memory_print_json(const struct memory_report *m, const char *path) {
    static struct tool_json j;
    if (!tool_json_open(&j, path))
        return false;
    tool_json_begin_object(&j, NULL);
    tool_json_string(&j, "format", "malloc-trace-memory");
    tool_json_u64(&j, "version", 1);
    tool_json_string(&j, "trace", m->trace);
    tool_json_bool(&j, "has_sites", m->has_sites);
    tool_json_bool(&j, "has_times", m->has_times);
    tool_json_string(&j, "by", memory_by_name[m->by]);
    if (m->held_by != NULL)
        tool_json_string(&j, "held_by", m->held_by);
    tool_json_u64(&j, "duration_ns", m->duration_ns);
    tool_json_u64(&j, "operations", m->operations);
    if (m->untouched != NULL)
        tool_json_string(&j, "untouched", m->untouched);
    tool_json_begin_array(&j, "allocators");
    for (size_t i = 0; i < m->runs; i++)
        json_run(&j, m, &m->run[i]);
    tool_json_end_array(&j);
    tool_json_end_object(&j);
    return tool_json_close(&j);
}

/* --- CSV ------------------------------------------------------------------ */

static void csv_moment(const struct memory_report *m,
                       const struct memory_run *r,
                       const struct memory_moment *at, FILE *f) {
    const struct memory_rows *rows = &at->by[m->by];
    for (size_t i = 0; i < rows->count; i++) {
        const struct memory_row *row = &rows->row[i];
        tool_csv_put_quoted(f, r->name);
        fputc(',', f);
        tool_csv_put_quoted(f, at->label);
        fprintf(f, ",%" PRIu64 ",%" PRIu64 ",", at->operation, at->recorded_ns);
        tool_csv_put_quoted(f, row->label);
        fprintf(f,
                ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.0f,%.0f,%" PRIu64 "\n",
                row->blocks, row->requested_bytes, row->usable_bytes,
                row->held_bytes, row->held_huge_bytes, row->pinning_blocks);
    }
}

bool memory_print_csv(const struct memory_report *m, const char *path) {
    FILE *f = tool_file_stream(path);
    if (f == NULL)
        return false;
    fprintf(f,
            "allocator,moment,operation,recorded_ns,%s,blocks,requested_bytes,"
            "usable_bytes,held_bytes,held_huge_bytes,pinning_blocks\n",
            memory_by_name[m->by]);
    for (size_t i = 0; i < m->runs; i++)
        for (size_t k = 0; k < m->run[i].moments; k++)
            csv_moment(m, &m->run[i], &m->run[i].moment[k], f);
    return tool_file_stream_end(f, path);
}
