/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the corpus of the targets proc and order: make_proc_corpus FOLDER
 * makes FOLDER/proc and FOLDER/order.
 *
 *   proc/small, proc/kinds,
 *   proc/present             processed traces of few random records
 *   order/history            three threads, buffers, rounds of a saver
 *   order/lost               the same with lost buffers and wrong clocks
 *   order/kinds              every kind of event, and the late stream
 */
#include "unit/tools/order_history.h"
#include "unit/traceformat/proc_sample.h"
#include "unit/traceformat/raw_build.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

static void save(const char *folder, const char *name, const void *data,
                 size_t n) {
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(data, 1, n, f) != n || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

static void make_folder(const char *name) {
    if (mkdir(name, 0777) != 0 && errno != EEXIST) {
        perror(name);
        exit(1);
    }
}

/* A record as fuzz_order.c reads it. */
static void put_record(struct bytes *out, unsigned kind, unsigned thread,
                       uint64_t step, uint64_t width, const void *data,
                       size_t n) {
    uint8_t head[7] = {(uint8_t)kind,
                       (uint8_t)thread,
                       (uint8_t)step,
                       (uint8_t)(step >> 8),
                       (uint8_t)(width / 16),
                       (uint8_t)(width / 16 >> 8),
                       (uint8_t)n};
    if (n > 255)
        abort();
    bytes_add(out, head, sizeof(head));
    bytes_add(out, data, n);
}

static void make_history(const char *folder, const char *name, uint64_t seed,
                         bool bad) {
    struct history_options o = {.seed = seed,
                                .threads = 3,
                                .events = 120,
                                .buffer_bytes = 180,
                                .round_ns = 2000,
                                .skew_ns = bad ? 3000 : 0,
                                .lose_percent = bad ? 20 : 0,
                                .spool_percent = 100};
    struct history h;
    struct bytes out = {0};
    uint64_t now = 1000000000 - 3000, offsets[8] = {0};
    struct history_reader reader;
    struct mtf_item item;
    history_make(&h, &o);
    history_read_begin(&reader, h.trace.data, h.trace.length);
    while (history_read_next(&reader, &item)) {
        if (item.kind != MTF_ITEM_DATA && item.kind != MTF_ITEM_BARRIER)
            continue;
        uint64_t step = item.time_lo > now ? item.time_lo - now : 0;
        step = out.length == 0 ? 0 : step < 65535 ? step : 65535;
        now += step;
        if (item.kind == MTF_ITEM_BARRIER) {
            put_record(&out, 6, 0, step, 0, NULL, 0);
            continue;
        }
        unsigned t = item.thread == MTF_THREAD_LATE ? 7 : item.thread - 1;
        uint64_t width = item.time_hi > now ? item.time_hi - now : 0;
        unsigned kind = item.time_hi == UINT64_MAX  ? 8
                        : item.offset == offsets[t] ? 0
                                                    : 5;
        put_record(&out, kind, t, step, width < 1000000 ? width : 1000000,
                   item.data, item.length);
        offsets[t] = item.offset + item.length;
    }
    history_read_end(&reader);
    save(folder, name, out.data, out.length);
    bytes_free(&out);
    history_free(&h);
}

/* The events of E, cut into records of at most 250 bytes at event ends. */
static void put_events(struct bytes *out, const struct encoder *e,
                       unsigned thread) {
    struct mtf_raw_state state = {0};
    size_t from = 0, at = 0;
    while (at < e->out.length) {
        struct mtf_event event;
        int n = mtf_raw_decode(&state, e->out.data + at,
                               e->out.data + e->out.length, &event);
        if (n <= 0)
            abort();
        if (at + (size_t)n - from > 250) {
            put_record(out, 0, thread, 10, 4000, e->out.data + from, at - from);
            from = at;
        }
        at += (size_t)n;
    }
    put_record(out, 0, thread, 10, 4000, e->out.data + from, at - from);
}

static void make_kinds(const char *folder) {
    struct encoder one = {.next_token = 1}, two = one, late = one;
    struct bytes out = {0};
    uint8_t fields[20] = {1};
    put_every_kind(&one, 1000, 1);
    put_every_kind(&two, 1500, 65);
    put_buffer(&late, 5000, 0, 0);
    put_payload(&late, mtf_inline_payload(MTF_RAW_AS_THREAD, 2));
    put_free(&late, 8);
    put_record(&out, 6, 0, 900, 0, NULL, 0);
    put_events(&out, &one, 0);
    put_record(&out, 7, 0, 100, 0, fields, sizeof(fields));
    put_record(&out, 6, 0, 100, 0, NULL, 0);
    put_events(&out, &two, 1);
    put_events(&out, &late, 7);
    put_record(&out, 6, 0, 9000, 0, NULL, 0);
    save(folder, "kinds", out.data, out.length);
    bytes_free(&one.out);
    bytes_free(&two.out);
    bytes_free(&late.out);
    bytes_free(&out);
}

int main(int argc, char **argv) {
    static const size_t counts[] = {30, 200, 60};
    static const char *const names[] = {"small", "kinds", "present"};
    char proc[2048], order[2048];
    if (argc != 2) {
        fprintf(stderr, "Usage: make_proc_corpus FOLDER\n");
        return 2;
    }
    (void)snprintf(proc, sizeof(proc), "%s/proc", argv[1]);
    (void)snprintf(order, sizeof(order), "%s/order", argv[1]);
    make_folder(proc);
    make_folder(order);
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(counts); i++) {
        struct proc_sample s;
        proc_sample_make(&s, 40 + i, counts[i], 0);
        save(proc, names[i], s.bytes, s.length);
        proc_sample_free(&s);
    }
    make_history(order, "history", 1, false);
    make_history(order, "lost", 2, true);
    make_kinds(order);
    return 0;
}
