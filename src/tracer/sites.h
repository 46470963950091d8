/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Call sites of a recording (TCMALLOC_TRACE_SITES): from return addresses to
 * the numbers of site_codec.h, and their definitions.
 *
 * A site is defined in the stream of the thread that needs it first, before the
 * event that has it; so a kill leaves no event without its definition. It is
 * defined once in a recording, or in a part of one of which only the end is
 * kept, but for races of two threads, which write the same twice.
 *
 * Invariants: a number stands for one address, in one module, below one parent,
 * as long as the process and its children live. Two numbers may stand for the
 * same. Modules are told apart when the loader has been at work: it allocates
 * before it loads one, so each allocation by the loader, also one that has no
 * site, makes all sites be looked at again before they are used
 * (mtr_site_stamp).
 * Threads: any. No lock; nothing is allocated but by tcm_os_map. Nothing here
 * calls the loader or is undone by a signal handler that allocates.
 */
#ifndef TCM_TRACER_SITES_H
#define TCM_TRACER_SITES_H

#include "traceformat/site_codec.h"
#include "tracer/lang.h"
#include "tracer/stack.h"
#include "tracer/thread_registry.h"

struct mtf_raw_writer;

/* As in the trace. */
enum mtr_sites_mode {
    MTR_SITES_NONE = 0,
    MTR_SITES_CALLER = MTF_SITE_MODE_CALLER,
    MTR_SITES_STACK = MTF_SITE_MODE_STACK,
    MTR_SITES_SAMPLE = MTF_SITE_MODE_SAMPLE,
    MTR_SITES_LANG = MTF_SITE_MODE_LANG
};

/* What TCMALLOC_TRACE_SITES asks for. */
struct mtr_sites_choice {
    enum mtr_sites_mode mode;
    uint16_t depth; /* of stacks, or lines */
    uint64_t mean;  /* of samples, in bytes */
};
#define MTR_SITES_MEAN_DEFAULT ((uint64_t)512 << 10)
#define MTR_SITES_MEAN_MAX     ((uint64_t)1 << 40)

/* Callers of a thread whose sites it knows. */
#define MTR_SITE_CACHE_LOG2 10u

struct mtr_known_caller {
    uint64_t key; /* the caller, or a key of lang.h or stack.h */
    uint32_t site;
};

/* Of one thread, in memory of the registry's. */
struct mtr_thread_sites {
    struct mtf_site_state coding;
    uint8_t call;   /* the sticky call of allocations */
    bool has_lines; /* of interpreted programs */
    bool walks;     /* sites are more than callers */
    uint32_t epoch; /* of its recording */
    uint64_t stamp; /* the cache is of this; else it is empty */
    bool mode_told; /* the mode stands in its stream */
    bool sampling;  /* the first distance was drawn */
    uint64_t sample_left, random;
    struct mtr_known_caller cache[1u << MTR_SITE_CACHE_LOG2];
    /* From here on there is memory only where the mode needs it. */
    struct mtr_lang_walk lang;
    struct mtr_thread_stack stack;
};

/* Bytes of one, in the mode that is chosen. */
size_t mtr_sites_bytes(void);

/* Changes when sites have to be looked at again: a recording begins, the loader
   allocates. Never 0. Relaxed: a thread sees the changes that it must
   see because what they are about came to it in some order. */
extern uint64_t mtr_site_stamp TCM_LOCAL;

/* From the environment; false: TEXT is no mode. */
bool mtr_sites_parse(const char *text, struct mtr_sites_choice *choice);

/* A recording begins: what was defined so far is not defined in it. With the
   registry's lock, so that a thread's session and epoch are of the same. */
void mtr_sites_begin(void);
/* A new thread, of the recording that began last. */
void mtr_sites_thread(struct mtr_thread_sites *s);
/* The thread gives S up, maybe in a call that a walk with S made. */
void mtr_sites_leave(struct mtr_thread_sites *s);

/* Whether the allocations of T have sites. A load of its own, so that a fast
   path which compared the byte need not keep it in a register for this. */
static TCM_ALWAYS_INLINE bool mtr_has_sites(const struct mtr_thread *t) {
    return tcm_load_relaxed(&t->alloc_call) == MTR_CALL_SITED;
}

/* The same of its frees, which are all served slowly then. */
static TCM_ALWAYS_INLINE bool mtr_has_free_sites(const struct mtr_thread *t) {
    return (t->flags & MTR_THREAD_FREE_SITES) != 0;
}

/* Smaller tokens are of no or an older recording. */
static TCM_ALWAYS_INLINE uint64_t mtr_first_token(const struct mtr_thread *t) {
    return t->cold->first_token;
}

