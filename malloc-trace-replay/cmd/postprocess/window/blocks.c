/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Before the window blocks are only remembered. Where it begins, those that are
 * alive are made in the order of their allocation: this is the prologue. Within
 * the window operations are passed on with new slots.
 *
 * The list of threads selects blocks: a block is in the output, with all
 * operations on it by any thread, if the thread that made it is in the list. A
 * block of another thread is not, unless a thread in the list resizes it: from
 * then on it is, as one whose allocation is unknown.
 */
#include "cmd/postprocess/window/blocks.h"

#include "base/check.h"
#include "common/array.h"
#include "traceformat/proc_codec.h"

#include <stdlib.h>
#include <string.h>

enum filter_state {
    FILTER_EMPTY = 0,
    FILTER_HIDDEN,  /* asked for, to be made in the prologue */
    FILTER_KEPT,    /* in the output */
    FILTER_LEFT_OUT /* of another thread */
};

/* --- Threads and blocks --------------------------------------------------- */

struct filter_thread *filter_thread_of(struct filter *f, uint32_t id) {
    struct filter_thread *t = filter_threads_get(&f->threads, id);
    f->failed = f->failed || t == NULL;
    return t;
}

bool filter_asked_for(const struct filter *f, uint32_t thread) {
    return filter_list_has(&f->options->only, thread);
}

/* The following records of the output are of thread ID. */
void filter_enter(struct filter *f, uint32_t id, bool is_call) {
    if (id == 0)
        return;
    mtf_proc_put_switch(f->out, id);
    struct filter_thread *t = filter_thread_of(f, id);
    if (t == NULL)
        return;
    if (is_call && !t->counted) {
        t->counted = true;
        f->counts.threads++;
    }
    if (t->has_start && !t->start_written)
        mtf_proc_put_thread_start(f->out, id,
                                  f->options->strip ? 0 : t->kernel_id);
    t->start_written = true;
}

static struct filter_block *block_of(struct filter *f, uint32_t slot) {
    static struct filter_block none;
    if (slot >= f->room) {
        size_t before = f->room;
        if (!tool_array_reserve(&f->block, &f->room, (size_t)slot + 1,
                                sizeof(*f->block))) {
            f->failed = true;
            none.state = FILTER_EMPTY;
            return &none;
        }
        memset(f->block + before, 0, (f->room - before) * sizeof(*f->block));
    }
    if (slot >= f->used)
        f->used = (size_t)slot + 1;
    return &f->block[slot];
}

static void add_live(struct filter *f, uint64_t size) {
    f->live_bytes += size;
    f->peak_live_bytes = tcm_max_u64(f->peak_live_bytes, f->live_bytes);
}

/* B is made in the output, by its thread. */
static void make(struct filter *f, struct filter_block *b, unsigned flags) {
    struct mtf_proc_object place;
    TCM_ASSERT(b->state != FILTER_KEPT);
    filter_enter(f, b->thread, true);
    switch (b->kind) {
    case MTF_OP_ALLOC:
        f->counts.mallocs++;
        mtf_proc_put_alloc(f->out, b->call, b->size, &place);
        break;
    case MTF_OP_ALIGNED:
        f->counts.memaligns++;
        mtf_proc_put_aligned(f->out, b->call, b->align_log2, b->size, &place);
        break;
    default:
        f->counts.reallocs++;
        mtf_proc_put_realloc_new(f->out, b->call, flags, b->size, &place);
        break;
    }
    b->birth = place.birth;
    b->slot = place.slot;
    b->state = FILTER_KEPT;
    f->counts.requested_bytes += b->size;
    f->live_objects++;
    add_live(f, b->size);
}

static struct mtf_proc_object place_of(const struct filter_block *b) {
    return (struct mtf_proc_object){.birth = b->birth, .slot = b->slot};
}

static void end_block(struct filter *f, struct filter_block *b) {
    TCM_ASSERT(b->state == FILTER_KEPT && f->live_objects != 0);
    TCM_ASSERT(f->live_bytes >= b->size);
    f->live_objects--;
    f->live_bytes -= b->size;
    b->state = FILTER_EMPTY;
}

/* --- Prologue and epilogue ------------------------------------------------ */

static int compare_made(const void *a, const void *b) {
    const struct filter_block *x = *(struct filter_block *const *)a;
    const struct filter_block *y = *(struct filter_block *const *)b;
    return (x->made > y->made) - (x->made < y->made);
}

/* The blocks in STATE, in the order in which they were made. *N; NULL: none, or
   no memory. The caller frees. */
static struct filter_block **in_order(struct filter *f, enum filter_state state,
                                      size_t *n) {
    *n = 0;
    for (size_t i = 0; i < f->used; i++)
        *n += f->block[i].state == state;
    if (*n == 0)
        return NULL;
    struct filter_block **a = malloc(*n * sizeof(struct filter_block *));
    if (a == NULL) {
        f->failed = true;
        *n = 0;
        return NULL;
    }
    size_t at = 0;
    for (size_t i = 0; i < f->used; i++)
        if (f->block[i].state == state)
            a[at++] = &f->block[i];
    qsort(a, *n, sizeof(struct filter_block *), compare_made);
    return a;
}

void filter_end_thread(struct filter *f, struct filter_thread *t,
                       const void *name, size_t length) {
    t->end_written = true;
    mtf_proc_put_thread_end(f->out, t->id, name,
                            f->options->strip ? 0 : length);
}

