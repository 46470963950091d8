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
#ifndef TCM_SITES_UNWIND_STACK_ROWS_H
#define TCM_SITES_UNWIND_STACK_ROWS_H

#include "base/atomic.h"
#include "base/check.h"
#include "base/compiler.h"

enum {
    MTS_ROW_NONE,
    MTS_ROW_END,
    MTS_ROW_COMPLEX,
    MTS_ROW_POINTERS,
    MTS_ROW_RULES
};
enum { MTS_BP_SAME, MTS_BP_BY_CFA, MTS_BP_BY_SP, MTS_BP_BY_BP };

/* Offsets in words. */
struct mts_row {
    uint8_t kind, bp; /* an MTS_ROW_ and an MTS_BP_ name */
    bool by_bp;       /* the CFA is BP + offset, not SP + offset */
    bool deref;       /* it is in memory there */
    bool is_signal;
    bool ra_by_sp; /* the return address is there, not by the CFA */
    int64_t cfa_offset, ra_offset, bp_offset;
};

#define MTS_ROW_CFA_BITS  19u
#define MTS_ROW_SLOT_BITS 18u
#define MTS_ROW_BITS      9u /* of all before the offsets */
TCM_STATIC_ASSERT(MTS_ROW_BITS + MTS_ROW_CFA_BITS + 2 * MTS_ROW_SLOT_BITS == 64,
                  "a row is a word");

/* Bits of a packed row. */
#define MTS_ROW_BP_BY_CFA ((uint64_t)MTS_BP_BY_CFA << 3)
#define MTS_ROW_BY_BP     ((uint64_t)1 << 5)
#define MTS_ROW_FLAGS     (((uint64_t)1 << MTS_ROW_BITS) - 1)

static TCM_ALWAYS_INLINE int64_t mts_row_field(uint64_t w, unsigned at,
                                               unsigned bits) {
    return (int64_t)(w << (64 - at - bits)) >> (64 - bits);
}

static TCM_ALWAYS_INLINE struct mts_row mts_row_unpack(uint64_t w) {
    return (struct mts_row){
        .kind = w & 7,
        .bp = w >> 3 & 3,
        .by_bp = w >> 5 & 1,
        .deref = w >> 6 & 1,
        .is_signal = w >> 7 & 1,
        .ra_by_sp = w >> 8 & 1,
        .cfa_offset = mts_row_field(w, MTS_ROW_BITS, MTS_ROW_CFA_BITS),
        .ra_offset = mts_row_field(w, MTS_ROW_BITS + MTS_ROW_CFA_BITS,
                                   MTS_ROW_SLOT_BITS),
        .bp_offset =
            mts_row_field(w, 64 - MTS_ROW_SLOT_BITS, MTS_ROW_SLOT_BITS)};
}

#define MTS_ROWS_LOG2 14u

struct mts_row_entry {
    uint64_t row, check;
};
extern struct mts_row_entry mts_rows[1u << MTS_ROWS_LOG2] TCM_LOCAL;

static TCM_ALWAYS_INLINE uint64_t mts_row_hash(uintptr_t at) {
    return (uint64_t)at * 0x9E3779B97F4A7C15u;
}

/* Frames of the BYTES of code at START are the outermost of their stacks, and
   so are those of code that lies in no file. One thread at a time; rows that
   were made before are out of date. */
void mts_rows_end_in(uintptr_t start, size_t bytes);
/* Whether a frame of code at AT is, which lies in no file if IN_NONE. */
bool mts_row_is_outermost(uintptr_t at, bool in_none);

/*
 * Functions of a module that end stacks in the same way, and code of which
 * makes walks say that they have come by it. The module may go away and others
 * come to its place: a stack says so only while the thread runs code of it.
 */
#define MTS_LOOPS_MAX 2u
struct mts_loops {
    const struct mts_loops *next;
    uint32_t module; /* site_modules.h */
    bool alone;      /* other code of it is not asked for */
    uintptr_t start, end;
    struct {
        uintptr_t start;
        size_t bytes;
    } loop[MTS_LOOPS_MAX];
};
/* L stays. Rows that were made before are out of date: another stamp has to
   come. */
void mts_loops_add(struct mts_loops *l);
extern const struct mts_loops *mts_loops_first TCM_LOCAL;
/* Those of the module that has code at AT, which the thread runs; NULL: there
   are none. */
const struct mts_loops *mts_loops_at(uintptr_t at);

/* Reads the information of the code; the row, which is in the table then. */
uint64_t mts_row_miss(uintptr_t at, uint64_t key);

/* The row of code at AT. STAMP: another when code may have been replaced. */
static TCM_ALWAYS_INLINE uint64_t mts_row_at(uintptr_t at, uint64_t stamp) {
    uint64_t key = (uint64_t)at ^ stamp << 48 ^ stamp >> 16;
    size_t i = mts_row_hash(at) >> (64 - MTS_ROWS_LOG2);
    uint64_t word = tcm_load_relaxed(&mts_rows[i].row);
    if (TCM_UNLIKELY((tcm_load_relaxed(&mts_rows[i].check) ^ word) != key))
        return mts_row_miss(at, key);
    return word;
}

#endif
