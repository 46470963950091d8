/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts of sites: names of files and functions, numbered from 1. The table only
 * grows, as that of sites, and children of fork keep it.
 *
 * Threads: any, without lock.
 */
#ifndef TCM_SITES_SITE_TEXTS_H
#define TCM_SITES_SITE_TEXTS_H

#include "base/compiler.h"
#include "traceformat/site_codec.h"

struct mts_text {
    uint32_t epoch; /* it is defined in; see site_table.c */
    uint32_t next;  /* in its bucket */
    uint32_t length;
    uint32_t hash;
    const char *bytes;
};

/* The number of a text of LENGTH bytes, at most MTF_SITE_TEXT_MAX; 0 for an
   empty one, and where there is no memory or no number left. */
uint32_t mts_text_intern(const char *bytes, uint32_t length);
/* Text NUMBER, from 1; NULL: there is none, or it is being made. */
struct mts_text *mts_text_of(uint32_t number);
/* Above the number of each text so far. */
uint32_t mts_texts_end(void);

#endif
