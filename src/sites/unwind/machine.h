/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Instructions and registers that walks of a stack depend on: all that differs
 * between processors, beside the numbers of registers in cfi.h.
 *
 * On aarch64 a return address may be signed (pointer authentication). Walks use
 * the plain address, and read the stack as if each one were signed: that of an
 * unsigned one is the same.
 *
 * Threads: any.
 */
#ifndef TCM_SITES_UNWIND_MACHINE_H
#define TCM_SITES_UNWIND_MACHINE_H

#include "base/compiler.h"
#include "sites/unwind/cfi.h"

#include <signal.h>
#include <string.h>
#include <ucontext.h>

/* MTS_CALL_MAX: bytes of the longest call instruction.
   mts_frame_tells_caller: a frame pointer is enough to find the caller's
   registers.
   MTS_SIGNAL_REGS: where on the stack of a signal trampoline that is known by
   its code (mts_is_sigreturn) the interrupted registers lie, in the order of
   their numbers. */
#if defined(__x86_64__)

#define MTS_CALL_MAX 7u
enum { mts_frame_tells_caller = true, MTS_SIGNAL_REGS = 0 };

/* The address that RA, a word of the stack or a register, returns to. */
static TCM_ALWAYS_INLINE uintptr_t mts_return_address(uintptr_t ra) {
    return ra;
}

/* True if the MTS_CALL_MAX bytes before END end in a call: e8 and 4 bytes, or
   ff /2 with 0 to 5 bytes of operand. */
static inline bool mts_is_call(const uint8_t *end) {
    if (end[-5] == 0xE8)
        return true;
    for (int n = 2; n <= (int)MTS_CALL_MAX; n++)
        if (end[-n] == 0xFF && (end[1 - n] & 0x38) == 0x10)
            return true;
    return false;
}

/* True if the two instructions at CODE are those of a signal trampoline whose
   call frame information is none, or incomplete. */
static inline bool mts_is_sigreturn(const uint32_t *code) {
    (void)code;
    return false;
}

/* Puts those registers of the running function that its callers' frames depend
   on into REG. */
static TCM_ALWAYS_INLINE void mts_registers(uint64_t *reg) {
    __asm__ volatile("movq %%rbx, 24(%0)\n\t"
                     "movq %%rbp, 48(%0)\n\t"
                     "movq %%rsp, 56(%0)\n\t"
                     "movq %%r12, 96(%0)\n\t"
                     "movq %%r13, 104(%0)\n\t"
                     "movq %%r14, 112(%0)\n\t"
                     "movq %%r15, 120(%0)\n\t"
                     "leaq 0f(%%rip), %%rax\n\t"
                     "0:\n\t"
                     "movq %%rax, 128(%0)"
                     :
                     : "r"(reg)
                     : "rax", "memory");
}

#elif defined(__aarch64__)

#define MTS_CALL_MAX 4u
struct mts_signal_frame {
    siginfo_t info;
    ucontext_t context;
};
/* A frame record may lie anywhere in its frame. */
enum {
    mts_frame_tells_caller = false,
    MTS_SIGNAL_REGS = offsetof(struct mts_signal_frame, context) +
                      offsetof(ucontext_t, uc_mcontext.regs)
};

static TCM_ALWAYS_INLINE uintptr_t mts_return_address(uintptr_t ra) {
    register uintptr_t link __asm__("x30") = ra;
    /* xpaclri; processors without signatures execute it as a no-op. */
    __asm__("hint #7" : "+r"(link));
    return link;
}

/* bl; blr, plain or with any form of authentication. */
static inline bool mts_is_call(const uint8_t *end) {
    uint32_t code;
    memcpy(&code, end - MTS_CALL_MAX, sizeof(code));
    return (code & 0xFC000000) == 0x94000000 ||
           (code & 0xFFFFFC1F) == 0xD63F0000 ||
           (code & 0xFEFFF800) == 0xD63F0800;
}

/* mov x8, 139; svc 0: in the vdso of the kernel, a C library, or a page that an
   emulator made. What the vdso has for it lacks the stack pointer. */
static inline bool mts_is_sigreturn(const uint32_t *code) {
    return code[0] == 0xD2801168 && code[1] == 0xD4000001;
}

/* Changing x30 makes the compiler save it before: in a frame that has made no
   call the return address would be found nowhere else. */
static TCM_ALWAYS_INLINE void mts_registers(uint64_t *reg) {
    __asm__ volatile("stp x19, x20, [%0, #152]\n\t"
                     "stp x21, x22, [%0, #168]\n\t"
                     "stp x23, x24, [%0, #184]\n\t"
                     "stp x25, x26, [%0, #200]\n\t"
                     "stp x27, x28, [%0, #216]\n\t"
                     "str x29, [%0, #232]\n\t"
                     "mov x30, sp\n\t"
                     "str x30, [%0, #248]\n\t"
                     "adr x30, 0f\n\t"
                     "0:\n\t"
                     "str x30, [%0, #256]"
                     :
                     : "r"(reg)
                     : "x30", "memory");
}

#else

#define MTS_CALL_MAX 1u
enum { mts_frame_tells_caller = true, MTS_SIGNAL_REGS = 0 };
static TCM_ALWAYS_INLINE uintptr_t mts_return_address(uintptr_t ra) {
    return ra;
}
static inline bool mts_is_call(const uint8_t *end) {
    (void)end;
    return false;
}
static inline bool mts_is_sigreturn(const uint32_t *code) {
    (void)code;
    return false;
}
static TCM_ALWAYS_INLINE void mts_registers(uint64_t *reg) {
    (void)reg;
}

#endif

#endif
