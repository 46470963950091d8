/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Walks of a thread's stack: the return addresses from a call of malloc's
 * outwards.
 *
 * What a frame's registers are found by is read from its call frame information
 * once (cfi.h) and packed into 64 bits, a *row*, kept by the address of the
 * code. A thread remembers the frames of its last walk, and where on the stack
 * the words lay that led from each to the next. A later walk that comes to a
 * remembered frame with the same registers, and finds the words of the next
 * ones unchanged, would do what the walk before did: it is over. So frames that
 * stay are not walked again, only read, and there is nothing to guess. Some
 * whole walks are kept in the same way by where they began, for places that are
 * come to in turn.
 *
 * Memory is read where it is certain to be: between a frame on the thread's own
 * stack and that stack's top, of which each page was tried once. On any other
 * (alternate signal stacks, coroutines) each page is tried in each walk.
 *
 * Code that lies in no file has no information, and is followed by its frame
 * pointers where what they lead to is the return address of a call.
 *
 * Threads: a stack is walked by its own thread; rows are shared without lock.
 */
#ifndef TCM_SITES_UNWIND_STACK_H
#define TCM_SITES_UNWIND_STACK_H

#include "base/check.h"
#include "base/compiler.h"
#include "sites/unwind/stack_rows.h"

#define MTS_STACK_DEPTH         256u /* most frames */
#define MTS_STACK_DEPTH_DEFAULT 32u
/* Frames that are remembered; walks go on where others ended. */
#define MTS_STACK_FRAMES (3 * MTS_STACK_DEPTH)

/* What is followed of a frame, and its code: a byte of the instruction that is
   executed. */
struct mts_stack_state {
    uintptr_t at, sp, bp;
};

/*
 * BP is *live* in a frame if the walk from there needs it: functions save what
 * they keep in that register for themselves, too, and that changes with each
 * call. Of a frame where it is not, STATE's may be out of date.
 */
struct mts_frame {
    struct mts_stack_state state;
    uintptr_t ra_slot;  /* words that the step from here read */
    uintptr_t bp_slot;  /* 0: none; or MTS_SLOT_UNSURE */
    uintptr_t bp_check; /* the same if BP is live outside of here, else 0 */
    uint64_t hash;      /* of this frame and all outside of it */
    uint32_t site;      /* the caller's, of the first NAMED_END */
    bool uses_bp;       /* the step from here does */
    bool is_live;       /* BP is */
};
TCM_STATIC_ASSERT(sizeof(struct mts_frame) == 64, "a cache line");

/* A bp_slot that says: the step from here is taken anew each time. */
#define MTS_SLOT_UNSURE ((uintptr_t)1)

/* What is known of a walk: its key, what the caller keeps with it, and what it
   came by. */
struct mts_stack_tag {
    uint64_t key;
    uint32_t site;                 /* 0 at first */
    const struct mts_loops *loops; /* innermost; NULL: none */
};

/*
 * A walk from FROM that read these words gave KEY. They lie ABOVE words above
 * FROM's SP; the last is repeated up to a multiple of four.
 *
 * Many walks begin alike, as where an interpreter has one function that calls
 * malloc. So there are many ways; tried first is what followed when the walks
 * before were these the last time.
 */
#define MTS_MEMO_WORDS     64u
#define MTS_MEMO_SETS_LOG2 5u
#define MTS_MEMO_WAYS      16u
#define MTS_HISTORY_LOG2   10u
#define MTS_MEMOS          (MTS_MEMO_WAYS << MTS_MEMO_SETS_LOG2)
struct mts_stack_memo {
    struct mts_stack_state from;
    uint64_t stamp; /* of the code that it is of; 0: none is kept here */
    uint32_t owner; /* the thread's */
    struct mts_stack_tag tag;
    uint16_t words;
    bool is_live; /* BP is, in FROM */
    uint32_t above[MTS_MEMO_WORDS];
    uintptr_t value[MTS_MEMO_WORDS];
};

/* Frames beyond the outermost one of a walk. */
enum mts_stack_end {
    MTS_STACK_WHOLE = 0, /* nothing */
    MTS_STACK_CUT,       /* frames that are not asked for */
    MTS_STACK_UNKNOWN    /* it could not be walked further */
};

