/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * profile.proto is written in one pass: each site of a stack is a location, and
 * each name of a site a function. Both are written before their first use; the
 * table of texts comes last.
 */
#include "cmd/malloc_trace/report/report_export.h"

#include "base/bits.h"
#include "base/fmt.h"
#include "cmd/malloc_trace/report/report_labels.h"
#include "cmd/malloc_trace/report/report_print.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Folded stacks -------------------------------------------------------- */

static void put_folded(FILE *f, const char *text) {
    for (; *text != '\0'; text++)
        fputc(*text == ';'                            ? ':'
              : (uint8_t)*text < ' ' || *text == 0x7f ? '?'
                                                      : *text,
              f);
}

bool report_export_folded(const struct report_stacks *s, enum report_sort sort,
                          const char *file) {
    static uint32_t path[REPORT_STACKS_DEPTH];
    FILE *f = tool_file_stream(file);
    if (f == NULL)
        return false;
    for (uint32_t i = 1; i < s->count; i++) {
        double value =
            s->node[i].sum == 0
                ? 0
                : report_rows_value(&s->sum[s->node[i].sum - 1], sort);
        if (value < 1)
            continue;
        for (size_t depth = report_stacks_path(s, i, path); depth-- > 0;) {
            put_folded(f, s->labels.text[path[depth]]);
            fputc(depth == 0 ? ' ' : ';', f);
        }
        fprintf(f, "%.0f\n", value);
    }
    return tool_file_stream_end(f, file);
}

/* --- gperftools' heap profile --------------------------------------------- */

/* Addresses of modules in the profile: the recorded ones, but for modules that
   were loaded at the place of a closed one, which are moved behind all
   others. */
struct places {
    uint64_t *start; /* by index of the module */
};

static int compare_starts(const void *a, const void *b, void *ctx) {
    const struct tool_sites *sites = ctx;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    uint64_t p = sites->module[x].start, q = sites->module[y].start;
    return p != q ? (p < q ? -1 : 1) : (x < y ? -1 : x > y);
}

static uint64_t length_of(const struct tool_module *m) {
    return m->end > m->start ? m->end - m->start : 0;
}

/* False: out of memory. */
static bool place_modules(struct tool_sites *sites, struct places *p) {
    const uint64_t page = 4096;
    size_t count = sites->modules.count;
    size_t *order = calloc(count + 1, sizeof(*order));
    uint64_t taken = 0, free_from = 0;
    p->start = calloc(count + 1, sizeof(*p->start));
    if (p->start == NULL || order == NULL) {
        free(order);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = i;
        free_from = tcm_max_u64(free_from, sites->module[i].end);
    }
    qsort_r(order, count, sizeof(*order), compare_starts, sites);
    for (size_t i = 0; i < count; i++) {
        const struct tool_module *m = &sites->module[order[i]];
        uint64_t start = m->start;
        if (start < taken) {
            start = ((free_from | (page - 1)) + 1) | (m->start & (page - 1));
            free_from = start + length_of(m);
        } else {
            taken = start + length_of(m);
        }
        p->start[order[i]] = start;
    }
    free(order);
    return true;
}

/* Sets *ADDRESS to that of SITE in the profile. False: it has none, as lines of
   interpreters and the ends of cut stacks. */
static bool address_of(const struct tool_sites *sites, const struct places *p,
                       uint32_t site, uint64_t *address) {
    const struct tool_frame *f = tool_sites_frame(sites, site);
    if (f == NULL || f->language != 0 ||
        (f->module == 0 && f->address <= MTF_SITE_CUT))
        return false;
    size_t at = tool_ids_find(&sites->modules, f->module);
    *address = f->address;
    if (at != SIZE_MAX)
        *address += p->start[at] - sites->module[at].start;
    return true;
}

static void put_figures(FILE *f, const struct report_tally *a) {
    fprintf(f, "%6" PRIu64 ": %8" PRIu64 " [%6" PRIu64 ": %8" PRIu64 "] @",
            a->live, a->live_bytes, a->calls, a->bytes);
}

/* Writes the addresses of SITE's stack. The innermost one is reduced by 1 and
   so lies in the call, also for readers that subtract another 1. */
static void put_addresses(FILE *f, const struct tool_sites *sites,
                          const struct places *p, uint32_t site) {
    static uint32_t stack[TOOL_SITE_DEPTH];
    unsigned depth = report_stacks_sites(sites, site, stack), put = 0;
    uint64_t address;
    for (unsigned i = 0; i < depth; i++)
        if (address_of(sites, p, stack[i], &address)) {
            fprintf(f, " 0x%08" PRIx64, address - (put == 0));
            put++;
        }
    if (put == 0)
        fprintf(f, " 0x%08x", 0);
    fputc('\n', f);
}

