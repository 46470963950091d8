/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/report_stacks.h"

#include "base/check.h"
#include "common/collections.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned report_stacks_sites(const struct tool_sites *sites, uint32_t site,
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

size_t report_stacks_path(const struct report_stacks *s, uint32_t node,
                          uint32_t path[REPORT_STACKS_DEPTH]) {
    size_t depth = 0;
    for (; node != 0 && depth < REPORT_STACKS_DEPTH;
         node = s->node[node].parent)
        path[depth++] = s->node[node].label;
    return depth;
}

/* --- Labels --------------------------------------------------------------- */

/* Label of N, a name of the frame F, as DHAT writes frames: the address tells
   apart places with the same name. */
static char *place_label(const struct symbol_name *n,
                         const struct tool_frame *f) {
    char *text = report_labels_name(n, REPORT_BY_FUNCTION), *whole = NULL;
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
    return length < 0 ? NULL : report_labels_one_line(whole);
}

/* Sets the file of LABEL unless it has one. False: out of memory. */
static bool note_file(struct report_stacks *s, const struct symbol_name *n,
                      uint32_t label) {
    size_t known = s->file_room;
    if (!tool_array_reserve(&s->file, &s->file_room, (size_t)label + 1,
                            sizeof(*s->file)))
        return false;
    for (size_t i = known; i < s->file_room; i++)
        s->file[i] = REPORT_TEXTS_NONE;
    if (n->file == NULL || s->file[label] != REPORT_TEXTS_NONE)
        return true;
    s->file[label] = report_texts_number(&s->files, n->file);
    return s->file[label] != REPORT_TEXTS_NONE;
}

static const enum report_by rows_of[] = {
    [REPORT_STACKS_FUNCTION] = REPORT_BY_FUNCTION,
    [REPORT_STACKS_PLACE] = REPORT_BY_SITE,
    [REPORT_STACKS_SITE] = REPORT_BY_SITE,
    [REPORT_STACKS_LINE] = REPORT_BY_LINE,
    [REPORT_STACKS_FILE] = REPORT_BY_FILE,
    [REPORT_STACKS_MODULE] = REPORT_BY_MODULE,
    [REPORT_STACKS_LANGUAGE] = REPORT_BY_LANGUAGE,
};

/* Marks LABEL as the user's if the name NUMBER is. False: out of memory. */
static bool note_user(struct report_stacks *s, uint32_t number,
                      uint32_t label) {
    size_t known = s->user_room;
    if (s->frames == NULL)
        return true;
    if (!tool_array_reserve(&s->user, &s->user_room, (size_t)label + 1,
                            sizeof(*s->user)))
        return false;
    memset(s->user + known, 0, s->user_room - known);
    if (report_frames_is_user(s->frames, number))
        s->user[label] = 1;
    return true;
}

/* Label of the name NUMBER of frame F. REPORT_TEXTS_NONE: out of memory. */
static uint32_t label_of(struct report_stacks *s,
                         const struct symbol_names *names,
                         enum report_stacks_label kind, uint32_t number,
                         const struct tool_frame *f) {
    size_t known = s->of_name_room;
    if (!tool_array_reserve(&s->of_name, &s->of_name_room, (size_t)number + 1,
                            sizeof(*s->of_name)))
        return REPORT_TEXTS_NONE;
    if (s->of_name_room != known)
        memset(s->of_name + known, 0,
               (s->of_name_room - known) * sizeof(*s->of_name));
    if (s->of_name[number] != 0)
        return s->of_name[number] - 1;
    const struct symbol_name *n = symbol_names_get(names, number);
    char *text = kind == REPORT_STACKS_PLACE
                     ? place_label(n, f)
                     : report_labels_name(n, rows_of[kind]);
    uint32_t label = text == NULL ? REPORT_TEXTS_NONE
                                  : report_texts_number(&s->labels, text);
    free(text);
    if (label == REPORT_TEXTS_NONE || !note_file(s, n, label) ||
        !note_user(s, number, label))
        return REPORT_TEXTS_NONE;
    s->of_name[number] = label + 1;
    return label;
}

