// SPDX-License-Identifier: BSD-3-Clause
// A program of threads for bench/compare_programs.py: each indexes words of its
// own texts, and hands every eighth text to the next thread.
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

struct mailbox {
    std::mutex lock;
    std::vector<std::unique_ptr<std::string>> texts;
};

uint64_t next(uint64_t &state) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

size_t work(std::vector<mailbox> &boxes, size_t self, size_t rounds) {
    uint64_t state = 88172645463325252u + self;
    std::map<std::string, std::vector<size_t>> index;
    size_t sum = 0;
    for (size_t r = 0; r < rounds; r++) {
        auto text = std::make_unique<std::string>();
        for (int w = 0; w < 20; w++) {
            std::string word = "word" + std::to_string(next(state) % 20000);
            index[word].push_back(r);
            *text += word + " and so on ";
        }
        if (index.size() > 12000)
            index.erase(index.begin());
        if (r % 8 == 0) {
            mailbox &to = boxes[(self + 1) % boxes.size()];
            std::lock_guard<std::mutex> hold(to.lock);
            to.texts.push_back(std::move(text));
        }
        if (r % 64 == 0) {
            std::vector<std::unique_ptr<std::string>> got;
            {
                std::lock_guard<std::mutex> hold(boxes[self].lock);
                got.swap(boxes[self].texts);
            }
            for (auto &t : got)
                sum += t->size();
        }
    }
    return sum + index.size();
}

} // namespace

int main(int argc, char **argv) {
    size_t rounds = argc > 1 ? strtoul(argv[1], nullptr, 10) : 20000;
    std::vector<mailbox> boxes(4);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < boxes.size(); i++)
        threads.emplace_back(work, std::ref(boxes), i, rounds);
    for (auto &t : threads)
        t.join();
    return 0;
}
