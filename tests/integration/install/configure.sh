#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Options that configure accepts and refuses, and its messages.
. "$top_srcdir/tests/lib/harness.sh"
: "${CC:=cc}"
[ -x "$top_srcdir/configure" ] || skip_all "no configure"
[ ! -e "$top_srcdir/config.status" ] ||
    skip_all "the source folder is configured itself"
unset CONFIG_SITE MAKEFLAGS CFLAGS CXXFLAGS LDFLAGS LIBS
mkdir build
cd build || exit 99

# configure OPTION...: what it says is in the file said.
configure() {
    timeout 120 "$top_srcdir/configure" --cache-file=../cache "$@" \
        >said 2>&1
}

for option in --prefix="$work/a b" --prefix="$work/a\"b" --libdir="$work/a#b"; do
    configure "$option"
    is "$option is refused" "$?" 1
    like "with its reason" said \
        "error: ${option%%=*}='$work/a.b': no file can be installed to a"
    is "and before anything was looked for" "$(grep -c compiler said)" 0
done

mkdir "../a blank"
(cd "../a blank" && configure)
is "nor can a folder with a blank be built in" "$?" 1
like "which is said" "../a blank/said" \
    "error: a folder with a blank in its name cannot be built in"

# --- Versions of liblz4 --------------------------------------------------------

archive=$($CC -print-file-name=liblz4.a)
case ${TCM_HAVE_LZ4:-yes}:$archive in
yes:/*) ;;
*)
    skip "old liblz4, and one that needs another archive" "no liblz4.a"
    tap_end
    ;;
esac
mkdir ../old ../lib
cat >../old/lz4.h <<END
#include_next <lz4.h>
#undef LZ4_VERSION_NUMBER
#define LZ4_VERSION_NUMBER 10802
END
cp "$archive" ../lib/liblz4.a
configure --cache-file=/dev/null --enable-trace-compression \
    CPPFLAGS=-I../old LDFLAGS=-L../lib
is "liblz4 1.8.2 is refused" "$?" 1
like "with the version that is needed" said \
    "needs the static archive liblz4.a .1\.8\.3 or newer"
like "and the archive in the folder that LDFLAGS names" said \
    "no program links with $work/lib/liblz4.a"

# --- An archive that needs another one ----------------------------------------

# liblz4.a as Debian 13 has it, without what is in libxxhash.a there.
need_command ar
mkdir ../pc
if ar t ../lib/liblz4.a | grep -qx xxhash.o; then
    (cd ../lib && ar x liblz4.a xxhash.o && ar d liblz4.a xxhash.o &&
        ar rcs libxxhash_apart.a xxhash.o && rm xxhash.o)
fi
cat >../pc/liblz4.pc <<END
libdir=$work/lib
Name: lz4
Description: LZ4
Version: 1.10.0
Libs: -L\${libdir} -llz4
END
# The folder of gcc's own archives, and the first one.
LIBRARY_PATH=$work/lib
export LIBRARY_PATH
gcc_finds=$($CC -print-file-name=liblz4.a)
case $(ls ../lib/libxxhash_apart.a):$gcc_finds in
?*:"$work"/*) ;;
*)
    skip "liblz4.a that needs another archive" "it cannot be made here"
    tap_end
    ;;
esac

configure --enable-trace-compression PKG_CONFIG=/bin/false
is "it is refused where nothing is known of the other" "$?" 1
like "with what was tried" said "no program links with $gcc_finds"
like "and who was asked" said "/bin/false --static --libs liblz4 names nothing"

if have pkg-config; then
    echo "Libs.private: -lxxhash_apart" >>../pc/liblz4.pc
    PKG_CONFIG_PATH=$work/pc
    export PKG_CONFIG_PATH
    configure --enable-trace-compression
    is "accepted with what pkg-config names" "$?" 0
    diag 5 <said
    grep -q '^Libs.private:.*-llz4 -lxxhash_apart' libtcmalloc_minimal_tracing.pc
    result "which is for static programs, too" $?
    is "and linked into the library, too" "$(sed -n \
        's/^LZ4_SHARED_LIBS = //p' Makefile)" \
        "-Wl,$gcc_finds -Wl,$($CC -print-file-name=libxxhash_apart.a)"
else
    skip "accepted with what pkg-config names" "no pkg-config"
fi
tap_end
