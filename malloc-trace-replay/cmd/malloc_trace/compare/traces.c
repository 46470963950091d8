/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/traces.h"

#include "cmd/malloc_trace/compare/child.h"
#include "cmd/malloc_trace/compare/run.h"
#include "common/array.h"
#include "common/files.h"
#include "common/input.h"
#include "common/main.h"
#include "common/stop.h"
#include "common/text.h"
#include "formats/format_open.h"
#include "model/info.h"
#include "trace/ops.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool traces_make_folder(char folder[PATH_MAX]) {
    const char *tmp = tool_file_temporary();
    snprintf(folder, PATH_MAX, "%s/malloc-trace-XXXXXX", tmp);
    if (mkdtemp(folder) != NULL)
        return true;
    tool_error("cannot make a folder in %s: %s", tmp, strerror(errno));
    folder[0] = '\0';
    return false;
}

void traces_remove_folder(const char *folder) {
    char path[2 * PATH_MAX];
    DIR *dir = folder[0] == '\0' ? NULL : opendir(folder);
    struct dirent *entry;
    if (dir == NULL)
        return;
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    closedir(dir);
    rmdir(folder);
}

/* --- One trace ------------------------------------------------------------ */

/* Operations and threads. */
static bool look(struct comparison *c, struct compare_trace *t) {
    static struct info_file f;
    struct tool_input *in = format_open(t->path);
    if (in == NULL) {
        tool_error("%s: %s", t->path, strerror(errno));
        return false;
    }
    memset(&f, 0, sizeof(f));
    f.name = t->name;
    info_read_processed(&f, in);
    bool good = f.status != TOOL_FAILED;
    const char *problem = f.problem_count != 0 ? f.problems[0] : t->name;
    if (!good)
        tool_error("%s", problem);
    t->threads = raw_threads_with_events(&f.threads);
    t->ops = info_event_count(&f);
    if (f.status == TOOL_DAMAGED) {
        tool_warn("%s", problem);
        c->lacks = true;
    }
    if (good && t->ops == 0) {
        tool_error("%s: there are no operations in it", t->name);
        good = false;
    }
    info_free(&f);
    return good;
}

static bool order(const char *name, const char *out) {
    static char program[PATH_MAX];
    struct child_end end;
    if (program[0] == '\0' && !run_own_program("postprocess", program))
        return false;
    char *argv[] = {program,
                    (char *)(uintptr_t) "-q",
                    (char *)(uintptr_t) "-z",
                    (char *)(uintptr_t)name,
                    (char *)(uintptr_t)out,
                    NULL};
    struct child run = {
        .argv = argv, .in = -1, .out = -1, .err = STDERR_FILENO};
    if (!child_run(&run, &end))
        return false;
    if (end.error == 0 && WIFEXITED(end.status) &&
        (WEXITSTATUS(end.status) == TOOL_OK ||
         WEXITSTATUS(end.status) == TOOL_DAMAGED))
        return true;
    if (!tool_stop_requested())
        tool_error("%s: it could not be ordered", name);
    return false;
}

bool traces_add(struct comparison *c, const char *name, const char *folder) {
    char path[PATH_MAX], out[2 * PATH_MAX];
    struct tool_input *in = format_open(name);
    bool is_there = in != NULL || errno == ENOENT;
    if (!is_there) {
        tool_error("%s: %s", name, strerror(errno));
        return false;
    }
    bool processed = in != NULL && tool_ops_is_processed(in, name);
    if (in != NULL)
        tool_input_close(in);
    if (processed) {
        if (realpath(name, path) == NULL) {
            tool_error("%s: %s", name, strerror(errno));
            return false;
        }
    } else {
        snprintf(out, sizeof(out), "%s/%zu.trace.lz4", folder, c->traces);
        if (!order(name, out) || realpath(out, path) == NULL)
            return false;
    }
    if (!comparison_add_trace(c, path, name))
        return false;
    if (look(c, &c->trace[c->traces - 1]))
        return true;
    free(c->trace[c->traces - 1].path);
    free(c->trace[c->traces - 1].name);
    c->traces--;
    return false;
}

