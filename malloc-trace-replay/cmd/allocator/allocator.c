/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace-allocator: tells which library serves malloc in this process,
 * and checks that it really does.
 *
 * Until the functions of the malloc family are known to come from one library,
 * nothing here allocates: a block of one allocator that another one frees ends
 * the process. For that reason this is a program of its own, linked with no
 * shared library but the C library: others allocate memory before main.
 *
 * It also says which known allocator that is, and asks it for its settings: the
 * library knows its defaults better than a table does.
 *
 * Why the C library's counters are read: an allocator may count anything, or
 * nothing. Growth of the C library's own heap while this process allocates
 * shows a wrapper around it, which may count or harden, and is measured as
 * such.
 */
#include "base/check.h"
#include "common/allocator_settings.h"
#include "common/child.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/opts.h"
#include "common/shared_library.h"
#include "common/text.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Functions that must come from one library, or blocks get lost between two. */
static const char *const needed[] = {"malloc", "free", "calloc", "realloc"};
/* Functions that may come from another library: a program that calls one of
   these gets a block that the needed functions may not know. */
static const char *const optional[] = {"posix_memalign", "aligned_alloc",
                                       "memalign", "malloc_usable_size"};

struct answer {
    char library[PATH_MAX];
    const char *known; /* the known allocator that it is; NULL: none */
    char version[128]; /* what the allocator calls itself; "": unknown */
    const char *foreign[TCM_ARRAY_SIZE(optional)]; /* from other libraries */
    unsigned foreigns;
    /* bytes requested, by which the C library's heap grew, counted by the
       library */
    uint64_t asked, c_library, own;
    bool knows_c_library, knows_own;
    bool wraps; /* the C library's malloc serves the requests */
    bool good;
    char why[PATH_MAX + 128]; /* reason if not GOOD */
};

/* --- Functions of the malloc family --------------------------------------- */

/* Stores the library that defines NAME. false: none. */
static bool find_symbol(const char *name, Dl_info *info) {
    void *p = tool_symbol(name);
    return p != NULL && dladdr(p, info) != 0;
}

/* Notes the optional functions that another library than BASE defines, or
   none. */
static void find_foreign(struct answer *a, const void *base) {
    Dl_info info;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(optional); i++)
        if (!find_symbol(optional[i], &info) || info.dli_fbase != base)
            a->foreign[a->foreigns++] = optional[i];
}

/* Finds the library that defines all needed functions. false: A->why tells why
   there is none. */
static bool find_library(struct answer *a, const void **base) {
    Dl_info info, next;
    if (!find_symbol("malloc", &info) || info.dli_fname == NULL) {
        snprintf(a->why, sizeof(a->why), "no library defines malloc");
        return false;
    }
    *base = info.dli_fbase;
    if (realpath(info.dli_fname, a->library) == NULL)
        snprintf(a->library, sizeof(a->library), "%s", info.dli_fname);
    for (size_t i = 1; i < TCM_ARRAY_SIZE(needed); i++) {
        if (!find_symbol(needed[i], &next) ||
            next.dli_fbase != info.dli_fbase) {
            snprintf(a->why, sizeof(a->why),
                     "it has malloc, but %s comes from %s", needed[i],
                     next.dli_fname != NULL ? next.dli_fname : "nowhere");
            return false;
        }
    }
    return true;
}

/* --- Origin of the memory ------------------------------------------------- */

enum {
    BLOCKS = 300,
    BLOCK = 5000,
    LARGES = 4,
    LARGE = 1 << 20,
};

/* glibc's struct mallinfo. Modulo 2^32 is enough for a small process: only
   glibc since 2.33 has mallinfo2. */
struct info {
    unsigned arena, ordblks, smblks, hblks, hblkhd;
    unsigned usmblks, fsmblks, uordblks, fordblks, keepcost;
};
typedef struct info (*mallinfo_function)(void);
typedef int (*property_function)(const char *, size_t *);
typedef int (*mallctl_function)(const char *, void *, size_t *, void *, size_t);

#define FIND(function, pointer)                                                \
    do {                                                                       \
        void *p_ = (pointer);                                                  \
        memcpy(&(function), &p_, sizeof(p_));                                  \
    } while (0)

struct counters {
    /* each NULL if it is missing */
    mallinfo_function mallinfo; /* of the C library */
    property_function property; /* gperftools and its relatives */
    mallctl_function mallctl;   /* jemalloc */
};

