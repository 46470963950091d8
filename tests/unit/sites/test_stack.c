/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Walks of a stack: their frames are those that the compiler's own unwinder
 * finds, each of them twice, the second time from what the first remembered,
 * and are those of a walk that remembers nothing.
 */
#include "tap.h"
#include "sites/site_settings.h"
#include "sites/unwind/stack.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#define NOINLINE __attribute__((noinline))
#define KEEP     __asm__ volatile("" ::: "memory")
#define MOST     200u

static struct mts_thread_stack walker;

struct truth {
    uintptr_t pc[MOST];
    unsigned n;
};

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *arg) {
    struct truth *t = arg;
    int exact = 0;
    uintptr_t pc = _Unwind_GetIPInfo(context, &exact);
    /* The address behind a byte of the instruction that the frame executes. */
    if (t->n < MOST && pc != 0)
        t->pc[t->n++] = pc + (exact != 0);
    return _URC_NO_REASON;
}

/* The code of musl has no unwind information: stacks end at main's caller, and
   at functions of the C library that call back, of which a signal trampoline
   is one. */
#ifdef __GLIBC__
static const bool libc_has_frames = true;
#else
static const bool libc_has_frames = false;
#endif

static unsigned found, wrong;
static uint64_t key_here;

/* Walks from the caller, which is found by the frame information of this
   function, and sets KEY_HERE; false: it could not. */
static NOINLINE bool walk_here(void) {
    uint64_t reg[MTS_REGS] = {0};
    struct mts_cfi c;
    mts_registers(reg);
    if (mts_cfi_find(reg[MTS_REG_PC], &c) != MTS_CFI_FOUND ||
        c.cfa.kind != MTS_CFI_REGISTER)
        return false;
    uintptr_t cfa = reg[c.cfa.reg] + (uint64_t)c.cfa.offset;
    const struct mts_cfi_rule *bp = &c.reg[MTS_REG_BP];
    struct mts_stack_state from = {
        .at = (uintptr_t)__builtin_return_address(0) - 1,
        .sp = cfa,
        .bp = bp->kind == MTS_CFI_AT_CFA
                  ? *(const uintptr_t *)(cfa + (uint64_t)bp->offset)
                  : reg[MTS_REG_BP]};
    key_here = mts_stack_key(&walker, from, MOST, 1).key;
    bool good = mts_stack_walk(&walker, from, MOST, 1);
    KEEP;
    return good;
}

/* Compares the frames outside of this function, twice. */
static NOINLINE void compare(const char *what) {
    struct truth t = {.n = 0};
    _Unwind_Backtrace(note, &t);
    for (int again = 0; again < 2; again++) {
        if (!walk_here()) {
            wrong++;
            return;
        }
        unsigned n = walker.length;
        unsigned bad =
            n != t.n || walker.cut != (libc_has_frames ? MTS_STACK_WHOLE
                                                       : MTS_STACK_UNKNOWN);
        /* Frame 0 is this function, which goes on elsewhere. */
        for (unsigned i = 1; i < n && i < t.n; i++)
            bad += walker.frame[walker.count - 1 - i].state.at + 1 != t.pc[i];
        mts_stack_done(&walker);
        if (bad != 0)
            tap_diag("%s: %u frames, not %u; %u are others; end %u", what, n,
                     t.n, bad, walker.cut);
        wrong += bad != 0;
        found += n;
    }
    KEEP;
}

static void is_right(const char *what, unsigned least) {
    tap_ok(wrong == 0 && found >= 2 * least, "%s: %u frames", what, found);
    found = wrong = 0;
}

static NOINLINE void recurse(unsigned n) {
    volatile char room[48];
    room[0] = 1;
    if (n == 0)
        compare("recursion");
    else
        recurse(n - 1);
    room[1] = room[0];
}

static NOINLINE void with_alloca(size_t n) {
    volatile char *room = __builtin_alloca(n * 16);
    room[0] = 1;
    compare("alloca");
    if (n > 1)
        with_alloca(n - 1);
    room[1] = room[0];
}

struct wide {
    _Alignas(64) char bytes[64];
};
static NOINLINE void realigned(struct wide *out) {
    struct wide w;
    memset(&w, 1, sizeof(w));
    compare("a realigned stack");
    *out = w;
    KEEP;
}

static int by_size(const void *a, const void *b) {
    compare("a call back");
    return *(const int *)a - *(const int *)b;
}

/* --- Signals -------------------------------------------------------------- */

static void on_signal(int number) {
    (void)number;
    compare("a handler");
    KEEP;
}

