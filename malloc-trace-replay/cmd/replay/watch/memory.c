/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observer of what lies on resident pages, for --memory.
 *
 * While batches pass, size, site, thread and birth of each block are noted. At
 * a moment, the live blocks are sorted by address and compared with the pages
 * that are resident (memory_account.h): in full at the operations of
 * --memory-at and at the end, with the blocks that hold free bytes, and a map;
 * in sums only for the curve. The time that sums take is bounded (EAGER_NS,
 * SHORT_SHARE, PAUSE_SHARE), that of full accounts is not; neither is in the
 * measured time.
 *
 * On one thread, a block is noted at the end of its batch, unless its slot was
 * taken again before; on several threads, at moments. A page whose blocks were
 * never noted counts as never used.
 *
 * Invariants: an account allocates nothing. Memory: 16 bytes a slot, and 16 a
 * live block.
 */
#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_thread.h"
#include "cmd/replay/feed/op.h"
#include "cmd/replay/replay_options.h"
#include "cmd/replay/run/exec.h"
#include "cmd/replay/run/own_memory.h"
#include "cmd/replay/watch/lasting.h"
#include "cmd/replay/watch/measure.h"
#include "cmd/replay/watch/memory_account.h"
#include "cmd/replay/watch/memory_pages.h"
#include "cmd/replay/watch/observer.h"
#include "common/json.h"
#include "common/main.h"
#include "model/memory_curve.h"
#include "traceformat/trace_event.h"

#include <string.h>

/* Facts of the block in a slot or cell: 16 bytes, as each operation needs those
   of another block. */
struct memory_fact {
    uint64_t size : 38;   /* saturated */
    uint64_t thread : 22; /* saturated */
    /* 1: there is a block, 0: none. Between moments, births less ends, modulo
       16: these are not in order when threads run apart. */
    uint64_t live : 4;
    uint32_t site, birth; /* birth in units of recorded time, from 0 */
};
TCM_STATIC_ASSERT(sizeof(struct memory_fact) == 16, "memory a slot");
#define FACT_SIZE_MOST   (((uint64_t)1 << 38) - 1)
#define FACT_THREAD_MOST ((1u << 22) - 1)
#define FACT_ENTRIES     (sizeof(struct memory_fact) / 8)

/* Unit of recorded time: 32 bits are 13 days. */
#define UNIT_NS ((uint64_t)1 << 18)

/* Processor time between two looks in short, and recorded time in a pause, as a
   multiple of the time that the last one took. */
#define SHORT_SHARE 19u
#define PAUSE_SHARE 2u
/* Looks that take no more than this in all need not wait. They are made when
   the trace has grown by one of GROWN_PARTS since the last one. */
#define EAGER_NS    ((uint64_t)250000000)
#define GROWN_PARTS 16u
#define POINTS      512u
/* The most waste is that which lasts for this part of the trace. */
#define LASTING_PARTS 100u
#define LONG_PARTS    10
#define PEAK_PARTS    32u
/* Cells of a map that show single pages. */
#define CELLS_SHOWN 4096u
/* Words, and blocks, from the prefetch of a fact to its use. */
#define FACTS_AHEAD  16u
#define BLOCKS_AHEAD 16u
/* On threads of their own: parts of the operations so far between two glances,
   and the least of operations, as all threads stop for each; and parts if live
   bytes have changed by one of GROWN_PARTS of the most, and these bytes. */
#define APART_PARTS   32u
#define APART_OPS     4096u
#define CHANGED_PARTS 512u
#define CHANGED_LEAST 65536u

struct memory_watch {
    struct tool_json json;
    bool failed;   /* the file could not be opened */
    bool in_short; /* --memory-at=short: */
    bool has_sites;
    const struct replay_options *options;
    struct replay_exec *exec;
    struct replay_rss *rss;
    struct memory_pages pages;
    struct memory_history history;
    struct memory_account account;
    struct memory_account_rows rows;
    struct replay_table facts;
    struct memory_block *block; /* of the last look */
    size_t block_bytes;
    /* The state of the words between batches. */
    uint32_t thread, site;
    uint64_t done_ops;  /* operations that the facts cover */
    uint64_t before_ns; /* recorded time at the end of the last batch */
    uint64_t now_ns;    /* that of the last moment, which never goes back: one
                           within a pause may be later than the batch behind */
    size_t next_stop;
    /* At the last glance, and the most so far. */
    uint64_t looked_ops, looked_bytes, most_bytes;
    struct {
        uint64_t rss_bytes; /* most */
        uint64_t operation, at_rss_bytes, live_bytes;
    } peak;
    struct lasting waste; /* bytes that are resident and not alive */
    struct memory_point point[POINTS];
    size_t points;
    uint64_t step_ops; /* least distance of points */
    /* No look in short before this processor time of the process; in a pause,
       before this recorded time. */
    uint64_t next_ns, next_pause_ns;
    uint64_t looks, look_ns, start_ns;
    uint64_t map_cells;
    bool is_known; /* the last walk saw all pages */
    struct memory_account_row row[MEMORY_ROWS];
};
#define WATCH_BYTES tcm_align_up(sizeof(struct memory_watch), 65536)

