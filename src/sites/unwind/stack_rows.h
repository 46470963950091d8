/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows. A row says how to get from a frame to its caller, in one word; rows are
 * kept by the address of the frame's code.
 *
 * The table has no lock: an entry is two words, the row and the row xor its
 * key, so a mixture of two entries matches no key.
 *
 * Threads: any.
 */
#ifndef TCM_SITES_UNWIND_STACK_ROWS_H
#define TCM_SITES_UNWIND_STACK_ROWS_H

#include "base/atomic.h"
#include "base/check.h"
#include "base/compiler.h"
#include "sites/unwind/cfi.h"

enum {
    MTS_ROW_NONE,
    MTS_ROW_END,
    MTS_ROW_COMPLEX,
    MTS_ROW_POINTERS,
    MTS_ROW_RULES
};
enum { MTS_BP_SAME, MTS_BP_BY_CFA, MTS_BP_BY_SP, MTS_BP_BY_BP };

/* A row, unpacked. Offsets are in words of 8 bytes. */
struct mts_row {
    uint8_t kind, bp; /* an MTS_ROW_ and an MTS_BP_ constant */
    bool by_bp;       /* the CFA is at BP + offset, not at SP */
    bool deref;       /* the CFA is read from memory there */
    bool is_signal;
    bool ra_by_sp; /* the return address is found by SP, not CFA */
    int64_t cfa_offset, ra_offset, bp_offset;
};

#define MTS_ROW_CFA_BITS  19u
#define MTS_ROW_SLOT_BITS 18u
#define MTS_ROW_BITS      9u /* bits before the offsets */
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

/* Makes frames of the BYTES of code at START the outermost of their stacks, and
   with them frames of code that lies in no file. One thread at a time; the
   caller changes mts_stamp, because rows made before are out of date. */
void mts_rows_add_end(uintptr_t start, size_t bytes);
/* True if a frame of code at AT is the outermost. IN_NONE: the code lies in no
   file. */
bool mts_row_is_outermost(uintptr_t at, bool in_none);

/* True if a call that AT is the last byte of would return to a signal
   trampoline without usable call frame information: AT is in the frame around a
   signal handler. FOUND and C: what mts_cfi_find gave for AT. */
bool mts_row_is_sigreturn(uintptr_t at, enum mts_cfi_found found,
                          const struct mts_cfi *c);

/*
 * The loops of an interpreter that was loaded after set-up: functions that run
 * lines of its language. Their frames end stacks too, and a walk reports the
 * loops of a module whose code is on the stack. The module may be unloaded and
 * replaced, so that report is valid only while the thread runs code of the
 * module.
 */
#define MTS_LOOPS_MAX 2u
struct mts_loops {
    const struct mts_loops *next;
    uint32_t module; /* number of the module */
    bool alone;      /* only frames of the loops count */
    uintptr_t start, end;
    struct {
        uintptr_t start;
        size_t bytes;
    } loop[MTS_LOOPS_MAX];
};
/* Adds L, which must stay. Rows made before are out of date: the caller changes
   mts_stamp. */
void mts_loops_add(struct mts_loops *l);
extern const struct mts_loops *mts_loops_first TCM_LOCAL;
/* The loops of the module that has code at AT, which the calling thread runs;
   NULL: none. */
const struct mts_loops *mts_loops_at(uintptr_t at);

/* Makes the row of the code at AT from its call frame information and puts it
   into the table under KEY. */
uint64_t mts_row_miss(uintptr_t at, uint64_t key);

/* The packed row of code at AT. STAMP is mts_stamp: a row made at another stamp
   does not match. */
static TCM_ALWAYS_INLINE uint64_t mts_row_at(uintptr_t at, uint64_t stamp) {
    uint64_t key = (uint64_t)at ^ stamp << 48 ^ stamp >> 16;
    size_t i = mts_row_hash(at) >> (64 - MTS_ROWS_LOG2);
    uint64_t word = tcm_load_relaxed(&mts_rows[i].row);
    if (TCM_UNLIKELY((tcm_load_relaxed(&mts_rows[i].check) ^ word) != key))
        return mts_row_miss(at, key);
    return word;
}

#endif
