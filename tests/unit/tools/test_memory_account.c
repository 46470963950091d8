/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The account of resident pages against one that looks at each byte: random
 * layouts of blocks and pages, with gaps of all lengths, large blocks, blocks
 * of no bytes, pages that are not resident, and pages where a block lay once.
 * The walk over resident pages, of which each is to come once.
 */
#include "cmd/replay/watch/memory_account.h"
#include "cmd/replay/watch/memory_pages.h"
#include "tests/lib/prng.h"
#include "tests/lib/rounds.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 1400, BYTES = PAGES * PAGE, SITES = 5 };
/* The layout begins and ends within a cell, and lies in two leaves of the
   history. */
#define BASE                                                                   \
    ((((uint64_t)0x7f00 << 32) / PAGE / MEMORY_LEAF_PAGES + 1) *               \
         MEMORY_LEAF_PAGES * PAGE -                                            \
     700 * (uint64_t)PAGE)

struct layout_block {
    uint64_t at, requested, usable;
    uint32_t site;
};

static struct layout_block block[BYTES / 16];
static size_t blocks;
static bool resident[PAGES], once[PAGES];
static struct prng random_state;
static struct memory_block sorted[BYTES / 16];

static uint64_t below(uint64_t n) {
    return prng_next(&random_state) % n;
}

/* --- The layout ----------------------------------------------------------- */

static uint64_t random_size(void) {
    switch (below(8)) {
    case 0:
        return below(20) * PAGE + below(3) * 8;
    case 1:
        return 0;
    case 2:
        return below(9000);
    default:
        return 1 + below(200);
    }
}

static void make_layout(void) {
    uint64_t at = below(3 * PAGE), gaps = 1 + below(4);
    blocks = 0;
    for (;;) {
        struct layout_block *b = &block[blocks];
        *b = (struct layout_block){.at = at,
                                   .requested = random_size(),
                                   .site = (uint32_t)below(SITES)};
        b->usable = b->requested + (below(2) == 0 ? 0 : below(40));
        at += b->usable == 0 ? 1 : b->usable;
        if (at >= BYTES)
            break;
        blocks++;
        at += below(gaps) == 0 ? 0
              : below(20) == 0 ? below(6 * PAGE)
                               : below(40);
    }
    for (size_t i = 0; i < PAGES; i++) {
        resident[i] = below(8) != 0;
        once[i] = below(2) != 0;
    }
}

/* --- The other count ------------------------------------------------------ */

enum byte_kind { FREE, REQUESTED, ROUNDING };

struct naive {
    uint64_t requested, rounding, free, live, partly, empty, never, pinning;
    double held[SITES], held_huge[SITES];
};

static uint8_t kind[BYTES];
static uint32_t owner[BYTES]; /* 1 + number of the block */

static void paint(void) {
    memset(kind, FREE, sizeof(kind));
    memset(owner, 0, sizeof(owner));
    for (size_t i = 0; i < blocks; i++) {
        const struct layout_block *b = &block[i];
        uint64_t usable = b->usable == 0 ? 1 : b->usable;
        for (uint64_t k = 0; k < usable; k++) {
            kind[b->at + k] = k < b->requested ? REQUESTED : ROUNDING;
            owner[b->at + k] = (uint32_t)i + 1;
        }
        uint64_t end = b->at + usable;
        uint64_t next = i + 1 < blocks ? block[i + 1].at : BYTES;
        for (uint64_t k = end;
             i + 1 < blocks && next - end < MEMORY_GAP && k < next; k++)
            kind[k] = ROUNDING;
    }
}

/* Divides FREE bytes up among the owners of bytes from START to END. */
static void share(uint64_t start, uint64_t end, double free, double *held,
                  uint8_t *pins) {
    uint32_t last = 0;
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        last = 0;
        for (uint64_t k = start; k < end; k++) {
            if (owner[k] == 0 || owner[k] == last)
                continue;
            last = owner[k];
            if (pass == 0) {
                n++;
                continue;
            }
            held[block[last - 1].site] += free / (double)n;
            if (pins != NULL)
                pins[last - 1] = 1;
        }
    }
}

