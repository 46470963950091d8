/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a processed trace that malloc-trace report reads: circles of
 * sites, sites and modules that are not defined, paths of any bytes. Whatever
 * the rows are of, they have the same sums, and each is one line of text; the
 * tree of stacks has these sums, too, and can be written in every format.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_repair.h"

#include "cmd/malloc_trace/report/export.h"
#include "cmd/malloc_trace/report/report_page.h"
#include "common/input.h"
#include "trace/ops.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const struct fuzz_target fuzz_target = {
    .corpus = "proc", .stride = 5, .runs = 100};

static bool is_processed(const char *name) {
    struct tool_input *in = tool_input_open(name);
    FUZZ_CHECK(in != NULL);
    bool good = tool_ops_is_processed(in, name);
    tool_input_close(in);
    return good;
}

static void check_rows(const struct tallies *t, enum rows_by by,
                       const struct tally *all) {
    struct rows_filter filter = {0};
    struct rows rows = {0};
    struct names *names = names_new(&t->sites, NULL);
    FUZZ_CHECK(names != NULL && rows_add(&rows, t, names, by, &filter, false));
    FUZZ_CHECK(rows.total.bytes == all->bytes &&
               rows.total.calls == all->calls && rows.total.live == all->live);
    rows_sort(&rows, ROWS_SORT_AGE);
    for (size_t i = 0; i < rows.count; i++)
        for (const char *p = rows.row[i].location; *p != '\0'; p++)
            FUZZ_CHECK((uint8_t)*p >= ' ' && *p != 0x7F);
    rows_fini(&rows);
    names_free(names);
}

static void check_stacks(struct tallies *t, const struct tally *all) {
    for (int label = STACKS_FUNCTION; label <= STACKS_PLACE; label++) {
        struct stacks s;
        struct tally sum = {0};
        struct names *names = names_new(&t->sites, NULL);
        FUZZ_CHECK(names != NULL &&
                   stacks_make(&s, t, names, (enum stacks_label)label));
        for (size_t i = 0; i < s.sums; i++)
            tally_add(&sum, &s.sum[i]);
        FUZZ_CHECK(sum.bytes == all->bytes && sum.calls == all->calls &&
                   sum.live_bytes == all->live_bytes);
        for (size_t i = 1; i < s.count; i++)
            FUZZ_CHECK(s.node[i].parent < i &&
                       s.node[i].label < s.labels.count);
        FUZZ_CHECK(export_folded(&s, ROWS_SORT_BYTES, "/dev/null") &&
                   export_speedscope(&s, "t", ROWS_SORT_LIVE, "/dev/null") &&
                   export_dhat(&s, t, "t", "/dev/null") &&
                   export_pprof(t, names, "/dev/null") &&
                   export_heap_profile(t, "/dev/null"));
        stacks_fini(&s);
        names_free(names);
    }
}

/* A page has the scripts that it always has, whatever names say. */
static void check_page(const struct tallies *t) {
    struct stacks s;
    struct rows rows = {0};
    struct rows_filter filter = {0};
    struct names *names = names_new(&t->sites, NULL);
    char *page = NULL, *at;
    size_t size, scripts = 0;
    FILE *f = open_memstream(&page, &size);
    FUZZ_CHECK(names != NULL && f != NULL &&
               stacks_make(&s, t, names, STACKS_FUNCTION) &&
               rows_add(&rows, t, names, ROWS_BY_SITE, &filter, false));
    rows_sort(&rows, ROWS_SORT_BYTES);
    struct report_page h = {.name = "t",
                            .by = "site",
                            .when = "at the end",
                            .rows_by = ROWS_BY_SITE,
                            .rows = &rows,
                            .t = t,
                            .names = names,
                            .stacks = &s,
                            .history = t->options.history,
                            .is_live = true};
    FUZZ_CHECK(report_page_write_stream(&h, f, "page.js") && fclose(f) == 0);
    for (at = page; (at = strstr(at, "<script")) != NULL; at++)
        scripts++;
    FUZZ_CHECK(scripts == 2 && strlen(page) == size &&
               strcmp(page + size - 8, "</html>\n") == 0);
    FUZZ_CHECK(h.series_count == 0 && h.growth == NULL);
    free(page);
    rows_fini(&rows);
    stacks_fini(&s);
    names_free(names);
}

static void read_trace(const char *name, enum tally_by by, struct tally *all) {
    struct tallies t = {
        .options = {.by = by,
                    .history = by == TALLY_BY_SITE ? history_new() : NULL}};
    *all = (struct tally){0};
    if (tally_read(&t, name)) {
        for (size_t i = 0; i < t.count; i++)
            tally_add(all, &t.tally[i]);
        check_rows(&t,
                   by == TALLY_BY_SITE   ? ROWS_BY_SITE
                   : by == TALLY_BY_SIZE ? ROWS_BY_SIZE
                                         : ROWS_BY_THREAD,
                   all);
        if (by == TALLY_BY_SITE) {
            check_rows(&t, ROWS_BY_MODULE, all);
            check_rows(&t, ROWS_BY_STACK, all);
            check_stacks(&t, all);
            check_page(&t);
        }
    }
    history_free(t.options.history);
    tally_fini(&t);
}

static void run(const uint8_t *data, size_t size) {
    static int quiet = -1;
    char name[64];
    struct tally by[3];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    if (is_processed(name)) {
        if (quiet < 0) /* what is wrong is told for each input */
            quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
        int err = dup(2);
        FUZZ_CHECK(quiet >= 0 && err >= 0 && dup2(quiet, 2) == 2);
        for (unsigned i = 0; i < 3; i++)
            read_trace(name, (enum tally_by)i, &by[i]);
        FUZZ_CHECK(dup2(err, 2) == 2);
        close(err);
        for (unsigned i = 1; i < 3; i++)
            FUZZ_CHECK(by[i].bytes == by[0].bytes &&
                       by[i].calls == by[0].calls && by[i].live == by[0].live);
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_both(data, size, run);
    return 0;
}
