#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The pipelines of the documentation: files, pipes and FIFOs, compressed and
# plain, through bump-pipes and the lz4 tool.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$postprocess" "$replay" "$built/process/process_target"
need_python
have lz4 || skip_all "no lz4"
[ "${TCM_HAVE_LZ4:-yes}" != no ] || skip_all "built without LZ4"
cd "$work" || exit 99

# ops FILE: the number of operations in a replay's --json, which is not 0.
ops() { json "$1" ops peak_live_bytes end_live_objects; }

# From a pipe, which cannot be read twice, present bytes are left out.
PYTHONMALLOC=malloc TCMALLOC_TRACE_PRESENT=0
export PYTHONMALLOC TCMALLOC_TRACE_PRESENT
script='
import json
x = [{"a": i, "b": str(i)} for i in range(3000)]
for i in range(3): x = json.loads(json.dumps(x))
'
record t.lz4 "$python" -c "$script"
is "record: exit status" $? 0

# The commands of the manual.
"$postprocess" t.lz4 - 2>post.err | lz4 -q >p.lz4
at_least "postprocess | lz4" "$(wc -c <p.lz4)" 1000
check "the summary is on stderr" grep -q . post.err
lz4 -dq <p.lz4 | "$replay" --json a.json >a.out 2>a.err
is "lz4 -d | replay: exit status" $? 0
check "the summary of replay is on stdout" grep -q . a.out
is "nothing on its stderr" "$(cat a.err)" ""
"$replay" --json b.json p.lz4 >b.out
is "replay p.lz4: exit status" $? 0
is "the same operations" "$(ops b.json)" "$(ops a.json)"
at_least "and enough of them" "$(json a.json ops)" 50000

# Ways to name the output, each giving the same bytes.
"$postprocess" --quiet t.lz4 - >want.p
lz4 -dq <p.lz4 | cmp - want.p >cmp.out 2>&1
is "--quiet gives the same bytes" $? 0
"$postprocess" --quiet t.lz4 >got.p
is "OUT missing: exit status" $? 0
check "OUT missing: stdout" cmp got.p want.p
"$postprocess" --quiet t.lz4 /dev/stdout >got.p
check "OUT /dev/stdout" cmp got.p want.p
"$postprocess" --quiet t.lz4 /dev/stdout | cat >got.p
check "OUT /dev/stdout, a pipe" cmp got.p want.p
echo before >got.p
"$postprocess" --quiet t.lz4 /dev/stdout >>got.p
(echo before; cat want.p) | cmp - got.p >cmp.out 2>&1
is "OUT /dev/stdout, appended to: nothing is truncated" $? 0
"$postprocess" --quiet t.lz4 got.p
check "OUT a file" cmp got.p want.p
mkfifo fifo
timeout 60 cat fifo >got.p &
timeout 60 "$postprocess" --quiet t.lz4 fifo
wait $!
check "OUT a FIFO" cmp got.p want.p
[ -p fifo ]
is "OUT a FIFO: stays one" $? 0
"$postprocess" --quiet t.lz4 /dev/null
is "OUT /dev/null" $? 0
if offers "$postprocess" -z; then
    "$postprocess" --quiet -z t.lz4 z.lz4
    is "-z: exit status" $? 0
    lz4 -dqc z.lz4 | cmp - want.p >cmp.out 2>&1
    is "-z: an LZ4 frame of the same bytes" $? 0
else
    skip "-z" "not offered"
fi

# Ways to name the input.
"$postprocess" --quiet - got.p <t.lz4
check "RAW - from a file" cmp got.p want.p
# shellcheck disable=SC2002
cat t.lz4 | "$postprocess" --quiet - - | cat >got.p
check "RAW - from a pipe" cmp got.p want.p
lz4 -dqc t.lz4 >t.plain
"$postprocess" --quiet t.plain got.p
check "RAW not compressed" cmp got.p want.p
lz4 -dqc t.lz4 | "$postprocess" --quiet - >got.p
check "RAW not compressed from a pipe" cmp got.p want.p
"$replay" --json c.json want.p >/dev/null
is "replay of a plain file" "$(ops c.json)" "$(ops a.json)"
"$replay" --json c.json <want.p >/dev/null
is "replay of plain stdin" "$(ops c.json)" "$(ops a.json)"
"$replay" --json c.json <p.lz4 >/dev/null
is "replay of compressed stdin" "$(ops c.json)" "$(ops a.json)"

