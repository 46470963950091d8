#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds further allocators for bench/run.sh from their sources:
#
#     bench/run.sh $(bench/peers.sh FOLDER)
#
# FOLDER has the unpacked sources of some of these, each in a folder whose name
# begins with the allocator's. The last one by version counts, if there are
# several.
#
#     snmalloc   github.com/microsoft/snmalloc; needs cmake and a C++20 compiler
#     rpmalloc   github.com/mjansson/rpmalloc, of version 2 or another
#     mimalloc   github.com/microsoft/mimalloc, of version 3 or another; needs
#                cmake
#
# Each is built as its authors build it for LD_PRELOAD, optimised and without
# checks, in FOLDER/built. Printed are the options of run.sh that add them; what
# is missing or fails is told on standard error. Exit status: 0 at least one was
# built, 1 none was, 2 wrong command line.
set -u

if [ $# -ne 1 ] || [ ! -d "$1" ]; then
    echo "usage: $0 FOLDER" >&2
    exit 2
fi
folder=$(cd "$1" && pwd)
case $folder in
*[[:space:]]*)
    # The options that are printed are words of a command line.
    echo "$0: the name of FOLDER has a blank: $folder" >&2
    exit 2
    ;;
esac
built=$folder/built
mkdir -p "$built" || exit 1
found=0

say() { echo "peers.sh: $*" >&2; }

# source_of NAME FILE: the last folder of NAME's sources that has FILE.
source_of() {
    for file in "$folder/$1"*/"$2"; do
        [ ! -e "$file" ] || printf '%s\n' "${file%/"$2"}"
    done | sort -V | tail -n 1
}

# with_cmake SOURCE NAME TARGET OPTION...: builds TARGET in built/NAME.
with_cmake() {
    from=$1 into=$built/$2 target=$3
    shift 3
    cmake -S "$from" -B "$into" -DCMAKE_BUILD_TYPE=Release "$@" &&
        cmake --build "$into" --target "$target"
}

build_snmalloc() {
    with_cmake "$1" "$2" snmallocshim -DSNMALLOC_BUILD_TESTING=OFF
}

build_rpmalloc() {
    mkdir -p "$built/$2" &&
        ${CC:-cc} -std=gnu11 -O3 -DNDEBUG -DENABLE_OVERRIDE=1 \
            -DENABLE_PRELOAD=1 -fPIC -shared -I "$1/rpmalloc" \
            -o "$built/$2/librpmalloc.so" "$1/rpmalloc/rpmalloc.c" -lpthread -ldl
}

build_mimalloc() {
    with_cmake "$1" "$2" mimalloc -DMI_BUILD_TESTS=OFF -DMI_BUILD_STATIC=OFF \
        -DMI_BUILD_OBJECT=OFF
}

# peer ALLOCATOR NAME SOURCE LIBRARY: builds it, and prints its option, by NAME.
peer() {
    log=$built/$2.log
    library=$built/$2/$4
    rm -f "$library"
    if "build_$1" "$3" "$2" >"$log" 2>&1 && [ -e "$library" ] &&
        nm -D --defined-only "$library" | grep -q ' malloc$'; then
        echo "--extra $2=$library"
        found=1
    else
        tail -n 3 "$log" >&2
        say "$3 does not build: see $log"
    fi
}

# The digit before the rest of MI_MALLOC_VERSION is the version: 212, 30203.
for allocator in snmalloc rpmalloc mimalloc; do
    name=$allocator
    case $allocator in
    snmalloc) file=src/snmalloc/snmalloc.h library=libsnmallocshim.so ;;
    rpmalloc) file=rpmalloc/rpmalloc.c library=librpmalloc.so ;;
    mimalloc) file=include/mimalloc.h library=libmimalloc.so ;;
    esac
    from=$(source_of "$allocator" "$file")
    if [ -z "$from" ]; then
        say "no $folder/$allocator*/$file"
        continue
    fi
    [ "$allocator" != mimalloc ] || name=$name$(sed -n \
        's/^#define MI_MALLOC_VERSION *\([0-9]\).*/\1/p' "$from/$file")
    peer "$allocator" "$name" "$from" "$library"
done
[ "$found" = 1 ]
