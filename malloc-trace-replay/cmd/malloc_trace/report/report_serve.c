/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader, a child process, keeps what it has read: for each page it forks,
 * and the fork counts live blocks as if the trace ended there, writes the page
 * and exits. The server, which answers browsers, never reads the trace.
 *
 * A build without libmicrohttpd has report_stubs.c instead.
 */
#include "cmd/malloc_trace/report/report_serve.h"

#include "base/bits.h"
#include "base/linux/os_file.h"
#include "cmd/malloc_trace/report/report_page.h"
#include "cmd/malloc_trace/report/report_serve_request.h"
#include "common/collections.h"
#include "common/child.h"
#include "common/main.h"
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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- The reader ----------------------------------------------------------- */

/* Pause between two checks for more of the trace. */
#define POLL_MS 50

struct reader {
    const struct report_serve *options;
    int server;
    bool told;
    struct report_tallies tallies;
    struct report_reader *trace;
};

static void silence_messages(void) {
    int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (quiet >= 0)
        (void)dup2(quiet, STDERR_FILENO);
}

/* True if the server requests a page within MS (-1: waits for ever). Exits if
   the server is gone. */
static bool is_asked(const struct reader *r, int ms) {
    struct pollfd on = {.fd = r->server, .events = POLLIN};
    char byte;
    int ready;
    while ((ready = poll(&on, 1, ms)) < 0)
        if (errno != EINTR)
            _exit(TOOL_FAILED);
    if (ready == 0)
        return false;
    if (recv(r->server, &byte, 1, 0) != 1)
        _exit(TOOL_OK);
    return true;
}

/* Like is_asked, waiting while no more of TRACE is recorded. */
static bool is_asked_while_idle(const struct reader *r,
                                const struct report_reader *trace) {
    while (report_tally_may_sleep(trace))
        if (is_asked(r, POLL_MS))
            return true;
    return is_asked(r, 0);
}

static bool is_page(int status) {
    return status == TOOL_OK || status == TOOL_DAMAGED;
}

/* Makes the page and sends it to the server, behind its length in 8 bytes.
   Returns an enum tool_status. */
static int send_page(struct reader *r) {
    char *bytes = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&bytes, &n);
    if (f == NULL) {
        tool_out_of_memory();
        return TOOL_FAILED;
    }
    int status = r->options->make(r->options->ctx, &r->tallies, f);
    bool good = fclose(f) == 0 && is_page(status);
    uint64_t length = n;
    good = good && tcm_io_write_all(r->server, &length, sizeof(length)) &&
           tcm_io_write_all(r->server, bytes, n);
    free(bytes);
    return good ? status : TOOL_FAILED;
}

/* Body of the fork. */
static int end_and_send_page(void *ctx) {
    struct reader *r = ctx;
    if (r->told)
        silence_messages();
    return report_tally_stop_here(r->trace) ? send_page(r) : TOOL_FAILED;
}

/* Sends a page of what was read so far, from a fork. False: it failed. */
static bool send_page_of_fork(struct reader *r) {
    struct tool_child_end end;
    struct tool_child_spec spec = {
        .body = end_and_send_page, .ctx = r, .dies_with_parent = true};
    if (!tool_child_run(&spec, 0, &end))
        return false;
    r->told = true;
    return WIFEXITED(end.status) && is_page(WEXITSTATUS(end.status));
}

static int read_trace(struct reader *r) {
    struct report_reader *trace =
        report_tally_open(&r->tallies, r->options->trace, true);
    r->trace = trace;
    enum report_step step;
    bool began = false; /* what was recorded before the start was read */
    if (trace == NULL)
        return TOOL_FAILED;
    while ((step = report_tally_step(trace)) != REPORT_STEP_END) {
        began = began || step == REPORT_STEP_ALL;
        while (began && (step == REPORT_STEP_ALL ? is_asked_while_idle(r, trace)
                                                 : is_asked(r, 0)))
            if (!send_page_of_fork(r))
                return TOOL_FAILED;
    }
    if (!report_tally_close(trace))
        return TOOL_FAILED;
    (void)is_asked(r, -1);
    if (r->told)
        silence_messages();
    return send_page(r);
}

/* Body of the reader: reads the trace and sends a page for each byte from the
   socket SERVER. TOLD: print no messages about the trace again. Returns an enum
   tool_status. */
static int serve_reader(const struct report_serve *s, int server, bool told) {
    static struct reader r;
    if (told)
        silence_messages();
    r = (struct reader){.options = s,
                        .server = server,
                        .told = told,
                        .tallies = {.options = s->options}};
    return read_trace(&r);
}

/* --- The server ----------------------------------------------------------- */

