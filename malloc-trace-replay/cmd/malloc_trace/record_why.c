/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/record_why.h"

#include "base/compiler.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file that execvp would run. */
static bool find_in_path(const char *command, char path[PATH_MAX]) {
    if (strchr(command, '/') != NULL) {
        snprintf(path, PATH_MAX, "%s", command);
        return true;
    }
    const char *list = getenv("PATH");
    if (list == NULL)
        list = "/bin:/usr/bin";
    for (;;) {
        size_t length = strcspn(list, ":");
        int n = length == 0 ? snprintf(path, PATH_MAX, "%s", command)
                            : snprintf(path, PATH_MAX, "%.*s/%s", (int)length,
                                       list, command);
        struct stat st;
        if (n > 0 && n < PATH_MAX && stat(path, &st) == 0 &&
            S_ISREG(st.st_mode) && access(path, X_OK) == 0)
            return true;
        if (list[length] == '\0')
            return false;
        list += length + 1;
    }
}

enum elf_kind { ELF_NONE, ELF_OTHER, ELF_STATIC, ELF_DYNAMIC };

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#define OWN_MACHINE EM_NONE
#endif

static enum elf_kind kind_of(int fd) {
    Elf64_Ehdr head;
    ssize_t n = pread(fd, &head, sizeof(head), 0);
    if (n < EI_NIDENT || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return ELF_NONE;
    if (n < (ssize_t)sizeof(head) || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_machine != OWN_MACHINE)
        return ELF_OTHER;
    for (unsigned i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr part;
        off_t at = (off_t)(head.e_phoff + (uint64_t)i * sizeof(part));
        if (at < 0 || pread(fd, &part, sizeof(part), at) != sizeof(part))
            return ELF_OTHER;
        if (part.p_type == PT_INTERP)
            return ELF_DYNAMIC;
    }
    return ELF_STATIC;
}

const char *record_why_no_events(const char *command) {
    char path[PATH_MAX];
    struct stat st;
    if (!find_in_path(command, path) || stat(path, &st) != 0)
        return "it is static, setuid or brings its own allocator";
    if ((st.st_mode & S_ISUID) != 0 ||
        ((st.st_mode & S_ISGID) != 0 && (st.st_mode & S_IXGRP) != 0))
        return "its file is setuid or setgid, where the loader takes no "
               "preloaded library and the recorder no environment";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum elf_kind kind = fd < 0 ? ELF_NONE : kind_of(fd);
    if (fd >= 0)
        close(fd);
    if (kind == ELF_STATIC)
        return "its file is statically linked: no library can be preloaded";
    if (kind == ELF_OTHER)
        return "its file is of another architecture than the library";
    return "perhaps it is static or setuid, brings its own allocator, asked "
           "nothing of malloc, or unset LD_PRELOAD";
}
