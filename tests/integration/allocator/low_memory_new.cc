// SPDX-License-Identifier: BSD-3-Clause
// operator new when memory ends: throws, says NULL, asks its handler.
#include <cstdio>
#include <cstdlib>
#include <new>
#include <sys/resource.h>
#include <unistd.h>

static void *volatile reserve;
static int asked;

static void give_reserve() {
    asked++;
    if (reserve == nullptr)
        std::set_new_handler(nullptr);
    ::operator delete(reserve);
    reserve = nullptr;
}

static int checks, failed;

static void ok(bool good, const char *what) {
    checks++;
    failed += !good;
    std::printf("%s %d - %s\n", good ? "ok" : "not ok", checks, what);
    std::fflush(stdout);
}

struct block {
    block *next;
};

// Blocks of SIZE until new throws.
static block *take_all(std::size_t size, bool *thrown) {
    block *chain = nullptr;
    try {
        for (;;) {
            block *b = static_cast<block *>(::operator new(size));
            b->next = chain;
            chain = b;
        }
    } catch (const std::bad_alloc &) {
        *thrown = true;
    }
    return chain;
}

static void give_all(block *chain) {
    while (chain != nullptr) {
        block *next = chain->next;
        ::operator delete(chain);
        chain = next;
    }
}

int main() {
    std::size_t pages = 0; // of data
    bool thrown = false;
    struct rlimit limit;
    if (std::FILE *f = std::fopen("/proc/self/statm", "r")) {
        if (std::fscanf(f, "%*s %*s %*s %*s %*s %zu", &pages) != 1)
            return 99;
        std::fclose(f);
    }
    std::printf("# a line, so that stdout has its buffer\n");
    getrlimit(RLIMIT_DATA, &limit);
    limit.rlim_cur = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) +
                     (std::size_t(8) << 20);
    setrlimit(RLIMIT_DATA, &limit);
    const std::size_t sizes[] = {64, 5000, 1 << 20};
    for (std::size_t size : sizes) {
        thrown = false;
        block *chain = take_all(size, &thrown);
        ok(thrown && chain != nullptr, "new throws bad_alloc in the end");
        ok(::operator new(std::size_t(1) << 30, std::nothrow) == nullptr,
           "nothrow new says NULL");
        thrown = false;
        try {
            ::operator delete(
                ::operator new(std::size_t(1) << 30, std::align_val_t(4096)));
        } catch (const std::bad_alloc &) {
            thrown = true;
        }
        ok(thrown, "aligned new throws");
        give_all(chain);
    }
    reserve = ::operator new(4 << 20);
    std::set_new_handler(give_reserve);
    thrown = false;
    block *chain = take_all(1 << 20, &thrown);
    ok(thrown && asked == 2 && reserve == nullptr,
       "the handler frees a reserve, which is used up, too");
    give_all(chain);
    std::printf("1..%d\n", checks);
    return failed != 0;
}
