/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ruby 3.1 to 3.4: the lines of Ruby code that run in the calling thread, with
 * file and label ("block in each_row"). The innermost line is the one that
 * rb_source_location_cstr gives; it is read here so that its callers are found
 * too, and so that code of eval in a method has its own file.
 *
 * Lines are read only in a thread of Ruby that holds the lock
 * (ruby_thread_has_gvl_p) and has an execution context, which a thread gets
 * after the lock and before its first frame; and not during garbage collection,
 * when strings may be moving. A frame keeps its instruction sequence alive, and
 * that its names. A frame is entered in the context after it was filled in.
 * Code of both compilers (--yjit, --mjit) stores its position before it calls
 * anything that may allocate.
 *
 * Only functions of Ruby that read memory are called: ruby_thread_has_gvl_p,
 * rb_during_gc, rb_iseq_path, rb_iseq_label, rb_iseq_line_no,
 * rb_iseq_first_lineno, and since 3.3 rb_profile_frames and rb_thread_current.
 *
 * Ruby exports neither the execution context nor the function that runs code
 * since 3.3.
 *
 * - The context is found through the thread's object. rb_thread_current may be
 *   called once rb_profile_frames has found a frame, because that checks
 *   whether there is a context.
 * - The function is the one that contains the first instruction of any code, as
 *   the instructions of compiled code are addresses in it. In a process that
 *   loads such a Ruby after set-up the function would have to be known before
 *   any line is, so such lines are not read.
 *
 * Offsets: a table; those that all versions share are constants. A trial shows
 * that they are right.
 */
#include "sites/unwind/cfi.h"
#include "sites/lang/lang_reader.h"
#include "sites/site_table.h"

enum {
    SYMBOL_VERSION,
    SYMBOL_VM,
    SYMBOL_CONTEXT,
    SYMBOL_HAS_LOCK,
    SYMBOL_COLLECTS,
    SYMBOL_PATH,
    SYMBOL_LABEL,
    SYMBOL_LINE,
    SYMBOL_FIRST_LINE,
    SYMBOL_FRAMES,
    SYMBOL_THREAD,
    SYMBOL_LOOP
};
static const struct mts_lang_symbol symbols[] = {
    {.name = "ruby_api_version", .needed = true},
    {.name = "ruby_current_vm_ptr"},
    {.name = "ruby_current_ec", .is_tls = true},
    {.name = "ruby_thread_has_gvl_p", .needed = true},
    {.name = "rb_during_gc", .needed = true},
    {.name = "rb_iseq_path", .needed = true},
    {.name = "rb_iseq_label", .needed = true},
    {.name = "rb_iseq_line_no", .needed = true},
    {.name = "rb_iseq_first_lineno", .needed = true},
    {.name = "rb_profile_frames"},
    {.name = "rb_thread_current"},
    {.name = "rb_vm_exec", .is_loop = true},
    {.name = NULL},
};

struct layout {
    struct mts_lang_versions of;
    bool is_exported;     /* the execution context is */
    bool has_long_length; /* a string has a word for its length in any case */
    uint32_t frame_bytes;
};
static const struct layout layouts[] = {
    {MTS_LANG_SERIES(3, 1, 0), true, false, 64},
    {MTS_LANG_SERIES(3, 2, 0), true, true, 64},
    {{MTS_LANG_VERSION(3, 3, 0), MTS_LANG_VERSION(3, 4, MTS_LANG_LAST_MICRO)},
     false,
     true,
     56},
};

/* An interpreter. */
struct ruby {
    struct mts_lang_interpreter it;
    int (*has_lock)(void);
    int (*collects)(void);
    uintptr_t (*path_of)(uintptr_t code);
    uintptr_t (*label_of)(uintptr_t code);
    unsigned (*line_at)(uintptr_t code, size_t position);
    uintptr_t (*first_line_of)(uintptr_t code);
    int (*frames)(int start, int limit, uintptr_t *frame, int *lines);
    uintptr_t (*thread)(void);
    const struct layout *layout;
};
static struct ruby initial;
static bool initial_loop_is_known;

