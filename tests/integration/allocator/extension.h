/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the programs that ask a preloaded library by the C interface beyond
 * malloc.
 */
#ifndef TESTS_INTEGRATION_ALLOCATOR_EXTENSION_H
#define TESTS_INTEGRATION_ALLOCATOR_EXTENSION_H

#include <dlfcn.h>
#include <malloc.h>

#include "gperftools/malloc_extension_c.h"
#include "gperftools/nallocx.h"
#include "gperftools/tcmalloc.h"
#include "tap.h"

#if !TCM_HAVE_MALLINFO2
struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd;
    size_t usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo2 mallinfo2(void);
#endif

#define MIB ((size_t)1 << 20)

static void *find(const char *name) {
    void *p = dlsym(RTLD_DEFAULT, name);
    if (p == NULL)
        tap_bail("%s is not there", name);
    return p;
}

/* The functions come with the library that is preloaded. */
#define CALL(f) ((__typeof__(&f))find(#f))

__attribute__((unused)) static void *(*volatile take)(size_t) = malloc;
__attribute__((unused)) static void (*volatile give)(void *) = free;

__attribute__((unused)) static size_t get(const char *name) {
    static __typeof__(&MallocExtension_GetNumericProperty) call;
    size_t value = (size_t)-1;
    if (call == NULL)
        call = CALL(MallocExtension_GetNumericProperty);
    if (!call(name, &value))
        tap_bail("no property %s", name);
    return value;
}

__attribute__((unused)) static int set(const char *name, size_t value) {
    return CALL(MallocExtension_SetNumericProperty)(name, value);
}

#endif
