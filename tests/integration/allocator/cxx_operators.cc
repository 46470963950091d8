/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every form of operator new and delete, std::bad_alloc, the new-handler, and
 * memory that passes between C and C++.
 */
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tap.h"

static volatile size_t huge = (size_t)1 << 62;
static void *volatile sink;

static bool aligned(void *p, size_t to) {
    return reinterpret_cast<uintptr_t>(p) % to == 0;
}

static void test_forms() {
    bool good = true;
    for (size_t size : {(size_t)0, (size_t)1, (size_t)24, (size_t)1000,
                        (size_t)100000, (size_t)3000000}) {
        void *p = ::operator new(size);
        void *q = ::operator new[](size);
        void *r = ::operator new(size, std::nothrow);
        void *s = ::operator new[](size, std::nothrow);
        good &= p && q && r && s && p != q && r != s;
        good &= aligned(p, size >= 16 ? 16 : 1);
        memset(p, 1, size);
        memset(q, 2, size);
        ::operator delete(p);
        ::operator delete[](q);
        ::operator delete(r, std::nothrow);
        ::operator delete[](s, std::nothrow);
        p = ::operator new(size);
        ::operator delete(p, size);
        p = ::operator new[](size);
        ::operator delete[](p, size);
        for (size_t a = 16; a <= 65536; a *= 4) {
            std::align_val_t v = static_cast<std::align_val_t>(a);
            p = ::operator new(size, v);
            q = ::operator new[](size, v);
            r = ::operator new(size, v, std::nothrow);
            s = ::operator new[](size, v, std::nothrow);
            good &= aligned(p, a) && aligned(q, a) && aligned(r, a) &&
                    aligned(s, a) && p && q && r && s;
            ::operator delete(p, v);
            ::operator delete[](q, v);
            ::operator delete(r, v, std::nothrow);
            ::operator delete[](s, v, std::nothrow);
            p = ::operator new(size, v);
            ::operator delete(p, size, v);
            p = ::operator new[](size, v);
            ::operator delete[](p, size, v);
        }
    }
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
    ::operator delete(nullptr, (size_t)8);
    ::operator delete(nullptr, std::nothrow);
    ::operator delete(nullptr, static_cast<std::align_val_t>(64));
    tap_ok(good, "all forms of new and delete");
}

template <class F> static bool throws(F f) {
    try {
        sink = f();
    } catch (const std::bad_alloc &e) {
        return strcmp(e.what(), "std::bad_alloc") == 0;
    }
    return false;
}

static void test_bad_alloc() {
    std::align_val_t a = static_cast<std::align_val_t>(128);
    tap_ok(throws([] { return ::operator new(huge); }), "new throws bad_alloc");
    tap_ok(throws([] { return ::operator new[](huge); }),
           "new[] throws bad_alloc");
    tap_ok(throws([a] { return ::operator new(huge, a); }),
           "aligned new throws bad_alloc");
    tap_ok(throws([a] { return ::operator new[](huge, a); }),
           "aligned new[] throws bad_alloc");
    tap_ok(!::operator new(huge, std::nothrow) &&
               !::operator new[](huge, std::nothrow) &&
               !::operator new(huge, a, std::nothrow) &&
               !::operator new[](huge, a, std::nothrow),
           "the nothrow forms return NULL");
    int caught = 0;
    for (int i = 0; i < 10000; i++)
        caught += throws([] { return ::operator new(huge); });
    tap_ok(caught == 10000, "ten thousand times");
}

static int handler_calls;

static void counting_handler() {
    if (++handler_calls == 3)
        std::set_new_handler(nullptr);
}

struct gave_up {};
static void throwing_handler() {
    handler_calls++;
    throw gave_up();
}

static void test_new_handler() {
    handler_calls = 0;
    std::set_new_handler(counting_handler);
    tap_ok(throws([] { return ::operator new(huge); }) && handler_calls == 3,
           "new calls the new-handler until there is none");
    handler_calls = 0;
    std::set_new_handler(counting_handler);
    tap_ok(!::operator new(huge, std::nothrow) && handler_calls == 3,
           "so does the nothrow form");
    handler_calls = 0;
    std::set_new_handler(counting_handler);
    sink = malloc(huge);
    tap_ok(handler_calls == 0, "malloc does not");
    std::set_new_handler(throwing_handler);
    bool caught = false;
    try {
        sink = ::operator new(huge);
    } catch (const gave_up &) {
        caught = true;
    }
    tap_ok(caught && handler_calls == 1, "what a new-handler throws comes out");
    std::set_new_handler(nullptr);
}

struct alignas(256) wide {
    char bytes[300];
};

static void test_containers() {
    std::map<int, std::string> m;
    for (int i = 0; i < 20000; i++)
        m[i * 7919 % 20011] = std::string(static_cast<size_t>(i % 300), 'x');
    for (int i = 0; i < 20011; i += 2)
        m.erase(i);
    size_t sum = 0;
    for (auto &e : m)
        sum += e.second.size();
    tap_ok(m.size() > 9000 && sum > 1000000, "containers");
    std::vector<wide *> v;
    bool good = true;
    for (int i = 0; i < 100; i++) {
        v.push_back(new wide);
        good &= aligned(v.back(), 256);
    }
    for (wide *w : v)
        delete w;
    tap_ok(good, "over-aligned types");
    void *p = malloc(100);
    ::operator delete(p);
    p = ::operator new(100);
    free(p);
    p = realloc(::operator new(100), 1000);
    free(p);
    tap_ok(p != nullptr, "C and C++ share one heap");
}

static void test_threads() {
    int bad = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&bad, i] {
            for (int k = 0; k < 2000; k++)
                if (!throws([] { return ::operator new(huge); }))
                    __atomic_fetch_add(&bad, 1, __ATOMIC_RELAXED);
            std::vector<std::string> s;
            for (int k = 0; k < 2000; k++)
                s.emplace_back(static_cast<size_t>(k + i), 'y');
        });
    for (auto &t : threads)
        t.join();
    tap_ok(bad == 0, "threads");
}

int main() {
    test_forms();
    test_bad_alloc();
    test_new_handler();
    test_containers();
    test_threads();
    return tap_done();
}
