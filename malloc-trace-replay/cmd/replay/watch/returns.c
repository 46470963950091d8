/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observer of memory that the allocator gives back to the system and takes from
 * it, for --count-returns: its calls of madvise, munmap, mmap, mprotect, mremap
 * and brk, from mark to mark.
 *
 * A seccomp filter, set at the start mark, suspends each of these calls until a
 * helper process has counted it and let it continue. So every call that reaches
 * the kernel counts, also those of the C library itself and of system call
 * instructions in the allocator, and each has its normal effect. Calls from
 * this program's code pass uncounted. Filter and helper stay until this process
 * ends.
 *
 * Why no SIGSYS trap: it would kill a thread that blocks all signals, as
 * jemalloc's background threads do. Why no interposed functions: the C
 * library's malloc calls its own by other names.
 *
 * Invariants: nothing here allocates.
 * Threads: one; the counts are written by the counting process while a call is
 * held, so the thread whose call was let go on sees them.
 */
#include "base/linux/os_mem.h"
#include "base/linux/os_syscall.h"
#include "cmd/replay/replay_options.h"
#include "cmd/replay/run/own_memory.h"
#include "cmd/replay/run/recorded_clock.h"
#include "cmd/replay/run/seccomp_filter.h"
#include "cmd/replay/watch/measure.h"
#include "cmd/replay/watch/observer.h"
#include "common/child.h"
#include "common/main.h"
#include "common/text.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Ways in which memory comes and goes, as in the report. */
enum returns_way {
    RETURNS_MADVISE, /* given back, addresses kept */
    RETURNS_MUNMAP,  /* given back with the addresses; also brk that shrinks */
    RETURNS_MMAP,    /* taken, with the right to write; also brk that grows */
    RETURNS_WAYS,
    RETURNS_NOT = RETURNS_WAYS
};

struct returns_counts {
    uint64_t calls[RETURNS_WAYS], bytes[RETURNS_WAYS];
    uint64_t resident[RETURNS_MMAP]; /* part of the bytes given back that was
                                        resident before the call */
    bool resident_unknown;
};

static struct returns {
    struct returns_counts *shared; /* with the counting process */
    struct returns_counts counts;  /* at the end mark */
    int socket;                    /* to that process; -1: none */
    const char *problem;           /* reason why nothing is counted; or NULL */
} returns_state;

#if defined(REPLAY_FILTER_ARCH) && TCM_SYSCALL_RAW

/* --- One call ------------------------------------------------------------- */

struct returns_change {
    enum returns_way way;
    uint64_t at, bytes; /* AT: address of what is given back */
    uint64_t resident;
    uint64_t break_at; /* end of the heap after the call, as asked for */
};

/* Difference of two sizes as memory taken, or given back. */
static void change_by(struct returns_change *c, uint64_t before,
                      uint64_t after) {
    c->way = after < before ? RETURNS_MUNMAP : RETURNS_MMAP;
    c->bytes = after < before ? before - after : after - before;
}

/* Returns how the call D changes memory; BREAK_AT: end of the heap before. */
static struct returns_change change_of(const struct seccomp_data *d,
                                       uint64_t break_at) {
    uint64_t page = tcm_os_page_size();
    struct returns_change c = {
        .way = RETURNS_NOT, .at = d->args[0], .break_at = break_at};
    switch (d->nr) {
    case SYS_madvise:
        c.way = RETURNS_MADVISE;
        c.bytes = d->args[1];
        break;
    case SYS_munmap:
        c.way = RETURNS_MUNMAP;
        c.bytes = d->args[1];
        break;
    case SYS_mmap:
        /* Addresses without access take no memory. */
        if (d->args[2] != PROT_NONE)
            c.way = RETURNS_MMAP;
        else if ((d->args[3] & MAP_FIXED) != 0)
            c.way = RETURNS_MUNMAP;
        c.bytes = d->args[1];
        break;
    case SYS_mprotect:
        c.way = RETURNS_MMAP;
        c.bytes = d->args[1];
        break;
    case SYS_mremap:
        change_by(&c, d->args[1], d->args[2]);
        c.at += tcm_align_up(d->args[2], page);
        break;
    case SYS_brk:
        /* 0 asks where the end is. */
        if (d->args[0] == 0 || d->args[0] == break_at)
            break;
        change_by(&c, break_at, d->args[0]);
        c.at = tcm_align_up(d->args[0], page);
        c.break_at = d->args[0];
        break;
    default:
        break;
    }
    c.bytes = tcm_align_up(c.bytes, page);
    return c;
}

