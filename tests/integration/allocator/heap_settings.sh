#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The heap's settings, by call under both libraries, and by environment: each
# takes effect, and a value that is none changes nothing.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal" "$built/allocator/heap_settings"

for how in untraced quiet recording; do
    under $how heap_settings
done

# get PROPERTY [VARIABLE=VALUE...]
get() {
    get_name=$1
    shift
    env "$@" LD_PRELOAD="$l" "$built/allocator/heap_settings" get "tcmalloc.$get_name"
}

churn() { env "$@" LD_PRELOAD="$l" "$built/allocator/heap_settings" churn; }

for l in "$minimal" "$tracing"; do
    [ -e "$l" ] || continue
    n=$(basename "$l" .so)
    budget=TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES
    name=max_total_thread_cache_bytes
    is "$n: budget of the caches" "$(get $name $budget=12345678)" 12345678
    is "$n: not below the least" "$(get $name $budget=7)" 524288
    usual=$(get $name)
    for bad in "" -1 1e9 16M " 1000000" 0x100000; do
        is "$n: budget '$bad' is none" "$(get $name "$budget=$bad")" "$usual"
    done

    limit=TCMALLOC_HEAP_LIMIT_MB
    is "$n: limit of the heap" "$(get heap_limit_mb $limit=300)" 300
    is "$n: no limit" "$(get heap_limit_mb)" 0
    for bad in "" -5 10.5 none; do
        is "$n: limit '$bad' is none" "$(get heap_limit_mb "$limit=$bad")" 0
    done
    is "$n: a limit of more than there can be" \
        "$(get heap_limit_mb $limit=99999999999999999999999)" 8796093022207
    env $limit=50 LD_PRELOAD="$l" "$built/allocator/heap_settings" fill >"$work/out"
    read -r first second <"$work/out"
    at_least "$n: memory up to the limit" "$first" 45
    at_least "$n: and no more" 50 "$first"
    is "$n: the same again after it was freed" "$second" "$first"

    decommit=TCMALLOC_AGGRESSIVE_DECOMMIT
    for on in 1 yes t; do
        is "$n: give back at once: $on" \
            "$(get aggressive_memory_decommit $decommit=$on)" 1
    done
    for off in "" 0 no false off; do
        is "$n: not at once: '$off'" \
            "$(get aggressive_memory_decommit "$decommit=$off")" 0
    done
    is "$n: at once: nothing stays free" "$(churn $decommit=1)" \
        "0 2206203904 0"

    LD_PRELOAD="$l" "$built/allocator/heap_settings" spike >"$work/out"
    read -r before after back <"$work/out"
    at_least "$n: freed memory stays at first" "$before" 200
    at_least "$n: and goes when it is not needed" 40 "$after"
    at_least "$n: as is counted" "$back" $((before - after))
    LD_PRELOAD="$l" "$built/allocator/heap_settings" swing >"$work/out"
    read -r faults back <"$work/out"
    at_least "$n: memory that is needed again stays: $faults" 400 "$faults"
    is "$n: none of it is returned" "$back" 0

    rate=TCMALLOC_RELEASE_RATE
    env $rate=0 LD_PRELOAD="$l" "$built/allocator/heap_settings" spike \
        >"$work/out"
    read -r before after back <"$work/out"
    at_least "$n: at rate 0 freed memory stays" "$after" "$before"
    is "$n: all of it" "$back" 0
    churn $rate=0 >"$work/out"
    is "$n: rate 0 gives nothing back" "$(cut -d' ' -f1,2 "$work/out")" "0 0"
    churn $rate=1 >"$work/one"
    churn $rate=1000.0 >"$work/many"
    read -r times _ <"$work/one"
    read -r more _ <"$work/many"
    at_least "$n: a higher rate gives back more often" "$more" $((times + 1))
    churn >"$work/usual"
    for bad in "" . -1 1x 1,5 nan 1.5.; do
        churn "$rate=$bad" >"$work/out"
        cmp -s "$work/usual" "$work/out"
        is "$n: rate '$bad' is none" $? 0
    done
    for same in 1. 1.0 01 1.0009; do
        churn "$rate=$same" >"$work/out"
        cmp -s "$work/one" "$work/out"
        is "$n: rate '$same' is 1" $? 0
    done
    churn $rate=.5 >"$work/out"
    churn $rate=0.500 >"$work/same"
    cmp -s "$work/out" "$work/same"
    is "$n: a fraction alone" $? 0
done
tap_end
