/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface between lang.c and the reader of a language, and what readers
 * share.
 *
 * Identity of lines: a key is made of everything that decides the name of a
 * line: the bytes of its file's name and of its function's name, and the input
 * of its number; or of a number that no other code has. It is never made of
 * addresses alone, because interpreters free code and make other code at the
 * same place. So two lines have the same key only if a 64-bit hash collides.
 */
#ifndef TCM_SITES_LANG_LANG_READER_H
#define TCM_SITES_LANG_LANG_READER_H

#include "base/compiler.h"
#include "base/linux/os_mem.h"
#include "sites/lang/lang.h"
#include "sites/site_settings.h"
#include "sites/unwind/stack_rows.h"

#include <string.h>

/* Versions of an interpreter. */
#define MTS_LANG_VERSION(major, minor, micro)                                  \
    ((uint32_t)(major) << 16 | (uint32_t)(minor) << 8 | (uint32_t)(micro))
#define MTS_LANG_LAST_MICRO 0xFFu
/* The first and the last version that a layout is for; layouts extend this
   structure. */
struct mts_lang_versions {
    uint32_t first, last;
};
/* Those of a series from MICRO on. */
#define MTS_LANG_SERIES(major, minor, micro)                                   \
    {                                                                          \
        MTS_LANG_VERSION(major, minor, micro),                                 \
            MTS_LANG_VERSION(major, minor, MTS_LANG_LAST_MICRO)                \
    }

/* A symbol that a reader looks up; a reader numbers its symbols by their
   order. */
struct mts_lang_symbol {
    const char *name;
    bool is_tls;
    bool needed;  /* without it the interpreter cannot be read */
    bool is_loop; /* a loop: a function that runs code of the language */
};
#define MTS_LANG_SYMBOLS 12u

/* Where an interpreter has a symbol. AT of a thread-local variable is its
   offset from the thread pointer or, in an interpreter that was loaded after
   set-up, the argument of TLS. */
struct mts_lang_place {
    intptr_t at; /* 0: not found */
    size_t bytes;
};

/* An interpreter; its reader extends this structure. An interpreter that the
   program was loaded with stays; others go when their module is unloaded. */
struct mts_lang_interpreter {
    struct mts_loops loops; /* of an interpreter loaded after set-up */
    const struct mts_lang_reader *reader;
    void *(*tls)(void *);
    uintptr_t start, bytes; /* module of the first symbol */
    uint32_t trust;         /* enum mts_lang_trust */
    struct mts_lang_place place[MTS_LANG_SYMBOLS];
};

enum mts_lang_state {
    MTS_LANG_ABSENT = 0,
    MTS_LANG_KNOWN,
    MTS_LANG_UNKNOWN /* a version that is not read */
};

/*
 * Trust in the layout of an interpreter, which is on trial until a thread runs
 * lines of it: the reader then copies what a walk would read, which is safe at
 * any address, and compares it with what has to be there.
 */
enum mts_lang_trust {
    MTS_LANG_ON_TRIAL = 0,
    MTS_LANG_TRUSTED,
    MTS_LANG_REFUSED
};

#define MTS_LANG_NO_LINES "the sites have no lines of this "
#define MTS_LANG_REFUSAL(language)                                             \
    MTS_LANG_NO_LINES language ", whose structures are not those of its "      \
                               "version"

