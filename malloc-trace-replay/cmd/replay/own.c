/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/own.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/os_mem.h"

#include <errno.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)256 << 10)
#define CHUNK_HEAD  ((size_t)128)
#define PIECE_ALIGN ((size_t)128)

/* So much of each stack, all that a thread needs, is kept present and
   counted. */
#define STACK_PRESENT ((size_t)32 << 10)

static void *list_pop(struct replay_own_list *l) {
    void *p = l->first;
    if (p != NULL)
        memcpy(&l->first, p, sizeof(l->first));
    return p;
}

void replay_own_push(struct replay_own_list *l, void *p) {
    memcpy(p, &l->first, sizeof(l->first));
    l->first = p;
}

void replay_own_before(struct replay_own *o) {
    replay_rss_before_own(o->rss);
}

void replay_own_after(struct replay_own *o) {
    replay_rss_after_own(o->rss, o->bytes);
}

static bool chunk_map(struct replay_own *o) {
    replay_own_before(o);
    char *p = tcm_os_map(CHUNK_BYTES);
    if (p == NULL)
        return false;
    memset(p, 0, CHUNK_BYTES);
    replay_own_push(&o->chunks, p);
    o->chunk = p + CHUNK_HEAD;
    o->chunk_left = CHUNK_BYTES - CHUNK_HEAD;
    o->bytes += CHUNK_BYTES;
    replay_own_after(o);
    return true;
}

void *replay_own_piece(struct replay_own *o, struct replay_own_list *list,
                       size_t bytes) {
    void *p = list_pop(list);
    bytes = tcm_align_up(bytes, PIECE_ALIGN);
    TCM_ASSERT(bytes <= CHUNK_BYTES - CHUNK_HEAD);
    if (p == NULL) {
        if (o->chunk_left < bytes && !chunk_map(o))
            return NULL;
        p = o->chunk;
        o->chunk += bytes;
        o->chunk_left -= bytes;
    }
    memset(p, 0, bytes);
    return p;
}

void *replay_own_stack(struct replay_own *o) {
    char *p = list_pop(&o->stacks);
    if (p != NULL)
        return p;
    replay_own_before(o);
    p = tcm_os_map(REPLAY_STACK_BYTES);
    if (p == NULL)
        return NULL;
    (void)tcm_os_no_huge_pages(p, REPLAY_STACK_BYTES);
    memset(p + REPLAY_STACK_BYTES - STACK_PRESENT, 0, STACK_PRESENT);
    /* The list of free pieces used these bytes. */
    memset(p, 0, sizeof(void *));
    o->bytes += STACK_PRESENT + tcm_os_page_size();
    replay_own_after(o);
    return p;
}

void replay_own_stack_back(struct replay_own *o, void *stack) {
    replay_own_push(&o->stacks, stack);
}

/* --- Threads -------------------------------------------------------------- */

#define TRIES 4u

int replay_own_thread(pthread_t *thread, const pthread_attr_t *attr,
                      void *(*main)(void *arg), void *arg) {
    int error = 0;
    for (unsigned i = 0; i < TRIES; i++) {
        error = pthread_create(thread, attr, main, arg);
        if (error != EAGAIN && error != ENOMEM)
            break;
    }
    return error;
}

/* glibc's table has a pair of words for each library: where its variables are,
   and what is freed for them at the thread's end, which is nothing before a
   library is loaded that came after the program's start. The word before is the
   number of pairs. */
void replay_own_thread_begin(void) {
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

void replay_own_end(struct replay_own *o) {
    void *p;
    while ((p = list_pop(&o->stacks)) != NULL)
        tcm_os_unmap(p, REPLAY_STACK_BYTES);
    while ((p = list_pop(&o->chunks)) != NULL)
        tcm_os_unmap(p, CHUNK_BYTES);
    o->chunk_left = 0;
}
