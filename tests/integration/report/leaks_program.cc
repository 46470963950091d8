// SPDX-License-Identifier: BSD-3-Clause
// A leak through containers: 10 sessions of 24 bytes with 1000 each, and a map
// that is freed.
#include <map>
#include <string>
#include <vector>

struct session {
    std::vector<char> buffer;
};

static session *volatile last;

__attribute__((noinline)) static session *open_session() {
    session *s = new session;
    s->buffer.resize(1000);
    return s;
}

int main() {
    std::map<int, std::string> names;
    for (int i = 0; i < 10; i++) {
        last = open_session();
        names[i] = std::string(100, 'x');
    }
    last = nullptr;
    return names.size() != 10;
}
