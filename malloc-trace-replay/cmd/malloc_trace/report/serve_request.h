/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is asked of the live page, and whether it is given: the parts of a
 * request, and of the option --serve, that this program reads itself.
 *
 * Only names that no other site can have made point here are taken for ours: a
 * page of another site that rebinds its own name to this machine still says
 * that name.
 *
 * At an address every user of the machine can ask: the page lies in a folder
 * whose name, the token, only the user is told.
 *
 * Threads: any.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_SERVE_REQUEST_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_SERVE_REQUEST_H

#include "base/compiler.h"

/* --- Where ---------------------------------------------------------------- */

struct serve_address {
    bool is_socket; /* PATH is a UNIX socket's; else: */
    bool is_local;  /* no other machine reaches it */
    char host[64];  /* an address in digits, without brackets */
    uint16_t port;  /* 0: any that is free */
    const char *path;
};

/* "ADDRESS:PORT", ":PORT" (of 127.0.0.1), "[ADDRESS]:PORT", or a path with "/"
   in it. False: none of these. */
bool serve_parse_address(const char *text, struct serve_address *a);

/* --- Requests ------------------------------------------------------------- */

enum serve_what {
    SERVE_PAGE,
    SERVE_SCRIPT,
    SERVE_SAME,       /* 304: the page that the reader has */
    SERVE_NOT_FOUND,  /* 404 */
    SERVE_NO_METHOD,  /* 405: other than GET and HEAD */
    SERVE_OTHER_HOST, /* 421: a name that is not ours */
    SERVE_NO_BODY     /* 413: there is one */
};

struct serve_request {
    const char *method, *path; /* PATH without the query */
    const char *host;          /* NULL: not said, and so on */
    const char *if_none_match;
    const char *content_length, *transfer_encoding;
};

/* FOLDER: of the page, which ends in "/". TAG: of the page as it is, with its
   quotes. PORT: ours; 0: a socket. */
enum serve_what serve_judge(const struct serve_request *r, const char *folder,
                            const char *tag, uint16_t port);

#endif
