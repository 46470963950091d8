/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/run/processors.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/raw_io.h"

#include <stdlib.h>
#include <string.h>

/* A thread that waited for its processor for more than this part of the time
   that it wanted to run is one of several there: beside one busy thread of
   another program that is a half, beside this replay's decoding process and
   dealer an eighth. */
#define DELAYED_PART 4u
/* Time that it wanted to run, which the part is taken of: some slices of the
   scheduler, so that one slice of the decoding process does not decide. */
#define WANTED_LEAST_NS 10000000u
/* Time without binding when other work was seen. */
#define SHARED_NS 300000000u

/* Reads how long the calling thread ran, and how long it could have run while
   another one did. False: the kernel does not count it or there is no /proc. */
static bool read_delay(uint64_t *ran_ns, uint64_t *delayed_ns) {
    char text[128], *second;
    if (tcm_io_read_file("/proc/thread-self/schedstat", text, sizeof(text)) <=
        0)
        return false;
    *ran_ns = strtoull(text, &second, 10);
    *delayed_ns = strtoull(second, NULL, 10);
    return true;
}

void replay_delay_begin(struct replay_delay *d) {
    d->known = read_delay(&d->ran_ns, &d->delayed_ns);
}

bool replay_is_delayed(struct replay_delay *d) {
    uint64_t ran = 0, delayed = 0;
    if (!d->known || !read_delay(&ran, &delayed))
        return false;
    uint64_t more = delayed - d->delayed_ns, wanted = ran - d->ran_ns + more;
    if (wanted < WANTED_LEAST_NS)
        return false;
    d->ran_ns = ran;
    d->delayed_ns = delayed;
    return more > wanted / DELAYED_PART;
}

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
    bool was_bound = place->bound != 0;
    if (sched_setaffinity(0, sizeof(one), &one) != 0)
        return;
    place->bound = cpu + 1;
    /* Waits without binding, where threads of the replay share a processor, say
       nothing of other work. */
    if (!was_bound)
        replay_delay_begin(&place->delay);
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

static bool is_shared(const struct replay_processors *p) {
    return tcm_clock_ns() < tcm_load_relaxed(&p->shared_until_ns);
}

void replay_processors_claim(struct replay_processors *p,
                             struct replay_place *place) {
    uint32_t turn = tcm_load_relaxed(&p->turn);
    if (place->turn != turn) {
        place->turn = turn;
        if (place->bound != 0 && replay_is_delayed(&place->delay))
            tcm_store_relaxed(&p->shared_until_ns, tcm_clock_ns() + SHARED_NS);
        if (tcm_load_relaxed(&p->crowded) != turn && !is_shared(p) &&
            !take_any(p, place))
            tcm_store_relaxed(&p->crowded, turn);
    }
    if (tcm_load_relaxed(&p->crowded) == turn || is_shared(p))
        replay_processors_leave(p, place);
}
