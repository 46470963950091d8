/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder without an allocator: a host that only counts, threads that
 * write events and log them in shared memory, and a reader that compares the
 * trace with the log. A recording lives in a child process, which may end in
 * any way.
 */
#ifndef TESTS_UNIT_TRACER_RECORDER_TEST_H
#define TESTS_UNIT_TRACER_RECORDER_TEST_H

#include "trace/raw.h"
#include "lib/prng.h"
#include "lib/tap.h"
#include "tracer/tracer.h"

#include <sys/types.h>

#define LOG_THREADS 64
#define LOG_CALLS   200000u

/* A logged call. */
struct logged {
    uint8_t kind; /* enum mtf_event_kind */
    uint8_t call;
    uint8_t align_log2;
    uint8_t flags;
    uint64_t size;
    uint64_t token; /* as in the trace */
    uint64_t old;
};

struct log_thread {
    uint32_t id;    /* in the trace */
    uint32_t count; /* calls done */
    uint32_t untraced;
    uint32_t dropped;
    bool ended;
    struct logged calls[LOG_CALLS];
};

struct shared_log {
    uint32_t threads;
    uint32_t started_calls; /* calls of recording_started */
    uint32_t step;          /* for tests that wait for each other */
    uint32_t mark;          /* a count of calls that a test keeps */
    struct log_thread thread[LOG_THREADS];
};
extern struct shared_log *shared;

/* Contents of a trace. */
struct found {
    bool opened, complete, clean_end;
    const char *problem; /* first disagreement with the log, or NULL */
    char text[256];
    uint64_t events, mallocs, frees;
    uint64_t barriers, samples, notices[8], footers, end_reason;
    uint64_t footer_events, footer_waits, footer_threads;
    uint64_t untraced, waits, gaps;
    uint64_t dropped, drop_gaps, backward_gaps;
    uint64_t untraced_events;           /* sum of UNTRACED */
    uint64_t all_dropped, all_untraced; /* with calls that are in no stream */
    uint64_t footer_dropped, footer_untraced;
    uint64_t first_token;
    uint64_t thread_starts, thread_ends;
    struct mtf_raw_header header;
};

/* Scratch folder with a fresh log; its name without a slash at the end. */
const char *test_begin(void);
void test_end(void);
/* "FOLDER/NAME", static memory for a few names. */
const char *test_path(const char *name);
/* True if the scratch folder has this name. */
bool test_exists(const char *name);
/* Names in the scratch folder that begin with a dot. */
unsigned test_hidden(void);

/* Runs CHILD in a process with TCMALLOC_TRACE_OUTPUT=OUTPUT (NULL: unset) and
   stderr to a file; returns its wait status. */
int test_run(const char *output, void (*child)(void));
pid_t test_spawn(const char *output, void (*child)(void));
/* The child's output on stderr. */
const char *test_stderr(void);

/* --- in the child -------------------------------------------------------- */
extern const struct mtr_host test_host;
/* A slot and log for the calling thread. */
struct writer {
    struct mtr_thread *slot;
    struct log_thread *log;
    struct prng prng;
    uint64_t live[256];
};
void writer_init(struct writer *w, unsigned log_index);
/* A random call; false: not recorded, or dropped and counted. */
bool writer_call(struct writer *w);
bool writer_alloc(struct writer *w, enum mtf_call call, uint64_t size);
bool writer_free(struct writer *w, uint64_t token);
void writer_end(struct writer *w);

/* --- in the parent ------------------------------------------------------- */
/*
 * Reads NAME and compares with the log. SLACK: calls that each stream may have
 * beyond the log (1 after a kill). EXACT false: calls may be missing, and what
 * comes after a gap is not compared.
 */
void test_read(const char *name, unsigned slack, bool exact,
               struct found *found);

/* The events of a trace one by one, in the order of its segments. */
struct event_walk {
    struct tool_raw *trace;
    struct mtf_item item;      /* segment of the event */
    struct mtf_stream *stream; /* of the thread that published it */
    bool first;                /* it is the first event of the segment */
    uint64_t first_token;      /* of the recording */
    uint64_t barriers;         /* before it */
    uint64_t barrier_ns;       /* the last of them */
    uint64_t bad;     /* gaps in streams, and bytes that are no event */
    uint64_t doubled; /* bytes that a stream had already */

    struct known_stream *known;
    size_t count;
    bool begins_late;
    struct mtf_placement part;
    size_t at;
};
/* BEGINS_LATE: streams may lack their beginning (flight recordings). */
void test_walk_begin(struct event_walk *w, const char *name, bool begins_late);
/* false: there are no more events. */
bool test_walk_next(struct event_walk *w, struct mtf_event *e);
/* true: the trace was whole and has its end. */
bool test_walk_end(struct event_walk *w);

#endif
