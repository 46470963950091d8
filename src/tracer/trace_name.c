/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/trace_name.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "base/os_file.h"
#include "tracer/trace_process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif
/* For a number and ".spool" behind the output's name. */
#define NAME_ROOM 24u
#define LINKS_MAX 16
/* Names tried before a recording gives up. */
#define NUMBERS_MAX 100000u
/* Kernel's unit of process start times, whatever the architecture. */
#define TICKS_PER_SECOND 100u

/*
 * A link at the name stands for what it points to: that is what is replaced,
 * and the spool lies beside it. rec->name is room to work in.
 */
static void follow_links(struct mtr_recorder *rec) {
    struct tcm_fmt f;
    for (int i = 0; i < LINKS_MAX; i++) {
        char *target = rec->name;
        long n = syscall(SYS_readlinkat, AT_FDCWD, rec->output, target,
                         sizeof(rec->name) - 1);
        if (n <= 0)
            break;
        target[n] = '\0';
        size_t folder = 0;
        if (target[0] != '/')
            folder = (size_t)(strrchr(rec->output, '/') - rec->output) + 1;
        if (folder + (size_t)n + NAME_ROOM >= sizeof(rec->output))
            break;
        tcm_fmt_init(&f, rec->output + folder, sizeof(rec->output) - folder);
        tcm_fmt_str(&f, target);
    }
    rec->name[0] = '\0';
}

bool mtr_name_expand(struct mtr_recorder *rec) {
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
    if ((is_given ? rec->pattern_is_bad : mtr_config.pattern_is_bad) || f.cut ||
        f.len + NAME_ROOM >= sizeof(rec->output))
        return false;
    if (mtr_name_kind(rec->output) == MTR_OUTPUT_FILE)
        follow_links(rec);
    return true;
}

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

enum mtr_output_kind mtr_name_kind(const char *path) {
    if (begins(path, "/dev/fd/") || begins(path, "/proc/self/fd/") ||
        strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stderr") == 0)
        return MTR_OUTPUT_FD;
    struct stat st;
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode))
        return MTR_OUTPUT_FILE;
    return S_ISFIFO(st.st_mode) ? MTR_OUTPUT_FIFO : MTR_OUTPUT_DEVICE;
}

char *mtr_name_temporary(struct mtr_recorder *rec) {
    static char text[PATH_MAX];
    static uint32_t counter;
    const char *slash = strrchr(rec->output, '/');
    struct tcm_fmt f;
    tcm_fmt_init(&f, text, sizeof(text));
    tcm_fmt_mem(&f, rec->output, (size_t)(slash - rec->output) + 1);
    tcm_fmt_str(&f, ".malloc-trace-");
    tcm_fmt_u64(&f, mtr_config.self.pid);
    tcm_fmt_char(&f, '-');
    tcm_fmt_hex(&f, rec->random + counter++);
    return f.cut ? NULL : text;
}

static const char *with_suffix(char *text, const char *name,
                               const char *suffix) {
    struct tcm_fmt f;
    tcm_fmt_init(&f, text, PATH_MAX);
    tcm_fmt_str(&f, name);
    tcm_fmt_str(&f, suffix);
    return f.cut ? NULL : text;
}

const char *mtr_name_spool(struct mtr_recorder *rec) {
    static char text[PATH_MAX];
    if (rec->name[0] == '\0')
        return NULL;
    return with_suffix(text, rec->name, ".spool");
}

const char *mtr_name_part(const struct mtr_recorder *rec, uint32_t number) {
    static char text[PATH_MAX];
    char suffix[] = ".k0";
    suffix[2] = (char)('0' + number % MTF_PARTS);
    return with_suffix(text, rec->name, suffix);
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
    TAKE_FREE,  /* only names that nothing has */
    REPLACE,    /* anything but a living recording */
    REPLACE_OLD /* what was made before this process began, and not living */
};

enum placed { PLACED, TAKEN, IMPOSSIBLE };

/* An image that was exec'd, or a second recording of one. */
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

static bool exists(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

/*
 * Whether the file was made in this process's life: by a recording of the same
 * run, which must not be lost to the names of a chain of execs. Both times are
 * rounded towards "yes".
 */
static bool is_recent(const char *path) {
    struct statx st;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BTIME | STATX_MTIME,
              &st) != 0)
        return false;
    const struct statx_timestamp *made =
        (st.stx_mask & STATX_BTIME) != 0 ? &st.stx_btime : &st.stx_mtime;
    uint64_t made_ns = (uint64_t)made->tv_sec * 1000000000u + made->tv_nsec;
    uint64_t age = tcm_clock_read_ns(CLOCK_BOOTTIME) -
                   mtr_config.self.start * (1000000000u / TICKS_PER_SECOND);
    return made_ns >= tcm_clock_wall_ns() - age;
}

/* A flight recording has the names of its parts alone. Another one does not
   look at these: each is a file of its own, and looking for one that is not
   there takes longer than all else that a short process asks of a folder. */