static struct memory_fact *fact_of(const struct memory_watch *m, size_t slot) {
    struct memory_fact *facts = m->facts.memory;
    return &facts[slot];
}

/* Block in SLOT; NULL: none, or it was refused. */
static void *block_at(const struct memory_watch *m, size_t slot) {
    const struct replay_exec *x = m->exec;
    return x->cell != NULL ? replay_cell_block(&x->cell[slot]) : x->slot[slot];
}

/* --- Begin ---------------------------------------------------------------- */

/* Takes memory for the history while the replay runs. */
static void *take_memory(void *ctx, size_t bytes) {
    struct memory_watch *m = ctx;
    bytes = tcm_align_up(bytes, tcm_os_page_size());
    replay_rss_before_own(m->rss);
    void *p = replay_own_map(bytes);
    if (p != NULL)
        memset(p, 0, bytes);
    replay_rss_after_observer(m->rss, p != NULL ? bytes : 0);
    return p;
}

static bool history_begin(struct memory_watch *m) {
    struct memory_history *h = &m->history;
    h->page_shift = tcm_log2_floor(tcm_os_page_size());
    h->take = take_memory;
    h->ctx = m;
    size_t bytes = memory_history_directory_bytes(h);
    h->leaf = replay_own_map(bytes);
    if (h->leaf == NULL)
        return false;
    (void)tcm_os_no_huge_pages(h->leaf, bytes);
    return true;
}

static bool memory_begin(struct replay_watch *w, void **state) {
    const struct replay_options *o = w->options;
    if (o->memory == NULL)
        return true;
    struct memory_watch *m = replay_own_map(WATCH_BYTES);
    if (m == NULL)
        return false;
    memset(m, 0, WATCH_BYTES);
    w->bytes += WATCH_BYTES;
    m->options = o;
    m->exec = w->exec;
    m->rss = w->rss;
    m->in_short = o->memory_in_short;
    m->rows.row = m->row;
    *state = m;
    memory_pages_open(&m->pages, (enum memory_residency)o->residency);
    replay_own_note_program();
    if (!history_begin(m))
        return false;
    m->failed = !tool_json_open(&m->json, o->memory);
    if (m->failed)
        return true;
    tool_json_begin_object(&m->json, NULL);
    tool_json_string(&m->json, "format", "replay-memory");
    tool_json_u64(&m->json, "version", 1);
    tool_json_begin_array(&m->json, "moments");
    return true;
}

static void memory_start(struct replay_watch *w, void *state) {
    struct memory_watch *m = state;
    (void)w;
    m->start_ns = tcm_clock_ns();
}

/* --- Facts ---------------------------------------------------------------- */

static uint32_t unit_of(uint64_t recorded_ns) {
    return (uint32_t)tcm_min_u64(recorded_ns / UNIT_NS, UINT32_MAX - 1);
}

/* Words of one thread, or of one after the other. */
struct memory_words {
    const uint64_t *first, *end;
    uint32_t thread, site;
    uint32_t into;            /* 1 + cell of the next realloc's block */
    uint64_t from_ns, for_ns; /* recorded time of the first word, and of all */
};

static uint32_t thread_of(uint64_t id) {
    return (uint32_t)tcm_min_u64(id, FACT_THREAD_MOST);
}

static void block_born(struct memory_watch *m, const struct memory_words *s,
                       const uint64_t *at, uint32_t slot, uint64_t size) {
    struct memory_fact *f = fact_of(m, slot);
    uint64_t words = (uint64_t)(s->end - s->first);
    uint64_t part = (uint64_t)(at - s->first);
    f->size = tcm_min_u64(size, FACT_SIZE_MOST) & FACT_SIZE_MOST;
    f->site = s->site;
    f->thread = s->thread & FACT_THREAD_MOST;
    f->birth = unit_of(s->from_ns + s->for_ns / words * part);
    f->live++;
    if (m->exec->slot == NULL)
        return;
    /* The batch has run: the slot has its last block. */
    uintptr_t p = (uintptr_t)m->exec->slot[slot];
    if (p != 0)
        memory_history_block(&m->history, p, size, f->birth + 1);
}

