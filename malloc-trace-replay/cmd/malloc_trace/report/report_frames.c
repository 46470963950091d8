/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The result of a frame follows from its own names and from the result of its
 * caller, as the rank of a name does not depend on the stack. So each frame is
 * judged once, outermost first.
 */
#include "cmd/malloc_trace/report/report_frames.h"

#include "base/check.h"
#include "common/collections.h"
#include "common/files.h"

#include <stdlib.h>
#include <string.h>

/* --- Lists ---------------------------------------------------------------- */

/* Functions that allocate for their callers, in the executable or in a library
   that has other functions, too. Separated by single blanks. */
static const char *const wrapper_functions[] = {
    /* gnulib, Git */
    "xalignalloc xasprintf xcalloc xcharalloc xicalloc ximalloc ximemdup "
    "xirealloc xireallocarray xizalloc xmalloc xmallocarray xmallocz xmemdup "
    "xmemdup0 xmemdupz xnmalloc xnrealloc xpalloc xrealloc xreallocarray "
    "xstrdup xstrndup xvasprintf xzalloc x2nrealloc x2realloc do_xmalloc",
    /* GLib */
    "g_malloc g_malloc0 g_malloc0_n g_malloc_n g_memdup g_memdup2 g_realloc "
    "g_realloc_n g_slice_alloc g_slice_alloc0 g_slice_copy g_strconcat "
    "g_strdup g_strdup_printf g_strdup_vprintf g_strndup g_try_malloc "
    "g_try_malloc0 g_try_malloc0_n g_try_malloc_n g_try_realloc "
    "g_try_realloc_n g_vasprintf",
    /* OpenSSL */
    "CRYPTO_malloc CRYPTO_realloc CRYPTO_strdup CRYPTO_strndup CRYPTO_zalloc",
    /* SQLite */
    "sqlite3_malloc sqlite3_malloc64 sqlite3_realloc sqlite3_realloc64 "
    "sqlite3_mprintf sqlite3_vmprintf sqlite3Malloc sqlite3MallocZero "
    "sqlite3Realloc sqlite3MemMalloc sqlite3MemRealloc sqlite3DbMallocRaw "
    "sqlite3DbMallocRawNN sqlite3DbMallocZero sqlite3DbRealloc "
    "sqlite3DbReallocOrFree sqlite3DbSpanDup sqlite3DbStrDup sqlite3DbStrNDup "
    "dbMallocRawFinish dbReallocFinish mallocWithAlarm",
    /* PostgreSQL */
    "palloc palloc0 palloc_extended repalloc pstrdup pg_malloc pg_malloc0 "
    "pg_realloc pg_strdup MemoryContextAlloc MemoryContextAllocExtended "
    "MemoryContextAllocZero AllocSetAlloc AllocSetAllocFromNewBlock "
    "AllocSetAllocLarge AllocSetRealloc",
    /* Redis */
    "zcalloc zcalloc_num zmalloc zmalloc_usable zrealloc zstrdup ztrycalloc "
    "ztrymalloc ztryrealloc",
    /* nginx */
    "ngx_alloc ngx_calloc ngx_memalign ngx_palloc ngx_palloc_block "
    "ngx_palloc_large ngx_palloc_small ngx_pcalloc ngx_pmemalign ngx_pnalloc",
    /* Apache */
    "apr_allocator_alloc apr_palloc apr_pcalloc apr_pmemdup apr_pstrdup "
    "apr_pstrndup allocator_alloc",
    /* FFmpeg */
    "av_calloc av_fast_malloc av_fast_realloc av_malloc av_malloc_array "
    "av_mallocz av_memdup av_realloc av_realloc_array av_strdup",
    /* Lua */
    "l_alloc luaM_growaux_ luaM_malloc_ luaM_realloc_ luaM_saferealloc_",
    /* Python */
    "PyMem_Calloc PyMem_Malloc PyMem_RawCalloc PyMem_RawMalloc "
    "PyMem_RawRealloc PyMem_Realloc PyObject_Calloc PyObject_Malloc "
    "PyObject_Realloc PyType_GenericAlloc _PyMem_RawCalloc _PyMem_RawMalloc "
    "_PyMem_RawRealloc _PyMem_RawStrdup _PyMem_RawWcsdup _PyMem_Strdup "
    "_PyObject_Calloc _PyObject_GC_Alloc _PyObject_GC_Malloc _PyObject_GC_New "
    "_PyObject_GC_NewVar _PyObject_GC_Resize _PyObject_Malloc _PyObject_New "
    "_PyObject_NewVar _PyObject_Realloc _PyType_AllocNoTrack gc_alloc "
    "pymalloc_alloc pymalloc_realloc",
    /* Perl */
    "Perl_safesyscalloc Perl_safesysmalloc Perl_safesysrealloc Perl_savepv "
    "Perl_savepvn",
    /* Ruby */
    "objspace_realloc objspace_xcalloc objspace_xmalloc objspace_xmalloc0 "
    "objspace_xrealloc rb_xcalloc_mul_add rb_xmalloc_mul_add "
    "rb_xrealloc_mul_add ruby_strdup ruby_xcalloc ruby_xcalloc_body "
    "ruby_xmalloc ruby_xmalloc2 ruby_xmalloc2_body ruby_xmalloc_body "
    "ruby_xrealloc ruby_xrealloc2 ruby_xrealloc2_body ruby_xrealloc_body",
    /* PHP */
    "__zend_calloc __zend_malloc __zend_realloc __zend_strdup _ecalloc "
    "_emalloc _emalloc_1024 _emalloc_112 _emalloc_128 _emalloc_1280 "
    "_emalloc_1536 _emalloc_16 _emalloc_160 _emalloc_1792 _emalloc_192 "
    "_emalloc_2048 _emalloc_224 _emalloc_24 _emalloc_256 _emalloc_2560 "
    "_emalloc_3072 _emalloc_32 _emalloc_320 _emalloc_384 _emalloc_40 "
    "_emalloc_448 _emalloc_48 _emalloc_512 _emalloc_56 _emalloc_64 "
    "_emalloc_640 _emalloc_768 _emalloc_8 _emalloc_80 _emalloc_896 "
    "_emalloc_96 _emalloc_huge _emalloc_large _erealloc _erealloc2 "
    "_estrdup _estrndup _femalloc _ferealloc _ferealloc2 _malloc_custom "
    "_realloc_custom _safe_emalloc _safe_erealloc _safe_femalloc "
    "_safe_ferealloc _safe_malloc _safe_realloc _zend_mm_alloc "
    "_zend_mm_realloc _zend_mm_realloc2 smart_str_erealloc",
    /* SDL, libuv, libgit2, gRPC, HarfBuzz, binutils, Jansson, curl, libxml2 */
    "SDL_calloc SDL_malloc SDL_realloc SDL_strdup uv__calloc uv__malloc "
    "uv__realloc uv__reallocf uv__strdup uv__strndup git__calloc git__malloc "
    "git__realloc git__strdup git__strndup gpr_malloc gpr_realloc gpr_strdup "
    "gpr_zalloc hb_calloc hb_malloc hb_realloc bfd_alloc bfd_malloc "
    "bfd_realloc bfd_zalloc bfd_zmalloc jsonp_malloc jsonp_strdup "
    "jsonp_strndup curl_dbg_calloc curl_dbg_malloc curl_dbg_realloc "
    "curl_dbg_strdup xmlMallocLoc xmlMemMalloc xmlReallocLoc xmlStrdup "
    "xmlStrndup",
    /* names that many programs have */
    "checked_malloc checked_realloc ecalloc emalloc erealloc estrdup "
    "malloc_or_die mem_alloc mem_calloc mem_realloc realloc_or_die "
    "safe_calloc safe_malloc safe_realloc safe_strdup strdup_or_die",
    /* Mono */
    "monoeg_g_calloc monoeg_g_memdup monoeg_g_strdup monoeg_malloc "
    "monoeg_malloc0 monoeg_realloc monoeg_try_malloc",
};

