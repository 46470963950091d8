/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers of sites, and their definitions: parents first, each once in a
 * recording, and again in the next one.
 */
#include "tap.h"
#include "sites/site_defs.h"
#include "sites/site_settings.h"
#include "sites/site_table.h"
#include "traceformat/site_codec.h"

#include <string.h>

#define MANY 20000u /* the table grows twice */

/* Definitions that were put, as far as there is room. */
struct taken {
    unsigned count, room;
    struct mtf_site_def def[16];
};

static bool take(void *ctx, const uint8_t *def, unsigned n) {
    struct taken *t = ctx;
    if (t->count == t->room)
        return false;
    return mtf_site_def_get(def, n, &t->def[t->count++]);
}

static unsigned define(struct taken *t, uint32_t site, unsigned room) {
    const struct mts_sink sink = {take, t};
    t->count = 0;
    t->room = room;
    return mts_define(&sink, site, mts_epoch(), false);
}

/* An address that lies in no module, so that frames define themselves alone. */
static uint64_t address(unsigned i) {
    return ((uint64_t)1 << 40) + i;
}

static void test_numbers(void) {
    uint32_t outer = mts_intern(address(1), MTF_SITE_NONE);
    uint32_t inner = mts_intern(address(2), outer);
    tap_ok(outer != MTF_SITE_NONE && inner > outer, "a parent is smaller");
    tap_ok(mts_intern(address(2), outer) == inner, "the same site again");
    tap_ok(mts_intern(address(2), MTF_SITE_NONE) != inner,
           "another parent, another site");
    tap_ok(mts_site_of(inner)->parent == outer &&
               mts_site_of(inner)->address == address(2),
           "a number leads to its site");
    static uint32_t site[MANY];
    bool same = true;
    for (unsigned i = 0; i < MANY; i++)
        site[i] = mts_intern(address(1000 + i), outer);
    for (unsigned i = 0; i < MANY; i++)
        same &= site[i] != MTF_SITE_NONE &&
                mts_intern(address(1000 + i), outer) == site[i];
    tap_ok(same, "numbers stay when the table grows");
    tap_ok(mts_sites_end() > site[MANY - 1], "the end is above all");
}

static void test_definitions(void) {
    struct taken t;
    uint32_t outer = mts_intern(address(10), MTF_SITE_NONE);
    uint32_t inner = mts_intern(address(11), outer);
    tap_ok(define(&t, inner, 16) && t.count == 2, "a site and its parent");
    tap_ok(t.def[0].site == outer && t.def[1].site == inner &&
               t.def[1].parent == outer,
           "the parent first");
    tap_ok(define(&t, inner, 16) && t.count == 0, "once in a recording");
    mts_table_begin();
    tap_ok(define(&t, inner, 16) && t.count == 2, "again in the next one");
    mts_table_begin();
    tap_ok(!define(&t, inner, 1), "no room for the second");
    tap_ok(define(&t, inner, 16) && t.count == 1 && t.def[0].site == inner,
           "what had room stays defined");
}

static void test_lines(void) {
    struct taken t;
    struct mts_line got,
        line = {MTF_LANGUAGE_PYTHON, mts_text_intern("a.py", 4), 12,
                mts_text_intern("f", 1)};
    uint32_t site = mts_intern_line(&line, MTF_SITE_NONE);
    tap_ok(site != MTF_SITE_NONE && mts_line_of(mts_site_of(site), &got) &&
               got.file == line.file && got.line == 12 &&
               got.function == line.function,
           "a line is a site");
    tap_ok(mts_text_intern("a.py", 4) == line.file, "a text has one number");
    tap_ok(define(&t, site, 16) && t.count == 3, "with two texts");
    tap_ok(t.def[0].kind == MTF_SITE_DEF_TEXT &&
               t.def[1].kind == MTF_SITE_DEF_TEXT &&
               t.def[2].kind == MTF_SITE_DEF_LINE,
           "the texts first");
    line.line = 13;
    site = mts_intern_line(&line, MTF_SITE_NONE);
    tap_ok(define(&t, site, 16) && t.count == 1, "texts once");
}

static void test_settings(void) {
    struct mts_settings s;
    tap_ok(mts_settings_parse(NULL, &s) && s.mode == MTS_NO_SITES, "unset");
    tap_ok(mts_settings_parse("stack:7", &s) && s.mode == MTS_STACKS &&
               s.depth == 7,
           "stack:7");
    tap_ok(mts_settings_parse("sample", &s) && s.mean == MTS_MEAN_DEFAULT,
           "sample");
    tap_ok(!mts_settings_parse("stack:257", &s) && s.mode == MTS_NO_SITES,
           "too deep");
    tap_ok(!mts_settings_parse("stacks", &s), "no mode");
}

int main(void) {
    mts_table_begin();
    test_numbers();
    test_definitions();
    test_lines();
    test_settings();
    return tap_done();
}
