/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_settings.h"

#include "base/check.h"
#include "common/allocators.h"
#include "common/main.h"
#include "common/shared_library.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- The table ------------------------------------------------------------ */

#define GLIBC    "GLIBC_TUNABLES=glibc.malloc."
#define JEMALLOC "MALLOC_CONF="
#define MIMALLOC "MIMALLOC_"

#define KIB ((int64_t)1 << 10)
#define MIB ((int64_t)1 << 20)
#define GIB ((int64_t)1 << 30)

static const struct compare_setting settings[] = {
#ifdef __GLIBC__ /* other C libraries have no such settings */
    {"glibc", GLIBC "tcache_count=", SETTING_NUMBER, "0,2,32,127", "7", 1, 1024,
     4, 226, 0, "blocks of one size that a thread keeps (7)", NULL},
    {"glibc", GLIBC "tcache_max=", SETTING_SIZE, "128,512", "1032", 32, 1032, 2,
     226, 0, "largest block that a thread keeps, in bytes (1032)", NULL},
    {"glibc", GLIBC "mmap_threshold=", SETTING_SIZE, "65536,1048576,33554432",
     "", 16 * KIB, 32 * MIB, 4, 226, 0,
     "blocks from this size on are mapped separately; a value that is set "
     "does not grow (131072 and growing)",
     "mallopt(M_MMAP_THRESHOLD, $);"},
    {"glibc", GLIBC "trim_threshold=", SETTING_SIZE, "0,16777216,1073741824",
     "", 16 * KIB, GIB, 8, 226, 0,
     "free memory at the heap's top above which it is given back (131072 and "
     "growing)",
     "mallopt(M_TRIM_THRESHOLD, $);"},
    {"glibc", GLIBC "top_pad=", SETTING_SIZE, "0,1048576,16777216", "131072",
     4 * KIB, 64 * MIB, 4, 226, 0,
     "bytes taken from the system beyond those needed (131072)",
     "mallopt(M_TOP_PAD, $);"},
    {"glibc", GLIBC "arena_max=", SETTING_NUMBER, "1,2,4", "", 1, 256, 2, 226,
     0, "heaps that threads share (8 for each processor)",
     "mallopt(M_ARENA_MAX, $);"},
    {"glibc", GLIBC "hugetlb=", SETTING_WORD, "1,2", "0", 0, 0, 0, 235, 0,
     "1: ask for transparent huge pages; 2: use reserved ones (0)", NULL},
    {"glibc", GLIBC "mxfast=", SETTING_SIZE, "0,64,160", "128", 32, 160, 2, 226,
     243, "largest block of the fast bins, in bytes (128)",
     "mallopt(M_MXFAST, $);"},
#endif

    {"jemalloc", JEMALLOC "narenas:", SETTING_NUMBER, "1,2,8", "", 1, 256, 2, 0,
     0, "heaps that threads share (4 for each processor)", NULL},
    {"jemalloc", JEMALLOC "dirty_decay_ms:", SETTING_TIME, "0,1000,-1", "10000",
     100, 100000, 3, 500, 0,
     "time until unused pages are given back; -1: never (10000)", NULL},
    {"jemalloc", JEMALLOC "muzzy_decay_ms:", SETTING_TIME, "10000,-1", "0", 100,
     100000, 3, 500, 0,
     "time until pages that the system may take when it needs them are "
     "given back (0)",
     NULL},
    {"jemalloc", JEMALLOC "thp:", SETTING_WORD, "always,never", "default", 0, 0,
     0, 501, 0, "transparent huge pages (the system's default)", NULL},
    {"jemalloc", JEMALLOC "metadata_thp:", SETTING_WORD, "auto,always",
     "disabled", 0, 0, 0, 501, 0, "huge pages for its own records (disabled)",
     NULL},
    {"jemalloc", JEMALLOC "tcache_max:", SETTING_SIZE, "1024,4096,262144",
     "32768", 256, 4 * MIB, 4, 503, 0,
     "largest block that a thread keeps, in bytes (32768)", NULL},
    {"jemalloc", JEMALLOC "lg_tcache_max:", SETTING_NUMBER, "10,12,18", "15", 8,
     22, 2, 0, 503, "largest block that a thread keeps, as a power of two (15)",
     NULL},
    {"jemalloc", JEMALLOC "lg_tcache_nslots_mul:", SETTING_WORD, "0,3", "1", 0,
     0, 0, 503, 0,
     "blocks of one size that a thread keeps, as a power of two of those in a "
     "slab (1)",
     NULL},
    {"jemalloc", JEMALLOC "background_thread:", SETTING_SWITCH, "true", "false",
     0, 0, 0, 500, 0, "background threads give memory back (false)", NULL},
    {"jemalloc", JEMALLOC "oversize_threshold:", SETTING_SIZE, "0,1048576",
     "8388608", 256 * KIB, 64 * MIB, 4, 502, 0,
     "blocks from this size on share a heap that gives them back at once; 0: "
     "none does (8388608)",
     NULL},
    {"jemalloc", JEMALLOC "percpu_arena:", SETTING_WORD, "percpu,phycpu",
     "disabled", 0, 0, 0, 500, 0, "a heap for each processor (disabled)", NULL},
    {"jemalloc", JEMALLOC "retain:", SETTING_SWITCH, "false", "true", 0, 0, 0,
     500, 0, "keep the addresses of memory that is given back (true)", NULL},

    {"mimalloc", MIMALLOC "PURGE_DELAY=", SETTING_TIME, "0,100,-1", "10", 1,
     10000, 4, 201, 0, "time until unused pages are given back; -1: never (10)",
     "mi_option_set(mi_option_purge_delay, $);"},
    {"mimalloc", MIMALLOC "DECOMMIT_DELAY=", SETTING_TIME, "0,100,1000", "25",
     1, 10000, 4, 200, 201, "time until unused pages are given back (25)",
     "mi_option_set(mi_option_decommit_delay, $);"},
    {"mimalloc", MIMALLOC "SEGMENT_DECOMMIT_DELAY=", SETTING_TIME, "0,50,5000",
     "500", 1, 60000, 4, 200, 201,
     "time until unused segments are given back (500)",
     "mi_option_set(mi_option_segment_decommit_delay, $);"},
    {"mimalloc", MIMALLOC "ALLOW_DECOMMIT=", SETTING_SWITCH, "0", "1", 0, 0, 0,
     200, 201, "give memory back (1)",
     "mi_option_set(mi_option_allow_decommit, $);"},
    {"mimalloc", MIMALLOC "RESET_DELAY=", SETTING_TIME, "0,1000", "100", 1,
     10000, 4, 0, 200, "time until unused pages are given back (100)",
     "mi_option_set(mi_option_reset_delay, $);"},
    {"mimalloc", MIMALLOC "PAGE_RESET=", SETTING_SWITCH, "1", "0", 0, 0, 0, 0,
     201, "give back each page when it is free (0)",
     "mi_option_set(mi_option_page_reset, $);"},
    {"mimalloc", MIMALLOC "ABANDONED_PAGE_DECOMMIT=", SETTING_SWITCH, "1", "0",
     0, 0, 0, 200, 201, "give back free pages of threads that end (0)",
     "mi_option_set(mi_option_abandoned_page_decommit, $);"},
    {"mimalloc", MIMALLOC "ABANDONED_PAGE_PURGE=", SETTING_SWITCH, "1", "0", 0,
     0, 0, 201, 0, "give back free pages of threads that end (0)",
     "mi_option_set(mi_option_abandoned_page_purge, $);"},
    {"mimalloc", MIMALLOC "ARENA_EAGER_COMMIT=", SETTING_WORD, "0,1", "2", 0, 0,
     0, 201, 0,
     "take memory of an arena at once (2: if the system overcommits)",
     "mi_option_set(mi_option_arena_eager_commit, $);"},
    {"mimalloc", MIMALLOC "EAGER_COMMIT=", SETTING_SWITCH, "0", "1", 0, 0, 0, 0,
     0, "take memory of a segment at once (1)",
     "mi_option_set(mi_option_eager_commit, $);"},
    {"mimalloc", MIMALLOC "EAGER_COMMIT_DELAY=", SETTING_NUMBER, "0,4", "1", 1,
     64, 2, 0, 0, "segments of a thread whose memory is taken step by step (1)",
     "mi_option_set(mi_option_eager_commit_delay, $);"},
    {"mimalloc", MIMALLOC "ALLOW_LARGE_OS_PAGES=", SETTING_SWITCH, "1", "0", 0,
     0, 0, 201, 0, "huge pages (0)",
     "mi_option_set(mi_option_allow_large_os_pages, $);"},
    {"mimalloc", MIMALLOC "LARGE_OS_PAGES=", SETTING_SWITCH, "1", "0", 0, 0, 0,
     0, 201, "huge pages (0)", "mi_option_set(mi_option_large_os_pages, $);"},

    {"gperftools", "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=", SETTING_SIZE,
     "4194304,134217728", "33554432", 512 * KIB, GIB, 4, 0, 0,
     "bytes in all thread caches together (33554432)",
     "MallocExtension_SetNumericProperty(\"tcmalloc.max_total_thread_cache_"
     "bytes\", $);"},
    {"gperftools", "TCMALLOC_RELEASE_RATE=", SETTING_NUMBER, "0,10", "1", 1,
     100, 3, 0, 0, "how fast memory is given back; 0: never (1)",
     "MallocExtension_SetMemoryReleaseRate($);"},
    {"gperftools", "TCMALLOC_AGGRESSIVE_DECOMMIT=", SETTING_SWITCH, "1", "0", 0,
     0, 0, 0, 0, "give free pages back at once (0)",
     "MallocExtension_SetNumericProperty(\"tcmalloc.aggressive_memory_"
     "decommit\", $);"},
    {"gperftools", "TCMALLOC_TRANSFER_NUM_OBJ=", SETTING_NUMBER, "128,512",
     "32", 2, 4096, 4, 0, 0,
     "blocks that pass between a thread and the heap together (32)", NULL},

    {TCM_ALLOCATOR_NAME, "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=", SETTING_SIZE,
     "4194304,134217728", "50331648", 512 * KIB, GIB, 4, 0, 0,
     "bytes in all thread caches together (50331648)",
     "MallocExtension_SetNumericProperty(\"tcmalloc.max_total_thread_cache_"
     "bytes\", $);"},
    {TCM_ALLOCATOR_NAME, "TCMALLOC_RELEASE_RATE=", SETTING_NUMBER, "0,10", "1",
     1, 1000, 3, 0, 0, "how fast memory is given back; 0: never (1)", NULL},
    {TCM_ALLOCATOR_NAME, "TCMALLOC_AGGRESSIVE_DECOMMIT=", SETTING_SWITCH, "1",
     "0", 0, 0, 0, 0, 0, "give free pages back at once (0)",
     "MallocExtension_SetNumericProperty(\"tcmalloc.aggressive_memory_"
     "decommit\", $);"},
};

