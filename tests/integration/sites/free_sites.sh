#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Call sites of frees: each function of a program that frees blocks is found
# with as many as its name says, in every mode, also in a window of the trace.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$built/sites/free_sites_target" "$postprocess" "$malloc_trace"
target=$built/sites/free_sites_target
[ -x "$built/sites/.libs/free_sites_target" ] &&
    target=$built/sites/.libs/free_sites_target
case $("$malloc_trace" --version) in
*'elfutils yes'*) ;;
*) skip_all "no names without libdw" ;;
esac

# "blocks function" of those whose names have a number.
places() {
    "$malloc_trace" report --freed --by=function --columns "$@" |
        awk '$3 ~ /^by_|^in_thread/ { print $2, $3 }' | LC_ALL=C sort
}
want="10 by_sized_delete_10
15 by_resizing_15
20 by_delete_20
25 by_moving_25
30 in_thread(void*)
40 by_free_40
5 by_large_5"

for mode in caller stack lang; do
    "$malloc_trace" record -q --sites=$mode --free-sites -o t "$target"
    is "$mode: each place frees its blocks" "$(places t)" "$want"
    check_trace "$mode" t 200
    check "$mode: postprocess" "$postprocess" -q t p
    is "$mode: in the processed trace, too" "$(places p)" "$want"
    "$postprocess" -q --from 1ns t q
    is "$mode: in a window" "$(places q)" "$want"
    "$postprocess" -q --drop-sites t q
    is "$mode: left out if asked for" "$(places q 2>err)" ""
    "$malloc_trace" report --freed --by=function --columns t |
        awk '$3 == "(not" && $4 == "freed)" { print $2 }' >alive
    check "$mode: those that live on are told" test "$(cat alive)" -ge 85
done
"$malloc_trace" record -q --sites=stack --free-sites -o t "$target"
"$malloc_trace" report --freed --to=folded -q t >folded
like "with stacks" folded 'main;by_large_5 5242880$'
"$malloc_trace" record -q --sites=caller -o t "$target"
fails_with "a trace without them is refused" 1 "$malloc_trace" report --freed t
like "with the reason" "$err" 'no call sites of frees'
"$malloc_trace" record -q --sites=sample:1000 --free-sites -o t "$target"
fails_with "samples have none" 1 "$malloc_trace" report --freed t
fails_with "--freed is of sites" 2 "$malloc_trace" report --freed --by=size t
tap_end
