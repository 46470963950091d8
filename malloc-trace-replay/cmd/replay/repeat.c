/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/repeat.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_file.h"
#include "common/child.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/shared_library.h"
#include "common/stop.h"
#include "common/text.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Compared figures, by their keys in the JSON of a run. */
enum { WALL, CPU, PEAK, FIGURES };
static const char *const figure_key[FIGURES] = {"wall_ns", "cpu_ns",
                                                "peak_rss_bytes"};

struct figure {
    uint64_t least, median, most;
};

struct repeat {
    uint64_t wanted, made;
    char **text;                  /* JSON of each run */
    uint64_t *value[FIGURES];     /* of each run */
    char **words;                 /* command line of a run */
    char word[64];                /* word of the command line that differs from
                                     run to run */
    int status;                   /* worst exit status of the runs */
    char allocator[256];          /* of the first run */
    uint64_t ops;                 /* likewise */
    bool interrupted, incomplete; /* a run was */
};

/* --- This program once more ----------------------------------------------- */

#define UNDER "--" REPLAY_UNDER "="

char **replay_again_words(int argc, char **argv) {
    size_t n = argc < 1 ? 1 : (size_t)argc;
    char **words =
        tcm_os_map(tcm_align_up((n + 2) * sizeof(*words), tcm_os_page_size()));
    if (words == NULL || argc < 1)
        return NULL;
    words[0] = argv[0];
    size_t skip = argc > 1 && strncmp(argv[1], UNDER, strlen(UNDER)) == 0;
    memcpy(words + 2, argv + 1 + skip, (n - 1 - skip) * sizeof(*words));
    return words;
}

/* Returns the name by which this program was executed. /proc/self/exe is the
   loader where the loader was called to run the program. */
const char *replay_again_file(void) {
    const char *name = (const char *)getauxval(AT_EXECFN);
    return name != NULL ? name : "/proc/self/exe";
}

void replay_again(char *const *words) {
    (void)unsetenv("LD_PRELOAD");
    tool_before_exec();
    execv(replay_again_file(), words);
}

void replay_again_under(const char *library, char **words) {
    static char word[PATH_MAX + sizeof(UNDER)], preload[PATH_MAX];
    static char link[PATH_MAX];
    snprintf(preload, sizeof(preload), "%s", library);
    if (words == NULL) {
        tool_out_of_memory();
        return;
    }
    if (!tool_preload_link(preload, link))
        return;
    snprintf(word, sizeof(word), UNDER "%s", preload);
    words[1] = word;
    bool is_set = preload[0] == '\0' ? unsetenv("LD_PRELOAD") == 0
                                     : setenv("LD_PRELOAD", preload, 1) == 0;
    if (is_set) {
        tool_before_exec();
        execv(replay_again_file(), words);
    }
    tool_error("cannot execute this program again: %s", strerror(errno));
    tool_preload_unlink(link);
}

/* Tells whether malloc comes from the file LIBRARY; else stores in *FROM where
   it comes from. */