/* Functions of the C library that allocate or lead to main or to a thread's
   function, for programs that are linked statically. Sorted. */
static const char *const libc_functions[] = {
    "_IO_file_doallocate",
    "_IO_getdelim",
    "__GI___strdup",
    "__asprintf",
    "__clone3",
    "__getdelim",
    "__libc_start_call_main",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__opendir",
    "__strdup",
    "__strndup",
    "__vasprintf",
    "_start",
    "aligned_alloc",
    "asprintf",
    "calloc",
    "clone",
    "clone3",
    "fdopen",
    "fopen",
    "fopen64",
    "getcwd",
    "getdelim",
    "getline",
    "malloc",
    "memalign",
    "open_memstream",
    "opendir",
    "posix_memalign",
    "realloc",
    "reallocarray",
    "realpath",
    "regcomp",
    "scandir",
    "start_thread",
    "strdup",
    "strndup",
    "tempnam",
    "vasprintf",
    "wcsdup",
};

/* Beginnings of names, in C++ behind the type of the result, of the C++
   library, and of wrappers in LLVM and Java. The last ones are as the linker
   has them. */
static const char *const cxx_prefixes[] = {
    "std::",           "__gnu_cxx::",   "__cxxabiv1::",
    "operator new",    "llvm::safe_",   "llvm::allocate_buffer(",
    "os::malloc(",     "os::realloc(",  "AllocateHeap(",
    "ReallocateHeap(", "__cxa_",        "_ZNSt",
    "_ZNKSt",          "_ZSt",          "_Znwm",
    "_Znam",           "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx",
};

