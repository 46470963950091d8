/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic operations with the memory order in their names: it is visible at the
 * call and can be searched for. No other file names a memory order. Operands
 * are plain integer and pointer lvalues of up to 8 bytes.
 */
#ifndef TCM_BASE_ATOMIC_H
#define TCM_BASE_ATOMIC_H

#include "base/compiler.h"

#define tcm_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define tcm_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define tcm_load_seq_cst(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)

/*
 * A relaxed load that the compiler may fold into the instruction that uses the
 * value; it does not fold an atomic one. For words that a fast path reads once:
 * an aligned load of at most a register is not torn.
 */
#if defined(__SANITIZE_THREAD__)
#define tcm_load_folded(p) tcm_load_relaxed(p)
#else
#define tcm_load_folded(p) (*(p))
#endif

#define tcm_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define tcm_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define tcm_store_seq_cst(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)
#define tcm_add_relaxed(p, v)   __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define tcm_add_acq_rel(p, v)   __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)
#define tcm_sub_acq_rel(p, v)   __atomic_fetch_sub((p), (v), __ATOMIC_ACQ_REL)
#define tcm_swap_acquire(p, v)  __atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE)
#define tcm_swap_release(p, v)  __atomic_exchange_n((p), (v), __ATOMIC_RELEASE)
#define tcm_swap_acq_rel(p, v)  __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)

/* Adds N to a counter that has one writer at a time, and readers. */
static inline void tcm_add_owned(uint64_t *counter, uint64_t n) {
    tcm_store_relaxed(counter, *counter + n);
}

/* Strong compare and exchange; *EXPECTED is updated on failure. */
#define tcm_cas_acquire(p, expected, v)                                        \
    __atomic_compare_exchange_n((p), (expected), (v), false, __ATOMIC_ACQUIRE, \
                                __ATOMIC_RELAXED)
#define tcm_cas_acq_rel(p, expected, v)                                        \
    __atomic_compare_exchange_n((p), (expected), (v), false, __ATOMIC_ACQ_REL, \
                                __ATOMIC_ACQUIRE)

/*
 * Full fence: earlier stores are visible to all threads before any later load,
 * or later read of the clock.
 */
#define tcm_fence_seq_cst() __atomic_thread_fence(__ATOMIC_SEQ_CST)
/* Orders against the compiler only: for a signal handler of the same thread, or
   a reader of memory that outlives a killed process. */
#define tcm_fence_signal() __atomic_signal_fence(__ATOMIC_SEQ_CST)

#if defined(__x86_64__)
#define TCM_CPU_RELAX __builtin_ia32_pause()
#elif defined(__aarch64__)
#define TCM_CPU_RELAX __asm__ __volatile__("yield")
#else
#define TCM_CPU_RELAX ((void)0)
#endif
static TCM_ALWAYS_INLINE void tcm_cpu_relax(void) {
    TCM_CPU_RELAX;
}

#endif
