/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Table of a program's options: parsing, the text of --help, and the messages
 * about wrong values.
 */
#include "common/opts.h"

#include "common/main.h"
#include "tap.h"

#include <unistd.h>

/* --- A program ------------------------------------------------------------ */

static bool flag, first_given, number_given;
static const char *text, *maybe;
static uint64_t count, ns, bytes;
static double number, ratio;
static unsigned word;
static const char *names[2], *shades[2];
static struct tool_opt_list list, shade_list;
static char taken[64];
static bool stop_at_operand;

static bool take(void *ctx, const char *value) {
    snprintf(taken, sizeof(taken), "%s%s", (const char *)ctx,
             value == NULL ? "nothing" : value);
    return value == NULL || strcmp(value, "bad") != 0;
}

static bool refuse(void *ctx, const char *value) {
    (void)ctx;
    tool_error("refused %s", value);
    return false;
}

static const char *const colours[] = {"red", "green", NULL};

static const struct tool_opt opts[] = {
    {.value = "FILE", .help = "a file"},
    {.letter = 'f',
     .name = "flag",
     .help = "a flag, which is explained at some length so that the text does "
             "not fit into one line",
     .flag = &flag,
     .given = &first_given},
    {.name = "text", .value = "TEXT", .help = "a text", .text = &text},
    {.letter = 'o', .value = "TEXT", .help = "another", .text = &text},
    {.name = "maybe",
     .value = "TEXT",
     .value_optional = true,
     .help = "perhaps a text",
     .text = &maybe},
    {.help = "Numbers:"},
    {.name = "count",
     .value = "N",
     .help = "1 to 100",
     .count = &count,
     .least = 1,
     .most = 100},
    {.name = "from",
     .value = "N",
     .help = "from 5",
     .count = &count,
     .least = 5},
    {.name = "any", .value = "N", .help = "any", .count = &count},
    {.name = "a-time-with-a-long-name",
     .value = "TIME",
     .help = "a time",
     .ns = &ns,
     .least = 1000},
    {.name = "size", .value = "SIZE", .bytes = &bytes, .least = 4096},
    {.name = "number",
     .value = "X",
     .help = "a number",
     .number = &number,
     .low = 0.5,
     .high = 2,
     .given = &number_given},
    {.name = "ratio", .value = "P%", .help = "a share", .ratio = &ratio},
    {.name = "colour",
     .value = "WHICH",
     .help = "red or green",
     .word = &word,
     .words = colours},
    {.name = "name", .value = "NAME", .help = "repeated", .list = &list},
    {.name = "take",
     .value = "X",
     .value_optional = true,
     .help = "taken",
     .take = take,
     .ctx = (char[]){"took "},
     .expects = "a good thing"},
    {.name = "refuse", .value = "X", .take = refuse},
    {.name = "shade", .value = "X", .list = &shade_list, .words = colours},
    {.name = "seldom", .rare = true, .help = "of use at times", .flag = &flag},
    {0}};

static struct tool_opts o;

static bool parse(char **words) {
    const struct tool_command c = {.usage = "prog [OPTION]...\nprog --other",
                                   .about = "Do something.",
                                   .opts = opts,
                                   .notes = "That is all.",
                                   .stop_at_operand = stop_at_operand};
    int argc = 0;
    while (words[argc] != NULL)
        argc++;
    list = (struct tool_opt_list){.at = names, .room = 2};
    shade_list = (struct tool_opt_list){.at = shades, .room = 2};
    flag = first_given = number_given = false;
    text = maybe = NULL;
    return tool_opts_parse(&o, &c, argc, words);
}

#define PARSE(...)                                                             \
    parse((char *[]){(char[]){"prog"}, __VA_ARGS__ __VA_OPT__(, ) NULL})
#define W(text) ((char[]){text})

static const char *operands(void) {
    static char all[100];
    all[0] = '\0';
    for (int i = 0; i < o.operand_count; i++)
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s ",
                 o.operand[i]);
    return all;
}

/* --- Values --------------------------------------------------------------- */

