#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Output that cannot be opened or written: one line on stderr, and the program
# goes on to its own end.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/process/process_target" "$built/recorder/exchange"
target=$built/process/process_target
want=$("$built/recorder/exchange" 4 40000)
cd "$work" || exit 99

# fails NAME OUT: the program's output and status stay, and one line is said.
fails() {
    record "$2" "$built/recorder/exchange" 4 40000 >out 2>err
    is "$1: exit status" $? 0
    is "$1: the program's output" "$(cat out)" "$want"
    if one_line err; then
        pass "$1: one line on stderr"
    else
        fail "$1: one line on stderr"
        diag <err
    fi
    record "$2" "$target" status 41 >out 2>err
    is "$1: a program's own exit status" $? 41
}

fails "missing folder" "$work/none/t"
check "missing folder: the line names it" grep -q "$work/none/t" err
mkdir dir
fails "a folder" "$work/dir"
fails "full device" /dev/full
long=$(printf '%04000d' 0)
fails "long name" "$work/$long$long"
fails "bad descriptor" /dev/fd/99

if others_can; then
    mkdir locked
    chmod 555 locked
    chmod 755 "$work"
    (
        timeout 60 setpriv --reuid 65534 --clear-groups env \
            LD_PRELOAD="$tracing" TCMALLOC_TRACE_OUTPUT="$work/locked/t" \
            "$target" status 41 2>err
        echo $? >status
    )
    is "read-only folder: exit status" "$(cat status)" 41
    check "read-only folder: one line on stderr" one_line err
elif [ "$(id -u)" != 0 ]; then
    mkdir locked
    chmod 555 locked
    fails "read-only folder" "$work/locked/t"
else
    skip "read-only folder" "$why_no_others"
fi

# A limit on the size of files: no SIGXFSZ, and what was written is kept.
for kib in 8 100 1000; do
    (
        ulimit -f $((kib * 2)) 2>/dev/null
        record "$work/limit$kib.$suffix" "$built/recorder/exchange" 4 200000 >out 2>err
        echo $? >status
    )
    is "file size limit of $kib KiB: exit status" "$(cat status)" 0
    if one_line err; then
        pass "file size limit of $kib KiB: one line on stderr"
    else
        fail "file size limit of $kib KiB: one line on stderr"
        diag <err
    fi
done
if [ -x "$postprocess" ] && [ -n "$python" ]; then
    # Seldom, on a busy machine, the last segment is cut: tried up to three
    # times, since what is shown is that it can be whole.
    for attempt in 1 2 3; do
        "$postprocess" --quiet --json json "$work/limit1000.$suffix" p 2>err
        status=$?
        grep -q ': damaged' err || break
        note "attempt $attempt: $(grep ': damaged' err)"
        rm -f "$work/limit1000.$suffix"*
        (
            ulimit -f 2000 2>/dev/null
            record "$work/limit1000.$suffix" "$built/recorder/exchange" 4 200000 \
                >out 2>&1
        )
    done
    (exit $status)
    is "file size limit: what is there can be processed" $? 3
    is "file size limit: known to be incomplete" "$(json json complete)" false
    at_least "file size limit: events" "$(json json events)" 10000
    is "file size limit: it ends with a whole segment" \
        "$(grep -c ': damaged' err) $(json json clean_end)" "0 true"
fi

# A file system that fills up.
if [ "$(id -u)" = 0 ] && mkdir small &&
    mount -t tmpfs -o size=512k none small 2>/dev/null; then
    cleanup() { umount "$work/small" 2>/dev/null; }
    fails_big() {
        record "$work/small/t.$suffix" "$built/recorder/exchange" 4 200000 >out 2>err
        is "full file system: exit status" $? 0
        if one_line err; then
            pass "full file system: one line on stderr"
        else
            fail "full file system: one line on stderr"
            diag <err
        fi
    }
    fails_big
    if [ -x "$postprocess" ] && [ -n "$python" ]; then
        "$postprocess" --quiet --json json "$work/small/t.$suffix" p 2>err
        is "full file system: what is there can be processed" $? 3
        is "full file system: known to be incomplete" \
            "$(json json complete)" false
        # Nor does a footer that finds no room make it a killed program's.
        check "full file system: it says why" grep -q "had to stop" err
    fi
