/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/replay_feeder.h"

#include "base/clock.h"
#include "cmd/replay/replay_slots.h"
#include "common/tool_input.h"
#include "common/tool_main.h"
#include "traceformat/proc_reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Operations decoded at once: they stay in the first-level cache. */
#define FEED_OPS 1024u
/* Operations between the prefetch of a slot's word and its use. */
#define FEED_AHEAD 12u
/* Inputs that are opened, and looked at, before anything is replayed. */
#define FEED_INPUTS 64
#define SLOTS_FIRST ((size_t)64 << 10)
/* No LZ4 block expands more. */
#define LZ4_RATIO 255u

struct feeder {
    /* the batch in work */
    struct replay_ring *ring;
    struct replay_batch *batch;
    uint64_t *at, *limit;

    /* blocks of the trace */
    uint64_t *slot;  /* see replay_slots.h */
    size_t capacity; /* entries of it */
    uint32_t used;   /* slots that were named so far, in all traces */
    uint32_t base;   /* number of this trace's slot 0 */
    uint64_t most;   /* slots this trace can have, by what was read of it */
    uint64_t live_bytes, live_objects, peak_bytes, requested_bytes;
    uint64_t ops, switches;

    /* threads */
    struct replay_threads threads;
    uint32_t thread;      /* of the records that follow */
    bool entered;         /* the cache of that thread is attached */
    uint32_t last_thread; /* of the last operation, 0 none */
    uint32_t index;       /* of the cache that is attached, 0 the replayer's */

    struct replay_result *result;
    const char *name;                   /* of the input */
    bool damaged;                       /* something of this input is lost */
    bool gave_up;                       /* result->status is TOOL_FAILED */
    uint64_t input_bytes, stored_bytes; /* of the inputs before */
    uint64_t first_ns, last_ns;

    struct mtf_op op[FEED_OPS + FEED_AHEAD];
    struct mtf_proc_reader reader;
    struct mtf_proc_decoder decoder;
    uint8_t memory[MTF_PROC_READER_BYTES];
};

/* --- What is told --------------------------------------------------------- */

static void feed_notice(struct feeder *f, const char *fmt, ...)
    TCM_PRINTF(2, 3);
static void feed_notice(struct feeder *f, const char *fmt, ...) {
    struct replay_result *r = f->result;
    if (r->notices < REPLAY_NOTICES) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(r->notice[r->notices], REPLAY_NOTICE_SIZE, fmt, ap);
        va_end(ap);
    }
    if (r->notices != UINT32_MAX)
        r->notices++;
}

/* The input lacks something; what is there is used. */
#define feed_damage(f, ...)                                                    \
    do {                                                                       \
        (f)->damaged = true;                                                   \
        if ((f)->result->status == TOOL_OK)                                    \
            (f)->result->status = TOOL_DAMAGED;                                \
        feed_notice((f), __VA_ARGS__);                                         \
    } while (0)

static void feed_fail(struct feeder *f, const char *fmt, ...) TCM_PRINTF(2, 3);
static void feed_fail(struct feeder *f, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->result->error, sizeof(f->result->error), fmt, ap);
    va_end(ap);
    f->result->status = TOOL_FAILED;
    f->gave_up = true;
}

/* --- Batches -------------------------------------------------------------- */

static void batch_begin(struct feeder *f) {
    f->batch = replay_ring_fill(f->ring);
    f->at = f->batch->word;
    f->limit = f->at + REPLAY_BATCH_WORDS - REPLAY_WORDS_MAX;
}

/* The account as of the batch in work; the taker may look at it whenever this
   process has ended. */
static void account(struct feeder *f) {
    struct replay_result *r = f->result;
    r->ops = f->ops;
    r->threads = f->threads.counted;
    r->thread_switches = f->switches;
    r->live_bytes = f->live_bytes;
    r->live_objects = f->live_objects;
    r->peak_live_bytes = f->peak_bytes;
    r->requested_bytes = f->requested_bytes;
    r->cpu_ns = tcm_clock_process_cpu_ns();
}

static void batch_end(struct feeder *f, bool last) {
    struct replay_batch *b = f->batch;
    b->words = (uint32_t)(f->at - b->word);
    b->slots = f->used;
    b->caches = f->threads.indices;
    b->last = last;
    /* What the taker prefetches behind the end. */
    memset(f->at, 0, REPLAY_BATCH_PAD * sizeof(*f->at));
    account(f);
    replay_ring_filled(f->ring);
}

