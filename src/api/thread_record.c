/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/thread_record.h"

#include "base/check.h"
#include "base/lock.h"
#include "core/meta_alloc.h"

#include <linux/futex.h>

/* Records checked when a thread begins, which adds one: checking two catches up
   with any number of dead threads. */
#define RECORDS_CHECKED 2u

static struct tcm_lock lock = TCM_LOCK_INIT(TCM_RANK_API);
static struct tcm_dlist records = {&records, &records};
static struct tcm_dlist *last_checked = &records;
static struct tcm_pool pool = TCM_POOL_INIT(sizeof(struct tcm_thread_record));

/* Makes the calling thread the mutex's holder. With a C library other than
   glibc, dead threads are not found. */
static void lock_alive(struct tcm_thread_record *record) {
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&record->alive, &attr);
    pthread_mutexattr_destroy(&attr);
    pthread_mutex_lock(&record->alive);
}

struct tcm_thread_record *tcm_record_add(void) {
    tcm_lock(&lock);
    struct tcm_thread_record *record = tcm_pool_get(&pool);
    tcm_unlock(&lock);
    if (record == NULL)
        return NULL;
    record->cache = NULL;
    record->trace = NULL;
    record->shard = 0;
    lock_alive(record);
    tcm_lock(&lock);
    tcm_dlist_push_back(&records, &record->link);
    tcm_unlock(&lock);
    return record;
}

static void remove_record(struct tcm_thread_record *record) {
    tcm_lock_assert_held(&lock);
    if (last_checked == &record->link)
        last_checked = last_checked->prev;
    tcm_dlist_remove(&record->link);
}

/*
 * True if the kernel has marked the mutex. Reads the mutex's word directly:
 * pthread_mutex_trylock may be another library's, which allocates or takes
 * locks, while our lock is held. Acquire: the dead thread's stores are seen.
 */
#if defined(TCM_MUTEX_WORD)
static bool is_dead(const struct tcm_thread_record *record) {
    int word = tcm_load_acquire(&record->alive.TCM_MUTEX_WORD);
    return ((uint32_t)word & FUTEX_OWNER_DIED) != 0;
}
#else
static bool is_dead(const struct tcm_thread_record *record) {
    (void)record;
    return false;
}
#endif

void tcm_record_free(struct tcm_thread_record *record) {
    tcm_lock(&lock);
    tcm_pool_put(&pool, record);
    tcm_unlock(&lock);
}

void tcm_record_remove(struct tcm_thread_record *record) {
    tcm_lock(&lock);
    remove_record(record);
    tcm_unlock(&lock);
    TCM_ASSERT(!is_dead(record));
    pthread_mutex_unlock(&record->alive);
    tcm_record_free(record);
}

struct tcm_thread_record *tcm_record_take_dead(void) {
    struct tcm_thread_record *dead = NULL;
    tcm_lock(&lock);
    for (unsigned i = 0; i < RECORDS_CHECKED && dead == NULL; i++) {
        last_checked = last_checked->next;
        if (last_checked == &records)
            last_checked = last_checked->next;
        if (last_checked == &records)
            break;
        struct tcm_thread_record *record =
            TCM_CONTAINER_OF(last_checked, struct tcm_thread_record, link);
        if (is_dead(record)) {
            remove_record(record);
            dead = record;
        }
    }
    tcm_unlock(&lock);
    return dead;
}

void tcm_record_fork_prepare(void) {
    tcm_lock(&lock);
}

void tcm_record_fork_parent(void) {
    tcm_lock_assert_held(&lock);
    tcm_unlock(&lock);
}

/* The mutexes of the other records name threads that this process never had;
   that of OWN names the parent's thread. */
void tcm_record_fork_child(struct tcm_thread_record *own) {
    tcm_lock_assert_held(&lock);
    while (records.next != &records) {
        struct tcm_thread_record *record =
            TCM_CONTAINER_OF(records.next, struct tcm_thread_record, link);
        tcm_dlist_remove(&record->link);
        if (record != own)
            tcm_pool_put(&pool, record);
    }
    last_checked = &records;
    if (own != NULL) {
        own->trace = NULL;
        lock_alive(own);
        tcm_dlist_push_back(&records, &own->link);
    }
    tcm_unlock(&lock);
}
