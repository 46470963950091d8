/* SPDX-License-Identifier: BSD-3-Clause */
#include "open/recordings.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_file.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/input.h"
#include "common/main.h"
#include "common/text.h"
#include "model/info.h"
#include "trace/raw.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Most stored bytes of a recording whose events are counted to choose one, and
   most that are named beside it. */
#define COUNT_MOST     ((uint64_t)256 << 20)
#define NAMED_PROGRAMS 3u

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
    r->counted = true;
    r->clean_end = f.clean_end;
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
    if (x->counted != y->counted)
        return x->counted ? 1 : -1;
    if (x->events != y->events)
        return x->events > y->events ? -1 : 1;
    if (x->stored != y->stored)
        return x->stored > y->stored ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* Tells whether the recorder has the recording at PATH open. */
static bool is_recorded(const char *path) {
    static const char *const ends[] = {"", ".spool"};
    char file[PATH_MAX + 8];
    bool found = false;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(ends) && !found; i++) {
        (void)snprintf(file, sizeof(file), "%s%s", path, ends[i]);
        int fd = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        found = fd >= 0 && tcm_file_is_locked(fd);
        if (fd >= 0)
            close(fd);
    }
    return found;
}

/* Warns of a process that goes on in the background, as a daemon does. */
static void warn_of_running(const struct open_recordings *all) {
    for (size_t i = 0; i < all->count; i++)
        if (is_recorded(all->list[i].path)) {
            tool_warn("%s still runs, and what it does from now on is not "
                      "known: keep it in the foreground, or record it with "
                      "record -o NAME.%%p, end it, and give its trace",
                      tool_text_shown(all->list[i].name));
            return;
        }
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
        tool_out_of_memory();
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
    if (good)
        warn_of_running(all);
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

/* --- Recordings under a name ---------------------------------------------- */

/* Relation of the recording NAME.N to NAME. */
enum relation {
    UNRELATED, /* of another run */
    NEAR,      /* perhaps of the same run */
    SAME       /* the same process, after an exec */
};

/* Length of NAME.N, of which FILE is the trace, the spool or a part. LENGTH: of
   NAME, without folders. 0: FILE is of none. */
static size_t numbered_length(const char *file, const char *name,
                              size_t length) {
    if (strncmp(file, name, length) != 0 || file[length] != '.' ||
        file[length + 1] == '0')
        return 0;
    size_t digits = strspn(file + length + 1, "0123456789");
    const char *rest = file + length + 1 + digits;
    bool is_rest = *rest == '\0' || strcmp(rest, ".spool") == 0 ||
                   (strlen(rest) == 3 && tool_file_is_part(rest));
    return digits != 0 && is_rest ? length + 1 + digits : 0;
}

/* Adds NAME and all NAME.N. False: out of memory. */
static bool find_numbered(struct open_recordings *all, const char *name) {
    const char *base = tool_file_base(name);
    size_t folder = (size_t)(base - name), length = strlen(base);
    struct dirent *entry;
    char *path = strdup(name), *from = strndup(name, folder);
    bool good = path != NULL && from != NULL && recordings_add(all, path);
    DIR *dir = good ? opendir(folder == 0 ? "." : from) : NULL;
    free(from);
    while (good && dir != NULL && (entry = readdir(dir)) != NULL) {
        size_t n = numbered_length(entry->d_name, base, length);
        if (n != 0)
            good = asprintf(&path, "%.*s%.*s", (int)folder, name, (int)n,
                            entry->d_name) >= 0 &&
                   recordings_add(all, path);
    }
    if (dir != NULL)
        closedir(dir);
    return good;
}

/* Names R by its header and sets what identifies it. */
static void identify(struct open_recording *r, const struct mtf_raw_info *h) {
    snprintf(r->name, sizeof(r->name), "%s", h->executable);
    r->pid = h->fixed.pid;
    r->wall_ns = h->fixed.wall_ns;
}

static enum relation relation_of(const struct mtf_raw_header *h,
                                 const struct mtf_raw_header *first) {
    if (h->wall_ns < first->wall_ns || h->pid == 0)
        return UNRELATED;
    if (h->pid == first->pid && h->process_start == first->process_start)
        return h->process_start != 0 ? SAME : NEAR;
    bool child =
        h->parent_pid == first->pid && h->parent_start == first->process_start;
    bool sibling = h->parent_pid == first->parent_pid &&
                   h->parent_start == first->parent_start;
    return (child || sibling) && h->parent_start != 0 ? NEAR : UNRELATED;
}

/* Drops the recording at index I. */
static void drop_recording(struct open_recordings *all, size_t i) {
    free(all->list[i].path);
    all->list[i] = all->list[--all->count];
}

/* Keeps the first recording, NAME, and those of the same process. Sets NEAR, of
   PATH_MAX bytes, to one that may be of the same run; "": none. */
static void keep_related(struct open_recordings *all, char *near) {
    struct mtf_raw_info first, h;
    *near = '\0';
    bool known = tool_raw_read_header(all->list[0].path, &first);
    if (known)
        identify(&all->list[0], &first);
    for (size_t i = 1; i < all->count;) {
        struct open_recording *r = &all->list[i];
        enum relation relation = known && tool_raw_is_file(r->path) &&
                                         tool_raw_read_header(r->path, &h)
                                     ? relation_of(&h.fixed, &first.fixed)
                                     : UNRELATED;
        if (relation == SAME) {
            identify(r, &h);
            i++;
            continue;
        }
        if (relation == NEAR)
            snprintf(near, PATH_MAX, "%s", r->path);
        drop_recording(all, i);
    }
}

/* Stored bytes of the trace PATH and its spool. */
static uint64_t stored_bytes(const char *path) {
    char spool[PATH_MAX + 8];
    struct stat st;
    uint64_t bytes = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    snprintf(spool, sizeof(spool), "%s.spool", path);
    return bytes + (stat(spool, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0);
}

/* Counts the events of all recordings that are not too large. */
static void count_all(struct open_recordings *all) {
    for (size_t i = 0; i < all->count; i++) {
        struct open_recording *r = &all->list[i];
        r->stored = stored_bytes(r->path);
        r->counted = r->stored <= COUNT_MOST;
        if (r->counted)
            count_events(r);
    }
}

/* "30,012 calls", or the stored bytes where events are not COUNTED. */
static const char *extent_text(char text[48], uint64_t events, uint64_t stored,
                               bool counted) {
    struct tool_text t;
    snprintf(text, 48, "%s%s",
             counted ? tool_text_count(&t, events)
                     : tool_text_bytes(&t, stored),
             counted ? " calls" : "");
    return text;
}

/* Fills NAMES with the names by which the first few recordings behind the
   chosen one are read. NAME: the first program's. */
static void name_others(const struct open_recordings *all, const char *name,
                        char *names, size_t size) {
    size_t used = 0;
    *names = '\0';
    for (size_t i = 1; i < all->count && i <= NAMED_PROGRAMS; i++) {
        const struct open_recording *r = &all->list[i];
        used += (size_t)snprintf(
            names + used, size - used, "%s%.*s%s (%.40s)", i == 1 ? "" : " or ",
            PATH_MAX, r->path, strcmp(r->path, name) == 0 ? ".0" : "", r->name);
        TCM_ASSERT(used < size);
    }
}

/* Says which of the recordings under NAME is read, the first one, and how to
   name the others. */
static void tell_choice(const struct open_recordings *all, const char *name) {
    const struct open_recording *taken = &all->list[0];
    char names[NAMED_PROGRAMS * (PATH_MAX + 64)], own[48], rest[48];
    uint64_t events = 0, stored = 0;
    size_t others = all->count - 1;
    bool counted = true;
    for (size_t i = 1; i < all->count; i++) {
        events += all->list[i].events;
        stored += all->list[i].stored;
        counted &= all->list[i].counted;
    }
    name_others(all, name, names, sizeof(names));
    tool_warn("%s: its process ran %zu programs, of which %s (%s, %s) is read; "
              "%zu other%s with %s %s left out: name %s%s to read %s",
              name, all->count, taken->path, taken->name,
              extent_text(own, taken->events, taken->stored, taken->counted),
              others, others == 1 ? "" : "s",
              extent_text(rest, events, stored, counted),
              others == 1 ? "is" : "are", names,
              others > NAMED_PROGRAMS ? " or ..." : "",
              others == 1 ? "it" : "one of them");
}

/* Stores NAME without ".0" if that is how NAME is asked for. */
static bool asks_for_first(const char *name, char room[PATH_MAX]) {
    size_t n = strlen(name);
    if (n < 3 || n >= PATH_MAX || strcmp(name + n - 2, ".0") != 0 ||
        access(name, F_OK) == 0)
        return false;
    snprintf(room, PATH_MAX, "%.*s", (int)n - 2, name);
    struct mtf_raw_info info;
    return tool_raw_is_file(room) && tool_raw_read_header(room, &info);
}

/* Leaves the recordings of NAME's process in ALL, the one to read first. Sets
   NEAR as keep_related does. */
static void choose_recording(struct open_recordings *all, char *near) {
    keep_related(all, near);
    if (all->count < 2)
        return;
    count_all(all);
    if (!all->list[0].clean_end) {
        qsort(all->list, all->count, sizeof(*all->list), compare_recordings);
        return;
    }
    /* The process stopped this recording and began others. */
    snprintf(near, PATH_MAX, "%s", all->list[1].path);
    while (all->count > 1)
        drop_recording(all, 1);
}

const char *open_recordings_choose(const char *name, char room[PATH_MAX]) {
    struct open_recordings all = {0};
    char near[PATH_MAX] = "";
    const char *chosen = name;
    if (strcmp(name, "-") == 0 || strlen(name) >= PATH_MAX - 16 ||
        !tool_raw_is_file(name))
        return name;
    if (asks_for_first(name, room))
        return room;
    bool several = find_numbered(&all, name) && all.count > 1;
    if (several)
        choose_recording(&all, near);
    if (several && strcmp(all.list[0].path, name) != 0) {
        tell_choice(&all, name);
        snprintf(room, PATH_MAX, "%s", all.list[0].path);
        chosen = room;
    } else if (*near != '\0') {
        tool_warn("%s is read; %s may be of the same run, and is read by that "
                  "name",
                  name, near);
    }
    open_recordings_free(&all);
    return chosen;
}

int open_recordings_join_spools(char **name, int count) {
    static const char end[] = ".spool";
    int kept = 0;
    for (int i = 0; i < count; i++) {
        size_t n = strlen(name[i]), base = n - (sizeof(end) - 1);
        bool joins = false;
        if (n > sizeof(end) - 1 && strcmp(name[i] + base, end) == 0)
            for (int k = 0; k < count && !joins; k++)
                joins = strncmp(name[k], name[i], base) == 0 &&
                        name[k][base] == '\0';
        /* Names that moved are found at their new places. */
        if (!joins)
            name[kept++] = name[i];
    }
    return kept;
}