/* --- The counting process ------------------------------------------------- */

/* Linux from 5.19 on. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
/* Has the waiting thread run where this process ran: Linux from 6.6 on. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, uint64_t)
#endif
#define RETURNS_SYNC_WAKE_UP 1ul

struct returns_start {
    uint64_t break_at;
};

/* Receives the descriptor of the filter, and *START. -1: none comes. */
static int receive_filter(int socket, struct returns_start *start) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = {start, sizeof(*start)};
    struct msghdr m = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    int fd = -1;
    ssize_t n;
    do
        n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    struct cmsghdr *c = n == (ssize_t)sizeof(*start) ? CMSG_FIRSTHDR(&m) : NULL;
    if (c != NULL && c->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    return fd;
}

/* True while a process has the filter FD. */
static bool is_filter_used(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, -1) > 0 && (p.revents & POLLIN) != 0;
}

/* Counts the resident pages of what the call of thread TID gives back. *PAGEMAP
   is opened at the first call; -1: not yet. */
static void change_look(struct returns_change *c, uint32_t tid, int *pagemap,
                        struct returns_counts *counts) {
    char path[64];
    if (c->way >= RETURNS_MMAP || counts->resident_unknown)
        return;
    if (*pagemap < 0) {
        snprintf(path, sizeof(path), "/proc/%u/pagemap", tid);
        *pagemap = open(path, O_RDONLY | O_CLOEXEC);
        counts->resident_unknown = *pagemap < 0;
    }
    c->resident = replay_pages_present(*pagemap, c->at, c->at + c->bytes) *
                  tcm_os_page_size();
}

static void counts_add(struct returns_counts *n,
                       const struct returns_change *c) {
    n->calls[c->way]++;
    n->bytes[c->way] += c->bytes;
    if (c->way < RETURNS_MMAP)
        n->resident[c->way] += c->resident;
}

static void counts_take_back(struct returns_counts *n,
                             const struct returns_change *c) {
    n->calls[c->way]--;
    n->bytes[c->way] -= c->bytes;
    if (c->way < RETURNS_MMAP)
        n->resident[c->way] -= c->resident;
}

/* Counts calls until the process that makes them has ended. */
static int count_main(void *state) {
    const struct returns *r = state;
    /* The kernel's structures may be longer than those it was built with. */
    union {
        struct seccomp_notif notice;
        char room[512];
    } in;
    union {
        struct seccomp_notif_resp answer;
        char room[512];
    } out;
    struct returns_start start;
    int fd = receive_filter(r->socket, &start), pagemap = -1;
    if (fd < 0)
        return 1;
    (void)ioctl(fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, RETURNS_SYNC_WAKE_UP);
    for (uint64_t break_at = start.break_at;;) {
        memset(&in, 0, sizeof(in));
        memset(&out, 0, sizeof(out));
        if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &in) != 0) {
            if (errno == EINTR || (errno == ENOENT && is_filter_used(fd)))
                continue;
            return 0;
        }
        struct returns_change c = change_of(&in.notice.data, break_at);
        change_look(&c, in.notice.pid, &pagemap, r->shared);
        out.answer.id = in.notice.id;
        out.answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        /* The thread reads the counts as soon as it is let go on. */
        if (c.way != RETURNS_NOT)
            counts_add(r->shared, &c);
        if (ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &out) == 0) {
            break_at = c.break_at;
        } else if (c.way != RETURNS_NOT) {
            /* A signal came first: the call is made again. */
            counts_take_back(r->shared, &c);
        }
    }
}

/* --- The filter ----------------------------------------------------------- */

#if defined(__GLIBC__) && __GLIBC__ == 2 && __GLIBC_MINOR__ < 34
/* This glibc gives a thread's stack back at its end, also one that the replayer
   lent, and calls this function for it. A call from here is not counted. */
int __madvise(void *start, size_t bytes, int advice);
int __madvise(void *start, size_t bytes, int advice) {
    return (int)tcm_call(madvise, start, bytes, advice);
}
#endif

/* Callback of dl_iterate_phdr, which names this program first. */
static int trust_program(struct dl_phdr_info *info, size_t size, void *filter) {
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X) != 0 &&
            !replay_filter_trust(filter, begin, begin + p->p_memsz))
            return -1;
    }
    return 1;
}

