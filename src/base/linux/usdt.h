/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Statically defined probes as SystemTap, gdb, perf and eBPF programs know
 * them. A probe is a no-op instruction, and a note in the section .note.stapsdt
 * that is not loaded. The note names the instruction's address, a semaphore and
 * the places of the arguments. A listener raises the semaphore, 16 bits in the
 * section .probes, while it listens.
 *
 * The note: type 3, owner "stapsdt", three addresses of 8 bytes (instruction,
 * base, semaphore), three strings (provider, name, arguments as SIZE@PLACE).
 * The base is a byte of the section .stapsdt.base, by whose address a reader
 * corrects the others after the file was prelinked.
 *
 * Arguments of 8 bytes are in the registers of a function's first arguments:
 * some listeners read these without asking the note.
 */
#ifndef TCM_BASE_LINUX_USDT_H
#define TCM_BASE_LINUX_USDT_H

#include "base/compiler.h"

#if defined(__x86_64__)
#define TCM_USDT_IN_0 __asm__("rdi")
#define TCM_USDT_IN_1 __asm__("rsi")
#define TCM_USDT_IN_2 __asm__("rdx")
#elif defined(__aarch64__)
#define TCM_USDT_IN_0 __asm__("x0")
#define TCM_USDT_IN_1 __asm__("x1")
#define TCM_USDT_IN_2 __asm__("x2")
#else
#define TCM_USDT_IN_0
#define TCM_USDT_IN_1
#define TCM_USDT_IN_2
#endif

/* Defines a semaphore. */
#define TCM_USDT_SEMAPHORE(name)                                               \
    uint16_t name __attribute__((section(".probes"), used))

#define TCM_USDT_NOTE(provider, name, semaphore, arguments)                    \
    "990: nop\n"                                                               \
    ".pushsection .note.stapsdt,\"\",\"note\"\n"                               \
    ".balign 4\n"                                                              \
    ".4byte 992f-991f, 994f-993f, 3\n"                                         \
    "991: .asciz \"stapsdt\"\n"                                                \
    "992: .balign 4\n"                                                         \
    "993: .8byte 990b\n"                                                       \
    ".8byte _.stapsdt.base\n"                                                  \
    ".8byte " #semaphore "\n"                                                  \
    ".asciz \"" #provider "\"\n"                                               \
    ".asciz \"" #name "\"\n"                                                   \
    ".asciz \"" arguments "\"\n"                                               \
    "994: .balign 4\n"                                                         \
    ".popsection\n"                                                            \
    ".ifndef _.stapsdt.base\n"                                                 \
    ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"    \
    ".weak _.stapsdt.base\n"                                                   \
    ".hidden _.stapsdt.base\n"                                                 \
    "_.stapsdt.base: .space 1\n"                                               \
    ".size _.stapsdt.base, 1\n"                                                \
    ".popsection\n"                                                            \
    ".endif\n"

/* Probes with one argument and with three: integers of 8 bytes. */
#define TCM_USDT_1(provider, name, semaphore, a)                               \
    do {                                                                       \
        register uint64_t usdt_a TCM_USDT_IN_0 = (a);                          \
        __asm__ __volatile__(TCM_USDT_NOTE(provider, name, semaphore, "8@%0")  \
                             :                                                 \
                             : "r"(usdt_a)                                     \
                             : "memory");                                      \
    } while (0)
#define TCM_USDT_3(provider, name, semaphore, a, b, c)                         \
    do {                                                                       \
        register uint64_t usdt_a TCM_USDT_IN_0 = (a);                          \
        register uint64_t usdt_b TCM_USDT_IN_1 = (b);                          \
        register uint64_t usdt_c TCM_USDT_IN_2 = (c);                          \
        __asm__ __volatile__(                                                  \
            TCM_USDT_NOTE(provider, name, semaphore, "8@%0 8@%1 8@%2")         \
            :                                                                  \
            : "r"(usdt_a), "r"(usdt_b), "r"(usdt_c)                            \
            : "memory");                                                       \
    } while (0)

#endif
