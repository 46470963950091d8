/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/info/summary.h"

#include "common/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Threads named as the busiest ones, and the width of the longest bar. */
#define BUSIEST   3u
#define BAR_WIDTH 30u
/* Columns of a line, and those in front of what a label names. */
#define WIDTH  80u
#define INDENT 16u

/* A line of parts that goes on below its beginning where it gets too wide. */
struct line {
    size_t used; /* columns */
};

static struct line put_label(const char *label) {
    return (struct line){(size_t)printf("  %-13s ", label)};
}

/* BEFORE stands between the part and the one in front of it. */
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

/* Field of the recorder's account, which a processed trace passes on. */
static bool account(const struct info_file *f, unsigned field, uint64_t *n) {
    if (f->kind != INFO_RAW)
        return proc_account(f, MTF_PROC_ACCOUNT_RECORDER + field, n);
    *n = f->account[field];
    return f->have_account[field];
}

/* Whether F has a window or some threads of a recording only, so that what is
   known of the whole does not describe it. */
static bool is_part(const struct info_file *f) {
    uint64_t n;
    return proc_account(f, MTF_PROC_ACCOUNT_PROLOGUE_OPS, &n);
}

/* In tenths, of N in ALL. */
static uint64_t per_mille(uint64_t n, uint64_t all) {
    return all == 0 ? 0 : (uint64_t)((unsigned __int128)n * 1000 / all);
}

/* --- What, and how long --------------------------------------------------- */

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

/* Of what is in the file: a part begins later than its recording. */
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

/* What of the recording is not in the file, and what was put in for it. */
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

/* --- How much ------------------------------------------------------------- */

static void print_events(const struct info_file *f) {
    uint64_t sum[5] = {0};
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
        if (sum[i] == 0)
            continue;
        put_part(&l, before, "%s %.*s", tool_text_count(&t, sum[i]),
                 (int)strlen(name[i]) - (sum[i] == 1 && i < 4), name[i]);
        before = ", ";
    }
    /* postprocess counts these as frees of what was not recorded */
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
    put_part(l, before, "%s%s: %" PRIu64 " %%", id, name,
             per_mille(t->events, all) / 10);
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

static void print_peak(const struct info_file *f) {
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
    put_part(&line, "", "%s", tool_text_bytes(&a, l->peak_bytes));
    if (l->peak_bytes_ns > start)
        put_part(&line, " ", "after %s",
                 tool_text_ns(&b, l->peak_bytes_ns - start));
    if (f->kind == INFO_RAW && info_at_most(f) > l->peak_bytes)
        put_part(&line, "; ", "surely at most %s",
                 tool_text_bytes(&b, info_at_most(f)));
    putchar('\n');
    put_label("live at end");
    printf("%s in %s block%s\n", tool_text_bytes(&a, l->bytes),
           tool_text_count(&b, l->blocks), l->blocks == 1 ? "" : "s");
}

/* Of how much of the large blocks a recorder found memory. */
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

/* --- Whether it is all, and what it took ---------------------------------- */

static void print_complete(const struct info_file *f) {
    uint64_t reason;
    put_label("complete");
    fputs(f->complete ? "yes" : "no", stdout);
    if (f->begins_late)
        fputs(", but for what was before", stdout);
    if (f->growing)
        fputs(", still being recorded", stdout);
    else if (is_part(f))
        ; /* it ends where it was cut */
    else if (!f->clean_end)
        fputs(", without clean end", stdout);
    else if (account(f, MTF_ACCOUNT_END_REASON, &reason))
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
    /* the recorder's own account is one of the whole recording */
    bool whole = !f->begins_late && !is_part(f);
    if (whole && account(f, MTF_ACCOUNT_SAVER_CPU_NS, &saver))
        put_part(&l, "; ", "saving took %s", tool_text_ns(&a, saver));
    if (whole && account(f, MTF_ACCOUNT_WAITS, &waits) && waits != 0 &&
        account(f, MTF_ACCOUNT_WAIT_NS, &wait_ns))
        put_part(&l, "; ", "waited %s time%s, %s", tool_text_count(&a, waits),
                 waits == 1 ? "" : "s", tool_text_ns(&b, wait_ns));
    putchar('\n');
}

/* --- Sizes ---------------------------------------------------------------- */

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
        /* a short bar leaves its end to a long number */
        const char *count = tool_text_count(&t, n);
        int room = (int)BAR_WIDTH + 12 - (int)strlen(count);
        printf("%-*.*s%s %5" PRIu64 ".%" PRIu64 " %%\n", room > 0 ? room : 0,
               (int)width, bar, count, share / 10, share % 10);
    }
}

void info_summary(const struct info_file *f) {
    print_program(f);
    print_part(f);
    print_length(f);
    print_events(f);
    print_busiest(f);
    print_requested(f);
    print_peak(f);
    print_present(f);
    print_complete(f);
    print_cost(f);
    print_sizes(&f->live);
}
