/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/allocator_settings.h"

#include "common/allocators.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* --- The table ------------------------------------------------------------ */

#define GLIBC    "GLIBC_TUNABLES=glibc.malloc."
#define JEMALLOC "MALLOC_CONF="
#define MIMALLOC "MIMALLOC_"

#define KIB ((int64_t)1 << 10)
#define MIB ((int64_t)1 << 20)
#define GIB ((int64_t)1 << 30)

static const struct tool_setting settings[] = {
#ifdef __GLIBC__ /* other C libraries have no such settings */
    {"glibc", GLIBC "tcache_count=", SETTING_NUMBER, "0,2,32,127", "7", 1, 1024,
     4, 226, 0, "blocks of one size that a thread keeps", NULL},
    {"glibc", GLIBC "tcache_max=", SETTING_SIZE, "128,512", "1032", 32, 1032, 2,
     226, 0, "largest block that a thread keeps, in bytes", NULL},
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
     "bytes taken from the system beyond those needed",
     "mallopt(M_TOP_PAD, $);"},
    {"glibc", GLIBC "arena_max=", SETTING_NUMBER, "1,2,4", "", 1, 256, 2, 226,
     0, "heaps that threads share (8 for each processor)",
     "mallopt(M_ARENA_MAX, $);"},
    {"glibc", GLIBC "hugetlb=", SETTING_WORD, "1,2", "0", 0, 0, 0, 235, 0,
     "1: ask for transparent huge pages; 2: use reserved ones", NULL},
    {"glibc", GLIBC "mxfast=", SETTING_SIZE, "0,64,160", "128", 32, 160, 2, 226,
     243, "largest block of the fast bins, in bytes", "mallopt(M_MXFAST, $);"},
