/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Growth is found before rows are made: live blocks of the tallies become what
 * they grew by, and all that follows is the same for both modes.
 */
#include "cmd/malloc_trace/leaks/leaks_find.h"

#include "base/check.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/main.h"
#include "open/trace_open.h"

#include <stdlib.h>
#include <string.h>

/* --- Libraries ------------------------------------------------------------ */

/*
 * Functions of libraries that keep memory until the end on purpose: caches,
 * registries and buffers of the process. They count if the program called them,
 * not if they called the program. doc/leaks.md has this list, too.
 */
static const char *const kept[] = {
    /* the loader and threads */
    "^_dl_",
    "^__libc_dl",
    "^dlopen",
    "^dlsym",
    "^_*dlerror",
    "^call_init$",
    "^__tls_get_addr",
    "^pthread_create",
    "^allocate_stack",
    /* locales and translations */
    "^setlocale$",
    "^_nl_",
    "^__bindtextdomain$",
    "^bindtextdomain$",
    "^__textdomain$",
    "^textdomain$",
    "^__dcigettext$",
    "^dcgettext$",
    "^dcngettext$",
    "^gettext$",
    "^dgettext$",
    "^ngettext$",
    "^__gconv_",
    "^__wcsmbs_",
    /* buffers of streams */
    "^_IO_file_doallocate$",
    "^_IO_wfile_doallocate$",
    /* environment, time zone, system log, functions for the end */
    "^__add_to_environ$",
    "^setenv$",
    "^putenv$",
    "^tzset",
    "^__tz",
    "^localtime",
    "^mktime$",
    "^openlog$",
    "^syslog$",
    "^__new_exitfn$",
    "^__cxa_atexit$",
    "^on_exit$",
    /* name service */
    "^__nss_",
    "^_nss_",
    "^__res_",
    "^getpw",
    "^getgr",
    "^getgrouplist$",
    "^initgroups$",
    "^gethost",
    "^getserv",
    "^getproto",
    /* C++ and unwinding */
    "^__cxa_get_globals",
    "^__cxa_thread_atexit",
    "^std::ios_base::Init::",
    "__gnu_cxx::__freeres",
    "^__register_frame",
    "^_Unwind_",
    /* Rust */
    "^std::rt::init",
    "3std2rt4init",
    "14stack_overflow",
    "stack_overflow::",
    "^std::thread::[A-Za-z]",
    "3std6thread",
    "^std::io::stdio::",
    "3std2io5stdio",
    /* debug information that was read for a backtrace; also of the crate */
    "backtrace_rs::symbolize::",
    "12backtrace_rs9symbolize",
    "backtrace::symbolize::gimli::",
    "9backtrace9symbolize5gimli",
    /* GLib */
    "^g_type_",
    "^g_quark_",
    "^g_intern_",
    "^g_once_",
    "^g_private_",
    "^g_thread_self$",
    "^g_main_context_default$",
    "^g_param_spec_pool_",
    "^g_signal_new",
    "^g_get_",
    /* interpreters: memory for objects, and code that is loaded */
    "^Perl_more_sv$",
    "^Perl_more_bodies$",
    "^Perl_yyparse$",
    "^heap_page_allocate",
    "^objspace_",
    "^rb_require",
    "^BEGIN$",
    "^<frozen importlib",
    /* OpenSSL, fontconfig */
    "^OPENSSL_init",
    "^CRYPTO_THREAD_",
    "^ossl_init_",
    "^ERR_load_",
    "^FcInit",
    "^FcConfig",
};

static bool add_kept(struct report_suppressions *s) {
    for (size_t i = 0; i < TCM_ARRAY_SIZE(kept); i++)
        if (!report_suppressions_add(s, kept[i]))
            return false;
    return true;
}

/* --- Mode ----------------------------------------------------------------- */