static TCM_NOINLINE void batch_next(struct feeder *f) {
    batch_end(f, false);
    batch_begin(f);
}

static TCM_ALWAYS_INLINE void put(struct feeder *f, uint64_t w) {
    *f->at++ = w;
}

static void put_long(struct feeder *f, unsigned call, uint32_t slot,
                     uint64_t size, uint64_t old, unsigned align_log2,
                     bool is_new) {
    put(f, replay_word(REPLAY_LONG, slot, call));
    put(f, size);
    put(f, replay_long_word(old, align_log2, is_new));
}

/* --- Slots ---------------------------------------------------------------- */

/* Makes SLOT one that was named. False: no trace of the bytes read so far can
   have so many, or memory is out. */
static TCM_COLD bool slot_extend(struct feeder *f, uint64_t slot) {
    if (slot - f->base >= f->most || slot >= UINT32_MAX)
        return false;
    if (slot >= f->capacity) {
        size_t n = f->capacity * 2;
        while (n <= slot)
            n *= 2;
        void *p = mremap(f->slot, f->capacity * sizeof(*f->slot),
                         n * sizeof(*f->slot), MREMAP_MAYMOVE);
        if (p == MAP_FAILED)
            return false;
        f->slot = p;
        f->capacity = n;
    }
    f->used = (uint32_t)slot + 1;
    return true;
}

static TCM_ALWAYS_INLINE void live_add(struct feeder *f, uint64_t size) {
    f->live_bytes += size;
    if (f->live_bytes > f->peak_bytes)
        f->peak_bytes = f->live_bytes;
}

/* A block comes into SLOT. */
static TCM_ALWAYS_INLINE void block_born(struct feeder *f, uint32_t slot,
                                         uint64_t block) {
    if (TCM_UNLIKELY(replay_block_lives(f->slot[slot]))) {
        f->live_bytes -= replay_block_size(f->slot[slot]);
        f->live_objects--;
        f->result->lost_frees++;
        put(f, replay_word(REPLAY_FREE, slot, 0));
    }
    f->slot[slot] = block;
    f->live_objects++;
    f->requested_bytes += replay_block_size(block);
    live_add(f, replay_block_size(block));
}

/* The block of SLOT goes; 0 when it is not known. */
static TCM_ALWAYS_INLINE uint64_t block_gone(struct feeder *f, uint32_t slot) {
    uint64_t b = f->slot[slot];
    if (TCM_UNLIKELY(!replay_block_lives(b))) {
        f->result->unknown_blocks++;
        return 0;
    }
    f->slot[slot] = 0;
    f->live_bytes -= replay_block_size(b);
    f->live_objects--;
    return b;
}

/* --- Threads -------------------------------------------------------------- */

/* Before an operation of the current thread: its cache is attached. */
static TCM_NOINLINE bool thread_enter(struct feeder *f) {
    f->entered = true;
    if (f->thread == 0)
        return true;
    struct replay_thread *t = replay_threads_get(&f->threads, f->thread);
    if (t == NULL)
        return false;
    if (!t->counted) {
        t->counted = true;
        f->threads.counted++;
    }
    if (t->index == 0 && !replay_threads_index(&f->threads, t))
        return false;
    if (f->last_thread != 0 && f->last_thread != f->thread)
        f->switches++;
    f->last_thread = f->thread;
    if (t->index != f->index) {
        f->index = t->index;
        put(f, replay_word(REPLAY_SWITCH, t->index, 0));
    }
    return true;
}

static void thread_set(struct feeder *f, uint32_t thread) {
    if (thread != f->thread) {
        f->thread = thread;
        f->entered = false;
    }
}

static void thread_ended(struct feeder *f, uint32_t thread) {
    uint32_t index = replay_threads_remove(&f->threads, thread);
    if (index != 0)
        put(f, replay_word(REPLAY_THREAD_END, index, 0));
    if (thread == f->thread)
        f->entered = false;
}

/* --- Operations ----------------------------------------------------------- */