static bool name_has(const struct mtr_recorder *rec,
                     bool (*property)(const char *path)) {
    bool has = property(rec->name);
    for (uint32_t i = 0; i < MTF_PARTS && rec->keeps && !has; i++) {
        const char *part = mtr_name_part(rec, i);
        has = part != NULL && property(part);
    }
    return has;
}

/* rename that never replaces. errno tells. */
static bool rename_new(const char *from, const char *to) {
    if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to,
                RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    /* File systems that cannot: a second name, then the first one goes. */
    if (syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0) != 0)
        return false;
    syscall(SYS_unlinkat, AT_FDCWD, from, 0);
    return true;
}

static bool rename_over(const char *from, const char *to) {
    return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0) == 0 ||
           (errno == ENOSYS && rename(from, to) == 0);
}

/*
 * Replaces the spool at PATH unless its recording lives. Its lock is held while
 * it is replaced: of two that find the same dead spool only one gets it, and
 * the other then finds the winner's living one. A lock for reading, which
 * another user may have if he may read it, is no recording's. What another user
 * has at the name, and does not let us replace, is left to him.
 */
static enum placed replace_spool(const char *temp, const char *path) {
    struct stat held, named;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path,
                          O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE ? IMPOSSIBLE : TAKEN;
    enum placed result = TAKEN;
    if ((tcm_file_lock(fd) || !tcm_file_is_locked(fd)) &&
        fstat(fd, &held) == 0 && lstat(path, &named) == 0 &&
        held.st_ino == named.st_ino && held.st_dev == named.st_dev) {
        if (rename_over(temp, path))
            result = PLACED;
        else if (errno != EPERM && errno != EACCES)
            result = IMPOSSIBLE;
    }
    syscall(SYS_close, fd);
    return result;
}

static enum placed try_spool(struct mtr_recorder *rec, const char *temp,
                             uint32_t number) {
    enum policy policy = policy_of(rec, number);
    set_name(rec, number);
    const char *path = mtr_name_spool(rec);
    if (path == NULL)
        return IMPOSSIBLE;
    if (policy == TAKE_FREE && name_has(rec, exists))
        return TAKEN;
    if (policy == REPLACE_OLD && (name_has(rec, is_recent) || is_recent(path)))
        return TAKEN;
    if (rename_new(temp, path))
        return PLACED;
    if (errno != EEXIST)
        return IMPOSSIBLE;
    return policy == TAKE_FREE ? TAKEN : replace_spool(temp, path);
}

bool mtr_name_place_spool(struct mtr_recorder *rec, const char *temp) {
    enum placed placed = TAKEN;
    uint32_t first = first_number(rec);
    for (uint32_t n = first; placed == TAKEN && n < first + NUMBERS_MAX; n++)
        placed = try_spool(rec, temp, n);
    if (placed != PLACED)
        rec->name[0] = '\0';
    return placed == PLACED;
}

bool mtr_name_renew_spool(struct mtr_recorder *rec, const char *temp) {
    const char *path = mtr_name_spool(rec);
    return path != NULL && rename_new(temp, path);
}

static enum placed try_output(struct mtr_recorder *rec, const char *temp,
                              uint32_t number) {
    enum policy policy = policy_of(rec, number);
    set_name(rec, number);
    if (policy == REPLACE_OLD && name_has(rec, is_recent))
        return TAKEN;
    if (policy == TAKE_FREE) {
        const char *spool = mtr_name_spool(rec);
        if (spool != NULL && exists(spool))
            return TAKEN;
        if (rename_new(temp, rec->name))
            return PLACED;
        return errno == EEXIST ? TAKEN : IMPOSSIBLE;
    }
    return rename_over(temp, rec->name) ? PLACED : IMPOSSIBLE;
}

bool mtr_name_place_output(struct mtr_recorder *rec, const char *temp) {
    /* The spool has the name already, and is a whole trace until the file is
       there. What is at the name goes first: renaming over it would make some
       file systems write the new file's data at once. */
    if (rec->name[0] != '\0') {
        syscall(SYS_unlinkat, AT_FDCWD, rec->name, 0);
        return rename_over(temp, rec->name);
    }
    enum placed placed = TAKEN;
    uint32_t first = first_number(rec);
    for (uint32_t n = first; placed == TAKEN && n < first + NUMBERS_MAX; n++)
        placed = try_output(rec, temp, n);
    return placed == PLACED;
}

void mtr_name_remove_part(const struct mtr_recorder *rec, uint32_t part) {
    const char *path = mtr_name_part(rec, part);
    if (path != NULL)
        syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

bool mtr_name_place_part(struct mtr_recorder *rec, const char *temp,
                         uint32_t part) {
    if (part == 0) {
        /* Chooses the name, if there is no spool that has it. */
        if (rec->name[0] == '\0' && !mtr_name_place_output(rec, temp))
            return false;
        for (uint32_t i = 0; i < MTF_PARTS; i++)
            mtr_name_remove_part(rec, i);
        if (exists(temp))
            syscall(SYS_unlinkat, AT_FDCWD, rec->name, 0);
        else
            temp = rec->name;
    }
    const char *path = mtr_name_part(rec, part);
    return path != NULL && rename_over(temp, path);
}
