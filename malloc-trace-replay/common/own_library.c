/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/own_library.h"

#include "common/files.h"
#include "common/main.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first two are the build tree. */
static const char *const beside[] = {"/../.libs", "/../../.libs",
                                     "/../lib/malloc-trace",
                                     "/../lib64/malloc-trace"};

static bool found(const char *folder, const char *below, const char *name,
                  char path[PATH_MAX]) {
    char try[2 * PATH_MAX];
    int n = snprintf(try, sizeof(try), "%s%s/%s", folder, below, name);
    return n > 0 && n < (int)sizeof(try) && realpath(try, path) != NULL &&
           access(path, R_OK) == 0;
}

bool tool_own_library_find(const char *name, char path[PATH_MAX]) {
    char folder[PATH_MAX];
    if (tool_own_folder(folder))
        for (size_t i = 0; i < TCM_ARRAY_SIZE(beside); i++)
            if (found(folder, beside[i], name, path))
                return true;
    return found(TCM_PKGLIBDIR, "", name, path);
}

bool tool_own_library(const char *name, char path[PATH_MAX]) {
    if (tool_own_library_find(name, path))
        return true;
    tool_error("cannot find %s beside this program or in " TCM_PKGLIBDIR, name);
    return false;
}

/* --- Names for LD_PRELOAD ------------------------------------------------- */

#define NOT_FOR_PRELOAD " :$"

static bool preload_can_name(const char *path) {
    return strpbrk(path, NOT_FOR_PRELOAD) == NULL;
}

bool tool_preload_link(char path[PATH_MAX], char link[PATH_MAX]) {
    link[0] = '\0';
    if (preload_can_name(path))
        return true;
    const char *tmp = tool_file_temporary();
    if (!preload_can_name(tmp))
        tmp = "/tmp";
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%.*s/malloc-trace-XXXXXX", PATH_MAX - 400,
             tmp);
    if (mkdtemp(folder) == NULL) {
        tool_error("cannot make a folder in %s: %s", tmp, strerror(errno));
        return false;
    }
    const char *name = strrchr(path, '/');
    snprintf(link, PATH_MAX, "%.*s/%.255s", PATH_MAX - 300, folder,
             name != NULL ? name + 1 : path);
    for (char *p; (p = strpbrk(link, NOT_FOR_PRELOAD)) != NULL;)
        *p = '_';
    if (symlink(path, link) != 0) {
        tool_error("cannot make %s: %s", link, strerror(errno));
        rmdir(folder);
        return false;
    }
    memcpy(path, link, PATH_MAX);
    return true;
}

void tool_preload_unlink(char link[PATH_MAX]) {
    if (link[0] == '\0')
        return;
    unlink(link);
    *strrchr(link, '/') = '\0';
    rmdir(link);
    link[0] = '\0';
}
