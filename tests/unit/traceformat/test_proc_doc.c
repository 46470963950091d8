/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worked example of doc/processed-trace-format.md: the writer writes its
 * bytes, and the reader makes its operations of them. With --print it prints
 * both as they are in the document.
 */
#include "memory_sink.h"
#include "memory_source.h"
#include "proc_text.h"
#include "traceformat/proc_writer.h"

#include <ctype.h>

/* --- The example as the writer writes it ---------------------------------- */

struct bytes {
    uint8_t a[4096];
    size_t n;
    size_t pieces[64]; /* end of the bytes of each call of the sink */
    size_t piece_count;
};

static bool take(void *ctx, const void *data, size_t n) {
    struct bytes *b = ctx;
    memcpy(b->a + b->n, data, n);
    b->n += n;
    b->pieces[b->piece_count++] = b->n;
    return true;
}

static void write_example(struct bytes *b) {
    struct mtf_proc_writer *w = malloc(sizeof(*w));
    struct mtf_proc_object a, c, d, e;
    memset(b, 0, sizeof(*b));
    mtf_proc_writer_begin(w, take, memory_sink_grow, b, NULL, 0);
    mtf_proc_put_switch(w, 1);
    mtf_proc_put_thread_start(w, 1, 4711);
    mtf_proc_put_alloc(w, MTF_CALL_MALLOC, 24, &a);
    mtf_proc_put_alloc(w, MTF_CALL_MALLOC, 100, &c);
    mtf_proc_put_free(w, MTF_CALL_FREE, &a);
    mtf_proc_put_alloc(w, MTF_CALL_MALLOC, 16, &a);
    mtf_proc_put_realloc(w, MTF_CALL_REALLOC, true, 200, &c);
    mtf_proc_put_aligned(w, MTF_CALL_POSIX_MEMALIGN, 6, 1000, &d);
    mtf_proc_put_free(w, MTF_CALL_FREE, &d);
    mtf_proc_put_time(w, 1500000);
    mtf_proc_flush(w); /* the next block is decoded without this one */
    mtf_proc_put_switch(w, 2);
    mtf_proc_put_alloc(w, MTF_CALL_NEW, 48, &d);
    mtf_proc_put_free(w, MTF_CALL_DELETE, &a);
    mtf_proc_put_alloc(w, MTF_CALL_NEW, 48, &e);
    mtf_proc_put_failed(w, MTF_CALL_MALLOC, 0, 0, UINT64_MAX);
    mtf_proc_put_free_size(w, MTF_CALL_DELETE_SIZED, &e, 56);
    mtf_proc_put_realloc_end(w, MTF_CALL_REALLOC, &c);
    mtf_proc_put_text(w, MTF_PROC_MARK, "done", 4);
    struct mtf_account_value live = {MTF_PROC_ACCOUNT_LIVE_AT_END, 1};
    mtf_proc_writer_end(w, &live, 1);
    free(w->stack);
    free(w);
}

/* --- What the reader makes of it --------------------------------------------
 */

static void read_example(struct text *t, const uint8_t *bytes, size_t length) {
    struct mtf_proc_reader r;
    struct mtf_proc_item item;
    struct memory_source m;
    struct mtf_proc_decoder *d = malloc(sizeof(*d));
    uint8_t *memory = malloc(MTF_PROC_READER_BYTES);
    struct mtf_op ops[64];
    size_t n;
    t->n = 0;
    memory_source_init(&m, bytes, length, 0);
    mtf_proc_reader_init(&r, &m.source, memory);
    do {
        mtf_proc_reader_next(&r, &item);
        if (item.kind == MTF_PROC_ITEM_OPS) {
            mtf_proc_decode_begin(d, &item.block);
            n = mtf_proc_decode(d, ops, 64);
            for (size_t i = 0; i < n; i++)
                text_op(t, &item.block, &ops[i]);
            if (d->problem != NULL)
                text_add(t, "problem: %s\n", d->problem);
        } else if (item.kind == MTF_PROC_ITEM_CLOSING) {
            uint64_t ops_count = 0, live = 0;
            mtf_proc_account(&item.block, MTF_PROC_ACCOUNT_OPS, &ops_count);
            mtf_proc_account(&item.block, MTF_PROC_ACCOUNT_LIVE_AT_END, &live);
            text_add(t, "end: %u operations, %u live\n", (unsigned)ops_count,
                     (unsigned)live);
        } else if (item.status != MTF_OK) {
            text_add(t, "problem: %s\n", item.problem);
        }
    } while (item.kind != MTF_PROC_ITEM_END &&
             item.kind != MTF_PROC_ITEM_FAILED);
    free(d);
    free(memory);
}

/* --- The document --------------------------------------------------------- */

/* The lines between "```NAME" and "```". false: there is no such block. */
static bool fenced(FILE *f, const char *name, struct text *t) {
    char line[512];
    bool inside = false;
    rewind(f);
    t->n = 0;
    t->s[0] = '\0';
    while (fgets(line, sizeof(line), f) != NULL) {
        if (!inside && strncmp(line, "```", 3) == 0 &&
            strncmp(line + 3, name, strlen(name)) == 0 &&
            line[3 + strlen(name)] == '\n')
            inside = true;
        else if (inside && strncmp(line, "```", 3) == 0)
            return true;
        else if (inside)
            text_add(t, "%s", line);
    }
    return false;
}

/* Hexadecimal bytes; what follows '#' on a line is a comment. */
static size_t parse_hex(const char *s, uint8_t *out, size_t room) {
    size_t n = 0;
    while (*s != '\0' && n < room) {
        if (*s == '#') {
            s += strcspn(s, "\n");
        } else if (isxdigit((unsigned char)*s)) {
            char two[3] = {s[0], s[1], '\0'};
            out[n++] = (uint8_t)strtoul(two, NULL, 16);
            s += 2;
        } else {
            s++;
        }
    }
    return n;
}

static void print_example(const struct bytes *b) {
    struct text t;
    for (size_t i = 0, at = 0; i < b->piece_count; i++) {
        for (size_t k = 0; at < b->pieces[i]; at++, k++)
            printf("%02x%s", b->a[at],
                   at + 1 == b->pieces[i] || k % 16 == 15 ? "\n" : " ");
        printf("\n");
    }
    read_example(&t, b->a, b->n);
    printf("%s", t.s);
}

int main(int argc, char **argv) {
    struct bytes b;
    write_example(&b);
    if (argc > 1 && strcmp(argv[1], "--print") == 0) {
        print_example(&b);
        return 0;
    }
    char path[4096];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof(path), "%s/doc/processed-trace-format.md",
             top == NULL ? "." : top);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        tap_bail("cannot open %s", path);
    static struct text hex, want, got;
    static uint8_t bytes[4096];
    tap_ok(fenced(f, "hex", &hex), "the document has the bytes");
    tap_ok(fenced(f, "ops", &want), "the document has the operations");
    fclose(f);
    size_t n = parse_hex(hex.s, bytes, sizeof(bytes));
    tap_ok(n == b.n && memcmp(bytes, b.a, n) == 0,
           "its bytes are what the writer writes (%zu, %zu)", n, b.n);
    read_example(&got, bytes, n);
    tap_is_str(got.s, want.s, "its operations are what the reader reads");
    return tap_done();
}
