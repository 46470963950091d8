/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_contestants.h"

#include "base/check.h"
#include "base/fmt.h"
#include "common/allocator_settings.h"
#include "common/allocators.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/main.h"
#include "common/shared_library.h"
#include "common/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Names of this project's allocator ------------------------------------ */

/* Returns the settings (",VARIABLE=VALUE") behind either name of this project's
   allocator, which NAME begins with; NULL: NAME is another contestant's. */
static const char *own_settings(const char *name) {
    static const char *const own[] = {TOOL_ALLOCATOR_OWN,
                                      TOOL_ALLOCATOR_OWN_OLD};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(own); i++) {
        size_t n = strlen(own[i]);
        if (strncmp(name, own[i], n) == 0 &&
            (name[n] == '\0' || name[n] == ','))
            return name + n;
    }
    return NULL;
}

/* --- One contestant ------------------------------------------------------- */

bool compare_contestant_is_named(const struct compare_contestant *c,
                                 const char *name) {
    const char *a = own_settings(c->name), *b = own_settings(name);
    return strcmp(c->name, name) == 0 ||
           (a != NULL && b != NULL && strcmp(a, b) == 0);
}

size_t compare_contestants_find(const struct compare_contestants *all,
                                const char *name) {
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->list[i].name, name) == 0)
            return i;
    for (size_t i = 0; i < all->count; i++)
        if (compare_contestant_is_named(&all->list[i], name))
            return i;
    return SIZE_MAX;
}

bool compare_contestant_is_like(const struct compare_contestant *a,
                                const struct compare_contestant *b) {
    bool alike =
        strcmp(tool_file_base(a->library), tool_file_base(b->library)) == 0 &&
        a->envs == b->envs;
    for (size_t i = 0; alike && i < a->envs; i++)
        alike = strcmp(a->env[i], b->env[i]) == 0;
    return alike;
}

bool compare_contestant_is_own(const struct compare_contestant *c) {
    return c->library[0] != '\0' && tool_allocator_is_own_library(c->library);
}

/* Returns the allocator of the table of settings that TEXT, a name, contains.
   "tcmalloc" is none: several allocators are called so. */
static const char *known_in(const char *text) {
    size_t count;
    const struct tool_setting *s = tool_settings(&count);
    for (size_t i = 0; i < count; i++)
        if (strstr(text, s[i].allocator) != NULL)
            return s[i].allocator;
    return NULL;
}

const char *compare_contestant_known(const struct compare_contestant *c) {
    const char *file = tool_file_base(c->library);
    if (c->library[0] == '\0')
        return known_in(TOOL_ALLOCATOR_C_LIBRARY);
    if (compare_contestant_is_own(c))
        return TOOL_ALLOCATOR_OWN;
    const char *known = known_in(c->name);
    if (known == NULL)
        known = known_in(file);
    if (known == NULL)
        known = c->is == NULL ? NULL : known_in(c->is);
    return known == NULL && c->is == NULL && strstr(file, "tcmalloc") != NULL
               ? "gperftools"
               : known;
}

const char *compare_contestant_shown(const struct compare_contestant *c) {
    return tool_text_shown(c->name);
}

void compare_contestant_put_environment(const struct compare_contestant *c,
                                        FILE *out) {
    if (c->library[0] != '\0') {
        fputs("LD_PRELOAD=", out);
        tool_shell_put_word(out, c->library);
        fputc(' ', out);
    }
    for (size_t e = 0; e < c->envs; e++) {
        /* a word that is quoted from its first letter sets no variable */
        size_t name = strcspn(c->env[e], "=");
        char text[256];
        snprintf(text, sizeof(text), "%.*s", (int)name, c->env[e]);
        fprintf(out, "%s=", tool_text_shown(text));
        tool_shell_put_word(out, c->env[e] + name + 1);
        fputc(' ', out);
    }
}

void compare_contestant_exclude(struct compare_contestant *c, const char *fmt,
                                ...) {
    char text[512];
    va_list ap;
    if (c->why != NULL)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    c->why = strdup(text);
}

void compare_contestant_failed(struct compare_contestant *c, const char *why) {
    if (c->failures++ == 0)
        c->failure = strdup(why);
}

static void contestant_free(struct compare_contestant *c) {
    for (size_t i = 0; i < c->envs; i++)
        free(c->env[i]);
    free(c->env);
    free(c->name);
    free(c->library);
    free(c->why);
    free(c->failure);
    free(c->is);
    for (size_t i = 0; i < c->tolds; i++)
        free(c->told[i]);
    free(c->told);
    tool_preload_unlink(c->link);
}

