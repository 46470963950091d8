/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every offset in a file is checked: a file that is no well-formed ELF file has
 * no obstacle, and the command runs.
 */
#include "cmd/malloc_trace/record/record.h"
#include "cmd/malloc_trace/subcommands.h"

#include "common/files.h"
#include "common/main.h"
#include "common/shared_library.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Larger files are not examined. */
#define FILE_MOST ((off_t)1 << 30)

/* Scripts whose interpreters are scripts, as deep as the kernel follows
   them. */
#define SCRIPTS_MOST 5

/* --- Files --------------------------------------------------------------- */

struct file_bytes {
    const unsigned char *at; /* NULL: the file cannot be read */
    size_t size;
    const Elf64_Ehdr *elf; /* NULL: no ELF file */
};

/* Returns BYTES bytes at OFFSET, aligned to ALIGN; NULL: the file has none
   there. */
static const void *bytes_at(const struct file_bytes *f, uint64_t offset,
                            uint64_t bytes, size_t align) {
    return offset <= f->size && bytes <= f->size - offset && offset % align == 0
               ? f->at + offset
               : NULL;
}

/* Reads the file PATH. */
static void load_file(struct file_bytes *f, const char *path) {
    struct stat st;
    unsigned char *to = NULL;
    *f = (struct file_bytes){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
        st.st_size <= FILE_MOST)
        to = malloc((size_t)st.st_size);
    ssize_t n = 1;
    while (to != NULL && n > 0 && f->size < (size_t)st.st_size) {
        n = read(fd, to + f->size, (size_t)st.st_size - f->size);
        f->size += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    f->at = to;
    f->elf = bytes_at(f, 0, sizeof(*f->elf), 8);
    if (f->elf != NULL && memcmp(f->elf->e_ident, ELFMAG, SELFMAG) != 0)
        f->elf = NULL;
}

static void unload_file(struct file_bytes *f) {
    free((void *)(uintptr_t)f->at);
    *f = (struct file_bytes){0};
}

static bool holds(const struct file_bytes *f, const char *text) {
    return memmem(f->at, f->size, text, strlen(text)) != NULL;
}

/* Stores the interpreter that the script F names in its first line; that of
   "env NAME" is NAME's file. false: F is no script. */
static bool find_interpreter(const struct file_bytes *f, char path[PATH_MAX]) {
    char line[256], *rest = NULL;
    size_t n = f->size < sizeof(line) ? f->size : sizeof(line) - 1;
    if (f->at == NULL || n < 3 || memcmp(f->at, "#!", 2) != 0)
        return false;
    memcpy(line, f->at + 2, n - 2);
    line[n - 2] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    const char *name = strtok_r(line, " \t", &rest);
    if (name == NULL)
        return false;
    snprintf(path, PATH_MAX, "%s", name);
    if (strcmp(tool_file_base(name), "env") != 0)
        return true;
    do
        name = strtok_r(NULL, " \t", &rest);
    while (name != NULL && (*name == '-' || strchr(name, '=') != NULL));
    char found[PATH_MAX];
    if (name != NULL && tool_file_find_command(name, found))
        memcpy(path, found, strlen(found) + 1);
    return true;
}

static void set_obstacle(struct record_program *p, const char *obstacle,
                         const char *remedy) {
    p->obstacle = obstacle;
    p->remedy = remedy;
}

/* --- ELF ----------------------------------------------------------------- */

static const Elf64_Phdr *segment_of(const struct file_bytes *f, uint32_t type) {
    const Elf64_Ehdr *head = f->elf;
    const Elf64_Phdr *p =
        bytes_at(f, head->e_phoff, head->e_phnum * sizeof(*p), 8);
    for (unsigned i = 0; p != NULL && i < head->e_phnum; i++)
        if (p[i].p_type == type)
            return &p[i];
    return NULL;
}

/* Tells whether F is a loader or library, which has no loader of its own, but a
   name, unlike a static program. */
static bool has_soname(const struct file_bytes *f) {
    const Elf64_Phdr *p = segment_of(f, PT_DYNAMIC);
    const Elf64_Dyn *d =
        p == NULL ? NULL : bytes_at(f, p->p_offset, p->p_filesz, 8);
    for (uint64_t i = 0; d != NULL && i < p->p_filesz / sizeof(*d); i++)
        if (d[i].d_tag == DT_SONAME)
            return true;
    return false;
}

static bool uses_musl(const struct file_bytes *f, const Elf64_Phdr *interp) {
    const char *name = bytes_at(f, interp->p_offset, interp->p_filesz, 1);
    return name != NULL && memmem(name, interp->p_filesz, "ld-musl", 7) != NULL;
}

/* Returns the section headers of F and stores the names of the sections, of
   *BYTES bytes, of which the last is 0. NULL: F has none. */
static const Elf64_Shdr *sections_of(const struct file_bytes *f,
                                     const char **names, uint64_t *bytes) {
    const Elf64_Ehdr *head = f->elf;
    const Elf64_Shdr *s =
        bytes_at(f, head->e_shoff, head->e_shnum * sizeof(*s), 8);
    if (s == NULL || head->e_shstrndx >= head->e_shnum)
        return NULL;
    *bytes = s[head->e_shstrndx].sh_size;
    *names = bytes_at(f, s[head->e_shstrndx].sh_offset, *bytes, 1);
    return *names != NULL && *bytes != 0 && (*names)[*bytes - 1] == '\0' ? s
                                                                         : NULL;
}

/* Tells whether the library F is linked with musl, whose file has no number in
   its name, unlike glibc's libc.so.6. */
static bool is_for_musl(const struct file_bytes *f) {
    static const char needed[] = "\0libc.so";
    const char *names;
    uint64_t bytes;
    const Elf64_Shdr *s = sections_of(f, &names, &bytes);
    for (unsigned i = 0; s != NULL && i < f->elf->e_shnum; i++) {
        if (s[i].sh_name >= bytes ||
            strcmp(names + s[i].sh_name, ".dynstr") != 0)
            continue;
        const char *text = bytes_at(f, s[i].sh_offset, s[i].sh_size, 1);
        return text != NULL &&
               memmem(text, s[i].sh_size, needed, sizeof(needed)) != NULL;
    }
    return false;
}

static bool is_go(const struct file_bytes *f) {
    const char *names;
    uint64_t bytes;
    const Elf64_Shdr *s = sections_of(f, &names, &bytes);
    for (unsigned i = 0; s != NULL && i < f->elf->e_shnum; i++)
        if (s[i].sh_name < bytes &&
            strcmp(names + s[i].sh_name, ".go.buildinfo") == 0)
            return true;
    return false;
}

/* --- Runtimes ------------------------------------------------------------ */

/*
 * Runtimes with a heap of their own, and interpreters whose lines the recorder
 * reads, by a function that their executable defines or calls. The first row
 * that fits counts.
 *
 * CPython (Objects/obmalloc.c): in a free-threaded build mimalloc serves all
 * objects, and PYTHONMALLOC=malloc is an error at its start. Since 3.13 the
 * other build has mimalloc in it, too, which PYTHONMALLOC alone turns on.
 */
static const struct record_runtime {
    const char *symbol;    /* begins the function's name */
    const char *command;   /* of an interpreter with lines, but for its version;
                            else NULL */
    const char *variable;  /* whoever sets it has decided: no note; or NULL */
    const char *allocator; /* in its executable, which NOTE covers; or NULL */
    const char *note;      /* NULL: its objects are blocks of malloc */
} runtimes[] = {
    {"_Py_MergeZeroLocalRefcount", NULL, "PYTHONMALLOC", "mimalloc",
     "objects of a free-threaded Python come from the mimalloc inside it and "
     "will not be in the trace; no setting changes that: record a Python that "
     "has the lock, with PYTHONMALLOC=malloc"},
    {"Py_BytesMain", "python", "PYTHONMALLOC", "mimalloc",
     "objects of at most 512 bytes come from Python's own arenas (pymalloc) "
     "and will not be in the trace; PYTHONMALLOC=malloc makes each a call of "
     "malloc, which takes more time"},
    {"perl_run", "perl", NULL, NULL, NULL},
    {"ruby_run_node", "ruby", NULL, NULL,
     "Ruby's objects lie in slots of pages from mmap and will not be in the "
     "trace, unlike what outgrows a slot, such as long strings"},
    {"_emalloc", NULL, "USE_ZEND_ALLOC", NULL,
     "PHP's values come from a heap of its own and will not be in the trace; "
     "USE_ZEND_ALLOC=0 makes each a call of malloc, which takes more time"},
    {"_ZN4node5Start", NULL, NULL, NULL,
     "JavaScript's objects come from V8's own heap and will not be in the "
     "trace, unlike what Node's native code allocates"},
    {"JLI_Launch", NULL, NULL, NULL,
     "Java's objects come from the virtual machine's own heap and will not be "
     "in the trace, unlike what its native code allocates"},
};

static const struct record_runtime *const free_threaded = &runtimes[0],
                                          *const python = &runtimes[1];

/* Stores the runtime that the function NAME shows, if P has no earlier one. */
static void take_runtime(struct record_program *p, const char *name) {
    const struct record_runtime *end =
        p->runtime != NULL ? p->runtime : runtimes + TCM_ARRAY_SIZE(runtimes);
    for (const struct record_runtime *r = runtimes; r < end; r++)
        if (strncmp(name, r->symbol, strlen(r->symbol)) == 0) {
            p->runtime = r;
            return;
        }
}

/* Tells whether F names the library of a free-threaded Python, as
   libpython3.13t.so.1.0. */
static bool names_free_threaded(const struct file_bytes *f) {
    static const char name[] = "libpython3.";
    const char *at = (const char *)f->at, *end = at + f->size;
    while ((at = memmem(at, (size_t)(end - at), name, sizeof(name) - 1)) !=
           NULL) {
        at += sizeof(name) - 1;
        while (at < end && *at >= '0' && *at <= '9')
            at++;
        if (at < end && *at == 't')
            return true;
    }
    return false;
}

/* Returns the interpreter that a script by the NAME, such as python3.11,
   starts; NULL: it is none with lines. */
static const struct record_runtime *runtime_of_name(const char *name) {
    size_t n = strcspn(name, "0123456789.");
    for (size_t i = 0; name[n + strspn(name + n, "0123456789.")] == '\0' &&
                       i < TCM_ARRAY_SIZE(runtimes);
         i++)
        if (runtimes[i].command != NULL && strlen(runtimes[i].command) == n &&
            strncmp(name, runtimes[i].command, n) == 0)
            return &runtimes[i];
    return NULL;
}

/* --- Allocators ---------------------------------------------------------- */

/* Functions of allocators. Calls by a name of their own do not reach a
   preloaded malloc even where the allocator is a shared library; the other
   names count only where the program defines them. */
static const struct {
    const char *name;
    bool prefix;  /* names that begin with NAME */
    bool defined; /* only if the program defines it */
    const char *allocator;
} allocator_names[] = {
    {"mallctl", false, true, "jemalloc"},
    {"je_malloc", false, false, "jemalloc"},
    {"_rjem_", true, false, "jemalloc"},
    {"mi_malloc", false, false, "mimalloc"},
    /* left where the linker dropped or renamed the entry points */
    {"_mi_malloc_generic", false, true, "mimalloc"},
    {"sn_malloc", false, false, "snmalloc"},
    {"sn_rust_", true, false, "snmalloc"},
    {"_ZN8snmalloc", true, false, "snmalloc"},
    {"tc_malloc", false, true, "tcmalloc"},
    {"TCMallocInternal", true, true, "tcmalloc"},
};

/* Sanitizers whose runtimes replace malloc, by a function that instrumented
   code calls or a static runtime defines. Preloaded, the recorder's malloc
   would come before theirs: AddressSanitizer refuses to start then,
   ThreadSanitizer and MemorySanitizer crash, and LeakSanitizer finds no
   leaks. */
static const struct {
    const char *symbol, *obstacle, *remedy;
} sanitizers[] = {
#define SANITIZER(symbol, name, option)                                        \
    {                                                                          \
        symbol, "it is built with " name ", which replaces malloc itself",     \
            "build it without -fsanitize=" option                              \
    }
    SANITIZER("__asan_init", "AddressSanitizer", "address"),
    SANITIZER("__hwasan_init", "HWAddressSanitizer", "hwaddress"),
    SANITIZER("__tsan_init", "ThreadSanitizer", "thread"),
    SANITIZER("__msan_init", "MemorySanitizer", "memory"),
    SANITIZER("__lsan_init", "LeakSanitizer", "leak"),
#undef SANITIZER
};

/* Texts of allocators whose symbols may be stripped. */
static const struct {
    const char *text, *allocator;
} allocator_texts[] = {{"<jemalloc>: ", "jemalloc"},
                       {"mimalloc: warning: ", "mimalloc"}};

static const char *allocator_of_symbol(const char *name, bool defined) {
    for (size_t i = 0; i < TCM_ARRAY_SIZE(allocator_names); i++) {
        const char *known = allocator_names[i].name;
        if (allocator_names[i].defined && !defined)
            continue;
        if (allocator_names[i].prefix ? strncmp(name, known, strlen(known)) == 0
                                      : strcmp(name, known) == 0)
            return allocator_names[i].allocator;
    }
    return NULL;
}

/* Stores in P the obstacle of the sanitizer that the function NAME shows,
   unless an earlier one did: AddressSanitizer has LeakSanitizer in it. */
static void take_sanitizer(struct record_program *p, const char *name) {
    for (size_t i = 0; p->obstacle == NULL && i < TCM_ARRAY_SIZE(sanitizers);
         i++)
        if (strcmp(name, sanitizers[i].symbol) == 0)
            set_obstacle(p, sanitizers[i].obstacle, sanitizers[i].remedy);
}

/* Stores in P what the symbol table TABLE of F shows, whose names are in
   STRINGS. */
static void examine_symbols(struct record_program *p,
                            const struct file_bytes *f, const Elf64_Shdr *table,
                            const Elf64_Shdr *strings) {
    const Elf64_Sym *symbol = bytes_at(f, table->sh_offset, table->sh_size, 8);
    const char *names = bytes_at(f, strings->sh_offset, strings->sh_size, 1);
    uint64_t bytes = strings->sh_size;
    if (symbol == NULL || names == NULL || bytes == 0 ||
        names[bytes - 1] != '\0')
        return;
    for (uint64_t i = 0; i < table->sh_size / sizeof(*symbol); i++) {
        unsigned type = ELF64_ST_TYPE(symbol[i].st_info);
        bool defined = symbol[i].st_shndx != SHN_UNDEF;
        if ((type != STT_FUNC && type != STT_GNU_IFUNC &&
             (defined || type != STT_NOTYPE)) ||
            symbol[i].st_name >= bytes)
            continue;
        const char *name = names + symbol[i].st_name;
        if (p->allocator == NULL)
            p->allocator = allocator_of_symbol(name, defined);
        p->own_malloc |= defined && strcmp(name, "malloc") == 0;
        take_runtime(p, name);
        take_sanitizer(p, name);
    }
}

/* Stores in P what the symbols of F show, and the allocator in its texts if
   they show none. */
static void examine_code(struct record_program *p, const struct file_bytes *f) {
    const char *names;
    uint64_t bytes;
    const Elf64_Shdr *s = sections_of(f, &names, &bytes);
    unsigned count = s == NULL ? 0 : f->elf->e_shnum;
    for (unsigned i = 0; i < count; i++)
        if ((s[i].sh_type == SHT_DYNSYM || s[i].sh_type == SHT_SYMTAB) &&
            s[i].sh_link < count)
            examine_symbols(p, f, &s[i], &s[s[i].sh_link]);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(allocator_texts); i++)
        if (p->allocator == NULL && holds(f, allocator_texts[i].text))
            p->allocator = allocator_texts[i].allocator;
    if (p->runtime == python && names_free_threaded(f))
        p->runtime = free_threaded;
    if (p->runtime != NULL && p->runtime->allocator != NULL &&
        p->allocator != NULL &&
        strcmp(p->runtime->allocator, p->allocator) == 0)
        p->allocator = NULL;
    p->has_recorder = p->own_malloc && holds(f, "TCMALLOC_TRACE_OUTPUT");
}