static void block_gone(struct memory_watch *m, uint32_t slot) {
    fact_of(m, slot)->live--;
}

static void take_long(struct memory_watch *m, struct memory_words *s,
                      const uint64_t *at) {
    unsigned call = (unsigned)replay_word_size(at[0]);
    uint32_t slot = replay_word_slot(at[0]);
    if (mtf_call_is_free(call)) {
        block_gone(m, slot);
        return;
    }
    bool is_realloc = mtf_call_is_realloc(call) && !replay_long_is_new(at[2]);
    if (is_realloc)
        block_gone(m, slot);
    if (is_realloc && s->into != 0)
        slot = s->into - 1;
    s->into = 0;
    block_born(m, s, at, slot, at[1]);
}

/* Takes the word at AT; returns the next one's place. */
static const uint64_t *take_word(struct memory_watch *m, struct memory_words *s,
                                 const uint64_t *at) {
    uint64_t w = *at;
    switch (replay_word_code(w)) {
    case REPLAY_MALLOC:
    case REPLAY_CALLOC:
    case REPLAY_NEW:
    case REPLAY_NEW_ARRAY:
        block_born(m, s, at, replay_word_slot(w), replay_word_size(w));
        break;
    case REPLAY_FREE:
    case REPLAY_DELETE:
    case REPLAY_DELETE_ARRAY:
    case REPLAY_DELETE_SIZED:
    case REPLAY_DELETE_ARRAY_SIZED:
    case REPLAY_FREE_SIZED:
        block_gone(m, replay_word_slot(w));
        break;
    case REPLAY_SWITCH:
        s->thread = thread_of(replay_word_size(w));
        break;
    case REPLAY_TRIM:
        return at + REPLAY_TRIM_WORDS;
    case REPLAY_LONG:
        take_long(m, s, at);
        return at + REPLAY_LONG_WORDS;
    case REPLAY_INTO:
        s->into = replay_word_slot(w) + 1;
        break;
    case REPLAY_SITE:
        s->site = replay_word_slot(w);
        m->has_sites |= s->site != 0;
        break;
    }
    return at + 1;
}

static void take_words(struct memory_watch *m, struct memory_words *s) {
    size_t known = m->facts.bytes / sizeof(struct memory_fact);
    for (const uint64_t *at = s->first; at < s->end;) {
        uint32_t ahead = replay_word_slot(at[FACTS_AHEAD]);
        if (ahead < known) {
            __builtin_prefetch(fact_of(m, ahead), 1);
            if (m->exec->slot != NULL)
                __builtin_prefetch(&m->exec->slot[ahead]);
        }
        at = take_word(m, s, at);
    }
}

/* Makes room for the facts of SLOTS. False: out of memory. */
static bool make_fact_room(struct memory_watch *m, uint64_t slots) {
    struct replay_table *t = &m->facts;
    if (replay_table_fits(t, slots * FACT_ENTRIES))
        return true;
    size_t had = t->bytes;
    replay_rss_before_own(m->rss);
    uint64_t huge = replay_rss_huge_before();
    bool good = replay_table_grow(t, slots * FACT_ENTRIES);
    replay_rss_huge_after(m->rss, huge);
    replay_rss_after_observer(m->rss, t->bytes - had);
    return good;
}

static void memory_batch(struct replay_watch *w, void *state,
                         const struct replay_batch *b) {
    struct memory_watch *m = state;
    (void)w;
    if (m->in_short || m->failed)
        return;
    /* One more, as slots of a batch without operations are none. */
    if (!make_fact_room(m, (uint64_t)b->slots + 1)) {
        tool_error("--memory: out of memory for the facts of blocks");
        m->failed = true;
        return;
    }
    struct memory_words s = {.first = b->word,
                             .end = b->word + b->words,
                             .thread = m->thread,
                             .site = m->site,
                             .from_ns = m->before_ns};
    s.for_ns = b->recorded_ns > s.from_ns ? b->recorded_ns - s.from_ns : 0;
    if (b->segments == 0)
        take_words(m, &s);
    m->thread = s.thread;
    m->site = s.site;
    for (uint32_t i = 0; i < b->segments; i++) {
        const struct replay_segment *g = &b->segment[i];
        s.first = b->word + g->first;
        s.end = s.first + g->words;
        s.thread = thread_of(g->thread);
        s.site = 0;
        take_words(m, &s);
    }
    m->before_ns = tcm_max_u64(m->before_ns, b->recorded_ns);
    m->done_ops = b->account.ops;
}

