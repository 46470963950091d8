/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CPython 3.9 and later: the frames of the calling thread, with file, line and
 * qualified name (before 3.11 the name alone).
 *
 * A thread's frames are a list that begins in its thread state. A frame keeps
 * its code object alive, and the code object its texts and its table of lines;
 * none of them is ever changed. So what is read here is valid while the thread
 * itself runs and holds the interpreter's lock, which is when the current
 * thread state is one of its own. A frame is put into the list after it was
 * filled in, and taken out before it is cleared.
 *
 * Certain: the lines read are those that run. Not certain: a signal handler
 * that allocates may come between two stores of the interpreter which a
 * compiler has put into another order; those of 3.11 to 3.13 are in order on
 * x86-64.
 *
 * Offsets: lang_python.h. Texts are read in the compact form, which all names
 * have. Free-threaded builds are not read.
 */
#include "sites/lang/lang_python.h"

#include "sites/unwind/stack.h"

#include <pthread.h>

enum {
    SYMBOL_RUNTIME,
    SYMBOL_CODE_TYPE,
    SYMBOL_TEXT_TYPE,
    SYMBOL_BYTES_TYPE,
    SYMBOL_OWN_STATE,
    SYMBOL_VERSION,
    SYMBOL_SINCE_3_10,
    SYMBOL_SINCE_3_9,
    SYMBOL_CURRENT,
    SYMBOL_CURRENT_3_13
};
static const struct mts_lang_symbol symbols[] = {
    {.name = "_PyRuntime", .needed = true},
    {.name = "PyCode_Type", .needed = true},
    {.name = "PyUnicode_Type", .needed = true},
    {.name = "PyBytes_Type", .needed = true},
    {.name = "PyGILState_GetThisThreadState", .needed = true},
    {.name = "Py_Version"},
    {.name = "Py_NewRef"},
    {.name = "PyFrame_GetBack"},
    {.name = "_PyThreadState_UncheckedGet"},
    {.name = "PyThreadState_GetUnchecked"},
    {.name = "_PyEval_EvalFrameDefault", .is_loop = true},
    {.name = NULL},
};

typedef void *get_state(void);

/* An interpreter. */
struct python {
    struct mts_lang_interpreter it;
    get_state *current_state, *own_state;
    struct mts_python_types types;
    struct mts_python_layout layout;
};
static struct python initial;

#define INTERPRETER 16u /* in a thread state */

static inline int32_t load_int(uintptr_t p) {
    return *(const int32_t *)p;
}

/* --- Set-up -------------------------------------------------------------- */

/* Py_Version; 0: none, as before 3.11. */
static uint64_t full_version(const struct mts_lang_interpreter *it) {
    intptr_t at = it->place[SYMBOL_VERSION].at;
    return at == 0 ? 0 : *(const unsigned long *)at;
}

static uint32_t version(const struct mts_lang_interpreter *it) {
    uint64_t full = full_version(it);
    if (full != 0)
        return (uint32_t)(full >> 8);
    if (it->place[SYMBOL_SINCE_3_10].at != 0)
        return MTS_LANG_VERSION(3, 10, 0);
    return it->place[SYMBOL_SINCE_3_9].at != 0 ? MTS_LANG_VERSION(3, 9, 0) : 0;
}

static bool begin(struct mts_lang_interpreter *it, const void *layout) {
    struct python *py = (struct python *)it;
    const struct mts_lang_place *p = it->place;
    intptr_t current = p[SYMBOL_CURRENT].at != 0 ? p[SYMBOL_CURRENT].at
                                                 : p[SYMBOL_CURRENT_3_13].at;
    py->current_state = (get_state *)current;
    py->own_state = (get_state *)p[SYMBOL_OWN_STATE].at;
    py->types = (struct mts_python_types){(uintptr_t)p[SYMBOL_CODE_TYPE].at,
                                          (uintptr_t)p[SYMBOL_TEXT_TYPE].at,
                                          (uintptr_t)p[SYMBOL_BYTES_TYPE].at};
    py->layout = *(const struct mts_python_layout *)layout;
    if (current == 0)
        return false;
    if (py->layout.is_published &&
        !mts_python_read_offsets((const uint64_t *)p[SYMBOL_RUNTIME].at,
                                 p[SYMBOL_RUNTIME].bytes / sizeof(uint64_t),
                                 full_version(it), &py->types, &py->layout))
        return false;
    return mts_python_fits(&py->layout, &py->types);
}

/* --- Walk ---------------------------------------------------------------- */

