/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A return address may be the first byte of the next line or function, so
 * look-ups take the byte before it, which is in the call.
 */
#include "symbols/symbol_names.h"

#include "base/check.h"
#include "common/collections.h"
#include "symbols/symbol_modules.h"
#include "symbols/symbol_table.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Demanglers of libstdc++ and libiberty: no header declares the first, and a
   build without libiberty has no header of the others. */
char *__cxa_demangle(const char *, char *, size_t *, int *);
char *rust_demangle(const char *, int);
char *dlang_demangle(const char *, int);

/* Numbers of the names that stand for no code. */
enum { NOT_KNOWN, DEEPER, SPECIAL_NAMES };

/* A place in code, told from others by A and B, and its names. */
struct place {
    uint64_t a, b;
    uint32_t first, count;
};

/* Names of just-in-time compiled code of one process. */
struct jit_map {
    bool tried;
    struct symbol_table symbols;
};

struct symbol_names {
    const struct tool_sites *sites;
    const char *folder;
    struct symbol_name *name;
    size_t count, room;
    struct place *place;
    size_t places, place_room;
    struct tool_map by_hash; /* place plus 1, by hash of A and B */
    uint64_t seed;
    uint32_t *of_frame; /* place plus 1, by index of the frame */
    struct tool_map
        plain;   /* index in TEXT plus 1, by address of a mangled name */
    char **text; /* demangled names */
    size_t texts, text_room;
    struct jit_map *map; /* by trace */
    bool failed;
    const char *lacks; /* see symbol_names_lacks */
    struct symbol_modules *modules;
};

/* --- Demangling ----------------------------------------------------------- */

/* TEXT, a mangled name of C++, Rust or D, as people write it, from malloc;
   NULL: it is no such name, or this build has no demangler of that language. */
static char *demangle_whole(const char *text) {
    int status;
    if (text[1] == 'Z')
        return TCM_HAVE_DEMANGLE ? __cxa_demangle(text, NULL, NULL, &status)
                                 : NULL;
    return !TCM_HAVE_RUST_DEMANGLE ? NULL
           : text[1] == 'R'        ? rust_demangle(text, 0)
                                   : dlang_demangle(text, 0);
}

/* Demangles TEXT without the hash that LLVM appends to a local name, ".llvm."
   and digits, behind which no name of Rust is read. */
static char *demangle(const char *text) {
    const char *end = strstr(text, ".llvm.");
    char *name = end == NULL ? NULL : strndup(text, (size_t)(end - text));
    char *plain = demangle_whole(name == NULL ? text : name);
    free(name);
    return plain;
}

/* Cuts "::h" and the 16 digits of a hash of the compiler's input, with which
   Rust's older names end. True: TEXT is such a name. */
static bool cut_rust_hash(char *text) {
    size_t n = strlen(text);
    if (n < 19 || strncmp(text + n - 19, "::h", 3) != 0 ||
        strspn(text + n - 16, "0123456789abcdef") != 16)
        return false;
    text[n - 19] = '\0';
    return true;
}

/* Decodes what Rust escapes for linkers: "$LT$" is "<", "$u7b$" is "{", ".." is
   "::". The demangler of C++ leaves that. */
static void decode_rust(char *text) {
    static const char *const escape[] = {"LT", "GT", "RF", "BP",
                                         "LP", "RP", "C",  "SP"};
    static const char plain[] = "<>&*(),@";
    char *to = text;
    for (const char *p = text; *p != '\0';) {
        const char *end = *p == '$' ? strchr(p + 1, '$') : NULL;
        char *rest = NULL;
        unsigned long code = 0;
        for (size_t i = 0; end != NULL && i < TCM_ARRAY_SIZE(escape); i++)
            if (strlen(escape[i]) == (size_t)(end - p - 1) &&
                strncmp(p + 1, escape[i], (size_t)(end - p - 1)) == 0)
                code = (unsigned char)plain[i];
        if (end != NULL && p[1] == 'u' && code == 0)
            code = strtoul(p + 2, &rest, 16);
        if (code >= ' ' && code < 0x7f && (rest == NULL || rest == end)) {
            *to++ = (char)code;
            p = end + 1;
        } else if (p[0] == '.' && p[1] == '.') {
            *to++ = ':';
            *to++ = ':';
            p += 2;
        } else if (p[0] == '_' && p[1] == '$' &&
                   (to == text || to[-1] == ':')) {
            p++; /* linkers want no name to begin with $ */
        } else {
            *to++ = *p++;
        }
    }
    *to = '\0';
}

