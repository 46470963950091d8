/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Before the window, blocks are only remembered. Where it begins, the live
 * blocks are made in the order of their allocation: this is the prologue.
 * Within the window, operations are passed on with new slots.
 *
 * The list of threads selects blocks. A block is in the output, with all
 * operations on it by any thread, if the thread that made it is in the list. A
 * block of another thread is left out until a thread in the list resizes it;
 * from then on it is in the output, as a block whose allocation is unknown.
 */
#include "window/filter.h"

#include "base/check.h"
#include "common/collections.h"
#include "common/main.h"
#include "common/text.h"
#include "traceformat/proc_writer.h"
#include "traceformat/raw_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum filter_state {
    FILTER_EMPTY = 0,
    FILTER_HIDDEN,  /* selected, to be made in the prologue */
    FILTER_KEPT,    /* in the output */
    FILTER_LEFT_OUT /* of a thread that is not in the list */
};

/* --- Beginning ------------------------------------------------------------ */

struct filter *filter_new(const struct filter_options *options,
                          struct mtf_proc_writer *out) {
    struct filter *f = malloc(sizeof(*f));
    if (f == NULL)
        return NULL;
    memset(f, 0, offsetof(struct filter, decoder));
    f->options = options;
    f->out = out;
    f->present = FILTER_ALL_PRESENT;
    if (options->from_ns == 0 && options->from_mark == NULL)
        f->phase = FILTER_WITHIN;
    return f;
}

void filter_free(struct filter *f) {
    if (f == NULL)
        return;
    for (size_t i = 0; i < f->threads.ids.count; i++)
        free(f->threads.thread[i].name);
    free(f->threads.thread);
    tool_ids_fini(&f->threads.ids);
    for (unsigned i = 0; i < f->marks; i++)
        free(f->mark[i]);
    free(f->block);
    free(f);
}

size_t filter_header(const struct filter *f, const void *raw, size_t length,
                     void *room) {
    struct mtf_raw_info info;
    if (!f->options->strip) {
        memcpy(room, raw, length);
        return length;
    }
    if (mtf_raw_parse_header(raw, length, &info) != MTF_OK)
        return 0;
    struct mtf_raw_header h = info.fixed;
    h.pid = h.parent_pid = 0;
    h.process_start = h.random = h.parent_start = h.parent_random = 0;
    h.wall_ns = 0;
    return mtf_raw_build_header(room, &h, NULL, info.library);
}

/* --- Threads and blocks --------------------------------------------------- */

/* Returns the thread with ID, made if it is new, which may move the others.
   NULL: no memory. */
static struct filter_thread *thread_of(struct filter *f, uint32_t id) {
    struct filter_threads *s = &f->threads;
    struct filter_thread *t =
        tool_ids_get(&s->ids, &s->thread, sizeof(*s->thread), id);
    if (t == NULL)
        f->failed = true;
    else
        t->id = id;
    return t;
}

static bool asked_for(const struct filter *f, uint32_t thread) {
    return filter_list_has(&f->options->only, thread);
}

/* Makes ID the thread of the following records of the output. IS_CALL: they are
   calls of the malloc family. */
static void enter(struct filter *f, uint32_t id, bool is_call) {
    if (id == 0)
        return;
    mtf_proc_put_switch(f->out, id);
    struct filter_thread *t = thread_of(f, id);
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
    if (slot >= f->used &&
        !tool_array_extend(&f->block, &f->room, &f->used, (size_t)slot + 1,
                           sizeof(*f->block))) {
        f->failed = true;
        none.state = FILTER_EMPTY;
        return &none;
    }
    return &f->block[slot];
}

static void add_live(struct filter *f, uint64_t size) {
    f->live_bytes += size;
    f->peak_live_bytes = tcm_max_u64(f->peak_live_bytes, f->live_bytes);
}

/* Makes block B in the output, by its thread. FLAGS: of a realloc. */
static void make(struct filter *f, struct filter_block *b, unsigned flags) {
    struct mtf_proc_object place;
    TCM_ASSERT(b->state != FILTER_KEPT);
    enter(f, b->thread, true);
    mtf_proc_put_site(f->out, b->site);
    if (b->present != FILTER_ALL_PRESENT)
        mtf_proc_put_present(f->out, b->present);
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
    f->live_objects--;
    /* The sum may have wrapped around: a hostile trace has sizes up to 2^53. */
    f->live_bytes -= b->size;
    b->state = FILTER_EMPTY;
}

