/* SPDX-License-Identifier: BSD-3-Clause */
#include "sites/unwind/cfi.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/linux/elf_modules.h"

#include <string.h>

/* Nested DW_CFA_remember_state, and operands of an expression. */
#define STATES   4u
#define OPERANDS 16u
/* Operations of one expression that are executed. */
#define STEPS 256u

/* Bytes that may be read. */
struct span {
    const uint8_t *p, *end;
    bool bad; /* a read went past the end; it gave 0 */
};

static uint64_t get(struct span *s, unsigned bytes) {
    uint64_t v = 0;
    if ((size_t)(s->end - s->p) < bytes) {
        s->bad = true;
        s->p = s->end;
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)s->p[i] << 8 * i;
    s->p += bytes;
    return v;
}

static int64_t get_signed(struct span *s, unsigned bytes) {
    unsigned shift = 64 - 8 * bytes;
    return (int64_t)(get(s, bytes) << shift) >> shift;
}

/* A number in LEB128. HAS_SIGN: bit 6 of the last byte is the sign. */
static uint64_t get_leb(struct span *s, bool has_sign) {
    uint64_t v = 0, byte;
    unsigned shift = 0;
    do {
        byte = get(s, 1);
        if (shift < 64)
            v |= (byte & 0x7F) << shift;
        shift += 7;
    } while (byte & 0x80);
    if (has_sign && shift < 64 && (byte & 0x40))
        v |= ~(uint64_t)0 << shift;
    return v;
}

static uint64_t get_uleb(struct span *s) {
    return get_leb(s, false);
}

static int64_t get_sleb(struct span *s) {
    return (int64_t)get_leb(s, true);
}

/* --- Finding the information ---------------------------------------------- */

/* Encodings of pointers. */
enum {
    PE_ABSOLUTE = 0x00,
    PE_ULEB = 0x01,
    PE_UDATA2 = 0x02,
    PE_UDATA4 = 0x03,
    PE_UDATA8 = 0x04,
    PE_SLEB = 0x09,
    PE_SDATA2 = 0x0A,
    PE_SDATA4 = 0x0B,
    PE_SDATA8 = 0x0C,
    PE_PC_RELATIVE = 0x10,
    PE_DATA_RELATIVE = 0x30,
    PE_INDIRECT = 0x80,
    PE_OMITTED = 0xFF
};

/* Reads a pointer; encodings relative to data, and indirect ones, are not
   resolved, because their values are not used. */
static uint64_t get_pointer(struct span *s, uint8_t encoding) {
    uintptr_t here = (uintptr_t)s->p;
    uint64_t v;
    switch (encoding & 0x0F) {
    case PE_ABSOLUTE:
    case PE_UDATA8:
    case PE_SDATA8:
        v = get(s, 8);
        break;
    case PE_ULEB:
        v = get_uleb(s);
        break;
    case PE_UDATA2:
        v = get(s, 2);
        break;
    case PE_UDATA4:
        v = get(s, 4);
        break;
    case PE_SLEB:
        v = (uint64_t)get_sleb(s);
        break;
    case PE_SDATA2:
        v = (uint64_t)get_signed(s, 2);
        break;
    case PE_SDATA4:
        v = (uint64_t)get_signed(s, 4);
        break;
    default:
        s->bad = true;
        return 0;
    }
    return (encoding & 0x70) == PE_PC_RELATIVE ? v + here : v;
}

struct cie {
    uint64_t code_align;
    int64_t data_align;
    uint64_t ra; /* register of the return address */
    uint8_t encoding;
    bool has_data, is_signal;
    struct span program;
};

/* The bytes behind the length field at P; empty and bad if the length is
   wrong. */
static struct span entry_at(const uint8_t *p, const uint8_t *end) {
    struct span s = {p, end, false};
    uint64_t length = get(&s, 4);
    if (length == 0xFFFFFFFF)
        length = get(&s, 8);
    if (s.bad || length == 0 || length > (size_t)(end - s.p))
        return (struct span){end, end, true};
    s.end = s.p + length;
    return s;
}

