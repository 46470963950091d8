/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offsets that Python publishes: those of known versions, of versions to come
 * with other members and parts, and of interpreters that publish nonsense; and
 * the trial of offsets on frames, which survives every address.
 */
#include "tap.h"
#include "sites/lang/lang_python.h"
#include "sites/site_settings.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define COOKIE 0x7970677562656478u /* "xdebugpy" */
#define WORDS  200u

/* The first words of _PyRuntime in 3.13.0, 3.14.10 and 3.15.2. */
static const uint64_t of_3_13[] = {
    COOKIE, 0x030D00F0, 0,    283320, 608,  632, 194968, 7272, 7264, 7344, 7400,
    7656,   7640,       7648, 16,     7752, 0,   7768,   7760, 304,  0,    8,
    16,     72,         152,  160,    232,  32,  80,     8,    0,    56,   72,
    70,     208,        112,  120,    128,  136, 68,     52,   96,   104,  200,
    16,     8,          416,  24,     88,   168, 32,     24,   16,   40,   24,
    16,     48,         32,   40,     24,   16,  32,     16,   24,   40,   16,
    32,     64,         32,   16,     40,   240, 200};
static const uint64_t of_3_14[] = {
    COOKIE, 0x030E0AF0, 0,    316616, 784, 808,  225864, 7280, 7272, 7344, 7360,
    7408,   7688,       7672, 7680,   16,  7784, 0,      7800, 7792, 7992, 0,
    832,    0,          8,    16,     72,  152,  160,    232,  32,   88,   8,
    0,      56,         80,   74,     64,  0,    216,    112,  120,  128,  136,
    68,     52,         96,   104,    208, 0,    16,     8,    416,  24,   88,
    168,    40,         32,   16,     40,  24,   16,     200,  24,   40,   32,
    48,     32,         40,   24,     16,  32,   16,     24,   40,   16,   32,
    64,     32,         16,   40,     264, 192,  160,    24,   72,   67,   0,
    8,      24,         304,  8076,   0,   4,    512,    0};
static const uint64_t of_3_15[] = {
    COOKIE, 0x030F02F0, 0,    346568, 912, 936,  226240, 7272, 7264, 7336, 7352,
    7400,   7592,       7576, 7584,   16,  7736, 0,      7752, 7744, 7944, 0,
    888,    0,          8,    16,     72,  80,   88,     96,   176,  184,  256,
    32,     36,         40,   136,    288, 0,    88,     8,    0,    56,   80,
    74,     64,         0,    216,    112, 120,  128,    136,  68,   52,   96,
    104,    208,        0,    16,     8,   424,  24,     88,   168,  32,   288,
    944,    888,        40,   32,     16,  40,   24,     16,   200,  24,   40,
    32,     48,         32,   40,     24,  16,   32,     16,   24,   40,   16,
    32,     64,         32,   16,     40,  56,   176,    112,  120,  1120, 104,
    160,    24,         72,   67,     0,   8,    24,     344,  8028, 0,    4};

/* Numbers of the first words of parts in OF_3_15. */
enum { STATE = 22, FRAME = 39, CODE = 47, BYTES = 86, TEXT = 89 };

/* Types, of which the size of instances is read. */
static uintptr_t code_type[8], text_type[8], bytes_type[8];
static struct mts_python_types types;

static void set_sizes(uintptr_t code, uintptr_t text, uintptr_t bytes) {
    code_type[4] = code;
    text_type[4] = text;
    bytes_type[4] = bytes;
    types = (struct mts_python_types){
        (uintptr_t)code_type, (uintptr_t)text_type, (uintptr_t)bytes_type};
}

/* --- Offsets -------------------------------------------------------------- */

struct known {
    const char *name;
    const uint64_t *word;
    size_t count;
    uint32_t version, code, owner, code_version;
};
static const struct known known[] = {
    {"3.13", of_3_13, TCM_ARRAY_SIZE(of_3_13), 0x030D00F0, 200, 70, 92},
    {"3.14", of_3_14, TCM_ARRAY_SIZE(of_3_14), 0x030E0AF0, 208, 74, 92},
    {"3.15", of_3_15, TCM_ARRAY_SIZE(of_3_15), 0x030F02F0, 208, 74,
     MTS_PYTHON_NONE},
};

