/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What lang.c needs of the reader of a language, and what all readers share.
 *
 * Identity of lines. A key is made of all that decides what a line is called:
 * the bytes of its file's name, of its function's name, and of what its number
 * is made from, or of a number that no other code has. Never of addresses
 * alone, because interpreters free code and make other code at the same place.
 * So two lines have the same key only if a hash of 64 bits says so.
 */
#ifndef TCM_SITES_LANG_LANG_READER_H
#define TCM_SITES_LANG_LANG_READER_H

#include "base/compiler.h"
#include "sites/lang/lang.h"
#include "sites/unwind/stack_rows.h"

#include <string.h>

/* A symbol that a reader wants, in the order of its own table. */
struct mts_lang_symbol {
    const char *name;
    bool is_tls;
    bool needed;  /* without it there is no such interpreter */
    bool is_loop; /* a function that runs code of its language */
};
#define MTS_LANG_SYMBOLS 12u

/* Where an interpreter has it. AT of a variable of threads: its offset from
   the thread pointer or, of an interpreter that was loaded later, what TLS
   takes. */
struct mts_lang_place {
    intptr_t at; /* 0: nowhere */
    size_t bytes;
};

/* An interpreter, the head of what its reader knows of it. One that the program
   was loaded with stays; others may go, as their modules. */
struct mts_lang_interpreter {
    struct mts_loops loops; /* of one that was loaded later */
    const struct mts_lang_reader *reader;
    void *(*tls)(void *);
    uintptr_t start, bytes; /* the module, with the first symbol */
    struct mts_lang_place place[MTS_LANG_SYMBOLS];
};

enum mts_lang_state {
    MTS_LANG_ABSENT = 0,
    MTS_LANG_KNOWN,
    MTS_LANG_UNKNOWN /* a version that is left alone */
};

struct mts_lang_reader {
    const char *name;
    enum mtf_language language;
    const struct mts_lang_symbol *symbols; /* up to one without name */
    struct mts_lang_interpreter *first; /* that the program was loaded with */
    size_t bytes;                       /* of what it keeps of each */
    /* Of one that was loaded later, only threads that run a function of its
       that is a loop may be asked, not just any function. */
    bool late_in_loop;
    /* All needed symbols are there: whether this is a version that it reads. */
    bool (*is_known)(struct mts_lang_interpreter *it);
    /* Of FIRST, for W, with at most DEPTH frames: count, cut, frame; key is
       changed. Functions of the interpreter are called before W is changed,
       and after them W may be another thread's: mts_lang_keeps tells. */
    void (*walk)(struct mts_lang_walk *w, uint32_t depth);
    /* walk for an interpreter that was loaded later. A frame of its module on
       the caller's stack keeps it loaded. */
    void (*walk_late)(const struct mts_lang_interpreter *it,
                      struct mts_lang_walk *w, uint32_t depth);
    /* Of a frame of the walk, which still runs: H with all that its names are
       made from. */
    uint64_t (*mix)(const struct mts_lang_interpreter *it, uint64_t h,
                    const struct mts_lang_frame *frame);
    /* Names of such a frame as UTF-8, at most MTF_SITE_TEXT_MAX bytes at TO;
       they return how many. A frame may have no function. */
    uint32_t (*file)(const struct mts_lang_interpreter *it,
                     const struct mts_lang_frame *frame, char *to);
    uint32_t (*function)(const struct mts_lang_interpreter *it,
                         const struct mts_lang_frame *frame, char *to);
    uint32_t (*line)(const struct mts_lang_interpreter *it,
                     const struct mts_lang_frame *frame);
};

extern const struct mts_lang_reader mts_lang_python, mts_lang_perl,
    mts_lang_ruby;

/* True if W is still the calling thread's, whose number was OWNER. */
static inline bool mts_lang_keeps(const struct mts_lang_walk *w,
                                  uint32_t owner) {
    return TCM_LIKELY(tcm_load_relaxed(&w->owner) == owner);
}

#define MTS_LANG_MIX_A 0x9E3779B97F4A7C15u
#define MTS_LANG_MIX_B 0xE7037ED1A0B428DBu

__extension__ typedef unsigned __int128 mts_lang_product;

static inline uint64_t mts_lang_mix(uint64_t a, uint64_t b) {
    mts_lang_product r =
        (mts_lang_product)(a ^ MTS_LANG_MIX_A) * (b ^ MTS_LANG_MIX_B);
    return (uint64_t)r ^ (uint64_t)(r >> 64);
}

/* The word at an address of an interpreter's structures. */
static inline uintptr_t mts_lang_word(uintptr_t at) {
    return *(const uintptr_t *)at;
}

static inline uint64_t mts_lang_load64(const void *p) {
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static inline uint32_t mts_lang_load32(const void *p) {
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

/* The caller mixes N in, too. The last piece overlaps the one before. */
static inline uint64_t mts_lang_mix_bytes(uint64_t h, const void *bytes,
                                          size_t n) {
    const uint8_t *p = bytes, *end = p + n;
    uint64_t a = 0, b = 0;
    if (n >= 16) {
        for (; end - p > 16; p += 16)
            h = mts_lang_mix(mts_lang_load64(p) ^ h, mts_lang_load64(p + 8));
        a = mts_lang_load64(end - 16);
        b = mts_lang_load64(end - 8);
    } else if (n >= 8) {
        a = mts_lang_load64(p);
        b = mts_lang_load64(end - 8);
    } else if (n >= 4) {
        a = mts_lang_load32(p);
        b = mts_lang_load32(end - 4);
    } else if (n != 0) {
        a = (uint64_t)p[0] << 16 | (uint64_t)p[n / 2] << 8 | p[n - 1];
    }
    return mts_lang_mix(a ^ h, b);
}

/* The bytes of a text that is cut to what a definition can have. */
static inline uint32_t mts_lang_copy(char *to, const char *from, size_t n) {
    if (n > MTF_SITE_TEXT_MAX) {
        n = MTF_SITE_TEXT_MAX;
        while (n > 0 && ((unsigned char)from[n] & 0xC0) == 0x80)
            n--;
    }
    if (n != 0)
        memcpy(to, from, n);
    return (uint32_t)n;
}

#endif