/* --- A look --------------------------------------------------------------- */

/* Facts of a block, for the account. */
static void open_block(void *ctx, const struct memory_block *b,
                       struct memory_facts *f) {
    struct memory_watch *m = ctx;
    const struct memory_fact *fact = fact_of(m, b->slot);
    if (b + BLOCKS_AHEAD < m->account.block + m->account.blocks) {
        __builtin_prefetch(fact_of(m, b[BLOCKS_AHEAD].slot));
        __builtin_prefetch((const char *)(uintptr_t)b[BLOCKS_AHEAD].address -
                           sizeof(size_t));
    }
    size_t (*usable)(void *) = m->exec->calls.usable_size;
    f->requested = fact->size;
    f->usable =
        usable == NULL ? fact->size : usable((void *)(uintptr_t)b->address);
    if (m->account.rows == NULL)
        return;
    uint64_t age =
        m->account.now - 1 > fact->birth ? m->account.now - 1 - fact->birth : 0;
    f->row = memory_account_row(
        &m->rows, &(struct memory_key){.size = memory_size_class(f->usable),
                                       .age_ns = memory_age_least(
                                           memory_age_class(age * UNIT_NS)),
                                       .site = fact->site,
                                       .thread = (uint32_t)fact->thread});
}

/* Makes room for N blocks, and some more, in memory that is all present. What
   was there is lost. False: out of memory. */
static bool make_block_room(struct memory_watch *m, uint64_t n) {
    size_t bytes = (size_t)(n * sizeof(*m->block)), had = m->block_bytes;
    if (bytes <= had)
        return true;
    bytes = tcm_align_up(bytes + bytes / 8, tcm_os_page_size());
    if (m->block != NULL)
        replay_own_unmap(m->block, had);
    m->block_bytes = 0;
    m->block = replay_own_map(bytes);
    if (m->block == NULL)
        return false;
    (void)tcm_os_no_huge_pages(m->block, bytes);
    memset(m->block, 0, bytes);
    m->block_bytes = bytes;
    /* The look ends with replay_rss_after_observer. */
    m->rss->observer_bytes += bytes - had;
    return true;
}

/* Puts the live blocks into the table, sorted. Where threads run apart, notes
   where these are and dead ones were last. False: out of memory. */
static bool gather_blocks(struct memory_watch *m, const struct replay_batch *b,
                          uint32_t now) {
    struct memory_account *a = &m->account;
    size_t n = 0;
    if (!make_block_room(m, b->account.live_blocks + 1))
        return false;
    struct memory_block *block = m->block;
    size_t room = m->block_bytes / sizeof(*block);
    bool apart = m->exec->cell != NULL;
    for (uint32_t slot = 0; slot < b->slots; slot++) {
        const struct memory_fact *f = fact_of(m, slot);
        if (f->live == 0 && !apart)
            continue;
        uintptr_t p = (uintptr_t)block_at(m, slot);
        TCM_ASSERT(f->live == 0 || f->live == 1);
        if (p == 0)
            continue;
        if (apart)
            memory_history_block(&m->history, p, f->size, now);
        if (f->live == 1 && n < room)
            block[n++] = (struct memory_block){.address = p, .slot = slot};
    }
    memory_account_sort(block, n);
    /* The first call in this thread may make the allocator take memory, which
       the walk is to see. */
    if (n != 0 && m->exec->calls.usable_size != NULL)
        (void)m->exec->calls.usable_size((void *)(uintptr_t)block[0].address);
    a->block = block;
    a->blocks = n;
    return true;
}

static void take_run(void *ctx, uint64_t start, uint64_t end, bool is_huge) {
    struct memory_watch *m = ctx;
    memory_account_run(&m->account, start, end, is_huge);
}

/* Writes the pages of a cell as runs: a number, unless it is 1, and a code. */
static void put_pages(const struct memory_watch *m,
                      const struct memory_account_cell *c, char *text) {
    size_t pages = MEMORY_CELL_BYTES / m->account.page_bytes;
    for (size_t i = 0, n; i < pages; i += n) {
        for (n = 1; i + n < pages && c->page[i + n] == c->page[i]; n++)
            continue;
        if (n >= 100)
            *text++ = (char)('0' + n / 100);
        if (n >= 10)
            *text++ = (char)('0' + n / 10 % 10);
        if (n > 1)
            *text++ = (char)('0' + n % 10);
        *text++ = c->page[i];
    }
    *text = '\0';
}

