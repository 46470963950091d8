/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_traces.h"

#include "cmd/malloc_trace/compare/compare_run.h"
#include "common/child.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/input.h"
#include "common/main.h"
#include "common/output.h"
#include "common/stop.h"
#include "common/text.h"
#include "formats/format_import.h"
#include "model/info.h"
#include "open/trace_open.h"
#include "sort/sorter.h"
#include "trace/ops.h"
#include "traceformat/compress.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool compare_traces_make_folder(char folder[PATH_MAX]) {
    const char *tmp = tool_file_temporary();
    snprintf(folder, PATH_MAX, "%s/malloc-trace-XXXXXX", tmp);
    if (mkdtemp(folder) != NULL)
        return true;
    tool_error("cannot make a folder in %s: %s", tmp, strerror(errno));
    folder[0] = '\0';
    return false;
}

void compare_traces_remove_folder(const char *folder) {
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

/* Reads T, for its numbers of operations and threads. */
static bool scan_trace(struct comparison *c, struct compare_trace *t) {
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
    info_free(&f);
    return good;
}

static bool write_sorted(void *ctx, const void *data, size_t n) {
    return tool_output_write(ctx, data, n);
}

/* Sorts the raw trace NAME into the file OUT_NAME, once for all runs. The
   numbers that the sorter knows go into T, so that OUT_NAME need not be
   scanned. */
static bool sort_trace(struct comparison *c, struct compare_trace *t,
                       const char *name, const char *out_name) {
    struct tool_output *out = tool_output_open(
        out_name,
        mtf_compress_available() ? TOOL_OUTPUT_LZ4 : TOOL_OUTPUT_PLAIN);
    if (out == NULL) {
        tool_error("%s: %s", out_name, tool_file_error_text(errno));
        return false;
    }
    enum sorter_step step = SORTER_FAILED;
    struct sorter *s = sorter_new(&(struct sorter_options){
        .name = name, .quiet = true, .write = write_sorted, .ctx = out});
    if (s != NULL)
        while ((step = sorter_step(s)) == SORTER_MORE)
            continue;
    bool good = step == SORTER_END && sorter_end(s);
    const char *problem = s == NULL ? "out of memory" : sorter_problem(s);
    int error = tool_output_error(out);
    if (!good && problem == NULL && error == 0)
        problem = "out of memory";
    if (!good && problem != NULL)
        tool_error("%s", problem);
    if (good && !tool_stop_requested()) {
        const struct sort_account *a = sorter_account(s);
        t->threads = a->counts.threads;
        t->ops = a->ops + a->counts.failed;
        c->lacks |= sorter_tell(s) != TOOL_OK;
    }
    sorter_free(s);
    if (!good)
        tool_output_drop(out);
    else if (!tool_output_close(out))
        error = errno;
    if (error != 0)
        tool_error("%s: %s", out_name, tool_file_error_text(error));
    return good && error == 0 && !tool_stop_requested();
}

/* Puts the absolute name of a processed or foreign trace into PATH. false: NAME
   is a raw trace, or none, with errno in *ERROR. */
static bool is_replayable(const char *name, char path[PATH_MAX], int *error) {
    struct trace t;
    *error = 0;
    if (!trace_open(&t, name, NULL)) {
        *error = errno;
        return false;
    }
    bool ready = t.sorting == NULL && tool_ops_is_processed(t.in, name);
    (void)trace_close(&t, true);
    if (ready && realpath(name, path) == NULL)
        *error = errno;
    return ready;
}

bool compare_traces_add(struct comparison *c, const char *name,
                        const char *folder) {
    char path[PATH_MAX], real_folder[PATH_MAX], out[2 * PATH_MAX];
    int error;
    bool ready = is_replayable(name, path, &error);
    if (error == 0 && !ready && realpath(folder, real_folder) == NULL)
        error = errno;
    if (error != 0) {
        tool_error("%s: %s", name, strerror(error));
        return false;
    }
    if (!ready)
        snprintf(out, sizeof(out), "%s/%zu.trace.lz4", real_folder, c->traces);
    if (!comparison_add_trace(c, ready ? path : out, name))
        return false;
    struct compare_trace *t = &c->trace[c->traces - 1];
    bool good = ready ? scan_trace(c, t) : sort_trace(c, t, name, out);
    if (good && t->ops == 0) {
        tool_error("%s: the trace has no operations", t->name);
        good = false;
    }
    if (!good)
        comparison_remove_trace(c);
    return good;
}

void compare_traces_set_modes(struct comparison *c) {
    for (size_t i = 0; i < c->traces; i++)
        c->trace[i].mode = c->threads != NULL        ? c->threads
                           : c->trace[i].threads > 1 ? "real"
                                                     : "none";
}

/* --- A command ------------------------------------------------------------ */

/* Lists the recordings in FOLDER, whose names end in .raw, including those of
   which only the spool was left. Returns their number. */
static size_t list_recordings(const char *folder, char ***names) {
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

/* Removes traces with less than a twentieth of the largest one's operations:
   their figures are mostly those of start and end. */
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

bool compare_traces_record(struct comparison *c, char **command,
                           const char *folder, int out, int *status) {
    static char program[PATH_MAX];
    char pattern[2 * PATH_MAX], label[PATH_MAX];
    struct tool_child_end end;
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
        if (*f == '%') /* a literal one */
            pattern[used++] = '%';
        pattern[used++] = *f;
    }
    strcpy(pattern + used, "/%e.%p.raw");
    bool good = tool_own_program("malloc-trace", program);
    size_t n = 0;
    argv[n++] = program;
    argv[n++] = (char *)(uintptr_t) "record";
    argv[n++] = (char *)(uintptr_t) "-q";
    argv[n++] = (char *)(uintptr_t) "-o";
    argv[n++] = pattern;
    argv[n++] = (char *)(uintptr_t) "--";
    memcpy(argv + n, command, words * sizeof(*argv));
    struct tool_child_spec what = {.argv = argv,
                                   .out = out,
                                   .signals = TOOL_CHILD_STOPS,
                                   .dies_with_parent = true};
    good = good && tool_child_run(&what, 0, &end);
    free(argv);
    if (!good)
        return false;
    *status = end.status;
    char **names = NULL;
    size_t count = list_recordings(folder, &names);
    for (size_t i = 0; i < count; i++) {
        if (good && !tool_stop_requested() &&
            compare_traces_add(c, names[i], folder)) {
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