enum {
    CONTEXT_STACK = 0,
    CONTEXT_STACK_WORDS = 8,
    CONTEXT_FRAME = 16,
    FRAME_PLACE = 0,
    FRAME_CODE = 16,
    FRAME_ENVIRONMENT = 32,
    OBJECT_DATA = 32, /* in a thread's object */
    THREAD_CONTEXT = 48,
    CODE_BODY = 16,
    BODY_SIZE = 4,
    BODY_INSTRUCTIONS = 8
};
enum {
    FRAME_IS_NATIVE = 0x80,
    FRAME_KIND = 0x7FFF0001,
    FRAME_KIND_STEP = 0x11110000,
    FRAME_KIND_FIRST = 0x11110001,
    FRAME_IS_EVAL = 0x77770001, /* the last of those that differ by a step */
    FRAME_IS_RESCUE = 0x78880001,
    FRAME_IS_OUTERMOST = 0x79990001, /* of a program that calls Ruby */
    VALUE_TYPE = 0x1F,
    TYPE_STRING = 5,
    INTERNAL_TYPE = 0xF01F, /* type, and kind of an object of the interpreter */
    INTERNAL_CODE = 0x701A,
    STRING_IS_FAR = 0x2000,
    STRING_LENGTH_SHIFT = 14
};

static uint32_t version(const struct mts_lang_interpreter *it) {
    const int *number = (const int *)it->place[SYMBOL_VERSION].at;
    return MTS_LANG_VERSION(number[0], number[1], number[2]);
}

static bool begin(struct mts_lang_interpreter *it, const void *layout) {
    struct ruby *r = (struct ruby *)it;
    const struct mts_lang_place *p = it->place;
    r->layout = layout;
    r->has_lock = (int (*)(void))p[SYMBOL_HAS_LOCK].at;
    r->collects = (int (*)(void))p[SYMBOL_COLLECTS].at;
    r->path_of = (uintptr_t(*)(uintptr_t))p[SYMBOL_PATH].at;
    r->label_of = (uintptr_t(*)(uintptr_t))p[SYMBOL_LABEL].at;
    r->line_at = (unsigned (*)(uintptr_t, size_t))p[SYMBOL_LINE].at;
    r->first_line_of = (uintptr_t(*)(uintptr_t))p[SYMBOL_FIRST_LINE].at;
    r->frames = (int (*)(int, int, uintptr_t *, int *))p[SYMBOL_FRAMES].at;
    r->thread = (uintptr_t(*)(void))p[SYMBOL_THREAD].at;
    if (r != &initial && p[SYMBOL_LOOP].at == 0)
        return false;
    return r->layout->is_exported
               ? p[SYMBOL_VM].at != 0 && p[SYMBOL_CONTEXT].at != 0
               : p[SYMBOL_FRAMES].at != 0 && p[SYMBOL_THREAD].at != 0;
}

/* The execution context of the calling thread. A thread that runs Ruby has the
   thread-local block of Ruby's module, so TLS does not wait for the loader. */
static TCM_ALWAYS_INLINE uintptr_t exported_context(const struct ruby *r) {
    intptr_t at = r->it.place[SYMBOL_CONTEXT].at;
    return mts_lang_load_word(r == &initial
                                  ? tcm_thread_pointer() + (uintptr_t)at
                                  : (uintptr_t)r->it.tls((void *)at));
}

/* The execution context of the calling thread, which holds the lock; 0: there
   is none. While Ruby starts, the first thread has frames but no object yet. */
static uintptr_t found_context(const struct ruby *r) {
    uintptr_t frame, thread;
    if (r->frames(0, 1, &frame, NULL) <= 0 || (thread = r->thread()) == 0)
        return 0;
    return mts_lang_load_word(mts_lang_load_word(thread + OBJECT_DATA) +
                              THREAD_CONTEXT);
}

/* Makes the function that runs CODE end stacks from now on. */
static TCM_NOINLINE void find_loop(const struct ruby *r, uintptr_t code) {
    uintptr_t body = mts_lang_load_word(code + CODE_BODY), start;
    uintptr_t at =
        mts_lang_load_word(mts_lang_load_word(body + BODY_INSTRUCTIONS));
    size_t bytes;
    bool known = false;
    /* Ractors have locks of their own, so several threads may come here. */
    if (!tcm_cas_acq_rel(&initial_loop_is_known, &known, true) ||
        at - r->it.start >= r->it.bytes ||
        !mts_cfi_function(at, &start, &bytes))
        return;
    mts_rows_add_end(start, bytes);
    /* A thread that sees the new stamp also sees where stacks end. */
    tcm_fence_seq_cst();
    tcm_add_relaxed(&mts_stamp, (uint64_t)1);
}

