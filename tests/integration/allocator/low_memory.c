/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that ends: limits of the process, and an address space that is full.
 * What cannot be had is NULL and ENOMEM; what was had stays good; what is freed
 * can be had again, in blocks of another size; and more when the limit is
 * raised.
 *
 * low_memory                all of it, in children
 * low_memory BYTES LEAST    what a child does that began with an address space
 *                           of BYTES
 * low_memory system         the same where the system promises no more memory
 *                           than it has (vm.overcommit_memory=2)
 * low_memory self           what a child does that lowers its own limit of
 *                           address space
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prng.h"
#include "tap.h"

#define MIB ((size_t)1 << 20)

static void *(*volatile take)(size_t) = malloc;
static void *(*volatile take_clear)(size_t, size_t) = calloc;
static void *(*volatile resize)(void *, size_t) = realloc;
static void *(*volatile take_aligned)(size_t, size_t) = memalign;
static int (*volatile take_posix)(void **, size_t, size_t) = posix_memalign;
static void (*volatile give)(void *) = free;

static const char *problem;

static void expect(bool good, const char *what) {
    if (!good && problem == NULL)
        problem = what;
}

/* A chain of blocks, each holding the next; so no table is needed. */
struct link {
    struct link *next;
    size_t size;
};

static size_t chain_bytes(const struct link *chain) {
    size_t bytes = 0;
    for (; chain != NULL; chain = chain->next)
        bytes += chain->size;
    return bytes;
}

/* Blocks of SIZE until there are no more, or MOST bytes are had. */
static struct link *take_all(size_t size, size_t most) {
    struct link *chain = NULL;
    for (size_t had = 0; had < most; had += size) {
        errno = 0;
        struct link *b = take(size);
        if (b == NULL) {
            expect(errno == ENOMEM, "malloc says ENOMEM");
            break;
        }
        b->next = chain;
        b->size = size;
        chain = b;
    }
    return chain;
}

static void give_all(struct link *chain) {
    while (chain != NULL) {
        struct link *next = chain->next;
        give(chain);
        chain = next;
    }
}

/* Every second block first, so that spans and runs are freed piecemeal. */
static void give_all_mixed(struct link *chain) {
    struct link *odd = NULL;
    while (chain != NULL && chain->next != NULL) {
        struct link *first = chain, *second = chain->next;
        chain = second->next;
        give(first);
        second->next = odd;
        odd = second;
    }
    give_all(chain);
    give_all(odd);
}

/* All calls of the family say no, and touch nothing. */
static void refused(size_t size) {
    void *p = &p;
    errno = 0;
    expect(take_clear(size / 8, 8) == NULL && errno == ENOMEM, "calloc");
    errno = 0;
    expect(take_aligned(4096, size) == NULL && errno == ENOMEM, "memalign");
    errno = 0;
    expect(resize(NULL, size) == NULL && errno == ENOMEM, "realloc of NULL");
    errno = 5;
    expect(take_posix(&p, 64, size) == ENOMEM && p == &p && errno == ENOMEM,
           "posix_memalign");
}

static void keeps_block(struct link *b, size_t size) {
    if (b == NULL)
        return;
    size_t had = b->size;
    errno = 0;
    expect(resize(b, size) == NULL && errno == ENOMEM, "realloc");
    expect(b->size == had, "a failed realloc leaves the block");
}

static void *in_thread(void *size) {
    struct link *chain = take_all((size_t)(uintptr_t)size, 16 * MIB);
    give_all_mixed(chain);
    return NULL;
}

/*
 * Fills memory with blocks of one size after another. LEAST: bytes that must be
 * there each time, whatever there was before.
 */
static void fill(size_t most, size_t least) {
    static const size_t sizes[] = {200, 32, MIB, 5000, 64};
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct link *chain = take_all(sizes[i], most);
        if (chain_bytes(chain) < least)
            tap_diag("%zu bytes of %zu in blocks of %zu", chain_bytes(chain),
                     least, sizes[i]);
        expect(chain_bytes(chain) >= least, "what was freed can be had again");
        refused(most + 1024 * MIB);
        keeps_block(chain, most + 1024 * MIB);
        pthread_t id;
        if (i % 3 == 1 &&
            pthread_create(&id, NULL, in_thread, (void *)sizes[i + 1]) == 0)
            pthread_join(id, NULL);
        give_all_mixed(chain);
    }
}

