/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/tool_output.h"

#include "base/raw_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)256 << 10)

struct tool_output {
    int fd;
    int error;
    char *name;
    uint64_t bytes; /* taken from the caller */
    size_t used;
    uint8_t buffer[BUFFER_BYTES];
};

static bool is_stdout(const char *name) {
    return name == NULL || strcmp(name, "-") == 0 ||
           strcmp(name, "/dev/stdout") == 0;
}

struct tool_output *tool_output_open(const char *name) {
    struct tool_output *out = malloc(sizeof(*out));
    if (out == NULL)
        return NULL;
    out->error = 0;
    out->bytes = 0;
    out->used = 0;
    out->fd = STDOUT_FILENO;
    out->name = strdup(is_stdout(name) ? "standard output" : name);
    if (out->name == NULL)
        goto failed;
    /* O_TRUNC does nothing to FIFOs and devices. */
    if (!is_stdout(name))
        out->fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out->fd >= 0)
        return out;
failed:;
    int error = errno;
    free(out->name);
    free(out);
    errno = error;
    return NULL;
}

static bool put(struct tool_output *out, const void *data, size_t n) {
    if (out->error == 0 && n != 0 && !tcm_io_write_all(out->fd, data, n))
        out->error = errno;
    errno = out->error;
    return out->error == 0;
}

bool tool_output_flush(struct tool_output *out) {
    size_t n = out->used;
    out->used = 0;
    return put(out, out->buffer, n);
}

bool tool_output_write(struct tool_output *out, const void *data, size_t n) {
    out->bytes += n;
    if (n > BUFFER_BYTES - out->used && !tool_output_flush(out))
        return false;
    if (n > BUFFER_BYTES)
        return put(out, data, n);
    memcpy(out->buffer + out->used, data, n);
    out->used += n;
    errno = out->error;
    return out->error == 0;
}

bool tool_output_close(struct tool_output *out) {
    (void)tool_output_flush(out);
    /* Some file systems tell of a full disk only now. */
    if (close(out->fd) != 0 && out->error == 0)
        out->error = errno;
    int error = out->error;
    free(out->name);
    free(out);
    errno = error;
    return error == 0;
}

const char *tool_output_name(const struct tool_output *out) {
    return out->name;
}

uint64_t tool_output_bytes(const struct tool_output *out) {
    return out->bytes;
}

int tool_output_error(const struct tool_output *out) {
    return out->error;
}
