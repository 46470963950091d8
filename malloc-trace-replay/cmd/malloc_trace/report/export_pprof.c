/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * profile.proto is written as it comes: each site of a stack is a location, and
 * each name of a site a function, numbered as they are met, and texts are
 * gathered in a table that comes last.
 */
#include "base/utf8.h"
#include "cmd/malloc_trace/report/export.h"
#include "cmd/malloc_trace/report/labels.h"
#include "cmd/malloc_trace/report/print.h"
#include "cmd/malloc_trace/report/texts.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct message {
    uint8_t *bytes;
    size_t count, room;
};

struct profile {
    FILE *f;
    const struct tool_sites *sites;
    struct names *names;
    struct texts texts;
    struct texts raw;         /* as they are in the trace */
    struct tool_map location; /* site plus 1: its number */
    struct tool_map function; /* number of a name plus 1: 1 */
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
    if (m->count != 0)
        fwrite(m->bytes, 1, m->count, p->f);
    free(head.bytes);
    m->count = 0;
}

/* The place of TEXT in the table, whose texts are UTF-8. */
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
    uint32_t place = copy == NULL ? TEXTS_NONE : texts_number(&p->texts, copy);
    free(copy);
    if (place != TEXTS_NONE)
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

/* The function of name NUMBER, which is written when it is met first; its
   number is one more. */
static void put_function(struct profile *p, uint32_t number) {
    struct message m = {0};
    const struct name *n = names_get(p->names, number);
    struct tool_map_entry *e = tool_map_get(&p->function, (uint64_t)number + 1);
    char *text = e == NULL ? NULL : labels_name(n, ROWS_BY_FUNCTION);
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

/* The frame of SITE, with NUMBER: a line for each of its names, the innermost
   first. */
static void put_location(struct profile *p, uint32_t site, uint64_t number) {
    struct message m = {0}, line = {0};
    const struct tool_frame *f = tool_sites_frame(p->sites, site);
    unsigned count;
    uint32_t name = names_find(p->names, site, &count);
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
        put_number(p, &line, 2, names_get(p->names, name + i)->line);
        put_bytes(p, &m, 4, line.bytes, line.count);
    }
    put_field(p, 4, &m);
    for (unsigned i = 0; i < count; i++)
        put_function(p, name + i);
    free(m.bytes);
    free(line.bytes);
}

/* The number of SITE's location, which is written when it is met first. */
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

static void put_sample(struct profile *p, const struct tally *a) {
    static uint32_t stack[TOOL_SITE_DEPTH];
    struct message m = {0}, list = {0};
    unsigned depth = stacks_sites(p->sites, (uint32_t)a->key, stack);
    /* Of what has no site a frame says so. */
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

bool export_pprof(const struct tallies *t, struct names *names,
                  const char *file) {
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
    texts_fini(&p.texts);
    tool_map_fini(&p.location);
    tool_map_fini(&p.function);
    if (p.failed)
        tool_error("out of memory");
    return tool_file_stream_end(p.f, file) && !p.failed;
}
