/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/tree.h"

#include "common/collections.h"
#include "common/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Of a frame and all that it called, now or before. */
struct figures {
    uint64_t bytes, calls, live_bytes, live;
    double value; /* what is sorted by */
};

struct tree {
    const struct stacks *s;
    const struct print_options *o;
    struct figures *now, *old; /* by node; old NULL: no difference */
    uint32_t *child, *next; /* by node: the first, and its siblings; 0: none */
    double least;           /* value of a branch that is not left out */
    /* to be shown, the last one next */
    struct step {
        uint32_t node, depth, indent;
        bool folded; /* it has all of the frame before */
    } * step;
    size_t steps, step_room;
    uint32_t *list; /* children, being sorted */
    size_t list_room;
    uint64_t left_out;
};

/* --- Making --------------------------------------------------------------- */

static struct figures figures_of(const struct tally *t, enum rows_sort sort) {
    /* Means do not add up. */
    if (sort == ROWS_SORT_AGE)
        sort = ROWS_SORT_BYTES;
    return (struct figures){t->bytes, t->calls, t->live_bytes, t->live,
                            rows_value(t, sort)};
}

static void add(struct figures *to, const struct figures *from) {
    to->bytes += from->bytes;
    to->calls += from->calls;
    to->live_bytes += from->live_bytes;
    to->live += from->live;
    to->value += from->value;
}

static double value_of(const struct tree *t, uint32_t node) {
    return t->now[node].value - (t->old == NULL ? 0 : t->old[node].value);
}

static void fini(struct tree *t) {
    free(t->now);
    free(t->old);
    free(t->child);
    free(t->next);
    free(t->step);
    free(t->list);
}

/* A node stands behind its parent. */
static void sum_up(struct tree *t) {
    const struct stacks *s = t->s;
    for (size_t i = s->count; i-- > 0;) {
        const struct stacks_node *n = &s->node[i];
        if (n->sum != 0) {
            struct figures own = figures_of(&s->sum[n->sum - 1], t->o->sort);
            add(&t->now[i], &own);
        }
        if (t->old != NULL && n->old != 0) {
            struct figures own = figures_of(&s->sum[n->old - 1], t->o->sort);
            add(&t->old[i], &own);
        }
        if (i == 0)
            break;
        add(&t->now[n->parent], &t->now[i]);
        if (t->old != NULL)
            add(&t->old[n->parent], &t->old[i]);
        t->next[i] = t->child[n->parent];
        t->child[n->parent] = (uint32_t)i;
    }
}

static bool make(struct tree *t, const struct stacks *s,
                 const struct print_options *o, double share) {
    *t = (struct tree){.s = s, .o = o};
    t->now = calloc(s->count, sizeof(*t->now));
    t->old = o->diff ? calloc(s->count, sizeof(*t->old)) : NULL;
    t->child = calloc(s->count, sizeof(*t->child));
    t->next = calloc(s->count, sizeof(*t->next));
    if (t->now == NULL || (t->old == NULL && o->diff) || t->child == NULL ||
        t->next == NULL) {
        fini(t);
        return false;
    }
    sum_up(t);
    t->least =
        share * fmax(t->now[0].value, t->old == NULL ? 0 : t->old[0].value);
    return true;
}

/* --- Walking -------------------------------------------------------------- */

static int compare_nodes(const void *a, const void *b, void *ctx) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    double p = fabs(value_of(ctx, x)), q = fabs(value_of(ctx, y));
    return p != q ? (p > q ? 1 : -1) : (x < y) - (x > y);
}

/* Notes those that NODE called, the one with most as the next. */
static bool note_children(struct tree *t, const struct step *from) {
    size_t count = 0;
    for (uint32_t i = t->child[from->node]; i != 0; i = t->next[i]) {
        if (fabs(value_of(t, i)) < t->least) {
            t->left_out++;
            continue;
        }
        if (!tool_array_reserve(&t->list, &t->list_room, count + 1,
                                sizeof(*t->list)))
            return false;
        t->list[count++] = i;
    }
    if (count != 0)
        qsort_r(t->list, count, sizeof(*t->list), compare_nodes, t);
    if (!tool_array_reserve(&t->step, &t->step_room, t->steps + count,
                            sizeof(*t->step)))
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct figures *one = &t->now[t->list[i]],
                             *all = &t->now[from->node];
        bool folded = from->node != 0 && t->old == NULL &&
                      one->bytes == all->bytes && one->calls == all->calls &&
                      one->live_bytes == all->live_bytes;
        t->step[t->steps++] = (struct step){
            t->list[i], from->depth + 1,
            from->indent + (folded || from->node == 0 ? 0 : 2), folded};
    }
    return true;
}

