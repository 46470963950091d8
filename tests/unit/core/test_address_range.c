/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of ranges against a list of the requests: the place of a new range,
 * the committed part, and refusals.
 */
#include "core/address_range.h"
#include "base/bits.h"
#include "base/linux/os_mem.h"
#include "core/page_map.h"
#include "core_test.h"

#include <sys/resource.h>

#if defined(__SANITIZE_THREAD__)
#define MANY 4 /* ranges: the sanitizer has few addresses for programs */
#else
#define MANY 20
#endif
#define STEPS 400

static struct tcm_range_table table;
static struct tcm_range model[TCM_MAX_RANGES];
static unsigned model_count;

static bool same_as_model(void) {
    if (table.count != model_count)
        return false;
    for (unsigned i = 0; i < model_count; i++) {
        if (table.range[i].start != model[i].start ||
            table.range[i].length != model[i].length ||
            table.range[i].committed != model[i].committed)
            return false;
    }
    return true;
}

/* True if the newest range has the invariants; the first with the class map. */
static bool new_one_is_good(size_t bytes) {
    const struct tcm_range *n = &table.range[table.count - 1];
    bool good = n->length >= bytes && n->committed == 0 &&
                n->start % TCM_GROW_STEP == 0 &&
                n->length % TCM_GROW_STEP == 0 &&
                (n->start + n->length) >> TCM_ADDRESS_BITS == 0;
    if (table.count == 1 && tcm_class_map_base != TCM_NO_BASE)
        good &=
            n->start == tcm_class_map_base + TCM_CLASS_MAP_BYTES &&
            n->start + n->length == tcm_class_map_base + TCM_CLASS_MAP_RANGE;
    for (unsigned i = 0; i + 1 < table.count; i++)
        good &= n->start + n->length <= table.range[i].start ||
                table.range[i].start + table.range[i].length <= n->start;
    return good;
}

static bool model_has_room(size_t bytes) {
    for (unsigned i = 0; i < model_count; i++) {
        if (model[i].length - model[i].committed >= bytes)
            return true;
    }
    return false;
}

static bool extend(struct tcm_range *range, size_t bytes) {
    if (!tcm_range_commit(range, bytes, 0))
        return false;
    range->committed += bytes;
    return true;
}

struct verdict {
    bool made, extend, memory, table;
};

static void step_extend(unsigned i, size_t bytes, struct verdict *v) {
    char *from = (char *)tcm_range_frontier(&table.range[i]);
    bool fits = bytes <= model[i].length - model[i].committed;
    v->extend &= extend(&table.range[i], bytes) == fits;
    if (!fits)
        return;
    model[i].committed += bytes;
    v->memory &= from[0] == 0 && from[bytes - 1] == 0;
    from[0] = 1;
    from[bytes - 1] = 1;
    v->memory &=
        tcm_page_root[(uintptr_t)from >> TCM_ROOT_SHIFT] != NULL &&
        tcm_page_root[((uintptr_t)from + bytes - 1) >> TCM_ROOT_SHIFT] != NULL;
}

static void test_model(void) {
    struct prng random;
    struct verdict v = {true, true, true, true};
    prng_seed(&random, 5);
    for (unsigned step = 0; step < STEPS; step++) {
        size_t bytes = (1 + prng_below(&random, 4)) * TCM_GROW_STEP;
        unsigned what = (unsigned)prng_below(&random, 10);
        if (model_count == 0 || what < 4) {
            if (model_has_room(bytes) || model_count == MANY)
                continue;
            int got = tcm_range_add(&table, 0, bytes);
            if (got < 0)
                tap_bail("no address space");
            v.made &= got == (int)model_count && new_one_is_good(bytes);
            model[model_count++] = table.range[got];
        } else if (what < 7) {
            unsigned i = (unsigned)prng_below(&random, model_count);
            step_extend(i, bytes, &v);
        } else if (what < 9) {
            /* Marks all but a few steps of the first range as committed, in the
               table only. */
            unsigned i = (unsigned)prng_below(&random, model_count);
            size_t left = prng_below(&random, 4) * TCM_GROW_STEP;
            if (model[i].length - model[i].committed > left) {
                model[i].committed = model[i].length - left;
                table.range[i].committed = model[i].committed;
            }
        } else {
            tcm_range_drop_unused(&table);
            if (model_count > 1 && model[model_count - 1].committed == 0)
                model_count--;
        }
        v.table &= same_as_model();
    }
    tap_ok(model_count > 3, "%u ranges", model_count);
    tap_ok(v.made, "a new one is aligned, long enough and overlaps none");
    tap_ok(v.extend, "it is committed exactly where there is room");
    tap_ok(v.memory, "what is committed is zero, writable and in the page map");
    tap_ok(v.table, "and nothing else changes");
}

static void test_drop(void) {
    table.count = 0;
    tcm_range_drop_unused(&table);
    tap_is_u64(table.count, 0, "an empty table has nothing to drop");
    int i = tcm_range_add(&table, 0, TCM_GROW_STEP);
    tcm_range_drop_unused(&table);
    tap_ok(i == 0 && table.count == 1, "the first range stays");
    struct tcm_range first = table.range[0];
    table.range[0].committed = first.length;
    i = tcm_range_add(&table, 0, TCM_GROW_STEP);
    struct tcm_range second = table.range[1];
    tcm_range_drop_unused(&table);
    tap_ok(i == 1 && table.count == 1, "another that is unused is given up");
    i = tcm_range_add(&table, 0, TCM_GROW_STEP);
    tap_ok(i == 1 && table.range[1].length == second.length,
           "and its address space can be had again");
    tap_ok(extend(&table.range[1], TCM_GROW_STEP), "committed");
    tcm_range_drop_unused(&table);
    tap_is_u64(table.count, 2, "a used one stays");
    tcm_os_unmap((void *)second.start, second.length);
    table.range[0] = first;
    table.count = 1;
    tap_ok(extend(&table.range[0], TCM_GROW_STEP), "the first too");
}

