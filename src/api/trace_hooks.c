/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hooks of the tracing library: from object words to tokens, from a thread's
 * state to its stream, and the functions that the recorder calls (mtr_host).
 *
 * A free reads the token of its block and marks the word. A value below the
 * recording's first token is no token: the block was allocated while not
 * recording. A marked token of this recording belongs to a free block, because
 * every allocation while a recording is on replaces the word, also one that is
 * not recorded (tcm_trace_forget). Words of blocks from plain paths have at
 * most marks of an earlier recording.
 */
#include "api/trace_hooks.h"
#include "api/block.h"
#include "api/thread_state.h"
#include "base/bits.h"
#include "base/linux/os_mem.h"
#include "base/lock.h"
#include "core/cache_registry.h"
#include "core/heap_census.h"
#include "core/heap_memory.h"
#include "core/page_map.h"
#include "core/size_class.h"
#include "traceformat/control_protocol.h"
#include "tracer/stream/thread_looks.h"

/* mtr_enter for the calling thread. Its record names no stream meanwhile,
   because the recorder may give the stream to another thread. */
static struct mtr_thread *enter_recorder(struct tcm_thread_state *self) {
    struct tcm_thread_record *record = self->record;
    if (record == NULL)
        return mtr_enter(&self->trace);
    record->trace = NULL;
    tcm_fence_signal();
    struct mtr_thread *t = mtr_enter(&self->trace);
    record->trace = t;
    return t;
}

/* Sends the calling thread to the traced or slow paths. */
static void leave_plain(struct tcm_thread_state *self) {
    if (self->own == TCM_NO_CACHE)
        return;
    tcm_store_relaxed(&self->own->alloc_limit, 0);
    tcm_store_relaxed(&self->own->free_pages, 0);
}

struct mtr_thread *tcm_trace_enter(struct tcm_thread_state *self) {
    TCM_ASSERT(tcm_thread_is_valid(self) && !tcm_trace_is_private(self));
    TCM_ASSERT(tcm_locks_held == 0);
    if (self->life == TCM_THREAD_ENDED)
        return mtr_late_enter(&self->late_id);
    struct mtr_thread *t = NULL;
    /* The stream may be left from an earlier recording, and a child may have
       been forked without handlers: the recorder detects both. */
    if (tcm_trace_is_recording() || self->trace != &mtr_no_thread ||
        tcm_load_relaxed(&tcm_load_relaxed(&mtr_control)->known) == 0)
        t = enter_recorder(self);
    else
        self->trace = &mtr_no_thread;
    if (t == NULL) {
        tcm_thread_resume_plain(self);
        return NULL;
    }
    /* A starter switches off malloc's plain path, then free's. Between the two,
       a block freed on the plain path would lie in the cache without its word
       when the traced path takes it out. */
    leave_plain(self);
    if (!self->own->want_words && self->own != TCM_NO_CACHE)
        tcm_cache_want_words(self->own, true);
    TCM_ASSERT(!tcm_thread_is_plain(self));
    return t;
}

/* Finds the call site of an allocation and enters it into T. Finding lines may
   allocate, so T is entered again after it; a stream of a thread past its end
   is locked, and runs no interpreter any more. NULL: the call is not recorded.
 */
static struct mtr_thread *enter_sited(struct tcm_thread_state *self,
                                      struct mtr_thread *t, uintptr_t caller,
                                      size_t size) {
    struct mts_thread *sites = t->cold->sites;
    uint64_t key = caller;
    mts_note_loader(caller);
    if (self->life != TCM_THREAD_ENDED && !mtr_drops(t)) {
        uint32_t session = t->cold->session;
        bool has_lines = sites->has_lines;
        key = mts_key(sites, caller);
        if (has_lines)
            t = tcm_trace_enter(self);
        /* If another recording is on, or none, SITES may be another thread's,
           with the lines that were found. */
        if (t == NULL || t->cold->session != session)
            key = caller;
    }
    bool good =
        t == NULL || !mtr_has_sites(t) || mtr_site_enter(t, caller, key, size);
    mts_key_done(sites, key, caller);
    if (good)
        return t;
    tcm_trace_leave(self);
    tcm_thread_resume_plain(self);
    return NULL;
}