/* The stack table of one thread; all 0 at first. */
struct mts_thread_stack {
    uint32_t count;  /* of remembered frames */
    uint32_t length; /* of the last walk: its frames are the last ones */
    uint32_t sure;   /* the same, and the one that says that there are more */
    uint8_t end;     /* of the remembered frames; enum mts_stack_end */
    uint8_t cut;     /* enum mts_stack_end, of the last walk */
    uint8_t busy;    /* a walk is interrupted by a signal handler */
    /* Frames from NAMED_FIRST to NAMED_END have a site, each below that of the
       frame outside of it, the first below NAMED_BELOW. By the caller. */
    uint32_t named_first, named_end, named_below;
    uint64_t stamp;           /* of the code that the frames are of */
    uint32_t owner;           /* changes when another thread gets this */
    uint64_t outer;           /* hash of what is outside of the first frame */
    struct mts_stack_tag tag; /* of the last walk */
    /* The own stack from LOW on, BYTES less 7 long, was there; what lies below
       NONE_BELOW is not of it. */
    uintptr_t low, bytes, none_below;
    uintptr_t tried; /* page of another stack, in this walk */
    struct mts_frame frame[MTS_STACK_FRAMES];  /* outermost first */
    struct mts_frame fresh[MTS_STACK_FRAMES];  /* innermost first */
    uint32_t history;                          /* numbers of the last memos */
    uint16_t last_memo;                        /* that held, or was kept */
    uint16_t follower[1u << MTS_HISTORY_LOG2]; /* what came after these */
    uint8_t victim[1u << MTS_MEMO_SETS_LOG2];  /* way to be replaced */
    struct mts_stack_memo memo[MTS_MEMOS];
};

/* Whether stacks can be walked in this process. */
bool mts_stack_is_possible(void);

/* True if MEMO holds: the walk from FROM would read what it has. */
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

/* Memo number I is the thread's last walk. */
static TCM_ALWAYS_INLINE void mts_memo_was(struct mts_thread_stack *s,
                                           uint32_t i) {
    s->last_memo = (uint16_t)i;
    s->history = (s->history << 3 ^ i) & ((1u << MTS_HISTORY_LOG2) - 1);
}

/*
 * What is known of the walk from FROM, of at most DEPTH frames, always the same
 * number. The key is equal for equal stacks, different for others (a hash of 63
 * bits) and no address; 0: a walk of this thread is interrupted. STAMP: another
 * one when code may have been replaced. Whether loops are still there has to be
 * asked.
 */
static TCM_ALWAYS_INLINE struct mts_stack_tag
mts_stack_key(struct mts_thread_stack *s, struct mts_stack_state from,
              unsigned depth, uint64_t stamp) {
    struct mts_stack_tag tag = {.key = 0};
    if (TCM_UNLIKELY(s->busy))
        return tag;
    /* A signal handler that comes from here on sees that it is one. */
    s->busy = true;
    tcm_fence_signal();
    uint32_t i = s->follower[s->history];
    if (TCM_LIKELY(mts_memo_holds(s, &s->memo[i], from, stamp) &&
                   !mts_stack_is_checked)) {
        mts_memo_was(s, i);
        tag = s->memo[i].tag;
    } else {
        mts_stack_find(s, from, depth, stamp, &tag);
    }
    tcm_fence_signal();
    s->busy = false;
    return tag;
}

/* The thread's last walk, if KEY is its key, has SITE from here on. */
void mts_stack_name(struct mts_thread_stack *s, uint64_t key, uint32_t site);
/* Makes the walk: the last LENGTH of FRAME are those of it, innermost last,
   with CUT outside of them, until mts_stack_done. False: a walk of this thread
   is interrupted. */
bool mts_stack_walk(struct mts_thread_stack *s, struct mts_stack_state from,
                    unsigned depth, uint64_t stamp);
static inline void mts_stack_done(struct mts_thread_stack *s) {
    TCM_ASSERT(s->busy);
    tcm_fence_signal();
    s->busy = false;
}

/* Makes S forget its walks: it goes to another thread. */
static inline void mts_stack_forget(struct mts_thread_stack *s) {
    s->stamp = 0;
    s->owner++;
    s->low = s->bytes = s->none_below = 0;
}

/* Whether AT lies in this library. */
bool mts_stack_is_inside(uintptr_t at);
/* The state of the innermost caller outside of this library, from the function
   with the frame pointer FP, which lies in it, outwards. False: it cannot be
   found. */
bool mts_stack_outside(struct mts_thread_stack *s, const void *fp,
                       struct mts_stack_state *out, uint64_t stamp);

/* The caller of a function of this library, by that function's frame pointer
   FP; one that lies in this library itself is left to mts_stack_outside. */
static TCM_ALWAYS_INLINE struct mts_stack_state
mts_stack_caller(const void *fp) {
    const uintptr_t *word = fp;
    return (struct mts_stack_state){
        .at = word[1] - 1, .sp = (uintptr_t)(word + 2), .bp = word[0]};
}

/* Checks each walk from now on by another one, which remembers nothing and
   follows all registers. */
void mts_stack_check_all(void);
/* False: none are checked. */
bool mts_stack_checks(uint64_t *walks, uint64_t *different);

#endif
