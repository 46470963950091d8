/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/temp_folder.h"

#include "base/check.h"
#include "base/linux/os_file.h"
#include "common/files.h"
#include "common/main.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Names of folders. A program that does not lock its folder makes no folder of
   such a name. */
#define PREFIX "malloc-trace."
#define SUFFIX "XXXXXX"

/* Attempts at a folder that another program takes for one that was left
   behind, between its making and its lock. */
#define TRIES 100

const char *tool_temp_place(void) {
    const char *tmp = getenv("TMPDIR");
    bool good = tmp != NULL && *tmp == '/' && strlen(tmp) <= PATH_MAX - 400 &&
                access(tmp, W_OK | X_OK) == 0;
    return good ? tmp : "/tmp";
}

/* --- Folders that were left behind ---------------------------------------- */

static int open_folder(int in, const char *name) {
    return openat(in, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Tells whether a program is recorded to the file NAME. */
static bool is_recorded_to(int folder, const char *name) {
    int fd =
        openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    bool locked = fd >= 0 && tcm_file_is_locked(fd);
    if (fd >= 0)
        close(fd);
    return locked;
}

static bool remove_file(int folder, const char *name) {
    (void)unlinkat(folder, name, 0);
    return false;
}

/* Removes FOLDER, the entry NAME in the folder IN, and the files in it. */
static void remove_all(int folder, int in, const char *name) {
    tool_file_any_in(folder, remove_file);
    (void)unlinkat(in, name, AT_REMOVEDIR);
}

static bool is_own(int folder) {
    struct stat st;
    return fstat(folder, &st) == 0 && st.st_uid == geteuid() &&
           (st.st_mode & 0777) == 0700;
}

static bool is_name(const char *name) {
    return strncmp(name, PREFIX, sizeof(PREFIX) - 1) == 0 &&
           strlen(name) == sizeof(PREFIX SUFFIX) - 1;
}

/* Visits an entry of the place of temporary files. */
static bool remove_if_left(int in, const char *name) {
    int folder = is_name(name) ? open_folder(in, name) : -1;
    if (folder < 0)
        return false;
    if (is_own(folder) && flock(folder, LOCK_EX | LOCK_NB) == 0 &&
        !tool_file_any_in(folder, is_recorded_to))
        remove_all(folder, in, name);
    close(folder);
    return false;
}

static void remove_left(const char *place) {
    int in = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (in < 0)
        return;
    tool_file_any_in(in, remove_if_left);
    close(in);
}

/* --- Folders of this program ---------------------------------------------- */

/* Locks the new folder. false: another program removes it, or has done so. */
static bool lock(struct tool_temp_folder *f) {
    struct stat made, named;
    f->lock = open_folder(AT_FDCWD, f->path);
    if (f->lock < 0)
        return errno != ENOENT;
    if (flock(f->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
        if (fstat(f->lock, &made) == 0 && stat(f->path, &named) == 0 &&
            made.st_dev == named.st_dev && made.st_ino == named.st_ino)
            return true;
    }
    close(f->lock);
    return false;
}

bool tool_temp_folder_make(struct tool_temp_folder *f) {
    const char *place = tool_temp_place();
    TCM_ASSERT(f->path[0] == '\0');
    remove_left(place);
    for (int i = 0; i < TRIES; i++) {
        (void)snprintf(f->path, sizeof(f->path), "%s/" PREFIX SUFFIX, place);
        if (mkdtemp(f->path) == NULL)
            break;
        if (lock(f))
            return true;
    }
    tool_error("cannot make a folder in %s: %s", place, strerror(errno));
    f->path[0] = '\0';
    return false;
}

void tool_temp_folder_remove(struct tool_temp_folder *f) {
    if (f->path[0] == '\0')
        return;
    if (f->lock >= 0) {
        remove_all(f->lock, AT_FDCWD, f->path);
        close(f->lock);
    }
    f->path[0] = '\0';
}
