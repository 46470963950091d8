/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace info as text: the summary of a file, with -v all other facts,
 * and the tree of processes of several files.
 */
#include "cmd/malloc_trace/info/info_print.h"

#include "base/check.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Threads named as the busiest ones, and the width of the longest bar. */
#define BUSIEST   3u
#define BAR_WIDTH 30u
/* Columns of a line, and those of its label. */
#define WIDTH  80u
#define INDENT 16u

/* A line of parts, broken in front of a part that does not fit. */
struct line {
    size_t used; /* columns */
};

static struct line put_label(const char *label) {
    return (struct line){(size_t)printf("  %-13s ", label)};
}

/* BEFORE is the separator from the previous part. */
static void put_part(struct line *l, const char *before, const char *fmt, ...)
    TCM_PRINTF(3, 4);
static void put_part(struct line *l, const char *before, const char *fmt, ...) {
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    size_t n = strlen(before), length = strlen(text);
    bool wide = l->used + n + length >= WIDTH && l->used > INDENT;
    if (wide) {
        printf("%.*s\n%*s", (int)n - (n != 0 && before[n - 1] == ' '), before,
               (int)INDENT, "");
        l->used = INDENT;
    } else {
        fputs(before, stdout);
        l->used += n;
    }
    fputs(tool_text_shown(text), stdout);
    l->used += length;
}

static bool proc_account(const struct info_file *f, unsigned field,
                         uint64_t *n) {
    for (uint64_t i = 0; i < f->proc_account_count; i++)
        if (f->proc_fields[i] == field) {
            *n = f->proc_values[i];
            return true;
        }
    return false;
}

/* A field of the recorder's account; a processed trace has a copy of it. */
static bool recorder_account(const struct info_file *f, unsigned field,
                             uint64_t *n) {
    if (f->kind != INFO_RAW)
        return proc_account(f, MTF_PROC_ACCOUNT_RECORDER + field, n);
    *n = f->account[field];
    return f->have_account[field];
}

/* Tells whether F has only a window or some threads of a recording: facts of
   the whole recording do not describe F. */
static bool is_part(const struct info_file *f) {
    uint64_t n;
    return proc_account(f, MTF_PROC_ACCOUNT_PROLOGUE_OPS, &n);
}

/* N in whole thousandths of ALL: only all of it is 100 %. */
static uint64_t per_mille(uint64_t n, uint64_t all) {
    return all == 0 ? 0 : (uint64_t)((unsigned __int128)n * 1000 / all);
}

/* --- Summary: program and duration ---------------------------------------- */

static void print_program(const struct info_file *f) {
    const struct mtf_raw_header *h = &f->header.fixed;
    if (f->converter[0] != '\0') {
        put_label("converted by");
        fputs(tool_text_shown(f->converter), stdout);
        putchar('\n');
    }
    put_label("program");
    if (!f->have_header) {
        puts(f->converter[0] != '\0' ? "unknown"
                                     : "unknown, the header is lost");
        return;
    }
    if (info_is_stripped(f)) {
        puts("left out, and so are process and date");
        return;
    }
    time_t seconds = (time_t)(h->wall_ns / 1000000000u);
    struct tm tm;
    char text[64] = "";
    if (gmtime_r(&seconds, &tm) != NULL)
        (void)strftime(text, sizeof(text), ", %Y-%m-%d %H:%M:%S UTC", &tm);
    fputs(tool_text_shown(f->header.executable), stdout);
    printf(", process %" PRIu32 "%s\n", h->pid, text);
}

/* Start of the events in the file, in ns: a part begins later than its
   recording. */
static uint64_t start_of(const struct info_file *f) {
    uint64_t start = 0;
    bool late = f->begins_late || is_part(f);
    if (late && proc_account(f, MTF_PROC_ACCOUNT_START_NS, &start))
        return start;
    if (f->have_header && !late)
        return f->header.fixed.start_ns;
    for (size_t i = 0; i < f->threads.ids.count; i++) {
        uint64_t first = f->threads.thread[i].first_ns;
        if (first != 0 && (start == 0 || first < start))
            start = first;
    }
    return start;
}

