/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The new-handler: all forms of new, and malloc and its family in new mode,
 * with handlers that free memory, throw, take themselves out, and nest. Memory
 * is short because the heap is bounded.
 *
 * new_handler          all checks
 * new_handler counts   20 calls that succeed in the end, 6 that fail
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>

#include "gperftools/malloc_extension_c.h"
#include "gperftools/tcmalloc.h"
#include "tap.h"

#define CALL(f) (reinterpret_cast<decltype(&f)>(find(#f)))

static void *find(const char *name) {
    void *p = dlsym(RTLD_DEFAULT, name);
    if (!p)
        tap_bail("%s is not there", name);
    return p;
}

static const size_t MIB = (size_t)1 << 20;
static volatile size_t huge = (size_t)1 << 62;
static const std::align_val_t wide = static_cast<std::align_val_t>(64);

/* Every call that can run out of memory, as one kind of function. */
struct form {
    const char *name;
    void *(*get)(size_t size);
    bool throws;
    bool is_new; /* an operator */
};

static void *by_posix_memalign(size_t size) {
    void *p = nullptr;
    return posix_memalign(&p, 64, size) ? nullptr : p;
}

static const form forms[] = {
    {"new", [](size_t n) { return ::operator new(n); }, true, true},
    {"new[]", [](size_t n) { return ::operator new[](n); }, true, true},
    {"new(align)", [](size_t n) { return ::operator new(n, wide); }, true,
     true},
    {"new[](align)", [](size_t n) { return ::operator new[](n, wide); }, true,
     true},
    {"new(nothrow)", [](size_t n) { return ::operator new(n, std::nothrow); },
     false, true},
    {"new[](nothrow)",
     [](size_t n) { return ::operator new[](n, std::nothrow); }, false, true},
    {"new(align,nothrow)",
     [](size_t n) { return ::operator new(n, wide, std::nothrow); }, false,
     true},
    {"new[](align,nothrow)",
     [](size_t n) { return ::operator new[](n, wide, std::nothrow); }, false,
     true},
    {"malloc", [](size_t n) { return malloc(n); }, false, false},
    {"calloc", [](size_t n) { return calloc(1, n); }, false, false},
    {"realloc", [](size_t n) { return realloc(nullptr, n); }, false, false},
    {"reallocarray", [](size_t n) { return reallocarray(nullptr, 1, n); },
     false, false},
    {"memalign", [](size_t n) { return memalign(64, n); }, false, false},
    {"aligned_alloc", [](size_t n) { return aligned_alloc(64, n); }, false,
     false},
    {"posix_memalign", by_posix_memalign, false, false},
    {"valloc", [](size_t n) { return valloc(n); }, false, false},
    {"pvalloc", [](size_t n) { return pvalloc(n); }, false, false},
};

/* --- Handlers --------------------------------------------------------------
 */

static int calls;
static int gone; /* destructors that ran */
static void *reserve;

struct local {
    ~local() {
        gone++;
    }
};

/* An exception that is seen to be destroyed. */
static int alive;
struct counted : std::bad_alloc {
    counted() {
        alive++;
    }
    counted(const counted &o) : std::bad_alloc(o) {
        alive++;
    }
    ~counted() override {
        alive--;
    }
};

static void frees() {
    calls++;
    free(reserve);
    reserve = nullptr;
}
static void throws_bad_alloc() {
    local l;
    calls++;
    throw counted();
}
static void throws_other() {
    local l;
    calls++;
    throw std::runtime_error("other");
}
static void throws_int() {
    local l;
    calls++;
    throw 7;
}
static void resets() {
    if (++calls == 3)
        std::set_new_handler(nullptr);
}
static void replaces() {
    calls++;
    std::set_new_handler(throws_bad_alloc);
}
static void nests() {
    if (++calls < 4 && ::operator new(huge, std::nothrow) != nullptr)
        calls = 1000;
    throws_other();
}
/* The other kind within: its exception comes through this handler. */
static void nests_throwing() {
    local l;
    if (++calls == 1)
        free(::operator new(huge));
    throws_bad_alloc();
}
static void ends_thread() {
    local l;
    pthread_exit(&calls);
}

