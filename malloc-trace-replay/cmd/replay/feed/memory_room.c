/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The use of a cgroup is counted without page cache, which the kernel drops
 * before it kills; shared memory is a part of that cache that it cannot drop. A
 * limit holds for all cgroups below it, so all up to the root are read. In a
 * container that does not see its cgroup by name, the top of the mount is that
 * cgroup.
 *
 * The closing block is read from the last frame of a compressed file, and the
 * frame before if it begins there.
 */
#include "cmd/replay/feed/memory_room.h"

#include "base/bits.h"
#include "base/linux/os_file.h"
#include "common/input.h"
#include "traceformat/proc_reader.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 1024u
#define TEXT_BYTES 16384u

bool replay_number_in(const char *text, const char *name, uint64_t *value) {
    size_t length = strlen(name);
    while (strncmp(text, name, length) != 0) {
        text = strchr(text, '\n');
        if (text == NULL)
            return false;
        text++;
    }
    char *end;
    *value = strtoull(text + length, &end, 10);
    return end != text + length;
}

/* Reads the number after NAME in file ROOT/FOLDER/FILE; NAME "": the first
   number. */
static bool file_number(const char *root, const char *folder, const char *file,
                        const char *name, uint64_t *value) {
    char path[PATH_BYTES], text[TEXT_BYTES];
    int n = snprintf(path, sizeof(path), "%s%s%s", root, folder, file);
    return n > 0 && (size_t)n < sizeof(path) &&
           tcm_io_read_file(path, text, sizeof(text)) >= 0 &&
           replay_number_in(text, name, value);
}