/* --- The tree ------------------------------------------------------------- */

/* Sets *NODE to the child of PARENT with LABEL, added if it is new; to PARENT
   if there are REPORT_STACKS_NODES already. False: out of memory. */
static bool child_of(struct report_stacks *s, uint32_t parent, uint32_t label,
                     uint32_t *node) {
    uint64_t key = ((uint64_t)parent << 32 | label) + 1;
    const struct tool_map_entry *found = tool_map_find(&s->child, key);
    *node = found != NULL ? (uint32_t)found->value : parent;
    if (found != NULL || s->count == REPORT_STACKS_NODES)
        return true;
    struct tool_map_entry *e = tool_map_get(&s->child, key);
    if (e == NULL || !tool_array_reserve(&s->node, &s->node_room, s->count + 1,
                                         sizeof(*s->node)))
        return false;
    *node = (uint32_t)s->count;
    e->value = s->count;
    s->node[s->count++] =
        (struct report_stacks_node){.parent = parent, .label = label};
    return true;
}

/* Adds A to the sum numbered *SUM, made if that is 0. False: out of memory. */
static bool add_sum(struct report_stacks *s, uint32_t *sum,
                    const struct report_tally *a) {
    if (*sum == 0) {
        if (!tool_array_reserve(&s->sum, &s->sum_room, s->sums + 1,
                                sizeof(*s->sum)))
            return false;
        s->sum[s->sums++] = (struct report_tally){0};
        *sum = (uint32_t)s->sums;
    }
    report_tally_add(&s->sum[*sum - 1], a);
    return true;
}

/* Descends from *NODE by the names of SITE's frame, outermost first. Sets *CUT
   if there were no more nodes. False: out of memory. */
static bool add_frame(struct report_stacks *s, const struct tool_sites *sites,
                      struct symbol_names *names, enum report_stacks_label kind,
                      uint32_t site, uint32_t *node, bool *cut) {
    const struct tool_frame *f = tool_sites_frame(sites, site);
    unsigned count;
    uint32_t first = symbol_names_find(names, site, &count);
    while (count-- > 0 && !*cut) {
        uint32_t label = label_of(s, names, kind, first + count, f);
        uint32_t before = *node;
        if (label == REPORT_TEXTS_NONE || !child_of(s, before, label, node))
            return false;
        *cut = *node == before;
    }
    return true;
}

/* Mark of frames of the current stack, by which circles are found. */
#define IN_STACK UINT32_MAX

/* Fills STACK with the sites of SITE's stack, innermost first, up to the first
   whose node is known, and sets *NODE to that. Returns how many. */
static unsigned unknown_sites(const struct report_stacks *s,
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
    /* A site without frame gets a label, too: "(not known)". */
    if (depth == 0)
        stack[depth++] = site;
    return depth;
}

/* Adds the frames of SITE's stack and sets *NODE to the innermost one. False:
   out of memory. */
