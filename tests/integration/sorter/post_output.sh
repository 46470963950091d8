#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Input and output of postprocess: -z, the same bytes on any number of
# processors, progress on a terminal, an early end by a signal.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$postprocess" "$replay" "$built/recorder/exchange"
need_python
cd "$work" || exit 99
# From a pipe, which cannot be read twice, present bytes are left out.
TCMALLOC_TRACE_PRESENT=0
export TCMALLOC_TRACE_PRESENT

# Before the end, only events before a barrier are written, a quarter of a
# megabyte at a time. So the trace has a megabyte, with a barrier about the
# middle: there is output when three quarters of it were read.
tries=0
while [ $tries -lt 20 ]; do
    tries=$((tries + 1))
    TCMALLOC_TRACE_UNCOMPRESSED=1 record t.plain "$built/recorder/exchange" 3 40000 \
        >/dev/null || skip_all "recording does not work"
    "$malloc_trace" dump t.plain | awk -v size="$(wc -c <t.plain)" \
        '/barrier/ && $1 > size / 2.5 && $1 < size / 1.5 { found = 1 }
         END { exit !found }' && break
done
raws=t.plain
"$postprocess" --quiet t.plain want.p
is "postprocess: exit status" $? 0
at_least "the trace is more than a few blocks" "$(wc -c <want.p)" 500000
if have lz4 && [ "${TCM_HAVE_LZ4:-yes}" != no ]; then
    lz4 -qf t.plain t.lz4
    raws="t.plain t.lz4"
    "$postprocess" --quiet -z t.plain want.lz4
    is "-z: exit status" $? 0
    lz4 -dqc want.lz4 | cmp - want.p >cmp.out 2>&1
    is "-z: lz4 gives the same bytes" $? 0
    lz4 -tq want.lz4 2>lz4.err
    is "-z: lz4 -t takes the frames" $? 0
    "$postprocess" --quiet --compress t.plain - | cmp - want.lz4 >cmp.out 2>&1
    is "--compress to a pipe: the same" $? 0
    "$replay" --json a.json want.p >/dev/null
    "$replay" --json b.json want.lz4 >/dev/null
    is "replay reads both" "$(json b.json ops peak_live_bytes)" \
        "$(json a.json ops peak_live_bytes)"
    # One flipped byte in a frame is found by the checksums of the trace.
    "$python" - <<'PY'