static void put_cell(void *ctx, const struct memory_account_cell *c) {
    struct memory_watch *m = ctx;
    struct tool_json *j = &m->json;
    char text[3 * MEMORY_CELL_PAGES + 4] = "";
    const uint64_t figures[] = {c->number, c->is_huge, c->live,      c->partly,
                                c->empty,  c->never,   c->free_bytes};
    if (m->map_cells++ < CELLS_SHOWN)
        put_pages(m, c, text);
    tool_json_begin_array(j, NULL);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(figures); i++)
        tool_json_u64(j, NULL, figures[i]);
    tool_json_string(j, NULL, text);
    tool_json_end_array(j);
}

/* Makes the account of this moment; IN_FULL: with rows, and the map goes to the
   file. */
static bool make_account(struct memory_watch *m, const struct replay_batch *b,
                         bool in_full) {
    struct memory_account *a = &m->account;
    uint32_t now = unit_of(m->now_ns) + 1;
    *a = (struct memory_account){.page_bytes = tcm_os_page_size(),
                                 .open = open_block,
                                 .cell = in_full ? put_cell : NULL,
                                 .ctx = m,
                                 .rows = in_full ? &m->rows : NULL,
                                 .history = &m->history,
                                 .now = now,
                                 .unit_ns = UNIT_NS};
    if (!gather_blocks(m, b, now))
        return false;
    if (in_full)
        memory_account_rows_clear(&m->rows);
    m->map_cells = 0;
    m->pages.run = take_run;
    m->pages.ctx = m;
    m->is_known = memory_pages_walk(&m->pages);
    memory_account_end(a);
    return true;
}

/* --- Moments in full ------------------------------------------------------ */

static void put_rows(struct memory_watch *m) {
    struct tool_json *j = &m->json;
    tool_json_begin_array(j, "rows");
    for (size_t i = 0; i < MEMORY_ROWS; i++) {
        const struct memory_account_row *r = &m->rows.row[i];
        const uint64_t figures[] = {r->key.site,
                                    r->key.size,
                                    r->key.age_ns,
                                    r->key.thread,
                                    r->blocks,
                                    r->requested_bytes,
                                    r->usable_bytes,
                                    (uint64_t)(r->held_bytes + 0.5),
                                    (uint64_t)(r->held_huge_bytes + 0.5),
                                    r->pinning_blocks};
        if (!r->used)
            continue;
        tool_json_begin_array(j, NULL);
        for (size_t k = 0; k < TCM_ARRAY_SIZE(figures); k++)
            tool_json_u64(j, NULL, figures[k]);
        tool_json_end_array(j);
    }
    tool_json_end_array(j);
}

static void put_parts(struct memory_watch *m) {
    const struct memory_account *a = &m->account;
    struct tool_json *j = &m->json;
    const struct {
        const char *key;
        uint64_t value;
    } part[] = {
        {"resident_bytes", a->resident_bytes},
        {"other_bytes", m->pages.other_bytes},
        {"requested_bytes", a->requested_bytes},
        {"rounding_bytes", a->rounding_bytes},
        {"free_bytes", a->free_bytes},
        {"empty_bytes", a->empty_pages * a->page_bytes},
        {"never_bytes", a->never_pages * a->page_bytes},
        {"absent_bytes", a->live_bytes - a->requested_bytes},
        {"live_pages", a->live_pages},
        {"partly_pages", a->partly_pages},
        {"empty_pages", a->empty_pages},
        {"never_pages", a->never_pages},
        {"live_blocks", a->blocks},
        {"live_bytes", a->live_bytes},
        {"pinning_blocks", a->pinning_blocks},
        {"huge_bytes", a->huge_bytes},
        {"huge_requested_bytes", a->huge_requested_bytes},
    };
    TCM_ASSERT(a->live_bytes >= a->requested_bytes);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(part); i++)
        tool_json_u64(j, part[i].key, part[i].value);
    tool_json_bool(j, "huge_known", memory_pages_know_huge(&m->pages));
    tool_json_begin_array(j, "empty_for");
    for (unsigned i = 0; i < MEMORY_AGES; i++) {
        if (a->empty_for[i] == 0)
            continue;
        tool_json_begin_array(j, NULL);
        tool_json_u64(j, NULL, memory_age_least(i));
        tool_json_u64(j, NULL, a->empty_for[i]);
        tool_json_end_array(j);
    }
    tool_json_end_array(j);
}

/* Resident bytes without the replayer's. Where the walk has counted these, its
   count is taken: data of the program that is touched late is in no sum. */
