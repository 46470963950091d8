/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a trace of each foreign format. Checks:
 * - the import is a processed trace that agrees with its own account, and not
 *   much larger than the input;
 * - all bytes are read, or a fault or a refusal is reported;
 * - batches and single events give the same trace;
 * - an export to each format succeeds, and one to text comes back the same.
 * FUZZ_FORMAT=NAME reads only the format NAME. In the usual run of driver.c a
 * changed file is read as its own format and as one other, in turn; in a long
 * run, and under libFuzzer, as all.
 */
#include "tests/fuzz/fuzz.h"

#include "formats/format_export.h"
#include "formats/format_import.h"
#include "formats/format_reader.h"
#include "model/info.h"

#include "rounds.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Format of the file that inputs are made of; NULL: they are read as all. */
static const struct format_type *of_file;
/* The next input is the file itself. */
static bool is_whole;

/* A file is called like its format, up to the first dot. */
static void begin_file(const char *name) {
    char format[64];
    (void)snprintf(format, sizeof(format), "%.*s", (int)strcspn(name, "."),
                   name);
    bool all = rounds_long() || getenv("FUZZ_FORMAT") != NULL;
    of_file = all ? NULL : format_by_name(format);
    is_whole = true;
}

const struct fuzz_target fuzz_target = {
    .corpus = "formats", .stride = 3, .runs = 150, .begin_file = begin_file};

static struct tool_input *input_of(const void *data, size_t size) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size &&
               lseek(fd, 0, SEEK_SET) == 0);
    struct tool_input *in = tool_input_from_fd(fd, "fuzz");
    FUZZ_CHECK(in != NULL);
    return in;
}

struct trace {
    uint8_t *bytes;
    size_t length;
    struct format_counts counts;
    bool lost, refused;
};

static void import(const void *data, size_t size,
                   const struct format_type *format, struct trace *t) {
    static uint8_t buffer[4096];
    struct format_import *i =
        format_import_new(input_of(data, size), format, false);
    size_t got;
    FUZZ_CHECK(i != NULL);
    struct mtf_source *s = format_import_source(i);
    memset(t, 0, sizeof(*t));
    enum mtf_source_result r;
    while ((r = s->read(s, buffer, sizeof(buffer), &got)) == MTF_SOURCE_DATA) {
        t->bytes = realloc(t->bytes, t->length + got);
        FUZZ_CHECK(t->bytes != NULL);
        memcpy(t->bytes + t->length, buffer, got);
        t->length += got;
        /* times that leap take up to 2^17 records, once */
        FUZZ_CHECK(t->length <= 64 * size + (2u << 20));
    }
    t->refused = format_import_refused(i);
    FUZZ_CHECK(r == MTF_SOURCE_END || t->refused);
    t->counts = *format_import_counts(i);
    t->lost = format_import_lost(i);
    FUZZ_CHECK(t->lost || t->refused || format_import_used(i) == size);
    format_import_free(i);
}

/* Checks that the trace agrees with its own account. */
static void check(const struct trace *t) {
    static struct info_file f;
    memset(&f, 0, sizeof(f));
    f.name = "fuzz";
    f.want_live = true;
    info_read_processed(&f, input_of(t->bytes, t->length));
    for (uint64_t i = 0; i < f.problem_count && i < INFO_TEXTS; i++)
        FUZZ_CHECK(strstr(f.problems[i], "made from a trace") != NULL);
    FUZZ_CHECK((f.problem_count != 0) == t->lost);
    info_free(&f);
}

static size_t export(const struct trace *t, const struct format_type *format,
                     uint8_t **text) {
    static struct format_out o;
    struct format_exported done;
    char name[64];
    int fd = memfd_create("out", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0);
    (void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    memset(&o, 0, offsetof(struct format_out, bytes));
    o.to = tool_output_open(name, TOOL_OUTPUT_PLAIN);
    struct tool_input *in = input_of(t->bytes, t->length);
    FUZZ_CHECK(o.to != NULL);
    int copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3); /* losses are told */
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    FUZZ_CHECK(copy >= 0 && dup2(null, STDERR_FILENO) >= 0);
    format_export(in, format, &o, &done);
    FUZZ_CHECK(dup2(copy, STDERR_FILENO) >= 0);
    close(copy);
    close(null);
    FUZZ_CHECK(!done.failed && !o.no_memory && done.lost == t->lost);
    tool_input_close(in);
    FUZZ_CHECK(tool_output_close(o.to));
    off_t size = lseek(fd, 0, SEEK_END);
    FUZZ_CHECK(size >= 0);
    *text = malloc((size_t)size + 1);
    FUZZ_CHECK(*text != NULL &&
               pread(fd, *text, (size_t)size, 0) == (ssize_t)size);
    close(fd);
    return (size_t)size;
}

/* Checks that single events give the same trace as batches. */
static void check_single_events(const void *data, size_t size,
                                const struct format_type *format,
                                const struct trace *t) {
    struct format_type single = *format;
    struct trace again;
    single.batch = NULL;
    import(data, size, &single, &again);
    FUZZ_CHECK(
        again.refused == t->refused && again.length == t->length &&
        (t->length == 0 || memcmp(again.bytes, t->bytes, t->length) == 0));
    FUZZ_CHECK(memcmp(&again.counts, &t->counts, sizeof(t->counts)) == 0);
    free(again.bytes);
}

/* Checks that an export to text and an import of it give the same trace, with
   no new faults. */
static void check_round_trip(const struct trace *t) {
    struct trace again;
    uint8_t *text;
    size_t n = export(t, format_by_name("text"), &text);
    import(text, n, format_by_name("text"), &again);
    FUZZ_CHECK(again.counts.bad == 0 && !again.counts.cut);
    FUZZ_CHECK(again.counts.mallocs == t->counts.mallocs &&
               again.counts.memaligns == t->counts.memaligns &&
               again.counts.live_blocks == t->counts.live_blocks &&
               again.counts.peak_live_bytes == t->counts.peak_live_bytes &&
               again.counts.requested_bytes == t->counts.requested_bytes);
    free(again.bytes);
    free(text);
}

static bool is_read(const struct format_type *f) {
    return f->line != NULL || f->next != NULL;
}

/* Number of a format that is read, another one at each call. */
static size_t next_read(void) {
    static size_t at;
    do {
        if (format_at(++at) == NULL)
            at = 0;
    } while (!is_read(format_at(at)));
    return at;
}

static void try_format(const uint8_t *data, size_t size,
                       const struct format_type *f) {
    static unsigned turn;
    struct trace t;
    uint8_t *text;
    import(data, size, f, &t);
    if (f->batch != NULL)
        check_single_events(data, size, f, &t);
    if (!t.refused)
        check(&t);
    if (!t.refused &&
        t.counts.mallocs + t.counts.memaligns + t.counts.reallocs != 0) {
        check_round_trip(&t);
        const struct format_type *to = format_at(turn++);
        if (to == NULL)
            turn = 0;
        else if (to->put != NULL) {
            (void)export(&t, to, &text);
            free(text);
        }
    }
    free(t.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *name = getenv("FUZZ_FORMAT");
    const struct format_type *only = name == NULL ? NULL : format_by_name(name);
    const struct format_type *f;
    FUZZ_CHECK(name == NULL || only != NULL);
    bool all = of_file == NULL || is_whole;
    size_t other = all ? 0 : next_read();
    is_whole = false;
    for (size_t i = 0; (f = format_at(i)) != NULL; i++) {
        if (!is_read(f) || (only != NULL && f != only))
            continue;
        if (all || f == of_file || i == other)
            try_format(data, size, f);
    }
    return 0;
}
