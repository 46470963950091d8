/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The user's frame of a stack: the one that a row names. Frames of libraries
 * through which any code allocates are passed over; report_frames.c has the
 * lists.
 *
 * Ranks of frames, highest first; of several the innermost is named:
 *
 * 1. the user's lines of interpreted programs
 * 2. lines of packages (site-packages, gems)
 * 3. lines of the interpreter's own library
 * 4. the user's native code
 * 5. native code of packages
 * 6. all others
 *
 * So in a stack with lines a line is named, and in a stack without any of the
 * user's frames the innermost frame.
 *
 * Invariants: 4 bytes a frame of the trace and 1 a name. The work grows with
 * frames, not with the depth of stacks.
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_FRAMES_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_FRAMES_H

#include "symbols/symbol_names.h"

#include <regex.h>

enum report_frame_class {
    REPORT_FRAME_SYSTEM,  /* runtime libraries and allocating wrappers */
    REPORT_FRAME_PACKAGE, /* installed packages of Python, Ruby, Perl, Rust */
    REPORT_FRAME_USER
};

/* Changes to the lists. All zero: none. */
struct report_skip {
    regex_t *match; /* functions, files or modules to pass over, too */
    size_t count;
    bool off; /* pass over nothing */
};

/* Results of one trace, or of several that are summed up. */
struct report_frames {
    struct symbol_names *names;
    const struct tool_sites *sites;
    const struct report_skip *skip;
    bool native;        /* native code ranks above lines */
    uint8_t *name_rank; /* by number of the name; 0: not known yet */
    size_t name_room;
    uint32_t *of_frame; /* named name plus 1, by index of the frame */
};

/* The class of code by its function, source file and module, each of which may
   be NULL. LANGUAGE: enum mtf_language; 0: native code, which belongs to the
   interpreter if its module is one and INTERPRETED is set. */
enum report_frame_class report_frame_class(const struct symbol_name *name,
                                           bool interpreted);

/* The qualified name in TEXT, a demangled name of C++, without the type of the
   result before it: function templates have one. */
const char *report_frame_qualified(const char *text);
/* The last part of that name, with all behind it: "f<int>(int)" of
   "void n::c::f<int>(int)". */
const char *report_frame_last(const char *text);

/* NAMES, of SITES, and SKIP outlive F. NATIVE: rank native code above lines.
   False: out of memory. */
bool report_frames_init(struct report_frames *f, struct symbol_names *names,
                        const struct tool_sites *sites,
                        const struct report_skip *skip, bool native);
void report_frames_fini(struct report_frames *f);
/* True if the name NUMBER is of the user's code. */
bool report_frames_is_user(struct report_frames *f, uint32_t number);
/* Number of the name that stands for SITE's stack. */
uint32_t report_frames_named(struct report_frames *f, uint32_t site);

#endif