static void print_length(const struct info_file *f) {
    struct tool_text a, b;
    uint64_t start = start_of(f), last = f->last_ns, n = info_event_count(f);
    uint64_t apart = 0;
    if (is_part(f)) {
        (void)proc_account(f, MTF_PROC_ACCOUNT_END_NS, &last);
        if (proc_account(f, MTF_PROC_ACCOUNT_PROLOGUE_OPS, &apart) &&
            apart <= n)
            n -= apart;
        if (proc_account(f, MTF_PROC_ACCOUNT_EPILOGUE_OPS, &apart) &&
            apart <= n)
            n -= apart;
    }
    uint64_t ns = last > start ? last - start : 0;
    struct line l = put_label("lasted");
    put_part(&l, "", "%s", tool_text_ns(&a, ns));
    if (ns >= 1000000)
        put_part(&l, ", ", "%s events a second",
                 tool_text_count(&b, (uint64_t)((double)n * 1e9 / (double)ns)));
    putchar('\n');
}

/* Operations that stand for the rest of the recording, and events left out. */
static void print_part(const struct info_file *f) {
    static const struct {
        unsigned field;
        const char *text;
    } parts[] = {
        {MTF_PROC_ACCOUNT_PROLOGUE_OPS, "operations of prologue"},
        {MTF_PROC_ACCOUNT_EPILOGUE_OPS, "operations of epilogue"},
        {MTF_PROC_ACCOUNT_LEFT_OUT_EVENTS, "events left out"},
    };
    struct tool_text t;
    uint64_t n;
    if (!is_part(f))
        return;
    struct line l = put_label("part");
    put_part(&l, "", "of a recording");
    const char *before = ": ";
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(parts); i++) {
        if (!proc_account(f, parts[i].field, &n) || n == 0)
            continue;
        put_part(&l, before, "%s %s", tool_text_count(&t, n), parts[i].text);
        before = ", ";
    }
    putchar('\n');
}

/* --- Summary: calls and memory -------------------------------------------- */

static void print_events(const struct info_file *f) {
    uint64_t sum[5] = {0}, in_all = 0;
    static const char *const name[] = {"mallocs", "memaligns", "reallocs",
                                       "frees", "failed"};
    struct tool_text t;
    for (unsigned c = 1; c < MTF_CALL_LIMIT; c++)
        sum[mtf_call_is_free(c)            ? 3
            : mtf_call_is_realloc(c)       ? 2
            : mtf_call_is_aligned_alloc(c) ? 1
                                           : 0] += f->calls[c];
    sum[4] = f->kind == INFO_RAW ? f->events[MTF_EVENT_FAILED]
                                 : f->ops[MTF_OP_FAILED];
    struct line l = put_label("events");
    put_part(&l, "", "%s", tool_text_count(&t, info_event_count(f)));
    const char *before = ": ";
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(sum); i++) {
        in_all += sum[i];
        if (sum[i] == 0)
            continue;
        put_part(&l, before, "%s %.*s", tool_text_count(&t, sum[i]),
                 (int)strlen(name[i]) - (sum[i] == 1 && i < 4), name[i]);
        before = ", ";
    }
    TCM_ASSERT(in_all == info_event_count(f));
    /* postprocess counts these as untraced frees */
    if (f->begins_late && f->kind == INFO_RAW && f->live.older_frees != 0)
        put_part(&l, "; ", "%s of older blocks",
                 tool_text_count(&t, f->live.older_frees));
    putchar('\n');
}

static void put_busy(struct line *l, const char *before,
                     const struct raw_thread *t, uint64_t all) {
    char id[32] = "late events", name[40] = "";
    if (t->id != MTF_THREAD_LATE)
        (void)snprintf(id, sizeof(id), "thread %" PRIu32, t->id);
    if (t->name[0] != '\0')
        (void)snprintf(name, sizeof(name), " (%s)", t->name);
    struct tool_text share;
    put_part(l, before, "%s%s: %s", id, name,
             tool_text_percent(&share, t->events, all));
}

static void print_busiest(const struct info_file *f) {
    const struct raw_threads *r = &f->threads;
    const struct raw_thread *shown[BUSIEST];
    uint64_t all = info_event_count(f), threads = raw_threads_with_events(r);
    struct tool_text t;
    struct line l = put_label("threads");
    put_part(&l, "", "%s", tool_text_count(&t, threads));
    unsigned n = 0;
    for (; threads > 1 && n < BUSIEST; n++) {
        const struct raw_thread *most = NULL;
        for (size_t i = 0; i < r->ids.count; i++) {
            const struct raw_thread *th = &r->thread[i];
            bool before = false;
            for (unsigned k = 0; k < n; k++)
                before = before || shown[k] == th;
            if (!before && th->events != 0 &&
                (most == NULL || th->events > most->events))
                most = th;
        }
        if (most == NULL || per_mille(most->events, all) < 10)
            break;
        shown[n] = most;
        put_busy(&l, n == 0 ? ", the busiest: " : ", ", most, all);
    }
    putchar('\n');
}

