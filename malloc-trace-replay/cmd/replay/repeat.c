/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/repeat.h"

#include "base/bits.h"
#include "base/os_mem.h"
#include "base/raw_io.h"
#include "cmd/replay/again.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/stop.h"
#include "common/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Figures that are compared, as keys of a run's JSON. */
enum { WALL, CPU, PEAK, FIGURES };
static const char *const figure_key[FIGURES] = {"wall_ns", "cpu_ns",
                                                "peak_rss_bytes"};

struct figure {
    uint64_t least, median, most;
};

struct repeat {
    uint64_t wanted, made;
    char **text;              /* JSON of each run */
    uint64_t *value[FIGURES]; /* of each run */
    char **words;             /* of the command line */
    char word[64];            /* the one that differs from run to run */
    int status;               /* the worst of the runs */
    bool interrupted;
};

bool replay_repeat_can(char *const *file, int count) {
    struct stat st;
    for (int i = 0; i < count; i++) {
        if (strcmp(file[i], "-") == 0)
            break;
        if (stat(file[i], &st) == 0 && !S_ISREG(st.st_mode)) {
            (void)tool_usage_error("--repeat: %s cannot be read again",
                                   file[i]);
            return false;
        }
        if (i == count - 1)
            return true;
    }
    (void)tool_usage_error("--repeat: standard input cannot be read again");
    return false;
}

bool replay_repeat_parse(const char *text, const char **json,
                         uint64_t *number) {
    char *end;
    *number = strtoull(text, &end, 10);
    *json = end + 1;
    return end != text && *end == ',';
}

bool replay_repeat_name(char *to, size_t size, const char *name,
                        uint64_t number) {
    const char *slash = strrchr(name, '/');
    const char *dot = strrchr(name, '.');
    size_t length = strlen(name);
    /* a dot in front of a file's name begins no ending */
    const char *first = slash == NULL ? name : slash + 1;
    size_t stem = dot == NULL || dot <= first ? length : (size_t)(dot - name);
    int n = snprintf(to, size, "%.*s.%llu%s", (int)stem, name,
                     (unsigned long long)number, name + stem);
    return n > 0 && (size_t)n < size;
}

/* --- Memory and files ----------------------------------------------------- */

#define CHUNK_BYTES ((size_t)1 << 20)

/* Zeroed memory that is kept to the end, none of the allocator under test.
   NULL: out of memory. */
static void *piece(size_t bytes) {
    static char *at;
    static size_t left;
    bytes = tcm_align_up(bytes, 16);
    if (bytes > left) {
        left = tcm_align_up(bytes, CHUNK_BYTES);
        at = tcm_os_map(left);
        if (at == NULL) {
            left = 0;
            return NULL;
        }
    }
    at += bytes;
    left -= bytes;
    return at - bytes;
}

/* Reads the file FD and adds a null byte. NULL: out of memory, or it cannot be
   read. */
static char *read_whole(int fd, size_t *size) {
    off_t end = lseek(fd, 0, SEEK_END);
    char *text = end < 0 ? NULL : piece((size_t)end + 1);
    *size = 0;
    return text != NULL && lseek(fd, 0, SEEK_SET) == 0 &&
                   tcm_io_read_full(fd, text, (size_t)end, size)
               ? text
               : NULL;
}

/* A file in memory, to be written and read again. -1: errno. */
static int scratch(const char *name) {
    return memfd_create(name, 0);
}

static void rewind_fd(int fd) {
    (void)lseek(fd, 0, SEEK_SET);
}

/* --- A run ---------------------------------------------------------------- */

static TCM_NORETURN void run_child(const struct repeat *r, int messages,
                                   pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(TOOL_FAILED);
    if (messages >= 0)
        (void)dup2(messages, STDERR_FILENO);
    replay_again(r->words, true);
    tool_error("cannot run again: %s", strerror(errno));
    _exit(TOOL_FAILED);
}

