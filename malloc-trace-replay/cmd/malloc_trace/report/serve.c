/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/serve.h"

#include "common/main.h"

#ifndef TCM_HAVE_MICROHTTPD
#define TCM_HAVE_MICROHTTPD 0
#endif

#if TCM_HAVE_MICROHTTPD
#include "base/bits.h"
#include "cmd/malloc_trace/report/report_page.h"
#include "cmd/malloc_trace/report/serve_socket.h"
#include "common/child.h"
#include "common/collections.h"
#include "common/stop.h"
#include "common/text.h"
#include "pages/page.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS 32u
#define TIMEOUT_S   30u
/* Places that are free when new connections come. */
#define FREE_PLACES 8u
/* Bytes of the page's folder, in hex digits, and two slashes. */
#define TOKEN_BYTES 16u
#define FOLDER_SIZE (2 * TOKEN_BYTES + 3)
/* Of a request's head. */
#define REQUEST_MAX ((size_t)16 << 10)

/* The page is made again at the earliest after so much, and after so many times
   what making it took, while somebody has looked within the last while. */
#define PAUSE_NS    1000000000u
#define PAUSE_TIMES 3u
#define LOOK_NS     20000000000u

struct page {
    char *bytes;
    size_t count, room;
};

/* A connection, until it is closed. */
struct place {
    int fd;
    bool taken;
    bool known;     /* the page was given to it */
    bool gone;      /* it was shut down */
    uint64_t order; /* in which they came */
};

struct server {
    const struct serve *what;
    char folder[FOLDER_SIZE]; /* of the page: "/TOKEN/", or "/" */
    struct place place[CONNECTIONS];
    uint64_t connections; /* so far */
    struct serve_address address;
    struct MHD_Daemon *daemon;
    struct MHD_Response *page, *script, *same, *refusal[SERVE_NO_BODY + 1];
    char tag[64];
    uint64_t number;      /* of the page */
    uint64_t looked, due; /* ns */

    struct tool_child child; /* that reads the trace */
    int socket;              /* to it */
    uint64_t asked;          /* for a page, ns; 0: not */
    uint64_t length;         /* of the page that comes */
    size_t length_got;       /* bytes of that */
    struct page next;
    bool told; /* what is wrong with the trace was said once */
};

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- Responses ------------------------------------------------------------ */

static const struct {
    unsigned status;
    const char *text;
} refusals[] = {
    [SERVE_NOT_FOUND] = {404, "The page is at the address that report --serve "
                              "printed.\n"},
    [SERVE_NO_METHOD] = {405, "Nothing can be changed here.\n"},
    [SERVE_OTHER_HOST] = {421, "Ask by the address, or as localhost.\n"},
    [SERVE_NO_BODY] = {413, "Send no body.\n"},
};

static bool add_headers(struct MHD_Response *r, const char *type) {
    static const char *const headers[][2] = {
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; "
         "connect-src 'self'; base-uri 'none'; form-action 'none'; "
         "frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cache-Control", "no-cache"},
    };
    bool good = r != NULL && MHD_add_response_header(r, "Content-Type", type);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(headers) && good; i++)
        good = MHD_add_response_header(r, headers[i][0], headers[i][1]);
    return good;
}

static struct MHD_Response *text_response(const char *text, const char *type) {
    /* The text lives on. */
    union {
        const char *in;
        void *out;
    } bytes = {.in = text};
    struct MHD_Response *r = MHD_create_response_from_buffer(
        strlen(text), bytes.out, MHD_RESPMEM_PERSISTENT);
    return add_headers(r, type) ? r : NULL;
}

static bool make_responses(struct server *s) {
    static char *script; /* until the end */
    if (asprintf(&script, "%s%s%s", report_page_js, page_js, report_live_js) <
        0)
        return false;
    s->script = text_response(script, "text/javascript; charset=utf-8");
    s->same = text_response("", "text/html; charset=utf-8");
    bool good = s->script != NULL && s->same != NULL;
    for (size_t i = SERVE_NOT_FOUND; i <= SERVE_NO_BODY && good; i++) {
        s->refusal[i] =
            text_response(refusals[i].text, "text/plain; charset=utf-8");
        good = s->refusal[i] != NULL;
    }
    return good && MHD_add_response_header(s->refusal[SERVE_NO_METHOD], "Allow",
                                           "GET, HEAD");
}

