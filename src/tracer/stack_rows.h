/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows: how a frame's caller is found, by the address of the frame's code, in
 * one word each.
 *
 * They lie in a table without lock: an entry is two words, the row and the row
 * xor its key, so that one which is half of another is found to be of no key.
 *
 * Threads: any.
 */
#ifndef TCM_TRACER_STACK_ROWS_H
#define TCM_TRACER_STACK_ROWS_H

#include "base/atomic.h"
#include "base/check.h"
#include "base/compiler.h"

enum {
    MTR_ROW_NONE,
    MTR_ROW_END,
    MTR_ROW_COMPLEX,
    MTR_ROW_POINTERS,
    MTR_ROW_RULES
};
enum { MTR_BP_SAME, MTR_BP_BY_CFA, MTR_BP_BY_SP, MTR_BP_BY_BP };

/* Offsets in words. */
struct mtr_row {
    uint8_t kind, bp; /* an MTR_ROW_ and an MTR_BP_ name */
    bool by_bp;       /* the CFA is BP + offset, not SP + offset */
    bool deref;       /* it is in memory there */
    bool is_signal;
    bool ra_by_sp; /* the return address is there, not by the CFA */
    int64_t cfa_offset, ra_offset, bp_offset;
};

#define MTR_ROW_CFA_BITS  19u
#define MTR_ROW_SLOT_BITS 18u
#define MTR_ROW_BITS      9u /* of all before the offsets */
TCM_STATIC_ASSERT(MTR_ROW_BITS + MTR_ROW_CFA_BITS + 2 * MTR_ROW_SLOT_BITS == 64,
                  "a row is a word");

/* In a packed row. */
#define MTR_ROW_BP_BY_CFA ((uint64_t)MTR_BP_BY_CFA << 3)
#define MTR_ROW_BY_BP     ((uint64_t)1 << 5)
#define MTR_ROW_FLAGS     (((uint64_t)1 << MTR_ROW_BITS) - 1)

static TCM_ALWAYS_INLINE int64_t mtr_row_field(uint64_t w, unsigned at,
                                               unsigned bits) {
    return (int64_t)(w << (64 - at - bits)) >> (64 - bits);
}

static TCM_ALWAYS_INLINE struct mtr_row mtr_row_unpack(uint64_t w) {
    return (struct mtr_row){
        .kind = w & 7,
        .bp = w >> 3 & 3,
        .by_bp = w >> 5 & 1,
        .deref = w >> 6 & 1,
        .is_signal = w >> 7 & 1,
        .ra_by_sp = w >> 8 & 1,
        .cfa_offset = mtr_row_field(w, MTR_ROW_BITS, MTR_ROW_CFA_BITS),
        .ra_offset = mtr_row_field(w, MTR_ROW_BITS + MTR_ROW_CFA_BITS,
                                   MTR_ROW_SLOT_BITS),
        .bp_offset =
            mtr_row_field(w, 64 - MTR_ROW_SLOT_BITS, MTR_ROW_SLOT_BITS)};
}

#define MTR_ROWS_LOG2 14u

struct mtr_row_entry {
    uint64_t row, check;
};
extern struct mtr_row_entry mtr_rows[1u << MTR_ROWS_LOG2] TCM_LOCAL;

static TCM_ALWAYS_INLINE uint64_t mtr_row_hash(uintptr_t at) {
    return (uint64_t)at * 0x9E3779B97F4A7C15u;
}

/* Frames of the BYTES of code at START are the outermost of their stacks, and
   so are those of code that lies in no file. One thread at a time; rows that
   were made before are out of date. */
void mtr_rows_end_in(uintptr_t start, size_t bytes);
/* Whether a frame of code at AT is, which lies in no file if IN_NONE. */
bool mtr_row_is_outermost(uintptr_t at, bool in_none);

/*
 * Functions of a module that end stacks in the same way, and code of which
 * makes walks say that they have come by it. The module may go away and others
 * come to its place: a stack says so only while the thread runs code of it.
 */
#define MTR_LOOPS_MAX 2u
struct mtr_loops {
    const struct mtr_loops *next;
    uint32_t module; /* site_modules.h */
    bool alone;      /* other code of it is not asked for */
    uintptr_t start, end;
    struct {
        uintptr_t start;
        size_t bytes;
    } loop[MTR_LOOPS_MAX];
};
/* L stays. Rows that were made before are out of date: another stamp has to
   come. */
void mtr_loops_add(struct mtr_loops *l);
extern const struct mtr_loops *mtr_loops_first TCM_LOCAL;
/* Those of the module that has code at AT, which the thread runs; NULL: there
   are none. */
const struct mtr_loops *mtr_loops_at(uintptr_t at);

/* Reads the information of the code; the row, which is in the table then. */
uint64_t mtr_row_miss(uintptr_t at, uint64_t key);

/* The row of code at AT. STAMP: another when code may have been replaced. */
static TCM_ALWAYS_INLINE uint64_t mtr_row_at(uintptr_t at, uint64_t stamp) {
    uint64_t key = (uint64_t)at ^ stamp << 48 ^ stamp >> 16;
    size_t i = mtr_row_hash(at) >> (64 - MTR_ROWS_LOG2);
    uint64_t word = tcm_load_relaxed(&mtr_rows[i].row);
    if (TCM_UNLIKELY((tcm_load_relaxed(&mtr_rows[i].check) ^ word) != key))
        return mtr_row_miss(at, key);
    return word;
}

#endif