static inline const char *text_at(const struct mts_python_layout *l,
                                  uintptr_t text, unsigned *width,
                                  size_t *count) {
    uint32_t state = *(const uint32_t *)(text + l->text_state);
    *width = state >> 2 & 7;
    *count = mts_lang_load_word(text + l->text_length);
    if ((state >> 5 & 1) == 0)
        *count = 0;
    return (const char *)text +
           ((state >> 6 & 1) != 0 ? l->text_ascii : l->text_compact);
}

/* Mixes a text into H: its 64-bit hash if Python has computed one, else its
   bytes. */
static inline uint64_t mix_text(const struct mts_python_layout *l, uint64_t h,
                                uintptr_t text) {
    uint64_t known = mts_lang_load_word(text + l->text_hash);
    unsigned width;
    size_t count;
    if (known != UINT64_MAX)
        return mts_lang_mix(h, known);
    const char *bytes = text_at(l, text, &width, &count);
    return mts_lang_mix_bytes(h ^ count * width, bytes, count * width);
}

/*
 * Mixes the identity of CODE into H, the cheapest that is certain:
 *
 * - in 3.12 to 3.14 the number that an interpreter gives its code, and never
 *   gives twice;
 * - the address of code in the interpreter's file, which is not made anew;
 * - the token of a block of this heap, which code above 512 bytes is: no other
 *   block has it;
 * - else its contents.
 */
static inline uint64_t mix_code(const struct python *py, uint64_t h,
                                uintptr_t code) {
    const struct mts_python_layout *l = &py->layout;
    uint64_t number = l->code_version == MTS_PYTHON_NONE
                          ? 0
                          : *(const uint32_t *)(code + l->code_version);
    if (number != 0)
        return mts_lang_mix(h ^ code, number);
    if (code - py->it.start < py->it.bytes)
        return mts_lang_mix(h ^ code, 0);
    size_t units = l->form == MTS_PYTHON_LOCATIONS
                       ? mts_lang_load_word(code + MTS_PYTHON_OBJECT_COUNT)
                       : 0;
    uint64_t token = mts_settings.host.token_of((const void *)code,
                                                l->code_bytes + 2 * units);
    if (token != 0)
        return mts_lang_mix(h ^ code, token << 1 | 1);
    uintptr_t table = mts_lang_load_word(code + l->code_table);
    size_t bytes = mts_lang_load_word(table + l->bytes_size);
    h = mts_lang_mix(h ^ (uint64_t)load_int(code + l->code_first_line), bytes);
    h = mix_text(l, h, mts_lang_load_word(code + l->code_filename));
    h = mix_text(l, h, mts_lang_load_word(code + l->code_name));
    return mts_lang_mix_bytes(h, (const void *)(table + l->bytes_data), bytes);
}

static inline uint64_t mix_frame(const struct python *py, uint64_t h,
                                 const struct mts_lang_frame *frame) {
    return mix_code(py, mts_lang_mix(h, frame->detail), frame->code);
}

static uint64_t mix(const struct mts_lang_interpreter *it, uint64_t h,
                    const struct mts_lang_frame *frame) {
    return mix_frame((const struct python *)it, h, frame);
}

/* The instruction that FRAME runs, in bytes from the first one of CODE. */
static inline uintptr_t place_in(const struct mts_python_layout *l,
                                 uintptr_t frame, uintptr_t code) {
    if (TCM_LIKELY(l->form == MTS_PYTHON_LOCATIONS))
        return mts_lang_load_word(frame + l->frame_instr) -
               (code + l->code_bytes);
    intptr_t number = load_int(frame + l->frame_instr);
    return (uintptr_t)(l->form == MTS_PYTHON_RANGES ? 2 * number : number);
}

/* True if FRAME has no Python code: it stands where the interpreter was
   entered, and lies in the C frame of the function that runs lines. */
static TCM_ALWAYS_INLINE bool is_of_c(const struct mts_python_layout *l,
                                      uintptr_t frame) {
    return l->frame_owner != MTS_PYTHON_NONE &&
           *(const uint8_t *)(frame + l->frame_owner) >= MTS_PYTHON_OWNED_BY_C;
}

/* True if CODE is a stub of the interpreter, which 3.13 runs between a class
   and its constructor: code in its file that has no line. */
static TCM_ALWAYS_INLINE bool is_stub(const struct python *py, uintptr_t code) {
    return TCM_UNLIKELY(code - py->it.start < py->it.bytes) &&
           load_int(code + py->layout.code_first_line) == 0;
}

