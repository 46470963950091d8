/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/watch/memory_account.h"

#include "base/bits.h"
#include "base/check.h"

#include <string.h>

/* --- Order ---------------------------------------------------------------- */

/* Up to this number blocks are sorted by insertion. */
#define SORT_FEW 64u

static void sort_few(struct memory_block *b, size_t n) {
    for (size_t i = 1; i < n; i++) {
        struct memory_block one = b[i];
        size_t k = i;
        for (; k > 0 && b[k - 1].address > one.address; k--)
            b[k] = b[k - 1];
        b[k] = one;
    }
}

static unsigned digit_of(const struct memory_block *b, unsigned shift) {
    return (unsigned)(b->address >> shift) & 0xff;
}

/* Sorts by 8 bits from SHIFT on, and each part by those below: in place, as
   memory for a copy would be memory of the process. */
static void sort_digit(struct memory_block *b, size_t n, unsigned shift) {
    uint32_t at[256] = {0}, end[256], sum = 0;
    if (n <= SORT_FEW) {
        sort_few(b, n);
        return;
    }
    TCM_ASSERT(n <= UINT32_MAX);
    for (size_t i = 0; i < n; i++)
        at[digit_of(&b[i], shift)]++;
    for (unsigned d = 0; d < 256; d++) {
        uint32_t count = at[d];
        at[d] = sum;
        end[d] = sum += count;
    }
    for (unsigned d = 0; d < 256; d++)
        while (at[d] < end[d]) {
            struct memory_block one = b[at[d]];
            for (unsigned to; (to = digit_of(&one, shift)) != d;) {
                struct memory_block other = b[at[to]];
                b[at[to]++] = one;
                one = other;
            }
            b[at[d]++] = one;
        }
    for (unsigned d = 0; d < 256 && shift != 0; d++) {
        uint32_t first = d == 0 ? 0 : end[d - 1];
        if (end[d] - first > 1)
            sort_digit(b + first, end[d] - first, shift < 8 ? 0 : shift - 8);
    }
}

void memory_account_sort(struct memory_block *block, size_t n) {
    uint64_t differ = 0;
    for (size_t i = 1; i < n; i++)
        differ |= block[i].address ^ block[0].address;
    if (differ == 0)
        return;
    unsigned top = tcm_log2_floor(differ);
    sort_digit(block, n, top < 8 ? 0 : top - 7);
}

/* --- Rows ----------------------------------------------------------------- */

/* Rows that keys with all their parts may fill, and those of a site. */
#define ROWS_FULL  (MEMORY_ROWS / 2)
#define ROWS_SITES (MEMORY_ROWS / 4 * 3)

static bool same_key(const struct memory_key *a, const struct memory_key *b) {
    return a->site == b->site && a->size == b->size && a->age_ns == b->age_ns &&
           a->thread == b->thread;
}

static uint64_t hash_key(const struct memory_key *k) {
    uint64_t h =
        ((uint64_t)k->site << 32 | k->thread) * UINT64_C(0x9E3779B97F4A7C15);
    h = (h ^ h >> 32 ^ k->size) * UINT64_C(0xD6E8FEB86659FD93);
    h = (h ^ h >> 32 ^ k->age_ns) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 32;
}

/* Returns the row of KEY, added if there are fewer than MOST; MEMORY_ROWS: it
   is missing. */
static size_t find_row(struct memory_account_rows *rows,
                       const struct memory_key *key, size_t most) {
    size_t i = hash_key(key) & (MEMORY_ROWS - 1);
    while (rows->row[i].used && !same_key(&rows->row[i].key, key))
        i = (i + 1) & (MEMORY_ROWS - 1);
    if (rows->row[i].used)
        return i;
    if (rows->count >= most)
        return MEMORY_ROWS;
    rows->row[i].used = true;
    rows->row[i].key = *key;
    rows->count++;
    return i;
}

uint32_t memory_account_row(struct memory_account_rows *rows,
                            const struct memory_key *key) {
    struct memory_key mixed = {.site = key->site,
                               .size = MEMORY_MIXED,
                               .age_ns = MEMORY_MIXED,
                               .thread = MEMORY_MIXED};
    size_t at = find_row(rows, key, ROWS_FULL);
    if (at == MEMORY_ROWS)
        at = find_row(rows, &mixed, ROWS_SITES);
    mixed.site = MEMORY_MIXED;
    if (at == MEMORY_ROWS)
        at = find_row(rows, &mixed, MEMORY_ROWS - 1);
    TCM_ASSERT(at < MEMORY_ROWS);
    return (uint32_t)at;
}

void memory_account_rows_clear(struct memory_account_rows *rows) {
    memset(rows->row, 0, MEMORY_ROWS * sizeof(*rows->row));
    rows->count = 0;
}

unsigned memory_age_class(uint64_t ns) {
    unsigned age = 0;
    while (age + 1 < MEMORY_AGES && ns >= memory_age_least(age + 1))
        age++;
    return age;
}

uint64_t memory_age_least(unsigned age) {
    uint64_t least = age == 0 ? 0 : 1000000;
    for (unsigned i = 1; i < age; i++)
        least *= 10;
    return least;
}

