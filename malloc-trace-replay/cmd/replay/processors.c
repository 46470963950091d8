/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/processors.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/raw_io.h"

#include <stdlib.h>
#include <string.h>

void replay_processors_begin(struct replay_processors *p) {
    memset(p, 0, sizeof(*p));
    if (sched_getaffinity(0, sizeof(p->all), &p->all) != 0)
        CPU_ZERO(&p->all);
}

void replay_processors_turn(struct replay_processors *p) {
    tcm_store_relaxed(&p->turn, p->turn + 1);
}

static void bind(struct replay_place *place, unsigned cpu) {
    cpu_set_t one;
    if (place->bound == cpu + 1)
        return;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) == 0)
        place->bound = cpu + 1;
}

void replay_processors_leave(const struct replay_processors *p,
                             struct replay_place *place) {
    if (place->bound != 0)
        sched_setaffinity(0, sizeof(p->all), &p->all);
    place->bound = 0;
}

static bool take(struct replay_processors *p, unsigned cpu, uint32_t turn) {
    uint32_t before = tcm_load_relaxed(&p->taken[cpu]);
    return CPU_ISSET(cpu, &p->all) && before != turn &&
           tcm_cas_acq_rel(&p->taken[cpu], &before, turn);
}

/* The processor that it is on, else the next one that is free. False: none. */
static bool take_any(struct replay_processors *p, struct replay_place *place) {
    int now = sched_getcpu();
    unsigned first = now < 0 ? 0 : (unsigned)now;
    for (unsigned i = 0; i < CPU_SETSIZE; i++) {
        unsigned cpu = (first + i) % CPU_SETSIZE;
        if (take(p, cpu, place->turn)) {
            bind(place, cpu);
            return true;
        }
    }
    return false;
}

/* A thread that could run, and did not, for more than this part of the time is
   one of several on its processor. */
#define SHARED_PART 8u
/* Turns without binding then. */
#define SHARED_TURNS 16u

/* How long the calling thread could have run, but another one did. 0: unknown,
   since the kernel does not count it or there is no /proc. */
static uint64_t delayed_ns(void) {
    char text[128];
    const char *second = NULL;
    if (tcm_io_read_file("/proc/thread-self/schedstat", text, sizeof(text)) > 0)
        second = strchr(text, ' ');
    return second == NULL ? 0 : strtoull(second, NULL, 10);
}

bool replay_is_delayed(struct replay_delay *d) {
    uint64_t now = tcm_clock_ns(), since = d->looked_ns;
    uint64_t delayed = delayed_ns(), more = delayed - d->delayed_ns;
    d->looked_ns = now;
    d->delayed_ns = delayed;
    return since != 0 && more > (now - since) / SHARED_PART;
}

/* True if other work took PLACE's processor since the last look. */
static bool look(struct replay_place *place) {
    if (place->bound != 0 && place->delay.looked_ns != 0)
        return replay_is_delayed(&place->delay);
    place->delay.looked_ns = tcm_clock_ns();
    return false;
}

static bool is_until(uint32_t turn, uint32_t last) {
    return (int32_t)(last - turn) >= 0;
}

void replay_processors_settle(struct replay_processors *p,
                              struct replay_place *place) {
    uint32_t turn = tcm_load_relaxed(&p->turn);
    if (place->turn != turn) {
        place->turn = turn;
        if (look(place))
            tcm_store_relaxed(&p->shared, turn + SHARED_TURNS);
        if (tcm_load_relaxed(&p->crowded) != turn &&
            !is_until(turn, tcm_load_relaxed(&p->shared)) &&
            !take_any(p, place))
            tcm_store_relaxed(&p->crowded, turn);
    }
    if (tcm_load_relaxed(&p->crowded) == turn ||
        is_until(turn, tcm_load_relaxed(&p->shared)))
        replay_processors_leave(p, place);
}
