/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/files.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_file.h"
#include "common/main.h"
#include "common/stop.h"
#include "traceformat/raw_layout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Attempts at a name that other processes make and remove meanwhile. */
#define TRIES 100

bool tool_file_find_command(const char *command, char path[PATH_MAX]) {
    if (strchr(command, '/') != NULL) {
        snprintf(path, PATH_MAX, "%s", command);
        return true;
    }
    const char *list = getenv("PATH");
    if (list == NULL)
        list = "/bin:/usr/bin";
    for (;;) {
        size_t length = strcspn(list, ":");
        int n = length == 0 ? snprintf(path, PATH_MAX, "%s", command)
                            : snprintf(path, PATH_MAX, "%.*s/%s", (int)length,
                                       list, command);
        struct stat st;
        if (n > 0 && n < PATH_MAX && stat(path, &st) == 0 &&
            S_ISREG(st.st_mode) && access(path, X_OK) == 0)
            return true;
        if (list[length] == '\0')
            return false;
        list += length + 1;
    }
}

bool tool_file_is_stdout(const char *name) {
    return name == NULL || strcmp(name, "-") == 0 ||
           strcmp(name, "/dev/stdout") == 0 || strcmp(name, "/dev/fd/1") == 0 ||
           strcmp(name, "/proc/self/fd/1") == 0;
}

const char *tool_file_base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

bool tool_file_is_part(const char *name) {
    size_t n = strlen(name);
    return n > 3 && name[n - 3] == '.' && name[n - 2] == 'k' &&
           name[n - 1] >= '0' && name[n - 1] < (char)('0' + MTF_PARTS);
}

size_t tool_file_escape(char *out, size_t room, const char *s) {
    size_t length = 0;
    TCM_ASSERT(room != 0);
    for (; *s != '\0'; s++)
        for (int n = *s == '%' ? 2 : 1; n > 0; n--)
            if (length++ < room - 1)
                out[length - 1] = *s;
    out[length < room ? length : room - 1] = '\0';
    return length;
}

bool tool_file_make_pattern(char *out, size_t room, const char *file) {
    char here[PATH_MAX];
    size_t used = 0;
    if (*file != '/') {
        if (getcwd(here, sizeof(here)) == NULL) {
            tool_error("cannot tell the current folder: %s", strerror(errno));
            return false;
        }
        used = tool_file_escape(out, room, here);
        if (used + 1 < room && used != 0 && out[used - 1] != '/')
            out[used++] = '/';
    }
    if (used + strlen(file) >= room) {
        tool_error("the name of the output is too long: %s", file);
        return false;
    }
    memcpy(out + used, file, strlen(file) + 1);
    TCM_ASSERT(out[0] == '/');
    return true;
}

