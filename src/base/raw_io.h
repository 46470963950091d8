/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole reads and writes on descriptors: interrupted and short calls are
 * continued. No stdio. errno is the failed call's when false is returned, and
 * unchanged otherwise.
 */
#ifndef TCM_BASE_RAW_IO_H
#define TCM_BASE_RAW_IO_H

#include "base/compiler.h"

/* Writes all LENGTH bytes, or returns false with errno set. A descriptor in
   non-blocking mode is waited for. */
bool tcm_io_write_all(int fd, const void *data, size_t length);

/* Writes at least one of LENGTH bytes (not 0) if the descriptor takes any
   within TIMEOUT_NS. Returns how many, 0: none; -1: errno tells. A pipe never
   makes it wait longer, whatever the descriptor's mode. */
long tcm_io_write_some(int fd, const void *data, size_t length,
                       uint64_t timeout_ns);

/* Reads until LENGTH bytes or the end of the file; the count is stored in
 *GOT also on failure. */
bool tcm_io_read_full(int fd, void *data, size_t length, size_t *got);

/* Reads a small file (of /proc, say) into BUF and terminates it. Returns the
   length, or -1. */
long tcm_io_read_file(const char *path, char *buf, size_t cap);

#endif