#if defined(__aarch64__)
#define TRAP "udf #0"
#define STEP 4
#define PC   pc
#else
#define TRAP "ud2"
#define STEP 2
#define PC   gregs[REG_RIP]
#endif
/* A function without a frame that is interrupted by its first instruction. */
__asm__(".text\n"
        ".type leaf_trap, %function\n"
        "leaf_trap:\n"
        ".cfi_startproc\n" TRAP "\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size leaf_trap, .-leaf_trap\n");
void leaf_trap(void);

static void on_trap(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    compare("a handler of a leaf function");
    ((ucontext_t *)context)->uc_mcontext.PC += STEP;
}

static void handle(int number, int flags) {
    struct sigaction act;
    memset(&act, 0, sizeof(act));
    if (number == SIGILL)
        act.sa_sigaction = on_trap;
    else
        act.sa_handler = on_signal;
    act.sa_flags = flags;
    if (sigaction(number, &act, NULL) != 0)
        tap_bail("sigaction");
}

static NOINLINE void interrupted(unsigned n) {
    volatile char room[16];
    room[0] = 1;
    if (n == 0)
        raise(SIGUSR1);
    else
        interrupted(n - 1);
    room[1] = room[0];
}

static void test_signals(void) {
    const size_t bytes = (size_t)256 << 10;
    handle(SIGUSR1, 0);
    interrupted(3);
    is_right("a signal handler", 5);
    handle(SIGILL, SA_SIGINFO);
    leaf_trap();
    is_right("a handler of a function without a frame", 3);
    stack_t other = {.ss_size = bytes};
    other.ss_sp = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (other.ss_sp == MAP_FAILED || sigaltstack(&other, NULL) != 0)
        tap_bail("no alternate stack");
    handle(SIGUSR1, SA_ONSTACK);
    interrupted(5);
    is_right("a handler on another stack", 7);
    handle(SIGILL, SA_SIGINFO | SA_ONSTACK);
    leaf_trap();
    is_right("of a function without a frame", 3);
}

/* --- Calls on another stack ----------------------------------------------- */

/* Calls F on the stack that ends at TOP. Its frame is found by the frame
   pointer, or by the word at SP. */
void call_on(void *top, void (*f)(void));
void call_by_word(void *top, void (*f)(void));
#if defined(__aarch64__)
__asm__(".text\n"
        ".type call_on, %function\n"
        "call_on:\n"
        ".cfi_startproc\n"
        "stp x29, x30, [sp, -16]!\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset 29, -16\n"
        ".cfi_offset 30, -8\n"
        "mov x29, sp\n"
        ".cfi_def_cfa 29, 16\n"
        "mov sp, x0\n"
        "blr x1\n"
        "mov sp, x29\n"
        "ldp x29, x30, [sp], 16\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size call_on, .-call_on\n");
void call_by_word(void *top, void (*f)(void)) {
    call_on(top, f);
}
#elif defined(__x86_64__)
__asm__(".text\n"
        ".type call_on, @function\n"
        "call_on:\n"
        ".cfi_startproc\n"
        "push %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset 6, -16\n"
        "mov %rsp, %rbp\n"
        ".cfi_def_cfa_register 6\n"
        "mov %rdi, %rsp\n"
        "call *%rsi\n"
        "mov %rbp, %rsp\n"
        "pop %rbp\n"
        ".cfi_def_cfa 7, 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size call_on, .-call_on\n"
        ".type call_by_word, @function\n"
        "call_by_word:\n"
        ".cfi_startproc\n"
        "mov %rsp, %rax\n"
        "mov %rdi, %rsp\n"
        "push %rax\n"
        "push %rax\n"
        /* CFA: the word at SP, plus 8 */
        ".cfi_escape 0x0f, 5, 0x77, 0, 0x06, 0x23, 8\n"
        "call *%rsi\n"
        "mov (%rsp), %rsp\n"
        ".cfi_def_cfa 7, 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size call_by_word, .-call_by_word\n");
#else
void call_on(void *top, void (*f)(void)) {
    (void)top, (void)f;
}
void call_by_word(void *top, void (*f)(void)) {
    (void)top, (void)f;
}
#endif

#define SEGMENT ((size_t)64 << 10)
static char *segments;

static NOINLINE void compare_there(void) {
    compare("another stack");
    KEEP;
}
static NOINLINE void deeper_there(void) {
    call_on(segments + SEGMENT, compare_there);
    KEEP;
}
static NOINLINE void back_here(void) {
    recurse(4);
    call_on(segments + 2 * SEGMENT, deeper_there);
    call_by_word(segments + SEGMENT, compare_there);
    KEEP;
}

