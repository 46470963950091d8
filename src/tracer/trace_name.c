/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/trace_name.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "base/linux/os_file.h"
#include "base/linux/os_syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif
/* Bytes for a number and ".spool" behind the output's name. */
#define NAME_ROOM 24u
#define LINKS_MAX 16
/* Names that are tried before a recording gives up. */
#define NUMBERS_MAX 100000u
/* Unit of process start times, on every architecture. */
#define TICKS_PER_SECOND 100u

/* Working space of tcm_place_find. */
static char scratch[PATH_MAX];

static bool has_prefix(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_descriptor(const char *path) {
    return has_prefix(path, "/dev/fd/") || has_prefix(path, "/proc/self/fd/") ||
           strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stderr") == 0;
}

static enum mtr_output_kind kind_at(const struct tcm_place *place,
                                    const char *path) {
    if (place->is_magic && is_descriptor(path))
        return MTR_OUTPUT_FD;
    if (S_ISFIFO(place->mode))
        return MTR_OUTPUT_FIFO;
    return place->mode == 0 || (S_ISREG(place->mode) && !place->is_magic)
               ? MTR_OUTPUT_FILE
               : MTR_OUTPUT_DEVICE;
}

/*
 * A link at the name stands for the file that it points to: that file is
 * replaced, and the spool lies beside it.
 */
int mtr_name_resolve(struct mtr_recorder *rec) {
    struct tcm_place place;
    rec->kind = MTR_OUTPUT_FD;
    if (is_descriptor(rec->output))
        return 0;
    rec->kind = MTR_OUTPUT_UNKNOWN;
    if (!tcm_place_find(&place, rec->output, scratch))
        return errno;
    tcm_syscall(SYS_close, place.folder);
    if (strlen(rec->output) + NAME_ROOM >= sizeof(rec->output))
        return ENAMETOOLONG;
    if (place.name[0] == '\0')
        return EISDIR;
    rec->kind = kind_at(&place, rec->output);
    rec->keeps = mtr_config.keep_bytes != 0 && rec->kind == MTR_OUTPUT_FILE;
    /* A file is replaced, not written to. */
    return place.is_foreign && rec->kind != MTR_OUTPUT_FILE ? TCM_EFOREIGN : 0;
}

int mtr_name_expand(struct mtr_recorder *rec) {
    struct tcm_fmt f;
    tcm_fmt_init(&f, rec->output, sizeof(rec->output));
    bool is_given = rec->pattern[0] != '\0';
    const char *p = is_given ? rec->pattern : mtr_config.pattern;
    for (; *p != '\0'; p++) {
        if (*p != '%' || p[1] == '\0') {
            tcm_fmt_char(&f, *p);
            continue;
        }
        p++;
        if (*p == 'p') {
            tcm_fmt_u64(&f, mtr_config.self.pid);
        } else if (*p == 'e') {
            tcm_fmt_str(&f, mtr_config.executable);
        } else {
            if (*p != '%')
                tcm_fmt_char(&f, '%');
            tcm_fmt_char(&f, *p);
        }
    }
    int error = is_given ? rec->pattern_error : mtr_config.pattern_error;
    if (error != 0)
        return error;
    if (f.cut || f.len + NAME_ROOM >= sizeof(rec->output))
        return ENAMETOOLONG;
    rec->keeps = false;
    error = mtr_name_resolve(rec);
    /* The program has no descriptor left. The saver has. */
    return error == EMFILE ? 0 : error;
}

int mtr_name_open_output(struct mtr_recorder *rec, int flags) {
    static char path[PATH_MAX];
    struct tcm_place place;
    if (rec->kind == MTR_OUTPUT_FD)
        return (int)tcm_syscall(SYS_openat, AT_FDCWD, rec->output,
                                flags | O_CLOEXEC, 0);
    memcpy(path, rec->output, sizeof(path));
    if (!tcm_place_find(&place, path, scratch))
        return -1;
    int fd = tcm_place_open(&place, flags);
    int saved = errno;
    tcm_syscall(SYS_close, place.folder);
    errno = saved;
    return fd;
}

/* --- The folder ----------------------------------------------------------- */

static const char *last_name(const char *path) {
    return strrchr(path, '/') + 1;
}

int mtr_folder(struct mtr_recorder *rec) {
    static char path[PATH_MAX];
    struct tcm_place place;
    if (rec->folder_plus_1 != 0)
        return rec->folder_plus_1 - 1;
    size_t n = (size_t)(last_name(rec->output) - rec->output);
    memcpy(path, rec->output, n);
    path[n] = '\0';
    return tcm_place_find(&place, path, scratch) ? place.folder : -1;
}

void mtr_folder_close(struct mtr_recorder *rec, int folder) {
    int saved = errno;
    if (rec->folder_plus_1 == 0)
        tcm_syscall(SYS_close, folder);
    errno = saved;
}

bool mtr_folder_keep_open(struct mtr_recorder *rec) {
    rec->folder_plus_1 = mtr_folder(rec) + 1;
    return rec->folder_plus_1 != 0;
}

void mtr_folder_release(struct mtr_recorder *rec) {
    int folder = rec->folder_plus_1 - 1;
    rec->folder_plus_1 = 0;
    if (folder >= 0)
        mtr_folder_close(rec, folder);
}

int mtr_folder_open(struct mtr_recorder *rec, const char *name, int flags) {
    int folder = mtr_folder(rec);
    if (folder < 0)
        return -1;
    int fd = (int)tcm_syscall(SYS_openat, folder, name,
                              flags | O_NOFOLLOW | O_CLOEXEC, 0);
    mtr_folder_close(rec, folder);
    return fd;
}

void mtr_folder_remove(struct mtr_recorder *rec, const char *name) {
    int folder = mtr_folder(rec);
    if (folder < 0)
        return;
    tcm_syscall(SYS_unlinkat, folder, name, 0);
    mtr_folder_close(rec, folder);
}

/* --- Names in it ---------------------------------------------------------- */

const char *mtr_name_output(const struct mtr_recorder *rec) {
    return last_name(rec->name[0] != '\0' ? rec->name : rec->output);
}

char *mtr_name_temporary(struct mtr_recorder *rec) {
    static char text[64];
    static uint32_t counter;
    struct tcm_fmt f;
    tcm_fmt_init(&f, text, sizeof(text));
    tcm_fmt_str(&f, ".malloc-trace-");
    tcm_fmt_u64(&f, mtr_config.self.pid);
    tcm_fmt_char(&f, '-');
    tcm_fmt_hex(&f, rec->random + counter++);
    return text;
}

static const char *with_suffix(char *text, const struct mtr_recorder *rec,
                               const char *suffix) {
    struct tcm_fmt f;
    tcm_fmt_init(&f, text, PATH_MAX);
    tcm_fmt_str(&f, mtr_name_output(rec));
    tcm_fmt_str(&f, suffix);
    return f.cut ? NULL : text;
}

const char *mtr_name_spool(const struct mtr_recorder *rec) {
    static char text[PATH_MAX];
    if (rec->name[0] == '\0')
        return NULL;
    return with_suffix(text, rec, ".spool");
}

const char *mtr_name_part(const struct mtr_recorder *rec, uint32_t number) {
    static char text[PATH_MAX];
    char suffix[] = ".k0";
    suffix[2] = (char)('0' + number % MTF_PARTS);
    return with_suffix(text, rec, suffix);
}

static void set_name(struct mtr_recorder *rec, uint32_t number) {
    struct tcm_fmt f;
    tcm_fmt_init(&f, rec->name, sizeof(rec->name));
    tcm_fmt_str(&f, rec->output);
    if (number != 0) {
        tcm_fmt_char(&f, '.');
        tcm_fmt_u64(&f, number);
    }
    rec->name_number = number;
}

/* --- Choosing ------------------------------------------------------------ */

enum policy {
    TAKE_FREE,  /* only names that no file has */
    REPLACE,    /* any file but a living recording's */
    REPLACE_OLD /* files older than this process, not a living recording's */
};

enum placed { PLACED, TAKEN, IMPOSSIBLE };

/* True for an image that was exec'd, and for a later recording of the same
   process. */
static bool continues(const struct mtr_recorder *rec) {
    return mtr_config.starts != 0 ||
           (mtr_config.continues && rec->pattern[0] == '\0');
}

static enum policy policy_of(const struct mtr_recorder *rec, uint32_t number) {
    if (mtr_is_per_process(rec))
        return TAKE_FREE;
    if (continues(rec))
        return REPLACE_OLD;
    return number == 0 ? REPLACE : TAKE_FREE;
}

static uint32_t first_number(const struct mtr_recorder *rec) {
    if (mtr_is_per_process(rec) || rec->pattern[0] != '\0' ||
        !mtr_config.continues)
        return 0;
    return mtr_config.owner_name + 1; /* MTR_NO_NUMBER: 0 */
}

static bool exists(int folder, const char *name) {
    struct stat st;
    return tcm_fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The kernel's struct statx, which not every C library declares. */
struct file_times {
    uint32_t mask, others[15];
    struct {
        int64_t sec;
        uint32_t nsec, pad;
    } atime, btime, ctime, mtime;
    uint64_t more[16];
};
TCM_STATIC_ASSERT(sizeof(struct file_times) == 256, "what the kernel writes");
#define HAS_MTIME 0x40u
#define HAS_BTIME 0x800u

/*
 * True if the file was made in this process's life: by a recording of the same
 * run, which must not be lost to the names of a chain of execs. Both times are
 * rounded towards "yes".
 */
static bool is_recent(int folder, const char *name) {
    struct file_times st;
    if (tcm_syscall(SYS_statx, folder, name, AT_SYMLINK_NOFOLLOW,
                    HAS_BTIME | HAS_MTIME, &st) != 0)
        return false;
    bool has_made = (st.mask & HAS_BTIME) != 0;
    uint64_t made_ns =
        has_made ? (uint64_t)st.btime.sec * 1000000000u + st.btime.nsec
                 : (uint64_t)st.mtime.sec * 1000000000u + st.mtime.nsec;
    uint64_t age = tcm_clock_read_ns(CLOCK_BOOTTIME) -
                   mtr_config.self.start * (1000000000u / TICKS_PER_SECOND);
    return made_ns >= tcm_clock_wall_ns() - age;
}

/* True if a file of the recording's name has PROPERTY. A flight recording has
   only names of parts. Other recordings do not check these: each is a separate
   file, and looking up a missing file takes longer than everything else that a
   short process asks of a folder. */
static bool name_has(const struct mtr_recorder *rec, int folder,
                     bool (*property)(int folder, const char *name)) {
    bool has = property(folder, mtr_name_output(rec));
    for (uint32_t i = 0; i < MTF_PARTS && rec->keeps && !has; i++) {
        const char *part = mtr_name_part(rec, i);
        has = part != NULL && property(folder, part);
    }
    return has;
}

/* Renames without ever replacing. false: errno says why. */
static bool rename_new(int folder, const char *from, const char *to) {
    if (tcm_syscall(SYS_renameat2, folder, from, folder, to,
                    RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    /* On file systems that cannot: add a second name, then remove the first. */
    if (tcm_syscall(SYS_linkat, folder, from, folder, to, 0) != 0)
        return false;
    tcm_syscall(SYS_unlinkat, folder, from, 0);
    return true;
}

static bool rename_over(int folder, const char *from, const char *to) {
    return tcm_syscall(SYS_renameat2, folder, from, folder, to, 0) == 0 ||
           (errno == ENOSYS &&
            tcm_call(renameat, folder, from, folder, to) == 0);
}

/*
 * Replaces the spool NAME unless its recording lives. The spool's lock is held
 * meanwhile, so of two recordings that find a dead spool only one gets it, and
 * the other finds a living one. A read lock, which any user who may read the
 * file can take, is not that of a recording. A file of another user that cannot
 * be replaced stays.
 */
static enum placed replace_spool(int folder, const char *temp,
                                 const char *name) {
    struct stat held, named;
    int fd = (int)tcm_syscall(SYS_openat, folder, name,
                              O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE ? IMPOSSIBLE : TAKEN;
    enum placed result = TAKEN;
    if ((tcm_file_lock(fd) || !tcm_file_is_locked(fd)) &&
        tcm_fstat(fd, &held) == 0 &&
        tcm_fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
        held.st_ino == named.st_ino && held.st_dev == named.st_dev) {
        if (rename_over(folder, temp, name))
            result = PLACED;
        else if (errno != EPERM && errno != EACCES)
            result = IMPOSSIBLE;
    }
    tcm_syscall(SYS_close, fd);
    return result;
}

static enum placed try_spool(struct mtr_recorder *rec, int folder,
                             const char *temp, uint32_t number) {
    enum policy policy = policy_of(rec, number);
    set_name(rec, number);
    const char *name = mtr_name_spool(rec);
    if (name == NULL)
        return IMPOSSIBLE;
    if (policy == TAKE_FREE && name_has(rec, folder, exists))
        return TAKEN;
    if (policy == REPLACE_OLD &&
        (name_has(rec, folder, is_recent) || is_recent(folder, name)))
        return TAKEN;
    if (rename_new(folder, temp, name))
        return PLACED;
    if (errno != EEXIST)
        return IMPOSSIBLE;
    return policy == TAKE_FREE ? TAKEN : replace_spool(folder, temp, name);
}

static enum placed try_output(struct mtr_recorder *rec, int folder,
                              const char *temp, uint32_t number) {
    enum policy policy = policy_of(rec, number);
    set_name(rec, number);
    if (policy == REPLACE_OLD && name_has(rec, folder, is_recent))
        return TAKEN;
    if (policy == TAKE_FREE) {
        const char *spool = mtr_name_spool(rec);
        if (spool != NULL && exists(folder, spool))
            return TAKEN;
        if (rename_new(folder, temp, mtr_name_output(rec)))
            return PLACED;
        return errno == EEXIST ? TAKEN : IMPOSSIBLE;
    }
    return rename_over(folder, temp, mtr_name_output(rec)) ? PLACED
                                                           : IMPOSSIBLE;
}

/* Places TEMP under the first free number. false: errno says why there is
   none. */
static bool place_first(struct mtr_recorder *rec, const char *temp,
                        enum placed (*try)(struct mtr_recorder *rec, int folder,
                                           const char *temp, uint32_t number)) {
    enum placed placed = TAKEN;
    uint32_t first = first_number(rec);
    int folder = mtr_folder(rec);
    if (folder < 0)
        return false;
    for (uint32_t n = first; placed == TAKEN && n < first + NUMBERS_MAX; n++)
        placed = try(rec, folder, temp, n);
    mtr_folder_close(rec, folder);
    return placed == PLACED;
}

bool mtr_name_place_spool(struct mtr_recorder *rec, const char *temp) {
    bool placed = place_first(rec, temp, try_spool);
    if (!placed)
        rec->name[0] = '\0';
    return placed;
}

bool mtr_name_renew_spool(struct mtr_recorder *rec, const char *temp) {
    const char *name = mtr_name_spool(rec);
    int folder = name == NULL ? -1 : mtr_folder(rec);
    if (folder < 0)
        return false;
    bool ok = rename_new(folder, temp, name);
    mtr_folder_close(rec, folder);
    return ok;
}

bool mtr_name_place_output(struct mtr_recorder *rec, const char *temp) {
    if (rec->name[0] == '\0')
        return place_first(rec, temp, try_output);
    /* The spool has the name already, and is a whole trace until the file is
       there. A file at the name is removed first: renaming over it would make
       some file systems write the new file's data at once. */
    int folder = mtr_folder(rec);
    if (folder < 0)
        return false;
    tcm_syscall(SYS_unlinkat, folder, mtr_name_output(rec), 0);
    bool ok = rename_over(folder, temp, mtr_name_output(rec));
    mtr_folder_close(rec, folder);
    return ok;
}

void mtr_name_remove_part(struct mtr_recorder *rec, uint32_t part) {
    const char *name = mtr_name_part(rec, part);
    if (name != NULL)
        mtr_folder_remove(rec, name);
}

bool mtr_name_place_part(struct mtr_recorder *rec, const char *temp,
                         uint32_t part) {
    /* Without a spool the name is chosen now. */
    if (part == 0 && rec->name[0] == '\0' && !mtr_name_place_output(rec, temp))
        return false;
    int folder = mtr_folder(rec);
    if (folder < 0)
        return false;
    if (part == 0) {
        for (uint32_t i = 0; i < MTF_PARTS; i++)
            mtr_name_remove_part(rec, i);
        if (exists(folder, temp))
            tcm_syscall(SYS_unlinkat, folder, mtr_name_output(rec), 0);
        else
            temp = mtr_name_output(rec);
    }
    const char *name = mtr_name_part(rec, part);
    bool ok = name != NULL && rename_over(folder, temp, name);
    mtr_folder_close(rec, folder);
    return ok;
}
