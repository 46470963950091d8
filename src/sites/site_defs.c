/* SPDX-License-Identifier: BSD-3-Clause */
#include "sites/site_defs.h"

#include "base/atomic.h"
#include "base/check.h"
#include "sites/lang/lang.h"
#include "sites/site_table.h"
#include "sites/site_settings.h"
#include "sites/unwind/stack.h"
#include "traceformat/raw_codec.h"
#include "traceformat/raw_writer.h"

/* Lines or frames and the mark that there are more, then native frames
   likewise. */
#define DEPTH_MAX (MTS_STACK_DEPTH + 1 + MTS_LANG_NATIVE + 1)
TCM_STATIC_ASSERT(MTS_LANG_DEPTH_MAX <= MTS_STACK_DEPTH, "room for lines");

/* Writes DEF. *LEFT: how many bytes of its path did not fit. */
static bool put_def(const struct mts_sink *sink, const struct mtf_site_def *def,
                    uint32_t *left) {
    uint8_t bytes[MTF_EXTENDED_MAX];
    unsigned rest;
    unsigned n = mtf_site_def_put(bytes, sizeof(bytes), def, &rest);
    TCM_ASSERT(n != 0 && n <= sizeof(bytes));
    *left = rest;
    return sink->put(sink->ctx, bytes, n);
}

bool mts_define_mode(const struct mts_sink *sink) {
    const struct mts_settings *s = &mts_settings;
    struct mtf_site_def def = {.kind = MTF_SITE_DEF_MODE,
                               .mode = s->mode,
                               .free_sites = s->free_sites,
                               .depth = s->mode == MTS_CALLER ? 0 : s->depth,
                               .mean = s->mean};
    uint32_t left;
    return put_def(sink, &def, &left);
}

/* Writes module NUMBER: M, then the rest of its path in pieces. */
static bool put_module(const struct mts_sink *sink, uint32_t number,
                       const struct mts_module *m) {
    struct mtf_site_def def = {.kind = MTF_SITE_DEF_MODULE,
                               .module = number,
                               .start = m->start,
                               .end = m->end,
                               .bias = m->bias,
                               .build_id = m->build_id,
                               .build_id_length = m->build_id_length};
    uint32_t left = m->path_length;
    do {
        def.path = (const uint8_t *)m->path + (m->path_length - left);
        def.path_length = left;
        if (!put_def(sink, &def, &left))
            return false;
        def.kind = MTF_SITE_DEF_PATH;
    } while (left != 0);
    return true;
}

static bool put_text(const struct mts_sink *sink, uint32_t number,
                     const struct mts_text *text) {
    for (uint32_t left = text->length; left != 0;) {
        uint32_t done = text->length - left;
        struct mtf_site_def def = {.kind = MTF_SITE_DEF_TEXT,
                                   .text = number,
                                   .offset = done,
                                   .path = (const uint8_t *)text->bytes + done,
                                   .path_length = left};
        if (!put_def(sink, &def, &left))
            return false;
    }
    return true;
}

static bool put_site(const struct mts_sink *sink, uint32_t site,
                     const struct mts_site *n) {
    struct mtf_site_def def = {.kind = MTF_SITE_DEF_FRAME,
                               .site = site,
                               .parent = n->parent,
                               .module = n->module,
                               .address = n->address};
    struct mts_line line;
    uint32_t left;
    if (mts_line_of(n, &line)) {
        def.kind = MTF_SITE_DEF_LINE;
        def.language = (uint8_t)line.language;
        def.file = line.file;
        def.line = line.line;
        def.function = line.function;
    }
    return put_def(sink, &def, &left);
}

/* --- As they are needed --------------------------------------------------- */

