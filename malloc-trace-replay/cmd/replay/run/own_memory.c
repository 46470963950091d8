/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/run/own_memory.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "cmd/replay/run/recorded_clock.h"

#include <errno.h>
#include <link.h>
#include <string.h>

/* --- Where it is ---------------------------------------------------------- */

#define OWN_FIRST 512u

/* Mappings, in no order unless is_sorted. A mapping for which the list has no
   memory is taken for the allocator's. */
static struct {
    struct replay_own_range first[OWN_FIRST], *at;
    size_t count, room;
    bool is_sorted;
} own;

static bool own_extend(void) {
    if (own.room == 0) {
        own.at = own.first;
        own.room = OWN_FIRST;
    }
    if (own.count + 1 < own.room)
        return true;
    struct replay_own_range *old = own.at;
    struct replay_own_range *p = tcm_os_map(2 * own.room * sizeof(*p));
    if (p == NULL)
        return false;
    if (old != own.first)
        replay_own_forget(old);
    memcpy(p, old, own.count * sizeof(*p));
    if (old != own.first)
        tcm_os_unmap(old, own.room * sizeof(*p));
    own.at = p;
    own.room *= 2;
    own.at[own.count++] = (struct replay_own_range){
        (uintptr_t)p, (uintptr_t)p + own.room * sizeof(*p)};
    return true;
}

void replay_own_note(const void *start, size_t bytes) {
    own.is_sorted = false;
    if (own_extend())
        own.at[own.count++] = (struct replay_own_range){
            (uintptr_t)start, (uintptr_t)start + bytes};
}

void replay_own_forget(const void *start) {
    own.is_sorted = false;
    for (size_t i = own.count; i-- != 0;)
        if (own.at[i].start == (uintptr_t)start) {
            own.at[i] = own.at[--own.count];
            return;
        }
}

void *replay_own_map(size_t bytes) {
    void *p = tcm_os_map(bytes);
    if (p != NULL)
        replay_own_note(p, bytes);
    return p;
}

void replay_own_unmap(void *start, size_t bytes) {
    replay_own_forget(start);
    tcm_os_unmap(start, bytes);
}

/* Callback of dl_iterate_phdr, which names the program first. */
static int note_program(struct dl_phdr_info *info, size_t size, void *unused) {
    uintptr_t first = UINTPTR_MAX, end = 0;
    size_t page = tcm_os_page_size();
    (void)size;
    (void)unused;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uintptr_t start = (uintptr_t)(info->dlpi_addr + h->p_vaddr);
        if (h->p_type != PT_LOAD)
            continue;
        first = tcm_min_u64(first, tcm_align_down(start, page));
        end = tcm_max_u64(end, tcm_align_up(start + h->p_memsz, page));
    }
    if (end > first)
        replay_own_note((const void *)first, end - first);
    return 1;
}

void replay_own_note_program(void) {
    (void)dl_iterate_phdr(note_program, NULL);
}

/* Sorts by insertion: few mappings are new since the last time. */
size_t replay_own_ranges(const struct replay_own_range **range) {
    for (size_t i = 1; i < own.count && !own.is_sorted; i++) {
        struct replay_own_range one = own.at[i];
        size_t k = i;
        for (; k > 0 && own.at[k - 1].start > one.start; k--)
            own.at[k] = own.at[k - 1];
        own.at[k] = one;
    }
    own.is_sorted = true;
    *range = own.at;
    return own.count;
}

/* --- Pieces and stacks ---------------------------------------------------- */

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
    char *p = replay_own_map(CHUNK_BYTES);
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
    p = replay_own_map(REPLAY_STACK_BYTES);
    if (p == NULL)
        return NULL;
    (void)tcm_os_no_huge_pages(p, REPLAY_STACK_BYTES);
    memset(p + REPLAY_STACK_BYTES - STACK_PRESENT, 0, STACK_PRESENT);
    /* The list of free stacks will use these bytes: their page is present and
       counted. */
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

/* The dynamic thread vector of glibc has a pair of words for each library: the
   address of its thread-local variables, and the pointer to free for them at
   the end of the thread, NULL for libraries that the program started with. The
   word in front of the pairs is their number. */
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
        replay_own_unmap(p, REPLAY_STACK_BYTES);
    while ((p = list_pop(&a->chunks)) != NULL)
        replay_own_unmap(p, CHUNK_BYTES);
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
    replay_own_note(p, length);
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
        if (t->memory != NULL) {
            replay_own_note(t->memory, length);
            return true;
        }
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
        replay_own_unmap(t->memory, t->bytes);
    }
    TCM_ASSERT(length >= t->bytes && length >= entries * 8);
    t->memory = p;
    t->bytes = length;
    return true;
}