/* Tells whether F was compiled by rustc: paths of its library stand in
   messages of panics, also where symbols are stripped. */
static bool is_rust(const struct file_bytes *f) {
    return holds(f, "/rustc/") || holds(f, "rustc version") ||
           holds(f, "library/std/src/");
}

/* Names the allocator of F, and how to do without it. */
static void examine_allocator(struct record_program *p,
                              const struct file_bytes *f) {
    if (holds(f, "TCMALLOC_TRACE_OUTPUT")) {
        p->allocator = NULL;
        return;
    }
    if (p->allocator == NULL && is_go(f)) {
        p->allocator = "Go's heap";
        p->allocator_remedy = "use Go's profiler (pprof)";
        return;
    }
    if (p->allocator == NULL && p->own_malloc)
        p->allocator = "malloc";
    p->allocator_remedy =
        is_rust(f) ? "build it with the crate malloc_trace as its global "
                     "allocator, or with none (doc/extension.md)"
                   : "build it without that allocator, or link it with the "
                     "library (doc/extension.md)";
}

/* --- Obstacles ----------------------------------------------------------- */

/* Tells whether an exec of the file gives it rights that this process lacks, so
   that the loader ignores LD_PRELOAD. */
static bool gains_rights(const char *path, const struct stat *st,
                         bool *by_capabilities) {
    struct statvfs mount;
    bool by_id = ((st->st_mode & S_ISUID) != 0 && st->st_uid != getuid()) ||
                 ((st->st_mode & S_ISGID) != 0 &&
                  (st->st_mode & S_IXGRP) != 0 && st->st_gid != getgid());
    *by_capabilities = !by_id && getuid() != 0 &&
                       getxattr(path, "security.capability", NULL, 0) > 0;
    return (by_id || *by_capabilities) &&
           prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 &&
           (statvfs(path, &mount) != 0 || (mount.f_flag & ST_NOSUID) == 0);
}

