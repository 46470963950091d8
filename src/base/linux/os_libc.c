/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/linux/os_libc.h"

#include "base/check.h"
#include "base/linux/elf_modules.h"
#include "base/linux/elf_symbols.h"
#include "base/linux/os_syscall.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

struct tcm_libc tcm_libc = {.create = pthread_create,
                            .join = pthread_join,
                            .attr_init = pthread_attr_init,
                            .attr_setstacksize = pthread_attr_setstacksize,
                            .attr_destroy = pthread_attr_destroy};

/* Stores the address of function NAME of S in *FOUND. false: S has none. */
static bool find_function(const struct tcm_elf_symbols *s, const char *name,
                          void *found) {
    const ElfW(Sym) *symbol = tcm_elf_find(s, name);
    if (symbol == NULL)
        return false;
    uintptr_t address = s->bias + symbol->st_value;
    memcpy(found, &address, sizeof(address));
    return true;
}

#define FUNCTIONS 5u

/* Finds functions in S, and returns their number: libc.so.6 has all; before
   glibc 2.34 it has two, and libpthread.so.0 the others. */
static unsigned find_functions(const struct tcm_elf_symbols *s) {
    unsigned found = 0;
    if (TCM_NEWER_LIBC)
        (void)find_function(s, "__nptl_nthreads", &tcm_libc.thread_count);
    found += find_function(s, "pthread_create", &tcm_libc.create);
    found += find_function(s, "pthread_join", &tcm_libc.join);
    found += find_function(s, "pthread_attr_init", &tcm_libc.attr_init);
    found += find_function(s, "pthread_attr_setstacksize",
                           &tcm_libc.attr_setstacksize);
    found += find_function(s, "pthread_attr_destroy", &tcm_libc.attr_destroy);
    return found;
}

/* Finds the symbols of the module that has ADDRESS: that of a function which no
   library interposes. */
static bool symbols_of(uintptr_t address, struct tcm_elf_symbols *s) {
    struct tcm_elf_module m;
    return TCM_SYSCALL_RAW && tcm_elf_module_at(address, &m) &&
           tcm_elf_symbols_at(s, m.bias, m.dynamic);
}

static bool libc_symbols(struct tcm_elf_symbols *s) {
    return symbols_of((uintptr_t)&confstr, s);
}

bool tcm_libc_find(void) {
    struct tcm_elf_symbols s;
    unsigned found = libc_symbols(&s) ? find_functions(&s) : 0;
    if (found < FUNCTIONS && symbols_of((uintptr_t)&pthread_getconcurrency, &s))
        found += find_functions(&s);
    TCM_ASSERT(found <= FUNCTIONS);
    return found == FUNCTIONS;
}

void *tcm_libc_function(const char *name) {
    struct tcm_elf_symbols s;
    void *found = NULL;
    return libc_symbols(&s) && find_function(&s, name, &found) ? found : NULL;
}

/* Stores the address of the next function NAME behind this library in *FOUND,
   if there is one. */
static void find_next(const char *name, void *found) {
    void *address = dlsym(RTLD_NEXT, name);
    if (address != NULL)
        memcpy(found, &address, sizeof(address));
}

void tcm_libc_find_by_loader(void) {
    if (TCM_NEWER_LIBC)
        tcm_libc.thread_count = dlsym(RTLD_DEFAULT, "__nptl_nthreads");
    /* The program, and libraries in front of this one, may interpose them. */
    find_next("pthread_create", &tcm_libc.create);
    find_next("pthread_join", &tcm_libc.join);
    /* The program's first dlerror() must not report these look-ups. */
    (void)dlerror();
}

#if TCM_HAVE_STRERRORDESC_NP
/* Weak: musl, whose programs may inherit LD_PRELOAD from one of glibc, has
   no such function, and would not start them. */
extern __typeof__(strerrordesc_np) strerrordesc_np __attribute__((weak));
#endif

/* strerror may allocate and take locks. */
const char *tcm_libc_error_text(int error) {
    static const struct {
        int error;
        const char *text;
    } texts[] = {
        {EPERM, "Operation not permitted"},
        {ENOENT, "No such file or directory"},
        {EIO, "Input/output error"},
        {EBADF, "Bad file descriptor"},
        {EAGAIN, "Resource temporarily unavailable"},
        {ENOMEM, "Cannot allocate memory"},
        {EACCES, "Permission denied"},
        {EEXIST, "File exists"},
        {ENOTDIR, "Not a directory"},
        {EISDIR, "Is a directory"},
        {EINVAL, "Invalid argument"},
        {ENFILE, "Too many open files in system"},
        {EMFILE, "Too many open files"},
        {ETXTBSY, "Text file busy"},
        {EFBIG, "File too large"},
        {ENOSPC, "No space left on device"},
        {EROFS, "Read-only file system"},
        {EPIPE, "Broken pipe"},
        {ENAMETOOLONG, "File name too long"},
        {ENOSYS, "Function not implemented"},
        {ELOOP, "Too many levels of symbolic links"},
        {EDQUOT, "Disk quota exceeded"},
    };
#if TCM_HAVE_STRERRORDESC_NP
    if (strerrordesc_np != NULL)
        return strerrordesc_np(error);
#endif
    for (size_t i = 0; i < TCM_ARRAY_SIZE(texts); i++)
        if (texts[i].error == error)
            return texts[i].text;
    return NULL;
}
