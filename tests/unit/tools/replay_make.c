/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a processed trace for the shell tests of replay and its bench:
 *
 *     replay_make KIND OUT [N [SEED]]
 *
 * and prints the truth about it, a key=value a line.
 */
#include "replay_traces.h"

/* Much as an interpreter: small blocks, most of them short-lived, freed much in
   the reverse order; some grow. About N operations. */
static void make_python(struct model *m, uint64_t n) {
    static const uint16_t size[] = {16, 24,  32, 33, 40,  48, 49, 56,
                                    56, 64,  72, 72, 80,  96, 57, 51,
                                    24, 144, 28, 53, 240, 56, 64, 600};
    model_thread(m, 1);
    while (m->ops < n) {
        uint64_t burst = 1 + prng_below(&m->p, 12);
        bool grow =
            m->live < 150000 || (m->live < 300000 && prng_below(&m->p, 2) == 0);
        for (uint64_t i = 0; i < burst; i++)
            model_alloc(m, MTF_CALL_MALLOC,
                        size[prng_below(&m->p, TCM_ARRAY_SIZE(size))]);
        if (prng_below(&m->p, 16) == 0)
            model_realloc(m, MTF_CALL_REALLOC, m->live - 1,
                          32 + prng_below(&m->p, 2000));
        uint64_t out = grow ? burst - prng_below(&m->p, 2) : burst + 1;
        for (uint64_t i = 0; i < out && m->live != 0; i++) {
            size_t depth = prng_below(&m->p, 8) == 0 ? m->live : 6;
            if (depth > m->live)
                depth = m->live;
            model_free(m, MTF_CALL_FREE,
                       m->live - 1 - prng_below(&m->p, depth));
        }
    }
}

/* Any size up to 1 MiB. */
static void make_large(struct model *m, uint64_t n, bool reallocs) {
    model_thread(m, 1);
    while (m->ops < n) {
        unsigned bits = 6 + (unsigned)prng_below(&m->p, 15);
        model_alloc(
            m, prng_below(&m->p, 4) == 0 ? MTF_CALL_CALLOC : MTF_CALL_MALLOC,
            prng_below(&m->p, 1u << bits));
        if (reallocs && prng_below(&m->p, 8) == 0)
            model_realloc(m, MTF_CALL_REALLOC, prng_below(&m->p, m->live),
                          prng_below(&m->p, 1u << bits));
        if (m->live > 200)
            model_free(m, MTF_CALL_FREE, prng_below(&m->p, m->live));
    }
}

/* 40 threads that come and go and free each other's blocks. */
static void make_threads(struct model *m, uint64_t n) {
    uint32_t first = 1, next = 1;
    for (; next <= 8; next++)
        mtf_proc_put_thread_start(&m->w, next, 1000 + next);
    while (m->ops < n) {
        model_thread(m, first + (uint32_t)prng_below(&m->p, next - first));
        for (uint64_t i = prng_below(&m->p, 60); i > 0; i--)
            if (m->live < 500 || prng_below(&m->p, 2) == 0)
                model_alloc(m, MTF_CALL_MALLOC, 8 + prng_below(&m->p, 500));
            else
                model_free(m, MTF_CALL_FREE, prng_below(&m->p, m->live));
        if (next <= 40 && m->ops > n / 40 * next) {
            model_thread(m, first);
            mtf_proc_put_thread_end(&m->w, first, "worker", 6);
            first++;
            mtf_proc_put_thread_start(&m->w, next, 1000 + next);
            next++;
        }
    }
}

/* The call that frees a block of ALLOC; often its own, sometimes another. */
static void free_any(struct model *m, size_t i) {
    unsigned kind = (unsigned)prng_below(&m->p, 16);
    unsigned call = MTF_CALL_FREE + kind;
    uint64_t size = m->block[i].size;
    if (prng_below(&m->p, 8) == 0)
        model_realloc_end(m, i);
    else if (prng_below(&m->p, 8) == 0 &&
             (call == MTF_CALL_DELETE_SIZED || call == MTF_CALL_FREE_SIZED ||
              call == MTF_CALL_DELETE_SIZED_ALIGNED))
        model_free_size(m, call, i, size + 1 + prng_below(&m->p, 1000));
    else
        model_free(m, call, i);
}