static void examine_static(struct record_program *p,
                           const struct file_bytes *f) {
    /* programs that are linked with the recorder need no preloading */
    if (has_soname(f) || holds(f, "TCMALLOC_TRACE_OUTPUT"))
        return;
    if (is_go(f))
        set_obstacle(p,
                     "its file is a statically linked Go program, which has "
                     "its own heap instead of malloc",
                     "use Go's profiler (pprof)");
    else if (is_rust(f))
        set_obstacle(p,
                     "its file is a statically linked Rust program: no library "
                     "can be preloaded",
                     "build it with the crate malloc_trace as its global "
                     "allocator (doc/extension.md), or for a target whose name "
                     "ends in -gnu");
    else
        set_obstacle(p,
                     "its file is statically linked: no library can be "
                     "preloaded",
                     "link it with the library (doc/extension.md)");
}

/* Examines the executable F, which is P's, beside the LIBRARY. */
static void examine_elf(struct record_program *p, const struct file_bytes *f,
                        const struct file_bytes *library) {
    const Elf64_Ehdr *head = f->elf, *own = library->elf;
    if (head == NULL || own == NULL)
        return;
    if (head->e_ident[EI_CLASS] != own->e_ident[EI_CLASS] ||
        head->e_machine != own->e_machine) {
        set_obstacle(p, "its file is for another architecture than the library",
                     "name a library for it in MALLOC_TRACE_LIBRARY");
        return;
    }
    if (head->e_ident[EI_CLASS] != ELFCLASS64)
        return;
    const Elf64_Phdr *interp = segment_of(f, PT_INTERP);
    if (interp == NULL) {
        examine_static(p, f);
    } else if (uses_musl(f, interp) != is_for_musl(library)) {
        set_obstacle(p,
                     uses_musl(f, interp)
                         ? "its file uses musl, and the library another C "
                           "library"
                         : "its file uses another C library than musl, which "
                           "the library uses",
                     "name a library for it in MALLOC_TRACE_LIBRARY");
    } else {
        p->takes_library = true;
        examine_allocator(p, f);
    }
}

