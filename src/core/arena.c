/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small heap for rare use. Chunks cover each piece of address space without
 * gaps. A chunk begins with a header, which has its size and that of the chunk
 * before it, so that neighbours merge.
 *
 *    piece: [header|block ...][header|free ...][header|block]...[end header]
 *
 * First fit over the free list, newest first. A piece whose chunks are all free
 * is kept: the layers above will need it again.
 */
#include "core/arena.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/lock.h"
#include "base/linux/os_mem.h"
#include "core/meta_alloc.h"
#include "core/page_map.h"
#include "core/span.h"

#define PIECE_BYTES ((size_t)256 << 10)
#define MAGIC_USED  0x75736564u
#define MAGIC_FREE  0x66726565u
#define MAGIC_END   0x656e6421u

struct chunk {
    uint32_t magic;
    uint32_t reserved;
    size_t size;              /* with the header; a multiple of 64 */
    size_t before;            /* of the chunk before; 0: none */
    struct chunk *piece_next; /* first chunk of a piece: of the next piece */
    /* The header is a cache line long, so that blocks are aligned to one. */
    struct chunk *next; /* free list */
    struct chunk *prev;
    uint64_t unused[2];
};

#define HEADER sizeof(struct chunk)
TCM_STATIC_ASSERT(HEADER == 64, "blocks are aligned to cache lines");

static struct tcm_lock arena_lock = TCM_LOCK_INIT(TCM_RANK_PAGE_HEAP);
static struct chunk *free_list;
static struct chunk *pieces;

static struct chunk *chunk_at(struct chunk *c, size_t offset) {
    return (struct chunk *)((char *)c + offset);
}

static struct chunk *chunk_after(struct chunk *c) {
    return chunk_at(c, c->size);
}

/* True if C and its neighbours agree about their sizes. */
static bool chunk_is_valid(struct chunk *c) {
    const struct chunk *before = (struct chunk *)((char *)c - c->before);
    return c->size >= 2 * HEADER && c->size % HEADER == 0 &&
           chunk_after(c)->before == c->size &&
           (c->before == 0 || before->size == c->before);
}

static void free_list_add(struct chunk *c) {
    tcm_lock_assert_held(&arena_lock);
    TCM_ASSERT(chunk_is_valid(c));
    c->magic = MAGIC_FREE;
    c->next = free_list;
    c->prev = NULL;
    if (free_list != NULL)
        free_list->prev = c;
    free_list = c;
}

static void free_list_remove(struct chunk *c) {
    tcm_lock_assert_held(&arena_lock);
    TCM_ASSERT(c->magic == MAGIC_FREE && chunk_is_valid(c));
    TCM_ASSERT(c->prev == NULL ? free_list == c : c->prev->next == c);
    TCM_ASSERT(c->next == NULL || c->next->prev == c);
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        free_list = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
}

/* Adds a piece with one free chunk of at least SIZE. false: out of memory. */
static bool add_piece(size_t size) {
    size_t page = tcm_max_u64(tcm_os_page_size(), TCM_PAGE_SIZE);
    size_t bytes;
    if (tcm_add_overflows(size, HEADER + page, &bytes))
        return false;
    bytes = tcm_align_down(bytes, page);
    if (bytes < PIECE_BYTES)
        bytes = PIECE_BYTES;
    struct tcm_span *span = tcm_meta_alloc(sizeof(*span) + 8);
    char *start = span == NULL ? NULL : tcm_os_reserve(bytes, page, NULL);
    if (start == NULL)
        return false;
    if (!tcm_page_map_cover(start, bytes) || !tcm_os_commit(start, bytes)) {
        tcm_os_unmap(start, bytes);
        return false;
    }
    span->start = (uintptr_t)start;
    span->pages = bytes >> TCM_PAGE_SHIFT;
    span->state = TCM_SPAN_PRIVATE;
    for (size_t i = 0; i < bytes; i += TCM_PAGE_SIZE)
        tcm_page_map_set_span(span->start + i, span);
    struct chunk *c = (struct chunk *)start;
    c->size = bytes - HEADER;
    c->before = 0;
    c->piece_next = pieces;
    pieces = c;
    struct chunk *end = chunk_after(c);
    end->magic = MAGIC_END;
    end->size = 0;
    end->before = c->size;
    free_list_add(c);
    return true;
}

/* Shortens C, which is in no list, to SIZE; the rest becomes a free chunk if it
   has room for a block. */
static void chunk_cut(struct chunk *c, size_t size) {
    size_t rest = c->size - size;
    if (rest < 2 * HEADER)
        return;
    c->size = size;
    struct chunk *tail = chunk_after(c);
    tail->size = rest;
    tail->before = size;
    tail->piece_next = NULL;
    chunk_after(tail)->before = rest;
    free_list_add(tail);
}

/* Offset in C of a chunk of SIZE whose block is aligned to ALIGN; SIZE_MAX: no
   room. The offset is 0 or leaves room for a chunk before it. */
static size_t chunk_place(struct chunk *c, size_t size, size_t align) {
    uintptr_t block = (uintptr_t)c + HEADER;
    uintptr_t aligned = tcm_align_up(block, align);
    if (aligned != block && aligned - block < 2 * HEADER)
        aligned = tcm_align_up(block + 2 * HEADER, align);
    size_t offset = aligned - block;
    return offset <= c->size && c->size - offset >= size ? offset : SIZE_MAX;
}

