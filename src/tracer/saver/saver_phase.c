/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the saver begins and ends a recording: with the program, by call, at its
 * limit, by a failure.
 *
 * Why a stop clears the limits of threads before it looks at them: what a
 * thread publishes after the look belongs to a call that began before it, and
 * calls that begin later find the recording over. So the trace has no call
 * without those that it depends on.
 */
#include "tracer/saver/saver.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_process.h"
#include "base/linux/os_syscall.h"
#include "base/linux/os_thread.h"
#include "base/linux/os_file.h"
#include "tracer/saver/saver_parts.h"
#include "sites/lang/lang.h"
#include "sites/site_settings.h"
#include "tracer/trace_clock.h"
#include "tracer/trace_name.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Time between attempts to open a FIFO that has no reader. */
#define FIFO_POLL_NS 10000000u

/* Events that end mode saves one by one before rounds begin again. */
#define END_EVENTS 1000u

/* --- Descriptors --------------------------------------------------------- */

/* N of /dev/fd/N and similar names; -1: none. */
static int fd_of_name(const char *path) {
    if (strcmp(path, "/dev/stdout") == 0)
        return 1;
    if (strcmp(path, "/dev/stderr") == 0)
        return 2;
    const char *p = strrchr(path, '/') + 1;
    int n = 0;
    if (*p == '\0')
        return -1;
    for (; *p >= '0' && *p <= '9' && n < 1 << 20; p++)
        n = n * 10 + (*p - '0');
    return *p == '\0' ? n : -1;
}

/* Opens /dev/fd/N, which names the descriptors of the first thread, so that it
   can be opened from this table, too. A socket cannot, and is used as it is
   (KEEP). */
static bool open_fd(struct mtr_saver *s, int keep) {
    if (mtr_output_open(&s->output)) {
        if (s->output.own_table && keep >= 0)
            tcm_syscall(SYS_close, keep);
        return true;
    }
    if (s->output.error != ENXIO || keep < 0)
        return false;
    s->output.error = 0;
    return mtr_output_use(&s->output,
                          s->output.own_table
                              ? keep
                              : (int)tcm_call(fcntl, keep, F_DUPFD_CLOEXEC, 3));
}

/* --- Beginning ----------------------------------------------------------- */

static bool begin_trace(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    if (mtr_config.compress) {
        s->memory_bytes =
            tcm_align_up(MTF_RAW_WRITER_MEMORY, tcm_os_page_size());
        s->memory = tcm_os_map(s->memory_bytes);
        if (s->memory == NULL) {
            s->output.error = ENOMEM;
            return false;
        }
        tcm_os_dont_fork(s->memory, s->memory_bytes);
    }
    TCM_ASSERT(!s->ready && s->output.fd >= 0);
    TCM_ASSERT(rec->header_length != 0);
    const uint8_t *header = rec->header;
    size_t header_length = rec->header_length;
    if (rec->keeps) {
        header = s->texts.part_header;
        header_length =
            mtr_build_header(rec, s->texts.part_header, &s->output.part, 0);
    }
    if (!mtf_raw_writer_init(&s->writer, mtr_output_write, &s->output,
                             s->memory,
                             s->memory == NULL ? 0 : MTF_RAW_WRITER_MEMORY))
        return false;
    s->writer.begun = mtr_spool_begun_word(rec);
    if (!mtf_raw_write_header(&s->writer, header, header_length) ||
        !mtf_raw_writer_end_frame(&s->writer) || !mtr_output_place(&s->output))
        return false;
    if (s->shares_table &&
        !mtf_raw_write_notice(&s->writer, mtr_clock_ns(),
                              MTF_NOTICE_NO_SAVER_TABLE,
                              "the descriptor table is shared"))
        return false;
    if (mts_settings.mode == MTS_LINES && mts_lang_notice() != NULL &&
        !mtf_raw_write_notice(&s->writer, mtr_clock_ns(), MTF_NOTICE_NO_LINES,
                              mts_lang_notice()))
        return false;
    s->ready = true;
    return true;
}