/* Beginnings of paths of Rust's names: its library, and the crates that are in
   it. Names of C++, which may have such namespaces, end with arguments. */
static const char *const rust_prefixes[] = {
    "alloc::", "core::", "std::", "hashbrown::", "panic_unwind::",
};

/* Crates of these, in names that no demangler was there for. */
static const char *const rust_crates[] = {
    "5alloc", "4core", "3std", "9hashbrown", "12panic_unwind",
};

/* Beginnings of functions between Rust's library and malloc, and before
   main. */
static const char *const rust_functions[] = {
    "__rust_",           "__rdl_",     "__rg_", "__rustc::", "rust_eh_",
    "rust_begin_unwind", "rust_panic",
};

/* Functions of libraries that call the program's code and allocate nothing
   themselves: beginnings of names, and a part behind. */
static const struct {
    const char *begin, *part;
} trampolines[] = {
    {"std::thread::_State_impl<", "::_M_run("},
    {"std::_Function_handler<", "::_M_invoke("},
    {"std::", "__rust_begin_short_backtrace"},
};

/* Beginnings of file names of modules. */
static const char *const system_modules[] = {
    "libstdc++.so", "libc++.so",      "libc++abi.so",   "libgcc_s.so",
    "libc.so",      "libc-2.",        "libc.musl",      "ld-linux",
    "ld-musl",      "ld-2.",          "libpthread.so",  "libpthread-2.",
    "libtcmalloc",  "libjemalloc.so", "libmimalloc.so", "[vdso]",
};

/* File names of interpreters' own code, up to a version or ".so". Their lines
   stand for it where they are recorded. */
static const char *const interpreter_modules[] = {
    "libpython", "python", "libperl", "perl", "libruby", "ruby",
};

/* Parts of paths of source files. The first ones are of Python, Perl and
   Ruby. */
static const char *const package_files[] = {
    "/site-packages/", "/dist-packages/", "/site_perl/",   "/vendor_perl/",
    "/perl5/",         "/gems/",          "/vendor_ruby/", "/.cargo/registry/",
};

static const char *const system_files[] = {
    "/include/c++/", "/c++/v1/",    "/libstdc++-v3/", "/rustlib/src/rust/",
    "/rustc/",       "/perl-base/", "/share/perl/",
};

/* --- Matching ------------------------------------------------------------- */

static int compare_text(const void *key, const void *element) {
    return strcmp(key, *(const char *const *)element);
}

#define IS_ONE_OF(list, text)                                                  \
    (bsearch(text, list, TCM_ARRAY_SIZE(list), sizeof(*(list)),                \
             compare_text) != NULL)

