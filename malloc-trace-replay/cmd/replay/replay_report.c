/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/replay_report.h"

#include "base/bits.h"
#include "cmd/replay/feed/translate.h"
#include "cmd/replay/run/recorded_clock.h"
#include "cmd/replay/watch/measure.h"
#include "cmd/replay/watch/observer.h"
#include "common/main.h"
#include "common/text.h"
#include "traceformat/trace_event.h"

#include <stdio.h>

static double per_op(uint64_t ns, uint64_t ops) {
    return ops == 0 ? 0 : (double)ns / (double)ops;
}

/* Average number of processors that ran operations. */
static double processors(const struct replay_report *r) {
    return r->time->wall_ns == 0
               ? 0
               : (double)r->time->cpu_ns / (double)r->time->wall_ns;
}

/* Least delay behind the pace that is worth a warning. */
#define LATE_NS UINT64_C(100000000)

/* --- Warnings ------------------------------------------------------------- */

/* Warning that the cache of one thread served all recorded threads. */
static bool text_threads(const struct replay_report *r, char *text,
                         size_t size) {
    struct tool_text a;
    if (r->result->most_threads < 2 || r->exec->cache != NULL ||
        r->real != NULL)
        return false;
    int n =
        snprintf(text, size,
                 "%s threads were recorded, and all ran on one thread and its "
                 "cache: with threads of their own this allocator may take "
                 "several times the memory, and another time",
                 tool_text_count(&a, r->result->most_threads));
    if (r->result->head_ops != 0 && n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n,
                 "; the first %s operations were of one thread",
                 tool_text_count(&a, r->result->head_ops));
    return true;
}

/* Warning that idle times were shorter than recorded. */
static bool text_late(const struct replay_report *r, char *text, size_t size) {
    struct tool_text a;
    if (r->order->speed <= 0 || r->late_ns < LATE_NS)
        return false;
    snprintf(text, size,
             "the pace was not kept: operations began up to %s late",
             tool_text_ns(&a, r->late_ns));
    return true;
}

void replay_report_warn(const struct replay_report *r) {
    char text[REPLAY_NOTICE_SIZE];
    struct tool_text a;
    if (r->order->clock && r->result->recorded_ns == 0)
        tool_warn("--clock=recorded: the trace has no times, so the "
                  "allocator's clock stood still");
    if (text_late(r, text, sizeof(text)))
        tool_warn("%s", text);
    if (!text_threads(r, text, sizeof(text)))
        return;
    /* Two lines, which fit a terminal. */
    tool_warn("%s threads were recorded, and all ran on one thread",
              tool_text_count(&a, r->result->most_threads));
    if (r->result->head_ops != 0)
        tool_warn("as the first %s operations were of one thread",
                  tool_text_count(&a, r->result->head_ops));
    tool_warn("with --threads=real memory may be several times as much");
}

/* Operations that wall_ns contains. */
static uint64_t timed_ops(const struct replay_report *r) {
    return r->result->done.ops - r->result->apart_ops;
}

/* Processor time of the calls, without the replayer's own time if known. */
static uint64_t calls_cpu_ns(const struct replay_report *r) {
    uint64_t own = r->replayer_cpu_ns;
    return own < r->time->cpu_ns ? r->time->cpu_ns - own : 0;
}

/* Processor time of the recorded run; 0: unknown. */
static uint64_t recorded_cpu_ns(const struct replay_report *r) {
    return r->result->without_cpu == 0 ? r->result->recorded_cpu_ns : 0;
}

/* Share of the calls in the recorded run, in per cent; 0: unknown. Calls are
   part of that run only under the library that recorded it, which is this
   project's. A replay that took longer than the run gives no share. */
static double malloc_share(const struct replay_report *r) {
    uint64_t recorded = recorded_cpu_ns(r), calls = calls_cpu_ns(r);
    if (calls >= recorded || r->exec->calls.set_cache == NULL)
        return 0;
    return (double)calls * 100 / (double)recorded;
}

static void print_pace(const struct replay_report *r, FILE *out) {
    struct tool_text a, b;
    if (r->order->speed <= 0)
        return;
    fprintf(out, "pace              kept to within %s; it stood still for %s, ",
            tool_text_ns(&a, r->late_ns),
            tool_text_ns(&b, r->watch->rss->look_ns));
    fprintf(out, "while memory was measured\n");
}

