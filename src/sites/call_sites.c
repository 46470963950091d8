/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way of a call to its site, in each of the modes. An order of a thread's
 * own: the site is interned, then defined by the thread's sink, then known to
 * the thread; so what is known needs no look at the table of all threads.
 */
#include "sites/call_sites.h"

#include "base/bits.h"
#include "base/clock.h"
#include "sites/lang/lang_reader.h"
#include "traceformat/raw_layout.h"
#include "traceformat/trace_event.h"

#include <string.h>

TCM_STATIC_ASSERT(MTS_LANG_NATIVE <= MTS_STACK_DEPTH, "can be walked");

size_t mts_thread_bytes(void) {
    size_t bytes = mts_settings.mode == MTS_CALLER && !mts_settings.free_sites
                       ? offsetof(struct mts_thread, lang)
                       : sizeof(struct mts_thread);
    return tcm_align_up(bytes, 16);
}

void mts_begin(uint32_t pid, uint64_t random) {
    /* Relaxed: a thread of the recording before may be in a walk, and its site
       is of that recording. */
    tcm_store_relaxed(&mts_settings.pid, pid);
    tcm_store_relaxed(&mts_settings.random, random);
    mts_table_begin();
}

void mts_thread_begin(struct mts_thread *s, uint32_t id) {
    s->call = MTF_CALL_NONE;
    s->id = id;
    s->epoch = mts_epoch();
    s->stamp = 0;
    s->has_lines = mts_settings.mode == MTS_LINES;
    s->walks = mts_settings.mode != MTS_CALLER;
    s->mode_told = false;
    s->sampling = false;
    if (s->has_lines)
        mts_lang_pass_on(&s->lang);
    if (mts_thread_bytes() >= sizeof(*s)) {
        mts_stack_forget(&s->stack);
        s->stack.busy = 0;
    }
}

void mts_thread_leave(struct mts_thread *s) {
    if (s->has_lines)
        mts_lang_pass_on(&s->lang);
}

/* --- Callers -------------------------------------------------------------- */

static void remember(struct mts_thread *s, uint64_t stamp, uint64_t key,
                     uint32_t site) {
    if (s->stamp != stamp) {
        memset(s->known, 0, sizeof(s->known));
        s->stamp = stamp;
    }
    struct mts_known *k = &s->known[mts_known_entry(key)];
    if (s->walks && k->key != key)
        s->known[mts_known_entry(key) ^ 1] = *k;
    *k = (struct mts_known){key, site};
}

/* SITE is the one of KEY, of a call from CALLER. False: there is no room for
   its definition. */
static bool use_site(struct mts_thread *s, const struct mts_sink *sink,
                     uint64_t stamp, uintptr_t caller, uint64_t key,
                     uint32_t *site) {
    if (*site == MTF_SITE_NONE)
        return true;
    /* A thread past its end has no room of its own for definitions. */
    if (s->id == MTF_THREAD_LATE) {
        if (tcm_load_acquire(&mts_site_of(*site)->epoch) != s->epoch)
            *site = MTF_SITE_NONE;
        return true;
    }
    if (!mts_define(sink, *site, s->epoch, s->has_lines))
        return false;
    /* Each of the loader's calls is to come by mts_notice. */
    if (!mts_is_loader(caller))
        remember(s, stamp, key, *site);
    return true;
}

static bool find_caller(struct mts_thread *s, const struct mts_sink *sink,
                        uintptr_t caller, uint32_t *site) {
    uint64_t stamp = tcm_load_relaxed(&mts_stamp);
    *site = mts_known(s, caller);
    if (*site != MTF_SITE_NONE)
        return true;
    *site = mts_intern(caller, MTF_SITE_NONE);
    return use_site(s, sink, stamp, caller, caller, site);
}

/* --- Stacks --------------------------------------------------------------- */

/* The site of the stack that was walked last, below SITE; none: no memory. What
   lies outside of the frame that has OUTER in it is left out. Frames that were
   there the last time keep their sites. */