static bool define_module(const struct mts_sink *sink, uint32_t number,
                          uint32_t epoch, bool scan_modules) {
    struct mts_module *m = mts_module(number);
    if (m == NULL || tcm_load_acquire(&m->epoch) == epoch)
        return true;
    /* The calling thread runs code of the module: the site lies in it. */
    if (scan_modules && mts_lang_scan_module(m, number)) {
        /* A thread that sees the new stamp also sees the interpreter. */
        tcm_fence_seq_cst();
        tcm_add_relaxed(&mts_stamp, (uint64_t)1);
    }
    if (!put_module(sink, number, m))
        return false;
    /* The definition is in a stream: other threads may use the module. */
    mts_raise_epoch(&m->epoch, epoch);
    return true;
}

static bool define_text(const struct mts_sink *sink, uint32_t number,
                        uint32_t epoch) {
    struct mts_text *text = mts_text_of(number);
    if (text == NULL || tcm_load_acquire(&text->epoch) == epoch)
        return true;
    if (!put_text(sink, number, text))
        return false;
    /* The definition is in a stream: other threads may use the text. */
    mts_raise_epoch(&text->epoch, epoch);
    return true;
}

/* Defines the module or the texts that N names. */
static bool define_names(const struct mts_sink *sink, const struct mts_site *n,
                         uint32_t epoch, bool scan_modules) {
    struct mts_line line;
    if (mts_line_of(n, &line))
        return define_text(sink, line.file, epoch) &&
               define_text(sink, line.function, epoch);
    return define_module(sink, n->module, epoch, scan_modules);
}

bool mts_define(const struct mts_sink *sink, uint32_t site, uint32_t epoch,
                bool scan_modules) {
    uint32_t chain[DEPTH_MAX], depth = 0;
    for (; site != 0 && depth < DEPTH_MAX; depth++) {
        const struct mts_site *n = mts_site_of(site);
        if (tcm_load_acquire(&n->epoch) == epoch)
            break;
        TCM_ASSERT(n->parent < site);
        chain[depth] = site;
        site = n->parent;
    }
    while (depth-- > 0) {
        struct mts_site *n = mts_site_of(chain[depth]);
        if (!define_names(sink, n, epoch, scan_modules) ||
            !put_site(sink, chain[depth], n))
            return false;
        mts_raise_epoch(&n->epoch, epoch);
    }
    return true;
}

/* --- All of a recording --------------------------------------------------- */

#define LIST_BYTES 8192u
struct list {
    struct mtf_raw_writer *w;
    uint64_t now;
    size_t bytes;
    uint8_t event[LIST_BYTES];
};

static bool flush(struct list *list) {
    size_t n = list->bytes;
    list->bytes = 0;
    return n == 0 || mtf_raw_write_sites(list->w, list->now, list->event, n);
}

static bool put_in_list(void *ctx, const uint8_t *def, unsigned n) {
    struct list *list = ctx;
    if (list->bytes + MTF_EVENT_ROOM > LIST_BYTES && !flush(list))
        return false;
    list->bytes +=
        mtf_raw_put_bytes(list->event + list->bytes, MTF_RAW_SITE_DEF, def, n);
    return true;
}

bool mts_write_all(struct mtf_raw_writer *w, uint64_t now) {
    static struct list list; /* used by the thread that saves alone */
    const struct mts_sink sink = {put_in_list, &list};
    uint32_t epoch = mts_epoch();
    list.w = w;
    list.now = now;
    list.bytes = 0;
    if (!mts_define_mode(&sink))
        return false;
    const struct mts_module *m;
    for (uint32_t i = 1; (m = mts_module(i)) != NULL; i++)
        if (tcm_load_acquire(&m->epoch) == epoch && !put_module(&sink, i, m))
            return false;
    for (uint32_t i = 1, end = mts_texts_end(); i < end; i++) {
        const struct mts_text *text = mts_text_of(i);
        if (text != NULL && tcm_load_acquire(&text->epoch) == epoch &&
            !put_text(&sink, i, text))
            return false;
    }
    for (uint32_t i = 1, end = mts_sites_end(); i < end; i++) {
        const struct mts_site *n = mts_site_of(i);
        if (n != NULL && tcm_load_acquire(&n->epoch) == epoch &&
            !put_site(&sink, i, n))
            return false;
    }
    return flush(&list);
}