/* Leaves out calls by their argument I, unless it is one of COUNT values. */
static void filter_values(struct replay_filter *f, size_t argument,
                          const uint32_t *value, unsigned count) {
    replay_filter_load(f, argument);
    for (unsigned i = 0; i < count; i++)
        replay_filter_jump(f, BPF_JEQ, value[i], (uint8_t)(count - i), 0);
    replay_filter_end(f, SECCOMP_RET_ALLOW);
}

/* Makes the filter that holds the calls for memory. False: this program's code
   lies where it cannot be told apart. */
static bool filter_make(struct replay_filter *f) {
    static const uint32_t number[] = {SYS_madvise, SYS_munmap,   SYS_mmap,
                                      SYS_mremap,  SYS_mprotect, SYS_brk};
    /* Advice that gives memory back. */
    static const uint32_t advice[] = {MADV_DONTNEED, MADV_FREE, MADV_REMOVE,
                                      24 /* MADV_DONTNEED_LOCKED */};
    enum { NUMBERS = TCM_ARRAY_SIZE(number), ADVICE = TCM_ARRAY_SIZE(advice) };
    replay_filter_begin(f);
    for (unsigned i = 0; i < NUMBERS; i++)
        replay_filter_jump(f, BPF_JEQ, number[i], (uint8_t)(NUMBERS - i), 0);
    replay_filter_end(f, SECCOMP_RET_ALLOW);
    if (dl_iterate_phdr(trust_program, f) != 1)
        return false;
    replay_filter_load(f, REPLAY_FILTER_LOW(nr));
    replay_filter_jump(f, BPF_JEQ, SYS_madvise, 0, ADVICE + 3);
    filter_values(f, REPLAY_FILTER_LOW(args[2]), advice, ADVICE);
    replay_filter_end(f, SECCOMP_RET_USER_NOTIF);
    replay_filter_jump(f, BPF_JEQ, SYS_mprotect, 0, 4);
    replay_filter_load(f, REPLAY_FILTER_LOW(args[2]));
    replay_filter_jump(f, BPF_JSET, PROT_WRITE, 1, 0);
    replay_filter_end(f, SECCOMP_RET_ALLOW);
    replay_filter_end(f, SECCOMP_RET_USER_NOTIF);
    /* Files and stacks are no memory of the allocator. */
    replay_filter_jump(f, BPF_JEQ, SYS_mmap, 0, 4);
    replay_filter_load(f, REPLAY_FILTER_LOW(args[3]));
    replay_filter_jump(f, BPF_JSET, MAP_STACK, 1, 0);
    replay_filter_jump(f, BPF_JSET, MAP_ANONYMOUS, 1, 0);
    replay_filter_end(f, SECCOMP_RET_ALLOW);
    replay_filter_end(f, SECCOMP_RET_USER_NOTIF);
    return replay_filter_fits(f);
}

/* Applies the filter to all threads. Returns its descriptor; -1: the kernel
   refuses. */
static int filter_apply(const struct replay_filter *f) {
    const struct sock_fprog program = {(unsigned short)f->length,
                                       (struct sock_filter *)f->step};
    unsigned long flags =
        SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_TSYNC |
        SECCOMP_FILTER_FLAG_TSYNC_ESRCH | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    /* A call that is being counted is not interrupted: Linux from 5.19 on. */
    int fd = (int)tcm_syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                              flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
                              &program);
    return fd >= 0 ? fd
                   : (int)tcm_syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                      flags, &program);
}

static bool send_filter(int socket, int fd) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    /* The call that asks comes from this program. */
    struct returns_start start = {(uint64_t)tcm_syscall(SYS_brk, 0)};
    struct iovec data = {&start, sizeof(start)};
    struct msghdr m = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    memset(&control, 0, sizeof(control));
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    return sendmsg(socket, &m, MSG_NOSIGNAL) == (ssize_t)sizeof(start);
}

/* --- The observer --------------------------------------------------------- */

/* Starts the counting process. Returns the reason why there is none; or
   NULL. */
static const char *counting_begin(struct returns *r) {
    int ends[2];
    r->shared = tcm_os_map_shared(tcm_os_page_size());
    if (r->shared == NULL)
        return "out of memory";
    memset(r->shared, 0, tcm_os_page_size());
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return strerror(errno);
    /* It has a group of its own, as it must live longer than this process, also
       when a signal comes from the terminal. */
    const struct tool_child_spec what = {.body = count_main,
                                         .ctx = r,
                                         .signals = TOOL_CHILD_APART,
                                         .dies_with_parent = true,
                                         .own_group = true};
    struct tool_child child;
    r->socket = ends[1];
    int error = tool_child_start(&child, &what);
    close(ends[1]);
    r->socket = ends[0];
    return error == 0 ? NULL : strerror(error);
}