void mtr_saver_begin(struct mtr_saver *s, struct mtr_recorder *rec) {
    memset(s, 0, offsetof(struct mtr_saver, texts));
    s->rec = rec;
    s->statm.fd = -1;
    s->status_fd = -1;
    s->cpu_from = tcm_clock_thread_cpu_ns();
    s->output.rec = rec;
    s->output.fd = -1;
    s->output.kind = rec->kind;
}

bool mtr_saver_set_up_here(struct mtr_saver *s) {
    if (!mtr_output_open(&s->output))
        return false;
    tcm_statm_open(&s->statm);
    s->may_open = true;
    return begin_trace(s);
}

/* Number of filters of system calls on the thread that opened FD; UINT64_MAX:
   unknown. */
static uint64_t count_filters(int fd) {
    static const char field[] = "Seccomp_filters:\t";
    char text[2048];
    long n =
        fd < 0 ? -1 : tcm_syscall(SYS_pread64, fd, text, sizeof(text) - 1, 0L);
    if (n <= 0)
        return UINT64_MAX;
    text[n] = '\0';
    const char *p = strstr(text, field);
    if (p == NULL)
        return UINT64_MAX;
    uint64_t count = 0;
    for (p += sizeof(field) - 1; *p >= '0' && *p <= '9'; p++)
        count = count * 10 + (uint64_t)(*p - '0');
    return count;
}

/* Opens files of /proc, but not among the program's descriptors, which it may
   close and use again. */
static void hold_statm(struct mtr_saver *s) {
    if (!s->output.own_table)
        return;
    tcm_statm_open(&s->statm);
    s->status_fd =
        (int)tcm_syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/status",
                         O_RDONLY | O_CLOEXEC, 0);
    s->filters = count_filters(s->status_fd);
}

bool mtr_saver_resume(struct mtr_saver *s) {
    s->cpu_from = tcm_clock_thread_cpu_ns() - s->cpu_from;
    hold_statm(s);
    /* Kept open, because the program may change its root or its rights. */
    if (s->output.own_table)
        mtr_folder_keep_open(s->rec);
    return mtr_output_reopen(&s->output);
}

bool mtr_saver_take_over(struct mtr_saver *s) {
    s->output.own_table = mtr_unshare_table(-1);
    return mtr_saver_resume(s);
}

bool mtr_saver_set_up(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    int keep = s->output.kind == MTR_OUTPUT_FD ? fd_of_name(rec->output) : -1;
    s->output.own_table = mtr_unshare_table(keep);
    s->shares_table = !s->output.own_table;
    if (rec->kind == MTR_OUTPUT_UNKNOWN) {
        s->output.error = mtr_name_resolve(rec);
        s->output.kind = rec->kind;
        if (s->output.error != 0)
            return false;
    }
    hold_statm(s);
    bool is_file = s->output.kind == MTR_OUTPUT_FILE;
    /* Kept open, because the program may change its root or its rights. */
    if (is_file && s->output.own_table)
        mtr_folder_keep_open(rec);
    if (is_file && !rec->spool.exists) {
        s->made_spool = mtr_spool_create(rec);
        rec->spool.notice_due = !s->made_spool;
    }
    if (!rec->spool.exists)
        rec->spool.is_private = true;
    mtr_spool_keep_ready(rec);
    if (s->output.kind == MTR_OUTPUT_FIFO)
        return true;
    if (s->output.kind == MTR_OUTPUT_FD ? !open_fd(s, keep)
                                        : !mtr_output_open(&s->output))
        return false;
    return begin_trace(s);
}

