/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A module is opened when its first site is named. libdwfl finds separate debug
 * files: by build id, by the name that the file has for its debug file, and
 * through debuginfod if DEBUGINFOD_URLS is set.
 */
#include "symbols/symbol_modules.h"

#include "common/main.h"
#include "symbols/symbol_table.h"

#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEBUG_FOLDER "/usr/lib/debug"
/* Lowest address of modules that libdwfl looks for by build id. */
#define FOUND_AT ((uint64_t)1 << 56)

struct opened {
    bool tried;        /* to find FILE */
    bool loaded;       /* DEBUG and SYMBOLS */
    Dwfl_Module *file; /* NULL: not found */
    Dwarf_Addr bias;   /* added to the file's addresses in DEBUG */
    struct symbol_debug *debug;
    struct symbol_table symbols;
    char *remedy; /* see symbol_modules_remedy */
};

struct symbol_modules {
    const struct tool_sites *sites;
    const char *folder;
    char *debug_path; /* libdwfl's list of folders */
    Dwfl_Callbacks callbacks;
    Dwfl *dwfl;
    uint64_t next_address; /* of the next module looked for by build id */
    struct opened *opened; /* by place of the module */
};

struct symbol_modules *symbol_modules_new(const struct tool_sites *sites,
                                          const char *folder) {
    struct symbol_modules *m = calloc(1, sizeof(*m));
    char whole[PATH_MAX];
    if (m == NULL)
        return NULL;
    m->sites = sites;
    m->folder = folder;
    m->next_address = FOUND_AT;
    m->callbacks = (Dwfl_Callbacks){
        .find_elf = dwfl_build_id_find_elf,
        .find_debuginfo = dwfl_standard_find_debuginfo,
        .section_address = dwfl_offline_section_address,
        .debuginfo_path = &m->debug_path,
    };
    if (folder != NULL && realpath(folder, whole) != NULL &&
        strchr(whole, ':') == NULL &&
        asprintf(&m->debug_path, ":.debug:%s:" DEBUG_FOLDER, whole) < 0)
        m->debug_path = NULL;
    m->dwfl = dwfl_begin(&m->callbacks);
    m->opened = calloc(sites->modules.count + 1, sizeof(*m->opened));
    if (m->dwfl == NULL || m->opened == NULL) {
        symbol_modules_free(m);
        return NULL;
    }
    return m;
}

void symbol_modules_free(struct symbol_modules *m) {
    if (m == NULL)
        return;
    for (size_t i = 0; m->opened != NULL && i < m->sites->modules.count; i++) {
        symbol_debug_free(m->opened[i].debug);
        symbol_table_fini(&m->opened[i].symbols);
        free(m->opened[i].remedy);
    }
    if (m->dwfl != NULL)
        dwfl_end(m->dwfl);
    free(m->opened);
    free(m->debug_path);
    free(m);
}

/* --- Files ---------------------------------------------------------------- */

/* True if the file of M is the recorded build. A file without build id is taken
   for it. */
static bool is_recorded(Dwfl_Module *m, const struct tool_module *module) {
    const unsigned char *id;
    GElf_Addr address;
    Dwarf_Addr bias;
    if (dwfl_module_getelf(m, &bias) == NULL)
        return false;
    int length = dwfl_module_build_id(m, &id, &address);
    return length <= 0 || module->build_id_length == 0 ||
           (length == module->build_id_length &&
            memcmp(id, module->build_id, (size_t)length) == 0);
}

struct named {
    const char *path;
    Dwfl_Module *file;
};

static int is_named(Dwfl_Module *file, void **data, const char *name,
                    Dwarf_Addr start, void *ctx) {
    struct named *n = ctx;
    (void)data;
    if (start >= FOUND_AT || strcmp(name, n->path) != 0)
        return DWARF_CB_OK;
    n->file = file;
    return DWARF_CB_ABORT;
}

static Dwfl_Module *open_file(struct symbol_modules *m,
                              const struct tool_module *module,
                              const char *path) {
    struct named old = {path, NULL};
    struct stat st;
    /* A trace may name a device or a pipe. */
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return NULL;
    /* A second report of a program with fixed addresses, as from the trace of
       another process, makes libdwfl drop the first one. */
    dwfl_getmodules(m->dwfl, is_named, &old, 0);
    Dwfl_Module *file = old.file;
    if (file == NULL) {
        dwfl_report_begin_add(m->dwfl);
        file = dwfl_report_offline(m->dwfl, path, path, -1);
        dwfl_report_end(m->dwfl, NULL, NULL);
    }
    if (file == NULL || is_recorded(file, module))
        return file;
    tool_warn("%s is another build than the one that was recorded", path);
    return NULL;
}

