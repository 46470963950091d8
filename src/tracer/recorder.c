/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder's memory, its mark of threads that are inside, and its messages.
 */
#include "tracer/recorder.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/fmt.h"
#include "base/linux/os_file.h"
#include "base/linux/os_libc.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_syscall.h"
#include "base/linux/os_thread.h"
#include "sites/site_settings.h"
#include "traceformat/raw_writer.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

struct mtr_config mtr_config = {.token_end = MTR_TOKEN_LIVE | 1};

/* Control words before set-up: events go to the static buffer. Never
   written. */
static struct mtr_control control_early = {
    .recording = 1, .early = 1, .known = 1};
struct mtr_control *mtr_control = &control_early;

struct mtr_recorder *mtr_recorder;

struct mtr_thread mtr_no_thread;
TCM_TLS uint32_t mtr_inside;
TCM_TLS uint8_t mtr_inside_freeing;
TCM_TLS uint8_t mtr_freeing;

/* The kernel cannot zero pages in children: the fork handler does. */
static bool wipe_by_hand;

/* --- Memory -------------------------------------------------------------- */

struct mtr_recorder *mtr_recorder_get(void) {
    struct mtr_recorder *rec = tcm_load_acquire(&mtr_recorder);
    size_t bytes =
        tcm_align_up(sizeof(struct mtr_recorder), tcm_os_page_size());
    if (rec != NULL)
        return rec;
    struct mtr_recorder *fresh = tcm_os_map(bytes);
    if (fresh == NULL)
        return NULL;
    if (!tcm_os_wipe_on_fork(fresh, bytes))
        wipe_by_hand = true;
    fresh->pid = tcm_os_pid();
    fresh->control.known = 1;
    /* Publishes a zeroed record; pairs with the loads of mtr_recorder. */
    if (tcm_cas_acq_rel(&mtr_recorder, &rec, fresh))
        return fresh;
    tcm_os_unmap(fresh, bytes);
    return rec;
}

void mtr_recorder_wipe(struct mtr_recorder *rec) {
    if (wipe_by_hand)
        memset(rec, 0, sizeof(*rec));
}

/* --- The mark ------------------------------------------------------------- */

/* True if a jump has left the marked function. If the thread holds a lock of
   the library, the jump has left it locked, and the recorder cannot be entered.
   A confined process may not ask for its signal stack. */
static bool was_left_by_jump(uint32_t frame) {
    stack_t stack;
    return (int32_t)(frame - mtr_inside) >= 0 && tcm_locks_held == 0 &&
           !mtr_config.confined &&
           tcm_syscall(SYS_sigaltstack, NULL, &stack) == 0 &&
           (stack.ss_flags & SS_ONSTACK) == 0;
}

bool mtr_is_inside(uint32_t frame) {
    int saved = errno;
    if (TCM_LIKELY(mtr_inside == 0))
        return false;
    if (was_left_by_jump(frame)) {
        TCM_ASSERT(mtr_freeing >= mtr_inside_freeing);
        mtr_freeing = (uint8_t)(mtr_freeing - mtr_inside_freeing);
        mtr_inside = 0;
    }
    errno = saved;
    return mtr_inside != 0;
}

/* --- Messages ------------------------------------------------------------ */

/* Signals of a write that fails: no reader, or RLIMIT_FSIZE. */
#define WRITE_SIGNALS                                                          \
    ((uint64_t)1 << (SIGPIPE - 1) | (uint64_t)1 << (SIGXFSZ - 1))

/* Writes without a signal to the program, which might end it. */
static void write_quietly(int fd, const char *text, size_t length) {
    uint64_t mask = tcm_block_signals();
    uint64_t before = tcm_pending_signals();
    if (!tcm_io_write_all(fd, text, length))
        tcm_take_signal(tcm_pending_signals() & WRITE_SIGNALS & ~before);
    tcm_restore_signals(mask);
}