struct mtr_thread *tcm_trace_enter_alloc(struct tcm_thread_state *self,
                                         size_t size) {
    uintptr_t caller = self->caller;
    struct mtr_thread *t = tcm_trace_enter(self);
    return t == NULL || TCM_LIKELY(!mtr_has_sites(t))
               ? t
               : enter_sited(self, t, caller, size);
}

struct mtr_thread *tcm_trace_enter_free(struct tcm_thread_state *self) {
    struct mtr_thread *t = tcm_trace_enter(self);
    if (t == NULL || TCM_LIKELY(!mtr_has_free_sites(t)) ||
        mtr_site_enter_free(t))
        return t;
    tcm_trace_leave(self);
    tcm_thread_resume_plain(self);
    return NULL;
}

/* Allocates and records with SITE. Three events: they end within
   MTR_BUFFER_SLACK of limit. */
static TCM_ALWAYS_INLINE void *put_sited_alloc(size_t size, uint64_t scaled,
                                               enum mtf_call call,
                                               uint32_t site) {
    struct mtr_thread *t = tcm_self.trace;
    struct tcm_thread_cache *cache = tcm_self.own;
    struct mts_thread *sites = t->cold->sites;
    mtr_put_site(t, sites, site);
    mtr_put_sited_call(t, sites, call);
    struct tcm_entry *entry = tcm_bin_at(cache, scaled)->top - 1;
    void *ptr = entry->ptr;
    tcm_bin_at(cache, scaled)->top = entry;
    *entry->word = mtr_put_alloc(t, size);
    return ptr;
}

/* Allocates and records with a site that is more than a caller. The stack is
   walked from the frame of this function, which is in place of the exported
   function's. */
static TCM_NOINLINE void *walked_alloc(size_t size, uint64_t scaled,
                                       enum mtf_call call, uintptr_t caller,
                                       void *(*slow)(size_t)) {
    struct mtr_thread *t = tcm_self.trace;
    const uint8_t *pos = t->pos;
    int64_t site =
        mts_walk(t->cold->sites, size, caller, __builtin_frame_address(0));
    /* The walk may have allocated: then room or block may be gone. It may have
       slept, too, and the end of a recording does not wait for a thread that
       sleeps: so the limit is read once more. */
    if (TCM_UNLIKELY(site == MTS_NOT_KNOWN || t->pos != pos ||
                     tcm_self.trace != t || pos >= tcm_load_relaxed(&t->limit)))
        return slow(size);
    return put_sited_alloc(size, scaled, call, (uint32_t)site);
}

/* All calls are in the tail: SLOW notes the return address of this function. */
void *tcm_trace_sited_alloc(size_t size, uint64_t scaled, enum mtf_call call,
                            uintptr_t caller, void *(*slow)(size_t)) {
    struct mts_thread *sites = tcm_self.trace->cold->sites;
    if (TCM_UNLIKELY(sites->walks))
        return walked_alloc(size, scaled, call, caller, slow);
    uint32_t site = mts_known(sites, caller);
    if (TCM_UNLIKELY(site == MTF_SITE_NONE))
        return slow(size);
    return put_sited_alloc(size, scaled, call, site);
}

void tcm_trace_leave(struct tcm_thread_state *self) {
    if (self->life == TCM_THREAD_ENDED)
        mtr_late_leave();
    else
        mtr_leave();
}

static void set_word(uint64_t *word, uint64_t token) {
    if (word != NULL)
        *word = token;
}

/* Takes the token out of WORD; 0 if the block was made while not recording.
   *INHERITED: its name if the parent of a forked child has recorded the block,
   else 0. */
static uint64_t take_token(const struct mtr_thread *t, uint64_t *word,
                           uint64_t *inherited) {
    *inherited = 0;
    if (word == NULL)
        return 0;
    uint64_t token = mtr_word_token(*word);
    if (token < mtr_first_token(t)) {
        if (token >= MTR_TOKEN_LIVE && mtr_has_inherited())
            *inherited = mtr_token_name(token);
        *word = 0;
        return 0;
    }
    mtr_word_mark(word);
    return token;
}