static void print_requested(const struct info_file *f) {
    struct tool_text a, b;
    uint64_t blocks = 0;
    for (unsigned i = 0; i < INFO_SIZES; i++)
        blocks += f->live.sizes[i];
    put_label("requested");
    printf("%s", tool_text_bytes(&a, f->requested_bytes));
    if (blocks != 0)
        printf(", on average %s",
               tool_text_bytes(&b, f->requested_bytes / blocks));
    putchar('\n');
}

/* True if no order of events could make the peak higher. */
static bool peak_is_sure(const struct info_file *f) {
    return f->kind != INFO_RAW || info_at_most(f) <= f->live.peak_bytes;
}

/* Frees that the recorder did not carry out. */
static uint64_t wrong_frees(const struct info_file *f) {
    uint64_t n = 0;
    if (f->kind == INFO_RAW)
        return f->events[MTF_EVENT_WRONG];
    return proc_account(f, MTF_PROC_ACCOUNT_WRONG_FREES, &n) ? n : 0;
}

static void print_summary_peak(const struct info_file *f) {
    const struct info_live *l = &f->live;
    uint64_t start = start_of(f);
    struct tool_text a, b;
    struct line line = put_label("peak");
    if (l->failed) {
        puts("unknown, not enough memory");
        put_label("live at end");
        puts("unknown");
        return;
    }
    put_part(&line, "", "%s%s", peak_is_sure(f) ? "" : "about ",
             tool_text_bytes(&a, l->peak_bytes));
    if (l->peak_bytes_ns > start)
        put_part(&line, " ", "after %s",
                 tool_text_ns(&b, l->peak_bytes_ns - start));
    if (!peak_is_sure(f)) {
        put_part(&line, ", ", "at most %s; exact in report",
                 tool_text_bytes(&b, info_at_most(f)));
    }
    putchar('\n');
    line = put_label("live at end");
    put_part(&line, "", "%s in %s block%s", tool_text_bytes(&a, l->bytes),
             tool_text_count(&b, l->blocks), l->blocks == 1 ? "" : "s");
    uint64_t wrong = wrong_frees(f);
    if (wrong != 0)
        put_part(&line, "; ", "%s wrong free%s, see report --errors",
                 tool_text_count(&a, wrong), wrong == 1 ? "" : "s");
    putchar('\n');
}

/* Bytes of large blocks that had memory behind them. */
static void print_present(const struct info_file *f) {
    struct tool_text a, b, c;
    if (f->kind == INFO_RAW || f->ops[MTF_OP_PRESENT] == 0)
        return;
    put_label("present");
    printf("%s of the %s in %s large block%s\n",
           tool_text_bytes(&a, f->large_present),
           tool_text_bytes(&b, f->large_bytes),
           tool_text_count(&c, f->large_blocks),
           f->large_blocks == 1 ? "" : "s");
}

/* --- Summary: completeness and cost --------------------------------------- */

static void print_complete(const struct info_file *f) {
    uint64_t reason;
    put_label("complete");
    fputs(f->complete ? "yes" : "no", stdout);
    if (f->begins_late)
        fputs(", but for what was before", stdout);
    if (f->growing)
        fputs(", still being recorded", stdout);
    else if (is_part(f))
        ; /* the end of a part says nothing of the recording's */
    else if (!f->clean_end)
        fputs(", without clean end", stdout);
    else if (recorder_account(f, MTF_ACCOUNT_END_REASON, &reason))
        printf(", %s", info_end_reason(reason));
    putchar('\n');
}