/* Finds the counters of the C library and of the library at BASE; those of
   other libraries in the process do not count. */
static void counters_find(struct counters *c, const void *base) {
    const void *libc = tool_symbol_library(tool_symbol("confstr"));
    FIND(c->mallinfo, tool_symbol_own(libc, "mallinfo"));
    FIND(c->property,
         tool_symbol_find(base, "MallocExtension_GetNumericProperty"));
    FIND(c->mallctl, tool_symbol_find(base, "mallctl"));
}

static uint64_t c_library_bytes(const struct counters *c) {
    if (c->mallinfo == NULL)
        return 0;
    struct info m = c->mallinfo();
    return (uint64_t)m.uordblks + m.hblkhd;
}

static bool own_bytes(const struct counters *c, uint64_t *bytes) {
    size_t size = 0;
    uint64_t allocated = 0;
    size_t length = sizeof(allocated);
    if (c->property != NULL &&
        c->property("generic.current_allocated_bytes", &size) != 0) {
        *bytes = size;
        return true;
    }
    if (c->mallctl != NULL &&
        c->mallctl("thread.allocated", &allocated, &length, NULL, 0) == 0) {
        *bytes = allocated;
        return true;
    }
    return false;
}

/* Allocates some memory and compares the counters. false: A->why tells why the
   library does not serve malloc. */
static bool find_memory(struct answer *a, const void *base, bool is_c_library) {
    static void *block[BLOCKS + LARGES];
    struct counters c;
    uint64_t own[2];
    counters_find(&c, base);
    uint64_t before = c_library_bytes(&c);
    a->knows_own = own_bytes(&c, &own[0]);
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(block); i++) {
        size_t size = i < BLOCKS ? BLOCK : LARGE;
        block[i] = malloc(size);
        if (block[i] == NULL) {
            snprintf(a->why, sizeof(a->why), "it refused %zu bytes", size);
            return false;
        }
        memset(block[i], 1, size);
        a->asked += size;
    }
    uint64_t after = c_library_bytes(&c);
    a->knows_own = a->knows_own && own_bytes(&c, &own[1]);
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(block); i++)
        free(block[i]);
    a->knows_c_library = c.mallinfo != NULL;
    a->c_library = after > before ? after - before : 0;
    if (a->knows_own)
        a->own = own[1] > own[0] ? own[1] - own[0] : 0;
    TCM_ASSERT(a->asked == (uint64_t)BLOCKS * BLOCK + (uint64_t)LARGES * LARGE);
    a->wraps = !is_c_library && a->c_library >= a->asked / 2;
    if (a->knows_own && a->own < a->asked) {
        snprintf(a->why, sizeof(a->why),
                 "it counted %llu of %llu requested bytes",
                 (unsigned long long)a->own, (unsigned long long)a->asked);
        return false;
    }
    return true;
}

/* --- Settings ------------------------------------------------------------- */

/* Room for a setting's value. */
enum { VALUE = 48 };

/* Result of asking the library: it cannot be asked, it has no such setting, or
   the value was written. */
enum told { TOLD_NOTHING, TOLD_NONE, TOLD_VALUE };

/* Stores the name in VARIABLE=NAME: or NAME=. */
static void key_of(const char *setting, char key[VALUE]) {
    size_t n = strlen(setting) - 1, from = n;
    while (from > 0 && setting[from - 1] != '=')
        from--;
    snprintf(key, VALUE, "%.*s", (int)(n - from), setting + from);
}

/* jemalloc's options are members of "opt", each of a type of its own. */
static enum told ask_jemalloc(const struct counters *c,
                              const struct tool_setting *s, char value[VALUE]) {
    char key[VALUE], name[VALUE + 8];
    union {
        int64_t whole;
        const char *text;
        unsigned number;
        bool on;
    } v = {0};
    key_of(s->setting, key);
    snprintf(name, sizeof(name), "opt.%s", key);
    if (c->mallctl == NULL)
        return TOLD_NOTHING;
    for (size_t want = 8; want != 0; want = want == 8 ? 4 : want == 4) {
        size_t n = want;
        int error = c->mallctl(name, (void *)&v, &n, NULL, 0);
        if (error == ENOENT)
            return TOLD_NONE;
        if (error != 0 || n != want)
            continue;
        if (want == 1)
            snprintf(value, VALUE, v.on ? "true" : "false");
        else if (want == 8 && isalpha((unsigned char)s->unset[0]))
            snprintf(value, VALUE, "%s", v.text);
        else
            snprintf(value, VALUE, "%lld",
                     want == 8 ? (long long)v.whole : (long long)v.number);
        return TOLD_VALUE;
    }
    return TOLD_NOTHING;
}

