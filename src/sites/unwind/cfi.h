/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Call frame information of loaded code, as .eh_frame has it (DWARF 4 section
 * 6.4, Linux Standard Base 5 section 10.6): how the registers of a frame's
 * caller are found.
 *
 * Information is found by _dl_find_object of the C library and the search table
 * of .eh_frame_hdr; nothing is allocated, no lock is taken. It is read while
 * the code that it is of runs, so it is not unloaded meanwhile. It must lie in
 * the module that it is of.
 *
 * Threads: any.
 */
#ifndef TCM_SITES_UNWIND_CFI_H
#define TCM_SITES_UNWIND_CFI_H

#include "base/compiler.h"

/* Registers by their DWARF numbers. */
#if defined(__x86_64__)
enum { MTS_REG_BP = 6, MTS_REG_SP = 7, MTS_REG_PC = 16, MTS_REGS = 17 };
#else
/* No stacks are walked elsewhere. */
enum { MTS_REG_BP = 0, MTS_REG_SP = 1, MTS_REG_PC = 2, MTS_REGS = 3 };
#endif

enum mts_cfi_how {
    MTS_CFI_SAME = 0,  /* unchanged */
    MTS_CFI_UNDEFINED, /* lost; of the pc: the outermost frame */
    MTS_CFI_AT_CFA,    /* in memory at CFA + offset */
    MTS_CFI_IS_CFA,    /* CFA + offset */
    MTS_CFI_REGISTER,  /* REG + offset */
    MTS_CFI_AT_EXPR,   /* in memory at what the expression gives */
    MTS_CFI_IS_EXPR    /* what the expression gives */
};

struct mts_cfi_rule {
    uint8_t how; /* enum mts_cfi_how */
    uint8_t reg;
    union {
        int64_t offset;
        const uint8_t *expr; /* its length, then its operations */
    };
};

struct mts_cfi {
    bool is_signal;          /* the caller was interrupted, and made no call */
    struct mts_cfi_rule cfa; /* REGISTER or IS_EXPR */
    struct mts_cfi_rule reg[MTS_REGS];
};

enum mts_cfi_found {
    MTS_CFI_FOUND,
    MTS_CFI_NO_MODULE, /* no loaded file has code there */
    MTS_CFI_NONE       /* none of it, or it cannot be read */
};

/* The rules for code at AT, a byte of the instruction that is being executed:
   of one that called, its last. */
enum mts_cfi_found mts_cfi_find(uintptr_t at, struct mts_cfi *out);
/* The BYTES of code from START on that AT is in: a function, or a part of one
   that lies apart. */
bool mts_cfi_function(uintptr_t at, uintptr_t *start, size_t *bytes);

/*
 * A value that an expression gives: V, added to a register, or what is in
 * memory there. In a symbolic evaluation SP and BP have no values: a result may
 * be one of them with an offset. In any other one BASE is MTS_CFI_NO_BASE.
 */
enum mts_cfi_base { MTS_CFI_NO_BASE = 0, MTS_CFI_BASE_SP, MTS_CFI_BASE_BP };
struct mts_cfi_value {
    uint64_t v;
    uint8_t base; /* enum mts_cfi_base */
    bool is_deref;
};

struct mts_cfi_reader {
    /* The 8 bytes at ADDRESS; false: there are none to be read. */
    bool (*read)(void *ctx, uintptr_t address, uint64_t *value);
    void *ctx;
};

/* The value of EXPR with *CFA, if not NULL, on the stack at first. REG: all
   registers' values; with READER NULL evaluates symbolically, where the pc
   alone has a value. False: it cannot be evaluated. */
bool mts_cfi_evaluate(const uint8_t *expr, const uint64_t *reg,
                      const struct mts_cfi_reader *reader, const uint64_t *cfa,
                      struct mts_cfi_value *out);

#endif
