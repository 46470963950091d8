/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings of call sites: the mode that TCMALLOC_TRACE_SITES asks for, and the
 * functions that this layer needs from its host, the recorder.
 *
 * Threads: any thread reads them. The host fills the settings in before the
 * first thread has sites; each recording updates process and random number
 * (mts_begin).
 */
#ifndef TCM_SITES_SITE_SETTINGS_H
#define TCM_SITES_SITE_SETTINGS_H

#include "base/compiler.h"
#include "traceformat/site_codec.h"

/* The numbers are those of the trace. */
enum mts_mode {
    MTS_NO_SITES = 0,
    MTS_CALLER = MTF_SITE_MODE_CALLER,
    MTS_STACKS = MTF_SITE_MODE_STACK,
    MTS_SAMPLES = MTF_SITE_MODE_SAMPLE,
    MTS_LINES = MTF_SITE_MODE_LANG
};

#define MTS_MEAN_DEFAULT ((uint64_t)512 << 10)
#define MTS_MEAN_MAX     ((uint64_t)1 << 40)

/* Functions of the host. None of them waits or allocates from the program's
   heap. */
struct mts_host {
    /* True if P is an address in the heap, which can be read. */
    bool (*has_memory)(const void *p);
    /* The token of the block in use at P, if the block is not much longer than
       BYTES; 0: it has none. */
    uint64_t (*token_of)(const void *p, size_t bytes);
    /* Prints a line: TEXT, then WHICH (NULL: nothing) and errno ERROR (0:
       none). */
    void (*complain)(const char *text, const char *which, int error);
};

struct mts_settings {
    uint8_t mode;    /* enum mts_mode */
    bool free_sites; /* frees have sites as well */
    uint8_t native;  /* LINES: most native frames; 0: the caller alone */
    uint16_t depth;  /* most frames of a stack, or most lines */
    uint64_t mean;   /* average bytes between samples */
    uint32_t pid;    /* process that is recorded */
    uint64_t random; /* random number of the recording */
    struct mts_host host;
};
extern struct mts_settings mts_settings TCM_LOCAL;

/* Sets mode, depth and mean of S from TEXT, the variable's value or NULL.
   false: TEXT is no mode; S then records no sites. */
bool mts_settings_parse(const char *text, struct mts_settings *s);

#endif
