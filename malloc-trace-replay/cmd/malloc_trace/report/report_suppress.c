/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/report_suppress.h"

#include "common/collections.h"
#include "common/main.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void report_suppressions_fini(struct report_suppressions *s) {
    for (size_t i = 0; i < s->count; i++)
        free(s->at[i].pattern);
    free(s->at);
    *s = (struct report_suppressions){0};
}

bool report_suppressions_add(struct report_suppressions *s,
                             const char *pattern) {
    char *copy = strdup(pattern);
    if (copy == NULL ||
        !tool_array_reserve(&s->at, &s->room, s->count + 1, sizeof(*s->at))) {
        free(copy);
        return false;
    }
    s->at[s->count++] = (struct report_suppression){.pattern = copy};
    return true;
}

static int take_line(struct report_suppressions *s, const char *name,
                     unsigned number, const char *text) {
    if (*text == '\0' || *text == '#')
        return TOOL_OK;
    if (strncmp(text, "leak:", 5) != 0 || text[5] == '\0') {
        tool_error("%s: line %u: not \"leak:PATTERN\"", name, number);
        return TOOL_FAILED;
    }
    if (!report_suppressions_add(s, text + 5)) {
        tool_out_of_memory();
        return TOOL_FAILED;
    }
    return TOOL_OK;
}

int report_suppressions_read_from(struct report_suppressions *s, FILE *f,
                                  const char *name) {
    char *line = NULL;
    size_t room = 0;
    int status = TOOL_OK;
    for (unsigned number = 1;
         status == TOOL_OK && getline(&line, &room, f) >= 0; number++) {
        size_t n = strcspn(line, "\r\n");
        while (n != 0 && (line[n - 1] == ' ' || line[n - 1] == '\t'))
            n--;
        line[n] = '\0';
        status = take_line(s, name, number, line + strspn(line, " \t"));
    }
    if (status == TOOL_OK && ferror(f) != 0) {
        tool_error("%s: %s", name, strerror(errno));
        status = TOOL_FAILED;
    }
    free(line);
    return status;
}

int report_suppressions_read(struct report_suppressions *s, const char *name) {
    FILE *f = fopen(name, "re");
    if (f == NULL) {
        tool_error("%s: %s", name, strerror(errno));
        return TOOL_FAILED;
    }
    int status = report_suppressions_read_from(s, f, name);
    fclose(f);
    return status;
}

/* Finds the pieces between asterisks, each at its first place behind the piece
   before: no later place could match more. */
static bool matches(const char *pattern, const char *text) {
    bool fixed = *pattern == '^', open = false;
    if (*text == '\0')
        return false;
    pattern += fixed;
    while (*pattern != '\0') {
        if (*pattern == '*') {
            pattern++;
            fixed = false;
            open = true;
            continue;
        }
        if (*pattern == '$')
            return *text == '\0' || open;
        size_t n = strcspn(pattern, "*$");
        const char *at = memmem(text, strlen(text), pattern, n);
        if (at == NULL || (fixed && at != text))
            return false;
        text = at + n;
        pattern += n;
        fixed = open = false;
    }
    return true;
}

struct report_suppression *
report_suppressions_match(const struct report_suppressions *s,
                          const char *text) {
    for (size_t i = 0; text != NULL && i < s->count; i++)
        if (matches(s->at[i].pattern, text))
            return &s->at[i];
    return NULL;
}
