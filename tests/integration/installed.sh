#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# After make install to a folder that the loader looks at, LD_PRELOAD takes the
# libraries by their bare names, as README's first command does. The loader's
# settings and its cache are copies in a mount namespace.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$built/process_target"
unshare -Urm true 2>/dev/null || skip_all "unshare -Urm is refused"
PATH=$PATH:/usr/sbin:/sbin
need_command ldconfig
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES DESTDIR

# Programs that are links into alternatives go on working.
mkdir etc seen unseen
for file in /etc/ld.so.conf /etc/ld.so.conf.d /etc/ld.so.cache \
    /etc/alternatives; do
    [ ! -e $file ] || cp -R -P $file etc/
done
echo "$work/seen/lib" >>etc/ld.so.conf

# installs PREFIX NAME=VALUE...: make install's part that has the libraries,
# and then README's first command; its trace is t.
cat >inside <<'END'
work=$1 build=$2 target=$3 prefix=$4
shift 4
cp -R -P "$work/etc" "$work/etc.now" &&
    mount --bind "$work/etc.now" /etc || exit 90
[ ! -d /var/cache/ldconfig ] || mount -t tmpfs none /var/cache/ldconfig ||
    exit 90
make -s -C "$build" install-exec prefix="$prefix" exec_prefix="$prefix" \
    bindir="$prefix/bin" libdir="$prefix/lib" "$@" >"$work/make" 2>&1 ||
    exit 91
cmp -s /etc/ld.so.cache "$work/etc/ld.so.cache"
echo $? >"$work/changed"
cd "$work" || exit 92
LD_PRELOAD=libtcmalloc_minimal_tracing.so TCMALLOC_TRACE_OUTPUT=t \
    "$target" status 41
END
installs() {
    rm -rf t etc.now
    unshare -Urm sh inside "$work" "$top_builddir" "$built/process_target" \
        "$@" >out 2>err
}

installs "$work/seen"
is "where the loader looks: the program's status" $? 41
diag 20 <make
is "where the loader looks: nothing on stderr" "$(cat err)" ""
check "where the loader looks: a trace" [ -s t ]

installs "$work/seen" DESTDIR="$work/package"
check "with DESTDIR: the files are there" \
    [ -e "$work/package$work/seen/lib/libtcmalloc_minimal_tracing.so" ]
is "with DESTDIR: the loader's cache stays" "$(cat changed)" 0

installs "$work/unseen"
check "where it does not look: the files are there" \
    [ -e unseen/lib/libtcmalloc_minimal_tracing.so ]
is "where it does not look: the loader's cache stays" "$(cat changed)" 0
tap_end
