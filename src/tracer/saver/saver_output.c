/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/saver/saver_parts.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_file.h"
#include "base/linux/os_syscall.h"
#include "tracer/trace_name.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Time between checks of the buffers while a reader stalls. */
#define READER_POLL_NS 1000000u

/* Appended to, so that a write to a file that was cut meanwhile leaves no hole,
   and no later length hides the cut. */
#define FILE_FLAGS (O_WRONLY | O_APPEND)

/* Removes a file that has not got its name. */
static void drop_temporary(struct mtr_output *out) {
    if (out->temp != NULL && out->fd >= 0)
        mtr_folder_remove(out->rec, out->temp);
    out->temp = NULL;
}

/* Keeps the error and removes the temporary file at once: the program goes on
   when it learns of the failure, and may exec before the saver has left. */
static bool failed(struct mtr_output *out) {
    out->error = errno == 0 ? EIO : errno;
    drop_temporary(out);
    return false;
}

static bool open_file(struct mtr_output *out) {
    out->temp = mtr_name_temporary(out->rec);
    if (out->temp == NULL) {
        errno = ENAMETOOLONG;
        return false;
    }
    int folder = mtr_folder(out->rec);
    if (folder < 0)
        return false;
    out->fd = tcm_file_make_own(folder, out->temp, FILE_FLAGS);
    mtr_folder_close(out->rec, folder);
    return out->fd >= 0;
}

/* Opened without waiting, so that the saver can make buffers until a reader
   comes. */