static void test_words(void) {
    tap_ok(PARSE() && !flag && !first_given && o.operand_count == 0, "nothing");
    tap_ok(PARSE(W("--text"), W("f"), W("a"), W("-f"), W("b")) && flag &&
               first_given && strcmp(text, "f") == 0,
           "options among operands");
    tap_is_str(operands(), "a b ", "which are gathered");
    tap_ok(PARSE(W("--text=f=g")) && strcmp(text, "f=g") == 0,
           "a value after a sign");
    tap_ok(PARSE(W("--text=")) && *text == '\0', "an empty one");
    tap_ok(PARSE(W("-ffox")) && flag && strcmp(text, "x") == 0 &&
               PARSE(W("-fo"), W("-z")) && strcmp(text, "-z") == 0,
           "letters in a row");
    tap_ok(PARSE(W("a"), W("--"), W("-f"), W("--text"), W("--")) && !flag,
           "two dashes end the options");
    tap_is_str(operands(), "a -f --text -- ", "and what follows is operands");
    tap_ok(PARSE(W("-"), W("-f")) && flag, "one dash");
    tap_is_str(operands(), "- ", "is an operand");
    stop_at_operand = true;
    tap_ok(PARSE(W("-f"), W("cmd"), W("--help")) && flag,
           "the first operand may end them");
    tap_is_str(operands(), "cmd --help ", "with all that follows");
    stop_at_operand = false;
    tap_ok(PARSE(W("--maybe"), W("x")) && maybe == NULL &&
               o.operand_count == 1 && PARSE(W("--maybe=x")) &&
               strcmp(maybe, "x") == 0,
           "a value that may be left out");
}

static void test_values(void) {
    tap_ok(PARSE(W("--count=100")) && count == 100 && PARSE(W("--count=1")),
           "a count");
    tap_ok(PARSE(W("--from=5")) && PARSE(W("--any=18446744073709551615")) &&
               count == UINT64_MAX,
           "without a limit");
    tap_ok(PARSE(W("--a-time-with-a-long-name=1m2s")) && ns == 62000000000u,
           "a time");
    tap_ok(PARSE(W("--size=64K")) && bytes == 65536 &&
               PARSE(W("--size=1.5GiB")) && bytes == 1610612736,
           "a number of bytes");
    tap_ok(PARSE(W("--number=0.5")) && number == 0.5 && number_given,
           "a number");
    tap_ok(PARSE(W("--ratio=2%")) && ratio == 0.02 && PARSE(W("--ratio=0.5")) &&
               ratio == 0.5,
           "a share");
    tap_ok(PARSE(W("--colour"), W("green")) && word == 1, "a word");
    tap_ok(PARSE(W("--name=a"), W("--name=b")) && list.count == 2 &&
               strcmp(names[1], "b") == 0,
           "a list");
    tap_ok(PARSE(W("--shade=green"), W("--shade=red")) &&
               shade_list.count == 2 && strcmp(shades[0], "green") == 0 &&
               strcmp(shades[1], "red") == 0,
           "a list of words");
    tap_ok(PARSE(W("--take=x")) && strcmp(taken, "took x") == 0 &&
               PARSE(W("--take")) && strcmp(taken, "took nothing") == 0,
           "a value of another kind");
}

/* --- Messages ------------------------------------------------------------- */

/* Parses a command line and returns its output on FD. */
static const char *output_of(char *first, char *second, int fd) {
    static char all[4096];
    char *words[] = {W("prog"), first, second, NULL};
    FILE *f = tmpfile();
    if (f == NULL)
        tap_bail("no file");
    fflush(stdout);
    int old = dup(fd);
    dup2(fileno(f), fd);
    bool good = parse(words);
    fflush(stdout);
    dup2(old, fd);
    close(old);
    rewind(f);
    all[fread(all, 1, sizeof(all) - 1, f)] = '\0';
    fclose(f);
    if (good)
        tap_diag("it was taken");
    return good ? "" : all;
}