static uint64_t rss_of_walk(const struct memory_watch *m) {
    uint64_t bytes, huge, own = m->pages.own_bytes;
    replay_rss_read(m->rss, &bytes, &huge);
    if (own == 0)
        return bytes;
    bytes += replay_rss_own(m->rss);
    return bytes > own ? bytes - own : 0;
}

/* Waits until threads that have ended have given back their memory, for 20 ms
   at most: it must not change between the walk and the kernel's sum. */
static void await_rest(const struct memory_watch *m) {
    uint32_t never = 0;
    uint64_t before, now = replay_rss_glance(m->rss);
    for (unsigned i = 0; i < 20 && m->exec->cell != NULL; i++) {
        tcm_futex_wait(&never, 0, 1000000);
        before = now;
        now = replay_rss_glance(m->rss);
        if (now == before)
            break;
    }
}

/* Looks in full. False: out of memory. */
static bool look_in_full(struct memory_watch *m, const struct replay_batch *b,
                         uint64_t *rss_bytes) {
    struct tool_json *j = &m->json;
    await_rest(m);
    tool_json_begin_object(j, NULL);
    tool_json_dense(j, true);
    tool_json_begin_array(j, "map");
    bool good = make_account(m, b, true);
    tool_json_end_array(j);
    *rss_bytes = rss_of_walk(m);
    tool_json_u64(j, "operation", b->account.ops);
    tool_json_u64(j, "recorded_ns", m->now_ns);
    tool_json_u64(j, "rss_bytes", *rss_bytes);
    tool_json_bool(j, "is_known", m->is_known);
    tool_json_double(j, "unexplained_bytes",
                     (double)*rss_bytes - (double)m->account.resident_bytes -
                         (double)m->pages.other_bytes);
    put_parts(m);
    put_rows(m);
    tool_json_dense(j, false);
    tool_json_end_object(j);
    return good;
}

/* --- The curve ------------------------------------------------------------ */

/* Drops every other point; the next one gets the pages that it counted. */
static void curve_thin(struct memory_watch *m) {
    size_t kept = 0;
    for (size_t i = 0; i < m->points; i++) {
        struct memory_point *p = &m->point[i];
        if (i % 2 == 1 && i + 1 < m->points) {
            p[1].given_back_bytes += p->given_back_bytes;
            p[1].came_again_bytes += p->came_again_bytes;
        } else {
            m->point[kept++] = *p;
        }
    }
    m->points = kept;
    m->step_ops = tcm_max_u64(2 * m->step_ops,
                              m->point[kept - 1].operation / (POINTS / 2));
}

static void curve_add(struct memory_watch *m, const struct replay_batch *b,
                      uint64_t rss_bytes) {
    const struct memory_account *a = &m->account;
    uint64_t back, again;
    memory_history_turn(&m->history, &back, &again);
    if (m->points == POINTS)
        curve_thin(m);
    TCM_ASSERT(m->points < POINTS);
    m->point[m->points++] =
        (struct memory_point){.operation = b->account.ops,
                              .recorded_ns = m->now_ns,
                              .until_ns = m->now_ns,
                              .rss_bytes = rss_bytes,
                              .requested_bytes = a->requested_bytes,
                              .rounding_bytes = a->rounding_bytes,
                              .free_bytes = a->free_bytes,
                              .empty_bytes = a->empty_pages * a->page_bytes,
                              .never_bytes = a->never_pages * a->page_bytes,
                              .live_blocks = a->blocks,
                              .huge_bytes = a->huge_bytes,
                              .given_back_bytes = back * a->page_bytes,
                              .came_again_bytes = again * a->page_bytes};
}

/* --- Moments -------------------------------------------------------------- */

static bool stop_is_reached(const struct memory_watch *m,
                            const struct replay_batch *b) {
    const struct replay_order *o = &m->options->order;
    return m->next_stop < o->stops && o->stop[m->next_stop] <= b->account.ops;
}

static bool has_changed(const struct memory_watch *m, uint64_t live_bytes) {
    uint64_t less = tcm_min_u64(live_bytes, m->looked_bytes);
    uint64_t more = tcm_max_u64(live_bytes, m->looked_bytes);
    return more - less >
           tcm_max_u64(m->most_bytes, more) / GROWN_PARTS + CHANGED_LEAST;
}

/* True if B is worth a stop of all threads. New maxima of live bytes are
   moments already (replay_rss_wants). */
static bool memory_wants(const struct replay_watch *w, const void *state,
                         const struct replay_batch *b) {
    const struct memory_watch *m = state;
    (void)w;
    if (b->last || stop_is_reached(m, b))
        return true;
    uint64_t ops = b->account.ops, since = ops - m->looked_ops;
    return since >= tcm_max_u64(ops / APART_PARTS, APART_OPS) ||
           (since >= ops / CHANGED_PARTS &&
            has_changed(m, b->account.live_bytes));
}

