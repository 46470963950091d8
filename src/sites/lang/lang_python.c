/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CPython 3.11 to 3.13: the frames of the calling thread, with file, line and
 * qualified name.
 *
 * A thread's frames are a list that begins in its thread state. A frame keeps
 * its code object alive, and the code object its texts and its table of lines;
 * none of them is ever changed. So what is read here is valid while the thread
 * itself runs and holds the interpreter's lock, which is when the current
 * thread state is its own. A frame is put into the list after it was filled in,
 * and taken out before it is cleared (since 3.11.1; 3.11.0 is therefore not
 * read).
 *
 * Certain: the lines read are those that run. Not certain: a signal handler
 * that allocates may come between two stores of the interpreter which a
 * compiler has put into another order; those of 3.11 to 3.13 are in order on
 * x86-64.
 *
 * Offsets: a table for 3.11 and 3.12; 3.13 publishes them at the start of
 * _PyRuntime. Texts are read in the compact form, which all names have.
 * Free-threaded builds are not read.
 */
#include "sites/lang/lang_reader.h"

#include "sites/site_settings.h"

enum {
    SYMBOL_RUNTIME,
    SYMBOL_VERSION,
    SYMBOL_CODE_TYPE,
    SYMBOL_OWN_STATE,
    SYMBOL_CURRENT,
    SYMBOL_CURRENT_3_13
};
static const struct mts_lang_symbol symbols[] = {
    {.name = "_PyRuntime", .needed = true},
    {.name = "Py_Version", .needed = true},
    {.name = "PyCode_Type", .needed = true},
    {.name = "PyGILState_GetThisThreadState", .needed = true},
    {.name = "_PyThreadState_UncheckedGet"},
    {.name = "PyThreadState_GetUnchecked"},
    {.name = "_PyEval_EvalFrameDefault", .is_loop = true},
    {.name = NULL},
};

typedef void *get_state(void);

/* An interpreter; the numbers are offsets. */
struct python {
    struct mts_lang_interpreter it;
    get_state *current_state, *own_state;
    uint32_t state_frame;  /* in a thread state: frame or cframe */
    uint32_t cframe_frame; /* UINT32_MAX: the thread state has no cframe */
    uint32_t frame_code, frame_previous, frame_instr, frame_owner;
    uint32_t code_filename, code_qualname, code_linetable, code_firstlineno;
    uint32_t code_bytes;   /* instructions */
    uint32_t code_version; /* 0: code has no version number */
    uint32_t bytes_size, bytes_data;
    uint32_t text_length, text_hash, text_state, text_ascii, text_compact;
};
static struct python initial;

#define NO_CFRAME      UINT32_MAX
#define CODE_VERSION   92u /* 3.12; 3.13 does not publish it */
#define CODE_UNITS     16u
#define INTERPRETER    16u
#define OBJECT_TYPE    8u
#define TEXT_HASH      24u /* 3.13 does not publish it */
#define OWNED_BY_STACK 3u  /* from this value on: no frame of Python code */

static inline int32_t load_int(uintptr_t p) {
    return *(const int32_t *)p;
}

/* --- Set-up -------------------------------------------------------------- */

/* Sets the offsets of 3.11 or 3.12. */
static void common_offsets(struct python *py, bool is_3_11) {
    py->state_frame = 56;
    py->cframe_frame = is_3_11 ? 8 : 0;
    py->frame_code = is_3_11 ? 32 : 0;
    py->frame_previous = is_3_11 ? 48 : 8;
    py->frame_instr = 56;
    py->frame_owner = is_3_11 ? 69 : 70;
    py->code_filename = 112;
    py->code_qualname = 128;
    py->code_linetable = 136;
    py->code_firstlineno = is_3_11 ? 72 : 68;
    py->code_bytes = is_3_11 ? 184 : 192;
    py->code_version = is_3_11 ? 0 : CODE_VERSION;
    py->bytes_size = 16;
    py->bytes_data = 32;
    py->text_length = 16;
    py->text_hash = TEXT_HASH;
    py->text_state = 32;
    py->text_ascii = is_3_11 ? 48 : 40;
    py->text_compact = is_3_11 ? 72 : 56;
}

/* Positions of the numbers at the start of _PyRuntime in 3.13. */
enum {
    PUBLISHED_VERSION = 1,
    PUBLISHED_FREE_THREADED = 2,
    PUBLISHED_STATE_FRAME = 23,
    PUBLISHED_FRAME_PREVIOUS = 29,
    PUBLISHED_FRAME_EXECUTABLE = 30,
    PUBLISHED_FRAME_INSTR = 31,
    PUBLISHED_FRAME_OWNER = 33,
    PUBLISHED_CODE_FILENAME = 35,
    PUBLISHED_CODE_QUALNAME = 37,
    PUBLISHED_CODE_LINETABLE = 38,
    PUBLISHED_CODE_FIRSTLINENO = 39,
    PUBLISHED_CODE_BYTES = 43,
    PUBLISHED_BYTES_SIZE = 65,
    PUBLISHED_BYTES_DATA = 66,
    PUBLISHED_TEXT_STATE = 68,
    PUBLISHED_TEXT_LENGTH = 69,
    PUBLISHED_TEXT_ASCII = 70
};
#define PUBLISHED_LIMIT 4096u

