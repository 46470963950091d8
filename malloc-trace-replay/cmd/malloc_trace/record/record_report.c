/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces are found by their names: files that match the pattern, and were
 * missing or different before the run.
 */
#include "cmd/malloc_trace/record/record.h"

#include "base/check.h"
#include "base/compiler.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/main.h"
#include "common/text.h"
#include "model/info.h"
#include "traceformat/compress.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Most stored bytes of a trace that is read for the summary, while the user
   waits. */
#define READ_MOST ((uint64_t)256 << 20)

/* Traces that are listed; the rest is counted. */
#define SHOWN_MOST 20u

struct known_file {
    dev_t dev;
    ino_t ino;
    struct timespec changed;
};

struct trace {
    char *name;      /* of the file, also if only its spool exists */
    uint64_t stored; /* bytes of the file, and the used ones of its spool */
    uint64_t events;
    bool is_file;  /* a regular file, or a spool */
    bool counted;  /* the trace was read; the rest is valid */
    bool readable; /* it is a raw trace */
    bool has_sites;
    bool growing;
    bool complete;
    bool clean_end;
    uint32_t pid;
    char executable[64];
    uint64_t dropped, untraced;
};

/* Sums over all traces that were read. */
struct account {
    struct tool_raw_counts counts; /* counted in the traces */
    uint64_t raw_bytes;
    uint64_t traces;
    uint64_t footers; /* traces with the recorder's account */
    uint64_t footer[MTF_ACCOUNT_LIMIT];
};

struct record_report {
    const char *pattern;
    struct known_file *known;
    size_t known_count, known_room;
    struct trace *traces;
    size_t count, room;
    struct account account;
};

/* --- Names -------------------------------------------------------------- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Tells whether NAME is "", or ".7", which the recorder appends to a name that
   is taken. */
static bool matches_end(const char *name) {
    if (*name == '.' && is_digit(name[1]))
        for (name++; is_digit(*name);)
            name++;
    return *name == '\0';
}

/* Tells whether NAME matches PATTERN. Backtracking is cheap: patterns have few
   parts. */
static bool matches(const char *pattern, const char *name) {
    for (; *pattern != '\0'; pattern++, name++) {
        if (pattern[0] == '%' && (pattern[1] == 'p' || pattern[1] == 'e')) {
            bool digits = pattern[1] == 'p';
            for (;
                 *name != '\0' && *name != '/' && (!digits || is_digit(*name));
                 name++)
                if (matches(pattern + 2, name + 1))
                    return true;
            return false;
        }
        if (pattern[0] == '%' && pattern[1] == '%')
            pattern++;
        if (*pattern != *name)
            return false;
    }
    return matches_end(name);
}

/* Makes a shell pattern that finds at least all names that PATTERN matches. */
static char *glob_of(const char *pattern) {
    char *out = malloc(2 * strlen(pattern) + 2);
    char *p = out;
    if (out == NULL)
        return NULL;
    for (; *pattern != '\0'; pattern++) {
        if (pattern[0] == '%' && (pattern[1] == 'p' || pattern[1] == 'e')) {
            *p++ = '*';
            pattern++;
            continue;
        }
        if (pattern[0] == '%' && pattern[1] == '%')
            pattern++;
        if (strchr("*?[]\\", *pattern) != NULL)
            *p++ = '\\';
        *p++ = *pattern;
    }
    *p++ = '*';
    *p = '\0';
    return out;
}

/* Cuts ".spool" from NAME. false: NAME does not end in it. */
static bool cut_spool(char *name) {
    size_t length = strlen(name);
    if (length < 6 || strcmp(name + length - 6, ".spool") != 0)
        return false;
    name[length - 6] = '\0';
    return true;
}

/* Cuts ".k3" of a part of a flight recording from NAME, unless PATTERN has it.
   false: NAME is not a part. */
static bool cut_part(const char *pattern, char *name) {
    if (!tool_file_is_part(name) || matches(pattern, name))
        return false;
    name[strlen(name) - 3] = '\0';
    return true;
}

/* Calls USE for each file that matches the pattern, with NAME cut as above if
   it is a SPOOL or part. false: out of memory, or USE returned false. */
