/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Perl 5.32 and 5.36 to 5.42 with threads, as Debian builds it: the statement
 * that runs (PL_curcop), and the callers of its subroutine, found in the
 * interpreter's stack of contexts.
 *
 * A thread's interpreter is the value of a pthread key; NULL in threads without
 * one. Only its own thread runs it. Perl sets PL_curcop to other code before it
 * frees the current one, and counts the uses of a running subroutine, but
 * nothing enforces these rules. So the reader checks each step: a pointer must
 * lead to memory of this heap, which can be read, and a statement must be of a
 * kind that statements have; freed ones are marked as such. The name of a file
 * belongs to its statement.
 *
 * Offsets: a table of the few that differ between versions, used only if the
 * size of the interpreter's structure, which is exported like the version,
 * matches, and if a statement in that structure is where the table says. Kinds
 * of statements are numbered as in the interpreter's own list of names.
 */
#include "sites/lang/lang_reader.h"

#include "sites/site_settings.h"

#include <pthread.h>

enum {
    SYMBOL_VERSION,
    SYMBOL_REVISION,
    SYMBOL_KEY,
    SYMBOL_FIRST,
    SYMBOL_SIZE,
    SYMBOL_OP_NAMES
};
static const struct mts_lang_symbol symbols[] = {
    {.name = "PL_version", .needed = true},
    {.name = "PL_revision", .needed = true},
    {.name = "PL_thr_key", .needed = true},
    {.name = "PL_curinterp", .needed = true},
    {.name = "PL_interp_size", .needed = true},
    {.name = "PL_op_name", .needed = true},
    {.name = "Perl_runops_standard", .is_loop = true},
    {.name = "Perl_runops_debug", .is_loop = true},
    {.name = NULL},
};

enum {
    INTERPRETER_STACK = 16, /* behind its statement */
    STACK_CONTEXTS = 8,
    STACK_BELOW = 16,
    STACK_TOP = 32,
    CONTEXT_SIZE = 104,
    CONTEXT_COP = 16,
    CONTEXT_SUB = 72,
    COP_TYPE = 32,
    COP_LINE = 36,
    COP_FILE = 48,
    COP_SIZE = 80,
    SUB_NAME = 56,
    SUB_FLAGS = 92,
    GLOB_NAME = 32,
    NAME_LENGTH = 4,
    NAME_BYTES = 8,
    VALUE_FLAGS = 12
};
enum {
    COP_TYPE_MASK = 0x1FF,
    CONTEXT_MASK = 0xF,
    CONTEXT_IS_SUB = 9,
    CONTEXT_IS_FORMAT = 10,
    CONTEXT_IS_EVAL = 11,
    CONTEXT_IS_TRY = 0xC0, /* a block of code in the same subroutine */
    SUB_HAS_NAME = 0x8000, /* and not a glob */
    TYPE_MASK = 0xFF,
    TYPE_GLOB = 9,
    TYPE_SUB = 13,
    TYPE_FORMAT = 14
};
struct layout {
    struct mts_lang_versions of;
    uint32_t size;                   /* of the interpreter; 0: any */
    uint32_t cop, parser, compiling; /* members of the interpreter */
};
static const struct layout layouts[] = {
    {MTS_LANG_SERIES(5, 32, 0), 3792, 224, 512, 1952},
    {MTS_LANG_SERIES(5, 36, 0), 3768, 208, 496, 1936},
    {MTS_LANG_SERIES(5, 38, 0), 0, 208, 512, 1720},
    {MTS_LANG_SERIES(5, 40, 0), 3768, 208, 512, 1720},
    {MTS_LANG_SERIES(5, 42, 0), 3768, 208, 512, 1720}};

/* One interpreter. */
struct perl {
    struct mts_lang_interpreter it;
    const struct layout *layout;
    uint32_t size;
    uint32_t cop_next; /* number of nextstate; dbstate follows */
};
static struct perl initial;
/* Value of a frame's DETAIL: the code of an eval; else DETAIL is the
   subroutine's name. */
#define SUB_IS_EVAL 1u
#define NO_LINE     UINT32_MAX /* in a statement that the parser is making */

static inline bool has_memory(uintptr_t p) {
    return (p & 7) == 0 && mts_settings.host.has_memory((const void *)p);
}

static inline uint32_t load_32(uintptr_t p) {
    return *(const uint32_t *)p;
}

/* --- Set-up -------------------------------------------------------------- */

static uint32_t version(const struct mts_lang_interpreter *it) {
    const struct mts_lang_place *p = it->place;
    return MTS_LANG_VERSION(*(const uint8_t *)p[SYMBOL_REVISION].at,
                            *(const uint8_t *)p[SYMBOL_VERSION].at, 0);
}

