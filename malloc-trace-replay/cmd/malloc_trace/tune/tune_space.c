/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/tune/tune_space.h"

#include "base/check.h"
#include "common/collections.h"
#include "common/main.h"

#include <stdlib.h>
#include <string.h>

static bool is_word(const struct tool_setting *s) {
    return s->kind == SETTING_SWITCH || s->kind == SETTING_WORD;
}

/* --- Dimensions ----------------------------------------------------------- */

static int compare_values(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Writes value I of the list of S: one of its values, or the table's default
   behind them. false: there are fewer. */
static bool listed_value(const struct tool_setting *s, unsigned i,
                         char text[TUNE_TEXT]) {
    const char *at = s->values;
    for (; i != 0 && *at != '\0'; i--) {
        at += strcspn(at, ",");
        at += *at != '\0';
    }
    if (*at == '\0')
        at = i == 0 ? s->unset : "";
    snprintf(text, TUNE_TEXT, "%.*s", (int)strcspn(at, ","), at);
    return text[0] != '\0';
}

static void make_dimension(struct tune_dimension *d,
                           const struct tool_setting *s, const char *unset) {
    char text[TUNE_TEXT];
    *d = (struct tune_dimension){.setting = s, .unset = unset};
    for (unsigned i = 0; listed_value(s, i, text); i++) {
        if (strcmp(text, unset) == 0)
            continue;
        TCM_ASSERT(d->values < TUNE_MOST_VALUES);
        d->value[d->values++] = is_word(s) ? i : strtoll(text, NULL, 10);
    }
    qsort(d->value, d->values, sizeof(d->value[0]), compare_values);
}

static bool has_setting(const struct tune_allocator *a,
                        const struct tool_setting *s) {
    for (unsigned d = 0; d < a->dimensions; d++)
        if (strcmp(a->dimension[d].setting->setting, s->setting) == 0)
            return true;
    return false;
}

bool tune_space_add(struct tune_space *space, const char *name,
                    const struct tune_library *library,
                    const struct tool_setting *table, size_t count) {
    if (!tool_array_reserve(&space->allocator, &space->room,
                            space->allocators + 1, sizeof(*space->allocator)))
        return tool_out_of_memory();
    struct tune_allocator *a = &space->allocator[space->allocators++];
    memset(a, 0, sizeof(*a));
    a->name = name;
    unsigned version = tool_setting_version(library->version);
    /* rows of the library's version, then those that it says it has */
    for (size_t i = 0; library->known != NULL && i < 2 * count; i++) {
        const struct tool_setting *s = &table[i % count];
        const char *told = tool_setting_told(s, library->told, library->tolds);
        bool is_in = i < count ? tool_setting_is_in(s, version) : told != NULL;
        if (strcmp(s->allocator, library->known) != 0 || !is_in ||
            (told != NULL && told[0] == '\0') || has_setting(a, s))
            continue;
        TCM_ASSERT(a->dimensions < TUNE_MOST_DIMENSIONS);
        make_dimension(&a->dimension[a->dimensions], s,
                       told != NULL ? told : s->unset);
        a->dimensions += a->dimension[a->dimensions].values != 0;
    }
    return true;
}

void tune_space_free(struct tune_space *space) {
    free(space->allocator);
    memset(space, 0, sizeof(*space));
}

static const struct tune_dimension *dimension_of(const struct tune_space *space,
                                                 const struct tune_point *p,
                                                 unsigned d) {
    TCM_ASSERT(p->allocator < space->allocators &&
               d < space->allocator[p->allocator].dimensions);
    return &space->allocator[p->allocator].dimension[d];
}

void tune_space_print(const struct tune_allocator *a, FILE *out) {
    char text[TUNE_TEXT];
    for (unsigned d = 0; d < a->dimensions; d++) {
        const struct tune_dimension *dim = &a->dimension[d];
        const struct tool_setting *s = dim->setting;
        fprintf(out, "  %-44s %-10s", s->setting,
                dim->unset[0] == '\0' ? "-" : dim->unset);
        for (unsigned i = 0; listed_value(s, i, text); i++)
            if (strcmp(text, dim->unset) != 0)
                fprintf(out, " %s", text);
        fprintf(out, "\n      %s%s\n", s->kind == SETTING_TIME ? "ms: " : "",
                s->meaning);
    }
}

/* --- Neighbours ----------------------------------------------------------- */

struct neighbours {
    int64_t *out;
    unsigned count;
    int64_t here;
    bool has_default;
    int64_t unset;
};

static void add_neighbour(struct neighbours *n, int64_t value) {
    if (value == n->here || (n->has_default && value == n->unset))
        return;
    for (unsigned i = 0; i < n->count; i++)
        if (n->out[i] == value)
            return;
    if (n->count < TUNE_MOST_NEIGHBOURS)
        n->out[n->count++] = value;
}

/* Adds HERE times and by FACTOR, if that is in the range. */
static void add_steps(struct neighbours *n, const struct tool_setting *s,
                      int64_t factor) {
    if (n->here < s->low || n->here > s->high)
        return;
    if (n->here <= s->high / factor)
        add_neighbour(n, n->here * factor);
    if (n->here / factor >= s->low)
        add_neighbour(n, n->here / factor);
}

unsigned tune_space_neighbours(const struct tune_space *space,
                               const struct tune_point *p, unsigned d,
                               int64_t out[TUNE_MOST_NEIGHBOURS]) {
    const struct tune_dimension *dimension = dimension_of(space, p, d);
    const struct tool_setting *s = dimension->setting;
    struct neighbours n = {.out = out, .here = INT64_MIN};
    bool knows = tune_point_has(p, d);
    if (!is_word(s) && dimension->unset[0] != '\0') {
        n.has_default = true;
        n.unset = strtoll(dimension->unset, NULL, 10);
    }
    if (knows)
        n.here = p->value[d];
    else if (n.has_default)
        n.here = n.unset;
    if (is_word(s) || n.here == INT64_MIN) {
        for (unsigned i = 0; i < dimension->values; i++)
            add_neighbour(&n, dimension->value[i]);
        return n.count;
    }
    for (unsigned i = 0; i < dimension->values; i++) {
        bool below =
            dimension->value[i] < n.here &&
            (i + 1 == dimension->values || dimension->value[i + 1] >= n.here);
        bool above = dimension->value[i] > n.here &&
                     (i == 0 || dimension->value[i - 1] <= n.here);
        if (below || above)
            add_neighbour(&n, dimension->value[i]);
    }
    add_steps(&n, s, s->step);
    if (s->step > 2)
        add_steps(&n, s, 2);
    return n.count;
}

/* --- Points --------------------------------------------------------------- */

void tune_point_set(struct tune_point *p, unsigned d, int64_t value) {
    TCM_ASSERT(d < TUNE_MOST_DIMENSIONS);
    p->set |= 1u << d;
    p->value[d] = value;
}

void tune_point_unset(struct tune_point *p, unsigned d) {
    TCM_ASSERT(d < TUNE_MOST_DIMENSIONS);
    p->set &= ~(1u << d);
    p->value[d] = 0;
}

const char *tune_point_value(const struct tune_space *space,
                             const struct tune_point *p, unsigned d,
                             char text[TUNE_TEXT]) {
    const struct tool_setting *s = dimension_of(space, p, d)->setting;
    TCM_ASSERT(tune_point_has(p, d));
    if (!is_word(s)) {
        snprintf(text, TUNE_TEXT, "%lld", (long long)p->value[d]);
        return text;
    }
    (void)listed_value(s, (unsigned)p->value[d], text);
    return text;
}

const char *tune_point_setting(const struct tune_space *space,
                               const struct tune_point *p, unsigned d,
                               char text[TUNE_TEXT]) {
    char value[TUNE_TEXT];
    snprintf(text, TUNE_TEXT, "%.80s%.60s",
             dimension_of(space, p, d)->setting->setting,
             tune_point_value(space, p, d, value));
    return text;
}

const char *tune_point_name(const struct tune_space *space,
                            const struct tune_point *p, char name[TUNE_NAME]) {
    static const char *const shared[] = {"GLIBC_TUNABLES=glibc.malloc.",
                                         "MALLOC_CONF="};
    const struct tune_allocator *a = &space->allocator[p->allocator];
    char text[TUNE_TEXT];
    int used = snprintf(name, TUNE_NAME, "%.200s", a->name);
    for (unsigned d = 0; d < a->dimensions; d++) {
        if (!tune_point_has(p, d))
            continue;
        const char *shown = tune_point_setting(space, p, d, text);
        for (size_t i = 0; i < TCM_ARRAY_SIZE(shared); i++)
            if (strncmp(text, shared[i], strlen(shared[i])) == 0)
                shown = text + strlen(shared[i]);
        if (used < TUNE_NAME)
            used +=
                snprintf(name + used, TUNE_NAME - (size_t)used, ",%s", shown);
    }
    return name;
}
