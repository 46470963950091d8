/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Walks of a thread's stack: the return addresses from a call of malloc
 * outwards.
 *
 * The call frame information of a place in the code (cfi.h) is read once and
 * packed into 64 bits, a *row* (stack_rows.h). A thread remembers the frames of
 * its last walk, and where on the stack the words lay that led from each frame
 * to the next. A later walk that reaches a remembered frame with the same
 * registers, and finds the words of the next frames unchanged, would repeat the
 * earlier walk, so it ends there. Frames that stay are compared, not walked
 * again, and nothing is guessed. Some whole walks, *memos*, are kept in the
 * same way under the place where they began, for places that a program reaches
 * in turn.
 *
 * Memory is read only where it is certain to be: between a frame on the
 * thread's own stack and the top of that stack, whose pages were tried once
 * each. On any other stack (alternate signal stacks, coroutines) each page is
 * tried in each walk.
 *
 * Code that lies in no file has no call frame information. It is followed by
 * frame pointers, where they lead to the return address of a call.
 *
 * Threads: each thread walks its own stack; rows are shared without a lock.
 */
#ifndef TCM_SITES_UNWIND_STACK_H
#define TCM_SITES_UNWIND_STACK_H

#include "base/check.h"
#include "base/compiler.h"
#include "sites/unwind/machine.h"
#include "sites/unwind/stack_rows.h"

#define MTS_STACK_DEPTH         256u /* most frames of a walk */
#define MTS_STACK_DEPTH_DEFAULT 32u
/* Remembered frames; a walk may go on where another one ended. */
#define MTS_STACK_FRAMES (3 * MTS_STACK_DEPTH)

/* The registers that a walk follows: AT, a byte of the instruction that the
   frame executes, SP and BP. */
struct mts_stack_state {
    uintptr_t at, sp, bp;
};

/*
 * A remembered frame.
 *
 * BP is *live* in a frame if the walk from there needs its value. Where it is
 * not live, functions use that register for values of their own, which change
 * with each call, so STATE.BP may be out of date.
 */
struct mts_frame {
    struct mts_stack_state state;
    uintptr_t ra_slot;  /* address of the return address; 0: the walk ends
                           here, by the code and registers alone */
    uintptr_t bp_slot;  /* address of the saved BP; 0: BP is unchanged; or
                           MTS_SLOT_UNSURE */
    uintptr_t bp_check; /* bp_slot if BP is live in the caller, else 0 */
    uint64_t hash;      /* of this frame and all frames outside of it */
    uint32_t site;      /* site of a frame below NAMED_END */
    bool uses_bp;       /* the step to the caller uses BP */
    bool is_live;       /* BP is live */
};
TCM_STATIC_ASSERT(sizeof(struct mts_frame) == 64, "a cache line");

/* Value of bp_slot: the step to the caller is made anew in each walk. */
#define MTS_SLOT_UNSURE ((uintptr_t)1)

/* Result of a walk: its key, its site, and the innermost loops on the way. */
struct mts_stack_tag {
    uint64_t key;
    uint32_t site;                 /* set by mts_stack_set_site; 0 at first */
    const struct mts_loops *loops; /* NULL: none */
};

/*
 * A memo: a walk from FROM that read these words gave TAG. The words lie ABOVE
 * words above FROM.SP; the last is repeated up to a multiple of four.
 *
 * Many walks begin alike, because an interpreter has one function that calls
 * malloc. So a set has many ways. The memo that is tried first is the one that
 * followed the last time when the thread's previous walks were the same as now.
 */
#define MTS_MEMO_WORDS     64u
#define MTS_MEMO_SETS_LOG2 5u
#define MTS_MEMO_WAYS      16u
#define MTS_HISTORY_LOG2   10u
#define MTS_MEMOS          (MTS_MEMO_WAYS << MTS_MEMO_SETS_LOG2)
struct mts_stack_memo {
    struct mts_stack_state from;
    uint64_t stamp; /* mts_stamp of the walk; 0: the entry is empty */
    uint32_t owner; /* owner of the stack table then */
    struct mts_stack_tag tag;
    uint16_t words;
    bool is_live; /* BP is live in FROM */
    uint32_t above[MTS_MEMO_WORDS];
    uintptr_t value[MTS_MEMO_WORDS];
};

/* End of a walk: what lies outside of its outermost frame. */
enum mts_stack_end {
    MTS_STACK_WHOLE = 0, /* nothing */
    MTS_STACK_CUT,       /* frames beyond the depth of the walk */
    MTS_STACK_UNKNOWN    /* the stack cannot be walked further */
};

/* The stack table of one thread; all 0 at first. */
struct mts_thread_stack {
    uint32_t count;  /* remembered frames */
    uint32_t length; /* frames of the last walk: the last LENGTH ones */
    uint8_t end;     /* outside of FRAME[0]; enum mts_stack_end */
    uint8_t cut;     /* outside of the last walk; enum mts_stack_end */
    uint8_t busy;    /* a walk is in progress; a signal handler that finds
                        it set makes no walk */
    /* Frames from NAMED_FIRST to below NAMED_END have sites, each below that of
       the frame outside of it, the first below NAMED_BELOW. The caller sets
       these. */
    uint32_t named_first, named_end, named_below;
    uint64_t stamp;           /* mts_stamp of the frames */
    uint32_t owner;           /* changes when another thread gets the table */
    uint64_t outer;           /* hash of what lies outside of FRAME[0] */
    uintptr_t last_word;      /* at RA_SLOT of FRAME[0]: the walk ended by it */
    struct mts_stack_tag tag; /* of the last walk */
    /* The own stack is readable from LOW on: a word may start in the first
       BYTES. Nothing below NONE_BELOW is part of it. */
    uintptr_t low, bytes, none_below;
    uintptr_t tried; /* page of another stack, readable in this walk */
    struct mts_frame frame[MTS_STACK_FRAMES];  /* outermost first */
    struct mts_frame fresh[MTS_STACK_FRAMES];  /* innermost first */
    uint32_t history;                          /* hash of the last memos */
    uint16_t last_memo;                        /* memo of the last walk */
    uint16_t follower[1u << MTS_HISTORY_LOG2]; /* next memo of each */
    uint8_t victim[1u << MTS_MEMO_SETS_LOG2];  /* way that is replaced next */
    struct mts_stack_memo memo[MTS_MEMOS];
};

