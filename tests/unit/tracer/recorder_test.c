/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/tracer/recorder_test.h"

#include "base/clock.h"
#include "tracer/stream/thread_registry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared_log *shared;
static char folder[64];

/* --- Scratch ------------------------------------------------------------- */

const char *test_begin(void) {
    snprintf(folder, sizeof(folder), "/tmp/tcm-recorder-XXXXXX");
    if (mkdtemp(folder) == NULL)
        tap_bail("no scratch folder: %s", strerror(errno));
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        tap_bail("no shared memory");
    return folder;
}

static void for_names(void (*each)(const char *name, void *arg), void *arg) {
    DIR *d = opendir(folder);
    struct dirent *e;
    while (d != NULL && (e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            each(e->d_name, arg);
    }
    if (d != NULL)
        closedir(d);
}

const char *test_path(const char *name) {
    static char path[8][320];
    static unsigned next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof(path[0]), "%s/%s", folder, name);
    return p;
}

bool test_exists(const char *name) {
    return access(test_path(name), F_OK) == 0;
}

static void count_hidden(const char *name, void *arg) {
    *(unsigned *)arg += name[0] == '.';
}

unsigned test_hidden(void) {
    unsigned n = 0;
    for_names(count_hidden, &n);
    return n;
}

static void remove_name(const char *name, void *arg) {
    (void)arg;
    const char *path = test_path(name);
    if (unlink(path) != 0)
        rmdir(path);
}

void test_end(void) {
    for_names(remove_name, NULL);
    rmdir(folder);
    munmap(shared, sizeof(*shared));
}

/* --- Processes ----------------------------------------------------------- */

