/* SPDX-License-Identifier: BSD-3-Clause */
#include "sites/unwind/stack_rows.h"

#include "base/linux/os_mem.h"
#include "sites/unwind/cfi.h"
#include "sites/unwind/machine.h"
#include "sites/site_settings.h"
#include "sites/site_table.h"

struct mts_row_entry mts_rows[1u << MTS_ROWS_LOG2];

#define ENDS_MAX 8u
static struct {
    uintptr_t start;
    size_t bytes;
} ends[ENDS_MAX];
static unsigned ends_count;

const struct mts_loops *mts_loops_first;

void mts_rows_add_end(uintptr_t start, size_t bytes) {
    unsigned n = ends_count;
    if (n == ENDS_MAX)
        return;
    ends[n].start = start;
    ends[n].bytes = bytes;
    /* Publishes the entry; pairs with the load in mts_row_is_outermost. */
    tcm_store_release(&ends_count, n + 1);
}

void mts_loops_add(struct mts_loops *l) {
    const struct mts_loops *head = tcm_load_acquire(&mts_loops_first);
    do {
        l->next = head;
        /* Publishes L; pairs with the loads of the head. */
    } while (!tcm_cas_acq_rel(&mts_loops_first, &head, l));
}

static bool is_in_loop(const struct mts_loops *l, uintptr_t at) {
    for (unsigned i = 0; i < MTS_LOOPS_MAX; i++)
        if (at - l->loop[i].start < l->loop[i].bytes)
            return true;
    return false;
}

const struct mts_loops *mts_loops_at(uintptr_t at) {
    const struct mts_loops *l = tcm_load_acquire(&mts_loops_first);
    for (; l != NULL; l = l->next)
        if (at >= l->start && at < l->end && (!l->alone || is_in_loop(l, at)) &&
            mts_module_is_at(l->module, at))
            return l;
    return NULL;
}

bool mts_row_is_outermost(uintptr_t at, bool in_none) {
    for (unsigned i = 0, n = tcm_load_acquire(&ends_count); i < n; i++)
        if (in_none || at - ends[i].start < ends[i].bytes)
            return true;
    for (const struct mts_loops *l = tcm_load_acquire(&mts_loops_first);
         l != NULL; l = l->next)
        if (is_in_loop(l, at) && mts_module_is_at(l->module, at))
            return true;
    return false;
}

bool mts_row_is_sigreturn(uintptr_t at, enum mts_cfi_found found,
                          const struct mts_cfi *c) {
    uint32_t code[2];
    if (MTS_SIGNAL_REGS == 0 || (at + 1) % sizeof(code[0]) != 0)
        return false;
    /* The trampoline begins behind AT: what another function has for AT says
       nothing about it. */
    if (found == MTS_CFI_FOUND && !c->is_signal && c->end != at + 1)
        return false;
    return tcm_os_copy(tcm_load_relaxed(&mts_settings.pid), code, at + 1,
                       sizeof(code)) &&
           mts_is_sigreturn(code);
}

static uint64_t pack(const struct mts_row *r) {
    return r->kind | (uint64_t)r->bp << 3 | (uint64_t)r->by_bp << 5 |
           (uint64_t)r->deref << 6 | (uint64_t)r->is_signal << 7 |
           (uint64_t)r->ra_by_sp << 8 |
           ((uint64_t)r->cfa_offset & ((1u << MTS_ROW_CFA_BITS) - 1))
               << MTS_ROW_BITS |
           ((uint64_t)r->ra_offset & ((1u << MTS_ROW_SLOT_BITS) - 1))
               << (MTS_ROW_BITS + MTS_ROW_CFA_BITS) |
           (uint64_t)r->bp_offset << (64 - MTS_ROW_SLOT_BITS);
}

static bool fit(int64_t bytes, unsigned bits, int64_t *words) {
    *words = bytes / 8;
    return bytes % 8 == 0 && *words >= -((int64_t)1 << (bits - 1)) &&
           *words < (int64_t)1 << (bits - 1);
}

/* Finds where a register is saved: *WORDS from *BASE (an MTS_BP_BY_ constant).
   false: a row cannot say it. */
