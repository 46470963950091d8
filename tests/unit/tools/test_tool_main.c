/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/main.h"

#include "tap.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OPT_JSON = 1, OPT_QUIET, OPT_OUT };

static const struct tool_option table[] = {
    {"json", 0, true, OPT_JSON},
    {"quiet", 'q', false, OPT_QUIET},
    {NULL, 'o', true, OPT_OUT},
    {NULL, 0, false, 0},
};
static const char help[] = "Usage: prog\nhelp text\n";

/* What the walk over a command line gave, as text: "json=x quiet | a b". */
static char trail[512];
static int walk_status;
static bool stop_at_operand;

static void add(const char *a, const char *b) {
    size_t used = strlen(trail);
    snprintf(trail + used, sizeof(trail) - used, "%s%s ", a, b);
}

static const char *walk(char **words) {
    int argc = 0;
    while (words[argc] != NULL)
        argc++;
    struct tool_options o;
    int id;
    trail[0] = '\0';
    tool_options_init(&o, argc, words, table, help);
    o.stop_at_operand = stop_at_operand;
    while ((id = tool_option_next(&o)) > 0) {
        if (id == OPT_JSON)
            add("json=", o.value);
        else if (id == OPT_OUT)
            add("o=", o.value);
        else
            add("quiet", "");
    }
    walk_status = id < 0 ? o.status : 0;
    if (id < 0)
        return "stopped";
    add("|", "");
    for (int i = 0; i < o.operand_count; i++)
        add(o.operand[i], "");
    return trail;
}

#define WALK(...)                                                              \
    walk((char *[]){(char[]){"prog"}, __VA_ARGS__ __VA_OPT__(, ) NULL})
#define W(text) ((char[]){text})

/* --- Output of a child --------------------------------------------------- */

static char out[8192], err[8192];
static int status;

static void slurp(int fd, char *buf, size_t cap) {
    size_t used = 0;
    for (ssize_t n;
         used + 1 < cap && (n = read(fd, buf + used, cap - 1 - used)) > 0;)
        used += (size_t)n;
    buf[used] = '\0';
    close(fd);
}

