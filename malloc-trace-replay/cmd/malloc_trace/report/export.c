/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * profile.proto is written as it comes: locations, functions and mappings have
 * the numbers of sites and modules, and texts are gathered in a table that
 * comes last.
 */
#include "cmd/malloc_trace/report/export.h"

#include "cmd/malloc_trace/report/print.h"
#include "common/array.h"
#include "common/main.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Innermost first; returns how many. */
static unsigned stack_of(const struct tool_sites *sites, uint32_t site,
                         uint32_t stack[TOOL_SITE_DEPTH]) {
    const struct tool_frame *f;
    unsigned depth = 0;
    while (depth < TOOL_SITE_DEPTH &&
           (f = tool_sites_frame(sites, site)) != NULL) {
        stack[depth++] = site;
        site = f->parent;
    }
    return depth;
}

/* --- Folded stacks -------------------------------------------------------- */

static bool put_folded_frame(FILE *f, struct names *names,
                             const struct tool_sites *sites, uint32_t site) {
    char *text = rows_location(names, sites, ROWS_BY_FUNCTION, site);
    if (text == NULL)
        return false;
    for (const char *p = text; *p != '\0'; p++)
        fputc(*p == ';' ? ':' : *p == '\n' ? ' ' : *p, f);
    free(text);
    return true;
}

bool export_folded(const struct tallies *t, struct names *names,
                   enum rows_sort sort, const char *file) {
    static uint32_t stack[TOOL_SITE_DEPTH];
    FILE *f = print_open(file);
    bool good = true;
    if (f == NULL)
        return false;
    for (size_t i = 0; i < t->count && good; i++) {
        double value = rows_value(&t->tally[i], sort);
        unsigned depth = stack_of(&t->sites, (uint32_t)t->tally[i].key, stack);
        if (value < 1)
            continue;
        if (depth == 0)
            good = put_folded_frame(f, names, &t->sites, MTF_SITE_NONE);
        for (unsigned k = depth; k-- > 0 && good;) {
            good = put_folded_frame(f, names, &t->sites, stack[k]);
            if (k != 0)
                fputc(';', f);
        }
        fprintf(f, " %.0f\n", value);
    }
    if (!good)
        tool_error("out of memory");
    return print_close(f, file) && good;
}

/* --- pprof ---------------------------------------------------------------- */

struct message {
    uint8_t *bytes;
    size_t count, room;
};

struct profile {
    FILE *f;
    char **text; /* the table; copies */
    size_t texts, room;
    struct tool_map place; /* hash of a text: its place plus 1 */
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

/* A number field; 0 is what is not there. */
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

/* A field of the profile itself, which ends M. */
static void put_field(struct profile *p, unsigned field, struct message *m) {
    struct message head = {0};
    put_varint(p, &head, field << 3 | 2);
    put_varint(p, &head, m->count);
    fwrite(head.bytes, 1, head.count, p->f);
    fwrite(m->bytes, 1, m->count, p->f);
    free(head.bytes);
    m->count = 0;
}

/* The place of TEXT in the table. */
static uint64_t text_place(struct profile *p, const char *text) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *c = text; *c != '\0'; c++)
        hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
    for (hash |= 1;; hash += 2) {
        struct tool_map_entry *e = tool_map_get(&p->place, hash);
        if (e == NULL)
            break;
        if (e->value != 0 && strcmp(p->text[e->value - 1], text) == 0)
            return e->value - 1;
        if (e->value != 0)
            continue;
        if (!tool_array_reserve(&p->text, &p->room, p->texts + 1,
                                sizeof(*p->text)) ||
            (p->text[p->texts] = strdup(text)) == NULL)
            break;
        e->value = ++p->texts;
        return e->value - 1;
    }
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

static void put_sample(struct profile *p, const struct tallies *t,
                       const struct tally *a) {
    static uint32_t stack[TOOL_SITE_DEPTH];
    struct message m = {0}, list = {0};
    unsigned depth = stack_of(&t->sites, (uint32_t)a->key, stack);
    for (unsigned i = 0; i < depth; i++)
        put_varint(p, &list, stack[i]);
    /* What has no site is of one that no other has. */
    if (depth == 0)
        put_varint(p, &list, MTF_SITE_LIMIT);
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

static void put_mappings(struct profile *p, const struct tool_sites *sites) {
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

/* A location and its function, with the same number. */
static void put_location(struct profile *p, const struct tool_sites *sites,
                         struct names *names, uint32_t site, uint64_t number) {
    struct message m = {0}, line = {0};
    const struct tool_frame *f = tool_sites_frame(sites, site);
    struct name n = names_of(names, site);
    char *function = rows_location(names, sites, ROWS_BY_FUNCTION, site);
    if (function == NULL) {
        p->failed = true;
        return;
    }
    put_number(p, &m, 1, number);
    if (f != NULL) {
        size_t module = tool_ids_find(&sites->modules, f->module);
        if (module != SIZE_MAX)
            put_number(p, &m, 2, module + 1);
        put_number(p, &m, 3, f->address == 0 ? 0 : f->address - 1);
    }
    put_number(p, &line, 1, number);
    put_number(p, &line, 2, n.line);
    put_bytes(p, &m, 4, line.bytes, line.count);
    put_field(p, 4, &m);
    put_number(p, &m, 1, number);
    put_number(p, &m, 2, text_place(p, function));
    put_number(p, &m, 3, text_place(p, function));
    if (n.file != NULL)
        put_number(p, &m, 4, text_place(p, n.file));
    put_field(p, 5, &m);
    free(function);
    free(m.bytes);
    free(line.bytes);
}

static void put_locations(struct profile *p, const struct tool_sites *sites,
                          struct names *names) {
    for (uint32_t site = 1; (site = tool_sites_from(sites, site)) != 0; site++)
        put_location(p, sites, names, site, site);
    put_location(p, sites, names, MTF_SITE_NONE, MTF_SITE_LIMIT);
}

bool export_pprof(const struct tallies *t, struct names *names,
                  const char *file) {
    struct profile p = {.f = print_open(file)};
    struct message m = {0};
    if (p.f == NULL)
        return false;
    (void)text_place(&p, "");
    put_type(&p, 1, "alloc_objects", "count");
    put_type(&p, 1, "alloc_space", "bytes");
    put_type(&p, 1, "inuse_objects", "count");
    put_type(&p, 1, "inuse_space", "bytes");
    for (size_t i = 0; i < t->count; i++)
        put_sample(&p, t, &t->tally[i]);
    put_mappings(&p, &t->sites);
    put_locations(&p, &t->sites, names);
    for (size_t i = 0; i < p.texts; i++) {
        for (const char *c = p.text[i]; *c != '\0'; c++)
            put_byte(&p, &m, (uint8_t)*c);
        put_field(&p, 6, &m);
        free(p.text[i]);
    }
    put_type(&p, 11, "space", "bytes");
    free(m.bytes);
    free(p.text);
    tool_map_fini(&p.place);
    if (p.failed)
        tool_error("out of memory");
    return print_close(p.f, file) && !p.failed;
}