/* mimalloc prints its options, "option 'purge_delay': 10 " or with " KiB",
   through a function of the program. */
static char printed[8192];

static void take_printed(const char *text, void *ctx) {
    size_t used = strlen(printed);
    (void)ctx;
    snprintf(printed + used, sizeof(printed) - used, "%s", text);
}

static enum told ask_mimalloc(const void *base, const struct tool_setting *s,
                              char value[VALUE]) {
    void (*print)(void);
    void (*output)(void (*)(const char *, void *), void *);
    char key[VALUE], line[VALUE + 16];
    FIND(print, tool_symbol_find(base, "mi_options_print"));
    FIND(output, tool_symbol_find(base, "mi_register_output"));
    if (print == NULL || output == NULL)
        return TOLD_NOTHING;
    if (printed[0] == '\0') {
        output(take_printed, NULL);
        printed[0] = '\0'; /* what was waiting to be printed */
        print();
        output(NULL, NULL);
    }
    key_of(s->setting + strlen("MIMALLOC_"), key);
    for (char *p = key; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    snprintf(line, sizeof(line), "option '%s': ", key);
    const char *at = strstr(printed, line);
    if (at == NULL)
        return strstr(printed, "option '") == NULL ? TOLD_NOTHING : TOLD_NONE;
    at += strlen(line);
    char *end;
    long long v = strtoll(at, &end, 10);
    snprintf(value, VALUE, "%lld", strncmp(end, " KiB", 4) == 0 ? v << 10 : v);
    return TOLD_VALUE;
}

/* gperftools and its relatives have properties of other names. */
static enum told ask_gperftools(const struct counters *c, const void *base,
                                const struct tool_setting *s,
                                char value[VALUE]) {
    size_t v = 0;
    double (*rate)(void);
    FIND(rate, tool_symbol_find(base, "MallocExtension_GetMemoryReleaseRate"));
    const char *property = strstr(s->setting, "_CACHE_BYTES=") != NULL
                               ? "tcmalloc.max_total_thread_cache_bytes"
                           : strstr(s->setting, "_DECOMMIT=") != NULL
                               ? "tcmalloc.aggressive_memory_decommit"
                               : NULL;
    if (strstr(s->setting, "_RELEASE_RATE=") != NULL && rate != NULL)
        v = (size_t)rate();
    else if (property == NULL || c->property == NULL ||
             c->property(property, &v) == 0)
        return TOLD_NOTHING;
    snprintf(value, VALUE, "%zu", v);
    return TOLD_VALUE;
}

static enum told ask(const struct answer *a, const struct counters *c,
                     const void *base, const struct tool_setting *s,
                     char value[VALUE]) {
    return strcmp(a->known, "jemalloc") == 0 ? ask_jemalloc(c, s, value)
           : strcmp(a->known, "mimalloc") == 0
               ? ask_mimalloc(base, s, value)
               : ask_gperftools(c, base, s, value);
}

/* Puts what the library says of its settings: each with its value, or with
   nothing behind it where the library does not have it. */
static void put_settings(struct tool_json *j, const struct answer *a,
                         const void *base) {
    struct counters c;
    size_t count;
    char value[VALUE], text[2 * VALUE + 32];
    const struct tool_setting *s = tool_settings(&count);
    counters_find(&c, base);
    tool_json_begin_array(j, "settings");
    for (size_t i = 0; a->good && a->known != NULL && i < count; i++) {
        if (strcmp(s[i].allocator, a->known) != 0)
            continue;
        value[0] = '\0';
        if (ask(a, &c, base, &s[i], value) == TOLD_NOTHING)
            continue;
        snprintf(text, sizeof(text), "%s%s", s[i].setting, value);
        tool_json_string(j, NULL, text);
    }
    tool_json_end_array(j);
}

/* --- Output --------------------------------------------------------------- */

static bool write_json(struct tool_json *j, const struct answer *a,
                       const void *base) {
    tool_json_begin_object(j, NULL);
    tool_json_string(j, "library", a->library);
    if (a->known != NULL)
        tool_json_string(j, "allocator", a->known);
    else
        tool_json_null(j, "allocator");
    tool_json_string(j, "version", a->version);
    tool_json_bool(j, "took_over", a->good);
    if (a->good)
        tool_json_null(j, "why");
    else
        tool_json_string(j, "why", a->why);
    tool_json_bool(j, "wraps_c_library", a->wraps);
    tool_json_begin_array(j, "elsewhere");
    for (unsigned i = 0; i < a->foreigns; i++)
        tool_json_string(j, NULL, a->foreign[i]);
    tool_json_end_array(j);
    tool_json_u64(j, "asked_bytes", a->asked);
    if (a->knows_own)
        tool_json_u64(j, "own_counter_bytes", a->own);
    else
        tool_json_null(j, "own_counter_bytes");
    if (a->knows_c_library)
        tool_json_u64(j, "c_library_bytes", a->c_library);
    else
        tool_json_null(j, "c_library_bytes");
    put_settings(j, a, base);
    tool_json_end_object(j);
    return tool_json_close(j);
}

static void print(const struct answer *a) {
    struct tool_text t[2];
    printf("malloc comes from %s", tool_text_shown(a->library));
    if (a->version[0] != '\0')
        printf(" (%s)", tool_text_shown(a->version));
    puts(a->wraps ? ", a wrapper around the C library's" : "");
    if (a->foreigns != 0) {
        printf("  other library   ");
        for (unsigned i = 0; i < a->foreigns; i++)
            printf(" %s", a->foreign[i]);
        putchar('\n');
    }
    if (a->knows_own)
        printf("  its counters    %s of %s requested\n",
               tool_text_bytes(&t[0], a->own),
               tool_text_bytes(&t[1], a->asked));
    if (a->knows_c_library)
        printf("  the C library's malloc served %s of them\n",
               tool_text_bytes(&t[0], a->c_library));
}

int main(int argc, char **argv) {
    const char *json = NULL;
    const struct tool_opt opts[] = {
        {.name = "json",
         .value = "FILE",
         .help = "also write the result to FILE as JSON (-: to standard "
                 "output, instead of text)",
         .text = &json},
        {0}};
    const struct tool_command command = {
        .usage = "malloc-trace allocator [--json=FILE]",
        .about = "Tell which library serves malloc in this process, as "
                 "LD_PRELOAD selects it, whether it defines the whole malloc "
                 "family, and, by counters, whether it serves requests itself.",
        .opts = opts,
        .notes = "Exit status: 0; 1 system error; 2 wrong command line; 5 the "
                 "library does not serve malloc."};
    static struct tool_json j;
    static struct answer a;
    static char stdout_buffer[4096]; /* keeps stdio from allocating one */
    struct tool_opts o;
    const void *base = NULL;
    tool_begin("malloc-trace allocator");
    /* the smallest of the programs, so it serves to start others */
    if (argc > 3 && strcmp(argv[1], TOOL_CHILD_LAUNCH) == 0)
        return tool_child_launch(atoi(argv[2]), argv + 3);
    setvbuf(stdout, stdout_buffer, _IOFBF, sizeof(stdout_buffer));
    if (!tool_opts_parse(&o, &command, argc, argv))
        return tool_end(o.status);
    if (o.operand_count != 0)
        return tool_usage_error("unexpected argument '%s'", o.operand[0]);
    if (json != NULL && !tool_json_open(&j, json))
        return TOOL_FAILED;
    bool together = find_library(&a, &base);
    if (together) {
        Dl_info info;
        find_foreign(&a, base);
        a.good = find_memory(
            &a, base, find_symbol("confstr", &info) && info.dli_fbase == base);
        tool_allocator_version(base, a.version, sizeof(a.version));
        a.known = tool_allocator_of(base);
    }
    bool written = json == NULL || write_json(&j, &a, base);
    if (!a.good)
        tool_error("%s does not serve malloc: %s", a.library, a.why);
    if (!together)
        _exit(written ? TOOL_ALLOCATOR : TOOL_FAILED); /* exit may call free */
    if (!tool_is_quiet() && (json == NULL || !tool_file_is_stdout(json)))
        print(&a);
    return tool_end(!written ? TOOL_FAILED : a.good ? TOOL_OK : TOOL_ALLOCATOR);
}
