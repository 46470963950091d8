# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2034
# Harness of shell tests: TAP output, a scratch folder, the built programs and
# libraries by name, recording and checking of a trace. POSIX sh.
#
#     . "$top_srcdir/tests/lib/harness.sh"
#     need "$tracing" "$postprocess"        # else the whole test is skipped
#     check "what" command args...          # passes if the command succeeds
#     fails_with "what" 2 command args...   # passes on exactly that status
#     is "what" "$got" "$want"
#     like "what" file 'regular expression'
#     result "what" $?
#     skip "what" "why"
#     tap_end                               # last line of the test
#
# The name of the check is always the first argument. $work is a scratch folder
# and the current one; it is removed at exit. A test fails if it calls a
# function or command that does not exist, or expands a variable that is not
# set.
set -u

: "${top_builddir:=$(pwd)}"
: "${top_srcdir:=$top_builddir}"
here=$top_srcdir/tests/integration
built=$top_builddir/tests/integration
test_lib=$top_srcdir/tests/lib
# Python scripts import the readers and TAP from this folder.
PYTHONPATH=$test_lib${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
minimal=$top_builddir/.libs/libtcmalloc_minimal.so
tracing=$top_builddir/.libs/libtcmalloc_minimal_tracing.so
# A build for another processor is tested with $TCM_EMULATOR, a command that runs
# its programs, with $CC and $CXX that compile for it, and with the tools of a
# build for this one in $TCM_TOOLS.
emulator=${TCM_EMULATOR:-}
machine=${TCM_MACHINE:-$(uname -m)}
tools=${TCM_TOOLS:-$top_builddir/malloc-trace-replay}
postprocess=$tools/postprocess
replay=$tools/replay
bump_pipes=$tools/bump-pipes
malloc_trace=$tools/malloc-trace
if [ "${TCM_HAVE_LZ4:-yes}" = no ]; then suffix=trace; else suffix=lz4; fi

# The caller's environment must not affect the programs under test.
unset LD_PRELOAD NO_THREAD_CACHE_SWITCH MALLOC_TRACE_LIBRARY
for tap_name in $(env | sed -n 's/^\(TCMALLOC_[A-Z_]*\)=.*/\1/p'); do
    unset "$tap_name"
done

# --- The scratch folder ------------------------------------------------------

# For the loader, a blank or a colon ends a library's name.
case ${TMPDIR:-/tmp} in
*[[:space:]:]*) TMPDIR=/tmp ;;
esac
work=$(mktemp -d "${TMPDIR:-/tmp}/tcm-test.XXXXXX") || exit 99
cleanup() { :; }
trap 'cleanup; sed "s/^/# stderr: /" "$work/.stderr"; rm -rf "$work"' EXIT
trap 'exit 99' HUP INT TERM
cd "$work" || exit 99
# Messages of the test itself, which tap_end checks.
exec 2>"$work/.stderr"

case $minimal in
*[[:space:]:]*)
    ln -s "$top_builddir/.libs" "$work/.libs"
    minimal=$work/.libs/libtcmalloc_minimal.so
    tracing=$work/.libs/libtcmalloc_minimal_tracing.so
    ;;
esac

# --- Requirements ------------------------------------------------------------

have() { command -v "$1" >/dev/null 2>&1; }

# others_can: another user can run the built programs and work in $work once it
# is open; else $why_no_others says why not.
others_can() {
    why_no_others="not root"
    [ "$(id -u)" = 0 ] || return 1
    why_no_others="no setpriv"
    have setpriv || return 1
    why_no_others="no other user reaches the build and temporary folders"
    setpriv --reuid 65534 --regid 65534 --clear-groups \
        test -x "$top_builddir/malloc-trace-replay/malloc-trace" \
        -a -x "$(dirname "$work")" -a -r "$top_srcdir/tests/lib/harness.sh"
}

