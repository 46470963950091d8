/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/labels.h"

#include "base/utf8.h"
#include "common/collections.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Names ---------------------------------------------------------------- */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* "libc.so.6+0x12345", or an address. */
static char *place_text(const struct name *n) {
    char *text = NULL;
    int length = n->module == NULL ? asprintf(&text, "0x%" PRIx64, n->offset)
                                   : asprintf(&text, "%s+0x%" PRIx64,
                                              base_name(n->module), n->offset);
    return length < 0 ? NULL : text;
}

static char *line_text(const struct name *n) {
    char *text = NULL;
    if (n->file != NULL && n->line != 0)
        return asprintf(&text, "%s:%u", n->file, n->line) < 0 ? NULL : text;
    if (n->function != NULL)
        return strdup(n->function);
    return n->language == 0 ? place_text(n)
                            : strdup(n->file != NULL ? n->file : "(not known)");
}

static char *whole_text(const struct name *n) {
    char *text = NULL, *place = place_text(n);
    if (n->function == NULL || place == NULL)
        return place;
    int length = n->file == NULL || n->line == 0
                     ? asprintf(&text, "%s [%s]", n->function, place)
                     : asprintf(&text, "%s (%s:%u) [%s]", n->function, n->file,
                                n->line, place);
    free(place);
    return length < 0 ? NULL : text;
}

/* "FUNCTION (FILE:LINE)" */
static char *script_text(const struct name *n) {
    char *text = NULL, *line = line_text(n);
    if (n->function == NULL || n->file == NULL || line == NULL)
        return line;
    int length = asprintf(&text, "%s (%s)", n->function, line);
    free(line);
    return length < 0 ? NULL : text;
}

static const char *language_text(const struct name *n) {
    static const char *const language[] = {
        [0] = "native",
        [MTF_LANGUAGE_RUBY] = "ruby",
        [MTF_LANGUAGE_PERL] = "perl",
        [MTF_LANGUAGE_PYTHON] = "python",
    };
    return n->language < TCM_ARRAY_SIZE(language) ? language[n->language]
                                                  : "(another language)";
}

static char *text_of(const struct name *n, enum rows_by by) {
    if (n->special != NULL)
        return strdup(n->special);
    switch (by) {
    case ROWS_BY_FUNCTION:
        return n->function != NULL ? strdup(n->function)
               : n->language != 0  ? line_text(n)
                                   : place_text(n);
    case ROWS_BY_LINE:
        return line_text(n);
    case ROWS_BY_FILE:
        return strdup(n->file != NULL     ? n->file
                      : n->module != NULL ? n->module
                                          : "(no file)");
    case ROWS_BY_MODULE:
        return strdup(n->module != NULL ? n->module : "(no module)");
    case ROWS_BY_LANGUAGE:
        return strdup(language_text(n));
    default:
        return n->language != 0 ? script_text(n) : whole_text(n);
    }
}

/* A name in a trace may have any bytes: a row is one line, and may go to a
   terminal. */
char *labels_one_line(char *text) {
    size_t left = text == NULL ? 0 : strlen(text);
    for (char *p = text; left != 0;) {
        size_t n = tcm_utf8_plain_length(p, left);
        if (n == 0)
            *p = '?';
        n = n == 0 ? 1 : n;
        p += n;
        left -= n;
    }
    return text;
}

char *labels_name(const struct name *name, enum rows_by by) {
    return labels_one_line(text_of(name, by));
}

/* What a row names of SITE's stack: the line that asked for memory, where there
   is one, but for the module. */
static uint32_t row_site(const struct tool_sites *sites, enum rows_by by,
                         uint32_t site) {
    return by == ROWS_BY_MODULE ? site : tool_sites_line(sites, site);
}

char *rows_location(struct names *names, const struct tool_sites *sites,
                    enum rows_by by, uint32_t site) {
    struct name n = names_of(names, row_site(sites, by, site));
    return labels_name(&n, by);
}

/* --- Stacks --------------------------------------------------------------- */

/* The names of a stack, innermost first. */
struct walk {
    struct names *names;
    const struct tool_sites *sites;
    uint32_t site;         /* of the next frame */
    unsigned depth;        /* frames so far */
    uint32_t number, left; /* names of the frame at hand */
};

static void walk_init(struct walk *w, struct names *names,
                      const struct tool_sites *sites, uint32_t site) {
    *w = (struct walk){.names = names, .sites = sites, .site = site};
}