static inline const char *string_bytes(const struct ruby *r, uintptr_t value,
                                       size_t *length) {
    *length = 0;
    if ((value & 7) != 0 || value <= 8)
        return NULL;
    uintptr_t flags = mts_lang_load_word(value);
    if ((flags & VALUE_TYPE) != TYPE_STRING)
        return NULL;
    if ((flags & STRING_IS_FAR) != 0) {
        *length = mts_lang_load_word(value + 16);
        return (const char *)mts_lang_load_word(value + 24);
    }
    if (r->layout->has_long_length) {
        *length = mts_lang_load_word(value + 16);
        return (const char *)value + 24;
    }
    *length = flags >> STRING_LENGTH_SHIFT & 31;
    return (const char *)value + 16;
}

static inline uint64_t mix_string(const struct ruby *r, uint64_t h,
                                  uintptr_t value) {
    size_t length;
    const char *p = string_bytes(r, value, &length);
    return mts_lang_mix_bytes(h ^ length, p, length);
}

/* The line that Ruby reports for PLACE, which is behind the instruction that
   runs; 0 in a frame that has not begun. */
static inline uint32_t line_of(const struct ruby *r, uintptr_t code,
                               uintptr_t place) {
    uintptr_t body = mts_lang_load_word(code + CODE_BODY);
    size_t offset = place - mts_lang_load_word(body + BODY_INSTRUCTIONS);
    size_t at = offset / sizeof(uintptr_t);
    unsigned line = 0;
    if (place != 0 && at <= *(const uint32_t *)(body + BODY_SIZE))
        line = r->line_at(code, at == 0 ? 0 : at - 1);
    /* A small integer in Ruby's encoding. */
    return line != 0 ? line : (uint32_t)(r->first_line_of(code) >> 1);
}

static inline uint64_t mix_frame(const struct ruby *r, uint64_t h,
                                 const struct mts_lang_frame *frame) {
    h = mts_lang_mix(h, frame->detail);
    h = mix_string(r, h, r->path_of(frame->code));
    return mix_string(r, h, r->label_of(frame->code));
}

static uint64_t mix(const struct mts_lang_interpreter *it, uint64_t h,
                    const struct mts_lang_frame *frame) {
    return mix_frame((const struct ruby *)it, h, frame);
}

/* --- Trial ---------------------------------------------------------------- */

#define TRIAL_FRAMES 256u
#define CODE_MAX     ((uint32_t)1 << 24)
#define NAME_BYTES   65536u

static bool is_kind(uintptr_t bits) {
    uintptr_t kind = bits & FRAME_KIND;
    return (kind >= FRAME_KIND_FIRST && kind <= FRAME_IS_EVAL &&
            (kind - FRAME_KIND_FIRST) % FRAME_KIND_STEP == 0) ||
           kind == FRAME_IS_RESCUE || kind == FRAME_IS_OUTERMOST;
}

/* True if VALUE is a string, and its last byte can be read. */
static bool is_name(const struct ruby *r, uintptr_t value) {
    uintptr_t string[4];
    size_t length;
    char last;
    if (value % 8 != 0 || !mts_lang_try_copy(string, value, sizeof(string)) ||
        (string[0] & VALUE_TYPE) != TYPE_STRING)
        return false;
    const char *p = string_bytes(r, value, &length);
    return length == 0 ||
           (length <= NAME_BYTES &&
            mts_lang_try_copy(&last, (uintptr_t)p + length - 1, sizeof(last)));
}

/* True if all that names of a line of CODE at PLACE are made from is there. */
static bool has_line(const struct ruby *r, uintptr_t code, uintptr_t place) {
    uintptr_t bits, body, start;
    uint32_t size;
    return code % 8 == 0 && mts_lang_try_word(&bits, code) &&
           (bits & INTERNAL_TYPE) == INTERNAL_CODE &&
           mts_lang_try_word(&body, code + CODE_BODY) &&
           mts_lang_try_copy(&size, body + BODY_SIZE, sizeof(size)) &&
           mts_lang_try_word(&start, body + BODY_INSTRUCTIONS) &&
           size <= CODE_MAX &&
           (place == 0 || place - start <= sizeof(uintptr_t) * size) &&
           is_name(r, r->path_of(code)) && is_name(r, r->label_of(code));
}

static enum mts_lang_trust try_frames(const struct ruby *r, uintptr_t frame,
                                      uintptr_t end) {
    unsigned lines = 0;
    size_t step = r->layout->frame_bytes;
    if (frame > end || (end - frame) % step != 0)
        return MTS_LANG_REFUSED;
    for (unsigned i = 0; frame != end && i < TRIAL_FRAMES; i++, frame += step) {
        uintptr_t place, code, environment, bits;
        if (!mts_lang_try_word(&place, frame + FRAME_PLACE) ||
            !mts_lang_try_word(&code, frame + FRAME_CODE) ||
            !mts_lang_try_word(&environment, frame + FRAME_ENVIRONMENT) ||
            !mts_lang_try_word(&bits, environment) || !is_kind(bits))
            return MTS_LANG_REFUSED;
        if ((bits & FRAME_IS_NATIVE) != 0 || code == 0 ||
            (bits & FRAME_KIND) == FRAME_IS_OUTERMOST)
            continue;
        if (!has_line(r, code, place))
            return MTS_LANG_REFUSED;
        lines++;
    }
    return lines != 0 ? MTS_LANG_TRUSTED : MTS_LANG_ON_TRIAL;
}

