/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No thread waits for a thread that is being created, because its creation may
 * wait for a lock that the waiting thread holds. The tests hold the creator at
 * that point until the other threads are done. Behind them: entries into the
 * recorder that a signal handler interrupts, or leaves by a jump.
 */
#include "unit/tracer/recorder_test.h"

#include "base/linux/os_syscall.h"
#include "base/check.h"
#include "tracer/recorder.h"
#include "tracer/session.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that hangs is killed, and fails its test. */
#define PATIENCE_S 20

static uint32_t coming;   /* savers that were about to be created */
static uint32_t let_go;   /* 1: they may be created */
static uint32_t answered; /* times */

static void await(uint32_t *word, uint32_t least) {
    while (tcm_load_acquire(word) < least)
        usleep(200);
}

static void hold_maker(const char *label) {
    if (strcmp(label, "saver_is_coming") != 0)
        return;
    tcm_add_acq_rel(&coming, 1u);
    await(&let_go, 1);
}

static void calls(unsigned log, unsigned count) {
    struct writer w;
    writer_init(&w, log);
    for (unsigned i = 0; i < count; i++)
        writer_call(&w);
    writer_end(&w);
}

/* Fills the buffers of a lazy recording, and creates its saver. */
static void *make_saver(void *arg) {
    calls((unsigned)(uintptr_t)arg, 20000);
    return NULL;
}

static void begin(void) {
    alarm(PATIENCE_S);
    tcm_testpoint_hook = hold_maker;
    mtr_init(&test_host, false);
}

static pthread_t begin_making(void) {
    pthread_t id;
    pthread_create(&id, NULL, make_saver, (void *)(uintptr_t)1);
    await(&coming, 1);
    return id;
}

static void finish(pthread_t maker) {
    tcm_store_release(&let_go, 1u);
    pthread_join(maker, NULL);
}

/* Runs RUN in a process, and compares its trace with the log. */
static void whole(const char *what, void (*run)(void), struct found *f) {
    char name[32];
    test_begin();
    pid_t pid = test_spawn(test_path("t.%p"), run);
    int status = 0;
    waitpid(pid, &status, 0);
    tap_ok(status == 0, "%s: goes on (status %d)", what, status);
    snprintf(name, sizeof(name), "t.%d", (int)pid);
    test_read(name, 0, true, f);
    tap_ok(f->problem == NULL && f->complete && f->clean_end,
           "%s: every call, in a whole trace%s%s%s%s", what,
           f->problem == NULL ? "" : ": ", f->problem == NULL ? "" : f->text,
           f->complete ? "" : ", not complete",
           f->clean_end ? "" : ", without a clean end");
    tap_is_u64(f->footer_dropped, 0, "%s: none is dropped", what);
}

/* --- Calls that want buffers --------------------------------------------- */

static void lazy(void) {
    begin();
    pthread_t maker = begin_making();
    calls(0, 50000);
    finish(maker);
    mtr_exit();
}

/* --- The end of the program ---------------------------------------------- */

static void ends(void) {
    begin();
    (void)begin_making();
    calls(0, 50000);
    mtr_exit();
    shared->step = tcm_load_relaxed(&mtr_recorder->state);
    /* The creator's calls never return. */
    shared->thread[1].count = 0;
}

/* The log of the creating thread is not compared. */
static void ends_first(void) {
    test_begin();
    int status = test_run(test_path("t.%p"), ends);
    tap_is_u64(status, 0, "the end: the program's");
    tap_is_u64(shared->step, MTR_ENDED, "the end: the file has its footer");
    test_end();
}

/* --- End mode ------------------------------------------------------------ */

/* Makes a saver by its first call. End mode ends behind 1,000 events. */
static void *make_end_saver(void *arg) {
    (void)arg;
    calls(1, 500);
    return NULL;
}

static void end_mode(void) {
    pthread_t maker;
    begin();
    calls(0, 10);
    mtr_exit();
    pthread_create(&maker, NULL, make_end_saver, NULL);
    await(&coming, 1);
    calls(2, 300);
    finish(maker);
}

static bool refuse_threads(const char *call) {
    return strcmp(call, "pthread_create") == 0;
}