/* Replaces the whole name of std::string. */
static void shorten_strings(char *text) {
    static const char whole[] = "std::__cxx11::basic_string<char, "
                                "std::char_traits<char>, "
                                "std::allocator<char> >";
    static const char plain[] = "std::string";
    for (char *p = text; (p = strstr(p, whole)) != NULL;) {
        memcpy(p, plain, sizeof(plain) - 1);
        p += sizeof(plain) - 1;
        char *rest = p + sizeof(whole) - sizeof(plain);
        memmove(p, rest, strlen(rest) + 1);
    }
}

/* Place of the name that is shown for TEXT, with room to keep one; its value is
   0: none is kept yet. NULL: out of memory. */
static struct tool_map_entry *shown_place(struct symbol_names *n,
                                          const char *text) {
    struct tool_map_entry *e = tool_map_get(&n->plain, (uintptr_t)text);
    if (e == NULL || !tool_array_reserve(&n->text, &n->text_room, n->texts + 1,
                                         sizeof(*n->text))) {
        n->failed = true;
        return NULL;
    }
    TCM_ASSERT(e->value <= n->texts);
    return e;
}

/* Keeps SHOWN, from malloc, at the place E. */
static const char *keep(struct symbol_names *n, struct tool_map_entry *e,
                        char *shown) {
    n->text[n->texts++] = shown;
    e->value = n->texts;
    return shown;
}

/* Returns the demangler that this build lacks for TEXT, which is like a mangled
   name of C++, Rust or D; NULL: none. */
static const char *lacks_demangler(const char *text) {
    char next = text[2];
    bool digit = next >= '0' && next <= '9';
    if (text[1] == 'Z')
        return TCM_HAVE_DEMANGLE || (next != 'N' && next != 'L' && !digit)
                   ? NULL
                   : "libstdc++, which reads names of C++";
    return !TCM_HAVE_RUST_DEMANGLE &&
                   (digit || (text[1] == 'R' && next >= 'A' && next <= 'Z'))
               ? "libiberty, which reads names of Rust and D"
               : NULL;
}

/* TEXT demangled; TEXT itself if it is no mangled name. */
static const char *demangled(struct symbol_names *n, const char *text) {
    if (text == NULL || text[0] != '_' || text[1] == '\0' ||
        strchr("ZRD", text[1]) == NULL)
        return text;
    struct tool_map_entry *e = shown_place(n, text);
    if (e == NULL)
        return text;
    if (e->value != 0)
        return n->text[e->value - 1];
    char *plain = demangle(text);
    if (plain == NULL) {
        if (n->lacks == NULL)
            n->lacks = lacks_demangler(text);
        return text;
    }
    if (cut_rust_hash(plain))
        decode_rust(plain);
    shorten_strings(plain);
    return keep(n, e, plain);
}

/* The function of F, with the one that it is local to before it. */
static const char *function_of(struct symbol_names *n,
                               const struct symbol_frame *f) {
    char *whole;
    if (f->within == NULL)
        return demangled(n, f->function);
    const char *within = demangled(n, f->within);
    struct tool_map_entry *e = shown_place(n, f->function);
    if (e == NULL)
        return f->function;
    if (e->value != 0)
        return n->text[e->value - 1];
    if (asprintf(&whole, "%s::%s", within, f->function) < 0) {
        n->failed = true;
        return f->function;
    }
    return keep(n, e, whole);
}

/* --- Places --------------------------------------------------------------- */