static uint32_t intern_stack(struct mts_thread_stack *s, uint32_t site,
                             uintptr_t outer) {
    uint32_t first = s->count - s->length, i = s->count - 1;
    while (i > first &&
           (s->frame[i].state.sp > outer || s->frame[i - 1].state.sp <= outer))
        i--;
    if (i == first && s->cut != MTS_STACK_WHOLE) {
        site = mts_intern(
            s->cut == MTS_STACK_CUT ? MTF_SITE_CUT : MTF_SITE_UNKNOWN, site);
        if (site == MTF_SITE_NONE)
            return site;
    }
    if (s->named_first == i && s->named_below == site && s->named_end > i) {
        i = s->named_end;
        TCM_ASSERT(i <= s->count);
        site = s->frame[i - 1].site;
    } else {
        s->named_first = i;
        s->named_below = site;
    }
    for (; i < s->count; i++) {
        site = mts_intern(s->frame[i].state.at + 1, site);
        s->named_end = i;
        if (site == MTF_SITE_NONE)
            return site;
        s->frame[i].site = site;
    }
    s->named_end = i;
    return site;
}

/* The frame that a call came from, with the key of its stack. */
struct walked {
    struct mts_stack_state from;
    uint64_t stamp;
    struct mts_stack_tag tag; /* without a key: it is not known */
};

/* The stack of a call to this library, by the frame pointer FP of the exported
   function or, with INSIDE, of one that this has called. */
static TCM_ALWAYS_INLINE struct walked
walk_from(struct mts_thread *s, const void *fp, bool inside, unsigned depth) {
    struct walked w = {.stamp = tcm_load_relaxed(&mts_stamp)};
    if (inside) {
        if (!mts_stack_outside(&s->stack, fp, &w.from, w.stamp))
            return w;
    } else {
        w.from = mts_stack_caller(fp);
        if (mts_stack_is_inside(w.from.at))
            return w;
    }
    w.tag = mts_stack_key(&s->stack, w.from, depth, w.stamp);
    return w;
}

/* Threads that share a stream: each has another stack. */
static void forget_others(struct mts_thread *s) {
    if (s->id == MTF_THREAD_LATE)
        mts_stack_forget(&s->stack);
}

static TCM_ALWAYS_INLINE uint32_t known_stack(struct mts_thread *s,
                                              const struct walked *w) {
    if (TCM_LIKELY(w->tag.site != MTF_SITE_NONE) || w->tag.key == 0)
        return w->tag.site;
    uint32_t site = mts_known_walk(s, w->tag.key);
    if (site != MTF_SITE_NONE)
        mts_stack_name(&s->stack, w->tag.key, site);
    return site;
}

static bool find_stack(struct mts_thread *s, const struct mts_sink *sink,
                       const void *fp, uint32_t *site) {
    forget_others(s);
    struct walked w = walk_from(s, fp, true, mts_settings.depth);
    *site = known_stack(s, &w);
    if (*site != MTF_SITE_NONE || w.tag.key == 0)
        return true;
    if (!mts_stack_walk(&s->stack, w.from, mts_settings.depth, w.stamp))
        return true;
    *site = intern_stack(&s->stack, MTF_SITE_NONE, 0);
    mts_stack_done(&s->stack);
    return use_site(s, sink, w.stamp, w.from.at + 1, w.tag.key, site);
}

/* --- Lines ---------------------------------------------------------------- */

/* The native stack of a call from CALLER; without a key there is the caller
   alone. */
static TCM_ALWAYS_INLINE struct walked native_from(struct mts_thread *s,
                                                   uintptr_t caller,
                                                   const void *fp,
                                                   bool inside) {
    if (mts_settings.native != 0)
        return walk_from(s, fp, inside, mts_settings.native);
    return (struct walked){.from = {.at = caller - 1},
                           .stamp = tcm_load_relaxed(&mts_stamp)};
}

