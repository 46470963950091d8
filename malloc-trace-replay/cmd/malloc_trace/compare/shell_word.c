/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/shell_word.h"

#include <string.h>

void shell_put_quoted(FILE *f, const char *text) {
    fputc('\'', f);
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", f);
        else
            fputc(*text, f);
    }
    fputc('\'', f);
}

void shell_put_word(FILE *f, const char *text) {
    if (*text != '\0' && strpbrk(text, " \t\n'\"\\$`*?[]#~<>|&;(){}!") == NULL)
        fputs(text, f);
    else
        shell_put_quoted(f, text);
}
