/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/callers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A longer name of a function is cut. */
#define NAME_COLUMNS 60

void callers_fini(struct callers *c) {
    stacks_fini(&c->stacks);
    free(c->top);
    *c = (struct callers){0};
}

/* Puts a stack among those of ROW that have most. */
static void note(struct callers *c, size_t row, uint32_t node, double value) {
    struct callers_top *top = &c->top[row * c->per_row];
    size_t at = c->per_row;
    while (at != 0 && (top[at - 1].node == 0 || top[at - 1].value < value ||
                       (top[at - 1].value == value && top[at - 1].node > node)))
        at--;
    if (at == c->per_row)
        return;
    memmove(&top[at + 1], &top[at], (c->per_row - at - 1) * sizeof(*top));
    top[at] = (struct callers_top){node, value};
}

/* Sums of each row's stacks, by text of the row and node. */
static bool sum_up(struct tool_map *sums, const struct rows *r,
                   const struct tallies *t, const uint32_t *node,
                   enum rows_sort sort) {
    for (size_t i = 0; i < t->count; i++) {
        if (r->of_tally[i] == 0)
            continue;
        struct tool_map_entry *e =
            tool_map_get(sums, (uint64_t)r->of_tally[i] << 32 | node[i]);
        if (e == NULL)
            return false;
        e->value += (uint64_t)rows_value(&t->tally[i], sort);
    }
    return true;
}

/* By number of the text plus 1: place of the row plus 1. */
static uint32_t *rows_by_text(const struct rows *r, size_t rows) {
    uint32_t *of_text = calloc(r->texts.count + 1, sizeof(*of_text));
    for (size_t i = 0; of_text != NULL && i < rows; i++)
        of_text[r->row[i].text + 1] = (uint32_t)i + 1;
    return of_text;
}

bool callers_make(struct callers *c, const struct rows *r,
                  const struct tallies *t, struct names *names,
                  enum rows_sort sort, size_t rows, size_t per_row) {
    struct tool_map sums = {0};
    uint32_t *node = calloc(t->count + 1, sizeof(*node));
    uint32_t *of_text = rows_by_text(r, rows);
    *c = (struct callers){.rows = rows, .per_row = per_row};
    c->top = calloc(rows * per_row + 1, sizeof(*c->top));
    /* Means do not add up. */
    if (sort == ROWS_SORT_AGE)
        sort = ROWS_SORT_BYTES;
    bool good =
        node != NULL && of_text != NULL && c->top != NULL &&
        stacks_add(&c->stacks, t, names, STACKS_FUNCTION,
                   &(struct stacks_part){.keep = r->of_tally, .node = node}) &&
        sum_up(&sums, r, t, node, sort);
    for (size_t i = 0; good && sums.entry != NULL && i <= sums.mask; i++) {
        const struct tool_map_entry *e = &sums.entry[i];
        if ((uint32_t)e->key != 0 && of_text[e->key >> 32] != 0)
            note(c, of_text[e->key >> 32] - 1, (uint32_t)e->key,
                 (double)e->value);
    }
    tool_map_fini(&sums);
    free(node);
    free(of_text);
    return good;
}

const struct callers_top *callers_of(const struct callers *c, size_t row,
                                     size_t index) {
    if (row >= c->rows || index >= c->per_row)
        return NULL;
    const struct callers_top *top = &c->top[row * c->per_row + index];
    return top->node == 0 ? NULL : top;
}

/* The name without what stands in <> and (), if it is C++'s. */
static size_t put_short(char *to, const char *name) {
    char text[4 * NAME_COLUMNS];
    size_t n = 0;
    unsigned angles = 0, parens = 0;
    bool plain =
        (strstr(name, "::") == NULL && name[strlen(name) - 1] != ')') ||
        strstr(name, "operator") != NULL || name[0] == '<' || name[0] == '(' ||
        strstr(name, "(anonymous") != NULL;
    for (const char *p = name; *p != '\0' && n < sizeof(text) - 1; p++) {
        parens -= !plain && *p == ')' && parens != 0;
        angles -= !plain && *p == '>' && angles != 0;
        if (angles == 0 && parens == 0)
            text[n++] = *p;
        parens += !plain && *p == '(';
        angles += !plain && *p == '<';
    }
    text[n] = '\0';
    return (size_t)snprintf(to, NAME_COLUMNS + 4, "%.*s%s", NAME_COLUMNS, text,
                            n > NAME_COLUMNS ? "..." : "");
}

/* Where the stacks of A and B first differ; STACKS_DEPTH: nowhere. */
static unsigned difference(const struct stacks *s, uint32_t a, uint32_t b) {
    unsigned depth = 0;
    while (a != b && a != 0 && b != 0 && s->node[a].label == s->node[b].label) {
        a = s->node[a].parent;
        b = s->node[b].parent;
        depth++;
    }
    return a == b ? STACKS_DEPTH : depth;
}

/* How many frames of the stack tell it from the others of its row. */
static unsigned telling(const struct callers *c, size_t row, size_t index) {
    const struct callers_top *other;
    uint32_t node = c->top[row * c->per_row + index].node;
    unsigned most = 0;
    for (size_t i = 0; (other = callers_of(c, row, i)) != NULL; i++) {
        unsigned depth = difference(&c->stacks, node, other->node);
        if (depth != STACKS_DEPTH && depth > most)
            most = depth;
    }
    return most;
}

char *callers_text(const struct callers *c, size_t row, size_t index,
                   unsigned first, size_t width) {
    char *text = malloc(width + 3 * (NAME_COLUMNS + 16));
    uint32_t node = c->top[row * c->per_row + index].node;
    size_t n = 0;
    if (text == NULL)
        return NULL;
    text[0] = '\0';
    for (unsigned depth = 0; node != 0;
         node = c->stacks.node[node].parent, depth++) {
        if (depth < first)
            continue;
        if (n >= width) {
            unsigned last = telling(c, row, index);
            bool between = depth < last;
            for (; depth < last && c->stacks.node[node].parent != 0; depth++)
                node = c->stacks.node[node].parent;
            if (depth == last) {
                n += (size_t)sprintf(text + n, "%s",
                                     between ? " < ... < " : " < ");
                n += put_short(text + n, stacks_text(&c->stacks, node));
                node = c->stacks.node[node].parent;
            }
            if (node != 0)
                memcpy(text + n, " < ...", sizeof(" < ..."));
            break;
        }
        if (n != 0 || first != 0) {
            n += (size_t)sprintf(text + n, "%s", n == 0 ? "< " : " < ");
        }
        n += put_short(text + n, stacks_text(&c->stacks, node));
    }
    if (n == 0) {
        free(text);
        return NULL;
    }
    return text;
}
