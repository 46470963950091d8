/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hooks from the allocator's paths to the recorder. In the untraced library
 * each is an empty inline function, and the code around it disappears.
 *
 * One call of the malloc family on a slow path looks like this:
 *
 *     trace = tcm_trace_enter(self);     may wait, never under a lock
 *     ... core ...                       blocks change hands
 *     tcm_trace_took / tcm_trace_gives   times, if core took part
 *     tcm_trace_alloc / free / ...       the event itself
 *
 * Order: took is called after memory was obtained, alloc after that; free
 * before gives, and gives before memory is given up.
 */
#ifndef TCM_API_TRACE_HOOKS_H
#define TCM_API_TRACE_HOOKS_H

#include "api/thread_state.h"
#include "base/check.h"
#include "base/compiler.h"
#include "traceformat/trace_event.h"

struct tcm_block;

#if TCM_TRACING
#include "tracer/stream/thread_sites.h"
#include "tracer/trace_clock.h"

/* The calling thread's stream, ready for one call's events, or NULL. */
struct mtr_thread *tcm_trace_enter(struct tcm_thread_state *self);
void tcm_trace_leave(struct tcm_thread_state *self);

/*
 * Call sites (sites/call_sites.h). The functions in which slow paths begin note
 * their return address. They are the exported functions, or the tail of these,
 * so that the address is that of the program's call;
 * tests/integration/sites/sites.sh checks that the compiler keeps it so.
 */
#define tcm_trace_from_here()                                                  \
    ((void)(tcm_self.caller = (uintptr_t)__builtin_return_address(0)))
/* tcm_trace_enter for a call that may allocate SIZE bytes. */
struct mtr_thread *tcm_trace_enter_alloc(struct tcm_thread_state *self,
                                         size_t size);

/* tcm_trace_enter for a call that frees a block. */
struct mtr_thread *tcm_trace_enter_free(struct tcm_thread_state *self);

/*
 * Traced fast path of an allocation with a call site, called from CALLER;
 * tcm_traced_alloc (malloc_path.h) has checked room and bin. Such a stream has
 * no sticky call, so that the path without sites pays nothing for this one. The
 * exported function tail-calls this function, and this one SLOW.
 */
void *tcm_trace_sited_alloc(size_t size, uint64_t scaled, enum mtf_call call,
                            uintptr_t caller, void *(*slow)(size_t));

/* Calls around one that frees and does not allocate; mtr_freeing tells why. */
static inline void tcm_trace_free_begins(void) {
    TCM_ASSERT(mtr_freeing < UINT8_MAX);
    mtr_freeing++;
}
static inline void tcm_trace_free_ends(void) {
    TCM_ASSERT(mtr_freeing != 0);
    mtr_freeing--;
}

/* Notes the time after memory was taken from levels that threads share. One
   nanosecond more keeps the interval apart from that of the thread that gave
   the memory, if a clock shows both the same time. The fence is that of
   tcm_trace_gives. */
static inline void tcm_trace_took(struct mtr_thread *t) {
    if (t != NULL) {
        tcm_fence_seq_cst();
        mtr_put_took(t, mtr_clock_ns() + 1);
    }
}

/* Notes the time before memory is given to levels that threads share. The fence
   makes earlier events visible to the saver before the clock is read: no
   barrier with a later time can lack them. */
static inline void tcm_trace_gives(struct mtr_thread *t) {
    if (t != NULL) {
        tcm_fence_seq_cst();
        mtr_put_gives(t, mtr_clock_ns());
    }
}

/* Records an allocation of SIZE bytes with the requested alignment 1 <<
   ALIGN_LOG2 (0: plain). PTR NULL: it failed. WORD: PTR's object word, or NULL
   if it has none. */
void tcm_trace_alloc(struct mtr_thread *t, enum mtf_call call, size_t size,
                     unsigned align_log2, const void *ptr, uint64_t *word);
/* Begins a look at the new BLOCK of a request of SIZE bytes, if one is due
   (thread_looks.h). ZERO: it is to be zero then, all of it. true: its word is
   given to tcm_trace_looks when it has its token. */
bool tcm_trace_look(struct mtr_thread *t, size_t size, bool zero,
                    struct tcm_block *block);
void tcm_trace_looks(uint64_t *word);
/* Notes that the block at PTR grew from OLD to BYTES where it is. T: NULL, or
   the stream. */
void tcm_trace_grew(struct mtr_thread *t, char *ptr, size_t old, size_t bytes);
/* Records how many bytes of the block have memory behind them, if it is looked
   at. Called before the event of a free or realloc that ends the block, and
   before the contents are read. */
void tcm_trace_present(struct mtr_thread *t, const void *ptr,
                       const struct tcm_block_info *info);
