/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/shell_word.h"

#include "common/text.h"

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

/* For text that may not go to a terminal as it is: quotes of ksh, bash, zsh and
   POSIX of 2024. */
static void put_escaped(FILE *f, const char *text) {
    fputs("$'", f);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c >= 0x7f || c == '\'' || c == '\\')
            fprintf(f, "\\%03o", c);
        else
            fputc(c, f);
    }
    fputc('\'', f);
}

void shell_put_word(FILE *f, const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_-./+,:@%=";
    if (*text != '\0' && text[strspn(text, plain)] == '\0')
        fputs(text, f);
    else if (tool_text_is_plain(text))
        shell_put_quoted(f, text);
    else
        put_escaped(f, text);
}
