/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Walks, memos and followers. Remembered frames further out than a walk goes
 * may be out of date; a walk compares them before it uses them.
 */
#include "sites/unwind/stack.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_thread.h"
#include "sites/unwind/cfi.h"
#include "sites/unwind/machine.h"
#include "sites/site_settings.h"

#include <string.h>
#include <sys/auxv.h>

enum step { STEP_DONE, STEP_END, STEP_UNKNOWN, STEP_COMPLEX };

/* Most pages of a stack that are tried at once. */
#define TRIES_MAX 4096u
/* A frame is smaller than this. */
#define FRAME_MAX ((uintptr_t)256 << 20)
/* Most frames of this library between an exported function and a walk. */
#define OWN_FRAMES_MAX 64u

bool mts_stack_is_checked;
static uint64_t checked, different;

/* --- Memory --------------------------------------------------------------- */

static bool try_pages(uintptr_t low, uintptr_t high) {
    size_t page = tcm_os_page_size();
    if (high - low > TRIES_MAX * page)
        return false;
    for (uintptr_t p = high; p > low;) {
        p -= page;
        if (!tcm_os_is_readable(p))
            return false;
    }
    return true;
}

/* The C library puts a thread's control block there, the kernel random bytes
   for the first thread. */
uintptr_t mts_stack_top(void) {
    return tcm_os_is_first_thread() ? (uintptr_t)getauxval(AT_RANDOM)
                                    : tcm_thread_pointer();
}

/* Extends the readable part of the own stack down to SP's page, if SP is on
   it. */
static void extend_own_stack(struct mts_thread_stack *s, uintptr_t sp) {
    size_t page = tcm_os_page_size();
    uintptr_t low = sp & ~(page - 1), high = s->low;
    if (low < s->none_below)
        return;
    if (s->bytes == 0)
        high = tcm_align_up(mts_stack_top() + 1, page);
    if (high <= low)
        return;
    if (!try_pages(low, high)) {
        s->none_below = low + page;
        return;
    }
    s->bytes += high - low - (s->bytes == 0 ? sizeof(uint64_t) - 1 : 0);
    s->low = low;
}

static TCM_ALWAYS_INLINE bool is_own(const struct mts_thread_stack *s,
                                     uintptr_t p) {
    return p - s->low < s->bytes;
}

static bool read_word(void *ctx, uintptr_t p, uint64_t *value) {
    struct mts_thread_stack *s = ctx;
    if (p % sizeof(uint64_t) != 0)
        return false;
    if (TCM_UNLIKELY(!is_own(s, p))) {
        uintptr_t page = p & ~(tcm_os_page_size() - 1);
        if (page != s->tried && !tcm_os_is_readable(page))
            return false;
        s->tried = page;
    }
    *value = *(const uint64_t *)p;
    return true;
}

/* --- Other stacks --------------------------------------------------------- */

/* A function may call another one on a stack that it has switched to, as Rust's
   stacker does. Its frame information leads back. */

/* True if FROM and TO, where a frame's SP and its caller's would be, are on
   different stacks. */
static bool is_elsewhere(struct mts_thread_stack *s, uintptr_t from,
                         uintptr_t to) {
    if (!is_own(s, to))
        extend_own_stack(s, to);
    return !is_own(s, from) || !is_own(s, to);
}

/* True if RA, read from another stack, leads into a file's code. */
static bool is_in_file(uintptr_t ra, uint64_t stamp) {
    unsigned kind = mts_row_at(ra - 1, stamp) & 7;
    return ra != 0 && kind != MTS_ROW_NONE && kind != MTS_ROW_POINTERS;
}

/* --- Steps ---------------------------------------------------------------- */

static bool copy(void *to, uintptr_t from, size_t bytes) {
    return tcm_os_copy(tcm_load_relaxed(&mts_settings.pid), to, from, bytes);
}

/* True if the code before RA is a call. */
static bool is_after_call(uintptr_t ra) {
    uint8_t code[MTS_CALL_MAX];
    return ra >= MTS_CALL_MAX && copy(code, ra - MTS_CALL_MAX, MTS_CALL_MAX) &&
           mts_is_call(code + MTS_CALL_MAX);
}

/* Copies the word at P. Where code uses BP for another purpose, P may point to
   anything, even memory that another thread is unmapping: outside of the own
   stack the kernel copies. */