static bool read_cie(const uint8_t *p, const uint8_t *end, struct cie *c) {
    struct span s = entry_at(p, end);
    uint64_t id = get(&s, 4), version = get(&s, 1);
    const char *augmentation = (const char *)s.p;
    if (s.bad || id != 0 || (version != 1 && version != 3) ||
        memchr(s.p, 0, (size_t)(s.end - s.p)) == NULL)
        return false;
    s.p += strlen(augmentation) + 1;
    *c = (struct cie){.encoding = PE_ABSOLUTE};
    c->code_align = get_uleb(&s);
    c->data_align = get_sleb(&s);
    c->ra = version == 1 ? get(&s, 1) : get_uleb(&s);
    if (augmentation[0] == 'z') {
        uint64_t length = get_uleb(&s);
        if (length > (size_t)(s.end - s.p))
            return false;
        const uint8_t *program = s.p + length;
        c->has_data = true;
        for (const char *a = augmentation + 1; *a != '\0'; a++) {
            if (*a == 'R') {
                c->encoding = (uint8_t)get(&s, 1);
            } else if (*a == 'L') {
                get(&s, 1);
            } else if (*a == 'P') {
                uint8_t encoding = (uint8_t)get(&s, 1);
                get_pointer(&s, encoding);
            } else if (*a == 'S') {
                c->is_signal = true;
            } else if (*a != 'B' && *a != 'G') {
                /* B: the other key signs return addresses; G: locals have
                   memory tags. The coding of the rest is unknown. */
                break;
            }
        }
        s.p = program;
    } else if (augmentation[0] != '\0') {
        return false;
    }
    c->program = s;
    return !s.bad && c->ra == MTS_REG_RA;
}

struct fde {
    uint64_t start, count; /* code that the entry describes */
    struct span program;
};

static bool read_fde(const uint8_t *p, const uint8_t *low, const uint8_t *end,
                     struct cie *c, struct fde *f) {
    struct span s = entry_at(p, end);
    const uint8_t *field = s.p;
    uint64_t distance = get(&s, 4);
    if (s.bad || distance == 0 || distance > (size_t)(field - low) ||
        !read_cie(field - distance, end, c))
        return false;
    f->start = get_pointer(&s, c->encoding);
    f->count = get_pointer(&s, c->encoding & 0x0F);
    if (c->encoding & PE_INDIRECT)
        return false;
    if (c->has_data) {
        uint64_t length = get_uleb(&s);
        if (length > (size_t)(s.end - s.p))
            return false;
        s.p += length;
    }
    f->program = s;
    return !s.bad;
}

/* The entry of the code at AT, found in the sorted table of .eh_frame_hdr at
   HEAD; NULL: there is no entry, or no table. */
static const uint8_t *find_fde(const uint8_t *head, const uint8_t *low,
                               const uint8_t *end, uintptr_t at) {
    struct span s = {head, end, false};
    uint64_t version = get(&s, 1);
    uint8_t frame = (uint8_t)get(&s, 1), count_as = (uint8_t)get(&s, 1);
    uint8_t table_as = (uint8_t)get(&s, 1);
    if (s.bad || version != 1 || table_as != (PE_DATA_RELATIVE | PE_SDATA4) ||
        count_as == PE_OMITTED)
        return NULL;
    get_pointer(&s, frame);
    uint64_t count = get_pointer(&s, count_as);
    if (s.bad || count == 0 || count > (size_t)(s.end - s.p) / 8)
        return NULL;
    uint64_t first = 0, beyond = count;
    while (first < beyond) {
        uint64_t middle = (first + beyond) / 2;
        struct span entry = {s.p + 8 * middle, s.end, false};
        if ((uintptr_t)head + (uint64_t)get_signed(&entry, 4) <= at)
            first = middle + 1;
        else
            beyond = middle;
    }
    if (first == 0)
        return NULL;
    struct span entry = {s.p + 8 * (first - 1) + 4, s.end, false};
    int64_t offset = get_signed(&entry, 4);
    return offset < low - head || offset >= end - head ? NULL : head + offset;
}

/* --- Executing it --------------------------------------------------------- */

struct machine {
    struct mts_cfi now, first; /* first: the rules of the CIE */
    struct mts_cfi saved[STATES];
    unsigned depth;
    uint64_t at, code_align;
    int64_t data_align;
};

static void set_rule(struct machine *m, uint64_t reg, struct mts_cfi_rule r) {
    if (reg < MTS_REGS)
        m->now.reg[reg] = r;
}