static bool saved_at(const struct mts_cfi_rule *r, const uint64_t *reg,
                     unsigned *base, int64_t *words) {
    struct mts_cfi_value v;
    *base = MTS_BP_BY_CFA;
    if (r->kind == MTS_CFI_AT_CFA)
        return fit(r->offset, MTS_ROW_SLOT_BITS, words);
    if (r->kind != MTS_CFI_AT_EXPR ||
        !mts_cfi_evaluate(r->expr, reg, NULL, NULL, &v) || v.is_deref ||
        v.base == MTS_CFI_NO_BASE)
        return false;
    *base = v.base == MTS_CFI_BASE_SP ? MTS_BP_BY_SP : MTS_BP_BY_BP;
    return fit((int64_t)v.v, MTS_ROW_SLOT_BITS, words);
}

static bool summarise(const struct mts_cfi *c, uintptr_t at,
                      struct mts_row *row) {
    uint64_t reg[MTS_REGS] = {[MTS_REG_PC] = at + 1};
    struct mts_cfi_value cfa = {.v = (uint64_t)c->cfa.offset};
    const struct mts_cfi_rule *bp = &c->reg[MTS_REG_BP];
    unsigned base;
    int64_t words;
    if (c->cfa.kind == MTS_CFI_IS_EXPR) {
        if (!mts_cfi_evaluate(c->cfa.expr, reg, NULL, NULL, &cfa))
            return false;
    } else if (c->cfa.reg == MTS_REG_SP || c->cfa.reg == MTS_REG_BP) {
        cfa.base = c->cfa.reg == MTS_REG_SP ? MTS_CFI_BASE_SP : MTS_CFI_BASE_BP;
    }
    if (cfa.base == MTS_CFI_NO_BASE ||
        !fit((int64_t)cfa.v, MTS_ROW_CFA_BITS, &words))
        return false;
    row->kind = MTS_ROW_RULES;
    row->by_bp = cfa.base == MTS_CFI_BASE_BP;
    row->deref = cfa.is_deref;
    row->is_signal = c->is_signal;
    row->cfa_offset = words;
    if (!saved_at(&c->reg[MTS_REG_RA], reg, &base, &words) ||
        base == MTS_BP_BY_BP)
        return false;
    row->ra_by_sp = base == MTS_BP_BY_SP;
    row->ra_offset = words;
    row->bp = MTS_BP_SAME;
    if (bp->kind == MTS_CFI_SAME || bp->kind == MTS_CFI_UNDEFINED)
        return true;
    if (!saved_at(bp, reg, &base, &words))
        return false;
    row->bp = (uint8_t)base;
    row->bp_offset = words;
    return true;
}

static struct mts_row make_row(uintptr_t at) {
    struct mts_row row = {.kind = MTS_ROW_NONE};
    struct mts_cfi c;
    /* A thread that has read a stamp sees the loops for which it was
       changed. */
    tcm_fence_seq_cst();
    enum mts_cfi_found found = mts_cfi_find(at, &c);
    if (mts_row_is_sigreturn(at, found, &c)) {
        row.kind = MTS_ROW_COMPLEX;
        return row;
    }
    if (mts_row_is_outermost(at, found == MTS_CFI_NO_MODULE)) {
        row.kind = MTS_ROW_END;
        return row;
    }
    switch (found) {
    case MTS_CFI_NO_MODULE:
        row.kind = MTS_ROW_POINTERS;
        break;
    case MTS_CFI_NONE:
        break;
    default:
        if (c.reg[MTS_REG_RA].kind == MTS_CFI_UNDEFINED)
            row.kind = MTS_ROW_END;
        else if (!summarise(&c, at, &row))
            row = (struct mts_row){.kind = MTS_ROW_COMPLEX};
    }
    return row;
}

TCM_NOINLINE uint64_t mts_row_miss(uintptr_t at, uint64_t key) {
    struct mts_row row = make_row(at);
    uint64_t word = pack(&row);
    size_t i = mts_row_hash(at) >> (64 - MTS_ROWS_LOG2);
    /* Relaxed: a reader ignores a pair that does not match. */
    tcm_store_relaxed(&mts_rows[i].row, word);
    tcm_store_relaxed(&mts_rows[i].check, word ^ key);
    return word;
}
