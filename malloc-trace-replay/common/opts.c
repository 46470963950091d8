/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/opts.h"

#include "base/check.h"
#include "common/main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Help ----------------------------------------------------------------- */

enum {
    HELP_WIDTH = 79,
    /* a wider left column gets a line of its own */
    HELP_LEFT_MOST = 24
};

static bool is_end(const struct tool_opt *t) {
    return t->letter == 0 && t->name == NULL && t->value == NULL &&
           t->help == NULL;
}

static bool is_option(const struct tool_opt *t) {
    return t->letter != 0 || t->name != NULL;
}

/* Tells whether T is a row as struct tool_opt describes it. */
static bool is_valid_row(const struct tool_opt *t) {
    int destinations =
        (t->flag != NULL) +
        (t->text != NULL || (t->words != NULL && t->list == NULL)) +
        (t->count != NULL) + (t->bytes != NULL) + (t->ns != NULL) +
        (t->number != NULL) + (t->ratio != NULL) + (t->list != NULL) +
        (t->take != NULL);
    if (!is_option(t))
        return destinations == 0 && t->help != NULL;
    return destinations == 1 && (t->flag != NULL) == (t->value == NULL) &&
           (t->most == 0 || t->least <= t->most) && t->low <= t->high;
}

/* Prints TEXT, wrapped into lines that begin in COLUMN, where the output is
   now. Keeps the newlines of TEXT. */
static void print_wrapped(const char *text, size_t column) {
    size_t at = column;
    bool begins = true;
    while (*text != '\0') {
        size_t n = strcspn(text, " \n");
        if (!begins && at + 1 + n > HELP_WIDTH) {
            printf("\n%*s", (int)column, "");
            at = column;
        } else if (!begins) {
            putchar(' ');
            at++;
        }
        fwrite(text, 1, n, stdout);
        at += n;
        text += n;
        begins = *text == '\n';
        if (begins) {
            printf("\n%*s", (int)column, "");
            at = column;
        }
        text += *text != '\0';
    }
    putchar('\n');
}

/* Writes "-z, --compress", "    --json=FILE", "-o FILE", or "lifetimes". */
static void left_text(const struct tool_opt *t, char *out, size_t size) {
    char letter[4] = {'-', t->letter, '\0', '\0'};
    if (!is_option(t))
        snprintf(out, size, "%s", t->value);
    else if (t->name == NULL)
        snprintf(out, size, "%s%s%s", letter, t->value == NULL ? "" : " ",
                 t->value == NULL ? "" : t->value);
    else
        snprintf(out, size, "%s%s--%s%s%s%s%s", t->letter == 0 ? "  " : letter,
                 t->letter == 0 ? "  " : ", ", t->name,
                 t->value_optional ? "[" : "", t->value == NULL ? "" : "=",
                 t->value == NULL ? "" : t->value,
                 t->value_optional ? "]" : "");
}

static bool is_heading(const struct tool_opt *t) {
    return !is_option(t) && t->value == NULL;
}

/* True if the help shows T: of rows that are rare, only if it shows ALL. */
static bool is_shown(const struct tool_opt *t, bool all) {
    return t->help != NULL && (all || !t->rare);
}

static void print_row(const struct tool_opt *t, size_t left, bool all) {
    char text[80];
    if (!is_shown(t, all))
        return;
    if (is_heading(t)) {
        printf("\n%s\n", t->help);
        return;
    }
    left_text(t, text, sizeof(text));
    if (strlen(text) > left)
        printf("  %s\n%*s", text, (int)left + 4, "");
    else
        printf("  %-*s  ", (int)left, text);
    print_wrapped(t->help, left + 4);
}

