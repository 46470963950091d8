/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls every function of gperftools' C headers, as a program written for it
 * does: C and C++, compiled with the headers of this project and with those of
 * gperftools, and linked with the library. Exit status 77 is success.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gperftools/malloc_extension_c.h>
#include <gperftools/nallocx.h>
#include <gperftools/tcmalloc.h>

/* C does not see the first in gperftools' header, nor C++ the second. The third
   is not gperftools': weak, so that programs link with its library, too. */
#ifdef __cplusplus
extern "C" int tc_query_new_mode(void) noexcept;
extern "C" __attribute__((weak)) int
MallocExtension_GetMemoryTable(char *buffer, int length);
#else
int tc_set_new_mode(int flag);
int tc_query_new_mode(void);
__attribute__((weak)) int MallocExtension_GetMemoryTable(char *buffer,
                                                         int length);
#endif

static int failed;

#define CHECK(x)                                                               \
    do {                                                                       \
        if (!(x)) {                                                            \
            fprintf(stderr, "line %d: %s\n", __LINE__, #x);                    \
            failed = 1;                                                        \
        }                                                                      \
    } while (0)

/* A block that can be written, and is of the size. */
static void *good(void *p, size_t size, size_t align) {
    CHECK(p != NULL && (uintptr_t)p % align == 0);
    CHECK(tc_malloc_size(p) >= size);
    CHECK(MallocExtension_GetOwnership(p) == MallocExtension_kOwned);
    memset(p, 0x5a, size);
    return p;
}

static void family(void) {
    static const size_t huge = (size_t)PTRDIFF_MAX + 1;
    void *out = NULL;
    char *p = (char *)good(tc_malloc(100), 100, 16);
    p = (char *)good(tc_realloc(p, 5000), 5000, 16);
    CHECK(p[99] == 0x5a);
    tc_free(p);
    p = (char *)tc_calloc(10, 30);
    CHECK(p && p[0] == 0 && p[299] == 0);
    tc_cfree(good(p, 300, 16));
    tc_free_sized(good(tc_malloc(333), 333, 16), 333);
    tc_free(good(tc_malloc_skip_new_handler(70000), 70000, 16));
    tc_free(good(tc_memalign(1024, 100), 100, 1024));
    CHECK(tc_posix_memalign(&out, 4096, 10000) == 0);
    tc_free(good(out, 10000, 4096));
    CHECK(tc_posix_memalign(&out, 3, 10) == EINVAL);
    tc_free(good(tc_valloc(10), 10, 4096));
    tc_free(good(tc_pvalloc(10), 4096, 4096));
    CHECK(tc_malloc(huge) == NULL && errno == ENOMEM);
    CHECK(tc_realloc(NULL, huge) == NULL && tc_calloc(huge, 2) == NULL);
    CHECK(tc_malloc_skip_new_handler(huge) == NULL);
    CHECK(tc_malloc_size(NULL) == 0);
    tc_free(NULL);
    tc_cfree(NULL);
    tc_free_sized(NULL, 1);

    /* blocks of malloc and tc_malloc are interchangeable */
    tc_free(malloc(100));
    free(tc_malloc(100));
    free(tc_memalign(64, 100));
    CHECK(tc_malloc_size(p = (char *)malloc(1000)) >= 1000);
    free(p);
}

static void questions(void) {
    int major, minor;
    const char *patch;
    const char *version = tc_version(&major, &minor, &patch);
    CHECK(version && major == TC_VERSION_MAJOR && minor == TC_VERSION_MINOR);
    CHECK(strcmp(patch, TC_VERSION_PATCH) == 0 && TC_VERSION_STRING[0]);
    tc_malloc_stats();
    CHECK(tc_mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1);
    void *p = tc_malloc(1 << 20);
    struct mallinfo info = tc_mallinfo();
    CHECK(info.hblkhd + info.uordblks >= 1 << 20);
    tc_free(p);
    CHECK(nallocx(100, 0) >= 100 && nallocx(100, 0) == tc_nallocx(100, 0));
    CHECK(nallocx(100, MALLOCX_LG_ALIGN(12)) % 4096 == 0);
    CHECK(tc_set_new_mode(1) == 0 && tc_query_new_mode() == 1);
    tc_free(good(tc_malloc(100), 100, 16));
    CHECK(tc_set_new_mode(0) == 1);
}

static void extension(void) {
    static char text[20000];
    int blocks, histogram[kMallocExtensionHistogramSize];
    size_t total, value;
    void *p = tc_malloc(100);
    const size_t usable = tc_malloc_size(p);
    CHECK(MallocExtension_VerifyAllMemory() == 1);
    CHECK(MallocExtension_VerifyNewMemory(p) == 1);
    CHECK(MallocExtension_VerifyArrayNewMemory(p) == 1);
    CHECK(MallocExtension_VerifyMallocMemory(p) == 1);
    CHECK(MallocExtension_MallocMemoryStats(&blocks, &total, histogram) == 1);
    CHECK(blocks > 0 && total >= usable && histogram[7] > 0);
    MallocExtension_GetStats(text, sizeof(text));
    CHECK(strstr(text, "MALLOC: ") != NULL);
    CHECK(MallocExtension_GetMemoryTable(text, sizeof(text)) == 1);
    CHECK(strstr(text, "Live pages") != NULL);
    CHECK(MallocExtension_GetMemoryTable(text, 0) == 0);
    CHECK(MallocExtension_GetNumericProperty("generic.heap_size", &value) == 1);
    CHECK(value >= total);
    CHECK(MallocExtension_GetNumericProperty("no.such", &value) == 0);
    CHECK(MallocExtension_SetNumericProperty(
              "tcmalloc.max_total_thread_cache_bytes", 4 << 20) == 1);
    CHECK(MallocExtension_SetNumericProperty("generic.heap_size", 1) == 0);
    CHECK(MallocExtension_GetEstimatedAllocatedSize(100) == usable);
    CHECK(MallocExtension_GetAllocatedSize(p) == usable);
    tc_free(p);
    CHECK(MallocExtension_GetThreadCacheSize() >= usable);
    MallocExtension_MarkThreadTemporarilyIdle();
    CHECK(MallocExtension_GetThreadCacheSize() == 0);
    MallocExtension_MarkThreadIdle();
    MallocExtension_MarkThreadBusy();
    tc_free(tc_malloc(1 << 20));
    MallocExtension_ReleaseToSystem(4096);
    MallocExtension_ReleaseFreeMemory();
    CHECK(MallocExtension_GetNumericProperty("tcmalloc.pageheap_free_bytes",
                                             &value) == 1 &&
          value == 0);
    CHECK(MallocExtension_GetOwnership(text) == MallocExtension_kNotOwned);
    CHECK(MallocExtension_kUnknownOwnership == 0);
}

#ifdef __cplusplus
static void operators() {
    static const size_t huge = (size_t)PTRDIFF_MAX + 1;
    bool thrown = false;
    tc_delete(good(tc_new(100), 100, 16));
    tc_delete_sized(good(tc_new(100), 100, 16), 100);
    tc_delete_nothrow(good(tc_new_nothrow(100, std::nothrow), 100, 16),
                      std::nothrow);
    tc_deletearray(good(tc_newarray(100), 100, 16));
    tc_deletearray_sized(good(tc_newarray(100), 100, 16), 100);
    tc_deletearray_nothrow(
        good(tc_newarray_nothrow(100, std::nothrow), 100, 16), std::nothrow);
    CHECK(tc_new_nothrow(huge, std::nothrow) == nullptr);
    CHECK(tc_newarray_nothrow(huge, std::nothrow) == nullptr);
    try {
        tc_delete(tc_new(huge));
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    CHECK(thrown);
#if __cplusplus >= 201703L
    const std::align_val_t a = (std::align_val_t)256;
    tc_delete_aligned(good(tc_new_aligned(100, a), 100, 256), a);
    tc_delete_sized_aligned(good(tc_new_aligned(100, a), 100, 256), 100, a);
    tc_delete_aligned_nothrow(
        good(tc_new_aligned_nothrow(100, a, std::nothrow), 100, 256), a,
        std::nothrow);
    tc_deletearray_aligned(good(tc_newarray_aligned(100, a), 100, 256), a);
    tc_deletearray_sized_aligned(good(tc_newarray_aligned(100, a), 100, 256),
                                 100, a);
    tc_deletearray_aligned_nothrow(
        good(tc_newarray_aligned_nothrow(100, a, std::nothrow), 100, 256), a,
        std::nothrow);
#endif
}
#endif

int main(void) {
    family();
    questions();
    extension();
#ifdef __cplusplus
    operators();
#endif
    return failed ? 1 : 77;
}
