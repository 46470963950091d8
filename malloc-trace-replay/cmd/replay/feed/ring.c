/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/feed/ring.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_thread.h"
#include "common/child.h"
#include "common/stop.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Polls before a sleep: about 20 us, less than a sleep and a wake cost. */
#define RING_POLLS 400
/* A sleeper checks this often that its partner is alive. */
#define RING_SLEEP_NS 50000000

/* Values of `sleeps` while the taker sleeps. */
#define RING_UNTIL_FILLED 1u
#define RING_UNTIL_FULL   2u

/* Size of the memory, in whole pages of any size. */
static size_t ring_bytes(uint32_t batches) {
    size_t n = sizeof(struct replay_ring) +
               (size_t)batches * sizeof(struct replay_batch);
    return tcm_align_up(n, 65536);
}

size_t replay_ring_bytes(const struct replay_ring *r) {
    return ring_bytes(r->batches);
}

void replay_ring_make_present(const struct replay_ring *r) {
    const volatile char *byte = (const volatile char *)r;
    for (size_t at = 0; at < replay_ring_bytes(r); at += tcm_os_page_size())
        (void)byte[at];
}

void replay_ring_leave_turns(struct replay_ring *r) {
    TCM_ASSERT(r->filled == 0 && r->low == 0 && r->batches >= REPLAY_BATCHES);
    r->batches = REPLAY_BATCHES;
    r->low = REPLAY_BATCHES / 2;
}

/* Makes a file in memory of BYTES; -1: it cannot be made. Checks the limit of
   file sizes first, since exceeding it ends the process with a signal. */
static int ring_file(size_t bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < bytes)
        return -1;
    int fd = memfd_create("replay", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

struct replay_ring *replay_ring_new(uint32_t batches, uint32_t low, int *fd) {
    struct replay_ring *r = NULL;
    size_t bytes = ring_bytes(batches);
    TCM_ASSERT(tcm_is_pow2(batches) && low < batches);
    int file = ring_file(bytes);
    if (file >= 0)
        r = tcm_os_map_file(file, 0, bytes);
    if (file >= 0 && (r == NULL || fd == NULL)) {
        close(file);
        file = -1;
    }
    if (fd != NULL)
        *fd = file;
    if (r == NULL)
        r = tcm_os_map_shared(bytes);
    if (r == NULL)
        return NULL;
    memset(r, 0, sizeof(*r));
    r->batches = batches;
    r->low = low;
    r->bytes = bytes;
    return r;
}

struct replay_ring *replay_ring_open(int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0 || (size_t)st.st_size < ring_bytes(1))
        return NULL;
    struct replay_ring *r = tcm_os_map_file(fd, 0, (size_t)st.st_size);
    if (r == NULL)
        return NULL;
    uint32_t batches = r->batches;
    if (r->bytes == (uint64_t)st.st_size && tcm_is_pow2(batches) &&
        batches <= REPLAY_BATCHES_MOST && ring_bytes(batches) == r->bytes)
        return r;
    tcm_os_unmap(r, (size_t)st.st_size);
    return NULL;
}

/* True if the filler has to wait while TAKEN batches are taken. */
static bool ring_fill_waits(const struct replay_ring *r, uint32_t taken) {
    uint32_t left = r->filled - taken;
    /* In turns: the filler goes on until the ring is full, then waits until it
       is empty. */
    if (r->low == 0)
        return r->filled % r->batches == 0 && left != 0;
    return left == r->batches;
}

struct replay_batch *replay_ring_fill(struct replay_ring *r) {
    uint32_t filled = r->filled;
    uint32_t taken = tcm_load_acquire(&r->taken);
    while (ring_fill_waits(r, taken)) {
        tcm_store_relaxed(&r->wanted, filled - r->low);
        tcm_fence_seq_cst();
        taken = tcm_load_acquire(&r->taken);
        if (!ring_fill_waits(r, taken))
            break;
        tcm_futex_wait_shared(&r->taken, taken, RING_SLEEP_NS);
        taken = tcm_load_acquire(&r->taken);
    }
    TCM_ASSERT(filled - taken < r->batches);
    return replay_ring_place(r, filled);
}

/* True if no batch comes before all present ones are taken, of which some may
   be taken already. */
