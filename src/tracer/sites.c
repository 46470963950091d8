/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of sites. It only grows, and lies in memory that a child of fork
 * keeps: numbers go on there, and the child defines them in its own trace.
 *
 *   site    what a number stands for, in chunks that double
 *   slot    hash << 32 | number, in open tables, each four times as large as
 *           the one before. A site is looked for in all, and put into the
 *           newest when it is found in an older one
 *
 * A number is published by its slot (release), its node is filled before.
 */
#include "tracer/sites.h"

#include "base/bits.h"
#include "base/os_mem.h"
#include "traceformat/raw_writer.h"
#include "tracer/recorder.h"
#include "tracer/site_modules.h"
#include "tracer/site_texts.h"

#include <string.h>

#define GONE UINT32_MAX

#define CHUNK_LOG2  12u
#define CHUNKS      12u /* 2^24 numbers */
#define TABLE_LOG2  13u
#define TABLES      7u /* the last has 2^25 slots */
#define DEF_BYTES   MTF_EXTENDED_MAX
#define SITES_BYTES 8192u

static struct mtr_site *chunks[CHUNKS];
static uint64_t *tables[TABLES];
static uint32_t newest; /* table */
static uint32_t next_site = 1;
static uint32_t epoch;
uint64_t mtr_site_stamp = 1;

/* The number behind "NAME:" in TEXT, or DEFAULT if it is NAME alone; 0: it is
   neither, or out of range. */
static uint64_t number_of(const char *text, const char *name, uint64_t normal,
                          uint64_t max) {
    size_t n = strlen(name);
    uint64_t value = 0;
    if (strncmp(text, name, n) != 0 || (text[n] != '\0' && text[n] != ':'))
        return 0;
    if (text[n] == '\0')
        return normal;
    for (const char *p = text + n + 1; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || value > max / 10)
            return 0;
        value = value * 10 + (uint64_t)(*p - '0');
    }
    return value <= max ? value : 0;
}

bool mtr_sites_parse(const char *text, struct mtr_sites_choice *choice) {
    *choice = (struct mtr_sites_choice){.depth = MTR_STACK_DEPTH_DEFAULT};
    if (text == NULL || text[0] == '\0' || strcmp(text, "none") == 0)
        return true;
    uint64_t depth =
        number_of(text, "stack", MTR_STACK_DEPTH_DEFAULT, MTR_STACK_DEPTH);
    uint64_t lines =
        number_of(text, "lang", MTR_LANG_DEPTH, MTR_LANG_DEPTH_MAX);
    uint64_t mean =
        number_of(text, "sample", MTR_SITES_MEAN_DEFAULT, MTR_SITES_MEAN_MAX);
    if (strcmp(text, "caller") == 0) {
        choice->mode = MTR_SITES_CALLER;
    } else if (depth != 0) {
        choice->mode = MTR_SITES_STACK;
        choice->depth = (uint16_t)depth;
    } else if (lines != 0) {
        choice->mode = MTR_SITES_LANG;
        choice->depth = (uint16_t)lines;
    } else if (mean != 0) {
        choice->mode = MTR_SITES_SAMPLE;
        choice->mean = mean;
    }
    return choice->mode != MTR_SITES_NONE;
}

size_t mtr_sites_bytes(void) {
    size_t bytes = mtr_config.free_sites ? sizeof(struct mtr_thread_sites)
                   : mtr_config.sites == MTR_SITES_CALLER
                       ? offsetof(struct mtr_thread_sites, lang)
                       : sizeof(struct mtr_thread_sites);
    return tcm_align_up(bytes, 16);
}

static uint32_t stamp_now(void) {
    uint32_t stamp = (uint32_t)tcm_load_relaxed(&mtr_site_stamp);
    return stamp == GONE ? 0 : stamp;
}

void mtr_sites_begin(void) {
    tcm_add_relaxed(&epoch, 1u);
    tcm_add_relaxed(&mtr_site_stamp, (uint64_t)1);
}

void mtr_sites_thread(struct mtr_thread_sites *s) {
    s->call = MTF_CALL_NONE;
    s->epoch = tcm_load_relaxed(&epoch);
    s->stamp = 0;
    s->has_lines = mtr_config.sites == MTR_SITES_LANG;
    s->walks = mtr_config.sites != MTR_SITES_CALLER;
    s->mode_told = false;
    s->sampling = false;
    if (s->has_lines)
        mtr_lang_pass_on(&s->lang);
    if (mtr_sites_bytes() >= sizeof(*s)) {
        mtr_stack_forget(&s->stack);
        s->stack.busy = 0;
    }
}

