#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# postprocess --follow: of a running recording, to a file or a pipe, all events
# whose place is known are written; at its end, all events.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$malloc_trace" "$postprocess"
: "${CC:=cc}"
$CC -g -O1 -fno-builtin -o leak "$here/report/report_leak.c" 2>"$err" ||
    skip_all "no compiler for a program"

program=
follower=
cleanup() {
    # shellcheck disable=SC2086
    kill -9 $program $follower 2>/dev/null
}
# start OUTPUT: starts the program, which reads descriptor 7.
start() {
    rm -f input answers
    mkfifo input
    : >answers
    TCMALLOC_TRACE_SITES=caller LD_PRELOAD=$tracing TCMALLOC_TRACE_OUTPUT=$1 \
        ./leak <input >answers 2>program.err &
    program=$!
    exec 7>input
}
# follow OPTION... NAME: follows NAME, and writes to the file `followed`.
follow() {
    "$postprocess" --follow "$@" 2>follow.err 7>&- | cat >followed 7>&- &
    follower=$!
}
# operations FILE: its records, without blocks, sites and the closing block.
operations() {
    "$malloc_trace" dump "$1" 2>/dev/null |
        sed -E -e '/ block, | site [0-9]+$| end ops=|: the closing block is/d' \
            -e 's/^ *[0-9]+ //'
}
losses() { operations followed | grep -c 'malloc(1000)'; }
has() { [ "$(losses)" = "$1" ]; }
# as_now: compares `followed` with the trace sorted at once.
as_now() {
    "$postprocess" --quiet t now 2>/dev/null
    operations now >want
    operations followed >got
    [ -s want ] && cmp -s want got
}

start "$work/t"
echo 100 >&7
eventually 10 grep -q '^done' answers
eventually 10 test -s t
follow --quiet t
eventually 20 has 100
result "what was recorded until now" $?
eventually 20 as_now
result "as a new look has it" $?
"$malloc_trace" dump followed 2>/dev/null | grep -q ' block, 0 records'
result "an empty block says that this is all" $?
# Each event was published before the time of a barrier.
"$malloc_trace" dump t 2>/dev/null | awk '
    $4 == "barrier" { barrier = $3 }
    $3 ~ /[.][.]/ { sub(/.*[.][.]/, "", $3); last = $3 }
    END { print (last != "" && barrier > last) }' >behind
is "the last barrier is behind all events" "$(cat behind)" 1
size=$(wc -c <followed)
sleep 1
is "while nothing comes nothing is written" "$(wc -c <followed)" "$size"
for n in 1 2 3 4 5; do
    echo 50 >&7
    eventually 20 has $((100 + n * 50))
done
has 350
result "what came since" $?
eventually 20 as_now
result "as a new look has it" $?
exec 7>&-
wait $program
wait $follower
check "the end: nothing is missing" "$malloc_trace" info --quiet followed
as_now
result "all of it" $?
! grep -q . follow.err
result "and no message" $?

# A recording whose program is killed leaves a spool.
rm -f t t.spool
start "$work/t"
echo 10 >&7
eventually 10 test -s t
zip=
[ "${TCM_HAVE_LZ4:-yes}" = no ] || zip=-z
# shellcheck disable=SC2086
follow $zip t
eventually 20 has 10
result "what is compressed comes at once, too" $?
echo 20 >&7
eventually 10 test "$(wc -l <answers)" -ge 2
kill -9 $program
wait $program 2>/dev/null
exec 7>&-
wait $follower
result "killed: it ends" $?
as_now
result "with what the spool has" $?
like "which it says" follow.err 'the spool has the rest'

# A reader of the output that ends.
rm -f t t.spool
start "$work/t"
echo 10 >&7
eventually 10 test -s t
{
    "$postprocess" --follow --quiet t 2>follow.err 7>&-
    echo $? >status
} | head -c 1 >/dev/null 7>&-
is "without a reader it ends" "$(cat status)" 1
like "and says so" follow.err 'standard output'

# A signal to the follower.
"$postprocess" --quiet --follow t out.p 2>follow.err 7>&- &
follower=$!
sleep 0.5
kill -TERM $follower
wait $follower
is "SIGTERM ends it" $? 3
check "what was read until then is there" test -s out.p
exec 7>&-
wait $program

# A pipe.
mkfifo pipe
follow --quiet pipe
start "$work/pipe"
echo 30 >&7
eventually 20 has 30
result "through a pipe as it comes" $?
exec 7>&-
wait $program
wait $follower
check "up to its end" "$malloc_trace" info --quiet followed

# A trace that does not grow.
"$postprocess" --quiet t want.p
"$postprocess" --quiet --follow t got.p
is "a trace that has its end" $? 0
check "is read as ever" cmp want.p got.p
: >empty
fails_with "nor an empty file" 1 "$postprocess" --follow empty out.p
program=
follower=
tap_end