void mtr_print_stderr(const char *text, size_t length) {
    struct stat st;
    int saved = errno;
    if (length != 0 && !mtr_config.confined && tcm_fstat(2, &st) == 0 &&
        st.st_dev == mtr_config.stderr_dev &&
        st.st_ino == mtr_config.stderr_ino)
        write_quietly(2, text, length);
    errno = saved;
}

void mtr_message_flush(struct mtr_recorder *rec) {
    if (tcm_load_relaxed(&rec->message_length) == 0)
        return;
    /* Acquire: pairs with the release in mtr_fail, which publishes the text.
       Only one thread gets the length. */
    uint32_t length = tcm_swap_acq_rel(&rec->message_length, 0u);
    mtr_print_stderr(rec->message, length);
}

static const char *error_text(int error) {
    return error == TCM_EFOREIGN ? TCM_EFOREIGN_TEXT
           : error == MTR_ECUT   ? "the file was truncated"
                                 : tcm_libc_error_text(error);
}

/* Adds NAME with "?" for whatever a terminal could interpret. */
static void put_name(struct tcm_fmt *f, const char *name) {
    size_t left = 0;
    while (name[left] != '\0')
        left++;
    while (left != 0) {
        size_t n = tcm_utf8_plain_length(name, left);
        tcm_fmt_mem(f, n == 0 ? "?" : name, n == 0 ? 1 : n);
        n = n == 0 ? 1 : n;
        name += n;
        left -= n;
    }
}

size_t mtr_format_message(char *text, size_t cap, const char *problem,
                          const char *name, int error) {
    struct tcm_fmt f;
    tcm_fmt_init(&f, text, cap - 1);
    tcm_fmt_str(&f, "tcmalloc: ");
    tcm_fmt_str(&f, problem);
    if (name != NULL) {
        tcm_fmt_char(&f, ' ');
        put_name(&f, name);
    }
    if (error != 0) {
        const char *reason = error_text(error);
        tcm_fmt_str(&f, ": ");
        tcm_fmt_str(&f, reason != NULL ? reason : "error ");
        if (reason == NULL)
            tcm_fmt_u64(&f, (uint64_t)error);
    }
    TCM_ASSERT(f.len + 1 < cap);
    text[f.len] = '\n';
    text[f.len + 1] = '\0';
    return f.len + 1;
}

void mtr_warn(const char *problem, const char *name, int error) {
    char text[256];
    mtr_print_stderr(
        text, mtr_format_message(text, sizeof(text), problem, name, error));
}

size_t mtr_build_header(const struct mtr_recorder *rec, void *out,
                        const uint32_t *part, uint64_t start) {
    const struct mtr_config *c = &mtr_config;
    struct mtf_raw_header h = {
        .pid = c->self.pid,
        .parent_pid = c->parent.pid,
        .process_start = c->self.start,
        .random = rec->random,
        .parent_start = c->parent.start,
        .parent_random = c->parent.random,
        .wall_ns = rec->wall_ns,
        .start_ns = rec->start_ns,
        .first_token = mtr_token_name(rec->first_token),
        .page_size = (uint32_t)tcm_os_page_size(),
        .clock = MTF_CLOCK_MONOTONIC_NS,
        .settings =
            (uint8_t)((c->compress ? MTF_SETTING_COMPRESSED : 0) |
                      (c->drops ? MTF_SETTING_DROP : 0) |
                      (mtr_is_per_process(rec) ? MTF_SETTING_PER_PROCESS : 0) |
                      (mts_settings.mode != MTS_NO_SITES ? MTF_SETTING_SITES
                                                         : 0) |
                      (mts_settings.free_sites ? MTF_SETTING_FREE_SITES : 0) |
                      (c->present ? MTF_SETTING_LOOKS : 0)),
        .buffer_bound = c->bound_bytes,
    };
    const char *library = "libtcmalloc_minimal " TCM_VERSION;
    return mtf_raw_build_full_header(out, &h, c->executable, library,
                                     c->allocator, rec->fork, part, start);
}