void mtr_sites_leave(struct mtr_thread_sites *s) {
    if (s->has_lines)
        mtr_lang_pass_on(&s->lang);
}

/* --- Nodes --------------------------------------------------------------- */

/* Memory at *PLACE, made if it is missing; NULL: there is none. */
static void *need(void *place, size_t bytes) {
    void **p = place, *old = tcm_load_acquire(p);
    if (old != NULL)
        return old;
    void *fresh = tcm_os_map(tcm_align_up(bytes, tcm_os_page_size()));
    if (fresh == NULL)
        return NULL;
    /* Publishes zeroed memory; pairs with the load above. */
    if (tcm_cas_acq_rel(p, &old, fresh))
        return fresh;
    tcm_os_unmap(fresh, tcm_align_up(bytes, tcm_os_page_size()));
    return old;
}

/* NULL: no memory, or MAKE is false and there is none yet. */
static struct mtr_site *node_at(uint32_t site, bool make) {
    uint32_t n = site + (1u << CHUNK_LOG2);
    unsigned chunk = tcm_log2_floor(n) - CHUNK_LOG2;
    TCM_ASSERT(site < MTF_SITE_LIMIT);
    if (chunk >= CHUNKS)
        return NULL;
    size_t count = (size_t)1 << (CHUNK_LOG2 + chunk);
    struct mtr_site *nodes = make ? need(&chunks[chunk], count * sizeof(*nodes))
                                  : tcm_load_acquire(&chunks[chunk]);
    return nodes == NULL ? NULL : nodes + (n - count);
}

struct mtr_site *mtr_site_of(uint32_t site) {
    return node_at(site, false);
}

/* Whether the code of N is that of its module still. */
static bool is_current(struct mtr_site *n) {
    uint32_t stamp = stamp_now(), seen = tcm_load_relaxed(&n->stamp);
    if (TCM_LIKELY(seen == stamp))
        return true;
    if (seen == GONE)
        return false;
    if ((n->module & MTR_SITE_IS_LINE) != 0)
        return true;
    bool same = mtr_module_at((uintptr_t)n->address - 1, stamp) == n->module;
    tcm_store_relaxed(&n->stamp, same ? stamp : GONE);
    return same;
}

/* --- Tables -------------------------------------------------------------- */

struct key {
    uint64_t address;
    uint32_t parent;
    uint32_t line; /* what a line has for module; 0: a frame */
    uint64_t hash;
};

static uint64_t hash_of(uint64_t address, uint32_t parent, uint32_t line) {
    uint64_t h = address * 0x9E3779B97F4A7C15u +
                 ((uint64_t)line << 32 | parent) * 0xD6E8FEB86659FD93u;
    h = (h ^ h >> 32) * 0xBF58476D1CE4E5B9u;
    return h ^ h >> 29;
}

static size_t table_slots(uint32_t table) {
    return (size_t)1 << (TABLE_LOG2 + 2 * table);
}

static bool is_of(uint64_t slot, const struct key *k) {
    if ((slot ^ k->hash) >> 32 != 0)
        return false;
    struct mtr_site *n = node_at((uint32_t)slot, false);
    return n != NULL && n->address == k->address && n->parent == k->parent &&
           (k->line == 0 || n->module == k->line) && is_current(n);
}

/* The site of K in the table, or 0. With SITE not 0 that one is put there if
   there is none yet. */
static uint32_t look(uint32_t table, const struct key *k, uint32_t site) {
    uint64_t *slots = tcm_load_acquire(&tables[table]);
    size_t count = table_slots(table), i = k->hash & (count - 1);
    if (slots == NULL)
        return 0;
    for (size_t tries = 0; tries < count; tries++, i = (i + 1) & (count - 1)) {
        uint64_t slot = tcm_load_acquire(&slots[i]);
        if (slot == 0) {
            if (site == 0)
                return 0;
            /* Publishes the node, which was filled before. */
            if (tcm_cas_acq_rel(&slots[i], &slot,
                                k->hash >> 32 << 32 | (uint64_t)site))
                return site;
        }
        if (is_of(slot, k))
            return (uint32_t)slot;
    }
    return 0;
}

