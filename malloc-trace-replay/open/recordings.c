/* SPDX-License-Identifier: BSD-3-Clause */
#include "open/recordings.h"

#include "base/bits.h"
#include "base/check.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/input.h"
#include "common/main.h"
#include "common/text.h"
#include "model/info.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void open_recordings_pattern(const char *folder,
                             char pattern[OPEN_RECORDINGS_PATTERN]) {
    TCM_ASSERT(strlen(folder) < PATH_MAX);
    size_t used = tool_file_escape(pattern, 2 * PATH_MAX, folder);
    strcpy(pattern + used, "/%e.%p.raw");
}

void open_recordings_free(struct open_recordings *all) {
    for (size_t i = 0; i < all->count; i++)
        free(all->list[i].path);
    free(all->list);
}

/* Finds the last ".raw" in FILE; NULL: none. */
static const char *find_raw(const char *file) {
    const char *last = NULL;
    for (const char *p = file; (p = strstr(p, ".raw")) != NULL; p++)
        last = p;
    return last;
}

/* Length of the name of the recording of which FILE is the trace or the spool:
   EXECUTABLE.PID.raw, and .1 and so on behind it where the process ran several
   programs of this name. 0: FILE is of none. */
static size_t recording_length(const char *file) {
    const char *end = find_raw(file);
    if (end == NULL)
        return 0;
    end += strlen(".raw");
    if (*end == '.' && isdigit((unsigned char)end[1]))
        for (end++; isdigit((unsigned char)*end); end++)
            continue;
    return *end == '\0' || strcmp(end, ".spool") == 0 ? (size_t)(end - file)
                                                      : 0;
}

/* Names R by its path. EXECUTABLE, the file that COMMAND runs, has COMMAND's
   own name: redis-server may be a link to redis-check-rdb. */
static void name_recording(struct open_recording *r, const char *executable,
                           const char *command) {
    const char *file = tool_file_base(r->path), *pid;
    const char *end = find_raw(file);
    TCM_ASSERT(end != NULL && end > file);
    size_t length = (size_t)(end - file);
    for (pid = file + length - 1; pid > file && *pid != '.'; pid--)
        continue;
    snprintf(r->name, sizeof(r->name), "%.*s", (int)length, file);
    if (strlen(executable) == (size_t)(pid - file) &&
        strncmp(executable, file, (size_t)(pid - file)) == 0)
        snprintf(r->name, sizeof(r->name), "%.255s%.*s",
                 tool_file_base(command), (int)(file + length - pid), pid);
}

/* Counts the events of R. */
static void count_events(struct open_recording *r) {
    static struct info_file f;
    memset(&f, 0, sizeof(f));
    f.name = r->path;
    info_read_raw(&f, tool_input_open(r->path), r->path);
    r->events = info_event_count(&f);
    if (f.have_header) {
        r->pid = f.header.fixed.pid;
        r->wall_ns = f.header.fixed.wall_ns;
    }
    info_free(&f);
}

/* Adds the recording PATH, which is freed where that fails or it is known. */
static bool recordings_add(struct open_recordings *all, char *path) {
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->list[i].path, path) == 0) {
            free(path);
            return true;
        }
    if (!tool_array_reserve(&all->list, &all->room, all->count + 1,
                            sizeof(*all->list))) {
        free(path);
        return false;
    }
    all->list[all->count++] = (struct open_recording){.path = path};
    return true;
}

static int compare_recordings(const void *a, const void *b) {
    const struct open_recording *x = a, *y = b;
    if (x->events != y->events)
        return x->events > y->events ? -1 : 1;
    return strcmp(x->path, y->path);
}

bool open_recordings_find(struct open_recordings *all, const char *folder,
                          const char *command) {
    struct dirent *entry;
    bool good = true;
    DIR *dir = opendir(folder);
    while (good && dir != NULL && (entry = readdir(dir)) != NULL) {
        size_t length = recording_length(entry->d_name);
        char *path;
        if (length == 0)
            continue;
        good = asprintf(&path, "%s/%.*s", folder, (int)length, entry->d_name) >=
                   0 &&
               recordings_add(all, path);
    }
    if (dir != NULL)
        closedir(dir);
    if (!good)
        tool_error("out of memory");
    char found[PATH_MAX], resolved[PATH_MAX];
    const char *executable = tool_file_find_command(command, found) &&
                                     realpath(found, resolved) != NULL
                                 ? tool_file_base(resolved)
                                 : "";
    for (size_t i = 0; good && i < all->count; i++) {
        name_recording(&all->list[i], executable, command);
        if (all->count > 1) /* a single one is taken, whatever it has */
            count_events(&all->list[i]);
    }
    if (good && all->count != 0)
        qsort(all->list, all->count, sizeof(*all->list), compare_recordings);
    return good;
}

/* True if the process of R ran another program after it. */
static bool was_replaced(const struct open_recordings *all,
                         const struct open_recording *r) {
    for (size_t i = 0; i < all->count; i++)
        if (r->pid != 0 && all->list[i].pid == r->pid &&
            all->list[i].wall_ns > r->wall_ns)
            return true;
    return false;
}

void open_recordings_keep_last(struct open_recordings *all) {
    size_t kept = 0;
    /* The last program of a process is never taken away: all others of it are
       replaced by that one, too. */
    for (size_t i = 0; i < all->count; i++) {
        if (was_replaced(all, &all->list[i]))
            free(all->list[i].path);
        else
            all->list[kept++] = all->list[i];
    }
    TCM_ASSERT(all->count == 0 || kept > 0);
    all->count = kept;
}

static bool is_shell(const struct open_recording *r) {
    static const char *const shells[] = {"sh",  "dash", "bash",   "ksh",
                                         "zsh", "fish", "busybox"};
    const char *pid = strrchr(r->name, '.');
    size_t length = pid == NULL ? 0 : (size_t)(pid - r->name);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(shells); i++)
        if (strlen(shells[i]) == length &&
            strncmp(r->name, shells[i], length) == 0)
            return true;
    return false;
}

void open_recordings_pass_shells(struct open_recordings *all) {
    for (size_t i = 0; i < all->count; i++)
        if (!is_shell(&all->list[i])) {
            struct open_recording first = all->list[i];
            memmove(all->list + 1, all->list, i * sizeof(first));
            all->list[0] = first;
            return;
        }
}

/* Number of processes that a message names. */
enum { NAMED_PROCESSES = 8 };

void open_recordings_warn(const struct open_recordings *all, size_t from,
                          const char *used_for, const char *hint) {
    struct tool_text t;
    char names[600] = "";
    size_t used = 0;
    for (size_t i = from; i < all->count && i < from + NAMED_PROCESSES; i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used,
                                 "%s%.40s (%s calls)", i == from ? "" : ", ",
                                 tool_text_shown(all->list[i].name),
                                 tool_text_count(&t, all->list[i].events));
    TCM_ASSERT(used < sizeof(names));
    tool_warn("%s (%s calls) is %s; %zu of %zu recorded processes are "
              "left out: %s%s%s",
              tool_text_shown(all->list[0].name),
              tool_text_count(&t, all->list[0].events), used_for,
              all->count - from, all->count, names,
              all->count - from > NAMED_PROCESSES ? ", ..." : "", hint);
}