/* Lines of an interpreter that was loaded later, if the stack came by it. */
static inline uint64_t lines_late(struct mts_thread *s, const struct walked *w,
                                  uintptr_t caller) {
    return w->tag.key != 0 && w->tag.loops != NULL
               ? mts_lang_walk_late(&s->lang, w->tag.loops, caller)
               : caller;
}

uint64_t mts_key_late(struct mts_thread *s, uintptr_t caller) {
    struct walked w = native_from(s, caller, __builtin_frame_address(0), true);
    return lines_late(s, &w, caller);
}

/* What a site with LINES, the key of them or CALLER, is known by. NATIVE: key
   of the stack; 0: there is the caller alone. */
static TCM_ALWAYS_INLINE uint64_t line_key(uint64_t lines, uintptr_t caller,
                                           uint64_t native) {
    if (native == 0)
        native = caller;
    return lines == caller ? native
                           : mts_lang_mix(lines, native) | (uint64_t)1 << 63;
}

/* With LINES, a key of them that S has, or CALLER. */
static bool find_line(struct mts_thread *s, const struct mts_sink *sink,
                      const struct mts_call *call, uint32_t *site) {
    uintptr_t caller = call->caller;
    uint64_t lines = call->key;
    uint32_t line = MTF_SITE_NONE;
    bool has_lines = lines != caller;
    forget_others(s);
    struct walked w = native_from(s, caller, call->inner, true);
    uint64_t key = line_key(lines, caller, w.tag.key);
    *site = mts_known_walk(s, key);
    if (*site != MTF_SITE_NONE)
        return true;
    if (has_lines) {
        line = mts_known_walk(s, lines);
        if (line == MTF_SITE_NONE)
            line = mts_lang_site(&s->lang, w.stamp);
        if (line == MTF_SITE_NONE)
            return true;
    }
    if (w.tag.key == 0) {
        *site = mts_intern(caller, line);
    } else {
        if (!mts_stack_walk(&s->stack, w.from, mts_settings.native, w.stamp))
            return true;
        *site = intern_stack(&s->stack, line, has_lines ? s->lang.outer : 0);
        mts_stack_done(&s->stack);
    }
    if (!use_site(s, sink, w.stamp, w.from.at + 1, key, site))
        return false;
    /* Defined with it. */
    if (has_lines && *site != MTF_SITE_NONE)
        remember(s, w.stamp, lines, line);
    return true;
}

/* --- Samples -------------------------------------------------------------- */

/* xorshift64* (Vigna 2014). */
static uint64_t random_of(struct mts_thread *s) {
    uint64_t x = s->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    s->random = x;
    return x * 0x2545F4914F6CDD1Du;
}

/*
 * Bytes to the next sample: exponentially distributed, so that each byte is as
 * likely as any other to be one, whatever came before. By comparisons alone
 * (von Neumann, Various techniques used in connection with random digits,
 * 1951): of a falling run of uniform numbers the first is the fraction if the
 * run is odd, else one is added and the next run decides.
 */
static uint64_t draw_distance(struct mts_thread *s) {
    for (uint64_t whole = 0;; whole++) {
        uint64_t first = random_of(s), last = first, length = 1;
        for (uint64_t next; (next = random_of(s)) < last; last = next)
            length++;
        if (length & 1)
            return (
                uint64_t)(((unsigned __int128)whole * mts_settings.mean) +
                          ((unsigned __int128)first * mts_settings.mean >> 64));
    }
}

/* Whether an allocation of SIZE bytes is passed over. */
static TCM_ALWAYS_INLINE bool is_no_sample(struct mts_thread *s, size_t size) {
    if (s->sample_left <= size)
        return false;
    s->sample_left -= size;
    return true;
}

static bool find_sample(struct mts_thread *s, const struct mts_sink *sink,
                        const struct mts_call *call, uint32_t *site) {
    *site = MTF_SITE_NONE;
    if (!s->sampling) {
        s->sampling = true;
        s->random = tcm_load_relaxed(&mts_settings.random) ^
                    (uint64_t)s->id << 32 ^ tcm_clock_ns();
        s->random |= 1;
        s->sample_left = draw_distance(s);
    }
    if (is_no_sample(s, call->size))
        return true;
    s->sample_left = draw_distance(s);
    return find_stack(s, sink, call->inner, site);
}

