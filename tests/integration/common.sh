# SPDX-License-Identifier: BSD-3-Clause
# Shell functions of the integration tests: TAP output, a scratch folder, the
# built products by name, recording and checking of one trace. POSIX sh.
# shellcheck shell=sh

: "${top_srcdir:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${top_builddir:=$(pwd)}"
here=$top_srcdir/tests/integration
built=$top_builddir/tests/integration
lib=$top_builddir/.libs/libtcmalloc_minimal.so
tlib=$top_builddir/.libs/libtcmalloc_minimal_tracing.so
tools=$top_builddir/malloc-trace-replay
post=$tools/postprocess
replay=$tools/replay
pump=$tools/bump-pipes
mtrace=$tools/malloc-trace

# A recording of this very shell, or settings of the caller, must not leak in.
unset LD_PRELOAD TCMALLOC_TRACE_OUTPUT TCMALLOC_TRACE_OWNER \
    TCMALLOC_TRACE_UNCOMPRESSED TCMALLOC_TRACE_START TCMALLOC_TRACE_SITES \
    TCMALLOC_TRACE_OVERFLOW TCMALLOC_TRACE_BUFFER_MB TCMALLOC_TRACE_LIMIT_MB \
    TCMALLOC_TRACE_KEEP_MB TCMALLOC_TRACE_CONTROL TCMALLOC_TRACE_STATS \
    NO_THREAD_CACHE_SWITCH TCMALLOC_HEAP_LIMIT_MB TCMALLOC_RELEASE_RATE \
    TCMALLOC_AGGRESSIVE_DECOMMIT TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES

work=$(mktemp -d "${TMPDIR:-/tmp}/tcm-test.XXXXXX") || exit 99
# The loader takes a blank or a colon for the end of a library's name.
case $lib in
*[[:space:]:]*)
    ln -s "$top_builddir/.libs" "$work/.libs"
    lib=$work/.libs/libtcmalloc_minimal.so
    tlib=$work/.libs/libtcmalloc_minimal_tracing.so
    ;;
esac
cleanup() { :; }
trap 'cleanup; rm -rf "$work"' EXIT
trap 'exit 99' HUP INT TERM

tap_count=0
tap_failed=0

ok() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1"
}

not_ok() {
    tap_count=$((tap_count + 1))
    tap_failed=$((tap_failed + 1))
    echo "not ok $tap_count - $1"
}