/* Modules that take their time from elsewhere than the recorded clock. */
static void print_foreign(const struct replay_clock_foreign *f, FILE *out) {
    if (f->counter[0] != '\0')
        fprintf(out, "not under it      %s: reads the time-stamp counter\n",
                f->counter);
    if (f->kernel[0] != '\0')
        fprintf(out, "not under it      %s: asks the kernel by itself\n",
                f->kernel);
    if (f->counter_unknown || f->kernel_unknown)
        fprintf(out, "not examined      whether the allocator %s%s%s\n",
                f->counter_unknown ? "reads the time-stamp counter" : "",
                f->counter_unknown && f->kernel_unknown ? " or " : "",
                f->kernel_unknown ? "asks the kernel by itself" : "");
}

static void print_clock(const struct replay_report *r, FILE *out) {
    struct replay_clock_account a;
    struct tool_text b, c;
    if (!r->order->clock)
        return;
    replay_clock_tell(&a);
    fprintf(out,
            "recorded clock    %s passed; %s wait%s of the allocator ended "
            "by their time\n",
            tool_text_ns(&b, r->result->recorded_ns),
            tool_text_count(&c, a.served), replay_plural(a.served));
    if (a.call_ns != 0)
        fprintf(out,
                "                  %s more passed in calls that waited for "
                "time by themselves\n",
                tool_text_ns(&b, a.call_ns));
    if (a.stragglers != 0)
        fprintf(out,
                "                  not waited for any longer: thread %s%s\n",
                a.straggler, a.stragglers > 1 ? " and others" : "");
    print_foreign(&r->foreign, out);
}

/* Part of the processor time from which the report names that of the
   allocator's own threads. */
#define OTHERS_TOLD 100u

static void print_time(const struct replay_report *r, FILE *out) {
    struct tool_text a, b;
    uint64_t ops = timed_ops(r);
    uint64_t wall = r->time->wall_ns, cpu = r->time->cpu_ns;
    double rate = wall == 0 ? 0 : (double)ops * 1e3 / (double)wall;
    fprintf(out, "\nprocessor time    %s, %.2f ns an operation",
            tool_text_ns(&a, cpu), per_op(cpu, ops));
    if (r->replayer_cpu_ns != 0)
        fprintf(out, "; replay's own share %.2f ns",
                per_op(r->replayer_cpu_ns, ops));
    fprintf(out, "\nof that           user %s, system %s",
            tool_text_ns(&a, cpu - r->time->system_ns),
            tool_text_ns(&b, r->time->system_ns));
    if (r->time->others_ns > cpu / OTHERS_TOLD)
        fprintf(out, "\nallocator threads %s of that, also between operations",
                tool_text_ns(&a, r->time->others_ns));
    fprintf(out,
            "\nwall time         %s, %.2f ns an operation, %.1f M "
            "operations/s\n",
            tool_text_ns(&a, wall), per_op(wall, ops), rate);
    if (r->result->apart_ops != 0)
        fprintf(out,
                "apart             %s operations of prologue and epilogue, "
                "%s\n",
                tool_text_count(&b, r->result->apart_ops),
                tool_text_ns(&a, r->time->apart_ns));
    if (r->time->elapsed_ns > wall + wall / 10 + 1000000)
        fprintf(
            out,
            "with waits        %s (for operations to be read and decoded)\n",
            tool_text_ns(&a, r->time->elapsed_ns));
    if (malloc_share(r) > 0)
        fprintf(out,
                "malloc took       about %.*f %% of the recorded run (%s of "
                "processor time)\n",
                malloc_share(r) < 10 ? 1 : 0, malloc_share(r),
                tool_text_ns(&a, recorded_cpu_ns(r)));
    else if (recorded_cpu_ns(r) != 0)
        fprintf(out, "recorded run      %s of processor time\n",
                tool_text_ns(&a, recorded_cpu_ns(r)));
}

static const char *mode_name(const struct replay_report *r) {
    return r->real != NULL          ? "real"
           : r->exec->cache != NULL ? "switch"
                                    : "none";
}