/* The next page takes the place of the last. Readers of that still have it. */
static bool take_page(struct server *s) {
    struct MHD_Response *r = MHD_create_response_from_buffer(
        s->next.count, s->next.bytes, MHD_RESPMEM_MUST_FREE);
    if (r == NULL)
        return false;
    s->next = (struct page){0};
    snprintf(s->tag, sizeof(s->tag), "\"%d-%" PRIu64 "\"", (int)getpid(),
             ++s->number);
    if (!add_headers(r, "text/html; charset=utf-8") ||
        !MHD_add_response_header(r, "ETag", s->tag)) {
        MHD_destroy_response(r);
        return false;
    }
    if (s->page != NULL)
        MHD_destroy_response(s->page);
    s->page = r;
    return true;
}

/* --- Connections ---------------------------------------------------------- */

/* Makes room. Connections that were given nothing may be those of one who keeps
   the places from others: the oldest of them ends. */
static void end_oldest(struct server *s) {
    struct place *oldest = NULL;
    for (size_t i = 0; i < CONNECTIONS; i++) {
        struct place *p = &s->place[i];
        if (p->taken && !p->known && !p->gone &&
            (oldest == NULL || p->order < oldest->order))
            oldest = p;
    }
    if (oldest == NULL)
        return;
    /* the daemon sees an end, and closes it */
    (void)shutdown(oldest->fd, SHUT_RDWR);
    oldest->gone = true;
}

static void take_place(struct server *s, struct MHD_Connection *c,
                       void **context) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    unsigned stay = 0;
    *context = NULL;
    for (size_t i = 0; i < CONNECTIONS; i++) {
        struct place *p = &s->place[i];
        stay += p->taken && !p->gone;
        if (p->taken || *context != NULL || info == NULL)
            continue;
        *p = (struct place){
            .fd = info->connect_fd, .taken = true, .order = s->connections++};
        *context = p;
        stay++;
    }
    if (stay > CONNECTIONS - FREE_PLACES)
        end_oldest(s);
}

static void notice(void *ctx, struct MHD_Connection *c, void **context,
                   enum MHD_ConnectionNotificationCode code) {
    struct place *p = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        take_place(ctx, c, context);
    else if (p != NULL)
        p->taken = false;
}

/* The page is given to C. */
static void know(struct MHD_Connection *c) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct place *p = info == NULL ? NULL : info->socket_context;
    if (p != NULL)
        p->known = true;
}

static enum MHD_Result answer(void *ctx, struct MHD_Connection *c,
                              const char *url, const char *method,
                              const char *version, const char *upload,
                              size_t *upload_size, void **of_request) {
    struct server *s = ctx;
    /* The first call comes with the head, and is answered: no body is read. */
    (void)version, (void)upload, (void)upload_size, (void)of_request;
    struct serve_request r = {
        .method = method,
        .path = url,
        .host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host"),
        .if_none_match =
            MHD_lookup_connection_value(c, MHD_HEADER_KIND, "If-None-Match"),
        .content_length =
            MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length"),
        .transfer_encoding = MHD_lookup_connection_value(c, MHD_HEADER_KIND,
                                                         "Transfer-Encoding")};
    enum serve_what what = serve_judge(&r, s->folder, s->tag, s->address.port);
    if (what == SERVE_PAGE || what == SERVE_SAME || what == SERVE_SCRIPT)
        know(c);
    switch (what) {
    case SERVE_PAGE:
        s->looked = now_ns();
        return MHD_queue_response(c, MHD_HTTP_OK, s->page);
    case SERVE_SAME:
        s->looked = now_ns();
        return MHD_queue_response(c, MHD_HTTP_NOT_MODIFIED, s->same);
    case SERVE_SCRIPT:
        return MHD_queue_response(c, MHD_HTTP_OK, s->script);
    default:
        return MHD_queue_response(c, refusals[what].status, s->refusal[what]);
    }
}

