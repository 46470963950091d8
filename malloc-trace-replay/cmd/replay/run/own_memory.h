/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The replayer's own memory: tables, and pieces and stacks for threads. It
 * comes from the system, not from the allocator under test, and is resident and
 * counted, so that it can be subtracted from the resident memory.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_RUN_OWN_MEMORY_H
#define TOOL_CMD_REPLAY_RUN_OWN_MEMORY_H

#include "base/compiler.h"
#include "cmd/replay/watch/measure.h"

#include <pthread.h>

/* --- Where it is ---------------------------------------------------------- */

struct replay_own_range {
    uint64_t start, end;
};

/* Notes that a mapping of BYTES is the replayer's, all of it. */
void replay_own_note(const void *start, size_t bytes);
/* Forgets the mapping that begins at START. */
void replay_own_forget(const void *start);
/* Like tcm_os_map and tcm_os_unmap; the mapping is noted and forgotten. */
void *replay_own_map(size_t bytes);
void replay_own_unmap(void *start, size_t bytes);
/* Notes the program's code and data. */
void replay_own_note_program(void);
/* Returns the number of mappings noted, in *RANGE by address, until the next
   call of a function above. */
size_t replay_own_ranges(const struct replay_own_range **range);

/* --- Pieces and stacks ---------------------------------------------------- */

/* Free pieces, linked by their first bytes. All zero: empty. */
struct replay_arena_list {
    void *first;
};
void replay_arena_push(struct replay_arena_list *l, void *p);

struct replay_arena {
    struct replay_rss *rss;
    uint64_t bytes; /* bytes of the arena, and those that the owner adds */
    char *chunk;
    size_t chunk_left;
    struct replay_arena_list chunks, stacks;
};

/* Room for the thread-local variables of any library; most of it is never
   touched. */
#define REPLAY_STACK_BYTES ((size_t)1 << 20)

/* To be called before and after each change of `bytes`, and of tables that are
   left out of the resident memory. */
void replay_arena_before(struct replay_arena *a);
void replay_arena_after(struct replay_arena *a);

/* Takes a piece of BYTES zero bytes, in cache lines of its own, from LIST,
   to which pieces of this size are given back, or makes it. NULL: out of
   memory. */
void *replay_arena_piece(struct replay_arena *a, struct replay_arena_list *list,
                         size_t bytes);
/* Takes a stack. NULL: out of memory. */
void *replay_arena_stack(struct replay_arena *a);
void replay_arena_stack_back(struct replay_arena *a, void *stack);
/* Like pthread_create. The C library asks the allocator under test for a table
   of the thread's variables, and asks again, some times, when it is refused. */
int replay_thread_make(pthread_t *thread, const pthread_attr_t *attr,
                       void *(*main)(void *arg), void *arg);
/* To be called first in each thread. Clears the table as calloc should have,
   since the C library frees what stands in it. */
void replay_thread_begin(void);
/* Gives all memory back to the system, pieces included. */
void replay_arena_end(struct replay_arena *a);

/* --- Tables --------------------------------------------------------------- */

/* Entries of 8 bytes, zero when new, in memory of their own. All pages are
   present: the size of a table is its share of the resident memory. */
struct replay_table {
    void *memory; /* NULL: empty */
    size_t bytes;
    size_t reserved; /* bytes that it may grow to in place; 0: it moves */
};

/* Makes an empty table that never moves and may grow to ENTRIES, or as far as
   the address space allows. False: it has no room. */
bool replay_table_reserve(struct replay_table *t, uint64_t entries);

static inline bool replay_table_fits(const struct replay_table *t,
                                     uint64_t entries) {
    return entries * 8 <= t->bytes;
}
/* Makes room for ENTRIES and some more, and keeps the contents. The table may
   move, unless it was reserved; other threads may use a reserved one meanwhile.
   False: out of memory, nothing changed. */
bool replay_table_grow(struct replay_table *t, uint64_t entries);

#endif
