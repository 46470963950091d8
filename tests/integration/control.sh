#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Start, stop, flush and marks by call; the settings of the environment.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need "$tlib" "$built/control_target" "$post"
need_python
target=$built/control_target
cd "$work" || exit 99

dump() { "$python" "$here/rawdump.py" "$@"; }
plain() { TCMALLOC_TRACE_UNCOMPRESSED=1 record "$@"; }

# Off, on, off, on.
TCMALLOC_TRACE_START=0 plain t "$target" toggle 2>err
is "toggle: exit status" $? 0
diag <err
is "toggle: two files" "$(find . -name 't*' | sort | tr '\n' ' ')" "./t ./t.1 "
dump t >list1 2>err && dump t.1 >list2 2>>err
is "toggle: both can be read" $? 0
diag <err
is "toggle: calls of the first recording" "$(grep -c 'malloc 60002 ' list1)" 101
is "toggle: calls of the second" "$(grep -c 'malloc 60002 ' list2)" 50
is "toggle: none of those between" "$(cat list1 list2 | grep -c ' 60001')" 0
is "toggle: a mark each" \
    "$(grep -h -o 'mark .*' list1 list2 | tr '\n' ' ')" \
    "mark text=first mark text=second "
is "toggle: realloc of an unknown block" \
    "$(grep -c 'realloc unknown 60003' list1)" 1
for n in 1 2; do
    f=t
    [ $n = 2 ] && f=t.1
    "$post" --quiet --json json $f p 2>err
    is "toggle, recording $n: postprocess" $? 0
    is "toggle, recording $n: whole" \
        "$(json json complete clean_end unmatched_frees)" "true true 0"
    eval "untraced$n=\$(json json untraced_frees)"
done
# shellcheck disable=SC2154
is "toggle: frees of blocks made while off" "$untraced1 $untraced2" "1 3"

# START=0 and never started: a program that runs as ever.
rm -f t*
TCMALLOC_TRACE_START=0 plain t "$built/process_target" status 41 2>err
is "START=0: exit status" $? 41
is "START=0: silent" "$(cat err)" ""

# To a path of the program's own.
LD_PRELOAD=$tlib timeout 60 "$target" path a.trace b.trace c.trace 2>err
is "start to a path: exit status" $? 0
head -n 1 err | diag
for f in a.trace b.trace c.trace; do
    check_trace "start to a path: $f" $f 400
done

# The untraced library has the calls and refuses.
if [ -e "$lib" ]; then
    LD_PRELOAD=$lib TCMALLOC_TRACE_OUTPUT=no.trace timeout 60 "$target" untraced
    is "untraced library: exit status" $? 0
    [ ! -e no.trace ]
    is "untraced library: no file" $? 0
fi

# Flush: all events so far are in the file.
rm -f t* flushed
mkfifo flushed
LD_PRELOAD=$tlib TCMALLOC_TRACE_OUTPUT=t TCMALLOC_TRACE_UNCOMPRESSED=1 \
    "$target" flush >flushed &
pid=$!
read -r line <flushed
kill -9 $pid
wait $pid 2>/dev/null
is "flush: returns" "$line" flushed
dump t >list 2>err
is "flush: the file alone can be read" $? 0
is "flush: and has all calls before it" "$(grep -c 'malloc 60002 ' list)" 1000
is "flush: and the mark" "$(grep -c 'before flush' list)" 1

# Switching while threads work.
rm -f t*
for how in 0 1; do
    TCMALLOC_TRACE_START=0 TCMALLOC_TRACE_UNCOMPRESSED=$how \
        record "t$how" "$target" threads 4 2>err
    is "switching under load $how: exit status" $? 0
    diag <err
    n=0
    bad=0
    for f in t$how*; do
        case $f in *.spool) bad=$((bad + 1)); continue ;; esac
        n=$((n + 1))
        "$post" --quiet --json json "$f" p 2>err &&
            [ "$(json json complete clean_end unmatched_frees \
                order_conflicts)" = "true true 0 0" ] ||
            { bad=$((bad + 1)); (echo "$f"; cat err json) | diag; }
    done
    is "switching under load $how: a file each" $n 20
    is "switching under load $how: each is whole" $bad 0