void traces_set_modes(struct comparison *c) {
    for (size_t i = 0; i < c->traces; i++)
        c->trace[i].mode = c->threads != NULL        ? c->threads
                           : c->trace[i].threads > 1 ? "real"
                                                     : "none";
}

/* --- A command ------------------------------------------------------------ */

/* The names of the recordings in FOLDER, which end in .raw; those of which only
   the spool is there, too. */
static size_t recordings(const char *folder, char ***names) {
    size_t n = 0, room = 0;
    struct dirent *entry;
    DIR *dir = opendir(folder);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char *end = strstr(entry->d_name, ".raw");
        if (end == NULL ||
            (strcmp(end, ".raw") != 0 && strcmp(end, ".raw.spool") != 0))
            continue;
        char *path;
        if (!tool_array_reserve(names, &room, n + 1, sizeof(**names)) ||
            asprintf(&path, "%s/%.*s.raw", folder, (int)(end - entry->d_name),
                     entry->d_name) < 0)
            break;
        bool known = false;
        for (size_t i = 0; i < n; i++)
            known = known || strcmp((*names)[i], path) == 0;
        if (known)
            free(path);
        else
            (*names)[n++] = path;
    }
    if (dir != NULL)
        closedir(dir);
    return n;
}

/* Traces of little work say little: what has less than a twentieth of the
   largest one's operations goes. */
static void keep_large(struct comparison *c) {
    uint64_t most = 0;
    size_t kept = 0;
    struct tool_text t;
    for (size_t i = 0; i < c->traces; i++)
        most = c->trace[i].ops > most ? c->trace[i].ops : most;
    for (size_t i = 0; i < c->traces; i++) {
        if (c->trace[i].ops >= most / 20) {
            c->trace[kept] = c->trace[i];
            c->trace[kept].number = kept;
            kept++;
            continue;
        }
        free(c->trace[i].path);
        free(c->trace[i].name);
    }
    if (kept != c->traces)
        tool_warn("%zu of the program's processes are left out, as they made "
                  "less than %s operations",
                  c->traces - kept, tool_text_count(&t, most / 20));
    c->traces = kept;
}

bool traces_record(struct comparison *c, char **command, const char *folder,
                   int out, int *status) {
    static char program[PATH_MAX];
    char pattern[2 * PATH_MAX], label[PATH_MAX];
    struct child_end end;
    size_t words = 0;
    while (command[words] != NULL)
        words++;
    char **argv = calloc(words + 7, sizeof(*argv));
    if (argv == NULL) {
        tool_error("out of memory");
        return false;
    }
    size_t used = 0;
    for (const char *f = folder; *f != '\0'; f++) {
        if (*f == '%') /* none of the pattern */
            pattern[used++] = '%';
        pattern[used++] = *f;
    }
    strcpy(pattern + used, "/%e.%p.raw");
    bool good = run_own_program("malloc-trace", program);
    size_t n = 0;
    argv[n++] = program;
    argv[n++] = (char *)(uintptr_t) "record";
    argv[n++] = (char *)(uintptr_t) "-q";
    argv[n++] = (char *)(uintptr_t) "-o";
    argv[n++] = pattern;
    argv[n++] = (char *)(uintptr_t) "--";
    memcpy(argv + n, command, words * sizeof(*argv));
    struct child run = {
        .argv = argv, .in = STDIN_FILENO, .out = out, .err = STDERR_FILENO};
    good = good && child_run(&run, &end);
    free(argv);
    if (!good)
        return false;
    *status = end.status;
    char **names = NULL;
    size_t count = recordings(folder, &names);
    for (size_t i = 0; i < count; i++) {
        if (good && !tool_stop_requested() && traces_add(c, names[i], folder)) {
            struct compare_trace *t = &c->trace[c->traces - 1];
            const char *slash = strrchr(names[i], '/');
            snprintf(label, sizeof(label), "%.*s", (int)(strlen(slash + 1) - 4),
                     slash + 1);
            free(t->name);
            t->name = strdup(label);
            good = t->name != NULL;
        }
        free(names[i]);
    }
    free(names);
    if (c->traces == 0) {
        tool_error("%s left no trace to replay", command[0]);
        return false;
    }
    keep_large(c);
    return good;
}