static void print_cost(const struct info_file *f) {
    uint64_t n = info_event_count(f), saver, waits, wait_ns;
    struct tool_text a, b;
    struct line l = put_label("cost");
    put_part(&l, "", "%s", tool_text_bytes(&a, f->stored_bytes));
    if (n != 0)
        put_part(&l, ", ", "%.2f bytes an event",
                 (double)f->stored_bytes / (double)n);
    /* the recorder's account covers the whole recording */
    bool whole = !f->begins_late && !is_part(f);
    if (whole && recorder_account(f, MTF_ACCOUNT_SAVER_CPU_NS, &saver))
        put_part(&l, "; ", "saving took %s", tool_text_ns(&a, saver));
    if (whole && recorder_account(f, MTF_ACCOUNT_WAITS, &waits) && waits != 0 &&
        recorder_account(f, MTF_ACCOUNT_WAIT_NS, &wait_ns))
        put_part(&l, "; ", "waited %s time%s, %s", tool_text_count(&a, waits),
                 waits == 1 ? "" : "s", tool_text_ns(&b, wait_ns));
    putchar('\n');
}

/* --- Summary: sizes ------------------------------------------------------- */

static void print_size_range(unsigned b) {
    struct tool_text from, to;
    char text[64];
    if (b < 2)
        (void)snprintf(text, sizeof(text), "%u B", b);
    else if (b <= 10)
        (void)snprintf(text, sizeof(text), "%" PRIu64 " to %" PRIu64 " B",
                       info_size_from(b), info_size_to(b));
    else
        (void)snprintf(text, sizeof(text), "%s to %s",
                       tool_text_bytes(&from, info_size_from(b)),
                       b == INFO_SIZES - 1
                           ? "16.0 EiB"
                           : tool_text_bytes(&to, info_size_to(b) + 1));
    printf("  %-22s", text);
}

static void print_sizes(const struct info_live *l) {
    static const char bar[BAR_WIDTH + 1] = "##############################";
    uint64_t most = 0, all = 0, so_far = 0;
    struct tool_text t;
    for (unsigned b = 0; b < INFO_SIZES; b++) {
        all += l->sizes[b];
        most = l->sizes[b] > most ? l->sizes[b] : most;
    }
    TCM_ASSERT(most <= all);
    if (all == 0)
        return;
    printf("  sizes asked for        %31s%11s\n", "requests", "up to here");
    for (unsigned b = 0; b < INFO_SIZES; b++) {
        uint64_t n = l->sizes[b];
        if (n == 0)
            continue;
        so_far += n;
        unsigned width = (unsigned)((double)n * BAR_WIDTH / (double)most + 0.5);
        uint64_t share = per_mille(so_far, all);
        print_size_range(b);
        /* a long number takes columns that the bar does not need */
        const char *count = tool_text_count(&t, n);
        int room = (int)BAR_WIDTH + 12 - (int)strlen(count);
        int shown = room > (int)width ? (int)width : room - 1;
        printf("%-*.*s%s %5" PRIu64 ".%" PRIu64 " %%\n", room, shown, bar,
               count, share / 10, share % 10);
    }
    TCM_ASSERT(so_far == all);
}

static void print_summary(const struct info_file *f) {
    print_program(f);
    print_part(f);
    print_length(f);
    print_events(f);
    print_busiest(f);
    print_requested(f);
    print_summary_peak(f);
    print_present(f);
    print_complete(f);
    print_cost(f);
    print_sizes(&f->live);
}

/* Threads listed before the rest is only counted. */
#define THREADS_SHOWN 16u

/* --- All facts: lines ----------------------------------------------------- */

static void put_count(const char *label, uint64_t n) {
    struct tool_text t;
    printf("  %-24s %15s\n", label, tool_text_count(&t, n));
}

static void put_text(const char *label, const char *text) {
    printf("  %-24s ", label);
    fputs(tool_text_shown(text), stdout);
    putchar('\n');
}

