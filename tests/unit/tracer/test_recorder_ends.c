/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ends of recordings: kills, full buffers and disks, failures, forks,
 * events after the library's destructor.
 */
#include "unit/tracer/recorder_test.h"

#include "base/check.h"
#include "tracer/recording.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *endless(void *arg) {
    struct writer w;
    writer_init(&w, (unsigned)(uintptr_t)arg);
    while (w.log->count < LOG_CALLS - 10 && writer_call(&w))
        ;
    return NULL;
}

/* --- Kill ---------------------------------------------------------------- */

static void to_be_killed(void) {
    pthread_t id[3];
    mtr_init(&test_host, false);
    for (uintptr_t i = 0; i < 3; i++)
        pthread_create(&id[i], NULL, endless, (void *)i);
    for (;;)
        pause();
}

static void kills(void) {
    struct prng p;
    struct found f;
    prng_seed(&p, 5);
    unsigned bad = 0, unclean = 0;
    for (int i = 0; i < 8; i++) {
        test_begin();
        pid_t pid = test_spawn(test_path("t"), to_be_killed);
        while (tcm_load_acquire(&shared->thread[0].count) == 0)
            usleep(200);
        usleep((useconds_t)prng_below(&p, 40000));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        test_read("t", 1, true, &f);
        bad += f.problem != NULL;
        unclean += !f.clean_end;
        test_end();
    }
    tap_is_u64(bad, 0, "kill: file and spool have every call, once");
    tap_is_u64(unclean, 8, "kill: no clean end");
}

/* --- Full buffers -------------------------------------------------------- */

static void more_than_fits(void) {
    pthread_t id[2];
    setenv("TCMALLOC_TRACE_BUFFER_MB", "1", 1);
    setenv("TCMALLOC_TRACE_UNCOMPRESSED", "1", 1);
    mtr_init(&test_host, false);
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&id[i], NULL, endless, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(id[i], NULL);
    tcm_store_release(&shared->step, 1u);
    mtr_exit();
}

static void full_buffers(void) {
    struct found f;
    test_begin();
    const char *fifo = test_path("fifo");
    mkfifo(fifo, 0600);
    pid_t pid = test_spawn(fifo, more_than_fits);
    /* No reader: the threads fill the buffers and then stand still. */
    uint32_t last = 0, same = 0;
    while (same < 40) {
        uint32_t now = tcm_load_acquire(&shared->thread[0].count) +
                       tcm_load_acquire(&shared->thread[1].count);
        same = now != 0 && now == last ? same + 1 : 0;
        last = now;
        usleep(10000);
    }
    tap_ok(tcm_load_acquire(&shared->step) == 0 && last < 2 * LOG_CALLS - 20,
           "full: threads wait");
    int in = open(fifo, O_RDONLY), status = -1;
    int out = open(test_path("t"), O_WRONLY | O_CREAT, 0600);
    char buf[65536];
    ssize_t n;
    while ((n = read(in, buf, sizeof(buf))) > 0)
        if (write(out, buf, (size_t)n) != n)
            break;
    close(in);
    close(out);
    waitpid(pid, &status, 0);
    test_read("t", 0, true, &f);
    tap_ok(status == 0 && f.problem == NULL && f.complete && f.clean_end,
           "full: and lose nothing");
    tap_ok(f.footer_waits != 0, "full: waits are counted");
    tap_is_u64(f.waits <= f.footer_waits && f.waits != 0, 1,
               "full: in the stream too");
    tap_ok(!test_exists("fifo.spool") && test_hidden() == 0,
           "full: a FIFO has no spool");
    test_end();
}

/* --- Failures ------------------------------------------------------------ */

static void tries(void) {
    struct writer w;
    mtr_init(&test_host, false);
    writer_init(&w, 0);
    for (int i = 0; i < 50; i++)
        writer_call(&w);
    /* Events go on until the failure reaches this thread. */
    for (int i = 0; i < 1000 && mtr_is_recording(); i++) {
        writer_call(&w);
        usleep(1000);
    }
    shared->step = mtr_enter(&w.slot) == NULL && !mtr_is_recording() &&
                   w.slot == &mtr_no_thread;
    mtr_exit();
    _exit(41);
}

static bool one_line(const char *text) {
    const char *end = strchr(text, '\n');
    return end != NULL && end[1] == '\0';
}

static void failure(const char *name, const char *output) {
    int status = test_run(output, tries);
    tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 41,
           "%s: the program goes on", name);
    tap_is_u64(shared->step, 1, "%s: unrecorded", name);
    tap_diag("%s", test_stderr());
    tap_ok(one_line(test_stderr()) && strstr(test_stderr(), output) != NULL,
           "%s: one line that names it", name);
    shared->step = 0;
}

