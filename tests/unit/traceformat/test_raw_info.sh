#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace info: what it says of traces whose contents are known.
. "$top_srcdir/tests/lib/preload.sh"

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
    is "$(value "$1" "$2")" "$3" "$1: $2 is $3"
}

# Leaves $status, and the files text and errors.
info() {
    run "$malloc_trace" info "$@"
    cp "$out" text
    cp "$err" errors
}

for kind in plain lz4; do
    info --json "$kind.json" "traces/raw/$kind"
    is "$status" 0 "$kind: exit status"
    holds "$kind.json" complete true
    holds "$kind.json" clean_end true
    holds "$kind.json" pid 4711
    holds "$kind.json" random 0123456789abcdef
    holds "$kind.json" executable program
    holds "$kind.json" data 3
    holds "$kind.json" barrier 2
    holds "$kind.json" sample 1
    holds "$kind.json" notice 1
    holds "$kind.json" footer 1
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
ok "text names the events" grep -Eq 'events +27: [0-9]+ mallocs, ' text
# One of them may go on in the next line.
ok "in ten lines" test "$(sed '/^  sizes asked for/,$d' text | wc -l)" -le 11
is "$(awk 'length($0) > 80' text)" "" "of 80 columns"
is "$(sed -n '/^  sizes asked for/,$p' text | sed 1d |
    awk '{ n += $(NF - 2) } END { print n, $(NF - 1) }')" "16 100.0" \
    "and a bar for the sizes, up to all of them"
is "$(wc -c <errors)" 0 "nothing on stderr"
is "$(grep -c 'old kernel' text)" 0 "a notice is no line of them"
cp text short
info -v traces/raw/plain
head -n "$(wc -l <short)" text >beginning
ok "-v begins with the same" cmp -s short beginning
ok "and has the notice" grep -q 'old kernel' text
info --quiet traces/raw/plain
is "$status $(wc -c <text) $(wc -c <errors)" "0 0 0" "--quiet says nothing"

info --json killed.json traces/raw/killed
is "$status" 0 "killed: with its spool the trace is complete"
holds killed.json complete true
holds killed.json clean_end false
holds killed.json from_spool true
holds killed.json spool_buffers 3
holds killed.json events 39
cp traces/raw/killed alone
info --json alone.json alone
is "$status" 3 "killed: without the spool it is not"
holds alone.json complete false
holds alone.json events 13
ok "and that is said" grep -q 'alone: byte [0-9]*: ends without a footer' errors
info traces/spool/alone
is "$status" 0 "a name of which only the spool exists"
info - <traces/spool/alone.spool
is "$status" 0 "a spool on standard input"

head -c 700 traces/raw/plain >shortened
info --json shortened.json shortened
is "$status" 3 "cut: exit status"
holds shortened.json complete false
is "$(wc -l <errors)" 1 "one line says so"
ok "with file and offset" grep -q 'shortened: byte [0-9]*: ends in the middle' errors

for bad in /dev/null "$top_srcdir/COPYING" . missing; do
    info "$bad"
    is "$status $(wc -l <errors) $(wc -c <text)" "1 1 0" \
        "$(basename "$bad"): exit status 1, one line, nothing else"
done
info traces/raw/plain missing
is "$status" 1 "one good and one bad file: exit status 1"
ok "the good one is shown" grep -Eq 'events +27: ' text
info
is "$status" 2 "no file: exit status 2"
info --nonsense x
is "$status" 2 "unknown option: exit status 2"
run "$malloc_trace" info --help
is "$status" 0 "--help"
info --json /dev/full traces/raw/plain
is "$status" 1 "JSON to a full disk: exit status 1"
"$malloc_trace" info traces/raw/plain >/dev/full 2>errors
is "$? $(wc -l <errors)" "1 1" "text to a full disk: exit status 1, one line"
info --json - traces/raw/plain
is "$(head -c 1 text) $(value text events)" "{ 27" \
    "JSON on stdout stands there alone"

info tree/again tree/right tree/left tree/root
is "$status" 0 "four processes"
is "$(head -n 1 text)" "process tree" "the tree comes first"
sed -n '/^process tree/,/^[^ ]*:/s/  0 events.*//p' text >got
cat >want <<'END'
process tree
  10 root
    20 left
    30 right
      30 again
END
sed -i '1i process tree' got
ok "stand in a tree, an exec below what it was" cmp -s got want

info --json golden.json "$top_srcdir/tests/data/raw-v1"
is "$status" 0 "golden trace of version 1"
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
    is "$status" 0 "golden trace of version 1 in frames"
    holds frames.json compressed true
    holds frames.json events 27
else
    info "$top_srcdir/tests/data/raw-v1-frames"
    is "$status" 1 "a trace in frames, without LZ4"
    ok "and that is said" grep -q 'built without' errors
fi

if [ -x "$postprocess" ] && run "$postprocess" traces/raw/plain processed; then
    info --json processed.json processed
    is "$status" 0 "processed: exit status"
    holds processed.json kind processed
    holds processed.json complete true
    holds processed.json executable program
    holds processed.json ops 25
    holds processed.json malloc 4
    info - <processed
    is "$status" 0 "processed: on standard input"
    head -c 300 processed >shortened
    info shortened
    is "$status" 3 "processed: cut"
else
    skip "processed traces" "postprocess does not read the trace"
fi
tap_end
