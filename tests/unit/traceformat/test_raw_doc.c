/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worked examples of doc/raw-trace-format.md, taken out of the document:
 * their bytes decode to what stands beside them, and the writer writes them.
 * With --print it prints the examples as they stand there.
 *
 * An example is an indented block whose lines are hexadecimal bytes, "|" and a
 * text; a line without bytes goes on with the text before.
 */
#include "traceformat/raw_reader.h"

#include "memory_source.h"
#include "raw_build.h"
#include "tap.h"

#include <ctype.h>
#include <stdio.h>

/* --- Text ----------------------------------------------------------------- */

struct text {
    char s[16384];
    size_t n;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t,
                                                      const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->s + t->n, sizeof(t->s) - t->n, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof(t->s) - t->n)
        tap_bail("text too long");
    t->n += (size_t)n;
}

/* Lines of at most 16 bytes, the text beside the first. */
static void add_bytes(struct text *t, const uint8_t *p, size_t n,
                      const char *what) {
    for (size_t at = 0; at < n; at += 16) {
        char hex[64] = "";
        size_t used = 0;
        for (size_t i = at; i < n && i < at + 16; i++)
            used += (size_t)snprintf(hex + used, sizeof(hex) - used, "%s%02x",
                                     i == at ? "" : " ", p[i]);
        if (at == 0)
            add(t, "    %-47s | %s\n", hex, what);
        else
            add(t, "    %s\n", hex);
    }
}

static unsigned long long ull(uint64_t v) {
    return v;
}

/* One event in words. */
static void describe(char *out, size_t room, const struct mtf_raw_state *s,
                     const struct mtf_event *e) {
    const char *call = mtf_call_name(e->call);
    unsigned long long size = e->size, token = e->token, old = e->old_token;
    switch (e->kind) {
    case MTF_EVENT_BUFFER:
        snprintf(out, room, "BUFFER time %llu, next token %llu, left %llu",
                 ull(e->time_ns), ull(s->next_token), ull(s->tokens_left));
        break;
    case MTF_EVENT_THREAD_START:
        snprintf(out, room, "THREAD_START %llu", ull(e->value));
        break;
    case MTF_EVENT_STATE:
        snprintf(out, room, "state: next %llu, left %llu, %s, %s",
                 ull(s->next_token), ull(s->tokens_left),
                 mtf_call_name(s->alloc_call), mtf_call_name(s->free_call));
        break;
    case MTF_EVENT_TIME:
        snprintf(out, room, "TIME %llu", ull(e->time_ns));
        break;
    case MTF_EVENT_ALLOC:
        snprintf(out, room, "%s(%llu) = %llu", call, size, token);
        break;
    case MTF_EVENT_FREE:
        snprintf(out, room, "%s(%llu)", call, old);
        break;
    case MTF_EVENT_REALLOC:
        snprintf(out, room, "%s(%llu, %llu) = %llu, %s", call, old, size, token,
                 (e->flags & MTF_EVENT_MOVED) != 0 ? "moved" : "in place");
        break;
    case MTF_EVENT_ALIGNED:
        snprintf(out, room, "%s(2^%u, %llu) = %llu", call, e->align_log2, size,
                 token);
        break;
    case MTF_EVENT_REALLOC_NEW:
        snprintf(out, room, "%s(%s, %llu) = %llu", call,
                 (e->flags & MTF_EVENT_OLD_UNKNOWN) != 0 ? "unknown" : "NULL",
                 size, token);
        break;
    case MTF_EVENT_FAILED:
        snprintf(out, room, "FAILED %s size %llu", call, size);
        break;
    case MTF_EVENT_FREE_SIZE:
        snprintf(out, room, "%s(%llu), size given %llu", call, old, size);
        break;
    case MTF_EVENT_REALLOC_END:
        snprintf(out, room, "%s(%llu, 0) = NULL", call, old);
        break;
    case MTF_EVENT_PRESENT:
        snprintf(out, room, "PRESENT %llu", ull(e->value));
        break;
    case MTF_EVENT_UNTRACED:
        snprintf(out, room, "UNTRACED %llu", ull(e->value));
        break;
    case MTF_EVENT_MARK:
        snprintf(out, room, "MARK \"%.*s\"", (int)e->text_length,
                 (const char *)e->text);
        break;
    case MTF_EVENT_THREAD_END:
        snprintf(out, room, "THREAD_END \"%.*s\"", (int)e->text_length,
                 (const char *)e->text);
        break;
    case MTF_EVENT_EXTENSION:
        snprintf(out, room, "EXTENSION %u, %llu", e->call, ull(e->value));
        break;
    case MTF_EVENT_WRONG:
        snprintf(out, room, "WRONG %s(%llu): %s, %llu", call, old,
                 mtf_wrong_name(e->flags), ull(e->value));
        break;
    case MTF_EVENT_GAP:
        snprintf(out, room, "GAP %llu events, %llu to %llu", ull(e->value),
                 ull(e->time_ns), ull(e->time_hi));
        break;
    default:
        snprintf(out, room, "kind %llu, passed over", ull(e->value));
        break;
    }
}

