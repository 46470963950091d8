/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/run/own_memory.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "cmd/replay/run/recorded_clock.h"

#include <errno.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)256 << 10)
#define CHUNK_HEAD  ((size_t)128)
#define PIECE_ALIGN ((size_t)128)

/* Bytes of each stack that are present and counted: all that a thread needs. */
#define STACK_PRESENT ((size_t)32 << 10)

static void *list_pop(struct replay_arena_list *l) {
    void *p = l->first;
    if (p != NULL)
        memcpy(&l->first, p, sizeof(l->first));
    return p;
}

void replay_arena_push(struct replay_arena_list *l, void *p) {
    memcpy(p, &l->first, sizeof(l->first));
    l->first = p;
}

void replay_arena_before(struct replay_arena *a) {
    replay_rss_before_own(a->rss);
}

void replay_arena_after(struct replay_arena *a) {
    replay_rss_after_own(a->rss, a->bytes);
}

static bool chunk_map(struct replay_arena *a) {
    replay_arena_before(a);
    char *p = tcm_os_map(CHUNK_BYTES);
    if (p == NULL)
        return false;
    memset(p, 0, CHUNK_BYTES);
    replay_arena_push(&a->chunks, p);
    a->chunk = p + CHUNK_HEAD;
    a->chunk_left = CHUNK_BYTES - CHUNK_HEAD;
    a->bytes += CHUNK_BYTES;
    replay_arena_after(a);
    return true;
}

void *replay_arena_piece(struct replay_arena *a, struct replay_arena_list *list,
                         size_t bytes) {
    void *p = list_pop(list);
    bytes = tcm_align_up(bytes, PIECE_ALIGN);
    TCM_ASSERT(bytes <= CHUNK_BYTES - CHUNK_HEAD);
    if (p == NULL) {
        if (a->chunk_left < bytes && !chunk_map(a))
            return NULL;
        p = a->chunk;
        a->chunk += bytes;
        a->chunk_left -= bytes;
    }
    memset(p, 0, bytes);
    return p;
}

void *replay_arena_stack(struct replay_arena *a) {
    char *p = list_pop(&a->stacks);
    if (p != NULL)
        return p;
    replay_arena_before(a);
    p = tcm_os_map(REPLAY_STACK_BYTES);
    if (p == NULL)
        return NULL;
    (void)tcm_os_no_huge_pages(p, REPLAY_STACK_BYTES);
    memset(p + REPLAY_STACK_BYTES - STACK_PRESENT, 0, STACK_PRESENT);
    /* The list of free stacks used these bytes. */
    memset(p, 0, sizeof(void *));
    a->bytes += STACK_PRESENT + tcm_os_page_size();
    replay_arena_after(a);
    return p;
}

void replay_arena_stack_back(struct replay_arena *a, void *stack) {
    replay_arena_push(&a->stacks, stack);
}

/* --- Threads -------------------------------------------------------------- */

#define TRIES 4u

int replay_thread_make(pthread_t *thread, const pthread_attr_t *attr,
                       void *(*main)(void *arg), void *arg) {
    int error = 0;
    for (unsigned i = 0; i < TRIES; i++) {
        replay_makes_thread = true;
        error = pthread_create(thread, attr, main, arg);
        replay_makes_thread = false;
        if (error != EAGAIN && error != ENOMEM)
            break;
    }
    return error;
}

/* glibc's table has a pair of words for each library: the address of the
   library's variables, and the pointer that is freed for them at the end of the
   thread. That is NULL unless a library was loaded after the start of the
   program. The word before the pairs is their number. */
void replay_thread_begin(void) {
#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
    struct pair {
        size_t value;
        void *freed;
    } * pair;
#if defined(__x86_64__)
    __asm__("movq %%fs:8, %0" : "=r"(pair));
#else
    memcpy(&pair, __builtin_thread_pointer(), sizeof(pair));
#endif
    size_t pairs = pair[-1].value;
    for (size_t i = 1; i <= pairs; i++)
        pair[i].freed = NULL;
#endif
}

void replay_arena_end(struct replay_arena *a) {
    void *p;
    while ((p = list_pop(&a->stacks)) != NULL)
        tcm_os_unmap(p, REPLAY_STACK_BYTES);
    while ((p = list_pop(&a->chunks)) != NULL)
        tcm_os_unmap(p, CHUNK_BYTES);
    a->chunk_left = 0;
}

/* --- Tables --------------------------------------------------------------- */

#define TABLE_FIRST ((size_t)64 << 10)
/* Tables of this size and more ask for huge pages, so that looking up a slot
   rarely misses the TLB. */
#define TABLE_HUGE ((size_t)2 << 20)

/* Maps LENGTH bytes at a multiple of ALIGN, all present and zero. */
static void *table_map(size_t length, size_t align) {
    void *p = tcm_os_reserve(length, align, NULL);
    if (p == NULL)
        return NULL;
    if (!tcm_os_commit(p, length)) {
        tcm_os_unmap(p, length);
        return NULL;
    }
    if (length >= TABLE_HUGE)
        tcm_os_huge_pages(p, length);
    memset(p, 0, length);
    return p;
}

bool replay_table_reserve(struct replay_table *t, uint64_t entries) {
    size_t length = tcm_align_up((size_t)entries * 8, TABLE_HUGE);
    while (length >= TABLE_HUGE) {
        t->memory = tcm_os_reserve(length, TABLE_HUGE, NULL);
        t->bytes = 0;
        t->reserved = length;
        if (t->memory != NULL)
            return true;
        length = tcm_align_down(length / 2, TABLE_HUGE);
    }
    return false;
}

/* Extends T to LENGTH bytes without moving it. */
static bool table_extend(struct replay_table *t, size_t length) {
    char *end = (char *)t->memory + t->bytes;
    length = (size_t)tcm_min_u64(length, t->reserved);
    if (!tcm_os_commit(end, length - t->bytes))
        return false;
    memset(end, 0, length - t->bytes);
    t->bytes = length;
    return true;
}

bool replay_table_grow(struct replay_table *t, uint64_t entries) {
    if (entries > SIZE_MAX / 32)
        return false;
    size_t length = t->bytes == 0 ? TABLE_FIRST : t->bytes * 2;
    if (length < entries * 8)
        length = entries * 8;
    size_t unit = length >= TABLE_HUGE ? TABLE_HUGE : TABLE_FIRST;
    length = tcm_align_up(length, unit);
    if (t->reserved != 0)
        return entries * 8 <= t->reserved && table_extend(t, length);
    void *p = table_map(length, unit);
    if (p == NULL)
        return false;
    if (t->memory != NULL) {
        memcpy(p, t->memory, t->bytes);
        tcm_os_unmap(t->memory, t->bytes);
    }
    TCM_ASSERT(length >= t->bytes && length >= entries * 8);
    t->memory = p;
    t->bytes = length;
    return true;
}
