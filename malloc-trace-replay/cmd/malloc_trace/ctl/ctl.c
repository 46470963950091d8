/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace ctl: controls the recording of a running process.
 */
#include "base/check.h"
#include "cmd/malloc_trace/subcommands.h"
#include "common/control_client.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/opts.h"
#include "common/text.h"
#include "traceformat/trace_event.h"

#include <stdio.h>
#include <string.h>

static const struct ctl_command {
    const char *name;
    enum mtf_control_command command;
    int least, most; /* operands after its name */
} commands[] = {
    {"start", MTF_CONTROL_START, 0, 1}, {"stop", MTF_CONTROL_STOP, 0, 0},
    {"flush", MTF_CONTROL_FLUSH, 0, 0}, {"status", MTF_CONTROL_STATUS, 0, 0},
    {"mark", MTF_CONTROL_MARK, 1, 1},
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
    if (json != NULL && !write_status(json, pid, reply))
        return TOOL_FAILED;
    if (tool_is_quiet() || (json != NULL && tool_file_is_stdout(json)))
        return TOOL_OK;
    if (c->command == MTF_CONTROL_STATUS)
        print_status(pid, reply);
    else if (c->command == MTF_CONTROL_START)
        printf("recording to %s\n", tool_text_shown(reply->name));
    else if (c->command == MTF_CONTROL_STOP && reply->name[0] != '\0')
        printf("recorded to %s\n", tool_text_shown(reply->name));
    return TOOL_OK;
}

/* Parses the options: *JSON is the file of --json. false: the status is O's. */
static bool parse_options(const char **json, struct tool_opts *o, int argc,
                          char **argv) {
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
        {.name = "json",
         .value = "FILE",
         .help = "status: also write it to FILE as JSON (-: to standard "
                 "output, instead of text)",
         .text = json},
        {0}};
    const struct tool_command command = {
        .usage = "malloc-trace ctl PID start [FILE]\n"
                 "malloc-trace ctl PID stop | flush | status\n"
                 "malloc-trace ctl PID mark TEXT",
        .about = "Control the recording of a running process of the same user "
                 "that was started with TCMALLOC_TRACE_CONTROL=1 under the "
                 "recording library.",
        .opts = opts,
        .notes = "Exit status: 0; 1 the process does not answer or refuses; 2 "
                 "wrong command line."};
    return tool_opts_parse(o, &command, argc, argv);
}

int cmd_ctl(int argc, char **argv) {
    const char *json = NULL;
    static struct mtf_control_reply reply;
    static char text[MTF_CONTROL_TEXT_MAX + 1];
    char problem[TOOL_CONTROL_PROBLEM_MAX];
    struct tool_opts o;
    uint64_t pid;
    if (!parse_options(&json, &o, argc, argv))
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
    if (json != NULL && c->command != MTF_CONTROL_STATUS)
        return tool_usage_error("--json needs the command status");
    if (tool_files_collide_text(json, NULL, 0))
        return TOOL_USAGE;
    int status = make_text(text, c, count == 1 ? o.operand[2] : NULL);
    if (status != TOOL_OK)
        return status;
    if (!tool_control_request((pid_t)pid, c->command, text, &reply, problem)) {
        tool_error("%s", problem);
        return TOOL_FAILED;
    }
    return print_answer((pid_t)pid, c, &reply, json);
}
