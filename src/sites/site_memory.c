/* SPDX-License-Identifier: BSD-3-Clause */
#include "sites/site_memory.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/linux/os_mem.h"

#define CHUNK_BYTES ((size_t)64 << 10)
/* The first word of a chunk counts the bytes that are used, with these. */
#define CHUNK_HEAD ((size_t)16)

void *mts_need(void *place, size_t bytes) {
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

void *mts_take(size_t **chunk, size_t bytes) {
    if (bytes > CHUNK_BYTES - CHUNK_HEAD)
        return NULL;
    for (;;) {
        size_t *current = tcm_load_acquire(chunk);
        size_t at =
            current == NULL ? CHUNK_BYTES : tcm_add_relaxed(current, bytes);
        if (at + bytes <= CHUNK_BYTES)
            return (uint8_t *)current + at;
        size_t *fresh = tcm_os_map(CHUNK_BYTES);
        if (fresh == NULL)
            return NULL;
        *fresh = CHUNK_HEAD;
        /* Publishes the count; pairs with the load above. */
        if (!tcm_cas_acq_rel(chunk, &current, fresh))
            tcm_os_unmap(fresh, CHUNK_BYTES);
    }
}
