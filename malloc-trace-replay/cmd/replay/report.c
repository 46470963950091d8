/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/report.h"

#include "cmd/replay/latency.h"
#include "cmd/replay/verify.h"
#include "common/main.h"
#include "common/text.h"
#include "traceformat/trace_event.h"

#include <stdio.h>

const char *replay_touch_name(enum replay_touch touch) {
    switch (touch) {
    case REPLAY_TOUCH_AUTO:
        return "auto";
    case REPLAY_TOUCH_NONE:
        return "none";
    case REPLAY_TOUCH_FIRST:
        return "first";
    case REPLAY_TOUCH_PAGE:
        return "page";
    case REPLAY_TOUCH_ALL:
        return "all";
    case REPLAY_TOUCH_USE:
        return "use";
    }
    return "?";
}

/* Blocks that are alive at the end. */
static uint64_t end_objects(const struct replay_report *r) {
    /* A slot that was refused its block is empty until its recorded free. */
    uint64_t empty = r->exec->refused - r->exec->skipped_frees;
    return r->result->live_objects -
           tcm_min_u64(empty, r->result->live_objects);
}

static double per_op(uint64_t ns, uint64_t ops) {
    return ops == 0 ? 0 : (double)ns / (double)ops;
}

/* Processors that ran operations, on average. */
static double processors(const struct replay_report *r) {
    return r->time->wall_ns == 0
               ? 0
               : (double)r->time->cpu_ns / (double)r->time->wall_ns;
}

/* --- Text ----------------------------------------------------------------- */

static struct replay_fidelity_runs
fidelity_runs(const struct replay_report *r) {
    return (struct replay_fidelity_runs){
        r->result, &r->counters,
        r->real != NULL ? (uint64_t)r->real->peak_live_bytes
                        : r->result->peak_live_bytes};
}

/* A replay that is so late is told of. */
#define LATE_NS UINT64_C(100000000)

/* --- Warnings ------------------------------------------------------------- */

/* Without switching, one thread's cache serves all recorded threads. */
static bool text_threads(const struct replay_report *r, char *text,
                         size_t size) {
    struct tool_text a;
    if (r->result->most_threads < 2 || r->exec->cache != NULL ||
        r->real != NULL)
        return false;
    snprintf(text, size,
             "%s threads were recorded, and all ran on one thread and its "
             "cache: with threads of their own this allocator may take several "
             "times the memory, and another time",
             tool_text_count(&a, r->result->most_threads));
    return true;
}

/* Idle times are shorter than recorded by as much. */
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
    if (text_late(r, text, sizeof(text)))
        tool_warn("%s", text);
    if (!text_threads(r, text, sizeof(text)))
        return;
    /* in two lines, which fit a terminal */
    tool_warn("%s threads were recorded, and all ran on one thread",
              tool_text_count(&a, r->result->most_threads));
    tool_warn("with --threads=real memory may be several times as much");
}

/* The operations that wall_ns is the time of. */
static uint64_t timed_ops(const struct replay_report *r) {
    return r->result->ops - r->result->apart_ops;
}

/* Processor time of the calls, without the replayer's own where that is
   known. */
static uint64_t calls_cpu_ns(const struct replay_report *r) {
    uint64_t own = r->replayer_cpu_ns;
    return own < r->time->cpu_ns ? r->time->cpu_ns - own : 0;
}

/* Processor time of the recorded run; 0: unknown. */
static uint64_t recorded_cpu_ns(const struct replay_report *r) {
    return r->result->without_cpu == 0 ? r->result->recorded_cpu_ns : 0;
}

/* Share of the calls in the recorded run, in per cent; 0: unknown. Calls are a
   part of that run only under the library that it was recorded with, which is
   this project's; and a replay that took longer than the run measures none. */
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
            tool_text_ns(&a, r->late_ns), tool_text_ns(&b, r->rss->look_ns));
    fprintf(out, "while memory was looked at\n");
}

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

/* When most bytes were live; 0: there were hardly any. */
static double rss_over_live(const struct replay_report *r) {
    uint64_t live = r->rss->live_bytes;
    return live == 0 ? 0 : (double)r->rss->at_live_bytes / (double)live;
}

