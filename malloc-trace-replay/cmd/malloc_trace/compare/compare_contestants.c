/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_contestants.h"

#include "base/check.h"
#include "base/fmt.h"
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
#include <unistd.h>

/* --- Known allocators ----------------------------------------------------- */

/* File names, the newest version first. This project's library may have been
   installed under gperftools' name (--enable-gperftools-soname): is_own_library
   tells them apart. */
static const struct {
    const char *name;
    const char *file[4];
} known[] = {
    {"jemalloc", {"libjemalloc.so.2", "libjemalloc.so.1"}},
    {"mimalloc",
     {"libmimalloc.so.3", "libmimalloc.so.2", "libmimalloc.so.2.0"}},
    {"gperftools", {"libtcmalloc_minimal.so.4", "libtcmalloc.so.4"}},
    {"snmalloc", {"libsnmallocshim.so", "libsnmallocshim-rust.so"}},
    {"rpmalloc", {"librpmallocwrap.so", "librpmalloc.so"}},
    {"tbbmalloc", {"libtbbmalloc_proxy.so.2"}},
    {"hardened_malloc",
     {"libhardened_malloc.so", "libhardened_malloc-light.so"}},
    {"scudo", {"libscudo.so", "libclang_rt.scudo_standalone-x86_64.so"}},
    {"mesh", {"libmesh.so"}},
    {"hoard", {"libhoard.so"}},
    {"lockless", {"libllalloc.so.1.3"}},
    {"scalloc", {"libscalloc.so"}},
    {"supermalloc", {"libsupermalloc.so", "libsupermalloc_pthread.so"}},
    {"umem", {"libumem_malloc.so.1"}},
    {"jemalloc-dev", {"libjemalloc-dev.so.2"}},
};

#define OWN_NAME       TCM_ALLOCATOR_NAME
#define C_LIBRARY_NAME "glibc"
/* OWN_NAME in command lines, plans and results of older versions. */
#define OWN_OLD_NAME "malloc-trace"

/* Returns the settings (",VARIABLE=VALUE") behind either name of this project's
   allocator, which NAME begins with; NULL: NAME is another contestant's. */
static const char *own_settings(const char *name) {
    static const char *const own[] = {OWN_NAME, OWN_OLD_NAME};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(own); i++) {
        size_t n = strlen(own[i]);
        if (strncmp(name, own[i], n) == 0 &&
            (name[n] == '\0' || name[n] == ','))
            return name + n;
    }
    return NULL;
}

bool compare_contestants_is_own_name(const char *name) {
    const char *rest = own_settings(name);
    return rest != NULL && *rest == '\0';
}

static const char *const folders[] = {"/usr/local/lib",
                                      "/usr/local/lib64",
                                      "/usr/lib/x86_64-linux-gnu",
                                      "/usr/lib/aarch64-linux-gnu",
                                      "/usr/lib64",
                                      "/usr/lib",
                                      "/lib"};

static bool is_readable_in(const char *folder, size_t length, const char *file,
                           char path[PATH_MAX]) {
    char try[PATH_MAX];
    int n = snprintf(try, sizeof(try), "%.*s/%s", (int)length, folder, file);
    return n > 0 && n < PATH_MAX && realpath(try, path) != NULL &&
           access(path, R_OK) == 0;
}

/* Searches FILE in about the places where the loader would. */
static bool find_library_file(const char *file, char path[PATH_MAX]) {
    if (strchr(file, '/') != NULL)
        return realpath(file, path) != NULL && access(path, R_OK) == 0;
    const char *list = getenv("LD_LIBRARY_PATH");
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ":;");
        if (length != 0 && is_readable_in(list, length, file, path))
            return true;
        list += length + (list[length] != '\0');
    }
    for (size_t i = 0; i < TCM_ARRAY_SIZE(folders); i++)
        if (is_readable_in(folders[i], strlen(folders[i]), file, path))
            return true;
    return false;
}

/* Tells whether PATH is a library of this project. */
static bool is_own_library(const char *path) {
    char own[PATH_MAX];
    static const char *const name[] = {TOOL_LIBRARY, TOOL_RECORDING_LIBRARY};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(name); i++)
        if (tool_own_library_find(name[i], own) && strcmp(own, path) == 0)
            return true;
    return false;
}

