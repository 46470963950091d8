/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Versions of CPython.
 *
 * Since 3.13 an interpreter publishes offsets at the start of _PyRuntime: a
 * cookie, its version, and one part for each structure, which begins with the
 * size of the structure. Each version inserts parts, and members at the end of
 * parts, so parts are found by what they must contain: sizes that other
 * exported variables tell, and offsets that have to lie in their structure. A
 * part that is found twice, or in another order, is not believed. So a version
 * that is not known yet is read if it has these parts.
 *
 * Neither a table nor published offsets prove themselves: an interpreter can be
 * built in other ways, and structures change in what is not published. Hence
 * the trial.
 */
#include "sites/lang/lang_python.h"

#include "base/bits.h"

#define NONE MTS_PYTHON_NONE

/* Code has a version number at this offset in 3.12 to 3.14, which do not
   publish it. */
#define CODE_VERSION       92u
#define CODE_VERSION_UP_TO MTS_LANG_VERSION(3, 14, MTS_LANG_LAST_MICRO)

const struct mts_python_layout mts_python_layouts[MTS_PYTHON_LAYOUTS] = {
    {.of = MTS_LANG_SERIES(3, 9, 0),
     .form = MTS_PYTHON_STEPS,
     .state_c_frame = NONE,
     .state_frame = 24,
     .state_thread = 176,
     .frame_code = 32,
     .frame_previous = 24,
     .frame_owner = NONE,
     .frame_instr = 104,
     .code_filename = 104,
     .code_name = 112,
     .code_table = 120,
     .code_first_line = 40,
     .code_bytes = 176,
     .code_version = NONE,
     .bytes_size = 16,
     .bytes_data = 32,
     .text_length = 16,
     .text_hash = 24,
     .text_state = 32,
     .text_ascii = 48,
     .text_compact = 72},
    {.of = MTS_LANG_SERIES(3, 10, 0),
     .form = MTS_PYTHON_RANGES,
     .state_c_frame = 48,
     .state_frame = 24,
     .state_thread = 176,
     .frame_code = 32,
     .frame_previous = 24,
     .frame_owner = NONE,
     .frame_instr = 96,
     .code_filename = 104,
     .code_name = 112,
     .code_table = 120,
     .code_first_line = 40,
     .code_bytes = 176,
     .code_version = NONE,
     .bytes_size = 16,
     .bytes_data = 32,
     .text_length = 16,
     .text_hash = 24,
     .text_state = 32,
     .text_ascii = 48,
     .text_compact = 72},
    /* Before 3.11.1 a frame is cleared before it leaves the list. */
    {.of = MTS_LANG_SERIES(3, 11, 1),
     .form = MTS_PYTHON_LOCATIONS,
     .has_frame_in_c = true,
     .state_c_frame = 56,
     .state_frame = 8,
     .state_thread = 152,
     .frame_code = 32,
     .frame_previous = 48,
     .frame_owner = 69,
     .frame_instr = 56,
     .code_filename = 112,
     .code_name = 128,
     .code_table = 136,
     .code_first_line = 72,
     .code_bytes = 184,
     .code_version = NONE,
     .bytes_size = 16,
     .bytes_data = 32,
     .text_length = 16,
     .text_hash = 24,
     .text_state = 32,
     .text_ascii = 48,
     .text_compact = 72},
    {.of = MTS_LANG_SERIES(3, 12, 0),
     .form = MTS_PYTHON_LOCATIONS,
     .has_frame_in_c = true,
     .state_c_frame = 56,
     .state_frame = 0,
     .state_thread = NONE,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_owner = 70,
     .frame_instr = 56,
     .code_filename = 112,
     .code_name = 128,
     .code_table = 136,
     .code_first_line = 68,
     .code_bytes = 192,
     .code_version = CODE_VERSION,
     .bytes_size = 16,
     .bytes_data = 32,
     .text_length = 16,
     .text_hash = 24,
     .text_state = 32,
     .text_ascii = 40,
     .text_compact = 56},
    {.of = {MTS_LANG_VERSION(3, 13, 0), MTS_LANG_VERSION(3, 0xFF, 0xFF)},
     .is_published = true,
     .form = MTS_PYTHON_LOCATIONS,
     .state_c_frame = NONE,
     .state_thread = NONE},
};

/* --- Types ---------------------------------------------------------------- */

#define TYPE_INSTANCE_BYTES 32u

/* Sizes of instances without what varies. */
struct sizes {
    uint64_t code, text, bytes;
};

