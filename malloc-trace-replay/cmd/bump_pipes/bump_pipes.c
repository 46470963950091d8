/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bump-pipes: enlarges the pipes on its stdin and stdout to the maximum that
 * the system allows, then executes a command.
 *
 * Why: a pipe holds 64 KiB by default, so that two busy programs wake each
 * other for every few thousand operations; with 1 MiB they do so sixteen times
 * less often. A stdin or stdout that is not a pipe, or a system that refuses,
 * is not an error: the command runs anyway.
 */
#include "base/linux/os_file.h"
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
    .quiet = "no effect: only errors are printed anyway",
    .notes = "The maximum is the number in " PIPE_SIZE_FILE ". A standard "
             "input or output that is not a pipe stays as it is. The exit "
             "status is COMMAND's; 126 if it "
             "cannot be run, 127 if it is not found, 2 for a wrong command "
             "line.",
    .stop_at_operand = true};

/* Returns the maximum size of a pipe in bytes. */
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

/* Enlarges FD if it is a pipe; never shrinks one that root has enlarged beyond
   the limit. */
static void enlarge(int fd, uint64_t size) {
    int now = fcntl(fd, F_GETPIPE_SZ);
    if (now < 0 || (uint64_t)now >= size)
        return;
    /* the limit on all pipes of a user may allow less than SIZE */
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
