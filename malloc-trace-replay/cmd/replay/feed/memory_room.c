/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cgroup's use is counted without its page cache, which the kernel drops
 * before it kills. A limit holds for all cgroups below, so all of them up to
 * the root are looked at. In a container that cannot see its own cgroup by
 * name, the top of the mount is that cgroup.
 */
#include "cmd/replay/feed/memory_room.h"

#include "base/bits.h"
#include "base/raw_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

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

/* The number NAME of file ROOT/FOLDER/FILE; NAME "": its first. */
static bool file_number(const char *root, const char *folder, const char *file,
                        const char *name, uint64_t *value) {
    char path[PATH_BYTES], text[TEXT_BYTES];
    int n = snprintf(path, sizeof(path), "%s%s%s", root, folder, file);
    return n > 0 && (size_t)n < sizeof(path) &&
           tcm_io_read_file(path, text, sizeof(text)) >= 0 &&
           replay_number_in(text, name, value);
}

static uint64_t less(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

static void lower(struct replay_memory *m, uint64_t bytes, const char *of) {
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
        lower(m, (available + swap) * 1024, "available memory");
    /* Unless it overcommits always, the kernel refuses more than all memory. */
    (void)file_number(root, "/proc/sys/vm/overcommit_memory", "", "", &mode);
    if (mode != 1 && file_number(root, info, "", "MemTotal:", &total))
        m->grant_bytes = (total + swap_total) * 1024;
    return swap * 1024;
}

/* --- Cgroups -------------------------------------------------------------- */

/* Looks at one cgroup of version 2. False: it does not exist. */
static bool cgroup_v2(struct replay_memory *m, const char *root,
                      const char *folder, uint64_t swap) {
    uint64_t most, used, swap_most, swap_used;
    if (!file_number(root, folder, "/memory.stat", "anon ", &used))
        return false;
    if (!file_number(root, folder, "/memory.max", "", &most))
        return true; /* "max" */
    if (file_number(root, folder, "/memory.swap.max", "", &swap_most) &&
        file_number(root, folder, "/memory.swap.current", "", &swap_used))
        swap = tcm_min_u64(swap, less(swap_most, swap_used));
    lower(m, less(most, used) + swap, "the cgroup's limit of memory");
    return true;
}

static bool cgroup_v1(struct replay_memory *m, const char *root,
                      const char *folder, uint64_t swap) {
    uint64_t most, used, both;
    if (!file_number(root, folder, "/memory.stat", "total_rss ", &used) ||
        !file_number(root, folder, "/memory.limit_in_bytes", "", &most))
        return false;
    if (file_number(root, folder, "/memory.memsw.limit_in_bytes", "", &both))
        swap = tcm_min_u64(swap, less(both, most));
    if (most < UINT64_MAX / 4) /* else there is no limit */
        lower(m, less(most, used) + swap, "the cgroup's limit of memory");
    return true;
}

typedef bool (*cgroup_reader)(struct replay_memory *m, const char *root,
                              const char *folder, uint64_t swap);

/* Looks at the cgroup at PATH below MOUNT and at all above it. */
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
