/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/main.h"

#include "common/files.h"
#include "tap.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

static int closed_pipe_of_stream(void) {
    int fd[2];
    if (pipe(fd) != 0)
        return 9;
    close(fd[0]);
    dup2(fd[1], 1);
    printf("text");
    return tool_file_stream_end(stdout, "-") ? 9 : tool_end(TOOL_FAILED);
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
    in_child(closed_pipe_of_stream);
    tap_is_str(err, "prog: cannot write to standard output: Broken pipe\n",
               "which is told once");
    in_child(all_well);
    tap_ok(status == TOOL_DAMAGED && strcmp(out, "text") == 0,
           "otherwise the status stays");
}

static void test_bytes(void) {
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"1K", 1024},
        {"1k", 1024},
        {"1.5M", 1572864},
        {"2G", (uint64_t)2 << 30},
        {"16383T", (uint64_t)16383 << 40},
        {"0.5KiB", 512},
        {".25k", 256},
        {"1.0009", 1},
        {"18446744073709551615", UINT64_MAX},
    };
    static const char *const bad[] = {
        "",      "K",     "-1",   "1 K",  "1KB",       "1B",
        "1kib ", "1KiBx", "1..5", "0x10", "16777216T", "18446744073709551616"};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        uint64_t v = 7;
        tap_ok(tool_parse_bytes(good[i].text, UINT64_MAX, &v) &&
                   v == good[i].bytes,
               "%s bytes", good[i].text);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        uint64_t v;
        tap_ok(!tool_parse_bytes(bad[i], UINT64_MAX, &v), "\"%s\" is no size",
               bad[i]);
    }
    uint64_t v;
    tap_ok(tool_parse_bytes("1K", 1024, &v) &&
               !tool_parse_bytes("1K", 1023, &v),
           "a size has a limit");
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

static void test_times(void) {
    char text[32];
    tap_is_str(tool_time_text(text, 1000), "1us", "a time in its largest unit");
    tap_is_str(tool_time_text(text, 1500000000), "1500ms", "as a whole number");
    tap_is_str(tool_time_text(text, 7200000000000u), "2h", "up to hours");
}

/* The child's folder is "/tmp/...%d". */
static char folder[64];

static int print_pattern(void) {
    char pattern[80];
    if (chdir(folder) != 0)
        return 9;
    for (size_t room = sizeof(pattern); room >= 8; room -= 8)
        if (tool_file_make_pattern(pattern, room, "t.%p"))
            puts(pattern);
    return 0;
}

static void test_names(void) {
    char escaped[6], want[80];
    tap_is_str(tool_file_base("/a/b.c"), "b.c", "the last name of a path");
    tap_is_str(tool_file_base("b.c"), "b.c", "of a name");
    tap_is_str(tool_file_base("/a/"), "", "of a folder");
    tap_is_u64(tool_file_escape(escaped, sizeof(escaped), "50%abc"), 7,
               "a percent sign takes two bytes");
    tap_is_str(escaped, "50%%a", "as far as there is room");
    snprintf(folder, sizeof(folder), "/tmp/test_names_%d%%d", (int)getpid());
    if (mkdir(folder, 0700) != 0)
        tap_bail("no folder");
    in_child(print_pattern);
    (void)rmdir(folder);
    /* The sizes of PRINT_PATTERN that have room for it. */
    size_t n = (size_t)snprintf(want, sizeof(want), "%.*s%%%%d/t.%%p\n",
                                (int)strlen(folder) - 2, folder);
    bool good = strlen(out) == (80 - n + 8) / 8 * n;
    for (size_t i = 0; good && i < strlen(out); i += n)
        good = strncmp(out + i, want, n) == 0;
    tap_ok(status == 0 && good,
           "a pattern in a folder with a percent sign, whole or not at all");
    tap_ok(strstr(err, "prog: the name of the output is too long: t.%p\n") !=
               NULL,
           "which is said");
}

int main(void) {
    tool_begin("prog");
    tap_ok(signal(SIGPIPE, SIG_IGN) == SIG_IGN, "a closed pipe kills nobody");
    tap_ok(signal(SIGXFSZ, SIG_IGN) == SIG_IGN, "nor does a file size limit");
    tool_before_exec();
    tap_ok(signal(SIGPIPE, SIG_IGN) == SIG_DFL, "but the programs we run");
    tap_ok(signal(SIGXFSZ, SIG_IGN) == SIG_DFL, "they have both signals");
    tap_is_str(tool_name(), "prog", "name");
    test_messages();
    test_end();
    test_numbers();
    test_bytes();
    test_times();
    test_names();
    return tap_done();
}
