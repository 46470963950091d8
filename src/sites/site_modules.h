/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modules (program, libraries) that sites lie in, numbered from 1.
 *
 * Modules are found with _dl_find_object of the C library (glibc 2.35), which
 * takes no lock and allocates nothing; without it all sites lie in no module.
 *
 * Threads: any, without lock. A module is looked at only while a thread runs
 * code of it, so it is not unloaded meanwhile.
 */
#ifndef TCM_SITES_SITE_MODULES_H
#define TCM_SITES_SITE_MODULES_H

#include "base/compiler.h"
#include "traceformat/site_codec.h"

struct mts_module {
    uint64_t start, end, bias;
    uint64_t dynamic; /* address of its dynamic section */
    uint32_t epoch;   /* it is defined in; see site_table.c */
    uint32_t stamp;   /* what it was last described at */
    bool is_met;      /* of lang.c's: interpreters were looked for in it */
    uint8_t build_id_length;
    uint8_t build_id[MTF_BUILD_ID_MAX];
    uint32_t path_length;
    char path[];
};

#define MTS_MODULES_MAX 16384u

/* The module that has code at ADDRESS now, made known if need be; 0: none, or
   there is no memory. STAMP changes whenever the loader has been at work: what
   has its place and was described at STAMP is the same module, and its headers
   are not read again. */
uint32_t mts_module_at(uintptr_t address, uint32_t stamp);
/* Whether it is module NUMBER; faster. */
bool mts_module_is_at(uint32_t number, uintptr_t address);
/* Module NUMBER, from 1; NULL: there are fewer. */
struct mts_module *mts_module(uint32_t number);

/* The loader's code; none in a static program. Set before others record. */
extern struct mts_code {
    uintptr_t start;
    size_t bytes;
} mts_loader TCM_LOCAL;
void mts_loader_find(void);

/* Whether a call that returns to CALLER is the loader's. */
static TCM_ALWAYS_INLINE bool mts_is_loader(uintptr_t caller) {
    return caller - mts_loader.start < mts_loader.bytes;
}

#endif