struct mts_lang_reader {
    const char *name;
    const char *refusal; /* message about an interpreter that is refused */
    enum mtf_language language;
    const struct mts_lang_symbol *symbols; /* ends with one without a name */
    struct mts_lang_interpreter *first;    /* loaded with the program */
    size_t bytes;                          /* size of the extended structure */
    /* True if an interpreter that was loaded after set-up may be read only by
       threads with a frame of a loop, not of any of its functions. */
    bool late_in_loop;
    /* Layouts of the versions that are read, LAYOUT_BYTES each. */
    const void *layouts;
    size_t layout_count, layout_bytes;
    /* The version of IT, whose needed symbols were found; 0: not known. */
    uint32_t (*version)(const struct mts_lang_interpreter *it);
    /* Makes IT ready to be read by LAYOUT. false: IT is not as expected. */
    bool (*begin)(struct mts_lang_interpreter *it, const void *layout);
    /* Walks the lines of FIRST: sets count, cut and frame of W, at most DEPTH
       frames, and mixes them into key. It calls functions of the interpreter
       before it changes W; such a call may end with W in use by another thread
       (mts_lang_is_owner). */
    void (*walk)(struct mts_lang_walk *w, uint32_t depth);
    /* walk for interpreter IT, which was loaded after set-up. A frame of its
       module on the caller's stack keeps it loaded. */
    void (*walk_late)(const struct mts_lang_interpreter *it,
                      struct mts_lang_walk *w, uint32_t depth);
    /* Returns H mixed with everything that decides the names of FRAME, which
       still runs. */
    uint64_t (*mix)(const struct mts_lang_interpreter *it, uint64_t h,
                    const struct mts_lang_frame *frame);
    /* Copy the names of FRAME to TO as UTF-8, at most MTF_SITE_TEXT_MAX bytes,
       and return their length. A frame may have no function. */
    uint32_t (*file)(const struct mts_lang_interpreter *it,
                     const struct mts_lang_frame *frame, char *to);
    uint32_t (*function)(const struct mts_lang_interpreter *it,
                         const struct mts_lang_frame *frame, char *to);
    uint32_t (*line)(const struct mts_lang_interpreter *it,
                     const struct mts_lang_frame *frame);
};

extern const struct mts_lang_reader mts_lang_python, mts_lang_perl,
    mts_lang_ruby;

/* True if W still belongs to the calling thread; OWNER is W's owner from
   before. */
static inline bool mts_lang_is_owner(const struct mts_lang_walk *w,
                                     uint32_t owner) {
    return TCM_LIKELY(tcm_load_relaxed(&w->owner) == owner);
}

static inline bool mts_lang_is(const struct mts_lang_interpreter *it,
                               enum mts_lang_trust trust) {
    return tcm_load_relaxed(&it->trust) == (uint32_t)trust;
}

/* Ends the trial of IT with VERDICT; a message says that IT is refused. Returns
   true if IT is trusted. */
static inline bool mts_lang_judge(const struct mts_lang_interpreter *it,
                                  enum mts_lang_trust verdict) {
    uint32_t trust = MTS_LANG_ON_TRIAL;
    /* Each interpreter lies in memory that can be written. */
    uint32_t *at = (uint32_t *)(uintptr_t)&it->trust;
    if (verdict != MTS_LANG_ON_TRIAL &&
        tcm_cas_acq_rel(at, &trust, (uint32_t)verdict) &&
        verdict == MTS_LANG_REFUSED)
        mts_settings.host.complain(it->reader->refusal, NULL, 0);
    return mts_lang_is(it, MTS_LANG_TRUSTED);
}

/* Copies BYTES bytes at address FROM of an interpreter that is on trial. false:
   they cannot be read. */
static inline bool mts_lang_try_copy(void *to, uintptr_t from, size_t bytes) {
    return tcm_os_copy(tcm_load_relaxed(&mts_settings.pid), to, from, bytes);
}

static inline bool mts_lang_try_word(uintptr_t *to, uintptr_t from) {
    return mts_lang_try_copy(to, from, sizeof(*to));
}

#define MTS_LANG_MIX_A 0x9E3779B97F4A7C15u
#define MTS_LANG_MIX_B 0xE7037ED1A0B428DBu

__extension__ typedef unsigned __int128 mts_lang_product;

static inline uint64_t mts_lang_mix(uint64_t a, uint64_t b) {
    mts_lang_product r =
        (mts_lang_product)(a ^ MTS_LANG_MIX_A) * (b ^ MTS_LANG_MIX_B);
    return (uint64_t)r ^ (uint64_t)(r >> 64);
}

/* The word at an address in the structures of an interpreter. */
static inline uintptr_t mts_lang_load_word(uintptr_t at) {
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

/* H mixed with N bytes; the caller mixes N in. The last piece overlaps the one
   before. */
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

/* Copies a text, cut between two characters to what a definition can hold. */
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
