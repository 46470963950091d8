/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/stacks.h"

#include "cmd/malloc_trace/report/labels.h"
#include "common/collections.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned stacks_sites(const struct tool_sites *sites, uint32_t site,
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

size_t stacks_path(const struct stacks *s, uint32_t node,
                   uint32_t path[STACKS_DEPTH]) {
    size_t depth = 0;
    for (; node != 0 && depth < STACKS_DEPTH; node = s->node[node].parent)
        path[depth++] = s->node[node].label;
    return depth;
}

/* --- Labels --------------------------------------------------------------- */

/* As DHAT writes frames, whose addresses tell apart what has the same name. F:
   the frame that N is of. */
static char *place_label(const struct name *n, const struct tool_frame *f) {
    char *text = labels_name(n, ROWS_BY_FUNCTION), *whole = NULL;
    int length;
    if (text == NULL || f == NULL || n->special != NULL ||
        (n->language == 0 && n->module == NULL))
        return text;
    if (n->language != 0)
        length = asprintf(&whole, "%s (%s:%u)", text,
                          n->file == NULL ? "?" : n->file, n->line);
    else if (n->file != NULL && n->line != 0)
        length = asprintf(&whole, "0x%" PRIX64 ": %s (%s:%u)", f->address, text,
                          n->file, n->line);
    else
        length = asprintf(&whole, "0x%" PRIX64 ": %s (in %s)", f->address,
                          n->function == NULL ? "???" : text, n->module);
    free(text);
    return length < 0 ? NULL : labels_one_line(whole);
}

/* Notes the file of LABEL unless it has one. */
static bool note_file(struct stacks *s, const struct name *n, uint32_t label) {
    size_t known = s->file_room;
    if (!tool_array_reserve(&s->file, &s->file_room, (size_t)label + 1,
                            sizeof(*s->file)))
        return false;
    for (size_t i = known; i < s->file_room; i++)
        s->file[i] = TEXTS_NONE;
    if (n->file == NULL || s->file[label] != TEXTS_NONE)
        return true;
    s->file[label] = texts_number(&s->files, n->file);
    return s->file[label] != TEXTS_NONE;
}

static const enum rows_by rows_of[] = {
    [STACKS_FUNCTION] = ROWS_BY_FUNCTION, [STACKS_PLACE] = ROWS_BY_SITE,
    [STACKS_SITE] = ROWS_BY_SITE,         [STACKS_LINE] = ROWS_BY_LINE,
    [STACKS_FILE] = ROWS_BY_FILE,         [STACKS_MODULE] = ROWS_BY_MODULE,
    [STACKS_LANGUAGE] = ROWS_BY_LANGUAGE,
};

/* The label of name NUMBER, of frame F. TEXTS_NONE: out of memory. */
static uint32_t label_of(struct stacks *s, const struct names *names,
                         enum stacks_label kind, uint32_t number,
                         const struct tool_frame *f) {
    size_t known = s->of_name_room;
    if (!tool_array_reserve(&s->of_name, &s->of_name_room, (size_t)number + 1,
                            sizeof(*s->of_name)))
        return TEXTS_NONE;
    if (s->of_name_room != known)
        memset(s->of_name + known, 0,
               (s->of_name_room - known) * sizeof(*s->of_name));
    if (s->of_name[number] != 0)
        return s->of_name[number] - 1;
    const struct name *n = names_get(names, number);
    char *text = kind == STACKS_PLACE ? place_label(n, f)
                                      : labels_name(n, rows_of[kind]);
    uint32_t label = text == NULL ? TEXTS_NONE : texts_number(&s->labels, text);
    free(text);
    if (label == TEXTS_NONE || !note_file(s, n, label))
        return TEXTS_NONE;
    s->of_name[number] = label + 1;
    return label;
}

/* --- The tree ------------------------------------------------------------- */

/* PARENT itself if there is no room for another. False: out of memory. */
static bool child_of(struct stacks *s, uint32_t parent, uint32_t label,
                     uint32_t *node) {
    uint64_t key = ((uint64_t)parent << 32 | label) + 1;
    const struct tool_map_entry *found = tool_map_find(&s->child, key);
    *node = found != NULL ? (uint32_t)found->value : parent;
    if (found != NULL || s->count == STACKS_NODES)
        return true;
    struct tool_map_entry *e = tool_map_get(&s->child, key);
    if (e == NULL || !tool_array_reserve(&s->node, &s->node_room, s->count + 1,
                                         sizeof(*s->node)))
        return false;
    *node = (uint32_t)s->count;
    e->value = s->count;
    s->node[s->count++] =
        (struct stacks_node){.parent = parent, .label = label};
    return true;
}

