/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks: the first is an array of the library itself, so that a tiny program
 * maps nothing; the others are mappings that double from 128 KiB to 1 MiB, in a
 * list for tcm_meta_each. Untouched parts of a chunk have no memory behind
 * them. The end of a chunk that is too short for a request is lost. The next
 * chunk is mapped before the present one is used up, by a thread that holds no
 * lock.
 */
#include "core/meta_alloc.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/lock.h"
#include "base/linux/os_mem.h"

#define FIRST_CHUNK ((size_t)32 << 10)
#define MIN_CHUNK   ((size_t)128 << 10)
#define MAX_CHUNK   ((size_t)1 << 20)
#define LOW_BYTES   ((size_t)8 << 10) /* left when a spare chunk is mapped */

/* Size of the reserve as a part of the heap: room for a record of 128 bytes for
   each page. */
#define RECORDS_SHARE 64
#define RESERVE_STEP  ((size_t)64 << 10)
#define RESERVE_MAX   ((size_t)1 << 30)
#define RESERVE_PART  4u /* a piece adds at least this part of the reserve */
#define MOST_PIECES   64u

/* Begins a chunk that was mapped. */
struct chunk_head {
    struct chunk_head *next;
    size_t bytes; /* length of the chunk */
} TCM_ALIGNED(TCM_META_ALIGN);

TCM_STATIC_ASSERT(TCM_META_MOST + sizeof(struct chunk_head) <= MIN_CHUNK,
                  "each chunk has room for each request");

static struct tcm_lock meta_lock = TCM_LOCK_INIT(TCM_RANK_META);
static char first_chunk[FIRST_CHUNK] TCM_ALIGNED(TCM_META_ALIGN);
static char *bump = first_chunk;
static char *bump_end = first_chunk + FIRST_CHUNK;
static size_t next_chunk = MIN_CHUNK;
/* Mapped chunks, newest first; the spare one is not in use yet. */
static struct chunk_head *chunks;
static char *spare; /* the next chunk, or NULL */
static char *spare_end;
static bool getting_spare; /* a thread is mapping it */
bool tcm_meta_low;
/* The reserve, in pieces that are used one after the other. */
static struct piece {
    char *start;
    size_t bytes;
} piece[MOST_PIECES];
static size_t pieces;        /* mapped */
static size_t pieces_out;    /* used up */
static size_t piece_used;    /* bytes of the next one */
static size_t reserve_bytes; /* in all; growth lock */
static uint64_t mapped_bytes = FIRST_CHUNK;

static char *map_chunk(size_t bytes) {
    tcm_lock_assert_held(&meta_lock);
    TCM_ASSERT(bytes % tcm_os_page_size() == 0);
    char *p = tcm_os_map(bytes);
    if (p != NULL)
        tcm_store_relaxed(&mapped_bytes, mapped_bytes + bytes);
    return p;
}

static size_t take_chunk_size(void) {
    size_t bytes = next_chunk;
    if (next_chunk < MAX_CHUNK)
        next_chunk *= 2;
    return bytes;
}

/* Adds the chunk of BYTES at P to the list. Returns its first free byte. */
static char *begin_chunk(char *p, size_t bytes) {
    tcm_lock_assert_held(&meta_lock);
    struct chunk_head *head = (struct chunk_head *)p;
    TCM_ASSERT((uintptr_t)p % TCM_META_ALIGN == 0 && bytes > sizeof(*head));
    head->next = chunks;
    head->bytes = bytes;
    chunks = head;
    return p + sizeof(*head);
}

/* Begins a new chunk: the spare one if there is one. false: out of memory. */
static bool next_bump(void) {
    tcm_lock_assert_held(&meta_lock);
    if (spare != NULL) {
        bump = begin_chunk(spare, (size_t)(spare_end - spare));
        bump_end = spare_end;
        spare = NULL;
        return true;
    }
    size_t size = next_chunk;
    char *p = map_chunk(size);
    if (p == NULL)
        return false;
    bump = begin_chunk(p, size);
    bump_end = p + size;
    (void)take_chunk_size();
    return true;
}

static char *alloc_locked(size_t bytes) {
    tcm_lock_assert_held(&meta_lock);
    TCM_ASSERT(bytes % TCM_META_ALIGN == 0 && bump <= bump_end);
    TCM_ASSERT((uintptr_t)bump % TCM_META_ALIGN == 0);
    if ((size_t)(bump_end - bump) < bytes && !next_bump())
        return NULL;
    TCM_ASSERT((size_t)(bump_end - bump) >= bytes);
    char *p = bump;
    bump += bytes;
    /* Read by the next caller of tcm_meta_stock. */
    if ((size_t)(bump_end - bump) < LOW_BYTES && spare == NULL)
        tcm_store_relaxed(&tcm_meta_low, true);
    return p;
}

