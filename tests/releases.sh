#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds and tests in other releases of Debian, and prints a row of
# doc/platforms.md for each build. debootstrap makes a folder for each release
# (from DEBIAN_MIRROR; root only), in which a user who is not root builds with
# the newest gcc and the newest clang of the release, warnings being errors,
# runs the tests whose names match RELEASE_TESTS (^tests/unit/), then
# quickstart.sh and check.sh.
set -u

usage() {
    echo "Usage: tests/releases.sh [--short] FOLDER SUITE...
       tests/releases.sh --here CC CXX

SUITE is a release, such as stable or testing, or \"oldest\": the oldest one that
the mirror still has. Folders of releases in FOLDER are made unless they are
there, and stay. --short leaves quickstart.sh and check.sh out; --here builds
and tests with one compiler on this machine."
}

top=$(cd "$(dirname "$0")/.." && pwd -P)
. "$top/tests/lib/prepare.sh"
. "$top/tests/lib/debian_root.sh"

# --- One compiler ----------------------------------------------------------

# make_logged LOG ARGUMENTS...: make in $built.
make_logged() {
    make_log=$1
    shift
    (cd "$built" && quietly "$make_log" make -k -j"$(jobs)" "$@")
}

machine() {
    printf '%s | %s' "$(getconf GNU_LIBC_VERSION 2>/dev/null ||
        echo 'other C library')" "$(uname -m | tr _ -)"
}

distribution() (
    . /etc/os-release
    [ "$ID" = debian ] && [ -n "${VERSION_ID:-}" ] || VERSION_ID=testing
    echo "${NAME%% *} $VERSION_ID"
)

compiler() {
    case $("$1" --version) in
    *clang*) printf 'clang %s' "$("$1" -dumpversion)" ;;
    *) printf 'gcc %s' "$("$1" -dumpfullversion)" ;;
    esac
}

# row COMPILER RESULT
row() {
    printf '| %s | %s | %s | %s |\n' "$(distribution)" "$(machine)" \
        "$(compiler "$1")" "$2"
}

# here CC CXX: builds and tests; the row, and 0 if all is well.
here() {
    find_place releases
    trap remove_place EXIT
    trap 'exit 1' HUP INT TERM
    generate || return 1
    if ! build "$1" --enable-werror "CC=$1" "CXX=$2"; then
        row "$1" "does not build"
        return 1
    fi
    # shellcheck disable=SC2016
    chosen=$(printf 'include Makefile\nprint:\n\t@echo $(TESTS)\n' |
        (cd "$built" && make -s -f - print) | tr ' ' '\n' |
        sed 's/\.log$//' | grep -E "${RELEASE_TESTS:-^tests/unit/}" | tr '\n' ' ')
    make_logged tests.log check TESTS= || {
        row "$1" "its tests do not build"
        return 1
    }
    make_logged check.log check TESTS="$chosen"
    here_status=$?
    warnings=$(cat "$built/make.log" "$built/tests.log" | grep -c 'warning: ')
    result=$(sed -n 's/^# \(PASS\|FAIL\|ERROR\|SKIP\): */\1 /p' \
        "$built/check.log" | awk '{ n[$1] += $2 } END {
            printf "%d passed, %d failed, %d skipped", n["PASS"],
                n["FAIL"] + n["ERROR"], n["SKIP"] }')
    grep -E '^(FAIL|ERROR|XPASS): ' "$built/check.log" | head -n 20
    row "$1" "$warnings warnings; $result"
    [ "$here_status" -eq 0 ] && [ "$warnings" -eq 0 ]
}

# --- A release -------------------------------------------------------------

# release_root SUITE: its folder is $root. false: the mirror has it no more.
release_root() {
    root=$folder/$1
    [ ! -e "$root/home/tester" ] || return 0
    rm -rf --one-file-system "$root"
    make_root "$root" "$1" && chroot "$root" useradd -m -s /bin/sh tester
}

as_tester() {
    in_root "$root" timeout 7200 su - tester -c \
        "cd malloc-trace && RELEASE_TESTS='${RELEASE_TESTS:-}' && \
        export RELEASE_TESTS && nice $1"
}

# Packages that the scripts ask for, and compilers, whose names go into the file
# of that name.
install_packages() {
    cat >"$root/packages" <<'END'
set -eu
top=/home/tester/malloc-trace
. "$top/tests/lib/prepare.sh"
need_packages
want_packages useful_packages
want_packages check_packages
newest() {
    apt-cache search --names-only "^$1-[0-9]+\$" | cut -d' ' -f1 | sort -V |
        tail -n 1
}
gcc=$(newest gcc)
clang=$(newest clang)
install "$gcc" "g++-${gcc#gcc-}" "$clang"
echo "$gcc g++-${gcc#gcc-}
$clang clang++-${clang#clang-}" >/compilers
chown -R tester "$top"
END
    in_root "$root" sh /packages
}

# release SUITE: 0 if everything passes.
release() {
    suite=$1
    if [ "$suite" = oldest ]; then
        # Debian's archive keeps no more than these.
        release_root oldoldstable || release_root oldstable || return 1
    else
        release_root "$suite" || return 1
    fi
    rm -rf --one-file-system "$root/home/tester/malloc-trace"
    copy_sources "$root/home/tester/malloc-trace"
    install_packages || return 1
    status=0
    while read -r cc cxx; do
        as_tester "tests/releases.sh --here $cc $cxx" || status=1
    done <"$root/compilers"
    if [ "$short" = no ]; then
        as_tester ./quickstart.sh || status=1
        as_tester ./check.sh | tee "$folder/check.log"
        verdict=$(tail -n 1 "$folder/check.log")
        as_tester "tests/releases.sh --row 'check.sh: $verdict'"
        case $verdict in
        *" 0 failed"*) ;;
        *) status=1 ;;
        esac
    fi
    return "$status"
}

short=no
case ${1:-} in
--here)
    [ $# -eq 3 ] || die "--here takes a C and a C++ compiler (try --help)"
    here "$2" "$3"
    exit
    ;;
--row)
    row cc "$2"
    exit
    ;;
--help)
    usage
    exit 0
    ;;
--short)
    short=yes
    shift
    ;;
esac
[ $# -ge 2 ] || die "no folder and suites (try --help)"
can_make_root || die "not root, or no debootstrap"
mkdir -p "$1"
folder=$(cd "$1" && pwd -P)
shift
all=0
for name; do
    release "$name" || all=1
done
exit "$all"
