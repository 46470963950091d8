/* SPDX-License-Identifier: BSD-3-Clause */
#include "traceformat/site_codec.h"

#include "base/bits.h"
#include "base/check.h"

#define MODULE_HEAD 30u
#define PATH_HEAD   5u
#define TEXT_HEAD   9u

static void put_u32(uint8_t *p, uint32_t v) {
    for (unsigned i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static void put_u64(uint8_t *p, uint64_t v) {
    put_u32(p, (uint32_t)v);
    put_u32(p + 4, (uint32_t)(v >> 32));
}

static uint32_t get_u32(const uint8_t *p) {
    uint32_t v = 0;
    for (unsigned i = 0; i < 4; i++)
        v |= (uint32_t)p[i] << 8 * i;
    return v;
}

static uint64_t get_u64(const uint8_t *p) {
    return (uint64_t)get_u32(p + 4) << 32 | get_u32(p);
}

static unsigned put_line(uint8_t *p, const struct mtf_site_def *def) {
    put_u32(p + 1, def->site);
    put_u32(p + 5, def->parent);
    p[9] = def->language;
    put_u32(p + 10, def->file);
    put_u32(p + 14, def->line);
    put_u32(p + 18, def->function);
    return MTF_SITE_LINE_BYTES;
}

static unsigned put_mode(uint8_t *p, const struct mtf_site_def *def) {
    p[1] = def->mode;
    p[2] = def->free_sites;
    put_u32(p + 3, def->depth);
    put_u64(p + 7, def->mean);
    return MTF_SITE_MODE_BYTES;
}

unsigned mtf_site_def_put(uint8_t *p, unsigned cap,
                          const struct mtf_site_def *def, unsigned *left) {
    unsigned n = PATH_HEAD;
    TCM_ASSERT(cap >= MODULE_HEAD + MTF_BUILD_ID_MAX);
    *left = 0;
    p[0] = def->kind;
    if (def->kind == MTF_SITE_DEF_FRAME) {
        put_u32(p + 1, def->site);
        put_u32(p + 5, def->parent);
        put_u32(p + 9, def->module);
        put_u64(p + 13, def->address);
        return MTF_SITE_FRAME_BYTES;
    }
    if (def->kind == MTF_SITE_DEF_LINE)
        return put_line(p, def);
    if (def->kind == MTF_SITE_DEF_MODE)
        return put_mode(p, def);
    if (def->kind == MTF_SITE_DEF_TEXT) {
        put_u32(p + 1, def->text);
        put_u32(p + 5, def->offset);
        n = TEXT_HEAD;
    } else {
        put_u32(p + 1, def->module);
    }
    if (def->kind == MTF_SITE_DEF_MODULE) {
        TCM_ASSERT(def->build_id_length <= MTF_BUILD_ID_MAX);
        put_u64(p + 5, def->start);
        put_u64(p + 13, def->end);
        put_u64(p + 21, def->bias);
        p[29] = def->build_id_length;
        memcpy(p + MODULE_HEAD, def->build_id, def->build_id_length);
        n = MODULE_HEAD + def->build_id_length;
    }
    unsigned fits = (unsigned)tcm_min_u64(def->path_length, cap - n);
    memcpy(p + n, def->path, fits);
    *left = def->path_length - fits;
    TCM_ASSERT(n + fits <= cap);
    return n + fits;
}

static bool get_line(const uint8_t *p, struct mtf_site_def *def) {
    def->site = get_u32(p + 1);
    def->parent = get_u32(p + 5);
    def->language = p[9];
    def->file = get_u32(p + 10);
    def->line = get_u32(p + 14);
    def->function = get_u32(p + 18);
    return def->site != MTF_SITE_NONE && def->site < MTF_SITE_LIMIT &&
           def->parent < MTF_SITE_LIMIT && def->file < MTF_SITE_LIMIT &&
           def->function < MTF_SITE_LIMIT;
}

static bool get_mode(const uint8_t *p, struct mtf_site_def *def) {
    def->mode = p[1];
    def->free_sites = p[2] != 0;
    def->depth = get_u32(p + 3);
    def->mean = get_u64(p + 7);
    return true;
}

static bool get_text(const uint8_t *p, size_t length,
                     struct mtf_site_def *def) {
    def->text = get_u32(p + 1);
    def->offset = get_u32(p + 5);
    def->path = p + TEXT_HEAD;
    def->path_length = (uint32_t)(length - TEXT_HEAD);
    return def->text != 0 && def->text < MTF_SITE_LIMIT &&
           def->offset < MTF_SITE_TEXT_MAX &&
           def->path_length <= MTF_SITE_TEXT_MAX - def->offset;
}

bool mtf_site_def_get(const uint8_t *p, size_t length,
                      struct mtf_site_def *def) {
    memset(def, 0, sizeof(*def));
    if (length < PATH_HEAD)
        return false;
    def->kind = p[0];
    if (def->kind == MTF_SITE_DEF_FRAME) {
        if (length < MTF_SITE_FRAME_BYTES)
            return false;
        def->site = get_u32(p + 1);
        def->parent = get_u32(p + 5);
        def->module = get_u32(p + 9);
        def->address = get_u64(p + 13);
        return def->site != MTF_SITE_NONE && def->site < MTF_SITE_LIMIT &&
               def->parent < MTF_SITE_LIMIT && def->module < MTF_SITE_LIMIT;
    }
    if (def->kind == MTF_SITE_DEF_LINE)
        return length >= MTF_SITE_LINE_BYTES && get_line(p, def);
    if (def->kind == MTF_SITE_DEF_MODE)
        return length >= MTF_SITE_MODE_BYTES && get_mode(p, def);
    if (def->kind == MTF_SITE_DEF_TEXT)
        return length >= TEXT_HEAD && get_text(p, length, def);
    def->module = get_u32(p + 1);
    if (def->module == 0 || def->module >= MTF_SITE_LIMIT)
        return false;
    unsigned n = PATH_HEAD;
    if (def->kind == MTF_SITE_DEF_MODULE) {
        if (length < MODULE_HEAD || p[29] > MTF_BUILD_ID_MAX ||
            length < MODULE_HEAD + p[29])
            return false;
        def->start = get_u64(p + 5);
        def->end = get_u64(p + 13);
        def->bias = get_u64(p + 21);
        def->build_id_length = p[29];
        def->build_id = p + MODULE_HEAD;
        n = MODULE_HEAD + p[29];
    } else if (def->kind != MTF_SITE_DEF_PATH) {
        return false;
    }
    def->path = p + n;
    def->path_length = (uint32_t)(length - n);
    return true;
}
