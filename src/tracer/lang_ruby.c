/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ruby 3.1: the lines of Ruby code that run in the calling thread, with file
 * and label ("block in each_row"). The innermost one is what
 * rb_source_location_cstr gives; read by itself, so that its callers are found
 * too, and code of eval in a method has its own file.
 *
 * Read only in a thread of Ruby's that has the lock (ruby_thread_has_gvl_p) and
 * an execution context, which a thread gets after the lock and before its first
 * frame; and not while rubbish is collected, when strings may be on their way.
 * A frame keeps its sequence of instructions alive, and that its names. Frames
 * are entered in the context after they were filled in. Code of either compiler
 * (--yjit, --mjit) stores where it is before it calls what may allocate.
 *
 * The functions that are called read memory only: of Ruby,
 * ruby_thread_has_gvl_p, rb_during_gc, rb_iseq_path, rb_iseq_label,
 * rb_iseq_line_no, rb_iseq_first_lineno.
 */
#include "tracer/lang_reader.h"

enum {
    SYMBOL_VERSION,
    SYMBOL_VM,
    SYMBOL_CONTEXT,
    SYMBOL_HAS_LOCK,
    SYMBOL_COLLECTS,
    SYMBOL_PATH,
    SYMBOL_LABEL,
    SYMBOL_LINE,
    SYMBOL_FIRST_LINE
};
static struct mtr_lang_symbol symbols[] = {
    {.name = "ruby_api_version", .needed = true},
    {.name = "ruby_current_vm_ptr", .needed = true},
    {.name = "ruby_current_ec", .is_tls = true, .needed = true},
    {.name = "ruby_thread_has_gvl_p", .needed = true},
    {.name = "rb_during_gc", .needed = true},
    {.name = "rb_iseq_path", .needed = true},
    {.name = "rb_iseq_label", .needed = true},
    {.name = "rb_iseq_line_no", .needed = true},
    {.name = "rb_iseq_first_lineno", .needed = true},
    {.name = "rb_vm_exec", .is_loop = true},
    {.name = NULL},
};

static int (*has_lock)(void);
static int (*collects)(void);
static uintptr_t (*path_of)(uintptr_t code);
static uintptr_t (*label_of)(uintptr_t code);
static unsigned (*line_at)(uintptr_t code, size_t position);
static uintptr_t (*first_line_of)(uintptr_t code);

enum {
    CONTEXT_STACK = 0,
    CONTEXT_STACK_WORDS = 8,
    CONTEXT_FRAME = 16,
    FRAME_PLACE = 0,
    FRAME_CODE = 16,
    FRAME_ENVIRONMENT = 32,
    FRAME_SIZE = 64,
    CODE_BODY = 16,
    BODY_SIZE = 4,
    BODY_INSTRUCTIONS = 8
};
enum {
    FRAME_IS_NATIVE = 0x80,
    VALUE_TYPE = 0x1F,
    TYPE_STRING = 5,
    STRING_IS_FAR = 0x2000,
    STRING_LENGTH_SHIFT = 14
};

static inline uintptr_t word(uintptr_t p) {
    return *(const uintptr_t *)p;
}

static bool is_known(void) {
    const int *version = (const int *)symbols[SYMBOL_VERSION].place;
    has_lock = (int (*)(void))symbols[SYMBOL_HAS_LOCK].place;
    collects = (int (*)(void))symbols[SYMBOL_COLLECTS].place;
    path_of = (uintptr_t(*)(uintptr_t))symbols[SYMBOL_PATH].place;
    label_of = (uintptr_t(*)(uintptr_t))symbols[SYMBOL_LABEL].place;
    line_at = (unsigned (*)(uintptr_t, size_t))symbols[SYMBOL_LINE].place;
    first_line_of = (uintptr_t(*)(uintptr_t))symbols[SYMBOL_FIRST_LINE].place;
    return version[0] == 3 && version[1] == 1;
}

static inline uintptr_t context(void) {
    return word((uintptr_t)__builtin_thread_pointer() +
                (uintptr_t)symbols[SYMBOL_CONTEXT].place);
}

static inline const char *string(uintptr_t value, size_t *length) {
    *length = 0;
    if ((value & 7) != 0 || value <= 8)
        return NULL;
    uintptr_t flags = word(value);
    if ((flags & VALUE_TYPE) != TYPE_STRING)
        return NULL;
    if ((flags & STRING_IS_FAR) != 0) {
        *length = word(value + 16);
        return (const char *)word(value + 24);
    }
    *length = flags >> STRING_LENGTH_SHIFT & 31;
    return (const char *)value + 16;
}

static inline uint64_t mix_string(uint64_t h, uintptr_t value) {
    size_t length;
    const char *p = string(value, &length);
    return mtr_lang_mix_bytes(h ^ length, p, length);
}

/* As Ruby says it. A place is behind the instruction that runs; a frame that
   did not begin has none. */
static inline uint32_t line_of(uintptr_t code, uintptr_t place) {
    uintptr_t body = word(code + CODE_BODY);
    size_t offset = place - word(body + BODY_INSTRUCTIONS);
    size_t at = offset / sizeof(uintptr_t);
    unsigned line = 0;
    if (place != 0 && at <= *(const uint32_t *)(body + BODY_SIZE))
        line = line_at(code, at == 0 ? 0 : at - 1);
    /* A small number, as Ruby keeps them. */
    return line != 0 ? line : (uint32_t)(first_line_of(code) >> 1);
}

static void walk(struct mtr_lang_walk *w, uint32_t depth) {
    if (word((uintptr_t)symbols[SYMBOL_VM].place) == 0 || context() == 0 ||
        !has_lock() || collects())
        return;
    uintptr_t ec = context(), frame = word(ec + CONTEXT_FRAME);
    uintptr_t end =
        word(ec + CONTEXT_STACK) + 8 * word(ec + CONTEXT_STACK_WORDS);
    for (; frame != 0 && frame < end; frame += FRAME_SIZE) {
        uintptr_t code = word(frame + FRAME_CODE);
        if ((word(word(frame + FRAME_ENVIRONMENT)) & FRAME_IS_NATIVE) != 0 ||
            code == 0)
            continue;
        if (w->count == depth) {
            w->cut = true;
            return;
        }
        uint32_t line = line_of(code, word(frame + FRAME_PLACE));
        w->frame[w->count++] = (struct mtr_lang_frame){code, line};
        uint64_t h = mtr_lang_mix(w->key, line);
        h = mix_string(h, path_of(code));
        w->key = mix_string(h, label_of(code));
    }
}

static uint32_t copy_string(uintptr_t value, char *to) {
    size_t length;
    const char *p = string(value, &length);
    return mtr_lang_copy(to, p, length);
}

static uint32_t file(const struct mtr_lang_frame *frame, char *to) {
    return copy_string(path_of(frame->what), to);
}

static uint32_t function(const struct mtr_lang_frame *frame, char *to) {
    return copy_string(label_of(frame->what), to);
}

static uint32_t line(const struct mtr_lang_frame *frame) {
    return (uint32_t)frame->where;
}

const struct mtr_lang_reader mtr_lang_ruby = {
    .name = "Ruby",
    .language = MTF_LANGUAGE_RUBY,
    .symbols = symbols,
    .is_known = is_known,
    .walk = walk,
    .file = file,
    .function = function,
    .line = line,
};