/* Records that the block of the parent's token INHERITED is freed; 0: it is no
   such block. */
static void put_inherited(struct mtr_thread *t, uint64_t inherited) {
    if (inherited != 0)
        mtr_put_extension(t, MTF_EXTENSION_FREE_INHERITED, inherited);
}

static void untraced_free(struct mtr_thread *t, uint64_t inherited) {
    mtr_count_untraced_free(t);
    put_inherited(t, inherited);
}

/* True if the call is dropped: it is counted, and its block gets no token. */
static bool is_dropped(struct mtr_thread *t, uint64_t *new_word) {
    if (TCM_LIKELY(!mtr_drops(t)))
        return false;
    set_word(new_word, 0);
    mtr_count_dropped(t);
    return true;
}

void tcm_trace_alloc(struct mtr_thread *t, enum mtf_call call, size_t size,
                     unsigned align_log2, const void *ptr, uint64_t *word) {
    TCM_ASSERT(ptr != NULL || word == NULL);
    if (is_dropped(t, word))
        return;
    if (ptr == NULL) {
        mtr_put_failed(t, call, size, align_log2, 0);
        return;
    }
    if (mtf_call_is_aligned_alloc(call)) {
        set_word(word, mtr_put_aligned(t, call, size, align_log2));
    } else if (mtf_call_is_realloc(call)) {
        tcm_trace_realloc_new(t, call, size, word);
    } else {
        if (mtr_has_sites(t))
            mtr_put_sited_call(t, t->cold->sites, call);
        else if (t->alloc_call != call)
            mtr_put_alloc_call(t, call);
        set_word(word, mtr_put_alloc(t, size));
    }
}

bool tcm_trace_look(struct mtr_thread *t, size_t size, bool zero,
                    struct tcm_block *block) {
    if (size <= MTF_PRESENT_ABOVE || block->ptr == NULL || mtr_drops(t))
        return false;
    char *start = block->ptr;
    size_t bytes = tcm_block_info(start).size, page = tcm_os_page_size();
    if (!mtr_look_begins(t, size, start, bytes, block->zeroed))
        return false;
    if (zero && !block->zeroed) {
        char *first = (char *)tcm_align_up((uintptr_t)start, page);
        char *last = (char *)tcm_align_down((uintptr_t)start + bytes, page);
        memset(start, 0, (size_t)(first - start));
        memset(last, 0, (size_t)(start + bytes - last));
        block->zeroed = true;
    }
    return true;
}

void tcm_trace_looks(uint64_t *word) {
    if (word != NULL && *word >= MTR_TOKEN_LIVE)
        *word ^= MTR_TOKEN_LIVE | MTR_TOKEN_LOOKED;
}

/* True if the block at PTR is looked at. */
static bool is_looked(const void *ptr, size_t bytes) {
    const uint64_t *word =
        bytes <= MTF_PRESENT_ABOVE ? NULL : tcm_object_word(ptr, false);
    return word != NULL && mtr_word_is_looked(*word);
}

void tcm_trace_grew(struct mtr_thread *t, char *ptr, size_t old, size_t bytes) {
    if (t != NULL && bytes > old && is_looked(ptr, bytes))
        mtr_look_grows(ptr + old, bytes - old);
}

void tcm_trace_present(struct mtr_thread *t, const void *ptr,
                       const struct tcm_block_info *info) {
    size_t present;
    if (t == NULL || mtr_drops(t) || !is_looked(ptr, info->size))
        return;
    uint64_t token = mtr_word_token(*tcm_object_word(ptr, false));
    if (token >= mtr_first_token(t) && mtr_look_ends(ptr, info->size, &present))
        mtr_put_present(t, present);
}

void tcm_trace_free(struct mtr_thread *t, enum mtf_call call, uint64_t *word) {
    uint64_t inherited, token = take_token(t, word, &inherited);
    if (token == 0) {
        untraced_free(t, inherited);
        return;
    }
    if (is_dropped(t, NULL))
        return;
    if (t->free_call != call)
        mtr_put_free_call(t, call);
    mtr_put_free(t, token);
}

