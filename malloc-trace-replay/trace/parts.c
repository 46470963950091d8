/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/parts.h"

#include "base/check.h"
#include "common/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct candidate {
    struct mtf_raw_info info;
    bool is_one;
};

static void name_of(char *out, size_t cap, const char *base, unsigned i) {
    (void)snprintf(out, cap, "%s.k%u", base, i);
}

/* The header of a part, or one of its copies behind damage. */
static bool read_header(const char *name, uint8_t *buffer,
                        struct mtf_raw_info *info) {
    struct mtf_raw_reader r;
    struct mtf_item item;
    struct tool_input *in = tool_input_open(name);
    bool found = false;
    if (in == NULL)
        return false;
    mtf_raw_reader_init(&r, tool_input_source(in), buffer);
    do {
        mtf_raw_reader_next(&r, &item);
        if (item.kind == MTF_ITEM_HEADER) {
            *info = *item.info;
            found = info->is_part;
        }
    } while (item.kind == MTF_ITEM_DAMAGE);
    tool_input_close(in);
    return found;
}

/* The part that was recorded last decides which recording has the name. */
static int newest(const struct candidate *c) {
    int best = -1;
    for (unsigned i = 0; i < MTF_PARTS; i++)
        if (c[i].is_one &&
            (best < 0 || c[i].info.fixed.wall_ns > c[best].info.fixed.wall_ns))
            best = (int)i;
    return best;
}

/* Takes those of the recording of WHOSE, ordered by number. */
static void take(struct tool_parts *p, const struct candidate *c,
                 const struct mtf_raw_header *whose, char *name, size_t cap) {
    for (unsigned i = 0; i < MTF_PARTS; i++) {
        if (!c[i].is_one || !mtf_raw_same_recording(&c[i].info.fixed, whose))
            continue;
        name_of(name, cap, p->base, i);
        struct tool_input *in = tool_input_open(name);
        if (in == NULL)
            continue;
        TCM_ASSERT(p->count < MTF_PARTS);
        unsigned at = p->count++;
        for (; at > 0 && p->part[at - 1] > c[i].info.part; at--) {
            p->part[at] = p->part[at - 1];
            p->in[at] = p->in[at - 1];
        }
        p->part[at] = c[i].info.part;
        p->in[at] = in;
    }
}

bool tool_parts_find(struct tool_parts *p, const char *name, uint8_t *buffer) {
    memset(p, 0, sizeof(*p));
    bool is_part = tool_file_is_part(name);
    if (!is_part && access(name, F_OK) == 0)
        return true;
    struct candidate *c = calloc(MTF_PARTS, sizeof(*c));
    size_t cap = strlen(name) + 16;
    char *path = malloc(cap);
    p->base = strdup(name);
    bool ok = c != NULL && path != NULL && p->base != NULL;
    if (ok) {
        int whose = -1;
        if (is_part) {
            whose = name[strlen(name) - 1] - '0';
            p->base[strlen(name) - 3] = '\0';
        }
        for (unsigned i = 0; i < MTF_PARTS; i++) {
            name_of(path, cap, p->base, i);
            c[i].is_one = read_header(path, buffer, &c[i].info);
        }
        if (!is_part)
            whose = newest(c);
        if (whose >= 0 && c[whose].is_one)
            take(p, c, &c[whose].info.fixed, path, cap);
    }
    if (p->count == 0) {
        free(p->base);
        p->base = NULL;
    }
    free(path);
    free(c);
    return ok;
}

bool tool_parts_at_last(const struct tool_parts *p) {
    return p->at + 1 >= p->count;
}

bool tool_parts_skip(struct tool_parts *p) {
    TCM_ASSERT(p->at + 1 < p->count);
    uint32_t *number = &p->part[p->at];
    bool skips = number[0] + 1 != number[1];
    number[0] = number[1] - 1;
    return skips;
}

struct tool_input *tool_parts_advance(struct tool_parts *p,
                                      struct tool_input *in) {
    TCM_ASSERT(p->at + 1 < p->count && p->in[p->at] == NULL);
    p->past_bytes += tool_input_bytes(in);
    p->past_stored += tool_input_stored_bytes(in);
    tool_input_close(in);
    in = p->in[++p->at];
    p->in[p->at] = NULL;
    return in;
}

uint64_t tool_parts_left_bytes(const struct tool_parts *p) {
    uint64_t n = 0;
    for (unsigned i = p->at + 1; i < p->count; i++)
        n += tool_input_file_size(p->in[i]);
    return n;
}

void tool_parts_close(struct tool_parts *p) {
    for (unsigned i = 0; i < p->count; i++)
        tool_input_close(p->in[i]);
    free(p->base);
}
