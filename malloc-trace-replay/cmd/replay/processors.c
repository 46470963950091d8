/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/processors.h"

#include "base/atomic.h"

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

void replay_processors_settle(struct replay_processors *p,
                              struct replay_place *place) {
    uint32_t turn = tcm_load_relaxed(&p->turn);
    if (place->turn != turn) {
        place->turn = turn;
        if (tcm_load_relaxed(&p->crowded) != turn && !take_any(p, place))
            tcm_store_relaxed(&p->crowded, turn);
    }
    if (tcm_load_relaxed(&p->crowded) == turn)
        replay_processors_leave(p, place);
}