static bool has_prefix(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool begins(const char *text, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (has_prefix(text, list[i]))
            return true;
    return false;
}

static bool contains(const char *text, const char *const *list, size_t count) {
    for (size_t i = 0; text != NULL && i < count; i++)
        if (strstr(text, list[i]) != NULL)
            return true;
    return false;
}

/* True if NAME is one of wrapper_functions. */
static bool is_wrapper(const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(wrapper_functions); i++)
        for (const char *p = wrapper_functions[i]; *p != '\0';) {
            size_t length = strcspn(p, " ");
            if (length == n && memcmp(p, name, n) == 0)
                return true;
            p += length + (p[length] == ' ');
        }
    return false;
}

/* True if BASE is one of the interpreters' files. */
static bool is_interpreter(const char *base) {
    for (size_t i = 0; i < TCM_ARRAY_SIZE(interpreter_modules); i++) {
        size_t n = strlen(interpreter_modules[i]);
        if (has_prefix(base, interpreter_modules[i]) &&
            (base[n] == '\0' || strchr("0123456789.-", base[n]) != NULL))
            return true;
    }
    return false;
}

#define BEGINS(text, list)   begins(text, list, TCM_ARRAY_SIZE(list))
#define CONTAINS(text, list) contains(text, list, TCM_ARRAY_SIZE(list))

/*
 * Spaces in brackets separate no type:
 *
 *     void std::vector<int, std::allocator<int> >::f<int>(int)
 *          ^
 */
const char *report_frame_qualified(const char *text) {
    const char *name = text;
    unsigned depth = 0;
    for (const char *p = text; *p != '\0'; p++) {
        /* The rest may have brackets without a partner, as operator<. */
        if (depth == 0 && has_prefix(p, "operator") &&
            (p == text || strchr(" :", p[-1]) != NULL))
            return name;
        if (strchr("<({[", *p) != NULL) {
            /* Behind a name: its arguments. */
            if (*p == '(' && depth == 0 && p != name &&
                !has_prefix(p, "(anonymous"))
                return name;
            depth++;
        } else if (strchr(">)}]", *p) != NULL) {
            depth -= depth != 0;
        } else if (*p == ' ' && depth == 0) {
            name = p + 1;
        }
    }
    return name;
}

/* True for the path in the brackets of Rust's "<T as Trait>::f", or "<T>::f".
   The type counts; if it has no path, as str or a parameter T, the trait. */
static bool is_rust_impl(const char *text) {
    const char *type = text + 1, *as = NULL;
    unsigned depth = 0;
    type += strspn(type, "<&*[(");
    for (const char *prefix; *type != '\0'; type += strlen(prefix)) {
        prefix = has_prefix(type, "mut ")     ? "mut "
                 : has_prefix(type, "const ") ? "const "
                 : has_prefix(type, "dyn ")   ? "dyn "
                                              : "";
        if (*prefix == '\0')
            break;
    }
    if (BEGINS(type, rust_prefixes))
        return true;
    for (const char *p = text + 1; *p != '\0' && as == NULL; p++) {
        if (*p == '<')
            depth++;
        else if (*p == '>' && depth-- == 0)
            break;
        else if (depth == 0 && has_prefix(p, " as "))
            as = p + 4;
    }
    const char *path = strstr(type, "::");
    return as != NULL && (path == NULL || path > as) &&
           BEGINS(as, rust_prefixes);
}

/* True if NAME, a mangled name of Rust (v0: "_RNvNtCs1234_5alloc5alloc5alloc"),
   is defined in Rust's library: the first crate in it, "C" with a hash and a
   name with its length, is the one of the definition. */
static bool is_rust_mangled(const char *name) {
    for (const char *p = name; (p = strchr(p, 'C')) != NULL;) {
        const char *crate = ++p;
        if (*crate == 's') {
            crate = strchr(crate, '_');
            if (crate == NULL)
                return false;
            crate++;
        }
        if (*crate >= '0' && *crate <= '9')
            return BEGINS(crate, rust_crates);
    }
    return false;
}