static void count_page(struct naive *v, size_t page, uint8_t *pins) {
    uint64_t start = (uint64_t)page * PAGE, count[3] = {0}, owners = 0;
    for (uint64_t k = start; k < start + PAGE; k++) {
        count[kind[k]]++;
        owners += owner[k] != 0;
    }
    if (owners == 0) {
        v->empty += once[page];
        v->never += !once[page];
        return;
    }
    v->requested += count[REQUESTED];
    v->rounding += count[ROUNDING];
    v->free += count[FREE];
    v->live += count[FREE] == 0;
    v->partly += count[FREE] != 0;
    if (count[FREE] != 0)
        share(start, start + PAGE, (double)count[FREE], v->held, pins);
}

/* Pages of the cell at PAGE, the first one of it in the layout. */
static void count_cell(struct naive *v, size_t page, size_t end) {
    double rest = 0;
    bool any = false;
    for (size_t p = page; p < end; p++) {
        if (!resident[p])
            continue;
        any = true;
        for (uint64_t k = (uint64_t)p * PAGE; k < (uint64_t)(p + 1) * PAGE; k++)
            rest += kind[k] == FREE;
    }
    if (any)
        share((uint64_t)page * PAGE, (uint64_t)end * PAGE, rest, v->held_huge,
              NULL);
}

static void count_naively(struct naive *v) {
    static uint8_t pins[BYTES / 16];
    memset(v, 0, sizeof(*v));
    memset(pins, 0, sizeof(pins));
    paint();
    for (size_t p = 0; p < PAGES; p++)
        if (resident[p])
            count_page(v, p, pins);
    for (size_t i = 0; i < blocks; i++)
        v->pinning += pins[i];
    for (size_t p = 0; p < PAGES;) {
        uint64_t cell = (BASE + (uint64_t)p * PAGE) / MEMORY_CELL_BYTES;
        size_t end = p;
        while (end < PAGES &&
               (BASE + (uint64_t)end * PAGE) / MEMORY_CELL_BYTES == cell)
            end++;
        count_cell(v, p, end);
        p = end;
    }
}

/* --- The account ---------------------------------------------------------- */

static struct memory_account_row row[MEMORY_ROWS];
static struct memory_account_rows rows = {.row = row};
static uint64_t cells_resident, cells_pages;
static size_t opened;
static bool in_order;

static void *take(void *ctx, size_t bytes) {
    (void)ctx;
    return calloc(1, bytes);
}

static void open_one(void *ctx, const struct memory_block *b,
                     struct memory_facts *f) {
    (void)ctx;
    in_order &= b->slot == opened++;
    f->requested = block[b->slot].requested;
    f->usable = block[b->slot].usable;
    const struct memory_key key = {.site = block[b->slot].site};
    f->row = memory_account_row(&rows, &key);
}

static void count_cell_pages(void *ctx, const struct memory_account_cell *c) {
    (void)ctx;
    cells_resident += c->resident_bytes;
    for (size_t i = 0; i < MEMORY_CELL_PAGES; i++)
        cells_pages += c->page[i] != '.';
}

static void run_account(struct memory_account *a, struct memory_history *h) {
    for (size_t i = 0; i < blocks; i++)
        sorted[i] = (struct memory_block){.address = BASE + block[i].at,
                                          .slot = (uint32_t)i};
    for (size_t i = blocks; i > 1; i--) {
        size_t k = below(i);
        struct memory_block one = sorted[i - 1];
        sorted[i - 1] = sorted[k];
        sorted[k] = one;
    }
    memory_account_sort(sorted, blocks);
    memory_account_rows_clear(&rows);
    cells_resident = cells_pages = opened = 0;
    in_order = true;
    *a = (struct memory_account){.page_bytes = PAGE,
                                 .block = sorted,
                                 .blocks = blocks,
                                 .open = open_one,
                                 .cell = count_cell_pages,
                                 .rows = &rows,
                                 .history = h,
                                 .now = 9,
                                 .unit_ns = 1000000};
    for (size_t p = 0; p < PAGES; p++)
        if (once[p])
            memory_history_block(h, BASE + (uint64_t)p * PAGE, 1, 4);
    for (size_t p = 0, end; p < PAGES; p = end) {
        for (end = p; end < PAGES && resident[end] == resident[p]; end++)
            continue;
        if (resident[p])
            memory_account_run(a, BASE + (uint64_t)p * PAGE,
                               BASE + (uint64_t)end * PAGE, false);
    }
    memory_account_end(a);
}