/* False: that was the outermost one. A site without definition has one name. */
static bool walk_next(struct walk *w, uint32_t *number) {
    if (w->left == 0) {
        const struct tool_frame *f = tool_sites_frame(w->sites, w->site);
        if ((f == NULL && w->depth != 0) || w->depth == TOOL_SITE_DEPTH)
            return false;
        w->number = names_find(w->names, w->site, &w->left);
        w->site = f == NULL ? MTF_SITE_NONE : f->parent;
        w->depth++;
    }
    w->left--;
    *number = w->number++;
    return true;
}

/* --- Labels --------------------------------------------------------------- */

void labels_init(struct labels *l, struct texts *texts, struct names *names,
                 const struct tool_sites *sites, enum rows_by by) {
    *l = (struct labels){
        .texts = texts, .names = names, .sites = sites, .by = by};
}

void labels_fini(struct labels *l) {
    free(l->of_name);
    free(l->match);
    free(l->stack);
}

/* Room for NUMBER in an array of all names so far, the new ones 0. */
static bool room_for(void *array, size_t *room, uint32_t number, size_t size) {
    size_t before = *room;
    unsigned char *first;
    if (!tool_array_reserve(array, room, (size_t)number + 1, size))
        return false;
    memcpy(&first, array, sizeof(first));
    memset(first + before * size, 0, (*room - before) * size);
    return true;
}

static uint32_t number_of(struct labels *l, uint32_t number) {
    if (!room_for(&l->of_name, &l->name_room, number, sizeof(*l->of_name)))
        return TEXTS_NONE;
    if (l->of_name[number] != 0)
        return l->of_name[number] - 1;
    char *text = labels_name(names_get(l->names, number), l->by);
    uint32_t label = text == NULL ? TEXTS_NONE : texts_number(l->texts, text);
    free(text);
    if (label != TEXTS_NONE)
        l->of_name[number] = label + 1;
    return label;
}

uint32_t labels_site(struct labels *l, uint32_t site) {
    unsigned count;
    site = row_site(l->sites, l->by, site);
    return number_of(l, names_find(l->names, site, &count));
}

uint32_t labels_stack(struct labels *l, uint32_t site) {
    struct walk w;
    uint32_t number;
    size_t length = 0;
    walk_init(&w, l->names, l->sites, site);
    while (walk_next(&w, &number)) {
        uint32_t label = number_of(l, number);
        if (label == TEXTS_NONE)
            return label;
        const char *text = l->texts->text[label];
        size_t n = strlen(text);
        if (!tool_array_reserve(&l->stack, &l->stack_room, length + n + 4, 1))
            return TEXTS_NONE;
        if (length != 0) {
            memcpy(l->stack + length, " < ", 3);
            length += 3;
        }
        memcpy(l->stack + length, text, n + 1);
        length += n;
    }
    return texts_number(l->texts, l->stack);
}

static bool frame_matches(struct labels *l, const struct suppressions *s,
                          uint32_t site) {
    unsigned count;
    uint32_t number = names_find(l->names, site, &count);
    for (; count != 0; count--, number++) {
        const struct name *n = names_get(l->names, number);
        if (suppressions_match(s, n->function) ||
            suppressions_match(s, n->file) || suppressions_match(s, n->module))
            return true;
    }
    return false;
}

bool labels_match(struct labels *l, const struct suppressions *s,
                  uint32_t site) {
    uint32_t stack[TOOL_SITE_DEPTH];
    unsigned depth = 0;
    bool match = false;
    size_t at;
    if (s->count == 0)
        return false;
    if (l->match == NULL)
        l->match = calloc(l->sites->frames + 1, sizeof(*l->match));
    for (; depth < TOOL_SITE_DEPTH &&
           (at = tool_sites_place(l->sites, site)) != SIZE_MAX;
         site = l->sites->frame[at].parent) {
        /* 3: a circle. */
        if (l->match != NULL && l->match[at] != 0) {
            match = l->match[at] == 2;
            break;
        }
        if (l->match != NULL)
            l->match[at] = 3;
        stack[depth++] = site;
    }
    while (depth-- > 0) {
        match = match || frame_matches(l, s, stack[depth]);
        if (l->match != NULL)
            l->match[tool_sites_place(l->sites, stack[depth])] = match ? 2 : 1;
    }
    return match;
}
