/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A text is filled in, then published as the head of its bucket (release).
 */
#include "tracer/site_texts.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/os_mem.h"

#include <string.h>

#define BUCKETS_LOG2 16u
#define CHUNK_LOG2   10u
#define CHUNKS       14u /* 2^24 texts */
#define BYTES_CHUNK  ((size_t)64 << 10)

static uint32_t *buckets; /* the newest text's number */
static struct mtr_text *chunks[CHUNKS];
static uint32_t next_text = 1;

/* Memory at *PLACE, made if it is missing; NULL: there is none. */
static void *need(void *place, size_t bytes) {
    void **p = place, *old = tcm_load_acquire(p);
    if (old != NULL)
        return old;
    bytes = tcm_align_up(bytes, tcm_os_page_size());
    void *fresh = tcm_os_map(bytes);
    if (fresh == NULL)
        return NULL;
    /* Publishes zeroed memory; pairs with the load above. */
    if (tcm_cas_acq_rel(p, &old, fresh))
        return fresh;
    tcm_os_unmap(fresh, bytes);
    return old;
}

static struct mtr_text *text_at(uint32_t number, bool make) {
    uint32_t n = number + (1u << CHUNK_LOG2);
    unsigned chunk = tcm_log2_floor(n) - CHUNK_LOG2;
    size_t count = (size_t)1 << (CHUNK_LOG2 + chunk);
    if (chunk >= CHUNKS)
        return NULL;
    struct mtr_text *t = make ? need(&chunks[chunk], count * sizeof(*t))
                              : tcm_load_acquire(&chunks[chunk]);
    return t == NULL ? NULL : t + (n - count);
}

uint32_t mtr_texts_end(void) {
    return (uint32_t)tcm_min_u64(tcm_load_acquire(&next_text), MTF_SITE_LIMIT);
}

struct mtr_text *mtr_text_of(uint32_t number) {
    struct mtr_text *t = number == 0 ? NULL : text_at(number, false);
    /* Pairs with the store when it was filled in. */
    return t == NULL || tcm_load_acquire(&t->bytes) == NULL ? NULL : t;
}

/* Never given back. The first word of a chunk counts what is used of it. */
static char *take(size_t length) {
    static size_t *chunk;
    size_t head = sizeof(size_t);
    for (;;) {
        size_t *mine = tcm_load_acquire(&chunk);
        size_t at = mine == NULL ? BYTES_CHUNK : tcm_add_relaxed(mine, length);
        if (at + length <= BYTES_CHUNK)
            return (char *)mine + at;
        size_t *fresh = tcm_os_map(BYTES_CHUNK);
        if (fresh == NULL)
            return NULL;
        *fresh = head;
        /* Publishes the count; pairs with the load above. */
        if (!tcm_cas_acq_rel(&chunk, &mine, fresh))
            tcm_os_unmap(fresh, BYTES_CHUNK);
    }
}

static uint32_t hash_of(const char *bytes, uint32_t length) {
    uint64_t h = length;
    for (uint32_t i = 0; i < length; i++)
        h = (h ^ (uint8_t)bytes[i]) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

/* The text among those from number I of a bucket on, or 0. */
static uint32_t look(uint32_t i, uint32_t hash, const char *bytes,
                     uint32_t length) {
    const struct mtr_text *t;
    for (; i != 0 && (t = text_at(i, false)) != NULL; i = t->next)
        if (t->hash == hash && t->length == length &&
            memcmp(t->bytes, bytes, length) == 0)
            return i;
    return 0;
}

uint32_t mtr_text_intern(const char *bytes, uint32_t length) {
    TCM_ASSERT(length <= MTF_SITE_TEXT_MAX);
    size_t table = sizeof(uint32_t) << BUCKETS_LOG2;
    if (length == 0 || need(&buckets, table) == NULL)
        return 0;
    uint32_t hash = hash_of(bytes, length);
    uint32_t *bucket = &tcm_load_acquire(&buckets)[hash >> (32 - BUCKETS_LOG2)];
    uint32_t head = tcm_load_acquire(bucket);
    uint32_t found = look(head, hash, bytes, length);
    if (found != 0 || tcm_load_relaxed(&next_text) >= MTF_SITE_LIMIT)
        return found;
    char *copy = take(length);
    uint32_t number =
        copy == NULL ? MTF_SITE_LIMIT : tcm_add_relaxed(&next_text, 1u);
    struct mtr_text *t = number < MTF_SITE_LIMIT ? text_at(number, true) : NULL;
    if (t == NULL)
        return 0;
    memcpy(copy, bytes, length);
    t->hash = hash;
    t->length = length;
    /* For mtr_text_of by number: all but NEXT is there. */
    tcm_store_release(&t->bytes, copy);
    do {
        t->next = head;
        /* Publishes the text; pairs with the load of the head. Another thread
           may have made the same, which is a second number for it. */
    } while (!tcm_cas_acq_rel(bucket, &head, number));
    return number;
}
