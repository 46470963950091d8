/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_run.h"

#include "base/clock.h"
#include "cmd/malloc_trace/compare/compare_result.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Bytes that are read of what a child writes: far above a long run's JSON. */
#define OUTPUT_MAX ((size_t)1 << 30)

/* A run that takes this many times the baseline's, and so much more, hangs. */
enum { HANGS = 30, HANGS_SECONDS = 15 };

uint64_t compare_run_limit_ns(uint64_t baseline_ns) {
    return HANGS_SECONDS * (uint64_t)1000000000 + HANGS * baseline_ns;
}

/* --- A run ---------------------------------------------------------------- */

enum { WORDS = 12 };

struct words {
    char *word[WORDS + 1];
    char text[6][64];
    unsigned count, texts;
};

static void word(struct words *w, const char *text) {
    w->word[w->count++] = (char *)(uintptr_t)text;
}

static void word_set(struct words *w, const char *option, const char *value) {
    char *text = w->text[w->texts++];
    snprintf(text, sizeof(w->text[0]), "--%s=%s", option, value);
    word(w, text);
}

static void word_fd(struct words *w, const char *option, int fd,
                    const char *suffix) {
    char path[40];
    snprintf(path, sizeof(path), "/proc/self/fd/%d%s", fd, suffix);
    word_set(w, option, path);
}

/* The first line that a program wrote to stderr, without its name. */
static void first_line(int fd, char *out, size_t size) {
    size_t n;
    out[0] = '\0';
    char *text = tool_child_text(fd, OUTPUT_MAX, &n);
    if (text == NULL)
        return;
    text[strcspn(text, "\n")] = '\0';
    const char *at = strncmp(text, "replay: ", 8) == 0 ? text + 8 : text;
    snprintf(out, size, "%s", at);
    free(text);
}

/* Why a run has no figures. */
static void why_not(const struct tool_child_end *end, int err, char *why,
                    size_t size) {
    char how[120], line[300];
    tool_child_end_text(end, how, sizeof(how));
    first_line(err, line, sizeof(line));
    bool crashed =
        end->error == 0 && !end->timed_out && WIFSIGNALED(end->status);
    if (crashed)
        snprintf(why, size, "it crashed: %s", how);
    else if (line[0] != '\0' && !end->timed_out)
        snprintf(why, size, "%s: %s", how, line);
    else
        snprintf(why, size, "%s", how);
}

struct files {
    int result, messages, out;
    char course[PATH_MAX]; /* a file that replay writes; "": none */
};

static bool files_make(struct files *f) {
    f->result = tool_child_scratch("result");
    f->messages = tool_child_scratch("messages");
    f->out = tool_child_scratch("run");
    f->course[0] = '\0';
    return f->result >= 0 && f->messages >= 0 && f->out >= 0;
}

static void files_close(const struct files *f) {
    const int all[] = {f->result, f->messages, f->out};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(all); i++)
        if (all[i] >= 0)
            close(all[i]);
    if (f->course[0] != '\0')
        unlink(f->course);
}

static void put_documents(struct tool_json *j, const struct files *f) {
    size_t n;
    char *text = tool_child_text(f->result, OUTPUT_MAX, &n);
    if (text != NULL && text[0] == '{')
        tool_json_document(j, "replay", text);
    else
        tool_json_null(j, "replay");
    free(text);
    int course =
        f->course[0] == '\0' ? -1 : open(f->course, O_RDONLY | O_CLOEXEC);
    if (course < 0)
        return;
    text = tool_child_text(course, OUTPUT_MAX, &n);
    if (text != NULL && text[0] == '{')
        tool_json_document(j, "timeline", text);
    free(text);
    close(course);
}