/* The number of KEY's entry; where sites are walks, one of two has the entry
   whose number differs in the last bit. */
static TCM_ALWAYS_INLINE size_t mtr_site_entry(uint64_t key) {
    return key * 0x9E3779B97F4A7C15u >> (64 - MTR_SITE_CACHE_LOG2);
}

static TCM_ALWAYS_INLINE uint32_t mtr_site_in(const struct mtr_thread_sites *s,
                                              size_t entry, uint64_t key) {
    const struct mtr_known_caller *k = &s->cache[entry];
    return k->key == key && s->stamp == tcm_load_relaxed(&mtr_site_stamp)
               ? k->site
               : MTF_SITE_NONE;
}

/* The site of KEY, which is defined, or none: mtr_site_enter finds it. */
static TCM_ALWAYS_INLINE uint32_t
mtr_site_known(const struct mtr_thread_sites *s, uint64_t key) {
    return mtr_site_in(s, mtr_site_entry(key), key);
}

/* The same where sites are walks. */
static TCM_ALWAYS_INLINE uint32_t
mtr_site_known_walk(const struct mtr_thread_sites *s, uint64_t key) {
    uint32_t site = mtr_site_known(s, key);
    return TCM_LIKELY(site != MTF_SITE_NONE)
               ? site
               : mtr_site_in(s, mtr_site_entry(key) ^ 1, key);
}

/* The allocations of T that follow are of SITE. At most MTF_SITE_BYTES. */
static TCM_ALWAYS_INLINE void
mtr_put_site(struct mtr_thread *t, struct mtr_thread_sites *s, uint32_t site) {
    if (s->coding.last != site)
        mtr_put(t, mtf_inline_payload(MTF_RAW_SITE,
                                      mtf_site_argument(&s->coding, site)));
}

static TCM_ALWAYS_INLINE void mtr_put_sited_call(struct mtr_thread *t,
                                                 struct mtr_thread_sites *s,
                                                 enum mtf_call call) {
    if (s->call != call) {
        s->call = (uint8_t)call;
        mtr_put(t, mtf_inline_payload(MTF_RAW_ALLOC_CALL, call));
    }
}

/* The stream begins a buffer. */
void mtr_site_new_buffer(struct mtr_thread *t);
/* The sticky call of allocations, whether or not they have sites. */
uint8_t mtr_alloc_call(const struct mtr_thread *t);
void mtr_set_alloc_call(struct mtr_thread *t, uint8_t call);

/* Writes all definitions so far, for a part of a recording that may be read
   without those before. */
bool mtr_sites_write(struct mtf_raw_writer *w, uint64_t now);

/* --- The table ------------------------------------------------------------ */

struct mtr_site {
    uint64_t address; /* or language, file and number of a line */
    uint32_t parent;
    uint32_t module; /* or MTR_SITE_IS_LINE and its function */
    uint32_t epoch;  /* of the recording that it is defined in */
    uint32_t stamp;  /* its module was looked at then; GONE: it is another */
};

/* The site of a frame that returns to ADDRESS, below PARENT; 0: no memory, or
   no number is left. */
uint32_t mtr_site_intern(uint64_t address, uint32_t parent);
#define MTR_SITE_IS_LINE ((uint32_t)1 << 31)

/* A line of an interpreted program; its texts are of site_texts.h. */
struct mtr_line {
    enum mtf_language language;
    uint32_t file, line, function;
};
uint32_t mtr_site_intern_line(const struct mtr_line *line, uint32_t parent);
/* False: N is no line. */
bool mtr_site_line(const struct mtr_site *n, struct mtr_line *line);

/* SITE, which was interned. */
struct mtr_site *mtr_site_of(uint32_t site);
/* What is defined in recording NOW may be told of a later one already, by a
   thread that went on to it. */
void mtr_site_tell_epoch(uint32_t *place, uint32_t now);
/* The bytes of a definition, at most MTF_EXTENDED_MAX; how many. */
unsigned mtr_site_put(uint8_t *p, uint32_t site, const struct mtr_site *s);
/* The mode. */
unsigned mtr_site_put_mode(uint8_t *p);
struct mtr_module;
/* The next piece of what defines module NUMBER, whose path is written up to
   *DONE, UINT32_MAX at first; 0: that was all. */
unsigned mtr_site_put_module(uint8_t *p, uint32_t number,
                             const struct mtr_module *m, uint32_t *done);
struct mtr_text;
/* The same of text NUMBER, written up to *DONE, 0 at first. */
unsigned mtr_site_put_text(uint8_t *p, uint32_t number,
                           const struct mtr_text *text, uint32_t *done);

#endif
