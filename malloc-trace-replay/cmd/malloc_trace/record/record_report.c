/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces are found by their names: those that match the pattern and were not
 * there, or not as they are now, before the run.
 */
#include "cmd/malloc_trace/record/record_report.h"

#include "base/check.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/main.h"
#include "common/text.h"
#include "model/info.h"
#include "traceformat/compress.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A trace of more stored bytes is not read for the summary: the user waits. */
#define READ_MOST ((uint64_t)256 << 20)

/* Traces that are listed; of the rest there is a number. */
#define SHOWN_MOST 20u

struct known_file {
    dev_t dev;
    ino_t ino;
    struct timespec changed;
};

struct trace {
    char *name;      /* of the file, also when only its spool exists */
    uint64_t stored; /* file, and what is used of the spool, if readable */
    uint64_t events;
    bool is_file;  /* regular, or a spool */
    bool counted;  /* the following are known */
    bool readable; /* is a raw trace */
    bool growing;
    bool complete;
    char executable[64];
    uint64_t dropped, untraced;
};

/* Sums over all traces that were read. */
struct account {
    struct tool_raw_counts counts; /* as the traces have them */
    uint64_t raw_bytes, segments;
    uint64_t traces;
    uint64_t footers; /* traces that have the recorder's account */
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

/* "", ".7": what the recorder appends when a name is taken. */
static bool matches_end(const char *name) {
    if (*name == '.' && is_digit(name[1]))
        for (name++; is_digit(*name);)
            name++;
    return *name == '\0';
}

/* Patterns have few parts, so going back is cheap. */
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

/* The shell pattern that finds at least all names of interest. */
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

/* Cuts ".spool" from NAME; false: it is no spool's. */
static bool cut_spool(char *name) {
    size_t length = strlen(name);
    if (length < 6 || strcmp(name + length - 6, ".spool") != 0)
        return false;
    name[length - 6] = '\0';
    return true;
}

/* Cuts the ".k3" of a part of a flight recording from NAME, unless PATTERN has
   it; false: it is none. */
static bool cut_part(const char *pattern, char *name) {
    if (!tool_file_is_part(name) || matches(pattern, name))
        return false;
    name[strlen(name) - 3] = '\0';
    return true;
}

/* Calls USE for each file under the pattern, NAME without ".spool". */
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

/* A number of the file system may have been used again, hence the time. */
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
    for (unsigned k = 0; k < INFO_SEGMENT_KINDS; k++)
        a->segments += f->segments[k];
    a->traces += f->kind == INFO_RAW;
    a->footers += f->have_account[MTF_ACCOUNT_SEGMENTS];
    for (unsigned k = 0; k < MTF_ACCOUNT_LIMIT; k++)
        a->footer[k] += f->have_account[k] ? f->account[k] : 0;
}

static void read_trace(struct record_report *r, struct trace *t) {
    static struct info_file f;
    memset(&f, 0, sizeof(f));
    f.name = t->name;
    /* A file that is not there is read from its spool. */
    info_read_raw(&f, tool_input_open(t->name), t->name);
    t->counted = true;
    t->readable = f.kind == INFO_RAW && f.have_header;
    t->growing = f.growing;
    t->complete = f.complete;
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
    char spool_name[PATH_MAX];
    if (!is_new(r, st) || S_ISDIR(st->st_mode))
        return true;
    /* A spool beside its file is a part of that. */
    if (spool && stat(name, &other) == 0 && is_new(r, &other))
        return true;
    /* So are a flight recording's spool and parts of each other; what they take
       counts. */
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
    /* A spool's file is sparse and mostly zero: what it takes counts. */
    if (spool)
        t->stored = (uint64_t)st->st_blocks * 512;
    snprintf(spool_name, sizeof(spool_name), "%s.spool", name);
    if (!spool && stat(spool_name, &other) == 0)
        t->stored += (uint64_t)other.st_blocks * 512;
    if (t->stored <= READ_MOST)
        read_trace(r, t);
    return true;
}

/* Puts first what is worth most attention. */
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

/* The program NAME beside this one: its bare name if a shell finds it by that.
 */
static void print_program(const char *name) {
    char folder[PATH_MAX], own[2 * PATH_MAX], try[2 * PATH_MAX];
    struct stat mine, other;
    if (!tool_own_folder(folder)) {
        fputs(name, stderr);
        return;
    }
    snprintf(own, sizeof(own), "%s/%s", folder, name);
    const char *list = getenv("PATH");
    while (list != NULL && *list != '\0' && stat(own, &mine) == 0) {
        size_t length = strcspn(list, ":");
        snprintf(try, sizeof(try), "%.*s/%s", (int)length, list, name);
        if (length != 0 && access(try, X_OK) == 0 && stat(try, &other) == 0) {
            if (mine.st_ino == other.st_ino && mine.st_dev == other.st_dev) {
                fputs(name, stderr);
                return;
            }
            break;
        }
        list += length + (list[length] == ':');
    }
    shell_put_word(stderr, own);
}

/* NAME as seen from the current folder if it is below that. */
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