static bool copy_word(const struct mts_thread_stack *s, uintptr_t p,
                      uint64_t *value) {
    if (p % sizeof(uint64_t) != 0)
        return false;
    if (TCM_UNLIKELY(!is_own(s, p)))
        return copy(value, p, sizeof(*value));
    *value = *(const uint64_t *)p;
    return true;
}

/*
 * Sets SP of TO, the caller of a frame whose record ends at END. It is END
 * where the record is pushed before all else, as most code made at run time
 * does. Where a record may lie anywhere in its frame, that of the caller tells:
 * its frame information says how far its SP is from its own record. false: the
 * caller's return address is not where this SP would have it.
 */
static bool set_sp(const struct mts_thread_stack *s, uintptr_t end,
                   struct mts_stack_state *to) {
    uint64_t ra;
    to->sp = end;
    if (mts_frame_tells_caller)
        return true;
    struct mts_row row = mts_row_unpack(mts_row_at(to->at, s->stamp));
    if (row.kind != MTS_ROW_RULES || row.by_bp || row.deref || row.ra_by_sp)
        return true;
    if (row.bp == MTS_BP_BY_CFA)
        to->sp = to->bp - (uint64_t)((row.cfa_offset + row.bp_offset) * 8);
    return to->sp - end <= FRAME_MAX &&
           copy_word(s,
                     to->sp + (uint64_t)((row.cfa_offset + row.ra_offset) * 8),
                     &ra) &&
           is_after_call(mts_return_address(ra));
}

/* Makes the step from F to its caller by frame pointers. */
static enum step step_by_pointers(struct mts_thread_stack *s,
                                  struct mts_frame *f,
                                  struct mts_stack_state *to) {
    uint64_t ra, bp;
    f->ra_slot = 0;
    f->bp_slot = 0;
    f->uses_bp = true;
    if (f->state.bp < f->state.sp || f->state.bp - f->state.sp > FRAME_MAX ||
        f->state.bp % sizeof(uint64_t) != 0)
        return STEP_UNKNOWN;
    f->ra_slot = f->state.bp + sizeof(uint64_t);
    f->bp_slot = is_own(s, f->ra_slot) ? 0 : MTS_SLOT_UNSURE;
    if (!copy_word(s, f->ra_slot, &ra))
        return STEP_UNKNOWN;
    ra = mts_return_address(ra);
    if (ra == 0)
        return STEP_END;
    if (!is_after_call(ra))
        return STEP_UNKNOWN;
    f->bp_slot = MTS_SLOT_UNSURE;
    if (!copy_word(s, f->state.bp, &bp))
        return STEP_UNKNOWN;
    uintptr_t end = f->state.bp + 2 * sizeof(uint64_t);
    *to = (struct mts_stack_state){.at = ra - 1, .bp = bp};
    return set_sp(s, end, to) ? STEP_DONE : STEP_UNKNOWN;
}

/* Makes the step from F to its caller, and sets the slots of F. */
static enum step step_out(struct mts_thread_stack *s, struct mts_frame *f,
                          struct mts_stack_state *to, uint64_t stamp) {
    struct mts_row row = mts_row_unpack(mts_row_at(f->state.at, stamp));
    uint64_t cfa, ra, bp = f->state.bp;
    uintptr_t bp_slot = 0;
    /* Until the step is done, the words that it reads are unknown. */
    f->ra_slot = 0;
    f->bp_slot = MTS_SLOT_UNSURE;
    f->uses_bp = row.by_bp || row.bp == MTS_BP_BY_BP;
    if (row.kind == MTS_ROW_POINTERS)
        return step_by_pointers(s, f, to);
    if (row.kind == MTS_ROW_COMPLEX)
        return STEP_COMPLEX;
    if (row.kind != MTS_ROW_RULES) {
        /* The code alone says so. */
        f->bp_slot = 0;
        return row.kind == MTS_ROW_END ? STEP_END : STEP_UNKNOWN;
    }
    cfa = (row.by_bp ? bp : f->state.sp) + (uint64_t)(row.cfa_offset * 8);
    if (row.deref && !read_word(s, cfa, &cfa))
        return STEP_UNKNOWN;
    f->ra_slot =
        (row.ra_by_sp ? f->state.sp : cfa) + (uint64_t)(row.ra_offset * 8);
    /* A caller's frame lies above, or on another stack. */
    bool near = row.is_signal || cfa - f->state.sp - 1 < FRAME_MAX;
    if ((!near &&
         !((row.by_bp || row.deref) && is_elsewhere(s, f->state.sp, cfa))) ||
        !read_word(s, f->ra_slot, &ra))
        return STEP_UNKNOWN;
    if (row.bp != MTS_BP_SAME) {
        bp_slot = (row.bp == MTS_BP_BY_CFA  ? cfa
                   : row.bp == MTS_BP_BY_SP ? f->state.sp
                                            : bp) +
                  (uint64_t)(row.bp_offset * 8);
        if (!read_word(s, bp_slot, &bp))
            return STEP_UNKNOWN;
    }
    ra = mts_return_address(ra);
    if (!near && !is_in_file(ra, stamp))
        return STEP_UNKNOWN;
    if (!row.is_signal && !row.deref && is_own(s, f->ra_slot) &&
        (bp_slot == 0 || is_own(s, bp_slot)))
        f->bp_slot = bp_slot;
    if (ra == 0)
        return STEP_END;
    *to = (struct mts_stack_state){ra - !row.is_signal, cfa, bp};
    return STEP_DONE;
}

