#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Allocators of known behaviour: malloc-trace compare reports each as what it
# is, goes on with the others, and ends with status 0.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need_python

make=$top_builddir/tests/unit/tools/replay_make
"$make" python p.p 20000 >"$out" || exit 99
# build NAME SOURCE OPTION...
build() {
    library=$1
    source=$2
    shift 2
    # shellcheck disable=SC2086
    $CC -O1 -fno-builtin -fPIC -shared "$@" -o $library.so "$source" 2>"$err" ||
        skip_all "no library can be made here"
}
build odd "$here/compare/compare_odd.c"
build forwards "$here/compare/compare_odd.c" -DODD_FORWARDS
build only_malloc "$here/compare/compare_odd.c" -DODD_ONLY_MALLOC
build no_free "$here/compare/compare_odd.c" -DODD_NO_FREE
build faulty "$here/replay/replay_faulty.c"
echo 'int nothing_of_malloc;' >nothing.c
build nothing nothing.c
echo 'no library' >text.so

get() { "$python" "$here/compare/compare_check.py" get j "$@" 2>&1; }
# compare OPTION...
compare() {
    rm -f j c
    timeout 240 "$malloc_trace" compare -a glibc --json j --csv c "$@" \
        >"$out" 2>"$err"
}

# --- What malloc-trace-allocator says -----------------------------------------

# serves STATUS LIBRARY TEXT
serves() {
    timeout 60 env LD_PRELOAD="$2" "$tools/malloc-trace-allocator" --json j \
        >"$out" 2>"$err"
    is "${2##*/}: status" $? "$1"
    cat "$out" "$err" >both
    like "${2##*/}: in its words" both "$3"
    like "${2##*/}: in the JSON" j "\"took_over\": $([ "$1" = 0 ] &&
        echo true || echo false),"
}
# libc.so.6, or libc-2.31.so, to which that is a link
libc='.*/libc[-.0-9]*so'
serves 0 "" "^malloc comes from $libc.* \\(glibc [0-9.]+\\)$"
serves 0 "$minimal" "its counters  *[0-9.]* MiB of [0-9.]* MiB requested"
like "which calls itself by its name" "$out" \
    "^malloc comes from .*/$(basename "$(readlink -f "$minimal")") \\(tcmalloc-mt [0-9.]+\\)$"
like "in the JSON, too" j '"version": "tcmalloc-mt [0-9.]+",'
serves 0 ./odd.so "other library .* posix_memalign aligned_alloc memalign"
serves 0 ./forwards.so "forwards.so, a wrapper around the C library's"
serves 5 ./only_malloc.so "it has malloc, but free comes from $libc"
serves 5 ./no_free.so "it has malloc, but free comes from $libc"
serves 0 ./nothing.so "^malloc comes from $libc"
fails_with "an operand is too much" 2 "$malloc_trace" allocator x
check "as a subcommand" env LD_PRELOAD="$minimal" "$malloc_trace" -q allocator \
    --json j
like "it is asked under the same library" j "\"library\": .*$(basename \
    "$(readlink -f "$minimal")")"

# --- Those that are not right -------------------------------------------------

set --
for fault in overlap misalign scribble move small crash; do
    set -- "$@" -a "$fault=./faulty.so,MALLOC_FAULT=$fault"
done
for odd in refuses refuses_all dies hangs; do
    set -- "$@" -a "$odd=./odd.so,ODD=$odd"
done
for library in only_malloc no_free nothing text; do
    set -- "$@" -a "$library=./$library.so"
done
set -- "$@" -a dirty=./forwards.so,ODD=dirty -a wrapper=./forwards.so
[ "${LONG:-0}" = 0 ] || set -- "$@" -a "hangs_early=./odd.so,ODD=hangs_early"
compare "$@" -a "right=./odd.so" -n 2 p.p
is "with all of them it ends well" $? 0
diag 5 <"$err"
cp "$out" text
# told NAME PATTERN: it is out, in the JSON and in the text.
told() {
    get "$1.ok" "$1.runs" "$1.why" >got
    like "$1" got "^false\|0\|.*$2"
    like "$1: in the text" text "^$1 (takes no part|failed in [0-9]* runs?): .*$2"
}
at='it is at fault: operation [0-9]* .[a-z]* of [0-9]* bytes, slot'
told overlap "$at.*(overlaps|multiple)"
told misalign "$at.*is not at a multiple of"
told scribble "$at.*has changed while it lived"
told move "$at.*has changed when it was resized"
told small "$at.*the usable size of .* below its size"
told crash "signal 6 .ABRT., operation [0-9]*"
told refuses "it refused [0-9]* of 20[0-9]* requests"
told refuses_all "it refused 5000 bytes"
told dies "it ended the replay without a result"
told hangs "it hangs: the replay did not end in [0-9]* s"
for wrapper in wrapper dirty; do
    like "$wrapper: is called one" text \
        "^$wrapper is a wrapper around the C library's malloc"