static Dwfl_Module *open_in_folder(struct symbol_modules *m,
                                   const struct tool_module *module) {
    const char *slash = strrchr(module->path, '/');
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", m->folder, module->path);
    Dwfl_Module *file = open_file(m, module, path);
    if (file != NULL || slash == NULL)
        return file;
    snprintf(path, sizeof(path), "%s/%s", m->folder, slash + 1);
    return open_file(m, module, path);
}

/* Opens the debug file alone, which has the module's addresses, too. */
static Dwfl_Module *open_debug_file(struct symbol_modules *m,
                                    const struct tool_module *module,
                                    const char *folder) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/.build-id/%02x/", folder,
                     module->build_id[0]);
    for (unsigned i = 1; i < module->build_id_length && n < PATH_MAX - 16; i++)
        n += snprintf(path + n, 3, "%02x", module->build_id[i]);
    if (n >= PATH_MAX - 16)
        return NULL;
    memcpy(path + n, ".debug", sizeof(".debug"));
    return open_file(m, module, path);
}

/* Lets libdwfl search by build id, also with debuginfod. */
static Dwfl_Module *open_by_build_id(struct symbol_modules *m,
                                     const struct tool_module *module) {
    uint64_t bytes =
        module->end > module->start ? module->end - module->start : 1;
    Dwarf_Addr bias;
    if (module->build_id_length < 2 || bytes >> 48 != 0)
        return NULL;
    dwfl_report_begin_add(m->dwfl);
    Dwfl_Module *file = dwfl_report_module(
        m->dwfl, module->path, m->next_address, m->next_address + bytes);
    m->next_address += bytes + ((uint64_t)1 << 32);
    if (file != NULL)
        dwfl_module_report_build_id(file, module->build_id,
                                    module->build_id_length, 0);
    dwfl_report_end(m->dwfl, NULL, NULL);
    if (file != NULL && dwfl_module_getelf(file, &bias) != NULL &&
        is_recorded(file, module))
        return file;
    file = m->folder == NULL ? NULL : open_debug_file(m, module, m->folder);
    return file != NULL ? file : open_debug_file(m, module, DEBUG_FOLDER);
}

static void open_module(struct symbol_modules *m,
                        const struct tool_module *module, struct opened *o) {
    o->tried = true;
    if (module->path == NULL)
        return;
    if (module->path[0] == '/')
        o->file = open_file(m, module, module->path);
    if (o->file == NULL && m->folder != NULL)
        o->file = open_in_folder(m, module);
    if (o->file == NULL)
        o->file = open_by_build_id(m, module);
}

/* --- Addresses ------------------------------------------------------------ */

static bool is_code(const GElf_Sym *s) {
    unsigned type = GELF_ST_TYPE(s->st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE) &&
           s->st_shndx != SHN_UNDEF && s->st_shndx != SHN_ABS;
}

static uint32_t rank_of(const GElf_Sym *s) {
    unsigned bind = GELF_ST_BIND(s->st_info);
    return (s->st_size != 0 ? 4u : 0u) + (bind == STB_GLOBAL ? 2u
                                          : bind == STB_WEAK ? 1u
                                                             : 0u);
}

/* Size of S, called NAME; 0: up to the next one. frame_dummy has no size and is
   the last function before those of the program itself, which may have none
   with a name (Haskell, assembler, after objcopy). Its code is a jump. */
static uint64_t size_of(const GElf_Sym *s, const char *name) {
    return s->st_size == 0 && strcmp(name, "frame_dummy") == 0 ? 16u
                                                               : s->st_size;
}

static void read_symbols(struct opened *o) {
    int count = dwfl_module_getsymtab(o->file);
    for (int i = 1; i < count; i++) {
        GElf_Sym s;
        GElf_Addr address;
        const char *name =
            dwfl_module_getsym_info(o->file, i, &s, &address, NULL, NULL, NULL);
        if (name == NULL || name[0] == '\0' || !is_code(&s))
            continue;
        struct symbol symbol = {address, size_of(&s, name), name, rank_of(&s)};
        if (!symbol_table_add(&o->symbols, &symbol))
            break; /* out of memory: fewer names */
    }
    symbol_table_sort(&o->symbols);
}

static void load_names(struct opened *o) {
    Dwarf *dwarf = dwfl_module_getdwarf(o->file, &o->bias);
    o->loaded = true;
    if (dwarf != NULL)
        o->debug = symbol_debug_new(dwarf);
    read_symbols(o);
}

/* --- What is missing ------------------------------------------------------ */

/* True for a file of an installed package, which nobody compiles again for its
   debug information. */
