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
#include "sites/site_table.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "sites/site_memory.h"
#include "sites/site_modules.h"

#define GONE UINT32_MAX

#define CHUNK_LOG2 12u
#define CHUNKS     12u /* 2^24 numbers */
#define TABLE_LOG2 13u
#define TABLES     7u /* the last has 2^25 slots */

static struct mts_site *chunks[CHUNKS];
static uint64_t *tables[TABLES];
static uint32_t newest; /* table */
static uint32_t next_site = 1;
static uint32_t epoch;
uint64_t mts_stamp = 1;

static uint32_t stamp_now(void) {
    uint32_t stamp = (uint32_t)tcm_load_relaxed(&mts_stamp);
    return stamp == GONE ? 0 : stamp;
}

void mts_table_begin(void) {
    tcm_add_relaxed(&epoch, 1u);
    tcm_add_relaxed(&mts_stamp, (uint64_t)1);
}

uint32_t mts_epoch(void) {
    return tcm_load_relaxed(&epoch);
}

uint32_t mts_sites_end(void) {
    return (uint32_t)tcm_min_u64(tcm_load_relaxed(&next_site), MTF_SITE_LIMIT);
}

/* --- Nodes --------------------------------------------------------------- */

/* NULL: no memory, or MAKE is false and there is none yet. */
static struct mts_site *node_at(uint32_t site, bool make) {
    uint32_t n = site + (1u << CHUNK_LOG2);
    unsigned chunk = tcm_log2_floor(n) - CHUNK_LOG2;
    TCM_ASSERT(site < MTF_SITE_LIMIT);
    if (chunk >= CHUNKS)
        return NULL;
    size_t count = (size_t)1 << (CHUNK_LOG2 + chunk);
    struct mts_site *nodes =
        make ? mts_need(&chunks[chunk], count * sizeof(*nodes))
             : tcm_load_acquire(&chunks[chunk]);
    return nodes == NULL ? NULL : nodes + (n - count);
}

struct mts_site *mts_site_of(uint32_t site) {
    return node_at(site, false);
}

/* Whether the code of N is that of its module still. */
static bool is_current(struct mts_site *n) {
    uint32_t stamp = stamp_now(), seen = tcm_load_relaxed(&n->stamp);
    if (TCM_LIKELY(seen == stamp))
        return true;
    if (seen == GONE)
        return false;
    if ((n->module & MTS_SITE_IS_LINE) != 0)
        return true;
    bool same = mts_module_at((uintptr_t)n->address - 1, stamp) == n->module;
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
    struct mts_site *n = node_at((uint32_t)slot, false);
    return n != NULL && n->address == k->address && n->parent == k->parent &&
           (k->line == 0 || n->module == k->line) && is_current(n);
}

/* The site of K in the table, or 0. With SITE not 0 that one is put there if
   there is none yet. */
static uint32_t find_in_table(uint32_t table, const struct key *k,
                              uint32_t site) {
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
        mts_need(&tables[table + 1], table_slots(table + 1) * sizeof(uint64_t)))
        tcm_cas_acq_rel(&newest, &table, table + 1);
    return tcm_load_acquire(&newest);
}

static uint32_t add(const struct key *k, uint32_t module, uint32_t stamp) {
    if (tcm_load_relaxed(&next_site) >= MTF_SITE_LIMIT)
        return 0;
    uint32_t site = tcm_add_relaxed(&next_site, 1u);
    struct mts_site *n = site < MTF_SITE_LIMIT ? node_at(site, true) : NULL;
    TCM_ASSERT(k->parent < site);
    uint32_t table = grow(site);
    if (n == NULL ||
        mts_need(&tables[table], table_slots(table) * sizeof(uint64_t)) == NULL)
        return 0;
    n->address = k->address;
    n->parent = k->parent;
    n->module = module;
    n->stamp = stamp;
    return find_in_table(table, k, site);
}

static uint32_t find(const struct key *k) {
    uint32_t table = tcm_load_acquire(&newest);
    uint32_t site = find_in_table(table, k, 0);
    for (uint32_t i = table; site == 0 && i-- > 0;) {
        site = find_in_table(i, k, 0);
        if (site != 0)
            find_in_table(table, k, site);
    }
    return site;
}

uint32_t mts_intern(uint64_t address, uint32_t parent) {
    struct key k = {address, parent, 0, hash_of(address, parent, 0)};
    uint32_t site = find(&k);
    if (site != 0)
        return site;
    uint32_t stamp = stamp_now();
    return add(&k, mts_module_at((uintptr_t)address - 1, stamp), stamp);
}

/* No code has an address as large as language << 56. */
uint32_t mts_intern_line(const struct mts_line *line, uint32_t parent) {
    uint64_t name = (uint64_t)line->language << 56 |
                    (uint64_t)line->file << 32 | line->line;
    uint32_t module = MTS_SITE_IS_LINE | line->function;
    struct key k = {name, parent, module, hash_of(name, parent, module)};
    uint32_t site = find(&k);
    return site != 0 ? site : add(&k, module, stamp_now());
}

bool mts_line_of(const struct mts_site *n, struct mts_line *line) {
    *line = (struct mts_line){
        .language = (enum mtf_language)(n->address >> 56),
        .file = (uint32_t)(n->address >> 32) & (MTF_SITE_LIMIT - 1),
        .line = (uint32_t)n->address,
        .function = n->module & (MTF_SITE_LIMIT - 1),
    };
    return (n->module & MTS_SITE_IS_LINE) != 0;
}

void mts_tell_epoch(uint32_t *place, uint32_t now) {
    uint32_t told = tcm_load_relaxed(place);
    while (told < now && !tcm_cas_acq_rel(place, &told, now))
        ;
}