static struct sizes sizes_of(const struct mts_python_types *types) {
    return (struct sizes){
        mts_lang_load_word(types->code + TYPE_INSTANCE_BYTES),
        mts_lang_load_word(types->text + TYPE_INSTANCE_BYTES),
        mts_lang_load_word(types->bytes + TYPE_INSTANCE_BYTES)};
}

/* A text that is not compact has a pointer behind the compact form's members; a
   byte string has its end mark. */
bool mts_python_fits(const struct mts_python_layout *l,
                     const struct mts_python_types *types) {
    struct sizes size = sizes_of(types);
    return size.code == l->code_bytes &&
           size.text == (uint64_t)l->text_compact + sizeof(uintptr_t) &&
           size.bytes == (uint64_t)l->bytes_data + 1;
}

/* --- Published offsets ---------------------------------------------------- */

enum { WORD_COOKIE, WORD_VERSION, WORD_FREE_THREADED, FIRST_PART };
#define WORDS_MAX  160u
#define PART_WORDS 10u /* that are looked at */
#define BYTES_MAX  4096u

/* True if an aligned member of BYTES bytes at OFFSET lies in SIZE bytes. */
static bool is_member(uint64_t offset, uint64_t size, uint64_t bytes) {
    return offset < size && bytes <= size - offset && offset % bytes == 0;
}

static bool are_pointers(const uint64_t *offset, unsigned n, uint64_t size) {
    for (unsigned i = 0; i < n; i++) {
        if (!is_member(offset[i], size, sizeof(uintptr_t)))
            return false;
        for (unsigned k = 0; k < i; k++)
            if (offset[k] == offset[i])
                return false;
    }
    return true;
}

/* Thread state: previous and next one, interpreter, frame. */
static bool is_state(const uint64_t *w, const struct sizes *size) {
    (void)size;
    return w[0] <= BYTES_MAX && w[1] == 0 && w[2] == 8 && w[3] == 16 &&
           are_pointers(w + 1, 4, w[0]);
}

/* Frame: previous one, code, instruction, variables (the last member, one word
   of which counts), owner. */
static bool is_frame(const uint64_t *w, const struct sizes *size) {
    (void)size;
    return w[0] <= BYTES_MAX && w[4] + sizeof(uintptr_t) == w[0] &&
           are_pointers(w + 1, 3, w[4]) && w[5] < w[4];
}

/* Code: file, name, qualified name, table of lines, first line; the ninth is
   instructions, the last member. */
static bool is_code(const uint64_t *w, const struct sizes *size) {
    return w[0] <= BYTES_MAX && w[9] == size->code && w[9] <= w[0] &&
           are_pointers(w + 1, 4, w[9]) &&
           is_member(w[5], w[9], sizeof(uint32_t));
}

/* Byte string: count of bytes, bytes. */
static bool is_bytes(const uint64_t *w, const struct sizes *size) {
    return w[0] <= BYTES_MAX && w[1] == MTS_PYTHON_OBJECT_COUNT &&
           w[2] + 1 == size->bytes &&
           w[0] == tcm_align_up(w[2] + 1, sizeof(uintptr_t));
}

/* Text: state, length, size of the ASCII form, which lacks two members of the
   compact form. The hash lies between length and state. */
static bool is_text(const uint64_t *w, const struct sizes *size) {
    return w[0] <= BYTES_MAX && w[0] == size->text && w[1] == w[2] + 16 &&
           w[2] == MTS_PYTHON_OBJECT_COUNT &&
           is_member(w[1], w[3], sizeof(uint32_t)) && w[3] + 24 == w[0];
}

/* The part that IS tells among the COUNT words from WORD[FROM] on; 0: there is
   none, or more than one. */
static size_t find_part(const uint64_t *word, size_t from, size_t count,
                        bool (*is)(const uint64_t *, const struct sizes *),
                        const struct sizes *size) {
    size_t found = 0;
    for (size_t i = FIRST_PART; i + PART_WORDS <= count; i++) {
        if (!is(word + i, size))
            continue;
        if (found != 0)
            return 0;
        found = i;
    }
    return found < from ? 0 : found;
}

