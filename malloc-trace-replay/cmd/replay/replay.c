/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay: runs the requests of a processed trace against the malloc of this
 * process and measures it. This file connects the parts.
 *
 * The decoding child is made first of all. It is this program, executed without
 * what LD_PRELOAD names. This process asks its allocator for nothing but what
 * the trace asks for, so that the allocator begins as it does in a program, and
 * so that one which is wrong is told of.
 */
#include "base/bits.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "cmd/replay/again.h"
#include "cmd/replay/call_log.h"
#include "cmd/replay/counters.h"
#include "cmd/replay/around.h"
#include "cmd/replay/exec.h"
#include "cmd/replay/feeder.h"
#include "cmd/replay/hold.h"
#include "cmd/replay/latency.h"
#include "cmd/replay/measure.h"
#include "cmd/replay/memory.h"
#include "cmd/replay/options.h"
#include "cmd/replay/real.h"
#include "cmd/replay/repeat.h"
#include "cmd/replay/report.h"
#include "cmd/replay/ring.h"
#include "cmd/replay/share.h"
#include "cmd/replay/statistics.h"
#include "cmd/replay/timeline.h"
#include "cmd/replay/trace_run.h"
#include "cmd/replay/verify.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/stop.h"
#include "common/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
/* It is the trace that leaves blocks alive, asks for too much, or frees with
   another kind of call: no errors of this program. */
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
    /* Blocks that are checked are written whole. */
    replay_feed(ring, o->file, o->files, o->check ? REPLAY_TOUCH_ALL : o->touch,
                &o->order);
    _exit(0);
}

/* Executes this program anew, without the allocator under test, which decoding
   must not depend on. Comes back if that cannot be: then this process decodes
   by itself. */
static void child_exec(int ring_fd, char **words) {
    static char word[40];
    if (ring_fd < 0 || words == NULL)
        return;
    snprintf(word, sizeof(word), "--" REPLAY_DECODE "=%d", ring_fd);
    words[1] = word;
    if (fcntl(ring_fd, F_SETFD, 0) == 0)
        replay_again(words, false);
    signal(SIGPIPE, SIG_IGN);
}

