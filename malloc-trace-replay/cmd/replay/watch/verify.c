/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observer that checks the allocator under test: alignment, zeros of calloc,
 * usable size, and overlap of live blocks. Each block is filled with its own
 * pattern, as far as the recorded program wrote it, which is checked before the
 * block is freed, and after it moved.
 *
 * Only what no program may see of a correct allocator is a fault. An allocator
 * that takes new memory rather than what was freed is no such one: how much
 * comes back depends on the program, as on threads that keep to their arenas.
 *
 * A treap (Seidel and Aragon) keeps the live blocks by address, so that a new
 * block is compared with both neighbours.
 *
 * Invariants: nothing here allocates. The checks are part of the measured
 * times.
 *
 * Threads: any. A lock guards the treap; the pattern of a block belongs to the
 * thread that uses the block.
 */
#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "cmd/replay/replay_options.h"
#include "cmd/replay/watch/observer.h"
#include "common/main.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES 320u
/* Faults with a text; more are only counted. */
#define FAULTS_KEPT 20u

/* A live block, a node of the treap. */
struct verify_block {
    uintptr_t start;
    uint64_t size;
    uint64_t filled; /* bytes of its pattern, from START */
    uint64_t seed;   /* seed of its pattern */
    uint32_t order;  /* priority in the treap */
    uint32_t left, right;
    uint32_t slot;
    uint32_t thread;
    uint64_t place; /* place of the operation that made it */
    bool is_about;
};

struct replay_verify {
    size_t (*usable)(void *p);
    uint32_t lock;
    struct verify_block *block; /* nodes from 1; 0 is none */
    size_t room;
    uint32_t used, free, root;
    uint64_t seed;
    uint64_t blocks; /* checked so far */
    uint64_t faults;
    bool no_memory; /* some blocks are missing from the treap */
    char text[FAULTS_KEPT][TEXT_BYTES];
};

__thread const struct replay_one_call *replay_verify_at;
/* During a realloc: the old block, which is not in the treap now. */
static __thread struct verify_block resized_block;
static struct replay_verify *signal_verify;

static void verify_lock(struct replay_verify *v) {
    while (tcm_swap_acquire(&v->lock, 1u) != 0)
        tcm_cpu_relax();
}
static void verify_unlock(struct replay_verify *v) {
    tcm_store_release(&v->lock, 0u);
}

/* --- Messages ------------------------------------------------------------- */

/* Prints "operation 12 (malloc of 100 bytes, slot 3, thread 2)" to TEXT.
   Returns the length. */
static int print_call(char *text, size_t room,
                      const struct replay_one_call *c) {
    bool about;
    uint64_t place = replay_one_call_place(c, &about);
    return snprintf(text, room,
                    "%soperation %llu (%s of %llu bytes, slot %u, thread %u)",
                    about ? "near " : "", (unsigned long long)place,
                    replay_kind_name[c->kind], (unsigned long long)c->size,
                    c->slot, c->thread);
}

static void note_fault(struct replay_verify *v, const struct replay_one_call *c,
                       const char *fmt, ...) TCM_PRINTF(3, 4);
static void note_fault(struct replay_verify *v, const struct replay_one_call *c,
                       const char *fmt, ...) {
    va_list ap;
    verify_lock(v);
    if (v->faults++ < FAULTS_KEPT) {
        char *text = v->text[v->faults - 1];
        int n = print_call(text, TEXT_BYTES, c);
        n += snprintf(text + n, TEXT_BYTES - (size_t)n, ": ");
        va_start(ap, fmt);
        vsnprintf(text + n, TEXT_BYTES - (size_t)n, fmt, ap);
        va_end(ap);
    }
    verify_unlock(v);
}

/* --- The treap ------------------------------------------------------------ */

/* Splits tree N into blocks that begin below AT and the others. */
static void treap_split(struct verify_block *b, uint32_t n, uintptr_t at,
                        uint32_t *low, uint32_t *high) {
    while (n != 0) {
        if (b[n].start < at) {
            *low = n;
            low = &b[n].right;
            n = *low;
        } else {
            *high = n;
            high = &b[n].left;
            n = *high;
        }
    }
    *low = *high = 0;
}