/* --- The child that reads the trace --------------------------------------- */

struct child_part {
    const struct server *server;
    int ends[2]; /* the server's, the child's */
};

static int be_child(void *ctx) {
    const struct child_part *part = ctx;
    close(part->ends[0]);
    return serve_be_reader(part->server->what, part->ends[1],
                           part->server->told);
}

static bool start_child(struct server *s) {
    struct child_part part = {.server = s};
    int *ends = part.ends;
    /* A terminal's ^C is for the server, which ends the child. */
    struct tool_child_spec what = {.body = be_child,
                                   .ctx = &part,
                                   .dies_with_parent = true,
                                   .own_group = true};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    bool started = tool_child_start(&s->child, &what) == 0;
    close(ends[1]);
    if (!started) {
        close(ends[0]);
        s->child.pid = 0;
        return false;
    }
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    s->socket = ends[0];
    return true;
}

/* Asks for a page. */
static bool ask(struct server *s) {
    if (s->child.pid == 0 && !start_child(s))
        return false;
    /* Of one that is about to end, the end will be seen. */
    (void)send(s->socket, "", 1, MSG_NOSIGNAL);
    s->asked = now_ns();
    s->length_got = s->next.count = 0;
    return true;
}

static void end_wait(struct server *s) {
    if (s->asked == 0)
        return;
    uint64_t now = now_ns();
    s->due = now + tcm_max_u64(PAUSE_NS, PAUSE_TIMES * (now - s->asked));
    s->asked = 0;
    s->told = true;
}

static void end_child(struct server *s, bool by_force) {
    if (by_force)
        tool_child_kill(&s->child);
    tool_child_wait(&s->child, 0, NULL);
    close(s->socket);
    end_wait(s);
}

/* Where the next bytes of the answer go; *N: how many. NULL: no memory, or it
   has a wrong length. */
static void *next_bytes(struct server *s, size_t *n) {
    *n = sizeof(s->length) - s->length_got;
    if (*n != 0)
        return (uint8_t *)&s->length + s->length_got;
    if (s->length == 0 || s->length > SERVE_PAGE_MAX ||
        !tool_array_reserve(&s->next.bytes, &s->next.room, s->length, 1))
        return NULL;
    *n = s->length - s->next.count;
    return s->next.bytes + s->next.count;
}

/* What the child has written; the page is taken when it is whole. */
static void read_child(struct server *s) {
    for (;;) {
        size_t n;
        void *to = next_bytes(s, &n);
        if (to == NULL) {
            end_child(s, true);
            return;
        }
        ssize_t got = read(s->socket, to, n);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            end_child(s, false);
            return;
        }
        if (s->length_got < sizeof(s->length)) {
            s->length_got += (size_t)got;
        } else if ((s->next.count += (size_t)got) == s->length) {
            (void)take_page(s);
            s->length_got = s->next.count = 0;
            end_wait(s);
        }
    }
}

/* --- The loop ------------------------------------------------------------- */

/* When there is no page yet, nothing else is waited for. */
static void wait_for_some(struct server *s, bool want_page) {
    struct pollfd on[2] = {{.fd = -1}, {.fd = -1}};
    MHD_UNSIGNED_LONG_LONG timeout;
    int ms = 1000;
    if (s->daemon != NULL) {
        const union MHD_DaemonInfo *info =
            MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
        on[0] = (struct pollfd){.fd = info->epoll_fd, .events = POLLIN};
        if (MHD_get_timeout(s->daemon, &timeout) == MHD_YES && timeout < 1000)
            ms = (int)timeout;
    }
    if (s->child.pid != 0)
        on[1] = (struct pollfd){.fd = s->socket, .events = POLLIN};
    uint64_t now = now_ns();
    if (want_page && s->due > now)
        ms = (int)tcm_min_u64((uint64_t)ms, (s->due - now) / 1000000 + 1);
    (void)poll(on, 2, ms);
    if (s->daemon != NULL)
        (void)MHD_run(s->daemon);
    if (s->child.pid != 0 && on[1].revents != 0)
        read_child(s);
}

