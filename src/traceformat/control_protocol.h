/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets between a recorded process and `malloc-trace ctl`.
 *
 * A connection is a UNIX socket of kind SOCK_SEQPACKET to an abstract address:
 * a zero byte, then "malloc-trace/", the process id in decimal, "/" and a
 * random number in 16 hexadecimal digits, so that no other process can take the
 * address first. A client finds it in /proc/net/unix and checks which process
 * listens there, and which user it was then: any process may take other
 * addresses of this form. One packet goes each way; a client that the process
 * refuses may get its answer before it has sent its request. All numbers are
 * little-endian.
 *
 *   request   offset  size
 *   magic        0      4   "MTC1"
 *   command      4      1   enum mtf_control_command
 *   sites        5      1   START: length of the mode of call sites
 *   zero         6      2
 *                8          that mode (none: as the process was told before),
 *                           then the text
 *   text             rest   START: the output's name (none: that of the
 *                           environment); MARK: its text
 *
 *   reply     offset  size
 *   magic        0      4   "MTR1"
 *   result       4      1   enum mtf_control_result
 *   state        5      1   enum mtf_control_state
 *   accounts     6      2   their count
 *   name         8      2   length of the output's name
 *   message     10      2   its length
 *               12          accounts, each u16 field (enum mtf_account) and
 *                           u64 value; then name; then message; then the
 *                           memory table, in the answer to MEMORY
 *
 *   memory table
 *   totals       0      2   their count
 *   columns      2      2   numbers of a row
 *   rows         4      2   their count
 *   zero         6      2
 *                8          totals, then rows: u64 each
 *
 * The order of totals is that of MTF_MEMORY_TOTALS, that of columns that of
 * MTF_MEMORY_COLUMNS. Newer versions may have more of both at the end: a reader
 * passes over them, and takes those that are missing for 0.
 *
 * Texts have no zero bytes. Lengths must agree with the packet's to the byte.
 * Unknown numbers are refused in requests and kept in replies.
 */
#ifndef TCM_TRACEFORMAT_CONTROL_PROTOCOL_H
#define TCM_TRACEFORMAT_CONTROL_PROTOCOL_H

#include "base/compiler.h"
#include "traceformat/trace_event.h"

/* Longest text of a request: a path with its terminator. */
#define MTF_CONTROL_TEXT_MAX  4096u
#define MTF_CONTROL_SITES_MAX 31u
#define MTF_CONTROL_REQUEST_MAX                                                \
    (8u + MTF_CONTROL_SITES_MAX + MTF_CONTROL_TEXT_MAX)
#define MTF_CONTROL_MESSAGE_MAX 255u
#define MTF_CONTROL_ACCOUNTS    32u
#define MTF_CONTROL_REPLY_MAX                                                  \
    (12u + MTF_ACCOUNT_BYTES * MTF_CONTROL_ACCOUNTS + MTF_CONTROL_TEXT_MAX +   \
     MTF_CONTROL_MESSAGE_MAX + MTF_MEMORY_MAX)

enum mtf_control_command {
    MTF_CONTROL_START = 1,
    MTF_CONTROL_STOP = 2,
    MTF_CONTROL_FLUSH = 3,
    MTF_CONTROL_STATUS = 4,
    MTF_CONTROL_MARK = 5,
    MTF_CONTROL_MEMORY = 6
};

enum mtf_control_result {
    MTF_CONTROL_DONE = 0,
    MTF_CONTROL_REFUSED = 1, /* MESSAGE says why */
    MTF_CONTROL_BAD = 2      /* unknown request */
};

enum mtf_control_state {
    MTF_CONTROL_OFF = 0,
    MTF_CONTROL_WAITING = 1, /* recording begins with the next event */
    MTF_CONTROL_RECORDING = 2,
    MTF_CONTROL_ENDED = 3, /* the program is at its end */
    MTF_CONTROL_FAILED = 4
};

struct mtf_control_request {
    enum mtf_control_command command;
    char sites[MTF_CONTROL_SITES_MAX + 1]; /* "": none */
    char text[MTF_CONTROL_TEXT_MAX + 1];   /* "": none */
};

/*
 * The memory table: core/heap_memory.h says what the numbers mean. X(name):
 * names are those of the JSON document of malloc-trace ctl.
 */
