#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The trace of a killed program that is not as the kill left it: cut, removed,
# copied at two moments. What is missing is told, or nothing is.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/process/cuts_target" "$postprocess" "$malloc_trace"
need_python
cd "$work" || exit 99

: "${CC:=cc}"
late=
if $CC -shared -fPIC -o libprocess_late.so "$here/process/process_late.c" 2>err &&
    echo 'extern int process_late_used;
int main(void) { return process_late_used; }' >late.c &&
    $CC -o late late.c -L. -lprocess_late -Wl,-rpath,"$work" 2>>err; then
    late=$work/late
else
    skip "after the recorder's end" "no compiler"
fi
cuts=60
[ "${LONG:-0}" = 1 ] && cuts=1000
LZ4=${TCM_HAVE_LZ4:-yes} "$python" "$here/process/cuts.py" "$tracing" "$tools" \
    "$built/process/cuts_target" "$cuts" "$late" >py.out 2>&1
pass_on py.out
tap_end