void tcm_trace_free_size(struct mtr_thread *t, enum mtf_call call,
                         uint64_t *word, uint64_t size) {
    uint64_t inherited, token = take_token(t, word, &inherited);
    if (token == 0)
        untraced_free(t, inherited);
    else if (!is_dropped(t, NULL))
        mtr_put_free_size(t, call, token, size);
}

/* Fault of a pointer that is freed or resized, and the block that it belongs
   to. */
struct wrong {
    enum mtf_wrong kind; /* 0: no fault is known */
    uint64_t token;      /* 0: not known */
    uint64_t value;
};

static struct wrong find_wrong(uint64_t first, const void *ptr,
                               const struct tcm_block_info *info) {
    uintptr_t at = (uintptr_t)ptr;
    const uint64_t *word = NULL;
    struct wrong w = {0};
    if (info->kind == TCM_BLOCK_PRIVATE)
        return w;
    if (info->kind == TCM_BLOCK_INTERIOR) {
        uintptr_t start = tcm_block_start(info, ptr);
        w.kind = MTF_WRONG_INSIDE;
        w.value = at - start;
        word = tcm_object_word((const void *)start, false);
        if (word != NULL && mtr_word_token(*word) >= first)
            w.token = mtr_word_token(*word);
    } else if (info->kind != TCM_BLOCK_FOREIGN) {
        word = tcm_object_word(ptr, false);
    } else {
        w.kind = MTF_WRONG_FOREIGN;
        w.value = at;
    }
    if (word != NULL && w.token == 0)
        w.token = mtr_word_marked(*word, first);
    if (w.token != 0 && w.kind == 0)
        w.kind = MTF_WRONG_FREED;
    /* A large block began here last, and its pages are free or belong to
       another block. */
    uint64_t left = mtr_word_marked(tcm_page_note(ptr), first);
    if (w.kind != 0 && left != 0)
        w = (struct wrong){.kind = MTF_WRONG_FREED, .token = left};
    return w;
}

bool tcm_trace_refuses(struct tcm_thread_state *self, struct mtr_thread **t,
                       enum mtf_call call, const void *ptr,
                       const struct tcm_block_info *info) {
    /* Before set-up it is not known if the call is recorded. */
    if (mtr_is_early())
        return false;
    struct wrong w = find_wrong(mtr_first_token(*t), ptr, info);
    if (TCM_LIKELY(w.kind == 0))
        return false;
    if (mtf_call_is_free(call) && !mtr_has_free_sites(*t) &&
        mtr_site_finds_free(*t) && !mtr_site_enter_free(*t)) {
        tcm_trace_leave(self);
        tcm_thread_resume_plain(self);
        *t = NULL;
        return true;
    }
    mtr_put_wrong(*t, call, w.kind, w.token, w.value);
    return true;
}

void tcm_trace_forget(const void *ptr) {
    set_word(tcm_object_word(ptr, false), 0);
}

void tcm_trace_realloc(struct mtr_thread *t, enum mtf_call call, size_t size,
                       uint64_t *old_word, uint64_t *new_word, bool moved) {
    bool looks = !moved && old_word != NULL && mtr_word_is_looked(*old_word);
    uint64_t inherited, old = take_token(t, old_word, &inherited);
    if (is_dropped(t, new_word))
        return;
    set_word(new_word, old == 0 ? mtr_put_realloc_new(t, call, size, true)
                                : mtr_put_realloc(t, call, size, old, moved));
    put_inherited(t, inherited);
    if (looks)
        tcm_trace_looks(new_word);
}

void tcm_trace_realloc_end(struct mtr_thread *t, enum mtf_call call,
                           uint64_t *old_word) {
    uint64_t inherited, old = take_token(t, old_word, &inherited);
    if (old == 0)
        untraced_free(t, inherited);
    else if (!is_dropped(t, NULL))
        mtr_put_realloc_end(t, call, old);
}

void tcm_trace_realloc_new(struct mtr_thread *t, enum mtf_call call,
                           size_t size, uint64_t *new_word) {
    if (is_dropped(t, new_word))
        return;
    set_word(new_word, mtr_put_realloc_new(t, call, size, false));
}

