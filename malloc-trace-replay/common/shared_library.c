/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/shared_library.h"

#include "base/check.h"
#include "base/linux/allocator_signs.h"
#include "base/linux/elf_symbols.h"
#include "common/allocators.h"
#include "common/files.h"
#include "common/main.h"
#include "common/temp_folder.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Folders of libraries, from that of the program: build tree, installation. */
static const char *const beside[] = {"/../.libs", "/../../.libs",
                                     "/../lib/malloc-trace",
                                     "/../lib64/malloc-trace"};

static bool is_readable(const char *folder, const char *below, const char *name,
                        char path[PATH_MAX]) {
    char joined[2 * PATH_MAX];
    int n = snprintf(joined, sizeof(joined), "%s%s/%s", folder, below, name);
    return n > 0 && n < (int)sizeof(joined) && realpath(joined, path) != NULL &&
           access(path, R_OK) == 0;
}

bool tool_own_library_find(const char *name, char path[PATH_MAX]) {
    char folder[PATH_MAX];
    if (tool_own_folder(folder))
        for (size_t i = 0; i < TCM_ARRAY_SIZE(beside); i++)
            if (is_readable(folder, beside[i], name, path))
                return true;
    return is_readable(TCM_PKGLIBDIR, "", name, path);
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
    const char *tmp = tool_temp_place();
    if (!preload_can_name(tmp))
        tmp = "/tmp";
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%.*s/malloc-trace-XXXXXX", PATH_MAX - 400,
             tmp);
    if (mkdtemp(folder) == NULL) {
        tool_error("cannot make a folder in %s: %s", tmp, strerror(errno));
        return false;
    }
    snprintf(link, PATH_MAX, "%.*s/%.255s", PATH_MAX - 300, folder,
             tool_file_base(path));
    for (char *p; (p = strpbrk(link, NOT_FOR_PRELOAD)) != NULL;)
        *p = '_';
    TCM_ASSERT(preload_can_name(link));
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

/* --- Finding a function --------------------------------------------------- */

struct symbol_search {
    const char *name;
    const void *library; /* the only one that is searched; NULL: each */
    unsigned skipped;    /* number of libraries that are not, from the first */
    void *found;
    bool is_chosen; /* it is not known yet: code of the library chooses it */
};

/* Stores the symbols of INFO, if that is LIBRARY (NULL: any). */
static bool symbols_of(const struct dl_phdr_info *info, const void *library,
                       struct tcm_elf_symbols *symbols) {
    const ElfW(Phdr) *p = info->dlpi_phdr;
    bool is_library = library == NULL;
    for (unsigned i = 0; i < info->dlpi_phnum && !is_library; i++)
        is_library = p[i].p_type == PT_LOAD &&
                     (const void *)(info->dlpi_addr + p[i].p_vaddr) == library;
    return is_library &&
           tcm_elf_symbols(symbols, info->dlpi_addr, p, info->dlpi_phnum);
}

/* Searches a library for S->name. Returns 1 to end the search. */
static int search_library(struct dl_phdr_info *info, size_t size, void *ctx) {
    struct symbol_search *s = ctx;
    struct tcm_elf_symbols symbols;
    (void)size;
    if (s->skipped != 0) {
        s->skipped--;
        return 0;
    }
    if (!symbols_of(info, s->library, &symbols))
        return 0;
    const ElfW(Sym) *symbol = tcm_elf_find(&symbols, s->name);
    if (symbol == NULL)
        return 0;
    s->is_chosen = ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC;
    if (!s->is_chosen)
        s->found = (void *)(info->dlpi_addr + symbol->st_value);
    return 1;
}

/* The C library lists the program first, then libraries as the loader searches
   them. */
static struct symbol_search search(struct symbol_search s) {
    (void)dl_iterate_phdr(search_library, &s);
    return s;
}

void *tool_symbol(const char *name) {
    struct symbol_search s = search((struct symbol_search){.name = name});
    return s.is_chosen ? dlsym(RTLD_DEFAULT, name) : s.found;
}

void *tool_symbol_next(const char *name) {
    return search((struct symbol_search){.name = name, .skipped = 1}).found;
}

void *tool_symbol_own(const void *library, const char *name) {
    if (library == NULL)
        return NULL;
    return search((struct symbol_search){.name = name, .library = library})
        .found;
}

void *tool_symbol_find(const void *library, const char *name) {
    void *p = tool_symbol(name);
    return p != NULL && tool_symbol_library(p) == library ? p : NULL;
}

const void *tool_symbol_library(const void *address) {
    Dl_info info;
    if (address == NULL || dladdr(address, &info) == 0)
        return NULL;
    return info.dli_fbase;
}

void tool_c_library(char *text, size_t size) {
    if (confstr(_CS_GNU_LIBC_VERSION, text, size) == 0)
        snprintf(text, size, "%s", TOOL_ALLOCATOR_C_LIBRARY);
}

/* --- The allocator -------------------------------------------------------- */

struct sign_search {
    const void *library;
    const char *name;
};

static int search_signs(struct dl_phdr_info *info, size_t size, void *ctx) {
    struct sign_search *s = ctx;
    struct tcm_elf_symbols symbols;
    (void)size;
    if (!symbols_of(info, s->library, &symbols))
        return 0;
    s->name = tcm_allocator_of(&symbols);
    return 1;
}

const char *tool_allocator_of(const void *library) {
    struct sign_search s = {.library = library};
    if (library != NULL)
        (void)dl_iterate_phdr(search_signs, &s);
    return s.name;
}

/* Version numbers have one digit each for minor and patch up to 3.1, then two
   for the patch, and since 3.3 and 2.3 two for both. */
static void mimalloc_version(int v, char *text, size_t size) {
    int patch = v < 1000 ? 10 : 100, minor = v < 10000 ? 10 : 100;
    snprintf(text, size, "mimalloc %d.%d.%d", v / patch / minor,
             v / patch % minor, v % patch);
}

void tool_allocator_version(const void *library, char *text, size_t size) {
    const char *(*tc_version)(int *, int *, const char **);
    int (*mi_version)(void);
    int (*mallctl)(const char *, void *, size_t *, void *, size_t);
    void *p;

    text[0] = '\0';
    p = tool_symbol_find(library, "tc_version");
    if (p != NULL) {
        int major = 0, minor = 0;
        const char *patch = "";
        memcpy(&tc_version, &p, sizeof(p));
        const char *v = tc_version(&major, &minor, &patch);
        snprintf(text, size, "%s", v != NULL ? v : "");
        return;
    }
    p = tool_symbol_find(library, "mallctl");
    if (p != NULL) {
        const char *v = NULL;
        size_t length = sizeof(v);
        memcpy(&mallctl, &p, sizeof(p));
        if (mallctl("version", (void *)&v, &length, NULL, 0) == 0 && v != NULL)
            /* without the commit behind the number */
            snprintf(text, size, "jemalloc %.*s", (int)strcspn(v, "-"), v);
        return;
    }
    p = tool_symbol_find(library, "mi_version");
    if (p != NULL) {
        memcpy(&mi_version, &p, sizeof(p));
        mimalloc_version(mi_version(), text, size);
        return;
    }
    if (tool_symbol_find(library, "confstr") != NULL)
        tool_c_library(text, size);
}
