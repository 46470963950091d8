/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/sites.h"

#include "common/collections.h"

#include <stdlib.h>
#include <string.h>

/* Longest path that is kept. */
#define PATH_BYTES_MAX ((size_t)64 << 10)

/* Pages of the table `place` of one trace, made as they are needed. */
#define PAGE_SITES 1024u
#define PAGES      (MTF_SITE_LIMIT / PAGE_SITES)

static void free_places(struct tool_sites *s) {
    for (size_t i = 0; i < TOOL_SITE_TRACES; i++) {
        for (size_t k = 0; s->place[i] != NULL && k < PAGES; k++)
            free(s->place[i][k]);
        free(s->place[i]);
    }
}

void tool_sites_fini(struct tool_sites *s) {
    for (size_t i = 0; i < s->modules.count; i++)
        free(s->module[i].path);
    for (size_t i = 0; i < s->texts.count; i++)
        free(s->text[i].text);
    free(s->text);
    free(s->module);
    free(s->frame);
    tool_ids_fini(&s->texts);
    tool_ids_fini(&s->modules);
    free_places(s);
}

static bool add_path(struct tool_module *m, const uint8_t *p, size_t n) {
    if (n > PATH_BYTES_MAX - m->path_length)
        return true;
    char *path = realloc(m->path, m->path_length + n + 1);
    if (path == NULL)
        return false;
    memcpy(path + m->path_length, p, n);
    m->path = path;
    m->path_length += n;
    path[m->path_length] = '\0';
    return true;
}

/* Returns the entry of SITE in `place`, which is made if it is not there. NULL:
   no memory. */
static uint32_t *note_of(struct tool_sites *s, uint32_t site) {
    uint32_t ***trace = &s->place[site / MTF_SITE_LIMIT];
    uint32_t in = site % MTF_SITE_LIMIT;
    if (*trace == NULL && (*trace = calloc(PAGES, sizeof(**trace))) == NULL)
        return NULL;
    uint32_t **page = &(*trace)[in / PAGE_SITES];
    if (*page == NULL && (*page = calloc(PAGE_SITES, sizeof(**page))) == NULL)
        return NULL;
    return &(*page)[in % PAGE_SITES];
}

static uint32_t numbered(const struct tool_sites *s, uint32_t number) {
    return number == 0 ? 0 : s->base + number;
}

static bool take_frame(struct tool_sites *s, const struct mtf_site_def *def) {
    uint32_t *note = note_of(s, s->base + def->site);
    if (note != NULL && *note != 0)
        return true;
    if (note == NULL || !tool_array_reserve(&s->frame, &s->frame_room,
                                            s->frames + 1, sizeof(*s->frame)))
        return false;
    struct tool_frame *f = &s->frame[s->frames++];
    *note = (uint32_t)s->frames;
    *f = (struct tool_frame){.parent = numbered(s, def->parent)};
    if (def->kind == MTF_SITE_DEF_LINE) {
        s->has_lines = true;
        f->language = def->language;
        f->file = numbered(s, def->file);
        f->function = numbered(s, def->function);
        f->line = def->line;
    } else {
        f->module = numbered(s, def->module);
        f->address = def->address;
    }
    return true;
}

/* Takes a piece of a text. Pieces come in any order, and perhaps twice. */
static bool take_text(struct tool_sites *s, const struct mtf_site_def *def) {
    struct tool_site_text *t =
        tool_ids_get(&s->texts, &s->text, sizeof(*t), s->base + def->text);
    size_t end = (size_t)def->offset + def->path_length;
    if (t == NULL)
        return false;
    if (t->text == NULL || end > t->length) {
        char *text = realloc(t->text, end + 1);
        if (text == NULL)
            return false;
        memset(text + t->length, '?', end - t->length);
        text[end] = '\0';
        t->text = text;
        t->length = end;
    }
    memcpy(t->text + def->offset, def->path, def->path_length);
    return true;
}

static bool take_module(struct tool_sites *s, const struct mtf_site_def *def) {
    struct tool_module *m = tool_ids_get(&s->modules, &s->module, sizeof(*m),
                                         s->base + def->module);
    if (m == NULL)
        return false;
    if (def->kind == MTF_SITE_DEF_PATH)
        return add_path(m, def->path, def->path_length);
    /* A definition that is repeated begins with its first part again. */
    m->path_length = 0;
    m->known = true;
    m->start = def->start;
    m->end = def->end;
    m->bias = def->bias;
    m->build_id_length = def->build_id_length;
    if (def->build_id_length != 0)
        memcpy(m->build_id, def->build_id, def->build_id_length);
    return add_path(m, def->path, def->path_length);
}

bool tool_sites_take(struct tool_sites *s, const uint8_t *p, size_t n) {
    struct mtf_site_def def;
    if (!mtf_site_def_get(p, n, &def)) {
        s->unreadable++;
        return true;
    }
    switch (def.kind) {
    case MTF_SITE_DEF_FRAME:
    case MTF_SITE_DEF_LINE:
        return take_frame(s, &def);
    case MTF_SITE_DEF_TEXT:
        return take_text(s, &def);
    case MTF_SITE_DEF_MODE:
        s->mode = def;
        return true;
    default:
        return take_module(s, &def);
    }
}

void tool_sites_next_trace(struct tool_sites *s) {
    TCM_ASSERT(s->base / MTF_SITE_LIMIT + 1 < TOOL_SITE_TRACES);
    s->base += MTF_SITE_LIMIT;
    s->mode = (struct mtf_site_def){0};
}

size_t tool_sites_place(const struct tool_sites *s, uint32_t site) {
    uint32_t **trace = s->place[site / MTF_SITE_LIMIT];
    uint32_t in = site % MTF_SITE_LIMIT;
    uint32_t *page = trace == NULL ? NULL : trace[in / PAGE_SITES];
    uint32_t note = page == NULL ? 0 : page[in % PAGE_SITES];
    return note == 0 ? SIZE_MAX : note - 1;
}

const struct tool_module *tool_sites_module(const struct tool_sites *s,
                                            uint32_t module) {
    size_t at = tool_ids_find(&s->modules, module);
    return at == SIZE_MAX ? NULL : &s->module[at];
}

const char *tool_sites_text(const struct tool_sites *s, uint32_t text) {
    size_t at = tool_ids_find(&s->texts, text);
    return at == SIZE_MAX ? NULL : s->text[at].text;
}
