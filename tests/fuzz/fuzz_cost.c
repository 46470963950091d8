/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cost of reading a trace, in steps and in bytes of memory: a script
 * (cost_script.h) makes the same pattern small and four times as large, and no
 * reader may need more than six times the steps for the large one, nor eight
 * times the memory, nor more of either for a byte than is stated here. The
 * corpus has what once took minutes.
 */
#include "tests/fuzz/cost_script.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_work.h"
#include "tests/unit/tools/order_sort.h"

#include "cmd/malloc_trace/dump/dump_lines.h"
#include "model/info.h"
#include "trace/ops.h"
#include "cmd/replay/feed/translate.h"
#include "common/main.h"
#include "trace/raw.h"
#include "window/filter.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

const struct fuzz_target fuzz_target = {
    .corpus = "cost", .stride = 9999, .runs = 4};

#define SMALL 192u
#define LARGE (4 * SMALL)

/* For each byte of a trace, LZ4 removed; and what is free. */
#define STEPS_A_BYTE 400u
#define BYTES_A_BYTE 64u
#define STEPS_FREE   400000u
#define BYTES_FREE   ((uint64_t)1 << 20)

static int file_of(const struct bytes *b) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, b->data, b->length) == (ssize_t)b->length &&
               lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static struct tool_input *input_of(const struct bytes *b) {
    struct tool_input *in = tool_input_from_fd(file_of(b), "fuzz");
    FUZZ_CHECK(in != NULL);
    return in;
}

/* --- Readers of raw traces ------------------------------------------------ */

static void run_postprocess(const struct bytes *raw, struct bytes *processed) {
    struct sorted out;
    struct tool_raw *t = tool_raw_from_input(input_of(raw), NULL);
    FUZZ_CHECK(t != NULL);
    struct sorter *s = sorter_begin(&out);
    struct mtf_item item;
    do {
        tool_raw_next(t, &item);
        sorter_add(s, &item);
    } while (item.kind != MTF_ITEM_END && item.kind != MTF_ITEM_FAILED);
    sorter_close(s);
    tool_raw_close(t);
    if (processed->length == 0)
        bytes_add(processed, out.bytes, out.length);
    sorted_free(&out);
}

static void run_info(const struct bytes *trace, struct bytes *unused) {
    static struct info_file f;
    (void)unused;
    struct tool_input *in = input_of(trace);
    memset(&f, 0, sizeof(f));
    f.name = "fuzz";
    f.want_live = true;
    if (tool_ops_is_processed(in, NULL))
        info_read_processed(&f, in);
    else
        info_read_raw(&f, in, NULL);
    info_free(&f);
}

static void run_dump(const struct bytes *trace, struct bytes *unused) {
    static struct dump d;
    (void)unused;
    struct tool_input *in = input_of(trace);
    memset(&d, 0, offsetof(struct dump, lines.line));
    d.damages = 0;
    d.status = TOOL_OK;
    d.name = "fuzz";
    d.lines.count = UINT64_MAX;
    d.lines.first_file = true;
    d.lines.out = tool_output_open("/dev/null", TOOL_OUTPUT_PLAIN);
    FUZZ_CHECK(d.lines.out != NULL);
    if (tool_ops_is_processed(in, NULL))
        dump_processed(&d, in, NULL);
    else
        dump_raw(&d, in, NULL);
    FUZZ_CHECK(dump_lines_close(&d.lines));
}

/* --- Readers of processed traces ------------------------------------------ */

/* Bytes of the last trace that was filtered. */
static size_t filtered;

static void run_filter(const struct bytes *trace, struct bytes *unused) {
    static struct mtf_proc_writer w;
    struct filter_options o = {.active = true,
                               .window = true,
                               .from_ns = 500,
                               .to_ns = UINT64_MAX,
                               .at_end = FILTER_FREE_AT_END};
    struct sorted out = {0};
    (void)unused;
    mtf_proc_writer_begin(&w, sorted_take, memory_sink_grow, &out, NULL, 0);
    struct filter *f = filter_new(&o, &w);
    FUZZ_CHECK(f != NULL);
    (void)filter_take(f, trace->data, trace->length);
    (void)filter_end(f);
    mtf_proc_writer_end(&w, NULL, 0);
    filtered = out.length;
    filter_free(f);
    free(w.stack);
    sorted_free(&out);
}

/* Operations between two looks at the ring. Each may end two batches. */
#define OPS (REPLAY_BATCHES / 4)

static void take_all(struct replay_ring *ring) {
    while (replay_ring_has(ring)) {
        pid_t none = -1;
        (void)replay_ring_take(ring, &none, NULL);
        replay_ring_taken(ring);
    }
}

static void translate_block(struct replay_translate *t,
                            const struct mtf_proc_block *b) {
    static struct mtf_proc_decoder d;
    static struct mtf_op ops[OPS + TOOL_OPS_AHEAD];
    size_t n;
    mtf_proc_decode_begin(&d, b);
    replay_translate_thread(t, b->head.thread);
    while ((n = mtf_proc_decode(&d, ops, OPS)) != 0) {
        if (!replay_translate_ops(t, b, ops, n))
            return;
        take_all(t->ring);
    }
}