static void print_help(const struct tool_command *c, bool all) {
    bool has_rare = false;
    for (const struct tool_opt *t = c->opts; !is_end(t); t++)
        has_rare |= t->rare;
    const struct tool_opt common[] = {
        {.letter = 'q',
         .name = "quiet",
         .help =
             c->quiet != NULL ? c->quiet : "print errors and warnings only"},
        {.letter = 'h', .name = "help", .help = "print this text and exit"},
        {.name = "help-all",
         .help = has_rare ? "print all options and exit" : NULL},
        {.letter = 'V',
         .name = "version",
         .help = "print the version and exit"},
    };
    size_t left = strlen("-V, --version");
    for (const struct tool_opt *t = c->opts; !is_end(t); t++) {
        char text[80];
        if (!is_shown(t, all) || is_heading(t))
            continue;
        left_text(t, text, sizeof(text));
        size_t n = strlen(text);
        if (n > left && n <= HELP_LEFT_MOST)
            left = n;
    }
    const char *line = c->usage;
    for (bool first = true; *line != '\0'; first = false) {
        size_t n = strcspn(line, "\n");
        printf("%s%.*s\n", first ? "Usage: " : "       ", (int)n, line);
        line += n + (line[n] != '\0');
    }
    print_wrapped(c->about, 0);
    /* Blank lines separate options from operands, and the options of every
       program from rows below a heading. */
    bool has_heading = false, after_option = false;
    for (const struct tool_opt *t = c->opts; !is_end(t); t++) {
        bool heading = is_heading(t);
        if (!is_shown(t, all))
            continue;
        if (!heading && !has_heading &&
            (t == c->opts || is_option(t) != after_option))
            putchar('\n');
        print_row(t, left, all);
        has_heading = has_heading || heading;
        after_option = is_option(t);
    }
    if (has_heading || !after_option)
        putchar('\n');
    for (size_t i = 0; i < TCM_ARRAY_SIZE(common); i++)
        print_row(&common[i], left, all);
    if (c->notes != NULL) {
        putchar('\n');
        print_wrapped(c->notes, 0);
    }
}

/* --- Values --------------------------------------------------------------- */

static void option_text(const struct tool_opt *t, char *out, size_t size) {
    if (t->name != NULL)
        snprintf(out, size, "--%s", t->name);
    else
        snprintf(out, size, "-%c", t->letter);
}

static void bound_text(const struct tool_opt *t, char text[32],
                       uint64_t bound) {
    if (t->ns != NULL)
        (void)tool_time_text(text, bound);
    else
        snprintf(text, 32, "%llu", (unsigned long long)bound);
}

/* Writes " from 1 to 100", " from 1 on", " up to 100" or "". */
static void bounds_text(const struct tool_opt *t, char *out, size_t size) {
    char least[32], most[32];
    bound_text(t, least, t->least);
    bound_text(t, most, t->most);
    if (t->least != 0 && t->most != 0)
        snprintf(out, size, " from %s to %s", least, most);
    else if (t->least != 0)
        snprintf(out, size, " from %s on", least);
    else
        snprintf(out, size, "%s%s", t->most != 0 ? " up to " : "",
                 t->most != 0 ? most : "");
}

/* Describes the values that T allows. */
static void allowed_text(const struct tool_opt *t, char *out, size_t size) {
    if (t->take != NULL) {
        snprintf(out, size, "%s", t->expects);
    } else if (t->words != NULL) {
        size_t used = (size_t)snprintf(out, size, "one of");
        for (size_t i = 0; t->words[i] != NULL && used < size; i++)
            used += (size_t)snprintf(out + used, size - used, "%s %s",
                                     i == 0 ? "" : ",", t->words[i]);
    } else if (t->ratio != NULL) {
        snprintf(out, size, "a share such as 2%% or 0.02");
    } else if (t->number != NULL) {
        snprintf(out, size, "a number from %g to %g", t->low, t->high);
    } else {
        char bounds[80];
        const char *what = t->ns != NULL      ? "time"
                           : t->bytes != NULL ? "number of bytes"
                                              : "whole number";
        const char *such = t->ns != NULL      ? "2.5, 1500ms or 1m30s"
                           : t->bytes != NULL ? "4096, 64K, 1.5M or 2G"
                                              : NULL;
        bounds_text(t, bounds, sizeof(bounds));
        snprintf(out, size, "a %s%s%s%s", what, bounds,
                 such == NULL        ? ""
                 : bounds[0] != '\0' ? ", such as "
                                     : " such as ",
                 such == NULL ? "" : such);
    }
}

