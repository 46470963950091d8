#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Present bytes: how much of a large block was in memory is in the trace, and no
# more than that.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$tracing" "$built/recorder/present_target" "$malloc_trace" "$postprocess"
need_python
cd "$work" || exit 99
target=$built/recorder/present_target

# told WHAT: the present bytes in the trace of the last run.
told() { sed -n 's/.*present bytes \([0-9]*\).*/\1/p' dump; }

# make WHAT: records it; its trace is dump.
make() {
    rm -f t.*
    record t.$suffix "$target" "$1" >out 2>err
    is "$1: the program's own output" "$? $(wc -l <out) $(cat err)" "0 1 "
    "$malloc_trace" dump t.$suffix >dump
    "$postprocess" --quiet --json json t.$suffix p
    is "$1: complete" "$? $(json json complete)" "0 true"
}

# near WHAT GOT WANT PARTS: at most one of PARTS from it.
near() {
    awk -v got="$2" -v want="$3" -v parts="$4" 'BEGIN {
        off = got - want
        exit !(got != "" && off * off <= want * want / parts / parts) }'
    near_status=$?
    [ $near_status = 0 ] || note "got $2, want $3"
    result "$1" $near_status
}

large=$((256 << 20))
tenth=$((large / 10))
make tenth
[ -n "$(told)" ] || skip_all "the system does not tell what is resident"
near "a block that is freed" "$(told)" $tenth 20
like "the free follows at once" dump 'present bytes'
is "before the call that ends it" \
    "$(grep -A1 'present bytes' dump | sed -n '2s/.* //p')" "free(#1)"
make calloc
is "calloc of what nobody touches" "$(told)" 0
make live
near "a block that is alive at the end" "$(told)" $tenth 20
like "names the block" dump 'present bytes [0-9]* of #1$'
make zero
near "realloc to 0" "$(told)" $tenth 20
make shrink
is "realloc that shrinks, and the free" "$(told | wc -l)" 2
near "the same memory" "$(told | tail -n 1)" $tenth 20
make move
near "realloc that moves" "$(told | head -n 1)" $tenth 20
make copy
near "realloc to another place: the old block" "$(told | sed -n 2p)" $tenth 20
near "and the new one" "$(told | tail -n 1)" $tenth 20
at_least "the program has no more memory by it, in KiB" $((3 * tenth / 1024)) \
    "$(cat out)"
make copied
make grow
near "a block that grew" "$(told | tail -n 1)" $tenth 10
make sparse
near "a longer block, by a sample" "$(told)" $((8 * tenth)) 20
make full
is "a block that was written wholly" "$(told)" $((64 << 20))
make small
is "a small one" "$(told)" 4096
make lives
at_least "smaller ones that are alive at the end" "$(told | grep -cx 8192)" 10
make again
is "in memory that was used before" "$(told | sort -nu | tr '\n' ' ')" \
    "4096 1048576 "
make cleared
is "by calloc, smaller" "$(told | sort -nu | tr '\n' ' ')" "4096 61440 "
make brief
is "a block below the bound needs none" "$(told)" ""

export TCMALLOC_TRACE_PRESENT=0
for what in tenth live; do
    make $what
    is "$what, turned off" "$(told)" ""
done
unset TCMALLOC_TRACE_PRESENT
tap_end