static uint32_t grow(uint32_t used) {
    uint32_t table = tcm_load_acquire(&newest);
    if (used > table_slots(table) / 2 && table + 1 < TABLES &&
        need(&tables[table + 1], table_slots(table + 1) * sizeof(uint64_t)))
        tcm_cas_acq_rel(&newest, &table, table + 1);
    return tcm_load_acquire(&newest);
}

static uint32_t add(const struct key *k, uint32_t module, uint32_t stamp) {
    if (tcm_load_relaxed(&next_site) >= MTF_SITE_LIMIT)
        return 0;
    uint32_t site = tcm_add_relaxed(&next_site, 1u);
    struct mtr_site *n = site < MTF_SITE_LIMIT ? node_at(site, true) : NULL;
    uint32_t table = grow(site);
    if (n == NULL ||
        need(&tables[table], table_slots(table) * sizeof(uint64_t)) == NULL)
        return 0;
    n->address = k->address;
    n->parent = k->parent;
    n->module = module;
    n->stamp = stamp;
    return look(table, k, site);
}

static uint32_t find(const struct key *k) {
    uint32_t table = tcm_load_acquire(&newest);
    uint32_t site = look(table, k, 0);
    for (uint32_t i = table; site == 0 && i-- > 0;) {
        site = look(i, k, 0);
        if (site != 0)
            look(table, k, site);
    }
    return site;
}

uint32_t mtr_site_intern(uint64_t address, uint32_t parent) {
    struct key k = {address, parent, 0, hash_of(address, parent, 0)};
    uint32_t site = find(&k);
    if (site != 0)
        return site;
    uint32_t stamp = stamp_now();
    return add(&k, mtr_module_at((uintptr_t)address - 1, stamp), stamp);
}

/* No code has an address as large as language << 56. */
uint32_t mtr_site_intern_line(const struct mtr_line *line, uint32_t parent) {
    uint64_t name = (uint64_t)line->language << 56 |
                    (uint64_t)line->file << 32 | line->line;
    uint32_t module = MTR_SITE_IS_LINE | line->function;
    struct key k = {name, parent, module, hash_of(name, parent, module)};
    uint32_t site = find(&k);
    return site != 0 ? site : add(&k, module, stamp_now());
}

bool mtr_site_line(const struct mtr_site *n, struct mtr_line *line) {
    *line = (struct mtr_line){
        .language = (enum mtf_language)(n->address >> 56),
        .file = (uint32_t)(n->address >> 32) & (MTF_SITE_LIMIT - 1),
        .line = (uint32_t)n->address,
        .function = n->module & (MTF_SITE_LIMIT - 1),
    };
    return (n->module & MTR_SITE_IS_LINE) != 0;
}

/* --- Definitions --------------------------------------------------------- */

unsigned mtr_site_put(uint8_t *p, uint32_t site, const struct mtr_site *n) {
    struct mtf_site_def def = {.what = MTF_SITE_DEF_FRAME,
                               .site = site,
                               .parent = n->parent,
                               .module = n->module,
                               .address = n->address};
    struct mtr_line line;
    unsigned left;
    if (mtr_site_line(n, &line)) {
        def.what = MTF_SITE_DEF_LINE;
        def.language = (uint8_t)line.language;
        def.file = line.file;
        def.line = line.line;
        def.function = line.function;
    }
    return mtf_site_def_put(p, DEF_BYTES, &def, &left);
}

unsigned mtr_site_put_text(uint8_t *p, uint32_t number,
                           const struct mtr_text *text, uint32_t *done) {
    unsigned left;
    if (*done == text->length)
        return 0;
    struct mtf_site_def def = {.what = MTF_SITE_DEF_TEXT,
                               .text = number,
                               .offset = *done,
                               .path = (const uint8_t *)text->bytes + *done,
                               .path_length = text->length - *done};
    unsigned n = mtf_site_def_put(p, DEF_BYTES, &def, &left);
    *done = text->length - left;
    return n;
}

unsigned mtr_site_put_mode(uint8_t *p) {
    const struct mtr_config *c = &mtr_config;
    struct mtf_site_def def = {
        .what = MTF_SITE_DEF_MODE,
        .mode = c->sites,
        .free_sites = c->free_sites,
        .depth = c->sites == MTR_SITES_CALLER ? 0 : c->site_depth,
        .mean = c->site_mean};
    unsigned left;
    return mtf_site_def_put(p, DEF_BYTES, &def, &left);
}

