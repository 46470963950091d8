# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2034
# Helpers for shell tests: TAP output, a scratch folder, the built products.
#
#     . "$top_srcdir/tests/lib/preload.sh"
#     plan 3                       # or nothing: tap_end prints it
#     ok "what" command args...    # passes if the command succeeds
#     is "$got" "$want" "what"
#     fails_with 2 "what" command args...   # passes on exactly that status
#     skip "what" "why"
#     tap_end                      # last line of the test
#
# $work is a scratch folder, current when this file has been read, removed at
# exit. $minimal, $tracing, $postprocess, $replay, $bump_pipes, $malloc_trace
# are the built products, as absolute names.

: "${top_builddir:=$(pwd)}"
: "${top_srcdir:=$top_builddir}"
minimal=$top_builddir/.libs/libtcmalloc_minimal.so
tracing=$top_builddir/.libs/libtcmalloc_minimal_tracing.so
postprocess=$top_builddir/malloc-trace-replay/postprocess
replay=$top_builddir/malloc-trace-replay/replay
bump_pipes=$top_builddir/malloc-trace-replay/bump-pipes
malloc_trace=$top_builddir/malloc-trace-replay/malloc-trace

tap_planned=
tap_run=0
tap_failed=0

work=$(mktemp -d "${TMPDIR:-/tmp}/mtrtest.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 99' HUP INT TERM
cd "$work" || exit 99

# Nothing of the caller's environment may steer the programs under test.
unset LD_PRELOAD NO_THREAD_CACHE_SWITCH MALLOC_TRACE_LIBRARY
for tap_name in $(env | sed -n 's/^\(TCMALLOC_[A-Z_]*\)=.*/\1/p'); do
    unset "$tap_name"
done

plan() {
    tap_planned=$1
    echo "1..$1"
}

diag() {
    printf '%s\n' "$*" | sed 's/^/# /'
}

# Kept from the last run command: $status, and its output in these files.
out=$work/.out
err=$work/.err

# run COMMAND ARGS...: sets $status, $out and $err.
run() {
    "$@" >"$out" 2>"$err"
    status=$?
    return "$status"
}

pass() {
    tap_run=$((tap_run + 1))
    echo "ok $tap_run - $1"
}

fail() {
    tap_run=$((tap_run + 1))
    tap_failed=$((tap_failed + 1))
    echo "not ok $tap_run - $1"
}

# result STATUS WHAT: a check whose condition the caller has evaluated.
result() {
    if [ "$1" -eq 0 ]; then
        pass "$2"
    else
        fail "$2"
    fi
}

show_last() {
    diag "command: $*"
    diag "status: $status"
    sed 's/^/# stdout: /' "$out" | head -n 20
    sed 's/^/# stderr: /' "$err" | head -n 20
}

ok() {
    tap_what=$1
    shift
    if run "$@"; then
        pass "$tap_what"
    else
        show_last "$@"
        fail "$tap_what"
    fi
}

fails_with() {
    tap_want=$1
    tap_what=$2
    shift 2
    run "$@"
    if [ "$status" -eq "$tap_want" ]; then
        pass "$tap_what"
    else
        diag "want status $tap_want"
        show_last "$@"
        fail "$tap_what"
    fi
}

is() {
    if [ "$1" = "$2" ]; then
        pass "$3"
    else
        diag "got  '$1'"
        diag "want '$2'"
        fail "$3"
    fi
}

# like FILE PATTERN WHAT: a line of FILE matches the extended regular
# expression.
like() {
    if grep -Eq -- "$2" "$1"; then
        pass "$3"
    else
        diag "no line of $1 matches $2"
        sed 's/^/# /' "$1" | head -n 20
        fail "$3"
    fi
}

unlike() {
    if grep -Eq -- "$2" "$1"; then
        diag "a line of $1 matches $2"
        grep -E -- "$2" "$1" | sed 's/^/# /' | head -n 20
        fail "$3"
    else
        pass "$3"
    fi
}

# skip WHAT WHY: one check that cannot be made here.
skip() {
    tap_run=$((tap_run + 1))
    echo "ok $tap_run - $1 # SKIP $2"
}

# skip_all WHY: the whole test cannot be made here.
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

# need COMMAND...: skips the whole test when one is missing.
need() {
    for tap_name in "$@"; do
        command -v "$tap_name" >/dev/null 2>&1 ||
            skip_all "no $tap_name here"
    done
}

# json FILE KEY: the value of a top-level key, as the tools write them (a key
# a line, two blanks before it). Strings keep their quotes.
json() {
    sed -n "s/^  \"$2\": \(.*[^,]\),\{0,1\}\$/\1/p" "$1" | head -n 1
}

# record FILE COMMAND ARGS...: runs the command under the recorder.
record() {
    tap_file=$1
    shift
    LD_PRELOAD="$tracing" TCMALLOC_TRACE_OUTPUT="$tap_file" "$@"
}

# The sanitizers' runtime wants to be first and replaces malloc.
need_preload() {
    if [ "${TCM_SANITIZED:-no}" != no ]; then
        skip_all "the preloaded library is not tested with sanitizers"
    fi
    if [ ! -e "$tracing" ]; then
        skip_all "no shared library in this build"
    fi
}

tap_end() {
    [ -n "$tap_planned" ] || plan "$tap_run"
    [ "$tap_failed" -eq 0 ] && [ "$tap_run" -eq "$tap_planned" ] &&
        [ "$tap_run" -gt 0 ]
    exit $?
}
