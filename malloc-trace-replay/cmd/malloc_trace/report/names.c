/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each module is opened when its first site is named, at an address of its own.
 * A return address belongs to the call before it, so what is looked up is the
 * byte before.
 */
#include "cmd/malloc_trace/report/names.h"

#include "common/array.h"
#include "common/main.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if TCM_HAVE_LIBDW
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <sys/stat.h>
#endif

struct names {
    const struct tool_sites *sites;
    const char *folder;
    struct name *name; /* by place of the frame */
    bool *done;
    char **text; /* texts of names, to be freed */
    size_t texts, room;
#if TCM_HAVE_LIBDW
    Dwfl *dwfl;
    struct opened {
        bool tried;
        Dwfl_Module *module;
    } * opened; /* by place of the module */
#endif
};

/* --- Modules and debug information ---------------------------------------- */

#if TCM_HAVE_LIBDW

static bool dwfl_begin_names(struct names *n) {
    static char *debug_path; /* the default */
    static const Dwfl_Callbacks callbacks = {
        .find_elf = dwfl_build_id_find_elf,
        .find_debuginfo = dwfl_standard_find_debuginfo,
        .section_address = dwfl_offline_section_address,
        .debuginfo_path = &debug_path,
    };
    n->dwfl = dwfl_begin(&callbacks);
    n->opened = calloc(n->sites->modules.count + 1, sizeof(*n->opened));
    return n->dwfl != NULL && n->opened != NULL;
}

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

static Dwfl_Module *open_file(struct names *n, const struct tool_module *what,
                              const char *path) {
    struct stat st;
    /* A trace may name anything. */
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return NULL;
    dwfl_report_begin_add(n->dwfl);
    Dwfl_Module *m = dwfl_report_offline(n->dwfl, path, path, -1);
    dwfl_report_end(n->dwfl, NULL, NULL);
    if (m == NULL || is_recorded(m, what))
        return m;
    tool_warn("%s is another build than the one that was recorded", path);
    return NULL;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static Dwfl_Module *open_module(struct names *n, uint32_t number) {
    size_t at = tool_ids_find(&n->sites->modules, number);
    const struct tool_module *what = &n->sites->module[at];
    struct opened *o = &n->opened[at];
    char path[PATH_MAX];
    if (o->tried || what->path == NULL)
        return o->module;
    o->tried = true;
    if (what->path[0] == '/')
        o->module = open_file(n, what, what->path);
    if (o->module == NULL && n->folder != NULL) {
        snprintf(path, sizeof(path), "%s/%s", n->folder, what->path);
        o->module = open_file(n, what, path);
    }
    if (o->module == NULL && n->folder != NULL) {
        snprintf(path, sizeof(path), "%s/%s", n->folder, base_name(what->path));
        o->module = open_file(n, what, path);
    }
    return o->module;
}

#if TCM_HAVE_DEMANGLE
static char *keep(struct names *n, char *text) {
    if (text == NULL ||
        !tool_array_reserve(&n->text, &n->room, n->texts + 1, sizeof(*n->text)))
        return NULL;
    n->text[n->texts++] = text;
    return text;
}
#endif

/* C++ and older Rust names; TEXT itself if it is none. */
static const char *demangled(struct names *n, const char *text) {
#if TCM_HAVE_DEMANGLE
    char *__cxa_demangle(const char *, char *, size_t *, int *);
    int status;
    if (strncmp(text, "_Z", 2) != 0)
        return text;
    char *plain = __cxa_demangle(text, NULL, NULL, &status);
    if (plain != NULL && keep(n, plain) != NULL)
        return plain;
    free(plain);
#else
    (void)n;
#endif
    return text;
}

/* The linker's name has a C++ function's classes and arguments; others'
   names are their own. */
static const char *name_of_die(struct names *n, Dwarf_Die *die) {
    Dwarf_Attribute a;
    const char *text = NULL;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &a) != NULL ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &a) != NULL)
        text = dwarf_formstring(&a);
    if (text != NULL && strncmp(text, "_Z", 2) != 0)
        text = NULL;
    if (text == NULL && dwarf_attr_integrate(die, DW_AT_name, &a) != NULL)
        text = dwarf_formstring(&a);
    return text == NULL ? NULL : demangled(n, text);
}

