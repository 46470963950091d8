/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a call to its site, in each mode. The order of steps in a thread: the
 * site is interned, then defined by the thread's sink, then known to the
 * thread. So a key that a thread knows needs no look at the tables that all
 * threads share.
 */
#include "sites/call_sites.h"

#include "base/bits.h"
#include "base/clock.h"
#include "base/random.h"
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
    /* Relaxed: a thread of the previous recording may be in a walk, and its
       site belongs to that recording. */
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
    s->mode_defined = false;
    s->sampling = false;
    if (s->has_lines)
        mts_lang_change_owner(&s->lang);
    if (mts_thread_bytes() >= sizeof(*s)) {
        mts_stack_forget(&s->stack);
        s->stack.busy = 0;
    }
}

void mts_thread_leave(struct mts_thread *s) {
    if (s->has_lines)
        mts_lang_change_owner(&s->lang);
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

/* Makes *SITE, the site of KEY for a call from CALLER, usable in this thread:
   defined and known. false: there is no room for its definition. */
static bool use_site(struct mts_thread *s, const struct mts_sink *sink,
                     uint64_t stamp, uintptr_t caller, uint64_t key,
                     uint32_t *site) {
    if (*site == MTF_SITE_NONE)
        return true;
    /* The late stream has no room for definitions: only sites that others have
       defined are used. */
    if (s->id == MTF_THREAD_LATE) {
        if (tcm_load_acquire(&mts_site_of(*site)->epoch) != s->epoch)
            *site = MTF_SITE_NONE;
        return true;
    }
    if (!mts_define(sink, *site, s->epoch, s->has_lines))
        return false;
    /* Calls of the loader stay unknown, so that each of them reaches
       mts_note_loader. */
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

/* The site of the stack that was walked last, below SITE; MTF_SITE_NONE: no
   memory. Frames outside of the one whose frame contains the address OUTER
   are left out. Frames that have not changed since the last walk keep their
   sites. */
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

/* A stack: the frame it begins with, and its key. */
struct walk_result {
    struct mts_stack_state from;
    uint64_t stamp;
    struct mts_stack_tag tag; /* key 0: the stack cannot be walked */
};

/* The stack of a call to this library. FP is the frame pointer of the exported
   function or, with INSIDE, of a function that it has called. */
static TCM_ALWAYS_INLINE struct walk_result
walk_from(struct mts_thread *s, const void *fp, bool inside, unsigned depth) {
    struct walk_result w = {.stamp = tcm_load_relaxed(&mts_stamp)};
    if (inside || !mts_frame_tells_caller) {
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

/* Threads that share the late stream have different stacks. */
static void forget_others(struct mts_thread *s) {
    if (s->id == MTF_THREAD_LATE)
        mts_stack_forget(&s->stack);
}

static TCM_ALWAYS_INLINE uint32_t known_stack(struct mts_thread *s,
                                              const struct walk_result *w) {
    if (TCM_LIKELY(w->tag.site != MTF_SITE_NONE) || w->tag.key == 0)
        return w->tag.site;
    uint32_t site = mts_known_walk(s, w->tag.key);
    if (site != MTF_SITE_NONE)
        mts_stack_set_site(&s->stack, w->tag.key, site);
    return site;
}

static bool find_stack(struct mts_thread *s, const struct mts_sink *sink,
                       const void *fp, uint32_t *site) {
    forget_others(s);
    struct walk_result w = walk_from(s, fp, true, mts_settings.depth);
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

/* The native stack of a call from CALLER; with key 0 it is the caller alone. */
static TCM_ALWAYS_INLINE struct walk_result native_from(struct mts_thread *s,
                                                        uintptr_t caller,
                                                        const void *fp,
                                                        bool inside) {
    if (mts_settings.native != 0)
        return walk_from(s, fp, inside, mts_settings.native);
    return (struct walk_result){.from = {.at = caller - 1},
                                .stamp = tcm_load_relaxed(&mts_stamp)};
}

/* The key of lines of an interpreter that was loaded after set-up, if the stack
   has a frame of it; else CALLER. */
static inline uint64_t lines_late(struct mts_thread *s,
                                  const struct walk_result *w,
                                  uintptr_t caller) {
    return w->tag.key != 0 && w->tag.loops != NULL
               ? mts_lang_walk_late(&s->lang, w->tag.loops, caller)
               : caller;
}

uint64_t mts_key_late(struct mts_thread *s, uintptr_t caller) {
    struct walk_result w =
        native_from(s, caller, __builtin_frame_address(0), true);
    return lines_late(s, &w, caller);
}

/* The key of a site with lines. LINES: key of the lines, or CALLER if none run.
   NATIVE: key of the native stack, or 0 if only the caller is known. */
static TCM_ALWAYS_INLINE uint64_t line_key(uint64_t lines, uintptr_t caller,
                                           uint64_t native) {
    if (native == 0)
        native = caller;
    return lines == caller ? native
                           : mts_lang_mix(lines, native) | (uint64_t)1 << 63;
}

/* mts_find in mode LINES; CALL->key is the key of the lines in S, or the
   caller. */
static bool find_line(struct mts_thread *s, const struct mts_sink *sink,
                      const struct mts_call *call, uint32_t *site) {
    uintptr_t caller = call->caller;
    uint64_t lines = call->key;
    uint32_t line = MTF_SITE_NONE;
    bool has_lines = lines != caller;
    forget_others(s);
    struct walk_result w = native_from(s, caller, call->inner, true);
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
    /* The definition of *SITE has defined its lines, too. */
    if (has_lines && *site != MTF_SITE_NONE)
        remember(s, w.stamp, lines, line);
    return true;
}

/* --- Samples -------------------------------------------------------------- */

static uint64_t draw_distance(struct mts_thread *s) {
    return tcm_random_distance(&s->random, mts_settings.mean);
}

/* Counts SIZE bytes towards the next sample. True: the allocation is not a
   sample. */
static TCM_ALWAYS_INLINE bool passes_over(struct mts_thread *s, size_t size) {
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
    if (passes_over(s, call->size))
        return true;
    s->sample_left = draw_distance(s);
    return find_stack(s, sink, call->inner, site);
}

/* --- Known ones ----------------------------------------------------------- */

static TCM_ALWAYS_INLINE int64_t known_or_miss(uint32_t site) {
    return site != MTF_SITE_NONE ? (int64_t)site : MTS_NOT_KNOWN;
}

static TCM_ALWAYS_INLINE int64_t known_line(struct mts_thread *s,
                                            uintptr_t caller, const void *fp,
                                            bool inside) {
    uint64_t lines = mts_lang_walk(&s->lang, caller);
    if (TCM_UNLIKELY(lines == 0))
        return MTS_NOT_KNOWN;
    struct walk_result w = native_from(s, caller, fp, inside);
    if (TCM_UNLIKELY(lines == caller))
        lines = lines_late(s, &w, caller);
    if (TCM_UNLIKELY(lines == 0))
        return MTS_NOT_KNOWN;
    uint32_t site = mts_known_walk(s, line_key(lines, caller, w.tag.key));
    mts_key_done(s, lines, caller);
    return known_or_miss(site);
}

static TCM_ALWAYS_INLINE int64_t known_walk(struct mts_thread *s,
                                            const void *fp, bool inside) {
    struct walk_result w = walk_from(s, fp, inside, mts_settings.depth);
    return known_or_miss(known_stack(s, &w));
}

int64_t mts_walk(struct mts_thread *s, size_t size, uintptr_t caller,
                 const void *fp) {
    switch (mts_settings.mode) {
    case MTS_SAMPLES:
        return !mts_is_loader(caller) && passes_over(s, size)
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
    if (s->mode_defined || s->id == MTF_THREAD_LATE)
        return true;
    if (!mts_define_mode(sink))
        return false;
    s->mode_defined = true;
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