static bool is_op(const struct mts_lang_place *names, uint32_t number,
                  const char *name) {
    const char *const *all = (const char *const *)names->at;
    return number < names->bytes / sizeof(*all) && all[number] != NULL &&
           strcmp(all[number], name) == 0;
}

static bool begin(struct mts_lang_interpreter *it, const void *layout) {
    struct perl *perl = (struct perl *)it;
    const struct mts_lang_place *names = &it->place[SYMBOL_OP_NAMES];
    const struct layout *l = perl->layout = layout;
    uint32_t n = 0;
    perl->size = *(const uint16_t *)it->place[SYMBOL_SIZE].at;
    if (l->size != 0 ? perl->size != l->size
                     : perl->size < l->compiling + COP_SIZE)
        return false;
    while (n < COP_TYPE_MASK && !is_op(names, n, "nextstate"))
        n++;
    perl->cop_next = n;
    return is_op(names, n + 1, "dbstate");
}

/* --- Walk ---------------------------------------------------------------- */

/* True if COP is on the C stack: the parser runs constant expressions with a
   statement there. Memory above the caller's frame, once part of the stack, can
   always be read. */
static inline bool is_on_stack(uintptr_t cop) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return cop > here && cop - here < ((uintptr_t)1 << 20) && (cop & 7) == 0;
}

/* The name of COP's file; NULL: COP is no statement, or has no file.
   PL_compiling is the current statement also when nothing is parsed, as in a
   program that has called Perl. */
static inline const char *file_of(const struct perl *perl, uintptr_t cop,
                                  uintptr_t my_perl) {
    if (cop == my_perl + perl->layout->compiling) {
        if (mts_lang_load_word(my_perl + perl->layout->parser) == 0)
            return NULL;
    } else if (!is_on_stack(cop) &&
               (!has_memory(cop) ||
                (load_32(cop + COP_TYPE) & COP_TYPE_MASK) - perl->cop_next >
                    1)) {
        return NULL;
    }
    uintptr_t name = mts_lang_load_word(cop + COP_FILE);
    return has_memory(name) ? (const char *)name : NULL;
}

/* The name of SUB, as Perl stores names; 0: it has none. */
static uintptr_t name_of(uintptr_t sub) {
    if (sub == SUB_IS_EVAL || !has_memory(sub))
        return 0;
    uint32_t type = load_32(sub + VALUE_FLAGS) & TYPE_MASK;
    uintptr_t body = mts_lang_load_word(sub), glob;
    if ((type != TYPE_SUB && type != TYPE_FORMAT) || !has_memory(body))
        return 0;
    uintptr_t name = mts_lang_load_word(body + SUB_NAME);
    if ((load_32(body + SUB_FLAGS) & SUB_HAS_NAME) == 0) {
        glob = name;
        if (!has_memory(glob) ||
            (load_32(glob + VALUE_FLAGS) & TYPE_MASK) != TYPE_GLOB ||
            !has_memory(mts_lang_load_word(glob)))
            return 0;
        name = mts_lang_load_word(mts_lang_load_word(glob) + GLOB_NAME);
    }
    return has_memory(name) && load_32(name + NAME_LENGTH) <= MTF_SITE_TEXT_MAX
               ? name
               : 0;
}

static uint64_t mix(const struct mts_lang_interpreter *it, uint64_t h,
                    const struct mts_lang_frame *frame) {
    bool is_eval = frame->detail == SUB_IS_EVAL;
    const char *file = (const char *)mts_lang_load_word(frame->code + COP_FILE);
    uintptr_t name = is_eval ? 0 : frame->detail;
    (void)it;
    h = mts_lang_mix(h ^ is_eval, load_32(frame->code + COP_LINE));
    size_t length = strnlen(file, MTF_SITE_TEXT_MAX);
    h = mts_lang_mix_bytes(h ^ length << 32, file, length);
    return name == 0 ? h
                     : mts_lang_mix_bytes(h ^ load_32(name + NAME_LENGTH),
                                          (const char *)name + NAME_BYTES,
                                          load_32(name + NAME_LENGTH));
}

/* Adds the line of COP in SUB. false: W has DEPTH lines already. */
static bool add(const struct perl *perl, struct mts_lang_walk *w,
                uint32_t depth, uintptr_t my_perl, uintptr_t cop,
                uintptr_t sub) {
    if (file_of(perl, cop, my_perl) == NULL)
        return true;
    if (w->count == depth) {
        w->cut = true;
        return false;
    }
    struct mts_lang_frame *frame = &w->frame[w->count++];
    frame->code = cop;
    frame->detail = sub == SUB_IS_EVAL ? sub : name_of(sub);
    w->key = mix(NULL, w->key, frame);
    return true;
}