static struct mts_cfi_rule by_offset(enum mts_cfi_kind kind, uint64_t offset) {
    return (struct mts_cfi_rule){.kind = (uint8_t)kind,
                                 .offset = (int64_t)offset};
}

static struct mts_cfi_rule by_expr(enum mts_cfi_kind kind, struct span *s) {
    struct mts_cfi_rule r = {.kind = (uint8_t)kind, .expr = s->p};
    uint64_t length = get_uleb(s);
    if (length > (size_t)(s->end - s->p))
        s->bad = true;
    else
        s->p += length;
    return r;
}

static void set_cfa(struct machine *m, struct span *s, uint64_t reg,
                    uint64_t offset) {
    /* A frame address that depends on a register that is not followed is
       unusable. */
    s->bad |= reg >= MTS_REGS;
    m->now.cfa = (struct mts_cfi_rule){.kind = MTS_CFI_REGISTER,
                                       .reg = (uint8_t)reg,
                                       .offset = (int64_t)offset};
}

static void restore(struct machine *m, uint64_t reg) {
    if (reg < MTS_REGS)
        m->now.reg[reg] = m->first.reg[reg];
}

/* OFFSET in units of the data alignment. */
static uint64_t scaled(const struct machine *m, uint64_t offset) {
    return offset * (uint64_t)m->data_align;
}

/* Sets the rule of a register that is at an offset of the CFA, or is the CFA
   and an offset (val_offset). */
static void execute_offset(struct machine *m, struct span *s, uint8_t op) {
    bool is_signed = op == 0x11 || op == 0x15;
    bool is_value = op == 0x14 || op == 0x15;
    uint64_t reg = get_uleb(s);
    uint64_t offset = is_signed ? (uint64_t)get_sleb(s) : get_uleb(s);
    if (op == 0x2F)
        offset = -offset;
    set_rule(m, reg,
             by_offset(is_value ? MTS_CFI_IS_CFA : MTS_CFI_AT_CFA,
                       scaled(m, offset)));
}

static void execute_rare(struct machine *m, struct span *s, uint8_t op) {
    uint64_t reg;
    switch (op) {
    case 0x05: /* offset_extended */
    case 0x11: /* offset_extended_sf */
    case 0x14: /* val_offset */
    case 0x15: /* val_offset_sf */
    case 0x2F: /* GNU_negative_offset_extended */
        execute_offset(m, s, op);
        break;
    case 0x06: /* restore_extended */
        restore(m, get_uleb(s));
        break;
    case 0x07: /* undefined */
        set_rule(m, get_uleb(s), by_offset(MTS_CFI_UNDEFINED, 0));
        break;
    case 0x08: /* same_value */
        set_rule(m, get_uleb(s), by_offset(MTS_CFI_SAME, 0));
        break;
    case 0x09: { /* register */
        reg = get_uleb(s);
        uint64_t from = get_uleb(s);
        s->bad |= from >= MTS_REGS;
        set_rule(m, reg,
                 (struct mts_cfi_rule){.kind = MTS_CFI_REGISTER,
                                       .reg = (uint8_t)from});
        break;
    }
    case 0x0A: /* remember_state */
        if (m->depth == STATES)
            s->bad = true;
        else
            m->saved[m->depth++] = m->now;
        break;
    case 0x0B: /* restore_state */
        if (m->depth == 0)
            s->bad = true;
        else
            m->now = m->saved[--m->depth];
        break;
    case 0x10: /* expression */
        reg = get_uleb(s);
        set_rule(m, reg, by_expr(MTS_CFI_AT_EXPR, s));
        break;
    case 0x16: /* val_expression */
        reg = get_uleb(s);
        set_rule(m, reg, by_expr(MTS_CFI_IS_EXPR, s));
        break;
#if defined(__aarch64__)
    case 0x2C: /* AARCH64_negate_ra_state_with_pc */
    case 0x2D: /* AARCH64_negate_ra_state */
        /* Every return address is read as if it were signed. */
        break;
#endif
    case 0x2E: /* GNU_args_size */
        get_uleb(s);
        break;
    default:
        s->bad = true;
    }
}

