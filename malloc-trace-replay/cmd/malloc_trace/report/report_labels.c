/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/report_labels.h"

#include "base/fmt.h"
#include "common/collections.h"
#include "common/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Names ---------------------------------------------------------------- */

/* "libc.so.6+0x12345"; without module the address. */
static char *place_text(const struct symbol_name *n) {
    char *text = NULL;
    int length = n->module == NULL
                     ? asprintf(&text, "0x%" PRIx64, n->offset)
                     : asprintf(&text, "%s+0x%" PRIx64,
                                tool_file_base(n->module), n->offset);
    return length < 0 ? NULL : text;
}

static char *line_text(const struct symbol_name *n) {
    char *text = NULL;
    if (n->file != NULL && n->line != 0)
        return asprintf(&text, "%s:%u", n->file, n->line) < 0 ? NULL : text;
    if (n->function != NULL)
        return strdup(n->function);
    return n->language == 0 ? place_text(n)
                            : strdup(n->file != NULL ? n->file : "(not known)");
}

static char *whole_text(const struct symbol_name *n) {
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
static char *script_text(const struct symbol_name *n) {
    char *text = NULL, *line = line_text(n);
    if (n->function == NULL || n->file == NULL || line == NULL)
        return line;
    int length = asprintf(&text, "%s (%s)", n->function, line);
    free(line);
    return length < 0 ? NULL : text;
}

/* The function of N, with the file if it has no name of its own: "<module>
   (script.py)", "<lambda> (script.py)". */
static char *function_text(const struct symbol_name *n) {
    char *text = NULL;
    size_t length = strlen(n->function);
    if (n->language == 0 || n->file == NULL || length < 2 ||
        n->function[0] != '<' || n->function[length - 1] != '>')
        return strdup(n->function);
    return asprintf(&text, "%s (%s)", n->function, tool_file_base(n->file)) < 0
               ? NULL
               : text;
}

static const char *language_text(const struct symbol_name *n) {
    static const char *const language[] = {
        [0] = "native",
        [MTF_LANGUAGE_RUBY] = "ruby",
        [MTF_LANGUAGE_PERL] = "perl",
        [MTF_LANGUAGE_PYTHON] = "python",
    };
    return n->language < TCM_ARRAY_SIZE(language) ? language[n->language]
                                                  : "(another language)";
}

static char *text_of(const struct symbol_name *n, enum report_by by) {
    if (n->special != NULL)
        return strdup(n->special);
    switch (by) {
    case REPORT_BY_FUNCTION:
        return n->function != NULL ? function_text(n)
               : n->language != 0  ? line_text(n)
                                   : place_text(n);
    case REPORT_BY_LINE:
        return line_text(n);
    case REPORT_BY_FILE:
        return strdup(n->file != NULL     ? n->file
                      : n->module != NULL ? n->module
                                          : "(no file)");
    case REPORT_BY_MODULE:
        return strdup(n->module != NULL ? n->module : "(no module)");
    case REPORT_BY_LANGUAGE:
        return strdup(language_text(n));
    default:
        return n->language != 0 ? script_text(n) : whole_text(n);
    }
}

/* A name in a trace may have any bytes, but a row is one line and may go to a
   terminal. */
char *report_labels_one_line(char *text) {
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

char *report_labels_name(const struct symbol_name *name, enum report_by by) {
    return report_labels_one_line(text_of(name, by));
}

/* --- Stacks --------------------------------------------------------------- */

/* Iterator over the names of a stack, innermost first. */
struct walk {
    struct symbol_names *names;
    const struct tool_sites *sites;
    uint32_t site;         /* of the next frame */
    unsigned depth;        /* frames so far */
    uint32_t number, left; /* of the next name; names left of this frame */
};

static void walk_init(struct walk *w, struct symbol_names *names,
                      const struct tool_sites *sites, uint32_t site) {
    *w = (struct walk){.names = names, .sites = sites, .site = site};
}

/* False: the last name was the outermost. A site without definition has one
   name. */
static bool walk_next(struct walk *w, uint32_t *number) {
    if (w->left == 0) {
        const struct tool_frame *f = tool_sites_frame(w->sites, w->site);
        if ((f == NULL && w->depth != 0) || w->depth == TOOL_SITE_DEPTH)
            return false;
        w->number = symbol_names_find(w->names, w->site, &w->left);
        w->site = f == NULL ? MTF_SITE_NONE : f->parent;
        w->depth++;
    }
    w->left--;
    *number = w->number++;
    return true;
}

/* --- Labels --------------------------------------------------------------- */

bool report_labels_init(struct report_labels *l, struct report_texts *texts,
                        struct symbol_names *names,
                        const struct tool_sites *sites, enum report_by by,
                        const struct report_skip *skip) {
    *l = (struct report_labels){
        .texts = texts, .names = names, .sites = sites, .by = by};
    return report_frames_init(&l->frames, names, sites, skip,
                              by == REPORT_BY_MODULE);
}

static void free_memo(struct report_labels_memo *m) {
    free(m->of_frame);
    free(m->of_name);
}

void report_labels_fini(struct report_labels *l) {
    report_frames_fini(&l->frames);
    free(l->of_name);
    free_memo(&l->suppressed);
    free_memo(&l->matching);
    free_memo(&l->kept);
    free_memo(&l->beyond);
    free_memo(&l->program);
    free(l->stack);
}

/* Makes room for index NUMBER in *ARRAY, whose new elements are 0. */
static bool reserve_zeroed(void *array, size_t *room, uint32_t number,
                           size_t size) {
    size_t before = *room;
    unsigned char *first;
    if (!tool_array_reserve(array, room, (size_t)number + 1, size))
        return false;
    memcpy(&first, array, sizeof(first));
    memset(first + before * size, 0, (*room - before) * size);
    return true;
}

/* Number of the text of the name NUMBER. */
static uint32_t text_number(struct report_labels *l, uint32_t number) {
    if (!reserve_zeroed(&l->of_name, &l->name_room, number,
                        sizeof(*l->of_name)))
        return REPORT_TEXTS_NONE;
    if (l->of_name[number] != 0)
        return l->of_name[number] - 1;
    char *text = report_labels_name(symbol_names_get(l->names, number), l->by);
    uint32_t label =
        text == NULL ? REPORT_TEXTS_NONE : report_texts_number(l->texts, text);
    free(text);
    if (label != REPORT_TEXTS_NONE)
        l->of_name[number] = label + 1;
    return label;
}

uint32_t report_labels_site(struct report_labels *l, uint32_t site) {
    return text_number(l, report_frames_named(&l->frames, site));
}

uint32_t report_labels_stack(struct report_labels *l, uint32_t site) {
    struct walk w;
    uint32_t number;
    size_t length = 0;
    walk_init(&w, l->names, l->sites, site);
    while (walk_next(&w, &number)) {
        uint32_t label = text_number(l, number);
        if (label == REPORT_TEXTS_NONE)
            return label;
        const char *text = l->texts->text[label];
        size_t n = strlen(text);
        if (!tool_array_reserve(&l->stack, &l->stack_room, length + n + 4, 1))
            return REPORT_TEXTS_NONE;
        if (length != 0) {
            memcpy(l->stack + length, " < ", 3);
            length += 3;
        }
        memcpy(l->stack + length, text, n + 1);
        length += n;
    }
    return report_texts_number(l->texts, l->stack);
}

/* --- Tests of stacks ------------------------------------------------------ */

/* A property of frames, tested by name, once each: many stacks share a name.
   NAME returns 0, or a number that tells why the name has it. */
struct test {
    uint32_t (*name)(struct report_labels *l, const void *pattern,
                     uint32_t number);
    const void *pattern;
    bool inside; /* frames from the first one of the program on do not count */
};

/* Entries of a memo. TESTING: of a frame. */
enum { TESTING = 1, TESTED = 2 /* plus the result */ };

/* True for a crate by which Rust's library and the crate backtrace read debug
   information. A program may use it, too. */
static bool is_symbolizer(const char *name) {
    static const char *const crates[] = {"addr2line", "gimli", "object",
                                         "miniz_oxide", "rustc_demangle"};
    char mangled[24];
    bool is_mangled =
        strncmp(name, "_R", 2) == 0 || strncmp(name, "_ZN", 3) == 0;
    if (!is_mangled && strchr(name, '(') != NULL && name[0] != '<')
        return false; /* C++ */
    const char *path = name + strspn(name, "<&");
    for (size_t i = 0; i < TCM_ARRAY_SIZE(crates); i++) {
        size_t n = strlen(crates[i]);
        snprintf(mangled, sizeof(mangled), "%zu%s", n, crates[i]);
        if (is_mangled ? strstr(name, mangled) != NULL
                       : strncmp(path, crates[i], n) == 0 &&
                             strncmp(path + n, "::", 2) == 0)
            return true;
    }
    return false;
}

/* Not 0 for a frame of the program's own files, not of an installed library or
   interpreter. */
static uint32_t name_is_program(struct report_labels *l, const void *pattern,
                                uint32_t number) {
    static const char *const libraries[] = {"/lib/", "/lib64/", "/usr/lib/",
                                            "/usr/lib64/", "/usr/local/lib/"};
    const struct symbol_name *n = symbol_names_get(l->names, number);
    enum report_frame_class class = report_frame_class(n, l->sites->has_lines);
    (void)pattern;
    if (class == REPORT_FRAME_SYSTEM ||
        (n->function != NULL && is_symbolizer(n->function)))
        return 0;
    /* code of a module itself, <module>, runs once, when it is imported; a
       comprehension belongs to what it is in */
    if (class == REPORT_FRAME_PACKAGE && n->function != NULL &&
        n->function[0] == '<' && strncmp(n->function, "<lambda", 7) != 0)
        return 0;
    for (size_t i = 0; n->module != NULL && i < TCM_ARRAY_SIZE(libraries); i++)
        if (strncmp(n->module, libraries[i], strlen(libraries[i])) == 0)
            return 0;
    return 1;
}

/* Returns what TEST returns for the name NUMBER. */
static uint32_t name_passes(struct report_labels *l, const struct test *test,
                            struct report_labels_memo *memo, uint32_t number) {
    bool kept = reserve_zeroed(&memo->of_name, &memo->name_room, number,
                               sizeof(*memo->of_name));
    if (kept && memo->of_name[number] != 0)
        return memo->of_name[number] - TESTED;
    uint32_t why = test->name(l, test->pattern, number);
    if (kept)
        memo->of_name[number] = TESTED + why;
    return why;
}

/* Tests the names of SITE's frame. Sets *STOP if callers do not count. */
static uint32_t frame_passes(struct report_labels *l, const struct test *test,
                             struct report_labels_memo *memo, uint32_t site,
                             bool *stop) {
    static const struct test program = {.name = name_is_program};
    unsigned count;
    uint32_t number = symbol_names_find(l->names, site, &count);
    *stop = false;
    for (; count != 0 && !*stop; count--, number++) {
        uint32_t why = name_passes(l, test, memo, number);
        if (why != 0)
            return why;
        *stop =
            test->inside && name_passes(l, &program, &l->program, number) != 0;
    }
    return 0;
}

/* Returns what TEST returns for the innermost frame of SITE's stack that passes
   it; 0: none does. TEST is the same one for MEMO. */
static uint32_t stack_passes(struct report_labels *l, const struct test *test,
                             struct report_labels_memo *memo, uint32_t site) {
    uint32_t stack[TOOL_SITE_DEPTH];
    unsigned depth = 0;
    uint32_t why = 0;
    size_t at;
    if (memo->of_frame == NULL)
        memo->of_frame = calloc(l->sites->frames + 1, sizeof(*memo->of_frame));
    uint32_t *known = memo->of_frame;
    for (; depth < TOOL_SITE_DEPTH &&
           (at = tool_sites_place(l->sites, site)) != SIZE_MAX;
         site = l->sites->frame[at].parent) {
        /* A frame that is being tested is in this stack: a circle. */
        if (known != NULL && known[at] != 0) {
            why = known[at] == TESTING ? 0 : known[at] - TESTED;
            break;
        }
        if (known != NULL)
            known[at] = TESTING;
        stack[depth++] = site;
    }
    while (depth-- > 0) {
        bool stop;
        uint32_t own = frame_passes(l, test, memo, stack[depth], &stop);
        why = own != 0 ? own : stop ? 0 : why;
        if (known != NULL)
            known[tool_sites_place(l->sites, stack[depth])] = TESTED + why;
    }
    return why;
}

/* Index plus 1 of the pattern for function, file or module of a name. */
static uint32_t name_is_suppressed(struct report_labels *l, const void *pattern,
                                   uint32_t number) {
    const struct report_suppressions *s = pattern;
    const struct symbol_name *n = symbol_names_get(l->names, number);
    const char *const text[] = {n->function, n->file, n->module};
    const struct report_suppression *found = NULL;
    for (size_t i = 0; found == NULL && i < TCM_ARRAY_SIZE(text); i++)
        found = report_suppressions_match(s, text[i]);
    return found == NULL ? 0 : (uint32_t)(found - s->at) + 1;
}

struct report_suppression *
report_labels_suppressed(struct report_labels *l,
                         const struct report_suppressions *s, uint32_t site) {
    const struct test test = {.name = name_is_suppressed, .pattern = s};
    uint32_t why =
        s->count == 0 ? 0 : stack_passes(l, &test, &l->suppressed, site);
    return why == 0 ? NULL : &s->at[why - 1];
}

/* Not 0 if a name is not of a runtime library, or stands for frames that are
   not known. */
static uint32_t name_is_beyond(struct report_labels *l, const void *pattern,
                               uint32_t number) {
    const struct symbol_name *n = symbol_names_get(l->names, number);
    (void)pattern;
    return n->special != NULL ||
           report_frame_class(n, l->sites->has_lines) != REPORT_FRAME_SYSTEM;
}

bool report_labels_kept(struct report_labels *l,
                        const struct report_suppressions *s, uint32_t site,
                        struct report_suppression **by) {
    const struct test test = {
        .name = name_is_suppressed, .pattern = s, .inside = true};
    const struct test beyond = {.name = name_is_beyond};
    *by = NULL;
    if (tool_sites_frame(l->sites, site) == NULL)
        return false;
    uint32_t why = stack_passes(l, &test, &l->kept, site);
    if (why != 0)
        *by = &s->at[why - 1];
    return why != 0 || (l->sites->mode.mode != MTF_SITE_MODE_CALLER &&
                        stack_passes(l, &beyond, &l->beyond, site) == 0);
}

static uint32_t name_matches(struct report_labels *l, const void *pattern,
                             uint32_t number) {
    const struct symbol_name *n = symbol_names_get(l->names, number);
    uint32_t label = text_number(l, number);
    const char *text[] = {n->function, n->file, n->module,
                          label == REPORT_TEXTS_NONE ? NULL
                                                     : l->texts->text[label]};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(text); i++)
        if (text[i] != NULL && regexec(pattern, text[i], 0, NULL, 0) == 0)
            return 1;
    return 0;
}

bool report_labels_match(struct report_labels *l, const regex_t *match,
                         uint32_t site) {
    const struct test test = {.name = name_matches, .pattern = match};
    return stack_passes(l, &test, &l->matching, site) != 0;
}

/* --- Texts ---------------------------------------------------------------- */

static uint64_t hash_of(struct report_texts *t, const char *text) {
    if (t->seed == 0)
        t->seed = tool_hash_seed() | 1;
    uint64_t h = t->seed;
    for (; *text != '\0'; text++)
        h = tool_hash(h ^ (uint8_t)*text, t->seed);
    return h | 1;
}

uint32_t report_texts_number(struct report_texts *t, const char *text) {
    for (uint64_t hash = hash_of(t, text);; hash += 2) {
        struct tool_map_entry *e = tool_map_get(&t->place, hash);
        if (e == NULL)
            return REPORT_TEXTS_NONE;
        if (e->value != 0 && strcmp(t->text[e->value - 1], text) == 0)
            return (uint32_t)e->value - 1;
        if (e->value != 0)
            continue;
        if (t->count == REPORT_TEXTS_NONE - 1 ||
            !tool_array_reserve(&t->text, &t->room, t->count + 1,
                                sizeof(*t->text)) ||
            (t->text[t->count] = strdup(text)) == NULL)
            return REPORT_TEXTS_NONE;
        e->value = ++t->count;
        return (uint32_t)t->count - 1;
    }
}

void report_texts_fini(struct report_texts *t) {
    for (size_t i = 0; i < t->count; i++)
        free(t->text[i]);
    free(t->text);
    tool_map_fini(&t->place);
    *t = (struct report_texts){0};
}
