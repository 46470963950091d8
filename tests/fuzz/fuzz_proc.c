/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a processed trace: in pieces of two sizes, which must make no
 * difference, through its index, and, past the checksums that no changed byte
 * would survive, as the head and payload of one block. What is held against it
 * (tool_check.h) comes to an end, and what replay makes of it frees each block
 * once, whatever it says.
 */
#include "cmd/replay/feed/translate.h"
#include "memory_source.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_repair.h"
#include "trace/trace_check.h"
#include "traceformat/proc_reader.h"
#include "traceformat/trace_event.h"

#include <stdlib.h>
#include <string.h>

const struct fuzz_target fuzz_target = {.corpus = "proc"};

struct sum {
    uint64_t ops, parts, damages, skipped, hash, told;
    bool foreign;
};

/* --- What replay executes ------------------------------------------------- */

static struct replay_translate translate;
static struct replay_ring *ring;
static uint8_t *filled; /* by slot: it holds a block */
static size_t slots;

static void fill(uint32_t slot, bool with) {
    FUZZ_CHECK(slot < slots && filled[slot] != with);
    filled[slot] = with;
}

static void execute_long(const uint64_t *w) {
    unsigned call = (unsigned)replay_word_size(w[0]);
    uint32_t slot = replay_word_slot(w[0]);
    if (!mtf_call_is_realloc(call) || replay_long_is_new(w[2]))
        fill(slot, !mtf_call_is_free(call));
    else
        FUZZ_CHECK(slot < slots && filled[slot]);
}

static void execute(const struct replay_batch *b) {
    if (b->slots > slots) {
        filled = realloc(filled, b->slots);
        FUZZ_CHECK(filled != NULL);
        memset(filled + slots, 0, b->slots - slots);
        slots = b->slots;
    }
    for (const uint64_t *w = b->word, *end = w + b->words; w < end; w++) {
        switch (replay_word_code(*w)) {
        case REPLAY_MALLOC:
        case REPLAY_CALLOC:
        case REPLAY_NEW:
        case REPLAY_NEW_ARRAY:
            fill(replay_word_slot(*w), true);
            break;
        case REPLAY_SWITCH:
        case REPLAY_THREAD_END:
            FUZZ_CHECK(replay_word_slot(*w) < b->caches);
            break;
        case REPLAY_TRIM:
            w += REPLAY_TRIM_WORDS - 1;
            break;
        case REPLAY_PRESENT:
            FUZZ_CHECK(replay_word_code(w[1]) == REPLAY_LONG);
            break;
        case REPLAY_LONG:
            execute_long(w);
            w += REPLAY_LONG_WORDS - 1;
            break;
        default:
            fill(replay_word_slot(*w), false);
        }
    }
}

static void execute_all(void) {
    while (ring->filled != ring->taken) {
        execute(replay_ring_place(ring, ring->taken));
        replay_ring_taken(ring);
    }
}

static void replay_begin(struct tool_check *check) {
    if (ring == NULL)
        ring =
            replay_ring_new(REPLAY_BATCHES_MOST, REPLAY_BATCHES_MOST / 2, NULL);
    FUZZ_CHECK(ring != NULL && replay_translate_init(&translate, ring, NULL));
    slots = 0;
    replay_translate_trace(&translate);
    translate.check = check;
    translate.use_present = true;
}

/* A batch ends where live bytes have grown, so there can be as many as
   operations: all that are translated at once have to fit into the ring, which
   nobody else empties. */
enum { AT_ONCE = REPLAY_BATCHES_MOST / 4 };

static void replay_block(const struct mtf_proc_block *b, size_t bytes) {
    static struct mtf_proc_decoder d;
    static struct mtf_op ops[AT_ONCE + TOOL_OPS_AHEAD];
    size_t n;
    translate.most = bytes;
    mtf_proc_decode_begin(&d, b);
    replay_translate_thread(&translate, b->head.thread);
    while ((n = mtf_proc_decode(&d, ops, AT_ONCE)) != 0) {
        bool good = replay_translate_ops(&translate, b, ops, n);
        execute_all();
        if (!good)
            return;
    }
}

static void replay_end(void) {
    replay_translate_end(&translate);
    execute_all();
}

/* --- Reading -------------------------------------------------------------- */

static void count_told(void *ctx, uint64_t offset, const char *text) {
    struct sum *s = ctx;
    (void)offset;
    FUZZ_CHECK(text[0] != '\0');
    s->told++;
}

static void check_op(const struct mtf_proc_decoder *d,
                     const struct mtf_proc_block *b, const struct mtf_op *op) {
    size_t n;
    const uint8_t *p;
    switch (op->kind) {
    case MTF_OP_ALLOC:
        FUZZ_CHECK(mtf_call_is_plain_alloc(op->call));
        break;
    case MTF_OP_ALIGNED:
        FUZZ_CHECK(mtf_call_is_aligned_alloc(op->call) && op->align_log2 < 64);
        break;
    case MTF_OP_REALLOC:
    case MTF_OP_REALLOC_NEW:
    case MTF_OP_REALLOC_END:
        FUZZ_CHECK(mtf_call_is_realloc(op->call));
        break;
    case MTF_OP_FREE:
    case MTF_OP_FREE_SIZE:
        FUZZ_CHECK(mtf_call_is_free(op->call));
        break;
    case MTF_OP_THREAD_END:
    case MTF_OP_SAMPLE:
    case MTF_OP_LOSS:
    case MTF_OP_SITE_DEF:
    case MTF_OP_OTHER:
        p = mtf_proc_bytes(b, op, &n);
        FUZZ_CHECK(p >= b->payload && n <= b->head.length &&
                   p + n <= b->payload + b->head.length);
        break;
    default:
        FUZZ_CHECK(op->kind > MTF_OP_LAST_OPERATION &&
                   op->kind <= MTF_OP_OTHER);
        if (mtf_op_is_text(op->kind)) {
            p = mtf_proc_bytes(b, op, &n);
            FUZZ_CHECK(p >= b->payload && n <= b->head.length &&
                       p + n <= b->payload + b->head.length);
        }
    }
    if (op->kind <= MTF_OP_LAST_OPERATION)
        FUZZ_CHECK(op->slot < d->slot_count);
}