# Since release 3.17 valgrind writes frames as tests read them.
has_valgrind_frames() {
    valgrind --version 2>/dev/null |
        grep -Eq '^valgrind-3\.(1[7-9]|[2-9][0-9])'
}

# unpacks PROGRAM: the tools were built with the library that reads its files.
unpacks() {
    case $1 in
    gzip) [ "${TCM_HAVE_ZLIB:-yes}" = yes ] ;;
    zstd) [ "${TCM_HAVE_ZSTD:-yes}" = yes ] ;;
    bzip2) [ "${TCM_HAVE_BZ2:-yes}" = yes ] ;;
    lz4) [ "${TCM_HAVE_LZ4:-yes}" = yes ] ;;
    esac
}

# skip_all WHY: skips the whole test.
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

# need FILE...
need() {
    for tap_name; do
        [ -e "$tap_name" ] || skip_all "$(basename "$tap_name") is not there"
    done
}

need_command() {
    for tap_name; do
        have "${tap_name%% *}" || skip_all "no $tap_name here"
    done
}

# make_flags PREFIX: the options of which the build's Makefile has a variable with
# that prefix, for another compiler: without folders, warnings and texts.
make_flags() {
    printf 'include Makefile\nprint-flags:\n\t@echo %s\n' \
        "\$(DEFS) \$(${1}CPPFLAGS) \$(${1}CFLAGS)" |
        (cd "$top_builddir" && MAKEFLAGS='' make -s -f - print-flags) |
        tail -n 1 | tr ' ' '\n' | grep -v -e '"' -e '^-[IW]'
    printf '%s\n' -DTCM_VERSION= -DTCM_ALLOCATOR_NAME=
}

# Not with sanitizers, whose runtime must come first and replaces malloc.
need_preload() {
    [ "${TCM_SANITIZED:-no}" = no ] ||
        skip_all "the preloaded library is not tested with sanitizers"
    [ -e "$tracing" ] || skip_all "no shared library in this build"
}

# The interpreter itself, not a wrapper script that execs it.
python=
! have python3 || python=$(python3 -c 'import os, sys
print(os.path.realpath(sys.executable))')
need_python() { [ -n "$python" ] || skip_all "no python3"; }

# libc_has NAME: the C library has the variable NAME, and this build asks for it.
libc_has() {
    [ "${TCM_NEWER_LIBC:-yes}" = yes ] && "$python" -c 'import ctypes, sys
ctypes.c_int.in_dll(ctypes.CDLL(None), sys.argv[1])' "$1" 2>/dev/null
}

# --- Checks ------------------------------------------------------------------

tap_count=0
tap_failed=0

pass() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1"
}

fail() {
    tap_count=$((tap_count + 1))
    tap_failed=$((tap_failed + 1))
    echo "not ok $tap_count - $1"
}

# skip WHAT WHY: skips one check.
skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

note() { printf '%s\n' "$*" | sed 's/^/# /'; }

# diag [LINES]: prints the first lines of its input as comments.
diag() { sed 's/^/# /' | head -n "${1:-15}"; }

# Status and output of the last command that run, check or fails_with ran.
status=0
out=$work/.out
err=$work/.err
: | tee "$out" >"$err"

# tap_try COMMAND...: sets $tap_status and fills both files.
tap_try() {
    "$@" >"$work/.out" 2>"$work/.err"
    tap_status=$?
    return $tap_status
}

# run COMMAND ARGS...: sets $status, $out and $err without a check.
run() {
    tap_try "$@"
    status=$tap_status
    return $status
}

# show_last STATUS COMMAND...
show_last() {
    note "status: $1"
    shift
    note "command: $*"
    sed 's/^/# stdout: /' "$work/.out" | head -n 20
    sed 's/^/# stderr: /' "$work/.err" | head -n 20
}

# eventually SECONDS COMMAND...: waits until the command succeeds. Fails if it
# has not succeeded after about that time.
eventually() {
    tap_tries=$(($1 * 20))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $tap_tries -gt 0 ] || return 1
        tap_tries=$((tap_tries - 1))
        sleep 0.05
    done
}

