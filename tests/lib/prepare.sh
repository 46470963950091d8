# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2034,SC2154,SC3013
# Shared by quickstart.sh and check.sh: packages, a place to build, the build.
#
# The script sets $top, the absolute folder of the sources, before it reads
# this.

began=$(date +%s)

seconds() {
    echo $(($(date +%s) - began))
}

# step TEXT: prints the next step, and the time so far.
step() {
    printf '\n[%4d s] %s\n' "$(seconds)" "$*"
}

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

jobs() {
    getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2
}

# --- Packages ---------------------------------------------------------------

have() {
    command -v "$1" >/dev/null 2>&1
}

have_lz4_library() {
    have gcc || return 1
    printf '#include <%s>\n' lz4hc.h lz4frame.h | gcc -E - >/dev/null 2>&1 &&
        case $(gcc -print-file-name=liblz4.a) in /*) true ;; *) false ;; esac
}

# Tells whether liblz4.a needs no other archive, or pkg-config tells which.
have_lz4_needs() {
    have pkg-config || {
        have_lz4_library || return 1
        lz4_try=$(mktemp) &&
            printf '#include <lz4frame.h>\nint main(void) {
                return LZ4F_compressFrame(0, 0, "", 1, 0) != 0; }\n' |
            gcc -x c -o "$lz4_try" - -x none \
                "$(gcc -print-file-name=liblz4.a)" 2>/dev/null
        lz4_status=$?
        rm -f "$lz4_try"
        return $lz4_status
    }
}

have_libc_headers() {
    have gcc && echo '#include <stdio.h>' | gcc -E - >/dev/null 2>&1
}

have_elfutils() {
    have gcc && echo '#include <elfutils/libdwfl.h>' | gcc -E - >/dev/null 2>&1
}

# Required packages, in lines "package test argument".
required_packages() {
    cat <<'END'
autoconf have autoconf
automake have automake
libtool have libtoolize
make have make
gcc have gcc
libc6-dev have_libc_headers
g++ have g++
liblz4-dev have_lz4_library
pkg-config have_lz4_needs
lz4 have lz4
END
}

have_header() {
    have gcc && echo "#include <$1>" | gcc -E - >/dev/null 2>&1
}

# Packages without which the programs lack optional parts.
useful_packages() {
    cat <<'END'
libmicrohttpd-dev have_header microhttpd.h
zlib1g-dev have_header zlib.h
libzstd-dev have_header zstd.h
libbz2-dev have_header bzlib.h
libdw-dev have_elfutils
libiberty-dev have_header libiberty/demangle.h
END
}

have_file() {
    [ -e "$1" ]
}

have_python_library() {
    ls /usr/lib/*/libpython3*.so.1.0 >/dev/null 2>&1
}

# Packages without which some tests are skipped.
check_packages() {
    cat <<'END'
python3 have python3
libpython3-dev have_python_library
curl have curl
perl have perl
ruby have ruby
sqlite3 have sqlite3
redis-server have redis-server
redis-tools have redis-benchmark
clang-format-14 have clang-format-14
shellcheck have shellcheck
groff have groff
binutils have readelf
git have git
valgrind have valgrind
util-linux have setarch
xz-utils have xz
parallel have parallel
END
}

long_check_packages() {
    cat <<'END'
gcc-aarch64-linux-gnu have aarch64-linux-gnu-gcc
g++-aarch64-linux-gnu have aarch64-linux-gnu-g++
libc6-dev-arm64-cross have_file /usr/aarch64-linux-gnu/include/stdio.h
qemu-user have qemu-aarch64
musl-tools have musl-gcc
slurm-wlm have slurmctld
munge have munged
npm have npm
debootstrap have debootstrap
dpkg-dev have dpkg-buildpackage
build-essential have dpkg-buildpackage
debhelper have dh
lintian have lintian
END
}

# missing: reads lines of these lists, prints the packages whose test fails.
missing() {
    while read -r package test argument; do
        $test $argument || printf '%s ' "$package"
    done
}

# as_root COMMAND...: fails if it cannot become root.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo; then
        sudo -n "$@"
    else
        return 1
    fi
}

# install PACKAGES...: true when apt-get installed all of them.
install() {
    have apt-get || return 1
    as_root true 2>/dev/null || return 1
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND
    if [ -z "${apt_updated:-}" ]; then
        as_root apt-get -qq update || return 1
        apt_updated=yes
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y \
        --no-install-recommends "$@" >/dev/null
}

need_packages() {
    wanted=$(required_packages | missing)
    [ -n "$wanted" ] || return 0
    step "Installing $wanted"
    # shellcheck disable=SC2086
    install $wanted || true
    wanted=$(required_packages | missing)
    [ -z "$wanted" ] || die "these packages are missing and cannot be \
installed from here; as root: apt-get install $wanted"
}

# want_packages LIST: tries to install the missing packages, one by one if all
# at once fails, and continues without the rest.
want_packages() {
    wanted=$($1 | missing)
    [ -n "$wanted" ] || return 0
    step "Installing $wanted"
    # shellcheck disable=SC2086
    install $wanted 2>/dev/null || for package in $wanted; do
        install "$package" 2>/dev/null || true
    done
    wanted=$($1 | missing)
    [ -z "$wanted" ] ||
        echo "Some tests will be skipped without: $wanted"
}

