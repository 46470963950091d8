/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/linux/os_file.h"
#include "base/check.h"
#include "base/linux/os_syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

/* ------------------------------------------------------------------------ */
/* Reads and writes                                                         */

#define NS_PER_S 1000000000u

/* Raw system calls: the C library's wrappers are cancellation points, and a
   program's thread must not be cancelled inside ours. */
bool tcm_io_write_all(int fd, const void *data, size_t length) {
    const char *p = data;
    int saved = errno;
    while (length != 0) {
        long n = tcm_syscall(SYS_write, fd, p, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            tcm_syscall(SYS_ppoll, &wait, 1, NULL, NULL, 0);
            continue;
        }
        if (n < 0)
            return false;
        p += n;
        length -= (size_t)n;
    }
    errno = saved;
    return true;
}

long tcm_io_write_some(int fd, const void *data, size_t length,
                       uint64_t timeout_ns) {
    TCM_ASSERT(length != 0);
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    struct timespec timeout = {(time_t)(timeout_ns / NS_PER_S),
                               (long)(timeout_ns % NS_PER_S)};
    int saved = errno;
    long n = tcm_syscall(SYS_ppoll, &wait, 1, &timeout, NULL, 0);
    /* A pipe that polls as writable has room for PIPE_BUF bytes. */
    if (n > 0)
        n = tcm_syscall(SYS_write, fd, data,
                        length < PIPE_BUF ? length : PIPE_BUF);
    if (n < 0 && errno != EINTR && errno != EAGAIN)
        return -1;
    errno = saved;
    return n < 0 ? 0 : n;
}

bool tcm_io_read_full(int fd, void *data, size_t length, size_t *got) {
    char *p = data;
    int saved = errno;
    *got = 0;
    while (*got < length) {
        long n = tcm_syscall(SYS_read, fd, p + *got, length - *got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLIN};
            tcm_syscall(SYS_ppoll, &wait, 1, NULL, NULL, 0);
            continue;
        }
        if (n < 0)
            return false;
        if (n == 0)
            break;
        *got += (size_t)n;
    }
    errno = saved;
    return true;
}

long tcm_io_read_file(const char *path, char *buf, size_t cap) {
    TCM_ASSERT(cap != 0);
    int saved = errno;
    size_t got = 0;
    long fd = tcm_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    bool ok = fd >= 0 && tcm_io_read_full((int)fd, buf, cap - 1, &got);
    if (fd >= 0)
        tcm_syscall(SYS_close, fd);
    errno = saved;
    if (!ok)
        return -1;
    buf[got] = '\0';
    return (long)got;
}

/* ------------------------------------------------------------------------ */
/* Locks and own files                                                      */

static bool set_lock(int fd, short type) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    return tcm_call(fcntl, fd, F_OFD_SETLK, &lock) == 0;
}

bool tcm_file_lock(int fd) {
    return set_lock(fd, F_WRLCK);
}

bool tcm_file_unlock(int fd) {
    return set_lock(fd, F_UNLCK);
}

/* F_OFD_GETLK for a read lock, which only a write lock prevents. */
bool tcm_file_is_locked(int fd) {
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    return tcm_call(fcntl, fd, F_OFD_GETLK, &lock) == 0 &&
           lock.l_type == F_WRLCK;
}

int tcm_file_make_own(int folder, const char *name, int flags) {
    struct stat st;
    int fd = (int)tcm_syscall(SYS_openat, folder, name,
                              flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                              0600);
    /* A umask may remove even the owner's permissions. */
    if (fd >= 0 && tcm_fstat(fd, &st) == 0 && (st.st_mode & 0777) != 0600)
        (void)tcm_call(fchmod, fd, 0600);
    return fd;
}

/* ------------------------------------------------------------------------ */
/* Places                                                                   */

/* Links followed in one path; the kernel has the same limit. */
#define LINKS_MAX  40
#define PROC_MAGIC 0x9fa0

static int open_raw(int folder, const char *name, int flags) {
    return (int)tcm_syscall(SYS_openat, folder, name, flags | O_CLOEXEC, 0);
}

static void close_raw(int fd) {
    int saved = errno;
    tcm_syscall(SYS_close, fd);
    errno = saved;
}

static bool is_trusted(uid_t user) {
    struct stat root;
    return user == 0 || user == (uid_t)tcm_syscall(SYS_geteuid) ||
           (tcm_fstatat(AT_FDCWD, "/", &root, 0) == 0 && user == root.st_uid);
}

/* True if an untrusted user may have made ENTRY of FOLDER. */
static bool is_foreign(int folder, const struct stat *entry) {
    struct stat st;
    if (is_trusted(entry->st_uid))
        return false;
    return tcm_fstat(folder, &st) != 0 || (st.st_mode & 022) != 0 ||
           !is_trusted(st.st_uid);
}

static bool is_proc(int folder) {
    struct statfs fs;
    return tcm_call(fstatfs, folder, &fs) == 0 && fs.f_type == PROC_MAGIC;
}