# result WHAT STATUS: a check whose condition the caller has evaluated.
result() { if [ "$2" -eq 0 ]; then pass "$1"; else fail "$1"; fi; }

check() {
    tap_what=$1
    shift
    if tap_try "$@"; then
        pass "$tap_what"
    else
        show_last "$tap_status" "$@"
        fail "$tap_what"
    fi
}

# fails_with WHAT STATUS COMMAND ARGS...
fails_with() {
    tap_what=$1
    tap_want=$2
    shift 2
    tap_try "$@"
    if [ "$tap_status" -eq "$tap_want" ]; then
        pass "$tap_what"
    else
        note "want status $tap_want"
        show_last "$tap_status" "$@"
        fail "$tap_what"
    fi
}

# is WHAT GOT WANT
is() {
    if [ "$2" = "$3" ]; then
        pass "$1"
    else
        printf 'got  %s\nwant %s\n' "$2" "$3" | diag 30
        fail "$1"
    fi
}

# at_least WHAT GOT LEAST
at_least() {
    if [ "$2" -ge "$3" ] 2>/dev/null; then
        pass "$1"
    else
        note "got $2, want at least $3"
        fail "$1"
    fi
}

# like WHAT FILE PATTERN: a line of FILE matches the extended regular
# expression.
like() {
    if grep -Eq -- "$3" "$2"; then
        pass "$1"
    else
        note "no line of $2 matches $3"
        diag 20 <"$2"
        fail "$1"
    fi
}

# pass_on FILE: makes a check of each check in another program's TAP, whose last
# line must be "# all done".
pass_on() {
    while read -r tap_line; do
        case $tap_line in
        "ok "*) pass "${tap_line#ok * - }" ;;
        "not ok "*) fail "${tap_line#not ok * - }" ;;
        *) echo "# ${tap_line#\# }" ;;
        esac
    done <"$1"
    grep -q '^# all done' "$1"
    result "all of its checks were made" $?
}

# Prints the plan: the checks that ran. A check whose function does not exist
# leaves only the shell's message, so that these messages fail the test. The
# message is "Permission denied" where a folder of PATH cannot be read.
tap_end() {
    ! grep -Eq -e '\.sh: (line )?[0-9]+: .*(not found|parameter not set|unbound variable)$' \
        -e '\.sh: (line )?[0-9]+: [A-Za-z_][A-Za-z0-9_-]*: Permission denied$' \
        "$work/.stderr" ||
        fail "each command of the test is there"
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ] && [ "$tap_count" -gt 0 ]
    exit $?
}

# --- Queries -----------------------------------------------------------------

# json FILE KEY...: prints values of top-level keys, separated by blanks;
# strings without quotes. Expects the form of the tools: one key on a line,
# after two blanks. Fails if the file is missing.
json() {
    tap_file=$1
    shift
    [ -e "$tap_file" ] && awk -v keys="$*" '
        { last = $0 }
        /^  "/ {
            split($0, part, "\"")
            text = substr($0, length(part[2]) + 7)
            sub(/,$/, "", text)
            gsub(/^"|"$/, "", text)
            value[part[2]] = text
        }
        END {
            if (last != "}")
                exit 1
            n = split(keys, key, " ")
            for (i = 1; i <= n; i++)
                printf "%s%s", key[i] in value ? value[key[i]] : "missing",
                    i < n ? " " : "\n"
        }' "$tap_file" || {
        echo "no JSON in $tap_file"
        return 1
    }
}

# offers TOOL TEXT: tells whether its --help names an option or subcommand.
offers() {
    "$1" --help 2>/dev/null | grep -Eq -- "(^|[[:space:],])$2([[:space:],=]|\$)"
}

# knows VARIABLE: tells whether the library reads an environment variable.
knows() { grep -q "$1" "$tracing"; }

# one_line FILE: tells whether FILE is exactly one line, not empty.
one_line() { [ "$(wc -l <"$1")" = 1 ] && grep -q . "$1"; }

