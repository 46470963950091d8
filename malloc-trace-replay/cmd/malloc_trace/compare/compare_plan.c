/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_plan.h"

#include "base/raw_io.h"
#include "cmd/malloc_trace/compare/compare_result.h"
#include "cmd/malloc_trace/compare/compare_rounds.h"
#include "cmd/malloc_trace/compare/compare_run.h"
#include "common/child.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- The folder ----------------------------------------------------------- */

static bool is_empty(const char *dir) {
    struct dirent *entry;
    bool empty = true;
    DIR *d = opendir(dir);
    while (d != NULL && (entry = readdir(d)) != NULL)
        empty = empty && (strcmp(entry->d_name, ".") == 0 ||
                          strcmp(entry->d_name, "..") == 0);
    if (d != NULL)
        closedir(d);
    return empty;
}

static bool make_folder(const char *path) {
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return true;
    tool_error("cannot make the folder %s: %s", path, strerror(errno));
    return false;
}

/* Tells whether PATH can stand in a line of jobs.txt, which is a command:
   quotes hold everything but the line's end, and programs that run such lines
   know other control characters as ends. */
static bool fits_line(const char *path) {
    for (const char *at = path; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f) {
            tool_error("%s: a control character in the name breaks the lines "
                       "of jobs.txt",
                       path);
            return false;
        }
    return true;
}

bool compare_plan_make_folder(const char *dir, char traces[PATH_MAX]) {
    char path[2 * PATH_MAX], program[PATH_MAX];
    if (!tool_own_program("malloc-trace", program) || !fits_line(program) ||
        !fits_line(dir) || !make_folder(dir))
        return false;
    if (realpath(dir, traces) == NULL) {
        tool_error("%s: %s", dir, strerror(errno));
        return false;
    }
    if (!fits_line(traces))
        return false;
    if (!is_empty(dir)) {
        tool_error("%s: there is something in the folder already", dir);
        return false;
    }
    snprintf(path, sizeof(path), "%s/results", dir);
    if (!make_folder(path))
        return false;
    snprintf(path, sizeof(path), "%s/traces", dir);
    if (!make_folder(path))
        return false;
    if (realpath(path, traces) != NULL)
        return true;
    tool_error("%s: %s", path, strerror(errno));
    return false;
}

static bool write_plan(const struct comparison *c, const char *dir) {
    static struct tool_json j;
    char path[2 * PATH_MAX];
    snprintf(path, sizeof(path), "%s/plan.json", dir);
    if (!tool_json_open(&j, path))
        return false;
    tool_json_begin_object(&j, NULL);
    tool_json_string(&j, "format", COMPARE_PLAN_FORMAT);
    tool_json_string(&j, "command", c->command);
    tool_json_string(&j, "baseline", c->who.list[c->baseline].name);
    tool_json_u64(&j, "rounds", c->rounds);
    tool_json_double(&j, "margin", c->margin);
    tool_json_double(&j, "confidence", c->confidence);
    tool_json_u64(&j, "limit_ns", c->limit_ns);
    tool_json_string(&j, "touch", c->touch == NULL ? "" : c->touch);
    tool_json_string(&j, "speed", c->speed == NULL ? "" : c->speed);
    tool_json_begin_array(&j, "contestants");
    for (size_t i = 0; i < c->who.count; i++) {
        const struct contestant *who = &c->who.list[i];
        tool_json_begin_object(&j, NULL);
        tool_json_string(&j, "name", who->name);
        tool_json_string(&j, "library", who->library);
        tool_json_begin_array(&j, "environment");
        for (size_t e = 0; e < who->envs; e++)
            tool_json_string(&j, NULL, who->env[e]);
        tool_json_end_array(&j);
        if (who->why != NULL)
            tool_json_string(&j, "why", who->why);
        tool_json_end_object(&j);
    }
    tool_json_end_array(&j);
    tool_json_begin_array(&j, "traces");
    for (size_t i = 0; i < c->traces; i++) {
        tool_json_begin_object(&j, NULL);
        tool_json_string(&j, "name", c->trace[i].name);
        tool_json_string(&j, "path", c->trace[i].path);
        tool_json_string(&j, "mode", c->trace[i].mode);
        tool_json_end_object(&j);
    }
    tool_json_end_array(&j);
    tool_json_end_object(&j);
    return tool_json_close(&j);
}

