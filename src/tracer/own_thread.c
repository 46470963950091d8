/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/own_thread.h"

#include "base/elf_symbols.h"
#include "base/os_syscall.h"
#include "base/os_thread.h"
#include "base/raw_io.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif

#define STACK_BYTES ((size_t)256 << 10)
/* Links of a folder in /proc that has no folders. */
#define FOLDER_LINKS 2u

/* Threads that the C library counts, or NULL. */
static unsigned *counted;
/* The C library's: those of the program, or of another library that stands
   before it, would see threads that the program did not make, or be called
   before that library's constructor. */
static struct {
    __typeof__(pthread_create) *create;
    __typeof__(pthread_join) *join;
    __typeof__(pthread_attr_init) *attr_init;
    __typeof__(pthread_attr_setstacksize) *attr_setstacksize;
    __typeof__(pthread_attr_destroy) *attr_destroy;
} own = {pthread_create, pthread_join, pthread_attr_init,
         pthread_attr_setstacksize, pthread_attr_destroy};

/* FOUND is set to the function NAME of S; false: there is none. */
static bool find_function(const struct tcm_elf_symbols *s, const char *name,
                          void *found) {
    const ElfW(Sym) *symbol = tcm_elf_find(s, name);
    if (symbol == NULL)
        return false;
    uintptr_t address = s->bias + symbol->st_value;
    memcpy(found, &address, sizeof(address));
    return true;
}

/* The same of S, libc.so.6 or, before glibc 2.34, libpthread.so.0. */
static bool find_functions(const struct tcm_elf_symbols *s) {
    (void)find_function(s, "__nptl_nthreads", &counted);
    return find_function(s, "pthread_create", &own.create) &&
           find_function(s, "pthread_join", &own.join) &&
           find_function(s, "pthread_attr_init", &own.attr_init) &&
           find_function(s, "pthread_attr_setstacksize",
                         &own.attr_setstacksize) &&
           find_function(s, "pthread_attr_destroy", &own.attr_destroy);
}

static int look_at_library(struct dl_phdr_info *info, size_t size, void *arg) {
    const char *name = strrchr(info->dlpi_name, '/');
    struct tcm_elf_symbols s;
    (void)size;
    (void)arg;
    if (name != NULL &&
        (strcmp(name, "/libc.so.6") == 0 ||
         strcmp(name, "/libpthread.so.0") == 0) &&
        tcm_elf_symbols(&s, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum))
        (void)find_functions(&s);
    return 0;
}

static bool find_in_libc(void) {
#if defined(__GLIBC__)
    struct tcm_elf_module libc;
    struct tcm_elf_symbols s;
    return TCM_SYSCALL_RAW &&
           tcm_elf_module_at((uintptr_t)&gnu_get_libc_version, &libc) &&
           tcm_elf_symbols_at(&s, libc.map->l_addr, libc.map->l_ld) &&
           find_functions(&s);
#else
    return false;
#endif
}

/* FOUND is set to the next function NAME behind this library, if any. */
static void find_next(const char *name, void *found) {
    void *address = dlsym(RTLD_NEXT, name);
    if (address != NULL)
        memcpy(found, &address, sizeof(address));
}

void mtr_own_init(void) {
    if (find_in_libc())
        return;
    mtr_config.host->enter_private();
    counted = dlsym(RTLD_DEFAULT, "__nptl_nthreads");
    /* Of another C library, or under a sanitizer, the next ones. */
    find_next("pthread_create", &own.create);
    find_next("pthread_join", &own.join);
    if (TCM_SYSCALL_RAW)
        dl_iterate_phdr(look_at_library, NULL);
    /* The program's first call of dlerror is not to tell of these. */
    (void)dlerror();
    mtr_config.host->leave_private();
}