bool mtr_saver_wait_for_reader(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    uint64_t give_up = UINT64_MAX;
    for (;;) {
        uint32_t seq = tcm_load_acquire(&rec->link.wake);
        if (!mtr_output_open(&s->output))
            return false;
        if (s->output.fd >= 0)
            return begin_trace(s);
        mtr_spool_keep_ready(rec);
        if ((tcm_load_acquire(&rec->link.finish) != 0 ||
             tcm_load_acquire(&rec->link.stop) != 0) &&
            give_up == UINT64_MAX)
            give_up = tcm_clock_ns() + MTR_READER_WAIT_NS;
        if (tcm_clock_ns() >= give_up || mtr_own_are_last(rec, &s->statm)) {
            s->output.error = ENXIO;
            return false;
        }
        tcm_futex_wait(&rec->link.wake, seq, FIFO_POLL_NS);
    }
}

/* --- Calls in flight ------------------------------------------------------ */

/*
 * Calls in flight. A call on the fast path reads its limit, and publishes its
 * event some instructions later: perhaps after the end has cleared the limit
 * and looked at the thread, so that the event of a call that returned would be
 * missed. So the end waits until each thread has left that code: it slept,
 * which no thread does there, or got enough processor time to be through. The
 * same holds at the end of a slow path, between its event and its load of
 * end_mode: after the wait, that load sees our store, or the event was
 * published before our look (sleeps and interrupts are full barriers).
 *
 * The wait for a thread that gets no processor, or waits for a page, ends after
 * FLIGHT_NS_MAX; the trace is then not marked as complete.
 */
#define FLIGHT_CPU_NS 3000000u
/* If the saver has got a filter of system calls, and may open nothing: a thread
   whose processor time stands still this long counts as asleep. */
#define STILL_NS       10000000u
#define FLIGHT_NS_MAX  1000000000u
#define FLIGHT_POLL_NS 200000u
#define FLIGHT_OVER    UINT64_MAX

/* How threads are checked. */
struct flight {
    const int *self; /* errno of the thread that exits */
    bool first;      /* this is the first check */
    bool may_open;   /* files of /proc may be opened */
    uint64_t since;  /* time of the first check */
};

/* True if T may still have a call in flight. */
static bool is_in_flight(struct mtr_thread_cold *t, const struct flight *f) {
    uint64_t now;
    if (f->first)
        t->stopped_cpu_ns = t->tid == 0 || t->self == f->self ||
                                    !tcm_os_thread_cpu_ns(t->tid, &now)
                                ? FLIGHT_OVER
                                : now;
    if (t->stopped_cpu_ns == FLIGHT_OVER)
        return false;
    bool is_over = !tcm_os_thread_cpu_ns(t->tid, &now) ||
                   now - t->stopped_cpu_ns >= FLIGHT_CPU_NS;
    if (!is_over && f->may_open)
        is_over = tcm_os_thread_is_asleep(t->tid);
    else if (!is_over)
        is_over =
            now == t->stopped_cpu_ns && tcm_clock_ns() - f->since >= STILL_NS;
    if (is_over)
        t->stopped_cpu_ns = FLIGHT_OVER;
    return !is_over;
}

static bool any_in_flight(struct mtr_recorder *rec, const struct flight *f) {
    struct mtr_registry *r = &rec->registry;
    bool any = false;
    tcm_lock(&r->lock);
    for (struct tcm_dlist *l = r->live.next; l != &r->live; l = l->next) {
        struct mtr_thread_cold *t =
            TCM_CONTAINER_OF(l, struct mtr_thread_cold, link);
        if (t->session == tcm_load_relaxed(&rec->session) && is_in_flight(t, f))
            any = true;
    }
    tcm_unlock(&r->lock);
    return any;
}

/* Waits until no call is in flight, FLIGHT_NS_MAX at most. Threads that
   register later have found the cleared limit; waiting for them as well does no
   harm. */
