/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Child processes: another program, or a function in a copy of this process.
 *
 * All signals are blocked from before the fork until both processes can handle
 * them. In the child, a caught signal has its default action, an ignored one
 * stays ignored, and the mask is the caller's.
 *
 * Invariants: signals are no longer passed to a child when its id becomes free
 * for another process. Only tool_child_text allocates.
 * Threads: the thread that starts a child waits for it; with a time limit, all
 * other threads must block SIGCHLD. Signals are passed to one child at a time.
 */
#ifndef TOOL_COMMON_CHILD_H
#define TOOL_COMMON_CHILD_H

#include "base/compiler.h"

#include <sys/resource.h>
#include <sys/types.h>

enum tool_child_signals {
    TOOL_CHILD_APART, /* no signal is passed on */
    /* A request to stop this program (common/stop.h) goes to the child too. */
    TOOL_CHILD_STOPS,
    /* Works like TOOL_CHILD_STOPS, but requests stay blocked in the child, also
       across an exec, until it calls tool_stop_obey. */
    TOOL_CHILD_OBEYS,
    /* This process stands in for the child: it passes on signals that are sent
       to it, and ignores the terminal's, which reach both, while the child
       runs. The child has this process's dispositions. */
    TOOL_CHILD_FRONT
};

#define TOOL_CHILD_NULL (-1) /* for a descriptor: /dev/null */

struct tool_child_spec {
    /* Program, looked up in PATH as a shell does, and its arguments up to NULL;
       NULL with BODY. */
    char *const *argv;
    const char *file; /* path to execute instead of argv[0]; or NULL */
    /* Last step in the child before exec, such as to set the environment; may
       be NULL. false: the program is not run, errno tells why. */
    bool (*prepare)(void *ctx);
    /* Function to run instead of a program; returns the exit status. */
    int (*body)(void *ctx);
    void *ctx;
    /* Standard descriptors of the child; 0: those of this process. */
    int in, out, err;
    /* Descriptors that stay open across the exec, under the same numbers. */
    const int *keep;
    size_t keep_count;
    enum tool_child_signals signals;
    bool dies_with_parent; /* SIGKILL when this process ends */
    bool own_group;        /* a process group other than the terminal's */
    /* A small process between this one and the program, so that ru_maxrss is
       the program's: exec hands down the largest resident set of the memory
       that it replaces, here a copy of this process's. A program that cannot be
       run is told at its end then. Not with BODY or TOOL_CHILD_FRONT. */
    bool launched;
    uint64_t stop_ns; /* SIGTERM this long after the start; 0: none */
};

struct tool_child {
    pid_t pid; /* 0: no process, or it was waited for */
    int told;  /* descriptor with the end that the launcher tells; 0: none */
    enum tool_child_signals signals;
    bool own_group;
    uint64_t start_ns, stop_ns;
};

struct tool_child_end {
    int status; /* wait status */
    int error;  /* errno if the program could not be run; else 0 */
    bool timed_out;
    uint64_t wall_ns;
    struct rusage usage; /* including its own children */
    /* Name that the kernel had for its last program: the first 15 bytes of the
       file's, or what the program has set. Empty: unknown. */
    char name[16];
};

/*
 * Starts the child. Returns 0 when the program or the body runs, else errno,
 * without a message: with C->pid -1 no process could be made, with 0 the
 * program could not be run.
 */
int tool_child_start(struct tool_child *c, const struct tool_child_spec *spec);
/* Waits for the end of the child, and kills it LIMIT_NS after its start (0: no
   limit). END may be NULL. Does nothing if C has no process. */
void tool_child_wait(struct tool_child *c, uint64_t limit_ns,
                     struct tool_child_end *end);
/* Works like tool_child_wait if the child has ended; else returns false at
   once. */
bool tool_child_try_wait(struct tool_child *c, struct tool_child_end *end);
/* Sends SIGKILL to the child or its group; tool_child_wait must still
   follow. */
void tool_child_kill(const struct tool_child *c);

/* First argument of malloc-trace-allocator that makes it the small process of a
   launched program; the arguments of tool_child_launch follow. */
#define TOOL_CHILD_LAUNCH "--launch"
/* Runs the program ARGV as a child and writes a struct tool_child_end to
   descriptor FD. Returns the exit status. */
int tool_child_launch(int fd, char *const *argv);

/* Starts a child and waits for it. false: no process could be made, a message
   was printed. */
bool tool_child_run(const struct tool_child_spec *spec, uint64_t limit_ns,
                    struct tool_child_end *end);
/* Describes the end: "exit status 1", "ended by signal 11 (...)". */
void tool_child_end_text(const struct tool_child_end *end, char *text,
                         size_t size);

/* Makes a file in memory for a child's output; exec closes it unless it is
   kept. -1: a message was printed. */
int tool_child_scratch(const char *name);
/* Size of the file FD; 0 if it is unknown. */
size_t tool_child_size(int fd);
/* Reads up to ROOM - 1 bytes from the beginning of the file FD and appends a
   null byte. Returns the number of bytes without it. */
size_t tool_child_read(int fd, char *text, size_t room);
/* Works like tool_child_read, for at most MAX bytes, into memory that the
   caller frees. NULL: out of memory, a message was printed. */
char *tool_child_text(int fd, size_t max, size_t *size);

#endif
