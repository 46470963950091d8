/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detection of the available memory, on trees of files as systems have them.
 */
#include "cmd/replay/feed/memory_room.h"

#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/test_replay_memory.XXXXXX";

/* File ROOT/NAME with TEXT, and its folders. */
static void put(const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *p = path + strlen(root) + 1; *p != '\0'; p++)
        if (*p == '/') {
            *p = '\0';
            mkdir(path, 0777);
            *p = '/';
        }
    FILE *f = fopen(path, "w");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        tap_bail("%s", path);
}

#define MIB ((uint64_t)1 << 20)

static void expect(uint64_t room, const char *of, const char *what) {
    struct replay_memory m;
    replay_memory_find(&m, root);
    tap_is_u64(m.room_bytes, room, "%s", what);
    tap_ok(strstr(m.room_of, of) != NULL, "named: %s", m.room_of);
}

static void test_system(void) {
    struct replay_memory m;
    struct rlimit limit = {1234 * MIB, RLIM_INFINITY};
    replay_memory_find(&m, root);
    tap_ok(m.room_bytes == UINT64_MAX && m.grant_bytes == UINT64_MAX,
           "nothing is known");
    put("proc/meminfo", "MemTotal:     8388608 kB\nMemFree:   1 kB\n"
                        "MemAvailable: 4194304 kB\nSwapTotal: 1048576 kB\n"
                        "SwapFree:      524288 kB\n");
    expect(4608 * MIB, "available", "what is available, and swap");
    put("proc/sys/vm/overcommit_memory", "0\n");
    replay_memory_find(&m, root);
    tap_is_u64(m.grant_bytes, 9216 * MIB, "no block has more than there is");
    put("proc/sys/vm/overcommit_memory", "1\n");
    replay_memory_find(&m, root);
    tap_is_u64(m.grant_bytes, UINT64_MAX, "unless everything is granted");
    tap_is_u64(m.address_bytes, UINT64_MAX, "no limit of address space");
    if (tap_emulated())
        return;
    setrlimit(RLIMIT_AS, &limit);
    replay_memory_find(&m, root);
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_AS, &limit);
    tap_is_u64(m.address_bytes, 1234 * MIB, "one");
}

static void test_v2(void) {
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.stat", "anon 1048576\nfile 999\n");
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    put("sys/fs/cgroup/a/memory.stat", "anon 103809024\nfile 999999999\n"
                                       "shmem 1048576\n");
    put("sys/fs/cgroup/a/memory.max", "1073741824\n");
    put("sys/fs/cgroup/a/memory.swap.max", "0\n");
    put("sys/fs/cgroup/a/memory.swap.current", "0\n");
    expect(924 * MIB, "cgroup", "the limit of a cgroup above");
    put("sys/fs/cgroup/a/memory.swap.max", "max\n");
    expect((924 + 512) * MIB, "cgroup", "and swap");
    put("sys/fs/cgroup/a/b/memory.max", "2097152\n");
    put("sys/fs/cgroup/a/b/memory.swap.max", "1048576\n");
    put("sys/fs/cgroup/a/b/memory.swap.current", "524288\n");
    expect(3 * MIB / 2, "cgroup", "the least of all");
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/memory.stat", "anon 0\n");
    put("sys/fs/cgroup/memory.max", "7340032\n");
    put("sys/fs/cgroup/memory.swap.max", "0\n");
    put("sys/fs/cgroup/memory.swap.current", "0\n");
    expect(7 * MIB, "cgroup", "in a container its own is the top");
    put("proc/self/cgroup", "0::/not/there\n");
    expect(7 * MIB, "cgroup", "also when the name is of the host");
    put("sys/fs/cgroup/memory.max", "max\n");
    expect(4608 * MIB, "available", "no limit");
}

static void test_v1(void) {
    put("proc/self/cgroup", "3:cpu,cpuacct:/x\n4:memory:/x\n0::/\n");
    put("sys/fs/cgroup/memory/x/memory.stat",
        "cache 5\nrss 6\ntotal_cache 7\ntotal_rss 524288\n"
        "total_shmem 524288\n");
    put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9437184\n");
    put("sys/fs/cgroup/memory/x/memory.memsw.limit_in_bytes", "9437184\n");
    put("sys/fs/cgroup/memory/memory.stat", "total_rss 1048576\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    expect(8 * MIB, "cgroup", "version 1");
    put("sys/fs/cgroup/memory/x/memory.limit_in_bytes",
        "9223372036854771712\n");
    expect(4608 * MIB, "available", "without a limit");
}

int main(void) {
    char command[64];
    if (mkdtemp(root) == NULL)
        tap_bail("mkdtemp");
    test_system();
    test_v2();
    test_v1();
    snprintf(command, sizeof(command), "rm -rf %s", root);
    if (system(command) != 0)
        tap_diag("%s is left", root);
    return tap_done();
}
