/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observer of memory over the time of a replay, for --timeline. Moments are
 * kept in the replayer's own memory and written after the end mark. When they
 * become too many, every other one is dropped and the distance doubled.
 *
 * Where operations have times, measurements take half of the time at most.
 *
 * Invariants: a measurement allocates nothing, and is not timed.
 */
#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_mem.h"
#include "base/linux/os_file.h"
#include "cmd/replay/replay_options.h"
#include "cmd/replay/run/exec.h"
#include "cmd/replay/run/own_memory.h"
#include "cmd/replay/watch/measure.h"
#include "cmd/replay/watch/observer.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Properties of this project's libraries that divide up the bytes of the
   heap. */
static const struct {
    const char *key, *property;
} timeline_place[] = {
    {"allocated_bytes", "generic.current_allocated_bytes"},
    {"thread_cache_bytes", "tcmalloc.thread_cache_free_bytes"},
    {"transfer_cache_bytes", "tcmalloc.transfer_cache_free_bytes"},
    {"central_bytes", "tcmalloc.central_cache_free_bytes"},
    {"span_overhead_bytes", "tcmalloc.span_overhead_bytes"},
    {"free_page_bytes", "tcmalloc.pageheap_free_bytes"},
    {"released_page_bytes", "tcmalloc.pageheap_unmapped_bytes"},
    {"metadata_bytes", "tcmalloc.metadata_bytes"},
};
#define PLACES (sizeof(timeline_place) / sizeof(*timeline_place))

#define MOMENTS 512u

/* Time between two measurements, as a multiple of the time that the last one
   took, where operations have times. */
#define PACED_SHARE 1u

/* Up to this number of samples of the recorded run, each is a moment. */
#define SAMPLES_MOST (MOMENTS / 4)

struct timeline_moment {
    uint64_t operation, ns, recorded_ns;
    uint64_t live_bytes, live_blocks;
    uint64_t rss_bytes, huge_bytes, faults;
    uint64_t heap_bytes, at[PLACES];
    bool sampled; /* the next two fields are known */
    uint64_t recorded_heap_bytes, recorded_rss_bytes;
};

struct timeline {
    /* Least distance of two moments: operations, or nanoseconds of recorded
       time (is_time). 0: as many moments as there is room for. */
    uint64_t step;
    bool is_time;
    bool is_paced;
    uint64_t next_ns; /* paced: no moment before this time of the clock */
    bool has_places;
    bool has_samples;   /* samples of the recorded run */
    bool every_sample;  /* each sample is a moment */
    uint64_t heap_base; /* bytes of the heap before the start */
    uint64_t faults;    /* page faults before the first moment */
    unsigned count;
    struct timeline_moment moment[MOMENTS];
};

#define TIMELINE_BYTES tcm_align_up(sizeof(struct timeline), 65536)

static bool timeline_begin(struct replay_watch *w, void **state) {
    const struct replay_options *o = w->options;
    if (o->timeline == NULL)
        return true;
    struct timeline *t = replay_own_map(TIMELINE_BYTES);
    if (t == NULL)
        return false;
    memset(t, 0, TIMELINE_BYTES);
    w->bytes += TIMELINE_BYTES;
    t->step = o->timeline_step;
    t->is_time = o->timeline_is_time;
    t->is_paced = o->order.speed > 0;
    t->every_sample = true;
    *state = t;
    return true;
}

static void timeline_start(struct replay_watch *w, void *state) {
    struct timeline *t = state;
    t->heap_base = replay_heap_bytes(&w->exec->calls);
}

/* --- Looking -------------------------------------------------------------- */

static uint64_t faults_now(void) {
    struct rusage use;
    return getrusage(RUSAGE_SELF, &use) == 0 ? (uint64_t)use.ru_minflt : 0;
}

static bool timeline_wants(const struct replay_watch *w, const void *state,
                           const struct replay_batch *b) {
    const struct timeline *t = state;
    (void)w;
    /* The first and the last batch are always wanted. */
    if (t->count == 0 || b->last)
        return true;
    if (t->is_paced && tcm_clock_ns() < t->next_ns)
        return false;
    if ((t->every_sample && b->sampled))
        return true;
    const struct timeline_moment *m = &t->moment[t->count - 1];
    return t->is_time ? b->recorded_ns >= m->recorded_ns + t->step
                      : b->account.ops >= m->operation + t->step;
}