static void end_mode_without_threads(void) {
    begin();
    tcm_testpoint_hook = NULL;
    calls(0, 10);
    mtr_exit();
    tcm_testpoint_refuse = refuse_threads;
    calls(2, 300);
}

/* --- The start ----------------------------------------------------------- */

/* The output is a FIFO, which takes a saver from the first event on. */
static void fifo(void) {
    char name[512], bytes[65536];
    snprintf(name, sizeof(name), "%s.%d", test_path("t"), (int)getpid());
    if (mkfifo(name, 0600) != 0)
        _exit(1);
    begin();
    pthread_t maker = begin_making();
    calls(0, 50000);
    shared->step = 1;
    tcm_store_release(&let_go, 1u);
    pid_t reader = fork();
    if (reader == 0) {
        int from = open(name, O_RDONLY);
        int to = open(test_path("copy"), O_WRONLY | O_CREAT, 0600);
        for (ssize_t n; (n = read(from, bytes, sizeof(bytes))) > 0;)
            if (write(to, bytes, (size_t)n) != n)
                _exit(1);
        _exit(0);
    }
    pthread_join(maker, NULL);
    mtr_exit();
    tcm_syscall(SYS_exit_group, 0);
}

static void starts(void) {
    struct found f;
    test_begin();
    int status = test_run(test_path("t.%p"), fifo);
    tap_ok(status == 0 && shared->step == 1, "a start: others go on");
    for (int i = 0; i < 100 && !test_exists("copy"); i++)
        usleep(20000);
    usleep(200000);
    test_read("copy", 0, true, &f);
    tap_ok(f.problem == NULL && f.complete, "a start: every call%s%s",
           f.problem == NULL ? "" : ": ", f.problem == NULL ? "" : f.text);
    test_end();
}

/* --- Calls that free, and late ones -------------------------------------- */

static void count_answer(void) {
    answered++;
}

/* While the late lock is held no thread is created, whatever the late thread
   does: another thread may wait for it with the lock that the creation of a
   thread takes. */
static void late(void) {
    uint32_t id = 0;
    struct writer w;
    begin();
    tcm_store_release(&let_go, 1u);
    writer_init(&w, 0);
    writer_call(&w);
    for (int i = 0; i < 20000; i++) {
        struct mtr_thread *t = mtr_late_enter(&id);
        mtr_put_realloc_new(t, MTF_CALL_REALLOC, (uint64_t)i, false);
        mtr_late_leave();
    }
    shared->step = tcm_load_relaxed(&coming);
    shared->mark = mtr_freeing;
    writer_end(&w);
    mtr_exit();
}

static void freeing(void) {
    begin();
    tcm_store_release(&let_go, 1u);
    calls(0, 20000);
    mtr_flush();
    mtr_config.ensure_control = count_answer;
    mtr_config.control = true;
    mtr_freeing = 1;
    shared->step = mtr_saver_ensure(mtr_recorder);
    mtr_freeing = 0;
    shared->mark = answered;
    mtr_exit();
}

static void make_none(void) {
    struct found f;
    test_begin();
    int status = test_run(test_path("t.%p"), late);
    tap_is_u64(status, 0, "late: goes on");
    tap_is_u64(shared->step, 0, "late: no thread is made under its lock");
    tap_is_u64(shared->mark, 0, "late: nothing is freed any more");
    test_end();
    whole("freeing", freeing, &f);
    tap_is_u64(shared->step, 1, "freeing: there is a saver");
    tap_is_u64(shared->mark, 0, "freeing: no thread is made to answer");
    test_end();
}

/* --- Left by a jump ------------------------------------------------------ */

static const char *point; /* where the handler of a signal would come */
static sigjmp_buf mark;
static struct mtr_thread **interrupted;
static unsigned armed; /* the next time at the point counts */

/* The hook stays: the saver's thread reads it meanwhile. */
static bool is_at_point(const char *label) {
    return strcmp(label, point) == 0 && tcm_swap_acquire(&armed, 0u) != 0;
}

static void jump(const char *label) {
    if (is_at_point(label))
        siglongjmp(mark, 1);
}