#endif

    {"jemalloc", JEMALLOC "narenas:", SETTING_NUMBER, "1,2,8", "", 1, 256, 2, 0,
     0, "heaps that threads share (4 for each processor)", NULL},
    {"jemalloc", JEMALLOC "dirty_decay_ms:", SETTING_TIME, "0,1000,-1", "10000",
     100, 100000, 3, 500, 0,
     "time until unused pages are given back; -1: never", NULL},
    {"jemalloc", JEMALLOC "muzzy_decay_ms:", SETTING_TIME, "10000,-1", "0", 100,
     100000, 3, 500, 0,
     "time until pages that the system may take when it needs them are "
     "given back",
     NULL},
    {"jemalloc", JEMALLOC "thp:", SETTING_WORD, "always,never", "default", 0, 0,
     0, 501, 0, "transparent huge pages (the system's default)", NULL},
    {"jemalloc", JEMALLOC "metadata_thp:", SETTING_WORD, "auto,always",
     "disabled", 0, 0, 0, 501, 0, "huge pages for its own records", NULL},
    {"jemalloc", JEMALLOC "tcache_max:", SETTING_SIZE, "1024,4096,262144",
     "32768", 256, 4 * MIB, 4, 503, 0,
     "largest block that a thread keeps, in bytes", NULL},
    {"jemalloc", JEMALLOC "lg_tcache_max:", SETTING_NUMBER, "10,12,18", "15", 8,
     22, 2, 0, 503, "largest block that a thread keeps, as a power of two",
     NULL},
    {"jemalloc", JEMALLOC "lg_tcache_nslots_mul:", SETTING_WORD, "0,3", "1", 0,
     0, 0, 503, 0,
     "blocks of one size that a thread keeps, as a power of two of those in a "
     "slab",
     NULL},
    {"jemalloc", JEMALLOC "background_thread:", SETTING_SWITCH, "true", "false",
     0, 0, 0, 500, 0, "background threads give memory back", NULL},
    {"jemalloc", JEMALLOC "oversize_threshold:", SETTING_SIZE, "0,1048576",
     "8388608", 256 * KIB, 64 * MIB, 4, 502, 0,
     "blocks from this size on share a heap that gives them back at once; 0: "
     "none does",
     NULL},
    {"jemalloc", JEMALLOC "percpu_arena:", SETTING_WORD, "percpu,phycpu",
     "disabled", 0, 0, 0, 500, 0, "a heap for each processor", NULL},
    {"jemalloc", JEMALLOC "retain:", SETTING_SWITCH, "false", "true", 0, 0, 0,
     500, 0, "keep the addresses of memory that is given back", NULL},
    {"jemalloc", JEMALLOC "tcache:", SETTING_SWITCH, "false", "true", 0, 0, 0,
     0, 0, "threads keep blocks", NULL},
    {"jemalloc", JEMALLOC "tcache_nslots_small_max:", SETTING_NUMBER, "20,2000",
     "200", 8, 4096, 4, 503, 0,
     "most blocks of a small size that a thread keeps", NULL},
    {"jemalloc", JEMALLOC "experimental_tcache_gc:", SETTING_SWITCH, "false",
     "true", 0, 0, 0, 503, 0,
     "what a thread keeps is looked through more often", NULL},
    {"jemalloc", JEMALLOC "hpa:", SETTING_SWITCH, "true", "false", 0, 0, 0, 503,
     0, "place blocks by huge pages", NULL},
    {"jemalloc", JEMALLOC "huge_arena_pac_thp:", SETTING_SWITCH, "true",
     "false", 0, 0, 0, 503, 0,
     "huge pages for blocks from oversize_threshold on", NULL},
    {"jemalloc", JEMALLOC "disable_large_size_classes:", SETTING_SWITCH,
     "false", "true", 0, 0, 0, 503, 0,
     "large blocks take whole pages, without rounding to a class", NULL},
    {"jemalloc", JEMALLOC "lg_extent_max_active_fit:", SETTING_NUMBER, "2,10",
     "6", 1, 30, 2, 501, 0,
     "how much larger a free extent may be than what it serves, as a power of "
     "two",
     NULL},

    {"mimalloc", MIMALLOC "PURGE_DELAY=", SETTING_TIME, "0,10,100,-1", "1000",
     1, 60000, 4, 300, 0, "time until unused pages are given back; -1: never",
     "mi_option_set(mi_option_purge_delay, $);"},
    {"mimalloc", MIMALLOC "PURGE_DELAY=", SETTING_TIME, "0,100,-1", "10", 1,
     10000, 4, 201, 300, "time until unused pages are given back; -1: never",
     "mi_option_set(mi_option_purge_delay, $);"},
    {"mimalloc", MIMALLOC "ARENA_PURGE_MULT=", SETTING_NUMBER, "0,10,100", "1",
     1, 1000, 4, 300, 0, "PURGE_DELAY of an arena, by this factor",
     "mi_option_set(mi_option_arena_purge_mult, $);"},
    {"mimalloc", MIMALLOC "ARENA_PURGE_MULT=", SETTING_NUMBER, "0,1,100", "10",
     1, 1000, 4, 201, 300, "PURGE_DELAY of an arena, by this factor",
     "mi_option_set(mi_option_arena_purge_mult, $);"},
    {"mimalloc", MIMALLOC "PURGE_DECOMMITS=", SETTING_SWITCH, "0", "1", 0, 0, 0,
     201, 0, "give memory back at once; 0: when the system needs it",
     "mi_option_set(mi_option_purge_decommits, $);"},
    {"mimalloc", MIMALLOC "MINIMAL_PURGE_SIZE=", SETTING_SIZE,
     "16384,262144,2097152", "0", 4 * KIB, 64 * MIB, 4, 302, 0,
     "least memory given back together; 0: 64 KiB, or a huge page",
     "mi_option_set(mi_option_minimal_purge_size, $ / 1024);"},
    {"mimalloc", MIMALLOC "ALLOW_THP=", SETTING_WORD, "0,2", "1", 0, 0, 0, 302,
     0, "transparent huge pages; 2: give back whole ones alone",
     "mi_option_set(mi_option_allow_thp, $);"},
    {"mimalloc", MIMALLOC "ALLOW_THP=", SETTING_SWITCH, "0", "1", 0, 0, 0, 202,
     300, "transparent huge pages", "mi_option_set(mi_option_allow_thp, $);"},
    {"mimalloc", MIMALLOC "PAGE_FULL_RETAIN=", SETTING_NUMBER, "-1,0,8", "2", 1,
     64, 2, 300, 0, "free pages of a size that a thread keeps",
     "mi_option_set(mi_option_page_full_retain, $);"},
    {"mimalloc", MIMALLOC "PAGE_RECLAIM_ON_FREE=", SETTING_WORD, "-1,1", "0", 0,
     0, 0, 301, 0,
     "a free takes over the page of a thread that ended: 0 in the thread's own "
     "heap, 1 in any, -1 never",
     "mi_option_set(mi_option_page_reclaim_on_free, $);"},
    {"mimalloc", MIMALLOC "PAGE_COMMIT_ON_DEMAND=", SETTING_SWITCH, "1", "0", 0,
     0, 0, 300, 0, "take memory of a page step by step",
     "mi_option_set(mi_option_page_commit_on_demand, $);"},
    {"mimalloc", MIMALLOC "DECOMMIT_DELAY=", SETTING_TIME, "0,100,1000", "25",
     1, 10000, 4, 200, 201, "time until unused pages are given back",
     "mi_option_set(mi_option_decommit_delay, $);"},
    {"mimalloc", MIMALLOC "SEGMENT_DECOMMIT_DELAY=", SETTING_TIME, "0,50,5000",
     "500", 1, 60000, 4, 200, 201, "time until unused segments are given back",
     "mi_option_set(mi_option_segment_decommit_delay, $);"},
    {"mimalloc", MIMALLOC "ALLOW_DECOMMIT=", SETTING_SWITCH, "0", "1", 0, 0, 0,
     200, 201, "give memory back",
     "mi_option_set(mi_option_allow_decommit, $);"},
    {"mimalloc", MIMALLOC "RESET_DELAY=", SETTING_TIME, "0,1000", "100", 1,
     10000, 4, 0, 200, "time until unused pages are given back",
     "mi_option_set(mi_option_reset_delay, $);"},
    {"mimalloc", MIMALLOC "PAGE_RESET=", SETTING_SWITCH, "1", "0", 0, 0, 0, 0,
     201, "give back each page when it is free",
     "mi_option_set(mi_option_page_reset, $);"},
    {"mimalloc", MIMALLOC "ABANDONED_PAGE_DECOMMIT=", SETTING_SWITCH, "1", "0",
     0, 0, 0, 200, 201, "give back free pages of threads that end",
     "mi_option_set(mi_option_abandoned_page_decommit, $);"},
    {"mimalloc", MIMALLOC "ABANDONED_PAGE_PURGE=", SETTING_SWITCH, "1", "0", 0,
     0, 0, 201, 0, "give back free pages of threads that end",
     "mi_option_set(mi_option_abandoned_page_purge, $);"},
    {"mimalloc", MIMALLOC "ARENA_EAGER_COMMIT=", SETTING_WORD, "0,1", "2", 0, 0,
     0, 201, 0,
     "take memory of an arena at once (2: if the system overcommits)",
     "mi_option_set(mi_option_arena_eager_commit, $);"},
    {"mimalloc", MIMALLOC "EAGER_COMMIT=", SETTING_SWITCH, "0", "1", 0, 0, 0, 0,
     303, "take memory of a segment at once",
     "mi_option_set(mi_option_eager_commit, $);"},
    {"mimalloc", MIMALLOC "EAGER_COMMIT_DELAY=", SETTING_NUMBER, "0,4", "1", 1,
     64, 2, 0, 302, "segments of a thread whose memory is taken step by step",
     "mi_option_set(mi_option_eager_commit_delay, $);"},
    {"mimalloc", MIMALLOC "ALLOW_LARGE_OS_PAGES=", SETTING_SWITCH, "1", "0", 0,
     0, 0, 201, 0, "huge pages",
     "mi_option_set(mi_option_allow_large_os_pages, $);"},
    {"mimalloc", MIMALLOC "LARGE_OS_PAGES=", SETTING_SWITCH, "1", "0", 0, 0, 0,
     0, 201, "huge pages", "mi_option_set(mi_option_large_os_pages, $);"},

    {"gperftools", "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=", SETTING_SIZE,
     "4194304,134217728", "33554432", 512 * KIB, GIB, 4, 0, 0,
     "bytes in all thread caches together",
     "MallocExtension_SetNumericProperty(\"tcmalloc.max_total_thread_cache_"
     "bytes\", $);"},
    {"gperftools", "TCMALLOC_RELEASE_RATE=", SETTING_NUMBER, "0,10", "1", 1,
     100, 3, 0, 0, "how fast memory is given back; 0: never",
     "MallocExtension_SetMemoryReleaseRate($);"},
    {"gperftools", "TCMALLOC_AGGRESSIVE_DECOMMIT=", SETTING_SWITCH, "1", "0", 0,
     0, 0, 0, 0, "give free pages back at once",
     "MallocExtension_SetNumericProperty(\"tcmalloc.aggressive_memory_"
     "decommit\", $);"},
    {"gperftools", "TCMALLOC_TRANSFER_NUM_OBJ=", SETTING_NUMBER, "128,512",
     "32", 2, 4096, 4, 0, 0,
     "blocks that pass between a thread and the heap together", NULL},

    {"google-tcmalloc", "TCMALLOC_HPAA_CONTROL=", SETTING_WORD, "1", "2", 0, 0,
     0, 0, 0, "2: give back parts of huge pages, too; 1: whole ones alone",
     NULL},
    {"google-tcmalloc", "TCMALLOC_USE_HUGE_REGION_MORE_OFTEN_DISABLE=",
     SETTING_SWITCH, "1", "0", 0, 0, 0, 0, 0,
     "1: large blocks share a region only in programs with few small ones",
     NULL},
    {"google-tcmalloc", "TCMALLOC_REUSE_SIZE_CLASSES=", SETTING_WORD, "reuse",
     "0", 0, 0, 0, 0, 0, "the size classes: reuse has others", NULL},
    {"google-tcmalloc", "BORG_EXPERIMENTS=", SETTING_WORD,
     "TCMALLOC_PER_CPU_CACHE_SIZE_1MB,TCMALLOC_HUGE_REGION_ADAPTIVE_RELEASE",
     "none", 0, 0, 0, 0, 0, "experiments that it has in it", NULL},

    {TCM_ALLOCATOR_NAME, "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=", SETTING_SIZE,
     "4194304,134217728", "50331648", 512 * KIB, GIB, 4, 0, 0,
     "bytes in all thread caches together",
     "MallocExtension_SetNumericProperty(\"tcmalloc.max_total_thread_cache_"
     "bytes\", $);"},
    {TCM_ALLOCATOR_NAME, "TCMALLOC_RELEASE_RATE=", SETTING_NUMBER, "0,10", "1",
     1, 1000, 3, 0, 0, "how fast memory is given back; 0: never", NULL},
    {TCM_ALLOCATOR_NAME, "TCMALLOC_AGGRESSIVE_DECOMMIT=", SETTING_SWITCH, "1",
     "0", 0, 0, 0, 0, 0, "give free pages back at once",
     "MallocExtension_SetNumericProperty(\"tcmalloc.aggressive_memory_"
     "decommit\", $);"},
};