static TCM_ALWAYS_INLINE void walk_of(const struct perl *perl,
                                      struct mts_lang_walk *w, uint32_t depth) {
    const struct mts_lang_interpreter *it = &perl->it;
    if (mts_lang_load_word((uintptr_t)it->place[SYMBOL_FIRST].at) == 0 ||
        TCM_UNLIKELY(mts_lang_is(it, MTS_LANG_REFUSED)))
        return;
    pthread_key_t key = *(const pthread_key_t *)it->place[SYMBOL_KEY].at;
    uintptr_t my_perl = (uintptr_t)pthread_getspecific(key);
    if (!has_memory(my_perl))
        return;
    uintptr_t at = my_perl + perl->layout->cop;
    uintptr_t cop = mts_lang_load_word(at);
    uintptr_t stack = mts_lang_load_word(at + INTERPRETER_STACK);
    if (TCM_UNLIKELY(cop - my_perl < perl->size) &&
        cop != my_perl + perl->layout->compiling) {
        mts_lang_judge(it, MTS_LANG_REFUSED);
        return;
    }
    /* Contexts are walked from the innermost subroutine outwards; COP is the
       statement that runs in it. */
    for (; has_memory(stack); stack = mts_lang_load_word(stack + STACK_BELOW)) {
        uintptr_t contexts = mts_lang_load_word(stack + STACK_CONTEXTS);
        int32_t top = (int32_t)load_32(stack + STACK_TOP);
        if (top < 0 || !has_memory(contexts))
            continue;
        uintptr_t c = contexts + (uintptr_t)top * CONTEXT_SIZE;
        for (; c >= contexts; c -= CONTEXT_SIZE) {
            unsigned bits = *(const uint8_t *)c, type = bits & CONTEXT_MASK;
            bool is_eval =
                type == CONTEXT_IS_EVAL && (bits & CONTEXT_IS_TRY) == 0;
            if (!is_eval && type != CONTEXT_IS_SUB && type != CONTEXT_IS_FORMAT)
                continue;
            if (!add(perl, w, depth, my_perl, cop,
                     is_eval ? SUB_IS_EVAL
                             : mts_lang_load_word(c + CONTEXT_SUB)))
                return;
            cop = mts_lang_load_word(c + CONTEXT_COP);
        }
    }
    add(perl, w, depth, my_perl, cop, 0);
}

static void walk(struct mts_lang_walk *w, uint32_t depth) {
    walk_of(&initial, w, depth);
}

static void walk_late(const struct mts_lang_interpreter *it,
                      struct mts_lang_walk *w, uint32_t depth) {
    walk_of((const struct perl *)it, w, depth);
}

/* --- Names --------------------------------------------------------------- */

static uint32_t file(const struct mts_lang_interpreter *it,
                     const struct mts_lang_frame *frame, char *to) {
    (void)it;
    const char *name = (const char *)mts_lang_load_word(frame->code + COP_FILE);
    return mts_lang_copy(to, name, strnlen(name, MTF_SITE_TEXT_MAX));
}

static uint32_t function(const struct mts_lang_interpreter *it,
                         const struct mts_lang_frame *frame, char *to) {
    (void)it;
    if (frame->detail == SUB_IS_EVAL)
        return mts_lang_copy(to, "(eval)", 6);
    if (frame->detail == 0)
        return 0;
    return mts_lang_copy(to, (const char *)frame->detail + NAME_BYTES,
                         load_32(frame->detail + NAME_LENGTH));
}

static uint32_t line(const struct mts_lang_interpreter *it,
                     const struct mts_lang_frame *frame) {
    (void)it;
    uint32_t line = load_32(frame->code + COP_LINE);
    return line != NO_LINE ? line : 0;
}

const struct mts_lang_reader mts_lang_perl = {
    .name = "Perl",
    .refusal = MTS_LANG_REFUSAL("Perl"),
    .language = MTF_LANGUAGE_PERL,
    .symbols = symbols,
    .first = &initial.it,
    .bytes = sizeof(initial),
    .layouts = layouts,
    .layout_count = TCM_ARRAY_SIZE(layouts),
    .layout_bytes = sizeof(layouts[0]),
    .version = version,
    .begin = begin,
    .walk = walk,
    .walk_late = walk_late,
    .mix = mix,
    .file = file,
    .function = function,
    .line = line,
};
