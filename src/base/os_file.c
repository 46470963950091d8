/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/os_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool set_lock(int fd, short type) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool tcm_file_lock(int fd) {
    return set_lock(fd, F_WRLCK);
}

bool tcm_file_unlock(int fd) {
    return set_lock(fd, F_UNLCK);
}

/* Asked as for a read lock, which only a write lock is in the way of. */
bool tcm_file_is_locked(int fd) {
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK;
}

int tcm_file_make_own(const char *path, int flags) {
    struct stat st;
    int fd =
        (int)syscall(SYS_openat, AT_FDCWD, path,
                     flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    /* A umask may take even the owner's rights. */
    if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0777) != 0600)
        (void)fchmod(fd, 0600);
    return fd;
}