static void print_start(const struct mtf_raw_header *h) {
    time_t seconds = (time_t)(h->wall_ns / 1000000000u);
    struct tm tm;
    char text[64] = "unknown";
    if (gmtime_r(&seconds, &tm) != NULL)
        (void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
    printf("  %-24s %s.%06u UTC\n", "start", text,
           (unsigned)(h->wall_ns % 1000000000u / 1000));
}

static void print_settings(const struct mtf_raw_header *h) {
    struct tool_text t;
    printf("  %-24s %s%s, up to %s of full buffers wait%s%s\n", "settings",
           (h->settings & MTF_SETTING_COMPRESSED) != 0 ? "LZ4" : "plain",
           (h->settings & MTF_SETTING_DROP) != 0 ? ", drop when full"
                                                 : ", wait when full",
           tool_text_bytes(&t, h->buffer_bound),
           (h->settings & MTF_SETTING_PER_PROCESS) != 0 ? ", a file a process"
                                                        : "",
           (h->settings & MTF_SETTING_SITES) != 0 ? ", call sites" : "");
}

/* Process, program and date: facts that postprocess --strip removes. */
static void print_origin(const struct info_file *f) {
    const struct mtf_raw_header *h = &f->header.fixed;
    printf("  %-24s process %" PRIu32 ", started %" PRIu64 ", id %016" PRIx64
           "\n",
           "recording", h->pid, h->process_start, h->random);
    if (h->parent_random != 0)
        printf("  %-24s process %" PRIu32 ", recording %016" PRIx64 "\n",
               "parent", h->parent_pid, h->parent_random);
    else
        printf("  %-24s process %" PRIu32 "\n", "parent", h->parent_pid);
    put_text("executable", f->header.executable);
    print_start(h);
}

static void print_recording(const struct info_file *f) {
    const struct mtf_raw_header *h = &f->header.fixed;
    struct tool_text t;
    if (!f->have_header) {
        put_text("recording", "header lost");
        return;
    }
    if (info_is_stripped(f))
        put_text("recording", "process, program and date were left out");
    else
        print_origin(f);
    put_text("recorded by", f->header.library);
    if (f->last_ns > h->start_ns)
        printf("  %-24s %s\n", "lasted",
               tool_text_ns(&t, f->last_ns - h->start_ns));
    printf("  %-24s %s, page size %" PRIu32 "\n", "clock",
           h->clock == MTF_CLOCK_MONOTONIC_NS ? "CLOCK_MONOTONIC, ns"
                                              : "unknown",
           h->page_size);
    print_settings(h);
}

static void print_calls(const struct info_file *f) {
    for (unsigned c = 1; c < MTF_CALL_LIMIT; c++)
        if (f->calls[c] != 0) {
            char label[48];
            (void)snprintf(label, sizeof(label), "  %s", mtf_call_name(c));
            put_count(label, f->calls[c]);
        }
}

/* --- All facts: peaks ----------------------------------------------------- */

static void print_peak(const struct info_file *f, const char *label, uint64_t n,
                       uint64_t ns) {
    uint64_t start = f->have_header ? f->header.fixed.start_ns : 0;
    struct tool_text a, b;
    printf("  %-24s %15s, after %s\n", label, tool_text_count(&a, n),
           tool_text_ns(&b, ns > start ? ns - start : 0));
}

static void print_live(const struct info_file *f) {
    const struct info_live *l = &f->live;
    struct tool_text t;
    if (l->failed) {
        put_text("live bytes", "unknown, not enough memory");
        return;
    }
    print_peak(f, "peak of live bytes", l->peak_bytes, l->peak_bytes_ns);
    if (!peak_is_sure(f))
        printf("  %-24s %15s, see malloc-trace-info(1)\n", "  at most",
               tool_text_count(&t, info_at_most(f)));
    print_peak(f, "peak of live blocks", l->peak_blocks, l->peak_blocks_ns);
    put_count("live blocks at the end", l->blocks);
}

static void print_event_bytes(const struct info_file *f, const char *label) {
    double n = (double)info_event_count(f);
    if (n > 0)
        printf("  %-24s %15.2f, stored as %.2f\n", label,
               (double)f->raw_bytes / n, (double)f->stored_bytes / n);
}

/* --- All facts: threads --------------------------------------------------- */

static void print_threads(const struct info_file *f) {
    struct tool_text t;
    put_count("threads", raw_threads_with_events(&f->threads));
    for (size_t i = 0; i < f->threads.ids.count && i < THREADS_SHOWN; i++) {
        const struct raw_thread *th = &f->threads.thread[i];
        char label[48];
        if (th->id == MTF_THREAD_LATE)
            (void)snprintf(label, sizeof(label), "  late events");
        else
            (void)snprintf(label, sizeof(label), "  thread %" PRIu32, th->id);
        printf("  %-24s %15s events", label, tool_text_count(&t, th->events));
        if (th->tid != 0)
            printf(", kernel id %" PRIu64, th->tid);
        if (th->name[0] != '\0') {
            printf(", ");
            fputs(tool_text_shown(th->name), stdout);
        }
        putchar('\n');
    }
    if (f->threads.ids.count > THREADS_SHOWN)
        printf("  %-24s %15s more\n", "",
               tool_text_count(&t, f->threads.ids.count - THREADS_SHOWN));
}

/* --- All facts: raw traces ------------------------------------------------ */

static void print_footer(const struct info_file *f) {
    if (!f->have_footer)
        return;
    printf("  footer\n");
    for (unsigned i = 0; i < MTF_ACCOUNT_LIMIT; i++) {
        const char *name = mtf_account_name(i);
        char label[48];
        if (!f->have_account[i] || name == NULL)
            continue;
        (void)snprintf(label, sizeof(label), "  %s", name);
        if (i == MTF_ACCOUNT_END_REASON)
            put_text(label, info_end_reason(f->account[i]));
        else
            put_count(label, f->account[i]);
    }
}

static void print_raw(const struct info_file *f) {
    struct tool_text a, b;
    print_recording(f);
    printf("  %-24s %s, stored as %s\n", "size",
           tool_text_bytes(&a, f->raw_bytes),
           tool_text_bytes(&b, f->stored_bytes));
    if (f->from_spool)
        put_count("buffers from the spool", f->spool_buffers);
    if (f->doubled_bytes != 0)
        put_count("bytes in both", f->doubled_bytes);
    put_count("events", info_event_count(f));
    print_calls(f);
    put_count("  failed calls", f->events[MTF_EVENT_FAILED]);
    put_count("requested bytes", f->requested_bytes);
    print_event_bytes(f, "bytes an event");
    print_live(f);
    put_count("untraced frees", f->untraced);
    for (unsigned k = MTF_EVENT_FAILED + 1; k < INFO_EVENT_KINDS; k++)
        if (f->events[k] != 0) {
            char label[48];
            (void)snprintf(label, sizeof(label), "%s records",
                           mtf_event_name(k));
            put_count(label, f->events[k]);
        }
    if (f->peak_rss_bytes != 0)
        printf("  %-24s %s\n", "largest sampled RSS",
               tool_text_bytes(&a, f->peak_rss_bytes));
    print_threads(f);
    for (uint64_t i = 0; i < f->notice_count && i < INFO_TEXTS; i++)
        if (f->notices[i] != NULL)
            put_text("notice", f->notices[i]);
    print_footer(f);
    put_count("dropped events", f->dropped);
    put_count("bytes missing", f->missing_bytes + f->undecodable_bytes);
}

/* --- All facts: processed traces ------------------------------------------ */

static void print_proc_account(const struct info_file *f) {
    printf("  account\n");
    for (uint64_t i = 0; i < f->proc_account_count; i++) {
        unsigned field = f->proc_fields[i];
        bool recorder = field >= MTF_PROC_ACCOUNT_RECORDER;
        const char *name =
            recorder ? mtf_account_name(field - MTF_PROC_ACCOUNT_RECORDER)
                     : mtf_proc_account_name(field);
        char label[64];
        if (name == NULL)
            continue;
        (void)snprintf(label, sizeof(label), "  %s%s",
                       recorder ? "recorder: " : "", name);
        put_count(label, f->proc_values[i]);
    }
}

static void print_processed(const struct info_file *f) {
    struct tool_text a, b;
    uint64_t ops = 0;
    print_recording(f);
    printf("  %-24s %s, stored as %s\n", "size",
           tool_text_bytes(&a, f->raw_bytes),
           tool_text_bytes(&b, f->stored_bytes));
    for (unsigned k = 0; k <= MTF_OP_LAST_OPERATION; k++)
        ops += f->ops[k];
    put_count("blocks", f->blocks);
    put_count("operations", ops);
    print_calls(f);
    put_count("  failed calls", f->ops[MTF_OP_FAILED]);
    put_count("requested bytes", f->requested_bytes);
    print_event_bytes(f, "bytes an event");
    print_live(f);
    print_threads(f);
    for (unsigned k = MTF_OP_LAST_OPERATION + 1; k < INFO_OP_KINDS; k++)
        if (f->ops[k] != 0) {
            char label[48];
            (void)snprintf(label, sizeof(label), "%s records", mtf_op_name(k));
            put_count(label, f->ops[k]);
        }
    if (f->closed)
        print_proc_account(f);
}

/* First line: name, kind of file, compression, version. */
static void print_kind(const struct info_file *f) {
    const char *in = f->frame_name != NULL ? f->frame_name : "";
    const char *before = f->frame_name != NULL ? " in " : "";
    const char *plural = f->frame_name != NULL ? "s" : "";
    if (f->kind == INFO_RAW)
        printf("%s: %s%s%s%s, version %u%s\n", tool_text_shown(f->name),
               f->from_file ? "raw trace" : "spool of a raw trace", before, in,
               plural, (unsigned)f->header.fixed.version,
               f->from_file && f->from_spool ? ", and its spool" : "");
    else
        printf("%s: processed trace%s%s%s, version %u\n",
               tool_text_shown(f->name), before, in, plural,
               (unsigned)f->proc_version);
}

void info_print(const struct info_file *f, bool timeline, bool all) {
    print_kind(f);
    print_summary(f);
    if (timeline)
        info_timeline_print(f, start_of(f));
    if (!all)
        return;
    if (f->kind == INFO_RAW)
        print_raw(f);
    else
        print_processed(f);
}

/* --- Process tree --------------------------------------------------------- */

static const struct mtf_raw_header *head_of(const struct info_file *f) {
    return &f->header.fixed;
}

static bool started_before(const struct info_file *a,
                           const struct info_file *b) {
    if (head_of(a)->wall_ns != head_of(b)->wall_ns)
        return head_of(a)->wall_ns < head_of(b)->wall_ns;
    return a < b;
}

/* Tells whether A's process is B's parent, or B's own before an exec. Only an
   earlier recording qualifies, so that damaged ids cannot make a circle. */
static bool is_above(const struct info_file *a, const struct info_file *b) {
    const struct mtf_raw_header *x = head_of(a), *y = head_of(b);
    if (!started_before(a, b))
        return false;
    if (y->parent_random != 0)
        return y->parent_random == x->random;
    if (x->pid == y->pid && x->process_start == y->process_start)
        return true;
    return x->pid == y->parent_pid &&
           (y->parent_start == 0 || y->parent_start == x->process_start);
}

/* Index of the latest recording that is_above() recording I, or -1. */
static int parent_of(const struct info_file *files, int count, int i) {
    int found = -1;
    for (int k = 0; k < count; k++)
        if (files[k].have_header && is_above(&files[k], &files[i]) &&
            (found < 0 || started_before(&files[found], &files[k])))
            found = k;
    return found;
}

struct tree_node {
    int parent; /* index of a file; -1: a root; -2: not in the tree */
};

/* The child of PARENT that started next after file AFTER; -1: none. */
static int next_child(const struct info_file *files,
                      const struct tree_node *nodes, int count, int parent,
                      int after) {
    int found = -1;
    for (int i = 0; i < count; i++)
        if (nodes[i].parent == parent && files[i].have_header &&
            (after < 0 || started_before(&files[after], &files[i])) &&
            (found < 0 || started_before(&files[i], &files[found])))
            found = i;
    return found;
}

void info_print_tree(const struct info_file *files, int count) {
    struct tree_node *nodes = calloc((size_t)count, sizeof(*nodes));
    struct tool_text t;
    bool any = false;
    if (nodes == NULL)
        return;
    for (int i = 0; i < count; i++)
        nodes[i].parent = files[i].have_header && !info_is_stripped(&files[i])
                              ? parent_of(files, count, i)
                              : -2;
    for (int i = 0; i < count; i++)
        any = any || nodes[i].parent != -2;
    if (any)
        printf("process tree\n");
    int at = -1, child = next_child(files, nodes, count, -1, -1), depth = 1;
    for (;;) {
        if (child >= 0) {
            const struct info_file *f = &files[child];
            printf("%*s%" PRIu32 " ", 2 * depth, "", head_of(f)->pid);
            fputs(tool_text_shown(f->header.executable), stdout);
            uint64_t events = info_event_count(f);
            printf("  %s event%s  %s\n", tool_text_count(&t, events),
                   events == 1 ? "" : "s", tool_text_shown(f->name));
            at = child;
            depth++;
            child = next_child(files, nodes, count, at, -1);
        } else if (at >= 0) {
            child = next_child(files, nodes, count, nodes[at].parent, at);
            at = nodes[at].parent;
            depth--;
        } else {
            break;
        }
    }
    if (any)
        printf("\n");
    free(nodes);
}