#define CONNECTIONS 32u
#define TIMEOUT_S   30u
/* Places kept free for new connections. */
#define FREE_PLACES 8u
/* Random bytes of the page's folder; its name is hex digits and two slashes. */
#define TOKEN_BYTES 16u
#define FOLDER_SIZE (2 * TOKEN_BYTES + 3)
/* Most bytes of a request's head. */
#define REQUEST_MAX ((size_t)16 << 10)

/* Shortest pause before the page is made again: a time, and a multiple of what
   the last page took. Nothing is made if no browser asked for LOOK_NS. */
#define PAUSE_NS    1000000000u
#define PAUSE_TIMES 3u
#define LOOK_NS     20000000000u

struct page {
    char *bytes;
    size_t count, room;
};

/* Place of a connection. */
struct place {
    int fd;
    bool taken;
    bool known;     /* the page was sent to it */
    bool gone;      /* it was shut down, and is not closed yet */
    uint64_t order; /* of arrival */
};

struct server {
    const struct report_serve *options;
    char folder[FOLDER_SIZE]; /* of the page: "/TOKEN/", or "/" */
    struct place place[CONNECTIONS];
    uint64_t connections; /* in all */
    struct report_serve_address address;
    struct MHD_Daemon *daemon;
    struct MHD_Response *page, *script, *same,
        *refusal[REPORT_SERVE_NO_BODY + 1];
    char tag[64];
    uint64_t number; /* of the page */
    uint64_t looked; /* last request for the page, ns */
    uint64_t due;    /* the next page is made from then on, ns */

    struct tool_child child; /* the reader */
    int socket;              /* to the reader */
    uint64_t asked;          /* a page is awaited since then, ns; 0: not */
    uint64_t length;         /* of the awaited page */
    size_t length_got;       /* bytes received of LENGTH itself */
    struct page next;
    bool told; /* problems of the trace were printed */
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
    [REPORT_SERVE_NOT_FOUND] =
        {404, "The page is at the address that report --serve "
              "printed.\n"},
    [REPORT_SERVE_NO_METHOD] = {405, "Nothing can be changed here.\n"},
    [REPORT_SERVE_OTHER_HOST] = {421, "Ask by the address, or as localhost.\n"},
    [REPORT_SERVE_NO_BODY] = {413, "Send no body.\n"},
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
    /* The library takes no const pointer, and does not write. */
    union {
        const char *in;
        void *out;
    } bytes = {.in = text};
    struct MHD_Response *r = MHD_create_response_from_buffer(
        strlen(text), bytes.out, MHD_RESPMEM_PERSISTENT);
    return add_headers(r, type) ? r : NULL;
}

static bool make_responses(struct server *s) {
    static char *script; /* lives as long as the process */
    if (asprintf(&script, "%s%s%s", report_page_js, page_js, report_live_js) <
        0)
        return false;
    s->script = text_response(script, "text/javascript; charset=utf-8");
    s->same = text_response("", "text/html; charset=utf-8");
    bool good = s->script != NULL && s->same != NULL;
    for (size_t i = REPORT_SERVE_NOT_FOUND; i <= REPORT_SERVE_NO_BODY && good;
         i++) {
        s->refusal[i] =
            text_response(refusals[i].text, "text/plain; charset=utf-8");
        good = s->refusal[i] != NULL;
    }
    return good && MHD_add_response_header(s->refusal[REPORT_SERVE_NO_METHOD],
                                           "Allow", "GET, HEAD");
}

/* Replaces the page by the one received. Connections that read the old page
   keep it until they are done. False: out of memory. */
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

/* Makes room by ending the oldest connection that was sent nothing: it may be
   held open to block others. */
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
    /* The daemon sees the end and closes the descriptor. */
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

/* Marks C as one that was sent something. */
static void mark_known(struct MHD_Connection *c) {
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
    /* The call for the head answers: no body is read. */
    (void)version, (void)upload, (void)upload_size, (void)of_request;
    struct report_serve_request r = {
        .method = method,
        .path = url,
        .host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host"),
        .if_none_match =
            MHD_lookup_connection_value(c, MHD_HEADER_KIND, "If-None-Match"),
        .content_length =
            MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length"),
        .transfer_encoding = MHD_lookup_connection_value(c, MHD_HEADER_KIND,
                                                         "Transfer-Encoding")};
    enum report_serve_answer answer =
        report_serve_decide(&r, s->folder, s->tag, s->address.port);
    if (answer == REPORT_SERVE_PAGE || answer == REPORT_SERVE_SAME ||
        answer == REPORT_SERVE_SCRIPT)
        mark_known(c);
    switch (answer) {
    case REPORT_SERVE_PAGE:
        s->looked = now_ns();
        return MHD_queue_response(c, MHD_HTTP_OK, s->page);
    case REPORT_SERVE_SAME:
        s->looked = now_ns();
        return MHD_queue_response(c, MHD_HTTP_NOT_MODIFIED, s->same);
    case REPORT_SERVE_SCRIPT:
        return MHD_queue_response(c, MHD_HTTP_OK, s->script);
    default:
        return MHD_queue_response(c, refusals[answer].status,
                                  s->refusal[answer]);
    }
}

