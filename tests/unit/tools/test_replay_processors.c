/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is bound to which processor in a turn: one thread plays them all, by
 * places of its own, as a binding is that of the calling thread.
 */
#include "cmd/replay/run/hosts.h"

#include "base/clock.h"
#include "tap.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct replay_processors p;
static struct replay_place place[CPU_SETSIZE + 1];

/* How many processors the thread may use, and the first of them. */
static int allowed(int *first) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        tap_bail("sched_getaffinity");
    for (*first = 0; *first < CPU_SETSIZE && !CPU_ISSET(*first, &set);)
        ++*first;
    return CPU_COUNT(&set);
}

/* A process that computes on processor CPU. */
static pid_t hog(int cpu) {
    pid_t child = fork();
    if (child != 0)
        return child;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sched_setaffinity(0, sizeof(one), &one);
    for (;;)
        ;
}

static uint64_t delayed(void) {
    unsigned long long used, ns = 0;
    FILE *f = fopen("/proc/thread-self/schedstat", "r");
    if (f != NULL && fscanf(f, "%llu %llu", &used, &ns) != 2)
        ns = 0;
    if (f != NULL)
        fclose(f);
    return ns;
}

/* Other work takes the processor that a thread is bound to. */
static void test_taken(int count) {
    static struct replay_place bound_place;
    int cpu;
    replay_processors_turn(&p);
    replay_processors_claim(&p, &bound_place);
    tap_ok(allowed(&cpu) == 1, "a turn begins");
    uint64_t before = delayed(), begin = tcm_clock_ns();
    pid_t child = hog(cpu);
    /* Until a third of some time went to the other process. */
    while ((tcm_clock_ns() - begin < 30000000u ||
            delayed() - before < (tcm_clock_ns() - begin) / 3) &&
           tcm_clock_ns() - begin < 5000000000u)
        ;
    bool was_taken = delayed() - before >= (tcm_clock_ns() - begin) / 3;
    replay_processors_turn(&p);
    replay_processors_claim(&p, &bound_place);
    if (was_taken)
        tap_ok(bound_place.bound == 0 && allowed(&cpu) == count,
               "a thread is not bound to a processor that other work takes");
    else
        tap_skip("the system does not tell how long a thread waited");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    while (tcm_clock_ns() < p.shared_until_ns)
        ;
    replay_processors_turn(&p);
    replay_processors_claim(&p, &bound_place);
    tap_ok(allowed(&cpu) == 1, "but some time later");
    replay_processors_leave(&p, &bound_place);
}

int main(void) {
    int cpu, count = allowed(&cpu);
    cpu_set_t seen;
    if (count < 2)
        return tap_skip_all("one processor");
    replay_processors_begin(&p);
    CPU_ZERO(&seen);
    replay_processors_claim(&p, &place[0]);
    tap_is_u64((uint64_t)allowed(&cpu), (uint64_t)count,
               "without turns nothing is bound");

    replay_processors_turn(&p);
    bool apart = true, single = true;
    for (int i = 0; i < count; i++) {
        replay_processors_claim(&p, &place[i]);
        single = single && allowed(&cpu) == 1;
        apart = apart && !CPU_ISSET(cpu, &seen);
        CPU_SET(cpu, &seen);
    }
    tap_ok(single, "as many as there are processors: each has one");
    tap_ok(apart, "of its own");
    replay_processors_claim(&p, &place[count - 1]);
    tap_ok(allowed(&cpu) == 1, "and keeps it in this turn");

    replay_processors_claim(&p, &place[count]);
    tap_ok(place[count].bound == 0, "one more has none");
    replay_processors_claim(&p, &place[0]);
    tap_ok(place[0].bound == 0 && allowed(&cpu) == count,
           "and then the others let theirs go");

    replay_processors_turn(&p);
    replay_processors_claim(&p, &place[count]);
    tap_ok(allowed(&cpu) == 1, "in the next turn they are free again");
    replay_processors_leave(&p, &place[count]);
    tap_is_u64((uint64_t)allowed(&cpu), (uint64_t)count,
               "a thread that leaves may run where the process may");
    test_taken(count);
    return tap_done();
}
