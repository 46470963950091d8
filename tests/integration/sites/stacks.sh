#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Stacks of allocations: those of a program that allocates in every sort of
# frame, against glibc's backtrace(); all walks against walks that remember
# nothing; samples; stacks that are gone; and what a program prints is the same.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$postprocess" "$malloc_trace"
need_python
: "${CC:=cc}" "${CXX:=c++}"
need_command "$CC" "$CXX"
case $machine in
x86_64) signed= ;;
aarch64) signed=-mbranch-protection=standard ;;
*) skip_all "stacks are walked on x86-64 and aarch64 only" ;;
esac
for i in 0 1; do
    $CC -O2 -shared -fPIC -DROOM=$((100 + 300 * i)) \
        -o "$work/stacks_plugin$i.so" "$here/sites/stacks_plugin.c" || exit 1
done

TCMALLOC_TRACE_UNCOMPRESSED=1 TCMALLOC_TRACE_CHECK_STACKS=1
export TCMALLOC_TRACE_UNCOMPRESSED TCMALLOC_TRACE_CHECK_STACKS
stacks() { "$python" "$here/sites/stacks.py" "$@"; }
counter() { # NAME FILE
    "$malloc_trace" info --json - "$2" | tr ',{' '\n\n' |
        sed -n "s/^ *\"$1\": *//p" | tail -n 1
}
no_difference() { # WHAT FILE
    set -- "$1" "$(counter stacks_checked "$2")" \
        "$(counter stacks_different "$2")"
    check "$1 ($2 walks)" test "${2:-0}" -ge 40 -a "${3:-1}" -eq 0
}

for flags in "-O2" "-O2 -fomit-frame-pointer -fno-pie -no-pie" \
    "-O1 -fno-omit-frame-pointer" "-O0" ${signed:+"-O2 $signed"}; do
    # shellcheck disable=SC2086
    $CXX -g $flags -o target "$here/sites/stacks_target.cc" -ldl -lpthread || exit 1
    TCMALLOC_TRACE_SITES=stack:256 record t ./target "$work" >printed
    is "$flags: the program ends well" "$?" 0
    check "$flags: stacks are those of backtrace()" stacks printed t
    no_difference "$flags: walks are the same" t
    # Every depth and mode in frames of one kind; of all kinds in a long run.
    depths=32 modes=stack
    case ${LONG:-0}$flags in
    0-O2 | 1*)
        depths="1 32 33 256"
        modes="stack stack:1 stack:4 stack:256 sample:1 lang"
        ;;
    esac
    $emulator ./target many 1000 >want
    for depth in $depths; do
        TCMALLOC_TRACE_SITES=stack:$depth record t ./target many 1000 >got
        check "$flags: depth $depth: the same output" cmp got want
        no_difference "$flags: depth $depth: walks are the same" t
    done
    # Without the other walks, which would write over what is remembered.
    for sites in $modes; do
        for checks in 0 1; do
            TCMALLOC_TRACE_SITES=$sites TCMALLOC_TRACE_CHECK_STACKS=$checks \
                record t ./target own 8 >got 2>err
            is "$flags: $sites: threads whose stacks are gone ($checks)" \
                "$? $(cat got err)" "0 own"
        done
        no_difference "$flags: $sites: their walks are the same" t
    done
done

$CXX -O2 -g -o target "$here/sites/stacks_target.cc" -ldl -lpthread
TCMALLOC_TRACE_SITES=stack record t ./target "$work" >printed
is "a stack that is deeper is cut" "$(stacks --end 10039 t)" "cut 32"
is "one that has exactly as many frames is not" \
    "$(for i in 0 1 2 3 4 5 6 7 8 9 10; do stacks --end $((10000 + i)) t; done |
        awk '$1 == "cut" && $2 < 32 || $1 != "cut" && $2 > 32' | wc -l)" 0
check_trace "with stacks" t 100
for run in 1 2 3; do
    TCMALLOC_TRACE_SITES=sample:4096 record t ./target many 10000 >got
    "$python" "$here/sites/stacks.py" --sampled 4096 t >sampled
    is "run $run: bytes of samples are those of all, within 4 errors" \
        "$(cat sampled)" "right"
done
TCMALLOC_TRACE_SITES=stack:0 record t ./target many 3 2>err
like "no frames is no mode" err 'TCMALLOC_TRACE_SITES is stack:0'
TCMALLOC_TRACE_SITES=stack:257 record t ./target many 3 2>err
like "nor are too many" err 'TCMALLOC_TRACE_SITES is stack:257'
if [ -n "$signed" ]; then
    $CXX -O2 "$signed" -o target "$here/sites/stacks_target.cc" -ldl -lpthread
    $emulator ./target signed >got
    note "return addresses: $(cat got)"
    # The emulator has the processor's extension.
    [ -z "$emulator" ] || is "return addresses are signed" "$(cat got)" signed
fi

# Each function has in its name how many blocks it frees.
$CXX -O2 -g -o named "$here/sites/free_sites_target.cc" -lpthread || exit 1
TCMALLOC_TRACE_SITES=stack TCMALLOC_TRACE_FREE_SITES=1 record t ./named
case $("$malloc_trace" --version) in
*'elfutils yes'*)
    is "names of functions" "$("$malloc_trace" report --freed --by=function \
        --columns t | awk '$3 ~ /^by_|^in_thread/ { print $2, $3 }' |
        LC_ALL=C sort | tr '\n' ' ')" "10 by_sized_delete_10 15 by_resizing_15 \
20 by_delete_20 25 by_moving_25 30 in_thread(void*) 40 by_free_40 5 by_large_5 "
    "$malloc_trace" report --freed --to=folded -q t >folded
    like "and of their callers" folded 'main;by_large_5 5242880$'
    ;;
*) skip "names of functions" "no libdw" ;;
esac

# The tool starts programs of its own processor.
[ -z "$emulator" ] || tap_end
for mode in stack stack:8 sample sample:1000 caller none; do
    check "record --sites=$mode" "$malloc_trace" record -q -o t --sites=$mode \
        -- ./target many 3
done
for mode in stack: stack:0 stack:257 stacks sample:0 sample:x ''; do
    fails_with "record --sites=$mode is refused" 2 "$malloc_trace" record \
        -q -o t --sites="$mode" -- ./target many 3
done
tap_end