/* --- Blocks --------------------------------------------------------------- */

/* Opens the next block. What overlaps the block before, as an allocator at
   fault may have it, counts for that one. */
static void open_block(struct memory_account *a) {
    struct memory_block *b = &a->block[a->opened];
    struct memory_facts f = {0};
    a->open(a->ctx, b, &f);
    b->row = f.row;
    TCM_ASSERT(a->opened == 0 || b[-1].address <= b->address);
    uint64_t usable = tcm_max_u64(tcm_max_u64(f.usable, f.requested), 1);
    a->start = tcm_max_u64(b->address, a->end);
    a->requested_end = tcm_max_u64(a->start, b->address + f.requested);
    a->end = tcm_max_u64(a->start, b->address + usable);
    a->live_bytes += f.requested;
    a->opened++;
    if (a->rows == NULL)
        return;
    struct memory_account_row *row = &a->rows->row[f.row];
    row->blocks++;
    row->requested_bytes += f.requested;
    row->usable_bytes += usable;
}

static bool has_next_below(const struct memory_account *a, uint64_t address) {
    return a->opened < a->blocks && a->block[a->opened].address < address;
}

/* Opens all blocks that begin below ADDRESS. Returns the number of the first
   block that may have a byte there or behind. */
static size_t open_below(struct memory_account *a, uint64_t address) {
    while (has_next_below(a, address))
        open_block(a);
    return a->opened != 0 && a->end > address ? a->opened - 1 : a->opened;
}

static uint64_t overlap(uint64_t from, uint64_t to, uint64_t start,
                        uint64_t end) {
    from = tcm_max_u64(from, start);
    to = tcm_min_u64(to, end);
    return to > from ? to - from : 0;
}

/* Bytes of one page, or of several that one block covers. */
struct page_bytes {
    uint64_t requested, rounding;
};

static void add_last_block(const struct memory_account *a, uint64_t start,
                           uint64_t end, struct page_bytes *p) {
    p->requested += overlap(a->start, a->requested_end, start, end);
    p->rounding += overlap(a->requested_end, a->end, start, end);
}

/* Adds the gap between the last block that was opened and the next one. */
static void add_gap(const struct memory_account *a, uint64_t start,
                    uint64_t end, struct page_bytes *p) {
    if (a->opened == 0 || a->opened >= a->blocks)
        return;
    uint64_t next = a->block[a->opened].address;
    if (next > a->end && next - a->end < MEMORY_GAP)
        p->rounding += overlap(a->end, next, start, end);
}

/* --- Cells ---------------------------------------------------------------- */

/* Divides BYTES up among the blocks from FIRST to the last that was opened. */
static void share_huge(struct memory_account *a, size_t first, uint64_t bytes) {
    size_t n = a->opened - first;
    if (a->rows == NULL || n == 0 || bytes == 0)
        return;
    double share = (double)bytes / (double)n;
    for (size_t i = first; i < a->opened; i++)
        a->rows->row[a->block[i].row].held_huge_bytes += share;
}

static void cell_leave(struct memory_account *a) {
    struct memory_account_cell *c = &a->now_cell;
    if (!a->in_cell)
        return;
    a->in_cell = false;
    TCM_ASSERT(c->resident_bytes >= c->block_bytes);
    while (has_next_below(a, (c->number + 1) * MEMORY_CELL_BYTES))
        open_block(a);
    share_huge(a, a->cell_first, c->resident_bytes - c->block_bytes);
    if (a->cell != NULL)
        a->cell(a->ctx, c);
}

static void cell_enter(struct memory_account *a, uint64_t number) {
    struct memory_account_cell *c = &a->now_cell;
    if (a->in_cell && c->number == number)
        return;
    cell_leave(a);
    memset(c, 0, sizeof(*c));
    memset(c->page, '.', sizeof(c->page));
    c->number = number;
    a->in_cell = true;
    a->cell_first = open_below(a, number * MEMORY_CELL_BYTES);
}

/* Puts N pages from START on into the cell, as CODE. */
static void cell_pages(struct memory_account *a, uint64_t start, uint64_t n,
                       char code) {
    struct memory_account_cell *c = &a->now_cell;
    uint64_t at = start % MEMORY_CELL_BYTES / a->page_bytes;
    TCM_ASSERT(at + n <= MEMORY_CELL_BYTES / a->page_bytes);
    memset(c->page + at, code, n);
    c->resident_bytes += n * a->page_bytes;
}

/* --- Pages ---------------------------------------------------------------- */

/* Past of the page at ADDRESS; NULL: unknown. */
static uint32_t *seen_of(struct memory_account *a, uint64_t address) {
    uint64_t page = address / a->page_bytes, number = page / MEMORY_LEAF_PAGES;
    if (number != a->leaf_number || a->leaf == NULL)
        a->leaf = memory_history_leaf(a->history, page);
    a->leaf_number = number;
    return a->leaf == NULL ? NULL : &a->leaf->seen[memory_history_place(page)];
}