static void print_real(const struct replay_report *r, FILE *out) {
    struct tool_text a, b, c;
    const struct replay_real *real = r->real;
    fprintf(out, "threads           %s, at most %s at a time",
            tool_text_count(&a, real->lanes),
            tool_text_count(&b, real->most_alive));
    if (real->hosts < real->most_alive)
        fprintf(out, ", in turns on %s%s", tool_text_count(&c, real->hosts),
                real->pooled ? " (the system gives no more)" : "");
    fprintf(out, "\nwaits             %s for others' blocks, %s for ",
            tool_text_ns(&a, real->waits.data_ns),
            r->order->skew == REPLAY_SKEW_NONE
                ? "no"
                : tool_text_ns(&b, real->waits.skew_ns));
    fprintf(out, "others to catch up\n");
    fprintf(out, "processors        %.2f at work\n", processors(r));
}

/* Prints calls that failed, in the replay or in the recorded run. */
static void print_refused(const struct replay_report *r, FILE *out) {
    struct tool_text a, b;
    const struct replay_result *f = r->result;
    if (r->exec->refused != 0)
        fprintf(
            out,
            "refused           %s allocation%s that the recorded run got; %s "
            "operation%s skipped for that\n",
            tool_text_count(&a, r->exec->refused),
            replay_plural(r->exec->refused),
            tool_text_count(&b, r->exec->skipped),
            replay_plural(r->exec->skipped));
    if (f->recorded_failures != 0)
        fprintf(out,
                "failed            %s call%s in the recorded run, not "
                "repeated\n",
                tool_text_count(&a, f->recorded_failures),
                replay_plural(f->recorded_failures));
    if (f->recorded_trims != 0)
        fprintf(out, "malloc_trim       %s call%s in the recorded run, %s\n",
                tool_text_count(&a, f->recorded_trims),
                replay_plural(f->recorded_trims),
                r->exec->trims != 0 ? "repeated"
                                    : "which the allocator does not have");
}

void replay_report_print(const struct replay_report *r, FILE *out) {
    struct tool_text a, b, c;
    const struct replay_result *f = r->result;
    fprintf(out, "allocator         %s\n",
            tool_text_shown(r->exec->calls.name));
    if (f->executable[0])
        fprintf(out, "recorded from     %s\n", tool_text_shown(f->executable));
    fprintf(out, "operations        %s of %s thread%s\n",
            tool_text_count(&a, f->done.ops),
            tool_text_count(&b, f->done.threads),
            replay_plural(f->done.threads));
    if (r->real != NULL)
        print_real(r, out);
    else
        fprintf(out, "thread switches   %s (%s)\n",
                tool_text_count(&c, f->done.switches),
                r->exec->cache ? "with their thread caches"
                               : "caches not switched");
    print_refused(r, out);
    print_time(r, out);
    print_pace(r, out);
    print_clock(r, out);
    replay_watch_print(r->watch, out);
}

/* --- Text like that of trace_run ------------------------------------------ */

/* Calls as trace_run counts them: malloc includes aligned allocations and
   operators new. */
struct call_sums {
    uint64_t calls, ticks;
};

static const struct replay_latency *latency_of(const struct replay_report *r) {
    return r->watch->state[REPLAY_OBSERVER_latency];
}

static void sum_calls(const struct replay_report *r, enum replay_kind kind,
                      struct call_sums *s) {
    uint64_t calls, ticks;
    replay_latency_sum(latency_of(r), kind, &calls, &ticks);
    s->calls += calls;
    s->ticks += ticks;
}

/* Prints an average. A count of 0 is shown as 1. */
static void put_average(FILE *out, const char *name, int width,
                        const struct call_sums *s) {
    struct tool_text a, b;
    uint64_t calls = s->calls == 0 ? 1 : s->calls;
    fprintf(out, "Avg %s time: %*s in %10s calls\n", name, width,
            tool_text_count(&a, s->ticks / calls), tool_text_count(&b, calls));
}