static bool walk(struct record_report *r,
                 bool (*use)(struct record_report *r, const char *name,
                             bool spool, const struct stat *st)) {
    char *shell_pattern = glob_of(r->pattern);
    glob_t found;
    bool good = true;
    if (shell_pattern == NULL)
        return false;
    int rc = glob(shell_pattern, GLOB_PERIOD, NULL, &found);
    free(shell_pattern);
    if (rc == GLOB_NOSPACE)
        return false;
    for (size_t i = 0; rc == 0 && good && i < found.gl_pathc; i++) {
        struct stat st;
        bool there = stat(found.gl_pathv[i], &st) == 0;
        bool spool = cut_spool(found.gl_pathv[i]) ||
                     cut_part(r->pattern, found.gl_pathv[i]);
        if (there && matches(r->pattern, found.gl_pathv[i]))
            good = use(r, found.gl_pathv[i], spool, &st);
    }
    if (rc == 0)
        globfree(&found);
    return good;
}

/* --- Before ------------------------------------------------------------- */

static bool remember(struct record_report *r, const char *name, bool spool,
                     const struct stat *st) {
    (void)name;
    (void)spool;
    if (!tool_array_reserve(&r->known, &r->known_room, r->known_count + 1,
                            sizeof(*r->known)))
        return false;
    r->known[r->known_count++] =
        (struct known_file){st->st_dev, st->st_ino, st->st_mtim};
    return true;
}

static int compare_known(const void *a, const void *b) {
    const struct known_file *x = a, *y = b;
    if (x->ino != y->ino)
        return x->ino < y->ino ? -1 : 1;
    return x->dev < y->dev ? -1 : x->dev > y->dev;
}

struct record_report *record_report_before(const char *pattern) {
    struct record_report *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return NULL;
    r->pattern = pattern;
    if (!walk(r, remember)) {
        record_report_free(r);
        return NULL;
    }
    if (r->known_count != 0)
        qsort(r->known, r->known_count, sizeof(*r->known), compare_known);
    return r;
}

void record_report_free(struct record_report *r) {
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->count; i++)
        free(r->traces[i].name);
    free(r->traces);
    free(r->known);
    free(r);
}

/* Tells whether the file ST is new or changed. Compares times too, because
   inode numbers are used again. */
static bool is_new(const struct record_report *r, const struct stat *st) {
    struct known_file key = {st->st_dev, st->st_ino, st->st_mtim};
    const struct known_file *k = r->known_count == 0
                                     ? NULL
                                     : bsearch(&key, r->known, r->known_count,
                                               sizeof(key), compare_known);
    return k == NULL || k->changed.tv_sec != key.changed.tv_sec ||
           k->changed.tv_nsec != key.changed.tv_nsec;
}

/* --- After -------------------------------------------------------------- */

static void add_account(struct account *a, const struct info_file *f) {
    const struct tool_raw_counts *c = &f->counts;
    a->counts.mallocs += c->mallocs;
    a->counts.memaligns += c->memaligns;
    a->counts.reallocs += c->reallocs;
    a->counts.frees += c->frees;
    a->counts.failed += c->failed;
    a->raw_bytes += f->raw_bytes;
    a->traces += f->kind == INFO_RAW;
    a->footers += f->have_account[MTF_ACCOUNT_SEGMENTS];
    for (unsigned k = 0; k < MTF_ACCOUNT_LIMIT; k++)
        a->footer[k] += f->have_account[k] ? f->account[k] : 0;
}

static void read_trace(struct record_report *r, struct trace *t) {
    static struct info_file f;
    memset(&f, 0, sizeof(f));
    f.name = t->name;
    /* a missing file is read from its spool */
    info_read_raw(&f, tool_input_open(t->name), t->name);
    t->counted = true;
    t->readable = f.kind == INFO_RAW && f.have_header;
    t->has_sites =
        t->readable && (f.header.fixed.settings & MTF_SETTING_SITES) != 0;
    t->growing = f.growing;
    t->complete = f.complete;
    t->clean_end = f.clean_end;
    t->pid = f.header.fixed.pid;
    if (t->readable)
        t->stored = f.stored_bytes;
    t->events = info_event_count(&f);
    add_account(&r->account, &f);
    TCM_ASSERT(r->account.footers <= r->account.traces &&
               r->account.traces <= r->count);
    t->dropped = f.dropped;
    t->untraced = f.untraced;
    snprintf(t->executable, sizeof(t->executable), "%.*s",
             (int)sizeof(t->executable) - 1, f.header.executable);
    info_free(&f);
}

