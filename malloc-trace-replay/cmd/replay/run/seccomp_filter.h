/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Filters of system calls (seccomp), made step by step.
 *
 * Threads: one makes a filter.
 */
#ifndef TOOL_CMD_REPLAY_RUN_SECCOMP_FILTER_H
#define TOOL_CMD_REPLAY_RUN_SECCOMP_FILTER_H

#include "base/compiler.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

/* Processor in the kernel's account; not defined: filters are not supported. */
#if defined(__x86_64__)
#define REPLAY_FILTER_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define REPLAY_FILTER_ARCH AUDIT_ARCH_AARCH64
#endif

#define REPLAY_FILTER_MOST 256

struct replay_filter {
    struct sock_filter step[REPLAY_FILTER_MOST];
    size_t length; /* more than REPLAY_FILTER_MOST: it has no room */
};

static inline void replay_filter_put(struct replay_filter *f,
                                     struct sock_filter step) {
    if (f->length < REPLAY_FILTER_MOST)
        f->step[f->length] = step;
    f->length++;
}

/* Loads 32 bits at OFFSET of struct seccomp_data. */
static inline void replay_filter_load(struct replay_filter *f, size_t offset) {
    replay_filter_put(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                      (uint32_t)offset));
}

#define REPLAY_FILTER_LOW(field) offsetof(struct seccomp_data, field)
/* On processors with the low byte first. */
#define REPLAY_FILTER_HIGH(field) (offsetof(struct seccomp_data, field) + 4)

/* Compares what was loaded with VALUE by HOW (BPF_JEQ, BPF_JGE or BPF_JSET) and
   leaves out YES or NO of the next steps. */
static inline void replay_filter_jump(struct replay_filter *f, unsigned how,
                                      uint32_t value, uint8_t yes, uint8_t no) {
    replay_filter_put(
        f, (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | how | BPF_K),
                                        value, yes, no));
}

/* Ends the filter with the result WHAT (SECCOMP_RET_...). */
static inline void replay_filter_end(struct replay_filter *f, uint32_t what) {
    replay_filter_put(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

#ifdef REPLAY_FILTER_ARCH
/* Begins the filter: calls of another kind of program pass. The number of the
   call is loaded. */
static inline void replay_filter_begin(struct replay_filter *f) {
    f->length = 0;
    replay_filter_load(f, REPLAY_FILTER_LOW(arch));
    replay_filter_jump(f, BPF_JEQ, REPLAY_FILTER_ARCH, 1, 0);
    replay_filter_end(f, SECCOMP_RET_ALLOW);
    replay_filter_load(f, REPLAY_FILTER_LOW(nr));
}
#endif

/* Lets calls from code in [BEGIN, END) pass. False: the range cannot be
   expressed, as it crosses a multiple of 4 GiB. */
static inline bool replay_filter_trust(struct replay_filter *f, uintptr_t begin,
                                       uintptr_t end) {
    if ((uint64_t)begin >> 32 != (uint64_t)end >> 32)
        return false;
    replay_filter_load(f, REPLAY_FILTER_HIGH(instruction_pointer));
    replay_filter_jump(f, BPF_JEQ, (uint32_t)((uint64_t)begin >> 32), 0, 4);
    replay_filter_load(f, REPLAY_FILTER_LOW(instruction_pointer));
    replay_filter_jump(f, BPF_JGE, (uint32_t)begin, 0, 2);
    replay_filter_jump(f, BPF_JGE, (uint32_t)end, 1, 0);
    replay_filter_end(f, SECCOMP_RET_ALLOW);
    return true;
}

static inline bool replay_filter_fits(const struct replay_filter *f) {
    return f->length <= REPLAY_FILTER_MOST;
}

#endif
