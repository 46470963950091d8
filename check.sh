#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds and tests everything: the usual build and its tests, the tests of the
# parts under sanitizers with assertions, a build without LZ4, distribution
# and installation, and the quick start. --long adds the long stress, kill and
# fuzz runs (of each importer of foreign traces FUZZ_SECONDS, 1200, and of each
# other fuzz target a twentieth), the thread sanitizer, the whole of distcheck,
# aarch64 under qemu and, as root, the newest compilers, this script and the
# quick start in Debian's oldest, stable and testing releases
# (tests/releases.sh). The last line of the output is "N passed, N failed", with
# ", N skipped" if any; the exit status is 0 if none failed.
set -u
long=no
# The tests do without: a fuzz target that sees them leaves its corpus.
fuzz_seconds=${FUZZ_SECONDS:-1200}
fuzz_seed=${FUZZ_SEED:-$(date +%s)}
unset FUZZ_SECONDS FUZZ_SEED FUZZ_RUNS FUZZ_FOUND
case ${1:-} in
'') ;;
--long) long=yes ;;
--help)
    echo "Usage: ./check.sh [--long]"
    sed -n '3,12s/^# //p' "$0"
    exit 0
    ;;
*)
    echo "check.sh: unknown argument $1 (try --help)" >&2
    exit 2
    ;;
esac

top=$(cd "$(dirname "$0")" && pwd -P)
. "$top/tests/lib/prepare.sh"

passed=0
failed=0
skipped=0
failures=
counter=
first=
running= # name of the tests that run

verdict() {
    stop_counter
    [ -z "$failures" ] || printf '\nFailed:%s\n' "$failures"
    printf '\n'
    if [ -n "$first" ] && [ "$place_is_temporary" = no ]; then
        where_programs "$first"
    fi
    printf '%s seconds\n' "$(seconds)"
    printf '%s passed, %s failed' "$passed" "$failed"
    [ "$skipped" -eq 0 ] || printf ', %s skipped' "$skipped"
    printf '\n'
    remove_place
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
    exit $?
}

# Ends with what failed so far, also of tests that were running.
interrupted() {
    failed=$((failed + 1))
    failures="$failures
  interrupted"
    [ -z "$running" ] || list_failed "$running"
    verdict
}

# count WHAT STATUS: one result.
count() {
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok: $1"
    else
        failed=$((failed + 1))
        failures="$failures
  $1"
        echo "FAILED: $1"
    fi
}

skip() {
    skipped=$((skipped + 1))
    echo "skipped: $1: $2"
}