static bool add_trace(struct record_report *r, const char *name, bool spool,
                      const struct stat *st) {
    struct stat other;
    struct mtf_raw_info info;
    char spool_name[PATH_MAX];
    if (!is_new(r, st) || S_ISDIR(st->st_mode))
        return true;
    /* a spool beside its file belongs to the file */
    if (spool && stat(name, &other) == 0 && is_new(r, &other))
        return true;
    /* spool and parts of a flight recording make one trace: the blocks that
       they use are added */
    for (size_t i = 0; spool && i < r->count; i++) {
        if (strcmp(r->traces[i].name, name) == 0) {
            if (!r->traces[i].readable)
                r->traces[i].stored += (uint64_t)st->st_blocks * 512;
            return true;
        }
    }
    if (!tool_array_reserve(&r->traces, &r->room, r->count + 1,
                            sizeof(*r->traces)))
        return false;
    struct trace *t = &r->traces[r->count];
    memset(t, 0, sizeof(*t));
    t->name = strdup(name);
    if (t->name == NULL)
        return false;
    r->count++;
    t->is_file = S_ISREG(st->st_mode);
    if (!t->is_file)
        return true;
    t->stored = (uint64_t)st->st_size;
    /* a spool is sparse, so its used blocks count */
    if (spool)
        t->stored = (uint64_t)st->st_blocks * 512;
    snprintf(spool_name, sizeof(spool_name), "%s.spool", name);
    if (!spool && stat(spool_name, &other) == 0)
        t->stored += (uint64_t)other.st_blocks * 512;
    if (t->stored <= READ_MOST)
        read_trace(r, t);
    else
        t->has_sites = tool_raw_read_header(t->name, &info) &&
                       (info.fixed.settings & MTF_SETTING_SITES) != 0;
    return true;
}

/* Orders traces: unread ones, which are large, first; then by events and
   size. */