const struct compare_setting *compare_settings(size_t *count) {
    *count = TCM_ARRAY_SIZE(settings);
    return settings;
}

/* --- Versions ------------------------------------------------------------- */

/* Reads MAJOR.MINOR at TEXT; 0: it is not there. */
static unsigned read_version(const char *text) {
    char *end;
    if (!isdigit((unsigned char)*text))
        return 0;
    unsigned long major = strtoul(text, &end, 10);
    if (*end != '.' || !isdigit((unsigned char)end[1]))
        return 0;
    unsigned long minor = strtoul(end + 1, &end, 10);
    return major < 100 && minor < 100 ? (unsigned)(major * 100 + minor) : 0;
}

/* Version in the file's name, as of libmimalloc.so.2.0. */
static unsigned version_of_name(const char *library) {
    const char *so = strstr(library, ".so.");
    return so == NULL ? 0 : read_version(so + 4);
}

/* Largest library that is read for its version. */
enum { LIBRARY_MOST = 64 << 20 };

/* jemalloc has its version as a text of the form 5.3.0-0-g54eaed1d8b56. */
static unsigned version_of_jemalloc(const char *library) {
    unsigned version = 0;
    size_t n;
    int fd = open(library, O_RDONLY | O_CLOEXEC);
    char *text = fd < 0 ? NULL : tool_child_text(fd, LIBRARY_MOST, &n);
    if (fd >= 0)
        close(fd);
    for (char *at = text; text != NULL && version == 0; at++) {
        at = memmem(at, n - (size_t)(at - text), "-g", 2);
        if (at == NULL)
            break;
        const char *from = at;
        while (from > text && at - from < 16 &&
               (isdigit((unsigned char)from[-1]) || from[-1] == '.' ||
                from[-1] == '-'))
            from--;
        if (isxdigit((unsigned char)at[2]) && from + 7 <= at)
            version = read_version(from);
    }
    free(text);
    return version;
}