/* --- Walk ---------------------------------------------------------------- */

/* The execution context of the calling thread, if it runs Ruby now; else 0. */
static TCM_ALWAYS_INLINE uintptr_t context_of(const struct ruby *r) {
    uintptr_t ec;
    if (!r->layout->is_exported)
        return !r->has_lock() || r->collects() ? 0 : found_context(r);
    return mts_lang_load_word((uintptr_t)r->it.place[SYMBOL_VM].at) == 0 ||
                   (ec = exported_context(r)) == 0 || !r->has_lock() ||
                   r->collects()
               ? 0
               : ec;
}

static TCM_ALWAYS_INLINE void walk_of(const struct ruby *r,
                                      struct mts_lang_walk *w, uint32_t depth) {
    uint32_t owner = tcm_load_relaxed(&w->owner);
    uintptr_t ec = context_of(r), step = r->layout->frame_bytes;
    if (ec == 0 || !mts_lang_is_owner(w, owner))
        return;
    uintptr_t frame = mts_lang_load_word(ec + CONTEXT_FRAME);
    uintptr_t end = mts_lang_load_word(ec + CONTEXT_STACK) +
                    8 * mts_lang_load_word(ec + CONTEXT_STACK_WORDS);
    if (TCM_UNLIKELY(!mts_lang_is(&r->it, MTS_LANG_TRUSTED)) &&
        (frame == 0 || mts_lang_is(&r->it, MTS_LANG_REFUSED) ||
         !mts_lang_judge(&r->it, try_frames(r, frame, end))))
        return;
    for (; frame != 0 && frame < end; frame += step) {
        uintptr_t code = mts_lang_load_word(frame + FRAME_CODE);
        uintptr_t bits =
            mts_lang_load_word(mts_lang_load_word(frame + FRAME_ENVIRONMENT));
        if ((bits & FRAME_IS_NATIVE) != 0 || code == 0 ||
            (bits & FRAME_KIND) == FRAME_IS_OUTERMOST)
            continue;
        if (w->count == depth) {
            w->cut = true;
            return;
        }
        if (r->it.place[SYMBOL_LOOP].at == 0 &&
            TCM_UNLIKELY(!tcm_load_relaxed(&initial_loop_is_known)))
            find_loop(r, code);
        uint32_t line =
            line_of(r, code, mts_lang_load_word(frame + FRAME_PLACE));
        w->frame[w->count] = (struct mts_lang_frame){code, line};
        w->key = mix_frame(r, w->key, &w->frame[w->count++]);
    }
}

static void walk(struct mts_lang_walk *w, uint32_t depth) {
    walk_of(&initial, w, depth);
}

static void walk_late(const struct mts_lang_interpreter *it,
                      struct mts_lang_walk *w, uint32_t depth) {
    walk_of((const struct ruby *)it, w, depth);
}

static uint32_t copy_string(const struct ruby *r, uintptr_t value, char *to) {
    size_t length;
    const char *p = string_bytes(r, value, &length);
    return mts_lang_copy(to, p, length);
}

static uint32_t file(const struct mts_lang_interpreter *it,
                     const struct mts_lang_frame *frame, char *to) {
    const struct ruby *r = (const struct ruby *)it;
    return copy_string(r, r->path_of(frame->code), to);
}

static uint32_t function(const struct mts_lang_interpreter *it,
                         const struct mts_lang_frame *frame, char *to) {
    const struct ruby *r = (const struct ruby *)it;
    return copy_string(r, r->label_of(frame->code), to);
}

static uint32_t line(const struct mts_lang_interpreter *it,
                     const struct mts_lang_frame *frame) {
    (void)it;
    return (uint32_t)frame->detail;
}

const struct mts_lang_reader mts_lang_ruby = {
    .name = "Ruby",
    .refusal = MTS_LANG_REFUSAL("Ruby"),
    .language = MTF_LANGUAGE_RUBY,
    .symbols = symbols,
    .first = &initial.it,
    .bytes = sizeof(struct ruby),
    .late_in_loop = true,
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