# --- Recording ---------------------------------------------------------------

# record FILE COMMAND ARGS...: runs the command under the recorder, with a time
# limit.
record() {
    tap_file=$1
    shift
    if [ -n "$emulator" ]; then
        # shellcheck disable=SC2086
        set -- $emulator -E LD_PRELOAD="$tracing" \
            -E TCMALLOC_TRACE_OUTPUT="$tap_file" "$@"
    else
        set -- env LD_PRELOAD="$tracing" TCMALLOC_TRACE_OUTPUT="$tap_file" "$@"
    fi
    timeout -k 5 "${record_limit:-120}" "$@"
}

# check_trace NAME FILE LEAST [OPTION]: checks that the trace is complete and
# has at least LEAST events, and that its replay, with the option, ends in the
# state that postprocess found.
check_trace() {
    if ! tap_try timeout 120 "$postprocess" --quiet --json "$work/.post.json" \
        "$2" "$work/.p"; then
        ls -l "$2"* 2>&1 | diag
        diag <"$work/.err"
        fail "$1: postprocess succeeds"
        return 1
    fi
    is "$1: complete, no unmatched free, drop or conflict" \
        "$(json "$work/.post.json" complete unmatched_frees dropped_events \
            order_conflicts)" "true 0 0 0"
    at_least "$1: enough events" "$(json "$work/.post.json" events)" "$3"
    if tap_try timeout 120 "$replay" ${4:-} --json "$work/.replay.json" \
        "$work/.p"; then
        is "$1: replay agrees on operations, peak and live blocks" \
            "$(json "$work/.replay.json" ops peak_live_bytes \
                end_live_objects failed_allocations)" \
            "$(json "$work/.post.json" ops peak_live_bytes live_at_end) 0"
    else
        diag <"$work/.err"
        fail "$1: replay succeeds"
    fi
}

# under HOW PROGRAM ARGS...: runs a program of tests/integration/allocator,
# which prints TAP, under one of the libraries, and makes a check of each of its
# checks. HOW: untraced, quiet, recording, or processes (recording its children
# too). The recording is $work/PROGRAM.$suffix, with the process id before
# $suffix for processes.
under() {
    under_how=$1
    under_program=$2
    shift 2
    [ -x "$built/allocator/$under_program" ] || {
        skip "$under_program $under_how" "not built"
        return
    }
    [ "$under_how" = untraced ] || [ -e "$tracing" ] || {
        skip "$under_program $under_how" "no tracing library"
        return
    }
    case $under_how in
    untraced) set -- LD_PRELOAD="$minimal" "$built/allocator/$under_program" "$@" ;;
    quiet) set -- LD_PRELOAD="$tracing" "$built/allocator/$under_program" "$@" ;;
    processes) set -- LD_PRELOAD="$tracing" \
        TCMALLOC_TRACE_OUTPUT="$work/$under_program.%p.$suffix" \
        "$built/allocator/$under_program" "$@" ;;
    *) set -- LD_PRELOAD="$tracing" \
        TCMALLOC_TRACE_OUTPUT="$work/$under_program.$suffix" \
        "$built/allocator/$under_program" "$@" ;;
    esac
    timeout 200 env "$@" >"$work/tap" 2>"$work/err"
    under_status=$?
    while read -r tap_line; do
        case $tap_line in
        "ok "*"# SKIP"*)
            skip "$under_program $under_how" "${tap_line#*# SKIP }"
            ;;
        "ok "*) pass "$under_program $under_how: ${tap_line#* - }" ;;
        "not ok "*) fail "$under_program $under_how: ${tap_line#* - }" ;;
        "# "*) echo "$tap_line" ;;
        esac
    done <"$work/tap"
    if ! grep -q '^1\.\.' "$work/tap" || [ $under_status -ge 2 ]; then
        diag <"$work/err"
        fail "$under_program $under_how: runs to its end ($under_status)"
    fi
}
