/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the table to the streams: the first thread of a recording that has a
 * site writes what defines it, and goes on.
 */
#include "tracer/site_defs.h"

#include "tracer/lang_reader.h"
#include "tracer/recorder.h"
#include "tracer/site_modules.h"
#include "tracer/site_texts.h"
#include "tracer/sites.h"
#include "tracer/thread_gap.h"
#include "tracer/thread_life.h"
#include "tracer/trace_clock.h"

#include <errno.h>
#include <string.h>

/* Lines or frames with the mark that there are more, and with native ones. */
#define DEPTH_MAX (MTR_STACK_DEPTH + 1 + MTR_LANG_NATIVE + 1)
TCM_STATIC_ASSERT(MTR_LANG_DEPTH_MAX <= MTR_STACK_DEPTH, "room for lines");
TCM_STATIC_ASSERT(MTR_LANG_NATIVE <= MTR_STACK_DEPTH, "can be walked");

/* Into the stream; room for the rest of the call's events remains. */
static bool publish(struct mtr_thread *t, const uint8_t *def, unsigned n) {
    if (!mtr_make_room(mtr_recorder, t, MTF_EXTENDED_HEAD + n + MTR_ROOM))
        return false;
    mtr_publish(t, t->pos, mtf_raw_put_bytes(t->pos, MTF_RAW_SITE_DEF, def, n));
    return true;
}

static bool define_module(struct mtr_thread *t, uint32_t number, uint32_t now) {
    struct mtr_module *m = mtr_module(number);
    uint32_t done = UINT32_MAX;
    uint8_t def[MTF_EXTENDED_MAX];
    if (m == NULL || tcm_load_acquire(&m->epoch) == now)
        return true;
    /* The calling thread runs code of it: it is where the site is needed. */
    if (t->cold->sites->has_lines && mtr_lang_meet(m, number)) {
        /* Who sees the new stamp sees what was found. */
        tcm_fence_seq_cst();
        tcm_add_relaxed(&mtr_site_stamp, (uint64_t)1);
    }
    for (unsigned n; (n = mtr_site_put_module(def, number, m, &done)) != 0;)
        if (!publish(t, def, n))
            return false;
    /* Others may use it: what defines it is in a stream. */
    mtr_site_tell_epoch(&m->epoch, now);
    return true;
}

static bool define_text(struct mtr_thread *t, uint32_t number, uint32_t now) {
    struct mtr_text *text = mtr_text_of(number);
    uint32_t done = 0;
    uint8_t def[MTF_EXTENDED_MAX];
    if (text == NULL || tcm_load_acquire(&text->epoch) == now)
        return true;
    for (unsigned n; (n = mtr_site_put_text(def, number, text, &done)) != 0;)
        if (!publish(t, def, n))
            return false;
    /* As of a module. */
    mtr_site_tell_epoch(&text->epoch, now);
    return true;
}

/* What the definition of N names. */
static bool define_names(struct mtr_thread *t, const struct mtr_site *n,
                         uint32_t now) {
    struct mtr_line line;
    if (mtr_site_line(n, &line))
        return define_text(t, line.file, now) &&
               define_text(t, line.function, now);
    return define_module(t, n->module, now);
}

/* From the outermost frame on, so that each parent is defined before. */
static bool define(struct mtr_thread *t, uint32_t site) {
    uint32_t chain[DEPTH_MAX], depth = 0, now = t->cold->sites->epoch;
    uint8_t def[MTF_EXTENDED_MAX];
    for (; site != 0 && depth < DEPTH_MAX; depth++) {
        const struct mtr_site *n = mtr_site_of(site);
        if (tcm_load_acquire(&n->epoch) == now)
            break;
        chain[depth] = site;
        site = n->parent;
    }
    while (depth-- > 0) {
        struct mtr_site *n = mtr_site_of(chain[depth]);
        if (!define_names(t, n, now) ||
            !publish(t, def, mtr_site_put(def, chain[depth], n)))
            return false;
        mtr_site_tell_epoch(&n->epoch, now);
    }
    return true;
}

static bool define_mode(struct mtr_thread *t) {
    uint8_t def[MTF_EXTENDED_MAX];
    if (t->cold->sites->mode_told || t->cold->id == MTF_THREAD_LATE)
        return true;
    if (!publish(t, def, mtr_site_put_mode(def)))
        return false;
    t->cold->sites->mode_told = true;
    return true;
}

