/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket (TCMALLOC_TRACE_CONTROL): other processes of the same user
 * and of root can start, stop and flush a recording, set marks, and ask for its
 * status and for the memory table of the heap. The protocol is in
 * traceformat/control_protocol.h.
 *
 * Threads: one of its own, created like the saver, with signals blocked, a
 * descriptor table that the program does not see, and private memory. Packets
 * of clients are bounded, and the server waits for no client.
 *
 * Clients are told apart by the user that they had when they connected, of whom
 * the kernel tells, and are compared with the user of this process at that
 * time, whatever it was when the socket was made. A client makes this process
 * open a file that the client names, so it must have the rights of this process
 * itself: it is root, or, as with ptrace, its user is the real, the effective
 * and the saved one of this process. The effective one alone would not do: root
 * that is another user for a while may be root again when the file is opened.
 */
#include "tracer/session.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "base/linux/os_syscall.h"
#include "base/linux/os_thread.h"
#include "traceformat/control_protocol.h"
#include "tracer/own_thread.h"
#include "tracer/recorder.h"
#include "tracer/saver/saver.h"
#include "tracer/stream/thread_life.h"
#include "tracer/stream/thread_registry.h"
#include "tracer/trace_process.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Clients that are connected at a time; more wait in the socket's queue. */
#define CLIENTS 8
#define QUEUE   64
/* A client that has sent nothing for this long is disconnected. */
#define CLIENT_TIMEOUT_NS 10000000000u
/* Time between checks for silent clients, and for the end of the program. */
#define POLL_S 1

struct client {
    int fd;
    uint64_t since;
};

struct server {
    int fd;
    unsigned count;
    struct client client[CLIENTS];
    uint32_t late_id; /* thread of the trace that has the marks */
    struct mtf_control_request request;
    struct mtf_control_reply reply;
    uint8_t packet[MTF_CONTROL_REPLY_MAX];
};

/* The server of process SERVER_PID, in ordinary memory. */
static struct server server;
static uint32_t server_pid;
static uint32_t setup_state; /* futex: 0 starting, 1 serving, 2 failed */
static int setup_error;      /* errno of a failure */
/* Creating a thread calls the program's calloc, whose locks another thread may
   have held when this process was forked. */
static bool calls_program;

TCM_STATIC_ASSERT(MTF_CONTROL_REPLY_MAX > MTF_CONTROL_REQUEST_MAX,
                  "the packet holds both");

/* --- Answers ------------------------------------------------------------- */

static enum mtf_control_state state_now(struct mtr_recorder *rec) {
    switch (rec == NULL ? MTR_OFF : tcm_load_acquire(&rec->state)) {
    case MTR_ARMED:
        return MTF_CONTROL_WAITING;
    case MTR_STARTING:
    case MTR_LAZY:
    case MTR_RUNNING:
        return MTF_CONTROL_RECORDING;
    case MTR_ENDED:
        return MTF_CONTROL_ENDED;
    case MTR_FAILED:
        return MTF_CONTROL_FAILED;
    default:
        return MTF_CONTROL_OFF;
    }
}

static void set_message(struct server *s, const char *text) {
    struct tcm_fmt f;
    tcm_fmt_init(&f, s->reply.message, sizeof(s->reply.message));
    tcm_fmt_str(&f, text);
}

static void refuse(struct server *s, const char *text) {
    s->reply.result = MTF_CONTROL_REFUSED;
    set_message(s, text);
}

static void start(struct server *s) {
    const char *path = s->request.text[0] == '\0' ? NULL : s->request.text;
    const char *sites = s->request.sites[0] == '\0' ? NULL : s->request.sites;
    if (mtr_is_on())
        refuse(s, "a recording is on already");
    else if (!mtr_start(path, sites)) {
        struct mtr_recorder *rec = mtr_recorder;
        if (state_now(rec) == MTF_CONTROL_FAILED)
            refuse(s, rec->message);
        else if (path == NULL)
            refuse(s, "the process has no output of its own: name a file");
        else if (sites != NULL && mtr_config.starts != 0)
            refuse(s, "call sites stay as the first recording had them");
        else
            refuse(s, "a recording cannot begin now");
    }
}

static void add_mark(struct server *s) {
    bool is_first = s->late_id == 0;
    struct mtr_thread *t = mtr_late_enter(&s->late_id);
    if (t == NULL) {
        refuse(s, "nothing is being recorded");
        return;
    }
    if (is_first)
        mtr_registry_uncount_last(tcm_load_acquire(&mtr_recorder));
    mtr_put_mark(t, s->request.text, strlen(s->request.text));
    mtr_late_leave();
}