static const char *counting_start(struct returns *r) {
    static struct replay_filter f;
    if (!filter_make(&f))
        return "its own code lies across a multiple of 4 GiB";
    int fd = filter_apply(&f);
    if (fd < 0)
        return errno == EINVAL || errno == ENOSYS
                   ? "the kernel has no such filters of system calls"
                   : strerror(errno);
    if (!send_filter(r->socket, fd)) {
        /* Each call for memory would fail from here on. */
        tool_error("--count-returns: the counting process has ended");
        _exit(TOOL_FAILED);
    }
    close(fd);
    replay_clock_count_calls();
    return NULL;
}

#else

static const char *counting_begin(struct returns *r) {
    (void)r;
    return "not in this build, which has sanitizers or is for another "
           "processor";
}

static const char *counting_start(struct returns *r) {
    return r->problem;
}

#endif

static bool returns_begin(struct replay_watch *w, void **state) {
    struct returns *r = &returns_state;
    if (!w->options->count_returns)
        return true;
    *state = r;
    r->socket = -1;
    r->problem = counting_begin(r);
    if (r->shared != NULL) {
        replay_own_note(r->shared, tcm_os_page_size());
        w->bytes += tcm_os_page_size();
    }
    return true;
}

static void returns_start(struct replay_watch *w, void *state) {
    struct returns *r = state;
    (void)w;
    if (r->problem == NULL)
        r->problem = counting_start(r);
}

static void returns_end(struct replay_watch *w, void *state) {
    struct returns *r = state;
    (void)w;
    if (r->problem == NULL)
        r->counts = *r->shared;
}

static int returns_tell(struct replay_watch *w, void *state, int status) {
    const struct returns *r = state;
    (void)w;
    if (r->problem != NULL)
        tool_warn("--count-returns: calls for memory cannot be counted: %s",
                  r->problem);
    return status;
}

static void returns_print(const struct replay_watch *w, const void *state,
                          FILE *out) {
    const struct returns *r = state;
    const struct returns_counts *n = &r->counts;
    struct tool_text a, b;
    (void)w;
    if (r->problem != NULL)
        return;
    fprintf(out, "given back        %s by %s madvise, ",
            tool_text_bytes(&a, n->bytes[RETURNS_MADVISE]),
            tool_text_count(&b, n->calls[RETURNS_MADVISE]));
    fprintf(out, "%s by %s munmap\n",
            tool_text_bytes(&a, n->bytes[RETURNS_MUNMAP]),
            tool_text_count(&b, n->calls[RETURNS_MUNMAP]));
    if (!n->resident_unknown)
        fprintf(out, "of that           %s and %s were resident\n",
                tool_text_bytes(&a, n->resident[RETURNS_MADVISE]),
                tool_text_bytes(&b, n->resident[RETURNS_MUNMAP]));
    fprintf(out, "taken             %s by %s mmap\n",
            tool_text_bytes(&a, n->bytes[RETURNS_MMAP]),
            tool_text_count(&b, n->calls[RETURNS_MMAP]));
}

static void returns_json(const struct replay_watch *w, const void *state,
                         struct tool_json *j) {
    const struct returns *r = state;
    const struct returns_counts *n = &r->counts;
    (void)w;
    if (r->problem != NULL)
        return;
    tool_json_u64(j, "madvise_calls", n->calls[RETURNS_MADVISE]);
    tool_json_u64(j, "madvise_bytes", n->bytes[RETURNS_MADVISE]);
    tool_json_u64(j, "munmap_calls", n->calls[RETURNS_MUNMAP]);
    tool_json_u64(j, "munmap_bytes", n->bytes[RETURNS_MUNMAP]);
    if (!n->resident_unknown) {
        tool_json_u64(j, "madvise_resident_bytes",
                      n->resident[RETURNS_MADVISE]);
        tool_json_u64(j, "munmap_resident_bytes", n->resident[RETURNS_MUNMAP]);
    }
    tool_json_u64(j, "mmap_calls", n->calls[RETURNS_MMAP]);
    tool_json_u64(j, "mmap_bytes", n->bytes[RETURNS_MMAP]);
}

const struct replay_observer replay_returns_observer = {
    .begin = returns_begin,
    .start = returns_start,
    .end = returns_end,
    .tell = returns_tell,
    .print = returns_print,
    .json = returns_json,
};