size_t compare_contestants_taking_part(const struct compare_contestants *all) {
    size_t n = 0;
    for (size_t i = 0; i < all->count; i++)
        n += all->list[i].why == NULL;
    return n;
}

void compare_contestants_free(struct compare_contestants *all) {
    for (size_t i = 0; i < all->count; i++)
        contestant_free(&all->list[i]);
    free(all->list);
    memset(all, 0, sizeof(*all));
}

/* The character between two settings in the value of a variable. */
static char separator_of(const char *variable, size_t length) {
    static const char glibc[] = "GLIBC_TUNABLES";
    return length == sizeof(glibc) - 1 && memcmp(variable, glibc, length) == 0
               ? ':'
               : ',';
}

static size_t name_length(const char *text) {
    size_t n = 0;
    if (isalpha((unsigned char)text[0]) || text[0] == '_')
        while (isalnum((unsigned char)text[n]) || text[n] == '_')
            n++;
    return text[n] == '=' ? n : 0;
}

/* Sets VARIABLE=VALUE, or adds VALUE to the list that the variable holds. */
static bool set_variable(struct compare_contestant *c, const char *text,
                         size_t length) {
    size_t name = name_length(text);
    for (size_t i = 0; i < c->envs; i++) {
        if (strncmp(c->env[i], text, name + 1) != 0)
            continue;
        char *more;
        if (asprintf(&more, "%s%c%.*s", c->env[i], separator_of(text, name),
                     (int)(length - name - 1), text + name + 1) < 0)
            return tool_out_of_memory();
        free(c->env[i]);
        c->env[i] = more;
        return true;
    }
    char **more = realloc(c->env, (c->envs + 1) * sizeof(*more));
    if (more == NULL)
        return tool_out_of_memory();
    c->env = more;
    c->env[c->envs] = strndup(text, length);
    if (c->env[c->envs] == NULL)
        return tool_out_of_memory();
    c->envs++;
    return true;
}

/* Length of the setting that TEXT begins with: it ends at a comma before
   another variable, or with TEXT. */
static size_t setting_length(const char *text) {
    size_t n = 0;
    for (;;) {
        n += strcspn(text + n, ",");
        if (text[n] == '\0' || name_length(text + n + 1) != 0)
            return n;
        n++;
    }
}

static bool set_variables(struct compare_contestant *c, const char *text) {
    while (*text != '\0') {
        size_t n = setting_length(text);
        if (name_length(text) == 0) {
            (void)tool_usage_error("-a: \"%s\" is not VARIABLE=VALUE", text);
            return false;
        }
        if (!set_variable(c, text, n))
            return false;
        text += n + (text[n] != '\0');
    }
    return true;
}

/* Adds a contestant, of which only the name is set. */
static struct compare_contestant *
append_contestant(struct compare_contestants *all, const char *name,
                  size_t length) {
    /* a plan in JSON carries the name */
    for (size_t i = 0, n; i < length; i += n) {
        n = tcm_utf8_length((const uint8_t *)name + i, length - i);
        if (n == 0) {
            (void)tool_usage_error("-a: \"%.*s\" is not a name in UTF-8",
                                   (int)length, name);
            return NULL;
        }
    }
    if (!tool_array_reserve(&all->list, &all->room, all->count + 1,
                            sizeof(*all->list))) {
        (void)tool_out_of_memory();
        return NULL;
    }
    struct compare_contestant *c = &all->list[all->count];
    memset(c, 0, sizeof(*c));
    c->name = strndup(name, length);
    if (c->name == NULL) {
        (void)tool_out_of_memory();
        return NULL;
    }
    for (size_t i = 0; i < all->count; i++) {
        if (strcmp(all->list[i].name, c->name) != 0)
            continue;
        (void)tool_usage_error("-a: \"%s\" is the name of two "
                               "contestants; names must differ",
                               c->name);
        free(c->name);
        return NULL;
    }
    all->count++;
    TCM_ASSERT(compare_contestants_find(all, c->name) == all->count - 1);
    return c;
}

static bool set_library(struct compare_contestant *c, const char *path) {
    c->library = strdup(path);
    return c->library != NULL || tool_out_of_memory();
}