/* The saver is slow to write the footer: the end of the program awaits it. */
static void hold_last_words(const char *label) {
    if (strcmp(label, "recording_failed") == 0)
        usleep(50000);
}

static void limited(void) {
    tcm_testpoint_hook = hold_last_words;
    struct rlimit limit = {300u << 10, 300u << 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    mtr_init(&test_host, false);
    endless((void *)0);
    endless((void *)1);
    endless((void *)2);
    shared->step = !mtr_is_recording();
    mtr_exit();
    _exit(41);
}

/* A round that fails between the look of a thread that waits for it and that
   thread's sleep. */
static uint32_t waits, is_off;

static void await(const uint32_t *flag) {
    while (tcm_load_acquire(flag) == 0)
        usleep(100);
}

static void fail_while_asked(const char *label) {
    if (strcmp(label, "round_began") == 0) {
        await(&waits);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0});
    } else if (strcmp(label, "switched_off") == 0) {
        tcm_store_release(&is_off, 1u);
    } else if (strcmp(label, "round_waits") == 0) {
        tcm_store_release(&waits, 1u);
        await(&is_off);
    }
}

static void asks_for_round(void) {
    struct writer w;
    alarm(60);
    mtr_init(&test_host, false);
    writer_init(&w, 0);
    for (int i = 0; i < 50; i++)
        writer_call(&w);
    shared->step = mtr_flush();
    for (int i = 0; i < 50; i++)
        writer_call(&w);
    tcm_testpoint_hook = fail_while_asked;
    shared->step += !mtr_flush();
    shared->step += tcm_load_relaxed(&is_off);
    mtr_exit();
    _exit(41);
}

/* Threads that keep their buffers until all have got one, or none. */
#define KEEPERS (LOG_THREADS - 1)
static pthread_barrier_t all_called;

static bool refuse_maps(const char *call) {
    return strncmp(call, "mmap", 4) == 0;
}

static void *keep_buffer(void *arg) {
    struct writer w;
    writer_init(&w, (unsigned)(uintptr_t)arg);
    for (int i = 0; i < 20; i++)
        writer_call(&w);
    pthread_barrier_wait(&all_called);
    return NULL;
}

static void no_buffers(void) {
    pthread_t id[KEEPERS];
    struct writer w;
    alarm(60);
    /* The spool does not fit: each few buffers take a mapping. */
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){32u << 10, 32u << 10});
    pthread_barrier_init(&all_called, NULL, KEEPERS);
    mtr_init(&test_host, false);
    writer_init(&w, KEEPERS);
    writer_call(&w);
    if (!mtr_flush())
        abort();
    tcm_testpoint_refuse = refuse_maps;
    for (uintptr_t i = 0; i < KEEPERS; i++)
        pthread_create(&id[i], NULL, keep_buffer, (void *)i);
    for (int i = 0; i < KEEPERS; i++)
        pthread_join(id[i], NULL);
    shared->step = !mtr_is_recording();
    mtr_exit();
    _exit(41);
}

static void no_room_for_spool(void) {
    struct rlimit limit = {8u << 10, 8u << 10};
    struct writer w;
    setrlimit(RLIMIT_FSIZE, &limit);
    mtr_init(&test_host, false);
    writer_init(&w, 0);
    for (int i = 0; i < 300; i++)
        writer_call(&w);
    mtr_exit();
}