static void test_refused(void) {
    struct tcm_range before = table.range[0];
    tap_ok(!extend(&table.range[0],
                   before.length - before.committed + TCM_GROW_STEP),
           "more than the range has is refused");
    tap_ok(memcmp(&before, &table.range[0], sizeof(before)) == 0,
           "and changes nothing");
    tap_is_i64(tcm_range_add(&table, 0, (size_t)1 << TCM_ADDRESS_BITS), -1,
               "more than there are addresses is refused");
    tap_is_i64(tcm_range_add(&table, 0, SIZE_MAX & ~(TCM_GROW_STEP - 1)), -1,
               "so is nearly 2^64");
    tap_is_u64(table.count, 1, "without a range for it");
    /* A full table: no room anywhere, and no place for another. */
    for (unsigned i = 0; i < TCM_MAX_RANGES; i++) {
        table.range[i] = before;
        table.range[i].committed = before.length;
    }
    table.count = TCM_MAX_RANGES;
    tap_is_i64(tcm_range_add(&table, 0, TCM_GROW_STEP), -1,
               "a full table is full");
    table.range[0] = before;
    table.count = 1;
}

static void test_odd_length(void) {
    size_t bytes = ((size_t)65 << 30) + TCM_GROW_STEP;
    uint32_t count = table.count;
    int i = tcm_range_add(&table, 0, bytes);
    if (i < 0) {
        tap_skip("no address space for a range of 65 GiB");
        return;
    }
    tap_ok(i == (int)count && new_one_is_good(bytes) &&
               table.range[i].length >= bytes,
           "a request longer than a range gets one of its own");
    tcm_range_drop_unused(&table);
}

static void write_beyond(void *range) {
    signal(SIGSEGV, SIG_DFL);
    *(volatile char *)tcm_range_frontier(range) = 1;
}

static void test_no_access(void) {
    pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        write_beyond(&table.range[0]);
        _exit(0);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid)
        tap_bail("waitpid");
    tap_ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV,
           "what is not committed has no access");
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static void test_limited(void) {
    tap_skip("address space cannot be limited under a sanitizer");
}
#else
static size_t addresses_in_use(void) {
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%zu", &pages) != 1)
        tap_bail("/proc/self/statm");
    fclose(f);
    return pages * tcm_os_page_size();
}

/* Leaves a limited address space to the program. */
static int limited(void) {
    size_t used = addresses_in_use();
    rlim_t limit = (rlim_t)4 << 30;
    if (setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}) != 0)
        return 2;
    tcm_range_init(&table);
    if (table.count != 1 || tcm_class_map_base == TCM_NO_BASE)
        return 3;
    if (addresses_in_use() - used > 10 * TCM_CLASS_MAP_BYTES)
        return 4;
    size_t most = limit / 8 * 7;
    if (!tcm_range_commit(&table.range[0], most, 0))
        return 5;
    table.range[0].committed += most;
    if (tcm_range_commit(&table.range[0], limit - most, 0))
        return 6;
    /* The addresses do not suffice for the records of such a heap. */
    uint64_t large = (uint64_t)64 << 30;
    if (tcm_range_commit(&table.range[0], TCM_GROW_STEP, large))
        return 7;
    if (!tcm_range_commit(&table.range[0], TCM_GROW_STEP, 0))
        return 8;
    return tcm_range_add(&table, 0, (size_t)65 << 30) == -1 ? 0 : 9;
}

static void test_limited(void) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(limited());
    int status;
    if (waitpid(pid, &status, 0) != pid)
        tap_bail("waitpid");
    tap_is_i64(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0,
               "of 4 GiB a range takes what is committed");
}
#endif

/* The program maps something in the way. */
static void test_taken(void) {
    table.count = 0;
    tcm_range_init(&table);
    struct tcm_range *range = &table.range[0];
    bool good = extend(range, TCM_GROW_STEP);
    const size_t near = 4 * TCM_GROW_STEP;
    void *there = (void *)(tcm_range_frontier(range) + near);
    size_t page = tcm_os_page_size();
    tap_ok(good && tcm_os_map_at(there, page) == 0, "a mapping in the range");
    tap_ok(!extend(range, near + TCM_GROW_STEP), "is not mapped over");
    tap_ok(range->length == range->committed + near,
           "and ends the range before it");
    tap_ok(!extend(range, near + TCM_GROW_STEP) && extend(range, near),
           "what is before it can be had");
    tap_is_i64(tcm_range_add(&table, 0, TCM_GROW_STEP), 1,
               "another range follows");
    tap_ok(extend(&table.range[1], TCM_GROW_STEP), "which is of use");
    tcm_os_unmap(there, page);
}

int main(void) {
    if (tap_emulated())
        return tap_skip_all("an emulator keeps a record of each page");
    test_limited();
    test_model();
    test_drop();
    test_refused();
    test_odd_length();
    test_no_access();
    test_taken();
    return tap_done();
}
