/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/control_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Longest wait for an answer: a stop waits for the saver, which may wait for a
   slow reader of the trace. */
#define ANSWER_MS 60000
/* Attempts to connect to a process whose queue is full, and the pause
   between. */
#define TRIES  100
#define TRY_NS 10000000

static bool problem_is(char problem[TOOL_CONTROL_PROBLEM_MAX], pid_t pid,
                       const char *text, int error) {
    snprintf(problem, TOOL_CONTROL_PROBLEM_MAX, "process %d %s%s%s", (int)pid,
             text, error != 0 ? ": " : "", error != 0 ? strerror(error) : "");
    return false;
}

/* Tells whether PID is at the other end: any process may listen at its
   address. */
static bool is_peer(int fd, pid_t pid, uid_t *user) {
    struct ucred peer;
    socklen_t n = sizeof(peer);
    errno = ECONNREFUSED;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0 ||
        n != sizeof(peer) || peer.pid != pid)
        return false;
    *user = peer.uid;
    return true;
}

/* Connects to the address of N bytes at PATH if PID listens there. Does not
   wait: another process may have the address and never accept. */
static int try_address(const char *path, size_t n, pid_t pid, uid_t *user) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    memcpy(address.sun_path, path, n);
    if (connect(fd, (struct sockaddr *)&address, length) == 0 &&
        is_peer(fd, pid, user) &&
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Tries each address of PID in /proc/net/unix. -1: errno is EAGAIN if the queue
   of one was full. */
static int try_addresses(pid_t pid, uid_t *user) {
    char prefix[MTF_CONTROL_ADDRESS_MAX], *line = NULL;
    size_t size = 0;
    int fd = -1, error = ECONNREFUSED;
    size_t n = mtf_control_address(prefix, (uint32_t)pid, 0);
    FILE *f = fopen("/proc/net/unix", "re");
    if (f == NULL)
        return -1;
    /* the list shows the zero byte of an abstract address as @ */
    prefix[0] = '@';
    ssize_t length;
    while (fd < 0 && (length = getline(&line, &size, f)) > (ssize_t)n) {
        char *path = line + length - 1 - (ssize_t)n;
        if (strncmp(path, prefix, n - MTF_CONTROL_DIGITS) != 0)
            continue;
        *path = '\0';
        fd = try_address(path, n, pid, user);
        if (fd < 0 && errno == EAGAIN)
            error = EAGAIN;
    }
    free(line);
    (void)fclose(f);
    errno = error;
    return fd;
}

static int connect_to(pid_t pid, uid_t *user) {
    const struct timespec pause = {.tv_nsec = TRY_NS};
    int fd = try_addresses(pid, user);
    for (int i = 0; i < TRIES && fd < 0 && errno == EAGAIN; i++) {
        nanosleep(&pause, NULL);
        fd = try_addresses(pid, user);
    }
    return fd;
}

bool tool_control_exists(pid_t pid) {
    uid_t user;
    int fd = try_addresses(pid, &user);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Stores in PROBLEM why PID does not listen; returns false. */
static bool explain(char problem[TOOL_CONTROL_PROBLEM_MAX], pid_t pid,
                    int error) {
    char path[40];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    if (kill(pid, 0) != 0 && errno == ESRCH)
        return problem_is(problem, pid, "does not exist", 0);
    if (stat(path, &st) == 0 && st.st_uid != geteuid())
        return problem_is(problem, pid, "belongs to another user", 0);
    if (error != ECONNREFUSED && error != ENOENT)
        return problem_is(problem, pid, "does not answer", error);
    return problem_is(problem, pid,
                      "has no control socket: it was not started with "
                      "TCMALLOC_TRACE_CONTROL=1 under the recording library",
                      0);
}

static bool exchange(int fd, const struct mtf_control_request *request,
                     struct mtf_control_reply *reply, const char **failure) {
    uint8_t packet[MTF_CONTROL_REPLY_MAX + 1];
    size_t length = mtf_control_put_request(packet, request);
    *failure = "did not accept the request";
    if (send(fd, packet, length, MSG_NOSIGNAL) != (ssize_t)length)
        return false;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int rc;
    do {
        rc = poll(&p, 1, ANSWER_MS);
    } while (rc < 0 && errno == EINTR);
    *failure = "does not answer";
    errno = ETIMEDOUT;
    if (rc <= 0)
        return false;
    errno = 0;
    ssize_t n = recv(fd, packet, sizeof(packet), 0);
    if (n <= 0) {
        *failure = "closed the connection";
        return false;
    }
    *failure = "gave an unknown answer";
    return mtf_control_parse_reply(packet, (size_t)n, reply);
}

/* Sends REQUEST and stores the answer in REPLY. false: PROBLEM tells why. */
static bool ask(pid_t pid, const struct mtf_control_request *request,
                struct mtf_control_reply *reply,
                char problem[TOOL_CONTROL_PROBLEM_MAX]) {
    const char *failure = "belongs to another user";
    uid_t user;
    int fd = connect_to(pid, &user);
    if (fd < 0)
        return explain(problem, pid, errno);
    errno = 0;
    bool ok = user == geteuid() && exchange(fd, request, reply, &failure);
    int error = errno;
    close(fd);
    return ok || problem_is(problem, pid, failure, error);
}

bool tool_control_request(pid_t pid, enum mtf_control_command command,
                          const char *text, struct mtf_control_reply *reply,
                          char problem[TOOL_CONTROL_PROBLEM_MAX]) {
    static struct mtf_control_request request;
    request.command = command;
    snprintf(request.text, sizeof(request.text), "%s", text);
    if (!ask(pid, &request, reply, problem))
        return false;
    if (reply->result == MTF_CONTROL_DONE)
        return true;
    /* the library's messages begin with its name and end in a newline */
    const char *why = reply->message;
    if (strncmp(why, "tcmalloc: ", 10) == 0)
        why += 10;
    size_t n = strcspn(why, "\n");
    snprintf(problem, TOOL_CONTROL_PROBLEM_MAX, "process %d: %.*s", (int)pid,
             (int)n, n != 0 ? why : "the request was not understood");
    return false;
}