static struct chunk *take_chunk_locked(size_t size, size_t align) {
    for (struct chunk *c = free_list; c != NULL; c = c->next) {
        size_t offset = chunk_place(c, size, align);
        if (offset == SIZE_MAX)
            continue;
        free_list_remove(c);
        if (offset != 0) {
            struct chunk *head = c;
            c = chunk_at(head, offset);
            c->size = head->size - offset;
            c->before = offset;
            c->piece_next = NULL;
            chunk_after(c)->before = c->size;
            head->size = offset;
            free_list_add(head);
        }
        chunk_cut(c, size);
        c->magic = MAGIC_USED;
        TCM_ASSERT(chunk_is_valid(c) && c->size >= size);
        TCM_ASSERT(((uintptr_t)c + HEADER) % align == 0);
        return c;
    }
    return NULL;
}

void *tcm_arena_alloc(size_t size, size_t align) {
    if (size > TCM_MAX_REQUEST || align > TCM_MAX_REQUEST / 2)
        return NULL;
    TCM_ASSERT(align == 0 || tcm_is_pow2(align));
    if (align < HEADER)
        align = HEADER;
    size_t most;
    size = tcm_align_up(size == 0 ? 1 : size, HEADER) + HEADER;
    if (tcm_add_overflows(size, align + 2 * HEADER, &most))
        return NULL;
    tcm_lock(&arena_lock);
    struct chunk *c = take_chunk_locked(size, align);
    if (c == NULL && add_piece(most))
        c = take_chunk_locked(size, align);
    tcm_unlock(&arena_lock);
    return c == NULL ? NULL : (char *)c + HEADER;
}

void tcm_arena_free(void *ptr) {
    tcm_lock(&arena_lock);
    struct chunk *c = (struct chunk *)((char *)ptr - HEADER);
    if (((uintptr_t)ptr & (HEADER - 1)) != 0 || c->magic != MAGIC_USED) {
        tcm_unlock(&arena_lock);
        tcm_die_pointer("attempt to free an invalid pointer", ptr);
    }
    TCM_ASSERT(chunk_is_valid(c));
    struct chunk *after = chunk_after(c);
    if (after->magic == MAGIC_FREE) {
        free_list_remove(after);
        after->magic = 0;
        c->size += after->size;
    }
    if (c->before != 0) {
        struct chunk *before = (struct chunk *)((char *)c - c->before);
        if (before->magic == MAGIC_FREE) {
            free_list_remove(before);
            c->magic = 0;
            before->size += c->size;
            c = before;
        }
    }
    chunk_after(c)->before = c->size;
    free_list_add(c);
    tcm_unlock(&arena_lock);
}

size_t tcm_arena_block_size(const struct tcm_span *span, const void *ptr) {
    uintptr_t a = (uintptr_t)ptr;
    if ((a & (HEADER - 1)) != 0 || a < span->start + HEADER)
        return 0;
    const struct chunk *c = (const struct chunk *)(a - HEADER);
    return c->magic == MAGIC_USED ? c->size - HEADER : 0;
}

void tcm_arena_lock(void) {
    tcm_lock(&arena_lock);
}

void tcm_arena_unlock(void) {
    tcm_unlock(&arena_lock);
}

void tcm_arena_each(void (*visit)(void *ctx, uintptr_t start, size_t bytes),
                    void *ctx) {
    tcm_lock(&arena_lock);
    const struct chunk *piece = pieces;
    tcm_unlock(&arena_lock);
    /* Pieces stay, and the first chunk of a piece keeps its piece_next. */
    for (; piece != NULL; piece = piece->piece_next) {
        const struct tcm_span *span = tcm_page_span(piece);
        TCM_CHECK(span != NULL && span->state == TCM_SPAN_PRIVATE);
        visit(ctx, span->start, tcm_span_bytes(span));
    }
}

void tcm_arena_verify(void) {
    size_t free_chunks = 0;
    tcm_lock(&arena_lock);
    for (struct chunk *piece = pieces; piece != NULL;
         piece = piece->piece_next) {
        size_t before = 0;
        uint32_t last = 0;
        struct chunk *c = piece;
        for (; c->magic != MAGIC_END; c = chunk_after(c)) {
            TCM_CHECK(c->magic == MAGIC_USED || c->magic == MAGIC_FREE);
            TCM_CHECK(c->size >= 2 * HEADER && c->size % HEADER == 0);
            TCM_CHECK(c->before == before);
            TCM_CHECK(c->magic == MAGIC_USED || last != MAGIC_FREE);
            free_chunks += c->magic == MAGIC_FREE;
            before = c->size;
            last = c->magic;
        }
        TCM_CHECK(c->before == before);
    }
    for (struct chunk *c = free_list; c != NULL; c = c->next) {
        TCM_CHECK(c->magic == MAGIC_FREE && free_chunks != 0);
        free_chunks--;
    }
    TCM_CHECK(free_chunks == 0);
    tcm_unlock(&arena_lock);
}
