/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Call frame information: each operation of DWARF sets the rule that it stands
 * for, and expressions give the values that they have by hand.
 */
#include "tap.h"
#include "sites/unwind/cfi.h"

#include <string.h>

#if defined(__x86_64__) || defined(__aarch64__)

/* Bytes of "expression: SP + 8", and those that only one processor has. */
#if defined(__x86_64__)
#define SP_EXPR     "0x77, 8"
#define SP_EXPR_IS  "\2\x77\10"
#define MACHINE_OPS ""
#else
#define SP_EXPR     "0x8f, 8"
#define SP_EXPR_IS  "\2\x8f\10"
#define MACHINE_OPS ".cfi_escape 0x2d\n" /* AARCH64_negate_ra_state */
#endif

/* A function whose information is written byte by byte. Offsets are multiples
   of -8, the data alignment. */
__asm__(".text\n"
        ".globl cfi_sample_within, cfi_sample_behind\n"
        ".hidden cfi_sample_within, cfi_sample_behind\n"
        "cfi_sample:\n"
        ".cfi_startproc\n"
        ".cfi_escape 0x05, 3, 2\n"     /* offset_extended */
        ".cfi_escape 0x11, 12, 0x7d\n" /* offset_extended_sf -3 */
        ".cfi_escape 0x14, 13, 4\n"    /* val_offset */
        ".cfi_escape 0x15, 14, 0x7b\n" /* val_offset_sf -5 */
        ".cfi_escape 0x2f, 15, 6\n"    /* GNU_negative_offset_extended */
        ".cfi_escape 0x09, 8, 9\n"     /* register */
        ".cfi_escape 0x07, 10\n"       /* undefined */
        ".cfi_escape 0x05, 11, 1\n"    /* and */
        ".cfi_escape 0x08, 11\n"       /* same_value */
        ".cfi_escape 0x10, 2, 2, " SP_EXPR "\n"
        ".cfi_escape 0x16, 1, 1, 0x35\n" /* val_expression: lit5 */
        ".cfi_escape 0x2e, 16\n"         /* GNU_args_size */
        ".cfi_escape 0x05, 4, 1\n"       /* and */
        ".cfi_escape 0x06, 4\n"          /* restore_extended */
        ".cfi_escape 0x0a\n"             /* remember_state */
        ".cfi_escape 0x05, 3, 9\n"       /* until */
        MACHINE_OPS "nop\n"
        "cfi_sample_within:\n"
        "nop\n"
        ".cfi_escape 0x0b\n" /* restore_state */
        "cfi_sample_behind:\n"
        "nop\n"
        ".cfi_endproc\n");
extern const char cfi_sample_within[], cfi_sample_behind[];

static void test_rules(void) {
    static const struct {
        const char *name;
        unsigned number;
        enum mts_cfi_kind kind;
        int64_t offset;
    } rules[] = {
        {"offset_extended", 3, MTS_CFI_AT_CFA, -16},
        {"offset_extended_sf", 12, MTS_CFI_AT_CFA, 24},
        {"val_offset", 13, MTS_CFI_IS_CFA, -32},
        {"val_offset_sf", 14, MTS_CFI_IS_CFA, 40},
        {"GNU_negative_offset_extended", 15, MTS_CFI_AT_CFA, 48},
        {"undefined", 10, MTS_CFI_UNDEFINED, 0},
        {"same_value", 11, MTS_CFI_SAME, 0},
        {"restore_extended", 4, MTS_CFI_SAME, 0},
#if defined(__x86_64__)
        {"the return address", MTS_REG_RA, MTS_CFI_AT_CFA, -8},
#else
        {"the link register", MTS_REG_RA, MTS_CFI_SAME, 0},
#endif
    };
    struct mts_cfi c;
    enum mts_cfi_found found = mts_cfi_find((uintptr_t)cfi_sample_behind, &c);
    if (found == MTS_CFI_NO_MODULE) {
        tap_skip("this C library does not find a module by address");
        return;
    }
    if (found != MTS_CFI_FOUND)
        tap_bail("no information");
    for (size_t i = 0; i < TCM_ARRAY_SIZE(rules); i++) {
        const struct mts_cfi_rule *r = &c.reg[rules[i].number];
        tap_ok(r->kind == rules[i].kind && r->offset == rules[i].offset,
               "%s: kind %d, offset %lld", rules[i].name, r->kind,
               (long long)r->offset);
    }
    tap_ok(c.reg[8].kind == MTS_CFI_REGISTER && c.reg[8].reg == 9, "register");
    tap_ok(c.reg[2].kind == MTS_CFI_AT_EXPR &&
               memcmp(c.reg[2].expr, SP_EXPR_IS, 3) == 0,
           "expression");
    tap_ok(c.reg[1].kind == MTS_CFI_IS_EXPR &&
               memcmp(c.reg[1].expr, "\1\x35", 2) == 0,
           "val_expression");
    tap_ok(c.cfa.kind == MTS_CFI_REGISTER && c.cfa.reg == MTS_REG_SP &&
               c.cfa.offset == (MTS_REG_RA == MTS_REG_PC ? 8 : 0),
           "the frame's address");
    tap_ok(mts_cfi_find((uintptr_t)cfi_sample_within, &c) == MTS_CFI_FOUND &&
               c.reg[3].offset == -72 && c.reg[12].offset == 24,
           "a state that is remembered, and changed");
}