static void failures(void) {
    struct found f;
    test_begin();
    failure("missing folder", test_path("none/t"));
    failure("a folder", test_path("."));
    failure("full device", "/dev/full");
    failure("bad descriptor", "/dev/fd/77");
    tap_is_u64(test_hidden(), 0, "failures: no temporary file is left");
    test_end();

    test_begin();
    int status = test_run(test_path("t"), asks_for_round);
    tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 41 && shared->step == 3,
           "a thread that waits for a round learns that the recording failed");
    shared->step = 0;
    test_end();

    test_begin();
    status = test_run(test_path("t"), no_buffers);
    tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 41 && shared->step == 1,
           "no memory for buffers: the program goes on");
    shared->step = 0;
    test_read("t", 0, false, &f);
    tap_ok(f.problem == NULL && f.events != 0,
           "no memory for buffers: what threads with a buffer did is there");
    tap_is_u64(f.end_reason, MTF_END_FORCED, "no memory for buffers: says why");
    tap_ok(one_line(test_stderr()), "no memory for buffers: one line");
    test_end();

    test_begin();
    status = test_run(test_path("t"), limited);
    tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 41 && shared->step == 1,
           "file size limit: the program goes on");
    test_read("t", 0, false, &f);
    tap_ok(f.problem == NULL && f.events > 10000,
           "file size limit: what was written is right");
    tap_diag("%llu gaps", (unsigned long long)f.gaps);
    tap_is_u64(f.end_reason, MTF_END_FORCED, "file size limit: says why");
    tap_ok(!f.complete, "file size limit: not complete");
    tap_ok(one_line(test_stderr()), "file size limit: one line");
    test_end();

    test_begin();
    tap_is_i64(test_run(test_path("t"), no_room_for_spool), 0,
               "no spool: the child ends");
    test_read("t", 0, true, &f);
    tap_ok(f.problem == NULL && f.complete && f.clean_end,
           "no spool: recorded all the same");
    tap_is_u64(f.notices[MTF_NOTICE_NO_SPOOL], 1, "no spool: a notice");
    tap_is_str(test_stderr(), "", "no spool: nothing is said");
    test_end();
}

/* --- End mode ------------------------------------------------------------ */

static uint32_t late_calls;

static void after_the_end(void) {
    struct writer w;
    mtr_init(&test_host, false);
    writer_init(&w, 0);
    for (int i = 0; i < 100; i++)
        writer_call(&w);
    mtr_exit();
    for (uint32_t i = 0; i < late_calls; i++)
        writer_alloc(&w, MTF_CALL_MALLOC, i);
    kill(getpid(), SIGKILL);
}

static void end_mode(uint32_t calls, bool spool) {
    struct found f;
    late_calls = calls;
    test_begin();
    test_run(test_path("t"), after_the_end);
    test_read("t", 0, true, &f);
    tap_ok(f.problem == NULL && f.complete, "%u events after the end", calls);
    tap_ok(test_exists("t.spool") == spool, "%u events: %s spool", calls,
           spool ? "a new" : "no");
    tap_is_u64(f.notices[MTF_NOTICE_END_MODE], spool, "%u events: the notice",
               calls);
    test_end();
}

/* --- A kill in the middle of a write -------------------------------------- */

static off_t length_of(const char *name) {
    struct stat st;
    return stat(test_path(name), &st) == 0 ? st.st_size : -1;
}

static void shorten(const char *name, off_t length) {
    if (truncate(test_path(name), length) != 0)
        tap_bail("cannot cut %s", name);
}

/* Cuts the trace of events after the end as kills in the middle of their writes
   would, and between. */
static void torn_writes(const char *plain) {
    struct found f;
    unsigned kills = 0, whole = 0, cuts = 0, told = 0;
    uint64_t before = UINT64_MAX;
    late_calls = 900;
    test_begin();
    setenv("TCMALLOC_TRACE_UNCOMPRESSED", plain, 1);
    test_run(test_path("t"), after_the_end);
    unsetenv("TCMALLOC_TRACE_UNCOMPRESSED");
    for (off_t n = length_of("t"); n > 64 << 10; n--) {
        shorten("t", n);
        bool is_kill = n % MTF_WRITE_UNIT == 0;
        if (!is_kill && n % 97 != 0)
            continue;
        test_read("t", 0, false, &f);
        bool ok = f.problem == NULL && f.complete && f.events <= before;
        kills += is_kill;
        whole += is_kill && ok;
        cuts += !is_kill;
        told += !is_kill && !f.complete;
        before = f.events;
    }
    tap_ok(kills > 10 && whole == kills,
           "plain=%s: %u of %u kills in a write lose nothing", plain, whole,
           kills);
    tap_ok(told > cuts * 9 / 10, "plain=%s: %u of %u other cuts are told",
           plain, told, cuts);
    test_end();
}

static void die_half_written(const char *label) {
    if (strcmp(label, "half_written") == 0)
        kill(getpid(), SIGKILL);
}

/* One round that has more bytes than one write takes. */
static void much_after_the_end(void) {
    struct writer w;
    setenv("TCMALLOC_TRACE_UNCOMPRESSED", "1", 1);
    mtr_init(&test_host, false);
    writer_init(&w, 0);
    writer_alloc(&w, MTF_CALL_MALLOC, 1);
    mtr_exit();
    tcm_testpoint_hook = die_half_written;
    for (uint32_t i = 0; i < 40000; i++)
        mtr_put_alloc(mtr_enter(&w.slot), 100000);
    mtr_leave();
    _exit(41);
}