static bool open_fifo(struct mtr_output *out) {
    out->fd = mtr_name_open_output(out->rec, O_WRONLY | O_NONBLOCK);
    if (out->fd < 0)
        return errno == ENXIO || errno == EINTR;
    long flags = tcm_call(fcntl, out->fd, F_GETFL);
    return flags >= 0 &&
           tcm_call(fcntl, out->fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

bool mtr_output_use(struct mtr_output *out, int fd) {
    struct stat st;
    out->fd = fd;
    if (fd < 0 || tcm_fstat(fd, &st) != 0)
        return failed(out);
    out->dev = st.st_dev;
    out->ino = st.st_ino;
    return true;
}

bool mtr_output_open(struct mtr_output *out) {
    bool ok;
    TCM_ASSERT(out->fd < 0 && out->temp == NULL);
    errno = 0;
    switch (out->kind) {
    case MTR_OUTPUT_FILE:
        ok = open_file(out);
        break;
    case MTR_OUTPUT_FIFO:
        ok = open_fifo(out);
        break;
    default:
        out->fd = mtr_name_open_output(out->rec, O_WRONLY | O_NOCTTY);
        ok = out->fd >= 0;
    }
    if (!ok)
        return failed(out);
    return out->fd < 0 || mtr_output_use(out, out->fd);
}

bool mtr_output_place(struct mtr_output *out) {
    if (out->temp == NULL)
        return true;
    if (out->rec->keeps ? !mtr_name_place_part(out->rec, out->temp, out->part)
                        : !mtr_name_place_output(out->rec, out->temp)) {
        return failed(out);
    }
    out->temp = NULL;
    return true;
}

void mtr_output_sites_defined(struct mtr_output *out) {
    out->defined = out->position;
}

/* The size at which a part is full. At most half of it is definitions of call
   sites, which are written again in each part and tell nothing about the kept
   time. */
static uint64_t part_share(const struct mtr_output *out) {
    return tcm_max_u64(mtr_config.keep_bytes / MTF_PARTS, 2 * out->defined);
}

bool mtr_output_part_is_full(const struct mtr_output *out) {
    return out->rec->keeps && out->position >= part_share(out);
}

static bool write_held(struct mtr_output *out);

bool mtr_output_next_part(struct mtr_output *out) {
    TCM_ASSERT(out->rec->keeps);
    if (!write_held(out))
        return false;
    out->part_bytes[out->part % MTF_PARTS] = out->position;
    mtr_output_close(out);
    out->part++;
    /* Threads that write while a part ends make it larger than its share; the
       next part may grow as much. */
    out->largest = tcm_max_u64(out->largest, out->position);
    uint64_t kept = tcm_max_u64(out->largest, part_share(out));
    /* Room for two parts at least, whatever their definitions take. */
    uint64_t most = mtr_config.keep_bytes + 4 * out->defined;
    /* Keep parts from the newest back as long as there is room. */
    for (uint32_t age = 1; age <= MTF_PARTS && age <= out->part; age++) {
        uint64_t *bytes = &out->part_bytes[(out->part - age) % MTF_PARTS];
        kept += *bytes;
        if (kept <= most || *bytes == 0)
            continue;
        *bytes = 0;
        if (age != MTF_PARTS) /* that part is replaced */
            mtr_name_remove_part(out->rec, out->part - age);
    }
    out->position = 0;
    return mtr_output_open(out);
}

static bool is_same_file(const struct mtr_output *out) {
    struct stat st;
    return tcm_fstat(out->fd, &st) == 0 && st.st_dev == out->dev &&
           st.st_ino == out->ino;
}

/* True if the descriptor is still ours. Where the program shares the descriptor
   table, it may have closed our descriptor and opened something else under its
   number. */
static bool is_ours(const struct mtr_output *out) {
    return out->own_table || is_same_file(out);
}

static bool reopen(struct mtr_output *out) {
    if (out->kind != MTR_OUTPUT_FILE || out->temp != NULL)
        return false;
    const char *name = out->rec->keeps
                           ? mtr_name_part(out->rec, out->part % MTF_PARTS)
                           : mtr_name_output(out->rec);
    out->fd = name == NULL ? -1 : mtr_folder_open(out->rec, name, FILE_FLAGS);
    if (out->fd < 0)
        return false;
    if (is_same_file(out) &&
        tcm_call(lseek, out->fd, (off_t)out->position, SEEK_SET) >= 0)
        return true;
    tcm_syscall(SYS_close, out->fd);
    out->fd = -1;
    return false;
}

bool mtr_output_reopen(struct mtr_output *out) {
    errno = 0;
    return reopen(out) || failed(out);
}

/* True if the file is shorter than what was written to it, as after a rotation
   that copies and truncates. */
static bool is_cut(const struct mtr_output *out) {
    struct stat st;
    return out->kind == MTR_OUTPUT_FILE && tcm_fstat(out->fd, &st) == 0 &&
           (uint64_t)st.st_size < out->position;
}

/* True if N bytes may be written: writing over RLIMIT_FSIZE sends SIGXFSZ, and
   the footer must still fit. */
static bool within_limit(const struct mtr_output *out, size_t n) {
    struct rlimit limit;
    if (out->kind != MTR_OUTPUT_FILE ||
        tcm_getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY)
        return true;
    uint64_t room = out->footer ? 0 : MTR_FOOTER_ROOM;
    return out->position + n + room <= limit.rlim_cur;
}

/*
 * Writes to a reader that may stall, which must not keep the saver from making
 * buffers, nor the program from its end: threads do not wait either.
 */
static bool write_patiently(struct mtr_output *out, const char *p, size_t n) {
    struct mtr_saver_link *link = &out->rec->link;
    uint64_t give_up = UINT64_MAX;
    while (n != 0) {
        long taken = tcm_io_write_some(out->fd, p, n, READER_POLL_NS);
        if (taken < 0)
            return false;
        p += taken;
        n -= (size_t)taken;
        if (taken != 0) {
            give_up = UINT64_MAX;
            continue;
        }
        mtr_spool_keep_ready(out->rec);
        if (tcm_load_acquire(&link->finish) == 0 &&
            tcm_load_acquire(&link->stop) == 0)
            continue;
        uint64_t now = tcm_clock_ns();
        if (give_up == UINT64_MAX)
            give_up = now + MTR_READER_WAIT_NS;
        if (now >= give_up) {
            errno = ETIMEDOUT;
            return false;
        }
    }
    return true;
}

static bool write_all(struct mtr_output *out, const void *data, size_t n) {
    return mtr_config.drops && out->kind != MTR_OUTPUT_FILE
               ? write_patiently(out, data, n)
               : tcm_io_write_all(out->fd, data, n);
}

/* Bytes that wait for the release. Only one output at a time has any, that of
   the recording with the saver. */
static uint8_t held[8 * MTF_WRITE_UNIT];

static bool write_now(struct mtr_output *out, const void *data, size_t n) {
    if (!is_ours(out) && !reopen(out)) {
        errno = EBADF;
        return failed(out);
    }
    if (is_cut(out)) {
        errno = MTR_ECUT;
        return failed(out);
    }
    if (!within_limit(out, n)) {
        errno = EFBIG;
        return failed(out);
    }
    if (!write_all(out, data, n))
        return failed(out);
    out->position += n;
    return true;
}

static bool write_held(struct mtr_output *out) {
    size_t n = out->held_bytes;
    out->held_bytes = 0;
    return n == 0 || write_now(out, held, n);
}

void mtr_output_hold(struct mtr_output *out) {
    TCM_ASSERT(!out->holds && out->held_bytes == 0);
    out->holds = true;
}

bool mtr_output_release(struct mtr_output *out) {
    TCM_ASSERT(out->holds);
    out->holds = false;
    return write_held(out);
}

bool mtr_output_write(void *ctx, const void *data, size_t n) {
    struct mtr_output *out = ctx;
    const uint8_t *p = data;
    if (!out->holds) {
        TCM_ASSERT(out->held_bytes == 0);
        return write_now(out, data, n);
    }
    while (n != 0) {
        size_t most = sizeof(held) - out->position % MTF_WRITE_UNIT;
        TCM_ASSERT(out->held_bytes < most);
        size_t piece = tcm_min_u64(n, most - out->held_bytes);
        memcpy(held + out->held_bytes, p, piece);
        out->held_bytes += piece;
        p += piece;
        n -= piece;
        if (out->held_bytes == most) {
            if (!write_held(out))
                return false;
            TCM_TESTPOINT("half_written");
        }
    }
    return true;
}

bool mtr_output_truncate(struct mtr_output *out, uint64_t n) {
    uint64_t left = n < out->position ? out->position - n : 0;
    if (out->fd < 0 || (!is_ours(out) && !reopen(out)) || is_cut(out) ||
        tcm_call(ftruncate, out->fd, (off_t)left) != 0 ||
        tcm_call(lseek, out->fd, (off_t)left, SEEK_SET) < 0)
        return false;
    out->position = left;
    return true;
}

bool mtr_output_is_lost(struct mtr_output *out) {
    struct stat st;
    if (out->kind != MTR_OUTPUT_FILE || out->temp != NULL || !is_ours(out) ||
        tcm_fstat(out->fd, &st) != 0)
        return false;
    bool is_removed = st.st_nlink == 0;
    if (!is_removed && !is_cut(out))
        return false;
    out->error = is_removed ? ENOENT : MTR_ECUT;
    return true;
}

void mtr_output_close(struct mtr_output *out) {
    drop_temporary(out);
    if (out->fd >= 0 && is_ours(out))
        tcm_syscall(SYS_close, out->fd);
    out->fd = -1;
}
