/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Call sites of one or several traces, by number (traceformat/site_codec.h).
 *
 * Sites, modules and texts of the first trace keep their numbers; those of the
 * Nth trace are increased by N - 1 times MTF_SITE_LIMIT.
 *
 * Invariants: a frame takes 28 bytes where sites are numbered densely; the
 * table of frames by site takes at most 64 MiB for a trace, whatever the
 * numbers are. In a damaged trace parents may form a circle: code that follows
 * them stops after TOOL_SITE_DEPTH frames. Threads: none shared.
 */
#ifndef TOOL_MODEL_SITES_H
#define TOOL_MODEL_SITES_H

#include "common/collections.h"
#include "traceformat/site_codec.h"

/* Limit of frames of a stack, above that of any recorded stack. */
#define TOOL_SITE_DEPTH 512u

/* Most traces whose sites are kept at once. */
#define TOOL_SITE_TRACES 256u

struct tool_frame {
    uint8_t language; /* enum mtf_language; 0: native code */
    uint32_t parent;  /* site of the caller; 0: none */
    union {
        struct { /* native code */
            uint32_t module;
            uint64_t address; /* return address of the call */
        };
        struct {                     /* of an interpreter */
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
    size_t frames, frame_room;
    /* by trace and site, in pages: index of the frame plus 1 */
    uint32_t **place[TOOL_SITE_TRACES];
    uint32_t base;                  /* added to the numbers of this trace */
    uint32_t pid[TOOL_SITE_TRACES]; /* processes of the traces, 0: not known */
    struct tool_module *module;
    struct tool_ids modules;
    struct tool_site_text *text;
    struct tool_ids texts;
    bool has_lines;           /* there are frames of an interpreter */
    struct mtf_site_def mode; /* how sites were recorded; `what` 0: not known */
    uint64_t unreadable;      /* definitions that could not be read */
};

void tool_sites_fini(struct tool_sites *s);
/* Takes a definition of N bytes at P. If a site is defined twice, the first
   definition counts. False: out of memory. */
bool tool_sites_take(struct tool_sites *s, const uint8_t *p, size_t n);
/* Begins another trace: the definitions that follow have its numbers. */
void tool_sites_next_trace(struct tool_sites *s);
/* Returns the index of SITE's frame; SIZE_MAX: SITE is not defined. */
size_t tool_sites_place(const struct tool_sites *s, uint32_t site);
/* Returns the frame of SITE; NULL: SITE is not defined. */
static inline const struct tool_frame *
tool_sites_frame(const struct tool_sites *s, uint32_t site) {
    size_t at = tool_sites_place(s, site);
    return at == SIZE_MAX ? NULL : &s->frame[at];
}
const struct tool_module *tool_sites_module(const struct tool_sites *s,
                                            uint32_t module);
/* Returns the module or the text with this number; NULL: it is not defined. */
const char *tool_sites_text(const struct tool_sites *s, uint32_t text);

#endif
