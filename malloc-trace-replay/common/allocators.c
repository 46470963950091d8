/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/allocators.h"

#include "base/check.h"
#include "common/shared_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* File names, the newest version first. This project's library may have been
   installed under gperftools' name (--enable-gperftools-soname):
   tool_allocator_is_own_library tells them apart. */
enum { FILES = 4 };
static const struct {
    const char *name;
    const char *file[FILES];
} known[] = {
    {"jemalloc", {"libjemalloc.so.2", "libjemalloc.so.1"}},
    {"mimalloc",
     {"libmimalloc.so.3", "libmimalloc.so.2", "libmimalloc.so.2.0"}},
    {"gperftools", {"libtcmalloc_minimal.so.4", "libtcmalloc.so.4"}},
    {"snmalloc", {"libsnmallocshim.so", "libsnmallocshim-rust.so"}},
    {"rpmalloc", {"librpmallocwrap.so", "librpmalloc.so"}},
    {"tbbmalloc", {"libtbbmalloc_proxy.so.2"}},
    {"hardened_malloc",
     {"libhardened_malloc.so", "libhardened_malloc-light.so"}},
    {"scudo", {"libscudo.so", "libclang_rt.scudo_standalone-x86_64.so"}},
    {"mesh", {"libmesh.so"}},
    {"hoard", {"libhoard.so"}},
    {"lockless", {"libllalloc.so.1.3"}},
    {"scalloc", {"libscalloc.so"}},
    {"supermalloc", {"libsupermalloc.so", "libsupermalloc_pthread.so"}},
    {"umem", {"libumem_malloc.so.1"}},
    {"jemalloc-dev", {"libjemalloc-dev.so.2"}},
};

static const char *const folders[] = {"/usr/local/lib",
                                      "/usr/local/lib64",
                                      "/usr/lib/x86_64-linux-gnu",
                                      "/usr/lib/aarch64-linux-gnu",
                                      "/usr/lib64",
                                      "/usr/lib",
                                      "/lib"};

static bool is_readable_in(const char *folder, size_t length, const char *file,
                           char path[PATH_MAX]) {
    char try[PATH_MAX];
    int n = snprintf(try, sizeof(try), "%.*s/%s", (int)length, folder, file);
    return n > 0 && n < PATH_MAX && realpath(try, path) != NULL &&
           access(path, R_OK) == 0;
}

bool tool_allocator_find_file(const char *file, char path[PATH_MAX]) {
    if (file[0] == '\0')
        return false;
    if (strchr(file, '/') != NULL)
        return realpath(file, path) != NULL && access(path, R_OK) == 0;
    const char *list = getenv("LD_LIBRARY_PATH");
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ":;");
        if (length != 0 && is_readable_in(list, length, file, path))
            return true;
        list += length + (list[length] != '\0');
    }
    for (size_t i = 0; i < TCM_ARRAY_SIZE(folders); i++)
        if (is_readable_in(folders[i], strlen(folders[i]), file, path))
            return true;
    return false;
}

static bool is_own_name(const char *name) {
    return strcmp(name, TOOL_ALLOCATOR_OWN) == 0 ||
           strcmp(name, TOOL_ALLOCATOR_OWN_OLD) == 0;
}

bool tool_allocator_is_own_library(const char *path) {
    char own[PATH_MAX];
    static const char *const name[] = {TOOL_LIBRARY, TOOL_RECORDING_LIBRARY};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(name); i++)
        if (tool_own_library_find(name[i], own) && strcmp(own, path) == 0)
            return true;
    return false;
}

enum tool_allocator_found tool_allocator_find(const char *name,
                                              char path[PATH_MAX]) {
    if (strcmp(name, TOOL_ALLOCATOR_C_LIBRARY) == 0 ||
        strcmp(name, "libc") == 0) {
        path[0] = '\0';
        return TOOL_ALLOCATOR_FOUND;
    }
    if (is_own_name(name))
        return tool_own_library_find(TOOL_LIBRARY, path)
                   ? TOOL_ALLOCATOR_FOUND
                   : TOOL_ALLOCATOR_MISSING;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(known); i++) {
        if (strcmp(known[i].name, name) != 0)
            continue;
        for (size_t f = 0; f < FILES && known[i].file[f] != NULL; f++)
            if (tool_allocator_find_file(known[i].file[f], path) &&
                !tool_allocator_is_own_library(path))
                return TOOL_ALLOCATOR_FOUND;
        return TOOL_ALLOCATOR_MISSING;
    }
    return TOOL_ALLOCATOR_UNKNOWN;
}

const char *tool_allocator_known(size_t i) {
    return i < TCM_ARRAY_SIZE(known) ? known[i].name : NULL;
}

const char *tool_allocators_installed(char text[400]) {
    char path[PATH_MAX];
    size_t used = (size_t)snprintf(text, 400, TOOL_ALLOCATOR_C_LIBRARY);
    if (tool_allocator_find(TOOL_ALLOCATOR_OWN, path) == TOOL_ALLOCATOR_FOUND)
        used +=
            (size_t)snprintf(text + used, 400 - used, ", " TOOL_ALLOCATOR_OWN);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(known); i++)
        if (tool_allocator_find(known[i].name, path) == TOOL_ALLOCATOR_FOUND)
            used += (size_t)snprintf(text + used, 400 - used, ", %s",
                                     known[i].name);
    TCM_ASSERT(used < 400);
    return text;
}