/* step_out for nearly all frames: on the own stack, the return address below
   the CFA, BP there too or unchanged. false: the frame is of another form. */
static TCM_ALWAYS_INLINE bool step_usual(const struct mts_thread_stack *s,
                                         struct mts_frame *f,
                                         struct mts_stack_state *at,
                                         uint64_t stamp) {
    uint64_t w = mts_row_at(at->at, stamp);
    if (TCM_UNLIKELY((w & (MTS_ROW_FLAGS & ~MTS_ROW_BY_BP &
                           ~MTS_ROW_BP_BY_CFA)) != MTS_ROW_RULES))
        return false;
    uintptr_t cfa =
        (w & MTS_ROW_BY_BP ? at->bp : at->sp) +
        (uint64_t)(mts_row_field(w, MTS_ROW_BITS, MTS_ROW_CFA_BITS) * 8);
    uintptr_t ra_slot =
        cfa + (uint64_t)(mts_row_field(w, MTS_ROW_BITS + MTS_ROW_CFA_BITS,
                                       MTS_ROW_SLOT_BITS) *
                         8);
    uintptr_t bp_slot = 0, bp = at->bp;
    if (TCM_UNLIKELY(cfa - at->sp - 1 >= FRAME_MAX || (cfa & 7) != 0 ||
                     !is_own(s, ra_slot)))
        return false;
    uintptr_t ra = mts_return_address(*(const uintptr_t *)ra_slot);
    if (w & MTS_ROW_BP_BY_CFA) {
        bp_slot = cfa + (uint64_t)(mts_row_field(w, 64 - MTS_ROW_SLOT_BITS,
                                                 MTS_ROW_SLOT_BITS) *
                                   8);
        if (TCM_UNLIKELY(!is_own(s, bp_slot)))
            return false;
        bp = *(const uintptr_t *)bp_slot;
    }
    if (TCM_UNLIKELY(ra == 0))
        return false;
    f->ra_slot = ra_slot;
    f->bp_slot = bp_slot;
    f->uses_bp = (w & MTS_ROW_BY_BP) != 0;
    at->at = ra - 1;
    at->sp = cfa;
    at->bp = bp;
    return true;
}

/* --- Walks with all registers --------------------------------------------- */

/* A walk that follows all registers: for code that does not fit into rows, and
   as a check. */
struct full_walk {
    struct mts_thread_stack *s;
    uint64_t reg[MTS_REGS];
    bool interrupted; /* the frame was interrupted: its pc is exact */
};

static struct mts_stack_state full_state(const struct full_walk *w) {
    return (struct mts_stack_state){w->reg[MTS_REG_PC] - !w->interrupted,
                                    w->reg[MTS_REG_SP], w->reg[MTS_REG_BP]};
}

static bool apply_rule(struct full_walk *w, const struct mts_cfi_rule *r,
                       uint64_t cfa, uint64_t *value) {
    const struct mts_cfi_reader reader = {read_word, w->s};
    struct mts_cfi_value v;
    switch (r->kind) {
    case MTS_CFI_SAME:
    case MTS_CFI_UNDEFINED:
        return true;
    case MTS_CFI_AT_CFA:
        return read_word(w->s, cfa + (uint64_t)r->offset, value);
    case MTS_CFI_IS_CFA:
        *value = cfa + (uint64_t)r->offset;
        return true;
    case MTS_CFI_REGISTER:
        *value = w->reg[r->reg] + (uint64_t)r->offset;
        return true;
    default:
        if (!mts_cfi_evaluate(r->expr, w->reg, &reader, &cfa, &v))
            return false;
        *value = v.v;
        return r->kind == MTS_CFI_IS_EXPR || read_word(w->s, v.v, value);
    }
}

