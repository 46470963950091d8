/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lines of `malloc-trace info` that a person reads: what was recorded, how
 * much was asked for, what it cost, and the sizes as bars.
 */
#include "cmd/malloc_trace/info.h"
#include "common/tool_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Threads named as the busiest ones, and the width of the longest bar. */
#define BUSIEST   3u
#define BAR_WIDTH 30u

/* Text of a trace may hold anything; control bytes would reach the terminal. */
void info_put_clean(const char *text) {
    for (; *text != '\0'; text++)
        putchar((unsigned char)*text < 0x20 || *text == 0x7F ? '?' : *text);
}

static void put_label(const char *label) {
    printf("  %-13s ", label);
}

/* Field of the recorder's account, which a processed trace passes on. */
static bool account(const struct info_file *f, unsigned field, uint64_t *n) {
    if (f->kind == INFO_RAW) {
        *n = f->account[field];
        return f->have_account[field];
    }
    for (uint64_t i = 0; i < f->proc_account_count; i++)
        if (f->proc_fields[i] == MTF_PROC_ACCOUNT_RECORDER + field) {
            *n = f->proc_values[i];
            return true;
        }
    return false;
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
        info_put_clean(f->converter);
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
    info_put_clean(f->header.executable);
    printf(", process %" PRIu32 "%s\n", h->pid, text);
}

static uint64_t lasted(const struct info_file *f) {
    uint64_t start = f->have_header ? f->header.fixed.start_ns : 0;
    uint64_t last = f->last_ns;
    if (!f->have_header)
        for (size_t i = 0; i < f->threads.count; i++)
            if (start == 0 || f->threads.thread[i].first_ns < start)
                start = f->threads.thread[i].first_ns;
    return last > start ? last - start : 0;
}

static void print_length(const struct info_file *f) {
    struct tool_text a, b;
    uint64_t ns = lasted(f), n = info_event_count(f);
    put_label("lasted");
    printf("%s", tool_text_ns(&a, ns));
    if (ns >= 1000000)
        printf(", %s events a second",
               tool_text_count(&b, (uint64_t)((double)n * 1e9 / (double)ns)));
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
    put_label("events");
    fputs(tool_text_count(&t, info_event_count(f)), stdout);
    const char *before = ": ";
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(sum); i++) {
        if (sum[i] == 0)
            continue;
        printf("%s%s %s", before, tool_text_count(&t, sum[i]), name[i]);
        before = ", ";
    }
    putchar('\n');
}

static void print_busiest(const struct info_file *f) {
    const struct raw_threads *r = &f->threads;
    const struct raw_thread *shown[BUSIEST];
    uint64_t all = info_event_count(f), threads = raw_threads_with_events(r);
    struct tool_text t;
    put_label("threads");
    fputs(tool_text_count(&t, threads), stdout);
    unsigned n = 0;
    for (; threads > 1 && n < BUSIEST; n++) {
        const struct raw_thread *most = NULL;
        for (size_t i = 0; i < r->count; i++) {
            const struct raw_thread *th = &r->thread[i];
            bool before = false;
            for (unsigned k = 0; k < n; k++)
                before = before || shown[k] == th;
            if (!before && th->events != 0 &&
                (most == NULL || th->events > most->events))
                most = th;
        }
        if (most == NULL)
            break;
        shown[n] = most;
        printf("%s", n == 0 ? "; busiest: " : ", ");
        if (most->id == MTF_THREAD_LATE)
            printf("late");
        else
            printf("%" PRIu32, most->id);
        if (most->name[0] != '\0') {
            printf(" (");
            info_put_clean(most->name);
            putchar(')');
        }
        printf(" %" PRIu64 " %%", per_mille(most->events, all) / 10);
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
    uint64_t start = f->have_header ? f->header.fixed.start_ns : 0;
    struct tool_text a, b;
    put_label("peak");
    if (l->failed) {
        puts("unknown, not enough memory");
        put_label("live at end");
        puts("unknown");
        return;
    }
    printf("%s", tool_text_bytes(&a, l->peak_bytes));
    if (l->peak_bytes_ns > start)
        printf(" after %s", tool_text_ns(&b, l->peak_bytes_ns - start));
    printf("; %s blocks", tool_text_count(&a, l->peak_blocks));
    if (f->kind == INFO_RAW && info_live_at_most(l) > l->peak_bytes)
        printf("; surely at most %s",
               tool_text_bytes(&b, info_live_at_most(l)));
    putchar('\n');
    put_label("live at end");
    printf("%s in %s block%s\n", tool_text_bytes(&a, l->bytes),
           tool_text_count(&b, l->blocks), l->blocks == 1 ? "" : "s");
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
    else if (!f->clean_end)
        fputs(", without clean end", stdout);
    else if (account(f, MTF_ACCOUNT_END_REASON, &reason))
        printf(", %s", info_end_reason(reason));
    putchar('\n');
}

static void print_cost(const struct info_file *f) {
    uint64_t n = info_event_count(f), saver, waits, wait_ns;
    struct tool_text a, b;
    put_label("cost");
    printf("%s", tool_text_bytes(&a, f->stored_bytes));
    if (n != 0)
        printf(", %.2f bytes an event", (double)f->stored_bytes / (double)n);
    if (account(f, MTF_ACCOUNT_SAVER_CPU_NS, &saver))
        printf("; saving took %s", tool_text_ns(&a, saver));
    if (account(f, MTF_ACCOUNT_WAITS, &waits) && waits != 0 &&
        account(f, MTF_ACCOUNT_WAIT_NS, &wait_ns))
        printf("; waited %s times, %s", tool_text_count(&a, waits),
               tool_text_ns(&b, wait_ns));
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
    printf("  sizes asked for        %31s%11s\n", "requests", "so far");
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
    print_length(f);
    print_events(f);
    print_busiest(f);
    print_requested(f);
    print_peak(f);
    print_complete(f);
    print_cost(f);
    print_sizes(&f->live);
}