done
is "a wrapper takes part" "$(get wrapper.ok wrapper.runs)" "true|2"
told only_malloc "it has malloc, but free comes from"
told no_free "it has malloc, but free comes from"
told nothing "malloc comes from $libc"
told text "malloc comes from $libc"
[ "${LONG:-0}" = 0 ] || told hangs_early "did not end in"
is "the one that is right takes part" "$(get right.ok right.runs)" "true|2"
is "as the baseline does" "$(get glibc.ok glibc.runs)" "true|2"

"$make" large m.p 4000 >"$out" || exit 99
compare -a zeros=./faulty.so,MALLOC_FAULT=zeros -n 1 m.p
is "memory that is not cleared: status" $? 0
cp "$out" text
told zeros "$at.*is not zero"
compare -a dirty=./forwards.so,ODD=dirty -n 1 m.p
cp "$out" text
told dirty "$at.*is not zero"
compare --no-check -a crash=./faulty.so,MALLOC_FAULT=crash \
    -a refuses=./odd.so,ODD=refuses -a killed=./odd.so,ODD=killed \
    -a right=./odd.so -n 2 p.p
is "not looked at before, it ends well, too" $? 0
cp "$out" text
told crash "it crashed|signal 6"
told killed "it was killed .signal 9., most likely because memory ran out"
told refuses "it refused [0-9]* of 20[0-9]* requests"
is "and the right one ran" "$(get right.ok right.runs)" "true|2"
fails_with "a baseline that crashes, beside one other" 1 "$malloc_trace" \
    compare -a glibc -a crash=./faulty.so,MALLOC_FAULT=crash --baseline crash p.p
like "is no baseline" "$err" "the baseline crash takes no part: it is at fault"
compare_crash="-a crash=./faulty.so,MALLOC_FAULT=crash --baseline crash
    -a glibc -a right=./odd.so -n 1 p.p"
# shellcheck disable=SC2086
"$malloc_trace" compare --json j $compare_crash >"$out" 2>"$err"
is "a baseline that crashes, beside two others: status" $? 3
like "a baseline that crashes: the others are compared" "$err" \
    "baseline crash takes no part: it is at fault.*compared with glibc$"
is "a baseline that crashes: the others have figures" \
    "$(get glibc.runs right.runs)" "1|1"
# shellcheck disable=SC2086
"$malloc_trace" gate --budget 'peak_rss<=1.2' $compare_crash >"$out" 2>"$err"
is "a budget beside a baseline that crashes: status" $? 3
like "a budget beside a baseline that crashes is not judged" "$out" \
    "^budget: not judged"

# --- Those that are right, but dear -------------------------------------------

compare -a right=./odd.so --baseline right -a slow=./odd.so,ODD=slow \
    -a same=./odd.so,A=1 -n 14 p.p
is "a slow one: status" $? 0
is "it is slower" "$(get slow/cpu_ns_per_op.verdict)" slower
get same/cpu_ns_per_op.verdict >got
like "the same one is not" got "^(no difference shown|no worse)$"
is "neither is recommended" "$(grep -cE '^Take (same|slow):' "$out")" 0
is "the verdicts follow from the figures" \
    "$("$python" "$here/compare/compare_check.py" figures j c)" same
"$malloc_trace" compare -a right=./odd.so -a same=./odd.so,A=1 -n 12 p.p \
    >"$out" 2>"$err"
like "nor is an equal that is alone" "$out" "^Stay with right: nothing is shown"
compare -a right=./odd.so --baseline right -a fat=./odd.so,ODD=fat \
    -a leaks=./odd.so,ODD=leaks -n 14 m.p
is "one that takes thrice the memory, one that never frees: status" $? 0
is "they are larger" "$(get fat/peak_rss_bytes.verdict \
    leaks/peak_rss_bytes.verdict)" "larger|larger"
"$python" -c 'import sys; sys.exit(not 2 < float(sys.argv[1]) < 4.5)' \
    "$(get fat/peak_rss_bytes.ratio)"
result "about thrice" $?
"$make" python many.p 400000 >"$out" || exit 99
compare -a never=./faulty.so,MALLOC_FAULT=never -n 1 many.p
is "one that uses no memory again: status" $? 0
is "one that uses no memory again is not at fault" "$(get never.ok)" true
tap_end
