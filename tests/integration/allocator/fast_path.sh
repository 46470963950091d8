#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The fast paths as the compiler made them: how many instructions, how many of
# them read memory, no call, no locked instruction; the plain ones the same in
# both libraries. doc/allocator.md and doc/tracing.md state the figures of
# x86-64. Where a compiler for aarch64 is there, the two sources that have these
# paths are compiled for it, too.
. "$top_srcdir/tests/lib/harness.sh"

[ -e "$minimal" ] || skip_all "no shared library in this build"
objdump=${OBJDUMP:-objdump}
cross=aarch64-linux-gnu
have "$objdump" || skip_all "objdump is not installed"
readelf -p .comment "$minimal" 2>/dev/null | grep -q 'GCC: .* 1[2-9]\.' ||
    skip_all "figures are known for gcc from version 12 on"
grep -q -e '-O[23]' "$top_builddir/config.status" ||
    skip_all "not an optimised build"
grep -q -e '-fsanitize' -e 'TCM_DEBUG=1' -e '-fprofile' -e '--coverage' \
    "$top_builddir/config.status" && skip_all "not a plain build"

# Instructions from function $2 of file $1 on: by address, because of a function
# with more names objdump knows one. Each line has the address, the instruction
# and its operands; what objdump adds, and what fills gaps, is left out.
code() {
    start=0x$($nm "$1" | awk -v name="$2" '$3 == name { print $1 }')
    $objdump -d -j .text --no-show-raw-insn --start-address="$start" \
        --stop-address="$((start + 4096))" "$1" |
        awk '/^ *[0-9a-f]+:/ {
                 sub(/[ \t]*(<|\/\/).*/, "")
                 if ($2 !~ /^(endbr64|bti|nop|xchg|cs|data16)/) print
             }'
}

# The straight path through function $2 of $1: from its first instruction to
# the first return. Jumps on it are those that are not taken.
straight() {
    code "$1" "$2" | awk '{ $1 = ""; print substr($0, 2) }
                          $2 ~ /^ret/ { exit }'
}

# recorded: counts where the first jump is taken, as while a thread records.
recorded() {
    code "$1" "$2" |
        awk '{
                 at = $1; sub(/:/, "", at); $1 = ""
                 if (goal != "" && at == goal) goal = "there"
                 if (goal != "" && goal != "there") next
                 print substr($0, 2)
                 if (goal == "" && $2 ~ /^(j|b\.|cbn?z|tbn?z)/) goal = $NF
                 if ($2 ~ /^ret/) exit
             }'
}

# Instructions whose memory operand is read. On x86-64: all with one but stores
# and lea.
loads() {
    awk '$1 ~ /^ld/ { count++ }
         $1 !~ /^lea/ && /\(/ {
             if ($1 ~ /^mov/ && $0 ~ /\)$/) next
             count++
         }
         END { print count + 0 }' "$1"
}

# check_path straight|recorded FUNCTION INSTRUCTIONS LOADS FILE...: at most
# those.
check_path() {
    way=$1 function=$2 most=$3 most_loads=$4
    shift 4
    for library; do
        name="$architecture: $way $function of $(basename "$library")"
        "$way" "$library" "$function" >path
        count=$(wc -l <path)
        [ "$count" -gt 8 ] && [ "$count" -le "$most" ]
        result "$name: $count instructions, at most $most" $?
        read_count=$(loads path)
        [ "$read_count" -ge 3 ] && [ "$read_count" -le "$most_loads" ]
        result "$name: $read_count loads, at most $most_loads" $?
        ! grep -q -w -E -e "$bad" path
        result "$name: no call, no locked instruction" $?
        [ "$(tail -n 1 path | cut -c 1-3)" = ret ]
        result "$name: ends by returning" $?
    done
}

check_x86_64() { # MINIMAL TRACING
    bad='call|lock|xchg'
    : >counts
    for plain in "malloc 14 6" "free 18 8" "_Znwm 14 6" "_ZdlPv 18 8" \
        "_ZdlPvm 18 8"; do
        # shellcheck disable=SC2086
        check_path straight $plain "$@"
        straight "$1" "${plain%% *}" | wc -l >>counts
        straight "$2" "${plain%% *}" | wc -l >>counts
    done
    [ "$(sort -u counts | wc -l)" -le 2 ]
    result "both libraries take as many" $?
    for function in malloc _Znwm; do
        check_path recorded $function 44 15 "$2"
    done
    for function in free _ZdlPv; do
        check_path recorded $function 58 20 "$2"
    done
}

check_aarch64() { # MINIMAL TRACING
    bad='blr?|ld[a-z]*x[rp]|st[a-z]*x[rp]|cas[a-z]*|swp[a-z]*|ldadd[a-z]*|dmb'
    for function in malloc _Znwm; do
        check_path straight $function 17 6 "$1"
        check_path straight $function 19 6 "$2"
        check_path recorded $function 60 14 "$2"
    done
    for plain in "free 27 8" "_ZdlPv 27 8" "_ZdlPvm 28 8"; do
        # shellcheck disable=SC2086
        check_path straight $plain "$@"
    done
    for function in free _ZdlPv; do
        check_path recorded $function 72 19 "$2"
    done
}

check_architecture() { # OBJDUMP_NAME MINIMAL TRACING
    architecture=$1
    shift
    case $architecture in
    i386:x86-64) check_x86_64 "$@" ;;
    aarch64) check_aarch64 "$@" ;;
    *) skip "$architecture" "figures are known for x86-64 and aarch64" ;;
    esac
}

architecture_of() {
    $objdump -f "$1" | sed -n 's/^architecture: \([^,]*\).*/\1/p'
}

nm=${NM:-nm}
built_for=$(architecture_of "$minimal")
check_architecture "$built_for" "$minimal" "$tracing"

# Without a link the address of a function is that in its section.
cross_object() { # LIBRARY NAME
    for source in malloc cxx_operators; do
        # shellcheck disable=SC2046
        $cross-gcc $(make_flags "$1_") -I"$top_builddir" \
            -I"$top_srcdir/src" -O2 -fPIC -w -c -o $source.o \
            "$top_srcdir/src/api/$source.c" || return 1
    done
    $cross-ld -r -o "$2" malloc.o cxx_operators.o
}
if [ "$built_for" = aarch64 ]; then
    tap_end
elif have $cross-gcc && have $cross-objdump; then
    cross_object libtcmalloc_minimal_la minimal.o &&
        cross_object libtcmalloc_minimal_tracing_la tracing.o
    result "the sources compile for aarch64" $?
    nm=$cross-nm objdump=$cross-objdump
    check_architecture aarch64 minimal.o tracing.o
else
    skip "aarch64" "no gcc-aarch64-linux-gnu here"
fi
tap_end