static bool take_number(const char *value, double *number) {
    char *end;
    *number = strtod(value, &end);
    return end != value && *end == '\0';
}

static bool take_ratio(const char *value, double *ratio) {
    char *end;
    *ratio = strtod(value, &end);
    if (end == value)
        return false;
    if (strcmp(end, "%") == 0 || strcmp(end, " %") == 0) {
        *ratio /= 100;
        end += strlen(end);
    }
    return *end == '\0' && *ratio > 0 && *ratio < 1;
}

static bool take_word(const struct tool_opt *t, const char *value) {
    for (unsigned i = 0; t->words[i] != NULL; i++)
        if (strcmp(t->words[i], value) == 0) {
            if (t->word != NULL)
                *t->word = i;
            return true;
        }
    return false;
}

/* Stores VALUE, which may be NULL, in T's destination. false: VALUE is not
   allowed. */
static bool store(const struct tool_opt *t, const char *value) {
    uint64_t most = t->most != 0 ? t->most : UINT64_MAX;
    if (t->flag != NULL)
        return *t->flag = true;
    if (t->take != NULL)
        return t->take(t->ctx, value);
    if (t->words != NULL && !take_word(t, value))
        return false;
    if (t->list != NULL) {
        if (t->list->count == t->list->room)
            return false;
        t->list->at[t->list->count++] = value;
        return true;
    }
    if (t->text != NULL)
        *t->text = value;
    if (t->words != NULL || t->text != NULL)
        return true;
    if (t->count != NULL)
        return tool_parse_u64(value, most, t->count) && *t->count >= t->least;
    if (t->bytes != NULL)
        return tool_parse_bytes(value, most, t->bytes) && *t->bytes >= t->least;
    if (t->ns != NULL)
        return tool_parse_time(value, t->ns) && *t->ns >= t->least &&
               *t->ns <= most;
    if (t->number != NULL)
        return take_number(value, t->number) && *t->number >= t->low &&
               *t->number <= t->high;
    TCM_ASSERT(t->ratio != NULL);
    return take_ratio(value, t->ratio);
}

/* --- Parsing -------------------------------------------------------------- */

struct parser {
    struct tool_opts *o;
    const struct tool_command *c;
    int argc, next;
    char **argv;
};

static bool stop(struct parser *p, int status) {
    p->o->status = status;
    return false;
}

static bool take(struct parser *p, const struct tool_opt *t,
                 const char *value) {
    char option[64], allowed[400];
    if (t->given != NULL)
        *t->given = true;
    if (store(t, value))
        return true;
    if (t->take != NULL && t->expects == NULL)
        return stop(p, TOOL_USAGE);
    option_text(t, option, sizeof(option));
    if (t->list != NULL && t->list->count == t->list->room)
        return stop(p, tool_usage_error("%s: at most %zu of them", option,
                                        t->list->room));
    allowed_text(t, allowed, sizeof(allowed));
    return stop(p, tool_usage_error("%s: \"%s\" is not %s", option,
                                    value == NULL ? "" : value, allowed));
}

/* Handles an option that every program has, by its letter; 'a' stands for
   --help-all, which has none. */
static bool take_common(struct parser *p, char letter) {
    if (letter == 'q') {
        tool_be_quiet();
        return true;
    }
    if (letter == 'V')
        tool_print_version();
    else
        print_help(p->c, letter == 'a');
    return stop(p, TOOL_OK);
}

