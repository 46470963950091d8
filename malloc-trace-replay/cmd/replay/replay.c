/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay: runs the requests of a trace against the malloc of this process and
 * measures it. This file connects the parts.
 *
 * The decoding child is started first: this program, executed without
 * LD_PRELOAD. This process makes only the requests of the trace, so that the
 * allocator starts as in a program, and a faulty allocator can be reported.
 */
#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "cmd/replay/feed/feeder.h"
#include "cmd/replay/feed/memory_room.h"
#include "cmd/replay/feed/ring.h"
#include "cmd/replay/repeat.h"
#include "cmd/replay/replay_options.h"
#include "cmd/replay/replay_report.h"
#include "cmd/replay/run/around.h"
#include "cmd/replay/run/exec.h"
#include "cmd/replay/run/real.h"
#include "cmd/replay/run/recorded_clock.h"
#include "cmd/replay/run/clock_probe.h"
#include "cmd/replay/watch/measure.h"
#include "cmd/replay/watch/observer.h"
#include "common/child.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/stop.h"
#include "common/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
/* A trace may leave blocks alive, ask for too much, or free with a different
   kind of call: these are no errors of this program. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "detect_leaks=0:allocator_may_return_null=1:"
           "alloc_dealloc_mismatch=0:new_delete_type_mismatch=0";
}
#endif

/* --- The child ------------------------------------------------------------ */

/* Decodes into RING. */
static TCM_NORETURN void child_decode(struct replay_ring *ring,
                                      const struct replay_options *o) {
    tool_stop_obey();
    bool fills = o->check && o->touch != REPLAY_TOUCH_ALL;
    replay_feed(ring, o->file, o->files, fills ? REPLAY_TOUCH_AUTO : o->touch,
                &o->order);
    _exit(0);
}

/* Executes this program again, without the allocator under test, on which
   decoding must not depend. Returns on failure; then this process decodes by
   itself. */
static void child_exec(int ring_fd, char **words) {
    static char word[40];
    if (ring_fd < 0 || words == NULL)
        return;
    snprintf(word, sizeof(word), "--" REPLAY_DECODE "=%d", ring_fd);
    words[1] = word;
    if (fcntl(ring_fd, F_SETFD, 0) == 0)
        replay_again(words);
    signal(SIGPIPE, SIG_IGN);
}

struct decoding {
    struct replay_ring *ring;
    int ring_fd;
    char **words;
    const struct replay_options *options;
};

static int child_body(void *ctx) {
    const struct decoding *d = ctx;
    child_exec(d->ring_fd, d->words);
    child_decode(d->ring, d->options);
}

/* Starts the child, which ends when the allocator under test crashes the
   parent. A stop is held until the child can obey it. -1: errno is set. */
static pid_t child_start(struct replay_ring *ring, int ring_fd, char **words,
                         const struct replay_options *o) {
    struct decoding d = {
        .ring = ring, .ring_fd = ring_fd, .words = words, .options = o};
    const struct tool_child_spec what = {.body = child_body,
                                         .ctx = &d,
                                         .signals = TOOL_CHILD_OBEYS,
                                         .dies_with_parent = true};
    struct tool_child child;
    int error = tool_child_start(&child, &what);
    if (error != 0)
        errno = error;
    return child.pid;
}

/* Ends CHILD; -1: it has ended and was waited for. */
static void child_end(pid_t child) {
    struct tool_child c = {.pid = child, .signals = TOOL_CHILD_OBEYS};
    tool_stop_pass_to(0);
    tool_child_kill(&c);
    tool_child_wait(&c, 0, NULL);
}

/* --- The run -------------------------------------------------------------- */

struct run {
    struct replay_ring *ring;
    struct replay_exec exec;
    struct replay_table slots, caches;
    struct replay_time time;
    struct replay_rss rss;
    struct replay_real real;
    struct replay_around around;
    struct replay_watch watch;
    struct replay_call_log log;
    struct replay_report report;
    pid_t child;      /* -1: ended */
    int child_status; /* of an ended child */
    int statistics_fd;
    bool switching, is_real;
    bool undecided;            /* the decoding process chooses is_real */
    struct replay_order order; /* with that choice */
    bool clock;                /* the allocator is given recorded time */
    /* Recorded time since the start: of the next part of a batch, and from
       there to the one behind; up to which deadlines were served. */
    uint64_t clock_ns, clock_step_ns, passed_ns;
    struct replay_batch head;   /* head of the last batch */
    bool out_of_memory;         /* for tables of the replayer */
    bool cut_short;             /* the child ended before its last batch */
    bool interrupted;           /* a signal ended the run */
    struct replay_account done; /* if interrupted: operations that were done */
};

