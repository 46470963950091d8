/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/control_client.h"

#include "base/linux/os_file.h"

#include <dirent.h>
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

/* Tells whether USER is the real, the effective and the saved user of PID. */
static bool is_user_of(pid_t pid, uid_t user) {
    char path[40], text[1024];
    unsigned real, effective, saved;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    if (tcm_io_read_file(path, text, sizeof(text)) <= 0)
        return false;
    const char *line = strstr(text, "\nUid:");
    return line != NULL &&
           sscanf(line, "\nUid: %u %u %u", &real, &effective, &saved) == 3 &&
           real == user && effective == user && saved == user;
}

/*
 * Tells whether PID is at the other end: any process may listen at its address.
 *
 * The kernel tells the id and the user that the other process had when it began
 * to listen. The id alone proves nothing: a socket outlives its process if a
 * child has it, and PID may have got the id of a process that listened before.
 * The user alone need not be that of PID, which may have changed it since. So
 * the id must be that of PID, and the user one who could deceive us in any
 * case: root, our own, or that of PID, who controls it.
 */
static bool is_peer(int fd, pid_t pid) {
    struct ucred peer;
    socklen_t n = sizeof(peer);
    bool good =
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
        n == sizeof(peer) && peer.pid == pid &&
        (peer.uid == 0 || peer.uid == geteuid() || is_user_of(pid, peer.uid));
    errno = ECONNREFUSED;
    return good;
}

/* Connects to the address of N bytes at PATH if PID listens there. Does not
   wait: another process may have the address and never accept. */
static int try_address(const char *path, size_t n, pid_t pid) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    memcpy(address.sun_path, path, n);
    if (connect(fd, (struct sockaddr *)&address, length) == 0 &&
        is_peer(fd, pid) &&
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* True if PID has the thread that serves the socket. */
static bool has_server(pid_t pid) {
    char path[64], name[32];
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    const struct dirent *task;
    while (tasks != NULL && !found && (task = readdir(tasks)) != NULL) {
        snprintf(path, sizeof(path), "/proc/%d/task/%.16s/comm", (int)pid,
                 task->d_name);
        found = tcm_io_read_file(path, name, sizeof(name)) > 0 &&
                strncmp(name, "malloc-trace-c\n", 15) == 0;
    }
    if (tasks != NULL)
        closedir(tasks);
    return found;
}

/* Tries each address of PID in /proc/net/unix. -1: errno is EAGAIN if the queue
   of one was full. */
static int try_addresses(pid_t pid) {
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
        fd = try_address(path, n, pid);
        if (fd < 0 && errno == EAGAIN)
            error = EAGAIN;
    }
    free(line);
    (void)fclose(f);
    errno = error;
    return fd;
}

/* Tries again while a queue is full, and while a process that was forked just
   now makes its socket. */
static int connect_to(pid_t pid) {
    const struct timespec pause = {.tv_nsec = TRY_NS};
    int fd = try_addresses(pid);
    for (int i = 0; i < TRIES && fd < 0; i++) {
        int error = errno;
        if (error != EAGAIN && !has_server(pid)) {
            errno = error;
            break;
        }
        nanosleep(&pause, NULL);
        fd = try_addresses(pid);
    }
    return fd;
}

bool tool_control_exists(pid_t pid) {
    int fd = try_addresses(pid);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* True if PID is known to be in another network namespace. */
static bool is_elsewhere(pid_t pid) {
    char path[40];
    struct stat ours, its;
    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    return stat("/proc/self/ns/net", &ours) == 0 && stat(path, &its) == 0 &&
           ours.st_ino != its.st_ino;
}

/* True if PID is known to have the recording library as a file of its own. */
static bool has_library(pid_t pid) {
    char path[40], *line = NULL;
    size_t size = 0;
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "re");
    while (f != NULL && !found && getline(&line, &size, f) > 0)
        found = strstr(line, "/libtcmalloc_minimal_tracing") != NULL;
    free(line);
    if (f != NULL)
        (void)fclose(f);
    return found;
}

/* Stores in PROBLEM why PID does not listen; returns false. */
static bool explain(char problem[TOOL_CONTROL_PROBLEM_MAX], pid_t pid,
                    int error) {
    if (kill(pid, 0) != 0)
        return problem_is(
            problem, pid,
            errno == ESRCH ? "does not exist" : "belongs to another user", 0);
    if (error != ECONNREFUSED && error != ENOENT)
        return problem_is(problem, pid, "does not answer", error);
    if (is_elsewhere(pid))
        return problem_is(problem, pid,
                          "is in another network namespace: put \"nsenter -t "
                          "PID -n\" before this command",
                          0);
    return problem_is(problem, pid,
                      has_library(pid)
                          ? "has the recording library, but no control socket: "
                            "start it with TCMALLOC_TRACE_CONTROL=1"
                          : "has no control socket: start it with "
                            "TCMALLOC_TRACE_CONTROL=1 under the recording "
                            "library",
                      0);
}

static bool exchange(int fd, const struct mtf_control_request *request,
                     struct mtf_control_reply *reply, const char **failure) {
    uint8_t packet[MTF_CONTROL_REPLY_MAX + 1];
    size_t length = mtf_control_put_request(packet, request);
    *failure = "did not accept the request";
    /* a process that refuses us may have answered already, and closed */
    if (send(fd, packet, length, MSG_NOSIGNAL) != (ssize_t)length &&
        errno != EPIPE && errno != ECONNRESET)
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
    if (n < 0 && errno == ECONNRESET) /* told before the answer */
        n = recv(fd, packet, sizeof(packet), 0);
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
    const char *failure;
    int fd = connect_to(pid);
    if (fd < 0)
        return explain(problem, pid, errno);
    errno = 0;
    bool ok = exchange(fd, request, reply, &failure);
    int error = errno;
    close(fd);
    return ok || problem_is(problem, pid, failure, error);
}

bool tool_control_request(pid_t pid, enum mtf_control_command command,
                          const char *text, const char *sites,
                          struct mtf_control_reply *reply,
                          char problem[TOOL_CONTROL_PROBLEM_MAX]) {
    static struct mtf_control_request request;
    request.command = command;
    snprintf(request.text, sizeof(request.text), "%s", text);
    snprintf(request.sites, sizeof(request.sites), "%s", sites);
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