/* --- The summary -------------------------------------------------------- */

static void print_trace(const struct trace *t) {
    struct tool_text text;
    fputs("  ", stderr);
    shell_put_word(stderr, short_name(t->name));
    if (!t->is_file) {
        fputs("  not a regular file\n", stderr);
        return;
    }
    fprintf(stderr, "  %s", tool_text_bytes(&text, t->stored));
    if (t->counted)
        fprintf(stderr, "  %s events", tool_text_count(&text, t->events));
    if (t->executable[0] != '\0') {
        fputs("  ", stderr);
        shell_put_word(stderr, t->executable);
    }
    if (t->growing)
        fputs("  still being recorded", stderr);
    else if (t->counted && !t->readable)
        fputs("  no trace", stderr);
    else if (t->counted && !t->complete)
        fputs("  incomplete", stderr);
    fputc('\n', stderr);
}

static void print_next(const char *name) {
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
    shell_put_word(stderr, short_name(name));
    fputc(' ', stderr);
    shell_put_word(stderr, target);
    fputs("\n  ", stderr);
    print_program("replay");
    fputc(' ', stderr);
    shell_put_word(stderr, target);
    fputc('\n', stderr);
}

/* The events are counted in the traces themselves, so that they are the sum
   that the summary begins with, whatever has no footer. */
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
    fprintf(stderr, "  %s before compression, %s segments\n",
            tool_text_bytes(&t[0], a->raw_bytes),
            tool_text_count(&t[1], a->segments));
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
        fprintf(stderr, "  (known of %s of %s traces)\n",
                tool_text_count(&t[0], a->footers),
                tool_text_count(&t[1], a->traces));
}

/* Prints what recording cost, and what the traces lack. */
static void print_account(const struct record_report *r) {
    struct tool_text text;
    uint64_t dropped = 0, untraced = 0;
    for (size_t i = 0; i < r->count; i++) {
        dropped += r->traces[i].dropped;
        untraced += r->traces[i].untraced;
    }
    print_costs(&r->account);
    if (untraced != 0)
        fprintf(stderr, "  frees of blocks from before: %s\n",
                tool_text_count(&text, untraced));
    if (dropped != 0)
        fprintf(stderr, "  dropped events: %s\n",
                tool_text_count(&text, dropped));
}

/* Calls of the kinds that print_costs tells apart. */
static uint64_t events_of(const struct account *a) {
    const struct tool_raw_counts *c = &a->counts;
    return c->mallocs + c->memaligns + c->reallocs + c->frees + c->failed;
}

static void print_list(const struct record_report *r, uint64_t events,
                       bool unknown) {
    struct tool_text a, b, c;
    uint64_t stored = 0;
    TCM_ASSERT(r->account.traces == 0 || events_of(&r->account) <= events);
    for (size_t i = 0; i < r->count; i++)
        stored += r->traces[i].stored;
    fprintf(stderr, "%s: %s trace%s, %s%s events, %s\n", tool_name(),
            tool_text_count(&a, r->count), r->count == 1 ? "" : "s",
            unknown ? "at least " : "", tool_text_count(&b, events),
            tool_text_bytes(&c, stored));
    /* One more would take the line that tells of it. */
    size_t shown = r->count > SHOWN_MOST + 1 ? SHOWN_MOST : r->count;
    for (size_t i = 0; i < shown; i++)
        print_trace(&r->traces[i]);
    if (shown < r->count)
        fprintf(stderr, "  and %s more\n",
                tool_text_count(&a, r->count - shown));
    print_account(r);
}

static void print_all(const struct record_report *r, const char *command) {
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
        if (t->counted && t->events == 0) {
            tool_warn("%s holds no events: %s", short_name(t->name),
                      record_why_no_events(command));
            break;
        }
    }
    if ((!unknown && events == 0) || tool_is_quiet())
        return;
    print_next(r->traces[0].name);
}

void record_report_after(struct record_report *r, const char *command) {
    if (!walk(r, add_trace))
        tool_warn("out of memory: not all traces are listed");
    for (size_t i = 1; i < r->known_count; i++)
        TCM_ASSERT(compare_known(&r->known[i - 1], &r->known[i]) <= 0);
    if (r->count != 0) {
        qsort(r->traces, r->count, sizeof(*r->traces), by_size);
        print_all(r, command);
        return;
    }
    struct stat st;
    bool there = stat(r->pattern, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) {
        tool_warn("no trace was written: %s: %s", r->pattern, strerror(EISDIR));
        return;
    }
    /* The recorder alone knows whether all was taken, and says so. */
    if (there && !S_ISREG(st.st_mode)) {
        if (!tool_is_quiet())
            fprintf(stderr, "%s: no summary of %s, which is no regular file\n",
                    tool_name(), tool_text_shown(r->pattern));
        return;
    }
    const char *folder = record_why_no_folder(r->pattern);
    if (folder != NULL)
        tool_warn("no trace was written: %s: %s", folder, strerror(errno));
    else
        tool_warn("no trace was written: %s: %s", command,
                  record_why_no_trace(command, r->pattern));
}
