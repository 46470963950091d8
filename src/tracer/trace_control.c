/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Start, stop, flush and marks. Start and stop exclude each other and wait for
 * the saver, which is created for each recording and gone when its stop
 * returns. They use no lock that fork takes, because they wait for files; the
 * child of a fork finds `busy` zeroed.
 *
 * Threads: any. A thread that records goes on while the recording ends and the
 * next one begins; the session in its record (recorder.h) says which of the two
 * the buffer it holds belongs to.
 */
#include "tracer/trace_control.h"

#include "base/check.h"
#include "base/linux/os_thread.h"
#include "base/testpoint.h"
#include "tracer/own_thread.h"
#include "tracer/recorder.h"
#include "tracer/saver/saver.h"
#include "tracer/session.h"
#include "tracer/stream/thread_life.h"
#include "tracer/trace_clock.h"
#include "tracer/trace_process.h"

#include <errno.h>
#include <string.h>

/* Bytes of a mark besides its text: its head, and a time in several events. */
#define MARK_EXTRA 48u
/* How long a flush waits for a saver that is being created: the creating thread
   may wait for a lock of the C library that the caller of the flush holds. */
#define SAVER_WAIT_NS 5000000000u

/* --- One at a time ------------------------------------------------------- */

void mtr_busy_begin(struct mtr_recorder *rec) {
    uint32_t expected = 0;
    if (tcm_cas_acquire(&rec->busy, &expected, 1u))
        return;
    while (tcm_swap_acquire(&rec->busy, 2u) != 0)
        tcm_futex_wait(&rec->busy, 2, UINT64_MAX);
}

void mtr_busy_end(struct mtr_recorder *rec) {
    TCM_ASSERT(tcm_load_relaxed(&rec->busy) != 0);
    if (tcm_swap_release(&rec->busy, 0u) == 2)
        tcm_futex_wake(&rec->busy, 1);
}

/* The state after STARTING: waits for a thread that begins a recording with its
   first event. */
static uint32_t state_after_start(struct mtr_recorder *rec) {
    uint32_t state;
    while ((state = tcm_load_acquire(&rec->state)) == MTR_STARTING)
        tcm_futex_wait(&rec->state, MTR_STARTING, UINT64_MAX);
    return state;
}

/* --- Start --------------------------------------------------------------- */

/* Sets the pattern of the recording from PATH or the environment. false: the
   environment names no output for this process. */
static bool take_pattern(struct mtr_recorder *rec, const char *path) {
    const struct mtr_config *c = &mtr_config;
    rec->pattern[0] = '\0';
    if (path == NULL)
        return c->named && (c->per_process || c->named_pid == tcm_os_pid());
    if (path[0] == '\0')
        return false;
    rec->pattern_error =
        mtr_process_pattern(path, rec->pattern, &rec->pattern_per_process);
    return true;
}

static bool start(struct mtr_recorder *rec, const char *path) {
    if (rec->exited || mtr_state_is_on(state_after_start(rec)))
        return false;
    mtr_saver_await_end(rec, UINT64_MAX);
    mtr_summary_flush(rec);
    if (!take_pattern(rec, path))
        return false;
    tcm_store_release(&rec->state, (uint32_t)MTR_STARTING);
    bool ok = mtr_begin_recording(rec);
    if (ok) {
        mtr_config.wanted = path == NULL;
        TCM_TESTPOINT("start_is_ready");
        /* A thread that sees its cache shut also sees these stores
           (recording.h). */
        tcm_store_seq_cst(&mtr_control, &rec->control);
        tcm_store_seq_cst(&rec->control.recording, 1u);
        TCM_TESTPOINT("recording_begins");
        mtr_config.host->recording_started();
    } else {
        mtr_message_flush(rec);
    }
    return ok;
}

bool mtr_start(const char *path) {
    struct mtr_recorder *rec = mtr_recorder_get();
    if (rec == NULL || mtr_is_inside(mtr_frame()))
        return false;
    int saved = errno;
    mtr_inside_begin(mtr_frame());
    mtr_busy_begin(rec);
    bool ok = start(rec, path);
    mtr_busy_end(rec);
    mtr_inside_end();
    errno = saved;
    return ok;
}

/* --- Stop, flush --------------------------------------------------------- */

static bool stop(struct mtr_recorder *rec) {
    uint32_t state = state_after_start(rec);
    if (!mtr_state_is_on(state))
        return false;
    mtr_config.wanted = false;
    /* Nothing was recorded yet, and there is no file. */
    if (state == MTR_ARMED &&
        tcm_cas_acq_rel(&rec->state, &state, (uint32_t)MTR_STOPPED)) {
        tcm_store_seq_cst(&rec->control.recording, 0u);
        return true;
    }
    if (state_after_start(rec) != MTR_RUNNING)
        mtr_saver_ensure(rec);
    tcm_store_release(&rec->link.stop, 1u);
    mtr_saver_wake(rec);
    mtr_saver_await_end(rec, UINT64_MAX);
    mtr_own_join(&rec->saver_thread);
    mtr_summary_flush(rec);
    mtr_message_flush(rec);
    return tcm_load_acquire(&rec->state) == MTR_STOPPED;
}