# bump-pipes in every link.
if [ -x "$bump_pipes" ]; then
    "$bump_pipes" "$postprocess" --quiet t.lz4 - | "$bump_pipes" lz4 -q | \
        "$bump_pipes" lz4 -dq |
        "$bump_pipes" "$replay" --json d.json >/dev/null
    is "bump-pipes: the same operations" "$(ops d.json)" "$(ops a.json)"
    # shellcheck disable=SC2016
    echo x | "$bump_pipes" sh -c 'cat; exit 5' | grep -q x
    is "bump-pipes passes data" $? 0
    "$bump_pipes" sh -c 'exit 5' </dev/null
    is "bump-pipes passes on the exit status" $? 5
    "$bump_pipes" >/dev/null 2>err
    is "bump-pipes without a command: usage" $? 2
    "$bump_pipes" /nonexistent/command 2>err
    status=$?
    at_least "bump-pipes of no such command fails ($status)" $status 1
    check "and says so in one line" one_line err
fi

# Recording into a FIFO, /dev/fd and an inherited descriptor.
rm -f fifo
mkfifo fifo
timeout 60 "$postprocess" --quiet --json f.json fifo f.p &
record fifo "$built/process/process_target" plain
is "record to a FIFO: exit status" $? 0
wait $!
is "record to a FIFO: postprocess reads it as it comes" $? 0
at_least "record to a FIFO: events" "$(json f.json events)" 200
record /dev/fd/7 "$built/process/process_target" plain 7>fd.lz4
is "record to /dev/fd/7: exit status" $? 0
check_trace "record to /dev/fd/7" fd.lz4 200
record /dev/fd/7 "$built/process/process_target" plain 7>&1 | cat >fd.lz4
check_trace "record to a pipe" fd.lz4 200
record /dev/null "$built/process/process_target" plain
is "record to /dev/null: exit status" $? 0
[ -c /dev/null ] && [ ! -e /dev/null.spool ]
is "record to /dev/null: it stays what it is" $? 0

# Deterministic: same input, same bytes.
"$postprocess" --quiet t.lz4 again.p
check "same input, same bytes out" cmp again.p want.p

# Other allocators replay it to the same end.
for other in libjemalloc.so.2 libtcmalloc_minimal.so.4 libmimalloc.so.2 \
    "$minimal" "$tracing"; do
    LD_PRELOAD=$other "$replay" --json o.json want.p >o.out 2>o.err
    status=$?
    if grep -q 'cannot be preloaded' o.err; then
        skip "replay under $(basename "$other")" "not installed"
    else
        is "replay under $(basename "$other")" "$status $(ops o.json)" \
            "0 $(ops a.json)"
    fi
done

# The front end does it in one command.
if [ -x "$malloc_trace" ]; then
    "$malloc_trace" record -o m.lz4 -- "$python" -c "$script" >m.out 2>m.err
    is "malloc-trace record: exit status" $? 0
    check_trace "malloc-trace record" m.lz4 50000
    "$malloc_trace" record -o m2.lz4 -- sh -c 'exit 9' >/dev/null 2>&1
    is "malloc-trace record passes on the exit status" $? 9
    # shellcheck disable=SC2016
    "$malloc_trace" record -o m3.lz4 -- sh -c 'kill -TERM $$' >/dev/null 2>&1
    is "malloc-trace record passes on a signal" $? 143
    for f in t.lz4 t.plain want.p p.lz4; do
        "$malloc_trace" info --json i.json $f >i.out 2>i.err
        is "malloc-trace info $f" $? 0
        offers "$malloc_trace" dump || {
            skip "malloc-trace dump" "not offered"
            continue
        }
        "$malloc_trace" dump $f >i.out 2>i.err
        is "malloc-trace dump $f" $? 0
        at_least "malloc-trace dump $f: a line an event" \
            "$(wc -l <i.out)" "$(json a.json ops)"
    done
else
    skip "malloc-trace" "not built"
fi
tap_end
