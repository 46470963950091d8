/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/trace_run.h"

#include "base/bits.h"
#include "cmd/replay/latency.h"
#include "common/text.h"

/* As trace_run counts: aligned calls and operators new are mallocs. */
struct sums {
    uint64_t calls, ticks;
};

static void add(const struct replay_report *r, enum replay_kind kind,
                struct sums *s) {
    uint64_t calls, ticks;
    replay_latency_sum(r->around->latency, kind, &calls, &ticks);
    s->calls += calls;
    s->ticks += ticks;
}

/* A count of 0 is shown as 1. */
static void put_average(FILE *out, const char *name, int width,
                        const struct sums *s) {
    struct tool_text a, b;
    uint64_t calls = s->calls == 0 ? 1 : s->calls;
    fprintf(out, "Avg %s time: %*s in %10s calls\n", name, width,
            tool_text_count(&a, s->ticks / calls), tool_text_count(&b, calls));
}

static uint64_t user_us(const struct replay_usage *u) {
    int64_t us =
        (u->last.ru_utime.tv_sec - u->first.ru_utime.tv_sec) * 1000000 +
        u->last.ru_utime.tv_usec - u->first.ru_utime.tv_usec;
    return us < 0 ? 0 : (uint64_t)us;
}

void replay_trace_run_print(const struct replay_report *r, FILE *out) {
    struct tool_text a, b, c;
    struct sums made = {0, 0}, zeroed = {0, 0}, resized = {0, 0},
                freed = {0, 0};
    uint64_t threads = r->real != NULL ? tcm_max_u64(r->result->threads, 1) : 1;
    uint64_t peak = r->rss->peak_bytes, start = r->rss->start_bytes;
    double tick_ns = replay_latency_tick_ns(r->around->latency);
    add(r, REPLAY_KIND_MALLOC, &made);
    add(r, REPLAY_KIND_ALIGNED, &made);
    add(r, REPLAY_KIND_NEW, &made);
    add(r, REPLAY_KIND_CALLOC, &zeroed);
    add(r, REPLAY_KIND_REALLOC, &resized);
    add(r, REPLAY_KIND_FREE, &freed);
    add(r, REPLAY_KIND_DELETE, &freed);
    fprintf(
        out, "%s cycles\n",
        tool_text_count(&a, (uint64_t)((double)r->time->wall_ns / tick_ns)));
    fprintf(out, "%s usec wall time\n",
            tool_text_count(&a, r->time->wall_ns / 1000));
    fprintf(out, "%s usec across %s thread%s\n",
            tool_text_count(&a, user_us(&r->usage)),
            tool_text_count(&b, threads), replay_plural(threads));
    fprintf(out, "%s Kb Max RSS (%s -> %s)\n",
            tool_text_count(&a, peak > start ? (peak - start) / 1024 : 0),
            tool_text_count(&b, start / 1024),
            tool_text_count(&c, r->rss->end_bytes / 1024));
    fprintf(out, "%s Kb Max Ideal RSS\n\nsizeof ticks_t is 8\n",
            tool_text_count(&a, r->result->peak_live_bytes / 1024));
    put_average(out, "malloc", 6, &made);
    put_average(out, "calloc", 6, &zeroed);
    put_average(out, "realloc", 5, &resized);
    put_average(out, "free", 8, &freed);
    fprintf(out, "Total call time: %s cycles\n\n",
            tool_text_count(&a, made.ticks + zeroed.ticks + resized.ticks +
                                    freed.ticks));
}