/* Every call of the family, all alignments, sizes from 0 up. */
static void make_calls(struct model *m, uint64_t n) {
    static const uint8_t plain[] = {
        MTF_CALL_MALLOC,    MTF_CALL_CALLOC,      MTF_CALL_NEW,
        MTF_CALL_NEW_ARRAY, MTF_CALL_NEW_NOTHROW, MTF_CALL_NEW_ARRAY_NOTHROW};
    model_thread(m, 1);
    while (m->ops < n) {
        uint64_t size = prng_below(&m->p, 1u << prng_below(&m->p, 15));
        switch (prng_below(&m->p, 8)) {
        case 0:
        case 1:
            model_alloc(m, plain[prng_below(&m->p, sizeof(plain))], size);
            break;
        case 2: {
            unsigned call = MTF_CALL_MEMALIGN + (unsigned)prng_below(&m->p, 9);
            unsigned log2 = 3 + (unsigned)prng_below(&m->p, 14);
            if (call == MTF_CALL_VALLOC || call == MTF_CALL_PVALLOC)
                log2 = 12;
            if (call == MTF_CALL_ALIGNED_ALLOC)
                size = size >> log2 << log2;
            model_aligned(m, call, log2, size);
            break;
        }
        case 3:
            model_realloc_new(m, prng_below(&m->p, 2) ? 1 : 0, size);
            break;
        case 4:
            if (m->live != 0)
                model_realloc(m,
                              prng_below(&m->p, 2) ? MTF_CALL_REALLOC
                                                   : MTF_CALL_REALLOCARRAY,
                              prng_below(&m->p, m->live), size);
            break;
        case 5:
            m->failed++;
            mtf_proc_put_failed(&m->w, MTF_CALL_MALLOC, 0, 0, UINT64_MAX / 4);
            if (m->failed % 64 == 0)
                model_trim(m, prng_next(&m->p));
            break;
        default:
            while (m->live > 300)
                free_any(m, prng_below(&m->p, m->live));
        }
    }
    while (m->live > 17)
        free_any(m, m->live - 1);
}

/* Blocks that no machine grants, and operations on them. */
static void make_refused(struct model *m, uint64_t n) {
    (void)n;
    model_thread(m, 1);
    for (int i = 0; i < 10; i++) {
        model_alloc(m, MTF_CALL_MALLOC, 100);
        model_alloc(m, MTF_CALL_MALLOC, (uint64_t)1 << 53);
        model_alloc(m, MTF_CALL_NEW, (uint64_t)1 << 53);
        model_realloc(m, MTF_CALL_REALLOC, m->live - 1, 200); /* skipped */
        model_free(m, MTF_CALL_DELETE_SIZED, m->live - 1);    /* skipped */
        model_realloc(m, MTF_CALL_REALLOC, m->live - 2, (uint64_t)1 << 53);
    }
}

/* 48 blocks, freed in reverse, again and again. */
static void make_lifo(struct model *m, uint64_t n) {
    model_thread(m, 1);
    while (m->ops < n) {
        for (unsigned j = 0; j < 48; j++)
            model_alloc(m, MTF_CALL_MALLOC, 24 + 16 * (j % 8));
        while (m->live != 0)
            model_free(m, MTF_CALL_FREE, m->live - 1);
    }
}

/* A block of N MiB comes and goes. */
static void make_blob(struct model *m, uint64_t n) {
    model_thread(m, 1);
    model_alloc(m, MTF_CALL_MALLOC, 100);
    model_alloc(m, MTF_CALL_MALLOC, n << 20);
    model_free(m, MTF_CALL_FREE, 1);
}

/* N blocks of a GiB, all alive. */
static void make_huge(struct model *m, uint64_t n) {
    model_thread(m, 1);
    for (uint64_t i = 0; i < n; i++)
        model_alloc(m, MTF_CALL_MALLOC, (uint64_t)1 << 30);
}

