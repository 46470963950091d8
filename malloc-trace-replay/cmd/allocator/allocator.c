/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace-allocator: which library serves malloc in this process, and
 * whether it does so in truth.
 *
 * Until the functions of the family are known to belong together nothing here
 * allocates: a block of one allocator that another one frees ends the process.
 * That makes it a program of its own, linked with no shared library but the C
 * library's: others ask for memory before main.
 *
 * Why the C library is asked: any allocator may count what it likes, or
 * nothing. What the C library's own heap has grown by while this process asked
 * for memory was not served by another one: that is a wrapper, which may count,
 * or harden, and is measured as what it is.
 */
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/opts.h"
#include "common/shared_library.h"
#include "common/text.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of one library, or blocks get lost between two. */
static const char *const needed[] = {"malloc", "free", "calloc", "realloc"};
/* A program that calls one of these gets a block that the others may not
   know. */
static const char *const others[] = {"posix_memalign", "aligned_alloc",
                                     "memalign", "malloc_usable_size"};

struct answer {
    char library[PATH_MAX];
    const char *foreign[TCM_ARRAY_SIZE(others)];
    unsigned foreigns;
    uint64_t asked, c_library, own;
    bool knows_c_library, knows_own;
    bool wraps; /* the C library's malloc serves its requests */
    bool good;
    char why[PATH_MAX + 128]; /* when it is not */
};

/* --- Whose functions ------------------------------------------------------ */

static bool place_of(const char *name, Dl_info *info) {
    void *p = dlsym(RTLD_DEFAULT, name);
    return p != NULL && dladdr(p, info) != 0;
}

/* A dlsym that finds nothing allocates its message, so these come after the
   needed ones have been found in one library. */
static void find_foreign(struct answer *a, const void *base) {
    Dl_info info;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(others); i++)
        if (!place_of(others[i], &info) || info.dli_fbase != base)
            a->foreign[a->foreigns++] = others[i];
}

static bool find_library(struct answer *a, const void **base) {
    Dl_info info, next;
    if (!place_of("malloc", &info) || info.dli_fname == NULL) {
        snprintf(a->why, sizeof(a->why), "malloc belongs to no library");
        return false;
    }
    *base = info.dli_fbase;
    if (realpath(info.dli_fname, a->library) == NULL)
        snprintf(a->library, sizeof(a->library), "%s", info.dli_fname);
    for (size_t i = 1; i < TCM_ARRAY_SIZE(needed); i++) {
        if (!place_of(needed[i], &next) || next.dli_fbase != info.dli_fbase) {
            snprintf(a->why, sizeof(a->why),
                     "it has malloc, but %s comes from %s", needed[i],
                     next.dli_fname != NULL ? next.dli_fname : "nowhere");
            return false;
        }
    }
    return true;
}

/* --- Whose memory --------------------------------------------------------- */

enum {
    BLOCKS = 300,
    BLOCK = 5000,
    LARGES = 4,
    LARGE = 1 << 20,
};

typedef struct mallinfo2 (*mallinfo_function)(void);
typedef int (*property_function)(const char *, size_t *);
typedef int (*mallctl_function)(const char *, void *, size_t *, void *, size_t);

#define FIND(function, pointer)                                                \
    do {                                                                       \
        void *p_ = (pointer);                                                  \
        memcpy(&(function), &p_, sizeof(p_));                                  \
    } while (0)

struct counters {
    mallinfo_function mallinfo; /* of the C library; NULL: has none */
    property_function property; /* gperftools and its like */
    mallctl_function mallctl;   /* jemalloc */
};

/* Of the library at BASE: a program may be linked with others. */
static void counters_find(struct counters *c, const void *base) {
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    c->mallinfo = NULL;
    if (libc != NULL)
        FIND(c->mallinfo, dlsym(libc, "mallinfo2"));
    FIND(c->property,
         tool_symbol_of(base, "MallocExtension_GetNumericProperty"));
    FIND(c->mallctl, tool_symbol_of(base, "mallctl"));
}

static uint64_t c_library_bytes(const struct counters *c) {
    if (c->mallinfo == NULL)
        return 0;
    struct mallinfo2 m = c->mallinfo();
    return m.uordblks + m.hblkhd;
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

/* Asks for some memory and sees who counts it. */
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
    a->wraps = !is_c_library && a->c_library >= a->asked / 2;
    if (a->knows_own && a->own < a->asked) {
        snprintf(a->why, sizeof(a->why),
                 "it counts %llu of %llu bytes that were asked for",
                 (unsigned long long)a->own, (unsigned long long)a->asked);
        return false;
    }
    return true;
}

/* --- The answer ----------------------------------------------------------- */

static bool write_json(struct tool_json *j, const struct answer *a) {
    tool_json_begin_object(j, NULL);
    tool_json_string(j, "library", a->library);
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
    tool_json_end_object(j);
    return tool_json_close(j);
}

static void print(const struct answer *a) {
    struct tool_text t[2];
    printf("malloc comes from %s%s\n", tool_text_shown(a->library),
           a->wraps ? ", a wrapper around the C library's" : "");
    if (a->foreigns != 0) {
        printf("  not from there  ");
        for (unsigned i = 0; i < a->foreigns; i++)
            printf(" %s", a->foreign[i]);
        putchar('\n');
    }
    if (a->knows_own)
        printf("  it counts        %s of %s asked for\n",
               tool_text_bytes(&t[0], a->own),
               tool_text_bytes(&t[1], a->asked));
    if (a->knows_c_library)
        printf("  the C library's malloc gave %s of them\n",
               tool_text_bytes(&t[0], a->c_library));
}

int main(int argc, char **argv) {
    const char *json = NULL;
    const struct tool_opt opts[] = {
        {.name = "json",
         .value = "FILE",
         .help = "write it to FILE too, as JSON (-: to standard output "
                 "instead)",
         .text = &json},
        {0}};
    const struct tool_command command = {
        .usage = "malloc-trace allocator [--json=FILE]",
        .about = "Say which library serves malloc in this process, as "
                 "LD_PRELOAD chooses it, whether all of the malloc family "
                 "comes from it, and by counters whether requests stay there.",
        .opts = opts,
        .notes = "Exit status: 0; 1 system error; 2 usage; 5 the library has "
                 "not taken malloc over."};
    static struct tool_json j;
    static struct answer a;
    static char stdout_buffer[4096]; /* none of the allocator's memory */
    struct tool_opts o;
    const void *base = NULL;
    tool_begin("malloc-trace allocator");
    setvbuf(stdout, stdout_buffer, _IOFBF, sizeof(stdout_buffer));
    if (!tool_opts_parse(&o, &command, argc, argv))
        return tool_end(o.status);
    if (o.operand_count != 0)
        return tool_usage_error("'%s' is too much", o.operand[0]);
    if (json != NULL && !tool_json_open(&j, json))
        return TOOL_FAILED;
    bool together = find_library(&a, &base);
    if (together) {
        Dl_info info;
        find_foreign(&a, base);
        a.good = find_memory(&a, base,
                             place_of("gnu_get_libc_version", &info) &&
                                 info.dli_fbase == base);
    }
    bool written = json == NULL || write_json(&j, &a);
    if (!a.good)
        tool_error("%s has not taken malloc over: %s", a.library, a.why);
    if (!together)
        _exit(written ? TOOL_ALLOCATOR : TOOL_FAILED); /* no free any more */
    if (!tool_is_quiet() && (json == NULL || !tool_file_is_stdout(json)))
        print(&a);
    return tool_end(!written ? TOOL_FAILED : a.good ? TOOL_OK : TOOL_ALLOCATOR);
}