/*
 * True if STATE, that of the thread which holds the interpreter's lock, is one
 * of the calling thread in a sub-interpreter. Before 3.12 the C library's
 * variable of a thread keeps only the first state that it had.
 *
 * STATE may be another thread's, and be freed meanwhile: it lies in the
 * program's heap, whose pages stay readable, and nothing that it points to is
 * read before both facts are known. The state was made by this thread, and its
 * C frame lies in the calls that this thread makes now; a thread that another
 * one hands the state to has its C frame on a stack of its own. 3.9 has no C
 * frame.
 */
static TCM_NOINLINE bool is_sub_state(const struct python *py,
                                      uintptr_t state) {
    static bool complained;
    const struct mts_python_layout *l = &py->layout;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    bool before = false;
    if (state == 0 || l->state_thread == MTS_PYTHON_NONE ||
        mts_lang_load_word(state + l->state_thread) !=
            (uintptr_t)pthread_self())
        return false;
    if (l->state_c_frame != MTS_PYTHON_NONE)
        return mts_lang_load_word(state + l->state_c_frame) - here <
               mts_stack_top() - here;
    if (tcm_cas_acq_rel(&complained, &before, true))
        mts_settings.host.complain(MTS_LANG_NO_LINES
                                   "Python's sub-interpreters, which are read "
                                   "from 3.10 on",
                                   NULL, 0);
    return false;
}

static TCM_ALWAYS_INLINE void walk_of(const struct python *py,
                                      struct mts_lang_walk *w, uint32_t depth) {
    const struct mts_python_layout *l = &py->layout;
    uint32_t owner = tcm_load_relaxed(&w->owner);
    uintptr_t own = (uintptr_t)py->own_state(), code;
    uintptr_t state = (uintptr_t)py->current_state();
    if (own == 0 || !mts_lang_is_owner(w, owner) ||
        (own != state && !is_sub_state(py, state)))
        return;
    if (TCM_UNLIKELY(!mts_lang_is(&py->it, MTS_LANG_TRUSTED)) &&
        (mts_lang_is(&py->it, MTS_LANG_REFUSED) ||
         !mts_lang_judge(&py->it, mts_python_try(l, &py->types, state))))
        return;
    uint64_t h = w->salt = mts_lang_load_word(state + INTERPRETER);
    if (l->state_c_frame != MTS_PYTHON_NONE) {
        w->outer = mts_lang_load_word(state + l->state_c_frame);
        if (w->outer == 0)
            return;
        state = l->has_frame_in_c ? w->outer : state;
    }
    uintptr_t frame = mts_lang_load_word(state + l->state_frame);
    for (; frame != 0; frame = mts_lang_load_word(frame + l->frame_previous)) {
        if (is_of_c(l, frame)) {
            if (w->outer == 0)
                w->outer = frame;
            continue;
        }
        code = mts_python_code(mts_lang_load_word(frame + l->frame_code));
        if (code == 0 ||
            mts_lang_load_word(code + MTS_PYTHON_OBJECT_TYPE) !=
                py->types.code ||
            is_stub(py, code))
            continue;
        if (w->count == depth) {
            w->cut = true;
            break;
        }
        w->frame[w->count] =
            (struct mts_lang_frame){code, place_in(l, frame, code)};
        h = mix_frame(py, h, &w->frame[w->count++]);
    }
    w->key = h;
}

static void walk(struct mts_lang_walk *w, uint32_t depth) {
    walk_of(&initial, w, depth);
}

static void walk_late(const struct mts_lang_interpreter *it,
                      struct mts_lang_walk *w, uint32_t depth) {
    walk_of((const struct python *)it, w, depth);
}

/* --- Names --------------------------------------------------------------- */

static uint32_t put_utf8(char *to, uint32_t c) {
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    /* A byte of a name that is not UTF-8 is stored as half of a surrogate
       pair. */
    if (c >= 0xD800 && c < 0xE000)
        c = '?';
    if (c == '?')
        return put_utf8(to, c);
    uint32_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t first[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (uint32_t i = n; --i > 0; c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3F));
    to[0] = (char)(first[n] | c);
    return n;
}

static uint32_t copy_text(const struct mts_python_layout *l, uintptr_t text,
                          char *to) {
    unsigned width;
    size_t count;
    uint32_t n = 0;
    const char *p = text_at(l, text, &width, &count);
    for (size_t i = 0; i < count && n + 4 <= MTF_SITE_TEXT_MAX; i++) {
        uint32_t c = width == 1   ? ((const uint8_t *)p)[i]
                     : width == 2 ? ((const uint16_t *)(const void *)p)[i]
                                  : ((const uint32_t *)(const void *)p)[i];
        n += put_utf8(to + n, c);
    }
    return n;
}

