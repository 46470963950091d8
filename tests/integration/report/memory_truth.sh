#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace memory names the blocks that keep memory from shrinking: mixes of
# long-lived and passing blocks (memory_mix.c), which count themselves what
# their functions hold, and what is given back when the planted ones are freed.
# Ten mixes with LONG=1, otherwise four.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need_python
mix=$built/report/memory_mix
need "$mix"
[ -r /proc/self/smaps_rollup ] || skip_all "no /proc/self/smaps_rollup"
[ "$(getconf PAGESIZE)" = 4096 ] || skip_all "pages are not those of the mixes"
[ "${TCM_HAVE_LIBDW:-no}" = yes ] || skip_all "functions have no names"

mixes="page two thread age"
[ "${LONG:-0}" != 1 ] ||
    mixes="$mixes huge classes peak grown aligned large"
for name in $mixes; do
    check "$name: is recorded" "$malloc_trace" record -q --sites=stack \
        -o "$name.$suffix" -- "$mix" "$name" keep
    for library in "" "$minimal"; do
        for what in keep drop; do
            LD_PRELOAD=$library "$mix" "$name" $what \
                >"${library:+own.}$what" || fail "$name: runs: $what"
        done
    done
    check "$name: is explained" "$malloc_trace" memory -q --json=m.json \
        -a glibc -a "own=$minimal" "$name.$suffix"
    "$python" "$here/report/memory_truth.py" "$name" m.json glibc keep drop \
        own own.keep own.drop >tap 2>"$err" || diag <"$err"
    pass_on tap
done

# --- What allocators say of themselves ----------------------------------------

"$malloc_trace" record -q -o "stats.$suffix" -- "$mix" classes keep >said ||
    fail "classes: is recorded"
there() {
    [ -z "$(LD_PRELOAD=$1 "$replay" --help 2>&1 >/dev/null)" ]
}
for kind in glibc own jemalloc; do
    case $kind in
    glibc) library= ;;
    own) library=$minimal ;;
    *) library=libjemalloc.so.2 ;;
    esac
    if ! there "$library"; then
        skip "$kind: tells of itself" "not installed"
        continue
    fi
    check "$kind: tells of itself" env MALLOC_CONF=narenas:1 \
        LD_PRELOAD="$library" "$replay" -q \
        --threads=none --memory=m.json --allocator-stats=s.json "stats.$suffix"
    check "$kind: addresses" env MALLOC_CONF=narenas:1 \
        LD_PRELOAD="$library" "$replay" -q \
        --threads=none --log log "stats.$suffix"
    "$python" "$here/report/memory_stats.py" $kind m.json s.json log >tap \
        2>"$err" || diag <"$err"
    pass_on tap
done
tap_end