static void put_map(FILE *f, const struct tool_sites *sites,
                    const struct places *p) {
    fputs("\nMAPPED_LIBRARIES:\n", f);
    for (size_t i = 0; i < sites->modules.count; i++) {
        const struct tool_module *m = &sites->module[i];
        if (m->path == NULL || length_of(m) == 0)
            continue;
        fprintf(f, "%08" PRIx64 "-%08" PRIx64 " r-xp %08x 00:00 %zu ",
                p->start[i], p->start[i] + length_of(m), 0, i + 1);
        for (const char *c = m->path; *c != '\0'; c++)
            fputc((uint8_t)*c < ' ' ? '?' : *c, f);
        fputc('\n', f);
    }
}

bool report_export_heap_profile(struct report_tallies *t, const char *file) {
    FILE *f = tool_file_stream(file);
    struct places places = {0};
    struct report_tally all = {0};
    if (f == NULL)
        return false;
    bool good = place_modules(&t->sites, &places);
    for (size_t i = 0; i < t->count; i++)
        report_tally_add(&all, &t->tally[i]);
    if (good) {
        fputs("heap profile: ", f);
        put_figures(f, &all);
        fputs(" heapprofile\n", f);
        for (size_t i = 0; i < t->count; i++) {
            /* Failed calls alone make no record. */
            if (t->tally[i].calls == 0)
                continue;
            put_figures(f, &t->tally[i]);
            put_addresses(f, &t->sites, &places, (uint32_t)t->tally[i].key);
        }
        put_map(f, &t->sites, &places);
    } else {
        tool_out_of_memory();
    }
    free(places.start);
    return tool_file_stream_end(f, file) && good;
}

/* --- speedscope ----------------------------------------------------------- */

static const struct measure {
    const char *name, *unit;
    enum report_sort sort;
} measures[] = {
    {"allocated", "bytes", REPORT_SORT_BYTES},
    {"live", "bytes", REPORT_SORT_LIVE},
    {"at the peak", "bytes", REPORT_SORT_PEAK},
    {"temporary blocks", "none", REPORT_SORT_TEMPORARY},
    {"calls", "none", REPORT_SORT_CALLS},
};

static double weight_of(const struct report_stacks *s, uint32_t node,
                        const struct measure *m) {
    uint32_t sum = s->node[node].sum;
    return sum == 0 ? 0 : report_rows_value(&s->sum[sum - 1], m->sort);
}

static void put_profile(struct tool_json *j, const struct report_stacks *s,
                        const struct measure *m) {
    static uint32_t path[REPORT_STACKS_DEPTH];
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
        for (size_t k = report_stacks_path(s, i, path); k-- > 0;)
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

/* Index of the profile that a viewer shows first. */
static unsigned first_profile(enum report_sort sort) {
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(measures); i++)
        if (measures[i].sort == sort)
            return i;
    return 0;
}