/* Bounds the heap to what it has, and then a block of 24 MiB more, which is
   held in reserve. */
static void make_short() {
    CALL(MallocExtension_ReleaseFreeMemory)();
    size_t committed = 0;
    CALL(MallocExtension_GetNumericProperty)
    ("tcmalloc.pageheap_committed_bytes", &committed);
    CALL(MallocExtension_SetNumericProperty)
    ("tcmalloc.heap_limit_mb", committed / MIB + 30);
    free(reserve);
    reserve = malloc(24 * MIB);
}

static void make_plenty() {
    CALL(MallocExtension_SetNumericProperty)("tcmalloc.heap_limit_mb", 0);
    free(reserve);
    reserve = nullptr;
}

enum outcome { GOT, NOTHING, BAD_ALLOC, OTHER };

static outcome attempt(const form &f, size_t size) {
    outcome o = NOTHING;
    calls = 0;
    gone = 0;
    try {
        errno = 0;
        void *p = f.get(size);
        if (p) {
            memset(p, 1, size);
            free(p);
            o = GOT;
        }
    } catch (const std::bad_alloc &) {
        o = BAD_ALLOC;
    } catch (...) {
        o = OTHER;
    }
    if (std::uncaught_exceptions() != 0 || alive != 0)
        tap_diag("%s: %d exceptions under way, %d alive", f.name,
                 std::uncaught_exceptions(), alive);
    return o;
}

static void test_form(const form &f) {
    outcome bad = f.throws ? BAD_ALLOC : NOTHING;
    std::set_new_handler(frees);
    make_short();
    tap_ok(attempt(f, 20 * MIB) == GOT && calls == 1 && errno == 0,
           "%s: a handler that frees memory", f.name);
    make_plenty();
    std::set_new_handler(throws_bad_alloc);
    tap_ok(attempt(f, huge) == bad && calls == 1 && gone == 1 && alive == 0,
           "%s: one that throws bad_alloc", f.name);
    tap_ok(f.is_new || errno == ENOMEM, "%s: errno", f.name);
    std::set_new_handler(throws_other);
    tap_ok(attempt(f, huge) == (f.throws ? OTHER : NOTHING) && gone == 1,
           "%s: one that throws something else", f.name);
    std::set_new_handler(throws_int);
    tap_ok(attempt(f, huge) == (f.throws ? OTHER : NOTHING) && gone == 1,
           "%s: or no class", f.name);
    std::set_new_handler(resets);
    tap_ok(attempt(f, huge) == bad && calls == 3,
           "%s: one that takes itself out", f.name);
    std::set_new_handler(replaces);
    tap_ok(attempt(f, huge) == bad && calls == 2,
           "%s: one that puts another in", f.name);
    std::set_new_handler(nests);
    tap_ok(attempt(f, huge) == (f.throws ? OTHER : NOTHING) && calls == 8 &&
               gone == 4,
           "%s: one that runs out of memory itself", f.name);
    std::set_new_handler(nests_throwing);
    tap_ok(attempt(f, huge) == bad && calls == 3 && gone == 3 && alive == 0,
           "%s: and lets that through", f.name);
    std::set_new_handler(nullptr);
    tap_ok(attempt(f, huge) == bad && calls == 0, "%s: none", f.name);
    bool many = true;
    std::set_new_handler(throws_bad_alloc);
    for (int i = 0; i < 1000; i++)
        many &= attempt(f, huge) == bad;
    tap_ok(many && alive == 0, "%s: a thousand times", f.name);
    std::set_new_handler(nullptr);
}

