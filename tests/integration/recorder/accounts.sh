#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The footer and what the trace holds: a trace that contradicts its footer is
# damaged, for each reader; and what malloc-trace record says adds up.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/recorder/control_target" "$built/process/process_target" \
    "$built/recorder/accounts_target" "$postprocess" \
    "$malloc_trace"
need_python
cd "$work" || exit 99

# edit IN OUT footer FIELD DIFFERENCE: changes a number of the last footer.
# edit IN OUT segment: leaves out the last segment of a thread.
edit() { "$python" - "$test_lib" "$@" <<'PY'
import struct, sys
sys.path.insert(0, sys.argv[1])
import rawdump
source, target, how = sys.argv[2:5]
t = rawdump.load([source])
b = bytearray(open(source, "rb").read())
kind = 5 if how == "footer" else 1
at = [p for p, s in zip(t.places, t.segments) if s[0] == kind][-1]
length = struct.unpack_from("<I", b, at + 8)[0]
end = at + 56 + length
if how == "segment":
    del b[at:end]
else:
    for p in range(at + 56, end, 10):
        field, value = struct.unpack_from("<HQ", b, p)
        if field == int(sys.argv[5]):
            value += int(sys.argv[6])
            struct.pack_into("<Q", b, p + 2, value)
    struct.pack_into("<Q", b, at + 48, rawdump.xxh64(
        bytes(b[at : at + 48] + b[at + 56 : end]), t.header.random))
open(target, "wb").write(b)
PY
}

# sound NAME FILE
sound() {
    "$postprocess" --quiet --json json "$2" p 2>err
    is "$1: postprocess" "$? $(json json complete damaged_places)" "0 true 0"
    "$malloc_trace" info "$2" >out 2>>err
    is "$1: info" "$? $(grep -c '^  complete  *yes' out)" "0 1"
    "$malloc_trace" dump "$2" >/dev/null 2>>err
    is "$1: dump" "$? $(cat err)" "0 "
}

# damaged NAME FILE WHAT: each reader says what differs, and ends with 3.
damaged() {
    "$postprocess" --quiet --json json "$2" p 2>err
    is "$1: postprocess" "$? $(json json complete damaged_places)" "3 false 1"
    check "$1: postprocess tells it" grep -q "footer counts .* $3, " err
    check "$1: postprocess: one line" one_line err
    "$malloc_trace" info "$2" >out 2>err
    is "$1: info" "$? $(grep -c '^  complete  *no' out)" "3 1"
    check "$1: info tells it" grep -q "$2: byte .*footer counts .* $3" err
    "$malloc_trace" dump "$2" >out 2>err
    is "$1: dump" $? 3
    check "$1: dump tells it" grep -q "footer counts .* $3, " out
}

TCMALLOC_TRACE_UNCOMPRESSED=1 record t "$built/process/process_target" plain 2>err
sound "as recorded" t
edit t one footer 33 1
damaged "a malloc more in the footer" one mallocs
edit t one footer 36 -1
damaged "a free less" one frees
edit t one footer 37 1
damaged "a failed call more" one failed
edit t one footer 32 1
damaged "events that are not the sum" one events
edit t one footer 38 1
sound "untraced frees that are in no stream" one
edit t one segment
damaged "the last segment of a thread is gone" one ".*"
"$postprocess" --quiet --from 0s --to 1h one p 2>err
is "the same in a window" $? 3
check "the same in a window: told" grep -q "the footer counts" err

# Frees of blocks made before a recording: no stream need have them all, but the
# footer has those that one has.
TCMALLOC_TRACE_UNCOMPRESSED=1 TCMALLOC_TRACE_START=0 \
    record u "$built/recorder/control_target" toggle 2>err
sound "untraced frees" u.1
edit u.1 one footer 38 -1
damaged "fewer than the streams have" one "untraced frees"

# The footer of a flight recording counts events that were not kept, too.
TCMALLOC_TRACE_UNCOMPRESSED=1 TCMALLOC_TRACE_KEEP_MB=1 \
    record f "$built/recorder/control_target" limit 8 2>err
is "flight: exit status" $? 51
sound "flight" f

# Recorded, dropped and untraced events add up to those of the program, with
# marks in the gaps, gaps open at the end, and threads born in one.
mkfifo slow
(
    exec <slow
    eventually 60 [ -e worked ]
    cat >late
) &
LD_PRELOAD=$tracing TCMALLOC_TRACE_OVERFLOW=drop TCMALLOC_TRACE_BUFFER_MB=1 \
    timeout 120 "$built/recorder/accounts_target" "$work/slow" "$work/worked" >truth 2>err
is "gaps: exit status" $? 0
diag <err
wait $!
"$postprocess" --quiet --json json late p 2>err
is "gaps: postprocess" $? 3
at_least "gaps: dropped" "$(json json dropped_events)" 1000
is "gaps: recorded, dropped and untraced are the program's calls" \
    "$(($(json json events) + $(json json dropped_events) +
        $(json json untraced_frees)))" "$(cat truth)"
at_least "gaps: untraced frees" "$(json json untraced_frees)" 2200
"$malloc_trace" info --json info late >/dev/null 2>err
is "gaps: info counts the same" "$("$python" - info <<'PY'
import json, sys
f = json.load(open(sys.argv[1]))["files"][0]
print(*(f[k] for k in ("events", "dropped_events", "untraced_frees")),
      *(f["footer"][k] for k in ("events", "dropped_events", "untraced_frees")))
PY
)" "$(json json events dropped_events untraced_frees events dropped_events \
    untraced_frees)"

# A run that leaves traces of all ends: killed, exec'd in place, exited.
mkfifo line
cat >job <<'SH'
"$1" flush >line &
read -r word <line
kill -9 $!
"$2" plain
exec "$2" plain
SH
env -u LD_PRELOAD timeout 60 "$malloc_trace" record -o 'r.%p' -- \
    sh job "$built/recorder/control_target" "$built/process/process_target" >out 2>err
"$python" - err <<'PY' >sums
import re, sys
text = open(sys.argv[1]).read().replace(",", "")
total = int(re.search(r"traces?[ ](\d+) events", text).group(1))
kinds = re.search(r"  mallocs.*", text).group(0)
print(total == sum(map(int, re.findall(r"\d+", kinds))), total >= 1000)
PY
is "record: the kinds add up to the events" "$(cat sums)" "True True"
at_least "record: some traces have no footer" "$(find . -name 'r.*.spool' |
    wc -l)" 2
is "record: the lines of the account fit a terminal" \
    "$(sed -n '/  mallocs/,/known for/p' err | grep '.\{80\}')" ""
check "record: whose account the rest is" \
    grep -q "known for [0-9]* of [0-9]* traces" err

# A trace that is too large to be read for the summary.
env -u LD_PRELOAD timeout 60 "$malloc_trace" record -o big -- \
    sh -c 'until [ -s big ]; do sleep 0.1; done; truncate -s 300M big; :' \
    >out 2>err
is "record: of a large trace nothing is counted" "$(head -n 1 err)" \
    "malloc-trace record: 1 trace, 300 MiB"
tap_end