/* Reads WORD, WORDS words of zeros behind COUNT ones. */
static bool read_from(const uint64_t *word, size_t count, uint64_t version,
                      struct mts_python_layout *to) {
    uint64_t all[WORDS] = {0};
    memcpy(all, word, count * sizeof(*word));
    *to = mts_python_layouts[MTS_PYTHON_LAYOUTS - 1];
    return mts_python_read_offsets(all, WORDS, version, &types, to);
}

static void test_known(void) {
    for (size_t i = 0; i < TCM_ARRAY_SIZE(known); i++) {
        const struct known *k = &known[i];
        struct mts_python_layout l;
        set_sizes(k->code, 64, 33);
        bool found = read_from(k->word, k->count, k->version, &l);
        tap_ok(found, "%s: its offsets are found", k->name);
        tap_ok(l.state_frame == 72 && l.frame_previous == 8 &&
                   l.frame_code == 0 && l.frame_instr == 56 &&
                   l.frame_owner == k->owner,
               "%s: frames", k->name);
        tap_ok(l.code_filename == 112 && l.code_name == 128 &&
                   l.code_table == 136 && l.code_first_line == 68 &&
                   l.code_bytes == k->code && l.code_version == k->code_version,
               "%s: code", k->name);
        tap_ok(l.bytes_size == 16 && l.bytes_data == 32 &&
                   l.text_length == 16 && l.text_hash == 24 &&
                   l.text_state == 32 && l.text_ascii == 40 &&
                   l.text_compact == 56,
               "%s: texts and bytes", k->name);
        tap_ok(mts_python_fits(&l, &types), "%s: sizes of types fit", k->name);
        set_sizes(k->code + 8, 64, 33);
        tap_ok(!read_from(k->word, k->count, k->version, &l),
               "%s: not with another size of code", k->name);
    }
}

/* Words that differ from those of 3.15, with the number of the first one. */
struct edit {
    unsigned at, count;
    uint64_t word[6];
};

struct variant {
    const char *name;
    bool is_good;
    struct edit edit[3];
};
#define END 18446744073709551615u
#define ONE(n, ...)                                                            \
    {                                                                          \
        n, sizeof((uint64_t[]){__VA_ARGS__}) / 8, {                            \
            __VA_ARGS__                                                        \
        }                                                                      \
    }
static const struct variant variants[] = {
    {"as they are", true, {{0}}},
    {"frame elsewhere in a thread state", true, {ONE(STATE + 4, 120)}},
    {"members of frames elsewhere",
     true,
     {ONE(FRAME, 120, 24, 8, 64, 112, 90)}},
    {"members of code elsewhere",
     true,
     {ONE(CODE + 1, 152, 160, 168, 176, 60)}},
    {"another cookie", false, {ONE(0, COOKIE + 1)}},
    {"no cookie", false, {ONE(0, 0)}},
    {"of another version than the interpreter", false, {ONE(1, 0x03100001)}},
    {"no lock", false, {ONE(2, 1)}},
    {"frame behind a thread state", false, {ONE(STATE + 4, 888)}},
    {"frame far away", false, {ONE(STATE + 4, END - 7)}},
    {"frame that is not aligned", false, {ONE(STATE + 4, 76)}},
    {"frame in the place of the next state", false, {ONE(STATE + 4, 8)}},
    {"a huge thread state", false, {ONE(STATE, END)}},
    {"no thread state", false, {ONE(STATE, 0, 0, 0, 0, 0)}},
    {"instruction in the place of code", false, {ONE(FRAME + 3, 0)}},
    {"previous frame behind a frame", false, {ONE(FRAME + 1, 88)}},
    {"owner far away", false, {ONE(FRAME + 5, END)}},
    {"variables that are not last", false, {ONE(FRAME + 4, 72)}},
    {"file name behind code", false, {ONE(CODE + 1, 216)}},
    {"file name that is not aligned", false, {ONE(CODE + 1, 113)}},
    {"table of lines in the place of a name", false, {ONE(CODE + 4, 112)}},
    {"first line across the end", false, {ONE(CODE + 5, 206)}},
    {"instructions elsewhere", false, {ONE(CODE + 9, 200)}},
    {"bytes elsewhere", false, {ONE(BYTES + 2, 40)}},
    {"count of bytes elsewhere", false, {ONE(BYTES + 1, 24)}},
    {"a longer hash of texts", false, {ONE(TEXT + 1, 40)}},
    {"a longer text", false, {ONE(TEXT, 72)}},
    {"ASCII form of another size", false, {ONE(TEXT + 3, 48)}},
    {"two parts for frames", false, {ONE(120, 88, 8, 0, 56, 80, 74)}},
    {"parts in another order",
     false,
     {ONE(FRAME, 0, 0, 0, 0, 0), ONE(120, 88, 8, 0, 56, 80, 74)}},
};