done

# A limit on the output.
rm -f t*
TCMALLOC_TRACE_LIMIT_MB=1 plain t "$target" limit 4 2>err
is "LIMIT_MB: recording stopped, the program did not" $? 50
size=$(wc -c <t)
at_least "LIMIT_MB: about that size" "$size" 900000
at_least "LIMIT_MB: not much more" 1400000 "$size"
"$post" --quiet --json json t p
is "LIMIT_MB: complete" "$(json json complete clean_end)" "true true"

# Dropping when the saver cannot keep up: a reader that takes nothing.
mkfifo slow
(sleep 1; cat >/dev/null) <slow &
reader=$!
TCMALLOC_TRACE_OVERFLOW=drop TCMALLOC_TRACE_BUFFER_MB=1 plain slow \
    "$target" limit 20 2>err
status=$?
is "drop: the program does not wait for the reader" $status 51
wait $reader
(sleep 0.5; cat) <slow >dropped &
reader=$!
TCMALLOC_TRACE_OVERFLOW=drop TCMALLOC_TRACE_BUFFER_MB=1 plain slow \
    "$target" limit 20 2>err
wait $reader
"$post" --quiet --json json dropped p 2>err
is "drop: exit status of postprocess" $? 3
is "drop: not complete" "$(json json complete)" false
at_least "drop: counted" "$(json json dropped_events)" 1000
dump --counts dropped >counts 2>err
diag <err
is "drop: counted alike by the stranger" \
    "$(json json events unmatched_frees)" "$(json counts events unmatched_frees)"
TCMALLOC_TRACE_OVERFLOW=block TCMALLOC_TRACE_BUFFER_MB=1 plain slow \
    "$target" limit 4 2>err &
(sleep 0.5; cat) <slow >blocked
wait
check_trace "block: nothing is lost to a slow reader" blocked 4000000

# The summary.
rm -f t*
plain t "$built/process_target" plain 2>err
is "silent by default" "$(cat err)" ""
TCMALLOC_TRACE_STATS=1 plain t "$built/process_target" plain 2>err
check "STATS=1 prints the number of events" grep -Eq '[0-9]+ events|events' err
at_least "STATS=1 prints something" "$(wc -c <err)" 20

# What the environment of the program shows, and what it does not.
env >plain.env
plain t env >traced.env 2>err
is "no variable of ours but the owner is added" \
    "$(grep -o '^[A-Z_]*TCM[A-Z_]*' traced.env | sort | tr '\n' ' ')" \
    "TCMALLOC_TRACE_OUTPUT TCMALLOC_TRACE_OWNER TCMALLOC_TRACE_UNCOMPRESSED "

# Samples: the allocator's counters are in the trace.
"$python" - "$here" t <<'PY' >sampled 2>err
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
    "$(cut -d' ' -f2- sampled)" "1 env"
at_least "samples: at least one" "$(cut -d' ' -f1 sampled)" 1
diag <err

# A setuid program ignores all of it; linked, since it would not be preloaded.
: "${CC:=cc}"
if [ "$(id -u)" = 0 ] && have setpriv && $CC -o suid \
    "$here/process_target.c" "$tlib" -pthread \
    -Wl,-rpath,"$(dirname "$tlib")" 2>err && chmod 4755 suid &&
    chmod 755 "$work"; then
    mkdir open
    chmod 777 open
    TCMALLOC_TRACE_OUTPUT=$work/open/t ./suid status 41
    is "linked program: exit status" $? 41
    is "linked program: is recorded" "$(ls open)" t
    rm -f open/t
    TCMALLOC_TRACE_OUTPUT=$work/open/t \
        setpriv --reuid 65534 --clear-groups ./suid status 41
    is "setuid program: exit status" $? 41
    is "setuid program: is not recorded" "$(ls open)" ""
else
    skip "setuid program" "not root"
fi
done_testing