/* A second thread comes after N operations of the first one. */
static void make_late(struct model *m, uint64_t n) {
    model_thread(m, 1);
    while (m->ops < n)
        if (m->live < 500)
            model_alloc(m, MTF_CALL_MALLOC, 8 + prng_below(&m->p, 200));
        else
            model_free(m, MTF_CALL_FREE, prng_below(&m->p, m->live));
    mtf_proc_put_thread_start(&m->w, 2, 1002);
    model_thread(m, 2);
    while (m->live != 0)
        model_free(m, MTF_CALL_FREE, m->live - 1);
}

/* Mallocs and frees only: each is one call of the allocator. */
static void make_pairs(struct model *m, uint64_t n) {
    model_thread(m, 1);
    for (uint64_t i = 0; i < n / 2; i++)
        model_alloc(m, MTF_CALL_MALLOC, 8 + prng_below(&m->p, 200));
    while (m->live != 0)
        model_free(m, MTF_CALL_FREE, prng_below(&m->p, m->live));
}

static void make(struct model *m, const char *kind, uint64_t n) {
    if (strcmp(kind, "python") == 0) {
        make_python(m, n);
    } else if (strcmp(kind, "large") == 0) {
        make_large(m, n, true);
    } else if (strcmp(kind, "sizes") == 0) {
        make_large(m, n, false);
    } else if (strcmp(kind, "threads") == 0) {
        make_threads(m, n);
    } else if (strcmp(kind, "calls") == 0) {
        make_calls(m, n);
    } else if (strcmp(kind, "blob") == 0) {
        make_blob(m, n);
    } else if (strcmp(kind, "huge") == 0) {
        make_huge(m, n);
    } else if (strcmp(kind, "lifo") == 0) {
        make_lifo(m, n);
    } else if (strcmp(kind, "refused") == 0) {
        make_refused(m, n);
    } else if (strcmp(kind, "late") == 0) {
        make_late(m, n);
    } else if (strcmp(kind, "pairs") == 0) {
        make_pairs(m, n);
    } else if (strcmp(kind, "incomplete") == 0) {
        make_python(m, n);
        m->incomplete = true;
    } else if (strcmp(kind, "growing") == 0) {
        make_python(m, n);
        m->growing = true;
        m->incomplete = true;
    } else if (strcmp(kind, "nothing") != 0) {
        fprintf(stderr, "replay_make: unknown kind %s\n", kind);
        exit(2);
    }
}

int main(int argc, char **argv) {
    static struct model m;
    if (argc < 3) {
        fprintf(stderr, "usage: replay_make KIND OUT [N [SEED]]\n");
        return 2;
    }
    uint64_t n = argc > 3 ? strtoull(argv[3], NULL, 10) : 20000;
    uint64_t seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
    FILE *out = strcmp(argv[2], "-") == 0 ? stdout : fopen(argv[2], "wb");
    if (out == NULL)
        model_die(argv[2]);
    model_begin(&m, out, seed);
    make(&m, argv[1], n);
    uint64_t live = m.live;
    model_end(&m);
    if (fflush(out) != 0)
        model_die(argv[2]);
    FILE *say = out == stdout ? stderr : stdout;
    fprintf(say,
            "ops=%llu\nthreads=%llu\nthread_switches=%llu\n"
            "peak_live_bytes=%llu\nend_live_objects=%llu\nfailed=%llu\n"
            "bytes=%llu\nrecorded_ns=%llu\nrecorded_trims=%llu\nallocs=%llu\n",
            (unsigned long long)m.ops, (unsigned long long)m.threads,
            (unsigned long long)m.switches, (unsigned long long)m.peak_bytes,
            (unsigned long long)live, (unsigned long long)m.failed,
            (unsigned long long)m.w.bytes, (unsigned long long)m.ops,
            (unsigned long long)m.trims, (unsigned long long)m.allocs);
    return 0;
}
