/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The start of a recording switches malloc's plain path off and then free's.
 * Calls of another thread between the two must do no harm: here there are many,
 * because the starter is held there.
 */
#include "api/export.h"
#include "api/thread_state.h"
#include "base/check.h"
#include "prng.h"
#include "tap.h"

#include "gperftools/malloc_trace.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

bool TCM_EXPORT(malloc_trace_start)(const char *path);
bool TCM_EXPORT(malloc_trace_stop)(void);

#define STARTS  20
#define HOLD_MS 3000
#define WORK    3000u /* calls while the starter is held */

static uint32_t calls, over, held;

static void hold(const char *label) {
    if (strcmp(label, "plain_malloc_is_off") != 0)
        return;
    uint32_t before = tcm_load_relaxed(&calls);
    int ms = 0;
    while (tcm_load_relaxed(&calls) - before < WORK && ms++ < HOLD_MS)
        usleep(1000);
    held += ms < HOLD_MS;
}

/* Blocks of few sizes, so that a freed block is soon allocated again. */
static void *work(void *arg) {
    enum { SLOTS = 64 };
    void *slot[SLOTS] = {NULL};
    struct prng random;
    uint64_t *wrong = arg;
    prng_seed(&random, 7);
    while (!tcm_load_relaxed(&over)) {
        unsigned k = (unsigned)prng_below(&random, SLOTS);
        unsigned char *p = slot[k];
        *wrong += p != NULL && (p[0] != k || p[15] != k);
        TCM_EXPORT(free)(p);
        p = TCM_EXPORT(malloc)(16 + 16 * prng_below(&random, 3));
        memset(p, (int)k, 16);
        slot[k] = p;
        (void)tcm_add_relaxed(&calls, 1u);
    }
    for (unsigned k = 0; k < SLOTS; k++)
        TCM_EXPORT(free)(slot[k]);
    return NULL;
}

int main(void) {
    char folder[] = "/tmp/mtrplain.XXXXXX", path[64];
    uint64_t wrong = 0;
    unsigned started = 0;
    pthread_t id;
    if (mkdtemp(folder) == NULL || chdir(folder) != 0)
        tap_bail("no folder");
    pthread_create(&id, NULL, work, &wrong);
    while (tcm_load_relaxed(&calls) < WORK)
        usleep(100);
    tcm_testpoint_hook = hold;
    for (unsigned i = 0; i < STARTS; i++) {
        snprintf(path, sizeof(path), "%s/t%u", folder, i);
        started += TCM_EXPORT(malloc_trace_start)(path);
        usleep(1000);
        started += TCM_EXPORT(malloc_trace_stop)();
        unlink(path);
    }
    tcm_store_relaxed(&over, 1u);
    pthread_join(id, NULL);
    tap_is_u64(started, 2 * STARTS, "recordings are started and stopped");
    tap_ok(held == STARTS, "a thread worked between the two stores: %u times",
           held);
    tap_is_u64(wrong, 0, "and its blocks are its own");
    if (chdir("/") != 0 || rmdir(folder) != 0)
        tap_diag("%s stays", folder);
    return tap_done();
}