static void examine_rights(struct record_program *p) {
    struct stat st;
    bool by_capabilities;
    if (stat(p->path, &st) != 0 || !S_ISREG(st.st_mode) ||
        !gains_rights(p->path, &st, &by_capabilities))
        return;
    p->takes_library = false;
    set_obstacle(p,
                 by_capabilities
                     ? "its file has capabilities: the loader preloads no "
                       "library, and the recorder ignores the environment"
                     : "its file is setuid or setgid: the loader preloads no "
                       "library, and the recorder ignores the environment",
                 "record a copy of the file, which has no such rights");
}

/* --- Interface ----------------------------------------------------------- */

bool record_find_library(char path[PATH_MAX]) {
    const char *given = getenv("MALLOC_TRACE_LIBRARY");
    if (given == NULL || *given == '\0')
        return tool_own_library(TOOL_RECORDING_LIBRARY, path);
    if (realpath(given, path) != NULL && access(path, R_OK) == 0)
        return true;
    tool_error("cannot read the library %s of MALLOC_TRACE_LIBRARY: %s", given,
               strerror(errno));
    return false;
}

/* Finds the program that COMMAND runs, a script's interpreter, and loads its
   file. false: there is none. */
static bool find_program(struct record_program *p, const char *command,
                         struct file_bytes *file) {
    *p = (struct record_program){.command = command};
    if (!tool_file_find_command(command, p->path) ||
        access(p->path, X_OK) != 0) {
        p->path[0] = '\0';
        return false;
    }
    load_file(file, p->path);
    for (int i = 0; i < SCRIPTS_MOST && find_interpreter(file, p->path); i++) {
        p->is_script = true;
        unload_file(file);
        load_file(file, p->path);
    }
    if (file->elf != NULL && file->elf->e_ident[EI_CLASS] == ELFCLASS64)
        examine_code(p, file);
    /* a script that is named python3 starts one of several Pythons */
    if (p->is_script && p->runtime == NULL)
        p->runtime = runtime_of_name(tool_file_base(command));
    return true;
}