/* The interpreter that T is of, by the name of its program; or NULL. */
static const char *interpreter_of(const struct report_tallies *t) {
    static const char *const interpreters[] = {"python", "perl", "ruby", "node",
                                               "java"};
    if (!t->have_header)
        return NULL;
    const char *name = tool_file_base(t->header.executable);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(interpreters); i++) {
        size_t n = strlen(interpreters[i]);
        if (strncmp(name, interpreters[i], n) == 0 &&
            strspn(name + n, "0123456789.") == strlen(name + n))
            return name;
    }
    return t->sites.has_lines ? name : NULL;
}

static bool fail(struct leaks *l, const char *what) {
    tool_error("%s", what);
    l->status = TOOL_FAILED;
    return false;
}

static bool choose_mode(struct leaks *l, const struct leaks_options *o) {
    const char *interpreter = interpreter_of(&l->t);
    l->growing = o->mode == LEAKS_GROWING ||
                 (o->mode == LEAKS_AUTO && interpreter != NULL);
    if (!l->growing)
        return true;
    if (o->mode == LEAKS_AUTO)
        l->interpreter = interpreter;
    if (o->in->count != 1)
        return fail(l, "growth is of one trace: name one");
    if (l->growth.failed)
        return fail(l, "out of memory");
    if (!leaks_growth_can_tell(&l->growth))
        return fail(l, "too few allocations to tell what grows");
    return true;
}

/* --- Growth --------------------------------------------------------------- */

/* True if no row has the blocks of the tally at index I. */
static bool is_left_out(struct leaks *l, const struct leaks_options *o,
                        struct report_labels *labels, size_t i) {
    uint32_t site = (uint32_t)l->t.tally[i].key;
    struct report_suppression *by = NULL;
    return report_labels_suppressed(labels, &o->in->suppressions, site) !=
               NULL ||
           (!o->all && report_labels_kept(labels, &l->kept, site, &by));
}

/* Growth of which less than this part is live at the end was freed there. */
#define ENDED_PARTS 16u

/* Replaces live blocks of each tally by what they grew by, if the function that
   it is of grows; tallies that no row has are a group of their own. False: out
   of memory. */
static bool set_growth(struct leaks *l, const struct leaks_options *o) {
    struct report_tallies *t = &l->t;
    struct report_texts functions = {0};
    struct report_labels labels;
    uint32_t *of_tally = calloc(t->count + 1, sizeof(*of_tally));
    struct leaks_group *group = NULL;
    bool good = report_labels_init(&labels, &functions, l->names, &t->sites,
                                   REPORT_BY_FUNCTION, &o->in->skip) &&
                of_tally != NULL;
    for (size_t i = 0; i < t->count && good; i++) {
        of_tally[i] = report_labels_site(&labels, (uint32_t)t->tally[i].key);
        good = of_tally[i] != REPORT_TEXTS_NONE;
    }
    for (size_t i = 0; i < t->count && good; i++)
        if (is_left_out(l, o, &labels, i))
            of_tally[i] = (uint32_t)functions.count;
    if (good) {
        group = calloc(functions.count + 1, sizeof(*group));
        good = group != NULL && leaks_growth_find(&l->growth, t, of_tally,
                                                  group, functions.count + 1);
    }
    for (size_t i = 0; i < t->count && good; i++) {
        struct leaks_group more =
            leaks_growth_of_tally(&l->growth, i, &group[of_tally[i]]);
        if (more.blocks != 0 && t->tally[i].live < more.blocks / ENDED_PARTS)
            l->ended_bytes += more.bytes;
        t->tally[i].live = more.blocks;
        t->tally[i].live_bytes = more.bytes;
    }
    report_labels_fini(&labels);
    report_texts_fini(&functions);
    free(of_tally);
    free(group);
    return good;
}

/* --- Rows ----------------------------------------------------------------- */

static int compare_lines(const void *a, const void *b) {
    const struct leaks_place *x = a, *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    int files = strcmp(x->file, y->file);
    return files != 0 ? files : (x->line > y->line) - (x->line < y->line);
}