static bool is_installed(const char *path) {
    static const char *const folders[] = {
        "/bin/",     "/lib/",       "/lib64/",       "/sbin/",    "/usr/bin/",
        "/usr/lib/", "/usr/lib64/", "/usr/libexec/", "/usr/sbin/"};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(folders); i++)
        if (strncmp(path, folders[i], strlen(folders[i])) == 0)
            return true;
    return false;
}

/* True if ELF has the section WANTED with its bytes. */
static bool has_section(Elf *elf, const char *wanted) {
    size_t names;
    GElf_Shdr head;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return false;
    for (Elf_Scn *s = NULL; (s = elf_nextscn(elf, s)) != NULL;) {
        const char *name = gelf_getshdr(s, &head) == NULL
                               ? NULL
                               : elf_strptr(elf, names, head.sh_name);
        if (name != NULL && strcmp(name, wanted) == 0)
            return head.sh_type != SHT_NOBITS;
    }
    return false;
}

const char *symbol_modules_remedy(struct symbol_modules *m, uint32_t number) {
    size_t at = tool_ids_find(&m->sites->modules, number);
    if (at == SIZE_MAX)
        return NULL;
    struct opened *o = &m->opened[at];
    const char *name = NULL, *rest;
    Dwarf_Addr bias;
    GElf_Word crc;
    Elf *elf = o->file == NULL ? NULL : dwfl_module_getelf(o->file, &bias);
    if (o->remedy != NULL)
        return o->remedy;
    if (o->debug != NULL && (name = symbol_debug_missing(o->debug)) != NULL)
        rest = " is missing: keep it where the compiler wrote it";
    else if (o->debug != NULL)
        rest = "compile all of its code with -g";
    else if (is_installed(m->sites->module[at].path))
        rest = "install its debug symbols (-dbgsym or -debuginfo)";
    else if (elf == NULL)
        rest = "give the recorded build's folder with --modules";
    else if (has_section(elf, ".debug_info"))
        rest = "elfutils cannot read it: update it, or link without "
               "--compress-debug-sections";
    else if ((name = dwelf_elf_gnu_debuglink(elf, &crc)) != NULL)
        rest = " is missing: give its folder with --modules";
    else if (has_section(elf, ".symtab"))
        rest = "compile with -g";
    else
        rest = "compile with -g and do not strip";
    if (asprintf(&o->remedy, "%s%s", name == NULL ? "" : name, rest) < 0)
        o->remedy = NULL;
    return o->remedy;
}

/* --- Frames --------------------------------------------------------------- */

/* True if NAME, of a symbol, is that of a C++ function called PLAIN in DWARF.
   Operators have codes in it. */
static bool is_linker_name_of(const char *name, const char *plain) {
    size_t n = strcspn(plain, "<");
    return strncmp(name, "_Z", 2) == 0 &&
           (strncmp(plain, "operator", 8) == 0 ||
            memmem(name, strlen(name), plain, n) != NULL);
}

/* True if the line of FRAME, whose inlined functions are not known, is of the
   function S itself: in the file of its first line. A part that the compiler
   moved away (.cold) may begin with an inlined function. */
static bool is_own_line(const struct opened *o, const struct symbol *s,
                        const struct symbol_frame *frame) {
    const char *own = symbol_debug_file(o->debug, s->start - o->bias);
    return own != NULL && strcmp(own, frame->file) == 0 &&
           strstr(s->name, ".cold") == NULL;
}

unsigned symbol_modules_find(struct symbol_modules *m, uint32_t number,
                             uint64_t offset,
                             struct symbol_frame frame[SYMBOL_DEPTH]) {
    size_t at = tool_ids_find(&m->sites->modules, number);
    Dwarf_Addr bias;
    unsigned count = 0;
    if (at == SIZE_MAX)
        return 0;
    struct opened *o = &m->opened[at];
    if (!o->tried)
        open_module(m, &m->sites->module[at], o);
    if (o->file == NULL || dwfl_module_getelf(o->file, &bias) == NULL)
        return 0;
    if (!o->loaded)
        load_names(o);
    if (o->debug != NULL)
        count = symbol_debug_find(o->debug, offset + bias - o->bias, frame);
    const char *plain = count == 0 ? NULL : frame[count - 1].plain;
    if (count != 0 && plain == NULL && frame[count - 1].function != NULL)
        return count;
    /* A symbol has the arguments, too, and the number of a lambda. */
    const struct symbol *s = symbol_table_find(&o->symbols, offset + bias);
    if (s == NULL || (plain != NULL && !is_linker_name_of(s->name, plain)))
        return count;
    if (count == 0) {
        frame[count++] = (struct symbol_frame){0};
    } else if (frame[0].line_only && !is_own_line(o, s, &frame[0])) {
        frame[0].file = NULL;
        frame[0].line = 0;
    }
    frame[count - 1].function = s->name;
    frame[count - 1].within = NULL;
    return count;
}