/* On frames below those of the calls after the jump. */
static TCM_NOINLINE void call_below(struct writer *w) {
    volatile char room[4096];
    room[0] = room[4095] = 1;
    writer_call(w);
    room[1] = 1;
}

static void jumps(void) {
    static struct writer w, after;
    begin();
    tcm_testpoint_hook = jump;
    writer_init(&w, 0);
    /* A file and its saver, so that buffers change. */
    tcm_store_release(&let_go, 1u);
    for (int i = 0; i < 20000; i++)
        writer_call(&w);
    tcm_store_release(&armed, 1u);
    if (sigsetjmp(mark, 0) == 0)
        for (int i = 0; i < 20000; i++)
            call_below(&w);
    shared->step = tcm_load_relaxed(&armed) == 0;
    writer_init(&after, 1);
    after.slot = w.slot;
    for (int i = 0; i < 20000; i++)
        writer_call(&after);
    writer_end(&after);
    mtr_exit();
}

static void left_by_jump(const char *label) {
    struct found f;
    char what[64];
    point = label;
    snprintf(what, sizeof(what), "a jump at %s", label);
    whole(what, jumps, &f);
    tap_is_u64(shared->step, 1, "%s: is made", what);
    tap_ok(shared->thread[1].count > 10000, "%s: the thread records", what);
    test_end();
}

/* A call of a handler that finds its thread inside the recorder. */
static void handle(const char *label) {
    if (is_at_point(label)) {
        struct mtr_thread *slot = *interrupted;
        shared->step = mtr_enter(&slot) == NULL;
    }
}

static void handles(void) {
    static struct writer w;
    begin();
    writer_init(&w, 0);
    interrupted = &w.slot;
    tcm_testpoint_hook = handle;
    tcm_store_release(&armed, 1u);
    for (int i = 0; i < 100; i++)
        writer_call(&w);
    writer_end(&w);
    mtr_exit();
}

static void handler(void) {
    struct found f;
    char name[32];
    test_begin();
    point = "limit_set";
    pid_t pid = test_spawn(test_path("t.%p"), handles);
    waitpid(pid, NULL, 0);
    snprintf(name, sizeof(name), "t.%d", (int)pid);
    test_read(name, 0, false, &f);
    tap_is_u64(shared->step, 1, "a handler's call: is not recorded");
    tap_ok(f.problem == NULL && f.footer_dropped == 1,
           "a handler's call: is counted as dropped");
    test_end();
}

/* --- Handlers of starts and stops ---------------------------------------- */

static bool leaves; /* the handler jumps in place of exit */
static TCM_TLS bool is_program;

static void on_signal(int number) {
    (void)number;
    if (leaves)
        siglongjmp(mark, 1);
    mtr_exit();
    _exit(5);
}

static void interrupt(const char *label) {
    if (is_program && is_at_point(label))
        raise(SIGUSR1);
}

/* Starts and stops with a signal at the point. */
static void by_call(void) {
    static struct writer w;
    is_program = true;
    signal(SIGUSR1, on_signal);
    tcm_store_release(&let_go, 1u);
    begin();
    tcm_testpoint_hook = interrupt;
    writer_init(&w, 0);
    for (int i = 0; i < 100; i++)
        writer_call(&w);
    tcm_store_release(&armed, 1u);
    /* The saver may be so fast that nothing waits for it. */
    if (sigsetjmp(mark, 1) == 0)
        for (int i = 0; i < 1000 && tcm_load_relaxed(&armed) != 0; i++) {
            mtr_flush();
            mtr_stop();
            mtr_start(test_path("next"), NULL);
        }
    shared->step = tcm_load_relaxed(&armed) == 0;
    mtr_stop();
    shared->mark = mtr_start(test_path("last"), NULL) && mtr_stop();
    mtr_exit();
    _exit(leaves ? 5 : 6);
}

static void interrupted_by_call(const char *label, bool jumps) {
    test_begin();
    point = label;
    leaves = jumps;
    int status = test_run(test_path("t"), by_call);
    tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 5,
           "%s in a handler at %s: the program ends (status %d)",
           jumps ? "a jump" : "exit", label, status);
    if (status != 5 << 8)
        tap_diag("%s", test_stderr());
    if (jumps)
        tap_is_u64(shared->step << 1 | shared->mark, 3,
                   "a jump at %s: the next start and stop work", label);
    test_end();
}

