/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/watch/observer.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "cmd/replay/replay_options.h"
#include "cmd/replay/run/recorded_clock.h"
#include "cmd/replay/watch/measure.h"
#include "common/main.h"
#include "common/stop.h"

#define OBSERVER_ADDRESS(name) &replay_##name##_observer,
static const struct replay_observer *const observers[REPLAY_OBSERVER_COUNT] = {
    REPLAY_OBSERVERS(OBSERVER_ADDRESS)};

bool replay_watch_begin(struct replay_watch *w) {
    for (unsigned i = REPLAY_OBSERVER_COUNT; i-- != 0;) {
        TCM_ASSERT(w->state[i] == NULL);
        if (!observers[i]->begin(w, &w->state[i]))
            return tool_out_of_memory();
    }
    return true;
}

void replay_watch_start(struct replay_watch *w) {
    TCM_ASSERT(w->own_bytes >= w->bytes);
    for (unsigned i = REPLAY_OBSERVER_COUNT; i-- != 0;)
        if (w->state[i] != NULL && observers[i]->start != NULL)
            observers[i]->start(w, w->state[i]);
}

void replay_watch_batch(struct replay_watch *w, const struct replay_batch *b) {
    for (unsigned i = 0; i < REPLAY_OBSERVER_COUNT; i++)
        if (w->state[i] != NULL && observers[i]->batch != NULL)
            observers[i]->batch(w, w->state[i], b);
}

static bool wants_moment(const struct replay_watch *w, unsigned i,
                         const struct replay_batch *b) {
    return w->state[i] != NULL && observers[i]->wants != NULL &&
           observers[i]->wants(w, w->state[i], b);
}

bool replay_watch_wants(const struct replay_watch *w,
                        const struct replay_batch *b) {
    for (unsigned i = 0; b->is_state && i < REPLAY_OBSERVER_COUNT; i++)
        if (wants_moment(w, i, b))
            return true;
    return false;
}

void replay_watch_moment(struct replay_watch *w, const struct replay_batch *b) {
    TCM_ASSERT(b->is_state);
    for (unsigned i = 0; i < REPLAY_OBSERVER_COUNT; i++)
        if (w->state[i] != NULL && observers[i]->moment != NULL &&
            (observers[i]->wants == NULL || observers[i]->takes_any ||
             wants_moment(w, i, b)))
            observers[i]->moment(w, w->state[i], b);
}

/* Least pause with moments within, and how many. */
#define PAUSE_NS      20000000u
#define PAUSE_MOMENTS 64

void replay_watch_pass(struct replay_watch *w, const struct replay_batch *last,
                       uint64_t from_ns, uint64_t to_ns) {
    static struct replay_batch moment; /* all but the head is zero */
    uint64_t pause = to_ns > from_ns ? to_ns - from_ns : 0;
    uint64_t step = pause;
    if (pause >= PAUSE_NS && last != NULL) {
        step = tcm_max_u64(pause / PAUSE_MOMENTS, PAUSE_NS / 2);
        replay_batch_copy_head(&moment, last);
        moment.sampled = moment.last = 0;
    }
    replay_clock_settle();
    for (uint64_t at = from_ns; at < to_ns;) {
        uint64_t next = tcm_min_u64(at + step, to_ns);
        replay_clock_advance(next);
        replay_rss_passed(w->rss, next - at);
        at = next;
        moment.recorded_ns = at;
        if (step < pause && at < to_ns)
            replay_watch_moment(w, &moment);
    }
}

/* Time of the replay, in which measurements of memory take none. */
static uint64_t paced_ns(const struct replay_watch *w) {
    return tcm_clock_ns() - w->start_ns - w->rss->look_ns;
}

bool replay_watch_pauses(const struct replay_watch *w, uint64_t due_ns) {
    return w->rss->is_paced && due_ns > paced_ns(w) + PAUSE_NS;
}

void replay_watch_sleep(struct replay_watch *w, const struct replay_batch *last,
                        uint64_t due_ns) {
    static struct replay_batch moment; /* all but the head is zero */
    uint64_t at = paced_ns(w);
    if (!replay_watch_pauses(w, due_ns) || last == NULL)
        return;
    uint64_t step = tcm_max_u64((due_ns - at) / PAUSE_MOMENTS, PAUSE_NS / 2);
    replay_batch_copy_head(&moment, last);
    moment.sampled = moment.last = 0;
    while (due_ns > at + step && !tool_stop_requested()) {
        at += step;
        replay_sleep_until(w->start_ns + w->rss->look_ns + at, w->rss);
        moment.recorded_ns = (uint64_t)((double)at * w->options->order.speed);
        replay_watch_moment(w, &moment);
    }
}

void replay_watch_end(struct replay_watch *w) {
    for (unsigned i = 0; i < REPLAY_OBSERVER_COUNT; i++)
        if (w->state[i] != NULL && observers[i]->end != NULL)
            observers[i]->end(w, w->state[i]);
}

int replay_watch_tell(struct replay_watch *w, int status) {
    for (unsigned i = 0; i < REPLAY_OBSERVER_COUNT; i++)
        if (w->state[i] != NULL && observers[i]->tell != NULL)
            status = observers[i]->tell(w, w->state[i], status);
    return status;
}

void replay_watch_print(const struct replay_watch *w, FILE *out) {
    for (unsigned i = 0; i < REPLAY_OBSERVER_COUNT; i++)
        if (w->state[i] != NULL && observers[i]->print != NULL)
            observers[i]->print(w, w->state[i], out);
}

void replay_watch_json(const struct replay_watch *w, struct tool_json *j) {
    for (unsigned i = 0; i < REPLAY_OBSERVER_COUNT; i++)
        if (w->state[i] != NULL && observers[i]->json != NULL)
            observers[i]->json(w, w->state[i], j);
}
