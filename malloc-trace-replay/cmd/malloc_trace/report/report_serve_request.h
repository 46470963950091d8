/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses and requests of the live page: the value of --serve, its listening
 * socket, and the answer to a request.
 *
 * Only host names that no other site can point here are accepted: localhost and
 * addresses in digits. A page of another site that rebinds its own name to this
 * machine still sends that name.
 *
 * At an address every user of the machine can send requests, so the page lies
 * in a folder with a secret name, the token, which only the user is told.
 *
 * Threads: the main thread for sockets, any for the rest.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_SERVE_REQUEST_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_SERVE_REQUEST_H

#include "base/compiler.h"

/* --- Addresses ------------------------------------------------------------ */

struct report_serve_address {
    bool is_socket; /* PATH is a UNIX socket's; else HOST and PORT count */
    bool is_local;  /* no other machine reaches it */
    char host[64];  /* an address in digits, without brackets */
    uint16_t port;  /* 0: any free one */
    const char *path;
};

/* Parses "ADDRESS:PORT", ":PORT" (of 127.0.0.1), "[ADDRESS]:PORT", or a path
   with "/" in it. False: none of these. */
bool report_serve_parse_address(const char *text,
                                struct report_serve_address *a);

/* Opens a listening socket, and sets A's port. -1: a message was printed. A
   UNIX socket has mode 0600 from the moment that it has a name, and replaces
   one on which nobody listens. */
int report_serve_listen(struct report_serve_address *a);
/* Removes the name of a UNIX socket. */
void report_serve_unlisten(const struct report_serve_address *a);

/* --- Requests ------------------------------------------------------------- */

enum report_serve_answer {
    REPORT_SERVE_PAGE,
    REPORT_SERVE_SCRIPT,
    REPORT_SERVE_SAME,       /* 304: the browser has this page */
    REPORT_SERVE_NOT_FOUND,  /* 404 */
    REPORT_SERVE_NO_METHOD,  /* 405: other than GET and HEAD */
    REPORT_SERVE_OTHER_HOST, /* 421: a host name that is not accepted */
    REPORT_SERVE_NO_BODY     /* 413: the request has a body */
};

/* Fields of a request; NULL: missing. */
struct report_serve_request {
    const char *method, *path; /* never NULL; PATH without the query */
    const char *host;
    const char *if_none_match;
    const char *content_length, *transfer_encoding;
};

/* FOLDER: of the page, ends in "/". TAG: of the current page, with its quotes.
   PORT: of the server; 0: a UNIX socket. */
enum report_serve_answer
report_serve_decide(const struct report_serve_request *r, const char *folder,
                    const char *tag, uint16_t port);

#endif