void tcm_trace_realloc_failed(struct mtr_thread *t, enum mtf_call call,
                              uint64_t size, uint64_t *old_word) {
    uint64_t old = old_word == NULL ? 0 : mtr_word_token(*old_word);
    if (is_dropped(t, NULL))
        return;
    mtr_put_failed(t, call, size, 0, old < mtr_first_token(t) ? 0 : old);
}

/* tcm_trace_enter for a call that is no allocation; NULL also in recorder
   code. */
static struct mtr_thread *enter_from_outside(struct tcm_thread_state *self) {
    return tcm_trace_is_private(self) ? NULL : tcm_trace_enter(self);
}

/* The call gives memory up: the time is read before. */
void tcm_trace_extension(enum mtf_extension which, uint64_t argument) {
    struct tcm_thread_state *self = &tcm_self;
    struct mtr_thread *t = enter_from_outside(self);
    if (t == NULL)
        return;
    mtr_put_extension(t, which, argument);
    tcm_trace_gives(t);
    tcm_trace_leave(self);
}

void tcm_trace_mark(const char *text, size_t length) {
    struct tcm_thread_state *self = &tcm_self;
    struct mtr_thread *t = enter_from_outside(self);
    if (t == NULL)
        return;
    mtr_put_mark(t, text, length);
    tcm_trace_leave(self);
}

void tcm_trace_cache_moves(struct tcm_thread_state *self, bool gives) {
    if (!tcm_trace_is_recording() || tcm_trace_is_private(self))
        return;
    struct mtr_thread *t = tcm_trace_enter(self);
    if (t == NULL)
        return;
    if (gives)
        tcm_trace_gives(t);
    else
        tcm_trace_took(t);
    tcm_trace_leave(self);
}

/* ------------------------------------------------------------------------ */
/* Functions that the recorder calls                                        */

static void enter_private(void) {
    struct tcm_thread_state *self = &tcm_self;
    TCM_ASSERT(self->private_depth < UINT16_MAX);
    if (self->private_depth++ != 0)
        return;
    self->saved_own = self->own;
    self->saved_trace = self->trace;
    self->own = TCM_NO_CACHE;
    self->trace = &mtr_no_thread;
}

static void leave_private(void) {
    struct tcm_thread_state *self = &tcm_self;
    TCM_ASSERT(self->private_depth != 0 && self->own == TCM_NO_CACHE &&
               self->trace == &mtr_no_thread);
    if (--self->private_depth != 0)
        return;
    self->own = self->saved_own;
    self->trace = self->saved_trace;
    tcm_thread_resume_plain(self);
}

/* A call that another thread has begun on a plain path is not recorded; the
   thread's next one is. */
static void recording_started(void) {
    tcm_registry_shut_all();
}

static unsigned sample(struct mtf_account_value *out, unsigned cap) {
    struct tcm_stats stats;
    tcm_stats_read(&stats);
    const struct mtf_account_value all[] = {
        {MTF_ACCOUNT_THREAD_CACHE_MISSES, stats.thread_cache_misses},
        {MTF_ACCOUNT_THREAD_CACHE_OVERFLOWS, stats.thread_cache_overflows},
        {MTF_ACCOUNT_CENTRAL_FETCHES, stats.central_fetches},
        {MTF_ACCOUNT_CENTRAL_RETURNS, stats.central_returns},
        {MTF_ACCOUNT_TRANSFER_CACHE_HITS, stats.transfer_cache_hits},
        {MTF_ACCOUNT_SPANS_MADE, stats.spans_made},
        {MTF_ACCOUNT_SPANS_FREED, stats.spans_freed},
        {MTF_ACCOUNT_SYSTEM_BYTES_TAKEN, stats.system_bytes_taken},
        {MTF_ACCOUNT_SYSTEM_BYTES_RETURNED, stats.system_bytes_returned},
    };
    unsigned n = 0;
    for (; n < TCM_ARRAY_SIZE(all) && n < cap; n++)
        out[n] = all[n];
    return n;
}

struct looked_list {
    struct mtr_looked_block *out;
    size_t count, cap;
};

