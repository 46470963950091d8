/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each module is opened when its first site is named. libdwfl finds separate
 * debug files (by build id, by the name that the file has for it, and through
 * debuginfod where the environment says so).
 */
#include "cmd/malloc_trace/report/modules.h"

#include "cmd/malloc_trace/report/symbol_table.h"
#include "common/main.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if TCM_HAVE_LIBDW
#include <elfutils/libdwfl.h>
#include <sys/stat.h>

#define DEBUG_FOLDER "/usr/lib/debug"
/* Modules that libdwfl has to find lie from here on. */
#define FOUND_AT ((uint64_t)1 << 56)

struct opened {
    bool tried;
    Dwfl_Module *file; /* NULL: none */
    bool looked;       /* for debug information and symbols, */
    Dwarf_Addr bias;   /* whose addresses are the file's plus this */
    struct debug_index *debug;
    struct symbol_table symbols;
};

struct modules {
    const struct tool_sites *sites;
    const char *folder;
    char *debug_path; /* what libdwfl reads */
    Dwfl_Callbacks callbacks;
    Dwfl *dwfl;
    uint64_t next_address; /* of a module that libdwfl has to find */
    struct opened *opened; /* by place of the module */
};

struct modules *modules_new(const struct tool_sites *sites,
                            const char *folder) {
    struct modules *m = calloc(1, sizeof(*m));
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
        modules_free(m);
        return NULL;
    }
    return m;
}

void modules_free(struct modules *m) {
    if (m == NULL)
        return;
    for (size_t i = 0; m->opened != NULL && i < m->sites->modules.count; i++) {
        debug_index_free(m->opened[i].debug);
        symbol_table_fini(&m->opened[i].symbols);
    }
    if (m->dwfl != NULL)
        dwfl_end(m->dwfl);
    free(m->opened);
    free(m->debug_path);
    free(m);
}

/* --- Files ---------------------------------------------------------------- */

/* Whether the file that M was opened from is the one that was recorded; one
   without build id is taken for it. */
static bool is_recorded(Dwfl_Module *m, const struct tool_module *what) {
    const unsigned char *id;
    GElf_Addr address;
    Dwarf_Addr bias;
    if (dwfl_module_getelf(m, &bias) == NULL)
        return false;
    int length = dwfl_module_build_id(m, &id, &address);
    return length <= 0 || what->build_id_length == 0 ||
           (length == what->build_id_length &&
            memcmp(id, what->build_id, (size_t)length) == 0);
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

static Dwfl_Module *open_file(struct modules *m, const struct tool_module *what,
                              const char *path) {
    struct named old = {path, NULL};
    struct stat st;
    /* A trace may name anything. */
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return NULL;
    /* libdwfl forgets a program that lies at fixed addresses when it comes
       again, as of another process. */
    dwfl_getmodules(m->dwfl, is_named, &old, 0);
    Dwfl_Module *file = old.file;
    if (file == NULL) {
        dwfl_report_begin_add(m->dwfl);
        file = dwfl_report_offline(m->dwfl, path, path, -1);
        dwfl_report_end(m->dwfl, NULL, NULL);
    }
    if (file == NULL || is_recorded(file, what))
        return file;
    tool_warn("%s is another build than the one that was recorded", path);
    return NULL;
}

static Dwfl_Module *open_in_folder(struct modules *m,
                                   const struct tool_module *what) {
    const char *slash = strrchr(what->path, '/');
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", m->folder, what->path);
    Dwfl_Module *file = open_file(m, what, path);
    if (file != NULL || slash == NULL)
        return file;
    snprintf(path, sizeof(path), "%s/%s", m->folder, slash + 1);
    return open_file(m, what, path);
}

/* Only the debug file is there: it has the addresses, too. */
static Dwfl_Module *open_debug_file(struct modules *m,
                                    const struct tool_module *what,
                                    const char *folder) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/.build-id/%02x/", folder,
                     what->build_id[0]);
    for (unsigned i = 1; i < what->build_id_length && n < PATH_MAX - 16; i++)
        n += snprintf(path + n, 3, "%02x", what->build_id[i]);
    if (n >= PATH_MAX - 16)
        return NULL;
    memcpy(path + n, ".debug", sizeof(".debug"));
    return open_file(m, what, path);
}

/* libdwfl looks by build id, and asks debuginfod. */
static Dwfl_Module *open_by_build_id(struct modules *m,
                                     const struct tool_module *what) {
    uint64_t bytes = what->end > what->start ? what->end - what->start : 1;
    Dwarf_Addr bias;
    if (what->build_id_length < 2 || bytes >> 48 != 0)
        return NULL;
    dwfl_report_begin_add(m->dwfl);
    Dwfl_Module *file = dwfl_report_module(m->dwfl, what->path, m->next_address,
                                           m->next_address + bytes);
    m->next_address += bytes + ((uint64_t)1 << 32);
    if (file != NULL)
        dwfl_module_report_build_id(file, what->build_id, what->build_id_length,
                                    0);
    dwfl_report_end(m->dwfl, NULL, NULL);
    if (file != NULL && dwfl_module_getelf(file, &bias) != NULL &&
        is_recorded(file, what))
        return file;
    file = m->folder == NULL ? NULL : open_debug_file(m, what, m->folder);
    return file != NULL ? file : open_debug_file(m, what, DEBUG_FOLDER);
}

static void open_module(struct modules *m, const struct tool_module *what,
                        struct opened *o) {
    o->tried = true;
    if (what->path == NULL)
        return;
    if (what->path[0] == '/')
        o->file = open_file(m, what, what->path);
    if (o->file == NULL && m->folder != NULL)
        o->file = open_in_folder(m, what);
    if (o->file == NULL)
        o->file = open_by_build_id(m, what);
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

static void read_symbols(struct opened *o) {
    int count = dwfl_module_getsymtab(o->file);
    for (int i = 1; i < count; i++) {
        GElf_Sym s;
        GElf_Addr address;
        const char *name =
            dwfl_module_getsym_info(o->file, i, &s, &address, NULL, NULL, NULL);
        if (name == NULL || name[0] == '\0' || !is_code(&s))
            continue;
        struct symbol symbol = {address, s.st_size, name, rank_of(&s)};
        if (!symbol_table_add(&o->symbols, &symbol))
            break; /* fewer names */
    }
    symbol_table_sort(&o->symbols);
}

static void look(struct opened *o) {
    Dwarf *dwarf = dwfl_module_getdwarf(o->file, &o->bias);
    o->looked = true;
    if (dwarf != NULL)
        o->debug = debug_index_new(dwarf);
    read_symbols(o);
}

unsigned modules_find(struct modules *m, uint32_t number, uint64_t offset,
                      struct debug_frame frame[DEBUG_INDEX_DEPTH]) {
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
    if (!o->looked)
        look(o);
    if (o->debug != NULL)
        count = debug_index_find(o->debug, offset + bias - o->bias, frame);
    const char *known = count == 0 ? NULL : frame[count - 1].function;
    if (known != NULL && known[0] == '_')
        return count;
    /* Of a C++ function in an unnamed namespace the symbol alone says where it
       belongs. */
    const struct symbol *s = symbol_table_find(&o->symbols, offset + bias);
    if (s == NULL || (known != NULL && (strncmp(s->name, "_Z", 2) != 0 ||
                                        strstr(s->name, known) == NULL)))
        return count;
    if (count == 0)
        frame[count++] = (struct debug_frame){0};
    frame[count - 1].function = s->name;
    return count;
}
#endif
