/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/saver/spool_file.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_file.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_syscall.h"
#include "traceformat/raw_writer.h"
#include "tracer/recorder.h"
#include "tracer/trace_name.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes allocated together with the head, so that a small program needs no more
   calls: the first buffers of a lazy recording or of a saver. */
#define FIRST_BYTES (MTR_READY_SMALL * MTR_SMALL_BYTES)
#define FEW_BYTES   ((size_t)64 << 10)

static void close_raw(int fd) {
    tcm_syscall(SYS_close, fd);
}

static uint64_t file_size_limit(void) {
    struct rlimit limit;
    if (tcm_getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}

/* Writes zeros, for file systems without fallocate, and for the few pages of a
   lazy spool: file systems with delayed allocation have not chosen blocks yet
   when the spool of a short process is removed, which makes the removal several
   times cheaper. */
static bool write_zeros(int fd, uint64_t from, uint64_t bytes) {
    static const uint8_t zeros[4096];
    while (bytes != 0) {
        size_t n = bytes < sizeof(zeros) ? (size_t)bytes : sizeof(zeros);
        long done = tcm_syscall(SYS_pwrite64, fd, zeros, n, from);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        from += (uint64_t)done;
        bytes -= (uint64_t)done;
    }
    return true;
}

/*
 * Backs BYTES more of the file by blocks. The limit is compared first, because
 * fallocate beyond it sends SIGXFSZ.
 */
static bool allocate(int fd, uint64_t from, uint64_t bytes) {
    if (from + bytes > file_size_limit())
        return false;
    if (from + bytes <= FEW_BYTES)
        return write_zeros(fd, from, bytes);
    long rc;
    do {
        rc = tcm_syscall(SYS_fallocate, fd, 0, from, bytes);
    } while (rc != 0 && errno == EINTR);
    if (rc != 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
        return write_zeros(fd, from, bytes);
    return rc == 0;
}

static uint8_t *map_window(int fd, uint64_t start) {
    uint8_t *p = tcm_os_map_file(fd, start, MTR_SPOOL_WINDOW);
    if (p != NULL)
        tcm_os_dont_fork(p, MTR_SPOOL_WINDOW);
    return p;
}

/* Makes the file under its temporary name: locked, with head and room for
   buffers. -1: errno. */
static int make_file(struct mtr_recorder *rec, const char *temp) {
    struct mtr_spool *spool = &rec->spool;
    size_t page = tcm_os_page_size();
    uint64_t bytes = page + FIRST_BYTES;
    struct stat st;
    int folder = mtr_folder(rec);
    if (folder < 0)
        return -1;
    int fd = tcm_file_make_own(folder, temp, O_RDWR);
    mtr_folder_close(rec, folder);
    if (fd < 0)
        return -1;
    spool->window = NULL;
    if (tcm_file_lock(fd) && tcm_fstat(fd, &st) == 0 && allocate(fd, 0, bytes))
        spool->window = map_window(fd, 0);
    if (spool->window == NULL) {
        mtr_folder_remove(rec, temp);
        close_raw(fd);
        return -1;
    }
    mtf_spool_put_head(spool->window, rec->header, rec->header_length,
                       spool->saved);
    spool->head = spool->window;
    spool->window_start = 0;
    spool->is_private = false;
    spool->used_bytes = page;
    spool->file_bytes = bytes;
    spool->dev = st.st_dev;
    spool->ino = st.st_ino;
    return fd;
}

static void drop_file(struct mtr_recorder *rec, int fd, const char *temp) {
    mtr_folder_remove(rec, temp);
    tcm_os_unmap(rec->spool.window, MTR_SPOOL_WINDOW);
    rec->spool.window = NULL;
    close_raw(fd);
}

/* Makes the first window, which begins with page 0, part of the arena. */
static void own_window(struct mtr_recorder *rec) {
    uint8_t *window = rec->spool.window;
    if (mtr_pool_add_region(&rec->pool, window, MTR_SPOOL_WINDOW))
        mtr_pool_set_lost(&rec->pool, mtf_spool_lost_of(window));
}

bool mtr_spool_create(struct mtr_recorder *rec) {
    struct mtr_spool *spool = &rec->spool;
    char *temp = mtr_name_temporary(rec);
    int fd = temp == NULL ? -1 : make_file(rec, temp);
    if (fd < 0)
        return false;
    TCM_TESTPOINT("spool_made");
    if (!mtr_name_place_spool(rec, temp)) {
        drop_file(rec, fd, temp);
        return false;
    }
    TCM_TESTPOINT("spool_named");
    own_window(rec);
    spool->fd_plus_1 = fd + 1;
    spool->exists = true;
    return true;
}

void mtr_spool_mark_stopped(struct mtr_recorder *rec) {
    if (rec->spool.exists)
        mtf_spool_put_forced(rec->spool.head);
}

void mtr_spool_store_saved(struct mtr_recorder *rec, uint64_t saved) {
    struct mtr_spool *spool = &rec->spool;
    TCM_ASSERT(saved >= spool->saved);
    spool->saved = saved;
    if (spool->exists)
        tcm_store_relaxed(&mtf_spool_mark_of(spool->head)->saved, saved);
    tcm_fence_signal();
}

uint64_t *mtr_spool_begun_word(struct mtr_recorder *rec) {
    struct mtr_spool *spool = &rec->spool;
    return spool->exists ? &mtf_spool_mark_of(spool->head)->begun : NULL;
}

bool mtr_spool_renew(struct mtr_recorder *rec) {
    struct mtr_spool old = rec->spool;
    char *temp = mtr_name_temporary(rec);
    int fd = temp == NULL ? -1 : make_file(rec, temp);
    if (fd >= 0 && mtr_name_renew_spool(rec, temp)) {
        own_window(rec);
        rec->spool.fd_plus_1 = fd + 1;
        rec->spool.exists = true;
        return true;
    }
    if (fd >= 0)
        drop_file(rec, fd, temp);
    rec->spool = old;
    return false;
}

/* True if FD is our file: the program may have closed our descriptor and opened
   something else. */
static bool fd_is_ours(const struct mtr_spool *spool, int fd) {
    struct stat st;
    return tcm_fstat(fd, &st) == 0 && st.st_dev == spool->dev &&
           st.st_ino == spool->ino;
}

/* Opens the file again, to let it grow. false: it is gone. */
static bool reopen(struct mtr_recorder *rec) {
    struct mtr_spool *spool = &rec->spool;
    const char *name = mtr_name_spool(rec);
    int fd = name == NULL ? -1 : mtr_folder_open(rec, name, O_RDWR);
    if (fd < 0)
        return false;
    if (!fd_is_ours(spool, fd)) {
        close_raw(fd);
        return false;
    }
    spool->fd_plus_1 = fd + 1;
    return true;
}

static bool have_fd(struct mtr_recorder *rec) {
    struct mtr_spool *spool = &rec->spool;
    if (spool->fd_plus_1 != 0 && fd_is_ours(spool, spool->fd_plus_1 - 1))
        return true;
    spool->fd_plus_1 = 0;
    return reopen(rec);
}

static void *grow_file(struct mtr_recorder *rec, size_t bytes) {
    struct mtr_spool *spool = &rec->spool;
    uint64_t end = spool->used_bytes + bytes;
    TCM_ASSERT(spool->used_bytes <= spool->file_bytes);
    TCM_ASSERT(spool->used_bytes >= spool->window_start &&
               spool->used_bytes <= spool->window_start + MTR_SPOOL_WINDOW);
    if (end > spool->file_bytes) {
        if (!have_fd(rec) ||
            !allocate(spool->fd_plus_1 - 1, spool->used_bytes, bytes))
            return NULL;
        spool->file_bytes = end;
    }
    if (end > spool->window_start + MTR_SPOOL_WINDOW) {
        uint8_t *next =
            have_fd(rec) ? map_window(spool->fd_plus_1 - 1, spool->used_bytes)
                         : NULL;
        if (next == NULL)
            return NULL;
        mtr_pool_add_region(&rec->pool, next, MTR_SPOOL_WINDOW);
        spool->window = next;
        spool->window_start = spool->used_bytes;
    }
    void *p = spool->window + (spool->used_bytes - spool->window_start);
    spool->used_bytes = end;
    TCM_ASSERT(end <= spool->file_bytes &&
               end <= spool->window_start + MTR_SPOOL_WINDOW);
    tcm_store_relaxed(&mtf_spool_mark_of(spool->head)->length, end);
    return p;
}

/* BYTES (a multiple of the page size) of zeroed memory for buffers, in the file
   or private. NULL: none left. */
static void *grow(struct mtr_recorder *rec, size_t bytes) {
    struct mtr_spool *spool = &rec->spool;
    int saved = errno;
    void *p = NULL;
    TCM_ASSERT(bytes % tcm_os_page_size() == 0 && bytes <= MTR_SPOOL_WINDOW);
    if (spool->exists && !spool->is_private)
        p = grow_file(rec, bytes);
    if (p == NULL) {
        /* A spool that was removed at the end is not missed: until there is
           another, each event is saved at once. */
        if (spool->exists && !spool->is_private) {
            spool->is_private = true;
            spool->notice_due = true;
            tcm_store_relaxed(&mtf_spool_mark_of(spool->head)->flags,
                              (uint64_t)MTF_SPOOL_PRIVATE);
        }
        p = tcm_os_map(bytes);
        if (p != NULL) {
            tcm_os_dont_fork(p, bytes);
            mtr_pool_add_region(&rec->pool, p, bytes);
        }
    }
    errno = saved;
    return p;
}

void mtr_spool_close(struct mtr_recorder *rec) {
    struct mtr_spool *spool = &rec->spool;
    if (spool->fd_plus_1 != 0 && fd_is_ours(spool, spool->fd_plus_1 - 1))
        close_raw(spool->fd_plus_1 - 1);
    spool->fd_plus_1 = 0;
}

void mtr_spool_remove(struct mtr_recorder *rec) {
    struct mtr_spool *spool = &rec->spool;
    struct stat st;
    const char *name = mtr_name_spool(rec);
    int folder = !spool->exists || name == NULL ? -1 : mtr_folder(rec);
    if (folder < 0)
        return;
    if (tcm_fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_dev == spool->dev && st.st_ino == spool->ino)
        tcm_syscall(SYS_unlinkat, folder, name, 0);
    mtr_folder_close(rec, folder);
    spool->exists = false;
    TCM_TESTPOINT("spool_removed");
}

/* The mappings hold the open file, too, so closing it would not give up the
   lock. */
void mtr_spool_unlock(struct mtr_recorder *rec) {
    if (rec->spool.exists && have_fd(rec))
        tcm_file_unlock(rec->spool.fd_plus_1 - 1);
}

/* --- Buffers ahead of need ----------------------------------------------- */

bool mtr_spool_stock(struct mtr_recorder *rec, enum mtr_size size) {
    size_t bytes =
        size == MTR_LARGE ? MTR_LARGE_BYTES : MTR_READY_SMALL * MTR_SMALL_BYTES;
    bytes = tcm_align_up(bytes, tcm_os_page_size());
    void *p = grow(rec, bytes);
    return p != NULL && mtr_pool_add(&rec->pool, size, p, bytes);
}

void mtr_spool_keep_ready(struct mtr_recorder *rec) {
    bool any = false;
    uint32_t small = mtr_pool_missing(&rec->pool, MTR_SMALL);
    uint32_t large = mtr_pool_missing(&rec->pool, MTR_LARGE);
    /* Most programs never fill a small buffer. */
    if (tcm_load_relaxed(&rec->pool.buffers) == 0)
        large = 0;
    /* Small buffers come in pieces. */
    for (; small > MTR_READY_SMALL / 2;
         small -= small < MTR_READY_SMALL ? small : MTR_READY_SMALL)
        any |= mtr_spool_stock(rec, MTR_SMALL);
    for (uint32_t n = 0; n < large; n++)
        any |= mtr_spool_stock(rec, MTR_LARGE);
    if (any)
        mtr_pool_notify(&rec->pool);
}
