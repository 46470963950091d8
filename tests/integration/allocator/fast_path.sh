#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The fast paths as the compiler made them: how many instructions, how many of
# them read memory, no call, no locked instruction; the plain ones the same in
# both libraries. doc/allocator.md and doc/tracing.md state the figures.
. "$top_srcdir/tests/lib/harness.sh"

[ -e "$minimal" ] || skip_all "no shared library in this build"
command -v objdump >/dev/null || skip_all "objdump is not installed"
case $(objdump -f "$minimal" | sed -n 's/^architecture: \([^,]*\).*/\1/p') in
i386:x86-64) ;;
*) skip_all "figures are known for x86-64" ;;
esac
readelf -p .comment "$minimal" 2>/dev/null | grep -q 'GCC: .* 1[2-9]\.' ||
    skip_all "figures are known for gcc from version 12 on"
grep -q -e '-O[23]' "$top_builddir/config.status" ||
    skip_all "not an optimised build"
grep -q -e '-fsanitize' -e 'TCM_DEBUG=1' -e '-fprofile' -e '--coverage' \
    "$top_builddir/config.status" && skip_all "not a plain build"

# The straight path through function $2 of library $1: from its first
# instruction to the first return. Jumps on it are those that are not taken. By
# address: of a function with more names objdump knows one.
straight() {
    start=0x$(nm "$1" | awk -v name="$2" '$3 == name { print $1 }')
    objdump -d --no-show-raw-insn --start-address="$start" \
        --stop-address="$((start + 4096))" "$1" |
        awk '/^ *[0-9a-f]+:/ {
                 sub(/^ *[0-9a-f]+:[ \t]*/, ""); sub(/[ \t]*[#<].*/, "")
                 if ($1 == "endbr64" || $1 ~ /^(nop|xchg|cs|data16)/) next
                 print
                 if ($1 ~ /^ret/) exit
             }'
}

# recorded: counts where the first jump is taken, as while a thread records.
recorded() {
    start=0x$(nm "$1" | awk -v name="$2" '$3 == name { print $1 }')
    objdump -d --no-show-raw-insn --start-address="$start" \
        --stop-address="$((start + 4096))" "$1" |
        awk '/^ *[0-9a-f]+:/ {
                 at = $1; sub(/:/, "", at)
                 sub(/^ *[0-9a-f]+:[ \t]*/, ""); target = $2
                 sub(/[ \t]*[#<].*/, "")
                 if (goal != "" && at == goal) goal = "there"
                 if (goal != "" && goal != "there") next
                 if ($1 ~ /^(nop|xchg|cs|data16)/) next
                 print
                 if (goal == "" && $1 ~ /^j/) goal = target
                 if ($1 ~ /^ret/) exit
             }'
}

# Instructions whose memory operand is read: all with one but stores and lea.
loads() {
    awk '$1 !~ /^lea/ && /\(/ {
             if ($1 ~ /^mov/ && $0 ~ /\)$/) next
             count++
         }
         END { print count + 0 }' "$1"
}

# $1: straight or recorded, $2: function, $3: instructions at most, $4: loads at
# most, others: libraries
check_path() {
    way=$1 function=$2 most=$3 most_loads=$4
    shift 4
    for library; do
        name="$way $function of $(basename "$library")"
        "$way" "$library" "$function" >path
        count=$(wc -l <path)
        [ "$count" -gt 8 ] && [ "$count" -le "$most" ]
        result "$name: $count instructions, at most $most" $?
        read_count=$(loads path)
        [ "$read_count" -ge 3 ] && [ "$read_count" -le "$most_loads" ]
        result "$name: $read_count loads, at most $most_loads" $?
        ! grep -q -w -e call -e lock -e xchg path
        result "$name: no call, no locked instruction" $?
        [ "$(tail -n 1 path | cut -c 1-3)" = ret ]
        result "$name: ends by returning" $?
        wc -l <path >>counts
    done
}
: >counts
check_plain() {
    check_path straight "$@" "$minimal" "$tracing"
}
check_plain malloc 14 6
check_plain free 18 8
check_plain _Znwm 14 6
check_plain _ZdlPv 18 8
check_plain _ZdlPvm 18 8
[ "$(sort -u counts | wc -l)" -le 2 ]
result "both libraries take as many" $?

for function in malloc _Znwm; do
    check_path recorded $function 53 14 "$tracing"
done
for function in free _ZdlPv; do
    check_path recorded $function 58 20 "$tracing"
done
tap_end