static uint64_t replayer_bytes(const struct run *r) {
    return r->watch.bytes + replay_ring_bytes(r->ring) + r->slots.bytes +
           r->caches.bytes + replay_call_log_bytes(&r->log);
}

/* Makes room in the tables for batch B; not timed. False: out of memory. */
static bool run_make_room(struct run *r, const struct replay_batch *b) {
    bool slots = !replay_table_fits(&r->slots, b->slots);
    bool caches = r->switching && !replay_table_fits(&r->caches, b->caches);
    bool tags = r->log.fd >= 0 && !replay_table_fits(&r->log.tags, b->slots);
    if (!slots && !caches && !tags)
        return true;
    replay_rss_before_own(&r->rss);
    uint64_t huge = replay_rss_huge_before();
    bool good = (!slots || replay_table_grow(&r->slots, b->slots)) &&
                (!caches || replay_table_grow(&r->caches, b->caches)) &&
                (!tags || replay_call_log_fits(&r->log, b));
    r->exec.slot = r->slots.memory;
    r->exec.cache = r->caches.memory;
    replay_rss_huge_after(&r->rss, huge);
    replay_rss_after_own(&r->rss, replayer_bytes(r));
    return good;
}

/* Lets the threads that the last part has woken do their work before the next
   one, apart from the time of the batch: when they get a processor would else
   decide what they see. */
static void run_settle(struct run *r) {
    if (TCM_LIKELY(!replay_clock_take_wake()))
        return;
    replay_time_batch_end(&r->time, r->head.apart != 0);
    replay_clock_settle();
    replay_time_batch_begin(&r->time);
}

/* Called before each part of the words of a batch. */
static bool stop_is_due(void *run) {
    struct run *r = run;
    if (r->clock) {
        run_settle(r);
        replay_clock_advance_thread(r->clock_ns);
        r->clock_ns += r->clock_step_ns;
    }
    return tool_stop_is_due();
}

static void run_batch(struct run *r, const struct replay_batch *b) {
    if (r->log.fd >= 0) {
        replay_call_log_batch(&r->log, &r->exec, b, &r->time);
        return;
    }
    replay_time_batch_begin(&r->time);
    (void)replay_words_until(&r->exec, b, 0, b->word, b->word + b->words,
                             stop_is_due, r);
    replay_time_batch_end(&r->time, b->apart != 0);
}

/* Waits until B is due, or lets recorded time pass until then. */
static void run_await(struct run *r, const struct replay_batch *b) {
    if (!r->clock) {
        replay_watch_sleep(&r->watch, r->head.is_state ? &r->head : NULL,
                           b->due_ns);
        if (r->rss.is_paced)
            replay_batch_copy_head(&r->head, b);
        uint64_t late_ns = replay_await_due(b, r->time.first_wall_ns, &r->rss);
        r->report.late_ns = tcm_max_u64(r->report.late_ns, late_ns);
        return;
    }
    replay_watch_pass(&r->watch, r->head.is_state ? &r->head : NULL,
                      r->passed_ns, b->due_ns);
    r->passed_ns = tcm_max_u64(r->passed_ns, b->due_ns);
    r->clock_ns = replay_clock_place(b, 0, b->words, &r->clock_step_ns);
    replay_batch_copy_head(&r->head, b);
}

/* Lets the rest of recorded time pass, behind the last operation. */
static void run_pass_last(struct run *r) {
    const struct replay_batch *b = &r->head;
    replay_watch_pass(&r->watch, b->is_state ? b : NULL, r->passed_ns,
                      b->due_ns + b->span_ns);
}

