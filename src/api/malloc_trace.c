/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public calls that control recording; contract in
 * gperftools/malloc_trace.h.
 */
#include "gperftools/malloc_trace.h"
#include "api/export.h"
#include "api/library.h"
#include "api/trace_hooks.h"

#include <string.h>

bool TCM_EXPORT(malloc_trace_start)(const char *path);
bool TCM_EXPORT(malloc_trace_stop)(void);
bool TCM_EXPORT(malloc_trace_flush)(void);
bool TCM_EXPORT(malloc_trace_is_on)(void);
bool TCM_EXPORT(malloc_trace_file)(char *path, size_t size);
void TCM_EXPORT(malloc_trace_mark)(const char *text);

TCM_PUBLIC bool TCM_EXPORT(malloc_trace_start)(const char *path) {
    /* May come from a constructor that runs before ours. */
    if (!tcm_api_init())
        return false;
    tcm_trace_init(false);
    return tcm_trace_start(path);
}

TCM_PUBLIC bool TCM_EXPORT(malloc_trace_stop)(void) {
    return tcm_trace_stop();
}

TCM_PUBLIC bool TCM_EXPORT(malloc_trace_flush)(void) {
    return tcm_trace_flush();
}

TCM_PUBLIC bool TCM_EXPORT(malloc_trace_is_on)(void) {
    return tcm_trace_is_on();
}

TCM_PUBLIC bool TCM_EXPORT(malloc_trace_file)(char *path, size_t size) {
    return tcm_trace_file(path, size);
}

TCM_PUBLIC void TCM_EXPORT(malloc_trace_mark)(const char *text) {
    if (text != NULL && tcm_trace_is_on() && tcm_api_init_recorded())
        tcm_trace_mark(text, strlen(text));
}