static void await_calls_in_flight(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    struct flight f = {
        .self = rec->exit_self != NULL ? rec->exit_self : &errno,
        .first = true,
        .may_open = s->may_open || (s->filters != UINT64_MAX &&
                                    count_filters(s->status_fd) == s->filters),
        .since = tcm_clock_ns(),
    };
    uint32_t never = 0;
    tcm_fence_seq_cst();
    if (!any_in_flight(rec, &f))
        return;
    f.first = false;
    do {
        if (tcm_clock_ns() - f.since >= FLIGHT_NS_MAX) {
            mtr_registry_count_dropped(rec, 1);
            return;
        }
        tcm_futex_wait(&never, 0, FLIGHT_POLL_NS);
    } while (any_in_flight(rec, &f));
}

/* --- With the program ---------------------------------------------------- */

/* Enters end mode after the last event of the program so far. */
bool mtr_saver_enter_end_mode(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    TCM_ASSERT(s->ready);
    tcm_store_seq_cst(&rec->state, (uint32_t)MTR_ENDED);
    tcm_store_seq_cst(&rec->control.end_mode, 1u);
    mtr_registry_clear_limits(rec);
    TCM_TESTPOINT("end_mode");
    await_calls_in_flight(s);
    if (!mtr_saver_make_round(s, true) || !mtr_saver_write_present(s) ||
        !mtr_saver_write_footer(s, MTF_END_EXIT))
        return false;
    mtr_saver_summarise(s, MTF_END_EXIT);
    mtr_saver_recycle(s);
    mtr_spool_remove(rec);
    return true;
}

/* Leaves end mode after too many events for one round each: a new spool, and
   rounds as before. */
static bool leave_end_mode(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    mtr_spool_close(rec);
    mtr_spool_store_saved(rec, s->writer.settled_bytes);
    if (s->output.kind == MTR_OUTPUT_FILE && !rec->spool.is_private &&
        mtr_spool_renew(rec)) {
        s->writer.begun = mtr_spool_begun_word(rec);
        mtr_pool_new_generation(&rec->pool);
        mtr_spool_keep_ready(rec);
    }
    /* The notice withdraws the footer, so the spool is there before it. */
    if (!mtf_raw_write_notice(&s->writer, mtr_clock_ns(), MTF_NOTICE_END_MODE,
                              "recorded after the library's destructor") ||
        !mtf_raw_writer_end_frame(&s->writer))
        return false;
    tcm_store_seq_cst(&rec->state, (uint32_t)MTR_RUNNING);
    tcm_store_seq_cst(&rec->control.end_mode, 0u);
    s->quiet_rounds = 0;
    return true;
}

bool mtr_saver_end_mode_round(struct mtr_saver *s, bool here) {
    struct mtr_recorder *rec = s->rec;
    TCM_ASSERT(s->ready && s->output.held_bytes == 0);
    mtr_output_hold(&s->output);
    bool ok = mtr_saver_make_round(s, true) &&
              mtr_saver_write_footer(s, MTF_END_EXIT);
    if (!mtr_output_release(&s->output) || !ok)
        return false;
    mtr_saver_recycle(s);
    return here || ++rec->link.end_events < END_EVENTS || leave_end_mode(s);
}

/* --- Before the program does --------------------------------------------- */

void mtr_fail(struct mtr_recorder *rec, const char *problem, int error) {
    const char *name = rec->name[0] != '\0' ? rec->name : rec->output;
    size_t n = mtr_format_message(rec->message, sizeof(rec->message), problem,
                                  name, error);
    mtr_config.wanted = false;
    mtr_spool_mark_stopped(rec);
    tcm_store_release(&rec->message_length, (uint32_t)n);
    mtr_switch_off(rec, MTR_FAILED);
    TCM_TESTPOINT("recording_failed");
}

void mtr_saver_answer(struct mtr_recorder *rec) {
    tcm_add_acq_rel(&rec->link.answers, 1u);
    tcm_futex_wake(&rec->link.answers, INT32_MAX);
}