/* Runs all batches from B, the first, on. */
static void run_batches(struct run *r, const struct replay_batch *b) {
    replay_time_start(&r->time);
    r->watch.start_ns = r->time.first_wall_ns;
    for (;;) {
        if (!run_make_room(r, b)) {
            r->out_of_memory = true;
            break;
        }
        replay_rss_from(&r->rss);
        run_await(r, b);
        run_batch(r, b);
        if (b->apart == 0)
            replay_rss_to(&r->rss);
        replay_watch_batch(&r->watch, b);
        if (r->clock && b->last)
            run_pass_last(r);
        replay_watch_moment(&r->watch, b);
        if (tool_stop_is_due()) {
            r->interrupted = true;
            break;
        }
        TCM_ASSERT(b->account.ops >= r->done.ops);
        r->done = b->account;
        if (b->last)
            break;
        replay_ring_taken(r->ring);
        b = replay_ring_take(r->ring, &r->child, &r->child_status);
        if (b == NULL) {
            r->interrupted = tool_stop_is_due();
            r->cut_short = !r->interrupted;
            break;
        }
    }
    replay_time_end(&r->time);
}

/* Finds the allocator and chooses the mode. False: the allocator cannot do what
   was asked for, after a message. */
static bool run_prepare(struct run *r, const struct replay_options *o) {
    struct replay_exec *x = &r->exec;
    replay_calls_find(&x->calls);
    x->touch = o->check ? REPLAY_TOUCH_NONE : o->touch;
    x->page_size = (size_t)sysconf(_SC_PAGESIZE);
    bool can_switch = x->calls.release_cache != NULL;
    r->is_real = o->threads == REPLAY_THREADS_REAL;
    r->undecided =
        o->threads == REPLAY_THREADS_DEFAULT && !can_switch && o->log == NULL;
    r->clock = r->rss.is_recorded = o->order.clock;
    r->rss.is_paced = o->order.speed > 0;
    r->order = o->order;
    r->report.order = &r->order;
    x->via = &x->calls;
    if (o->threads == REPLAY_THREADS_SWITCH && !can_switch) {
        replay_calls_name(&x->calls);
        tool_error("--threads=switch: %s cannot switch thread caches",
                   x->calls.name);
        return false;
    }
    r->switching = o->threads == REPLAY_THREADS_SWITCH ||
                   (o->threads == REPLAY_THREADS_DEFAULT && can_switch &&
                    getenv("NO_THREAD_CACHE_SWITCH") == NULL);
    return true;
}

/* Takes the choice of the decoding process, which has filled a batch. */
static void run_decide(struct run *r) {
    r->is_real = r->ring->result.is_real;
    r->order.skew = r->is_real ? 1 : 0;
    replay_ring_make_present(r->ring);
}

/* Prepares threads for the recorded threads. False: failed, after a message. */
static bool run_real_prepare(struct run *r, const struct replay_options *o) {
    struct replay_real *real = &r->real;
    real->options.most_hosts = (uint32_t)o->most_hosts;
    real->options.spread = o->order.spread;
    real->options.is_paced = o->order.speed > 0;
    real->options.clock = o->order.clock;
    real->ring = r->ring;
    real->exec = &r->exec;
    real->watch = &r->watch;
    real->cells = &r->slots;
    real->child = r->child;
    real->own_bytes = replayer_bytes(r);
    if (!replay_real_begin(real)) {
        tool_error("cannot make a thread: %s", strerror(errno));
        return false;
    }
    return true;
}

/* Takes the results of threads that have ended. The replayer's share is then
   measured on one thread, without waits. */
static void run_real_end(struct run *r) {
    struct replay_real *real = &r->real;
    replay_real_end(real);
    r->exec.cell = real->cells->memory;
    r->exec.is_dry = true;
    r->child = real->child;
    r->child_status = real->child_status;
    r->out_of_memory = real->out_of_memory;
    r->cut_short = real->cut_short;
    r->interrupted = real->interrupted;
    r->done = real->done;
    r->time.wall_ns = real->wall_ns;
    r->time.cpu_ns = real->cpu_ns;
    r->time.others_ns = 0;
    r->time.system_ns = real->system_ns;
    r->time.apart_ns = real->apart_ns;
    r->report.late_ns = real->late_ns;
    r->report.real = real;
    r->watch.runs_apart = true;
    r->watch.run_peak_bytes = (uint64_t)real->peak_live_bytes;
    /* The threads' changes of live bytes add up to those of the trace. */
    TCM_ASSERT(r->interrupted || r->cut_short || r->out_of_memory ||
               r->ring->result.status == TOOL_FAILED ||
               (uint64_t)real->end_live_bytes ==
                   r->ring->result.done.live_bytes);
}