static void remember(struct mtr_thread_sites *s, uint64_t stamp, uint64_t key,
                     uint32_t site) {
    if (s->stamp != stamp) {
        memset(s->cache, 0, sizeof(s->cache));
        s->stamp = stamp;
    }
    struct mtr_known_caller *k = &s->cache[mtr_site_entry(key)];
    if (s->walks && k->key != key)
        s->cache[mtr_site_entry(key) ^ 1] = *k;
    *k = (struct mtr_known_caller){key, site};
}

/* SITE is the one of KEY, of a call from CALLER. False: there is no room for
   its definition. */
static bool use_site(struct mtr_thread *t, uint64_t stamp, uintptr_t caller,
                     uint64_t key, uint32_t *site) {
    if (*site == MTF_SITE_NONE)
        return true;
    /* A thread past its end has no room of its own for definitions. */
    if (t->cold->id == MTF_THREAD_LATE) {
        if (tcm_load_acquire(&mtr_site_of(*site)->epoch) !=
            t->cold->sites->epoch)
            *site = MTF_SITE_NONE;
        return true;
    }
    if (!define(t, *site))
        return false;
    /* Each of the loader's calls is to come by mtr_site_notice. */
    if (!mtr_is_loader(caller))
        remember(t->cold->sites, stamp, key, *site);
    return true;
}

static bool find_caller(struct mtr_thread *t, uintptr_t caller,
                        uint32_t *site) {
    uint64_t stamp = tcm_load_relaxed(&mtr_site_stamp);
    *site = mtr_site_known(t->cold->sites, caller);
    if (*site != MTF_SITE_NONE)
        return true;
    *site = mtr_site_intern(caller, MTF_SITE_NONE);
    return use_site(t, stamp, caller, caller, site);
}

/* --- Stacks --------------------------------------------------------------- */

/* The site of the stack that was walked last, below SITE; none: no memory. What
   lies outside of the frame that has OUTER in it is left out. Frames that were
   there the last time keep their sites. */
