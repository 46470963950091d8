/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of formats, and how the format of a file is found.
 *
 * A text gets the format that reads most of its first lines. A binary format
 * without a magic checks all bytes that it is given, so that hardly any other
 * file passes.
 */
#include "formats/format.h"

#include "formats/format_reader.h"

#include <stdlib.h>
#include <string.h>

static const struct format_type *const formats[] = {
#define X(name) &format_##name,
    FORMAT_LIST(X)
#undef X
};

const struct format_type *format_at(size_t i) {
    return i < TCM_ARRAY_SIZE(formats) ? formats[i] : NULL;
}

const struct format_type *format_by_name(const char *name) {
    for (size_t i = 0; i < TCM_ARRAY_SIZE(formats); i++)
        if (strcmp(formats[i]->name, name) == 0)
            return formats[i];
    return NULL;
}

/* --- Texts ---------------------------------------------------------------- */

struct line_counts {
    size_t events, bad;
};

/* Reads the lines of the N bytes at P as format F. Unless WHOLE, the last line
   may be cut and is not read. */
static struct line_counts count_lines(const struct format_type *f,
                                      const uint8_t *p, size_t n, bool whole) {
    struct line_counts t = {0, 0};
    void *state = calloc(1, f->state_bytes + 1);
    const uint8_t *end = p + n;
    p = (const uint8_t *)format_reader_skip_mark((const char *)p,
                                                 (const char *)end);
    while (state != NULL && p < end) {
        const uint8_t *stop = memchr(p, '\n', (size_t)(end - p));
        if (stop == NULL && !whole)
            break;
        const uint8_t *next = stop == NULL ? end : stop + 1;
        stop = stop == NULL ? end : stop;
        if (stop > p && stop[-1] == '\r')
            stop--;
        struct format_event e = {0};
        const char *why;
        enum format_result r =
            p == stop
                ? FORMAT_NOTHING
                : f->line(state, (const char *)p, (const char *)stop, &e, &why);
        t.events += r == FORMAT_EVENT;
        t.bad += r == FORMAT_BAD && next != stop;
        p = next;
    }
    if (state != NULL && f->fini != NULL)
        f->fini(state);
    free(state);
    return t;
}

/* A format reads more lines as events than any other, and at most half as many
   lines are bad. */
static const struct format_type *text_by_content(const uint8_t *p, size_t n,
                                                 bool whole) {
    const struct format_type *best = NULL;
    size_t most = 0;
    if (memchr(p, 0, n) != NULL)
        return NULL;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(formats); i++) {
        if (formats[i]->line == NULL)
            continue;
        struct line_counts t = count_lines(formats[i], p, n, whole);
        if (t.events > most && t.events > 2 * t.bad) {
            most = t.events;
            best = formats[i];
        }
    }
    return best;
}

const struct format_type *format_by_content(const uint8_t *p, size_t n,
                                            bool whole) {
    for (size_t i = 0; i < TCM_ARRAY_SIZE(formats); i++)
        if (formats[i]->matches != NULL && formats[i]->matches(p, n, whole))
            return formats[i];
    return n == 0 ? NULL : text_by_content(p, n, whole);
}