static void put_alloc(struct feeder *f, unsigned call, uint32_t slot,
                      uint64_t size, unsigned align_log2) {
    static const uint8_t code[MTF_CALL_LIMIT] = {
        [MTF_CALL_MALLOC] = REPLAY_MALLOC,
        [MTF_CALL_CALLOC] = REPLAY_CALLOC,
        [MTF_CALL_NEW] = REPLAY_NEW,
        [MTF_CALL_NEW_NOTHROW] = REPLAY_NEW,
        [MTF_CALL_NEW_ARRAY] = REPLAY_NEW_ARRAY,
        [MTF_CALL_NEW_ARRAY_NOTHROW] = REPLAY_NEW_ARRAY,
    };
    if (TCM_LIKELY(code[call] != 0 && size < REPLAY_SIZE_LIMIT))
        put(f, replay_word((enum replay_code)code[call], slot, size));
    else
        put_long(f, call, slot, size, 0, align_log2, false);
}

/* What a sized free of an allocator may trust must hold here too: the size is
   that of the call that made the block, and that call is of the same kind. A
   free for which this does not hold is made without it. */
static unsigned free_call_for(unsigned call, uint64_t block) {
    enum replay_family family = replay_block_family(block);
    bool aligned = replay_block_align_log2(block) != 0;
    switch (call) {
    case MTF_CALL_DELETE_SIZED:
        return family == REPLAY_FAMILY_NEW && !aligned ? call : MTF_CALL_DELETE;
    case MTF_CALL_DELETE_ARRAY_SIZED:
        return family == REPLAY_FAMILY_NEW && !aligned ? call
                                                       : MTF_CALL_DELETE_ARRAY;
    case MTF_CALL_DELETE_ALIGNED:
    case MTF_CALL_DELETE_ALIGNED_NOTHROW:
    case MTF_CALL_DELETE_SIZED_ALIGNED:
        return family == REPLAY_FAMILY_NEW && aligned ? call : MTF_CALL_DELETE;
    case MTF_CALL_DELETE_ARRAY_ALIGNED:
    case MTF_CALL_DELETE_ARRAY_ALIGNED_NOTHROW:
    case MTF_CALL_DELETE_ARRAY_SIZED_ALIGNED:
        return family == REPLAY_FAMILY_NEW && aligned ? call
                                                      : MTF_CALL_DELETE_ARRAY;
    case MTF_CALL_FREE_SIZED:
        return family == REPLAY_FAMILY_MALLOC ? call : MTF_CALL_FREE;
    case MTF_CALL_FREE_ALIGNED_SIZED:
        return family == REPLAY_FAMILY_MEMALIGN ? call : MTF_CALL_FREE;
    default:
        return call;
    }
}

static TCM_ALWAYS_INLINE void put_free(struct feeder *f, unsigned call,
                                       uint32_t slot, uint64_t block) {
    static const uint8_t code[MTF_CALL_LIMIT] = {
        [MTF_CALL_REALLOC] = REPLAY_FREE,
        [MTF_CALL_REALLOCARRAY] = REPLAY_FREE,
        [MTF_CALL_FREE] = REPLAY_FREE,
        [MTF_CALL_CFREE] = REPLAY_FREE,
        [MTF_CALL_DELETE] = REPLAY_DELETE,
        [MTF_CALL_DELETE_NOTHROW] = REPLAY_DELETE,
        [MTF_CALL_DELETE_ARRAY] = REPLAY_DELETE_ARRAY,
        [MTF_CALL_DELETE_ARRAY_NOTHROW] = REPLAY_DELETE_ARRAY,
        [MTF_CALL_DELETE_SIZED] = REPLAY_DELETE_SIZED,
        [MTF_CALL_DELETE_ARRAY_SIZED] = REPLAY_DELETE_ARRAY_SIZED,
        [MTF_CALL_FREE_SIZED] = REPLAY_FREE_SIZED,
    };
    uint64_t size = replay_block_size(block);
    if (TCM_UNLIKELY(call >= MTF_CALL_DELETE_SIZED))
        call = free_call_for(call, block);
    if (TCM_LIKELY(code[call] != 0 && size < REPLAY_SIZE_LIMIT))
        put(f, replay_word((enum replay_code)code[call], slot, size));
    else if (code[call] == REPLAY_FREE)
        put(f, replay_word(REPLAY_FREE, slot, 0));
    else
        put_long(f, call, slot, size, 0, replay_block_align_log2(block), false);
}