else
    skip "full file system" "cannot mount"
fi

# The file is removed meanwhile.
record "$work/gone.$suffix" "$built/recorder/exchange" 4 1000000 >out 2>err &
program=$!
eventually 10 [ -s "gone.$suffix" ]
rm "gone.$suffix"
wait $program
is "removed file: exit status" $? 0
check "removed file: the program is whole" grep -q whole out
check "removed file: one line on stderr" one_line err
check "removed file: the line says so" \
    grep -q "recording stopped.*gone.$suffix: No such file" err

# It is copied and truncated meanwhile, as to rotate a log.
record "$work/cut.$suffix" "$built/recorder/exchange" 4 1000000 >out 2>err &
program=$!
eventually 10 [ -s "cut.$suffix" ]
: >"cut.$suffix"
wait $program
is "truncated file: exit status" $? 0
check "truncated file: the program is whole" grep -q whole out
check "truncated file: one line on stderr" one_line err
check "truncated file: the line says so" \
    grep -q "recording stopped.*cut.$suffix: the file was truncated" err
[ ! -s "cut.$suffix" ] || [ -n "$(head -c 4 "cut.$suffix" | tr -d '\0')" ]
result "truncated file: does not begin with a hole" $?

# The current folder is removed before.
mkdir folder
(cd folder && rmdir ../folder &&
    record "there.$suffix" "$built/process/process_target" status 41 >../out 2>../err)
is "removed folder: exit status" $? 41
is "removed folder: what is said" "$(cat err)" \
    "tcmalloc: cannot record to there.$suffix: No such file or directory"

# A reader that goes away.
mkfifo fifo
timeout 60 head -c 1000 fifo >/dev/null &
record "$work/fifo" "$built/recorder/exchange" 4 200000 >out 2>err
is "dead reader: exit status" $? 0
if one_line err; then
    pass "dead reader: one line on stderr"
else
    fail "dead reader: one line on stderr"
    diag <err
fi
wait

# Descriptor 2 is not ours when it is closed, or something else by then.
record "$work/none/t" "$target" plain 2>&-
is "closed stderr: exit status" $? 0
record "$work/none/t" sh -c 'exec 2>other; i=0
while [ $i -lt 2000 ]; do i=$((i + 1)); x=$x$i; done' 2>err
is "replaced stderr: exit status" $? 0
[ ! -s other ]
is "replaced stderr: nothing is written to it" $? 0

# A message that cannot be written ends no program: descriptor 2 is a pipe without
# a reader, or a file, of which the program may write no byte.
if [ -n "$python" ]; then
    cat >ends.py <<'END'
import os, resource, signal, subprocess, sys
def limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
def end(err, before):
    return subprocess.call(sys.argv[1:], stderr=err, restore_signals=True,
                           preexec_fn=before)
reader, writer = os.pipe()
os.close(reader)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
print(end(writer, None), end(open("err", "w"), limit))
END
    for settings in "TCMALLOC_TRACE_OUTPUT=$work/none/t" \
        "TCMALLOC_TRACE_OUTPUT=$work/said TCMALLOC_TRACE_STATS=1"; do
        # shellcheck disable=SC2086
        is "nobody reads stderr, or it is full: ${settings##*/}" "$("$python" \
            ends.py env LD_PRELOAD="$tracing" $settings "$target" status 41)" \
            "41 41"
    done
else
    skip "stderr that cannot be written" "no python3"
fi

# Settings that make no sense are said and do no harm.
for bad in TCMALLOC_TRACE_BUFFER_MB=x TCMALLOC_TRACE_OVERFLOW=maybe \
    TCMALLOC_TRACE_LIMIT_MB=-5 TCMALLOC_TRACE_SITES=everywhere; do
    record "$work/set.$suffix" env "$bad" "$target" status 41 >out 2>err
    is "$bad: exit status" $? 41
done
tap_end
