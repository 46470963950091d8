#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The Rust crate: built without network, with the archive of the build; a
# program with it as its global allocator has the calls that it counted itself
# in its trace.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$malloc_trace"
libs=$top_builddir/.libs
[ -e "$libs/libtcmalloc_minimal_tracing.a" ] || skip_all "no static library"
export CARGO_HOME="$work/home" CARGO_TARGET_DIR="$work/target"
have cargo || skip_all "no cargo"
run cargo --version || skip_all "cargo does not run"
run rustc --version || skip_all "rustc does not run"
minor=$(sed -n 's/^rustc 1\.\([0-9]*\)\..*/\1/p' "$out")
[ "${minor:-0}" -ge 63 ] || skip_all "rustc is older than 1.63"
cp -r "$top_srcdir/src/bindings/rust" crate && chmod -R u+w crate || exit 99
needed=-llz4
[ "${TCM_HAVE_LZ4:-yes}" = yes ] || needed=

crate() { # COMMAND...
    (cd crate && cargo "$@")
}

fails_with "a folder without the archive" 101 \
    env MALLOC_TRACE_LIB_DIR="$work/crate" \
    sh -c 'cd crate && cargo build --offline'
like "which is said" "$err" \
    "malloc_trace: no libtcmalloc_minimal_tracing.a in .*/crate"

export MALLOC_TRACE_LIB_DIR="$libs" MALLOC_TRACE_LIBS="$needed"
check "the crate and its example are built" \
    crate build --offline --example counts
is "without a warning" "$(grep -c warning "$err")" 0
counts=$work/target/debug/examples/counts

# recorded TRACE : prints names, counts and bytes of the calls between the marks
recorded() {
    "$malloc_trace" dump "$1" | sed -n '/"calls begin"/,/"calls end"/p' |
        sed -nE 's/.* ([a-z_]+)\((#[0-9]+(, )?)?([0-9]*).*/\1 \4/p' |
        awk '{ n[$1]++; if ($1 !~ /^free/) bytes[$1] += $2 }
            END { for (i in n) print i, n[i], bytes[i] + 0 }' | LC_ALL=C sort
}

# counted WHAT TRACE : the program's counts, in $out, are those of TRACE
counted() {
    is "$1: its file" "$(sed -n 's/^file //p' "$out")" "$PWD/$2"
    is "$1: calls of each kind, and their bytes" "$(recorded "$2")" \
        "$(sed /^file/d "$out" | LC_ALL=C sort)"
    check "$1: the trace is whole" "$postprocess" -q "$2" "$2.processed"
}

check "a program that records itself" "$counts" own
counted "a program that records itself" own
check "one that the environment records" \
    env TCMALLOC_TRACE_OUTPUT="$PWD/from_start" "$counts"
counted "one that the environment records" from_start

unset MALLOC_TRACE_LIB_DIR MALLOC_TRACE_LIBS
if have pkg-config; then
    sed "s|^preloaddir=.*|preloaddir=$(printf %s "$libs" | sed 's/ /\\\\ /g')|" \
        "$top_builddir/libtcmalloc_minimal_tracing.pc" \
        >libtcmalloc_minimal_tracing.pc
    PKG_CONFIG_PATH=$work
    export PKG_CONFIG_PATH
    rm "$counts"
    check "pkg-config finds the archive, too" \
        crate build --offline --example counts
    check "for a program that runs" "$counts" second
else
    skip "pkg-config finds the archive, too" "no pkg-config"
fi
tap_end