static void test_variants(void) {
    set_sizes(208, 64, 33);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(variants); i++) {
        const struct variant *v = &variants[i];
        struct mts_python_layout l;
        uint64_t word[WORDS] = {0};
        memcpy(word, of_3_15, sizeof(of_3_15));
        word[1] = 0x03100000;
        for (size_t k = 0; k < TCM_ARRAY_SIZE(v->edit); k++)
            memcpy(word + v->edit[k].at, v->edit[k].word,
                   v->edit[k].count * sizeof(*word));
        bool found = read_from(word, WORDS, 0x03100000, &l);
        tap_ok(found == v->is_good, "3.16, %s: %s", v->name,
               v->is_good ? "read" : "refused");
        if (found)
            tap_ok(l.state_frame == word[STATE + 4] &&
                       l.frame_instr == word[FRAME + 3] &&
                       l.code_table == word[CODE + 4] &&
                       l.code_version == MTS_PYTHON_NONE,
                   "3.16, %s: by its own offsets", v->name);
    }
}

/* A version to come inserts parts, and members at the ends of parts. */
static void test_inserted(void) {
    struct mts_python_layout l;
    uint64_t word[WORDS] = {COOKIE, 0x03100000};
    size_t n = 3;
    for (size_t i = 3; i < TCM_ARRAY_SIZE(of_3_15); i++) {
        if (i == STATE || i == FRAME || i == CODE || i == CODE + 10 ||
            i == BYTES)
            for (unsigned k = 0; k < 3; k++)
                word[n++] = 200 + 8 * k;
        word[n++] = of_3_15[i];
    }
    set_sizes(208, 64, 33);
    tap_ok(read_from(word, n, 0x03100000, &l) && l.state_frame == 72 &&
               l.frame_owner == 74 && l.code_table == 136 && l.text_ascii == 40,
           "3.16, more parts and members: read");
    bool all = true;
    for (size_t count = 1; all && count < TEXT; count++) {
        uint64_t *exact = malloc(count * sizeof(*exact));
        if (exact == NULL)
            break;
        memcpy(exact, of_3_15, count * sizeof(*exact));
        all = !mts_python_read_offsets(exact, count, 0x030F02F0, &types, &l);
        free(exact);
    }
    tap_ok(all, "a runtime that ends before the last part: refused");
}

/* --- Trial ---------------------------------------------------------------- */

/* A thread of 3.15 that runs a function, called by the code of a module. */
struct text {
    uintptr_t word[4];
    uint32_t state, padding;
    char bytes[16];
};
struct table {
    uintptr_t word[4];
    uint8_t bytes[16];
};
struct code {
    uintptr_t word[26];
    uint8_t instructions[16];
};
struct thread {
    uintptr_t state[111];
    uintptr_t frame[3][11];
    struct code code;
    struct text name;
    struct table table;
};

static void make_thread(struct thread *t) {
    memset(t, 0, sizeof(*t));
    t->name.word[1] = types.text;
    t->name.word[2] = 5;
    t->name.state = 1 << 2 | 1 << 5 | 1 << 6;
    memcpy(t->name.bytes, "where", 5);
    t->table.word[1] = types.bytes;
    t->table.word[2] = 4;
    /* 8 bytes of code in two entries. */
    memcpy(t->table.bytes, "\xD9\x02\xD1\x00", 4);
    t->code.word[1] = types.code;
    t->code.word[2] = 4;
    t->code.word[14] = t->code.word[16] = (uintptr_t)&t->name;
    t->code.word[17] = (uintptr_t)&t->table;
    t->state[9] = (uintptr_t)t->frame[0];
    for (unsigned i = 0; i < 3; i++) {
        t->frame[i][0] = (uintptr_t)&t->code | (i & 1);
        t->frame[i][1] = i < 2 ? (uintptr_t)t->frame[i + 1] : 0;
        t->frame[i][7] = (uintptr_t)t->code.instructions + 2 * i;
    }
    /* The outermost frame is of C code. */
    t->frame[2][0] = 0;
    ((uint8_t *)t->frame[2])[74] = 3;
}