static uint64_t less_or_zero(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

static void room_lower(struct replay_memory *m, uint64_t bytes,
                       const char *of) {
    if (bytes < m->room_bytes) {
        m->room_bytes = bytes;
        m->room_of = of;
    }
}

/* --- The system ----------------------------------------------------------- */

static uint64_t find_system(struct replay_memory *m, const char *root) {
    uint64_t available, total, swap = 0, swap_total = 0, mode = 0;
    const char *info = "/proc/meminfo";
    (void)file_number(root, info, "", "SwapFree:", &swap);
    (void)file_number(root, info, "", "SwapTotal:", &swap_total);
    if (file_number(root, info, "", "MemAvailable:", &available))
        room_lower(m, (available + swap) * 1024, "available memory");
    /* Unless overcommit is 1, the kernel refuses more than all memory. */
    (void)file_number(root, "/proc/sys/vm/overcommit_memory", "", "", &mode);
    if (mode != 1 && file_number(root, info, "", "MemTotal:", &total))
        m->grant_bytes = (total + swap_total) * 1024;
    return swap * 1024;
}

/* --- Cgroups -------------------------------------------------------------- */

/* Reads the memory of a cgroup that cannot be dropped, of which its file of
   counts has the names ANON and SHARED. False: there is no such file. */
static bool cgroup_used(const char *root, const char *folder, const char *anon,
                        const char *shared, uint64_t *used) {
    uint64_t shared_bytes = 0;
    if (!file_number(root, folder, "/memory.stat", anon, used))
        return false;
    (void)file_number(root, folder, "/memory.stat", shared, &shared_bytes);
    *used += shared_bytes;
    return true;
}

/* Applies the limits of a cgroup of version 2. False: it does not exist. */
static bool cgroup_v2(struct replay_memory *m, const char *root,
                      const char *folder, uint64_t swap) {
    uint64_t most, used, swap_most, swap_used;
    if (!cgroup_used(root, folder, "anon ", "shmem ", &used))
        return false;
    if (!file_number(root, folder, "/memory.max", "", &most))
        return true; /* "max" */
    if (file_number(root, folder, "/memory.swap.max", "", &swap_most) &&
        file_number(root, folder, "/memory.swap.current", "", &swap_used))
        swap = tcm_min_u64(swap, less_or_zero(swap_most, swap_used));
    room_lower(m, less_or_zero(most, used) + swap,
               "the cgroup's limit of memory");
    return true;
}

/* Like cgroup_v2, for version 1. */
static bool cgroup_v1(struct replay_memory *m, const char *root,
                      const char *folder, uint64_t swap) {
    uint64_t most, used, both;
    if (!cgroup_used(root, folder, "total_rss ", "total_shmem ", &used) ||
        !file_number(root, folder, "/memory.limit_in_bytes", "", &most))
        return false;
    if (file_number(root, folder, "/memory.memsw.limit_in_bytes", "", &both))
        swap = tcm_min_u64(swap, less_or_zero(both, most));
    if (most < UINT64_MAX / 4) /* else unlimited */
        room_lower(m, less_or_zero(most, used) + swap,
                   "the cgroup's limit of memory");
    return true;
}

typedef bool (*cgroup_reader)(struct replay_memory *m, const char *root,
                              const char *folder, uint64_t swap);

/* Calls ONE for the cgroup at PATH below MOUNT and for all above it. */
static void cgroups_up(struct replay_memory *m, const char *root,
                       cgroup_reader one, const char *mount, const char *path,
                       uint64_t swap) {
    char folder[PATH_BYTES];
    size_t top = strlen(mount);
    int n = snprintf(folder, sizeof(folder), "%s%s", mount, path);
    if (n <= 0 || (size_t)n >= sizeof(folder))
        return;
    for (;;) {
        char *slash = strrchr(folder + top, '/');
        if (slash != NULL && slash[1] == '\0') {
            *slash = '\0';
            continue;
        }
        (void)one(m, root, folder, swap);
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

static void find_cgroups(struct replay_memory *m, const char *root,
                         uint64_t swap) {
    char path[PATH_BYTES], text[TEXT_BYTES];
    int n = snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    if (n <= 0 || (size_t)n >= sizeof(path) ||
        tcm_io_read_file(path, text, sizeof(text)) < 0)
        return;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char *names = strchr(line, ':');
        char *at = names == NULL ? NULL : strchr(names + 1, ':');
        if (at == NULL)
            continue;
        *at++ = '\0';
        if (strcmp(names, ":") == 0)
            cgroups_up(m, root, cgroup_v2, "/sys/fs/cgroup", at, swap);
        else if (strcmp(names, ":memory") == 0)
            cgroups_up(m, root, cgroup_v1, "/sys/fs/cgroup/memory", at, swap);
    }
}

void replay_memory_find(struct replay_memory *m, const char *root) {
    struct rlimit limit;
    *m = (struct replay_memory){UINT64_MAX, "", UINT64_MAX, UINT64_MAX};
    find_cgroups(m, root, find_system(m, root));
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        m->address_bytes = limit.rlim_cur;
}

/* --- Memory that a trace needs -------------------------------------------- */

/* Bounds of two frames of postprocess: their stored bytes and their content. */
#define PEEK_STORED_BYTES  ((size_t)9 << 20)
#define PEEK_CONTENT_BYTES ((uint64_t)64 << 20)
#define PEEK_FRAMES        2u
#define LZ4_MAGIC          "\x04\x22\x4d\x18"

/* End of a trace, in a file or in memory. */
struct peek_tail {
    int fd; /* -1: in `bytes` */
    const uint8_t *bytes;
    size_t size;
};

static size_t peek_read(void *ctx, uint64_t offset, void *data, size_t n) {
    const struct peek_tail *t = ctx;
    if (t->fd >= 0) {
        ssize_t got = pread(t->fd, data, n, (off_t)offset);
        return got < 0 ? 0 : (size_t)got;
    }
    if (offset > t->size)
        return 0;
    n = tcm_min_u64(n, t->size - offset);
    memcpy(data, t->bytes + offset, n);
    return n;
}

/* Finds the closing block in the last SIZE bytes of a trace. */
static bool peek_closing(struct peek_tail *t, uint64_t size,
                         struct replay_peek *peek) {
    static uint8_t memory[MTF_PROC_INDEX_MEMORY];
    struct mtf_proc_block closing;
    if (!mtf_proc_find_closing(peek_read, t, size, memory, &closing))
        return false;
    peek->present_blocks = peek->threads = 0;
    (void)mtf_proc_account(&closing, MTF_PROC_ACCOUNT_PRESENT_BLOCKS,
                           &peek->present_blocks);
    (void)mtf_proc_account(&closing, MTF_PROC_ACCOUNT_THREADS, &peek->threads);
    return mtf_proc_account(&closing, MTF_PROC_ACCOUNT_PEAK_LIVE_BYTES,
                            &peek->peak_bytes);
}

/* Decompresses FD from OFFSET to its end and reads the closing block there. */
static bool peek_from(int fd, uint64_t offset, struct replay_peek *peek) {
    static uint8_t last[2][MTF_PROC_CLOSING_TAIL];
    struct tool_input *in = NULL;
    size_t used = 0, got = 0;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy >= 0 && lseek(copy, (off_t)offset, SEEK_SET) == (off_t)offset)
        in = tool_input_from_fd(copy, "trace");
    if (in == NULL)
        return false;
    /* Two halves, which together always have the last bytes. */
    unsigned half = 0;
    enum mtf_source_result r = MTF_SOURCE_DATA;
    while (tool_input_bytes(in) < PEEK_CONTENT_BYTES) {
        if (used == sizeof(last[0])) {
            half ^= 1;
            used = 0;
        }
        r = tool_input_read(in, last[half] + used, sizeof(last[0]) - used,
                            &got);
        if (r != MTF_SOURCE_DATA)
            break;
        used += got;
    }
    size_t before = tool_input_bytes(in) > used ? sizeof(last[0]) - used : 0;
    tool_input_close(in);
    static uint8_t whole[sizeof(last[0])];
    memcpy(whole, last[half ^ 1] + (sizeof(last[0]) - before), before);
    memcpy(whole + before, last[half], used);
    struct peek_tail t = {-1, whole, before + used};
    return r == MTF_SOURCE_END && peek_closing(&t, t.size, peek);
}

/* Tries the last frames of an LZ4 file of SIZE bytes, from the last one on. */
static bool peek_frames(int fd, uint64_t size, struct replay_peek *peek) {
    size_t n = (size_t)tcm_min_u64(size, PEEK_STORED_BYTES);
    uint8_t *window = malloc(n);
    bool found = false;
    unsigned frames = 0;
    if (window != NULL && pread(fd, window, n, (off_t)(size - n)) == (ssize_t)n)
        for (size_t at = n - tcm_min_u64(n, 4) + 1;
             at-- != 0 && !found && frames < PEEK_FRAMES;) {
            if (memcmp(window + at, LZ4_MAGIC, 4) != 0)
                continue;
            frames++;
            found = peek_from(fd, size - n + at, peek);
        }
    free(window);
    return found;
}

bool replay_peek(const char *name, struct replay_peek *peek) {
    struct stat st;
    uint8_t first[4] = {0};
    bool found = false;
    if (name == NULL || strcmp(name, "-") == 0)
        name = "/dev/stdin";
    /* Opening a FIFO would take its writer away. */
    if (stat(name, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        pread(fd, first, sizeof(first), 0) == (ssize_t)sizeof(first)) {
        uint64_t size = (uint64_t)st.st_size;
        struct peek_tail t = {fd, NULL, 0};
        found = memcmp(first, LZ4_MAGIC, sizeof(first)) == 0
                    ? peek_frames(fd, size, peek)
                    : peek_closing(&t, size, peek);
    }
    if (fd >= 0)
        close(fd);
    return found;
}