static void handlers_of_calls(void) {
    static const char *const labels[] = {"round_waits", "end_awaited",
                                         "session_begun", "start_is_ready",
                                         "recording_begins"};
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(labels); i++) {
        interrupted_by_call(labels[i], false);
        interrupted_by_call(labels[i], true);
    }
}

/* --- Handlers of calls that hold a lock ---------------------------------- */

/* The handler runs when the lock is free, so whatever it does, the saver and
   other threads go on. */
static void in_lock(void) {
    static struct writer w;
    static uint32_t late_id;
    is_program = true;
    signal(SIGUSR1, on_signal);
    tcm_store_release(&let_go, 1u);
    begin();
    tcm_testpoint_hook = interrupt;
    writer_init(&w, 0);
    writer_call(&w);
    tcm_store_release(&armed, 1u);
    if (sigsetjmp(mark, 1) == 0) {
        for (int i = 0; i < 20000; i++)
            call_below(&w);
        mtr_thread_end(&w.slot);
        if (mtr_late_enter(&late_id) != NULL)
            raise(SIGUSR1);
        mtr_late_leave();
    }
    shared->step = tcm_load_relaxed(&armed) == 0;
    for (int i = 0; i < 20000; i++)
        writer_call(&w);
    uint32_t other = 0;
    shared->mark = mtr_late_enter(&other) != NULL;
    mtr_late_leave();
    mtr_exit();
    _exit(leaves ? 5 : 6);
}

static void handlers_in_locks(void) {
    static const char *const labels[] = {"pool_locked", "registry_locked",
                                         "the late lock"};
    for (unsigned i = 0; i < 2 * TCM_ARRAY_SIZE(labels); i++) {
        test_begin();
        point = labels[i / 2];
        leaves = i % 2 != 0;
        int status = test_run(test_path("t.%p"), in_lock);
        tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 5 &&
                   (!leaves || shared->mark == 1),
               "%s in a handler at %s: the program ends",
               leaves ? "a jump" : "exit", point);
        test_end();
    }
}

/* --- The child of a vfork that dies while it saves ----------------------- */

#if !defined(__SANITIZE_THREAD__)

static void die(const char *label) {
    if (is_at_point(label))
        kill(getpid(), SIGKILL);
}

static void killed_child(void) {
    static struct writer w;
    begin();
    tcm_store_release(&let_go, 1u);
    tcm_testpoint_hook = die;
    writer_init(&w, 0);
    writer_call(&w);
    tcm_store_release(&armed, 1u);
    /* The child of a vfork creates no saver, so it enlarges the spool. */
    pid_t pid = vfork();
    if (pid == 0) {
        for (int i = 0; i < 100000; i++)
            writer_call(&w);
        _exit(0);
    }
    shared->step = tcm_load_relaxed(&armed) == 0;
    for (int i = 0; i < 20000; i++)
        writer_call(&w);
    mtr_exit();
    _exit(5);
}

static void children(void) {
    test_begin();
    point = "saves_here";
    int status = test_run(test_path("t.%p"), killed_child);
    tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 5,
           "a vfork child killed while it saves: its parent goes on "
           "(status %d)",
           status);
    tap_is_u64(shared->step, 1, "a vfork child killed while it saves: it was");
    tap_ok(strstr(test_stderr(), "a process was killed") != NULL,
           "a vfork child killed while it saves: a message");
    test_end();
}
#endif

int main(void) {
    struct found f;
    whole("a lazy recording", lazy, &f);
    test_end();
    ends_first();
    whole("end mode", end_mode, &f);
    test_end();
    whole("end mode without threads", end_mode_without_threads, &f);
    test_end();
    starts();
    make_none();
    left_by_jump("pool_exchanged");
    left_by_jump("buffer_has_head");
    handler();
    handlers_of_calls();
    handlers_in_locks();
    /* The thread sanitizer's vfork is a fork. */
#if !defined(__SANITIZE_THREAD__)
    children();
#endif
    return tap_done();
}
