/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/record/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool record_own_folder(char folder[PATH_MAX]) {
    ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (n <= 0)
        return false;
    folder[n] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

void record_print_word(const char *s) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_-./+,:@%=";
    if (*s != '\0' && s[strspn(s, plain)] == '\0') {
        fputs(s, stderr);
        return;
    }
    fputc('\'', stderr);
    for (; *s != '\0'; s++) {
        if (*s == '\'')
            fputs("'\\''", stderr);
        else
            fputc(*s, stderr);
    }
    fputc('\'', stderr);
}

void record_print_program(const char *name) {
    char folder[PATH_MAX], own[2 * PATH_MAX], try[2 * PATH_MAX];
    struct stat mine, other;
    if (!record_own_folder(folder)) {
        fputs(name, stderr);
        return;
    }
    snprintf(own, sizeof(own), "%s/%s", folder, name);
    const char *list = getenv("PATH");
    while (list != NULL && *list != '\0' && stat(own, &mine) == 0) {
        size_t length = strcspn(list, ":");
        snprintf(try, sizeof(try), "%.*s/%s", (int)length, list, name);
        if (length != 0 && access(try, X_OK) == 0 && stat(try, &other) == 0) {
            if (mine.st_ino == other.st_ino && mine.st_dev == other.st_dev) {
                fputs(name, stderr);
                return;
            }
            break;
        }
        list += length + (list[length] == ':');
    }
    record_print_word(own);
}

const char *record_short_name(const char *name) {
    static char here[PATH_MAX];
    if (getcwd(here, sizeof(here)) == NULL)
        return name;
    size_t length = strlen(here);
    if (strncmp(name, here, length) != 0 || name[length] != '/' ||
        name[length + 1] == '\0' || name[length + 1] == '-')
        return name;
    return name + length + 1;
}
