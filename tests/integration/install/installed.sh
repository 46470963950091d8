#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# After make install to a folder that the loader looks at, LD_PRELOAD takes the
# recording library by its bare name, as README's first command does, and
# programs that are linked with gperftools still get theirs. The loader's settings
# and its cache are copies in a mount namespace.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$built/process/process_target"
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
# The folder of the installation comes first, as /usr/local/lib does.
{
    printf '%s\n' "$work/seen/lib" "$work/theirs"
    [ ! -e /etc/ld.so.conf ] || cat /etc/ld.so.conf
} >etc/ld.so.conf

# A program that needs a function of gperftools' which this library lacks.
mkdir theirs
echo 'int of_theirs(void) { return 43; }' >theirs.c
echo 'int of_theirs(void); int main(void) { return of_theirs(); }' >linked.c
linked=yes
${CC:-cc} -shared -fPIC -Wl,-soname,libtcmalloc_minimal.so.4 \
    -o theirs/libtcmalloc_minimal.so.4 theirs.c >out 2>&1 &&
    ${CC:-cc} -o linked linked.c theirs/libtcmalloc_minimal.so.4 >>out 2>&1 ||
    linked=
# Asked to, it takes gperftools' place.
! grep -q "enable-gperftools-soname" "$top_builddir/config.log" || {
    rm -f linked
    linked=
}

# Every name that the documents preload.
names=libtcmalloc_minimal_tracing.so:libmalloc_trace_ctl.so
grep -q "enable-gperftools-soname" "$top_builddir/config.log" ||
    names="$names libtcmalloc_minimal-malloc-trace.so.4"
export names

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
[ ! -x linked ] || ./linked
echo $? >linked.status
for name in $names; do
    LD_PRELOAD=$name MTRACE_CTL_FILE=called /bin/true
done
LD_PRELOAD=libtcmalloc_minimal_tracing.so TCMALLOC_TRACE_OUTPUT=t \
    "$target" status 41
END
installs() {
    rm -rf t etc.now
    unshare -Urm sh inside "$work" "$top_builddir" "$built/process/process_target" \
        "$@" >out 2>err
}

installs "$work/seen"
is "where the loader looks: the program's status" $? 41
diag 20 <make
is "where the loader looks: nothing on stderr" "$(cat err)" ""
check "where the loader looks: a trace" [ -s t ]
if [ -n "$linked" ]; then
    is "what is linked with gperftools gets gperftools'" "$(cat linked.status)" 43
else
    skip "what is linked with gperftools gets gperftools'" \
        "no compiler here, or configured otherwise"
fi
check "nor does the linker find ours by its name" \
    [ ! -e seen/lib/libtcmalloc_minimal.so ]
preload=seen/lib/malloc-trace/libtcmalloc_minimal
check "the names of use have a folder of their own" \
    [ -e "${preload}_tracing.so" -a -e "$preload.so" ]
like "which the installation says" make "^ *$work/${preload}_tracing\.so\$"
like "and of the other library" make "^ *$work/$preload\.so\$"
run "$work/seen/bin/malloc-trace" record -q -o found.$suffix /bin/true
check "record finds it there" [ -s found.$suffix ]
make -s -C "$top_builddir" uninstall prefix="$work/seen" \
    exec_prefix="$work/seen" libdir="$work/seen/lib" bindir="$work/seen/bin" \
    >out 2>&1
is "make uninstall leaves nothing" "$(find seen/lib seen/bin ! -type d)" ""
is "make uninstall leaves no folder of its own" \
    "$(find seen -name '*malloc-trace*' -o -name gperftools)" ""

installs "$work/seen" DESTDIR="$work/package"
check "with DESTDIR: the files are there" \
    [ -e "$work/package$work/seen/lib/libtcmalloc_minimal_tracing.so" ]
is "with DESTDIR: the loader's cache stays" "$(cat changed)" 0

installs "$work/unseen"
check "where it does not look: the files are there" \
    [ -e unseen/lib/libtcmalloc_minimal_tracing.so ]
is "where it does not look: the loader's cache stays" "$(cat changed)" 0
tap_end