/* Time for the curve of what is not alive: recorded time if the allocator's
   clock follows it, else operations. */
static uint64_t axis_of(const struct memory_watch *m, uint64_t ops) {
    return m->options->order.clock ? m->now_ns : ops;
}

static void note_peaks(struct memory_watch *m, const struct replay_batch *b,
                       uint64_t rss_bytes) {
    uint64_t ops = b->account.ops;
    /* Among moments with about as much resident memory, that with most live
       bytes says what needs it. */
    m->peak.rss_bytes = tcm_max_u64(m->peak.rss_bytes, rss_bytes);
    uint64_t least = m->peak.rss_bytes - m->peak.rss_bytes / PEAK_PARTS;
    if (rss_bytes >= least && (m->peak.at_rss_bytes < least ||
                               b->account.live_bytes > m->peak.live_bytes)) {
        m->peak.operation = ops;
        m->peak.at_rss_bytes = rss_bytes;
        m->peak.live_bytes = b->account.live_bytes;
    }
    lasting_add(&m->waste, axis_of(m, ops),
                (int64_t)rss_bytes - (int64_t)b->account.live_bytes, ops);
}

static void look(struct memory_watch *m, const struct replay_batch *b,
                 uint64_t rss_bytes, bool in_full) {
    uint64_t since_ns = tcm_clock_ns();
    uint64_t since_cpu_ns = tcm_clock_process_cpu_ns();
    replay_rss_before_own(m->rss);
    bool good =
        in_full ? look_in_full(m, b, &rss_bytes) : make_account(m, b, false);
    if (good)
        curve_add(m, b, rss_bytes);
    replay_rss_after_observer(m->rss, 0);
    uint64_t now = tcm_clock_ns();
    if (!good) {
        tool_error("--memory: out of memory for the table of blocks");
        m->failed = true;
    }
    uint64_t cpu_ns = tcm_clock_process_cpu_ns();
    m->looks++;
    m->look_ns += now - since_ns;
    m->next_ns = cpu_ns + SHORT_SHARE * (cpu_ns - since_cpu_ns);
    m->next_pause_ns = m->now_ns + PAUSE_SHARE * (cpu_ns - since_cpu_ns);
}

static bool has_grown(uint64_t before, uint64_t now) {
    return now - before > before / GROWN_PARTS;
}

/* True if a look in short has something to see, and its share of the time is
   not used up. IS_PAUSE: no operation was done since the last moment. */
static bool short_look_is_due(const struct memory_watch *m,
                              const struct replay_batch *b, bool is_pause) {
    if (m->points == 0)
        return true;
    if (is_pause)
        return m->now_ns >= m->next_pause_ns;
    const struct memory_point *last = &m->point[m->points - 1];
    if (b->account.ops <= last->operation + m->step_ops)
        return false;
    bool grew = has_grown(last->operation, b->account.ops) ||
                has_grown(last->recorded_ns, m->now_ns);
    return (grew && m->look_ns < EAGER_NS) ||
           tcm_clock_process_cpu_ns() >= m->next_ns;
}

/* True if nothing can have changed since the last look: no operation was done,
   and as much memory is resident. */
static bool last_look_holds(const struct memory_watch *m,
                            const struct replay_batch *b, uint64_t rss_bytes) {
    if (m->points == 0)
        return false;
    const struct memory_point *last = &m->point[m->points - 1];
    return last->operation == b->account.ops && last->rss_bytes == rss_bytes;
}

static void memory_moment(struct replay_watch *w, void *state,
                          const struct replay_batch *b) {
    struct memory_watch *m = state;
    (void)w;
    uint64_t rss_bytes = replay_rss_glance(m->rss);
    bool is_pause = b->account.ops == m->looked_ops;
    m->looked_ops = b->account.ops;
    m->looked_bytes = b->account.live_bytes;
    m->most_bytes = tcm_max_u64(m->most_bytes, m->looked_bytes);
    m->now_ns = tcm_max_u64(m->now_ns, b->recorded_ns);
    note_peaks(m, b, rss_bytes);
    bool in_full = b->last != 0;
    for (; stop_is_reached(m, b); m->next_stop++)
        in_full = true;
    /* Facts behind those of the blocks would be of other blocks. */
    if (m->in_short || m->failed || m->done_ops != b->account.ops ||
        m->pages.how == MEMORY_NOT_KNOWN)
        return;
    if (!in_full && last_look_holds(m, b, rss_bytes))
        m->point[m->points - 1].until_ns = m->now_ns;
    else if (in_full || short_look_is_due(m, b, is_pause))
        look(m, b, rss_bytes, in_full);
}

