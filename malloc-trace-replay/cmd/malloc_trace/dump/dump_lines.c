/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/dump/dump_lines.h"

#include "base/check.h"
#include "common/main.h"
#include "traceformat/proc_layout.h"
#include "traceformat/site_codec.h"
#include "traceformat/trace_event.h"
#include "traceformat/varint.h"

#include <string.h>

#define NS_PER_SECOND 1000000000u
#define OFFSET_WIDTH  10u
#define THREAD_WIDTH  4u

TCM_STATIC_ASSERT(DUMP_LINE_MAX > 4 * MTF_PROC_BYTES_MAX,
                  "the longest text of a record fits a line");

/* --- Pieces --------------------------------------------------------------- */

void dump_str(struct dump_lines *d, const char *s) {
    tcm_fmt_str(&d->f, s);
}

void dump_u64(struct dump_lines *d, uint64_t v) {
    tcm_fmt_u64(&d->f, v);
}

/* Nanoseconds as seconds from the start of the recording. */
static void put_time(struct dump_lines *d, uint64_t ns) {
    char digits[10] = "000000000";
    uint64_t t = ns - d->start_ns;
    if (ns < d->start_ns) {
        tcm_fmt_char(&d->f, '-');
        t = d->start_ns - ns;
    }
    tcm_fmt_u64(&d->f, t / NS_PER_SECOND);
    tcm_fmt_char(&d->f, '.');
    t %= NS_PER_SECOND;
    for (size_t i = 9; i-- != 0; t /= 10)
        digits[i] = (char)('0' + t % 10);
    tcm_fmt_mem(&d->f, digits, 9);
}

void dump_quoted(struct dump_lines *d, const void *text, size_t n) {
    static const char hex[] = "0123456789abcdef";
    const uint8_t *p = text;
    tcm_fmt_char(&d->f, '"');
    for (size_t i = 0; i < n; i++) {
        bool plain = p[i] >= 0x20 && p[i] < 0x7F;
        if (plain && p[i] != '"' && p[i] != '\\') {
            tcm_fmt_char(&d->f, (char)p[i]);
        } else {
            tcm_fmt_char(&d->f, '\\');
            if (plain) {
                tcm_fmt_char(&d->f, (char)p[i]);
                continue;
            }
            tcm_fmt_char(&d->f, 'x');
            tcm_fmt_char(&d->f, hex[p[i] >> 4]);
            tcm_fmt_char(&d->f, hex[p[i] & 15]);
        }
    }
    tcm_fmt_char(&d->f, '"');
}

void dump_id(struct dump_lines *d, const char *prefix, uint64_t id) {
    tcm_fmt_str(&d->f, prefix);
    tcm_fmt_u64(&d->f, id);
}

void dump_result(struct dump_lines *d, const char *prefix, uint64_t id) {
    dump_id(d, prefix, id);
    tcm_fmt_str(&d->f, " = ");
}

void dump_request(struct dump_lines *d, uint64_t size, unsigned align_log2) {
    tcm_fmt_u64(&d->f, size);
    if (align_log2 >= 64) {
        tcm_fmt_str(&d->f, ", align no power of two");
    } else if (align_log2 != 0) {
        tcm_fmt_str(&d->f, ", align ");
        tcm_fmt_u64(&d->f, (uint64_t)1 << align_log2);
    }
}

void dump_accounts(struct dump_lines *d, const uint8_t *p, size_t n,
                   const char *(*name)(unsigned field)) {
    for (; n >= 10; p += 10, n -= 10) {
        uint16_t field;
        memcpy(&field, p, 2);
        const char *text = name(field);
        tcm_fmt_char(&d->f, ' ');
        if (text != NULL)
            tcm_fmt_str(&d->f, text);
        else
            dump_id(d, "field", field);
        tcm_fmt_char(&d->f, '=');
        tcm_fmt_u64(&d->f, mtf_load_le64(p + 2));
    }
}

void dump_text(struct dump_lines *d, const char *name, const uint8_t *text,
               size_t n) {
    tcm_fmt_str(&d->f, name);
    tcm_fmt_char(&d->f, ' ');
    dump_quoted(d, text, n);
}

void dump_pair(struct dump_lines *d, const char *name, unsigned number,
               uint64_t argument) {
    tcm_fmt_str(&d->f, name);
    tcm_fmt_char(&d->f, ' ');
    tcm_fmt_u64(&d->f, number);
    tcm_fmt_char(&d->f, '(');
    tcm_fmt_u64(&d->f, argument);
    tcm_fmt_char(&d->f, ')');
}