static void run_translate(const struct bytes *trace, struct bytes *unused) {
    static struct replay_translate t;
    static uint8_t memory[MTF_PROC_READER_BYTES];
    struct memory_source m;
    struct mtf_proc_reader r;
    struct mtf_proc_item item;
    (void)unused;
    struct replay_ring *ring =
        replay_ring_new(REPLAY_BATCHES, REPLAY_BATCHES / 2, NULL);
    FUZZ_CHECK(ring != NULL && replay_translate_init(&t, ring, NULL));
    replay_translate_trace(&t);
    memory_source_init(&m, trace->data, trace->length, 0);
    mtf_proc_reader_init(&r, &m.source, memory);
    for (;;) {
        mtf_proc_reader_next(&r, &item);
        if (item.kind == MTF_PROC_ITEM_END)
            break;
        if (item.kind == MTF_PROC_ITEM_OPS) {
            t.most = trace->length;
            translate_block(&t, &item.block);
        }
    }
    replay_translate_end(&t);
    munmap(ring, sizeof(*ring));
}

/* --- Measuring ------------------------------------------------------------ */

typedef void (*reader)(const struct bytes *trace, struct bytes *processed);

static const struct {
    const char *name;
    reader run;
    bool processed;
} readers[] = {
    {"postprocess", run_postprocess, false},
    {"info", run_info, false},
    {"dump", run_dump, false},
    {"filter", run_filter, true},
    {"info, processed", run_info, true},
    {"dump, processed", run_dump, true},
    {"translate", run_translate, true},
};

#define READERS TCM_ARRAY_SIZE(readers)

struct measured {
    struct fuzz_work work[READERS];
    size_t bytes[2]; /* of the raw trace, LZ4 removed, and the processed one */
    size_t filtered;
};

static void measure(const uint8_t *script, size_t size, unsigned scale,
                    struct measured *m) {
    struct bytes trace[2] = {{0}, {0}};
    uint8_t *plain = malloc(size == 0 ? 1 : size);
    FUZZ_CHECK(plain != NULL);
    memcpy(plain, script, size);
    if (size != 0)
        plain[0] &= (uint8_t)~COST_COMPRESSED;
    cost_script_run(plain, size, scale, &trace[0]);
    m->bytes[0] = trace[0].length;
    if (size != 0 &&
        (script[0] & (COST_COMPRESSED | COST_SPOOL)) == COST_COMPRESSED) {
        trace[0].length = 0;
        cost_script_run(script, size, scale, &trace[0]);
    }
    free(plain);
    for (size_t i = 0; i < READERS; i++) {
        fuzz_work_begin();
        readers[i].run(&trace[readers[i].processed], &trace[1]);
        m->work[i] = fuzz_work_end();
    }
    m->bytes[1] = trace[1].length;
    m->filtered = filtered;
    bytes_free(&trace[0]);
    bytes_free(&trace[1]);
}

static uint64_t above(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

static void check(const struct measured *none, const struct measured *small,
                  const struct measured *large, size_t i) {
    bool tell = getenv("FUZZ_TELL") != NULL, wrong = false;
    uint64_t s = above(small->work[i].steps, none->work[i].steps);
    uint64_t l = above(large->work[i].steps, none->work[i].steps);
    uint64_t n = above(large->bytes[readers[i].processed],
                       none->bytes[readers[i].processed]);
    /* A small trace may be too short for a block of LZ4, be none once it is
       processed, or end before the window, where the large one does not. */
    bool alike =
        s != 0 &&
        n <= 8 * above(small->bytes[readers[i].processed],
                       none->bytes[readers[i].processed]) &&
        (readers[i].run != run_filter || small->filtered != none->filtered ||
         large->filtered == none->filtered);
    wrong |=
        (alike && l > 6 * s + STEPS_FREE) || l > STEPS_A_BYTE * n + STEPS_FREE;
    uint64_t b = above(small->work[i].bytes, none->work[i].bytes);
    uint64_t c = above(large->work[i].bytes, none->work[i].bytes);
    wrong |=
        (alike && c > 8 * b + BYTES_FREE) || c > BYTES_A_BYTE * n + BYTES_FREE;
    if (wrong || tell)
        fprintf(stderr,
                "%s: %llu bytes: %llu steps, of the small one %llu; %llu "
                "bytes of memory, of the small one %llu\n",
                readers[i].name, (unsigned long long)n, (unsigned long long)l,
                (unsigned long long)s, (unsigned long long)c,
                (unsigned long long)b);
    FUZZ_CHECK(!wrong);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct measured none, small, large;
    if (none.bytes[0] == 0) {
        measure(data, 0, 1, &small); /* what is made once */
        measure(data, 0, 1, &none);
    }
    measure(data, size, SMALL, &small);
    measure(data, size, LARGE, &large);
    for (size_t i = 0; i < READERS; i++)
        check(&none, &small, &large, i);
    return 0;
}
