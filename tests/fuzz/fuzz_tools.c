/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as what `malloc-trace dump` and `info` read. Each line that is
 * printed is one line of printable bytes, whatever the trace holds as text.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_repair.h"

#include "cmd/malloc_trace/dump/dump_lines.h"
#include "cmd/malloc_trace/info/info_print.h"
#include "model/info.h"
#include "trace/ops.h"
#include "common/main.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const struct fuzz_target fuzz_target = {.corpus = "tools", .stride = 7};

static int null_fd = -1;

/* Sends FD to /dev/null; returns a copy of it for put_back. */
static int silence(int fd) {
    if (null_fd < 0)
        null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    FUZZ_CHECK(null_fd >= 0 && copy >= 0 && dup2(null_fd, fd) == fd);
    return copy;
}

static void put_back(int copy, int fd) {
    FUZZ_CHECK(dup2(copy, fd) == fd);
    close(copy);
}

static int file_of(const uint8_t *data, size_t size) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size &&
               lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static void check_lines(int fd) {
    static char text[1 << 16];
    uint64_t offset = 0;
    ssize_t n;
    char last = '\n';
    while ((n = pread(fd, text, sizeof(text), (off_t)offset)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            FUZZ_CHECK(text[i] == '\n' || (text[i] >= ' ' && text[i] <= '~'));
        last = text[n - 1];
        offset += (uint64_t)n;
    }
    FUZZ_CHECK(last == '\n');
}

static void run_dump(const uint8_t *data, size_t size, uint64_t from) {
    static struct dump d;
    char in_name[64], out_name[64];
    int fd = file_of(data, size), out = memfd_create("out", MFD_CLOEXEC);
    FUZZ_CHECK(out >= 0);
    (void)snprintf(in_name, sizeof(in_name), "/proc/self/fd/%d", fd);
    (void)snprintf(out_name, sizeof(out_name), "/proc/self/fd/%d", out);
    memset(&d, 0, offsetof(struct dump, lines.line));
    d.damages = 0;
    d.status = TOOL_OK;
    d.name = "fuzz";
    d.lines.count = UINT64_MAX;
    d.lines.from = from;
    d.lines.first_file = true;
    d.lines.out = tool_output_open(out_name, TOOL_OUTPUT_PLAIN);
    struct tool_input *in = tool_input_open(in_name);
    FUZZ_CHECK(d.lines.out != NULL && in != NULL);
    if (tool_ops_is_processed(in, in_name))
        dump_processed(&d, in, in_name);
    else
        dump_raw(&d, in, in_name);
    FUZZ_CHECK(dump_lines_close(&d.lines));
    check_lines(out);
    close(out);
    close(fd);
}

static void run_info(const uint8_t *data, size_t size) {
    static struct info_file f;
    static struct info_course course;
    struct tool_json j;
    struct tool_input *in = tool_input_from_fd(file_of(data, size), "fuzz");
    FUZZ_CHECK(in != NULL);
    memset(&f, 0, sizeof(f));
    f.name = "fuzz";
    f.want_live = true;
    memset(&course, 0, sizeof(course));
    f.course = &course;
    if (tool_ops_is_processed(in, NULL))
        info_read_processed(&f, in);
    else
        info_read_raw(&f, in, NULL);
    FUZZ_CHECK(f.kind != INFO_UNREADABLE || f.status == TOOL_FAILED);
    int copy = silence(STDOUT_FILENO);
    if (f.kind != INFO_UNREADABLE)
        info_print(&f, true, true);
    (void)fflush(stdout);
    put_back(copy, STDOUT_FILENO);
    FUZZ_CHECK(tool_json_open(&j, "/dev/null"));
    info_json(&j, &f);
    FUZZ_CHECK(tool_json_close(&j));
    info_free(&f);
}

static void run(const uint8_t *data, size_t size) {
    run_dump(data, size, 0);
    run_dump(data, size, size / 2);
    run_info(data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    (void)fflush(stdout);
    int copy = silence(STDERR_FILENO);
    fuzz_both(data, size, run);
    put_back(copy, STDERR_FILENO);
    return 0;
}
