#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Call sites: each function of a program that asks for memory is found with as
# many blocks as its name says, through all entry points, in threads, children,
# after a kill, in a flight recording, and in libraries that take each other's
# place. Read by a reader of its own, and by nm.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$built/sites/sites_target" "$postprocess" "$malloc_trace"
need_python
need_command nm
target=$built/sites/sites_target
[ -x "$built/sites/.libs/sites_target" ] && target=$built/sites/.libs/sites_target
nm -S "$target" >nm

sites=caller
sited() { TCMALLOC_TRACE_SITES=$sites TCMALLOC_TRACE_UNCOMPRESSED=1 record "$@"; }
right() { # WHAT TIMES FILE...
    tap_name=$1
    shift
    check "$tap_name" "$python" "$here/sites/sites.py" nm "$@"
}
same() { # WHAT READER FILE
    "$python" "$test_lib/$2.py" --dump "$3" >want
    "$malloc_trace" dump "$3" >got
    check "$1" cmp got want
}

check "the program runs" sited t "$target" all
right "each place has its blocks" 1 t
same "dump prints sites as the format's document says" rawdump t
check_trace "with sites" t 3000
"$postprocess" -q t p
same "sites in the processed trace, too" procdump p
is "as many definitions" \
    "$("$malloc_trace" dump p | grep -c ' site [0-9]* returns')" \
    "$("$malloc_trace" dump t | grep -c ' site [0-9]* returns')"

for how in --strip --drop-sites; do
    "$postprocess" -q $how t q
    is "$how leaves them out" "$("$malloc_trace" dump q | grep -c -w -e site -e module)" 0
done
"$postprocess" -q --from 1us t q
"$malloc_trace" dump q >dumped
like "a window has them" dumped ' site [0-9]*$'

record u "$target" all
is "without being asked for there are none" \
    "$("$malloc_trace" dump u | grep -c -w -e site -e module)" 0
TCMALLOC_TRACE_SITES=somewhere record u "$target" all 2>err
like "a mode that is none is told" err 'TCMALLOC_TRACE_SITES is somewhere'
is "and nothing is recorded of sites" \
    "$("$malloc_trace" dump u | grep -c -w -e site -e module)" 0

sited threads "$target" threads
right "four threads" 4 threads

rm -f f.*
sited 'f.%p' "$target" fork
for one in f.*; do
    right "a process and its child: $one" 1 "$one"
done
is "both are recorded" "$(ls f.* | wc -l)" 2

sited killed "$target" kill 2>err
right "after a kill" 1 killed killed.spool

TCMALLOC_TRACE_KEEP_MB=1 sited flight "$target" flight
check "a flight recording can be processed" "$postprocess" -q flight q
"$malloc_trace" dump q | awk '
    / block, /             { site = 0 }
    / site [0-9]* returns/ { known[$5] = 1; next }
    / site [0-9]*$/        { site = $5; next }
    / = /                  { count[site]++ }
    END {
        for (site in count) {
            all += count[site]
            if (site in known)
                defined += count[site]
        }
        print all + 0, defined + 0
    }' >counts
read -r events known <counts
at_least "it has allocations" "$events" 1000
is "all of a known site" "$known" "$events"
"$malloc_trace" dump q | tail -n 1 >end
like "its beginning was not kept" end ' begins_late=1'

"$malloc_trace" record -q --sites=caller -o by_record "$target" all
"$malloc_trace" dump by_record >dumped
like "record --sites=caller" dumped ' site [0-9]* returns'
fails_with "record --sites of no mode" 2 "$malloc_trace" record --sites=x true

# The loader is what the kernel runs, and the program its argument.
loader=$(sed -n 's,.* \(/.*/ld-linux[^ /]*\)$,\1,p' /proc/self/maps | sed 1q)
if [ -x "$loader" ]; then
    check "run by the loader" sited loaded "$loader" "$target" all
    right "run by the loader: each place has its blocks" 1 loaded
    "$malloc_trace" info loaded >out
    like "run by the loader: the program's name" out \
        "program *$(basename "$target"),"
else
    skip "run by the loader" "it was not found"
    loader=
fi

# Libraries that take each other's place, of different size each. The blocks are
# so large that each is a sample, and hardly any of the loader's is.
closed_libraries() { # WHAT [LOADER]
    tap_name=$1
    shift
    sited plugins "$@" "$target" plugins "$work/plugin$small.so" \
        "$work/plugin$large.so" "$work/plugin$small.so" >where
    "$python" "$here/sites/sites.py" --modules plugins >modules
    is "$tap_name" "$(grep plugin modules)" "plugin$small.so 4 $((4 * small))
plugin$large.so 2 $((2 * large))"
}
# One closed, and another opened while calls are dropped, by a recording that is
# read late.
closed_in_gap() { # WHAT
    rm -f slow late full read
    mkfifo slow
    (
        exec <slow
        eventually 60 [ -e full ]
        dd bs=65536 count=16 2>/dev/null
        : >read
        cat
    ) >late &
    TCMALLOC_TRACE_OVERFLOW=drop TCMALLOC_TRACE_BUFFER_MB=1 \
        sited slow "$target" gap "$work/plugin$small.so" \
        "$work/plugin$large.so" "$work/full" "$work/read" >where
    wait $!
    "$python" "$here/sites/sites.py" --modules late >modules
    note "$(tr '\n' ' ' <modules); they lay at $(sort -u where | wc -l) place"
    is "$1: the first has its block" "$(grep "plugin$small" modules)" \
        "plugin$small.so 1 $small"
    # Blocks, and bytes by their size.
    is "$1: the second has its own" \
        "$(awk '/^plugin'$large'/ { print ($2 > 0), $3 / $2 }' modules)" \
        "1 $large"
}
small=40000000 large=64000000
: "${CC:=cc}"
if for size in $small $large; do
    $CC -shared -fPIC -O2 -fno-builtin -DSIZE=$size -Wl,--build-id \
        -o "$work/plugin$size.so" "$here/sites/sites_plugin.c" || exit 1
done >err 2>&1; then
    closed_libraries "closed libraries have their blocks"
    note "they lay at $(sort -u where | wc -l) place"
    # shellcheck disable=SC2086
    closed_libraries "closed libraries have their blocks, run by the loader" \
        $loader
    for sites in caller stack lang sample:1000000; do
        [ $sites = caller ] ||
            closed_libraries "$sites: closed libraries have their blocks"
        closed_in_gap "$sites, a gap"
    done
else
    skip "closed libraries" "no compiler for a library"
fi
tap_end