static void put_job(FILE *f, const char *program, const char *dir, size_t round,
                    size_t trace, size_t who) {
    shell_put_quoted(f, program);
    fputs(" compare --job ", f);
    fprintf(f, "%zu.%zu.%zu ", round, trace, who);
    shell_put_quoted(f, dir);
}

static bool write_jobs(const struct comparison *c, const char *dir) {
    char path[2 * PATH_MAX], program[PATH_MAX], absolute[PATH_MAX];
    size_t a_round = c->traces * c->who.count;
    size_t *order = malloc(a_round * sizeof(*order));
    if (!tool_own_program("malloc-trace", program) || order == NULL ||
        realpath(dir, absolute) == NULL) {
        free(order);
        tool_error("%s: %s", dir, strerror(errno));
        return false;
    }
    snprintf(path, sizeof(path), "%s/jobs.txt", dir);
    FILE *f = tool_file_stream(path);
    uint64_t state = c->seed;
    for (size_t r = 0; f != NULL && r <= c->rounds; r++) {
        compare_shuffle(order, a_round, &state);
        for (size_t i = 0; i < a_round; i++) {
            if (c->who.list[order[i] % c->who.count].why != NULL)
                continue;
            put_job(f, program, absolute, r, order[i] / c->who.count,
                    order[i] % c->who.count);
            fputc('\n', f);
        }
    }
    free(order);
    return f != NULL && tool_file_stream_end(f, path);
}

bool compare_plan_write(const struct comparison *c, const char *dir) {
    return write_plan(c, dir) && write_jobs(c, dir);
}

/* --- A job ---------------------------------------------------------------- */

static void result_path(char *path, size_t size, const char *dir, size_t round,
                        size_t trace, size_t who) {
    snprintf(path, size, "%s/results/%zu.%zu.%zu.json", dir, round, trace, who);
}

static bool write_result(const char *path, const char *text, size_t n) {
    struct tool_file_new file;
    int fd = tool_file_open_new(&file, path);
    bool good = fd >= 0 && tcm_io_write_all(fd, text, n);
    int error = errno;
    if (fd >= 0 && close(fd) != 0 && good) {
        good = false;
        error = errno;
    }
    if (good && !tool_file_keep(&file)) {
        good = false;
        error = errno;
    }
    if (!good) {
        tool_error("cannot write %s: %s", path, tool_file_error_text(error));
        tool_file_drop(&file);
    }
    return good;
}

static bool parse_id(const char *id, size_t number[3]) {
    char text[32];
    for (int i = 0; i < 3; i++) {
        uint64_t v;
        size_t n = strcspn(id, ".");
        if (n >= sizeof(text) || (id[n] == '.') != (i < 2))
            return false;
        memcpy(text, id, n);
        text[n] = '\0';
        if (!tool_parse_u64(text, UINT32_MAX, &v))
            return false;
        number[i] = (size_t)v;
        id += n + (i < 2);
    }
    return true;
}

/* The file PATH, with a null byte behind; NULL: errno. */
static char *read_file(const char *path, size_t *size) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    bool is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    char *text = is_file ? tool_child_text(fd, SIZE_MAX - 1, size) : NULL;
    close(fd);
    return text;
}