static bool read_published(const uint64_t *p, unsigned which, uint32_t *to) {
    *to = (uint32_t)p[which];
    return p[which] < PUBLISHED_LIMIT;
}

static bool offsets_of_3_13(struct python *py, uint64_t version) {
    const uint64_t *p = (const uint64_t *)py->it.place[SYMBOL_RUNTIME].at;
    if (memcmp(p, "xdebugpy", 8) != 0 || p[PUBLISHED_VERSION] != version ||
        p[PUBLISHED_FREE_THREADED] != 0)
        return false;
    py->cframe_frame = NO_CFRAME;
    py->text_compact = 56;
    py->text_hash = TEXT_HASH;
    py->code_version = CODE_VERSION;
    return read_published(p, PUBLISHED_STATE_FRAME, &py->state_frame) &&
           read_published(p, PUBLISHED_FRAME_PREVIOUS, &py->frame_previous) &&
           read_published(p, PUBLISHED_FRAME_EXECUTABLE, &py->frame_code) &&
           read_published(p, PUBLISHED_FRAME_INSTR, &py->frame_instr) &&
           read_published(p, PUBLISHED_FRAME_OWNER, &py->frame_owner) &&
           read_published(p, PUBLISHED_CODE_FILENAME, &py->code_filename) &&
           read_published(p, PUBLISHED_CODE_QUALNAME, &py->code_qualname) &&
           read_published(p, PUBLISHED_CODE_LINETABLE, &py->code_linetable) &&
           read_published(p, PUBLISHED_CODE_FIRSTLINENO,
                          &py->code_firstlineno) &&
           read_published(p, PUBLISHED_CODE_BYTES, &py->code_bytes) &&
           read_published(p, PUBLISHED_BYTES_SIZE, &py->bytes_size) &&
           read_published(p, PUBLISHED_BYTES_DATA, &py->bytes_data) &&
           read_published(p, PUBLISHED_TEXT_STATE, &py->text_state) &&
           read_published(p, PUBLISHED_TEXT_LENGTH, &py->text_length) &&
           read_published(p, PUBLISHED_TEXT_ASCII, &py->text_ascii);
}

static bool is_known(struct mts_lang_interpreter *it) {
    struct python *py = (struct python *)it;
    uint64_t version = *(const unsigned long *)it->place[SYMBOL_VERSION].at;
    unsigned minor = (unsigned)(version >> 16);
    intptr_t current = it->place[SYMBOL_CURRENT].at;
    if (current == 0)
        current = it->place[SYMBOL_CURRENT_3_13].at;
    if (current == 0 || version < 0x030B0100)
        return false;
    py->current_state = (get_state *)current;
    py->own_state = (get_state *)it->place[SYMBOL_OWN_STATE].at;
    if (minor == 0x030D)
        return offsets_of_3_13(py, version);
    common_offsets(py, minor == 0x030B);
    return minor == 0x030B || minor == 0x030C;
}

/* --- Walk ---------------------------------------------------------------- */

static inline const char *text_at(const struct python *py, uintptr_t text,
                                  unsigned *width, size_t *count) {
    uint32_t state = *(const uint32_t *)(text + py->text_state);
    *width = state >> 2 & 7;
    *count = mts_lang_load_word(text + py->text_length);
    if ((state >> 5 & 1) == 0)
        *count = 0;
    return (const char *)text +
           ((state >> 6 & 1) != 0 ? py->text_ascii : py->text_compact);
}

/* Mixes a text into H: its 64-bit hash if Python has computed one, else its
   bytes. */
static inline uint64_t mix_text(const struct python *py, uint64_t h,
                                uintptr_t text) {
    uint64_t known = mts_lang_load_word(text + py->text_hash);
    unsigned width;
    size_t count;
    if (known != UINT64_MAX)
        return mts_lang_mix(h, known);
    const char *bytes = text_at(py, text, &width, &count);
    return mts_lang_mix_bytes(h ^ count * width, bytes, count * width);
}

/*
 * Mixes the identity of CODE into H, the cheapest that is certain:
 *
 * - since 3.12 the number that an interpreter gives its code, and never gives
 *   twice;
 * - the address of code in the interpreter's file, which is not made anew;
 * - the token of a block of this heap, which code above 512 bytes is: no other
 *   block has it;
 * - else its contents.
 */
