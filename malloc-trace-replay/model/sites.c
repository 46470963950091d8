/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/sites.h"

#include <stdlib.h>
#include <string.h>

/* Longest path that is kept. */
#define PATH_BYTES_MAX ((size_t)64 << 10)

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
    tool_ids_fini(&s->frames);
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

static bool take_frame(struct tool_sites *s, const struct mtf_site_def *def) {
    struct tool_frame *f =
        tool_ids_get(&s->frames, &s->frame, sizeof(*f), def->site);
    if (f == NULL)
        return false;
    if (f->known)
        return true;
    *f = (struct tool_frame){.known = true, .parent = def->parent};
    if (def->what == MTF_SITE_DEF_LINE) {
        f->language = def->language;
        f->file = def->file;
        f->function = def->function;
        f->line = def->line;
    } else {
        f->module = def->module;
        f->address = def->address;
    }
    return true;
}

/* Pieces may come in any order, and twice. */
static bool take_text(struct tool_sites *s, const struct mtf_site_def *def) {
    struct tool_site_text *t =
        tool_ids_get(&s->texts, &s->text, sizeof(*t), def->text);
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
    struct tool_module *m =
        tool_ids_get(&s->modules, &s->module, sizeof(*m), def->module);
    if (m == NULL)
        return false;
    if (def->what == MTF_SITE_DEF_PATH)
        return add_path(m, def->path, def->path_length);
    /* One that comes again is whole again. */
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
    switch (def.what) {
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

const struct tool_frame *tool_sites_frame(const struct tool_sites *s,
                                          uint32_t site) {
    size_t at = tool_ids_find(&s->frames, site);
    return at == SIZE_MAX ? NULL : &s->frame[at];
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
