#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Other users of the system: what they can see of a recording, and do to it.
# Modes, locks, files left behind.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/recorder/exchange" "$postprocess" "$replay" "$malloc_trace"
need_python
want=$("$built/recorder/exchange" 3 12000)
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
            "$built/recorder/exchange" 3 12000
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
others_can &&
    as="setpriv --reuid 65534 --regid 65534 --clear-groups"
$as "$python" hold.py dead.spool <hold.in >hold.out &
exec 8>hold.in
read -r line <hold.out
is "a dead spool is locked by who may read it" "$line" held
"$postprocess" --json json dead dead.p 2>err
is "locked dead spool: not taken for a recording" \
    "$(grep -c 'being recorded' err)" 0
record "$work/dead" "$built/recorder/exchange" 3 12000 >out 2>err
is "locked dead spool: is replaced" "$(echo dead*) $(cat out err)" \
    "dead dead.p $want"
exec 8>&-
wait

# --- Own links and FIFOs ---------------------------------------------------
mkdir open
chmod 1777 open
ln -s ../own open/link
record "$work/open/link" "$built/recorder/exchange" 3 12000 >out 2>err
is "an own link in a sticky folder" "$(cat out err) $(mode own)" "$want 600 "
mkfifo open/fifo
cat open/fifo >piped &
record "$work/open/fifo" "$built/recorder/exchange" 3 12000 >out 2>err
wait $!
is "an own FIFO in a sticky folder" "$(cat out err)" "$want"
"$postprocess" --quiet --json json piped piped.p
is "is whole" "$(json json complete clean_end)" "true true"
ln -s /dev/stdout open/stdout
record "$work/open/stdout" "$built/recorder/exchange" 3 12000 2>err | cat >piped
"$postprocess" --quiet --json json piped piped.p 2>>err
at_least "an own link to standard output" "$(json json events)" 40000

# --- Planted ones -----------------------------------------------------------
strangers() { # VICTIM USER
    who=$1
    victim="setpriv --reuid $2 --regid $2 --clear-groups"
    stranger="setpriv --reuid 65534 --regid 65534 --clear-groups"
    rm -rf open/* "home$2"
    mkdir "home$2"
    echo precious >"home$2/file"
    chown -R "$2:$2" "home$2"
    chmod 755 "home$2"
    chmod 644 piped piped.p
    $stranger sh -c "ln -s '$work/home$2/file' open/t &&
        ln -s '$work/home$2/file' open/z.spool && ln -s '$work/home$2' open/sub &&
        mkfifo -m 666 open/fifo && mkdir open/own && chmod 777 open/own &&
        ln -s '$work/home$2/file' open/own/t && : >open/file &&
        chmod 666 open/file"
    # The reader of the FIFO gets nothing.
    $stranger timeout 60 cat open/fifo >fifo.got &
    reader=$!
    for name in t sub/file fifo own/t; do
        $victim env LD_PRELOAD="$tracing" \
            TCMALLOC_TRACE_OUTPUT="$work/open/$name" \
            "$built/recorder/exchange" 3 12000 >out 2>err
        is "$who, recording to a planted $name: the program" "$? $(cat out)" \
            "0 $want"
        check "$who, recording to a planted $name: one line" one_line err
        check "$who, recording to a planted $name: says why" \
            grep -q "$work/open/$name: another user's link, file or FIFO" err
        for tool in "$postprocess --quiet piped" \
            "$postprocess --quiet piped /dev/null --json" \
            "$replay piped.p --json" "$malloc_trace info piped --json" \
            "$replay piped.p --timeline" \
            "$malloc_trace report piped.p --to=csv -o" \
            "$malloc_trace compare -q -n 1 -a glibc -a tcmalloc-mt piped.p --csv"; do
            # shellcheck disable=SC2086
            $victim $tool "open/$name" >out 2>err
            is "$who, ${tool##*/} to a planted $name" "$?" 1
            check "$who, ${tool##*/} to a planted $name: says why" \
                grep -q "open/$name: another user's link, file or FIFO" err
        done
    done
    for tool in "$postprocess --quiet piped" "$replay piped.p --json"; do
        # shellcheck disable=SC2086
        $victim $tool "open/file" >out 2>err
        is "$who, ${tool##*/} to a stranger's file" "$?" 1
        check "$who, ${tool##*/} to a stranger's file: says why" \
            grep -q "open/file: another user's link, file or FIFO" err
    done
    is "$who: nothing was written through them" \
        "$(cat "home$2/file" open/file fifo.got)" precious
    is "$who: nor beside" "$(ls "home$2")" file
    kill $reader 2>/dev/null
    # A name of the spool that is taken costs nothing but the name.
    $victim env LD_PRELOAD="$tracing" TCMALLOC_TRACE_OUTPUT="$work/open/z" \
        "$built/recorder/exchange" 3 12000 >out 2>err
    is "$who, a planted spool: the program" "$(cat out err)" "$want"
    is "$who, a planted spool: the link is not followed" \
        "$(cat "home$2/file")" precious
    is "$who, a planted spool: a trace" "$(find open -name 'z*' -type f)" \
        "$3"
}
if others_can; then
    strangers root 0 open/z.1
    strangers "a user" 1 open/z.1
    # A group's folder.
    mkdir group
    : >group/p
    chown -R 65534:7 group
    chmod 2775 group
    chmod 664 group/p
    chmod 644 own
    setpriv --reuid 1 --regid 7 --clear-groups "$postprocess" --quiet own \
        group/p 2>err
    is "a file that a group shares" "$? $(cat err)" "0 "
    at_least "has what was written" "$(stat -c %s group/p)" 1000
    # A file that anybody may write to is replaced, not filled.
    : >open/m
    chmod 666 open/m
    chown 65534 open/m
    record "$work/open/m" true
    is "a stranger's file is replaced" "$(stat -c '%a %u' open/m)" "600 0"
else
    skip "planted links" "$why_no_others"
fi

# --- What is left behind -------------------------------------------------
left() { find "$1" -name '.malloc-trace-*' | wc -l; }
mkdir limit
for blocks in 0 1 2 8 64 400; do
    for name in t p.%p; do
        (
            ulimit -f $blocks 2>/dev/null
            record "$work/limit/$name" "$built/recorder/exchange" 3 12000 >/dev/null
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
                    "$built/recorder/exchange" 3 12000 >out 2>err
                is "$size, $name, $keep: the program" "$? $(cat out)" "0 $want"
                is "$size, $name, $keep: nothing under another name" \
                    "$(left small)" 0
            done
        done
    done
else
    skip "full file system" "cannot mount"
fi
tap_end
