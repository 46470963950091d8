/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/serve_request.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* --- Addresses ------------------------------------------------------------ */

/* Digits alone, at most five of them. */
static bool parse_port(const char *text, uint16_t *port) {
    unsigned n = 0, digits = 0;
    for (; *text >= '0' && *text <= '9' && digits < 5; text++, digits++)
        n = n * 10 + (unsigned)(*text - '0');
    *port = (uint16_t)n;
    return *text == '\0' && digits != 0 && n <= UINT16_MAX;
}

/* Takes TEXT, "HOST:PORT" or "[HOST]:PORT", apart; *PORT is NULL if there is
   none. False: it is too long, or no such text. */
static bool split(const char *text, char host[64], const char **port) {
    const char *end;
    if (*text == '[') {
        end = strchr(++text, ']');
        if (end == NULL || (end[1] != ':' && end[1] != '\0'))
            return false;
        *port = end[1] == ':' ? end + 2 : NULL;
    } else {
        end = strchr(text, ':');
        *port = end == NULL ? NULL : end + 1;
        end = end == NULL ? text + strlen(text) : end;
    }
    size_t n = (size_t)(end - text);
    if (n >= 64)
        return false;
    memcpy(host, text, n);
    host[n] = '\0';
    return true;
}

static bool is_ipv4(const char *host, bool *local) {
    struct in_addr a;
    if (inet_pton(AF_INET, host, &a) != 1)
        return false;
    *local = ntohl(a.s_addr) >> 24 == 127;
    return true;
}

static bool is_ipv6(const char *host, bool *local) {
    struct in6_addr a;
    if (inet_pton(AF_INET6, host, &a) != 1)
        return false;
    *local = memcmp(&a, &in6addr_loopback, sizeof(a)) == 0;
    return true;
}

bool serve_parse_address(const char *text, struct serve_address *a) {
    const char *port;
    *a = (struct serve_address){0};
    if (strchr(text, '/') != NULL) {
        a->is_socket = a->is_local = true;
        a->path = text;
        return true;
    }
    if (!split(text, a->host, &port) || port == NULL ||
        !parse_port(port, &a->port))
        return false;
    if (a->host[0] == '\0' && text[0] == ':')
        memcpy(a->host, "127.0.0.1", sizeof("127.0.0.1"));
    return text[0] == '[' ? is_ipv6(a->host, &a->is_local)
                          : is_ipv4(a->host, &a->is_local);
}

/* --- Requests ------------------------------------------------------------- */

/* "localhost", or an address in digits, and our port: no name that somebody
   else could have made to mean this machine. */
static bool is_our_host(const char *text, uint16_t port) {
    char host[64];
    const char *said;
    uint16_t number = 80;
    bool local;
    if (!split(text, host, &said) ||
        (said != NULL && !parse_port(said, &number)))
        return false;
    if (port != 0 && number != port)
        return false;
    return text[0] == '['
               ? is_ipv6(host, &local)
               : strcasecmp(host, "localhost") == 0 || is_ipv4(host, &local);
}

/* Whether LIST, of If-None-Match, has TAG, be it as a weak one. */
static bool has_tag(const char *list, const char *tag) {
    size_t n = strlen(tag);
    for (const char *p = list; (p = strstr(p, tag)) != NULL; p += n)
        if (p[n] == '\0' || p[n] == ',' || p[n] == ' ')
            return true;
    return false;
}

/* What PATH has behind FOLDER; NULL: it is elsewhere. How long that takes tells
   nothing of FOLDER but its length. */
static const char *name_in(const char *path, const char *folder) {
    size_t n = strlen(folder);
    unsigned differ = 0;
    if (strlen(path) < n)
        return NULL;
    for (size_t i = 0; i < n; i++)
        differ |= (unsigned)(path[i] ^ folder[i]);
    return differ == 0 ? path + n : NULL;
}

enum serve_what serve_judge(const struct serve_request *r, const char *folder,
                            const char *tag, uint16_t port) {
    if (r->host == NULL || !is_our_host(r->host, port))
        return SERVE_OTHER_HOST;
    if (strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0)
        return SERVE_NO_METHOD;
    if (r->transfer_encoding != NULL ||
        (r->content_length != NULL && strcmp(r->content_length, "0") != 0))
        return SERVE_NO_BODY;
    const char *name = name_in(r->path, folder);
    if (name == NULL || (*name != '\0' && strcmp(name, "page.js") != 0))
        return SERVE_NOT_FOUND;
    if (*name != '\0')
        return SERVE_SCRIPT;
    return r->if_none_match != NULL && has_tag(r->if_none_match, tag)
               ? SERVE_SAME
               : SERVE_PAGE;
}