/* Drops every other moment, but no sample of the recorded run. */
static void timeline_thin(struct timeline *t) {
    const struct timeline_moment *m = t->moment;
    uint64_t first = t->is_time ? m[0].recorded_ns : m[0].operation;
    uint64_t last =
        t->is_time ? m[t->count - 1].recorded_ns : m[t->count - 1].operation;
    t->step = tcm_max_u64(2 * t->step, (last - first) / (MOMENTS / 2));
    unsigned samples = 0, kept = 0;
    for (unsigned i = 0; i < t->count; i++)
        samples += m[i].sampled;
    t->every_sample &= samples < SAMPLES_MOST;
    for (unsigned i = 0; i < t->count; i++)
        if (i % 2 == 0 || (t->every_sample && m[i].sampled))
            t->moment[kept++] = m[i];
    t->count = kept;
}

static void timeline_moment(struct replay_watch *w, void *state,
                            const struct replay_batch *b) {
    struct timeline *t = state;
    const struct replay_calls *calls = &w->exec->calls;
    uint64_t since_ns = tcm_clock_ns();
    if (t->count == MOMENTS) {
        timeline_thin(t);
        if (!timeline_wants(w, t, b))
            return;
    }
    TCM_ASSERT(t->count < MOMENTS);
    uint64_t faults = faults_now();
    if (t->count == 0)
        t->faults = faults;
    TCM_ASSERT(t->count == 0 ||
               t->moment[t->count - 1].operation <= b->account.ops);
    struct timeline_moment *m = &t->moment[t->count++];
    *m = (struct timeline_moment){.operation = b->account.ops,
                                  .ns = since_ns - w->start_ns,
                                  .recorded_ns = b->recorded_ns,
                                  .live_bytes = b->account.live_bytes,
                                  .live_blocks = b->account.live_blocks,
                                  .faults = faults - t->faults};
    replay_rss_read(w->rss, &m->rss_bytes, &m->huge_bytes);
    uint64_t heap = replay_heap_bytes(calls);
    m->heap_bytes = heap > t->heap_base ? heap - t->heap_base : 0;
    m->sampled = b->sampled != 0;
    m->recorded_heap_bytes = b->recorded_heap_bytes;
    m->recorded_rss_bytes = b->recorded_rss_bytes;
    t->has_samples |= m->sampled;
    for (size_t i = 0; i < PLACES && calls->property != NULL; i++) {
        size_t v;
        if (calls->property(timeline_place[i].property, &v)) {
            m->at[i] = v;
            t->has_places = true;
        }
    }
    uint64_t now = tcm_clock_ns();
    w->rss->look_ns += now - since_ns;
    t->next_ns = now + PACED_SHARE * (now - since_ns);
}

/* --- Writing -------------------------------------------------------------- */

/* A text file with a buffer of its own: that of stdio would be memory of the
   allocator under test. */
struct timeline_text {
    int fd, error;
    size_t used;
    char buffer[16 << 10];
};

static void text_flush(struct timeline_text *t) {
    if (t->error == 0 && !tcm_io_write_all(t->fd, t->buffer, t->used))
        t->error = errno;
    t->used = 0;
}

static void text_put(struct timeline_text *t, const char *text) {
    size_t n = strlen(text);
    if (n > sizeof(t->buffer) - t->used)
        text_flush(t);
    memcpy(t->buffer + t->used, text, n);
    t->used += n;
}

static void text_number(struct timeline_text *t, const char *before,
                        uint64_t n) {
    char digits[32];
    snprintf(digits, sizeof(digits), "%s%llu", before, (unsigned long long)n);
    text_put(t, digits);
}

