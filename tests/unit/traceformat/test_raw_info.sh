#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace info: its output for traces with known contents.
. "$top_srcdir/tests/lib/harness.sh"

make_corpus=$top_builddir/tests/fuzz/make_raw_corpus
[ -x "$make_corpus" ] && [ -x "$malloc_trace" ] || skip_all "not built"
mkdir traces tree || exit 99
run "$make_corpus" traces || exit 99
run "$make_corpus" --tree tree || exit 99

# value FILE KEY: the first value of KEY in JSON (a value a line).
value() {
    sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1" |
        head -n 1
}

# holds FILE KEY WANT
holds() {
    is "$1: $2 is $3" "$(value "$1" "$2")" "$3"
}

# Leaves $status, and the files text and errors.
info() {
    run "$malloc_trace" info "$@"
    cp "$out" text
    cp "$err" errors
}

for kind in plain lz4; do
    info --json "$kind.json" "traces/raw/$kind"
    is "$kind: exit status" "$status" 0
    holds "$kind.json" complete true
    holds "$kind.json" clean_end true
    holds "$kind.json" pid 4711
    holds "$kind.json" random 0123456789abcdef
    holds "$kind.json" executable program
    holds "$kind.json" events 27
    holds "$kind.json" malloc 4
    holds "$kind.json" reallocarray 2
    holds "$kind.json" posix_memalign 2
    holds "$kind.json" free 3
    holds "$kind.json" failed_allocations 2
    holds "$kind.json" untraced_frees 6
    holds "$kind.json" threads 2
    holds "$kind.json" mark 2
    holds "$kind.json" damaged_places 0
done
info traces/raw/plain
check "text names the events" grep -Eq 'events +27: [0-9]+ mallocs, ' text
# One of them may go on in the next line.
check "in ten lines" test "$(sed '/^  sizes asked for/,$d' text | wc -l)" -le 11
is "of 80 columns" "$(awk 'length($0) > 80' text)" ""
is "and a bar for the sizes, up to all of them" \
    "$(sed -n '/^  sizes asked for/,$p' text | sed 1d |
    awk '{ n += $(NF - 2) } END { print n, $(NF - 1) }')" "16 100.0"
is "nothing on stderr" "$(wc -c <errors)" 0
is "a notice is no line of them" "$(grep -c 'old kernel' text)" 0
cp text short
info -v traces/raw/plain
head -n "$(wc -l <short)" text >beginning
check "-v begins with the same" cmp -s short beginning
check "and has the notice" grep -q 'old kernel' text
info --quiet traces/raw/plain
is "--quiet says nothing" "$status $(wc -c <text) $(wc -c <errors)" "0 0 0"

info --json killed.json traces/raw/killed
is "killed: with its spool the trace is complete" "$status" 0
holds killed.json complete true
holds killed.json clean_end false
holds killed.json from_spool true
holds killed.json spool_buffers 3
holds killed.json events 39
cp traces/raw/killed alone
info --json alone.json alone
is "killed: without the spool it is not" "$status" 3
holds alone.json complete false
holds alone.json events 13
check "and that is said" grep -q 'alone: byte [0-9]*: ends without a footer' \
    errors
info traces/spool/alone
is "a name of which only the spool exists" "$status" 0
info - <traces/spool/alone.spool
is "a spool on standard input" "$status" 0

head -c 700 traces/raw/plain >shortened
info --json shortened.json shortened
is "cut: exit status" "$status" 3
holds shortened.json complete false
is "one line says so" "$(wc -l <errors)" 1
check "with file and offset" grep -q \
    'shortened: byte [0-9]*: ends in the middle' errors

for bad in /dev/null "$top_srcdir/COPYING" . missing; do
    info "$bad"
    is "$(basename "$bad"): exit status 1, one line, nothing else" \
        "$status $(wc -l <errors) $(wc -c <text)" "1 1 0"
done
info traces/raw/plain missing
is "one good and one bad file: exit status 1" "$status" 1
check "the good one is shown" grep -Eq 'events +27: ' text
info
is "no file: exit status 2" "$status" 2
info --nonsense x
is "unknown option: exit status 2" "$status" 2
run "$malloc_trace" info --help
is "--help" "$status" 0
info --json /dev/full traces/raw/plain
is "JSON to a full disk: exit status 1" "$status" 1
"$malloc_trace" info traces/raw/plain >/dev/full 2>errors
is "text to a full disk: exit status 1, one line" "$? $(wc -l <errors)" "1 1"
info --json - traces/raw/plain
is "JSON on stdout stands there alone" \
    "$(head -c 1 text) $(value text events)" "{ 27"

info tree/again tree/right tree/left tree/root
is "four processes" "$status" 0
is "the tree comes first" "$(head -n 1 text)" "process tree"
sed -n '/^process tree/,/^[^ ]*:/s/  0 events.*//p' text >got
cat >want <<'END'
process tree
  10 root
    20 left
    30 right
      30 again
END
sed -i '1i process tree' got
check "stand in a tree, an exec below what it was" cmp -s got want

info --json golden.json "$top_srcdir/tests/data/raw-v1"
is "golden trace of version 1" "$status" 0
holds golden.json complete true
holds golden.json events 2590
holds golden.json malloc 1041
holds golden.json calloc 3
holds golden.json realloc 293
holds golden.json aligned_alloc 166
holds golden.json free 1087
holds golden.json requested_bytes 1645100
holds golden.json threads 4
if [ "${TCM_HAVE_LZ4:-yes}" = yes ]; then
    info --json frames.json "$top_srcdir/tests/data/raw-v1-frames"
    is "golden trace of version 1 in frames" "$status" 0
    holds frames.json compressed true
    holds frames.json events 27
else
    info "$top_srcdir/tests/data/raw-v1-frames"
    is "a trace in frames, without LZ4" "$status" 1
    check "and that is said" grep -q 'built without' errors
fi

if [ -x "$postprocess" ] && run "$postprocess" traces/raw/plain processed; then
    info --json processed.json processed
    is "processed: exit status" "$status" 0
    holds processed.json kind processed
    holds processed.json complete true
    holds processed.json executable program
    holds processed.json ops 25
    holds processed.json malloc 4
    info - <processed
    is "processed: on standard input" "$status" 0
    head -c 300 processed >shortened
    info shortened
    is "processed: cut" "$status" 3
else
    skip "processed traces" "postprocess does not read the trace"
fi
tap_end
