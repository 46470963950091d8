/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The writer of processed traces at its limits: a sink that refuses at any
 * call, a stack that cannot grow, full blocks, long texts and times, and the
 * accounts that it knows itself.
 */
#include "memory_source.h"
#include "prng.h"
#include "tap.h"
#include "traceformat/proc_writer.h"
#include "traceformat/proc_reader.h"

struct out {
    uint8_t *bytes;
    size_t length, room;
    unsigned calls, refuse_at, late;
    unsigned grows, grow_fails_at; /* 0: never */
    bool grow_lies;                /* returns true without growing */
};

static struct mtf_proc_writer *w;

static bool take(void *ctx, const void *data, size_t n) {
    struct out *o = ctx;
    o->calls++;
    if (o->refuse_at != 0 && o->calls >= o->refuse_at) {
        o->late += o->calls > o->refuse_at;
        return false;
    }
    if (o->length + n > o->room) {
        o->room = 2 * (o->length + n);
        o->bytes = realloc(o->bytes, o->room);
    }
    memcpy(o->bytes + o->length, data, n);
    o->length += n;
    return true;
}

static bool grow(void *ctx, uint32_t **stack, size_t *capacity) {
    struct out *o = ctx;
    if (++o->grows == o->grow_fails_at)
        return o->grow_lies;
    *capacity = *capacity == 0 ? 4 : *capacity * 2;
    *stack = realloc(*stack, *capacity * sizeof(**stack));
    return true;
}

static void begin(struct out *o) {
    if (!mtf_proc_writer_begin(w, take, grow, o, NULL, 0) && o->refuse_at != 1)
        tap_bail("begin");
}

static bool end(void) {
    bool good = mtf_proc_writer_end(w, NULL, 0);
    free(w->stack);
    w->stack = NULL;
    return good;
}

/* --- Reading what was written --------------------------------------------- */

struct seen {
    uint64_t ops, records, blocks, problems, last_time;
    uint64_t kinds[MTF_OP_OTHER + 1];
    size_t text[8]; /* lengths of the first texts */
    unsigned texts;
    uint64_t accounts[MTF_PROC_ACCOUNT_LIMIT];
    uint32_t longest;
    struct seen_plain {
        struct mtf_op op;
        uint8_t bytes[16]; /* the first ones, of kinds with texts */
        size_t length;
    } plain[16];
    unsigned plains;
};

static struct mtf_proc_decoder *decoder;

/* Keeps a plain event, or one of an unknown kind. */
static void see_plain(struct seen *s, const struct mtf_proc_block *b,
                      const struct mtf_op *op) {
    bool known = mtf_plain_of_op(op->kind) != NULL;
    if ((!known && op->kind != MTF_OP_OTHER) ||
        s->plains == TCM_ARRAY_SIZE(s->plain))
        return;
    struct seen_plain *p = &s->plain[s->plains++];
    p->op = *op;
    if (known && !mtf_op_is_text(op->kind))
        return;
    const uint8_t *bytes = mtf_proc_bytes(b, op, &p->length);
    memcpy(p->bytes, bytes, p->length < 16 ? p->length : 16);
}

static void read_block(struct seen *s, const struct mtf_proc_block *b) {
    static struct mtf_op ops[512];
    size_t n;
    s->blocks++;
    s->records += b->head.records;
    if (b->head.length > s->longest)
        s->longest = b->head.length;
    mtf_proc_decode_begin(decoder, b);
    while ((n = mtf_proc_decode(decoder, ops, TCM_ARRAY_SIZE(ops))) != 0) {
        for (size_t i = 0; i < n; i++) {
            s->kinds[ops[i].kind]++;
            s->ops += ops[i].kind <= MTF_OP_LAST_OPERATION;
            if (ops[i].kind == MTF_OP_TIME)
                s->last_time = ops[i].size;
            see_plain(s, b, &ops[i]);
            size_t length;
            if (mtf_op_is_text(ops[i].kind) || ops[i].kind == MTF_OP_SAMPLE ||
                ops[i].kind == MTF_OP_THREAD_END) {
                mtf_proc_bytes(b, &ops[i], &length);
                if (s->texts < TCM_ARRAY_SIZE(s->text))
                    s->text[s->texts++] = length;
            }
        }
    }
    s->problems += decoder->problem != NULL;
}