static enum step full_pointers(struct full_walk *w) {
    struct mts_frame f = {.state = full_state(w)};
    struct mts_stack_state to;
    enum step step = step_by_pointers(w->s, &f, &to);
    if (step != STEP_DONE)
        return step;
    w->reg[MTS_REG_PC] = to.at + 1;
    w->reg[MTS_REG_SP] = to.sp;
    w->reg[MTS_REG_BP] = to.bp;
    w->interrupted = false;
    return STEP_DONE;
}

/* Makes the step from a signal trampoline to what was interrupted, whose
   registers the kernel has put on the stack. */
static enum step full_sigreturn(struct full_walk *w) {
    uint64_t next[MTS_REGS];
    uintptr_t from = w->reg[MTS_REG_SP] + MTS_SIGNAL_REGS;
    for (unsigned i = 0; i < MTS_REGS; i++)
        if (!read_word(w->s, from + i * sizeof(uint64_t), &next[i]))
            return STEP_UNKNOWN;
    memcpy(w->reg, next, sizeof(next));
    w->interrupted = true;
    return STEP_DONE;
}

/* Computes the frame address that C has for the frame W. false: unknown, or it
   cannot be right. NEAR: it is on the same stack, or was interrupted. */
static bool full_cfa(const struct full_walk *w, const struct mts_cfi *c,
                     uint64_t *cfa, bool *near) {
    const struct mts_cfi_reader reader = {read_word, w->s};
    struct mts_cfi_value v;
    if (c->cfa.kind == MTS_CFI_REGISTER)
        *cfa = w->reg[c->cfa.reg] + (uint64_t)c->cfa.offset;
    else if (mts_cfi_evaluate(c->cfa.expr, w->reg, &reader, NULL, &v))
        *cfa = v.v;
    else
        return false;
    uint64_t bytes = *cfa - w->reg[MTS_REG_SP];
    /* An interrupted function may have nothing on the stack. */
    *near =
        c->is_signal || (bytes < FRAME_MAX && (bytes != 0 || w->interrupted));
    return *near ||
           (bytes != 0 &&
            !(c->cfa.kind == MTS_CFI_REGISTER && c->cfa.reg == MTS_REG_SP) &&
            is_elsewhere(w->s, w->reg[MTS_REG_SP], *cfa));
}

static enum step full_step(struct full_walk *w) {
    struct mts_cfi c;
    uint64_t cfa, next[MTS_REGS];
    bool near;
    uintptr_t at = full_state(w).at;
    enum mts_cfi_found found = mts_cfi_find(at, &c);
    if (mts_row_is_sigreturn(at, found, &c))
        return full_sigreturn(w);
    if (mts_row_is_outermost(at, found == MTS_CFI_NO_MODULE))
        return STEP_END;
    if (found == MTS_CFI_NO_MODULE)
        return full_pointers(w);
    if (found != MTS_CFI_FOUND)
        return STEP_UNKNOWN;
    if (c.reg[MTS_REG_RA].kind == MTS_CFI_UNDEFINED)
        return STEP_END;
    /* A link register holds the return address until the next call. */
    if (c.reg[MTS_REG_RA].kind == MTS_CFI_SAME &&
        (MTS_REG_RA == MTS_REG_PC || !w->interrupted))
        return STEP_UNKNOWN;
    if (!full_cfa(w, &c, &cfa, &near))
        return STEP_UNKNOWN;
    memcpy(next, w->reg, sizeof(next));
    next[MTS_REG_SP] = cfa;
    for (unsigned i = 0; i < MTS_REGS; i++)
        if (!apply_rule(w, &c.reg[i], cfa, &next[i]) &&
            (i == MTS_REG_RA || i == MTS_REG_SP || i == MTS_REG_BP))
            return STEP_UNKNOWN;
    next[MTS_REG_PC] = mts_return_address(next[MTS_REG_RA]);
    if (!near && !is_in_file(next[MTS_REG_PC], w->s->stamp))
        return STEP_UNKNOWN;
    memcpy(w->reg, next, sizeof(next));
    w->interrupted = c.is_signal;
    return w->reg[MTS_REG_PC] == 0 ? STEP_END : STEP_DONE;
}

static bool is_same_state(struct mts_stack_state a, struct mts_stack_state b) {
    return a.at == b.at && a.sp == b.sp && a.bp == b.bp;
}