/* Returns the letter of the option NAME if every program has it, else 0. */
static char common_letter(const char *name, size_t length) {
    static const char *const names[] = {"quiet", "help", "Version"};
    if (length == strlen("help-all") && memcmp(name, "help-all", length) == 0)
        return 'a';
    for (size_t i = 0; i < TCM_ARRAY_SIZE(names); i++)
        if (strlen(names[i]) == length &&
            memcmp(names[i] + 1, name + 1, length - 1) == 0 &&
            (names[i][0] | 0x20) == name[0])
            return names[i][0];
    return 0;
}

static const struct tool_opt *find_name(const struct tool_opt *t,
                                        const char *name, size_t length) {
    for (; !is_end(t); t++)
        if (t->name != NULL && strlen(t->name) == length &&
            memcmp(t->name, name, length) == 0)
            return t;
    return NULL;
}

static const struct tool_opt *find_letter(const struct tool_opt *t,
                                          char letter) {
    for (; !is_end(t); t++)
        if (t->letter == letter)
            return t;
    return NULL;
}

/* Takes the next word as the value of T. A value that was forgotten before the
   "--" of a command is none. */
static bool take_next(struct parser *p, const struct tool_opt *t,
                      const char *option) {
    if (p->next >= p->argc || strcmp(p->argv[p->next], "--") == 0)
        return stop(p, tool_usage_error("option %s needs a value", option));
    return take(p, t, p->argv[p->next++]);
}

/* NAME: that of a word, without its "--". */
static bool take_long(struct parser *p, const char *name) {
    const char *equals = strchr(name, '=');
    size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const struct tool_opt *t = find_name(p->c->opts, name, length);
    char common = t == NULL && length != 0 ? common_letter(name, length) : 0;
    if (t == NULL && common == 0)
        return stop(
            p, tool_usage_error("unknown option --%.*s", (int)length, name));
    if (t == NULL || t->value == NULL) {
        if (equals != NULL)
            return stop(p, tool_usage_error("option --%.*s takes no value",
                                            (int)length, name));
        return common != 0 ? take_common(p, common) : take(p, t, NULL);
    }
    if (equals != NULL)
        return take(p, t, equals + 1);
    if (t->value_optional)
        return take(p, t, NULL);
    return take_next(p, t, name - 2);
}

/* Parses one word of letters, the last of which may be followed by its
   value. */
static bool take_letters(struct parser *p, const char *letters) {
    while (*letters != '\0') {
        char letter = *letters++;
        const struct tool_opt *t = find_letter(p->c->opts, letter);
        if (t == NULL) {
            if (strchr("qhV", letter) == NULL)
                return stop(p, tool_usage_error("unknown option -%c", letter));
            if (!take_common(p, letter))
                return false;
            continue;
        }
        if (t->value == NULL || t->value_optional) {
            if (!take(p, t, NULL))
                return false;
            continue;
        }
        if (*letters != '\0')
            return take(p, t, letters);
        return take_next(p, t, (const char[]){'-', letter, '\0'});
    }
    return true;
}

static void take_operands(struct parser *p, int count) {
    while (count-- > 0)
        p->o->operand[p->o->operand_count++] = p->argv[p->next++];
}

bool tool_opts_parse(struct tool_opts *o, const struct tool_command *c,
                     int argc, char **argv) {
    struct parser p = {.o = o, .c = c, .argc = argc, .argv = argv, .next = 1};
    *o = (struct tool_opts){.operand = argv + 1};
    for (const struct tool_opt *t = c->opts; !is_end(t); t++)
        TCM_ASSERT(is_valid_row(t));
    while (p.next < argc) {
        const char *word = argv[p.next];
        if (strcmp(word, "--") == 0) {
            p.next++;
            take_operands(&p, argc - p.next);
        } else if (word[0] != '-' || word[1] == '\0') {
            take_operands(&p, c->stop_at_operand ? argc - p.next : 1);
        } else {
            p.next++;
            if (word[1] == '-' ? !take_long(&p, word + 2)
                               : !take_letters(&p, word + 1))
                return false;
        }
    }
    return true;
}

bool tool_opts_has_dashes(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--") == 0)
            return true;
    return false;
}