bool mtr_own_create(pthread_t *thread, void *(*body)(void *), void *arg,
                    int *error) {
    pthread_attr_t attr;
    uint64_t mask = tcm_block_signals();
    own.attr_init(&attr);
    own.attr_setstacksize(&attr, STACK_BYTES);
    int rc = own.create(thread, &attr, body, arg);
    if (rc == EINVAL) {
        /* Thread-local storage of the program larger than our stack. */
        own.attr_setstacksize(&attr, 32 * STACK_BYTES);
        rc = own.create(thread, &attr, body, arg);
    }
    if (rc != 0)
        *thread = 0;
    own.attr_destroy(&attr);
    tcm_restore_signals(mask);
    *error = rc;
    return rc == 0;
}

void mtr_own_begin(struct mtr_recorder *rec, const char *name) {
    mtr_config.host->enter_private();
    tcm_add_acq_rel(&rec->own_threads, 1u);
    if (counted != NULL)
        tcm_sub_acq_rel(counted, 1u);
    tcm_syscall(SYS_prctl, PR_SET_NAME, name, 0, 0, 0);
    tcm_syscall(SYS_unshare, CLONE_FS);
}

/* The first thread's exit code: the last field of its line in /proc, in the
   form of wait. */
static int first_exit_code(void) {
    char text[512];
    const char *p = NULL;
    int code = 0;
    if (tcm_io_read_file("/proc/self/stat", text, sizeof(text)) > 0)
        p = strrchr(text, ' ');
    while (p != NULL && *++p >= '0' && *p <= '9')
        code = code * 10 + (*p - '0');
    return code >> 8;
}

void mtr_own_end(struct mtr_recorder *rec, bool alone) {
    if (alone && counted != NULL) {
        int code = first_exit_code();
        tcm_sub_acq_rel(&rec->own_threads, 1u);
        tcm_syscall(SYS_exit, code);
    }
    if (counted != NULL)
        tcm_add_acq_rel(counted, 1u);
    tcm_sub_acq_rel(&rec->own_threads, 1u);
}

void mtr_own_join(pthread_t *thread) {
    pthread_t ended = tcm_swap_acq_rel(thread, (pthread_t)0);
    int state;
    if (ended == 0)
        return;
    mtr_config.host->enter_private();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    own.join(ended, NULL);
    pthread_setcancelstate(state, &state);
    mtr_config.host->leave_private();
}

/* --- Are they alone? ----------------------------------------------------- */

static int open_raw(const char *path) {
    return (int)tcm_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC,
                            0);
}

void mtr_statm_open(struct mtr_statm *m) {
    m->fd = open_raw("/proc/self/statm");
    m->first_is_gone = false;
}

void mtr_statm_close(struct mtr_statm *m) {
    if (m->fd >= 0)
        tcm_syscall(SYS_close, m->fd);
    m->fd = -1;
}

static bool read_fields(int fd, uint64_t field[3]) {
    char text[128];
    long n =
        fd < 0 ? -1 : tcm_syscall(SYS_pread64, fd, text, sizeof(text) - 1, 0L);
    if (n <= 0)
        return false;
    text[n] = '\0';
    const char *p = text;
    for (unsigned i = 0; i < 3; i++) {
        for (field[i] = 0; *p >= '0' && *p <= '9'; p++)
            field[i] = field[i] * 10 + (uint64_t)(*p - '0');
        if (*p == ' ')
            p++;
    }
    return true;
}

bool mtr_statm_read(struct mtr_statm *m, uint64_t field[3]) {
    if (!read_fields(m->fd, field))
        return false;
    if (field[0] == 0 && !m->first_is_gone) {
        m->first_is_gone = true;
        tcm_syscall(SYS_close, m->fd);
        m->fd = open_raw("/proc/thread-self/statm");
        return read_fields(m->fd, field);
    }
    return true;
}

bool mtr_own_are_alone(struct mtr_recorder *rec, struct mtr_statm *m) {
    uint64_t field[3];
    struct stat st;
    uint32_t ours = tcm_load_acquire(&rec->own_threads);
    if (!m->first_is_gone)
        (void)mtr_statm_read(m, field);
    return m->first_is_gone &&
           tcm_fstatat(AT_FDCWD, "/proc/self/task", &st, 0) == 0 &&
           st.st_nlink == FOLDER_LINKS + 1 + ours &&
           tcm_load_acquire(&rec->own_threads) == ours;
}
