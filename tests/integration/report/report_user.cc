// SPDX-License-Identifier: BSD-3-Clause
// Containers that grow in the user's functions; the numbers in their names are
// the bytes that they ask for in all.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Functions that only this file can call.
static void *volatile sink;
namespace {
struct first {
    void make() const {
        sink = malloc(701);
    }
};
struct second {
    void make() const {
        sink = malloc(702);
    }
};
} // namespace
namespace alloc {
static void make() {
    sink = malloc(703);
}
} // namespace alloc
__attribute__((noinline)) static void with_lambda(int n) {
    auto f = [n] { sink = malloc((size_t)n); };
    f();
}
__attribute__((noinline)) void with_class(int n) {
    struct inner {
        void make(int m) {
            sink = calloc(1, (size_t)m);
        }
    };
    inner().make(n);
}

// A type of the result that is longer than a line.
template <class T>
__attribute__((noinline)) std::vector<std::pair<std::string, T>>
collect(const std::vector<std::pair<std::string, T>> &from) {
    return from;
}

struct session {
    std::vector<char> buffer;
    std::string name;
};

__attribute__((noinline)) static void open_session_4000(session &s) {
    s.buffer.resize(3000);
    s.name = std::string(999, 'x');
}

template <class T>
__attribute__((noinline)) static void keep_64(std::vector<T> &all, const T &t) {
    all.reserve(16);
    all.push_back(t);
}

int main() {
    session s;
    std::vector<int> all;
    open_session_4000(s);
    keep_64(all, 7);
    first().make();
    second().make();
    alloc::make();
    with_lambda(704);
    with_class(705);
    collect(std::vector<std::pair<std::string, int>>(1));
    return all.size() != 1;
}
