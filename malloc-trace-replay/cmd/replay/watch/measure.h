/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resident memory without the replayer's own, and wall-clock and processor
 * time.
 *
 * Invariants: no function allocates.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_WATCH_MEASURE_H
#define TOOL_CMD_REPLAY_WATCH_MEASURE_H

#include "base/compiler.h"

struct replay_batch;

/* --- Resident memory ------------------------------------------------------ */

struct replay_rss {
    bool started;
    uint64_t own_bytes;      /* of the replayer, now */
    uint64_t observer_bytes; /* of observers, taken since the start */
    uint64_t program_bytes;  /* of the program's code and data */
    uint64_t start_bytes, peak_bytes, end_bytes;
    uint64_t end_huge_bytes; /* part of end_bytes in huge pages */
    bool peak_known;         /* the peak was reset at the start */
    /* For the average over time. */
    uint64_t from_ns, unseen_ns; /* begin of the current time; time since the
                                    last measurement */
    uint64_t seen_ns;
    bool is_recorded; /* the average is over recorded time: replay_rss_passed */
    double seen_byte_ns; /* sum of resident bytes times nanoseconds */
    /* The part of both that came after most bytes were live. */
    uint64_t after_ns;
    double after_byte_ns;
    int statm; /* -1: not open */
    /* When most bytes were live; all 0: hardly any were. */
    uint64_t live_bytes, at_live_bytes, at_live_huge_bytes;
    uint64_t own_huge_bytes; /* the replayer's bytes in huge pages */
    /* Time that measurements and growth of the replayer's tables took. The pace
       stands still meanwhile: all that follows is due later by as much. */
    uint64_t look_ns, own_since_ns;
    bool is_paced; /* the allocator's clock stands still while memory is read */
};

/* Resident pages from address FIRST to END, by the open file pagemap of their
   process in /proc. */
uint64_t replay_pages_present(int pagemap, uintptr_t first, uintptr_t end);

/* Called at the start mark; OWN_BYTES of the replayer are resident. */
void replay_rss_start(struct replay_rss *m, uint64_t own_bytes);
/* Called before and after the replayer's share changes. */
void replay_rss_before_own(struct replay_rss *m);
void replay_rss_after_own(struct replay_rss *m, uint64_t own_bytes);
/* Called behind replay_rss_before_own, when an observer has taken BYTES more
   and held them for the rest of the replay, or has looked at memory, which
   takes some for a while. */
void replay_rss_after_observer(struct replay_rss *m, uint64_t bytes);
/* Called before and after tables of the replayer grow, as these may be in huge
   pages; BEFORE is the result of the first call. */
uint64_t replay_rss_huge_before(void);
void replay_rss_huge_after(struct replay_rss *m, uint64_t before);
/* Reads the resident bytes without the replayer's, and those in huge pages. */
void replay_rss_read(const struct replay_rss *m, uint64_t *bytes,
                     uint64_t *huge_bytes);
/* The replayer's resident bytes, as far as it counts them. */
uint64_t replay_rss_own(const struct replay_rss *m);
/* Resident bytes without the replayer's by the kernel's counter, which may be
   off by some pages for each processor. 0: unknown. */
uint64_t replay_rss_glance(const struct replay_rss *m);
/* Begin and end of a time over which the average is taken. The end begins the
   next one. */
void replay_rss_from(struct replay_rss *m);
void replay_rss_to(struct replay_rss *m);
/* NS of recorded time passed, for an average over that. */
void replay_rss_passed(struct replay_rss *m, uint64_t ns);
/* True if LIVE_BYTES exceed the most so far by enough for replay_rss_live. */
bool replay_rss_wants(const struct replay_rss *m, uint64_t live_bytes);
/* Measures memory when LIVE_BYTES are live, the most so far. */
void replay_rss_live(struct replay_rss *m, uint64_t live_bytes);
/* Average of resident bytes; 0: unknown. */
uint64_t replay_rss_average(const struct replay_rss *m);
/* Called at the end mark. */
void replay_rss_end(struct replay_rss *m);

/* --- Time ----------------------------------------------------------------- */

/* Processor time as the kernel divides it, which on many systems is by the mode
   at each tick of a timer, so exact for long times only. */
struct replay_cpu {
    uint64_t user_ns, system_ns;
};

struct replay_cpu replay_cpu_thread(void);
struct replay_cpu replay_cpu_process(void);
static inline struct replay_cpu replay_cpu_add(struct replay_cpu a,
                                               struct replay_cpu b) {
    return (struct replay_cpu){a.user_ns + b.user_ns,
                               a.system_ns + b.system_ns};
}
/* A less B, at least 0. */
static inline struct replay_cpu replay_cpu_less(struct replay_cpu a,
                                                struct replay_cpu b) {
    return (struct replay_cpu){
        a.user_ns > b.user_ns ? a.user_ns - b.user_ns : 0,
        a.system_ns > b.system_ns ? a.system_ns - b.system_ns : 0};
}
/* Part of CPU_NS, an exact time, that was system time if PARTS are those of
   about the same time. */
uint64_t replay_cpu_system_ns(uint64_t cpu_ns, struct replay_cpu parts);

struct replay_time {
    uint64_t wall_ns;    /* within batches */
    uint64_t cpu_ns;     /* of this thread within batches, and of the other
                            threads of the process between the marks */
    uint64_t others_ns;  /* part of cpu_ns of these other threads, which may be
                            at work beside a batch and between batches */
    uint64_t system_ns;  /* part of cpu_ns in the kernel */
    uint64_t elapsed_ns; /* between the marks, with waits for operations */
    uint64_t first_wall_ns, first_thread_ns, first_process_ns;
    uint64_t empty_ns; /* processor time of a batch without operations */
    bool in_batch;
    uint64_t batch_wall_ns, batch_thread_ns; /* at the start of the batch */
    uint64_t thread_ns;                      /* within batches */
    /* At the start, at the start of the batch, and within batches. */
    struct replay_cpu first_process, first_thread, batch_thread, thread;
    uint64_t apart_ns; /* of prologues and epilogues, which are part of
                          elapsed_ns only */
};

void replay_time_start(struct replay_time *t);
void replay_time_batch_begin(struct replay_time *t);
/* APART: the batch belongs to a prologue or epilogue. */
void replay_time_batch_end(struct replay_time *t, bool apart);
void replay_time_end(struct replay_time *t);
/* Sleeps until tcm_clock_ns is NS, or a stop is requested; measures memory
   meanwhile. */
void replay_sleep_until(uint64_t ns, struct replay_rss *m);
/* Waits until B is due in a replay that started at START_NS, if operations have
   times. Returns how late it is, in ns. */
uint64_t replay_await_due(const struct replay_batch *b, uint64_t start_ns,
                          struct replay_rss *m);

#endif