/* False: no more, or no memory, which is told by t->steps. */
static bool next_step(struct tree *t, struct step *step) {
    if (t->steps == 0)
        return false;
    *step = t->step[--t->steps];
    if (note_children(t, step))
        return true;
    t->steps = SIZE_MAX;
    return false;
}

static bool begin_steps(struct tree *t) {
    return note_children(t, &(struct step){0});
}

/* --- Text ----------------------------------------------------------------- */

static const char *change(char text[40], double now, double before,
                          bool bytes) {
    struct tool_text t;
    uint64_t size = (uint64_t)fabs(now - before);
    snprintf(text, 40, "%s%s",
             now < before   ? "-"
             : now > before ? "+"
                            : "",
             bytes ? tool_text_bytes(&t, size) : tool_text_count(&t, size));
    return text;
}

static void put_figures(const struct tree *t, uint32_t node) {
    const struct figures *f = &t->now[node];
    struct tool_text text[4];
    char changed[4][40];
    if (t->old == NULL) {
        double all = t->now[0].value;
        printf("%10s %13s %10s %13s %6.1f %%  ",
               tool_text_bytes(&text[0], f->bytes),
               tool_text_count(&text[1], f->calls),
               tool_text_bytes(&text[2], f->live_bytes),
               tool_text_count(&text[3], f->live),
               all > 0 ? 100 * f->value / all : 0);
        return;
    }
    const struct figures *g = &t->old[node];
    printf(
        "%11s %14s %11s %14s  ",
        change(changed[0], (double)f->bytes, (double)g->bytes, true),
        change(changed[1], (double)f->calls, (double)g->calls, false),
        change(changed[2], (double)f->live_bytes, (double)g->live_bytes, true),
        change(changed[3], (double)f->live, (double)g->live, false));
}

bool tree_print(const struct stacks *s, const struct print_options *o,
                double share) {
    struct tree t;
    struct step step;
    struct tool_text text;
    size_t lines = 0;
    if (!make(&t, s, o, share))
        return false;
    if (o->diff)
        printf("%11s %14s %11s %14s  %s\n", "bytes", "calls", "live", "blocks",
               "called from the outermost frames on");
    else
        printf("%10s %13s %10s %13s %8s  %s\n", "bytes", "calls", "live",
               "blocks", "share", "called from the outermost frames on");
    put_figures(&t, 0);
    puts("all");
    bool good = begin_steps(&t);
    while (good && lines < o->top && next_step(&t, &step)) {
        if (step.folded)
            printf("%62s%*s> %s\n", "", (int)step.indent, "",
                   stacks_text(s, step.node));
        else {
            put_figures(&t, step.node);
            printf("%*s%s\n", (int)step.indent, "", stacks_text(s, step.node));
        }
        lines++;
    }
    good = good && t.steps != SIZE_MAX;
    if (good && t.steps != 0)
        printf("not all frames are shown; --top=N shows N\n");
    if (good && t.left_out != 0)
        printf("branches with less than %.3g %% are not shown (%s); "
               "--share=0 shows all\n",
               100 * share, tool_text_count(&text, t.left_out));
    fini(&t);
    return good;
}

/* --- JSON ----------------------------------------------------------------- */

bool tree_json(const struct stacks *s, const struct print_options *o,
               double share, struct tool_json *j) {
    struct tree t;
    struct step step;
    if (!make(&t, s, o, share))
        return false;
    tool_json_begin_array(j, "tree");
    bool good = begin_steps(&t);
    while (good && next_step(&t, &step)) {
        const struct figures *f = &t.now[step.node];
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "frame", stacks_text(s, step.node));
        tool_json_u64(j, "depth", step.depth);
        tool_json_u64(j, "bytes", f->bytes);
        tool_json_u64(j, "calls", f->calls);
        tool_json_u64(j, "live_bytes", f->live_bytes);
        tool_json_u64(j, "live_blocks", f->live);
        if (t.old != NULL) {
            f = &t.old[step.node];
            tool_json_u64(j, "old_bytes", f->bytes);
            tool_json_u64(j, "old_calls", f->calls);
            tool_json_u64(j, "old_live_bytes", f->live_bytes);
        }
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
    good = good && t.steps != SIZE_MAX;
    fini(&t);
    return good;
}