/* A filter that the program has installed may end it at a system call. */
static void make_memory_table(struct server *s) {
    if (mtr_process_has_new_filter())
        refuse(s, "the program has a filter of system calls");
    else if (mtr_config.host->memory(&s->reply.memory))
        s->reply.has_memory = true;
    else
        refuse(s, "the memory table cannot be made");
}

static void execute(struct server *s) {
    switch (s->request.command) {
    case MTF_CONTROL_START:
        start(s);
        break;
    case MTF_CONTROL_STOP:
        if (!mtr_is_on())
            refuse(s, "nothing is being recorded");
        else if (!mtr_stop())
            refuse(s, "the end of the trace could not be written");
        break;
    case MTF_CONTROL_FLUSH:
        if (!mtr_is_on())
            refuse(s, "nothing is being recorded");
        else if (!mtr_flush())
            refuse(s, "the trace could not be written");
        break;
    case MTF_CONTROL_MARK:
        add_mark(s);
        break;
    case MTF_CONTROL_MEMORY:
        make_memory_table(s);
        break;
    case MTF_CONTROL_STATUS:
        break;
    }
}

static void describe(struct server *s) {
    struct mtr_recorder *rec = tcm_load_acquire(&mtr_recorder);
    struct mtf_control_reply *r = &s->reply;
    struct tcm_fmt f;
    r->state = (uint8_t)state_now(rec);
    if (rec == NULL || tcm_load_acquire(&rec->session) == 0)
        return;
    tcm_fmt_init(&f, r->name, sizeof(r->name));
    tcm_fmt_str(&f, rec->name[0] != '\0' ? rec->name : rec->output);
    if (r->state == MTF_CONTROL_FAILED && r->message[0] == '\0')
        set_message(s, rec->message);
    r->account_count = mtr_live_accounts(rec, r->account, MTF_CONTROL_ACCOUNTS);
}

/* --- Clients ------------------------------------------------------------- */

static void disconnect(struct server *s, unsigned i) {
    tcm_syscall(SYS_close, s->client[i].fd);
    s->client[i] = s->client[--s->count];
}

