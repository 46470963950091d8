/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole reads and writes on descriptors: interrupted and short calls are
 * continued. No stdio. A failure sets errno, success leaves it unchanged.
 */
#ifndef TCM_BASE_RAW_IO_H
#define TCM_BASE_RAW_IO_H

#include "base/compiler.h"

/* Writes all LENGTH bytes; waits for a descriptor in non-blocking mode. */
bool tcm_io_write_all(int fd, const void *data, size_t length);

/* Writes at least one of LENGTH bytes (not 0) if the descriptor accepts any
   within TIMEOUT_NS. Returns how many, or -1 on failure. On a pipe it never
   waits longer, even if the descriptor is in blocking mode. */
long tcm_io_write_some(int fd, const void *data, size_t length,
                       uint64_t timeout_ns);

/* Reads until LENGTH bytes or the end of the file. Also on failure, GOT is set
   to the number of bytes read. */
bool tcm_io_read_full(int fd, void *data, size_t length, size_t *got);

/* Reads a small file, for instance of /proc, into BUF and terminates it.
   Returns the length, or -1 with errno unchanged. */
long tcm_io_read_file(const char *path, char *buf, size_t cap);

#endif
