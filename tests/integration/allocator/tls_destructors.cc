// SPDX-License-Identifier: BSD-3-Clause
// Destructors of thread-local objects and of pthread keys, which run in turn
// and in several rounds, and allocate, free, and make each other run again.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <pthread.h>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

static std::atomic<int> object_ends, key_ends, late_uses, wrong;
static pthread_key_t keys[40]; // more than fit a thread's first block of keys
static int key_index[40];

// Allocates in its constructor, in its life and in its destructor.
struct holder {
    std::unordered_map<int, std::string> map;
    std::unique_ptr<char[]> block;
    explicit holder(int seed) : block(new char[3000]) {
        std::memset(block.get(), seed, 3000);
        for (int i = 0; i < 50; i++)
            map[i * seed] = std::string(static_cast<std::size_t>(i * 5), 'x');
    }
    ~holder() {
        std::vector<std::string> copies;
        for (auto &entry : map)
            copies.push_back(entry.second + std::to_string(entry.first));
        if (copies.size() != map.size())
            wrong++;
        object_ends++;
    }
};

// Made in a destructor of a key, when the other thread-local objects are gone
// already. The C library destroys such an object or lets it leak.
static void use_late() {
    static thread_local std::string late(1000, 'z');
    late += "late";
    late_uses += late.size() == 1004;
}

static void key_ends_here(void *value) {
    int *rounds = static_cast<int *>(value);
    int key = rounds[1], left = rounds[0] - 1;
    auto text = std::make_unique<std::string>(2000, 'k');
    delete[] rounds;
    key_ends++;
    if (key == 7 && left == 1)
        use_late();
    if (left > 0) {
        int *next = new int[2 + 100 * key];
        next[0] = left;
        next[1] = key;
        pthread_setspecific(keys[key], next);
    }
}

static void thread(int seed) {
    static thread_local holder a(seed % 100 + 1);
    static thread_local holder b(a.map.size() ? 3 : 4);
    for (int i = 0; i < 40; i++) {
        int *value = new int[2];
        value[0] = 4; // as many rounds as there are
        value[1] = key_index[i];
        pthread_setspecific(keys[i], value);
    }
}

int main() {
    const int threads = 150;
    for (int i = 0; i < 40; i++) {
        key_index[i] = i;
        if (pthread_key_create(&keys[i], key_ends_here))
            return 99;
    }
    for (int i = 0; i < threads; i += 3) {
        std::thread x(thread, i), y(thread, i + 1), z(thread, i + 2);
        x.join();
        y.join();
        z.join();
    }
    int bad = 0;
    auto ok = [&bad](int n, bool good, const char *what) {
        bad += !good;
        std::printf("%s %d - %s\n", good ? "ok" : "not ok", n, what);
    };
    ok(1, object_ends == 2 * threads, "all thread-local objects end");
    ok(2, key_ends == 4 * 40 * threads, "keys' destructors run in four rounds");
    ok(3, wrong == 0, "what they allocate is good");
    ok(4, late_uses == threads, "objects can be made in a destructor");
    std::printf("1..4\n");
    return bad != 0;
}
