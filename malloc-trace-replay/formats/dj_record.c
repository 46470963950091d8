/* SPDX-License-Identifier: BSD-3-Clause */
#include "formats/dj_record.h"

const struct dj_call dj_calls[DJ_CALLS] = {
    [DJ_MALLOC] = {FORMAT_ALLOC, MTF_CALL_MALLOC},
    [DJ_CALLOC] = {FORMAT_ALLOC, MTF_CALL_CALLOC},
    [DJ_FREE] = {FORMAT_FREE, MTF_CALL_FREE},
    [DJ_REALLOC] = {FORMAT_REALLOC, MTF_CALL_REALLOC},
    [DJ_MEMALIGN] = {FORMAT_ALLOC, MTF_CALL_MEMALIGN},
    [DJ_VALLOC] = {FORMAT_ALLOC, MTF_CALL_VALLOC},
    [DJ_PVALLOC] = {FORMAT_ALLOC, MTF_CALL_PVALLOC},
    [DJ_POSIX_MEMALIGN] = {FORMAT_ALLOC, MTF_CALL_POSIX_MEMALIGN},
};

bool dj_fill(const struct dj_record *r, struct format_event *e) {
    if (r->type == DJ_UNUSED || r->type >= DJ_CALLS)
        return false;
    e->kind = dj_calls[r->type].kind;
    e->call = dj_calls[r->type].call;
    e->id = r->ptr2;
    e->size = r->size;
    e->thread = r->thread;
    e->flags = FORMAT_THREADED;
    if (r->type == DJ_FREE) {
        e->old = r->ptr1;
        e->id = e->size = 0;
    } else if (r->type == DJ_REALLOC) {
        e->old = r->ptr1;
    } else if (r->type == DJ_POSIX_MEMALIGN && r->ptr1 != 0) {
        e->id = 0; /* an errno */
    }
    if (mtf_call_is_aligned_alloc(e->call))
        e->align_log2 = format_align_log2(
            r->type == DJ_PVALLOC && r->size2 == 0 ? 4096 : r->size2);
    return true;
}