static struct thread thread;
static uintptr_t nowhere; /* an address without memory */

struct change {
    const char *name;
    uintptr_t *at, value;
    enum mts_lang_trust verdict;
};

static void test_trial(void) {
    struct mts_python_layout l;
    set_sizes(208, 64, 33);
    read_from(of_3_15, TCM_ARRAY_SIZE(of_3_15), 0x030F02F0, &l);
    struct thread *t = &thread;
    uintptr_t other = (uintptr_t)&nowhere;
    const struct change all[] = {
        {"as it is", &other, 0, MTS_LANG_TRUSTED},
        {"no frame yet", &t->state[9], 0, MTS_LANG_ON_TRIAL},
        {"no code yet", &t->state[9], (uintptr_t)t->frame[2],
         MTS_LANG_ON_TRIAL},
        {"a frame that has not begun", &t->frame[0][7],
         (uintptr_t)t->code.instructions - 2, MTS_LANG_TRUSTED},
        {"frames in a circle", &t->frame[2][1], (uintptr_t)t->frame[0],
         MTS_LANG_TRUSTED},
        {"no frame but an address", &t->state[9], nowhere, MTS_LANG_REFUSED},
        {"no frame but a number", &t->state[9], 12345, MTS_LANG_REFUSED},
        {"no caller but an address", &t->frame[0][1], nowhere + 8,
         MTS_LANG_REFUSED},
        {"no code but an address", &t->frame[0][0], nowhere, MTS_LANG_REFUSED},
        {"no file but an address", &t->code.word[14], nowhere,
         MTS_LANG_REFUSED},
        {"no file but bytes", &t->code.word[14], (uintptr_t)&t->table,
         MTS_LANG_REFUSED},
        {"no name", &t->code.word[16], 0, MTS_LANG_REFUSED},
        {"a name that is too long", &t->name.word[2], SIZE_MAX,
         MTS_LANG_REFUSED},
        {"a name without an end", &t->name.word[2], 3, MTS_LANG_REFUSED},
        {"no table but an address", &t->code.word[17], nowhere,
         MTS_LANG_REFUSED},
        {"no table but a name", &t->code.word[17], (uintptr_t)&t->name,
         MTS_LANG_REFUSED},
        {"a table for less code", &t->table.word[2], 2, MTS_LANG_REFUSED},
        {"a table without an end", &t->table.word[2], SIZE_MAX,
         MTS_LANG_REFUSED},
        {"an instruction before the code", &t->frame[0][7],
         (uintptr_t)t->code.word, MTS_LANG_REFUSED},
        {"an instruction behind the code", &t->frame[0][7],
         (uintptr_t)t->code.instructions + 10, MTS_LANG_REFUSED},
        {"code without an end", &t->code.word[2], SIZE_MAX, MTS_LANG_REFUSED},
    };
    for (size_t i = 0; i < TCM_ARRAY_SIZE(all); i++) {
        make_thread(t);
        *all[i].at = all[i].value;
        tap_ok(mts_python_try(&l, &types, (uintptr_t)t->state) ==
                   all[i].verdict,
               "trial: %s", all[i].name);
    }
    tap_ok(mts_python_try(&l, &types, nowhere) == MTS_LANG_REFUSED,
           "trial: no thread state but an address");
    make_thread(t);
    ((uint8_t *)t->frame[0])[74] = 200;
    tap_ok(mts_python_try(&l, &types, (uintptr_t)t->state) == MTS_LANG_REFUSED,
           "trial: an owner that is none");
}

int main(void) {
    mts_settings.pid = (uint32_t)getpid();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *gone =
        mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (gone == MAP_FAILED)
        return 1;
    nowhere = (uintptr_t)gone;
    test_known();
    test_variants();
    test_inserted();
    test_trial();
    return tap_done();
}