void mtr_switch_off(struct mtr_recorder *rec, enum mtr_state state) {
    TCM_ASSERT(state == MTR_STOPPED || state == MTR_FAILED);
    /* Seen by threads that read the flag after they put their cache back, and
       then by threads that wait. */
    tcm_store_seq_cst(&rec->control.recording, 0u);
    tcm_store_seq_cst(&rec->control.end_mode, 0u);
    tcm_store_seq_cst(&rec->state, (uint32_t)state);
    mtr_registry_clear_limits(rec);
    /* The limits are cleared before any position is looked at for the last
       time: a call that begins after a call that the trace lacks is missing,
       too. */
    tcm_fence_seq_cst();
    mtr_pool_notify_all(&rec->pool);
    tcm_futex_wake(&rec->state, INT32_MAX);
    mtr_saver_answer(rec);
    TCM_TESTPOINT("switched_off");
}

/* Saves what there is after the recording was switched off. */
static bool finish(struct mtr_saver *s, enum mtf_end_reason reason) {
    struct mtr_recorder *rec = s->rec;
    if (!mtr_saver_make_round(s, true) || !mtr_saver_write_present(s) ||
        !mtr_saver_write_footer(s, reason))
        return false;
    mtr_saver_summarise(s, reason);
    mtr_spool_remove(rec);
    mtr_spool_close(rec);
    s->over = true;
    return true;
}

bool mtr_saver_stop(struct mtr_saver *s, enum mtf_end_reason reason) {
    mtr_switch_off(s->rec, MTR_STOPPED);
    return finish(s, reason);
}

bool mtr_saver_stop_starved(struct mtr_saver *s) {
    mtr_fail(s->rec, "recording stopped, no memory for buffers to record to",
             ENOMEM);
    return finish(s, MTF_END_FORCED);
}

/* Full buffers that wait will be in the output, too; the bound on them shrinks
   with what is left. */
bool mtr_saver_at_limit(struct mtr_saver *s) {
    struct mtr_pool *pool = &s->rec->pool;
    uint64_t limit = mtr_config.limit_bytes;
    uint64_t stored = s->writer.stored_bytes;
    /* A flight recording ends its parts instead. A full part still gets the
       buffers that wait, and those that come to wait meanwhile: half its share
       each. */
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

/* Ends the recording because the output failed. A footer closes the output, if
   possible; the spool keeps what the output lacks. */
void mtr_saver_give_up(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    mtr_fail(rec, "recording stopped, cannot write to", s->output.error);
    mtr_saver_count(s);
    if (s->ready && s->output.kind == MTR_OUTPUT_FILE) {
        s->output.footer = true;
        if (mtr_output_truncate(&s->output,
                                mtf_raw_writer_excess(&s->writer)) &&
            mtf_raw_writer_go_back(&s->writer))
            mtr_saver_write_footer(s, MTF_END_FORCED);
    }
    mtr_saver_summarise(s, MTF_END_FORCED);
}

static void close_all(struct mtr_saver *s) {
    mtr_output_close(&s->output);
    tcm_statm_close(&s->statm);
    if (s->status_fd >= 0)
        tcm_syscall(SYS_close, s->status_fd);
    s->status_fd = -1;
    mtr_folder_release(s->rec);
}

void mtr_saver_suspend(struct mtr_saver *s) {
    close_all(s);
    /* The processor time so far, from which the next thread goes on
       counting. */
    s->cpu_from = mtr_saver_cpu_ns(s);
}

void mtr_saver_close(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    TCM_ASSERT(!mtr_state_is_on(tcm_load_relaxed(&rec->state)));
    mtr_spool_unlock(rec);
    mtr_spool_close(rec);
    close_all(s);
    mtr_pool_close(&rec->pool);
    mtr_pool_notify_all(&rec->pool);
    if (s->memory != NULL)
        tcm_os_unmap(s->memory, s->memory_bytes);
}
