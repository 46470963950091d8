/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Child processes: another program, or a function in a copy of this one.
 *
 * All signals are blocked from before the fork until both processes can act on
 * them. In the child a caught signal has its default action, an ignored one
 * stays ignored, and the mask is that of the caller.
 *
 * Invariants: a child's id is not free for another process before signals are
 * no longer passed to it. Nothing here allocates but tool_child_text.
 * Threads: one starts and waits for a child; limits of time need a program
 * whose other threads block SIGCHLD. One child at a time has signals passed on.
 */
#ifndef TOOL_COMMON_CHILD_H
#define TOOL_COMMON_CHILD_H

#include "base/compiler.h"

#include <sys/resource.h>
#include <sys/types.h>

enum tool_child_signals {
    TOOL_CHILD_APART, /* none is passed on */
    /* A request to stop this program (common/stop.h) goes to the child too. */
    TOOL_CHILD_STOPS,
    /* Works as TOOL_CHILD_STOPS; requests wait, blocked, also across an exec,
       until the child calls tool_stop_obey. */
    TOOL_CHILD_OBEYS,
    /* This process stands in front of the child: signals that are sent to it
       go to the child, and those of the terminal, which reach both, are ignored
       here while the child runs. The child has this process's dispositions. */
    TOOL_CHILD_FRONT
};

#define TOOL_CHILD_NULL (-1) /* for a descriptor: /dev/null */

struct tool_child_spec {
    /* The program, looked up in PATH as a shell does, and its arguments up to
       NULL; or NULL with BODY. */
    char *const *argv;
    const char *file; /* executed instead of argv[0], not looked up; or NULL */
    /* Last step in the child before the program: its environment. false: the
       program is not run for errno's reason. NULL: nothing to do. */
    bool (*prepare)(void *ctx);
    /* Instead of a program: runs in a copy of this process; returns the exit
       status. */
    int (*body)(void *ctx);
    void *ctx;
    /* Standard descriptors of the child; 0: as in this process. */
    int in, out, err;
    /* Descriptors that the program has too, under their numbers here. */
    const int *keep;
    size_t keep_count;
    enum tool_child_signals signals;
    bool dies_with_parent; /* by SIGKILL */
    bool own_group;        /* process group, apart from the terminal's */
};

struct tool_child {
    pid_t pid; /* 0: there is none, or it was waited for */
    enum tool_child_signals signals;
    bool own_group;
    uint64_t start_ns;
};

struct tool_child_end {
    int status; /* as from wait */
    int error;  /* errno; not 0: the program could not be run */
    bool timed_out;
    uint64_t wall_ns;
    struct rusage usage; /* with that of its own children */
};

/*
 * Returns 0 when the program or the body runs. Otherwise errno: with C->pid -1
 * no process could be made, with 0 the program cannot be run. No message.
 */
int tool_child_start(struct tool_child *c, const struct tool_child_spec *what);
/* Waits for the end. LIMIT_NS after its start the child is killed; 0: never.
   END may be NULL. Nothing to do if there is no child. */
void tool_child_wait(struct tool_child *c, uint64_t limit_ns,
                     struct tool_child_end *end);
/* SIGKILL to the child or its group; tool_child_wait is still to be called. */
void tool_child_kill(const struct tool_child *c);

/* Starts and waits. false: no process could be made, a message is out. */
bool tool_child_run(const struct tool_child_spec *what, uint64_t limit_ns,
                    struct tool_child_end *end);
/* In words how it ended: "exit status 1", "ended by signal 11 (...)". */
void tool_child_end_text(const struct tool_child_end *end, char *text,
                         size_t size);

/* A file in memory for a child's output, closed on exec unless kept.
   -1: a message is out. */
int tool_child_scratch(const char *name);
/* Bytes that the file FD has; 0 if that cannot be told. */
size_t tool_child_size(int fd);
/* Reads the file FD from its beginning, up to ROOM - 1 bytes, and puts a null
   byte behind. Returns the number of bytes without it. */
size_t tool_child_read(int fd, char *text, size_t room);
/* Works as tool_child_read, for at most MAX bytes, into memory to be freed.
   NULL: out of memory, a message is out. */
char *tool_child_text(int fd, size_t max, size_t *size);

#endif