# --- Place to build ---------------------------------------------------------

# find_place NAME: sets $sources and $build_root, in the folder of the sources
# or, as a copy that is removed at exit ($place_is_temporary), elsewhere: the
# build system does not work in a folder whose name has blanks or special
# characters of the shell, beside a build inside the sources, or without write
# access.
find_place() {
    place_is_temporary=no
    sources=$top
    build_root=$top/build/$1
    case $top in
    *[!A-Za-z0-9_./+,@-]*) place_is_temporary=yes ;;
    esac
    [ ! -e "$top/config.status" ] || place_is_temporary=yes
    [ -w "$top" ] || place_is_temporary=yes
    if [ "$place_is_temporary" = yes ]; then
        place=$(mktemp -d "${TMPDIR:-/tmp}/malloc-trace-$1.XXXXXX") ||
            die "no folder for temporary files"
        case $place in
        *[!A-Za-z0-9_./+,@-]*)
            rmdir "$place"
            place=$(mktemp -d "/tmp/malloc-trace-$1.XXXXXX") ||
                die "no folder for temporary files"
            ;;
        esac
        # tests that root runs start programs as other users
        [ "$(id -u)" != 0 ] || chmod 755 "$place"
        sources=$place/sources
        build_root=$place/build
        copy_sources "$sources"
    fi
    mkdir -p "$build_root"
}

# copy_sources FOLDER: copies the files of the project without build products.
copy_sources() {
    mkdir -p "$1"
    (
        cd "$top" || exit 1
        if [ -e .git ] && have git && git ls-files >/dev/null 2>&1; then
            git ls-files -z --cached --others --exclude-standard |
                xargs -0 sh -c 'for f; do
                    [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh
        else
            # without the products of a build in this folder
            find . \( -name .git -o -name .deps -o -name .libs \
                -o -name autom4te.cache -o -path './build' \) -prune -o \
                -type f ! -name '*.o' ! -name '*.lo' ! -name '*.la' \
                ! -name '*.a' ! -name '*.trs' ! -name '*.log' \
                ! -path ./config.status ! -path ./config.h ! -path ./stamp-h1 \
                ! -path ./Makefile ! -path ./libtool -print0
        fi | tar -cf - --null -T -
    ) | tar -xf - -C "$1" || die "cannot copy the sources to $1"
}

remove_place() {
    [ "${place_is_temporary:-no}" = no ] || rm -rf "$place"
}

# keep_programs FOLDER: copies programs and libraries of $built to FOLDER, in
# the same layout.
keep_programs() {
    rm -rf "$1/malloc-trace-replay" "$1/.libs"
    mkdir -p "$1/malloc-trace-replay" "$1/.libs" || return 1
    for program in postprocess replay malloc-trace malloc-trace-allocator \
        bump-pipes; do
        cp "$built/malloc-trace-replay/$program" "$1/malloc-trace-replay/" ||
            return 1
    done
    cp -P "$built"/.libs/*.so* "$1/.libs/"
}

# where_programs FOLDER: prints where they are.
where_programs() {
    printf 'programs   %s\n' "$1/malloc-trace-replay"
    printf 'libraries  %s\n' "$1/.libs"
}

# --- Build ------------------------------------------------------------------

# quietly LOG COMMAND...: runs a command with its output in LOG. Prints the name
# of LOG without .log, and the time it took; on failure also the end of the
# output.
quietly() {
    quiet_log=$1
    shift
    quiet_began=$(seconds)
    printf '  %s ...' "$(basename "$quiet_log" .log)"
    if "$@" >"$quiet_log" 2>&1; then
        printf ' %d s\n' $(($(seconds) - quiet_began))
        return 0
    else
        quiet_status=$?
    fi
    printf ' failed after %d s: %s\n' $(($(seconds) - quiet_began)) "$*"
    tail -n 40 "$quiet_log"
    return "$quiet_status"
}

generate() {
    # only if a source of configure is newer
    if [ -x "$sources/configure" ] && [ -z "$(find "$sources/configure.ac" \
        "$sources/Makefile.am" "$sources/m4" "$sources/src" \
        "$sources/malloc-trace-replay" "$sources/tests" "$sources/doc" \
        "$sources/bench" \( -name '*.am' -o -name '*.ac' -o -name 'tcm_*.m4' \) \
        -newer "$sources/configure" -print 2>/dev/null)" ]; then
        return 0
    fi
    quietly "$build_root/autogen.log" "$sources/autogen.sh"
}

# build FOLDER CONFIGURE_OPTIONS...: builds in FOLDER below $build_root, and
# sets $built to its absolute name.
build() {
    built=$build_root/$1
    shift
    mkdir -p "$built"
    if [ ! -e "$built/Makefile" ] ||
        [ "$sources/configure" -nt "$built/config.status" ]; then
        (cd "$built" && quietly configure.log "$sources/configure" "$@") ||
            return 1
    fi
    (cd "$built" && quietly make.log make -j"$(jobs)")
}
