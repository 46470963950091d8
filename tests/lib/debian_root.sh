# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2154
# A release of Debian in a folder, and commands in it: for tests/releases.sh and
# .ci/run, which read prepare.sh first. Only root can make one.

# can_make_root: tells whether this machine can; installs debootstrap.
can_make_root() {
    [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null || return 1
    have debootstrap || install debootstrap 2>/dev/null || return 1
}

# make_root FOLDER SUITE: its smallest system. false: the mirror has it no more.
make_root() {
    quietly "$1.log" debootstrap --variant=minbase "$2" "$1" \
        "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" || return 1
    # A mirror may be a snapshot of some day.
    echo 'Acquire::Check-Valid-Until "false";' \
        >"$1/etc/apt/apt.conf.d/snapshot"
    cp /etc/resolv.conf "$1/etc/"
}

# in_root FOLDER COMMAND...: as root there. The mounts are in a namespace that
# ends with the command, so nobody removes what they show.
in_root() {
    # shellcheck disable=SC2016
    unshare -m --propagation private sh -c '
        root=$1
        shift
        for name in proc sys dev; do
            mount --rbind "/$name" "$root/$name" || exit
        done
        exec chroot "$root" "$@"' sh "$@" </dev/null
}