bool mtr_stop(void) {
    struct mtr_recorder *rec = tcm_load_acquire(&mtr_recorder);
    if (rec == NULL || mtr_is_inside(mtr_frame()))
        return false;
    int saved = errno;
    mtr_inside_begin(mtr_frame());
    mtr_busy_begin(rec);
    bool ok = stop(rec);
    mtr_busy_end(rec);
    mtr_inside_end();
    errno = saved;
    return ok;
}

/* The round is awaited outside of the busy section: a reader that holds it up
   must not keep the program from its end. */
static bool flush(struct mtr_recorder *rec) {
    mtr_busy_begin(rec);
    uint32_t state = state_after_start(rec);
    if (state == MTR_LAZY && !mtr_saver_await(rec, SAVER_WAIT_NS))
        state = MTR_FAILED;
    mtr_busy_end(rec);
    if (state == MTR_ARMED)
        return true;
    if (!mtr_state_is_on(state))
        return false;
    if (mtr_saver_round(rec))
        return true;
    /* The recording ended meanwhile; if a stop ended it, everything is in the
       file when the stop is done. */
    mtr_busy_begin(rec);
    state = tcm_load_acquire(&rec->state);
    mtr_busy_end(rec);
    return state != MTR_FAILED;
}

bool mtr_flush(void) {
    struct mtr_recorder *rec = tcm_load_acquire(&mtr_recorder);
    if (rec == NULL || mtr_is_inside(mtr_frame()))
        return false;
    int saved = errno;
    mtr_inside_begin(mtr_frame());
    bool ok = flush(rec);
    mtr_inside_end();
    errno = saved;
    return ok;
}

/* The saver has chosen the name when a flush returns. The name stays for the
   rest of the session, which no start ends in the busy section. */
static bool file(struct mtr_recorder *rec, char *path, size_t size) {
    uint32_t session = tcm_load_acquire(&rec->session);
    while (session != 0) {
        if (mtr_state_is_on(state_after_start(rec)) && !flush(rec))
            return false;
        mtr_busy_begin(rec);
        uint32_t flushed = session;
        session = tcm_load_relaxed(&rec->session);
        size_t n = strlen(rec->name);
        bool same = session == flushed;
        bool ok = same && rec->kind == MTR_OUTPUT_FILE && n != 0 && n < size;
        if (ok)
            memcpy(path, rec->name, n + 1);
        mtr_busy_end(rec);
        if (same)
            return ok;
    }
    return false;
}

bool mtr_file(char *path, size_t size) {
    struct mtr_recorder *rec = tcm_load_acquire(&mtr_recorder);
    if (rec == NULL || mtr_is_inside(mtr_frame()))
        return false;
    int saved = errno;
    mtr_inside_begin(mtr_frame());
    bool ok = file(rec, path, size);
    mtr_inside_end();
    errno = saved;
    return ok;
}

bool mtr_is_on(void) {
    return !mtr_is_early() && mtr_is_recording();
}

/* --- Marks --------------------------------------------------------------- */

/* The length of TEXT that fits, without half a character at the end. */
static size_t cut_to_fit(const char *text, size_t length) {
    if (length <= MTF_EXTENDED_MAX)
        return length;
    size_t n = MTF_EXTENDED_MAX;
    while (n > MTF_EXTENDED_MAX - 4 && ((uint8_t)text[n] & 0xC0) == 0x80)
        n--;
    return ((uint8_t)text[n] & 0xC0) == 0x80 ? MTF_EXTENDED_MAX : n;
}

void mtr_put_mark(struct mtr_thread *t, const char *text, size_t length) {
    int saved = errno;
    size_t n = cut_to_fit(text, length);
    TCM_ASSERT(n <= length && n <= MTF_EXTENDED_MAX);
    if (mtr_make_room(mtr_recorder, t, (unsigned)n + MARK_EXTRA)) {
        /* Earlier events of the thread are not later than the mark. */
        tcm_fence_seq_cst();
        mtr_put_time(t, mtr_clock_ns());
        mtr_publish(t, t->pos,
                    mtf_raw_put_bytes(t->pos, MTF_RAW_MARK, text, (unsigned)n));
    } else if (mtr_gap_begin(mtr_recorder, t)) {
        mtr_skip_event(t);
    }
    errno = saved;
}