/* True if stacks can be walked in this process. */
bool mts_stack_is_possible(void);

/* True if MEMO holds: a walk from FROM would read the words that it has. */
static TCM_ALWAYS_INLINE bool mts_memo_holds(const struct mts_thread_stack *s,
                                             const struct mts_stack_memo *memo,
                                             struct mts_stack_state from,
                                             uint64_t stamp) {
    if (memo->from.at != from.at || memo->from.sp != from.sp ||
        (memo->from.bp != from.bp && memo->is_live) || memo->stamp != stamp ||
        memo->owner != s->owner)
        return false;
    TCM_ASSERT(memo->words <= MTS_MEMO_WORDS);
    const uintptr_t *stack = (const uintptr_t *)from.sp;
    const uint32_t *above = memo->above, *end = above + memo->words;
    const uintptr_t *value = memo->value;
    for (; above < end; above += 4, value += 4)
        if (stack[above[0]] != value[0] || stack[above[1]] != value[1] ||
            stack[above[2]] != value[2] || stack[above[3]] != value[3])
            return false;
    return true;
}

extern bool mts_stack_is_checked TCM_LOCAL;
void mts_stack_find(struct mts_thread_stack *s, struct mts_stack_state from,
                    unsigned depth, uint64_t stamp, struct mts_stack_tag *tag);

/* Notes that memo I is the thread's last walk. */
static TCM_ALWAYS_INLINE void mts_memo_set_last(struct mts_thread_stack *s,
                                                uint32_t i) {
    s->last_memo = (uint16_t)i;
    s->history = (s->history << 3 ^ i) & ((1u << MTS_HISTORY_LOG2) - 1);
}

/*
 * The result of the walk from FROM, of at most DEPTH frames; DEPTH never
 * changes. The key is equal for equal stacks, different for others (a hash of
 * 63 bits), and not an address; 0: a walk of this thread is in progress. STAMP
 * is mts_stamp: what was remembered at another stamp is not used. The caller
 * checks that the loops in the result are still there.
 */
static TCM_ALWAYS_INLINE struct mts_stack_tag
mts_stack_key(struct mts_thread_stack *s, struct mts_stack_state from,
              unsigned depth, uint64_t stamp) {
    struct mts_stack_tag tag = {.key = 0};
    if (TCM_UNLIKELY(s->busy))
        return tag;
    /* From here on a signal handler sees that a walk is in progress. */
    s->busy = true;
    tcm_fence_signal();
    uint32_t i = s->follower[s->history];
    if (TCM_LIKELY(mts_memo_holds(s, &s->memo[i], from, stamp) &&
                   !mts_stack_is_checked)) {
        mts_memo_set_last(s, i);
        tag = s->memo[i].tag;
    } else {
        mts_stack_find(s, from, depth, stamp, &tag);
    }
    tcm_fence_signal();
    s->busy = false;
    return tag;
}

/* Keeps SITE with the thread's last walk, if KEY is its key. */
void mts_stack_set_site(struct mts_thread_stack *s, uint64_t key,
                        uint32_t site);
/* Makes the walk from FROM. Until mts_stack_done the last LENGTH frames of
   FRAME are its frames, the innermost last, and CUT says what lies outside of
   them. false: a walk of this thread is in progress. */
bool mts_stack_walk(struct mts_thread_stack *s, struct mts_stack_state from,
                    unsigned depth, uint64_t stamp);
static inline void mts_stack_done(struct mts_thread_stack *s) {
    TCM_ASSERT(s->busy);
    tcm_fence_signal();
    s->busy = false;
}

/* Makes S forget its walks, because it goes to another thread. */
static inline void mts_stack_forget(struct mts_thread_stack *s) {
    s->stamp = 0;
    s->owner++;
    s->low = s->bytes = s->none_below = 0;
}

/* An address in the top page of the calling thread's stack; 0: unknown. */
uintptr_t mts_stack_top(void);

/* True if AT lies in this library. */
bool mts_stack_is_inside(uintptr_t at);
/* Puts the state of the innermost caller outside of this library into *OUT. FP
   is the frame pointer of a function of this library, which is used where
   mts_frame_tells_caller. false: it cannot be found. */
bool mts_stack_outside(struct mts_thread_stack *s, const void *fp,
                       struct mts_stack_state *out, uint64_t stamp);

/* The caller of a function of this library whose frame pointer is FP, where
   mts_frame_tells_caller. If the caller lies in this library itself, use
   mts_stack_outside. */
static TCM_ALWAYS_INLINE struct mts_stack_state
mts_stack_caller(const void *fp) {
    const uintptr_t *word = fp;
    return (struct mts_stack_state){
        .at = word[1] - 1, .sp = (uintptr_t)(word + 2), .bp = word[0]};
}

/* Makes every walk from now on twice; the second remembers nothing and follows
   all registers. */
void mts_stack_check_all(void);
/* Numbers of checked and of different walks. false: walks are not checked. */
bool mts_stack_checks(uint64_t *walks, uint64_t *different);

#endif