/* The exit status, or 128 plus the signal that ended it. */
static int run_await(pid_t child) {
    int status = 0;
    tool_stop_pass_to(child);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    tool_stop_pass_to(0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* A later run mostly says what the first one said, so its messages are shown
   only if it ends otherwise. */
static void show_messages(int messages) {
    size_t size = 0;
    char *text = read_whole(messages, &size);
    if (text != NULL)
        (void)tcm_io_write_all(STDERR_FILENO, text, size);
}

/* The number KEY of the JSON document TEXT. */
static uint64_t number_of(const char *text, const char *key) {
    char line[64];
    snprintf(line, sizeof(line), "\n  \"%s\": ", key);
    const char *at = strstr(text, line);
    return at == NULL ? 0 : strtoull(at + strlen(line), NULL, 10);
}

static bool is_true(const char *text, const char *key) {
    char line[64];
    snprintf(line, sizeof(line), "\n  \"%s\": true", key);
    return strstr(text, line) != NULL;
}

/* Makes one run, whose JSON goes to the descriptor RESULT. False: a message was
   printed. */
static bool run_once(struct repeat *r, int result, int messages) {
    pid_t parent = getpid();
    size_t size = 0;
    if (ftruncate(result, 0) != 0 ||
        (messages >= 0 && ftruncate(messages, 0) != 0)) {
        tool_error("cannot empty a file in memory: %s", strerror(errno));
        return false;
    }
    if (messages >= 0)
        rewind_fd(messages);
    snprintf(r->word, sizeof(r->word),
             "--" REPLAY_REPEAT_RUN "=%llu,/proc/self/fd/%d",
             (unsigned long long)r->made + 1, result);
    /* a stop is held until the new process can obey it */
    tool_stop_hold(true);
    pid_t child = fork();
    if (child == 0)
        run_child(r, r->made == 0 ? -1 : messages, parent);
    tool_stop_hold(false);
    if (child < 0) {
        tool_error("cannot make a process: %s", strerror(errno));
        return false;
    }
    int status = run_await(child);
    if (r->made != 0 && status != r->status)
        show_messages(messages);
    if (status > 128)
        tool_error("run %llu was ended by signal %d (%s)",
                   (unsigned long long)r->made + 1, status - 128,
                   strsignal(status - 128));
    if (status != TOOL_OK && status != TOOL_DAMAGED && status != TOOL_ALLOCATOR)
        return false;
    if (status > r->status)
        r->status = status;
    char *text = read_whole(result, &size);
    if (text == NULL) {
        tool_error("out of memory");
        return false;
    }
    if (text[0] != '{')
        return false;
    r->text[r->made] = text;
    for (unsigned f = 0; f < FIGURES; f++)
        r->value[f][r->made] = number_of(text, figure_key[f]);
    r->interrupted |= is_true(text, "interrupted");
    r->made++;
    return true;
}

/* --- The account ---------------------------------------------------------- */

/* The C library's qsort asks for memory. */
static void sort(uint64_t *v, size_t n) {
    for (size_t gap = n / 2; gap != 0; gap /= 2)
        for (size_t i = gap; i < n; i++) {
            uint64_t one = v[i];
            size_t at = i;
            for (; at >= gap && v[at - gap] > one; at -= gap)
                v[at] = v[at - gap];
            v[at] = one;
        }
}

static struct figure figure_of(struct repeat *r, unsigned f) {
    uint64_t *v = r->value[f];
    size_t n = r->made;
    sort(v, n);
    return (struct figure){v[0], (v[(n - 1) / 2] + v[n / 2]) / 2, v[n - 1]};
}

static void print_figure(FILE *out, const char *name, struct figure f,
                         const char *(*text)(struct tool_text *t, uint64_t n)) {
    struct tool_text a, b, c;
    fprintf(out, "%-18s%14s%14s%14s\n", name, text(&a, f.least),
            text(&b, f.median), text(&c, f.most));
}

static void print_all(const struct repeat *r, const struct figure *f,
                      FILE *out) {
    struct tool_text a;
    char title[48];
    const char *name = strstr(r->text[0], "\n  \"allocator\": \"");
    if (name != NULL) {
        name += strlen("\n  \"allocator\": \"");
        char allocator[256];
        snprintf(allocator, sizeof(allocator), "%.*s", (int)strcspn(name, "\""),
                 name);
        fprintf(out, "allocator         %s\n", tool_text_shown(allocator));
    }
    fprintf(out, "operations        %s\n",
            tool_text_count(&a, number_of(r->text[0], "ops")));
    snprintf(title, sizeof(title), "%s run%s", tool_text_count(&a, r->made),
             r->made == 1 ? "" : "s");
    fprintf(out, "%-18s%14s%14s%14s\n", title, "least", "median", "most");
    print_figure(out, "processor time", f[CPU], tool_text_ns);
    print_figure(out, "wall time", f[WALL], tool_text_ns);
    print_figure(out, "peak memory", f[PEAK], tool_text_bytes);
}

static void json_all(const struct repeat *r, const struct figure *f,
                     struct tool_json *j) {
    bool complete = r->made == r->wanted;
    for (uint64_t i = 0; i < r->made; i++)
        complete &= is_true(r->text[i], "complete");
    tool_json_begin_object(j, NULL);
    tool_json_u64(j, "repeat", r->wanted);
    tool_json_bool(j, "complete", complete);
    tool_json_bool(j, "interrupted", r->interrupted);
    for (unsigned i = 0; i < FIGURES; i++) {
        tool_json_begin_object(j, figure_key[i]);
        tool_json_u64(j, "min", f[i].least);
        tool_json_u64(j, "median", f[i].median);
        tool_json_u64(j, "max", f[i].most);
        tool_json_end_object(j);
    }
    tool_json_begin_array(j, "runs");
    for (uint64_t i = 0; i < r->made; i++)
        tool_json_document(j, NULL, r->text[i]);
    tool_json_end_array(j);
    tool_json_end_object(j);
}

/* --- All ------------------------------------------------------------------ */

static bool begin(struct repeat *r, int *result, int *messages) {
    *result = scratch("result");
    *messages = scratch("messages");
    if (*result < 0 || *messages < 0) {
        tool_error("cannot make a file in memory: %s", strerror(errno));
        return false;
    }
    r->text = piece(r->wanted * sizeof(*r->text));
    bool good = r->words != NULL && r->text != NULL;
    for (unsigned f = 0; f < FIGURES; f++) {
        r->value[f] = piece(r->wanted * sizeof(*r->value[f]));
        good &= r->value[f] != NULL;
    }
    if (!good)
        tool_error("out of memory");
    return good;
}

int replay_repeat(uint64_t runs, const char *json, char **words) {
    static struct tool_json j;
    struct repeat r = {.wanted = runs, .words = words};
    int result, messages;
    if (words != NULL)
        words[1] = r.word;
    tool_stop_catch();
    if (json != NULL && !tool_json_open(&j, json))
        return TOOL_FAILED;
    bool good = begin(&r, &result, &messages);
    while (good && r.made < runs && !r.interrupted && !tool_stop_requested())
        good = run_once(&r, result, messages);
    r.interrupted |= r.made < runs;
    if (!good || r.made == 0) {
        if (json != NULL)
            tool_json_drop(&j);
        return TOOL_FAILED;
    }
    struct figure figure[FIGURES];
    for (unsigned f = 0; f < FIGURES; f++)
        figure[f] = figure_of(&r, f);
    bool to_stdout = json != NULL && tool_file_is_stdout(json);
    if (!tool_is_quiet())
        print_all(&r, figure, to_stdout ? stderr : stdout);
    if (json != NULL) {
        json_all(&r, figure, &j);
        if (!tool_json_close(&j))
            return TOOL_FAILED;
    }
    return r.interrupted ? TOOL_DAMAGED : r.status;
}