static void print_memory(const struct replay_report *r, FILE *out) {
    struct tool_text a, b, c, d;
    const struct replay_result *f = r->result;
    fprintf(out, "\nlive blocks       peak %s, at the end %s in %s block%s\n",
            tool_text_bytes(&a, f->peak_live_bytes),
            tool_text_bytes(&b, f->live_bytes),
            tool_text_count(&c, end_objects(r)), replay_plural(end_objects(r)));
    if (r->real != NULL) {
        fprintf(out, "peak as run       %s",
                tool_text_bytes(&a, (uint64_t)r->real->peak_live_bytes));
        if (f->most_peak_bytes != 0)
            fprintf(out, "; the skew allows %s to %s",
                    tool_text_bytes(&b, f->least_peak_bytes),
                    tool_text_bytes(&c, f->most_peak_bytes));
        fputc('\n', out);
    }
    if (r->time->elapsed_ns == 0)
        fprintf(out, "resident memory   not known: nothing was replayed\n");
    else if (r->rss->peak_bytes == 0)
        fprintf(out, "resident memory   not known: there is no /proc/self\n");
    else
        fprintf(out, "resident memory   start %s, peak %s%s, mean %s, end %s\n",
                tool_text_bytes(&a, r->rss->start_bytes),
                tool_text_bytes(&b, r->rss->peak_bytes),
                r->rss->peak_known ? "" : " (since the process began)",
                tool_text_bytes(&c, replay_rss_average(r->rss)),
                tool_text_bytes(&d, r->rss->end_bytes));
    if (rss_over_live(r) > 0)
        fprintf(out,
                "at peak of live   %s, %.3g by live bytes; %s in huge pages\n",
                tool_text_bytes(&a, r->rss->at_live_bytes), rss_over_live(r),
                tool_text_bytes(&b, r->rss->at_live_huge_bytes));
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

void replay_report_print(const struct replay_report *r, FILE *out) {
    struct tool_text a, b, c;
    const struct replay_result *f = r->result;
    fprintf(out, "allocator         %s\n",
            tool_text_shown(r->exec->calls.name));
    if (f->executable[0])
        fprintf(out, "recorded from     %s\n", tool_text_shown(f->executable));
    fprintf(out, "operations        %s of %s thread%s\n",
            tool_text_count(&a, f->ops), tool_text_count(&b, f->threads),
            replay_plural(f->threads));
    if (r->real != NULL)
        print_real(r, out);
    else
        fprintf(out, "thread switches   %s (%s)\n",
                tool_text_count(&c, f->thread_switches),
                r->exec->cache ? "with their thread caches"
                               : "caches not switched");
    print_time(r, out);
    print_pace(r, out);
    replay_usage_print(&r->usage, out);
    print_memory(r, out);
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
    if (r->around != NULL && r->around->latency != NULL)
        replay_latency_print(r->around->latency, out);
    struct replay_fidelity_runs runs = fidelity_runs(r);
    replay_fidelity_print(&r->fidelity, &runs, out);
}

/* --- JSON ----------------------------------------------------------------- */

static void json_order(const struct replay_report *r, struct tool_json *j) {
    const struct replay_order *o = r->order;
    tool_json_double(j, "speed", o->speed);
    if (o->speed > 0) {
        tool_json_u64(j, "late_ns", r->late_ns);
        tool_json_u64(j, "look_ns", r->rss->look_ns);
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
    tool_json_u64(j, "run_peak_live_bytes", (uint64_t)real->peak_live_bytes);
    if (f->most_peak_bytes != 0) {
        tool_json_u64(j, "least_peak_live_bytes", f->least_peak_bytes);
        tool_json_u64(j, "most_peak_live_bytes", f->most_peak_bytes);
    }
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
    tool_json_u64(j, "ops", f->ops);
    tool_json_u64(j, "threads", f->threads);
    tool_json_u64(j, "wall_ns", r->time->wall_ns);
    tool_json_u64(j, "cpu_ns", r->time->cpu_ns);
    tool_json_double(j, "ns_per_op", per_op(r->time->wall_ns, timed_ops(r)));
    tool_json_u64(j, "peak_live_bytes", f->peak_live_bytes);
    tool_json_u64(j, "end_live_objects", end_objects(r));
    tool_json_u64(j, "failed_allocations", r->exec->refused);
    tool_json_u64(j, "start_rss_bytes", r->rss->start_bytes);
    tool_json_u64(j, "peak_rss_bytes", r->rss->peak_bytes);
    tool_json_u64(j, "end_rss_bytes", r->rss->end_bytes);
    if (replay_rss_average(r->rss) != 0)
        tool_json_u64(j, "avg_rss_bytes", replay_rss_average(r->rss));
    if (rss_over_live(r) > 0) {
        tool_json_u64(j, "rss_at_peak_live_bytes", r->rss->at_live_bytes);
        tool_json_double(j, "rss_over_live", rss_over_live(r));
    }
    tool_json_u64(j, "huge_bytes", r->rss->at_live_huge_bytes);
    tool_json_u64(j, "end_huge_bytes", r->rss->end_huge_bytes);
    tool_json_u64(j, "thread_switches", f->thread_switches);
    tool_json_bool(j, "thread_cache_switching", r->exec->cache != NULL);
    tool_json_string(j, "allocator", r->exec->calls.name);

    tool_json_string(j, "threads_mode", mode_name(r));
    tool_json_string(j, "touch", replay_touch_name(r->exec->touch));
    tool_json_string(j, "executable", f->executable);
    tool_json_bool(j, "complete", f->status == 0);
    tool_json_bool(j, "interrupted", f->interrupted);
    tool_json_u64(j, "requested_bytes", f->requested_bytes);
    tool_json_u64(j, "end_live_bytes", f->live_bytes);
    tool_json_u64(j, "skipped_operations", r->exec->skipped);
    tool_json_u64(j, "recorded_failures", f->recorded_failures);
    tool_json_u64(j, "trims", r->exec->trims);
    tool_json_u64(j, "recorded_trims", f->recorded_trims);
    tool_json_u64(j, "unknown_blocks", f->unknown_blocks);
    tool_json_u64(j, "lost_frees", f->lost_frees);
    tool_json_u64(j, "damaged_places", f->damaged_places);
    tool_json_bool(j, "peak_rss_known", r->rss->peak_known);
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
    tool_json_u64(j, "replayer_rss_bytes", r->own_bytes);
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
    replay_usage_json(&r->usage, j);
    json_order(r, j);
    if (r->real != NULL)
        json_real(r, j);
    if (r->around != NULL && r->around->latency != NULL)
        replay_latency_json(r->around->latency, j);
    if (r->around != NULL && r->around->verify != NULL)
        replay_verify_json(r->around->verify, j);
    struct replay_fidelity_runs runs = fidelity_runs(r);
    replay_fidelity_json(&r->fidelity, &runs, j);
    tool_json_end_object(j);
}