bool tool_file_is_trace(const char *name) {
    static const char trace[] = "\x89MT", frame[] = "\x04\x22\x4d\x18";
    char start[4] = "";
    struct stat st;
    size_t got = 0;
    if (stat(name, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool good = tcm_io_read_full(fd, start, sizeof(start), &got);
    close(fd);
    return good && (memcmp(start, trace, 3) == 0 ||
                    memcmp(start, frame, sizeof(start)) == 0);
}

bool tool_file_any_in(int folder, bool (*visit)(int folder, const char *name)) {
    /* A second open of the folder has a position of its own. */
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = again < 0 ? NULL : fdopendir(again);
    struct dirent *entry;
    bool found = false;
    if (dir == NULL) {
        if (again >= 0)
            close(again);
        return false;
    }
    while (!found && (entry = readdir(dir)) != NULL)
        found = strcmp(entry->d_name, ".") != 0 &&
                strcmp(entry->d_name, "..") != 0 &&
                visit(folder, entry->d_name);
    closedir(dir);
    return found;
}

/* --- Opening -------------------------------------------------------------- */

static bool find_place(struct tcm_place *place, const char *name) {
    static char path[PATH_MAX], room[PATH_MAX];
    if (strlen(name) >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(path, *name == '\0' ? "." : name);
    return tcm_place_find(place, path, room);
}

/* Truncates FD if it is a regular file. Returns FD; -1: closed, errno tells
   why. */
static int truncated(int fd) {
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(fd, 0) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* Opens another user's file in a folder that some users share, such as a
   group's. */
static int open_shared(const struct tcm_place *place) {
    struct stat st;
    errno = TCM_EFOREIGN;
    if (!S_ISREG(place->mode) || fstat(place->folder, &st) != 0 ||
        (st.st_mode & (S_IWOTH | S_ISVTX)) != 0)
        return -1;
    int fd = openat(place->folder, place->name,
                    O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
        return fd < 0 ? fd : truncated(fd);
    close(fd);
    errno = TCM_EFOREIGN;
    return -1;
}

static int try_open(const struct tcm_place *place) {
    if (place->is_foreign)
        return open_shared(place);
    if (place->mode != 0 || place->name[0] == '\0') {
        int fd = tcm_place_open(place, O_WRONLY);
        return fd < 0 ? fd : truncated(fd);
    }
    return openat(place->folder, place->name,
                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

const char *tool_file_error_text(int error) {
    return error == TCM_EFOREIGN ? TCM_EFOREIGN_TEXT : strerror(error);
}

int tool_file_open_output(const char *name) {
    struct tcm_place place;
    int fd = -1;
    errno = EEXIST;
    for (int i = 0; i < TRIES && fd < 0 && (errno == EEXIST || errno == ENOENT);
         i++) {
        if (!find_place(&place, name))
            return -1;
        fd = try_open(&place);
        int error = errno;
        close(place.folder);
        errno = error;
    }
    return fd;
}

FILE *tool_file_stream(const char *name) {
    if (tool_file_is_stdout(name))
        return stdout;
    int fd = tool_file_open_output(name);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (f == NULL)
        tool_error("cannot write %s: %s", name, tool_file_error_text(errno));
    if (f == NULL && fd >= 0)
        close(fd);
    return f;
}

bool tool_file_stream_end(FILE *f, const char *name) {
    /* errno is most likely still that of an earlier write that failed */
    int error = errno == 0 ? EIO : errno;
    bool good = !ferror(f);
    if (good && fflush(f) != 0) {
        good = false;
        error = errno;
    }
    if (f != stdout && fclose(f) != 0 && good) {
        good = false;
        error = errno;
    }
    if (!good && f == stdout)
        tool_stdout_failed(error);
    else if (!good)
        tool_error("cannot write %s: %s", name, strerror(error));
    return good;
}

/* --- Files that are named when they are complete -------------------------- */

/* Tells whether NAME is a symbolic link. */
static bool is_link(const char *name) {
    struct stat st;
    return lstat(name, &st) == 0 && S_ISLNK(st.st_mode);
}

/* Tells whether a new file may replace the one at PLACE, which is writable,
   this user's, and has no other name. Fills ST. false: errno is 0 if it is
   writable. */
static bool is_replaceable(const struct tcm_place *place, struct stat *st) {
    int fd = tcm_place_open(place, O_WRONLY | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool good = fstat(fd, st) == 0 && S_ISREG(st->st_mode) &&
                st->st_nlink == 1 && st->st_uid == geteuid();
    close(fd);
    errno = 0;
    return good;
}

/* Names of files that are locked while their program writes them. */
#define TEMP_PREFIX ".malloc-trace.new-"

/* Removes the file NAME in FOLDER if it was left by a program that was killed.
   Returns false: other files follow. */
static bool remove_if_left(int folder, const char *name) {
    struct stat st;
    if (strncmp(name, TEMP_PREFIX, sizeof(TEMP_PREFIX) - 1) != 0)
        return false;
    int fd =
        openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        tcm_file_lock(fd))
        (void)unlinkat(folder, name, 0);
    close(fd);
    return false;
}

/* Locks the new file FD until it has its name. false: another program, which
   found it unlocked, removes it. */
static bool lock_new(struct tool_file_new *n, int fd) {
    struct stat st;
    if (!tcm_file_lock(fd) && (errno == EAGAIN || errno == EACCES))
        return false;
    if (fstat(fd, &st) != 0 || st.st_nlink == 0)
        return false;
    n->lock = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return n->lock >= 0;
}

static int make_temporary(struct tool_file_new *n, int folder, mode_t mode) {
    tool_file_any_in(folder, remove_if_left);
    errno = EEXIST;
    for (int i = 0; i < TRIES; i++) {
        (void)snprintf(n->temp, sizeof(n->temp), TEMP_PREFIX "%ld-%llx",
                       (long)getpid(),
                       (unsigned long long)tcm_clock_ns() + (unsigned)i);
        int fd =
            openat(folder, n->temp,
                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd < 0 && errno != EEXIST)
            return -1;
        if (fd >= 0 && lock_new(n, fd))
            return fd;
        if (fd >= 0) {
            (void)unlinkat(folder, n->temp, 0);
            close(fd);
        }
    }
    return -1;
}

/* Makes a new file beside PLACE, with the mode and group of the file there. -1:
   that is not possible. */
static int open_beside(struct tool_file_new *n, const struct tcm_place *place) {
    struct stat old, st;
    bool there = place->mode != 0;
    if (place->is_foreign || place->is_magic || place->name[0] == '\0' ||
        strlen(place->name) > NAME_MAX || (there && !S_ISREG(place->mode)) ||
        (there && !is_replaceable(place, &old)))
        return -1;
    int fd = make_temporary(n, place->folder, there ? 0600 : 0666);
    if (fd >= 0 && there &&
        (fstat(fd, &st) != 0 || st.st_gid != old.st_gid ||
         fchmod(fd, old.st_mode & 0777) != 0)) {
        (void)unlinkat(place->folder, n->temp, 0);
        close(fd);
        close(n->lock);
        return -1;
    }
    return fd;
}

int tool_file_open_new(struct tool_file_new *n, const char *name) {
    struct tcm_place place;
    int fd = -1;
    n->folder = -1;
    if (!is_link(name) && find_place(&place, name)) {
        fd = open_beside(n, &place);
        if (fd < 0) {
            close(place.folder);
        } else {
            n->folder = place.folder;
            strcpy(n->name, place.name);
            tool_stop_remove(n->folder, n->temp);
        }
    }
    return fd >= 0 ? fd : tool_file_open_output(name);
}

void tool_file_drop(struct tool_file_new *n) {
    if (n->folder < 0)
        return;
    tool_stop_remove(-1, NULL);
    (void)unlinkat(n->folder, n->temp, 0);
    close(n->lock);
    close(n->folder);
    n->folder = -1;
}

bool tool_file_keep(struct tool_file_new *n) {
    if (n->folder < 0)
        return true;
    TCM_ASSERT(n->temp[0] != '\0' && n->name[0] != '\0');
    bool good = renameat(n->folder, n->temp, n->folder, n->name) == 0;
    int error = errno;
    tool_file_drop(n);
    errno = error;
    return good;
}

/* --- Collisions ----------------------------------------------------------- */

/* File behind a name, existing or to be made. */
struct target {
    bool counts; /* may not be used twice */
    dev_t dev;   /* of the file, or of its folder if it is missing */
    ino_t ino;
    char missing[NAME_MAX + 1]; /* name of a missing file, else "" */
};

/* STANDARD: the descriptor that NAME means, or -1. */
static void target_of(struct target *t, const char *name, int standard) {
    struct stat st;
    struct tcm_place place;
    memset(t, 0, sizeof(*t));
    bool there =
        standard >= 0 ? fstat(standard, &st) == 0 : stat(name, &st) == 0;
    /* devices have several users, sockets two directions */
    t->counts = there && !S_ISCHR(st.st_mode) && !S_ISSOCK(st.st_mode);
    if (!there && standard < 0 && find_place(&place, name)) {
        t->counts = fstat(place.folder, &st) == 0;
        (void)snprintf(t->missing, sizeof(t->missing), "%s", place.name);
        close(place.folder);
    }
    t->dev = st.st_dev;
    t->ino = st.st_ino;
}

static bool is_same(const struct target *a, const struct target *b) {
    return a->counts && b->counts && a->dev == b->dev && a->ino == b->ino &&
           strcmp(a->missing, b->missing) == 0;
}

static bool is_named(const struct target *t, const char *name) {
    struct target other;
    struct stat st;
    if (t->missing[0] == '\0')
        return t->counts && stat(name, &st) == 0 && st.st_dev == t->dev &&
               st.st_ino == t->ino;
    if (strcmp(tool_file_base(name), t->missing) != 0)
        return false;
    target_of(&other, name, -1);
    return is_same(t, &other);
}

/* Tells whether reading the trace NAME reads T: the trace, its spool, or the
   parts of a flight recording. NAME may be any of these. */
static bool belongs_to(const struct target *t, const char *name) {
    char base[PATH_MAX], other[PATH_MAX + 8];
    int n = snprintf(base, sizeof(base), "%s", name);
    if (n >= (int)sizeof(base))
        return false;
    if (n > 6 && strcmp(base + n - 6, ".spool") == 0)
        base[n - 6] = '\0';
    else if (tool_file_is_part(base))
        base[n - 3] = '\0';
    (void)snprintf(other, sizeof(other), "%s.spool", base);
    if (is_named(t, name) || is_named(t, base) || is_named(t, other))
        return true;
    for (unsigned i = 0; i < MTF_PARTS; i++) {
        (void)snprintf(other, sizeof(other), "%s.k%u", base, i);
        if (is_named(t, other))
            return true;
    }
    return false;
}

static bool is_read(const struct target *t, const char *name) {
    struct target input;
    if (name != NULL && strcmp(name, "-") != 0)
        return belongs_to(t, name);
    target_of(&input, NULL, STDIN_FILENO);
    return is_same(t, &input);
}

static bool collides(const char *name, const char *how) {
    (void)tool_usage_error(
        "%s: is %s", tool_file_is_stdout(name) ? "standard output" : name, how);
    return true;
}

bool tool_files_collide(const char *const *out, int outs, const char *const *in,
                        int ins) {
    for (int i = 0; i < outs; i++) {
        struct target t, other;
        bool is_stdout = tool_file_is_stdout(out[i]);
        target_of(&t, out[i], is_stdout ? STDOUT_FILENO : -1);
        for (int k = 0; k < i; k++) {
            bool both = is_stdout && tool_file_is_stdout(out[k]);
            target_of(&other, out[k],
                      tool_file_is_stdout(out[k]) ? STDOUT_FILENO : -1);
            if (both || is_same(&t, &other))
                return collides(out[i], "to be written to twice");
        }
        for (int k = 0; k < ins; k++)
            if (is_read(&t, in[k]))
                return collides(out[i], "both input and output");
    }
    return false;
}

bool tool_files_collide_text(const char *json, const char *const *in, int ins) {
    const char *const out[] = {NULL, json};
    bool two = json != NULL && !tool_file_is_stdout(json);
    return tool_files_collide(out, two ? 2 : 1, in, ins);
}
