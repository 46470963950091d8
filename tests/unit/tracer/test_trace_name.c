/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of outputs and spools: patterns, kinds, and the file that a recording
 * gets if there are several.
 */
#include "lib/tap.h"
#include "base/linux/os_file.h"
#include "tracer/saver/spool_file.h"
#include "tracer/trace_name.h"
#include "tracer/trace_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static struct mtr_recorder rec;
static char folder[64];

static const char *in_folder(const char *name) {
    static char path[4][400];
    static unsigned next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof(path[0]), "%s/%s", folder, name);
    return p;
}

static void put(const char *name) {
    int fd = open(in_folder(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, "old", 3) != 3)
        tap_bail("cannot write %s: %s", name, strerror(errno));
    close(fd);
}

static bool there(const char *name) {
    return access(in_folder(name), F_OK) == 0;
}

static bool is_old(const char *name) {
    struct stat st;
    return stat(in_folder(name), &st) == 0 && st.st_size == 3;
}

static void clear(void) {
    DIR *d = opendir(folder);
    struct dirent *e;
    while ((e = readdir(d)) != NULL)
        unlink(in_folder(e->d_name));
    closedir(d);
}

/* --- Patterns ------------------------------------------------------------ */

static void expand(const char *pattern, const char *want) {
    snprintf(mtr_config.pattern, sizeof(mtr_config.pattern), "%s", pattern);
    int error = mtr_name_expand(&rec);
    tap_is_str(error == 0 || error == ENOENT ? rec.output : NULL, want,
               "pattern %.40s", pattern);
}

static void patterns(void) {
    static char text[PATH_MAX];
    mtr_config.self.pid = 4321;
    strcpy(mtr_config.executable, "prog");
    expand("/a/b", "/a/b");
    expand("/a/%p.x", "/a/4321.x");
    expand("/a/%e.%p", "/a/prog.4321");
    expand("/a/%%p", "/a/%p");
    expand("/a/%q", "/a/%q");
    expand("/a/100%", "/a/100%");
    memset(text, 'x', sizeof(text) - 10);
    text[0] = '/';
    expand(text, NULL);
}

static void kind_is(const char *path, enum mtr_output_kind want,
                    const char *what) {
    snprintf(mtr_config.pattern, sizeof(mtr_config.pattern), "%s", path);
    int error = mtr_name_expand(&rec);
    tap_ok(error == 0 && rec.kind == want, "kind: %s", what);
}

/* Links of another user, and changes that he may make to ours. */
static void strangers(void) {
    static const struct {
        const char *name, *link, *by_whom;
        mode_t mode; /* of the folder */
        bool is_fine;
    } c[] = {
        {"s", "target", "theirs", 01777, false},
        {"s", "target", "theirs", 0775, false},
        {"s", "target", "theirs", 0755, true},
        {"s", "target", "ours", 01777, true},
        {"s/t", ".", "theirs", 01777, false},
        {"s/t", ".", "ours", 01777, true},
    };
    if (geteuid() != 0) {
        tap_skip("strangers: not root");
        return;
    }
    mkdir(in_folder("sub"), 0755);
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(c); i++) {
        char *link = strdup(in_folder("sub/s"));
        if (symlink(c[i].link, link) != 0 ||
            (c[i].by_whom[0] == 't' && lchown(link, 1000, 1000) != 0) ||
            chmod(in_folder("sub"), c[i].mode) != 0)
            tap_bail("cannot make %s", link);
        snprintf(mtr_config.pattern, sizeof(mtr_config.pattern), "%s/sub/%s",
                 folder, c[i].name);
        int error = mtr_name_expand(&rec);
        tap_is_u64((unsigned)error, c[i].is_fine ? 0 : TCM_EFOREIGN,
                   "%s link, folder %o, %s", c[i].by_whom, c[i].mode,
                   c[i].name);
        unlink(link);
        free(link);
    }
    mkfifo(in_folder("sub/s"), 0666);
    snprintf(mtr_config.pattern, sizeof(mtr_config.pattern), "%s/sub/s",
             folder);
    tap_ok(mtr_name_expand(&rec) == 0 && rec.kind == MTR_OUTPUT_FIFO,
           "our FIFO");
    /* After the look. */
    int reader = open(in_folder("sub/s"), O_RDONLY | O_NONBLOCK);
    int fd = mtr_name_open_output(&rec, O_WRONLY | O_NONBLOCK);
    tap_ok(fd >= 0, "can be opened");
    close(fd);
    if (chown(in_folder("sub/s"), 1000, 1000) != 0)
        tap_bail("cannot chown");
    tap_ok(mtr_name_open_output(&rec, O_WRONLY | O_NONBLOCK) < 0 &&
               errno == TCM_EFOREIGN,
           "another one that comes into its place cannot");
    tap_ok(mtr_name_expand(&rec) == TCM_EFOREIGN, "nor is it taken");
    close(reader);
    unlink(in_folder("sub/s"));
    rmdir(in_folder("sub"));
}