/* Runs from start mark to end mark. False: could not begin, after a message. */
static bool run_marked(struct run *r, const struct replay_batch *b,
                       const struct replay_options *o) {
    if (r->is_real && !run_real_prepare(r, o))
        return false;
    r->watch.own_bytes =
        r->is_real ? replay_real_bytes(&r->real) : replayer_bytes(r);
    replay_watch_start(&r->watch);
    if (r->clock)
        replay_clock_lead();
    if (r->is_real) {
        replay_time_start(&r->time);
        replay_real_run(&r->real, b);
        replay_time_end(&r->time);
    } else {
        run_batches(r, b);
    }
    replay_clock_release();
    /* From here on the replayer works for itself, with its own cache. */
    replay_exec_switch(&r->exec, 0);
    replay_watch_end(&r->watch);
    r->watch.own_bytes =
        r->is_real ? replay_real_bytes(&r->real) : replayer_bytes(r);
    return true;
}

/* Prepares the observers. False: failed, after a message. */
static bool run_watch(struct run *r, const struct replay_options *o) {
    struct replay_watch *w = &r->watch;
    struct replay_around *a = &r->around;
    if (!replay_call_log_open(&r->log, o->log)) {
        tool_error("cannot write %s: %s", o->log, tool_file_error_text(errno));
        return false;
    }
    w->options = o;
    w->exec = &r->exec;
    w->result = &r->ring->result;
    w->rss = &r->rss;
    if (!replay_watch_begin(w))
        return false;
    a->calls = &r->exec.calls;
    a->stride = o->latency_stride;
    a->latency = w->state[REPLAY_OBSERVER_latency];
    a->verify = w->state[REPLAY_OBSERVER_verify];
    if (a->latency != NULL || a->verify != NULL) {
        r->exec.around = a;
        r->exec.around_calls = replay_around_calls(a);
    }
    return true;
}

/* Prints the allocator's own statistics. */
static void tell_statistics(struct run *r, const struct replay_options *o) {
    const char *file = o->statistics_file;
    size_t length = file == NULL ? 0 : strlen(file);
    bool is_json = length > 5 && strcmp(file + length - 5, ".json") == 0;
    if (!o->statistics)
        return;
    if (!replay_calls_statistics(&r->exec.calls, r->statistics_fd, is_json)) {
        replay_calls_name(&r->exec.calls);
        tool_warn("--allocator-stats: %s has no statistics",
                  r->exec.calls.name);
    }
    if (file != NULL && close(r->statistics_fd) != 0)
        tool_error("cannot write %s: %s", file, strerror(errno));
}

/* Measures, with all steps before and behind the marks. False: could not begin,
   after a message. */
static bool run_measured(struct run *r, const struct replay_batch *b,
                         const struct replay_options *o) {
    if (!run_marked(r, b, o))
        return false;
    if (r->is_real)
        run_real_end(r);
    tell_statistics(r, o);
    r->report.replayer_cpu_ns = replay_share_ns(&r->watch, &r->exec);
    replay_calls_name(&r->exec.calls);
    return true;
}

/* --- The end -------------------------------------------------------------- */

static void tell_child_death(const struct run *r) {
    if (r->child < 0 && WIFSIGNALED(r->child_status))
        tool_error("the decoding process was ended by signal %d (%s); what "
                   "it had decoded was replayed",
                   WTERMSIG(r->child_status),
                   strsignal(WTERMSIG(r->child_status)));
    else
        tool_error("the decoding process ended early; what it had decoded was "
                   "replayed");
}

/* Reports an interruption. The decoding process was ahead of the operations
   that were done until the signal. */
static void tell_interruption(struct run *r) {
    struct replay_result *f = &r->ring->result;
    struct tool_text a;
    if (!r->interrupted && !f->interrupted)
        return;
    if (r->interrupted) {
        f->done = r->done;
        f->apart_ops = tcm_min_u64(f->apart_ops, f->done.ops);
    }
    f->interrupted = true;
    if (f->status == TOOL_OK)
        f->status = TOOL_DAMAGED;
    tool_warn("interrupted: %s operation%s of the trace were replayed",
              tool_text_count(&a, f->done.ops), replay_plural(f->done.ops));
}

/* Reports losses of the trace and differences from the recorded run. Returns
   the exit status. */