static void test_modes() {
    std::set_new_handler(throws_bad_alloc);
    for (const form &f : forms) {
        if (!f.is_new)
            tap_ok(attempt(f, huge) == NOTHING && calls == 0,
                   "%s: without new mode no handler is called", f.name);
    }
    tap_ok(CALL(tc_set_new_mode)(1) == 0, "new mode is set");
    for (const form &f : forms)
        test_form(f);
    std::set_new_handler(throws_bad_alloc);
    calls = 0;
    tap_ok(!CALL(tc_malloc_skip_new_handler)(huge) && calls == 0,
           "tc_malloc_skip_new_handler calls none");
    tap_ok(!calloc(huge, huge) && calls == 0,
           "nor does a calloc of more than can be counted");

    char *p = static_cast<char *>(malloc(1000));
    strcpy(p, "kept");
    tap_ok(!realloc(p, huge) && calls == 1 && strcmp(p, "kept") == 0,
           "a realloc that fails leaves the block");
    std::set_new_handler(frees);
    make_short();
    p = static_cast<char *>(realloc(p, 20 * MIB));
    tap_ok(p && strcmp(p, "kept") == 0, "one that succeeds takes it along");
    free(p);
    make_plenty();
    CALL(tc_set_new_mode)(0);
}

/* --- In the middle of other exceptions -------------------------------------
 */

struct allocates {
    bool *good;
    ~allocates() {
        *good &= ::operator new(huge, std::nothrow) == nullptr;
        *good &= std::uncaught_exceptions() == 1;
    }
};

static void test_among_exceptions() {
    bool good = true;
    std::set_new_handler(throws_bad_alloc);
    try {
        allocates a{&good};
        throw std::runtime_error("first");
    } catch (const std::runtime_error &e) {
        good &= ::operator new(huge, std::nothrow) == nullptr;
        good &= strcmp(e.what(), "first") == 0;
        try {
            std::rethrow_exception(std::current_exception());
        } catch (const std::runtime_error &again) {
            good &= strcmp(again.what(), "first") == 0;
        }
    }
    tap_ok(good && alive == 0 && std::uncaught_exceptions() == 0,
           "in a destructor while another exception is under way, in a catch");
}

/* A pointer that does not promise to throw nothing, so that a thread can end
   below it. */
static void *(*volatile nothrow_new)(size_t,
                                     const std::nothrow_t &) = ::operator new;

static void *thread_ends_inside(void *throwing) {
    local l;
    void *p = throwing ? ::operator new(huge) : nothrow_new(huge, std::nothrow);
    free(p);
    return nullptr;
}

static void test_thread_end() {
    std::set_new_handler(ends_thread);
    for (void *throwing : {(void *)nullptr, (void *)&calls}) {
        pthread_t id;
        void *result = nullptr;
        gone = 0;
        pthread_create(&id, nullptr, thread_ends_inside, throwing);
        pthread_join(id, &result);
        tap_ok(result == &calls && gone == 2,
               "a handler that ends its thread, below %s",
               throwing ? "new" : "new(nothrow)");
    }
    std::set_new_handler(nullptr);
}

static void test_alignments() {
    bool good = true;
    for (size_t a : {(size_t)3, (size_t)0, (size_t)48, SIZE_MAX}) {
        std::align_val_t v = static_cast<std::align_val_t>(a);
        good &= ::operator new(100, v, std::nothrow) == nullptr || a == 0;
    }
    tap_ok(good, "an alignment that is none is refused");
}

static int counts() {
    CALL(tc_set_new_mode)(1);
    for (const form &f : forms) {
        std::set_new_handler(frees);
        make_short();
        if (attempt(f, 20 * MIB) != GOT)
            return 1;
        make_plenty();
    }
    std::set_new_handler(resets);
    for (int i = 0; i < 6; i++) {
        if (attempt(forms[i * 2], huge) == GOT)
            return 1;
        std::set_new_handler(resets);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "counts") == 0)
        return counts();
    test_modes();
    test_among_exceptions();
    test_thread_end();
    test_alignments();
    return tap_done();
}