/* --- Varints -------------------------------------------------------------- */

static const uint64_t varints[] = {0,   1,     63,      127,
                                   128, 16383, 1000000, MTF_VARINT_MAX};

static void print_varints(struct text *t) {
    for (size_t i = 0; i < TCM_ARRAY_SIZE(varints); i++) {
        uint8_t bytes[8];
        char what[32];
        unsigned n = mtf_varint_put(bytes, varints[i]);
        snprintf(what, sizeof(what), "%llu", ull(varints[i]));
        add_bytes(t, bytes, n, what);
    }
}

static void read_varint(const uint8_t *p, size_t n, const char *what) {
    uint64_t v = 0;
    tap_ok(mtf_varint_get(p, p + n, &v) == n && v == strtoull(what, NULL, 10),
           "varint %s", what);
}

/* --- Events --------------------------------------------------------------- */

static void print_events(struct text *t) {
    struct encoder e = {.next_token = 1};
    struct mtf_raw_state s = {0};
    struct mtf_event event;
    put_every_kind(&e, 1000, 1);
    for (size_t at = 0; at < e.out.length;) {
        char what[128];
        int n = mtf_raw_decode(&s, e.out.data + at, e.out.data + e.out.length,
                               &event);
        if (n <= 0)
            tap_bail("the example cannot be decoded");
        describe(what, sizeof(what), &s, &event);
        add_bytes(t, e.out.data + at, (size_t)n, what);
        at += (size_t)n;
    }
    bytes_free(&e.out);
}

static struct mtf_raw_state events_state;

static void read_event(const uint8_t *p, size_t n, const char *what) {
    struct mtf_event e;
    char got[128] = "not decoded";
    if (mtf_raw_decode(&events_state, p, p + n, &e) == (int)n)
        describe(got, sizeof(got), &events_state, &e);
    tap_is_str(got, what, "event %s", what);
}

/* --- A whole trace -------------------------------------------------------- */

/* The sink is called once for a head and once for a payload. */
struct pieces {
    struct text *text;
    unsigned count;
};

static bool print_piece(void *ctx, const void *data, size_t n) {
    static const char *const names[] = {
        "header",
        "segment: the header again",
        "its payload",
        "segment: data of thread 1, offset 0, from 990 to 1100",
        "its payload: events",
        "segment: barrier at 1200",
        "its payload: number 1",
        "segment: the header again, as the second frame begins",
        "its payload",
        "segment: footer at 1300",
        "its payload: events 3, end_reason 1",
    };
    struct pieces *p = ctx;
    if (p->count >= TCM_ARRAY_SIZE(names))
        return false;
    add_bytes(p->text, data, n, names[p->count++]);
    return true;
}

static void print_trace(struct text *t) {
    struct pieces pieces = {t, 0};
    struct mtf_raw_writer w;
    struct encoder e = {.next_token = 1};
    struct mtf_raw_header h = example_header();
    uint8_t header[MTF_RAW_HEADER_MAX];
    size_t n = mtf_raw_build_header(header, &h, "sh", "tcm 1.0");
    put_buffer(&e, 1000, 0, 0);
    put_tokens(&e, 1, 6);
    put_free(&e, put_alloc(&e, 24));
    put_alloc(&e, 100);
    struct mtf_raw_place place = {1, 0, 0, 990, 1100};
    struct mtf_account_value a[] = {{MTF_ACCOUNT_EVENTS, 3},
                                    {MTF_ACCOUNT_END_REASON, MTF_END_EXIT}};
    if (!mtf_raw_writer_init(&w, print_piece, &pieces, NULL, 0) ||
        !mtf_raw_write_header(&w, header, n) ||
        !mtf_raw_write_data(&w, &place, e.out.data, e.out.length) ||
        !mtf_raw_write_barrier(&w, 1200) ||
        !mtf_raw_write_footer(&w, 1300, a, 2))
        tap_bail("the example cannot be written");
    bytes_free(&e.out);
}

static struct bytes trace_bytes;

static void gather_trace(const uint8_t *p, size_t n, const char *what) {
    (void)what;
    bytes_add(&trace_bytes, p, n);
}

static void read_trace(void) {
    static uint8_t buffer[MTF_READER_BUFFER];
    static const enum mtf_item_kind want[] = {MTF_ITEM_HEADER, MTF_ITEM_DATA,
                                              MTF_ITEM_BARRIER, MTF_ITEM_FOOTER,
                                              MTF_ITEM_END};
    struct memory_source m;
    struct mtf_raw_reader r;
    struct mtf_item item;
    memory_source_init(&m, trace_bytes.data, trace_bytes.length, 0);
    mtf_raw_reader_init(&r, &m.source, buffer);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(want); i++) {
        mtf_raw_reader_next(&r, &item);
        tap_is_u64(item.kind, want[i], "item %zu of the trace", i);
    }
    bytes_free(&trace_bytes);
}