static bool put(const struct comparison *c, const struct files *f, size_t round,
                size_t trace, size_t who, const char *why,
                const struct tool_child_end *end) {
    static struct tool_json j;
    char path[40];
    const struct contestant *contestant = &c->who.list[who];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", f->out);
    if (!tool_json_open(&j, path))
        return false;
    tool_json_begin_object(&j, NULL);
    tool_json_string(&j, "format", COMPARE_RUN_FORMAT);
    tool_json_string(&j, "contestant", contestant->name);
    tool_json_string(&j, "library", contestant->library);
    tool_json_begin_array(&j, "environment");
    for (size_t i = 0; i < contestant->envs; i++)
        tool_json_string(&j, NULL, contestant->env[i]);
    tool_json_end_array(&j);
    tool_json_string(&j, "trace", c->trace[trace].name);
    tool_json_u64(&j, "trace_number", c->trace[trace].number);
    tool_json_u64(&j, "round", round);
    tool_json_bool(&j, "ok", why == NULL);
    if (why == NULL)
        tool_json_null(&j, "why");
    else
        tool_json_string(&j, "why", why);
    tool_json_u64(&j, "process_ns", end->wall_ns);
    compare_machine_json(&c->machine, "machine", &j);
    put_documents(&j, f);
    tool_json_end_object(&j);
    return tool_json_close(&j);
}

static bool course_make(struct files *f) {
    const char *tmp = tool_file_temporary();
    snprintf(f->course, sizeof(f->course), "%s/malloc-trace-XXXXXX.json", tmp);
    int fd = mkostemps(f->course, 5, O_CLOEXEC);
    if (fd < 0) {
        tool_error("cannot make a file in %s: %s", tmp, strerror(errno));
        f->course[0] = '\0';
        return false;
    }
    close(fd);
    return true;
}

/* Round 0 warms up and looks at memory in the course of the run, which later
   rounds do without. */
static bool run_replay(const struct comparison *c, struct files *f,
                       size_t round, size_t trace, size_t who,
                       struct tool_child_end *end) {
    static char replay[PATH_MAX];
    struct words w = {.count = 0};
    const struct compare_trace *t = &c->trace[trace];
    if (replay[0] == '\0' && !tool_own_program("replay", replay))
        return false;
    word(&w, replay);
    word(&w, "-q");
    word_set(&w, "threads", t->mode);
    word_fd(&w, "json", f->result, "");
    if (c->touch != NULL)
        word_set(&w, "touch", c->touch);
    if (c->speed != NULL)
        word_set(&w, "speed", c->speed);
    if (round == 0) {
        if (!course_make(f))
            return false;
        word(&w, "--timeline");
        word(&w, f->course);
    } else {
        word(&w, "--latency");
    }
    word(&w, "--");
    word(&w, t->path);
    struct tool_child_spec what = {.argv = w.word,
                                   .in = TOOL_CHILD_NULL,
                                   .out = TOOL_CHILD_NULL,
                                   .err = f->messages,
                                   .keep = &f->result,
                                   .keep_count = 1};
    return contestant_run(&c->who.list[who], false, &what, c->limit_ns, end);
}

char *compare_run_make(struct comparison *c, size_t round, size_t trace,
                       size_t who, size_t *size) {
    struct files f;
    struct tool_child_end end;
    char why[480];
    char *text = NULL;
    const char *reason = NULL;
    if (c->machine.cpus == 0)
        compare_machine_look(&c->machine);
    if (!contestant_prepare(&c->who.list[who]))
        return NULL;
    bool good = files_make(&f) && run_replay(c, &f, round, trace, who, &end);
    /* a run that was told to stop has only a part of the figures */
    good = good && !tool_stop_requested();
    if (good) {
        int status = WIFEXITED(end.status) ? WEXITSTATUS(end.status) : 255;
        if (end.error != 0 || end.timed_out ||
            (status != TOOL_OK && status != TOOL_DAMAGED)) {
            why_not(&end, f.messages, why, sizeof(why));
            reason = why;
        }
        good = put(c, &f, round, trace, who, reason, &end);
    }
    if (good)
        text = tool_child_text(f.out, OUTPUT_MAX, size);
    files_close(&f);
    return text;
}

/* --- Who serves malloc --------------------------------------------------- */

/* The library that answers is the one that was asked for, whatever its links
   are called. */
static bool is_same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

