/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offsets in the structures of CPython: a table of the versions that do not
 * publish them, the offsets that an interpreter publishes (3.13 and later), and
 * the trial of both.
 *
 * Threads: any; nothing here is changed once it was filled in.
 */
#ifndef TCM_SITES_LANG_LANG_PYTHON_H
#define TCM_SITES_LANG_LANG_PYTHON_H

#include "base/compiler.h"
#include "sites/lang/lang_reader.h"

/* The form of a code object's table of lines. */
enum mts_python_table {
    MTS_PYTHON_STEPS,    /* 3.9: steps of address and line */
    MTS_PYTHON_RANGES,   /* 3.10: lengths of ranges, steps of line */
    MTS_PYTHON_LOCATIONS /* 3.11 and later */
};

/* Offsets in bytes. NONE: there is no such member. */
#define MTS_PYTHON_NONE UINT32_MAX
struct mts_python_layout {
    struct mts_lang_versions of;
    bool is_published;          /* the offsets are those of the interpreter */
    bool has_frame_in_c;        /* STATE_FRAME is an offset in the C frame */
    enum mts_python_table form; /* of the table of lines */
    uint32_t state_c_frame;     /* in a thread state: an address in the C frame
                                   of the function that runs lines */
    uint32_t state_frame;
    uint32_t state_thread; /* identity of its thread; NONE: not needed */
    uint32_t frame_code, frame_previous, frame_owner;
    uint32_t frame_instr; /* address of the instruction, or its number */
    uint32_t code_filename, code_name, code_table, code_first_line;
    uint32_t code_bytes;   /* of a code object without its instructions */
    uint32_t code_version; /* NONE: code has no version number */
    uint32_t bytes_size, bytes_data;
    uint32_t text_length, text_hash, text_state, text_ascii, text_compact;
};

/* Addresses of the types of code objects, texts and byte strings. */
struct mts_python_types {
    uintptr_t code, text, bytes;
};

/* Layouts, and their number. */
extern const struct mts_python_layout mts_python_layouts[];
#define MTS_PYTHON_LAYOUTS 5u

#define MTS_PYTHON_OBJECT_TYPE  8u
#define MTS_PYTHON_OBJECT_COUNT 16u
#define MTS_PYTHON_CODE_TEXT    48u /* instructions before 3.11 */
/* From this owner on a frame is none of Python code. */
#define MTS_PYTHON_OWNED_BY_C 3u

/* A code object's address, which may have marks in its low bits. */
static inline uintptr_t mts_python_code(uintptr_t reference) {
    return reference & ~(uintptr_t)7;
}

/* Sets the offsets of TO to those that an interpreter of VERSION, the value of
   Py_Version, publishes in WORD, COUNT words at the start of _PyRuntime. false:
   they are not found, or cannot be right. */
bool mts_python_read_offsets(const uint64_t *word, size_t count,
                             uint64_t version,
                             const struct mts_python_types *types,
                             struct mts_python_layout *to);
/* True if the sizes that the types have are those of L. */
bool mts_python_fits(const struct mts_python_layout *l,
                     const struct mts_python_types *types);
/* The trial of L on the frames of a thread with the thread state STATE, which
   holds the interpreter's lock. */
enum mts_lang_trust mts_python_try(const struct mts_python_layout *l,
                                   const struct mts_python_types *types,
                                   uintptr_t state);

#endif