static void set_offsets(const uint64_t *state, const uint64_t *frame,
                        const uint64_t *code, const uint64_t *bytes,
                        const uint64_t *text, struct mts_python_layout *to) {
    to->state_frame = (uint32_t)state[4];
    to->frame_previous = (uint32_t)frame[1];
    to->frame_code = (uint32_t)frame[2];
    to->frame_instr = (uint32_t)frame[3];
    to->frame_owner = (uint32_t)frame[5];
    to->code_filename = (uint32_t)code[1];
    to->code_name = (uint32_t)code[3];
    to->code_table = (uint32_t)code[4];
    to->code_first_line = (uint32_t)code[5];
    to->code_bytes = (uint32_t)code[9];
    to->bytes_size = (uint32_t)bytes[1];
    to->bytes_data = (uint32_t)bytes[2];
    to->text_state = (uint32_t)text[1];
    to->text_length = (uint32_t)text[2];
    to->text_hash = (uint32_t)text[2] + 8;
    to->text_ascii = (uint32_t)text[3];
    to->text_compact = (uint32_t)text[3] + 16;
}

bool mts_python_read_offsets(const uint64_t *word, size_t count,
                             uint64_t version,
                             const struct mts_python_types *types,
                             struct mts_python_layout *to) {
    static const struct {
        bool (*is)(const uint64_t *, const struct sizes *);
    } part[] = {{is_state}, {is_frame}, {is_code}, {is_bytes}, {is_text}};
    const uint64_t *found[TCM_ARRAY_SIZE(part)];
    struct sizes size = sizes_of(types);
    size_t at = FIRST_PART - 1;
    count = tcm_min_u64(count, WORDS_MAX);
    if (count < FIRST_PART ||
        memcmp(word + WORD_COOKIE, "xdebugpy", sizeof(uint64_t)) != 0 ||
        word[WORD_VERSION] != version || word[WORD_FREE_THREADED] != 0)
        return false;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(part); i++) {
        at = find_part(word, at + 1, count, part[i].is, &size);
        if (at == 0)
            return false;
        found[i] = word + at;
    }
    set_offsets(found[0], found[1], found[2], found[3], found[4], to);
    /* The names of variables stand behind the version number. */
    bool has_version = version >> 8 <= CODE_VERSION_UP_TO &&
                       found[2][7] == CODE_VERSION + sizeof(uint32_t);
    to->code_version = has_version ? CODE_VERSION : NONE;
    return true;
}

/* --- Trial ---------------------------------------------------------------- */

#define TRIAL_FRAMES   256u
#define NAME_MAX_CHARS 65536u
#define TABLE_MAX      ((uintptr_t)1 << 24)
#define OWNER_MAX      15u
#define LOCATION_UNITS 8u /* most that an entry of a table is for */

static bool is_of_type(uintptr_t object, uintptr_t type) {
    uintptr_t found;
    return object % sizeof(uintptr_t) == 0 &&
           mts_lang_try_word(&found, object + MTS_PYTHON_OBJECT_TYPE) &&
           found == type;
}

/* True if AT is a text in the compact form with its end mark. */
static bool is_name(const struct mts_python_layout *l,
                    const struct mts_python_types *types, uintptr_t at) {
    uint32_t state, end = 0;
    uintptr_t count;
    if (!is_of_type(at, types->text) ||
        !mts_lang_try_copy(&state, at + l->text_state, sizeof(state)) ||
        !mts_lang_try_word(&count, at + l->text_length) ||
        count > NAME_MAX_CHARS)
        return false;
    uint32_t width = state >> 2 & 7;
    bool is_compact = (state >> 5 & 1) != 0, is_ascii = (state >> 6 & 1) != 0;
    if (!is_compact || (width != 1 && width != 2 && width != 4) ||
        (is_ascii && width != 1))
        return false;
    at += (is_ascii ? l->text_ascii : l->text_compact) + count * width;
    return mts_lang_try_copy(&end, at, width) && end == 0;
}

/* True if the byte string at AT is a table of lines for CODE bytes. The last
   entry of a table of locations may reach beyond the code. */
static bool is_table(const struct mts_python_layout *l,
                     const struct mts_python_types *types, uintptr_t at,
                     uintptr_t code) {
    uint8_t part[256];
    uintptr_t size, covered = 0;
    if (!is_of_type(at, types->bytes) ||
        !mts_lang_try_word(&size, at + l->bytes_size) || size > TABLE_MAX)
        return false;
    for (uintptr_t done = 0; done < size; done += sizeof(part)) {
        size_t n = tcm_min_u64(size - done, sizeof(part));
        if (!mts_lang_try_copy(part, at + l->bytes_data + done, n))
            return false;
        /* An entry begins with a byte that has bit 7, and has no other. */
        if (l->form == MTS_PYTHON_LOCATIONS && done == 0 && part[0] < 0x80)
            return false;
        for (size_t i = 0; i < n; i++)
            if (l->form != MTS_PYTHON_LOCATIONS)
                covered += i % 2 == 0 ? part[i] : 0;
            else if (part[i] >= 0x80)
                covered += 2 * ((part[i] & 7u) + 1);
    }
    if (l->form == MTS_PYTHON_LOCATIONS)
        return covered >= code && covered - code < 2 * LOCATION_UNITS;
    return l->form == MTS_PYTHON_STEPS ? covered <= code : covered == code;
}