static void put_realloc(struct feeder *f, const struct mtf_op *op,
                        uint32_t slot) {
    uint64_t block = f->slot[slot];
    uint64_t next = replay_block(REPLAY_FAMILY_MALLOC, 0, op->size);
    uint64_t old = replay_block_size(block), size = replay_block_size(next);
    if (TCM_UNLIKELY(!replay_block_lives(block))) {
        f->result->unknown_blocks++;
        return;
    }
    f->slot[slot] = next;
    f->live_bytes -= old;
    f->requested_bytes += size;
    live_add(f, size);
    put_long(f, op->call, slot, size, old, 0, false);
}

static enum replay_family family_of(unsigned call) {
    if ((call >= MTF_CALL_NEW && call <= MTF_CALL_NEW_ARRAY_NOTHROW) ||
        (call >= MTF_CALL_NEW_ALIGNED &&
         call <= MTF_CALL_NEW_ARRAY_ALIGNED_NOTHROW))
        return REPLAY_FAMILY_NEW;
    return mtf_call_is_aligned_alloc(call) ? REPLAY_FAMILY_MEMALIGN
                                           : REPLAY_FAMILY_MALLOC;
}

static void feed_sample(struct feeder *f, const struct mtf_proc_block *b,
                        const struct mtf_op *op) {
    struct replay_result *r = f->result;
    size_t length;
    const uint8_t *p = mtf_proc_bytes(b, op, &length);
    for (size_t i = sizeof(uint64_t); i + 10 <= length; i += 10) {
        uint16_t field;
        uint64_t value;
        memcpy(&field, p + i, sizeof(field));
        memcpy(&value, p + i + sizeof(field), sizeof(value));
        if (field >= REPLAY_COUNTERS)
            continue;
        r->recorded[field] = value;
        r->recorded_known |= 1u << field;
    }
}

/* An operation that is not the commonest. False: it cannot be. */
static TCM_NOINLINE bool feed_rare(struct feeder *f,
                                   const struct mtf_proc_block *b,
                                   const struct mtf_op *op) {
    switch (op->kind) {
    case MTF_OP_SWITCH:
        thread_set(f, op->slot);
        return true;
    case MTF_OP_THREAD_END:
        thread_ended(f, op->slot);
        return true;
    case MTF_OP_TIME:
        if (f->first_ns == 0)
            f->first_ns = op->size;
        f->last_ns = op->size;
        return true;
    case MTF_OP_FAILED:
        f->result->recorded_failures++;
        return true;
    case MTF_OP_SAMPLE:
        feed_sample(f, b, op);
        return true;
    default:
        return true;
    }
}

/* One of those that are counted. False: its slot cannot be. */
static TCM_ALWAYS_INLINE bool feed_operation(struct feeder *f,
                                             const struct mtf_op *op) {
    uint64_t wide = (uint64_t)f->base + op->slot;
    if (TCM_UNLIKELY(wide >= f->used) && !slot_extend(f, wide))
        return false;
    uint32_t slot = (uint32_t)wide;
    if (TCM_UNLIKELY(!f->entered) && !thread_enter(f))
        return false;
    uint64_t block;
    switch (op->kind) {
    case MTF_OP_ALLOC:
    case MTF_OP_ALIGNED:
        block = replay_block(family_of(op->call), op->align_log2, op->size);
        block_born(f, slot, block);
        put_alloc(f, op->call, slot, replay_block_size(block), op->align_log2);
        break;
    case MTF_OP_FREE:
    case MTF_OP_REALLOC_END:
    case MTF_OP_FREE_SIZE:
        block = block_gone(f, slot);
        if (TCM_LIKELY(block != 0))
            put_free(f, op->call, slot, block);
        break;
    case MTF_OP_REALLOC:
        put_realloc(f, op, slot);
        break;
    case MTF_OP_REALLOC_NEW:
        block = replay_block(REPLAY_FAMILY_MALLOC, 0, op->size);
        block_born(f, slot, block);
        put_long(f, op->call, slot, replay_block_size(block), 0, 0, true);
        break;
    }
    return true;
}

/* --- Blocks and inputs ---------------------------------------------------- */