static void examine_file(struct record_program *p, const struct file_bytes *f,
                         const char *library) {
    struct file_bytes own;
    load_file(&own, library);
    examine_elf(p, f, &own);
    examine_rights(p);
    unload_file(&own);
}

void record_program_examine(struct record_program *p, const char *command,
                            const char *library) {
    struct file_bytes file;
    if (!find_program(p, command, &file))
        return;
    examine_file(p, &file, library);
    unload_file(&file);
}

/* Tells whether a recording of P has its blocks; prints the reason if not. */
static bool is_seen(const struct record_program *p) {
    if (p->obstacle != NULL)
        tool_not_judged(p->command, "%s; %s", p->obstacle, p->remedy);
    else if (p->takes_library && p->allocator != NULL)
        tool_not_judged(p->command,
                        "its file has an allocator of its own (%s), whose "
                        "blocks are not recorded; %s",
                        p->allocator, p->allocator_remedy);
    return p->obstacle == NULL && !(p->takes_library && p->allocator != NULL);
}

int record_program_facts(struct record_facts *facts, const char *command) {
    char library[PATH_MAX];
    struct record_program p;
    struct file_bytes file;
    *facts = (struct record_facts){.command = command, .sites = "stack:64"};
    if (!record_find_library(library))
        return TOOL_FAILED;
    if (!find_program(&p, command, &file))
        return TOOL_OK; /* the start fails */
    examine_file(&p, &file, library);
    unload_file(&file);
    facts->runtime = p.runtime;
    if (p.runtime != NULL && p.runtime->command != NULL)
        facts->sites = "lang:64";
    facts->needs_mimalloc = p.runtime == free_threaded;
    return is_seen(&p) ? TOOL_OK : TOOL_DAMAGED;
}

void record_program_note(const struct record_facts *f) {
    const struct record_runtime *r = f->runtime;
    if (r == NULL || r->note == NULL || tool_is_quiet() ||
        (r->variable != NULL && getenv(r->variable) != NULL))
        return;
    fprintf(stderr, "%s: %s: %s\n", tool_name(), f->command, r->note);
}

void record_program_refuse(const struct record_program *p) {
    if (p->is_script)
        tool_error("cannot record %s, which %s runs: %s; %s, or run it with "
                   "--anyway",
                   p->command, p->path, p->obstacle, p->remedy);
    else
        tool_error("cannot record %s: %s; %s, or run it with --anyway",
                   p->command, p->obstacle, p->remedy);
}

void record_program_caution(const struct record_program *p) {
    if (p->takes_library && p->allocator != NULL)
        tool_warn("%s has an allocator of its own (%s), whose blocks will not "
                  "be in the trace; %s",
                  p->command, p->allocator, p->allocator_remedy);
    if (p->obstacle == NULL)
        record_program_note(&(struct record_facts){.command = p->command,
                                                   .runtime = p->runtime});
}
