#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each command that takes a trace takes every kind of trace: processed, raw,
# flight recording, cut, still being recorded, of another program, packed, from
# a pipe. Figures and status are those of what postprocess makes of it.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$postprocess" "$replay" "$malloc_trace"
need_python

cat >program.py <<'EOF'
import sys
blocks = [bytearray(n % 3000 + 600) for n in range(20000)]
del blocks[::2]
if len(sys.argv) > 1:
    print("ready", flush=True)
    sys.stdin.readline()
EOF
# recorded OUTPUT ARGS...: the program, recorded.
recorded() {
    name=$1
    shift
    PYTHONMALLOC=malloc LD_PRELOAD=$tracing TCMALLOC_TRACE_OUTPUT=$work/$name \
        "$python" program.py "$@"
}
check "recorded" recorded raw
TCMALLOC_TRACE_KEEP_MB=8 recorded flight
head -c $(($(wc -c <raw) * 2 / 3)) raw >cut
mkfifo go
recorded running wait <go >ready &
program=$!
cleanup() { kill $program 2>>"$err"; }
exec 7>go
eventually 30 grep -q ready ready

# --- What is expected ---------------------------------------------------------

# calls_of FILE, peak_of FILE: of the JSON that postprocess writes.
key_of() {
    "$python" -c 'import json, sys
print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"
}
# expect KIND: sorts it by postprocess, and keeps status and figures.
expect() {
    "$postprocess" -q --json "$1.json" "$1" "$1.sorted" 2>>"$err"
    echo $? >"$1.status"
    echo "$(key_of "$1.json" ops) $(key_of "$1.json" peak_live_bytes)" \
        >"$1.figures"
}
# The saver's next round is behind all that the program did.
is_still() {
    expect running
    cp running.figures before
    sleep 0.5
    expect running
    cmp -s before running.figures
}
eventually 20 is_still
for kind in raw cut flight; do
    expect $kind
done
is "a whole recording" "$(cat raw.status)" 0
is "a cut one" "$(cat cut.status)" 3
is "one that goes on" "$(cat running.status)" 3
at_least "operations" "$(cut -d ' ' -f 1 raw.figures)" 30000

# The rest has what the recording has.
cp raw.sorted processed
check "another program's" "$malloc_trace" convert -q --to text processed foreign
kinds="raw cut flight running processed foreign"
same="processed foreign"
# A recording is in LZ4 frames itself, which packing is not to hide.
plain="processed foreign"
if [ "${TCM_HAVE_LZ4:-yes}" = no ]; then
    plain="raw $plain"
elif command -v lz4 >found; then
    lz4 -q -d -c raw >plain
    plain="plain $plain"
    kinds="$kinds plain"
    same="$same plain"
fi
for kind in $plain; do
    for pack in gzip zstd bzip2 lz4; do
        command -v $pack >found || continue
        [ $pack != lz4 ] || [ "${TCM_HAVE_LZ4:-yes}" = yes ] || continue
        $pack -q -c $kind >$kind.$pack || continue
        kinds="$kinds $kind.$pack"
        same="$same $kind.$pack"
    done
done
for kind in $same; do
    cp raw.figures $kind.figures
    cp raw.status $kind.status
    ln raw.sorted $kind.sorted
done
# what this build cannot unpack is no matter of this test
for kind in $kinds; do
    "$malloc_trace" info -q $kind 2>info.err
    grep -q "built without\|cannot unpack\|to be decompressed" info.err &&
        kinds=$(echo " $kinds " | sed "s/ $kind / /")
done

# --- Replay -------------------------------------------------------------------

# replayed NAME KIND: replay.json has the figures of KIND.
replayed() {
    is "$1: operations and peak" \
        "$(key_of replay.json ops) $(key_of replay.json peak_live_bytes)" \
        "$(cat "$2.figures")"
}
for kind in $kinds; do
    fails_with "replay of $kind" "$(cat $kind.status)" \
        "$replay" -q --json replay.json $kind
    replayed "replay of $kind" $kind
done
for kind in raw cut processed foreign plain.gzip; do
    [ -e $kind ] || continue
    # shellcheck disable=SC2002
    cat $kind | "$replay" -q --json replay.json 2>"$err"
    is "replay of $kind from a pipe" $? "$(cat $kind.status)"
    replayed "replay of $kind from a pipe" $kind
done

# --- malloc-trace -------------------------------------------------------------

# sums FILE: of a report's JSON, what no clock changes.
sums() {
    "$python" -c 'import json, sys
r = json.load(open(sys.argv[1]))
t = r["total"]
print(r["trace_peak_bytes"], *(t[k] for k in
      ("bytes", "calls", "live_bytes", "live_blocks", "peak_bytes", "ended")))
' "$1"
}
for kind in $kinds; do
    "$malloc_trace" report -q --by=size --to=json -o want.json $kind.sorted \
        2>>"$err"
    # a recording that goes on lacks nothing that a report could have
    status=$(cat $kind.status)
    [ $kind != running ] || status=0
    fails_with "report of $kind" $status \
        "$malloc_trace" report -q --by=size --to=json -o report.json $kind
    is "report of $kind: sums" "$(sums report.json)" "$(sums want.json)"
    for command in info dump; do
        fails_with "$command of $kind" "$(cat $kind.status)" \
            "$malloc_trace" $command -q $kind
    done
done
for kind in raw cut flight running foreign plain.gzip foreign.gzip; do
    [ -e $kind ] || [ $kind = flight ] || continue
    fails_with "convert of $kind" "$(cat $kind.status)" \
        "$malloc_trace" convert -q $kind converted
    "$replay" -q --json replay.json converted 2>>"$err"
    replayed "convert of $kind" $kind
    case $kind in foreign*) continue ;; esac
    check "convert of $kind: as by postprocess" cmp converted $kind.sorted
    fails_with "convert --to of $kind" "$(cat $kind.status)" \
        "$malloc_trace" convert -q --to text $kind text
    "$malloc_trace" convert -q --to text $kind.sorted want 2>>"$err"
    check "convert --to of $kind: as of what is sorted" cmp text want
done
for kind in raw cut running processed foreign; do
    fails_with "compare of $kind" "$(cat $kind.status)" "$malloc_trace" \
        compare -q -n 1 --no-check -a glibc -a tcmalloc-mt \
        --json compare.json $kind
    is "compare of $kind: operations" "$("$python" -c 'import json
print(json.load(open("compare.json"))["traces"][0]["ops"])')" \
        "$(cut -d ' ' -f 1 $kind.figures)"
done
for kind in cut foreign; do
    fails_with "memory of $kind" "$(cat $kind.status)" "$malloc_trace" \
        memory -q -a glibc --json memory.json $kind
    is "memory of $kind: operations" "$(key_of memory.json operations)" \
        "$(cut -d ' ' -f 1 $kind.figures)"
done

# Each command reports damage in the words of postprocess.
"$postprocess" -q cut sorted 2>&1 | sed 's/^[^:]*: //' >want
"$replay" -q cut 2>&1 | sed 's/^[^:]*: //' | grep -v threads >got
check "replay says what postprocess says" cmp want got
for command in "report --by=size" "convert --to=text"; do
    # shellcheck disable=SC2086
    "$malloc_trace" $command -q cut 2>&1 >found | sed 's/^[^:]*: //' >got
    check "and $command" cmp want got
done
echo >&7
wait $program
cleanup() { :; }
tap_end