/* N operations of block B. False: the rest of the block is of no use. */
static bool feed_ops(struct feeder *f, const struct mtf_proc_block *b,
                     size_t n) {
    uint64_t operations = 0;
    bool good = true;
    for (size_t i = 0; i < n && good; i++) {
        const struct mtf_op *op = &f->op[i];
        __builtin_prefetch(&f->slot[f->base + op[FEED_AHEAD].slot], 1);
        if (TCM_UNLIKELY(f->at > f->limit))
            batch_next(f);
        if (TCM_LIKELY(op->kind <= MTF_OP_LAST_OPERATION)) {
            good = feed_operation(f, op);
            operations += good;
        } else {
            good = feed_rare(f, b, op);
        }
    }
    f->ops += operations;
    return good;
}

static void feed_block(struct feeder *f, struct tool_input *in,
                       const struct mtf_proc_block *b) {
    struct mtf_proc_decoder *d = &f->decoder;
    /* Every slot came with an allocation, which is a byte or more. */
    f->most = tool_input_bytes(in);
    if (f->damaged)
        f->most =
            tcm_min_u64(b->head.first_op + b->head.ops,
                        f->most + tool_input_stored_bytes(in) * LZ4_RATIO);
    if (f->first_ns == 0)
        f->first_ns = b->head.time_ns;
    mtf_proc_decode_begin(d, b);
    thread_set(f, b->head.thread);
    for (;;) {
        size_t n = mtf_proc_decode(d, f->op, FEED_OPS);
        if (n == 0)
            break;
        if (!feed_ops(f, b, n)) {
            feed_damage(f,
                        "%s: offset %llu: block with impossible slots, "
                        "the rest of it is left out",
                        f->name, (unsigned long long)b->offset);
            return;
        }
    }
    f->last_ns = d->time_ns;
    if (d->problem != NULL)
        feed_damage(f, "%s: offset %llu: %s, the rest of the block is left out",
                    f->name, (unsigned long long)b->offset, d->problem);
}

static void feed_closing(struct feeder *f, const struct mtf_proc_block *b) {
    uint64_t v;
    if (mtf_proc_account(b, MTF_PROC_ACCOUNT_GROWING, &v) && v != 0)
        feed_damage(f,
                    "%s: the recording was still going on when it was "
                    "postprocessed",
                    f->name);
    else if (mtf_proc_account(b, MTF_PROC_ACCOUNT_COMPLETE, &v) && v == 0)
        feed_damage(f,
                    "%s: the recording lacks something, as postprocess "
                    "said",
                    f->name);
}

static void feed_header(struct feeder *f, const struct mtf_proc_part *part) {
    static struct mtf_raw_info info;
    if (mtf_raw_parse_header(part->raw_header, part->header.raw_length,
                             &info) == MTF_OK)
        memcpy(f->result->executable, info.executable,
               sizeof(f->result->executable));
}

/* More bytes for the reader. False: given up. */
static bool feed_bytes(struct feeder *f, struct tool_input *in) {
    size_t room, got;
    uint8_t *p = mtf_proc_reader_room(&f->reader, &room);
    struct mtf_source *source = tool_input_source(in);
    switch (tool_input_read(in, p, room, &got)) {
    case MTF_SOURCE_DATA:
        mtf_proc_reader_filled(&f->reader, got);
        return true;
    case MTF_SOURCE_BREAK:
        feed_damage(f,
                    "%s: offset %llu: LZ4 frame %s, %llu stored bytes are "
                    "without use",
                    f->name, (unsigned long long)source->break_offset,
                    mtf_status_text(source->status),
                    (unsigned long long)source->break_skipped);
        return true;
    case MTF_SOURCE_END:
        mtf_proc_reader_eof(&f->reader);
        return true;
    case MTF_SOURCE_ERROR:
        break;
    }
    enum mtf_status status = tool_input_status(in);
    feed_fail(f, "%s: offset %llu: %s", f->name,
              (unsigned long long)tool_input_stored_bytes(in),
              status == MTF_SYSTEM ? strerror(source->error)
                                   : mtf_status_text(status));
    return false;
}

