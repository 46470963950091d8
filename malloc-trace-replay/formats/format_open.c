/* SPDX-License-Identifier: BSD-3-Clause */
#include "formats/format_open.h"

#include "base/check.h"
#include "traceformat/proc_layout.h"
#include "traceformat/raw_layout.h"

#include <errno.h>
#include <string.h>

TCM_STATIC_ASSERT(FORMAT_LOOK <= TOOL_INPUT_LOOK, "one look tells the format");

/* Tells whether IN is a trace of ours, or empty. Reads no more than the magic:
   the rest may come late. */
static bool is_ours(struct tool_input *in) {
    uint8_t first[8];
    size_t n = tool_input_peek(in, first);
    return n < sizeof(first) ? n == 0
                             : memcmp(first, MTF_PROC_MAGIC, n) == 0 ||
                                   memcmp(first, MTF_RAW_MAGIC, n) == 0 ||
                                   memcmp(first, MTF_SPOOL_MAGIC, n) == 0;
}

static uint64_t stored_bytes(struct mtf_source *from) {
    return tool_input_stored_bytes(format_import_input(format_import_of(from)));
}

static void end_import(struct mtf_source *from) {
    format_import_free(format_import_of(from));
}

struct tool_input *format_open_input(struct tool_input *in,
                                     const struct format_type *format,
                                     struct format_import **import) {
    const uint8_t *p;
    *import = NULL;
    if (format == NULL && !is_ours(in)) {
        size_t n = tool_input_look(in, FORMAT_LOOK, &p);
        format = format_by_content(p, n, n < FORMAT_LOOK);
    }
    if (format == NULL)
        return in;
    struct format_import *i = format_import_new(in, format, true);
    if (i == NULL)
        return NULL;
    const struct tool_input *under = format_import_input(i);
    struct tool_input *made = tool_input_of_source(
        format_import_source(i), tool_input_name(under),
        tool_input_file_size(under), stored_bytes, end_import);
    if (made == NULL)
        format_import_free(i);
    else
        *import = i;
    return made;
}

struct tool_input *format_open(const char *name) {
    struct format_import *import;
    struct tool_input *in = tool_input_open(name);
    if (in == NULL)
        return NULL;
    in = format_open_input(in, NULL, &import);
    if (in == NULL)
        errno = ENOMEM;
    return in;
}