static uint32_t intern_stack(struct mtr_thread_stack *s, uint32_t site,
                             uintptr_t outer) {
    uint32_t first = s->count - s->length, i = s->count - 1;
    while (i > first &&
           (s->frame[i].state.sp > outer || s->frame[i - 1].state.sp <= outer))
        i--;
    if (i == first && s->cut != MTR_STACK_WHOLE) {
        site = mtr_site_intern(
            s->cut == MTR_STACK_CUT ? MTF_SITE_CUT : MTF_SITE_UNKNOWN, site);
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
        site = mtr_site_intern(s->frame[i].state.at + 1, site);
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
    struct mtr_stack_state from;
    uint64_t stamp;
    struct mtr_stack_tag tag; /* without a key: it is not known */
};

/* Of the caller of the exported function with the frame pointer FP or, if that
   is NULL, of the one that called this. */
static TCM_ALWAYS_INLINE struct walked
walk_from(struct mtr_thread_sites *s, const void *fp, unsigned depth) {
    struct walked w = {.stamp = tcm_load_relaxed(&mtr_site_stamp)};
    if (fp == NULL) {
        if (!mtr_stack_outside(&s->stack, &w.from, w.stamp))
            return w;
    } else {
        w.from = mtr_stack_caller(fp);
        if (mtr_stack_is_inside(w.from.at))
            return w;
    }
    w.tag = mtr_stack_key(&s->stack, w.from, depth, w.stamp);
    return w;
}

/* Threads that share a stream: each has another stack. */
static void forget_others(struct mtr_thread *t) {
    if (t->cold->id == MTF_THREAD_LATE)
        mtr_stack_forget(&t->cold->sites->stack);
}

static TCM_ALWAYS_INLINE uint32_t known_stack(struct mtr_thread_sites *s,
                                              const struct walked *w) {
    if (TCM_LIKELY(w->tag.site != MTF_SITE_NONE) || w->tag.key == 0)
        return w->tag.site;
    uint32_t site = mtr_site_known_walk(s, w->tag.key);
    if (site != MTF_SITE_NONE)
        mtr_stack_name(&s->stack, w->tag.key, site);
    return site;
}

static bool find_stack(struct mtr_thread *t, uint32_t *site) {
    struct mtr_thread_sites *s = t->cold->sites;
    forget_others(t);
    struct walked w = walk_from(s, NULL, mtr_config.site_depth);
    *site = known_stack(s, &w);
    if (*site != MTF_SITE_NONE || w.tag.key == 0)
        return true;
    if (!mtr_stack_walk(&s->stack, w.from, mtr_config.site_depth, w.stamp))
        return true;
    *site = intern_stack(&s->stack, MTF_SITE_NONE, 0);
    mtr_stack_done(&s->stack);
    return use_site(t, w.stamp, w.from.at + 1, w.tag.key, site);
}

/* --- Lines ---------------------------------------------------------------- */

/* The native stack of a call from CALLER; without a key there is the caller
   alone. */
static TCM_ALWAYS_INLINE struct walked
native_from(struct mtr_thread_sites *s, uintptr_t caller, const void *fp) {
    if (mtr_config.site_native != 0)
        return walk_from(s, fp, mtr_config.site_native);
    return (struct walked){.from = {.at = caller - 1},
                           .stamp = tcm_load_relaxed(&mtr_site_stamp)};
}

/* Lines of an interpreter that was loaded later, if the stack came by it. */
static inline uint64_t lines_late(struct mtr_thread_sites *s,
                                  const struct walked *w, uintptr_t caller) {
    return w->tag.key != 0 && w->tag.loops != NULL
               ? mtr_lang_walk_late(&s->lang, w->tag.loops, caller)
               : caller;
}

uint64_t mtr_site_key_late(struct mtr_thread_sites *s, uintptr_t caller) {
    struct walked w = native_from(s, caller, NULL);
    return lines_late(s, &w, caller);
}

/* What a site with LINES, the key of them or CALLER, is known by. NATIVE: key
   of the stack; 0: there is the caller alone. */
static TCM_ALWAYS_INLINE uint64_t line_key(uint64_t lines, uintptr_t caller,
                                           uint64_t native) {
    if (native == 0)
        native = caller;
    return lines == caller ? native
                           : mtr_lang_mix(lines, native) | (uint64_t)1 << 63;
}

/* With LINES, a key of them that S has, or CALLER. */
static bool find_line(struct mtr_thread *t, uintptr_t caller, uint64_t lines,
                      uint32_t *site) {
    struct mtr_thread_sites *s = t->cold->sites;
    uint32_t line = MTF_SITE_NONE;
    bool has_lines = lines != caller;
    forget_others(t);
    struct walked w = native_from(s, caller, NULL);
    uint64_t key = line_key(lines, caller, w.tag.key);
    *site = mtr_site_known_walk(s, key);
    if (*site != MTF_SITE_NONE)
        return true;
    if (has_lines) {
        line = mtr_site_known_walk(s, lines);
        if (line == MTF_SITE_NONE)
            line = mtr_lang_site(&s->lang, w.stamp);
        if (line == MTF_SITE_NONE)
            return true;
    }
    if (w.tag.key == 0) {
        *site = mtr_site_intern(caller, line);
    } else {
        if (!mtr_stack_walk(&s->stack, w.from, mtr_config.site_native, w.stamp))
            return true;
        *site = intern_stack(&s->stack, line, has_lines ? s->lang.outer : 0);
        mtr_stack_done(&s->stack);
    }
    if (!use_site(t, w.stamp, w.from.at + 1, key, site))
        return false;
    /* Defined with it. */
    if (has_lines && *site != MTF_SITE_NONE)
        remember(s, w.stamp, lines, line);
    return true;
}

/* --- Samples -------------------------------------------------------------- */

/* xorshift64* (Vigna 2014). */
static uint64_t random_of(struct mtr_thread_sites *s) {
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
static uint64_t draw_distance(struct mtr_thread_sites *s) {
    for (uint64_t whole = 0;; whole++) {
        uint64_t first = random_of(s), last = first, length = 1;
        for (uint64_t next; (next = random_of(s)) < last; last = next)
            length++;
        if (length & 1)
            return (
                uint64_t)(((unsigned __int128)whole * mtr_config.site_mean) +
                          ((unsigned __int128)first * mtr_config.site_mean >>
                           64));
    }
}

/* Whether an allocation of SIZE bytes is passed over. */
static TCM_ALWAYS_INLINE bool is_no_sample(struct mtr_thread_sites *s,
                                           size_t size) {
    if (s->sample_left <= size)
        return false;
    s->sample_left -= size;
    return true;
}

static bool find_sample(struct mtr_thread *t, size_t size, uint32_t *site) {
    struct mtr_thread_sites *s = t->cold->sites;
    *site = MTF_SITE_NONE;
    if (!s->sampling) {
        s->sampling = true;
        s->random = mtr_config.self.random ^ (uint64_t)t->cold->id << 32 ^
                    mtr_clock_ns();
        s->random |= 1;
        s->sample_left = draw_distance(s);
    }
    if (is_no_sample(s, size))
        return true;
    s->sample_left = draw_distance(s);
    return find_stack(t, site);
}

/* --- Known ones ----------------------------------------------------------- */

static TCM_ALWAYS_INLINE int64_t or_not_known(uint32_t site) {
    return site != MTF_SITE_NONE ? (int64_t)site : MTR_SITE_NOT_KNOWN;
}

static TCM_ALWAYS_INLINE int64_t known_line(struct mtr_thread_sites *s,
                                            uintptr_t caller, const void *fp) {
    uint64_t lines = mtr_lang_walk(&s->lang, caller);
    if (TCM_UNLIKELY(lines == 0))
        return MTR_SITE_NOT_KNOWN;
    struct walked w = native_from(s, caller, fp);
    if (TCM_UNLIKELY(lines == caller))
        lines = lines_late(s, &w, caller);
    if (TCM_UNLIKELY(lines == 0))
        return MTR_SITE_NOT_KNOWN;
    uint32_t site = mtr_site_known_walk(s, line_key(lines, caller, w.tag.key));
    mtr_site_key_done(s, lines, caller);
    return or_not_known(site);
}

static TCM_ALWAYS_INLINE int64_t known_walk(struct mtr_thread_sites *s,
                                            const void *fp) {
    struct walked w = walk_from(s, fp, mtr_config.site_depth);
    return or_not_known(known_stack(s, &w));
}

int64_t mtr_site_walk(struct mtr_thread *t, size_t size, uintptr_t caller,
                      const void *fp) {
    struct mtr_thread_sites *s = t->cold->sites;
    switch (mtr_config.sites) {
    case MTR_SITES_SAMPLE:
        return !mtr_is_loader(caller) && is_no_sample(s, size)
                   ? (int64_t)MTF_SITE_NONE
                   : MTR_SITE_NOT_KNOWN;
    case MTR_SITES_LANG:
        return known_line(s, caller, fp);
    default:
        return known_walk(s, fp);
    }
}

int64_t mtr_site_walk_inside(struct mtr_thread *t, uintptr_t caller) {
    struct mtr_thread_sites *s = t->cold->sites;
    switch (mtr_config.sites) {
    case MTR_SITES_SAMPLE:
        return MTR_SITE_NOT_KNOWN;
    case MTR_SITES_LANG:
        return known_line(s, caller, NULL);
    default:
        return known_walk(s, NULL);
    }
}

/* --- Entry ---------------------------------------------------------------- */

/* False: there is no room for the definition. */
static bool find(struct mtr_thread *t, uintptr_t caller, uint64_t key,
                 size_t size, uint32_t *site) {
    if (!define_mode(t))
        return false;
    switch (mtr_config.sites) {
    case MTR_SITES_STACK:
        return find_stack(t, site);
    case MTR_SITES_SAMPLE:
        return find_sample(t, size, site);
    case MTR_SITES_LANG:
        return find_line(t, caller, key, site);
    default:
        return find_caller(t, caller, site);
    }
}

/* SITE, if GOOD, is that of the events that follow; a gap otherwise. */
static bool enter(struct mtr_thread *t, bool good, uint32_t site) {
    if (!good)
        return mtr_gap_begin(mtr_recorder, t);
    mtr_put_site(t, t->cold->sites, site);
    return true;
}

bool mtr_site_enter(struct mtr_thread *t, uintptr_t caller, uint64_t key,
                    size_t size) {
    uint32_t site = MTF_SITE_NONE;
    int saved = errno;
    TCM_ASSERT(mtr_has_sites(t) && t->cold->sites != NULL);
    if (mtr_drops(t))
        return true;
    bool good = find(t, caller, key, size, &site);
    good = enter(t, good, site);
    errno = saved;
    return good;
}

bool mtr_site_finds_free(const struct mtr_thread *t) {
    return mtr_has_sites(t) && mtr_stack_is_possible() &&
           (mtr_config.sites == MTR_SITES_STACK ||
            mtr_config.sites == MTR_SITES_LANG);
}

bool mtr_site_enter_free(struct mtr_thread *t) {
    struct mtr_thread_sites *s = t->cold->sites;
    struct mtr_stack_state from;
    uint32_t site = MTF_SITE_NONE;
    bool good = true;
    int saved = errno;
    TCM_ASSERT((mtr_has_free_sites(t) || mtr_site_finds_free(t)) && s != NULL);
    if (mtr_drops(t))
        return true;
    if (mtr_config.sites == MTR_SITES_STACK)
        good = find_stack(t, &site);
    else if (mtr_stack_outside(&s->stack, &from,
                               tcm_load_relaxed(&mtr_site_stamp)))
        good = find_caller(t, from.at + 1, &site);
    good = enter(t, good, site);
    errno = saved;
    return good;
}