int compare_plan_run_job(const char *dir, const char *id) {
    struct comparison c = {0};
    char path[2 * PATH_MAX];
    size_t at[3], n, rounds;
    int status = TOOL_FAILED;
    if (!parse_id(id, at))
        return tool_usage_error("--job %s: it is no ROUND.TRACE.CONTESTANT",
                                id);
    snprintf(path, sizeof(path), "%s/plan.json", dir);
    if (!compare_result_read_plan(&c, path, &rounds)) {
        comparison_free(&c);
        return TOOL_FAILED;
    }
    if (at[0] > rounds || at[1] >= c.traces || at[2] >= c.who.count) {
        status = tool_usage_error("--job %s: there is none in the plan", id);
        comparison_free(&c);
        return status;
    }
    result_path(path, sizeof(path), dir, at[0], at[1], at[2]);
    char problem[200];
    char *before = read_file(path, &n);
    if (before != NULL &&
        compare_result_is(&c, before, n, at[0], at[1], at[2], problem)) {
        status = TOOL_OK;
    } else {
        char *text = compare_run_make(&c, at[0], at[1], at[2], &n);
        if (text != NULL && write_result(path, text, n))
            status = TOOL_OK;
        free(text);
    }
    free(before);
    comparison_free(&c);
    return status;
}

/* The last round that results/ of DIR has a file of, at most MOST; FILES gets
   how many there are. */
static size_t last_round(const char *dir, size_t most, size_t *files) {
    char path[2 * PATH_MAX];
    size_t last = 0, number[3];
    struct dirent *entry;
    snprintf(path, sizeof(path), "%s/results", dir);
    DIR *d = opendir(path);
    *files = 0;
    while (d != NULL && (entry = readdir(d)) != NULL) {
        char *end = strstr(entry->d_name, ".json");
        if (end == NULL || end[5] != '\0')
            continue;
        *end = '\0';
        if (!parse_id(entry->d_name, number) || number[0] > most)
            continue;
        last = number[0] > last ? number[0] : last;
        ++*files;
    }
    if (d != NULL)
        closedir(d);
    return last;
}

/* --- Merging -------------------------------------------------------------- */

enum { NAMED = 20 };

static void tell_missing(const char *dir, size_t round, size_t trace,
                         size_t who, const char *why, size_t so_far) {
    if (so_far < NAMED)
        tool_error("%s: job %zu.%zu.%zu %s", dir, round, trace, who, why);
    else if (so_far == NAMED)
        tool_error("%s: further jobs without a result are not named", dir);
}

/* The results of the plan in DIR up to its round LAST, whose traces begin at
   FIRST in C and are COUNT; WHO maps its contestants to C's. */
static void merge_results(struct comparison *c, const char *dir, size_t first,
                          size_t count, size_t last, const size_t *who,
                          size_t contestants, size_t *missing) {
    char path[2 * PATH_MAX], problem[200], why[240];
    for (size_t r = 0; r <= last; r++)
        for (size_t t = 0; t < count; t++)
            for (size_t i = 0; i < contestants; i++) {
                size_t n = 0;
                if (c->who.list[who[i]].why != NULL)
                    continue;
                result_path(path, sizeof(path), dir, r, t, i);
                char *text = read_file(path, &n);
                if (text == NULL) {
                    /* the warm-up is nobody's figure */
                    if (r != 0)
                        tell_missing(dir, r, t, i, "has no result",
                                     (*missing)++);
                } else if (!compare_result_take(c, text, n, r, first + t,
                                                who[i], problem)) {
                    snprintf(why, sizeof(why), "has a bad result: %s", problem);
                    tell_missing(dir, r, t, i, why, (*missing)++);
                }
                free(text);
            }
}

/* No round from FROM to ROUNDS has a result. */
static void count_missing(const struct comparison *c, const char *dir,
                          size_t count, size_t from, size_t rounds,
                          const size_t *who, size_t contestants,
                          size_t *missing) {
    size_t part = 0;
    for (size_t i = 0; i < contestants; i++)
        part += c->who.list[who[i]].why == NULL;
    for (size_t r = from; r <= rounds && part * count != 0; r++) {
        if (*missing > NAMED) {
            *missing += (rounds - r + 1) * part * count;
            return;
        }
        for (size_t t = 0; t < count; t++)
            for (size_t i = 0; i < contestants; i++)
                if (c->who.list[who[i]].why == NULL)
                    tell_missing(dir, r, t, i, "has no result", (*missing)++);
    }
}

