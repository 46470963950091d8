/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that writes into blocks after it freed them. The allocator keeps
 * nothing there: its heap stays whole, no live block is touched, and none is
 * handed out twice.
 *
 * stress_smear [STEPS]
 */
#include "api/export.h"
#include "core/heap.h"
#include "lib/prng.h"
#include "lib/rounds.h"
#include "lib/tap.h"

enum { SLOTS = 3000, FREED = 256 };

struct block {
    unsigned char *p;
    size_t size; /* all that is usable */
    unsigned char fill;
};

static struct block live[SLOTS];
static struct block freed[FREED]; /* not handed out again since */
static unsigned long broken;

static size_t some_size(struct prng *random) {
    return prng_below(random, 100) != 0
               ? prng_below(random, (size_t)1 << prng_below(random, 14))
               : prng_below(random, 300000);
}

/* Forgets free blocks that overlap B, which is in use now. */
static void forget_overlaps(const struct block *b) {
    for (unsigned i = 0; i < FREED; i++) {
        if (freed[i].p != NULL && freed[i].p < b->p + b->size &&
            b->p < freed[i].p + freed[i].size)
            freed[i].p = NULL;
    }
}

static void make(struct block *b, struct prng *random) {
    b->p = TCM_EXPORT(malloc)(some_size(random));
    if (b->p == NULL)
        tap_bail("no memory");
    b->size = TCM_EXPORT(malloc_usable_size)(b->p);
    b->fill = (unsigned char)prng_next(random);
    memset(b->p, b->fill, b->size);
    forget_overlaps(b);
}

static void drop(struct block *b, struct prng *random) {
    for (size_t i = 0; i < b->size; i += i < 64 ? 1 : 127)
        broken += b->p[i] != b->fill;
    broken += b->p[b->size - 1] != b->fill;
    TCM_EXPORT(free)(b->p);
    freed[prng_below(random, FREED)] = *b;
    b->p = NULL;
}

/* Random bytes, also such as look like addresses of blocks and of lists. */
static void smear(struct block *b, struct prng *random) {
    uint64_t word = prng_next(random);
    switch (prng_below(random, 4)) {
    case 0:
        word = (uintptr_t)live[prng_below(random, SLOTS)].p;
        break;
    case 1:
        word = (uintptr_t)b->p + 8 * prng_below(random, 9);
        break;
    case 2:
        word = 0;
        break;
    default:
        break;
    }
    for (size_t i = 0; i + sizeof(word) <= b->size; i += sizeof(word))
        memcpy(b->p + i, &word, sizeof(word));
}

int main(int argc, char **argv) {
    unsigned long steps = rounds_of(300000, 10000000);
    if (argc > 1)
        steps = strtoul(argv[1], NULL, 10);
    unsigned long smeared = 0;
    struct prng random;
    prng_seed(&random, 20);
    for (unsigned long n = 0; n < steps; n++) {
        struct block *b = &live[prng_below(&random, SLOTS)];
        if (b->p == NULL)
            make(b, &random);
        else
            drop(b, &random);
        b = &freed[prng_below(&random, FREED)];
        if (b->p != NULL) {
            smear(b, &random);
            smeared++;
        }
        if (n % (steps / 10 + 1) == steps / 10) {
            tcm_heap_verify();
            (void)TCM_EXPORT(malloc_trim)(0);
        }
    }
    for (unsigned i = 0; i < SLOTS; i++)
        if (live[i].p != NULL)
            drop(&live[i], &random);
    tcm_heap_verify();
    tap_ok(smeared > steps / 10, "%lu writes into freed blocks", smeared);
    tap_ok(true, "the heap stays whole");
    tap_is_u64(broken, 0, "no block that is in use is touched");
    return tap_done();
}