/* --- Prologue and epilogue ------------------------------------------------ */

static int compare_made(const void *a, const void *b) {
    const struct filter_block *x = *(struct filter_block *const *)a;
    const struct filter_block *y = *(struct filter_block *const *)b;
    return (x->made > y->made) - (x->made < y->made);
}

/* Returns the *N blocks in STATE, in the order in which they were made; the
   caller frees the list. NULL: none, or no memory. */
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
    TCM_ASSERT(at == *n);
    qsort(a, *n, sizeof(struct filter_block *), compare_made);
    return a;
}

static void end_thread(struct filter *f, struct filter_thread *t,
                       const void *name, size_t length) {
    t->end_written = true;
    mtf_proc_put_thread_end(f->out, t->id, name,
                            f->options->strip ? 0 : length);
}

static int compare_threads(const void *a, const void *b) {
    const struct filter_thread *const *x = a, *const *y = b;
    return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

/* Ends the threads that made blocks of the prologue and ended before the
   window, in the order of their ids. */
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
        end_thread(f, a[i], a[i]->name, a[i]->name_length);
    free(a);
}

static void begin_window(struct filter *f) {
    TCM_ASSERT(f->phase == FILTER_BEFORE && f->live_objects == 0);
    f->phase = FILTER_WITHIN;
    f->start_ns = f->end_ns = f->time_ns;
    mtf_proc_put_time(f->out, f->time_ns);
    mtf_proc_put_phase(f->out, MTF_PROC_PHASE_PROLOGUE);
    size_t n;
    struct filter_block **a = in_order(f, FILTER_HIDDEN, &n);
    for (size_t i = 0; i < n; i++)
        make(f, a[i], 0);
    free(a);
    TCM_ASSERT(f->live_objects == n);
    end_threads(f);
    f->prologue_ops = n;
    mtf_proc_put_phase(f->out, MTF_PROC_PHASE_RECORDED);
}

/* Returns the plain call that frees a block that CALL made. */
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

static void free_all(struct filter *f) {
    size_t n;
    mtf_proc_put_phase(f->out, MTF_PROC_PHASE_EPILOGUE);
    struct filter_block **a = in_order(f, FILTER_KEPT, &n);
    for (size_t i = 0; i < n; i++) {
        struct mtf_proc_object place = place_of(a[i]);
        enter(f, a[i]->thread, true);
        mtf_proc_put_free(f->out, free_call_of(a[i]->call), &place);
        f->counts.frees++;
        end_block(f, a[i]);
    }
    free(a);
    f->epilogue_ops = n;
}

/* --- Operations on blocks ------------------------------------------------- */

static void take_alloc(struct filter *f, const struct mtf_op *op) {
    struct filter_block *b = block_of(f, op->slot);
    *b = (struct filter_block){.made = ++f->made,
                               .size = op->size,
                               .present = f->present,
                               .thread = f->thread,
                               .state = FILTER_HIDDEN,
                               .kind = op->kind,
                               .call = op->call,
                               .align_log2 = op->align_log2,
                               .site = f->site};
    if (!asked_for(f, f->thread)) {
        b->state = FILTER_LEFT_OUT;
        f->left_out += f->phase == FILTER_WITHIN;
    } else if (f->phase == FILTER_WITHIN) {
        make(f, b, op->flags);
    }
}

static void take_realloc(struct filter *f, const struct mtf_op *op) {
    struct filter_block *b = block_of(f, op->slot);
    uint64_t before = b->size;
    b->made = ++f->made;
    b->size = op->size;
    b->thread = f->thread;
    b->kind = MTF_OP_REALLOC_NEW;
    b->call = op->call;
    b->align_log2 = 0;
    b->site = f->site;
    if (b->state == FILTER_KEPT) {
        struct mtf_proc_object place = place_of(b);
        enter(f, f->thread, true);
        mtf_proc_put_site(f->out, f->site);
        if (f->present != FILTER_ALL_PRESENT)
            mtf_proc_put_present(f->out, f->present);
        mtf_proc_put_realloc(f->out, op->call,
                             (op->flags & MTF_PROC_FLAG_MOVED) != 0, op->size,
                             &place);
        f->counts.reallocs++;
        f->counts.requested_bytes += op->size;
        f->live_bytes -= before;
        add_live(f, op->size);
        return;
    }
    b->present = f->present;
    if (b->state == FILTER_LEFT_OUT && asked_for(f, f->thread)) {
        b->state = FILTER_HIDDEN;
        if (f->phase == FILTER_WITHIN)
            make(f, b, MTF_PROC_FLAG_OLD_UNKNOWN);
    } else {
        f->left_out += f->phase == FILTER_WITHIN;
    }
}

