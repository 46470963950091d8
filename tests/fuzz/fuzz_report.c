/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a processed trace that malloc-trace report reads: circles of
 * sites, sites and modules that are not defined, paths of any bytes. Whatever
 * the rows are of, they have the same sums, and each is one line of text; the
 * tree of stacks has these sums, too, and can be written in every format.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_repair.h"

#include "cmd/malloc_trace/report/report_export.h"
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

static void check_rows(const struct report_tallies *t, enum report_by by,
                       const struct report_tally *all) {
    struct report_filter filter = {0};
    struct report_rows rows = {0};
    struct symbol_names *names = symbol_names_new(&t->sites, NULL);
    FUZZ_CHECK(names != NULL &&
               report_rows_add(&rows, t, names, by, &filter, false));
    FUZZ_CHECK(rows.total.bytes == all->bytes &&
               rows.total.calls == all->calls && rows.total.live == all->live);
    report_rows_sort(&rows, REPORT_SORT_AGE);
    for (size_t i = 0; i < rows.count; i++)
        for (const char *p = rows.row[i].location; *p != '\0'; p++)
            FUZZ_CHECK((uint8_t)*p >= ' ' && *p != 0x7F);
    report_rows_fini(&rows);
    symbol_names_free(names);
}

static void check_stacks(struct report_tallies *t,
                         const struct report_tally *all) {
    for (int label = REPORT_STACKS_FUNCTION; label <= REPORT_STACKS_PLACE;
         label++) {
        struct report_stacks s;
        struct report_tally sum = {0};
        struct symbol_names *names = symbol_names_new(&t->sites, NULL);
        FUZZ_CHECK(
            names != NULL &&
            report_stacks_make(&s, t, names, (enum report_stacks_label)label));
        for (size_t i = 0; i < s.sums; i++)
            report_tally_add(&sum, &s.sum[i]);
        FUZZ_CHECK(sum.bytes == all->bytes && sum.calls == all->calls &&
                   sum.live_bytes == all->live_bytes);
        for (size_t i = 1; i < s.count; i++)
            FUZZ_CHECK(s.node[i].parent < i &&
                       s.node[i].label < s.labels.count);
        FUZZ_CHECK(
            report_export_folded(&s, REPORT_SORT_BYTES, "/dev/null") &&
            report_export_speedscope(&s, "t", REPORT_SORT_LIVE, "/dev/null") &&
            report_export_dhat(&s, t, "t", "/dev/null") &&
            report_export_pprof(t, names, "/dev/null") &&
            report_export_heap_profile(t, "/dev/null"));
        report_stacks_fini(&s);
        symbol_names_free(names);
    }
}

/* A page has the scripts that it always has, whatever names say. */
static void check_page(const struct report_tallies *t) {
    struct report_stacks s;
    struct report_rows rows = {0};
    struct report_filter filter = {0};
    struct symbol_names *names = symbol_names_new(&t->sites, NULL);
    char *page = NULL, *at;
    size_t size, scripts = 0;
    FILE *f = open_memstream(&page, &size);
    FUZZ_CHECK(
        names != NULL && f != NULL &&
        report_stacks_make(&s, t, names, REPORT_STACKS_FUNCTION) &&
        report_rows_add(&rows, t, names, REPORT_BY_SITE, &filter, false));
    report_rows_sort(&rows, REPORT_SORT_BYTES);
    struct report_page h = {.name = "t",
                            .by = "site",
                            .when = "at the end",
                            .rows_by = REPORT_BY_SITE,
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
    report_rows_fini(&rows);
    report_stacks_fini(&s);
    symbol_names_free(names);
}

static void read_trace(const char *name, enum report_tally_by by,
                       struct report_tally *all) {
    struct report_tallies t = {.options = {.by = by,
                                           .history = by == REPORT_TALLY_BY_SITE
                                                          ? report_history_new()
                                                          : NULL}};
    *all = (struct report_tally){0};
    if (report_tally_read(&t, name)) {
        for (size_t i = 0; i < t.count; i++)
            report_tally_add(all, &t.tally[i]);
        check_rows(&t,
                   by == REPORT_TALLY_BY_SITE   ? REPORT_BY_SITE
                   : by == REPORT_TALLY_BY_SIZE ? REPORT_BY_SIZE
                                                : REPORT_BY_THREAD,
                   all);
        if (by == REPORT_TALLY_BY_SITE) {
            check_rows(&t, REPORT_BY_MODULE, all);
            check_rows(&t, REPORT_BY_STACK, all);
            check_stacks(&t, all);
            check_page(&t);
        }
    }
    report_history_free(t.options.history);
    report_tally_fini(&t);
}

static void run(const uint8_t *data, size_t size) {
    static int quiet = -1;
    char name[64];
    struct report_tally by[3];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    if (is_processed(name)) {
        if (quiet < 0) /* what is wrong is told for each input */
            quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
        int err = dup(2);
        FUZZ_CHECK(quiet >= 0 && err >= 0 && dup2(quiet, 2) == 2);
        for (unsigned i = 0; i < 3; i++)
            read_trace(name, (enum report_tally_by)i, &by[i]);
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
