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
#include <strings.h>

/* --- Lists ---------------------------------------------------------------- */

/* Last words of functions that allocate for their callers: xmalloc, MyRealloc,
   lt__zalloc, g_memdup2. */
static const char *const wrapper_words[] = {
    "malloc", "zalloc", "calloc", "realloc", "strdup", "strndup", "memdup",
};

/* Parts of names of functions that allocate to try it out, and that people look
   for in rows: test_realloc. */
static const char *const trial_words[] = {"test", "leak", "bench"};

/* Other functions that allocate for their callers, in the executable or in a
   library that has other functions, too. Separated by single blanks. */
static const char *const wrapper_functions[] = {
    /* gnulib, Git */
    "xalignalloc xasprintf xcharalloc xireallocarray xmallocarray xmallocz "
    "xmemdupz xpalloc xreallocarray xvasprintf",
    /* GLib */
    "g_malloc0_n g_malloc_n g_realloc_n g_slice_alloc g_slice_alloc0 "
    "g_slice_copy g_strconcat g_strdup_printf g_strdup_vprintf "
    "g_try_malloc0_n g_try_malloc_n g_try_realloc_n g_vasprintf",
    /* OpenSSL */
    "OPENSSL_sk_deep_copy OPENSSL_sk_dup",
    /* SQLite */
    "sqlite3_mprintf sqlite3_vmprintf sqlite3MallocZero sqlite3DbMallocRaw "
    "sqlite3DbMallocRawNN sqlite3DbMallocZero sqlite3DbReallocOrFree "
    "sqlite3DbSpanDup dbMallocRawFinish dbReallocFinish mallocWithAlarm",
    /* PostgreSQL */
    "palloc palloc0 palloc_extended repalloc MemoryContextAlloc "
    "MemoryContextAllocExtended MemoryContextAllocZero AllocSetAlloc "
    "AllocSetAllocFromNewBlock AllocSetAllocLarge",
    /* Redis */
    "zcalloc_num zmalloc_usable ztrycalloc ztrymalloc ztryrealloc",
    /* nginx */
    "ngx_alloc ngx_memalign ngx_palloc ngx_palloc_block ngx_palloc_large "
    "ngx_palloc_small ngx_pmemalign ngx_pnalloc",
    /* Apache */
    "apr_allocator_alloc apr_palloc allocator_alloc",
    /* FFmpeg */
    "av_buffer_alloc av_buffer_allocz av_malloc_array av_mallocz "
    "av_realloc_array",
    /* Lua */
    "l_alloc luaM_growaux_ luaM_saferealloc_",
    /* Python */
    "PyType_GenericAlloc _PyMem_RawWcsdup _PyObject_GC_Alloc _PyObject_GC_New "
    "_PyObject_GC_NewVar _PyObject_GC_Resize _PyObject_New _PyObject_NewVar "
    "_PyType_AllocNoTrack gc_alloc pymalloc_alloc",
    /* Perl */
    "Perl_safesyscalloc Perl_safesysmalloc Perl_safesysrealloc Perl_savepv "
    "Perl_savepvn",
    /* Ruby */
    "rb_xcalloc_mul_add rb_xmalloc_mul_add rb_xrealloc_mul_add "
    "ruby_xcalloc_body ruby_xmalloc2_body ruby_xmalloc_body "
    "ruby_xrealloc2_body ruby_xrealloc_body",
    /* PHP */
    "_emalloc_huge _emalloc_large _malloc_custom _realloc_custom "
    "_zend_mm_alloc",
    /* libuv, binutils, libxml2, graphviz */
    "uv__reallocf bfd_alloc xmlMallocLoc xmlReallocLoc gv_alloc",
    /* names that many programs have */
    "malloc_or_die mem_alloc realloc_or_die strdup_or_die",
    /* ImageMagick */
    "AcquireAlignedMemory AcquireCriticalMemory AcquireMagickMemory "
    "AcquireQuantumMemory AcquireVirtualMemory ResizeMagickMemory "
    "ResizeQuantumMemory",
    /* LibreOffice */
    "rtl_allocateMemory rtl_allocateZeroMemory rtl_reallocateMemory "
    "rtl_string_ImplAlloc rtl_string_alloc rtl_uString_ImplAlloc "
    "rtl_uString_alloc",
};

/* Other functions of the C library that allocate, or lead to main or to a
   thread's function, for programs that are linked statically. Sorted. */