static void take_free(struct filter *f, const struct mtf_op *op) {
    struct filter_block *b = block_of(f, op->slot);
    if (b->state != FILTER_KEPT) {
        f->left_out += f->phase == FILTER_WITHIN;
        b->state = FILTER_EMPTY;
        return;
    }
    struct mtf_proc_object place = place_of(b);
    enter(f, f->thread, true);
    if (f->free_sites)
        mtf_proc_put_site(f->out, f->site);
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

/* --- Other operations ----------------------------------------------------- */

static void take_time(struct filter *f, uint64_t time_ns) {
    const struct filter_options *o = f->options;
    if (!f->have_base) { /* the raw trace's header was lost */
        f->have_base = true;
        f->base_ns = time_ns;
    }
    f->time_ns = time_ns;
    uint64_t since = time_ns - f->base_ns;
    if (f->phase == FILTER_BEFORE && o->from_mark == NULL &&
        since >= o->from_ns)
        begin_window(f);
    if (f->phase != FILTER_WITHIN)
        return;
    if (since >= o->to_ns) {
        f->phase = FILTER_AFTER;
        return;
    }
    if (f->start_ns == 0)
        f->start_ns = time_ns;
    f->end_ns = time_ns;
    if (time_ns - f->out->time_ns >= TOOL_OPS_TIME_NS)
        mtf_proc_put_time(f->out, time_ns);
}

static bool is_text(const char *text, const uint8_t *bytes, size_t length) {
    return text != NULL && strlen(text) == length &&
           memcmp(text, bytes, length) == 0;
}

/* Keeps the text of a mark, for the message that another one is missing. */
static void note_mark(struct filter *f, const uint8_t *text, size_t length) {
    for (unsigned i = 0; i < f->marks; i++)
        if (is_text(f->mark[i], text, length))
            return;
    if (f->marks == FILTER_MARKS)
        return;
    f->mark[f->marks] = strndup((const char *)text, length);
    if (f->mark[f->marks] != NULL)
        f->marks++;
}

static void take_mark(struct filter *f, const uint8_t *text, size_t length) {
    const struct filter_options *o = f->options;
    bool begins = false;
    if (o->from_mark != NULL || o->to_mark != NULL)
        note_mark(f, text, length);
    if (f->phase == FILTER_BEFORE && is_text(o->from_mark, text, length)) {
        begins = true;
        begin_window(f);
    }
    if (f->phase != FILTER_WITHIN)
        return;
    if (!o->strip && (begins || asked_for(f, f->thread) ||
                      is_text(o->to_mark, text, length))) {
        enter(f, f->thread, false);
        mtf_proc_put_text(f->out, MTF_PROC_MARK, text, length);
    }
    if (!begins && is_text(o->to_mark, text, length))
        f->phase = FILTER_AFTER;
}

static void take_thread_end(struct filter *f, uint32_t id, const uint8_t *name,
                            size_t length) {
    struct filter_thread *t = thread_of(f, id);
    if (t == NULL)
        return;
    t->ended = true;
    if (f->phase == FILTER_WITHIN) {
        if (!t->start_written && !asked_for(f, id))
            return;
        enter(f, f->thread, false);
        end_thread(f, thread_of(f, id), name, length);
    } else if (!f->options->strip && t->name == NULL && asked_for(f, id)) {
        t->name = malloc(length + 1);
        if (t->name == NULL) {
            f->failed = true;
            return;
        }
        memcpy(t->name, name, length);
        t->name_length = (uint16_t)length;
    }
}

static void take_thread_start(struct filter *f, uint32_t id, uint32_t kernel) {
    struct filter_thread *t = thread_of(f, id);
    if (t == NULL)
        return;
    t->has_start = true;
    t->kernel_id = kernel;
    if (f->phase == FILTER_WITHIN && asked_for(f, id))
        enter(f, id, false);
}

/* Passes on a plain record, if its thread is in the list. */
static void pass_plain(struct filter *f, const struct mtf_op *op,
                       const uint8_t *text, size_t length) {
    const struct mtf_kind *k = mtf_plain_of_op(op->kind);
    if (k == NULL || !asked_for(f, f->thread))
        return;
    enter(f, f->thread, false);
    if (k->form == MTF_FORM_TEXT)
        mtf_proc_put_text(f->out, (enum mtf_proc_kind)k->proc, text, length);
    else
        mtf_proc_put_pair(f->out, (enum mtf_proc_kind)k->proc, op->slot,
                          op->size);
}

/* Passes on a record within the window that is no operation on a block. */
static void pass_on(struct filter *f, const struct mtf_op *op,
                    const uint8_t *bytes, size_t length) {
    switch (op->kind) {
    case MTF_OP_FAILED:
        if (!asked_for(f, f->thread)) {
            f->left_out++;
            return;
        }
        enter(f, f->thread, true);
        f->counts.failed++;
        mtf_proc_put_site(f->out, f->site);
        mtf_proc_put_failed(f->out, op->call, op->align_log2, op->flags,
                            op->size);
        return;
    case MTF_OP_SAMPLE:
        if (length >= 8)
            mtf_proc_put_sample(f->out, mtf_load_le64(bytes), bytes + 8,
                                length - 8);
        return;
    case MTF_OP_LOSS:
        if (length >= 24 && asked_for(f, op->slot))
            mtf_proc_put_loss(f->out, op->slot, mtf_load_le64(bytes),
                              mtf_load_le64(bytes + 8),
                              mtf_load_le64(bytes + 16));
        return;
    default:
        pass_plain(f, op, bytes, length);
        return;
    }
}

static void take_op(struct filter *f, const struct mtf_proc_block *block,
                    const struct mtf_op *op) {
    const uint8_t *bytes = NULL;
    size_t length = 0;
    switch (op->kind) {
    case MTF_OP_ALLOC:
    case MTF_OP_ALIGNED:
    case MTF_OP_REALLOC_NEW:
        take_alloc(f, op);
        f->present = FILTER_ALL_PRESENT;
        return;
    case MTF_OP_FREE:
    case MTF_OP_REALLOC_END:
    case MTF_OP_FREE_SIZE:
        take_free(f, op);
        return;
    case MTF_OP_REALLOC:
        take_realloc(f, op);
        f->present = FILTER_ALL_PRESENT;
        return;
    case MTF_OP_PRESENT:
        f->present = op->size;
        return;
    case MTF_OP_SWITCH:
        f->thread = op->slot;
        return;
    case MTF_OP_SITE:
        f->site = op->slot;
        return;
    case MTF_OP_SITE_DEF:
        bytes = mtf_proc_bytes(block, op, &length);
        f->has_sites = true;
        mtf_proc_put_site_def(f->out, bytes, length);
        return;
    case MTF_OP_TIME:
        take_time(f, op->size);
        return;
    case MTF_OP_THREAD_START:
        take_thread_start(f, op->slot, (uint32_t)op->size);
        return;
    case MTF_OP_THREAD_END:
        bytes = mtf_proc_bytes(block, op, &length);
        take_thread_end(f, op->slot, bytes, length);
        return;
    case MTF_OP_MARK:
        bytes = mtf_proc_bytes(block, op, &length);
        take_mark(f, bytes, length);
        return;
    case MTF_OP_SAMPLE:
    case MTF_OP_LOSS:
        bytes = mtf_proc_bytes(block, op, &length);
        break;
    default:
        if (mtf_op_is_text(op->kind))
            bytes = mtf_proc_bytes(block, op, &length);
        break;
    }
    if (f->phase == FILTER_WITHIN)
        pass_on(f, op, bytes, length);
}

/* --- The stream ----------------------------------------------------------- */

/* False: the block contradicts itself, which those of the sorter do not. */
static bool take_block(struct filter *f, const struct mtf_proc_block *block) {
    struct mtf_op ops[256];
    size_t n;
    if (f->phase == FILTER_AFTER && !f->has_sites)
        return true;
    if (!mtf_proc_decode_begin(&f->decoder, block))
        return false;
    f->site = MTF_SITE_NONE;
    /* A site may be defined after the end of the window that uses it. */
    while ((n = mtf_proc_decode(&f->decoder, ops, TCM_ARRAY_SIZE(ops))) != 0)
        for (size_t i = 0; i < n; i++)
            if (f->phase != FILTER_AFTER || ops[i].kind == MTF_OP_SITE_DEF)
                take_op(f, block, &ops[i]);
    return f->decoder.problem == NULL;
}

static bool take_header(struct filter *f) {
    struct mtf_proc_header h;
    struct mtf_raw_header raw = {0};
    memcpy(&h, f->memory, sizeof(h));
    memcpy(&raw, f->memory + sizeof(h),
           h.raw_length < sizeof(raw) ? h.raw_length : sizeof(raw));
    f->have_header = true;
    f->have_base = h.raw_length != 0;
    f->base_ns = f->time_ns = raw.start_ns;
    f->free_sites = (raw.settings & MTF_SETTING_FREE_SITES) != 0;
    return true;
}

static bool take_whole_block(struct filter *f) {
    struct mtf_proc_block block = {.payload = f->memory + sizeof(block.head)};
    memcpy(&block.head, f->memory, sizeof(block.head));
    return block.head.kind == MTF_PROC_BLOCK_OPS && take_block(f, &block);
}

/* Returns the length of the present header or block, as far as its bytes in
   memory tell. 0: it is none that the sorter writes. */
static size_t present_length(const struct filter *f) {
    struct mtf_proc_block_head head;
    struct mtf_proc_header h;
    if (!f->have_header) {
        if (f->length < sizeof(h))
            return sizeof(h);
        memcpy(&h, f->memory, sizeof(h));
        return h.length > MTF_PROC_HEADER_MAX ||
                       h.length < sizeof(h) + h.raw_length
                   ? 0
                   : h.length;
    }
    if (f->length < sizeof(head))
        return sizeof(head);
    memcpy(&head, f->memory, sizeof(head));
    return head.length > MTF_PROC_PAYLOAD_MAX ? 0 : sizeof(head) + head.length;
}

bool filter_take(struct filter *f, const void *data, size_t n) {
    const uint8_t *p = data;
    while (n != 0) {
        size_t whole = present_length(f);
        if (whole < f->length)
            return false;
        size_t piece = n < whole - f->length ? n : whole - f->length;
        TCM_ASSERT(f->length + piece <= sizeof(f->memory));
        memcpy(f->memory + f->length, p, piece);
        f->length += piece;
        p += piece;
        n -= piece;
        if (f->length != present_length(f))
            continue;
        f->length = 0;
        if (!(f->have_header ? take_whole_block(f) : take_header(f)))
            return false;
    }
    return !f->failed && !f->out->failed;
}

bool filter_end(struct filter *f) {
    if (f->options->at_end == FILTER_FREE_AT_END && f->phase != FILTER_BEFORE)
        free_all(f);
    return !f->failed && !f->out->failed;
}

/* Writes "a", "b" and so on to TEXT, as far as they fit. */
static void list_marks(const struct filter *f, char *text, size_t size) {
    size_t at = 0;
    for (unsigned i = 0; i < f->marks && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s\"%s\"",
                               i == 0 ? "" : ", ", f->mark[i]);
}

bool filter_found(const struct filter *f, const char *name) {
    const struct filter_options *o = f->options;
    const char *mark = f->phase == FILTER_BEFORE ? o->from_mark : o->to_mark;
    char text[512];
    struct tool_text t[2];
    if (f->phase == FILTER_BEFORE && o->from_mark == NULL) {
        tool_error("%s: --from %s is after the end of the recording, %s", name,
                   tool_text_ns(&t[0], o->from_ns),
                   tool_text_ns(&t[1], f->time_ns - f->base_ns));
        return false;
    }
    if (f->phase == FILTER_AFTER || mark == NULL)
        return true;
    list_marks(f, text, sizeof(text));
    if (f->marks == 0)
        tool_error("%s: no mark \"%s\", nor any other mark", name, mark);
    else
        tool_error("%s: no mark \"%s\"%s; the marks are %s", name, mark,
                   f->phase == FILTER_WITHIN && o->from_mark != NULL
                       ? " after the first mark"
                       : "",
                   text);
    return false;
}