bool report_export_speedscope(const struct report_stacks *s, const char *name,
                              enum report_sort sort, const char *file) {
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
        if (s->file[i] != REPORT_TEXTS_NONE)
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

/* Blocks that end within this time are short-lived in dh_view: the resolution
   of a trace's times. */
#define SHORT_LIFE_US 1000u

static uint64_t us(unsigned __int128 ns) {
    return (uint64_t)((ns + 500) / 1000);
}

static uint64_t us_since(const struct report_tallies *t, uint64_t ns) {
    return ns > t->start_ns ? us(ns - t->start_ns) : 0;
}

static void put_point(struct tool_json *j, const struct report_stacks *s,
                      uint32_t node) {
    static uint32_t path[REPORT_STACKS_DEPTH];
    const struct report_tally *a = &s->sum[s->node[node].sum - 1];
    size_t depth = report_stacks_path(s, node, path);
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

bool report_export_dhat(const struct report_stacks *s,
                        const struct report_tallies *t, const char *name,
                        const char *file) {
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

/* --- pprof ---------------------------------------------------------------- */

struct message {
    uint8_t *bytes;
    size_t count, room;
};

struct profile {
    FILE *f;
    const struct tool_sites *sites;
    struct symbol_names *names;
    struct report_texts texts;
    struct tool_map location; /* number, by site plus 1 */
    struct tool_map function; /* 1 if written, by number of the name plus 1 */
    bool failed;
};

static void put_byte(struct profile *p, struct message *m, uint8_t byte) {
    if (!tool_array_reserve(&m->bytes, &m->room, m->count + 1, 1)) {
        p->failed = true;
        return;
    }
    m->bytes[m->count++] = byte;
}

static void put_varint(struct profile *p, struct message *m, uint64_t v) {
    for (; v >= 0x80; v >>= 7)
        put_byte(p, m, (uint8_t)(v | 0x80));
    put_byte(p, m, (uint8_t)v);
}

/* Writes a number field; 0 is the default and left out. */
static void put_number(struct profile *p, struct message *m, unsigned field,
                       uint64_t v) {
    if (v == 0)
        return;
    put_varint(p, m, field << 3);
    put_varint(p, m, v);
}

static void put_bytes(struct profile *p, struct message *m, unsigned field,
                      const void *bytes, size_t n) {
    put_varint(p, m, field << 3 | 2);
    put_varint(p, m, n);
    for (size_t i = 0; i < n; i++)
        put_byte(p, m, ((const uint8_t *)bytes)[i]);
}

/* Writes M as a field of the profile itself, and empties it. */
static void put_field(struct profile *p, unsigned field, struct message *m) {
    struct message head = {0};
    put_varint(p, &head, field << 3 | 2);
    put_varint(p, &head, m->count);
    fwrite(head.bytes, 1, head.count, p->f);
    if (m->count != 0)
        fwrite(m->bytes, 1, m->count, p->f);
    free(head.bytes);
    m->count = 0;
}

/* Index of TEXT in the table, in which bytes that are no UTF-8 are "?". */
static uint64_t text_place(struct profile *p, const char *text) {
    char *copy = strdup(text);
    size_t left = copy == NULL ? 0 : strlen(copy);
    for (char *at = copy; left != 0;) {
        size_t n = tcm_utf8_length((const uint8_t *)at, left);
        if (n == 0)
            *at = '?';
        at += n == 0 ? 1 : n;
        left -= n == 0 ? 1 : n;
    }
    uint32_t place =
        copy == NULL ? REPORT_TEXTS_NONE : report_texts_number(&p->texts, copy);
    free(copy);
    if (place != REPORT_TEXTS_NONE)
        return place;
    p->failed = true;
    return 0;
}

static void put_type(struct profile *p, unsigned field, const char *type,
                     const char *unit) {
    struct message m = {0};
    put_number(p, &m, 1, text_place(p, type));
    put_number(p, &m, 2, text_place(p, unit));
    put_field(p, field, &m);
    free(m.bytes);
}

static void put_mappings(struct profile *p) {
    const struct tool_sites *sites = p->sites;
    struct message m = {0};
    for (size_t i = 0; i < sites->modules.count; i++) {
        const struct tool_module *module = &sites->module[i];
        char id[2 * MTF_BUILD_ID_MAX + 1] = "";
        for (unsigned k = 0; k < module->build_id_length; k++)
            snprintf(id + 2 * k, 3, "%02x", module->build_id[k]);
        put_number(p, &m, 1, i + 1);
        put_number(p, &m, 2, module->start);
        put_number(p, &m, 3, module->end);
        put_number(p, &m, 5,
                   text_place(p, module->path == NULL ? "" : module->path));
        put_number(p, &m, 6, text_place(p, id));
        put_number(p, &m, 7, 1);
        put_field(p, 3, &m);
    }
    free(m.bytes);
}

/* Writes the function of the name NUMBER unless it was written. Its number in
   the profile is one more. */
static void put_function(struct profile *p, uint32_t number) {
    struct message m = {0};
    const struct symbol_name *n = symbol_names_get(p->names, number);
    struct tool_map_entry *e = tool_map_get(&p->function, (uint64_t)number + 1);
    char *text = e == NULL ? NULL : report_labels_name(n, REPORT_BY_FUNCTION);
    if (text == NULL) {
        p->failed = true;
        return;
    }
    if (e->value == 0) {
        e->value = 1;
        put_number(p, &m, 1, (uint64_t)number + 1);
        put_number(p, &m, 2, text_place(p, text));
        put_number(p, &m, 3, text_place(p, text));
        if (n->file != NULL)
            put_number(p, &m, 4, text_place(p, n->file));
        put_field(p, 5, &m);
    }
    free(text);
    free(m.bytes);
}

/* Writes the location NUMBER, of SITE's frame: a line for each name, innermost
   first. */
static void put_location(struct profile *p, uint32_t site, uint64_t number) {
    struct message m = {0}, line = {0};
    const struct tool_frame *f = tool_sites_frame(p->sites, site);
    unsigned count;
    uint32_t name = symbol_names_find(p->names, site, &count);
    put_number(p, &m, 1, number);
    if (f != NULL && f->language == 0) {
        size_t module = tool_ids_find(&p->sites->modules, f->module);
        if (module != SIZE_MAX)
            put_number(p, &m, 2, module + 1);
        put_number(p, &m, 3, f->address == 0 ? 0 : f->address - 1);
    }
    for (unsigned i = 0; i < count; i++) {
        line.count = 0;
        put_number(p, &line, 1, (uint64_t)name + i + 1);
        put_number(p, &line, 2, symbol_names_get(p->names, name + i)->line);
        put_bytes(p, &m, 4, line.bytes, line.count);
    }
    put_field(p, 4, &m);
    for (unsigned i = 0; i < count; i++)
        put_function(p, name + i);
    free(m.bytes);
    free(line.bytes);
}

/* Number of SITE's location, which is written if it is new. */
static uint64_t location_of(struct profile *p, uint32_t site) {
    struct tool_map_entry *e = tool_map_get(&p->location, (uint64_t)site + 1);
    if (e == NULL) {
        p->failed = true;
        return 1;
    }
    if (e->value == 0) {
        e->value = p->location.count;
        put_location(p, site, e->value);
    }
    return e->value;
}

static void put_sample(struct profile *p, const struct report_tally *a) {
    static uint32_t stack[TOOL_SITE_DEPTH];
    struct message m = {0}, list = {0};
    unsigned depth = report_stacks_sites(p->sites, (uint32_t)a->key, stack);
    /* A site without frame gets a location, too: "(not known)". */
    if (depth == 0)
        stack[depth++] = (uint32_t)a->key;
    for (unsigned i = 0; i < depth; i++)
        put_varint(p, &list, location_of(p, stack[i]));
    put_bytes(p, &m, 1, list.bytes, list.count);
    list.count = 0;
    put_varint(p, &list, a->calls);
    put_varint(p, &list, a->bytes);
    put_varint(p, &list, a->live);
    put_varint(p, &list, a->live_bytes);
    put_bytes(p, &m, 2, list.bytes, list.count);
    put_field(p, 2, &m);
    free(m.bytes);
    free(list.bytes);
}

bool report_export_pprof(const struct report_tallies *t,
                         struct symbol_names *names, const char *file) {
    struct profile p = {
        .f = tool_file_stream(file), .sites = &t->sites, .names = names};
    struct message m = {0};
    if (p.f == NULL)
        return false;
    (void)text_place(&p, "");
    put_type(&p, 1, "alloc_objects", "count");
    put_type(&p, 1, "alloc_space", "bytes");
    put_type(&p, 1, "inuse_objects", "count");
    put_type(&p, 1, "inuse_space", "bytes");
    put_mappings(&p);
    for (size_t i = 0; i < t->count && !p.failed; i++)
        put_sample(&p, &t->tally[i]);
    put_type(&p, 11, "space", "bytes");
    for (size_t i = 0; i < p.texts.count; i++) {
        for (const char *c = p.texts.text[i]; *c != '\0'; c++)
            put_byte(&p, &m, (uint8_t)*c);
        put_field(&p, 6, &m);
    }
    free(m.bytes);
    report_texts_fini(&p.texts);
    tool_map_fini(&p.location);
    tool_map_fini(&p.function);
    if (p.failed)
        tool_out_of_memory();
    return tool_file_stream_end(p.f, file) && !p.failed;
}

/* --- Blocks --------------------------------------------------------------- */

struct objects {
    FILE *f;
    struct report_labels labels; /* of lines */
};

static bool put_object(void *ctx, const struct report_object *o) {
    struct objects *w = ctx;
    uint32_t place = report_labels_site(&w->labels, o->site);
    if (place == REPORT_TEXTS_NONE)
        return tool_out_of_memory();
    fprintf(w->f, "%" PRIu64 ",", o->birth_ns);
    if (o->ended)
        fprintf(w->f, "%" PRIu64, o->death_ns);
    fprintf(w->f, ",%" PRIu64 ",%u,", o->size, o->thread);
    if (o->ended)
        fprintf(w->f, "%u", o->freed_by);
    fprintf(w->f, ",%u,%" PRIu64 ",", o->site, o->life_bytes);
    report_print_csv_text(w->f, w->labels.texts->text[place]);
    fputc('\n', w->f);
    return ferror(w->f) == 0;
}

bool report_export_objects(const char *file, const struct report_input *in,
                           const struct report_tallies *t,
                           struct symbol_names *names) {
    struct objects w = {.f = tool_file_stream(file)};
    struct report_texts texts = {0};
    struct report_tallies again = {.options = {.by = REPORT_TALLY_BY_THREAD,
                                               .object = put_object,
                                               .ctx = &w}};
    if (w.f == NULL)
        return false;
    bool good = report_labels_init(&w.labels, &texts, names, &t->sites,
                                   REPORT_BY_LINE, &in->skip);
    if (!good)
        tool_out_of_memory();
    fputs("birth_ns,death_ns,size,thread,freed_by,site,life_bytes,place\n",
          w.f);
    good = good && report_input_read(in, &again);
    report_tally_fini(&again);
    report_labels_fini(&w.labels);
    report_texts_fini(&texts);
    return tool_file_stream_end(w.f, file) && good;
}
