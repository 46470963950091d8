/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The allocator under test: this process's malloc family, C++ operators if it
 * has them, thread cache switch, malloc_trim, counters, and name.
 *
 * Invariants: every pointer can be called unless its comment allows NULL. All
 * calls go to the library that malloc comes from, or are made of calls that do:
 * one allocator never frees a block of another.
 *
 * Why: C cannot name C++ operators; and where a preloaded library lacks a
 * function of the family, the loader would find that of the C library's own
 * allocator.
 */
#ifndef TOOL_CMD_REPLAY_RUN_CALLS_H
#define TOOL_CMD_REPLAY_RUN_CALLS_H

#include "base/compiler.h"

struct ThreadCacheState;

/*
 * Operators new are called in their nothrow form, since no exception can pass
 * through C. The two forms differ only in what they do when memory is out.
 */
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

    /* NULL when the allocator has none */
    bool (*release_cache)(struct ThreadCacheState **place_state_here);
    bool (*set_cache)(struct ThreadCacheState *state);
    int (*trim)(size_t pad);
    size_t (*usable_size)(void *p);
    int (*property)(const char *name, size_t *value);

    bool has_operators;  /* new and delete are the allocator's own */
    const void *library; /* where malloc comes from */
    char name[256];      /* file name, and version where it is known */
};

/* Stands for std::nothrow, whose value nobody reads. */
extern const char replay_nothrow;

/* Finds everything but the name; allocates nothing. */
void replay_calls_find(struct replay_calls *c);
/* Fills in the name; the allocator's own functions that it asks may
   allocate. */
void replay_calls_name(struct replay_calls *c);

#endif