static void read_all(struct seen *s, const struct out *o) {
    uint8_t *memory = malloc(MTF_PROC_READER_BYTES);
    struct mtf_proc_reader r;
    struct mtf_proc_item item;
    struct memory_source m;
    memset(s, 0, sizeof(*s));
    memory_source_init(&m, o->bytes, o->length, 0);
    mtf_proc_reader_init(&r, &m.source, memory);
    for (;;) {
        mtf_proc_reader_next(&r, &item);
        if (item.kind == MTF_PROC_ITEM_OPS) {
            read_block(s, &item.block);
        } else if (item.kind == MTF_PROC_ITEM_CLOSING) {
            for (unsigned i = 0; i < MTF_PROC_ACCOUNT_LIMIT; i++)
                mtf_proc_account(&item.block, i, &s->accounts[i]);
        } else if (item.kind != MTF_PROC_ITEM_HEADER) {
            s->problems += item.status != MTF_OK;
            break;
        }
    }
    free(memory);
}

/* --- Tests ---------------------------------------------------------------- */

static void test_empty(void) {
    struct out o = {.length = 0};
    struct seen s;
    begin(&o);
    mtf_proc_flush(w);
    tap_ok(end() && w->bytes == o.length, "a trace of nothing");
    read_all(&s, &o);
    tap_ok(s.problems == 0 && s.blocks == 0 && s.ops == 0, "has no blocks");
    free(o.bytes);
}

static void test_accounts(void) {
    struct out o = {.length = 0};
    struct seen s;
    struct mtf_proc_object a, b;
    begin(&o);
    mtf_proc_put_switch(w, 3);
    mtf_proc_put_switch(w, 3);
    mtf_proc_put_alloc(w, MTF_CALL_MALLOC, 10, &a);
    mtf_proc_put_switch(w, 4);
    mtf_proc_put_alloc(w, MTF_CALL_MALLOC, 10, &b);
    mtf_proc_flush(w);
    /* A switch to another thread and back, without an operation, does not
       count. */
    mtf_proc_put_switch(w, 5);
    mtf_proc_put_switch(w, 4);
    mtf_proc_put_free(w, MTF_CALL_FREE, &a);
    mtf_proc_put_text(w, MTF_PROC_MARK, "x", 1);
    mtf_proc_put_alloc(w, MTF_CALL_MALLOC, UINT64_MAX, &a);
    struct mtf_account_value own = {MTF_PROC_ACCOUNT_THREADS, 9};
    bool good = mtf_proc_writer_end(w, &own, 1);
    free(w->stack);
    read_all(&s, &o);
    tap_ok(good && s.problems == 0, "a small trace of two blocks");
    tap_is_u64(s.accounts[MTF_PROC_ACCOUNT_OPS], 4, "operations");
    tap_is_u64(s.accounts[MTF_PROC_ACCOUNT_RECORDS], 9, "records");
    tap_is_u64(s.accounts[MTF_PROC_ACCOUNT_BLOCKS], 2, "blocks");
    tap_is_u64(s.accounts[MTF_PROC_ACCOUNT_SLOTS], 2, "slots");
    tap_is_u64(s.accounts[MTF_PROC_ACCOUNT_SWITCHES], 1,
               "operations that another thread made than the one before");
    tap_is_u64(s.accounts[MTF_PROC_ACCOUNT_THREADS], 9, "the caller's own");
    tap_ok(a.slot == 0 && a.birth == 2 && b.slot == 1 && b.birth == 1,
           "what the caller was told of its objects");
    tap_is_u64(s.ops, 4, "and what was read");
    free(o.bytes);
}

/* Blocks end at their bound of records, or of bytes. */
static void test_full_blocks(void) {
    struct out o = {.length = 0};
    struct seen s;
    struct mtf_proc_object object;
    begin(&o);
    for (unsigned i = 0; i < MTF_PROC_BLOCK_RECORDS + 1; i++)
        mtf_proc_put_alloc(w, MTF_CALL_MALLOC, 8, &object);
    tap_ok(end(), "one record more than a block holds");
    read_all(&s, &o);
    tap_ok(s.problems == 0 && s.blocks == 2 &&
               s.ops == MTF_PROC_BLOCK_RECORDS + 1,
           "goes into a second block");
    free(o.bytes);

    static const uint8_t text[MTF_PROC_BYTES_MAX] = {1};
    struct out p = {.length = 0};
    begin(&p);
    for (unsigned i = 0; i < 100; i++)
        mtf_proc_put_text(w, MTF_PROC_MARK, text, sizeof(text));
    tap_ok(end(), "many long marks");
    read_all(&s, &p);
    tap_ok(s.problems == 0 && s.kinds[MTF_OP_MARK] == 100 && s.blocks > 5 &&
               s.longest <= MTF_PROC_PAYLOAD_MAX,
           "no payload is longer than it may be");
    free(p.bytes);
}

