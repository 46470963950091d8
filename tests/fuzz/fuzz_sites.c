/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Naming of call sites, from any bytes: definitions that contradict each other,
 * cycles of parents, chains of any depth, modules that are missing or other
 * files, numbers out of range; suppressions; maps of code that was made at run
 * time. In all cases texts are lines, sums stay the same, and the cost, counted
 * in steps and memory, is within the bounds that are stated here for each
 * definition.
 *
 * The script is of records of six bytes, what to do and its arguments:
 *
 *     frame, line, module, text, chain of frames, allocation, raw definition
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_work.h"

#include "cmd/malloc_trace/report/report_print.h"
#include "cmd/malloc_trace/report/report_stacks.h"
#include "common/main.h"
#include "symbols/symbol_table.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const struct fuzz_target fuzz_target = {
    .corpus = "sites", .stride = 3, .runs = 200};

/* Frames of a chain. */
#define CHAIN 256u

/* For each definition and allocation; and what is free, as for the symbols of
   this program. */
#define STEPS_EACH 30000u
#define BYTES_EACH 1500u
#define STEPS_FREE 500000u
#define BYTES_FREE ((uint64_t)1 << 20)
/* Elements that a script makes at most, as it is. */
#define RECORDS_MAX 200u

struct input {
    struct report_tallies t;
    uint64_t made;
};

/* --- The script ----------------------------------------------------------- */

static void define(struct input *in, const struct mtf_site_def *def) {
    uint8_t bytes[256];
    unsigned left;
    unsigned n = mtf_site_def_put(bytes, sizeof(bytes), def, &left);
    FUZZ_CHECK(tool_sites_take(&in->t.sites, bytes, n));
    in->made++;
}

static void allocate(struct input *in, uint32_t site, uint64_t size) {
    struct report_tallies *t = &in->t;
    if (t->count % 64 == 0)
        t->tally = realloc(t->tally, (t->count + 64) * sizeof(*t->tally));
    FUZZ_CHECK(t->tally != NULL);
    t->tally[t->count++] =
        (struct report_tally){.key = site,
                              .calls = 1,
                              .bytes = size,
                              .live = size & 1,
                              .live_bytes = size & 1 ? size : 0};
    in->made++;
}

/* Frames that called each other, and an allocation in some. */
static void make_chain(struct input *in, const uint8_t *r) {
    uint32_t site = r[1] + 1u;
    for (uint32_t i = 0; i < CHAIN; i++, site++) {
        define(in, &(struct mtf_site_def){.kind = MTF_SITE_DEF_FRAME,
                                          .site = site,
                                          .parent = i == 0 ? r[2] : site - 1,
                                          .module = r[3] % 4,
                                          .address = r[4] * 16u + i});
        if (r[5] != 0 && i % r[5] == 0)
            allocate(in, site, i);
    }
}

static void make_module(struct input *in, const uint8_t *r) {
    static const char *const path[] = {"/proc/self/exe",
                                       "/dev/zero",
                                       "/nowhere/lib.so",
                                       "[vdso]",
                                       "",
                                       "/",
                                       "a\nb",
                                       "/proc/self/maps"};
    const char *text = path[r[2] % TCM_ARRAY_SIZE(path)];
    define(in, &(struct mtf_site_def){.kind = MTF_SITE_DEF_MODULE,
                                      .module = 1 + r[1] % 4u,
                                      .start = (uint64_t)r[3] << 12,
                                      .end = (uint64_t)r[4] << 16,
                                      .bias = (uint64_t)r[3] << 8 * (r[5] % 8),
                                      .build_id = r,
                                      .build_id_length = r[5] % 6,
                                      .path = (const uint8_t *)text,
                                      .path_length = (uint32_t)strlen(text)});
}

