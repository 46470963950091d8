/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rounds and polls: what the saver saves.
 *
 * Why a round looks at the threads first and takes the queue of full buffers
 * afterwards: an event published before the barrier's time T is in its thread's
 * own buffer, or in the queue, when the round begins. If its thread hands that
 * buffer over before we look at the thread, the buffer is in the queue before
 * we take that. So each such event is seen, whatever the threads do.
 */
#include "tracer/saver/saver_parts.h"

#include "base/bits.h"
#include "base/check.h"
#include "sites/site_defs.h"
#include "sites/site_settings.h"
#include "tracer/trace_clock.h"

#include <errno.h>
#include <string.h>

#define SAMPLE_NS  100000000u
#define HEAD_BYTES ((uint32_t)sizeof(struct mtf_spool_buffer))

/* --- Saving -------------------------------------------------------------- */

/* Adds the calls in those saved bytes of B that were not counted before.
   IS_WHOLE: B will have no more. */
static void count(struct mtr_saver *s, struct mtr_buffer *b, bool is_whole) {
    struct mtr_event_counts before = b->counted;
    bool is_known = is_whole && b->is_counted;
    if (!is_known || tcm_debug)
        mtr_count_events(&b->counted, b->base + b->counted_to,
                         b->saved - b->counted_to);
    TCM_ASSERT(!is_known ||
               memcmp(&b->counted, &b->counts, sizeof(b->counts)) == 0);
    if (is_known)
        b->counted = b->counts;
    b->counted_to = b->saved;
    s->counts.mallocs += b->counted.mallocs - before.mallocs;
    s->counts.memaligns += b->counted.memaligns - before.memaligns;
    s->counts.reallocs += b->counted.reallocs - before.reallocs;
    s->counts.frees += b->counted.frees - before.frees;
    s->counts.failed += b->counted.failed - before.failed;
}

/* Writes the bytes from FROM to UPTO of B, which were published between the two
   times. */
static bool write_piece(struct mtr_saver *s, const struct mtr_buffer *b,
                        uint32_t from, uint32_t upto, uint64_t time_lo,
                        uint64_t time_hi) {
    TCM_ASSERT(from >= HEAD_BYTES && from < upto && upto <= b->size);
    struct mtf_raw_place place = {
        .thread = b->thread,
        .offset = b->stream + from - HEAD_BYTES,
        .buffer_start = b->stream,
        .time_lo = time_lo,
        .time_hi = time_hi,
    };
    return mtf_raw_write_data(&s->writer, &place, b->base + from, upto - from);
}

/* A thread that has given no memory for so long has rested: what it did before
   is not to be placed in its rest. */
#define REST_NS 1000000u

/* The time at which B's thread last gave memory, if it matters: to the threads
   that there are, or because it rested; *GIVEN: the bytes that were published
   before it. 0: none. */
static uint64_t given_time(const struct mtr_saver *s,
                           const struct mtr_buffer *b, uint64_t time_hi,
                           uint32_t *given) {
    uint64_t ns = mtr_buffer_given_time(b, given);
    return ns != 0 && time_hi < ns + REST_NS &&
                   mtr_registry_is_single(&s->rec->registry, time_hi)
               ? 0
               : ns;
}

