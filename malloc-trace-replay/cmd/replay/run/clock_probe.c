/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/run/clock_probe.h"
#include "base/atomic.h"
#include "base/linux/os_syscall.h"
#include "base/linux/os_file.h"
#include "cmd/replay/repeat.h"
#include "cmd/replay/run/seccomp_filter.h"
#include "common/child.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* Time after which the probe ends itself. A child with a limit would need a
   signal to this process, which threads of an allocator may take. */
#define PROBE_LIMIT_SECONDS 10

/* --- Modules -------------------------------------------------------------- */

#define MODULES 64

struct module {
    uintptr_t begin, end; /* addresses of its code */
    bool is_trusted;      /* the C library, the loader, or this program */
    char name[64];
};

static struct module module[MODULES];
static size_t modules;
static struct replay_clock_foreign result;

static int add_module(struct dl_phdr_info *info, size_t size, void *unused) {
    static bool is_later;
    (void)size;
    (void)unused;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash == NULL ? info->dlpi_name : slash + 1;
    bool is_program = !is_later;
    is_later = true;
    for (size_t i = 0; i < info->dlpi_phnum && modules < MODULES; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || (p->p_flags & PF_X) == 0)
            continue;
        struct module *m = &module[modules++];
        m->begin = info->dlpi_addr + p->p_vaddr;
        m->end = m->begin + p->p_memsz;
        m->is_trusted = is_program || strncmp(name, "libc.so", 7) == 0 ||
                        strncmp(name, "libc.musl", 9) == 0 ||
                        strncmp(name, "libpthread", 10) == 0 ||
                        strncmp(name, "ld-", 3) == 0 ||
                        strncmp(name, "linux-vdso", 10) == 0 ||
                        strncmp(name, "linux-gate", 10) == 0;
        snprintf(m->name, sizeof(m->name), "%s", name);
    }
    return 0;
}

static const struct module *module_of(uintptr_t at) {
    for (size_t i = 0; i < modules; i++)
        if (at >= module[i].begin && at < module[i].end)
            return &module[i];
    return NULL;
}

/* Notes the module of the code at AT, unless it is trusted. Called by signal
   handlers. */
static void note(char *name, size_t size, uintptr_t at) {
    const struct module *m = module_of(at);
    if (m != NULL && m->is_trusted)
        return;
    const char *text = m == NULL ? "code of no module" : m->name;
    size_t n = strnlen(text, size - 1);
    memcpy(name, text, n);
    name[n] = '\0';
}

/* --- The time-stamp counter ----------------------------------------------- */

#if defined(__x86_64__)

/* Executes the instruction of a thread whose read of the counter faulted. */
static void on_fault(int signal, siginfo_t *info, void *context) {
    static const unsigned char rdtsc[] = {0x0f, 0x31};
    static const unsigned char rdtscp[] = {0x0f, 0x01, 0xf9};
    ucontext_t *c = context;
    greg_t *reg = c->uc_mcontext.gregs;
    uintptr_t at = (uintptr_t)reg[REG_RIP];
    const unsigned char *code = (const unsigned char *)at;
    bool is_first = memcmp(code, rdtsc, sizeof(rdtsc)) == 0;
    (void)info;
    if (!is_first && memcmp(code, rdtscp, sizeof(rdtscp)) != 0) {
        /* Other faults end the probe as they would end a program. */
        struct sigaction usual = {.sa_handler = SIG_DFL};
        sigaction(signal, &usual, NULL);
        return;
    }
    note(result.counter, sizeof(result.counter), at);
    uint32_t low, high, processor;
    prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0);
    __asm__ __volatile__("rdtscp" : "=a"(low), "=d"(high), "=c"(processor));
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
    reg[REG_RAX] = low;
    reg[REG_RDX] = high;
    if (!is_first)
        reg[REG_RCX] = processor;
    reg[REG_RIP] = (greg_t)(at + (is_first ? sizeof(rdtsc) : sizeof(rdtscp)));
}

static void watch_counter(void) {
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags = SA_SIGINFO | SA_NODEFER};
    result.counter_unknown = sigaction(SIGSEGV, &action, NULL) != 0 ||
                             prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0;
}

#else

/* Finds nothing: reads of the counter do not fault on this processor. */
static void watch_counter(void) {
    result.counter_unknown = true;
}

#endif

/* --- System calls --------------------------------------------------------- */

#if defined(__x86_64__)
#define CODE_AT(c) ((uintptr_t)(c)->uc_mcontext.gregs[REG_RIP])
#define RESULT(c)  ((c)->uc_mcontext.gregs[REG_RAX])
#define ARGUMENT(c, i)                                                         \
    ((long)(c)->uc_mcontext.gregs[(const int[]){REG_RDI, REG_RSI, REG_RDX,     \
                                                REG_R10, REG_R8, REG_R9}[i]])
#elif defined(__aarch64__)
#define CODE_AT(c)     ((uintptr_t)(c)->uc_mcontext.pc)
#define RESULT(c)      ((c)->uc_mcontext.regs[0])
#define ARGUMENT(c, i) ((long)(c)->uc_mcontext.regs[i])
#endif

#if defined(REPLAY_FILTER_ARCH)

