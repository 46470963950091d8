/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Begin and end of the library, and of its threads.
 *
 * A thread begins with its first slow path. It ends at the second call of our
 * key's destructor, so that destructors of the first round, most of them, still
 * have a cache; later ones use the central lists. A thread that began too late
 * for two calls, or that exits without any, is ended by a thread that begins
 * later.
 */
#include "api/library.h"
#include "api/export.h"
#include "api/trace_hooks.h"
#include "base/check.h"
#include "base/linux/os_process.h"
#include "base/lock.h"
#include "core/cache_registry.h"
#include "core/thread_shard.h"
#include "gperftools/malloc_extension_c.h"

#include <pthread.h>

static pthread_key_t end_key;
static bool have_end_key;
static uint32_t initialised;
static struct tcm_lock init_lock = TCM_LOCK_INIT(TCM_RANK_API);

static void thread_ends(void *state);

bool tcm_api_init(void) {
    if (TCM_LIKELY(tcm_load_acquire(&initialised) != 0))
        return true;
    tcm_lock(&init_lock);
    if (tcm_load_relaxed(&initialised) == 0 && tcm_heap_init()) {
        have_end_key = pthread_key_create(&end_key, thread_ends) == 0;
        /* Publishes the heap to threads that see the flag without the lock. */
        tcm_store_release(&initialised, 1u);
    }
    tcm_unlock(&init_lock);
    tcm_fork_handlers();
    return tcm_load_relaxed(&initialised) != 0;
}

/* The C library makes PTHREAD_DESTRUCTOR_ITERATIONS rounds. The second call
   comes in the second round if the thread began before its destructors ran, in
   the third or fourth if a destructor began it. */
static void thread_ends(void *state) {
    struct tcm_thread_state *self = state;
    TCM_ASSERT(self->life == TCM_THREAD_LIVE && tcm_thread_is_valid(self));
    TCM_ASSERT(!tcm_trace_is_private(self));
    if (++self->end_calls == 1 && pthread_setspecific(end_key, self) == 0)
        return;
    struct tcm_thread_cache *cache = self->own;
    struct tcm_thread_record *record = self->record;
    tcm_trace_thread_end(self);
    self->life = TCM_THREAD_ENDED;
    tcm_thread_drop_own(self);
    self->record = NULL;
    if (cache != TCM_NO_CACHE)
        tcm_cache_destroy(cache);
    tcm_thread_shard_end();
    if (record != NULL)
        tcm_record_remove(record);
    TCM_ASSERT(tcm_thread_is_valid(self));
}

/* Releases cache, stream and record of a thread that is gone without its end.
 */
static void end_dead_thread(void) {
    struct tcm_thread_record *dead = tcm_record_take_dead();
    if (dead == NULL)
        return;
    TCM_ASSERT(dead != tcm_self.record);
    TCM_ASSERT(dead->cache == NULL || dead->cache != tcm_self.own);
    if (dead->trace != NULL)
        tcm_trace_dead_thread(dead->trace);
    if (dead->cache != NULL)
        tcm_cache_destroy(dead->cache);
    tcm_thread_shard_end_dead(dead->shard);
    tcm_record_free(dead);
}

void tcm_thread_need_cache(struct tcm_thread_state *self) {
    TCM_ASSERT(self == &tcm_self);
    if (!tcm_api_init() || self->life == TCM_THREAD_ENDED ||
        tcm_trace_is_private(self))
        return;
    if (self->own == TCM_NO_CACHE) {
        struct tcm_thread_cache *cache = tcm_cache_new();
        if (cache == NULL)
            return;
        tcm_thread_set_own(self, cache);
    }
    if (self->life == TCM_THREAD_NEW) {
        /* Set before the calls below: the C library, or a library that
           interposes it, may allocate in them. */
        self->life = TCM_THREAD_LIVE;
        end_dead_thread();
        self->record = tcm_record_add();
        if (self->record != NULL) {
            tcm_thread_shard_note(&self->record->shard);
            if (self->own != TCM_NO_CACHE)
                self->record->cache = self->own;
        }
        if (have_end_key)
            pthread_setspecific(end_key, self);
    }
    TCM_ASSERT(tcm_thread_is_valid(self));
}