/* Saves B's bytes up to UPTO, which were published before TIME_HI. */
static bool save(struct mtr_saver *s, struct mtr_buffer *b, uint32_t upto,
                 uint64_t time_hi) {
    if (upto <= b->saved)
        return true;
    TCM_ASSERT(b->saved >= HEAD_BYTES && upto <= b->size);
    TCM_ASSERT(b->thread != MTF_THREAD_NONE && b->stream <= UINT64_MAX / 2);
    uint32_t from = b->saved;
    uint64_t time_lo = b->time_lo;
    /* The part of a flight recording that has the buffer's beginning may be
       removed before this part is. */
    if (b->part != s->output.part && from != HEAD_BYTES) {
        from = HEAD_BYTES;
        time_lo = b->taken_ns;
    }
    uint32_t given = 0;
    uint64_t given_ns = given_time(s, b, time_hi, &given);
    if (given > b->saved && given <= upto && given_ns > time_lo &&
        given_ns < time_hi) {
        if (!write_piece(s, b, from, given, time_lo, given_ns))
            return false;
        from = given;
        time_lo = given_ns;
    }
    if (from < upto && !write_piece(s, b, from, upto, time_lo, time_hi))
        return false;
    b->part = s->output.part;
    b->saved = upto;
    TCM_ASSERT(b->mark <= s->writer.raw_bytes);
    b->mark = s->writer.raw_bytes;
    s->dirty = true;
    return true;
}

/* A buffer is free again when its last byte is in the output. The spool gets
   the number of saved bytes before the first buffer loses its events. */
void mtr_saver_recycle(struct mtr_saver *s) {
    uint64_t saved = s->writer.settled_bytes;
    bool any = false;
    struct mtr_buffer *b;
    while ((b = s->written_head) != NULL && b->mark <= saved && !b->in_round) {
        if (!any)
            mtr_spool_store_saved(s->rec, saved);
        TCM_ASSERT(b->saved == b->used);
        TCM_ASSERT((b->next == NULL) == (b == s->written_tail));
        s->written_head = b->next;
        if (b->next == NULL)
            s->written_tail = NULL;
        mtr_pool_recycle(&s->rec->pool, b, saved);
        any = true;
    }
    if (any)
        mtr_pool_notify(&s->rec->pool);
}

/*
 * Sets the time to the next poll after one that has FOUND full buffers: shorter
 * when these were more than a quarter of what is kept ready, longer when few. A
 * timer that fires costs as much as saving some thousand events, so polling
 * every MTR_POLL_NS would cost a slow program more than its events do. A thread
 * that finds the pool low wakes the saver, whatever the interval. For the same
 * reason more large buffers are kept ready, up to READY_MANY, before polls come
 * more often. (Only the saver changes `ready`.)
 */
#define READY_MANY 16u

static void set_poll_interval(struct mtr_saver *s, const uint32_t found[2]) {
    struct mtr_stack *kept = s->rec->pool.free;
    TCM_ASSERT(s->poll_ns <= MTR_ROUND_NS);
    bool many = false, few = true;
    if (found[MTR_LARGE] * 4 > kept[MTR_LARGE].ready &&
        kept[MTR_LARGE].ready < READY_MANY)
        kept[MTR_LARGE].ready *= 2;
    for (unsigned i = 0; i < 2; i++) {
        many = many || found[i] * 4 > kept[i].ready;
        few = few && found[i] * 8 <= kept[i].ready;
    }
    if (many)
        s->poll_ns = tcm_max_u64(s->poll_ns / 2, MTR_POLL_NS);
    else if (few)
        s->poll_ns = tcm_min_u64(s->poll_ns * 2, MTR_ROUND_NS);
}

static bool save_full(struct mtr_saver *s) {
    struct mtr_buffer *b = mtr_pool_take_full(&s->rec->pool);
    uint32_t found[2] = {0, 0};
    uint64_t now = b == NULL ? 0 : mtr_clock_ns();
    if (b != NULL)
        s->last_full = now;
    bool ok = true;
    while (b != NULL) {
        struct mtr_buffer *next = b->next;
        found[b->size == MTR_LARGE_BYTES ? MTR_LARGE : MTR_SMALL]++;
        ok = ok && save(s, b, b->used, now);
        if (ok)
            count(s, b, true);
        b->next = NULL;
        if (s->written_tail != NULL)
            s->written_tail->next = b;
        else
            s->written_head = b;
        s->written_tail = b;
        if (ok)
            mtr_saver_recycle(s);
        b = next;
    }
    set_poll_interval(s, found);
    if (!ok ||
        s->writer.raw_bytes - s->writer.settled_bytes < MTF_RAW_FLUSH_LEAST)
        return ok;
    ok = mtf_raw_writer_flush(&s->writer);
    mtr_saver_recycle(s);
    return ok;
}