/* Evaluates the N operations OPS. false: they cannot be evaluated. */
static bool evaluate(const uint8_t *ops, size_t n, uint64_t *v) {
    static const uint64_t reg[MTS_REGS];
    const struct mts_cfi_reader reader = {0};
    struct mts_cfi_value value;
    uint8_t expr[64] = {(uint8_t)n};
    memcpy(expr + 1, ops, n);
    bool good = mts_cfi_evaluate(expr, reg, &reader, NULL, &value);
    *v = value.v;
    return good;
}

static void test_expressions(void) {
    /* 0x30 + N is the number N. */
    static const struct {
        const char *name;
        uint64_t value;
        size_t n;
        uint8_t ops[16];
    } expressions[] = {
        {"const1s", UINT64_MAX - 1, 2, {0x09, 0xfe}},
        {"const2u", 0xff01, 3, {0x0a, 0x01, 0xff}},
        {"consts", UINT64_MAX, 2, {0x11, 0x7f}},
        {"plus", 7, 3, {0x33, 0x34, 0x22}},
        {"plus_uconst", 0x83, 4, {0x33, 0x23, 0x80, 0x01}},
        {"minus", UINT64_MAX, 3, {0x33, 0x34, 0x1c}},
        {"mul", 12, 3, {0x33, 0x34, 0x1e}},
        {"div", UINT64_MAX - 2, 4, {0x09, 0xf9, 0x32, 0x1b}},
        {"mod", 1, 3, {0x37, 0x33, 0x1d}},
        {"and", 2, 3, {0x36, 0x33, 0x1a}},
        {"or", 7, 3, {0x36, 0x33, 0x21}},
        {"xor", 5, 3, {0x36, 0x33, 0x27}},
        {"shl", 24, 3, {0x33, 0x33, 0x24}},
        {"shr", 1, 3, {0x37, 0x32, 0x25}},
        {"shra", UINT64_MAX - 1, 4, {0x09, 0xf9, 0x32, 0x26}},
        {"abs", 7, 3, {0x09, 0xf9, 0x19}},
        {"neg", UINT64_MAX - 2, 2, {0x33, 0x1f}},
        {"not", UINT64_MAX - 3, 2, {0x33, 0x20}},
        {"lt, of signed numbers", 1, 4, {0x09, 0xff, 0x31, 0x2d}},
        {"ge", 0, 4, {0x09, 0xff, 0x31, 0x2a}},
        {"eq", 1, 3, {0x33, 0x33, 0x29}},
        {"dup", 6, 3, {0x33, 0x12, 0x22}},
        {"over", 3, 3, {0x33, 0x34, 0x14}},
        {"pick", 3, 5, {0x33, 0x34, 0x35, 0x15, 2}},
        {"swap", 1, 4, {0x33, 0x34, 0x16, 0x1c}},
        {"rot", 4, 4, {0x33, 0x34, 0x35, 0x17}},
        {"drop", 3, 3, {0x33, 0x34, 0x13}},
        {"skip", 1, 5, {0x31, 0x2f, 1, 0, 0x35}},
        {"bra, taken", 1, 6, {0x31, 0x31, 0x28, 1, 0, 0x35}},
        {"bra, not taken", 5, 6, {0x31, 0x30, 0x28, 1, 0, 0x35}},
    };
    static const struct {
        const char *name;
        size_t n;
        uint8_t ops[16];
    } bad[] = {
        {"an operand that is missing", 2, {0x31, 0x22}},
        {"a division by 0", 3, {0x31, 0x30, 0x1b}},
        {"a jump out of the expression", 4, {0x31, 0x2f, 9, 0}},
        {"a loop", 3, {0x2f, 0xfd, 0xff}},
        {"an operation that nobody knows", 1, {0xff}},
        {"a number that is cut", 3, {0x0c, 1, 2}},
    };
    uint64_t v = 0;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(expressions); i++) {
        bool good = evaluate(expressions[i].ops, expressions[i].n, &v);
        tap_ok(good && v == expressions[i].value, "%s: %lld",
               expressions[i].name, (long long)v);
    }
    for (size_t i = 0; i < TCM_ARRAY_SIZE(bad); i++)
        tap_ok(!evaluate(bad[i].ops, bad[i].n, &v), "%s", bad[i].name);
}

int main(void) {
    test_rules();
    test_expressions();
    return tap_done();
}

#else

int main(void) {
    return tap_skip_all("stacks are walked on x86-64 and aarch64 only");
}

#endif