/* Walks from the current registers to FROM, and puts the frames from there on
   into OUT, the innermost first, at most DEPTH. Returns how many; 0: FROM was
   not reached. */
static TCM_NOINLINE unsigned walk_full(struct mts_thread_stack *s,
                                       struct mts_stack_state from,
                                       unsigned depth, struct mts_frame *out,
                                       enum mts_stack_end *end) {
    struct full_walk w = {.s = s, .interrupted = true};
    unsigned n = 0;
    enum step step = STEP_DONE;
    mts_registers(w.reg);
    for (unsigned i = 0; !is_same_state(full_state(&w), from); i++)
        if (i == OWN_FRAMES_MAX || full_step(&w) != STEP_DONE)
            return 0;
    for (; step == STEP_DONE && n < depth; n++) {
        out[n] = (struct mts_frame){.state = full_state(&w),
                                    .bp_slot = MTS_SLOT_UNSURE,
                                    .uses_bp = true};
        step = full_step(&w);
    }
    *end = step == STEP_DONE  ? MTS_STACK_CUT
           : step == STEP_END ? MTS_STACK_WHOLE
                              : MTS_STACK_UNKNOWN;
    return n;
}

/* --- Walks ---------------------------------------------------------------- */

/* True if a walk from B is the walk from F. */
static TCM_ALWAYS_INLINE bool is_at_state(const struct mts_frame *f,
                                          struct mts_stack_state b) {
    return f->state.at == b.at && f->state.sp == b.sp &&
           (f->state.bp == b.bp || !f->is_live);
}

/* Returns how many frames from S->frame[AT] outwards, at most NEED, are
   unchanged; the caller has compared the first. The end of the walk outside of
   FRAME[0] counts as a frame. */
static TCM_ALWAYS_INLINE unsigned
count_unchanged(const struct mts_thread_stack *s, uint32_t at, unsigned need) {
    const struct mts_frame *f = &s->frame[at];
    unsigned n = 1;
    for (; n < need && n <= at; n++, f--) {
        const struct mts_stack_state *out = &f[-1].state;
        if (f->bp_slot == MTS_SLOT_UNSURE ||
            mts_return_address(*(const uintptr_t *)f->ra_slot) != out->at + 1 ||
            (f->bp_check != 0 && *(const uintptr_t *)f->bp_check != out->bp))
            return n;
    }
    if (n < need && f->bp_slot != MTS_SLOT_UNSURE &&
        (f->ra_slot == 0 || *(const uintptr_t *)f->ra_slot == s->last_word))
        n++;
    return n;
}

static TCM_ALWAYS_INLINE uint64_t mix(uint64_t v) {
    v *= 0x9E3779B97F4A7C15u;
    return v ^ v >> 32;
}

#define BASE 0x2545F4914F6CDD1Du

/* Clears the slots of F, from which no step was made: they are of an earlier
   walk, perhaps of a thread whose stack is gone. */
static inline void forget_step(struct mts_frame *f) {
    f->ra_slot = 0;
    f->bp_slot = MTS_SLOT_UNSURE;
    f->uses_bp = false;
}

/* Replaces the remembered frames behind the first KEPT by the M fresh ones. The
   walk has used the last USED of the kept frames. */
static void remember(struct mts_thread_stack *s, uint32_t kept, uint32_t used,
                     unsigned m, enum mts_stack_end end) {
    TCM_ASSERT(used <= kept && kept <= s->count && m <= MTS_STACK_FRAMES);
    if (s->named_end > kept)
        s->named_end = kept;
    if (kept + m > MTS_STACK_FRAMES) {
        uint32_t drop = kept - used;
        TCM_ASSERT(used + m <= MTS_STACK_FRAMES);
        s->outer = s->frame[drop - 1].hash;
        s->end = MTS_STACK_CUT;
        memmove(s->frame, s->frame + drop, used * sizeof(*s->frame));
        forget_step(&s->frame[0]);
        kept = used;
        s->named_end = 0;
    }
    if (kept == 0) {
        const struct mts_frame *last = &s->fresh[m - 1];
        if (last->bp_slot != MTS_SLOT_UNSURE && last->ra_slot != 0)
            s->last_word = *(const uintptr_t *)last->ra_slot;
        s->end = (uint8_t)end;
        s->outer = (uint64_t)end;
    }
    uint64_t hash = kept == 0 ? s->outer : s->frame[kept - 1].hash;
    bool is_live = kept != 0 && s->frame[kept - 1].is_live;
    while (m-- > 0) {
        struct mts_frame *f = &s->frame[kept++];
        *f = s->fresh[m];
        hash = hash * BASE + mix(f->state.at);
        f->hash = hash;
        f->bp_check = is_live ? f->bp_slot : 0;
        is_live = f->uses_bp || (is_live && f->bp_slot == 0);
        f->is_live = is_live;
    }
    s->count = kept;
}