static bool is_trampoline(const char *name) {
    const char *path = report_frame_qualified(name);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(trampolines); i++)
        if (has_prefix(path, trampolines[i].begin) &&
            strstr(path, trampolines[i].part) != NULL)
            return strstr(path, "std::__detail::") == NULL;
    return false;
}

static bool is_system_function(const struct symbol_name *n) {
    const char *name = n->function;
    if (has_prefix(name, "_R"))
        return is_rust_mangled(name);
    /* Without debug information nobody knows which functions of the program
       are inlined there. */
    if (n->file == NULL && is_trampoline(name))
        return false;
    if (is_wrapper(name) || IS_ONE_OF(libc_functions, name) ||
        BEGINS(name, rust_functions) ||
        BEGINS(report_frame_qualified(name), cxx_prefixes))
        return true;
    if (strchr(name, '(') != NULL && name[0] != '<')
        return false; /* C++ */
    return name[0] == '<' ? is_rust_impl(name) : BEGINS(name, rust_prefixes);
}

/* True for lib/pythonX.Y, lib/ruby/X.Y.Z and lib/X.Y.Z, the last one of a Perl
   that was built by its user. */
static bool is_interpreter_library(const char *file) {
    static const char *const folders[] = {"/python", "/ruby/", "/"};
    for (const char *p = file; (p = strstr(p, "/lib")) != NULL;) {
        p += strlen("/lib");
        p += has_prefix(p, "64") ? 2 : 0;
        for (size_t i = 0; i < TCM_ARRAY_SIZE(folders); i++) {
            const char *version = p + strlen(folders[i]);
            if (has_prefix(p, folders[i]) && *version >= '0' && *version <= '9')
                return true;
        }
    }
    return false;
}

static enum report_frame_class line_class(const struct symbol_name *n) {
    const char *file = n->file;
    if (file == NULL)
        return REPORT_FRAME_USER;
    if (has_prefix(file, "<frozen ") || has_prefix(file, "<internal:"))
        return REPORT_FRAME_SYSTEM;
    /* Code made by libraries at run time, or that of python -c. */
    if (CONTAINS(file, package_files) || strcmp(file, "<string>") == 0)
        return REPORT_FRAME_PACKAGE;
    return is_interpreter_library(file) || CONTAINS(file, system_files)
               ? REPORT_FRAME_SYSTEM
               : REPORT_FRAME_USER;
}

enum report_frame_class report_frame_class(const struct symbol_name *n,
                                           bool interpreted) {
    if (n->special != NULL)
        return REPORT_FRAME_SYSTEM;
    if (n->language != 0)
        return line_class(n);
    if (n->module != NULL) {
        const char *base = tool_file_base(n->module);
        if (BEGINS(base, system_modules) ||
            (interpreted && is_interpreter(base)) ||
            (is_interpreter_library(n->module) &&
             !CONTAINS(n->module, package_files)))
            return REPORT_FRAME_SYSTEM;
    }
    if ((n->function != NULL && is_system_function(n)) ||
        CONTAINS(n->file, system_files))
        return REPORT_FRAME_SYSTEM;
    if (CONTAINS(n->file, package_files) || CONTAINS(n->module, package_files))
        return REPORT_FRAME_PACKAGE;
    return REPORT_FRAME_USER;
}

/* --- Ranks ---------------------------------------------------------------- */

enum {
    OTHER = 1,
    NATIVE_PACKAGE,
    NATIVE_USER,
    LINE_SYSTEM,
    LINE_PACKAGE,
    LINE_USER
};

static bool is_skipped(const struct report_skip *skip,
                       const struct symbol_name *n) {
    const char *const text[] = {n->function, n->file, n->module};
    for (size_t i = 0; i < skip->count; i++)
        for (size_t k = 0; k < TCM_ARRAY_SIZE(text); k++)
            if (text[k] != NULL &&
                regexec(&skip->match[i], text[k], 0, NULL, 0) == 0)
                return true;
    return false;
}

