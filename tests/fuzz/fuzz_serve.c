/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a request of the live page's readers, and as --serve's address:
 * lines of method, path, host, If-None-Match, Content-Length, Transfer-Encoding
 * and address; an empty line is a field that is not there.
 */
#include "tests/fuzz/fuzz.h"

#include "cmd/malloc_trace/report/report_serve_request.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct fuzz_target fuzz_target = {
    .corpus = "serve", .stride = 1, .runs = 4000};

#define TAG  "\"4711-12\""
#define PORT 8080
/* of the page */
#define FOLDER "/0123abcd/"

enum { FIELDS = 7 };

/* HOST is an address in digits or "localhost", by another way than the
   program's: there is no letter that a name of the net would need. */
static void check_host(const char *host) {
    char text[80];
    size_t n;
    if (host[0] == '[') {
        FUZZ_CHECK(strspn(host + 1, "0123456789abcdefABCDEF:.") ==
                   strcspn(host + 1, "]"));
        return;
    }
    n = strcspn(host, ":");
    FUZZ_CHECK(n < sizeof(text));
    memcpy(text, host, n);
    text[n] = '\0';
    FUZZ_CHECK(strcasecmp(text, "localhost") == 0 ||
               strspn(text, "0123456789.") == n);
    FUZZ_CHECK(host[n] == '\0' || strcmp(host + n, ":8080") == 0 ||
               strtoul(host + n + 1, NULL, 10) == PORT);
}

static void check_request(char *const field[FIELDS]) {
    struct report_serve_request r = {.method = field[0] == NULL ? "" : field[0],
                                     .path = field[1] == NULL ? "" : field[1],
                                     .host = field[2],
                                     .if_none_match = field[3],
                                     .content_length = field[4],
                                     .transfer_encoding = field[5]};
    enum report_serve_answer open = report_serve_decide(&r, "/", TAG, PORT);
    enum report_serve_answer what = report_serve_decide(&r, FOLDER, TAG, PORT);
    FUZZ_CHECK(open == what || open == REPORT_SERVE_NOT_FOUND ||
               what == REPORT_SERVE_NOT_FOUND);
    bool given = what == REPORT_SERVE_PAGE || what == REPORT_SERVE_SAME ||
                 what == REPORT_SERVE_SCRIPT;
    FUZZ_CHECK(what <= REPORT_SERVE_NO_BODY);
    if (!given)
        return;
    FUZZ_CHECK(strcmp(r.method, "GET") == 0 || strcmp(r.method, "HEAD") == 0);
    FUZZ_CHECK(strcmp(r.path, what == REPORT_SERVE_SCRIPT ? FOLDER "page.js"
                                                          : FOLDER) == 0);
    FUZZ_CHECK(r.host != NULL && r.transfer_encoding == NULL);
    FUZZ_CHECK(r.content_length == NULL || atoi(r.content_length) == 0);
    FUZZ_CHECK(what != REPORT_SERVE_SAME ||
               strstr(r.if_none_match, TAG) != NULL);
    check_host(r.host);
}

static void check_address(const char *text) {
    struct report_serve_address a;
    struct in6_addr six;
    struct in_addr four;
    if (!report_serve_parse_address(text, &a))
        return;
    FUZZ_CHECK(a.is_socket == (strchr(text, '/') != NULL));
    if (a.is_socket) {
        FUZZ_CHECK(a.is_local && a.path == text);
        return;
    }
    bool is_four = inet_pton(AF_INET, a.host, &four) == 1;
    FUZZ_CHECK(is_four || inet_pton(AF_INET6, a.host, &six) == 1);
    FUZZ_CHECK(a.is_local == (is_four ? strncmp(a.host, "127.", 4) == 0
                                      : IN6_IS_ADDR_LOOPBACK(&six) != 0));
}

static void run(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1), *field[FIELDS] = {NULL}, *at = text;
    FUZZ_CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    for (int i = 0; i < FIELDS && at != NULL; i++) {
        char *line = at, *end = strchr(at, '\n');
        at = end == NULL ? NULL : end + 1;
        if (end != NULL)
            *end = '\0';
        field[i] = *line == '\0' ? NULL : line;
    }
    check_request(field);
    if (field[6] != NULL)
        check_address(field[6]);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    run(data, size);
    return 0;
}
