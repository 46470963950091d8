// SPDX-License-Identifier: BSD-3-Clause
// A program of one large map for bench/compare_programs.py: its keys are read
// and replaced in random order, so that its time depends on where blocks lie.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

int main(int argc, char **argv) {
    uint64_t keys = argc > 1 ? strtoull(argv[1], nullptr, 10) : 300000;
    std::map<uint64_t, std::string> all;
    uint64_t state = 88172645463325252u, sum = 0;
    for (uint64_t i = 0; i < 2 * keys; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        uint64_t key = state % keys;
        auto at = all.find(key);
        if (at == all.end()) {
            all[key] = std::string(key % 60, 'x');
        } else if (i % 3 == 0) {
            sum += at->second.size();
            all.erase(at);
        } else {
            at->second.append(1, 'y');
        }
    }
    printf("%zu %zu\n", all.size(), static_cast<size_t>(sum));
    return 0;
}