static bool add_sum(struct stacks *s, uint32_t *sum, const struct tally *a) {
    if (*sum == 0) {
        if (!tool_array_reserve(&s->sum, &s->sum_room, s->sums + 1,
                                sizeof(*s->sum)))
            return false;
        s->sum[s->sums++] = (struct tally){0};
        *sum = (uint32_t)s->sums;
    }
    tally_add(&s->sum[*sum - 1], a);
    return true;
}

/* The names of one frame, the outermost first. False: out of memory. */
static bool add_frame(struct stacks *s, const struct tool_sites *sites,
                      struct names *names, enum stacks_label kind,
                      uint32_t site, uint32_t *node, bool *cut) {
    const struct tool_frame *f = tool_sites_frame(sites, site);
    unsigned count;
    uint32_t first = names_find(names, site, &count);
    while (count-- > 0 && !*cut) {
        uint32_t label = label_of(s, names, kind, first + count, f);
        uint32_t before = *node;
        if (label == TEXTS_NONE || !child_of(s, before, label, node))
            return false;
        *cut = *node == before;
    }
    return true;
}

/* A frame of the stack at hand: who calls it again goes in a circle. */
#define IN_STACK UINT32_MAX

/* The sites of SITE's stack, from the innermost one on, up to one whose node is
   known, which *NODE becomes; how many. */
static unsigned unknown_sites(const struct stacks *s,
                              const struct tool_sites *sites, uint32_t site,
                              uint32_t stack[TOOL_SITE_DEPTH], uint32_t *node) {
    unsigned depth = 0;
    size_t at;
    while (depth < TOOL_SITE_DEPTH &&
           (at = tool_sites_place(sites, site)) != SIZE_MAX) {
        if (s->of_frame[at] == IN_STACK)
            break;
        if (s->of_frame[at] != 0) {
            *node = s->of_frame[at] - 1;
            return depth;
        }
        s->of_frame[at] = IN_STACK;
        stack[depth++] = site;
        site = sites->frame[at].parent;
    }
    /* Of what has no site the label says so. */
    if (depth == 0)
        stack[depth++] = site;
    return depth;
}

static bool add_stack(struct stacks *s, const struct tallies *t,
                      struct names *names, enum stacks_label kind,
                      uint32_t site, uint32_t *node) {
    static uint32_t stack[TOOL_SITE_DEPTH];
    bool cut = false;
    *node = 0;
    unsigned depth = unknown_sites(s, &t->sites, site, stack, node);
    while (depth-- > 0) {
        size_t at = tool_sites_place(&t->sites, stack[depth]);
        if (!cut &&
            !add_frame(s, &t->sites, names, kind, stack[depth], node, &cut))
            return false;
        if (at != SIZE_MAX)
            s->of_frame[at] = *node + 1;
    }
    s->cut += cut;
    return true;
}

static void end_add(struct stacks *s) {
    free(s->of_frame);
    free(s->of_name);
    s->of_frame = s->of_name = NULL;
    s->of_name_room = 0;
}

bool stacks_add(struct stacks *s, const struct tallies *t, struct names *names,
                enum stacks_label label, const struct stacks_part *part) {
    uint32_t node;
    bool good = true;
    if (s->count == 0) {
        if (!tool_array_reserve(&s->node, &s->node_room, 1, sizeof(*s->node)))
            return false;
        s->node[s->count++] = (struct stacks_node){0};
    }
    s->of_frame = calloc(t->sites.frames + 1, sizeof(*s->of_frame));
    if (s->of_frame == NULL)
        return false;
    for (size_t i = 0; i < t->count && good; i++) {
        const struct tally *a = &t->tally[i];
        if (part->keep != NULL && part->keep[i] == 0)
            continue;
        good =
            add_stack(s, t, names, label, (uint32_t)a->key, &node) &&
            add_sum(s, part->old ? &s->node[node].old : &s->node[node].sum, a);
        if (good && part->node != NULL)
            part->node[i] = node;
    }
    end_add(s);
    return good;
}

bool stacks_make(struct stacks *s, const struct tallies *t, struct names *names,
                 enum stacks_label label) {
    *s = (struct stacks){0};
    return stacks_add(s, t, names, label, &(struct stacks_part){0});
}

void stacks_fini(struct stacks *s) {
    texts_fini(&s->labels);
    texts_fini(&s->files);
    tool_map_fini(&s->child);
    end_add(s);
    free(s->file);
    free(s->node);
    free(s->sum);
    *s = (struct stacks){0};
}
