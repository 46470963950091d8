// SPDX-License-Identifier: BSD-3-Clause
// Containers that grow in the user's functions; the numbers in their names are
// the bytes that they ask for in all.
#include <memory>
#include <string>
#include <vector>

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
    return all.size() != 1;
}
