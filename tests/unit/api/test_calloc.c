/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calloc of a medium size clears no memory that reads as zero anyway, and takes
 * such memory only when there is none to be used again.
 */
#include "api/export.h"
#include "base/linux/os_mem.h"
#include "core/heap.h"
#include "prng.h"
#include "tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *TCM_EXPORT(malloc)(size_t size);
void *TCM_EXPORT(calloc)(size_t n, size_t size);
void TCM_EXPORT(free)(void *ptr);

#define MEDIUM   ((size_t)40 << 10)
#define BLOCKS   100u
#define STEPS    30000u
#define SLOTS    64u
#define LONGEST  ((size_t)300 << 10)
#define RELEASES 20u /* steps between two */

/* Blocks that may meet the end of the heap, which grows for the next ones. */
#define AT_END (BLOCKS * MEDIUM / TCM_GROW_STEP + 1)

static bool is_zero(const unsigned char *p, size_t size) {
    return p[0] == 0 && memcmp(p, p + 1, size - 1) == 0;
}

static size_t resident(const void *p, size_t size) {
    size_t bytes = 0;
    if (!tcm_os_resident(p, size, &bytes))
        tap_bail("the system does not tell");
    return bytes;
}

/* False where a page of the system has more than one block in it. */
static bool system_tells(void) {
    return tcm_os_page_size() <= TCM_PAGE_SIZE;
}

static void test_fresh(void) {
    static unsigned char *block[BLOCKS];
    size_t touched = 0, own = 0, zero = 0, again = 0;
    TCM_EXPORT(free)(TCM_EXPORT(malloc)(1)); /* the heap has grown */
    for (unsigned i = 0; i < BLOCKS; i++) {
        block[i] = TCM_EXPORT(calloc)(1, MEDIUM);
        touched += resident(block[i], MEDIUM);
        own += tcm_block_info(block[i]).kind == TCM_BLOCK_LARGE;
    }
    tap_ok(own >= BLOCKS - AT_END, "fresh blocks have pages of their own: %u",
           (unsigned)own);
    tap_ok(touched <= AT_END * MEDIUM || !system_tells(), "and no memory");
    for (unsigned i = 0; i < BLOCKS; i++) {
        zero += is_zero(block[i], MEDIUM);
        memset(block[i], 0xa5, MEDIUM);
    }
    tap_is_u64(zero, BLOCKS, "they read as zero");
    for (unsigned i = 0; i < BLOCKS; i++)
        TCM_EXPORT(free)(block[i]);
    touched = 0;
    zero = 0;
    for (unsigned i = 0; i < BLOCKS / 2; i++) {
        block[i] = TCM_EXPORT(calloc)(MEDIUM, 1);
        touched += resident(block[i], MEDIUM);
        zero += is_zero(block[i], MEDIUM);
        again += tcm_block_info(block[i]).kind == TCM_BLOCK_SMALL;
    }
    tap_is_u64(again, BLOCKS / 2, "later ones are objects of a class");
    tap_ok(touched == BLOCKS / 2 * MEDIUM || !system_tells(),
           "in memory that was there");
    tap_is_u64(zero, BLOCKS / 2, "which is cleared");
    for (unsigned i = 0; i < BLOCKS / 2; i++)
        TCM_EXPORT(free)(block[i]);
}

/* Pages of the process that have memory, which is not known exactly. */
static long pages_in_use(void) {
    char text[64];
    int fd = open("/proc/self/statm", O_RDONLY);
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    char *space = strchr(text, ' ');
    return space == NULL ? -1 : strtol(space, NULL, 10);
}

/* calloc of SIZE bytes where a block of that size was, of which the first,
   the last and some other pages were written. */
static void test_used_before(size_t size, const char *what) {
    const long most = 2048; /* beyond what the kernel's count may lag */
    long before = pages_in_use();
    unsigned char *first = TCM_EXPORT(malloc)(size), *again;
    for (size_t i = 0; i < size; i += size / 16 - 1)
        first[i] = 1;
    TCM_EXPORT(free)(first);
    again = TCM_EXPORT(calloc)(1, size);
    long pages = pages_in_use() - before;
    tap_ok(before < 0 || pages * (long)tcm_os_page_size() / 4096 < most,
           "%s: calloc where little was written takes no memory: %ld pages",
           what, pages);
    tap_ok(again == first && is_zero(again, size), "%s: it is zero", what);
    memset(again, 0xa5, size);
    TCM_EXPORT(free)(again);
    again = TCM_EXPORT(calloc)(1, size);
    tap_ok(again == first && is_zero(again, size), "%s: so is a full one",
           what);
    TCM_EXPORT(free)(again);
}

/* Dirty blocks of all kinds come and go beside zeroed ones, and pages return to
   the system. */
static void test_random(void) {
    static unsigned char *slot[SLOTS];
    struct prng random;
    uint64_t zeroed = 0, dirty = 0, own = 0;
    prng_seed(&random, 17);
    for (unsigned i = 0; i < STEPS; i++) {
        unsigned k = (unsigned)prng_below(&random, SLOTS);
        size_t size =
            1 + prng_below(&random, LONGEST >> prng_below(&random, 8));
        TCM_EXPORT(free)(slot[k]);
        if (prng_below(&random, 2) == 0) {
            slot[k] = TCM_EXPORT(calloc)(1, size);
            zeroed++;
            dirty += !is_zero(slot[k], size);
            own += size <= TCM_MAX_SMALL &&
                   tcm_block_info(slot[k]).kind == TCM_BLOCK_LARGE;
        } else {
            slot[k] = TCM_EXPORT(malloc)(size);
        }
        memset(slot[k], 0xff, size);
        if (i % RELEASES == 0)
            (void)tcm_heap_release(SIZE_MAX);
    }
    for (unsigned k = 0; k < SLOTS; k++)
        TCM_EXPORT(free)(slot[k]);
    tap_is_u64(dirty, 0, "%u blocks are zeroed", (unsigned)zeroed);
    tap_ok(own > 30, "%u of them were not touched for it", (unsigned)own);
    tcm_heap_verify();
}

int main(void) {
    test_fresh();
    test_used_before(((size_t)20 << 20) + 5, "20 MiB");
    test_used_before(((size_t)64 << 20) + 5, "64 MiB");
    test_random();
    return tap_done();
}
