/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets between a recorded process and `malloc-trace ctl`.
 *
 * A connection is a UNIX socket of kind SOCK_SEQPACKET to an abstract address:
 * a zero byte, then "malloc-trace/", the process id in decimal, "/" and a
 * random number in 16 hexadecimal digits, so that no other process can take the
 * address first. A client finds it in /proc/net/unix and checks which process
 * listens there: any process may take other addresses of this form. One packet
 * goes each way. All numbers are little-endian.
 *
 *   request   offset  size
 *   magic        0      4   "MTC1"
 *   command      4      1   enum mtf_control_command
 *   zero         5      3
 *   text         8   rest   START: the output's name (none: that of the
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
 *                           u64 value; then name; then message
 *
 * Texts have no zero bytes. Lengths must agree with the packet's to the byte.
 * Unknown numbers are refused in requests and kept in replies.
 */
#ifndef TCM_TRACEFORMAT_CONTROL_PROTOCOL_H
#define TCM_TRACEFORMAT_CONTROL_PROTOCOL_H

#include "base/compiler.h"
#include "traceformat/trace_event.h"

/* Longest text of a request: a path with its terminator. */
#define MTF_CONTROL_TEXT_MAX    4096u
#define MTF_CONTROL_REQUEST_MAX (8u + MTF_CONTROL_TEXT_MAX)
#define MTF_CONTROL_MESSAGE_MAX 255u
#define MTF_CONTROL_ACCOUNTS    32u
#define MTF_CONTROL_REPLY_MAX                                                  \
    (12u + MTF_ACCOUNT_BYTES * MTF_CONTROL_ACCOUNTS + MTF_CONTROL_TEXT_MAX +   \
     MTF_CONTROL_MESSAGE_MAX)

enum mtf_control_command {
    MTF_CONTROL_START = 1,
    MTF_CONTROL_STOP = 2,
    MTF_CONTROL_FLUSH = 3,
    MTF_CONTROL_STATUS = 4,
    MTF_CONTROL_MARK = 5
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
    char text[MTF_CONTROL_TEXT_MAX + 1]; /* "": none */
};

struct mtf_control_reply {
    uint8_t result;
    uint8_t state;
    unsigned account_count;
    struct mtf_account_value account[MTF_CONTROL_ACCOUNTS];
    char name[MTF_CONTROL_TEXT_MAX + 1]; /* "": none */
    char message[MTF_CONTROL_MESSAGE_MAX + 1];
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
