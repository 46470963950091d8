/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_settings.h"

#include "common/main.h"

#include <string.h>

#define GLIBC    "GLIBC_TUNABLES=glibc.malloc."
#define JEMALLOC "MALLOC_CONF="

static const struct setting {
    const char *allocator;
    const char *setting; /* to which a value is added */
    const char *values;  /* without the default */
    const char *meaning;
} settings[] = {
    {"glibc", GLIBC "tcache_count=", "0,2,32,127",
     "blocks of one size that a thread keeps (7)"},
    {"glibc", GLIBC "tcache_max=", "128,512",
     "largest block that a thread keeps, in bytes (1032)"},
    {"glibc", GLIBC "mmap_threshold=", "65536,1048576,33554432",
     "from this size on blocks are mapped by themselves; a set one stays "
     "(131072 "
     "and growing)"},
    {"glibc", GLIBC "trim_threshold=", "0,16777216,1073741824",
     "free memory at the heap's top above which it is given back (131072 and "
     "growing)"},
    {"glibc", GLIBC "top_pad=", "0,1048576,16777216",
     "bytes that are taken from the system beyond the need (131072)"},
    {"glibc", GLIBC "arena_max=", "1,2,4",
     "heaps that threads share (8 for each processor)"},
    {"glibc", GLIBC "hugetlb=", "1,2",
     "1: ask for transparent huge pages; 2: use reserved ones (0)"},
    {"glibc", GLIBC "mxfast=", "0,64,160",
     "largest block of the fast bins, in bytes (128)"},
    {"jemalloc", JEMALLOC "narenas:", "1,2,8",
     "heaps that threads share (4 for each processor)"},
    {"jemalloc", JEMALLOC "dirty_decay_ms:", "0,1000,-1",
     "time until unused pages are given back; -1: never (10000)"},
    {"jemalloc", JEMALLOC "muzzy_decay_ms:", "10000,-1",
     "the same of pages that the system may take at need (0)"},
    {"jemalloc", JEMALLOC "thp:", "always,never",
     "transparent huge pages (the system's default)"},
    {"jemalloc", JEMALLOC "tcache_max:", "1024,4096,262144",
     "largest block that a thread keeps, in bytes (32768)"},
    {"jemalloc", JEMALLOC "lg_tcache_nslots_mul:", "0,3",
     "blocks of one size that a thread keeps, as a power of two of those in a "
     "slab (1)"},
    {"jemalloc", JEMALLOC "background_thread:", "true",
     "threads of its own give memory back (false)"},
    {"jemalloc", JEMALLOC "metadata_thp:", "auto",
     "huge pages for its own records (disabled)"},
    {"mimalloc", "MIMALLOC_PURGE_DELAY=", "0,100,-1",
     "ms until unused pages are given back, from version 2.1 on (10)"},
    {"mimalloc", "MIMALLOC_RESET_DELAY=", "0,1000",
     "the same before version 2.1 (100)"},
    {"mimalloc", "MIMALLOC_PAGE_RESET=", "1",
     "give back each page when it is free, before version 2.1 (0)"},
    {"mimalloc", "MIMALLOC_ARENA_EAGER_COMMIT=", "0,1",
     "take memory of an arena at once, from version 2.1 on (2: if the system "
     "overcommits)"},
    {"mimalloc", "MIMALLOC_EAGER_COMMIT=", "0",
     "take memory of a segment at once, before version 2.1 (1)"},
    {"mimalloc", "MIMALLOC_EAGER_COMMIT_DELAY=", "0,4",
     "segments of a thread that are taken bit by bit (1)"},
    {"mimalloc", "MIMALLOC_ALLOW_LARGE_OS_PAGES=", "1",
     "huge pages, from version 2.1 on (0)"},
    {"mimalloc", "MIMALLOC_LARGE_OS_PAGES=", "1",
     "huge pages, before version 2.1 (0)"},
    {"gperftools", "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=",
     "4194304,134217728", "what all threads keep (33554432)"},
    {"gperftools", "TCMALLOC_RELEASE_RATE=", "0,10",
     "how fast memory is given back (1)"},
    {"gperftools", "TCMALLOC_AGGRESSIVE_DECOMMIT=", "1",
     "give free pages back at once (0)"},
    {"gperftools", "TCMALLOC_TRANSFER_NUM_OBJ=", "128,512",
     "blocks that pass between a thread and the heap together (32)"},
    {"malloc-trace", "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=",
     "4194304,134217728", "what all threads keep (33554432)"},
    {"malloc-trace", "TCMALLOC_RELEASE_RATE=", "0,10",
     "how fast memory is given back (1)"},
    {"malloc-trace", "TCMALLOC_AGGRESSIVE_DECOMMIT=", "1",
     "give free pages back at once (0)"},
};

bool compare_settings_add(struct contestants *all, const char *name) {
    char text[256];
    bool any = false;
    size_t from = contestants_find(all, name);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(settings); i++) {
        const struct setting *s = &settings[i];
        if (strcmp(s->allocator, name) != 0)
            continue;
        if (from == SIZE_MAX) {
            if (!contestants_add(all, name))
                return false;
            from = all->count - 1;
        }
        any = true;
        for (const char *value = s->values; *value != '\0';) {
            size_t n = strcspn(value, ",");
            int used = snprintf(text, sizeof(text), "%s%.*s", s->setting,
                                (int)n, value);
            if (!contestants_add_variant(all, from, text, (size_t)used))
                return false;
            value += n + (value[n] != '\0');
        }
    }
    if (!any)
        (void)tool_usage_error("--sweep-known: no settings of '%s' are known",
                               name);
    return any;
}

const char *compare_settings_meaning(const char *variable) {
    for (size_t i = 0; i < TCM_ARRAY_SIZE(settings); i++)
        if (strncmp(settings[i].setting, variable,
                    strlen(settings[i].setting)) == 0)
            return settings[i].meaning;
    return NULL;
}

void compare_settings_print(FILE *out) {
    for (size_t i = 0; i < TCM_ARRAY_SIZE(settings); i++)
        fprintf(out, "%-13s %s%s\n%-13s     %s\n", settings[i].allocator,
                settings[i].setting, settings[i].values, "",
                settings[i].meaning);
}