static void take_record(struct input *in, const uint8_t *r, size_t left) {
    switch (r[0] % 7) {
    case 0:
        define(in, &(struct mtf_site_def){.kind = MTF_SITE_DEF_FRAME,
                                          .site = 1u + r[1],
                                          .parent = r[2],
                                          .module = r[3] % 4,
                                          .address = r[4] * 64u + r[5]});
        break;
    case 1:
        define(in, &(struct mtf_site_def){.kind = MTF_SITE_DEF_LINE,
                                          .site = 1u + r[1],
                                          .parent = r[2],
                                          .language = r[3],
                                          .file = r[4] % 8,
                                          .line = r[5],
                                          .function = r[5] % 8});
        break;
    case 2:
        make_module(in, r);
        break;
    case 3:
        define(in, &(struct mtf_site_def){.kind = MTF_SITE_DEF_TEXT,
                                          .text = 1 + r[1] % 8u,
                                          .offset = r[2] * 8u,
                                          .path = r + 3,
                                          .path_length = 3});
        break;
    case 4:
        make_chain(in, r);
        break;
    case 5:
        allocate(in, r[1] | (uint32_t)r[2] << 8 * (r[3] % 3), r[4]);
        break;
    default:
        FUZZ_CHECK(tool_sites_take(&in->t.sites, r + 1, left - 1));
        in->made++;
        break;
    }
}

static void make(struct input *in, const uint8_t *data, size_t size) {
    *in = (struct input){.t = {.options = {.by = REPORT_TALLY_BY_SITE}}};
    in->t.sites.pid[0] = 1;
    for (size_t i = 0; i + 6 <= size && i < 6 * RECORDS_MAX; i += 6)
        take_record(in, data + i, size - i);
}

/* --- What is held --------------------------------------------------------- */

static void check_line(const char *text) {
    for (; *text != '\0'; text++)
        FUZZ_CHECK((uint8_t)*text >= ' ' && *text != 0x7F);
}

static void nowhere(void *ctx, const char *text, size_t n) {
    (void)ctx, (void)text, (void)n;
}

static void check_rows(const struct input *in, struct symbol_names *names,
                       enum report_by by, const struct report_suppressions *s,
                       const struct report_tally *all) {
    const struct report_filter filter = {.suppressed = s};
    struct report_rows rows = {0};
    FUZZ_CHECK(report_rows_add(&rows, &in->t, names, by, &filter, false));
    FUZZ_CHECK(s != NULL || (rows.total.bytes == all->bytes &&
                             rows.total.calls == all->calls));
    report_rows_sort(&rows, REPORT_SORT_LIVE);
    for (size_t i = 0; i < rows.count; i++)
        check_line(rows.row[i].location);
    report_rows_fini(&rows);
}

static void check_callers(const struct input *in, struct symbol_names *names) {
    const struct report_filter filter = {0};
    struct report_rows rows = {0};
    struct report_callers callers;
    const struct report_callers_top *top;
    FUZZ_CHECK(report_rows_add(&rows, &in->t, names, REPORT_BY_FUNCTION,
                               &filter, false));
    report_rows_sort(&rows, REPORT_SORT_BYTES);
    FUZZ_CHECK(report_callers_make(&callers, &rows, &in->t, names, NULL,
                                   REPORT_SORT_BYTES, rows.count, 3));
    for (size_t i = 0; i < rows.count; i++) {
        double sum = 0;
        for (size_t k = 0; (top = report_callers_of(&callers, i, k)) != NULL;
             k++) {
            char *text = report_callers_text(&callers, i, k, (unsigned)k, 100);
            sum += top->value;
            if (text != NULL)
                check_line(text);
            free(text);
        }
        FUZZ_CHECK(sum <= (double)rows.row[i].sum.bytes);
    }
    report_callers_fini(&callers);
    report_rows_fini(&rows);
}