static bool first_page(struct server *s) {
    if (!ask(s)) {
        tool_error("cannot read the trace: %s", strerror(errno));
        return false;
    }
    while (s->asked != 0 && !tool_stop_requested())
        wait_for_some(s, false);
    return s->page != NULL;
}

/* A path is compared as it comes. */
static size_t keep_escaped(void *ctx, struct MHD_Connection *c, char *text) {
    (void)ctx, (void)c;
    return strlen(text);
}

static bool start_daemon(struct server *s, int fd) {
    s->daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, answer, s, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, REQUEST_MAX,
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escaped, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, notice, s, MHD_OPTION_END);
    if (s->daemon == NULL)
        tool_error("the web server does not start");
    return s->daemon != NULL;
}

static void say_where(const struct server *s) {
    const struct serve_address *a = &s->address;
    if (a->is_socket)
        printf("serving at the socket %s\n", tool_text_shown(a->path));
    else
        printf(strchr(a->host, ':') != NULL ? "http://[%s]:%u%s\n"
                                            : "http://%s:%u%s\n",
               a->host, a->port, s->folder);
    fflush(stdout);
}

static void serve(struct server *s) {
    say_where(s);
    s->looked = now_ns();
    while (!tool_stop_requested()) {
        uint64_t now = now_ns();
        bool want = s->asked == 0 && now - s->looked < LOOK_NS;
        if (want && now >= s->due && !ask(s))
            s->due = now + PAUSE_NS;
        wait_for_some(s, want);
    }
}

static void end(struct server *s) {
    if (s->child.pid != 0)
        end_child(s, true);
    if (s->daemon != NULL)
        MHD_stop_daemon(s->daemon);
    struct MHD_Response *all[] = {s->page, s->script, s->same};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(all); i++)
        if (all[i] != NULL)
            MHD_destroy_response(all[i]);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(s->refusal); i++)
        if (s->refusal[i] != NULL)
            MHD_destroy_response(s->refusal[i]);
    free(s->next.bytes);
}

/* A socket is its user's alone by its mode. */
static bool name_folder(struct server *s) {
    uint8_t token[TOKEN_BYTES];
    s->folder[0] = '/';
    s->folder[1] = '\0';
    if (s->address.is_socket || s->what->no_token)
        return true;
    if (getrandom(token, sizeof(token), 0) != (ssize_t)sizeof(token)) {
        tool_error("no random number for the page's address: %s",
                   strerror(errno));
        return false;
    }
    for (size_t i = 0; i < TOKEN_BYTES; i++)
        snprintf(s->folder + 1 + 2 * i, 3, "%02x", token[i]);
    strcat(s->folder, "/");
    return true;
}

int serve_run(const struct serve *what) {
    static struct server s;
    int status = TOOL_FAILED;
    s.what = what;
    if (!serve_parse_address(what->where, &s.address))
        return tool_usage_error("--serve: \"%s\" is no ADDRESS:PORT, and no "
                                "path with \"/\" of a socket",
                                what->where);
    if (!s.address.is_local && !what->anyone)
        return tool_usage_error("--serve: other machines can reach %s; "
                                "--anyone allows that",
                                s.address.host);
    if (!name_folder(&s))
        return TOOL_FAILED;
    tool_stop_catch();
    if (first_page(&s)) {
        int fd = serve_listen(&s.address);
        if (fd >= 0 && make_responses(&s) && start_daemon(&s, fd)) {
            serve(&s);
            status = TOOL_OK;
        } else if (fd >= 0) {
            close(fd);
        }
        if (fd >= 0)
            serve_unlisten(&s.address);
    } else if (tool_stop_requested()) {
        status = TOOL_OK;
    }
    end(&s);
    return status;
}

#else

int serve_run(const struct serve *what) {
    (void)what;
    tool_error("this program was built without libmicrohttpd, which --serve "
               "needs (Debian: libmicrohttpd-dev)");
    return TOOL_FAILED;
}

#endif