pid_t test_spawn(const char *output, void (*child)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    alarm(120);
    int fd = open(test_path("stderr"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, 2);
    close(fd);
    unsetenv("TCMALLOC_TRACE_OWNER");
    if (output != NULL)
        setenv("TCMALLOC_TRACE_OUTPUT", output, 1);
    else
        unsetenv("TCMALLOC_TRACE_OUTPUT");
    child();
    _exit(0);
}

int test_run(const char *output, void (*child)(void)) {
    int status = -1;
    pid_t pid = test_spawn(output, child);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

const char *test_stderr(void) {
    static char text[2048];
    int fd = open(test_path("stderr"), O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    text[n < 0 ? 0 : n] = '\0';
    if (fd >= 0)
        close(fd);
    return text;
}

/* --- Host and writers ---------------------------------------------------- */

static void nothing(void) {
}

static void started(void) {
    shared->started_calls++;
}

static unsigned sample(struct mtf_account_value *out, unsigned cap) {
    if (cap == 0)
        return 0;
    *out = (struct mtf_account_value){MTF_ACCOUNT_SPANS_MADE, 12345};
    return 1;
}

static bool never_stuck(uint64_t ns) {
    (void)ns;
    return false;
}

static size_t looked_blocks(struct mtr_looked_block *out, size_t cap) {
    (void)out, (void)cap;
    return 0;
}

const struct mtr_host test_host = {
    .enter_private = nothing,
    .leave_private = nothing,
    .recording_started = started,
    .sample = sample,
    .is_stuck = never_stuck,
    .looked_blocks = looked_blocks,
};

void writer_init(struct writer *w, unsigned log_index) {
    memset(w, 0, sizeof(*w));
    w->slot = &mtr_no_thread;
    w->log = &shared->thread[log_index];
    prng_seed(&w->prng, 1000 + log_index);
}

static void log_call(struct writer *w, struct logged call) {
    w->log->id = w->slot->cold->id;
    call.token = mtr_token_name(call.token);
    call.old = mtr_token_name(call.old);
    w->log->calls[w->log->count] = call;
    tcm_store_release(&w->log->count, w->log->count + 1);
}

/* True for a call that is dropped; the log says only that. */
static bool is_dropped(struct writer *w, struct mtr_thread *t) {
    if (!mtr_drops(t))
        return false;
    mtr_count_dropped(t);
    tcm_store_relaxed(&w->log->dropped, w->log->dropped + 1);
    mtr_leave();
    return true;
}

bool writer_alloc(struct writer *w, enum mtf_call call, uint64_t size) {
    struct mtr_thread *t = w->slot;
    if (t->pos >= tcm_load_relaxed(&t->limit) || t->alloc_call != call) {
        t = mtr_enter(&w->slot);
        if (t == NULL)
            return false;
        if (is_dropped(w, t))
            return false;
        if (t->alloc_call != call)
            mtr_put_alloc_call(t, call);
    }
    uint64_t token = mtr_put_alloc(t, size);
    log_call(w, (struct logged){.kind = MTF_EVENT_ALLOC,
                                .call = (uint8_t)call,
                                .size = size,
                                .token = token});
    mtr_leave();
    w->live[prng_below(&w->prng, 256)] = token;
    return true;
}

bool writer_free(struct writer *w, uint64_t token) {
    struct mtr_thread *t = w->slot;
    if (t->pos >= tcm_load_relaxed(&t->limit) ||
        t->free_call != MTF_CALL_FREE) {
        t = mtr_enter(&w->slot);
        if (t == NULL)
            return false;
        if (is_dropped(w, t))
            return false;
        if (t->free_call != MTF_CALL_FREE)
            mtr_put_free_call(t, MTF_CALL_FREE);
    }
    mtr_put_free(t, token);
    log_call(w, (struct logged){.kind = MTF_EVENT_FREE,
                                .call = MTF_CALL_FREE,
                                .old = token});
    mtr_leave();
    return true;
}

static uint64_t take_live(struct writer *w) {
    uint64_t *slot = &w->live[prng_below(&w->prng, 256)];
    uint64_t token = *slot;
    *slot = 0;
    return token;
}

static bool rare_call(struct writer *w) {
    struct logged c = {.size = prng_below(&w->prng, 1u << 20)};
    uint64_t kind = prng_below(&w->prng, 8);
    struct mtr_thread *t = mtr_enter(&w->slot);
    if (t == NULL)
        return false;
    uint64_t old = take_live(w);
    /* Also in a gap. */
    if (kind == 7) {
        mtr_put_time(t, tcm_clock_ns());
        mtr_count_untraced_free(t);
        w->log->untraced++;
        mtr_leave();
        return true;
    }
    if (is_dropped(w, t))
        return false;
    if (old == 0 && (kind == 2 || kind == 4 || kind == 5))
        kind = 0;
    switch (kind) {
    case 0:
    case 1:
        c.kind = MTF_EVENT_ALIGNED;
        c.call = MTF_CALL_POSIX_MEMALIGN;
        c.align_log2 = (uint8_t)prng_below(&w->prng, 20);
        c.token = mtr_put_aligned(t, c.call, c.size, c.align_log2);
        break;
    case 2:
        c.kind = MTF_EVENT_REALLOC;
        c.call =
            prng_below(&w->prng, 2) ? MTF_CALL_REALLOC : MTF_CALL_REALLOCARRAY;
        c.flags = prng_below(&w->prng, 2) ? MTF_EVENT_MOVED : 0;
        c.old = old;
        c.token = mtr_put_realloc(t, c.call, c.size, old, c.flags != 0);
        break;
    case 3:
        c.kind = MTF_EVENT_REALLOC_NEW;
        c.call = MTF_CALL_REALLOC;
        c.flags = prng_below(&w->prng, 2) ? MTF_EVENT_OLD_UNKNOWN : 0;
        c.token = mtr_put_realloc_new(t, c.call, c.size, c.flags != 0);
        break;
    case 4:
        c.kind = MTF_EVENT_REALLOC_END;
        c.call = MTF_CALL_REALLOC;
        c.size = 0;
        c.old = old;
        mtr_put_realloc_end(t, c.call, old);
        break;
    case 5:
        c.kind = MTF_EVENT_FREE_SIZE;
        c.call = MTF_CALL_DELETE_SIZED;
        c.old = old;
        mtr_put_free_size(t, c.call, old, c.size);
        break;
    default:
        c.kind = MTF_EVENT_FAILED;
        c.call = MTF_CALL_CALLOC;
        c.size = UINT64_MAX - c.size;
        mtr_put_failed(t, c.call, c.size, 0, 0);
        break;
    }
    log_call(w, c);
    mtr_leave();
    return true;
}

bool writer_call(struct writer *w) {
    uint64_t r = prng_below(&w->prng, 100);
    if (r < 4)
        return rare_call(w);
    if (r < 52)
        return writer_alloc(w, r < 40 ? MTF_CALL_MALLOC : MTF_CALL_NEW_ARRAY,
                            prng_below(&w->prng, 8) == 0
                                ? prng_next(&w->prng) >> 20
                                : prng_below(&w->prng, 1000));
    uint64_t token = take_live(w);
    return token == 0 || writer_free(w, token);
}

void writer_end(struct writer *w) {
    mtr_thread_end(&w->slot);
    w->log->ended = true;
}

/* --- Reading back -------------------------------------------------------- */

struct stream {
    struct mtf_stream place;
    struct log_thread *log;
    uint32_t id;
    uint32_t at;
    uint64_t untraced;
    uint64_t last_hi;
};

struct reading {
    struct found *found;
    struct stream *stream;
    unsigned streams;
    unsigned slack;
    bool exact;
    uint64_t barrier;
};

static void disagree(struct reading *r, const char *what, uint64_t a,
                     uint64_t b) {
    if (r->found->problem != NULL)
        return;
    snprintf(r->found->text, sizeof(r->found->text), "%s: %llu, %llu", what,
             (unsigned long long)a, (unsigned long long)b);
    r->found->problem = r->found->text;
}

static struct stream *find_stream(struct reading *r, uint32_t id) {
    for (unsigned i = 0; i < r->streams; i++) {
        if (r->stream[i].id == id)
            return &r->stream[i];
    }
    if ((r->streams & (r->streams - 1)) == 0)
        r->stream =
            realloc(r->stream, (2 * r->streams + 1) * sizeof(*r->stream));
    struct stream *s = &r->stream[r->streams++];
    memset(s, 0, sizeof(*s));
    s->id = id;
    mtf_stream_init(&s->place);
    for (unsigned i = 0; i < LOG_THREADS; i++) {
        if (shared->thread[i].id == id && shared->thread[i].count != 0)
            s->log = &shared->thread[i];
    }
    return s;
}

static void compare(struct reading *r, struct stream *s,
                    const struct mtf_event *e) {
    r->found->events++;
    r->found->mallocs += e->kind == MTF_EVENT_ALLOC;
    r->found->frees += e->kind == MTF_EVENT_FREE;
    if (s->log == NULL)
        return;
    uint32_t at = s->at++;
    if (at >= s->log->count) {
        if (at >= s->log->count + r->slack)
            disagree(r, "a call that was not made", s->id, at);
        return;
    }
    const struct logged *c = &s->log->calls[at];
    bool makes = c->token != 0, ends = c->old != 0;
    if (c->kind != e->kind || c->call != e->call)
        disagree(r, "another kind of call", s->id, at);
    else if (c->kind != MTF_EVENT_FREE && c->kind != MTF_EVENT_REALLOC_END &&
             c->size != e->size)
        disagree(r, "another size", c->size, e->size);
    else if (makes && c->token != e->token)
        disagree(r, "another token", c->token, e->token);
    else if (ends && c->old != e->old_token)
        disagree(r, "another old token", c->old, e->old_token);
    else if ((c->kind == MTF_EVENT_REALLOC ||
              c->kind == MTF_EVENT_REALLOC_NEW) &&
             c->flags != e->flags)
        disagree(r, "other flags", c->flags, e->flags);
    else if (c->kind == MTF_EVENT_ALIGNED && c->align_log2 != e->align_log2)
        disagree(r, "another alignment", c->align_log2, e->align_log2);
}

static void found_gap(struct found *found, const struct mtf_event *e) {
    found->drop_gaps++;
    found->dropped += e->value;
    found->backward_gaps += e->time_ns > e->time_hi;
}

static void read_events(struct reading *r, struct stream *s,
                        const struct mtf_item *item) {
    struct mtf_placement part;
    mtf_stream_place(&s->place, item, &part);
    if (part.gap != 0 || part.undecodable != 0) {
        r->found->gaps++;
        s->log = NULL;
        if (r->exact)
            disagree(r, "a gap in the stream", s->id, item->offset);
    }
    const uint8_t *p = part.data, *end = part.data + part.length;
    while (p < end) {
        struct mtf_event e;
        memset(&e, 0, sizeof(e));
        int n = mtf_raw_decode(&s->place.state, p, end, &e);
        if (n == MTF_DECODE_END)
            break;
        if (n < 0) {
            disagree(r, "bytes that are no event", s->id,
                     item->offset + (uint64_t)(p - part.data));
            break;
        }
        p += n;
        if (e.kind <= MTF_EVENT_FAILED)
            compare(r, s, &e);
        else if (e.kind == MTF_EVENT_THREAD_START)
            r->found->thread_starts++;
        else if (e.kind == MTF_EVENT_GAP)
            found_gap(r->found, &e);
        else if (e.kind == MTF_EVENT_THREAD_END)
            r->found->thread_ends++;
        else if (e.kind == MTF_EVENT_UNTRACED)
            r->found->untraced_events += e.value;
        else if ((e.kind == MTF_EVENT_TIME || e.kind == MTF_EVENT_BUFFER) &&
                 e.time_ns > item->time_hi)
            disagree(r, "a time after its segment's", e.time_ns, item->time_hi);
    }
}

static void read_data(struct reading *r, const struct mtf_item *item) {
    struct stream *s = find_stream(r, item->thread);
    if (item->time_lo > item->time_hi)
        disagree(r, "time runs backwards", item->time_lo, item->time_hi);
    if (!item->from_spool && item->time_hi <= r->barrier)
        disagree(r, "a segment that belongs before its barrier", item->time_hi,
                 r->barrier);
    read_events(r, s, item);
}

static void read_footer(struct reading *r, const struct mtf_item *item) {
    struct mtf_account_value a;
    r->found->footers++;
    for (unsigned i = 0; mtf_item_account(item, i, &a); i++) {
        if (a.field == MTF_ACCOUNT_EVENTS)
            r->found->footer_events = a.value;
        else if (a.field == MTF_ACCOUNT_DROPPED_EVENTS)
            r->found->footer_dropped = a.value;
        else if (a.field == MTF_ACCOUNT_UNTRACED_FREES)
            r->found->footer_untraced = a.value;
        else if (a.field == MTF_ACCOUNT_WAITS)
            r->found->footer_waits = a.value;
        else if (a.field == MTF_ACCOUNT_THREADS)
            r->found->footer_threads = a.value;
        else if (a.field == MTF_ACCOUNT_END_REASON)
            r->found->end_reason = a.value;
    }
}

static void finish_streams(struct reading *r) {
    for (unsigned i = 0; i < r->streams; i++) {
        struct stream *s = &r->stream[i];
        r->found->untraced += s->place.state.untraced_frees;
        r->found->waits += s->place.state.waits;
        if (s->log != NULL && r->exact && s->at < s->log->count)
            disagree(r, "calls that are missing", s->at, s->log->count);
    }
    for (unsigned i = 0; r->exact && i < LOG_THREADS; i++) {
        if (shared->thread[i].count != 0 &&
            find_stream(r, shared->thread[i].id)->at == 0)
            disagree(r, "a thread is missing", shared->thread[i].id, 0);
    }
}

void test_read(const char *name, unsigned slack, bool exact,
               struct found *found) {
    struct reading r = {.found = found, .slack = slack, .exact = exact};
    struct mtf_item item;
    memset(found, 0, sizeof(*found));
    struct tool_raw *t = tool_raw_open(test_path(name));
    for (;;) {
        tool_raw_next(t, &item);
        if (item.kind == MTF_ITEM_END || item.kind == MTF_ITEM_FAILED)
            break;
        found->opened = true;
        if (item.kind == MTF_ITEM_HEADER) {
            found->header = item.info->fixed;
            found->first_token = item.info->fixed.first_token;
        } else if (item.kind == MTF_ITEM_DATA) {
            read_data(&r, &item);
        } else if (item.kind == MTF_ITEM_BARRIER) {
            found->barriers++;
            if (item.time_lo < r.barrier)
                disagree(&r, "barriers run backwards", 0, 0);
            r.barrier = item.time_lo;
        } else if (item.kind == MTF_ITEM_SAMPLE) {
            found->samples++;
        } else if (item.kind == MTF_ITEM_NOTICE) {
            found->notices[item.number & 7]++;
        } else if (item.kind == MTF_ITEM_FOOTER) {
            read_footer(&r, &item);
        }
    }
    if (item.kind == MTF_ITEM_END) {
        found->complete = tool_raw_complete(t);
        found->clean_end = tool_raw_clean_end(t);
    }
    finish_streams(&r);
    found->all_dropped =
        tool_raw_in_all(t, MTF_ACCOUNT_DROPPED_EVENTS, found->dropped);
    found->all_untraced =
        tool_raw_in_all(t, MTF_ACCOUNT_UNTRACED_FREES, found->untraced);
    if (found->problem != NULL)
        tap_diag("%s: %s", name, found->problem);
    tool_raw_close(t);
    free(r.stream);
}

/* --- Events alone -------------------------------------------------------- */

/* Threads end all the time: any number of streams is possible. */
struct known_stream {
    uint32_t id;
    struct mtf_stream stream;
};

static struct mtf_stream *stream_of(struct event_walk *w, uint32_t id) {
    for (size_t i = w->count; i-- > 0;) {
        if (w->known[i].id == id)
            return &w->known[i].stream;
    }
    if ((w->count & (w->count - 1)) == 0)
        w->known = realloc(w->known, (2 * w->count + 1) * sizeof(*w->known));
    struct known_stream *s = &w->known[w->count++];
    s->id = id;
    if (w->begins_late)
        mtf_stream_init_late(&s->stream);
    else
        mtf_stream_init(&s->stream);
    return &s->stream;
}

void test_walk_begin(struct event_walk *w, const char *name, bool begins_late) {
    memset(w, 0, sizeof(*w));
    w->begins_late = begins_late;
    w->trace = tool_raw_open(test_path(name));
}

/* The next segment of events. */
static bool walk_segment(struct event_walk *w) {
    for (;;) {
        tool_raw_next(w->trace, &w->item);
        switch (w->item.kind) {
        case MTF_ITEM_END:
        case MTF_ITEM_FAILED:
            return false;
        case MTF_ITEM_HEADER:
            w->first_token = w->item.info->fixed.first_token;
            break;
        case MTF_ITEM_BARRIER:
            w->barriers++;
            w->barrier_ns = w->item.time_lo;
            break;
        case MTF_ITEM_DATA:
            w->stream = stream_of(w, w->item.thread);
            mtf_stream_place(w->stream, &w->item, &w->part);
            w->bad += w->part.gap != 0 || w->part.undecodable != 0 ||
                      w->part.before != 0;
            w->doubled += w->part.doubled;
            w->at = 0;
            return true;
        default:
            break;
        }
    }
}

bool test_walk_next(struct event_walk *w, struct mtf_event *e) {
    for (;;) {
        if (w->at < w->part.length) {
            memset(e, 0, sizeof(*e));
            int n = mtf_raw_decode(&w->stream->state, w->part.data + w->at,
                                   w->part.data + w->part.length, e);
            w->bad += n < 0;
            if (n > 0) {
                w->first = w->at == 0;
                w->at += (size_t)n;
                return true;
            }
        }
        if (!walk_segment(w))
            return false;
    }
}

bool test_walk_end(struct event_walk *w) {
    bool whole = tool_raw_complete(w->trace) && tool_raw_clean_end(w->trace);
    tool_raw_close(w->trace);
    free(w->known);
    return whole;
}