static void execute_cfa(struct machine *m, struct span *s, uint8_t op) {
    uint64_t reg;
    switch (op) {
    case 0x0C: /* def_cfa */
        reg = get_uleb(s);
        set_cfa(m, s, reg, get_uleb(s));
        break;
    case 0x0D: /* def_cfa_register */
        set_cfa(m, s, get_uleb(s), (uint64_t)m->now.cfa.offset);
        break;
    case 0x0E: /* def_cfa_offset */
        m->now.cfa.offset = (int64_t)get_uleb(s);
        break;
    case 0x0F: /* def_cfa_expression */
        m->now.cfa = by_expr(MTS_CFI_IS_EXPR, s);
        break;
    case 0x12: /* def_cfa_sf */
        reg = get_uleb(s);
        set_cfa(m, s, reg, scaled(m, (uint64_t)get_sleb(s)));
        break;
    case 0x13: /* def_cfa_offset_sf */
        m->now.cfa.offset = (int64_t)scaled(m, (uint64_t)get_sleb(s));
        break;
    default:
        execute_rare(m, s, op);
    }
}

/* Executes S up to the first rule for code behind AT. false: S is damaged, or
   has an unknown instruction. */
static bool execute(struct machine *m, struct span s, uint64_t start) {
    uint64_t location = start;
    while (!s.bad && s.p != s.end && location <= m->at) {
        uint8_t op = (uint8_t)get(&s, 1), low = op & 0x3F;
        switch (op & 0xC0) {
        case 0x40: /* advance_loc */
            location += low * m->code_align;
            continue;
        case 0x80: /* offset */
            set_rule(m, low,
                     by_offset(MTS_CFI_AT_CFA, scaled(m, get_uleb(&s))));
            continue;
        case 0xC0: /* restore */
            restore(m, low);
            continue;
        default:
            break;
        }
        if (op == 0x00) /* nop */
            continue;
        if (op == 0x01) /* set_loc: no compiler emits it */
            s.bad = true;
        else if (op <= 0x04) /* advance_loc1, 2, 4 */
            location += get(&s, 1u << (op - 2)) * m->code_align;
        else
            execute_cfa(m, &s, op);
    }
    return !s.bad;
}

/* Finds the entry that describes the function at AT. */
static enum mts_cfi_found entry_of(uintptr_t at, struct cie *c, struct fde *f) {
    struct tcm_elf_module module;
    if (!tcm_elf_module_at(at, &module))
        return MTS_CFI_NO_MODULE;
    const uint8_t *low = (const uint8_t *)module.start;
    const uint8_t *end = (const uint8_t *)module.end, *head = module.eh_frame;
    if (head == NULL)
        return MTS_CFI_NONE;
    /* In a program whose segments have gaps between them, the loader names the
       segment of AT only. The table reaches 2 GiB. */
    if (head < low || head >= end) {
        const uint64_t reach = (uint64_t)1 << 31;
        low = head - tcm_min_u64(reach, (uintptr_t)head);
        end = head + reach;
    }
    const uint8_t *p = find_fde(head, low, end, at);
    return p != NULL && read_fde(p, low, end, c, f) && at - f->start < f->count
               ? MTS_CFI_FOUND
               : MTS_CFI_NONE;
}

bool mts_cfi_function(uintptr_t at, uintptr_t *start, size_t *bytes) {
    struct cie c;
    struct fde f;
    if (entry_of(at, &c, &f) != MTS_CFI_FOUND)
        return false;
    *start = f.start;
    *bytes = f.count;
    return true;
}

enum mts_cfi_found mts_cfi_find(uintptr_t at, struct mts_cfi *out) {
    struct cie c;
    struct fde f;
    enum mts_cfi_found found = entry_of(at, &c, &f);
    if (found != MTS_CFI_FOUND)
        return found;
    struct machine m = {.at = UINT64_MAX,
                        .code_align = c.code_align,
                        .data_align = c.data_align};
    m.now.is_signal = c.is_signal;
    if (!execute(&m, c.program, 0))
        return MTS_CFI_NONE;
    m.first = m.now;
    m.at = at;
    if (!execute(&m, f.program, f.start) || m.now.cfa.kind == MTS_CFI_SAME)
        return MTS_CFI_NONE;
    m.now.end = f.start + f.count;
    *out = m.now;
    return MTS_CFI_FOUND;
}

/* --- Expressions ---------------------------------------------------------- */

struct operands {
    struct mts_cfi_value value[OPERANDS];
    unsigned count;
    bool bad;
};

