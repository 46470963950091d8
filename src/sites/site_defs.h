/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Definitions of sites in a trace (site_codec.h).
 *
 * A site is defined in the stream of the thread that needs it first, before the
 * event that uses it, so a kill leaves no event without its definition. It is
 * defined once in a recording, or once in each part of a flight recording; only
 * two threads that need it at the same moment may both write the definition.
 *
 * Threads: any, each with its own sink.
 */
#ifndef TCM_SITES_SITE_DEFS_H
#define TCM_SITES_SITE_DEFS_H

#include "base/compiler.h"

struct mtf_raw_writer;

/* Receives definitions. PUT gets the N bytes of one, at most MTF_EXTENDED_MAX;
   false: there is no room, and the definition is not in the trace. */
struct mts_sink {
    bool (*put)(void *ctx, const uint8_t *def, unsigned n);
    void *ctx;
};

/* Defines the mode (mts_settings). */
bool mts_define_mode(const struct mts_sink *sink);
/* Defines SITE, its parents, and the modules or texts that they name, as far as
   recording EPOCH lacks them, the outermost parent first. With SCAN_MODULES
   each module that is defined now is searched for interpreters; the calling
   thread then runs code of it. false: as PUT; definitions that were written
   stay valid. */
bool mts_define(const struct mts_sink *sink, uint32_t site, uint32_t epoch,
                bool scan_modules);

/* Writes all definitions of this recording so far, for a part that may be read
   without the parts before it. Only the thread that saves calls it. */
bool mts_write_all(struct mtf_raw_writer *w, uint64_t now);

#endif