static bool may_control(int fd) {
    struct ucred peer;
    socklen_t n = sizeof(peer);
    uid_t real, effective, saved;
    if (tcm_call(getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0 ||
        n != sizeof(peer))
        return false;
    return peer.uid == 0 ||
           (tcm_call(getresuid, &real, &effective, &saved) == 0 &&
            peer.uid == real && peer.uid == effective && peer.uid == saved);
}

static void send_reply(struct server *s, int fd) {
    size_t length = mtf_control_put_reply(s->packet, &s->reply);
    (void)tcm_call(sendto, fd, s->packet, length, MSG_DONTWAIT | MSG_NOSIGNAL,
                   NULL, 0);
}

/* Answers a client that may not control this process, and tells it nothing
   else. It gets none of the places of those who may. Its request is taken if it
   is there, because the kernel resets a connection that is closed with one. */
static void turn_away(struct server *s, int fd) {
    (void)tcm_call(recvfrom, fd, s->packet, sizeof(s->packet), MSG_DONTWAIT,
                   NULL, NULL);
    memset(&s->reply, 0, sizeof(s->reply));
    refuse(s, "it belongs to another user, and you are not root");
    send_reply(s, fd);
    tcm_syscall(SYS_close, fd);
}

/* Disconnects the client that has been connected longest. */
static void disconnect_oldest(struct server *s) {
    unsigned oldest = 0;
    for (unsigned i = 1; i < s->count; i++)
        if (s->client[i].since < s->client[oldest].since)
            oldest = i;
    disconnect(s, oldest);
}

static void admit(struct server *s) {
    int fd =
        (int)tcm_call(accept4, s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (!may_control(fd)) {
        turn_away(s, fd);
        return;
    }
    if (s->count == CLIENTS)
        disconnect_oldest(s);
    s->client[s->count++] = (struct client){fd, tcm_clock_ns()};
}

/* Serves one request with one reply, and disconnects the client. */
static void serve(struct server *s, unsigned i) {
    int fd = s->client[i].fd;
    ssize_t n = tcm_call(recvfrom, fd, s->packet, sizeof(s->packet),
                         MSG_DONTWAIT, NULL, NULL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        memset(&s->reply, 0, sizeof(s->reply));
        if (mtf_control_parse_request(s->packet, (size_t)n, &s->request))
            execute(s);
        else
            s->reply.result = MTF_CONTROL_BAD;
        describe(s);
        send_reply(s, fd);
    }
    disconnect(s, i);
}

/* Serves clients. true: no thread of the program is left; false: the kernel
   refused to wait. */
static bool serve_all(struct server *s, struct mtr_recorder *rec) {
    struct tcm_statm statm;
    tcm_statm_open(&statm);
    struct pollfd fds[CLIENTS + 1];
    for (;;) {
        unsigned count = s->count;
        for (unsigned i = 0; i < count; i++)
            fds[i] = (struct pollfd){.fd = s->client[i].fd, .events = POLLIN};
        fds[count] = (struct pollfd){.fd = s->fd, .events = POLLIN};
        struct timespec poll_time = {POLL_S, 0};
        long rc = tcm_syscall(SYS_ppoll, fds, count + 1, &poll_time, NULL, 0);
        if (rc < 0 && errno != EINTR)
            return false;
        if (rc == 0 && mtr_own_are_last(rec, &statm))
            return true;
        uint64_t now = tcm_clock_ns();
        /* Backwards, because the last client takes the place of one that is
           disconnected. */
        for (unsigned i = count; i-- > 0;) {
            if (rc > 0 && fds[i].revents != 0)
                serve(s, i);
            else if (now - s->client[i].since > CLIENT_TIMEOUT_NS)
                disconnect(s, i);
        }
        if (rc > 0 && fds[count].revents != 0)
            admit(s);
    }
}

/* --- The thread ---------------------------------------------------------- */

static int listen_to(uint32_t pid) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = mtf_control_address(address.sun_path, pid, mtr_process_random());
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    int fd = (int)tcm_call(socket, AF_UNIX,
                           SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    return tcm_call(bind, fd, (struct sockaddr *)&address, length) == 0 &&
                   tcm_call(listen, fd, QUEUE) == 0
               ? fd
               : -1;
}

static void *server_main(void *arg) {
    struct server *s = &server;
    struct mtr_recorder *rec = arg;
    mtr_own_begin(rec, "malloc-trace-c");
    memset(s, 0, sizeof(*s));
    errno = EPERM;
    s->fd = mtr_unshare_table(-1) ? listen_to(server_pid) : -1;
    setup_error = s->fd < 0 ? errno : 0;
    /* Publishes the error to the waiting thread. */
    tcm_store_release(&setup_state, s->fd < 0 ? 2u : 1u);
    tcm_futex_wake(&setup_state, INT32_MAX);
    bool alone = s->fd >= 0 && serve_all(s, rec);
    mtr_own_end(rec, alone);
    return NULL;
}

/* Creates the thread and waits until it serves. Returns 0 or an errno. */
static int create_server(void) {
    struct mtr_recorder *rec = mtr_recorder_get();
    pthread_t thread;
    int error = ENOMEM;
    tcm_store_relaxed(&setup_state, 0u);
    mtr_config.host->enter_private();
    bool ok = rec != NULL && mtr_own_create(&thread, server_main, rec, &error);
    mtr_config.host->leave_private();
    while (ok && tcm_load_acquire(&setup_state) == 0)
        tcm_futex_wait(&setup_state, 0, UINT64_MAX);
    return ok ? setup_error : error;
}

void mtr_control_server_ensure(void) {
    if (!mtr_config.control)
        return;
    uint32_t pid = tcm_os_pid();
    uint32_t before = tcm_load_relaxed(&server_pid);
    if (before == pid || !tcm_cas_acq_rel(&server_pid, &before, pid))
        return;
    calls_program = mtr_own_calls_program();
    int error = create_server();
    if (error != 0)
        mtr_warn("cannot answer malloc-trace ctl", NULL, error);
}

/*
 * Nothing else could make an idle child answer later: it may never call malloc,
 * and signals are the program's. The child waits for the thread, so that the
 * thread has its own root folder before the child changes its. A failure, as at
 * a limit on processes, is the program's business no more than the socket is:
 * the child prints nothing.
 */
void mtr_control_server_fork_child(void) {
    tcm_store_relaxed(&server_pid, 0u);
    if (!mtr_config.control || calls_program)
        return;
    tcm_store_relaxed(&server_pid, tcm_os_pid());
    if (create_server() != 0)
        tcm_store_relaxed(&server_pid, 0u);
}