/* Joins two trees; all blocks of LOW begin before those of HIGH. */
static uint32_t treap_join(struct verify_block *b, uint32_t low,
                           uint32_t high) {
    uint32_t root = 0, *at = &root;
    while (low != 0 && high != 0) {
        if (b[low].order > b[high].order) {
            *at = low;
            at = &b[low].right;
            low = *at;
        } else {
            *at = high;
            at = &b[high].left;
            high = *at;
        }
    }
    *at = low != 0 ? low : high;
    return root;
}

static uint32_t treap_node(struct replay_verify *v) {
    uint32_t n = v->free;
    if (n != 0) {
        v->free = v->block[n].left;
        return n;
    }
    if (v->used >= v->room) {
        size_t room = v->room == 0 ? 65536 : v->room * 2;
        void *p = v->room == 0
                      ? tcm_os_map(room * sizeof(*v->block))
                      : tcm_os_remap(v->block, v->room * sizeof(*v->block),
                                     room * sizeof(*v->block));
        if (p == NULL || room > UINT32_MAX)
            return 0;
        v->block = p;
        v->room = room;
    }
    return v->used++;
}

/* Returns a block that overlaps SIZE bytes from AT; 0: none. */
static uint32_t treap_overlapped(const struct replay_verify *v, uintptr_t at,
                                 uint64_t size) {
    const struct verify_block *b = v->block;
    for (uint32_t n = v->root; n != 0;) {
        if (b[n].start + b[n].size <= at && b[n].start != at)
            n = b[n].right;
        else if (b[n].start >= at + size && b[n].start != at)
            n = b[n].left;
        else
            return n;
    }
    return 0;
}