static uint8_t judge_name(const struct report_frames *f,
                          const struct symbol_name *n) {
    enum report_frame_class c =
        f->skip->off
            ? (n->special == NULL ? REPORT_FRAME_USER : REPORT_FRAME_SYSTEM)
        : is_skipped(f->skip, n) ? REPORT_FRAME_SYSTEM
                                 : report_frame_class(n, f->sites->has_lines);
    if (n->language == 0 || f->native)
        return n->language != 0            ? OTHER
               : c == REPORT_FRAME_USER    ? NATIVE_USER
               : c == REPORT_FRAME_PACKAGE ? NATIVE_PACKAGE
                                           : OTHER;
    return c == REPORT_FRAME_USER      ? LINE_USER
           : c == REPORT_FRAME_PACKAGE ? LINE_PACKAGE
                                       : LINE_SYSTEM;
}

/* Rank of the name NUMBER; OTHER if out of memory. */
static uint8_t rank_of(struct report_frames *f, uint32_t number) {
    size_t known = f->name_room;
    if (!tool_array_reserve(&f->name_rank, &f->name_room, (size_t)number + 1,
                            sizeof(*f->name_rank)))
        return OTHER;
    memset(f->name_rank + known, 0, f->name_room - known);
    if (f->name_rank[number] == 0)
        f->name_rank[number] =
            judge_name(f, symbol_names_get(f->names, number));
    return f->name_rank[number];
}

bool report_frames_is_user(struct report_frames *f, uint32_t number) {
    uint8_t rank = rank_of(f, number);
    return rank == NATIVE_USER || rank == LINE_USER;
}

/* --- Stacks --------------------------------------------------------------- */

/* Mark of frames of the current stack, by which circles are found. */
#define IN_STACK UINT32_MAX

bool report_frames_init(struct report_frames *f, struct symbol_names *names,
                        const struct tool_sites *sites,
                        const struct report_skip *skip, bool native) {
    static const struct report_skip none;
    for (size_t i = 1; i < TCM_ARRAY_SIZE(libc_functions); i++)
        TCM_ASSERT(strcmp(libc_functions[i - 1], libc_functions[i]) < 0);
    *f = (struct report_frames){.names = names,
                                .sites = sites,
                                .skip = skip == NULL ? &none : skip,
                                .native = native};
    f->of_frame = calloc(sites->frames + 1, sizeof(*f->of_frame));
    return f->of_frame != NULL;
}

void report_frames_fini(struct report_frames *f) {
    free(f->name_rank);
    free(f->of_frame);
}

/* Best name of SITE's own frame and OUTER, the best of its callers. HAS_OUTER:
   there are callers. */
static uint32_t best_name(struct report_frames *f, uint32_t site,
                          uint32_t outer, bool has_outer) {
    unsigned count;
    uint32_t first = symbol_names_find(f->names, site, &count), best = first;
    for (uint32_t i = first + 1; i < first + count; i++)
        if (rank_of(f, i) > rank_of(f, best))
            best = i;
    return has_outer && rank_of(f, outer) > rank_of(f, best) ? outer : best;
}

uint32_t report_frames_named(struct report_frames *f, uint32_t site) {
    uint32_t stack[TOOL_SITE_DEPTH], best = 0;
    unsigned depth = 0;
    bool has_best = false;
    size_t at;
    for (uint32_t i = site; depth < TOOL_SITE_DEPTH &&
                            (at = tool_sites_place(f->sites, i)) != SIZE_MAX &&
                            f->of_frame[at] != IN_STACK;
         i = f->sites->frame[at].parent) {
        has_best = f->of_frame[at] != 0;
        if (has_best) {
            best = f->of_frame[at] - 1;
            break;
        }
        f->of_frame[at] = IN_STACK;
        stack[depth++] = i;
    }
    if (depth == 0 && !has_best)
        return best_name(f, site, 0, false);
    while (depth-- > 0) {
        best = best_name(f, stack[depth], best, has_best);
        has_best = true;
        f->of_frame[tool_sites_place(f->sites, stack[depth])] = best + 1;
    }
    TCM_ASSERT(best < symbol_names_count(f->names));
    return best;
}