static void write_csv(const struct timeline *t, struct timeline_text *f) {
    text_put(f, "operation,ns,recorded_ns,live_bytes,live_blocks,rss_bytes,"
                "huge_page_bytes,minor_faults");
    if (t->has_samples)
        text_put(f, ",recorded_rss_bytes,recorded_heap_bytes");
    if (t->has_places)
        text_put(f, ",heap_bytes");
    for (size_t p = 0; p < PLACES && t->has_places; p++) {
        text_put(f, ",");
        text_put(f, timeline_place[p].key);
    }
    text_put(f, "\n");
    for (unsigned i = 0; i < t->count; i++) {
        const struct timeline_moment *m = &t->moment[i];
        const uint64_t v[] = {m->operation,  m->ns,          m->recorded_ns,
                              m->live_bytes, m->live_blocks, m->rss_bytes,
                              m->huge_bytes, m->faults};
        for (size_t k = 0; k < sizeof(v) / sizeof(*v); k++)
            text_number(f, k == 0 ? "" : ",", v[k]);
        if (t->has_samples && m->sampled) {
            text_number(f, ",", m->recorded_rss_bytes);
            text_number(f, ",", m->recorded_heap_bytes);
        } else if (t->has_samples) {
            text_put(f, ",,");
        }
        if (t->has_places)
            text_number(f, ",", m->heap_bytes);
        for (size_t p = 0; p < PLACES && t->has_places; p++)
            text_number(f, ",", m->at[p]);
        text_put(f, "\n");
    }
}

static bool csv_file(const struct timeline *t, const char *name) {
    static struct timeline_text f;
    f.error = 0;
    f.used = 0;
    f.fd = tool_file_open_output(name);
    if (f.fd < 0) {
        tool_error("cannot write %s: %s", name, tool_file_error_text(errno));
        return false;
    }
    write_csv(t, &f);
    text_flush(&f);
    if (close(f.fd) != 0 && f.error == 0)
        f.error = errno;
    if (f.error != 0)
        tool_error("cannot write %s: %s", name, strerror(f.error));
    return f.error == 0;
}

static bool json_file(const struct timeline *t, const char *name) {
    static struct tool_json j;
    if (!tool_json_open(&j, name))
        return false;
    tool_json_begin_object(&j, NULL);
    tool_json_begin_array(&j, "timeline");
    for (unsigned i = 0; i < t->count; i++) {
        const struct timeline_moment *m = &t->moment[i];
        tool_json_begin_object(&j, NULL);
        tool_json_u64(&j, "operation", m->operation);
        tool_json_u64(&j, "ns", m->ns);
        tool_json_u64(&j, "recorded_ns", m->recorded_ns);
        tool_json_u64(&j, "live_bytes", m->live_bytes);
        tool_json_u64(&j, "live_blocks", m->live_blocks);
        tool_json_u64(&j, "rss_bytes", m->rss_bytes);
        tool_json_u64(&j, "huge_page_bytes", m->huge_bytes);
        tool_json_u64(&j, "minor_faults", m->faults);
        if (m->sampled) {
            tool_json_u64(&j, "recorded_rss_bytes", m->recorded_rss_bytes);
            tool_json_u64(&j, "recorded_heap_bytes", m->recorded_heap_bytes);
        }
        if (t->has_places)
            tool_json_u64(&j, "heap_bytes", m->heap_bytes);
        for (size_t p = 0; p < PLACES && t->has_places; p++)
            tool_json_u64(&j, timeline_place[p].key, m->at[p]);
        tool_json_end_object(&j);
    }
    tool_json_end_array(&j);
    tool_json_end_object(&j);
    return tool_json_close(&j);
}

static int timeline_tell(struct replay_watch *w, void *state, int status) {
    const char *name = w->options->timeline;
    size_t n = strlen(name);
    if (status == TOOL_FAILED)
        return status;
    bool is_json = n >= 5 && strcmp(name + n - 5, ".json") == 0;
    return (is_json ? json_file : csv_file)(state, name) ? status : TOOL_FAILED;
}

const struct replay_observer replay_timeline_observer = {
    .begin = timeline_begin,
    .start = timeline_start,
    .wants = timeline_wants,
    .moment = timeline_moment,
    .tell = timeline_tell,
};
