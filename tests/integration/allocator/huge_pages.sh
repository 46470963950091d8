#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Huge pages serve the heap where the system or the program wants them, all of
# it but the ends; the heap asks for none; and they go back whole.
. "$top_srcdir/tests/lib/harness.sh"
target=$top_builddir/tests/integration/allocator/huge_pages
mode=/sys/kernel/mm/transparent_hugepage/enabled
huge() { LD_PRELOAD=$minimal "$target" "$@"; }

small=$(huge small 40)
cannot=$?
[ $cannot = 77 ] || [ -r $mode ] || cannot=77
case $(cat $mode 2>/dev/null) in
*'[always]'*) check "always: behind $small of 40960 KiB" \
    test "${small:-0}" -ge 20480 ;;
*'[madvise]'*) [ $cannot = 77 ] || is "madvise: none is asked for" "$small" 0 ;;
*) cannot=77 ;;
esac
[ $cannot = 77 ] && [ $tap_count = 0 ] && skip "mode" "no huge pages here"

first=0 freed=0 again=0 same=0
[ $cannot = 77 ] || huge advised 40 >out || echo 0 0 0 0 >out
[ $cannot = 77 ] || read -r first freed again same <out
if [ "$first" = 0 ]; then
    for what in asked freed place again; do
        skip "$what" "the system has no huge pages to give"
    done
else
    check "asked for: behind $first of 40960 KiB" test "$first" -ge 20480
    is "given back, none is left" "$freed" 0
    is "another block in its place" "$same" 1
    check "has them again: behind $again of 40960 KiB" test "$again" -ge 20480
fi
tap_end