/* Finds the library of the known allocator NAME; "" is the C library. 0: it is
   not known, -1: it is not installed. */
static int find_known_library(const char *name, char path[PATH_MAX]) {
    if (strcmp(name, C_LIBRARY_NAME) == 0 || strcmp(name, "libc") == 0) {
        path[0] = '\0';
        return 1;
    }
    if (compare_contestants_is_own_name(name))
        return tool_own_library_find(TOOL_LIBRARY, path) ? 1 : -1;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(known); i++) {
        if (strcmp(known[i].name, name) != 0)
            continue;
        for (size_t f = 0; f < 4 && known[i].file[f] != NULL; f++)
            if (find_library_file(known[i].file[f], path) &&
                !is_own_library(path))
                return 1;
        return -1;
    }
    return 0;
}

/* --- One contestant ------------------------------------------------------- */

static bool out_of_memory(void) {
    tool_error("out of memory");
    return false;
}

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
    return c->library[0] != '\0' && is_own_library(c->library);
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
            return out_of_memory();
        free(c->env[i]);
        c->env[i] = more;
        return true;
    }
    char **more = realloc(c->env, (c->envs + 1) * sizeof(*more));
    if (more == NULL)
        return out_of_memory();
    c->env = more;
    c->env[c->envs] = strndup(text, length);
    if (c->env[c->envs] == NULL)
        return out_of_memory();
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
        (void)out_of_memory();
        return NULL;
    }
    struct compare_contestant *c = &all->list[all->count];
    memset(c, 0, sizeof(*c));
    c->name = strndup(name, length);
    if (c->name == NULL) {
        (void)out_of_memory();
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
    return c->library != NULL || out_of_memory();
}

bool compare_contestants_add_plain(struct compare_contestants *all,
                                   const char *name, const char *library) {
    const char *settings = own_settings(name);
    char *own = NULL;
    if (settings != NULL && asprintf(&own, OWN_NAME "%s", settings) < 0)
        return out_of_memory();
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
        is_own ? append_contestant(all, OWN_NAME, strlen(OWN_NAME))
               : append_contestant(all, text, length);
    if (c == NULL)
        return false;
    if (*rest != '=') {
        int there = find_known_library(c->name, path);
        if (there == 0) {
            (void)tool_usage_error("-a: \"%s\" is not a known allocator; for "
                                   "others give NAME=LIBRARY",
                                   c->name);
            return false;
        }
        if (there < 0)
            compare_contestant_exclude(c, "it is not installed");
        return set_library(c, there < 0 ? c->name : path) &&
               set_variables(c, *rest == ',' ? rest + 1 : rest);
    }
    char *file = strndup(rest + 1, strcspn(rest + 1, ","));
    if (file == NULL)
        return out_of_memory();
    rest += 1 + strlen(file);
    int there = strchr(file, '/') != NULL ? 0 : find_known_library(file, path);
    if (there == 0 && file[0] == '\0') {
        path[0] = '\0';
    } else if (there == 0 && !find_library_file(file, path)) {
        compare_contestant_exclude(c, "there is no library %s", file);
        snprintf(path, sizeof(path), "%s", file);
    } else if (there < 0) {
        compare_contestant_exclude(c, "%s is not installed", file);
        snprintf(path, sizeof(path), "%s", file);
    }
    free(file);
    return set_library(c, path) &&
           set_variables(c, *rest == ',' ? rest + 1 : rest);
}

bool compare_contestants_add_known(struct compare_contestants *all) {
    char path[PATH_MAX];
    if (!compare_contestants_add(all, C_LIBRARY_NAME) ||
        !compare_contestants_add(all, OWN_NAME))
        return false;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(known); i++)
        if (find_known_library(known[i].name, path) > 0 &&
            !compare_contestants_add(all, known[i].name))
            return false;
    return true;
}

/* --- Settings ------------------------------------------------------------- */

bool compare_contestants_add_variant(struct compare_contestants *all,
                                     size_t from, const char *setting,
                                     size_t length) {
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
        return out_of_memory();
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
            if (!compare_contestants_add_variant(all, i, setting, (size_t)used))
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