static size_t data_now(void) {
    size_t total = 0, resident, shared, text, library, data = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%zu %zu %zu %zu %zu %zu", &total, &resident,
                            &shared, &text, &library, &data) != 6)
        _exit(9);
    fclose(f);
    return data * (size_t)sysconf(_SC_PAGESIZE);
}

static void set_limit(int resource, rlim_t bytes) {
    struct rlimit limit;
    getrlimit(resource, &limit);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    if (setrlimit(resource, &limit) != 0)
        _exit(9);
}

struct limited {
    size_t bytes;
    size_t least; /* that must be had of them */
};

static void fill_limited(int resource, const struct limited *l) {
    fill(l->bytes, l->least);
    struct link *kept = take_all(1000, l->bytes);
    set_limit(resource, RLIM_INFINITY);
    struct link *more = take_all(100000, 32 * MIB);
    expect(chain_bytes(more) >= 32 * MIB, "all is served without the limit");
    give_all_mixed(more);
    give_all_mixed(kept);
}

static void run_data_limited(const void *argument) {
    const struct limited *l = argument;
    set_limit(RLIMIT_DATA, data_now() + l->bytes);
    fill_limited(RLIMIT_DATA, l);
}

static void run_address_limited(const void *argument) {
    const struct limited *l = argument;
    char bytes[32], least[32];
    char name[] = "low_memory";
    char *arguments[] = {name, bytes, least, NULL};
    snprintf(bytes, sizeof(bytes), "%zu", l->bytes);
    snprintf(least, sizeof(least), "%zu", l->least);
    set_limit(RLIMIT_AS, l->bytes);
    execv("/proc/self/exe", arguments);
    _exit(9);
}

