#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The probes otel_memory:alloc and otel_memory:free: both libraries describe
# them, and to a listener, here gdb, their weights add up to the bytes that the
# program allocates, and each free is of a live sample.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$minimal" "$built/allocator/heap_probes"
need_command readelf

# place N: the register of argument N, from 0 on, as the notes name it.
case $(uname -m) in
x86_64) place() { echo "$1" | tr 012 ISD | sed 's/I/%rdi/; s/S/%rsi/; s/D/%rdx/'; } ;;
aarch64) place() { echo "x$1"; } ;;
*) skip_all "registers of arguments are known for x86-64 and aarch64" ;;
esac

for l in "$minimal" "$tracing"; do
    n=$(basename "$l" .so)
    LC_ALL=C readelf -n "$l" >notes 2>/dev/null
    is "$n: probes and their arguments" \
        "$(awk '/Provider:/ { p = $2 } /Name:/ { n = $2 }
                /Arguments:/ { $1 = ""; print p ":" n $0 }' notes | sort)" \
        "otel_memory:alloc 8@$(place 0) 8@$(place 1) 8@$(place 2)
otel_memory:free 8@$(place 0)"
    # Each has a semaphore of its own, in the section of those.
    readelf -SW "$l" | sed 's/^ *\[ *[0-9]*\] *//' |
        awk '$1 == ".probes" { print $3, $5 }' >section
    read -r start size <section
    inside=0
    for at in $(sed -n 's/.*Semaphore: 0x\(.*\)/\1/p' notes | sort -u); do
        [ $((0x$at)) -ge $((0x$start)) ] &&
            [ $((0x$at + 2)) -le $((0x$start + 0x$size)) ] &&
            inside=$((inside + 1))
    done
    is "$n: semaphores" $inside 2
done

# listen LIBRARY [VARIABLE=VALUE]: fills "log" and "truth".
listen() {
    cat >script <<END
set confirm off
set pagination off
set exec-wrapper env LD_PRELOAD=$1 ${2:-PLAIN=1}
break listen_from
break listen_until
run
break -probe-stap otel_memory:alloc
commands
silent
printf "alloc %lu %lu %lu\n", \$_probe_arg0, \$_probe_arg1, \$_probe_arg2
continue
end
break -probe-stap otel_memory:free
commands
silent
printf "free %lu\n", \$_probe_arg0
continue
end
continue
delete
continue
END
    rm -f truth
    PATH=/usr/bin:/bin timeout 100 gdb -nx -batch -x script --args \
        "$built/allocator/heap_probes" "$work/truth" >log 2>gdb.err </dev/null
}

# sums: hits and weights of all samples and of those of the steady thread,
# frees, and faults: frees of no live sample, weights that are none.
sums() {
    awk '/^alloc / {
             hits++; sum += $4
             if ($3 == 4000) steady += $4
             if ($2 in live || $4 < 524288 || $4 % 524288 || $3 == 0) faults++
             live[$2] = 1
         }
         /^free / { frees++; if (!($2 in live)) faults++; delete live[$2] }
         END { printf "%d %d %d %d %d\n", hits, sum, steady, frees, faults }' log
}

# near WHAT GOT WANT PERCENT
near() {
    note "$1: $2 for $3"
    [ $(($2 * 100)) -ge $(($3 * (100 - $4))) ] &&
        [ $(($2 * 100)) -le $(($3 * (100 + $4))) ]
    result "$1: within $4 %" $?
}

if ! have gdb; then
    skip "listener" "gdb is not installed"
elif ! gdb -nx -batch -ex run --args /bin/true </dev/null 2>&1 |
    grep -q 'exited normally'; then
    skip "listener" "gdb cannot run a program here"
else
    for l in "$minimal" "$tracing"; do
        n=$(basename "$l" .so)
        listen "$l"
        [ -s truth ] || { diag <log && diag <gdb.err; }
        bytes=1 other=1 own=0 after=none
        [ ! -s truth ] ||
            { read -r _ bytes other && read -r _ own after; } <truth
        sums >found
        read -r hits sum steady frees faults <found
        # About 320 samples of small blocks and 160 of whole intervals, and 128
        # of the steady thread: the bounds are 7 standard deviations and more.
        near "$n: weights of all" "$sum" $((bytes + other)) 30
        near "$n: weights of a thread whose cache serves it" "$steady" \
            "$other" 65
        is "$n: each sample is freed, no other block" "$frees $faults" "$hits 0"
        [ "$own" -gt 0 ] && [ "$after" = 0 ]
        result "$n: nothing is sampled after the listener has left" $?
    done
    listen "$tracing" "TCMALLOC_TRACE_OUTPUT=$work/rec.$suffix"
    is "while recording, no samples" "$(sums)" "0 0 0 0 0"
    check_trace "that recording" "rec.$suffix" 100000
fi
tap_end