/* Puts NEW into the treap. False: *OTHER overlaps it. */
static bool treap_insert(struct replay_verify *v, struct verify_block new,
                         struct verify_block *other) {
    verify_lock(v);
    uint32_t n = treap_overlapped(v, new.start, new.size);
    if (n != 0) {
        *other = v->block[n];
        verify_unlock(v);
        return false;
    }
    n = treap_node(v);
    if (n == 0) {
        v->no_memory = true;
        verify_unlock(v);
        return true;
    }
    uint32_t low, high;
    new.order = (uint32_t)((v->seed++ * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
    treap_split(v->block, v->root, new.start, &low, &high);
    v->block[n] = new;
    v->block[n].left = v->block[n].right = 0;
    v->root = treap_join(v->block, treap_join(v->block, low, n), high);
    v->blocks++;
    verify_unlock(v);
    return true;
}

/* Takes the block at START out of the treap. False: none begins there. */
static bool treap_remove(struct replay_verify *v, uintptr_t start,
                         struct verify_block *out) {
    uint32_t low, one, high;
    verify_lock(v);
    treap_split(v->block, v->root, start, &low, &high);
    treap_split(v->block, high, start + 1, &one, &high);
    bool found = one != 0;
    if (found) {
        *out = v->block[one];
        v->block[one].left = v->free;
        v->free = one;
    }
    v->root = treap_join(v->block, low, high);
    verify_unlock(v);
    return found;
}

/* --- Patterns ------------------------------------------------------------- */

static uint64_t pattern_word(uint64_t seed, size_t word) {
    return seed + word * UINT64_C(0xD1B54A32D192ED03);
}

static void pattern_fill(const struct verify_block *b) {
    char *p = (char *)b->start;
    size_t i = 0;
    for (; i + 8 <= b->filled; i += 8) {
        uint64_t w = pattern_word(b->seed, i / 8);
        memcpy(p + i, &w, 8);
    }
    uint64_t w = pattern_word(b->seed, i / 8);
    memcpy(p + i, &w, (size_t)b->filled - i);
}

/* Returns the first of LENGTH bytes at P that differs from the pattern of SEED;
   LENGTH: none. */
static size_t pattern_differs(const char *p, uint64_t seed, size_t length) {
    for (size_t i = 0; i < length; i += 8) {
        uint64_t w = pattern_word(seed, i / 8);
        size_t n = length - i < 8 ? length - i : 8;
        if (memcmp(p + i, &w, n) == 0)
            continue;
        while (memcmp(p + i, (char *)&w + i % 8, 1) == 0)
            i++;
        return i;
    }
    return length;
}

static void pattern_check(struct replay_verify *v,
                          const struct replay_one_call *c,
                          const struct verify_block *b, const char *p,
                          size_t length, const char *when) {
    size_t at = pattern_differs(p, b->seed, length);
    if (at != length)
        note_fault(
            v, c,
            "byte %zu of the block of %llu bytes at %p, made by %soperation "
            "%llu, has changed %s",
            at, (unsigned long long)b->size, (void *)b->start,
            b->is_about ? "near " : "", (unsigned long long)b->place, when);
}

/* --- Calls ---------------------------------------------------------------- */

void replay_verify_before(struct replay_verify *v,
                          const struct replay_one_call *c, void *p) {
    if (!treap_remove(v, (uintptr_t)p, &resized_block)) {
        resized_block.start = 0;
        return; /* this fault was reported when the block was made */
    }
    pattern_check(v, c, &resized_block, p, (size_t)resized_block.filled,
                  "while it lived");
}

static size_t least_align(size_t size) {
    if (size >= 16)
        return 16;
    return size == 0 ? 1 : (size_t)1 << tcm_log2_floor(size);
}

static void check_overlap(struct replay_verify *v,
                          const struct replay_one_call *c,
                          const struct verify_block *b) {
    struct verify_block other;
    if (treap_insert(v, *b, &other)) {
        pattern_fill(b);
        return;
    }
    note_fault(
        v, c,
        "the block of %llu bytes at %p overlaps the one of %llu bytes at %p, "
        "made by %soperation %llu (slot %u, thread %u)",
        (unsigned long long)b->size, (void *)b->start,
        (unsigned long long)other.size, (void *)other.start,
        other.is_about ? "near " : "", (unsigned long long)other.place,
        other.slot, other.thread);
}

static struct verify_block block_new(struct replay_verify *v,
                                     const struct replay_one_call *c,
                                     const void *p, size_t size) {
    struct verify_block b = {.start = (uintptr_t)p,
                             .size = size,
                             .filled = tcm_min_u64(size, c->present),
                             .slot = c->slot,
                             .thread = c->thread};
    b.place = replay_one_call_place(c, &b.is_about);
    verify_lock(v);
    b.seed = ++v->seed * UINT64_C(0xBF58476D1CE4E5B9);
    verify_unlock(v);
    return b;
}

/* Checks the properties of any new block. */
static void check_new(struct replay_verify *v, const struct replay_one_call *c,
                      void *p, size_t size, size_t align) {
    align = tcm_max_u64(align, least_align(size));
    if (((uintptr_t)p & (align - 1)) != 0)
        note_fault(v, c, "the block at %p is not at a multiple of %zu", p,
                   align);
    size_t usable = v->usable == NULL ? size : v->usable(p);
    if (usable < size)
        note_fault(v, c,
                   "the usable size of the block at %p is %zu, below its size",
                   p, usable);
}

void replay_verify_made(struct replay_verify *v,
                        const struct replay_one_call *c, void *p, size_t size,
                        size_t align, bool is_zero) {
    check_new(v, c, p, size, align);
    if (is_zero) {
        const char *bytes = p;
        size_t i = 0;
        while (i < size && bytes[i] == 0)
            i++;
        if (i != size)
            note_fault(v, c, "byte %zu of the block at %p is not zero", i, p);
    }
    struct verify_block b = block_new(v, c, p, size);
    check_overlap(v, c, &b);
}

void replay_verify_resized(struct replay_verify *v,
                           const struct replay_one_call *c, void *old, void *p,
                           size_t size) {
    struct verify_block was =
        old == NULL ? (struct verify_block){0} : resized_block;
    if (p == NULL) {
        struct verify_block other;
        if (was.start != 0)
            (void)treap_insert(v, was, &other);
        return;
    }
    check_new(v, c, p, size, 0);
    if (was.start != 0)
        pattern_check(v, c, &was, p, (size_t)tcm_min_u64(was.filled, size),
                      "when it was resized");
    struct verify_block b = block_new(v, c, p, size);
    check_overlap(v, c, &b);
}

/* Checks the blocks that are left at the end. */
static void verify_end(struct replay_watch *w, void *state) {
    static struct replay_batch none;
    struct replay_verify *v = state;
    (void)w;
    struct replay_one_call c = {.batch = &none, .at = none.word};
    for (uint32_t n = 1; n < v->used; n++) {
        const struct verify_block *b = &v->block[n];
        struct verify_block found;
        /* For a free node none is found, or a different node with its start. */
        if (!treap_remove(v, b->start, &found))
            continue;
        size_t at = pattern_differs((char *)found.start, found.seed,
                                    (size_t)found.filled);
        if (at == found.filled)
            continue;
        c.kind = REPLAY_KIND_MALLOC;
        c.size = found.size;
        c.slot = found.slot;
        c.thread = found.thread;
        none.first_op = found.place - 1;
        note_fault(
            v, &c,
            "byte %zu of the block at %p, which is there at the end, has "
            "changed",
            at, (void *)found.start);
    }
    TCM_ASSERT(v->root == 0);
}

/* --- Signals -------------------------------------------------------------- */

/* Prints a line for each fault on standard error. */
static void print_faults(const struct replay_verify *v) {
    for (uint64_t i = 0; i < v->faults && i < FAULTS_KEPT; i++)
        tool_error("%s", v->text[i]);
    if (v->faults > FAULTS_KEPT)
        tool_error("%llu more faults of the allocator",
                   (unsigned long long)(v->faults - FAULTS_KEPT));
    if (v->no_memory)
        tool_error("out of memory for the table of blocks: not all were "
                   "checked");
}

/* Signals that only a broken allocator causes. */
static const struct {
    int number;
    const char *name;
} signals[] = {{SIGSEGV, "SEGV"},
               {SIGBUS, "BUS"},
               {SIGILL, "ILL"},
               {SIGFPE, "FPE"},
               {SIGABRT, "ABRT"}};
#define SIGNALS (sizeof(signals) / sizeof(*signals))

static const char *signal_name(int sig) {
    size_t i = 0;
    while (signals[i].number != sig && i < SIGNALS - 1)
        i++;
    return signals[i].name;
}

static void on_signal(int sig) {
    char text[TEXT_BYTES];
    const struct replay_one_call *c = replay_verify_at;
    int n = snprintf(text, sizeof(text),
                     "replay: the allocator failed with signal %d (%s)%s", sig,
                     signal_name(sig), c == NULL ? "" : ", ");
    if (c != NULL)
        n += print_call(text + n, sizeof(text) - (size_t)n - 1, c);
    text[n++] = '\n';
    print_faults(signal_verify);
    if (write(STDERR_FILENO, text, (size_t)n) < 0)
        n = 0;
    _exit(TOOL_ALLOCATOR);
}

/* Catches these signals: names the current call, and exits with
   TOOL_ALLOCATOR. */
static void catch_signals(struct replay_verify *v) {
    struct sigaction action = {.sa_handler = on_signal,
                               .sa_flags = SA_RESETHAND | SA_NODEFER};
    signal_verify = v;
    for (size_t i = 0; i < SIGNALS; i++)
        sigaction(signals[i].number, &action, NULL);
}

/* --- The observer --------------------------------------------------------- */

static bool verify_begin(struct replay_watch *w, void **state) {
    if (!w->options->check)
        return true;
    struct replay_verify *v =
        tcm_os_map(tcm_align_up(sizeof(*v), tcm_os_page_size()));
    if (v == NULL)
        return false;
    v->usable = w->exec->calls.usable_size;
    v->used = 1;
    catch_signals(v);
    *state = v;
    return true;
}

static int verify_tell(struct replay_watch *w, void *state, int status) {
    const struct replay_verify *v = state;
    (void)w;
    print_faults(v);
    return v->faults != 0 && status != TOOL_FAILED ? TOOL_ALLOCATOR : status;
}

static void verify_json(const struct replay_watch *w, const void *state,
                        struct tool_json *j) {
    const struct replay_verify *v = state;
    (void)w;
    tool_json_begin_object(j, "check");
    tool_json_u64(j, "blocks", v->blocks);
    tool_json_u64(j, "faults", v->faults);
    tool_json_begin_array(j, "first_faults");
    for (uint64_t i = 0; i < v->faults && i < FAULTS_KEPT; i++)
        tool_json_string(j, NULL, v->text[i]);
    tool_json_end_array(j);
    tool_json_end_object(j);
}

const struct replay_observer replay_verify_observer = {
    .begin = verify_begin,
    .end = verify_end,
    .tell = verify_tell,
    .json = verify_json,
};
