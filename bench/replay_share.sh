#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Time that replay itself takes for an operation: under a malloc that does next
# to nothing, beside the bare cost of two such calls in a loop; and the speed of
# the decoding process.
#
#     bench/replay_share.sh [-b BUILD] [-n ROUNDS] [TRACE...]
#
# BUILD is the build tree (default: the current folder). Without TRACE three are
# made: `python` as an interpreter, `lifo` with batches freed in reverse, `large`
# with sizes to 1 MiB. Of each figure the least and the median of ROUNDS
# (default 9) are printed.
set -eu
build=.
rounds=9
here=$(cd "$(dirname "$0")" && pwd)
while getopts b:n: option; do
    case $option in
    b) build=$OPTARG ;;
    n) rounds=$OPTARG ;;
    *)
        echo "usage: $0 [-b BUILD] [-n ROUNDS] [TRACE...]" >&2
        exit 2
        ;;
    esac
done
shift $((OPTIND - 1))
replay=$build/malloc-trace-replay/replay
maker=$build/tests/unit/tools/replay_make
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[ -x "$replay" ] || {
    echo "no $replay: make it first, or say -b BUILD" >&2
    exit 1
}
${CC:-cc} -O2 -fPIC -shared -fno-builtin -o "$work/nothing.so" \
    "$here/replay_nothing.c"
if [ $# -eq 0 ]; then
    [ -x "$maker" ] || {
        echo "no $maker: make it first, or name traces" >&2
        exit 1
    }
    for kind in python lifo; do
        "$maker" $kind "$work/$kind" 20000000 >/dev/null
    done
    "$maker" large "$work/large" 500000 >/dev/null
    set -- "$work/python" "$work/lifo" "$work/large"
fi

cat >"$work/loop.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(void) {
    struct timespec a, b;
    void *(*volatile m)(size_t) = malloc;
    void (*volatile f)(void *) = free;
    long n = 50000000;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (long i = 0; i < n; i++)
        f(m(64));
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%.3f\n", ((double)(b.tv_sec - a.tv_sec) * 1e9 +
                      (double)(b.tv_nsec - a.tv_nsec)) / (2.0 * (double)n));
    return 0;
}
END
${CC:-cc} -O2 -fno-builtin -o "$work/loop" "$work/loop.c"

# key FILE NAME: a number of a JSON file
key() {
    sed -n "s/^  \"$2\": \([0-9.e+-]*\),\{0,1\}\$/\1/p" "$1"
}
# least and median of the numbers of a file
two() {
    sort -g "$1" | awk '{ v[NR] = $1 }
        END { printf "%8.2f %8.2f", v[1], v[int((NR + 1) / 2)] }'
}

: >"$work/bare"
i=0
while [ $i -lt "$rounds" ]; do
    LD_PRELOAD=$work/nothing.so "$work/loop" >>"$work/bare"
    n=0
    for trace in "$@"; do
        n=$((n + 1))
        LD_PRELOAD=$work/nothing.so "$replay" --threads=none --touch=none \
            --json "$work/json" "$trace" >/dev/null
        key "$work/json" ns_per_op >>"$work/share.$n"
        awk -v a="$(key "$work/json" decode_cpu_ns)" \
            -v b="$(key "$work/json" ops)" \
            'BEGIN { printf "%.3f\n", a / b }' >>"$work/decode.$n"
    done
    i=$((i + 1))
done
printf '%-32s %8s %8s   (ns an operation, %d rounds)\n' "" least median \
    "$rounds"
printf '%-32s %s\n' "bare loop of calls" "$(two "$work/bare")"
n=0
for trace in "$@"; do
    n=$((n + 1))
    name=$(basename "$trace")
    printf '%-32s %s\n' "replay's share, $name" "$(two "$work/share.$n")"
    printf '%-32s %s\n' "decoding process, $name" "$(two "$work/decode.$n")"
done