static bool add_stack(struct report_stacks *s, const struct report_tallies *t,
                      struct symbol_names *names, enum report_stacks_label kind,
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

static void end_add(struct report_stacks *s) {
    free(s->of_frame);
    free(s->of_name);
    s->of_frame = s->of_name = NULL;
    s->frames = NULL;
    s->of_name_room = 0;
}

/* True if nodes stand behind their parents and indices are in range. */
static bool nodes_are_sound(const struct report_stacks *s) {
    for (size_t i = 1; i < s->count; i++)
        if (s->node[i].parent >= i || s->node[i].label >= s->labels.count ||
            s->node[i].sum > s->sums || s->node[i].old > s->sums)
            return false;
    return s->count <= REPORT_STACKS_NODES;
}

bool report_stacks_add(struct report_stacks *s, const struct report_tallies *t,
                       struct symbol_names *names,
                       enum report_stacks_label label,
                       const struct report_stacks_part *part) {
    uint32_t node;
    bool good = true;
    if (s->count == 0) {
        if (!tool_array_reserve(&s->node, &s->node_room, 1, sizeof(*s->node)))
            return false;
        s->node[s->count++] = (struct report_stacks_node){0};
    }
    s->frames = part->frames;
    s->of_frame = calloc(t->sites.frames + 1, sizeof(*s->of_frame));
    if (s->of_frame == NULL)
        return false;
    for (size_t i = 0; i < t->count && good; i++) {
        const struct report_tally *a = &t->tally[i];
        if (part->keep != NULL && part->keep[i] == 0)
            continue;
        good =
            add_stack(s, t, names, label, (uint32_t)a->key, &node) &&
            add_sum(s, part->old ? &s->node[node].old : &s->node[node].sum, a);
        if (good && part->node != NULL)
            part->node[i] = node;
    }
    end_add(s);
    TCM_ASSERT(!good || nodes_are_sound(s));
    return good;
}

bool report_stacks_make(struct report_stacks *s, const struct report_tallies *t,
                        struct symbol_names *names,
                        enum report_stacks_label label) {
    *s = (struct report_stacks){0};
    return report_stacks_add(s, t, names, label,
                             &(struct report_stacks_part){0});
}

void report_stacks_fini(struct report_stacks *s) {
    report_texts_fini(&s->labels);
    report_texts_fini(&s->files);
    tool_map_fini(&s->child);
    end_add(s);
    free(s->file);
    free(s->user);
    free(s->node);
    free(s->sum);
    *s = (struct report_stacks){0};
}

/* --- Stacks of rows ------------------------------------------------------- */

/* Most columns of a function's name, and most bytes of these. */
#define NAME_COLUMNS 60
#define NAME_BYTES   (4 * NAME_COLUMNS)

void report_callers_fini(struct report_callers *c) {
    report_stacks_fini(&c->stacks);
    free(c->top);
    free(c->count);
    *c = (struct report_callers){0};
}

/* Inserts a stack into the list of ROW if it is one of its largest. */
static void note_stack(struct report_callers *c, size_t row, uint32_t node,
                       double value) {
    struct report_callers_top *top = &c->top[row * c->per_row];
    size_t at = c->per_row;
    while (at != 0 && (top[at - 1].node == 0 || top[at - 1].value < value ||
                       (top[at - 1].value == value && top[at - 1].node > node)))
        at--;
    if (at == c->per_row)
        return;
    memmove(&top[at + 1], &top[at], (c->per_row - at - 1) * sizeof(*top));
    top[at] = (struct report_callers_top){node, value};
}

/* Sums up each row's stacks: values by text of the row and node. */
static bool sum_up(struct tool_map *sums, const struct report_rows *r,
                   const struct report_tallies *t, const uint32_t *node,
                   enum report_sort sort) {
    for (size_t i = 0; i < t->count; i++) {
        if (r->of_tally[i] == 0)
            continue;
        struct tool_map_entry *e =
            tool_map_get(sums, (uint64_t)r->of_tally[i] << 32 | node[i]);
        if (e == NULL)
            return false;
        e->value += (uint64_t)report_rows_value(&t->tally[i], sort);
    }
    return true;
}

/* Table of the first ROWS rows: index plus 1, by number of the text plus 1. */
static uint32_t *index_by_text(const struct report_rows *r, size_t rows) {
    uint32_t *of_text = calloc(r->texts.count + 1, sizeof(*of_text));
    for (size_t i = 0; of_text != NULL && i < rows; i++)
        of_text[r->row[i].text + 1] = (uint32_t)i + 1;
    return of_text;
}

bool report_callers_make(struct report_callers *c, const struct report_rows *r,
                         const struct report_tallies *t,
                         struct symbol_names *names,
                         const struct report_skip *skip, enum report_sort sort,
                         size_t rows, size_t per_row) {
    struct report_frames frames;
    struct tool_map sums = {0};
    uint32_t *node = calloc(t->count + 1, sizeof(*node));
    uint32_t *of_text = index_by_text(r, rows);
    *c = (struct report_callers){.rows = rows, .per_row = per_row};
    c->top = calloc(rows * per_row + 1, sizeof(*c->top));
    c->count = calloc(rows + 1, sizeof(*c->count));
    /* Means do not add up. */
    if (sort == REPORT_SORT_AGE)
        sort = REPORT_SORT_BYTES;
    const struct report_stacks_part part = {
        .keep = r->of_tally, .node = node, .frames = &frames};
    bool good = report_frames_init(&frames, names, &t->sites, skip, false) &&
                node != NULL && of_text != NULL && c->top != NULL &&
                c->count != NULL &&
                report_stacks_add(&c->stacks, t, names, REPORT_STACKS_FUNCTION,
                                  &part) &&
                sum_up(&sums, r, t, node, sort);
    for (size_t i = 0; good && sums.entry != NULL && i <= sums.mask; i++) {
        const struct tool_map_entry *e = &sums.entry[i];
        if ((uint32_t)e->key == 0 || of_text[e->key >> 32] == 0)
            continue;
        size_t row = of_text[e->key >> 32] - 1;
        c->count[row]++;
        note_stack(c, row, (uint32_t)e->key, (double)e->value);
    }
    report_frames_fini(&frames);
    tool_map_fini(&sums);
    free(node);
    free(of_text);
    return good;
}

const struct report_callers_top *
report_callers_of(const struct report_callers *c, size_t row, size_t index) {
    if (row >= c->rows || index >= c->per_row)
        return NULL;
    const struct report_callers_top *top = &c->top[row * c->per_row + index];
    TCM_ASSERT(top->node < c->stacks.count);
    return top->node == 0 ? NULL : top;
}

void report_callers_json(const struct report_callers *c, size_t row,
                         const char *figure, struct tool_json *j) {
    const struct report_stacks *s = &c->stacks;
    const struct report_callers_top *top;
    tool_json_begin_array(j, "stacks");
    for (size_t i = 0; (top = report_callers_of(c, row, i)) != NULL; i++) {
        tool_json_begin_object(j, NULL);
        tool_json_double(j, figure, top->value);
        tool_json_begin_array(j, "frames");
        for (uint32_t n = top->node; n != 0; n = s->node[n].parent)
            tool_json_string(j, NULL, report_stacks_text(s, n));
        tool_json_end_array(j);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

/* The bracket that closes the one at P, or the end of the text. Angles in
   parentheses may be operators. */
static const char *closing(const char *p) {
    unsigned parens = 0, angles = 0;
    for (; *p != '\0'; p++) {
        parens += *p == '(';
        angles += parens == 0 && *p == '<';
        parens -= *p == ')' && parens != 0;
        angles -= parens == 0 && *p == '>' && angles != 0;
        if (parens == 0 && angles == 0)
            break;
    }
    return p;
}

static bool is_anonymous(const char *p) {
    return strncmp(p, "(anonymous ", 11) == 0;
}

/* Bytes of "operator<" and so on at P in NAME, whose brackets have no partners;
   0: it has no operator there. */
static size_t operator_length(const char *name, const char *p) {
    const char *sign = p + strlen("operator");
    if (strncmp(p, "operator", strlen("operator")) != 0 ||
        (p != name && strchr(" :", p[-1]) == NULL))
        return 0;
    sign += strncmp(sign, "()", 2) == 0 ? 2 : strspn(sign, "<=>-");
    return (size_t)(sign - p);
}

/* Writes the demangled name NAME to TEXT, with MARK for parameters and, if
   ANGLES is set, nothing for arguments in <>. False: it does not fit. */
static bool put_outline(struct tool_text_line *text, const char *name,
                        const char *mark, bool angles) {
    size_t n = 0;
    text->s[0] = '\0';
    for (const char *p = name; *p != '\0' && n < sizeof(text->s);) {
        size_t own = operator_length(name, p), left = 0;
        const char *sign = "";
        if (own == 0 && (*p == '(' || *p == '<') && *closing(p) != '\0') {
            left = (size_t)(closing(p) - p) - 1;
            sign = *p == '(' && left != 0 ? mark : "";
        }
        own += own == 0;
        if (*p == '<' ? !angles : is_anonymous(p)) {
            own += left;
            left = 0;
            sign = "";
        }
        n += (size_t)snprintf(text->s + n, sizeof(text->s) - n, "%.*s%s",
                              (int)own, p, sign);
        p += own + left;
    }
    return n < sizeof(text->s);
}

/* True for names that are not of C++: "<T as U>::f", "<module>", "(deeper)". */
static bool is_bracketed(const char *name) {
    return *name == '\0' ||
           (strchr("<([", *name) != NULL && !is_anonymous(name));
}

/* Puts TEXT into ROOM, in COLUMNS: without its middle, but with its last
   part. */
static const char *put_last(struct tool_text_line *room, const char *text,
                            size_t columns) {
    const char *shown = tool_text_middle_before(
        room, text, columns, tool_text_width(report_frame_last(text)));
    return shown == text ? strcpy(room->s, text) : shown;
}

const char *report_stacks_short(struct tool_text_line *room, const char *name,
                                size_t columns) {
    struct tool_text_line text;
    size_t length = strlen(name);
    if (is_bracketed(name) ||
        (strstr(name, "::") == NULL && name[length - 1] != ')'))
        return tool_text_middle(room, name, columns);
    bool whole = put_outline(&text, name, "", true);
    return put_last(room, whole ? text.s : name, columns);
}

const char *report_stacks_fitting(struct tool_text_line *room, const char *name,
                                  size_t columns) {
    struct tool_text_line text;
    if (tool_text_width(name) <= columns || is_bracketed(name))
        return tool_text_middle(room, name, columns);
    name = report_frame_qualified(name);
    if (tool_text_width(name) <= columns)
        return name;
    bool whole = put_outline(&text, name, "...", false);
    if (!whole || tool_text_width(text.s) > columns)
        whole = put_outline(&text, name, "...", true);
    return put_last(room, whole ? text.s : name, columns);
}

/* Depth at which the stacks of nodes A and B first differ; REPORT_STACKS_DEPTH:
   nowhere. */
static unsigned difference(const struct report_stacks *s, uint32_t a,
                           uint32_t b) {
    unsigned depth = 0;
    while (a != b && a != 0 && b != 0 && s->node[a].label == s->node[b].label) {
        a = s->node[a].parent;
        b = s->node[b].parent;
        depth++;
    }
    return a == b ? REPORT_STACKS_DEPTH : depth;
}

/* Depth of the frame that tells the stack from all others of its row. */
static unsigned distinct_depth(const struct report_callers *c, size_t row,
                               size_t index) {
    const struct report_callers_top *other;
    uint32_t node = c->top[row * c->per_row + index].node;
    unsigned most = 0;
    for (size_t i = 0; (other = report_callers_of(c, row, i)) != NULL; i++) {
        unsigned depth = difference(&c->stacks, node, other->node);
        if (depth != REPORT_STACKS_DEPTH && depth > most)
            most = depth;
    }
    return most;
}

char *report_callers_text(const struct report_callers *c, size_t row,
                          size_t index, unsigned first, size_t width) {
    const struct report_stacks *s = &c->stacks;
    struct tool_text_line room;
    unsigned distinct = distinct_depth(c, row, index), depth = 0;
    uint32_t label = UINT32_MAX;
    char *text = NULL;
    size_t n = 0, bytes = 0;
    bool gap = false;
    for (uint32_t node = c->top[row * c->per_row + index].node; node != 0;
         node = s->node[node].parent, depth++) {
        bool again = s->node[node].label == label;
        label = s->node[node].label;
        bool user = s->user != NULL && s->user[label] != 0;
        bool full = n >= width && depth != distinct;
        if (depth < first || (full && user && again))
            continue;
        gap |= full && !user;
        if (full && !user)
            continue;
        if (!tool_array_reserve(&text, &bytes, n + NAME_BYTES + 16, 1)) {
            free(text);
            return NULL;
        }
        n += (size_t)sprintf(text + n, "%s",
                             n == 0 ? (first == 0 ? "" : "< ")
                             : gap  ? " < ... < "
                                    : " < ");
        n += (size_t)sprintf(text + n, "%s",
                             report_stacks_short(&room,
                                                 report_stacks_text(s, node),
                                                 NAME_COLUMNS));
        gap = false;
    }
    if (gap)
        memcpy(text + n, " < ...", sizeof(" < ..."));
    return text;
}