/* The innermost function, be it inlined; NULL: no debug information. */
static const char *scope_at(struct names *n, Dwfl_Module *m, Dwarf_Addr at) {
    Dwarf_Addr bias;
    Dwarf_Die *unit = dwfl_module_addrdie(m, at, &bias);
    Dwarf_Die *scope = NULL;
    const char *text = NULL;
    int count = unit == NULL ? 0 : dwarf_getscopes(unit, at - bias, &scope);
    for (int i = 0; i < count && text == NULL; i++) {
        int tag = dwarf_tag(&scope[i]);
        if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine)
            text = name_of_die(n, &scope[i]);
    }
    free(scope);
    return text;
}

static void find_names(struct names *n, uint32_t module, struct name *name) {
    Dwfl_Module *m = open_module(n, module);
    Dwarf_Addr bias;
    GElf_Off offset;
    GElf_Sym symbol;
    int line = 0;
    if (m == NULL || dwfl_module_getelf(m, &bias) == NULL)
        return;
    Dwarf_Addr at = name->offset + bias;
    name->function = scope_at(n, m, at);
    if (name->function == NULL) {
        const char *text =
            dwfl_module_addrinfo(m, at, &offset, &symbol, NULL, NULL, NULL);
        if (text != NULL)
            name->function = demangled(n, text);
    }
    Dwfl_Line *l = dwfl_module_getsrc(m, at);
    if (l != NULL)
        name->file = dwfl_lineinfo(l, NULL, &line, NULL, NULL, NULL);
    name->line = name->file == NULL || line < 0 ? 0 : (unsigned)line;
}

static void end_names(struct names *n) {
    if (n->dwfl != NULL)
        dwfl_end(n->dwfl);
    free(n->opened);
}
#else
static bool dwfl_begin_names(struct names *n) {
    (void)n;
    return true;
}

static void find_names(struct names *n, uint32_t module, struct name *name) {
    (void)n, (void)module, (void)name;
}

static void end_names(struct names *n) {
    (void)n;
}
#endif

/* --- Sites ---------------------------------------------------------------- */

struct names *names_new(const struct tool_sites *sites, const char *folder) {
    struct names *n = calloc(1, sizeof(*n));
    if (n == NULL)
        return NULL;
    n->sites = sites;
    n->folder = folder;
    n->name = calloc(sites->frames.count + 1, sizeof(*n->name));
    n->done = calloc(sites->frames.count + 1, sizeof(*n->done));
    if (n->name == NULL || n->done == NULL || !dwfl_begin_names(n)) {
        names_free(n);
        return NULL;
    }
    return n;
}

void names_free(struct names *n) {
    if (n == NULL)
        return;
    end_names(n);
    for (size_t i = 0; i < n->texts; i++)
        free(n->text[i]);
    free(n->text);
    free(n->name);
    free(n->done);
    free(n);
}

struct name names_of(struct names *n, uint32_t site) {
    size_t at = tool_ids_find(&n->sites->frames, site);
    if (at == SIZE_MAX)
        return (struct name){0};
    struct name *name = &n->name[at];
    if (n->done[at])
        return *name;
    n->done[at] = true;
    const struct tool_frame *f = &n->sites->frame[at];
    if (f->language != 0) {
        name->file = tool_sites_text(n->sites, f->file);
        name->function = tool_sites_text(n->sites, f->function);
        name->line = f->line;
        return *name;
    }
    const struct tool_module *m = tool_sites_module(n->sites, f->module);
    name->offset = f->address - 1;
    if (m != NULL && m->path != NULL && f->address > m->bias) {
        name->module = m->path;
        name->offset -= m->bias;
        find_names(n, f->module, name);
    }
    return *name;
}