const struct tool_setting *tool_settings(size_t *count) {
    *count = TCM_ARRAY_SIZE(settings);
    return settings;
}

/* --- Versions ------------------------------------------------------------- */

unsigned tool_setting_version(const char *text) {
    char *end;
    const char *blank = strrchr(text, ' ');
    unsigned long major = strtoul(blank == NULL ? text : blank, &end, 10);
    if (*end != '.' || !isdigit((unsigned char)end[1]))
        return 0;
    unsigned long minor = strtoul(end + 1, &end, 10);
    return major < 100 && minor < 100 ? (unsigned)(major * 100 + minor) : 0;
}

bool tool_setting_is_in(const struct tool_setting *s, unsigned version) {
    return version == 0 ||
           (version >= s->from && (s->below == 0 || version < s->below));
}

const char *tool_setting_meaning(const char *variable) {
    for (size_t i = 0; i < TCM_ARRAY_SIZE(settings); i++)
        if (strncmp(settings[i].setting, variable,
                    strlen(settings[i].setting)) == 0)
            return settings[i].meaning;
    return NULL;
}

/* --- What libraries say --------------------------------------------------- */

const char *tool_setting_told(const struct tool_setting *s, char *const *told,
                              size_t count) {
    size_t n = strlen(s->setting);
    for (size_t i = 0; i < count; i++)
        if (strncmp(told[i], s->setting, n) == 0)
            return told[i] + n;
    return NULL;
}
