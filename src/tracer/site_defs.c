/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the table to the streams: the first thread of a recording that has a
 * site writes what defines it, and goes on.
 */
#include "tracer/site_defs.h"

#include "tracer/recorder.h"
#include "tracer/site_modules.h"
#include "tracer/site_texts.h"
#include "tracer/sites.h"
#include "tracer/thread_gap.h"
#include "tracer/thread_life.h"

#include <errno.h>
#include <string.h>

/* Lines, the mark that there are more, and the caller. */
#define DEPTH_MAX (MTR_LANG_DEPTH_MAX + 2)

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

static void remember(struct mtr_thread_sites *s, uint64_t stamp, uint64_t key,
                     uint32_t site) {
    if (s->stamp != stamp) {
        memset(s->cache, 0, sizeof(s->cache));
        s->stamp = stamp;
    }
    *mtr_site_entry(s, key) = (struct mtr_known_caller){key, site};
}

static bool is_of_loader(uintptr_t caller) {
    uint32_t site = mtr_site_intern(caller, MTF_SITE_NONE);
    const struct mtr_module *m =
        site == MTF_SITE_NONE ? NULL : mtr_module(mtr_site_of(site)->module);
    return m != NULL && m->is_loader;
}

/* False: there is no room for the definition. */
static bool find_site(struct mtr_thread *t, uintptr_t caller, uint64_t key,
                      uint32_t *site) {
    uint64_t stamp = tcm_load_relaxed(&mtr_site_stamp);
    *site = key == caller ? mtr_site_intern(caller, MTF_SITE_NONE)
                          : mtr_lang_site(&t->cold->sites->lang, caller);
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
    if (is_of_loader(caller))
        tcm_add_relaxed(&mtr_site_stamp, (uint64_t)1);
    else
        remember(t->cold->sites, stamp, key, *site);
    return true;
}

bool mtr_site_enter(struct mtr_thread *t, uintptr_t caller, uint64_t key) {
    struct mtr_thread_sites *s = t->cold->sites;
    TCM_ASSERT(mtr_has_sites(t) && s != NULL);
    if (mtr_drops(t))
        return true;
    uint32_t site = mtr_site_known(s, key);
    if (TCM_UNLIKELY(site == MTF_SITE_NONE)) {
        int saved = errno;
        bool good = find_site(t, caller, key, &site);
        if (!good && !mtr_gap_begin(mtr_recorder, t)) {
            errno = saved;
            return false;
        }
        errno = saved;
        if (!good)
            return true;
    }
    mtr_put_site(t, s, site);
    return true;
}
