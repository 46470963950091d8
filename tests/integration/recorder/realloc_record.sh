#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every realloc of a program that does little else is in the trace, once, and
# blocks land where they do without recording.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal" "$tracing" "$built/recorder/realloc_target" "$postprocess" "$replay"
need_python
cd "$work" || exit 99
target=$built/recorder/realloc_target
keys="mallocs reallocs frees"

LD_PRELOAD=$minimal "$target" 400000 >untraced
is "untraced run" $? 0
LD_PRELOAD=$tracing "$target" 400000 >off
check "recording off: the same addresses" cmp untraced off

# Events of the process beside those of the test.
record none "$target" 0 >/dev/null
"$postprocess" --quiet --json base none p

# The counts of the trace in $1 without those, as the program prints its own.
counts() {
    # shellcheck disable=SC2086
    { json base $keys; json "$1" $keys; } |
        awk 'NR == 1 { split($0, n) }
             NR == 2 { print $1 - n[1], $2 - n[2], $3 - n[3] }'
}

for how in lz4 plain; do
    [ $how = lz4 ] || export TCMALLOC_TRACE_UNCOMPRESSED=1
    record $how "$target" 400000 >on
    is "$how: recorded run" $? 0
    check "$how: the same addresses" cmp untraced on
    "$postprocess" --quiet --json json $how p
    is "$how: exit status of postprocess" $? 0
    is "$how: mallocs, reallocs and frees" "$(counts json)" \
        "$(cut -d' ' -f1-3 untraced)"
    is "$how: nothing is missing" "$(json json complete unmatched_frees \
        unmatched_reallocs untraced_frees order_conflicts)" "true 0 0 0 0"
    "$replay" --json r p >/dev/null 2>&1
    is "$how: replay" "$? $(json r ops)" "0 $(json json ops)"
done
tap_end
