/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/linux/os_maps.h"

#include "base/linux/os_syscall.h"

bool tcm_os_maps_open(struct tcm_os_maps *r) {
    r->next = r->count = 0;
    r->fd = tcm_syscall(SYS_openat, AT_FDCWD, "/proc/self/maps",
                        O_RDONLY | O_CLOEXEC, 0);
    return r->fd >= 0;
}

void tcm_os_maps_close(struct tcm_os_maps *r) {
    tcm_syscall(SYS_close, r->fd);
}

/* The next byte; -1: the end. */
static int get(struct tcm_os_maps *r) {
    if (r->next == r->count) {
        long n = tcm_syscall(SYS_read, r->fd, r->bytes, sizeof(r->bytes));
        if (n <= 0)
            return -1;
        r->next = 0;
        r->count = (size_t)n;
    }
    return (unsigned char)r->bytes[r->next++];
}

/* Reads a hexadecimal number and the character behind it. */
static uint64_t get_number(struct tcm_os_maps *r) {
    uint64_t n = 0;
    for (int c; (c = get(r)) >= 0;)
        if (c >= '0' && c <= '9')
            n = n << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            n = n << 4 | (uint64_t)(c - 'a' + 10);
        else
            break;
    return n;
}

/* Reads the rest of the line into PATH, from its first slash on. Returns the
   length. */
static size_t get_path(struct tcm_os_maps *r, char *path, size_t room) {
    size_t n = 0;
    int c;
    while ((c = get(r)) >= 0 && c != '\n')
        if ((n != 0 || c == '/') && n + 1 < room)
            path[n++] = (char)c;
    path[n] = '\0';
    return n;
}

/* Reads a line: START-END rwxp OFFSET MAJOR:MINOR INODE, blanks, PATH. The
   inode is decimal, and read as hexadecimal: it is only compared. */
bool tcm_os_maps_next(struct tcm_os_maps *r, struct tcm_os_mapping *m) {
    m->start = get_number(r);
    m->end = get_number(r);
    if (m->end == 0)
        return false;
    m->is_readable = get(r) == 'r';
    (void)get(r);
    m->is_executable = get(r) == 'x';
    (void)get(r);
    (void)get(r);
    m->offset = get_number(r);
    m->device = get_number(r) << 32;
    m->device |= get_number(r);
    m->inode = get_number(r);
    m->length = get_path(r, m->path, sizeof(m->path));
    return true;
}
