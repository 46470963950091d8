#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Libraries that are loaded and closed, the allocator among them.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal" "$built/allocator/dlopen_load"
: "${CC:=cc}"
times=300
[ "${LONG:-0}" = 1 ] && times=1000
plugin=$work/plugin.so
if $CC -shared -fPIC -o "$plugin" "$here/allocator/dlopen_plugin.c" -pthread \
    >"$work/err" 2>&1; then
    under untraced dlopen_load plugin "$plugin" $times
    [ ! -e "$tracing" ] || under recording dlopen_load plugin "$plugin" $times
else
    skip "plug-ins" "no compiler for a library"
fi

# Bound deep, to another malloc than the program's.
mkdir "$work/deep"
deep=$here/allocator/dlopen_deep.c
if $CC -shared -fPIC -o "$work/deep/libdeep.so" "$deep" >"$work/err" 2>&1 &&
    $CC -shared -fPIC -DOPENER -D_GNU_SOURCE -o "$work/libopener.so" "$deep" \
        -Wl,--enable-new-dtags,-rpath,"$work/deep" >"$work/err" 2>&1; then
    under untraced dlopen_load deep "$work/libopener.so"
    [ ! -e "$tracing" ] ||
        under recording dlopen_load deep "$work/libopener.so"
else
    skip "libraries bound deep" "no compiler for a library"
fi

# In a program that was started without it.
for late in "$minimal" "$tracing"; do
    [ -e "$late" ] || continue
    timeout 60 env TCMALLOC_TRACE_OUTPUT="$work/late.$suffix" \
        "$built/allocator/dlopen_load" late "$late" >"$work/out" 2>"$work/err"
    is "$(basename "$late"), loaded late" "$?" 0
    grep -v '^ok' "$work/out" | diag
    diag <"$work/err"
done
tap_end
