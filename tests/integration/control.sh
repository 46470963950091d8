#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Start, stop, flush and marks by call.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need "$tlib" "$built/control_target" "$post"
need_python
target=$built/control_target
cd "$work" || exit 99

dump() { "$python" "$here/rawdump.py" "$@"; }
plain() { TCMALLOC_TRACE_UNCOMPRESSED=1 record "$@"; }

LD_PRELOAD=$tlib "$target" untraced 2>/dev/null
[ $? != 3 ] || skip_all "the library has no calls for it"

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

done_testing
