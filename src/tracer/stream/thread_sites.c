/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/stream/thread_sites.h"

#include "tracer/recorder.h"
#include "tracer/stream/thread_life.h"

#include <errno.h>

/* Writes a definition into the stream of CTX; room for the other events of the
   call remains. false: there is no room. */
static bool publish(void *ctx, const uint8_t *def, unsigned n) {
    struct mtr_thread *t = ctx;
    if (!mtr_make_room(mtr_recorder, t, MTF_EXTENDED_HEAD + n + MTR_ROOM))
        return false;
    mtr_publish(t, t->pos, mtf_raw_put_bytes(t->pos, MTF_RAW_SITE_DEF, def, n));
    return true;
}

/* Makes SITE the site of the events that follow; without ROOM for its
   definition a gap begins. */
static bool enter(struct mtr_thread *t, bool room, uint32_t site) {
    if (!room)
        return mtr_gap_begin(mtr_recorder, t);
    mtr_put_site(t, t->cold->sites, site);
    return true;
}

bool mtr_site_enter(struct mtr_thread *t, uintptr_t caller, uint64_t key,
                    size_t size) {
    const struct mts_sink sink = {publish, t};
    uint32_t site;
    int saved = errno;
    TCM_ASSERT(mtr_has_sites(t) && t->cold->sites != NULL);
    TCM_ASSERT(t->cold->sites->id == t->cold->id);
    if (mtr_drops(t))
        return true;
    const struct mts_call call = {caller, key, size,
                                  __builtin_frame_address(0)};
    bool room = mts_find(t->cold->sites, &sink, &call, &site);
    bool good = enter(t, room, site);
    errno = saved;
    return good;
}

bool mtr_site_enter_free(struct mtr_thread *t) {
    const struct mts_sink sink = {publish, t};
    uint32_t site;
    int saved = errno;
    TCM_ASSERT(mtr_has_free_sites(t) || mtr_site_finds_free(t));
    TCM_ASSERT(t->cold->sites != NULL && t->cold->sites->id == t->cold->id);
    if (mtr_drops(t))
        return true;
    bool room =
        mts_find_free(t->cold->sites, &sink, __builtin_frame_address(0), &site);
    bool good = enter(t, room, site);
    errno = saved;
    return good;
}
