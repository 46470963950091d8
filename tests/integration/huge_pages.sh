#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Huge pages serve the heap where the system or the program wants them, all of
# it but the ends; the heap asks for none; and they go back whole.
# shellcheck source=../lib/preload.sh
. "$top_srcdir/tests/lib/preload.sh"
target=$top_builddir/tests/integration/huge_pages
mode=/sys/kernel/mm/transparent_hugepage/enabled
plan 4
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

set -- $([ $cannot = 77 ] || huge advised 40)
if [ "${1:-0}" = 0 ]; then
    for what in asked freed again; do
        skip "$what" "the system has no huge pages to give"
    done
else
    ok "asked for: behind $1 of 40960 KiB" test "$1" -ge 20480
    is "$2" 0 "given back, none is left"
    ok "in its place: behind $3 of 40960 KiB" test "$4" = 1 -a "$3" -ge 20480
fi
tap_end