static void add_name(struct symbol_names *n, const struct symbol_name *name) {
    if (!tool_array_reserve(&n->name, &n->room, n->count + 1,
                            sizeof(*n->name)) ||
        n->count == UINT32_MAX)
        n->failed = true;
    else
        n->name[n->count++] = *name;
}

static void add_line_name(struct symbol_names *n, const struct tool_frame *f) {
    add_name(n, &(struct symbol_name){
                    .function = tool_sites_text(n->sites, f->function),
                    .file = tool_sites_text(n->sites, f->file),
                    .line = f->line,
                    .language = f->language,
                });
}

/* The map of SITE's process: perf-PID.map in the user's folder, or in /tmp. */
static const struct symbol_table *map_of(struct symbol_names *n,
                                         uint32_t site) {
    uint32_t trace = site / MTF_SITE_LIMIT;
    uint32_t pid = n->sites->pid[trace];
    struct jit_map *m = &n->map[trace];
    char path[PATH_MAX];
    if (m->tried || pid == 0)
        return &m->symbols;
    m->tried = true;
    if (n->folder != NULL) {
        snprintf(path, sizeof(path), "%s/perf-%" PRIu32 ".map", n->folder, pid);
        if (symbol_table_read_map(&m->symbols, path))
            return &m->symbols;
    }
    snprintf(path, sizeof(path), "/tmp/perf-%" PRIu32 ".map", pid);
    (void)symbol_table_read_map(&m->symbols, path);
    return &m->symbols;
}

static void add_run_time_name(struct symbol_names *n, uint32_t site,
                              const struct tool_frame *f) {
    const struct symbol *s = symbol_table_find(map_of(n, site), f->address - 1);
    add_name(n, &(struct symbol_name){.offset = f->address - 1,
                                      .function = s == NULL ? NULL : s->name});
}

static void add_module_names(struct symbol_names *n,
                             const struct tool_module *m,
                             const struct tool_frame *f) {
    struct symbol_name name = {.module = m->path,
                               .offset = f->address - 1 - m->bias};
    struct symbol_frame frame[SYMBOL_DEPTH];
    unsigned count =
        symbol_modules_find(n->modules, f->module, name.offset, frame);
    TCM_ASSERT(count <= SYMBOL_DEPTH);
    for (unsigned i = 0; i < count; i++) {
        name.function = function_of(n, &frame[i]);
        name.file = frame[i].file;
        name.line = frame[i].line;
        name.inlined = i + 1 < count;
        name.remedy = name.file == NULL || frame[i].line_only
                          ? symbol_modules_remedy(n->modules, f->module)
                          : NULL;
        add_name(n, &name);
    }
    if (count == 0) {
        name.remedy = symbol_modules_remedy(n->modules, f->module);
        add_name(n, &name);
    }
}

static void add_names(struct symbol_names *n, uint32_t site,
                      const struct tool_frame *f) {
    const struct tool_module *m = tool_sites_module(n->sites, f->module);
    if (f->language != 0)
        add_line_name(n, f);
    else if (m != NULL && m->path != NULL && f->address > m->bias)
        add_module_names(n, m, f);
    else
        add_run_time_name(n, site, f);
}

/* NOT_KNOWN or DEEPER if F stands for no code, else SPECIAL_NAMES. */
static int special_of(const struct tool_frame *f) {
    if (f->language == 0 && f->module == 0) {
        if (f->address == MTF_SITE_UNKNOWN)
            return NOT_KNOWN;
        if (f->address == MTF_SITE_CUT)
            return DEEPER;
    }
    return SPECIAL_NAMES;
}

/* The place told by A and B, made without names if it is new; NULL: out of
   memory. */
