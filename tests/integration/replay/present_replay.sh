#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Present bytes from the recording to the replay: postprocess puts them before
# the call that makes the block, also in windows, and replay needs as much memory
# for large blocks as the program did.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$tracing" "$minimal" "$built/recorder/present_target" "$malloc_trace" \
    "$postprocess" "$replay"
need_python
[ "${TCM_SANITIZED:-no}" = no ] ||
    skip_all "the sanitizers' runtime replaces malloc"
cd "$work" || exit 99
target=$built/recorder/present_target

# make WHAT: records it; its trace is t, ordered in p.
make() {
    rm -f t.*
    record t.$suffix "$target" "$1" >out 2>err
    "$postprocess" --quiet --json json t.$suffix p 2>err
    is "$1: complete" "$? $(json json complete)" "0 true"
}

# notes FILE: the present bytes of a processed trace, each with its call.
notes() {
    "$malloc_trace" dump "$1" | sed -n '/present bytes/{
        s/.*present bytes //
        N
        s/\n.* slot [0-9]* = / /
        p
    }'
}

# holds WHAT FILE: nothing in the trace contradicts itself.
holds() {
    "$malloc_trace" info "$2" >info 2>err
    is "$1: holds" "$? $(cat err)" "0 "
}

# grown FILE OPTIONS...: how much the peak of the replay grew by it, in KiB.
grown() {
    grown_trace=$1
    shift
    LD_PRELOAD=$minimal "$replay" --quiet --json rss "$@" "$grown_trace" 2>err
    echo $((($(json rss peak_rss_bytes) - $(json rss start_rss_bytes)) / 1024))
}

# near WHAT GOT WANT: within 3 %.
near() {
    awk -v got="$2" -v want="$3" 'BEGIN {
        off = got - want
        exit !(got != "" && want > 0 && off * off <= want * want * .0009) }'
    near_status=$?
    [ $near_status = 0 ] || note "got $2, want $3"
    result "$1" $near_status
}

make tenth
[ -n "$(notes p)" ] || skip_all "the system does not tell what is resident"

# --- As much memory as the program had ----------------------------------------

for what in tenth live several grow move shrink seldom handed marked; do
    make $what
    holds "$what" p
    near "$what: the replay's peak is the program's" "$(grown p)" \
        "$(LD_PRELOAD=$minimal "$target" $what)"
done
make handed
near "handed, on threads of their own" "$(grown p --threads=real)" \
    "$(LD_PRELOAD=$minimal "$target" handed)"
make tenth
at_least "a mode that writes each page does so" "$(grown p --touch=page)" \
    $((250 << 10))
make calloc
is "a block of which nothing was there" "$(notes p)" "0 calloc(268435456)"
[ "$(grown p)" -lt 1024 ]
result "and nothing is written of it" $?

# Few of them are looked at: the others are like these.
make buffers
is "a note for each of 2,000 buffers" "$(notes p | wc -l)" 2000
is "by their calls" "$(notes p | sort | uniq -c | sort -n | tail -n 2 |
    sed 's/^ *//' | tr '\n' ' ')" "400 32768 calloc(65536) 1600 4096 malloc(65536) "
own_kib=$(LD_PRELOAD=$minimal "$target" buffers)
grown_kib=$(grown p)
note "program $own_kib KiB, replay $grown_kib KiB"
[ $((10 * grown_kib)) -le $((11 * own_kib)) ] &&
    [ $((10 * grown_kib)) -ge $((9 * own_kib)) ]
result "and as much memory as the program has" $?

# --- Where they stand ---------------------------------------------------------

make several
is "a note a block" "$(notes p | grep -c ' malloc(4194304)$')" 64
is "its number in the account" "$(json json present_blocks)" 64
like "malloc-trace info sums them up" info 'present '
"$malloc_trace" info p >info
like "in a line" info '^  present +2[5-7]\.. MiB of the 256 MiB in 64 large'
"$python" "$test_lib/procdump.py" --dump p >want
"$malloc_trace" dump p >got
check "the reader that is made from the document sees the same" cmp want got

make grow
is "a realloc has those of the block as it left it" \
    "$(notes p | grep -c 'realloc(slot 0, ')" "$(notes p | wc -l)"
at_least "also one that left the block where it was" "$(notes p | wc -l)" 200
is "and never more than the size" "$(notes p | tr -d ')' |
    awk '$1 > $NF { n++ } END { print n + 0 }')" 0

# --- Parts --------------------------------------------------------------------

make marked
notes p >all
is "made before, made within, resized within" "$(sed 's/^[0-9]* //' all)" \
    "malloc(268435456)
malloc(67108864)
realloc(slot 0, 536870912) moved"
"$postprocess" --quiet --strip t.$suffix strip
is "--strip keeps them" "$(notes strip)" "$(cat all)"
"$postprocess" --quiet -z --from-mark begin --to-mark end --live-at-end=free \
    t.$suffix window
is "a window keeps them, also in its prologue" "$(notes window)" "$(cat all)"
holds "window" window
"$postprocess" --quiet --from-mark end t.$suffix behind
is "its prologue has those of the realloc" "$(notes behind)" \
    "$(sed -n '2p
        s/realloc(slot 0, \(.*\) moved/realloc(NULL, \1/p' all)"
holds "window behind it" behind
"$postprocess" --quiet --only-threads 1 t.$suffix thread
is "all threads that there are" "$(notes thread)" "$(cat all)"

# --- Where they are not known -------------------------------------------------

make tenth
"$postprocess" - pipe <t.$suffix 2>err
is "what is no file is not read twice" "$? $(notes pipe)" "0 "
like "and that is said" err 'present bytes are left out'
"$postprocess" --quiet - pipe <t.$suffix 2>err
is "but not with --quiet" "$(cat err)" ""

rm -f t.*
record t.$suffix "$target" killed >out 2>err
"$postprocess" --quiet t.$suffix p 2>err
is "killed: what the spool has" "$(notes p | sed 's/^[0-9]* //')" \
    "malloc(268435456)"

export TCMALLOC_TRACE_PRESENT=0
make tenth
is "turned off: none" "$(notes p)" ""
at_least "all is written" "$(grown p)" $((250 << 10))

# --- What they cost -----------------------------------------------------------

# sizes: of the raw and of the ordered trace, before LZ4.
sizes() { echo "$(json json raw_bytes) $(wc -c <p)"; }

make rounds
before=$(sizes)
unset TCMALLOC_TRACE_PRESENT
make rounds
after=$(sizes)
at_least "200 large blocks among 800,000 calls" "$(notes p | wc -l)" 190
echo "$before $after" | awk '{ exit !($1 > 100000 && $2 > 100000 &&
    $3 < 1.01 * $1 && $4 < 1.01 * $2) }'
cost_status=$?
note "bytes without $before, with $after"
result "take less than 1 % of either trace" $cost_status
tap_end