static int compare_threads(const void *a, const void *b) {
    const struct filter_thread *const *x = a, *const *y = b;
    return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

/* Threads that ended before the window, and made blocks of it, by their ids. */
static void end_threads(struct filter *f) {
    struct filter_threads *s = &f->threads;
    struct filter_thread **a = malloc((s->ids.count + 1) * sizeof(*a));
    size_t n = 0;
    if (a == NULL) {
        f->failed = true;
        return;
    }
    for (size_t i = 0; i < s->ids.count; i++) {
        struct filter_thread *t = &s->thread[i];
        if (t->ended && t->start_written && !t->end_written)
            a[n++] = t;
    }
    qsort(a, n, sizeof(struct filter_thread *), compare_threads);
    for (size_t i = 0; i < n; i++)
        filter_end_thread(f, a[i], a[i]->name, a[i]->name_length);
    free(a);
}

void filter_begin_window(struct filter *f) {
    f->phase = FILTER_WITHIN;
    f->start_ns = f->end_ns = f->time_ns;
    mtf_proc_put_time(f->out, f->time_ns);
    mtf_proc_put_phase(f->out, MTF_PROC_PHASE_PROLOGUE);
    size_t n;
    struct filter_block **a = in_order(f, FILTER_HIDDEN, &n);
    for (size_t i = 0; i < n; i++)
        make(f, a[i], 0);
    free(a);
    end_threads(f);
    f->prologue_ops = n;
    mtf_proc_put_phase(f->out, MTF_PROC_PHASE_RECORDED);
}

/* The plain call that frees what CALL made. */
static unsigned free_call_of(unsigned call) {
    switch (call) {
    case MTF_CALL_NEW:
    case MTF_CALL_NEW_NOTHROW:
        return MTF_CALL_DELETE;
    case MTF_CALL_NEW_ARRAY:
    case MTF_CALL_NEW_ARRAY_NOTHROW:
        return MTF_CALL_DELETE_ARRAY;
    case MTF_CALL_NEW_ALIGNED:
    case MTF_CALL_NEW_ALIGNED_NOTHROW:
        return MTF_CALL_DELETE_ALIGNED;
    case MTF_CALL_NEW_ARRAY_ALIGNED:
    case MTF_CALL_NEW_ARRAY_ALIGNED_NOTHROW:
        return MTF_CALL_DELETE_ARRAY_ALIGNED;
    default:
        return MTF_CALL_FREE;
    }
}

void filter_free_all(struct filter *f) {
    size_t n;
    mtf_proc_put_phase(f->out, MTF_PROC_PHASE_EPILOGUE);
    struct filter_block **a = in_order(f, FILTER_KEPT, &n);
    for (size_t i = 0; i < n; i++) {
        struct mtf_proc_object place = place_of(a[i]);
        filter_enter(f, a[i]->thread, true);
        mtf_proc_put_free(f->out, free_call_of(a[i]->call), &place);
        f->counts.frees++;
        end_block(f, a[i]);
    }
    free(a);
    f->epilogue_ops = n;
}

/* --- Operations on blocks ------------------------------------------------- */

void filter_alloc(struct filter *f, const struct mtf_op *op) {
    struct filter_block *b = block_of(f, op->slot);
    *b = (struct filter_block){.made = ++f->made,
                               .size = op->size,
                               .thread = f->thread,
                               .state = FILTER_HIDDEN,
                               .kind = op->kind,
                               .call = op->call,
                               .align_log2 = op->align_log2};
    if (!filter_asked_for(f, f->thread)) {
        b->state = FILTER_LEFT_OUT;
        f->left_out += f->phase == FILTER_WITHIN;
    } else if (f->phase == FILTER_WITHIN) {
        make(f, b, op->flags);
    }
}

void filter_realloc(struct filter *f, const struct mtf_op *op) {
    struct filter_block *b = block_of(f, op->slot);
    uint64_t before = b->size;
    b->made = ++f->made;
    b->size = op->size;
    b->thread = f->thread;
    b->kind = MTF_OP_REALLOC_NEW;
    b->call = op->call;
    b->align_log2 = 0;
    if (b->state == FILTER_KEPT) {
        struct mtf_proc_object place = place_of(b);
        filter_enter(f, f->thread, true);
        mtf_proc_put_realloc(f->out, op->call,
                             (op->flags & MTF_PROC_FLAG_MOVED) != 0, op->size,
                             &place);
        f->counts.reallocs++;
        f->counts.requested_bytes += op->size;
        f->live_bytes -= before;
        add_live(f, op->size);
    } else if (b->state == FILTER_LEFT_OUT && filter_asked_for(f, f->thread)) {
        b->state = FILTER_HIDDEN;
        if (f->phase == FILTER_WITHIN)
            make(f, b, MTF_PROC_FLAG_OLD_UNKNOWN);
    } else {
        f->left_out += f->phase == FILTER_WITHIN;
    }
}

void filter_free_op(struct filter *f, const struct mtf_op *op) {
    struct filter_block *b = block_of(f, op->slot);
    if (b->state != FILTER_KEPT) {
        f->left_out += f->phase == FILTER_WITHIN;
        b->state = FILTER_EMPTY;
        return;
    }
    struct mtf_proc_object place = place_of(b);
    filter_enter(f, f->thread, true);
    f->counts.foreign_frees += b->thread != f->thread;
    if (op->kind == MTF_OP_REALLOC_END) {
        f->counts.reallocs++;
        mtf_proc_put_realloc_end(f->out, op->call, &place);
    } else {
        f->counts.frees++;
        if (op->kind == MTF_OP_FREE_SIZE)
            mtf_proc_put_free_size(f->out, op->call, &place, op->size);
        else
            mtf_proc_put_free(f->out, op->call, &place);
    }
    end_block(f, b);
}
