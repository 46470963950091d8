/* SPDX-License-Identifier: BSD-3-Clause */
#include "formats/format_reader.h"

#include <stdlib.h>
#include <string.h>

bool format_reader_init(struct format_reader *r, struct tool_input *in) {
    memset(r, 0, sizeof(*r));
    r->in = in;
    r->source = tool_input_source(in);
    r->window = malloc(FORMAT_WINDOW);
    return r->window != NULL;
}

void format_reader_ahead(struct format_reader *r) {
    r->ahead = tool_ahead_start(r->in);
    if (r->ahead != NULL)
        r->source = tool_ahead_source(r->ahead);
}

void format_reader_fini(struct format_reader *r) {
    tool_ahead_stop(r->ahead);
    free(r->window);
}

/* Moves the bytes not taken to the front of the window and reads more behind
   them. False: no bytes follow, or the window is full. */
static bool fill_window(struct format_reader *r) {
    size_t got;
    if (r->at_end)
        return false;
    TCM_ASSERT(r->at <= r->end && r->end <= FORMAT_WINDOW);
    memmove(r->window, r->window + r->at, r->end - r->at);
    r->base += r->at;
    r->end -= r->at;
    r->at = 0;
    if (r->end == FORMAT_WINDOW)
        return false;
    for (;;) {
        switch (r->source->read(r->source, r->window + r->end,
                                FORMAT_WINDOW - r->end, &got)) {
        case MTF_SOURCE_DATA:
            r->end += got;
            return true;
        case MTF_SOURCE_BREAK:
            r->broke = true;
            r->breaks++;
            continue;
        case MTF_SOURCE_ERROR:
            r->failed = true;
            r->at_end = true;
            return false;
        case MTF_SOURCE_END:
            r->at_end = true;
            return false;
        }
    }
}

const uint8_t *format_reader_peek(struct format_reader *r, size_t n,
                                  size_t *have) {
    TCM_ASSERT(n <= FORMAT_WINDOW);
    while (r->end - r->at < n && fill_window(r))
        ;
    *have = r->end - r->at;
    r->from = r->base + r->at;
    return r->window + r->at;
}

/* Skips up to the next newline. */
static void skip_line(struct format_reader *r) {
    for (;;) {
        const uint8_t *from = r->window + r->at;
        const uint8_t *p = memchr(from, '\n', r->end - r->at);
        if (p != NULL) {
            r->at += (size_t)(p - from) + 1;
            return;
        }
        r->at = r->end;
        if (!fill_window(r))
            return;
    }
}

const char *format_reader_skip_mark(const char *p, const char *end) {
    return end - p >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? p + 3 : p;
}

bool format_reader_line(struct format_reader *r, const char **p,
                        const char **end, bool *too_long, bool *last) {
    size_t seen = 0;
    const uint8_t *found;
    *too_long = *last = false;
    for (;;) {
        const uint8_t *from = r->window + r->at;
        found = memchr(from + seen, '\n', r->end - r->at - seen);
        seen = r->end - r->at;
        if (found != NULL || seen > FORMAT_LINE_MAX || !fill_window(r))
            break;
    }
    const uint8_t *from = r->window + r->at;
    r->from = r->base + r->at;
    if (found == NULL && seen == 0)
        return false;
    r->line++;
    size_t n = found != NULL ? (size_t)(found - from) : seen;
    *p = (const char *)from;
    if (n > FORMAT_LINE_MAX) {
        *too_long = true;
        skip_line(r);
        *p = *end = "";
        return true;
    }
    *last = found == NULL;
    r->at += n + (found != NULL);
    if (n != 0 && from[n - 1] == '\r')
        n--;
    *end = *p + n;
    if (r->line == 1)
        *p = format_reader_skip_mark(*p, *end);
    return true;
}

bool format_reader_has_line(const struct format_reader *r) {
    return memchr(r->window + r->at, '\n', r->end - r->at) != NULL;
}

/* --- Names of calls ------------------------------------------------------- */

/* Names of the malloc family in C, and of the operators, mangled and
   demangled. */