#define MTF_MEMORY_TOTALS(X)                                                   \
    X(page_bytes)                                                              \
    X(huge_known) /* 0 or 1; 1: the kernel told pages by PAGEMAP_SCAN */       \
    X(resident_bytes)                                                          \
    X(live_pages)                                                              \
    X(partly_pages)                                                            \
    X(empty_pages)                                                             \
    X(never_pages)                                                             \
    X(usable_bytes)                                                            \
    X(free_bytes)                                                              \
    X(empty_bytes)                                                             \
    X(empty_run_bytes)                                                         \
    X(never_bytes)                                                             \
    X(reserve_bytes)                                                           \
    X(record_bytes)                                                            \
    X(map_bytes)                                                               \
    X(arena_bytes)                                                             \
    X(huge_bytes)                                                              \
    X(huge_usable_bytes)                                                       \
    X(absent_bytes)                                                            \
    X(absent_free_bytes)                                                       \
    X(returned_bytes)                                                          \
    X(reserved_bytes)
/* Columns of a row, which is a size class; size 0: large blocks. */
#define MTF_MEMORY_COLUMNS(X)                                                  \
    X(size)                                                                    \
    X(spans)                                                                   \
    X(blocks)                                                                  \
    X(thread_cache)                                                            \
    X(transfer_cache)                                                          \
    X(central_list)                                                            \
    X(usable_bytes)                                                            \
    X(free_bytes)

enum mtf_memory_total {
#define X(name) MTF_MEMORY_##name,
    MTF_MEMORY_TOTALS(X)
#undef X
        MTF_MEMORY_TOTAL_COUNT
};
enum mtf_memory_column {
#define X(name) MTF_COLUMN_##name,
    MTF_MEMORY_COLUMNS(X)
#undef X
        MTF_COLUMN_COUNT
};

/* Room for what newer versions may add. */
#define MTF_MEMORY_TOTAL_MAX 64u
#define MTF_MEMORY_CELL_MAX  2048u
#define MTF_MEMORY_HEAD      8u
#define MTF_MEMORY_MAX                                                         \
    (MTF_MEMORY_HEAD + 8u * (MTF_MEMORY_TOTAL_MAX + MTF_MEMORY_CELL_MAX))
struct mtf_memory {
    unsigned totals, columns, rows; /* columns times rows fit in CELL */
    uint64_t total[MTF_MEMORY_TOTAL_MAX];
    uint64_t cell[MTF_MEMORY_CELL_MAX]; /* row by row */
};

static inline uint64_t mtf_memory_total(const struct mtf_memory *m,
                                        enum mtf_memory_total which) {
    return which < m->totals ? m->total[which] : 0;
}

static inline uint64_t mtf_memory_cell(const struct mtf_memory *m, unsigned row,
                                       enum mtf_memory_column column) {
    return row < m->rows && column < m->columns
               ? m->cell[row * m->columns + column]
               : 0;
}

struct mtf_control_reply {
    uint8_t result;
    uint8_t state;
    unsigned account_count;
    struct mtf_account_value account[MTF_CONTROL_ACCOUNTS];
    char name[MTF_CONTROL_TEXT_MAX + 1]; /* "": none */
    char message[MTF_CONTROL_MESSAGE_MAX + 1];
    bool has_memory;
    struct mtf_memory memory;
};

/* Writes a packet to OUT, which has MTF_CONTROL_REQUEST_MAX or
   MTF_CONTROL_REPLY_MAX bytes; returns its length. Texts that are too long are
   cut. */
size_t mtf_control_put_request(uint8_t *out,
                               const struct mtf_control_request *r);
size_t mtf_control_put_reply(uint8_t *out, const struct mtf_control_reply *r);

/* Parses the N bytes at P. false: they are no such packet. */
bool mtf_control_parse_request(const uint8_t *p, size_t n,
                               struct mtf_control_request *r);
bool mtf_control_parse_reply(const uint8_t *p, size_t n,
                             struct mtf_control_reply *r);

/* Longest address, with the zero byte before it and one after it. */
#define MTF_CONTROL_ADDRESS_MAX 48u
#define MTF_CONTROL_DIGITS      16u /* digits of the random number */

/* Writes the address for process PID to PATH, the path of a socket address
   (MTF_CONTROL_ADDRESS_MAX bytes); returns the number of bytes that belong to
   it. */
size_t mtf_control_address(char *path, uint32_t pid, uint64_t random);

#endif
