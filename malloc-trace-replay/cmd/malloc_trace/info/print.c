/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of a file as text, and how processes of several files belong
 * together.
 */
#include "cmd/malloc_trace/info/print.h"

#include "cmd/malloc_trace/info/summary.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Threads listed before the rest is only counted. */
#define THREADS_SHOWN 16u

/* --- Lines -------------------------------------------------------------- */

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

/* What postprocess --strip leaves out. */
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

/* --- Peaks --------------------------------------------------------------- */

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
    if (f->kind == INFO_RAW && info_at_most(f) > l->peak_bytes)
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

/* --- Threads -------------------------------------------------------------- */

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

/* --- Raw ---------------------------------------------------------------- */

static void print_footer(const struct info_file *f) {
    if (f->segments[MTF_SEGMENT_FOOTER] == 0)
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
    for (unsigned k = 0; k < INFO_SEGMENT_KINDS; k++)
        if (f->segments[k] != 0) {
            char label[48];
            (void)snprintf(label, sizeof(label), "%s segments",
                           info_segment_name(k));
            put_count(label, f->segments[k]);
        }
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

/* --- Processed ---------------------------------------------------------- */

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

/* What kind of file it is. */
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

void info_print(const struct info_file *f, bool all) {
    print_kind(f);
    info_summary(f);
    if (!all)
        return;
    if (f->kind == INFO_RAW)
        print_raw(f);
    else
        print_processed(f);
}

/* --- Process tree ------------------------------------------------------- */

static const struct mtf_raw_header *head_of(const struct info_file *f) {
    return &f->header.fixed;
}

static bool started_before(const struct info_file *a,
                           const struct info_file *b) {
    if (head_of(a)->wall_ns != head_of(b)->wall_ns)
        return head_of(a)->wall_ns < head_of(b)->wall_ns;
    return a < b;
}

/* Whether A's process is B's parent, or B's own before an exec. Only earlier
   recordings qualify, so that damaged ids cannot make a circle. */
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

/* Index of the latest recording above number I, or -1. */
static int above(const struct info_file *files, int count, int i) {
    int found = -1;
    for (int k = 0; k < count; k++)
        if (files[k].have_header && is_above(&files[k], &files[i]) &&
            (found < 0 || started_before(&files[found], &files[k])))
            found = k;
    return found;
}

struct tree_node {
    int file, parent, depth;
};

/* The next child of PARENT after file AFTER, by start; -1: none. */
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
                              ? above(files, count, i)
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