/* The loops whose module has code in a frame of S. The search ends at code in
   no file, because the frames outside of it may be words of calls that are
   over. */
static TCM_NOINLINE const struct mts_loops *
find_loops(const struct mts_thread_stack *s) {
    const struct mts_frame *f = &s->frame[s->count];
    for (uint32_t i = 0; i < s->length; i++) {
        const struct mts_loops *l = mts_loops_at((--f)->state.at);
        if (l != NULL ||
            (mts_row_at(f->state.at, s->stamp) & 7) == MTS_ROW_POINTERS)
            return l;
    }
    return NULL;
}

/* Computes the tag of the innermost frames, at most DEPTH. */
static void make_key(struct mts_thread_stack *s, unsigned depth) {
    TCM_ASSERT(s->count != 0 && s->count <= MTS_STACK_FRAMES);
    uint64_t hash = s->frame[s->count - 1].hash;
    s->length = s->count < depth ? s->count : depth;
    s->cut = s->count > s->length ? MTS_STACK_CUT : s->end;
    if (s->cut == MTS_STACK_CUT) {
        uint64_t power = 1, base = BASE;
        for (unsigned n = s->length; n != 0; n >>= 1, base *= base)
            if (n & 1)
                power *= base;
        hash -= power * (s->count > s->length
                             ? s->frame[s->count - s->length - 1].hash
                             : s->outer);
        hash ^= MTS_STACK_CUT;
    }
    s->tag = (struct mts_stack_tag){
        mix(hash) | (uint64_t)1 << 63, 0,
        TCM_UNLIKELY(tcm_load_acquire(&mts_loops_first) != NULL) ? find_loops(s)
                                                                 : NULL};
}

static void walk_complex(struct mts_thread_stack *s,
                         struct mts_stack_state from, unsigned depth) {
    enum mts_stack_end end = MTS_STACK_UNKNOWN;
    unsigned m = walk_full(s, from, depth + 1, s->fresh, &end);
    if (m == 0)
        s->fresh[m++] = (struct mts_frame){
            .state = from, .bp_slot = MTS_SLOT_UNSURE, .uses_bp = true};
    remember(s, 0, 0, m, end);
}

/* Walks from FROM; returns how many frames were not remembered. */
static TCM_NOINLINE unsigned walk_out(struct mts_thread_stack *s,
                                      struct mts_stack_state from,
                                      unsigned depth, uint64_t stamp) {
    struct mts_stack_state state = from;
    /* One frame more than DEPTH shows whether the walk is cut. */
    unsigned m = 0, goal = depth + 1;
    const struct mts_frame *old = s->frame + s->count;
    uint32_t used = 0;
    enum mts_stack_end end = MTS_STACK_WHOLE;
    for (;;) {
        while (old > s->frame && old[-1].state.sp < state.sp)
            old--;
        if (old > s->frame && is_at_state(&old[-1], state)) {
            uint32_t kept = (uint32_t)(old - s->frame);
            used = count_unchanged(s, kept - 1, goal - m);
            if (used == goal - m || used > kept) {
                used = used < kept ? used : kept;
                break;
            }
            /* Further out something differs or is not remembered: walk some
               frames more than this walk needs. */
            if (used == kept)
                goal = 2 * depth + 1;
            for (uintptr_t bp = state.bp; used > 0; used--) {
                struct mts_frame *f = &s->fresh[m++];
                *f = *--old;
                f->state.bp = bp;
                state = f->state;
                /* The step from the last of these frames was not compared, or
                   differs. */
                if (used > 1 && f->bp_slot != 0)
                    bp = *(const uintptr_t *)f->bp_slot;
            }
        } else {
            s->fresh[m++].state = state;
        }
        TCM_ASSERT(m != 0 && m <= MTS_STACK_FRAMES);
        if (m >= goal) {
            forget_step(&s->fresh[m - 1]);
            end = MTS_STACK_CUT;
            old = s->frame;
            break;
        }
        if (TCM_LIKELY(step_usual(s, &s->fresh[m - 1], &state, stamp)))
            continue;
        enum step step = step_out(s, &s->fresh[m - 1], &state, stamp);
        if (step == STEP_COMPLEX) {
            walk_complex(s, from, depth);
            make_key(s, depth);
            return 0;
        }
        if (step != STEP_DONE) {
            end = step == STEP_END ? MTS_STACK_WHOLE : MTS_STACK_UNKNOWN;
            old = s->frame;
            break;
        }
    }
    remember(s, (uint32_t)(old - s->frame), used, m, end);
    make_key(s, depth);
    return m;
}