/* --- Environment variables of the heap ------------------------------------ */

/* Their meaning, and the treatment of invalid values, is in doc/environment.md.
 */
#define MAX_MIB   (UINT64_MAX >> 21)
#define MAX_RATE  1000u
#define ONE_MILLI 1000u

/* Parses a decimal number with or without a fraction, in thousandths, at most
   MAX_RATE. false: TEXT is no such number. */
static bool parse_milli(const char *text, uint32_t *milli) {
    uint32_t whole = 0, part = 0, unit = ONE_MILLI;
    bool digits = false;
    for (; *text >= '0' && *text <= '9'; text++, digits = true)
        whole =
            whole >= MAX_RATE ? MAX_RATE : whole * 10 + (uint32_t)(*text - '0');
    if (*text == '.') {
        for (text++; *text >= '0' && *text <= '9'; text++, digits = true) {
            unit /= 10;
            part += (uint32_t)(*text - '0') * unit;
        }
    }
    if (!digits || *text != '\0')
        return false;
    *milli =
        whole >= MAX_RATE ? MAX_RATE * ONE_MILLI : whole * ONE_MILLI + part;
    TCM_ASSERT(part < ONE_MILLI && *milli <= MAX_RATE * ONE_MILLI);
    return true;
}

/* Applies the variables to the heap. Called once, by tcm_library_begin: earlier
   the environment may not be there. */
static void read_settings(void) {
    struct tcm_heap_settings s;
    tcm_heap_settings(&s);
    s.cache_budget_bytes =
        tcm_env_u64("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
                    s.cache_budget_bytes, TCM_MIN_CACHE_BUDGET, UINT64_MAX / 4);
    s.limit_bytes =
        tcm_env_u64("TCMALLOC_HEAP_LIMIT_MB", s.limit_bytes >> 20, 0, MAX_MIB)
        << 20;
    s.release_at_once = tcm_env_bool("TCMALLOC_AGGRESSIVE_DECOMMIT");
    const char *rate = tcm_env_get("TCMALLOC_RELEASE_RATE");
    if (rate != NULL)
        (void)parse_milli(rate, &s.release_rate_milli);
    tcm_heap_configure(&s);
}

/* --- Constructor and destructor ------------------------------------------ */

void tcm_library_begin(bool by_call) {
    static uint32_t begun;
    if (tcm_swap_acq_rel(&begun, 1u) == 0) {
        tcm_fork_handlers();
        if (tcm_api_init())
            read_settings();
    }
    tcm_trace_init(by_call);
}

__attribute__((constructor)) static void library_begins(void) {
    tcm_library_begin(false);
}

__attribute__((destructor)) static void library_ends(void) {
    tcm_trace_exit();
    tcm_fork_exit();
}

/* --- The static archive in one piece ------------------------------------- */

/*
 * References to each file of this folder that defines an exported function, and
 * each of those needs this file: a program that links one member of the static
 * archive links all.
 *
 * Why: the linker takes members by name, and reads the archives once. If malloc
 * came from here, and a member of libc.a needed realloc later, libc.a would
 * bring its own realloc and, in the same member, its malloc. The shared library
 * has all members and leaves the section out.
 */
void *TCM_EXPORT(_Znwm)(size_t size);
void TCM_EXPORT(MallocExtension_MarkThreadBusy)(void);

static const struct {
    void *(*malloc_c)(size_t);
    void *(*realloc_c)(void *, size_t);
    size_t (*malloc_info_c)(void *);
    void *(*cxx_operators_c)(size_t);
    void (*malloc_extension_c)(void);
} family __attribute__((used, section(".data.rel.ro.family"))) = {
    .malloc_c = TCM_EXPORT(malloc),
    .realloc_c = TCM_EXPORT(realloc),
    .malloc_info_c = TCM_EXPORT(malloc_usable_size),
    .cxx_operators_c = TCM_EXPORT(_Znwm),
    .malloc_extension_c = TCM_EXPORT(MallocExtension_MarkThreadBusy),
};