static bool ring_is_full(struct replay_ring *r) {
    uint32_t filled = tcm_load_acquire(&r->filled);
    TCM_ASSERT(r->low == 0);
    return (filled % r->batches == 0 &&
            filled != tcm_load_acquire(&r->taken)) ||
           (filled != 0 && replay_ring_place(r, filled - 1)->last);
}

void replay_ring_filled(struct replay_ring *r) {
    TCM_ASSERT(r->filled - tcm_load_acquire(&r->taken) < r->batches);
    TCM_ASSERT(replay_ring_place(r, r->filled)->words <= REPLAY_BATCH_WORDS);
    /* Publishes the batch and the result; pairs with replay_ring_take. */
    tcm_store_release(&r->filled, r->filled + 1);
    tcm_fence_seq_cst();
    uint32_t sleeps = tcm_load_relaxed(&r->sleeps);
    if (sleeps == RING_UNTIL_FILLED ||
        (sleeps == RING_UNTIL_FULL && ring_is_full(r)))
        tcm_futex_wake_shared(&r->filled, 1);
}

static const struct replay_batch *ring_next(struct replay_ring *r) {
    uint32_t read = r->read;
    if (tcm_load_acquire(&r->filled) == read)
        return NULL;
    TCM_ASSERT(tcm_load_acquire(&r->filled) - read <= r->batches);
    r->read = read + 1;
    return replay_ring_place(r, read);
}

/* True if CHILD has ended; all that it published is visible then. */
static bool ring_child_ended(pid_t *child, int *status) {
    struct tool_child c = {.pid = *child, .signals = TOOL_CHILD_OBEYS};
    struct tool_child_end end;
    if (*child < 0)
        return true;
    if (!tool_child_try_wait(&c, &end))
        return false;
    *status = end.status;
    *child = -1;
    return true;
}

const struct replay_batch *replay_ring_take(struct replay_ring *r, pid_t *child,
                                            int *status) {
    const struct replay_batch *b;
    for (int i = 0; i < RING_POLLS; i++) {
        b = ring_next(r);
        if (b)
            return b;
        tcm_cpu_relax();
    }
    for (;;) {
        uint32_t read = r->read;
        tcm_store_relaxed(&r->sleeps, RING_UNTIL_FILLED);
        tcm_fence_seq_cst();
        b = ring_next(r);
        if (!b)
            tcm_futex_wait_shared(&r->filled, read, RING_SLEEP_NS);
        tcm_store_relaxed(&r->sleeps, 0u);
        b = b ? b : ring_next(r);
        if (b)
            return b;
        if (ring_child_ended(child, status))
            return ring_next(r);
        if (tool_stop_is_due())
            return NULL;
    }
}

bool replay_ring_has(struct replay_ring *r) {
    return tcm_load_acquire(&r->filled) != r->read;
}

void replay_ring_await_full(struct replay_ring *r, pid_t *child, int *status) {
    while (!ring_is_full(r)) {
        uint32_t filled = tcm_load_acquire(&r->filled);
        tcm_store_relaxed(&r->sleeps, RING_UNTIL_FULL);
        tcm_fence_seq_cst();
        if (!ring_is_full(r))
            tcm_futex_wait_shared(&r->filled, filled, RING_SLEEP_NS);
        tcm_store_relaxed(&r->sleeps, 0u);
        if (filled == tcm_load_acquire(&r->filled) &&
            (ring_child_ended(child, status) || tool_stop_is_due()))
            return;
    }
}

uint32_t replay_ring_slots(struct replay_ring *r) {
    uint32_t filled = tcm_load_acquire(&r->filled);
    return filled == 0 ? 0 : replay_ring_place(r, filled - 1)->slots;
}

void replay_ring_taken(struct replay_ring *r) {
    uint32_t taken = r->taken + 1;
    TCM_ASSERT(tcm_load_acquire(&r->filled) != r->taken);
    /* Gives the place back; pairs with replay_ring_fill. */
    tcm_store_release(&r->taken, taken);
    tcm_fence_seq_cst();
    if (taken == tcm_load_relaxed(&r->wanted))
        tcm_futex_wake_shared(&r->taken, 1);
}
