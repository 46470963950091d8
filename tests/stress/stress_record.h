/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A test that records itself: the settings of a recording are read before main,
 * so it begins again with them.
 */
#ifndef TESTS_STRESS_STRESS_RECORD_H
#define TESTS_STRESS_STRESS_RECORD_H

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Where the recording is; NULL: it has not begun again yet. */
static inline char *stress_folder(void) {
    return getenv("STRESS_FOLDER");
}

/* Begins again with a recording to NAME. Returns only if that is not
   possible. */
static inline bool stress_record(char **argv, const char *name) {
    const char *tmp = getenv("TMPDIR");
    char folder[256], output[300];
    snprintf(folder, sizeof(folder), "%s/stress.XXXXXX",
             tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(folder) == NULL)
        return false;
    snprintf(output, sizeof(output), "%s/%s", folder, name);
    setenv("STRESS_FOLDER", folder, 1);
    setenv("TCMALLOC_TRACE_OUTPUT", output, 1);
    execv("/proc/self/exe", argv);
    return false;
}

/* Removes FOLDER and the files in it. */
static inline void stress_remove(const char *folder) {
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        (void)unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
    rmdir(folder);
}

#endif