unsigned mtr_site_put_module(uint8_t *p, uint32_t number,
                             const struct mtr_module *m, uint32_t *done) {
    bool first = *done == UINT32_MAX;
    if (first)
        *done = 0;
    else if (*done == m->path_length)
        return 0;
    struct mtf_site_def def = {.what = first ? MTF_SITE_DEF_MODULE
                                             : MTF_SITE_DEF_PATH,
                               .module = number,
                               .start = m->start,
                               .end = m->end,
                               .bias = m->bias,
                               .build_id = m->build_id,
                               .build_id_length = m->build_id_length,
                               .path = (const uint8_t *)m->path + *done,
                               .path_length = m->path_length - *done};
    unsigned left;
    unsigned n = mtf_site_def_put(p, DEF_BYTES, &def, &left);
    *done = m->path_length - left;
    return n;
}

void mtr_site_tell_epoch(uint32_t *place, uint32_t now) {
    uint32_t told = tcm_load_relaxed(place);
    while (told < now && !tcm_cas_acq_rel(place, &told, now))
        ;
}

/* --- Of a part of a recording -------------------------------------------- */

struct sites_list {
    struct mtf_raw_writer *w;
    uint64_t now;
    size_t bytes;
    uint8_t event[SITES_BYTES];
};

static bool flush(struct sites_list *list) {
    size_t n = list->bytes;
    list->bytes = 0;
    return n == 0 || mtf_raw_write_sites(list->w, list->now, list->event, n);
}

static bool put_in_list(struct sites_list *list, const uint8_t *def,
                        unsigned n) {
    if (list->bytes + MTF_EVENT_ROOM > SITES_BYTES && !flush(list))
        return false;
    list->bytes +=
        mtf_raw_put_bytes(list->event + list->bytes, MTF_RAW_SITE_DEF, def, n);
    return true;
}

bool mtr_sites_write(struct mtf_raw_writer *w, uint64_t now) {
    static struct sites_list list; /* the thread that saves is the only one */
    uint32_t this_epoch = tcm_load_relaxed(&epoch);
    uint8_t def[DEF_BYTES];
    list.w = w;
    list.now = now;
    list.bytes = 0;
    const struct mtr_module *m;
    if (!put_in_list(&list, def, mtr_site_put_mode(def)))
        return false;
    for (uint32_t i = 1; (m = mtr_module(i)) != NULL; i++) {
        uint32_t done = UINT32_MAX;
        if (tcm_load_acquire(&m->epoch) != this_epoch)
            continue;
        for (unsigned n; (n = mtr_site_put_module(def, i, m, &done)) != 0;)
            if (!put_in_list(&list, def, n))
                return false;
    }
    for (uint32_t i = 1, texts = mtr_texts_end(); i < texts; i++) {
        const struct mtr_text *text = mtr_text_of(i);
        uint32_t done = 0;
        if (text == NULL || tcm_load_acquire(&text->epoch) != this_epoch)
            continue;
        for (unsigned n; (n = mtr_site_put_text(def, i, text, &done)) != 0;)
            if (!put_in_list(&list, def, n))
                return false;
    }
    uint32_t end =
        (uint32_t)tcm_min_u64(tcm_load_relaxed(&next_site), MTF_SITE_LIMIT);
    for (uint32_t i = 1; i < end; i++) {
        const struct mtr_site *n = node_at(i, false);
        if (n != NULL && tcm_load_acquire(&n->epoch) == this_epoch &&
            !put_in_list(&list, def, mtr_site_put(def, i, n)))
            return false;
    }
    return flush(&list);
}

/* --- Threads ------------------------------------------------------------- */

uint8_t mtr_alloc_call(const struct mtr_thread *t) {
    return mtr_has_sites(t) ? t->cold->sites->call : t->alloc_call;
}

void mtr_set_alloc_call(struct mtr_thread *t, uint8_t call) {
    if (mtr_has_sites(t))
        t->cold->sites->call = call;
    else
        t->alloc_call = call;
}

void mtr_site_new_buffer(struct mtr_thread *t) {
    if (mtr_has_sites(t))
        memset(&t->cold->sites->coding, 0, sizeof(t->cold->sites->coding));
}