static TCM_NOINLINE void check_walk(struct mts_thread_stack *s,
                                    struct mts_stack_state from,
                                    unsigned depth) {
    enum mts_stack_end end = MTS_STACK_UNKNOWN;
    unsigned n = walk_full(s, from, depth + 1, s->fresh, &end);
    if (n > depth) {
        n = depth;
        end = MTS_STACK_CUT;
    }
    bool good = n == s->length && end == s->cut;
    for (unsigned i = 0; good && i < n; i++)
        good = s->fresh[i].state.at == s->frame[s->count - 1 - i].state.at &&
               s->fresh[i].state.sp == s->frame[s->count - 1 - i].state.sp;
    tcm_add_relaxed(&checked, (uint64_t)1);
    if (!good)
        tcm_add_relaxed(&different, (uint64_t)1);
}

/* --- Whole walks ---------------------------------------------------------- */

/* Fewest fresh frames of a walk that becomes a memo. */
#define MEMO_FRESH 1u

static uint32_t memo_set_of(struct mts_stack_state from) {
    uint64_t hash = (from.at ^ from.sp << 20) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(hash >> (64 - MTS_MEMO_SETS_LOG2));
}

/* Notes that memo I is the last walk, which the history had not predicted. */
static void set_follower(struct mts_thread_stack *s, uint32_t i) {
    s->follower[s->history] = (uint16_t)i;
    mts_memo_set_last(s, i);
}

/* false: MEMO is full, or ABOVE cannot express the place of SLOT. */
static bool add_word(struct mts_stack_memo *memo, uintptr_t slot,
                     uintptr_t value) {
    uintptr_t above = (slot - memo->from.sp) / sizeof(uintptr_t);
    if (memo->words == MTS_MEMO_WORDS || above > UINT32_MAX)
        return false;
    memo->above[memo->words] = (uint32_t)above;
    memo->value[memo->words++] = value;
    return true;
}

static void keep_memo(struct mts_thread_stack *s, struct mts_stack_state from) {
    uint32_t set = memo_set_of(from), i = set * MTS_MEMO_WAYS + s->victim[set];
    struct mts_stack_memo *memo = &s->memo[i];
    const struct mts_frame *f = &s->frame[s->count - 1];
    memo->stamp = 0;
    memo->words = 0;
    memo->from = from;
    for (uint32_t n = 0; n < s->length; n++, f--)
        if (f->bp_slot == MTS_SLOT_UNSURE ||
            (f->ra_slot != 0 &&
             !add_word(memo, f->ra_slot, *(const uintptr_t *)f->ra_slot)) ||
            (f->bp_check != 0 && !add_word(memo, f->bp_check, f[-1].state.bp)))
            return;
    for (uint16_t n = memo->words; n % 4 != 0; n++) {
        memo->above[n] = n == 0 ? 0 : memo->above[n - 1];
        memo->value[n] = n == 0 ? 0 : memo->value[n - 1];
    }
    memo->tag = s->tag;
    memo->is_live = s->frame[s->count - 1].is_live;
    memo->owner = s->owner;
    memo->stamp = s->stamp;
    s->victim[set] = (uint8_t)((s->victim[set] + 1u) % MTS_MEMO_WAYS);
    set_follower(s, i);
}
TCM_STATIC_ASSERT(MTS_MEMO_WORDS % 4 == 0, "padding has room");

/* The memo that holds for a walk from FROM; NULL: none. */
static struct mts_stack_memo *find_memo(struct mts_thread_stack *s,
                                        struct mts_stack_state from) {
    uint32_t i = memo_set_of(from) * MTS_MEMO_WAYS, end = i + MTS_MEMO_WAYS;
    for (; i < end; i++)
        if (mts_memo_holds(s, &s->memo[i], from, s->stamp)) {
            set_follower(s, i);
            return &s->memo[i];
        }
    return NULL;
}

/* --- Entry ---------------------------------------------------------------- */

