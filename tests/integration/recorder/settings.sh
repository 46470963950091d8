#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The settings of the environment: limits, overflow, the summary, what the
# program sees of them. Setuid programs: process/setuid.sh.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/recorder/control_target" "$postprocess"
need_python
target=$built/recorder/control_target
cd "$work" || exit 99

dump() { "$python" "$test_lib/rawdump.py" "$@"; }
plain() { TCMALLOC_TRACE_UNCOMPRESSED=1 record "$@"; }

# START=0: set up, records nothing, says nothing.
if knows TCMALLOC_TRACE_START; then
    TCMALLOC_TRACE_START=0 plain t "$built/process/process_target" status 41 2>err
    is "START=0: exit status" $? 41
    is "START=0: silent" "$(cat err)" ""
else
    skip "START=0" "not offered"
fi

# A limit on the output.
if knows TCMALLOC_TRACE_LIMIT_MB; then
    rm -f t*
    TCMALLOC_TRACE_LIMIT_MB=1 plain t "$target" limit 4 2>err
    is "LIMIT_MB: the program goes on" $? 51
    size=$(wc -c <t)
    at_least "LIMIT_MB: about that size" "$size" 900000
    at_least "LIMIT_MB: not much more" 2000000 "$size"
    "$postprocess" --quiet --json json t p
    is "LIMIT_MB: complete" "$(json json complete clean_end)" "true true"
else
    skip "LIMIT_MB" "not offered"
fi

# Dropping when the saver cannot keep up: a reader that takes nothing.
mkfifo slow
if knows TCMALLOC_TRACE_OVERFLOW; then
    (sleep 1; cat >/dev/null) <slow &
    reader=$!
    TCMALLOC_TRACE_OVERFLOW=drop TCMALLOC_TRACE_BUFFER_MB=1 plain slow \
        "$target" limit 6 2>err
    status=$?
    is "drop: the program does not wait for the reader" $status 51
    wait $reader
    (sleep 0.5; cat) <slow >dropped &
    reader=$!
    TCMALLOC_TRACE_OVERFLOW=drop TCMALLOC_TRACE_BUFFER_MB=1 plain slow \
        "$target" limit 6 2>err
    wait $reader
    "$postprocess" --quiet --json json dropped p 2>err
    is "drop: exit status of postprocess" $? 3
    is "drop: not complete" "$(json json complete)" false
    at_least "drop: counted" "$(json json dropped_events)" 1000
    dump --counts dropped >counts 2>err
    diag <err
    is "drop: counted alike by the stranger" \
        "$(json json events unmatched_frees)" "$(json counts events unmatched_frees)"
else
    skip "OVERFLOW=drop" "not offered"
fi
TCMALLOC_TRACE_OVERFLOW=block TCMALLOC_TRACE_BUFFER_MB=1 plain slow \
    "$target" limit 4 2>err &
(sleep 0.5; cat) <slow >blocked
wait
check_trace "block: nothing is lost to a slow reader" blocked 3900000

# The summary.
rm -f t*
plain t "$built/process/process_target" plain 2>err
is "silent by default" "$(cat err)" ""
TCMALLOC_TRACE_STATS=1 plain t "$built/process/process_target" plain 2>err
is "STATS=1 prints four lines" \
    "$(grep -c '^tcmalloc: ' err) $(wc -l <err | tr -d ' ')" "4 4"
"$postprocess" --quiet --json json t p
is "STATS=1 prints the number of events" \
    "$(sed -n 's/^tcmalloc: recorded \([0-9]*\) events.*/\1/p' err)" \
    "$(json json events)"
is "STATS=1 prints them by kind" \
    "$(sed -n 's/^tcmalloc:   \([0-9]*\) mallocs.* \([0-9]*\) frees,.*/\1 \2/p' \
        err)" \
    "$(json json mallocs frees)"

# Variables that the program sees in its environment, and those it does not.
env | sed 's/=.*//' | sort -u >plain.env
plain t env >traced.env 2>err
is "no variable of ours but the owner is added" \
    "$(sed 's/=.*//' traced.env | sort -u | comm -13 plain.env - |
        tr '\n' ' ')" \
    "LD_PRELOAD TCMALLOC_TRACE_OUTPUT TCMALLOC_TRACE_OWNER TCMALLOC_TRACE_UNCOMPRESSED "

# Samples: the allocator's counters are in the trace of a program that
# allocates in any locale.
plain t sort /dev/null 2>err
"$python" - "$test_lib" t <<'PY' >sampled 2>err
import sys, struct
sys.path.insert(0, sys.argv[1])
import rawdump
t = rawdump.load(sys.argv[2:])
n = 0
for kind, lo, hi, payload in t.segments:
    if kind == 3:
        d = dict(struct.iter_unpack("<HQ", payload))
        assert d[8] >= 65536, d     # system_bytes_taken
        assert d[16] >= 65536, d    # anonymous RSS
        n += 1
print(n, t.footer[50], t.header.fields[1].decode())
PY
is "samples, reason of the end, name of the program" \
    "$(cut -d' ' -f2- sampled)" "1 sort"
at_least "samples: at least one" "$(cut -d' ' -f1 sampled)" 1
diag <err
tap_end
