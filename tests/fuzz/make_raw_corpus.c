/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the corpus of the targets raw and spool, and small traces that other
 * tests read: make_raw_corpus FOLDER makes FOLDER/raw and FOLDER/spool.
 *
 *   raw/plain, raw/lz4    two threads and the late stream, every kind of event
 *                         and of segment
 *   raw/killed            a recording that was killed; killed.spool repeats
 *                         what the file has and goes on
 *   spool/alone.spool     that spool for the other target
 *
 * make_raw_corpus --tree FOLDER writes traces of four processes to FOLDER: root
 * (10), which made left (20) and right (30), and again, which is right after an
 * exec.
 */
#include "unit/traceformat/raw_build.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define RANDOM 0x0123456789ABCDEFu

static void save(const char *folder, const char *name, const struct bytes *b) {
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(b->data, 1, b->length, f) != b->length ||
        fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

static void put_segment(struct mtf_raw_writer *w, struct encoder *e,
                        uint32_t thread, uint64_t offset, uint64_t lo) {
    struct mtf_raw_place place = {thread, offset, offset, lo, lo + 100};
    if (!mtf_raw_write_data(w, &place, e->out.data, e->out.length))
        abort();
}

static void write_samples(struct mtf_raw_writer *w, bool footer) {
    struct mtf_account_value a[] = {
        {MTF_ACCOUNT_RSS_ANON_BYTES, 1 << 20},
        {footer ? MTF_ACCOUNT_END_REASON : MTF_ACCOUNT_SPANS_MADE, 1},
        {MTF_ACCOUNT_EVENTS, 28},
    };
    if (footer)
        mtf_raw_write_footer(w, 9000, a, TCM_ARRAY_SIZE(a));
    else
        mtf_raw_write_sample(w, 8000, a, TCM_ARRAY_SIZE(a));
}

/* Events of the late stream: a free of a block of thread 1, as thread 2. */
static void late_events(struct encoder *e, uint64_t token) {
    put_buffer(e, 5000, 0, 0);
    put_payload(e, mtf_inline_payload(MTF_RAW_AS_THREAD, 2));
    put_free(e, token);
}

/* Blocks that are alive at the end. */
static const struct mtf_present present[] = {{2, 4096}, {66, 0}};

static void make_trace(struct bytes *out, bool compressed, bool whole) {
    struct mtf_raw_writer w;
    struct encoder one = {.next_token = 1}, two = one, late = one;
    void *memory = begin_trace(&w, out, compressed);
    put_every_kind(&one, 1000, 1);
    put_every_kind(&two, 1500, 65);
    late_events(&late, 6);
    put_segment(&w, &one, 1, 0, 990);
    mtf_raw_write_notice(&w, 1100, MTF_NOTICE_NO_SAVER_TABLE, "old kernel");
    mtf_raw_write_barrier(&w, 1200);
    if (whole) {
        put_segment(&w, &two, 2, 0, 1490);
        put_segment(&w, &late, MTF_THREAD_LATE, 0, 4990);
        write_samples(&w, false);
        mtf_raw_write_barrier(&w, 8000);
        mtf_raw_write_present(&w, 8900, present, TCM_ARRAY_SIZE(present));
        write_samples(&w, true);
    }
    bytes_free(&one.out);
    bytes_free(&two.out);
    bytes_free(&late.out);
    free(memory);
}

/* --- Spools --------------------------------------------------------------- */

static void put_spool_buffer(struct bytes *out, const struct encoder *e,
                             uint32_t thread, uint64_t offset, uint32_t size) {
    struct mtf_spool_buffer head = {0};
    mtf_spool_put_buffer(&head, RANDOM, size, thread, offset, 990);
    uint8_t *p = bytes_room(out, size);
    memcpy(p, &head, sizeof(head));
    memcpy(p + sizeof(head), e->out.data, e->out.length);
    out->length += size;
}

static void make_spool(struct bytes *out) {
    struct encoder one = {.next_token = 1}, two = one;
    struct mtf_raw_header h = example_header();
    uint8_t header[MTF_RAW_HEADER_MAX];
    size_t n = mtf_raw_build_header(header, &h, "program", "recorder 1");
    uint8_t *page = bytes_room(out, MTF_SPOOL_UNIT);
    mtf_spool_put_head(page, header, n, 0);
    mtf_spool_mark_of(page)->begun = UINT64_MAX; /* of whatever file */
    out->length += MTF_SPOOL_UNIT;
    put_every_kind(&two, 1500, 65);
    put_spool_buffer(out, &two, 2, 0, 4096);
    put_every_kind(&one, 1000, 1);
    uint64_t next = one.out.length;
    put_spool_buffer(out, &one, 1, 0, 4096);
    one.out.length = 0;
    put_every_kind(&one, 3000, 129);
    put_spool_buffer(out, &one, 1, next, 4096);
    bytes_free(&one.out);
    bytes_free(&two.out);
}

/* --- Processes ------------------------------------------------------------ */

static void save_process(const char *folder, const char *name, uint32_t pid,
                         uint32_t parent, uint64_t number) {
    struct bytes b = {0};
    struct mtf_raw_writer w;
    struct mtf_raw_header h = example_header();
    uint8_t header[MTF_RAW_HEADER_MAX];
    h.pid = pid;
    h.process_start = 1000 + pid;
    h.parent_pid = parent;
    h.parent_start = parent == 0 ? 0 : 1000 + parent;
    h.random = number;
    h.wall_ns += number;
    size_t n = mtf_raw_build_header(header, &h, name, "recorder 1");
    if (!mtf_raw_writer_init(&w, bytes_sink, &b, NULL, 0) ||
        !mtf_raw_write_header(&w, header, n))
        abort();
    write_samples(&w, true);
    save(folder, name, &b);
    bytes_free(&b);
}

int main(int argc, char **argv) {
    char raw[2048], spool[2048];
    if (argc == 3 && strcmp(argv[1], "--tree") == 0) {
        save_process(argv[2], "root", 10, 1, 1);
        save_process(argv[2], "left", 20, 10, 2);
        save_process(argv[2], "right", 30, 10, 3);
        save_process(argv[2], "again", 30, 10, 4);
        return 0;
    }
    if (argc != 2) {
        fprintf(stderr, "Usage: make_raw_corpus [--tree] FOLDER\n");
        return 2;
    }
    (void)snprintf(raw, sizeof(raw), "%s/raw", argv[1]);
    (void)snprintf(spool, sizeof(spool), "%s/spool", argv[1]);
    if ((mkdir(raw, 0777) != 0 && errno != EEXIST) ||
        (mkdir(spool, 0777) != 0 && errno != EEXIST)) {
        perror(argv[1]);
        return 1;
    }
    struct bytes b = {0};
    make_trace(&b, false, true);
    save(raw, "plain", &b);
    b.length = 0;
    make_trace(&b, true, true);
    save(raw, "lz4", &b);
    b.length = 0;
    make_trace(&b, true, false);
    save(raw, "killed", &b);
    b.length = 0;
    make_spool(&b);
    save(raw, "killed.spool", &b);
    save(spool, "alone.spool", &b);
    bytes_free(&b);
    return 0;
}
