/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The call sites of a trace, as its definitions say (traceformat/site_codec.h).
 *
 * Invariants: memory grows with the definitions read, whatever numbers they
 * have. A chain of parents may be a circle in a damaged trace: whoever follows
 * one stops at TOOL_SITE_DEPTH.
 * Threads: none shared.
 */
#ifndef TOOL_MODEL_SITES_H
#define TOOL_MODEL_SITES_H

#include "common/hash.h"
#include "traceformat/site_codec.h"

/* More frames than any stack that is recorded has. */
#define TOOL_SITE_DEPTH 512u

struct tool_frame {
    bool known;
    uint8_t language; /* enum mtf_language: a line of it; 0: native code */
    uint32_t parent;
    union {
        struct {
            uint32_t module;
            uint64_t address; /* that the call returns to */
        };
        struct {
            uint32_t file, function; /* texts; 0: not known */
            uint32_t line;
        };
    };
};

struct tool_site_text {
    char *text; /* ends with a null byte; NULL: none */
    size_t length;
};

struct tool_module {
    bool known;
    uint8_t build_id_length;
    uint8_t build_id[MTF_BUILD_ID_MAX];
    uint64_t start, end, bias;
    char *path; /* NULL: none */
    size_t path_length;
};

struct tool_sites {
    struct tool_frame *frame;
    struct tool_ids frames;
    struct tool_module *module;
    struct tool_ids modules;
    struct tool_site_text *text;
    struct tool_ids texts;
    struct mtf_site_def mode; /* what is 0: the trace does not say */
    uint64_t unreadable;      /* definitions */
};

void tool_sites_fini(struct tool_sites *s);
/* The N bytes of a definition. The first one of a number counts. False: out of
   memory. */
bool tool_sites_take(struct tool_sites *s, const uint8_t *p, size_t n);
/* NULL: it is not defined. */
const struct tool_frame *tool_sites_frame(const struct tool_sites *s,
                                          uint32_t site);
const struct tool_module *tool_sites_module(const struct tool_sites *s,
                                            uint32_t module);
/* NULL: it is not defined. */
const char *tool_sites_text(const struct tool_sites *s, uint32_t text);

#endif