static const char *extension_name(unsigned extension) {
    switch (extension) {
#define X(name, number, text)                                                  \
    case number:                                                               \
        return text;
        MTF_EXTENSIONS(X)
#undef X
    default:
        return NULL;
    }
}

void dump_extension(struct dump_lines *d, unsigned extension,
                    uint64_t argument) {
    const char *name = extension_name(extension);
    if (name == NULL) {
        dump_pair(d, "extension", extension, argument);
        return;
    }
    tcm_fmt_str(&d->f, "extension ");
    tcm_fmt_str(&d->f, name);
    tcm_fmt_char(&d->f, '(');
    tcm_fmt_u64(&d->f, argument);
    tcm_fmt_char(&d->f, ')');
}

void dump_gap(struct dump_lines *d, uint64_t events, uint64_t lo, uint64_t hi) {
    tcm_fmt_str(&d->f, "gap, ");
    tcm_fmt_u64(&d->f, events);
    tcm_fmt_str(&d->f, " events dropped, ");
    put_time(d, lo);
    tcm_fmt_str(&d->f, "..");
    put_time(d, hi);
}

/* --- Lines ---------------------------------------------------------------- */

/* V right-aligned in WIDTH columns, '-' for DUMP_NONE, and a blank behind. */
static void put_column(struct dump_lines *d, uint64_t v, size_t width) {
    char digits[24];
    struct tcm_fmt f;
    tcm_fmt_init(&f, digits, sizeof(digits));
    if (v == DUMP_NONE)
        tcm_fmt_char(&f, '-');
    else
        tcm_fmt_u64(&f, v);
    for (size_t n = f.len; n < width; n++)
        tcm_fmt_char(&d->f, ' ');
    tcm_fmt_mem(&d->f, digits, f.len);
    tcm_fmt_char(&d->f, ' ');
}

/* Writes the first columns. False: the line is left out. */
static bool begin_line(struct dump_lines *d, uint64_t offset, uint64_t thread) {
    TCM_ASSERT(d->over || d->count != 0);
    d->left_out =
        d->over || (d->first_file && offset != DUMP_NONE && offset < d->from);
    tcm_fmt_init(&d->f, d->line, sizeof(d->line));
    if (d->left_out)
        return false;
    put_column(d, offset, OFFSET_WIDTH);
    put_column(d, thread, THREAD_WIDTH);
    return true;
}

void dump_begin(struct dump_lines *d, uint64_t offset, uint64_t thread,
                uint64_t lo, uint64_t hi) {
    TCM_ASSERT(lo <= hi);
    if (!begin_line(d, offset, thread))
        return;
    put_time(d, lo);
    tcm_fmt_str(&d->f, "..");
    if (hi != DUMP_NONE)
        put_time(d, hi);
    tcm_fmt_char(&d->f, ' ');
}

void dump_begin_at(struct dump_lines *d, uint64_t offset, uint64_t thread,
                   uint64_t time) {
    if (!begin_line(d, offset, thread))
        return;
    if (time == DUMP_NONE)
        tcm_fmt_char(&d->f, '-');
    else
        put_time(d, time);
    tcm_fmt_char(&d->f, ' ');
}

void dump_end(struct dump_lines *d) {
    if (d->left_out)
        return;
    tcm_fmt_char(&d->f, '\n');
    d->over = (!d->quiet && !tool_output_write(d->out, d->line, d->f.len)) ||
              --d->count == 0;
}

bool dump_lines_open(struct dump_lines *d) {
    d->first_file = true;
    d->over = d->count == 0;
    d->out = tool_output_open(NULL, TOOL_OUTPUT_PLAIN);
    return d->out != NULL;
}

bool dump_lines_close(struct dump_lines *d) {
    return tool_output_close(d->out);
}

/* --- Lines of raw and processed traces ------------------------------------ */

void dump_damage(struct dump *d, uint64_t offset, uint64_t thread) {
    d->damages++;
    dump_begin_at(&d->lines, offset, thread, DUMP_NONE);
    dump_str(&d->lines, "damage: ");
}

void dump_lost(struct dump *d, uint64_t at, const char *frame, const char *why,
               uint64_t lost, bool lost_unpacked) {
    struct dump_lines *l = &d->lines;
    dump_damage(d, frame != NULL ? DUMP_NONE : at, DUMP_NONE);
    if (frame != NULL) {
        dump_str(l, frame);
        dump_id(l, " at stored byte ", at);
        dump_str(l, ": ");
    }
    dump_str(l, why);
    dump_id(l, ", ", lost);
    dump_str(l, lost_unpacked   ? " bytes before compression lost"
                : frame != NULL ? " stored bytes lost"
                                : " bytes lost");
    dump_end(l);
}

