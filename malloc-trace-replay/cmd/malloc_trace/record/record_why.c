/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/record/record_report.h"

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

enum elf_kind {
    ELF_NONE,
    ELF_OTHER,
    ELF_STATIC,
    ELF_OTHER_LIBC,
    ELF_OWN_MALLOC,
    ELF_DYNAMIC
};

/* Most symbols that are looked through. */
#define SYMBOLS_MAX 1000000u

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#define OWN_MACHINE EM_NONE
#endif

static bool read_at(int fd, uint64_t at, void *out, size_t n) {
    return (off_t)at >= 0 && pread(fd, out, n, (off_t)at) == (ssize_t)n;
}

/* Tells whether a symbol is a malloc that the executable itself exports: the
   loader finds that one before any library's. */
static bool is_malloc(int fd, const Elf64_Sym *symbol,
                      const Elf64_Shdr *strings) {
    char name[7];
    return symbol->st_shndx != SHN_UNDEF &&
           ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
           read_at(fd, strings->sh_offset + symbol->st_name, name,
                   sizeof(name)) &&
           memcmp(name, "malloc", sizeof(name)) == 0;
}

static bool has_malloc(int fd, const Elf64_Ehdr *head) {
    Elf64_Shdr section, strings;
    Elf64_Sym symbol[64];
    for (unsigned i = 0; i < head->e_shnum; i++) {
        if (!read_at(fd, head->e_shoff + (uint64_t)i * sizeof(section),
                     &section, sizeof(section)))
            return false;
        if (section.sh_type != SHT_DYNSYM ||
            !read_at(
                fd, head->e_shoff + (uint64_t)section.sh_link * sizeof(strings),
                &strings, sizeof(strings)))
            continue;
        uint64_t count = section.sh_size / sizeof(symbol[0]);
        for (uint64_t k = 0; k < count && k < SYMBOLS_MAX;) {
            uint64_t n = count - k < TCM_ARRAY_SIZE(symbol)
                             ? count - k
                             : TCM_ARRAY_SIZE(symbol);
            if (!read_at(fd, section.sh_offset + k * sizeof(symbol[0]), symbol,
                         (size_t)n * sizeof(symbol[0])))
                return false;
            for (uint64_t m = 0; m < n; m++)
                if (is_malloc(fd, &symbol[m], &strings))
                    return true;
            k += n;
        }
    }
    return false;
}

/* The loader named in PART is not the one of the C library that the recording
   library was made for. */
static bool is_other_loader(int fd, const Elf64_Phdr *part) {
    char path[256];
    size_t n = part->p_filesz < sizeof(path) ? (size_t)part->p_filesz : 0;
    if (n == 0 || !read_at(fd, part->p_offset, path, n) || path[n - 1] != '\0')
        return false;
    return strstr(path, "ld-linux") == NULL;
}

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
        if (part.p_type == PT_INTERP && is_other_loader(fd, &part))
            return ELF_OTHER_LIBC;
        if (part.p_type == PT_INTERP)
            return has_malloc(fd, &head) ? ELF_OWN_MALLOC : ELF_DYNAMIC;
    }
    return ELF_STATIC;
}

/* For a script the program that runs it counts. */
static enum elf_kind kind_behind(const char *path) {
    char line[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ELF_NONE;
    enum elf_kind kind = kind_of(fd);
    ssize_t n = pread(fd, line, sizeof(line) - 1, 0);
    close(fd);
    if (kind != ELF_NONE || n < 3 || line[0] != '#' || line[1] != '!')
        return kind;
    line[n] = '\0';
    char *name = line + 2 + strspn(line + 2, " \t");
    name[strcspn(name, " \t\r\n")] = '\0';
    fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        kind = kind_of(fd);
        close(fd);
    }
    return kind == ELF_DYNAMIC ? kind : ELF_NONE;
}

static const char *why(const char *command, bool nothing_written,
                       bool per_process) {
    char path[PATH_MAX];
    struct stat st;
    if (!find_in_path(command, path) || stat(path, &st) != 0)
        return "it is static, setuid or brings its own allocator";
    if ((st.st_mode & S_ISUID) != 0 ||
        ((st.st_mode & S_ISGID) != 0 && (st.st_mode & S_IXGRP) != 0))
        return "its file is setuid or setgid, where the loader takes no "
               "preloaded library and the recorder no environment";
    enum elf_kind kind = kind_behind(path);
    if (kind == ELF_STATIC)
        return "its file is statically linked: no library can be preloaded";
    if (kind == ELF_OTHER)
        return "its file is of another architecture than the library";
    if (kind == ELF_OTHER_LIBC)
        return "its file is made for another C library than the GNU one";
    if (kind == ELF_OWN_MALLOC)
        return "its file has a malloc of its own, which comes before that of "
               "any preloaded library";
    if (kind == ELF_DYNAMIC && nothing_written)
        return per_process
                   ? "it asked nothing of malloc, for which a name with %p "
                     "gets "
                     "no file, or the recorder or the loader said why"
                   : "its file takes a preloaded library: what the recorder or "
                     "the loader said above is the cause";
    return "perhaps it is static or setuid, brings its own allocator, asked "
           "nothing of malloc, or unset LD_PRELOAD";
}

const char *record_why_no_events(const char *command) {
    return why(command, false, false);
}

/* Tells whether PATTERN makes a file for each process, from its first request
   on. */
static bool is_per_process(const char *pattern) {
    for (const char *p = pattern; *p != '\0'; p++)
        if (*p == '%' && *++p == 'p')
            return true;
        else if (*p == '\0')
            return false;
    return false;
}

const char *record_why_no_trace(const char *command, const char *pattern) {
    return why(command, true, is_per_process(pattern));
}

const char *record_why_no_folder(const char *pattern) {
    static char folder[PATH_MAX];
    const char *slash = strrchr(pattern, '/');
    size_t n = 0;
    for (const char *p = pattern; slash != NULL && p < slash; p++) {
        if (*p == '%' && *++p != '%')
            return NULL;
        if (n + 2 < sizeof(folder))
            folder[n++] = *p;
    }
    if (n == 0)
        folder[n++] = '/';
    folder[n] = '\0';
    return access(folder, R_OK | W_OK | X_OK) == 0 ? NULL : folder;
}