void tcm_meta_stock_slow(void) {
    tcm_lock(&meta_lock);
    TCM_ASSERT(next_chunk >= MIN_CHUNK && next_chunk <= MAX_CHUNK);
    bool maps_spare = tcm_meta_low && spare == NULL && !getting_spare;
    size_t bytes = maps_spare ? take_chunk_size() : 0;
    getting_spare = getting_spare || maps_spare;
    tcm_store_relaxed(&tcm_meta_low, false);
    tcm_unlock(&meta_lock);
    if (!maps_spare)
        return;
    char *p = tcm_os_map(bytes);
    tcm_lock(&meta_lock);
    TCM_ASSERT(getting_spare && spare == NULL);
    getting_spare = false;
    spare = p;
    spare_end = p == NULL ? NULL : p + bytes;
    if (p != NULL)
        tcm_store_relaxed(&mapped_bytes, mapped_bytes + bytes);
    tcm_unlock(&meta_lock);
}

void *tcm_meta_alloc(size_t bytes) {
    if (bytes > TCM_META_MOST)
        return NULL;
    bytes = tcm_align_up(bytes, TCM_META_ALIGN);
    tcm_lock(&meta_lock);
    char *p = alloc_locked(bytes);
    tcm_unlock(&meta_lock);
    return p;
}

bool tcm_meta_keep_reserve(uint64_t heap_bytes) {
    uint64_t wanted = tcm_min_u64(heap_bytes / RECORDS_SHARE, RESERVE_MAX);
    size_t bytes = tcm_align_down(wanted, RESERVE_STEP);
    if (bytes <= reserve_bytes || pieces == MOST_PIECES)
        return true;
    bytes = tcm_max_u64(bytes - reserve_bytes, reserve_bytes / RESERVE_PART);
    bytes = tcm_align_up(bytes, RESERVE_STEP);
    char *start = tcm_os_map(bytes);
    if (start == NULL)
        return false;
    reserve_bytes += bytes;
    tcm_lock(&meta_lock);
    piece[pieces++] = (struct piece){start, bytes};
    tcm_store_relaxed(&mapped_bytes, mapped_bytes + bytes);
    tcm_unlock(&meta_lock);
    return true;
}

static void *urgent_alloc(size_t bytes) {
    char *p = NULL;
    bytes = tcm_align_up(bytes, TCM_META_ALIGN);
    tcm_lock(&meta_lock);
    TCM_ASSERT(pieces_out <= pieces && bytes <= RESERVE_STEP);
    if (pieces_out < pieces && piece[pieces_out].bytes - piece_used < bytes) {
        pieces_out++;
        piece_used = 0;
    }
    if (pieces_out < pieces) {
        p = piece[pieces_out].start + piece_used;
        piece_used += bytes;
    }
    tcm_unlock(&meta_lock);
    return p;
}

uint64_t tcm_meta_mapped_bytes(void) {
    return tcm_load_relaxed(&mapped_bytes);
}

void tcm_meta_each(void (*visit)(void *ctx, uintptr_t start, size_t bytes),
                   void *ctx) {
    tcm_lock(&meta_lock);
    const struct chunk_head *chunk = chunks;
    size_t n = pieces;
    tcm_unlock(&meta_lock);
    /* Neither pieces nor chunks are ever unmapped, and `next` of a chunk in the
       list does not change. */
    for (size_t i = 0; i < n; i++)
        visit(ctx, (uintptr_t)piece[i].start, piece[i].bytes);
    for (; chunk != NULL; chunk = chunk->next)
        visit(ctx, (uintptr_t)chunk, chunk->bytes);
}

void tcm_meta_lock(void) {
    tcm_lock(&meta_lock);
}

void tcm_meta_fork_child(void) {
    tcm_lock_assert_held(&meta_lock);
    getting_spare = false;
}

void tcm_meta_unlock(void) {
    tcm_unlock(&meta_lock);
}

void *tcm_pool_get(struct tcm_pool *pool) {
    TCM_ASSERT(pool->record_bytes >= sizeof(void *));
    void *record = pool->free;
    if (record == NULL) {
        record = tcm_meta_alloc(pool->record_bytes);
        return record != NULL || !pool->urgent
                   ? record
                   : urgent_alloc(pool->record_bytes);
    }
    /* Atomic: threads look without a lock whether there is one. */
    tcm_store_relaxed(&pool->free, *(void **)record);
    return record;
}

void tcm_pool_put(struct tcm_pool *pool, void *record) {
    TCM_ASSERT(record != NULL && record != pool->free);
    TCM_ASSERT((uintptr_t)record % TCM_META_ALIGN == 0);
    *(void **)record = pool->free;
    tcm_store_relaxed(&pool->free, record);
}