static const struct {
    const char *name;
    uint8_t call;
} call_names[] = {
    {"malloc", MTF_CALL_MALLOC},
    {"calloc", MTF_CALL_CALLOC},
    {"realloc", MTF_CALL_REALLOC},
    {"reallocarray", MTF_CALL_REALLOCARRAY},
    {"memalign", MTF_CALL_MEMALIGN},
    {"aligned_alloc", MTF_CALL_ALIGNED_ALLOC},
    {"posix_memalign", MTF_CALL_POSIX_MEMALIGN},
    {"valloc", MTF_CALL_VALLOC},
    {"pvalloc", MTF_CALL_PVALLOC},
    {"free", MTF_CALL_FREE},
    {"cfree", MTF_CALL_CFREE},
    {"free_sized", MTF_CALL_FREE_SIZED},
    {"free_aligned_sized", MTF_CALL_FREE_ALIGNED_SIZED},
#define OPERATOR(mangled, demangled, call)                                     \
    {mangled, MTF_CALL_##call}, {                                              \
        "operator " demangled, MTF_CALL_##call                                 \
    }
#define ALIGN   "St11align_val_t"
#define NOTHROW "RKSt9nothrow_t"
#define align   ", std::align_val_t"
#define nothrow ", std::nothrow_t const&"
    OPERATOR("_Znwm", "new(unsigned long)", NEW),
    OPERATOR("_Znam", "new[](unsigned long)", NEW_ARRAY),
    OPERATOR("_Znwm" NOTHROW, "new(unsigned long" nothrow ")", NEW_NOTHROW),
    OPERATOR("_Znam" NOTHROW, "new[](unsigned long" nothrow ")",
             NEW_ARRAY_NOTHROW),
    OPERATOR("_Znwm" ALIGN, "new(unsigned long" align ")", NEW_ALIGNED),
    OPERATOR("_Znam" ALIGN, "new[](unsigned long" align ")", NEW_ARRAY_ALIGNED),
    OPERATOR("_Znwm" ALIGN NOTHROW, "new(unsigned long" align nothrow ")",
             NEW_ALIGNED_NOTHROW),
    OPERATOR("_Znam" ALIGN NOTHROW, "new[](unsigned long" align nothrow ")",
             NEW_ARRAY_ALIGNED_NOTHROW),
    OPERATOR("_ZdlPv", "delete(void*)", DELETE),
    OPERATOR("_ZdaPv", "delete[](void*)", DELETE_ARRAY),
    OPERATOR("_ZdlPvm", "delete(void*, unsigned long)", DELETE_SIZED),
    OPERATOR("_ZdaPvm", "delete[](void*, unsigned long)", DELETE_ARRAY_SIZED),
    OPERATOR("_ZdlPv" NOTHROW, "delete(void*" nothrow ")", DELETE_NOTHROW),
    OPERATOR("_ZdaPv" NOTHROW, "delete[](void*" nothrow ")",
             DELETE_ARRAY_NOTHROW),
    OPERATOR("_ZdlPv" ALIGN, "delete(void*" align ")", DELETE_ALIGNED),
    OPERATOR("_ZdaPv" ALIGN, "delete[](void*" align ")", DELETE_ARRAY_ALIGNED),
    OPERATOR("_ZdlPvm" ALIGN, "delete(void*, unsigned long" align ")",
             DELETE_SIZED_ALIGNED),
    OPERATOR("_ZdaPvm" ALIGN, "delete[](void*, unsigned long" align ")",
             DELETE_ARRAY_SIZED_ALIGNED),
    OPERATOR("_ZdlPv" ALIGN NOTHROW, "delete(void*" align nothrow ")",
             DELETE_ALIGNED_NOTHROW),
    OPERATOR("_ZdaPv" ALIGN NOTHROW, "delete[](void*" align nothrow ")",
             DELETE_ARRAY_ALIGNED_NOTHROW),
#undef OPERATOR
#undef ALIGN
#undef NOTHROW
#undef align
#undef nothrow
};

uint8_t format_scan_call(const char **p, const char *end) {
    for (size_t i = 0; i < TCM_ARRAY_SIZE(call_names); i++) {
        const char *at = *p, *name = call_names[i].name;
        if (format_scan_bytes(&at, end, name, strlen(name)) && at < end &&
            (*at == '(' || *at == '@' || *at == ' ')) {
            *p = at;
            return call_names[i].call;
        }
    }
    return 0;
}

/* --- Several processes ---------------------------------------------------- */

/* Makes PID the last process. False: too many processes, or out of memory. */
static bool select_process(struct format_processes *p, uint64_t pid) {
    struct tool_map_entry *e;
    if (p->numbers.count != 0 && p->last == pid)
        return true;
    if (p->numbers.count >> (64 - FORMAT_ID_BITS) != 0 || pid == UINT64_MAX ||
        (e = tool_map_get(&p->numbers, pid + 1)) == NULL)
        return false;
    if (e->value == 0)
        e->value = p->numbers.count;
    TCM_ASSERT(e->value - 1 < p->numbers.count);
    p->last = pid;
    p->bits = (e->value - 1) << FORMAT_ID_BITS;
    return true;
}

enum format_result format_processes_tag(struct format_processes *p,
                                        uint64_t pid, struct format_event *e,
                                        const char **why) {
    if ((e->id | e->old) >> FORMAT_ID_BITS != 0 || !select_process(p, pid)) {
        *why = "address of more than 48 bits, or more than 65536 processes";
        return FORMAT_BAD;
    }
    if (e->id != 0)
        e->id |= p->bits;
    if (e->old != 0)
        e->old |= p->bits;
    return FORMAT_EVENT;
}

void format_processes_fini(void *state) {
    struct format_processes *p = state;
    tool_map_fini(&p->numbers);
}
