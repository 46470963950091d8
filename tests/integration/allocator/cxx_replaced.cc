/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaces some of the operators new and delete, and counts their calls: those
 * that are not replaced must call them, as those of the C++ library do. With
 * ARRAYS it replaces the forms for arrays and alignments, else the two basic
 * ones. A block has a header, so that a wrong delete is noticed. Replaces
 * realloc, too: reallocarray must call that. Prints the counts.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

/* The sized forms are the C++ library's, on purpose. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wsized-deallocation"
#endif

static unsigned made, gone, wrong;

static const std::size_t head = 64, most = 1 << 20;

static void *make(std::size_t size) {
    made++;
    if (size > most)
        throw std::bad_alloc();
    void *p;
    if (posix_memalign(&p, head, size + head) != 0)
        throw std::bad_alloc();
    std::memset(p, 0x5a, head);
    return static_cast<char *>(p) + head;
}

/* Not inlined: a compiler that sees the operator new takes the header for being
   outside the block. */
__attribute__((noinline)) static void drop(void *p) {
    if (p == nullptr)
        return;
    gone++;
    char *block = static_cast<char *>(p) - head;
    wrong += *block != 0x5a;
    *block = 0;
    std::free(block);
}

#ifdef ARRAYS
void *operator new[](std::size_t size) {
    return make(size);
}
void operator delete[](void *p) noexcept {
    drop(p);
}
void *operator new(std::size_t size, std::align_val_t) {
    return make(size);
}
void operator delete(void *p, std::align_val_t) noexcept {
    drop(p);
}
#else
void *operator new(std::size_t size) {
    return make(size);
}
void operator delete(void *p) noexcept {
    drop(p);
}
#endif

static unsigned reallocs;

extern "C" void *realloc(void *p, std::size_t size) {
    reallocs++;
    void *to = std::malloc(size);
    if (to != nullptr && p != nullptr)
        std::memcpy(to, p, 16);
    std::free(p);
    return to;
}

struct Plain {
    long a[9];
    virtual ~Plain() {
    }
};
struct alignas(64) Wide {
    char c[64];
    ~Wide() {
        c[0] = 1;
    }
};

/* The compiler may leave out a pair of new and delete that it sees. */
static void *volatile seen;
template <typename T> static T *show(T *p) {
    seen = p;
    return p;
}

static const char *refused(std::size_t size, std::size_t align) {
    try {
        void *p = align == 0 ? ::operator new[](size, std::nothrow)
                             : ::operator new(size, std::align_val_t(align),
                                              std::nothrow);
        return p == nullptr ? "NULL" : "a block";
    } catch (...) {
        return "thrown";
    }
}

int main() {
    for (int i = 0; i < 20; i++) {
        delete show(new Plain);
        delete[] show(new Plain[3]);
        delete[] show(new int[7]);
        delete show(new Wide);
        delete[] show(new Wide[2]);
        delete show(new (std::nothrow) Plain);
        delete[] show(new (std::nothrow) char[9]);
        ::operator delete(show(::operator new(100, std::nothrow)),
                          std::nothrow);
        ::operator delete[](show(::operator new[](100, std::nothrow)),
                            std::nothrow);
        auto wide = std::align_val_t(64);
        ::operator delete(show(::operator new(100, wide, std::nothrow)), wide,
                          std::nothrow);
        ::operator delete[](show(::operator new[](100, wide, std::nothrow)),
                            wide, std::nothrow);
        ::operator delete(show(::operator new(100)), 100);
        ::operator delete[](show(::operator new[](100)), 100);
        ::operator delete(show(::operator new(128, wide)), 128, wide);
        ::operator delete[](show(::operator new[](128, wide)), 128, wide);
    }
    std::printf("%u made, %u gone, %u wrong\n", made, gone, wrong);
#ifdef ARRAYS
    std::printf("too much, nothrow: %s, %s\n", refused(most + 1, 0),
                refused(most + 1, 64));
#else
    std::printf("too much, nothrow: %s\n", refused(most + 1, 0));
#endif
    void *p = std::malloc(16);
    std::strcpy(static_cast<char *>(p), "some text");
    p = reallocarray(p, 10, 20);
    std::printf("%u reallocs, %s\n", reallocs, static_cast<char *>(p));
    std::free(p);
    return 0;
}