void replay_trace_run_print(const struct replay_report *r, FILE *out) {
    struct tool_text a, b, c;
    struct call_sums made = {0, 0}, zeroed = {0, 0}, resized = {0, 0},
                     freed = {0, 0};
    const struct replay_rss *rss = r->watch->rss;
    uint64_t threads =
        r->real != NULL ? tcm_max_u64(r->result->done.threads, 1) : 1;
    uint64_t peak = rss->peak_bytes, start = rss->start_bytes;
    double tick_ns = replay_latency_tick_ns(latency_of(r));
    sum_calls(r, REPLAY_KIND_MALLOC, &made);
    sum_calls(r, REPLAY_KIND_ALIGNED, &made);
    sum_calls(r, REPLAY_KIND_NEW, &made);
    sum_calls(r, REPLAY_KIND_CALLOC, &zeroed);
    sum_calls(r, REPLAY_KIND_REALLOC, &resized);
    sum_calls(r, REPLAY_KIND_FREE, &freed);
    sum_calls(r, REPLAY_KIND_DELETE, &freed);
    fprintf(
        out, "%s cycles\n",
        tool_text_count(&a, (uint64_t)((double)r->time->wall_ns / tick_ns)));
    fprintf(out, "%s usec wall time\n",
            tool_text_count(&a, r->time->wall_ns / 1000));
    fprintf(out, "%s usec across %s thread%s\n",
            tool_text_count(&a, replay_usage_user_ns(r->watch) / 1000),
            tool_text_count(&b, threads), replay_plural(threads));
    fprintf(out, "%s Kb Max RSS (%s -> %s)\n",
            tool_text_count(&a, peak > start ? (peak - start) / 1024 : 0),
            tool_text_count(&b, start / 1024),
            tool_text_count(&c, rss->end_bytes / 1024));
    fprintf(out, "%s Kb Max Ideal RSS\n\nsizeof ticks_t is 8\n",
            tool_text_count(&a, r->result->done.peak_live_bytes / 1024));
    put_average(out, "malloc", 6, &made);
    put_average(out, "calloc", 6, &zeroed);
    put_average(out, "realloc", 5, &resized);
    put_average(out, "free", 8, &freed);
    fprintf(out, "Total call time: %s cycles\n\n",
            tool_text_count(&a, made.ticks + zeroed.ticks + resized.ticks +
                                    freed.ticks));
}

/* --- JSON ----------------------------------------------------------------- */

static void json_clock(const struct replay_report *r, struct tool_json *j) {
    struct replay_clock_account a;
    if (!r->order->clock)
        return;
    replay_clock_tell(&a);
    tool_json_u64(j, "clock_waits", a.waits);
    tool_json_u64(j, "clock_served", a.served);
    tool_json_u64(j, "clock_stragglers", a.stragglers);
    tool_json_u64(j, "clock_call_ns", a.call_ns);
    /* Absent: not known. Empty: no module does. */
    if (!r->foreign.counter_unknown)
        tool_json_string(j, "clock_reads_counter", r->foreign.counter);
    if (!r->foreign.kernel_unknown)
        tool_json_string(j, "clock_asks_kernel", r->foreign.kernel);
}

static void json_order(const struct replay_report *r, struct tool_json *j) {
    const struct replay_order *o = r->order;
    tool_json_double(j, "speed", o->speed);
    tool_json_string(j, "clock", o->clock ? "recorded" : "real");
    json_clock(r, j);
    if (o->speed > 0) {
        tool_json_u64(j, "late_ns", r->late_ns);
        tool_json_u64(j, "look_ns", r->watch->rss->look_ns);
    }
    if (o->max_idle_ns != UINT64_MAX)
        tool_json_u64(j, "max_idle_ns", o->max_idle_ns);
}

static void json_waits(const struct replay_waits *w, struct tool_json *j) {
    tool_json_u64(j, "data_ns", w->data_ns);
    tool_json_u64(j, "skew_ns", w->skew_ns);
    tool_json_u64(j, "idle_ns", w->idle_ns);
}