bool compare_contestants_add_plain(struct compare_contestants *all,
                                   const char *name, const char *library) {
    const char *settings = own_settings(name);
    char *own = NULL;
    if (settings != NULL &&
        asprintf(&own, TOOL_ALLOCATOR_OWN "%s", settings) < 0)
        return tool_out_of_memory();
    if (own != NULL)
        name = own;
    struct compare_contestant *c = append_contestant(all, name, strlen(name));
    free(own);
    return c != NULL && set_library(c, library);
}

bool compare_contestant_set(struct compare_contestant *c, const char *setting) {
    return name_length(setting) != 0 &&
           set_variable(c, setting, strlen(setting));
}

bool compare_contestants_add(struct compare_contestants *all,
                             const char *text) {
    char path[PATH_MAX];
    size_t length = strcspn(text, "=,");
    if (length == 0) {
        (void)tool_usage_error("-a: \"%s\" is not NAME or NAME=LIBRARY", text);
        return false;
    }
    const char *rest = text + length;
    bool is_own = *rest != '=' && own_settings(text) != NULL;
    struct compare_contestant *c =
        is_own ? append_contestant(all, TOOL_ALLOCATOR_OWN,
                                   strlen(TOOL_ALLOCATOR_OWN))
               : append_contestant(all, text, length);
    if (c == NULL)
        return false;
    if (*rest != '=') {
        enum tool_allocator_found there = tool_allocator_find(c->name, path);
        if (there == TOOL_ALLOCATOR_UNKNOWN) {
            char names[400];
            (void)tool_usage_error("-a: \"%s\" is not a known allocator "
                                   "(installed are %s); for others give "
                                   "NAME=LIBRARY",
                                   c->name, tool_allocators_installed(names));
            return false;
        }
        if (there == TOOL_ALLOCATOR_MISSING)
            compare_contestant_exclude(c, "it is not installed");
        return set_library(c,
                           there == TOOL_ALLOCATOR_MISSING ? c->name : path) &&
               set_variables(c, *rest == ',' ? rest + 1 : rest);
    }
    char *file = strndup(rest + 1, strcspn(rest + 1, ","));
    if (file == NULL)
        return tool_out_of_memory();
    rest += 1 + strlen(file);
    enum tool_allocator_found there = TOOL_ALLOCATOR_UNKNOWN;
    if (strchr(file, '/') == NULL)
        there = tool_allocator_find(file, path);
    if (there == TOOL_ALLOCATOR_UNKNOWN && file[0] == '\0') {
        path[0] = '\0';
    } else if (there == TOOL_ALLOCATOR_UNKNOWN &&
               !tool_allocator_find_file(file, path)) {
        compare_contestant_exclude(c, "there is no library %s", file);
        snprintf(path, sizeof(path), "%s", file);
    } else if (there == TOOL_ALLOCATOR_MISSING) {
        compare_contestant_exclude(c, "%s is not installed", file);
        snprintf(path, sizeof(path), "%s", file);
    }
    free(file);
    return set_library(c, path) &&
           set_variables(c, *rest == ',' ? rest + 1 : rest);
}

bool compare_contestants_take(void *ctx, const char *text) {
    return compare_contestants_add(ctx, text);
}

bool compare_contestants_add_known(struct compare_contestants *all) {
    char path[PATH_MAX];
    const char *name;
    if (!compare_contestants_add(all, TOOL_ALLOCATOR_C_LIBRARY) ||
        !compare_contestants_add(all, TOOL_ALLOCATOR_OWN))
        return false;
    for (size_t i = 0; (name = tool_allocator_known(i)) != NULL; i++)
        if (tool_allocator_find(name, path) == TOOL_ALLOCATOR_FOUND &&
            !compare_contestants_add(all, name))
            return false;
    return true;
}

/* --- Settings ------------------------------------------------------------- */

/* Adds a contestant like number FROM, with SETTING (VARIABLE=VALUE) of LENGTH
   bytes in its environment and in its name. */
