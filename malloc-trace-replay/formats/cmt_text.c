/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CMT (Compact Memory Traces) as text:
 *
 *     malloc(SIZE) = PTR
 *     realloc(OLD, SIZE) = PTR
 *     free(PTR)
 *
 * PTR is hexadecimal, with 0x or without; a tag in angle brackets may follow,
 * and a comment after # or a blank. Pointers name blocks; tags are passed over.
 */
#include "formats/format_export.h"
#include "formats/format_scan.h"
#include "formats/formats.h"

static bool read_pointer(const char **p, const char *end, uint64_t *v) {
    uint64_t tag;
    if (!scan_next_hex(p, end, v))
        return false;
    return !scan_char(p, end, '<') ||
           (scan_u64(p, end, &tag) && scan_char(p, end, '>'));
}

static bool read_result(const char **p, const char *end, uint64_t *v) {
    scan_blanks(p, end);
    if (!scan_char(p, end, ')'))
        return false;
    scan_blanks(p, end);
    return scan_char(p, end, '=') && read_pointer(p, end, v);
}

static bool read_call(const char **p, const char *end, struct format_event *e) {
    e->call = MTF_CALL_MALLOC;
    if (scan_text(p, end, "malloc(")) {
        e->kind = FORMAT_ALLOC;
        return scan_next_u64(p, end, &e->size) && read_result(p, end, &e->id);
    }
    if (scan_text(p, end, "free(")) {
        e->kind = FORMAT_FREE;
        e->call = MTF_CALL_FREE;
        if (!read_pointer(p, end, &e->old))
            return false;
        scan_blanks(p, end);
        return scan_char(p, end, ')');
    }
    e->kind = FORMAT_REALLOC;
    e->call = MTF_CALL_REALLOC;
    if (!scan_text(p, end, "realloc(") || !read_pointer(p, end, &e->old))
        return false;
    scan_blanks(p, end);
    return scan_char(p, end, ',') && scan_next_u64(p, end, &e->size) &&
           read_result(p, end, &e->id);
}

static enum format_result read_line(void *state, const char *p, const char *end,
                                    struct format_event *e, const char **why) {
    (void)state;
    *why = "no line of a compact memory trace";
    if (scan_at_end(&p, end) || *p == '#')
        return FORMAT_NOTHING;
    if (!read_call(&p, end, e))
        return FORMAT_BAD;
    const char *behind = p;
    if (!scan_at_end(&p, end) && p == behind && *p != '#')
        return FORMAT_BAD;
    return FORMAT_EVENT;
}

/* --- Writing -------------------------------------------------------------- */

/* A processed trace has no addresses: each slot gets one of its own. Distances
   between them mean nothing. */
static void put_pointer(struct format_out *out, uint32_t slot) {
    format_out_hex(out, ((uint64_t)slot + 1) << 4);
}

static void put_block(struct format_out *out, uint32_t slot, uint64_t tag) {
    put_pointer(out, slot);
    format_out_char(out, '<');
    format_out_u64(out, tag);
    format_out_char(out, '>');
}

static void put(void *state, struct format_out *out,
                const struct format_put *p) {
    const struct format_event *e = &p->e;
    (void)state;
    if (e->kind == FORMAT_LIVE)
        return;
    if (e->kind > FORMAT_REALLOC || (e->flags & FORMAT_FAILED) != 0) {
        format_out_left(out, e);
        return;
    }
    if (e->kind == FORMAT_FREE || e->id == 0) {
        format_out_str(out, "free(");
        put_block(out, p->slot, e->old);
        format_out_str(out, ")\n");
        return;
    }
    /* The stock reader refuses size 0, and a tag of realloc's old pointer. */
    uint64_t size = e->size;
    if (size == 0 && out->stock) {
        size = 1;
        out->changed++;
    }
    format_out_str(out, e->old != 0 ? "realloc(" : "malloc(");
    if (e->old != 0) {
        if (out->stock)
            put_pointer(out, p->slot);
        else
            put_block(out, p->slot, e->old);
        format_out_str(out, ", ");
    }
    format_out_u64(out, size);
    format_out_str(out, ") = ");
    put_block(out, p->slot, e->id);
    format_out_char(out, '\n');
}

const struct format format_cmt_text = {
    .name = "cmt-text",
    .title = "compact memory trace, as text",
    .has_addresses = true,
    .has_comments = true,
    .line = read_line,
    .put = put,
};
