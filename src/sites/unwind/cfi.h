/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Call frame information of loaded code in .eh_frame (DWARF 4 section 6.4,
 * Linux Standard Base 5 section 10.6): rules that give the registers of a
 * frame's caller.
 *
 * The information is found by base/linux/elf_modules.h and the search table of
 * .eh_frame_hdr, without allocation or lock. It is read while the code
 * it describes runs, so that code is not unloaded meanwhile. It must lie in the
 * module of the code.
 *
 * Threads: any.
 */
#ifndef TCM_SITES_UNWIND_CFI_H
#define TCM_SITES_UNWIND_CFI_H

#include "base/compiler.h"

/* Registers by their DWARF numbers; RA is the one whose rule gives the return
   address. On aarch64 that is the link register, and a frame that was
   interrupted has a pc beside it. */
#if defined(__x86_64__)
enum {
    MTS_REG_BP = 6,
    MTS_REG_SP = 7,
    MTS_REG_PC = 16,
    MTS_REG_RA = MTS_REG_PC,
    MTS_REGS = 17
};
#elif defined(__aarch64__)
enum {
    MTS_REG_BP = 29,
    MTS_REG_RA = 30,
    MTS_REG_SP = 31,
    MTS_REG_PC = 32,
    MTS_REGS = 33
};
#else
/* Stacks are walked on x86-64 and aarch64 only. */
enum {
    MTS_REG_BP = 0,
    MTS_REG_SP = 1,
    MTS_REG_PC = 2,
    MTS_REG_RA = MTS_REG_PC,
    MTS_REGS = 3
};
#endif

enum mts_cfi_kind {
    MTS_CFI_SAME = 0,  /* unchanged */
    MTS_CFI_UNDEFINED, /* lost; of RA: the outermost frame */
    MTS_CFI_AT_CFA,    /* in memory at CFA + offset */
    MTS_CFI_IS_CFA,    /* CFA + offset */
    MTS_CFI_REGISTER,  /* REG + offset */
    MTS_CFI_AT_EXPR,   /* in memory at what the expression gives */
    MTS_CFI_IS_EXPR    /* what the expression gives */
};

struct mts_cfi_rule {
    uint8_t kind; /* enum mts_cfi_kind */
    uint8_t reg;
    union {
        int64_t offset;
        const uint8_t *expr; /* its length, then its operations */
    };
};

struct mts_cfi {
    uintptr_t end;           /* of the code of the function, or of its part */
    bool is_signal;          /* the caller was interrupted, and made no call */
    struct mts_cfi_rule cfa; /* REGISTER or IS_EXPR */
    struct mts_cfi_rule reg[MTS_REGS];
};

enum mts_cfi_found {
    MTS_CFI_FOUND,
    MTS_CFI_NO_MODULE, /* no loaded file has code there */
    MTS_CFI_NONE       /* there is none, or it cannot be read */
};

/* The rules for code at AT, a byte of the instruction that is being executed;
   for a frame that has made a call, the last byte of the call. */
enum mts_cfi_found mts_cfi_find(uintptr_t at, struct mts_cfi *out);
/* Puts the range of the function that contains AT into *START and *BYTES; a
   function whose parts lie apart has several ranges. false: no information. */
bool mts_cfi_function(uintptr_t at, uintptr_t *start, size_t *bytes);

/*
 * Result of an expression: V, or V added to the register BASE; or the word in
 * memory there, if IS_DEREF. Only a symbolic evaluation has a BASE: SP and BP
 * have no values in it, and a result may be one of them with an offset.
 */
enum mts_cfi_base { MTS_CFI_NO_BASE = 0, MTS_CFI_BASE_SP, MTS_CFI_BASE_BP };
struct mts_cfi_value {
    uint64_t v;
    uint8_t base; /* enum mts_cfi_base */
    bool is_deref;
};

struct mts_cfi_reader {
    /* Reads the 8 bytes at ADDRESS; false: they cannot be read. */
    bool (*read)(void *ctx, uintptr_t address, uint64_t *value);
    void *ctx;
};

/* Evaluates EXPR into *OUT; *CFA, if CFA is not NULL, is the first operand. REG
   has the values of all registers. With READER NULL the evaluation is symbolic,
   and only the pc has a value. false: EXPR cannot be evaluated. */
bool mts_cfi_evaluate(const uint8_t *expr, const uint64_t *reg,
                      const struct mts_cfi_reader *reader, const uint64_t *cfa,
                      struct mts_cfi_value *out);

#endif
