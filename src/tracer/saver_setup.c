/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The saver's beginning: its thread, its descriptor table, its output.
 */
#include "tracer/saver.h"

#include "base/bits.h"
#include "base/clock.h"
#include "base/os_mem.h"
#include "base/os_thread.h"
#include "tracer/saver_state.h"
#include "tracer/trace_clock.h"
#include "tracer/trace_name.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1u << 1)
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* Between looks whether a FIFO has a reader. */
#define FIFO_LOOK_NS 10000000u

static bool close_all_but(int keep) {
    unsigned k = (unsigned)keep;
    if (keep < 0)
        return syscall(SYS_close_range, 0u, ~0u, CLOSE_RANGE_UNSHARE) == 0;
    if (syscall(SYS_close_range, k + 1, ~0u, CLOSE_RANGE_UNSHARE) != 0)
        return false;
    if (k != 0)
        syscall(SYS_close_range, 0u, k - 1, 0u);
    return true;
}

/* A last message of whatever code on this thread must not go into the trace, so
   0 to 2 are taken. */
bool mtr_unshare_table(int keep) {
    if (!close_all_but(keep))
        return false;
    for (;;) {
        long fd = syscall(SYS_openat, AT_FDCWD, "/", O_PATH | O_CLOEXEC, 0);
        if (fd > 2)
            syscall(SYS_close, fd);
        if (fd < 0 || fd > 2)
            return true;
    }
}

/* N of /dev/fd/N and its like; -1: none. */
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

/* /dev/fd/N shows the descriptors of the first thread, so it can be opened
   from here too; a socket cannot, and is used as it is. */
static bool open_fd(struct mtr_saver *s, int keep) {
    if (mtr_output_open(&s->output)) {
        if (s->output.own_table && keep >= 0)
            syscall(SYS_close, keep);
        return true;
    }
    if (s->output.error != ENXIO || keep < 0)
        return false;
    s->output.fd = s->output.own_table ? keep : fcntl(keep, F_DUPFD_CLOEXEC, 3);
    s->output.error = 0;
    return s->output.fd >= 0;
}

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
    s->writer.begun = mtr_spool_begun(rec);
    if (!mtf_raw_write_header(&s->writer, header, header_length) ||
        !mtf_raw_writer_end_frame(&s->writer) || !mtr_output_place(&s->output))
        return false;
    if (s->shares_table &&
        !mtf_raw_write_notice(&s->writer, mtr_clock_ns(),
                              MTF_NOTICE_NO_SAVER_TABLE,
                              "the descriptor table is shared"))
        return false;
    s->ready = true;
    return true;
}

void mtr_saver_begin(struct mtr_saver *s, struct mtr_recorder *rec) {
    memset(s, 0, offsetof(struct mtr_saver, texts));
    s->rec = rec;
    s->statm.fd = -1;
    s->cpu_from = tcm_clock_thread_cpu_ns();
    s->output.rec = rec;
    s->output.fd = -1;
    s->output.kind = rec->kind;
}

bool mtr_saver_set_up_here(struct mtr_saver *s) {
    if (!mtr_output_open(&s->output))
        return false;
    mtr_statm_open(&s->statm);
    return begin_trace(s);
}

/* Not among the program's descriptors, which it may close and use again. */
static void hold_statm(struct mtr_saver *s) {
    if (s->output.own_table)
        mtr_statm_open(&s->statm);
}

bool mtr_saver_resume(struct mtr_saver *s) {
    s->cpu_from = tcm_clock_thread_cpu_ns() - s->cpu_from;
    hold_statm(s);
    /* As below. */
    if (s->output.own_table)
        mtr_folder_hold(s->rec);
    return mtr_output_reopen(&s->output);
}

bool mtr_saver_take_over(struct mtr_saver *s) {
    s->output.own_table = mtr_unshare_table(-1);
    return mtr_saver_resume(s);
}

/* Spool, buffers, output. What fails here fails the start. */
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
    /* The program may change its root, or its rights. */
    if (is_file && s->output.own_table)
        mtr_folder_hold(rec);
    if (is_file && !rec->spool.exists) {
        s->made_spool = mtr_spool_create(rec);
        rec->spool.notice_due = !s->made_spool;
    }
    if (!rec->spool.exists)
        rec->spool.is_private = true;
    mtr_saver_keep_ready(rec);
    if (s->output.kind == MTR_OUTPUT_FIFO)
        return true;
    if (s->output.kind == MTR_OUTPUT_FD ? !open_fd(s, keep)
                                        : !mtr_output_open(&s->output))
        return false;
    return begin_trace(s);
}

/* A FIFO whose reader comes late: meanwhile threads fill the buffers. */
bool mtr_saver_wait_for_reader(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    uint64_t give_up = UINT64_MAX;
    for (;;) {
        uint32_t seq = tcm_load_acquire(&rec->link.wake);
        if (!mtr_output_open(&s->output))
            return false;
        if (s->output.fd >= 0)
            return begin_trace(s);
        mtr_saver_keep_ready(rec);
        if ((tcm_load_acquire(&rec->link.finish) != 0 ||
             tcm_load_acquire(&rec->link.stop) != 0) &&
            give_up == UINT64_MAX)
            give_up = tcm_clock_ns() + MTR_READER_WAIT_NS;
        if (tcm_clock_ns() >= give_up || mtr_own_are_alone(rec, &s->statm)) {
            s->output.error = ENXIO;
            return false;
        }
        tcm_futex_wait(&rec->link.wake, seq, FIFO_LOOK_NS);
    }
}

bool mtr_saver_create(struct mtr_recorder *rec, int *error) {
    /* Of the recording before, if that ended by itself. */
    mtr_own_join(&rec->saver_thread);
    return mtr_own_create(&rec->saver_thread, mtr_saver_main, rec, error);
}
