/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/proc_kind.h"

#include "traceformat/proc_reader.h"

#include <stdlib.h>
#include <string.h>

/* Reads IN up to the first block of a processed trace. */
static bool has_block(struct tool_input *in, uint8_t *memory) {
    struct mtf_proc_reader r;
    struct mtf_proc_item item;
    mtf_proc_reader_init(&r, tool_input_source(in), memory);
    mtf_proc_reader_lost_header(&r);
    do {
        mtf_proc_reader_next(&r, &item);
    } while (item.kind == MTF_PROC_ITEM_DAMAGE);
    return item.kind == MTF_PROC_ITEM_OPS || item.kind == MTF_PROC_ITEM_CLOSING;
}

bool proc_kind_is_processed(struct tool_input *in, const char *name) {
    uint8_t first[8];
    if (tool_input_peek(in, first) == sizeof(first))
        return memcmp(first, MTF_PROC_MAGIC, sizeof(first)) == 0;
    if (name == NULL || !tool_input_is_compressed(in) ||
        tool_input_file_size(in) == 0)
        return false;
    struct tool_input *again = tool_input_open(name);
    uint8_t *memory = malloc(MTF_PROC_READER_BYTES);
    bool found = again != NULL && memory != NULL && has_block(again, memory);
    free(memory);
    tool_input_close(again);
    return found;
}