# Tests that passed and failed so far, while they run: on a terminal every
# second in one line, else every half minute.
count_tests() {
    count_began=$(seconds)
    count_turn=0
    while sleep 1 && kill -0 $$ 2>/dev/null; do
        count_turn=$((count_turn + 1))
        [ -t 1 ] || [ $((count_turn % 30)) -eq 0 ] || continue
        count_text=$(awk '/^PASS: / { pass++ } /^(FAIL|ERROR|XPASS): / { fail++ }
            END { printf "%d passed, %d failed", pass, fail }' "$1")
        if [ -t 1 ]; then
            printf '\r  %s, %d s ' "$count_text" $(($(seconds) - count_began))
        else
            printf '  %s, %d s\n' "$count_text" $(($(seconds) - count_began))
        fi
    done
}

stop_counter() {
    [ -n "$counter" ] || return 0
    kill "$counter" 2>/dev/null
    wait "$counter" 2>/dev/null
    counter=
    # The next output takes its line.
    [ ! -t 1 ] || printf '\r%50s\r' ''
}

# total LOG NAME: the number behind "# NAME:" in the summary of make check.
total() {
    sed -n "s/^# $2: *\([0-9]*\).*/\1/p" "$1" | tail -n 1
}

# list_failed NAME: adds the failed tests of $tests_log to the failures.
list_failed() {
    failures="$failures
$(grep -E '^(FAIL|ERROR|XPASS): ' "$tests_log" | sed "s/^/  $1: /")"
}

# tests NAME MAKE_ARGUMENTS...: make check in $built. Each TAP line counts. Many
# tests wait for a while: two processors run three of them.
tests() {
    tests_name=$1
    shift
    tests_log=$build_root/check-$tests_name.log
    tests_began=$(seconds)
    : >"$tests_log"
    count_tests "$tests_log" &
    counter=$!
    running=$tests_name
    (cd "$built" && make -k -j$(($(jobs) * 3 / 2)) check "$@") \
        >"$tests_log" 2>&1
    tests_status=$?
    running=
    stop_counter
    tests_pass=$(total "$tests_log" PASS)
    if [ -z "$tests_pass" ]; then
        tail -n 30 "$tests_log"
        count "make check ($tests_name)" 1
        return
    fi
    tests_fail=$(($(total "$tests_log" FAIL) + $(total "$tests_log" ERROR) + \
        $(total "$tests_log" XPASS)))
    tests_skip=$(total "$tests_log" SKIP)
    passed=$((passed + tests_pass))
    skipped=$((skipped + tests_skip))
    echo "$tests_name: $tests_pass passed, $tests_fail failed," \
        "$tests_skip skipped, $(($(seconds) - tests_began)) s"
    [ "$tests_skip" -eq 0 ] || grep '^SKIP: ' "$tests_log" | head -n 40
    if [ "$tests_fail" -ne 0 ]; then
        failed=$((failed + tests_fail))
        grep -E '^(FAIL|ERROR|XPASS): ' "$tests_log" | head -n 60
        list_failed "$tests_name"
        show_logs
    elif [ "$tests_status" -ne 0 ]; then
        count "make check ($tests_name)" 1
        tail -n 30 "$tests_log"
    fi
}

# The output of the tests that failed.
show_logs() {
    (
        cd "$built" || exit
        grep -lE '^:global-test-result: (FAIL|ERROR)' -r --include='*.trs' . |
            head -n 10 | while read -r trs; do
            echo "--- ${trs%.trs}"
            # Comments come before the check that they explain.
            awk '/^#/ { if (n < 20) why[n++] = $0; next }
                 /^not ok|^Bail out|^ERROR|Sanitizer|runtime error/ {
                     for (i = 0; i < n; i++) print why[i]; print }
                 !/^(PASS|FAIL):/ { n = 0 }' "${trs%.trs}.log" | head -n 60
        done
    )
}

# all_tests: the names in TESTS of $built.
all_tests() {
    printf 'include Makefile\nprint-tests:\n\t@echo $(TESTS)\n' |
        (cd "$built" && make -s -f - print-tests) | tr ' ' '\n' |
        sed 's/\.log$//'
}

# Programs that test parts, not the preloaded library: they can run under
# sanitizers and under qemu.
part_tests() {
    all_tests | grep -E '^tests/(unit|fuzz|stress)/' | grep -v '\.sh$' |
        tr '\n' ' '
}

# Parts that depend on the libraries that configure was told to do without.
option_tests() {
    all_tests | tr '\n' ' ' | grep -oE \
        'tests/(unit/(traceformat|tracer|tools)/[^ ]*|fuzz/fuzz_(input|raw)) ' |
        tr -d '\n'
}

# programs_of TESTS...: what make check has to build for them.
programs_of() {
    for test_name; do
        case $test_name in
        */test_raw_info.sh) echo tests/fuzz/make_raw_corpus ;;
        */test_report.sh) echo tests/unit/tools/report_make ;;
        *.sh) ;;
        *) echo "$test_name" ;;
        esac
    done | tr '\n' ' '
}

