// SPDX-License-Identifier: BSD-3-Clause
// Templates, functions inlined into each other, and exceptions: what asks for
// memory is known to the debug information alone.
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

template <class T>
inline __attribute__((always_inline)) void fill(std::vector<T> &to, int n) {
    for (int i = 0; i < n; i++)
        to.push_back(T());
}

struct node {
    std::unique_ptr<node> left, right;
    std::string text;
    explicit node(int depth) : text(40, 'n') {
        if (depth > 0) {
            left = std::make_unique<node>(depth - 1);
            right = std::make_unique<node>(depth - 1);
        }
    }
};

struct counter {
    int thrown = 0;
    __attribute__((noinline)) void fails(int i) {
        throw std::runtime_error("the " + std::to_string(i) +
                                 "th of all of them, in a long text");
    }
    __attribute__((noinline)) void tries(int n) {
        for (int i = 0; i < n; i++)
            try {
                fails(i);
            } catch (const std::exception &e) {
                thrown++;
            }
    }
};

} // namespace

int main() {
    std::vector<int> numbers;
    std::vector<std::string> texts;
    std::map<int, std::string> map;
    fill(numbers, 1000);
    fill(texts, 100);
    for (int i = 0; i < 50; i++)
        map[i] = std::string(100, 'x');
    node tree(6);
    counter c;
    c.tries(30);
    return c.thrown != 30;
}
