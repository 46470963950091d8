/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The allocator under test: the malloc family of this process, C++ operators if
 * it has them, thread cache switch, malloc_trim, name, counters and statistics.
 *
 * Invariants: every pointer can be called unless its comment allows NULL. All
 * functions are those of the library that has malloc, or built from them, so no
 * allocator frees a block of another one. Reading the counters of this
 * project's libraries allocates nothing, so two readings differ by the calls
 * between them.
 *
 * Threads: one.
 *
 * Why: C cannot name C++ operators; and a function that a preloaded library
 * lacks would be that of the C library's allocator.
 */
#ifndef TOOL_CMD_REPLAY_RUN_CALLS_H
#define TOOL_CMD_REPLAY_RUN_CALLS_H

#include "base/compiler.h"
#include "cmd/replay/feed/ring.h"

struct ThreadCacheState;

/* Operators new are called in their nothrow form, since no exception can pass
   through C. The two forms differ only when memory is out. */
struct replay_calls {
    void *(*malloc)(size_t size);
    void (*free)(void *p);
    void *(*calloc)(size_t n, size_t size);
    void *(*realloc)(void *p, size_t size);
    void *(*reallocarray)(void *p, size_t n, size_t size);
    void *(*memalign)(size_t align, size_t size);
    void *(*aligned_alloc)(size_t align, size_t size);
    int (*posix_memalign)(void **p, size_t align, size_t size);
    void *(*valloc)(size_t size);
    void *(*pvalloc)(size_t size);
    void (*free_sized)(void *p, size_t size);
    void (*free_aligned_sized)(void *p, size_t align, size_t size);

    void *(*new_one)(size_t size, const void *nothrow);
    void *(*new_array)(size_t size, const void *nothrow);
    void *(*new_aligned)(size_t size, size_t align, const void *nothrow);
    void *(*new_array_aligned)(size_t size, size_t align, const void *nothrow);
    void (*delete_one)(void *p);
    void (*delete_array)(void *p);
    void (*delete_sized)(void *p, size_t size);
    void (*delete_array_sized)(void *p, size_t size);
    void (*delete_aligned)(void *p, size_t align);
    void (*delete_array_aligned)(void *p, size_t align);
    void (*delete_sized_aligned)(void *p, size_t size, size_t align);
    void (*delete_array_sized_aligned)(void *p, size_t size, size_t align);

    /* NULL if the allocator has none. */
    bool (*release_cache)(struct ThreadCacheState **place_state_here);
    bool (*set_cache)(struct ThreadCacheState *state);
    int (*trim)(size_t pad);
    size_t (*usable_size)(void *p);
    int (*property)(const char *name, size_t *value);

    bool has_operators;  /* new and delete belong to the allocator */
    const void *library; /* library that malloc comes from */
    char name[256];      /* file name, and the version if known */
};

/* Stands for std::nothrow, whose value is never read. */
extern const char replay_nothrow;

/* Finds everything but the name. Allocates nothing. */
void replay_calls_find(struct replay_calls *c);
/* Fills in the name. Functions of the allocator that it calls may allocate. */
void replay_calls_name(struct replay_calls *c);

/* --- Counters ------------------------------------------------------------- */

/* Numeric properties, by the names that traces use. */
struct replay_counters {
    uint64_t value[REPLAY_COUNTERS]; /* by number of enum mtf_account */
    uint32_t known;                  /* bit per number */
};

/* Reads the counters of the allocator of CALLS. */
void replay_counters_read(const struct replay_calls *calls,
                          struct replay_counters *out);
/* Makes *AFTER the difference from *BEFORE. Counters that both have are
   known. */
void replay_counters_since(const struct replay_counters *before,
                           struct replay_counters *after);

/* Bytes of the heap with memory behind them, by the allocator's counters; 0:
   unknown. */
uint64_t replay_heap_bytes(const struct replay_calls *calls);

/* --- Statistics ----------------------------------------------------------- */

/* Writes the allocator's own statistics to FD; as JSON if IS_JSON and the
   allocator can. To be called after the end mark. False: the allocator has no
   such function. */
bool replay_calls_statistics(const struct replay_calls *calls, int fd,
                             bool is_json);

#endif