/* Bytes of address space; allocates nothing. */
static size_t addresses_now(void) {
    char text[128] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        _exit(9);
    close(fd);
    return strtoul(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void *take_some(void *served) {
    struct link *chain = take_all(100, MIB);
    *(bool *)served = chain_bytes(chain) >= MIB;
    give_all(chain);
    return NULL;
}

/* Lowers the limit to what is in use and some: the heap takes no more of that
   than its blocks need, and the program can map memory and make threads. */
static void limit_self(void) {
    const size_t room = 160 * MIB, share = 24 * MIB;
    give(take(100));
    expect(addresses_now() < 2 * room, "few addresses are in use");
    set_limit(RLIMIT_AS, addresses_now() + room);
    static const size_t sizes[] = {100, 5000, 300000, 16, MIB};
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct link *chain = take_all(sizes[i], share);
        if (chain_bytes(chain) < share)
            tap_diag("%zu bytes in blocks of %zu", chain_bytes(chain),
                     sizes[i]);
        expect(chain_bytes(chain) >= share, "the heap grows");
        give_all_mixed(chain);
    }
    void *mapped =
        mmap(NULL, share, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(mapped != MAP_FAILED, "the program can map memory");
    munmap(mapped, share);
    pthread_t id;
    bool served = false;
    expect(pthread_create(&id, NULL, take_some, &served) == 0 &&
               pthread_join(id, NULL) == 0 && served,
           "and make a thread");
    struct link *chain = take_all(MIB, 2 * room);
    expect(chain_bytes(chain) < room, "the limit holds for the heap");
    refused(2 * room);
    give_all(chain);
}

static void run_self_limited(const void *argument) {
    char name[] = "low_memory", what[] = "self";
    (void)argument;
    execv("/proc/self/exe", (char *[]){name, what, NULL});
    _exit(9);
}

/* Takes all addresses, in pieces down to 64 KiB. */
static void run_no_addresses(const void *argument) {
    void *last = NULL;
    size_t last_length = 0;
    (void)argument;
    give(take(100));
    for (size_t length = (size_t)1 << 46; length >= 65536;) {
        void *p = mmap(NULL, length, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) {
            length /= 2;
        } else if (length >= 64 * MIB) {
            last = p;
            last_length = length;
        }
    }
    struct link *chain = take_all(4 * MIB, (size_t)200 << 30);
    refused((size_t)100 << 30);
    struct link *small = take_all(48, MIB);
    munmap(last, last_length);
    struct link *more = take_all(100000, 8 * MIB);
    expect(chain_bytes(more) >= 8 * MIB, "addresses that are free serve again");
    give_all_mixed(more);
    give_all(small);
    give_all(chain);
}

/*
 * Takes all that the system promises, in blocks that are not written, so that
 * nothing but promises runs out; then small ones of what is left. The kernel
 * keeps some for other programs.
 */
static void run_system_limited(const void *argument) {
    static const size_t sizes[] = {MIB, 200, 5000};
    size_t most = (size_t)1 << 46;
    (void)argument;
    struct link *large = take_all(64 * MIB, most);
    size_t had = chain_bytes(large);
    expect(had >= 512 * MIB && had < most, "much is had, and there is an end");
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct link *small = take_all(sizes[i], 256 * MIB);
        expect(chain_bytes(small) < 256 * MIB, "small blocks end too");
        refused(most);
        keeps_block(large, most);
        give_all_mixed(small);
    }
    give_all_mixed(large);
    large = take_all(48 * MIB, had / 2);
    expect(chain_bytes(large) >= had / 2, "what was freed can be had again");
    give_all(large);
}

/* RUN in a child; what it says comes out as a check. */
static void in_child(void (*run)(const void *), const void *argument,
                     const char *name) {
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        run(argument);
        if (problem != NULL)
            tap_diag("%s", problem);
        _exit(problem != NULL);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        tap_bail("fork");
    /* The loader may lack memory itself. */
    bool not_begun = WIFEXITED(status) && WEXITSTATUS(status) == 127;
    if (status != 0)
        tap_diag("status %#x", (unsigned)status);
    tap_ok(status == 0 || not_begun, "%s%s", name,
           not_begun ? ": too little for any program" : "");
}

/* Share of BYTES that can be allocated in any case: a recording keeps tables of
   its blocks' names, and buffers. */
static size_t least_of(size_t bytes) {
    if (bytes < 20 * MIB)
        return 0;
    return getenv("TCMALLOC_TRACE_OUTPUT") == NULL ? bytes / 2 : bytes / 8;
}

static void test_limits(void) {
    char name[64];
    static const size_t data[] = {0, 65536, MIB, 6 * MIB, 20 * MIB};
    for (unsigned i = 0; i < sizeof(data) / sizeof(*data); i++) {
        struct limited l = {data[i], least_of(data[i])};
        snprintf(name, sizeof(name), "%zu KiB of data left", data[i] / 1024);
        in_child(run_data_limited, &l, name);
    }
    static const size_t space[] = {8 * MIB, 12 * MIB, 16 * MIB, 24 * MIB,
                                   48 * MIB};
    for (unsigned i = 0; i < sizeof(space) / sizeof(*space); i++) {
        /* The program itself and a leaf of the page map count too. */
        struct limited l = {space[i], least_of(space[i] / 4 * 3)};
        snprintf(name, sizeof(name), "%zu KiB of address space",
                 space[i] / 1024);
        in_child(run_address_limited, &l, name);
    }
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "self") == 0) {
        limit_self();
        if (problem != NULL)
            tap_diag("%s", problem);
        return problem != NULL;
    }
    if (argc > 2) {
        struct limited l = {strtoul(argv[1], NULL, 10),
                            strtoul(argv[2], NULL, 10)};
        fill_limited(RLIMIT_AS, &l);
        if (problem != NULL)
            tap_diag("%s", problem);
        return problem != NULL;
    }
    if (argc > 1) {
        in_child(run_system_limited, NULL, "no more promises");
        return tap_done();
    }
    test_limits();
    in_child(run_no_addresses, NULL, "no addresses left");
    in_child(run_self_limited, NULL, "a program that limits itself");
    return tap_done();
}