unsigned compare_settings_version(const char *name, const char *library) {
    if (strcmp(name, TOOL_ALLOCATOR_C_LIBRARY) == 0) {
        char text[64];
        tool_c_library(text, sizeof(text));
        return strncmp(text, "glibc ", 6) == 0 ? read_version(text + 6) : 0;
    }
    if (strcmp(name, "jemalloc") == 0)
        return version_of_jemalloc(library);
    return strcmp(name, "mimalloc") == 0 ? version_of_name(library) : 0;
}

bool compare_setting_is_in(const struct compare_setting *s, unsigned version) {
    return version == 0 ||
           (version >= s->from && (s->below == 0 || version < s->below));
}

/* --- Sweeps --------------------------------------------------------------- */

static bool add_values(struct compare_contestants *all, size_t from,
                       const struct compare_setting *s) {
    char text[256];
    for (const char *value = s->values; *value != '\0';) {
        size_t n = strcspn(value, ",");
        int used =
            snprintf(text, sizeof(text), "%s%.*s", s->setting, (int)n, value);
        TCM_ASSERT(used < (int)sizeof(text));
        if (!compare_contestants_add_variant(all, from, text, (size_t)used))
            return false;
        value += n + (value[n] != '\0');
    }
    return true;
}

/* Writes the names of the allocators in the table. */
static const char *names_text(char text[200]) {
    size_t used = 0;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(settings); i++)
        if (i == 0 ||
            strcmp(settings[i].allocator, settings[i - 1].allocator) != 0)
            used += (size_t)snprintf(text + used, 200 - used, "%s%s",
                                     i == 0 ? "" : ", ", settings[i].allocator);
    TCM_ASSERT(used < 200);
    return text;
}