/* Records a free of the block with WORD (or NULL). */
void tcm_trace_free(struct mtr_thread *t, enum mtf_call call, uint64_t *word);
/* Records a sized free with a SIZE that contradicts the block. */
void tcm_trace_free_size(struct mtr_thread *t, enum mtf_call call,
                         uint64_t *word, uint64_t size);
/* True if the size of a sized free is recorded even if it is not known to be
   wrong. */
static inline bool tcm_trace_checks_sizes(const struct mtr_thread *t) {
    return (t->flags & MTR_THREAD_CHECKS) != 0;
}

/*
 * True if PTR, which INFO describes, is known by words and spans to begin no
 * block in use: CALL, which was to free or resize it, must not reach the heap
 * then. *T may become NULL: the call is not recorded.
 */
bool tcm_trace_refuses(struct tcm_thread_state *self, struct mtr_thread **t,
                       enum mtf_call call, const void *ptr,
                       const struct tcm_block_info *info);
/* Notes that the allocation of the new block at PTR was not recorded. */
void tcm_trace_forget(const void *ptr);
/* Records a realloc of the block with OLD_WORD to the block with NEW_WORD. */
void tcm_trace_realloc(struct mtr_thread *t, enum mtf_call call, size_t size,
                       uint64_t *old_word, uint64_t *new_word, bool moved);
/* tcm_trace_realloc for the fast path, where the stream has room and OLD_WORD
   holds a token of this recording. */
static TCM_ALWAYS_INLINE void
tcm_trace_realloc_known(struct mtr_thread *t, enum mtf_call call, size_t size,
                        uint64_t *old_word, uint64_t *new_word, bool moved) {
    uint64_t old = *old_word;
    TCM_ASSERT(old >= MTR_TOKEN_LIVE && new_word != NULL);
    mtr_word_mark(old_word);
    *new_word = mtr_put_realloc(t, call, size, old, moved);
}
/* Record a realloc to 0 that freed the block, one of NULL, and one that failed.
 */
void tcm_trace_realloc_end(struct mtr_thread *t, enum mtf_call call,
                           uint64_t *old_word);
void tcm_trace_realloc_new(struct mtr_thread *t, enum mtf_call call,
                           size_t size, uint64_t *new_word);
void tcm_trace_realloc_failed(struct mtr_thread *t, enum mtf_call call,
                              uint64_t size, uint64_t *old_word);

/* Records a call of the program that changes the heap without being an
   allocation. Called before the change, after tcm_api_init_recorded. */
void tcm_trace_extension(enum mtf_extension which, uint64_t argument);

/* Notes the time at which a whole cache of objects leaves this thread (GIVES)
   or came to it. */
void tcm_trace_cache_moves(struct tcm_thread_state *self, bool gives);

/* Control of recordings by the program; tracer/session.h. */
static inline bool tcm_trace_start(const char *path) {
    return mtr_start(path, NULL);
}
static inline bool tcm_trace_stop(void) {
    return mtr_stop();
}
static inline bool tcm_trace_flush(void) {
    return mtr_flush();
}
static inline bool tcm_trace_file(char *path, size_t size) {
    return mtr_file(path, size);
}
static inline bool tcm_trace_is_on(void) {
    return mtr_is_on();
}
/* Puts a mark into the trace. Called after tcm_api_init_recorded. */
void tcm_trace_mark(const char *text, size_t length);

/* True if a call that may allocate must set the recorder up, before it enters.
 */
static inline bool tcm_trace_init_is_due(void) {
    return mtr_is_early() && mtr_init_is_due();
}
void tcm_trace_init(bool by_call);
void tcm_trace_thread_end(struct tcm_thread_state *self);
/* Ends T, the stream of a thread that is gone without its end. */
static inline void tcm_trace_dead_thread(struct mtr_thread *t) {
    mtr_thread_end_dead(t);
}
void tcm_trace_exit(void);
/* Records that this process is about to be forked. Returns the number of the
   fork; 0: nothing is recorded. */
uint64_t tcm_trace_forks(void);
/* mtr_fork_note */
void tcm_trace_fork_note(uint64_t fork);
/* Called in the child of fork, whose only thread has the state SELF. */
void tcm_trace_fork_child(struct tcm_thread_state *self);