/* Replaces the name of a link, N bytes at PATH + AT, by the link's target. The
   name is terminated with a zero in place of DELIMITER, which is restored. */
static bool expand(int folder, char *path, size_t at, size_t n, char delimiter,
                   char *room) {
    ssize_t length =
        tcm_syscall(SYS_readlinkat, folder, path + at, room, PATH_MAX - 1);
    path[at + n] = delimiter;
    size_t rest = strlen(path + at + n);
    if (length < 0)
        return false;
    TCM_ASSERT(length < PATH_MAX);
    size_t to = length != 0 && room[0] == '/' ? 0 : at;
    if (length == 0 || to + (size_t)length + rest >= PATH_MAX) {
        errno = length == 0 ? ENOENT : ENAMETOOLONG;
        return false;
    }
    memmove(path + to + length, path + at + n, rest + 1);
    memcpy(path + to, room, (size_t)length);
    return true;
}

/* Fills in the entry of the last name, whose status is ENTRY if FOUND. */
static void describe(struct tcm_place *place, struct stat *entry, bool found) {
    if (place->is_magic)
        found = tcm_fstatat(place->folder, place->name, entry, 0) == 0;
    place->mode = found ? entry->st_mode : 0;
    place->is_foreign =
        found && !place->is_magic && is_foreign(place->folder, entry);
}

/* Result of handling one name of a path. */
enum step { STEP_ARRIVED, STEP_WENT_ON, STEP_EXPANDED, STEP_FAILED };

/* Handles the next name of PATH, at *AT: enters it if it is a folder, expands
   it if it is a link, describes it if it is the last. */
static enum step take_step(struct tcm_place *place, char *path, char *room,
                           size_t *at) {
    struct stat entry;
    TCM_ASSERT(place->folder >= 0 && *at <= strlen(path));
    size_t n = strcspn(path + *at, "/");
    size_t next = *at + n + strspn(path + *at + n, "/");
    char delimiter = path[*at + n];
    bool found = false;
    int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW;
    place->name = path + *at;
    path[*at + n] = '\0';
    int fd =
        delimiter == '\0' ? -1 : open_raw(place->folder, place->name, flags);
    if (fd < 0) {
        found = n != 0 && tcm_fstatat(place->folder, place->name, &entry,
                                      AT_SYMLINK_NOFOLLOW) == 0;
        place->is_magic =
            found && S_ISLNK(entry.st_mode) && is_proc(place->folder);
        if (place->is_magic && delimiter != '\0')
            fd = open_raw(place->folder, place->name, O_PATH | O_DIRECTORY);
    }
    if (fd < 0 && found && S_ISLNK(entry.st_mode) && !place->is_magic) {
        if (!is_foreign(place->folder, &entry))
            return expand(place->folder, path, *at, n, delimiter, room)
                       ? STEP_EXPANDED
                       : STEP_FAILED;
        errno = TCM_EFOREIGN;
    } else if (delimiter == '\0') {
        describe(place, &entry, found);
        return STEP_ARRIVED;
    }
    path[*at + n] = delimiter;
    if (fd < 0)
        return STEP_FAILED;
    close_raw(place->folder);
    place->folder = fd;
    *at = next;
    return STEP_WENT_ON;
}

bool tcm_place_find(struct tcm_place *place, char *path, char *room) {
    TCM_ASSERT(strlen(path) < PATH_MAX && room != path);
    size_t at = 0;
    place->folder = -1;
    for (int links = 0; links <= LINKS_MAX;) {
        if (at == 0) {
            if (place->folder >= 0)
                close_raw(place->folder);
            place->folder = open_raw(AT_FDCWD, path[0] == '/' ? "/" : ".",
                                     O_PATH | O_DIRECTORY);
            if (place->folder < 0)
                return false;
            at = strspn(path, "/");
        }
        enum step step = take_step(place, path, room, &at);
        if (step == STEP_ARRIVED)
            return true;
        errno = step == STEP_EXPANDED ? ELOOP : errno;
        if (step == STEP_FAILED)
            break;
        links += step == STEP_EXPANDED;
        if (step == STEP_EXPANDED && path[0] == '/')
            at = 0;
    }
    close_raw(place->folder);
    return false;
}

int tcm_place_open(const struct tcm_place *place, int flags) {
    struct stat st;
    TCM_ASSERT(place->folder >= 0 && strchr(place->name, '/') == NULL);
    errno = place->is_foreign ? TCM_EFOREIGN : EISDIR;
    if (place->is_foreign || place->name[0] == '\0')
        return -1;
    int fd = open_raw(place->folder, place->name,
                      place->is_magic ? flags : flags | O_NOFOLLOW);
    if (fd < 0 || place->is_magic)
        return fd;
    /* The name may have been given to another file since it was looked up. */
    if (tcm_fstat(fd, &st) == 0 && !is_foreign(place->folder, &st))
        return fd;
    close_raw(fd);
    errno = TCM_EFOREIGN;
    return -1;
}