static uint32_t file(const struct mts_lang_interpreter *it,
                     const struct mts_lang_frame *frame, char *to) {
    const struct mts_python_layout *l = &((const struct python *)it)->layout;
    return copy_text(l, mts_lang_load_word(frame->code + l->code_filename), to);
}

static uint32_t function(const struct mts_lang_interpreter *it,
                         const struct mts_lang_frame *frame, char *to) {
    const struct mts_python_layout *l = &((const struct python *)it)->layout;
    return copy_text(l, mts_lang_load_word(frame->code + l->code_name), to);
}

/* --- Line ---------------------------------------------------------------- */

struct table {
    const uint8_t *p, *end;
};
#define NO_LINE (-128) /* step of a range that has no line */

static int32_t get_signed(struct table *t) {
    uint32_t v = 0;
    for (unsigned shift = 0; t->p < t->end && shift < 32; shift += 6) {
        uint8_t byte = *t->p++;
        v |= (uint32_t)(byte & 63) << shift;
        if ((byte & 64) == 0)
            break;
    }
    return (v & 1) != 0 ? -(int32_t)(v >> 1) : (int32_t)(v >> 1);
}

/* A table of pairs of bytes: a length, and the line's step, from the entry
   before on. */
static uint32_t line_in_pairs(struct table t, enum mts_python_table form,
                              int32_t first, intptr_t where) {
    int32_t now = first;
    intptr_t end = 0;
    bool has_steps = form == MTS_PYTHON_STEPS;
    for (; where >= 0 && t.end - t.p >= 2; t.p += 2) {
        int32_t step = (int8_t)t.p[1];
        end += t.p[0];
        /* A step counts from the address behind it on, a range for what lies
           before its end. */
        if (has_steps && end > where)
            break;
        if (has_steps || step != NO_LINE)
            now += step;
        if (!has_steps && end > where)
            return (uint32_t)(step == NO_LINE ? first : now);
    }
    return (uint32_t)now;
}

/*
 * A table of locations has an entry for each run of instructions: a byte with
 * bit 7 set, kind, and length in units of two bytes; then the operands of the
 * kind, in which bit 7 is clear.
 */
enum { KIND_ONE_LINE = 10, KIND_NO_COLUMNS = 13, KIND_LONG, KIND_NONE };

static uint32_t line_in_locations(struct table t, int32_t first,
                                  intptr_t where) {
    int32_t now = first;
    intptr_t end = 0;
    while (where >= 0 && t.p < t.end) {
        unsigned head = *t.p++, kind = head >> 3 & 15;
        if (kind == KIND_NO_COLUMNS || kind == KIND_LONG)
            now += get_signed(&t);
        else if (kind >= KIND_ONE_LINE && kind < KIND_NO_COLUMNS)
            now += (int32_t)kind - KIND_ONE_LINE;
        end += 2 * (intptr_t)((head & 7) + 1);
        if (where < end)
            return (uint32_t)(kind == KIND_NONE ? first : now);
        while (t.p < t.end && (*t.p & 0x80) == 0)
            t.p++;
    }
    return (uint32_t)first;
}

static uint32_t line(const struct mts_lang_interpreter *it,
                     const struct mts_lang_frame *frame) {
    const struct mts_python_layout *l = &((const struct python *)it)->layout;
    uintptr_t bytes = mts_lang_load_word(frame->code + l->code_table);
    const uint8_t *p = (const uint8_t *)(bytes + l->bytes_data);
    struct table t = {p, p + mts_lang_load_word(bytes + l->bytes_size)};
    int32_t first = load_int(frame->code + l->code_first_line);
    intptr_t where = (intptr_t)frame->detail;
    return l->form == MTS_PYTHON_LOCATIONS
               ? line_in_locations(t, first, where)
               : line_in_pairs(t, l->form, first, where);
}

const struct mts_lang_reader mts_lang_python = {
    .name = "Python",
    .refusal = MTS_LANG_REFUSAL("Python"),
    .language = MTF_LANGUAGE_PYTHON,
    .symbols = symbols,
    .first = &initial.it,
    .bytes = sizeof(struct python),
    .layouts = mts_python_layouts,
    .layout_count = MTS_PYTHON_LAYOUTS,
    .layout_bytes = sizeof(mts_python_layouts[0]),
    .version = version,
    .begin = begin,
    .walk = walk,
    .walk_late = walk_late,
    .mix = mix,
    .file = file,
    .function = function,
    .line = line,
};
