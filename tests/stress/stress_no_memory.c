/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that is refused: at the n-th call to the system alone, for every n,
 * and at the n-th and all after it. Each time in a fresh process, which must
 * get NULL and ENOMEM or a block, keep what its blocks hold, find its heap
 * whole, and be served again when the system gives memory again.
 *
 * stress_no_memory [STEPS]
 *
 * Twice: the second time the children are recorded, and the recorder, which
 * asks for memory too, must do without.
 */
#include "api/export.h"
#include "base/atomic.h"
#include "base/check.h"
#include "core/heap.h"
#include "lib/prng.h"
#include "lib/rounds.h"
#include "lib/tap.h"
#include "stress/stress_record.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS 200

static unsigned long steps = 1000;
static uint32_t calls;         /* to the system, so far */
static uint32_t first_refused; /* from 1 */
static uint32_t last_refused;

static bool refuse(const char *call) {
    (void)call;
    uint32_t n = tcm_add_relaxed(&calls, 1u) + 1;
    return n >= first_refused && n <= last_refused;
}

struct slot {
    unsigned char *p;
    size_t size;
    unsigned char fill;
};

static struct slot slots[SLOTS];
static const char *problem;

static void expect(bool good, const char *what) {
    if (!good && problem == NULL)
        problem = what;
}

static void fill(struct slot *s, unsigned char *p, size_t size) {
    s->p = p;
    s->size = size;
    s->fill = (unsigned char)(size * 7 + 1);
    memset(p, s->fill, size);
}

static void check_fill(const struct slot *s, size_t size) {
    for (size_t i = 0; i < size; i += i < 64 ? 1 : 509)
        expect(s->p[i] == s->fill, "a block keeps its bytes");
    expect(size == 0 || s->p[size - 1] == s->fill, "up to the last");
}

static size_t some_size(struct prng *random) {
    switch (prng_below(random, 40)) {
    case 0:
        return prng_below(random, (size_t)3 << 20);
    case 1:
    case 2:
        return prng_below(random, 300000);
    default:
        return prng_below(random, (size_t)1 << prng_below(random, 15));
    }
}

static void *allocate(struct prng *random, size_t size) {
    void *p = NULL, *before = &slots;
    switch (prng_below(random, 8)) {
    case 0:
        p = TCM_EXPORT(calloc)(1, size);
        for (size_t i = 0; p != NULL && i < size; i += 61)
            expect(((char *)p)[i] == 0, "calloc clears");
        return p;
    case 1:
        return TCM_EXPORT(memalign)((size_t)1 << prng_below(random, 17), size);
    case 2:
        p = before;
        if (TCM_EXPORT(posix_memalign)(&p, 64, size) == 0)
            return p;
        expect(p == before, "posix_memalign leaves the pointer alone");
        return NULL;
    default:
        return TCM_EXPORT(malloc)(size);
    }
}

static void resize(struct slot *s, size_t size) {
    unsigned char *p = TCM_EXPORT(realloc)(s->p, size);
    if (p == NULL) {
        expect(size == 0 || errno == ENOMEM, "realloc says ENOMEM");
        if (size == 0)
            s->p = NULL;
        else
            check_fill(s, s->size);
        return;
    }
    s->p = p;
    check_fill(s, size < s->size ? size : s->size);
    fill(s, p, size);
}

static void step(struct prng *random) {
    struct slot *s = &slots[prng_below(random, SLOTS)];
    size_t size = some_size(random);
    errno = 55;
    if (s->p == NULL) {
        unsigned char *p = allocate(random, size);
        expect(p != NULL || errno == ENOMEM, "NULL comes with ENOMEM");
        if (p != NULL)
            fill(s, p, size);
    } else if (prng_below(random, 4) == 0) {
        resize(s, size);
    } else {
        check_fill(s, s->size);
        TCM_EXPORT(free)(s->p);
        expect(errno == 55, "free leaves errno alone");
        s->p = NULL;
    }
}

static void *other_thread(void *argument) {
    for (unsigned i = 0; i < 60; i++)
        step(argument);
    return NULL;
}

static void run_steps(struct prng *random) {
    for (unsigned long i = 0; i < steps; i++) {
        step(random);
        if (i % (steps / 8) == 0) {
            pthread_t id;
            if (pthread_create(&id, NULL, other_thread, random) == 0)
                pthread_join(id, NULL);
        }
        if (i % (steps / 3) == steps / 5)
            (void)TCM_EXPORT(malloc_trim)(0);
    }
}

static void drop_all(void) {
    for (unsigned i = 0; i < SLOTS; i++) {
        if (slots[i].p != NULL) {
            check_fill(&slots[i], slots[i].size);
            TCM_EXPORT(free)(slots[i].p);
        }
        slots[i].p = NULL;
    }
}

/* In a child: 0 when as many calls were made as could be refused, 1 when there
   were fewer. */
static int run_child(uint32_t first, uint32_t last) {
    struct prng random;
    prng_seed(&random, 4711);
    first_refused = first;
    last_refused = last;
    tcm_testpoint_refuse = refuse;
    alarm(60);
    run_steps(&random);
    tcm_heap_verify();
    bool reached = tcm_load_relaxed(&calls) >= first;
    tcm_testpoint_refuse = NULL;
    /* Memory is back. */
    for (size_t size = 1; size < (size_t)4 << 20; size = size * 3 + 1) {
        void *p = TCM_EXPORT(calloc)(1, size);
        expect(p != NULL, "all is served when memory is back");
        TCM_EXPORT(free)(p);
    }
    drop_all();
    tcm_heap_verify();
    if (problem != NULL) {
        tap_diag("calls %u to %u refused: %s", first, last, problem);
        return 2;
    }
    return reached ? 0 : 1;
}

static void refuse_each(bool rest_too, const char *how) {
    unsigned bad = 0, n = 0;
    int code = 0;
    while (code != 1 && n < 2000 && bad < 10) {
        n++;
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
            _exit(run_child(n, rest_too ? UINT32_MAX : n));
        int status;
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
            tap_bail("fork");
        code =
            WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
        if (code > 1) {
            tap_diag("refused at %u: child says %d", n, code);
            bad++;
        }
    }
    tap_ok(bad == 0 && n > 20, "memory refused %s, at %u places%s",
           rest_too ? "from one call on" : "once", n - 1, how);
}

int main(int argc, char **argv) {
#ifdef __SANITIZE_THREAD__
    return tap_skip_all("the sanitizer ends threads before the library does");
#endif
    if (tap_emulated())
        return tap_skip_all("the kernel cannot run the test's file again");
    if (rounds_long())
        steps *= 5;
    if (argc > 1)
        steps = strtoul(argv[1], NULL, 10);
    /* The recorder reads its settings before main. */
    char *folder = stress_folder();
    if (folder == NULL) {
        refuse_each(false, "");
        refuse_each(true, "");
        fflush(stdout);
        return stress_record(argv, "%p") ? tap_done() : 1;
    }
    tap_state.run = 2;
    refuse_each(false, ", recording");
    refuse_each(true, ", recording");
    stress_remove(folder);
    return tap_done();
}