/* --- Known ones ----------------------------------------------------------- */

static TCM_ALWAYS_INLINE int64_t or_not_known(uint32_t site) {
    return site != MTF_SITE_NONE ? (int64_t)site : MTS_NOT_KNOWN;
}

static TCM_ALWAYS_INLINE int64_t known_line(struct mts_thread *s,
                                            uintptr_t caller, const void *fp,
                                            bool inside) {
    uint64_t lines = mts_lang_walk(&s->lang, caller);
    if (TCM_UNLIKELY(lines == 0))
        return MTS_NOT_KNOWN;
    struct walked w = native_from(s, caller, fp, inside);
    if (TCM_UNLIKELY(lines == caller))
        lines = lines_late(s, &w, caller);
    if (TCM_UNLIKELY(lines == 0))
        return MTS_NOT_KNOWN;
    uint32_t site = mts_known_walk(s, line_key(lines, caller, w.tag.key));
    mts_key_done(s, lines, caller);
    return or_not_known(site);
}

static TCM_ALWAYS_INLINE int64_t known_walk(struct mts_thread *s,
                                            const void *fp, bool inside) {
    struct walked w = walk_from(s, fp, inside, mts_settings.depth);
    return or_not_known(known_stack(s, &w));
}

int64_t mts_walk(struct mts_thread *s, size_t size, uintptr_t caller,
                 const void *fp) {
    switch (mts_settings.mode) {
    case MTS_SAMPLES:
        return !mts_is_loader(caller) && is_no_sample(s, size)
                   ? (int64_t)MTF_SITE_NONE
                   : MTS_NOT_KNOWN;
    case MTS_LINES:
        return known_line(s, caller, fp, false);
    default:
        return known_walk(s, fp, false);
    }
}

int64_t mts_walk_inside(struct mts_thread *s, uintptr_t caller) {
    switch (mts_settings.mode) {
    case MTS_SAMPLES:
        return MTS_NOT_KNOWN;
    case MTS_LINES:
        return known_line(s, caller, __builtin_frame_address(0), true);
    default:
        return known_walk(s, __builtin_frame_address(0), true);
    }
}

/* --- Entry ---------------------------------------------------------------- */

static bool define_mode(struct mts_thread *s, const struct mts_sink *sink) {
    if (s->mode_told || s->id == MTF_THREAD_LATE)
        return true;
    if (!mts_define_mode(sink))
        return false;
    s->mode_told = true;
    return true;
}

bool mts_find(struct mts_thread *s, const struct mts_sink *sink,
              const struct mts_call *call, uint32_t *site) {
    *site = MTF_SITE_NONE;
    if (!define_mode(s, sink))
        return false;
    switch (mts_settings.mode) {
    case MTS_STACKS:
        return find_stack(s, sink, call->inner, site);
    case MTS_SAMPLES:
        return find_sample(s, sink, call, site);
    case MTS_LINES:
        return find_line(s, sink, call, site);
    default:
        return find_caller(s, sink, call->caller, site);
    }
}

bool mts_finds_free(void) {
    return mts_stack_is_possible() &&
           (mts_settings.mode == MTS_STACKS || mts_settings.mode == MTS_LINES);
}

bool mts_find_free(struct mts_thread *s, const struct mts_sink *sink,
                   const void *inner, uint32_t *site) {
    struct mts_stack_state from;
    *site = MTF_SITE_NONE;
    if (mts_settings.mode == MTS_STACKS)
        return find_stack(s, sink, inner, site);
    if (!mts_stack_outside(&s->stack, inner, &from,
                           tcm_load_relaxed(&mts_stamp)))
        return true;
    return find_caller(s, sink, from.at + 1, site);
}