skip() { # NAME REASON
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

diag() { sed 's/^/# /' | head -n "${1:-15}"; }

# check NAME COMMAND...: passes if COMMAND does; its output becomes comments.
check() {
    check_name=$1
    shift
    if "$@" >"$work/.check" 2>&1; then
        ok "$check_name"
    else
        not_ok "$check_name"
        { echo "failed: $*"; cat "$work/.check"; } | diag
    fi
}

is() { # NAME GOT WANT
    if [ "$2" = "$3" ]; then
        ok "$1"
    else
        not_ok "$1"
        printf 'got  %s\nwant %s\n' "$2" "$3" | diag 30
    fi
}

at_least() { # NAME GOT LEAST
    if [ "$2" -ge "$3" ] 2>/dev/null; then
        ok "$1"
    else
        not_ok "$1"
        printf 'got %s\nwant at least %s\n' "$2" "$3" | diag
    fi
}

done_testing() {
    echo "1..$tap_count"
    [ "$tap_failed" = 0 ]
    exit $?
}

have() { command -v "$1" >/dev/null 2>&1; }

need() { # files that the test cannot do without
    for need_file; do
        [ -e "$need_file" ] || skip_all "$(basename "$need_file") is not there"
    done
}

# The interpreter itself, not a wrapper script that execs it.
if have python3; then
    python=$(python3 -c 'import os, sys
print(os.path.realpath(sys.executable))')
else
    python=
fi
need_python() { [ -n "$python" ] || skip_all "no python3"; }

if [ "${TCM_HAVE_LZ4:-yes}" = no ]; then suffix=trace; else suffix=lz4; fi

# json FILE KEY...: values of top-level keys, separated by blanks.
json() {
    "$python" - "$@" <<'PY'
import json, sys
try:
    with open(sys.argv[1]) as f:
        d = json.load(f)
except (OSError, ValueError):
    print("no JSON in " + sys.argv[1])
    sys.exit(1)
def text(v):
    return str(v).lower() if isinstance(v, bool) or v is None else str(v)
print(" ".join(text(d[k]) if k in d else "missing" for k in sys.argv[2:]))
PY
}

# record OUT CMD...: runs CMD under the tracing library. What hangs is killed.
record() {
    record_out=$1
    shift
    timeout -k 5 "${record_limit:-120}" env LD_PRELOAD="$tlib" \
        TCMALLOC_TRACE_OUTPUT="$record_out" "$@"
}

# check_trace NAME FILE LEAST: the trace is whole, holds at least LEAST events,
# and its replay ends with the state that its order says.
check_trace() {
    ct_name=$1
    ct_file=$2
    ct_least=$3
    if ! timeout 120 "$post" --quiet --json "$work/.post.json" "$ct_file" \
        "$work/.p" 2>"$work/.err"; then
        not_ok "$ct_name: postprocess succeeds"
        { ls -l "$ct_file"*; cat "$work/.err"; } 2>&1 | diag
        return 1
    fi
    ct_got=$(json "$work/.post.json" complete unmatched_frees dropped_events \
        order_conflicts)
    is "$ct_name: complete, no unmatched free, drop or conflict" \
        "$ct_got" "true 0 0 0"
    at_least "$ct_name: enough events" \
        "$(json "$work/.post.json" events)" "$ct_least"
    if timeout 120 "$replay" --json "$work/.replay.json" "$work/.p" \
        >"$work/.out" 2>"$work/.err"; then
        is "$ct_name: replay agrees on operations, peak and live blocks" \
            "$(json "$work/.replay.json" ops peak_live_bytes \
                end_live_objects failed_allocations)" \
            "$(json "$work/.post.json" ops peak_live_bytes live_at_end) 0"
    else
        not_ok "$ct_name: replay succeeds"
        diag <"$work/.err"
    fi
}

# under HOW PROGRAM ARGS...: runs a built program that speaks TAP under one of
# the libraries (HOW: untraced, quiet, recording, or processes: recording its
# children too); each of its checks becomes one of ours. The recording is
# $work/PROGRAM.$suffix, those of processes have the process id before that.
under() {
    under_how=$1
    under_program=$2
    shift 2
    [ -x "$built/$under_program" ] || {
        skip "$under_program $under_how" "not built"
        return
    }
    case $under_how in
    untraced) set -- env LD_PRELOAD="$lib" "$built/$under_program" "$@" ;;
    quiet) set -- env LD_PRELOAD="$tlib" "$built/$under_program" "$@" ;;
    processes) set -- env LD_PRELOAD="$tlib" \
        TCMALLOC_TRACE_OUTPUT="$work/$under_program.%p.$suffix" \
        "$built/$under_program" "$@" ;;
    *) set -- env LD_PRELOAD="$tlib" \
        TCMALLOC_TRACE_OUTPUT="$work/$under_program.$suffix" \
        "$built/$under_program" "$@" ;;
    esac
    timeout 200 "$@" >"$work/tap" 2>"$work/err"
    under_status=$?
    while read -r line; do
        case $line in
        "ok "*"# SKIP"*) skip "$under_program $under_how" "${line#*# SKIP }" ;;
        "ok "*) ok "$under_program $under_how: ${line#* - }" ;;
        "not ok "*) not_ok "$under_program $under_how: ${line#* - }" ;;
        "# "*) echo "$line" ;;
        esac
    done <"$work/tap"
    if ! grep -q '^1\.\.' "$work/tap" || [ $under_status -ge 2 ]; then
        not_ok "$under_program $under_how: runs to its end ($under_status)"
        diag <"$work/err"
    fi
}

# pass_on FILE: each check of another program's TAP becomes one of ours; its last
# line has to be "# all done".
pass_on() {
    while read -r line; do
        case $line in
        "ok "*) ok "${line#ok * - }" ;;
        "not ok "*) not_ok "${line#not ok * - }" ;;
        *) echo "# ${line#\# }" ;;
        esac
    done <"$1"
    grep -q '^# all done' "$1"
    is "all of its checks were made" $? 0
}

# offers TOOL TEXT: whether its --help names an option or subcommand.
offers() { "$1" --help 2>/dev/null | grep -Eq -- "(^|[[:space:],])$2([[:space:],=]|\$)"; }

# knows VARIABLE: whether the library looks at a variable of the environment.
knows() { grep -q "$1" "$tlib"; }

# one_line FILE: exactly one line, not empty.
one_line() { [ "$(wc -l <"$1")" = 1 ] && grep -q . "$1"; }