static bool check(struct contestant *c) {
    static char program[PATH_MAX];
    char library[PATH_MAX], why[256], path[40];
    size_t n;
    bool took_over = false;
    struct tool_child_end end;
    int answer = tool_child_scratch("answer"),
        messages = tool_child_scratch("messages");
    if (answer < 0 || messages < 0 || !contestant_prepare(c) ||
        !tool_own_program("malloc-trace-allocator", program))
        return false;
    snprintf(path, sizeof(path), "--json=/proc/self/fd/%d", answer);
    char *argv[] = {program, (char *)(uintptr_t) "-q", path, NULL};
    struct tool_child_spec what = {.argv = argv,
                                   .in = TOOL_CHILD_NULL,
                                   .out = TOOL_CHILD_NULL,
                                   .err = messages,
                                   .keep = &answer,
                                   .keep_count = 1};
    bool made = contestant_run(c, false, &what, compare_run_limit_ns(0), &end);
    char *text = made ? tool_child_text(answer, OUTPUT_MAX, &n) : NULL;
    if (text != NULL && !tool_stop_requested()) {
        if (!compare_result_read_allocator(text, n, &took_over, &c->wraps,
                                           library, why)) {
            why_not(&end, messages, why, sizeof(why));
            contestant_out(c, "%s", why);
        } else if (c->library[0] != '\0' && !is_same_file(library, c->library))
            contestant_out(c,
                           "it did not take malloc over: malloc comes from "
                           "%s",
                           library);
        else if (!took_over)
            contestant_out(c, "it did not take malloc over: %s", why);
    }
    free(text);
    close(answer);
    close(messages);
    return text != NULL && !tool_stop_requested();
}

bool compare_run_check_contestants(struct comparison *c) {
    for (size_t i = 0; i < c->who.count; i++)
        if (c->who.list[i].why == NULL && !check(&c->who.list[i]))
            return false;
    return true;
}

/* --- What they do with blocks -------------------------------------------- */

static bool check_blocks(const struct compare_trace *t, struct contestant *who,
                         uint64_t limit_ns, uint64_t *took_ns) {
    char program[PATH_MAX], mode[32], line[300];
    struct tool_child_end end;
    int messages = tool_child_scratch("messages");
    if (messages < 0 || !tool_own_program("replay", program))
        return false;
    snprintf(mode, sizeof(mode), "--threads=%s", t->mode);
    char *argv[] = {
        program, (char *)(uintptr_t) "-q", (char *)(uintptr_t) "--check",
        mode,    (char *)(uintptr_t) "--", t->path,
        NULL};
    struct tool_child_spec what = {.argv = argv,
                                   .in = TOOL_CHILD_NULL,
                                   .out = TOOL_CHILD_NULL,
                                   .err = messages};
    bool made = contestant_run(who, false, &what, limit_ns, &end);
    /* A check that cannot be made, for lack of memory, finds no fault. */
    if (made && end.error == 0 && !end.timed_out && WIFEXITED(end.status) &&
        WEXITSTATUS(end.status) == TOOL_ALLOCATOR) {
        first_line(messages, line, sizeof(line));
        contestant_out(who, "it is at fault: %s", line);
    } else if (made && end.timed_out) {
        tool_child_end_text(&end, line, sizeof(line));
        contestant_out(who, "it hangs: the replay %s", line);
    }
    *took_ns = end.wall_ns;
    close(messages);
    return made && !tool_stop_requested();
}

bool compare_run_check_blocks(struct comparison *c) {
    size_t largest = 0;
    for (size_t t = 1; t < c->traces; t++)
        if (c->trace[t].ops > c->trace[largest].ops)
            largest = t;
    const struct compare_trace *trace = &c->trace[largest];
    uint64_t took_ns, limit_ns;
    if (!check_blocks(trace, &c->who.list[c->baseline], 0, &took_ns))
        return false;
    limit_ns = compare_run_limit_ns(took_ns);
    for (size_t i = 0; i < c->who.count; i++)
        if (c->who.list[i].why == NULL && i != c->baseline &&
            !check_blocks(trace, &c->who.list[i], limit_ns, &took_ns))
            return false;
    return true;
}