/* --- Requests to the reader ----------------------------------------------- */

struct child_part {
    const struct server *server;
    int ends[2]; /* of the socket: the server's, the child's */
};

static int be_child(void *ctx) {
    const struct child_part *part = ctx;
    close(part->ends[0]);
    return serve_reader(part->server->options, part->ends[1],
                        part->server->told);
}

static bool start_child(struct server *s) {
    struct child_part part = {.server = s};
    int *ends = part.ends;
    /* A ^C of the terminal reaches the server, which ends the child. */
    struct tool_child_spec spec = {.body = be_child,
                                   .ctx = &part,
                                   .dies_with_parent = true,
                                   .own_group = true};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    bool started = tool_child_start(&s->child, &spec) == 0;
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

/* Requests a page from the reader. False: it cannot be started. */
static bool request_page(struct server *s) {
    if (s->child.pid == 0 && !start_child(s))
        return false;
    /* If the reader is exiting, read_child sees its end. */
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

/* Buffer for the next *N bytes of the answer. NULL: out of memory, or a wrong
   length. */
static void *next_bytes(struct server *s, size_t *n) {
    *n = sizeof(s->length) - s->length_got;
    if (*n != 0)
        return (uint8_t *)&s->length + s->length_got;
    if (s->length == 0 || s->length > REPORT_SERVE_PAGE_MAX ||
        !tool_array_reserve(&s->next.bytes, &s->next.room, s->length, 1))
        return NULL;
    *n = s->length - s->next.count;
    return s->next.bytes + s->next.count;
}

/* Reads what the reader has written, and takes the page when it is complete. */
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

/* Waits for requests, for bytes of the reader and, with WANT_PAGE, for the
   moment at which the next page is due. Handles one of each. */
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
    if (!request_page(s)) {
        tool_error("cannot read the trace: %s", strerror(errno));
        return false;
    }
    while (s->asked != 0 && !tool_stop_requested())
        wait_for_some(s, false);
    return s->page != NULL;
}

/* Leaves escapes in a path, which is compared byte by byte. */
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

static void print_address(const struct server *s) {
    const struct report_serve_address *a = &s->address;
    if (a->is_socket)
        printf("serving at the socket %s\n", tool_text_shown(a->path));
    else
        printf(strchr(a->host, ':') != NULL ? "http://[%s]:%u%s\n"
                                            : "http://%s:%u%s\n",
               a->host, a->port, s->folder);
    fflush(stdout);
}

static void serve(struct server *s) {
    print_address(s);
    s->looked = now_ns();
    while (!tool_stop_requested()) {
        uint64_t now = now_ns();
        bool want = s->asked == 0 && now - s->looked < LOOK_NS;
        if (want && now >= s->due && !request_page(s))
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

/* Sets the folder of the page; a UNIX socket is protected by its mode. False: a
   message was printed. */
static bool name_folder(struct server *s) {
    uint8_t token[TOKEN_BYTES];
    s->folder[0] = '/';
    s->folder[1] = '\0';
    if (s->address.is_socket || s->options->no_token)
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

int report_serve_run(const struct report_serve *options) {
    static struct server s;
    int status = TOOL_FAILED;
    s.options = options;
    if (!report_serve_parse_address(options->where, &s.address))
        return tool_usage_error("--serve: \"%s\" is no ADDRESS:PORT, and no "
                                "path with \"/\" of a socket",
                                options->where);
    if (!s.address.is_local && !options->anyone)
        return tool_usage_error("--serve: other machines can reach %s; "
                                "--anyone allows that",
                                s.address.host);
    if (!name_folder(&s))
        return TOOL_FAILED;
    tool_stop_catch();
    if (first_page(&s)) {
        int fd = report_serve_listen(&s.address);
        if (fd >= 0 && make_responses(&s) && start_daemon(&s, fd)) {
            serve(&s);
            status = TOOL_OK;
        } else if (fd >= 0) {
            close(fd);
        }
        if (fd >= 0)
            report_serve_unlisten(&s.address);
    } else if (tool_stop_requested()) {
        status = TOOL_OK;
    }
    end(&s);
    return status;
}
