#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What other users of the system can see of a recording, and do to it: modes,
# locks, files left behind.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need "$tlib" "$built/exchange" "$post"
need_python
want=$("$built/exchange" 3 12000)
cd "$work" || exit 99
mode() { stat -c %a "$@" | sort -u | tr '\n' ' '; }

# --- Modes ---------------------------------------------------------------
# A killed program leaves file and spool.
for mask in 000 022 777; do
    mkdir "mask$mask"
    echo old >"mask$mask/t"
    chmod 666 "mask$mask/t"
    (
        umask $mask
        record "$work/mask$mask/t" sh -c 'kill -9 $$'
        record "$work/mask$mask/p.%p" sh -c 'kill -9 $$'
        record "$work/mask$mask/k" env TCMALLOC_TRACE_KEEP_MB=1 \
            "$built/exchange" 3 12000
        record "$work/mask$mask/e.%p" true
    ) >out 2>err
    is "umask $mask: files and spools are their owner's alone" \
        "$(mode "mask$mask"/*)" "600 "
    at_least "umask $mask: all of them" "$(find "mask$mask" -type f | wc -l)" 5
done

# --- Locks ---------------------------------------------------------------
# Who may read a dead spool locks what he can.
cat >hold.py <<'PY'
import fcntl, sys
f = open(sys.argv[1], "rb")
fcntl.flock(f, fcntl.LOCK_EX)
fcntl.lockf(f, fcntl.LOCK_SH)
print("held", flush=True)
sys.stdin.read()
PY
mkfifo hold.in hold.out
record "$work/dead" sh -c 'kill -9 $$' 2>err
chmod 755 "$work"
chmod 644 dead.spool
as=
[ "$(id -u)" = 0 ] && have setpriv &&
    as="setpriv --reuid 65534 --regid 65534 --clear-groups"
$as "$python" hold.py dead.spool <hold.in >hold.out &
exec 8>hold.in
read -r line <hold.out
is "a dead spool is locked by who may read it" "$line" held
"$post" --json json dead dead.p 2>err
is "locked dead spool: not taken for a recording" \
    "$(grep -c 'being recorded' err)" 0
record "$work/dead" "$built/exchange" 3 12000 >out 2>err
is "locked dead spool: is replaced" "$(echo dead*) $(cat out err)" \
    "dead dead.p $want"
exec 8>&-
wait

# --- What is left behind -------------------------------------------------
left() { find "$1" -name '.malloc-trace-*' | wc -l; }
mkdir limit
for blocks in 0 1 2 8 64 400; do
    for name in t p.%p; do
        (
            ulimit -f $blocks 2>/dev/null
            record "$work/limit/$name" "$built/exchange" 3 12000 >/dev/null
            echo $? >status
        ) 2>err
    done
done
is "file size limit: nothing is left under another name" "$(left limit)" 0
mkdir small
if [ "$(id -u)" = 0 ] && mount -t tmpfs none small 2>/dev/null; then
    cleanup() { umount "$work/small" 2>/dev/null; }
    for size in size=4k size=36k size=40k size=44k size=200k size=600k \
        nr_inodes=1 nr_inodes=2 nr_inodes=3; do
        for name in t p.%p; do
            for keep in 0 1; do
                find small -mindepth 1 -delete
                mount -o "remount,size=1m,nr_inodes=100" small
                mount -o "remount,$size" small
                record "$work/small/$name" env TCMALLOC_TRACE_KEEP_MB=$keep \
                    "$built/exchange" 3 12000 >out 2>err
                is "$size, $name, $keep: the program" "$? $(cat out)" "0 $want"
                is "$size, $name, $keep: nothing under another name" \
                    "$(left small)" 0
            done
        done
    done
else
    skip "full file system" "cannot mount"
fi
done_testing