static void list_looked(void *ctx, uintptr_t start, size_t bytes,
                        uint64_t word) {
    struct looked_list *list = ctx;
    if (mtr_word_is_looked(word) && list->count < list->cap)
        list->out[list->count++] =
            (struct mtr_looked_block){start, bytes, mtr_word_token(word)};
}

static size_t looked_blocks(struct mtr_looked_block *out, size_t cap) {
    struct looked_list list = {out, 0, cap};
    tcm_census_words(MTF_PRESENT_ABOVE, list_looked, &list);
    return list.count;
}

static bool has_memory(const void *p) {
    return tcm_page_span(p) != NULL;
}

/* Token of the block at P, or 0. A block much longer than BYTES may be memory
   that the program divides itself, and has none. */
static uint64_t token_of(const void *p, size_t bytes) {
    uint64_t entry = tcm_page_entry(p);
    unsigned size_class = tcm_entry_class(entry);
    if (size_class == 0 || tcm_class[size_class].size > bytes + bytes / 4 + 64)
        return 0;
    const uint64_t *word = tcm_entry_word(entry, p);
    uint64_t token = word == NULL ? 0 : mtr_word_token(*word);
    return token < MTR_TOKEN_LIVE ? 0 : token;
}

static void add_row(struct mtf_memory *out, const struct tcm_memory_class *c) {
    const uint64_t row[] = {
#define X(name) c->name,
        MTF_MEMORY_COLUMNS(X)
#undef X
    };
    for (unsigned i = 0; i < MTF_COLUMN_COUNT; i++)
        out->cell[out->rows * MTF_COLUMN_COUNT + i] = row[i];
    out->rows++;
}

static bool memory(struct mtf_memory *out) {
    struct tcm_memory *m = tcm_memory_new();
    TCM_STATIC_ASSERT(tcm_class_count * MTF_COLUMN_COUNT <= MTF_MEMORY_CELL_MAX,
                      "the rows fit");
    if (m == NULL)
        return false;
    const uint64_t total[] = {
#define X(name) m->name,
        MTF_MEMORY_TOTALS(X)
#undef X
    };
    out->totals = MTF_MEMORY_TOTAL_COUNT;
    out->columns = MTF_COLUMN_COUNT;
    out->rows = 0;
    for (unsigned i = 0; i < MTF_MEMORY_TOTAL_COUNT; i++)
        out->total[i] = total[i];
    for (unsigned i = 0; i < tcm_class_count; i++)
        if (m->by_class[i].spans != 0)
            add_row(out, &m->by_class[i]);
    tcm_memory_delete(m);
    return true;
}

static const struct mtr_host trace_host = {
    .enter_private = enter_private,
    .leave_private = leave_private,
    .recording_started = recording_started,
    .sample = sample,
    .is_stuck = tcm_heap_is_stuck,
    .looked_blocks = looked_blocks,
    .has_memory = has_memory,
    .token_of = token_of,
    .memory = memory,
};

/* mtr_init makes calls that note their callers: the present one is restored. */
void tcm_trace_init(bool by_call) {
    uintptr_t caller = tcm_self.caller;
    mtr_init(&trace_host, by_call);
    tcm_self.caller = caller;
}

void tcm_trace_exit(void) {
    mtr_exit();
}

void tcm_trace_thread_end(struct tcm_thread_state *self) {
    TCM_ASSERT(self->life == TCM_THREAD_LIVE && !tcm_trace_is_private(self));
    if (self->record != NULL)
        self->record->trace = NULL;
    self->late_id = mtr_thread_end(&self->trace);
}

uint64_t tcm_trace_forks(void) {
    if (!tcm_trace_is_recording())
        return 0;
    uint64_t now = tcm_clock_ns();
    tcm_trace_extension(MTF_EXTENSION_FORK, now);
    return now;
}

void tcm_trace_fork_note(uint64_t fork) {
    mtr_fork_note(fork);
}

void tcm_trace_fork_child(struct tcm_thread_state *self) {
    TCM_ASSERT(self == &tcm_self);
    mtr_fork_child(&self->trace);
}
