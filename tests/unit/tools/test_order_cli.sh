#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# postprocess from outside: the golden traces, ways of giving it input and
# output, JSON, exit statuses.
. "$top_srcdir/tests/lib/preload.sh"
data=$top_srcdir/tests/data

run "$postprocess" --json v1.json "$data/raw-v1" v1
is "$status" 0 "the golden raw trace"
cp "$err" summary
cp "$out" nothing
# What follows its operation blocks may grow.
ok "gives the golden processed trace" cmp -n 6741 v1 "$data/processed-v1"
ok "and the one with an index" cmp -n 6741 v1 "$data/processed-v1-index"
ok "a summary is on stderr" grep -q 'of an event: median' summary
is "$(wc -c <nothing | tr -d ' ')" 0 "nothing on stdout"

for key in complete clean_end events mallocs memaligns reallocs \
    requested_bytes peak_live_bytes frees failed_allocations unmatched_frees \
    untraced_frees dropped_events threads live_at_end order_conflicts ops \
    raw_bytes file_bytes out_bytes median_interval_ns widest_interval_ns \
    cross_thread_frees waited_for_allocation peak_live_error_bytes; do
    grep -q "^ *\"$key\": [a-z0-9]*,*\$" v1.json || echo "$key"
done >missing
is "$(cat missing)" "" "JSON has all keys"
value() {
    sed -n "s/^ *\"$1\": \([a-z0-9]*\),*\$/\1/p" v1.json
}
is "$(value events)" "$(($(value mallocs) + $(value memaligns) + \
    $(value reallocs) + $(value frees) + $(value failed_allocations)))" \
    "events are the sum of their kinds"
is "$(value ops)" "$(($(value events) - $(value failed_allocations) - \
    $(value unmatched_frees)))" "ops are those in the processed trace"
is "$(value out_bytes)" "$(wc -c <v1 | tr -d ' ')" "out_bytes"
is "$(value file_bytes)" "$(wc -c <"$data/raw-v1" | tr -d ' ')" "file_bytes"

"$postprocess" --quiet "$data/raw-v1" >stdout 2>silence
ok "to stdout" cmp stdout v1
is "$(cat silence)" "" "--quiet says nothing"
"$postprocess" --quiet - - <"$data/raw-v1" >stdin
ok "from stdin" cmp stdin v1
cat "$data/raw-v1" | "$postprocess" --quiet /dev/stdin /dev/stdout | cat >piped
ok "from a pipe to a pipe" cmp piped v1
mkfifo fifo
cat fifo >fromfifo &
"$postprocess" --quiet "$data/raw-v1" fifo
wait $!
ok "to a FIFO" cmp fromfifo v1
if [ "${TCM_HAVE_LZ4:-yes}" != no ]; then
    run "$postprocess" --quiet "$data/raw-v1-frames" frames
    is "$status" 0 "LZ4 frames"
else
    skip "LZ4 frames" "built without lz4"
fi
ok "JSON on stdout" sh -c '"$1" --quiet --json - "$2" o | grep -q clean_end' \
    sh "$postprocess" "$data/raw-v1"

cp "$data/raw-v1" same
fails_with 2 "input and output are one file" "$postprocess" same same
ok "which stays as it was" cmp same "$data/raw-v1"
fails_with 1 "a processed trace is no raw one" "$postprocess" v1 out
is "$(grep -c 'v1.*processed' "$err")" 1 "and the message says so"
fails_with 1 "no such file" "$postprocess" nowhere out
fails_with 1 "an output that cannot be opened" \
    "$postprocess" "$data/raw-v1" nowhere/out
if [ -c /dev/full ]; then
    fails_with 1 "a full disk" "$postprocess" "$data/raw-v1" /dev/full
fi
fails_with 2 "no operand" "$postprocess"
fails_with 2 "three operands" "$postprocess" a b c
if command -v script >/dev/null 2>&1; then
    # on_terminal STATUS WHAT COMMAND: with a terminal for stdin and stdout.
    on_terminal() {
        script -qec "$3; echo \"status \$?\"" /dev/null </dev/null >terminal \
            2>&1
        is "$(tr -d '\r' <terminal | grep -c "^status $1\$")" 1 "$2"
    }
    on_terminal 2 "a terminal for OUT" "$postprocess '$data/raw-v1'"
    ok "it is said" grep -q 'standard output is a terminal' terminal
    is "$(grep -c MTPRC terminal)" 0 "and nothing written"
    on_terminal 2 "also as -" "$postprocess -q '$data/raw-v1' -"
    on_terminal 0 "but not as /dev/stdout" \
        "$postprocess -q '$data/raw-v1' /dev/stdout"
    on_terminal 0 "nor is a file" "$postprocess -q '$data/raw-v1' terminal.p"
    on_terminal 2 "replay of a terminal" "$replay"
    on_terminal 2 "dump of a terminal" "$malloc_trace dump"
else
    skip "a terminal" "no script(1)"
fi
fails_with 2 "an unknown option" "$postprocess" --no-such-option "$data/raw-v1" out
fails_with 2 "JSON and trace both on stdout" \
    "$postprocess" --json - "$data/raw-v1"

# What is hidden works as ever.
ok "--drop-sites" "$postprocess" --drop-sites "$data/raw-v1" sites
ok "changes nothing" cmp -n 6741 sites v1
run "$postprocess" --help
is "$(grep -c sites "$out")" 0 "and is not shown"

# A stripped trace has no process and no date to show.
"$postprocess" -q --strip "$data/raw-v1" stripped
run "$malloc_trace" info stripped
is "$status $(grep -cE 'process 0|1970' "$out")" "0 0" "a stripped trace"
like "$out" "left out" "says what it lacks"

head -c 6000 "$data/raw-v1" >cut
fails_with 3 "a cut trace" "$postprocess" --json cut.json cut cut.out
cp "$err" losses
ok "JSON is written" grep -q '"complete": false' cut.json
ok "what is missing is said" grep -q incomplete losses
fails_with 3 "the output knows it" "$malloc_trace" info cut.out
tap_end