/* Flushes the compressor too, if its bytes keep buffers from threads that wait
   for one. */
bool mtr_saver_poll(struct mtr_saver *s) {
    if (!save_full(s))
        return false;
    if (s->written_head != NULL &&
        tcm_load_relaxed(&s->rec->pool.waiters) != 0) {
        if (!mtf_raw_writer_flush(&s->writer))
            return false;
        mtr_saver_recycle(s);
    }
    return true;
}

/*
 * Looks at all threads: returns a list of the buffers that have new events,
 * with the position in SEEN. BEGIN is a time before the look: in a buffer that
 * has nothing new, later events are later than that. (A buffer of which nothing
 * was saved yet may be in the hands of its owner, which writes its time.)
 */
static struct mtr_buffer *list_unsaved(struct mtr_recorder *rec,
                                       uint64_t begin) {
    struct mtr_buffer *list = NULL, **tail = &list;
    struct mtr_registry *r = &rec->registry;
    tcm_lock(&r->lock);
    for (struct tcm_dlist *l = r->live.next; l != &r->live; l = l->next) {
        struct mtr_thread_record *t =
            TCM_CONTAINER_OF(l, struct mtr_thread_record, cold.link);
        /* A record of an earlier recording, whose thread has not entered
           since. */
        if (t->cold.session != rec->session)
            continue;
        tcm_lock(&rec->pool.lock);
        struct mtr_buffer *b = t->cold.buffer;
        /* Acquire: pairs with mtr_publish, so the bytes below pos are there. */
        uint8_t *pos = tcm_load_acquire(&t->hot.pos);
        uint32_t seen = b == NULL ? 0 : (uint32_t)(pos - b->base);
        TCM_ASSERT(b == NULL || (seen >= HEAD_BYTES && seen <= b->size));
        TCM_ASSERT(b == NULL || !b->in_round);
        if (b != NULL && seen > b->saved) {
            b->seen = seen;
            b->in_round = true;
            b->next_seen = NULL;
            *tail = b;
            tail = &b->next_seen;
        } else if (b != NULL && b->saved > HEAD_BYTES) {
            b->time_lo = begin;
        }
        tcm_unlock(&rec->pool.lock);
    }
    tcm_unlock(&r->lock);
    return list;
}

/* Adds B to the list that ends at *TAIL if it has saved calls that were not
   counted. A buffer may be met twice, as its thread hands it over. */
static struct mtr_buffer **list_uncounted(struct mtr_buffer **tail,
                                          struct mtr_buffer *b) {
    if (b == NULL || b->in_round || b->counted_to >= b->saved)
        return tail;
    b->in_round = true;
    b->next_seen = NULL;
    *tail = b;
    return &b->next_seen;
}

/*
 * A full buffer carries the counts of its thread. Of buffers that threads hold,
 * rounds save pieces without counting their calls, because decoding them would
 * take as long as everything else that a round does; here they are counted.
 */
void mtr_saver_count(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    struct mtr_registry *r = &rec->registry;
    struct mtr_buffer *list = NULL, **tail = &list;
    tcm_lock(&r->lock);
    for (struct tcm_dlist *l = r->live.next; l != &r->live; l = l->next) {
        struct mtr_thread_record *t =
            TCM_CONTAINER_OF(l, struct mtr_thread_record, cold.link);
        if (t->cold.session != rec->session)
            continue;
        tcm_lock(&rec->pool.lock);
        tail = list_uncounted(tail, t->cold.buffer);
        tcm_unlock(&rec->pool.lock);
    }
    tcm_unlock(&r->lock);
    tcm_lock(&rec->pool.lock);
    for (struct mtr_buffer *b = rec->pool.full_head; b != NULL; b = b->next)
        tail = list_uncounted(tail, b);
    tcm_unlock(&rec->pool.lock);
    for (struct mtr_buffer *b = s->written_head; b != NULL; b = b->next)
        tail = list_uncounted(tail, b);
    for (struct mtr_buffer *b = list; b != NULL; b = b->next_seen) {
        count(s, b, false);
        b->in_round = false;
    }
}