static void page_without_blocks(struct memory_account *a, uint64_t start) {
    const uint32_t *seen = seen_of(a, start);
    if (seen == NULL || *seen == 0) {
        a->never_pages++;
        a->now_cell.never++;
        cell_pages(a, start, 1, 'N');
        return;
    }
    uint64_t since = a->now > *seen ? a->now - *seen : 0;
    a->empty_for[memory_age_class(since * a->unit_ns)] += a->page_bytes;
    a->empty_pages++;
    a->now_cell.empty++;
    cell_pages(a, start, 1, 'E');
}

/* Divides FREE bytes up among the blocks from FIRST to the last opened. */
static void share_page(struct memory_account *a, size_t first, uint64_t free) {
    double share = (double)free / (double)(a->opened - first);
    for (size_t i = first; i < a->opened && a->rows != NULL; i++) {
        struct memory_account_row *row = &a->rows->row[a->block[i].row];
        row->held_bytes += share;
        /* A block that also lies on a page before may be counted already. */
        bool is_new = i >= a->counted;
        row->pinning_blocks += is_new;
        a->pinning_blocks += is_new;
    }
    a->counted = a->opened;
}

static void add_bytes(struct memory_account *a, const struct page_bytes *p,
                      bool is_huge) {
    a->requested_bytes += p->requested;
    a->rounding_bytes += p->rounding;
    a->now_cell.block_bytes += p->requested + p->rounding;
    if (is_huge)
        a->huge_requested_bytes += p->requested;
}

/* Takes one page; FIRST is the first block that may have a byte there. */
static void take_page(struct memory_account *a, uint64_t start, size_t first,
                      bool is_huge) {
    uint64_t end = start + a->page_bytes;
    struct page_bytes p = {0};
    if (first < a->opened)
        add_last_block(a, start, end, &p);
    add_gap(a, start, end, &p);
    while (has_next_below(a, end)) {
        open_block(a);
        add_last_block(a, start, end, &p);
        add_gap(a, start, end, &p);
    }
    if (first == a->opened) {
        TCM_ASSERT(p.requested + p.rounding < MEMORY_GAP);
        page_without_blocks(a, start);
        return;
    }
    TCM_ASSERT(p.requested + p.rounding <= a->page_bytes);
    uint64_t free = a->page_bytes - p.requested - p.rounding;
    uint32_t *seen = seen_of(a, start);
    if (seen != NULL)
        *seen = a->now;
    add_bytes(a, &p, is_huge);
    if (free == 0) {
        a->live_pages++;
        a->now_cell.live++;
        cell_pages(a, start, 1, 'L');
        return;
    }
    a->partly_pages++;
    a->free_bytes += free;
    a->now_cell.partly++;
    a->now_cell.free_bytes += free;
    cell_pages(a, start, 1, (char)('a' + free * 10 / a->page_bytes));
    share_page(a, first, free);
}

/* Takes the pages from START on, up to END, that the last block covers. Returns
   where the rest begins. */
static uint64_t take_covered(struct memory_account *a, uint64_t start,
                             uint64_t end, bool is_huge) {
    uint64_t to = tcm_min_u64(tcm_align_down(a->end, a->page_bytes), end);
    if (a->opened == 0 || a->start > start || to <= start)
        return start;
    uint64_t n = (to - start) / a->page_bytes;
    struct page_bytes p = {0};
    add_last_block(a, start, to, &p);
    TCM_ASSERT(p.requested + p.rounding == to - start);
    add_bytes(a, &p, is_huge);
    a->live_pages += n;
    a->now_cell.live += (uint32_t)n;
    cell_pages(a, start, n, 'L');
    for (uint64_t at = start; at < to; at += a->page_bytes) {
        uint32_t *seen = seen_of(a, at);
        if (seen != NULL)
            *seen = a->now;
    }
    return to;
}

void memory_account_run(struct memory_account *a, uint64_t start, uint64_t end,
                        bool is_huge) {
    TCM_ASSERT(start % a->page_bytes == 0 && end % a->page_bytes == 0);
    a->resident_bytes += end - start;
    if (is_huge)
        a->huge_bytes += end - start;
    memory_history_resident(a->history, start / a->page_bytes,
                            (end - start) / a->page_bytes);
    while (start < end) {
        uint64_t number = start / MEMORY_CELL_BYTES;
        uint64_t stop = tcm_min_u64(end, (number + 1) * MEMORY_CELL_BYTES);
        cell_enter(a, number);
        a->now_cell.is_huge |= is_huge;
        while (start < stop) {
            size_t first = open_below(a, start);
            uint64_t rest = take_covered(a, start, stop, is_huge);
            if (rest == start) {
                take_page(a, start, first, is_huge);
                rest += a->page_bytes;
            }
            start = rest;
        }
    }
}

void memory_account_end(struct memory_account *a) {
    cell_leave(a);
    while (a->opened < a->blocks)
        open_block(a);
    TCM_ASSERT(a->resident_bytes ==
               a->requested_bytes + a->rounding_bytes + a->free_bytes +
                   (a->empty_pages + a->never_pages) * a->page_bytes);
}