/* Prepares S for a walk from FROM. */
static void begin(struct mts_thread_stack *s, struct mts_stack_state from,
                  uint64_t stamp) {
    if (s->stamp != stamp) {
        s->stamp = stamp;
        s->count = s->named_end = 0;
    }
    s->tried = 0;
    if (!is_own(s, from.sp))
        extend_own_stack(s, from.sp);
}

static uint64_t walk(struct mts_thread_stack *s, struct mts_stack_state from,
                     unsigned depth, uint64_t stamp) {
    uint32_t n = s->count;
    /* If the stack is that of the last walk, its key is known. */
    if ((n == 0 || !is_at_state(&s->frame[n - 1], from) ||
         count_unchanged(s, n - 1, depth + 1) != s->length + 1) &&
        walk_out(s, from, depth, stamp) >= MEMO_FRESH)
        keep_memo(s, from);
    if (TCM_UNLIKELY(mts_stack_is_checked))
        check_walk(s, from, depth);
    return s->tag.key;
}

bool mts_stack_walk(struct mts_thread_stack *s, struct mts_stack_state from,
                    unsigned depth, uint64_t stamp) {
    TCM_ASSERT(depth != 0 && depth <= MTS_STACK_DEPTH);
    if (s->busy)
        return false;
    s->busy = true;
    tcm_fence_signal();
    begin(s, from, stamp);
    (void)walk(s, from, depth, stamp);
    return true;
}

void mts_stack_find(struct mts_thread_stack *s, struct mts_stack_state from,
                    unsigned depth, uint64_t stamp, struct mts_stack_tag *tag) {
    TCM_ASSERT(depth != 0 && depth <= MTS_STACK_DEPTH);
    TCM_ASSERT(s->busy);
    begin(s, from, stamp);
    const struct mts_stack_memo *memo = find_memo(s, from);
    if (memo == NULL) {
        walk(s, from, depth, stamp);
        *tag = s->tag;
        return;
    }
    *tag = memo->tag;
    if (TCM_UNLIKELY(mts_stack_is_checked)) {
        /* The memo is compared with a new walk. */
        s->count = s->named_end = 0;
        if (walk(s, from, depth, stamp) != tag->key)
            tcm_add_relaxed(&different, (uint64_t)1);
    }
}

void mts_stack_set_site(struct mts_thread_stack *s, uint64_t key,
                        uint32_t site) {
    struct mts_stack_tag *kept = &s->memo[s->last_memo].tag;
    if (s->busy)
        return;
    s->busy = true;
    tcm_fence_signal();
    if (kept->key == key)
        kept->site = site;
    if (s->tag.key == key)
        s->tag.site = site;
    tcm_fence_signal();
    s->busy = false;
}

/* --- Out of this library -------------------------------------------------- */

extern const char __ehdr_start[] TCM_LOCAL;
extern const char _end[] TCM_LOCAL;

bool mts_stack_is_inside(uintptr_t at) {
    return at >= (uintptr_t)__ehdr_start && at < (uintptr_t)_end;
}

/* The state of the function that this is inlined into. */
static TCM_ALWAYS_INLINE struct mts_stack_state state_here(void) {
    uint64_t reg[MTS_REGS];
    mts_registers(reg);
    return (struct mts_stack_state){reg[MTS_REG_PC], reg[MTS_REG_SP],
                                    reg[MTS_REG_BP]};
}

bool mts_stack_outside(struct mts_thread_stack *s, const void *fp,
                       struct mts_stack_state *out, uint64_t stamp) {
    struct mts_frame f = {.state = mts_frame_tells_caller ? mts_stack_caller(fp)
                                                          : state_here()};
    if (s->busy)
        return false;
    s->tried = 0;
    if (!is_own(s, f.state.sp))
        extend_own_stack(s, f.state.sp);
    for (unsigned i = 0; mts_stack_is_inside(f.state.at); i++)
        if (!step_usual(s, &f, &f.state, stamp) &&
            (i == OWN_FRAMES_MAX ||
             step_out(s, &f, &f.state, stamp) != STEP_DONE))
            return false;
    *out = f.state;
    return true;
}

bool mts_stack_is_possible(void) {
    struct mts_cfi c;
    return mts_cfi_find((uintptr_t)mts_stack_is_possible, &c) == MTS_CFI_FOUND;
}

void mts_stack_check_all(void) {
    mts_stack_is_checked = true;
}

bool mts_stack_checks(uint64_t *walks, uint64_t *differ) {
    *walks = tcm_load_relaxed(&checked);
    *differ = tcm_load_relaxed(&different);
    return mts_stack_is_checked;
}