static bool nearly(double a, double b) {
    return fabs(a - b) <= 1e-6 * (1 + fabs(a));
}

static bool rows_agree(const struct naive *v) {
    for (uint32_t site = 0; site < SITES; site++) {
        const struct memory_key key = {.site = site};
        const struct memory_account_row *r =
            &row[memory_account_row(&rows, &key)];
        if (!nearly(r->held_bytes, v->held[site]) ||
            !nearly(r->held_huge_bytes, v->held_huge[site])) {
            tap_diag("site %u: held %f and %f, huge %f and %f", site,
                     r->held_bytes, v->held[site], r->held_huge_bytes,
                     v->held_huge[site]);
            return false;
        }
    }
    return true;
}

static void history_new(struct memory_history *h) {
    *h = (struct memory_history){.page_shift = 12, .take = take};
    h->leaf = calloc(1, memory_history_directory_bytes(h));
}

static void history_free(struct memory_history *h) {
    while (h->first != NULL) {
        struct memory_leaf *l = h->first;
        h->first = l->next;
        free(l);
    }
    free(h->leaf);
}

static void test_layouts(void) {
    bool sums = true, pages = true, held = true, pins = true, order = true;
    bool cells = true, time = true;
    unsigned rounds = rounds_of(40, 2000);
    for (unsigned i = 0; i < rounds; i++) {
        struct memory_history h;
        struct memory_account a;
        struct naive v;
        prng_seed(&random_state, i + 1);
        make_layout();
        count_naively(&v);
        history_new(&h);
        run_account(&a, &h);
        sums &= a.requested_bytes == v.requested &&
                a.rounding_bytes == v.rounding && a.free_bytes == v.free;
        pages &= a.live_pages == v.live && a.partly_pages == v.partly &&
                 a.empty_pages == v.empty && a.never_pages == v.never;
        pins &= a.pinning_blocks == v.pinning;
        held &= rows_agree(&v);
        order &= in_order && opened == blocks;
        cells &= cells_resident == a.resident_bytes &&
                 cells_pages * PAGE == a.resident_bytes;
        /* 5 units of 1 ms */
        time &= a.empty_for[1] == v.empty * PAGE;
        history_free(&h);
    }
    tap_ok(sums, "requested, rounding and free bytes");
    tap_ok(pages, "live, partly live, empty and unused pages");
    tap_ok(held, "bytes that each site holds, of pages and of huge ranges");
    tap_ok(pins, "blocks that hold some");
    tap_ok(order, "each block is opened once, in order");
    tap_ok(cells, "cells have all resident pages");
    tap_ok(time, "empty pages have the time since their last block");
}

/* --- Parts ---------------------------------------------------------------- */

static void test_rows(void) {
    struct memory_key key = {.thread = 1};
    memory_account_rows_clear(&rows);
    for (uint32_t i = 0; i < 3 * MEMORY_ROWS; i++) {
        key.site = i / 4;
        key.size = i % 4;
        row[memory_account_row(&rows, &key)].blocks++;
    }
    uint64_t all = 0, mixed = 0;
    for (size_t i = 0; i < MEMORY_ROWS; i++) {
        all += row[i].blocks;
        if (row[i].used && row[i].key.site == MEMORY_MIXED)
            mixed += row[i].blocks;
    }
    tap_ok(all == 3 * MEMORY_ROWS, "a full table of rows loses nothing");
    tap_ok(mixed != 0 && rows.count < MEMORY_ROWS,
           "and keeps one row for what it has no place for");
    key = (struct memory_key){.site = 0, .size = 0, .thread = 1};
    tap_ok(row[memory_account_row(&rows, &key)].blocks == 1,
           "rows that it had stay");
}