static void test_messages(void) {
    static const struct {
        char word[60];
        const char *message;
    } wrong[] = {
        {"--tex=x", "unknown option --tex"},
        {"--=x", "unknown option --"},
        {"--quie", "unknown option --quie"},
        {"-fx", "unknown option -x"},
        {"--text", "option --text needs a value"},
        {"-fo", "option -o needs a value"},
        {"--flag=1", "option --flag takes no value"},
        {"--quiet=1", "option --quiet takes no value"},
        {"--count=0", "--count: \"0\" is not a whole number from 1 to 100"},
        {"--count=101", "--count: \"101\" is not a whole number from 1 to 100"},
        {"--from=4", "--from: \"4\" is not a whole number from 5 on"},
        {"--any=x", "--any: \"x\" is not a whole number"},
        {"--a-time-with-a-long-name=1ns",
         "--a-time-with-a-long-name: \"1ns\" is not a time from 1us on, such "
         "as 2.5, 1500ms or 1m30s"},
        {"--size=1",
         "--size: \"1\" is not a number of bytes from 4096 on, such as 4096, "
         "64K, 1.5M or 2G"},
        {"--size=64KB",
         "--size: \"64KB\" is not a number of bytes from 4096 on, such as "
         "4096, 64K, 1.5M or 2G"},
        {"--number=2.1", "--number: \"2.1\" is not a number from 0.5 to 2"},
        {"--number=nan", "--number: \"nan\" is not a number from 0.5 to 2"},
        {"--number=1x", "--number: \"1x\" is not a number from 0.5 to 2"},
        {"--ratio=2", "--ratio: \"2\" is not a share such as 2% or 0.02"},
        {"--ratio=0%", "--ratio: \"0%\" is not a share such as 2% or 0.02"},
        {"--ratio=", "--ratio: \"\" is not a share such as 2% or 0.02"},
        {"--colour=blue", "--colour: \"blue\" is not one of red, green"},
        {"--shade=blue", "--shade: \"blue\" is not one of red, green"},
        {"--take=bad", "--take: \"bad\" is not a good thing"},
    };
    char want[300], word_copy[60];
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        strcpy(word_copy, wrong[i].word);
        snprintf(want, sizeof(want), "prog: %s (try 'prog --help')\n",
                 wrong[i].message);
        tap_is_str(output_of(word_copy, NULL, 2), want, "%s", wrong[i].word);
        tap_ok(o.status == TOOL_USAGE, "its status");
    }
    tap_is_str(output_of(W("--text"), W("--"), 2),
               "prog: option --text needs a value (try 'prog --help')\n",
               "dashes are no value of a long option");
    tap_is_str(output_of(W("-o"), W("--"), 2),
               "prog: option -o needs a value (try 'prog --help')\n",
               "nor of a letter");
    tap_is_str(output_of(W("--refuse=x"), NULL, 2), "prog: refused x\n",
               "a refused value whose message was printed");
    char *many[] = {W("prog"), W("--name=a"), W("--name=b"), W("--name=c"),
                    NULL};
    tap_ok(!parse(many) && o.status == TOOL_USAGE, "too many of a list");
}

static const char help[] =
    "Usage: prog [OPTION]...\n"
    "       prog --other\n"
    "Do something.\n"
    "\n"
    "  FILE                a file\n"
    "\n"
    "  -f, --flag          a flag, which is explained at some length so that "
    "the\n"
    "                      text does not fit into one line\n"
    "      --text=TEXT     a text\n"
    "  -o TEXT             another\n"
    "      --maybe[=TEXT]  perhaps a text\n"
    "\n"
    "Numbers:\n"
    "      --count=N       1 to 100\n"
    "      --from=N        from 5\n"
    "      --any=N         any\n"
    "      --a-time-with-a-long-name=TIME\n"
    "                      a time\n"
    "      --number=X      a number\n"
    "      --ratio=P%      a share\n"
    "      --colour=WHICH  red or green\n"
    "      --name=NAME     repeated\n"
    "      --take[=X]      taken\n"
    "\n"
    "  -q, --quiet         print errors and warnings only\n"
    "  -h, --help          print this text and exit\n"
    "      --help-all      print all options and exit\n"
    "  -V, --version       print the version and exit\n"
    "\n"
    "That is all.\n";

static void test_common(void) {
    tap_is_str(output_of(W("--help"), W("--nonsense"), 1), help, "--help");
    tap_ok(o.status == TOOL_OK, "its status");
    tap_is_str(output_of(W("-fh"), NULL, 1), help, "-h");
    tap_ok(strstr(output_of(W("--help-all"), NULL, 1),
                  "      --seldom        of use at times\n") != NULL &&
               o.status == TOOL_OK,
           "--help-all has rare options, too");
    tap_ok(PARSE(W("--seldom"), W("x")) && flag, "which are taken as others");
    tap_ok(strncmp(output_of(W("-V"), NULL, 1), "prog (malloc-trace) ", 20) ==
                   0 &&
               o.status == TOOL_OK,
           "-V");
    tap_ok(strstr(output_of(W("--version"), NULL, 1), "lz4 ") != NULL,
           "--version names the optional libraries");
    tap_ok(!tool_is_quiet() && PARSE(W("--quiet"), W("x")) && tool_is_quiet(),
           "--quiet");
    tap_ok(PARSE(W("-qq")), "-q");
}

int main(void) {
    tool_begin("prog");
    test_words();
    test_values();
    test_messages();
    test_common();
    return tap_done();
}