static bool add_variant(struct compare_contestants *all, size_t from,
                        const char *setting, size_t length) {
    const char *shown = setting;
    char *name;
    /* a part that all names of this variable share is left out */
    static const char common[] = "GLIBC_TUNABLES=glibc.malloc.";
    if (strncmp(setting, common, sizeof(common) - 1) == 0)
        shown += sizeof(common) - 1;
    else if (strncmp(setting, "MALLOC_CONF=", 12) == 0)
        shown += 12;
    if (asprintf(&name, "%s,%.*s", all->list[from].name,
                 (int)(length - (size_t)(shown - setting)), shown) < 0)
        return tool_out_of_memory();
    struct compare_contestant *c = append_contestant(all, name, strlen(name));
    free(name);
    if (c == NULL || !set_library(c, all->list[from].library))
        return false;
    const struct compare_contestant *old = &all->list[from];
    if (old->why != NULL)
        compare_contestant_exclude(c, "%s", old->why);
    for (size_t i = 0; i < old->envs; i++)
        if (!set_variable(c, old->env[i], strlen(old->env[i])))
            return false;
    return set_variable(c, setting, length);
}

/* Length of the setting's name in VALUE, which later values may leave out:
   "glibc.malloc.mxfast=" in GLIBC_TUNABLES=glibc.malloc.mxfast=0,64, "narenas:"
   in MALLOC_CONF=narenas:1,2. */
static size_t key_length(const char *value) {
    size_t n = strcspn(value, ",");
    for (size_t i = n; i > 0; i--)
        if (value[i - 1] == '=' || value[i - 1] == ':')
            return i;
    return 0;
}

bool compare_contestants_sweep(struct compare_contestants *all,
                               const char *text) {
    size_t name = name_length(text);
    char setting[1024];
    if (name == 0 || text[name + 1] == '\0') {
        (void)tool_usage_error("--sweep: \"%s\" is not VARIABLE=VALUE,...",
                               text);
        return false;
    }
    const char *first = text + name + 1;
    size_t before = all->count, key = key_length(first);
    for (size_t i = 0; i < before; i++) {
        for (const char *value = first; *value != '\0';) {
            size_t n = strcspn(value, ",");
            bool has_key = key_length(value) != 0;
            int used = snprintf(setting, sizeof(setting), "%.*s%.*s%.*s",
                                (int)name + 1, text, has_key ? 0 : (int)key,
                                first, (int)n, value);
            if (used >= (int)sizeof(setting)) {
                (void)tool_usage_error("--sweep: a value is too long");
                return false;
            }
            if (!add_variant(all, i, setting, (size_t)used))
                return false;
            value += n + (value[n] != '\0');
        }
    }
    /* the variants replace the contestants that they were made from */
    for (size_t i = 0; i < before; i++)
        contestant_free(&all->list[i]);
    all->count -= before;
    memmove(all->list, all->list + before, all->count * sizeof(*all->list));
    return true;
}

/* --- Running under one ---------------------------------------------------- */

bool compare_contestant_prepare(struct compare_contestant *c) {
    if (c->library[0] == '\0' || c->preload[0] != '\0')
        return true;
    snprintf(c->preload, sizeof(c->preload), "%s", c->library);
    return tool_preload_link(c->preload, c->link);
}

bool compare_contestant_enter(void *ctx) {
    const struct compare_contestant_environment *e = ctx;
    const struct compare_contestant *c = e->of;
    const char *old = e->keep_preload ? getenv("LD_PRELOAD") : NULL;
    /* a program linked with another allocator uses the C library's only if
       that library is searched first */
    const char *own =
        e->keep_preload && c->library[0] == '\0' ? "libc.so.6" : c->preload;
    char *list = NULL;
    if (old == NULL)
        old = "";
    if (asprintf(&list, "%s%s%s", own,
                 own[0] != '\0' && *old != '\0' ? ":" : "", old) < 0)
        return false;
    bool good = *list != '\0' ? setenv("LD_PRELOAD", list, 1) == 0
                              : unsetenv("LD_PRELOAD") == 0;
    free(list);
    for (size_t i = 0; i < c->envs; i++) {
        size_t n = strcspn(c->env[i], "=");
        char *name = strndup(c->env[i], n);
        good = good && name != NULL && setenv(name, c->env[i] + n + 1, 1) == 0;
        free(name);
    }
    return good;
}

bool compare_contestant_run(const struct compare_contestant *c,
                            bool keep_preload,
                            const struct tool_child_spec *what,
                            uint64_t limit_ns, struct tool_child_end *end) {
    struct compare_contestant_environment e = {.of = c,
                                               .keep_preload = keep_preload};
    struct tool_child_spec under = *what;
    under.prepare = compare_contestant_enter;
    under.ctx = &e;
    under.signals = TOOL_CHILD_STOPS;
    under.dies_with_parent = true;
    return tool_child_run(&under, limit_ns, end);
}