bool compare_settings_add(struct compare_contestants *all, const char *name) {
    char text[200];
    if (tool_allocator_is_own_name(name))
        name = TOOL_ALLOCATOR_OWN;
    size_t from = compare_contestants_find(all, name);
    unsigned version = 0;
    bool any = false;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(settings); i++) {
        const struct compare_setting *s = &settings[i];
        if (strcmp(s->allocator, name) != 0)
            continue;
        if (from == SIZE_MAX) {
            if (!compare_contestants_add(all, name))
                return false;
            from = all->count - 1;
        }
        if (!any)
            version = compare_settings_version(name, all->list[from].library);
        any = true;
        if (compare_setting_is_in(s, version) && !add_values(all, from, s))
            return false;
    }
    if (!any)
        (void)tool_usage_error("--sweep-known: \"%s\" is not an allocator "
                               "with known settings (%s) or list",
                               name, names_text(text));
    return any;
}

const char *compare_settings_meaning(const char *variable) {
    for (size_t i = 0; i < TCM_ARRAY_SIZE(settings); i++)
        if (strncmp(settings[i].setting, variable,
                    strlen(settings[i].setting)) == 0)
            return settings[i].meaning;
    return NULL;
}

/* --- Text ----------------------------------------------------------------- */

/* Writes ", from version 2.35 on", ", before version 2.1", or both. */
static const char *versions_text(const struct compare_setting *s,
                                 char text[64]) {
    char from[32] = "", below[32] = "";
    if (s->from != 0)
        snprintf(from, sizeof(from), ", from version %u.%u on", s->from / 100,
                 s->from % 100);
    if (s->below != 0)
        snprintf(below, sizeof(below), ", before version %u.%u", s->below / 100,
                 s->below % 100);
    snprintf(text, 64, "%s%s", from, below);
    return text;
}

void compare_settings_print(FILE *out) {
    char text[64];
    for (size_t i = 0; i < TCM_ARRAY_SIZE(settings); i++) {
        const struct compare_setting *s = &settings[i];
        fprintf(out, "%-13s %s%s\n%-13s     %s%s%s\n", s->allocator, s->setting,
                s->values, "", s->kind == SETTING_TIME ? "ms: " : "",
                s->meaning, versions_text(s, text));
    }
}