static void half_written(void) {
    struct found f;
    test_begin();
    int status = test_run(test_path("t"), much_after_the_end);
    tap_ok(WIFSIGNALED(status), "half a round: killed");
    tap_is_u64((uint64_t)length_of("t") % MTF_WRITE_UNIT, 0,
               "half a round: ends with a page of the file");
    test_read("t", 40000, true, &f);
    tap_ok(f.problem == NULL && f.complete, "half a round: nothing is lost");
    test_end();
}

/* --- Fork ---------------------------------------------------------------- */

static long fork_raw(void) {
#if defined(__x86_64__) || defined(__aarch64__)
    return syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
#else
    return fork();
#endif
}

static long fork_with_handlers(struct mtr_thread **slot) {
    long pid = fork_raw();
    if (pid == 0)
        mtr_fork_child(slot);
    return pid;
}

static bool with_handlers;

/* Its child logs as thread 1, and leaves its state in step: 1 not recorded. */
static void forks(void) {
    struct writer w;
    mtr_init(&test_host, false);
    writer_init(&w, 0);
    for (int i = 0; i < 3000; i++)
        writer_call(&w);
    shared->mark = w.log->count;
    long pid = with_handlers ? fork_with_handlers(&w.slot) : fork_raw();
    if (pid == 0) {
        w.log = &shared->thread[1];
        /* Sets the count back, as if it had been copied before other threads of
           the parent made their last blocks. */
        mtr_config.token_end = MTR_TOKEN_LIVE | 2;
        bool recorded = writer_call(&w);
        shared->step = recorded ? 2 : 1;
        for (int i = 0; recorded && i < 30000; i++)
            writer_call(&w);
        mtr_exit();
        _exit(0);
    }
    waitpid((pid_t)pid, NULL, 0);
    for (int i = 0; i < 3000; i++)
        writer_call(&w);
    mtr_exit();
}

/* The log's threads 0 and 1 are of two processes: hides one of them. */
static void read_only(unsigned index, const char *name, struct found *f) {
    uint32_t *other = &shared->thread[1 - index].count;
    uint32_t count = *other;
    *other = 0;
    test_read(name, 0, true, f);
    *other = count;
}

static void fork_unrecorded(bool handlers) {
    struct found f;
    with_handlers = handlers;
    test_begin();
    test_run(test_path("t"), forks);
    tap_is_u64(shared->step, 1, "fork%s: the child is not recorded",
               handlers ? "" : " unseen");
    read_only(0, "t", &f);
    tap_ok(f.problem == NULL && f.complete && f.clean_end,
           "fork: the parent's recording is untouched");
    tap_ok(!test_exists("t.1") && !test_exists("t.spool"),
           "fork: no other file");
    test_end();
}

static void fork_recorded(bool handlers) {
    struct found parent, child;
    char name[2][32];
    with_handlers = handlers;
    test_begin();
    setenv("TCMALLOC_TRACE_UNCOMPRESSED", "1", 1);
    pid_t pid = test_spawn(test_path("t.%p"), forks);
    waitpid(pid, NULL, 0);
    tap_is_u64(shared->step, 2, "fork %%p%s: the child is recorded",
               handlers ? "" : " unseen");
    snprintf(name[0], sizeof(name[0]), "t.%d", pid);
    read_only(0, name[0], &parent);
    tap_ok(parent.problem == NULL && parent.complete && parent.clean_end,
           "fork %%p: the parent's trace");
    /* Ids of the child are near its parent's. */
    bool found = false;
    for (int i = 1; i < 500 && !found; i++) {
        snprintf(name[1], sizeof(name[1]), "t.%d", pid + i);
        found = test_exists(name[1]);
    }
    tap_ok(found, "fork %%p: the child's file");
    read_only(1, name[1], &child);
    tap_ok(child.problem == NULL && child.complete && child.clean_end,
           "fork %%p: the child's trace");
    tap_ok(child.header.parent_pid == parent.header.pid &&
               child.header.parent_random == parent.header.random &&
               child.header.random != parent.header.random,
           "fork %%p: which names its parent");
    uint64_t last = 0;
    for (uint32_t i = 0; i < shared->mark; i++)
        if (shared->thread[0].calls[i].token > last)
            last = shared->thread[0].calls[i].token;
    tap_ok(child.first_token > mtr_token_name(last),
           "fork %%p: its tokens are above those it inherited");
    tap_is_u64(test_hidden(), 0, "fork %%p: no temporary file is left");
    test_end();
    unsetenv("TCMALLOC_TRACE_UNCOMPRESSED");
}