static pid_t child_start(struct replay_ring *ring, int ring_fd, char **words,
                         const struct replay_options *o) {
    pid_t parent = getpid();
    /* a stop is held until the child can obey it */
    tool_stop_hold(true);
    pid_t child = fork();
    if (child == 0) {
        /* If the allocator under test crashes the parent, the child ends,
           too. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(TOOL_FAILED);
        child_exec(ring_fd, words);
        child_decode(ring, o);
    }
    tool_stop_hold(false);
    if (child > 0)
        tool_stop_pass_to(child);
    return child;
}

static void child_end(pid_t child) {
    tool_stop_pass_to(0);
    if (child < 0)
        return;
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* --- The run -------------------------------------------------------------- */

struct run {
    struct replay_ring *ring;
    struct replay_exec exec;
    struct replay_table slots, caches;
    struct replay_time time;
    struct replay_share share;
    struct replay_rss rss;
    struct replay_real real;
    struct replay_around around;
    struct replay_timeline *timeline; /* NULL: not wanted */
    struct replay_call_log log;
    struct replay_report report;
    pid_t child;      /* -1: it has ended, */
    int child_status; /* with this */
    int statistics_fd;
    bool switching, is_real;
    bool out_of_memory;         /* for our own tables */
    bool cut_short;             /* the child ended without its last batch */
    bool interrupted;           /* a signal ended the run; then */
    struct replay_account done; /* is what was done */
};

static uint64_t own_bytes(const struct run *r) {
    return (r->around.latency != NULL ? replay_latency_bytes() : 0) +
           (r->timeline != NULL ? replay_timeline_bytes() : 0) +
           replay_ring_bytes(r->ring) + r->slots.bytes + r->caches.bytes +
           replay_share_bytes(&r->share) + replay_call_log_bytes(&r->log);
}

/* Makes room in the tables for what batch B names; not timed. */
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
    replay_rss_after_own(&r->rss, own_bytes(r));
    return good;
}

/* B is paced: waits until it is due; not timed. */
static void await_due(struct run *r, const struct replay_batch *b) {
    if (b->due_ns == 0)
        return;
    uint64_t now = tcm_clock_ns();
    uint64_t due = r->time.first_wall_ns + r->rss.look_ns + b->due_ns;
    if (now < due)
        replay_sleep_until(due, &r->rss);
    else
        r->report.late_ns = tcm_max_u64(r->report.late_ns, now - due);
}

/* Words that are run between two looks for a stop. */
#define STOP_WORDS 256u

static void run_batch(struct run *r, const struct replay_batch *b) {
    if (r->log.fd >= 0) {
        replay_call_log_batch(&r->log, &r->exec, b, &r->time);
        return;
    }
    const uint64_t *at = b->word, *end = at + b->words;
    replay_time_batch_begin(&r->time);
    /* In parts, since a batch of large blocks that are written whole may take
       minutes. */
    while (at < end && !tool_stop_is_due()) {
        const uint64_t *to = at + tcm_min_u64((uint64_t)(end - at), STOP_WORDS);
        at = r->exec.around != NULL
                 ? replay_around_words(&r->exec, b, 0, at, to)
                 : replay_exec_words(&r->exec, at, to);
    }
    replay_time_batch_end(&r->time, b->apart != 0);
}

/* Runs all batches from B, the first, on. */
static void run_batches(struct run *r, const struct replay_batch *b) {
    replay_time_start(&r->time);
    for (;;) {
        if (!run_make_room(r, b)) {
            r->out_of_memory = true;
            break;
        }
        replay_rss_from(&r->rss);
        await_due(r, b);
        run_batch(r, b);
        if (b->apart == 0)
            replay_rss_to(&r->rss);
        if (b->apart == 0)
            replay_share_see(&r->share, b);
        if (replay_rss_wants(&r->rss, b->live_bytes))
            replay_rss_live(&r->rss, b->live_bytes);
        replay_fidelity_look(&r->report.fidelity, &r->exec.calls, b);
        if (r->timeline != NULL && replay_timeline_wants(r->timeline, b))
            replay_timeline_look(r->timeline, b, &r->exec.calls, &r->rss,
                                 tcm_clock_ns() - r->time.first_wall_ns);
        if (tool_stop_is_due()) {
            r->interrupted = true;
            break;
        }
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

/* Finds the allocator and decides how to run. False: it lacks what was asked
   for. */
static bool run_prepare(struct run *r, const struct replay_options *o) {
    struct replay_exec *x = &r->exec;
    replay_calls_find(&x->calls);
    x->touch = o->check ? REPLAY_TOUCH_NONE : o->touch;
    x->page_size = (size_t)sysconf(_SC_PAGESIZE);
    bool can_switch = x->calls.release_cache != NULL;
    r->is_real = o->threads == THREADS_REAL;
    r->report.order = &o->order;
    x->via = &x->calls;
    if (o->threads == THREADS_SWITCH && !can_switch) {
        replay_calls_name(&x->calls);
        tool_error("--threads=switch: %s cannot switch thread caches",
                   x->calls.name);
        return false;
    }
    r->switching = o->threads == THREADS_SWITCH ||
                   (o->threads == THREADS_DEFAULT && can_switch &&
                    getenv("NO_THREAD_CACHE_SWITCH") == NULL);
    return true;
}

/* Prepares threads for the recorded threads. False: it cannot begin. */
static bool run_real_prepare(struct run *r, const struct replay_options *o) {
    struct replay_real *real = &r->real;
    real->options.most_hosts = o->most_hosts;
    real->options.spread = o->order.spread;
    real->options.is_paced = o->order.speed > 0;
    real->ring = r->ring;
    real->exec = &r->exec;
    real->share = &r->share;
    real->rss = &r->rss;
    real->timeline = r->timeline;
    real->fidelity = &r->report.fidelity;
    real->cells = &r->slots;
    real->child = r->child;
    real->own_bytes = own_bytes(r);
    if (!replay_real_begin(real)) {
        tool_error("cannot make a thread: %s", strerror(errno));
        return false;
    }
    return true;
}

/* After the threads have ended: the replayer's share is found on one thread,
   and has no waits. */
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
    r->time.apart_ns = real->apart_ns;
    r->report.late_ns = real->late_ns;
    r->report.real = real;
}

/* Between the marks. False: it could not begin. */
static bool run_marked(struct run *r, const struct replay_batch *b,
                       const struct replay_options *o,
                       struct replay_counters *before) {
    replay_usage_open(&r->report.usage);
    if (r->is_real && !run_real_prepare(r, o))
        return false;
    replay_counters_read(&r->exec.calls, before);
    replay_fidelity_begin(&r->report.fidelity, &r->exec.calls);
    if (r->timeline != NULL)
        replay_timeline_begin(r->timeline, &r->exec.calls);
    if (!r->is_real) {
        replay_rss_start(&r->rss, own_bytes(r));
        replay_usage_start(&r->report.usage, r->ring->result.cpu_ns);
        run_batches(r, b);
        replay_usage_end(&r->report.usage, r->ring->result.cpu_ns);
        replay_rss_end(&r->rss);
        r->report.own_bytes = own_bytes(r);
        return true;
    }
    replay_rss_start(&r->rss, replay_real_bytes(&r->real));
    replay_usage_start(&r->report.usage, r->ring->result.cpu_ns);
    replay_time_start(&r->time);
    replay_real_run(&r->real, b);
    replay_time_end(&r->time);
    replay_usage_end(&r->report.usage, r->ring->result.cpu_ns);
    replay_rss_end(&r->rss);
    r->report.own_bytes = replay_real_bytes(&r->real);
    return true;
}

/* Prepares looking at calls. False: out of memory. */
static bool run_look(struct run *r, const struct replay_options *o) {
    struct replay_around *a = &r->around;
    if (!replay_call_log_open(&r->log, o->log)) {
        tool_error("cannot write %s: %s", o->log, tool_file_error_text(errno));
        return false;
    }
    if (o->timeline != NULL) {
        r->timeline = replay_timeline_new(o->timeline_step, o->timeline_is_time,
                                          o->order.speed > 0);
        if (r->timeline == NULL) {
            tool_error("out of memory");
            return false;
        }
    }
    if (!o->check && !o->latency)
        return true;
    a->calls = &r->exec.calls;
    a->stride = o->latency_stride;
    a->latency = o->latency ? replay_latency_new() : NULL;
    a->verify = o->check ? replay_verify_new(r->exec.calls.usable_size) : NULL;
    if ((o->latency && a->latency == NULL) || (o->check && a->verify == NULL)) {
        tool_error("out of memory");
        return false;
    }
    if (a->latency != NULL)
        replay_latency_begin(a->latency);
    if (a->verify != NULL)
        replay_verify_catch(a->verify, TOOL_ALLOCATOR);
    r->exec.around = a;
    r->exec.around_calls = replay_around_calls(a);
    r->report.around = a;
    return true;
}

static void run_look_end(struct run *r) {
    if (r->around.latency != NULL)
        replay_latency_end(r->around.latency);
    if (r->around.verify != NULL)
        replay_verify_end(r->around.verify);
}

/* Prints what the allocator says of itself. */
static void tell_statistics(struct run *r, const struct replay_options *o) {
    const char *file = o->statistics_file;
    size_t length = file == NULL ? 0 : strlen(file);
    bool is_json = length > 5 && strcmp(file + length - 5, ".json") == 0;
    if (!o->statistics)
        return;
    if (!replay_statistics(&r->exec.calls, r->statistics_fd, is_json)) {
        replay_calls_name(&r->exec.calls);
        tool_warn("--allocator-stats: %s says nothing of itself",
                  r->exec.calls.name);
    }
    if (file != NULL && close(r->statistics_fd) != 0)
        tool_error("cannot write %s: %s", file, strerror(errno));
}

/* Measures, with all that has to be done before and after. False: it could not
   begin. */
static bool run_measured(struct run *r, const struct replay_batch *b,
                         const struct replay_options *o) {
    struct replay_counters before;
    replay_share_begin(&r->share);
    if (!run_look(r, o) || !run_marked(r, b, o, &before))
        return false;
    run_look_end(r);
    /* From here on the replayer works for itself: with its own cache. */
    replay_exec_switch(&r->exec, 0);
    replay_counters_read(&r->exec.calls, &r->report.counters);
    replay_counters_since(&before, &r->report.counters);
    if (r->is_real)
        run_real_end(r);
    tell_statistics(r, o);
    r->report.replayer_cpu_ns = replay_share_ns(&r->share, &r->exec);
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

/* The decoding process was ahead of what was done until the signal. */
static void tell_interruption(struct run *r) {
    struct replay_result *f = &r->ring->result;
    const struct replay_account *done = &r->done;
    struct tool_text a;
    if (!r->interrupted && !f->interrupted)
        return;
    if (r->interrupted) {
        f->ops = done->ops;
        f->live_bytes = done->live_bytes;
        f->live_objects = done->live_blocks;
        f->peak_live_bytes = done->peak_live_bytes;
        f->requested_bytes = done->requested_bytes;
        f->thread_switches = done->switches;
        f->threads = done->threads;
        f->apart_ops = tcm_min_u64(f->apart_ops, f->ops);
    }
    f->interrupted = true;
    if (f->status == TOOL_OK)
        f->status = TOOL_DAMAGED;
    tool_warn("interrupted: %s operation%s of the trace were replayed",
              tool_text_count(&a, f->ops), replay_plural(f->ops));
}

/* Says what is missing, and what went otherwise than recorded. */
static int run_tell(const struct run *r) {
    const struct replay_result *f = &r->ring->result;
    struct tool_text a, b;
    int status = (int)f->status;
    for (uint32_t i = 0; i < f->notices && i < REPLAY_NOTICES; i++)
        tool_warn("%s", f->notice[i]);
    if (f->notices > REPLAY_NOTICES)
        tool_warn("%s more %s",
                  tool_text_count(&a, f->notices - REPLAY_NOTICES),
                  f->notices - REPLAY_NOTICES == 1 ? "place like this"
                                                   : "places like these");
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
    if (r->around.verify != NULL) {
        replay_verify_tell(r->around.verify);
        if (replay_verify_faults(r->around.verify) != 0 &&
            status != TOOL_FAILED)
            status = TOOL_ALLOCATOR;
    }
    return status;
}

static int run_all(struct run *r, const struct replay_options *o) {
    static struct tool_json json;
    if (!run_prepare(r, o))
        return TOOL_FAILED;
    const struct replay_batch *b =
        replay_ring_take(r->ring, &r->child, &r->child_status);
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
    if (!good || (b != NULL && !run_measured(r, b, o))) {
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
    int status = run_tell(r);
    if (status == TOOL_FAILED) {
        if (o->json != NULL)
            tool_json_drop(&json);
    } else {
        r->report.exec = &r->exec;
        r->report.result = &r->ring->result;
        r->report.time = &r->time;
        r->report.rss = &r->rss;
        int error = replay_call_log_close(&r->log);
        if (error != 0) {
            tool_error("cannot write %s: %s", o->log, strerror(error));
            status = TOOL_FAILED;
        }
        if (r->timeline != NULL &&
            !replay_timeline_write(r->timeline, o->timeline))
            status = TOOL_FAILED;
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

/* IN_TURNS: the decoding process must not take a processor from threads that
   run as fast as they can. The longer a turn, the less of it is begin and end;
   but it takes an eighth of the memory there is at most. */
static struct replay_ring *ring_new(bool in_turns, int *fd) {
    struct replay_memory there;
    uint32_t batches = REPLAY_BATCHES_MOST;
    if (!in_turns)
        return replay_ring_new_file(REPLAY_BATCHES, REPLAY_BATCHES / 2, fd);
    replay_memory_find(&there, "");
    while (batches > REPLAY_BATCHES &&
           batches * sizeof(struct replay_batch) > there.room_bytes / 8)
        batches /= 2;
    return replay_ring_new_file(batches, 0, fd);
}

/* In the decoding process, which was executed for that. */
static TCM_NORETURN void decode(const struct replay_options *o) {
    struct replay_ring *ring = replay_ring_open((int)o->ring_fd);
    if (ring == NULL) {
        tool_error("--" REPLAY_DECODE ": no memory that is shared with this "
                   "process");
        _exit(TOOL_USAGE);
    }
    close((int)o->ring_fd);
    child_decode(ring, o);
}

int main(int argc, char **argv) {
    static struct run r;
    static char stdout_buffer[8192];
    struct replay_options o = {0};
    int status, ring_fd;

    r.log.fd = -1;
    tool_begin("replay");
    /* Nothing of this process is in memory of the allocator under test. */
    setvbuf(stdout, stdout_buffer, _IOFBF, sizeof(stdout_buffer));
    /* Parsing moves the words. */
    char **words = replay_again_words(argc, argv);
    if (!replay_options_parse(argc, argv, &o, &status))
        return tool_end(status);
    if (o.decodes)
        decode(&o);
    if (o.repeat != 0) {
        status = replay_repeat(o.repeat, o.json, words);
        if (status != TOOL_FAILED)
            replay_hold(o.hold_ns);
        return tool_end(status);
    }
    r.ring =
        ring_new(o.threads == THREADS_REAL && o.order.speed == 0, &ring_fd);
    if (r.ring == NULL) {
        tool_error("cannot share memory with the decoding process: out of "
                   "memory");
        return tool_end(TOOL_FAILED);
    }
    /* a run of several gets a signal from the terminal and from its parent */
    if (o.is_run != NULL)
        tool_stop_obey();
    else
        tool_stop_catch();
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
        replay_hold(o.hold_ns);
    return tool_end(status);
}