static int run_tell(const struct run *r) {
    const struct replay_result *f = &r->ring->result;
    struct tool_text a, b;
    int status = (int)f->status;
    for (uint32_t i = 0; i < f->notices && i < REPLAY_NOTICES; i++)
        tool_warn("%s", f->notice[i]);
    if (f->notices > REPLAY_NOTICES)
        tool_warn("%s more message%s of this kind",
                  tool_text_count(&a, f->notices - REPLAY_NOTICES),
                  replay_plural(f->notices - REPLAY_NOTICES));
    if (f->unknown_blocks != 0 || f->lost_frees != 0)
        tool_warn("left out: %s operation%s on blocks whose allocation is "
                  "missing; freed late: %s block%s whose free is missing",
                  tool_text_count(&a, f->unknown_blocks),
                  replay_plural(f->unknown_blocks),
                  tool_text_count(&b, f->lost_frees),
                  replay_plural(f->lost_frees));
    if (r->exec.refused != 0)
        tool_warn("the allocator refused %s allocation%s that the recorded "
                  "run got",
                  tool_text_count(&a, r->exec.refused),
                  replay_plural(r->exec.refused));
    if (r->exec.cache_failures != 0)
        tool_warn("the allocator refused to switch thread caches %s time%s",
                  tool_text_count(&a, r->exec.cache_failures),
                  replay_plural(r->exec.cache_failures));
    if (r->cut_short) {
        tell_child_death(r);
        status = TOOL_DAMAGED;
    }
    if (f->status == TOOL_FAILED) {
        tool_error("%s", f->error);
        status = TOOL_FAILED;
    }
    if (r->out_of_memory) {
        tool_error("out of memory for the table of blocks");
        status = TOOL_FAILED;
    }
    return status;
}

static int run_all(struct run *r, const struct replay_options *o) {
    static struct tool_json json;
    const struct replay_batch *b =
        replay_ring_take(r->ring, &r->child, &r->child_status);
    if (r->undecided && b != NULL)
        run_decide(r);
    if (b != NULL && b->last && r->ring->result.status == TOOL_FAILED &&
        b->words == 0) {
        tool_error("%s", r->ring->result.error);
        return TOOL_FAILED;
    }
    bool to_stdout = (o->json != NULL && tool_file_is_stdout(o->json)) ||
                     (o->log != NULL && tool_file_is_stdout(o->log));
    if (o->json != NULL && !tool_json_open(&json, o->json))
        return TOOL_FAILED;
    r->statistics_fd = o->statistics_file == NULL
                           ? STDERR_FILENO
                           : tool_file_open_output(o->statistics_file);
    bool good = r->statistics_fd >= 0;
    if (!good)
        tool_error("cannot write %s: %s", o->statistics_file,
                   tool_file_error_text(errno));
    if (!good || !run_watch(r, o) || (b != NULL && !run_measured(r, b, o))) {
        if (o->json != NULL)
            tool_json_drop(&json);
        return TOOL_FAILED;
    }
    if (b == NULL) {
        replay_calls_name(&r->exec.calls);
        r->interrupted = tool_stop_is_due();
        r->cut_short = !r->interrupted;
    }
    tell_interruption(r);
    int replayed = run_tell(r);
    int status = replay_watch_tell(&r->watch, replayed);
    if (replayed == TOOL_FAILED) {
        if (o->json != NULL)
            tool_json_drop(&json);
    } else {
        r->report.exec = &r->exec;
        r->report.result = &r->ring->result;
        r->report.time = &r->time;
        r->report.watch = &r->watch;
        int error = replay_call_log_close(&r->log);
        if (error != 0) {
            tool_error("cannot write %s: %s", o->log, strerror(error));
            status = TOOL_FAILED;
        }
        replay_report_warn(&r->report);
        if (!tool_is_quiet() && o->is_run == NULL)
            (o->trace_run ? replay_trace_run_print : replay_report_print)(
                &r->report, to_stdout ? stderr : stdout);
        if (o->json != NULL) {
            replay_report_json(&r->report, &json);
            if (!tool_json_close(&json))
                status = TOOL_FAILED;
        }
    }
    return status;
}

/* Batches of a ring that is filled and emptied in turns. Long turns have less
   overhead, but the ring takes an eighth of the available memory at most. */
static uint32_t batches_in_turns(void) {
    struct replay_memory there;
    uint32_t batches = REPLAY_BATCHES_MOST;
    replay_memory_find(&there, "");
    while (batches > REPLAY_BATCHES &&
           batches * sizeof(struct replay_batch) > there.room_bytes / 8)
        batches /= 2;
    return batches;
}

/* Makes the ring of R. False: out of memory. Real threads that run as fast as
   possible take turns with the decoding process, which must not take a
   processor from them. */
