/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/stream/thread_looks.h"

#include "base/bits.h"
#include "base/clock.h"
#include "base/linux/os_mem.h"
#include "tracer/recorder.h"
#include "tracer/trace_clock.h"
#include "tracer/trace_process.h"

/* Looks for which the step doubles, and how often it does. Of sizes above 1 MiB
   one block can be most of the memory, so more of them are looked at. */
#define LOOKS_PER_STEP       8u
#define LOOKS_PER_LARGE_STEP 64u
#define LARGE_GROUP          24u
#define STEPS_MAX            12u
/* Looks that pass out of mind with each sample. */
#define LOOKS_PASS 4u
/* Part of the process's processor time that looks may take, after the first
   300 us, or 3 ms for sizes above 1 MiB; and what it takes to make a page
   again: more than on most machines. */
#define BUDGET_PART ((uint64_t)100)
#define BUDGET_NS   ((uint64_t)300000)
#define LARGE_NS    ((uint64_t)3000000)
#define PAGE_NS     ((uint64_t)1000)
/* Bounds on pages whose memory is given back: more than the first number are
   counted before, and need a budget; more than the second stay as they are. */
#define PAGES_ASSUMED 256u
#define PAGES_MAX     8192u

static struct mtr_looks *looks(void) {
    return &mtr_recorder->looks;
}

/* Most time that the system calls of a look take, and for each of its pages: a
   longer one was interrupted by other threads. */
#define LOOK_NS      ((uint64_t)20000)
#define LOOK_PAGE_NS ((uint64_t)300)

/* Counts a look at BYTES since BEGIN; PAGES may have to be made again. */
static void spend(uint64_t begin, size_t bytes, uint64_t pages) {
    uint64_t most = LOOK_NS + bytes / tcm_os_page_size() * LOOK_PAGE_NS;
    uint64_t ns = tcm_min_u64(mtr_clock_ns() - begin, most);
    (void)tcm_add_relaxed(&looks()->ns, ns);
    (void)tcm_add_relaxed(&looks()->pages_ns, pages * PAGE_NS);
}

static bool has_budget(unsigned group) {
    return tcm_load_relaxed(&looks()->ns) +
               tcm_load_relaxed(&looks()->pages_ns) <
           tcm_clock_process_cpu_ns() / BUDGET_PART +
               (group < LARGE_GROUP ? BUDGET_NS : LARGE_NS);
}

void mtr_looks_pass(struct mtr_looks *l) {
    for (unsigned i = 0; i < MTF_PRESENT_GROUPS; i++) {
        uint32_t n = tcm_load_relaxed(&l->count[i]);
        if (n != 0)
            tcm_store_relaxed(&l->count[i],
                              n > LOOKS_PASS ? n - LOOKS_PASS : 1);
    }
}

/* True if the block that T allocates now, at which a count ended, is looked at;
   begins the next count. The first count of a thread begins anywhere in a
   step, or else short threads would look at all of their blocks. */
static bool draw(struct mtr_thread *t, unsigned group) {
    struct mtr_thread_cold *c = t->cold;
    uint32_t n = tcm_load_relaxed(&looks()->count[group]);
    uint32_t per_step =
        group < LARGE_GROUP ? LOOKS_PER_STEP : LOOKS_PER_LARGE_STEP;
    uint32_t step = 1u << n / per_step;
    uint32_t random =
        (uint32_t)((t->next_token + c->id) * 0x9E3779B97F4A7C15 >> 40);
    uint64_t bit = (uint64_t)1 << group;
    bool is_first = (c->look_drawn & bit) == 0;
    c->look_drawn |= bit;
    if (is_first && random % step != 0) {
        c->look_in[group] = (uint16_t)(random % step - 1);
        return false;
    }
    c->look_in[group] = (uint16_t)(random % (2 * step - 1));
    uint32_t most = per_step * (STEPS_MAX + 1) - 1;
    tcm_store_relaxed(&looks()->count[group], n < most ? n + 1 : n);
    return true;
}

/* Bounds of the whole pages in BLOCK; false: there are none. */
static bool whole_pages(const void *block, size_t bytes, uintptr_t *start,
                        uintptr_t *end) {
    size_t page = tcm_os_page_size();
    *start = tcm_align_up((uintptr_t)block, page);
    *end = tcm_align_down((uintptr_t)block + bytes, page);
    return *start < *end;
}

/* Gives back the memory of the pages. */
static bool clear(uintptr_t start, uintptr_t end, bool has_room) {
    size_t page = tcm_os_page_size(), pages = (end - start) / page, bytes;
    if (pages > PAGES_ASSUMED) {
        if (!tcm_os_resident((void *)start, end - start, &bytes))
            return false;
        pages = bytes / page;
    }
    return pages <= (has_room ? PAGES_MAX : PAGES_ASSUMED) &&
           tcm_os_release((void *)start, end - start);
}

bool mtr_look_begins(struct mtr_thread *t, size_t size, void *block,
                     size_t bytes, bool is_fresh) {
    uintptr_t start, end;
    unsigned group = mtf_present_group(size);
    if (!mtr_look_is_due(t, size) || mtr_is_early())
        return false;
    if (!tcm_load_relaxed(&mtr_config.present)) {
        t->cold->look_in[group] = UINT16_MAX;
        return false;
    }
    bool is_first = tcm_load_relaxed(&looks()->count[group]) == 0;
    if (!draw(t, group) || !whole_pages(block, bytes, &start, &end) ||
        !mtr_process_may_look())
        return false;
    bool has_room = has_budget(group);
    if (!has_room && !is_first)
        return false;
    uint64_t begin = mtr_clock_ns();
    bool done = is_fresh || clear(start, end, has_room);
    spend(begin, end - start, 0);
    return done;
}

void mtr_look_grows(void *start, size_t bytes) {
    uintptr_t first, end;
    if (whole_pages(start, bytes, &first, &end))
        (void)tcm_os_release((void *)first, end - first);
}

/* The ends of a block share their pages with its neighbours. Programs write to
   a block from its start, so the first part counts, and the last one if all
   between them has memory. */
bool mtr_look_ends(const void *block, size_t bytes, size_t *present) {
    uintptr_t start, end;
    uint64_t begin = mtr_clock_ns();
    bool told = whole_pages(block, bytes, &start, &end) &&
                mtr_process_may_look() &&
                tcm_os_resident((const void *)start, end - start, present);
    if (told)
        *present = *present == end - start
                       ? bytes
                       : *present + (start - (uintptr_t)block);
    spend(begin, bytes, told ? *present / tcm_os_page_size() : 0);
    return told;
}