static void feed_input(struct feeder *f, struct tool_input *in) {
    struct mtf_proc_part part;
    mtf_proc_reader_init(&f->reader, f->memory, sizeof(f->memory));
    f->base = f->used;
    f->thread = f->last_thread = 0;
    f->entered = false;
    f->damaged = false;
    f->first_ns = f->last_ns = 0;
    for (;;) {
        switch (mtf_proc_reader_next(&f->reader, &part)) {
        case MTF_PROC_MORE:
            if (!feed_bytes(f, in))
                return;
            break;
        case MTF_PROC_HEADER:
            feed_header(f, &part);
            break;
        case MTF_PROC_OPS:
            feed_block(f, in, &part.block);
            break;
        case MTF_PROC_CLOSING:
            feed_closing(f, &part.block);
            break;
        case MTF_PROC_DAMAGE:
            f->result->damaged_places++;
            feed_damage(f, "%s: offset %llu: %s, %llu bytes are left out",
                        f->name, (unsigned long long)part.offset, part.problem,
                        (unsigned long long)part.skipped);
            break;
        case MTF_PROC_FOREIGN:
            feed_fail(f, "%s: offset %llu: %s", f->name,
                      (unsigned long long)part.offset, part.problem);
            return;
        case MTF_PROC_END:
            if (part.problem != NULL && !f->damaged)
                feed_damage(f, "%s: offset %llu: %s", f->name,
                            (unsigned long long)part.offset, part.problem);
            return;
        }
    }
}

/* Opens NAME and looks at its first bytes. NULL: given up. */
static struct tool_input *feed_open(struct feeder *f, const char *name) {
    uint8_t first[8];
    struct tool_input *in = tool_input_open(name);
    if (in == NULL) {
        feed_fail(f, "cannot open %s: %s", name ? name : "standard input",
                  strerror(errno));
        return NULL;
    }
    size_t n = tool_input_peek(in, first);
    enum mtf_status status = tool_input_status(in);
    const char *problem = NULL;
    if (n == sizeof(first)) {
        if (memcmp(first, MTF_PROC_MAGIC, n) == 0)
            return in;
        if (memcmp(first, MTF_RAW_MAGIC, n) == 0)
            problem = "is a raw trace, not a processed one (postprocess makes "
                      "one)";
        else if (memcmp(first, MTF_SPOOL_MAGIC, n) == 0)
            problem = mtf_status_text(MTF_IS_SPOOL);
        else
            problem = "is no processed trace";
    } else if (status == MTF_SYSTEM) {
        problem = strerror(tool_input_source(in)->error);
    } else if (status != MTF_OK) {
        problem = mtf_status_text(status);
    } else if (n == 0 && !tool_input_is_compressed(in)) {
        problem = "is empty";
    } else {
        problem = "is no processed trace";
    }
    feed_fail(f, "%s: offset 0: %s", tool_input_name(in), problem);
    tool_input_close(in);
    return NULL;
}

static void feed_all(struct feeder *f, char *const *name, int count) {
    static struct tool_input *input[FEED_INPUTS];
    static char *standard_input[] = {NULL};
    if (count == 0) {
        name = standard_input;
        count = 1;
    }
    for (int i = 0; i < count && i < FEED_INPUTS; i++) {
        input[i] = feed_open(f, name[i]);
        if (input[i] == NULL)
            return;
    }
    for (int i = 0; i < count && !f->gave_up; i++) {
        struct tool_input *in =
            i < FEED_INPUTS ? input[i] : feed_open(f, name[i]);
        if (in == NULL)
            return;
        f->name = tool_input_name(in);
        feed_input(f, in);
        f->result->input_bytes += tool_input_bytes(in);
        f->result->stored_bytes += tool_input_stored_bytes(in);
        if (f->last_ns > f->first_ns)
            f->result->recorded_ns += f->last_ns - f->first_ns;
        tool_input_close(in);
        replay_threads_forget(&f->threads);
    }
}

void replay_feed(struct replay_ring *ring, char *const *name, int count) {
    static struct feeder f;
    void *slots =
        mmap(NULL, SLOTS_FIRST * sizeof(uint64_t), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    f.ring = ring;
    f.result = &ring->result;
    batch_begin(&f);
    if (slots == MAP_FAILED) {
        feed_fail(&f, "out of memory");
    } else {
        f.slot = slots;
        f.capacity = SLOTS_FIRST;
        feed_all(&f, name, count);
        munmap(f.slot, f.capacity * sizeof(*f.slot));
    }
    batch_end(&f, true);
    replay_threads_fini(&f.threads);
}
