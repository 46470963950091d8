/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The spool of a recording is mapped by the process, and named as the trace is.
 */
#include "cmd/malloc_trace/report/serve.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SPOOL ".spool"

/* The path in a line of /proc/PID/maps, if it is a spool's. */
static char *spool_in(char *line) {
    char *path = strchr(line, '/');
    size_t end = sizeof(SPOOL) - 1, n;
    if (path == NULL)
        return NULL;
    n = strcspn(path, "\n");
    path[n] = '\0';
    return n > end && strcmp(path + n - end, SPOOL) == 0 ? path : NULL;
}

char *serve_find_trace(int pid, const char **problem) {
    char name[40], *line = NULL, *found = NULL;
    size_t room = 0;
    snprintf(name, sizeof(name), "/proc/%d/maps", pid);
    FILE *f = fopen(name, "re");
    *problem = f == NULL ? strerror(errno) : "it is not being recorded";
    while (f != NULL && found == NULL && getline(&line, &room, f) >= 0) {
        char *path = spool_in(line);
        if (path != NULL) {
            path[strlen(path) - (sizeof(SPOOL) - 1)] = '\0';
            found = strdup(path);
        }
    }
    free(line);
    if (f != NULL)
        fclose(f);
    return found;
}