static const char *const libc_functions[] = {
    "_IO_file_doallocate",
    "_IO_getdelim",
    "__asprintf",
    "__clone3",
    "__getdelim",
    "__libc_start_call_main",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__opendir",
    "__vasprintf",
    "_start",
    "aligned_alloc",
    "asprintf",
    "clone",
    "clone3",
    "fdopen",
    "fopen",
    "fopen64",
    "getcwd",
    "getdelim",
    "getline",
    "memalign",
    "open_memstream",
    "opendir",
    "posix_memalign",
    "reallocarray",
    "realpath",
    "regcomp",
    "scandir",
    "start_thread",
    "tempnam",
    "vasprintf",
    "wcsdup",
};

/* Beginnings of names, in C++ behind the type of the result, of the C++
   library, and of wrappers in LLVM, Qt, V8 and Java. The last ones are as the
   linker has them. */
static const char *const cxx_prefixes[] = {
    "std::",
    "__gnu_cxx::",
    "__cxxabiv1::",
    "llvm::allocate_buffer(",
    "llvm::SmallPtrSetImplBase::",
    "llvm::SmallVectorBase<",
    "QArrayData::",
    "QListData::",
    "v8::internal::AllocAtLeastWithRetry(",
    "v8::internal::AllocWithRetry(",
    "AllocateHeap(",
    "ReallocateHeap(",
    "__cxa_",
    "_ZNSt",
    "_ZNKSt",
    "_ZSt",
    "_Znwm",
    "_Znam",
    "_ZN9__gnu_cxx",
    "_ZNK9__gnu_cxx",
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
    "libffi.so",
};

/* File names of interpreters' own code, up to a version or ".so". Their lines
   stand for it where they are recorded. */
static const char *const interpreter_modules[] = {
    "libpython", "python", "libperl", "perl", "libruby", "ruby",
};

/* Names, instead of a file's, of what a user typed. Others in brackets are of
   code that libraries made at run time, or that of python -c, <string>. */
static const char *const typed_files[] = {
    "<stdin>", "<console>", "<ipython-", "<python-", "<doctest ", "<timeit-",
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

/* Parts end at "::" outside of all brackets. */
const char *report_frame_last(const char *text) {
    const char *last = report_frame_qualified(text);
    unsigned depth = 0;
    for (const char *p = last; *p != '\0'; p++) {
        if (depth == 0 && p == last && has_prefix(p, "operator"))
            return last;
        if (strchr("<({[", *p) != NULL)
            depth++;
        else if (strchr(">)}]", *p) != NULL)
            depth -= depth != 0;
        else if (depth == 0 && has_prefix(p, "::") && p[2] != '\0')
            last = ++p + 1;
    }
    return last;
}

static bool is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}

static bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}

/*
 * True if the name of LENGTH bytes ends with WORD, in any case, as a word of
 * its own. Where nothing sets it apart at most two letters may stand before it,
 * as in xmalloc and pymalloc: itemalloc and DocAlloc do not end with malloc and
 * calloc.
 */
static bool ends_with(const char *name, size_t length, const char *word) {
    size_t n = strlen(word), run = 0;
    if (length < n || strncasecmp(name + length - n, word, n) != 0)
        return false;
    const char *end = name + length - n;
    bool upper = is_upper(*end);
    if (upper && !is_upper(end[1]))
        return true;
    for (size_t i = 1; i < n && !upper; i++)
        if (is_upper(end[i]))
            return false;
    while (end - run > name && (upper ? is_upper : is_lower)(end[-1 - run]))
        run++;
    return run <= 2;
}

static bool is_trial(const char *name, size_t length) {
    for (size_t i = 0; i < TCM_ARRAY_SIZE(trial_words); i++)
        for (size_t k = 0, n = strlen(trial_words[i]); k + n <= length; k++)
            if (strncasecmp(name + k, trial_words[i], n) == 0)
                return true;
    return false;
}

/* True for one of wrapper_functions. */
static bool is_listed(const char *name, size_t length) {
    for (size_t i = 0; i < TCM_ARRAY_SIZE(wrapper_functions); i++)
        for (const char *p = wrapper_functions[i]; *p != '\0';) {
            size_t n = strcspn(p, " ");
            if (n == length && memcmp(p, name, n) == 0)
                return true;
            p += n + (p[n] == ' ');
        }
    return false;
}

/* True for a function that allocates for its callers. Compilers append
   ".part.0" and so on to names of parts and copies. */
static bool is_wrapper(const char *name) {
    const char *last = report_frame_last(name);
    size_t length = strcspn(last, "<([. ");
    if (has_prefix(last, "operator new") || is_listed(name, strcspn(name, ".")))
        return true;
    while (length != 0 && strchr("_0123456789", last[length - 1]) != NULL)
        length--;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(wrapper_words); i++)
        if (ends_with(last, length, wrapper_words[i]))
            return !is_trial(last, length);
    return false;
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
    if (CONTAINS(file, package_files) ||
        (file[0] == '<' && !BEGINS(file, typed_files)))
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