static int by_size(const void *a, const void *b) {
    const struct trace *x = a, *y = b;
    if (x->counted != y->counted)
        return x->counted ? 1 : -1;
    if (x->events != y->events)
        return x->events > y->events ? -1 : 1;
    if (x->stored != y->stored)
        return x->stored > y->stored ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* --- Names as a user can copy them ---------------------------------------- */

/* Prints the program NAME beside this one: only NAME if a shell finds this
   program by it. */
static void print_program(const char *name) {
    char folder[PATH_MAX], own[2 * PATH_MAX], found[2 * PATH_MAX];
    struct stat ours, other;
    if (!tool_own_folder(folder)) {
        fputs(name, stderr);
        return;
    }
    snprintf(own, sizeof(own), "%s/%s", folder, name);
    const char *list = getenv("PATH");
    while (list != NULL && *list != '\0' && stat(own, &ours) == 0) {
        size_t length = strcspn(list, ":");
        snprintf(found, sizeof(found), "%.*s/%s", (int)length, list, name);
        if (length != 0 && access(found, X_OK) == 0 &&
            stat(found, &other) == 0) {
            if (ours.st_ino == other.st_ino && ours.st_dev == other.st_dev) {
                fputs(name, stderr);
                return;
            }
            break;
        }
        list += length + (list[length] == ':');
    }
    tool_shell_put_word(stderr, own);
}

/* Returns NAME relative to the current folder if it is below that. */
static const char *short_name(const char *name) {
    static char here[PATH_MAX];
    if (getcwd(here, sizeof(here)) == NULL)
        return name;
    size_t length = strlen(here);
    if (strncmp(name, here, length) != 0 || name[length] != '/' ||
        name[length + 1] == '\0' || name[length + 1] == '-')
        return name;
    return name + length + 1;
}

/* --- Reasons for no events or no trace ------------------------------------ */

/* Tells why there are no events of P; or with NOTHING_WRITTEN no trace, under a
   pattern with %p or without. */
static const char *why(const struct record_program *p, bool nothing_written,
                       bool per_process) {
    if (p->obstacle != NULL)
        return p->obstacle;
    if (p->own_malloc)
        return "its file has its own malloc, which takes precedence over that "
               "of a preloaded library";
    if (p->takes_library && nothing_written)
        return per_process
                   ? "it made no memory request, for which a name with %p gets "
                     "no file, or the library failed to load or to write, "
                     "which a message on stderr then tells"
                   : "the library can be preloaded into its file; where it "
                     "fails to load or to write, a message on stderr tells";
    return "perhaps it is static or setuid, has its own allocator, made no "
           "memory request, or unset LD_PRELOAD";
}

bool record_report_per_process(const char *pattern) {
    for (const char *p = pattern; *p != '\0'; p++)
        if (*p == '%' && *++p == 'p')
            return true;
        else if (*p == '\0')
            return false;
    return false;
}

/* Stores the folder of the absolute PATTERN. false: it depends on the
   process. */
static bool find_folder(const char *pattern, char folder[PATH_MAX]) {
    const char *slash = strrchr(pattern, '/');
    size_t n = 0;
    for (const char *p = pattern; slash != NULL && p < slash; p++) {
        if (*p == '%' && *++p != '%')
            return false;
        if (n + 2 < PATH_MAX)
            folder[n++] = *p;
    }
    if (n == 0)
        folder[n++] = '/';
    folder[n] = '\0';
    return true;
}

/* Returns the folder of PATTERN if no trace can be made or found there; errno
   tells why. NULL: it can, or the folder depends on the process. */
static const char *bad_folder(const char *pattern) {
    static char folder[PATH_MAX];
    return !find_folder(pattern, folder) ||
                   access(folder, R_OK | W_OK | X_OK) == 0
               ? NULL
               : folder;
}

/* Stores PATTERN as a name. false: it depends on the process. */
static bool plain_name(const char *pattern, char name[PATH_MAX]) {
    size_t n = 0;
    for (const char *p = pattern; *p != '\0' && n + 1 < PATH_MAX; p++) {
        if (p[0] == '%' && (p[1] == 'p' || p[1] == 'e'))
            return false;
        name[n++] = *p;
        p += p[0] == '%' && p[1] == '%';
    }
    name[n] = '\0';
    return true;
}

const char *record_report_bad_output(const char *pattern) {
    static char name[PATH_MAX], target[PATH_MAX];
    struct stat st;
    if (plain_name(pattern, name)) {
        if (stat(name, &st) == 0) {
            errno = EISDIR;
            if (S_ISDIR(st.st_mode))
                return name;
            if (!S_ISREG(st.st_mode))
                return access(name, W_OK) == 0 ? NULL : name;
        }
        /* the file that a link points to is replaced, in its own folder */
        if (lstat(name, &st) == 0 && S_ISLNK(st.st_mode)) {
            if (realpath(name, target) == NULL)
                return NULL;
            *strrchr(target, '/') = '\0';
            return access(*target == '\0' ? "/" : target, W_OK | X_OK) == 0
                       ? NULL
                       : target;
        }
    }
    return !find_folder(pattern, name) || access(name, W_OK | X_OK) == 0 ? NULL
                                                                         : name;
}

/* --- Summary ------------------------------------------------------------ */

static void print_trace(const struct trace *t) {
    struct tool_text text;
    fputs("  ", stderr);
    tool_shell_put_word(stderr, short_name(t->name));
    if (!t->is_file) {
        fputs("  not a regular file\n", stderr);
        return;
    }
    fprintf(stderr, "  %s", tool_text_bytes(&text, t->stored));
    if (t->counted)
        fprintf(stderr, "  %s events", tool_text_count(&text, t->events));
    if (t->executable[0] != '\0') {
        fputs("  ", stderr);
        tool_shell_put_word(stderr, t->executable);
    }
    if (t->growing)
        fputs("  still being recorded", stderr);
    else if (t->counted && !t->readable)
        fputs("  no trace", stderr);
    else if (t->counted && !t->complete)
        fputs("  incomplete", stderr);
    fputc('\n', stderr);
}

/* Prints the command that makes a report of the trace NAME. */
static void print_report(const char *name) {
    fputs("Next:\n  ", stderr);
    print_program("malloc-trace");
    fputs(" report ", stderr);
    tool_shell_put_word(stderr, short_name(name));
    fputc('\n', stderr);
}

/* Prints the commands that replay the trace NAME. */
static void print_replay(const char *name) {
    char target[PATH_MAX + 32];
    snprintf(target, sizeof(target), "%s", short_name(name));
    size_t length = strlen(target);
    if (length > 4 && strcmp(target + length - 4, ".lz4") == 0)
        target[length -= 4] = '\0';
    if (length > 6 && strcmp(target + length - 6, ".trace") == 0)
        target[length -= 6] = '\0';
    bool lz4 = mtf_compress_available();
    snprintf(target + length, sizeof(target) - length, ".processed%s",
             lz4 ? ".lz4" : "");
    fputs("Next:\n  ", stderr);
    print_program("postprocess");
    fputs(lz4 ? " -z " : " ", stderr);
    tool_shell_put_word(stderr, short_name(name));
    fputc(' ', stderr);
    tool_shell_put_word(stderr, target);
    fputs("\n  ", stderr);
    print_program("replay");
    fputc(' ', stderr);
    tool_shell_put_word(stderr, target);
    fputc('\n', stderr);
}

/* Prints events and cost. Events are counted in the traces, not in footers, so
   that they add up to the summary's total also where a footer is missing. */
static void print_costs(const struct account *a) {
    struct tool_text t[5];
    const struct tool_raw_counts *c = &a->counts;
    const uint64_t *f = a->footer;
    if (a->traces == 0)
        return;
    fprintf(stderr,
            "  mallocs %s, memaligns %s, reallocs %s, frees %s, failed %s\n",
            tool_text_count(&t[0], c->mallocs),
            tool_text_count(&t[1], c->memaligns),
            tool_text_count(&t[2], c->reallocs),
            tool_text_count(&t[3], c->frees),
            tool_text_count(&t[4], c->failed));
    fprintf(stderr, "  %s before compression\n",
            tool_text_bytes(&t[0], a->raw_bytes));
    if (a->footers == 0)
        return;
    fprintf(stderr,
            "  saving took %s of processor time; threads waited %s time%s, %s\n"
            "  times read: %s\n",
            tool_text_ns(&t[0], f[MTF_ACCOUNT_SAVER_CPU_NS]),
            tool_text_count(&t[1], f[MTF_ACCOUNT_WAITS]),
            f[MTF_ACCOUNT_WAITS] == 1 ? "" : "s",
            tool_text_ns(&t[2], f[MTF_ACCOUNT_WAIT_NS]),
            tool_text_count(&t[3], f[MTF_ACCOUNT_SLOW_TIMES]));
    if (a->footers != a->traces)
        fprintf(stderr, "  (known for %s of %s traces)\n",
                tool_text_count(&t[0], a->footers),
                tool_text_count(&t[1], a->traces));
}

/* Prints the cost of recording, and events that the traces lack. */
static void print_account(const struct record_report *r) {
    struct tool_text text;
    uint64_t dropped = 0, untraced = 0;
    for (size_t i = 0; i < r->count; i++) {
        dropped += r->traces[i].dropped;
        untraced += r->traces[i].untraced;
    }
    print_costs(&r->account);
    if (untraced != 0)
        fprintf(stderr, "  frees of blocks from before the recording: %s\n",
                tool_text_count(&text, untraced));
    if (dropped != 0)
        fprintf(stderr, "  dropped events: %s\n",
                tool_text_count(&text, dropped));
}

/* Returns the calls of all kinds that print_costs prints. */
static uint64_t events_of(const struct account *a) {
    const struct tool_raw_counts *c = &a->counts;
    return c->mallocs + c->memaligns + c->reallocs + c->frees + c->failed;
}

/* UNKNOWN: some traces were not read, whose events are not among EVENTS. */
static void print_list(const struct record_report *r, uint64_t events,
                       bool unknown) {
    struct tool_text a, b, c;
    uint64_t stored = 0;
    TCM_ASSERT(r->account.traces == 0 || events_of(&r->account) <= events);
    for (size_t i = 0; i < r->count; i++)
        stored += r->traces[i].stored;
    fprintf(stderr, "%s: %s trace%s, ", tool_name(),
            tool_text_count(&a, r->count), r->count == 1 ? "" : "s");
    if (!unknown || events != 0)
        fprintf(stderr, "%s%s events, ", unknown ? "at least " : "",
                tool_text_count(&b, events));
    fprintf(stderr, "%s\n", tool_text_bytes(&c, stored));
    /* a single further trace takes the line that would count it */
    size_t shown = r->count > SHOWN_MOST + 1 ? SHOWN_MOST : r->count;
    for (size_t i = 0; i < shown; i++)
        print_trace(&r->traces[i]);
    if (shown < r->count)
        fprintf(stderr, "  and %s more\n",
                tool_text_count(&a, r->count - shown));
    print_account(r);
}

static void print_all(const struct record_report *r,
                      const struct record_program *program) {
    uint64_t events = 0;
    bool unknown = false;
    for (size_t i = 0; i < r->count; i++) {
        events += r->traces[i].events;
        unknown = unknown || !r->traces[i].counted;
    }
    if (!tool_is_quiet())
        print_list(r, events, unknown);
    for (size_t i = 0; i < r->count; i++) {
        const struct trace *t = &r->traces[i];
        if (t->counted && t->events == 0 && !t->growing) {
            tool_warn("%s holds no events: %s", short_name(t->name),
                      why(program, false, false));
            break;
        }
    }
    if ((!unknown && events == 0) || tool_is_quiet())
        return;
    (r->traces[0].has_sites ? print_report : print_replay)(r->traces[0].name);
}

/* Warns if process PID, which ran PROGRAM, seems to have gone on by exec as the
   program NAME without a recorder. A sign of that is one recording, of PROGRAM,
   without a clean end, and another name at the end; a program that renames
   itself and ends by _exit has the same. */
static void warn_of_exec(const struct record_report *r,
                         const struct record_program *program, pid_t pid,
                         const char *name) {
    const struct trace *own = NULL;
    for (size_t i = 0; i < r->count; i++)
        if (r->traces[i].counted && r->traces[i].pid == (uint32_t)pid) {
            if (own != NULL)
                return;
            own = &r->traces[i];
        }
    const char *command = tool_file_base(program->command);
    if (own == NULL || own->clean_end || *name == '\0' ||
        strncmp(name, own->executable, 15) == 0 ||
        strncmp(name, command, 15) == 0)
        return;
    tool_warn("process %d ended as \"%s\": if %s, whose recording has no clean "
              "end, became that by exec, it was not recorded any more; record "
              "that program itself, for the reason",
              (int)pid, tool_text_shown(name), own->executable);
}

void record_report_after(struct record_report *r,
                         const struct record_program *program, pid_t pid,
                         const char *name) {
    if (!walk(r, add_trace))
        tool_warn("out of memory: not all traces are listed");
    for (size_t i = 1; i < r->known_count; i++)
        TCM_ASSERT(compare_known(&r->known[i - 1], &r->known[i]) <= 0);
    if (r->count != 0) {
        qsort(r->traces, r->count, sizeof(*r->traces), by_size);
        for (size_t i = 1; i < r->count; i++)
            TCM_ASSERT(by_size(&r->traces[i - 1], &r->traces[i]) <= 0);
        print_all(r, program);
        warn_of_exec(r, program, pid, name);
        return;
    }
    struct stat st;
    bool there = stat(r->pattern, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) {
        tool_warn("no trace was written: %s: %s", r->pattern, strerror(EISDIR));
        return;
    }
    /* only the recorder knows whether a pipe or device took all bytes */
    if (there && !S_ISREG(st.st_mode)) {
        if (!tool_is_quiet())
            fprintf(stderr,
                    "%s: no summary of %s, which is not a regular file\n",
                    tool_name(), tool_text_shown(r->pattern));
        return;
    }
    const char *folder = bad_folder(r->pattern);
    if (folder != NULL)
        tool_warn("no trace was written: %s: %s", folder, strerror(errno));
    else
        tool_warn("no trace was written: %s: %s", program->command,
                  why(program, true, record_report_per_process(r->pattern)));
}
