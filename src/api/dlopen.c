/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RTLD_DEEPBIND binds a library's calls of malloc to the C library, in front of
 * this one. Such a library ends the program when it frees what strdup gave it,
 * since strdup calls the malloc of this library, or when the program frees its
 * blocks. So libraries are loaded as if they were not to be bound deep.
 *
 * The linker gives the function its name, in the shared libraries alone
 * (library_link in src/module.am): a static program has one malloc, and must
 * get the C library's own dlopen.
 */
#include "api/export.h"
#include "base/atomic.h"

#include <dlfcn.h>

#ifndef RTLD_DEEPBIND
#define RTLD_DEEPBIND 0 /* musl */
#endif

typedef void *open_function(const char *, int);

open_function tcm_dlopen;

/* The next dlopen: the C library's, or that of a library between, which passes
   calls on. NULL: there is none. */
static open_function *next_dlopen(void) {
    static open_function *next;
    open_function *f = tcm_load_relaxed(&next);
    if (f == NULL) {
        *(void **)&f = dlsym(RTLD_NEXT, "dlopen");
        tcm_store_relaxed(&next, f);
    }
    return f;
}

/* A tail call: the C library knows its caller, whose RUNPATH it searches, by
   the return address. Visible, since the name that the linker gives is as
   visible as this one. */
TCM_PUBLIC TCM_TAIL_CALLS void *tcm_dlopen(const char *name, int mode) {
    open_function *f = next_dlopen();
    if (f == NULL)
        return NULL;
    TCM_TAIL return f(name, mode & ~RTLD_DEEPBIND);
}
