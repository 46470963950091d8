/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace ctl: controls the recording of a running process, and shows
 * where the memory of its heap is.
 */
#include "base/check.h"
#include "base/linux/os_file.h"
#include "cmd/malloc_trace/subcommands.h"
#include "common/control_client.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/opts.h"
#include "common/text.h"
#include "traceformat/trace_event.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ctl_command {
    const char *name;
    enum mtf_control_command command;
    int least, most; /* operands after its name */
} commands[] = {
    {"start", MTF_CONTROL_START, 0, 1}, {"stop", MTF_CONTROL_STOP, 0, 0},
    {"flush", MTF_CONTROL_FLUSH, 0, 0}, {"status", MTF_CONTROL_STATUS, 0, 0},
    {"mark", MTF_CONTROL_MARK, 1, 1},   {"memory", MTF_CONTROL_MEMORY, 0, 0},
};

/* Returns the command NAME; NULL: there is none. */
static const struct ctl_command *find_command(const char *name) {
    for (size_t i = 0; i < TCM_ARRAY_SIZE(commands); i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

static const char *state_name(unsigned state) {
    static const char *const name[] = {
        [MTF_CONTROL_OFF] = "off",
        [MTF_CONTROL_WAITING] = "waiting",
        [MTF_CONTROL_RECORDING] = "recording",
        [MTF_CONTROL_ENDED] = "ended",
        [MTF_CONTROL_FAILED] = "failed",
    };
    return state < TCM_ARRAY_SIZE(name) ? name[state] : "unknown";
}

static uint64_t account(const struct mtf_control_reply *r, unsigned field) {
    for (unsigned i = 0; i < r->account_count; i++)
        if (r->account[i].field == field)
            return r->account[i].value;
    return 0;
}

static void print_status(pid_t pid, const struct mtf_control_reply *r) {
    struct tool_text t[4];
    printf("process %d: %s", (int)pid,
           r->state == MTF_CONTROL_WAITING ? "records from its next request on"
                                           : state_name(r->state));
    if (r->name[0] != '\0')
        printf("%s%s", r->state == MTF_CONTROL_OFF ? ", last to " : " to ",
               tool_text_shown(r->name));
    putchar('\n');
    if (account(r, MTF_ACCOUNT_RAW_BYTES) == 0)
        return;
    uint64_t threads = account(r, MTF_ACCOUNT_THREADS);
    printf("  %s events of %s thread%s, %s raw, %s stored\n",
           tool_text_count(&t[0], account(r, MTF_ACCOUNT_EVENTS)),
           tool_text_count(&t[1], threads), threads == 1 ? "" : "s",
           tool_text_bytes(&t[2], account(r, MTF_ACCOUNT_RAW_BYTES)),
           tool_text_bytes(&t[3], account(r, MTF_ACCOUNT_STORED_BYTES)));
    printf("  waited %s times, %s; untraced frees %s, dropped %s\n",
           tool_text_count(&t[0], account(r, MTF_ACCOUNT_WAITS)),
           tool_text_ns(&t[1], account(r, MTF_ACCOUNT_WAIT_NS)),
           tool_text_count(&t[2], account(r, MTF_ACCOUNT_UNTRACED_FREES)),
           tool_text_count(&t[3], account(r, MTF_ACCOUNT_DROPPED_EVENTS)));
}

static bool write_status(const char *path, pid_t pid,
                         const struct mtf_control_reply *r) {
    struct tool_json j;
    if (!tool_json_open(&j, path))
        return false;
    tool_json_begin_object(&j, NULL);
    tool_json_u64(&j, "pid", (uint64_t)pid);
    tool_json_string(&j, "state", state_name(r->state));
    tool_json_string(&j, "output", r->name);
    if (r->message[0] != '\0')
        tool_json_string(&j, "message", r->message);
    for (unsigned i = 0; i < r->account_count; i++) {
        const char *name = mtf_account_name(r->account[i].field);
        if (name != NULL)
            tool_json_u64(&j, name, r->account[i].value);
    }
    tool_json_end_object(&j);
    return tool_json_close(&j);
}

/* --- The memory table ----------------------------------------------------- */

/* Rows of the text, of the size classes with most free bytes. */
#define ROWS_SHOWN 10u

static uint64_t total(const struct mtf_memory *m, enum mtf_memory_total which) {
    return mtf_memory_total(m, which);
}

/* Returns A - B; 0 if that is negative. */
static uint64_t less(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

/* Returns the resident bytes of process PID; 0: unknown. */
static uint64_t process_bytes(pid_t pid, uint64_t page_bytes) {
    char path[40], text[128];
    uint64_t pages;
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    if (tcm_io_read_file(path, text, sizeof(text)) <= 0 ||
        sscanf(text, "%*u %" SCNu64, &pages) != 1)
        return 0;
    return pages * page_bytes;
}

/* Prints a row of the table, with the share that BYTES are of ALL. The names
   are those of malloc-trace memory. */
static void print_part(const char *name, uint64_t bytes, uint64_t all) {
    struct tool_text t;
    printf("  %-24s %10s", name, tool_text_bytes(&t, bytes));
    if (all != 0)
        printf(" %5s", tool_text_percent(&t, bytes, all));
    putchar('\n');
}

/* Returns the number of blocks in use. */
static uint64_t live_blocks(const struct mtf_memory *m) {
    uint64_t blocks = 0;
    for (unsigned i = 0; i < m->rows; i++)
        blocks += mtf_memory_cell(m, i, MTF_COLUMN_blocks);
    return blocks;
}

static void print_parts(const struct mtf_memory *m) {
    struct tool_text t;
    uint64_t all = total(m, MTF_MEMORY_resident_bytes);
    uint64_t page = total(m, MTF_MEMORY_page_bytes);
    uint64_t partly = total(m, MTF_MEMORY_partly_pages) * page;
    uint64_t free = total(m, MTF_MEMORY_free_bytes);
    uint64_t empty = total(m, MTF_MEMORY_empty_bytes);
    uint64_t runs = total(m, MTF_MEMORY_empty_run_bytes);
    uint64_t never = total(m, MTF_MEMORY_never_bytes);
    uint64_t reserve = total(m, MTF_MEMORY_reserve_bytes);
    uint64_t huge = total(m, MTF_MEMORY_huge_bytes);
    print_part("resident", all, 0);
    print_part("live", total(m, MTF_MEMORY_live_pages) * page, all);
    print_part("partly live", partly, all);
    print_part("  alive, with rounding", less(partly, free), all);
    print_part("  free, held by blocks", free, all);
    print_part("empty pages", empty, all);
    print_part("  of free pages", runs, all);
    print_part("  of free objects", less(empty, runs), all);
    print_part("never used", never, all);
    print_part("  metadata", less(never, reserve), all);
    print_part("  reserve", reserve, all);
    if (huge != 0)
        print_part("in huge pages", huge, all);
    printf("  %-24s %10s\n", "live blocks",
           tool_text_count(&t, live_blocks(m)));
}

/* Returns the sum over all classes of the free objects in COLUMN, in bytes. */
static uint64_t free_objects(const struct mtf_memory *m,
                             enum mtf_memory_column column) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < m->rows; i++)
        bytes += mtf_memory_cell(m, i, column) *
                 mtf_memory_cell(m, i, MTF_COLUMN_size);
    return bytes;
}

static void print_places(const struct mtf_memory *m) {
    printf("free objects, resident or not:\n");
    print_part("in thread caches", free_objects(m, MTF_COLUMN_thread_cache), 0);
    print_part("in transfer caches", free_objects(m, MTF_COLUMN_transfer_cache),
               0);
    print_part("in central lists", free_objects(m, MTF_COLUMN_central_list), 0);
    printf("not resident:\n");
    print_part("of blocks", total(m, MTF_MEMORY_absent_bytes), 0);
    print_part("of free pages, objects", total(m, MTF_MEMORY_absent_free_bytes),
               0);
    print_part("given back, or unused", total(m, MTF_MEMORY_returned_bytes), 0);
}

static const struct mtf_memory *sorted; /* by compare_rows */

static int compare_rows(const void *a, const void *b) {
    unsigned i = *(const unsigned *)a, j = *(const unsigned *)b;
    uint64_t x = mtf_memory_cell(sorted, i, MTF_COLUMN_free_bytes);
    uint64_t y = mtf_memory_cell(sorted, j, MTF_COLUMN_free_bytes);
    return x != y ? (x < y ? 1 : -1) : (i > j) - (i < j);
}

static void print_row(const struct mtf_memory *m, unsigned row) {
    struct tool_text t[7];
    uint64_t cell[MTF_COLUMN_COUNT];
    for (unsigned i = 0; i < MTF_COLUMN_COUNT; i++)
        cell[i] = mtf_memory_cell(m, row, i);
    printf("%9s %10s %10s %9s %11s %12s %11s\n",
           cell[MTF_COLUMN_size] == 0
               ? "large"
               : tool_text_count(&t[0], cell[MTF_COLUMN_size]),
           tool_text_bytes(&t[1], cell[MTF_COLUMN_usable_bytes]),
           tool_text_bytes(&t[2], cell[MTF_COLUMN_free_bytes]),
           tool_text_count(&t[3], cell[MTF_COLUMN_spans]),
           tool_text_count(&t[4], cell[MTF_COLUMN_blocks]),
           tool_text_count(&t[5], cell[MTF_COLUMN_thread_cache]),
           tool_text_count(&t[6], cell[MTF_COLUMN_transfer_cache] +
                                      cell[MTF_COLUMN_central_list]));
}

static void print_classes(const struct mtf_memory *m) {
    static unsigned order[MTF_MEMORY_CELL_MAX];
    if (m->columns == 0)
        return;
    for (unsigned i = 0; i < m->rows; i++)
        order[i] = i;
    sorted = m;
    qsort(order, m->rows, sizeof(order[0]), compare_rows);
    printf("%9s %10s %10s %9s %11s %12s %11s\n", "size", "alive", "free",
           "spans", "blocks", "free: cached", "central");
    for (unsigned i = 0; i < m->rows && i < ROWS_SHOWN; i++)
        print_row(m, order[i]);
    if (m->rows > ROWS_SHOWN)
        printf("and %u more sizes, which --json lists\n", m->rows - ROWS_SHOWN);
}

static void print_memory(pid_t pid, const struct mtf_memory *m) {
    struct tool_text t[4];
    uint64_t all = process_bytes(pid, total(m, MTF_MEMORY_page_bytes));
    printf("process %d: of %s resident %s are alive;\n"
           "%s lie free on pages that blocks hold; %s are pages without a "
           "block\n",
           (int)pid,
           tool_text_bytes(&t[0], total(m, MTF_MEMORY_resident_bytes)),
           tool_text_bytes(&t[1], total(m, MTF_MEMORY_usable_bytes)),
           tool_text_bytes(&t[2], total(m, MTF_MEMORY_free_bytes)),
           tool_text_bytes(&t[3], total(m, MTF_MEMORY_empty_bytes)));
    print_parts(m);
    print_places(m);
    if (all != 0)
        printf("with code, stacks and mappings of its own the process has %s\n",
               tool_text_bytes(&t[0], all));
    print_classes(m);
}

static bool write_memory(const char *path, pid_t pid,
                         const struct mtf_memory *m) {
    static const char *const total_name[] = {
#define X(name) #name,
        MTF_MEMORY_TOTALS(X)
#undef X
    };
    static const char *const column_name[] = {
#define X(name) #name,
        MTF_MEMORY_COLUMNS(X)
#undef X
    };
    struct tool_json j;
    uint64_t all = process_bytes(pid, total(m, MTF_MEMORY_page_bytes));
    if (!tool_json_open(&j, path))
        return false;
    tool_json_begin_object(&j, NULL);
    tool_json_u64(&j, "pid", (uint64_t)pid);
    tool_json_string(&j, "residency",
                     total(m, MTF_MEMORY_huge_known) != 0 ? "pagemap_scan"
                                                          : "mincore");
    if (all != 0)
        tool_json_u64(&j, "rss_bytes", all);
    for (unsigned i = 0; i < MTF_MEMORY_TOTAL_COUNT; i++) {
        if (i == MTF_MEMORY_huge_known)
            tool_json_bool(&j, total_name[i], total(m, i) != 0);
        else
            tool_json_u64(&j, total_name[i], total(m, i));
    }
    tool_json_begin_array(&j, "classes");
    tool_json_dense(&j, true);
    for (unsigned i = 0; i < m->rows; i++) {
        tool_json_begin_object(&j, NULL);
        for (unsigned k = 0; k < MTF_COLUMN_COUNT; k++)
            tool_json_u64(&j, column_name[k], mtf_memory_cell(m, i, k));
        tool_json_end_object(&j);
    }
    tool_json_dense(&j, false);
    tool_json_end_array(&j);
    tool_json_end_object(&j);
    return tool_json_close(&j);
}

/* --- Requests ------------------------------------------------------------- */

/* Makes the text of the request from OPERAND, which may be NULL: a file's name
   is absolute, as the process may have another current folder. Returns an exit
   status. */
static int make_text(char *text, const struct ctl_command *c,
                     const char *operand) {
    text[0] = '\0';
    if (operand == NULL)
        return TOOL_OK;
    if (c->command == MTF_CONTROL_MARK)
        snprintf(text, MTF_CONTROL_TEXT_MAX + 1, "%s", operand);
    else if (*operand == '\0')
        return tool_usage_error("the name of the file is empty");
    else if (!tool_file_make_pattern(text, MTF_CONTROL_TEXT_MAX + 1, operand))
        return TOOL_FAILED;
    return TOOL_OK;
}

/* Prints the answer of process PID. JSON: of option --json, or NULL. Returns
   the exit status. */
static int print_answer(pid_t pid, const struct ctl_command *c,
                        const struct mtf_control_reply *reply,
                        const char *json) {
    bool has_memory = c->command == MTF_CONTROL_MEMORY;
    if (has_memory && !reply->has_memory) {
        tool_error("process %d: its answer has no memory table", (int)pid);
        return TOOL_FAILED;
    }
    if (json != NULL && !(has_memory ? write_memory(json, pid, &reply->memory)
                                     : write_status(json, pid, reply)))
        return TOOL_FAILED;
    if (tool_is_quiet() || (json != NULL && tool_file_is_stdout(json)))
        return TOOL_OK;
    if (c->command == MTF_CONTROL_STATUS)
        print_status(pid, reply);
    else if (has_memory)
        print_memory(pid, &reply->memory);
    else if (c->command == MTF_CONTROL_START)
        printf("recording to %s\n", tool_text_shown(reply->name));
    else if (c->command == MTF_CONTROL_STOP && reply->name[0] != '\0')
        printf("recorded to %s\n", tool_text_shown(reply->name));
    return TOOL_OK;
}

/* Takes --sites; CTX: where its value goes. */
static bool take_sites(void *ctx, const char *text) {
    *(const char **)ctx = text;
    return strlen(text) <= MTF_CONTROL_SITES_MAX && record_is_mode(text);
}

/* Parses the options: *JSON is the file of --json, *SITES the mode of --sites.
   false: the status is O's. */
static bool parse_options(const char **json, const char **sites,
                          struct tool_opts *o, int argc, char **argv) {
    const struct tool_opt opts[] = {
        {.value = "start",
         .help = "record to FILE; default: the value of TCMALLOC_TRACE_OUTPUT "
                 "when the process started. A name that the process has "
                 "recorded to before gets a number"},
        {.value = "stop",
         .help = "end the recording; the trace is complete when this returns"},
        {.value = "flush", .help = "write all events so far to the trace"},
        {.value = "status",
         .help = "print the state of the recording and its counters"},
        {.value = "mark TEXT",
         .help = "put a mark of up to 127 bytes into the trace"},
        {.value = "memory",
         .help = "print where the memory of the heap is: each resident page is "
                 "live, partly live, empty or never used"},
        {.name = "sites",
         .value = "MODE",
         .help = "start: record the call sites of allocations: caller, "
                 "stack[:DEPTH], sample[:BYTES], lang[:N] or none. All "
                 "recordings of a process have the mode of its first one",
         .take = take_sites,
         .ctx = sites,
         .expects = "caller, stack[:DEPTH], sample[:BYTES], lang[:N] or none"},
        {.name = "json",
         .value = "FILE",
         .help = "status, memory: also write it to FILE as JSON (-: to "
                 "standard output, instead of text)",
         .text = json},
        {0}};
    const struct tool_command command = {
        .usage = "malloc-trace ctl PID start [--sites=MODE] [FILE]\n"
                 "malloc-trace ctl PID stop | flush | status | memory\n"
                 "malloc-trace ctl PID mark TEXT",
        .about = "Control the recording of a running process of the same user, "
                 "or as root of any, that was started with "
                 "TCMALLOC_TRACE_CONTROL=1 under the recording library, or "
                 "show where its memory is.",
        .opts = opts,
        .notes = "Exit status: 0; 1 the process does not answer or refuses; 2 "
                 "wrong command line."};
    return tool_opts_parse(o, &command, argc, argv);
}

int cmd_ctl(int argc, char **argv) {
    const char *json = NULL, *sites = "";
    static struct mtf_control_reply reply;
    static char text[MTF_CONTROL_TEXT_MAX + 1];
    char problem[TOOL_CONTROL_PROBLEM_MAX];
    struct tool_opts o;
    uint64_t pid;
    if (!parse_options(&json, &sites, &o, argc, argv))
        return o.status;
    if (o.operand_count < 2)
        return tool_usage_error("no process id and command given");
    if (!tool_parse_u64(o.operand[0], INT32_MAX, &pid) || pid == 0)
        return tool_usage_error("'%s' is not a process id", o.operand[0]);
    const struct ctl_command *c = find_command(o.operand[1]);
    if (c == NULL)
        return tool_usage_error("unknown command '%s'", o.operand[1]);
    int count = o.operand_count - 2;
    if (count < c->least || count > c->most)
        return tool_usage_error("%s takes %s", c->name,
                                c->most == 0    ? "no argument"
                                : c->least == 1 ? "one text"
                                                : "at most one file");
    TCM_ASSERT(count <= 1);
    if (json != NULL && c->command != MTF_CONTROL_STATUS &&
        c->command != MTF_CONTROL_MEMORY)
        return tool_usage_error("--json needs the command status or memory");
    if (*sites != '\0' && c->command != MTF_CONTROL_START)
        return tool_usage_error("--sites needs the command start");
    if (tool_files_collide_text(json, NULL, 0))
        return TOOL_USAGE;
    int status = make_text(text, c, count == 1 ? o.operand[2] : NULL);
    if (status != TOOL_OK)
        return status;
    if (!tool_control_request((pid_t)pid, c->command, text, sites, &reply,
                              problem)) {
        tool_error("%s", problem);
        return TOOL_FAILED;
    }
    return print_answer((pid_t)pid, c, &reply, json);
}