static void push(struct operands *o, struct mts_cfi_value v) {
    if (o->count == OPERANDS)
        o->bad = true;
    else
        o->value[o->count++] = v;
}

static void push_number(struct operands *o, uint64_t v) {
    push(o, (struct mts_cfi_value){.v = v});
}

static struct mts_cfi_value pop(struct operands *o) {
    if (o->count == 0) {
        o->bad = true;
        return (struct mts_cfi_value){0};
    }
    return o->value[--o->count];
}

/* Pops a plain number; a value with a base or from memory is none yet. */
static uint64_t pop_number(struct operands *o) {
    struct mts_cfi_value v = pop(o);
    o->bad |= v.base != MTS_CFI_NO_BASE || v.is_deref;
    return v.v;
}

static void push_register(struct operands *o, const uint64_t *reg,
                          bool symbolic, uint64_t number, uint64_t offset) {
    struct mts_cfi_value v = {.v = offset};
    if (number >= MTS_REGS)
        o->bad = true;
    else if (!symbolic || number == MTS_REG_PC)
        v.v += reg[number];
    else if (number == MTS_REG_SP)
        v.base = MTS_CFI_BASE_SP;
    else if (number == MTS_REG_BP)
        v.base = MTS_CFI_BASE_BP;
    else
        o->bad = true;
    push(o, v);
}

/* Pushes the sum or difference of the top two; one of the two may have a
   base. */
static void add(struct operands *o, bool minus) {
    struct mts_cfi_value b = pop(o), a = pop(o);
    o->bad |=
        a.is_deref || b.is_deref ||
        (b.base != MTS_CFI_NO_BASE && (minus || a.base != MTS_CFI_NO_BASE));
    a.v = minus ? a.v - b.v : a.v + b.v;
    if (a.base == MTS_CFI_NO_BASE)
        a.base = b.base;
    push(o, a);
}

static void deref(struct operands *o, const struct mts_cfi_reader *reader,
                  unsigned bytes) {
    struct mts_cfi_value v = pop(o);
    if (bytes != 8)
        o->bad = true;
    if (v.base != MTS_CFI_NO_BASE && !v.is_deref && reader == NULL) {
        v.is_deref = true;
        push(o, v);
        return;
    }
    uint64_t got = 0;
    o->bad |= v.base != MTS_CFI_NO_BASE || v.is_deref || reader == NULL;
    if (!o->bad)
        o->bad = !reader->read(reader->ctx, v.v, &got);
    push_number(o, got);
}

static void binary(struct operands *o, uint8_t op) {
    uint64_t b = pop_number(o), a = pop_number(o), v = 0;
    switch (op) {
    case 0x1A: /* and */
        v = a & b;
        break;
    case 0x1B: /* div */
    case 0x1D: /* mod */
        o->bad |= b == 0 || (a == (uint64_t)1 << 63 && b == ~(uint64_t)0);
        if (!o->bad)
            v = op == 0x1D ? a % b : (uint64_t)((int64_t)a / (int64_t)b);
        break;
    case 0x1E: /* mul */
        v = a * b;
        break;
    case 0x21: /* or */
        v = a | b;
        break;
    case 0x24: /* shl */
        v = b < 64 ? a << b : 0;
        break;
    case 0x25: /* shr */
        v = b < 64 ? a >> b : 0;
        break;
    case 0x26: /* shra */
        v = (uint64_t)((int64_t)a >> (b < 64 ? b : 63));
        break;
    case 0x27: /* xor */
        v = a ^ b;
        break;
    case 0x29: /* eq */
        v = a == b;
        break;
    case 0x2A: /* ge */
        v = (int64_t)a >= (int64_t)b;
        break;
    case 0x2B: /* gt */
        v = (int64_t)a > (int64_t)b;
        break;
    case 0x2C: /* le */
        v = (int64_t)a <= (int64_t)b;
        break;
    case 0x2D: /* lt */
        v = (int64_t)a < (int64_t)b;
        break;
    case 0x2E: /* ne */
        v = a != b;
        break;
    default:
        o->bad = true;
    }
    push_number(o, v);
}

static void pick(struct operands *o, uint64_t index) {
    if (index >= o->count)
        o->bad = true;
    else
        push(o, o->value[o->count - 1 - index]);
}