/* Runs BODY in a child; keeps both outputs and the exit status. */
static void in_child(int (*body)(void)) {
    int o[2], e[2];
    if (pipe(o) != 0 || pipe(e) != 0)
        tap_bail("no pipe");
    pid_t child = fork();
    if (child == 0) {
        dup2(o[1], 1);
        dup2(e[1], 2);
        close(o[0]);
        close(e[0]);
        close(o[1]);
        close(e[1]);
        int rc = body();
        fflush(stdout);
        _exit(rc);
    }
    close(o[1]);
    close(e[1]);
    slurp(o[0], out, sizeof(out));
    slurp(e[0], err, sizeof(err));
    waitpid(child, &status, 0);
    status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_walk(void) {
    tap_is_str(WALK(), "| ", "nothing");
    tap_is_str(WALK(W("--json"), W("f"), W("a"), W("-q"), W("b")),
               "json=f quiet | a b ", "options among operands");
    tap_is_str(WALK(W("--json=f=g"), W("--json=")), "json=f=g json= | ",
               "values after a sign");
    tap_is_str(WALK(W("-qqox"), W("-o"), W("y"), W("-qo"), W("-z")),
               "quiet quiet o=x o=y quiet o=-z | ", "short options in a row");
    tap_is_str(WALK(W("a"), W("--"), W("-q"), W("--json"), W("--")),
               "| a -q --json -- ", "two dashes end the options");
    tap_is_str(WALK(W("-"), W("-q")), "quiet | - ", "one dash is an operand");
    stop_at_operand = true;
    tap_is_str(WALK(W("-q"), W("cmd"), W("-q"), W("--help")),
               "quiet | cmd -q --help ", "stopping at the first operand");
    tap_is_str(WALK(W("-q"), W("--"), W("-x"), W("-q")), "quiet | -x -q ",
               "or after two dashes");
    stop_at_operand = false;
}

static int unknown_long(void) {
    WALK(W("--jso=x"));
    return walk_status;
}

static int unknown_short(void) {
    WALK(W("-qx"));
    return walk_status;
}

static int missing_value(void) {
    WALK(W("--json"));
    return walk_status;
}

static int missing_short_value(void) {
    WALK(W("-o"));
    return walk_status;
}

static int surplus_value(void) {
    WALK(W("--quiet=1"));
    return walk_status;
}

static int ask_help(void) {
    WALK(W("--bad-after-help-is-not-reached"), W("--help"));
    return WALK(W("--help"), W("--nonsense")) == NULL ? 9 : walk_status;
}

static int ask_version(void) {
    WALK(W("--version"));
    return walk_status;
}

static int ask_h(void) {
    WALK(W("-qh"), W("--nonsense"));
    return walk_status;
}

static int ask_v(void) {
    WALK(W("-V"));
    return walk_status;
}

/* A program whose table has none of them. */
static int be_quiet(void) {
    static const struct tool_option none[] = {{NULL, 0, false, 0}};
    char *long_form[] = {W("prog"), W("--quiet"), W("x"), NULL};
    char *short_form[] = {W("prog"), W("y"), W("-qq"), NULL};
    struct tool_options o;
    bool before = tool_is_quiet();
    tool_options_init(&o, 3, long_form, none, help);
    bool good = tool_option_next(&o) == 0 && o.operand_count == 1 &&
                strcmp(o.operand[0], "x") == 0;
    tool_options_init(&o, 3, short_form, none, help);
    good = good && tool_option_next(&o) == 0 && o.operand_count == 1 &&
           strcmp(o.operand[0], "y") == 0;
    return good && !before && tool_is_quiet() ? 0 : 9;
}

static void test_stops(void) {
    in_child(unknown_long);
    tap_ok(status == TOOL_USAGE && out[0] == '\0', "an abbreviation: usage");
    tap_is_str(err, "prog: unknown option --jso (try 'prog --help')\n",
               "its message");
    in_child(unknown_short);
    tap_ok(status == TOOL_USAGE &&
               strcmp(err, "prog: unknown option -x (try 'prog --help')\n") ==
                   0,
           "an unknown letter");
    in_child(missing_value);
    tap_ok(status == TOOL_USAGE && strstr(err, "--json needs a value"),
           "a missing value");
    in_child(missing_short_value);
    tap_ok(status == TOOL_USAGE && strstr(err, "-o needs a value"),
           "a missing value of a letter");
    in_child(surplus_value);
    tap_ok(status == TOOL_USAGE && strstr(err, "--quiet takes no value"),
           "a value too many");
    in_child(ask_help);
    tap_ok(status == TOOL_OK && strcmp(out, help) == 0, "help, on stdout");
    in_child(ask_version);
    tap_ok(status == TOOL_OK && strncmp(out, "prog (malloc-trace) ", 20) == 0 &&
               strstr(out, "lz4 ") != NULL && err[0] == '\0',
           "version names the optional libraries");
    in_child(ask_h);
    tap_ok(status == TOOL_OK && strcmp(out, help) == 0, "-h");
    in_child(ask_v);
    tap_ok(status == TOOL_OK && strncmp(out, "prog (malloc-trace) ", 20) == 0,
           "-V");
    in_child(be_quiet);
    tap_ok(status == TOOL_OK && out[0] == '\0' && err[0] == '\0',
           "-q and --quiet are known without a table");
}

/* --- Messages ------------------------------------------------------------ */

static int say_odd(void) {
    tool_error("file %s: %d", "a\nb\tc\x7f\xc3\xa4", 5);
    tool_warn("w");
    return 0;
}

static int say_long(void) {
    static char text[10000];
    memset(text, 'z', sizeof(text) - 1);
    tool_error("%s", text);
    return 0;
}

static int order(void) {
    printf("first");
    close(2);
    dup2(1, 2);
    tool_error("second");
    return 0;
}

static void test_messages(void) {
    in_child(say_odd);
    tap_is_str(err,
               "prog: file a\\nb\\x09c\\x7f\xc3\xa4: 5\nprog: warning: w\n",
               "a message is one line whatever is in it");
    tap_is_str(out, "", "and not on stdout");
    in_child(say_long);
    size_t length = strlen(err);
    tap_ok(length > 1000 && length < 4200 && err[length - 1] == '\n' &&
               strchr(err, '\n') == err + length - 1,
           "a long one is cut and still a line");
    in_child(order);
    tap_is_str(out, "firstprog: second\n", "what was printed before, before");
}

static int full_disk(void) {
    int fd = open("/dev/full", O_WRONLY);
    dup2(fd, 1);
    printf("text");
    return tool_end(TOOL_DAMAGED);
}

static int full_disk_early(void) {
    int fd = open("/dev/full", O_WRONLY);
    dup2(fd, 1);
    printf("text");
    fflush(stdout);
    return tool_end(TOOL_OK);
}

static int closed_pipe(void) {
    int fd[2];
    if (pipe(fd) != 0)
        return 9;
    close(fd[0]);
    dup2(fd[1], 1);
    printf("text");
    return tool_end(TOOL_OK);
}

static int all_well(void) {
    printf("text");
    return tool_end(TOOL_DAMAGED);
}

static void test_end(void) {
    in_child(full_disk);
    tap_ok(status == TOOL_FAILED && strstr(err, "No space left") != NULL,
           "a full disk at the end is an error");
    in_child(full_disk_early);
    tap_ok(status == TOOL_FAILED && strstr(err, "cannot write") != NULL,
           "so is one before");
    in_child(closed_pipe);
    tap_ok(status == TOOL_FAILED && strstr(err, "Broken pipe") != NULL,
           "and a closed pipe");
    in_child(all_well);
    tap_ok(status == TOOL_DAMAGED && strcmp(out, "text") == 0,
           "otherwise the status stays");
}

static void test_numbers(void) {
    uint64_t v = 5;
    tap_ok(tool_parse_u64("0", 10, &v) && v == 0, "0");
    tap_ok(tool_parse_u64("18446744073709551615", UINT64_MAX, &v) &&
               v == UINT64_MAX,
           "the largest");
    tap_ok(!tool_parse_u64("18446744073709551616", UINT64_MAX, &v), "one more");
    tap_ok(!tool_parse_u64("11", 10, &v), "above the bound");
    tap_ok(!tool_parse_u64("", 10, &v) && !tool_parse_u64("-1", 10, &v) &&
               !tool_parse_u64("1 ", 10, &v) && !tool_parse_u64("x", 10, &v),
           "no numbers");
    tap_is_u64(v, UINT64_MAX, "leave the value alone");
}

int main(void) {
    tool_begin("prog");
    tap_ok(signal(SIGPIPE, SIG_IGN) == SIG_IGN, "a closed pipe kills nobody");
    tool_before_exec();
    tap_ok(signal(SIGPIPE, SIG_IGN) == SIG_DFL, "but the programs we run");
    tap_is_str(tool_name(), "prog", "name");
    test_walk();
    test_stops();
    test_messages();
    test_end();
    test_numbers();
    return tap_done();
}
