/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A text is filled in, then published as the head of its bucket (release).
 */
#include "sites/site_texts.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "sites/site_memory.h"

#include <string.h>

#define BUCKETS_LOG2 16u
#define CHUNK_LOG2   10u
#define CHUNKS       14u /* 2^24 texts */

static uint32_t *buckets; /* the newest text's number */
static struct mts_text *chunks[CHUNKS];
static size_t *copies; /* memory of the bytes */
static uint32_t next_text = 1;

static struct mts_text *text_at(uint32_t number, bool make) {
    uint32_t n = number + (1u << CHUNK_LOG2);
    unsigned chunk = tcm_log2_floor(n) - CHUNK_LOG2;
    size_t count = (size_t)1 << (CHUNK_LOG2 + chunk);
    if (chunk >= CHUNKS)
        return NULL;
    struct mts_text *t = make ? mts_need(&chunks[chunk], count * sizeof(*t))
                              : tcm_load_acquire(&chunks[chunk]);
    return t == NULL ? NULL : t + (n - count);
}

uint32_t mts_texts_end(void) {
    return (uint32_t)tcm_min_u64(tcm_load_acquire(&next_text), MTF_SITE_LIMIT);
}

struct mts_text *mts_text_of(uint32_t number) {
    struct mts_text *t = number == 0 ? NULL : text_at(number, false);
    /* Pairs with the store when it was filled in. */
    return t == NULL || tcm_load_acquire(&t->bytes) == NULL ? NULL : t;
}

static uint32_t hash_of(const char *bytes, uint32_t length) {
    uint64_t h = length;
    for (uint32_t i = 0; i < length; i++)
        h = (h ^ (uint8_t)bytes[i]) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

/* The text among those from number I of a bucket on, or 0. */
static uint32_t find_in_bucket(uint32_t i, uint32_t hash, const char *bytes,
                               uint32_t length) {
    const struct mts_text *t;
    for (; i != 0 && (t = text_at(i, false)) != NULL; i = t->next)
        if (t->hash == hash && t->length == length &&
            memcmp(t->bytes, bytes, length) == 0)
            return i;
    return 0;
}

uint32_t mts_text_intern(const char *bytes, uint32_t length) {
    TCM_ASSERT(length <= MTF_SITE_TEXT_MAX);
    size_t table = sizeof(uint32_t) << BUCKETS_LOG2;
    if (length == 0 || mts_need(&buckets, table) == NULL)
        return 0;
    uint32_t hash = hash_of(bytes, length);
    uint32_t *bucket = &tcm_load_acquire(&buckets)[hash >> (32 - BUCKETS_LOG2)];
    uint32_t head = tcm_load_acquire(bucket);
    uint32_t found = find_in_bucket(head, hash, bytes, length);
    if (found != 0 || tcm_load_relaxed(&next_text) >= MTF_SITE_LIMIT)
        return found;
    char *copy = mts_take(&copies, length);
    uint32_t number =
        copy == NULL ? MTF_SITE_LIMIT : tcm_add_relaxed(&next_text, 1u);
    struct mts_text *t = number < MTF_SITE_LIMIT ? text_at(number, true) : NULL;
    if (t == NULL)
        return 0;
    memcpy(copy, bytes, length);
    t->hash = hash;
    t->length = length;
    /* For mts_text_of by number: all but NEXT is there. */
    tcm_store_release(&t->bytes, copy);
    do {
        t->next = head;
        /* Publishes the text; pairs with the load of the head. Another thread
           may have made the same, which is a second number for it. */
    } while (!tcm_cas_acq_rel(bucket, &head, number));
    return number;
}