#else
static inline struct mtr_thread *
tcm_trace_enter(struct tcm_thread_state *self) {
    (void)self;
    return NULL;
}
static inline void tcm_trace_leave(struct tcm_thread_state *self) {
    (void)self;
}
#define tcm_trace_from_here() ((void)0)
static inline struct mtr_thread *
tcm_trace_enter_alloc(struct tcm_thread_state *self, size_t size) {
    (void)self, (void)size;
    return NULL;
}
static inline struct mtr_thread *
tcm_trace_enter_free(struct tcm_thread_state *self) {
    (void)self;
    return NULL;
}
static inline void tcm_trace_free_begins(void) {
}
static inline void tcm_trace_free_ends(void) {
}
static inline void tcm_trace_took(struct mtr_thread *t) {
    (void)t;
}
static inline void tcm_trace_gives(struct mtr_thread *t) {
    (void)t;
}
static inline void tcm_trace_alloc(struct mtr_thread *t, enum mtf_call call,
                                   size_t size, unsigned align_log2,
                                   const void *ptr, uint64_t *word) {
    (void)t, (void)call, (void)size, (void)align_log2, (void)ptr, (void)word;
}
static inline bool tcm_trace_look(struct mtr_thread *t, size_t size, bool zero,
                                  struct tcm_block *block) {
    (void)t, (void)size, (void)zero, (void)block;
    return false;
}
static inline void tcm_trace_looks(uint64_t *word) {
    (void)word;
}
static inline void tcm_trace_grew(struct mtr_thread *t, char *ptr, size_t old,
                                  size_t bytes) {
    (void)t, (void)ptr, (void)old, (void)bytes;
}
static inline void tcm_trace_present(struct mtr_thread *t, const void *ptr,
                                     const struct tcm_block_info *info) {
    (void)t, (void)ptr, (void)info;
}
static inline void tcm_trace_free(struct mtr_thread *t, enum mtf_call call,
                                  uint64_t *word) {
    (void)t, (void)call, (void)word;
}
static inline void tcm_trace_free_size(struct mtr_thread *t, enum mtf_call call,
                                       uint64_t *word, uint64_t size) {
    (void)t, (void)call, (void)word, (void)size;
}
static inline bool tcm_trace_checks_sizes(const struct mtr_thread *t) {
    (void)t;
    return false;
}
static inline bool tcm_trace_refuses(struct tcm_thread_state *self,
                                     struct mtr_thread **t, enum mtf_call call,
                                     const void *ptr,
                                     const struct tcm_block_info *info) {
    (void)self, (void)t, (void)call, (void)ptr, (void)info;
    return false;
}
static inline void tcm_trace_forget(const void *ptr) {
    (void)ptr;
}
static inline void tcm_trace_realloc(struct mtr_thread *t, enum mtf_call call,
                                     size_t size, uint64_t *old_word,
                                     uint64_t *new_word, bool moved) {
    (void)t, (void)call, (void)size, (void)old_word, (void)new_word;
    (void)moved;
}
static inline void tcm_trace_realloc_known(struct mtr_thread *t,
                                           enum mtf_call call, size_t size,
                                           uint64_t *old_word,
                                           uint64_t *new_word, bool moved) {
    (void)t, (void)call, (void)size, (void)old_word, (void)new_word;
    (void)moved;
}
static inline void tcm_trace_realloc_end(struct mtr_thread *t,
                                         enum mtf_call call,
                                         uint64_t *old_word) {
    (void)t, (void)call, (void)old_word;
}
static inline void tcm_trace_realloc_new(struct mtr_thread *t,
                                         enum mtf_call call, size_t size,
                                         uint64_t *new_word) {
    (void)t, (void)call, (void)size, (void)new_word;
}
static inline void tcm_trace_realloc_failed(struct mtr_thread *t,
                                            enum mtf_call call, uint64_t size,
                                            uint64_t *old_word) {
    (void)t, (void)call, (void)size, (void)old_word;
}
static inline void tcm_trace_extension(enum mtf_extension which,
                                       uint64_t argument) {
    (void)which, (void)argument;
}
static inline void tcm_trace_cache_moves(struct tcm_thread_state *self,
                                         bool gives) {
    (void)self, (void)gives;
}
static inline bool tcm_trace_start(const char *path) {
    (void)path;
    return false;
}
static inline bool tcm_trace_stop(void) {
    return false;
}
static inline bool tcm_trace_flush(void) {
    return false;
}
static inline bool tcm_trace_file(char *path, size_t size) {
    (void)path, (void)size;
    return false;
}
static inline bool tcm_trace_is_on(void) {
    return false;
}
static inline void tcm_trace_mark(const char *text, size_t length) {
    (void)text, (void)length;
}
static inline bool tcm_trace_init_is_due(void) {
    return false;
}
static inline void tcm_trace_init(bool by_call) {
    (void)by_call;
}
static inline void tcm_trace_thread_end(struct tcm_thread_state *self) {
    (void)self;
}
static inline void tcm_trace_dead_thread(struct mtr_thread *t) {
    (void)t;
}
static inline void tcm_trace_exit(void) {
}
static inline uint64_t tcm_trace_forks(void) {
    return 0;
}
static inline void tcm_trace_fork_note(uint64_t fork) {
    (void)fork;
}
static inline void tcm_trace_fork_child(struct tcm_thread_state *self) {
    (void)self;
}
#endif

#endif