static int compare_places(const void *a, const void *b) {
    const struct leaks_place *x = a, *y = b;
    if (x->row == y->row && x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return compare_lines(a, b);
}

/* Adds a place for each tally of a row that has a line. INDEX: of a row plus 1,
   by number of its text. False: out of memory. */
static bool add_places(struct leaks *l, const struct leaks_options *o,
                       const uint32_t *index) {
    struct report_frames frames;
    bool good =
        report_frames_init(&frames, l->names, &l->t.sites, &o->in->skip, false);
    l->place = calloc(l->t.count + 1, sizeof(*l->place));
    good = good && l->place != NULL;
    for (size_t i = 0; i < l->t.count && good; i++) {
        const struct report_tally *a = &l->t.tally[i];
        uint32_t text = l->rows.of_tally[i];
        if (text == 0)
            continue;
        const struct symbol_name *n = symbol_names_get(
            l->names, report_frames_named(&frames, (uint32_t)a->key));
        if (n->file != NULL && n->line != 0)
            l->place[l->places++] =
                (struct leaks_place){.row = index[text - 1] - 1,
                                     .file = n->file,
                                     .line = n->line,
                                     .bytes = a->live_bytes,
                                     .blocks = a->live};
    }
    report_frames_fini(&frames);
    return good;
}

/* Finds the lines of each row's function. INDEX: as for add_places. False: out
   of memory. */
static bool find_places(struct leaks *l, const struct leaks_options *o,
                        const uint32_t *index) {
    size_t count = 0;
    if (!add_places(l, o, index))
        return false;
    qsort(l->place, l->places, sizeof(*l->place), compare_lines);
    for (size_t i = 0; i < l->places; i++) {
        const struct leaks_place *p = &l->place[i];
        if (count != 0 && compare_lines(&l->place[count - 1], p) == 0) {
            l->place[count - 1].bytes += p->bytes;
            l->place[count - 1].blocks += p->blocks;
        } else {
            l->place[count++] = *p;
        }
    }
    l->places = count;
    qsort(l->place, l->places, sizeof(*l->place), compare_places);
    for (size_t i = l->places; i-- > 0;) {
        struct leaks_row *row = &l->row[l->place[i].row];
        row->place = i;
        row->places++;
        TCM_ASSERT(l->place[i].bytes <= row->bytes);
    }
    return true;
}

static bool make_rows(struct leaks *l, const struct leaks_options *o) {
    const struct report_filter filter = {.leaks = true,
                                         .suppressed = &o->in->suppressions,
                                         .kept = o->all ? NULL : &l->kept,
                                         .skip = &o->in->skip};
    if (!report_rows_add(&l->rows, &l->t, l->names, REPORT_BY_FUNCTION, &filter,
                         false))
        return false;
    report_rows_sort(&l->rows, REPORT_SORT_LIVE);
    l->row = calloc(l->rows.count + 1, sizeof(*l->row));
    uint32_t *index = calloc(l->rows.texts.count + 1, sizeof(*index));
    bool good = l->row != NULL && index != NULL;
    for (size_t i = 0; good && i < l->rows.count; i++) {
        const struct report_row *r = &l->rows.row[i];
        index[r->text] = (uint32_t)i + 1;
        l->row[l->count++] = (struct leaks_row){.function = r->location,
                                                .bytes = r->sum.live_bytes,
                                                .blocks = r->sum.live,
                                                .row = i};
    }
    good = good && find_places(l, o, index) &&
           report_callers_make(&l->callers, &l->rows, &l->t, l->names,
                               &o->in->skip, REPORT_SORT_LIVE, l->count,
                               o->stacks);
    free(index);
    return good;
}

/* --- Free lists ----------------------------------------------------------- */

/* True if the blocks of SITE are objects of which Python keeps freed ones, so
   that they get other objects without a call of malloc. */
static bool is_of_free_list(struct leaks *l, uint32_t site) {
    static const char *const makers[] = {
        "PyFloat_FromDouble", "PyList_New", "PyTuple_New",
        "PyTuple_Pack",       "PyDict_New", "_PyTuple_FromArraySteal"};
    size_t at;
    for (unsigned depth = 0;
         depth < TOOL_SITE_DEPTH &&
         (at = tool_sites_place(&l->t.sites, site)) != SIZE_MAX;
         depth++, site = l->t.sites.frame[at].parent) {
        unsigned count;
        uint32_t number = symbol_names_find(l->names, site, &count);
        for (; count != 0; count--, number++) {
            const struct symbol_name *n = symbol_names_get(l->names, number);
            if (n->language != 0)
                return false;
            for (size_t i = 0;
                 n->function != NULL && i < TCM_ARRAY_SIZE(makers); i++)
                if (strcmp(n->function, makers[i]) == 0)
                    return true;
        }
    }
    return false;
}

/* Finds the largest row with such blocks. */
static void find_reused(struct leaks *l) {
    size_t best = l->count;
    for (size_t i = 0; i < l->t.count; i++) {
        uint32_t text = l->rows.of_tally[i];
        if (text == 0 || l->t.tally[i].live == 0 ||
            !is_of_free_list(l, (uint32_t)l->t.tally[i].key))
            continue;
        for (size_t k = 0; k < best; k++)
            if (l->rows.row[l->row[k].row].text == text - 1)
                best = k;
    }
    if (best < l->count)
        l->reused = l->row[best].function;
}

/* --- The whole ------------------------------------------------------------ */

static void add_up(struct leaks *l) {
    for (size_t i = 0; i < l->count; i++) {
        l->bytes += l->row[i].bytes;
        l->blocks += l->row[i].blocks;
        TCM_ASSERT(i == 0 || l->row[i - 1].bytes >= l->row[i].bytes);
    }
    l->suppressed_bytes = l->rows.suppressed_bytes;
    l->suppressed_blocks = l->rows.suppressed;
    l->kept_bytes = l->rows.kept_bytes;
    l->kept_blocks = l->rows.kept;
    TCM_ASSERT(l->kept_blocks <= l->suppressed_blocks);
    TCM_ASSERT(l->bytes == l->rows.total.live_bytes &&
               l->blocks == l->rows.total.live);
}

bool leaks_find(struct leaks *l, const struct leaks_options *o) {
    if (o->in->count == 1 && o->mode != LEAKS_AT_END)
        leaks_growth_begin(&l->growth, &l->t);
    if (!report_input_read(o->in, &l->t)) {
        l->status = TOOL_FAILED;
        return false;
    }
    l->status = l->t.status;
    uint64_t calls = l->t.exact.calls + l->t.exact.failed;
    bool has_own = o->in->count == 1 && l->t.have_header;
    if (calls == 0 && l->status != TOOL_OK)
        return false;
    int seen = trace_not_seen(l->t.name[0], calls,
                              has_own ? l->t.header.allocator : "");
    if (seen != TOOL_OK) {
        l->status = seen;
        return false;
    }
    if (!choose_mode(l, o))
        return false;
    l->names = symbol_names_new(&l->t.sites, o->in->modules);
    if (l->names == NULL || !add_kept(&l->kept) ||
        (l->growing && !set_growth(l, o)) || !make_rows(l, o))
        return fail(l, "out of memory");
    add_up(l);
    if (l->growing && l->t.sites.has_lines)
        find_reused(l);
    return true;
}

void leaks_fini(struct leaks *l) {
    report_callers_fini(&l->callers);
    report_rows_fini(&l->rows);
    leaks_growth_fini(&l->growth);
    symbol_names_free(l->names);
    report_tally_fini(&l->t);
    report_suppressions_fini(&l->kept);
    free(l->row);
    free(l->place);
}
