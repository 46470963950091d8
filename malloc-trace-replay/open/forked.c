/* SPDX-License-Identifier: BSD-3-Clause */
#include "open/forked.h"

#include "common/files.h"
#include "trace/raw.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Most parents that are looked for. */
enum { FORKED_DEPTH = 16 };

/* Finds the recording with the number RANDOM in the folder of the trace NAME.
   PATH, of PATH_MAX bytes, gets its name, INFO its header. */
static bool find_recording(const char *name, uint64_t random, char *path,
                           struct mtf_raw_info *info) {
    int folder = (int)(tool_file_base(name) - name);
    char from[PATH_MAX];
    struct dirent *entry;
    bool found = false;
    snprintf(from, sizeof(from), "%.*s", folder, name);
    DIR *dir = opendir(folder == 0 ? "." : from);
    while (dir != NULL && !found && (entry = readdir(dir)) != NULL) {
        bool may_be = entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN;
        if (may_be && snprintf(path, PATH_MAX, "%s%s", folder == 0 ? "" : from,
                               entry->d_name) < PATH_MAX)
            found = tool_raw_is_file(path) &&
                    tool_raw_read_header(path, info) &&
                    info->fixed.random == random;
    }
    if (dir != NULL)
        closedir(dir);
    return found;
}

/* DEPTH: of INFO, the header of the trace NAME, below the one asked for. */
static void read_parents(struct inherited *in, const char *name,
                         const struct mtf_raw_info *info, unsigned depth) {
    char path[PATH_MAX];
    struct mtf_raw_info parent;
    if (info->fork == 0 || info->fixed.parent_random == 0 ||
        depth == FORKED_DEPTH ||
        !find_recording(name, info->fixed.parent_random, path, &parent))
        return;
    read_parents(in, path, &parent, depth + 1);
    (void)inherited_read(in, path, info->fork);
}

void forked_inherited(struct inherited *in, const char *name) {
    struct mtf_raw_info info;
    *in = (struct inherited){.block = NULL};
    if (tool_raw_is_file(name) && tool_raw_read_header(name, &info))
        read_parents(in, name, &info, 0);
}