static void check_tree(const struct input *in, struct symbol_names *names,
                       const struct report_tally *all) {
    struct report_stacks stacks;
    static struct tool_json json;
    const struct report_print_options o = {.top = 100};
    uint64_t bytes = 0;
    FUZZ_CHECK(report_stacks_make(&stacks, &in->t, names, REPORT_STACKS_LINE));
    for (size_t i = 0; i < stacks.count; i++) {
        FUZZ_CHECK(i == 0 || stacks.node[i].parent < i);
        if (stacks.node[i].sum != 0)
            bytes += stacks.sum[stacks.node[i].sum - 1].bytes;
    }
    FUZZ_CHECK(bytes == all->bytes);
    tool_json_open_sink(&json, nowhere, NULL);
    tool_json_begin_object(&json, NULL);
    FUZZ_CHECK(report_tree_json(&stacks, &o, 0, &json));
    tool_json_end_object(&json);
    FUZZ_CHECK(tool_json_close(&json));
    report_stacks_fini(&stacks);
}

static struct fuzz_work run(const uint8_t *data, size_t size,
                            const struct report_suppressions *s,
                            uint64_t *made) {
    struct input in;
    struct report_tally all = {0};
    fuzz_work_begin();
    make(&in, data, size);
    struct symbol_names *names = symbol_names_new(&in.t.sites, NULL);
    FUZZ_CHECK(names != NULL);
    for (size_t i = 0; i < in.t.count; i++)
        report_tally_add(&all, &in.t.tally[i]);
    check_rows(&in, names, REPORT_BY_SITE, NULL, &all);
    check_rows(&in, names, REPORT_BY_LANGUAGE, s, &all);
    check_callers(&in, names);
    check_tree(&in, names, &all);
    FUZZ_CHECK(!symbol_names_failed(names));
    symbol_names_free(names);
    *made = in.made;
    report_tally_fini(&in.t);
    return fuzz_work_end();
}

/* --- Texts ---------------------------------------------------------------- */

static void read_suppressions(struct report_suppressions *s,
                              const uint8_t *data, size_t size) {
    FILE *f = fmemopen((void *)(uintptr_t)data, size, "r");
    FUZZ_CHECK(f != NULL || size == 0);
    if (f == NULL)
        return;
    (void)report_suppressions_read_from(s, f, "fuzz");
    fclose(f);
    FUZZ_CHECK(!report_suppressions_match(s, NULL));
    (void)report_suppressions_match(
        s, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab");
}

static void read_map(const uint8_t *data, size_t size) {
    struct symbol_table t;
    char name[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    FUZZ_CHECK(symbol_table_read_map(&t, name));
    for (size_t i = 0; i < t.count; i++) {
        const struct symbol *s = symbol_table_find(&t, t.symbol[i].start);
        FUZZ_CHECK(s != NULL && s->start <= t.symbol[i].start);
    }
    symbol_table_fini(&t);
    close(fd);
}

/* --- Measuring ------------------------------------------------------------ */

static void check_cost(const struct fuzz_work *w, uint64_t made) {
    bool wrong = w->steps > STEPS_EACH * made + STEPS_FREE ||
                 w->bytes > BYTES_EACH * made + BYTES_FREE;
    if (wrong || getenv("FUZZ_TELL") != NULL)
        fprintf(stderr, "%llu made: %llu steps, %llu bytes of memory\n",
                (unsigned long long)made, (unsigned long long)w->steps,
                (unsigned long long)w->bytes);
    FUZZ_CHECK(!wrong);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int quiet = -1;
    struct report_suppressions s = {0};
    uint64_t made;
    if (quiet < 0)
        quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
    /* hides the messages about faults, which each input has */
    int err = dup(2);
    FUZZ_CHECK(quiet >= 0 && err >= 0 && dup2(quiet, 2) == 2);
    read_suppressions(&s, data, size);
    read_map(data, size);
    struct fuzz_work work = run(data, size, &s, &made);
    report_suppressions_fini(&s);
    FUZZ_CHECK(dup2(err, 2) == 2);
    close(err);
    check_cost(&work, made);
    return 0;
}
