/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Account of resident pages at one moment: what lies on each, and which blocks
 * hold what is free. Knows addresses and sizes only; asks neither the system
 * nor the allocator.
 *
 *     begin with all zero but the settings
 *     memory_account_sort(block, n)
 *     memory_account_run(a, start, end, is_huge)   for all runs, ascending
 *     memory_account_end(a)
 *
 * Rules. A gap of less than MEMORY_GAP bytes between two blocks cannot hold a
 * block and counts as rounding, like the rest of a block behind the size asked
 * for. All other bytes outside of blocks are free. A page is one of:
 *
 *   live    no byte is free
 *   partly  a block has a byte there, and bytes are free
 *   empty   no block has a byte there; one had
 *   never   no block was ever seen there
 *
 * The free bytes of a page are charged in equal parts to the blocks that have a
 * byte there, because all of these blocks must go before the page can be given
 * back (equal Shapley values: L. S. Shapley, A Value for n-Person Games, 1953).
 * The resident bytes of a huge page that are in no block are divided likewise.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_WATCH_MEMORY_ACCOUNT_H
#define TOOL_CMD_REPLAY_WATCH_MEMORY_ACCOUNT_H

#include "cmd/replay/watch/memory_history.h"

#define MEMORY_GAP        16u
#define MEMORY_CELL_BYTES ((uint64_t)2 << 20)
#define MEMORY_CELL_PAGES 512u /* at most */

/* --- Rows ----------------------------------------------------------------- */

/* Value of a part of a key that stands for several. */
#define MEMORY_MIXED UINT32_MAX

struct memory_key {
    uint64_t size, age_ns; /* classes: memory_size_class, memory_age_class */
    uint32_t site, thread;
};

struct memory_account_row {
    struct memory_key key;
    bool used;
    uint64_t blocks, requested_bytes, usable_bytes, pinning_blocks;
    double held_bytes, held_huge_bytes;
};

/* Table by key. A full one puts keys together by their site, then all others
   into one row. */
struct memory_account_rows {
    struct memory_account_row *row; /* MEMORY_ROWS of them */
    size_t count;
};
#define MEMORY_ROWS ((size_t)32 << 10)

/* Returns the number of the row of KEY. */
uint32_t memory_account_row(struct memory_account_rows *rows,
                            const struct memory_key *key);
/* Empties ROWS. */
void memory_account_rows_clear(struct memory_account_rows *rows);

/* Blocks above 64 KiB are together up to each power of two. */
static inline uint64_t memory_size_class(uint64_t usable) {
    return usable <= 65536 ? usable
           : usable > (uint64_t)1 << 62
               ? (uint64_t)1 << 63
               : (uint64_t)1 << (64 - __builtin_clzll(usable - 1));
}
/* Ages by powers of ten from 1 ms on: the least of each class, 0 below. */
#define MEMORY_AGES 10u
unsigned memory_age_class(uint64_t ns);
uint64_t memory_age_least(unsigned age);

/* --- The account ---------------------------------------------------------- */

struct memory_block {
    uint64_t address;
    uint32_t slot; /* number that `open` knows */
    uint32_t row;  /* set here */
};

struct memory_facts {
    uint64_t requested, usable; /* in bytes */
    uint32_t row;               /* of `rows` */
};

/* Pages of one cell, an aligned range of a huge page. */
struct memory_account_cell {
    uint64_t number; /* address by MEMORY_CELL_BYTES */
    uint32_t live, partly, empty, never;
    uint64_t free_bytes, resident_bytes;
    uint64_t block_bytes; /* requested or rounding, of the resident bytes */
    bool is_huge;         /* a huge page of the kernel */
    /* L, E, N: live, empty, never; a to j: partly, by tenths that are free; a
       point: not resident */
    char page[MEMORY_CELL_PAGES];
};

struct memory_account {
    /* Settings. */
    uint64_t page_bytes;
    struct memory_block *block; /* sorted */
    size_t blocks;
    /* Tells the facts of a block; called once for each, in order. */
    void (*open)(void *ctx, const struct memory_block *b,
                 struct memory_facts *f);
    /* Called for each cell with resident pages, in order; may be NULL. */
    void (*cell)(void *ctx, const struct memory_account_cell *c);
    void *ctx;
    struct memory_account_rows *rows; /* NULL: nothing is divided up */
    struct memory_history *history;
    uint32_t now; /* time for the history, not 0 */
    /* Nanoseconds of a unit of the history's time. */
    uint64_t unit_ns;

    /* Results. */
    uint64_t resident_bytes, requested_bytes, rounding_bytes, free_bytes;
    uint64_t live_pages, partly_pages, empty_pages, never_pages;
    uint64_t huge_bytes, huge_requested_bytes;
    uint64_t live_bytes; /* asked for, resident or not */
    uint64_t pinning_blocks;
    uint64_t empty_for[MEMORY_AGES]; /* bytes of empty pages, by time */

    /* The place in the blocks: number of those that were opened, and the last
       one of them. */
    size_t opened;
    uint64_t start, requested_end, end;
    size_t counted; /* 1 + the last block that was counted as pinning */
    bool in_cell;
    size_t cell_first; /* first block with a byte in the cell */
    struct memory_account_cell now_cell;
    struct memory_leaf *leaf; /* of the last page */
    uint64_t leaf_number;
};

/* Sorts by address, in place. */
void memory_account_sort(struct memory_block *block, size_t n);
/* Takes resident pages from START up to END. */
void memory_account_run(struct memory_account *a, uint64_t start, uint64_t end,
                        bool is_huge);
void memory_account_end(struct memory_account *a);

#endif