static inline uint64_t mix_code(const struct python *py, uint64_t h,
                                uintptr_t code) {
    uint64_t version = py->code_version == 0
                           ? 0
                           : *(const uint32_t *)(code + py->code_version);
    if (version != 0)
        return mts_lang_mix(h ^ code, version);
    if (code - py->it.start < py->it.bytes)
        return mts_lang_mix(h ^ code, 0);
    uint64_t token = mts_settings.host.token_of(
        (const void *)code,
        py->code_bytes + 2 * mts_lang_load_word(code + CODE_UNITS));
    if (token != 0)
        return mts_lang_mix(h ^ code, token << 1 | 1);
    uintptr_t table = mts_lang_load_word(code + py->code_linetable);
    size_t bytes = mts_lang_load_word(table + py->bytes_size);
    h = mts_lang_mix(h ^ (uint64_t)load_int(code + py->code_firstlineno),
                     bytes);
    h = mix_text(py, h, mts_lang_load_word(code + py->code_filename));
    h = mix_text(py, h, mts_lang_load_word(code + py->code_qualname));
    return mts_lang_mix_bytes(h, (const void *)(table + py->bytes_data), bytes);
}

static inline uint64_t mix_frame(const struct python *py, uint64_t h,
                                 const struct mts_lang_frame *frame) {
    return mix_code(py, mts_lang_mix(h, frame->detail), frame->code);
}

static uint64_t mix(const struct mts_lang_interpreter *it, uint64_t h,
                    const struct mts_lang_frame *frame) {
    return mix_frame((const struct python *)it, h, frame);
}

static TCM_ALWAYS_INLINE void walk_of(const struct python *py,
                                      struct mts_lang_walk *w, uint32_t depth) {
    uint32_t owner = tcm_load_relaxed(&w->owner);
    uintptr_t state = (uintptr_t)py->own_state(), code;
    if (state == 0 || state != (uintptr_t)py->current_state() ||
        !mts_lang_is_owner(w, owner))
        return;
    uintptr_t frame = mts_lang_load_word(state + py->state_frame);
    if (py->cframe_frame != NO_CFRAME && frame != 0) {
        w->outer = frame;
        frame = mts_lang_load_word(frame + py->cframe_frame);
    }
    uint64_t h = w->salt = mts_lang_load_word(state + INTERPRETER);
    for (; frame != 0; frame = mts_lang_load_word(frame + py->frame_previous)) {
        if (*(const uint8_t *)(frame + py->frame_owner) >= OWNED_BY_STACK) {
            if (w->outer == 0)
                w->outer = frame;
            continue;
        }
        code = mts_lang_load_word(frame + py->frame_code);
        if (code == 0 || mts_lang_load_word(code + OBJECT_TYPE) !=
                             (uintptr_t)py->it.place[SYMBOL_CODE_TYPE].at)
            continue;
        if (w->count == depth) {
            w->cut = true;
            break;
        }
        uintptr_t where = mts_lang_load_word(frame + py->frame_instr) -
                          (code + py->code_bytes);
        w->frame[w->count] = (struct mts_lang_frame){code, where};
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

static uint32_t copy_text(const struct python *py, uintptr_t text, char *to) {
    unsigned width;
    size_t count;
    uint32_t n = 0;
    const char *p = text_at(py, text, &width, &count);
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
    const struct python *py = (const struct python *)it;
    return copy_text(py, mts_lang_load_word(frame->code + py->code_filename),
                     to);
}

static uint32_t function(const struct mts_lang_interpreter *it,
                         const struct mts_lang_frame *frame, char *to) {
    const struct python *py = (const struct python *)it;
    return copy_text(py, mts_lang_load_word(frame->code + py->code_qualname),
                     to);
}

/* --- Line ---------------------------------------------------------------- */

struct table {
    const uint8_t *p, *end;
};

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

/*
 * The table has an entry for each run of instructions: a byte with bit 7 set,
 * kind, and length in units of two bytes; then the operands of the kind, in
 * which bit 7 is clear.
 */
enum { KIND_ONE_LINE = 10, KIND_NO_COLUMNS = 13, KIND_LONG, KIND_NONE };

static uint32_t line(const struct mts_lang_interpreter *it,
                     const struct mts_lang_frame *frame) {
    const struct python *py = (const struct python *)it;
    uintptr_t code = frame->code,
              bytes = mts_lang_load_word(code + py->code_linetable);
    const uint8_t *p = (const uint8_t *)(bytes + py->bytes_data);
    struct table t = {p, p + mts_lang_load_word(bytes + py->bytes_size)};
    int32_t first = load_int(code + py->code_firstlineno), now = first;
    intptr_t end = 0, where = (intptr_t)frame->detail;
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

const struct mts_lang_reader mts_lang_python = {
    .name = "Python",
    .language = MTF_LANGUAGE_PYTHON,
    .symbols = symbols,
    .first = &initial.it,
    .bytes = sizeof(struct python),
    .is_known = is_known,
    .walk = walk,
    .walk_late = walk_late,
    .mix = mix,
    .file = file,
    .function = function,
    .line = line,
};