static bool has_malloc_of(const char *library, const char **from) {
    Dl_info info;
    struct stat a, b;
    void *p = tool_symbol("malloc");
    if (p == NULL || dladdr(p, &info) == 0 || info.dli_fname == NULL)
        return false;
    *from = info.dli_fname;
    return stat(library, &a) == 0 && stat(info.dli_fname, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool replay_again_is_under(const char *library, const char *under) {
    static char link[PATH_MAX];
    const char *from = "nowhere";
    bool good = library[0] == '\0' || has_malloc_of(library, &from);
    if (strcmp(library, under) != 0) {
        snprintf(link, sizeof(link), "%s", under);
        tool_preload_unlink(link);
    }
    if (!good)
        tool_error("-a: %s did not take malloc over: malloc comes from %s",
                   library, from);
    return good;
}

void replay_again_fixed(char **words) {
    int persona = personality(0xffffffff);
    if (words == NULL || persona == -1 || (persona & ADDR_NO_RANDOMIZE) != 0 ||
        personality((unsigned long)persona | ADDR_NO_RANDOMIZE) == -1)
        return;
    /* Without the empty place. */
    words[1] = words[0];
    tool_before_exec();
    execv(replay_again_file(), words + 1);
    (void)personality((unsigned long)persona);
}

/* --- The command line of a run -------------------------------------------- */

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
    const char *dot = strrchr(name, '.');
    size_t length = strlen(name);
    /* A dot in front of a file's name begins no ending. */
    const char *first = tool_file_base(name);
    size_t stem = dot == NULL || dot <= first ? length : (size_t)(dot - name);
    int n = snprintf(to, size, "%.*s.%llu%s", (int)stem, name,
                     (unsigned long long)number, name + stem);
    return n > 0 && (size_t)n < size;
}

/* --- Memory and files ----------------------------------------------------- */

#define CHUNK_BYTES ((size_t)1 << 20)

/* Returns zeroed memory, which is kept to the end and does not come from the
   allocator under test. NULL: out of memory. */
static void *repeat_alloc(size_t bytes) {
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

/* Reads file FD, with a null byte behind. NULL: out of memory. */
static char *read_file_whole(int fd, size_t *size) {
    size_t room = tool_child_size(fd) + 1;
    char *text = repeat_alloc(room);
    *size = text != NULL ? tool_child_read(fd, text, room) : 0;
    return text;
}

/* --- A run ---------------------------------------------------------------- */

/* Shows the messages of a later run, which mostly repeat those of the first
   run; so only if it ended otherwise. */
static void show_messages(int messages) {
    size_t size = 0;
    char *text = read_file_whole(messages, &size);
    if (text != NULL)
        (void)tcm_io_write_all(STDERR_FILENO, text, size);
}

static uint64_t whole_of(const struct tool_json_value *root, const char *key) {
    double n = tool_json_number(tool_json_member(root, key));
    return n >= 0 && n < 1.8e19 ? (uint64_t)n : 0;
}

/* Takes the result of a run, TEXT of SIZE bytes. False: it is none, after a
   message. */
static bool take_run(struct repeat *r, char *text, size_t size) {
    char problem[TOOL_JSON_READ_PROBLEM];
    const struct tool_json_value *root = tool_json_read(text, size, problem);
    if (root == NULL) {
        tool_error("the result of run %llu: %s",
                   (unsigned long long)r->made + 1, problem);
        return false;
    }
    const char *allocator = tool_json_text(tool_json_member(root, "allocator"));
    if (r->made == 0) {
        snprintf(r->allocator, sizeof(r->allocator), "%s",
                 allocator == NULL ? "" : allocator);
        r->ops = whole_of(root, "ops");
    }
    for (unsigned f = 0; f < FIGURES; f++)
        r->value[f][r->made] = whole_of(root, figure_key[f]);
    r->interrupted |= tool_json_is_true(tool_json_member(root, "interrupted"));
    r->incomplete |= !tool_json_is_true(tool_json_member(root, "complete"));
    r->text[r->made++] = text;
    tool_json_read_free(root);
    return true;
}

/* Makes one run, whose JSON goes to descriptor RESULT. False: it failed, after
   a message. */
static bool run_once(struct repeat *r, int result, int messages) {
    struct tool_child_end end;
    const struct tool_child_spec what = {.file = replay_again_file(),
                                         .argv = r->words,
                                         .err = r->made == 0 ? 0 : messages,
                                         .keep = &result,
                                         .keep_count = 1,
                                         .signals = TOOL_CHILD_OBEYS,
                                         .dies_with_parent = true};
    size_t size = 0;
    if (ftruncate(result, 0) != 0 || ftruncate(messages, 0) != 0) {
        tool_error("cannot empty a file in memory: %s", strerror(errno));
        return false;
    }
    (void)lseek(messages, 0, SEEK_SET);
    snprintf(r->word, sizeof(r->word),
             "--" REPLAY_REPEAT_RUN "=%llu,/proc/self/fd/%d",
             (unsigned long long)r->made + 1, result);
    if (!tool_child_run(&what, 0, &end))
        return false;
    if (end.error != 0) {
        tool_error("cannot execute this program again: %s",
                   strerror(end.error));
        return false;
    }
    int status = WIFSIGNALED(end.status) ? 128 + WTERMSIG(end.status)
                                         : WEXITSTATUS(end.status);
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
    char *text = read_file_whole(result, &size);
    if (text == NULL)
        return tool_out_of_memory();
    /* A run that could not begin has printed why, and left nothing. */
    return size != 0 && take_run(r, text, size);
}

/* --- The account ---------------------------------------------------------- */

/* Sorts in place of qsort of the C library, which allocates. */
static void sort_u64(uint64_t *v, size_t n) {
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
    TCM_ASSERT(n != 0 && n <= r->wanted);
    sort_u64(v, n);
    return (struct figure){v[0], (v[(n - 1) / 2] + v[n / 2]) / 2, v[n - 1]};
}

static void print_figure(FILE *out, const char *name, struct figure f,
                         const char *(*text)(struct tool_text *t, uint64_t n)) {
    struct tool_text a, b, c;
    fprintf(out, "%-18s%14s%14s%14s\n", name, text(&a, f.least),
            text(&b, f.median), text(&c, f.most));
}

static void print_figures(const struct repeat *r, const struct figure *f,
                          FILE *out) {
    struct tool_text a;
    char title[48];
    if (r->allocator[0] != '\0')
        fprintf(out, "allocator         %s\n", tool_text_shown(r->allocator));
    fprintf(out, "operations        %s\n", tool_text_count(&a, r->ops));
    snprintf(title, sizeof(title), "%s run%s", tool_text_count(&a, r->made),
             r->made == 1 ? "" : "s");
    fprintf(out, "%-18s%14s%14s%14s\n", title, "least", "median", "most");
    print_figure(out, "processor time", f[CPU], tool_text_ns);
    print_figure(out, "wall time", f[WALL], tool_text_ns);
    print_figure(out, "peak memory", f[PEAK], tool_text_bytes);
}

static void json_figures(const struct repeat *r, const struct figure *f,
                         struct tool_json *j) {
    tool_json_begin_object(j, NULL);
    tool_json_u64(j, "repeat", r->wanted);
    tool_json_bool(j, "complete", r->made == r->wanted && !r->incomplete);
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

static bool repeat_begin(struct repeat *r, int *result, int *messages) {
    *result = tool_child_scratch("result");
    *messages = tool_child_scratch("messages");
    if (*result < 0 || *messages < 0)
        return false;
    r->text = repeat_alloc(r->wanted * sizeof(*r->text));
    bool good = r->words != NULL && r->text != NULL;
    for (unsigned f = 0; f < FIGURES; f++) {
        r->value[f] = repeat_alloc(r->wanted * sizeof(*r->value[f]));
        good &= r->value[f] != NULL;
    }
    return good || tool_out_of_memory();
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
    bool good = repeat_begin(&r, &result, &messages);
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
        print_figures(&r, figure, to_stdout ? stderr : stdout);
    if (json != NULL) {
        json_figures(&r, figure, &j);
        if (!tool_json_close(&j))
            return TOOL_FAILED;
    }
    return r.interrupted ? TOOL_DAMAGED : r.status;
}
