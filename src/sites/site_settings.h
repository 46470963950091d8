/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings of call sites: the mode that TCMALLOC_TRACE_SITES asks for, and what
 * this library needs of its host, the recorder.
 *
 * Threads: read by all. The host fills the settings in before the first thread
 * has sites; each recording brings the process up to date (mts_begin).
 */
#ifndef TCM_SITES_SITE_SETTINGS_H
#define TCM_SITES_SITE_SETTINGS_H

#include "base/compiler.h"
#include "traceformat/site_codec.h"

/* Numbers as in the trace. */
enum mts_mode {
    MTS_NO_SITES = 0,
    MTS_CALLER = MTF_SITE_MODE_CALLER,
    MTS_STACKS = MTF_SITE_MODE_STACK,
    MTS_SAMPLES = MTF_SITE_MODE_SAMPLE,
    MTS_LINES = MTF_SITE_MODE_LANG
};

#define MTS_MEAN_DEFAULT ((uint64_t)512 << 10)
#define MTS_MEAN_MAX     ((uint64_t)1 << 40)

/* Functions of the host. None allocates from the program's heap or waits. */
struct mts_host {
    /* Whether P is an address in the heap, which can be read. */
    bool (*has_memory)(const void *p);
    /* The token of the block that is in use at P, if that is not much longer
       than BYTES; 0: it has none. */
    uint64_t (*token_of)(const void *p, size_t bytes);
    /* A line for the user. WHICH (NULL: nothing) and errno ERROR (0: none)
       follow TEXT. */
    void (*complain)(const char *text, const char *which, int error);
};

struct mts_settings {
    uint8_t mode;    /* enum mts_mode */
    bool free_sites; /* frees have sites, too */
    uint8_t native;  /* most frames of a stack where lines are; 0: the caller */
    uint16_t depth;  /* most frames of a stack, or lines */
    uint64_t mean;   /* bytes between samples, on average */
    uint32_t pid;    /* of the process that is recorded */
    uint64_t random; /* of that recording */
    struct mts_host host;
};
extern struct mts_settings mts_settings TCM_LOCAL;

/* Sets mode, depth and mean of S by TEXT, the variable's value or NULL. false:
   TEXT is no mode, S asks for no sites. */
bool mts_settings_parse(const char *text, struct mts_settings *s);

#endif