static bool write_notices(struct mtr_saver *s, uint64_t now) {
    struct mtr_recorder *rec = s->rec;
    if (rec->spool.notice_due) {
        rec->spool.notice_due = false;
        if (!mtf_raw_write_notice(&s->writer, now, MTF_NOTICE_NO_SPOOL,
                                  "buffers are in private memory"))
            return false;
    }
    return true;
}

/* Begins the next part of a flight recording. Threads go on in new buffers, so
   that few buffers are repeated in it. */
static bool begin_part(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    if (!mtf_raw_writer_end_frame(&s->writer) ||
        !mtr_output_next_part(&s->output))
        return false;
    size_t n = mtr_build_header(rec, s->texts.part_header, &s->output.part,
                                s->writer.raw_bytes);
    if (!mtf_raw_write_part(&s->writer, s->texts.part_header, n) ||
        !mtr_output_place(&s->output))
        return false;
    if (mts_settings.mode != MTS_NO_SITES) {
        /* The frame ends here, so that the output has all definitions. */
        if (!mts_write_all(&s->writer, mtr_clock_ns()) ||
            !mtf_raw_writer_end_frame(&s->writer))
            return false;
        mtr_output_sites_defined(&s->output);
    }
    tcm_lock(&rec->pool.lock);
    tcm_store_relaxed(&rec->pool.renewal, rec->pool.renewal + 1);
    tcm_unlock(&rec->pool.lock);
    tcm_fence_seq_cst();
    mtr_registry_clear_limits(rec);
    TCM_TESTPOINT("part_begun");
    return true;
}

/* The fence keeps the looks at positions behind the reading of the clock. */
bool mtr_saver_make_round(struct mtr_saver *s, bool exact) {
    uint64_t begin = mtr_clock_ns();
    TCM_ASSERT(s->ready && tcm_load_relaxed(&s->rec->link.save_owner) != 0);
    tcm_fence_seq_cst();
    TCM_TESTPOINT("round_began");
    struct mtr_buffer *list = list_unsaved(s->rec, begin);
    uint64_t scanned_ns = mtr_clock_ns();
    bool ok = save_full(s);
    for (struct mtr_buffer *b = list; b != NULL; b = b->next_seen) {
        TCM_ASSERT(b->in_round);
        ok = ok && save(s, b, b->seen, scanned_ns);
        b->time_lo = begin;
        b->in_round = false;
    }
    s->last_round = scanned_ns;
    if (!ok)
        return false;
    s->quiet_rounds = s->dirty ? 0 : s->quiet_rounds + 1;
    if (exact || s->quiet_rounds == 1 ||
        scanned_ns - s->last_sample >= SAMPLE_NS)
        mtr_saver_count(s);
    /* The first quiet round ends in a barrier, too: what the round before it
       saved may have been published after that round's time. */
    if (s->quiet_rounds <= 1) {
        s->rounds++;
        if (!write_notices(s, scanned_ns))
            return false;
        if (scanned_ns - s->last_sample >= SAMPLE_NS &&
            !mtr_saver_write_sample(s, scanned_ns))
            return false;
        if (!mtf_raw_write_barrier(&s->writer, begin))
            return false;
        /* So long as nothing happens, the file can be read to its end. */
        if (s->quiet_rounds != 0 && !mtf_raw_writer_end_frame(&s->writer))
            return false;
        s->dirty = false;
        if (mtr_output_part_is_full(&s->output) && !begin_part(s))
            return false;
        mtr_saver_publish(s);
    }
    mtr_saver_recycle(s);
    TCM_TESTPOINT("round_ended");
    return true;
}
