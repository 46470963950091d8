/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Definitions of sites, as the trace has them (site_codec.h).
 *
 * A site is defined in the stream of the thread that needs it first, before the
 * event that has it; so a kill leaves no event without its definition. It is
 * defined once in a recording, or in a part of one of which only the end is
 * kept, but for races of two threads, which write the same twice.
 *
 * Threads: any, each with a sink of its own.
 */
#ifndef TCM_SITES_SITE_DEFS_H
#define TCM_SITES_SITE_DEFS_H

#include "base/compiler.h"

struct mtf_raw_writer;

/* Where a definition goes. PUT takes its N bytes, at most MTF_EXTENDED_MAX;
   false: there is no room, and the definition is not in the trace. */
struct mts_sink {
    bool (*put)(void *ctx, const uint8_t *def, unsigned n);
    void *ctx;
};

/* The mode (mts_settings). */
bool mts_define_mode(const struct mts_sink *sink);
/* SITE and all that its definition names, as far as they are not defined in
   recording EPOCH yet: from the outermost parent on. With MEETS, interpreters
   are looked for in modules that are defined now, and the calling thread runs
   code of them. false: as PUT; what is defined already stays so. */
bool mts_define(const struct mts_sink *sink, uint32_t site, uint32_t epoch,
                bool meets);

/* Writes all definitions of this recording so far, for a part of it that may be
   read without those before. By one thread at a time, which saves. */
bool mts_write_all(struct mtf_raw_writer *w, uint64_t now);

#endif