static void forks_without_end(void) {
    struct writer w;
    mtr_init(&test_host, false);
    writer_init(&w, 0);
    for (int i = 0; i < 100; i++)
        writer_call(&w);
}

static void lazy(void) {
    struct found f;
    char name[32];
    test_begin();
    pid_t pid = test_spawn(test_path("t.%p"), forks_without_end);
    waitpid(pid, NULL, 0);
    snprintf(name, sizeof(name), "t.%d", pid);
    tap_ok(!test_exists(name), "lazy: no file until it is needed");
    test_read(name, 0, true, &f);
    tap_ok(f.problem == NULL && f.complete && !f.clean_end && f.events > 50,
           "lazy: the spool alone is a whole trace");
    test_end();
}

/* --- Calls that free make no thread -------------------------------------- */

static unsigned thread_count(void) {
    char line[200];
    unsigned n = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        sscanf(line, "Threads: %u", &n);
    if (f != NULL)
        fclose(f);
    return n;
}

/* More events than a lazy recording has buffers for; steps: most threads seen,
   and the threads after a call that may create one. */
static void frees_for_long(void) {
    struct writer w;
    /* A sanitizer may have a thread of its own. */
    unsigned most = 0, others = thread_count() - 1;
    mtr_init(&test_host, false);
    writer_init(&w, 0);
    writer_call(&w);
    mtr_freeing = 1;
    for (int i = 0; i < 40000; i++) {
        writer_call(&w);
        unsigned n = i % 1000 == 0 ? thread_count() : 0;
        if (n > most)
            most = n;
    }
    mtr_freeing = 0;
    if (late_calls != 0)
        mtr_exit();
    mtr_freeing = 1;
    for (uint32_t i = 0; i < late_calls; i++)
        writer_alloc(&w, MTF_CALL_MALLOC, i);
    unsigned n = thread_count();
    shared->step = (n > most ? n : most) - others;
    mtr_freeing = 0;
    if (late_calls == 0) {
        for (int i = 0; i < 10; i++)
            writer_call(&w);
        shared->mark = thread_count() - others;
        mtr_exit();
    }
}

static void frees(uint32_t calls) {
    struct found f;
    char name[32];
    late_calls = calls;
    test_begin();
    pid_t pid = test_spawn(test_path("t.%p"), frees_for_long);
    waitpid(pid, NULL, 0);
    snprintf(name, sizeof(name), "t.%d", pid);
    test_read(name, 0, true, &f);
    tap_ok(f.problem == NULL && f.complete && f.clean_end && f.dropped == 0,
           "calls that free, %u after the end: the trace is whole", calls);
    if (f.problem != NULL)
        tap_diag("%s", f.problem);
    tap_is_u64(shared->step, 1, "calls that free make no thread");
    if (calls == 0)
        tap_ok(shared->mark > 1, "one that allocates makes the saver");
    test_end();
}

/* --- Locks that nobody gives back ---------------------------------------- */

static bool is_stuck(uint64_t ns) {
    return ns < UINT64_MAX;
}

static unsigned waits_for_ever(struct mtf_account_value *out, unsigned cap) {
    (void)out, (void)cap;
    abort();
}

static size_t lists_for_ever(struct mtr_looked_block *out, size_t cap) {
    (void)out, (void)cap;
    abort();
}

static void with_stuck_heap(void) {
    static struct mtr_host host; /* outlives this function */
    struct writer w;
    host = test_host;
    host.is_stuck = is_stuck;
    host.sample = waits_for_ever;
    host.looked_blocks = lists_for_ever;
    mtr_init(&host, false);
    writer_init(&w, 0);
    for (int i = 0; i < 50; i++)
        writer_call(&w);
    mtr_exit();
}

static void stuck_heap(void) {
    struct found f;
    test_begin();
    int status = test_run(test_path("t"), with_stuck_heap);
    test_read("t", 0, true, &f);
    tap_ok(status == 0 && f.problem == NULL && f.complete && f.clean_end,
           "a recording ends without what a stuck heap would tell");
    test_end();
}

int main(void) {
    kills();
    stuck_heap();
    frees(0);
    frees(1200);
    full_buffers();
    failures();
    end_mode(0, false);
    end_mode(7, false);
    end_mode(3000, true);
    torn_writes("0");
    torn_writes("1");
    half_written();
    fork_unrecorded(true);
    fork_recorded(true);
    /* Needs a kernel that wipes memory in the child. */
    if (!tap_emulated()) {
        fork_unrecorded(false);
        fork_recorded(false);
    }
    lazy();
    return tap_done();
}