/* Tells whether the rounds up to LAST, of which few may have results, have too
   many places for runs: memory would go to empty places. */
static bool is_sparse(const struct comparison *plan, size_t last,
                      size_t files) {
    double places =
        (double)(last + 1) * (double)plan->traces * (double)plan->who.count;
    return places > 1e6 + 1e3 * (double)files;
}

/* Adds to C what plan PART has: its traces, and rooms. WHO as above. */
static bool merge_plan(struct comparison *c, const struct comparison *part,
                       const char *dir, size_t *who) {
    for (size_t i = 0; i < part->who.count; i++) {
        who[i] = contestants_find(&c->who, part->who.list[i].name);
        if (who[i] == SIZE_MAX) {
            tool_error("%s: the other plans have no contestant %s", dir,
                       part->who.list[i].name);
            return false;
        }
        if (!contestants_are_alike(&c->who.list[who[i]], &part->who.list[i])) {
            tool_error("%s: %s is another library there, or has other settings",
                       dir, part->who.list[i].name);
            return false;
        }
    }
    for (size_t i = 0; i < part->traces; i++) {
        const struct compare_trace *from = &part->trace[i];
        if (!comparison_add_trace(c, from->path, from->name))
            return false;
        c->trace[c->traces - 1].mode = from->mode;
        c->trace[c->traces - 1].number = i;
    }
    return true;
}

bool compare_plan_merge(struct comparison *c, char *const *dir, int n,
                        size_t *missing) {
    char path[2 * PATH_MAX];
    struct comparison *part = calloc((size_t)n, sizeof(*part));
    size_t **who = calloc((size_t)n, sizeof(*who));
    size_t *planned = calloc((size_t)n, sizeof(*planned));
    size_t *last = calloc((size_t)n, sizeof(*last));
    size_t rounds = 0, files;
    bool good = part != NULL && who != NULL && planned != NULL && last != NULL;
    *missing = 0;
    for (int i = 0; good && i < n; i++) {
        snprintf(path, sizeof(path), "%s/plan.json", dir[i]);
        good = compare_result_read_plan(&part[i], path, &planned[i]);
        if (!good)
            break;
        last[i] = last_round(dir[i], planned[i], &files);
        if (is_sparse(&part[i], last[i], files)) {
            tool_error("%s: %zu results are too few for a plan of %zu rounds, "
                       "%zu traces and %zu contestants",
                       dir[i], files, last[i], part[i].traces,
                       part[i].who.count);
            good = false;
            break;
        }
        if (i == 0) {
            /* the first plan's contestants and options are the comparison's */
            *c = part[0];
            part[0].who = (struct contestants){0};
            c->trace = NULL;
            c->traces = c->trace_room = 0;
            part[0].who.list = c->who.list;
            part[0].who.count = c->who.count;
        }
        who[i] = calloc(part[i].who.count, sizeof(**who));
        good = who[i] != NULL && merge_plan(c, &part[i], dir[i], who[i]);
        rounds = last[i] > rounds ? last[i] : rounds;
    }
    good = good && comparison_make_room(c, rounds);
    size_t first = 0;
    for (int i = 0; good && i < n; i++) {
        merge_results(c, dir[i], first, part[i].traces, last[i], who[i],
                      part[i].who.count, missing);
        count_missing(c, dir[i], part[i].traces, last[i] + 1, planned[i],
                      who[i], part[i].who.count, missing);
        first += part[i].traces;
    }
    c->made = rounds;
    for (int i = 0; part != NULL && i < n; i++) {
        if (i == 0)
            part[0].who = (struct contestants){0};
        comparison_free(&part[i]);
    }
    for (int i = 0; who != NULL && i < n; i++)
        free(who[i]);
    free(who);
    free(planned);
    free(last);
    free(part);
    return good;
}
