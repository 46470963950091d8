/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/atomic.h"
#include "base/linux/elf_symbols.h"
#include "base/linux/os_syscall.h"

#include <sys/auxv.h>

#if TCM_SYSCALL_RAW

static int by_system_call(clockid_t id, struct timespec *ts) {
    return (int)tcm_syscall(SYS_clock_gettime, id, ts);
}

/* clock_gettime of the vDSO, the object that the kernel maps into each process.
   NULL: there is none. */
static tcm_clock_function *find_vdso(void) {
#if defined(__x86_64__)
    static const char name[] = "__vdso_clock_gettime";
#else
    static const char name[] = "__kernel_clock_gettime";
#endif
    const ElfW(Ehdr) *file = (const ElfW(Ehdr) *)getauxval(AT_SYSINFO_EHDR);
    struct tcm_elf_symbols symbols;
    if (file == NULL)
        return NULL;
    uintptr_t at = (uintptr_t)file;
    const ElfW(Phdr) *phdrs = (const ElfW(Phdr) *)(at + file->e_phoff);
    uintptr_t bias = at;
    for (size_t i = file->e_phnum; i-- > 0;)
        if (phdrs[i].p_type == PT_LOAD)
            bias = at + phdrs[i].p_offset - phdrs[i].p_vaddr;
    if (!tcm_elf_symbols(&symbols, bias, phdrs, file->e_phnum))
        return NULL;
    const ElfW(Sym) *symbol = tcm_elf_find(&symbols, name);
    return symbol == NULL ? NULL
                          : (tcm_clock_function *)(bias + symbol->st_value);
}

/* Initial value of tcm_clock_read: finds the function, stores it and reads the
   clock. Threads that do so at once store the same value. */
static int find_and_read(clockid_t id, struct timespec *ts) {
    tcm_clock_function *found = find_vdso();
    if (found == NULL)
        found = by_system_call;
    tcm_store_relaxed(&tcm_clock_read, found);
    return found(id, ts);
}

tcm_clock_function *tcm_clock_read = find_and_read;

#else

tcm_clock_function *tcm_clock_read = clock_gettime;

#endif