static void arrange(struct operands *o, uint8_t op) {
    struct mts_cfi_value a = pop(o), b, c;
    switch (op) {
    case 0x13: /* drop */
        return;
    case 0x16: /* swap */
        b = pop(o);
        push(o, a);
        push(o, b);
        return;
    default: /* rot */
        b = pop(o);
        c = pop(o);
        push(o, a);
        push(o, c);
        push(o, b);
    }
}

/* Pushes a number that the expression contains. false: OP is no such
   operation. */
static bool push_constant(struct operands *o, struct span *s, uint8_t op) {
    if (op >= 0x30 && op <= 0x4F) { /* lit */
        push_number(o, op - 0x30u);
    } else if (op == 0x03) { /* addr */
        push_number(o, get(s, 8));
    } else if (op >= 0x08 && op <= 0x0F) { /* const1u, const1s, ... */
        unsigned bytes = 1u << (op - 0x08) / 2;
        push_number(o, op & 1 ? (uint64_t)get_signed(s, bytes) : get(s, bytes));
    } else if (op == 0x10) { /* constu */
        push_number(o, get_uleb(s));
    } else if (op == 0x11) { /* consts */
        push_number(o, (uint64_t)get_sleb(s));
    } else {
        return false;
    }
    return true;
}

static void jump(struct operands *o, struct span *s, const uint8_t *start,
                 bool taken) {
    int64_t distance = get_signed(s, 2);
    if (!taken)
        return;
    if (distance < start - s->p || distance > s->end - s->p)
        o->bad = true;
    else
        s->p += distance;
}

static void evaluate_one(struct operands *o, struct span *s,
                         const uint8_t *start, const uint64_t *reg,
                         const struct mts_cfi_reader *reader) {
    uint8_t op = (uint8_t)get(s, 1);
    uint64_t v;
    if (push_constant(o, s, op))
        return;
    if (op >= 0x70 && op <= 0x8F) { /* breg */
        push_register(o, reg, reader == NULL, op - 0x70u,
                      (uint64_t)get_sleb(s));
        return;
    }
    switch (op) {
    case 0x06: /* deref */
        deref(o, reader, 8);
        break;
    case 0x94: /* deref_size */
        deref(o, reader, (unsigned)get(s, 1));
        break;
    case 0x12: /* dup */
    case 0x14: /* over */
        pick(o, op == 0x14);
        break;
    case 0x15: /* pick */
        pick(o, get(s, 1));
        break;
    case 0x13: /* drop */
    case 0x16: /* swap */
    case 0x17: /* rot */
        arrange(o, op);
        break;
    case 0x19: /* abs */
        v = pop_number(o);
        push_number(o, (int64_t)v < 0 ? -v : v);
        break;
    case 0x1F: /* neg */
        push_number(o, -pop_number(o));
        break;
    case 0x20: /* not */
        push_number(o, ~pop_number(o));
        break;
    case 0x1C: /* minus */
    case 0x22: /* plus */
        add(o, op == 0x1C);
        break;
    case 0x23: /* plus_uconst */
        push_number(o, get_uleb(s));
        add(o, false);
        break;
    case 0x28: /* bra */
        v = pop_number(o);
        jump(o, s, start, v != 0);
        break;
    case 0x2F: /* skip */
        jump(o, s, start, true);
        break;
    case 0x92: /* bregx */
        v = get_uleb(s);
        push_register(o, reg, reader == NULL, v, (uint64_t)get_sleb(s));
        break;
    case 0x96: /* nop */
        break;
    default:
        binary(o, op);
    }
}

bool mts_cfi_evaluate(const uint8_t *expr, const uint64_t *reg,
                      const struct mts_cfi_reader *reader, const uint64_t *cfa,
                      struct mts_cfi_value *out) {
    struct operands o = {.count = 0};
    /* The rule's length was checked: its operations lie in the module. */
    struct span s = {expr, expr + 10, false};
    uint64_t length = get_uleb(&s);
    const uint8_t *start = s.p;
    s.end = s.p + length;
    if (cfa != NULL)
        push_number(&o, *cfa);
    for (unsigned steps = 0; s.p != s.end; steps++) {
        if (o.bad || s.bad || steps == STEPS)
            return false;
        evaluate_one(&o, &s, start, reg, reader);
    }
    *out = pop(&o);
    return !o.bad && !s.bad;
}
