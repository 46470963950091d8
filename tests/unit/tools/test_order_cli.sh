#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# postprocess from outside: the golden traces, ways of giving it input and
# output, JSON, exit statuses.
. "$top_srcdir/tests/lib/harness.sh"
data=$top_srcdir/tests/data

run "$postprocess" --json v1.json "$data/raw-v1" v1
is "the golden raw trace" "$status" 0
cp "$err" summary
cp "$out" nothing
# Blocks behind the operation blocks may grow.
check "gives the golden processed trace" \
    cmp -n 6742 v1 "$data/processed-v1-ends"
check "a summary is on stderr" grep -q 'of an event: median' summary
is "nothing on stdout" "$(wc -c <nothing | tr -d ' ')" 0

for key in complete clean_end events mallocs memaligns reallocs \
    requested_bytes peak_live_bytes frees failed_allocations unmatched_frees \
    untraced_frees dropped_events threads live_at_end order_conflicts ops \
    raw_bytes file_bytes out_bytes median_interval_ns widest_interval_ns \
    p90_interval_ns median_out_of_order_ns p90_out_of_order_ns \
    most_out_of_order_ns \
    waited_for_allocation; do
    grep -q "^ *\"$key\": [a-z0-9]*,*\$" v1.json || echo "$key"
done >missing
is "JSON has all keys" "$(cat missing)" ""
value() {
    sed -n "s/^ *\"$1\": \([a-z0-9]*\),*\$/\1/p" v1.json
}
is "events are the sum of their kinds" "$(value events)" \
    "$(($(value mallocs) + $(value memaligns) + \
    $(value reallocs) + $(value frees) + $(value failed_allocations)))"
is "ops are those in the processed trace" "$(value ops)" \
    "$(($(value events) - $(value failed_allocations) - \
    $(value unmatched_frees)))"
is "out_bytes" "$(value out_bytes)" "$(wc -c <v1 | tr -d ' ')"
is "file_bytes" "$(value file_bytes)" "$(wc -c <"$data/raw-v1" | tr -d ' ')"

"$postprocess" --quiet "$data/raw-v1" >stdout 2>silence
check "to stdout" cmp stdout v1
is "--quiet says nothing" "$(cat silence)" ""
"$postprocess" --quiet - - <"$data/raw-v1" >stdin
check "from stdin" cmp stdin v1
cat "$data/raw-v1" | "$postprocess" --quiet /dev/stdin /dev/stdout | cat >piped
check "from a pipe to a pipe" cmp piped v1
mkfifo fifo
cat fifo >fromfifo &
"$postprocess" --quiet "$data/raw-v1" fifo
wait $!
check "to a FIFO" cmp fromfifo v1
if [ "${TCM_HAVE_LZ4:-yes}" != no ]; then
    run "$postprocess" --quiet "$data/raw-v1-frames" frames
    is "LZ4 frames" "$status" 0
else
    skip "LZ4 frames" "built without lz4"
fi
check "JSON on stdout" sh -c \
    '"$1" --quiet --json - "$2" o | grep -q clean_end' \
    sh "$postprocess" "$data/raw-v1"

cp "$data/raw-v1" same
fails_with "input and output are one file" 2 "$postprocess" same same
check "which stays as it was" cmp same "$data/raw-v1"
fails_with "a processed trace is no raw one" 1 "$postprocess" v1 out
is "and the message says so" "$(grep -c 'v1.*processed' "$err")" 1
fails_with "no such file" 1 "$postprocess" nowhere out
fails_with "an output that cannot be opened" 1 \
    "$postprocess" "$data/raw-v1" nowhere/out
if [ -c /dev/full ]; then
    fails_with "a full disk" 1 "$postprocess" "$data/raw-v1" /dev/full
fi
fails_with "no operand" 2 "$postprocess"
fails_with "three operands" 2 "$postprocess" a b c
if command -v script >/dev/null 2>&1; then
    # on_terminal STATUS WHAT COMMAND: with a terminal for stdin and stdout.
    on_terminal() {
        script -qec "$3; echo \"status \$?\"" /dev/null </dev/null >terminal \
            2>&1
        is "$2" "$(tr -d '\r' <terminal | grep -c "^status $1\$")" 1
    }
    on_terminal 2 "a terminal for OUT" "$postprocess '$data/raw-v1'"
    check "it is said" grep -q 'standard output is a terminal' terminal
    is "and nothing written" "$(grep -c MTPRC terminal)" 0
    on_terminal 2 "also as -" "$postprocess -q '$data/raw-v1' -"
    on_terminal 0 "but not as /dev/stdout" \
        "$postprocess -q '$data/raw-v1' /dev/stdout"
    on_terminal 0 "nor is a file" "$postprocess -q '$data/raw-v1' terminal.p"
    on_terminal 2 "replay of a terminal" "$replay"
    on_terminal 2 "dump of a terminal" "$malloc_trace dump"
else
    skip "a terminal" "no script(1)"
fi
fails_with "an unknown option" 2 \
    "$postprocess" --no-such-option "$data/raw-v1" out
fails_with "JSON and trace both on stdout" 2 \
    "$postprocess" --json - "$data/raw-v1"

check "--drop-sites" "$postprocess" --drop-sites "$data/raw-v1" sites
check "changes nothing" cmp -n 6741 sites v1

# A stripped trace has no process and no date to show.
"$postprocess" -q --strip "$data/raw-v1" stripped
run "$malloc_trace" info stripped
is "a stripped trace" "$status $(grep -cE 'process 0|1970' "$out")" "0 0"
like "says what it lacks" "$out" "left out"

head -c 6000 "$data/raw-v1" >cut
fails_with "a cut trace" 3 "$postprocess" --json cut.json cut cut.out
cp "$err" losses
check "JSON is written" grep -q '"complete": false' cut.json
check "what is missing is said" grep -q incomplete losses
fails_with "the output knows it" 3 "$malloc_trace" info cut.out
tap_end