/* --- The file ------------------------------------------------------------- */

/* The moment of most waste: a state that lasts for a good part of the trace is
   preferred to one that wastes little more, as after the last free. */
static const struct lasting_value *most_waste(const struct memory_watch *m) {
    uint64_t end = axis_of(m, m->looked_ops);
    const struct lasting_value *most =
        lasting_most(&m->waste, end / LASTING_PARTS, end);
    const struct lasting_value *longest =
        most == NULL
            ? NULL
            : lasting_longest(&m->waste, most->value - most->value / LONG_PARTS,
                              end / LONG_PARTS, end);
    return longest != NULL ? longest : most;
}

/* Writes the moments that are worth a look in full. */
static void put_moments(struct memory_watch *m) {
    struct tool_json *j = &m->json;
    const struct lasting_value *waste = most_waste(m);
    tool_json_begin_object(j, "peak");
    tool_json_u64(j, "operation", m->peak.operation);
    tool_json_u64(j, "rss_bytes", m->peak.rss_bytes);
    tool_json_end_object(j);
    tool_json_begin_object(j, "waste");
    tool_json_u64(j, "operation", waste == NULL ? 0 : waste->tag);
    tool_json_u64(j, "bytes",
                  waste == NULL || waste->value < 0 ? 0
                                                    : (uint64_t)waste->value);
    tool_json_end_object(j);
}

static void put_curve(struct memory_watch *m) {
    static const struct {
        const char *key;
        size_t at;
    } column[] = {
#define X(name) {#name, offsetof(struct memory_point, name)},
        MEMORY_CURVE(X)
#undef X
    };
    struct tool_json *j = &m->json;
    tool_json_begin_object(j, "curve");
    for (size_t i = 0; i < TCM_ARRAY_SIZE(column); i++) {
        tool_json_begin_array(j, column[i].key);
        tool_json_dense(j, true);
        for (size_t k = 0; k < m->points; k++) {
            uint64_t v;
            memcpy(&v, (const char *)&m->point[k] + column[i].at, sizeof(v));
            tool_json_u64(j, NULL, v);
        }
        tool_json_dense(j, false);
        tool_json_end_array(j);
    }
    tool_json_end_object(j);
}

static int memory_tell(struct replay_watch *w, void *state, int status) {
    struct memory_watch *m = state;
    struct tool_json *j = &m->json;
    const char *missing = memory_pages_missing(&m->pages);
    memory_pages_close(&m->pages);
    if (m->failed || status == TOOL_FAILED)
        return TOOL_FAILED;
    tool_json_end_array(j);
    tool_json_string(j, "allocator", w->exec->calls.name);
    tool_json_string(j, "threads",
                     w->runs_apart            ? "real"
                     : w->exec->cache != NULL ? "switch"
                                              : "none");
    tool_json_string(j, "clock", m->options->order.clock ? "recorded" : "real");
    tool_json_u64(j, "page_bytes", tcm_os_page_size());
    tool_json_u64(j, "huge_page_bytes", MEMORY_CELL_BYTES);
    tool_json_string(j, "residency", memory_residency_name[m->pages.how]);
    tool_json_begin_array(j, "missing");
    if (missing != NULL)
        tool_json_string(j, NULL, missing);
    if (m->exec->calls.usable_size == NULL)
        tool_json_string(j, NULL,
                         "the allocator has no malloc_usable_size: rounding "
                         "counts as free");
    tool_json_end_array(j);
    char text[UNTOUCHED_TEXT];
    if (untouched_text(&w->result->untouched, UNTOUCHED_REPLAYED, text) != NULL)
        tool_json_string(j, "untouched", text);
    tool_json_bool(j, "has_sites", m->has_sites);
    tool_json_u64(j, "own_bytes", w->own_bytes + m->rss->observer_bytes);
    tool_json_u64(j, "scan_ns", m->look_ns);
    tool_json_u64(j, "scans", m->looks);
    tool_json_u64(j, "replay_ns", tcm_clock_ns() - m->start_ns - m->look_ns);
    put_moments(m);
    put_curve(m);
    tool_json_end_object(j);
    return tool_json_close(j) ? status : TOOL_FAILED;
}

const struct replay_observer replay_memory_observer = {
    .begin = memory_begin,
    .start = memory_start,
    .batch = memory_batch,
    .wants = memory_wants,
    .takes_any = true,
    .moment = memory_moment,
    .tell = memory_tell,
};