static void put_field(struct dump_lines *l, const char *label,
                      const char *text) {
    if (text[0] == '\0')
        return;
    dump_str(l, label);
    dump_quoted(l, text, strlen(text));
}

void dump_origin(struct dump_lines *l, const struct mtf_raw_info *info) {
    if (info->fixed.pid != 0)
        dump_id(l, ", process ", info->fixed.pid);
    put_field(l, ", executable ", info->executable);
    put_field(l, ", recorder ", info->library);
    put_field(l, ", allocator ", info->allocator);
}

void dump_incomplete(struct dump *d, const char *reason) {
    if (d->status != TOOL_FAILED)
        d->status = TOOL_DAMAGED;
    tool_error("%s: %s", d->name, reason);
}

/* --- Call sites ----------------------------------------------------------- */

static void put_address(struct dump_lines *d, const char *prefix, uint64_t v) {
    dump_str(d, prefix);
    if (!d->left_out)
        tcm_fmt_hex(&d->f, v);
}

static void put_frame(struct dump_lines *d, const struct mtf_site_def *def) {
    dump_id(d, "site ", def->site);
    if (def->module == 0 && def->address == MTF_SITE_UNKNOWN)
        dump_str(d, " is not known");
    else if (def->module == 0 && def->address == MTF_SITE_CUT)
        dump_str(d, " is left out");
    else
        put_address(d, " returns to 0x", def->address);
    if (def->module != 0)
        dump_id(d, " in module ", def->module);
    if (def->parent != MTF_SITE_NONE)
        dump_id(d, ", called at site ", def->parent);
}

static void put_module(struct dump_lines *d, const struct mtf_site_def *def) {
    dump_id(d, "module ", def->module);
    put_address(d, " at 0x", def->start);
    put_address(d, " to 0x", def->end);
    put_address(d, ", bias 0x", def->bias);
    dump_str(d, ", build id ");
    for (unsigned i = 0; i < def->build_id_length && !d->left_out; i++) {
        tcm_fmt_char(&d->f, "0123456789abcdef"[def->build_id[i] >> 4]);
        tcm_fmt_char(&d->f, "0123456789abcdef"[def->build_id[i] & 15]);
    }
    if (def->build_id_length == 0)
        dump_str(d, "none");
    dump_str(d, ", ");
    dump_quoted(d, def->path, def->path_length);
}

static void put_line(struct dump_lines *d, const struct mtf_site_def *def) {
    dump_id(d, "site ", def->site);
    dump_id(d, " is line ", def->line);
    dump_id(d, " of language ", def->language);
    dump_id(d, ", file text ", def->file);
    dump_id(d, ", function text ", def->function);
    if (def->parent != MTF_SITE_NONE)
        dump_id(d, ", called at site ", def->parent);
}

static void put_mode(struct dump_lines *d, const struct mtf_site_def *def) {
    dump_id(d, "sites of mode ", def->mode);
    if (def->free_sites)
        dump_str(d, ", of frees too");
    if (def->depth != 0)
        dump_id(d, ", frames at most ", def->depth);
    if (def->mean != 0)
        dump_id(d, ", a sample each bytes ", def->mean);
}

void dump_site_def(struct dump_lines *d, const uint8_t *p, size_t n) {
    struct mtf_site_def def;
    if (!mtf_site_def_get(p, n, &def)) {
        dump_id(d, "definition of a call site that cannot be read, ", n);
        dump_str(d, " bytes");
    } else if (def.kind == MTF_SITE_DEF_FRAME) {
        put_frame(d, &def);
    } else if (def.kind == MTF_SITE_DEF_MODULE) {
        put_module(d, &def);
    } else if (def.kind == MTF_SITE_DEF_LINE) {
        put_line(d, &def);
    } else if (def.kind == MTF_SITE_DEF_MODE) {
        put_mode(d, &def);
    } else if (def.kind == MTF_SITE_DEF_TEXT) {
        dump_id(d, "text ", def.text);
        dump_id(d, " from byte ", def.offset);
        dump_str(d, ", ");
        dump_quoted(d, def.path, def.path_length);
    } else {
        dump_id(d, "more of the path of module ", def.module);
        dump_str(d, ", ");
        dump_quoted(d, def.path, def.path_length);
    }
}
