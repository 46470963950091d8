#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Debian's packages: each installed file is in one of them, and their names and
# versions are those of the libraries and of configure. With LONG=1 make deb
# builds them twice, from different folders, with the same bytes; lintian accepts
# them, and as root they are installed, tried and removed in a chroot, beside
# gperftools.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
debian=$top_srcdir/packaging/debian
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES DESTDIR

# --- Names and versions ------------------------------------------------------

version=$(sed -n 's/^AC_INIT(\[[^]]*\], \[\([^]]*\)\].*/\1/p' \
    "$top_srcdir/configure.ac")
packaged=$(sed -n '1s/^malloc-trace (\(.*\)-[^-]*) .*/\1/p' "$debian/changelog")
is "the changelog's version is that of configure" "$packaged" "$version"

sed -n 's/^Package: //p' "$debian/control" | sort >packages
find "$debian" -name '*.install' | sed 's,.*/,,; s,[.]install$,,' | sort >installed
is "each package has a list of files" "$(cat installed)" "$(cat packages)"

# soname LIBRARY
soname() { readelf -Wd "$1" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p'; }
library=$(soname "$minimal" | sed 's/[.]so[.]//; s/_/-/g')
if grep -q "enable-gperftools-soname" "$top_builddir/config.log"; then
    skip "the library's package is named after it" "configured otherwise"
else
    check "the library's package is named after it" grep -qx "$library" packages
fi

# A Debian package that this project can be built with is a part of the build.
sed -n '/^Build-Depends:/,/^Standards/p' "$debian/control" >depends
(
    . "$top_srcdir/tests/lib/prepare.sh"
    required_packages
    useful_packages
) | awk '$1 ~ /^lib.*-dev$/ && $1 != "libc6-dev" { print $1 }' >libraries
at_least "libraries to build with" "$(wc -l <libraries)" 5
while read -r name; do
    grep -qw -e "$name" depends || echo "$name"
done <libraries >forgotten
is "each is needed to build the packages" "$(cat forgotten)" ""

# --- Notices ------------------------------------------------------------------

for name in lz4 zlib zstd bzip2 libiberty; do
    check "NOTICES has that of $name" \
        grep -q "^$name.*: Copyright\|^lib$name.*: Copyright" \
        "$top_srcdir/NOTICES"
done
run make -C "$top_builddir" deb deb_tools=no-such-tool
is "make deb looks for its tools first" \
    "$(grep -c '^make deb: no-such-tool is missing' "$err") $(wc -l <"$out")" \
    "1 $(grep -c 'directory' "$out")"

# --- Files -------------------------------------------------------------------

run make -s -C "$top_builddir" install DESTDIR="$work/root" prefix=/usr \
    exec_prefix=/usr libdir=/usr/lib/multiarch bindir=/usr/bin \
    includedir=/usr/include datarootdir=/usr/share datadir=/usr/share \
    mandir=/usr/share/man docdir=/usr/share/doc/malloc-trace
is "make install" $status 0
# All but what debian/rules removes.
(cd root && find usr ! -type d) |
    grep -vE '[.]la$|^usr/share/doc/malloc-trace/(COPYING|CHANGELOG.md)$' |
    sort >files
at_least "files are installed" "$(wc -l <files)" 70
for name in $(cat packages); do
    while read -r pattern; do
        (
            cd root || exit
            # shellcheck disable=SC2086
            find $pattern ! -type d 2>/dev/null
        ) >found
        [ -s found ] || echo "$name: $pattern" >>unmatched
        cat found
    done <"$debian/$name.install"
done | sort >listed
: >>unmatched
# The archives are missing where configure was told to make none.
grep -q '[.]a$' files || sed -i '/[.]a$/d' unmatched
is "each pattern names files" "$(cat unmatched)" ""
is "each file is in one package, and no other" \
    "$(grep -vE '[.]la$|/(COPYING|CHANGELOG.md)$' listed | diff files -)" ""
for file in root/usr/lib/multiarch/malloc-trace/*.so; do
    name=$(soname "$file")
    check "the loader finds $name" [ -e "root/usr/lib/multiarch/$name" ]
done

[ "${LONG:-0}" = 1 ] || tap_end

# --- Built twice -------------------------------------------------------------

for name in dpkg-buildpackage dh lintian xz; do
    have $name || {
        skip "make deb" "no $name here (dpkg-dev, debhelper, lintian, xz-utils)"
        tap_end
    }
done
run dpkg-checkbuilddeps "$debian/control" || {
    skip "make deb" "$(tail -n 1 "$err")"
    tap_end
}
tree=malloc-trace-$version
run make -C "$top_builddir" deb deb_folder="$work/first"
is "make deb" $status 0
[ $status -eq 0 ] || { tail -n 30 "$out" "$err" | diag 70; tap_end; }

# From the distribution itself, whose time is the commit's, by another user's
# habits.
mkdir -p "elsewhere/a-longer-name" && cd elsewhere/a-longer-name || exit 99
xz -dc "$work/first/malloc-trace_$version.orig.tar.xz" | tar -xf -
mkdir build
(
    umask 077
    LC_ALL=C
    TZ=Asia/Tokyo
    export LC_ALL TZ
    cd build && "../$tree/configure" -q && make deb
) >"$work/second.log" 2>&1
is "make deb in a distribution" $? 0
cd "$work" || exit 99
[ "$tap_failed" -eq 0 ] || tail -n 30 second.log | diag 30
second=elsewhere/a-longer-name/build/build/deb
for file in first/*.deb first/*.dsc first/*.tar.xz; do
    check "the same bytes: $(basename "$file")" \
        cmp "$file" "$second/$(basename "$file")"
done
check "the distribution names no user" sh -c \
    'xz -dc first/*.orig.tar.xz | tar -tv --numeric-owner -f - |
        awk "\$2 != \"0/0\" { bad = 1 } END { exit bad }"'

# Hardening of the distribution's flags must not get into the fast paths.
for file in first/libtcmalloc-minimal-malloc-trace4_*.deb; do
    dpkg-deb -x "$file" packaged
done
find packaged -name '*.so.*' -type f -exec nm -D {} + >symbols
at_least "the packaged libraries have symbols" "$(wc -l <symbols)" 200
is "no fortified calls in them" \
    "$(grep -v __stack_chk symbols | grep -c '_chk@')" 0

run lintian --fail-on error,warning first/*.changes
is "lintian" $status 0
diag 40 <"$out"

# --- Installed ---------------------------------------------------------------

have debootstrap && [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null || {
    skip "the packages in a chroot" "not root, or no debootstrap"
    tap_end
}
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
root=$work/chroot
run debootstrap --variant=minbase "$suite" "$root" \
    "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" || {
    skip "the packages in a chroot" "no $suite: $(tail -n 1 "$out")"
    tap_end
}
cp /etc/resolv.conf "$root/etc/"
# A mirror may be a snapshot of some day.
echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/snapshot"
mkdir "$root/packages"
cp first/*.deb first/*.dsc first/*.tar.xz first/*.changes first/*.buildinfo \
    "$root/packages/"
cp -R "elsewhere/a-longer-name/$tree" "$root/source"
cat >"$root/try" <<'END2'
set -eu
DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND
apt-get -qq update
# Packages that another one recommends, as libc6 does libidn2, go, too.
echo 'APT::AutoRemove::RecommendsImportant "false";' \
    >/etc/apt/apt.conf.d/recommends
# Packages that tests/control asks for, other than these, and what runs it.
apt-get -qq install -y --no-install-recommends autopkgtest dpkg-dev \
    $(sed -n 's/^Depends: //p' /source/packaging/debian/tests/control |
        tr ',' '\n' | grep -vE 'malloc-trace') >/dev/null
files() {
    find / -xdev ! -type d ! -path '/packages/*' ! -path '/source/*' \
        ! -path '/tmp/*' ! -path '/var/*' ! -path '/etc/ld.so.cache' | sort
}
apt-get -qq autoremove --purge -y
files >/tmp/before
apt-get -qq install -y --no-install-recommends /packages/*.deb
# The tests of the source package, with the packages beside it, in this system.
autopkgtest --summary-file=/tmp/summary /packages/*.changes -- null
sed 's/^/autopkgtest: /' /tmp/summary
apt-get -qq autoremove --purge -y \
    $(dpkg-query -W -f '${Package}\n' | grep malloc-trace)
files >/tmp/after
diff /tmp/before /tmp/after
if ldconfig -p | grep -E 'malloc.trace|tcmalloc_minimal_tracing'; then
    exit 1
fi
echo "removed: all"
END2
unshare -m --propagation private sh -c '
    for folder in proc sys dev; do
        mount --rbind "/$folder" "$1/$folder" || exit
    done
    exec chroot "$1" sh /try' sh "$root" >tried 2>&1 </dev/null
is "the chroot's commands succeed" $? 0
for line in "autopkgtest: readme.sh *PASS" "autopkgtest: link.sh *PASS" \
    "removed: all"; do
    check "$line" grep -qx "$line" tried
done
[ "$tap_failed" -eq 0 ] || tail -n 40 tried | diag 40
tap_end