/* A block that takes only slots freed before it has the longest list of slots.
 */
static void test_many_taken(void) {
    enum { OBJECTS = 3 * MTF_PROC_BLOCK_RECORDS };
    struct mtf_proc_object *object = malloc(OBJECTS * sizeof(*object));
    struct out o = {.length = 0};
    struct seen s;
    struct prng random;
    begin(&o);
    for (unsigned i = 0; i < OBJECTS; i++)
        mtf_proc_put_alloc(w, MTF_CALL_MALLOC, 8, &object[i]);
    prng_seed(&random, 2);
    for (unsigned i = OBJECTS; i-- != 0;) {
        unsigned k = (unsigned)prng_below(&random, i + 1);
        mtf_proc_put_free(w, MTF_CALL_FREE, &object[k]);
        object[k] = object[i];
    }
    mtf_proc_flush(w);
    for (unsigned i = 0; i < OBJECTS; i++)
        mtf_proc_put_alloc(w, MTF_CALL_MALLOC, prng_next(&random) >> 18,
                           &object[i]);
    tap_ok(end(), "all slots are taken again, in any order");
    read_all(&s, &o);
    tap_ok(s.problems == 0 && s.ops == 3 * OBJECTS &&
               s.longest <= MTF_PROC_PAYLOAD_MAX &&
               s.accounts[MTF_PROC_ACCOUNT_SLOTS] == OBJECTS,
           "their lists fit the blocks: %u bytes", s.longest);
    free(object);
    free(o.bytes);
}

static void test_texts_and_times(void) {
    static const uint8_t text[20000] = {1};
    struct out o = {.length = 0};
    struct seen s;
    begin(&o);
    mtf_proc_put_text(w, MTF_PROC_MARK, text, sizeof(text));
    mtf_proc_put_text(w, MTF_PROC_MARK, NULL, 0);
    mtf_proc_put_thread_end(w, 1, text, sizeof(text));
    mtf_proc_put_sample(w, 5, text, sizeof(text));
    uint64_t far = (uint64_t)1 << 60;
    mtf_proc_put_time(w, 1000);
    mtf_proc_put_time(w, 999);
    mtf_proc_put_time(w, 1000);
    mtf_proc_put_time(w, 1000 + (MTF_VARINT_MAX >> 9) * 3 + 1);
    uint64_t time_ns = w->time_ns;
    tap_ok(end(), "written");
    read_all(&s, &o);
    tap_ok(s.problems == 0 && s.text[0] == MTF_PROC_BYTES_MAX &&
               s.text[1] == 0 && s.text[2] == MTF_PROC_BYTES_MAX - 4 &&
               s.text[3] <= MTF_PROC_BYTES_MAX && (s.text[3] - 8) % 10 == 0,
           "long texts are cut, samples between two fields");
    tap_ok(s.kinds[MTF_OP_TIME] == 2 && s.last_time == time_ns &&
               time_ns < far && time_ns == 1001 + (MTF_VARINT_MAX >> 9) * 3,
           "time does not go back, and a long step is one operation");
    free(o.bytes);
}

/* Kinds of the forms TEXT and PAIR need no code of their own, whether their
   number is one of records or of notes. */