static void on_call(int signal, siginfo_t *info, void *context) {
    ucontext_t *c = context;
    int before = errno;
    (void)signal;
    note(result.kernel, sizeof(result.kernel), CODE_AT(c));
    long value = tcm_syscall(info->si_syscall, ARGUMENT(c, 0), ARGUMENT(c, 1),
                             ARGUMENT(c, 2), ARGUMENT(c, 3), ARGUMENT(c, 4),
                             ARGUMENT(c, 5));
    RESULT(c) = (__typeof__(RESULT(c)))(value == -1 ? -errno : value);
    errno = before;
}

/* Makes calls that tell time or wait for it trap, unless they come from trusted
   code. False: the kernel has no such filters, or a range of code cannot be
   expressed in one. */
static bool watch_kernel(void) {
    static const uint32_t number[] = {
        SYS_clock_gettime,
        SYS_gettimeofday,
        SYS_nanosleep,
        SYS_clock_nanosleep,
        SYS_futex,
#if defined(SYS_time)
        SYS_time,
#endif
    };
    enum { NUMBERS = sizeof(number) / sizeof(number[0]) };
    struct sigaction action = {.sa_sigaction = on_call,
                               .sa_flags = SA_SIGINFO | SA_NODEFER};
    static struct replay_filter f;
    replay_filter_begin(&f);
    for (uint32_t i = 0; i < NUMBERS; i++)
        replay_filter_jump(&f, BPF_JEQ, number[i], (uint8_t)(NUMBERS - i), 0);
    replay_filter_end(&f, SECCOMP_RET_ALLOW);
    /* A futex without a timeout waits for no time. */
    replay_filter_jump(&f, BPF_JEQ, SYS_futex, 0, 5);
    replay_filter_load(&f, REPLAY_FILTER_LOW(args[3]));
    replay_filter_jump(&f, BPF_JEQ, 0, 0, 3);
    replay_filter_load(&f, REPLAY_FILTER_HIGH(args[3]));
    replay_filter_jump(&f, BPF_JEQ, 0, 0, 1);
    replay_filter_end(&f, SECCOMP_RET_ALLOW);
    for (size_t i = 0; i < modules; i++)
        if (module[i].is_trusted &&
            !replay_filter_trust(&f, module[i].begin, module[i].end))
            return false;
    replay_filter_end(&f, SECCOMP_RET_TRAP);
    struct sock_fprog program = {(unsigned short)f.length, f.step};
    return replay_filter_fits(&f) && sigaction(SIGSYS, &action, NULL) == 0 &&
           prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

#else

static bool watch_kernel(void) {
    return false;
}

#endif

/* --- Work for the allocator ----------------------------------------------- */

#define BLOCKS 512

static bool is_found(void) {
    return result.counter[0] != '\0' && result.kernel[0] != '\0';
}

/* Allocates blocks of all sizes, more of them alive than caches keep, and frees
   them in a different order. */
static void *work(void *seed) {
    static __thread void *block[BLOCKS];
    uint32_t random = (uint32_t)(uintptr_t)seed;
    for (uint32_t turn = 0; turn < 20000 && !is_found(); turn++) {
        random = random * 1664525 + 1013904223;
        void **b = &block[random >> 16 & (BLOCKS - 1)];
        free(*b);
        size_t size = (size_t)1 << (random >> 28) << (turn % 64 == 0 ? 7 : 0);
        *b = malloc(size + (random & 63));
        if (*b != NULL)
            memset(*b, 1, size < 64 ? size : 64);
        if (turn % 4096 == 0) {
            struct timespec ts = {0, 2000000};
            nanosleep(&ts, NULL);
        }
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        free(block[i]);
        block[i] = NULL;
    }
    return NULL;
}

void replay_clock_probe_main(int fd) {
    pthread_t thread;
    alarm(PROBE_LIMIT_SECONDS);
    dl_iterate_phdr(add_module, NULL);
    result.kernel_unknown = !watch_kernel();
    watch_counter();
    bool is_made = pthread_create(&thread, NULL, work, (void *)77) == 0;
    work((void *)5);
    if (is_made)
        pthread_join(thread, NULL);
    (void)tcm_io_write_all(fd, &result, sizeof(result));
    _exit(0);
}

/* --- The process that asks ------------------------------------------------ */

void replay_clock_probe(struct replay_clock_foreign *found, char **words) {
    char option[48];
    struct tool_child_end end = {0};
    memset(found, 0, sizeof(*found));
    found->counter_unknown = found->kernel_unknown = true;
    int fd = tool_child_scratch("clock");
    if (fd < 0 || words == NULL)
        return;
    snprintf(option, sizeof(option), "--" REPLAY_CLOCK_PROBE "=%d", fd);
    /* -a is among the other words, which have no effect */
    words[1] = option;
    const struct tool_child_spec what = {.file = replay_again_file(),
                                         .argv = words,
                                         .out = TOOL_CHILD_NULL,
                                         .err = TOOL_CHILD_NULL,
                                         .keep = &fd,
                                         .keep_count = 1,
                                         .signals = TOOL_CHILD_STOPS,
                                         .dies_with_parent = true};
    char text[sizeof(*found) + 1];
    if (tool_child_run(&what, 0, &end) &&
        tool_child_read(fd, text, sizeof(text)) == sizeof(*found))
        memcpy(found, text, sizeof(*found));
    close(fd);
}