/* Stacks in memory from mmap, above the caller's and below. */
static void *test_other_stacks(void *name) {
    segments = mmap(NULL, 3 * SEGMENT, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (segments == MAP_FAILED)
        tap_bail("no stack");
    for (int i = 0; i < 2; i++) {
        call_on(segments + 2 * SEGMENT, compare_there);
        call_on(segments + 2 * SEGMENT, deeper_there);
        call_on(segments + 3 * SEGMENT, back_here);
    }
    munmap(segments, 3 * SEGMENT);
    is_right(name, 30);
    return NULL;
}

/* --- Ends ----------------------------------------------------------------- */

/* enter(TOP, RA) calls at_an_end on the stack below TOP, from a caller that
   would go on at RA. Nothing calls host: at_an_end may have been called by it,
   as by the words that lie there. */
void enter(uintptr_t *top, uintptr_t ra);
void at_an_end(void);
extern const char host_returns[];
#if defined(__aarch64__)
__asm__(".text\n"
        ".type enter, %function\n"
        "enter:\n"
        "mov sp, x0\n"
        "mov x30, x1\n"
        "b at_an_end\n"
        ".size enter, .-enter\n"
        ".type host, %function\n"
        "host:\n"
        ".cfi_startproc\n"
        "stp x29, x30, [sp, -16]!\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset 29, -16\n"
        ".cfi_offset 30, -8\n"
        "bl at_an_end\n"
        "host_returns:\n"
        "ldp x29, x30, [sp], 16\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size host, .-host\n");
#elif defined(__x86_64__)
__asm__(".text\n"
        ".type enter, @function\n"
        "enter:\n"
        "mov %rdi, %rsp\n"
        "push %rsi\n"
        "jmp at_an_end\n"
        ".size enter, .-enter\n"
        ".type host, @function\n"
        "host:\n"
        ".cfi_startproc\n"
        "sub $8, %rsp\n"
        ".cfi_adjust_cfa_offset 8\n"
        "call at_an_end\n"
        "host_returns:\n"
        "add $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size host, .-host\n");
#else
const char host_returns[1];
void enter(uintptr_t *top, uintptr_t ra) {
    (void)top, (void)ra;
}
#endif

static jmp_buf back;
static struct {
    uint64_t key[2];
    unsigned bad;
    bool leads;
} ends;

NOINLINE void at_an_end(void) {
    bool good = walk_here() && key_here != 0 &&
                walker.length == (ends.leads ? 2 : 1) &&
                (!ends.leads || walker.frame[walker.count - 2].state.at + 1 ==
                                    (uintptr_t)host_returns);
    if (ends.key[ends.leads] == 0)
        ends.key[ends.leads] = key_here;
    ends.bad += !good || key_here != ends.key[ends.leads];
    mts_stack_done(&walker);
    longjmp(back, 1);
}

/* Stacks of the same calls at the same place, whose last word is 0 or leads
   on. */
static void test_ends(void) {
    _Alignas(16) uintptr_t area[4096];
    uintptr_t *top = area + 4000;
    for (volatile int i = 0; i < 8; i++) {
        ends.leads = i & 2;
        memset(top, 0, 16 * sizeof(*top));
        if (setjmp(back) == 0)
            enter(top, ends.leads ? (uintptr_t)host_returns : 0);
    }
    tap_ok(ends.bad == 0 && ends.key[0] != ends.key[1],
           "a walk that ended by a word goes on where that word leads");
}

int main(void) {
    struct wide w;
    int numbers[] = {5, 3, 4, 1, 2};
    uint64_t walks = 0, different = 0;
    mts_settings.pid = (uint32_t)getpid();
    if (!mts_stack_is_possible())
        return tap_skip_all("stacks are not walked here");
    mts_stack_check_all();
    recurse(0);
    is_right("few frames", 2);
    for (unsigned n = 0; n < 150; n += 7)
        recurse(n);
    is_right("deep stacks", 150);
    with_alloca(9);
    is_right("frames that alloca moves", 9);
    realigned(&w);
    is_right("a realigned stack", 2);
    qsort(numbers, TCM_ARRAY_SIZE(numbers), sizeof(*numbers), by_size);
    is_right("a call back from the C library", libc_has_frames ? 8 : 2);
    if (libc_has_frames)
        test_signals();
    else
        tap_skip(
            "signal handlers: musl's trampoline has no unwind information");
    test_ends();
    static char first[] = "calls on other stacks",
                second[] = "calls on other stacks of a thread";
    pthread_t id;
    test_other_stacks(first);
    mts_stack_forget(&walker);
    if (pthread_create(&id, NULL, test_other_stacks, second) != 0)
        tap_bail("no thread");
    pthread_join(id, NULL);
    bool checked = mts_stack_checks(&walks, &different);
    tap_ok(checked && different == 0 && walks > 50,
           "%u walks, %u differ from those that remember nothing",
           (unsigned)walks, (unsigned)different);
    return tap_done();
}