b = bytearray(open("want.lz4", "rb").read())
b[len(b) // 2] ^= 16
open("bad.lz4", "wb").write(b)
PY
    "$replay" bad.lz4 >/dev/null 2>&1
    is "-z: damage is found" $? 3
    "$postprocess" --quiet -z t.plain /dev/full 2>full.err
    is "-z to a full disk: exit status" $? 1
    check "and one line says so" one_line full.err
    same="-z"
else
    skip "-z" "no lz4"
    same=
fi
"$postprocess" --quiet t.plain /dev/full 2>full.err
is "a full disk: exit status" $? 1
check "and one line says so" one_line full.err

# An output that cannot be completed replaces no file, and is removed.
mkdir kept
cp want.p kept/out
chmod 640 kept/out
keeps() { # WHAT STATUS
    is "$1: exit status" "$2" 1
    check "$1: the output is what it was" cmp kept/out want.p
    is "$1: and nothing is beside it" "$(ls -A kept)" out
}
for name in out new; do
    (
        ulimit -f 64
        "$postprocess" --quiet t.plain kept/$name 2>err
    )
    keeps "no room for $name" $?
    check "no room for $name: one line says so" one_line err
done
"$postprocess" --quiet --from-mark none t.plain kept/out 2>err
keeps "a mark that is not there" $?
"$postprocess" --quiet --to-mark none t.plain kept/new 2>err
keeps "nor one to end at" $?
"$postprocess" --quiet --from 99h t.plain kept/out 2>err
keeps "a window behind the end" $?
"$postprocess" --quiet --only-threads 9999 t.plain kept/out 2>err
keeps "no such thread" $?
if [ "$(id -u)" = 0 ] && mkdir small &&
    mount -t tmpfs -o size=300k none small 2>/dev/null; then
    cleanup() { umount "$work/small" 2>/dev/null; }
    "$postprocess" --quiet t.plain small/out 2>err
    is "a full file system: exit status" $? 1
    check "a full file system: one line says so" one_line err
    is "a full file system: nothing is left" "$(ls -A small)" ""
    umount small
else
    skip "a full file system" "cannot mount"
fi
# The output of a damaged trace replaces a file.
head -c 300000 t.plain >cut.plain
"$postprocess" --quiet cut.plain cut.p 2>/dev/null
"$postprocess" --quiet cut.plain kept/out 2>/dev/null
is "a cut trace: exit status" $? 3
check "a cut trace: replaces the output" cmp kept/out cut.p
is "a cut trace: with its mode" "$(stat -c %a kept/out) $(ls -A kept)" \
    "640 out"
# Links to an output file stay links to it.
ln kept/out kept/hard
ln -s out kept/soft
"$postprocess" --quiet t.plain kept/soft
check "through a symbolic link: the file" cmp kept/out want.p
[ -L kept/soft ] && [ "$(stat -c %i kept/out)" = "$(stat -c %i kept/hard)" ]
is "through a symbolic link: links stay" $? 0
mkfifo kept/fifo
cat kept/fifo >fifo.got &
"$postprocess" --quiet t.plain kept/fifo
wait $!
check "a FIFO is written to" cmp fifo.got want.p
[ -p kept/fifo ]
is "and stays one" $? 0

# A file that is read is not written, under any of its names, and JSON replaces
# no trace.
cp t.plain both
cp t.plain both.spool
ln both link
for out in both both.spool ./both "$PWD/link"; do
    "$postprocess" --quiet both "$out" 2>both.err
    is "output equals input, $out: exit status" $? 2
    check "and one line says so" grep -q "both input and output (" both.err
done
# shellcheck disable=SC2094
"$postprocess" --quiet - both <both 2>both.err
is "output equals standard input: exit status" $? 2
# shellcheck disable=SC2094
"$postprocess" --quiet both >>both 2>both.err
is "standard output equals input: exit status" $? 2
"$postprocess" --quiet --json both t.plain both.p 2>both.err
is "--json in place of a trace: exit status" $? 1
check "and one line says so" grep -q "^postprocess: both: is a trace" both.err
cp want.p both.p
"$postprocess" --quiet --json both.p t.plain /dev/null 2>both.err
is "--json in place of a processed trace: exit status" $? 1
ln -s both.new symbolic
for outs in "--json both both both.p" "--json both.p both both.p" \
    "--json both.spool both both.p" "--json ./new both new" \
    "--json both.new both symbolic" "--json new both $PWD/new" \
    "--json - both" "--json /dev/stdout both -" "--json /dev/fd/1 both" \
    "--json - both /dev/fd/1" "--json both.k3 both new" "both both.k3" \
    "both.k2 both.spool"; do
    # shellcheck disable=SC2086
    "$postprocess" --quiet $outs >both.out 2>both.err
    is "$outs: exit status" $? 2
    check "and one line says so" one_line both.err
done
[ ! -s both.out ] && [ ! -e new ] && [ ! -e both.new ]
is "nothing was written" $? 0
# shellcheck disable=SC2094
"$postprocess" --quiet --json both.out both >>both.out 2>both.err
is "--json equals standard output: exit status" $? 2
"$postprocess" --quiet --json /dev/null t.plain /dev/null
is "a device for both: exit status" $? 0
"$replay" --json want.p want.p 2>both.err
is "replay, --json equals input: exit status" $? 2
# shellcheck disable=SC2094
"$replay" --json both.out want.p >both.out 2>both.err
is "replay, --json equals standard output: exit status" $? 2
"$replay" --json /dev/fd/1 want.p 2>/dev/null | "$python" -m json.tool >/dev/null
is "replay, --json to standard output by another name" $? 0
if [ -x "$malloc_trace" ]; then
    "$malloc_trace" info --json want.p t.plain want.p >/dev/null 2>both.err
    is "info, --json equals input: exit status" $? 2
    # shellcheck disable=SC2094
    "$malloc_trace" info t.plain both >>both 2>both.err
    is "info, output equals input: exit status" $? 2
    # shellcheck disable=SC2094
    "$malloc_trace" dump both >>both 2>both.err
    is "dump, output equals input: exit status" $? 2
    # shellcheck disable=SC2094
    "$malloc_trace" dump <both >>both 2>both.err
    is "dump, output equals standard input: exit status" $? 2
    # shellcheck disable=SC2094
    "$malloc_trace" record -o both.out true >both.out 2>both.err
    is "record, the trace in the command's output: exit status" $? 2
fi
cmp both t.plain && cmp both.spool t.plain && cmp both.p want.p
is "they stay as they were" $? 0
echo '{}' >both.json
"$postprocess" --quiet --json both.json t.plain /dev/null
is "--json in place of JSON: exit status" $? 0

# Files that the tool opens do not get the numbers of closed standard streams.
"$postprocess" --quiet t.plain 2>closed.err >&-
is "closed standard output: exit status" $? 1
check "and one line says so" grep -q "standard output: Bad file" closed.err
head -c 300000 t.plain >cut.plain
"$postprocess" cut.plain cut.p 2>/dev/null
"$postprocess" cut.plain closed.p <&- 2>&- >&-
is "all three closed: exit status" $? 3
check "and nothing is printed into the output" cmp closed.p cut.p

# A killed run leaves a file, which the next one removes, but not that of one that
# still writes.
mkdir beside
mkfifo killed.fifo other.fifo
# hidden COUNT: so many files in the folder have no name yet.
hidden() { [ "$(find beside -name '.malloc-trace.*' | wc -l)" = "$1" ]; }
exec 8<>killed.fifo 9<>other.fifo
"$postprocess" --quiet killed.fifo beside/killed.p 8>&- 9>&- 2>"$err" &
killed=$!
"$postprocess" --quiet other.fifo beside/other.p 8>&- 9>&- 2>"$err" &
other=$!
head -c 1000 t.plain | tee /dev/fd/8 >&9
eventually 10 hidden 2
result "two runs write" $?
kill -9 $killed
wait $killed 2>"$out"
hidden 2
result "one was killed and left a file" $?
"$postprocess" --quiet t.plain beside/got
hidden 1
result "the next one removes that alone" $?
tail -c +1001 t.plain >&9
exec 8>&- 9>&-
wait $other
is "the other one ends well" $? 0
check "with all of its output" cmp beside/other.p want.p
is "and nothing beside it" "$(ls -A beside)" "got
other.p"

# One that this process may use.
cpu=$("$python" -c 'import os; print(min(os.sched_getaffinity(0)))')

# Each run on any machine gives the same bytes.
for raw in $raws; do
    for z in "" $same; do
        if [ -n "$z" ]; then want=want.lz4; else want=want.p; fi
        "$postprocess" --quiet $z $raw got
        check "$raw ${z:-plain}: again" cmp got $want
        if have taskset; then
            taskset -c "$cpu" "$postprocess" --quiet $z $raw got
            check "$raw ${z:-plain}: on one processor" cmp got $want
        fi
        # shellcheck disable=SC2002
        cat $raw | "$postprocess" --quiet $z - - | cat >got
        check "$raw ${z:-plain}: through pipes" cmp got $want
    done
done

"$python" "$here/sorter/post_output.py" "$postprocess" t.plain want.p >py.out 2>&1
pass_on py.out
tap_end