/* Sets *BYTES to the length of CODE's instructions, and *START to the value of
   a frame's INSTR at the first one. */
static bool get_instructions(const struct mts_python_layout *l,
                             const struct mts_python_types *types,
                             uintptr_t code, uintptr_t *bytes,
                             uintptr_t *start) {
    *start = 0;
    if (l->form != MTS_PYTHON_LOCATIONS) {
        uintptr_t text;
        return mts_lang_try_word(&text, code + MTS_PYTHON_CODE_TEXT) &&
               is_of_type(text, types->bytes) &&
               mts_lang_try_word(bytes, text + l->bytes_size);
    }
    *start = code + l->code_bytes;
    if (!mts_lang_try_word(bytes, code + MTS_PYTHON_OBJECT_COUNT) ||
        *bytes > TABLE_MAX)
        return false;
    *bytes *= 2;
    return true;
}

/* True if the instruction of FRAME is one of CODE, or the one before, as in a
   frame that has not begun. */
static bool is_running(const struct mts_python_layout *l,
                       const struct mts_python_types *types, uintptr_t frame,
                       uintptr_t code, uintptr_t *bytes) {
    uintptr_t start, now;
    int32_t number;
    if (!get_instructions(l, types, code, bytes, &start))
        return false;
    if (l->form == MTS_PYTHON_LOCATIONS)
        return mts_lang_try_word(&now, frame + l->frame_instr) &&
               now - start + 2 <= *bytes + 2 && now % 2 == 0;
    return mts_lang_try_copy(&number, frame + l->frame_instr, sizeof(number)) &&
           number >= -1 && number < (int64_t)*bytes;
}

/* True if all that names of the line of FRAME in CODE are made from is
   there. */
static bool has_line(const struct mts_python_layout *l,
                     const struct mts_python_types *types, uintptr_t frame,
                     uintptr_t code) {
    uintptr_t file, name, table, bytes;
    int32_t first;
    return is_running(l, types, frame, code, &bytes) &&
           mts_lang_try_word(&file, code + l->code_filename) &&
           mts_lang_try_word(&name, code + l->code_name) &&
           mts_lang_try_word(&table, code + l->code_table) &&
           mts_lang_try_copy(&first, code + l->code_first_line,
                             sizeof(first)) &&
           first >= 0 && is_name(l, types, file) && is_name(l, types, name) &&
           is_table(l, types, table, bytes);
}

static bool get_first_frame(const struct mts_python_layout *l, uintptr_t state,
                            uintptr_t *frame) {
    if (l->has_frame_in_c &&
        !mts_lang_try_word(&state, state + l->state_c_frame))
        return false;
    *frame = 0;
    return state == 0 || mts_lang_try_word(frame, state + l->state_frame);
}

enum mts_lang_trust mts_python_try(const struct mts_python_layout *l,
                                   const struct mts_python_types *types,
                                   uintptr_t state) {
    uintptr_t frame, code, type;
    unsigned lines = 0;
    if (!get_first_frame(l, state, &frame))
        return MTS_LANG_REFUSED;
    for (unsigned i = 0; frame != 0 && i < TRIAL_FRAMES; i++) {
        uint8_t owner = 0;
        if (frame % sizeof(uintptr_t) != 0 ||
            (l->frame_owner != NONE &&
             !mts_lang_try_copy(&owner, frame + l->frame_owner, 1)) ||
            owner > OWNER_MAX)
            return MTS_LANG_REFUSED;
        if (owner < MTS_PYTHON_OWNED_BY_C) {
            if (!mts_lang_try_word(&code, frame + l->frame_code))
                return MTS_LANG_REFUSED;
            code = mts_python_code(code);
            if (code != 0 &&
                !mts_lang_try_word(&type, code + MTS_PYTHON_OBJECT_TYPE))
                return MTS_LANG_REFUSED;
            if (code != 0 && type == types->code) {
                if (!has_line(l, types, frame, code))
                    return MTS_LANG_REFUSED;
                lines++;
            }
        }
        if (!mts_lang_try_word(&frame, frame + l->frame_previous))
            return MTS_LANG_REFUSED;
    }
    return lines != 0 ? MTS_LANG_TRUSTED : MTS_LANG_ON_TRIAL;
}