static bool run_ring(struct run *r, int *fd) {
    bool in_turns = (r->is_real || r->undecided) && r->order.speed == 0;
    r->ring = in_turns
                  ? replay_ring_new(batches_in_turns(), 0, fd)
                  : replay_ring_new(REPLAY_BATCHES, REPLAY_BATCHES / 2, fd);
    if (r->ring == NULL)
        return false;
    replay_own_note(r->ring, replay_ring_bytes(r->ring));
    r->ring->undecided = r->undecided;
    if (!r->undecided)
        replay_ring_make_present(r->ring);
    return true;
}

/* Runs the decoding process, which was executed for that. */
static TCM_NORETURN void decode_ring(const struct replay_options *o) {
    struct replay_ring *ring = replay_ring_open((int)o->ring_fd);
    if (ring == NULL) {
        tool_error("--" REPLAY_DECODE ": no memory that is shared with this "
                   "process");
        _exit(TOOL_USAGE);
    }
    close((int)o->ring_fd);
    child_decode(ring, o);
}

/* Keeps the process for NS, or until a stop is requested, so that it can be
   examined from outside. */
static void hold_process(uint64_t ns) {
    sigset_t stops, before;
    uint64_t begin = tcm_clock_ns();
    if (ns == 0)
        return;
    fflush(stdout);
    /* Blocked, so that no signal is lost between check and sleep. */
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    sigprocmask(SIG_BLOCK, &stops, &before);
    while (!tool_stop_requested()) {
        uint64_t past = tcm_clock_ns() - begin;
        if (past >= ns)
            break;
        uint64_t rest = tcm_min_u64(ns - past, (uint64_t)3600 * 1000000000u);
        struct timespec ts = {(time_t)(rest / 1000000000u),
                              (long)(rest % 1000000000u)};
        (void)ppoll(NULL, 0, &ts, &before);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* Makes this process one under the allocator of -a, if it is not. The parent of
   several runs needs none. False: after a message. */
static bool take_allocator(const struct replay_options *o, char **words) {
    if (o->library == NULL || o->repeat != 0)
        return true;
    if (o->under != NULL)
        return replay_again_is_under(o->library, o->under);
    replay_again_under(o->library, words);
    return false;
}

int main(int argc, char **argv) {
    static struct run r;
    static char stdout_buffer[8192];
    struct replay_options o = {0};
    int status, ring_fd;

    r.log.fd = -1;
    tool_begin("replay");
    /* No buffer of this process may come from the allocator under test. */
    setvbuf(stdout, stdout_buffer, _IOFBF, sizeof(stdout_buffer));
    /* Parsing moves the words. */
    char **words = replay_again_words(argc, argv);
    if (!replay_options_parse(argc, argv, &o, &status))
        return tool_end(status);
    bool is_run = !o.decodes && !o.probes && o.repeat == 0;
    if (!o.order.clock || !is_run)
        replay_clock_run_free();
    if (o.decodes)
        decode_ring(&o);
    /* Allocators go by addresses, too: figures are to be the same each time. */
    if (o.order.clock && is_run)
        replay_again_fixed(words);
    if (!take_allocator(&o, words))
        return tool_end(TOOL_FAILED);
    if (o.probes)
        replay_clock_probe_main((int)o.probe_fd);
    if (o.repeat != 0) {
        status = replay_repeat(o.repeat, o.json, words);
        if (status != TOOL_FAILED)
            hold_process(o.hold_ns);
        return tool_end(status);
    }
    if (!run_prepare(&r, &o))
        return tool_end(TOOL_FAILED);
    if (!run_ring(&r, &ring_fd)) {
        tool_error("cannot share memory with the decoding process: out of "
                   "memory");
        return tool_end(TOOL_FAILED);
    }
    /* A run of several gets a signal from the terminal and from its parent. */
    if (o.is_run != NULL)
        tool_stop_obey();
    else
        tool_stop_catch();
    if (o.order.clock)
        replay_clock_probe(&r.report.foreign, words);
    r.child = child_start(r.ring, ring_fd, words, &o);
    if (ring_fd >= 0)
        close(ring_fd);
    if (r.child < 0) {
        tool_error("cannot make the decoding process: %s", strerror(errno));
        return tool_end(TOOL_FAILED);
    }
    status = run_all(&r, &o);
    child_end(r.child);
    if (status != TOOL_FAILED)
        hold_process(o.hold_ns);
    return tool_end(status);
}