static void kinds(void) {
    mkfifo(in_folder("fifo"), 0600);
    put("file");
    kind_is(in_folder("none"), MTR_OUTPUT_FILE, "missing");
    kind_is(in_folder("file"), MTR_OUTPUT_FILE, "file");
    kind_is(in_folder("fifo"), MTR_OUTPUT_FIFO, "FIFO");
    kind_is("/dev/null", MTR_OUTPUT_DEVICE, "device");
    kind_is("/dev/fd/1", MTR_OUTPUT_FD, "descriptor");
    kind_is("/dev/stdout", MTR_OUTPUT_FD, "stdout");
    if (symlink("/dev/stdout", in_folder("out")) != 0 ||
        symlink("fifo", in_folder("pipe")) != 0)
        tap_bail("no links here");
    kind_is(in_folder("out"), MTR_OUTPUT_FD, "a link to a descriptor");
    kind_is(in_folder("pipe"), MTR_OUTPUT_FIFO, "a link to a FIFO");
    clear();
}

/* --- Which name ---------------------------------------------------------- */

enum who { FIRST, PER_PROCESS, CONTINUES };

static void begin(enum who who) {
    memset(&rec, 0, sizeof(rec));
    mtr_config.per_process = who == PER_PROCESS;
    mtr_config.continues = who == CONTINUES;
    mtr_config.owner_name = 0;
    mtr_config.self.random = 0;
    mtr_process_identify((uint32_t)getpid());
    rec.random = mtr_config.self.random;
    snprintf(mtr_config.pattern, sizeof(mtr_config.pattern), "%s/t", folder);
    if (mtr_name_expand(&rec) != 0)
        tap_bail("cannot expand");
}

/* Makes a spool and an output; returns their name, "": none. */
static const char *record(enum who who) {
    begin(who);
    if (!mtr_spool_create(&rec))
        return "";
    char *temp = mtr_name_temporary(&rec);
    int fd = open(in_folder(temp), O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || !mtr_name_place_output(&rec, temp))
        return "";
    close(fd);
    return strrchr(rec.name, '/') + 1;
}

static void end(void) {
    mtr_spool_unlock(&rec);
    mtr_spool_close(&rec);
}

static void replaced(void) {
    put("t");
    put("t.spool");
    tap_is_str(record(FIRST), "t", "first: the name itself");
    tap_ok(!is_old("t") && !is_old("t.spool"), "first: both are replaced");
    struct mtr_recorder living = rec;
    tap_is_str(record(FIRST), "t.1", "first: .1 beside a living recording");
    end();
    tap_is_str(record(FIRST), "t.2", "first: what is at .1 is kept");
    end();
    rec = living;
    end();
    tap_is_str(record(FIRST), "t", "first: replaced when it ended");
    end();
    clear();
}

static void numbered(void) {
    put("t");
    put("t.1.spool");
    tap_is_str(record(PER_PROCESS), "t.2", "%%p: the first free name");
    tap_ok(is_old("t") && is_old("t.1.spool") && !there("t.1") &&
               !there("t.spool"),
           "%%p: nothing is replaced");
    end();
    clear();
}

static void continued(void) {
    put("t");
    put("t.1");
    struct timespec past[2] = {{1000, 0}, {1000, 0}};
    utimensat(AT_FDCWD, in_folder("t.1"), past, 0);
    /* Both were made in this process's life, by the same run. */
    tap_is_str(record(CONTINUES), "t.2", "exec: files of this run are kept");
    end();
    mtr_spool_remove(&rec);
    clear();
    put("t");
    tap_is_str(record(CONTINUES), "t.1", "exec: the next number");
    end();
    clear();
}

static void links(void) {
    put("target");
    if (symlink("target", in_folder("middle")) != 0 ||
        symlink(in_folder("middle"), in_folder("t")) != 0)
        tap_bail("no links here");
    tap_is_str(record(FIRST), "target", "a link stands for its target");
    tap_ok(!is_old("target") && there("target.spool"),
           "which is replaced, the spool beside it");
    struct stat st;
    tap_ok(lstat(in_folder("t"), &st) == 0 && S_ISLNK(st.st_mode),
           "the link stays");
    end();
    clear();
}

static void impossible(void) {
    begin(FIRST);
    rec.output[0] = '\0';
    strcpy(rec.output, "/nonexistent-folder/t");
    tap_ok(!mtr_spool_create(&rec) && rec.name[0] == '\0',
           "no folder: no spool");
    begin(FIRST);
    mkdir(in_folder("t.spool"), 0700);
    tap_ok(mtr_spool_create(&rec) && rec.name_number == 1,
           "a folder at its name: the next one");
    mtr_spool_remove(&rec);
    end();
    rmdir(in_folder("t.spool"));
    DIR *d = opendir(folder);
    struct dirent *e;
    unsigned left = 0;
    while ((e = readdir(d)) != NULL)
        left += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    tap_is_u64(left, 0, "and nothing is left behind");
}

int main(void) {
    strcpy(folder, "/tmp/tcm-names-XXXXXX");
    if (mkdtemp(folder) == NULL)
        tap_bail("no scratch folder");
    patterns();
    kinds();
    replaced();
    numbered();
    continued();
    links();
    strangers();
    impossible();
    clear();
    rmdir(folder);
    return tap_done();
}