static void json_real(const struct replay_report *r, struct tool_json *j) {
    const struct replay_real *real = r->real;
    const struct replay_result *f = r->result;
    if (r->order->skew != REPLAY_SKEW_NONE)
        tool_json_u64(j, "skew_ns",
                      r->order->skew * (uint64_t)REPLAY_WINDOW_NS);
    tool_json_string(j, "think", r->order->spread ? "recorded" : "none");
    tool_json_u64(j, "windows", f->windows);
    tool_json_u64(j, "most_threads_alive", real->most_alive);
    tool_json_u64(j, "system_threads", real->hosts);
    tool_json_bool(j, "threads_refused", real->pooled);
    tool_json_double(j, "processors", processors(r));
    tool_json_begin_object(j, "waits");
    json_waits(&real->waits, j);
    tool_json_u64(j, "decoder_ns", real->decoder_ns);
    tool_json_end_object(j);
    tool_json_begin_array(j, "thread_waits");
    for (size_t i = 0; i < real->reports; i++) {
        tool_json_begin_object(j, NULL);
        tool_json_u64(j, "thread", real->report[i].thread);
        json_waits(&real->report[i].waits, j);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

void replay_report_json(const struct replay_report *r, struct tool_json *j) {
    const struct replay_result *f = r->result;
    char text[REPLAY_NOTICE_SIZE];
    tool_json_begin_object(j, NULL);
    tool_json_u64(j, "ops", f->done.ops);
    tool_json_u64(j, "threads", f->done.threads);
    tool_json_u64(j, "wall_ns", r->time->wall_ns);
    tool_json_u64(j, "cpu_ns", r->time->cpu_ns);
    tool_json_u64(j, "user_ns", r->time->cpu_ns - r->time->system_ns);
    tool_json_u64(j, "system_ns", r->time->system_ns);
    if (r->real == NULL)
        tool_json_u64(j, "own_threads_cpu_ns", r->time->others_ns);
    tool_json_double(j, "ns_per_op", per_op(r->time->wall_ns, timed_ops(r)));
    tool_json_u64(j, "failed_allocations", r->exec->refused);
    tool_json_u64(j, "thread_switches", f->done.switches);
    tool_json_bool(j, "thread_cache_switching", r->exec->cache != NULL);
    tool_json_string(j, "allocator", r->exec->calls.name);

    tool_json_string(j, "threads_mode", mode_name(r));
    tool_json_string(j, "touch", replay_touch_name(r->exec->touch));
    tool_json_string(j, "executable", f->executable);
    tool_json_bool(j, "complete", f->status == 0);
    tool_json_bool(j, "interrupted", f->interrupted);
    tool_json_u64(j, "requested_bytes", f->done.requested_bytes);
    tool_json_u64(j, "skipped_operations", r->exec->skipped);
    tool_json_u64(j, "recorded_failures", f->recorded_failures);
    tool_json_u64(j, "trims", r->exec->trims);
    tool_json_u64(j, "recorded_trims", f->recorded_trims);
    tool_json_u64(j, "unknown_blocks", f->unknown_blocks);
    tool_json_u64(j, "lost_frees", f->lost_frees);
    tool_json_u64(j, "damaged_places", f->damaged_places);
    tool_json_u64(j, "apart_ops", f->apart_ops);
    tool_json_u64(j, "apart_ns", r->time->apart_ns);
    tool_json_u64(j, "elapsed_ns", r->time->elapsed_ns);
    tool_json_u64(j, "decode_cpu_ns", f->cpu_ns);
    tool_json_u64(j, "recorded_ns", f->recorded_ns);
    if (r->replayer_cpu_ns != 0)
        tool_json_u64(j, "replayer_cpu_ns", r->replayer_cpu_ns);
    tool_json_double(j, "cpu_ns_per_op", per_op(r->time->cpu_ns, timed_ops(r)));
    if (recorded_cpu_ns(r) != 0)
        tool_json_u64(j, "recorded_cpu_ns", recorded_cpu_ns(r));
    if (malloc_share(r) > 0)
        tool_json_double(j, "malloc_percent", malloc_share(r));
    tool_json_begin_array(j, "warnings");
    if (f->memory[0] != '\0')
        tool_json_string(j, NULL, f->memory);
    if (text_late(r, text, sizeof(text)))
        tool_json_string(j, NULL, text);
    if (text_threads(r, text, sizeof(text)))
        tool_json_string(j, NULL, text);
    tool_json_end_array(j);
    tool_json_bool(j, "is_part", f->is_part);
    tool_json_u64(j, "input_bytes", f->input_bytes);
    tool_json_u64(j, "stored_bytes", f->stored_bytes);
    json_order(r, j);
    if (r->real != NULL)
        json_real(r, j);
    replay_watch_json(r->watch, j);
    tool_json_end_object(j);
}
