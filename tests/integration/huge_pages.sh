#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Huge pages serve the heap where the system or the program wants them, all of
# it but the ends; the heap asks for none; and they go back whole.
# shellcheck source=../lib/preload.sh
. "$top_srcdir/tests/lib/preload.sh"
target=$top_builddir/tests/integration/huge_pages
mode=/sys/kernel/mm/transparent_hugepage/enabled
plan 5
huge() { LD_PRELOAD=$minimal "$target" "$@"; }

small=$(huge small 40)
cannot=$?
[ $cannot = 77 ] || [ -r $mode ] || cannot=77
case $(cat $mode 2>/dev/null) in
*'[always]'*) ok "always: behind $small of 40960 KiB" \
    test "${small:-0}" -ge 20480 ;;
*'[madvise]'*) [ $cannot = 77 ] || is "$small" 0 "madvise: none is asked for" ;;
*) cannot=77 ;;
esac
[ $cannot = 77 ] && [ $tap_run = 0 ] && skip "mode" "no huge pages here"

first=0 freed=0 again=0 same=0
[ $cannot = 77 ] || huge advised 40 >out || echo 0 0 0 0 >out
[ $cannot = 77 ] || read -r first freed again same <out
if [ "$first" = 0 ]; then
    for what in asked freed place again; do
        skip "$what" "the system has no huge pages to give"
    done
else
    ok "asked for: behind $first of 40960 KiB" test "$first" -ge 20480
    is "$freed" 0 "given back, none is left"
    is "$same" 1 "another block in its place"
    ok "has them again: behind $again of 40960 KiB" test "$again" -ge 20480
fi
tap_end
