/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a recording ends: with the program, by call, at its size, by a failure.
 *
 * Why a stop looks at the threads after it has taken their limits away: what a
 * thread publishes after that look belongs to a call that had begun before, and
 * every call that begins later than such a one finds the recording over. So the
 * trace has no call without those that it depends on.
 */
#include "tracer/saver.h"

#include "base/bits.h"
#include "base/os_mem.h"
#include "base/os_thread.h"
#include "base/testpoint.h"
#include "tracer/saver_state.h"
#include "tracer/trace_clock.h"
#include "tracer/trace_name.h"

/* Events saved one by one after the destructor, before rounds begin again. */
#define END_EVENTS 1000u

/* --- With the program ---------------------------------------------------- */

/* After the last event of the program as we know it. */
bool mtr_saver_enter_end_mode(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    tcm_store_seq_cst(&rec->state, (uint32_t)MTR_ENDED);
    tcm_store_seq_cst(&rec->control.end_mode, 1u);
    mtr_registry_stop_all(rec);
    TCM_TESTPOINT("end_mode");
    if (!mtr_saver_make_round(s) || !mtr_saver_write_footer(s, MTF_END_EXIT))
        return false;
    mtr_saver_summarise(s, MTF_END_EXIT);
    mtr_saver_recycle(s);
    mtr_spool_remove(rec);
    return true;
}

/* Too many events for one round each: a new spool, and rounds as before. */
static bool leave_end_mode(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    if (!mtf_raw_write_notice(&s->writer, mtr_clock_ns(), MTF_NOTICE_END_MODE,
                              "recorded after the library's destructor") ||
        !mtf_raw_writer_end_frame(&s->writer))
        return false;
    mtr_spool_close(rec);
    mtr_spool_tell_saved(rec, s->writer.settled_bytes);
    if (s->output.kind == MTR_OUTPUT_FILE && !rec->spool.is_private &&
        mtr_spool_renew(rec)) {
        s->writer.begun = mtr_spool_begun(rec);
        mtr_pool_new_generation(&rec->pool);
        mtr_saver_keep_ready(rec);
    }
    tcm_store_seq_cst(&rec->state, (uint32_t)MTR_RUNNING);
    tcm_store_seq_cst(&rec->control.end_mode, 0u);
    s->quiet_rounds = 0;
    return true;
}

bool mtr_saver_end_mode_round(struct mtr_saver *s, bool here) {
    struct mtr_recorder *rec = s->rec;
    mtr_output_hold(&s->output);
    bool ok =
        mtr_saver_make_round(s) && mtr_saver_write_footer(s, MTF_END_EXIT);
    if (!mtr_output_release(&s->output) || !ok)
        return false;
    mtr_saver_recycle(s);
    return here || ++rec->link.end_events < END_EVENTS || leave_end_mode(s);
}

/* --- Before the program does --------------------------------------------- */

bool mtr_saver_stop(struct mtr_saver *s, enum mtf_end_reason reason) {
    struct mtr_recorder *rec = s->rec;
    mtr_switch_off(rec, MTR_STOPPED);
    if (!mtr_saver_make_round(s) || !mtr_saver_write_footer(s, reason))
        return false;
    mtr_saver_summarise(s, reason);
    mtr_spool_remove(rec);
    mtr_spool_close(rec);
    s->over = true;
    return true;
}

/* Full buffers that wait will be in the output too, and what can wait shrinks
   with what is left. */
bool mtr_saver_at_limit(struct mtr_saver *s) {
    struct mtr_pool *pool = &s->rec->pool;
    uint64_t limit = mtr_config.limit_bytes;
    uint64_t stored = s->writer.stored_bytes;
    /* A flight recording has its parts. One that is full gets what waits, and
       what comes to wait meanwhile: half its share each. */
    uint64_t left = limit - tcm_min_u64(stored, limit);
    if (s->rec->keeps)
        left = mtr_config.keep_bytes / MTF_PARTS / 2;
    else if (limit == 0)
        return false;
    tcm_lock(&pool->lock);
    pool->bound = tcm_min_u64(left, mtr_config.bound_bytes);
    bool reached = !s->rec->keeps && pool->full_bytes >= left;
    tcm_unlock(&pool->lock);
    return reached;
}

/* The output failed. What it has is closed by a footer if that can be; the
   spool keeps what it has not. */
void mtr_saver_give_up(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    mtr_fail(rec, "recording stopped, cannot write to", s->output.error);
    if (s->ready && s->output.kind == MTR_OUTPUT_FILE) {
        s->output.footer = true;
        if (mtr_output_take_back(&s->output,
                                 mtf_raw_writer_excess(&s->writer)) &&
            mtf_raw_writer_go_back(&s->writer))
            mtr_saver_write_footer(s, MTF_END_FORCED);
    }
    mtr_saver_summarise(s, MTF_END_FORCED);
}

static void close_all(struct mtr_saver *s) {
    mtr_output_close(&s->output);
    mtr_statm_close(&s->statm);
    mtr_folder_let_go(s->rec);
}

void mtr_saver_rest(struct mtr_saver *s) {
    close_all(s);
    /* What was spent, for the next thread to count on from. */
    s->cpu_from = mtr_saver_cpu_ns(s);
}

void mtr_saver_leave(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    mtr_spool_unlock(rec);
    mtr_spool_close(rec);
    close_all(s);
    mtr_pool_close(&rec->pool);
    mtr_pool_notify(&rec->pool);
    if (s->memory != NULL)
        tcm_os_unmap(s->memory, s->memory_bytes);
    /* Publishes the end of all of it to the next start, and the summary. */
    tcm_store_release(&rec->link.started, 0u);
    tcm_futex_wake(&rec->link.started, INT32_MAX);
    TCM_TESTPOINT("saver_left");
}