static void test_plain(void) {
    struct out o = {.length = 0};
    struct seen s;
    const struct mtf_kind *k;
    begin(&o);
    for (size_t i = 0; (k = mtf_kind_at(i)) != NULL; i++) {
        if (mtf_plain_of_proc(k->proc) == NULL)
            continue;
        if (k->form == MTF_FORM_TEXT)
            mtf_proc_put_text(w, (enum mtf_proc_kind)k->proc, "a text", 6);
        else
            mtf_proc_put_pair(w, (enum mtf_proc_kind)k->proc, 255,
                              UINT64_MAX - i);
    }
    mtf_proc_put_text(w, (enum mtf_proc_kind)MTF_NOTE(200), "later", 5);
    mtf_proc_put_pair(w, (enum mtf_proc_kind)MTF_NOTE(201), 7, 258);
    tap_ok(end(), "plain events are written");
    read_all(&s, &o);
    unsigned n = 0;
    for (size_t i = 0; (k = mtf_kind_at(i)) != NULL; i++) {
        if (mtf_plain_of_proc(k->proc) == NULL)
            continue;
        const struct seen_plain *p = &s.plain[n++];
        tap_ok(p->op.kind == k->op &&
                   (k->form == MTF_FORM_TEXT
                        ? p->length == 6 && !memcmp(p->bytes, "a text", 6)
                        : p->op.slot == 255 && p->op.size == UINT64_MAX - i),
               "and read: %s", k->name);
    }
    const struct seen_plain *text = &s.plain[n], *pair = &s.plain[n + 1];
    tap_ok(s.problems == 0 && s.plains == n + 2, "nothing else is read");
    tap_ok(text->op.kind == MTF_OP_OTHER && text->op.slot == MTF_PROC_NOTE &&
               text->length == 6 && !memcmp(text->bytes, "\310later", 6) &&
               pair->op.kind == MTF_OP_OTHER && pair->length == 10 &&
               !memcmp(pair->bytes, "\311\7\2\1\0\0\0\0\0\0", 10),
           "notes of a later version are handed on with all their bytes");
    free(o.bytes);
}

static void write_some(void) {
    static struct mtf_proc_object object[64];
    for (unsigned i = 0; i < 64; i++)
        mtf_proc_put_alloc(w, MTF_CALL_MALLOC, i * 8, &object[i]);
    mtf_proc_flush(w);
    for (unsigned i = 0; i < 40; i++)
        mtf_proc_put_free(w, MTF_CALL_FREE, &object[i]);
    mtf_proc_flush(w);
    for (unsigned i = 0; i < 20; i++)
        mtf_proc_put_alloc(w, MTF_CALL_MALLOC, i * 8, &object[i]);
    mtf_proc_put_realloc(w, MTF_CALL_REALLOC, true, UINT64_MAX, &object[0]);
}

static void test_sink_refuses(void) {
    struct out whole = {.length = 0};
    begin(&whole);
    write_some();
    tap_ok(end(), "%u calls of the sink", whole.calls);
    bool told = true, quiet = true, prefix = true;
    for (unsigned at = 1; at <= whole.calls; at++) {
        struct out o = {.refuse_at = at};
        begin(&o);
        write_some();
        told &= !end() && w->failed && w->bytes == o.length;
        quiet &= o.late == 0;
        prefix &=
            o.length < whole.length &&
            (o.length == 0 || memcmp(o.bytes, whole.bytes, o.length) == 0);
        free(o.bytes);
    }
    tap_ok(told, "a refusal at any of them is told at the end");
    tap_ok(quiet, "the sink is not called again");
    tap_ok(prefix, "what came before is the start of the trace");
    free(whole.bytes);
}

static void test_stack(void) {
    struct out whole = {.length = 0};
    begin(&whole);
    write_some();
    end();
    bool told = true;
    for (unsigned at = 1; at <= whole.grows; at++) {
        for (unsigned lies = 0; lies < 2; lies++) {
            struct out o = {.grow_fails_at = at, .grow_lies = lies};
            begin(&o);
            write_some();
            told &= !end() && w->failed;
            free(o.bytes);
        }
    }
    tap_ok(whole.grows > 2 && told,
           "a stack that cannot grow is an error, %u times", whole.grows);
    free(whole.bytes);
}

static void test_slots_run_out(void) {
    struct out o = {.length = 0};
    struct mtf_proc_object object;
    begin(&o);
    w->slot_count = UINT32_MAX - MTF_PROC_BLOCK_RECORDS - 1;
    mtf_proc_put_alloc(w, MTF_CALL_MALLOC, 8, &object);
    tap_ok(!w->failed && object.slot == UINT32_MAX - MTF_PROC_BLOCK_RECORDS - 1,
           "the last slot that can have a number");
    mtf_proc_put_alloc(w, MTF_CALL_MALLOC, 8, &object);
    tap_ok(w->failed && !end(), "one more is an error");
    free(o.bytes);
}

int main(void) {
    w = malloc(sizeof(*w));
    decoder = malloc(sizeof(*decoder));
    test_empty();
    test_accounts();
    test_full_blocks();
    test_many_taken();
    test_texts_and_times();
    test_plain();
    test_sink_refuses();
    test_stack();
    test_slots_run_out();
    free(w);
    free(decoder);
    return tap_done();
}