# Random changes of each importer's files for FUZZ_SECONDS, and of the corpus of
# each other fuzz target for a twentieth, as many at a time as there are
# processors. What fails is kept beside the log.
fuzz_all() {
    fuzz_files=$top/tests/fuzz/corpus/formats
    fuzz_logs=$build_root/fuzz
    echo "$fuzz_seconds s each importer, FUZZ_SEED=$fuzz_seed"
    rm -rf "$fuzz_logs"
    mkdir "$fuzz_logs"
    (
        UBSAN_OPTIONS=$UBSAN_OPTIONS:abort_on_error=1
        ASAN_OPTIONS=$ASAN_OPTIONS:abort_on_error=1:hard_rss_limit_mb=2048
        FUZZ_SEED=$fuzz_seed
        top_srcdir=$top
        export UBSAN_OPTIONS ASAN_OPTIONS FUZZ_SEED top_srcdir
        {
            find "$fuzz_files" -type f | sed 's,.*/,,; s,[.].*,,' | sort -u |
                sed "s/\$/ $fuzz_seconds/"
            part_tests | tr ' ' '\n' | sed -n 's,^tests/fuzz/,,p' |
                sed "/^fuzz_formats\$/d; s/\$/ $((fuzz_seconds / 20 + 1))/"
        } | xargs -P "$(jobs)" -L 1 sh -c '
            logs=$1 files=$2 programs=$3 name=$4
            program=$programs/$name
            export FUZZ_SECONDS="$5" FUZZ_FOUND="$logs/$name.found"
            shift 5
            if [ ! -x "$program" ]; then
                program=$programs/fuzz_formats
                export FUZZ_FORMAT="$name"
                set -- $(cd "$files" && find . -name "$name" -o -name "$name.*")
                cd "$files" || exit
            fi
            "$program" "$@" >"$logs/$name.log" 2>&1
            echo $? >"$logs/$name.status"' \
            sh "$fuzz_logs" "$fuzz_files" "$built/tests/fuzz"
    )
    for fuzz_status in "$fuzz_logs"/*.status; do
        fuzz_log=${fuzz_status%.status}.log
        [ "$(cat "$fuzz_status")" -eq 0 ] || tail -n 30 "$fuzz_log"
        count "fuzzing $(basename "$fuzz_log" .log): $(sed -n \
            's/^ok.* seconds: //p' "$fuzz_log")" "$(cat "$fuzz_status")"
    done
}

# aarch64_lz4 FOLDER: unpacks liblz4 for aarch64 there, as apt-get has it, which
# changes nothing of the system.
aarch64_lz4() (
    set -e
    rm -rf "$1"
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
    cd "$1"
    for action in update "download liblz4-dev liblz4-1"; do
        # shellcheck disable=SC2086
        apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
            -o APT::Sandbox::User= -o Dir::State::status=/dev/null \
            -o "Dir::State::lists=$1/lists" -o "Dir::Cache=$1/cache" $action
    done
    for package in *.deb; do
        dpkg-deb -x "$package" .
    done
)

# aarch64_script COMPILER: a compiler whose programs the emulator runs without
# more options, because they name their loader. (Its -L would put a folder in the
# place of / where the recorder opens it.) Prints its name.
aarch64_script() {
    printf '#!/bin/sh\nexec %s "$@" %s %s\n' "aarch64-linux-gnu-$1" \
        "-Wl,--dynamic-linker=$arm_libraries/ld-linux-aarch64.so.1" \
        "-Wl,--disable-new-dtags -Wl,-rpath,$arm_libraries" \
        >"$build_root/aarch64-$1"
    chmod +x "$build_root/aarch64-$1"
    echo "$build_root/aarch64-$1"
}

# Builds and tests for aarch64, under qemu-user.
aarch64() {
    arm_libraries=/usr/aarch64-linux-gnu/lib
    arm_lz4=$build_root/aarch64-lz4
    set -- --disable-trace-compression
    if aarch64_lz4 "$arm_lz4" >"$build_root/aarch64-lz4.log" 2>&1; then
        arm_place=$arm_lz4/usr/lib/aarch64-linux-gnu
        set -- --enable-trace-compression "CPPFLAGS=-I$arm_lz4/usr/include" \
            "CC=aarch64-linux-gnu-gcc -B$arm_place" \
            "CXX=aarch64-linux-gnu-g++ -B$arm_place"
    else
        skip "aarch64 with compression" "apt-get has no liblz4 for it"
    fi
    built_or_fail aarch64 --host=aarch64-linux-gnu "$@" || return
    # Skips tests that need more of the kernel than the emulator has.
    TCM_EMULATED=qemu
    export TCM_EMULATED
    loader="$arm_libraries/ld-linux-aarch64.so.1 --library-path $arm_libraries"
    tests aarch64 TESTS="$(part_tests)" LOG_COMPILER="qemu-aarch64 $loader"
    # Scripts run programs of both processors, and the usual build's tools.
    TCM_EMULATOR=qemu-aarch64 TCM_MACHINE=aarch64
    TCM_TOOLS=${main:-$built}/malloc-trace-replay
    OBJDUMP=aarch64-linux-gnu-objdump NM=aarch64-linux-gnu-nm
    export TCM_EMULATOR TCM_MACHINE TCM_TOOLS OBJDUMP NM
    tests aarch64-scripts CC="$(aarch64_script gcc)" \
        CXX="$(aarch64_script g++)" check_PROGRAMS= check_LIBRARIES= \
        TESTS="tests/integration/sites/stacks.sh \
            tests/integration/allocator/fast_path.sh"
    unset TCM_EMULATED TCM_EMULATOR TCM_MACHINE TCM_TOOLS OBJDUMP NM
    aarch64_pipeline >"$build_root/aarch64.log" 2>&1
    arm_status=$?
    [ "$arm_status" -eq 0 ] || tail -n 20 "$build_root/aarch64.log"
    count "aarch64: record, postprocess, replay" "$arm_status"
}

# A program of four threads through all of it, under the emulator.
aarch64_pipeline() (
    set -e
    cd "$build_root"
    cat >app.c <<'END'
#include <pthread.h>
#include <stdlib.h>
static void *volatile keep;
static void *work(void *arg) {
    for (size_t i = 0; i < 1000; i++) {
        keep = malloc(7 * i + 1);
        free(keep);
    }
    return arg;
}
int main(void) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(t + i, NULL, work, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    return 5;
}
END
    aarch64-linux-gnu-gcc -fno-builtin -o app app.c -pthread
    rm -f app.trace
    set +e
    # shellcheck disable=SC2086
    qemu-aarch64 \
        -E "LD_PRELOAD=$built/.libs/libtcmalloc_minimal_tracing.so" \
        -E "TCMALLOC_TRACE_OUTPUT=$build_root/app.trace" $loader ./app
    [ $? -eq 5 ] || exit 1
    set -e
    tools=$built/malloc-trace-replay
    # shellcheck disable=SC2086
    qemu-aarch64 $loader "$tools/postprocess" --json app.json app.trace \
        app.processed
    grep '"complete": true' app.json
    for preload in "" "$built/.libs/libtcmalloc_minimal.so"; do
        # shellcheck disable=SC2086
        qemu-aarch64 -E "LD_PRELOAD=$preload" $loader "$tools/replay" \
            --json replay.json app.processed
        [ "$(grep '"ops"' replay.json)" = "$(grep '"ops"' app.json)" ]
    done
)

built_or_fail() {
    if build "$@"; then
        return 0
    fi
    count "build $1" 1
    return 1
}

# --- Preparation ------------------------------------------------------------

need_packages
want_packages useful_packages
want_packages check_packages
[ "$long" = no ] || want_packages long_check_packages
rm -rf "$top/build/check"
find_place check
trap 'interrupted' HUP INT TERM
generate || {
    count "autogen.sh" 1
    verdict
}
werror=
case $(gcc -dumpversion) in
# New compilers find new things to warn of.
1[0-3] | 1[0-3].*) werror=--enable-werror ;;
esac
if [ "$long" = yes ]; then
    LONG=1
    export LONG
fi

# --- The usual build --------------------------------------------------------

step "The usual build and all tests"
if built_or_fail main --enable-trace-compression $werror; then
    count "build main" 0
    tests main
    main=$built
    first=$built
    step "Installation"
    (
        set -e
        cd "$built"
        rm -rf "$build_root/destdir"
        make install DESTDIR="$build_root/destdir" >/dev/null
        home=$build_root/destdir/usr/local
        for file in bin/postprocess bin/replay bin/bump-pipes \
            bin/malloc-trace bin/malloc-trace-allocator \
            lib/libtcmalloc_minimal-malloc-trace.so.4 \
            lib/libtcmalloc_minimal_tracing.so.4 \
            lib/libtcmalloc_minimal_tracing.so \
            lib/malloc-trace/libtcmalloc_minimal.so \
            lib/malloc-trace/libtcmalloc_minimal_tracing.so \
            lib/malloc-trace/libtcmalloc_minimal.a \
            include/malloc-trace/gperftools/thread_cache_switch.h \
            lib/pkgconfig/libtcmalloc_minimal-malloc-trace.pc \
            lib/pkgconfig/libtcmalloc_minimal_tracing.pc \
            share/malloc-trace/malloc_trace.py \
            share/malloc-trace/malloc_trace.rb \
            share/malloc-trace/rust/src/lib.rs \
            share/malloc-trace/malloc_calls.bt \
            share/malloc-trace/memray_calls.py \
            share/man/man1/postprocess.1 share/man/man1/replay.1 \
            share/man/man1/malloc-trace-record.1; do
            [ -e "$home/$file" ]
        done
        # Nothing stands where gperftools' own files do.
        theirs=$(find "$home" -path "$home/lib/malloc-trace" -prune -o \
            -name 'libtcmalloc_minimal.*' -print)
        [ -z "$theirs" ]
        [ ! -e "$home/include/gperftools" ]
        # The installed program finds the installed library.
        cd "$build_root"
        "$home/bin/malloc-trace" record -o installed.trace -- ls / >/dev/null
        "$home/bin/postprocess" --quiet installed.trace installed.processed
        "$home/bin/replay" installed.processed
    ) >"$build_root/install.log" 2>&1
    install_status=$?
    [ "$install_status" -eq 0 ] || tail -n 20 "$build_root/install.log"
    count "make install, and a trace with what it installed" "$install_status"
fi

# --- Other builds -----------------------------------------------------------

step "Parts under the address and undefined-behaviour sanitizers"
UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
export UBSAN_OPTIONS ASAN_OPTIONS
if built_or_fail sanitized --enable-trace-compression --enable-debug \
    --enable-sanitizers=address,undefined --disable-shared \
    CFLAGS='-O1 -g1'; then
    # The other programs are for scripts, which are not run here.
    tests sanitized TESTS="$(part_tests)" check_PROGRAMS="$(part_tests)" \
        check_LIBRARIES=
    if [ "$long" = yes ]; then
        step "Fuzzing"
        fuzz_all
    fi
fi

step "A build without optional libraries and newer functions of glibc, with assertions"
own=$build_root/own
if built_or_fail debug --disable-trace-compression --without-zlib \
    --without-zstd --without-bz2 --without-microhttpd \
    --enable-debug --enable-gperftools-soname \
    --prefix="$own" --libdir="$own/lib/multiarch" \
    tcm_cv_newer_libc=no CPPFLAGS="-include $sources/tests/lib/glibc228.h" \
    $werror CFLAGS='-O1 -g'; then
    if [ "$long" = yes ]; then
        tests debug TESTS="$(part_tests) $(all_tests |
            grep -E '^tests/(unit|integration/(process|sites))/.*\.sh$' |
            tr '\n' ' ')"
    else
        # The others, with the same assertions, ran in the builds above.
        # shellcheck disable=SC2046
        tests debug TESTS="$(option_tests)" check_LIBRARIES= \
            check_PROGRAMS="$(programs_of $(option_tests))"
    fi
    # The libraries are where only configure was told that they are.
    (
        set -e
        make -C "$built" install >/dev/null
        [ -e "$own/lib/multiarch/libtcmalloc_minimal.so.4" ]
        cd "$build_root"
        "$own/bin/malloc-trace" record -o own.trace -- ls / >/dev/null
        "$own/bin/postprocess" --quiet own.trace own.processed
    ) >"$build_root/install.log" 2>&1
    install_status=$?
    [ "$install_status" -eq 0 ] || tail -n 20 "$build_root/install.log"
    count "an installation whose libraries have a folder of their own" \
        "$install_status"
fi

if [ "$long" = yes ]; then
    step "Parts under the thread sanitizer"
    if built_or_fail threads --enable-trace-compression --enable-debug \
        --enable-sanitizers=thread --disable-shared CFLAGS='-O1 -g'; then
        # Parsers have one thread.
        thread_tests=$(part_tests | tr ' ' '\n' | grep -v fuzz | tr '\n' ' ')
        tests threads TESTS="$thread_tests" check_PROGRAMS="$thread_tests" \
            check_LIBRARIES=
    fi

    # The other places below have the usual runs.
    unset LONG
    step "aarch64 under qemu-user"
    if have aarch64-linux-gnu-gcc && have aarch64-linux-gnu-g++ &&
        have qemu-aarch64; then
        aarch64
    else
        skip "aarch64" "no cross compilers or no qemu-aarch64"
    fi
fi

# --- Other releases of Debian -----------------------------------------------

if [ "$long" = yes ]; then
    step "The oldest, the stable and the testing release of Debian"
    for suite in oldest stable testing; do
        if ! have debootstrap || ! unshare -m true 2>/dev/null; then
            skip "Debian $suite" "not root, or no debootstrap"
            continue
        fi
        "$top/tests/releases.sh" "$build_root/debian" "$suite" \
            >"$build_root/debian-$suite.log" 2>&1
        debian_status=$?
        grep '^| ' "$build_root/debian-$suite.log"
        [ "$debian_status" -eq 0 ] ||
            tail -n 60 "$build_root/debian-$suite.log"
        count "compilers, quickstart.sh and check.sh in Debian $suite" \
            "$debian_status"
        rm -rf --one-file-system "$build_root/debian"
    done
fi

# --- Distribution -----------------------------------------------------------

if [ -n "${main:-}" ]; then
    step "Distribution"
    cd "$main" || exit 1
    # The tests ran above; of the distribution's copy those are built, quickly,
    # and run that show whether it has all files, unless there is time for all
    # and for a small archive.
    if [ "$long" = yes ]; then
        quietly distcheck.log make -j"$(jobs)" distcheck \
            DISTCHECK_CONFIGURE_FLAGS=--enable-trace-compression
    else
        dist_tests=$(all_tests | grep -E \
            '^tests/(lint/(layering|spdx|dead)|unit/[a-z]*/test_(tool|raw|proc))')
        # shellcheck disable=SC2086
        quietly distcheck.log env XZ_OPT=-1 make -j"$(jobs)" distcheck \
            DISTCHECK_CONFIGURE_FLAGS="--enable-trace-compression CFLAGS=-O0" \
            AM_MAKEFLAGS="TESTS='$(echo $dist_tests)' \
                check_LIBRARIES='libtcmtest.a libfuzz.a' \
                check_PROGRAMS='$(programs_of $dist_tests)'"
    fi
    count "make distcheck" $?
    if [ -e "$top/.git" ] && have git; then
        (cd "$top" && git ls-files) | grep -v '^\.gitignore$' |
            sort >"$build_root/tracked"
        tar -tf malloc-trace-[0-9]*.tar.xz | sed 's,^[^/]*/,,' |
            sort >"$build_root/distributed"
        comm -23 "$build_root/tracked" "$build_root/distributed" \
            >"$build_root/forgotten"
        head -n 20 "$build_root/forgotten"
        [ ! -s "$build_root/forgotten" ]
        count "what is under version control is distributed" $?
    fi
fi

# --- Quick start ------------------------------------------------------------

step "Quick start, in a folder with a blank in its name"
mkdir -p "$build_root/a folder"
copy_sources "$build_root/a folder"
(cd / && quietly "$build_root/quickstart.log" \
    env CFLAGS=-O0 "$build_root/a folder/quickstart.sh")
count "quickstart.sh" $?
(
    cd "$build_root/a folder/build/quickstart" &&
        ./malloc-trace-replay/malloc-trace record -q -o again.lz4 ls / &&
        ./malloc-trace-replay/postprocess -q again.lz4 again.p &&
        ./malloc-trace-replay/replay -q again.p &&
        ./malloc-trace-replay/replay -q traces/p.lz4
) >/dev/null
count "what it built stays there and works" $?

verdict