/* --- A spool -------------------------------------------------------------- */

static void print_spool(struct text *t) {
    struct mtf_raw_header h = example_header();
    static uint8_t page[MTF_SPOOL_UNIT];
    struct mtf_spool_buffer head = {.saved = 960};
    uint8_t header[MTF_RAW_HEADER_MAX];
    size_t n = mtf_raw_build_header(header, &h, "sh", "tcm 1.0");
    mtf_spool_put_head(page, header, n, 960);
    mtf_spool_mark_of(page)->length = 36864;
    mtf_spool_mark_of(page)->begun = 1024;
    add_bytes(t, page, 64, "at 0: head; the trace's header stands at 64");
    mtf_spool_put_buffer(&head, h.random, 4096, 1, 73, 1100);
    add_bytes(t, (uint8_t *)&head, 48,
              "at 4096: 4096 bytes, thread 1, offset 73, from 1100; the buffer "
              "was emptied when 960 bytes were saved");
}

static void read_spool(const uint8_t *p, size_t n, const char *what) {
    struct mtf_spool_buffer head;
    static uint8_t page[MTF_SPOOL_UNIT];
    struct mtf_raw_info info;
    struct mtf_spool_mark mark;
    if (n == 64) {
        struct mtf_raw_header h = example_header();
        memcpy(page, p, n);
        mtf_raw_build_header(page + n, &h, "sh", NULL);
        tap_ok(mtf_spool_parse_head(page, sizeof(page), &info) == MTF_OK &&
                   info.fixed.pid == 4711 && mtf_spool_get_mark(page, &mark) &&
                   mark.length == 36864 && mark.saved == 960 &&
                   mark.begun == 1024 && mark.flags == 0,
               "%s", what);
    } else {
        tap_ok(n == 48 &&
                   mtf_spool_parse_buffer(p, example_header().random, &head) &&
                   head.size == 4096 && head.thread == 1 && head.offset == 73 &&
                   head.time_lo == 1100 && head.saved == 960,
               "%s", what);
    }
}

/* --- The document --------------------------------------------------------- */

static const struct {
    const char *name;
    void (*print)(struct text *t);
    void (*read)(const uint8_t *p, size_t n, const char *what);
} examples[] = {
    {"varints", print_varints, read_varint},
    {"events", print_events, read_event},
    {"trace", print_trace, gather_trace},
    {"spool", print_spool, read_spool},
};

/* Decodes the lines of the block in T. */
static void read_block(char *block,
                       void (*reader)(const uint8_t *, size_t, const char *)) {
    uint8_t bytes[4096 + 8] = {0};
    size_t n = 0;
    char what[128] = "";
    char *save = NULL;
    for (char *line = strtok_r(block, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char *bar = strchr(line, '|');
        if (bar != NULL) {
            if (n != 0)
                reader(bytes, n, what);
            n = 0;
            snprintf(what, sizeof(what), "%s", bar + 2);
            *bar = '\0';
        }
        char *p = line;
        while (*p != '\0') {
            char *end;
            if (isspace((unsigned char)*p)) {
                p++;
                continue;
            }
            if (n >= 4096)
                tap_bail("example too long");
            bytes[n++] = (uint8_t)strtoul(p, &end, 16);
            if (end == p)
                tap_bail("no hexadecimal byte: %s", p);
            p = end;
        }
    }
    if (n != 0)
        reader(bytes, n, what);
}

/* The indented block after the line "Example: NAME", copied; "" if none. */
static void find_block(const char *document, const char *name,
                       struct text *block) {
    char mark[64];
    snprintf(mark, sizeof(mark), "\nExample: %s\n\n", name);
    block->n = 0;
    block->s[0] = '\0';
    const char *p = strstr(document, mark);
    if (p == NULL)
        return;
    p += strlen(mark);
    while (strncmp(p, "    ", 4) == 0) {
        size_t n = strcspn(p, "\n") + 1;
        add(block, "%.*s", (int)n, p);
        p += n;
    }
}

int main(int argc, char **argv) {
    static char document[1 << 18];
    static struct text found, printed;
    if (argc == 2 && strcmp(argv[1], "--print") == 0) {
        for (size_t i = 0; i < TCM_ARRAY_SIZE(examples); i++) {
            printed.n = 0;
            examples[i].print(&printed);
            printf("Example: %s\n\n%s\n", examples[i].name, printed.s);
        }
        return 0;
    }
    char path[4096];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof(path), "%s/doc/raw-trace-format.md",
             top == NULL ? "." : top);
    FILE *f = fopen(path, "r");
    if (f == NULL || fread(document, 1, sizeof(document) - 1, f) == 0)
        tap_bail("%s cannot be read", path);
    fclose(f);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(examples); i++) {
        printed.n = 0;
        examples[i].print(&printed);
        find_block(document, examples[i].name, &found);
        tap_is_str(found.s, printed.s, "the writer writes example %s",
                   examples[i].name);
        read_block(found.s, examples[i].read);
    }
    read_trace();
    return tap_done();
}