/* Decodes BATCH operations at a time; *HASH depends on all of them. */
static uint64_t decode(const struct mtf_proc_block *b, size_t batch,
                       uint64_t *hash, struct tool_check *check) {
    static struct mtf_proc_decoder d;
    static struct mtf_op ops[4096];
    uint64_t count = 0;
    size_t n;
    mtf_proc_decode_begin(&d, b);
    if (check != NULL)
        tool_check_block(check, b, &d);
    while ((n = mtf_proc_decode(&d, ops, batch)) != 0) {
        count += n;
        FUZZ_CHECK(count <= MTF_PROC_BLOCK_RECORDS);
        for (size_t i = 0; i < n; i++) {
            check_op(&d, b, &ops[i]);
            *hash = (*hash ^ ops[i].slot ^ (uint64_t)ops[i].kind << 32) *
                        0x100000001B3u +
                    ops[i].size;
        }
    }
    FUZZ_CHECK(mtf_proc_decode(&d, ops, batch) == 0);
    if (check != NULL)
        tool_check_decoded(check, b, &d);
    return count;
}

static void read_trace(const uint8_t *data, size_t size, size_t piece,
                       size_t batch, struct sum *s) {
    static uint8_t memory[MTF_PROC_READER_BYTES];
    static struct tool_check check;
    const struct tool_check_sums sums = {0};
    struct memory_source m;
    struct mtf_proc_reader r;
    struct mtf_proc_item item;
    memset(s, 0, sizeof(*s));
    memory_source_init(&m, data, size, piece);
    mtf_proc_reader_init(&r, &m.source, memory);
    r.index_too = true;
    tool_check_init(&check, count_told, s);
    replay_begin(&check);
    do {
        FUZZ_CHECK(++s->parts <= 4 * (uint64_t)size + 16);
        mtf_proc_reader_next(&r, &item);
        switch (item.kind) {
        case MTF_PROC_ITEM_HEADER:
            FUZZ_CHECK(item.header.raw_length <= MTF_PROC_HEADER_MAX);
            break;
        case MTF_PROC_ITEM_OPS:
            s->ops += decode(&item.block, batch, &s->hash, &check);
            replay_block(&item.block, size);
            break;
        case MTF_PROC_ITEM_INDEX:
            tool_check_index(&check, &item.block);
            break;
        case MTF_PROC_ITEM_CLOSING:
            tool_check_closing(&check, &item.block, &sums);
            break;
        case MTF_PROC_ITEM_DAMAGE:
            tool_check_lost(&check);
            s->damages++;
            s->skipped += item.skipped;
            break;
        case MTF_PROC_ITEM_FAILED:
            s->foreign = true;
            break;
        case MTF_PROC_ITEM_END:
            break;
        }
        FUZZ_CHECK((item.status == MTF_OK) == (item.problem == NULL));
    } while (item.kind != MTF_PROC_ITEM_END &&
             item.kind != MTF_PROC_ITEM_FAILED);
    tool_check_fini(&check);
    replay_end();
    FUZZ_CHECK(s->skipped <= size);
}

struct view {
    const uint8_t *data;
    size_t size;
};

static size_t read_at(void *ctx, uint64_t offset, void *data, size_t n) {
    const struct view *v = ctx;
    if (offset >= v->size)
        return 0;
    n = n < v->size - offset ? n : v->size - (size_t)offset;
    memcpy(data, v->data + offset, n);
    return n;
}

static void find_in_index(const uint8_t *data, size_t size) {
    static uint8_t memory[MTF_PROC_INDEX_MEMORY];
    struct view v = {data, size};
    struct mtf_proc_index_entry e;
    for (uint64_t wanted = 1; wanted <= 4 * (uint64_t)size; wanted *= 2)
        if (mtf_proc_index_find(read_at, &v, size, memory, wanted, &e))
            FUZZ_CHECK(e.offset <= wanted && e.offset < size);
}

/* Head and payload of one block, with what the reader would have checked put
   right. */
static void read_block(const uint8_t *data, size_t size) {
    static uint8_t payload[MTF_PROC_PAYLOAD_MAX + 16];
    struct mtf_proc_block b = {.payload = payload};
    if (size < sizeof(b.head) || size > MTF_PROC_PAYLOAD_MAX)
        return;
    memcpy(&b.head, data, sizeof(b.head));
    b.head.length = (uint32_t)(size - sizeof(b.head));
    memcpy(payload, data + sizeof(b.head), b.head.length);
    memset(payload + b.head.length, 0xFF, 16);
    uint64_t one = 0, other = 0;
    FUZZ_CHECK(decode(&b, 4096, &one, NULL) == decode(&b, 3, &other, NULL));
    FUZZ_CHECK(one == other);
    replay_begin(NULL);
    replay_block(&b, size);
    replay_end();
}

static void run(const uint8_t *data, size_t size) {
    struct sum whole, pieces;
    read_trace(data, size, SIZE_MAX, 4096, &whole);
    read_trace(data, size, 5, 3, &pieces);
    FUZZ_CHECK(memcmp(&whole, &pieces, sizeof(whole)) == 0);
    find_in_index(data, size);
    read_block(data, size);
    if (size > 40)
        read_block(data + 40, size - 40); /* the first block of a trace
                                             without raw header */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_both(data, size, run);
    return 0;
}
