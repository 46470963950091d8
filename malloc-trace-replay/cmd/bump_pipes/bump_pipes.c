/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bump-pipes: enlarges the pipes on its stdin and stdout to the most that the
 * system allows, then becomes the command it was given.
 *
 * Why: a pipe holds 64 KiB by default, so that two busy programs wake each
 * other for every few thousand operations; at 1 MiB they do so sixteen times
 * less often. A stdin or stdout that is no pipe, or a system that refuses, is
 * no error: the command runs as it would have.
 */
#include "base/raw_io.h"
#include "common/main.h"
#include "common/opts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PIPE_SIZE_FILE "/proc/sys/fs/pipe-max-size"

static const struct tool_opt opts[] = {{0}};

static const struct tool_command command = {
    .usage = "bump-pipes COMMAND [ARGUMENT]...",
    .about = "Enlarge the pipes on standard input and output to the system's "
             "maximum, then run COMMAND.",
    .opts = opts,
    .quiet = "has no effect: nothing is printed but what is wrong",
    .notes = "The maximum is the number in " PIPE_SIZE_FILE ". What is no "
             "pipe stays as it is. The exit status is COMMAND's; 126 if it "
             "cannot be run, 127 if it is not found, 2 for a wrong command "
             "line.",
    .stop_at_operand = true};

static uint64_t largest_pipe(void) {
    char text[32];
    uint64_t size;
    long length = tcm_io_read_file(PIPE_SIZE_FILE, text, sizeof(text));
    if (length > 0 && text[length - 1] == '\n')
        text[length - 1] = '\0';
    if (length <= 0 || !tool_parse_u64(text, INT32_MAX, &size))
        return 1u << 20;
    return size;
}

/* Never makes a pipe smaller: one that root had enlarged beyond the limit may
   be ours. */
static void enlarge(int fd, uint64_t size) {
    int now = fcntl(fd, F_GETPIPE_SZ);
    if (now < 0 || (uint64_t)now >= size)
        return;
    /* The limit of all pages of a user's pipes may allow less than this. */
    while (size > (uint64_t)now && fcntl(fd, F_SETPIPE_SZ, (int)size) < 0)
        size /= 2;
}

int main(int argc, char **argv) {
    struct tool_opts o;
    tool_begin("bump-pipes");
    if (!tool_opts_parse(&o, &command, argc, argv))
        return tool_end(o.status);
    if (o.operand_count == 0)
        return tool_usage_error("no command given");
    uint64_t size = largest_pipe();
    enlarge(0, size);
    enlarge(1, size);
    o.operand[o.operand_count] = NULL;
    tool_before_exec();
    execvp(o.operand[0], o.operand);
    int error = errno;
    tool_error("cannot run %s: %s", o.operand[0], strerror(error));
    return error == ENOENT ? 127 : 126;
}