static struct place *place_of(struct symbol_names *n, uint64_t a, uint64_t b) {
    uint64_t hash = tool_hash(a, n->seed) ^ tool_hash(b, ~n->seed);
    for (hash |= 1;; hash += 2) {
        struct tool_map_entry *e = tool_map_get(&n->by_hash, hash);
        if (e == NULL)
            return NULL;
        if (e->value == 0) {
            if (!tool_array_reserve(&n->place, &n->place_room, n->places + 1,
                                    sizeof(*n->place)))
                return NULL;
            n->place[n->places++] = (struct place){.a = a, .b = b};
            e->value = n->places;
        }
        TCM_ASSERT(e->value <= n->places);
        struct place *p = &n->place[e->value - 1];
        if (p->a == a && p->b == b)
            return p;
    }
}

static struct place *name_frame(struct symbol_names *n, uint32_t site,
                                const struct tool_frame *f) {
    /* Addresses outside of modules belong to one process. */
    uint64_t a = f->language != 0 ? (uint64_t)f->language << 32 | f->file
                 : f->module != 0 ? f->module
                                  : (uint64_t)1 << 56 | site / MTF_SITE_LIMIT;
    uint64_t b =
        f->language != 0 ? (uint64_t)f->function << 32 | f->line : f->address;
    struct place *p = place_of(n, a, b);
    if (p != NULL && p->count == 0) {
        p->first = (uint32_t)n->count;
        add_names(n, site, f);
        p->count = (uint32_t)n->count - p->first;
    }
    return p;
}

/* --- Sites ---------------------------------------------------------------- */

struct symbol_names *symbol_names_new(const struct tool_sites *sites,
                                      const char *folder) {
    struct symbol_names *n = calloc(1, sizeof(*n));
    if (n == NULL)
        return NULL;
    n->sites = sites;
    n->folder = folder;
    n->seed = tool_hash_seed();
    n->of_frame = calloc(sites->frames + 1, sizeof(*n->of_frame));
    n->map = calloc(TOOL_SITE_TRACES, sizeof(*n->map));
    add_name(n, &(struct symbol_name){.special = "(not known)"});
    add_name(n, &(struct symbol_name){
                    .special = "(callers beyond the recorded depth)"});
    n->modules = symbol_modules_new(sites, folder);
    if (n->of_frame == NULL || n->map == NULL || n->modules == NULL ||
        n->failed) {
        symbol_names_free(n);
        return NULL;
    }
    return n;
}

void symbol_names_free(struct symbol_names *n) {
    if (n == NULL)
        return;
    symbol_modules_free(n->modules);
    for (size_t i = 0; n->map != NULL && i < TOOL_SITE_TRACES; i++)
        symbol_table_fini(&n->map[i].symbols);
    for (size_t i = 0; i < n->texts; i++)
        free(n->text[i]);
    tool_map_fini(&n->by_hash);
    tool_map_fini(&n->plain);
    free(n->text);
    free(n->map);
    free(n->of_frame);
    free(n->place);
    free(n->name);
    free(n);
}

uint32_t symbol_names_find(struct symbol_names *n, uint32_t site,
                           unsigned *count) {
    size_t at = tool_sites_place(n->sites, site);
    *count = 1;
    if (at == SIZE_MAX)
        return NOT_KNOWN;
    const struct tool_frame *f = &n->sites->frame[at];
    int special = special_of(f);
    if (special != SPECIAL_NAMES)
        return (uint32_t)special;
    struct place *p = n->of_frame[at] != 0 ? &n->place[n->of_frame[at] - 1]
                                           : name_frame(n, site, f);
    if (p == NULL || p->count == 0) {
        n->failed = true;
        return NOT_KNOWN;
    }
    TCM_ASSERT(p->first + p->count <= n->count);
    n->of_frame[at] = (uint32_t)(p - n->place) + 1;
    *count = p->count;
    return p->first;
}

const struct symbol_name *symbol_names_get(const struct symbol_names *n,
                                           uint32_t number) {
    TCM_ASSERT(number < n->count);
    return &n->name[number];
}

uint32_t symbol_names_count(const struct symbol_names *n) {
    return (uint32_t)n->count;
}

bool symbol_names_failed(const struct symbol_names *n) {
    return n->failed;
}

const char *symbol_names_lacks(const struct symbol_names *n) {
    return n->lacks;
}
