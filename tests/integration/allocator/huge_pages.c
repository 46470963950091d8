/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints how many KiB of huge pages there are behind the heap.
 *
 * huge_pages small MIB: after filling MIB with blocks of 300 bytes.
 * huge_pages advised MIB: behind one block, for which they were asked; when it
 * was freed and given back; behind another one in its place.
 * Status 77: that cannot be known here.
 */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Sums the huge pages of the mappings in the 64 GiB around ADDRESS. */
static unsigned long long huge_kib(const void *address) {
    char line[512];
    unsigned long long from, to, kib, sum = 0;
    int inside = 0;
    FILE *f = fopen("/proc/self/smaps", "r");
    if (!f)
        exit(77);
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%llx-%llx ", &from, &to) == 2)
            inside = from >> 36 == (uintptr_t)address >> 36;
        else if (inside && sscanf(line, "AnonHugePages: %llu", &kib) == 1)
            sum += kib;
    }
    fclose(f);
    return sum;
}

/* An emulator of the processor takes advice that no kernel knows, and does not
   follow any. */
static int is_emulated(void) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED || madvise(page, 4096, 0x7ffe) == 0;
}

static void touch(char *p, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 4096)
        p[at] = 1;
}

static char *take(size_t bytes) {
    char *p = malloc(bytes);
    if (!p)
        exit(3);
    return p;
}

static void small_blocks(size_t bytes) {
    char *p = NULL;
    for (size_t done = 0; done < bytes; done += 300) {
        p = take(300);
        *p = 1;
    }
    printf("%llu\n", huge_kib(p));
}

static void advised_block(size_t bytes) {
    char *p = take(bytes);
    uintptr_t page = ((uintptr_t)p + 4095) & ~(uintptr_t)4095;
    if (madvise((void *)page, bytes - 4096, MADV_HUGEPAGE) != 0)
        exit(77);
    touch(p, bytes);
    unsigned long long first = huge_kib(p);
    /* A compiler takes the pointers of two blocks to differ, always. */
    volatile uintptr_t place = (uintptr_t)p;
    free(p);
    malloc_trim(0);
    unsigned long long freed = huge_kib(p);
    char *again = take(bytes);
    touch(again, bytes);
    printf("%llu %llu %llu %d\n", first, freed, huge_kib(again),
           place == (uintptr_t)again);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    if (is_emulated())
        return 77;
    size_t bytes = (size_t)atol(argv[2]) << 20;
    if (!strcmp(argv[1], "small"))
        small_blocks(bytes);
    else
        advised_block(bytes);
    return 0;
}