static void test_residency(void) {
    struct memory_history h;
    uint64_t back, again;
    history_new(&h);
    memory_history_block(&h, 0, 1, 1);
    memory_history_block(&h, (uint64_t)MEMORY_LEAF_PAGES << 12, 1, 1);
    memory_history_resident(&h, 100, 50);
    memory_history_turn(&h, &back, &again);
    tap_ok(back == 0 && again == 0, "pages of the first look are new");
    memory_history_resident(&h, 110, 60);
    memory_history_turn(&h, &back, &again);
    tap_ok(back == 10 && again == 0, "10 pages were given back");
    memory_history_resident(&h, 105, 60);
    memory_history_turn(&h, &back, &again);
    tap_ok(back == 5 && again == 5, "5 more, and 5 came again");
    memory_history_resident(&h, MEMORY_LEAF_PAGES - 1, 2);
    memory_history_turn(&h, &back, &again);
    tap_ok(back == 60, "all others, beside a run across two leaves");
    history_free(&h);
}

/* --- Pages of the process ------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static void test_walks(void) {
    tap_skip("a sanitizer's shadow memory is too large to walk over");
}
#else
struct seen_pages {
    uint64_t start, end, before, pages;
    bool ascending;
};

static void see_run(void *ctx, uint64_t start, uint64_t end, bool is_huge) {
    struct seen_pages *s = ctx;
    (void)is_huge;
    s->ascending &= start >= s->before && end > start;
    s->before = end;
    if (start >= s->start && end <= s->end)
        s->pages += (end - start) / (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A range with RUNS resident pages, one beside one that is not. */
static void test_walk(enum memory_residency how, unsigned runs) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 2 * runs * page;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || madvise(p, bytes, MADV_NOHUGEPAGE) != 0)
        tap_bail("no memory");
    for (size_t i = 0; i < runs; i++)
        p[2 * i * page] = 1;
    struct seen_pages s = {
        .start = (uintptr_t)p, .end = (uintptr_t)p + bytes, .ascending = true};
    struct memory_pages walk = {.run = see_run, .ctx = &s};
    memory_pages_open(&walk, how);
    if (walk.how == how) {
        bool good = memory_pages_walk(&walk);
        tap_ok(good && s.ascending, "%u runs, by %s: each once, in order", runs,
               memory_residency_name[how]);
        tap_is_u64(s.pages, runs, "all of them");
    }
    memory_pages_close(&walk);
    munmap(p, bytes);
}

static void test_walks(void) {
    /* The kernel has a buffer of 512 runs, the walk one of 1024. */
    static const unsigned runs[] = {1, 511, 512, 513, 700, 1024, 1025, 1700};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(runs); i++)
        for (unsigned how = 0; how < MEMORY_NOT_KNOWN; how++) {
            if (how == MEMORY_MINCORE && tap_emulated())
                tap_skip("the emulator's mincore refuses its vector");
            else
                test_walk((enum memory_residency)how, runs[i]);
        }
}
#endif

static void test_classes(void) {
    tap_ok(memory_size_class(65536) == 65536 &&
               memory_size_class(65537) == 131072,
           "sizes above 64 KiB are together up to powers of two");
    tap_ok(memory_age_class(999999) == 0 && memory_age_class(1000000) == 1 &&
               memory_age_least(memory_age_class(UINT64_MAX)) ==
                   memory_age_least(MEMORY_AGES - 1),
           "ages are by powers of ten from 1 ms on");
}

int main(void) {
    test_layouts();
    test_rows();
    test_residency();
    test_walks();
    test_classes();
    return tap_done();
}
